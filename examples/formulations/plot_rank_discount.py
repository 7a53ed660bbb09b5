r"""
RankDiscount: ranks among all rows
==================================

The IR Push counts the negatives above each positive, RankDiscount all rows: the rank that retrieval measures take. What
the other positives add is the point of this page.
"""

# %%
# One line of data that a score separates
# ---------------------------------------
# The score is multiplied by t. Every negative falls below every positive, and the IR Push goes to 0. Ranks of positives
# among themselves stay, and their surrogate is least where all positives score alike: RankDiscount rises again.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank import metrics
from convexrank.plotting.style import styles

x = np.array([3.0, 2.5, 2.2, 1.0, 0.8, 0.5, 0.2, 0.0])[:, None]
y = np.array([1, 1, 1, 0, 0, 0, 0, 0])
scales = np.linspace(0.0, 6.0, 121)
line = {
    "RankDiscount": cr.problems.RankDiscount(x, y),
    "IRPush": cr.problems.IRPush(x, y),
}
best = scales[np.argmin([line["RankDiscount"].objective([t]) for t in scales])]
print(
    f"RankDiscount is least at t = {best:.2f}; IRPush falls up to t = 6: {line['IRPush'].objective([6.0]):.4f}"
)

# %%
# On the screening data
# ---------------------
# Few positives among many rows, and which share of them is among the first rows.
screening = cr.data.load_screening()
X, y = screening.X, screening.y
X = (X - X.mean(axis=0)) / X.std(axis=0)
problems = {
    "RankDiscount": cr.problems.RankDiscount(X, y, l2=1e-3),
    "IRPush": cr.problems.IRPush(X, y, l2=1e-3),
    "ListNet, uniform": cr.problems.ListNet(X, y, target="linear", l2=1e-3),
}
shown = 2 * int(y.sum())
figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
for name, style in styles(line).items():
    left.plot(scales, [line[name].objective([t]) for t in scales], label=name, **style)
left.axhline(np.log(4.0), color="#999999", linewidth=1.0)
left.text(6.0, np.log(4.0) - 0.12, "log(1 + I)", ha="right", color="#555555")
left.set(xlabel="scale t of the scores", ylabel="risk", ylim=(0.0, None))
for name, style in styles(problems).items():
    solution = problems[name].solve()
    scores = X @ solution.x
    found = np.cumsum(y[np.argsort(-scores, kind="stable")]) / y.sum()
    right.plot(np.arange(1, shown + 1), found[:shown], label=name, **style)
    print(
        f"{name:<17} gap {solution.gap:.0e}; NDCG {metrics.ndcg(y, scores):.4f}, AUC {metrics.auc(y, scores):.4f}"
    )
right.set(xlabel="rows from the top", ylabel="share of the positives among them")
for panel in (left, right):
    panel.grid(alpha=0.25)
    panel.legend()
plt.show()
