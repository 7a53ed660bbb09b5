"""Atoms: elementary functions for cvxpy, JAX and numpy.

Each atom takes a cvxpy expression and returns a cvxpy expression that obeys the disciplined convex rules, or takes
a JAX array and returns a JAX array, or takes a numpy array with a derivative
(:class:`convexrank.backend.dual_numbers.Dual`) and returns one. A price, loss or divergence written with atoms is
therefore written once: the exact model, the fast oracle and the certificate use the same expression. Numbers and plain
numpy arrays are accepted too; they come back as numbers and numpy arrays, computed in float64 whatever JAX's global
setting (float32 arrays stay float32).

A fourth kind of argument, :class:`LogDomain`, represents the number :math:`e^a` by its logarithm *a*. Atoms keep it in
the logarithmic domain as long as possible. Thus the second form :math:`h(a) = g(e^a)` of a price does not overflow, and
cvxpy recognises that it is convex (``log1p`` of :math:`e^a` becomes ``logistic(a)``).

``pair_sums``, ``log_mean_exp``, ``mean_of_highest`` and ``spectral_sum`` take vectors of cvxpy alone, for problems of
cvxpy: they are the atoms of :mod:`convexrank.modelling` in their exact reading.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from convexrank.backend import interruption
from convexrank.backend.dual_numbers import Dual, elementary, plain
from convexrank.backend.jax_oracles import uses_jax
from convexrank.backend.traced import Traced

# Those of cvxpy alone, and where they are: imported when they are used.
_PLACE = "convexrank.problems._cvxpy"
_OF_RISKS = ("log_mean_exp", "mean_of_highest", "pair_sums", "spectral_sum")

__all__ = [  # noqa: PLE0604 - a tuple of strings
    "LogDomain",
    "exp",
    "huber",
    "is_cvxpy",
    "log",
    "log1p",
    "log_sum_exp",
    "materialize",
    "maximum",
    "positive",
    "power",
    "softplus",
    "square",
    "sum",
    "x_log_x",
    *_OF_RISKS,
]

# Powers that are a few products.
_WHOLE = range(2, 17)


def __getattr__(name: str) -> Any:
    if name in _OF_RISKS:
        return getattr(interruption.import_module(_PLACE), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def is_cvxpy(x: Any) -> bool:
    """Return whether x is a cvxpy expression, without importing cvxpy.

    Examples
    --------
    >>> from convexrank import atoms
    >>> import cvxpy as cp
    >>> atoms.is_cvxpy(cp.Variable()), atoms.is_cvxpy(1.0)
    (True, False)
    """
    cvxpy = sys.modules.get("cvxpy")
    return cvxpy is not None and isinstance(x, cvxpy.Expression)


def materialize(x: Any) -> Any:
    """Turn a logarithmic-domain number into the number itself; anything else is returned as it is.

    Examples
    --------
    >>> from convexrank import atoms
    >>> round(float(atoms.materialize(atoms.LogDomain(2.0) ** 0.5)), 6)  # the root of e²
    2.718282
    """
    if not isinstance(x, LogDomain):
        return x
    return exp(x.log) if x.number is None else x.number


def _logarithm(x: Any) -> Any:
    """The logarithm of what is known to be positive; None for anything else."""
    if isinstance(x, LogDomain):
        return x.log
    return math.log(x) if isinstance(x, numbers.Real) and float(x) > 0 else None


def _log_of_sum(a: Any, b: Any) -> Any:
    """log(eᵃ + eᵇ), elementwise; convex by the disciplined rules where a and b are."""
    if not (is_cvxpy(a) and is_cvxpy(b)):
        return b + softplus(a - b)
    import cvxpy as cp

    stacked = cp.vstack([cp.reshape(part, (1, part.size), order="C") for part in (a, b)])
    return cp.reshape(cp.log_sum_exp(stacked, axis=0), a.shape, order="C")


@dataclass(frozen=True, eq=False)
class LogDomain:
    """The number :math:`e^a`, represented by its logarithm a.

    Powers, products, quotients and sums with positive numbers stay logarithmic; anything else leaves the logarithmic
    domain.

    Parameters
    ----------
    log : cvxpy expression or array
        The logarithm *a*.
    number : cvxpy expression or array, optional
        The number itself, if a simpler expression than ``exp(log)`` is known, as for a sum.

    Examples
    --------
    >>> from convexrank import atoms
    >>> (atoms.LogDomain(500.0) ** 2).log  # e¹⁰⁰⁰ is beyond floating point, its logarithm is not
    1000.0
    """

    log: Any
    number: Any = None
    # numpy must not take ``array * LogDomain`` apart element by element
    __array_ufunc__ = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "log", _operand(self.log, "log"))
        if self.number is not None:
            object.__setattr__(self, "number", _operand(self.number, "number"))

    def __pow__(self, exponent: float) -> LogDomain:
        return LogDomain(exponent * self.log)

    def __mul__(self, other: Any) -> Any:
        logarithm = _logarithm(other)
        if logarithm is None:
            return other * materialize(self)
        plain = isinstance(other, LogDomain) or self.number is None
        return LogDomain(self.log + logarithm, None if plain else other * self.number)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, LogDomain):
            return LogDomain(self.log - other.log)
        return self * (1.0 / other)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, numbers.Real) and other == 0:
            return self
        logarithm, number = _logarithm(other), materialize(self) + materialize(other)
        return number if logarithm is None else LogDomain(_log_of_sum(self.log, logarithm), number)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return materialize(self) - materialize(other)

    def __rsub__(self, other: Any) -> Any:
        return other - materialize(self)

    def __neg__(self) -> Any:
        return -materialize(self)


def _operand(x: Any, name: str) -> Any:
    """Return what an atom takes as it is: a number, an array of numbers; what JAX or cvxpy work on is not looked at."""
    if isinstance(x, float | Dual | Traced) or is_cvxpy(x) or uses_jax(x):
        return x
    from convexrank.data import check_real, check_real_array

    if not isinstance(x, list | tuple) and np.ndim(x) == 0:
        number = check_real(x, name)  # which of them it is matters: Python's numbers are not promoted
        return x if type(x) is np.float32 or (type(x) is int and abs(x) < 2**63) else number
    array = check_real_array(x, name)
    # sums and products of small integers would overflow
    return array if array.dtype in (np.float64, np.float32, np.float16) else array.astype(np.float64)


def _lowered(
    name: str, cvxpy_form: Callable[[Any], Any], jax_form: Callable[[Any], Any], **operands: Any
) -> Any:
    """Apply a function of cvxpy to expressions, of JAX to its arrays, of numpy to anything else.

    Neither cvxpy nor JAX is imported without need.
    """
    arguments = tuple(_operand(materialize(operand), label) for label, operand in operands.items())
    for argument in arguments:
        if isinstance(argument, Traced):
            return argument.of_atom(name, *arguments)
    if any(isinstance(argument, Dual) for argument in arguments):
        return elementary(name, *arguments)
    if any(map(is_cvxpy, arguments)):
        import cvxpy

        return cvxpy_form(cvxpy)(*arguments)
    if not uses_jax(*arguments):
        return plain(name, *arguments)
    import jax

    return jax_form(jax)(*arguments)


def exp(x: Any) -> Any:
    """Exponential :math:`e^x`, elementwise; convex, increasing.

    Examples
    --------
    >>> from convexrank import atoms
    >>> float(atoms.exp(0.0))
    1.0
    """
    return _lowered("exp", lambda cp: cp.exp, lambda jax: jax.numpy.exp, x=x)


def log(x: Any) -> Any:
    """Natural logarithm, elementwise; concave, increasing. Of :math:`e^a` it is *a*.

    Examples
    --------
    >>> from convexrank import atoms
    >>> atoms.log(atoms.LogDomain(800.0))  # of e⁸⁰⁰, which is no floating-point number
    800.0
    """
    if isinstance(x, LogDomain):
        return x.log
    return _lowered("log", lambda cp: cp.log, lambda jax: jax.numpy.log, x=x)


def log1p(x: Any) -> Any:
    r""":math:`\log(1+x)`, elementwise; concave, increasing. Of :math:`e^a` it is softplus(*a*), which is convex.

    Examples
    --------
    >>> from convexrank import atoms
    >>> import cvxpy as cp
    >>> a = cp.Variable()
    >>> atoms.log1p(a).is_convex(), atoms.log1p(atoms.LogDomain(a)).is_convex()
    (False, True)
    """
    if isinstance(x, LogDomain):
        return softplus(x.log)
    return _lowered("log1p", lambda cp: cp.log1p, lambda jax: jax.numpy.log1p, x=x)


def softplus(x: Any) -> Any:
    r""":math:`\log(1+e^x)`, elementwise; convex, increasing.

    Examples
    --------
    >>> from convexrank import atoms
    >>> round(float(atoms.softplus(0.0)), 6)  # log 2
    0.693147
    """
    return _lowered("softplus", lambda cp: cp.logistic, lambda jax: jax.nn.softplus, x=x)


def power(x: Any, exponent: float) -> Any:
    """:math:`x^p` for x >= 0, elementwise; convex for p >= 1, increasing for p > 0.

    Examples
    --------
    >>> from convexrank import atoms
    >>> float(atoms.power(3.0, 2))
    9.0
    """
    exponent = _operand(exponent, "exponent")
    if not is_cvxpy(exponent) and np.ndim(exponent):
        raise ValueError(f"exponent has shape {np.shape(exponent)}, expected one number.")
    if isinstance(x, LogDomain):
        return x**exponent
    if isinstance(exponent, int | float) and exponent == 1:
        return _operand(x, "x")
    # JAX multiplies for an integer, and takes logarithms for a float
    whole = int(exponent) if exponent in _WHOLE else exponent
    return _lowered("power", lambda cp: cp.power, lambda jax: jax.numpy.power, x=x, exponent=whole)


def x_log_x(x: Any) -> Any:
    r""":math:`x\log x` for x >= 0, and 0 at x = 0, elementwise; convex. Infinite for x < 0.

    Examples
    --------
    >>> from convexrank import atoms
    >>> float(atoms.x_log_x(1.0)), float(atoms.x_log_x(0.0))
    (0.0, 0.0)
    """
    return _lowered(
        "x_log_x",
        lambda cp: lambda x: -cp.entr(x),
        lambda jax: lambda x: -_entropy()(x) + 0.0,
        x=x,
    )


@cache
def _entropy() -> Callable[[Any], Any]:
    """JAX's −x log x as one program: left alone it dispatches a dozen."""
    import jax

    return jax.jit(jax.scipy.special.entr, inline=True)


