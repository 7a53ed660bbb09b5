"""The proximal map of a penalty as a function for JAX: a pytree, whose program depends on the kind of penalty alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax.tree_util import Partial

from convexrank.regularizers.norms import L1Ball, Penalty


def proximal_map(penalty: Penalty) -> Callable[[Any, Any], Any]:
    """Return the function of (v, step) that a penalty's ``prox`` is, for a penalty without signs of weights.

    Parameters
    ----------
    penalty : Penalty
        That of l1, also in units of the columns, and a ball; l2 belongs to the smooth part.

    Returns
    -------
    jax.tree_util.Partial
        The function; strengths and radius are its leaves.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from convexrank.regularizers import Penalty
    >>> from convexrank.regularizers.on_device import proximal_map
    >>> proximal_map(Penalty(l1=1.0))(jnp.array([3.0, 0.5]), 2.0).tolist()
    [1.0, 0.0]
    """
    strengths = penalty.strengths if penalty.l1 > 0 else None
    if penalty.ball is None:
        return Partial(_shrunk, strengths)
    project = _onto_taxicab if isinstance(penalty.ball, L1Ball) else _onto_euclidean
    return Partial(project, strengths, penalty.ball.radius)


def _shrunk(strengths: Any, v: Any, step: Any) -> Any:
    if strengths is None:
        return v
    return jnp.sign(v) * jnp.maximum(jnp.abs(v) - step * strengths, 0.0)


def _onto_euclidean(strengths: Any, radius: Any, v: Any, step: Any) -> Any:
    shrunk = _shrunk(strengths, v, step)
    norm = jnp.linalg.norm(shrunk)
    return jnp.where(norm <= radius, shrunk, shrunk * (radius / jnp.where(norm > 0.0, norm, 1.0)))


def _onto_taxicab(strengths: Any, radius: Any, v: Any, step: Any) -> Any:
    shrunk = _shrunk(strengths, v, step)
    size = jnp.abs(shrunk)
    # the projection of the sizes on the simplex, by sorting; relative to the largest nothing is lost to rounding
    lowered = size - jnp.max(size)
    descending = jnp.sort(lowered)[::-1]
    thresholds = (jnp.cumsum(descending) - radius) / jnp.arange(1, size.shape[0] + 1)
    kept = jnp.sum(descending > thresholds) - 1
    projected = jnp.sign(shrunk) * jnp.maximum(lowered - thresholds[kept], 0.0)
    return jnp.where(jnp.sum(size) <= radius, shrunk, projected)
