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
from convexrank.modelling.kernels.highest import border_of, smooth_highest_values
from convexrank.modelling.kernels.pairs import is_running, pair_kernel
from convexrank.modelling.rules import check_convex

__all__ = ["Program", "Step", "highest_rows", "highest_shares", "highest_values"]

Array = np.ndarray


class Step:
    """A node's own value, and the product of its transposed Jacobian with adjoints.

    ``up(*arguments)`` returns the value and whatever ``down`` needs of it; ``down(memory, adjoint)`` returns the
    adjoints of the arguments. For leaves the argument of ``up`` is the vector of all scores.

    Where ``factor`` is not None, ``up`` and ``down`` are products with it. Where ``pull`` is not None, ``down`` is a
    product with that; with ``carries``, one of memory and adjoint. Who knows that calls no function.

    ``adjoint`` is that of sums over pairs, where it is the same at all scores.
    """

    def __init__(self, node: Node, adjoint: Array | None = None) -> None:
        self.node = node
        self.up, self.down = _of_pairs(node, adjoint) if isinstance(node, PairSums) else _bound(node)
        self.factor = node.terms[0][0] if isinstance(node, Affine) and _is_multiple(node) else None
        one_query = not isinstance(node, Scores) and node.leaf.axis.count == 1
        self.pull = node.shares if isinstance(node, Dot) and one_query else self.factor
        self.carries = isinstance(node, Elementwise) or (isinstance(node, LogSumExp | Highest) and one_query)

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
            values = smooth_highest_values if node.width else highest_values
            return (
                lambda x: values(node, x),
                lambda memory, u: (memory * node.over.spread(u),),
            )
        case Elementwise():
            slopes = node.function.slopes
            return slopes, lambda memory, u: (u * memory,)  # the derivatives are the memory
        case _:
            raise TypeError(f"{type(node).__name__} has no step.")


def _is_multiple(node: Affine) -> bool:
    return len(node.terms) == 1 and not np.any(node.constant) and not node.is_level(node.args[0])


def _of_affine(node: Affine) -> tuple[Any, Any]:
    constant = node.constant
    if _is_multiple(node):
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

    def down(memory: Any, u: Array) -> list[Any]:
        parts = []
        for c, is_one, is_level in terms:
            part = u if is_one else c * u
            parts.append(axis.sums(part) if is_level and axis is not None else part)
        return parts

    return up, down


def _of_log_sum_exp(node: LogSumExp) -> tuple[Any, Any]:
    axis = node.over
    if (node.weights == 1.0).all():
        logs, shift = None, -np.log(axis.sizes) if node.mean else 0.0
    else:
        logs, shift = np.log(node.shares), 0.0

    def one_query(x: Array) -> tuple[Array, Any]:
        exponents = x if logs is None else x + logs
        top = np.maximum.reduce(exponents)
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


def highest_values(node: Highest, x: Array) -> tuple[Array, Array]:
    """Return the mean of the highest entries of each query, and shares of the rows in it."""
    shares = highest_shares(node, x)
    return node.over.sums(shares * x), shares


def highest_shares(node: Highest, x: Array) -> Array:
    """Return a subgradient of the mean of the highest entries; rows that tie at the border share what is left."""
    axis = node.over
    above, tied, left = highest_rows(node, x)
    return (above + tied * axis.spread(left / axis.sums(tied))) / axis.spread(node.masses)


def highest_rows(node: Highest, x: Array) -> tuple[Array, Array, Array]:
    """Return the weights of the rows above the border of the highest, of those at it, and how much of these counts."""
    axis, border = node.over, node.over.spread(border_of(node, x))
    above, tied = (x > border) * node.weights, (x == border) * node.weights
    return above, tied, node.masses - axis.sums(above)


