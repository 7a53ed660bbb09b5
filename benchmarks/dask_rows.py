"""Rows on the workers of a Dask cluster beside the same rows in memory and in pieces, and the loss of a worker."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measure import fresh, median, ratio, seconds_of
from report import Section, Table, seconds_text

_SEED = 23
_ROWS, _LARGE = (10_000, 100_000, 1_000_000), (4_000_000,)
_COLUMNS, _PIECES, _EVALUATIONS = 20, 8, 9
_WHERE = ("memory", "pieces", "one worker", "two workers")


def dask(effort: int) -> Section:
    """Time whole solves at several sizes, evaluations by themselves, and a solve whose worker is killed."""
    title = "Solves on a Dask cluster"
    if find_spec("dask") is None or find_spec("distributed") is None:
        return Section((Table(title, ("not measured",), (("Dask is not installed",),)),), ())
    sizes = _ROWS[: 2 if effort == 0 else None] + (_LARGE if effort > 1 else ())
    rows = []
    for count in sizes:
        found = fresh("dask_rows:solved", rows=count, repeats=1 + effort).result
        used, clock = ({where: [one[k] for one in found["times"][where]] for where in _WHERE} for k in (0, 1))
        cells = (seconds_text(median(used[where])) for where in _WHERE)
        against = f"{ratio(used['two workers'], used['memory']):.1f} ×"
        waited = (seconds_text(median(clock[where])) for where in ("memory", "two workers"))
        each = seconds_text(median(found["evaluations"]))
        rows.append(
            (_spaced(count), *cells, against, *waited, each, f"{found['gap']:.0e}", f"{found['apart']:.0e}")
        )
    note = (
        f"PNormPush (p = 4, l2 = 0.0001), {_COLUMNS} columns in float32, declared and solved by lbfgs to 1e-8 with its "
        "certificate: seconds of the processor, of all processes together; then by the clock, which other programs "
        "lengthen; medians, in turns. In pieces: Chunks of a file in the page cache. Workers: processes of one thread, "
        f"which keep {_PIECES} pieces. Evaluation: value and gradient, on two workers, by the clock. Apart: the value "
        "there less that in memory. One machine shows what tasks and sockets cost, and not a network, nor the memory "
        "that more machines add."
    )
    columns = (
        "rows",
        "in memory",
        "in pieces",
        "one worker",
        "two workers",
        "two against memory",
        "clock, in memory",
        "clock, two workers",
        "evaluation",
        "gap",
        "apart",
    )
    return Section((Table(title, columns, tuple(rows), note), _loss()), ())


def _spaced(count: int) -> str:
    return f"{count:,}".replace(",", " ")


def _loss() -> Table:
    found = fresh("dask_rows:lost", rows=_ROWS[1]).result
    times = seconds_text(found["kept"]), seconds_text(found["lost"])
    ends = str(found["pieces"]), found["status"], f"{found['gap']:.0e}", f"{found['apart']:.0e}"
    cells = (_spaced(found["rows"]), *times, *ends)
    note = (
        "One of two workers is killed after the first step. Its pieces are drawn again, by the worker that is left "
        "or by the one that Dask starts in its place. Apart: the two values."
    )
    columns = ("rows", "nothing lost", "a worker lost", "its pieces", "status", "gap", "apart")
    return Table("A worker that is lost", columns, (cells,), note)


def drawn(number: int, rows: int) -> Any:
    """Draw the rows of a piece: features, then the label as a last column."""
    import numpy as np

    rng = np.random.default_rng([_SEED, number])
    made = rng.standard_normal(size=(rows, _COLUMNS + 1), dtype=np.float32)
    made[:, -1] = made[:, :5].sum(axis=1) + 2.0 * made[:, -1] > 4.0
    return made


@contextmanager
def _cluster(workers: int) -> Iterator[Any]:
    """Worker processes of one thread on this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def _kept(rows: int, client: Any) -> Any:
    """Rows that the workers of a client draw and keep, as a dask.array."""
    import dask
    import dask.array
    from distributed import wait

    each = rows // _PIECES
    parts = [dask.delayed(drawn)(number, each) for number in range(_PIECES)]
    blocks = [dask.array.from_delayed(part, (each, _COLUMNS + 1), "float32") for part in parts]
    X = client.persist(dask.array.concatenate(blocks)[:, :-1])
    wait(X)
    return X