def square(x: Any) -> Any:
    """:math:`x^2`, elementwise; convex.

    Examples
    --------
    >>> from convexrank import atoms
    >>> float(atoms.square(-3.0))
    9.0
    """
    if isinstance(x, LogDomain):
        return x**2
    if is_cvxpy(x):
        import cvxpy as cp

        return cp.square(x)
    x = _operand(x, "x")
    if isinstance(x, Traced):
        return x.of_atom("square", x)
    with np.errstate(over="ignore"):  # infinity is the nearest number
        return x * x


def positive(x: Any) -> Any:
    """The positive part max(x, 0), elementwise; convex, non-decreasing. Derivative 0 at the kink.

    Examples
    --------
    >>> from convexrank import atoms
    >>> float(atoms.positive(-2.0)), float(atoms.positive(2.0))
    (0.0, 2.0)
    """
    return _lowered("positive", lambda cp: cp.pos, lambda jax: jax.nn.relu, x=x)


def maximum(x: Any, y: Any) -> Any:
    """Elementwise maximum; convex, non-decreasing in both.

    Examples
    --------
    >>> from convexrank import atoms
    >>> float(atoms.maximum(1.0, 3.0))
    3.0
    """
    return _lowered("maximum", lambda cp: cp.maximum, lambda jax: jax.numpy.maximum, x=x, y=y)


