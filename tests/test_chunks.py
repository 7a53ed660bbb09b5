"""Rows out of memory against the same rows in memory: values, gradients, certificates, solutions, and bad data."""

from __future__ import annotations

import threading
import time
import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import convexrank as cr
from convexrank.data import Chunks
from convexrank.data.chunks.reader import read_ahead
from convexrank.data.shards import local
from convexrank.modelling import (
    exp,
    huber,
    log,
    log_mean_exp,
    log_sum_exp,
    maximum,
    mean,
    pair_sums,
    softplus,
    total,
)
from convexrank.problems.out_of_memory import _queries as query_streams
from convexrank.problems.out_of_memory._streams import LogStream, LogSums, Sums
from tests.tolerances import tolerance

ROWS, COLUMNS = 240, 4
P = cr.problems


def drawn(seed=0, rows=ROWS):
    """Features in float32, binary labels, grades, and queries that stand together."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    signal = X @ rng.normal(size=COLUMNS) + rng.normal(size=rows)
    grades = np.clip(np.round(signal), 0, 3)
    grades[:2] = 0.0, 1.0
    return X, (signal > 0.5).astype(int), grades, np.sort(rng.integers(0, 20, size=rows))


def cut(X, y, qid=None, at=(70, 71, 150)):
    """Pieces of these rows."""
    borders = [0, *at, len(X)]
    parts = [slice(a, b) for a, b in pairwise(borders)]
    return [(X[p], y[p]) if qid is None else (X[p], y[p], qid[p]) for p in parts]


# What takes rows out of memory, with which labels, and in how many passes a value and a gradient.
CASES = {
    "p norm": (P.PNormPush, "binary", {"p": 8}, 1),
    "bottom": (P.BottomPush, "binary", {"p": 3}, 1),
    "both ends": (P.TopBottomPush, "binary", {"p": 3, "bottom_weight": 0.5}, 1),
    "top alone": (P.TopBottomPush, "binary", {"p": 2, "bottom_weight": 0.0}, 1),
    "list net": (P.ListNet, "queries", {"normalize": True}, 1),
    "gains": (P.NDCGRegression, "queries", {}, 1),
    "gains, i": (P.NDCGRegression, "queries", {"divergence": "generalized_i"}, 1),
    "svm": (P.RankSVM, "queries", {"loss": "squared_hinge"}, 1),
    "margins": (P.MarginRetargeting, "queries", {"margin": (1.0, 0.5, 2.0), "reward": 0.1}, 1),
    "margins, i": (
        P.MarginRetargeting,
        "queries",
        {"divergence": "generalized_i", "bound": 3.0, "margin": 0.1},
        1,
    ),
    "ir": (P.IRPush, "binary", {}, 2),
    "push": (P.Push, "binary", {"price": "log_one_plus"}, 2),
    "convex risk": (P.ConvexRisk, "graded", {}, 2),
    "learned": (P.LearnedDivergence, "graded", {"strong": 1.0}, 2),
    "learned, smooth": (P.LearnedDivergence, "graded", {"strong": 0.5, "smooth": 3.0}, 2),
}


def both(case, at=(70, 71, 150), l2=0.3, seed=0, **more):
    """The problem in memory and out of it."""
    cls, kind, options, _ = CASES[case]
    X, y, grades, qid = drawn(seed)
    labels = {"binary": (y,), "graded": (grades,), "queries": (grades, qid)}[kind]
    chunks = Chunks(cut(X, *labels, at=at))
    held = [chunks.y, chunks.qid][: len(labels)]
    return cls(X, *labels, l2=l2, **options, **more), cls(chunks, *held, l2=l2, **options, **more)


def close(found, truth, name="pieces"):
    scale = max(1.0, float(np.abs(truth).max()))
    return float(np.abs(np.asarray(found) - np.asarray(truth)).max()) <= tolerance(name) * scale


@pytest.mark.quick
@pytest.mark.parametrize("case", CASES)
def test_value_gradient_and_certificate_are_those_in_memory(case):
    memory, pieces = both(case)
    for seed in range(3):
        w = np.random.default_rng(seed).normal(size=COLUMNS)
        before = pieces.X.passes
        value, gradient = pieces.value_and_gradient(w)
        assert pieces.X.passes - before == CASES[case][3]
        assert close(value, memory.value_and_gradient(w)[0])
        assert close(gradient, memory.value_and_gradient(w)[1])
        assert close(pieces.objective(w), memory.objective(w))
        found, truth = pieces.certificate(w), memory.certificate(w)
        assert (found.kind, found.radius) == (truth.kind, truth.radius)
        assert close(found.gap, truth.gap)
        ours, theirs = pieces._reference_minorant(w), memory._reference_minorant(w)
        assert close(ours.slope, theirs.slope)
        assert close(ours.offset, theirs.offset)
        for error in ("risk_error", "offset_error", "slope_error"):
            # a logarithm that is off moves all shares of a piece, which in memory never happens
            assert 0.99 * getattr(theirs, error) <= getattr(ours, error) <= 10.0 * getattr(theirs, error)


@pytest.mark.parametrize("case", ["p norm", "bottom", "both ends", "top alone"])
def test_a_product_with_the_hessian_takes_one_pass(case):
    memory, pieces = both(case)
    w, v = np.random.default_rng(5).normal(size=(2, COLUMNS))
    truth, before = memory.hessian(w) @ v, pieces.X.passes
    assert close(pieces.hessian_product(w, v), truth)
    assert pieces.X.passes == before + 1
    assert close(memory.hessian_product(w, v), truth)
    # an offset of the features cancels in each piece, and between pieces
    cls, _, options, _ = CASES[case]
    X, y, *_ = drawn()
    shifted = Chunks(cut(X.astype(float) + 1e4, y))
    far = cls(shifted, shifted.y, l2=0.3, **options)
    near = cls(X.astype(np.float64), y, l2=0.3, **options)
    found = np.abs(far.hessian_product(0.1 * w, v) - near.hessian(0.1 * w) @ v).max()
    assert found <= tolerance("offset") * max(1.0, np.abs(truth).max())


@pytest.mark.parametrize("case", CASES)
def test_solutions_are_those_in_memory(case):
    memory, pieces = both(case)
    truth, found = memory.solve("lbfgs", tol=1e-12), pieces.solve(tol=1e-12)
    assert found.status is cr.Status.CONVERGED
    assert found.solver == "lbfgs"
    assert close(found.x, truth.x, "minimiser in pieces")
    assert found.gap <= 1e-12 * max(1.0, abs(found.value))
    # in memory the certificate accepts the point, too
    assert memory.certificate(found.x).gap <= 1e-11 * max(1.0, abs(found.value))


@given(st.lists(st.integers(0, ROWS), max_size=12), st.integers(0, 3), st.sampled_from(sorted(CASES)))
@settings(max_examples=36, deadline=None)
def test_where_pieces_end_makes_no_difference(at, seed, case):
    memory, pieces = both(case, at=sorted(at), seed=seed)
    w = np.random.default_rng(seed).normal(size=COLUMNS)
    assert close(pieces.value_and_gradient(w)[0], memory.value_and_gradient(w)[0])
    assert close(pieces.value_and_gradient(w)[1], memory.value_and_gradient(w)[1])
    assert close(pieces._reference_minorant(w).slope, memory._reference_minorant(w).slope)


@pytest.mark.parametrize("case", ["p norm", "both ends", "ir", "push", "convex risk"])
def test_weights_of_rows(case):
    weights = np.random.default_rng(1).integers(0, 3, size=ROWS).astype(float)
    memory, pieces = both(case, sample_weight=weights)
    w = np.linspace(-1.0, 1.0, COLUMNS)
    assert close(pieces.value_and_gradient(w)[0], memory.value_and_gradient(w)[0])
    assert close(pieces.value_and_gradient(w)[1], memory.value_and_gradient(w)[1])
    assert close(pieces.certificate(w).gap, memory.certificate(w).gap)


def test_scores_that_leave_the_range_of_exponentials():
    memory, pieces = both("p norm")
    for w in (np.full(COLUMNS, 400.0), np.full(COLUMNS, -400.0), np.zeros(COLUMNS)):
        assert close(pieces.value_and_gradient(w)[0], memory.value_and_gradient(w)[0])
        assert close(pieces.value_and_gradient(w)[1], memory.value_and_gradient(w)[1])
    assert not pieces._reference_minorant(np.full(COLUMNS, 1e308)).usable


def test_a_merge_without_weights_is_caught(monkeypatch):
    """Planted: gradients of pieces added up, or averaged, as if their rows weighed alike."""
    memory, pieces = both("p norm")
    w = np.linspace(-1.0, 1.0, COLUMNS)
    truth = memory.value_and_gradient(w)[1]
    for weight in (1.0, 0.5):

        def careless(self, other, weight=weight):
            values, own = np.logaddexp(self.values, other.values), np.full(1, weight)
            return self._weighted(values, own, other, own)

        with monkeypatch.context() as patch:
            patch.setattr(LogSums, "merged", careless)
            assert not close(both("p norm")[1].value_and_gradient(w)[1], truth)
            assert not close(both("p norm")[1]._reference_minorant(w).slope, truth - 0.3 * w)
    assert close(pieces.value_and_gradient(w)[1], truth)


def test_merging_is_associative_and_takes_what_has_no_rows():
    rng = np.random.default_rng(0)
    none = LogSums(np.full(2, -np.inf), np.zeros((2, 3)), np.zeros((2, 3)), 0.0)
    a, b, c = (
        LogSums(rng.normal(size=2) * 40, rng.normal(size=(2, 3)), rng.random((2, 3)), 1.0) for _ in range(3)
    )
    for kind, parts in (
        (LogSums, (a, b, c)),
        (Sums, [Sums(p.values, p.slopes, p.sizes, 1.0) for p in (a, b, c)]),
    ):
        one, two, three = parts
        left, right = one.merged(two).merged(three), one.merged(two.merged(three))
        assert isinstance(left, kind)
        assert close(left.values, right.values)
        assert close(left.slopes, right.slopes)
    for found in (none.merged(a), a.merged(none)):
        np.testing.assert_array_equal(found.slopes, a.slopes)
    assert np.isneginf(none.merged(none).values).all()
    assert not none.merged(none).slopes.any()


def test_queries_that_straddle_pieces_are_joined():
    """And planted: queries that are cut where a piece ends."""
    X, _, grades, qid = drawn()
    inside = int(np.flatnonzero(qid == qid[100])[0]) + 2
    chunks = Chunks(cut(X, grades, qid, at=(inside,)))
    memory, pieces = P.ListNet(X, grades, qid, l2=0.1), P.ListNet(chunks, chunks.y, chunks.qid, l2=0.1)
    assert pieces._stream is not None
    w = np.ones(COLUMNS)
    truth = memory.objective(w)
    assert close(pieces.objective(w), truth)
    broken = np.where(np.arange(ROWS) < inside, qid, qid + 100)
    assert not close(P.ListNet(X, grades, broken, l2=0.1).objective(w), truth)


def test_queries_whose_rows_lie_apart_or_are_long_take_two_passes():
    X, _, grades, qid = drawn()
    mixed = np.random.default_rng(3).permutation(qid)
    for queries in (mixed, np.zeros(ROWS, dtype=int)):
        chunks = Chunks(cut(X, grades, queries, at=range(10, ROWS, 10)))
        pieces = P.ListNet(chunks, chunks.y, chunks.qid, l2=0.1)
        assert pieces._stream is None
        w = np.ones(COLUMNS)
        assert close(pieces.value_and_gradient(w)[1], P.ListNet(X, grades, queries, l2=0.1).gradient(w))


class Ordered(cr.Formulation):
    """A formulation of one's own: pairs within queries, and the highest of the negatives of each."""

    by_count: bool = False

    def risk(self, f):
        pairs = total(pair_sums(cr.losses.SquaredHinge(), f.positive, f.negative))
        whole = pairs + mean(huber(f.rows)) + log_mean_exp(f.negative)
        return whole / f.count if self.by_count else whole


