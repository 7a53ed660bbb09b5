r"""Bounds on the change of the minimiser when one row is left out.

Let w̃ minimise the objective F̃ without row r. With l2 it is λ₂-strongly convex, so w̃ is no further from any w than
the length of any subgradient of F̃ at w, over λ₂. If the risk is a sum of log-sum-exps and w minimises F, the
subgradient of F̃ at w is the effect of the row: a term :math:`c\log\sum_j e^{t\theta_j+v_j}` has shares s at w, and
without row r the others have :math:`s_j/(1-s_r)`. So with the mean :math:`\mu=\sum_j s_jx_j`

.. math:: \|\tilde w - w\|_2 \;\le\;
          \frac1{\lambda_2}\Bigl(\Bigl\|\sum_{\text{terms}} ct\,\frac{s_r}{1-s_r}(x_r-\mu)\Bigr\|_2 + \|e\|_2\Bigr)

where e is the shortest subgradient of F at w, which is 0 at a minimiser. For the P-Norm Push :math:`|ct| = 1` and s_r
is the dual weight α or β. For other risks with weights of rows the certificate of F̃ at w bounds F̃(w) − F̃(w̃), and
:math:`\|\tilde w-w\|^2` is at most :math:`2/\lambda_2` times that. Both bounds hold for every w, up to rounding of the
data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from convexrank.backend.gram import entries, transposed_times
from convexrank.backend.progress import progress_bar
from convexrank.core.minorants import EPS
from convexrank.core.results import check_solution, problem_of
from convexrank.data import check_flag, check_vector, read_array, shown
from convexrank.data.deprecation import progress_as_verbose
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm, log_sum_exp_gradient
from convexrank.problems._formulation import Formulation
from convexrank.problems.bipartite._base import Bipartite
from convexrank.problems.out_of_memory._streams import refuse_chunks
from convexrank.regularizers import soft_threshold

__all__ = ["LeaveOneOut", "leave_one_out"]

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
    :mod:`convexrank.bounds.leave_one_out`. The bound is attained if the risk is linear between the two points.

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
    forces, gradient, sizes = (
        np.zeros((problem.rows, problem.dimension)),
        problem.l2 * w,
        np.abs(problem.l2 * w),
    )
    stays = np.ones(problem.rows)
    for term in terms:
        shares = log_sum_exp_gradient(term.exponents(scores))[1]
        weights = np.zeros(problem.rows)
        weights[term.rows] = shares
        mean = np.asarray(transposed_times(X, weights), dtype=np.float64)
        gradient = gradient + term.rate * mean
        sizes = sizes + abs(term.rate) * np.asarray(transposed_times(abs(X), weights), dtype=np.float64)
        rest = np.maximum(1.0 - shares - 8.0 * EPS, 0.0)  # rounded down
        some = X[term.rows]
        some = (some.toarray() if hasattr(some, "toarray") else some) - mean
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
    return math.sqrt(2.0 * without.certificate(w).gap / problem.l2)
