"""Checks of single values: numbers, flags, names, paths and intervals."""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
from collections.abc import Mapping
from decimal import Decimal
from os import PathLike
from typing import Any

import numpy as np

from convexrank.data.messages import did_you_mean, shown

# Parameters and weights beyond these leave the range of floats as soon as they are multiplied or divided.
SMALLEST, LARGEST = 1e-300, 1e300
# Products of larger entries of data overflow, and no solver makes progress.
LARGEST_ENTRY = 1e150
# A message lists all valid names up to this number; of more names it shows the close ones.
_FEW_CHOICES = 40


def check_real(value: Any, name: str) -> float:
    """Return a real number of any kind as a float. Booleans are refused; NaN and infinity pass."""
    if type(value) is float:
        return value
    # to numpy a duration is an integer, and to Python a decimal is no real number
    if isinstance(value, bool | np.bool_ | np.timedelta64) or not isinstance(value, numbers.Real | Decimal):
        # arrays without a dimension, numpy's or JAX's
        if getattr(value, "ndim", None) != 0 or np.asarray(value).dtype.kind not in "iuf":
            raise TypeError(
                f"{name} is {shown(value)} of type {type(value).__name__}, expected a real number."
            )
    try:
        return float(value)
    except (OverflowError, ValueError) as error:
        raise ValueError(
            f"{name} is no floating-point number, or too large for one, expected one below 1.8e308 ({error})."
        ) from error


def check_positive(value: Any, name: str, infinite: bool = False) -> float:
    """Return a real number greater than zero; infinity is refused unless allowed."""
    number = check_real(value, name)
    if not number > 0 or (math.isinf(number) and not infinite):
        raise ValueError(
            f"{name} is {value}, expected a {'' if infinite else 'finite '}number greater than 0."
        )
    if not SMALLEST <= number <= LARGEST:
        _refuse_extreme(number, name)
    return number


def check_nonnegative(value: Any, name: str) -> float:
    """Return a finite real number of at least zero."""
    number = check_real(value, name)
    if not (number >= 0 and math.isfinite(number)):
        raise ValueError(f"{name} is {value}, expected a finite number of at least 0.")
    if number and not SMALLEST <= number <= LARGEST:
        _refuse_extreme(number, name)
    return number


def check_at_least(value: Any, name: str, least: float) -> float:
    """Return a finite real number of at least ``least``, which is greater than zero."""
    number = check_positive(value, name)
    if number < least:
        raise ValueError(f"{name} is {value}, expected a finite number of at least {least:g}.")
    return number


def check_probability(value: Any, name: str) -> float:
    """Return a real number between 0 and 1, both excluded: a level, or a probability of failure."""
    number = check_real(value, name)
    if not 0.0 < number < 1.0:
        hint = _of_percent(number)
        raise ValueError(f"{name} is {shown(value)}, expected a number strictly between 0 and 1{hint}.")
    if number < SMALLEST:
        _refuse_extreme(number, name)
    return number


def check_share(value: Any, name: str) -> float:
    """Return a real number above 0 and at most 1: a part of the whole, or all of it."""
    number = check_real(value, name)
    if not 0.0 < number <= 1.0:
        raise ValueError(
            f"{name} is {shown(value)}, expected a number above 0 and at most 1{_of_percent(number)}."
        )
    return 1.0 if number == 1.0 else check_probability(value, name)


def _of_percent(number: float) -> str:
    return f"; pass {number / 100:g} for {number:g} %" if 1.0 < number < 100.0 else ""


def check_fraction(value: Any, name: str) -> float:
    """Return a real number between 0 and 1, both included."""
    number = check_real(value, name)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"{name} is {shown(value)}, expected a number from 0 to 1{_of_percent(number)}.")
    return number if number == 0.0 else check_share(value, name)


def _refuse_extreme(number: float, name: str) -> None:
    """Refuse numbers whose products and quotients with others leave the range of floats."""
    if not math.isinf(number):
        raise ValueError(
            f"{name} is {number:g}, expected a number from {SMALLEST:g} to {LARGEST:g}: further out products and "
            "quotients are infinite, zero or NaN."
        )


def is_integer(value: Any) -> bool:
    """Return whether a number is an integer by its type, alone or in an array without a dimension; no boolean is."""
    if getattr(value, "ndim", None) == 0:  # numpy's or JAX's; to numpy a duration is an integer
        return np.asarray(value).dtype.kind in "iu"
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_integer(value: Any, name: str, minimum: int) -> int:
    """Return an integer of at least ``minimum``."""
    if not is_integer(value):
        raise TypeError(f"{name} is {shown(value)} of type {type(value).__name__}, expected an integer.")
    number = int(value)
    if not minimum <= number < 2**63:
        raise ValueError(
            f"{name} is {shown(value)}, expected an integer of at least {minimum}, and below 2**63."
        )
    return number


