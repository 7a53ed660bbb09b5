"""The dissertation's figures 6.5 to 6.11 on labelled graphs: what their code computes, and what is shipped."""

from __future__ import annotations

import runpy

import matplotlib.pyplot as plt
import numpy as np
import pytest

import convexrank as cr
from tests.example_modules import EXAMPLES, load
from tests.tolerances import tolerance

shipped = load("shipped_results")
load("real_data")
load("spam_laboratory")
graphs = load("graph_figures")


def loaded(name):
    try:
        return graphs.GRAPHS[name]()
    except FileNotFoundError as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("seed", range(6))
def test_the_best_threshold_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    feature, spam = rng.integers(0, 4, 9).astype(float), rng.random(9) < 0.4
    every = [np.mean((feature < cut) != spam) for cut in np.arange(-0.5, 5)]
    assert graphs.least_error(feature, spam) == pytest.approx(min(every))
    assert graphs.least_error(feature, spam) <= spam.mean(), (
        "no best threshold is worse than calling all honest"
    )


def test_the_printed_errors_of_trust_rank_are_none_of_a_best_threshold():
    assert [value > 20 for value in graphs.PRINTED["TrustRank"]] == [True] * 3 + [False] * 2


def test_the_change_is_that_of_the_map():
    web = cr.graphs.equal_inflows()
    found = graphs.changes(web, 2, 1.2)
    rank, r = cr.problems.LpqRank(web, 2, 2.4), np.full(web.n, 1 / web.n)
    for change in found[:5]:
        image = rank.apply_map(r)
        assert change == pytest.approx(np.abs(image - r).sum(), abs=tolerance("summation"))
        r = image
    damped = graphs.changes(web, 2, 1.2, 0.5)
    assert damped[0] == pytest.approx(found[0] / 2)
    assert graphs.iterations(found) == 1 + min(k for k, change in enumerate(found) if change < graphs.ERROR)
    assert graphs.iterations(np.array([1.0, 0.1])) is None


def test_seeds_are_a_share_of_each_kind():
    spam = np.arange(40) < 10
    good, bad = graphs.seeds(spam, 0.1, 0)
    assert (len(set(good)), len(set(bad))) == (3, 1)
    assert not spam[good].any()
    assert spam[bad].all()


def test_the_graphs_are_those_of_their_notes():
    pokec, spam = loaded("Pokec with Sybils")
    assert (pokec.n, int(spam.sum())) == (20000, 10000)
    source, target = pokec.edges()[:2]
    inside = int((spam[source] == spam[target]).sum())
    assert inside == 2 * 94065
    assert pokec.m - inside <= 3100
    assert int((spam[source] & ~spam[target]).sum()) > int((~spam[source] & spam[target]).sum())
    dealers, bad = loaded("iron dealers")
    assert (dealers.n, dealers.m, int(bad.sum())) == (799, 5358, 20)


def test_the_shipped_ranks_are_those_of_a_recomputation():
    found = shipped.read(graphs.FILE)["iron dealers"]
    dealers, bad = loaded("iron dealers")
    assert graphs.iterations(graphs.changes(dealers, 4, 1.2)) == found["iterations"]["q/p=1.2, p=4"]
    assert found["iterations"]["q/p=1.2, p=4"] != found["iterations"]["q/p=1.2, p=1"]
    mass = 100 * cr.metrics.spam_mass(graphs.norm_rank(dealers, 4), bad)
    assert mass == pytest.approx(
        found["mass"]["L_pq"][graphs.POWERS.index(4)], abs=tolerance("shipped digits")
    )
    errors = graphs.classifiers(dealers, bad, draws=1)
    for name, rows in errors.items():
        assert rows[0] == pytest.approx(found["errors"][name][0], abs=tolerance("one node of 799"))
    assert errors["L_pq TrustRank"][0] != found["errors"]["L_pq TrustRank"][1]


def test_the_page_needs_no_data(monkeypatch, tmp_path):
    monkeypatch.setenv("CONVEXRANK_DATA", str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.close("all")  # of other tests
    runpy.run_path(str(EXAMPLES / "plot_graph_figures.py"))
    assert len(plt.get_fignums()) == 5
    assert all(panel.has_data() for n in plt.get_fignums() for panel in plt.figure(n).axes)
    plt.close("all")
