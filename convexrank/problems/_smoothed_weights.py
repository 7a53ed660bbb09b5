"""The smooth function of an expression as a function of w, by products of X with its derivatives in the scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import (
    centred_gram,
    dense,
    entries,
    gram_of_rows,
    is_sparse,
    rows_of,
    scaled,
    squares_times,
    times,
    transposed_times,
    weighted_gram,
)
from convexrank.modelling.curvature import Columns, columns_of
from convexrank.modelling.expressions import Affine, Elementwise, Highest, PairSums, SharedMeans, is_curved
from convexrank.modelling.hessian_products import (
    gradient_moved,
    has_few_pairs,
    has_pair_hessian,
    hessian_of_few_pairs,
    pair_hessian,
)
from convexrank.modelling.kernels.highest import partial_shares
from convexrank.modelling.kernels.pairs import WindowedPairs, kernel_among, some_pairs
from convexrank.modelling.recession import shift
from convexrank.modelling.smoothing.merging import of_queries
from convexrank.modelling.smoothing.programs import (
    Smoothed,
    Smoothing,
    SmoothRisk,
    one_by_one,
    sums_pairs_only,
)

Array = np.ndarray

# Pairs for each row, and for each unknown, on which a Hessian rests. Where more have curvature, every so many-th stands
# for the others: a direction may be rough, where it ends is decided by the gradient. As many do as take little time: of
# few rows and many unknowns each pair counts.
_PAIRS_PER_ROW, _PAIRS_PER_UNKNOWN, _PRODUCTS = 10, 200, 1_000_000_000
# Without kinks all of them count, where there are no more than so many to be added up one by one for all unknowns.
_SUMMED = 200_000_000
# So many pairs tell how shares of upper rows move; from so many of a query on sums of columns, query by query, take
# less time than products, and than matrices of pairs.
_ENTRIES, _MANY = 2_000_000, 2_500
# So many rows tell the Hessian of smooth functions of single rows, beside rows of so many times the mean curvature.
_TOLD, _HEAVY = 8_192, 16.0
# So many rows of either side tell the Hessian of sums over all of their pairs, or one out of so many rows, if these are
# more: to look at very many rows once more takes longer. Of those whose shares move twice as many do. No more pairs
# than so many are listed.
_SOME, _ONE_OUT_OF, _FEW = 2_048, 64, 30_000
#: Scores from this size on, beside which a log-sum-exp has kinks.
FAR = 1e6


@dataclass(frozen=True, eq=False)
class SmoothedRisks:
    """The smooth functions of w.

    Parameters
    ----------
    X : matrix, shape (n, d)
        The features.
    smoothing : Smoothing
        The smooth functions of scores.
    some : callable, optional
        Returns other rows, their scores as a function of all scores, and smooth functions of these, whose second
        derivatives stand for those of all: some rows of very many, or the differences of listed pairs. None of no use.
    """

    X: Any
    smoothing: Smoothing
    some: Callable[[], tuple[Callable[[Array], Array], SmoothedRisks] | None] | None = None

    @cached_property
    def telling(self) -> tuple[Callable[[Array], Array], SmoothedRisks] | None:
        """Rows that tell the Hessian where it takes a product of the whole expression for each unknown."""
        return None if self.some is None else self.some()

    @cached_property
    def lists_pairs(self) -> bool:
        """Whether pairs are listed for second derivatives; else these are products of the whole expression."""
        return sums_pairs_only(self.smoothing.program)

    @cached_property
    def tells_all_pairs(self) -> bool:
        """Whether sums over all pairs for each column give the Hessian: where all of them bend a risk without kinks."""
        program = self.smoothing.program
        if not (program.smooth and program.has_pairs and has_pair_hessian(program)):
            return False
        return one_by_one(program) * self.X.shape[1] <= _SUMMED

    @cached_property
    def tops(self) -> list[tuple[int, Array, int]] | None:
        """Places of sums over pairs and of the means of the highest of their multiples; None of other risks.

        The multiples are numbers of queries.
        """
        program, found = self.smoothing.program, []
        sums: dict[int, tuple[int, Array]] = {}
        for k, (node, args) in enumerate(zip(program.nodes, program.args, strict=True)):
            one_factor = all(np.ndim(program.own_factors.get(a, args)) == 0 for a in args)
            if isinstance(node, PairSums) and one_factor and node.grades is None:
                sums[k] = k, np.ones(program.count)
            elif isinstance(node, Highest) and args[0] in sums:
                found.append((*sums[args[0]], k))
            elif isinstance(node, Affine) and len(args) == 1 and args[0] in sums:
                factors = of_queries(node.terms[0][0], node.axis)
                if factors is not None:
                    pairs, before = sums[args[0]]
                    sums[k] = pairs, before * factors
            elif is_curved(node):
                return None
        # a mean of all of them is none of the highest
        apart = sums.keys().isdisjoint(program.constant_adjoints)
        apart = apart and program.pair_count >= _MANY * program.count
        return found if apart and not program.differences else None

    @cached_property
    def depends_on_differences(self) -> bool:
        """Whether the Hessian does not see a shift of all scores."""
        return shift(self.smoothing.program) is not None

    def pulled(self, u: Array) -> Array:
        """Return Xᵀu."""
        return np.asarray(transposed_times(self.X, u), dtype=np.float64)

    def reach(self, l2: float) -> float:
        """Return how far the risk of a query, beside l2, may fall from w = 0 along scores; 1 where not very far."""
        width = self.smoothing.first_width
        slope = self.pulled(self.smoothing.risk(np.zeros(self.smoothing.program.rows), width).gradient)
        reach = float(slope @ slope) / l2 / self.smoothing.program.count
        return reach if FAR < reach < math.inf else 1.0

    def at(self, scores: Array, width: float) -> Smoothed:
        """Return the smooth function at the scores Xw."""
        here = self.smoothing.risk(scores, width)
        curved = (_Listed if self.lists_pairs else _Whole)(self, here)
        return Smoothed(
            risk=here.risk,
            value=here.value,
            offset=here.offset,
            slope=self.pulled(here.gradient),
            drift=lambda: self.pulled(here.drift()),
            product=curved.product,
            diagonal=curved.diagonal,
            matrix=curved.matrix,
            along=lambda direction: here.along(np.asarray(times(self.X, direction), dtype=np.float64)),
        )


@dataclass(frozen=True, eq=False)
class _Whole:
    """Second derivatives by products of the whole expression: where a curved atom is taken of sums over pairs."""

    risks: SmoothedRisks
    here: SmoothRisk

    def _turned(self, v: Array) -> Array:
        here = self.here
        return self.risks.pulled(gradient_moved(here.program, here.state, v, {}))

    def product(self) -> Callable[[Array], Array]:
        """Return the product with the Hessian."""
        return lambda v: self._turned(np.asarray(times(self.risks.X, v), dtype=np.float64))

    def diagonal(self) -> Array:
        """Return roughly the diagonal of the Hessian: without products of different rows."""
        found = columns_of(self.here.program, self.here.state, pairs=True)
        return squares_times(entries(self.risks.X), found.diagonal)

    def matrix(self) -> Array:
        """Return the Hessian; about, by some of very many rows."""
        if (tops := self.risks.tops) is not None:
            parts = (self._of_columns(*places) + self._of_shares(places[0]) for places in tops)
            return sum(parts, np.zeros(2 * self.risks.X.shape[1:]))
        if has_few_pairs(self.here.program):
            return hessian_of_few_pairs(self.here.program, self.here.state, dense(self.risks.X))
        if self.risks.telling is not None:
            scores, risks = self.risks.telling
            return risks.at(scores(self.here.scores), self.here.width).matrix()
        X = dense(self.risks.X)
        found = np.stack([self._turned(np.ascontiguousarray(column)) for column in X.T])
        return 0.5 * (found + found.T)

    def _of_columns(self, pairs: int, factors: Array, top: int) -> Array:
        """The Hessian of a mean of the highest sums, times factors; of many rows of a query some stand for all."""
        program, (values, memories, adjoints) = self.here.program, self.here.state
        node: Any = program.nodes[pairs]
        highest: Any = program.nodes[top]
        scores = [values[place] for place in program.args[pairs]]
        u, of_top, kernel = adjoints[pairs], partial_shares(highest, memories[top]), memories[pairs][0]
        a, b = (program.own_factors[place] for place in reversed(program.args[pairs]))
        X, few = entries(self.risks.X), kernel.bent(_FEW) if isinstance(kernel, WindowedPairs) else None
        found = np.zeros((X.shape[1], X.shape[1]))
        if few is not None:
            high, other, bent = few
            apart = a * X[node.axis.rows[other]] - b * X[node.upper_axis.rows[high]]
            found += dense(weighted_gram(apart, u[other] * node.weights[high] * bent))
        most = self._enough_rows
        for query, ups, lows in _ranges(node):
            (up, weights), (moving, shares) = _some(node.weights[ups], most), _some(of_top[lows], 2 * most)
            low, of_low = (moving[:0], u[:0]) if few is not None else _some(u[lows], most)
            both, places = np.unique(np.append(low, moving), return_inverse=True)
            low, moving = places[: len(low)], places[len(low) :]
            among = kernel_among(kernel, node, scores, ups.start + up, lows.start + both)
            sides = (node.upper_axis, ups.start + up), (node.axis, lows.start + both)
            upper, rows = (dense(rows_of(X, axis.rows[places])) for axis, places in sides)
            centre = upper.mean(axis=0) if a == b else 0.0  # an offset of the features cancels
            upper, rows = upper - centre, rows - centre
            slopes, bends = among.of_columns(weights[:, None] * np.insert(upper, 0, 1.0, axis=1))
            if few is None:
                lower, bends = rows[low], bends[low]
                of_both = np.bincount(low, of_low, len(both))
                back = weights * among.sums(of_both, (2,), to_lower=False)[0]
                across = a * b * lower.T @ (of_low[:, None] * bends[:, 1:])
                found += weighted_gram(a * lower, of_low * bends[:, 0]) + weighted_gram(b * upper, back)
                found -= across + across.T
            if len(moving):
                moved = factors[query] * (a * slopes[moving, :1] * rows[moving] - b * slopes[moving, 1:])
                rate = float(adjoints[top][query]) / highest.width
                found += rate * centred_gram(moved, shares @ moved / shares.sum(), shares)
        return found

    @property
    def _enough_rows(self) -> int:
        return max(_SOME, self.here.program.rows // _ONE_OUT_OF)

    def _of_shares(self, pairs: int) -> Array:
        """The part of shares of upper rows that move: of some of these, beside some lower rows."""
        program, (values, _, adjoints) = self.here.program, self.here.state
        node: Any = program.nodes[pairs]
        (up, low), X = program.args[pairs], entries(self.risks.X)
        found = np.zeros((X.shape[1], X.shape[1]))
        if not isinstance(node, SharedMeans):
            return found
        of_shares, u = partial_shares(node.lowest, node.shares), adjoints[pairs]
        for _, ups, lows in _ranges(node):
            lower, weights = _some(u[lows], _SOME)
            moving, shares = _some(of_shares[ups], max(_ENTRIES // max(len(lower), 1), 1))
            if not (len(lower) and len(moving)):
                continue
            lower, moving = lows.start + lower, ups.start + moving
            slopes = node.function.slopes(values[low][lower, None] - values[up][moving])[1] * weights[:, None]
            below, above = X[node.axis.rows[lower]], X[node.upper_axis.rows[moving]]
            moved = program.own_factors[low] * dense((below.T @ slopes).T)
            moved -= program.own_factors[up] * slopes.sum(axis=0)[:, None] * dense(above)
            rate = 1.0 / (weights.sum() * node.lowest.width)
            found += rate * centred_gram(moved, shares @ moved / shares.sum(), shares)
        return found


def _ranges(node: PairSums) -> Iterator[tuple[int, slice, slice]]:
    """Yield each query, and the places of its upper and of its lower rows."""
    up, low = (axis.starts.tolist() for axis in (node.upper_axis, node.axis))
    for query in range(len(up) - 1):
        yield query, slice(up[query], up[query + 1]), slice(low[query], low[query + 1])


@dataclass(frozen=True, eq=False)
class _Listed:
    """Second derivatives by a diagonal, columns, and a list of pairs. X is read where these are not 0."""

    risks: SmoothedRisks
    here: SmoothRisk

    @cached_property
    def _columns(self) -> Columns:
        return columns_of(self.here.program, self.here.state)

    @cached_property
    def _form(self) -> tuple[Array, Array, Any, Array]:
        """Rows with curvature, their diagonal, columns on them, and rates."""
        found = self._columns
        if found.count == 1:
            listed, parts = found.listed()
            seen = found.diagonal != 0.0
            for column in listed:
                seen |= column != 0.0
            rows, counts = self._told(np.flatnonzero(seen))
            columns = np.array([counts * column[rows] for column in listed]).reshape(len(listed), len(rows)).T
            return rows, counts * found.diagonal[rows], columns, np.concatenate([np.zeros(0), *parts])
        columns, rates = found.collected()
        seen = found.diagonal != 0.0
        seen[columns.indices[columns.data != 0.0]] = True
        rows = np.flatnonzero(seen)
        return rows, found.diagonal[rows], columns.T.tocsr()[rows], rates

    def _told(self, rows: Array) -> tuple[Array, Array]:
        """Return some of very many rows, heavy ones among them, that tell the Hessian, and for how many each stands.

        Of smooth functions some rows tell it: their curvature adds up to that of all. Rows near kinks tell of none.
        """
        d, counts = self._columns.diagonal, np.ones(len(self._columns.diagonal))
        for node in self.risks.smoothing.program.nodes:
            if isinstance(node, Elementwise) and node.function.smooth and node.axis is not None:
                weights = d[node.axis.places]
                light = np.flatnonzero((weights > 0.0) & (weights <= _HEAVY * weights.mean()))
                if len(light) > 2 * _TOLD:
                    some = light[:: len(light) // _TOLD]
                    factor = weights[light].sum() / weights[some].sum()
                    counts[node.axis.rows[light]] = 0.0
                    counts[node.axis.rows[some]] = factor
        rows = rows[counts[rows] > 0.0]
        return rows, counts[rows]

    @cached_property
    def _bent(self) -> Any:
        """The rows of X with curvature."""
        return entries(self.risks.X)[self._form[0]]

    @cached_property
    def _pairs(self) -> tuple[Array, Array, Array, Array, Array]:
        """Numbers of the lower and upper rows of pairs with curvature, how fast scores move, and curvatures."""
        program, found = self.here.program, []
        values, memories, adjoints = self.here.state
        for k, node in enumerate(program.nodes):
            if not isinstance(node, PairSums):
                continue
            (up_place, low_place), kernel = program.args[k], memories[k][0]
            upper, lower, every = self._list(node, kernel)
            bend: Any = node.function.bend
            bends = bend(values[low_place][lower] - values[up_place][upper])
            if isinstance(kernel, WindowedPairs):  # all are between, whatever rounding says
                bends = np.full(len(lower), kernel.factor / kernel.width)
            weights = adjoints[k][lower] * node.weights[upper] * bends * every
            own = [
                np.broadcast_to(program.own_factors[a], len(axis.rows))[places]
                for a, axis, places in (
                    (low_place, node.axis, lower),
                    (up_place, node.upper_axis, upper),
                )
            ]
            kept = weights > 0.0
            parts = node.axis.rows[lower], node.upper_axis.rows[upper], *own, weights
            found.append([part[kept] for part in parts])
        if not found:
            found = [[np.zeros(0, dtype=np.intp)] * 2 + [np.zeros(0)] * 3]
        lower, upper, of_lower, of_upper, weights = map(np.concatenate, zip(*found, strict=True))
        return lower, upper, of_lower, of_upper, weights

    def _list(self, node: PairSums, kernel: Any) -> tuple[Array, Array, int]:
        rows, unknowns = len(node.axis.rows), self.risks.X.shape[1]
        most = min(_PAIRS_PER_ROW * rows, _PAIRS_PER_UNKNOWN * min(rows, unknowns))
        most = max(most, min(_FEW, _PRODUCTS // unknowns**2))
        return kernel.listed(most) if isinstance(kernel, WindowedPairs) else some_pairs(node, most)

    @cached_property
    def _touched(self) -> tuple[Any, Array, Array]:
        """The rows of those pairs, each once, and the places of the pairs among them; all rows where most have some."""
        lower, upper, *_ = self._pairs
        places, ends = np.unique(np.concatenate([lower, upper]), return_inverse=True)
        if 2 * len(places) > self.here.program.rows:  # a copy would be nearly as large
            return entries(self.risks.X), lower, upper
        return entries(self.risks.X)[places], ends[: len(lower)], ends[len(lower) :]

    def product(self) -> Callable[[Array], Array]:
        """Return the product with the Hessian."""
        _, bends, columns, rates = self._form
        rows, (touched, lower, upper) = self._bent, self._touched
        _, _, of_lower, of_upper, weights = self._pairs

        def product(v: Array) -> Array:
            image = np.asarray(times(rows, v), dtype=np.float64)
            back = bends * image - columns @ (rates * (columns.T @ image))
            found = np.asarray(transposed_times(rows, back), dtype=np.float64)
            if not len(weights):
                return found
            image = np.asarray(times(touched, v), dtype=np.float64)
            turned = weights * (of_lower * image[lower] - of_upper * image[upper])
            back = np.bincount(lower, of_lower * turned, len(image))
            back -= np.bincount(upper, of_upper * turned, len(image))
            return found + np.asarray(transposed_times(touched, back), dtype=np.float64)

        return product

    def diagonal(self) -> Array:
        """Return about what the diagonal of the Hessian is: without products of the two rows of a pair."""
        _, bends, columns, rates = self._form
        found = squares_times(self._bent, bends)
        if len(rates):
            images = columns.T @ self._bent
            found = np.maximum(found - squares_times(images, rates), 0.0)
        touched, lower, upper = self._touched
        _, _, of_lower, of_upper, weights = self._pairs
        of_rows = np.bincount(lower, weights * of_lower**2, touched.shape[0])
        return found + squares_times(
            touched, of_rows + np.bincount(upper, weights * of_upper**2, touched.shape[0])
        )

    def matrix(self) -> Array:
        """Return the Hessian; about a common centre where a shift of all scores does not matter."""
        if self.risks.tells_all_pairs:
            return pair_hessian(self.here.program, self.here.scores, dense(self.risks.X))[2]
        rows, bends, columns, rates = self._form
        X, whole = entries(self.risks.X), float(bends.sum())
        centre = np.zeros(X.shape[1])
        if whole > 0.0 and self.risks.depends_on_differences:
            centre = np.asarray(transposed_times(self._bent, bends / whole), dtype=np.float64)
        if is_sparse(X):
            found = gram_of_rows(X, rows, bends, centre)
        else:
            found = centred_gram(self._bent, centre, bends)
        if len(rates):
            images = dense(columns.T @ self._bent) - np.outer(np.asarray(columns.sum(axis=0)).ravel(), centre)
            found -= images.T @ (rates[:, None] * images)
        X, (lower, upper, of_lower, of_upper, weights) = entries(self.risks.X), self._pairs
        if len(weights):
            found += dense(weighted_gram(_scaled(of_lower, X[lower]) - _scaled(of_upper, X[upper]), weights))
        return found


def _some(weights: Array, most: int) -> tuple[Array, Array]:
    """Return about so many places of rows with a weight, and weights of these that add up to the same.

    All of them where there are no more than twice as many. Of each stretch one is drawn, so that no order of the rows
    has a part in it.
    """
    count = np.count_nonzero(weights)
    if count <= 2 * most:
        places = np.flatnonzero(weights)
        return places, weights[places]
    whole = float(np.add.reduce(weights))
    limit = _HEAVY * whole / count
    heavy = np.flatnonzero(weights > limit)  # as merged rows are, each of which counts
    starts = np.arange(0, len(weights), count // most)[:-1]
    kept = starts + np.random.default_rng(0).integers(0, count // most, len(starts))
    kept = kept[(weights[kept] > 0.0) & (weights[kept] <= limit)]
    factor = (whole - np.add.reduce(weights[heavy])) / (np.add.reduce(weights[kept]) or 1.0)
    return np.append(kept, heavy), np.append(factor * weights[kept], weights[heavy])


def _scaled(factors: Array, rows: Any) -> Any:
    if (factors == 1.0).all():
        return rows
    return scaled(rows, factors)
