r"""Expressions are data: a risk as a tree of convex atoms over groups of scores.

Leaves are the scores of groups of rows, query by query; the root is one number per query, and the risk is their sum.
A node is a vector with one entry per row of its axis, or per query where it has no axis. What a tree means stands in
the readings, one file each; here is only what it is made of.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import check_real_array
from convexrank.data.fields import Recorded, plain, recorded
from convexrank.modelling.functions import Function

Array = np.ndarray

# Products with these are not rounded.
_EXACT = 0.0, 1.0


@dataclass(frozen=True, eq=False)
class Axis:
    """The rows of a group, query by query.

    Parameters
    ----------
    name : str
        What formulas call the group.
    rows : ndarray of int, shape (m,)
        Numbers of the rows.
    weights : ndarray, shape (m,)
        Their weights, greater than 0.
    query : ndarray of int, shape (m,)
        The query 0, 1, … of each row, ascending.
    count : int
        How many queries there are; each has a row.
    """

    name: str
    rows: Array
    weights: Array
    query: Array
    count: int

    @cached_property
    def starts(self) -> Array:
        """Start of each query, and in the end the number of rows."""
        if self.count == 1:
            return np.array([0, len(self.rows)])
        return np.searchsorted(self.query, np.arange(self.count + 1))

    @cached_property
    def sizes(self) -> Array:
        """Number of rows of each query."""
        return np.diff(self.starts)

    @cached_property
    def stored_weights(self) -> Array:
        """The weights, each with a place in memory: what compiled loops take."""
        return np.ascontiguousarray(self.weights)

    @cached_property
    def places(self) -> Any:
        """The rows as an index: a slice where they are consecutive, which costs no copy."""
        first, n = int(self.rows[0]), len(self.rows)
        near = int(self.rows[-1]) - first == n - 1
        return slice(first, first + n) if near and (np.diff(self.rows) == 1).all() else self.rows

    def sums(self, x: Array) -> Array:
        """Sum the entries of each query."""
        return np.add.reduce(x, keepdims=True) if self.count == 1 else np.add.reduceat(x, self.starts[:-1])

    def highest(self, x: Array) -> Array:
        """Return the largest entry of each query."""
        if self.count == 1:
            return np.maximum.reduce(x, keepdims=True)
        return np.maximum.reduceat(x, self.starts[:-1])

    def spread(self, levels: Any) -> Any:
        """Turn one number per query into one per row."""
        return levels if self.count == 1 else levels.repeat(self.sizes)


def _product(c: Any, factor: Any) -> Any:
    """The product, which remembers its factors where it is rounded."""
    one, other = plain(c), plain(factor)
    numbers = isinstance(one, float) and isinstance(other, float)
    if numbers and abs(one) not in _EXACT and abs(other) not in _EXACT:
        return recorded(c) * factor
    return c * factor


class Node:
    """A vector of convex functions of the scores."""

    #: The rows of the entries; None for one entry per query.
    axis: Axis | None
    #: The expressions that it is a function of.
    args: tuple[Node, ...]
    # numpy must not take ``array * node`` apart element by element
    __array_ufunc__: ClassVar[None] = None

    @property
    def leaf(self) -> Scores:
        """A group of rows that it is a function of; all groups have the same queries."""
        node: Any = self
        while node.args:
            node = node.args[0]
        return node

    def __add__(self, other: Any) -> Affine:
        mine = affine(self)
        its = affine(other) if isinstance(other, Node) else Affine(self.axis, (), _constant(self, other))
        axes = {id(part.axis): part.axis for part in (mine, its) if part.axis is not None}
        if len(axes) > 1:
            names = " and ".join(sorted(axis.name for axis in axes.values() if axis is not None))
            raise TypeError(
                f"{names} are groups of different rows, whose scores have no common entries; reduce one of them to a "
                "number per query, by a mean, a total or a maximum, or compare them by pair_sums."
            )
        axis = next(iter(axes.values()), None)
        (my_terms, my_constant), (its_terms, its_constant) = mine.on(axis), its.on(axis)
        # long vectors first, so that sums are taken in place
        terms = sorted(my_terms + its_terms, key=lambda term: term[1].axis is None)
        return Affine(axis, tuple(terms), my_constant + its_constant)

    def __mul__(self, factor: Any) -> Affine:
        if isinstance(factor, Node):
            raise TypeError(f"({self}) * ({factor}) is a product of two expressions, which is not convex.")
        mine, c = affine(self), _constant(self, factor)
        terms = tuple((_product(c, one), node) for one, node in mine.exact_terms)
        constant = mine.exact_constant
        none = not np.ndim(constant) and not plain(constant)  # and no row of zeros
        return Affine(mine.axis, terms, constant if none else _product(c, constant))

    def __neg__(self) -> Affine:
        return self * -1.0

    def __sub__(self, other: Any) -> Affine:
        return self + -1.0 * other

    def __rsub__(self, other: Any) -> Affine:
        return -self + other

    def __truediv__(self, divisor: Any) -> Affine:
        if isinstance(divisor, Node):
            raise TypeError(f"({self}) / ({divisor}) is a quotient of two expressions, which is not convex.")
        return self * (1.0 / recorded(_constant(self, divisor, zero=False)))

    def __rtruediv__(self, dividend: Any) -> Affine:
        raise TypeError(
            f"{dividend} / ({self}) is a quotient by an expression, which is not convex by its form."
        )

    def __pow__(self, p: Any) -> Node:
        raise TypeError(
            f"({self}) ** {p} is written square({self}), or power({self}, p) of what is at least 0."
        )

    __radd__ = __add__
    __rmul__ = __mul__

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self} is no condition: a risk is one expression for all scores; write maximum, hinge or another loss "
            "in place of a condition."
        )

    def __eq__(self, other: object) -> bool:
        return bool(self) if isinstance(other, numbers.Number | np.ndarray) else self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return str(self)


def _constant(node: Node, value: Any, zero: bool = True) -> Any:
    """A number, or numbers for each entry of a node."""
    if isinstance(value, float | int) and math.isfinite(value) and (zero or value):
        return float(value)
    known = isinstance(value, Recorded)
    found = value if known else check_real_array(value, f"a constant beside {node}").astype(float, copy=False)
    numbers = np.asarray(plain(found))
    if not np.isfinite(numbers).all() or not (zero or numbers.all()):
        other = "" if zero else " other than 0"
        raise ValueError(f"a constant beside {node} is {value}, expected finite numbers{other}.")
    if found.ndim == 0:
        return found if isinstance(found, Recorded) else float(found)
    axis = node.axis
    length = node.leaf.axis.count if axis is None else len(axis.rows)
    if found.shape != (length,):
        each = "query with an order" if axis is None else f"row of {axis.name}"
        raise ValueError(
            f"a constant beside {node} has shape {found.shape}, expected one number, or {length}, one for each {each}."
        )
    if not (numbers == numbers[0]).all():
        return found
    return found[0] if isinstance(found, Recorded) else float(found[0])


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Node):
    """The scores of the rows of an axis: a leaf."""

    axis: Axis
    args: ClassVar[tuple[Node, ...]] = ()

    @property
    def sides(self) -> tuple[tuple[float, Array], ...]:
        """Rows whose scores an entry adds up, with their signs."""
        return ((1.0, self.axis.rows),)

    def entries(self, scores: Array) -> Array:
        """Return the entries, of the scores of all rows."""
        return scores[self.axis.places]

    def place(self, pulls: Array, found: Array) -> None:
        """Add numbers of the entries to those of all rows."""
        for sign, rows in self.sides:
            found += sign * np.bincount(rows, np.broadcast_to(pulls, rows.shape), len(found))

    def __str__(self) -> str:
        return self.axis.name


@dataclass(frozen=True, eq=False, repr=False)
class Differences(Scores):
    """The differences of the scores of listed pairs, those of the axis over the lower rows: a leaf."""

    lower: Array

    @property
    def sides(self) -> tuple[tuple[float, Array], ...]:
        """The scores of the upper rows, less those of the lower."""
        return (1.0, self.axis.rows), (-1.0, self.lower)

    def entries(self, scores: Array) -> Array:
        """Return the differences, of the scores of all rows."""
        return scores[self.axis.rows] - scores[self.lower]


@dataclass(frozen=True, eq=False, repr=False)
class Affine(Node):
    """Σ c · node + constant; levels of queries are spread over rows."""

    axis: Axis | None
    exact_terms: tuple[tuple[Any, Node], ...]
    exact_constant: Any = 0.0

    @cached_property
    def terms(self) -> tuple[tuple[Any, Node], ...]:
        """Factors as floats, and nodes."""
        return tuple((plain(c), node) for c, node in self.exact_terms)

    @cached_property
    def constant(self) -> Any:
        """The constant in floats."""
        return plain(self.exact_constant)

    @cached_property
    def args(self) -> tuple[Node, ...]:  # type: ignore[override]
        """The nodes of the terms."""
        return tuple(node for _, node in self.exact_terms)

    def on(self, axis: Axis | None) -> tuple[tuple[tuple[Any, Node], ...], Any]:
        """Return terms and constant for entries of an axis: numbers of queries are spread over its rows."""
        if axis is None or self.axis is not None:
            return self.exact_terms, self.exact_constant
        given = (self.exact_constant, *(c for c, _ in self.exact_terms))
        spread = [c[axis.query] if np.ndim(c) else c for c in given]
        return tuple(zip(spread[1:], self.args, strict=True)), spread[0]

    def is_level(self, node: Node) -> bool:
        """Return whether a term has one number per query, and the sum one per row."""
        return node.axis is None and self.axis is not None

    def spread(self, node: Node, x: Any) -> Any:
        """Return the numbers of a term for the entries of the sum: those of queries for each row."""
        return x if self.axis is None or node.axis is not None else self.axis.spread(x)

    def gathered(self, node: Node, u: Any) -> Any:
        """Return numbers of the entries for those of a term: the transpose of ``spread``."""
        return u if self.axis is None or node.axis is not None else self.axis.sums(u)

    def __str__(self) -> str:
        words = []
        for factor, node in self.terms:
            size = "c" if np.ndim(factor) else f"{abs(factor):g}"
            inner = f"({node})" if isinstance(node, Affine) else str(node)
            sign = "-" if not np.ndim(factor) and factor < 0 else "+"
            words += [sign, inner if size == "1" else f"{size} * {inner}"]
        if np.ndim(self.constant) or self.constant:
            negative = not np.ndim(self.constant) and self.constant < 0
            words += ["-" if negative else "+", "c" if np.ndim(self.constant) else f"{abs(self.constant):g}"]
        text = " ".join(words) or "0"
        return text[2:] if text.startswith("+ ") else text.replace("- ", "-", 1) if text[:1] == "-" else text


@dataclass(frozen=True, eq=False, repr=False)
class Stated(Affine):
    """An expression that formulas print as another one: that of a function that has a name of its own."""

    printed: Node = field(kw_only=True)

    def __str__(self) -> str:
        return str(self.printed)


@dataclass(frozen=True, eq=False, repr=False)
class OfOne(Node):
    """A function of one expression."""

    x: Node

    @property
    def args(self) -> tuple[Node, ...]:  # type: ignore[override]
        """That expression."""
        return (self.x,)

    @property
    def axis(self) -> Axis | None:  # type: ignore[override]
        """The rows of its entries."""
        return self.x.axis


class OverRows(OfOne):
    """One number per query, of rows."""

    axis: ClassVar[Axis | None] = None  # type: ignore[assignment]

    @cached_property
    def over(self) -> Axis:
        """The rows that are reduced."""
        return rows_of(self.x)


@dataclass(frozen=True, eq=False, repr=False)
class Reduction(OverRows):
    """Rows to one number per query, with weights, or with their shares of the query's total weight if ``mean``."""

    exact_weights: Array
    mean: bool = False

    @cached_property
    def weights(self) -> Array:
        """The weights as floats."""
        return plain(self.exact_weights)

    @cached_property
    def shares(self) -> Array:
        """The weights, or the shares of the rows of their query."""
        return self.weights / self.over.spread(self.over.sums(self.weights)) if self.mean else self.weights

    def __str__(self) -> str:
        return f"{self.word}({self.x})"

    @property
    def word(self) -> str:
        """The name of the atom."""
        raise NotImplementedError


