r"""
ListMLE: documents picked from the top
======================================

Plackett and Luce's model picks documents one after another. ListMLE is minus the logarithm of the probability that
they come in the order of their grades.
"""

# %%
# Without ties, and with
# ----------------------
# One query with three documents; the third one has score 0. Dark is low. With grades 2, 1, 0 the loss falls for ever
# inside the wedge of right orders, above 0 and below the diagonal. With grades 1, 1, 0 both documents of grade 1 are
# right above 0, and the loss keeps them together.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

X = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
cases = {"grades 2, 1, 0": [2, 1, 0], "grades 1, 1, 0": [1, 1, 0]}
wedges = {"grades 2, 1, 0": ([4, 0, 4], [4, 0, 0]), "grades 1, 1, 0": ([0, 0, 4], [4, 0, 0])}
grid = np.linspace(-3, 4, 141)
figure, panels = plt.subplots(1, 2, figsize=(8.6, 4.2), layout="constrained", sharey=True)
for panel, (name, grades) in zip(panels, cases.items(), strict=True):
    problem = cr.problems.ListMLE(X, grades)
    values = np.array([[problem.objective([a, b]) for a in grid] for b in grid])
    panel.contourf(grid, grid, values, levels=24, cmap="cividis")
    panel.contour(grid, grid, values, levels=12, colors="white", linewidths=0.4)
    panel.plot(*wedges[name], color="#e69f00", linewidth=2.5)
    panel.set(title=name, xlabel="score of the first document")
panels[0].set_ylabel("score of the second document")
plt.show()

# %%
# The probability
# ---------------
# Without ties the loss is a likelihood: e to the minus loss is the probability of the order.
scores = np.array([1.0, 0.4])
first, second = np.exp([1.0, 0.4, 0.0])[:2]
picked = first / (first + second + 1.0) * second / (second + 1.0)
loss = cr.problems.ListMLE(X, [2, 1, 0]).objective(scores)
print(f"probability {picked:.6f}, e^-loss {np.exp(-loss):.6f}")

# %%
# With a penalty, and certified
# -----------------------------
rng = np.random.default_rng(0)
X, qid = rng.normal(size=(400, 5)), np.repeat(np.arange(20), 20)
y = np.clip(np.round(X @ [1.0, 0.5, 0.0, -0.5, 0.2] + rng.normal(size=400)), 0, 2)
solution = cr.problems.ListMLE(X, y, qid, normalize=True, l2=0.1).solve()
print(f"{solution.status.name}: {solution.value:.6f}, gap {solution.gap:.0e}")
print(f"NDCG {cr.metrics.ndcg(y, X @ solution.x, qid):.3f}")
