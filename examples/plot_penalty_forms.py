r"""
The penalty method with any divergence, and with a floor
========================================================

Section 5.3.1 of the dissertation puts a general Bregman divergence into the penalty method, (5.17) to (5.19), and
section 5.2.2 a floor Δ_ε under all shares, (5.15), (5.16). Both are said to come to PageRank as β → 0. The code is in
``examples/penalty_forms.py``; for KL without a floor see :class:`~convexrank.problems.PenaltyRank`.
"""

import matplotlib.pyplot as plt
import numpy as np
import penalty_forms as forms
from scipy.optimize import minimize

import convexrank as cr

EDGES = [(0, 1), (0, 2), (1, 2), (2, 0), (3, 2), (3, 0)]
P = forms.columns(EDGES)
ranks = forms.pagerank(P)
print("PageRank", ranks.round(4))

# %%
# Every divergence has a limit of its own
# ---------------------------------------
# The dissertation's example of four nodes. The alternation tends to a point in which
#
# .. math:: P\rho - \rho = H^{-1}(D - \lambda\mathbf 1), \qquad H = \varphi''(\rho),\quad D_i = D_\varphi(t_i\|\rho),
#
# the condition for a minimum of :math:`G_\varphi(\rho) = \sum_i\rho_i D_\varphi(t_i\|\rho)` inside the simplex.
# PageRank has 0 on the left, so it is such a point only when H⁻¹ maps D − λ1 to 0: when all D_i are equal. The three
# divergences have three limits, and all have a smaller disagreement than PageRank.

betas = np.array([0.5, 0.2, 0.1, 0.05, 0.02])
limits, away, rest = {}, {}, {}
for divergence in forms.DIVERGENCES:
    w, away[divergence.name], rest[divergence.name] = ranks, [], []
    for beta in betas:
        w, _ = forms.alternate(divergence, P, beta, round(6 / beta), w)
        away[divergence.name].append(np.abs(w - ranks).sum())
        rest[divergence.name].append(np.abs(forms.slack(divergence, P, w)).sum())
    limits[divergence.name] = w
    values = [forms.objective(divergence, P, x) for x in (w, ranks)]
    print(
        f"{divergence.name:<10} limit {w.round(4)}, top node {w.argmax()} (PageRank: {ranks.argmax()}); "
        f"G {values[0]:.4f}, of PageRank {values[1]:.4f}"
    )
problem = cr.problems.PenaltyRank(cr.Graph.from_edges(*np.array(EDGES).T))
print(f"KL: distance from PenaltyRank {np.abs(limits['KL'] - problem.solve().x).sum():.1e}")

colours = dict(zip(away, ("#0072b2", "#009e73", "#d55e00"), strict=True))
figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 3.9), layout="constrained")
for name, colour in colours.items():
    left.semilogx(betas, away[name], marker=".", color=colour, label=name)
    right.loglog(betas, rest[name], marker=".", color=colour, label=name)
left.set(xlabel="β", ylabel="distance from PageRank, L1 norm", ylim=(0, None))
right.set(xlabel="β", ylabel="residual of the condition above, L1 norm")
for panel in (left, right):
    panel.set_xticks(betas, [f"{beta:g}" for beta in betas])
    panel.minorticks_off()
left.legend()
for panel in (left, right):
    panel.grid(alpha=0.25)
plt.show()

# %%
# The floor
# ---------
# With a floor the second block is :math:`w_i = \max\{\epsilon, \mu\rho_i e^{-\beta/(1-\beta)D_i}\}`. As printed, (5.16)
# multiplies the exponent by a λ_i, which cannot lift a node with D_i = λ. The limit is the minimum of G over the
# distributions with shares of at least ε, which a general solver finds, too:

floors = (0.0, 0.03, 0.08, 0.12, 0.16)
print(" floor  share of the least node  distance from PageRank  from the minimum of G over Δ_ε")
for floor in floors:
    w, _ = forms.alternate(forms.KL, P, 0.02, 400, ranks, floor)
    direct = minimize(
        lambda x: forms.objective(forms.KL, P, x),
        np.full(4, 0.25),
        bounds=[(max(floor, 1e-9), 1)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        options={"ftol": 1e-14},
    ).x
    print(f"{floor:6.2f}  {w.min():23.4f}  {np.abs(w - ranks).sum():22.4f}  {np.abs(w - direct).sum():29.4f}")

# %%
# Proposition 4 requires :math:`(1-\beta)/\beta \ge (2 + \delta/(1-\delta))/\epsilon` so that the consensus ρ̃ lies near
# w: :math:`\|Pw - \tilde\rho\| \ge \tfrac{\delta}{1-\delta}\|w - \tilde\rho\|`. But ρ̃ = βPw + (1 − β)w, so the
# quotient of the two *is* (1 − β)/β, and :math:`(1-\beta)/\beta \ge \delta/(1-\delta)` is enough, for every ε. That w
# and ρ̃ are near says nothing about PageRank.

for floor, delta in ((0.03, 0.5), (0.03, 0.9), (0.08, 0.9)):
    beta = forms.sufficient_penalty(floor, delta)
    w, rho = forms.alternate(forms.KL, P, beta, 50, ranks, floor)
    rho = beta * P @ w + (1 - beta) * w
    quotient = np.abs(P @ w - rho).sum() / np.abs(w - rho).sum()
    print(
        f"ε = {floor}, δ = {delta}: β = {beta:.5f} by Proposition 4, quotient {quotient:.1f}, "
        f"asked for {delta / (1 - delta):.1f}; β = {1 - delta:.1f} is enough"
    )
