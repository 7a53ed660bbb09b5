"""The names of the front door and where each is: read when one is asked for, and by type checkers."""

from convexrank import (
    atoms as atoms,
)
from convexrank import (
    bounds as bounds,
)
from convexrank import (
    calibration as calibration,
)
from convexrank import (
    claims as claims,
)
from convexrank import (
    consensus as consensus,
)
from convexrank import (
    data as data,
)
from convexrank import (
    divergences as divergences,
)
from convexrank import (
    features as features,
)
from convexrank import (
    graphs as graphs,
)
from convexrank import (
    inference as inference,
)
from convexrank import (
    jax_losses as jax_losses,
)
from convexrank import (
    links as links,
)
from convexrank import (
    losses as losses,
)
from convexrank import (
    metrics as metrics,
)
from convexrank import (
    modelling as modelling,
)
from convexrank import (
    objectives as objectives,
)
from convexrank import (
    plotting as plotting,
)
from convexrank import (
    population as population,
)
from convexrank import (
    prices as prices,
)
from convexrank import (
    problems as problems,
)
from convexrank import (
    projections as projections,
)
from convexrank import (
    regularizers as regularizers,
)
from convexrank import (
    solvers as solvers,
)
from convexrank.bounds.perturbation import leave_one_out as leave_one_out
from convexrank.bounds.perturbation import perturbation_bound as perturbation_bound
from convexrank.commands.listing import show_versions as show_versions
from convexrank.core.many import Solutions as Solutions
from convexrank.core.many import solve_many as solve_many
from convexrank.core.paths import Path as Path
from convexrank.core.paths import path as path
from convexrank.core.problem import Problem as Problem
from convexrank.core.results import (
    Certificate as Certificate,
)
from convexrank.core.results import (
    CertificateError as CertificateError,
)
from convexrank.core.results import (
    ConvergenceWarning as ConvergenceWarning,
)
from convexrank.core.results import (
    Solution as Solution,
)
from convexrank.core.results import (
    Status as Status,
)
from convexrank.core.results import (
    Witness as Witness,
)
from convexrank.differentiable import SolutionMap as SolutionMap
from convexrank.estimators import (
    BandCalibratedClassifier as BandCalibratedClassifier,
)
from convexrank.estimators import (
    LeafFeatures as LeafFeatures,
)
from convexrank.estimators import (
    OnlineMEMR as OnlineMEMR,
)
from convexrank.estimators import (
    PromisedThresholdClassifier as PromisedThresholdClassifier,
)
from convexrank.estimators import (
    PushRanker as PushRanker,
)
from convexrank.estimators import (
    PushRankerCV as PushRankerCV,
)
from convexrank.estimators import (
    QueryScaler as QueryScaler,
)
from convexrank.estimators import (
    Ranker as Ranker,
)
from convexrank.estimators import (
    RetargetingRanker as RetargetingRanker,
)
from convexrank.estimators import (
    RetargetingRankerCV as RetargetingRankerCV,
)
from convexrank.estimators import (
    SingleIndexRegressor as SingleIndexRegressor,
)
from convexrank.estimators import (
    TableEncoder as TableEncoder,
)
from convexrank.estimators import (
    ThresholdFeatures as ThresholdFeatures,
)
from convexrank.estimators.graph_ranks import (
    antitrust_rank as antitrust_rank,
)
from convexrank.estimators.graph_ranks import (
    check_ranks as check_ranks,
)
from convexrank.estimators.graph_ranks import (
    combined_rank as combined_rank,
)
from convexrank.estimators.graph_ranks import (
    lpq_rank as lpq_rank,
)
from convexrank.estimators.graph_ranks import (
    pagerank as pagerank,
)
from convexrank.estimators.graph_ranks import (
    trust_rank as trust_rank,
)
from convexrank.features.shapes import shapes as shapes
from convexrank.graphs import Graph as Graph
from convexrank.graphs import LabelledGraph as LabelledGraph
from convexrank.problems._cvxpy import CvxpyFormulation as CvxpyFormulation
from convexrank.problems._formulation import Formulation as Formulation
from convexrank.verification.loss.report import LossReport as LossReport
from convexrank.verification.loss.verify import verify_loss as verify_loss
from convexrank.verification.report import Report as Report
from convexrank.verification.report import verify as verify

__version__: str
__all__: list[str]
