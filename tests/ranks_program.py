"""One rank of a program over processes: python tests/ranks_program.py RANK COUNT PORT FOLDER; writes what it found."""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROWS, COLUMNS = 240, 4
# The borders of the shards: of different sizes, the first of one class only, one without any rows.
BORDERS = {1: (0, ROWS), 2: (0, 70, ROWS), 3: (0, 70, 70, ROWS)}
# A rank that is silent is given up after so many seconds.
PATIENCE = 4.0


def data() -> tuple[Any, ...]:
    """Rows sorted by their binary label, grades, and queries that stand together."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(ROWS, COLUMNS))
    signal_ = X @ rng.normal(size=COLUMNS) + rng.normal(size=ROWS)
    order = np.argsort(signal_ > 0.3, kind="stable")
    X, signal_ = X[order], signal_[order]
    qid = np.arange(ROWS) // 10
    grades = np.clip(np.round(signal_ + rng.normal(size=ROWS)), -1, 2)
    grades[::10], grades[1::10] = 0.0, 1.0
    return X, (signal_ > 0.3).astype(int), grades, qid


def cases() -> dict[str, tuple[Any, str, dict[str, Any]]]:
    """Problems, which labels they take, and their arguments."""
    import convexrank as cr

    P = cr.problems
    return {
        "p norm": (P.PNormPush, "binary", {"p": 8}),
        "weights": (P.PNormPush, "binary", {"p": 2, "sample_weight": 1.0 + np.arange(ROWS) % 3}),
        "ir": (P.IRPush, "binary", {}),
        "convex risk": (P.ConvexRisk, "graded", {}),
        "list net": (P.ListNet, "queries", {}),
    }


def found_of(make: Any) -> dict[str, Any]:
    """Value, gradient, certificate and solution of each problem; ``make(part)`` gives X, y, qid and weights."""
    found = {}
    for name, (cls, kind, options) in cases().items():
        X, y, qid, options = make(kind, options)
        problem = cls(X, y, **({"qid": qid} if kind == "queries" else {}), l2=0.3, **options)
        w = np.linspace(-0.5, 0.7, COLUMNS)
        value, gradient = problem.value_and_gradient(w)
        certificate, tangent = problem.certificate(w), problem._reference_minorant(w)
        solution = problem.solve("lbfgs", tol=1e-12)
        if hasattr(type(problem), "hessian_product"):
            product = problem.hessian_product(w, np.arange(1.0, COLUMNS + 1)).tolist()
            found[name] = {"product": product}
        found.setdefault(name, {}).update(
            {
                "value": value,
                "gradient": gradient.tolist(),
                "gap": certificate.gap,
                "lower": certificate.lower_bound,
                "slope": tangent.slope.tolist(),
                "x": solution.x.tolist(),
                "bits": solution.x.tobytes().hex(),
                "status": solution.status.name,
                "solved gap": solution.gap,
                "iterations": solution.iterations,
            }
        )
    return found


def main(rank: int, count: int, port: str, folder: Path) -> None:
    atexit.register((folder / f"{rank}.ended").touch)  # before JAX registers what waits for the other ranks
    import jax

    try:
        address = f"127.0.0.1:{port}"
        jax.distributed.initialize(
            address, count, rank, cluster_detection_method="deactivate", initialization_timeout=120
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, the tests are skipped with it
        write(folder, rank, {"unusable": f"{type(error).__name__}: {error}"})
        return
    import convexrank as cr

    X, y, grades, qid = data()
    part = slice(BORDERS[count][rank], BORDERS[count][rank + 1])
    shards: dict[str, Any] = {}

    def make(kind: str, options: dict[str, Any]) -> Any:
        if kind not in shards:
            labels = {"binary": (y[part],), "graded": (grades[part],), "queries": (grades[part], qid[part])}
            shards[kind] = cr.data.Shards(X[part], *labels[kind], timeout=20.0)
        held = shards[kind]
        if "sample_weight" in options:
            options = options | {"sample_weight": held.whole(options["sample_weight"][part])}
        return held, held.y, held.qid, options

    found: dict[str, Any] = {"cases": found_of(make)}
    held = shards["binary"]
    found["held"] = [repr(held), held.own.stop - held.own.start, held.passes]
    found["errors"] = errors(rank, X[part], y[part], grades[part], qid[part], part)
    problem = cr.problems.PNormPush(shards["binary"], shards["binary"].y, p=8, l2=0.3)
    found["limits"] = limits(problem, folder, rank)
    found["rows"] = problem.X[[3, 100, 239, 3]].tolist()
    found["blocks"] = in_blocks(X[part, :3].astype(np.float32))
    found["sharded"] = sharded(count)
    found["example"] = example().x.tobytes().hex()
    first, *others = graph_ranks()
    meshes = (
        ((all_devices(), (first,)), (mesh_of(), tuple(others))) if count == 2 else ((mesh_of(), (first,)),)
    )
    if count == 2:
        found["rows on a mesh"] = rows_on_mesh()
    found["mesh"] = {}
    for mesh, names in meshes:
        found["mesh"] |= on_mesh(cr.solvers.JaxPower(mesh=mesh, timeout=20.0), names)
    if (rank, count) == (0, 2):  # over the two devices of this process alone
        local = jax.sharding.Mesh(np.array(jax.local_devices()), ("nodes",))
        found["local"] = on_mesh(cr.solvers.JaxPower(mesh=local), ("page rank",))
    found["mesh ends"] = mesh_ends(rank, count)
    write(folder, rank, found)
    found["silent"] = silent(rank, count, X[part], y[part])
    write(folder, rank, found)


def in_blocks(X: Any) -> Any:
    """Rows of all ranks, in float32, gathered a few words at a time."""
    import convexrank as cr
    from convexrank.data.shards import ranks

    held = cr.data.Shards(X, timeout=20.0)
    whole = ranks._LONG, ranks._BLOCK
    ranks._LONG, ranks._BLOCK = 4, 8
    try:
        return held[::15].tolist()
    finally:
        ranks._LONG, ranks._BLOCK = whole


def sharded(count: int) -> dict[str, Any]:
    """Arrays of JAX over all devices: cut by rows, the same everywhere, cut by columns."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import convexrank as cr

    X, y, *_ = data()
    mesh = Mesh(np.array(jax.devices()), ("all",))

    def over(values: Any, *spec: Any) -> Any:
        placed = NamedSharding(mesh, PartitionSpec(*spec))
        return jax.make_array_from_callback(values.shape, placed, lambda index: values[index])

    X, y = X.astype(np.float32), y.astype(np.int32)
    cut, same = (cr.data.Shards(over(X, *spec), over(y, *spec)) for spec in (("all",), ()))
    return {
        "devices": jax.local_device_count(),
        "own": [cut.own.stop - cut.own.start, same.own.stop - same.own.start],
        "values": [
            cr.problems.PNormPush(held, held.y, p=8, l2=0.3).objective(np.ones(COLUMNS))
            for held in (cut, same)
        ],
        "columns": message_of(lambda: cr.data.Shards(over(X, None, "all"), over(y))) if count == 2 else "",
    }


