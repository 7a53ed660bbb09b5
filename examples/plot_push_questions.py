r"""
Two open questions of the 2009 paper
====================================

Section 9.1 of *The P-Norm Push* (C. Rudin, JMLR 10, 2009) asks which hypothesis spaces let p change the ROC curve
dramatically; section 9.2 asks whether it is useful to minimise R_max directly. Both are run here on data, over eight
random splits. The numbers are in ``examples/results/push_questions.json``; to compute them anew takes a few minutes::

    python examples/push_questions.py
"""

import matplotlib.pyplot as plt
import numpy as np
import push_questions as questions
import push_theory as theory
import shipped_results
from matplotlib.colors import TwoSlopeNorm

from convexrank.plotting.style import label_text

results = shipped_results.read(questions.FILE)

# %%
# Section 9.1: which hypothesis spaces
# ------------------------------------
# The paper expects dramatic changes where the space is limited (no almost consistent ranking), not too limited
# (better than guessing) and flexible (some negative weights). MAGIC, 1000 training rows, 200 rounds of boosting, nine
# spaces. *Change* is the largest difference of the true positive rates at p = 64 and p = 1.

spaces = {name: np.array(rows) for name, rows in results["spaces"].items()}
print(f"{'space':<22}{'AUC, training':>15}{'AUC, test':>12}{'change, training':>20}{'change, test':>16}")
for name, rows in spaces.items():
    mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
    print(
        f"{name:<22}{mean[0]:>15.3f}{mean[1]:>12.3f}"
        f"{mean[2]:>13.3f} ± {error[2]:.3f}{mean[3]:>10.3f} ± {error[3]:.3f}"
    )

figure, panels = plt.subplots(1, 2, figsize=(11, 4.4), sharey=True, layout="constrained")
kinds = {"column": "#0072b2", "product": "#009e73", "threshold": "#d55e00"}
for panel, part, place in zip(panels, ("training", "test"), (0, 1), strict=True):
    for (name, rows), marker in zip(spaces.items(), "ov^D*sPXd", strict=True):
        colour = next(colour for kind, colour in kinds.items() if kind in name)
        mean, error = rows.mean(axis=0), rows.std(axis=0, ddof=1) / np.sqrt(len(rows))
        panel.errorbar(
            mean[place], mean[2 + place], error[2 + place], error[place],
            fmt=marker, markersize=7, color=colour, capsize=2, label=name,
        )  # fmt: skip
    panel.set(xlabel=f"AUC at p = 1, {part} rows", title=f"change of the curve, {part} rows")
    panel.grid(alpha=0.25)
panels[0].set_ylabel("largest difference of the curves of p = 64 and 1")
panels[1].legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %%
# A space of two functions is enough for a change of the whole curve, where they disagree about the top: the
# distribution of section 10.1 (x or −x; tails of a share ε).

epsilon = 0.05
y, x = theory.draw(epsilon, 20000, np.random.default_rng(0))
for p in (1, 64, np.inf):
    norms = [theory.empirical_norm(y, sign * x, p) for sign in (1, -1)]
    print(f"p = {label_text(p, bare=True):<3} prefers {'x' if norms[0] <= norms[1] else '−x'}")
print(f"change of the curve: {questions.change_of_the_curve(y, {1: x, 64: -x}):.3f} (1 would be the most)")

# %%
# Section 9.2: R_max directly
# ---------------------------
# Rows: the p that was minimised, exactly, on training rows; ∞ is :class:`~convexrank.problems.TopPush`, the smoothed
# R_max. Columns: the order q of the measure on test rows, :math:`(R_q/(K I^q))^{1/q}`, smaller is better; q = ∞ is
# R_max/I. Each column is shown relative to p = 64.

figure, panels = plt.subplots(2, 2, figsize=(9.6, 8.4), sharex=True, sharey=True, layout="constrained")
image, norm = None, TwoSlopeNorm(0, -0.1, 0.1)
for panel, name in zip(panels.flat, questions.MATRICES, strict=True):
    found = results["orders"][name]
    less, mean = np.array(found["less p=64"]), np.array(found["mean"])
    relative = less / mean[questions.ORDERS.index(64)]
    image = panel.imshow(relative, cmap="RdBu_r", norm=norm)
    for (i, j), value in np.ndenumerate(relative):
        white = abs(value) > 0.06
        panel.text(
            j, i, f"{100 * value:+.0f}", ha="center", va="center", fontsize=9, color="w" if white else "k"
        )
    ticks = [label_text(q, bare=True) for q in questions.ORDERS]
    panel.set_xticks(range(len(ticks)), ticks)
    panel.set_yticks(range(len(ticks)), ticks)
    panel.set(
        title=f"{name}\np = ∞ ties all rows on {found['all tied']} of {questions.SPLITS}",
    )
    best = [label_text(questions.ORDERS[int(np.argmin(mean[:, j]))], bare=True) for j in range(mean.shape[1])]
    print(f"{name:<8} best p for q = 1, 2, 4, 8, 16, 64, ∞: " + ", ".join(best))
figure.supxlabel("order q, test")
figure.supylabel("p that was minimised")
figure.colorbar(image, ax=panels, label="relative to p = 64", shrink=0.8, extend="both")
plt.show()

# %%
# In per cent. Where no direction puts the mean of the positives above every negative, w = 0 is the minimiser at p = ∞
# and all rows tie. Minimising R_max directly then gives no ranking.
