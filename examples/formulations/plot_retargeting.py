r"""
Retargeting, and where it leads
===============================

Monotone retargeting fits scores to whatever targets are in the order of the grades. For one query the figure shows its
loss; for many, the published method ends at w = 0.
"""

# %%
# One query
# ---------
# Grades 2, 1, 0. The third document has score 0; the weights are the scores of the other two.
import warnings

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

X, y = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), [2, 1, 0]
grid = np.linspace(-4, 4, 81)
names = {"squared": "squared distance: convex", "kl": "KL: not convex"}
scales = {"squared": 0.25, "kl": 1.0}
landscapes = {}
for divergence, scale in scales.items():
    problem = cr.problems.Retargeting(X, y, None, divergence)
    landscapes[divergence] = np.array(
        [[problem.objective([scale * a, scale * b]) for a in grid] for b in grid]
    )

# %%
# Many queries
# ------------
# Twelve queries of eight documents, grades made of a linear score and noise. The alternation as published descends from
# the fit of the grades; we look at each of its passes.
rng = np.random.default_rng(0)
X = rng.normal(size=(96, 3))
latent = X @ [1.0, -0.7, 0.2] + 0.3 * rng.normal(size=96)
y, qid = np.digitize(latent, [-0.4, 0.8]), np.repeat(np.arange(12), 8)
problem = cr.problems.Retargeting(X, y, qid, "kl", l2=1e-2)
passes = []
with warnings.catch_warnings():
    warnings.simplefilter("ignore", cr.ConvergenceWarning)  # the warning is the subject of this page
    solution = problem.solve("alternating", max_iter=300, callback=lambda state: passes.append(state.x))
print(solution.message)

ways = {
    "cost, relative": [problem.objective(w) / problem.objective(passes[0]) for w in passes],
    "length of w, relative": [np.linalg.norm(w) / np.linalg.norm(passes[0]) for w in passes],
    "Kendall's tau with the grades": [cr.metrics.kendall_tau(y, X @ w, qid) for w in passes],
}
# %%
# Along the ray of the first fit the cost rises from nothing, and falls again where only the top of each query counts: a
# local minimum with weak penalties. Margins leave no such choice.
direction = passes[0] / np.linalg.norm(passes[0])
lengths = np.linspace(0.0, 20.0, 101)
penalties = (1e-2, 1e-3, 1e-4)
rays = [
    [weaker.objective(t * direction) for t in lengths]
    for weaker in (cr.problems.Retargeting(X, y, qid, "kl", l2=l2, normalize=False) for l2 in penalties)
]

# %%
# The figure
# ----------
# Dark is low. Inside the orange wedge the order is right. The white dot is the trivial minimum.
figure, panels = plt.subplots(2, 2, figsize=(8.2, 7.6), layout="constrained")
for panel, (divergence, values) in zip(panels[0], landscapes.items(), strict=True):
    axis = scales[divergence] * grid
    panel.contourf(axis, axis, values, levels=24, cmap="cividis")
    levels = np.linspace(0.02, 1.0, 15) ** 2 * values.max()
    panel.contour(axis, axis, values, levels=levels, colors="white", linewidths=0.4)
    panel.plot(axis[[-1, 40, -1]], axis[[-1, 40, 40]], color="#e69f00", linewidth=2.5)
    panel.plot(0, 0, "o", color="white", markeredgecolor="black", markersize=7)
    panel.set(title=names[divergence], xlabel="score of grade 2 less score of grade 0")
    panel.locator_params(nbins=5)
panels[0, 0].set_ylabel("score of grade 1 less score of grade 0")
for (name, way), color in zip(ways.items(), ("#0072b2", "#e69f00", "#009e73"), strict=True):
    panels[1, 0].plot(np.arange(1, len(way) + 1), way, label=name, color=color)
panels[1, 0].set(
    xscale="log", xlabel="pass of the alternation", title="passes shrink w, the order stays", ylim=(0, 1.02)
)
panels[1, 0].legend(loc="lower left")
for l2, ray, color in zip(penalties, rays, ("#56b4e9", "#0072b2", "#000000"), strict=True):
    panels[1, 1].plot(lengths, ray, label=f"l2 = {l2:g}", color=color)
panels[1, 1].set(xlabel="length of w", ylabel="cost", title="the cost along one direction", ylim=(0, 0.5))
panels[1, 1].legend()
plt.show()
