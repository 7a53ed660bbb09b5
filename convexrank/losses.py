r"""Losses :math:`\ell(z)` of a score difference :math:`z = f_i - f_k`: convex, non-increasing, small when z is large.

A loss is declared once, with :mod:`convexrank.atoms`. Four attributes state the properties that fast oracles use:

``smooth``
    the loss has a continuous derivative;
``attained``
    its infimum 0 is reached at a finite margin (hinge), rather than approached (exponential, logistic);
``polynomial``
    coefficients :math:`(c_0, c_1, \dots)` with :math:`\ell(z) = \sum_m c_m (1-z)_+^m`, when it is of that form: pair
    sums then take one sort and prefix sums, O(n log n), instead of all pairs;
``factorises``
    :math:`\ell(f_i-f_k) = e^{-f_i}e^{f_k}`: pair sums take O(n).

The transform ψ of a loss is the function by which an excess convex risk bounds an excess 0-1 risk:

.. math:: ψ(x) = H^-\bigl(\tfrac{1+x}2\bigr) - H\bigl(\tfrac{1+x}2\bigr), \qquad
          H(ρ) = \inf_a\, ρ\,\ell(a) + (1-ρ)\,\ell(-a), \quad
          H^-(ρ) = \inf_{a(2ρ-1)\le0} ρ\,\ell(a) + (1-ρ)\,\ell(-a)

The 2006 paper prints :math:`H^-((1+x)/2) - H^-((1-x)/2)`, which is 0 everywhere, as :math:`H^-` is symmetric about ½.

Source: Bartlett, Jordan and McAuliffe, Convexity, classification, and risk bounds, Journal of the American Statistical
Association 101 (2006), Definition 2; Clémençon, Lugosi and Vayatis, Ranking and empirical minimization of U-statistics
(2006), section 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from scipy.special import xlog1py

from convexrank import atoms
from convexrank.core.elementwise_checks import OnGrid, apply, check_words
from convexrank.data import (
    check_choice,
    check_flag,
    check_hashable,
    check_positive,
    check_real_array,
    keep_checked,
    shown,
)
from convexrank.data.display import call_text, short_fields
from convexrank.modelling import functions
from convexrank.modelling.functions import Function

if TYPE_CHECKING:
    from convexrank.proof.balls import Line, arb

__all__ = ["Custom", "Exponential", "Hinge", "Logistic", "Loss", "SquaredHinge", "resolve"]

Array = np.ndarray

# A loss of a caller's own is examined for margins up to this.
_LARGEST_MARGIN = 30.0
_ROUNDING = 1e-14


def transform(loss: Callable[[Any], Any], x: Any) -> Any:
    """Return ψ(x) elementwise for a convex loss, both infima sought over margins up to 30."""
    shares = 0.5 * (1.0 + np.abs(check_differences(x)))

    def risk(a: Array) -> Array:
        return shares * np.asarray(loss(a)) + (1.0 - shares) * np.asarray(loss(-a))

    zero = np.zeros_like(shares)
    low, high = zero - _LARGEST_MARGIN, zero + _LARGEST_MARGIN
    wrong = _least(risk, low, zero)
    # rounding is subtracted: a transform that is 0 must not seem positive
    return np.maximum(wrong - _least(risk, low, high) - _ROUNDING * np.abs(wrong), 0.0)


def check_differences(x: Any) -> np.ndarray:
    """Return x as an array of numbers from -1 to 1."""
    values = check_real_array(x, "x").astype(np.float64)
    if not (np.abs(values) <= 1.0).all():
        raise ValueError("x has values that are not between -1 and 1; pass differences of two shares.")
    return values


def lost_entropy(x: np.ndarray) -> np.ndarray:
    """Return ln 2 less the entropy of (1 + x)/2: by two forms, for no form is exact both near 0 and at 1."""
    near = np.where(np.abs(x) < 0.5, x, 0.0)
    small = 0.5 * (np.log1p(-near * near) + 2.0 * near * np.arctanh(near))
    return np.where(np.abs(x) < 0.5, small, 0.5 * (xlog1py(1.0 + x, x) + xlog1py(1.0 - x, -x)))


def _least(risk: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Return the least value of convex functions on intervals, elementwise, by golden sections."""
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    best = np.minimum(risk(low), risk(high))
    for _ in range(80):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = risk(left), risk(right)
        best = np.minimum(best, np.minimum(at_left, at_right))
        lower = at_left <= at_right
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    return best


@runtime_checkable
class Loss(Protocol):
    """Interface of a loss: the function, and the properties that oracles use."""

    @property
    def smooth(self) -> bool:
        """Whether the derivative is continuous."""
        ...

    @property
    def attained(self) -> bool:
        """Whether the infimum 0 is reached at a finite margin."""
        ...

    @property
    def polynomial(self) -> tuple[float, ...] | None:
        """Coefficients in powers of the positive part of 1 - z, or None."""
        ...

    @property
    def factorises(self) -> bool:
        """Whether the loss of a difference is a product of a positive's and a negative's factor."""
        ...

    def __call__(self, z: Any) -> Any:
        """Evaluate elementwise on a cvxpy expression or an array."""
        ...


