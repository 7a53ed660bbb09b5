"""Graphs in files: built from pieces, opened and ranked as in memory, and never half written."""

from __future__ import annotations

import copy
import errno
import gzip
import json
import os
import pickle
import shutil
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import convexrank as cr
from convexrank.graphs import edge_blocks, graph_files, pieces
from tests.tolerances import tolerance


@pytest.fixture
def small_steps(monkeypatch):
    """Pieces and stretches of a few edges, so that small graphs have many of them."""
    for name in ("STRETCH", "BLOCK"):
        monkeypatch.setattr(edge_blocks, name, 7)
    for module in (pieces, graph_files):
        monkeypatch.setattr(module, "ROWS", 5)


def drawn(seed, weighted):
    """Some edges, among them loops, parallel ones, and ones of weight 0."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 30)), int(rng.integers(0, 120))
    source, target = rng.integers(0, n, (2, m))
    if seed % 2:  # all different
        first = np.unique(source * n + target, return_index=True)[1]
        source, target = source[first], target[first]
    choice = [0.0, 0.5, 1.0, 2.0] if seed % 3 else [1.0]  # sums of these are exact
    return n, source, target, rng.choice(choice, len(source)) if weighted else None


def least_memory(n, target):
    """Bytes that a build needs, so that it takes a file for nearly every node."""
    return 36 * n + 24 * int(np.bincount(target, minlength=1).max(initial=1))


def assert_same(found, expected):
    assert np.array_equal(found.offsets, expected.offsets)
    assert np.array_equal(found.sources, expected.sources)
    assert (found.weights is None) == (expected.weights is None)
    if expected.weights is not None:
        assert np.array_equal(found.weights, expected.weights)
    assert np.array_equal(found.degrees, expected.degrees)
    assert found.names == expected.names


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loops", [False, True])
def test_a_build_gives_the_graph_in_memory(tmp_path, small_steps, weighted, loops):
    for seed in range(6):
        n, source, target, weight = drawn(seed, weighted)
        n = n if seed % 4 or not len(source) else None
        expected = cr.Graph.from_edges(source, target, weight, n, self_loops=loops)
        columns = (source, target) if weight is None else (source, target, weight)
        memory = least_memory(expected.n, target)
        built = cr.Graph.build(columns, tmp_path / f"{seed}", n=n, self_loops=loops, memory=memory)
        assert_same(built, expected)
        expected.save(tmp_path / f"{seed} saved")
        assert_same(cr.Graph.open(tmp_path / f"{seed} saved"), expected)
        assert sorted(file.name for file in tmp_path.iterdir()) == [f"{seed}", f"{seed} saved"]
        for made in tmp_path.iterdir():
            shutil.rmtree(made)


def test_all_sources_of_edges_give_one_graph(tmp_path, small_steps):
    n, source, target, weight = drawn(4, True)
    both = np.stack([source, target], axis=1)
    np.save(tmp_path / "both.npy", both)
    for name, values in (("s", source), ("t", target.astype(np.uint16)), ("w", weight)):
        np.save(tmp_path / f"{name}.npy", values)
    mapped = tuple(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "stw")
    lines = [
        "# source target weight",
        *(f"{s} {t} {w}" for s, t, w in zip(source, target, weight, strict=True)),
    ]
    (tmp_path / "edges.txt").write_text("\n".join(lines))
    (tmp_path / "edges.csv.gz").write_bytes(gzip.compress("\n".join(lines[1:]).replace(" ", ",").encode()))
    (tmp_path / "two.txt").write_text("\n".join(line.rsplit(" ", 1)[0] for line in lines[1:]))
    plain = {
        "array": both, "columns": (source, target), "file": tmp_path / "both.npy", "text": str(tmp_path / "two.txt"),
        "pieces": [both[:9], (source[9:20], target[9:20]), both[20:]],
        "files": [tmp_path / "both.npy"],
        "memory map": np.load(tmp_path / "both.npy", mmap_mode="r"),
    }  # fmt: skip
    weighted = {
        "mapped columns": (mapped, {}), "text with weights": (tmp_path / "edges.txt", {}),
        "packed": (tmp_path / "edges.csv.gz", {"delimiter": ","}),
    }  # fmt: skip
    for name, edges in plain.items():
        assert_same(cr.Graph.build(edges, tmp_path / name, n=n), cr.Graph.from_edges(source, target, n=n))
    for name, (edges, options) in weighted.items():
        expected = cr.Graph.from_edges(source, target, weight, n)
        assert_same(cr.Graph.build(edges, tmp_path / name, n=n, **options), expected)
    read = cr.Graph.read(tmp_path / "edges.txt", weighted=False)
    assert_same(cr.Graph.build(tmp_path / "edges.txt", tmp_path / "unweighted", weighted=False), read)


@pytest.mark.parametrize("weighted", [False, True])
def test_ranks_and_certificates_are_those_in_memory(tmp_path, small_steps, weighted):
    for seed in (5,):
        n, source, target, weight = drawn(seed, weighted)
        held = cr.Graph.from_edges(source, target, weight, n)
        held.save(tmp_path / f"{seed}")
        graph = cr.Graph.open(tmp_path / f"{seed}")
        x = np.random.default_rng(seed).random(n)
        for name in ("pull", "push"):
            assert np.abs(getattr(graph, name)(x) - getattr(held, name)(x)).max() <= tolerance("atoms") * n
        v = np.random.default_rng(seed).random((n, 2))
        declared = [
            lambda graph: cr.problems.PageRank(graph),
            lambda graph, v=v: cr.problems.PageRank(graph, 0.9, v, "uniform"),
            lambda graph: cr.problems.LpqRank(graph, 4, 4.8),
            lambda graph: cr.problems.LpqRank(graph, np.inf, np.inf, theta=0.8, weak_links="entry"),
            lambda graph: cr.problems.TrustPropagation(graph, [0], [graph.n - 1], p=2, q=2.5),
        ]
        for declare in declared:
            ours, theirs = declare(graph), declare(held)
            solution = ours.solve(tol=1e-10)
            assert solution.converged
            assert theirs.certificate(solution).gap <= 1e-10
            assert ours.distance(solution.x, theirs.solve(tol=1e-10).x) <= 2e-10
            start = np.abs(theirs.start()) + 0.1 * (theirs.start() > 0)
            gaps = ours.certificate(start).gap, theirs.certificate(start).gap
            assert gaps[0] == pytest.approx(gaps[1], rel=1e-12)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_sweep_over_stretches(tmp_path, small_steps, threads):
    n, source, target, _ = drawn(6, False)
    held = cr.Graph.from_edges(source, target, n=n)
    held.save(tmp_path / "graph")
    graphs = held, cr.Graph.open(tmp_path / "graph")
    found = [
        cr.problems.PageRank(graph).solve(cr.solvers.GaussSeidel(2, threads), tol=1e-11) for graph in graphs
    ]
    assert np.abs(found[0].x - found[1].x).sum() <= 2e-11
    assert found[0].iterations == found[1].iterations


@pytest.mark.parametrize("weighted", [False, True])
def test_no_step_to_a_rank_copies_the_edges(tmp_path, weighted):
    """numpy tells what it allocates: nothing as large as the sources, on the way from a folder to a certificate."""
    n, links = 2_000, 1_500
    sources = (np.arange(n)[:, None] + np.arange(links)) % n
    sources.sort(axis=1)
    weights = np.tile(np.linspace(0.5, 2.0, links), n) if weighted else None
    held = cr.Graph(np.arange(n + 1) * links, sources.ravel(), weights)
    held.save(tmp_path / "graph")
    cr.problems.PageRank(held).solve()  # compiles
    room = held.sources.nbytes + (weights.nbytes if weighted else 0)
    del held, sources, weights
    tracemalloc.start()
    try:
        graph = cr.Graph.open(tmp_path / "graph")
        problem = cr.problems.PageRank(graph, personalization=np.arange(n) + 1.0)
        solution = problem.solve(tol=1e-8)
        _, peak = tracemalloc.get_traced_memory()
        copied = np.array(graph.sources), weighted and np.array(graph.weights)
        assert tracemalloc.get_traced_memory()[1] > room  # what a copy looks like
        del copied
    finally:
        tracemalloc.stop()
    assert solution.gap <= 1e-8
    assert peak < room / 2


def test_names_are_kept(tmp_path):
    for number, names in enumerate([("a", "b", "ü"), (7, 5, 3), ("a", 1, 2.5)]):
        graph = cr.Graph.from_edges([0, 1], [1, 2], names=names)
        graph.save(tmp_path / f"{number}")
        found = cr.Graph.open(tmp_path / f"{number}").names
        assert found == names
        assert list(map(type, found)) == list(map(type, names))
    with pytest.raises(TypeError, match="names has an entry of type tuple, expected texts and numbers"):
        cr.Graph.from_edges([0], [1], names=[(1, 2), "b"]).save(tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_copies_open_the_files_again(tmp_path):
    cr.Graph.from_edges([0, 1, 1], [1, 2, 2]).save(tmp_path / "graph")
    graph = cr.Graph.open(tmp_path / "graph")
    for other in (pickle.loads(pickle.dumps(graph)), copy.deepcopy(graph)):
        assert other.pages is not None
        assert_same(other, graph)
    assert len(pickle.dumps(graph)) < 500
    with pytest.raises(ValueError, match="read-only"):
        graph.sources[0] = 1


# --- nothing half written ------------------------------------------------------------------------------------------


class Stops(Exception):
    """What a test stops a build with."""


def endings(monkeypatch):
    """Ways in which writing ends early, each armed by a call."""

    def full(self, values):
        raise OSError(errno.ENOSPC, "No space left on device")

    def stop(*arguments):
        raise KeyboardInterrupt

    yield (
        "the disk was full while the graph was written",
        lambda: monkeypatch.setattr(graph_files.ArrayFile, "write", full),
    )
    yield "^$", lambda: monkeypatch.setattr(graph_files.ArrayFile, "close", stop)
    yield (
        "^$",
        lambda: monkeypatch.setattr(graph_files, "seal", stop),
    )


def test_a_full_disk_or_ctrl_c_leaves_nothing(tmp_path, monkeypatch):
    graph = cr.Graph.from_edges([0, 1], [1, 2])
    for message, arm in endings(monkeypatch):
        for write in (graph.save, lambda path: cr.Graph.build((np.array([0, 1]), np.array([1, 2])), path)):
            with monkeypatch.context():
                arm()
                with pytest.raises((OSError, KeyboardInterrupt), match=message):
                    write(tmp_path / "graph")
            monkeypatch.undo()
            assert list(tmp_path.iterdir()) == []
    graph.save(tmp_path / "graph")


def test_a_disk_without_room_is_refused_at_once(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(
        OSError, match=r"the graph needs \d+ bytes .* and the disk has 10; choose a path on a larger"
    ):
        cr.Graph.from_edges([0, 1], [1, 2]).save(tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_build_leaves_nothing_that_opens(tmp_path):
    program = f"""
