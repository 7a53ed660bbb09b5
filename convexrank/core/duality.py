"""From a problem to its dual, and from a solution to the dual point that belongs to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.interruption import import_module
from convexrank.core.capabilities import Solvable
from convexrank.core.results import Solution, Status, Witness

# Where the class is. As a solver it is imported when it is asked for: it draws random instances of the formulations.
_DUAL = "convexrank.problems.duals.ranking_dual:RankingDual"
# Ends at which the primal has no minimiser.
_NO_MINIMISER = frozenset({Status.SEPARABLE, Status.UNBOUNDED, Status.INFEASIBLE})


def dual_of(problem: Solvable, conjugate: Any) -> Any:
    """Return the dual of a problem.

    Parameters
    ----------
    problem : Problem
        The primal.
    conjugate : Conjugate or None
        The conjugate of its risk, where that is known.

    Raises
    ------
    ValueError
        When no conjugate of its risk is known; the message says which risks have one.
    """
    if conjugate is None:
        raise ValueError(
            f"this {type(problem).__name__} has no dual here: no conjugate of its risk is known. Duals have risks that "
            "are expressions of scores, such as those of PNormPush, TopPush and RankSVM, with the losses exponential, "
            "logistic, hinge and squared_hinge, and the PageRankGame."
        )
    module, name = _DUAL.split(":")
    return getattr(import_module(module), name)(problem)


def dual_solution(dual: Any, solution: Solution) -> Solution:
    """Return the dual point of a solution as a solution of the dual, with its own gap.

    Parameters
    ----------
    dual : RankingDual
        The dual.
    solution : Solution
        A solution of the primal.

    Raises
    ------
    ValueError
        When the primal has no minimiser.
    """
    if solution.status in _NO_MINIMISER:
        raise ValueError(
            f"the status of this solution is {solution.status.name}, so that no weights of rows belong to it; add "
            "l2 or l1."
        )
    x, witness = dual.at(solution), Witness(solution.x[None, :], np.ones(1))
    certificate = dual.certificate(x, witness)
    return Solution(
        x=x,
        value=certificate.value,
        gap=certificate.gap,
        residual=certificate.gap,
        status=solution.status,
        iterations=0,
        seconds=0.0,
        trace={},
        certificate=certificate,
        solver=solution.solver,
        problem=type(dual).__name__,
        message=f"the dual point of a solution of the primal ({certificate})",
        witness=witness,
        instance=dual,
    )
