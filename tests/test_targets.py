"""The parts of target formulations: blocks of equal grade, chains, and roots of many functions at once."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

from convexrank.data import QueryGroups
from convexrank.problems.retargeting._grade_blocks import GradeBlocks
from convexrank.problems.retargeting._link import increasing_roots
from tests.tolerances import tolerance


def close(a, b, name="summation"):
    return np.allclose(a, b, rtol=tolerance(name), atol=tolerance(name))


def test_blocks_and_chains_by_loops():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 6, size=7)
    groups, n = QueryGroups.from_sizes(sizes), int(sizes.sum())
    grades, scores = rng.integers(0, 3, size=n).astype(float), np.round(rng.normal(size=n), 1)
    blocks = GradeBlocks(groups, grades)
    chain = blocks.chain(scores)
    expected = sorted(range(n), key=lambda row: (groups.query[row], grades[row], scores[row]))
    keys = [(groups.query[row], grades[row], scores[row]) for row in chain.order]
    assert keys == [(groups.query[row], grades[row], scores[row]) for row in expected]
    for block, (start, end) in enumerate(zip(blocks.offsets, blocks.offsets[1:], strict=False)):
        rows = blocks.order[start:end]
        assert set(grades[rows]) == {blocks.grades_of_blocks[block]}
        same = groups.query == blocks.queries[block]
        assert blocks.ranks[block] == (grades[same] >= blocks.grades_of_blocks[block]).sum()
        assert blocks.above[block] == (grades[same] < blocks.grades_of_blocks[block]).any()
    assert (chain.scatter(chain.gather(scores)) == scores).all()


@pytest.mark.parametrize("seed", range(3))
def test_block_means_are_pooled_by_size(seed):
    """One target for all documents of a grade: the weighted regression of means, against the quadratic program."""
    rng = np.random.default_rng(seed)
    grades, scores = rng.integers(0, 3, size=7).astype(float), rng.normal(size=7)
    blocks = GradeBlocks(QueryGroups.from_sizes([7]), grades)
    r = cp.Variable(7)
    pairs = [(j, k) for j in range(7) for k in range(7)]
    limits = [r[j] == r[k] for j, k in pairs if j < k and grades[j] == grades[k]]
    limits += [r[j] >= r[k] for j, k in pairs if grades[j] > grades[k]]
    cp.Problem(cp.Minimize(cp.sum_squares(r - scores)), limits).solve(solver=cp.CLARABEL)
    assert close(blocks.pooled_means(scores), r.value, "conic point")


def test_roots_of_many_functions():
    """Functions linear by pieces with flat stretches, steep ones, and one that starts at its root."""
    centres = np.array([3.0, -40.0, 0.0, 1e-3, 1e4])

    def evaluate(x):
        far = x - centres
        values = np.maximum(far - 1.0, 0.0) * 50.0 + np.minimum(far + 1.0, 0.0) + 1e-3 * far
        slopes = 50.0 * (far > 1.0) + 1.0 * (far < -1.0) + 1e-3
        return values, slopes, np.abs(x) + np.abs(centres)

    assert close(increasing_roots(evaluate, np.zeros(5)), centres)