import os
import numpy as np
import convexrank as cr
from convexrank.graphs import graph_files
graph_files.seal = lambda folder: os._exit(9)  # all arrays are there
cr.Graph.build((np.array([0, 1]), np.array([1, 2])), {str(tmp_path / "graph")!r})
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 9
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".graph.")
    assert {"offsets.npy", "sources.npy"} <= {file.name for file in left.iterdir()}
    with pytest.raises(
        ValueError, match=r"has no manifest.json: it is no stored graph, or one whose writing was inter"
    ):
        cr.Graph.open(left)
    with pytest.raises(
        FileNotFoundError, match=r"is no folder; expected one that Graph.save or Graph.build made"
    ):
        cr.Graph.open(tmp_path / "graph")
    cr.Graph.build((np.array([0, 1]), np.array([1, 2])), tmp_path / "graph")


# --- changed files -------------------------------------------------------------------------------------------------


@pytest.fixture
def stored(tmp_path):
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 50, (2, 400))
    cr.Graph.from_edges(source, target, rng.random(400), 50).save(tmp_path / "graph")
    return tmp_path / "graph"


def test_files_that_are_not_as_written_are_refused(stored, tmp_path):
    def with_change(change):
        path = tmp_path / "changed"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(stored, path)
        change(path)
        return path

    def edit(name, place):
        def change(path):
            content = bytearray((path / name).read_bytes())
            content[place] ^= 1
            (path / name).write_bytes(content)

        return change

    def manifest(**entries):
        def change(path):
            file = path / "manifest.json"
            file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))

        return change

    changes = {
        "is not the file that the manifest describes": [
            edit("sources.npy", 200), edit("weights.npy", -1), edit("offsets.npy", 130),
            lambda path: (path / "sources.npy").write_bytes((path / "sources.npy").read_bytes()[:-4]),
        ],
        "cannot be read .*; the manifest lists it": [lambda path: (path / "weights.npy").unlink()],
        "describes a 'convexrank graph' of version 7": [manifest(version=7)],
        "cannot be read as the manifest": [
            lambda path: (path / "manifest.json").write_text("{"),
            lambda path: (path / "manifest.json").write_text("[" * 100_000),
        ],
        "lists .*, expected files among": [manifest(files={"../x": {}})],
        "expected offsets.npy and sources.npy": [manifest(files={})],
    }  # fmt: skip
    for message, ways in changes.items():
        for change in ways:
            with pytest.raises(ValueError, match=message):
                cr.Graph.open(with_change(change))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "recursion"),
        ("{", "Expecting"),
        ('{"a": 1}', "expected a list of texts"),
        ('[["a"], "b"]', "expected a list of texts"),
        ('["a"]', "1 entries, expected 2"),
        ('["a", "a"]', "'a' twice"),
        ("[1, NaN]", "NaN"),
    ],
    ids=range(7),
)
def test_names_that_are_not_as_written_are_refused(tmp_path, text, said):
    path = tmp_path / "graph"
    cr.Graph.from_edges([0], [1], names=["a", "b"]).save(path)
    (path / "names.json").write_text(text)
    (path / "manifest.json").unlink()
    graph_files.seal(path)  # whoever writes the names writes the checksums, too
    with pytest.raises(ValueError, match=f"names.json cannot be read as the names of nodes .*{said}"):
        cr.Graph.open(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["manifest.json", "sources.npy"])
