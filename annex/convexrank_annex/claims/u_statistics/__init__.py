"""Ranking and empirical minimization of U-statistics: Clémençon, Lugosi and Vayatis 2006."""

from __future__ import annotations

from convexrank_annex.claims.u_statistics import convex_costs, deviations, noise, risk

__all__ = ["CLAIMS"]

CLAIMS = (*risk.CLAIMS, *deviations.CLAIMS, *noise.CLAIMS, *convex_costs.CLAIMS)
