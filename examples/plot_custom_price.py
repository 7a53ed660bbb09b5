r"""
Write your own price
====================

A price in one line: linear for small heights, steep for large ones. It keeps most of the push at the top of the
list and gives up less of the rest.
"""

# %%
# The price
# ---------
# A price is written once, as a function of r. The package checks the price, and decides which losses are allowed with
# it.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

import convexrank as cr
from convexrank import metrics, prices
from convexrank.plotting.style import styles

price = prices.Custom(lambda r: r + r**8)
print(f"convex in r: {price.convex}; convex in log r: {price.log_convex}")

# %%
# Solve, fast and exactly
# -----------------------
# Row weights 1/I and 1/K turn the sums of the objective into means, so that r is a share of the positives, and the two
# terms of the price are equal at r = 1.
X, y = load_breast_cancer(return_X_y=True)
X = minmax_scale(X[:, :6], (-1, 1))
shares = np.where(y == 1, 1 / (y == 1).sum(), 1 / (y == 0).sum())
problem = cr.problems.Push(X, y, price, l2=1e-6, sample_weight=shares)
fast, exact = problem.solve(), problem.solve(solver="exact")
print(f"{fast.status.name} with {fast.solver}, {exact.status.name} with the conic solver")
print(f"difference of the objectives {abs(fast.value - exact.value):.0e}, certified gap {fast.gap:.0e}")

# %%
# What it changes
# ---------------
# On these training rows: the top is as clean as with :math:`r^8`, and less of the area under the curve is lost.
choices = {"r": prices.Identity(), "r + r⁸": price, "r⁸": prices.Power(8)}
heights = {}
for name, choice in choices.items():
    scores = X @ cr.problems.Push(X, y, choice, l2=1e-6, sample_weight=shares).solve().x
    heights[name] = np.sort(metrics.heights(y, scores))[::-1]
    print(f"{name:<7} AUC {metrics.auc(y, scores):.4f}, "
          f"{metrics.positives_at_top(y, scores)} positives above every negative, "
          f"{(heights[name] > 0).sum()} negatives above some positive")  # fmt: skip

figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
r = np.linspace(0, 1.4, 300)
for (name, choice), style in zip(choices.items(), styles(choices).values(), strict=True):
    panels[0].plot(r, choice.g(r), label=name, **style)
    panels[1].plot(np.arange(1, 71), heights[name][:70], label=name, **style)
panels[0].set(xlabel="r", title="price g(r)", ylim=(0, 4))
panels[1].set(xlabel="negative, by height", title="height: positives at or below it", ylim=(0, None))
for panel in panels:
    panel.grid(alpha=0.25)
    panel.legend()
plt.show()