def test_a_pipe_in_the_folder_does_not_block(stored, name):
    (stored / name).unlink()
    os.mkfifo(stored / name)
    with pytest.raises(ValueError, match=r"cannot be read .*no regular file"):
        cr.Graph.open(stored)


def test_ids_beyond_the_nodes_are_found_before_they_are_used(stored, monkeypatch):
    """What the samples of the checksum miss, compiled loops would follow out of the arrays."""
    monkeypatch.setattr(graph_files, "_fingerprint", lambda file: {"bytes": 0, "sample": ""})
    names = {"sources": (np.int32, -3), "weights": (np.float64, np.nan)}
    manifest = stored / "manifest.json"
    files = json.loads(manifest.read_text())["files"]
    entries = {name: {"bytes": 0, "sample": ""} for name in files}
    manifest.write_text(manifest.read_text().replace(json.dumps(files), ""))
    manifest.write_text(json.dumps({"format": "convexrank graph", "version": 1, "files": entries}))
    whole = {name: np.load(stored / f"{name}.npy") for name in names}
    for name, (_, wrong) in names.items():
        for other, values in whole.items():
            np.save(stored / f"{other}.npy", values)
        damaged = whole[name].copy()
        damaged[100] = wrong
        np.save(stored / f"{name}.npy", damaged)
        for use in (
            lambda graph: graph.degrees,
            lambda graph: graph.pull(np.ones(50)),
            lambda graph: graph.push(np.ones(50)),
        ):
            with pytest.raises(ValueError, match=rf"{name}.npy has .*: the file is damaged; build it anew"):
                use(cr.Graph.open(stored))
    np.save(stored / "sources.npy", whole["sources"])
    np.save(stored / "weights.npy", whole["weights"])
    np.save(stored / "offsets.npy", np.arange(51)[::-1].copy())
    with pytest.raises(ValueError, match=r"offsets.npy does not rise from 0 to \d+"):
        cr.Graph.open(stored)


