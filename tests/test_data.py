"""Validation: what comes is taken as it is meant, or refused with what came, what was expected and a way out."""

from __future__ import annotations

import importlib.util
import math
from decimal import Decimal
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import sparse

import convexrank as cr
from convexrank.data import (
    check_binary_labels,
    check_choice,
    check_hashable,
    check_integer,
    check_matrix,
    check_nonnegative,
    check_pairs,
    check_positive,
    check_real,
    check_vector,
    check_weights,
)

NAN, INF = math.nan, math.inf


def test_a_refusal_is_a_sentence_for_the_user():
    """Every message of this module names the argument; the tables below check the rest."""
    for call in (
        lambda: check_matrix([1.0], "features"),
        lambda: check_vector([], None, "features"),
        lambda: check_binary_labels([1], None, "features"),
        lambda: check_weights([-1.0], 1, "features"),
        lambda: check_pairs([[0, 9]], 3, "features"),
        lambda: check_positive(0, "features"),
        lambda: check_nonnegative(-1, "features"),
        lambda: check_integer(0.5, "features", 1),
        lambda: check_choice("x", {"a": 1}, "features"),
        lambda: check_hashable([], "features"),
    ):
        with pytest.raises((ValueError, TypeError), match="features") as caught:
            call()
        assert str(caught.value).endswith((".", "features."))


# --- matrices -----------------------------------------------------------------------------------------------------

BAD_MATRICES = {
    "NaN": ([[NAN, 1.0]], r"1 NaN, 0 infinite entries\); drop or impute"),
    "infinity": ([[INF, 1.0]], "0 NaN, 1 infinite"),
    "both infinities": ([[INF, -INF]], "0 NaN, 2 infinite"),
    "many": ([[NAN, INF], [NAN, -INF]], "2 NaN, 2 infinite"),
    "one dimension": ([1.0, 2.0], r"Expected 2D array.*\(2,\).*reshape\(-1, 1\)"),
    "three dimensions": (np.zeros((2, 1, 1)), r"Expected 2D array.*\(2, 1, 1\)"),
    "a number": (3.0, r"Expected 2D array.*\(\)"),
    "None": (None, "Expected 2D array"),
    "no rows": (np.zeros((0, 2)), r"0 sample\(s\).*\(0, 2\)"),
    "no columns": (np.zeros((2, 0)), r"0 feature\(s\).*\(2, 0\)"),
    "empty": ([], "Expected 2D array"),
    "complex": ([[1j]], r"[Cc]omplex.*real"),
    "complex objects": (np.array([[1j]], dtype=object), "not numbers|[Cc]omplex"),
    "text": ([["a"]], "expected numbers; encode"),
    "numbers as text": ([["1"]], "expected numbers; encode"),
    "text among objects": (np.array([["1", 2]], dtype=object), "holds text, expected numbers"),
    "bytes": (np.array([[b"1"]], dtype=object), "holds text"),
    "one text": ("abc", "expected numbers"),
    "ragged": ([[1, 2], [3]], "rows of equal length"),
    "a dictionary": ({"a": 1}, "not numbers"),
    "None among numbers": ([[None, 1.0]], "1 NaN"),
    "an object": (np.array([[object()]], dtype=object), "not numbers"),
    "dates": (np.array([["2020-01-01"]], dtype="M8[D]"), r"datetime64\[D\] values, expected numbers"),
    "durations": (np.array([[1]], dtype="m8[s]"), "timedelta64"),
    "records": (np.zeros((2, 2), dtype=[("a", float)]), "expected numbers"),
    "masked": (np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), "masked"),
    "too large an integer": ([[10**400]], "too large"),
    "sparse NaN": (sparse.csr_array([[NAN, 0.0]]), "1 NaN"),
    "sparse infinity": (sparse.coo_array([[INF, 0.0]]), "1 infinite"),
    "sparse complex": (sparse.csr_array([[1j, 0.0]]), "[Cc]omplex"),
    "sparse vector": (sparse.coo_array(np.array([1.0, 0.0])), r"\(2,\), expected two dimensions"),
    "sparse without rows": (sparse.csr_array((0, 2)), "0 sample"),
    "sparse without columns": (sparse.csr_array((2, 0)), "0 feature"),
    "JAX NaN": (jnp.array([[jnp.nan]]), "1 NaN"),
}


