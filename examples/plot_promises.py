r"""
What you may promise
====================

Thresholds with a promise about new rows, what each promise yields, and how often it is kept.
"""

# %%
# A ranker and rows that it has not seen
# --------------------------------------
# The screening list has 4 000 rows, 200 of them positive. A third of the rows is for the fit.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import convexrank as cr
from convexrank import inference, plotting

X, y = cr.data.load_screening(return_X_y=True)
X, X_held, y, y_held = train_test_split(X, y, test_size=2 / 3, stratify=y, random_state=0)
ranker = cr.PushRanker(p=4).fit(X, y)
for promise in ({"max_fpr": 0.02}, {"min_recall": 0.8}, {"min_precision": 0.4}):
    print(ranker.threshold_for(X_held, y_held, **promise).promise)

# %%
# Promise against yield
# ---------------------
# A smaller false positive rate, a higher precision or a higher recall costs more. Curves end where these rows can make
# no promise. The dashed lines are the rates of these rows: what one would read off without a promise.
figure, panels = plt.subplots(1, 3, figsize=(13.2, 4.0), layout="constrained")
for panel, promise in zip(panels, ("max_fpr", "min_precision", "min_recall"), strict=True):
    plotting.promises(y_held, ranker.predict(X_held), promise, confidence=(0.8, 0.99), ax=panel)
plt.show()

# %%
# Is it kept?
# -----------
# In a population that is known a threshold can be judged: here a negative's false positive rate is its score, turned
# around. 2 000 samples of 300 negatives each set a threshold for a rate of at most 5 %, by the promise, and by the
# quantile of the sample, which is what most people do. How often each breaks its word is printed.
rng = np.random.default_rng(0)
found: dict[str, list[float]] = {"promise, 95 %": [], "quantile of the sample": []}
labels = np.repeat([1, 0], [100, 300])
for _ in range(2000):
    u = np.append(rng.random(100) ** 5, rng.random(300))
    found["promise, 95 %"].append(-inference.threshold(labels, -u, max_fpr=0.05).threshold)
    found["quantile of the sample"].append(np.quantile(u[100:], 0.05))
broken = {name: float(np.mean(np.array(rates) > 0.05)) for name, rates in found.items()}
figure, panel = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
bins = np.linspace(0.0, 0.11, 56)
for (name, rates), colour in zip(found.items(), ("#0072b2", "#e69f00"), strict=True):
    panel.hist(rates, bins, alpha=0.6, color=colour, label=f"{name}: broken in {100 * broken[name]:.1f} %")
    print(f"{name}: broken in {100 * broken[name]:.1f} % of the samples")
panel.axvline(0.05, color="black", linewidth=1.0)
panel.set(xlabel="false positive rate on new rows", ylabel="samples", xlim=(0, 0.11))
panel.legend(loc="upper right")
plt.show()

# %%
# Lists
# -----
# Left: with which confidence can one say how many of the first rows of a *new* list are positive? The grey line is the
# truth, which would be known later. Right: the lengths of lists of documents that keep a promise on average: the
# shortest that miss, or lose of the discounted gain, no more than promised, and the longest of which no larger share is
# not relevant.
X_new, y_new = X_held[:1300], y_held[:1300]
X_set, y_set = X_held[1300:], y_held[1300:]
counts = [10, 20, 30, 40, 60, 80, 100]
first = inference.top_hits(y_set, ranker.predict(X_set), ranker.predict(X_new), counts)
truth = y_new[np.argsort(-ranker.predict(X_new))].cumsum()
print(first.promise)

X, y, qid = cr.data.load_queries(return_X_y=True)
fit, held = qid < 40, qid >= 40
lister = cr.RetargetingRanker().fit(X[fit], y[fit], qid[fit])
scores = lister.predict(X[held])
limits = {
    name: np.linspace(least, 0.6, 60)
    for name, least in (("max_missed", 0.03), ("max_ndcg_loss", 0.13), ("max_false", 0.05))
}
lengths = {
    name: [inference.list_length(y[held], scores, qid[held], **{name: limit}).length for limit in shares]
    for name, shares in limits.items()
}
print(inference.list_length(y[held], scores, qid[held], max_missed=0.1).promise)

figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
panels[0].step(counts, first.hits, where="post", color="#0072b2", label="at least, all at once, with 95 %")
panels[0].plot(np.arange(1, 101), truth[:100], color="0.5", label="positives in the new list")
panels[0].set(xlabel="first rows of the new list", ylabel="positives", ylim=(0, None))
panels[0].legend(loc="upper left")
for (name, shares), colour in zip(limits.items(), ("#0072b2", "#e69f00", "#009e73"), strict=True):
    panels[1].plot(shares, lengths[name], color=colour, drawstyle="steps-post", label=name)
panels[1].legend(loc="upper center")
panels[1].set(
    xlabel="promised share, on average over queries",
    ylabel="length of the lists",
    ylim=(0, None),
)
for panel in panels:
    panel.grid(alpha=0.25)
plt.show()

# %%
# Probabilities
# -------------
# Left: the share of positives at each score of the ranker, with a band that holds at all scores at once. Right: a
# logistic regression that gives both classes the same weight says "probability", but where the diagonal is outside the
# band, it is none.
from sklearn.linear_model import LogisticRegression

X, y = cr.data.load_screening(return_X_y=True)
X, X_held, y, y_held = train_test_split(X, y, test_size=2 / 3, random_state=0)
ranker = cr.PushRanker(p=4).fit(X, y)
balanced = LogisticRegression(class_weight="balanced", max_iter=1000).fit(X, y)
figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.8), layout="constrained")
plotting.reliability(y_held, ranker.predict(X_held), ax=panels[0])
plotting.reliability(y_held, balanced.predict_proba(X_held)[:, 1], ax=panels[1])
panels[0].set_xlabel("score of the ranker")
panels[1].set_xlabel("probability, as a balanced logistic regression says")
top = ranker.predict(X_held).max()
calibrated = cr.calibration.calibrate(y_held, ranker.predict(X_held))
low, high = calibrated.interval([top])[0]
print(f"of rows with the highest score, {100 * low:.0f} % to {100 * high:.0f} % are positive")
plt.show()
