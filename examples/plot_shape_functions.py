r"""
Shape functions: a ranker that can be read
==========================================

Weights on all thresholds of all features are a function of each feature. The ranker is nonlinear, its objective is
convex, and its certificate holds over every threshold there is.
"""

# %%
# The ranker
# ----------
# Tumours are to be ranked, malignant ones on top. The design has a column for each value of each feature, and stores
# none of these columns. The penalty l1 is the total variation of the functions.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

import convexrank as cr
from convexrank import metrics, plotting

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, X_test, y, y_test = train_test_split(X.iloc[:, :10], y == 0, test_size=0.5, random_state=0, stratify=y)
design = cr.features.Thresholds(X)
most = cr.problems.PNormPush(design, y, p=2, l1=1.0).l1_max()  # from here on all functions are 0
problem = cr.problems.PNormPush(design, y, p=2, l1=0.2 * most)
solution = problem.solve()
found = cr.shapes(solution)
print(f"{design.shape[1]} thresholds, {(solution.x != 0).sum()} with a weight; {solution.certificate}")

linear = cr.problems.PNormPush(scale(X), y, p=2, l2=1e-3).solve()
scaled = (X_test - X.mean()) / X.std(ddof=0)
print("on test rows          AUC   malignant above all benign")
for name, scores in (("thresholds", found.predict(X_test)), ("linear", scaled.to_numpy() @ linear.x)):
    print(f"{name:18s}  {metrics.auc(y_test, scores):.3f}   {metrics.positives_at_top(y_test, scores)}")

# %%
# Here the linear ranker is about as good. The functions show more: where a feature matters, and where it does not.
#
# How to read the figure
# ----------------------
# Each panel shows one feature, and the feature with the largest total variation is first. The grey area is the density
# of the rows. Heights can be compared between panels: a score is the sum of one height from each panel.
plotting.shapes(found)
plt.show()

# %%
# Importance is the total variation, that is, the l1 norm of a feature's weights.
for name, variation in found.importance.items():
    print(f"{name:25s} {variation:.2f}")

# %%
# A score card
# ------------
# The same functions in whole points, to be added by hand.
coarse = cr.features.Thresholds(X, bins=6)
short = cr.shapes(cr.problems.PNormPush(coarse, y, p=2, l1=0.3 * most).solve())
card = short.score_card(points=20)
print(card)
test = metrics.auc(y_test, short.predict(X_test)), metrics.auc(y_test, card(X_test))
print(f"test AUC {test[0]:.3f}, of the card {test[1]:.3f}")

# %%
# Two features together
# ---------------------
# Products of two thresholds make surfaces. Together with the functions of single features they form one design, from
# which l1 selects.
names = ["mean texture", "mean concave points", "mean area", "mean smoothness"]
both = cr.features.Stacked([cr.features.Thresholds(X[names]), cr.features.Products(X[names], bins=8)])
pairs = cr.shapes(cr.problems.PNormPush(both, y, p=2, l1=0.2 * most).solve())
print(pairs)
plotting.shapes(pairs, most=4)
plt.show()
