r"""Functions φ of one number, each a small table of what the readings ask: losses, prices, squares.

A function is convex. It does not decrease unless ``increasing`` is False, and then it is taken of affine expressions
only. A loss :math:`\ell(z)` of a margin is φ(−z).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import numpy as np

from convexrank.backend import jax_oracles
from convexrank.backend.dual_numbers import differentiate

__all__ = [
    "Function",
    "custom",
    "exp",
    "hinge",
    "huber",
    "of_loss",
    "own_loss",
    "power_of_positive",
    "scaled",
    "smooth_hinge",
    "softplus",
    "square",
    "squared_hinge",
]

Array = np.ndarray


def _unbounded(d: Array) -> Array:
    """The slope far out of what rises faster than linearly, and falls to its infimum."""
    return np.where(d > 0.0, np.inf, 0.0)


@dataclass(frozen=True, eq=False)
class Function:
    """A convex function of one number, in all readings.

    One of your own is tested for x from -30 to 30 where an expression takes it: what it states of slopes and bounds.

    Parameters
    ----------
    name : str
        What messages call it.
    slopes : callable
        Values and derivatives in numpy, of an array.
    bend : callable or None
        Second derivatives in numpy; None where they are not known.
    plain : callable
        The function of a Python number, in Python.
    read : callable
        ``read(m, x)``: the function in a language, by its members exp, softplus, positive, power and maximum.
    latex : callable
        The formula, of the formula of the argument.
    line : callable or None
        Over a ball: value, slope of an affine minorant, and how far that lies below there.
    perspective : callable or None
        ``perspective(m, v, u)``: u φ*(v/u) in a language, by its members rel_entr and power_over.
    most : float
        The largest slope.
    least : float
        A number that the function is never below.
    increasing, smooth : bool
        Whether it never decreases; whether it has a derivative everywhere.
    reaches_least : bool
        Whether the infimum is attained.
    is_quadratic : bool
        Whether the second derivative is the same everywhere.
    recession : callable
        The slope far out in a direction: :math:`\\lim φ(t d)/t` of an array d.
    coefficients : tuple of float or None
        Those of the powers of :math:`(1 + x)_+`, where it is a sum of them: pair sums are then taken by a sort.
    multiple_of : Function
        The function that it is a multiple of; by default itself.
    kink : float or None
        The only place without a derivative, where it is known.
    own : callable or None
        The function of arrays, traced arrays and cvxpy expressions, where it is one of the caller's own.
    slope : callable or None
        Derivatives by argument and value, where that takes less time than without the value.
    smoothed : callable or None
        Of one with kinks: takes a width to a smooth function below it.
    moved : callable or None
        Of such a smooth function: how values and derivatives move with the width, of an array.
    window : tuple of float or None
        Factor and width of a multiple of :func:`smooth_hinge`: pair sums then list no pairs but those within the width.
    form : tuple or None
        A name that the programs which check exported proofs know, and its parameters; None where they do not know it.
    """

    name: str
    slopes: Callable[[Array], tuple[Array, Array]]
    bend: Callable[[Array], Array] | None
    plain: Callable[[float], float]
    read: Callable[[Any, Any], Any]
    latex: Callable[[str], str]
    line: Callable[[Any], tuple[Any, Any, Any]] | None = None
    perspective: Callable[[Any, Any, Any], Any] | None = None
    most: float = math.inf
    least: float = -math.inf
    increasing: bool = True
    smooth: bool = True
    reaches_least: bool = False
    is_quadratic: bool = False
    recession: Callable[[Array], Array] = _unbounded
    coefficients: tuple[float, ...] | None = None
    multiple_of: Function | None = None
    kink: float | None = None
    own: Callable[[Any], Any] | None = None
    slope: Callable[[Array, Array], Array] | None = None
    smoothed: Callable[[float], Function] | None = None
    moved: Callable[[Array], tuple[Array, Array]] | None = None
    window: tuple[float, float] | None = None
    form: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        if self.multiple_of is None:
            object.__setattr__(self, "multiple_of", self)

    def __repr__(self) -> str:
        return self.name


def _softplus(x: Array) -> tuple[Array, Array]:
    small = np.exp(-np.abs(x))  # neither branch overflows
    return np.maximum(x, 0.0) + np.log1p(small), np.where(x > 0.0, 1.0, small) / (1.0 + small)


def _softplus_bend(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return small / (1.0 + small) ** 2


def _positive_line(x: Any) -> tuple[Any, Any, Any]:
    """The line of (1 + x)₊: any slope from 0 to 1 is that of a minorant, so that it may be chosen in floats."""
    value, slope = (1 + x).max(0), int(float(x) > -1.0)
    return value, slope, value - slope * (1 + x)


def _ramp(d: Array) -> Array:
    return np.maximum(d, 0.0)


exp = Function(
    "exp",
    lambda x: (found := np.exp(x), found),
    np.exp,
    math.exp,
    lambda m, x: m.exp(x),
    lambda x: rf"e^{{{x}}}",
    lambda x: (x.exp(), x.exp(), 0),
    lambda m, v, u: m.rel_entr(v, u) - v,
    least=0.0,
    slope=lambda x, value: value,
    form=("exp",),
)

softplus = Function(
    "softplus",
    _softplus,
    _softplus_bend,
    lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    lambda m, x: m.softplus(x),
    lambda x: rf"\log\bigl(1 + e^{{{x}}}\bigr)",
    lambda x: (x.exp().log1p(), 1 / (1 + (-x).exp()), 0),
    lambda m, v, u: m.rel_entr(v, u) + m.rel_entr(u - v, u),
    most=1.0,
    least=0.0,
    recession=_ramp,
    slope=lambda x, value: np.exp(np.minimum(x - value, 0.0)),
    form=("softplus",),
)

square = Function(
    "square",
    lambda x: (x * x, 2.0 * x),
    lambda x: np.full_like(x, 2.0),
    lambda x: x * x,
    lambda m, x: m.power(x, 2.0),
    lambda x: rf"\bigl({x}\bigr)^2",
    lambda x: (x * x, 2 * x, 0),
    lambda m, v, u: 0.25 * m.power_over(v, u, 2.0),
    least=0.0,
    increasing=False,
    reaches_least=True,
    is_quadratic=True,
    recession=lambda d: np.where(d != 0.0, np.inf, 0.0),
    form=("square",),
)


@cache
def smooth_hinge(width: float) -> Function:
    r"""Return :math:`\max_{0\le\lambda\le1} \lambda(1+x) - \tfrac12 w\lambda^2`: a hinge with a round corner."""
    w = width

    def part(x: Array) -> Array:
        return np.minimum(np.maximum((1.0 + x) / w, 0.0), 1.0)

    def slopes(x: Array) -> tuple[Array, Array]:
        inside = part(x)
        return inside * (1.0 + x - (0.5 * w) * inside), inside

    def plain(x: float) -> float:
        short = max(1.0 + x, 0.0)
        return short - 0.5 * w if short > w else 0.5 * short * short / w

    def line(x: Any) -> tuple[Any, Any, Any]:
        inside = (1 + x).max(0).min(w)  # the square inside, and the line beyond
        slope = inside / w
        return inside * inside / (2 * w) + (1 + x - w).max(0), slope, 0

    return Function(
        f"smooth_hinge({w})",  # JAX traces widths
        slopes,
        lambda x: ((1.0 + x > 0.0) & (1.0 + x < w)) / w,
        plain,
        lambda m, x: m.huber(m.positive(1.0 + x), w),
        lambda x: rf"h_{{{w:g}}}\bigl(1 + {x}\bigr)",
        line,
        lambda m, v, u: 0.5 * w * m.power_over(v, u, 2.0) - v,
        most=1.0,
        least=0.0,
        recession=_ramp,
        reaches_least=True,
        moved=lambda x: (-0.5 * part(x) ** 2, np.where(part(x) < 1.0, -part(x) / w, 0.0)),
        window=(1.0, w),
        form=("smooth_hinge", w),
    )


hinge = Function(
    "hinge",
    lambda x: (np.maximum(1.0 + x, 0.0), (x > -1.0) * 1.0),
    None,
    lambda x: max(1.0 + x, 0.0),
    lambda m, x: m.positive(1.0 + x),
    lambda x: rf"\bigl(1 + {x}\bigr)_+",
    _positive_line,
    lambda m, v, u: -v,
    most=1.0,
    least=0.0,
    smooth=False,
    reaches_least=True,
    recession=_ramp,
    coefficients=(0.0, 1.0),
    smoothed=smooth_hinge.__wrapped__,  # widths are many, and not kept
    kink=-1.0,
    form=("hinge",),
)

squared_hinge = Function(
    "squared_hinge",
    lambda x: (np.maximum(1.0 + x, 0.0) ** 2, 2.0 * np.maximum(1.0 + x, 0.0)),
    lambda x: 2.0 * (x > -1.0),
    lambda x: max(1.0 + x, 0.0) ** 2,
    lambda m, x: m.power(m.positive(1.0 + x), 2.0),
    lambda x: rf"\bigl(1 + {x}\bigr)_+^2",
    lambda x: ((1 + x).max(0) ** 2, 2 * (1 + x).max(0), 0),
    lambda m, v, u: 0.25 * m.power_over(v, u, 2.0) - v,
    least=0.0,
    reaches_least=True,
    coefficients=(0.0, 0.0, 1.0),
    form=("squared_hinge",),
)


@cache
def huber(width: float) -> Function:
    """Return Huber's function: half the square up to a width, a line beyond."""
    w = width
    inside = lambda x: np.clip(x, -w, w)  # noqa: E731

    def line(x: Any) -> tuple[Any, Any, Any]:
        near = x.max(-w).min(w)
        return near * near / 2 + w * (abs(x) - w).max(0), near, 0

    return Function(
        f"huber({w:g})",
        lambda x: (0.5 * inside(x) ** 2 + w * np.maximum(np.abs(x) - w, 0.0), inside(x)),
        lambda x: (np.abs(x) < w) * 1.0,
        lambda x: 0.5 * x * x if abs(x) <= w else w * (abs(x) - 0.5 * w),
        lambda m, x: w * m.huber(x, w),
        lambda x: rf"\operatorname{{huber}}_{{{w:g}}}\bigl({x}\bigr)",
        line,
        lambda m, v, u: 0.5 * m.power_over(v, u, 2.0),
        most=w,
        least=0.0,
        increasing=False,
        reaches_least=True,
        recession=lambda d: w * np.abs(d),
        form=("huber", w),
    )


