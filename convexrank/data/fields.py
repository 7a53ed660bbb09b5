"""Fields of frozen objects, and what they were computed from.

Numbers that remember what they were computed from, so that proofs enclose them and do not take their floats.

An array of this kind is one of floats for everybody. Ufuncs of numpy, their reductions, entries and repetitions are
kept beside the result, and can be computed again in other numbers. What other functions return are floats as they are.

Fields of frozen dataclasses: checked numbers, and arrays that cannot be written to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import read_only

Array = np.ndarray


class Recorded(np.ndarray):
    """An array of floats with the computation that they come from; None where they are what they are."""

    _source: tuple[Any, str, tuple[Any, ...], dict[str, Any]] | None = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute with floats, and keep what was asked."""
        found = getattr(ufunc, method)(*map(plain, inputs), **options)
        if not isinstance(found, np.ndarray | np.floating) or found.dtype.kind != "f" or "out" in options:
            return found
        return _made(found, ufunc, method, inputs, options)

    def __getitem__(self, places: Any) -> Any:
        """Take entries."""
        return _made(plain(self)[places], None, "__getitem__", (self, places), {})

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Repeat entries."""
        return _made(plain(self).repeat(repeats), None, "repeat", (self, repeats), {})

    def replayed(self, made: Callable[[Array], Any], known: dict[int, Any] | None = None) -> Any:
        """Compute the numbers again, from what a function makes of the arrays of floats that they come from."""
        known = {} if known is None else known
        if id(self) not in known:
            known[id(self)] = self._again(made, known)
        return known[id(self)]

    def _again(self, made: Callable[[Array], Any], known: dict[int, Any]) -> Any:
        if self._source is None:
            return made(self.view(np.ndarray))
        ufunc, method, inputs, options = self._source
        # the places of a reduction are no numbers
        count = 1 if ufunc is None or method != "__call__" else ufunc.nin
        numbers = [
            one.replayed(made, known) if isinstance(one, Recorded) else made(np.asarray(one))
            for one in inputs[:count]
        ]
        if ufunc is None:
            return getattr(numbers[0], method)(*inputs[1:])
        return getattr(ufunc, method)(*numbers, *inputs[count:], **options)


def recorded(values: Any) -> Recorded:
    """Return floats whose computations are kept from here on, those of recorded ones from where they are kept."""
    if isinstance(values, Recorded):
        return values
    return np.array(values, dtype=np.float64).view(Recorded)


def plain(values: Any) -> Any:
    """Return floats without their computation."""
    if not isinstance(values, Recorded):
        return values
    return values.view(np.ndarray) if values.ndim else float(values.view(np.ndarray))


def _made(values: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Recorded:
    found = np.asarray(values, dtype=np.float64).view(Recorded)
    found._source = ufunc, method, inputs, options
    return found


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
