r"""
Rates of the chapter's methods, measured
========================================

The chapter states the rate :math:`1/\sqrt T` for its class of all convex functions, :math:`1/T^2` for strongly convex
functions, and a linear rate with l2. Here the rates are measured on the exact marginal and compared with the bounds.
Then the same steps are taken along the published field, which has no objective.
"""

# %%
# One data set: 400 rows, 60 columns of decreasing scale, targets that follow a steep link.
import warnings

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank.solvers import Accelerated, Gradient, Isotron, Slisotron, UnitStep

warnings.simplefilter("ignore", cr.ConvergenceWarning)  # runs to a given length
LearnedDivergence = cr.problems.LearnedDivergence
rng = np.random.default_rng(0)
scales = 1.0 / np.arange(1, 61)
X = rng.normal(size=(400, 60)) * scales
scores = X @ rng.normal(size=60)
y = np.tanh(2.0 * scores / scores.std()) + 0.1 * rng.normal(size=400)


def errors(values, optimum):
    """Value − optimum of the best point so far; NaN below the precision of float64."""
    found = np.minimum.accumulate(values) - optimum
    return np.where(found > 1e-12, found, np.nan)


def power(values, first, last):
    """Slope of log value against log step."""
    t = np.arange(first, last)
    return np.polyfit(np.log(t), np.log(values[first:last]), 1)[0]


def factor(values, first, last):
    """Factor per step."""
    return np.exp(np.polyfit(np.arange(first, last), np.log(values[first:last]), 1)[0])


def plain_steps(problem, number=1000):
    """Gradient steps of length 1/L."""
    w, values = np.zeros(problem.dimension), []
    for _ in range(number):
        value, gradient = problem.smooth_value_and_gradient(w)
        values.append(value)
        w = w - gradient / problem.lipschitz
    return values


# %%
# Three rates
# -----------
# All convex functions: subgradient steps of length a/(b + √t), from a start away from the minimiser 0. Strongly convex
# functions: steps of 1/L, and accelerated ones, which need no function values either, because
# :math:`L = \|CX\|^2/(sn) + \lambda_2` is known.
#
# The bounds are worst cases over all functions with this L; these data are kinder. The value at the subgradient steps
# falls fast at first, and like :math:`1/\sqrt t` once the steps are longer than the distance left. From then on each
# step jumps across the minimiser, and the value is as large as the step. Where l2 = 0 a bound says nothing about the
# power in between. Far below :math:`1/t`, steps of 1/L make slow progress along the small columns, and for a while fall
# more slowly than the power of the bound. Accelerated steps do not slow down.
figure, panels = plt.subplots(1, 3, figsize=(12.0, 4.0), layout="constrained")
kinked, start = LearnedDivergence(X / scales, y), np.ones(60) / np.sqrt(60.0)
slope = np.linalg.norm(kinked.risk_and_subgradient(start)[1])
descent = kinked.solve(Gradient(a=1.0 / slope), x0=start, max_iter=5000).trace["objective"]
t = np.arange(1, len(descent))
panels[0].loglog(t, descent[1:], label="gradient, at each step")
print("class                  steps             theory     measured")
rate = power(descent, 1000, 5000)
print(f"all convex             gradient          t^-0.5     t^{rate:.2f} from step 1000 on")
sums = np.cumsum(1.0 / (1.0 + np.sqrt(t - 1.0)))
squares = np.cumsum(1.0 / (1.0 + np.sqrt(t - 1.0)) ** 2)
centred = X / scales - (X / scales).mean(axis=0)
steepest = 2.0 * np.linalg.norm(centred, 2) * np.linalg.norm(y - y.mean()) / 400.0  # of all subgradients
panels[0].loglog(
    t, (slope + steepest**2 / slope * squares) / (2.0 * sums), "k--", label=r"bound, $\log T/\sqrt{T}$"
)
panels[0].set(title="all convex", xlabel="step", ylabel="value − optimum")
for panel, l2 in zip(panels[1:], (0.0, 5e-3), strict=True):
    problem = LearnedDivergence(X, y, strong=0.5, l2=l2)
    best = problem.solve("lbfgs", tol=1e-12)
    runs = {"steps of 1/L": plain_steps(problem), "accelerated": None}
    runs["accelerated"] = problem.solve(Accelerated(), tol=1e-14, max_iter=1000).trace["objective"]
    for name, values in runs.items():
        error = errors(values, best.value)
        panel.plot(np.arange(1, len(values)), error[1:], label=name)
        order = 1 if name == "steps of 1/L" else 2
        if l2:
            theory = f"{1.0 - (l2 / problem.lipschitz) ** (1.0 / order):.4f}^t"
            measured = f"{factor(error, 20, 200):.4f}^t"
        else:
            theory, measured = f"t^-{order}", f"t^{power(error, 30, 900):.2f} from step 30 on"
        print(f"strongly convex{', l2' if l2 else '':<8}{name:<18}{theory:<11}{measured}")
    t, size = np.arange(1, 1001), 0.5 * problem.lipschitz * best.x @ best.x
    if l2:
        panel.plot(t, size * (1.0 - l2 / problem.lipschitz) ** t, "k--", label=r"bound, $(1-\mu/L)^T$")
        panel.set(title="strongly convex, l2: linear", yscale="log", ylim=(1e-13, None), xlabel="step")
    else:
        panel.plot(t, size / t, "k:", label="bound, $1/T$")
        panel.plot(t, 4.0 * size / (t + 1) ** 2, "k--", label="bound, $1/T^2$")
        panel.set(title="strongly convex", xscale="log", yscale="log", xlabel="step")