def binary_queries():
    X, y, _, qid = drawn()
    y[np.unique(qid, return_index=True)[1]] = 1 - y[np.unique(qid, return_index=True)[1] + 1]
    return X, y, qid


def test_formulations_of_ones_own_take_one_pass_by_query():
    X, y, qid = binary_queries()
    weights = np.random.default_rng(1).integers(1, 4, size=ROWS)
    chunks = Chunks(cut(X, y, qid))
    memory = Ordered(X, y, qid=qid, sample_weight=weights, l2=0.3)
    pieces = Ordered(chunks, chunks.y, qid=chunks.qid, sample_weight=weights, l2=0.3)
    w = np.ones(COLUMNS)
    before = chunks.passes
    assert close(pieces.value_and_gradient(w)[0], memory.value_and_gradient(w)[0])
    assert chunks.passes == before + 1
    assert close(pieces.value_and_gradient(w)[1], memory.value_and_gradient(w)[1])
    assert close(pieces.certificate(w).gap, memory.certificate(w).gap)
    assert close(pieces.solve(tol=1e-12).x, memory.solve("lbfgs", tol=1e-12).x, "two solvers")


def test_a_risk_that_looks_at_all_queries_takes_two_passes():
    """A part of the queries does not know how many there are: that is seen, and all scores are held."""
    X, y, qid = binary_queries()
    chunks = Chunks(cut(X, y, qid))
    memory = Ordered(X, y, qid=qid, by_count=True, l2=0.3)
    pieces = Ordered(chunks, chunks.y, qid=chunks.qid, by_count=True, l2=0.3)
    assert pieces._stream is None
    w = np.ones(COLUMNS)
    before = chunks.passes
    assert close(pieces.value_and_gradient(w)[1], memory.value_and_gradient(w)[1])
    assert chunks.passes == before + 2


