"""Chapter 6: L_{p,q} rank and trust."""

from __future__ import annotations

from convexrank_annex.claims.trust import convergence, forms, propagation, spam, statements

__all__ = ["CLAIMS"]

CLAIMS = (*forms.CLAIMS, *statements.CLAIMS, *convergence.CLAIMS, *spam.CLAIMS, *propagation.CLAIMS)
