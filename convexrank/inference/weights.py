"""The weights of a problem under resampling: bootstrap intervals, and how often a column is selected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.backend.interruption import as_a_whole
from convexrank.core.many import Solutions, solve_many
from convexrank.core.problem import Problem
from convexrank.data import check_flag, check_integer, check_probability, check_vector, shown
from convexrank.data.fields import parameters_of
from convexrank.data.messages import progress_as_verbose

__all__ = ["SelectionFrequencies", "WeightIntervals", "bootstrap_weights", "stability_selection"]

Array = np.ndarray

# Draws of a resample without rows of one class before the data are refused.
_TRIES = 1000
# Rows that are drawn at a time: they stay in the cache.
_BLOCK = 1 << 16
# Weights of rows that are drawn at most, over all draws: they are in memory together.
_MOST = 1 << 31


@dataclass(frozen=True, eq=False)
class WeightIntervals:
    """Weights of a problem with intervals from resampled rows.

    Parameters
    ----------
    estimate : ndarray, shape (d,)
        The weights of the problem as it is.
    solutions : Solutions
        The solution of each resample, with its certificate.
    level : float
        The level of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> problem = cr.problems.PNormPush(X, X[:, 0] + rng.normal(size=200) > 0.5, p=2, l2=0.01)
    >>> found = cr.inference.bootstrap_weights(problem, 50, seed=0)
    >>> found.frequencies.tolist()
    [1.0, 1.0]
    """

    estimate: Array
    solutions: Solutions = field(repr=False)
    level: float

    def __repr__(self) -> str:
        return (
            f"WeightIntervals: {len(self.estimate)} weights, level {100 * self.level:g} %, {self.solutions!r}"
        )

    @property
    def draws(self) -> Array:
        """The weights of each resample, shape (B, d)."""
        return self.solutions.coefficients

    @property
    def lower(self) -> Array:
        """Lower ends, the percentile of half of 1 − level, shape (d,)."""
        return np.quantile(self.draws, 0.5 * (1.0 - self.level), axis=0)

    @property
    def upper(self) -> Array:
        """Upper ends, shape (d,)."""
        return np.quantile(self.draws, 0.5 * (1.0 + self.level), axis=0)

    @property
    def standard_errors(self) -> Array:
        """Standard deviations of the weights over the resamples, shape (d,)."""
        return np.std(self.draws, axis=0, ddof=1)

    @property
    def frequencies(self) -> Array:
        """The share of the resamples in which each weight is not 0, shape (d,); 1 without l1."""
        return np.mean(self.draws != 0.0, axis=0)


@dataclass(frozen=True, eq=False)
class SelectionFrequencies:
    """Frequency with which l1 selects each column, over halves of the rows.

    Parameters
    ----------
    l1 : ndarray, shape (m,)
        The strengths, falling.
    frequencies : ndarray, shape (m, d)
        The share of the halves in which a weight is not 0, for each strength.
    mean_count : float
        The mean number of columns that are selected at some strength in one half, q.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 6))
    >>> problem = cr.problems.PNormPush(X, X[:, 0] + rng.normal(size=200) > 0.5, p=1, l1=0.1)
    >>> found = cr.inference.stability_selection(problem, l1=[0.3, 0.2], pairs=10, seed=0)
    >>> found.selected(0.9).tolist()
    [0]
    """

    l1: Array
    frequencies: Array = field(repr=False)
    mean_count: float

    @property
    def highest(self) -> Array:
        """The highest frequency of each column along the strengths, shape (d,)."""
        return self.frequencies.max(axis=0)

    def selected(self, threshold: float = 0.8) -> Array:
        """Return the columns whose highest frequency is at least the threshold, above 0.5."""
        return np.flatnonzero(self.highest >= _above_half(threshold))

    def false_selections(self, threshold: float = 0.8) -> float:
        r"""Bound the expected number of columns that are selected by chance, :math:`q^2 / ((2\pi - 1) d)`.

        It holds where columns without effect are exchangeable, and the method selects no worse than at random
        (Meinshausen and Bühlmann, theorem 1).
        """
        return self.mean_count**2 / ((2.0 * _above_half(threshold) - 1.0) * self.frequencies.shape[1])


def _above_half(threshold: float) -> float:
    threshold = check_probability(threshold, "threshold")
    if not threshold > 0.5:
        raise ValueError(f"threshold is {threshold}, expected a share above 0.5.")
    return threshold


@progress_as_verbose
@as_a_whole
def bootstrap_weights(
    problem: Problem,
    count: int = 1000,
    *,
    seed: int,
    level: float = 0.95,
    device: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    verbose: bool = False,
) -> WeightIntervals:
    r"""Return intervals of the weights of a problem: percentiles over resamples of the rows, or of the queries.

    A resample draws n of the n rows with replacement; the problem then has the number of draws as weights of the rows.
    With queries whole queries are drawn. A draw without one of two classes is drawn again. Each resample is solved to a
    certificate; see :func:`convexrank.solve_many`, which solves them together.

    The interval of a weight is the percentile interval of Efron. It says how much the weight depends on the rows that
    were drawn, for the strengths of the problem as they are: a penalty moves weights towards 0 in all resamples, and
    the interval is one of the penalised weights.

    Parameters
    ----------
    problem : Problem
        A problem with ``sample_weight``; its own weights are multiplied by the numbers of draws.
    count : int
        Number B of resamples.
    seed : int
        The seed of the draws.
    level : float
        The level of each interval.
    device : str or jax.Device, optional
        Solve the resamples on a device.
    tol : float
        The tolerance of each resample.
    time_limit, verbose : optional
        As for :func:`convexrank.solve_many`.

    Returns
    -------
    WeightIntervals
        The weights, ``lower``, ``upper``, ``standard_errors``, ``frequencies`` and all ``draws``; it is drawn by
        :func:`convexrank.plotting.weight_intervals`.

    Raises
    ------
    ValueError, TypeError
        When the problem takes no weights of rows, or a number is out of range.

    References
    ----------
    B. Efron, Bootstrap methods: another look at the jackknife, Annals of Statistics 7 (1979).

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> problem = cr.problems.PNormPush(X, X[:, 0] + rng.normal(size=200) > 0.5, p=2, l2=0.01)
    >>> cr.inference.bootstrap_weights(problem, 50, seed=0)
    WeightIntervals: 2 weights, level 95 %, Solutions: 50 problems over sample_weight: 50 CONVERGED, ...
    """
    level, count = check_probability(level, "level"), check_integer(count, "count", 2)
    rng = np.random.default_rng(check_integer(seed, "seed", 0))
    draws = _resamples(problem, count, rng)
    solutions = solve_many(
        problem,
        sample_weight=draws,
        device=device,
        tol=tol,
        time_limit=time_limit,
        verbose=check_flag(verbose, "verbose"),
    )
    return WeightIntervals(problem.solve(tol=tol).x, solutions, level)


@progress_as_verbose
def stability_selection(
    problem: Problem,
    *,
    l1: Any,
    seed: int,
    pairs: int = 50,
    device: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    verbose: bool = False,
) -> SelectionFrequencies:
    r"""Compute the frequency with which l1 selects each column, over halves of the rows, along some strengths.

    The rows, or the queries, are cut into two halves at random, ``pairs`` times; each half is solved for each strength.
    A column that is selected in most halves is selected for its effect, and not by chance.

    Parameters
    ----------
    problem : Problem
        A problem with l1 and ``sample_weight``.
    l1 : array, shape (m,)
        Strengths of l1, above 0.
    seed : int
        The seed of the draws.
    pairs : int
        Number of cuts, each of which gives two halves.
    device, tol, time_limit, verbose : optional
        As for :func:`bootstrap_weights`.

    Returns
    -------
    SelectionFrequencies
        Frequencies, ``selected(threshold)``, and a bound on the expected number of false selections; it is drawn by
        :func:`convexrank.plotting.selection_frequencies`.

    Raises
    ------
    ValueError, TypeError
        When the problem takes no weights of rows or no l1, or a number is out of range.

    References
    ----------
    N. Meinshausen and P. Bühlmann, Stability selection, J. R. Statist. Soc. B 72 (2010), theorem 1. R. Shah and
    R. Samworth, Variable selection with error control, J. R. Statist. Soc. B 75 (2013), for the pairs of halves.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 6))
    >>> problem = cr.problems.PNormPush(X, X[:, 0] + rng.normal(size=200) > 0.5, p=1, l1=0.1)
    >>> found = cr.inference.stability_selection(problem, l1=[0.2, 0.1], pairs=10, seed=0)
    >>> found.frequencies[:, 0].tolist()
    [1.0, 1.0]
    """
    strengths = np.unique(check_vector(l1, None, "l1"))[::-1]
    if not len(strengths) or not strengths[-1] > 0.0:
        raise ValueError(f"l1 is {shown(l1)}, expected strengths above 0.")
    rng, cuts = np.random.default_rng(check_integer(seed, "seed", 0)), check_integer(pairs, "pairs", 1)
    halves = _halves(problem, cuts, rng)
    # all strengths of one half, then the next half: warm starts go from the strongest to the weakest
    weights, l1s = np.repeat(halves, len(strengths), axis=0), np.tile(strengths, len(halves))
    solutions = solve_many(
        problem,
        sample_weight=weights,
        l1=l1s,
        device=device,
        tol=tol,
        time_limit=time_limit,
        verbose=check_flag(verbose, "verbose"),
    )
    chosen = (solutions.coefficients != 0.0).reshape(len(halves), len(strengths), -1)
    return SelectionFrequencies(strengths, chosen.mean(axis=0), float(chosen.any(axis=1).sum(axis=1).mean()))


def _units(problem: Problem) -> tuple[Array, Array, Array]:
    """The unit of each row, a query or the row itself, the weights that rows have already, and their labels."""
    given = (
        {} if isinstance(problem, type) else {name: getattr(problem, name) for name in parameters_of(problem)}
    )
    if "sample_weight" not in given:
        raise ValueError(
            f"problem is {shown(problem)}, expected one with sample_weight, by which rows are drawn, such as a "
            "declared formulation; it takes no sample_weight."
        )
    rows = problem.rows
    weights = np.ones(rows) if given["sample_weight"] is None else given["sample_weight"]
    groups = getattr(problem, "_queries", None)
    if groups is None:
        return np.arange(rows), weights, given["y"]
    return groups.spread(groups.query), weights, given["y"]


def _drawn(problem: Problem, draw: Callable[[int, int], Array], count: int, name: str) -> Array:
    """Draw weights of rows until no class lacks; a draw has one part or more, each with its own weights."""
    units, weights, y = _units(problem)
    if count * len(weights) > _MOST:
        raise ValueError(
            f"{name} is {count}, expected at most {_MOST // len(weights)} for {len(weights)} rows: the weights of all "
            "draws are in memory together."
        )
    labels, found = np.unique(y, return_inverse=True)[1], []
    sides = np.stack([labels == 0, labels == 1], axis=1).astype(np.float64) if labels.max() == 1 else None
    many, missing, idle = int(units.max()) + 1, count, 0
    size = max(1, _BLOCK // many)
    while missing:
        each = draw(many, min(size, missing)).take(units, axis=2) * weights
        if sides is not None:
            good = ((each @ sides) > 0.0).all(axis=(1, 2))
            idle = 0 if good.any() else idle + len(each)
            each = each[good]
        if idle >= _TRIES:
            raise ValueError(
                f"{_TRIES} draws of the rows had one class only; a class has too few rows for resampling."
            )
        found.append(each.reshape(-1, len(weights)))
        missing -= len(each)
    return np.concatenate(found)


def _resamples(problem: Problem, count: int, rng: Any) -> Array:
    """Numbers of draws with replacement, times the weights, shape (count, n)."""

    def draw(many: int, some: int) -> Array:
        places = rng.integers(many, size=(some, many)) + many * np.arange(some)[:, None]
        return np.bincount(places.ravel(), minlength=some * many).reshape(some, 1, many)

    return _drawn(problem, draw, count, "count")


def _halves(problem: Problem, cuts: int, rng: Any) -> Array:
    """Two halves for each cut, as weights of rows, shape (2·cuts, n)."""

    def draw(many: int, some: int) -> Array:
        first = np.zeros((some, many))
        for row in first:
            row[rng.permutation(many)[: many // 2]] = 1.0
        return np.stack([first, 1.0 - first], axis=1)

    return _drawn(problem, draw, cuts, "pairs")