@cache
def power_of_positive(p: float) -> Function:
    """Return (x₊)ᵖ for p > 1."""

    def perspective(m: Any, v: Any, u: Any) -> Any:
        exact = m.number(p)
        q = exact / (exact - 1)
        return (exact - 1) * exact ** (-q) * m.power_over(v, u, q)

    return Function(
        f"power({p:g})",
        lambda x: (np.maximum(x, 0.0) ** p, p * np.maximum(x, 0.0) ** (p - 1.0)),
        # the second derivative of a power below 2 is infinite at 0
        (lambda x: np.where(x < 0.0, 0.0, p * (p - 1.0) * np.maximum(x, 0.0) ** (p - 2.0)))
        if p >= 2.0
        else None,
        lambda x: max(x, 0.0) ** p,
        lambda m, x: m.power(m.positive(x), p),
        lambda x: rf"\bigl({x}\bigr)_+^{{{p:g}}}",
        lambda x: (_ball_power(x.max(0), p), p * _ball_power(x.max(0), p - 1.0), 0),
        perspective,
        least=0.0,
        reaches_least=True,
        form=("power", p),
    )


def _ball_power(x: Any, exponent: float) -> Any:
    from convexrank.proof.balls import power

    return power(x, exponent)


@cache
def scaled(function: Function, c: float) -> Function:
    """Return c φ for c > 0."""
    if c == 1.0:
        return function
    line, perspective, bend, slope = function.line, function.perspective, function.bend, function.slope
    smoothed, moved, window = function.smoothed, function.moved, function.window

    def c_slopes(x: Array) -> tuple[Array, Array]:
        value, slope = function.slopes(x)
        return c * value, c * slope

    def c_moved(x: Array) -> tuple[Array, Array]:
        value, slope = moved(x)  # type: ignore[misc]  # asked for only where there is one
        return c * value, c * slope

    def c_line(x: Any) -> tuple[Any, Any, Any]:
        value, slope, slack = line(x)  # type: ignore[misc]  # asked for only where there is one
        return c * value, c * slope, c * slack

    return Function(
        f"{c:g} {function.name}",
        c_slopes,
        None if bend is None else lambda x: c * bend(x),
        lambda x: c * function.plain(x),
        lambda m, x: c * function.read(m, x),
        lambda x: rf"{c:g}\,{function.latex(x)}",
        None if line is None else c_line,
        None if perspective is None else lambda m, v, u: perspective(m, v, c * u),
        most=c * function.most,
        least=c * function.least,
        increasing=function.increasing,
        smooth=function.smooth,
        reaches_least=function.reaches_least,
        is_quadratic=function.is_quadratic,
        recession=lambda d: c * function.recession(d),
        multiple_of=function.multiple_of,
        coefficients=None
        if function.coefficients is None
        else tuple(c * one for one in function.coefficients),
        slope=None if slope is None else lambda x, value: c * slope(x, value / c),
        smoothed=None if smoothed is None else lambda width: scaled.__wrapped__(smoothed(width), c),
        moved=None if moved is None else c_moved,
        kink=function.kink,
        window=None if window is None else (c * window[0], window[1]),
        form=None if function.form is None else ("scaled", c, function.form),
    )