@pytest.mark.parametrize("name", list(BAD_MATRICES))
def test_bad_matrices_are_refused(name):
    value, words = BAD_MATRICES[name]
    with pytest.raises((ValueError, TypeError), match=words):
        check_matrix(value)
    # and as what a user calls, for two problems of different families
    for make in (
        lambda: cr.problems.PNormPush(value, [0, 1], p=2),
        lambda: cr.problems.ConvexRisk(value, [0.0, 1.0]),
        lambda: cr.problems.CrucialPairs(value, [[0, 1]]),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            make()


def test_values_beyond_single_precision_are_refused_as_infinite():
    for X in ([[1e300]], sparse.csr_array([[1e300]])):
        with pytest.raises(ValueError, match="1 infinite"):
            check_matrix(X, dtype=np.float32)


GOOD_MATRICES = {
    "list": [[1, 2], [3, 0]],
    "tuples": ((1.0, 2.0), (3.0, 0.0)),
    "int8": np.array([[1, 2], [3, 0]], dtype=np.int8),
    "uint64": np.array([[1, 2], [3, 0]], dtype=np.uint64),
    "float16": np.array([[1, 2], [3, 0]], dtype=np.float16),
    "longdouble": np.array([[1, 2], [3, 0]], dtype=np.longdouble),
    "big-endian": np.array([[1, 2], [3, 0]], dtype=">f8"),
    "Fortran order": np.asfortranarray([[1.0, 2.0], [3.0, 0.0]]),
    "a view": np.array([[1.0, 9, 2, 9], [3, 9, 0, 9]])[:, ::2],
    "objects": np.array([[1, 2.0], [Fraction(3), Decimal(0)]], dtype=object),
    "matrix": np.asmatrix([[1.0, 2.0], [3.0, 0.0]]),
    "masked nowhere": np.ma.masked_array([[1.0, 2.0], [3.0, 0.0]], mask=False),
    "JAX": jnp.array([[1.0, 2.0], [3.0, 0.0]]),
    "csr": sparse.csr_matrix([[1.0, 2.0], [3.0, 0.0]]),
    "csc": sparse.csc_array([[1.0, 2.0], [3.0, 0.0]]),
    "coo with repeated entries": sparse.coo_array(([1.0, 1.0, 1.0, 3.0], ([0, 0, 0, 1], [0, 1, 1, 0]))),
    "lil": sparse.lil_array([[1.0, 2.0], [3.0, 0.0]]),
    "sparse integers": sparse.csr_array([[1, 2], [3, 0]]),
}


@pytest.mark.parametrize("name", list(GOOD_MATRICES))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_good_matrices_are_taken(name, dtype):
    value = GOOD_MATRICES[name]
    if name == "coo with repeated entries":
        value = sparse.coo_array(value, shape=(2, 2))
    X = check_matrix(value, dtype=dtype)
    assert X.dtype == np.dtype(dtype)
    assert sparse.issparse(X) is sparse.issparse(value)
    dense = X.toarray() if sparse.issparse(X) else X
    assert np.array_equal(dense, [[1.0, 2.0], [3.0, 0.0]])
    if sparse.issparse(X):
        assert X.format == "csr"
    else:
        assert type(X) is np.ndarray
        assert X.flags.c_contiguous


def test_booleans_are_the_numbers_zero_and_one():
    assert check_matrix([[True, False]]).tolist() == [[1.0, 0.0]]


def test_the_largest_numbers_are_finite():
    """Their sum is not, which a quick test would trip over."""
    X = np.full((3, 2), 1.7e308)
    assert check_matrix(X) is X
    assert check_vector(X.ravel()).size == 6
    assert check_matrix([[1.7e308, -1.7e308]]).shape == (1, 2)


def test_an_array_of_the_right_kind_is_not_copied_and_never_edited():
    X = np.ones((3, 2))
    assert check_matrix(X) is X
    frozen = np.ones((3, 2))
    frozen.flags.writeable = False
    assert check_matrix(frozen) is frozen
    source = np.array([[1, 2], [3, 4]])
    taken = check_matrix(source)
    taken[:] = 0.0
    assert source.tolist() == [[1, 2], [3, 4]]
    columns = sparse.csc_array([[1.0, 0.0], [0.0, 2.0]])
    before = columns.copy()
    check_matrix(columns).data[:] = 7.0
    assert (columns != before).nnz == 0


def test_sparse_data_stay_sparse():
    wide = sparse.random_array((50, 10**6), density=1e-6, rng=np.random.default_rng(0))
    assert check_matrix(wide).nnz == wide.nnz


@given(
    arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=4), elements=st.floats(allow_nan=True))
)
def test_finite_in_or_refused(X):
    if np.isfinite(X).all():
        assert np.array_equal(check_matrix(X), X)
    else:
        with pytest.raises(ValueError, match="NaN or infinity"):
            check_matrix(X)


