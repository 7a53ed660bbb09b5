"""
Kernel learned divergence: a score that is not linear
=====================================================

Targets are a saturating function of the distance from the origin. No linear score can order them; a score from a kernel
can, and the link is learned with it.
"""

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

rng = np.random.default_rng(1)
x = rng.uniform(-2.0, 2.0, size=(250, 2))
truth = 1.0 - np.sum(x**2, axis=1) / 2.0
y = np.tanh(2.0 * truth) + 0.1 * rng.normal(size=250)


def kernel(a, b):
    """Gaussian kernel of width 1 between the rows of a and of b."""
    return np.exp(-0.5 * np.sum((a[:, None] - b) ** 2, axis=2))


# %%
# The link's slope is at most 1. The gap is a duality gap in the feature space.

problem = cr.problems.KernelLearnedDivergence(kernel(x, x), y, strong=1.0, l2=1e-4)
solution = problem.solve()
print(f"{solution.status.name}, gap {solution.gap:.1e}, {problem.linear.dimension} coordinates")

# %%
# Left, predictions on a grid that was not seen, with the rows; right, the targets against the score, and the link.

side = np.linspace(-2.0, 2.0, 41)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
predicted = problem.predict(kernel(grid, x), solution).reshape(41, 41)
scores = problem.K @ solution.x
order = np.argsort(scores)

figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
levels = np.linspace(-1.1, 1.1, 12)
filled = left.contourf(side, side, predicted, levels=levels, cmap="viridis", extend="both")
left.scatter(*x.T, c=y, cmap="viridis", vmin=-1.1, vmax=1.1, s=14, edgecolors="white", linewidths=0.5)
left.set_xlabel("first feature")
left.set_ylabel("second feature")
figure.colorbar(filled, ax=left, label="prediction")
right.plot(scores, y, ".", color="0.6", label="targets")
right.plot(scores[order], problem.expected(solution)[order], color="tab:blue", label="learned link")
right.set_xlabel("score Kα")
right.set_ylabel("target")
right.legend()
plt.show()
