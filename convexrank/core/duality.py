"""From a problem to its dual."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["HAVE_DUALS", "dual_of"]

#: The formulations with a dual. They know their conjugates; this is for messages.
HAVE_DUALS = (
    "PNormPush", "TopPush", "BottomPush", "TopBottomPush", "IRPush", "RmaxPush", "ConvexRisk", "ListNet",
    "NDCGRegression", "RankSVM", "PageRankGame",
)  # fmt: skip

# Where the class is. As a solver it is imported when it is asked for: it draws random instances of the formulations.
_DUAL = "convexrank.problems.duals.ranking_dual:RankingDual"


def dual_of(problem: Any) -> Any:
    """Return the dual of a problem.

    Parameters
    ----------
    problem : Problem
        The primal.

    Raises
    ------
    ValueError
        When no conjugate of its risk is known; the message says which formulations have one.
    """
    if problem.conjugate is None:
        raise ValueError(
            f"this {type(problem).__name__} has no dual here: no conjugate of its risk is known. Duals have "
            f"{', '.join(HAVE_DUALS)}, with the losses exponential, logistic, hinge and squared_hinge."
        )
    module, name = _DUAL.split(":")
    return getattr(import_module(module), name)(problem)
