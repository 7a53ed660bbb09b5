"""JAX's settings and several processes: an answer, or an error that says what to do; never a wait for ever."""

from __future__ import annotations

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import convexrank as cr
from convexrank import prices

X = np.array([[1.0], [2.0], [1.5], [0.0]])
LABELS = [1, 1, 0, 0]

SOLVE = """
import multiprocessing
import convexrank as cr

def solve(send=None):
    try:
        X, y = [[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0]
        found = cr.problems.PNormPush(X, y, 2, l2=0.1).solve("jaxopt-lbfgs").status.name  # compiled by JAX
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    if send is None:
        return found
    send.send(found)

def in_child():
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe()
    child = context.Process(target=solve, args=(send,), daemon=True)
    child.start()
    found = receive.recv() if receive.poll(60) else "nothing"
    child.kill()
    child.join()
    return found
"""


def output(program, **environment):
    """What a program prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, timeout=300, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_platform_that_is_not_there_is_named():
    """JAX itself stops at an assertion without words."""
    (line,) = output(SOLVE + "print(solve())", JAX_PLATFORMS="cuda", CUDA_VISIBLE_DEVICES="")
    assert line.startswith("RuntimeError: JAX found no device to compute on")
    assert "JAX_PLATFORMS, or jax_platforms, asks for 'cuda'; set JAX_PLATFORMS=cpu" in line


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_lost_jaxs_threads_says_so():
    """Before the first solve of the parent fork works, too."""
    before, parent, lost, after = output(
        SOLVE + "for _ in range(2):\n    print(in_child(), solve(), sep='\\n')"
    )
    assert before == parent == after == "CONVERGED"
    assert lost.startswith(
        "RuntimeError: this process was forked from one in which JAX had started its threads"
    )
    assert "get_context('spawn')" in lost


def test_transfers_that_are_forbidden_to_the_caller_are_ours():
    """The guard warns callers of their own slips; what the package moves is moved on purpose."""
    walk = cr.problems.PageRank(cr.Graph.from_edges([0, 1, 2], [1, 2, 0]))
    rank = cr.problems.PNormPush(X, LABELS, p=4, l2=0.1)
    with jax.transfer_guard("disallow"):
        for problem, solver in (
            (rank, "newton"),
            (rank, "lbfgs"),
            (rank, "jaxopt-lbfgs"),
            (walk, "jax-power"),
        ):
            assert problem.solve(solver).converged
        price = prices.Custom(lambda r: r + 0.25 * r**2)  # checked by its derivatives
        assert cr.problems.Push(X, LABELS, price, l2=0.1).solve().converged
        assert cr.problems.RankCosine(X, LABELS, l2=0.1).solve().converged
        assert jax.config.jax_transfer_guard == "disallow"
    for direction in ("host_to_device", "device_to_host"):
        with getattr(jax, f"transfer_guard_{direction}")("disallow"):
            assert rank.solve("lbfgs").converged


def test_jax_settings_of_the_caller_stay():
    before = jax.config.jax_enable_x64
    cr.problems.PNormPush(X, LABELS, p=4, l2=0.1).solve("lbfgs")
    assert jax.config.jax_enable_x64 == before
