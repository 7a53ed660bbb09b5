"""Sparse matrices whose arrays do not fit together: refused at every door, before a compiled loop follows them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.data import QueryGroups, check_matrix
from convexrank.features import threshold_rankers

DENSE = np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0], [4.0, 0.0, 0.0, 5.0], [0.0, 6.0, 0.0, 7.0]])
LABELS = [0, 1, 0, 1]


def edited(kind, **parts):
    """A sound matrix with some of its arrays exchanged, as a caller may do: scipy does not look."""
    matrix = getattr(sparse, f"{kind}_array")(DENSE)
    for name, change in parts.items():
        held = getattr(matrix, name)
        setattr(
            matrix, name, change(tuple(part.copy() for part in held) if name == "coords" else held.copy())
        )
    return matrix


def put(place, value):
    def change(array):
        array[place] = value
        return array

    return change


def lists(place, value):
    matrix = sparse.lil_array(DENSE)
    getattr(matrix, place)[0] = value
    return matrix


MALFORMED = {
    "CSR, negative index": (
        edited("csr", indices=put(0, -3)),
        r"indices\[0\] is -3, expected an index in 0..3",
    ),
    "CSR, index too large": (edited("csr", indices=put(2, 4)), r"indices\[2\] is 4"),
    "CSR, huge index": (edited("csr", indices=put(2, 2**31 - 1)), r"indices\[2\] is 2147483647"),
    "CSR, falling pointers": (edited("csr", indptr=put(1, 6)), "indptr does not rise from 0"),
    "CSR, no entries by a pointer": (edited("csr", indptr=put(-1, 0)), "indptr does not rise"),
    "CSR, negative last pointer": (edited("csr", indptr=put(-1, -1)), "indptr does not rise"),
    "CSR, pointers beyond the end": (
        edited("csr", indptr=put(-1, 700)),
        "indptr ends at 700, but there are 7",
    ),
    "CSR, pointers not from 0": (edited("csr", indptr=put(0, 1)), "indptr does not rise from 0"),
    "CSR, pointers too few": (edited("csr", indptr=lambda p: p[:-1]), "indptr has 4 entries, expected 5"),
    "CSR, data too few": (edited("csr", data=lambda d: d[:3]), "indices has 7 entries and data 3"),
    "CSR, data of two dimensions": (edited("csr", data=lambda d: d[:, None]), r"data has shape \(7, 1\)"),
    "CSR, indices that are floats": (
        edited("csr", indices=lambda i: i + 0.5),
        "expected a vector of integers",
    ),
    "CSC, negative index": (edited("csc", indices=put(1, -1)), r"indices\[1\] is -1"),
    "CSC, falling pointers": (edited("csc", indptr=put(1, 7)), "indptr does not rise"),
    "blocks, index too large": (edited("bsr", indices=put(0, 99)), r"indices\[0\] is 99"),
    "blocks, falling pointers": (edited("bsr", indptr=put(1, 9)), "indptr does not rise"),
    "COO, negative index": (
        edited("coo", coords=lambda c: (put(1, -9)(c[0]), c[1])),
        r"coords\[0\]\[1\] is -9",
    ),
    "COO, index too large": (
        edited("coo", coords=lambda c: (c[0], put(0, 4)(c[1]))),
        r"coords\[1\]\[0\] is 4",
    ),
    "COO, data too few": (edited("coo", data=lambda d: d[:2]), r"coords\[0\] has 7 entries and data 2"),
    "diagonals, data too few": (edited("dia", data=lambda d: d[:1]), "there are 4 offsets"),
    "diagonals, one twice": (edited("dia", offsets=put(1, -2)), "a diagonal twice"),
    "lists, column too large": (lists("rows", [0, 9]), r"indices\[1\] is 9"),
    "lists, values too many": (lists("data", [1.0] * 5000), "row 0 has 2 columns and 5000 values"),
}


@pytest.mark.parametrize("name", list(MALFORMED))
def test_malformed_matrices_are_refused(name):
    matrix, words = MALFORMED[name]
    with pytest.raises(ValueError, match=f"X is a malformed sparse matrix.*{words}.*build it anew"):
        check_matrix(matrix)
    with pytest.raises(ValueError, match=f"matrix is a malformed sparse matrix.*{words}"):
        cr.Graph.from_scipy(matrix if "lists, column" not in name else edited("csr", indices=put(1, 9)))


BAD = edited("csr", indices=put(0, -3))


@pytest.mark.parametrize(
    "call",
    [
        lambda X: cr.problems.PNormPush(X, LABELS, p=2.0),
        lambda X: cr.problems.RealizableLink(X, [0.0, 1.0, 2.0, 3.0], radius=1.0),
        lambda X: cr.problems.KernelLearnedDivergence(X, [0.0, 1.0, 2.0, 3.0], strong=1.0, l2=1.0),
        lambda X: cr.PushRanker().fit(X, LABELS),
        lambda X: cr.PushRanker().fit(DENSE, LABELS).decision_function(X),
        lambda X: cr.consensus.Polytopes(X, np.ones((4, 4))),
        lambda X: cr.pagerank(X),
        lambda X: cr.pagerank(cr.Graph.from_edges([0], [3]), personalization=X),
        lambda X: threshold_rankers(X),
    ],
)
def test_every_door_is_guarded(call):
    with pytest.raises(ValueError, match="malformed sparse matrix"):
        call(BAD)


def jumbled(index):
    """The same matrix, entries in disorder, some in two parts, zeros among them; with indices of a width."""
    rows, columns = np.nonzero(DENSE)
    values = DENSE[rows, columns]
    rows, columns = np.r_[rows, rows, 0, 3], np.r_[columns, columns, 1, 0]
    values = np.r_[values - 0.5, np.full(len(values), 0.5), 0.0, 0.0]
    order = np.lexsort((np.random.default_rng(0).random(len(rows)), rows))
    starts = np.searchsorted(rows[order], np.arange(5))
    matrix = sparse.csr_array((4, 4))
    matrix.data, matrix.indices, matrix.indptr = (
        values[order],
        columns[order].astype(index),
        starts.astype(index),
    )
    return matrix


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_disorder_repetitions_and_zeros_change_nothing(index, dtype):
    matrix = jumbled(index)
    before = [part.copy() for part in (matrix.data, matrix.indices, matrix.indptr)]
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", cr.ConvergenceWarning
        )  # single precision does not reach the tolerance
        one, other = (
            cr.problems.PNormPush(X, LABELS, p=3.0, l2=0.1, dtype=dtype).solve() for X in (matrix, DENSE)
        )
    # a gap bounds the distance to the minimiser by strong convexity
    assert np.linalg.norm(one.x - other.x) <= sum(
        math.sqrt(2.0 * solution.gap / 0.1) for solution in (one, other)
    )
    assert all(map(np.array_equal, (matrix.data, matrix.indices, matrix.indptr), before))
    kept = check_matrix(matrix)
    assert np.array_equal(kept.toarray(), DENSE)
    assert kept.has_canonical_format
    # |X| and X∘X go entry by entry, which is wrong where an entry is in two parts
    assert np.array_equal(abs(kept).toarray(), np.abs(DENSE))
    graph = cr.Graph.from_scipy(matrix)
    assert np.array_equal(graph.to_scipy().toarray(), DENSE)


def test_small_integers_are_added_up_as_floats():
    twice = sparse.coo_array((np.array([100, 100], dtype=np.int8), ([0, 0], [0, 0])), shape=(1, 1))
    assert check_matrix(twice).toarray().tolist() == [[200.0]]
    either = sparse.coo_array((np.array([True, True]), ([0, 0], [0, 0])), shape=(1, 1))
    assert check_matrix(either).toarray().tolist() == [[1.0]]


def test_what_lies_behind_the_last_entry_is_left_out():
    matrix = edited("csr", indptr=put(-1, 6))
    wanted = DENSE.copy()
    wanted[3, 3] = 0.0
    assert np.array_equal(check_matrix(matrix).toarray(), wanted)
    assert np.array_equal(cr.Graph.from_scipy(matrix).to_scipy().toarray(), wanted)
    assert len(matrix.data) == 7


def test_sparse_matrices_of_objects_are_refused():
    matrix = sparse.csr_array(DENSE)
    matrix.data = matrix.data.astype(object)
    with pytest.raises(TypeError, match="X holds object values, expected numbers"):
        check_matrix(matrix)


# --- arrays of integers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offsets", "sources", "weights", "words"),
    [
        ([0, 1, 2], [2**32, 0], None, r"sources are not all in 0\.\.1"),
        ([0, 1, 2], np.array([2**32 + 1, 0], dtype=np.uint64), None, r"sources are not all in 0\.\.1"),
        (np.array([0, 2**64 - 1, 2], dtype=np.uint64), [1, 0], None, "offsets do not rise"),
        ([0, 1, 2], [1.7, 0.0], None, "sources holds float64 values, expected integer"),
        ([0.0, 1.0, 2.0], [1, 0], None, "offsets holds float64 values"),
        ([0, 1, 2], [1, 0], [np.nan, 1.0], "weights contains NaN"),
        ([0, 1, 2], [1, 0], [-1.0, 1.0], r"weights\[0\] is -1, expected weights of at least 0"),
        ([[0, 1, 2]], [1, 0], None, r"offsets has shape \(1, 3\)"),
    ],
)
def test_graphs_take_integers_as_they_are(offsets, sources, weights, words):
    with pytest.raises((ValueError, TypeError), match=words):
        cr.Graph(offsets, sources, weights)


def test_one_large_id_does_not_fill_the_memory():
    with pytest.raises(
        ValueError, match=r"target\[0\] is 2000000000, which makes 2000000001 nodes for 1 edges"
    ):
        cr.Graph.from_edges([0], [2_000_000_000])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: QueryGroups.from_sizes([2**63 - 1] * 2), "sizes adds up to 18446744073709551614 rows"),
        (lambda: QueryGroups.from_sizes([2**40]), "at most 2147483647"),
        (lambda: QueryGroups.from_qid([2**70, 1]), "qid has ids beyond 64 bits"),
        (lambda: QueryGroups.from_qid([2**63 + 1, 2**63, -1]), r"floats of 2\*\*53 or more"),
        (
            lambda: QueryGroups(np.array([0, 1]), np.array([0, 500]), np.array([7])),
            "offsets do not rise from 0 to 2",
        ),
        (lambda: QueryGroups(np.array([0, 9]), np.array([0, 2]), np.array([7])), "order lacks the row 1"),
        (lambda: QueryGroups(np.array([0.5, 1]), np.array([0, 2]), np.array([7])), "order holds float64"),
        (lambda: QueryGroups(np.array([0, 1]), np.array([0, 1, 2]), np.array([7])), "expected \\(n,\\)"),
    ],
)
def test_queries_take_integers_as_they_are(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()
