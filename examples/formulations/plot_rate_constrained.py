r"""
RateConstrained: a false positive rate that holds on the sample, and what it costs
==================================================================================

Hinges bound the false positive rate from above. So every point that satisfies the constraint keeps the limit on its
rows, and a lot of room is left below it.
"""

# %%
# A path of limits
# ----------------
# 400 rows, 5 features, 30 % positives. For comparison :class:`~convexrank.problems.PNormPush` learns scores without a
# limit, and a threshold on them is the lowest one that keeps the limit on the rows.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 5))
score = X[:, 0] + 0.5 * X[:, 1] + rng.normal(size=400)
y = score > np.quantile(score, 0.7)
limits = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4])
f = X @ cr.problems.PNormPush(X, y, p=4, l2=1e-3).solve().x
constrained, thresholds = [], []
gap = 0.0
for limit in limits:
    problem = cr.problems.RateConstrained(X, y, max_fpr=limit, l2=1e-3)
    solution = problem.solve(tol=1e-6)
    gap = max(gap, solution.gap)
    constrained.append(problem.rates(solution))
    cut = np.sort(f[~y])[::-1][int(limit * (~y).sum())]  # so many negatives are above it
    thresholds.append(((f[~y] > cut).mean(), (f[y] > cut).mean()))
print(f"largest gap of RateConstrained: {gap:.0e}")
for limit, rates, (fpr, recall) in zip(limits, constrained, thresholds, strict=True):
    print(
        f"limit {limit:.2f}: FPR {rates.fpr:.3f}, recall {rates.recall:.2f}; threshold: {fpr:.3f}, {recall:.2f}"
    )

# %%
# The figure
# ----------
# Left: the false positive rate that the solution has, against the limit. Right: the recall.
figure, panels = plt.subplots(1, 2, figsize=(9.8, 4.0), layout="constrained")
for panel, one, other, title in (
    (panels[0], [r.fpr for r in constrained], [t[0] for t in thresholds], "false positive rate on the rows"),
    (panels[1], [r.recall for r in constrained], [t[1] for t in thresholds], "recall on the rows"),
):
    panel.plot(limits, one, "o-", color="#0072b2", label="constraint on hinges")
    panel.plot(limits, other, "s-", color="#d55e00", label="P-Norm Push, then a threshold")
    panel.set(xlabel="limit of the false positive rate", title=title, ylim=(0, None))
    panel.grid(alpha=0.25)
panels[0].plot(limits, limits, "k--", label="limit")
panels[0].legend()
plt.show()

# %%
# A precision that no point keeps by its bound
# --------------------------------------------
# Rows with a precision of 0.6 are easy to find here. The hinge bound of that constraint has no feasible point, and
# multipliers of the rows prove it.
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", cr.ConvergenceWarning)
    for least in (0.2, 0.3, 0.4, 0.6):
        problem = cr.problems.RateConstrained(X, y, min_precision=least, l2=1e-3)
        solution = problem.solve(tol=1e-6)
        found = problem.infeasibility()
        word = "proved" if found.proved else f"precision {problem.rates(solution).precision:.2f}"
        print(f"{least}: {solution.status.name}, the left side is at least {found.least:.2f} limits; {word}")
