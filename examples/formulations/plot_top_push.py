r"""
TopPush: a maximum, and when zero is optimal
============================================

The limit p = ∞ replaces a smooth average over the negatives by their maximum. That brings kinks, and a limit of its
own: when the top of the list cannot be cleaned, the best weights are zero.
"""

# %%
# Two small data sets
# -------------------
# One feature. In the first the mean of the positives lies above every negative. In the second one negative
# more lies beyond that mean.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank.plotting.style import styles

feature = np.array([3.0, 2.2, 1.4, 0.6, 1.4, 0.8, -0.5, -1.5])
labels = np.array([1, 1, 1, 1, 0, 0, 0, 0])
beyond = np.append(feature, 2.4), np.append(labels, 0)
data = {"the mean positive is above all negatives": (feature, labels), "one negative is beyond it": beyond}
for name, (x, y) in data.items():
    print(f"{name}: mean positive {x[y == 1].mean():.2f}, highest negative {x[y == 0].max():.2f}")

# %%
# The objective along the one weight
# ----------------------------------
# :math:`R_p(w)` for several p, and its limit. At w = 0 the slopes of the limit are :math:`\max_k x_k - \bar
# x` to the right and :math:`\min_k x_k - \bar x` to the left, :math:`\bar x` the mean positive. In the second
# panel both point upwards away from zero: w = 0 is optimal.
weights = np.linspace(-0.6, 2.2, 281)
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained", sharey=True)
for panel, (name, (x, y)) in zip(panels, data.items(), strict=True):
    problems = {p: cr.problems.PNormPush(x[:, None], y, p=p) for p in (1, 4, 16, 64)}
    problems[np.inf] = cr.problems.TopPush(x[:, None], y)
    for p, style in styles(problems).items():
        values = [problems[p].objective([w]) for w in weights]
        panel.plot(weights, values, label=f"p = {p:g}" if np.isfinite(p) else "p = ∞, TopPush", **style)
    best = cr.problems.TopPush(x[:, None], y, l2=1e-6).solve()
    panel.plot(best.x, best.value, "o", color="#d55e00", label=f"its minimiser, w = {abs(best.x[0]):.2f}")
    panel.set(title=name, xlabel="weight w", ylim=(-0.55, 2.6))
    panel.grid(alpha=0.25)
    panel.legend(fontsize="small", loc="upper center")
panels[0].set_ylabel("objective")
plt.show()

# %%
# How far the limit is
# --------------------
# :math:`R_\infty - \tfrac{\log K}{p} \le R_p \le R_\infty` with K negatives, at every w:
x, y = beyond
limit = cr.problems.TopPush(x[:, None], y)
for p in (4, 16, 64):
    finite = cr.problems.PNormPush(x[:, None], y, p=p)
    distance = [limit.objective([w]) - finite.objective([w]) for w in weights]
    print(f"p = {p:<2}: distance {min(distance):.4f} to {max(distance):.4f}, bound {np.log(5) / p:.4f}")
