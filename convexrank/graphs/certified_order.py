"""The order of scores that a bound on their error proves."""

from __future__ import annotations

import numpy as np

from convexrank.data import check_integer

Array = np.ndarray


def certified_prefix(scores: Array, bound: float, k: int) -> Array:
    """Return the longest list of first nodes, at most k, whose order no error of up to ``bound`` can change.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        One score a node.
    bound : float
        Differences of two scores are right up to this.
    k : int
        Largest number of nodes.

    Returns
    -------
    ndarray of int
        Nodes, first the highest; each is above all that follow it by more than the bound.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.graphs.certified_order import certified_prefix
    >>> certified_prefix(np.array([0.1, 0.5, 0.3, 0.29]), 0.05, 4).tolist()
    [1]
    >>> certified_prefix(np.array([0.1, 0.5, 0.3, 0.29]), 0.001, 4).tolist()
    [1, 2, 3, 0]
    """
    k = check_integer(k, "k", 1)
    n = len(scores)
    # one more than k: the k-th has to be above it
    first = np.argpartition(-scores, min(k, n - 1))[: k + 1]
    first = first[np.argsort(-scores[first], kind="stable")]
    steps = -np.diff(scores[first])
    close = np.flatnonzero(~(steps > bound))
    return first[: close[0] if len(close) else k]
