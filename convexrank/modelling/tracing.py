"""Losses and prices of one's own, read from their atoms: expressions, of which all else follows as of any other.

A function is called with an expression in place of a number. What is no sum of known functions, or not convex by its
form, is not read, and stays a function in the readings that atoms have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from convexrank.backend.traced import Traced
from convexrank.data.fields import recorded
from convexrank.modelling import expressions as tree
from convexrank.modelling import rules
from convexrank.modelling.functions import Function
from convexrank.modelling.program import Program

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class _Argument(Traced):
    """An expression, with the arithmetic and the atoms of numbers."""

    node: tree.Node
    __array_ufunc__: ClassVar[None] = None

    def __add__(self, other: Any) -> _Argument:
        return _Argument(self.node + _plain(other))

    def __sub__(self, other: Any) -> _Argument:
        return _Argument(self.node - _plain(other))

    def __rsub__(self, other: Any) -> _Argument:
        return _Argument(other - self.node)

    def __mul__(self, other: Any) -> _Argument:
        return _Argument(self.node * _plain(other))

    def __truediv__(self, other: Any) -> _Argument:
        return _Argument(self.node / _plain(other))

    def __neg__(self) -> _Argument:
        return _Argument(-self.node)

    def __pow__(self, exponent: Any) -> _Argument:
        return self.of_atom("power", self, exponent)

    __radd__ = __add__
    __rmul__ = __mul__

    def of_atom(self, name: str, *operands: Any) -> _Argument:
        """Return an atom of expressions."""
        return _Argument(_ATOMS[name](*map(_plain, operands)))


def _plain(x: Any) -> Any:
    return x.node if isinstance(x, _Argument) else x


def _positive(x: tree.Node) -> tree.Node:
    return rules.hinge(x - recorded(1.0))


def _power(x: tree.Node, p: float) -> tree.Node:
    return rules.square(x) if p == 2.0 else rules.power(x, p)


def _maximum(x: Any, y: Any) -> tree.Node:
    first, second = (x, y) if isinstance(x, tree.Node) else (y, x)
    return second + _positive(first - second)


_ATOMS: dict[str, Callable[..., tree.Node]] = {
    "exp": rules.exp,
    "huber": rules.huber,
    "log": rules.log,
    "log1p": rules.log_one_plus,
    "maximum": _maximum,
    "positive": _positive,
    "power": _power,
    "softplus": rules.softplus,
    "square": rules.square,
}


# Where a function that was read is compared with its numbers, and how far these may be apart.
_PLACES, _CLOSE = (-2.0, -0.3, 0.4, 1.5), 1e-9


def traced(function: Callable[[Any], Any], x: tree.Node) -> tree.Node | None:
    """Return a function of an expression as one; None where it cannot be read, or is not convex by its form.

    Nor is it read where it has other values at numbers: it may look at the type of its argument, or lose digits.
    """
    node = _read(function, x)
    of = rules.exp if rules.exponent(x) is not None else rules.hinge if rules.is_nonnegative(x) else _itself
    return node if node is not None and _agrees(function, of) else None


def _read(function: Callable[[Any], Any], x: tree.Node) -> tree.Node | None:
    try:
        found = function(_Argument(x))
    except Exception:  # noqa: BLE001 - whatever a function of numbers does to what is none, it is not read
        return None
    if not isinstance(found, _Argument):
        return None
    node = found.node
    try:
        Program(node if node.axis is None else rules.total(node), 0)  # which checks that it is convex
    except TypeError:
        return None
    return node


def _itself(x: tree.Node) -> tree.Node:
    return x


@lru_cache(maxsize=256)
def _agrees(function: Callable[[Any], Any], of: Callable[[tree.Node], tree.Node]) -> bool:
    """Return whether what is read has the values of the function, of some expressions of one number."""
    x = of(_number())
    node = _read(function, x)
    if node is None:
        return False
    whole, inner = Program(rules.total(node), 1), Program(rules.total(x), 1)
    for place in np.array(_PLACES)[:, None]:
        value = whole.value_and_gradient(place)[0]
        expected = float(function(inner.value_and_gradient(place)[0]))
        if not abs(value - expected) <= _CLOSE * max(1.0, abs(expected)):
            return False
    return True


def _number() -> tree.Scores:
    """A leaf of one row."""
    none = np.zeros(1, dtype=np.intp)
    return tree.Scores(tree.Axis("x", none, np.ones(1), none, 1))


def named(function: Any, found: tree.Node, printed: Callable[[], tree.Node]) -> tree.Node:
    """Return an expression that formulas print by the name of a loss or price, where the caller gave it one."""
    if getattr(function, "name", None) is None and getattr(function, "latex", None) is None:
        return found
    return tree.Stated(found.axis, ((1.0, found),), printed=printed())


@dataclass(frozen=True, eq=False)
class Piece:
    """A term c φ(s x + b) of a function of x."""

    factor: Any
    function: Function
    scale: Any
    shift: Any

    @property
    def is_plain(self) -> bool:
        """Whether it is φ(x)."""
        return self.factor == 1.0 and self.scale == 1.0 and not self.shift


@lru_cache(maxsize=256)
def pieces(loss: Callable[[Any], Any]) -> tuple[Piece, ...] | None:
    """Return terms whose sum is ℓ(−x), each of a known function of an increasing line; None where it has others."""
    node = _read(lambda x: loss(-x), _number())
    if node is None or not _agrees(loss, _itself):
        return None
    whole = tree.affine(node)
    found = [_piece(c, part) for c, part in whole.exact_terms]
    return None if np.any(whole.constant) or None in found else tuple(found)  # type: ignore[return-value]


def _piece(factor: Any, part: tree.Node) -> Piece | None:
    if not isinstance(part, tree.Elementwise) or not part.function.increasing:
        return None
    line = tree.affine(part.x)
    if len(line.terms) != 1 or not isinstance(line.args[0], tree.Scores) or not line.terms[0][0] > 0.0:
        return None
    return Piece(factor, part.function, line.exact_terms[0][0], line.exact_constant)
