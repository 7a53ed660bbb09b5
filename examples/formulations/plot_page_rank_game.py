r"""
The PageRank game: an exact penalty, and how fast play finds it
===============================================================

Distributions w against multipliers s of bounded norm, which punish every departure from w = Pw. If the bound is large
enough the best w is PageRank; repeated play converges to it slowly.
"""

# %%
# The threshold
# -------------
# Below the bound R* the answer is another distribution; from R* on it is PageRank, to the last digit.
import warnings

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank.solvers import NoRegretPlay

graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
ranks = cr.pagerank(graph)
shares = np.linspace(0.05, 1.3, 26)
distances = {}
for norm in ("1", "2", "inf"):
    exact = cr.problems.PageRankGame(graph, "kl", norm=norm)
    print(f"norm {norm:>3}: R* = {exact.threshold:.6f}")
    games = (
        cr.problems.PageRankGame(graph, "kl", epsilon=1 / (share * exact.threshold), norm=norm, relaxed=True)
        for share in shares
    )
    distances[norm] = [np.abs(game.solve(tol=1e-12).x - ranks).sum() for game in games]

# %%
# Six ways to play
# ----------------
# Following the leader is Frank and Wolfe's method on the other player's problem with the step 1/t.
game = cr.problems.PageRankGame(graph, "kl")
ways = {
    "leader, mean": NoRegretPlay(averaging="harmonic"),
    "leader, 2/(t+1)": NoRegretPlay(averaging="frank-wolfe"),
    "leader, line search": NoRegretPlay(),
    "multiplied weights": NoRegretPlay("entropic"),
    "projected gradient": NoRegretPlay("gradient"),
}
played = {}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", cr.ConvergenceWarning)  # a number of rounds is asked for, no accuracy
    for name, solver in ways.items():
        played[name] = game.solve(solver, tol=1e-14, max_iter=3000)
for name, solution in played.items():
    gap = solution.trace["gap"][:-1]
    if len(gap) > 1000:
        t = np.arange(100, len(gap))
        print(f"{name}: slope {np.polyfit(np.log(t), np.log(gap[100:]), 1)[0]:.2f}, gap {gap[-1]:.1e}")
    else:
        print(f"{name}: gap {gap[-1]:.1e} after {len(gap) - 1} rounds")

# %%
# The figure
# ----------
figure, panels = plt.subplots(1, 2, figsize=(9.8, 4.0), layout="constrained")
for (norm, distance), colour in zip(distances.items(), ("#d55e00", "#000000", "#0072b2"), strict=True):
    panels[0].semilogy(shares, np.maximum(distance, 1e-16), marker=".", color=colour, label=f"norm {norm}")
panels[0].axvline(1.0, color="0.6", linewidth=1.0)
panels[0].set(xlabel="R / R*", ylabel="distance from PageRank, L1 norm")
panels[0].legend()
cr.plotting.rates(played, ax=panels[1])
panels[1].set(ylim=(1e-10, 10))
plt.show()
