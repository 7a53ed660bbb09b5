r"""
PatMat: a threshold that few negatives are above
================================================

PatMat compares the positives with a smooth quantile of the negatives. Its threshold comes with a promise on the rows at
hand: at most the share τ of the negatives is above it.
"""

# %%
# The threshold and the quantile
# ------------------------------
# Scores of 200 negatives. The threshold is never below the quantile. The scale β has a best value: for small ones the
# threshold is far above, for large ones it goes to the highest score, because losses of scores above it grow with β.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank.plotting.style import styles

rng = np.random.default_rng(0)
scores, labels = np.r_[np.zeros(1), rng.normal(size=200)][:, None], np.arange(201) == 0
betas = np.geomspace(0.3, 100.0, 25)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
surrogates = {"squared hinge": "squared_hinge", "exponential": "exponential", "logistic": "logistic"}
for name, style in styles(surrogates).items():
    levels = [
        cr.problems.PatMat(scores, labels, 0.1, surrogate=surrogates[name], beta=beta).threshold([1.0])[0]
        for beta in betas
    ]
    left.plot(betas, levels, label=name, **style)
quantile = np.sort(scores[1:, 0])[-20]
left.axhline(quantile, color="#999999", linewidth=1.0)
left.text(100.0, quantile - 0.25, "10 % quantile", ha="right", color="#555555")
left.set(xscale="log", xlabel="scale β", ylabel="threshold for τ = 0.1", ylim=(0.9, 8.0))

# %%
# On the screening data
# ---------------------
# What each τ finds above its own threshold, on the rows it was fitted to: the share of the negatives there, which is
# below τ, and that of the positives.
screening = cr.data.load_screening()
X, y = screening.X, screening.y
X = (X - X.mean(axis=0)) / X.std(axis=0)
taus = (0.01, 0.03, 0.1, 0.3)
rates = []
for tau in taus:
    problem = cr.problems.PatMat(X, y, tau, beta=3.0, l2=1e-4)
    solution = problem.solve()
    above = X @ solution.x >= problem.threshold(solution.x)[0]
    rates.append((above[y == 0].mean(), above[y == 1].mean()))
    print(f"tau {tau:4.2f}: gap {solution.gap:.0e}, above t {rates[-1][0]:.4f} of the negatives, {rates[-1][1]:.3f} "
          "of the positives")  # fmt: skip
fpr, tpr = np.array(rates).T
right.plot(taus, tpr, "o-", color="#0072b2", label="positives above t")
right.plot(taus, fpr, "s--", color="#d55e00", label="negatives above t")
right.plot(taus, taus, ":", color="#999999", label="τ")
right.set(xscale="log", yscale="log", xlabel="τ", ylabel="share of their class")
for panel in (left, right):
    panel.grid(alpha=0.25)
    panel.legend()
plt.show()
