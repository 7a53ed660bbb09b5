"""Bad values: some sixty that no argument is made for, and what can go wrong with a valid one."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from convexrank.atoms import is_cvxpy

#: Made anew for each call: a generator is used up.
BAD: dict[str, Callable[[], Any]] = {
    # nothing, and numbers of all kinds
    "None": lambda: None,
    "Ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "True": lambda: True,
    "numpy False": lambda: np.False_,
    "0": lambda: 0,
    "-1": lambda: -1,
    "1.7": lambda: 1.7,
    "-0.0": lambda: -0.0,
    "NaN": lambda: math.nan,
    "inf": lambda: math.inf,
    "-inf": lambda: -math.inf,
    "1e308": lambda: 1e308,
    "-1e308": lambda: -1e308,
    "5e-324": lambda: 5e-324,
    "10**400": lambda: 10**400,
    "-10**400": lambda: -(10**400),
    "2**63": lambda: 2**63,
    "2**32": lambda: 2**32,
    "complex": lambda: 1 + 2j,
    "Fraction": lambda: fractions.Fraction(1, 3),
    "Fraction beyond floats": lambda: fractions.Fraction(10**400, 3),
    "Decimal": lambda: decimal.Decimal("0.1"),
    "Decimal NaN": lambda: decimal.Decimal("NaN"),
    "longdouble": lambda: np.longdouble(1) / 3,
    "longdouble beyond floats": lambda: np.longdouble("1e4000"),
    "float16": lambda: np.float16(0.1),
    "uint8": lambda: np.uint8(255),
    "number in an array": lambda: np.array(0.5),
    # text, dates
    "empty text": lambda: "",
    "text": lambda: "no such thing",
    "text of a number": lambda: "1",
    "text with zero byte": lambda: "a\0b",
    "bytes": lambda: b"1",
    "numpy text": lambda: np.array(["1", "2", "3"]),
    "date": lambda: datetime.date(2020, 1, 1),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "timedelta64": lambda: np.timedelta64(1, "D"),
    "array of dates": lambda: np.array(["2020-01-01", "NaT", "2020-01-03"], dtype="datetime64[D]"),
    # containers
    "empty list": lambda: [],
    "empty tuple": lambda: (),
    "empty dict": lambda: {},
    "empty matrix": lambda: np.empty((0, 3)),
    "no columns": lambda: np.empty((3, 0)),
    "list of None": lambda: [None, None, None],
    "ragged list": lambda: [[1.0], [2.0, 3.0], []],
    "nested list": lambda: [[[1.0]]],
    "list of text": lambda: ["a", "b", "c"],
    "dict": lambda: {0: 1.0, 1: 2.0},
    "dict of text": lambda: {"a": 1.0},
    "set": lambda: {1.0, 2.0, 3.0},
    "generator": lambda: (number for number in (1.0, 2.0, 3.0)),
    "range": lambda: range(3),
    "object array": lambda: np.array([object(), None, 1.0], dtype=object),
    "3-d array": lambda: np.ones((2, 2, 2)),
    "vector with NaN": lambda: np.array([1.0, math.nan, 2.0]),
    "complex array": lambda: np.array([1 + 1j, 2.0, 3.0]),
    "huge integers": lambda: [2**63 - 1, 2**63 - 1, 2**63 - 1],
    "structured array": lambda: np.zeros(3, dtype=[("a", float), ("b", int)]),
    "masked array": lambda: np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]),
    "sparse matrix": lambda: sparse.eye_array(3, format="csr"),
    "sparse vector": lambda: sparse.coo_array(np.array([1.0, 0.0, 2.0])),
    "Series": lambda: pd.Series([1.0, 2.0, 3.0]),
    "Series with NA": lambda: pd.Series([1, pd.NA, 3], dtype="Int64"),
    "frame": lambda: pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}),
    # things
    "object": object,
    "class": lambda: int,
    "function": lambda: lambda *arguments: None,
    "function of NaN": lambda: lambda *arguments: math.nan,
    "function without arguments": lambda: lambda: 1.0,
    "module": lambda: math,
    "path": lambda: Path("no/such/file"),
}


def variants(valid: Any) -> Iterator[tuple[str, Any, bool]]:
    """What a valid argument may come as, or what may be wrong with it: name, value, whether it means the same."""
    if isinstance(valid, bool):
        yield "numpy bool", np.bool_(valid), True
        yield "flag as text", str(valid), False
    elif isinstance(valid, int | float) and math.isfinite(valid):
        yield from _numbers(valid)
    elif isinstance(valid, str):
        yield "upper case", valid.upper() + "X", False
        yield "bytes of it", valid.encode(), False
        yield "list of it", [valid], False
    elif sparse.issparse(valid):
        for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr"):
            yield f"sparse {form}", sparse.csr_array(valid).asformat(form), True
        yield from _entries(valid.toarray())
    elif (array := _as_array(valid)) is not None:
        yield from _forms(array)
        yield from _entries(array)


def _numbers(valid: float) -> Iterator[tuple[str, Any, bool]]:
    whole = isinstance(valid, int)
    yield "numpy number", (np.int32(valid) if whole and abs(valid) < 2**31 else np.float64(valid)), True
    yield "array without dimension", np.array(valid), True
    yield "exact fraction", fractions.Fraction(valid), True
    yield "in extended precision", np.longdouble(valid), True
    yield "negative", -abs(valid) - 1, False
    yield "in a list", [valid], False
    yield "as text", str(valid), False


def _as_array(valid: Any) -> np.ndarray | None:
    """A numeric array, if that is what the argument is, or is read as."""
    if is_cvxpy(valid) or not isinstance(valid, list | tuple | np.ndarray):
        return None
    try:
        array = np.asarray(valid)
    except ValueError:
        return None
    return array if array.dtype.kind in "biuf" and array.ndim in (1, 2) and array.size else None


def _forms(array: np.ndarray) -> Iterator[tuple[str, Any, bool]]:
    """The same numbers in other forms."""
    yield "list", array.tolist(), True
    yield "tuple", tuple(array.tolist()), True
    yield "Fortran order", np.asfortranarray(array), True
    frozen = array.copy()
    frozen.flags.writeable = False
    yield "read only", frozen, True
    yield "negative strides", np.ascontiguousarray(array[::-1])[::-1], True
    yield "every other", np.repeat(array, 2, axis=0)[::2], True
    yield "big endian", array.astype(array.dtype.newbyteorder(">")), True
    yield "objects", array.astype(object), True
    yield "masked, nothing hidden", np.ma.masked_array(array), True
    if array.dtype.kind in "iu":
        yield "small integers", array.astype(np.int16), True
        yield "unsigned", array.astype(np.uint64) if array.min() >= 0 else array, True
    if array.dtype.kind == "f":
        yield "extended precision", array.astype(np.longdouble), True
    if array.dtype.kind == "f" and np.isfinite(array).all():
        yield "fractions", np.vectorize(fractions.Fraction, otypes=[object])(array), True
    yield "frame", pd.Series(array) if array.ndim == 1 else pd.DataFrame(array), True
    if array.ndim == 2:
        for form in ("csr", "csc", "coo", "lil", "dok", "dia", "bsr"):
            yield f"sparse {form}", sparse.csr_array(array).asformat(form), True
        yield "numpy matrix", np.asmatrix(array), True
    yield "complex", array.astype(complex), False
    yield "text", array.astype(str), False
    yield "dates", array.astype("int64").astype("datetime64[D]"), False
    yield "flags", array.astype(bool), False
    yield "generator", (row for row in array.tolist()), False
    yield "dict", dict(enumerate(array.tolist())), False


def _entries(array: np.ndarray) -> Iterator[tuple[str, Any, bool]]:
    """One entry is wrong, or is missing."""
    wrong = {
        "NaN": math.nan, "inf": math.inf, "-inf": -math.inf, "1e308": 1e308, "-1e308": -1e308, "5e-324": 5e-324,
        "-1": -1, "1.5": 1.5, "2**63": 2**63, "10**400": 10**400, "None": None, "text": "a", "1j": 1j,
        "list": [1.0], "True": True,
    }  # fmt: skip
    for name, value in wrong.items():
        if isinstance(value, float):
            spoilt = array.astype(np.float64)
        else:
            spoilt = array.astype(object)
        spoilt[(-1,) * array.ndim] = value
        yield f"an entry {name}", spoilt, False
        if name in ("NaN", "1e308"):
            yield f"all entries {name}", np.full(array.shape, value), False
    yield "one fewer", array[:-1], False
    yield "one more", np.concatenate((array, array[-1:])), False
    yield "only one", array[:1], False
    yield "none", array[:0], False
    yield "another dimension", array[None], False
    yield "a column", array[:, None], False
    yield "all zero", np.zeros_like(array), False
    hidden = np.ma.masked_array(array, np.zeros(array.shape, dtype=bool))
    hidden[(0,) * array.ndim] = np.ma.masked
    yield "an entry hidden", hidden, False
