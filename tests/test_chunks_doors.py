"""Doors that take X, with rows out of memory: the answer in memory, or a refusal; how rows are read and multiplied."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.data import Chunks
from convexrank.data.chunks import pieces
from convexrank.solvers.row_faces import Coordinates
from tests.test_chunks import COLUMNS, ROWS, close, cut, drawn

P = cr.problems


def pushes(kind=P.PNormPush, **options):
    """The same problem in memory and out of it."""
    X, y, *_ = drawn()
    chunks = Chunks(cut(X, y))
    return kind(X, y, l2=0.3, **options), kind(chunks, chunks.y, l2=0.3, **options)


# --- doors -----------------------------------------------------------------------------------------------------------


def test_paths_duals_and_leave_one_out_are_those_in_memory():
    memory, pieces = pushes(p=4)
    ours, theirs = (cr.path(problem, l2=[0.2, 0.4], tol=1e-12) for problem in (pieces, memory))
    for one, other in zip(ours, theirs, strict=True):
        # both are as near to the minimiser as their gaps say: the objective bends by l2 or more
        apart = sum(np.sqrt(2.0 * max(solution.gap, 1e-16) / 0.2) for solution in (one, other))
        assert np.linalg.norm(one.x - other.x) <= apart
        assert np.linalg.norm(one.x) > 1e4 * apart
    assert close(pieces.dual().solve(tol=1e-12).value, memory.dual().solve(tol=1e-12).value)
    assert close(pieces.l1_max(), memory.l1_max())
    memory, pieces = pushes(P.IRPush)
    found, truth = (cr.leave_one_out(problem.solve("lbfgs", tol=1e-12)) for problem in (pieces, memory))
    np.testing.assert_array_equal(found.rows, truth.rows)
    assert close(found.distances, truth.distances, "minimiser in pieces")


@pytest.mark.parametrize(
    "kind", [P.PNormPush, P.IRPush, P.ListNet, P.MarginRetargeting, P.NDCGRegression, P.ConvexRisk]
)
def test_second_derivatives_are_refused(kind):
    X, y, grades, qid = drawn()
    chunks = Chunks(cut(X, grades, qid))
    labels = {P.PNormPush: (y,), P.IRPush: (y,), P.ConvexRisk: (grades,)}.get(kind, (grades, qid))
    problem = kind(chunks, *labels, l2=0.1, **({"p": 4} if kind is P.PNormPush else {}))
    for call in (problem.hessian, problem.second_order):
        with pytest.raises(
            TypeError, match=r"X is Chunks.*second derivatives are not computed.*chunks\[::100\]"
        ):
            call(np.zeros(COLUMNS))


def test_doors_that_need_the_matrix_refuse():
    X, y, grades, qid = drawn()
    chunks = Chunks(cut(X, y, qid))
    push = P.PNormPush(chunks, y, p=4, l2=0.1)
    learned = P.LearnedDivergence(chunks, grades, strong=1.0, l2=0.1)
    doors = {
        "edges of columns": lambda: push.face(Coordinates).oracle(),
        "bounds for each row": lambda: cr.leave_one_out(push.solve()),
        "distances to minimisers": lambda: cr.perturbation_bound(learned, grades),
        r"parts\[1\] is Chunks": lambda: cr.features.Stacked([X, chunks]),
        "of which no levels": lambda: cr.features.Thresholds(chunks),
        "no levels are made": lambda: cr.features.Products(chunks),
        "columns are not built": lambda: cr.features.threshold_rankers(chunks),
        "X: Chunks": lambda: cr.QueryScaler().fit(chunks, qid),
        r"\) are rows out of memory": lambda: np.asarray(chunks),
        "y could not be read": lambda: P.PNormPush(X, chunks, p=4, l2=0.1),
        "X could not be read": lambda: Chunks.from_arrays(chunks, y),
        "are rows out of": lambda: Chunks([(chunks, y)]),
    }
    for words, door in doors.items():
        with pytest.raises(TypeError, match=words):
            door()


# --- classes and pieces ----------------------------------------------------------------------------------------------


def test_pieces_with_one_class_only_and_without_rows():
    X, y, *_ = drawn()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    at = (0, 20, 20, int((y == 0).sum()), ROWS)  # an empty piece first, amid and last, and classes apart
    chunks = Chunks(cut(X, y, at=at))
    memory, pieces = P.PNormPush(X, y, p=4, l2=0.1), P.PNormPush(chunks, chunks.y, p=4, l2=0.1)
    w = np.linspace(-1.0, 1.0, COLUMNS)
    assert close(pieces.gradient(w), memory.gradient(w))
    assert close(pieces.certificate(w).gap, memory.certificate(w).gap)


def test_a_class_that_no_piece_has():
    X, y, *_ = drawn()
    only = Chunks(cut(X, np.zeros(ROWS, dtype=int)))
    with pytest.raises(ValueError, match="1 class"):
        P.PNormPush(only, only.y, p=4, l2=0.1)
    with pytest.raises(ValueError, match="1 class"):
        cr.PushRanker().fit(only, only.y)
    chunks = Chunks(cut(X, y))
    with pytest.raises(ValueError, match="leaves no positive example"):
        P.PNormPush(chunks, y, p=4, l2=0.1, sample_weight=1.0 - y)


# --- products and reading --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 3), (40, 129), (1, 300)])
@pytest.mark.parametrize("kind", [np.float32, np.float64, "sparse"])
def test_products_are_those_in_extended_precision(rows, columns, kind, monkeypatch):
    """With compiled loops and without; and planted: products in float32 are found out."""
    rng = np.random.default_rng(rows + columns)
    exact = rng.normal(size=(rows, columns)).astype(np.float32)
    X = sparse.csr_array(exact.astype(np.float64)) if kind == "sparse" else exact.astype(kind)
    w, pulls = rng.normal(size=columns), rng.normal(size=(3, rows))
    pulls[1] = 0.0
    long = exact.astype(np.longdouble)
    for large in (1, 1 << 18):
        monkeypatch.setattr(pieces, "_LARGE", large)
        monkeypatch.setattr(pieces, "_BLOCK", 5 * columns)
        assert close(pieces.scores_of(X, w), (long @ w).astype(float))
        assert close(pieces.sums_of(X, pulls), (pulls @ long).astype(float))
        lengths, squares = pieces.lengths_and_squares(X)
        assert close(lengths, np.sqrt((long**2).sum(axis=1)).astype(float))
        assert close(squares, (long**2).sum(axis=0).astype(float))
    assert not close(exact @ w.astype(np.float32), (long @ w).astype(float)) or rows * columns < 20


def test_infinite_scores_are_not_hidden_by_compiled_loops(monkeypatch):
    monkeypatch.setattr(pieces, "_LARGE", 1)
    X = np.full((3, 2), 3e38, dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.isinf(pieces.scores_of(X, np.full(2, 1e308))).all()
        assert np.isnan(pieces.sums_of(X, np.array([[np.nan, 0.0, 1.0]]))).all()


def test_memory_maps_of_all_kinds(tmp_path):
    X, y, *_ = drawn()
    exact = X.astype(np.float64)
    np.save(tmp_path / "c.npy", X)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(X))
    np.save(tmp_path / "double.npy", exact)
    np.save(tmp_path / "other.npy", X.astype(">f4"))
    np.save(tmp_path / "integers.npy", (8 * X).astype(np.int16))
    (tmp_path / "raw").write_bytes(b"head" + X.tobytes())
    private = np.load(tmp_path / "c.npy", mmap_mode="c")
    private[5] = 7.0
    changed = exact.copy()
    changed[5] = 7.0
    maps = {
        "c": (np.load(tmp_path / "c.npy", mmap_mode="r"), exact),
        "fortran": (np.load(tmp_path / "fortran.npy", mmap_mode="r"), exact),
        "double": (np.load(tmp_path / "double.npy", mmap_mode="r+"), exact),
        "other": (np.load(tmp_path / "other.npy", mmap_mode="r"), exact),
        "integers": (np.load(tmp_path / "integers.npy", mmap_mode="r"), np.trunc(8 * exact)),
        "raw": (np.memmap(tmp_path / "raw", np.float32, "r", offset=4, shape=X.shape), exact),
        "a part": (np.load(tmp_path / "c.npy", mmap_mode="r")[10:200], exact[10:200]),
        "every other": (np.load(tmp_path / "c.npy", mmap_mode="r")[::2], exact[::2]),
        "private": (private, changed),
    }
    for name, (given, truth) in maps.items():
        chunks = Chunks.from_arrays(given, y[: len(truth)], rows_per_piece=33)
        assert close(chunks[:], truth), name
        assert close(chunks @ np.ones(COLUMNS), truth.sum(axis=1)), name


def test_a_file_that_becomes_shorter_while_it_is_read(tmp_path):
    X, y, *_ = drawn()
    np.save(tmp_path / "X.npy", X)
    chunks = Chunks.from_arrays(np.load(tmp_path / "X.npy", mmap_mode="r"), y, rows_per_piece=20)
    passing = chunks.pieces()
    next(passing)
    with (tmp_path / "X.npy").open("r+b") as file:
        file.truncate(128 + 4 * COLUMNS * 150 + 3)
    with pytest.raises(ValueError, match=r"X.npy ends within row 150"):
        list(passing)
    with pytest.raises(ValueError, match=r"X.npy has changed since"):
        _ = chunks @ np.ones(COLUMNS)


def test_large_pieces_in_float32_give_the_value_in_memory():
    """So large that the loops are compiled."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(70_000, 4)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=len(X)) > 1.0
    chunks = Chunks.from_arrays(X, y)
    assert len(chunks.borders) == 1
    memory, pieces = P.PNormPush(X, y, p=4, l2=0.1), P.PNormPush(chunks, y, p=4, l2=0.1)
    w = np.linspace(-1.0, 1.0, 4)
    assert close(pieces.gradient(w), memory.gradient(w))
    assert close(pieces.certificate(w).gap, memory.certificate(w).gap)
    assert close(chunks.longest, np.linalg.norm(X.astype(np.float64), axis=1).max())
    spoiled = X.copy()
    spoiled[61_234, 1] = np.nan
    with pytest.raises(ValueError, match="row 61234 of its source"):
        Chunks.from_arrays(spoiled, y)