@dataclass(frozen=True)
class _Slope:
    """The derivative of an elementwise function, for JAX; one for equal functions."""

    function: Callable[[Any], Any]

    def __call__(self, x: Any) -> Any:
        return jax_oracles.with_slope(self.function, x)[1]


def custom(
    function: Callable[[Any], Any],
    name: str,
    *,
    increasing: bool,
    smooth: bool,
    least: float,
    reaches_least: bool = False,
    recession: Callable[[Array], Array] | None = None,
    latex: Callable[[str], str] | None = None,
    line: Callable[[Any], tuple[Any, Any, Any]] | None = None,
    coefficients: tuple[float, ...] | None = None,
) -> Function:
    """Return a function of one's own, made of :mod:`convexrank.atoms`, in the readings that atoms have.

    One made of functions of JAX is differentiated by JAX, and so are second derivatives. It has no conjugate, and a
    form in balls only if ``line`` is given: no dual, and no proof without one.
    """
    function = jax_oracles.by_value(function)

    def slopes(x: Array) -> tuple[Array, Array]:
        try:
            return differentiate(function, x)
        except (TypeError, AttributeError):  # made of functions that are no atoms
            return jax_oracles.derivatives(function, x)

    return Function(
        name,
        slopes,
        (lambda x: jax_oracles.derivatives(_Slope(function), x)[1]) if smooth else None,
        lambda x: float(slopes(np.array([x]))[0][0]),
        # JAX alone would round numpy's arrays
        lambda m, x: slopes(x)[0] if isinstance(x, np.ndarray) else function(x),
        latex or (lambda x: rf"\operatorname{{{name}}}\bigl({x}\bigr)"),
        line,
        least=least,
        increasing=increasing,
        smooth=smooth,
        reaches_least=reaches_least,
        recession=recession or _unbounded,
        coefficients=coefficients,
        own=function,
    )


