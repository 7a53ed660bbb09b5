r"""
Boosting to the optimum
=======================

RankBoost and the P-Norm Push choose one threshold per round. How far are they from the best weights of the same length?
"""

# %%
# What is compared
# ----------------
# The columns H are all thresholds of the features. Both methods have the same risk R, the logarithm of the P-Norm
# Push with the exponential loss, divided by p; with p = 1 it is RankBoost's. *Boosting* has no penalty: each round
# takes the column with the largest edge, and an exact step. After t rounds its weights :math:`w_t` have the length
# :math:`B_t = \|w_t\|_1`. *Working sets* minimise :math:`R(Hw) + \lambda\|w\|_1` for 25 values of λ. A minimiser
# for λ is also a minimiser of R among all weights of its length, so no method reaches a smaller risk with weights of
# that length.
#
# The length of a round usually lies between the lengths of two solutions. The best risk of such a length is not
# computed but bounded. Each certificate gives a lower bound:
#
# .. math:: \min_{\|w\|_1\le B} R(Hw) \;\ge\; \max_\lambda\;[v_\lambda - \lambda B],
#
# where :math:`v_\lambda` is the proved lower bound on the optimum with penalty.
#
# The solid lines are :math:`R(Hw_t)` minus this bound: boosting is at most that far from the optimum of its length.
# The best risk is convex in B, so the line between two solutions is an upper bound on it. The dotted lines are
# :math:`R(Hw_t)` minus the upper bound: boosting is at least that far from the optimum.
import warnings

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank.plotting.style import styles

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 5))
y = np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + 0.5 * X[:, 2] + rng.logistic(size=400) > 1
design = cr.features.Thresholds(X, bins=25)
H = design.toarray()  # boosting takes a matrix


def boosted(p, rounds=1000):
    """Length and risk after each round."""
    problem, path = cr.problems.PNormPush(H, y, p=p), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # it is to stop after so many rounds
        problem.solve(
            "boosting",
            max_iter=rounds,
            callback=lambda state: path.append((np.abs(state.x).sum(), state.value)),
        )
    return np.array(path).T


def best(p, count=25):
    """Strength, length, risk, and proved lower bound of the penalised objective, from strong to weak."""
    most = cr.problems.PNormPush(design, y, p=p, l1=1.0).l1_max()
    found, x0 = [], None
    for l1 in most * np.geomspace(1.0, 3e-3, count):
        solution = cr.problems.PNormPush(design, y, p=p, l1=l1).solve(x0=x0)
        x0, length = solution.x, np.abs(solution.x).sum()
        found.append((l1, length, solution.value - l1 * length, solution.certificate.lower_bound))
    return np.array(found).T


paths = {p: boosted(p) for p in (1, 4)}
optima = {p: best(p) for p in (1, 4)}

# %%
# The gap against rounds
# ----------------------
# At first the gap grows: what each round adds is far from the best use of the added length. After about a hundred
# rounds the gap falls.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
for p, style in styles(paths).items():
    lengths, risks = paths[p]
    l1, norms, values, bounds = optima[p]
    below = np.max(bounds[:, None] - np.outer(l1, lengths), axis=0)
    above = np.where(lengths <= norms[-1], np.interp(lengths, norms, values), np.nan)
    rounds = np.arange(len(risks))
    left.plot(rounds[1:], (risks - below)[1:], label=f"p = {p}, at most", **style)
    left.plot(rounds[1:], (risks - above)[1:], label="at least", **(style | {"linestyle": ":"}))
    right.plot(lengths, risks, label=f"boosting, p = {p}", **style)
    right.plot(norms, values, "o", markersize=4, color=style["color"], label="optimum of its length")
    for t in (10, 100, 1000):
        if t < len(risks):
            print(f"p = {p}, round {t:4d}: length {lengths[t]:6.2f}, gap at most {risks[t] - below[t]:.4f}")
left.set_xscale("log")
left.set_yscale("log")
left.set_xlabel("round")
left.set_ylabel("risk of boosting − optimum of its length")
right.set_xlabel("length $\\|w\\|_1$")
right.set_ylabel("risk")
for panel in (left, right):
    panel.grid(alpha=0.25)
    panel.legend()
plt.show()
