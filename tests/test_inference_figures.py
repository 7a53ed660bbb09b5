"""Displays of intervals draw what the intervals are; the coverage benchmark finds out intervals that are too narrow."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from convexrank import inference, plotting
from tests.test_inference import sample
from tests.tolerances import tolerance

# What holds for every sample is tested on small ones.
pytestmark = pytest.mark.filterwarnings("ignore:.*too small for an asymptotic interval")
BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


@pytest.mark.parametrize("curve", ["roc", "precision_recall"])
def test_band_display_draws_the_band(curve):
    y, s = sample(200, 0)
    make = inference.roc_band if curve == "roc" else inference.precision_recall_band
    band = make(y, s, level=0.9)
    display = plotting.BandDisplay.from_predictions(y, s, curve=curve, level=0.9, name="mine")
    np.testing.assert_array_equal(display.line_.get_ydata(), band.estimate)
    heights = {round(x, 9): [] for x in band.x}
    for x, height in display.area_.get_paths()[0].vertices:
        heights[round(x, 9)].append(height)
    low, high = np.transpose([(min(own), max(own)) for own in heights.values()])
    assert (low <= band.lower).all()
    assert (high >= band.upper).all()
    assert np.isin(low, band.lower).all()
    assert np.isin(high, band.upper).all()
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == band.axes
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["mine", "90 % band"]


@pytest.mark.parametrize("n", [30, 200])
def test_between_its_places_a_band_is_drawn_as_wide_as_it_is(n):
    """Of few rows a step is high: straight lines between the places are inside the band by up to .2."""
    y, s = sample(n, 3)
    at = np.linspace(0.0, 1.0, 401)[1::2]  # in the middle between two places
    band, (drawn,) = (
        inference.roc_band(y, s, at=at),
        plotting.BandDisplay.from_predictions(y, s).area_.get_paths(),
    )
    for ends in (band.lower + 1e-9, band.upper - 1e-9):
        assert drawn.contains_points(np.c_[at, ends]).all()


def test_displays_are_drawn_again_on_given_axes():
    y, s = sample(60, 1)
    first = plotting.BandDisplay.from_predictions(y, s)
    panel = plt.subplots()[1]
    second = first.plot(panel, color="red")
    assert second.ax_ is panel
    assert second.figure_ is panel.figure
    assert first.ax_ is not panel
    assert second.line_.get_color() == "red"


def test_forest_display_draws_the_intervals():
    y, s = sample(200, 2)
    rankers = {"plain": s, "noisy": s + np.random.default_rng(3).normal(size=200)}
    display = plotting.ForestDisplay.from_predictions(y, rankers, "push_risk", p=4, method="exact")
    line, _, (bars,) = display.bars_
    for place, (name, scores) in enumerate(rankers.items()):
        found = inference.push_risk_interval(y, scores, 4)
        assert display.intervals[name] == found
        assert line.get_xydata()[place].tolist() == [found.estimate, place]
        assert bars.get_segments()[place][:, 0] == pytest.approx([found.lower, found.upper])
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == list(rankers)
    low, high = display.ax_.get_ylim()
    assert low > high  # the first ranker is on top


def test_push_display_draws_the_intervals_against_p():
    y, s = sample(200, 4)
    display = plotting.PushIntervalDisplay.from_predictions(y, s, (8, 1, 2), method="asymptotic", level=0.8)
    assert display.p == (1, 2, 8)
    for p, height in display.line_.get_xydata():
        assert height == inference.push_risk_interval(y, s, p).estimate
    ends = {round(h, 9) for _, h in display.area_.get_paths()[0].vertices}
    found = inference.push_risk_interval(y, s, 8, method="asymptotic", level=0.8)
    assert {round(found.lower, 9), round(found.upper, 9)} <= ends


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plotting.BandDisplay.from_predictions([1, 0], [1, 2], curve="lift"), "^curve is 'lift'"),
        (lambda: plotting.ForestDisplay({}), "^intervals is empty"),
        (lambda: plotting.ForestDisplay({"a": 1.0}), r"^intervals\['a'\] is 1.0"),
        (lambda: plotting.ForestDisplay.from_predictions([1, 0], {}), "^rankers is empty"),
        (
            lambda: plotting.ForestDisplay.from_predictions([1, 0], {"a": [1, 2]}, "push_risk"),
            "^p is not given",
        ),
        (lambda: plotting.PushIntervalDisplay.from_predictions([1, 0], [1, 2], ()), "^p is "),
        (lambda: plotting.PushIntervalDisplay.from_predictions([1, 0], [1, 2], (0.5,)), "^p is 0.5"),
        (lambda: plotting.PushIntervalDisplay((1, 2), ()), "^p has 2 entries"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


# --- the coverage benchmark -------------------------------------------------------------------------------------------


@pytest.fixture
def benchmark(monkeypatch):
    """The benchmark's modules, imported as its own process does."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("interval_coverage", "populations", "measure", "report"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import interval_coverage
    import populations

    yield interval_coverage, populations
    for name in ("interval_coverage", "populations", "measure", "report"):
        sys.modules.pop(name, None)


