r"""
Quick start
===========

Rank benign tumours above malignant ones, with more or less weight on the top of the list; solve fast and exactly, and
look at the certificate of optimality.
"""

# %%
# Declare, solve, compare
# -----------------------
# Six features of the breast cancer data, scaled to [−1, 1] as in the 2005 paper. ``p`` is the push, ``l2``
# the strength of the penalty :math:`\tfrac{\lambda_2}{2}\|w\|^2`.
import matplotlib.pyplot as plt
from sklearn import datasets, preprocessing

import convexrank as cr
from convexrank import metrics, plotting

X, y = datasets.load_breast_cancer(return_X_y=True)
X = preprocessing.minmax_scale(X[:, :6], (-1, 1))
problem = cr.problems.PNormPush(X, y, p=8, l2=1e-4)
fast, exact = problem.solve(), problem.solve(solver="exact")
print(f"fast:  {fast.solver}, {fast.status.name}, objective {fast.value:.10f}")
print(f"exact: {exact.solver}, {exact.status.name}, objective {exact.value:.10f}")

# %%
# The certificate is computed from the problem and the returned point only, by code that no solver shares.
# Here it is a bound on the distance to the optimum:
print(fast.certificate)

# %%
# What the push does
# ------------------
# With a larger p more positives are above the first negative, and the ranking is worse further down the list.
curves = {}
for p in (1, 4, 16, 64):
    solution = cr.problems.PNormPush(X, y, p=p, l2=1e-4).solve()
    curves[p] = (y, X @ solution.x)
    print(f"p = {p:<2}: {metrics.positives_at_top(*curves[p])} of {y.sum()} positives "
          f"above the first negative, AUC {metrics.auc(*curves[p]):.4f}")  # fmt: skip
plotting.roc(curves, zoom=0.1)
plt.show()

# %%
# These are training rows. Whether the top is also cleaner on new rows depends on the number of rows: see the table of
# ``convexrank demo``, over several splits, and :doc:`/which_price`.
