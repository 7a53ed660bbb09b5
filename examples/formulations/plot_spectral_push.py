r"""
SpectralPush: how many of the highest negatives count
=====================================================

From the mean of all negatives to the highest one: SpectralPush weighs the sorted negatives. PartialAUC takes the pairs
with the highest of them.
"""

# %%
# What each spectrum weighs
# -------------------------
# The screening data: few positives among many rows. On the left the weights of the negatives by their rank; on the
# right how many positives the minimiser of each finds while few negatives are above them.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank import metrics
from convexrank.plotting.style import styles

screening = cr.data.load_screening()
X, y = screening.X, screening.y
X = (X - X.mean(axis=0)) / X.std(axis=0)
K = int((y == 0).sum())
spectra = {
    "all negatives": "uniform",
    "the highest 20 %": ("top", 0.2),
    "the highest 5 %": ("top", 0.05),
    "falling in steps": np.array([1, 2, 3, 4, 10]) / 20,
}
figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
for name, style in styles(spectra).items():
    problem = cr.problems.SpectralPush(X, y, spectra[name], "logistic", l2=1e-3)
    solution = problem.solve()
    ends, heights = problem.spectrum.ends, problem.spectrum.heights
    left.stairs(heights, [0.0, *ends], baseline=0.1, color=style["color"], linestyle=style["linestyle"])
    scores = X @ solution.x
    levels = np.sort(scores[y == 0])[::-1]
    found = [(scores[y == 1] > level).mean() for level in levels[: K // 5]]
    right.plot(np.arange(1, K // 5 + 1) / K, found, label=name, **style)
    print(f"{name:<18} gap {solution.gap:.0e}; AUC {metrics.auc(y, scores):.3f}, "
          f"partial AUC up to 5 % {metrics.partial_auc(y, scores, 0.05) / 0.05:.3f}")  # fmt: skip
left.set(xlabel="share of the negatives that are ranked higher", ylabel="weight, relative to equal weights")
left.set(yscale="log", ylim=(0.1, 30.0))
right.set(xscale="log", xlabel="share of the negatives above", ylabel="share of the positives found")
for panel in (left, right):
    panel.grid(alpha=0.25)
right.legend()
plt.show()

# %%
# The same by pairs
# -----------------
# PartialAUC has the mean loss of the pairs of a positive with one of the highest negatives: with a loss of at least 1
# for a wrong pair it is at least one minus the partial AUC.
for max_fpr in (1.0, 0.2, 0.05):
    problem = cr.problems.PartialAUC(X, y, max_fpr, "squared_hinge", l2=1e-3)
    solution = problem.solve()
    scores = X @ solution.x
    wrong = 1.0 - metrics.partial_auc(y, scores, max_fpr) / max_fpr
    print(
        f"up to {max_fpr:4.0%}: risk {problem.objective(solution.x):.3f} >= {wrong:.3f}, gap {solution.gap:.0e}"
    )
