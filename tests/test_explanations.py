"""Data frames in ``features="thresholds"``, the terms of one row's score, and the importance of features."""

from __future__ import annotations

import pickle
import sqlite3

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import convexrank as cr
from convexrank import PushRanker, TableEncoder, plotting

pandas = pytest.importorskip("pandas")
PARTS = {"features": "thresholds", "bins": 8, "l2": 1e-3, "l1": 1e-3, "p": 2}


def table(rows=240, seed=0):
    """Numbers with gaps, texts with gaps, categories by type, booleans; the labels depend on the city and the age."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rome", "Oslo", "Bonn"], rows).astype(object)
    frame = pandas.DataFrame(
        {
            "age": rng.normal(40, 9, rows),
            "city": city,
            "code": pandas.Categorical(rng.integers(3, size=rows) * 10),
            "member": rng.random(rows) > 0.5,
        }
    )
    y = (frame["age"] > 45) | ((city == "Oslo") & (rng.random(rows) < 0.8))
    frame.loc[::17, "city"] = None
    frame.loc[::23, "age"] = np.nan
    return frame, y.to_numpy()


def by_hand(frame, levels_of):
    """Features of the frame as plain 0/1 columns, in the order of the design."""
    found = []
    for level in levels_of:
        column = frame[level.name].tolist()
        missing = [entry is None or entry != entry for entry in column]
        for cut in level.cuts:
            if level.categorical:
                found.append([entry == level.words[int(cut)] for entry in column])
            else:
                found.append([not gap and entry > cut for entry, gap in zip(column, missing, strict=True)])
        if level.missing:
            found.append(missing)
    return np.array(found, dtype=float).T


def test_columns_of_frames_are_categories_by_type_and_gaps_a_level():
    frame, y = table()
    design = cr.features.Thresholds(frame, 8)
    np.testing.assert_array_equal(design.toarray(), by_hand(frame, design.levels))
    labels = [design.label(j) for j in range(design.shape[1])]
    assert {"city = Bonn", "city = Oslo", "city = Rome", "city is missing", "age is missing"} <= set(labels)
    assert {"code = 0", "code = 10", "code = 20", "member > 0"} <= set(labels)
    model = PushRanker(**PARTS).fit(frame, y)
    same = cr.problems.PNormPush(by_hand(frame, design.levels), y, p=2, l2=1e-3, l1=1e-3).solve()
    assert abs(model.solution_.value - same.value) <= model.gap_ + same.gap
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.score(frame, y) > 0.85
    new = table(60, seed=1)[0]
    expected = by_hand(new, design.levels) @ model.coef_
    np.testing.assert_allclose(model.predict(new), expected, atol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    # ordered as the frame, whatever the types of a part of it
    one = new.iloc[[3]]
    assert model.predict(one)[0] == pytest.approx(expected[3], abs=1e-12)


def test_unknown_categories_have_no_weight_and_columns_keep_their_kind():
    frame, y = table()
    model = PushRanker(**PARTS).fit(frame, y)
    strange = frame.copy()
    strange["city"], strange["code"] = "Paris", 5
    city, code = (model.design_.levels[j] for j in (1, 2))
    assert city.words == ("Bonn", "Oslo", "Rome")
    assert code.words == (0, 10, 20)
    blank = by_hand(strange, model.design_.levels)
    assert not blank[:, [j for j in range(blank.shape[1]) if "= " in model.design_.label(j)]].any()
    np.testing.assert_allclose(model.predict(strange), blank @ model.coef_, atol=1e-12)
    with pytest.raises(ValueError, match="expected a data frame: the fit saw categories"):
        model.predict(np.zeros((2, 4)))
    texts = frame.assign(age="old")
    with pytest.raises(ValueError, match="'old' in column age, expected a number"):
        model.predict(texts)
    numeric = PushRanker(**PARTS).fit(frame[["age", "member"]], y)
    with pytest.raises(ValueError, match="'old' in column age, expected a number"):
        numeric.predict(texts[["age", "member"]])
    with pytest.raises(ValueError, match=r"feature names"):
        model.predict(frame.rename(columns={"age": "years"}))


def test_what_frames_may_not_have():
    frame, y = table(40)
    dates = frame.assign(since=pandas.Timestamp("2024-02-03"), until=pandas.Timestamp("2024-02-04"))
    with pytest.raises(ValueError, match=r"\['since', 'until'\] hold dates"):
        PushRanker(**PARTS).fit(dates, y)
    with pytest.raises(ValueError, match=r"categories in the columns .*'city'"):
        PushRanker(features="products").fit(frame, y)
    with pytest.raises(ValueError, match="'city', whose levels are categories"):
        PushRanker(**PARTS, monotone={"city": 1}).fit(frame, y)
    with pytest.raises(ValueError, match="categories in the columns"):
        cr.features.Products(frame)
    with pytest.raises(ValueError, match="expected the number of a category, 0 to 1"):
        cr.features.Thresholds([[2.0], [1.0]], categories={0: ["no", "yes"]})
    with pytest.raises(ValueError, match="features='thresholds'"):
        PushRanker().fit(frame, y)


def test_categories_of_a_matrix_have_the_names_that_are_given():
    design = cr.features.Thresholds([[0.0], [1.0], [np.nan]], categories={0: ["no", "yes"]}, names=["open"])
    assert [design.label(j) for j in range(3)] == ["open = no", "open = yes", "open is missing"]
    frame = pandas.DataFrame({"open": ["yes", "no", None]})
    np.testing.assert_array_equal(design.transform(frame).toarray(), design.toarray()[[1, 0, 2]])


@pytest.mark.parametrize("words", [["low", "mid", "high"], [1, 2, 3]])
def test_a_frame_that_holds_numbers_of_named_categories_is_read_by_numbers_again(words):
    frame = pandas.DataFrame({"age": [30.0, 40, 50, 60], "stars": [0, 1, 2, 1]})
    design = cr.features.Thresholds(frame, categories={"stars": words})
    np.testing.assert_array_equal(design.transform(frame).codes, design.codes)
    shapes = cr.shapes(np.arange(1.0, 7.0), design)
    np.testing.assert_allclose(shapes.predict(frame), design.toarray() @ np.arange(1.0, 7.0), atol=1e-12)
    assert set(shapes.functions[1].categories) == set(words)
    with sqlite3.connect(":memory:") as base:
        frame.to_sql("people", base, index=False)
        scores = [score for (score,) in base.execute(shapes.to_sql("people"))]
    base.close()
    np.testing.assert_allclose(scores, shapes.predict(frame), atol=1e-12)


def test_missing_numbers_of_nullable_columns_are_missing_values():
    frame = pandas.DataFrame({"age": pandas.array([1, None, 3], dtype="Int64"), "size": [1.0, 2.0, 3.0]})
    design = cr.features.Thresholds(frame)
    assert [design.label(j) for j in range(4)] == ["age > 1", "age is missing", "size > 1", "size > 2"]
    assert design.toarray().tolist() == [[0, 0, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1]]
    assert design.transform(frame).toarray().tolist() == design.toarray().tolist()


def test_names_of_categories_that_are_numbers_of_numpy_are_numbers_in_sql():
    design = cr.features.Thresholds([[0.0], [1.0]], categories={0: np.array([10, 20])}, names=["code"])
    assert '"code" = 20.0 THEN' in cr.shapes([1.0, 2.0], design).to_sql()


def test_a_score_card_does_not_read_categories_that_it_leaves_out():
    frame = pandas.DataFrame({"age": [1.0, 2, 3, 4], "city": list("xyxy"), "note": list("uvvu")})
    shapes = cr.shapes([1.0, 0, 2, 0, 1, 0, 0], cr.features.Thresholds(frame))
    card = shapes.score_card(40)
    np.testing.assert_allclose(card(frame), card.scale * (shapes.predict(frame) - card.base), atol=1e-9)
    assert cr.shapes([1.0, 0, 0, 0, 0, 0, 0], cr.features.Thresholds(frame)).score_card(1)(
        frame
    ).tolist() == [0, 1, 1, 1]


def test_functions_tables_and_queries_have_the_names_of_categories():
    frame, y = table()
    model = PushRanker(**PARTS).fit(frame, y)
    shapes = model.shapes_
    np.testing.assert_allclose(shapes.predict(frame), model.predict(frame), atol=1e-12)
    city = next(function for function in shapes.functions if function.name == "city")
    assert set(city.categories) == {"Bonn", "Oslo", "Rome"}
    assert city.categories["Oslo"] > max(city.categories["Bonn"], city.categories["Rome"])
    assert "= Oslo" in str(shapes.score_card())
    assert set(shapes.to_frame()["category"].dropna()) >= {"Oslo", 10}
    with sqlite3.connect(":memory:") as base:
        frame.astype({"code": int}).to_sql("customers", base, index=False)
        scores = [score for (score,) in base.execute(shapes.to_sql("customers"))]
    base.close()
    np.testing.assert_allclose(scores, model.predict(frame), atol=1e-9)
    labels = [label.get_text() for panel in plotting.shapes(shapes) for label in panel.get_xticklabels()]
    assert "Oslo" in labels


@pytest.mark.parametrize("features", ["linear", "thresholds", "products"])
def test_the_terms_of_a_row_are_its_score(features):
    rng = np.random.default_rng(2)
    X = rng.normal(3, 1, size=(150, 3))
    y = X[:, 0] * X[:, 1] + rng.normal(size=150) > 10
    model = PushRanker(features=features, p=2, l2=1e-2, l1=1e-3, bins=None if features == "linear" else 5)
    model.fit(X, y)
    scores, terms = model.predict(X), model.contributions(X)
    np.testing.assert_allclose(sum(terms.values()) + scores.mean(), scores, atol=1e-9)
    found = model.explain(X[7])
    assert found.score == scores[7]
    assert found.mean == pytest.approx(scores.mean(), abs=1e-9)
    sizes = np.abs(list(found.terms.values()))
    assert (np.diff(sizes) <= 0).all()
    assert found.terms == pytest.approx({name: part[7] for name, part in terms.items()})
    assert found.to_frame()["term"].sum() == pytest.approx(scores[7] - scores.mean())
    again = pickle.loads(pickle.dumps(model))
    assert str(again.explain(X[7:8])) == str(found)
    if features == "products":
        pair = next(name for name in found.terms if " and " in name)
        places = [int(name[1:]) for name in pair.split(" and ")]
        assert found.values[pair] == tuple(X[7, places])
    else:
        deviations = [np.std(terms.get(f"x{j}", np.zeros(1))) for j in range(3)]
        np.testing.assert_allclose(model.feature_importances_, deviations, atol=1e-9)
    assert model.feature_importances_[2] == min(model.feature_importances_)


def test_sparse_rows_and_rows_of_frames_are_explained():
    frame, y = table()
    model = PushRanker(**PARTS).fit(frame, y)
    place = int(np.flatnonzero(frame["city"] == "Oslo")[0])
    for row in (frame.iloc[[place]], frame.iloc[place]):
        found = model.explain(row)
        assert found.score == model.predict(frame)[place]
        assert found.values["city"] == "Oslo"
    assert "city" in str(found)
    X = sparse.random_array((60, 5), density=0.4, rng=np.random.default_rng(0), format="csr")
    model = PushRanker(p=1, tol=1e-13).fit(X, np.arange(60) % 3 == 0)
    dense = PushRanker(p=1, tol=1e-13).fit(X.toarray(), np.arange(60) % 3 == 0)
    assert model.explain(X[[2]]).terms == pytest.approx(dense.explain(X.toarray()[2]).terms, abs=1e-6)
    np.testing.assert_allclose(model.feature_importances_, dense.feature_importances_, atol=1e-6)


def test_a_ranker_chosen_along_a_path_explains_in_units_of_the_rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 3)) * [1.0, 100.0, 0.01]
    y = X[:, 1] + 30 * rng.normal(size=90) > 50
    model = cr.PushRankerCV(path="l2", values=[1e-3, 1e-1], cv=3).fit(X, y)
    scores = model.predict(X)
    np.testing.assert_allclose(sum(model.contributions(X).values()) + scores.mean(), scores, atol=1e-9)
    steps = cr.PushRankerCV(path="l1", features="thresholds", bins=5, cv=3, n=4).fit(X, y)
    scores = steps.predict(X)
    np.testing.assert_allclose(sum(steps.contributions(X).values()) + scores.mean(), scores, atol=1e-9)


def test_rankers_of_queries_explain_as_well():
    rng = np.random.default_rng(4)
    X, qid = rng.normal(size=(80, 2)), np.repeat(np.arange(8), 10)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    for model in (cr.Ranker("list_net"), cr.RetargetingRanker()):
        model.fit(X, y, qid)
        found = model.explain(X[3])
        assert found.score == pytest.approx(model.predict(X[[3]])[0])
        assert found.mean == pytest.approx(model.predict(X).mean())


def test_a_pipeline_with_a_table_is_explained_by_its_columns():
    frame, y = table()
    frame = frame.astype({"code": int})
    model = make_pipeline(TableEncoder(), PushRanker(p=2)).fit(frame, y)
    found = model[0].explain(model[-1], frame.iloc[[5]])
    assert found.score == pytest.approx(model.predict(frame.iloc[[5]])[0])
    assert set(found.terms) == {"age", "city", "code", "member"}
    assert found.mean == pytest.approx(model.predict(frame).mean())
    with pytest.raises(ValueError, match="expected one row"):
        model[0].explain(model[-1], frame)


def test_the_figure_has_a_bar_for_each_term():
    terms = {f"x{j}": float(j) for j in range(5)}
    found = cr.features.Explanation.of(12.0, terms, dict.fromkeys(terms, 1.5))
    panel = plotting.explanation(found, most=2)
    labels = [label.get_text() for label in panel.get_yticklabels()]
    assert labels == ["3 others", "x3 = 1.5", "x4 = 1.5"]
    assert sorted(bar.get_width() for bar in panel.patches) == [3.0, 3.0, 4.0]
    with pytest.raises(TypeError, match="expected an Explanation"):
        plotting.explanation(terms)
    with pytest.raises(ValueError, match="no term"):
        plotting.explanation(cr.features.Explanation.of(1.0, {}, {}))


def test_a_pair_of_features_whose_names_have_an_and():
    values = {"rock and roll": 5, "jazz": 6}
    found = cr.features.Explanation.of(
        1.0, {"rock and roll and jazz": 1.0, "jazz and rock and roll": 0.5}, values
    )
    assert found.values == {"rock and roll and jazz": (5, 6), "jazz and rock and roll": (6, 5)}


def test_names_that_begin_alike_have_bars_of_their_own():
    terms = {f"{'a' * 40}{j}": float(j) for j in range(3)}
    panel = plotting.explanation(cr.features.Explanation.of(3.0, terms, terms))
    assert [bar.get_width() for bar in panel.patches] == [0.0, 1.0, 2.0]
    assert len(panel.get_yticklabels()) == 3


def test_what_is_not_explained():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(40, 2)), np.arange(40) % 2
    model = make_pipeline(StandardScaler(), PushRanker()).fit(X, y)[-1]
    with pytest.raises(ValueError, match="expected one row"):
        model.explain(X[:2])
    out_of_memory = PushRanker().fit(cr.data.Chunks([(X, y)]), None)
    with pytest.raises(ValueError, match="means are not kept"):
        out_of_memory.explain(X[0])
