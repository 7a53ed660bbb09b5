"""Projections of all nodes at once: the same as one node at a time, and as plain bisection."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convexrank as cr
from convexrank.consensus import CandidateSets, PartialOrders, Polytopes
from convexrank.consensus.candidates import absorb
from convexrank.consensus.projections import Boxes, Pairs, nearest_in_hull
from tests.tolerances import tolerance

KINDS = ("candidates", "pairs", "boxes", "inequalities", "links", "chains", "overlapping")


def draw(kind, rng, n):
    if kind in ("candidates", "pairs"):
        most = 4 if kind == "candidates" else 3
        rows = [rng.dirichlet(np.full(n, 0.3), size=int(rng.integers(1, most))) for _ in range(n)]
        rows[0] = np.repeat(rows[0][:1], 2, axis=0)  # two candidates that are the same
        return CandidateSets(
            [
                np.where(own < 0.02, 0.0, own) / np.where(own < 0.02, 0.0, own).sum(1, keepdims=True)
                for own in rows
            ]
        )
    if kind in ("boxes", "inequalities"):
        centre = rng.dirichlet(np.ones(n), size=n)
        wide = rng.uniform(0.0, 3.0, size=(n, 1)) * (rng.random((n, 1)) < 0.8)  # some leave one point
        rows = {
            1: (np.ones((1, n)) * rng.random(n), [2.0]),
            2: (A := rng.normal(size=(1, n)), A @ centre[2] + 0.01),
        }
        return Polytopes(
            centre / (1.0 + wide), centre * (1.0 + wide), rows if kind == "inequalities" else None
        )
    if kind == "links":
        source = np.repeat(np.arange(n), 3)
        return Polytopes.around(cr.Graph.from_edges(source, rng.integers(0, n, 3 * n), n=n), 0.4)
    chains = []
    for _ in range(n):
        ids = rng.permutation(n).tolist()
        chains.append(
            [ids[:3], ids[3:5], ids[5:6]] if kind == "chains" or rng.random() < 0.5 else [ids[:3], ids[2:4]]
        )
    return PartialOrders(chains, targets=[range(n) if rng.random() < 0.3 else None for _ in range(n)])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000))
def test_all_nodes_at_once_are_one_node_after_another(kind, seed):
    rng = np.random.default_rng(seed)
    sets = draw(kind, rng, 7)
    v = None if rng.random() < 0.5 else rng.random(7) + 0.1
    absorbed = absorb(sets, float(rng.choice([0.0, 0.3, 0.95])), v)
    scale = float(rng.choice([0.1, 3.0, 300.0]))
    for theta in (scale * rng.normal(size=7), scale * rng.normal(size=(7, 7)), np.zeros(7)):
        before = theta.copy()
        together = absorbed.nearest(theta)
        for node in range(7):
            own = theta if theta.ndim == 1 else theta[node]
            single = sets.nearest(node, own, absorbed.alpha, absorbed.teleport)
            assert np.abs(together[node] - single).max() <= tolerance("consensus projection")
        assert (theta == before).all()
        assert np.abs(together.sum(axis=1) - 1.0).max() <= tolerance("atoms")


def by_bisection(low, high, theta):
    """The entries exp(theta + shift), cut to the bounds, for the shift at which they add up to 1."""
    first, last = -2e3, 2e3
    for _ in range(200):
        shift = 0.5 * (first + last)
        total = sum(
            min(max(math.exp(min(t + shift, 1.0)), a), b) for a, b, t in zip(low, high, theta, strict=True)
        )
        first, last = (shift, last) if total < 1.0 else (first, shift)
    return [min(max(math.exp(min(t + first, 1.0)), a), b) for a, b, t in zip(low, high, theta, strict=True)]


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_boxes_are_what_plain_bisection_finds(seed):
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    centre = rng.dirichlet(np.full(n, 0.5), size=k) * 0.9 + 0.1 / n
    low, high = centre * rng.random((k, n)), np.minimum(centre * (1.0 + 2.0 * rng.random((k, n))), 1.0)
    fixed = rng.random((k, n)) < 0.2
    low[fixed] = high[fixed] = centre[fixed]
    theta = float(rng.choice([0.3, 5.0, 100.0])) * rng.normal(size=(k, n))
    boxes = Boxes.between(low, high)
    found = boxes.nearest(theta[boxes.rows, boxes.columns])
    for row in range(k):
        assert np.abs(found[row] - by_bisection(low[row], high[row], theta[row])).max() <= tolerance(
            "consensus projection"
        )


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_pairs_are_the_best_of_their_mixtures(seed):
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(1, 5)), int(rng.integers(2, 6))
    first, second = (rng.dirichlet(np.full(n, 0.5), size=k) * 0.9 + 0.1 / n for _ in range(2))
    second[0] = first[0]
    theta = float(rng.choice([0.3, 5.0, 100.0])) * rng.normal(size=(k, n))
    pairs = Pairs.of(first, second)
    found = pairs.nearest(theta[pairs.rows, pairs.columns])

    def cost(points, own):
        return (points * np.log(points)).sum(axis=-1) - points @ own

    for row in range(k):
        shares = np.linspace(0.0, 1.0, 2001)[:, None]
        mixed = (1.0 - shares) * first[row] + shares * second[row]
        best = float(cost(mixed, theta[row]).min())
        assert cost(found[row], theta[row]) <= best + tolerance("atoms") * max(1.0, abs(best))
        # on the segment: nearest point of it is itself
        direction = second[row] - first[row]
        share = float((found[row] - first[row]) @ direction) / max(float(direction @ direction), 1e-300)
        assert 0.0 <= share <= 1.0 + tolerance("atoms")
        assert np.abs(first[row] + share * direction - found[row]).max() <= tolerance("atoms")


def test_sets_of_ones_own_are_projected_one_by_one():
    class Single(cr.consensus.RecommendationSets):
        """Every node recommends the uniform distribution."""

        n = 3

        def nearest(self, node, theta, alpha, teleport):
            return np.full(3, 1.0 / 3.0)

    assert (absorb(Single(), 0.85, None).nearest(np.zeros(3)) == 1.0 / 3.0).all()


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_hulls_of_many_candidates_take_logarithms_of_any_size(seed):
    """As the answers of a game with a small epsilon are; optimal where no candidate is better to first order."""
    rng = np.random.default_rng(seed)
    candidates = 0.9 * rng.dirichlet(np.full(5, 0.3), size=int(rng.integers(3, 6))) + 0.02
    for scale in (1.0, 1e3, 1e6):
        theta = scale * rng.normal(size=5)
        p = nearest_in_hull(candidates, theta)
        slope = np.log(p) - theta
        assert float(slope @ p - (candidates @ slope).min()) <= scale * tolerance("consensus projection")
        assert abs(p.sum() - 1.0) <= tolerance("atoms")


def test_blend_takes_a_small_epsilon():
    sets = [np.random.default_rng(node).dirichlet(np.full(4, 0.5), size=3) for node in range(4)]
    for loop in ("single", "double"):
        result = cr.consensus.blend(sets, loop=loop, epsilon=1e-6, rounds=5)
        assert np.abs(result.recommendations.sum(axis=1) - 1.0).max() <= tolerance("atoms")
