r"""
P-Norm Push: the clean top grows with p
=======================================

Two features, many positives, and three negatives that lie high in one of them. With p = 1 every positive–negative pair
counts alike, and all other negatives together outweigh the three. A larger p charges a negative more than in proportion
to the positives below it, so the direction turns until those three come down.
"""

# %%
# The data
# --------
# Made to show the effect: three of the 123 negatives form a group of their own, high in feature 2.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank import metrics, plotting

rng = np.random.default_rng(1)
positives = rng.normal(size=(120, 2)) + [1.8, 1.8]
negatives = np.vstack([rng.normal(size=(120, 2)), 0.3 * rng.normal(size=(3, 2)) + [0.0, 3.5]])
X = np.vstack([positives, negatives])
y = np.r_[np.ones(len(positives)), np.zeros(len(negatives))]

# %%
# One fit for each p
# ------------------
# ``l2`` is small: it makes the minimiser unique and gives the gap its meaning, a bound on objective −
# optimum.
powers = (1, 4, 16, 64)
solutions = {p: cr.problems.PNormPush(X, y, p=p, l2=1e-4).solve() for p in powers}
for p, solution in solutions.items():
    top = metrics.positives_at_top(y, X @ solution.x)
    print(f"p = {p:<3} AUC {metrics.auc(y, X @ solution.x):.3f}, {top:2} positives above every negative, "
          f"gap {solution.gap:.0e}")  # fmt: skip

# %%
# The figure
# ----------
# Each line passes through the highest negative, at right angles to the weights: the positives beyond it are
# the clean top. On the right the same four rankings as ROC curves, enlarged at the top of the list.
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
panels[0].scatter(*negatives.T, s=14, marker="x", color="0.55", label="negative")
panels[0].scatter(*positives.T, s=14, color="#d55e00", label="positive")
panels[0].set(xlim=(-3.2, 5.2), ylim=(-4.0, 5.0), xlabel="feature 1", ylabel="feature 2")
panels[0].set_title("lines through the highest negative")
curves = {p: (y, X @ solution.x) for p, solution in solutions.items()}
plotting.roc(curves, zoom=None, ax=panels[1])
panels[1].set(xlim=(0, 40), ylim=(0, 121), title="the first 40 negatives")
for line, (p, solution) in zip(panels[1].lines, solutions.items(), strict=True):
    w = solution.x / np.linalg.norm(solution.x)
    through = w * (negatives @ w).max()
    along = np.array([-w[1], w[0]])
    ends = np.array([through - 9 * along, through + 9 * along])
    panels[0].plot(*ends.T, color=line.get_color(), label=f"p = {p}")
panels[0].legend(loc="lower left", fontsize="small", ncols=2)
plt.show()
