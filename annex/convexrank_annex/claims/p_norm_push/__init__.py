"""The P-Norm Push: Rudin 2009, and the report of 2005."""

from __future__ import annotations

from convexrank_annex.claims.p_norm_push import bounds, closure, duality, objective, report_2005, variations

__all__ = ["CLAIMS"]

CLAIMS = (
    *objective.CLAIMS,
    *bounds.CLAIMS,
    *variations.CLAIMS,
    *duality.CLAIMS,
    *closure.CLAIMS,
    *report_2005.CLAIMS,
)
