"""Ranks over a mesh of devices: those of one device, however the nodes are cut; over processes: test_shards.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import convexrank as cr
from convexrank.solvers.fixed_point._mesh import OnMesh, _ranges
from tests.tolerances import tolerance

PROGRAM = """
import json, sys
import jax
import numpy as np
import convexrank as cr
from tests.test_mesh_ranks import problems

def mesh_of(k):
    return jax.sharding.Mesh(np.array(jax.devices()[:k]).reshape(1, k), ("hosts", "nodes"))

for name, (problem, sizes) in problems().items():
    truth = problem.reference()
    for k in sizes:
        found = problem.solve(cr.solvers.JaxPower(mesh=mesh_of(k)), tol=2e-13)
        first = found.x if k == sizes[0] else first
        away = float(np.abs(found.x - first).max() / first.max())
        error = float(problem.distance(found.x, truth))
        print(json.dumps([name, k, away, found.status.name, found.gap, error]))
problem = problems()["uniform, two"][0]
explicit = jax.make_mesh((4,), ("nodes",), axis_types=(jax.sharding.AxisType.Explicit,))
again = problem.solve(cr.solvers.JaxPower(mesh=explicit), tol=2e-13)
error = float(problem.distance(again.x, problem.reference()))
print(json.dumps(["explicit", 4, 0.0, again.status.name, again.gap, error]))
"""


def skewed(n, m, seed, weighted):
    """A graph whose first nodes have most of the edges; the last ones link nowhere."""
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, n - n // 8, m), (n * rng.random(m) ** 3).astype(int)
    return cr.Graph.from_edges(source, target, rng.random(m) + 0.1 if weighted else None, n)


def problems():
    """What is solved over the meshes, and over how many devices."""
    v = np.random.default_rng(1).random((60, 2)) ** 4
    return {
        "teleport": (cr.problems.PageRank(skewed(60, 400, 0, True), 0.9), (2, 4)),
        "uniform, two": (cr.problems.PageRank(skewed(60, 300, 1, False), 0.8, v, "uniform"), (2,)),
        "trust": (cr.problems.TrustPropagation(skewed(60, 300, 4, False), [0, 7], [3], 0.8, 2, 2.5), (2,)),
    }


def test_meshes_of_several_devices_give_the_answer_of_one():
    """In a process of its own, because the number of devices is fixed when JAX starts."""
    surroundings = {
        **os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        capture_output=True, text=True, timeout=300, check=False, env=surroundings,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [(name, k) for name, (_, sizes) in problems().items() for k in sizes]
    assert [(name, k) for name, k, *_ in found] == [*expected, ("explicit", 4)]
    for name, k, away, status, gap, error in found:
        assert away <= 1e-12, (name, k)
        assert status == "CONVERGED"
        assert error <= gap + tolerance("atoms")
        assert gap <= 2e-13


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["PageRank", "LpqRank", "TrustPropagation"])
def test_a_certificate_in_parts_is_the_certificate(name, seed):
    problem = getattr(cr.problems, name).random(seed)
    x = problem.check_point(problem.apply_map(problem.start()) + 1e-3 * (problem.start() > 0.0))
    truth = problem.certificate(x)
    for parts in (1, 2, 3, 70):
        found = np.array([problem.certificate_part(x, k, parts) for k in range(parts)])
        whole = problem.certificate_of_parts(x, found)
        assert (whole.kind, whole.metric) == (truth.kind, truth.metric)
        assert abs(whole.gap - truth.gap) <= tolerance("ranks") * truth.gap
        if name == "PageRank" and parts > 1:  # a sum: what is left out is missed
            worst = np.argmax(found.max(axis=1))
            assert problem.certificate_of_parts(x, np.delete(found, worst, axis=0)).gap < 0.999 * truth.gap


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
