"""A sample of the rows that tells the shape of an objective of very many."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import dense, held_as
from convexrank.modelling.smoothing.merging import ALONE, LEFT_OUT

Array = np.ndarray

# Data with this number of entries are tall. A sample has this number of rows per column, or one row out of this number,
# and at most a quarter of the rows.
TALL, _ROWS_PER_COLUMN, _SHARE = 4_000_000, 120, 20

# The same of rows in memory: rows per column, and rows per row and column of X.
_IN_MEMORY, _WORTH = 90, 5

# Entries of a sample of rows out of memory: 32 MB, unless the columns ask for more.
_SAMPLED = 1 << 22


def rows_of_sample(X: Any) -> int:
    """Return how many rows tell the shape of an objective of dense rows; 0 where there are not enough of them."""
    rows, columns = X.shape
    plain = isinstance(X, np.ndarray)
    chunks = not (plain or held_as(X).in_memory or X.sparse)
    if chunks:
        per_column, share = _ROWS_PER_COLUMN, min(rows // _SHARE, _SAMPLED // columns)
    else:  # a pass for the Hessian of these rows is to cost about one over all
        per_column, share = _IN_MEMORY, min(2 * rows // _SHARE, _WORTH * rows // columns)
    enough = rows * columns >= TALL and 2 * _ROWS_PER_COLUMN * columns <= rows
    tall = enough and (chunks or plain)
    return max(min(per_column * columns, rows // 4), share) if tall else 0


def drawn_rows(classes: list[Array], wanted: int, alike: bool = False) -> list[tuple[Array, float]]:
    """Draw from each class of rows at most its part of those that are wanted, and say how many each row stands for.

    The parts are equal, or shares of the classes that are alike.
    """
    rng, found, rows = np.random.default_rng(0), [], sum(map(len, classes))
    for part in classes:
        most = -(-wanted * len(part) // rows) if alike else wanted // len(classes)
        count = min(most, len(part))
        # one row from each of ``count`` stretches
        places = ((np.arange(count) + rng.random(count)) * (len(part) / count)).astype(np.intp)
        places = np.minimum(places, len(part) - 1)
        found.append((part[places], len(part) / len(places)))
    return found


def merged_rows(X: Any, groups: Array, weights: Array | None) -> tuple[Any, Array, Array]:
    """Return rows with the mean of each group in the place of its rows, one row of each, and the weights.

    Parameters
    ----------
    X : matrix, shape (n, d)
        The rows.
    groups : ndarray of int, shape (n,)
        The number of each row's group, or ALONE, or LEFT_OUT.
    weights : ndarray, shape (n,), or None
        Weights of the rows, 1 by default.
    """
    alone, group = np.flatnonzero(groups == ALONE), groups - min(ALONE, LEFT_OUT)
    weights = np.ones(len(groups)) if weights is None else weights
    wholes = np.bincount(group, weights)
    # the rows that stand alone, and those that are left out, are groups here, of which nothing is used
    kept = np.flatnonzero(np.bincount(group, minlength=len(wholes))[-min(ALONE, LEFT_OUT) :]) - min(
        ALONE, LEFT_OUT
    )
    first = np.array([np.argmax(group == number) for number in kept], dtype=np.intp)
    sums = sparse.csc_array((weights, group, np.arange(len(group) + 1)), shape=(len(wholes), len(group))) @ X
    rows, means = X[alone], (dense(sums)[kept] / wholes[kept, None]).astype(X.dtype)
    found = (
        sparse.vstack([rows, means], format="csr") if sparse.issparse(X) else np.concatenate([rows, means])
    )
    return found, np.concatenate([alone, first]), np.concatenate([weights[alone], wholes[kept]])
