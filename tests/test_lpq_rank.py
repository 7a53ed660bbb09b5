"""The L_{p,q} rank against plain loops, its limits, its certificate, and the figures of the paper."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import convexrank as cr
from convexrank.graphs import build
from convexrank.problems import LpqRank
from convexrank.problems.graph_ranks._base import certified_prefix, random_graph
from tests.graph_files import real_graph
from tests.tolerances import tolerance

WEAK = ("inside", "entry", "outside")
FARM = [(1, 2), (1, 3), (1, 4), (1, 5), (2, 3), (3, 4), (4, 5), (5, 2), (5, 1)]
FARM += [(7, 6), (8, 6), (9, 6), (6, 7), (6, 8), (6, 9)]
TIES = [(s, t) for s in (1, 2, 3) for t in (4, 5, 6, 7)] + [
    (4, 1),
    (5, 1),
    (5, 2),
    (6, 2),
    (6, 3),
    (7, 2),
    (7, 3),
]


def from_pairs(pairs):
    return cr.Graph.from_edges(*np.array(pairs).T - 1)


def by_loops(problem, r):
    """The map from its definition, entry by entry, normalised."""
    graph, p, theta, alpha = problem.graph, problem.p, problem.modulus, problem.alpha
    n, A, image = graph.n, problem.graph.to_scipy().toarray(), np.zeros(graph.n)
    weak = (1 - alpha) / n
    for i in range(n):
        entries = []
        for j in range(n):
            total = A[j].sum()
            share = A[j, i] / max(total, problem.outdegree_floor or 0.0) if total > 0 else 1.0 / n
            entries.append(
                {"inside": alpha * share + weak, "entry": alpha * share, "outside": share}[problem.weak_links]
                * r[j]
            )
        if problem.weak_links == "entry":
            entries.append(weak * r.sum())
        norm = max(entries) if math.isinf(p) else sum(e**p for e in entries) ** (1 / p)
        image[i] = norm**theta
        if problem.weak_links == "outside":
            image[i] = alpha * image[i] + weak * r.sum() ** theta
    return image / image.sum()


@pytest.mark.parametrize("seed", range(60))
def test_map_and_reference_are_the_definition(seed):
    problem = LpqRank.random(seed)
    r = np.random.default_rng(seed).random(problem.graph.n) + 0.1
    r /= r.sum()
    assert problem.distance(problem.apply_map(r), by_loops(problem, r)) <= tolerance("summation")
    truth = problem.reference()
    assert problem.distance(by_loops(problem, truth), truth) <= tolerance("summation")


def test_certificates_are_never_below_the_true_error():
    """Random graphs; at the end and on the way."""
    for seed in range(60):
        problem = LpqRank.random(10_000 + seed)
        truth = problem.reference()
        seen = []
        solution = problem.solve(callback=lambda state, seen=seen: seen.append(state))
        assert solution.converged, seed
        for state in [seen[0], seen[len(seen) // 2], seen[-1]]:
            certificate, error = problem.certificate(state.x), problem.distance(state.x, truth)
            assert error <= certificate.gap, seed
            assert error <= state.residual + tolerance("atoms") * 100, seed
            assert np.abs(state.x - truth).sum() <= problem.l1_bound(certificate.gap), seed
            top = problem.certified_top(state.x, problem.graph.n)
            rest = np.setdiff1d(np.arange(problem.graph.n), top)
            for place, node in enumerate(top):
                below = np.concatenate([top[place + 1 :], rest])
                assert (truth[node] > truth[below]).all(), seed


@pytest.mark.parametrize("weak", WEAK)
def test_page_rank_at_one(weak):
    for seed in range(20):
        graph = random_graph(np.random.default_rng(seed))
        rank = LpqRank(graph, 1, 1, 0.7, weak)
        assert "Certified" not in rank.capabilities
        plain = cr.problems.PageRank(graph, 0.7)
        r = np.random.default_rng(seed).random(graph.n) + 0.1
        r /= r.sum()
        assert np.abs(rank.apply_map(r) - plain.apply_map(r)).sum() <= tolerance("summation")


@pytest.mark.parametrize("weak", ["inside", "entry", "outside"])
@pytest.mark.parametrize("alpha", [0.0, 5e-324])
def test_links_without_weight_leave_every_node_alike(weak, alpha):
    graph = cr.Graph.from_edges([0, 0, 1, 2], [0, 1, 2, 0], [1.0, 2.0, 3.0, 0.5], self_loops=True)
    solution = LpqRank(graph, p=1, q=2, alpha=alpha, weak_links=weak).solve()
    assert solution.converged
    assert np.abs(solution.x - 1.0 / 3.0).max() <= tolerance("summation")


def test_large_p_neither_overflows_nor_vanishes():
    """Weights over ten orders of magnitude: plain powers of them leave the range of floating point."""
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 12, 40), rng.integers(0, 12, 40)
    graph = cr.Graph.from_edges(source, target, 10.0 ** rng.uniform(-8, 2, 40), 12)
    for weak in WEAK:
        for alpha in (0.85, 1 - 1e-12):
            problem = LpqRank(graph, 50.0, 55.0, alpha, weak)
            solution = problem.solve()
            assert solution.converged
            assert problem.distance(solution.x, problem.reference()) <= solution.gap
            limit = LpqRank(graph, math.inf, math.inf, alpha, weak, theta=50 / 55).solve()
            # a norm of n + 1 entries is at most (n + 1)^(1/p) times the largest
            assert problem.distance(solution.x, limit.x) <= 50 / 55 * math.log(13) / 50 / (1 - 50 / 55) + 1e-6


def test_sums_lost_to_underflow_are_done_again():
    """A chain whose ranks fall steeply, with a large p, next to a page that everybody links to."""
    n = 40
    graph = cr.Graph.from_edges(
        [*range(n - 1), *range(n)], [*range(1, n), *[0] * n], [*[1e-8] * (n - 1), *[1.0] * n], n
    )
    for weak in ("outside", "entry"):
        problem = LpqRank(graph, 50.0, 500.0, 1 - 1e-9, weak)
        solution = problem.solve()
        assert problem.distance(solution.x, problem.reference()) <= solution.gap


@pytest.mark.parametrize("weak", WEAK)
def test_threads_change_nothing(weak, monkeypatch):
    graph = real_graph("wiki-Vote")
    weighted = cr.Graph.from_edges(
        *graph.edges()[:2], np.random.default_rng(0).random(graph.m) + 0.1, graph.n
    )
    powers = [(4.0, 4.8, None), (math.inf, math.inf, 0.8)]
    # each graph with each pair of powers, but not with all weak links
    for one, (p, q, theta) in zip((graph, weighted), powers[:: 1 - 2 * (WEAK.index(weak) % 2)], strict=True):
        problem = LpqRank(one, p, q, weak_links=weak, theta=theta)
        alone = problem.solve(tol=1e-10)
        with monkeypatch.context() as patched:
            patched.setattr(build, "_WORTH_THREADS", 0)
            patched.setattr(build, "threads_available", lambda: 3)
            together = LpqRank(one, p, q, weak_links=weak, theta=theta).solve(tol=1e-10)
        assert problem.distance(alone.x, together.x) <= 2e-10


def test_figure_6_2():
    """PageRank ties nodes 1 and 2, the 2-norm does not."""
    graph = from_pairs(TIES)
    plain = cr.problems.PageRank(graph).reference()
    assert abs(plain[0] - plain[1]) <= tolerance("summation")
    for weak in WEAK:
        r = LpqRank(graph, 2.0, 2.02, weak_links=weak).reference()
        assert r[0] > 1.2 * r[1]


def test_figure_6_3():
    """The farm's page is first under PageRank, and below every legitimate page with the maximum outside."""
    graph = from_pairs(FARM)
    assert int(np.argmax(cr.pagerank(graph))) == 5
    solution = LpqRank(graph, math.inf, math.inf, weak_links="outside", theta=0.99).solve()
    assert (solution.x[:5] > solution.x[5] * math.exp(solution.gap)).all()