BY_ROW = np.random.default_rng(7).normal(size=ROWS)
# What a part of the rows states otherwise than all rows do: by the number of a row, of rows, and of queries.
PLACED = {
    "constants": lambda f: log_mean_exp(-f.positive) + log_sum_exp(f.negative + BY_ROW[f.negative.axis.rows]),
    "weights": lambda f: (
        log_mean_exp(-f.positive) + log_sum_exp(f.negative, np.exp(BY_ROW)[f.negative.axis.rows])
    ),
    "weights of a mean": lambda f: (
        log_mean_exp(-f.positive, 2.0 + f.positive.axis.rows % 2 * 1.0) + log_sum_exp(f.negative)
    ),
    "sizes": lambda f: log_mean_exp(-f.positive) + log_sum_exp(f.negative) / len(f.positive.axis.rows),
    "levels": lambda f: log_mean_exp(f.rows + f.grades.mean()) + log_mean_exp(-f.positive),
    "printed": lambda f: log(mean(exp(4.0 * f.negative))) + log_mean_exp(-f.positive),  # no mean of no rows
    "grades": lambda f: log_mean_exp(f.rows + f.grades) + log_mean_exp(-f.rows),
    "infimum": lambda f: maximum(f.rows + BY_ROW[f.rows.axis.rows]) - mean(f.rows),
    "numbers of queries": lambda f: mean(softplus(f.negative - mean(f.positive))) * np.arange(f.count),
    "constants by query": lambda f: mean(softplus(f.negative + BY_ROW[f.negative.axis.rows])),
}


class Placed(cr.Formulation):
    """A risk of a name, in queries or in one."""

    name: str = ""

    def risk(self, f):
        return PLACED[self.name](f)


@pytest.mark.parametrize("name", PLACED)
def test_what_a_part_states_otherwise_is_stated_of_all_rows(name):
    X, y, qid = binary_queries()
    qid, y = qid if "quer" in name else None, y + np.arange(ROWS) % 2 if name == "grades" else y
    chunks = Chunks(cut(X, y, qid))
    memory, pieces = (
        Placed(X, y, name, qid=qid, l2=0.3),
        Placed(chunks, chunks.y, name, qid=chunks.qid, l2=0.3),
    )
    assert pieces._stream is None
    w = np.linspace(-1.0, 1.0, COLUMNS)
    assert close(pieces.objective(w), memory.objective(w))
    assert close(pieces.solve().value, memory.solve().value, "two solvers")
    assert pieces.certificate(w).lower_bound <= memory.solve().value
    assert pieces._risk_infimum == pytest.approx(memory._risk_infimum)


