"""The figures of the push papers: what their code computes, and that the shipped results are what it computes."""

from __future__ import annotations

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest

from tests.example_modules import EXAMPLES, load
from tests.tolerances import tolerance

shipped = load("shipped_results")
real_data = load("real_data")
load("tables_3_to_5")
figures = load("push_figures")
theory = load("push_theory")
questions = load("push_questions")


def loaded(loader):
    try:
        return loader()
    except FileNotFoundError as reason:
        pytest.skip(str(reason))


def test_shipped_results_are_small():
    assert sum(path.stat().st_size for path in shipped.FOLDER.iterdir()) <= 100_000


def test_results_are_read_as_they_were_written(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path / "new")
    results = {"ä": {"1": [1.5, None, [2]], "empty": {}}, "n": 3}
    shipped.write("planted", results)
    assert shipped.read("planted") == results
    with pytest.raises(FileNotFoundError, match=r"other\.json"):
        shipped.read("other")


# --- curves -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_curve_counts_positives_above_each_negative(seed):
    rng = np.random.default_rng(seed)
    y, scores = rng.random(12) < 0.5, rng.integers(0, 5, 12).astype(float)
    y[:2] = True, False
    negatives = sorted(scores[~y], reverse=True)
    expected = [sum(1 for s in scores[y] if s > negative) for negative in negatives]
    assert figures.curve(y, scores).tolist() == expected


@pytest.mark.parametrize(
    ("X", "y", "expected"),
    [
        ([[2.0], [1.0], [0.0]], [1, 1, 0], True),
        ([[1.0], [0.0], [0.0]], [1, 1, 0], True),  # one positive alone has the feature
        ([[1.0], [0.0], [2.0]], [1, 0, 0], False),
        ([[3.0], [3.0], [3.0]], [1, 0, 0], False),  # a constant column ties all
        ([[2.0, 2.0], [1.0, 1.0], [3.0, 3.0]], [1, 0, 0], False),
    ],
)
def test_quasi_separable_data_have_no_minimiser(X, y, expected):
    assert figures.no_minimiser(np.array(X), np.array(y, dtype=bool)) is expected


def test_where_mean_curves_cross():
    setting = figures.Setting("", lambda: (np.zeros((0, 0)), np.zeros(0)), 1, step=3)
    flat = [[5, 5, 5]] * 5
    assert figures.crossing(setting, [[5, 5, 6], *flat]) == 6
    assert figures.crossing(setting, [[5, 5, 5], *flat]) is None


SHIPPED = shipped.read(figures.FILE)


@pytest.mark.parametrize("name", figures.SETTINGS)
def test_all_settings_are_shipped_whole(name):
    found, setting = SHIPPED[name], figures.SETTINGS[name]
    for part in figures.PARTS:
        heads = np.array(found[part]["first"])
        assert heads.shape == (found["splits"], len(setting.columns))
        assert found[part]["split 0"][0][0] == heads[0, 0]
        assert np.round(heads.mean(axis=0), 1).tolist() == [row[0] for row in found[part]["mean"]]
        assert (np.diff(found[part]["mean"], axis=1) >= 0).all()


@pytest.mark.parametrize("name", ["pima", "ionosphere"])
def test_the_shipped_curves_are_those_of_a_recomputation(name):
    setting = figures.SETTINGS[name]
    X, y = loaded(setting.load)
    again = figures.one_split(setting, X, y, 0)
    for part in figures.PARTS:
        assert again[part]["top"].tolist() == SHIPPED[name][part]["split 0"]
        assert again[part]["top"][:, 0].tolist() != SHIPPED[name][part]["first"][1], "another split differs"


def test_the_data_of_the_2005_paper():
    for loader, shape, positives in (
        (real_data.pima, (768, 8), 268),
        (real_data.wdbc, (569, 30), 212),
        (real_data.tic_tac_toe, (958, 9), 626),
        (figures.thresholds, (768, 32), 268),
    ):
        X, y = loaded(loader)
        assert (X.shape, int(y.sum())) == (shape, positives)
        assert np.isfinite(X).all()


# --- Lemma 7 and the example in one dimension ---------------------------------------------------------------------


def test_lemma_7_holds_and_its_first_term_is_smaller_up_to_twice_a():
    for a, p in itertools.product((0.1, 0.4, 0.9), (1.5, 4.0, 16.0)):
        b = np.linspace(0, 1, 2001)
        lower, first, second = theory.lemma_7(a, b, p)
        assert (lower <= np.minimum(first, second) + tolerance("atoms")).all()
        away = np.abs(np.abs(a - b) - a) > tolerance("separation")
        assert ((first < second) == (np.abs(a - b) < a))[away & (b != a)].all()


