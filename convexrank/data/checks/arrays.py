"""Checks of arrays: matrices, vectors, labels, weights, pairs and groups."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import held_as
from convexrank.data.checks.values import LARGEST, SMALLEST
from convexrank.data.frames import as_csr, codes_of, is_missing, refuse_missing
from convexrank.data.messages import shown

Matrix = Any  # a float ndarray of shape (n, d), or a scipy CSR array of that shape


def read_array(value: Any, name: str) -> np.ndarray:
    """Read as an array, of any shape and type, or say why that is impossible."""
    if np.ma.is_masked(value):
        raise ValueError(f"{name} is a masked array with masked entries; drop those rows, or fill them in.")
    if sparse.issparse(value):
        raise TypeError(
            f"{name} is a sparse {value.format} array, expected a dense one; pass {name}.toarray()."
        )
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"{name} could not be read as an array ({error}); pass rows of equal length."
        ) from error
    except Exception as error:
        raise TypeError(
            f"{name} could not be read as an array ({type(error).__name__}: {error}), expected numbers or text."
        ) from error


def _real_array(value: Any, name: str, dtype: Any) -> np.ndarray:
    """Convert to a real numeric array or say why that is impossible."""
    array = read_array(value, name)
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is complex; pass its real part, {name}.real.")
    if array.dtype.kind == "O":
        if any(isinstance(entry, str | bytes) for entry in array.flat):
            raise ValueError(f"{name} holds text, expected numbers; encode it as numbers first.")
        array = missing_as_nan(array)
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            message = f"{name} has entries that are not numbers ({error}); convert them to floats first."
            raise (TypeError if isinstance(error, TypeError) else ValueError)(message) from error
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} holds {array.dtype} values, expected numbers; encode text or dates as numbers first."
        )
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused as that
        return array.astype(dtype, copy=False)


def check_real_array(value: Any, name: str) -> np.ndarray:
    """Return an array of real numbers as it is, of any shape; NaN and infinity pass.

    Raises
    ------
    ValueError, TypeError
        When it holds anything but real numbers.
    """
    array = read_array(value, name)
    return array if array.dtype.kind in "biuf" else _real_array(array, name, np.float64)


def missing_as_nan(array: np.ndarray) -> np.ndarray:
    """Turn what data frames put for missing entries of nullable columns into NaN, which is refused as that."""
    missing = np.array([is_missing(entry) for entry in array.flat], dtype=bool).reshape(array.shape)
    return np.where(missing, np.nan, array) if missing.any() else array


def _refuse_non_finite(values: np.ndarray, name: str) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(np.sum(values)) if values.size else 0.0
    if not math.isfinite(total) and not np.isfinite(values).all():
        nan, infinite = int(np.isnan(values).sum()), int(np.isinf(values).sum())
        raise ValueError(
            f"{name} contains NaN or infinity ({nan} NaN, {infinite} infinite entries); "
            "drop or impute those rows before solving."
        )


def _refuse_merged(values: Any, vector: np.ndarray, name: str) -> None:
    """Refuse different integers of 2**53 or more that are one float: they would be ties."""
    if float(np.abs(vector).max()) < 2.0**53:  # below each integer is a float: nothing is read twice
        return
    given = read_array(values, name)
    if given.dtype.kind in "iuO" and len(set(given.tolist())) > len(set(vector.tolist())):
        raise ValueError(
            f"{name} has different integers of 2**53 or more that are one float; subtract a common number, or pass "
            "their ranks."
        )


def check_matrix(X: Any, name: str = "X", dtype: Any = np.float64, most: float = math.inf) -> Matrix:
    """Return X as a finite real matrix: a C-ordered ndarray, or a CSR array when X is sparse (never densified).

    Parameters
    ----------
    X : array-like or scipy sparse, shape (n, d)
        The data, one row per example. JAX arrays are accepted. A design, whose columns are never built, is returned as
        it is.
    name : str
        Name of the argument in messages.
    dtype : dtype
        Floating type of the result.
    most : float
        The largest absolute value that an entry may have.

    Raises
    ------
    ValueError, TypeError
        When X is not two-dimensional, empty, not numeric, complex, or has NaN, infinite or too large entries; when the
        arrays of a sparse X do not fit together.
    """
    if not held_as(X).built:
        if dtype != np.float64:
            raise ValueError(
                f"{name} is {shown(X)}, whose products are made in float64; leave dtype at 'float64'."
            )
        return X
    if sparse.issparse(X):
        if X.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: {name} is complex; pass its real part.")
        if X.ndim != 2:
            raise ValueError(f"{name} has shape {X.shape}, expected two dimensions (n, d).")
        matrix = as_csr(X, name, dtype)
        values = matrix.data
    else:
        matrix = _real_array(X, name, dtype)
        if matrix.ndim != 2:
            hint = (
                f"; Reshape your data: {name}.reshape(-1, 1) if it has one feature"
                if matrix.ndim == 1
                else ""
            )
            raise ValueError(
                f"Expected 2D array for {name}: shape (n, d), one row per example; got shape {matrix.shape}{hint}."
            )
        matrix = np.ascontiguousarray(matrix)
        values = matrix
    rows, columns = matrix.shape  # type: ignore[misc]  # two-dimensional, as checked
    if rows == 0:
        raise ValueError(
            f"Found array with 0 sample(s): {name} has shape {matrix.shape}; pass at least one row."
        )
    if columns == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={matrix.shape}) while a minimum of 1 is required for {name}: "
            "pass at least one."
        )
    flat = values.ravel()  # a view: what is here is contiguous
    with np.errstate(over="ignore", invalid="ignore"):
        squares = float(flat @ flat)
    if squares < most * most:  # one pass, and all is well
        return matrix
    _refuse_non_finite(values, name)
    if most < math.inf and values.size and (largest := max(float(values.max()), -float(values.min()))) > most:
        raise ValueError(
            f"{name} has an entry of size {largest:.3g}, whose products overflow; expected at most {most:g}: take "
            "other units for its column."
        )
    return matrix


def check_vector(
    values: Any,
    length: int | None = None,
    name: str = "scores",
    dtype: Any = np.float64,
    each: str = "row",
    most: float = math.inf,
) -> np.ndarray:
    """Return a finite real vector, of the given length when one is given: one value for ``each`` row, column, ….

    With ``most`` no entry may be larger in size.

    Raises
    ------
    ValueError, TypeError
        When the values are not one-dimensional, empty, not numeric, not finite, too large, or of another length; when
        different integers would be one float.
    """
    if (
        type(values) is np.ndarray
        and values.dtype == dtype
        and values.ndim == 1
        and (length is None or len(values) == length)
        and most == math.inf
    ):
        # the usual case, without detours: solvers ask at each step
        if len(values) and np.isfinite(values).all():
            return values
    vector = _real_array(values, name, dtype)
    _check_vector_shape(vector, length, name, each)
    _refuse_non_finite(vector, name)
    _refuse_merged(values, vector, name)
    if most < math.inf and (largest := float(np.abs(vector).max())) > most:
        raise ValueError(
            f"{name} has an entry of size {largest:.3g}, whose products overflow; expected at most {most:g}: divide "
            f"{name} by a common factor."
        )
    return vector


def _check_vector_shape(
    vector: np.ndarray, length: int | None, name: str, each: str, kind: str = "", least: str = "one value"
) -> None:
    if vector.ndim == 2 and vector.shape[1] == 1:
        raise ValueError(f"{name} has shape {vector.shape}, expected (n,); pass {name}.ravel().")
    if vector.ndim != 1:
        raise ValueError(f"{name} has shape {vector.shape}, expected one dimension (n,){kind}.")
    if vector.size == 0:
        raise ValueError(f"{name} is empty; pass at least {least}.")
    _check_length(vector, length, name, each)


def _check_length(vector: np.ndarray, length: int | None, name: str, each: str = "row") -> None:
    if length is not None and vector.shape[0] != length:
        raise ValueError(
            f"{name} has {vector.shape[0]} entries, expected {length}, one for each {each}; "
            f"pass arrays that describe the same {each}s."
        )


def check_binary_labels(y: Any, length: int | None = None, name: str = "y") -> np.ndarray:
    """Return a boolean vector, True where the label is the positive one.

    Accepted are {0, 1}, {-1, +1}, booleans, or any two distinct numbers or strings: the larger one (in sorted
    order, or in that of an ordered categorical) is the positive class.

    Raises
    ------
    ValueError
        When y is not one-dimensional, has NaN, another length, or does not have exactly two classes.
    """
    codes = codes_of(y)
    # the order of categories is the caller's, not the alphabet's
    if codes is not None and (codes >= 0).all():
        y = codes
    labels = read_array(y, name)
    what = ", one label for each row", "one positive and one negative label"
    _check_vector_shape(labels, length, name, "row", *what)
    if labels.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is complex; pass labels such as 0 and 1.")
    if labels.dtype.kind == "O":
        if any(isinstance(value, str) for value in labels):
            refuse_missing(labels, name)
        kinds = {str if isinstance(value, str) else float for value in labels.tolist()}
        if len(kinds) > 1:
            raise ValueError(f"{name} mixes text and numbers; pass labels of one kind.")
        labels = labels.astype(str) if kinds == {str} else _real_array(labels, name, np.float64)
    if labels.dtype.kind == "f":
        _refuse_non_finite(labels, name)
    if labels.dtype.kind in "mM" and np.isnat(labels).any():
        raise ValueError(f"{name} has missing dates (NaT); drop those rows before solving.")
    if labels.dtype.kind in "biuf":  # sorting takes longer
        lowest, highest = labels.min(), labels.max()
        positive = labels == highest
        if lowest < highest and bool((positive | (labels == lowest)).all()):
            return positive
    classes = np.unique(labels)
    if len(classes) != 2:
        listed = ", ".join(str(value) for value in classes[:5]) + (", ..." if len(classes) > 5 else "")
        raise ValueError(
            f"{name} has {len(classes)} class(es) ({listed}), expected exactly two; this problem ranks positives "
            "above negatives. For graded labels see problems.ConvexRisk."
        )
    return labels == classes[1]


def check_weights(weights: Any, length: int, name: str = "sample_weight") -> np.ndarray | None:
    """Return non-negative finite row weights, or None when none were given (all rows count once)."""
    if weights is None:
        return None
    vector = check_vector(weights, length, name)
    if (vector < 0).any():
        place = int(np.argmax(vector < 0))
        raise ValueError(f"{name}[{place}] is {vector[place]}, expected weights of at least 0.")
    if not vector.any():
        raise ValueError(f"{name} is zero everywhere; give the rows that count a weight greater than 0.")
    _refuse_extreme_weights(vector[vector > 0], name)
    return vector


def check_positive_weights(weights: Any, length: int, name: str = "weights") -> np.ndarray | None:
    """Return finite weights greater than zero, or None when none were given (all rows count once).

    Raises
    ------
    ValueError, TypeError
        When a weight is zero, negative or not finite, or their number is another.
    """
    if weights is None:
        return None
    vector = check_vector(weights, length, name)
    if (vector <= 0).any():
        place = int(np.argmax(vector <= 0))
        raise ValueError(
            f"{name}[{place}] is {vector[place]:g}, expected weights greater than 0; drop rows without weight, whose "
            "values nothing would determine."
        )
    _refuse_extreme_weights(vector, name)
    return vector


def _refuse_extreme_weights(positive: np.ndarray, name: str) -> None:
    """Refuse weights whose sums or shares leave the range of floats, and become infinite, zero or NaN."""
    lightest, heaviest = float(positive.min()), float(positive.max())
    if lightest < SMALLEST or heaviest * len(positive) > LARGEST:
        raise ValueError(
            f"{name} has weights from {lightest:g} to {heaviest:g}, expected at least {SMALLEST:g} and a sum of at "
            f"most {LARGEST:g}; divide them by a common factor."
        )


def check_pairs(pairs: Any, n: int, name: str = "pairs") -> np.ndarray:
    """Return pairs as an integer array of shape (m, 2) with entries in 0..n-1.

    Raises
    ------
    ValueError, TypeError
        When the shape, the type or an index is wrong, or a pair ranks a row above itself.
    """
    array = read_array(pairs, name)
    if array.ndim != 2 or array.shape[1] != 2 or array.shape[0] == 0:
        raise ValueError(
            f"{name} has shape {array.shape}, expected (m, 2) with m >= 1: rows (better, worse)."
        )
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {array.dtype} values, expected integer row numbers of X.")
    if array.min() < 0 or array.max() >= n:
        row = int(np.argmax((array < 0).any(axis=1) | (array >= n).any(axis=1)))
        raise ValueError(f"{name}[{row}] = {array[row].tolist()}, expected rows of X, in 0..{n - 1}.")
    same = array[:, 0] == array[:, 1]
    if same.any():
        row = int(np.argmax(same))
        raise ValueError(f"{name}[{row}] = {array[row].tolist()} ranks a row above itself; drop that pair.")
    return array.astype(np.int64)


def check_groups(groups: Any, length: int, name: str = "groups") -> np.ndarray | None:
    """Return one group id for each row (numbers or strings, in any order), or None when none were given.

    Raises
    ------
    ValueError, TypeError
        When the ids are not one-dimensional, of another length, of mixed kinds, or NaN.
    """
    if groups is None:
        return None
    ids = read_array(groups, name)
    if ids.ndim != 1:
        raise ValueError(f"{name} has shape {ids.shape}, expected ({length},), one id for each row.")
    _check_length(ids, length, name)
    if ids.dtype.kind == "O":
        if not all(isinstance(entry, str) for entry in ids):
            raise TypeError(f"{name} mixes kinds of ids; pass integers, or strings only.")
        ids = ids.astype(str)
    if ids.dtype.kind not in "biufSU":
        raise TypeError(f"{name} holds {ids.dtype} values, expected integers or strings.")
    if ids.dtype.kind == "f":
        _refuse_non_finite(ids, name)
    return ids
