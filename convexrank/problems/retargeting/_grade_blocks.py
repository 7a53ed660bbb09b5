"""Targets in order, in blocks of rows of one grade, and damped steps of Newton for few variables.

The order of a query's rows is given between grades only; within a grade it is hidden, and the best targets have the
order of the scores there. So every nearest vector of targets is a sort within the blocks of equal grade, and one
isotonic regression of each query: all queries in one call on flat arrays, O(n log n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import weighted_gram
from convexrank.backend.interruption import check_time
from convexrank.data import QueryGroups
from convexrank.problems.queries._base import query_sums
from convexrank.problems.retargeting._link import TargetLink
from convexrank.projections.chains import Layout, pool_chains

Array = np.ndarray

# It converges in a handful of steps; where there is no minimiser this many are enough to see it.
_STEPS = 60
_HALVINGS = 40
# Below this share of the value a decrease cannot be told from rounding.
_ROUNDING = 1e-12
# Unknowns up to which a rough fit is exact all the same; steps of one with more.
_FEW, _MOST = 300, 100
# Eigenvalues below this share of the largest one are rounding.
_NULL = 1e-13


def damped_newton(evaluate: Callable[[Array], tuple[float, Array, Array]], x: Array) -> Array:
    """Minimise a smooth convex function by Newton's method with backtracking, O(d³) per step besides the evaluation.

    Parameters
    ----------
    evaluate : callable
        Returns value, gradient and Hessian; a value that is infinite or NaN refuses a step.
    x : ndarray, shape (d,)
        Where to begin.

    Returns
    -------
    ndarray, shape (d,)
        The minimiser, moved in no direction without effect; where there is none, a point as far as the steps reach.
    """
    value, gradient, hessian = evaluate(x)
    for _ in range(_STEPS):
        step = -pseudo_inverse(hessian) @ gradient
        predicted, length = float(gradient @ step), 1.0
        if not -predicted > _ROUNDING * max(1.0, abs(value)):
            # one full step more doubles the digits, and the value no longer tells steps apart
            return x + step
        for _ in range(_HALVINGS):
            check_time()
            found = evaluate(x + length * step)
            if found[0] <= value + 1e-4 * length * predicted:
                break
            length *= 0.5
        else:
            break
        x, (value, gradient, hessian) = x + length * step, found
    return x


def pseudo_inverse(matrix: Array) -> Array:
    """Return the pseudo-inverse of a positive semidefinite matrix: directions without effect stay put."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _NULL * max(float(values[-1]), np.finfo(float).tiny)
    roots = vectors[:, kept] / np.sqrt(values[kept])
    return roots @ roots.T


# Sizes of steps between grades, as a caller states them; see `step_sizes`.
Sizes = float | tuple[float, ...] | Callable[[Array], Any] | None


@dataclass(frozen=True, eq=False)
class GradeBlocks:
    """The blocks of equal grade of each query, from the lowest grade up.

    Parameters
    ----------
    groups : QueryGroups
        Queries whose rows are adjacent, in the order of the values handed in.
    grades : ndarray, shape (n,)
        Grades, laid out query by query.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.data import QueryGroups
    >>> blocks = GradeBlocks(QueryGroups.from_sizes([3, 2]), np.array([2.0, 0.0, 2.0, 1.0, 0.0]))
    >>> blocks.grades_of_blocks.tolist(), blocks.sizes.tolist(), blocks.above.tolist()
    ([0.0, 2.0, 0.0, 1.0], [1, 2, 1, 1], [False, True, False, True])
    """

    groups: QueryGroups
    grades: Array

    @cached_property
    def order(self) -> Array:
        """The row at each place, rows sorted by query and grade."""
        return np.lexsort((self.grades, self.groups.query))

    @cached_property
    def offsets(self) -> Array:
        """Start of each block in that order; the last entry is n."""
        sorted_grades, query = self.grades[self.order], self.groups.query
        fresh = (sorted_grades[1:] != sorted_grades[:-1]) | (query[1:] != query[:-1])
        return np.concatenate(([0], np.flatnonzero(fresh) + 1, [len(sorted_grades)]))

    @cached_property
    def sizes(self) -> Array:
        """Rows of each block."""
        return np.diff(self.offsets)

    @cached_property
    def queries(self) -> Array:
        """The query of each block."""
        return self.groups.query[self.offsets[:-1]]

    @cached_property
    def grades_of_blocks(self) -> Array:
        """The grade of each block."""
        return self.grades[self.order][self.offsets[:-1]]

    @cached_property
    def above(self) -> Array:
        """Whether there is a block of the same query below: whether a step leads up to the block."""
        return np.concatenate(([False], self.queries[1:] == self.queries[:-1]))

    @cached_property
    def offsets_by_query(self) -> Array:
        """Start of the blocks of each query; the last entry is the number of blocks."""
        return np.searchsorted(self.queries, np.arange(len(self.groups) + 1))

    @cached_property
    def ranks(self) -> Array:
        """For each block how many rows of the query are in it or above it: the place of its lowest row from the top."""
        ends = self.groups.offsets[1:][self.queries]
        return ends - self.offsets[:-1]

    def lifted(self, steps: Array) -> Array:
        """Add steps up within each query: the height of each block over the lowest of its query.

        Parameters
        ----------
        steps : ndarray, shape (blocks,)
            The step that leads up to each block; what stands at the lowest block of a query is ignored.
        """
        heights = np.where(self.above, steps, 0.0).cumsum()
        return heights - heights[self.offsets_by_query[:-1]][self.queries]

    def of_blocks(self, values: Array) -> Array:
        """Return values of blocks for each row, rows sorted by query and grade."""
        return np.repeat(values, self.sizes)

    def chain(self, scores: Array) -> Chain:
        """Order the rows by query, grade, and score within a grade: the order in which the best targets rise.

        Parameters
        ----------
        scores : ndarray, shape (n,)
            Scores, laid out query by query.
        """
        within = Layout(self.offsets).sorted_by(scores[self.order]).rows
        return Chain(self, self.order if within is None else self.order[within])

    def pooled_means(self, scores: Array) -> Array:
        """Return isotonic regressions of the blocks' mean scores, weighted by size, as one value for each row."""
        means = np.add.reduceat(scores[self.order], self.offsets[:-1]) / self.sizes
        fitted, _ = pool_chains(means, self.sizes.astype(np.float64), self.offsets_by_query)
        values = np.empty(len(scores))
        values[self.order] = self.of_blocks(fitted)
        return values


