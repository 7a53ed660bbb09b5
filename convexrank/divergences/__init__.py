r"""Bregman divergences: generators, links, conjugates, projections, and Bregman's algorithm.

A divergence is an object, or one of the names bit_entropy, generalized_i, itakura_saito, kl, shifted_generalized_i,
squared. It offers the function φ (``phi``), its gradient and the inverse of that (``gradient``,
``inverse_gradient``), the conjugate, the divergence and that of the conjugate, the Fenchel–Young gap, the constants
of strong convexity and smoothness on a box, and its cvxpy form. Vectors have shape (n,); values are sums over the
entries. An entry outside the domain is an error that names it; JAX arrays are not checked.
"""

from __future__ import annotations

from convexrank.divergences.base import Divergence
from convexrank.divergences.domains import Interval
from convexrank.divergences.generators.from_expression import FromGenerator
from convexrank.divergences.generators.kl import KL
from convexrank.divergences.generators.polytope_entropy import PolytopeEntropy
from convexrank.divergences.generators.separable import (
    BitEntropy,
    GeneralizedI,
    ItakuraSaito,
    SquaredEuclidean,
)
from convexrank.divergences.names import resolve
from convexrank.divergences.projections.bregman import BregmanResult, bregman
from convexrank.divergences.projections.hyperplanes import (
    hyperplane_multiplier,
    project_halfspace,
    project_hyperplane,
)
from convexrank.divergences.projections.sets import project_box, project_monotone, project_simplex

__all__ = [
    "KL",
    "BitEntropy",
    "BregmanResult",
    "Divergence",
    "FromGenerator",
    "GeneralizedI",
    "Interval",
    "ItakuraSaito",
    "PolytopeEntropy",
    "SquaredEuclidean",
    "bregman",
    "hyperplane_multiplier",
    "project_box",
    "project_halfspace",
    "project_hyperplane",
    "project_monotone",
    "project_simplex",
    "resolve",
]
