"""Numbers with a derivative, in plain numpy: how certificates differentiate prices and losses without JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Dual:
    """Values of a function of one variable, and its derivative there: arithmetic carries both along.

    Parameters
    ----------
    value : array
        The values.
    slope : array or float
        The derivatives, of the same shape, or one number for all.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.backend.dual_numbers import Dual
    >>> x = Dual(np.array([3.0]), 1.0)
    >>> found = x * x - 2.0 * x
    >>> found.value, found.slope
    (array([3.]), array([4.]))
    """

    value: Any
    slope: Any
    # numpy must not take ``array * Dual`` apart element by element
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Dual:
        other = _lifted(other)
        return Dual(self.value + other.value, self.slope + other.slope)

    __radd__ = __add__

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.slope)

    def __sub__(self, other: Any) -> Dual:
        return self + -_lifted(other)

    def __rsub__(self, other: Any) -> Dual:
        return -self + other

    def __mul__(self, other: Any) -> Dual:
        other = _lifted(other)
        return Dual(self.value * other.value, self.slope * other.value + self.value * other.slope)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Dual:
        return self * _power(_lifted(other), -1.0)

    def __rtruediv__(self, other: Any) -> Dual:
        return _lifted(other) * _power(self, -1.0)

    def __pow__(self, exponent: float) -> Dual:
        return _power(self, exponent)


def _lifted(x: Any) -> Dual:
    """Return a number or an array as a constant."""
    if isinstance(x, Dual):
        return x
    if not isinstance(x, int | float | np.number | np.ndarray):
        raise TypeError(f"{type(x).__name__} has no derivative in numpy.")
    return Dual(x, 0.0)


def _power(x: Dual, exponent: float) -> Dual:
    return Dual(x.value**exponent, x.slope * (exponent * x.value ** (exponent - 1.0)))


def _exp(x: Dual) -> Dual:
    value = np.exp(x.value)
    return Dual(value, value * x.slope)


def _softplus(x: Dual) -> Dual:
    # the exponential of a number that is not positive, so that neither branch overflows
    small = np.exp(-np.abs(x.value))
    value = np.maximum(x.value, 0.0) + np.log1p(small)
    return Dual(value, np.where(x.value > 0, 1.0, small) / (1.0 + small) * x.slope)


def _x_log_x(x: Dual) -> Dual:
    value = np.where(x.value == 0.0, 0.0, x.value * np.log(x.value))
    return Dual(np.where(x.value < 0, np.inf, value), (1.0 + np.log(x.value)) * x.slope)


def _maximum(x: Any, y: Any) -> Dual:
    x, y = _lifted(x), _lifted(y)
    share = np.where(x.value == y.value, 0.5, 1.0 * (x.value > y.value))
    return Dual(np.maximum(x.value, y.value), share * x.slope + (1.0 - share) * y.slope)


def _huber(x: Dual, threshold: float) -> Dual:
    size, inside = np.abs(x.value), np.clip(x.value, -threshold, threshold)
    return Dual(np.abs(inside) * (size - 0.5 * np.abs(inside)), inside * x.slope)


_ELEMENTARY: dict[str, Callable[..., Dual]] = {
    "exp": _exp,
    "huber": _huber,
    "log": lambda x: Dual(np.log(x.value), x.slope / x.value),
    "log1p": lambda x: Dual(np.log1p(x.value), x.slope / (1.0 + x.value)),
    "maximum": _maximum,
    "positive": lambda x: Dual(np.maximum(x.value, 0.0), (x.value > 0) * x.slope),
    "power": _power,
    "softplus": _softplus,
    "x_log_x": _x_log_x,
}

_REDUCTIONS: dict[str, Callable[[Array], Any]] = {
    "log_sum_exp": lambda x: np.logaddexp.reduce(x, axis=None),
    "sum": np.sum,
}


def elementary(name: str, *arguments: Any) -> Dual:
    """Apply an elementary function to numbers with a derivative; TypeError where it is not elementwise."""
    if name not in _ELEMENTARY:
        raise TypeError(f"{name} of an array is not elementwise, and has no derivative here.")
    return _ELEMENTARY[name](*arguments)


def plain(name: str, x: Any, *others: Any) -> Any:
    """Apply a function to numbers or an array of them, in the precision of x; what overflows is infinite.

    Returns
    -------
    float or ndarray
        A number for a number.
    """
    array = np.asarray(x)
    array = array if array.dtype.kind == "f" else array.astype(np.float64)
    with np.errstate(all="ignore"):
        result = (
            np.asarray(_REDUCTIONS[name](array))
            if name in _REDUCTIONS
            else np.asarray(_ELEMENTARY[name](Dual(array, 0.0), *others).value)
        )
    return result if result.ndim else result.item()


def differentiate(function: Callable[[Any], Any], x: Array) -> tuple[Array, Array]:
    """Evaluate an elementwise function of :mod:`convexrank.atoms` and arithmetic, and its derivative, in numpy.

    Parameters
    ----------
    function : callable
        Acts elementwise.
    x : ndarray
        Where.

    Returns
    -------
    tuple of ndarray
        Values and derivatives, of the shape of x; infinite or NaN beyond the range of floating point, without warning.

    Raises
    ------
    TypeError, AttributeError
        Where the function is made of something else, such as functions of JAX.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import losses
    >>> from convexrank.backend.dual_numbers import differentiate
    >>> differentiate(losses.SquaredHinge(), np.array([0.5, 2.0]))
    (array([0.25, 0.  ]), array([-1., -0.]))
    """
    with np.errstate(all="ignore"):
        found = _lifted(function(Dual(x, 1.0)))
    value, slope = (
        np.broadcast_to(np.asarray(part, dtype=x.dtype), x.shape) for part in (found.value, found.slope)
    )
    return value, slope