def check_node(value: Any, count: int) -> int:
    """Return the number of a node, from 0 to count − 1."""
    node = check_integer(value, "node", 0)
    if node >= count:
        raise ValueError(f"node is {shown(value)}, expected one of the {count} nodes, 0 to {count - 1}.")
    return node


def check_hashable(value: Any, name: str) -> None:
    """Refuse an object that cannot be a dictionary's key: compiled functions are kept by it."""
    try:
        hash(value)
    except TypeError as error:
        raise TypeError(
            f"{name} is {value!r}, which is not hashable ({error}); declare its class with "
            "@dataclass(frozen=True) and numbers or tuples as fields."
        ) from error


def check_kind(value: Any, name: str, kind: Any, expected: str) -> None:
    """Refuse what is not of a kind, or of one of several."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {shown(value)}, expected {expected}.")


def check_function(value: Any, name: str, what: str) -> None:
    """Refuse what is no function; also a class, whose call makes an object of it, whatever is asked."""
    if not callable(value) or isinstance(value, type):
        raise TypeError(f"{name} is {shown(value)}, expected a function {what}.")


def check_flag(value: Any, name: str) -> bool:
    """Return True or False; refuse anything else: "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} is {shown(value)}, expected True or False.")
    return bool(value)


def check_flags(instance: Any) -> None:
    """Keep fields annotated as bool as Python's; refuse anything but True and False: "no" would count as true."""
    for flag in dataclasses.fields(instance):
        given = getattr(instance, flag.name)
        if flag.type in (bool, "bool"):
            instance.__dict__[flag.name] = check_flag(given, flag.name)


def check_list(values: Any, name: str, what: str) -> list[Any]:
    """Return the entries of something that has any, but is no text and no mapping."""
    if isinstance(values, str | bytes | Mapping):
        raise TypeError(f"{name} is {shown(values)}, expected a sequence of {what}.")
    try:
        return list(values)
    except TypeError as error:
        raise TypeError(f"{name} is {shown(values)}, expected a sequence of {what}.") from error


def check_path(path: Any, name: str = "path") -> Any:
    """Return the path of a file or folder as it is; a number would be a file that is open already."""
    if not isinstance(path, str | PathLike) or "\0" in str(path):
        raise TypeError(f"{name} is {shown(path)}, expected a path as text or pathlib.Path.")
    return path


def check_label(name: Any) -> str | None:
    """Return a text for a legend, or None."""
    if name is not None and not isinstance(name, str):
        raise TypeError(f"name is {shown(name)}, expected a text for the legend, or None.")
    return name


def check_choice(value: str, choices: dict[str, Any], name: str) -> Any:
    """Look a name up in a dictionary; the error lists the valid names, or of many names the closest."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    if len(choices) <= _FEW_CHOICES:
        raise ValueError(
            f"{name} is {shown(value)}{did_you_mean(value, choices)}, expected one of: {', '.join(sorted(choices))}."
        )
    near = _close_to(value, choices) if isinstance(value, str) else []
    hint = (
        f"close to it: {', '.join(near)}" if near else f"no name is close to it; one is {shown(min(choices))}"
    )
    raise ValueError(f"{name} is {shown(value)}, expected one of {len(choices)} names; {hint}.")


def _close_to(value: str, choices: dict[str, Any]) -> list[str]:
    """The names that contain the value or are spelled much like it, five at most."""
    word = value.strip().lower()
    inside = sorted(choice for choice in choices if len(word) > 2 and word in choice)
    return [*dict.fromkeys([*difflib.get_close_matches(word[:80], choices), *inside])][:5]


def check_interval(bounds: Any, name: str = "bounds") -> tuple[float, float]:
    """Return a pair (lower, upper) of reals, where None means no bound: an infinity.

    Raises
    ------
    ValueError, TypeError
        When it is no pair of numbers, has NaN, or holds no number.
    """
    try:
        lower, upper = bounds
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is {shown(bounds)}, expected a pair (lower, upper); None is no bound."
        ) from error
    low = -math.inf if lower is None else check_real(lower, f"{name}[0]")
    high = math.inf if upper is None else check_real(upper, f"{name}[1]")
    if not low <= high or low == math.inf or high == -math.inf:
        raise ValueError(f"{name} = ({lower}, {upper}) holds no number; pass lower <= upper.")
    return low, high
