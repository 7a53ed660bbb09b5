"""Designs that are never built, against matrices that double loops build."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import convexrank as cr
from convexrank.backend.design import by_columns, extremes, in_units, moments, one_column, stacked
from convexrank.features import Products, Stacked, Thresholds
from convexrank.problems import _linear_scores
from convexrank.problems.margin_retargeting import _base
from convexrank.verification.definitions import takes_designs
from tests.tolerances import tolerance

ENTRIES = st.one_of(st.integers(-2, 3).map(float), st.just(float("nan")))
TABLES = arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 4)), elements=ENTRIES)
EXACT = 1e-12


def varied(X):
    """Whether some column has two values, or one and an absence."""
    return any(len(np.unique(column[~np.isnan(column)])) > 1 or 0 < np.isnan(column).sum() for column in X.T)


def looped(design, X, categories=()):
    """Every column by its definition, entry by entry."""
    columns = []
    for j, levels in enumerate(design.levels):
        for cut in levels.cuts:
            known = [value == cut if j in categories else value > cut for value in X[:, j]]
            columns.append([float(entry) * (levels.direction or 1) for entry in known])
        if levels.missing:
            columns.append(
                [float(np.isnan(value)) * (-1 if levels.direction < 0 else 1) for value in X[:, j]]
            )
    return np.array(columns).T.reshape(len(X), -1)


def agrees(design, matrix, seed=0):
    """Products with vectors, columns, rows, lengths, and products of columns, against the matrix."""
    rng = np.random.default_rng(seed)
    rows, columns = matrix.shape
    assert design.shape == matrix.shape
    assert np.array_equal(design.toarray(), matrix)
    w, u, h = rng.normal(size=columns), rng.normal(size=rows), rng.random(rows)
    np.testing.assert_allclose(design @ w, matrix @ w, atol=EXACT)
    np.testing.assert_allclose(design.T @ u, matrix.T @ u, atol=EXACT)
    np.testing.assert_allclose(design.row_lengths(), np.linalg.norm(matrix, axis=1), atol=EXACT)
    places = np.sort(rng.choice(columns, size=rng.integers(1, columns + 1), replace=False))
    assert np.array_equal(design.columns(places).toarray(), matrix[:, places])
    if (products := design.products(places)) is not None:
        part = matrix[:, places]
        np.testing.assert_allclose(products(h), part.T @ (h[:, None] * part), atol=EXACT)
    picked = rng.integers(rows, size=3)
    assert np.array_equal(design[picked].toarray(), matrix[picked])


@given(X=TABLES, bins=st.sampled_from([None, 1, 2, 4]), data=st.data())
def test_thresholds_are_those_of_a_loop(X, bins, data):
    width = X.shape[1]
    categories = data.draw(st.sets(st.integers(0, width - 1)))
    ordered = sorted(set(range(width)) - categories)
    monotone = {j: data.draw(st.sampled_from([-1, 1])) for j in ordered if data.draw(st.booleans())}
    if not varied(X) and not (categories and not np.isnan(X[:, sorted(categories)]).all()):
        with pytest.raises(ValueError, match="no threshold is left"):
            Thresholds(X, bins, monotone, sorted(categories))
        return
    design = Thresholds(X, bins, monotone, sorted(categories))
    agrees(design, looped(design, X, categories))
    for j, levels in enumerate(design.levels):
        values = np.unique(X[:, j][~np.isnan(X[:, j])])
        if j in categories:
            assert np.array_equal(levels.cuts, values)
        elif bins is None:
            assert np.array_equal(levels.cuts, values[:-1])
        else:
            assert len(levels.cuts) <= bins
            assert set(levels.cuts) <= set(values[:-1])


@given(X=TABLES, bins=st.sampled_from([1, 3]))
def test_products_are_those_of_a_loop(X, bins):
    if sum(len(np.unique(column[~np.isnan(column)])) > 1 for column in X.T) < 2:
        with pytest.raises(ValueError, match="no product is left"):
            Products(X, bins)
        return
    design = Products(X, bins)
    columns = [
        [float(row[j] > a and row[k] > b) for row in X]
        for j, k in zip(design.first, design.second, strict=True)
        for a in design.levels[j].cuts
        for b in design.levels[k].cuts
    ]
    agrees(design, np.array(columns).T)


def table(seed=0, rows=60, missing=True):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, 3)), 1)
    noisy = np.abs(X[:, 0]) - X[:, 1] + 2.0 * rng.normal(size=rows)
    if missing:
        X[rng.integers(rows, size=5), 2] = np.nan
    return X, (noisy > np.median(noisy)).astype(int)


def test_parts_stand_side_by_side():
    X, _ = table(missing=False)
    parts = [X, Thresholds(X, bins=4), Products(X, bins=2)]
    agrees(Stacked(parts), np.hstack([X, parts[1].toarray(), parts[2].toarray()]))
    falling = Thresholds(X, bins=2, monotone={1: -1})
    assert np.array_equal(
        np.flatnonzero(Stacked([X, falling]).nonnegative), 3 + np.flatnonzero(falling.nonnegative)
    )


@pytest.mark.parametrize("kind", ["thresholds", "monotone", "products", "stacked"])
def test_a_problem_over_a_design_is_the_problem_over_its_matrix(kind):
    X, y = table()
    design = {
        "thresholds": lambda: Thresholds(X),
        "monotone": lambda: Thresholds(X, monotone={"x1": -1, 0: 1}),
        "products": lambda: Products(X, bins=5),
        "stacked": lambda: Stacked([np.nan_to_num(X), Thresholds(X, bins=5), Products(X, bins=3)]),
    }[kind]()
    problem = cr.problems.PNormPush(design, y, p=4, l1=0.12)
    solution, exact = problem.solve(tol=1e-10), problem.solve("exact", tol=1e-6)
    assert solution.solver == "working-sets"
    assert solution.certificate.kind == "global"
    assert abs(solution.value - exact.value) <= solution.gap + exact.gap
    if kind != "monotone":
        same = cr.problems.PNormPush(design.toarray(), y, p=4, l1=0.12)
        assert same.objective(solution.x) == pytest.approx(solution.value, rel=1e-12)
        assert solution.value - same.solve("accelerated", tol=1e-9).value <= 1e-9
    else:
        assert (solution.x[design.nonnegative] >= 0).all()
        rising, falling, _ = design.values_of_levels(solution.x)
        assert (np.diff(rising) >= 0).all()
        assert (np.diff(falling[:-1] if design.levels[1].missing else falling) <= 0).all()
        assert np.ptp(falling) > 0


def test_new_rows_have_the_scores_of_the_old_ones_that_they_equal():
    X, y = table()
    design = Thresholds(X, categories=["x1"])
    problem = cr.problems.PNormPush(design, y, p=2, l1=0.1)
    w = problem.solve().x
    np.testing.assert_allclose(design.transform(X[::-1]) @ w, (design @ w)[::-1], atol=EXACT)
    strange = np.array([[99.0, 123.0, np.nan]])
    tables = design.values_of_levels(w)
    # above all thresholds, a category that never occurred, and an absent value
    expected = tables[0][-1] + 0.0 + tables[2][-1]
    np.testing.assert_allclose(design.transform(strange) @ w, [expected], atol=EXACT)


def test_the_total_variation_is_the_l1_norm():
    X, y = table(missing=False)
    design = Thresholds(X)
    w = cr.problems.PNormPush(design, y, p=2, l1=0.1).solve().x
    variation = sum(np.abs(np.diff(values)).sum() for values in design.values_of_levels(w))
    assert variation == pytest.approx(np.abs(w).sum(), rel=1e-12)


def test_a_planted_bug_in_the_search_for_columns_is_noticed():
    """A design that hides its best columns does not get a certificate for them."""

    class Blind(Thresholds):
        def most_violating(self, violations, count):
            return super().most_violating(np.where(np.arange(len(violations)) % 2, violations, 0.0), count)

    X, y = table()
    problem = cr.problems.PNormPush(Blind(X), y, p=4, l1=0.1)
    with pytest.warns(cr.ConvergenceWarning):
        solution = problem.solve()
    best = cr.problems.PNormPush(Thresholds(X), y, p=4, l1=0.1).solve()
    assert not solution.converged
    assert solution.gap >= solution.value - best.value > 1e-6


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda X: Thresholds(X, monotone={"age": 1}),
            ValueError,
            "monotone names 'age', which is no column",
        ),
        (lambda X: Thresholds(X, monotone={3: 1}), ValueError, "monotone names column 3, but there are 3"),
        (lambda X: Thresholds(X, monotone={0: 2}), ValueError, "monotone"),
        (lambda X: Thresholds(X, monotone=[0]), TypeError, "expected a dictionary"),
        (lambda X: Thresholds(X, monotone={0: 1}, categories=[0]), ValueError, "have no order"),
        (lambda X: Thresholds(X, bins=0), ValueError, "bins is 0"),
        (lambda X: Thresholds(X[:, 0]), ValueError, "expected \\(n, d\\)"),
        (lambda X: Thresholds(np.ones((4, 2))), ValueError, "every feature is constant"),
        (lambda X: Thresholds(np.where(X > 1, np.inf, X)), ValueError, "infinite entry"),
        (lambda X: Thresholds([["a"]]), TypeError, "not real numbers"),
        (lambda X: Thresholds(X).transform(X[:, :2]), ValueError, "expected 3, as when the levels were made"),
        (lambda X: Thresholds(X[:, :2]).transform(X[:, 1:]), ValueError, "column x1 has NaN in row"),
        (lambda X: Products(X, pairs=[(0, 0)]), ValueError, "two different features"),
        (lambda X: Products(X, pairs=[(0, 1, 2)]), TypeError, "pairs of features such as"),
        (lambda X: Products(X[:, :1]), ValueError, "no product is left"),
        (
            lambda X: Products(np.random.default_rng(0).random((9000, 2)), bins=8000),
            ValueError,
            "at most 50000000",
        ),
        (lambda X: Stacked([]), ValueError, "parts is empty"),
        (lambda X: Stacked([X[:4, :2], X[:5, :2]]), ValueError, "expected the same number in each"),
        (lambda X: Thresholds(X) @ np.ones(2), ValueError, "one weight per column"),
        (lambda X: Thresholds(X).T @ np.ones(2), ValueError, "one number per row"),
        (lambda X: Thresholds(X).label(10**6), ValueError, "place is 1000000"),
    ],
)
def test_bad_input(make, error, words):
    with pytest.raises(error, match=words):
        make(table()[0])


def test_a_design_needs_a_penalty_and_double_precision():
    X, y = table()
    with pytest.raises(ValueError, match="both l1 and l2 are 0"):
        cr.problems.PNormPush(Thresholds(X), y, p=2)
    with pytest.raises(ValueError, match="leave dtype at 'float64'"):
        cr.problems.PNormPush(Thresholds(X), y, p=2, l1=0.1, dtype="float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cr.problems.PNormPush(Thresholds(X), y, p=2, l2=0.1).solve().solver == "lbfgs"


@pytest.mark.parametrize("monotone", [None, {0: 1, 1: -1}])
def test_solutions_over_designs_are_proved(monotone):
    pytest.importorskip("flint")
    X, y = table()
    problem = cr.problems.PNormPush(Thresholds(X, monotone=monotone), y, p=4, l1=0.12)
    solution = problem.solve()
    proof = solution.prove()
    assert proof.proved
    assert proof.kind == "global"
    assert 0.0 <= proof.gap <= 1e-7
    assert problem.prove(0.5 * solution.x, solution.witness).gap > 1e-5
    with pytest.raises(cr.CertificateError, match="designs are not exported"):
        solution.export("nowhere")


@pytest.mark.parametrize("kind", [Thresholds, Products])
@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("name", ["TopPush", "PartialAUC"])
def test_kinks_over_designs_are_solved_and_proved_as_over_their_matrix(name, queries, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y, qid = (X[:, 0] + 0.5 * rng.normal(size=80) > 0).astype(int), np.arange(80) % queries
    arguments = {"TopPush": (), "PartialAUC": (0.2, "hinge")}[name]
    design = kind(X, bins=3)
    made, truth = (
        getattr(cr.problems, name)(Z, y, *arguments, l2=0.1, qid=qid) for Z in (design, design.toarray())
    )
    found, other = made.solve(), truth.solve()
    assert found.solver == other.solver == "continuation"
    assert abs(found.value - other.value) <= found.gap + other.gap
    assert found.prove().gap <= 2.0 * found.gap


def test_large_designs_with_kinks_stay_unbuilt(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=80) > 0).astype(int)
    small = cr.problems.TopPush(Thresholds(X, bins=4), y, l2=0.1)
    assert "Smoothable" in small.capabilities
    monkeypatch.setattr(_linear_scores, "MOST_BUILT", 80)
    large = cr.problems.TopPush(Thresholds(X, bins=4), y, l2=0.1)
    assert large.default_solver == "bundle"
    found, truth = large.solve(), small.solve()
    assert abs(found.value - truth.value) <= found.gap + truth.gap


def test_pairs_without_products_are_no_trouble():
    X = np.c_[table(missing=False)[0][:, :2], np.ones(60)]
    design = Products(X, bins=3, pairs=[(2, 0), (0, 1), (1, 2)])
    agrees(design, Products(X[:, :2], bins=3).toarray())


def test_the_largest_l1_of_monotone_features_counts_what_would_rise():
    X, y = table(missing=False)
    problem = cr.problems.PNormPush(Thresholds(X, bins=6, monotone={0: 1, 1: 1, 2: 1}), y, p=2, l1=1.0)
    free = cr.problems.PNormPush(Thresholds(X, bins=6), y, p=2, l1=1.0)
    assert problem.l1_max() < free.l1_max()  # the best column falls
    assert not problem.changed(l1=1.001 * problem.l1_max()).solve().x.any()
    assert problem.changed(l1=0.95 * problem.l1_max()).solve(tol=1e-10).x.any()


def test_a_start_that_breaks_the_signs_is_moved():
    X, y = table(missing=False)
    design = Thresholds(X, bins=6, monotone={0: 1, 1: -1, 2: 1})
    problem = cr.problems.PNormPush(design, y, p=2, l1=0.02, l2=0.1)
    seen = []
    solution = problem.solve(x0=-np.ones(design.shape[1]), callback=lambda state: seen.append(state.x.min()))
    assert min(seen) >= 0.0
    assert abs(solution.value - problem.solve().value) <= 2 * solution.gap + 1e-8


OVER_DESIGNS = sorted(name for name, one in cr.problems.REGISTRY.items() if takes_designs(one))


@pytest.mark.parametrize(("turn", "name"), list(enumerate(OVER_DESIGNS)), ids=OVER_DESIGNS)
def test_fast_equals_exact_over_designs(turn, name):
    """Thresholds, monotone ones, and products, each in every third: the exact model builds the columns."""
    report = cr.verify(cr.problems.REGISTRY[name], instances=1, seed=turn, designs=True)
    assert report.ok, str(report)
    assert report.compared == 1


def test_a_wrong_sum_over_levels_is_caught_by_the_verifier(monkeypatch):
    """Planted: the gradient over thresholds leaves out the last one."""
    plain = Thresholds._sums

    def planted(self, u):
        found = plain(self, u).copy()
        found[-1] = 0.0
        return found

    monkeypatch.setattr(Thresholds, "_sums", planted)
    report = cr.verify(cr.problems.PNormPush, instances=3, seed=0, designs=True)
    assert any("slope of the oracle" in text for text in report.failures), str(report)


def test_problems_that_need_a_matrix_say_so():
    X, y = table(missing=False)
    with pytest.raises(TypeError, match="Retargeting works on a matrix"):
        cr.problems.Retargeting(Thresholds(X), y, np.arange(len(y)) // 10)
    with pytest.raises(TypeError, match="PageRank has no linear scores, and takes no design"):
        cr.verify(cr.problems.PageRank, designs=True)
    with pytest.raises(TypeError, match="designs are made for random instances, and target is an instance"):
        cr.verify(cr.problems.PNormPush.random(0), designs=True)


def test_a_reward_without_l2_over_a_large_design_is_refused(monkeypatch):
    X, y = table(missing=False)
    queries = np.arange(len(y)) // 10
    options = {"reward": 0.01, "l1": 5.0}
    made = cr.problems.MarginRetargeting(Thresholds(X, bins=3), y, queries, **options)
    same = cr.problems.MarginRetargeting(Thresholds(X, bins=3).toarray(), y, queries, **options)
    assert made.solve().value == pytest.approx(same.solve().value, abs=tolerance("conic"))
    monkeypatch.setattr(_base, "_LARGEST", 100)
    with pytest.raises(ValueError, match="give l2 > 0, or no reward"):
        cr.problems.MarginRetargeting(Thresholds(X, bins=3), y, queries, **options)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_what_is_asked_of_a_matrix_is_the_same_of_its_dense_copy(layout):
    rng = np.random.default_rng(4)
    X = rng.integers(-2, 3, (90, 3)) * (rng.random((90, 3)) < 0.5) + 0.0
    # a constant column whose sums are rounded, and one whose smallest entry is not stored
    X = np.column_stack([X, np.full(90, 0.1), np.abs(X[:, 0])])
    counts, matrix = rng.integers(0, 3, 90), layout(X)
    low, high = extremes(matrix)
    assert np.array_equal(low, X.min(axis=0))
    assert np.array_equal(high, X.max(axis=0))
    for weights, rows in ((None, X), (counts.astype(float), np.repeat(X, counts, axis=0))):
        means, deviations = moments(matrix, weights)
        assert means == pytest.approx([np.mean(column) for column in rows.T], abs=EXACT)
        assert deviations[:3] == pytest.approx([np.std(column) for column in rows[:, :3].T], abs=EXACT)
        assert deviations[3] == 0.0
    assert all(np.array_equal(one_column(by_columns(matrix), j), X[:, j]) for j in range(5))
    whole = stacked([matrix[:40], X[40:]])
    assert type(whole) is type(matrix)
    assert np.array_equal(in_units(whole, np.arange(5.0)) @ np.eye(5), X * np.arange(5))
