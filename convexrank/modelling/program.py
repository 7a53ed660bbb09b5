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
from convexrank.modelling.steps import Step, step_of

Array = np.ndarray


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
        #: The functions that are taken of entries.
        self.functions = [
            node.function
            for node in self.nodes
            if isinstance(node, tree.Elementwise | tree.PairSums | Threshold)
        ]
        highest = [node for node in self.nodes if isinstance(node, tree.Highest) and not node.width]
        sorts = bool(highest) or any(isinstance(node, tree.PairMeans) for node in self.nodes)
        #: Whether the risk has a derivative everywhere, and whether second derivatives are known.
        self.smooth = not sorts and all(function.smooth for function in self.functions)
        self.bends = self.smooth and all(function.bend is not None for function in self.functions)
        #: Whether there are sums over pairs, or pairs that are listed.
        self.has_pairs = any(isinstance(node, tree.PairSums | tree.Differences) for node in self.nodes)
        #: Whether there are log-sum-exps up to the grade of each row.
        self.has_levels = any(isinstance(node, CumulativeLogSumExp) for node in self.nodes)

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
        found: dict[int, Any] = {len(self.nodes) - 1: np.ones(self.count)}
        curved: set[int] = set()
        for k in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[k]
            if k in curved or not isinstance(node, tree.Affine | tree.Dot):
                curved.update(self.args[k])
                continue
            for a, part in zip(self.args[k], step_of(node).down(None, found[k]), strict=True):
                found[a] = part if a not in found else found[a] + part
        pairs = (k for k in found if k not in curved and isinstance(self.nodes[k], tree.PairSums))
        return {k: found[k] for k in pairs}

    @cached_property
    def steps(self) -> list[Step]:
        """The steps of the nodes."""
        known = self.constant_adjoints
        return [step_of(node, known.get(k)) for k, node in enumerate(self.nodes)]

    def with_atoms(self, atoms: dict[int, tree.Node]) -> Program:
        """Return the program with other atoms of the same arguments in some places."""
        found = copy(self)
        for name in ("of_levels", "curved_pairs"):  # these depend on atoms
            vars(found).pop(name, None)
        found.nodes, found.kept = [atoms.get(k, node) for k, node in enumerate(self.nodes)], {}
        found._look()
        known = self.constant_adjoints
        vars(found)["steps"] = [
            step_of(atoms[k], known.get(k)) if k in atoms else step for k, step in enumerate(self.steps)
        ]
        return found

    @cached_property
    def apart(self) -> bool:
        """Whether no row is in two groups."""
        seen = np.zeros(self.rows, dtype=bool)
        for _, places in self.gathers:
            if seen[places].any():
                return False
            seen[places] = True
        return True

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
        for k, (step, args) in enumerate(zip(self.steps, self.args, strict=True)):
            if self.takes_long:
                check_time()
            values[k], memories[k] = step.up(*([values[a] for a in args] or [scores]))
        return values, memories

    def down(self, memories: list[Any]) -> list[Any]:
        """Return the adjoints of all nodes."""
        adjoints: list[Any] = [None] * len(self.nodes)
        adjoints[-1] = np.ones(self.count)
        for k in range(len(self.nodes) - 1, -1, -1):
            if self.takes_long:
                check_time()
            for a, part in zip(self.args[k], self.steps[k].down(memories[k], adjoints[k]), strict=True):
                adjoints[a] = part if adjoints[a] is None else adjoints[a] + part
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
        values, memories = self.up(scores)
        return float(np.add.reduce(values[-1])), self.placed(self.down(memories))