def _of_pairs(node: PairSums, adjoint: Array | None) -> tuple[Any, Any]:
    """Sums over pairs; both sides come from one pass where the adjoint is known before the scores are."""
    make, weights = pair_kernel(node), node.weights

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

    Raises
    ------
    TypeError
        When the rules do not show that the risk is convex; the message names the place.
    """

    def __init__(self, root: Node, rows: int) -> None:
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
        self.gathers = [(k, leaf.axis.places) for k, leaf in self.leaves if not isinstance(leaf, Differences)]
        self.differences = [(k, leaf) for k, leaf in self.leaves if isinstance(leaf, Differences)]
        self._ones = np.ones(self.count)
        #: By place, the adjoints of sums over pairs that nothing curved depends on.
        self.constant_adjoints = _constant_adjoints(self.nodes, self.args, self.count)
        self._bind([Step(node, self.constant_adjoints.get(k)) for k, node in enumerate(self.nodes)])

    def _bind(self, steps: list[Step]) -> None:
        self.steps = steps
        kinds = [node.function for node in self.nodes if isinstance(node, Elementwise | PairSums)]
        maxima = [node for node in self.nodes if isinstance(node, Highest) and not node.width]
        #: Whether the risk has a derivative everywhere.
        self.smooth = not maxima and all(kind.smooth for kind in kinds)
        #: Whether there are sums over pairs, or pairs that are listed.
        self.has_pairs = any(isinstance(node, PairSums | Differences) for node in self.nodes)
        #: Whether second derivatives are known.
        self.bends = self.smooth and all(kind.bend is not None for kind in kinds)
        #: What readings find once, by their names.
        self.kept: dict[str, Any] = {}
        # place, step, the places of the arguments, and that of the only one
        plan = [
            (k, step, args, args[0] if len(args) == 1 else -1)
            for k, (step, args) in enumerate(zip(self.steps, self.args, strict=True))
            if args
        ]
        self.upwards = [(k, step.up, step.factor, args, only) for k, step, args, only in plan]
        self.downwards = [
            (k, step.down, step.pull, step.carries, args, only) for k, step, args, only in plan[::-1]
        ]

    def with_atoms(self, atoms: dict[int, Node]) -> Program:
        """Return the program with other atoms of the same arguments in some places."""
        found = object.__new__(Program)
        plain = {
            "root",
            "rows",
            "args",
            "leaves",
            "count",
            "gathers",
            "differences",
            "constant_adjoints",
            "_ones",
            "apart",
            "own_factors",
            "query",
        }
        vars(found).update({name: value for name, value in vars(self).items() if name in plain})
        found.nodes = [atoms.get(k, node) for k, node in enumerate(self.nodes)]
        known = self.constant_adjoints
        steps = [Step(atoms[k], known.get(k)) if k in atoms else step for k, step in enumerate(self.steps)]
        found._bind(steps)
        return found

    @cached_property
    def apart(self) -> bool:
        """Whether no row is in two groups."""
        seen = np.zeros(self.rows, dtype=int)
        for _, places in self.gathers:
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
    def by_query(self) -> tuple[Array, Array]:
        """The rows of all groups, query by query, and where each query begins, and the last ends."""
        rows = np.flatnonzero(self.query >= 0)
        rows = rows[np.argsort(self.query[rows], kind="stable")]
        return rows, np.searchsorted(self.query[rows], np.arange(self.count + 1))

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

    def up(self, scores: Array) -> tuple[list[Any], list[Any]]:
        """Return values and memories of all nodes."""
        values: list[Any] = [None] * len(self.nodes)
        memories = values.copy()
        for k, places in self.gathers:
            values[k] = scores[places]
        for k, leaf in self.differences:
            values[k] = leaf.entries(scores)
        _go_up(self.upwards, values, memories)
        return values, memories

    def down(self, memories: list[Any]) -> list[Any]:
        """Return the adjoints of all nodes."""
        adjoints: list[Any] = [None] * len(self.nodes)
        adjoints[-1] = self._ones
        _go_down(self.downwards, memories, adjoints)
        return adjoints

    def placed(self, adjoints: list[Any]) -> Array:
        """Return the adjoints of the leaves as a gradient in the scores of all rows."""
        gradient, apart = np.zeros(self.rows), self.apart
        for k, places in self.gathers:
            gradient[places] = adjoints[k] if apart else gradient[places] + adjoints[k]
        for k, leaf in self.differences:
            leaf.place(adjoints[k], gradient)
        return gradient

    def value_and_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient (a subgradient) in the scores."""
        top = self._top
        values: list[Any] = [None] * len(self.nodes)
        memories, adjoints = values.copy(), top.seeds.copy()
        for k, places in top.gathers:
            values[k] = scores[places]
        for k, leaf in top.differences:
            values[k] = leaf.entries(scores)
        _go_up(top.upwards, values, memories)
        value = top.constant + float(top.slope @ scores)
        for k in top.curved:
            value += float(top.seeds[k] @ values[k])
        _go_down(top.downwards, memories, adjoints)
        if top.is_whole:
            return value, top.slope + adjoints[top.gathers[0][0]]
        gradient = top.slope.copy()
        for k, places in top.gathers:
            gradient[places] += adjoints[k]
        for k, leaf in top.differences:
            leaf.place(adjoints[k], gradient)
        return value, gradient

    @cached_property
    def inner(self) -> set[int]:
        """The nodes that curved ones are functions of; the others are above them, and have the same adjoints always."""
        found: set[int] = set()
        for k in range(len(self.nodes) - 1, -1, -1):
            if k in found or not isinstance(self.nodes[k], Affine | Dot):
                found.update(self.args[k])
        return found

    @cached_property
    def _top(self) -> _Top:
        return _Top(self)


