"""Rows that the devices of a mesh share: eight of a CPU, in the process that mesh_of_rows.py is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import convexrank as cr
from tests import mesh_of_rows
from tests.tolerances import tolerance

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def found():
    """What a process with eight devices prints."""
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=8",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.mesh_of_rows"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["PNormPush", "with l1", "queries", "kinks"])
def test_all_meshes_have_the_same_answer(found, name):
    """Meshes of different sizes differ by rounding, also where they do not divide the rows; numpy agrees.

    The squared distance of two points is bounded by l2, of which the objective has as much curvature at least.
    """
    problem = mesh_of_rows.PROBLEMS[name]()
    truth = problem.solve(tol=1e-9)
    runs = [found[name][str(count)] for count in mesh_of_rows.COUNTS[name]]
    assert {run[0] for run in runs} == {"CONVERGED"}
    for run in runs:
        assert np.allclose(run[3:], runs[0][3:], rtol=0.0, atol=tolerance("ranks"))
        assert abs(run[1] - truth.value) <= 1e-9 * max(1.0, abs(truth.value)) * 2.0
        apart = sum(np.sqrt(2.0 * gap / problem.l2) for gap in (run[2], truth.gap))
        assert np.linalg.norm(np.subtract(run[3:], truth.x)) <= apart


def test_each_device_holds_its_rows(found):
    assert found["layout"] == {"devices": 8, "rows": [8], "whole": True}


def test_rows_that_lie_on_several_devices_are_solved_there(found):
    rows, whole = (cr.problems.PNormPush(X, y, p=4.0, l2=0.01) for X, y in mesh_of_rows.cuts())
    truths = [rows.solve(tol=1e-9).value, whole.solve(tol=1e-9).value]
    for run, truth in zip(found["rows on devices"]["by"], truths, strict=True):
        assert run[:2] == ["jax-newton", "CONVERGED"]
        assert abs(run[2] - truth) <= 2e-9 * max(1.0, abs(truth))
    for run, l2 in zip(found["rows on devices"]["many"], (0.01, 0.1), strict=True):
        truth = rows.changed(l2=l2).solve(tol=1e-9).value
        assert run[0] == "jax-newton"
        assert abs(run[1] - truth) <= 2e-9 * max(1.0, abs(truth))
    assert found["rows on devices"]["again"] == "CONVERGED"


def test_what_does_not_run_where_the_rows_lie_is_refused(found):
    refused = found["rows on devices"]["refused"]
    assert "arrays lie on different devices" in refused["elsewhere"]
    assert "solver newton takes no mesh" in refused["in numpy"]
    assert "solver jax-no-regret-play takes no mesh" in refused["a game"]
    assert "Solvers that take a mesh: jax-newton, jax-accelerated, jax-continuation." in refused["in numpy"]


def test_what_is_no_mesh_or_has_no_rows_is_refused():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",))
    for method in (cr.solvers.JaxNewton, cr.solvers.JaxAccelerated):
        with pytest.raises(TypeError, match=r"mesh is .*, expected a jax.sharding.Mesh"):
            method(mesh=4)
        with pytest.raises(ValueError, match="beside a mesh of 1 devices"):
            method(mesh=mesh, device="cpu")
    game = cr.problems.PNormPush([[1.0], [2.0], [0.0]], [1, 1, 0], p=2, l2=0.1).dual()
    if "jax-accelerated" in cr.solvers.available(game):
        with pytest.raises(TypeError, match="no rows of linear scores"):
            game.solve(cr.solvers.JaxAccelerated(mesh=mesh))