def example() -> Any:
    """Run what the page shows."""
    import runpy

    file = Path(__file__).parents[1] / "docs" / "processes_example.py"
    return runpy.run_path(str(file), run_name="example")["fit"]()


def graph_ranks() -> dict[str, Any]:
    """Problems on a graph whose first nodes have most of the edges, and whose last ones link nowhere."""
    import convexrank as cr

    rng = np.random.default_rng(2)
    source, target = rng.integers(0, 52, 300), (60 * rng.random(300) ** 3).astype(int)
    graph = cr.Graph.from_edges(source, target, rng.random(300) + 0.1, 60)
    plain = cr.Graph.from_edges(*np.unique([source, target], axis=1), n=60)
    return {
        "page rank": cr.problems.PageRank(graph, 0.9),
        "norms": cr.problems.LpqRank(graph, 4, 10, 0.9, "outside"),
        "uniform, two": cr.problems.PageRank(plain, 0.8, rng.random((60, 2)) ** 4, "uniform"),
        "trust": cr.problems.TrustPropagation(plain, [0, 7], [3], 0.8, 2, 5),
    }


def all_devices() -> Any:
    """The two devices of each process, along an explicit axis."""
    import jax

    return jax.make_mesh((len(jax.devices()),), ("nodes",), axis_types=(jax.sharding.AxisType.Explicit,))


def rows_on_mesh() -> dict[str, Any]:
    """A problem whose rows all devices share, none of whose counts divides them."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import convexrank as cr
    from convexrank.solvers.jitted import _chunks

    if jax.process_index():  # by its clock this one would take one iteration at a time
        _chunks._LONGEST = 0.0
    X, y, *_ = data()
    problem, mesh = cr.problems.PNormPush(X[1:], y[1:], p=4, l2=0.1), Mesh(np.array(jax.devices()), ("rows",))
    found: dict[str, Any] = {"devices": len(jax.devices())}
    # one with few iterations, and one with several chunks, which all processes are to end at the same ones
    for method in (cr.solvers.JaxNewton(mesh=mesh), cr.solvers.JaxAccelerated(mesh=mesh, chunk=7)):
        solution = problem.solve(method)
        found[method.name] = {
            "value": solution.value,
            "gap": solution.gap,
            "status": solution.status.name,
            "bits": solution.x.tobytes().hex(),
        }
    even = X[: len(X) // mesh.size * mesh.size]
    cut = NamedSharding(mesh, PartitionSpec("rows"))
    try:
        cr.problems.PNormPush(
            jax.make_array_from_callback(even.shape, cut, even.__getitem__), y[: len(even)], p=4, l2=0.1
        )
    except ValueError as error:
        found["refused"] = str(error)
    return found


def mesh_of() -> Any:
    """One device of each process, along the second axis."""
    import jax

    first = {device.process_index: device for device in reversed(jax.devices())}
    devices = np.array([first[process] for process in sorted(first)])
    return jax.sharding.Mesh(devices.reshape(1, -1), ("hosts", "nodes"))


def on_mesh(solver: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Solutions of ranks of a graph with their certificates, and the certificate of a point after one step."""
    import convexrank as cr

    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        for name in names:
            problem = graph_ranks()[name]
            solution, rough = problem.solve(solver, tol=2e-13), problem.solve(solver, max_iter=1)
            found[name] = {
                "x": solution.x.tolist(),
                "bits": solution.x.tobytes().hex(),
                "said": [solution.status.name, solution.iterations],
                "gap": solution.gap,
                "rough": [rough.gap, rough.x.tolist()],
            }
    return found


