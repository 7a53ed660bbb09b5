"""Equations on overlapping intervals, against dense elimination."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convexrank.links.marginal_cost import solve_overlaps
from tests.tolerances import tolerance


@given(
    seed=st.integers(0, 2**31),
    n=st.integers(1, 30),
    shares=st.tuples(*[st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])] * 2),
)
def test_overlaps_are_solved_like_dense_equations(seed, n, shares):
    rng = np.random.default_rng(seed)
    blocks = [np.r_[0, np.cumsum(rng.random(n - 1) < share)] for share in shares]
    m = [block[-1] + 1 for block in blocks]
    dense = np.zeros((sum(m), sum(m)))
    for i in range(n):
        a, b = blocks[0][i], m[0] + blocks[1][i]
        dense[a, a] += 1.0
        dense[b, b] += 1.0
        dense[a, b] += 0.9
        dense[b, a] += 0.9
    first, second = np.nonzero(dense[: m[0], m[0] :])
    right = rng.standard_normal(sum(m))
    starts = np.r_[np.searchsorted(blocks[0], range(m[0])), np.searchsorted(blocks[1], range(m[1]))]
    x = solve_overlaps(
        starts, np.diag(dense).copy(), right, first, m[0] + second, dense[first, m[0] + second]
    )
    np.testing.assert_allclose(x, np.linalg.solve(dense, right), rtol=0, atol=tolerance("overlapping blocks"))
