r"""
XE-NDCG: targets from gains, and a bound on NDCG
================================================

XE-NDCG fits the softmax of the scores to gains less a constant γ. With γ = 1 the loss bounds NDCG from below.
"""

# %%
# What γ does
# -----------
# One list of ten: a document of grade 2, two of grade 1, seven of grade 0. The smaller γ is, the more of the
# distribution is on documents that nobody wants.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank import metrics

y = np.array([2, 1, 1, 0, 0, 0, 0, 0, 0, 0])
X = np.eye(len(y))
problems = {gamma: cr.problems.XENDCG(X, y, gamma=gamma) for gamma in (0.0, 0.5, 1.0)}
for gamma, problem in problems.items():
    share = problem.distributions[y == 0].sum()
    print(f"gamma = {gamma:3.1f}: {share:.2f} of the distribution is on grade 0")

# %%
# The bound
# ---------
# For γ = 1, :math:`\mathrm{NDCG} \ge \tfrac WZ e^{-\text{cross-entropy}}`, W the sum of the gains and Z the best DCG.
# 400 score vectors, from the right order to noise:
rng = np.random.default_rng(0)
gains = 2.0**y - 1.0
best = np.sort(gains)[::-1] @ (1.0 / np.log2(2.0 + np.arange(len(y))))
found = []
for _ in range(400):
    scores = rng.uniform(0.0, 4.0) * y + rng.uniform(0.2, 2.0) * rng.normal(size=len(y))
    promised = gains.sum() / best * np.exp(-problems[1.0].cross_entropy(scores))
    found.append((promised, metrics.ndcg(y, scores)))
promised, truth = np.array(found).T
print(f"the bound holds for {np.mean(promised <= truth):.0%}; it is at most {promised.max():.2f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
for place, (gamma, color) in enumerate(zip(problems, ("#440154", "#31688e", "#35b779"), strict=True)):
    heights = problems[gamma].distributions
    left.bar(np.arange(len(y)) + 0.27 * (place - 1), heights, width=0.25, color=color, label=f"γ = {gamma:g}")
left.set(xticks=range(len(y)), xticklabels=y, xlabel="grade of the document", ylabel="target probability")
left.legend()
right.plot(promised, truth, ".", color="#31688e", markersize=4)
right.plot([0, 1], [0, 1], color="#d55e00")
right.set(xlabel="bound by the cross-entropy, γ = 1", ylabel="NDCG", xlim=(0, 1), ylim=(0, 1.02))
for panel in (left, right):
    panel.grid(alpha=0.25)
plt.show()
