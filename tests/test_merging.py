"""Rows that are merged far from kinks: nowhere above the risk of all, equal where they began, and solves with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.core.results import Witness
from convexrank.modelling.kernels.highest import border_of
from convexrank.modelling.smoothing.merging import (
    ALONE,
    LEFT_OUT,
    groups_of_low_rows,
    groups_of_rows,
    numbered,
)
from convexrank.problems import _formulation
from convexrank.problems._formulation import merged_rows
from convexrank.problems._smoothed_weights import _some
from convexrank.solvers.descent import continuation
from tests.tolerances import tolerance

P = cr.problems
SUMS = tolerance("summation")
MAKERS = {
    "TopPush": lambda X, y, **k: P.TopPush(X, y, **k),
    "RmaxPush hinge": lambda X, y, **k: P.RmaxPush(X, y, "hinge", **k),
    "RmaxPush squared": lambda X, y, **k: P.RmaxPush(X, y, "squared_hinge", **k),
    "SpectralPush share": lambda X, y, **k: P.SpectralPush(X, y, ("top", 0.1), "hinge", **k),
    "SpectralPush count": lambda X, y, **k: P.SpectralPush(X, y, ("top", 7), "logistic", **k),
    "SpectralPush array": lambda X, y, **k: P.SpectralPush(X, y, [0.1, 0.2, 0.3, 0.4], "hinge", **k),
    "PartialAUC hinge": lambda X, y, **k: P.PartialAUC(X, y, 0.1, "hinge", **k),
    "PartialAUC squared": lambda X, y, **k: P.PartialAUC(X, y, 0.1, "squared_hinge", **k),
}


def drawn(n=12_000, d=4, seed=0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    signal = X @ rng.normal(size=d) / np.sqrt(d) + noise * rng.normal(size=n)
    return X, (signal > np.quantile(signal, 0.8)).astype(int)


@pytest.fixture
def by_steps(monkeypatch):
    """Minima at w = 0 are not told beforehand, so that there are rounds."""
    monkeypatch.setattr(continuation, "minimum_at_zero", lambda problem: None)


def directions(d, seed=1, count=6):
    return np.random.default_rng(seed).normal(size=(count, d))


def queries_of(y, count):
    """Lists of several lengths, of which the last one has no negative; None for one list."""
    query = np.random.default_rng(5).choice(
        count, size=len(y), p=np.arange(1.0, count + 1.0) * 2 / count / (count + 1)
    )
    query[np.flatnonzero(y)[:3]] = count
    return query if count > 1 else None


@pytest.mark.parametrize("name", list(MAKERS))
@pytest.mark.parametrize(("weighted", "count"), [(False, 1), (True, 1), (False, 3), (True, 3)])
def test_merged_rows_are_nowhere_above_and_equal_where_they_began(name, weighted, count):
    X, y = drawn()
    weights = np.random.default_rng(2).integers(0, 3, size=len(y)).astype(float) if weighted else None
    problem, points = (
        MAKERS[name](X, y, l2=0.1, sample_weight=weights, qid=queries_of(y, count)),
        directions(4),
    )
    first, sides = problem._merged(points[0], 0.02, None)
    assert first.rows < 0.75 * problem.rows
    assert first.objective(points[0]) == pytest.approx(problem.objective(points[0]), rel=SUMS)
    below = [problem.objective(w) - first.objective(w) for w in points]
    assert min(below) >= -SUMS
    assert max(below) > SUMS  # elsewhere it is another function
    # with the sides at two points it is equal at both
    second, _ = problem._merged(points[1], 0.02, sides)
    for w in points[:2]:
        assert second.objective(w) == pytest.approx(problem.objective(w), rel=SUMS)


@pytest.mark.parametrize(
    "name",
    ["RmaxPush hinge", "SpectralPush share", "SpectralPush array", "PartialAUC hinge", "PartialAUC squared"],
)
def test_rows_merged_with_those_of_another_list_are_told(name):
    """The planted bug: all rows are one list, so that groups mix those of several ones."""
    X, y = drawn()
    problem, w = MAKERS[name](X, y, l2=0.1, qid=queries_of(y, 3)), directions(4)[0]
    whole = MAKERS[name](X, y, l2=0.1)
    vars(problem)["_lists"] = whole._lists
    first, _ = problem._merged(w, 0.02, None)
    assert abs(first.objective(w) - problem.objective(w)) > 1e3 * SUMS


@pytest.mark.parametrize("name", ["PartialAUC hinge", "PartialAUC squared"])
@pytest.mark.parametrize("weighted", [False, True])
def test_low_rows_are_merged_where_the_highest_sums_count(name, weighted):
    """The negatives that count stand alone, where rounds began, and each positive that is not beyond all of them."""
    X, y = drawn()
    weights = np.random.default_rng(2).integers(0, 3, size=len(y)).astype(float) if weighted else None
    problem, points = MAKERS[name](X, y, l2=0.1, sample_weight=weights), directions(4)
    first, sides = problem._merged(points[0], 0.02, None)
    assert first.rows < 0.4 * problem.rows
    weights = np.ones(len(y)) if weights is None else weights
    assert first.sample_weight @ first.y == pytest.approx(weights @ y)
    positives = np.count_nonzero(weights * y)
    assert (first.y.sum() < positives) if name == "PartialAUC hinge" else (first.y.sum() == positives)
    assert first.objective(points[0]) == pytest.approx(problem.objective(points[0]), rel=SUMS)
    below = [problem.objective(w) - first.objective(w) for w in points]
    assert min(below) >= -SUMS
    assert max(below) > SUMS
    second, _ = problem._merged(points[1], 0.02, sides)
    for w in points[:2]:
        assert second.objective(w) == pytest.approx(problem.objective(w), rel=SUMS)
    assert problem._merged(points[0], 0.5, None) is None  # nothing would be gained


def test_rows_merged_across_a_kink_are_told():
    """The planted bug: groups that mix two sides change the risk where they began."""
    X, y = drawn()
    problem, w = MAKERS["SpectralPush share"](X, y, l2=0.1), directions(4)[0]
    groups, _ = groups_of_rows(problem.program, X @ w, 0.02)
    mixed = np.where(groups >= 0, y, groups)  # all positives, and all negatives
    values = []
    for some in (groups, mixed):
        rows, first, weights = merged_rows(X, some, None)
        values.append(problem.changed(X=rows, y=y[first], sample_weight=weights).objective(w))
    assert values[0] == pytest.approx(problem.objective(w), rel=SUMS)
    assert values[1] < problem.objective(w) - SUMS


def test_rows_are_merged_by_their_weights_sparse_rows_too():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(9, 2)), np.array([4, ALONE, 4, 7, LEFT_OUT, 7, 7, ALONE, 4])
    weights = np.arange(1.0, 10.0)
    found, first, whole = merged_rows(X, groups, weights)
    truth = [X[1], X[7]]
    for number in (4, 7):
        mine = groups == number
        truth.append(sum(w * x for w, x in zip(weights[mine], X[mine], strict=True)) / weights[mine].sum())
    np.testing.assert_allclose(found, truth, rtol=SUMS)
    assert groups[first].tolist() == [ALONE, ALONE, 4, 7]
    assert whole.tolist() == [2.0, 8.0, 13.0, 17.0]
    np.testing.assert_allclose(
        merged_rows(sparse.csr_array(X), groups, weights)[0].toarray(), truth, rtol=SUMS
    )


def test_a_heavy_row_stands_for_itself_where_some_stand_for_all():
    weights = np.r_[np.ones(9_999), 5e4]
    places, found = _some(weights, 500)
    assert len(places) <= 501
    assert found[places == 9_999] == 5e4
    assert found.sum() == pytest.approx(weights.sum())
    same, as_given = _some(weights, 10_000)
    np.testing.assert_array_equal(weights[same], as_given)


@pytest.mark.parametrize("period", [1, 2, 7, 50])
def test_rows_that_tell_of_others_stand_for_all_whatever_their_order(period):
    """Every so many-th row has a weight, which a fixed step through the rows may never meet."""
    weights, used = np.zeros(70_000), np.arange(period // 2, 70_000, period)
    weights[used] = 1.0 + np.random.default_rng(0).random(len(used))
    weights[used[[5, 9]]] = 1e3
    places, found = _some(weights, 500)
    assert len(np.unique(places)) == len(places)
    assert 400 < len(places) < 800
    assert np.isin(used[[5, 9]], places).all()
    assert abs(found.sum() - weights.sum()) <= 1e-12 * weights.sum()
    x = np.arange(70_000.0)
    assert abs(found @ x[places] - weights @ x) <= 0.05 * (weights @ x)
    assert np.array_equal(_some(weights, 35_000)[0], used)


def test_numbers_are_places_among_the_different_ones():
    x = np.random.default_rng(0).integers(0, 50, size=30)
    places, count = numbered(x)
    truth, inverse = np.unique(x, return_inverse=True)
    assert count == len(truth)
    assert places.tolist() == inverse.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_the_border_of_weighted_rows_is_that_of_a_walk_from_the_top(seed):
    rng = np.random.default_rng(seed)
    n = 500
    X, y = np.round(rng.normal(size=(n, 1)), seed % 3), np.r_[1, np.zeros(n - 1)]
    several, nearly_all = [0.3, 0.69, 0.01], [0.004, 0.992, 0.004]
    weights = rng.choice([0.5, 1.0, 40.0], p=several if seed % 2 else nearly_all, size=n)
    problem = P.SpectralPush(X, y, ("top", float(rng.uniform(0.01, 0.99))), l2=0.1, sample_weight=weights)
    node = next(node for node in problem.program.nodes if hasattr(node, "masses"))
    x, left = X[1:, 0], float(node.masses[0])
    for k in np.argsort(-x):
        left -= weights[1 + k]
        if left <= 0.0:
            break
    assert border_of(node, x)[0] == x[k]


@pytest.mark.filterwarnings(
    "ignore::convexrank.core.results.ConvergenceWarning"
)  # of some w = 0 is the minimum
@pytest.mark.parametrize(("name", "count"), [(name, (1, 3)[place % 2]) for place, name in enumerate(MAKERS)])
def test_a_solve_with_merged_rows_ends_where_one_with_all_does(name, count, by_steps, monkeypatch):
    X, y = drawn(n=8_000, noise=0.2)
    query = queries_of(y, count)
    plain = MAKERS[name](X, y, l2=0.01, qid=query)
    assert "Mergeable" not in plain.capabilities
    truth = plain.solve("continuation")
    monkeypatch.setattr(_formulation, "_MANY", 1_000)
    monkeypatch.setattr(_formulation, "_FIRST", 800)
    monkeypatch.setattr(_formulation, "_TOLD", 20.0)
    problem = MAKERS[name](X, y, l2=0.01, qid=query)
    assert "Mergeable" in problem.capabilities
    found = problem.solve("continuation")
    assert found.converged
    assert truth.converged
    assert abs(found.value - truth.value) <= found.gap + truth.gap
    assert found.iterations < truth.iterations


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # w = 0 may be the minimum
@pytest.mark.parametrize(
    ("name", "beside_zero"),
    [("TopPush", False), ("TopPush", True), ("SpectralPush share", False), ("PartialAUC squared", True)],
)
def test_of_many_lists_some_tell_where_to_begin(name, beside_zero, monkeypatch):
    X, y = drawn(n=8_000, noise=2.0 if beside_zero else 0.2)
    query = np.random.default_rng(4).permutation(len(y)) // 20
    plain = MAKERS[name](X, y, l2=10.0, qid=query)
    assert "Mergeable" not in plain.capabilities
    truth = plain.solve("continuation")
    for constant, number in {"_MANY": 1_000, "_FIRST": 800, "_MANY_LISTS": 200}.items():
        monkeypatch.setattr(_formulation, constant, number)
    problem = MAKERS[name](X, y, l2=10.0, qid=query)
    first = problem._first_rows()[0]
    assert first.rows < 0.2 * problem.rows
    assert first.l2 / problem.l2 == pytest.approx(first._form.count / problem._form.count, rel=SUMS)
    found = problem.solve("continuation")
    assert found.converged
    assert abs(found.value - truth.value) <= found.gap + truth.gap
    assert found.iterations <= truth.iterations


@pytest.mark.parametrize("queries", [1, 3])
def test_rows_with_grades_are_drawn_from_all_of_a_list(queries, monkeypatch):
    """A risk of one's own that does not ask for two classes."""

    class Spread(cr.Formulation):
        def risk(self, f):
            from convexrank.modelling import hinge, mean, mean_of_highest

            return mean_of_highest(f.rows, 10) + mean(hinge(-f.rows))

    X, _ = drawn(n=4_000)
    grades, query = np.round(X[:, 0]), np.arange(len(X)) % queries
    truth = Spread(X + 1.0, grades, qid=query, l2=0.1).solve()
    for constant, number in {"_MANY": 1_000, "_FIRST": 500}.items():
        monkeypatch.setattr(_formulation, constant, number)
    problem = Spread(X + 1.0, grades, qid=query, l2=0.1)
    assert "Mergeable" in problem.capabilities
    found = problem.solve()
    assert found.converged
    assert abs(found.value - truth.value) <= found.gap + truth.gap + SUMS


