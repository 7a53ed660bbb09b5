r"""
Four losses for one query
=========================

ListNet, NDCG regression, RankSVM and RankCosine say in four ways what good scores are. One query with three documents
shows how they differ: its scores have two degrees of freedom, so a loss is a landscape.
"""

# %%
# The query
# ---------
# Grades 2, 1, 0. The third document has score 0; the weights are the scores of the other two.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

X, y = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), [2, 1, 0]
problems = {
    "ListNet": cr.problems.ListNet(X, y),
    "NDCG regression, squares": cr.problems.NDCGRegression(X, y),
    "RankSVM, hinge": cr.problems.RankSVM(X, y),
    "RankCosine, centred (not convex)": cr.problems.RankCosine(X, y, center=True, smoothing=0.05),
}

# %%
# The figure
# ----------
# Dark is low. Inside the orange wedge the order is right: above 0, and below the diagonal. A white dot marks the
# minimiser, where there is one. ListNet and the regression prefer particular differences of scores, so their minimum is
# a point, and larger differences in the right direction cost more. The hinge is zero from a margin of 1 on: its minimum
# is a whole region. RankCosine depends on the direction only: the scores may grow without bound, and its level sets are
# not convex.
grid = np.linspace(-3, 4, 141)
figure, panels = plt.subplots(2, 2, figsize=(8.2, 7.4), layout="constrained", sharex=True, sharey=True)
for panel, (name, problem) in zip(panels.flat, problems.items(), strict=True):
    values = np.array([[problem.objective([a, b]) for a in grid] for b in grid])
    panel.contourf(grid, grid, values, levels=24, cmap="cividis")
    panel.contour(grid, grid, values, levels=12, colors="white", linewidths=0.4)
    panel.plot([4, 0, 4], [4, 0, 0], color="#e69f00", linewidth=2.5)
    if name.startswith(("ListNet", "NDCG")):
        panel.plot(*problem.solve().x, "o", color="white", markeredgecolor="black", markersize=7)
    panel.set_title(name)
for panel in panels[1]:
    panel.set_xlabel("score of grade 2 less score of grade 0")
for panel in panels[:, 0]:
    panel.set_ylabel("score of grade 1 less score of grade 0")
plt.show()

# %%
# The same in numbers
# -------------------
# The loss at three score vectors: the right order with small steps, with steps ten times as large, and the reverse.
print(f"{'loss':34} {'small':>7} {'large':>7} {'reverse':>8}")
for name, problem in problems.items():
    found = [problem.objective(np.array(w)) for w in ([0.6, 0.3], [6.0, 3.0], [-0.6, -0.3])]
    print(f"{name:34} {found[0]:7.3f} {found[1]:7.3f} {found[2]:8.3f}")
