"""Functions of features that weights are, against columns and sums written out; SQL in a data base; score cards."""

from __future__ import annotations

import itertools
import math
import pickle
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import convexrank as cr
from convexrank.features import Products, Stacked, Thresholds
from tests.tolerances import tolerance

EXACT = tolerance("summation")
ENTRIES = st.one_of(st.integers(-2, 3).map(float), st.just(math.nan))
TABLES = arrays(np.float64, st.tuples(st.integers(2, 9), st.integers(2, 3)), elements=ENTRIES)
NAN = math.nan


def table(seed=0, rows=50):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rows, 4)), 1)
    X[:, 3] = rng.integers(3, size=rows)
    X[rng.integers(rows, size=6), 2] = NAN
    return X


def design_and_weights(kind, X, seed=0, share=0.4):
    filled = np.nan_to_num(X)
    design = {
        "thresholds": lambda: Thresholds(X, categories=["x3"], monotone={"x0": 1, "x2": -1}),
        "bins": lambda: Thresholds(X, bins=5),
        "products": lambda: Products(X, bins=4),
        "stacked": lambda: Stacked([filled, Thresholds(X, bins=6, categories=[3]), Products(X, bins=3)]),
        "nested": lambda: Stacked([Stacked([Thresholds(X), filled]), Products(X, bins=2)]),
    }[kind]()
    rng = np.random.default_rng(seed)
    w = rng.normal(size=design.shape[1]) * (rng.random(design.shape[1]) < share)
    return design, w


KINDS = ["thresholds", "bins", "products", "stacked", "nested"]


def tables_for(kind, X):
    """What evaluation takes: raw columns have no absent values."""
    filled = np.nan_to_num(X)
    return {"stacked": (filled, X, X), "nested": (X, filled, X)}.get(kind, X)


def scores_by_columns(design, w, X):
    """Every column by its definition, entry by entry, for new rows."""
    if isinstance(design, Stacked):
        parts = np.split(w, design.starts[1:-1])
        return sum(scores_by_columns(part, own, X) for part, own in zip(design.parts, parts, strict=True))
    if isinstance(design, np.ndarray):
        return np.nan_to_num(X) @ w
    scores = np.zeros(len(X))
    place = 0
    if isinstance(design, Products):
        for j, k in zip(design.first, design.second, strict=True):
            for a, b in itertools.product(design.levels[j].cuts, design.levels[k].cuts):
                scores += w[place] * ((X[:, j] > a) & (X[:, k] > b))
                place += 1
        return scores
    for j, levels in enumerate(design.levels):
        sign = levels.direction or 1
        for cut in levels.cuts:
            scores += sign * w[place] * ((X[:, j] == cut) if levels.categorical else (X[:, j] > cut))
            place += 1
        if levels.missing:
            scores += sign * w[place] * np.isnan(X[:, j])
            place += 1
    return scores


