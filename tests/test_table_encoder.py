"""TableEncoder: kinds of columns, gaps, what is refused, against plain loops and scikit-learn's checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from convexrank import PushRanker, TableEncoder
from tests.tolerances import tolerance

WORDS = ["paid by card in the shop", "wire transfer to a new account", "refund of goods that were bought"]


@parametrize_with_checks([TableEncoder(rarest=1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def frame(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "amount": np.where(rng.random(n) < 0.2, np.nan, rng.lognormal(size=n)),
        "city": rng.choice(np.array(["Rome", "Oslo", "Bonn", None], dtype=object), n),
        "note": rng.choice(WORDS, n),
        "known": rng.random(n) < 0.5,
        "id": [f"c{i}" for i in range(n)],
        "constant": 3.0,
    })  # fmt: skip


def features(table, **options):
    encoder = TableEncoder(**options).fit(table)
    found = encoder.transform(table)
    return encoder, found if isinstance(found, np.ndarray) else found.toarray()


def test_columns_are_those_of_plain_loops():
    table = frame()
    encoder, found = features(table)
    assert encoder.kinds_ == {"amount": "number", "city": "category", "note": "text", "known": "number"}
    assert encoder.left_out_ == {"id": "no value is in 5 rows or more", "constant": "it has one value"}
    names = list(encoder.get_feature_names_out())
    assert found.shape == (60, len(names))
    there = [a for a in table["amount"] if not np.isnan(a)]
    median = (
        sorted(there)[len(there) // 2]
        if len(there) % 2
        else np.mean(sorted(there)[len(there) // 2 - 1 :][:2])
    )
    filled = [median if np.isnan(a) else a for a in table["amount"]]
    mean, spread = sum(filled) / 60, (sum(a * a for a in filled) / 60 - (sum(filled) / 60) ** 2) ** 0.5
    expected = [(a - mean) / spread for a in filled]
    assert np.allclose(found[:, names.index("amount")], expected, rtol=tolerance("summation"))
    for city in ("Rome", "Oslo", "Bonn", None):
        column = found[:, names.index(f"city = {'(missing)' if city is None else city}")]
        assert column.tolist() == [
            float(entry == city or (city is None and pd.isna(entry))) for entry in table["city"]
        ]
    assert (found[:, names.index("note has refund")] > 0).tolist() == [
        "refund" in note for note in table["note"]
    ]


def test_a_table_of_texts_becomes_a_frame_where_sparse_columns_are_not_wanted():
    table = frame()
    options = {"rarest": 3, "drop": ["amount", "known"]}  # what is left has more zeros than not
    plain, expected = features(table, **options)
    assert not isinstance(plain.transform(table), np.ndarray)
    framed = TableEncoder(**options, sparse_output=False).set_output(transform="pandas").fit(table)
    found = framed.transform(table)
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == list(plain.get_feature_names_out())
    np.testing.assert_array_equal(found.to_numpy(), expected)
    weights = np.arange(1.0, 1 + found.shape[1])
    terms = [encoder.contributions(weights, table) for encoder in (plain, framed)]
    assert list(terms[0]) == list(terms[1])
    for ours, theirs in zip(*(part.values() for part in terms), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance("summation"), atol=tolerance("summation"))
    ranker = PushRanker().fit(found, table["city"] == "Rome")
    assert set(framed.explain(ranker, table.iloc[[0]]).terms) == set(terms[0])


def test_texts_are_read_as_the_numbers_that_they_are():
    """A file has texts only: gaps are empty, and numbers are written in digits."""
    table = frame()
    written = {
        name: ["" if pd.isna(entry) else str(entry) for entry in table[name]] for name in ("amount", "city")
    }
    one, two = (features(part)[1] for part in (table[["amount", "city"]], written))
    assert np.allclose(one, two, rtol=tolerance("summation"))
    array = np.array(list(written.values()), dtype=object).T
    assert np.allclose(features(array)[1], two, rtol=tolerance("summation"))


@pytest.mark.parametrize(
    "days",
    [
        pd.date_range("2024-01-01", periods=6),
        ["2024-01-01", "2024-2-03", "", "2024-01-04T10:00:00", "2024-01-04 10:00", "2024-01-06"],
        ["1.2.2024", "1/2/24", "13.12.2024", "1-2-2024", None, "1/2/2024 10:11"],
        [pd.Timestamp("2024-01-01").date()] * 6,
        pd.period_range("2024-01", periods=6, freq="M"),
        ["3 Jan 2024", "03-Jan-24", "3. January 2024", "Jan 3, 2024", "unknown", "3 May 2024"],
        [
            "1/3/2024 12:10:00 AM",
            "2024/1/3",
            "2024-01-03 10:00 UTC",
            "2024-01-03T10:00:00.1Z",
            "?",
            "2024.01.03",
        ],
    ],
)
def test_dates_are_refused_all_at_once_and_by_name(days):
    table = {"day": days, "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "last": days}
    with pytest.raises(ValueError, match=r"the columns \['day', 'last'\] hold dates.*--drop day,last"):
        TableEncoder().fit(table)
    assert list(TableEncoder(drop=["day", "last"]).fit(table).kinds_) == ["x"]


def test_what_looks_nearly_like_a_date_is_none():
    assert TableEncoder(rarest=1).fit({"a": ["1.2.3", "4.5.6", "1.2.3"]}).kinds_ == {"a": "category"}
    assert TableEncoder(rarest=1).fit({"a": ["2024-01-01", "never", "never"]}).kinds_ == {"a": "category"}
    assert TableEncoder(rarest=1).fit({"a": ["10 20 30", "10 20 31"]}).kinds_ == {"a": "text"}


@pytest.mark.parametrize(
    "entries", [["31,40", "7", "1"], ["$7.10", "7", "1"], ["1 000", "1,000.5", "7"], ["10%", "5 %", "-3%"]]
)
def test_numbers_that_are_written_otherwise_are_refused_with_dates_and_by_name(entries):
    table = {"sum": [*entries, ""], "x": [1.0, 2.0, 3.0, 4.0], "day": ["2024-01-01"] * 4}
    message = r"\['day'\] hold dates.*\['sum'\] hold numbers, and entries such as \['.+'\]"
    with pytest.raises(ValueError, match=message):
        TableEncoder(rarest=1).fit(table)
    encoder = TableEncoder(rarest=1, drop=["day"], categories=["sum"]).fit(table)
    assert encoder.kinds_ == {"sum": "category", "x": "number"}


def test_commas_are_decimal_signs_where_that_is_said():
    encoder, found = features({"a": ["1,5", "2", "", "-3,25"]}, rarest=1, decimal=",")
    assert np.array_equal(found, features({"a": ["1.5", "2", "", "-3.25"]}, rarest=1)[1])
    assert np.array_equal(encoder.transform({"a": [1.5]}), encoder.transform({"a": ["1,5"]}))
    for entry in ("1.5", "1.234,5"):
        with pytest.raises(ValueError, match="write them with ',' as in the fit"):
            encoder.transform({"a": [entry]})
    with pytest.raises(ValueError, match=r"\['a'\] hold numbers, and entries such as \['1.5'\]"):
        TableEncoder(decimal=",").fit({"a": ["1.5", "2"]})


def test_words_among_many_numbers_are_refused():
    numbers = [str(i / 7) for i in range(120)]
    with pytest.raises(ValueError, match=r"\['a'\] hold numbers, and entries such as \['unknown'\]"):
        TableEncoder().fit({"a": [*numbers, "unknown", "none"]})
    sizes = [str(i % 12) for i in range(120)]  # few numbers are names
    assert TableEncoder().fit({"a": [*sizes, "XL"]}).kinds_ == {"a": "category"}


def test_numbers_that_are_too_large_are_refused():
    numbers = [str(i) for i in range(120)]
    for entry in (10**400, "1e300", "inf"):
        with pytest.raises(ValueError, match=r"\['a'\] hold numbers, and entries such as \[(inf|1e\+300)\]"):
            TableEncoder().fit({"a": [*numbers, entry]})


def test_columns_without_a_name_are_no_features():
    table = pd.DataFrame({"": range(6), "Unnamed: 0": range(6), "x": [1, 2, 3, 1, 2, 3]})
    encoder = TableEncoder().fit(table)
    assert encoder.kinds_ == {"x": "number"}
    assert encoder.left_out_ == dict.fromkeys(["", "Unnamed: 0"], "it has no name")


def test_names_that_python_alone_reads_as_numbers_are_categories():
    encoder = TableEncoder().fit({"size": np.array(["1_1", "1_2", "2_1"] * 6, dtype=object)}, [0, 1] * 9)
    assert list(encoder.get_feature_names_out()) == ["size = 1_1", "size = 1_2", "size = 2_1"]


def test_numbers_that_are_names_are_categories_where_that_is_said():
    table = {"code": [1, 2, 1, 2, 1, 2, 3]}
    assert TableEncoder(rarest=2).fit(table).kinds_ == {"code": "number"}
    encoder, found = features(table, rarest=2, categories=["code"])
    assert list(encoder.get_feature_names_out()) == ["code = 1", "code = 2", "code = another value"]
    assert found.tolist() == [[float(c == 1), float(c == 2), float(c == 3)] for c in table["code"]]


def test_later_rows_may_have_other_columns_gaps_and_values():
    table = frame()
    encoder = TableEncoder().fit(table)
    later = table.iloc[:3].assign(extra=1.0, city="Paris", amount=np.nan)[::-1]
    found = encoder.transform(later[["extra", *table.columns[::-1]]])
    found = found if isinstance(found, np.ndarray) else found.toarray()
    names = list(encoder.get_feature_names_out())
    assert found[:, [j for j, name in enumerate(names) if name.startswith("city")]].sum() == 0.0
    assert found[:, names.index("amount is missing")].min() > 0.0
    with pytest.raises(ValueError, match=r"no columns \['amount', 'note'\]"):
        encoder.transform(later.drop(columns=["amount", "note"]))
    with pytest.raises(ValueError, match=r"\{'amount': 'many'\} in columns of numbers"):
        encoder.transform(later.assign(amount="many"))
    with pytest.raises(ValueError, match=r"\{'amount': inf, 'known': inf\}"):
        encoder.transform(later.assign(amount=np.inf, known=np.inf))


def test_contributions_sum_to_the_score_beside_its_mean():
    table, rng = frame(), np.random.default_rng(1)
    encoder, found = features(table)
    weights = rng.normal(size=found.shape[1])
    parts = encoder.contributions(weights, table)
    assert list(parts) == list(encoder.kinds_)
    scores = found @ weights
    assert np.allclose(sum(parts.values()), scores - scores.mean(), atol=tolerance("summation"))
    names = list(encoder.get_feature_names_out())
    cities = [j for j, name in enumerate(names) if name.startswith("city")]
    for i in range(5):
        alone = sum(weights[j] * (found[i, j] - sum(found[:, j]) / 60) for j in cities)
        assert parts["city"][i] == pytest.approx(alone, abs=tolerance("summation"))
    with pytest.raises(ValueError, match="weights"):
        encoder.contributions(weights[:-1], table)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"a": [1, 1]}, {}, "no column with something to learn from"),
        ({"a": [1, 2], "b": [1, 2, 3]}, {}, "lengths"),
        ({}, {}, "lengths"),
        ({"a": [1, 2]}, {"drop": ["b"]}, "drop has"),
        ({"a": [1, 2]}, {"categories": ["b"]}, "categories has"),
        ({"a": [1, 2]}, {"rarest": 0}, "rarest"),
        ({"a": [1, 2]}, {"most": 1}, "most"),
        ({"a": [1, 2]}, {"decimal": ";"}, "decimal"),
        ({"a": [1]}, {}, "1 sample"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), {}, "column 'a' twice"),
        (pd.DataFrame({"a": [1e300, 1.0]}), {}, r"\{'a': 1e\+300\} in columns of numbers"),
    ],
)
def test_bad_input_is_refused(table, options, message):
    with pytest.raises(ValueError, match=message):
        TableEncoder(**options).fit(table)


@given(
    st.lists(
        st.one_of(st.none(), st.floats(-1e6, 1e6), st.sampled_from(["x", "?", "y z"])),
        min_size=2,
        max_size=30,
    )
)
def test_any_column_is_encoded_or_refused(entries):
    if len({None if entry == "?" else entry for entry in entries}) == 1:
        with pytest.raises(ValueError, match="no column with something to learn from"):
            TableEncoder(rarest=1).fit({"a": entries})
        return
    encoder, found = features({"a": entries}, rarest=1)
    assert np.isfinite(found).all()
    assert found.shape == (len(entries), len(encoder.get_feature_names_out()))
    assert encoder.kinds_["a"] == ("number" if not {"x", "y z"} & set(entries) else "category")


def test_a_pipeline_ranks_a_data_frame():
    table = frame(400)
    y = (table["amount"].fillna(2.0) + (table["city"] == "Oslo") > 2.0).to_numpy()
    model = make_pipeline(TableEncoder(), PushRanker(2, l2=1e-3))
    assert cross_val_score(model, table, y, cv=4).min() > 0.8


@pytest.mark.parametrize("options", [{}, {"features": "thresholds", "bins": 4, "l1": 1e-3}])
def test_a_ranker_says_which_label_is_missing(options):
    table = frame(40)
    X = table if options else table[["amount"]].fillna(0.0)
    y = pd.Series(["yes", "no"] * 20).where(X.index != 7)
    with pytest.raises(ValueError, match=r"y\[7\] is nan, expected a value in every row; drop the 1 row"):
        PushRanker(**options).fit(X, y)


def test_durations_are_refused_as_dates_are():
    with pytest.raises(ValueError, match=r"\['since'\] hold dates"):
        TableEncoder().fit(pd.DataFrame({"since": pd.to_timedelta(np.arange(40) % 4, unit="D")}))


def test_codes_with_gaps_are_the_codes_without():
    """Where a column has gaps pandas makes floats of integers: 1.0 is the category 1."""
    codes = pd.DataFrame({"code": np.array(["1", "2", "A"])[np.arange(30) % 3]})
    encoder = TableEncoder().fit(codes)
    later = encoder.transform(pd.DataFrame({"code": [1.0, 2.0, np.nan]}))
    later = later if isinstance(later, np.ndarray) else later.toarray()
    expected = encoder.transform(codes.iloc[:2])
    expected = expected if isinstance(expected, np.ndarray) else expected.toarray()
    assert np.array_equal(later[:2], expected)
    assert not np.array_equal(later[0], later[1])
