"""What objects keep of their arguments: numbers as they were checked, and arrays that nobody can write to."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import math
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank import divergences, losses, prices, regularizers, solvers
from convexrank.core.capabilities import has_objective
from convexrank.links import Link
from convexrank.problems import REGISTRY
from convexrank.projections import bounded_increments, isotonic, permutahedron
from tests.tolerances import tolerance

EVERY = pytest.mark.parametrize("name", list(REGISTRY))
X = np.array([[1.0, 0.5], [2.0, -1.0], [1.5, 0.0], [0.0, 2.0], [0.3, 0.3], [1.0, 1.0]])
Y = np.array([1, 1, 0, 0, 1, 0])

# Every object with numbers, of another kind for each, all equal to numbers that a float holds.
MADE = [
    lambda q: prices.Power(q(3)),
    lambda q: prices.ExpPrice(q(3)),
    lambda q: losses.Logistic(q(3)),
    lambda q: regularizers.L2(q(3)),
    lambda q: regularizers.L1(q(3)),
    lambda q: regularizers.L2Ball(q(3)),
    lambda q: regularizers.L1Ball(q(3)),
    lambda q: regularizers.Simplex(q(3)),
    lambda q: regularizers.Box(q(-3), q(3)),
    lambda q: regularizers.Penalty(q(3), q(3)),
    lambda q: divergences.GeneralizedI(shift=q(3)),
    lambda q: Link([0.0, 1.0], [0.0, 1.0], strong=q(0.5), smooth=q(3)),
    lambda q: solvers.Gradient(q(3), q(3)),
    lambda q: solvers.UnitStep(q(3)),
    lambda q: solvers.Slisotron(q(3)),
    lambda q: solvers.ParallelProjections(q(0.5)),
    lambda q: solvers.NoRegretPlay("gradient", rate=q(3)),
    lambda q: cr.problems.PNormPush(X, Y, p=q(3), l2=q(3), l1=q(0)),
    lambda q: cr.problems.BottomPush(X, Y, p=q(3)),
    lambda q: cr.problems.TopBottomPush(X, Y, p=q(3), bottom_weight=q(3)),
    lambda q: cr.problems.ConvexRisk(X, Y, l2_ball=q(3)),
    lambda q: cr.problems.ConvexRisk(X, Y, l1_ball=q(3)),
    lambda q: cr.problems.LearnedDivergence(X, Y, strong=q(0.5), smooth=q(3)),
    lambda q: cr.problems.KernelLearnedDivergence(X @ X.T, Y, strong=q(0.5), smooth=q(3), l2=q(3)),
    lambda q: cr.problems.RealizableLink(X, Y, radius=q(3), strong=q(0.5), smooth=q(3)),
    lambda q: cr.problems.RankCosine(X, Y, smoothing=q(0.5)),
    lambda q: cr.problems.MarginRetargeting(X, Y, margin=q(0.5), target_reg=q(0.5), score_reg=q(3)),
]
KINDS = {
    "a fraction": Fraction,
    "a decimal": lambda number: Decimal(str(number)),
    "a long double": np.longdouble,
    "single precision": np.float32,
    "an array without a dimension": np.array,
    "an integer of numpy": lambda number: np.int64(number) if number == int(number) else np.float64(number),
}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("place", range(len(MADE)))
def test_numbers_of_any_kind_become_floats(kind, place):
    one, other = MADE[place](KINDS[kind]), MADE[place](float)
    found = [field for field in dataclasses.fields(one) if str(field.type) in ("float", "float | None")]
    assert found
    for field in found:
        held = getattr(one, field.name)
        assert type(held) in (float, type(None)), f"{type(one).__name__}.{field.name} is {held!r}"
        assert held == getattr(other, field.name)


@EVERY
def test_problems_keep_floats(name):
    """A registered problem is made anew, each number of it a fraction."""
    problem = REGISTRY[name].random(3)
    arguments = {
        field.name: getattr(problem, field.name) for field in dataclasses.fields(problem) if field.init
    }
    for field in dataclasses.fields(problem):
        given = arguments.get(field.name)
        if str(field.type) in ("float", "float | None") and type(given) is float and math.isfinite(given):
            made = type(problem)(**{**arguments, field.name: Fraction(given)})
            assert type(getattr(made, field.name)) is float, field.name
            assert getattr(made, field.name) == given


def test_flags_of_numpy_become_pythons():
    problem = cr.problems.MarginRetargeting(X, Y, normalize=np.bool_(False))
    assert problem.normalize is False


def test_integers_of_numpy_become_pythons():
    made = solvers.MultiStart(np.int64(3), np.uint8(4)), solvers.GaussSeidel(np.int32(2), np.int64(1))
    assert [type(number) for one in made for number in dataclasses.astuple(one)[:2]] == [int] * 4


def test_powers_that_are_floats_are_multiplied_as_before():
    r = np.array([0.0, 0.5, 3.0])
    for p in (2, 3, 16):
        assert np.array_equal(prices.Power(p).g(r), prices.Power(float(p)).g(r))
        assert np.abs(prices.Power(p).g(r) - r**p).max() <= 1e-15 * 3.0**p


# --- extreme numbers -------------------------------------------------------------------------------------------------

EXTREMES = [1e308, 1e301, 5e-324, 1e-310]


@pytest.mark.parametrize("size", EXTREMES)
def test_extreme_weights_are_refused(size):
    for call in (
        lambda w: isotonic([3.0, 1.0, 2.0], weights=w),
        lambda w: bounded_increments([3.0, 1.0, 2.0], -1.0, 1.0, weights=w),
        lambda w: cr.problems.PNormPush(X[:3], Y[1:4], p=2.0, sample_weight=w),
        lambda w: cr.problems.ConvexRisk(X[:3], Y[1:4], sample_weight=w),
        lambda w: cr.PushRanker().fit(X[:3], Y[1:4], sample_weight=w),
    ):
        for weights in ([size] * 3, [1.0, size, 1.0]):
            with pytest.raises(
                ValueError, match=r"weights? has weights from .* divide them by a common factor"
            ):
                call(weights)


@pytest.mark.parametrize("size", [1e295, 1e150, 1e-150, 1e-299])
def test_large_and_small_weights_are_right(size):
    """A common factor changes nothing."""
    wanted = isotonic([3.0, 1.0, 2.0], weights=[1.0, 2.0, 3.0])
    assert np.abs(isotonic([3.0, 1.0, 2.0], weights=[size, 2 * size, 3 * size]) - wanted).max() <= 1e-15
    steps = bounded_increments([3.0, 1.0, 2.0], -1.0, 1.0, weights=[1.0, 2.0, 3.0])
    found = bounded_increments([3.0, 1.0, 2.0], -1.0, 1.0, weights=[size, 2 * size, 3 * size])
    assert np.abs(found - steps).max() <= 1e-14
    one, other = (
        cr.problems.PNormPush(X, Y, p=2.0, l2=1.0, sample_weight=np.arange(1.0, 7.0) * factor).solve()
        for factor in (1.0, size)
    )
    assert abs(one.value - other.value) <= one.gap + other.gap + 1e-14


def test_values_whose_sums_are_beyond_floats_are_refused():
    for call in (
        lambda: isotonic([1.7e308, 1.6e308]),
        lambda: bounded_increments([1.7e308, -1.7e308, 1.0], -1.0, 1.0),
        lambda: permutahedron([3.0, 1.0, 2.0], [1e308, 1e308, -1e308]),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with pytest.raises(ValueError, match="beyond floats, expected smaller ones; divide all numbers"):
                call()


@pytest.mark.parametrize("place", [(0, 0), (slice(0, 2), 1)])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_features_whose_products_overflow_are_refused(kind, place):
    large = X.copy()
    large[place] = np.resize([1e308, -1e308], np.shape(large[place]))  # their sum is 0
    for call in (lambda X: cr.problems.PNormPush(X, Y, 2.0), lambda X: cr.PushRanker().fit(X, Y)):
        with pytest.raises(ValueError, match=r"X has an entry of size 1e\+308, whose products overflow"):
            call(kind(large))


def test_a_feature_that_no_float_holds_is_refused_when_scores_are_asked_for():
    fitted = cr.PushRanker().fit(X, Y)
    with pytest.raises(ValueError, match=r"^X: int too large"):
        fitted.decision_function([[10**400, *X[0, 1:]]])


@pytest.mark.parametrize("divergence", ["squared", "generalized_i"])
@pytest.mark.parametrize("size", [1e308, 1e-308])
def test_normal_vectors_of_any_length_give_the_same_hyperplane(divergence, size):
    """Products with them overflowed, or were lost."""
    y, a = [1.0, 2.0], np.array([1.0, 0.5])
    for project in (divergences.project_hyperplane, divergences.project_halfspace):
        expected = project(divergence, y, a, 0.75)
        assert project(divergence, y, size * a, size * 0.75) == pytest.approx(
            expected, rel=tolerance("summation")
        )


def test_solvers_keep_their_parameters_as_they_were_checked():
    made = cr.solvers.Newton(sufficient_decrease=Fraction(1, 8))  # type: ignore[arg-type]
    assert isinstance(made.sufficient_decrease, float)
    for name, solver in cr.solvers.REGISTRY.items():
        for field in dataclasses.fields(solver):
            if isinstance(field.default, int) and not isinstance(field.default, bool):
                kept = getattr(solver(**{field.name: np.int64(field.default)}), field.name)
                assert type(kept) is int, f"{name}.{field.name}"


@pytest.mark.parametrize("size", EXTREMES)
def test_extreme_parameters_are_refused(size):
    grades, queries = [0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1]
    for call in (
        lambda: cr.PushRanker(price=size).fit(X, Y),
        lambda: cr.PushRanker(p=size).fit(X, Y),
        lambda: cr.PushRanker(l2=size).fit(X, Y),
        lambda: cr.OnlineMEMR(sigma=size).fit(X, grades, queries),
        lambda: cr.OnlineMEMR(radius=size).fit(X, grades, queries),
        lambda: cr.problems.MarginRetargeting(X, grades, queries, target_reg=size),
        lambda: cr.problems.LearnedDivergence(X, Y, smooth=size),
    ):
        with pytest.raises(ValueError, match="expected a number from 1e-300 to"):
            call()


def test_an_estimator_has_no_weights_that_are_nan():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        with pytest.raises(ValueError, match="no point with a finite objective was found"):
            cr.PushRanker(price=1e200).fit(X, Y)


# --- arrays ---------------------------------------------------------------------------------------------------------


def arrays_of(problem):
    """All arrays that a problem holds, given or derived, public or not; sparse ones in parts."""
    for name in dir(type(problem)):
        if not name.startswith("__"):
            with contextlib.suppress(ValueError, NotImplementedError, AttributeError):
                getattr(problem, name)  # what is derived when it is asked for, and kept
    for name, value in vars(problem).items():
        parts = [value.data, value.indices, value.indptr] if sparse.issparse(value) else [value]
        for part in parts if not isinstance(value, tuple) else value:
            if isinstance(part, np.ndarray):
                yield name, part


def used(problem):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        problem.solve(max_iter=3)
    return problem


def dtypes_when_used(problem):
    """Precisions of all arrays after a solve, none of which can be written to."""
    found = dict(arrays_of(used(problem)))
    for attribute, array in found.items():
        assert not array.flags.writeable, attribute
    return {
        key: array.dtype for key, array in found.items() if key != "_last_scores"
    }  # kept from an evaluation


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@EVERY
def test_copies_are_read_only_and_in_the_callers_precision(name, dtype):
    """Derived arrays, which a solve leaves behind, are not carried along: JAX reads them back in its own precision."""
    problem = REGISTRY[name].random(5)
    if dtype == "float32":
        if "dtype" not in {field.name for field in dataclasses.fields(problem)}:
            pytest.skip(f"{name} has no dtype")
        problem = dataclasses.replace(problem, dtype=dtype)
    wanted, point = dtypes_when_used(problem), problem.start()
    for other in (copy.copy(problem), copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        assert dtypes_when_used(other) == wanted
        if has_objective(problem):
            assert other.objective(point) == problem.objective(point)


def test_the_flags_of_the_callers_arrays_stay():
    given = [np.array(X), np.array(Y, dtype=float), np.arange(1.0, 7.0)]
    matrix = sparse.csr_array(X)
    for features in (given[0], matrix):
        problem = cr.problems.ConvexRisk(features, given[1], sample_weight=given[2], l2=0.1)
        problem.solve(max_iter=1000)
    parts = [*given, matrix.data, matrix.indices, matrix.indptr]
    assert all(part.flags.writeable for part in parts)
    assert np.shares_memory(cr.problems.ConvexRisk(given[0], given[1]).X, given[0]), "X is not copied"


def test_vectors_are_copied():
    y, weights = np.array(Y, dtype=float), np.arange(1.0, 7.0)
    problem = cr.problems.ConvexRisk(X, y, sample_weight=weights)
    before = problem.objective([1.0, 1.0])
    y[:], weights[:] = 7.0, 0.0
    assert problem.objective([1.0, 1.0]) == before
    assert problem.y.tolist() == Y.tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda X: cr.problems.PNormPush(X, Y, p=2.0, l2=0.1),
        lambda X: cr.problems.RealizableLink(X, Y.astype(float), radius=3.0),
        lambda X: cr.problems.LearnedDivergence(X, Y, strong=1.0, l2=0.1),
    ],
)
@pytest.mark.parametrize("kind", [np.array, sparse.csr_array])
def test_matrices_that_were_edited_are_noticed(make, kind):
    def others():
        for change in (
            lambda v: v.__imul__(2.0),
            lambda v: v.__setitem__(0, v[0] + 1e-9),
            lambda v: v.sort(axis=0),
        ):
            matrix = kind(X)
            yield matrix, (lambda m=matrix, c=change: c(m.data if sparse.issparse(m) else m))

    for matrix, change in others():
        problem = make(matrix)
        problem.solve()
        change()
        with pytest.raises(ValueError, match="X was edited in place after this"):
            problem.solve()
        if hasattr(problem, "penalty"):
            with pytest.raises(ValueError, match="X was edited in place"):
                problem.certificate([0.0, 0.0])


@pytest.mark.parametrize("columns", [1, 2, 16, 64, 4096])
def test_edits_of_a_column_or_of_some_rows_of_a_large_matrix_are_noticed(columns):
    rng = np.random.default_rng(0)
    rows = 3_000_000 // columns
    matrix = rng.random((rows, columns))
    problem = cr.problems.PNormPush(matrix, np.arange(rows) % 2, p=2.0)
    problem._refuse_edited()
    for j in rng.integers(columns, size=5):
        before = matrix[:, j].copy()
        matrix[:, j] += 1.0
        with pytest.raises(ValueError, match="X was edited"):
            problem._refuse_edited()
        matrix[:, j] = before
    matrix[rows // 3 : rows // 3 + rows // 20] = 0.0
    with pytest.raises(ValueError, match="X was edited"):
        problem._refuse_edited()


def test_graphs_and_queries_stay_read_only_in_copies():
    graph = cr.Graph.from_edges([0, 1, 2], [1, 2, 0], [1.0, 2.0, 3.0])
    groups = cr.data.QueryGroups.from_qid([1, 2, 1])
    for one in (graph, groups):
        for other in (one, copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            held = [value for value in vars(other).values() if isinstance(value, np.ndarray)]
            assert len(held) >= 3
            assert not any(value.flags.writeable for value in held)