# --- evaluation -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_the_functions_are_the_scores(kind, seed):
    X = table(seed)
    design, w = design_and_weights(kind, X, seed)
    found = cr.shapes(w, design)
    new = np.random.default_rng(9).permuted(X, axis=0) + np.array([0.05, -0.1, 0.0, 0.0])
    for rows in (X, new, 3 * new[:7]):
        expected = scores_by_columns(design, w, rows)
        given_rows = tables_for(kind, rows)
        np.testing.assert_allclose(found.predict(given_rows), expected, atol=EXACT)
        np.testing.assert_allclose(found(given_rows) + found.constant, expected, atol=EXACT)
        if not isinstance(design, Stacked):
            np.testing.assert_allclose(found.predict(rows), design.transform(rows) @ w, atol=EXACT)
    np.testing.assert_allclose(found.predict(tables_for(kind, X)), design @ w, atol=EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_every_function_is_centred(kind):
    X = table()
    design, w = design_and_weights(kind, X)
    found = cr.shapes(w, design)
    filled = np.nan_to_num(X)
    for term in found.functions:
        assert np.mean(term(X[:, term.column])) == pytest.approx(0.0, abs=EXACT)
    for term in found.surfaces:
        assert np.mean(term(X[:, term.columns[0]], X[:, term.columns[1]])) == pytest.approx(0.0, abs=EXACT)
    for term in found.slopes:
        assert np.mean(term(filled[:, term.column])) == pytest.approx(0.0, abs=EXACT)
    assert found.constant == pytest.approx(np.mean(design @ w), abs=EXACT)


@given(X=TABLES, bins=st.sampled_from([None, 1, 2]), data=st.data())
def test_any_table(X, bins, data):
    """Absent values, categories, directions, few values: the functions give each row its score."""
    categories = data.draw(st.sets(st.integers(0, X.shape[1] - 1)))
    monotone = {j: data.draw(st.sampled_from([-1, 1])) for j in set(range(X.shape[1])) - categories}
    try:
        design = Thresholds(X, bins, monotone, sorted(categories))
    except ValueError:
        return  # nothing varies
    w = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=design.shape[1], max_size=design.shape[1])))
    found = cr.shapes(w, design)
    np.testing.assert_allclose(found.predict(X), scores_by_columns(design, w, X), atol=EXACT)
    assert sum(found.importance.values()) == pytest.approx(np.abs(w).sum(), abs=EXACT)
    assert sum(function.rows.sum() for function in found.functions) == X.size
    if bins is None:
        np.testing.assert_allclose(run_sql(found.to_sql("t"), X, names(X)), found.predict(X), atol=EXACT)


# --- what a function says -------------------------------------------------------------------------------------------


def test_functions_by_hand():
    X = np.array([[1.0, 5.0], [2.0, NAN], [3.0, 6.0], [4.0, 5.0]])
    design = Thresholds(X, categories=["x1"])
    # x0 > 1, x0 > 2, x0 > 3; x1 = 5, x1 = 6, x1 is missing
    found = cr.shapes([2.0, 0.0, -1.0, 1.0, 0.0, 4.0], design)
    first, second = found.functions
    assert first.breaks.tolist() == [1.0, 3.0]
    # 0, 2, 2, 1 on the four rows
    assert first.constant == 1.25
    assert first.values.tolist() == [-1.25, 0.75, -0.25]
    assert first.rows.tolist() == [1, 2, 1]
    assert first.missing is None
    assert second.constant == 1.5
    assert second.categories == {5.0: -0.5, 6.0: -1.5}
    assert second.missing == 2.5
    assert second.values[0] == -1.5  # of a category that was not there
    assert found.importance == {"x1": 5.0, "x0": 3.0}


def test_surface_by_hand():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 1.0]])
    found = cr.shapes([4.0, -1.0], Products(X))  # x0 > 0 and x1 > 0, x0 > 1 and x1 > 0
    (surface,) = found.surfaces
    assert surface.first.cuts.tolist() == [0.0, 1.0]
    assert surface.second.cuts.tolist() == [0.0]
    assert (surface.values + surface.constant).tolist() == [[0, 0], [0, 4], [0, 3]]
    assert surface.rows.tolist() == [[1, 1], [1, 1], [0, 1]]
    assert surface.constant == pytest.approx(7 / 5)
    assert surface.variation == pytest.approx(5.0)


def test_a_design_without_rows_has_functions_whose_mean_is_not_subtracted():
    X = table()[:, [0, 3]]
    for design in (Thresholds(X), Products(X, bins=3)):
        w = np.random.default_rng(0).normal(size=design.shape[1])
        found = cr.shapes(w, design[np.arange(0)])
        assert found.constant == 0.0
        np.testing.assert_allclose(found.predict(X), design @ w, atol=EXACT)


