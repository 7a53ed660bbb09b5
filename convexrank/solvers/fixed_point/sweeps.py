"""Sweeps over the nodes of a graph, in any order and along the strongest links.

Sweeps over a graph for one rank, in little memory: which problems they solve, and Anderson's mixing of iterates.

Sweeps in place for ranks by norms, along the strongest links.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.core.capabilities import FixedPoint
from convexrank.core.loop import State
from convexrank.data import check_integer, keep_checked
from convexrank.graphs.build import cuts
from convexrank.graphs.edge_blocks import EdgeBlock, each_block
from convexrank.graphs.lpq_map import TINY, NormMap
from convexrank.solvers.graph_faces import AffineFixedPoint, NormSweeps

Array = np.ndarray

# Nodes looked at at a time: what is made on the way stays small.
_PIECE = 1 << 15


def is_folded(operator: Any) -> bool:
    """Whether the answer is proportional to the system's without the dangling outflow: it goes to v, or nowhere."""
    if operator.restarts_dangling or operator.loses_rank:
        return True
    return operator.personalization is None and np.ndim(operator.escape) == 0


def scale_of_start(problem: AffineFixedPoint, x0: Array, folded: Any) -> Any:
    """What the system's z is of ranks: less by what dangling nodes would return where that is folded into the scale."""
    if problem.operators[0].loses_rank:
        return 1.0
    parts = [slice(first, first + _PIECE) for first in range(0, len(x0), _PIECE)]
    degrees = problem.graph.degrees
    lost = problem.alpha * sum(x0[part][degrees[part] == 0].sum(axis=0) for part in parts)
    return np.where(folded, (1.0 - problem.alpha) / (1.0 - problem.alpha + lost), 1.0)


def exchange(sent: list[Array], bounds: Array) -> None:
    """Show every range what the others became."""
    for i, (first, last) in enumerate(pairwise(bounds)):
        for k, other in enumerate(sent):
            if k != i:
                other[first:last] = sent[i][first:last]


# Sums over at most this many ranges, with random signs, stand for a vector in the least-squares problem.
_SKETCH = 1024
# Entries of the last step below this share of their mean weigh as much as one of that size.
_SMALL = 0.1
# A step that is this much longer than the shortest starts the history anew; after so many times without a new
# shortest of all there is no more mixing.
_LONGER, _PATIENCE = 4.0, 6
# So many steps without a shorter one: old, long steps in float32 hide the new ones, and the history starts anew.
_STAGNANT = 4
_ROUNDING = 1e-14


