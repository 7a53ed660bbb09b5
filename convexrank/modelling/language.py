"""An expression read in a language: cvxpy, JAX; functions and conjugates in numpy, too.

The readings share the composition (which rows, which sign, which weight) and nothing else: a language states the atoms
by functions of its own library. In numpy certificates read functions so, beside reductions of their own: see
:mod:`convexrank.modelling.certificates.reference`.

An expression as LaTeX, with one letter per group: i for positives, k for negatives, r for rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from convexrank.modelling import expressions as tree
from convexrank.modelling.functions import Function
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold

Array = np.ndarray


def read(node: tree.Node, m: Any, scores: Any, known: dict[int, Any] | None = None) -> Any:
    """Return the value of a node in a language, at the scores of all rows."""
    known = {} if known is None else known
    if id(node) in known:
        return known[id(node)]
    x = [read(part, m, scores, known) for part in node.args]
    match node:
        case tree.Scores():
            found = m.gathered(scores, node)
        case tree.Affine():
            found = node.constant
            for (c, part), one in zip(node.terms, x, strict=True):
                found = found + m.times(c, m.spread(one, node.axis) if node.is_level(part) else one)
        case tree.Dot():
            found = m.sums(m.times(m.shares(node), x[0]), node.over)
        case tree.LogSumExp():
            found = m.log_sum_exp(x[0], node)
        case tree.Highest():
            found = m.highest(x[0], node)
        case tree.Elementwise():
            found = m.apply(node, x[0])
        case _ if len(x) == 1:  # these and sums over pairs in whatever form a language has them
            found = (m.threshold if node.axis is None else m.cumulative)(x[0], node)
        case _:
            found = m.pair_sums(node, x[0], x[1])
    known[id(node)] = found
    return found


class Language:
    """Names of the atoms in a library: its own are functions of its arrays, and the rest follows from these."""

    exp: Any
    softplus: Any
    positive: Any
    power: Any
    huber: Any
    times: Any
    total: Any
    scatter: Any
    rel_entr: Any
    power_over: Any
    log_sum_exp: Any
    cumulative: Any
    highest: Any
    threshold: Any
    pair_sums: Any
    at_least_zero: Any
    zero: Any

    @staticmethod
    def exact(x: Any) -> Any:
        """Return numbers in the language."""
        return x

    @staticmethod
    def number(x: float) -> Any:
        """Return a number in the language, so that constants made of it are not rounded where nothing may be."""
        return x

    def log_of(self, x: float) -> Any:
        """Return the logarithm of a number in the language."""
        return math.log(x)

    @staticmethod
    def take(x: Any, places: Any) -> Any:
        """Return entries at places."""
        return x[places]

    def gathered(self, scores: Any, leaf: tree.Scores) -> Any:
        """Return the entries of a leaf, of the scores of all rows."""
        parts = [self.take(scores, rows) for _, rows in leaf.sides]
        return parts[0] if len(parts) == 1 else parts[0] - parts[1]

    def scattered(self, x: Any, leaf: tree.Scores, rows: int) -> Any:
        """Return the sums of the entries of a leaf for each row."""
        parts = [self.scatter(places, x, rows) for _, places in leaf.sides]
        return parts[0] if len(parts) == 1 else parts[0] - parts[1]

    def apply(self, node: tree.Elementwise, x: Any) -> Any:
        """Return the function of each entry."""
        return node.function.read(self, x)

    def spread(self, x: Any, axis: tree.Axis) -> Any:
        """Turn one number per query into one per row."""
        return self.take(x, axis.query)

    def sums(self, x: Any, axis: tree.Axis) -> Any:
        """Add the entries of each query."""
        return self.scatter(axis.query, x, axis.count)

    @staticmethod
    def parts(node: tree.Affine) -> tuple[Any, Any]:
        """Return the terms of a sum and its constant."""
        return node.terms, node.constant

    def shares(self, node: Any) -> Any:
        """Return the weights of a reduction, or the shares of its rows."""
        return node.weights if isinstance(node, CumulativeLogSumExp) else node.shares

    def in_range(self, function: Function, v: Any, u: Any) -> None:
        """Constrain multipliers to where the conjugate is finite."""
        if function.increasing:
            self.at_least_zero(v)
        if math.isfinite(function.most):
            self.at_least_zero(function.most * u - v, u)
            if not function.increasing:
                self.at_least_zero(function.most * u + v, u)


class Numpy(Language):
    """Plain numpy and scipy.

    For conjugates ``violation`` is how far multipliers are outside their constraints, relative to those of their nodes.
    """

    violation = 0.0

    @staticmethod
    def exp(x: Array) -> Array:
        """Return the exponential."""
        return np.exp(x)

    @staticmethod
    def softplus(x: Array) -> Array:
        """Return log(1 + eˣ)."""
        return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))

    @staticmethod
    def times(a: Any, x: Array) -> Array:
        """Return the product, entry by entry."""
        return np.multiply(a, x)

    @staticmethod
    def total(x: Array) -> float:
        """Return the sum of all entries."""
        return float(np.sum(x))

    @staticmethod
    def scatter(places: Array, x: Array, length: int) -> Array:
        """Add entries at places."""
        return np.bincount(places, np.broadcast_to(x, places.shape), length)

    @staticmethod
    def positive(x: Array) -> Array:
        """Return the positive part."""
        return np.maximum(x, 0.0)

    @staticmethod
    def power(x: Array, p: float) -> Array:
        """Return a power."""
        return x**p

    @staticmethod
    def huber(x: Array, width: float) -> Array:
        """Return x²/(2w) up to the width, |x| − w/2 beyond."""
        return special.huber(width, x) / width

    # --- conjugates -----------------------------------------------------------------------------------------------

    @staticmethod
    def rel_entr(v: Array, u: Array) -> Array:
        """Return v log(v/u)."""
        return special.rel_entr(np.maximum(v, 0.0), u)

    @staticmethod
    def power_over(v: Array, u: Array, q: float) -> Array:
        """Return \\|v\\|^q u^(1−q), 0 where both are 0."""
        # neither factor underflows alone; what overflows is no bound, which is a fair answer
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            found = u * (np.abs(v) / u) ** q
        return np.where(v == 0.0, 0.0, np.where(u == 0.0, math.inf, found))

    def at_least_zero(self, x: Array, size: Any = 0.0) -> None:
        """Note how far entries are below 0, beside numbers of a size."""
        self.zero(np.minimum(x, 0.0), size)

    def zero(self, x: Array, size: Any = 0.0) -> None:
        """Note how far entries are from 0, beside numbers of a size."""
        far = float(np.abs(x).max(initial=0.0)) / max(1.0, float(np.abs(size).max(initial=0.0)))
        self.violation = max(self.violation, far)


_LETTERS = {"positive": ("i", "I"), "negative": ("k", "K"), "rows": ("r", "n"), "pairs": ("i", "I")}
# What formulas call the rows of a group beside those of the same group: their letter is its first one.
_OTHERS = "j"


def latex(root: tree.Node) -> str:
    """Return the formula of a risk; a sum over queries where there are several."""
    text = _formula(root).replace("1 + -", "1 - ")
    if isinstance(root.leaf, tree.Differences):  # a query for each lower row
        return rf"\sum_k {text}"
    return rf"\sum_q \Bigl[{text}\Bigr]" if root.leaf.axis.count > 1 else text


def _letters(axis: tree.Axis) -> tuple[str, str]:
    return _LETTERS.get(axis.name, (axis.name[0], axis.name[0].upper()))


def _formula(node: tree.Node) -> str:
    match node:
        case tree.Differences():
            return r"\bigl(f_{i} - f_{k}\bigr)"
        case tree.Scores():
            return f"f_{{{_letters(node.axis)[0]}}}"
        case tree.Stated():
            return _formula(node.printed)
        case tree.Affine():
            return _sum(node)
        case tree.Dot():
            return f"{_over(node)} {_inner(node.x)}"
        case tree.LogSumExp():
            return rf"\log {_over(node)} e^{{{_formula(node.x)}}}"
        case tree.Highest():
            letter, _ = _letters(node.over)
            if isinstance(node, tree.Maximum):
                return rf"\max_{{{letter}}} {_inner(node.x)}"
            same = (node.asked == node.asked[0]).all()
            most = f"{node.asked[0]:g}" if same else "m"
            weight = "" if node.is_even else f" c_{{{letter}}}"
            return rf"\tfrac1{{{most}}}\sum_{{{letter}\in\text{{top }}{most}}}{weight} {_inner(node.x)}"
        case tree.Elementwise():
            return node.function.latex(_formula(node.x))
        case CumulativeLogSumExp():
            letter, inner = _letters(node.axis)[0], _formula(_of_others(node.x))
            weight = "" if (node.weights == node.weights.flat[0]).all() else "c_{j}\\,"
            return rf"\log \sum_{{j:\,y_j\le y_{letter}}} {weight}e^{{{inner}}}"
        case Threshold():
            (letter, count), inner = _letters(node.over), _inner(node.x)
            scale = "" if node.scale == 1.0 else rf"{node.scale:g}\,"
            even = (node.shares == node.shares.flat[0]).all()
            mean = rf"\tfrac1{{{count}}}\sum_{{{letter}}}" if even else rf"\sum_{{{letter}}} c_{{{letter}}}\,"
            above = node.function.latex(rf"{scale}({inner} - t)")
            return rf"\min\bigl\{{t : {mean} {above} \le {node.target:g}\bigr\}}"
        case tree.PairSums():
            return _pair_sum(node)
        case _:
            raise TypeError(f"{type(node).__name__} has no formula.")


def _inner(node: tree.Node) -> str:
    several = isinstance(node, tree.Affine) and len(node.terms) + bool(np.any(node.constant)) > 1
    return rf"\bigl({_formula(node)}\bigr)" if several else _formula(node)


def _over(node: tree.Dot | tree.LogSumExp) -> str:
    """The sum of a reduction, with weights where they are not all equal."""
    letter, count = _letters(node.over)
    if not node.mean:
        return _weighted(node.weights, letter, letter)
    weight = "" if (node.weights == node.weights.flat[0]).all() else f" c_{{{letter}}}"
    return rf"\tfrac1{{{count}}}\sum_{{{letter}}}{weight}"


def _weighted(weights: Any, letter: str, which: str) -> str:
    """The sum over a letter of rows, with weights where they are not all 1."""
    even, plain = (weights == weights.flat[0]).all(), weights.flat[0]
    scale = "" if not even or plain == 1.0 else f"{plain:g}"
    return rf"{scale}\sum_{{{which}}}" + ("" if even else f" c_{{{letter}}}")


def _of_others(node: tree.Node) -> tree.Node:
    """Name the rows of the entries otherwise; those of reductions stay as they are."""
    match node:
        case _ if node.axis is None:
            return node
        case tree.Scores():
            return replace(node, axis=replace(node.axis, name=_OTHERS))
        case tree.PairSums():
            return replace(node, lower=_of_others(node.lower))
        case _:
            return tree.renewed(node, [_of_others(part) for part in node.args])


def _number(c: Any) -> str:
    if np.ndim(c):
        return "c"
    inverse = 1.0 / abs(c) if c else 0.0
    if abs(c) < 1.0 and abs(inverse - round(inverse)) < 1e-9 * inverse:
        return rf"\tfrac1{{{round(inverse)}}}"
    return f"{abs(c):g}"


def _sum(node: tree.Affine) -> str:
    text = ""
    for c, part in node.terms:
        minus = not np.ndim(c) and c < 0
        size = "" if not np.ndim(c) and abs(c) == 1.0 else _number(c) + r"\,"
        several = isinstance(part, tree.Affine) or (size and isinstance(part, tree.Dot))
        inner = (
            rf"\bigl({_formula(part)}\bigr)" if isinstance(part, tree.Affine) or several else _formula(part)
        )
        text += (" - " if minus else " + ") + size + inner
    if np.ndim(node.constant) or node.constant:
        minus = not np.ndim(node.constant) and node.constant < 0
        text += (" - " if minus else " + ") + _number(node.constant)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _pair_sum(node: tree.PairSums) -> str:
    letter, own = _letters(node.upper_axis)[0], _letters(node.axis)[0]
    upper = node.upper if letter != own else _of_others(node.upper)
    letter = letter if letter != own else _OTHERS
    term = node.function.latex(_difference(_formula(node.lower), _inner(upper)))
    if isinstance(node, tree.PairMeans):
        asked = node.lowest.asked
        most = f"{asked[0]:g}" if (asked == asked[0]).all() else "m"
        weight = "" if node.lowest.is_even else f" c_{{{letter}}}"
        return rf"\tfrac1{{{most}}}\sum_{{{letter}\in\text{{bottom }}{most}}}{weight} {term}"
    which = letter if node.grades is None else rf"{letter}:\,y_{letter}>y_{own}"
    return f"{_weighted(node.weights, letter, which)} {term}"


def _difference(one: str, other: str) -> str:
    return f"{one} + {other[1:]}" if other.startswith("-") else f"{one} - {other}"