def test_a_pair_with_a_constant_feature_has_no_surface():
    X = np.array([[7.0, 0.0, 0.0], [7.0, 1.0, 0.0], [7.0, 1.0, 1.0]])
    design = Products(X, pairs=[(0, 1), (1, 2)])
    found = cr.shapes([2.0], design)
    assert [term.name for term in found.terms] == ["x1 and x2"]
    np.testing.assert_allclose(found.predict(X), design @ [2.0], atol=EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_importance_is_the_l1_norm_of_the_weights(kind):
    X = table()
    design, w = design_and_weights(kind, X)
    found = cr.shapes(w, design)
    lines = sum(slope.variation for slope in found.slopes)
    raw = sum(abs(slope.value) for slope in found.slopes)
    assert sum(found.importance.values()) - lines == pytest.approx(np.abs(w).sum() - raw, rel=EXACT)
    assert list(found.importance.values()) == sorted(found.importance.values(), reverse=True)
    for slope in found.slopes:
        heights = slope(np.nan_to_num(X)[:, slope.column])
        assert slope.variation == pytest.approx(np.ptp(heights), rel=EXACT)


def test_a_solved_problem():
    X = table(rows=80)
    y = (np.abs(X[:, 0]) + np.random.default_rng(1).normal(size=80) > 1).astype(int)
    design = Thresholds(X, monotone={"x1": -1, "x3": 1})
    problem = cr.problems.PNormPush(design, y, p=2, l1=0.05)
    solution = problem.solve()
    found = cr.shapes(solution)
    np.testing.assert_allclose(found.predict(X), design @ solution.x, atol=EXACT)
    falling, rising = found.functions[1], found.functions[3]
    assert (np.diff(falling.values) <= 0).all()
    assert (np.diff(rising.values) >= 0).all()
    assert found.terms[0].name == "x0"
    assert len(found.functions[0].breaks) == np.count_nonzero(solution.x[: len(found.functions[0].cuts)])
    again = pickle.loads(pickle.dumps(solution))
    assert cr.shapes(again, design).importance == found.importance
    with pytest.raises(ValueError, match="came from a file or a pickle"):
        cr.shapes(again)


def test_names_come_from_the_data_frame():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0], "price": [0.0, 1.0, 1.0]})
    design = Stacked([frame.to_numpy(), Thresholds(frame)])
    found = cr.shapes([0.5, 0.0, 1.0, 0.0, -1.0], design)
    assert [slope.name for slope in found.slopes] == ["age", "price"]
    assert found.importance == {"age": 2.0, "price": 1.0}
    np.testing.assert_allclose(found.predict(frame), design @ [0.5, 0.0, 1.0, 0.0, -1.0], atol=EXACT)
    with pytest.raises(ValueError, match="expected \\['age', 'price'\\], in this order"):
        found(frame[["price", "age"]])
    with pytest.raises(ValueError, match=r"X has columns \['age', 'age'\], expected different names"):
        Thresholds(frame.set_axis(["age", "age"], axis=1))


# --- texts ----------------------------------------------------------------------------------------------------------


def names(X):
    return [f"x{j}" for j in range(X.shape[1])]


def run_sql(query, X, columns):
    """Run a query over a table of these rows, NaN as NULL."""
    with sqlite3.connect(":memory:") as base:
        quoted = ", ".join('"' + column.replace('"', '""') + '" REAL' for column in columns)
        base.execute(f"CREATE TABLE t ({quoted})")
        rows = [[None if math.isnan(entry) else float(entry) for entry in row] for row in X]
        base.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
        return np.array([NAN if value is None else value for (value,) in base.execute(query)])


@pytest.mark.parametrize("kind", ["thresholds", "bins", "products"])
def test_sql_gives_the_scores(kind):
    X = table(rows=200)
    design, w = design_and_weights(kind, X)
    found = cr.shapes(w, design)
    new = X.copy()
    new[:, :2] += np.random.default_rng(3).choice([0.0, 0.1, -7.0, 7.0], size=(200, 2))
    new[:5, 3] = 17.0
    np.testing.assert_allclose(run_sql(found.to_sql("t"), new, names(X)), found.predict(new), atol=EXACT)


def test_sql_with_slopes_and_odd_names():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    columns = ['the "size"', "a;b--", "select", "ß"]
    X = np.nan_to_num(table())
    frame = pd.DataFrame(X, columns=columns)
    design = Stacked([X, Thresholds(frame), Products(frame, bins=3)])
    w = np.random.default_rng(0).normal(size=design.shape[1])
    found = cr.shapes(w, design)
    np.testing.assert_allclose(run_sql(found.to_sql("t"), X, columns), design @ w, atol=EXACT)
    expression = found.to_sql()
    assert found.to_sql("t").startswith("SELECT ")
    np.testing.assert_allclose(run_sql(f"SELECT 2 * ({expression}) FROM t", X, columns), 2 * (design @ w))


