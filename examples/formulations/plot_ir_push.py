r"""
IR Push: a concave discount that becomes convex
===============================================

The IR Push discounts the number of negatives above a positive by a logarithm, as measures of information retrieval do.
The logarithm is concave, so the objective is convex only because of the exponential loss.
"""

# %%
# Two faces of a price
# --------------------
# As a function of the number r the discount bends down. With the exponential loss r is always :math:`e^a`,
# where a is a log-sum-exp, a convex function of the scores. As a function of a it bends up. The discount of
# DCG stays concave for large a, so the exponential loss does not help it.
#
# The package checks this property of a price, and says where it fails:
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank import atoms, plotting, prices

price = prices.LogOnePlus()
print(f"log(1 + r): convex in r {price.convex}, convex in log r {price.log_convex}")
try:
    prices.Custom(lambda r: 2 - 1 / atoms.log1p(1 + r))
except ValueError as refusal:
    print(refusal)

# %%
# The figure
# ----------
# Left and middle: the two discounts. Right: what each pair contributes to the IR Push, for a list of ten positives and
# ten negatives with equally spaced scores, as in section 3.3 of the 2009 paper (the labels are ours). A pair is light
# when its positive is low in the list and its negative high. In the P-Norm Push a larger p moves the weight along the
# negatives only. The discount moves it along the positives, towards the top of the list.
figure, panels = plt.subplots(1, 3, figsize=(9.8, 3.4), layout="constrained")
r, a = np.linspace(0, 20, 400), np.linspace(-5, 8, 400)
discounts = {"log(1 + r)": lambda r: np.log1p(r), "2 − 1/log(2 + r), DCG's": lambda r: 2 - 1 / np.log(2 + r)}
for (name, g), style in zip(discounts.items(), ("-", "--"), strict=True):
    panels[0].plot(r, g(r), style, color="#0072b2", label=name)
    panels[1].plot(a, g(np.exp(a)), style, color="#0072b2", label=name)
panels[0].set(title="as a function of r", xlabel="r")
panels[1].set(title=r"as a function of $a = \log r$", xlabel="a")
for panel in panels[:2]:
    panel.grid(alpha=0.25)
    panel.legend(fontsize="small")
score = np.arange(20, 0, -1) / 20
labels = np.array([0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0])
plotting.pair_contributions(labels, score, kind="ir", ax=panels[2])
plt.show()

# %%
# The value does not need the pairs
# ---------------------------------
# 20 000 rows, 100 million pairs: one log-sum-exp over the negatives, one softplus per positive.
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 5))
y = rng.random(20_000) < 0.5
X[y] += 0.5
solution = cr.problems.IRPush(X, y, l2=1e-3).solve()
print(f"{solution.status.name}, gap {solution.gap:.0e}, {solution.iterations} iterations")