def test_factors_that_only_a_piece_has_are_refused(monkeypatch):
    """Some of very many rows tell whether all pieces are alike; what these do not tell is no wrong number."""
    monkeypatch.setattr(LogStream, "is_sum", lambda self: True)
    monkeypatch.setitem(PLACED, "factors", lambda f: log_sum_exp(len(f.rows.axis.rows) * f.rows))
    X, y, *_ = drawn()
    chunks = Chunks(cut(X, y))
    with pytest.raises(TypeError, match="factors of the risk depend on the rows"):
        Placed(chunks, chunks.y, "factors", l2=0.3).objective(np.zeros(COLUMNS))


def test_grades_of_a_part_are_its_labels():
    X, y, *_ = drawn()
    chunks = Chunks(cut(X, 1.0 - 3.0 * y))
    memory, pieces = (
        Placed(rows, labels, "grades", l2=0.3) for rows, labels in ((X, 1.0 - 3.0 * y), (chunks, chunks.y))
    )
    assert pieces._stream is not None
    w = np.linspace(-1.0, 1.0, COLUMNS)
    assert close(pieces.objective(w), memory.objective(w))


def test_a_wrong_slope_of_a_piece_widens_the_gap(monkeypatch):
    """What certificates of pieces rest on is the conjugate at multipliers: planted are others."""
    _, pieces = both("gains")
    w = pieces.solve().x
    right = pieces.certificate(w).gap

    class Planted(query_streams.Reference):
        def below(self, scores):
            other = super().below(0.5 * scores - 1.0)
            return super().below(scores)._replace(slopes=other.slopes, offset=other.offset)

    monkeypatch.setattr(query_streams, "Reference", Planted)
    assert both("gains")[1].certificate(w).gap > 10.0 * right + 1e-3


@pytest.mark.parametrize("kind", [P.TopPush, P.RmaxPush, P.SpectralPush, P.PartialAUC])
def test_maxima_out_of_memory_are_solved_by_tangents(kind):
    X, y, *_ = drawn()
    # at 0.3 PartialAUC takes 118 steps, at 0.4 it takes 13
    l2 = 0.4 if kind is P.PartialAUC else 0.3
    memory, pieces = kind(X, y, l2=l2), kind(Chunks(cut(X, y)), y, l2=l2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # of the trivial minimum
        found = pieces.solve(tol=1e-6)
        truth = memory.solve(tol=1e-8)
    assert found.solver == "bundle"
    assert abs(found.value - truth.value) <= found.gap + truth.gap


def test_hinges_in_pieces_are_solved_by_tangents():
    X, _, grades, qid = drawn()
    chunks = Chunks(cut(X, grades, qid))
    memory, pieces = P.RankSVM(X, grades, qid, l2=1.0), P.RankSVM(chunks, chunks.y, chunks.qid, l2=1.0)
    found = pieces.solve()
    assert found.solver == "bundle"
    assert found.converged
    assert close(found.value, memory.solve().value, "two solvers")


def test_what_does_not_decompose_refuses_and_says_what_does():
    X, y, *_ = drawn()
    chunks = Chunks(cut(X, y))
    taken = set()
    for cls in cr.problems.REGISTRY.values():
        if not issubclass(cls, _linear()):
            continue
        for seed in range(12):
            problem = cls.random(seed)
            if problem._takes_chunks:
                taken.add(cls.__name__)
            elif seed == 0 or cls.__name__ in ("Push", "ConvexRisk"):
                small = Chunks([(problem.X, np.zeros(problem.rows))])
                with pytest.raises(TypeError, match=r"does not decompose over pieces.*PNormPush"):
                    problem.changed(X=small)
    # what is declared, and no more than the cases that are tested here
    declared = {name for name, cls in cr.problems.REGISTRY.items() if issubclass(cls, cr.Formulation)}
    assert taken == declared | {cls.__name__ for cls, *_ in CASES.values()}
    with pytest.raises(ValueError, match="both l1 and l2 are 0"):
        P.PNormPush(chunks, chunks.y, p=2)
    problem = P.PNormPush(chunks, chunks.y, p=2, l2=0.1)
    for call in (problem.to_cvxpy, lambda: chunks.toarray()):
        with pytest.raises(TypeError, match="out of memory"):
            call()
    with pytest.raises(cr.CertificateError, match="out of memory"):
        problem.prove(np.zeros(COLUMNS))
    with pytest.raises(ValueError, match="lacks Exact"):
        problem.solve("exact")
    with pytest.raises(ValueError, match="1 class"):
        P.PNormPush(chunks, np.ones(ROWS), p=2, l2=0.1)


def _linear():
    from convexrank.problems._linear_scores import LinearScores

    return LinearScores


def test_l1_is_solved_by_proximal_steps():
    memory, pieces = both("p norm", l2=0.1, l1=0.02)
    found = pieces.solve()
    assert found.solver == "accelerated"
    assert memory.certificate(found.x).gap <= 1e-7
    assert both("gains", l2=0.0, l1=0.02)[1].solve().converged


def test_a_sample_of_tall_data_is_solved_first():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 40)).astype(np.float32)
    y = X[:, 0] + rng.normal(size=len(X)) > 1.0
    chunks = Chunks.from_arrays(X, y)
    problem = P.PNormPush(chunks, chunks.y, p=4, l2=1e-3)
    sample = problem._sample()
    assert sample is not None
    assert isinstance(sample.problem.X, np.ndarray)
    before = chunks.passes
    assert problem.solve().converged
    assert chunks.passes - before <= 12