class _OfMargins:
    """Function φ(x) = ℓ(−x) of a loss ℓ."""

    phi: Any

    @property
    def smooth(self) -> bool:
        """Whether the derivative is continuous."""
        return self.phi.smooth

    @property
    def attained(self) -> bool:
        """Whether the infimum 0 is reached at a finite margin."""
        return self.phi.reaches_least

    @property
    def polynomial(self) -> tuple[float, ...] | None:
        """Coefficients in powers of the positive part of 1 - z, or None."""
        return self.phi.coefficients

    @property
    def factorises(self) -> bool:
        """Whether the loss of a difference is a product of a positive's and a negative's factor."""
        return self.phi is functions.exp

    def line(self, z: arb) -> Line:
        """Return value, slope and slack over a ball, for proofs; see :mod:`convexrank.proof.balls`."""
        value, slope, slack = self.phi.line(-z)
        return value, -slope, slack


@dataclass(frozen=True)
class Exponential(_OfMargins):
    r"""Exponential loss :math:`\ell(z) = e^{-z}`, the loss of RankBoost and of the P-Norm Push.

    Examples
    --------
    >>> from convexrank import losses
    >>> float(losses.Exponential()(0.0))
    1.0
    """

    #: The function φ(x) = ℓ(−x), as expressions take it.
    phi = functions.exp

    def __call__(self, z: Any) -> Any:
        """Evaluate elementwise."""
        return atoms.exp(-z)

    def psi(self, x: Any) -> Any:
        r"""Return the transform of Bartlett, Jordan and McAuliffe for x in [-1, 1], elementwise: 1 - √(1 - x²)."""
        x = check_differences(x)
        return x * x / (1.0 + np.sqrt((1.0 - x) * (1.0 + x)))


@dataclass(frozen=True)
class Logistic(_OfMargins):
    r"""Logistic loss :math:`\ell(z) = \log_b(1 + e^{-z})`; the natural logarithm by default.

    Parameters
    ----------
    base : float
        Base of the logarithm. With base 2 the loss is 1 at z = 0, an upper bound on the 0-1 loss (the 2006 paper's
        "logit" cost). With the natural logarithm the loss is smaller by the factor log 2, and no such bound.

    Examples
    --------
    >>> from convexrank import losses
    >>> round(float(losses.Logistic()(0.0)), 6)
    0.693147
    """

    base: float = math.e

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "base")
        if not self.base > 1:
            raise ValueError(f"base is {self.base}, expected a number greater than 1.")

    def __call__(self, z: Any) -> Any:
        """Evaluate elementwise."""
        scale = 1.0 if self.base == math.e else 1.0 / math.log(self.base)
        return scale * atoms.softplus(-z)

    @property
    def phi(self) -> Function:  # type: ignore[override]
        """The function φ(x) = ℓ(−x), as expressions take it."""
        return _phi_of_logistic(self.base)

    def psi(self, x: Any) -> Any:
        """Return ψ(x): log 2 less the entropy of (1 + x)/2, see :mod:`convexrank.losses`."""
        x = check_differences(x)
        return lost_entropy(x) / math.log(self.base)


@dataclass(frozen=True)
class Hinge(_OfMargins):
    r"""Hinge loss :math:`\ell(z) = (1 - z)_+`, the loss of RankSVM. Convex, with a kink at z = 1.

    Examples
    --------
    >>> from convexrank import losses
    >>> float(losses.Hinge()(0.25))
    0.75
    """

    #: The function φ(x) = ℓ(−x), as expressions take it.
    phi = functions.hinge

    def __call__(self, z: Any) -> Any:
        """Evaluate elementwise."""
        return atoms.positive(1.0 - z)

    def psi(self, x: Any) -> Any:
        """Return ψ(x) for x in [-1, 1], the size of x. See :mod:`convexrank.losses`."""
        x = check_differences(x)
        return np.abs(x)


@dataclass(frozen=True)
class SquaredHinge(_OfMargins):
    r"""Squared hinge loss :math:`\ell(z) = (1 - z)_+^2`; continuously differentiable.

    Examples
    --------
    >>> from convexrank import losses
    >>> float(losses.SquaredHinge()(0.5))
    0.25
    """

    #: The function φ(x) = ℓ(−x), as expressions take it.
    phi = functions.squared_hinge

    def __call__(self, z: Any) -> Any:
        """Evaluate elementwise."""
        return atoms.square(atoms.positive(1.0 - z))

    def psi(self, x: Any) -> Any:
        """Return ψ(x) for x in [-1, 1]: x². See :mod:`convexrank.losses`."""
        x = check_differences(x)
        return x * x


