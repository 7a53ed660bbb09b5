"""The largest singular value of a feature matrix without its column means: what step lengths depend on."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.gram import dense

# Up to this many columns the Gram matrix is formed: one pass over X and one small eigenvalue problem.
_SMALL = 1000


def centred_square_norm(X: Any) -> tuple[float, float]:
    r"""Return :math:`\|X - \mathbf 1\bar x^\top\|_2^2` and a bound on its rounding error; X is not copied.

    Parameters
    ----------
    X : ndarray or sparse array, shape (n, d)
        The features.

    Returns
    -------
    float, float
        The squared norm, and what rounding may have cost.

    Notes
    -----
    O(n d²) up to 1000 columns; beyond, Lanczos iterations, each O(nd).

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.problems.single_index._centred_norm import centred_square_norm
    >>> squared, rounding = centred_square_norm(np.array([[7.0], [9.0]]))
    >>> round(squared, 6), rounding < 1e-9
    (2.0, True)
    """
    n, d = X.shape
    means = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    if d <= _SMALL:
        gram = dense(X.T @ X)
        total = float(np.trace(gram))
        top = float(np.linalg.eigvalsh(gram - n * np.outer(means, means))[-1])
        digits = 1e-6 if X.dtype == np.float32 else 1e-13
        return max(top, 0.0), digits * total
    from scipy.sparse.linalg import LinearOperator, eigsh

    def multiply(v: Any) -> Any:
        scores = X @ np.asarray(v, dtype=X.dtype).ravel()
        return np.asarray(X.T @ (scores - scores.mean()), dtype=np.float64)

    operator = LinearOperator((d, d), matvec=multiply, dtype=np.float64)  # type: ignore[call-arg]
    start = np.random.default_rng(0).normal(size=d)
    top = float(eigsh(operator, k=1, v0=start, return_eigenvectors=False)[0])
    return max(top, 0.0), 1e-6 * abs(top)  # Lanczos comes from below
