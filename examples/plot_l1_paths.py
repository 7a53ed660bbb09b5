r"""
l1 paths: which features, and how many
======================================

A push is solved for forty strengths of l1, from the one that leaves no weight downwards. Each point has a certified
gap, and rows that were not fitted choose among them.
"""

# %%
# The path
# --------
# Tumours, malignant ones on top, thirty features of unit variance. Half of the rows are fitted.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import convexrank as cr

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, X_test, y, y_test = train_test_split(X, y == 0, test_size=0.5, random_state=0, stratify=y)
scaler = StandardScaler().fit(X)
problem = cr.problems.PNormPush(scaler.transform(X), y, p=4, l1=1.0)
held = scaler.transform(X_test), y_test
path = problem.path(l1="auto", n=40, ratio=0.03, metric=cr.metrics.auc, validation=held, patience=40)
print(f"{len(path)} of 40 values; {path.stopped or 'to the end'}")
kinds = sorted({solution.certificate.kind for solution in path})
print(f"largest certified gap {path.gaps.max():.0e}; kinds of bounds: {kinds}")

# %%
# Weights enter one after the other. The certified gap is everywhere at most the tolerance, 1e-6, times the value of the
# objective where that is above 1 in size.
path.plot()
plt.show()

# %%
# The choice
# ----------
best = path.best()
weights = np.count_nonzero(best.x)
print(
    f"largest AUC on the rows that choose {path.metric.max():.4f} at l1 = {best.instance.l1:.4f}, {weights} weights"
)
for place in np.argsort(-np.abs(best.x))[:8]:
    if best.x[place]:
        print(f"{X.columns[place]:25s} {best.x[place]:+.2f}")
