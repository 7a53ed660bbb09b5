"""
Learned divergence: a link found together with the scorer
=========================================================

Targets that depend on one direction of the features through an unknown increasing link. The link is never given: the
fitted values come from the learned divergence.
"""

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
direction = np.array([1.0, -0.5, 0.25])
y = 1.0 / (1.0 + np.exp(-4.0 * X @ direction)) + 0.05 * rng.normal(size=300)

# %%
# φ is taken strongly convex, so the link's slope is bounded, and the objective is differentiable.

problem = cr.problems.LearnedDivergence(X, y, strong=1.0, l2=1e-4)
solution = problem.solve()
cosine = solution.x @ direction / np.linalg.norm(solution.x) / np.linalg.norm(direction)
print(f"{solution.status.name}, gap {solution.gap:.1e}, cosine with the true direction {cosine:.4f}")

# %%
# The fitted values are monotone in the score; their curve is the learned link.

scores = X @ solution.x
order = np.argsort(scores)
figure, axes = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
axes.plot(scores, y, ".", color="0.6", label="targets")
axes.plot(scores[order], problem.expected(solution.x)[order], color="tab:blue", label="learned link")
axes.set_xlabel("score Xw")
axes.set_ylabel("target")
axes.legend()
plt.show()
