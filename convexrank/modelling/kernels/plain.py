"""Sums over pairs for certificates, in plain numpy.

Sums over pairs for certificates: plain numpy, and no code that a solver runs.

* polynomials of degree 2 in :math:`(1+x)_+`: one sort by score, then integrals of a step function, O(n log n); between
  many grades, pairs are cut by the bits of the grades, O(n log n log g);
* the exponential between grades: running sums of logarithms;
* the logistic function, of very many pairs: the double sum between nodes in the place of rows; between many grades,
  pairs are cut by the bits of the grades, until few rows of neighbouring grades are left;
* any other function: the double sum itself, in blocks of rows, so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import check_time
from convexrank.modelling import functions
from convexrank.modelling.expressions import PairSums, within
from convexrank.modelling.kernels.plain_nodes import NodePairs

Array = np.ndarray

# Pairs held at once where there is nothing better than the double sum; most rows of either side of a query that is
# taken together with others, whose sums go one number after the other.
_BLOCK, _SHORT = 1 << 16, 1 << 6
# So many pairs of each block, and so many fewer pairs of nodes than of rows, are worth nodes.
_MANY, _FEWER = 1_000_000, 4
# Scores further apart have differences whose exponentials leave the range of floating point when multiplied.
_SPREAD = 300.0


@dataclass(frozen=True)
class Runs:
    """Running sums within groups of neighbours, each added up by itself.

    A difference of running sums over all groups would have the rounding of the sum over all.

    Parameters
    ----------
    begins : ndarray of bool, shape (n,)
        Which entries begin a group; the first one does.
    """

    begins: Array

    @cached_property
    def _groups(self) -> list[tuple[Array, Array, tuple[int, int]]]:
        """Groups of about the same size as rows of a matrix: their entries, the places of these, and its shape."""
        first, found = np.flatnonzero(self.begins), []
        sizes = np.diff(first, append=len(self.begins))
        size = np.ceil(np.log2(sizes)).astype(np.intp)
        for power in np.unique(size).tolist():
            starts, counts = first[size == power], sizes[size == power]
            row = np.repeat(np.arange(len(starts)), counts)
            within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
            found.append((starts[row] + within, row * 2**power + within, (len(starts), 2**power)))
        return found

    @property
    def backwards(self) -> Runs:
        """The same groups from the last entry to the first."""
        return Runs(np.append(self.begins[1:], True)[::-1])

    def sums(self, x: Array) -> Array:
        """Return the sum of each entry and those before it in its group."""
        if not self.begins[1:].any():
            return np.cumsum(x)
        found = np.empty(len(x))
        for entries, places, shape in self._groups:
            padded = np.zeros(shape)
            padded.reshape(-1)[places] = x[entries]
            found[entries] = np.cumsum(padded, axis=1).reshape(-1)[places]
        return found


@dataclass(frozen=True)
class Merged:
    """Rows in the order of their points, group by group: the score of an upper row, the score + 1 of a lower one.

    At equal points lower rows come first: a pair counts exactly where the upper point is strictly below the lower one.
    """

    rows: Array
    points: Array
    is_lower: Array
    begins: Array

    @cached_property
    def _runs(self) -> tuple[Runs, Runs]:
        return (runs := Runs(self.begins)), runs.backwards

    def powers(self, weights: Array, degree: int, *, below: bool) -> Array:
        r"""Return :math:`\sum_j w_j |x_i - x_j|^m` over the partners of every row, m = 0 … degree; by row number.

        With ``below``, the partners of a lower row are the upper rows with smaller points; otherwise, the partners of
        an upper row are the lower rows with larger points. Nothing cancels: the sums are integrals of a step function
        with positive pieces only.
        """
        along = slice(None) if below else slice(None, None, -1)
        rows, points = self.rows[along], self.points[along]
        wanted = self.is_lower[along] == below
        runs = self._runs[0 if below else 1]
        begins = runs.begins
        first, group = np.flatnonzero(begins), np.cumsum(begins) - 1
        places = np.arange(len(rows))
        last = np.maximum.reduceat(np.where(wanted, places, -1), first)[group]
        # rows after the last row whose sum is wanted would only add rounding to the following groups
        counted = np.where(wanted | (places > last), 0.0, weights[rows])
        gaps = np.where(begins | (places > last), 0.0, np.abs(np.diff(points, prepend=points[0])))
        heights = np.where(begins, 0.0, np.append(0.0, runs.sums(counted)[:-1]))
        sums = [heights]
        for m in range(1, degree + 1):
            before = np.append(0.0, sums[-1][:-1])
            pieces = gaps * (heights if m == 1 else 0.5 * m * (before + sums[-1]))
            sums.append(runs.sums(pieces))
        answer = np.zeros((degree + 1, len(weights)))
        answer[:, rows[wanted]] = np.array(sums)[:, wanted]
        return answer


def _merged(roles: Array, ranks: Array, queries: Array) -> Iterator[tuple[Array, Merged]]:
    """Every pair of one query with different ranks once: where the highest bit in which the ranks differ is set above.

    Takes the points of all rows as lower ones, and as upper ones. Yields which rows have that bit clear, and the rows
    merged within groups that agree in all higher bits.
    """
    n = len(ranks)
    order = np.argsort(roles, kind="stable")
    row = order % n
    for bit in range(int(ranks.max()).bit_length()):
        check_time()
        is_lower = (ranks >> bit) & 1 == 0
        groups = queries * ((int(ranks.max()) >> bit + 1) + 1) + (ranks >> bit + 1)
        kept = order[is_lower[row] == (order < n)]
        kept = kept[np.argsort(groups[kept % n], kind="stable")]
        rows = kept % n
        begins = np.diff(groups[rows], prepend=-1) > 0
        yield is_lower, Merged(rows, roles[kept], is_lower[rows], begins)


def products(factors: Array, most: int) -> Array:
    """Return the sum of logarithms of each row of entries, all at least 1; products of ``most`` entries are finite."""
    rows, count = factors.shape
    width = -(-count // most)
    whole = factors[:, : count // width * width] if width else factors
    logs = np.log(factors[:, whole.shape[1] :]).sum(axis=1)
    if whole.size:
        logs += np.log(whole.reshape(rows, -1, width).prod(axis=1)).sum(axis=1)
    return logs


def has_plain_sums(node: PairSums) -> bool:
    """Return whether sums over pairs take no function of each pair."""
    coefficients = node.function.coefficients
    if coefficients is not None:
        return len(coefficients) <= 3
    if node.function.multiple_of is functions.softplus:
        return True
    return node.function is functions.exp


class PlainPairs:
    """Sums over the partners of each row, as :class:`convexrank.modelling.kernels.pairs.PairKernel` names them."""

    def __init__(self, node: PairSums, upper: Array, lower: Array) -> None:
        self.node, self.upper, self.lower = node, upper, lower
        function = node.function
        coefficients = function.coefficients
        self._last: dict[bool, tuple[Array, Array]] = {}
        self._is_sorted = coefficients is not None and len(coefficients) <= 3
        self._is_running = function is functions.exp and node.grades is not None
        self._is_product = function is functions.exp and node.grades is None
        highest, lowest = max(upper.max(), lower.max()), min(upper.min(), lower.min())
        self._is_logistic = function.multiple_of is functions.softplus and highest - lowest <= _SPREAD

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ over the partners, j = 0 and 1; weights of exponentials are at least 0."""
        here = self.upper if to_lower else self.lower
        weights = np.broadcast_to(np.asarray(weights, dtype=np.float64), here.shape)
        if self._is_sorted:
            coefficients = self.node.function.coefficients or ()
            powers = self._powers(weights, to_lower)
            slopes = [m * c for m, c in enumerate(coefficients)][1:]
            lines = np.asarray(coefficients) @ powers, np.asarray(slopes) @ powers[: len(slopes)]
            return [lines[j] for j in derivatives]
        if self._is_product:
            found = self._product(weights, to_lower)
            return [found for _ in derivatives]
        if self._is_running:
            found = self._running(weights, to_lower)
            return [found for _ in derivatives]
        lines = (self._between_nodes if self._blocks else self._in_blocks)(weights, to_lower)
        return [lines[j] for j in derivatives]

    def conjugates(self, weights: Array) -> Array:
        r"""Return Σ w φ*(φ′) over the upper partners, of a polynomial: x φ′ − φ with nothing that cancels."""
        coefficients, powers = self.node.function.coefficients or (), self._powers(weights, True)
        # of (1 + x)ᵐ: (m − 1)(1 + x)ᵐ − m (1 + x)ᵐ⁻¹
        parts = [c * ((m - 1) * powers[m] - m * powers[m - 1]) for m, c in enumerate(coefficients) if c]
        return np.add.reduce(parts)

    @cached_property
    def _distances(self) -> DistancePowers:
        return DistancePowers(self.node, self.upper, self.lower)

    def _powers(self, weights: Array, to_lower: bool) -> Array:
        """The sums of powers of distances; the last of either side are kept with their weights."""
        last = self._last.get(to_lower)
        if last is None or not np.array_equal(last[0], weights):
            degree = len(self.node.function.coefficients or ()) - 1
            last = self._last[to_lower] = weights, self._distances.sums(weights, degree, to_lower)
        return last[1]

    def _product(self, weights: Array, to_lower: bool) -> Array:
        """The exponential of all pairs of a query: of equal rows the same number."""
        mine, partners = (self.lower, -self.upper) if to_lower else (-self.upper, self.lower)
        axes = (self.node.axis.starts, self.node.upper_axis.starts)[:: 1 if to_lower else -1]
        found = np.zeros(len(mine))
        with np.errstate(divide="ignore", over="ignore"):
            for (start, end), (first, last) in zip(*map(pairwise, axes), strict=True):
                logs = np.log(weights[first:last]) + partners[first:last]
                if (top := logs.max()) > -np.inf:
                    whole = top + np.log(np.exp(logs - top).sum())
                    found[start:end] = np.exp(mine[start:end] + whole)
        return found

    def _running(self, weights: Array, to_lower: bool) -> Array:
        """The exponential: by running sums of logarithms, query by query."""
        node, found = self.node, np.zeros(len(weights))
        with np.errstate(divide="ignore", over="ignore"):
            logs = np.log(weights)
            for start, end in zip(node.axis.starts[:-1], node.axis.starts[1:], strict=True):
                grades = node.grades[start:end]  # type: ignore[index]  # there are some
                order = np.argsort(grades if not to_lower else -grades, kind="stable")
                rows, sign = start + order, 1.0 if to_lower else -1.0
                partners, mine = (self.upper, self.lower) if to_lower else (self.lower, self.upper)
                levels = np.logaddexp.accumulate(logs[rows] - sign * partners[rows])
                before = np.searchsorted(sign * -grades[order], sign * -grades[order])
                some = before > 0
                found[rows[some]] = np.exp(levels[before[some] - 1] + sign * mine[rows[some]])
        return found

    def _in_blocks(self, weights: Array, to_lower: bool) -> tuple[Array, Array]:
        """The double sum: of queries of few pairs together, of others one by one in blocks of lower rows."""
        node, rows = self.node, self.lower if to_lower else self.upper
        value, slope = np.zeros(len(rows)), np.zeros(len(rows))
        up, low = node.upper_axis.starts.tolist(), node.axis.starts.tolist()
        for q, last in self._stretches():
            if last > q + 1:
                self._add_pairs(q, last, weights, to_lower, (value, slope))
                continue
            step = max(1, _BLOCK // max(up[q + 1] - up[q], 1))
            order = np.arange(low[q], low[q + 1])
            if node.grades is not None:
                order = order[np.argsort(node.grades[order], kind="stable")]
            for start in range(0, len(order), step):
                check_time()
                block = order[start : start + step]
                partners = np.arange(up[q], up[q + 1])
                if node.grades is not None:
                    partners = order[
                        np.searchsorted(node.grades[order], node.grades[block[0]], side="right") :
                    ]
                if not len(partners):
                    continue
                counts = None if node.grades is None else node.grades[block][:, None] < node.grades[partners]
                weighed = weights[partners if to_lower else block]
                values, slopes = self._block(block, partners, counts, weighed if to_lower else None)
                if to_lower:
                    value[block], slope[block] = values, slopes @ weighed
                else:
                    value[partners] += values if values.ndim == 1 else weighed @ values
                    slope[partners] += weighed @ slopes
        return value, slope

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of neighbouring queries, ends excluded: of few pairs together, other queries one by one."""
        up, low = self.node.upper_axis.sizes, self.node.axis.sizes
        ends = np.cumsum(np.where(np.maximum(up, low) <= _SHORT, up * low, 2 * _BLOCK))
        first = done = 0
        while first < len(ends):
            last = max(int(np.searchsorted(ends, done + _BLOCK, side="right")), first + 1)
            yield first, last
            first, done = last, int(ends[last - 1])

    def _add_pairs(
        self, first: int, last: int, weights: Array, to_lower: bool, sums: tuple[Array, Array]
    ) -> None:
        """Add the sums of some queries of few pairs, from all of these in one list."""
        check_time()
        node, queries = self.node, np.arange(first, last)
        up, low = node.upper_axis, node.axis
        counts = np.repeat(up.sizes[queries], low.sizes[queries])  # partners of each lower row
        lower = np.repeat(np.arange(low.starts[first], low.starts[last]), counts)
        within = np.arange(len(lower)) - np.repeat(np.cumsum(counts) - counts, counts)
        upper = up.starts[low.query[lower]] + within
        if node.grades is not None:
            right = node.grades[lower] < node.grades[upper]
            lower, upper = lower[right], upper[right]
        here, there = (upper, lower) if to_lower else (lower, upper)
        for answer, each in zip(
            sums, node.function.slopes(self.lower[lower] - self.upper[upper]), strict=True
        ):
            answer += np.bincount(there, weights[here] * each, minlength=len(answer))

    @cached_property
    def _blocks(self) -> list[tuple[Array, Array, NodePairs]]:
        """Upper and lower rows all pairs of which count, with nodes; none where these are not worth it."""
        slopes, (found, _) = self.node.function.slopes, self._parts
        return [
            (above, below, NodePairs(slopes, self.upper[above], self.lower[below])) for above, below in found
        ]

    @cached_property
    def _rest(self) -> tuple[Array, PlainPairs] | None:
        """The pairs besides, which are those of rows that have the same key."""
        keys = self._parts[1]
        if keys is None:
            return None
        order, node = within(self.node, keys)
        return order, PlainPairs(node, self.upper[order], self.lower[order])

    @cached_property
    def _parts(self) -> tuple[list[tuple[Array, Array]], Array | None]:
        """Upper and lower rows of the pairs that are worth nodes, cut by the highest bits; keys of the others."""
        node, used = self.node, 0
        few = node.pair_count < _MANY * node.axis.count
        if few or node.function.multiple_of is not functions.softplus:
            return [], None
        found, keys = [], [*keys_of(node)][::-1]
        for upper, lower in keys:
            cut = _rows_of(upper, lower)
            found.append(cut)
            pairs = sum(float(len(one) * len(other)) for one, other in cut)
            if len(cut) * _MANY > node.pair_count:
                break
            nodes = sum(NodePairs.count(self.upper[one], self.lower[other]) for one, other in cut)
            if len(cut) * _MANY <= pairs and _FEWER * nodes <= pairs:
                used = len(found)
        rest = None
        if 0 < used < len(keys):
            upper, lower = keys[used - 1]
            rest = np.where(upper >= 0, 2 * upper + 1, 2 * lower)
        return [block for cut in found[:used] for block in cut], rest

    def _between_nodes(self, weights: Array, to_lower: bool) -> tuple[Array, Array]:
        """The double sum between nodes, and one by one of the pairs besides."""
        value, slope = np.zeros((2, len(self.lower if to_lower else self.upper)))
        for above, below, nodes in self._blocks:
            here, there = (above, below) if to_lower else (below, above)
            values, slopes = nodes.sums(weights[here], to_lower=to_lower)
            value[there] += values
            slope[there] += slopes
        if self._rest is not None:
            order, pairs = self._rest
            values, slopes = pairs._in_blocks(weights[order], to_lower)
            value[order] += values
            slope[order] += slopes
        return value, slope

    def _block(
        self, block: Array, partners: Array, counts: Array | None, weights: Array | None
    ) -> tuple[Array, Array]:
        """Weighed sums of values to the lower rows, or the values, and the slopes of all pairs of a block."""
        function = self.node.function
        if not self._is_logistic:
            values, slopes = function.slopes(self.lower[block][:, None] - self.upper[partners][None, :])
            if counts is not None:
                values, slopes = np.where(counts, values, 0.0), np.where(counts, slopes, 0.0)
            return (values if weights is None else values @ weights), slopes
        # with q = e^(x_k) e^(−x_i) the slope is q/(1 + q); exponentials are taken once for a row
        middle = 0.5 * (self.lower.max() + self.upper.min())
        odds = np.exp(self.lower[block] - middle)[:, None] * np.exp(middle - self.upper[partners])[None, :]
        if counts is not None:
            odds *= counts
        whole, factor = 1.0 + odds, 2.0 * float(function.slopes(np.zeros(1))[1][0])
        odds /= whole
        odds *= factor
        if weights is None:
            return factor * np.log(whole), odds
        if (weights != weights[0]).any():
            return factor * (np.log(whole) @ weights), odds
        spread = float(self.lower.max() - self.upper.min())
        factors = int(min(max(600.0 / (max(spread, 0.0) + 1.0), 1.0), 64.0))
        return factor * weights[0] * products(whole, factors), odds


def _rows_of(upper: Array, lower: Array) -> list[tuple[Array, Array]]:
    """Return the upper and the lower rows of every key that both have."""
    sides = []
    for keys in (upper, lower):
        order = np.argsort(keys, kind="stable")[np.count_nonzero(keys < 0) :]
        names, starts = np.unique(keys[order], return_index=True)
        sides.append(dict(zip(names.tolist(), np.split(order, starts[1:]), strict=True)))
    above, below = sides
    return [(rows, below[key]) for key, rows in above.items() if key in below]


def keys_of(node: PairSums) -> Iterator[tuple[Array, Array]]:
    """Yield keys of upper and of lower rows, −1 for none; each pair has one key in common once.

    Of two rows whose grades differ first in some bit, the upper one has it set.

    Yields
    ------
    tuple of ndarray
        The keys of upper and of lower rows.
    """
    up, low = node.upper_axis.query, node.axis.query
    if node.grades is None:
        yield up, low
        return
    ranks = np.unique(node.grades, return_inverse=True)[1].ravel()
    step = int(ranks.max()) + 1
    for bit in range(int(ranks.max()).bit_length()):
        key, above = up * step + (ranks >> bit + 1), (ranks >> bit) & 1 == 1
        yield np.where(above, key, -1), np.where(above, -1, key)


class DistancePowers:
    r"""Sums :math:`\sum w (c + x_k - x_i)_+^m` over the partners of each row, m = 0, 1, … and c the margin.

    For m = 0 a pair counts where the difference is above 0.
    """

    def __init__(self, node: PairSums, upper: Array, lower: Array, margin: float = 1.0) -> None:
        self.graded, self.lower_rows = node.grades is not None, len(lower)
        up, low, middle = node.upper_axis, node.axis, _middles(node, upper)
        below, above = margin + lower - middle[low.query], upper - middle[up.query]
        if node.grades is None:  # lower rows before upper ones
            is_lower = np.arange(len(lower) + len(upper)) < len(lower)
            queries = np.concatenate([low.query, up.query])
            points = np.concatenate([below, above])
            order = _in_order(points)
            if low.count > 1:
                order = order[np.argsort(queries[order], kind="stable")]
            begins = np.diff(queries[order], prepend=-1) > 0
            self.parts = [(is_lower, Merged(order, points[order], is_lower[order], begins))]
            return
        ranks = np.unique(node.grades, return_inverse=True)[1].ravel()
        # every row as a lower one and as an upper one
        self.parts = list(_merged(np.concatenate([below, above]), ranks, low.query))

    def sums(self, weights: Array, degree: int, to_lower: bool) -> Array:
        """Return the sums for each row, m = 0 … degree."""
        n = self.lower_rows
        if not self.graded:
            nothing = np.zeros(len(self.parts[0][0]) - len(weights))
            weights = np.concatenate([nothing, weights] if to_lower else [weights, nothing])
        found = np.zeros((degree + 1, len(weights)))
        for is_lower, merged in self.parts:
            check_time()
            found += merged.powers(np.where(is_lower != to_lower, weights, 0.0), degree, below=to_lower)
        if self.graded:
            return found
        return found[:, :n] if to_lower else found[:, n:]


def _in_order(points: Array) -> Array:
    """Return the rising order of points, equal ones as they came; a stable sort takes longer, and few are equal."""
    order = np.argsort(points)
    rising = points[order]
    return np.argsort(points, kind="stable") if (rising[1:] == rising[:-1]).any() else order


def _middles(node: PairSums, upper: Array) -> Array:
    """A score near the middle of each query: only differences matter, and near 0 the margin is added exactly."""
    axis = node.upper_axis
    if axis.count == 1:
        place = (len(upper) - 1) // 2
        return np.partition(upper, place)[place, None]
    order = np.lexsort((upper, axis.query))
    return upper[order[(axis.starts[:-1] + axis.starts[1:] - 1) // 2]]
