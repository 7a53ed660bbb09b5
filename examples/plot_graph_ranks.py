r"""
A network of one's own: ranks, ties, and links that may be wrong
================================================================

From a file of edges to the first nodes by name, with what is certain about their order, a picture of the network, and
the range of each score when the weights of the links are not known exactly.
"""

# %%
# A file of edges
# ---------------
# Each line names a Python package and one that it needs: so rank flows to the packages that others rest on.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import convexrank as cr
from convexrank import plotting

needs = {
    "scipy": "numpy", "contourpy": "numpy", "patsy": "numpy", "ml-dtypes": "numpy", "python-dateutil": "six",
    "pandas": "numpy python-dateutil tzdata",
    "matplotlib": "numpy contourpy cycler fonttools kiwisolver packaging pillow pyparsing python-dateutil",
    "scikit-learn": "numpy scipy joblib threadpoolctl", "seaborn": "numpy pandas matplotlib",
    "statsmodels": "numpy scipy pandas patsy packaging", "xarray": "numpy packaging pandas",
    "numba": "numpy llvmlite", "jaxlib": "numpy scipy ml-dtypes", "jax": "numpy scipy jaxlib ml-dtypes opt-einsum",
    "osqp": "numpy scipy", "clarabel": "numpy scipy", "scs": "numpy scipy",
    "cvxpy": "numpy scipy osqp clarabel scs",
}  # fmt: skip
path = Path(tempfile.mkdtemp()) / "edges.csv"
lines = [f"{package},{other}" for package, others in needs.items() for other in others.split()]
path.write_text("\n".join(["package,needs", *lines]))
graph = cr.Graph.read(path, skip_rows=1)
print(graph)

# %%
# The first ten, and what is certain
# ----------------------------------
# A coarse tolerance first: packages whose ranks differ by less than the certified bound are not told apart.
problem = cr.problems.PageRank(graph)
solution = problem.solve(tol=0.02)
plotting.ranks(solution, top=10)
plt.show()

# %%
# A fine tolerance proves the order of all but the packages that are tied.
solution = problem.solve(tol=1e-10)
print(solution)
print("certain:", ", ".join(problem.certified_top(solution, 10)))
print(graph.series(solution, sort=True).head(10).round(4).to_string())

# %%
plotting.ranks(solution, top=20)
plt.show()

# %%
# The network
# -----------
# The area of a node is its rank; the first three are orange.
plotting.graph(graph, solution.x, marked=problem.certified_top(solution, 3))
plt.show()

# %%
# If the links are uncertain
# --------------------------
# Let the share of each link be wrong by a half: the bars are the possible ranks, the points those of PageRank. What is
# above in every case is proved by the intervals alone.
sets = cr.consensus.Polytopes.around(graph, 0.5)
bounds = cr.consensus.score_intervals(sets)
first = "numpy"
below = [node for node in bounds.nodes if bounds.above(first, node)]
print(f"{first} is above {len(below)} of {graph.n - 1} others, whatever the shares are")
plotting.intervals(bounds, scores=graph.named(solution.x), top=15)
plt.show()