class _Top:
    """The risk as an affine function of scores, and of the curved nodes that affine ones alone are above of."""

    def __init__(self, program: Program) -> None:
        nodes, inner = program.nodes, program.inner
        linear = [isinstance(node, Affine | Dot) for node in nodes]
        #: The adjoints of these nodes, where they have any.
        self.seeds: list[Any] = [None] * len(nodes)
        self.seeds[-1] = np.ones(program.count)
        slope, zeros = np.zeros(program.rows), []
        for k, node in enumerate(nodes):
            if linear[k]:
                zeros.append(program.steps[k].up(*[zeros[a] for a in program.args[k]])[0])
            else:
                zeros.append(np.zeros(program.count if node.axis is None else len(node.axis.rows)))
        #: The risk where scores and curved nodes are 0.
        self.constant = float(np.add.reduce(zeros[-1]))
        for k in range(len(nodes) - 1, -1, -1):
            node, seed = nodes[k], self.seeds[k]
            if seed is None or not (linear[k] or isinstance(node, Scores)):
                continue
            self.seeds[k] = None
            if isinstance(node, Scores):
                node.place(seed, slope)
            for a, part in zip(
                program.args[k], program.steps[k].down(None, seed) if linear[k] else (), strict=True
            ):
                self.seeds[a] = part if self.seeds[a] is None else self.seeds[a] + part
        #: The slope in the scores.
        self.slope = slope
        #: The places of the curved nodes.
        self.curved = [k for k, seed in enumerate(self.seeds) if seed is not None]
        kept = inner | set(self.curved)
        self.upwards = [one for one in program.upwards if one[0] in kept]
        self.downwards = [one for one in program.downwards if one[0] in kept]
        self.gathers = [one for one in program.gathers if one[0] in kept]
        self.differences = [one for one in program.differences if one[0] in kept]
        #: Whether the only group is all rows.
        groups = [leaf for k, leaf in program.leaves if k in kept]
        self.is_whole = len(self.gathers) == len(groups) == 1 and _is_all(groups[0].axis.places, program.rows)


def _is_all(places: Any, rows: int) -> bool:
    return isinstance(places, slice) and (places.start, places.stop) == (0, rows)


def _go_up(plan: list[Any], values: list[Any], memories: list[Any]) -> None:
    """Fill in values and memories of nodes."""
    for k, up, factor, args, only in plan:
        if factor is not None:
            values[k] = factor * values[only]
        else:
            found = up(values[only]) if only >= 0 else up(*map(values.__getitem__, args))
            values[k], memories[k] = found


def _go_down(plan: list[Any], memories: list[Any], adjoints: list[Any]) -> None:
    """Fill in adjoints of nodes."""
    for k, down, pull, carries, args, only in plan:
        u = adjoints[k]
        if carries or pull is not None:
            part, before = (memories[k] if carries else pull) * u, adjoints[only]
            adjoints[only] = part if before is None else before + part
            continue
        for a, part in zip(args, down(memories[k], u), strict=True):
            adjoints[a] = part if adjoints[a] is None else adjoints[a] + part