@pytest.mark.parametrize("m", [1, 3, 6])
def test_the_probability_of_the_wrong_choice_is_that_over_all_samples(m):
    """Sum over which of three kinds each row is: a positive's tail, a negative's tail, neither."""
    epsilon = 0.3
    shares = {"+": epsilon / 2, "-": epsilon / 2, "0": 1 - epsilon}
    total = 0.0
    for rows in itertools.product(shares, repeat=m):
        if not {"+", "-"} <= set(rows):
            total += math.prod(shares[row] for row in rows)
    assert theory.chooses_x(epsilon, m) == pytest.approx(total, rel=tolerance("summation"))
    assert m == 1 or theory.chooses_x(epsilon, m) > (1 - epsilon) ** m


@pytest.mark.parametrize("p", [1, 4, 64, math.inf])
def test_the_norms_of_the_distribution_are_those_of_its_points(p):
    """Midpoints of a fine grid of each of the four pieces, in their shares of 1/10 and 9/10."""
    main, tail = (np.arange(900) + 0.5) / 900, (np.arange(100) + 0.5) / 100
    x = np.concatenate([main, tail - 2, main - 1, tail + 1])
    y = np.arange(2000) < 1000
    for sign, increasing in ((1, True), (-1, False)):
        assert theory.empirical_norm(y, sign * x, p) == pytest.approx(
            theory.true_norm(0.1, p, increasing), rel=tolerance("summation")
        )


def test_the_better_function_turns_where_stated():
    turn = theory.turning_order(0.05)
    assert theory.true_norm(0.05, 0.99 * turn, True) < theory.true_norm(0.05, 0.99 * turn, False)
    assert theory.true_norm(0.05, 1.01 * turn, True) > theory.true_norm(0.05, 1.01 * turn, False)


# --- the open questions -------------------------------------------------------------------------------------------


def test_power_means_are_their_loops():
    y, scores = np.array([1, 0, 1, 0, 0, 1], dtype=bool), np.array([3.0, 2.0, 2.0, 5.0, 0.0, 1.0])
    below = [sum(s <= f for s in scores[y]) / 3 for f in scores[~y]]
    expected = [(sum(b**q for b in below) / 3) ** (1 / q) for q in questions.ORDERS[:-1]] + [max(below)]
    assert questions.power_means(y, scores) == pytest.approx(expected, rel=tolerance("summation"))


def test_weights_without_signs_are_those_of_the_model():
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 4)), rng.random(40) < 0.5
    for p in (1, 8):
        w = cp.Variable(4, nonneg=True)
        risk = cp.log_sum_exp(-X[y] @ w) + cp.log_sum_exp(p * (X[~y] @ w)) / p
        cp.Problem(cp.Minimize(risk)).solve(solver=cp.CLARABEL)
        found = questions.without_signs(X, y, p)
        w.value, model = found, w.value
        value = risk.value
        w.value = model
        assert value == pytest.approx(risk.value, abs=tolerance("readme"))
        assert found.min() >= 0


def test_the_change_of_a_curve_is_its_largest_difference():
    y = np.array([1, 1, 0, 0], dtype=bool)
    best, worst = np.array([4.0, 3, 2, 1]), np.array([1.0, 2, 3, 4])
    assert questions.change_of_the_curve(y, {1: best, 64: worst}) == 1.0
    assert questions.change_of_the_curve(y, {1: best, 64: best}) == 0.0


def test_the_shipped_answers_are_those_of_a_recomputation():
    found = shipped.read(questions.FILE)
    X, y = loaded(figures.SETTINGS["wdbc"].load)
    again = questions.one_matrix(figures.SETTINGS["wdbc"], X, y, 0)
    np.testing.assert_allclose(
        again, found["orders"]["wdbc"]["split 0"], atol=tolerance("shipped to four digits")
    )
    X, y = loaded(figures.SETTINGS["MAGIC"].load)
    name = "all columns, w ≥ 0"
    again = questions.one_space(name, X, y, 0)
    assert again != found["spaces"][name][1]
    np.testing.assert_allclose(again, found["spaces"][name][0], atol=tolerance("shipped curves"))


# --- pages --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", ["plot_push_2005", "plot_push_2009", "plot_push_questions"])
def test_the_pages_need_no_data(monkeypatch, tmp_path, script):
    import runpy

    import matplotlib.pyplot as plt

    monkeypatch.setenv(real_data.VARIABLE, str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(EXAMPLES / f"{script}.py"))
    assert len(plt.get_fignums()) >= 2
    assert all(panel.has_data() for n in plt.get_fignums() for panel in plt.figure(n).axes)
    plt.close("all")
