r"""
How the solvers get there
=========================

Objective and gap against the iteration, for the solvers that fit a smooth problem, one with l1, and one with kinks.
"""

# %%
# A smooth problem
# ----------------
# Newton's method needs a few steps, L-BFGS tens of steps. Boosting changes one weight at a time. ``exact`` has one
# entry.
import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

import convexrank as cr
from convexrank import plotting

X, y = load_breast_cancer(return_X_y=True)
X = minmax_scale(X[:, :6], (-1, 1))
problem = cr.problems.PNormPush(X, y, p=8, l2=1e-2)
solutions = {
    name: problem.solve(name) for name in ("newton", "lbfgs", "accelerated", "bundle", "boosting", "exact")
}
for name, solution in solutions.items():
    print(f"{name:<12} {solution.status.name}, {solution.iterations:4} iterations, gap {solution.gap:.0e}")
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
plotting.trace(solutions, ax=panels)
panels[0].set(xlim=(-1.5, 60))
panels[1].set(xscale="symlog", xlim=(-0.1, None), ylim=(1e-15, None))
plt.show()

# %%
# l1, and a maximum
# -----------------
# With l1 the default is ``working-sets``. With a maximum in the risk the bundle method is one choice; its gap comes
# from its own tangents, and falls in steps.
sparse = cr.problems.PNormPush(X, y, p=8, l2=1e-4, l1=1e-2)
kinked = cr.problems.TopPush(X, y, l2=1e-4)
solutions = {"PNormPush with l1, working-sets": sparse.solve(), "TopPush, bundle": kinked.solve("bundle")}
for name, solution in solutions.items():
    print(f"{name}: {solution.iterations} iterations, {(solution.x != 0).sum()} of 6 weights not zero")
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
plotting.trace(solutions, ax=panels)
plt.show()

# %%
# Stopping early
# --------------
# A callback receives every state; when it returns True, the run stops with status INTERRUPTED, and the
# solution warm-starts the next run.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", cr.ConvergenceWarning)
    paused = problem.solve("lbfgs", callback=lambda state: state.iteration == 5)
resumed = problem.solve("lbfgs", x0=paused)
print(paused.status.name, "then", resumed.status.name)
