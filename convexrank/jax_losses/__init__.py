r"""The losses by query as plain JAX functions of scores, grades and groups, for models that are not linear.

Each function returns a scalar, can be differentiated with respect to the scores, jitted, and used as the loss of any
model. Gradients are exact, and finite for every query: a query with a single row, or with a single grade, contributes
nothing. The values are those of the problems of the same names without penalties.  All functions take the ``scores`` of
a model and ``grades``, arrays of shape (n,); rows with larger grades should rank higher, and grades must be at least 0
for gains. ``query`` has ids of any kind or is :class:`~convexrank.data.QueryGroups`. For traced arrays ``query`` is the
number of each row's query, with the Python integer ``queries``, the number of queries: `numbered` makes both from ids.
Rows with numbers outside 0, 1, …, ``queries`` − 1 are padding and ignored, so that batches of different sizes can share
one compiled function. All return a JAX scalar, the sum over queries, and raise ValueError or TypeError when an option
is unknown or out of range, ``queries`` is not an integer of at least 1, or shapes differ.
"""

from __future__ import annotations

from convexrank.data.messages import not_installed

try:
    from convexrank.jax_losses.lists import (
        list_net,
        margin_retargeting,
        ndcg_regression,
        rank_cosine,
        rank_svm,
    )
    from convexrank.jax_losses.rows import numbered, retargeting
except ModuleNotFoundError as error:
    raise not_installed(error) from error

__all__ = [
    "list_net",
    "margin_retargeting",
    "ndcg_regression",
    "numbered",
    "rank_cosine",
    "rank_svm",
    "retargeting",
]
