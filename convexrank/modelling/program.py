"""Value and gradient of an expression in numpy: steps that are bound once, forwards and, for the adjoints, backwards.

An adjoint is the derivative of the risk in the entries of a node. It is at least 0 for what is not affine, and the
adjoints of the curved atoms' arguments are the best dual variables: the conjugate uses them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.modelling.expressions import (
    Affine,
    Differences,
    Dot,
    Elementwise,
    Highest,
    LogSumExp,
    Node,
    PairSums,
    Scores,
)
from convexrank.modelling.kernels.pairs import is_running, pair_kernel
from convexrank.modelling.rules import check_convex

__all__ = ["Program", "Step", "highest_rows", "highest_shares", "highest_values"]

Array = np.ndarray


class Step:
    """A node's own value, and the product of its transposed Jacobian with adjoints.

    ``up(*arguments)`` returns the value and whatever ``down`` needs of it; ``down(memory, adjoint)`` returns the
    adjoints of the arguments. For leaves the argument of ``up`` is the vector of all scores.
    """

    def __init__(self, node: Node, kernel: Any = pair_kernel, adjoint: Array | None = None) -> None:
        self.node = node
        bound = _of_pairs(node, kernel(node), adjoint) if isinstance(node, PairSums) else _bound(node)
        self.up, self.down = bound

    up: Callable[..., tuple[Array, Any]]
    down: Callable[[Any, Array], tuple[Any, ...]]


def _bound(node: Node) -> tuple[Callable[..., tuple[Array, Any]], Callable[[Any, Array], tuple[Any, ...]]]:
    match node:
        case Scores():
            places = node.axis.places
            return lambda scores: (scores[places], None), lambda memory, u: ()
        case Affine():
            return _of_affine(node)
        case Dot():
            axis, shares = node.over, node.shares
            return (
                lambda x: (axis.sums(shares * x), None),
                lambda memory, u: (shares * axis.spread(u),),
            )
        case LogSumExp():
            return _of_log_sum_exp(node)
        case Highest():
            return (
                lambda x: highest_values(node, x),
                lambda memory, u: (memory * node.over.spread(u),),
            )
        case Elementwise():
            slopes = node.function.slopes
            return slopes, lambda memory, u: (u * memory,)  # the derivatives are the memory
        case _:
            raise TypeError(f"{type(node).__name__} has no step.")


def _of_affine(node: Affine) -> tuple[Any, Any]:
    constant = node.constant
    if len(node.terms) == 1 and not np.any(constant) and not node.is_level(node.args[0]):
        factor = node.terms[0][0]
        return lambda x: (factor * x, None), lambda memory, u: (factor * u,)
    has_constant = np.ndim(constant) > 0 or constant != 0.0
    terms = [(c, np.ndim(c) == 0 and c == 1.0, node.is_level(part)) for c, part in node.terms]
    axis = node.axis

    def up(*arguments: Array) -> tuple[Array, Any]:
        value, fresh = None, False
        for (c, is_one, is_level), x in zip(terms, arguments, strict=True):
            x = axis.spread(x) if is_level and axis is not None else x
            x = x if is_one else c * x
            if value is None:
                value, fresh = x, not is_one
            elif fresh:  # nobody else has this array
                value = np.add(value, x, out=value) if value.shape == x.shape else value + x
            else:
                value, fresh = value + x, True
        if value is None:
            raise TypeError("an expression without scores has no value.")
        return (value + constant if has_constant else value), None

    if not any(is_level for *_, is_level in terms):
        return up, lambda memory, u: [u if is_one else c * u for c, is_one, _ in terms]

    def down(memory: Any, u: Array) -> tuple[Any, ...]:
        parts = [(u if is_one else c * u, is_level) for c, is_one, is_level in terms]
        return tuple([axis.sums(part) if level and axis is not None else part for part, level in parts])

    return up, down


def _of_log_sum_exp(node: LogSumExp) -> tuple[Any, Any]:
    axis = node.over
    if (node.weights == 1.0).all():
        logs, shift = None, -np.log(axis.sizes) if node.mean else 0.0
    else:
        logs, shift = np.log(node.shares), 0.0

    def one_query(x: Array) -> tuple[Array, Any]:
        exponents = x if logs is None else x + logs
        top = exponents.max()
        shares = exponents - top
        np.exp(shares, out=shares)
        whole = np.add.reduce(shares, keepdims=True)
        shares /= whole
        return np.log(whole) + (top + shift), shares

    if axis.count == 1:
        return one_query, lambda memory, u: (memory * u,)

    def up(x: Array) -> tuple[Array, Any]:
        exponents = x if logs is None else x + logs
        tops = axis.highest(exponents)
        shares = exponents - axis.spread(tops)
        np.exp(shares, out=shares)
        sums = axis.sums(shares)
        shares /= axis.spread(sums)
        return tops + np.log(sums) + shift, shares

    return up, lambda memory, u: (memory * axis.spread(u),)


def _constant_adjoints(nodes: list[Node], args: list[list[int]], count: int) -> dict[int, Array]:
    """By place, the adjoints of the nodes that nothing curved depends on."""
    found: dict[int, Any] = {len(nodes) - 1: np.ones(count)}
    curved: set[int] = set()
    for k in range(len(nodes) - 1, -1, -1):
        node = nodes[k]
        if k in curved or not isinstance(node, Affine | Dot):
            curved.update(args[k])
            continue
        for a, part in zip(args[k], _bound(node)[1](None, found[k]), strict=True):
            found[a] = part if a not in found else found[a] + part
    return {k: u for k, u in found.items() if k not in curved and isinstance(nodes[k], PairSums)}


def _at_kink(node: Node, x: list[Array]) -> bool:
    """Whether some entry may have several slopes at arguments x."""
    if isinstance(node, Highest):
        return True
    if not isinstance(node, Elementwise | PairSums) or node.function.smooth:
        return False
    kinks = node.function.kinks
    arguments = np.subtract.outer(*map(np.unique, x[::-1])) if isinstance(node, PairSums) else x[0]
    return kinks is None or bool(np.isin(arguments, kinks).any())


def highest_values(node: Highest, x: Array) -> tuple[Array, Array]:
    """Return the mean of the highest entries of each query, and shares of the rows in it; ties share evenly."""
    shares = highest_shares(node, x)
    return node.over.sums(shares * x), shares


def highest_shares(node: Highest, x: Array) -> Array:
    """Return a subgradient of the mean of the highest entries; rows that tie at the border share what is left."""
    axis = node.over
    above, tied, left = highest_rows(node, x)
    return (above + tied * axis.spread(left / axis.sums(tied))) / axis.spread(node.counts)


def highest_rows(node: Highest, x: Array) -> tuple[Array, Array, Array]:
    """Return which rows are above the border of the highest, which tie at it, and how many of these count."""
    axis, counts = node.over, node.counts
    if node.most == 1:
        border = axis.spread(axis.highest(x))
    else:
        falling = np.lexsort((-x, axis.query))
        border = axis.spread(x[falling[axis.starts[:-1] + counts - 1]])
    above, tied = (x > border) * 1.0, (x == border) * 1.0
    return above, tied, counts - axis.sums(above)


def _of_pairs(node: PairSums, make: Callable[[Array, Array], Any], adjoint: Array | None) -> tuple[Any, Any]:
    """Sums over pairs; both sides come from one pass where the adjoint is known before the scores are."""
    weights = node.weights

    def up(upper: Array, lower: Array) -> tuple[Array, Any]:
        kernel = make(upper, lower)
        both = None if adjoint is None else getattr(kernel, "both", None)
        if both is None:
            value, slope = kernel.sums(weights, (0, 1), to_lower=True)
            return value, (kernel, slope, None)
        value, slope, back = both(weights, adjoint)
        return value, (kernel, slope, back)

    def down(memory: Any, u: Array) -> tuple[Any, ...]:
        kernel, slope, back = memory
        if back is None or not np.array_equal(u, adjoint):  # type: ignore[arg-type]  # known where there is back
            (back,) = kernel.sums(u, (1,), to_lower=False)
        return -weights * back, u * slope

    return up, down


class Program:
    """An expression as a list of nodes, arguments before the nodes that use them, and its value and gradient.

    Parameters
    ----------
    root : Node
        The risk: one number per query, which are added up.
    rows : int
        Number of rows n, of which the groups are some.
    kernel : callable
        What returns the kernel of sums over pairs; the one that fits by default.

    Raises
    ------
    TypeError
        When the rules do not show that the risk is convex; the message names the place.
    """

    def __init__(self, root: Node, rows: int, kernel: Callable[[PairSums], Any] = pair_kernel) -> None:
        check_convex(root)
        self.root, self.rows = root, rows
        self.nodes: list[Node] = []
        places: dict[int, int] = {}

        def visit(node: Node) -> None:
            if id(node) not in places:
                for part in node.args:
                    visit(part)
                places[id(node)] = len(self.nodes)
                self.nodes.append(node)

        visit(root)
        self.args = [[places[id(part)] for part in node.args] for node in self.nodes]
        self.leaves = [(k, node) for k, node in enumerate(self.nodes) if isinstance(node, Scores)]
        if not self.leaves:
            raise TypeError(f"the risk {root} has no scores; write it with f.positive, f.negative or f.rows.")
        self.count = self.leaves[0][1].axis.count
        #: By place, the adjoints of sums over pairs that nothing curved depends on.
        self.constant_adjoints = _constant_adjoints(self.nodes, self.args, self.count)
        self.steps = [Step(node, kernel, self.constant_adjoints.get(k)) for k, node in enumerate(self.nodes)]
        self._gathers = [
            (k, leaf.axis.places) for k, leaf in self.leaves if not isinstance(leaf, Differences)
        ]
        self.differences = [(k, leaf) for k, leaf in self.leaves if isinstance(leaf, Differences)]
        # place, step, the places of the arguments, and that of the only one
        self._plan = [
            (k, step.up, step.down, args, args[0] if len(args) == 1 else -1)
            for k, (step, args) in enumerate(zip(self.steps, self.args, strict=True))
            if args
        ]
        self._backwards = self._plan[::-1]
        self._ones = np.ones(self.count)

    @cached_property
    def apart(self) -> bool:
        """Whether no row is in two groups."""
        seen = np.zeros(self.rows, dtype=int)
        for _, places in self._gathers:
            seen[places] += 1
        return int(seen.max()) <= 1

    @cached_property
    def own_factors(self) -> dict[int, Any]:
        """By place, how fast entries move with their own rows, of nodes that depend on nothing else."""
        found: dict[int, Any] = {}
        for k, (node, args) in enumerate(zip(self.nodes, self.args, strict=True)):
            if isinstance(node, Differences):
                continue
            if isinstance(node, Scores):
                found[k] = 1.0
            elif isinstance(node, Affine) and all(a in found for a in args):
                found[k] = sum(c * found[a] for (c, _), a in zip(node.terms, args, strict=True))
        return found

    @cached_property
    def of_levels(self) -> list[tuple[int, Node, list[int]]]:
        """The other nodes, with their places and those of their arguments."""
        nodes = zip(range(len(self.nodes)), self.nodes, self.args, strict=True)
        return [one for one in nodes if one[0] not in self.own_factors]

    @cached_property
    def query(self) -> Array:
        """The query of each row, −1 for rows in no group."""
        query = np.full(self.rows, -1)
        for _, leaf in self.leaves:
            query[leaf.axis.rows] = leaf.axis.query
        return query

    @cached_property
    def smooth(self) -> bool:
        """Whether the risk has a derivative everywhere."""
        return not any(
            isinstance(node, Highest)
            or (isinstance(node, Elementwise | PairSums) and not node.function.smooth)
            for node in self.nodes
        )

    @cached_property
    def has_pairs(self) -> bool:
        """Whether there are sums over pairs, or pairs that are listed."""
        return any(isinstance(node, PairSums | Differences) for node in self.nodes)

    @cached_property
    def pair_count(self) -> int:
        """How many pairs there are, in sums or listed."""
        listed = sum(len(leaf.axis.rows) for _, leaf in self.differences)
        return listed + sum(node.pair_count for node in self.nodes if isinstance(node, PairSums))

    @cached_property
    def curved_pairs(self) -> int:
        """How many pairs a product with second derivatives runs over: none where running sums give it."""
        sums = [node for node in self.nodes if isinstance(node, PairSums) and not is_running(node)]
        return sum(node.pair_count for node in sums)

    def smooth_at(self, scores: Array) -> bool:
        """Tell whether no function is at a kink at these scores."""
        if self.smooth:
            return True
        values, _ = self.up(scores)
        arguments = [[values[a] for a in args] for args in self.args]
        return not any(_at_kink(node, x) for node, x in zip(self.nodes, arguments, strict=True))

    @cached_property
    def bends(self) -> bool:
        """Whether second derivatives are known."""
        functions = [node.function for node in self.nodes if isinstance(node, Elementwise | PairSums)]
        return self.smooth and all(function.bend is not None for function in functions)

    @cached_property
    def absolute_steps(self) -> list[Step]:
        """The steps with the sizes of all factors and constants of sums."""
        sizes = [
            Affine(node.axis, tuple((np.abs(c), part) for c, part in node.terms), np.abs(node.constant))
            if isinstance(node, Affine)
            else node
            for node in self.nodes
        ]
        return [
            step if node is size else Step(size)
            for node, size, step in zip(self.nodes, sizes, self.steps, strict=True)
        ]

    def up(self, scores: Array) -> tuple[list[Any], list[Any]]:
        """Return values and memories of all nodes."""
        values: list[Any] = [None] * len(self.nodes)
        memories = values.copy()
        for k, places in self._gathers:
            values[k] = scores[places]
        for k, leaf in self.differences:
            values[k] = scores[leaf.axis.rows] - scores[leaf.lower]
        for k, up, _, args, only in self._plan:
            values[k], memories[k] = up(values[only]) if only >= 0 else up(*[values[a] for a in args])
        return values, memories

    def down(self, memories: list[Any]) -> list[Any]:
        """Return the adjoints of all nodes."""
        adjoints: list[Any] = [None] * len(self.nodes)
        adjoints[-1] = self._ones
        for k, _, down, args, _ in self._backwards:
            for a, part in zip(args, down(memories[k], adjoints[k]), strict=True):
                adjoints[a] = part if adjoints[a] is None else adjoints[a] + part
        return adjoints

    def placed(self, adjoints: list[Any]) -> Array:
        """Return the adjoints of the leaves as a gradient in the scores of all rows."""
        gradient, apart = np.zeros(self.rows), self.apart
        for k, places in self._gathers:
            gradient[places] = adjoints[k] if apart else gradient[places] + adjoints[k]
        for k, leaf in self.differences:
            gradient += np.bincount(leaf.axis.rows, adjoints[k], self.rows)
            gradient -= np.bincount(leaf.lower, adjoints[k], self.rows)
        return gradient

    def value_and_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient (a subgradient) in the scores."""
        values, memories = self.up(scores)
        return float(np.add.reduce(values[-1])), self.placed(self.down(memories))
