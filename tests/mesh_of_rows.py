"""A process with eight devices: solves on meshes of some of them, printed as JSON for test_meshes.py."""

from __future__ import annotations

import json
import pickle

import jax
import numpy as np

import convexrank as cr
from convexrank.solvers.jitted.devices import shared

# Devices of each mesh: a program is compiled for each count. None but 1 divides the rows. Numpy is what one mesh is
# compared with.
COUNTS = {"PNormPush": (1, 3, 8), "with l1": (3,), "queries": (8,), "kinks": (3,)}
# As many as programs are compiled for without optimisation, which takes a quarter of the time.
_ROWS = 61
_X = np.random.default_rng(0).normal(size=(_ROWS, 6))
_Y = (_X[:, 0] + np.random.default_rng(1).normal(size=_ROWS) > 0.5).astype(float)
PROBLEMS = {
    "PNormPush": lambda: cr.problems.PNormPush(_X, _Y, p=4.0, l2=0.01),
    "with l1": lambda: cr.problems.PNormPush(_X, _Y, p=4.0, l2=0.01, l1=0.02),
    "kinks": lambda: cr.problems.SpectralPush(_X, _Y, spectrum=("top", 0.2), l2=0.01),
    "queries": lambda: cr.problems.ListNet(_X, _Y, qid=np.arange(_ROWS) // 11, l2=0.1),
}


def mesh_of(count):
    """The first devices as a mesh."""
    return jax.sharding.Mesh(np.array(jax.devices()[:count]), ("rows",))


def solved(name):
    """Status, value, gap and point on each mesh, by Newton's method or the method for l1 or for kinks."""
    problem, found = PROBLEMS[name](), {}
    methods = {"with l1": cr.solvers.JaxAccelerated, "kinks": cr.solvers.JaxContinuation}
    method = methods.get(name, cr.solvers.JaxNewton)
    for count in COUNTS[name]:
        solution = problem.solve(method(mesh=mesh_of(count)), tol=1e-9)
        found[count] = [solution.status.name, solution.value, solution.gap, *solution.x]
    return found


def layout():
    """Rows that each device holds, and what is on all of them, of eight."""
    problem = PROBLEMS["PNormPush"]()
    with jax.enable_x64(True):
        (function, units), x = shared(
            mesh_of(8), lambda: (problem.jax_objective(), problem._column_scales), np.zeros(6)
        )
        columns = function.args[1][0]
        slope = jax.jit(jax.grad(lambda function, x: function(x), argnums=1))(function, x)
    return {
        "devices": len({shard.device.id for shard in columns.addressable_shards}),
        "rows": sorted({shard.data.shape[1] for shard in columns.addressable_shards}),
        "whole": bool(units.is_fully_replicated and x.is_fully_replicated and slope.is_fully_replicated),
    }


def cuts():
    """Rows and labels that three devices divide, and all of them."""
    return (_X[:60], _Y[:60]), (_X, _Y)


def where_rows_lie():
    """Solver, status and value for rows that lie on several devices; many problems there; and what is refused."""
    mesh, (rows, y) = mesh_of(3), cuts()[0]
    X = jax.device_put(rows, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows")))
    problem = cr.problems.PNormPush(X, y, p=4.0, l2=0.01)
    found = {"by": [], "refused": {}}
    for solution in (problem.solve(tol=1e-9), PROBLEMS["PNormPush"]().solve(device=mesh, tol=1e-9)):
        found["by"].append([solution.solver, solution.status.name, solution.value])
    many = cr.solve_many(problem, l2=[0.01, 0.1], tol=1e-9)
    found["many"] = [[each.solver, each.value] for each in many]
    found["again"] = pickle.loads(pickle.dumps(problem)).solve(tol=1e-9).status.name
    attempts = {
        "elsewhere": lambda: cr.problems.PNormPush(X, jax.device_put(y, jax.devices()[5]), p=4.0, l2=0.1),
        "in numpy": lambda: problem.solve("newton", device=mesh),
        "a game": lambda: cr.problems.PageRankGame(cr.Graph.from_edges([0, 1], [1, 0])).solve(
            "jax-no-regret-play", device=mesh
        ),
    }
    for name, attempt in attempts.items():
        try:
            attempt()
        except (ValueError, TypeError) as error:
            found["refused"][name] = str(error)
    return found


if __name__ == "__main__":
    runs = {name: solved(name) for name in PROBLEMS}
    print(json.dumps({"layout": layout(), "rows on devices": where_rows_lie(), **runs}))
