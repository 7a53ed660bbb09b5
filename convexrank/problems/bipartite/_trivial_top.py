"""TopPush and RmaxPush with minimiser w = 0, and the limit p → ∞ in its place."""

from __future__ import annotations

import math

import numpy as np

from convexrank.backend.design import dense, held_as
from convexrank.core.results import Solution
from convexrank.core.separability import find_separation
from convexrank.problems.bipartite._base import Bipartite
from convexrank.problems.bipartite.p_norm_push import PNormPush

Array = np.ndarray

# A value lower than that at w = 0 by more than this, relative, is no trivial minimum.
_LOWER = 1e-6
# A linear program over more entries than this would take longer than the solve.
_MOST_ENTRIES = 2_000_000
# Negatives per column among which there are often enough that no direction puts the mean positive above all.
_TOLD = 12

_TRIVIAL = (
    "this is the trivial minimum w = 0: no direction puts the mean positive above every negative, so all rows score "
    "alike and nothing is learned; use a large finite p (PNormPush with p = 64), problem.at_limit() (in PushRanker "
    "tie_break='limit'), or features that separate the top"
)
_NO_GAIN = (
    "this is no better than w = 0, at which all rows score alike: either no direction puts the mean positive above "
    "every negative, or the penalty leaves none; use a smaller penalty, or a large finite p (PNormPush with p = 64)"
)

_TOO_FEW = (
    "this is no better than the trivial minimum w = 0, at which all rows score alike: no direction puts the positives "
    "above the highest negatives that count, on average, or the penalty leaves none; use a smaller penalty, or let "
    "more of the negatives count"
)


def trivial_remark(problem: Bipartite, solution: Solution) -> str:
    """Return a remark if no direction lowers the risk at 0; a linear program decides, if nothing is gained.

    For many rows the program is not solved, and the remark states only that nothing was gained.
    """
    if not _gains_nothing(problem, solution):
        return ""
    many = problem.rows * problem.dimension > _MOST_ENTRIES
    if many or problem.qid is not None or not held_as(problem.X).in_memory:
        return _NO_GAIN
    mean, negatives = _mean_and_negatives(problem)
    some = negatives[:: max(1, len(negatives) // (_TOLD * problem.dimension))]  # often they tell
    for rows in (some, negatives) if len(some) < len(negatives) else (negatives,):
        if find_separation(mean - rows, np.zeros((len(rows), 0))).kind != "strict":
            return _TRIVIAL
    return ""


def _gains_nothing(problem: Bipartite, solution: Solution) -> bool:
    """Return whether the objective is no lower than at 0."""
    x, value, gap = solution.x, solution.value, solution.gap
    if not np.isfinite(x).all():
        return False
    if not x.any():
        return True
    l2 = problem.l2
    if l2 > 0.0:  # the objective rises from its minimum by at least l2/2 times the square of the distance
        far = max(math.sqrt(float(x @ x)) - math.sqrt(2.0 * gap / l2), 0.0)
        if 0.5 * l2 * far**2 - gap > 2.0 * _LOWER * max(1.0, abs(value)):
            return False
    at_zero = problem.objective(np.zeros(problem.dimension))
    return not at_zero - value > _LOWER * max(1.0, abs(at_zero))


def remark_on_few(problem: Bipartite, solution: Solution) -> str:
    """Return a remark if the highest negatives that count leave nothing to gain."""
    return _TOO_FEW if _gains_nothing(problem, solution) else ""


def limit_problem(problem: Bipartite) -> PNormPush:
    r"""Return the problem whose minimiser is the limit of the directions of PNormPush as p grows.

    With w = v/p the P-Norm Push is, up to terms that vanish as 1/p,
    :math:`\frac1p \log \sum_k b_k e^{\langle v, x_k - \bar x\rangle}` with the mean positive :math:`\bar x`: a push
    with p = 1 and one positive row.
    """
    if problem.qid is not None:
        raise ValueError(
            "qid is given, but the limit of directions is known for one list; take the rows of one query."
        )
    mean, negatives = _mean_and_negatives(problem)
    labels = np.r_[True, np.zeros(len(negatives), dtype=bool)]
    return PNormPush(
        np.vstack([mean, negatives]), labels, 1.0, sample_weight=np.r_[1.0, problem._negative_weights]
    )


def _mean_and_negatives(problem: Bipartite) -> tuple[Array, Array]:
    rows, count = dense(problem.X[np.r_[problem.positives, problem.negatives]]), len(problem.positives)
    return problem._positive_shares @ rows[:count], rows[count:]