def test_thresholds_of_the_same_six_digits_have_different_names():
    design = Thresholds(np.array([[1234567.0], [1234568.0], [1234569.0], [0.5]]))
    assert [design.label(j) for j in range(3)] == ["x0 > 0.5", "x0 > 1234567", "x0 > 1234568"]
    card = str(cr.shapes([1.0, 2.0, 3.0], design).score_card(10))
    assert "> 1234567, ≤ 1234568 " in card
    design = Thresholds(np.array([[1234567.0], [1234568.0], [2.0]]), categories=[0])
    assert [design.label(j) for j in range(3)] == ["x0 = 2", "x0 = 1234567", "x0 = 1234568"]
    assert "= 1234568 " in str(cr.shapes([1.0, 2.0, 3.0], design).score_card(10))


def test_contributions_of_sparse_columns():
    X = np.array([[0.0, 2.0], [1.0, 0.0], [3.0, 0.0]])
    found = cr.shapes(
        [1.0, 2.0, 5.0], Stacked([sparse.csr_array(X), Thresholds(np.array([[1.0], [1.0], [2.0]]))])
    )
    tables = sparse.csr_array(X), np.array([[1.0], [2.0], [1.0]])
    added = found.contributions(tables)
    np.testing.assert_allclose(sum(added.values()) + found.constant, found.predict(tables), atol=EXACT)


def test_sql_where_a_value_is_absent_that_never_was():
    X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 1.0]])
    new = np.array([[NAN, 0.0], [2.5, NAN]])
    thresholds = cr.shapes([1.0, 1.0, 0.0], Thresholds(X))
    # a score without x0 is unknown; x1 has no weight
    assert np.isnan(run_sql(thresholds.to_sql("t"), new, names(X))).tolist() == [True, False]
    with pytest.raises(ValueError, match="column x0 has NaN in row 0"):
        thresholds.predict(new)
    assert thresholds.predict(new[1:]).tolist() == [2.0]
    products = cr.shapes([1.0, 1.0], Products(X))
    assert np.isnan(run_sql(products.to_sql("t"), new, names(X))).all()


