"""Margin-equipped retargeting: its joint cost, and its arguments.

The joint cost of targets, offsets and scores: what all parts of margin-equipped retargeting work on.

Arguments of margin-equipped retargeting: what they may be, and random ones.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank import divergences
from convexrank.backend.cached import cached_property
from convexrank.data import QueryGroups, check_interval, check_nonnegative, check_vector, read_array
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.divergences import Divergence, SquaredEuclidean
from convexrank.problems.retargeting._grade_blocks import Chain, GradeBlocks, Sizes, step_sizes

Array = np.ndarray


def phi_of(divergence: Divergence, x: Array) -> Array:
    """Return φ of each entry, up to a constant for separable ones: the divergence from where φ is least.

    numpy all the way. The constant cancels against that of :func:`conjugate_of`; on the simplex it is the right one.
    """
    where = divergence._least_at
    return divergence._between(x, where) - (float(where[0]) if divergence.total is not None else 0.0)


def conjugate_of(divergence: Divergence, theta: Array) -> Array:
    """Return the conjugate of φ for each entry, from the point where it is attained."""
    x = divergence._point(theta)
    return np.where(np.isfinite(x), theta * x - phi_of(divergence, x), np.inf)


@dataclass(frozen=True, eq=False)
class Fit:
    """The best targets for given scores.

    Parameters
    ----------
    targets : ndarray, shape (n,)
        The targets r, query by query.
    offsets : ndarray, shape (m,)
        The offset β of each query.
    chain : Chain
        The order in which the targets rise.
    pools : ndarray of int, shape (n,)
        Along the chain, the number of the pool whose targets move together; −1 where a bound holds them.
    """

    targets: Array
    offsets: Array
    chain: Chain
    pools: Array

    def pool_masses(self, bends: Array) -> tuple[Array, Array, Array]:
        """Return where pools start along the chain, their lengths, and their masses: infinite where a bound holds them.

        Parameters
        ----------
        bends : ndarray, shape (n,)
            Along the chain, φ'' at the targets.
        """
        query, pools = self.chain.blocks.groups.query, self.pools
        ends = (pools[1:] != pools[:-1]) | (query[1:] != query[:-1])
        starts = np.concatenate(([0], np.flatnonzero(ends) + 1))
        masses = np.where(pools[starts] >= 0, np.add.reduceat(bends, starts), np.inf)
        return starts, np.diff(starts, append=len(pools)), masses


@dataclass(frozen=True, eq=False)
class JointCost:
    """The constraints on targets, and the joint cost of targets, offsets and scores; rows query by query.

    Parameters
    ----------
    blocks : GradeBlocks
        The blocks of equal grade.
    levels : ndarray
        All grades of the data, ascending.
    query_weights : ndarray, shape (m,)
        The weight of each query.
    divergence : Divergence
        Separable without weights, with slopes of all sizes; or KL.
    margin, reward : None, float, tuple of float, or callable
        Of the steps between grades, as the caller states them.
    low, high : float
        Bounds of all targets; infinities for none.
    target_reg, score_reg : float
        The constants C_r and C_w of (3.17).
    center : ndarray, shape (n,)
        The natural parameters q of (3.17).
    offsets : bool
        Whether each query has an offset of its own.
    """

    blocks: GradeBlocks
    levels: Array
    query_weights: Array
    divergence: Divergence
    margin: Sizes
    reward: Sizes
    low: float
    high: float
    target_reg: float
    score_reg: float
    center: Array
    offsets: bool

    @cached_property
    def groups(self) -> QueryGroups:
        """The queries."""
        return self.blocks.groups

    @cached_property
    def quadratic(self) -> bool:
        """Whether the divergence is the squared distance."""
        return isinstance(self.divergence, SquaredEuclidean)

    @cached_property
    def simplex(self) -> bool:
        """Whether the targets of a query add up to 1."""
        return self.divergence.total is not None

    # --- what targets must satisfy ------------------------------------------------------------------------------------

    @cached_property
    def margins(self) -> Array:
        """The margin below each block; 0 below the lowest of a query."""
        return step_sizes(self.margin, self.blocks, self.levels, "margin")

    @cached_property
    def rewards(self) -> Array:
        """The reward for each unit of the gap below each block; 0 below the lowest of a query."""
        return step_sizes(self.reward, self.blocks, self.levels, "reward")

    @cached_property
    def rewarded(self) -> bool:
        """Whether any gap earns a reward."""
        return bool((self.rewards > 0).any())

    @cached_property
    def heights(self) -> Array:
        """Cumulated margins: how far each block must lie above the lowest of its query."""
        return self.blocks.lifted(self.margins)

    @cached_property
    def lift(self) -> Array:
        """The height of each row's block, along any chain."""
        return self.blocks.of_blocks(self.heights)

    @cached_property
    def ceiling(self) -> Array:
        """The upper bound on the lowered targets of each query: the bound less the height of its top block."""
        return self.high - self.heights[self.blocks.offsets_by_query[1:] - 1]

    def of_query(self, query: int) -> JointCost:
        """Return the same for one query alone."""
        rows = self.groups.slices[query]
        part = slice(*self.blocks.offsets_by_query[query : query + 2].tolist())
        groups = QueryGroups.from_sizes([rows.stop - rows.start])
        alone = replace(
            self,
            blocks=GradeBlocks(groups, self.blocks.grades[rows]),
            query_weights=self.query_weights[query : query + 1],
            center=self.center[rows],
        )
        # a function of the rank is asked once, for all queries
        alone.__dict__.update(margins=self.margins[part], rewards=self.rewards[part])
        return alone

    # --- what they cost -----------------------------------------------------------------------------------------------

    @cached_property
    def share(self) -> float:
        """The α of Lemma 9: the weight of the predictor in the parameters that the targets approximate."""
        return 1.0 / (1.0 + self.target_reg)

    @cached_property
    def largest_bend(self) -> float:
        """The largest second derivative of the conjugate of φ; infinite where φ is flat somewhere in its domain."""
        strong = self.divergence.strong_convexity()
        return 1.0 / strong if strong > 0 else math.inf

    def deflected(self, scores: Array) -> tuple[Chain, Array]:
        """Return the chain of the best targets, and along it the parameters that they are near to, with rewards."""
        near = self.share * scores + (1.0 - self.share) * self.center
        chain = self.blocks.chain(near)
        along = chain.gather(near)
        if self.rewarded:
            along += self.share * chain.pulled(self.rewards / self.query_weights[self.blocks.queries])
        return chain, along

    def fit(self, scores: Array) -> Fit:
        """Return the best targets and offsets for scores."""
        raise NotImplementedError

    def predictions(self, predictors: Array) -> Array:
        """Return the predictions, the link of the predictors."""
        if not self.simplex:
            return self.divergence._point(predictors)
        groups = self.groups
        masses = np.exp(predictors - groups.maxima(predictors)[groups.query])
        return masses / groups.sums(masses)[groups.query]

    def bends(self, predictions: Array) -> Array:
        """Return the slope of the link at each prediction: the second derivative of the conjugate of φ."""
        return predictions if self.simplex else 1.0 / self.divergence._curvature(predictions)

    def conjugates(self, predictors: Array) -> Array:
        """Return the conjugate of φ of the predictors of each query."""
        groups = self.groups
        if not self.simplex:
            return groups.sums(conjugate_of(self.divergence, predictors))
        tops = groups.maxima(predictors)
        return tops + np.log(groups.sums(np.exp(predictors - tops[groups.query])))

    def imbalance(self, predictors: Array, targets: Array) -> tuple[Array, Array, Array]:
        """Return the excess of predictions and regularisation over targets, its slope in the offset, and its size.

        There is one entry for each query, for a separable divergence. At the best offset the excess is 0.
        """
        sums, reg, p = self.groups.sums, self.score_reg, self.predictions(predictors)
        sizes = sums(np.abs(p) + reg * np.abs(predictors) + np.abs(targets))
        return sums(p + reg * predictors - targets), sums(self.bends(p) + reg), sizes

    def evaluate(self, fit: Fit, scores: Array) -> tuple[float, Array]:
        """Return the cost and its gradient in the scores.

        Parameters
        ----------
        fit : Fit
            The best targets.
        scores : ndarray, shape (n,)
            Scores, query by query.
        """
        value, gradient = self._without_rewards(fit.targets, scores + fit.offsets[self.groups.query])
        return value - float(self.rewards @ fit.chain.gaps(fit.targets)) if self.rewarded else value, gradient

    def _without_rewards(self, r: Array, s: Array) -> tuple[float, Array]:
        sums, reg = self.groups.sums, self.score_reg
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.conjugates(s) + sums((1.0 + self.target_reg) * phi_of(self.divergence, r) - r * s)
            if self.target_reg:
                values += self.target_reg * (self.conjugates(self.center) - sums(r * self.center))
            values += 0.5 * reg * sums(s * s)
            gradient = self.query_weights[self.groups.query] * (self.predictions(s) - r + reg * s)
            return float(self.query_weights @ values), gradient


