r"""
CrucialPairs: any list of comparisons
=====================================

Nothing but pairs is given: this row should rank above that one. The pairs may contradict each other.
"""

# %%
# Items, pairs, and the direction that fits them
# ----------------------------------------------
# Twelve items with two features. Each pair was answered by a hidden direction, with noise; a few answers are
# wrong.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

rng = np.random.default_rng(2)
X = rng.normal(size=(12, 2))
hidden = np.array([1.0, 0.6])
drawn = np.array([rng.choice(12, size=2, replace=False) for _ in range(24)])
answers = X @ hidden + 0.9 * rng.normal(size=12)
swap = answers[drawn[:, 0]] < answers[drawn[:, 1]]
pairs = np.where(swap[:, None], drawn[:, ::-1], drawn)
solutions = {p: cr.problems.CrucialPairs(X, pairs, price=p, loss="logistic", l2=0.1).solve() for p in (1, 4)}
for p, solution in solutions.items():
    scores = X @ solution.x
    right = scores[pairs[:, 0]] > scores[pairs[:, 1]]
    print(f"price r^{p}: {right.sum()} of {len(pairs)} pairs ranked as asked, gap {solution.gap:.0e}")

# %%
# An arrow points from the lower item of a pair to the one that should be above it; it is red where the scores
# disagree.
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained", sharex=True, sharey=True)
for panel, (p, solution) in zip(panels, solutions.items(), strict=True):
    scores = X @ solution.x
    for better, worse in pairs:
        colour = "0.6" if scores[better] > scores[worse] else "#d62728"
        look = {"arrowstyle": "->", "color": colour, "shrinkA": 6, "shrinkB": 6}
        panel.annotate("", X[better], X[worse], arrowprops=look)
    dots = panel.scatter(*X.T, c=scores, s=90, cmap="viridis", edgecolor="black", zorder=3)
    for place, item in enumerate(np.argsort(-scores), start=1):
        panel.text(*(X[item] + [0.12, 0.1]), str(place), fontsize="small")
    w = solution.x / np.linalg.norm(solution.x)
    panel.annotate("", 0.9 * w + [1.0, -2.0], [1.0, -2.0], arrowprops={"arrowstyle": "-|>", "linewidth": 2})
    panel.text(0.7, -2.35, "direction of the score", fontsize="small")
    panel.set(
        xlim=(-0.8, 2.3),
        ylim=(-2.7, 1.6),
        title=f"price g(r) = r^{p}" if p > 1 else "price g(r) = r",
        xlabel="feature 1",
    )
    figure.colorbar(dots, ax=panel, label="score")
panels[0].set_ylabel("feature 2")
plt.show()