@dataclass(frozen=True, eq=False)
class Chain:
    """The rows of each query in the order in which their targets rise.

    Parameters
    ----------
    blocks : GradeBlocks
        The blocks of equal grade.
    order : ndarray of int, shape (n,)
        The row at each place of the chain.
    """

    blocks: GradeBlocks
    order: Array

    def gather(self, values: Array) -> Array:
        """Return values, one per row, along the chain."""
        return values[self.order]

    def scatter(self, values: Array) -> Array:
        """Return values along the chain row by row: the inverse of `gather`."""
        rows = np.empty_like(values)
        rows[self.order] = values
        return rows

    def pulled(self, rewards: Array) -> Array:
        """Return the terms that rewards for each unit of a gap add to the scores, along the chain.

        Up for the lowest row above the gap, down for the highest below it; rewards of blocks, as in
        :meth:`GradeBlocks.lifted`.
        """
        blocks = self.blocks
        steps = np.flatnonzero(blocks.above)
        pull = np.zeros(len(self.order))
        pull[blocks.offsets[steps]] += rewards[steps]
        # a block of one row may be pulled from both sides, but no row twice from one
        pull[blocks.offsets[steps] - 1] -= rewards[steps]
        return pull

    def gaps(self, targets: Array) -> Array:
        """Return the gap below each block: its least target less the largest of the block below, 0 at the lowest."""
        blocks, along = self.blocks, self.gather(targets)
        gaps = np.zeros(len(blocks.sizes))
        steps = np.flatnonzero(blocks.above)
        gaps[steps] = along[blocks.offsets[steps]] - along[blocks.offsets[steps] - 1]
        return gaps

    def pooled(self, values: Array, weights: Array | None = None) -> tuple[Array, Array]:
        """Isotonic regression along the chain of each query: the fit, and the number of each place's pool."""
        return pool_chains(values, np.ones(1) if weights is None else weights, self.blocks.groups.offsets)


def step_sizes(given: Sizes, blocks: GradeBlocks, levels: Array, name: str) -> Array:
    """Return the size of the step that leads up to each block; 0 at the lowest of a query.

    Parameters
    ----------
    given : None, float, tuple of float, or callable
        Nothing, one size for all steps, one for the step up to each grade but the lowest, or a function of the rank:
        of how many rows of the query are above the step.
    blocks : GradeBlocks
        The blocks.
    levels : ndarray, shape (k,)
        All grades, ascending.
    name : str
        Name of the argument in messages.

    Raises
    ------
    ValueError, TypeError
        For sizes that are negative, not finite, or of another number.
    """
    sizes = np.zeros(len(blocks.sizes))
    if given is None:
        return sizes
    above = blocks.above
    if callable(given):
        sizes[above] = _of_ranks(given, blocks.ranks[above], name)
    elif isinstance(given, tuple):
        if len(given) != len(levels) - 1:
            raise ValueError(
                f"{name} has {len(given)} entries, expected {len(levels) - 1}: one for the step up to each grade but "
                f"the lowest, y has {len(levels)} grades; pass a number to use it for all."
            )
        per_level = np.concatenate(([0.0], given))
        sizes[above] = per_level[np.searchsorted(levels, blocks.grades_of_blocks[above])]
    else:
        sizes[above] = given
    return sizes


