"""Risks that numpy computes, inside JAX: compiled once for each problem, kept by pickle."""

from __future__ import annotations

import pickle

import jax
import numpy as np

import convexrank as cr
from convexrank.backend.host_callback import value_on_host
from convexrank.problems.queries._base import HostRisk
from tests.tolerances import tolerance


def test_a_risk_is_hashable_by_its_problem_and_survives_pickling():
    X, y = np.eye(3), [0, 1, 2]
    problem, other = (cr.problems.MarginRetargeting(X, y, margin=1.0) for _ in range(2))
    again = pickle.loads(pickle.dumps(problem))
    assert problem._jax_risk.function == HostRisk(problem.query_oracle)
    assert hash(problem._jax_risk.function) == hash(HostRisk(problem.query_oracle))
    assert problem._jax_risk.function != other._jax_risk.function
    scores = np.array([0.3, 0.1, 0.2])
    value, slope = jax.value_and_grad(lambda theta: again._jax_risk.function((), theta))(scores)
    truth = problem.query_oracle(scores)
    assert value.dtype == slope.dtype == np.float32
    assert np.allclose(
        value, truth[0], rtol=tolerance("single precision"), atol=tolerance("single precision")
    )
    assert np.allclose(
        slope, truth[1], rtol=tolerance("single precision"), atol=tolerance("single precision")
    )


def test_the_gradient_is_in_the_point_alone():
    product = lambda point, data: (point @ data, data)  # noqa: E731
    point, data = jax.numpy.arange(3.0), jax.numpy.array([2.0, -1.0, 0.5])
    call = jax.jit(lambda x, d: 3.0 * value_on_host(product, x, d))
    assert call(point, data) == 0.0
    assert jax.grad(call)(point, data).tolist() == [6.0, -3.0, 1.5]
    batch = jax.vmap(call, (0, None))(jax.numpy.stack([point, 2.0 * point + 1.0]), data)
    assert batch.tolist() == [0.0, 4.5]
