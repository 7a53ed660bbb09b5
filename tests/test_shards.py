"""Rows over processes: two and three real ones against one, what goes wrong on one rank, ranks that are silent."""

from __future__ import annotations

import json
import math
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.data import Chunks, Shards
from convexrank.data.shards import local
from convexrank.data.shards import watch as watching
from convexrank.data.shards.local import (
    arguments_of,
    check_alike,
    check_queries,
    compensated_sum,
    labels_type,
)
from convexrank.data.shards.watch import Watch
from convexrank.problems.out_of_memory._streams import LogSums, Sums
from tests import ranks_program as program
from tests.tolerances import tolerance

COUNTS = (2, 3)
P = cr.problems


def free_port():
    """Return a port that no connection of another process is given before the coordinator takes it."""
    for port in np.random.default_rng().permutation(np.arange(20_000, 32_000)):
        with socket.socket() as bound, suppress(OSError):
            bound.bind(("127.0.0.1", int(port)))
            return int(port)
    pytest.skip("no port between 20 000 and 32 000 is free")


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """What the ranks of two and of three processes found, how they ended, and what they printed; started at once."""
    started = {}
    for count in COUNTS:
        folder, port = tmp_path_factory.mktemp(f"ranks-{count}"), free_port()
        started[count] = (
            folder,
            [
                subprocess.Popen(
                    [sys.executable, program.__file__, str(rank), str(count), str(port), str(folder)],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=Path(cr.__file__).parent.parent,
                    env={
                        **os.environ,
                        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count=2",
                    },
                )
                for rank in range(count)
            ],
        )
    ended = {}
    try:
        for count, (folder, processes) in started.items():
            said = [process.communicate(timeout=240)[1] for process in processes]
            found = []
            for rank, text in enumerate(said):
                path = folder / f"{rank}.json"
                assert path.exists(), f"rank {rank} of {count} found nothing:\n{text[-3000:]}"
                ended_well = (folder / f"{rank}.ended").exists()
                found.append({**json.loads(path.read_text()), "ended": ended_well})
            if unusable := [one["unusable"] for one in found if "unusable" in one]:
                pytest.skip(f"jax.distributed does not start here: {unusable[0]}")
            ended[count] = found, [process.returncode for process in processes], said
    finally:
        for _, processes in started.values():
            for process in processes:
                process.kill()
    return ended


@pytest.fixture(scope="module")
def alone():
    """The same by one process."""
    X, y, grades, qid = program.data()

    def make(kind, options):
        labels = {"binary": (y,), "graded": (grades,), "queries": (grades, qid)}[kind]
        held = Chunks.from_arrays(X, *labels)
        return held, held.y, held.qid, options

    return program.found_of(make)


def close(found, truth, scale=1.0):
    scale = max(scale, float(np.abs(truth).max()))
    return float(np.abs(np.asarray(found) - np.asarray(truth)).max()) <= tolerance("ranks") * scale


def test_rows_on_a_mesh_of_two_processes_are_those_of_one(launched):
    """Both processes, with two devices each, have the same answer to the last bit, which is that of numpy."""
    X, y, *_ = program.data()
    truth = P.PNormPush(X[1:], y[1:], p=4, l2=0.1).solve()
    one, other = (found["rows on a mesh"] for found in launched[2][0])
    assert one == other
    assert one["devices"] == 4
    for found in (one["jax-newton"], one["jax-accelerated"]):
        assert found["status"] == "CONVERGED"
        assert abs(found["value"] - truth.value) <= max(found["gap"], truth.gap) + tolerance("ranks")
    assert "devices of other processes" in one["refused"]
    assert "convexrank.data.Shards" in one["refused"]


