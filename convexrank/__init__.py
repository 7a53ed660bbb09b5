"""Ranking objectives, solved: exactly with cvxpy, fast with JAX, and proved to agree.

Names are imported when first used, so that ``import convexrank`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES = (
    "atoms",
    "claims",
    "consensus",
    "data",
    "divergences",
    "features",
    "graphs",
    "jax_losses",
    "links",
    "losses",
    "metrics",
    "plotting",
    "prices",
    "problems",
    "projections",
    "regularizers",
    "solvers",
)
_OBJECTS = {
    "ConvergenceWarning": "convexrank.results",
    "Graph": "convexrank.graphs",
    "LabelledGraph": "convexrank.graphs",
    "OnlineMEMR": "convexrank.estimators",
    "Problem": "convexrank.problem",
    "PushRanker": "convexrank.estimators",
    "Report": "convexrank.verifier",
    "RetargetingRanker": "convexrank.estimators",
    "SingleIndexRegressor": "convexrank.estimators",
    "Solution": "convexrank.results",
    "Status": "convexrank.results",
    "perturbation_bound": "convexrank.sensitivity",
    "antitrust_rank": "convexrank.ranks",
    "combined_rank": "convexrank.ranks",
    "lpq_rank": "convexrank.ranks",
    "pagerank": "convexrank.ranks",
    "trust_rank": "convexrank.ranks",
    "verify": "convexrank.verifier",
}

__all__ = ["__version__", *_MODULES, *_OBJECTS]

if TYPE_CHECKING:
    from convexrank import (
        atoms,
        claims,
        consensus,
        data,
        divergences,
        features,
        graphs,
        jax_losses,
        links,
        losses,
        metrics,
        plotting,
        prices,
        problems,
        projections,
        regularizers,
        solvers,
    )
    from convexrank.estimators import OnlineMEMR, PushRanker, RetargetingRanker, SingleIndexRegressor
    from convexrank.graphs import Graph, LabelledGraph
    from convexrank.problem import ConvergenceWarning, Problem, Solution, Status
    from convexrank.ranks import antitrust_rank, combined_rank, lpq_rank, pagerank, trust_rank
    from convexrank.sensitivity import perturbation_bound
    from convexrank.verifier import Report, verify


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"convexrank.{name}")
    if name in _OBJECTS:
        return getattr(import_module(_OBJECTS[name]), name)
    raise AttributeError(f"module 'convexrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
