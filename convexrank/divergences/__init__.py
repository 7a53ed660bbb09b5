r"""Bregman divergences: generators, links, conjugates, projections, and Bregman's algorithm.

A divergence is an object, or one of the names bit_entropy, generalized_i, itakura_saito, kl, shifted_generalized_i,
squared. It offers the function φ (``phi``), its gradient and the inverse of that (``gradient``,
``inverse_gradient``), the conjugate, the divergence and that of the conjugate, the Fenchel–Young gap, the constants
of strong convexity and smoothness on a box, and its cvxpy form. Vectors have shape (n,); values are sums over the
entries. An entry outside the domain is an error that names it; JAX arrays are not checked.
"""

from __future__ import annotations

from convexrank.divergences.base import Divergence, Interval
from convexrank.divergences.bregman import BregmanResult, bregman
from convexrank.divergences.from_expression import FromGenerator
from convexrank.divergences.on_simplex import PolytopeEntropy
from convexrank.divergences.projections import (
    hyperplane_multiplier,
    project_box,
    project_halfspace,
    project_hyperplane,
    project_monotone,
    project_simplex,
)
from convexrank.divergences.separable import (
    KL,
    BitEntropy,
    GeneralizedI,
    ItakuraSaito,
    SquaredEuclidean,
    resolve,
)

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