def test_no_benchmark_has_the_name_of_a_package():
    """Its folder comes first on the path of its processes: ``coverage.py`` there kept numba from being imported."""
    program = (
        "import importlib.util, sys\n"
        "print([name for name in sys.argv[1:] if importlib.util.find_spec(name) is not None])"
    )
    names = [file.stem for file in BENCHMARKS.glob("*.py")]
    found = subprocess.run(
        [sys.executable, "-I", "-c", program, *names], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_truths_of_the_populations(benchmark):
    """The closed forms against one large sample each."""
    settings, populations = benchmark
    for setting in settings.SETTINGS:
        if setting.metric in ("roc", "difference", "monitor") or not setting.applies:
            continue
        large = {"positives": 20_000, "negatives": 20_000, "n": 40_000, "m": 8_000}
        sizes = {name: large.get(name, size) for name, size in setting.sample.items()}
        drawn = populations.draw(setting.kind, np.random.default_rng(0), **sizes)
        wanted = populations.truth(setting.metric, **sizes, **setting.options)
        function = getattr(inference, f"{setting.metric}_interval")
        found = function(**drawn, **setting.options, method="asymptotic", level=0.999)
        assert wanted in found, setting.title
        assert found.width < 0.15 * wanted, setting.title
    one = next(setting for setting in settings.SETTINGS if setting.metric == "difference")
    sizes = {**one.sample, "positives": 20_000, "negatives": 20_000}
    drawn = populations.draw(one.kind, np.random.default_rng(1), **sizes)
    assert (
        populations.truth("difference", **sizes) in inference.compare(*drawn.values(), level=0.999).interval
    )


def test_exact_intervals_are_compared_with_the_asymptotic_ones(benchmark):
    settings = benchmark[0]
    one = next(setting for setting in settings.SETTINGS if setting.compared)
    found = {name: {"covered": 0.99, "width": width} for name, width in (("exact", 0.3), ("asymptotic", 0.2))}
    for width, met in ((0.29, True), (0.31, False)):
        found["exact"]["width"] = width
        *_, target = settings.judged(one, found | {"simulations": 10_000})
        assert "width" in target.what
        assert target.met == met


def test_intervals_that_are_too_narrow_are_found_out(benchmark, monkeypatch):
    """The benchmark says yes to what it is given, and NO once each interval is half as wide."""
    settings = benchmark[0]
    one = settings.SETTINGS[0]
    assert all(target.met for target in settings.judged(one, settings.simulate(one, 300, seed=0)))
    whole = inference.auc_interval

    def planted(*arguments, **options):
        found = whole(*arguments, **options)
        half = found.width / 4
        return dataclasses.replace(found, lower=found.estimate - half, upper=found.estimate + half)

    monkeypatch.setattr(inference, "auc_interval", planted)
    targets = settings.judged(one, settings.simulate(one, 300, seed=0))
    assert [target.met for target in targets] == [False, False]
    assert one.applies
    assert tolerance("monte_carlo_coverage") < 0.95 - float(targets[1].measured)
