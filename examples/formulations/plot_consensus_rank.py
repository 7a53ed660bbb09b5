r"""
Consensus over sets: three views of an uncertain graph
======================================================

Eight pages link to one another in two ways: by what their texts cite, and, some of them, by what their readers click.
The weight of each way is unknown, so a page recommends *some* mixture of the two.
"""

# %%
# A candidate for each type of edge
# ---------------------------------
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

rng = np.random.default_rng(0)
n = 8
edges = [(i, j, "cites") for i in range(n) for j in {(i + 1) % n, int(rng.integers(4))} - {i}]
edges += [(i, j, "clicks") for i in (1, 3, 4, 6) for j in set(rng.integers(2, n, 3).tolist()) - {i}]
source, target, kind = zip(*edges, strict=True)
sets = cr.consensus.CandidateSets.from_labelled(cr.LabelledGraph.from_edges(source, target, kind, n=n))

# %%
# How far each score can vary, and three choices
# ----------------------------------------------
bounds = cr.consensus.score_intervals(sets)
views = {}
for view in ("optimistic", "pessimistic", "projection"):
    problem = cr.problems.ConsensusRank(sets, view=view)
    solution = problem.solve()
    views[view] = problem.ranks(solution)
    print(f"{view}: order {np.argsort(-views[view]).tolist()}, {solution.certificate}")
proved = [(i, j) for i in range(n) for j in range(n) if i != j and bounds.above(i, j)]
print(f"the intervals prove {len(proved)} of {n * (n - 1) // 2} pairs, among them {proved[:4]}")

# %%
# The published methods
# ---------------------
# BreW should be stationary for some β, by Proposition 9. BLeND should be pessimistic.
betas = np.linspace(0.1, 0.9, 9)
residuals = {
    update: [cr.consensus.brew(sets, beta=beta, weights=update, max_iter=500).residual for beta in betas]
    for update in ("published", "penalty")
}
for loop in ("single", "double"):
    result = cr.consensus.blend(sets, loop=loop, rounds=150)
    apart = {view: np.abs(result.ranks - views[view]).sum() for view in ("optimistic", "pessimistic")}
    print(f"BLeND, {loop} loop: residual {result.residual:.3f}, "
          f"{apart['optimistic']:.3f} from the optimistic ranks, "
          f"{apart['pessimistic']:.3f} from the pessimistic ones")  # fmt: skip

# %%
# The figure
# ----------
figure, panels = plt.subplots(1, 2, figsize=(9.6, 3.9), width_ratios=(3, 2), layout="constrained")
nodes = np.arange(n)
panels[0].vlines(nodes, bounds.lower, bounds.upper, color="0.8", linewidth=9, label="interval of the score")
marks = {
    "optimistic": ("#0072b2", "o", -0.18),
    "pessimistic": ("#d55e00", "s", 0.0),
    "projection": ("#009e73", "^", 0.18),
}
for view, (color, marker, shift) in marks.items():
    panels[0].plot(nodes + shift, views[view], marker, color=color, label=view)
panels[0].set(xlabel="node", ylabel="score", xticks=nodes, ylim=(0.0, 0.34))
panels[0].legend(ncols=2)
for (update, values), color in zip(residuals.items(), ("#cc79a7", "#56b4e9"), strict=True):
    panels[1].plot(
        betas, values, color=color, label=f"w as in {'Figure 5.6' if update == 'published' else '(5.38)'}"
    )
panels[1].set(xlabel="β", ylabel="residual of BreW", ylim=(0.0, None))
panels[1].legend()
plt.show()