# Sums of margins may exceed what the bounds leave by rounding, and Lemma 8 may be met up to it.
_ROUNDING = 1e-12
# The least constant is rounded up, so that Lemma 8 holds of the numbers as they are.
_ROUNDED_UP = 1e-15
# Targets stay so far inside a finite end of the domain.
_INSIDE = 1e-12


def check_divergence(given: Any) -> divergences.Divergence:
    """Return a divergence without weights whose slopes take every value.

    Raises
    ------
    ValueError, TypeError
        For anything else: scores are slopes, and can be any number.
    """
    found = divergences.resolve(given)
    if found.weights is not None:
        raise ValueError(f"divergence is {found!r}, expected one without weights: documents are alike.")
    slopes = found.dual_domain
    if slopes.lower > -math.inf or slopes.upper < math.inf:
        raise ValueError(
            f"divergence is {type(found).__name__}, whose slopes lie in {slopes}, but scores can be any number; use "
            "squared, generalized_i, bit_entropy or kl."
        )
    return found


def joint_constant(
    divergence: divergences.Divergence, low: float, high: float, target_reg: float, given: float | None
) -> float:
    """Return the constant C_w, the least that makes the cost jointly convex where none is given: Lemma 8.

    Parameters
    ----------
    divergence : Divergence
        The divergence.
    low, high : float
        Bounds of the targets, inside the domain.
    target_reg : float
        The constant C_r.
    given : float or None
        The caller's C_w.

    Raises
    ------
    ValueError
        When s(1 + C_r)(C_w + 1/L) < 1 for the modulus s of φ on the bounds and the Lipschitz constant L of its slopes
        on the domain; when s = 0, so that no constant is enough.
    """
    strong, flat = _moduli(divergence, low, high)
    if strong <= 0.0:
        raise ValueError(
            f"{type(divergence).__name__} is not strongly convex for targets in ({low:g}, {high:g}), so no constants "
            "make the cost jointly convex (Lemma 8); pass bound=(lower, upper)."
        )
    least = max(1.0 / (strong * (1.0 + target_reg)) - flat, 0.0)
    if given is None:
        return least * (1.0 + _ROUNDED_UP)
    product = joint_product(divergence, low, high, target_reg, given)
    if product < 1.0 - _ROUNDING:
        raise ValueError(
            f"target_reg = {target_reg:g} and score_reg = {given:g} do not make the cost jointly convex: Lemma 8 asks "
            f"for s(1 + C_r)(C_w + 1/L) >= 1, here it is {product:g} with s = {strong:g}, 1/L = {flat:g}; pass a "
            f"score_reg of at least {least:g}, or None for that one."
        )
    return given


