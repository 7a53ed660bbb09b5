r"""
Which price? What p changes
===========================

One data set, p from 1 to ∞: the ROC curve, the pairs that count in the objective, and the precision at the top.
"""

# %%
# The rankings
# ------------
# Half of the rows for fitting, half for the test. TopPush is the limit p = ∞; the IR Push needs no p.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

import convexrank as cr
from convexrank import metrics, plotting

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X[:, :6], y, test_size=0.5, random_state=0)
scaler = MinMaxScaler((-1, 1)).fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
problems = {p: cr.problems.PNormPush(X, y, p, l2=1e-4) for p in (1, 2, 4, 8, 16, 64)}
problems[np.inf] = cr.problems.TopPush(X, y, l2=1e-4)
problems["IR"] = cr.problems.IRPush(X, y, l2=1e-4)
solutions = {name: problem.solve() for name, problem in problems.items()}
train = {name: (y, X @ solution.x) for name, solution in solutions.items()}
test = {name: (y_test, X_test @ solution.x) for name, solution in solutions.items()}

# %%
# What it does to the list
# ------------------------
# Read each row from left to right: the number of positives above every negative grows with p on the training rows. The
# area under the curve, which p = 1 maximises, may fall. On test rows the last column need not follow.
print("   p   AUC train  top train   AUC test  top test")
for name in train:
    label = name if isinstance(name, str) else f"{name:g}"
    numbers = [f(*rows[name]) for rows in (train, test) for f in (metrics.auc, metrics.positives_at_top)]
    print(f"{label:>4}   {numbers[0]:.4f}     {numbers[1]:4}        {numbers[2]:.4f}   {numbers[3]:4}")

# %%
# ROC curves
# ----------
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
shown = {name: train[name] for name in (1, 8, 64, np.inf, "IR")}
plotting.roc(shown, zoom=0.15, ax=panels)
figure.suptitle("training rows")
plt.show()

# %%
# The pairs that count
# --------------------
# A cell is a positive–negative pair, and its lightness the pair's share of the objective, on a logarithmic
# scale, at the solution for that p. With p = 1 all negatives of the upper half of the list contribute;
# with p = 64 only the few highest.
figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.4), layout="constrained")
for panel, p in zip(panels, (1, 8, 64), strict=True):
    plotting.pair_contributions(problems[p], solutions[p], decades=4, ax=panel)
plt.show()

# %%
# Precision at the top
# --------------------
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained", sharey=True)
for panel, (title, rankings) in zip(panels, {"training rows": train, "test rows": test}.items(), strict=True):
    plotting.precision_at_top(rankings, fractions=(0.3, 0.45, 0.55), ax=panel)
    panel.set_title(title)
plt.show()
