"""The figures: what is drawn is compared with slow references, point by point."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import LogNorm
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import convexrank as cr
from convexrank import plotting, problems
from tests.tolerances import tolerance


@pytest.fixture(autouse=True)
def _clean_slate(monkeypatch):
    """No figure outlives its test, none is shown, and no setting changes."""

    def refuse(*_, **__):
        raise AssertionError("a plotting function called show")

    monkeypatch.setattr(plt, "show", refuse)
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


def draw(rows=30, seed=0):
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < 0.4).astype(int)
    y[:2] = 0, 1
    return y, np.round(3 * (rng.normal(size=rows) + y)) / 3


def close(a, b):
    return np.allclose(a, b, rtol=tolerance("summation"), atol=tolerance("summation"))


# --- ROC ------------------------------------------------------------------------------------------------------------


def roc_by_hand(y, scores):
    corners = [(0, 0)]
    for threshold in sorted(set(scores.tolist()), reverse=True):
        chosen = [label for label, score in zip(y, scores, strict=True) if score >= threshold]
        corners.append((chosen.count(0), chosen.count(1)))
    return np.array(corners, dtype=float)


@pytest.mark.parametrize("rate", [False, True])
def test_roc_draws_the_roc(rate):
    curves = {p: draw(seed=seed) for seed, p in enumerate([1, 4, "IR Push"])}
    panels = plotting.roc(curves, rate=rate, zoom=0.2)
    for panel in panels:
        lines = {line.get_label(): line.get_xydata() for line in panel.lines}
        assert list(lines) == ["p = 1", "p = 4", "IR Push"]
        for label, (y, scores) in zip(lines, curves.values(), strict=True):
            unit = (np.sum(y == 0), np.sum(y == 1)) if rate else (1, 1)
            assert close(lines[label] * unit, roc_by_hand(y, scores))
    legend = [text.get_text() for text in panels[0].get_legend().get_texts()]
    assert legend == ["p = 1", "p = 4", "IR Push"]
    assert panels[0].get_xlabel() == ("false positive rate" if rate else "false positives")


@pytest.mark.filterwarnings("ignore:.*too small for an asymptotic interval")
def test_roc_takes_fitted_estimators():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)
    y[:5] = 1 - y[:5]
    linear, neighbours = LogisticRegression().fit(X, y), KNeighborsClassifier(5).fit(X, y)
    scores = {"linear": linear.decision_function(X), "neighbours": neighbours.predict_proba(X)[:, 1]}
    expected = plotting.roc({name: (y, s) for name, s in scores.items()}, zoom=None)
    found = plotting.roc({"linear": (linear, X, y), "neighbours": (neighbours, X, y)}, zoom=None)
    assert [line.get_xydata().tolist() for line in found.lines] == [
        line.get_xydata().tolist() for line in expected.lines
    ]
    display = plotting.BandDisplay.from_estimator(linear, X, y)
    same = plotting.BandDisplay.from_predictions(y, scores["linear"], name="LogisticRegression")
    assert (display.name, display.line_.get_xydata().tolist()) == (
        same.name,
        same.line_.get_xydata().tolist(),
    )
    push = plotting.PushIntervalDisplay.from_estimator(linear, X, y, p=(1, 4), name="mine")
    same = plotting.PushIntervalDisplay.from_predictions(y, scores["linear"], (1, 4), name="mine")
    assert (push.name, push.intervals) == ("mine", same.intervals)
    forest = plotting.ForestDisplay.from_estimators({"a": linear, "b": neighbours}, X, y)
    same = plotting.ForestDisplay.from_predictions(y, {"a": scores["linear"], "b": scores["neighbours"]})
    assert forest.intervals == same.intervals


def test_figures_refuse_what_gives_no_scores():
    X, y = [[0.0], [1.0], [2.0]], [0, 1, 2]
    three = LogisticRegression().fit(X, y)
    with pytest.raises(TypeError, match=r"returns an array of shape \(3, 3\), expected one score per row"):
        plotting.roc({"three": (three, X, [0, 1, 1])})
    with pytest.raises(TypeError, match="expected a fitted one with decision_function"):
        plotting.BandDisplay.from_estimator(LogisticRegression, X, [0, 1, 1])


def test_roc_zooms_to_the_top():
    curves = {p: draw(40, seed) for seed, p in enumerate([1, 4])}
    full, top = plotting.roc(curves, zoom=0.25)
    widest = max(np.sum(y == 0) for y, _ in curves.values())
    assert full.get_xlim()[1] >= widest
    assert top.get_xlim() == (0, 0.25 * widest)
    low, high = top.get_ylim()
    for line in top.lines:
        x, y = line.get_data()
        assert low <= np.max(y[x == 0])
        assert np.interp(0.25 * widest, x, y) <= high


def test_roc_on_given_axes():
    figure, given_axes = plt.subplots(1, 3)
    assert plotting.roc({1: draw()}, zoom=None, ax=given_axes[2]) is given_axes[2]
    assert list(plotting.roc({1: draw()}, ax=given_axes[:2])) == list(given_axes[:2])
    assert plt.get_fignums() == [figure.number]


def test_colours_follow_p_from_dark_to_light():
    panel = plotting.roc({p: draw() for p in (64, 1, 8, math.inf, "IR")}, zoom=None)
    colours = {line.get_label(): mpl.colors.to_rgb(line.get_color()) for line in panel.lines}
    assert list(colours) == ["p = 64", "p = 1", "p = 8", "p = ∞", "IR"]
    order = [colours[label] for label in ("p = 1", "p = 8", "p = 64", "p = ∞")]
    brightness = [0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in order]
    assert brightness == sorted(brightness)
    assert min(np.diff(brightness)) > 0.05
    assert brightness[-1] < 0.8  # still visible on white
    assert colours["IR"] not in order
    many = plotting.roc({f"method {place}": draw() for place in range(9)}, zoom=None)
    looks = {(line.get_color(), line.get_linestyle()) for line in many.lines}
    assert len(looks) == 9


# --- pairs ----------------------------------------------------------------------------------------------------------


def shares_by_hand(y, scores, p, kind):
    """The entries as the captions of figures 1 and 4 define them, unsimplified, one pair at a time."""
    positives = sorted((s for s, label in zip(scores, y, strict=True) if label), reverse=True)
    negatives = sorted((s for s, label in zip(scores, y, strict=True) if not label), reverse=True)
    entries = np.zeros((len(positives), len(negatives)))
    for i, own in enumerate(positives):
        for k, other in enumerate(negatives):
            if kind == "p_norm":
                inner = sum(math.exp(-(f - other)) for f in positives)
                entries[i, k] = inner**p * math.exp(-(own - other)) / inner
            else:
                inner = sum(math.exp(-(own - f)) for f in negatives)
                entries[i, k] = math.log(1 + inner) * math.exp(-(own - other)) / inner
    return entries


SCORES = st.lists(st.tuples(st.booleans(), st.integers(-8, 8)), min_size=2, max_size=12).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)


@given(rows=SCORES, p=st.sampled_from([0.5, 1.0, 2.0, 7.0]), kind=st.sampled_from(["p_norm", "ir"]))
def test_shares_are_the_terms_of_the_objective(rows, p, kind):
    y, scores = np.array([label for label, _ in rows]), np.array([score / 4 for _, score in rows])
    entries = shares_by_hand(y, scores, p, kind)
    data = scores[:, None], y
    problem = problems.PNormPush(*data, p=p) if kind == "p_norm" else problems.IRPush(*data)
    assert math.isclose(entries.sum(), problem.paper_value([1.0]), rel_tol=tolerance("summation"))
    a, b = plotting.pair_shares(y, scores, p=p, kind=kind)
    shares = np.outer(a, b)
    assert math.isclose(shares.sum(), 1, rel_tol=tolerance("summation"))
    assert close(shares, entries / entries.sum())


@pytest.mark.parametrize("kind", ["p_norm", "ir"])
def test_weights_are_repeated_rows(kind):
    y, scores = draw(12)
    scores = scores + np.arange(12) / 100  # no ties, so that the copies of a row stay together
    weights = np.random.default_rng(0).integers(0, 4, size=12)
    weights[:2] = 3, 2
    repeated = plotting.pair_shares(np.repeat(y, weights), np.repeat(scores, weights), p=3, kind=kind)
    weighted = plotting.pair_shares(y, scores, p=3, kind=kind, sample_weight=weights)
    order = np.argsort(-scores)
    for factor, copies, label in zip(weighted, repeated, (1, 0), strict=True):
        counts = weights[order][y[order] == label]
        summed = [part.sum() for part in np.split(copies, np.cumsum(counts)[:-1])]
        assert close(factor, summed)


def test_pairs_draw_the_shares():
    y, scores = draw()
    panels = plotting.pair_contributions(y, scores, p=[1, 8])
    for panel, p in zip(panels, (1, 8), strict=True):
        (image,) = panel.images
        entries = shares_by_hand(y, scores, p, "p_norm")
        assert close(image.get_array(), entries / entries.sum())
        # the lowest positive and the highest negative are in the upper left corner, and lightest
        assert image.origin == "lower"
        assert np.unravel_index(np.argmax(image.get_array()), entries.shape)[1] == 0
        assert image.get_array()[-1, 0] == image.get_array().max()
        assert image.get_extent() == [0.5, entries.shape[1] + 0.5, 0.5, entries.shape[0] + 0.5]
        assert image.cmap(0.0)[0] < image.cmap(1.0)[0]
        assert panel.get_title() == f"p = {p}"
    entries = shares_by_hand(y, scores, 1, "ir")
    panel = plotting.pair_contributions(y, scores, kind="ir")
    assert close(panel.images[0].get_array(), entries / entries.sum())
    assert panel.get_title() == "IR Push"


def test_pairs_of_a_problem():
    y, scores = draw()
    X = np.column_stack([scores, np.sin(np.arange(len(y)))])
    weights = np.arange(len(y)) % 3 + 1
    for problem, parameters in (
        (problems.PNormPush(X, y, p=4, l2=0.1, sample_weight=weights), {"p": 4}),
        (problems.IRPush(X, y, l2=0.1, sample_weight=weights), {"kind": "ir"}),
    ):
        solution = problem.solve()
        drawn = plotting.pair_contributions(problem, solution).images[0].get_array()
        direct = plotting.pair_contributions(y, X @ solution.x, sample_weight=weights, **parameters)
        assert close(drawn, direct.images[0].get_array())
    with pytest.raises(TypeError, match="TopPush is neither"):
        plotting.pair_contributions(problems.TopPush(X, y), solution)


def test_many_pairs_are_averaged_into_few_cells():
    rng = np.random.default_rng(0)
    y, scores = np.arange(2800) % 7 < 3, rng.normal(size=2800)
    drawn = plotting.pair_contributions(y, scores, p=2).images[0].get_array()
    a, b = (factor.reshape(400, -1).mean(axis=1) for factor in plotting.pair_shares(y, scores, p=2))
    assert close(drawn, np.outer(a, b))
    y = np.arange(2801) % 5 == 0  # numbers that 400 does not divide
    drawn = plotting.pair_contributions(y, rng.normal(size=2801), p=2).images[0].get_array()
    assert drawn.shape == (400, 400)
    wide, high = (np.diff(np.arange(401) * count // 400) for count in (np.sum(~y), np.sum(y)))
    assert math.isclose(high @ drawn @ wide, 1, rel_tol=tolerance("summation"))


def test_extreme_scores_do_not_overflow():
    y = [1, 0, 1, 0]
    scores = [-1e4, 9e3, 5e3, 8e3]
    for a, b in (
        plotting.pair_shares(y, scores, p=256),
        plotting.pair_shares(y, scores, kind="ir"),
    ):
        assert np.isfinite(np.outer(a, b)).all()
        assert np.outer(a, b).sum() == 1
    panel = plotting.pair_contributions(y, scores, p=256, decades=3)
    assert isinstance(panel.images[0].norm, LogNorm)
    drawn = panel.images[0].norm(panel.images[0].get_array())
    assert drawn.min() == 0  # black, where the share is zero to rounding
    assert drawn.max() == 1
    assert not np.ma.is_masked(drawn)


def test_shares_of_positives_far_above_all_negatives():
    a, b = plotting.pair_shares([1, 0, 1, 0], [1000.0, 0.0, 1001.0, 1.0], kind="ir")
    assert close(a, [math.exp(-1) / (1 + math.exp(-1)), 1 / (1 + math.exp(-1))])
    assert close(b, a[::-1])


# --- traces and precision -------------------------------------------------------------------------------------------


def test_trace_of_a_field_shows_its_residual():
    y, scores = draw()
    field = problems.LearnedDivergence(scores[:, None], y, 1.0, oracle="projection", l2=0.1)
    solution, convex = field.solve(), problems.PNormPush(scores[:, None], y, p=4, l2=0.1).solve()
    objective, residual = plotting.trace(solution)
    assert residual.get_ylabel() == "residual"
    assert not objective.lines
    assert [text.get_text() for text in objective.texts] == ["no objective"]
    assert len(residual.lines) == 1
    drawn = solution.trace["gap"][solution.trace["gap"] > 0]
    assert np.array_equal(residual.lines[0].get_ydata(), drawn)
    objective, either = plotting.trace({"field": solution, "push": convex})
    assert either.get_ylabel() == "gap or residual"
    assert [line.get_label() for line in objective.lines] == ["push"]


def test_trace_draws_the_trace():
    y, scores = draw()
    problem = problems.PNormPush(scores[:, None], y, p=4, l2=0.1)
    solutions = {name: problem.solve(solver=name) for name in ("newton", "lbfgs", "exact")}
    solutions["newton"].trace["gap"][1] = math.inf  # a solver may have no estimate yet
    solutions["newton"].trace["gap"][2] = 0.0
    for against in ("iteration", "seconds"):
        objective, gap = plotting.trace(solutions, against=against)
        assert gap.get_yscale() == "log"
        assert objective.get_xlabel() == gap.get_xlabel() == against
        for line, curve, (name, solution) in zip(objective.lines, gap.lines, solutions.items(), strict=True):
            assert line.get_label() == curve.get_label() == name
            values, gaps = solution.trace["objective"], solution.trace["gap"]
            x = np.arange(len(values)) if against == "iteration" else solution.trace["seconds"]
            kept = [place for place, value in enumerate(gaps) if 0 < value < math.inf]
            assert np.array_equal(line.get_xydata(), np.column_stack([x, values]))
            assert np.array_equal(curve.get_xydata(), np.column_stack([x, gaps])[kept])
            assert line.get_markersize() > 0
    single = plotting.trace(solutions["lbfgs"])[0].lines[0]
    assert single.get_label() == "lbfgs"
    assert np.array_equal(single.get_ydata(), solutions["lbfgs"].trace["objective"])


def test_precision_at_top_counts_positives():
    rankings = {p: draw(40, seed) for seed, p in enumerate([1, 8, math.inf, "IR"])}
    rankings = {p: (y, scores + np.arange(40) / 1000) for p, (y, scores) in rankings.items()}  # no ties
    panel = plotting.precision_at_top(rankings, fractions=[0.1, 0.25, 3])
    assert [text.get_text() for text in panel.get_xticklabels()] == ["1", "8", "∞", "IR"]
    for line, count, name in zip(panel.lines, (4, 10, 3), ("top 10 %", "top 25 %", "first 3"), strict=True):
        assert line.get_label() == name
        by_hand = [
            sum(label for _, label in sorted(zip(s, y, strict=True), reverse=True)[:count]) / count
            for y, s in rankings.values()
        ]
        assert line.get_xdata().tolist() == [0, 1, 2, 3]
        assert close(line.get_ydata(), by_hand)
    y, scores = np.arange(100) < 7, -np.arange(100)
    panel = plotting.precision_at_top({1: (y, scores)}, np.array([0.07], dtype=np.float32))
    assert panel.lines[0].get_ydata().tolist() == [1.0]  # of 7 rows: 0.07 in 32 bits is more than 0.07 in 64


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plotting.roc({}), ValueError, "curves is empty"),
        (lambda: plotting.roc([draw()]), TypeError, "curves is a list, expected"),
        (lambda: plotting.roc({1: draw()}, zoom=0), ValueError, "zoom is 0"),
        (lambda: plotting.roc({1: draw()}, zoom=2), ValueError, r"zoom is 2, expected a share"),
        (lambda: plotting.roc({1: draw()}, ax=plt.gca()), ValueError, "ax holds 1 Axes, expected 2"),
        (lambda: plotting.roc({1: draw()}, zoom=None, ax=3), TypeError, "expected matplotlib Axes"),
        (lambda: plotting.roc({1: ([1, 1], [2, 3])}), ValueError, "expected exactly two|one class"),
        (lambda: plotting.pair_contributions(*draw(), p=0), ValueError, "p is 0"),
        (lambda: plotting.pair_contributions(*draw(), p=[]), ValueError, "p is an empty sequence"),
        (lambda: plotting.pair_contributions(*draw(), p=2, kind="ir"), ValueError, "the IR Push has no p"),
        (
            lambda: plotting.pair_contributions(*draw(), kind="top"),
            ValueError,
            "kind is 'top', expected one of",
        ),
        (lambda: plotting.pair_contributions(*draw(), decades=-1), ValueError, "decades is -1"),
        (
            lambda: plotting.pair_shares([0, 1], [1, 2], sample_weight=[0, 1]),
            ValueError,
            "leaves no negative",
        ),
        (lambda: plotting.pair_shares([0, 1], [1, math.nan]), ValueError, "scores contains NaN"),
        (lambda: plotting.trace({}), ValueError, "solutions is empty"),
        (lambda: plotting.precision_at_top({1: draw()}, []), ValueError, "fractions is empty"),
        (lambda: plotting.precision_at_top({1: draw()}, [1.5]), ValueError, r"fractions\[0\] is 1.5"),
    ],
)
def test_bad_input_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


ODD = "cost $x_$ ^"


def _solution():
    rng = np.random.default_rng(0)
    return problems.PNormPush(rng.normal(size=(30, 2)), np.arange(30) < 8, p=2, l2=0.1).solve()


def _shapes(name):
    X = np.random.default_rng(0).normal(size=(60, 1))
    levels = cr.features.Thresholds(X, 4, names=[name])
    return plotting.shapes(cr.shapes(problems.PNormPush(levels, X[:, 0] > 0.5, p=2, l2=0.1).solve()))


NAMED = {
    "roc": lambda name: plotting.roc({name: ([1, 0, 1, 0], [3.0, 2.0, 1.0, 0.0])}),
    "explanation": lambda name: plotting.explanation(
        cr.features.Explanation.of(1.0, {name: 0.5, "b": -0.5}, {name: name, "b": 1})
    ),
    "graph": lambda name: plotting.graph(cr.Graph.from_edges([0, 1], [1, 0], names=[name, "b"])),
    "bands": lambda name: plotting.BandDisplay.from_predictions([1, 0, 1, 0, 1, 0], range(6), name=name).ax_,
    "forest": lambda name: (
        plotting.ForestDisplay.from_predictions(
            [1, 0, 1, 0, 1, 0], {name: [6, 5, 4, 3, 2, 1]}, method="exact"
        ).ax_
    ),
    "shapes": _shapes,
    "dual": lambda name: plotting.influence(_solution(), names=[name] * 30),
    "traces": lambda name: plotting.trace({name: _solution()}),
}


@pytest.mark.parametrize("kind", NAMED)
def test_dollars_in_names_are_no_formulas(kind):
    panels = NAMED[kind](ODD)
    figure = np.ravel(np.array(panels, dtype=object))[0].figure
    figure.canvas.draw()  # raises where a formula cannot be parsed
    texts = [text.get_text() for text in figure.findobj(mpl.text.Text)]
    assert any(text.startswith(r"cost \$x") for text in texts)


def test_matplotlib_is_needed_only_to_draw(monkeypatch):
    code = "import sys, convexrank.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'convexrank\[plot\]'"):
        plotting.roc({1: draw()})


# --- rates ----------------------------------------------------------------------------------------------------------


def test_rates_draws_the_gaps_and_lines_of_their_slopes():
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    solution = problems.PageRankGame(graph, "kl").solve("no-regret-play")
    panel = plotting.rates({"play": solution}, guides=("1/t", "log t/t", "1/sqrt t"))
    curve, *guides = panel.lines
    gap = solution.trace["gap"][:-1]
    assert curve.get_xdata().tolist() == np.flatnonzero((gap > 0) & (np.arange(len(gap)) > 0)).tolist()
    assert close(curve.get_ydata(), gap[curve.get_xdata()])
    for guide, shape in zip(
        guides, (lambda t: 1 / t, lambda t: np.log(t) / t, lambda t: t**-0.5), strict=True
    ):
        t, y = guide.get_data()
        assert close(y, gap[10] * shape(t) / shape(t[0]))
        assert t[0] == 10
    assert panel.get_xscale() == panel.get_yscale() == "log"


def test_guides_pass_through_gaps_that_are_known():
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    solution = problems.PageRankGame(graph, "kl").solve("no-regret-play")
    unknown = replace(solution, trace=solution.trace | {"gap": np.full_like(solution.trace["gap"], np.inf)})
    panel = plotting.rates({"play": solution, "unknown": unknown}, guides=("1/t",))
    assert close(panel.lines[-1].get_ydata()[0], solution.trace["gap"][10])


def test_rates_refuses_what_shows_no_rate():
    solution = problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1).solve()
    with pytest.raises(ValueError, match="more than 10 rounds"):
        plotting.rates(solution)
    with pytest.raises(ValueError, match="guides is"):
        plotting.rates(solution, guides=("t",))


def test_a_roc_curve_of_labels_and_scores_as_in_scikit_learn():
    y, s, other = [1, 0, 1, 0], [4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0]
    full, _ = plotting.roc(y, s)
    named, _ = plotting.roc({"mine": (y, s)})
    np.testing.assert_array_equal(full.lines[0].get_xydata(), named.lines[0].get_xydata())
    assert full.get_legend() is None
    several, _ = plotting.roc(y, {"mine": s, "other": other})
    assert [text.get_text() for text in several.get_legend().get_texts()] == ["mine", "other"]
    with pytest.raises(TypeError, match="leave scores out"):
        plotting.roc({"mine": (y, s)}, s)
    with pytest.raises(TypeError, match="or labels and scores"):
        plotting.roc(y)
