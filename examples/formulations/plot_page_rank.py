r"""
PageRank: what a stopping rule promises
=======================================

Most packages stop when an iteration changes the ranks by less than a tolerance. The error left may be several times
that. The certificate :math:`\|\alpha Tw + (1-\alpha)v - w\|_1/(1-\alpha)` is never below the error.
"""

# %%
# A graph that mixes slowly
# -------------------------
# Forty communities of fifty pages; hardly any link leads from one to another.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

rng = np.random.default_rng(0)
n, m = 2000, 20_000
source = rng.integers(0, n, m)
within = source // 50 * 50 + (50 * rng.random(m) ** 2).astype(int)
target = np.where(rng.random(m) < 0.999, within, rng.integers(0, n, m))
problem = cr.problems.PageRank(cr.Graph.from_edges(source, target, n=n))
truth = problem.reference()

# %%
# Error, certificate and change
# -----------------------------
lines = {}
for solver in ("power", "gauss-seidel"):
    points = []
    problem.solve(solver, tol=1e-9, callback=lambda state, points=points: points.append(state.x))
    errors = [np.abs(x - truth).sum() for x in points]
    bounds = [problem.certificate(x).gap for x in points]
    changes = [np.abs(x - y).sum() for x, y in zip(points[1:], points, strict=False)]
    lines[solver] = errors, bounds, changes
    print(f"{solver}: {len(points) - 1} iterations, error {errors[-1]:.1e}, certified {bounds[-1]:.1e}")

# %%
# The figure
# ----------
figure, panels = plt.subplots(1, 2, figsize=(9.2, 3.8), sharey=True, layout="constrained")
for panel, (solver, (errors, bounds, changes)) in zip(panels, lines.items(), strict=True):
    panel.semilogy(bounds, color="#0072b2", label="certificate")
    panel.semilogy(errors, color="#d55e00", label="true error")
    panel.semilogy(range(1, len(changes) + 1), changes, color="0.5", linestyle="--", label="change")
    panel.set(title=solver, xlabel="iteration")
panels[0].set_ylabel("L1 norm")
panels[0].legend()
plt.show()
