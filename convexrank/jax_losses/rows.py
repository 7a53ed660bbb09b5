"""Rows of queries as arrays that JAX can trace, and monotone retargeting on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from convexrank.backend.jax_oracles import running_sums, uses_jax
from convexrank.data import QueryGroups, check_choice, check_flag, check_integer, check_real_array, shown
from convexrank.divergences.separable import name_of
from convexrank.problems.retargeting.retargeting import ORDERS
from convexrank.projections import isotonic


def numbered(qid: Any) -> tuple[np.ndarray, int]:
    """Number the queries of rows.

    Parameters
    ----------
    qid : array of int or str, shape (n,), or QueryGroups
        The query of each row, in any order.

    Returns
    -------
    ndarray of int, shape (n,), and int
        The number of each row's query, in the order in which queries first appear, and the number of queries.

    Raises
    ------
    ValueError, TypeError
        When qid is missing, empty, of mixed kinds, or has NaN.

    Examples
    --------
    >>> query, queries = numbered(["b", "a", "b"])
    >>> query.tolist(), queries
    ([0, 1, 0], 2)
    """
    groups = qid if isinstance(qid, QueryGroups) else QueryGroups.from_qid(qid)
    return groups.spread(groups.query), len(groups)


def _as_jax(values: Any, name: str) -> Any:
    """Return numbers as a JAX array; NaN and infinity pass, as they would while JAX traces."""
    if uses_jax(values):
        return jnp.asarray(values)
    array = np.asarray(check_real_array(values, name))
    native = array.dtype.newbyteorder("=") if array.dtype != np.longdouble else np.dtype(np.float64)
    with np.errstate(over="ignore"):  # float32 is JAX's default, and what does not fit is infinite
        return jnp.asarray(array.astype(native, copy=False))


def _of_rows(values: Any, name: str, scores: Any) -> Any:
    """Return values of rows as a JAX array; they and the scores must be vectors of one length."""
    array = _as_jax(values, name)
    if scores.ndim != 1 or array.shape != scores.shape:
        raise ValueError(
            f"scores have shape {scores.shape} and {name} {array.shape}, expected (n,) of both; "
            "take a column of scores with scores[:, 0]."
        )
    return array


def sizes_by_rank(steps: Callable[[Any], Any], rows: int, name: str) -> Any:
    """Return the size of a step with k rows above it, for k = 1, …, rows; numpy unless the function traces.

    Raises
    ------
    TypeError
        When the function does not take an array of ranks.
    """
    # ranks are known, so that functions of numpy and of JAX will do, inside jit as well; those that no step has may
    # give anything
    with jax.ensure_compile_time_eval(), np.errstate(all="ignore"):
        try:
            found = steps(np.arange(1, rows + 1))
        except TypeError as error:
            raise TypeError(
                f"{name} is {shown(steps)}, expected a number, or a function of an array of ranks ({error})."
            ) from error
    if isinstance(found, Tracer):
        return jnp.broadcast_to(found, (rows,))
    return np.broadcast_to(np.asarray(found, dtype=np.float64), (rows,))


class QueryRows:
    """Rows of queries while JAX traces: reductions by query, and which rows count.

    Parameters
    ----------
    scores, grades : array, shape (n,)
        Scores of a model, and grades.
    query : array of int, shape (n,)
        Number of each row's query; other numbers than 0, 1, …, `queries` − 1 are padding.
    queries : int, optional
        Number of queries; without it `query` has ids of any kind, or is QueryGroups, and is not traced.

    Raises
    ------
    ValueError, TypeError
        When `queries` is not an integer of at least 1, shapes differ, or `query` holds no integers.
    """

    def __init__(self, scores: Any, grades: Any, query: Any, queries: int | None) -> None:
        if queries is None:
            if isinstance(query, Tracer):
                raise TypeError(
                    "queries is not given, but JAX traces query, so that they cannot be counted; pass the numbers of "
                    "jax_losses.numbered(ids), and how many there are as a Python integer."
                )
            query, queries = numbered(query)
        self.queries = check_integer(queries, "queries", 1)
        if self.queries >= 2**31:
            raise ValueError(f"queries is {self.queries}, expected fewer than 2**31 queries in a batch.")
        scores = _as_jax(scores, "scores")
        scores = scores.astype(jnp.result_type(scores, float))  # whole numbers have no gradients
        numbers = _of_rows(query, "query", scores)
        if not jnp.issubdtype(numbers.dtype, jnp.integer):
            raise TypeError(
                f"query holds {numbers.dtype} values, expected integers; jax_losses.numbered makes them."
            )
        query = jnp.where(numbers < 0, self.queries, jnp.minimum(numbers, self.queries))
        grades = jax.lax.stop_gradient(_of_rows(grades, "grades", scores).astype(scores.dtype))
        # constants of a program would be sorted where it is compiled, by an interpreter
        self.query, self.grades = jax.lax.optimization_barrier((query, grades))
        self.ones = jnp.ones_like(scores)
        self.sizes = jnp.maximum(self.sums(self.ones), 1.0)
        self.asks = self.maxima(self.grades) > -self.maxima(-self.grades)
        self.counts = self.of(self.asks, False)
        # rows that do not count are cut off before anything can become infinite
        self.scores = jnp.where(self.counts, scores, 0.0)

    def sums(self, values: Any) -> Any:
        """Sum of each query."""
        # padded rows are out of range, and dropped
        return jax.ops.segment_sum(values, self.query, self.queries)

    def maxima(self, values: Any) -> Any:
        """Largest value of each query; minus infinity where it has no rows."""
        return jax.ops.segment_max(values, self.query, self.queries)

    def of(self, values: Any, fill: Any = 0.0) -> Any:
        """Return values of queries for each row."""
        return jnp.append(values, fill)[self.query]

    def log_softmax(self, values: Any) -> tuple[Any, Any]:
        """Logarithm of the softmax within queries for each row, and the log-sum-exp of each query."""
        tops = jax.lax.stop_gradient(self.maxima(values))
        tops = jnp.where(jnp.isfinite(tops), tops, 0.0)
        sums = self.sums(jnp.exp(values - self.of(tops)))
        logs = tops + jnp.log(jnp.where(sums > 0, sums, 1.0))
        return values - self.of(logs), logs

    def gains(self, gain: str) -> Any:
        """The gains of the grades: 2^y − 1 over the 2^y of the best row of the query, which cannot overflow."""
        if gain == "linear":
            return self.grades
        tops = self.of(self.maxima(self.grades))
        return -jnp.expm1(-self.grades * jnp.log(2.0)) * jnp.exp2(self.grades - tops)

    def best_dcg(self, worth: Any) -> Any:
        """The DCG of each query in its best order."""
        order = jnp.lexsort((-worth, self.query))
        sizes = self.sums(self.ones)
        starts = jnp.append(jnp.cumsum(sizes) - sizes, 0.0)[self.query[order]]
        rank = jnp.cumsum(self.ones) - starts
        discounted = (
            jnp.zeros_like(worth).at[order].set(worth[order] / jnp.log2(1.0 + jnp.maximum(rank, 1.0)))
        )
        return self.sums(discounted)

    def divergences(self, targets: Any) -> tuple[Any, Any]:
        """For each query, divergence of the softmax from the targets scaled to sum to 1, and the targets' sum."""
        totals = self.sums(jnp.where(self.counts, targets, 0.0))
        shares = targets / self.of(jnp.where(self.asks, totals, 1.0), 1.0)
        named = self.counts & (shares > 0)
        logs = jnp.log(jnp.where(named, shares, 1.0)) - self.log_softmax(self.scores)[0]
        return self.sums(jnp.where(named, shares * logs, 0.0)), totals

    def total(self, values: Any, normalize: bool) -> Any:
        """Sum over the queries that count, each optionally divided by its number of rows."""
        return jnp.where(
            self.asks, values / (self.sizes if check_flag(normalize, "normalize") else 1.0), 0.0
        ).sum()

    def chain(self) -> Any:
        """The rows by query, grade, and score within a grade: the order in which the best targets rise."""
        return jax.lax.stop_gradient(jnp.lexsort((self.scores, self.grades, self.query)))

    def pooled(self, tied: bool, values: Any = None) -> Any:
        """Isotonic regression of scores along the order of the grades, one value per grade if tied.

        `values` in place of the scores must have their order within each grade.
        """
        values = self.scores if values is None else values
        if not isinstance(values, Tracer) and not jnp.isfinite(values).all():
            return jnp.full_like(values, jnp.nan)
        if tied:
            return isotonic(values, order=self.grades, groups=self.query)
        chain = self.chain()
        fitted = isotonic(values[chain], groups=self.query[chain])
        return jnp.zeros_like(values).at[chain].set(fitted, unique_indices=True)

    def on_simplex(self, values: Any) -> Any:
        """Project the values of each query on the simplex."""
        below = values - self.of(jnp.where(self.asks, self.maxima(values), 0.0))

        def level(active: Any) -> Any:
            counts = jnp.maximum(self.sums(jnp.where(active, 1.0, 0.0).astype(below.dtype)), 1.0)
            return below + self.of((1.0 - self.sums(jnp.where(active, below, 0.0))) / counts)

        def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
            active = state[0] & (level(state[0]) > 0)
            return active, (active != state[0]).any()

        # Newton's method on a convex sum: entries are given up until those that are left stay above 0
        start = (self.counts, jnp.asarray(True))
        active = jax.lax.while_loop(lambda state: state[1], step, jax.lax.stop_gradient(start))[0]
        return jnp.where(active, level(active), 0.0)

    def rises(self, steps: Any, name: str) -> tuple[Any, Any]:
        """Along any order by query and grade, the step up to each row from the one before, and where queries begin.

        A step is a number, or a function of the rank; it is 0 within a grade, and where a query begins.
        """
        order = jnp.lexsort((self.grades, self.query))
        query, grades = self.query[order], self.grades[order]
        first = jnp.append(True, query[1:] != query[:-1])
        rises = jnp.append(False, grades[1:] != grades[:-1]) & ~first
        if callable(steps):
            ends = jnp.cumsum(self.sums(jnp.ones_like(self.query)))
            ranks = jnp.append(ends, 0)[query] - jnp.arange(len(query))
            table = jnp.asarray(sizes_by_rank(steps, len(query), name), self.scores.dtype)
            sizes = table[jnp.maximum(ranks, 1) - 1]
        else:
            sizes = jnp.asarray(steps, self.scores.dtype)

        return jnp.where(rises, sizes, 0.0), first

    def lifts(self, steps: Any) -> Any:
        """For each row what the steps up to its grade add up to."""
        # sums that begin anew in each query, so that none loses digits to the others
        lifts = running_sums(jnp.add, *self.rises(steps, "margin"), 0.0)
        order = jnp.lexsort((self.grades, self.query))
        return jax.lax.stop_gradient(jnp.zeros_like(lifts).at[order].set(lifts, unique_indices=True))


