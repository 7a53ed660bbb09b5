"""Margin-equipped retargeting: the loss with optimised targets that keep the grades apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from convexrank.backend.host_callback import value_on_host
from convexrank.data import QueryGroups, check_flag, check_nonnegative, check_vector
from convexrank.divergences import SquaredEuclidean
from convexrank.jax_losses.rows import QueryRows, numbered, sizes_by_rank
from convexrank.problems.margin_retargeting._options import (
    bounds_within,
    check_bound,
    check_divergence,
    joint_constant,
)
from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting
from convexrank.solvers.row_faces import ScoreRisk

Array = np.ndarray
# Margins may exceed what the bounds leave by rounding.
_ROUNDING = 1e-9


def margin_retargeting(
    scores: Any,
    grades: Any,
    query: Any,
    queries: int | None = None,
    *,
    margin: float | Callable[[Any], Any] = 1.0,
    reward: float | Callable[[Any], Any] | None = None,
    divergence: Any = "squared",
    bound: Any = None,
    target_reg: float = 0.0,
    score_reg: float | None = None,
    offsets: bool = True,
    normalize: bool = True,
) -> Any:
    r"""Divergence to the nearest targets that keep grades apart: the risk of `convexrank.problems.MarginRetargeting`.

    .. math::
        &\sum_i \min_{\beta_i,\,r_i} c_i \Bigl[D_\phi\bigl(r_i \| \nabla\phi^*(s_i + \beta_i)\bigr)
        + C_r\, D_\phi\bigl(r_i \| \nabla\phi^*(0)\bigr) + \tfrac{C_w}{2}\|s_i + \beta_i\|^2\Bigr]
        - \sum_g \rho_{ig} \gamma_{ig} \\
        &\text{subject to}\quad \gamma_{ig} \ge t_{ig}, \;\; b_0 \le r_{ij} \le b_1,

    where :math:`\gamma_{ig}` is the gap between the targets of grade g and of the next lower grade of the query. The
    loss is convex in the scores, with a continuous gradient, and positive if all scores are equal. It costs O(n log n)
    for the squared distance; for other divergences some Newton steps of that cost.

    The squared distance without bounds and constants is :math:`\tfrac{c_i}2\|r_i - s_i\|^2`. Then offsets have no
    effect and the gradient has the Lipschitz constant 1; the loss is computed in JAX, and can be differentiated twice.
    The other cases are callbacks to numpy on the host: `jit`, `grad` and `vmap` work, one batch after the other, but
    second derivatives and forward mode do not.

    Parameters
    ----------
    scores, grades, query, queries : array, array, array or QueryGroups, int
        As for all losses: :mod:`convexrank.jax_losses`.
    margin : float or callable
        The margin t, at least 0; or a function of the rank, made of JAX or numpy operations on an array k of
        integers: the margin of a step with k rows of the query above it.
    reward : float, callable or None
        The reward ρ per unit of a gap, at least 0, in the same forms; None means 0. With a reward the loss may be
        negative.
    divergence : Divergence or str
        As in the problem: "squared", "generalized_i", "shifted_generalized_i", "bit_entropy", "kl", or an object.
    bound : float, pair of float or None, or None
        Bounds of all targets: (lower, upper), where None omits a bound; a number is an upper bound. I-divergences need
        an upper bound.
    target_reg : float
        The constant C_r, which pulls the targets to the minimum of φ.
    score_reg : float, optional
        The constant C_w; by default the least that makes the cost jointly convex.
    offsets : bool
        Whether each query has its own offset β; otherwise β = 0.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Returns
    -------
    JAX scalar
        The sum over queries. For traced data, the result and its gradient are NaN if the margins are infeasible within
        the bounds, a function of the rank returns an invalid margin, or grades or scores are not finite.

    Raises
    ------
    ValueError, TypeError
        As all losses; when margin or reward is out of range, or the problem refuses the divergence, its bounds or its
        constants; and where grades and queries are not traced, when the margins of a query are infeasible.

    References
    ----------
    S. Acharyya, dissertation (2013), (3.17), (3.21) to (3.24), and Lemma 8 for the constants.

    Examples
    --------
    >>> import jax
    >>> from convexrank.jax_losses import numbered
    >>> query, queries = numbered([5, 5, 5, 9])
    >>> slope = jax.grad(margin_retargeting)(jax.numpy.zeros(4), [2.0, 0.0, 1.0, 1.0], query, queries)
    >>> [round(float(entry), 3) for entry in slope]
    [-0.333, 0.333, 0.0, 0.0]
    >>> round(float(margin_retargeting([0.0, 0.0, 0.0, 7.0], [2.0, 0.0, 1.0, 1.0], ["a", "a", "a", "b"])), 6)
    0.333333
    >>> round(float(margin_retargeting([0.0, 0.0], [0.0, 1.0], [0, 0], 1, divergence="kl", margin=0.1)), 5)
    0.0025
    """
    flags = {"offsets": check_flag(offsets, "offsets"), "normalize": check_flag(normalize, "normalize")}
    steps = margin if callable(margin) else check_nonnegative(margin, "margin")
    earns = reward if reward is None or callable(reward) else check_nonnegative(reward, "reward")
    found, limits = check_divergence(divergence), check_bound(bound)
    low, high = bounds_within(found, limits)
    pulls = check_nonnegative(target_reg, "target_reg")
    given = None if score_reg is None else check_nonnegative(score_reg, "score_reg")
    # constants of a divergence from a function of the caller's own are found by JAX
    with jax.ensure_compile_time_eval():
        constant = joint_constant(found, low, high, pulls, given)
    squared = isinstance(found, SquaredEuclidean)
    # the problem asks the same of each query; off the quadratic targets may not fill all of the domain
    if not callable(steps) and steps > (1.0 + (_ROUNDING if squared else -_ROUNDING)) * (high - low):
        raise ValueError(
            f"infeasible: margin is {steps:g}, and the bounds ({low:g}, {high:g}) of the targets leave {high - low:g}; "
            "lower margin, or widen bound."
        )
    if queries is None and not isinstance(query, Tracer):
        query, queries = numbered(query)
    rows = QueryRows(scores, grades, query, queries)
    if squared and pulls == constant == 0.0 and math.isinf(low) and math.isinf(high):
        return _squares(rows, steps, earns, flags["normalize"])
    options = {"divergence": found, "bound": limits, "target_reg": pulls, "score_reg": constant}
    host = _Host(rows.queries, options | flags)
    return _by_callback(host, rows, grades, query, (steps, earns))


def _squares(rows: QueryRows, steps: Any, earns: Any, normalize: bool) -> Any:
    """The squared distance without anything else."""
    lifts = rows.lifts(steps)
    near, chain, earned = rows.scores - lifts, rows.chain(), None
    if earns is not None:
        earned = rows.rises(earns, "reward")[0]
        # a reward pulls the two rows next to its gap apart
        pulls = earned - jnp.append(earned[1:], 0.0)
        near = near.at[chain].add(pulls * (rows.of(rows.sizes, 1.0)[chain] if normalize else 1.0))
    targets = lifts + rows.pooled(False, near)
    value = rows.total(0.5 * rows.sums(jnp.where(rows.counts, rows.scores - targets, 0.0) ** 2), normalize)
    if earned is None:
        return value
    gaps = jnp.diff(targets[chain], prepend=0.0)
    return value - rows.total(rows.sums(jnp.zeros_like(gaps).at[chain].set(earned * gaps)), False)


@dataclass(frozen=True, eq=False)
class _Host:
    """The part in numpy on the host: the problem of a batch, and its value and gradient."""

    queries: int
    options: dict[str, Any]

    def problem(self, grades: Array, query: Array, margin: Any, reward: Any) -> MarginRetargeting | None:
        """Return the problem of a batch; None where there is nothing to rank. Arrays are sizes of steps by rank."""
        # padding is one query more, whose rows have the same grade: it asks for nothing
        inside = (query >= 0) & (query < self.queries)
        levels = np.where(inside, grades, 0.0).astype(np.float64)
        groups = QueryGroups.from_qid(np.where(inside, query, self.queries))
        ordered = groups.gather(levels)
        if (groups.maxima(ordered) == groups.minima(ordered)).all():
            return None
        margin, reward = (_of_rank(table) if np.ndim(table) else table for table in (margin, reward))
        # rewards ask for an l2, which the risk of scores does not depend on
        nothing = np.zeros((len(levels), 1))
        return MarginRetargeting(
            nothing, levels, groups, margin=margin, reward=reward, l2=1.0, **self.options
        )

    def known(self, problem: MarginRetargeting | None, scores: Array) -> tuple[Array, Array]:
        """Return value and gradient of a problem in the precision of the scores."""
        value, gradient = 0.0, np.zeros(len(scores))
        if problem is not None:
            exact = scores.astype(np.float64)
            value, gradient = np.nan, np.full(len(scores), np.nan)
            if np.isfinite(problem._split(exact)[0]).all():
                value, gradient = problem.face(ScoreRisk).value_and_gradient(exact)
        return np.asarray(value, scores.dtype), gradient.astype(scores.dtype)

    def traced(
        self, sizes: list[Any], scores: Array, grades: Array, query: Array, *late: Array
    ) -> tuple[Array, Array]:
        """Return value and gradient of a batch that was not known before; NaN where there is no such problem."""
        rest = iter(late)
        try:
            problem = self.problem(
                grades, query, *(next(rest) if isinstance(size, Tracer) else size for size in sizes)
            )
        except ValueError:
            return np.asarray(np.nan, scores.dtype), np.full_like(scores, np.nan)
        return self.known(problem, scores)


def _of_rank(table: Array) -> Callable[[Array], Array]:
    return lambda rank: np.asarray(table)[rank - 1]


def _by_callback(host: _Host, rows: QueryRows, grades: Any, query: Any, steps: tuple[Any, Any]) -> Any:
    """The loss by a callback; with a problem that is made here, once, if nothing but the scores is traced."""
    scores = rows.scores
    named = zip(steps, ("margin", "reward"), strict=True)
    sizes = [sizes_by_rank(step, len(scores), name) if callable(step) else step for step, name in named]
    late = [size.astype(scores.dtype) for size in sizes if isinstance(size, Tracer)]
    if late or isinstance(grades, Tracer) or isinstance(query, Tracer):
        operands, function = (rows.grades, rows.query, *late), partial(host.traced, sizes)
    else:
        with jax.ensure_compile_time_eval():
            known = check_vector(np.asarray(grades).astype(scores.dtype), name="grades")
            problem = host.problem(known, np.asarray(query), *sizes)
        operands, function = (), partial(host.known, problem)
    return value_on_host(function, scores, *operands)
