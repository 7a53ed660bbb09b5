r"""
RmaxPush: only the worst negative counts
========================================

RmaxPush minimises the largest mean loss that any negative causes. With the hinge loss it is a linear program.
"""

# %%
# The mean loss of every negative
# -------------------------------
# The hinge loss on the breast cancer data: p = 1 minimises the mean of these mean losses, p = 4 the mean of
# their fourth powers, RmaxPush their maximum.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

import convexrank as cr
from convexrank import metrics
from convexrank.plotting.style import styles

X, y = load_breast_cancer(return_X_y=True)
X = minmax_scale(X[:, :6], (-1, 1))
positive, negative = y == 1, y == 0
shares = np.where(positive, 1 / positive.sum(), 1 / negative.sum())
problems = {p: cr.problems.Push(X, y, price=p, loss="hinge", l2=1e-6, sample_weight=shares) for p in (1, 4)}
problems[np.inf] = cr.problems.RmaxPush(X, y, "hinge", l2=1e-6)

figure, panel = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
for p, style in styles(problems).items():
    solution = problems[p].solve()
    scores = X @ solution.x
    losses = np.maximum(1 - (scores[positive][None, :] - scores[negative][:, None]), 0).mean(axis=1)
    label = f"p = {p}, Push" if np.isfinite(p) else "p = ∞, RmaxPush"
    panel.plot(np.arange(1, 61), np.sort(losses)[::-1][:60], label=label, **style)
    print(f"{label:<16} largest {losses.max():.3f}, mean {losses.mean():.3f}, gap {solution.gap:.0e}; "
          f"R_max/I = {metrics.r_max(y, scores) / positive.sum():.3f}")  # fmt: skip
panel.set(xlabel="negative, by its mean loss", ylabel="mean hinge loss of the positives against it")
panel.grid(alpha=0.25)
panel.legend()
plt.show()

# %%
# The largest mean loss bounds :math:`R_{\max}/I` from above, the share of the positives at or below the
# highest negative. Bringing it down does not have to bring :math:`R_{\max}` itself down by as much.