def joint_product(
    divergence: divergences.Divergence, low: float, high: float, target_reg: float, score_reg: float
) -> float:
    """Return s(1 + C_r)(C_w + 1/L) of Lemma 8; arguments as for :func:`joint_constant`."""
    strong, flat = _moduli(divergence, low, high)
    return strong * (1.0 + target_reg) * (score_reg + flat)


def _moduli(divergence: divergences.Divergence, low: float, high: float) -> tuple[float, float]:
    """The moduli of strong convexity of φ on the bounds, for targets that keep their sum, and of its conjugate."""
    strong = divergence.strong_convexity(low, high)
    if isinstance(divergence, divergences.KL):
        # Σ v²/r ≥ (Σ|v|)² ≥ 2‖v‖² for r that add up to 1 and v that add up to 0: Cauchy and Schwarz, twice
        strong = max(strong, 2.0)
    return strong, 1.0 / divergence.smoothness()


def check_room(cost: JointCost) -> None:
    """Refuse margins that the bounds, or the sum of the targets, leave no room for, and name the query.

    Off the quadratic targets that the bounds alone determine are refused as well: they may be at an end of the domain.
    """
    low, high, groups, total = cost.low, cost.high, cost.groups, cost.divergence.total
    size = max([1.0, *(abs(bound) for bound in (low, high) if math.isfinite(bound))])
    slack = -_ROUNDING * size if cost.quadratic else 1e-9 * size
    short = np.flatnonzero(cost.ceiling - low < slack)
    if len(short):
        query = int(short[0])
        raise ValueError(
            f"infeasible: the margins of query {groups.ids[query]} add up to {high - float(cost.ceiling[query]):g}, "
            f"the bounds ({low:g}, {high:g}) leave {high - low:g}; lower margin, or widen bound."
        )
    if total is None:
        return
    lifts = groups.sums(cost.lift)
    least, most = low * groups.sizes + lifts, cost.ceiling * groups.sizes + lifts
    off = np.flatnonzero((least > total - 1e-9) | (most < total + 1e-9))
    if len(off):
        query = int(off[0])
        raise ValueError(
            f"infeasible: with these margins and bounds the targets of query {groups.ids[query]} add up to between "
            f"{least[query]:g} and {most[query]:g}, expected {total:g} in between; the more documents are above a "
            "margin, the smaller it must be: lower margin, widen bound, or pass a function of the rank."
        )


