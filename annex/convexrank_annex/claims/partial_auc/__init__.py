"""The partial AUC by structural support vectors: Narasimhan and Agarwal 2013 (twice) and 2017.

Only the abstracts were read: each statement is one of theirs.
"""

from __future__ import annotations

from convexrank_annex.claims.partial_auc import orders, surrogates

__all__ = ["CLAIMS"]

CLAIMS = (*orders.CLAIMS, *surrogates.CLAIMS)