@pytest.mark.parametrize("kind", ["two grades", "grades", "rare grades", "constants of rows"])
def test_other_risks_of_many_lists_are_solved_too(kind, monkeypatch):
    """Some lists of grades tell where to begin; with constants of rows, or a grade that few lists have, none do."""
    X, y = drawn(n=4_000)
    grades = {"grades": y + (X[:, 0] > 1.0), "rare grades": y + 2 * (np.arange(len(y)) == 2_019)}.get(kind, y)
    query = np.arange(len(y)) // 8

    class Margins(cr.Formulation):
        def risk(self, f):
            from convexrank.modelling import hinge, maximum, mean

            bounds = np.linspace(0.0, 1.0, len(f.positive.axis.rows))
            return mean(hinge(maximum(f.negative) - f.positive + bounds))

    if kind == "constants of rows":
        problem = Margins(X, grades, qid=query, l2=1.0)
    else:
        problem = P.RankSVM(X, grades, query, l2=1.0)
    truth = problem.solve("continuation")
    for constant, number in {"_MANY": 1_000, "_FIRST": 500, "_MANY_LISTS": 100}.items():
        monkeypatch.setattr(_formulation, constant, number)
    again = problem.changed(l2=1.0)
    begins = "Mergeable" in again.capabilities and bool(again._smoothable().first())
    assert begins == (kind in ("two grades", "grades"))
    found = again.solve("continuation")
    assert found.converged
    assert abs(found.value - truth.value) <= found.gap + truth.gap


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # w = 0 is the minimum
def test_rounds_at_a_trivial_minimum_go_on_from_where_rows_differ(by_steps, monkeypatch):
    """The planted bug: rounds that begin at the limit w = 0, where no row is the highest."""
    X, y = drawn(n=60_000, d=10, noise=1.0)
    problem = P.SpectralPush(X, y, ("top", 50), "hinge", l2=1e-3)
    assert "Mergeable" in problem.capabilities
    found = problem.solve("continuation")
    assert found.converged
    assert problem.objective(np.zeros(10)) - found.value <= found.gap
    monkeypatch.setattr(continuation, "_BESIDE", np.inf)
    assert problem.solve("continuation").iterations > found.iterations


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # w = 0 is the minimum
def test_rounds_look_at_the_point_that_has_the_bound(by_steps, monkeypatch):
    """The planted bug: the last point is looked at, whose own bound may be far lower."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60_000, 20))
    signal = X @ rng.normal(size=20) / np.sqrt(20.0) + 0.3 * rng.normal(size=len(X))
    y = (signal > np.quantile(signal, 0.9)).astype(int)
    problem = P.SpectralPush(X, y, ("top", 0.05), "hinge", l2=1e-3)
    alone = cr.solvers.Continuation(hand_over=False)
    found = problem.solve(alone)
    assert found.converged
    whole = continuation.looked
    monkeypatch.setattr(
        continuation,
        "looked",
        lambda problem, state, enough: whole(problem, replace(state, witness=None), enough),
    )
    assert problem.solve(alone).iterations > found.iterations


def test_queries_grades_and_constants_of_rows_are_not_merged():
    X, y = drawn(n=400)
    w, query = directions(4)[0], np.arange(400) % 3
    assert groups_of_rows(P.RmaxPush(X, y, qid=query, l2=0.1).program, X @ w, 0.1) is None
    assert groups_of_rows(P.RankSVM(X, y, np.zeros(400), l2=0.1).program, X @ w, 0.1) is None

    class Margins(cr.Formulation):
        def risk(self, f):
            from convexrank.modelling import hinge, maximum, mean

            return mean(hinge(maximum(f.negative) - f.positive + np.linspace(0.0, 1.0, int(y.sum()))))

    assert groups_of_rows(Margins(X, y, l2=0.1).program, X @ w, 0.1) is None


def test_kinks_of_many_rows_with_grades_are_solved_with_all_rows(monkeypatch):
    """Rows that cannot be merged are no reason to draw some of them by class, of which grades have more than two."""
    X, _ = drawn(n=300)
    grades = np.round(X[:, 0] + np.random.default_rng(1).normal(size=300))
    truth = P.ConvexRisk(X, grades, "hinge", l2=0.1).solve()
    monkeypatch.setattr(_formulation, "_MANY", 100)
    problem = P.ConvexRisk(X, grades, "hinge", l2=0.1)
    assert "Mergeable" not in problem.capabilities
    found = problem.solve()
    assert found.converged
    assert abs(found.value - truth.value) <= found.gap + truth.gap


def test_a_certificate_with_evidence_at_its_point_evaluates_it_once(monkeypatch):
    """What the risk is there, and what a smooth function proves there, begin with the same reference."""
    X, y = drawn()
    problem, points = cr.problems.PartialAUC(X, y, 0.1, "hinge", l2=0.1), []
    solution = problem.solve()
    evaluated = type(problem)._evaluated_reference
    monkeypatch.setattr(
        type(problem), "_evaluated_reference", lambda self, w: points.append(w) or evaluated(self, w)
    )
    own = Witness(solution.x[None], np.ones(1), np.array([1e-3]))
    other = Witness(solution.x[None] + 0.1, np.ones(1), np.array([1e-3]))
    fresh = problem.changed(l2=0.1)
    found, loose = fresh.certificate(solution.x, own), fresh.certificate(solution.x, other)
    assert len(points) == 2
    assert found.value == loose.value
    assert found.gap < loose.gap
    # evidence elsewhere is not taken for that at the point
    assert fresh.certificate(solution.x + 0.1, other).gap == pytest.approx(
        problem.changed(l2=0.1).certificate(solution.x + 0.1, other).gap
    )


def test_rows_that_are_not_merged_begin_with_some_all_the_same(monkeypatch):
    """Grades of real numbers: the minimiser of some rows is near that of all."""
    monkeypatch.setattr(_formulation, "_MANY", 150)
    monkeypatch.setattr(_formulation, "_FIRST", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    problem = cr.problems.ConvexRisk(X, X[:, 0] + rng.normal(size=200), "hinge", l2=1e-3)
    assert "Mergeable" not in problem.capabilities
    assert [part.rows for part in problem._smoothable().first()] == [100]
    begun, exact = cr.solvers.Continuation().init(problem, problem.start()), problem.solve("exact")
    assert begun.value - exact.value < 0.1 * (problem.objective(problem.start()) - exact.value)
    assert begun.value == pytest.approx(problem.objective(begun.x), rel=tolerance("summation"))
    # what some rows prove is not proved about all
    assert begun.value - begun.residual <= exact.value + exact.gap
    found = problem.solve("continuation")
    assert found.converged
    assert abs(found.value - exact.value) <= found.gap + exact.gap


def test_rows_with_constants_of_their_own_do_not_begin_with_some(monkeypatch):
    """Some rows would have the constants of others: the planted bug asks for those of all."""
    from convexrank.modelling import hinge, mean, pair_sums

    X, y = drawn(n=600)
    bounds = np.linspace(0.0, 1.0, 600)

    class Bounds(cr.Formulation):
        def risk(self, f):
            return mean(hinge(f.rows + bounds)) + mean(pair_sums(cr.losses.Hinge(), -f.rows, -f.positive))

    problem = Bounds(X, y, l2=1.0)
    monkeypatch.setattr(_formulation, "_MANY", 500)
    monkeypatch.setattr(_formulation, "_FIRST", 100)
    assert not problem._smoothable().first()
    assert problem.solve("continuation").converged
    monkeypatch.setattr(_formulation, "alike_by_query", lambda form: True)
    with pytest.raises(ValueError, match="600"):
        problem.solve("continuation")


def rows_with_heavy_tails() -> P.TopPush:
    rng = np.random.default_rng(1)
    X = rng.standard_t(2.0, size=(60_000, 20))
    signal = X @ rng.normal(size=20) / np.sqrt(20.0) + 0.3 * rng.normal(size=len(X))
    return P.TopPush(X, (signal > np.quantile(signal, 0.9)).astype(int), l2=1e-5)


def test_long_rows_whose_scores_move_far_stand_alone(monkeypatch):
    rounds = rows_with_heavy_tails().solve("continuation").iterations
    monkeypatch.setattr(P.TopPush, "_movements", property(lambda self: np.ones(self.rows)))
    assert rounds < rows_with_heavy_tails().solve("continuation").iterations


@pytest.mark.parametrize("factor", [0.0, 1e-150, 1e100])
def test_rows_of_any_length_are_merged(factor):
    X, y = drawn(n=8_000)
    X[::3] *= factor
    problem = P.TopPush(X, y, l2=0.1)
    assert 0.0 < problem._movements.min() <= problem._movements.max() == 1.0
    assert problem._merged(np.ones(X.shape[1]), 0.02, None) is not None


@pytest.mark.parametrize("name", ["TopPush", "PartialAUC hinge"])
def test_rows_whose_scores_move_far_are_near_a_kink(name):
    X, y = drawn(n=8_000)
    program = MAKERS[name](X, y, l2=0.1).program
    scores = X @ np.random.default_rng(2).normal(size=X.shape[1])
    groups_of = groups_of_low_rows if name == "PartialAUC hinge" else groups_of_rows
    low = np.flatnonzero((y == 0) & (scores < np.quantile(scores[y == 0], 0.02)))
    lengths = np.ones(len(X))
    lengths[low] = 1e6
    assert not (groups_of(program, scores, 0.02)[0][low] == ALONE).any()
    assert (groups_of(program, scores, 0.02, None, lengths)[0][low] == ALONE).all()


def test_a_round_after_one_that_was_far_off_begins_at_no_smaller_width(monkeypatch):
    """Where long rows were merged, their mean hides which of them is the highest."""
    monkeypatch.setattr(P.TopPush, "_movements", property(lambda self: np.ones(self.rows)))
    problem = rows_with_heavy_tails()
    merged, widths, begun = [], [], continuation.begun
    whole = type(problem)._merged

    def noted(self, *given):
        merged.append(whole(self, *given))
        return merged[-1]

    def counted(part, w, width, *rest):
        if merged and part is merged[-1][0]:
            widths.append(width)
        return begun(part, w, width, *rest)

    monkeypatch.setattr(type(problem), "_merged", noted)
    monkeypatch.setattr(continuation, "begun", counted)
    solution = problem.solve("continuation")
    assert solution.converged
    assert len(widths) > 1
    assert widths[1] >= widths[0]
