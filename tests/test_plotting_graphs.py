"""Figures of graphs show the numbers they are made of."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba

import convexrank as cr
from convexrank import plotting
from convexrank.consensus import Polytopes, score_intervals
from convexrank.plotting.graphs import _MARKED, _MOST_NODES, _SURE, _TIED, places
from convexrank.problems import LpqRank, PageRank

plt = pytest.importorskip("matplotlib.pyplot", reason="figures need matplotlib")
NAMES = ("dan", "ann", "cat", "bob", "eve")
GRAPH = cr.Graph.from_edges([0, 0, 1, 2, 3, 3, 4, 1], [1, 2, 2, 0, 2, 0, 1, 4], names=NAMES)


@pytest.fixture(autouse=True)
def clean():
    yield
    plt.close("all")


def bars(panel):
    """Name, length and colour of each bar, from the top."""
    names = [label.get_text() for label in panel.get_yticklabels()]
    return [(n, p.get_width(), p.get_facecolor()) for n, p in zip(names, panel.patches, strict=True)]


@pytest.mark.parametrize("problem", [PageRank(GRAPH), LpqRank(GRAPH, 4, 4.8)], ids=["PageRank", "LpqRank"])
@pytest.mark.parametrize("tol", [1e-8, 0.05, 1.0])
@pytest.mark.parametrize("top", [1, 3, 9])
def test_bars_are_the_first_ranks_and_tell_what_is_proved(problem, tol, top):
    solution = problem.solve(tol=tol)
    panel = plotting.ranks(solution, top=top)
    drawn = bars(panel)
    order = np.argsort(-solution.x, kind="stable")
    assert [(name, length) for name, length, _ in drawn] == [
        (NAMES[i], solution.x[i]) for i in order[:top].tolist()
    ]
    # proved: no other node, drawn or not, can be at the place of this one
    x = solution.x if isinstance(problem, PageRank) else np.log(solution.x)
    for node, (_, _, colour) in zip(order, drawn, strict=False):
        apart = all(abs(x[node] - x[other]) > solution.gap for other in range(5) if other != node)
        assert colour == to_rgba(_SURE if apart else _TIED)
    bounds = problem.score_intervals(solution)
    (segments,) = [c.get_segments() for c in panel.collections if hasattr(c, "get_segments")]
    for node, ends in zip(order, segments, strict=False):
        assert np.allclose(ends[:, 0], [bounds.lower[node], bounds.upper[node]], rtol=0.0, atol=1e-12)
    assert (panel.get_legend() is None) == all(colour == to_rgba(_SURE) for _, _, colour in drawn)


def test_brackets_join_tied_nodes():
    """0 and 1 are tied whatever the tolerance, the others are not; 4 and 5 are tied as the last two that are drawn."""
    graph = cr.Graph.from_edges([0, 1, 2, 3, 4, 5, 6], [2, 2, 3, 2, 6, 6, 2])
    panel = plotting.ranks(PageRank(graph).solve(tol=1e-10))
    ranks = cr.pagerank(graph)
    rows = [int(label.get_text()) for label in panel.get_yticklabels()]
    groups = [
        line.get_ydata() for line in panel.lines if len(line.get_xdata()) == 2 and line.get_linewidth() == 2.0
    ]
    joined = [{rows[row] for row in range(7) if low <= row <= high} for low, high in groups]
    tied = [{i for i in range(7) if abs(ranks[i] - ranks[j]) < 1e-9} for j in range(7)]
    wanted = [group for place, group in enumerate(tied) if len(group) > 1 and group not in tied[:place]]
    assert sorted(map(sorted, joined)) == sorted(map(sorted, wanted))
    assert wanted


def test_ranks_of_other_problems_are_refused():
    batch = PageRank(GRAPH, personalization=np.ones((5, 2))).solve()
    for solution in (batch, cr.problems.PenaltyRank(GRAPH).solve()):
        with pytest.raises(ValueError, match="expected one of PageRank with one personalization"):
            plotting.ranks(solution)
    with pytest.raises(TypeError, match="expected a Solution"):
        plotting.ranks(cr.pagerank(GRAPH))


def test_single_nodes_and_given_axes():
    one = cr.Graph.from_edges([0], [0])
    panel = plt.figure().add_subplot()
    assert plotting.ranks(PageRank(one).solve(), ax=panel) is panel
    assert bars(panel)[0][2] == to_rgba(_SURE)
    assert len(plotting.graph(one).texts) == 1


def test_intervals_are_drawn_in_order():
    bounds = score_intervals(Polytopes.around(GRAPH, 0.3))
    ranks = GRAPH.series(cr.pagerank(GRAPH))
    solution = PageRank(GRAPH).solve(tol=1e-12)
    assert np.array_equal(
        plotting.intervals(bounds, scores=solution).lines[0].get_xdata(), np.sort(solution.x)[::-1]
    )
    for scores in (None, ranks, ranks[::-1], ranks.to_dict(), ranks.to_numpy()):
        panel = plotting.intervals(bounds, scores=scores, top=4)
        key = bounds.lower + bounds.upper if scores is None else ranks.to_numpy()
        order = np.argsort(-key)[:4]
        assert [label.get_text() for label in panel.get_yticklabels()] == [NAMES[i] for i in order]
        (lines,) = [c.get_segments() for c in panel.collections]
        assert [tuple(line[:, 0]) for line in lines] == [(bounds.lower[i], bounds.upper[i]) for i in order]
        if scores is not None:
            assert panel.lines[0].get_xdata().tolist() == ranks.to_numpy()[order].tolist()
    some = score_intervals(Polytopes.around(GRAPH, 0.3), nodes=["bob", "ann"])
    assert len(plotting.intervals(some, scores=ranks.to_dict()).get_yticklabels()) == 2


def test_areas_are_ranks_and_places_are_those_given():
    ranks = cr.pagerank(GRAPH)
    spots = {name: (float(i), float(i % 2)) for i, name in enumerate(NAMES)}
    panel = plotting.graph(GRAPH, GRAPH.series(ranks)[::-1], marked=["bob"], positions=spots)
    (nodes,) = panel.collections
    assert np.allclose(nodes.get_offsets(), list(spots.values()))
    assert np.allclose(nodes.get_sizes() / nodes.get_sizes().max(), ranks / ranks.max())
    assert [bool(np.allclose(c, to_rgba(_MARKED))) for c in nodes.get_facecolors()] == [
        n == "bob" for n in NAMES
    ]
    labels = [text.get_text() for text in panel.texts if text.get_text()]
    assert labels == list(NAMES)
    arrows = [text for text in panel.texts if text.arrow_patch is not None]
    assert len(arrows) == GRAPH.m
    sized = plotting.graph(GRAPH, PageRank(GRAPH).solve()).collections[0].get_sizes()
    assert np.allclose(sized, nodes.get_sizes(), rtol=1e-6)
    flags = np.array(NAMES) == "bob"
    again = plotting.graph(GRAPH, marked=flags, positions=np.array(list(spots.values())))
    assert np.allclose(again.collections[0].get_facecolors(), nodes.get_facecolors())
    with mpl.rc_context({"figure.max_open_warning": 0}):
        loop = plotting.graph(cr.Graph.from_edges([0, 0], [0, 1]))
    assert len(loop.lines) == 1  # the ring of the node that links to itself


def test_a_path_is_laid_out_straight_and_a_cycle_round():
    """Stress can be 0 for a path: neighbours at one distance, in a line. A cycle has all nodes on a circle."""
    path = places(cr.Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 4]))
    steps = np.diff(path, axis=0)
    assert np.allclose(steps, steps[0], atol=1e-2 * np.linalg.norm(steps[0]))
    circle = places(cr.Graph.from_edges([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]))
    radii = np.linalg.norm(circle - circle.mean(axis=0), axis=1)
    assert np.ptp(radii) < 1e-2 * radii.max()
    everyone = np.repeat(np.arange(6), 6), np.tile(np.arange(6), 6)
    for graph in (
        cr.Graph.from_edges(*everyone),
        cr.Graph.from_edges([], [], n=6),
    ):  # all distances are equal
        spots = places(graph)
        assert (np.linalg.norm(spots[:, None] - spots[None], axis=2) + np.eye(6)).min() > 0.2
    parts = places(cr.Graph.from_edges([0, 2], [1, 3], n=5))  # two pairs and a node alone
    gaps = np.linalg.norm(parts[:, None] - parts[None], axis=2) + np.eye(5)
    assert gaps.min() > 0.1
    assert np.array_equal(parts, places(cr.Graph.from_edges([0, 2], [1, 3], n=5)))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: plotting.graph([[0, 1]]), TypeError, "graph is a list, expected a convexrank.Graph"),
        (lambda: plotting.graph(cr.Graph.from_edges([0], [_MOST_NODES])), ValueError, "graph has 61 nodes"),
        (lambda: plotting.graph(GRAPH, np.ones(4)), ValueError, "ranks has 4 entries, expected 5"),
        (lambda: plotting.graph(GRAPH, -np.ones(5)), ValueError, "ranks has negative values"),
        (lambda: plotting.graph(GRAPH, marked=["bobb"]), ValueError, "marked has 'bobb'.*did you mean 'bob'"),
        (lambda: plotting.graph(GRAPH, positions={"ann": (0, 0)}), ValueError, "no place for the node 'dan'"),
        (
            lambda: plotting.graph(GRAPH, positions=np.ones((5, 3))),
            ValueError,
            r"positions has shape \(5, 3\)",
        ),
        (lambda: plotting.intervals(GRAPH), TypeError, "expected ScoreIntervals"),
        (
            lambda: plotting.intervals(score_intervals(Polytopes.around(GRAPH, 0.3)), scores={"ann": 1.0}),
            ValueError,
            "scores has no entry, expected a number, for the node 'dan'",
        ),
        (
            lambda: plotting.intervals(
                score_intervals(Polytopes.around(GRAPH, 0.3)), scores=dict.fromkeys(NAMES, np.inf)
            ),
            ValueError,
            "scores contains NaN or infinity",
        ),
        (
            lambda: plotting.intervals(
                score_intervals(Polytopes.around(GRAPH, 0.3)), scores=dict.fromkeys(NAMES, "high")
            ),
            ValueError,
            "scores holds .*expected numbers",
        ),
        (
            lambda: plotting.intervals(
                score_intervals(Polytopes.around(GRAPH, 0.3)), scores=pd.Series([1.0], index=["ann"])
            ),
            ValueError,
            "scores has no row for the node 'dan'",
        ),
    ],
)
def test_bad_input_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
