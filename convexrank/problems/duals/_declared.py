"""The conjugate of a declared formulation in the form that duals take: v is a vector of all multipliers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import picks
from convexrank.modelling import expressions as tree
from convexrank.modelling.certificates.balls import Balls, as_objects, in_balls
from convexrank.modelling.conjugate import conjugate, feasible, multipliers, resting, sizes
from convexrank.modelling.cvxpy_reading import Cvxpy
from convexrank.modelling.language import Numpy
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold
from convexrank.modelling.program import Program
from convexrank.modelling.smoothing.programs import Smoothing, can_be_smooth
from convexrank.problems.duals._blocks import refuse_many_pairs

Array = np.ndarray
# A linear map of v, and a shift.
_Map = tuple[Any, Array]


class DeclaredConjugate:
    """The members of :class:`convexrank.problems.duals._blocks.Conjugate`, from an expression.

    Parameters
    ----------
    program : Program
        The risk; every function in it has a conjugate.
    """

    #: No modulus of strong convexity is known.
    modulus = 0.0

    def __init__(self, program: Program) -> None:
        self.program, self.rows = program, program.rows
        refuse_many_pairs(program.pair_count)
        self._sizes = sizes(program)

    @cached_property
    def _smoothing(self) -> Smoothing | None:
        return Smoothing(self.program) if can_be_smooth(self.program) else None

    @cached_property
    def ends(self) -> Array:
        """Ends of the multipliers of each atom in v."""
        return np.cumsum([0, *self._sizes.values()])

    @property
    def blocks(self) -> tuple[DeclaredConjugate, ...]:
        """One block: all of v."""
        return (self,)

    def parts(self, v: Array) -> list[Array]:
        """Return v as the part of the only block."""
        return [v]

    def _split(self, v: Any) -> dict[int, Any]:
        starts = zip(self._sizes, self.ends[:-1].tolist(), self.ends[1:].tolist(), strict=True)
        return {k: v[start:end] for k, start, end in starts}

    @cached_property
    def _maps(self) -> tuple[_Map, Any]:
        """The slopes in the scores of all rows as a linear map of v and a shift, and what its constraints add up."""
        program, m = self.program, int(self.ends[-1])
        maps: list[_Map | None] = [None] * len(program.nodes)
        sums: list[Any] = [sparse.csr_array((0, m))]
        maps[-1] = sparse.csr_array((program.count, m)), np.ones(program.count)
        starts = zip(self._sizes.items(), self.ends[:-1].tolist(), strict=True)
        own: dict[int, Any] = {
            k: sparse.eye_array(size, m, k=start, format="csr") for (k, size), start in starts
        }
        for k in range(len(program.nodes) - 1, -1, -1):
            node, here = program.nodes[k], maps[k]
            if isinstance(node, tree.Scores) or here is None:
                continue
            # shares of each query add up to its own multiplier
            if isinstance(node, tree.LogSumExp | tree.Highest):
                sums.append(_spread(node.over).T @ own[k] - here[0])
            if isinstance(node, tree.PairMeans):  # weights of pairs, those of each lower row
                pairs = node.pair_count
                sums.append(_scatter(node.pairs[1], len(node.axis.rows)) @ own[k][pairs:] - here[0])
            if isinstance(node, Threshold):
                sums.append(_spread(node.over).T @ own[k][: len(node.shares)] - here[0])
            if isinstance(node, CumulativeLogSumExp):
                sums.append(_balances(node) @ own[k] - _scatter(node.level, node.count) @ here[0])
            for a, one in zip(program.args[k], _pulls(node, here, own.get(k)), strict=True):
                before = maps[a]
                maps[a] = one if before is None else (before[0] + one[0], before[1] + one[1])
        matrix, shift = sparse.csr_array((program.rows, m)), np.zeros(program.rows)
        for k, leaf in program.leaves:
            place = sum(sign * _scatter(rows, program.rows) for sign, rows in leaf.sides)
            found = maps[k]
            if found is not None:
                matrix, shift = matrix + place @ found[0], shift + place @ found[1]
        return (matrix.tocsr(), shift), sparse.csr_array(sparse.vstack(sums))

    @property
    def sums(self) -> Any:
        """The matrix of the sums of v that its constraints fix."""
        return self._maps[1]

    @property
    def matrix(self) -> Any:
        """The matrix A of the slopes Av + b, shape (n, m)."""
        return self._maps[0][0]

    @property
    def shift(self) -> Array | None:
        """The vector b; None where it is 0."""
        return self._maps[0][1] if self._maps[0][1].any() else None

    @cached_property
    def rest(self) -> Array | None:
        """A feasible v without any slope, where one is known."""
        found = resting(self.program)
        return None if found is None else np.concatenate(self._in_order(found[0]))

    def slopes(self, v: Array) -> Array:
        """Return Av + b: the derivative of the risk in each row's score."""
        return self.matrix @ v + self._maps[0][1]

    def _evaluated(self, v: Array) -> tuple[float, float]:
        language = Numpy()
        cost, _ = conjugate(self.program, language, self._split(v))
        return float(cost), language.violation

    def value(self, v: Array) -> float:
        """Return G(v)."""
        return self._evaluated(v)[0]

    def violation(self, v: Array) -> float:
        """Return how far v is from the constraints."""
        return self._evaluated(v)[1]

    def near(self, x: Array) -> Array:
        """Return a v near x that satisfies the constraints, up to rounding."""
        return np.concatenate(list(self._in_order(feasible(self.program, Numpy(), self._split(x)))))

    def _in_order(self, found: dict[int, Any]) -> list[Any]:
        return [found[k] for k in self._sizes]

    def at(self, scores: Array, width: float = 0.0) -> Array:
        """Return the v of scores; for a risk with kinks, of the risk smoothed by the width."""
        program = self.program
        if self._smoothing is not None and width > 0.0:
            program = self._smoothing.with_shares(scores, width)
        return np.concatenate(self._in_order(multipliers(program, scores)))

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return G and the constraints in cvxpy."""
        language = Cvxpy()
        cost, _ = conjugate(self.program, language, self._split(v))
        return cost, language.limits

    def exactly(self, v: Array) -> list[Any]:
        """Return balls that contain a point near v which satisfies the constraints."""
        found = feasible(self.program, Balls(), self._split(v))
        return [ball for part in self._in_order(found) for ball in part]

    def ball_value(self, parts: list[Any]) -> Any:
        """Return G over balls."""
        return conjugate(self.program, Balls(), self._split(as_objects(parts)))[0] + in_balls([0.0])[0]

    def ball_slopes(self, parts: list[Any]) -> list[Any]:
        """Enclose Av + b."""
        return list(conjugate(self.program, Balls(), self._split(as_objects(parts)))[1])


def _scatter(places: Array, length: int) -> Any:
    return picks(places, length).T.tocsr()


def _spread(axis: tree.Axis) -> Any:
    """The matrix that turns one number per query into one per row."""
    return picks(axis.query, axis.count)


def _balances(node: CumulativeLogSumExp) -> Any:
    """The matrix of what levels give to their rows and pass on, less what comes from the level above."""
    passed = _scatter(node.passing, node.count) - _scatter(node.passing - 1, node.count)
    return sparse.hstack([_scatter(node.level, node.count), passed]).tocsr()


def _pulls(node: Any, here: _Map, own: Any) -> list[_Map]:
    """The multipliers of the arguments of a node."""
    if isinstance(node, tree.PairSums):
        up, low = node.pairs
        own = own[: len(up)]
        nothing = np.zeros(len(node.upper_axis.rows)), np.zeros(len(node.axis.rows))
        upper, lower = _scatter(up, len(nothing[0])), _scatter(low, len(nothing[1]))
        return [(-(upper @ own), nothing[0]), (lower @ own, nothing[1])]
    if isinstance(node, Threshold):
        own = own[: len(node.shares)]
    if isinstance(node, CumulativeLogSumExp):
        own = own[: len(node.level)]
    if own is not None:
        return [(own, np.zeros(own.shape[0]))]
    if isinstance(node, tree.Dot):
        linear = sparse.diags_array(node.shares) @ _spread(node.over)
        return [(linear @ here[0], linear @ here[1])]
    if not isinstance(node, tree.Affine):
        raise TypeError(f"{type(node).__name__} has no conjugate.")
    found = []
    for c, part in node.terms:
        linear: Any = sparse.diags_array(np.broadcast_to(np.asarray(c, dtype=np.float64), here[1].shape))
        if node.is_level(part) and node.axis is not None:
            linear = _spread(node.axis).T @ linear
        found.append((linear @ here[0], linear @ here[1]))
    return found