# --- vectors ------------------------------------------------------------------------------------------------------

BAD_VECTORS = {
    "NaN": ([NAN, 1.0, 2.0], "1 NaN"),
    "infinities": ([INF, -INF, 0.0], "2 infinite"),
    "column": ([[1.0], [2.0], [3.0]], r"\(3, 1\), expected \(n,\); pass v\.ravel\(\)"),
    "row": ([[1.0, 2.0, 3.0]], r"\(1, 3\), expected one dimension"),
    "number": (1.0, r"shape \(\)"),
    "empty": ([], "empty; pass at least one"),
    "short": ([1.0, 2.0], "2 entries, expected 3, one for each row"),
    "long": ([1.0] * 4, "4 entries, expected 3"),
    "text": (["a", "b", "c"], "expected numbers"),
    "complex": ([1j, 0, 0], "[Cc]omplex.*v.real"),
    "None": ([None, 1.0, 2.0], "1 NaN"),
    "ragged": ([[1], [2, 3], [4]], "equal length"),
    "masked": (np.ma.masked_array([1.0, 2.0, 3.0], mask=[0, 0, 1]), "masked"),
}


@pytest.mark.parametrize("name", list(BAD_VECTORS))
def test_bad_vectors_are_refused(name):
    value, words = BAD_VECTORS[name]
    with pytest.raises((ValueError, TypeError), match=words):
        check_vector(value, 3, "v")


def test_good_vectors_are_taken():
    v = np.arange(3.0)
    assert check_vector(v, 3) is v
    for value in ([0, 1, 2], (0.0, 1.0, 2.0), jnp.arange(3), np.arange(3, dtype=np.int8), range(3)):
        assert check_vector(value, 3).tolist() == [0.0, 1.0, 2.0]
        assert check_vector(value, dtype=np.float32).dtype == np.float32


BAD_WEIGHTS = {
    "negative": ([1.0, -0.5], r"sample_weight\[1\] is -0.5, expected weights of at least 0"),
    "zero": ([0.0, 0.0], "zero everywhere"),
    "NaN": ([1.0, NAN], "1 NaN"),
    "infinity": ([1.0, INF], "1 infinite"),
    "minus infinity": ([1.0, -INF], "1 infinite"),
    "short": ([1.0], "1 entries, expected 2"),
    "column": ([[1.0], [1.0]], "ravel"),
    "text": (["a", "b"], "expected numbers"),
}


@pytest.mark.parametrize("name", list(BAD_WEIGHTS))
def test_bad_weights_are_refused(name):
    value, words = BAD_WEIGHTS[name]
    with pytest.raises((ValueError, TypeError), match=words):
        check_weights(value, 2)
    with pytest.raises((ValueError, TypeError), match=words):
        cr.problems.PNormPush([[0.0], [1.0]], [0, 1], p=2, sample_weight=value)


def test_good_weights_are_taken():
    assert check_weights(None, 2) is None
    for value in ([0, 1], [False, True], jnp.array([0.0, 1.0])):
        assert check_weights(value, 2).tolist() == [0.0, 1.0]


# --- labels -------------------------------------------------------------------------------------------------------