def test_sql_of_many_terms():
    """More terms than sqlite's parser takes in one sum."""
    X = np.random.default_rng(0).normal(size=(4, 1500))
    w = np.ones(4500)
    found = cr.shapes(w, Thresholds(X))
    with sqlite3.connect(":memory:") as base:
        columns = ", ".join(f'? AS "x{j}"' for j in range(1500))
        base.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 2000)
        ((score,),) = base.execute(f"SELECT {found.to_sql()} FROM (SELECT {columns})", X[0].tolist())
    assert score == pytest.approx((Thresholds(X) @ w)[0], rel=EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_the_frame_gives_the_scores(kind):
    pytest.importorskip("pandas", reason="pandas is not installed")
    X = table()
    design, w = design_and_weights(kind, X)
    found = cr.shapes(w, design)
    frame = found.to_frame()
    filled = np.nan_to_num(X)
    scores = np.full(len(X), found.constant)
    for line in frame.itertuples():
        x = X[:, int(line.feature[1:])]
        if line.kind == "slope":
            own = filled[:, int(line.feature[1:])]
            scores += line.value * (own - own.mean())
            continue
        inside = {
            "interval": (x > line.low) & (x <= line.high),
            "category": x == line.low,
            "other": np.zeros(len(X), dtype=bool),
            "missing": np.isnan(x),
        }[line.kind]
        if isinstance(line.feature_2, str):
            other = X[:, int(line.feature_2[1:])]
            # absent values pass no threshold
            inside = (np.isnan(x) & (line.low == -np.inf)) | inside
            inside &= (np.isnan(other) & (line.low_2 == -np.inf)) | (
                (other > line.low_2) & (other <= line.high_2)
            )
        assert inside.sum() == line.rows
        scores += line.value * inside
    np.testing.assert_allclose(scores, design @ w, atol=EXACT)


@pytest.mark.parametrize("points", [1, 10, 1000])
@pytest.mark.parametrize("kind", ["thresholds", "bins", "products"])
def test_the_score_card_errs_as_little_as_it_says(kind, points):
    X = table(rows=300)
    design, w = design_and_weights(kind, X, share=0.1)
    found = cr.shapes(w, design)
    card = found.score_card(points)
    total = card(X)
    assert total.min() >= 0
    off = np.abs(total - card.scale * (found.predict(X) - card.base))
    assert off.max() <= card.error * (1 + EXACT)
    assert f"{card.error:.2g} points of {points}" in str(card)
    for term in (*card.shapes.functions, *card.shapes.surfaces):
        assert all(value.is_integer() and value >= 0 for _, value, _ in term.cells())
        assert sum(rows for _, _, rows in term.cells()) == len(X)
    for function in card.shapes.functions:
        assert function.categorical or (np.diff(function.values) != 0).all()


def test_the_error_of_a_score_card_is_reached():
    X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    found = cr.shapes([1.0, 2.0], Thresholds(X))
    card = found.score_card(10)  # 10/3 and 20/3 become 3 and 7: nothing is lost in the sum, a third in each
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    off = card(rows) - card.scale * (found.predict(rows) - card.base)
    assert card.error == pytest.approx(1 / 3)
    assert np.abs(off).max() == pytest.approx(1 / 3)


def test_a_planted_bug_in_a_function_is_noticed():
    """Values that are off by one level give other scores, in every form."""
    X = table()
    design, w = design_and_weights("bins", X)
    found = cr.shapes(w, design)
    term = found.functions[0]
    wrong = replace(found, functions=(replace(term, table=np.roll(term.table, 1)), *found.functions[1:]))
    expected = scores_by_columns(design, w, X)
    assert np.abs(wrong.predict(X) - expected).max() > 0.1
    assert np.abs(run_sql(wrong.to_sql("t"), X, names(X)) - expected).max() > 0.1


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda X, d, w: cr.shapes(w), TypeError, "(?s)solution is .*expected a Solution, or weights"),
        (lambda X, d, w: cr.shapes(w, X), TypeError, "(?s)design is .*expected features.Thresholds"),
        (
            lambda X, d, w: cr.shapes(w[:-1], d),
            ValueError,
            "solution has .* expected .* column of the design",
        ),
        (lambda X, d, w: cr.shapes(w * NAN, d), ValueError, "solution contains NaN"),
        (
            lambda X, d, w: cr.shapes(cr.problems.PNormPush([[1.0], [0.0]], [1, 0], p=1, l2=0.1).solve()),
            TypeError,
            "with a matrix as X a problem has weights and no functions",
        ),
        (lambda X, d, w: cr.shapes(w, d)(X[:, :2]), ValueError, "X has 2 columns, expected 4"),
        (lambda X, d, w: cr.shapes(w, d).score_card(0), ValueError, "points is 0"),
        (
            lambda X, d, w: cr.shapes(0 * w, d).score_card(),
            ValueError,
            "points need functions, and all are 0",
        ),
        (lambda X, d, w: cr.shapes(w, d).to_sql(3), TypeError, "table is 3, expected a name"),
        (lambda X, d, w: cr.shapes(w, d).to_sql(""), ValueError, "table is called ''"),
        (lambda X, d, w: stacked(X).score_card(), ValueError, "points need pieces, and x0 has a slope"),
        (lambda X, d, w: stacked(X)((X, X, X)), ValueError, "X has 3 tables, expected 2"),
        (lambda X, d, w: stacked(X)((X[:3, :2], X[:4])), ValueError, "expected the same number in each"),
        (lambda X, d, w: stacked(X)(np.nan_to_num(X)), ValueError, "one for each slope"),
    ],
)
def test_bad_input(call, error, words):
    X = table()
    with pytest.raises(error, match=words):
        call(X, *design_and_weights("bins", X))


def stacked(X):
    """Slopes of two columns beside thresholds of all."""
    design = Stacked([X[:, :2], Thresholds(X)])
    return cr.shapes(np.ones(design.shape[1]), design)