def _of_ranks(function: Callable[[Array], Any], ranks: Array, name: str) -> Array:
    try:
        found = np.asarray(function(ranks.copy()), dtype=np.float64)
        found = np.broadcast_to(found, ranks.shape)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}(ranks) did not give one number for each rank ({error}); write it with numpy functions of an array."
        ) from error
    if not (np.isfinite(found).all() and (found >= 0).all()):
        place = int(np.argmax(~(np.isfinite(found) & (found >= 0))))
        raise ValueError(f"{name}({ranks[place]}) is {found[place]}, expected a finite number of at least 0.")
    return found


@dataclass(frozen=True, eq=False)
class TargetRegression:
    r"""Regression on given targets.

    .. math:: \min_{w,\beta}\sum_i c_i D_\phi\bigl(r_i\|(\nabla\phi)^{-1}(X_iw+\beta_i)\bigr) + \frac{l_2}2\|w\|^2

    Parameters
    ----------
    rows : ndarray or sparse array, shape (n, d)
        Features, laid out query by query.
    groups : QueryGroups
        The queries of these rows.
    link : TargetLink
        The divergence, and whether there are offsets.
    weights : ndarray, shape (n,)
        The weight :math:`c_i` of its query, for each row.
    l2 : float
        Strength.
    """

    rows: Any
    groups: QueryGroups
    link: TargetLink
    weights: Array
    l2: float

    def fit(self, targets: Array, start: Array) -> Array:
        """Minimise by Newton's method, O(n d²) per step; for squares that is one step, and the matrix is made once.

        Parameters
        ----------
        targets : ndarray, shape (n,)
            The targets.
        start : ndarray, shape (d,)
            Where to start.

        Returns
        -------
        ndarray, shape (d,)
            The minimiser; where there is none (no l2), a point as far as the steps reach.
        """
        if self.link.quadratic:
            # from where we are, so that rounding is refined away from one call to the next
            return start - self._inverse_of_squares @ self._gradient(targets, start, self._natural(start))

        def evaluate(w: Array) -> tuple[float, Array, Array]:
            value, gradient, natural = self._evaluated(targets, w)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                return value, gradient, self._hessian(natural)

        return damped_newton(evaluate, start)

    def near(self, targets: Array) -> Array:
        """Return about the minimiser: with many unknowns by L-BFGS, which makes no matrix of them."""
        from scipy.optimize import minimize  # few solves need it

        zero = np.zeros(self.rows.shape[1])
        if len(zero) <= _FEW or self.link.quadratic:
            return self.fit(targets, zero)

        def evaluate(w: Array) -> tuple[float, Array]:
            check_time()
            return self._evaluated(targets, w)[:2]

        return minimize(evaluate, zero, jac=True, method="L-BFGS-B", options={"maxiter": _MOST}).x

    def _evaluated(self, targets: Array, w: Array) -> tuple[float, Array, Array]:
        """Return value and gradient, and the natural parameters."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            natural = self._natural(w)
            value = float(self.weights @ self.link.mismatch(targets, natural))
            gradient = self._gradient(targets, w, natural)
        return value + 0.5 * self.l2 * float(w @ w), gradient, natural

    def _natural(self, w: Array) -> Array:
        return self.link.natural(np.asarray(self.rows @ w, dtype=np.float64), self.groups)

    def _gradient(self, targets: Array, w: Array, natural: Array) -> Array:
        if self.link.quadratic and not self.link.simplex:
            # the offset is free, and centres the residuals
            residuals = natural - targets
            means = self.groups.sums(residuals) / self.groups.sizes
            slopes = residuals - means[self.groups.query] if self.link.offsets else residuals
        else:
            slopes = self.link.predictions(natural) - targets
        return np.asarray(self.rows.T @ (self.weights * slopes), dtype=np.float64) + self.l2 * w

    def _hessian(self, natural: Array) -> Array:
        rows, groups = self.rows, self.groups
        flat = np.ones(groups.rows) if self.link.quadratic else self.link.slopes(natural)
        curvature = weighted_gram(rows, self.weights * flat)
        if self.link.offsets:
            totals = np.maximum(groups.sums(flat), np.finfo(float).tiny)
            shares = self.weights[groups.offsets[:-1]] / totals
            curvature -= weighted_gram(query_sums(groups, flat, rows), shares)
        return curvature + self.l2 * np.eye(rows.shape[1])

    @cached_property
    def _inverse_of_squares(self) -> Array:
        return pseudo_inverse(self._hessian(np.zeros(self.groups.rows)))
