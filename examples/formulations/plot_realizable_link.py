"""
Realizable link: targets that an unknown link explains exactly
==============================================================

The targets are an unknown increasing function of one direction, without noise. Three methods look for a point common to
two sets: the scores that such a link allows, and the scores that weights of bounded length can give.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

rng = np.random.default_rng(3)
X = rng.normal(size=(40, 3))
direction = np.array([1.0, -0.5, 0.25])
y = np.tanh(X @ direction) + 0.2 * X @ direction  # slopes between 0.2 and 1.2

# %%
# The link's slope may lie between 1/8 and 2. The trace holds the violation after every iteration; methods that need
# more than 2000 of them are stopped.

problem = cr.problems.RealizableLink(X, y, radius=3.0, strong=0.5, smooth=8.0)
methods = ("sequential-projections", "parallel-projections", "admm")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", cr.ConvergenceWarning)
    found = {method: problem.solve(method, max_iter=2000) for method in methods}
for method, solution in found.items():
    print(f"{method:24s} {solution.status.name} after {solution.iterations} iterations")

# %%
# Two targets are exchanged. Now there is no such link, and a hyperplane between the two sets proves this.

exchanged = y.copy()
low, high = np.argsort(y)[[3, -3]]
exchanged[[low, high]] = y[[high, low]]
broken = cr.problems.RealizableLink(X, exchanged, radius=3.0, strong=0.5, smooth=8.0)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", cr.ConvergenceWarning)
    answer = broken.solve()
print(f"{answer.status.name}: {answer.certificate}")

# %%
# Left, the targets against the scores that were found; right, the violation.

figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
scores = X @ found["admm"].x
order = np.argsort(scores)
left.plot(scores[order], y[order], ".-", color="tab:blue", linewidth=0.8)
left.set_xlabel("score Xw")
left.set_ylabel("target")
for (method, solution), style in zip(found.items(), ("-", "--", ":"), strict=True):
    violation = np.maximum(solution.trace["gap"], 1e-12)
    right.loglog(np.arange(1, len(violation) + 1), violation, style, label=method)
right.set_xlabel("iteration")
right.set_ylabel("violation")
right.legend()
plt.show()
