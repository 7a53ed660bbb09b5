r"""
Cross-check an algorithm of your own
====================================

The verifier finds a mistake in gradient descent, and the certificate shows it during the run.
"""

# %%
# An algorithm, and a wrong one
# -----------------------------
# Both functions minimise the P-Norm Push with l2. The second counts the gradient of the penalty twice, a
# mistake that raises no error.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

import convexrank as cr

X, y = load_breast_cancer(return_X_y=True)
problem = cr.problems.PNormPush(minmax_scale(X[:, :6], (-1, 1)), y, p=4, l2=0.1)


def descend(problem, penalty_factor=1.0, steps=400, rate=0.5):
    """Plain gradient descent from zero; keeps every point."""
    points = [np.zeros(problem.dimension)]
    for _ in range(steps):
        w = points[-1]
        gradient = problem.risk_and_subgradient(w)[1] + penalty_factor * problem.l2 * w
        points.append(w - rate * gradient)
    return np.array(points)


def right(problem):
    return descend(problem)[-1]


def wrong(problem):
    return descend(problem, penalty_factor=2.0)[-1]


# %%
# Compared with the exact model
# -----------------------------
for algorithm in (right, wrong):
    report = cr.verify(problem, solver=algorithm)
    print(f"{algorithm.__name__}: ok = {report.ok}")
    print(report, end="\n\n")

# %%
# Watched by the certificate
# --------------------------
# ``problem.certificate(w)`` bounds objective − optimum at any point, without the optimum. In the correct run
# the bound falls with the true distance; in the wrong run it stays where the mistake stops progress.
optimum = problem.solve(solver="exact", tol=1e-10).value
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained", sharey=True)
for panel, factor, title in zip(panels, (1.0, 2.0), ("right", "wrong by a factor of 2"), strict=True):
    points = descend(problem, factor)
    certified = [problem.certificate(w).gap for w in points]
    distance = np.array([problem.objective(w) for w in points]) - optimum
    panel.semilogy(certified, color="#0072b2", label="certificate")
    panel.semilogy(np.maximum(distance, 1e-16), color="#d55e00", linestyle="--", label="objective − optimum")
    panel.set(title=title, xlabel="iteration", ylim=(1e-10, None))
    panel.grid(alpha=0.25)
    panel.legend()
plt.show()
