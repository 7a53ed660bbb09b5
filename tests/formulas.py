"""The objective of a problem with linear scores by plain arithmetic: its definition, and the penalty once more."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

__all__ = ["objective", "penalty", "second_order_by_jax"]


def penalty(problem, w):
    """The penalty, by plain arithmetic; infinity outside a ball."""
    if getattr(problem, "l1_ball", None) is not None and sum(abs(v) for v in w) > problem.l1_ball * (
        1 + 1e-9
    ):
        return math.inf
    if getattr(problem, "l2_ball", None) is not None and math.hypot(*w) > problem.l2_ball * (1 + 1e-9):
        return math.inf
    return 0.5 * problem.l2 * sum(v * v for v in w) + problem.l1 * sum(abs(v) for v in w)


def objective(problem, w):
    """The whole objective from its definition."""
    return problem.definition(problem.scores(w)) + penalty(problem, w)


def second_order_by_jax(problem, w):
    """Value, gradient and Hessian of the JAX objective, by its derivatives."""
    import jax

    with jax.enable_x64(True):
        return tuple(map(np.asarray, _compiled_second_order()(problem.jax_objective(), w)))


@cache
def _compiled_second_order():
    """One program of each kind of objective and size: primitive by primitive, each would be compiled by itself."""
    import jax

    return jax.jit(lambda function, w: (function(w), jax.grad(function)(w), jax.hessian(function)(w)))