class Mixing:
    r"""Combine the last iterates of a map F so that the combined step is as short as possible.

    With :math:`r_k = F(z_k) - z_k` the next point is :math:`F(z_k) - c_k`, :math:`c_k = \sum_j s_j [F(z_{j+1}) -
    F(z_j)]`, where s minimises :math:`\sum_i w_i\,(r_k - \sum_j s_j (r_{j+1} - r_j))_i^2`. For a linear F and equal
    weights that is a Krylov method with a short memory. The weights are :math:`1/|r_k|_i`, up to a bound, so that the
    sum stands for the step's L1 norm; with equal ones a few large entries hide all others. A difference of images is
    :math:`r_{k+1} - c_k`: a ``slot`` holds :math:`-c_k`, and the caller adds the next step to it. Differences are kept
    in float32, which is enough for steps, and the minimisation is done on sketches of them: 4 bytes per unknown and
    step remembered.

    Parameters
    ----------
    n : int
        Number of unknowns.
    memory : int
        Steps remembered, at least 1.

    Attributes
    ----------
    slot : ndarray of float32, shape (n,)
        The correction :math:`-c_k`, to which the caller adds its next step :math:`r_{k+1}`.

    References
    ----------
    D. Anderson, Iterative procedures for nonlinear integral equations, Journal of the ACM 12 (1965), section 4;
    H. Walker, P. Ni, Anderson acceleration for fixed-point iterations, SIAM J. Numerical Analysis 49 (2011).
    """

    def __init__(self, n: int, memory: int) -> None:
        width = -(-n // _SKETCH)
        ranges = -(-n // width)
        self.memory, self._steps = memory, np.zeros((memory, n), dtype=np.float32)
        self.slot = self._steps[0]
        self._rng, self._signs = np.random.default_rng(0), np.ones(width, dtype=np.float32)
        self._images, self._residuals = np.zeros((2, memory, ranges))
        self._correction = np.zeros(ranges)
        self._last: Array | None = None
        self._failures, self._shortest, self._best = 0, np.inf, np.inf
        self._forget()

    @property
    def is_over(self) -> bool:
        """Whether mixing has been given up; the slot is of no more use."""
        return self._failures >= _PATIENCE

    def mix(self, length: float, size: float) -> bool:
        """Put into the slot what makes the caller's F(z) the next z; return whether it is anything but zero.

        Parameters
        ----------
        length : float
            Size of the last step, in the norm that decides whether mixing helps.
        size : float
            Size of the point in that norm: steps near rounding are not mixed.

        Returns
        -------
        bool
            True where the slot is to be added to F(z).
        """
        if self.is_over:
            return False
        if length <= _ROUNDING * size:
            self._failures = _PATIENCE
            return False
        if length > _LONGER * self._shortest:
            self._failures += 1
            self._forget()
            self._shortest = length
            return False
        self._since = 0 if length < self._shortest else self._since + 1
        self._shortest = min(self._shortest, length)
        if length < self._best:
            self._best, self._failures = length, 0
        if self._since >= _STAGNANT:
            self._forget()
            return False
        place = self._kept % self.memory
        image = self._sketch()
        residual = image + self._correction
        if self._last is None:
            self._last = residual
            self.slot[:] = 0.0
            return False
        self._images[place], self._residuals[place] = image, residual - self._last
        self._last, self._kept = residual, self._kept + 1
        self._correct(_least_squares(self._residuals[: min(self._kept, self.memory)], residual))
        return True

    def _sketch(self) -> Array:
        """Sums of the slot over ranges, with random signs; the last range may be shorter."""
        rest = len(self.slot) % len(self._signs)
        whole = self.slot[: len(self.slot) - rest].reshape(-1, len(self._signs)) @ self._signs
        last = [self.slot[-rest:] @ self._signs[:rest]] if rest else []
        return np.append(whole, last).astype(np.float64)

    def _correct(self, shares: Array) -> None:
        """Leave the sum of the steps, each times its share, with the other sign in place of the oldest."""
        steps, n = self._steps[: len(shares)], self._steps.shape[1]
        self.slot = self._steps[self._kept % self.memory]
        self._correction = shares @ self._images[: len(shares)]
        single = -shares.astype(np.float32)
        for first in range(0, n, _PIECE):
            part = slice(first, min(first + _PIECE, n))
            self.slot[part] = single @ steps[:, part]

    def _forget(self) -> None:
        # all ranges share their signs; what the old ones hid, because it was never made smaller, the new ones see
        self._signs = self._rng.choice(np.array([-1.0, 1.0], dtype=np.float32), len(self._signs))
        self._last, self._kept, self._since, self.slot = None, 0, 0, self._steps[0]
        self.slot[:] = 0.0
        self._correction[:] = 0.0


def _least_squares(columns: Array, target: Array) -> Array:
    """Return the shares of the columns, here rows, that bring their sum closest to the target."""
    size = np.abs(target)
    roots = 1.0 / np.sqrt(np.maximum(size, _SMALL * size.mean() or 1.0))
    columns = columns * roots
    scale = np.linalg.norm(columns, axis=1)
    scale[scale == 0.0] = 1.0
    return np.linalg.lstsq((columns / scale[:, None]).T, target * roots, rcond=1e-7)[0] / scale


class Sweeps:
    r"""Sweeps for one rank.

    All that is kept of z is :math:`z_i/d_i`, what node i sends along a link of weight 1, one copy per range; of a
    dangling node, which sends nothing, it is :math:`z_i` itself.

    Parameters
    ----------
    problem : AffineFixedPoint
        The problem.
    x0 : ndarray, shape (n,)
        Where to start.
    threads : int or None
        Number of ranges of nodes.
    memory : int
        Sweeps combined.
    """

    #: Each sweep returns its ranks.
    is_settled = True

    def __init__(self, problem: AffineFixedPoint, x0: Array, threads: int | None, memory: int) -> None:
        graph, operator = problem.graph, problem.operators[0]
        self.problem, self._bounds = problem, cuts(graph.offsets, threads)
        # sweeps are so short that starting threads for each would show; they end with this object
        self._pool = ThreadPoolExecutor(max(len(self._bounds) - 2, 1))
        self._folded = is_folded(operator)
        # one number where it is the same for all nodes
        uniform = operator.personalization is None
        self._base = (1.0 - problem.alpha) * (np.array([1.0 / graph.n]) if uniform else operator.teleport)
        sent = x0 * scale_of_start(problem, x0, self._folded)
        np.divide(sent, graph.degrees, out=sent, where=graph.degrees > 0)
        self._sent = [sent, *(sent.copy() for _ in range(len(self._bounds) - 2))]
        self._mixing = Mixing(len(sent), memory) if memory else None

    @property
    def is_mixing(self) -> bool:
        """Whether ranks are still combined from several sweeps."""
        return self._mixing is not None

    def stop_mixing(self) -> None:
        """Sweep without it from now on."""
        self._mixing = None

    def settle(self) -> tuple[Array, float]:
        """Never asked for."""
        raise NotImplementedError

    def step(self, tol: float) -> tuple[Array, float, float]:
        """Sweep once; return the ranks, a bound on their distance to the solution, and the change of z."""
        del tol
        x = np.empty(len(self._sent[0]))
        change, unseen, lost = self._sweep(x)
        size = float(x.sum())
        residual = self._residual(change, unseen, lost, size)
        if self._folded and not self.problem.operators[0].loses_rank:
            x /= size if size > 0.0 else 1.0
        self._mix(change + unseen, size)
        return x, residual, change + unseen

    def _sweep(self, z: Array) -> tuple[float, float, float]:
        """Sweep over all ranges, write z, and show every range what the others became; return sums over the nodes."""
        from convexrank.graphs import compiled_sweeps

        graph, base = self.problem.graph, self._right_hand_side()
        moved = np.empty(0, dtype=np.float32) if self._mixing is None else self._mixing.slot
        loop = compiled_sweeps.sweep if graph.weights is None else compiled_sweeps.sweep_weighted

        def one(block: EdgeBlock) -> Any:
            mine = int(np.searchsorted(self._bounds[:-1], block.first, side="right")) - 1
            vectors = base, self._sent[mine], moved, z
            return loop(*block.arrays, graph.degrees, self.problem.alpha, *vectors, block.first, block.last)

        change, unseen, lost = np.sum(
            each_block(one, graph.blocks, self._bounds, self._pool), axis=0
        ).tolist()
        exchange(self._sent, self._bounds)
        return change, unseen, lost

    def _right_hand_side(self) -> Array:
        """(1−α)v, and the outflow of dangling nodes where not folded."""
        if self._folded:
            return self._base
        lost = self.problem.alpha * self._sent[0][self.problem.graph.dangling].sum()
        return self._base + self.problem.operators[0].escape * np.atleast_1d(lost)

    def _residual(self, change: float, unseen: float, lost: float, size: float) -> float:
        """Bound the distance to the solution from what a sweep changed, of nodes with links and of dangling ones."""
        alpha = self.problem.alpha
        if self.problem.operators[0].loses_rank:
            rest, scale = 0.0, 1.0
        elif self._folded:
            # a scaled residual loses its sum to the teleport; where rounding hides that sum, its size is known
            rest, scale = min(abs((1.0 - alpha) * (1.0 - size) - alpha * lost), alpha * change), size
        else:
            rest, scale = alpha * unseen, 1.0  # the outflow is one sweep old
        # mixing may have gone astray
        return (alpha * change + rest) / scale / (1.0 - alpha) if scale > 0.0 else math.inf

    def _mix(self, length: float, size: float) -> None:
        """Combine this sweep with the ones before it."""
        from convexrank.graphs import compiled_sweeps

        if self._mixing is None:
            return
        self._mixing.mix(length, size)
        if self._mixing.is_over:
            self.stop_mixing()
            return
        graph = self.problem.graph
        shift = compiled_sweeps.shift if graph.weights is None else compiled_sweeps.shift_weighted
        shift(graph.degrees, self._mixing.slot, self._sent[0])
        for sent in self._sent[1:]:
            np.copyto(sent, self._sent[0])


# The order is made before these sweeps: later the strongest links hardly change any more.
_RENEWED = frozenset({4, 8})
# So many sweeps without a shorter one: rounding has been reached.
_ORDERED_PATIENCE = 40
# After so many sweeps that left the range of floating point there are no more.
_FAILURES = 3
# Depths are sorted as numbers of 16 bits, which takes a pass for each byte.
_DEEPEST = np.iinfo(np.int16).max


@dataclass(frozen=True)
class OrderedSweeps:
    r"""Sweep over the nodes in place, each after the sender of its strongest link.

    In logarithms the map U of an L_{p,q} rank contracts with factor θ in the supremum norm, without normalisation. For
    p of 2 and more, one term dominates most sums: the error of a node is about θ times that of the sender of this
    strongest link, and moves along chains of such links. A sweep in place, in the order of the depth in the graph of
    strongest links, carries it down whole chains at once. A node that links to itself solves its own equation.
    What remains, mostly cycles of strongest links, is left to the combination of the last few sweeps
    (:class:`~convexrank.solvers.fixed_point.sweeps.Mixing`). For θ near 1 the scale of the ranks converges slowly,
    and the map itself is faster.

    If a sweep changes no logarithm by more than δ, then :math:`d_H(r, r^*) \le 2\theta\delta/(1-\theta)`, which is the
    reported residual. Sums that fall out of the range of floating point end the sweep, and the map takes its place.

    A sweep costs O(n + m), in one thread. The edges are copied into the order, so that a sweep reads memory from front
    to back: 4 bytes an edge, and 16 more where edges have weights.

    Parameters
    ----------
    memory : int
        Number of sweeps that are combined; 0 for plain sweeps.

    References
    ----------
    D. Young, Iterative methods for solving partial difference equations of elliptic type, Transactions of the AMS 76
    (1954), section 2, on consistent orderings.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> problem = cr.problems.LpqRank(graph, p=4, q=4.8)
    >>> solution = problem.solve("ordered-sweeps")
    >>> solution.iterations, problem.solve("power").iterations
    (12, 58)
    """

    memory: int = 3

    name = "ordered-sweeps"
    requires = frozenset({"FixedPoint", "NormSweeps"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "memory", minimum=0)

    def init(self, problem: FixedPoint, x0: Array) -> State:
        """Apply the map once, for the scale at which it changes ranks least; nothing is known about the error yet."""
        return State(x0, math.nan, math.inf, _Run(problem.face(NormSweeps).image, x0, self.memory))

    def step(self, problem: FixedPoint, state: State) -> State:
        """Sweep once."""
        run: _Run = state.memory
        change = run.sweep()
        x, theta = run.ranks, problem.modulus
        if change is None:
            x, change = run.apply_map()
        run.since = 0 if change < run.shortest else run.since + 1
        run.shortest = min(run.shortest, change)
        residual = 2.0 * theta / (1.0 - theta) * change
        run.mix()
        return State(x, math.nan, residual, run, stalled=run.since >= _ORDERED_PATIENCE or change == 0.0)


class _Run:
    """The iterate in logarithms, the edges in the order of the sweeps, and the last sweeps."""

    def __init__(self, image: NormMap, ranks: Array, memory: int) -> None:
        graph = image.graph
        self.image, self.memory, self.count, self.failures = image, memory, 0, 0
        self.since, self.shortest, self._sum = 0, math.inf, 0.0  # _sum: of the sizes of the last changes
        self._whole = graph.offsets, graph.sources, image.edge_factors
        self._order, self._edges = np.arange(graph.n, dtype=np.int32), self._whole
        self._own, self._entries = self._own_factors(), image.p * image.log_entries[0]
        self._begin(np.ascontiguousarray(ranks, dtype=np.float64))

    def _own_factors(self) -> Array:
        """Factors of links of nodes to themselves; empty where no node has any."""
        from convexrank.graphs.compiled_sweeps import own_links

        own = np.zeros(self.image.graph.n)
        own_links(*self._whole, own)
        return own if own.any() else np.empty(0)

    def _begin(self, ranks: Array) -> Array:
        """Apply the map, and choose the scale at which it changes the logarithm in the middle by nothing."""
        image = self.image(ranks)
        with np.errstate(divide="ignore"):
            logs = np.log(image)
            self._shift = float(np.median(logs - np.log(ranks)))
        self._set(logs - self._shift)
        return image

    def _set(self, logs: Array) -> None:
        """Set logarithms of ranks; earlier sweeps say nothing of these."""
        self._logs = logs[self._order]
        self._mixing = Mixing(len(logs), self.memory) if self.memory else None

    def _exp(self, least: float) -> Array:
        """Ranks over e^least, in the order of the nodes."""
        ranks = np.empty(len(self._logs))
        ranks[self._order] = np.exp(self._logs - least)
        return ranks

    @property
    def ranks(self) -> Array:
        """The ranks, with a sum of 1."""
        ranks = self._exp(float(self._logs.max()))
        ranks /= ranks.sum()
        return ranks

    def apply_map(self) -> tuple[Array, float]:
        """Set the image of the ranks; return it with a sum of 1, and Hilbert's distance between the two."""
        before = self.ranks
        after = self._begin(before)
        self._mixing, self.failures = None, self.failures + 1
        with np.errstate(divide="ignore", invalid="ignore"):
            change = float(np.ptp(np.log(after) - np.log(before)))
        return after / after.sum(), math.inf if math.isnan(change) else change

    def sweep(self) -> float | None:
        """Sweep once; return the largest change of a logarithm, or None where a sum left the range of numbers."""
        from convexrank.graphs import compiled_sweeps

        if self.failures >= _FAILURES:
            return None
        image, self.count = self.image, self.count + 1
        largest = float(self._logs.max())
        sent, common, top, constant = image.powers(self._exp(largest))
        top, constant = top + image.p * largest, constant * np.exp(image.theta * largest)
        if self.count in _RENEWED:
            self._renew(sent, common)
        moved = np.empty(len(sent), dtype=np.float32) if self._mixing is None else self._mixing.slot
        scale = math.exp(-self._shift)
        change, self._sum, lost = compiled_sweeps.norm_sweep(
            self._order, *self._edges, self._own, self._entries, sent, self._logs, moved, image.p,
            image.theta / image.p, top, common, scale * image.factor, scale * constant, TINY,
        )  # fmt: skip
        return None if lost or not math.isfinite(change) else change

    def _renew(self, sent: Array, common: float) -> None:
        """Put the nodes, and all that belongs to them, into the order of their depths at these ranks."""
        from convexrank.graphs import compiled_sweeps

        depth, inverse = np.empty(len(sent), dtype=np.int32), np.empty(len(sent), dtype=np.int32)
        compiled_sweeps.depths(*self._whole, sent, common, depth)
        inverse[self._order] = np.arange(len(sent), dtype=np.int32)
        shallow = np.minimum(depth, _DEEPEST, out=depth).astype(np.int16)
        self._order = np.argsort(shallow, kind="stable").astype(np.int32)
        if self._edges is self._whole:
            self._edges = tuple(np.empty(len(held), dtype=held.dtype) for held in self._whole)
        compiled_sweeps.in_order(self._order, *self._whole, *self._edges)
        now = inverse[self._order]
        self._own, self._entries = self._own[now] if len(self._own) else self._own, self._entries[now]
        self._logs = self._logs[now]
        self._mixing = Mixing(len(sent), self.memory) if self.memory else None

    def mix(self) -> None:
        """Combine this sweep with the ones before it."""
        if self._mixing is None:
            return
        self._mixing.mix(self._sum, float(np.abs(self._logs).sum()))
        if self._mixing.is_over:
            self._mixing = None
        else:
            self._logs += self._mixing.slot
