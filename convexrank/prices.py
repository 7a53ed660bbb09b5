r"""Prices :math:`g(r)`: the cost of a negative, given the positives ranked below it (2009 paper, section 2).

A price is non-negative and non-decreasing on :math:`r \ge 0` and has two forms:

* :math:`g(r)`, used with a general loss; it must be convex there;
* :math:`h(a) = g(e^a)`, used with the exponential loss, where r is always :math:`e^a` with *a* a log-sum-exp; here
  h must be convex, which is weaker: :math:`g(r) = \log(1+r)` is concave, but its h is softplus.

One expression in :mod:`convexrank.atoms` declares both forms.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np

from convexrank import atoms
from convexrank.backend.progress import warn_caller
from convexrank.core.elementwise_checks import (
    OnGrid,
    apply,
    check_words,
    follows_disciplined_rules,
    model_form,
)
from convexrank.data import check_choice, check_hashable, check_positive, keep, keep_checked, shown
from convexrank.data.display import call_text, short_fields
from convexrank.modelling import functions, rules
from convexrank.modelling.expressions import Node
from convexrank.modelling.functions import Function
from convexrank.modelling.tracing import named, traced

__all__ = ["Custom", "ExpPrice", "Identity", "LogOnePlus", "Power", "Price", "priced", "resolve"]


@runtime_checkable
class Price(Protocol):
    """Interface of a price.

    A class of your own whose derivative has jumps also declares ``smooth = False``.
    """

    @property
    def convex(self) -> bool:
        """Whether g itself is convex, so that any convex loss may be used."""
        ...

    @property
    def log_convex(self) -> bool:
        """Whether h(a) = g(exp a) is convex, so that the exponential loss may be used."""
        ...

    def g(self, r: Any) -> Any:
        """Evaluate the price of r >= 0, elementwise."""
        ...

    def h(self, a: Any) -> Any:
        """Evaluate the price of exp(a), elementwise."""
        ...


class _TwoFaces:
    """The second face from the first: h(a) = g(exp a), kept in the logarithmic domain where atoms allow."""

    convex = True
    log_convex = True
    smooth = True

    def g(self, r: Any) -> Any:
        raise NotImplementedError

    def h(self, a: Any) -> Any:
        """Evaluate the price of exp(a), elementwise."""
        return atoms.materialize(self.g(atoms.LogDomain(a)))


@dataclass(frozen=True)
class Identity(_TwoFaces):
    """No push: g(r) = r, the objective of RankBoost (p = 1).

    Examples
    --------
    >>> from convexrank import prices
    >>> prices.Identity().g(3.0)
    3.0
    """

    def g(self, r: Any) -> Any:
        """Evaluate the price of r >= 0, elementwise."""
        return r

    def of(self, x: Node) -> Node:
        """Return the price of an expression."""
        return x


@dataclass(frozen=True)
class Power(_TwoFaces):
    """The p-norm push: g(r) = r^p with p >= 1; its second form is h(a) = exp(p a), convex for every p > 0.

    Parameters
    ----------
    p : float
        The power. Values below 1 are accepted with the exponential loss only.

    Examples
    --------
    >>> from convexrank import prices
    >>> float(prices.Power(2).g(3.0))
    9.0
    """

    p: float

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "p")

    @property
    def convex(self) -> bool:  # type: ignore[override]
        """Whether g itself is convex: p >= 1."""
        return self.p >= 1

    def g(self, r: Any) -> Any:
        """Evaluate the price of r >= 0, elementwise."""
        return atoms.power(r, self.p)

    def of(self, x: Node) -> Node:
        """Return the price of an expression."""
        return rules.power(x, self.p)


@dataclass(frozen=True)
class LogOnePlus(_TwoFaces):
    """The slowly growing price g(r) = log(1 + r), concave; h(a) = softplus(a), convex. Exponential loss only.

    This price with positives and negatives exchanged gives the IR Push: ``Push(-X, 1 - y, "log_one_plus")``.

    Examples
    --------
    >>> from convexrank import prices
    >>> round(float(prices.LogOnePlus().h(0.0)), 6)
    0.693147
    """

    convex = False

    def g(self, r: Any) -> Any:
        """Evaluate the price of r >= 0, elementwise."""
        return atoms.log1p(r)

    def of(self, x: Node) -> Node:
        """Return the price of an expression, which is an exponential."""
        return rules.log_one_plus(x)


@dataclass(frozen=True)
class ExpPrice(_TwoFaces):
    """The very steep price g(r) = exp(scale · r) (2009 paper, section 2). It overflows for r above 700 / scale.

    Parameters
    ----------
    scale : float
        A positive factor. With scale 1/I, for I positives, the price of a negative above all positives is e.

    Examples
    --------
    >>> from convexrank import prices
    >>> float(prices.ExpPrice().g(0.0))
    1.0
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "scale")

    def g(self, r: Any) -> Any:
        """Evaluate the price of r >= 0, elementwise."""
        return atoms.exp(self.scale * r)

    def of(self, x: Node) -> Node:
        """Return the price of an expression."""
        return rules.exp(self.scale * x)


