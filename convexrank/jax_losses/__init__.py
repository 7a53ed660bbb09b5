r"""The losses by query as plain JAX functions of scores, grades and groups, for models that are not linear.

Each function returns a scalar, can be differentiated with respect to the scores, jitted, and used as the loss of
somebody else's model. Gradients are exact, and finite for every query: one with a single row, or with a single grade,
contributes nothing. The values are those of the problems of the same names without penalties.

Groups are given as ids or :class:`~convexrank.data.QueryGroups`; or, so that JAX may trace them, as `query`, the number
of each row's query, and `queries`, how many there are, a Python integer: `numbered` makes both from ids. Rows with
another number than 0, 1, …, `queries` − 1 are padding and ignored, so that batches of different sizes can share one
compiled function.
"""

from __future__ import annotations

from convexrank.jax_losses.lists import list_net, ndcg_regression, rank_cosine
from convexrank.jax_losses.margins import margin_retargeting
from convexrank.jax_losses.pairs import rank_svm
from convexrank.jax_losses.rows import numbered
from convexrank.jax_losses.targets import retargeting

__all__ = [
    "list_net",
    "margin_retargeting",
    "ndcg_regression",
    "numbered",
    "rank_cosine",
    "rank_svm",
    "retargeting",
]