def test_files_that_change_under_an_open_graph_are_noticed(stored):
    graph = cr.Graph.open(stored)
    ranks = cr.problems.PageRank(graph).solve().x
    with (stored / "sources.npy").open("ab") as file:
        file.write(b"1234")
    with pytest.raises(
        RuntimeError, match=r"sources.npy was changed since the graph was opened; open the graph again"
    ):
        cr.problems.PageRank(graph).certificate(ranks)
    (stored / "weights.npy").unlink()
    (stored / "sources.npy").unlink()
    with pytest.raises(RuntimeError, match=r"sources.npy was removed"):
        graph.pull(np.ones(50))


def test_a_file_that_is_cut_off_during_a_pass_is_noticed(stored, small_steps):
    blocks = cr.Graph.open(stored).blocks()
    next(blocks)
    os.truncate(stored / "sources.npy", 600)
    with pytest.raises(RuntimeError, match=r"sources.npy was changed since the graph was opened"):
        list(blocks)


def test_blocks_have_the_edges_into_their_nodes(stored, small_steps):
    held, graph = cr.Graph.open(stored), cr.Graph.open(stored)
    for first, last in ((0, 50), (13, 14), (13, 40), (20, 20)):
        end = first
        for block in graph.blocks(first, last):
            assert block.first == end
            assert block.last > end
            for part in (block, block.part(block.first, block.last), block.part(block.last - 1, block.last)):
                edges = slice(held.offsets[part.first], held.offsets[part.last])
                assert part.edges == edges
                assert np.array_equal(part.starts, held.offsets[part.first : part.last + 1] - edges.start)
                assert np.array_equal(part.sources, held.sources[edges])
                assert np.array_equal(part.weights, held.weights[edges])
            end = block.last
        assert end == last