# Counts of positives are at most the number of rows; eight decades either side of 1 are ample.
_R_GRID = np.concatenate([[0.0], np.logspace(-4, 6, 401)])
_A_GRID = np.linspace(-12.0, 14.0, 521)


@dataclass(frozen=True)
class Custom(_TwoFaces):
    """A price of your own, in one line of atoms.

    The constructor checks that the price is non-negative and non-decreasing on a grid of r from 0 to 10⁶, and convex in
    r or in a = log r, by cvxpy's rules or, if they cannot decide, on the grid. The constructor also finds jumps of the
    derivative (``atoms.maximum``, ``atoms.positive``): ``smooth`` is then False, and a solver for non-smooth problems
    is used.

    If cvxpy's rules show that g is convex, the exact model is conic. If they do not, as for ``r * atoms.log1p(r)``, the
    model is passed to a nonlinear solver. A function that cvxpy cannot evaluate has no exact model: ``has_model`` is
    False, with a warning when the price is made.

    Parameters
    ----------
    function : callable
        The price g as a function of r, written with :mod:`convexrank.atoms` and arithmetic.
    name : str, optional
        What messages and formulas call it; by default the name of the function.
    latex : str, optional
        Its sign in formulas, such as ``"g_2"``; by default the name.

    Raises
    ------
    ValueError
        If g is negative or decreasing somewhere, or convex in neither r nor log r; the message names the place. Also if
        g is not elementwise, or uses functions that JAX cannot trace.
    TypeError
        If function is none, or name or latex is no text.

    Warns
    -----
    UserWarning
        If there is no exact model.

    Examples
    --------
    >>> from convexrank import atoms, prices
    >>> price = prices.Custom(lambda r: r + atoms.square(r))
    >>> float(price.g(2.0)), price.convex
    (6.0, True)
    >>> prices.Custom(lambda r: atoms.positive(r - 3.0)).smooth
    False
    """

    function: Callable[[Any], Any]
    name: str | None = field(default=None, kw_only=True)
    latex: str | None = field(default=None, kw_only=True)
    convex: bool = field(init=False, default=True)
    log_convex: bool = field(init=False, default=True)
    smooth: bool = field(init=False, default=True)
    has_model: bool = field(init=False, default=True, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function is {shown(self.function)}, expected a function of r made of atoms.")
        check_words(name=self.name, latex=self.latex)
        import cvxpy as cp

        price = OnGrid(self.g, _R_GRID, "function's price g(r)")
        # being non-negative and non-decreasing is never waived; convexity may hold for one face only
        price.check(convex=False)
        r, x, a = cp.Variable(nonneg=True), cp.Variable(), cp.Variable()
        in_r = _defect(self.g, r, cp.square(x), lambda: price)
        # a convex non-decreasing function of the convex exp(a) is convex
        in_a = None
        if in_r is not None:
            # less 1, so that cvxpy knows the sign of neither argument
            in_a = _defect(
                self.h,
                a,
                cp.exp(a) - 1.0,
                lambda: OnGrid(self.h, _A_GRID, "function's price h(a) = g(exp a)"),
            )
        if in_r is not None and in_a is not None:
            raise ValueError(f"{in_r} As a function of a = log r: {in_a}")
        keep(self, convex=in_r is None, log_convex=in_a is None)
        # at r = 0 the domain ends: what atoms continue a price by there is no jump of its slope
        object.__setattr__(self, "smooth", price.kink(after=1) is None)
        forms = [model_form(self.g, False)] if self.convex else [model_form(self.h, True)]
        object.__setattr__(self, "has_model", any(forms))
        if not self.has_model:
            warn_caller(
                "this price has no exact model, for cvxpy cannot read its function: solve('exact') will refuse it, "
                "and verify has nothing to compare with. Fast solvers and certificates are not affected. Write "
                "function with convexrank.atoms and arithmetic to have a model."
            )

    def __repr__(self) -> str:
        return call_text("Custom", short_fields(self))

    def g(self, r: Any) -> Any:
        """Evaluate the price of r >= 0, elementwise."""
        return apply(self.function, r)

    def h(self, a: Any) -> Any:
        """Evaluate the price of exp(a), elementwise."""
        return apply(self._in_log, a)

    def _in_log(self, a: Any) -> Any:
        try:
            return atoms.materialize(self.function(atoms.LogDomain(a)))
        except TypeError:  # the function does with r what the logarithmic domain does not offer
            return self.function(atoms.exp(a))


def _defect(
    face: Callable[[Any], Any], argument: Any, convex_argument: Any, on_grid: Callable[[], OnGrid]
) -> str | None:
    """Return why a face of a price is not convex, by cvxpy's rules or else on a grid; None if it is."""
    if follows_disciplined_rules(face, argument, convex_argument):
        return None
    try:
        on_grid().check()
    except ValueError as error:
        return str(error)
    return None


_NAMES: dict[str, Callable[[], Price]] = {
    "identity": Identity,
    "log_one_plus": LogOnePlus,
    "exp": ExpPrice,
}


def resolve(price: Price | str | float) -> Price:
    """Accept a price object, a name, or a number p for Power(p).

    Parameters
    ----------
    price : Price, str or float
        An object; one of the names identity, log_one_plus and exp; or a number p for the power r^p.

    Returns
    -------
    Price
        The object.

    Examples
    --------
    >>> from convexrank import prices
    >>> prices.resolve(4)
    Power(p=4.0)
    """
    if isinstance(price, str):
        return check_choice(price, dict(_NAMES), "price")()
    if isinstance(price, numbers.Real) and not isinstance(price, bool | np.timedelta64):
        power = check_positive(price, "price", infinite=True)
        if math.isinf(power):
            raise ValueError(
                "price is inf, expected a finite number; the limit p = ∞ is a problem of its own, problems.TopPush or "
                "RmaxPush."
            )
        return Power(power)
    if not isinstance(price, Price) or isinstance(price, type):
        raise TypeError(
            f"price is {shown(price)}, expected a number p, a name ({', '.join(sorted(_NAMES))}) or an object such as "
            "prices.Power(4)."
        )
    check_hashable(price, "price")
    return price


def priced(price: Price, x: Node) -> Node:
    """Return the price of an expression of at least 0, entry by entry: h of the exponent of an exponential, else g.

    Parameters
    ----------
    price : Price
        The price.
    x : expression
        Sums of losses, such as :func:`convexrank.modelling.pair_sums`.

    Returns
    -------
    expression
        Convex where the price is convex in r, or x is an exponential and the price convex in log r.

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank import losses, prices
    >>> from convexrank.modelling import pair_sums, total
    >>> class Priced(cr.Formulation):
    ...     def risk(self, f):
    ...         return total(prices.priced(prices.Power(2), pair_sums(losses.Hinge(), f.positive, f.negative)))
    >>> Priced([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1).solve().status.name
    'CONVERGED'
    """
    price = resolve(price)
    if not isinstance(x, Node):
        raise TypeError(
            f"x is {shown(x)}, expected an expression of the scores, such as pair_sums of a loss."
        )
    stated = getattr(price, "of", None)
    if stated is not None:
        try:
            return stated(x)
        except TypeError as error:
            raise TypeError(f"price is {shown(price)}: {error}") from error
    exponent = rules.exponent(x)

    def own() -> Node:
        return rules.apply(_own(price, exponent is not None), x if exponent is None else exponent)

    states_nothing = not hasattr(price, "line") and not hasattr(price, "log_line")
    read = traced(price.g, x) if states_nothing else None
    return own() if read is None else named(price, read, own)


@lru_cache(maxsize=256)
def _own(price: Price, in_log: bool) -> Function:
    """The function g, or h, of a price that no atom states; one for equal prices, because JAX compiles by identity."""
    given = getattr(price, "name", None)
    name = given or getattr(getattr(price, "function", None), "__name__", "g")
    word = name.replace("_", r"\_") if given or name.isidentifier() else "g"
    sign = getattr(price, "latex", None) or rf"\operatorname{{{word}}}"
    made = functions.custom(
        price.h if in_log else price.g,
        name if given or name.isidentifier() else "price",
        increasing=True,
        smooth=bool(getattr(price, "smooth", True)),
        least=0.0,
        latex=lambda x: rf"{sign}\bigl({rf'e^{{{x}}}' if in_log else x}\bigr)",
        line=getattr(price, "log_line" if in_log else "line", None),
    )
    # a price that is flat near 0 reaches its least
    nothing = np.array([-800.0, math.log(1e-4)] if in_log else [0.0, 1e-4])
    values = made.slopes(nothing)[0]
    return replace(made, reaches_least=bool(values[0] == values[1]))
