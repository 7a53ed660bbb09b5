"""Figures of functions of features: what is drawn is compared with weights and rows."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.patches import Rectangle, StepPatch

import convexrank as cr
from convexrank import plotting
from convexrank.features import Products, Stacked, Thresholds
from tests.tolerances import tolerance

EXACT = tolerance("summation")


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


def example(rows=40):
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(rows, 4)), 1)
    X[:, 2] = rng.integers(3, size=rows)
    filled = X[:, 3:].copy()
    X[rng.integers(rows, size=5), 1] = math.nan
    design = Stacked([filled, Thresholds(X[:, :3], bins=6, categories=[2]), Products(X[:, [0, 3]], bins=3)])
    w = rng.normal(size=design.shape[1])
    return X, design, cr.shapes(w, design)


def drawn(panel, kind):
    return [thing for thing in panel.get_children() if isinstance(thing, kind) and thing is not panel.patch]


def test_every_function_is_drawn_as_it_is():
    X, _, found = example()
    panels = plotting.shapes(found)
    assert len(panels) == len(found.terms) == 5
    for panel, term in zip(panels, found.terms, strict=True):
        if term in found.surfaces:
            (mesh,) = drawn(panel, QuadMesh)
            assert np.array_equal(mesh.get_array(), term.values.T)
            assert (panel.get_xlabel(), panel.get_ylabel()) == (term.first.name, term.second.name)
            corners = mesh.get_coordinates()
            assert np.array_equal(corners[0, 1:-1, 0], term.first.cuts)
            assert np.array_equal(corners[1:-1, 0, 1], term.second.cuts)
            assert corners[0, 0, 0] < X[:, 0].min() < X[:, 0].max() < corners[0, -1, 0]
            assert mesh.norm.vmin == -mesh.norm.vmax == -np.abs(term.values).max()
            continue
        assert panel.get_xlabel() == term.name
        if term in found.slopes:
            line = panel.lines[-1]
            np.testing.assert_allclose(line.get_ydata(), term(line.get_xdata()), atol=EXACT)
            assert line.get_xdata().tolist() == [X[:, 3].min(), X[:, 3].max()]
        elif term.categorical:
            (lines,) = drawn(panel, LineCollection)
            assert [path[0, 1] for path in lines.get_segments()] == list(term.categories.values())
            assert [label.get_text() for label in panel.get_xticklabels()] == ["0", "1", "2"]
        else:
            (steps,) = drawn(panel, StepPatch)
            values, edges, _ = steps.get_data()
            assert np.array_equal(values, term.values)
            assert np.array_equal(edges[1:-1], term.breaks)
            diamonds = [line for line in panel.lines if line.get_marker() == "D"]
            assert [line.get_ydata()[0] for line in diamonds] == (
                [] if term.missing is None else [term.missing]
            )


def test_all_heights_are_inside_and_panels_can_be_compared():
    _, _, found = example()
    panels = plotting.shapes(found)
    curves = [
        (panel, term) for panel, term in zip(panels, found.terms, strict=True) if term not in found.surfaces
    ]
    assert len({panel.get_ylim() for panel, _ in curves}) == 1
    low, high = curves[0][0].get_ylim()
    for _, term in curves:
        values = term(np.array([term.low, term.high])) if term in found.slopes else term.table
        # the density is below
        assert low + 0.14 * (high - low) < values.min()
        assert values.max() < high


def test_the_density_is_that_of_the_rows():
    X = np.array([[0.0], [0.0], [0.0], [1.0]])
    (panel,) = plotting.shapes(cr.shapes([2.0], Thresholds(X)))
    bars = [bar for bar in drawn(panel, Rectangle) if bar.get_height() > 0]
    assert len(bars) == 2
    for bar, place in zip(bars, (0.0, 1.0), strict=True):
        assert bar.get_x() <= place <= bar.get_x() + bar.get_width()
    assert bars[0].get_height() == pytest.approx(3 * bars[1].get_height())
    X = np.array([[5.0], [5.0], [7.0], [math.nan]])
    (panel,) = plotting.shapes(cr.shapes([2.0, 1.0, 3.0], Thresholds(X, categories=[0])))
    heights = [bar.get_height() for bar in drawn(panel, Rectangle)]
    assert heights[0] == pytest.approx(2 * heights[1])


@pytest.mark.parametrize("column", [[math.nan] * 3, [1.0, math.nan, 1.0]])
def test_a_feature_that_is_absent_or_constant(column):
    found = cr.shapes([2.0, 1.0, 1.0], Thresholds(np.column_stack([column, [1.0, 2.0, 3.0]])))
    panel = dict(zip([term.name for term in found.terms], plotting.shapes(found), strict=True))["x0"]
    (steps,) = drawn(panel, StepPatch)
    values, edges, _ = steps.get_data()
    assert np.array_equal(values, found.functions[0].values)
    assert edges[0] < np.nan_to_num(column[0]) < edges[-1]


def test_most_and_given_axes():
    _, _, found = example()
    given = plt.subplots(1, 2)[1]
    panels = plotting.shapes(found, most=2, ax=given)
    assert list(panels) == list(given)
    assert len(plotting.shapes(found, most=3)) == 3
    figure = plotting.shapes(found)[0].figure
    assert all(panel.has_data() for panel in figure.axes)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda found: plotting.shapes([1.0]), TypeError, "found is .*expected Shapes"),
        (lambda found: plotting.shapes(found, most=0), ValueError, "most is 0"),
        (lambda found: plotting.shapes(found, ax=plt.gca()), ValueError, "ax holds 1 Axes, expected 5"),
        (
            lambda found: plotting.shapes(cr.shapes([0.0], Thresholds([[0.0], [1.0]]))),
            ValueError,
            "no function that is not 0",
        ),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(example()[2])
