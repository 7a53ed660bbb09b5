r"""
ConvexRisk: real labels, every pair, inside a ball
==================================================

The convex ranking risk over all pairs of rows with different labels, minimised over an ℓ₁ ball as in the boosting
class of the 2006 paper. The radius B decides how many features are used.
"""

# %%
# The path of the radius
# ----------------------
# Diabetes data of scikit-learn: ten features, a real-valued label. ``Logistic(base=2)`` is the paper's logit
# cost, 1 at a tie, so that the convex risk bounds the ranking risk.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

import convexrank as cr
from convexrank import losses, metrics

data = load_diabetes()
X, y = StandardScaler().fit_transform(data.data), data.target
radii = np.geomspace(0.03, 10, 12)
solutions = []
for radius in radii:
    problem = cr.problems.ConvexRisk(X, y, losses.Logistic(base=2), l1_ball=radius)
    solutions.append(problem.solve(x0=solutions[-1] if solutions else None, tol=1e-6))
print("largest gap:", f"{max(solution.gap for solution in solutions):.0e}")

# %%
# The figure
# ----------
# Left: the convex risk :math:`A_n` and the ranking risk :math:`L_n`, the share of pairs in the wrong order,
# with a band of two standard errors from Hoeffding's decomposition. Right: the weights; each solution
# warm-starts the next.
figure, panels = plt.subplots(1, 2, figsize=(9.8, 4.0), layout="constrained", sharex=True)
risks = [metrics.ranking_risk(y, X @ solution.x) for solution in solutions]
share, error = np.array([(risk.value, risk.standard_error) for risk in risks]).T
panels[0].plot(radii, [solution.value for solution in solutions], color="#0072b2", label=r"convex risk $A_n$")
panels[0].plot(radii, share, color="#d55e00", label=r"ranking risk $L_n$")
panels[0].fill_between(radii, share - 2 * error, share + 2 * error, color="#d55e00", alpha=0.2)
panels[0].set(xscale="log", ylim=(0, None), xlabel="radius B", title="risk")
weights = np.array([solution.x for solution in solutions])
for name, path in zip(data.feature_names, weights.T, strict=True):
    panels[1].plot(radii, path, label=name)
panels[1].set(xlabel="radius B", title="weights")
for panel in panels:
    panel.grid(alpha=0.25)
panels[0].legend()
panels[1].legend(fontsize="x-small", ncols=2)
plt.show()

# %%
# The bound holds all along the path: :math:`L_n \le A_n`.
print(bool(np.all(share <= [solution.value for solution in solutions])))