def mesh_ends(rank: int, count: int) -> dict[str, Any]:
    """How solves over a mesh end that one process would end alone, and a certificate that leaves a part out."""
    import convexrank as cr

    class Forgetful(cr.problems.PageRank):
        def _certificate_part(self, x: Any, part: int, parts: int) -> Any:
            found = super()._certificate_part(x, part, parts)
            return 0.0 * found if part == parts - 1 else found

    last, solver = rank == count - 1, cr.solvers.JaxPower(1, mesh_of(), timeout=20.0)
    graph = graph_ranks()["page rank"].graph
    problem = cr.problems.PageRank(graph, 0.99)

    def ended(**options: Any) -> list[Any]:
        found = problem.solve(solver, tol=1e-13, **options)
        return [found.status.name, found.iterations, found.x.tobytes().hex(), found.gap]

    def interrupted(state: Any) -> None:
        if last and state.iteration == 2:
            signal.raise_signal(signal.SIGINT)

    def failing(state: Any) -> None:
        if last and state.iteration == 1:
            raise OSError("the disk is gone")

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        forgetful = Forgetful(graph, 0.9).solve(
            solver, max_iter=8
        )  # past the start, where sizes prove as much
        late = ended(time_limit=0.3, callback=lambda _: time.sleep(0.2 if rank == 0 else 0.0))
        found = {
            "late": late,
            "stopped": ended(callback=lambda state: last and state.iteration == 2),
            "interrupted": ended(callback=interrupted),
            "forgetful": [forgetful.gap, cr.problems.PageRank(graph, 0.9).certificate(forgetful.x).gap],
        }
    signal.signal(signal.SIGINT, handler)
    found["failing"] = message_of(lambda: ended(callback=failing))
    other = cr.Graph(graph.offsets, graph.sources, graph.weights * (1.0 + last))
    found["graph"] = message_of(lambda: cr.problems.PageRank(other, 0.99).solve(solver))
    found["tolerance"] = message_of(lambda: problem.solve(solver, tol=1e-3 if last else 1e-4))
    found["start"] = message_of(lambda: problem.solve(solver, x0=np.full(60, 1.0 + last)))
    found["afterwards"] = graph_ranks()["page rank"].solve(solver, tol=0.1).status.name
    return found


def write(folder: Path, rank: int, found: Any) -> None:
    part = folder / f"{rank}.part"
    part.write_text(json.dumps(found))
    part.replace(folder / f"{rank}.json")


def message_of(call: Any) -> str:
    try:
        call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return f"{type(error).__name__}: {error}"
    return "no error"


class Breaking:
    """Pieces, the reading of which fails once, after some passes."""

    def __init__(self, pieces: Any, after: int, error: BaseException | None) -> None:
        self.pieces, self.left, self.error = pieces, after, error

    def __iter__(self) -> Any:
        self.left -= 1
        if self.left == -1 and self.error is not None:
            raise self.error
        return iter(self.pieces)


