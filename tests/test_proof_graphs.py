"""Proofs for fixed points on graphs, against solutions in rational and in decimal arithmetic."""

from __future__ import annotations

import warnings
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

import convexrank as cr
from convexrank.problems import REGISTRY
from tests.tolerances import tolerance

pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")

from convexrank.proof import graphs  # needs flint

FIXED_POINTS = ["PageRank", "LpqRank", "TrustPropagation"]


@pytest.mark.parametrize("name", FIXED_POINTS)
@pytest.mark.parametrize("seed", range(8))
def test_random_instances_are_proved(name, seed):
    solution = REGISTRY[name].random(seed).solve()
    proof = solution.prove()
    assert proof.proved
    assert proof.kind == "distance"
    assert proof.metric == solution.certificate.metric
    assert str(proof).endswith(", proved")
    # floats add what rounding may hide, a proof need not
    assert proof.gap <= solution.gap * (1.0 + 1e-9) + tolerance("summation")
    far = solution.instance.distance(solution.x, solution.instance.reference())
    assert far <= proof.gap + tolerance("fixed point")


def rational_page_rank(problem, teleport):
    """PageRank by Gaussian elimination over fractions, from a matrix of edges."""
    n, alpha = problem.graph.n, Fraction(problem.alpha)
    weights = [[Fraction(0)] * n for _ in range(n)]
    for source, target, weight in zip(*problem.graph.edges(), strict=True):
        weights[target][source] += Fraction(float(weight))
    uniform = [Fraction(1, n)] * n
    v = uniform if teleport is None else [Fraction(x) / sum(map(Fraction, teleport)) for x in teleport]
    if isinstance(problem.dangling, str):
        escape = {"teleport": v, "uniform": uniform, "drop": [Fraction(0)] * n}[problem.dangling]
    else:
        given = [*map(Fraction, problem.dangling.tolist())]
        escape = [share / sum(given) for share in given]
    rows = []
    for i in range(n):
        row = []
        for j in range(n):
            out = sum(weights[k][j] for k in range(n))
            row.append(Fraction(int(i == j)) - alpha * (weights[i][j] / out if out else escape[i]))
        rows.append([*row, (1 - alpha) * v[i]])
    for i in range(n):
        pivot = next(k for k in range(i, n) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [entry / rows[i][i] for entry in rows[i]]
        for k in range(n):
            if k != i and rows[k][i]:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("move", [0.0, 1e-3])
def test_the_distance_to_page_rank_is_within_the_interval(seed, move):
    problem = cr.problems.PageRank.random(seed)
    x = problem.solve(tol=1e-12).x + move
    proof = problem.prove(x)
    teleports = (
        [None] if problem.personalization is None else np.atleast_2d(problem.personalization.T).tolist()
    )
    true = max(
        sum(
            abs(Fraction(a) - b) for a, b in zip(column.tolist(), rational_page_rank(problem, v), strict=True)
        )
        for column, v in zip(np.atleast_2d(x.T), teleports, strict=True)
    )
    assert Fraction(proof.least) <= true <= Fraction(proof.gap)


def decimal_image(problem, r):
    """U(r) by loops over all pairs of nodes."""
    n, p = problem.graph.n, Decimal(problem.p)
    alpha, theta = Decimal(problem.alpha), Decimal(problem.p) / Decimal(problem.q)
    weak = (1 - alpha) / n
    weights = [[Decimal(0)] * n for _ in range(n)]
    for source, target, weight in zip(*problem.graph.edges(), strict=True):
        weights[target][source] += Decimal(float(weight))
    out = [sum(weights[k][j] for k in range(n)) for j in range(n)]
    image = []
    for i in range(n):
        follow = [weights[i][j] / out[j] if out[j] else Decimal(1) / n for j in range(n)]
        if problem.weak_links == "inside":
            entries = [(alpha * a + weak) * x for a, x in zip(follow, r, strict=True)]
        elif problem.weak_links == "entry":
            entries = [*(alpha * a * x for a, x in zip(follow, r, strict=True)), weak * sum(r)]
        else:
            entries = [a * x for a, x in zip(follow, r, strict=True)]
        norm = sum(entry**p for entry in entries if entry) ** (theta / p)
        image.append(alpha * norm + weak * sum(r) ** theta if problem.weak_links == "outside" else norm)
    return image


@pytest.mark.parametrize("weak_links", ["inside", "entry", "outside"])
@pytest.mark.parametrize("move", [0.0, 0.1])
def test_the_distance_to_an_lpq_rank_is_within_the_interval(weak_links, move):
    graph = cr.Graph.from_edges([0, 0, 1, 2, 4], [1, 2, 2, 0, 2], [1.0, 2.0, 1.0, 0.5, 3.0])
    problem = cr.problems.LpqRank(graph, 3.0, 6.0, weak_links=weak_links)
    x = problem.solve(tol=1e-12).x * np.array([1.0 + move, 1.0, 1.0, 1.0, 1.0])
    proof = problem.prove(x)
    with localcontext() as context:
        context.prec = 40
        r = [Decimal(entry) for entry in x.tolist()]
        for _ in range(110):  # the degree is a half: 33 digits
            r = decimal_image(problem, r)
            r = [entry / sum(r) for entry in r]
        ratios = [(Decimal(a) / b).ln() for a, b in zip(x.tolist(), r, strict=True)]
        true = max(ratios) - min(ratios)
        assert Decimal(proof.least) - Decimal("1e-30") <= true <= Decimal(proof.gap) + Decimal("1e-30")


def test_a_degree_of_one_is_not_proved():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = cr.problems.LpqRank(cr.Graph.from_edges([0, 1], [1, 0]), 2.0, 2.0)
    with pytest.raises(cr.CertificateError, match=r"no contraction.*pass q > p"):
        problem.prove([0.5, 0.5])


def test_zeros_at_other_places_are_not_proved():
    problem = cr.problems.TrustPropagation(cr.Graph.from_edges([0], [1]), [0], p=1.0, q=2.0)
    with pytest.raises(cr.CertificateError, match="zeros"):
        problem.prove([1.0, 0.0])


def test_planted_images_are_seen(monkeypatch):
    """A map whose entries are off, and one with another power, move the answer far."""
    problem = cr.problems.LpqRank(cr.Graph.from_edges([0, 0, 1, 2, 4], [1, 2, 2, 0, 2]), 3.0, 6.0)
    solution = problem.solve(tol=1e-12)
    right = graphs.norm_image
    for planted in (
        lambda rank, r: [entry * (1 + 0.01 * place) for place, entry in enumerate(right(rank, r))],
        lambda rank, r: [entry ** graphs.arb(1.01) for entry in right(rank, r)],
    ):
        monkeypatch.setattr(graphs, "norm_image", planted)
        assert problem.prove(solution).gap > 1e3 * solution.gap
