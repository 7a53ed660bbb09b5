r"""
Figures 1 and 4 of the 2009 paper
=================================

How much each positive–negative pair contributes to the objective, for the P-Norm Push and the IR Push.
"""

# %%
# The list
# --------
# Ten positives and ten negatives with scores 1, 0.95, …, 0.05, as in section 3.3 of the paper. The order of
# the labels is ours, so the cells differ in detail from the printed figures; the pattern is the same.
import matplotlib.pyplot as plt
import numpy as np

from convexrank import plotting

scores = np.arange(20, 0, -1) / 20
labels = np.array([0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0])

# %%
# Figure 1: the P-Norm Push
# -------------------------
# Positives from the highest (bottom) to the lowest (top), negatives from the highest (left) to the lowest.
# The upper left corner is the worst negative with the worst positive. As p grows the weight moves to the
# left: to the highest negatives.
plotting.pair_contributions(labels, scores, p=[1, 2, 4, 6, 8])
plt.show()

# %%
# Figure 4: the IR Push
# ---------------------
# The weight leans to the lower left as well: to the positives near the top of the list.
plotting.pair_contributions(labels, scores, kind="ir")
plt.show()

# %%
# Why no matrix is needed
# -----------------------
# The share of pair (i, k) is a product :math:`a_i b_k`. For the P-Norm Push a does not depend on p:
for p in (1, 8):
    a, b = plotting.pair_shares(labels, scores, p=p)
    print(f"p = {p}: lowest positive {a[-1]:.3f}, highest positive {a[0]:.3f}; "
          f"highest negative {b[0]:.3f}, lowest negative {b[-1]:.3f}")  # fmt: skip
a, b = plotting.pair_shares(labels, scores, kind="ir")
print(f"IR:    lowest positive {a[-1]:.3f}, highest positive {a[0]:.3f}; "
      f"highest negative {b[0]:.3f}, lowest negative {b[-1]:.3f}")  # fmt: skip