def _push(X: Any, y: Any) -> Any:
    import convexrank as cr

    return cr.problems.PNormPush(X, y, p=4, l2=1e-4)


def _in_memory(rows: int) -> tuple[Any, Any]:
    import numpy as np

    table = np.concatenate([drawn(k, rows // _PIECES) for k in range(_PIECES)])
    return table[:, :-1].astype(np.float64), table[:, -1] > 0


def solved(rows: int, repeats: int) -> dict[str, Any]:
    """Declare and solve from memory, from a file, and on one worker and two, in turns."""
    import numpy as np

    import convexrank as cr

    X, y = _in_memory(rows)
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, _cluster(1) as one, _cluster(2) as two:
        file = Path(folder) / "X.npy"
        np.save(file, X.astype(np.float32))
        kept = {"one worker": (one, _kept(rows, one)), "two workers": (two, _kept(rows, two))}

        def solve(where: str) -> None:
            if where in kept:
                client, held = kept[where]
                with client.as_current():
                    answers[where] = _push(cr.data.DaskRows(held, y), y).solve("lbfgs")
            else:
                data = X if where == "memory" else cr.data.Chunks.from_arrays(np.load(file, mmap_mode="r"), y)
                answers[where] = _push(data, y).solve("lbfgs")

        times: dict[str, list[tuple[float, float]]] = {where: [] for where in _WHERE}
        for turn in range(1 + repeats):
            for where in _WHERE:
                spent = _spent(lambda where=where: solve(where), kept[where][0] if where in kept else None)
                times[where] += [spent] * (turn > 0)
        with two.as_current():
            evaluations = _evaluations(_push(cr.data.DaskRows(kept["two workers"][1], y), y))
    values = [answers[where].value for where in _WHERE]
    gap = max(answers[where].gap for where in _WHERE)
    apart = max(abs(value - values[0]) for value in values)
    return {"times": times, "evaluations": evaluations, "gap": gap, "apart": apart}


def _spent(solve: Callable[[], None], client: Any) -> tuple[float, float]:
    """Seconds of the processor, of all processes together, and by the clock."""

    def busy() -> float:
        others = client.run(time.process_time).values() if client is not None else ()
        return time.process_time() + sum(others)

    used, start = busy(), time.perf_counter()
    solve()
    clock = time.perf_counter() - start
    return busy() - used, clock


def _evaluations(problem: Any) -> list[float]:
    import numpy as np

    points = 0.1 * np.random.default_rng(_SEED).normal(size=(_EVALUATIONS, _COLUMNS))
    problem.value_and_gradient(points[0])
    return [seconds_of(lambda point=point: problem.value_and_gradient(point)) for point in points[1:]]


def lost(rows: int) -> dict[str, Any]:
    """Solve on two workers, and again while the one that holds more pieces is killed after the first step."""
    import convexrank as cr

    _, y = _in_memory(rows)
    killed: list[int] = []
    with _cluster(2) as client:
        made = cr.data.DaskRows(_kept(rows, client), y)
        _push(made, y).solve("lbfgs")
        whole, kept = _timed(made, y)
        held = {address: len(keys) for address, keys in client.has_what().items()}
        processes = client.run(os.getpid)

        def after_a_step(state: Any) -> None:
            if not killed:
                address = max(held, key=held.__getitem__)
                killed.append(held[address])
                os.kill(processes[address], signal.SIGKILL)

        found, less = _timed(made, y, callback=after_a_step)
    apart = abs(found.value - whole.value)
    told = {"rows": rows, "pieces": killed[0], "status": found.status.name, "gap": found.gap, "apart": apart}
    return {**told, "kept": kept, "lost": less}


def _timed(rows: Any, y: Any, **options: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    return _push(rows, y).solve("lbfgs", **options), time.perf_counter() - start