@dataclass(frozen=True)
class Custom:
    r"""A loss of your own, written with atoms.

    Parameters
    ----------
    function : callable
        The loss as a function of the margin z = f_i − f_k, written with :mod:`convexrank.atoms`. It is convex,
        non-negative, and does not increase: a large margin is good. The three properties are tested for z from -30
        to 30. Pair sums of a custom loss are computed in blocks: O(I·K) time, bounded memory.
    smooth : bool, optional
        Whether the derivative of the loss is continuous; by default determined by a test. If it is False, the solver
        for non-smooth problems is used.
    attained : bool, optional
        Whether the infimum 0 of the loss is reached at a finite margin; by default determined by a test.
    name : str, optional
        What messages and formulas call it; by default the name of the function.
    latex : str, optional
        Its sign in formulas, such as ``r"\ell_2"``; by default the name.

    Raises
    ------
    ValueError
        If the function is negative, increasing or not convex somewhere, or smooth=True is wrong; the message names the
        place. Also if the function is not elementwise, or uses functions that JAX cannot trace.
    TypeError
        If function is none, or name or latex is no text.

    Examples
    --------
    >>> from convexrank import atoms, losses
    >>> loss = losses.Custom(lambda z: atoms.square(atoms.positive(2.0 - z)))
    >>> float(loss(1.0)), loss.smooth, loss.attained
    (1.0, True, True)
    """

    function: Callable[[Any], Any]
    smooth: bool = None  # type: ignore[assignment]  # a bool once made
    attained: bool = None  # type: ignore[assignment]
    name: str | None = field(default=None, kw_only=True)
    latex: str | None = field(default=None, kw_only=True)

    polynomial = None
    factorises = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function is {shown(self.function)}, expected a function of z made of atoms.")
        check_words(name=self.name, latex=self.latex)
        for name in ("smooth", "attained"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_flag(getattr(self, name), name))
        loss = OnGrid(self.function, np.linspace(-30.0, 30.0, 241), "function, the loss of a margin z,")
        loss.check(
            falls="it must be non-increasing in z = f_i - f_k, for a large margin is good. If it is written in -z, "
            "pass lambda z: function(-z); if it rises again, as (1 - z)**2 does, cut it off: atoms.positive(1 - z)**2"
        )
        values, kink = loss.values, loss.kink()
        if self.smooth and kink is not None:
            raise ValueError(
                f"the loss is said to be smooth, but its slope jumps at z = {kink:.6g}; leave smooth out, or say False."
            )
        object.__setattr__(self, "smooth", kink is None if self.smooth is None else bool(self.smooth))
        if self.attained is None:
            # an exponential tail that underflows to 0 passes by the smallest numbers, a zero that is reached does not
            reached = values[-1] == 0.0 and float(values[values > 0].min(initial=1.0)) > 1e-30
            object.__setattr__(self, "attained", bool(reached))

    def __repr__(self) -> str:
        return call_text("Custom", short_fields(self))

    def __call__(self, z: Any) -> Any:
        """Evaluate elementwise."""
        return apply(self.function, z)

    @property
    def phi(self) -> Function:
        """The function φ(x) = ℓ(−x), of which little is known; expressions read its atoms first."""
        return functions.own_loss(self)

    def psi(self, x: Any) -> Any:
        """Return ψ(x) for x in [-1, 1], computed by minimization. See :mod:`convexrank.losses`."""
        return transform(self, x)


@lru_cache(maxsize=256)
def _phi_of_logistic(base: float) -> Function:
    """One function for equal bases; over balls the scale is 1/log b, not the nearest float."""
    if base == math.e:
        return functions.softplus
    found = functions.scaled(functions.softplus, 1.0 / math.log(base))

    def line(x: arb) -> Line:
        from convexrank.proof.balls import ZERO, arb, sigmoid, softplus

        scale = 1 / arb(base).log()
        return scale * softplus(x), scale * sigmoid(x), ZERO

    def perspective(m: Any, v: Any, u: Any) -> Any:
        whole = u / m.log_of(base)
        return m.rel_entr(v, whole) + m.rel_entr(whole - v, whole)

    return replace(found, line=line, perspective=perspective, form=("logistic", base))


_NAMES: dict[str, Callable[[], Loss]] = {
    "exponential": Exponential,
    "hinge": Hinge,
    "logistic": Logistic,
    "squared_hinge": SquaredHinge,
}


def resolve(loss: Loss | str, name: str = "loss") -> Loss:
    """Accept a loss object or its name.

    Parameters
    ----------
    loss : Loss or str
        An object, or one of: exponential, hinge, logistic, squared_hinge.
    name : str
        Name of the argument in messages.

    Returns
    -------
    Loss
        The object.

    Examples
    --------
    >>> from convexrank import losses
    >>> losses.resolve("hinge")
    Hinge()
    """
    if isinstance(loss, str):
        return check_choice(loss, dict(_NAMES), name)()
    if not isinstance(loss, Loss) or isinstance(loss, type):
        raise TypeError(
            f"{name} is {shown(loss)}, expected a name ({', '.join(sorted(_NAMES))}) or an object such as "
            "losses.Hinge()."
        )
    check_hashable(loss, name)
    return loss