@pytest.mark.parametrize("cls", [P.ListNet, P.MarginRetargeting])
def test_a_sample_of_many_queries_is_solved_first(cls, monkeypatch):
    monkeypatch.setattr(query_streams, "_TALL", 10_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 12)) @ rng.normal(size=(12, 12))
    grades = np.clip(np.round(X[:, 0] / 4 + rng.normal(size=len(X))), 0, 2)
    qid = np.arange(len(X)) // 20
    chunks = Chunks.from_arrays(X, grades, qid)
    problem = cls(chunks, chunks.y, chunks.qid, l2=0.1)
    sample = problem._sample()
    assert sample is not None
    assert sample.factor == pytest.approx(problem.groups.rows / sample.problem.groups.rows)
    # its objective and Hessian are about those of all queries
    w = np.full(12, 0.01)
    assert sample.second_order(w)[0] == pytest.approx(problem.objective(w), rel=0.1)
    whole = cls(X, grades, qid, l2=0.1).hessian(w)
    share = np.trace(sample.second_order(w)[2]) / np.trace(whole)
    assert 0.8 < share < 1.25
    before = chunks.passes
    assert problem.solve().converged
    with_sample, before = chunks.passes - before, chunks.passes
    assert problem.solve(cr.solvers.LBFGS(sample=False)).converged
    assert with_sample < 0.75 * (chunks.passes - before)
    assert cls(X, grades, qid, l2=0.1)._sample() is None


# --- where pieces come from ------------------------------------------------------------------------------------------


def sources(folder):
    """The same rows from everywhere."""
    X, _, grades, qid = drawn()
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", grades)
    np.save(folder / "qid.npy", qid)
    for number, part in enumerate((slice(0, 100), slice(100, ROWS))):
        np.savez(folder / f"{number}.npz", X=X[part], y=grades[part], qid=qid[part])
    lines = [
        f"{grade:g} qid:{query} " + " ".join(f"{j + 1}:{value!r}" for j, value in enumerate(row.tolist()))
        for row, grade, query in zip(X, grades, qid, strict=True)
    ]
    (folder / "letor.txt").write_text("# rows\n" + "\n".join(lines[:90]) + "\n\n")
    (folder / "letor2.txt").write_text("\n".join(lines[90:]))
    letor = [folder / "letor.txt", folder / "letor2.txt"]
    npy = [str(folder / name) for name in ("X.npy", "y.npy", "qid.npy")]
    return {
        "arrays": Chunks.from_arrays(X, grades, qid, rows_per_piece=7),
        "memory map": Chunks.from_arrays(
            np.load(npy[0], mmap_mode="r"), grades.tolist(), qid, rows_per_piece=50
        ),
        "sparse array": Chunks.from_arrays(sparse.csr_array(X), grades, qid, rows_per_piece=50),
        "npy": Chunks.from_files(*npy, rows_per_piece=33),
        "npz": Chunks.from_files([folder / "0.npz", folder / "1.npz"], rows_per_piece=64),
        "letor": Chunks.from_letor(letor, rows_per_piece=17),
        "letor, sparse": Chunks.from_letor(letor, COLUMNS, sparse=True, rows_per_piece=50),
        "a list": Chunks([*cut(X, grades, qid), (X[:0], grades[:0], qid[:0])]),
    }


def test_all_sources_give_the_same_rows(tmp_path):
    X, _, grades, qid = drawn()
    w, u = np.ones(COLUMNS), np.linspace(0.0, 1.0, ROWS)
    exact = X.astype(np.float64)
    for name, chunks in sources(tmp_path).items():
        assert chunks.shape == (ROWS, COLUMNS), name
        np.testing.assert_array_equal(chunks.y, grades)
        np.testing.assert_array_equal(chunks.qid, qid)
        assert close(chunks @ w, exact @ w), name
        assert close(chunks.T @ u, exact.T @ u), name
        assert close(chunks.row_lengths(), np.linalg.norm(exact, axis=1)), name
        assert close(chunks.longest, np.linalg.norm(exact, axis=1).max()), name
        assert close(chunks.mean_squares, (exact**2).mean(axis=0)), name
        for rows in (slice(None, None, 50), np.array([200, 3, -3, 77]), exact[:, 0] > 0, [5]):
            some = chunks[rows]
            assert close(some.toarray() if sparse.issparse(some) else some, exact[rows]), name
        assert chunks.sparse == ("sparse" in name)
        assert chunks[[]].shape == (0, COLUMNS)
        with pytest.raises(IndexError, match="row 240"):
            chunks[[3, 240]]


def test_dense_rows_of_pieces_some_of_which_are_sparse():
    X, y, *_ = drawn()
    chunks = Chunks([(X[:9], y[:9]), (sparse.csr_array(X[9:20]), y[9:20]), (X[20:], y[20:])])
    for places in ([0, 30], [21, 8, 12, 8], [10]):
        assert np.array_equal(chunks[places].toarray(), X[places])


def test_a_parquet_column_of_texts_is_refused_unread(tmp_path, monkeypatch):
    """A text that a thousand rows share is stored once, and takes room in each of them."""
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    kinds = {
        "text": ["a"],
        "lists": [[1]],
        "category": arrow.array(["a"]).dictionary_encode(),
        "void": [None],
    }
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", None)
    for name, values in kinds.items():
        parquet.write_table(arrow.table({"a": [1.0], name: values, "y": [1]}), tmp_path / "x.parquet")
        with pytest.raises(ValueError, match=f"column '{name}' of .* values, expected numbers"):
            Chunks.from_parquet(tmp_path / "x.parquet", "y")


