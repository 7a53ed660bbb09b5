"""Fields of frozen dataclasses: checked numbers, and arrays that cannot be written to."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import read_only

Array = np.ndarray

# So many entries of a matrix are remembered; all of a smaller one.
_REMEMBERED = 4096
_SAMPLES = "_samples"


def keep(instance: Any, **values: Any) -> None:
    """Put values into fields of a frozen dataclass, arrays as read-only ones.

    Vectors of the caller's are copied. Matrices are not, as they may fill the memory: entries spread over all rows and
    columns are remembered, by which `refuse_edited` notices that they have changed.

    Parameters
    ----------
    instance : dataclass
        The object under construction.
    **values
        The values of its fields.
    """
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.ndim < 2 and _is_of(instance.__dict__.get(name), value):
            value = value.copy()
        held = instance.__dict__[name] = read_only(value)
        if isinstance(held, np.ndarray | sparse.csr_array) and held.ndim == 2:
            instance.__dict__.setdefault(_SAMPLES, {})[name] = sample_of(held)


def _is_of(given: Any, value: Array) -> bool:
    """Return whether an array may be the memory of what the caller gave."""
    return not isinstance(given, list | tuple | None) and np.may_share_memory(np.asarray(given), value)


def keep_checked(instance: Any, check: Callable[..., Any], *names: str, **options: Any) -> None:
    """Check fields of a frozen dataclass, and keep what the check returns in place of what came.

    Parameters
    ----------
    instance : dataclass
        The object under construction.
    check : callable
        One of :mod:`convexrank.data`, such as ``check_positive``: it takes the value, the name, and the options.
    *names : str
        The fields; None stays None where that is the default.
    **options
        Passed on to the check.
    """
    known = type(instance).__dataclass_fields__
    for name in names:
        given = getattr(instance, name)
        if given is not None or known[name].default is not None:
            instance.__dict__[name] = check(given, name, **options)


def parameters_of(instance: Any) -> list[str]:
    """List the arguments of a dataclass that callers may give; none for what is no dataclass."""
    given = fields(instance) if is_dataclass(instance) else ()
    return [field.name for field in given if field.init and not field.name.startswith("_")]


def refuse_edited(instance: Any) -> None:
    """Refuse to go on with matrices of the caller's that were edited in place since they were kept.

    The entries that `keep` remembers are compared, a few thousand of each matrix: microseconds, and nothing escapes in
    a small matrix. Changes of few entries of a large one may go unnoticed.

    Raises
    ------
    ValueError
        When an entry differs; the message names the matrix.
    """
    for name, remembered in instance.__dict__.get(_SAMPLES, {}).items():
        if sample_of(getattr(instance, name)) != remembered:
            raise ValueError(
                f"{name} was edited in place after this {type(instance).__name__} was made, which holds it without a "
                f"copy; make a new one from the new {name}, or pass a copy that nobody edits."
            )


def sample_of(matrix: Any) -> tuple[bytes, ...]:
    """Copy entries spread over all rows and columns."""
    if not isinstance(matrix, np.ndarray):
        return tuple(map(_some, (matrix.data, matrix.indices, matrix.indptr)))  # type: ignore[attr-defined]
    return (_some(matrix.reshape(-1), matrix.shape[1]),)


def _some(values: Array, columns: int = 1) -> bytes:
    step = max(1, -(-len(values) // _REMEMBERED))
    while math.gcd(step, columns) > 1:  # it would meet the same columns again and again
        step += 1
    return values[::step].tobytes()
