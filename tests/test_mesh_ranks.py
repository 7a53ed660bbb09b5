"""How a graph is cut for a mesh of devices, and a certificate for processes; real ones run in test_shards.py."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import convexrank as cr
from convexrank.graphs.build import nth_range
from convexrank.solvers.fixed_point import _mesh
from convexrank.solvers.fixed_point._mesh import OnMesh, _ranges, count_together
from tests.tolerances import tolerance


def skewed(n, m, seed, weighted):
    """A graph whose first nodes have most of the edges; the last ones link nowhere."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, n - n // 8, m), (n * rng.random(m) ** 3).astype(int)
    return cr.Graph.from_edges(source, target, rng.random(m) + 0.1 if weighted else None, n)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["PageRank", "LpqRank", "TrustPropagation"])
def test_a_certificate_in_parts_is_the_certificate(name, seed):
    problem = getattr(cr.problems, name).random(seed)
    x = problem.check_point(problem.apply_map(problem.start()) + 1e-3 * (problem.start() > 0.0))
    truth = problem.certificate(x)
    for parts in (1, 2, 3, 70):
        found = np.array([problem._certificate_part(x, k, parts) for k in range(parts)])
        whole = problem._certificate_of_parts(x, found)
        assert (whole.kind, whole.metric) == (truth.kind, truth.metric)
        assert abs(whole.gap - truth.gap) <= tolerance("ranks") * truth.gap
        if name == "PageRank" and parts > 1:  # a sum: what is left out is missed
            worst = np.argmax(found.max(axis=1))
            assert problem._certificate_of_parts(x, np.delete(found, worst, axis=0)).gap < 0.999 * truth.gap


class Together:
    """Ranks that are threads: what each gives is gathered by a barrier."""

    def __init__(self, index, heard, barrier):
        self.index, self.count, self.heard, self.barrier = index, len(heard), heard, barrier

    def each(self, compute):
        return compute()

    def gather(self, compute, length):
        self.barrier.wait(10.0)
        self.heard[self.index] = compute()
        self.barrier.wait(10.0)
        assert all(len(one) == length for one in self.heard)
        return np.stack(self.heard)


class Counted(cr.Graph):
    """A graph that notes which nodes were asked for."""

    def blocks(self, first=0, last=None):
        vars(self).setdefault("asked", []).append((first, last))
        return super().blocks(first, last)


def test_processes_count_degrees_for_a_part_of_the_edges_each(monkeypatch):
    monkeypatch.setattr(_mesh, "_NODES", 7)
    whole = skewed(40, 200, 3, True)
    for weights, known in ((None, False), (None, True), (whole.weights, False)):
        graphs = [Counted(whole.offsets, whole.sources, weights) for _ in range(3)]
        if known:
            assert graphs[0].degrees.sum() == whole.m  # the others do not know them
            graphs[0].asked.clear()
        heard, barrier = [np.zeros(0)] * 3, threading.Barrier(3)
        with ThreadPoolExecutor(3) as pool:
            ranks = [Together(k, heard, barrier) for k in range(3)]
            list(pool.map(count_together, ranks, graphs))
        divided = weights is None and not known
        asked = [getattr(graph, "asked", []) for graph in graphs]
        ends = [nth_range(whole.offsets, k, 3) for k in range(3)]
        assert asked == ([[pair] for pair in ends] if divided else [[]] * 3)
        truth = np.bincount(whole.sources, weights, 40)
        for graph in graphs:
            assert graph.degrees.dtype == (np.int32 if weights is None else np.float64)
            assert np.allclose(graph.degrees, truth, rtol=0.0, atol=tolerance("ranks"))
            assert not graph.degrees.flags.writeable


def test_every_edge_is_on_the_device_of_its_target():
    """Put together by hand, without a device: places of sources, and rows, in the parts of three devices."""
    graph = skewed(40, 200, 3, False)
    for parts in (1, 3, 7, 60):
        bounds = _ranges(graph, parts)
        assert bounds[0] == 0
        assert bounds[-1] == graph.n
        assert len(bounds) == parts + 1
        assert (np.diff(bounds) >= 0).all()
        size = int(np.diff(bounds).max()) + 1
        assert size <= 2 * (graph.n // parts + 2)
        places = OnMesh(None, bounds, size, ())._places(np.arange(graph.n))
        for i, place in enumerate(places.tolist()):
            part, row = divmod(place, size)
            assert row < size - 1
            assert bounds[part] + row == i
            assert i < bounds[part + 1]


def test_what_is_no_mesh_is_refused():
    for mesh in (4, "nodes", [None]):
        with pytest.raises(
            TypeError, match=r"mesh is .*, expected a jax.sharding.Mesh of devices; make one with"
        ):
            cr.solvers.JaxPower(mesh=mesh)
