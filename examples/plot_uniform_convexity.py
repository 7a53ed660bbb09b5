r"""
A class beyond strong convexity
===============================

Section 4.1 of the dissertation relaxes strong convexity: φ may grow like :math:`|x|^\gamma`, γ ≥ 2, (4.6). Then the
predictions are Hölder continuous in the scores with exponent 1/(γ − 1), (4.7). The section gives no way to compute the
cost. Here is a method, for all φ with :math:`\varphi - \tfrac c\gamma|x|^\gamma` convex: sort, and pool adjacent
violators with a root in place of a mean (``examples/uniform_convexity.py``). γ = 2 is the strongly convex class of
:class:`~convexrank.problems.LearnedDivergence`.
"""

import matplotlib.pyplot as plt
import numpy as np
import uniform_convexity as classes
from scipy.optimize import minimize

GAMMAS = (2, 3, 4)
rng = np.random.default_rng(0)
X = rng.normal(size=(24, 3))
y = np.tanh(X @ [1.0, -1.0, 0.5]) + 0.2 * rng.normal(size=24)

# %%
# How continuous the predictions are, and how fast it goes
# --------------------------------------------------------
# Between (4.6) and (4.7) the text has :math:`\|\nabla\varphi(y) - \nabla\varphi(s)\|_* \ge s\|s - y\|^{\gamma-1}`; from
# (4.6) it is :math:`s^{\gamma-1}\|s - y\|^{\gamma-1}`, and with that (4.7) is right.
#
# Left: the change of the predictions between scores at many distances, and the bound (4.7), dotted, with the constant
# of :math:`|x|^\gamma`. Right: the universal fast gradient method, which needs neither exponent nor constant, on the
# marginal cost of 24 rows. The text names the rate :math:`T^{-(1+3\nu)/2}` with ν = 1/(γ − 1).


def largest_change(cost, distances):
    """Return the largest change of the predictions, over three draws of scores for each distance."""
    dual, found = cost.gamma / (cost.gamma - 1), []
    for distance in distances:
        sizes = []
        for _ in range(3):
            theta, move = X @ rng.normal(size=3), rng.normal(size=len(y))
            move *= distance / (np.abs(move) ** dual).sum() ** (1 / dual)
            change = np.abs(cost.fitted(theta + move) - cost.fitted(theta))
            sizes.append((change**cost.gamma).sum() ** (1 / cost.gamma))
        found.append(max(sizes))
    return np.array(found)


def pair_change(gamma, distances):
    """Return the change in the norm of γ as the scores of two rows move from 0 to ±d/2."""
    pair = classes.UniformlyConvex(np.array([50.0, -50.0]), gamma)
    ends = [np.abs(pair.fitted(np.array([d, -d]) / 2)) for d in distances]
    return np.array([(end**gamma).sum() ** (1 / gamma) for end in ends])


def gaps(gamma, steps=30):
    """Return value less minimum along the method; the minimum comes from many quasi-Newton steps."""
    cost = classes.UniformlyConvex(y, gamma)

    def of_weights(w):
        value, slope = cost.cost(X @ w)
        return value, X.T @ slope

    options = {"maxiter": 400, "ftol": 0, "gtol": 1e-12}
    best = minimize(of_weights, np.zeros(3), jac=True, method="L-BFGS-B", options=options).fun
    values = classes.accelerated(of_weights, np.zeros(3), steps)
    return np.maximum(values - min(best, values.min()), 1e-13)


distances, times = np.geomspace(1e-5, 1, 11), np.arange(1, 31)
figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2), layout="constrained")
for gamma, colour in zip(GAMMAS, ("#0072b2", "#009e73", "#d55e00"), strict=True):
    cost = classes.UniformlyConvex(y, gamma)
    rows, pair, bound = largest_change(cost, distances), pair_change(gamma, distances), cost.bound(distances)
    exponent = np.polyfit(np.log(distances), np.log(pair), 1)[0]
    gap, rate = gaps(gamma), (1 + 3 / (gamma - 1)) / 2
    largest = (np.maximum(rows, pair) / bound).max()
    print(
        f"γ = {gamma}: changes up to {largest:.3f} times the bound (4.7);\n"
        f"    two rows attain the exponent {exponent:.3f}, 1/(γ − 1) = {1 / (gamma - 1):.3f};\n"
        f"    gap after 30 steps {gap[-1]:.0e}, T^-{rate:.2f} = {30.0**-rate:.0e}"
    )
    left.loglog(distances, rows, marker=".", color=colour, label=f"γ = {gamma}, 24 rows")
    left.loglog(distances, pair, "--", color=colour, linewidth=1, label=f"γ = {gamma}, two rows")
    left.loglog(distances, bound, ":", color=colour)
    right.loglog(times, gap, marker=".", color=colour, label=f"γ = {gamma}")
    right.loglog(times, gap[0] * times**-rate, ":", color=colour)
left.set(xlabel="distance of the scores, dual norm", ylabel="change of the predictions, norm of γ")
right.set(xlabel="steps", ylabel="value less minimum", title="dotted: the rate in the text")
for panel in (left, right):
    panel.legend(fontsize="small")
    panel.grid(alpha=0.25)
plt.show()

# %%
# The exponent is attained where predictions pass through 0, and only there is :math:`|x|^\gamma` that flat. On these
# data most predictions do not, and the method converges much faster than the worst case.
