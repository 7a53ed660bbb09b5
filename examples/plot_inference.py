r"""
How sure is a ranking measure?
==============================

Intervals for rankers on held-out rows: AUC side by side, the ROC curve with its band, and the push risk against p.
"""

# %%
# Two rankers
# -----------
# Breast cancer data with few features, half of the rows for fitting. The intervals are computed on the second half,
# rows that no ranker was trained on.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

import convexrank as cr
from convexrank import inference, plotting

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X[:, [1, 4, 8, 14]], y, test_size=0.5, random_state=0)
scaler = MinMaxScaler((-1, 1)).fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
rankers = {f"push, p = {p}": X_test @ cr.problems.PNormPush(X, y, p, l2=1e-3).solve().x for p in (1, 16)}
rankers["one feature"] = -X_test[:, 1]

# %%
# What to quote
# -------------
# The interval of each ranker, and the paired difference of two, which is narrower than the intervals let expect.
comparison = inference.compare(y_test, rankers)
for name, interval in comparison.intervals.items():
    print(
        f"{name:12}  AUC {interval.estimate:.3f}, 95 % interval {interval.lower:.3f} to {interval.upper:.3f}"
    )
for pair in comparison.differences:
    ends = f"{pair.interval.lower:+.3f} to {pair.interval.upper:+.3f}"
    print(
        f"{pair.first} − {pair.second}: {pair.interval.estimate:+.3f}, {ends}, Holm p = {pair.adjusted:.2g}"
    )

# %%
# Forest plots
# ------------
# The same rankers by two measures. Blue are intervals for large samples, orange those that hold for every sample.
figure, panels = plt.subplots(1, 2, figsize=(9.6, 2.8), layout="constrained", sharey=True)
for panel, (metric, options) in zip(panels, {"auc": {}, "push_risk": {"p": 4}}.items(), strict=True):
    exact = plotting.ForestDisplay.from_predictions(
        y_test, rankers, metric, method="exact", ax=panel, **options
    )
    for part in exact.bars_.get_children():
        part.set(color="#e69f00", linewidth=5, alpha=0.5)
    plotting.ForestDisplay.from_predictions(y_test, rankers, metric, ax=panel, **options)
plt.show()

# %%
# Curves with their bands
# -----------------------
# A band holds all of the curve at once. The exact intervals of the push risk widen with p, as fewer negatives count.
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
scores = rankers["push, p = 1"]
plotting.BandDisplay.from_predictions(y_test, scores, name="push, p = 1", ax=panels[0])
plotting.PushIntervalDisplay.from_predictions(y_test, scores, ax=panels[1])
# with p above a tenth of the positives, an interval for large samples is not one
plotting.PushIntervalDisplay.from_predictions(
    y_test, scores, (1, 2, 4, 8, 16), method="asymptotic", ax=panels[1]
)
plt.show()
