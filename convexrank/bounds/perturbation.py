r"""Bounds on the change of a minimiser: when one row is left out, and when targets change.

*One row is left out.* Let w̃ minimise the objective F̃ without row r. With l2 it is λ₂-strongly convex, so w̃ is no
further from any w than the length of any subgradient of F̃ at w, over λ₂. If the risk is a sum of log-sum-exps and w
minimises F, the subgradient of F̃ at w is the effect of the row: a term :math:`c\log\sum_j e^{t\theta_j+v_j}` has
shares s at w, and without row r the others have :math:`s_j/(1-s_r)`. So with the mean :math:`\mu=\sum_j s_jx_j`

.. math:: \|\tilde w - w\|_2 \;\le\;
          \frac1{\lambda_2}\Bigl(\Bigl\|\sum_{\text{terms}} ct\,\frac{s_r}{1-s_r}(x_r-\mu)\Bigr\|_2 + \|e\|_2\Bigr)

where e is the shortest subgradient of F at w, which is 0 at a minimiser. For the P-Norm Push :math:`|ct| = 1` and s_r
is the dual weight α or β. For other risks with weights of rows the certificate of F̃ at w bounds F̃(w) − F̃(w̃), and
:math:`\|\tilde w-w\|^2` is at most :math:`2/\lambda_2` times that. Both bounds hold for every w, up to rounding of the
data.

*Targets of a learned divergence change:* Theorem 8, and its correction. Let w and w̃ minimise the marginal objective
for targets y and ỹ, with the penalty :math:`\tfrac{\lambda_2}2\|w\|^2`. The objective is λ₂-strongly convex, so w̃ is
no further from w than the new gradient at w over λ₂, and that gradient is

.. math:: \nabla\tilde F(w) = \tfrac1n X^\top\bigl[(\tilde s - \tilde y) - (s - y)\bigr] ,

s and s̃ the two links at the same scores Xw. *If the link were fixed*, s̃ = s, and this would be
:math:`\tfrac1n X^\top(y-\tilde y)`: the printed bound. But the link is learned from the targets, and s̃ − s does not
vanish when :math:`X^\top(\tilde y-y)` does.

For every class of divergences s is an isotonic regression of the *sorted* targets, or a linear function of two coupled
isotonic regressions, and it is a nonexpansive function of the sorted targets; sorting is nonexpansive too. Hence
:math:`\|\tilde s - s\|_2 \le \|\tilde y - y\|_2`, and

.. math:: \|\tilde w - w\|_2 \;\le\; \frac{2\,\|X_c\|_2\,\|(\tilde y - y)_c\|_2}{n\lambda_2} ,

where the index c means that means are subtracted: the risk does not depend on a constant in the scores or targets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from convexrank.backend.design import entries, transposed_times, unpacked
from convexrank.backend.progress import progress_bar
from convexrank.core.minorants import EPS
from convexrank.core.results import Certificate, Solution, check_solution, problem_of
from convexrank.data import check_flag, check_positive_weights, check_vector, read_array, shown
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.data.messages import progress_as_verbose
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm, log_sum_exp_gradient
from convexrank.problems._formulation import Formulation
from convexrank.problems.bipartite._base import Bipartite
from convexrank.problems.out_of_memory._streams import refuse_chunks
from convexrank.problems.single_index._kernel_features import centred_square_norm
from convexrank.problems.single_index.kernel_learned_divergence import KernelLearnedDivergence
from convexrank.problems.single_index.learned_divergence import LearnedDivergence
from convexrank.regularizers import soft_threshold

__all__ = ["LeaveOneOut", "PerturbationBound", "leave_one_out", "perturbation_bound"]

Array = np.ndarray

# Gradients are sums over rows: how many units of rounding they are off by, times the size of their terms.
_ROUNDING = 64.0


@dataclass(frozen=True)
class LeaveOneOut:
    """Bounds on the change of the minimiser when one row is left out.

    Parameters
    ----------
    rows : ndarray of int, shape (m,)
        The rows that are left out, one at a time.
    distances : ndarray, shape (m,)
        Upper bounds on the Euclidean distance between the given w and the minimiser without the row. Infinite if the
        row cannot be left out, such as the last positive.
    weights : ndarray, shape (m,)
        The dual weights of the rows: positive for rows that are pulled up.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[1.0], [2.0], [1.5], [0.0], [0.5]], [1, 1, 0, 0, 0]
    >>> bounds = cr.leave_one_out(cr.problems.PNormPush(X, y, p=4, l2=0.5).solve())
    >>> int(bounds.rows[bounds.distances.argmax()])
    2
    """

    rows: Array
    distances: Array
    weights: Array


@progress_as_verbose
def leave_one_out(solution: Any, rows: Any = None, *, verbose: bool = False) -> LeaveOneOut:
    r"""Bound the change of the minimiser when one row is left out, for each row, without a refit.

    :math:`\|\tilde w - w\|_2 \le \frac{1}{\lambda_2}\frac{\alpha_i}{1-\alpha_i}\|x_i - \mu_+\|_2` for a positive i of
    the P-Norm Push, with :math:`\mu_+=\sum_i\alpha_ix_i`, and the same with β for a negative; see
    :mod:`convexrank.bounds.perturbation`. The bound is attained if the risk is linear between the two points.

    Parameters
    ----------
    solution : Solution
        A solution of a problem with a dual and with weights of rows (``sample_weight``), with l2 > 0. Pushes that are
        sums of log-sum-exps, such as :class:`~convexrank.problems.PNormPush`, take O(nd) for all rows; of others, such
        as :class:`~convexrank.problems.ConvexRisk`, the certificate is evaluated once per row.
    rows : array of int, optional
        The rows to leave out, one at a time; all by default.
    verbose : bool
        Whether to show a progress bar, for problems whose certificate is evaluated for each row.

    Returns
    -------
    LeaveOneOut
        Distances and dual weights.

    Raises
    ------
    TypeError
        When ``solution`` is not a Solution, or rows are not integers.
    ValueError
        When l2 is 0, a row is out of range, the problem has no weights of rows, or the solution has no problem.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=2, l2=0.5)
    >>> leave_one_out(problem.solve(), rows=[1, 3]).rows
    array([1, 3])
    """
    problem = problem_of(check_solution(solution), "solve again")
    weighted = any(field.name == "sample_weight" for field in fields(problem))
    if not isinstance(problem, Formulation) or not weighted or problem._conjugate is None:
        raise ValueError(
            f"solution is of a {type(problem).__name__}, expected one of a problem with a dual and with weights of "
            "rows, such as PNormPush, IRPush, TopPush or ConvexRisk."
        )
    if problem._stream is not None:
        refuse_chunks(problem.X, "bounds for each row")
    if not problem.l2 > 0:
        raise ValueError(f"l2 is {problem.l2}, expected more than 0: nothing else bounds how far w moves.")
    chosen, shows = _checked(rows, problem.rows), check_flag(verbose, "verbose")
    logs = problem._log_sum_exps if isinstance(problem, Bipartite) else None
    if logs is not None:
        distances = _of_logarithms(problem, logs.terms, solution.x)[chosen]
    else:
        each = progress_bar(shows, what="rows", over=chosen.tolist())
        distances = np.array([_by_certificate(problem, solution.x, row) for row in each])
    return LeaveOneOut(chosen, distances, solution.weights[chosen])


def _checked(rows: Any, count: int) -> Array:
    if rows is None:
        return np.arange(count)
    given = read_array(rows, "rows")
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise TypeError(f"rows is {shown(rows)}, expected a list of row numbers.")
    check_vector(given, len(given), "rows")
    if len(given) and not (0 <= given.min() and given.max() < count):
        raise ValueError(f"rows has {given.min()} to {given.max()}, expected 0 to {count - 1}.")
    return given.astype(np.intp)


def _of_logarithms(problem: Formulation, terms: tuple[LogSumExpTerm, ...], w: Array) -> Array:
    """The bound in closed form, for all rows."""
    X, scores = entries(problem.X), np.asarray(problem.scores(w), dtype=np.float64)
    forces = np.zeros((problem.rows, problem.dimension))
    gradient = problem.l2 * w
    sizes = np.abs(problem.l2 * w)
    stays = np.ones(problem.rows)
    for term in terms:
        shares = log_sum_exp_gradient(term.exponents(scores))[1]
        weights = np.zeros(problem.rows)
        weights[term.rows] = shares
        mean = np.asarray(transposed_times(X, weights), dtype=np.float64)
        gradient = gradient + term.rate * mean
        sizes = sizes + abs(term.rate) * np.asarray(transposed_times(abs(X), weights), dtype=np.float64)
        rest = np.maximum(1.0 - shares - 8.0 * EPS, 0.0)  # rounded down
        some = unpacked(X[term.rows]) - mean
        with np.errstate(divide="ignore", invalid="ignore"):  # a row that has all of the weight
            forces[term.rows] += (term.rate * shares / rest)[:, None] * some
        stays[term.rows] *= len(term.rows) > 1
    shortest = np.where(w != 0.0, gradient + problem.l1 * np.sign(w), soft_threshold(gradient, problem.l1))
    error = float(np.linalg.norm(np.abs(shortest) + _ROUNDING * EPS * math.sqrt(problem.rows) * sizes))
    lengths = np.linalg.norm(forces, axis=1) * (1.0 + 1e-9) + error
    return np.where((stays > 0.0) & np.isfinite(lengths), lengths / problem.l2, np.inf)


def _by_certificate(problem: Formulation, w: Array, row: int) -> float:
    """The bound from the gap of w in the problem without the row."""
    weights = np.ones(problem.rows) if problem.sample_weight is None else np.array(problem.sample_weight)
    weights[row] = 0.0
    try:
        without = problem.changed(sample_weight=weights)
    except ValueError:  # nothing would be left to rank
        return math.inf
    return _distance(without.certificate(w), problem.l2)


def _distance(certificate: Certificate, l2: float) -> float:
    """Return how far the minimiser may be by strong convexity; a gap over a ball says nothing of what is outside."""
    return math.sqrt(2.0 * certificate.gap / l2) if certificate.kind == "global" else math.inf


@dataclass(frozen=True)
class PerturbationBound:
    """Bounds on the distance between the minimisers for two vectors of targets.

    Parameters
    ----------
    corrected : float
        The corrected bound, which holds for all data and needs no solve. Infinite with both ``smooth`` and
        ``output_range``: then the fitted values may change by more than the targets, and no such bound is known.
    published : float
        Theorem 8 as published. It holds for a known link; for a learned link it can be too small, even 0.
    at_solution : float
        The sharpest bound, which also holds: from the certificates of one point under both vectors of targets. NaN
        without a solution.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.LearnedDivergence([[-1.0], [0.0], [1.0]], [-1.0, 0.0, 1.0], strong=1.0, l2=0.5)
    >>> round(cr.perturbation_bound(problem, [-1.0, 0.0, 1.3]).corrected, 3)
    0.462
    """

    corrected: float
    published: float
    at_solution: float = math.nan


def perturbation_bound(
    problem: LearnedDivergence | KernelLearnedDivergence,
    targets: Any,
    *,
    solution: Any = None,
    metric: Any = None,
) -> PerturbationBound:
    r"""Bound the change of the minimiser when the targets of a problem are replaced.

    As printed, (4.24), and in the normalisation of this package,
    :math:`\|\tilde w-w\|_K \le \|X^\top(\tilde y-y)\|_{K^{-1}} \max_j K_{jj} / (n\lambda_2)` for any positive
    diagonal K. This fails: see the example, where the printed bound is 0 and the minimiser moves by 40/77. The same
    instance refutes it for the published field (``oracle="projection"``), whose fixed points are the same two numbers.
    The corrected bound is derived in :mod:`convexrank.bounds.perturbation`. Choosing K does not
    tighten it: for this penalty the bound in the norm of K is never below :math:`\sqrt{\max_j K_{jj}}` times the
    Euclidean one, which is returned.

    Parameters
    ----------
    problem : LearnedDivergence or KernelLearnedDivergence
        The problem with the targets y, with ``oracle="marginal"`` and l2 > 0. With a kernel the distance is that of the
        feature space, :math:`\sqrt{(\tilde\alpha-\alpha)^\top K(\tilde\alpha-\alpha)}`.
    targets : array, shape (n,)
        The other targets ỹ.
    solution : array of shape (d,) or Solution, optional
        The minimiser for y, or a point near it, whose error is added to the bound.
    metric : array, shape (d,), optional
        The diagonal of K, greater than 0; the distance is :math:`\sqrt{\sum_j K_{jj} (\tilde w_j-w_j)^2}`. All 1 by
        default; not for a kernel.

    Returns
    -------
    PerturbationBound
        ``corrected`` and ``at_solution``, which hold, and ``published``, which may not.

    Raises
    ------
    ValueError, TypeError
        When the problem is of another kind, has no l2, or has the published oracle; or an array does not fit.

    Notes
    -----
    O(nd²); above 1000 columns a number of products with X.

    References
    ----------
    Dissertation on learning to rank with Bregman divergences, section 4.5: Theorem 8, (4.24).

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y, moved = [[-1.0], [0.0], [1.0]], [-1.0, 0.0, 1.0], [-2 / 3, -2 / 3, 4 / 3]
    >>> problem = cr.problems.LearnedDivergence(X, y, strong=1.0, l2=1 / 15)
    >>> other = cr.problems.LearnedDivergence(X, moved, strong=1.0, l2=1 / 15)
    >>> solution = problem.solve()
    >>> print(f"{abs(other.solve().x[0] - solution.x[0]):.4f}")  # 10/7 - 10/11
    0.5195
    >>> bound = cr.perturbation_bound(problem, moved, solution=solution)
    >>> print(f"{bound.published:.4f} {bound.at_solution:.4f} {bound.corrected:.4f}")
    0.0000 1.8182 11.5470
    """
    if isinstance(problem, KernelLearnedDivergence):
        if metric is not None:
            raise ValueError(
                "metric is for features; the distance of a kernel problem is that of its feature space."
            )
        solution = None if solution is None else problem.coordinates(solution)
        problem = problem.linear
    _check_problem(problem)
    refuse_chunks(problem.X, "distances to minimisers")
    n, d = problem.X.shape
    moved = check_vector(targets, n, "targets", most=LARGEST_ENTRY)
    weights = check_positive_weights(metric, d, "metric")
    largest = 1.0 if weights is None else float(weights.max())
    change = moved - problem.y
    pull = np.asarray(problem.X.T @ change, dtype=np.float64)
    # lengths by hypot: squares would be 0 or infinite far out
    published = math.hypot(*(pull if weights is None else pull / np.sqrt(weights))) * largest
    if problem.output_range is not None and problem.smooth is not None:
        corrected = math.inf
    else:
        squared, rounding = centred_square_norm(problem.X)
        spread = math.sqrt(squared + rounding) * math.hypot(*(change - change.mean()))
        corrected = 2.0 * spread * math.sqrt(largest)
    scale = n * problem.l2
    return PerturbationBound(
        corrected / scale, published / scale, _at_solution(problem, moved, solution) * math.sqrt(largest)
    )


def _check_problem(problem: object) -> None:
    if not isinstance(problem, LearnedDivergence):
        raise TypeError(
            f"problem is of type {type(problem).__name__}, expected a LearnedDivergence, or one with a kernel."
        )
    if problem.oracle != "marginal":
        raise ValueError(
            f'problem has oracle="{problem.oracle}", whose fixed points minimise nothing and have no such bound; make '
            'it with oracle="marginal".'
        )
    if not problem.l2 > 0:
        raise ValueError("problem has l2 = 0; the bound divides by it: give l2 > 0.")


def _at_solution(problem: LearnedDivergence, moved: Array, solution: Any) -> float:
    """Distance between the two minimisers by way of a point whose gaps are certified for both problems."""
    if solution is None:
        return math.nan
    point = problem.check_point(solution.x if isinstance(solution, Solution) else solution, "solution")
    both = problem, replace(problem, y=moved)
    return sum(_distance(made.certificate(point), problem.l2) for made in both)
