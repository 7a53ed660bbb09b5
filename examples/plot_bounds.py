"""
Which bounds say anything
=========================

A risk is at most 1, and so is every bound that says something. A linear ranker is trained on 9010 rows of MAGIC; as
many rows are held out. This page draws the published bounds on its push risk and the bounds of ``bounds.push_risk``,
with probability of failure 0.05. The numbers come from ``examples/bounds_on_magic.py``; without the data, from the file
that it wrote.
"""

# %%
# The bounds
# ----------
import bounds_on_magic
import matplotlib.pyplot as plt
import numpy as np
import real_data

import convexrank as cr
from convexrank import bounds

try:
    rows = bounds_on_magic.computed(*real_data.magic())
except FileNotFoundError as reason:
    rows = bounds_on_magic.shipped()
    print(f"As computed before, because {reason}")
print("risk  statement                     rows       empirical  bound")
for row in rows:
    said = "says nothing" if row.vacuous else ""
    print(f"{row.risk:5s} {row.statement:29s} {row.rows:10s} {row.empirical:.3f}     {row.bound:.3f} {said}")

# %%
# The picture to remember
# -----------------------
# A dot is a bound, a bar the risk that was measured on the same rows. To the right of 1 a bound says nothing: there are
# all published ones as soon as p is 4. The lower part has bounds on the same rows, for the same family of rankers.
pushes = [row for row in rows if row.risk != "L"]
figure, panels = plt.subplots(1, 3, figsize=(10.0, 3.6), sharey=True, layout="constrained")
for panel, p in zip(panels, bounds_on_magic.POWERS, strict=True):
    own = [row for row in pushes if row.risk == f"R_{p}"]
    for place, row in enumerate(own):
        colour = "#d55e00" if row.vacuous else "#0072b2"
        panel.plot([row.empirical, row.bound], [place, place], color=colour, linewidth=1.2)
        panel.plot(row.bound, place, "o", color=colour)
        panel.plot(row.empirical, place, "|", color="black", markersize=12)
    panel.axvspan(1.0, 4.6, color="0.92", zorder=0)
    panel.text(1.1, 5.62, "says nothing", color="0.4", fontsize="small")
    panel.set(xlim=(0.0, 4.6), ylim=(5.8, -0.6), xlabel=f"push risk, p = {p}")
    panel.set_yticks(range(len(own)), [f"{row.statement}\n{row.rows}" for row in own], fontsize="small")
plt.show()

# %%
# How many rows it takes
# ----------------------
# Half of the rows are positive, and the true risk for p = 4 is 0.33. The published bound for a single ranker, an
# empirical risk plus ε, falls below 1 at about ten million rows: the number of negatives that it needs grows as
# :math:`(4/ε)^{2p}`. The bound of ``push_risk`` takes no power of ε.
sizes = np.geomspace(100, 1e8, 13)
published = [0.33 + bounds.push(int(n / 2), int(n / 2), 4, delta=0.05).value for n in sizes]
rng, drawn = np.random.default_rng(0), sizes[sizes <= 1e6]
ours = []
for n in drawn.astype(int):
    y = np.arange(n) < n // 2
    s = rng.normal(size=n) + 1.68 * y
    ours.append(bounds.push_risk(y, s, 4, 0.05).value)
print(f"empirical risk at {drawn[-1]:.0e} rows: {cr.metrics.push_risk(y, s, 4):.3f}")
figure, panel = plt.subplots(figsize=(6.0, 3.6), layout="constrained")
panel.semilogx(sizes, published, "o-", color="#d55e00", label="2005, Theorem 2, one ranker")
panel.semilogx(drawn, ours, "s-", color="#0072b2", label="push_risk, one ranker")
panel.axhspan(1.0, 3.0, color="0.92", zorder=0)
panel.axhline(0.33, color="black", linewidth=0.8, label="the risk")
panel.set(ylim=(0.0, 3.0), xlabel="rows held out", ylabel="bound on the push risk, p = 4")
panel.legend()
plt.show()

# %%
# The ranking risk
# ----------------
# The share of pairs in the wrong order is estimated by a U-statistic. On held-out rows all three bounds for one rule
# are informative. Over all linear rules, on the training rows, the bounds are hardly informative: the shares of the two
# classes alone keep the risk below 2·.65·.35 = .46 for every ranker.
own = [row for row in rows if row.risk == "L"]
figure, panel = plt.subplots(figsize=(6.4, 3.0), layout="constrained")
for place, row in enumerate(own):
    panel.plot([row.empirical, row.bound], [place, place], color="#0072b2", linewidth=1.2)
    panel.plot(row.bound, place, "o", color="#0072b2")
    panel.plot(row.empirical, place, "|", color="black", markersize=12)
panel.axvspan(0.456, 1.0, color="0.92", zorder=0)
panel.set(xlim=(0.0, 0.9), ylim=(5.5, -0.5), xlabel="ranking risk, or excess over the best rule")
panel.set_yticks(range(len(own)), [f"{row.statement}, {row.rows}" for row in own], fontsize="small")
plt.show()
