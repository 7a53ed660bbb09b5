r"""
BottomPush and TopBottomPush: the other end of the list
=======================================================

The same data, ranked with weight on the top, on the bottom, and on both. What one end gains the other may lose.
"""

# %%
# Three objectives
# ----------------
# Breast cancer data, four features on which no linear score is perfect; a positive is a benign tumour.
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import minmax_scale

import convexrank as cr
from convexrank import metrics, plotting

X, y = load_breast_cancer(return_X_y=True)
X = minmax_scale(X[:, [0, 1, 4, 5]], (-1, 1))
p, l2 = 16, 1e-4
problems = {
    "top": cr.problems.PNormPush(X, y, p, l2=l2),
    "bottom": cr.problems.BottomPush(X, y, p, l2=l2),
    "both": cr.problems.TopBottomPush(X, y, p, bottom_weight=1.0, l2=l2),
}
scores = {name: X @ problem.solve().x for name, problem in problems.items()}

# %%
# At the top the positives above every negative count; at the bottom, the negatives below every positive.
for name, s in scores.items():
    bottom = metrics.positives_at_top(1 - y, -s)
    print(f"{name:<6}  AUC {metrics.auc(y, s):.4f}  "
          f"clean top {metrics.positives_at_top(y, s):3} of {(y == 1).sum()}  "
          f"clean bottom {bottom:3} of {(y == 0).sum()}")  # fmt: skip

# %%
# The figure
# ----------
# The ROC curve's left end is the top of the list, its upper right end the bottom.
figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
for panel in panels:
    plotting.roc({name: (y, s) for name, s in scores.items()}, zoom=None, ax=panel)
panels[0].set(xlim=(0, 40), ylim=(150, 358), title="top of the list")
panels[1].set(xlim=(0, 110), ylim=(320, 358), title="bottom of the list")
plt.show()