@pytest.mark.parametrize("count", COUNTS)
def test_all_is_as_in_one_process(launched, alone, count):
    for found in launched[count][0]:
        for name, case in found["cases"].items():
            truth = alone[name]
            assert "product" in truth or name not in ("p norm", "weights")
            for what in {"value", "gradient", "slope", "x", "product"} & truth.keys():
                assert close(case[what], truth[what]), (name, what)
            # a gap is a difference of numbers of the size of the value
            assert close(case["gap"], truth["gap"], abs(truth["value"])), name
            assert close(case["lower"], truth["lower"], abs(truth["value"])), name
            assert case["status"] == "CONVERGED"
            assert case["solved gap"] <= 1e-12 * max(1.0, abs(case["value"]))
            assert case["iterations"] == truth["iterations"]


def test_the_truth_of_one_process_is_that_in_memory(alone):
    X, y, grades, qid = program.data()
    w = np.linspace(-0.5, 0.7, program.COLUMNS)
    for name, (cls, kind, options) in program.cases().items():
        labels = {"binary": (y,), "graded": (grades,), "queries": (grades, qid)}[kind]
        problem = cls(X, *labels, l2=0.3, **options)
        assert close(alone[name]["value"], problem.objective(w))
        if "product" in alone[name]:
            assert close(alone[name]["product"], problem.hessian(w) @ np.arange(1.0, 5.0))


@pytest.mark.parametrize("count", COUNTS)
def test_solutions_are_the_same_bit_for_bit(launched, count):
    ranks = launched[count][0]
    for name, case in ranks[0]["cases"].items():
        assert {found["cases"][name]["bits"] for found in ranks} == {case["bits"]}


