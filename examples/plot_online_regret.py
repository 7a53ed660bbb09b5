r"""
Regret that grows with the logarithm
====================================

:class:`~convexrank.OnlineMEMR` ranks one query after the other: it scores the documents, then receives the grades, then
takes a step of length :math:`1/(\sigma t)`. How much larger is its total loss than the loss of the best fixed weights?
"""

# %%
# A contrary stream
# -----------------
# Queries of six documents with two features. Their grades follow a signal or its reverse, at random, so that no weights
# are right for long. The best fixed weights are computed from all queries.
import matplotlib.pyplot as plt
import numpy as np

from convexrank import OnlineMEMR

rng = np.random.default_rng(3)
rounds = 400
X, qid = rng.normal(size=(6 * rounds, 2)), np.repeat(np.arange(rounds), 6)
signs = np.repeat(rng.choice([-1.0, 1.0], size=rounds), 6)
y = np.clip(np.round(signs * (X @ [2.0, -1.0]) + 0.5 * rng.normal(size=len(X))), 0, 2)
learners = {sigma: OnlineMEMR(sigma).fit(X, y, qid) for sigma in (0.5, 1.0, 2.0)}

# %%
# The figure
# ----------
# Left: the regret after t rounds, over a logarithmic axis. A straight line is a logarithm. Right: the regret over its
# bound :math:`\tfrac{g^2}{2\sigma}(1+\log t)`, g the largest gradient met. It stays below 1, and by far: the bound is
# for the worst case.
counts = np.unique(np.geomspace(5, learners[1.0].rounds_, 12).astype(int))
figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
for sigma, colour in zip(learners, ("#0072b2", "#e69f00", "#009e73"), strict=True):
    learner = learners[sigma]
    regrets = np.array([learner.regret(X, y, qid, rounds=int(count)) for count in counts])
    bounds = learner.steepest_**2 / (2 * sigma) * (1 + np.log(counts))
    left.semilogx(counts, regrets, "o-", color=colour, label=f"σ = {sigma}")
    right.loglog(counts, regrets / bounds, "o-", color=colour)
left.set_ylabel("regret")
left.legend(frameon=False)
right.set_ylabel("regret / bound")
right.axhline(1.0, color="black", linewidth=1)
for panel in (left, right):
    panel.set_xlabel("rounds")
    panel.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The same in numbers
# -------------------
for sigma, learner in learners.items():
    print(
        f"sigma {sigma}: regret {learner.regret(X, y, qid):6.2f} after {learner.rounds_} rounds, "
        f"bound {learner.regret_bound_:7.2f}"
    )