def huber(x: Any, threshold: float = 1.0) -> Any:
    r"""Evaluate Huber's function: :math:`x^2/2` for :math:`|x| \le t`, :math:`t|x| - t^2/2` beyond; convex.

    Examples
    --------
    >>> from convexrank import atoms
    >>> float(atoms.huber(0.5)), float(atoms.huber(3.0))
    (0.125, 2.5)
    """
    x = _operand(materialize(x), "x")
    if not uses_jax(threshold):
        from convexrank.data import check_nonnegative

        threshold = check_nonnegative(threshold, "threshold")
    if is_cvxpy(x):
        import cvxpy as cp

        return 0.5 * cp.huber(x, threshold)  # type: ignore[arg-type]  # cvxpy's stub says int, floats are fine
    if isinstance(x, Dual):
        return elementary("huber", x, threshold)
    if isinstance(x, Traced):
        return x.of_atom("huber", x, threshold)
    if not uses_jax(x, threshold):
        return plain("huber", x, threshold)
    import jax.numpy as jnp

    size = jnp.abs(x)
    inside = jnp.minimum(size, threshold)
    return inside * (size - 0.5 * inside)


def sum(x: Any) -> Any:  # noqa: A001 - the field's name for it, used as atoms.sum
    """Sum of all entries.

    Examples
    --------
    >>> from convexrank import atoms
    >>> import numpy as np
    >>> float(atoms.sum(np.array([1.0, 2.0])))
    3.0
    """
    return _lowered("sum", lambda cp: cp.sum, lambda jax: jax.numpy.sum, x=x)


def log_sum_exp(x: Any) -> Any:
    r""":math:`\log\sum_j e^{x_j}` over all entries; convex, increasing in each entry, never overflows.

    Examples
    --------
    >>> from convexrank import atoms
    >>> import numpy as np
    >>> round(float(atoms.log_sum_exp(np.array([1000.0, 1000.0]))), 6)
    1000.693147
    """
    return _lowered("log_sum_exp", lambda cp: cp.log_sum_exp, lambda jax: jax.nn.logsumexp, x=x)
