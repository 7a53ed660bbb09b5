"""PageRank against dense systems, networkx, and its own promises."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import convexrank as cr
from convexrank.graphs import build, transition
from convexrank.problems.graph_ranks.page_rank import PageRank
from tests.graph_files import LISTS, real_graph
from tests.tolerances import tolerance

SOLVERS = ("power", "gauss-seidel", cr.solvers.GaussSeidel(threads=3))


def four_nodes():
    """Edges 0→1, 0→2, 1→2, 2→0, 3→2, 3→0."""
    return cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])


def by_loops(graph, alpha, v, mode, steps=2000):
    """The walk itself, edge by edge, until nothing changes."""
    sources, targets, weights = graph.edges()
    n, out = graph.n, graph.out_weight
    to = {"teleport": v, "uniform": 1.0 / n, "drop": 0.0}[mode] if isinstance(mode, str) else mode
    x = v.copy()
    for _ in range(steps):
        new = (1 - alpha) * v
        for s, t, w in zip(sources, targets, weights, strict=True):
            new[t] += alpha * w / out[s] * x[s]
        for j in range(n):
            if out[j] == 0:
                new = new + alpha * x[j] * to
        if np.array_equal(new, x):
            break
        x = new
    return x


@pytest.mark.parametrize("seed", range(12))
def test_reference_is_the_walk(seed):
    problem = PageRank.random(seed)
    columns = problem.teleport.reshape(problem.graph.n, -1).T
    walks = [by_loops(problem.graph, problem.alpha, v, problem.dangling) for v in columns]
    expected = np.stack(walks, axis=1).reshape(problem.shape)
    assert np.abs(problem.reference() - expected).sum(axis=0).max() <= tolerance("summation")


@pytest.mark.parametrize(
    ("solver", "seeds"),
    [
        (SOLVERS[0], range(40)),
        (SOLVERS[1], range(40, 80)),
        (SOLVERS[2], range(240, 250)),
    ],  # threads wait for one another: fewer of theirs
    ids=[str(solver) for solver in SOLVERS],
)
def test_certificates_are_never_below_the_true_error(solver, seeds):
    """Random graphs, between the three solvers; and on the way, not only at the end."""
    for seed in seeds:
        problem = PageRank.random(10_000 + seed)
        truth = problem.reference()
        seen = []
        solution = problem.solve(solver, tol=1e-9, callback=lambda state, seen=seen: seen.append(state))
        assert solution.converged, seed
        assert problem.distance(solution.x, truth) <= solution.gap <= 1e-9, seed
        for state in seen[:: max(1, len(seen) // 3)]:
            error = problem.distance(state.x, truth)
            assert error <= problem.certificate(state.x).gap, seed
            assert error <= state.residual + tolerance("atoms"), seed


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
def test_batches_are_their_columns(solver):
    graph = real_graph("harvard500")
    v = np.random.default_rng(0).random((graph.n, 4)) ** 8
    for mode in ("teleport", "uniform", "drop"):
        together = PageRank(graph, 0.85, v, mode).solve(solver, tol=1e-12)
        for c in range(4):
            alone = PageRank(graph, 0.85, v[:, c], mode).solve(solver, tol=1e-12)
            assert np.abs(together.x[:, c] - alone.x).sum() <= 2e-12


@pytest.mark.parametrize("name", list(LISTS))
def test_networkx_agrees_on_real_graphs(name):
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    graph = real_graph(name)
    sources, targets, weights = graph.edges()
    other = networkx.DiGraph()
    other.add_nodes_from(range(graph.n))
    other.add_weighted_edges_from(zip(sources.tolist(), targets.tolist(), weights.tolist(), strict=True))
    chosen = {int(i): 1.0 for i in np.argsort(-graph.in_weight)[:50]}
    seeds = np.zeros(graph.n)
    seeds[list(chosen)] = 1.0
    for alpha, personalization, seed_vector in ((0.85, None, None), (0.5, chosen, seeds)):
        theirs = networkx.pagerank(other, alpha, personalization, max_iter=2000, tol=1e-15)
        theirs = np.array([theirs[i] for i in range(graph.n)])
        for solver in SOLVERS:
            ours = PageRank(graph, alpha, seed_vector).solve(solver, tol=1e-12)
            assert np.abs(ours.x - theirs).sum() <= tolerance("networkx")


def test_threads_and_pieces_change_nothing(monkeypatch):
    graph = real_graph("wiki-Vote")
    weighted = cr.Graph.from_edges(
        *graph.edges()[:2], np.random.default_rng(0).random(graph.m) + 0.1, graph.n
    )
    for one in (graph, weighted):
        problem = PageRank(one)
        alone = problem.solve(tol=1e-13)
        with monkeypatch.context() as patched:
            patched.setattr(build, "_WORTH_THREADS", 0)
            patched.setattr(build, "threads_available", lambda: 3)
            patched.setattr("convexrank.problems.graph_ranks.page_rank._PIECE", 1000)
            together = problem.solve(tol=1e-13)
            again = problem.solve(tol=1e-13)
            gap = problem.certificate(alone.x).gap
        assert np.array_equal(together.x, again.x)
        assert np.abs(together.x - alone.x).sum() <= 2e-13
        assert gap == pytest.approx(alone.gap, rel=1e-2)


def test_published_four_node_graph():
    """The value that mathematics gives it, from the eigenvector of the dense matrix."""
    P = four_nodes().transition(0.85).dense()
    values, vectors = np.linalg.eig(P)
    leading = np.real(vectors[:, np.argmax(np.real(values))])
    assert np.abs(PageRank(four_nodes()).solve(tol=1e-13).x - leading / leading.sum()).max() <= tolerance(
        "summation"
    )


def test_extremes():
    graph = four_nodes()
    assert np.abs(PageRank(graph, 0.0).solve().x - 0.25).max() <= tolerance("summation")
    only = cr.Graph.from_edges([], [], n=1)
    assert PageRank(only).solve().x.tolist() == pytest.approx([1.0])
    none = cr.Graph.from_edges([], [], n=5)
    assert np.allclose(PageRank(none).solve().x, 0.2)
    assert np.allclose(PageRank(none, dangling="drop").solve().x, 0.15 * 0.2)
    loop = cr.Graph.from_edges([0], [0], n=2)
    assert np.allclose(PageRank(loop, 0.5, [0]).solve().x, [1.0, 0.0])
    slow = PageRank(graph, 0.999).solve(tol=1e-10)
    assert np.abs(slow.x - PageRank(graph, 0.999).reference()).sum() <= 1e-10


@pytest.mark.parametrize("mode", ["teleport", "drop"])
def test_no_bound_is_wider_than_two_vectors_can_be_apart(mode):
    """Where alpha is next to 1 a residual says nothing, and sizes do: of ranks that add up to at most 1."""
    rng = np.random.default_rng(0)
    for columns in ((), (2,)):
        problem = PageRank(four_nodes(), 1.0 - 2.0**-53, np.ones((4, *columns)), mode)
        for scale in (0.0, 1.0, 7.0):
            x = scale * rng.dirichlet(np.ones(4), columns or None).T
            for certificate in (problem.certificate(x), problem.prove(x)):
                assert certificate.gap == pytest.approx(scale + 1.0, abs=tolerance("summation"))


def test_dropped_and_teleported_ranks_are_proportional():
    """The strongly preferential PageRank is the pseudorank, scaled."""
    graph = real_graph("harvard500")
    kept, lost = (PageRank(graph, 0.85, [0, 5], mode).solve(tol=1e-13).x for mode in ("teleport", "drop"))
    assert lost.sum() < 0.99
    assert np.abs(lost / lost.sum() - kept).sum() <= tolerance("summation")


@pytest.mark.parametrize("solver", [*SOLVERS, "jax-power"], ids=str)
def test_dangling_nodes_with_a_distribution_of_their_own_have_its_links(solver):
    edges, weights = ([0, 0, 1, 5], [1, 2, 2, 0]), [1.0, 2.0, 1.0, 1.0]
    given = {0: 1.0, 3: 3.0}
    rank = PageRank(cr.Graph.from_edges(*edges, weights, n=6), 0.9, [1, 2], given)
    added = [(j, i) for j in (2, 3, 4) for i in given]  # the links that say the same
    whole = cr.Graph.from_edges(*np.c_[edges, np.array(added).T], [*weights, *[1.0, 3.0] * 3], n=6)
    ours, theirs = rank.solve(solver, tol=1e-12), PageRank(whole, 0.9, [1, 2]).solve(tol=1e-12)
    assert np.abs(ours.x - theirs.x).sum() <= ours.gap + theirs.gap
    assert rank.prove(ours.x).gap <= 1e-12
    assert np.array_equal(pickle.loads(pickle.dumps(rank)).dangling, [0.25, 0, 0, 0.75, 0, 0])


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"graph": [[0, 1]]}, TypeError, "convexrank.Graph"),
        ({"alpha": 1.0}, ValueError, "alpha is 1.0"),
        ({"alpha": "high"}, TypeError, "alpha is 'high'"),
        ({"personalization": []}, ValueError, "at least one node"),
        ({"personalization": [9]}, ValueError, r"personalization\[0\] is 9"),
        ({"personalization": [1.0, -1.0, 0.0, 0.0]}, ValueError, r"personalization\[1\] is -1"),
        ({"personalization": np.ones((3, 2))}, ValueError, r"expected \(4, k\)"),
        ({"personalization": np.zeros((4, 2))}, ValueError, "zero everywhere"),
        ({"dangling": "stay"}, ValueError, "dangling is 'stay'"),
        ({"dangling": [0.5, 0.5]}, ValueError, "dangling has 2 entries, expected 4"),
        ({"dangling": {0: -1.0}}, ValueError, "is -1"),
        ({"dangling": {4: 1.0}}, ValueError, r"dangling\[0\] is 4"),
    ],
)
def test_bad_input_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        PageRank(**{"graph": four_nodes(), **arguments})


def test_points_of_another_shape_are_refused():
    problem = PageRank(four_nodes(), personalization=np.eye(4)[:, :2])
    with pytest.raises(ValueError, match=r"x0 has shape \(4,\), expected \(4, 2\)"):
        problem.solve(x0=np.ones(4))
    with pytest.raises(ValueError, match="no objective"):
        problem.objective(problem.start())
    with pytest.raises(ValueError, match="threads is 0"):
        cr.solvers.GaussSeidel(threads=0)


@pytest.mark.parametrize("columns", [1, 9, 65])
@pytest.mark.parametrize("mode", ["teleport", "uniform", "drop", {3: 1.0, 29: 2.0}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_ranks_that_are_swept_together_are_those_swept_alone(columns, mode, weighted):
    """Up to 64 ranks share a sweep, in lines of eight; the last line may be half empty."""
    rng = np.random.default_rng(columns)
    n, m = 60, 200
    edges = rng.integers(0, n // 2, m), rng.integers(0, n, m)  # half of the nodes are dangling
    graph = cr.Graph.from_edges(*edges, rng.exponential(size=m) if weighted else None, n=n)
    v = rng.random((n, columns)) * (rng.random((n, columns)) < 0.2) + 1e-4
    together = PageRank(graph, personalization=v, dangling=mode).solve(tol=1e-12)
    some = np.unique([0, columns // 2, max(columns - 2, 0), columns - 1])
    alone = [PageRank(graph, personalization=column, dangling=mode).solve(tol=1e-12) for column in v.T[some]]
    assert together.converged
    for ours, single in zip(together.x.T[some], alone, strict=True):
        assert np.abs(ours - single.x).sum() <= together.gap + single.gap
    assert together.iterations <= 2 * max(single.iterations for single in alone)  # combined like single ones


@pytest.mark.parametrize("mode", ["teleport", "uniform", "drop", {3: 1.0, 29: 2.0}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_certificate_of_a_batch_is_the_residual_of_each_column(mode, weighted):
    rng = np.random.default_rng(0)
    edges, n, columns = rng.integers(0, 20, (2, 90)), 30, 65  # the last ten nodes are dangling
    graph = cr.Graph.from_edges(*edges, rng.exponential(size=90) if weighted else None, n=n)
    problem = PageRank(graph, personalization=rng.random((n, columns)), dangling=mode)
    solved = problem.solve(tol=1e-12).x
    x = solved + 0.1 * (rng.dirichlet(np.ones(n), columns).T - solved)  # so near that sizes prove less
    moved = np.stack([P.dense() @ w for P, w in zip(problem.operators, x.T, strict=True)], axis=1)
    moved += (1.0 - problem.alpha) * (1.0 - x.sum(axis=0)) * problem.teleport  # where rank is lost
    expected = np.abs(moved - x).sum(axis=0).max() / (1.0 - problem.alpha)
    assert problem.certificate(x).gap == pytest.approx(expected, rel=tolerance("summation"))
    damaged = solved.copy()
    damaged[29, 64] += 1e-9
    assert problem.certificate(damaged).gap >= 1e-9


@pytest.mark.parametrize("mode", ["teleport", "uniform", "drop"])
def test_a_batch_that_is_stopped_early_has_what_its_sweeps_found(mode):
    rng = np.random.default_rng(3)
    graph = cr.Graph.from_edges(*rng.integers(0, 200, (2, 1500)), n=210)
    problem = PageRank(graph, personalization=rng.random((210, 5)), dangling=mode)
    truth, before = problem.reference(), problem.distance(problem.start(), problem.reference())
    for limit in (1, 2, 4, 8, 16):
        with pytest.warns(cr.ConvergenceWarning):
            stopped = problem.solve("gauss-seidel", max_iter=limit, tol=1e-15)
        assert stopped.status is cr.Status.MAX_ITER
        assert stopped.iterations == limit
        error = problem.distance(stopped.x, truth)
        assert error <= stopped.gap
        assert error <= 0.5 * before
        before = max(error, 1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_in_float32_cost_no_digit_where_many_link_to_one(weighted):
    n, rng = 20_000, np.random.default_rng(4)
    source = np.r_[np.arange(1, n), np.zeros(n - 1, dtype=int)]
    target = np.r_[np.zeros(n - 1, dtype=int), np.arange(1, n)]
    weights = rng.uniform(1.0, 2.0, len(source)) if weighted else None
    graph = cr.Graph.from_edges(source, target, weights, n=n)
    v = rng.random((n, 2))
    batch = PageRank(graph, personalization=v).solve("gauss-seidel", tol=1e-12)
    assert batch.converged
    for column, alone in zip(batch.x.T, v.T, strict=True):
        single = PageRank(graph, personalization=alone).solve("gauss-seidel", tol=1e-12)
        assert np.abs(column - single.x).sum() <= batch.gap + single.gap


def test_distributions_of_a_matrix_are_those_of_its_columns():
    rng = np.random.default_rng(5)
    weights = rng.random((1000, 4)) * (rng.random((1000, 4)) < 0.5)
    weights[:, 1] *= 1e305
    weights[:, 2] = transition.distribution(1000, None, weights[:, 2], "v")  # stays as it is, to the last bit
    for rows in (weights, weights * [1.0, 1e3, 1.0, 1.0]):  # the second one with a sum that overflows
        found = transition.distributions(1000, None, rows, "v")
        for column, given in zip(found.T, rows.T, strict=True):
            assert np.allclose(column, transition.distribution(1000, None, given, "v"), rtol=1e-15, atol=0.0)
        assert np.array_equal(found[:, 2], weights[:, 2])
    for place, value, words in (((3, 1), -1.0, r"v\[3\] is -1"), ((slice(None), 2), 0.0, "zero everywhere")):
        wrong = weights.copy()
        wrong[place] = value
        with pytest.raises(ValueError, match=words):
            transition.distributions(1000, None, wrong, "v")


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_a_problem_and_its_operators_store_nothing_twice(monkeypatch, columns):
    read = []
    for name in ("distribution", "check_matrix"):
        check = getattr(transition, name)
        monkeypatch.setattr(transition, name, lambda *given, check=check: read.append(given) or check(*given))
    weights = np.arange(1.0, 4.0 * columns + 1.0).reshape(4, columns)
    problem = PageRank(four_nodes(), personalization=[None, weights[:, :1].ravel(), None, weights][columns])
    problem.solve()
    assert len(read) == min(columns, 1)  # all are read once, on the way from the caller to the answer
    assert len(problem.operators) == max(columns, 1)
    for j, operator in enumerate(problem.operators):
        assert operator.graph is problem.graph
        if columns:
            assert problem.teleport is problem.personalization
            assert np.shares_memory(operator.personalization, problem.personalization)
            assert not operator.personalization.flags.writeable
            theirs = problem.personalization.reshape(4, -1)[:, j]
            assert np.array_equal(operator.teleport, theirs)
        if columns == 3:
            assert operator.share is problem.operators[0].share


@pytest.mark.parametrize("formulation", [cr.problems.PenaltyRank, cr.problems.PageRankGame])
def test_a_problem_takes_its_arguments_from_its_operator(formulation):
    problem = formulation(four_nodes(), personalization=[1.0, 2.0, 3.0, 4.0])
    assert problem.operator.personalization is problem.personalization
    assert problem.operator.graph is problem.graph


@pytest.mark.parametrize("seed", range(60))
def test_the_certified_top_is_in_the_true_order(seed):
    problem = PageRank.random(3_000 + seed)
    if len(problem.shape) > 1:
        with pytest.raises(ValueError, match=r"holds \d+ ranks, expected one"):
            problem.certified_top(problem.start())
        return
    truth = problem.reference()
    for tol in (0.1, 1e-2, 1e-9):
        top = problem.certified_top(problem.solve(tol=tol), problem.graph.n)
        rest = np.setdiff1d(np.arange(problem.graph.n), top)
        for place, node in enumerate(top):
            assert (truth[node] > truth[np.concatenate([top[place + 1 :], rest])]).all()


@pytest.mark.parametrize("solver", SOLVERS, ids=str)
@pytest.mark.parametrize("make", [PageRank, lambda graph: cr.problems.LpqRank(graph, p=2, q=4)])
def test_a_solve_ends_when_the_order_asked_for_is_proved(solver, make):
    problem = make(real_graph("harvard500"))
    if solver != "power" and not isinstance(problem, PageRank):
        pytest.skip("sweeps are for PageRank")
    whole = problem.solve(solver, tol=1e-12)
    order = problem.certified_top(whole, 3)
    assert len(order) == 3
    for k in (1, 3):
        early = problem.solve(solver, tol=1e-12, stop=f"top-{k}")
        assert early.converged
        assert early.iterations <= 0.7 * whole.iterations
        assert early.gap > 1e-12
        assert problem.certified_top(early, k).tolist() == order[:k].tolist()
        assert early.message.startswith(f"the first {k} are proved to be in order (the distance")


def test_tied_nodes_leave_the_end_to_the_tolerance():
    graph = cr.Graph.from_edges([0, 1, 3, 2], [2, 2, 2, 0])
    solution = PageRank(graph).solve(tol=1e-9, stop="top-4")  # 1 and 3 are tied
    assert solution.converged
    assert solution.gap <= 1e-9
    assert "2 of the first 4 are proved to be in order, the next differ by less" in solution.message
    assert "the first 4 are" in PageRank(four_nodes()).solve(stop="top-99").message  # all there are


def test_an_order_is_asked_of_problems_that_have_one():
    for wrong in ("top", "top-0", "top-k", 10, "first-3"):
        with pytest.raises(ValueError, match=r'stop is .*, expected "top-k"'):
            PageRank(four_nodes()).solve(stop=wrong)
    batch = PageRank(four_nodes(), personalization=np.eye(4)[:, :2])
    risk = cr.problems.PNormPush.random(0)
    for problem in (batch, risk):
        with pytest.raises(ValueError, match="with these arguments does not know"):
            problem.solve(stop="top-3")


def test_tied_nodes_end_the_certified_top():
    graph = cr.Graph.from_edges([0, 1, 2, 2], [2, 2, 0, 1])
    problem = PageRank(graph)
    assert problem.certified_top(problem.solve(tol=1e-12)).tolist() == [2]
    assert problem.certified_top(problem.solve(tol=1e-12), 1).tolist() == [2]
