"""Linear functions of the weights below a risk of scores, by its conjugate at the slopes of its reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from convexrank.core.minorants import Minorant, rounding, tangent_at
from convexrank.modelling.certificates.reference import Below, Reference
from convexrank.modelling.certificates.rounding import sizes_of_terms

Array = np.ndarray


def lowered_tangent(
    X: Any, scores: Array, lengths: Array, below: Callable[[Array], Below], w: Array
) -> tuple[Minorant, Below | None]:
    """Return the tangent at w, as low as the conjugate proves it, and what proves it; None where the risk overflows.

    What that loses beyond rounding counts as a gap.

    Parameters
    ----------
    X : matrix, shape (n, d)
        The features.
    scores : ndarray, shape (n,)
        Their scores Xw.
    lengths : ndarray, shape (n,)
        Euclidean lengths of the rows.
    below : callable
        Returns the risk at scores and a linear function below it.
    w : ndarray, shape (d,)
        The point.
    """
    proved: list[Below] = []

    def risk(scores: Array) -> tuple[float, Array]:
        proved.append(below(scores))
        return proved[0][:2]

    found = tangent_at(X, scores, lengths, risk, w)
    return (found.lowered_to(proved[0].offset), proved[0]) if math.isfinite(found.risk) else (found, None)


def rounded(found: Minorant, reference: Reference, scores: Array, lengths: Array, below: Below) -> Minorant:
    """Widen bounds on rounding where terms cancel; beyond what each node may add, that counts as a gap."""
    program, sizes = reference.program, reference.sizes
    relative, enough = rounding(len(scores) + len(found.slope)), len(program.nodes) * found.risk_error
    # the error is relative to the largest score, and more
    if (
        relative * sizes.most(found.risk_error / relative, below.values, below.multipliers, below.parts)
        <= enough
    ):
        return found
    largest = float(np.abs(scores).max())
    if relative * sizes.most(largest, below.values, below.multipliers, below.parts) <= enough:
        return found
    whole, pulls = sizes_of_terms(program, below.values, below.parts)
    if not relative * whole > enough:
        return found
    return replace(
        found,
        lag=found.lag + 2.0 * relative * whole,
        risk_error=relative * whole,
        offset_error=2.0 * relative * whole,
        slope_error=relative * float(pulls @ lengths),
    )
