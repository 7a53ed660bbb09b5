r"""Regularizers: value, proximal map, conjugate and cvxpy form.

The conjugate :math:`\Omega^*(v) = \sup_w \langle v, w\rangle - \Omega(w)` gives the duality gaps:
:math:`\Omega(w) + \Omega^*(v) - \langle v, w\rangle \ge 0`, zero exactly when v is a subgradient of Ω at w.
"""

from __future__ import annotations

from convexrank.regularizers.norms import (
    L1,
    L2,
    Box,
    L1Ball,
    L2Ball,
    Penalty,
    Regularizer,
    Simplex,
    soft_threshold,
)

__all__ = ["L1", "L2", "Box", "L1Ball", "L2Ball", "Penalty", "Regularizer", "Simplex", "soft_threshold"]