BAD_LABELS = {
    "one class": ([1, 1], r"1 class\(es\) \(1\), expected exactly two"),
    "three classes": ([0, 1, 2], r"3 class\(es\) \(0, 1, 2\).*ConvexRisk"),
    "many classes": (list(range(9)), r"9 class\(es\) \(0, 1, 2, 3, 4, \.\.\.\)"),
    "NaN": ([0, 1, NAN], "1 NaN"),
    "NaN alone": ([0, NAN], "1 NaN"),
    "infinity": ([0, INF], "1 infinite"),
    "None": ([0, None, 1], "1 NaN"),
    "text and numbers": (np.array(["a", 1], dtype=object), "mixes text and numbers"),
    "text and None": (np.array(["a", None], dtype=object), "expected a value in every row"),
    "empty": ([], "empty; pass at least one positive and one negative"),
    "column": ([[0], [1]], r"\(2, 1\), expected \(n,\); pass y\.ravel\(\)"),
    "two columns": ([[0, 1], [1, 0]], r"\(2, 2\), expected one dimension"),
    "number": (1, r"shape \(\)"),
    "complex": ([0, 1j], "[Cc]omplex.*labels such as 0 and 1"),
    "ragged": ([[0], [1, 2]], "equal length"),
    "sparse": (sparse.csr_array([[0, 1]]), "y is a sparse csr array, expected a dense one"),
    "missing date": (np.array(["2020", "NaT"], dtype="M8[Y]"), "NaT"),
    "too large": ([0, 10**400], "too large"),
    "masked": (np.ma.masked_array([0, 1, 2], mask=[0, 0, 1]), "masked"),
    "a dictionary": ({"a": 1}, "shape"),
}


@pytest.mark.parametrize("name", list(BAD_LABELS))
def test_bad_labels_are_refused(name):
    value, words = BAD_LABELS[name]
    with pytest.raises((ValueError, TypeError), match=words):
        check_binary_labels(value)


def test_labels_of_another_length_are_refused():
    with pytest.raises(ValueError, match="y has 2 entries, expected 3, one for each row"):
        check_binary_labels([0, 1], 3)


@pytest.mark.parametrize(
    "value",
    [
        [0, 1, 1],
        [-1, 1, 1],
        [False, True, True],
        [0.0, 2.5, 2.5],
        ["no", "yes", "yes"],
        np.array(["no", "yes", "yes"], dtype=object),
        [b"a", b"b", b"b"],
        np.array([False, True, True], dtype=object),
        np.array([0, 1.0, Fraction(1)], dtype=object),
        np.array([0, 1, 1], dtype=np.uint8),
        np.array(["2020", "2021", "2021"], dtype="M8[Y]"),
        jnp.array([0, 1, 1]),
        (-0.0, 1.0, 1.0),
    ],
)
def test_two_classes_of_any_kind(value):
    before = np.array(value, copy=True)
    labels = check_binary_labels(value, 3)
    assert labels.dtype == bool
    assert labels.tolist() == [False, True, True]
    assert np.array_equal(np.asarray(value), before)


def test_zero_has_one_sign():
    assert check_binary_labels([0.0, -0.0, 1.0]).tolist() == [False, False, True]


# --- pairs --------------------------------------------------------------------------------------------------------

BAD_PAIRS = {
    "below the range": ([[0, 1], [-1, 0]], r"pairs\[1\] = \[-1, 0\], expected rows of X, in 0\.\.2"),
    "above the range": ([[0, 3]], r"pairs\[0\] = \[0, 3\], expected rows"),
    "far above": (np.array([[2**63 + 5, 0]], dtype=np.uint64), "expected rows of X"),
    "itself": ([[0, 1], [1, 1]], r"pairs\[1\] = \[1, 1\] ranks a row above itself; drop"),
    "floats": ([[0.0, 1.0]], "float64 values, expected integer row numbers"),
    "NaN": ([[NAN, 1]], "expected integer"),
    "booleans": ([[True, False]], "bool values, expected integer"),
    "text": ([["a", "b"]], "expected integer"),
    "objects": (np.array([[0, 1]], dtype=object), "expected integer"),
    "too large": ([[10**30, 0]], "expected integer"),
    "empty": ([], r"shape \(0,\), expected \(m, 2\)"),
    "no pairs": (np.zeros((0, 2), dtype=int), r"\(0, 2\), expected \(m, 2\) with m >= 1"),
    "one pair flat": ([0, 1], r"shape \(2,\)"),
    "triples": ([[0, 1, 2]], r"shape \(1, 3\)"),
    "ragged": ([[0], [1, 2]], "equal length"),
    "None": (None, r"shape \(\)"),
}