def test_ranges_are_sets_of_rows():
    rng = np.random.default_rng(0)
    for _ in range(20):
        ranges, rows = edge_blocks.Ranges(), set()
        for _ in range(12):
            first, last = sorted(rng.integers(0, 30, 2).tolist())
            assert ranges.covers(first, last + 1) == (set(range(first, last + 1)) <= rows)
            ranges.add(first, last + 1)
            rows |= set(range(first, last + 1))


class Restless:
    """Edges that are others each time."""

    def __init__(self, change):
        self.change, self.passes = change, 0

    def __iter__(self):
        self.passes += 1
        source, target = np.array([0, 1, 2]), np.array([1, 2, 0])
        yield self.change(source, target) if self.passes > 1 else (source, target)


@pytest.mark.parametrize(
    "change",
    [
        lambda source, target: (source[::-1], target[::-1]),
        lambda source, target: (source[:2], target[:2]),
        lambda source, target: (source, target + 40),
        lambda source, target: (np.append(source, 0), np.append(target, 0)),
    ],
    ids=["order", "fewer", "far", "more"],
)
def test_edges_that_change_between_passes_are_noticed(tmp_path, change):
    with pytest.raises(ValueError, match="edges gave other edges in the second pass than in the first"):
        cr.Graph.build(Restless(change), tmp_path / "graph")
    assert list(tmp_path.iterdir()) == []


# --- what is refused -----------------------------------------------------------------------------------------------


def test_what_cannot_be_built_is_refused(tmp_path):
    ends = np.array([0, 1]), np.array([1, 2])
    (tmp_path / "there").mkdir()
    (tmp_path / "names.txt").write_text("ann bob\nbob cat\n")
    (tmp_path / "wrong.txt").write_text("0 1\n1 2\n2 x\n")
    (tmp_path / "counts.txt").write_text("\n".join(["20 12", *(f"{i} {i + 1}" for i in range(12))]))
    (tmp_path / "minus.txt").write_text("0 1\n1 -2\n")
    np.savez(tmp_path / "edges.npz", source=ends[0])
    (tmp_path / "edges.mtx").touch()
    wrong = [
        (ends, {}, "there", FileExistsError, "there is there already"),
        (ends, {}, "no/graph", FileNotFoundError, "there is no folder"),
        (iter([ends]), {}, "graph", TypeError, "can be gone through once, and a build takes two passes"),
        (7, {}, "graph", TypeError, "edges is 7, expected the path of a file, an array of shape"),
        ([7], {}, "graph", TypeError, "piece 0 is 7, expected"),
        (np.zeros((3, 3), int), {}, "graph", ValueError, r"edges has shape \(3, 3\), expected \(m, 2\)"),
        ([ends, (*ends, np.ones(2))], {}, "graph", ValueError, "piece 1 has 3 columns and those before it have 2"),
        ([ends, (ends[0] - 1, ends[1])], {}, "graph", ValueError, r"piece 1: source\[0\] is -1"),
        ([ends, (ends[0] / 2, ends[1])], {}, "graph", TypeError, "piece 1: source holds float64"),
        ([(*ends, np.array([1.0, np.nan]))], {}, "graph", ValueError, "piece 0: weight"),
        ([(*ends, np.array([1.0, -1.0]))], {}, "graph", ValueError, r"piece 0: weight\[1\] is -1"),
        (ends, {"n": 2}, "graph", ValueError, r"edges: target\[1\] is 2, expected node ids below n = 2"),
        ([], {}, "graph", ValueError, "edges has none, and no number of nodes is known; pass n"),
        (ends, {"memory": 100}, "graph", ValueError, "memory is 100 bytes, and the arrays of 3 nodes take 54"),
        ((np.arange(40) % 3, np.zeros(40, int)), {"memory": 200}, "graph", ValueError,
         "the 40 edges into node 0 alone do not fit beside 3 nodes; pass memory=1014 or more"),
        (tmp_path / "names.txt", {}, "graph", ValueError, "calls its nodes by names, and a dictionary"),
        (tmp_path / "wrong.txt", {}, "graph", ValueError, "wrong.txt, line 3: 'x' is no node number"),
        (tmp_path / "minus.txt", {}, "graph", ValueError, "minus.txt, line 2: the node is -2"),
        (tmp_path / "counts.txt", {}, "graph", ValueError, "reads like the numbers of nodes and edges"),
        (tmp_path / "edges.npz", {}, "graph", ValueError, "no file that can be mapped into memory"),
        (tmp_path / "edges.mtx", {}, "graph", ValueError, "cannot be read in pieces; read it with Graph.read"),
        (tmp_path / "none.npy", {}, "graph", FileNotFoundError, "edges is '.*, and there is no such file"),
        (tmp_path / "minus.txt", {"skip_rows": -1}, "graph", ValueError, "skip_rows is -1"),
        (tmp_path / "minus.txt", {"weighted": "no"}, "graph", TypeError, "weighted is 'no'"),
        (tmp_path / "minus.txt", {"delimiter": 3}, "graph", TypeError, "delimiter is 3, expected a text"),
    ]  # fmt: skip
    before = sorted(tmp_path.iterdir())
    for edges, options, name, kind, message in wrong:
        with pytest.raises(kind, match=message):
            cr.Graph.build(edges, tmp_path / name, **options)
    assert sorted(tmp_path.iterdir()) == before
    assert cr.Graph.build([], tmp_path / "empty", n=3).m == 0


