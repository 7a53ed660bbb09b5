r"""
The dual: which rows determine a ranking
========================================

A push has a dual over the rows: a weight for each positive and for each negative, as even as possible, under which both
classes have nearly the same mean. The weights say how much each row contributes to the ranking.
"""

# %%
# Weights under which both classes meet
# -------------------------------------
# With l2 the solution is the sum of the rows times their dual weights, over :math:`\lambda_2`. A larger p moves the
# weight of the negatives to those at the top of the list.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank import plotting

rng = np.random.default_rng(0)
X, y = rng.normal(size=(120, 2)), np.arange(120) < 60
X[y] += [1.2, 0.6]
y[3] = False  # one positive row, deep among its own, with the wrong label
X[3] = [2.4, 1.4]
solutions = {p: cr.problems.PNormPush(X, y, p=p, l2=0.02).solve() for p in (1, 16)}
for p, solution in solutions.items():
    weights = solution.weights
    few = np.sort(-weights[~y])[::-1][:5].sum()
    print(
        f"p = {p}: gap of the weights {solution.dual.gap:.0e}, five negatives have {few:.0%} of their weight"
    )

# %%
# The figure
# ----------
# Each row is as large as its weight. Ring and cross are the means of the positives and of the negatives under the
# weights: nearly the same point. The wrong label has the largest weight of all rows: a place to look when data are
# cleaned.
figure, panels = plt.subplots(1, 3, figsize=(10.4, 3.6), layout="constrained", width_ratios=(1, 1, 0.9))
for panel, (p, solution) in zip(panels, solutions.items(), strict=False):
    weights = solution.weights
    for rows, color, marker in ((y, "#0072b2", "o"), (~y, "#d55e00", "+")):
        share = np.abs(weights[rows])
        panel.scatter(*X[rows].T, s=4 + 900 * share, color=color, alpha=0.6, linewidths=0)
        style = {"markersize": 16, "markeredgewidth": 2.2, "markerfacecolor": "none"}
        panel.plot(*(share @ X[rows]), marker=marker, color=color, **style)
    panel.annotate("wrong label", X[3], X[3] + [-1.2, 1.3], arrowprops={"arrowstyle": "->"}, fontsize="small")
    panel.set(title=f"p = {p}", xlabel="first feature", ylabel="second feature")
plotting.influence(solutions[1], top=10, names=[f"row {row}" for row in range(120)], ax=panels[2])
panels[2].set(title="p = 1", ylabel="")
plt.show()

# %%
# What if a row goes
# ------------------
# The bound needs no refit. It uses the weight of the row, the distance of the row from the mean of its class under the
# weights, and :math:`\lambda_2`. The strength is larger here, because strong convexity is all that the bound uses of
# the curvature.
solution = cr.problems.PNormPush(X, y, p=16, l2=0.5).solve()
bounds = cr.leave_one_out(solution)
for row in np.argsort(-bounds.distances)[:3]:
    keep = np.arange(120) != row
    without = cr.problems.PNormPush(X[keep], y[keep], p=16, l2=0.5).solve()
    moved = np.linalg.norm(without.x - solution.x)
    print(f"without row {row} w moves by {moved:.2f}, at most {bounds.distances[row]:.2f}")

# %%
# A theorem without a penalty
# ---------------------------
# A point of the dual bounds the optimum, wherever the minimiser is. Ball arithmetic makes the rows balance exactly.
free = cr.problems.PNormPush(X, y, p=4).solve()
print(free.certificate)
print(free.prove())