for panel in panels:
    panel.grid(alpha=0.25)
    panel.legend(loc="lower left" if panel is not panels[2] else (0.4, 0.1))
plt.show()

# %%
# The published field
# -------------------
# The field has no objective: the residual, the length of the field, measures the progress of a method. Isotron takes
# steps of length 1 in the class of all convex functions. Its Lipschitz variant takes steps of length 1 in the strongly
# convex class. Without a bound on the slope the field jumps, and on noisy targets the residual does not go to zero. The
# last entry of the curve is the residual at the best point. No theorem covers acceleration here, because the field is
# not a gradient; on these data it needs less than a fifth of the unit steps of Slisotron.
field = LearnedDivergence(X, y, strong=0.5, oracle="projection", l2=5e-3)
everything = LearnedDivergence(X, y, oracle="projection", l2=5e-3)
solutions = {
    "Isotron": everything.solve(Isotron(), tol=1e-6, max_iter=1500),
    "Slisotron, slope 2": field.solve(Slisotron(2.0), tol=1e-6, max_iter=1500),
    "steps of 1/L": field.solve(UnitStep(1.0 / field.lipschitz), tol=1e-6, max_iter=1500),
    "accelerated": field.solve(Accelerated(), tol=1e-6, max_iter=1500),
}
for name, solution in solutions.items():
    print(f"{name:<20} {solution.status.name:<9} {solution.iterations:5} steps, residual {solution.gap:.0e}")
marginal = LearnedDivergence(X, y, strong=0.5, l2=5e-3)
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
cr.plotting.trace(solutions, ax=panels)
panels[1].legend(loc=(0.55, 0.55), fontsize="small")
panels[0].clear()
for name, solver in {"steps of 1/L": UnitStep(1.0 / field.lipschitz), "accelerated": Accelerated()}.items():
    points = []
    field.solve(solver, tol=1e-6, max_iter=400, callback=lambda state, points=points: points.append(state.x))
    panels[0].plot([marginal.objective(w) for w in points], label=name)
panels[0].axhline(marginal.solve().value, color="k", linestyle="--", label="its minimum")
panels[0].set(xlabel="iteration", ylabel="exact objective along the way")
panels[0].grid(alpha=0.25)
panels[0].legend()
plt.show()
