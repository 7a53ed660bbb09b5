r"""
Propagation of trust: a seed of either kind
===========================================

The graph of Figure 6.3, where node 6 also links to the legitimate node 4 to look better, with one trusted page and one
distrusted one.
"""

# %%
# Trust along the links, distrust against them
# --------------------------------------------
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

edges = [(1, 2), (1, 3), (1, 4), (1, 5), (2, 3), (3, 4), (4, 5), (5, 2), (5, 1), (6, 4)]
edges += [(7, 6), (8, 6), (9, 6), (6, 7), (6, 8), (6, 9)]
graph = cr.Graph.from_edges(*np.array(edges).T - 1)
problem = cr.problems.TrustPropagation(graph, trusted=[0], distrusted=[6])
solution = problem.solve()
trust, distrust = problem.parts(solution)
print(f"the distance to the solution is at most {solution.gap:.1e} ({solution.certificate.metric})")

# %%
# A rank scaled by its share of trust
# -----------------------------------
plain = cr.pagerank(graph)
scaled = cr.combined_rank(plain, trust, distrust)
for name, rank in (("PageRank", plain), ("scaled", scaled)):
    print(f"{name}: " + " ".join(str(i + 1) for i in np.argsort(-rank, kind="stable")))

# %%
# The figure
# ----------
figure, panels = plt.subplots(1, 2, figsize=(9.2, 3.8), layout="constrained")
nodes = np.arange(1, 10)
panels[0].bar(nodes - 0.2, trust, 0.4, color="#0072b2", label="trust, from node 1")
panels[0].bar(nodes + 0.2, distrust, 0.4, color="#d55e00", label="distrust, from node 7")
panels[1].bar(nodes - 0.2, plain, 0.4, color="0.6", label="PageRank")
panels[1].bar(nodes + 0.2, scaled, 0.4, color="#009e73", label="scaled by trust")
for panel in panels:
    panel.set(xlabel="node (6 to 9: the farm)", xticks=nodes)
    panel.legend()
plt.show()