def check_sizes(given: Any, name: str) -> Sizes:
    """Return sizes of steps: None, a number of at least 0, a tuple of them, or a function.

    Raises
    ------
    ValueError, TypeError
        For anything else.
    """
    if given is None or callable(given):
        return given
    if not isinstance(given, list | tuple) and read_array(given, name).ndim == 0:
        return check_nonnegative(given, name)
    found = check_vector(given, name=name, each="step")
    if (found < 0).any():
        place = int(np.argmax(found < 0))
        raise ValueError(f"{name}[{place}] is {found[place]:g}, expected a number of at least 0.")
    return tuple(found.tolist())


def check_bound(given: Any) -> tuple[float, float] | None:
    """Return a pair of bounds; a number is an upper one.

    Raises
    ------
    ValueError, TypeError
        For anything but None, a number, or a pair (lower, upper) that holds a number.
    """
    if given is None:
        return None
    bound = check_interval((None, given) if isinstance(given, numbers.Real) else given, "bound")
    if any(LARGEST_ENTRY < abs(end) < math.inf for end in bound):
        raise ValueError(
            f"bound is {given}, whose products overflow; expected ends of at most {LARGEST_ENTRY:g}, or None."
        )
    return bound


def bounds_within(
    divergence: divergences.Divergence, bound: tuple[float, float] | None
) -> tuple[float, float]:
    """Return the bounds of the targets, cut to the domain of the divergence, a little inside its ends.

    At an end slopes are infinite, and the best targets may be nearer to it than numbers can tell.

    Raises
    ------
    ValueError
        When they leave nothing of it.
    """
    domain = divergence.domain
    low, high = bound if bound is not None else (-math.inf, math.inf)
    cut = max(low, domain.lower + _INSIDE), min(high, domain.upper - _INSIDE)
    if not cut[0] < cut[1] and cut != (low, high):
        raise ValueError(
            f"bound = ({low:g}, {high:g}) leaves nothing of the domain {domain}; pass bounds inside."
        )
    return cut


def heavier_at_the_top(rank: Array) -> Array:
    """Return 1/log₂(1 + rank), the discount of DCG: a margin or reward that is larger where fewer rows are above."""
    return 1.0 / np.log2(1.0 + rank)


def random_options(rng: np.random.Generator, y: Array) -> dict[str, Any]:
    """Draw a divergence, margins, rewards, bounds and strengths for random instances."""
    levels = rng.uniform(0.0, 1.0, size=len(np.unique(y)) - 1)
    margins: tuple[Any, ...] = (1.0, tuple(levels.tolist()), heavier_at_the_top)
    options: dict[str, Any] = {
        "margin": margins[int(rng.integers(3))],
        "normalize": bool(rng.random() < 0.7),
        "l2": float(rng.choice([1e-2, 0.3])),
        "l1": float(rng.choice([0.0, 0.0, 0.01])),
    }
    if rng.random() < 0.4:
        options["reward"] = float(rng.choice([0.05, 0.3]))
    if rng.random() < 0.5:
        options["bound"] = [(-1.5, 2.0), (None, 0.5), (0.0, 4.0)][int(rng.integers(3))]
    if rng.random() < 0.3:
        options |= {"target_reg": 0.5, "score_reg": float(rng.choice([0.0, 0.2]))}
    return options | {"divergence": "squared"} if rng.random() < 0.5 else _off_the_quadratic(rng, options)


def _off_the_quadratic(rng: np.random.Generator, options: dict[str, Any]) -> dict[str, Any]:
    """Options as drawn for the squared distance, made to fit a domain: its bounds, and margins that leave room."""
    name = ("generalized_i", "shifted_generalized_i", "bit_entropy", "kl")[int(rng.integers(4))]
    fitting = {key: value for key, value in options.items() if key not in ("bound", "score_reg")}
    if name.endswith("generalized_i"):
        fitting["bound"] = [8.0, (1.1, 8.0)][int(rng.integers(2))]
    else:
        fitting["margin"] = {"bit_entropy": 0.2, "kl": 0.01}[name]
    return fitting | {"divergence": name}
