"""Quasi-Newton steps on a smooth function below a risk, for many unknowns.

The systems of Newton's method are solved by conjugate gradients there, to few digits. Where most of the rows near a
kink change sides in each step, hundreds of products with the Hessian lead no farther than a step of L-BFGS, which takes
two or three reads of X.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Convex
from convexrank.solvers.descent.lbfgs import remembered, two_loops
from convexrank.solvers.descent.smoothed.places import Place, System, searched

Array = np.ndarray

# Steps of which one of the method is made, pairs that are kept, and the share of the slope at which a line is left.
_TOGETHER, _KEPT, _FLAT = 50, 8, 0.9


@dataclass(frozen=True)
class Secants:
    """Where steps have led, with the pairs of differences, and the places with the least value and the best bound."""

    here: Place
    pairs: tuple[tuple[Array, Array, float], ...]
    seen: tuple[Place, ...]


def secant_steps(
    problem: Convex, here: Place, pairs: tuple[tuple[Array, Array, float], ...], share: float
) -> Secants:
    """Take steps until the error is a share of what the smoothing costs; none are seen where rounding hides descent."""
    lowest = proved = None
    for _ in range(_TOGETHER):
        check_time()
        direction = -(two_loops(here.gradient, pairs) if pairs else System(here, 0).solve(here.gradient))
        found = searched(problem, here, direction, _FLAT)
        if found is None:
            if not pairs:
                break
            pairs = ()
            continue
        pairs = remembered(pairs, found.w - here.w, found.gradient - here.gradient, _KEPT)
        here = found
        lowest = here if lowest is None or here.objective < lowest.objective else lowest
        proved = here if proved is None or here.bound > proved.bound else proved
        if here.error <= share * here.lag:
            break
    return Secants(here, pairs, () if lowest is None or proved is None else (lowest, proved))
