r"""
Bregman divergences
===================

Balls of four divergences around one point, and why Bregman's algorithm has to take steps back.
"""

# %%
# Points at the same divergence
# -----------------------------
# The level sets of :math:`D(x\|y)` for a fixed y. Only the balls of the squared distance are round. The other balls
# stretch away from the edge of the domain.
import matplotlib.pyplot as plt
import numpy as np

from convexrank import divergences
from convexrank.plotting.style import styles

y = np.array([0.3, 0.4])
names = ["squared", "generalized_i", "bit_entropy", "itakura_saito"]
grid = np.linspace(0.005, 0.995, 120)


def level_set(name):
    """All values of a separable divergence on the grid, from the values of one entry."""
    one = divergences.resolve(name)
    first, second = ([one.divergence([x], [center]) for x in grid] for center in y)
    return np.add.outer(second, first)


# %%
# The algorithm, and the table as printed
# ---------------------------------------
# Two half-planes. The first move goes to the vertical line, the second to the slanted one. There the vertical line is
# slack, and the corrected algorithm gives back what the first move took.
A, b = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0.5, 0.2])
start = np.array([1.0, 1.0])
best = divergences.bregman("squared", start, A, b)
printed = divergences.bregman("squared", start, A, b, corrected=False)
for name, result in {"corrected": best, "as printed": printed}.items():
    print(f"{name}: half the squared distance {result.value:.4f}, dual bound {result.bound:.4f}")

# %%
# The figure
# ----------
# On the left the level sets, on the right the two half-planes and both ways through them.
figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
chosen = styles(names)
for name, level in zip(names, (0.045, 0.15, 0.25, 0.6), strict=True):
    left.contour(grid, grid, level_set(name), [level], colors=chosen[name]["color"])
    left.plot([], [], color=chosen[name]["color"], label=f"{name}, {level:g}")
left.plot(*y, "k+")
left.annotate("y", y, xytext=(5, 5), textcoords="offset points")
left.set(xlabel="$x_1$", ylabel="$x_2$", title="equal divergence from y", aspect="equal")
left.legend(loc="upper right", fontsize="small")

corner = np.linspace(-1.2, 1.2, 2)
right.fill_between([-1.2, 0.5], [-1.2, -1.2], [1.4, -0.3], color="0.9")
right.plot([0.5, 0.5], [-1.2, 1.3], color="0.6", lw=1)
right.plot(corner, 0.2 - corner, color="0.6", lw=1)
middle = np.array([0.5, 1.0])
path = np.array([start, middle, printed.x])
right.plot(*path.T, "o--", color=chosen[names[1]]["color"], label="as printed")
right.plot(*np.array([start, best.x]).T, "s-", color=chosen[names[0]]["color"], label="nearest point, found")
right.annotate("y", start, xytext=(5, 5), textcoords="offset points")
right.set(
    xlabel="$x_1$", ylabel="$x_2$", title="feasible is not nearest", xlim=(-0.7, 1.2), ylim=(-0.4, 1.25)
)
right.set_aspect("equal")
right.legend(loc="lower left", fontsize="small")
plt.show()
