r"""
The bound of a certificate
==========================

A bound on objective − optimum from one point, or from a few, without knowing the optimum. The example has one weight,
so that the whole objective can be drawn.
"""

# %%
# A smooth risk: one tangent is enough
# ------------------------------------
# The risk R is convex, so its tangent at the point lies below it. Tangent plus penalty lies below the
# objective, and the lowest point of that parabola is known in closed form: it is a lower bound on the
# optimum.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

x = np.array([3.0, 2.2, 1.4, 0.6, 1.4, 0.8, -0.5, -1.5])
y = np.array([1, 1, 1, 1, 0, 0, 0, 0])
smooth = cr.problems.PNormPush(x[:, None], y, p=2, l2=0.6)
kinked = cr.problems.RmaxPush(x[:, None], y, "hinge", l2=0.3)
grid = np.linspace(-1.2, 1.6, 281)


def tangents(problem, points):
    """Tangents of the risk at the points, plus the penalty, on the grid: one row each."""
    rows = []
    for w in points:
        risk, slope = problem.risk_and_subgradient(np.array([w]))
        rows.append(risk + slope[0] * (grid - w) + 0.5 * problem.l2 * grid**2)
    return np.array(rows)


point = 0.75
certificate = smooth.certificate([point])
print(certificate)
slope = smooth.value_and_gradient(np.array([point]))[1][0]
print("gap equals gradient² / (2 l2):", bool(np.isclose(certificate.gap, slope**2 / (2 * smooth.l2))))

# %%
# A risk with kinks: several tangents, weighted
# ---------------------------------------------
# At a kink one tangent gives a weak bound, even at the minimiser. A convex combination of tangents from both sides is
# again a lower bound. The bundle solver returns such points and weights as the *witness*. The certificate evaluates
# every tangent again.
solution = kinked.solve("bundle")
alone = cr.Witness(solution.x[None, :], np.ones(1))
print(f"minimiser {solution.x[0]:.4f}")
print(f"gap with one tangent at the minimiser: {kinked.certificate(solution.x, alone).gap:.2g}")
print(f"gap with the witness:                  {solution.gap:.0e}")
used = solution.witness.weights > 1e-6
points, shares = solution.witness.points[used, 0], solution.witness.weights[used]

# %%
# The figure
# ----------
figure, panels = plt.subplots(1, 2, figsize=(9.8, 4.4), layout="constrained")
for panel, problem, places in ((panels[0], smooth, [point]), (panels[1], kinked, points)):
    panel.plot(grid, [problem.objective([w]) for w in grid], color="black", label="objective")
    for row, place in zip(tangents(problem, places), places, strict=True):
        first = place == places[0]
        panel.plot(
            grid, row, color="#0072b2", linewidth=1, label="tangent of the risk + penalty" if first else None
        )
        panel.plot(place, problem.objective([place]), "o", color="#0072b2")
    panel.set(xlabel="weight w")
    panel.grid(alpha=0.25)
panels[0].axhline(certificate.lower_bound, color="#d55e00", linestyle="--", label="certified lower bound")
ends = (point, certificate.lower_bound), (point, certificate.value)
panels[0].annotate("", *ends, arrowprops={"arrowstyle": "<->", "color": "#d55e00"})
panels[0].text(point + 0.05, np.mean([ends[0][1], ends[1][1]]), "gap", va="center", color="#d55e00")
panels[0].set(ylim=(-0.6, 1.2), title="smooth: one tangent")
combined = shares @ tangents(kinked, points)
panels[1].plot(grid, combined, color="#d55e00", label="weighted mean of them")
panels[1].axhline(
    solution.certificate.lower_bound, color="#d55e00", linestyle="--", label="certified lower bound"
)
panels[1].set(ylim=(0.6, 1.5), title="with a kink: a witness")
for panel in panels:
    panel.legend(fontsize="small", loc="upper center")
plt.show()
