r"""
Push: prices, losses, and the cost of a negative
================================================

The general objective has two parameters. The loss is the cost of one misranked pair; the price is the cost of a
negative for all positives below it.
"""

# %%
# Four fits
# ---------
# The squared hinge on the breast cancer data, with the prices r, r², r⁴ and r⁸. The objective is a sum of
# sums, as in the paper; row weights 1/I and 1/K turn it into a mean of means, so that ``l2`` keeps its
# meaning when p changes.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

import convexrank as cr
from convexrank import losses, prices
from convexrank.plotting.style import sequence, styles

X, y = load_breast_cancer(return_X_y=True)
X = minmax_scale(X[:, :6], (-1, 1))
shares = np.where(y == 1, 1 / (y == 1).sum(), 1 / (y == 0).sum())
paid = {}
for p in (1, 2, 4, 8):
    problem = cr.problems.Push(X, y, price=p, loss="squared_hinge", l2=1e-6, sample_weight=shares)
    solution = problem.solve()
    scores = X @ solution.x
    pair_losses = losses.SquaredHinge()(scores[y == 1][None, :] - scores[y == 0][:, None])
    paid[p] = np.sort(np.asarray(pair_losses).mean(axis=1))[::-1]
    print(
        f"p = {p}: largest mean loss {paid[p][0]:.2f}, average {paid[p].mean():.3f}; gap {solution.gap:.0e}"
    )

# %%
# The figure
# ----------
# Left: a loss bounds the 0-1 loss from above, except the logistic one with the natural logarithm, which is
# log 2 at a tie. Middle: prices. Right: the mean loss that each negative causes, largest first. A steeper
# price lowers the largest and lets the others grow.
figure, panels = plt.subplots(1, 3, figsize=(10.4, 3.8), layout="constrained")
z = np.linspace(-2, 3, 400)
colours = ("#d55e00", "#0072b2", "#009e73", "#cc79a7")
named = (losses.Exponential(), losses.Logistic(), losses.Hinge(), losses.SquaredHinge())
for loss, colour in zip(named, colours, strict=True):
    panels[0].plot(z, loss(z), color=colour, label=type(loss).__name__)
panels[0].plot(z, z <= 0, color="black", linestyle=":", label="0-1")
panels[0].set(ylim=(0, 4.5), xlabel=r"$z = f_i - f_k$", title=r"losses $\ell(z)$")
r = np.linspace(0, 3, 400)
named = (prices.LogOnePlus(), prices.Identity(), prices.Power(2), prices.Power(4), prices.ExpPrice())
for price, style in zip(named, sequence(5), strict=True):
    panels[1].plot(r, price.g(r), label=repr(price), **style)
panels[1].set(ylim=(0, 9), xlabel="r", title="prices g(r)")
for p, style in styles(paid).items():
    panels[2].plot(np.arange(1, 41), paid[p][:40], label=f"p = {p}", **style)
panels[2].set(xlabel="negative, by its mean loss", title="the 40 largest mean losses")
for panel in panels:
    panel.grid(alpha=0.25)
    panel.legend(fontsize="small")
plt.show()