def test_parquet_columns_of_numbers_of_all_kinds(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "flag": [True, False],
        "small": arrow.array([3, 4], arrow.int8()),
        "single": np.float32([0.5, 2]),
    }
    columns["coded"] = arrow.array([7, 8]).dictionary_encode()
    parquet.write_table(arrow.table({**columns, "y": [0, 1]}), tmp_path / "x.parquet")
    assert Chunks.from_parquet(tmp_path / "x.parquet", "y")[:].tolist() == [[1, 3, 0.5, 7], [0, 4, 2, 8]]
    parquet.write_table(arrow.table({"a": [True, None], "y": [0, 1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"column 'a' of .* holds bool values"):
        Chunks.from_parquet(tmp_path / "x.parquet", "y")


def test_row_numbers_of_pandas_are_no_feature(tmp_path):
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    pandas.DataFrame({"x": [1.0, 2.0], "y": [0, 1]}, index=[7, 9]).to_parquet(tmp_path / "x.parquet")
    assert Chunks.from_parquet(tmp_path / "x.parquet", "y")[:].tolist() == [[1.0], [2.0]]
    assert Chunks.from_parquet(tmp_path / "x.parquet", "y", columns=["__index_level_0__"]).shape == (2, 1)
    twice = arrow.Table.from_arrays([arrow.array([0, 1])] * 3, names=["x", "x", "y"])
    parquet.write_table(twice, tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"has several columns 'x'; it has 'x', 'x', 'y'"):
        Chunks.from_parquet(tmp_path / "x.parquet", "y")


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet files need pyarrow, the extra arrow")
    from pyarrow import parquet

    X, _, grades, qid = drawn()
    columns = {f"f{j}": X[:, j] for j in range(COLUMNS)}
    table = pyarrow.table({"grade": grades, **columns, "query": qid, "name": ["a"] * ROWS})
    for number, part in enumerate((table.slice(0, 90), table.slice(90))):
        parquet.write_table(part, tmp_path / f"part-{number}.parquet", row_group_size=40)
    names = [f"f{j}" for j in range(COLUMNS)]
    chunks = Chunks.from_parquet(tmp_path, "grade", "query", names, rows_per_piece=50)
    memory = P.ListNet(X, grades, qid, l2=0.1)
    pieces = P.ListNet(chunks, chunks.y, chunks.qid, l2=0.1)
    assert close(pieces.gradient(np.ones(COLUMNS)), memory.gradient(np.ones(COLUMNS)))
    with pytest.raises(ValueError, match=r"column 'name' of .*part-0.parquet holds string values"):
        Chunks.from_parquet(tmp_path, "grade", "query")
    with pytest.raises(ValueError, match="has no column 'clicks'"):
        Chunks.from_parquet(tmp_path / "part-0.parquet", "clicks")
    absent = pyarrow.table({"y": [0, 1], "f": [1.0, None]})
    parquet.write_table(absent, tmp_path / "absent.parquet")
    with pytest.raises(ValueError, match=r"absent.parquet.*NaN.*row 1 of the file"):
        Chunks.from_parquet(tmp_path / "absent.parquet", "y")
    parquet.write_table(table.select(["grade", "f0"]), tmp_path / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-0.parquet has other columns than .*part-2"):
        Chunks.from_parquet([tmp_path / "part-2.parquet", tmp_path / "part-0.parquet"], "grade")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="folder without files"):
        Chunks.from_parquet(tmp_path / "empty", "y")


def test_svmlight_without_queries(tmp_path):
    (tmp_path / "rows.txt").write_text("1 1:0.5 3:2 # a\n-1 2:1\n\n# b\n1\n")
    chunks = Chunks.from_letor(tmp_path / "rows.txt", queries=False, rows_per_piece=2)
    assert chunks.qid is None
    assert chunks.y.tolist() == [1, -1, 1]
    assert chunks[:].tolist() == [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match=r"rows.txt, line 1: the second word is '1:0.5'"):
        Chunks.from_letor(tmp_path / "rows.txt")


# --- bad data --------------------------------------------------------------------------------------------------------


def test_bad_pieces_are_refused_with_their_number_file_and_row(tmp_path):
    X, y, *_ = drawn()
    with pytest.raises(ValueError, match="X of piece 1 has 3 columns, expected 4"):
        Chunks([(X[:9], y[:9]), (X[9:, :3], y[9:])])
    spoiled = X.copy()
    spoiled[173, 2] = np.nan
    np.save(tmp_path / "X.npy", spoiled)
    np.save(tmp_path / "y.npy", y)
    with pytest.raises(
        ValueError, match=r"piece 17 \(.*X.npy, from row 170 on\) contains NaN.*row 173 of the file"
    ):
        Chunks.from_files(tmp_path / "X.npy", tmp_path / "y.npy", rows_per_piece=10)
    scattered = sparse.csr_array(np.diag([1.0, np.inf]))
    with pytest.raises(ValueError, match=r"infinity.*row 1 of its source"):
        Chunks([(scattered, [0, 1])])
    with pytest.raises(ValueError, match="y of piece 1 has shape"):
        Chunks([(X[:9], y[:9]), (X[9:], y[:9])])
    with pytest.raises(ValueError, match="some pieces have qid"):
        Chunks([(X[:9], y[:9]), (X[9:], y[9:], y[9:])])
    with pytest.raises(ValueError, match="pieces have no rows"):
        Chunks([(X[:0], y[:0])])
    with pytest.raises((ValueError, TypeError), match=r"X of piece 1 holds .*expected numbers"):
        Chunks([(X[:2], y[:2]), (np.array([["a"] * COLUMNS] * 2), y[:2])])
    with pytest.raises(ValueError, match="complex"):
        Chunks([(X * 1j, y)])
    with pytest.raises(ValueError, match="overflow"):
        Chunks([(X.astype(float) * 1e200, y)])
    with pytest.raises(TypeError, match=r"pieces\[0\] is of type ndarray, expected a tuple"):
        Chunks([X])
    for given_, words in ((X, "from_arrays"), (3, "expected a list"), (iter([(X, y)]), "an iterator")):
        with pytest.raises(TypeError, match=words):
            Chunks(given_)
    with pytest.raises(ValueError, match="X of piece 0 is a masked array with masked entries"):
        Chunks([(np.ma.masked_equal(X, X[0, 0]), y)])
    for flat in (X[0], None, 3.0):
        with pytest.raises(ValueError, match="Expected 2D array for X of piece 0"):
            Chunks([(flat, y)])
    np.savez(tmp_path / "cut.npz", X=X, y=y)
    whole = (tmp_path / "cut.npz").read_bytes()
    for damaged in (whole[:-40], whole[:300] + bytes(20) + whole[320:]):
        (tmp_path / "cut.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"cut.npz cannot be read as a file of numpy"):
            Chunks.from_files(tmp_path / "cut.npz")
    (tmp_path / "archive.npy").write_bytes(whole)
    with pytest.raises(ValueError, match=r"archive.npy cannot be read .*an archive, whose name ends in .npz"):
        Chunks.from_files(tmp_path / "archive.npy")
    np.savez(tmp_path / "other.npz", features=X)
    with pytest.raises(ValueError, match="has the arrays"):
        Chunks.from_files(tmp_path / "other.npz")
    for name, entries in (("y", y[0]), ("y", np.append(y, y)), ("qid", np.zeros(len(y) + 1))):
        np.savez(tmp_path / "longer.npz", **({"X": X, "y": y} | {name: entries}))
        with pytest.raises(ValueError, match=rf"{name} in .*longer.npz has shape .*expected \(240,\)"):
            Chunks.from_files(tmp_path / "longer.npz")
    np.savez(tmp_path / "objects.npz", X=X, y=np.where(y, "yes", "no").astype(object))
    with pytest.raises(ValueError, match=r"y in .*objects.npz cannot be read \(Object arrays"):
        Chunks.from_files(tmp_path / "objects.npz")
    (tmp_path / "text.npy").write_text("hello")
    with pytest.raises(ValueError, match="cannot be read as a file of numpy"):
        Chunks.from_files(tmp_path / "text.npy")
    with pytest.raises(ValueError, match=r"y is given, but X names files .npz"):
        Chunks.from_files(tmp_path / "other.npz", tmp_path / "y.npy")
    with pytest.raises(ValueError, match="y has 2 files, expected 1"):
        Chunks.from_files(tmp_path / "X.npy", [tmp_path / "y.npy"] * 2)
    with pytest.raises(ValueError, match=r"y has shape \(3,\), expected \(240,\)"):
        Chunks.from_arrays(X, y[:3])
    with pytest.raises(ValueError, match="rows_per_piece is 0"):
        Chunks.from_arrays(X, y, rows_per_piece=0)


def test_data_that_change_between_passes_are_noticed(tmp_path):
    X, y, *_ = drawn()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    chunks = Chunks.from_files(tmp_path / "X.npy", tmp_path / "y.npy", rows_per_piece=50)
    problem = P.PNormPush(chunks, chunks.y, p=2, l2=0.1)
    problem.objective(np.ones(COLUMNS))
    np.save(tmp_path / "X.npy", X + 1)
    with pytest.raises(ValueError, match=r"X.npy has changed since"):
        problem.objective(np.zeros(COLUMNS))
    edited = X.copy()
    chunks = Chunks.from_arrays(edited, y, rows_per_piece=50)
    edited[120, 1] += 1.0
    with pytest.raises(ValueError, match="piece 2 has changed"):
        _ = chunks @ np.ones(COLUMNS)
    pieces = cut(X, y)
    for change in (pieces[:-1], [*pieces, pieces[0]], [pieces[0], *pieces]):
        held = list(pieces)
        chunks = Chunks(held)
        held[:] = change
        with pytest.raises(ValueError, match=r"changed|there are \d pieces"):
            _ = chunks @ np.ones(COLUMNS)


class Interrupted:
    """Pieces during which Ctrl-C is pressed in a later pass."""

    def __init__(self, pieces, error):
        self.pieces, self.error, self.passes = pieces, error, 0

    def __iter__(self):
        self.passes += 1
        for number, piece in enumerate(self.pieces):
            if self.passes == 4 and number == 1:
                raise self.error
            yield piece


def test_what_goes_wrong_in_the_reader_reaches_the_caller():
    X, y, *_ = drawn()
    chunks = Chunks(Interrupted(cut(X, y), OSError("the disk is gone")))
    with pytest.raises(OSError, match="the disk is gone"):
        P.PNormPush(chunks, chunks.y, p=2, l2=0.1).solve()
    chunks = Chunks(Interrupted(cut(X, y), KeyboardInterrupt()))
    with pytest.warns(cr.ConvergenceWarning):
        solution = P.PNormPush(chunks, chunks.y, p=2, l2=0.1).solve()
    assert solution.status is cr.Status.INTERRUPTED
    assert np.isfinite(solution.value)
    assert threads() == []


def threads():
    """Reading threads that are alive, after those that end have had the time to."""
    for _ in range(50):
        alive = [one for one in threading.enumerate() if one.name == "convexrank-chunks"]
        if not alive:
            break
        time.sleep(0.02)
    return alive


def test_the_reader_reads_one_ahead_and_ends_when_nobody_reads():
    made = []

    def numbers():
        for number in range(1000):
            made.append(number)
            yield number

    reader = read_ahead(numbers)
    assert [next(reader) for _ in range(3)] == [0, 1, 2]
    time.sleep(0.05)
    assert len(made) <= 6
    reader.close()
    assert threads() == []
    assert list(read_ahead(lambda: iter(range(5)))) == list(range(5))


def test_a_thread_reads_files_and_not_arrays_in_memory(tmp_path):
    X = drawn()[0]
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    views = {True: (X, X[::2], X.T.copy().T), False: (mapped, mapped[::2], np.asarray(mapped))}
    for in_memory, arrays in views.items():
        for held in arrays:
            chunks = Chunks.from_arrays(held, np.zeros(len(held)), rows_per_piece=7)
            pieces = chunks.pieces()
            next(pieces)
            alive = [one for one in threading.enumerate() if one.name == "convexrank-chunks"]
            assert bool(alive) != in_memory
            pieces.close()
            assert threads() == []


def test_a_deadline_ends_a_pass():
    X, y, *_ = drawn()

    class Slow(list):
        def __iter__(self):
            for piece in super().__iter__():
                time.sleep(0.03)
                yield piece

    chunks = Chunks(Slow(cut(X, y)))
    start = time.perf_counter()
    with pytest.warns(cr.ConvergenceWarning, match="TIME_LIMIT"):
        P.PNormPush(chunks, chunks.y, p=64, l2=1e-6).solve(time_limit=0.2)
    assert time.perf_counter() - start < 3.0


# --- memory, estimators ----------------------------------------------------------------------------------------------


def test_an_evaluation_holds_a_few_pieces(tmp_path):
    rows, columns = 60_000, 50
    X = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (rows, columns))
    X[:] = np.random.default_rng(0).normal(size=(rows, columns))
    X.flush()
    y = np.asarray(X[:, 0] > 1.0)
    chunks = Chunks.from_arrays(np.load(tmp_path / "X.npy", mmap_mode="r"), y, rows_per_piece=1000)
    problem = P.PNormPush(chunks, chunks.y, p=4, l2=1e-2)
    w = np.full(columns, 0.1)
    problem.value_and_gradient(w)
    tracemalloc.start()
    problem.value_and_gradient(w + 1.0)
    problem.certificate(w)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    piece = 8 * 1000 * columns
    assert peak < 8 * piece < 0.2 * 8 * rows * columns


def test_a_solve_holds_a_few_bytes_for_each_row():
    rows = 200_000
    X = np.random.default_rng(0).normal(size=(rows, 2)).astype(np.float32)
    chunks = Chunks.from_arrays(X, X[:, 0] > 1.0, rows_per_piece=4000)
    problem = P.PNormPush(chunks, chunks.y, p=4, l2=1e-2)
    P.PNormPush(X[:999], X[:999, 0] > 1.0, p=4, l2=1.0).solve("lbfgs")  # imports what is needed
    tracemalloc.start()
    assert problem.changed(p=8.0).solve(tol=1e-4).converged
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * rows  # labels, copies of them, and pieces: less than one number for each row


@pytest.mark.parametrize("labels", ["numbers", "words"])
def test_push_ranker_takes_pieces(labels):
    X, y, *_ = drawn()
    y = np.where(y, "yes", "no") if labels == "words" else y
    chunks = Chunks(cut(X, y))
    options = {"tol": 1e-12}
    ours = cr.PushRanker(**options).fit(chunks, chunks.y)
    theirs = cr.PushRanker(solver="lbfgs", **options).fit(X, y)
    assert close(ours.coef_, theirs.coef_, "minimiser in pieces")
    assert close(ours.predict(chunks), theirs.predict(X), "minimiser in pieces")
    assert ours.score(chunks, chunks.y) == theirs.score(X, y)
    assert ours.n_features_in_ == COLUMNS
    assert close(ours.predict(X), theirs.predict(X), "minimiser in pieces")
    with pytest.raises(ValueError, match="X has 4 columns, expected 3"):
        cr.PushRanker().fit(X[:, :3], y).predict(chunks)
    with pytest.raises(TypeError, match="features='linear'"):
        cr.PushRanker(features="thresholds").fit(chunks, chunks.y)
    with pytest.raises(TypeError, match="no folds are made"):
        cr.PushRankerCV().fit(chunks, chunks.y)


def test_retargeting_ranker_takes_pieces():
    X, _, grades, qid = drawn()
    chunks = Chunks(cut(X, grades, qid))
    ours = cr.RetargetingRanker(tol=1e-12).fit(chunks, chunks.y, chunks.qid)
    theirs = cr.RetargetingRanker(solver="lbfgs", tol=1e-12).fit(X, grades, qid)
    assert close(ours.coef_, theirs.coef_, "minimiser in pieces")
    assert ours.score(chunks, chunks.y, chunks.qid) == theirs.score(X, grades, qid)
    with pytest.raises(ValueError, match="sample_weight is given"):
        cr.RetargetingRanker().fit(chunks, chunks.y, chunks.qid, np.ones(ROWS))


def test_one_process_agrees_with_itself_for_nothing(monkeypatch):
    """What differs between processes is told by checksums of all labels, which are not made for one."""

    def refuse(*arguments):
        raise AssertionError("a checksum was made")

    monkeypatch.setattr(local, "_checksum", refuse)
    assert both("p norm")[1].solve().converged
