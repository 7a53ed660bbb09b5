r"""Change of the minimiser of a learned divergence when the targets change: Theorem 8, and its correction.

Let w and w̃ minimise the marginal objective for targets y and ỹ, with the penalty :math:`\tfrac{\lambda_2}2\|w\|^2`.
The objective is λ₂-strongly convex, so w̃ is no further from w than the new gradient at w over λ₂, and that gradient is

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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.core.results import Solution
from convexrank.data import check_positive_weights, check_vector
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.problems.out_of_memory._streams import refuse_chunks
from convexrank.problems.single_index._kernel_features import centred_square_norm
from convexrank.problems.single_index.kernel_learned_divergence import KernelLearnedDivergence
from convexrank.problems.single_index.learned_divergence import LearnedDivergence

__all__ = ["PerturbationBound", "perturbation_bound"]

Array = np.ndarray


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
    published = math.sqrt(float(np.sum(pull**2 if weights is None else pull**2 / weights))) * largest
    if problem.output_range is not None and problem.smooth is not None:
        corrected = math.inf
    else:
        squared, rounding = centred_square_norm(problem.X)
        spread = math.sqrt(squared + rounding) * float(np.linalg.norm(change - change.mean()))
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
    gaps = [made.certificate(point).gap for made in (problem, replace(problem, y=moved))]
    return sum(math.sqrt(2.0 * gap / problem.l2) for gap in gaps)