@pytest.mark.parametrize("name", list(BAD_PAIRS))
def test_bad_pairs_are_refused(name):
    value, words = BAD_PAIRS[name]
    with pytest.raises((ValueError, TypeError), match=words):
        check_pairs(value, 3)
    with pytest.raises((ValueError, TypeError), match=words):
        cr.problems.CrucialPairs([[0.0], [1.0], [2.0]], value)


@pytest.mark.parametrize(
    "value", [[[2, 0], [0, 1]], np.array([[2, 0], [0, 1]], dtype=np.uint8), jnp.array([[2, 0], [0, 1]])]
)
def test_good_pairs_are_taken(value):
    pairs = check_pairs(value, 3)
    assert pairs.dtype == np.int64
    assert pairs.tolist() == [[2, 0], [0, 1]]


# --- numbers ------------------------------------------------------------------------------------------------------

NO_NUMBERS = [
    True, np.bool_(True), np.array(True), jnp.array(True), "1", None, 1j, np.complex128(1), [1.0], np.array([1.0]),
    np.array("1"), np.datetime64("2020"), np.timedelta64(1, "s"), object(),
]  # fmt: skip


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: f"{type(value).__name__} {value}"[:24])
@pytest.mark.parametrize("check", [check_positive, check_nonnegative, check_real])
def test_what_is_no_number_is_refused(value, check):
    with pytest.raises(TypeError, match=r"p is .* of type .*, expected a real number"):
        check(value, "p")


@pytest.mark.parametrize(
    "value",
    [
        2,
        2.0,
        np.float32(2),
        np.int8(2),
        np.uint64(2),
        Fraction(2),
        Decimal(2),
        np.array(2.0),
        jnp.array(2.0),
        np.longdouble(2),
    ],
)
@pytest.mark.parametrize("check", [check_positive, check_nonnegative, check_real])
def test_numbers_of_any_kind_are_taken(value, check):
    assert check(value, "p") == 2.0
    assert type(check(value, "p")) is float


@pytest.mark.parametrize("value", [0, -0.0, -1, -1e-300, NAN, INF, -INF, np.float32("nan"), 10**400])
def test_numbers_that_are_not_positive(value):
    with pytest.raises(ValueError, match="p is"):
        check_positive(value, "p")


@pytest.mark.parametrize("value", [-1, -1e-300, NAN, INF, -INF, 10**400])
def test_numbers_that_are_negative(value):
    with pytest.raises(ValueError, match="l2 is"):
        check_nonnegative(value, "l2")


def test_limits():
    assert check_nonnegative(0, "l2") == 0.0
    assert check_positive(1e-300, "p") == 1e-300
    for extreme in (5e-324, 1e-310, 1e301, 1.7e308):
        for check in (check_positive, check_nonnegative):
            with pytest.raises(ValueError, match=r"p is .*, expected a number from 1e-300 to 1e\+300"):
                check(extreme, "p")
    for long in (10**5000, Decimal("sNaN"), Fraction(10**400)):
        with pytest.raises(ValueError, match="p is no floating-point number, or too large"):
            check_real(long, "p")
    with pytest.raises(
        ValueError, match="n is of type int, of 16610 bits, expected an integer of at least 1"
    ):
        check_integer(-(10**5000), "n", 1)
    assert check_positive(INF, "time", infinite=True) == INF
    with pytest.raises(ValueError, match="finite number greater than 0"):
        check_positive(INF, "p")
    with pytest.raises(ValueError, match="nan, expected a number greater than 0"):
        check_positive(NAN, "time", infinite=True)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (True, TypeError, "bool"),
        (np.bool_(True), TypeError, "bool"),
        (np.timedelta64(1, "s"), TypeError, "timedelta64"),
        (1.0, TypeError, "float"),
        (NAN, TypeError, "float"),
        (np.array(1.0), TypeError, "ndarray"),
        (np.array(True), TypeError, "ndarray"),
        (np.array([1]), TypeError, "ndarray"),
        ("1", TypeError, "str"),
        (None, TypeError, "NoneType"),
        (0, ValueError, "n is 0, expected an integer of at least 1"),
        (-(10**30), ValueError, "at least 1"),
    ],
)
def test_bad_integers_are_refused(value, error, words):
    with pytest.raises(error, match=words):
        check_integer(value, "n", 1)


