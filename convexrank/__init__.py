"""Convex ranking objectives: solved exactly with cvxpy, solved fast, with a check that the two answers agree.

Names are imported when they are first used, so that ``import convexrank`` takes little time.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from convexrank.backend.interruption import import_module

__version__ = "0.1.0"

logging.getLogger("convexrank").addHandler(
    logging.NullHandler()
)  # silent, unless the program sets up logging

_MODULES = (
    "atoms",
    "bounds",
    "calibration",
    "claims",
    "consensus",
    "data",
    "divergences",
    "features",
    "graphs",
    "inference",
    "jax_losses",
    "links",
    "losses",
    "metrics",
    "modelling",
    "objectives",
    "plotting",
    "population",
    "prices",
    "problems",
    "projections",
    "regularizers",
    "solvers",
)
_OBJECTS = {
    "BandCalibratedClassifier": "convexrank.estimators",
    "Certificate": "convexrank.core.results",
    "CertificateError": "convexrank.core.results",
    "ConvergenceWarning": "convexrank.core.results",
    "CvxpyFormulation": "convexrank.problems._from_cvxpy",
    "Formulation": "convexrank.problems._formulation",
    "Graph": "convexrank.graphs",
    "LabelledGraph": "convexrank.graphs",
    "LeafFeatures": "convexrank.estimators",
    "LossReport": "convexrank.verification.loss.report",
    "OnlineMEMR": "convexrank.estimators",
    "Problem": "convexrank.core.problem",
    "PromisedThresholdClassifier": "convexrank.estimators",
    "PushRanker": "convexrank.estimators",
    "PushRankerCV": "convexrank.estimators",
    "Report": "convexrank.verification.report",
    "QueryScaler": "convexrank.estimators",
    "Ranker": "convexrank.estimators",
    "RetargetingRanker": "convexrank.estimators",
    "RetargetingRankerCV": "convexrank.estimators",
    "SingleIndexRegressor": "convexrank.estimators",
    "Solution": "convexrank.core.results",
    "SolutionMap": "convexrank.differentiable",
    "Status": "convexrank.core.results",
    "TableEncoder": "convexrank.estimators",
    "ThresholdFeatures": "convexrank.estimators",
    "Witness": "convexrank.core.results",
    "Path": "convexrank.core.paths",
    "leave_one_out": "convexrank.bounds.leave_one_out",
    "Solutions": "convexrank.core.many",
    "path": "convexrank.core.paths",
    "solve_many": "convexrank.core.many",
    "perturbation_bound": "convexrank.bounds.perturbation",
    "antitrust_rank": "convexrank.estimators.graph_ranks",
    "check_ranks": "convexrank.estimators.graph_ranks",
    "combined_rank": "convexrank.estimators.graph_ranks",
    "lpq_rank": "convexrank.estimators.graph_ranks",
    "pagerank": "convexrank.estimators.graph_ranks",
    "shapes": "convexrank.features.shapes",
    "show_versions": "convexrank.commands.listing",
    "trust_rank": "convexrank.estimators.graph_ranks",
    "verify": "convexrank.verification.report",
    "verify_loss": "convexrank.verification.loss.verify",
}

__all__ = ["__version__", *_MODULES, *_OBJECTS]

if TYPE_CHECKING:
    from convexrank import (
        atoms,
        bounds,
        calibration,
        claims,
        consensus,
        data,
        divergences,
        features,
        graphs,
        inference,
        jax_losses,
        links,
        losses,
        metrics,
        modelling,
        objectives,
        plotting,
        population,
        prices,
        problems,
        projections,
        regularizers,
        solvers,
    )
    from convexrank.bounds.leave_one_out import leave_one_out
    from convexrank.bounds.perturbation import perturbation_bound
    from convexrank.commands.listing import show_versions
    from convexrank.core.many import Solutions, solve_many
    from convexrank.core.paths import Path, path
    from convexrank.core.problem import Problem
    from convexrank.core.results import CertificateError, ConvergenceWarning, Solution, Status
    from convexrank.differentiable import SolutionMap
    from convexrank.estimators import (
        BandCalibratedClassifier,
        LeafFeatures,
        OnlineMEMR,
        PromisedThresholdClassifier,
        PushRanker,
        PushRankerCV,
        QueryScaler,
        Ranker,
        RetargetingRanker,
        RetargetingRankerCV,
        SingleIndexRegressor,
        TableEncoder,
        ThresholdFeatures,
    )
    from convexrank.estimators.graph_ranks import (
        antitrust_rank,
        check_ranks,
        combined_rank,
        lpq_rank,
        pagerank,
        trust_rank,
    )
    from convexrank.features.shapes import shapes
    from convexrank.graphs import Graph, LabelledGraph
    from convexrank.problems._formulation import Formulation
    from convexrank.problems._from_cvxpy import CvxpyFormulation
    from convexrank.verification.loss.report import LossReport
    from convexrank.verification.loss.verify import verify_loss
    from convexrank.verification.report import Report, verify


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"convexrank.{name}")
    if name in _OBJECTS:
        return getattr(import_module(_OBJECTS[name]), name)
    raise AttributeError(f"module 'convexrank' has no attribute {name!r}{_hint(name)}")


def _hint(name: str) -> str:
    """Return where a name is, if it is in a module of problems, losses or the like; else nothing."""
    if name.startswith("_"):  # other packages probe for such names
        return ""
    for module in ("problems", "losses", "prices", "divergences", "solvers", "metrics", "features"):
        if name in getattr(import_module(f"convexrank.{module}"), "__all__", ()):
            return f"; it is convexrank.{module}.{name}"
    return ""


def __dir__() -> list[str]:
    return sorted(__all__)
