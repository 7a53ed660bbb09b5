"""Choice of the solver for a problem with linear scores: by its capabilities, then by a model of the costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.design import held_as

# Seconds on one core; their ratios matter. Measured with PNormPush, 600 to 10⁶ rows and 6 to 300 columns.
_ENTRY = 1e-9  # value and gradient, for an entry of X
_PRODUCT = 1.2e-10  # a multiplication in XᵀCX
_FACTOR = 5e-11  # a multiplication in a factorisation
_NEWTON_STEP, _LBFGS_STEP = 1e-4, 3e-4  # the rest of a step
# Steps to a relative gap of 1e-8 on typical data, and those of L-BFGS from the Hessian of a sample.
_NEWTON_STEPS, _LBFGS_STEPS, _SAMPLED_STEPS = 8, 25, 10
# Newton's method does not depend on the conditioning of the data. It is chosen if its estimate is at
# most this factor times that of L-BFGS, or at most this number of seconds.
_ROBUST, _SHORT = 1.5, 0.1
# From this number of columns on, methods on few columns are faster than methods on all columns.
_WIDE = 200


@dataclass(frozen=True)
class Choice:
    """A solver and why it was chosen."""

    solver: str
    reason: str


def choose(
    X: Any,
    offered: frozenset[str],
    *,
    pairwise_curvature: bool,
    sample_rows: int,
    states_curvature: bool,
    columns_differ: bool,
) -> Choice:
    """Return the solver for a problem with linear scores, and the reason.

    Parameters
    ----------
    X : array, sparse array or design
        The features.
    offered : frozenset of str
        The capabilities of the problem.
    pairwise_curvature : bool
        Whether second derivatives run over all pairs, and gradients over rows.
    sample_rows : int
        The rows of a sample that tells the shape of the objective; 0 where none is drawn.
    states_curvature : bool
        Whether the curvature in the scores is stated.
    columns_differ : bool
        Whether the risk has kinks and some columns are larger than others by far.
    """
    plain = isinstance(X, np.ndarray)
    stored = plain or held_as(X).built
    by_products = "HessianProducts" in offered and not pairwise_curvature
    if by_products and stored and not plain:
        return Choice("newton-cg", "sparse features: products with X cost less than a Hessian")
    if "TwiceDifferentiable" in offered and stored:
        if not plain:
            return Choice("lbfgs", "sparse features: products with X cost less than second derivatives")
        if pairwise_curvature:
            return Choice("lbfgs", "second derivatives would run over all pairs")
        found = _newton_or_lbfgs(X.shape[0], X.shape[1], sample_rows)
        if by_products and found.solver == "lbfgs" and X.shape[1] > X.shape[0]:
            return Choice("newton-cg", "more columns than rows: products with X cost less than a Hessian")
        return found
    if "Smooth" in offered:
        return Choice("lbfgs", "smooth, and no second derivatives are offered")
    if "Columnwise" in offered and (X.shape[1] > _WIDE or not plain or states_curvature):
        return Choice("working-sets", "an l1 penalty: few columns matter")
    if "Proximal" in offered:
        return Choice("accelerated", "smooth but for the penalty")
    if "Smoothable" in offered and not columns_differ:
        return Choice("continuation", "a risk with kinks, and l2")
    return Choice("bundle", f"a risk with kinks{', and columns of very different sizes' * columns_differ}")


def _newton_or_lbfgs(rows: int, columns: int, sample: int) -> Choice:
    """Compare estimates of the seconds that both take."""
    oracle = _ENTRY * rows * columns
    step = _NEWTON_STEP + oracle + _PRODUCT * rows * columns**2 + _FACTOR * columns**3
    newton = _NEWTON_STEPS * step
    if sample:
        at_sample = sample / rows * (_NEWTON_STEPS * oracle + 2 * _PRODUCT * rows * columns**2)
        lbfgs = _SAMPLED_STEPS * (_LBFGS_STEP + oracle) + at_sample
    else:
        lbfgs = _LBFGS_STEPS * (_LBFGS_STEP + oracle)
    chosen = "newton" if newton <= max(_ROBUST * lbfgs, _SHORT) else "lbfgs"
    shape = f"{rows} x {columns}, dense: an estimate of"
    slower = ", which conditioning may slow down" if chosen == "newton" and lbfgs < newton else ""
    return Choice(chosen, f"{shape} {newton:.1g} s by newton and {lbfgs:.1g} s by lbfgs{slower}")