@pytest.mark.parametrize("count", COUNTS)
def test_arrays_of_jax_give_each_row_once(launched, count):
    X, y, *_ = program.data()
    truth = P.PNormPush(X.astype(np.float32), y, p=8, l2=0.3).objective(np.ones(program.COLUMNS))
    for rank, one in enumerate(launched[count][0]):
        found = one["sharded"]
        assert found["devices"] == 2
        assert found["own"] == [len(X) // count, len(X) if rank == 0 else 0]
        assert close(found["values"], [truth, truth])
        assert count == 3 or "X is split along its columns" in found["columns"]


@pytest.mark.parametrize("count", COUNTS)
def test_the_example_of_the_page_runs(launched, count):
    found = [one["example"] for one in launched[count][0]]
    assert found == [found[0]] * count


@pytest.mark.parametrize("count", COUNTS)
def test_each_rank_holds_its_rows_alone(launched, count):
    borders = program.BORDERS[count]
    X = program.data()[0]
    for rank, found in enumerate(launched[count][0]):
        size = borders[rank + 1] - borders[rank]
        said, rows, passes = found["held"]
        assert said == f"Shards(240 rows, 4 columns, rank {rank} of {count} with {size} rows)"
        assert rows == size
        assert (passes > 0) == (size > 0)
        # rows that are asked for come to every rank, in the order asked for
        assert found["rows"] == X[[3, 100, 239, 3]].tolist()
        # also in float32 and block by block
        assert found["blocks"] == X[:, :3].astype(np.float32)[::15].tolist()


# What is wrong on the last rank, or on all, and what every rank says.
ERRORS = {
    "nan": r"X of piece 0 contains NaN .* The first such row is row 1 of its source",
    "columns": r"columns: 4 on rank 0, and 3 on rank {last}; X of all ranks has the same columns",
    "type": r"type of X: float64 on rank 0, and float32 on rank {last}; pass X",
    "query": r"qid 7 has rows on rank 0 and on rank {second}; all rows of a query belong to one shard",
    "version": r"jax: \S+ on rank 0, and 0.0.1 on rank {last}; install the same version",
    "missing file": r"No such file or directory: 'absent.npz'",
    "one class": r"y has 1 class",
    "arguments": r"p is 2\.0 on rank 0 and 4\.0 on rank {last}; pass PNormPush the same arguments on all ranks",
    "labels of a rank": r"y is an array of int64, shape \(70,\), .* on rank 0 and .*shards\.y",
    "start": r"rank {last} of {count} computes something else than rank 0 \(another point\).*same starting point",
    "tolerance": r"ValueError: tol is 0\.0001 on rank 0 and 0\.001 on rank {last}; pass PNormPush\.solve",
    "iterations": r"ValueError: max_iter is 50 on rank 0 and 60 on rank {last}",
    "solver": r"rank 0 makes PNormPush.solve\('lbfgs'\) and rank {last} makes PNormPush.solve\('accelerated'\)",
    "another call": r"rank {last} of {count} computes something else than rank 0 \(another point\)",
    "broken pass": r"OSError: the disk is gone",
}


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", ERRORS)
def test_what_is_wrong_on_one_rank_is_an_error_on_all(launched, count, name):
    last = count - 1
    pattern = ERRORS[name].replace("{last}", str(last)).replace("{count}", str(count))
    pattern = pattern.replace("{second}", "1" if count == 2 else "2")
    for rank, found in enumerate(launched[count][0]):
        said = found["errors"][name]
        assert re.search(pattern, said), said
        # the others learn whose error it is
        if name in ("nan", "missing file", "broken pass"):
            assert said.startswith(f"RankError: rank {last} of {count}: ") == (rank != last)
        assert found["errors"]["afterwards"] == "CONVERGED"


@pytest.mark.parametrize("count", COUNTS)
def test_clocks_that_differ_end_all_ranks_at_one_step(launched, count):
    late = [found["limits"]["late"] for found in launched[count][0]]
    status, iterations, _, certified = late[0]
    assert status == "TIME_LIMIT"
    assert iterations < 6
    assert certified
    assert all(one == late[0] for one in late)


@pytest.mark.parametrize("count", COUNTS)
def test_ctrl_c_in_one_process_stops_all_at_one_step(launched, count):
    said = {found["errors"]["interrupted"] for found in launched[count][0]}
    assert len(said) == 1
    assert re.match(r"INTERRUPTED [1-9]\d* [0-9a-f]{64}$", said.pop())
    ends = [found["limits"]["between"] for found in launched[count][0]]
    assert ends == [ends[0]] * count
    assert ends[0][:2] == ["INTERRUPTED", 3]


@pytest.mark.parametrize("count", COUNTS)
def test_a_checkpoint_resumes(launched, alone, count):
    for found in launched[count][0]:
        status, iterations, value, stopped = found["limits"]["kept"]
        assert (status, iterations) == ("INTERRUPTED", 4)
        assert value > stopped  # of the fourth step, not of the fifth and last
        status, iterations, x = found["limits"]["resumed"]
        assert status == "CONVERGED"
        assert iterations < alone["p norm"]["iterations"]
        # both are certified to 1e-12, with l2 = 0.3
        assert np.linalg.norm(np.array(x) - alone["p norm"]["x"]) < 2.0 * math.sqrt(2.0 * 1e-12 / 0.3)


@pytest.mark.parametrize("count", COUNTS)
def test_a_rank_that_is_killed_or_hangs_ends_all_with_its_name(launched, count):
    found, codes, said = launched[count]
    last = count - 1
    for rank in range(last):
        silent = found[rank]["silent"]
        assert silent["said"].startswith(f"RankError: rank {last} of {count} is silent"), silent
        assert ("gone" if count == 2 else "its process lives") in silent["said"]
        assert silent["seconds"] < 3.0 * program.PATIENCE
        # nothing waits for the silent one at the end of the program, and nothing crashes there
        assert codes[rank] == 1, said[rank]
        # and the program's own functions for its end have run, also those from before JAX was there
        assert found[rank]["ended"]
    assert "silent" not in found[last] or "RankError" in found[last]["silent"]["said"]
    assert codes[last] != 0


# --- ranks of a graph -------------------------------------------------------------------------------------------------


def near(found, truth):
    return abs(found - truth) <= tolerance("ranks") * truth


@pytest.fixture(scope="module")
def on_one_device():
    return program.on_mesh(cr.solvers.JaxPower(), ("page rank",)) | program.on_mesh(
        cr.solvers.JaxPower(mesh=program.mesh_of()), ("norms",)
    )


def check_ranks(found, problem):
    """Compare with one process, which computes the certificate from all edges, and with a dense reference."""
    x = np.array(found["x"]).reshape(problem.start().shape)
    assert found["said"][0] == "CONVERGED"
    assert near(found["gap"], problem.certificate(x).gap)
    gap, point = found["rough"]
    assert gap > 1e-6
    assert near(gap, problem.certificate(np.array(point)).gap)
    assert found["gap"] <= 2e-13
    assert problem.distance(x, problem.reference()) <= found["gap"] + tolerance("atoms")


@pytest.mark.parametrize("count", COUNTS)
def test_ranks_over_processes_are_those_of_one(launched, on_one_device, count):
    problems, ranks = program.graph_ranks(), launched[count][0]
    assert list(ranks[0]["mesh"]) == (list(problems) if count == 2 else ["page rank"])
    for name, found in ranks[0]["mesh"].items():
        assert all(one["mesh"][name] == found for one in ranks)
        check_ranks(found, problems[name])
    for name, truth in on_one_device.items():
        check_ranks(truth, problems[name])
        # the devices of one process, and those of all
        for found in (one[name] for one in (ranks[0]["mesh"], ranks[0].get("local", {})) if name in one):
            assert found["said"] == truth["said"]
            assert np.abs(np.array(found["x"]) / truth["x"] - 1.0).max() <= tolerance("ranks")


@pytest.mark.parametrize("count", COUNTS)
def test_a_certificate_that_leaves_a_part_out_is_noticed(launched, count):
    for found in launched[count][0]:
        certified, truth = found["mesh ends"]["forgetful"]
        assert truth < 1.0
        assert not near(certified, truth)


@pytest.mark.parametrize("count", COUNTS)
def test_a_solve_over_a_mesh_ends_at_one_step(launched, count):
    ends = [found["mesh ends"] for found in launched[count][0]]
    for name, status in (("late", "TIME_LIMIT"), ("stopped", "INTERRUPTED"), ("interrupted", "INTERRUPTED")):
        assert all(one[name] == ends[0][name] for one in ends), name
        assert ends[0][name][0] == status
        assert ends[0][name][1] <= 2
        assert np.isfinite(ends[0][name][3])


MESH_ERRORS = {
    "failing": r"RankError: rank {last} of {count}: OSError: the disk is gone",
    "graph": r"graph is a Graph \(.*\) on rank 0 and .* on rank {last}; pass PageRank the same arguments on all",
    "tolerance": r"tol is 0\.0001 on rank 0 and 0\.001 on rank {last}",
    "start": r"rank {last} of {count} computes something else than rank 0 \(another point\)",
}


@pytest.mark.parametrize("count", COUNTS)
def test_what_is_wrong_on_one_rank_of_a_mesh_is_an_error_on_all(launched, count):
    for rank, found in enumerate(launched[count][0]):
        for name, pattern in MESH_ERRORS.items():
            if name == "failing" and rank == count - 1:
                pattern = "OSError: the disk is gone"
            pattern = pattern.replace("{last}", str(count - 1)).replace("{count}", str(count))
            assert re.search(pattern, found["mesh ends"][name]), found["mesh ends"][name]
        assert found["mesh ends"]["afterwards"] == "CONVERGED"


# --- one process ------------------------------------------------------------------------------------------------------


def test_one_rank_alone_is_chunks():
    X, y, *_ = program.data()
    shards, chunks = Shards(X, y), Chunks.from_arrays(X, y)
    assert (shards.rank, shards.ranks, shards.own) == (0, 1, slice(0, len(X)))
    w = np.ones(program.COLUMNS)
    assert (shards @ w == chunks @ w).all()
    assert (shards.T @ y.astype(float) == chunks.T @ y.astype(float)).all()
    assert (shards.row_lengths() == chunks.row_lengths()).all()
    assert (shards.mean_squares == chunks.mean_squares).all()
    assert (shards[::-7] == X[::-7]).all()
    assert shards[:0].shape == (0, 4)
    single = X[:, :3].astype(np.float32)
    assert (Shards(single, y)[:5] == single[:5]).all()  # of an odd number of entries
    assert (shards.whole(y) == y).all()
    ours, theirs = P.PNormPush(shards, shards.y, p=4, l2=0.1), P.PNormPush(chunks, chunks.y, p=4, l2=0.1)
    assert ours.value_and_gradient(w)[0] == theirs.value_and_gradient(w)[0]
    estimator = cr.PushRanker(l2=0.1).fit(shards, shards.y)
    assert np.isfinite(estimator.coef_).all()


def test_rows_come_from_everywhere(tmp_path):
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    X, _, grades, qid = program.data()
    X = X.astype(np.float32)
    np.savez(tmp_path / "all.npz", X=X, y=grades, qid=qid)
    np.save(tmp_path / "X.npy", X)
    mesh = Mesh(np.array(jax.devices()[:1]), ("rows",))
    device = jax.device_put(X, NamedSharding(mesh, PartitionSpec("rows")))
    made = {
        "array": Shards(X, grades, qid),
        "memory map": Shards(np.load(tmp_path / "X.npy", mmap_mode="r"), grades, qid),
        "chunks": Shards(Chunks([(X[:50], grades[:50], qid[:50]), (X[50:], grades[50:], qid[50:])])),
        "function": Shards(lambda: Chunks.from_files(tmp_path / "all.npz")),
        "files": Shards.from_files(tmp_path / "all.npz"),
        "sparse": Shards(sparse.csr_array(X), grades, qid),
        "jax": Shards(device, jax.numpy.asarray(grades), qid),
    }
    truth = P.ListNet(X, grades, qid, l2=0.1)
    w = np.ones(program.COLUMNS)
    for name, shards in made.items():
        assert (shards.y == grades).all(), name
        assert (shards.qid == qid).all(), name
        problem = P.ListNet(shards, shards.y, shards.qid, l2=0.1)
        assert close(problem.value_and_gradient(w)[1], truth.value_and_gradient(w)[1]), name
    with pytest.raises(TypeError, match="stay where they are"):
        made["sparse"][:3]


def test_what_is_no_rows_is_refused(tmp_path):
    X, y, *_ = program.data()
    with pytest.raises(ValueError, match="X has no rows on any rank"):
        Shards(X[:0], y[:0])
    with pytest.raises(ValueError, match="X has no rows on any rank"):
        Shards.from_arrays(X[:0], y[:0])
    with pytest.raises(TypeError, match="has labels of its own"):
        Shards(Chunks.from_arrays(X, y), y)
    with pytest.raises(TypeError, match="pass the rows of this one"):
        Shards(Shards(X, y))
    with pytest.raises(ValueError, match=r"X has shape \(240,\)"):
        Shards(X[:, 0], y)
    with pytest.raises(ValueError, match="y has shape"):
        Shards(X, y[:3])
    with pytest.raises(ValueError, match="timeout"):
        Shards(X, y, timeout=0.0)
    with pytest.raises(FileNotFoundError):
        Shards(lambda: Chunks.from_files(tmp_path / "absent.npz"))
    shards = Shards(X, y)
    with pytest.raises(ValueError, match=r"values has shape \(3,\).*expected \(240,\)"):
        shards.whole([1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match=r"expected numbers, or strings"):
        labels_type([{"y": "<f8"}, {"y": "<U3"}], "y")
    with pytest.raises(ValueError, match="labels: given on rank 0, and not given on rank 2"):
        check_alike([{"labels": True, "rows": 1}, {}, {"labels": False, "rows": 1}])
    with pytest.raises(ValueError, match="qid b has rows on rank 0 and on rank 2"):
        check_queries([np.array(["a", "b"]), np.array(["c"]), np.array(["b"])])


def test_arguments_are_compared_by_what_they_say():
    X, y, *_ = program.data()

    def words(**more):
        return arguments_of(P.Push(X, y, price=2, l2=0.1, **more))

    assert words() == words()
    assert words().keys() >= {"y", "l2", "price"}
    assert "X" not in words()  # rows are the rank's own
    # where an object happens to be says nothing about it
    assert words(loss=cr.losses.Exponential()) == words(loss=cr.losses.Exponential())
    weights = np.ones(len(X))
    assert words(sample_weight=weights) == words(sample_weight=weights.copy())
    weights[3] = 2.0
    differing = [
        key
        for key, value in words(sample_weight=np.ones(len(X))).items()
        if value != words(sample_weight=weights)[key]
    ]
    assert differing == ["sample_weight"]


def test_what_ranks_say_is_accepted_when_alike_and_refused_with_both_sides_when_not():
    alike = {"l2": "an array of 0.1", "y": "an array"}
    local.check_arguments([("PNormPush", alike)] * 3)
    for place, other in ((1, "an array of 0.05"), (2, "an array of 0.2")):
        heard = [("PNormPush", alike)] * 3
        heard[place] = ("PNormPush", alike | {"l2": other})
        with pytest.raises(
            ValueError,
            match=f"l2 is an array of 0.1 on rank 0 and {other} on rank {place}; .*ranks, or not at all",
        ):
            local.check_arguments(heard, ", or not at all")
    for other in ("Push", "TopPush"):
        with pytest.raises(ValueError, match=f"rank 0 makes PNormPush and rank 1 makes {other}"):
            local.check_arguments([("PNormPush", alike), (other, alike)])
    check_queries([np.array(["a", "b", "a"]), np.array(["c"])])
    check_alike([{"labels": True, "rows": 1}, {"labels": None}, {"labels": True, "rows": 2}])
    for kind in ("float32", "float64"):
        rows = SimpleNamespace(
            chunks=Chunks.from_arrays(np.ones((2, 1), dtype=kind), np.ones(2)), rows=2, columns=1
        )
        assert local.rank_summary(rows, 1.0, None)["type of X"] == kind
    for types, found in (
        (["<i4", "<f8"], "<f8"),
        (["<U3", "<U5"], "<U5"),
        (["|b1", "<i8"], "<i8"),
        (["<f4"], "<f4"),
        (["<M8[D]"], "<M8[D]"),
    ):
        assert labels_type([{"y": None}, *({"y": one} for one in types)], "y") == np.dtype(found)
    assert labels_type([{"y": None}, {}], "y") is None
    for types in (["|O"], ["<U3", "|O"], ["<i8", "<U3"]):
        with pytest.raises(TypeError, match="y has the types"):
            labels_type([{"y": one} for one in types], "y")
    for kind in ("<f8", "<i4", "|b1", "<U3", "|O"):
        one = np.array([0, 1, 1]).astype(kind)
        assert local._word(one) == local._word(one.copy())
        assert local._word(one) != local._word(one[::-1])
        assert ("checksum" in local._word(one)) == (kind != "|O")
    long = ["x" * 300, "x" * 299 + "y"]
    assert local._word(long[0]) != local._word(long[1])


def test_long_arrays_of_a_graph_are_compared_by_stretches_their_ends_among_them():
    """Of 2²⁰ + 64 · 64 entries all but 65 or so between two stretches are read; a plain array is read as a whole."""

    @dataclass
    class Edges:
        heads: np.ndarray

    count, length = local._SAMPLES, local._SAMPLE
    heads = np.random.default_rng(0).integers(0, 100, size=count * (length + 64)).astype(np.int8)

    def changed(place, make=Edges):
        other = heads.copy()
        other[place] += 1
        return local._word(make(other)) != local._word(make(heads))

    assert local._word(Edges(heads.copy())) == local._word(Edges(heads))
    step = (len(heads) - length) / (count - 1)
    for stretch in (0, 1, count // 2, count - 1):
        start = int(stretch * step)
        assert all(changed(start + place) for place in (0, 5, length // 2, length - 1))
    between = int(step) - 10
    assert length < between < int(step)
    assert not changed(between)
    assert changed(between, lambda array: array)
    short = heads[: count * length]
    assert local._word(Edges(short)) != local._word(
        Edges(np.where(np.arange(len(short)) == between, -1, short).astype(np.int8))
    )
    assert "checksum 00000000" in local._word(Edges(heads[:0]))


# --- sums -------------------------------------------------------------------------------------------------------------


def test_sums_over_ranks_are_exact_to_the_last_bit():
    rng = np.random.default_rng(0)
    parts = rng.normal(size=(40, 30)) * 10.0 ** rng.integers(-8, 9, size=(40, 30))
    exact = [float(sum(map(Fraction, column))) for column in parts.T.tolist()]
    found = compensated_sum(parts)
    plain = parts.sum(axis=0)
    worst = np.abs(parts).sum(axis=0) * 2.0**-100
    assert (np.abs(found - exact) <= np.spacing(np.abs(exact)) + worst).all()
    assert (plain != exact).any()
    assert compensated_sum(np.array([[math.inf], [1.0]])) == math.inf


def test_log_sum_exps_of_ranks_are_those_of_all_rows():
    rng = np.random.default_rng(1)
    rows, scores = rng.normal(size=(50, 3)), 40.0 * rng.normal(size=50)

    def part(places):
        if not len(places):
            return LogSums(np.array([-np.inf]), np.zeros((1, 3)), np.zeros((1, 3)), 0.0)
        level = np.logaddexp.reduce(scores[places])
        shares = np.exp(scores[places] - level)
        return LogSums(np.array([level]), (shares @ rows[places])[None], np.full((1, 3), shares.sum()), 1.0)

    cuts = [np.arange(0, 7), np.arange(0), np.arange(7, 8), np.arange(8, 50)]
    found, truth = LogSums.of_ranks([part(cut) for cut in cuts]), part(np.arange(50))
    assert close(found.values, truth.values)
    assert close(found.slopes, truth.slopes)
    assert close(found.sizes, truth.sizes)
    empty = LogSums.of_ranks([part(np.arange(0))] * 2)
    assert np.isneginf(empty.values).all()
    assert (empty.slopes == 0.0).all()
    again = LogSums.unpacked(truth.packed(), 1)
    assert all((getattr(again, name) == getattr(truth, name)).all() for name in ("values", "slopes", "sizes"))
    two = Sums(np.array([1.0]), np.ones((1, 3)), np.ones((1, 3)), 2.0)
    assert Sums.of_ranks([two, two]).values.tolist() == [2.0]


# --- the watch --------------------------------------------------------------------------------------------------------


TIMEOUT = 1.0  # the machine of a test may stand still for a while


class Store:
    """The coordinator's store as a dictionary; it may go away."""

    def __init__(self):
        self.held, self.gone = {}, False

    def key_value_set(self, key, value, allow_overwrite=False):
        if self.gone:
            raise RuntimeError("UNAVAILABLE")
        self.held[key] = value

    def key_value_dir_get(self, folder):
        if self.gone:
            raise RuntimeError("UNAVAILABLE")
        return [(key, value) for key, value in self.held.items() if key.startswith(folder)]


@pytest.fixture
def watched():
    store = Store()
    watches = [Watch(store, "job", rank, 3, TIMEOUT) for rank in range(3)]
    yield store, watches
    for one in watches:
        one.broken = ""
        one.close()


def verdict_within(watch, seconds, failed=False):
    """What a rank that waits at a step comes to, and after how long."""
    since = time.monotonic()
    failed = since if failed else None
    while time.monotonic() < since + seconds:
        if said := watch.verdict(since, failed, "connection closed"):
            return said, time.monotonic() - since
        time.sleep(0.02)
    return "", seconds


def test_a_rank_that_works_is_waited_for_and_one_that_hangs_is_not(watched):
    _, (first, second, third) = watched
    first.arrive(1, 64)
    second.arrive(1, 64)
    for _ in range(8):  # one and a half times the timeout
        third.heartbeat()
        assert verdict_within(first, 0.2 * TIMEOUT)[0] == ""
    said, seconds = verdict_within(first, 5.0)
    assert said.startswith("rank 2 of 3 is silent: its process lives, but has done nothing for 1 s")
    assert 0.2 < seconds < 4.0
    # who says so first ends the others with the same words
    first.finish(said)
    assert verdict_within(second, 5.0)[0] == said


def test_a_rank_without_a_sign_of_life_is_named(watched):
    _, (first, second, third) = watched
    for one in (first, second, third):
        one.arrive(1, 64)
    assert verdict_within(first, 1.5 * TIMEOUT)[0] == ""  # all wait, and the collective may take its time
    third.close()
    assert verdict_within(first, 5.0)[0].startswith("rank 2 of 3 is silent: no sign of life for 1 s")


def test_ranks_that_gather_different_sizes_do_not_wait_for_one_another(watched):
    _, (first, second, _) = watched
    first.arrive(1, 64)
    second.arrive(1, 128)
    said, seconds = verdict_within(first, 5.0)
    assert said.startswith("rank 1 of 3 and rank 0 do not compute the same at step 1")
    assert seconds < 5.0


def test_an_exchange_without_an_end_ends(watched):
    _, watches = watched
    for one in watches:
        one.arrive(1, 64)
    said, seconds = verdict_within(watches[0], 10.0)
    assert said.startswith("all ranks are there, but their exchange takes longer than 4 s")
    assert seconds >= 4.0 * TIMEOUT - 0.5


def test_a_broken_collective_with_all_ranks_alive_says_so(watched):
    _, watches = watched
    for one in watches:
        one.arrive(1, 64)
    said, _ = verdict_within(watches[0], 5.0, failed=True)
    assert said == "the ranks could not exchange their results, and all of them are there: connection closed"


def test_a_coordinator_that_is_gone_is_named(watched):
    store, (_, second, _) = watched
    store.gone = True
    assert verdict_within(second, 5.0)[0].startswith("rank 0 of 3 is silent: the coordinator of JAX")


def test_a_program_that_ends_early_says_so(watched, monkeypatch):
    _, (first, _, third) = watched
    ended = []
    monkeypatch.setattr(watching, "_end_without_jax", ended.append)
    monkeypatch.setattr(sys, "last_value", ZeroDivisionError("by zero"), raising=False)
    third.leave()
    assert ended == [TIMEOUT]
    said, seconds = verdict_within(first, 5.0)
    assert said == "rank 2 of 3 has ended its program with ZeroDivisionError: by zero."
    assert seconds < TIMEOUT


def test_the_rank_with_the_store_ends_last(watched, monkeypatch):
    """JAX ends the others when it is gone, whatever they are still doing."""
    _, (first, second, third) = watched
    monkeypatch.setattr(watching, "_SECONDS", 0.3)
    monkeypatch.setattr(watching, "_end_without_jax", lambda _: None)
    monkeypatch.setattr(first, "timeout", 30.0)
    assert verdict_within(first, 0.5)[0] == ""  # it has heard of them
    for one in (first, second):
        one.finish("rank 2 of 3 is silent")
    third._end_thread()
    gone = threading.Timer(2.0, second._end_thread)
    gone.start()
    start = time.monotonic()
    first.leave()
    assert 2.0 <= time.monotonic() - start < 20.0
    gone.join()


ENDING = """
import atexit, sys, time
atexit.register(print, "first", flush=True)
from convexrank.data.shards.watch import Watch
from tests.test_shards import Store
atexit.register(print, "second", flush=True)
watch = Watch(Store(), "job", 1, 2, 0.5)
atexit.register(print, "third", file=sys.stderr, flush=True)
{then}
"""
ENDS = {
    "an error": ("1 / 0", ["second", "first"], "ZeroDivisionError"),
    "an error that was caught": ("watch.finish('rank 0 of 2 is silent')", ["second", "first"], "third"),
    "a wait without an end": ("1 / 0\n", ["second"], "Timeout"),
}


@pytest.mark.parametrize("name", ENDS)
def test_functions_for_the_end_of_a_program_run(name):
    then, printed, said = ENDS[name]
    program = ENDING.format(then=then)
    if name == "a wait without an end":  # such as MPI's
        program = program.replace("from convexrank", "atexit.register(time.sleep, 600)\nfrom convexrank")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == printed
    assert "third" in done.stderr
    assert said in done.stderr
    assert done.returncode == 1