def test_good_integers_are_taken():
    for value in (3, np.int64(3), np.uint8(3), np.array(3), np.array(3, dtype=np.uint8)):
        assert check_integer(value, "n", 1) == 3
        assert type(check_integer(value, "n", 1)) is int


@pytest.mark.parametrize("value", ["b", "A", "", None, 1, ["a"], ("a",)])
def test_unknown_choices_list_the_known(value):
    with pytest.raises(ValueError, match=r"solver is .*, expected one of: a, c\."):
        check_choice(value, {"c": 2, "a": 1}, "solver")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("score-07", "close to it: score-7,"),
        ("SCORE-12 ", "close to it: score-12,"),
        ("ore-33", "close to it: .*score-33"),
        ("price", "no name is close to it; one is 'score-0'"),
        ("", "no name is close to it"),
        (None, "no name is close to it"),
    ],
)
def test_of_many_choices_the_close_ones_are_named(value, hint):
    choices = {f"score-{number}": number for number in range(60)}
    with pytest.raises(ValueError, match=rf"names is .*, expected one of 60 names; {hint}"):
        check_choice(value, choices, "names")


def test_known_choices_are_looked_up():
    assert check_choice("a", {"a": 1}, "solver") == 1


# --- through the problems -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0, -1, NAN, INF, True, "2", None, [2]])
def test_a_bad_power_is_refused_by_every_problem_that_has_one(p):
    for make in (
        lambda: cr.problems.PNormPush([[0.0], [1.0]], [0, 1], p),
        lambda: cr.problems.BottomPush([[0.0], [1.0]], [0, 1], p),
        lambda: cr.problems.TopBottomPush([[0.0], [1.0]], [0, 1], p),
        lambda: cr.prices.Power(p),
    ):
        with pytest.raises((ValueError, TypeError), match=r"^p is "):
            make()


@pytest.mark.parametrize("name", ["l1_ball", "l2_ball"])
@pytest.mark.parametrize("value", [0, -1, NAN, INF, True, "1"])
def test_a_bad_ball_is_refused(name, value):
    with pytest.raises((ValueError, TypeError)):
        cr.problems.ConvexRisk([[0.0], [1.0]], [0.0, 1.0], **{name: value})


def test_messages_do_not_come_from_below():
    """Lengths that differ are found before any arithmetic fails on them."""
    with pytest.raises(ValueError, match="y has 3 entries, expected 2"):
        cr.problems.PNormPush([[0.0], [1.0]], [0, 1, 1], p=2)
    with pytest.raises(ValueError, match="y has 3 entries, expected 2"):
        cr.problems.ConvexRisk([[0.0], [1.0]], [0.0, 1.0, 2.0])
    problem = cr.problems.PNormPush([[0.0], [1.0]], [0, 1], p=2)
    with pytest.raises(ValueError, match="w has 2 entries, expected 1"):
        problem.objective([1.0, 2.0])
    with pytest.raises(ValueError, match="x0 has 3 entries, expected 1"):
        problem.solve(x0=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="NaN"):
        problem.solve(x0=[NAN])


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="pandas is not installed")
def test_pandas_objects_are_taken():
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, 1.0, 2.0]})
    assert check_matrix(frame).tolist() == [[1.0, 0.5], [2.0, 1.0], [3.0, 2.0]]
    assert check_binary_labels(pd.Series(["no", "yes", "yes"])).tolist() == [False, True, True]
    assert check_binary_labels(pd.Series(["no", "yes", "yes"], dtype="category")).tolist() == [
        False,
        True,
        True,
    ]
    assert check_vector(pd.Series([1, 2, 3]), 3).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises((ValueError, TypeError)):
        check_matrix(pd.DataFrame({"a": ["x", "y"]}))
    with pytest.raises((ValueError, TypeError)):
        check_matrix(pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}))