def test_two_pages_beat_every_norm_and_a_floor_mends_it():
    rng = np.random.default_rng(0)
    source, target = np.repeat(np.arange(300), 10), rng.integers(0, 300, 3000)
    graph = cr.Graph.from_edges(np.append(source, [300, 301]), np.append(target, [301, 300]))

    def position(r):
        return int((r > r[300] * (1.0 + 1e-7)).sum()) + 1  # the two pages are alike: their order is rounding

    assert position(cr.pagerank(graph)) > 20
    for p in (2.0, 4.0, 8.0):
        assert position(LpqRank(graph, p, 1.2 * p).solve().x) == 1
        assert position(LpqRank(graph, p, 1.2 * p, outdegree_floor=10).solve().x) > 20


def test_degree_one_warns_and_beyond_it_is_refused():
    graph = from_pairs(FARM)
    with pytest.warns(UserWarning, match="theta = p/q is 1"):
        rank = LpqRank(graph, 2, 2, weak_links="outside")
    solution = rank.solve()
    assert solution.certificate.kind == "residual"
    assert rank.distance(by_loops(rank, solution.x), solution.x) <= 1e-7
    with pytest.raises(ValueError, match=r"theta = p/q is 2, expected at most 1"):
        LpqRank(graph, 4, 2)
    with pytest.raises(ValueError, match=r"theta = p/q is 1\.5"):
        LpqRank(graph, math.inf, math.inf, theta=1.5)
    allowed = LpqRank(graph, 4, 2, allow_expansive=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        found = allowed.solve(max_iter=200)
    assert found.certificate.kind == "residual"
    assert rank.certified_top(solution).size == 0


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"graph": np.eye(2)}, TypeError, "convexrank.Graph"),
        ({"p": 0.5}, ValueError, "p is 0.5"),
        ({"q": float("nan")}, ValueError, "q is nan"),
        ({"p": "two"}, TypeError, "p is 'two'"),
        ({"p": math.inf}, ValueError, "both finite or both infinite"),
        ({"q": math.inf}, ValueError, "both finite or both infinite"),
        ({"alpha": 1.0}, ValueError, "alpha is 1.0"),
        ({"weak_links": "none"}, ValueError, "weak_links is 'none'"),
        ({"outdegree_floor": 0.0}, ValueError, "outdegree_floor is 0.0"),
        ({"theta": 0.3}, ValueError, "theta is 0.3, but p/q"),
    ],
)
def test_bad_input_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        LpqRank(**{"graph": from_pairs(FARM), "p": 2.0, "q": 3.0, **changes})


