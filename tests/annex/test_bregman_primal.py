"""The two sides of the duality in section 11 of the 2009 paper, by loops over all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest

import convexrank as cr
from convexrank.bounds import bregman_primal
from tests.tolerances import tolerance

X = np.random.default_rng(0).normal(size=(30, 2))
Y = (X[:, 0] + np.random.default_rng(1).normal(size=30) > 0).astype(int)


def close(a, b, name):
    return abs(a - b) <= tolerance(name) * max(1.0, abs(b))


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
def test_the_primal_of_section_11(p):
    """The distances by their definition in a double loop; the identity at the minimiser, and not elsewhere."""
    problem = cr.problems.PNormPush(X, Y, p)
    best = problem.solve(tol=1e-13)
    found = bregman_primal(problem, best)
    f = X @ best.x
    plus, minus = np.flatnonzero(Y == 1), np.flatnonzero(Y == 0)
    q, still = {}, len(plus) ** (p - 1.0)
    for k in minus:
        whole = sum(math.exp(f[k] - f[i]) for i in plus)
        q |= {(i, k): math.exp(f[k] - f[i]) * whole ** (p - 1.0) for i in plus}
    sums = {k: sum(q[i, k] for i in plus) for k in minus}

    def slope(value, column):
        return 1.0 / p + math.log(value / (p ** (1.0 / p) * column ** ((p - 1.0) / p)))

    def level(values, columns):
        return sum(value * (slope(value, columns[pair[1]]) - 1.0 / p) for pair, value in values.items())

    flat, flat_sums = dict.fromkeys(q, still), dict.fromkeys(minus, len(plus) * still)
    moved = sum(slope(still, len(plus) * still) * (q[pair] - still) for pair in q)
    assert close(found.primal, level(q, sums) - level(flat, flat_sums) - moved, "summation")
    assert close(found.dual, problem.paper_value(best) / p, "summation")
    assert abs(found.primal - (found.start - found.dual)) <= tolerance("two points") * found.start
    assert found.balance < tolerance("fixed points")
    assert np.abs(found.pairs - np.outer(best.weights[plus], -best.weights[minus])).max() < tolerance(
        "fixed points"
    )
    elsewhere = bregman_primal(problem, best.x + 0.3)
    assert abs(elsewhere.primal - (elsewhere.start - elsewhere.dual)) > 1e-3 * elsewhere.start


def test_bad_arguments_of_section_11():
    with pytest.raises(TypeError, match=r"(?s)problem is .*expected a PNormPush"):
        bregman_primal(cr.problems.TopPush(X, Y, l2=1.0), [0.0, 0.0])
    for options in ({"l2": 0.1}, {"l1": 0.1}, {"sample_weight": np.ones(30)}, {"qid": np.zeros(30)}):
        with pytest.raises(ValueError, match=r"expected (none of them|one query)"):
            bregman_primal(cr.problems.PNormPush(X, Y, 2.0, **options), [0.0, 0.0])
    with pytest.raises(ValueError, match="overflow at this w with p=64"):
        bregman_primal(cr.problems.PNormPush(X, Y, 64.0), [100.0, 0.0])