def of_loss(loss: Any) -> Function:
    """Return φ(x) = ℓ(−x) of a :class:`convexrank.losses.Loss` that states it, or else of its call."""
    stated = getattr(loss, "phi", None)
    if stated is not None:
        return stated
    return exp if loss.factorises else own_loss(loss)


@lru_cache(maxsize=256)
def own_loss(loss: Any) -> Function:
    """Return φ(x) = ℓ(−x) of a loss of one's own, by its call; one function for equal losses."""
    given, name = getattr(loss, "name", None), getattr(getattr(loss, "function", None), "__name__", "")
    name = given or (name or type(loss).__name__)
    name = name if given or name.isidentifier() else "loss"
    word, on_ball = name.replace("_", r"\_"), getattr(loss, "line", None)
    sign = getattr(loss, "latex", None) or rf"\operatorname{{{word}}}"

    def line(x: Any) -> tuple[Any, Any, Any]:
        value, slope, slack = on_ball(-x)  # type: ignore[misc]  # asked for only where there is one
        return value, -slope, slack

    return custom(
        _Mirrored(loss),
        name,
        increasing=True,
        smooth=bool(loss.smooth),
        least=0.0,
        reaches_least=bool(loss.attained),
        # φ is named after ℓ, whose argument is the margin
        latex=lambda x: rf"{sign}\bigl(-({x})\bigr)",
        line=None if on_ball is None else line,
        coefficients=loss.polynomial,
    )


@dataclass(frozen=True)
class _Mirrored:
    """ℓ(−x) for the loss ℓ; one for equal losses, because JAX compiles by identity."""

    loss: Callable[[Any], Any]

    def __call__(self, x: Any) -> Any:
        return self.loss(-x)