def test_more_files_than_may_be_open_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_files, "_MOST_FILES", 4)
    source, target = np.zeros(1000, int), np.arange(1000) % 100
    with pytest.raises(
        ValueError, match=r"which takes \d+ files at a time .* at most 4; pass memory=(\d+)"
    ) as raised:
        cr.Graph.build((source, target), tmp_path / "graph", memory=3600)
    enough = int(str(raised.value).rsplit("memory=", 1)[1].split()[0])
    assert cr.Graph.build((source, target), tmp_path / "graph", memory=enough).n == 100


# --- WebGraph ------------------------------------------------------------------------------------------------------


class BvGraph:
    """What the package webgraph documents, of a graph of a few nodes."""

    LINKS = ((1, 2), (2,), (), (0, 2, 3))

    def __init__(self, basename):
        self.basename = basename
        if basename.endswith("broken"):
            raise OSError("no .ef file")

    def num_nodes(self):
        return len(self.LINKS)

    def num_arcs(self):
        return sum(map(len, self.LINKS))

    def outdegrees(self):
        return np.array([len(links) for links in self.LINKS], dtype=np.uint32)

    def successors(self, node):
        return iter(self.LINKS[node])


def test_webgraphs_are_read_through_their_package(tmp_path, monkeypatch):
    import types

    from convexrank.graphs import pieces

    monkeypatch.setitem(sys.modules, "webgraph", types.SimpleNamespace(BvGraph=BvGraph))
    for name in ("crawl", "broken"):
        (tmp_path / f"{name}.graph").touch()
    expected = cr.Graph.from_edges([0, 0, 1, 3, 3, 3], [1, 2, 2, 0, 2, 3])
    for links in (1, 2, 100):
        monkeypatch.setattr(pieces, "_LINKS", links)
        found = cr.graphs.WebGraph(tmp_path / "crawl.graph")
        assert repr(found).endswith("crawl', n=4, m=6)")
        assert_same(cr.Graph.build(found, tmp_path / f"{links}"), expected)
    with pytest.raises(ValueError, match=r"cannot be read by the package webgraph: no .ef file"):
        cr.graphs.WebGraph(tmp_path / "broken")
    with pytest.raises(
        FileNotFoundError, match=r"there is no file .*other.graph; pass the path without the ending"
    ):
        cr.graphs.WebGraph(tmp_path / "other")
    monkeypatch.setitem(sys.modules, "webgraph", None)
    with pytest.raises(
        ImportError, match=r"needs its package; install it: pip install 'convexrank\[webgraph\]'"
    ):
        cr.graphs.WebGraph(tmp_path / "crawl")
