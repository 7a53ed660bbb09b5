"""Paths: every point is the solution of its own problem, and the path ends where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.core import paths
from tests.tolerances import tolerance


def data(seed=0, rows=90, columns=12):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    y = (X[:, 0] - X[:, 1] + 2.0 * rng.normal(size=rows) > 0).astype(int)
    return X, y


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_every_point_is_the_solution_of_its_problem(form):
    X, y = data()
    problem = cr.problems.PNormPush(form(X), y, p=4, l1=1.0)
    path = problem.path(l1="auto", n=6, ratio=0.3, tol=1e-9)
    assert path.values[0] == problem.l1_max()
    assert path.values[-1] == pytest.approx(0.3 * problem.l1_max())
    assert len(path) == 6
    assert path.stopped == ""
    for value, solution in zip(path.values, path, strict=True):
        alone = problem.changed(l1=float(value)).solve("accelerated", tol=1e-9)
        assert abs(solution.value - alone.value) <= solution.gap + alone.gap
        assert solution.gap <= 1e-9
    assert path.counts[0] == 0 < path.counts[-1]
    np.testing.assert_array_equal(path.coefficients, [solution.x for solution in path])


def test_the_bounds_of_a_wide_path_hold_everywhere():
    X, y = data()
    path = cr.path(cr.problems.PNormPush(sparse.csr_array(X), y, p=2, l1=1.0), l1="auto", n=5, ratio=0.5)
    assert {solution.certificate.kind for solution in path} == {"global"}
    # the second point is that of the next value, once two values tell how they fall
    for one, following in pairwise(path.solutions[1:]):
        ahead, here = (
            following.instance.objective(w) - following.value for w in (one.witness.points[1], one.x)
        )
        assert ahead < 0.1 * here


def test_paths_along_l2_and_p_and_of_queries():
    X, y = data()
    falling = cr.path(cr.problems.PNormPush(X, y, p=4), l2=[0.1, 1.0, 0.01])
    assert falling.values.tolist() == [1.0, 0.1, 0.01]
    lengths = np.linalg.norm(falling.coefficients, axis=1)
    assert (np.diff(lengths) > 0).all()
    rising = cr.path(cr.problems.PNormPush(X, y, p=4, l2=0.1), p=[4, 1])
    assert rising.values.tolist() == [1.0, 4.0]
    queries = cr.path(cr.problems.ListNet(X, y, np.arange(90) // 9, l1=1.0), l1="auto", n=4)
    assert queries.counts[-1] > 0


@pytest.mark.parametrize("columns", [0, 3])
@pytest.mark.parametrize("dangling", ["teleport", "uniform", "drop"])
def test_a_sweep_over_alpha(columns, dangling):
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 400, (2, 1600))  # some nodes have no link
    graph = cr.Graph.from_edges(*edges, n=400)
    v = rng.random((400, columns)) if columns else None
    problem = cr.problems.PageRank(graph, personalization=v, dangling=dangling)
    alphas = [0.99, 0.0, 0.5, 0.85, 0.9, 0.95, 0.97]
    sweep = problem.path(alpha=alphas, tol=1e-9)
    assert sweep.values.tolist() == sorted(alphas)
    assert sweep.gaps.max() <= 1e-9
    alone = [problem.changed(alpha=alpha) for alpha in sorted(alphas)]
    for own, solution in zip(alone, sweep, strict=True):
        assert own.distance(solution.x, own.reference()) <= 1.1e-9
    steps = [own.solve(tol=1e-9).iterations for own in alone]
    assert sum(solution.iterations for solution in sweep) < sum(steps)
    assert sweep.coefficients.shape == (7, *problem.shape)


def test_the_plot_of_a_sweep_over_alpha():
    plt = pytest.importorskip("matplotlib.pyplot")
    problem = cr.problems.PageRank(cr.Graph.from_edges([0, 0, 1], [1, 2, 2]))
    panels = problem.path(alpha=[0.1, 0.5, 0.9]).plot()
    assert panels[0].get_ylabel() == "rank"
    assert panels[0].get_xscale() == "linear"
    np.testing.assert_array_equal(panels[0].lines[0].get_xdata(), [0.1, 0.5, 0.9])
    plt.close("all")


def test_a_path_ends_where_no_minimiser_exists():
    X, y = np.array([[3.0], [4.0], [0.0], [0.5]]), [1, 1, 0, 0]
    path = cr.path(cr.problems.PNormPush(X, y, p=2, l1=9.0), l1="auto", n=40, ratio=1e-3)
    assert 0 < len(path) < 40
    assert "falls without bound" in path.stopped
    assert float(path.stopped.split()[2].rstrip(":")) < path.values[-1]
    with pytest.raises(ValueError, match="the path has no point"):
        cr.path(cr.problems.PNormPush(X, y, p=2), l2=[0.0])


def test_a_path_over_p_without_penalty():
    """Right where classes overlap; where they do not, and over thresholds, the message says what is missing."""
    X, y = data()
    path = cr.path(cr.problems.PNormPush(X, y, p=2), p=[1.0, 4.0])
    alone = cr.problems.PNormPush(X, y, p=4).solve()
    assert abs(path[-1].value - alone.value) <= path[-1].gap + alone.gap
    with pytest.raises(ValueError, match=r"no point: already at p = 1: .*add l2 or l1"):
        cr.path(cr.problems.PNormPush(X, X[:, 0] > 0, p=2), p=[1.0, 4.0])
    solved = []
    design = cr.problems.PNormPush(cr.features.Thresholds(X), y, p=2, l1=0.3)
    with pytest.raises(ValueError, match="both l1 and l2 are 0"):
        # refused before anything is solved, so that no point is lost
        cr.path(design, l1=[0.3, 0.0], metric=lambda *args: solved.append(args) or 0.0, validation=(X, y))
    assert not solved


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(3))
def test_a_minimum_at_zero_is_zero_from_anywhere(seed):
    """It was some 1e-12, whose order is that of rounding, and was judged like one that is learned."""
    rng = np.random.default_rng(seed)
    problem = cr.problems.PartialAUC(rng.normal(size=(60, 2)), rng.random(60) < 0.4, max_fpr=0.1, l2=0.01)
    from_zero = problem.solve(tol=1e-9)
    assert not from_zero.x.any()
    last = cr.path(problem, max_fpr=[1.0, 0.1], tol=1e-9)[-1]
    for solution in (last, problem.solve(x0=np.ones(2), tol=1e-9)):
        assert not solution.x.any()
        assert solution.converged
        assert solution.value == pytest.approx(from_zero.value, rel=tolerance("summation"))
        assert f"{solution.certificate}" in solution.message
        assert solution.value - solution.certificate.lower_bound <= 1e-9


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_a_value_that_is_lower_by_rounding_alone_is_that_of_zero():
    """From 0 on, too: 1e-16 had a value below that of 0 in the last digit."""
    rng = np.random.default_rng(10)
    X, y = rng.normal(size=(60, 2)), rng.random(60) < 0.4
    assert not cr.problems.PartialAUC(X, y, max_fpr=0.3, min_tpr=0.5, l1=1.0).solve().x.any()


def test_a_metric_stops_the_path_and_chooses():
    X, y = data(rows=300, columns=60)
    problem = cr.problems.PNormPush(X[:150], y[:150], p=1, l1=1.0)
    held = X[150:], y[150:]
    whole = cr.path(problem, l1="auto", n=30, ratio=0.05, metric=cr.metrics.auc, validation=held, patience=30)
    short = cr.path(problem, l1="auto", n=30, ratio=0.05, metric=cr.metrics.auc, validation=held, patience=2)
    expected = [cr.metrics.auc(held[1], held[0] @ solution.x) for solution in whole]
    np.testing.assert_allclose(whole.metric, expected)
    assert whole.best() is whole[int(np.argmax(expected))]
    assert whole.best(cr.metrics.auc, *held) is whole.best()
    assert len(short) <= len(whole)
    assert (len(short) == len(whole)) == (short.stopped == "")
    frame = whole.to_frame()
    assert list(frame["l1"]) == whole.values.tolist()
    assert list(frame["metric"]) == whole.metric.tolist()


def test_designs_take_tables():
    X, y = data()
    design = cr.features.Thresholds(X)
    path = cr.path(cr.problems.PNormPush(design, y, p=2, l1=1.0), l1="auto", n=3, ratio=0.5)
    np.testing.assert_allclose(path.scores(X), path.scores(design))
    np.testing.assert_allclose(path.scores(X)[-1], design @ path[-1].x)


def test_the_plot_has_no_empty_panel():
    plt = pytest.importorskip("matplotlib.pyplot")
    X, y = data()
    problem = cr.problems.PNormPush(X, y, p=2, l1=1.0)
    path = cr.path(problem, l1="auto", n=4, metric=cr.metrics.auc, validation=(X, y))
    panels = path.plot()
    assert [len(panel.lines) > 0 for panel in panels] == [True, True, True]
    assert len(panels[0].lines) == 12
    plt.close("all")
    with pytest.raises(ValueError, match="ax holds 1 Axes, expected 3"):
        path.plot(ax=plt.subplots()[1])
    plt.close("all")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ValueError, "a path follows one parameter; given none"),
        ({"l1": "auto", "p": [1.0]}, ValueError, "follows one parameter"),
        ({"l1": []}, ValueError, "l1"),
        ({"l1": [-1.0]}, ValueError, "l1 is -1.0"),
        ({"p": "auto"}, ValueError, "p is 'auto'"),
        ({"l1": "auto", "ratio": 2.0}, ValueError, "ratio is 2.0"),
        ({"l1": "auto", "n": 0}, ValueError, "n is 0"),
        ({"l1": "auto", "metric": cr.metrics.auc}, ValueError, "belong together"),
        ({"l1": "auto", "patience": 0}, ValueError, "patience is 0"),
        ({"l1": "auto", "verbose": "no"}, TypeError, "verbose is 'no'"),
    ],
)
def test_bad_input(options, error, words):
    X, y = data()
    with pytest.raises(error, match=words):
        cr.path(cr.problems.PNormPush(X, y, p=2, l1=1.0), **options)


def test_what_a_path_cannot_follow():
    ranks = cr.problems.PageRank(cr.Graph.from_edges([0, 0, 1], [1, 2, 2]))
    with pytest.raises(ValueError, match="alpha is 1"):
        ranks.path(alpha=[0.5, 1.0])
    with pytest.raises(ValueError, match=r"alpha is -0\.1"):
        ranks.path(alpha=[-0.1])
    with pytest.raises(ValueError, match="PageRank has no parameter l1"):
        ranks.path(l1="auto")
    with pytest.raises(ValueError, match="metric judges scores of rows, and PageRank has none"):
        ranks.path(alpha=[0.5], metric=cr.metrics.auc, validation=([[1.0]], [1]))
    X, y = data()
    with pytest.raises(ValueError, match="has no parameter p"):
        cr.path(cr.problems.ListNet(X, y, np.arange(90) // 9, l1=1.0), p=[1.0])
    with pytest.raises(ValueError, match="no metric was watched"):
        cr.path(cr.problems.PNormPush(X, y, p=2), l2=[1.0]).best()
    with pytest.raises(ValueError, match="give X and y"):
        cr.path(cr.problems.PNormPush(X, y, p=2), l2=[1.0]).best(cr.metrics.auc)


def test_a_method_says_where_the_next_value_starts():
    """Any method may remember the value before: a path asks for the ability, not for a name."""
    asked = []

    @dataclass(frozen=True)
    class Remembers(cr.solvers.WorkingSets):
        name = "remembers"

        def along_path(self, parameter):
            return self

        @property
        def columns_left(self):
            return [1]

        def next_start(self, solution):
            asked.append(solution.x)
            return np.zeros_like(solution.x)

    problem = cr.problems.PNormPush.random(3).changed(l2=0.1)
    found = problem.path(l1=[0.2, 0.1], solver=Remembers())
    assert len(asked) == 2
    assert found.columns_left.tolist() == [1, 1]


def test_core_knows_no_figure_and_no_method():
    text = Path(paths.__file__).read_text()
    assert "matplotlib" not in text
    assert '"working-sets"' not in text
