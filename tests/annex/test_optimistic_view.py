"""Bounds on the optimistic view of consensus: between them is what the local method finds."""

from __future__ import annotations

import pytest

from convexrank.problems import ConsensusRank
from convexrank_annex.optimistic_view import optimistic_bound
from tests.test_consensus_rank import two_each
from tests.tolerances import tolerance


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_branch_and_bound_finds_nothing_nearer(seed):
    problem = ConsensusRank(two_each(seed, 3 + seed % 2))
    solution = problem.solve()
    bound = optimistic_bound(problem, gap=1e-3)
    assert bound.upper - bound.lower <= 1.001e-3
    assert bound.lower <= solution.value + tolerance("conic")
    assert solution.value <= bound.upper + tolerance("summation")
    assert abs(problem.objective(bound.recommendations) - bound.upper) <= tolerance("summation")