def errors(rank: int, X: Any, y: Any, grades: Any, qid: Any, part: slice) -> dict[str, str]:
    """What is wrong on the last ranks with rows, and what all ranks say of it."""
    import jax

    import convexrank as cr

    Shards, Push = cr.data.Shards, cr.problems.PNormPush
    wrong, said = part.stop == ROWS, {}  # the last rank
    spoiled = X.copy()
    if wrong:
        spoiled[1, 2] = np.nan
    said["nan"] = message_of(lambda: Shards(spoiled, y))
    said["columns"] = message_of(lambda: Shards(X[:, :3] if wrong else X, y))
    said["type"] = message_of(lambda: Shards(X.astype(np.float32) if wrong else X, y))
    said["query"] = message_of(lambda: Shards(X, grades, np.full(len(X), 7)))
    version = jax.__version__
    if wrong:
        jax.__version__ = "0.0.1"
    said["version"] = message_of(lambda: Shards(X, y))
    jax.__version__ = version
    said["missing file"] = message_of(
        lambda: (
            Shards(lambda: cr.data.Chunks.from_files("absent.npz") if wrong else cr.data.Chunks([(X, y)]))
            if wrong or len(X)
            else Shards(X, y)
        )
    )
    one = Shards(X, np.zeros(len(X)))
    said["one class"] = message_of(lambda: Push(one, one.y, p=2, l2=0.1))
    held = Shards(X, y)
    said["arguments"] = message_of(lambda: Push(held, held.y, p=4 if wrong else 2, l2=0.1))
    said["labels of a rank"] = message_of(lambda: Push(held, y, p=2, l2=0.1))
    problem = Push(held, held.y, p=2, l2=0.1)
    said["start"] = message_of(lambda: problem.solve(x0=np.full(COLUMNS, 0.5 if wrong else 0.0)))
    for name, usual, other in (
        ("tolerance", 1e-4, 1e-3),
        ("iterations", 50, 60),
        ("solver", "lbfgs", "accelerated"),
    ):
        option = {"tolerance": "tol", "iterations": "max_iter"}.get(name, name)
        said[name] = message_of(lambda o=option, v=other if wrong else usual: problem.solve(**{o: v}))
    said["another call"] = message_of(
        lambda: (
            Shards(X, y, timeout=8.0).row_lengths() if wrong else Shards(X, y, timeout=8.0) @ np.ones(COLUMNS)
        )
    )

    def failing(error: BaseException) -> Any:
        pieces = Breaking([(X, y)], 10, error if wrong else None)
        made = Shards(cr.data.Chunks(pieces)) if len(X) else Shards(X, y)
        return Push(made, made.y, p=8, l2=1e-3).solve("lbfgs", tol=1e-13)

    said["broken pass"] = message_of(lambda: failing(OSError("the disk is gone")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        stopped = failing(KeyboardInterrupt())
    said["interrupted"] = f"{stopped.status.name} {stopped.iterations} {stopped.x.tobytes().hex()}"
    # all of them are over: the ranks are in step
    said["afterwards"] = Push(held, held.y, p=2, l2=0.1).solve().status.name
    return said


def limits(problem: Any, folder: Path, rank: int) -> dict[str, Any]:
    """Ends that clocks and callbacks bring about, and going on from a checkpoint."""
    import convexrank as cr

    path = folder / f"kept-{rank}.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        # one rank is slow in its callback: the clock of each tells another time
        late = problem.solve(
            "lbfgs",
            tol=1e-14,
            time_limit=0.4,
            callback=lambda state: time.sleep(0.25 if rank == 0 else 0.05),
        )
        stopped = problem.solve("lbfgs", tol=1e-12, max_iter=5, checkpoint=path, every=4)
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        ended = problem.solve("lbfgs", tol=1e-12, callback=lambda state: between(state, rank))
        signal.signal(signal.SIGINT, handler)
    kept = cr.Solution.load(path)
    resumed = problem.solve("lbfgs", tol=1e-12, x0=kept)
    return {
        "late": [late.status.name, late.iterations, late.x.tobytes().hex(), bool(np.isfinite(late.gap))],
        "kept": [kept.status.name, kept.iterations, kept.value, stopped.value],
        "between": [ended.status.name, ended.iterations, ended.x.tobytes().hex()],
        "resumed": [resumed.status.name, resumed.iterations, resumed.x.tolist()],
    }


def between(state: Any, rank: int) -> None:
    """Press Ctrl-C on one rank, between two evaluations."""
    if rank == 1 and state.iteration == 3:
        signal.raise_signal(signal.SIGINT)


def silent(rank: int, count: int, X: Any, y: Any) -> dict[str, Any]:
    """The last rank of two is killed during a sweep, that of three hangs; the others say so, and end."""
    import convexrank as cr

    if count == 2:
        solver = cr.solvers.JaxPower(mesh=mesh_of(), timeout=PATIENCE)
        if rank == 1:
            solver.processes.run = lambda _: os.kill(os.getpid(), signal.SIGKILL)
        start = time.perf_counter()
        said = message_of(lambda: graph_ranks()["page rank"].solve(solver, tol=1e-13))
        return {"said": said, "seconds": time.perf_counter() - start}
    shards = cr.data.Shards(X, y, timeout=PATIENCE)
    problem = cr.problems.PNormPush(shards, shards.y, p=2, l2=0.1)
    problem.objective(np.zeros(COLUMNS))
    if rank == count - 1:
        time.sleep(2.5 * PATIENCE)
    start = time.perf_counter()
    said = message_of(lambda: problem.objective(np.ones(COLUMNS)))
    return {"said": said, "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
