r"""
Penalty rank: a consensus that is not PageRank
==============================================

The distribution ρ with the least weighted disagreement :math:`\sum_i \rho_i\,\mathrm{KL}(t_i\|\rho)` is not PageRank:
it favours the nodes that agree with it. Two communities make two minima.
"""

# %%
# Two communities
# ---------------
# Four nodes and five, all linked within, no link between.
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

groups = [range(4), range(4, 9)]
edges = [(i, j) for members in groups for i in members for j in members if i != j]
problem = cr.problems.PenaltyRank(cr.Graph.from_edges(*np.array(edges).T))
solution = problem.solve()
ranks = problem.start()
print(
    f"PageRank gives the second community {ranks[4:].sum():.3f}, the penalty rank {solution.x[4:].sum():.3f}"
)
print(f"disagreement {problem.objective(ranks):.4f} and {solution.value:.4f}, residual {solution.gap:.0e}")

# %%
# What the penalty method tends to
# --------------------------------
# Rounds with a small β, on the four nodes of the dissertation's example. As β falls the limit converges to
# the penalty rank.
four = cr.problems.PenaltyRank(cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0]))
betas = np.geomspace(0.5, 0.005, 9)
away = {"PageRank": [], "penalty rank": []}
answer, start = four.solve().x, four.start()
for beta in betas:
    w = start
    for _ in range(round(30 / beta)):
        w = four.alternate(w, beta)
    away["PageRank"].append(np.abs(w - start).sum())
    away["penalty rank"].append(np.abs(w - answer).sum())
print(f"beta = {betas[-1]:.3f}: " + ", ".join(f"{d[-1]:.4f} from {name}" for name, d in away.items()))

# %%
# The figure
# ----------
figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
share = np.linspace(0.01, 0.99, 197)
line = [np.r_[np.full(4, (1 - s) / 4), np.full(5, s / 5)] for s in share]
panels[0].plot(share, [problem.objective(rho) for rho in line], color="#0072b2")
panels[0].plot(ranks[4:].sum(), problem.objective(ranks), "o", color="#d55e00", label="PageRank")
panels[0].plot(solution.x[4:].sum(), solution.value, "s", color="#000000", label="penalty rank")
panels[0].set(xlabel="share of the second community", ylabel="weighted disagreement")
panels[0].legend()
for (name, distance), colour in zip(away.items(), ("#d55e00", "#000000"), strict=True):
    panels[1].loglog(betas, distance, marker=".", color=colour, label=f"from {name}")
panels[1].set(xlabel="β", ylabel="distance of the limit, L1 norm")
panels[1].legend()
plt.show()
