"""Value and gradient of an expression in numpy: steps that are bound once, forwards and, for the adjoints, backwards.

An adjoint is the derivative of the risk in the entries of a node. It is at least 0 for what is not affine, and the
adjoints of the curved atoms' arguments are the best dual variables: the conjugate uses them again.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import MANY, check_time
from convexrank.modelling import expressions as tree
from convexrank.modelling.kernels.pairs import is_running
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold
from convexrank.modelling.rules import check_convex
from convexrank.modelling.steps import Step, bound

Array = np.ndarray


def _constant_adjoints(nodes: list[tree.Node], args: list[list[int]], count: int) -> dict[int, Array]:
    """By place, the adjoints of the nodes that nothing curved depends on."""
    found: dict[int, Any] = {len(nodes) - 1: np.ones(count)}
    curved: set[int] = set()
    for k in range(len(nodes) - 1, -1, -1):
        node = nodes[k]
        if k in curved or not isinstance(node, tree.Affine | tree.Dot):
            curved.update(args[k])
            continue
        for a, part in zip(args[k], bound(node)[1](None, found[k]), strict=True):
            found[a] = part if a not in found else found[a] + part
    return {k: u for k, u in found.items() if k not in curved and isinstance(nodes[k], tree.PairSums)}


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

    def __init__(self, root: tree.Node, rows: int) -> None:
        #: The risk as it is printed, with the names that losses and prices have.
        self.printed = root
        self.root = root = tree.unstated(root)
        self.rows = rows
        #: Whether there are so many rows that the clock is looked at between nodes.
        self.takes_long = rows >= MANY
        self.nodes: list[tree.Node] = []
        self.args: list[list[int]] = []
        self._list(root, {})
        check_convex(root, self.nodes)
        self.leaves = [(k, node) for k, node in enumerate(self.nodes) if isinstance(node, tree.Scores)]
        if not self.leaves:
            raise TypeError(f"the risk {root} has no scores; write it with f.positive, f.negative or f.rows.")
        self.count = self.leaves[0][1].axis.count
        #: What readings find once, by their names.
        self.kept: dict[str, Any] = {}
        self._look()

    def _look(self) -> None:
        """Visit the nodes once for what is asked of all of them."""
        #: Whether the risk has a derivative everywhere, and whether second derivatives are known.
        self.smooth = self.bends = True
        #: Whether there are sums over pairs, or pairs that are listed.
        self.has_pairs = False
        #: Whether there are log-sum-exps up to the grade of each row.
        self.has_levels = False
        for node in self.nodes:
            if isinstance(node, tree.Elementwise | tree.PairSums | Threshold):
                self.smooth = self.smooth and node.function.smooth
                self.bends = self.bends and node.function.bend is not None
            elif isinstance(node, tree.Highest):
                self.smooth = self.smooth and node.width > 0.0
            self.smooth = self.smooth and not isinstance(node, tree.PairMeans)
            self.has_pairs = self.has_pairs or isinstance(node, tree.PairSums | tree.Differences)
            self.has_levels = self.has_levels or isinstance(node, CumulativeLogSumExp)
        self.bends = self.bends and self.smooth

    def _list(self, node: tree.Node, places: dict[int, int]) -> int:
        """List the nodes that a node is a function of, and the node; return its place."""
        place = places.get(id(node))
        if place is None:
            args = [self._list(part, places) for part in node.args]
            place = places[id(node)] = len(self.nodes)
            self.nodes.append(node)
            self.args.append(args)
        return place

    @cached_property
    def gathers(self) -> list[tuple[int, Any]]:
        """Groups of rows, with their places in the program."""
        return [(k, leaf.axis.places) for k, leaf in self.leaves if not isinstance(leaf, tree.Differences)]

    @cached_property
    def differences(self) -> list[tuple[int, tree.Differences]]:
        """Listed pairs, with their places in the program."""
        return [(k, leaf) for k, leaf in self.leaves if isinstance(leaf, tree.Differences)]

    @cached_property
    def constant_adjoints(self) -> dict[int, Array]:
        """By place, the adjoints of sums over pairs that nothing curved depends on."""
        return _constant_adjoints(self.nodes, self.args, self.count)

    @cached_property
    def steps(self) -> list[Step]:
        """The steps of the nodes."""
        known = self.constant_adjoints
        return [Step(node, known.get(k)) for k, node in enumerate(self.nodes)]

    @cached_property
    def _plan(self) -> list[tuple[int, Step, list[int], int]]:
        """Place, step, the places of the arguments, and that of the only one."""
        steps = zip(self.steps, self.args, strict=True)
        return [
            (k, step, args, args[0] if len(args) == 1 else -1) for k, (step, args) in enumerate(steps) if args
        ]

    @cached_property
    def upwards(self) -> list[Any]:
        """Steps that fill in values and memories."""
        return [(k, step.up, step.factor, args, only) for k, step, args, only in self._plan]

    @cached_property
    def downwards(self) -> list[Any]:
        """Steps that fill in adjoints."""
        plan = self._plan[::-1]
        return [(k, step.down, step.pull, step.carries, args, only) for k, step, args, only in plan]

    def with_atoms(self, atoms: dict[int, tree.Node]) -> Program:
        """Return the program with other atoms of the same arguments in some places."""
        found = copy(self)
        for name in (
            "_top",
            "of_levels",
            "curved_pairs",
            "_plan",
            "upwards",
            "downwards",
        ):  # these depend on atoms
            vars(found).pop(name, None)
        found.nodes, found.kept = [atoms.get(k, node) for k, node in enumerate(self.nodes)], {}
        found._look()
        known = self.constant_adjoints
        vars(found)["steps"] = [
            Step(atoms[k], known.get(k)) if k in atoms else step for k, step in enumerate(self.steps)
        ]
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
            if isinstance(node, tree.Differences):
                continue
            if isinstance(node, tree.Scores):
                found[k] = 1.0
            elif isinstance(node, tree.Affine) and all(a in found for a in args):
                found[k] = sum(c * found[a] for (c, _), a in zip(node.terms, args, strict=True))
        return found

    @cached_property
    def of_levels(self) -> list[tuple[int, tree.Node, list[int]]]:
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
        if self.count == 1:
            return rows, np.array([0, len(rows)])
        rows = rows[np.argsort(self.query[rows], kind="stable")]
        return rows, np.searchsorted(self.query[rows], np.arange(self.count + 1))

    @cached_property
    def pair_count(self) -> int:
        """Number of pairs, in sums or listed."""
        listed = sum(len(leaf.axis.rows) for _, leaf in self.differences)
        return listed + sum(node.pair_count for node in self.nodes if isinstance(node, tree.PairSums))

    @cached_property
    def curved_pairs(self) -> int:
        """Number of pairs in a product with second derivatives: none where running sums give it."""
        sums = [node for node in self.nodes if isinstance(node, tree.PairSums) and not is_running(node)]
        return sum([node.pair_count for node in sums])

    def up(self, scores: Array) -> tuple[list[Any], list[Any]]:
        """Return values and memories of all nodes."""
        values: list[Any] = [None] * len(self.nodes)
        memories = values.copy()
        for k, places in self.gathers:
            values[k] = scores[places]
        for k, leaf in self.differences:
            values[k] = leaf.entries(scores)
        _go_up(self.upwards, values, memories, self.takes_long)
        return values, memories

    def down(self, memories: list[Any]) -> list[Any]:
        """Return the adjoints of all nodes."""
        adjoints: list[Any] = [None] * len(self.nodes)
        adjoints[-1] = np.ones(self.count)
        _go_down(self.downwards, memories, adjoints, self.takes_long)
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
        _go_up(top.upwards, values, memories, self.takes_long)
        value = top.constant + float(top.slope @ scores)
        for k in top.curved:
            value += float(top.seeds[k] @ values[k])
        _go_down(top.downwards, memories, adjoints, self.takes_long)
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
            if k in found or not isinstance(self.nodes[k], tree.Affine | tree.Dot):
                found.update(self.args[k])
        return found

    @cached_property
    def _top(self) -> _Top:
        return _Top(self)


class _Top:
    """The risk as an affine function of scores, and of the curved nodes that affine ones alone are above of."""

    def __init__(self, program: Program) -> None:
        nodes, inner = program.nodes, program.inner
        linear = [isinstance(node, tree.Affine | tree.Dot) for node in nodes]
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
            if seed is None or not (linear[k] or isinstance(node, tree.Scores)):
                continue
            self.seeds[k] = None
            if isinstance(node, tree.Scores):
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


def _go_up(plan: list[Any], values: list[Any], memories: list[Any], takes_long: bool) -> None:
    """Fill in values and memories of nodes."""
    for k, up, factor, args, only in plan:
        if takes_long:
            check_time()
        if factor is not None:
            values[k] = factor * values[only]
        else:
            found = up(values[only]) if only >= 0 else up(*map(values.__getitem__, args))
            values[k], memories[k] = found


def _go_down(plan: list[Any], memories: list[Any], adjoints: list[Any], takes_long: bool) -> None:
    """Fill in adjoints of nodes."""
    for k, down, pull, carries, args, only in plan:
        if takes_long:
            check_time()
        u = adjoints[k]
        if carries or pull is not None:
            part, before = (memories[k] if carries else pull) * u, adjoints[only]
            adjoints[only] = part if before is None else before + part
            continue
        for a, part in zip(args, down(memories[k], u), strict=True):
            adjoints[a] = part if adjoints[a] is None else adjoints[a] + part
