r"""
Ranks by a norm: a link farm and a growing p
============================================

Figure 6.3 of the dissertation: a legitimate part of five pages, and node 6, the target of a farm of three pages.
"""

# %%
# The graph
# ---------
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

edges = [(1, 2), (1, 3), (1, 4), (1, 5), (2, 3), (3, 4), (4, 5), (5, 2), (5, 1)]
edges += [(7, 6), (8, 6), (9, 6), (6, 7), (6, 8), (6, 9)]
graph = cr.Graph.from_edges(*np.array(edges).T - 1)

# %%
# Ranks for growing p
# -------------------
# θ = p/q stays at 0.99, so that every rank is unique and certified; "outside" keeps the weak links out of the norm.
powers = [1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 50.0]
ranks = np.array([cr.problems.LpqRank(graph, p, p / 0.99, weak_links="outside").solve().x for p in powers])
limit = cr.problems.LpqRank(graph, np.inf, np.inf, theta=0.99, weak_links="outside").solve().x
for p, r in [*zip(powers, ranks, strict=True), (np.inf, limit)]:
    print(f"p = {p:<4g} position of node 6: {int((r > r[5] + 1e-9).sum()) + 1}")

# %%
# The figure
# ----------
figure, panel = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
for node in range(9):
    style = (
        {"color": "#d55e00", "linewidth": 2.5} if node == 5 else {"color": "0.35" if node < 5 else "#e69f00"}
    )
    kind = "node 6" if node == 5 else "legitimate" if node == 0 else "farm" if node == 6 else None
    panel.semilogx(powers, ranks[:, node], label=kind, **style)
    panel.plot([75], limit[node], marker="_", markersize=14, color=style["color"])
panel.set(xlabel="p (at the right p = ∞)", ylabel="rank")
panel.set_xticks([1, 2, 4, 8, 16, 50, 75], ["1", "2", "4", "8", "16", "50", "∞"], minor=False)
panel.minorticks_off()
panel.set_ylim(None, 0.235)
panel.legend(loc="upper right", ncols=3)
plt.show()
