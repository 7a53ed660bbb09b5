r"""
A push from Parquet files
=========================

Rows that fit no memory are read in pieces, one pass for each evaluation. Here they are few, so that the same rows can
be fitted in memory, too; :doc:`/large_data` explains what happens.
"""

# %%
# Files
# -----
# Clicks on a quarter of a million rows, written to eight files in float32. Where pyarrow is missing (the extra
# ``arrow``), the example uses numpy's own format.
import tempfile
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr

folder = tempfile.TemporaryDirectory()
path = Path(folder.name)
rng = np.random.default_rng(0)
names = [f"feature {j}" for j in range(20)]
mixing = rng.normal(size=(len(names), len(names))) / 5  # features are correlated
truth = rng.normal(size=len(names)) / 5
kept = []
for number in range(8):
    X = (rng.normal(size=(30_000, len(names))) @ mixing).astype(np.float32)
    clicked = X @ truth + 0.5 * rng.normal(size=len(X)) > 1.5
    kept.append((X, clicked))
    if find_spec("pyarrow"):
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table({**dict(zip(names, X.T, strict=True)), "clicked": clicked})
        parquet.write_table(table, path / f"part-{number}.parquet")
    else:
        np.savez(path / f"part-{number}.npz", X=X, y=clicked)

if find_spec("pyarrow"):
    chunks = cr.data.Chunks.from_parquet(path, y="clicked", columns=names)
else:
    print("pyarrow is not installed, so the files are numpy's")
    chunks = cr.data.Chunks.from_files(sorted(path.glob("*.npz")))
print(chunks)
print(f"{chunks.y.mean():.1%} of the rows were clicked")

# %%
# The fit
# -------
# The callback notes the passes so far, and the point.
problem = cr.problems.PNormPush(chunks, chunks.y, p=4, l2=1e-4)
states = []
solution = problem.solve(callback=lambda state: states.append((chunks.passes, state.x)))
print(solution)
print(solution.message.rpartition("; ")[2])

# %%
# The rows in memory have the same minimum.
X, clicked = (np.concatenate(parts) for parts in zip(*kept, strict=True))
in_memory = cr.problems.PNormPush(X, clicked, p=4, l2=1e-4)
print(f"largest difference of a weight: {np.abs(in_memory.solve().x - solution.x).max():.0e}")
print(f"certificate in memory: {in_memory.certificate(solution).gap:.0e}")

# %%
# Passes
# ------
# The first two passes look at all entries, and read a sample. The curve starts at the minimiser of the sample. From
# there on each step is one pass.
passes = [count for count, _ in states]
gaps = [in_memory.certificate(x).gap for _, x in states]
cold = []
before = chunks.passes
problem.solve(
    cr.solvers.LBFGS(sample=False), callback=lambda state: cold.append((1 + chunks.passes - before, state.x))
)
fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.semilogy(passes, gaps, "o-", label="from a sample")
ax.semilogy(
    [count for count, _ in cold], [in_memory.certificate(x).gap for _, x in cold], "s--", label="from zero"
)
ax.set_xlabel("passes over the files")
ax.set_ylabel("certified gap")
ax.legend()
plt.show()

# %%
# The estimator
# -------------
# ``PushRanker`` takes the pieces as they are, and scores in one pass.
ranker = cr.PushRanker(p=4, l2=1e-4).fit(chunks, chunks.y)
print(f"area under the ROC curve: {ranker.score(chunks, chunks.y):.4f}")


# %%
# A graph in files
# ----------------
# Links come in pieces, too: here of a crawl by source, drawn anew for each pass. A build sorts them by target in two
# passes, within the memory that it is given, and writes a folder.
class Crawl:
    """Three million links among 200 000 pages; pages with small numbers are linked to more often."""

    def __iter__(self):
        for first in range(0, 200_000, 20_000):
            draw = np.random.default_rng(first)
            source = np.repeat(np.arange(first, first + 20_000), 15)
            yield source, (200_000 * draw.random(len(source)) ** 3).astype(np.int64)


graph = cr.Graph.build(Crawl(), path / "graph", memory=40_000_000)
size = sum(file.stat().st_size for file in (path / "graph").iterdir())
print(f"{graph}: {size / 1e6:.0f} MB on the disk")

# %%
# Its edges stay on the disk, and a sweep reads them in order. The certificate is that of the graph in memory.
problem = cr.problems.PageRank(graph)
ranks = problem.solve(tol=1e-8)
print(f"{ranks.status.name} in {ranks.iterations} sweeps: {ranks.certificate}")
in_degrees = np.diff(graph.offsets)
fig, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.loglog(in_degrees[::20] + 1, ranks.x[::20] * graph.n, ".", markersize=3)
ax.set_xlabel("pages that link to a page, and one more")
ax.set_ylabel("PageRank times the number of pages")
plt.show()
folder.cleanup()