def test_points_must_be_positive():
    problem = LpqRank(from_pairs(FARM), 2, 3)
    for x0 in (np.zeros(9), np.append(np.ones(8), -1.0)):
        with pytest.raises(ValueError, match="greater than 0"):
            problem.solve(x0=x0)
    with pytest.raises(ValueError, match="no objective"):
        problem.objective(problem.start())


def test_certified_prefixes():
    scores = np.array([3.0, 1.0, 2.0, 0.9])
    assert certified_prefix(scores, 0.5, 4).tolist() == [0, 2]
    assert certified_prefix(scores, 0.05, 2).tolist() == [0, 2]
    assert certified_prefix(scores, 0.05, 9).tolist() == [0, 2, 1, 3]
    assert certified_prefix(scores, math.inf, 4).size == 0
    many = np.random.default_rng(0).permutation(1000).astype(float)
    assert certified_prefix(many, 0.5, 10).tolist() == np.argsort(-many)[:10].tolist()
    with pytest.raises(ValueError, match="k is 0"):
        certified_prefix(scores, 0.5, 0)


def proved_first(scores, bound, k):
    """The same by the definition: time and again the node that is above all others by more than the bound."""
    left, found = list(range(len(scores))), []
    while left and len(found) < k:
        first = left.pop(max(range(len(left)), key=lambda place: scores[left[place]]))
        if not all(scores[first] - scores[other] > bound for other in left):
            break
        found.append(first)
    return found


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # infinity less infinity
@pytest.mark.parametrize("bound", [0.0, 1.0, 1.5, math.inf, math.nan])
def test_a_certified_prefix_is_what_the_definition_proves(bound):
    """Whole numbers, so that differences equal to the bound occur: they prove nothing. The last one counts too."""
    rng = np.random.default_rng(0)
    for n in (1, 2, 3, 5, 8, 30):
        for spread in (2, n, 4 * n):
            scores = rng.integers(0, spread, size=n).astype(float)
            ties = np.append(scores, [math.inf, math.inf])
            for k in range(1, n + 2):
                for given in (scores, ties):
                    assert certified_prefix(given, bound, k).tolist() == proved_first(given, bound, k)


def test_the_last_of_a_certified_prefix_is_above_the_next(monkeypatch):
    """Whatever order a partition leaves within its parts: here the least useful one."""

    def partition(values, kth):
        order = np.argsort(values)
        return np.concatenate([order[:kth][::-1], order[kth : kth + 1], order[kth + 1 :][::-1]])

    monkeypatch.setattr(np, "argpartition", partition)
    rng = np.random.default_rng(1)
    for n, k in ((500, 1), (500, 30), *((9, k) for k in range(1, 9))):
        scores = rng.permutation(n).astype(float)
        assert certified_prefix(scores, 0.5, k).tolist() == proved_first(scores, 0.5, k)
        scores[scores == n - 1 - k] += 1.0  # a tie of the last with the next
        assert len(certified_prefix(scores, 0.5, k)) == k - 1
