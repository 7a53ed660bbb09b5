"""
Sensitivity: how far the minimiser moves
========================================

The targets of a learned divergence are changed 150 times, and the problem is solved again. The figure draws the
distance that the minimiser moved and three bounds on it: Theorem 8 as printed, the corrected bound, and the bound from
the certificate at the old minimiser.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 3))
y = np.tanh(X @ [1.0, -0.5, 0.2]) + 0.1 * rng.normal(size=30)
problem = cr.problems.LearnedDivergence(X, y, strong=0.5, l2=0.1)
solution = problem.solve(tol=1e-10)

# %%
# One change in three is orthogonal to all features: the printed bound is then 0.

moved, bounds = [], []
for k in range(150):
    change = 10.0 ** rng.uniform(-2.0, 0.5) * rng.normal(size=30)
    if k % 3 == 0:
        change -= X @ np.linalg.lstsq(X, change, rcond=None)[0]
    other = replace(problem, y=y + change).solve(tol=1e-10)
    moved.append(np.linalg.norm(other.x - solution.x))
    bounds.append(cr.perturbation_bound(problem, y + change, solution=solution))

# %%
# The corrected bounds lie above the diagonal. A third of the printed bounds lie at the bottom.

figure, axes = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
for name, marker in (("corrected", "^"), ("at_solution", "."), ("published", "x")):
    values = np.maximum([getattr(bound, name) for bound in bounds], 1e-4)
    axes.loglog(moved, values, marker, label=name.replace("_", " "))
    broken = sum(value < distance - 1e-4 for value, distance in zip(values, moved, strict=True))
    print(f"{name:12s} exceeded {broken} times of {len(moved)}")
ends = [min(moved), max(moved)]
axes.plot(ends, ends, color="0.5", linewidth=0.8)
axes.set_xlabel("distance moved")
axes.set_ylabel("bound (below 1e-4 drawn there)")
axes.legend()
plt.show()
