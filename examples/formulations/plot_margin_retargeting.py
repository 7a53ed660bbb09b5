r"""
Targets that keep the grades apart
==================================

Margin-equipped retargeting regresses scores on the nearest targets that have the right order, with a margin between
the grades. One query shows what these targets are, and what loss they make.
"""

# %%
# The query
# ---------
# Seven documents of grades 0, 1 and 2, and the scores that some scorer gave them.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

grades = np.array([0, 0, 0, 1, 1, 2, 2])
scores = np.array([-0.9, 0.5, 1.3, 0.1, 0.9, 0.4, 1.8])

# With one feature that is the score itself, the targets at w = 1 are the targets of the scores.
choices = {
    "margin 0.5": {"margin": 0.5},
    "heavier at the top": {"margin": lambda rank: 1.5 / np.log2(1 + rank)},
    "reward 0.15": {"margin": None, "reward": 0.15, "l2": 1.0},
}

# %%
# The figure
# ----------
# Above: scores on the left, the best targets on the right. Within a grade the order of the scores is kept, grades may
# not overlap, and the gap between two grades is at least the margin. Pools of documents move together. Below: the loss
# of a query with grades 2, 1, 0 over the differences of its scores. It is zero where the margins are kept, and grows
# like the squared distance from there; with a reward there is no flat part, and larger gaps always gain.
colours, names = ("#0072b2", "#56b4e9", "#e69f00"), ("grade 0", "grade 1", "grade 2")
X, y = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), [2, 1, 0]
grid = np.linspace(-2, 4, 121)
figure, panels = plt.subplots(2, 3, figsize=(9.6, 7.6), layout="constrained", sharex="row", sharey="row")
for column, (name, options) in zip(panels.T, choices.items(), strict=True):
    problem = cr.problems.MarginRetargeting(scores[:, None], grades, None, "squared", **options)
    targets = problem.targets([1.0])
    targets = targets - targets.mean() + scores.mean()
    for grade in (2, 1, 0):
        rows = grades == grade
        for score, target in zip(scores[rows], targets[rows], strict=True):
            column[0].plot([0, 1], [score, target], "o-", color=colours[grade], markersize=6)
        column[0].plot([], [], "o-", color=colours[grade], label=names[grade])
    column[0].set_title(name)
    column[0].set_xticks([0, 1], ["scores", "targets"])
    loss = cr.problems.MarginRetargeting(X, y, None, "squared", **options)
    values = np.array(
        [[loss.objective([a, b]) - loss.penalty.value(np.array([a, b])) for a in grid] for b in grid]
    )
    column[1].contourf(grid, grid, values, levels=24, cmap="cividis")
    levels = np.linspace(values.min(), values.max(), 14)[1:]
    column[1].contour(grid, grid, values, levels=levels, colors="white", linewidths=0.4)
    column[1].plot([4, 0, 4], [4, 0, 0], color="#e69f00", linewidth=2.5)
    column[1].set_xlabel("score of grade 2 less score of grade 0")
panels[0, 0].set_ylim(top=3.1)
panels[0, 0].legend(loc="upper left", frameon=False)
panels[1, 0].set_ylabel("score of grade 1 less score of grade 0")
plt.show()

# %%
# The same in numbers
# -------------------
# The gaps between the grades before, and between the targets after.
print(f"{'':20} {'grade 1 over 0':>15} {'grade 2 over 1':>15}")
values = {"scores": scores}
for name, options in choices.items():
    values[name] = cr.problems.MarginRetargeting(scores[:, None], grades, **options).targets([1.0])
for name, r in values.items():
    gaps = [r[grades == g].min() - r[grades == g - 1].max() for g in (1, 2)]
    print(f"{name:20} {gaps[0]:15.3f} {gaps[1]:15.3f}")