_DIVERGENCES = ("squared", "kl", "generalized_i")


def retargeting(
    scores: Any,
    grades: Any,
    query: Any,
    queries: int | None = None,
    *,
    divergence: Any = "kl",
    order: str = "hidden",
    simplex: bool = True,
    offsets: bool | None = None,
    normalize: bool = True,
) -> Any:
    r"""Divergence to the nearest targets in the order of the grades: the risk of `convexrank.problems.Retargeting`.

    .. math:: \sum_i c_i \min_{\beta_i,\,r_i \in \mathcal{R}_i \cap \mathcal{S}_i}
              D_\phi\bigl(r_i \,\big\|\, (\nabla\phi)^{-1}(s_i + \beta_i)\bigr)

    The loss is zero if all scores of each query are equal: this is its trivial minimum, to which training tends. Prefer
    :func:`~convexrank.jax_losses.margin_retargeting`, or stop early. O(n log n).

    Parameters
    ----------
    scores, grades, query, queries : array, array, array or QueryGroups, int
        As for all losses: :mod:`convexrank.jax_losses`.
    divergence : {"squared", "kl", "generalized_i"} or Divergence
        The Bregman divergence, by name or as an object.
    order : {"hidden", "block"}
        Rows of equal grade share only their place among the other grades, or also their target.
    simplex : bool
        Whether targets are distributions; those of KL always are.
    offsets : bool, optional
        Whether each query has an offset; by default if it has an effect.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Raises
    ------
    ValueError, TypeError
        As all losses; and when offsets take the loss of all scores to 0.

    Examples
    --------
    >>> import jax
    >>> from convexrank.jax_losses import numbered
    >>> query, queries = numbered([5, 5, 5, 9])
    >>> scores, grades = jax.numpy.array([0.0, 1.0, 0.5, 7.0]), [2.0, 0.0, 1.0, 1.0]
    >>> slope = jax.grad(retargeting)(scores, grades, query, queries)
    >>> [round(float(entry), 3) for entry in slope]
    [-0.049, 0.058, -0.009, 0.0]
    """
    divergence = name_of(divergence, _DIVERGENCES)
    check_choice(order, ORDERS, "order")
    squared = divergence == "squared"
    on_simplex = check_flag(simplex, "simplex") or divergence == "kl"
    offsets = None if offsets is None else check_flag(offsets, "offsets")
    if offsets and not (on_simplex or squared):
        raise ValueError(
            "offsets with simplex=False make generalized_i void: an offset without end takes the cost of all scores to "
            "0. Pass simplex=True or offsets=False."
        )
    free = divergence == "kl" or (on_simplex if offsets is None else offsets)
    rows = QueryRows(scores, grades, query, queries)
    pooled = rows.pooled(order == "block")
    if squared:
        values = _squares(rows, pooled, on_simplex, free)
    else:
        values = _exponentials(rows, pooled, on_simplex, free)
    return rows.total(values, normalize)


def _exponentials(rows: QueryRows, pooled: Any, on_simplex: bool, free: bool) -> Any:
    if not on_simplex:
        return rows.sums(jnp.where(rows.counts, jnp.exp(rows.scores) - jnp.exp(pooled), 0.0))
    targets = rows.log_softmax(pooled)[1]
    if free:
        return rows.log_softmax(rows.scores)[1] - targets
    return rows.sums(jnp.where(rows.counts, jnp.exp(rows.scores), 0.0)) - 1.0 - targets


def _squares(rows: QueryRows, pooled: Any, on_simplex: bool, free: bool) -> Any:
    predictions, targets = rows.scores, pooled
    if on_simplex:
        targets = rows.on_simplex(pooled)
        if free:
            predictions = rows.scores + rows.of((1.0 - rows.sums(rows.scores)) / rows.sizes)
    return 0.5 * rows.sums(jnp.where(rows.counts, predictions - targets, 0.0) ** 2)
