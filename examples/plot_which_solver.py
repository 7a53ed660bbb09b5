"""
Which solver runs, and why
==========================

A problem chooses its solver. The choice follows from what the risk offers (second derivatives, kinks, an l1 penalty),
and where both ``newton`` and ``lbfgs`` fit, from an estimate of the seconds that both take. The message of the solution
says which one ran and why.
"""

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

rng = np.random.default_rng(0)


def labelled(rows, columns):
    """Features of different sizes that share a part, and labels that depend on them."""
    X = rng.normal(size=(rows, columns)) + 2.0 * rng.normal(size=(rows, 1))
    y = X @ rng.normal(size=columns) + np.sqrt(columns) * rng.normal(size=rows)
    return X * np.geomspace(0.1, 10.0, columns), (y > np.quantile(y, 0.8)).astype(int)


for rows, columns in ((600, 6), (600, 300), (20_000, 10), (100_000, 50)):
    X, y = labelled(rows, columns)
    message = cr.problems.PNormPush(X, y, p=4, l2=1e-3).solve().message
    print(message.partition("; ")[2])

# %%
# Other risks have one solver that fits best:

X, y = labelled(300, 6)
problems = cr.problems
for problem in (
    problems.PNormPush(X, y, p=4, l1=1e-2),
    problems.ConvexRisk(X, y, "logistic", l2=1e-3),
    problems.TopPush(X, y, l2=1e-3),
    problems.TopPush(X, y, l1=1e-2),
):
    print(f"{type(problem).__name__}:", problem.solve().message.partition("; ")[2])

# %%
# Many rows
# ---------
# Newton's method takes few steps, each with a Hessian of all rows. L-BFGS takes a gradient per step, and more steps
# where the features are badly conditioned. A sample of the rows joins both: its answer is the start, and its Hessian
# conditions the steps over all rows. The figure counts passes over the data. The package estimates that a Hessian of 50
# features costs six gradients, so a step of newton counts as seven.

X, y = labelled(100_000, 50)
problem = cr.problems.PNormPush(X, y, p=4, l2=1e-3)
solvers = {
    "newton": (cr.solvers.Newton(), 7),
    "lbfgs": (cr.solvers.LBFGS(sample=False), 1),
    "lbfgs, sample first": (cr.solvers.LBFGS(), 1),
}
best = problem.solve("newton", tol=1e-12).value

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, (solver, passes) in solvers.items():
    solution = problem.solve(solver)
    errors = np.maximum(solution.trace["objective"] - best, 1e-13)
    axes.semilogy(passes * np.arange(1, len(errors) + 1), errors, marker=".", label=name)
    print(f"{name}: {solution.iterations} steps, gap {solution.gap:.0e}")
axes.set(xlabel="passes over the data, in gradients", ylabel="objective - optimum")
axes.legend()

# %%
# All three answers have a certificate of the same kind: the solver decides the time, not the truth.