class Dot(Reduction):
    """The sum Σ c x."""

    @property
    def word(self) -> str:
        """The name of the atom."""
        return "mean" if self.mean else "total"


@dataclass(frozen=True, eq=False, repr=False)
class LogSumExp(Reduction):
    r"""The logarithm of Σ c eˣ; with a width μ the smoother T log Σ c e^(x/T) - μ log Σ c below it, T = 1 + μ.

    It is :math:`\max_\beta \langle\beta, x\rangle - T D(\beta\,\|\,s) + \log\sum_j c_j` over shares β that add up
    to 1, with the Kullback-Leibler divergence D from the shares s of the weights c.
    """

    width: float = 0.0

    @property
    def word(self) -> str:
        """The name of the atom."""
        return "log_mean_exp" if self.mean else "log_sum_exp"


@dataclass(frozen=True, eq=False, repr=False)
class Highest(OverRows):
    r"""The mean of the highest entries of each query: those of a total weight, or all where a query has less.

    A row of weight 2 is like two rows. The last row that counts may count in part; ties share the subgradient by their
    weights a. It is :math:`\max_\beta \langle\beta, x\rangle` over shares β that add up to 1, none above a/m for the
    total weight m; with a width μ it is the smooth function with :math:`-\tfrac12\mu\sum_j\beta_j^2/a_j` beside that.
    """

    weights: Array
    exact_asked: Array
    width: float = 0.0

    @cached_property
    def asked(self) -> Array:
        """The weight that is asked for in each query, as floats."""
        return plain(self.exact_asked)

    @cached_property
    def totals(self) -> Array:
        """The weight of all rows of each query."""
        return self.over.sums(self.weights)

    @cached_property
    def masses(self) -> Array:
        """The weight that counts in each query."""
        return np.minimum(self.asked, self.totals)

    @cached_property
    def caps(self) -> Array:
        """The largest share of each row."""
        return self.weights / self.over.spread(self.masses)

    @cached_property
    def is_even(self) -> bool:
        """Whether all rows have the weight 1."""
        return bool((self.weights == 1.0).all())

    @cached_property
    def usual(self) -> tuple[float, Array]:
        """The weight of a row in the middle, which is often that of most, and the places of rows of other weights."""
        weight = float(self.weights[len(self.weights) // 2])
        return weight, np.flatnonzero(self.weights != weight)

    def __str__(self) -> str:
        least, most = self.asked.min(), self.asked.max()
        return f"mean_of_highest({self.x}, {least:g}{'' if least == most else f' to {most:g}'})"


class Maximum(Highest):
    """The highest entry of each query, whatever the weights: the mean of the highest one of rows of weight 1."""

    def __str__(self) -> str:
        return f"maximum({self.x})"


@dataclass(frozen=True, eq=False, repr=False)
class Elementwise(OfOne):
    """A function of each entry."""

    function: Function

    def __str__(self) -> str:
        return f"{self.function.name}({self.x})"


@dataclass(frozen=True, eq=False, repr=False)
class PairSums(Node):
    """For each lower row k, Σ a_i φ(x_k − x_i) over upper rows i of its query; with grades, those of a higher grade."""

    function: Function
    upper: Node
    lower: Node
    grades: Array | None = None

    @property
    def args(self) -> tuple[Node, ...]:  # type: ignore[override]
        """Upper and lower scores."""
        return (self.upper, self.lower)

    @property
    def axis(self) -> Axis:  # type: ignore[override]
        """The lower rows."""
        return rows_of(self.lower)

    @property
    def upper_axis(self) -> Axis:
        """The upper rows."""
        return rows_of(self.upper)

    @property
    def weights(self) -> Array:
        """The weights of the upper rows."""
        return self.upper_axis.stored_weights

    @cached_property
    def pairs(self) -> tuple[Array, Array]:
        """Places of the upper and of the lower row of every pair, lower row by lower row."""
        return self.numbered(np.arange(self.pair_count))

    @cached_property
    def partners(self) -> tuple[Array, Array]:
        """Places of the upper rows, the partners of a row first among those of its query, and numbers of partners."""
        up, low = self.upper_axis, self.axis
        if self.grades is None:
            return np.arange(len(up.rows)), up.sizes[low.query]
        falling = np.lexsort((-self.grades, up.query))  # of falling grade
        ranks = np.unique(self.grades, return_inverse=True)[1].ravel()
        step = int(ranks.max()) + 1
        keys = up.query * step + step - 1 - ranks
        return falling, np.searchsorted(keys[falling], keys) - low.starts[low.query]

    def numbered(self, numbers: Array) -> tuple[Array, Array]:
        """Return places of the upper and lower rows of the pairs of these numbers, lower row by lower row."""
        (order, counts), query = self.partners, self.axis.query
        ends = np.cumsum(counts)
        lower = np.searchsorted(ends, numbers, side="right")
        within = numbers - (ends - counts)[lower]
        return order[self.upper_axis.starts[query[lower]] + within], lower

    @cached_property
    def pair_count(self) -> int:
        """Number of pairs, without listing them."""
        up, low = self.upper_axis, self.axis
        if self.grades is None:
            return int(up.sizes @ low.sizes)
        return int(self.pair_counts.sum())

    @cached_property
    def pair_counts(self) -> Array:
        """Number of pairs of different grades in each query."""
        axis, ends = self.axis, self.runs[1]
        equal = np.add.reduceat(np.diff(ends) ** 2, np.searchsorted(ends, axis.starts[:-1]))
        return (axis.sizes**2 - equal) // 2

    @cached_property
    def runs(self) -> tuple[Array, Array]:
        """The rows by query and grade, and where each run of one grade begins, in the end their number."""
        return runs_of(self.axis, np.asarray(self.grades))

    @cached_property
    def ranks(self) -> tuple[Array, Array]:
        """The place of each row's grade among those of its query, from the lowest, and how many there are by query."""
        order, ends = self.runs
        counts = np.diff(np.searchsorted(ends, self.axis.starts))
        rank = np.arange(len(ends) - 1) - (np.cumsum(counts) - counts).repeat(counts)
        found = np.empty(len(order), dtype=np.intp)
        found[order] = rank.repeat(np.diff(ends))
        return found, counts

    def __str__(self) -> str:
        return f"pair_sums({self.function.name}, {self.upper}, {self.lower})"


@dataclass(frozen=True, eq=False, repr=False)
class PairMeans(PairSums):
    r"""For each lower row k, the mean of φ(x_k − x_i) over the lowest upper rows i of its query, by weight.

    φ does not decrease, so that these upper rows are the same for all k, and the mean is
    :math:`\max_\alpha \sum_i\alpha_i\varphi(x_k - x_i)` over the shares α of :class:`Highest`: with the multiplier u of
    an entry each pair has a weight :math:`u\alpha_i`, and that is a multiplier, too.
    """

    lowest: Highest = field(kw_only=True)

    @property
    def weights(self) -> Array:
        """No weights: shares of upper rows depend on the scores."""
        raise TypeError(f"{self} has no fixed weights of its upper rows, which this reading takes.")

    def __str__(self) -> str:
        return f"pair_means({self.function.name}, {self.upper}, {self.lower}, {self.lowest.asked.max():g})"


@dataclass(frozen=True, eq=False, repr=False)
class SharedMeans(PairSums):
    r"""Means over upper rows with the same shares α for all k, below :class:`PairMeans`, a smooth function's.

    It is :math:`\sum_i\alpha_i\varphi(x_k - x_i) - \tfrac12\mu\sum_i\alpha_i^2/a_i` with the width μ of ``lowest``.
    """

    lowest: Highest = field(kw_only=True)
    shares: Array = field(kw_only=True)

    @property
    def weights(self) -> Array:
        """The shares of the upper rows."""
        return self.shares

    @cached_property
    def squares(self) -> Array:
        """The sums of the squares of the shares, each over its weight."""
        return self.lowest.over.sums(self.shares * (self.shares / self.lowest.weights))

    @cached_property
    def paid(self) -> Array:
        """What each query pays for its shares."""
        return 0.5 * self.lowest.width * self.squares


def within(node: PairSums, keys: Array) -> tuple[Array, PairSums]:
    """Return rows by key, and a sum with grades over the pairs of these that have the same key: each key is a query."""
    axis, order = node.axis, np.argsort(keys, kind="stable")
    names, query = np.unique(keys[order], return_inverse=True)
    rows = Scores(Axis(axis.name, axis.rows[order], axis.weights[order], query.ravel(), len(names)))
    return order, PairSums(node.function, rows, rows, np.asarray(node.grades)[order])


def runs_of(axis: Axis, grades: Array) -> tuple[Array, Array]:
    """Return the rows by query and grade, and where each run of one grade begins, in the end their number."""
    order = np.argsort(grades, kind="stable") if axis.count == 1 else np.lexsort((grades, axis.query))
    grades = grades[order]
    new = np.r_[True, grades[1:] != grades[:-1]]
    new[axis.starts[:-1]] = True
    return order, np.append(np.flatnonzero(new), len(order))


def rows_of(x: Node) -> Axis:
    """Return the rows of the entries; refuse one number per query."""
    if x.axis is None:
        raise TypeError(
            f"{x} has one number per query, expected one per row, such as f.positive or f.negative."
        )
    return x.axis


def affine(x: Node) -> Affine:
    """Return a node as a sum of one term."""
    return x if isinstance(x, Affine) else Affine(x.axis, ((1.0, x),))


def unstated(node: Node, known: dict[int, Node] | None = None) -> Node:
    """Return an expression without the names that formulas print: what readings see."""
    known = {} if known is None else known
    if id(node) not in known:
        args = [unstated(part, known) for part in node.args]
        known[id(node)] = node if not _has_names(node, args) else renewed(node, args)
    return known[id(node)]


def _has_names(node: Node, args: list[Node]) -> bool:
    return isinstance(node, Stated) or any(a is not b for a, b in zip(args, node.args, strict=True))


def renewed(node: Any, args: list[Node]) -> Node:
    """Return a node of other arguments."""
    match node:
        case Stated():
            return args[0]
        case Affine():
            factors = (c for c, _ in node.exact_terms)
            return Affine(node.axis, tuple(zip(factors, args, strict=True)), node.exact_constant)
        case PairSums():
            return replace(node, upper=args[0], lower=args[1])
        case _:
            return replace(node, x=args[0])


def each_pair_a_row(node: Node, known: dict[int, Any] | None = None) -> Node:
    """Return an expression of the differences of listed pairs as one of rows, which are the pairs."""
    known = {} if known is None else known
    if id(node) not in known:
        args = [each_pair_a_row(part, known) for part in node.args]
        if isinstance(node, Differences):
            axis = replace(node.axis, rows=np.arange(len(node.lower)))
            known[id(node.axis)], found = axis, Scores(axis)
        elif isinstance(node, Affine):
            known.setdefault(id(node.axis), node.axis)
            made: Any = renewed(node, args)
            found = replace(made, axis=known[id(node.axis)])
        else:
            found = renewed(node, args)
        known[id(node)] = found
    return known[id(node)]


def is_curved(node: Node) -> bool:
    """Return whether an atom has multipliers of its own."""
    return not isinstance(node, Scores | Affine | Dot)


def is_affine(node: Node) -> bool:
    """Return whether a node is an affine function of the scores."""
    return isinstance(node, Scores) or (isinstance(node, Affine | Dot) and all(map(is_affine, node.args)))
