r"""
Figures 5 to 8 of the 2009 paper, and its one-dimensional example
=================================================================

*The P-Norm Push* (C. Rudin, JMLR 10, 2009) shows in Figures 5 to 7 ROC curves on MAGIC, ionosphere and housing: one
split, for p = 1 to 64 and the IR Push. Here are the exact minimisers on 30 splits: means, and one standard error.
Figure 8 and section 10.1 need no data.

The numbers are in ``examples/results/push_figures.json``. To compute them anew, with the data at hand::

    python examples/push_figures.py
"""

import matplotlib.pyplot as plt
import numpy as np
import push_figures as figures
import push_theory as theory
import shipped_results

from convexrank.plotting.style import label_text, styles

results = shipped_results.read(figures.FILE)
for name in figures.PAPER_2009:
    print(figures.show(name, results[name]), end="\n\n")

# %%
# Figures 5 to 7
# --------------
# On the left the top of the curves on training rows, on the right on test rows. The paper: "the trend from small to
# large p is able to be observed, despite variation due to train/test splits".

figure, grid = plt.subplots(3, 2, figsize=(10, 10.5), layout="constrained")
for line, (name, setting) in zip(grid, figures.PAPER_2009.items(), strict=True):
    x = setting.step * np.arange(figures.POINTS)
    for panel, part in zip(line, figures.PARTS, strict=True):
        found = results[name][part]
        for column, style in styles(setting.columns).items():
            place = setting.columns.index(column)
            mean, spread = (np.array(found[key][place]) for key in ("mean", "spread"))
            error = spread / np.sqrt(results[name]["splits"])
            text = "IR Push" if column == "IR" else label_text(column)
            panel.plot(x, mean, label=text, **style)
            panel.fill_between(x, mean - error, mean + error, color=style["color"], alpha=0.12, linewidth=0)
        panel.set_title(f"{setting.figure}: {name}, {part}", fontsize=10)
        panel.set(xlabel="false positives", ylabel="true positives")
        panel.grid(alpha=0.25)
grid[0, 0].legend(fontsize="small")
plt.show()

# %%
# Where the curves of large and small p cross, and how much larger p gains at the first negative:

for name, setting in figures.PAPER_2009.items():
    heads = np.array(results[name]["test"]["first"])
    gain = heads[:, setting.columns.index(64)] - heads[:, 0]
    cross = figures.crossing(setting, results[name]["test"]["mean"])
    print(
        f"{name:<22} test, above the first negative, p = 64 less p = 1: {gain.mean():+.2f} "
        f"± {gain.std(ddof=1) / np.sqrt(len(gain)):.2f};\n{'':<22} the mean curves cross at "
        + (f"{cross} false positives" if cross is not None else "none of the false positives shown")
    )

# %%
# Figure 8: an inequality
# -----------------------
# Lemma 7: for 0 ≤ a, b ≤ 1, :math:`|a^{1/p} - b^{1/p}| \le \min\{|a-b|\,a^{1/p-1},\ |a-b|^{1/p}\}`. The figure of the
# paper has p = 4, a = 0.4, and says that "in most cases" the first term is the better bound. It is exactly where
# :math:`|a - b| < a`, so for b < 2a: four fifths of the axis here, and everywhere when a ≥ ½.

b = np.linspace(0, 1, 1001)
lower, first, second = theory.lemma_7(0.4, b, 4)
print(f"the bound holds: {bool((lower <= np.minimum(first, second) + 1e-15).all())}")
print(f"the first term is the smaller one on {100 * (first < second).mean():.0f} % of the axis")

figure, panel = plt.subplots(figsize=(6.4, 4), layout="constrained")
panel.plot(b, second, color="#d55e00", label="|a − b|$^{1/p}$")
panel.plot(b, np.minimum(first, second), color="#0072b2", linestyle="--", label="the minimum")
panel.plot(b, lower, color="black", label="|a$^{1/p}$ − b$^{1/p}$|")
panel.axvline(0.8, color="0.7", linewidth=1)
panel.set(xlabel="b", ylabel="value", title="Figure 8: p = 4, a = 0.4", ylim=(0, None))
panel.legend()
plt.show()

# %%
# Section 10.1: the part of the distribution that matters
# -------------------------------------------------------
# The scores are in one dimension. Most negatives are uniform on [−1, 0] and most positives on [0, 1]. A share ε of the
# positives is on [−2, −1], and a share ε of the negatives on [1, 2]. Two functions to choose from, x and −x. By R_max
# the decreasing one is right; a sample chooses x when it lacks the tails.
#
# The paper says that x is chosen "with probability (1 − ε)^m", that no row is from a tail. That is a lower bound. In
# fact x is chosen as soon as *one* of the two tails is missing. The probability is 2(1 − ε/2)^m − (1 − ε)^m (ties count
# for x). For the p-norm, x is right up to some p. The panels have ε = 0.05.

epsilon, sizes, orders = 0.05, np.array([10, 20, 50, 100, 200, 500]), (1, 4, 8, 16, 64, np.inf)
turn = theory.turning_order(epsilon)
print(f"x is right for p < {turn:.2f}, −x for larger p; AUC of x: {(1 - epsilon) ** 2:.4f}")
wrong = {p: [theory.wrong_choices(epsilon, p, m, draws=400, seed=m) for m in sizes] for p in orders}
for p in orders:
    print(
        f"p = {label_text(p, bare=True):<3}"
        + "".join(f"  m={m}: {w:.3f}" for m, w in zip(sizes, wrong[p], strict=True))
    )
print("exact, p = ∞" + "".join(f"  m={m}: {theory.chooses_x(epsilon, m):.3f}" for m in sizes))

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
p = np.geomspace(1, 300, 200)
left.semilogx(p, [theory.true_norm(epsilon, q, True) for q in p], color="#0072b2", label="x")
left.semilogx(p, [theory.true_norm(epsilon, q, False) for q in p], color="#d55e00", label="−x")
left.axvline(turn, color="0.7", linewidth=1)
left.set(xlabel="p", ylabel="$R_p$ of the distribution, as a norm", title="which function is right")
left.legend()
for order, style in styles(orders).items():
    right.plot(sizes, wrong[order], marker=".", label=label_text(order), **style)
grid = np.arange(10, 501)
right.plot(grid, theory.chooses_x(epsilon, grid), "k--", linewidth=1, label="p = ∞, exact")
right.plot(grid, (1 - epsilon) ** grid, "k:", linewidth=1, label="(1 − ε)$^m$, the paper")
right.set(
    xlabel="rows m", ylabel="share of wrong choices", xscale="log", title="a sample chooses the wrong one"
)
right.legend(fontsize="small")
plt.show()

# %%
# For small p a few rows suffice. For R_max the tails decide, and the sample must have both. The power p = 64 is just
# above the turn: both functions are nearly equally good there, and 500 rows choose no better than at random. The AUC of
# x is above 0.9 whatever p: what the paper says of the AUC holds.
