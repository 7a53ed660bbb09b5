"""Sums over pairs that are taken for the rows that count alone: equal to those of all rows, and proved alone."""

from __future__ import annotations

import numpy as np
import pytest

import convexrank as cr
from convexrank.modelling.certificates import reference
from convexrank.modelling.smoothing import merging
from convexrank.problems import _smoothed_weights
from tests.tolerances import tolerance

P = cr.problems
SUMS = tolerance("summation")
LOSSES = ("hinge", "squared_hinge", "logistic")
WIDTHS = (1e-3, 0.1, 10.0, 3e3)


def drawn(n=4_000, weighted=False, seed=0):
    """Rows with ties, most of them negatives, and weights of which some are 0."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 4)), 1)
    y = (X[:, 0] + rng.normal(size=n) > 1.0).astype(int)
    return X, y, rng.choice([0.0, 0.5, 1.0, 2.0], size=n) if weighted else None


def made(loss, weighted=False, share=0.05, queries=1, rows=4_000, **options):
    X, y, weights = drawn(weighted=weighted, n=rows * queries)
    if queries > 1:  # of two lengths, and one without a negative
        options["qid"] = np.where(np.cumsum(y) <= 2, 7, np.arange(len(y)) % 5 % queries)
        y[options["qid"] == 7] = 1
    return P.PartialAUC(X, y, share, loss, l2=0.01, sample_weight=weights, **options)


def readings(problem):
    """Numbers that solvers and certificates read, at points near 0 and far from it."""
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.3, 3.0):
        w, v = scale * rng.normal(size=4), rng.normal(size=4)
        for value, slope in (
            problem._risk_and_score_gradient(problem.scores(w)),
            problem._reference_scores(problem.scores(w)),
        ):
            yield from (value, problem.X.T @ slope)
        for width in WIDTHS:
            here, proved = problem._smoothed(w, width), problem._reference_minorant(w, width)
            yield from (here.risk, here.value, here.offset, here.slope, here.drift(), *here.along(v)(0.4))
            yield from (proved.risk, proved.offset, proved.slope)


@pytest.mark.parametrize(("weighted", "queries"), [(False, 1), (True, 2)])
@pytest.mark.parametrize("loss", LOSSES)
def test_rows_that_count_alone_have_the_sums_of_all(loss, weighted, queries, monkeypatch):
    monkeypatch.setattr(merging, "_MANY", 500)
    problem = made(loss, weighted, queries=queries, rows=1_000)
    assert merging.highest_sums(problem.program) is not None
    found = list(readings(problem))
    assert problem._reference.near(problem.scores(np.ones(4))) is not problem._reference
    monkeypatch.setattr(merging, "_MANY", 10**9)
    problem = made(loss, weighted, queries=queries, rows=1_000)
    assert merging.highest_sums(problem.program) is None
    truth = list(readings(problem))
    for one, other in zip(found, truth, strict=True):
        assert np.abs(one - other).max() <= SUMS * (1.0 + np.abs(other).max())


def test_few_rows_are_kept_and_never_too_few():
    problem = made("hinge", weighted=True)
    scores = problem.scores(np.random.default_rng(2).normal(size=4))
    smoothing = problem._smoothed_risks.smoothing
    place = merging.highest_sums(problem.program).sums
    sizes = [len(smoothing.near(scores, width).program.nodes[place].axis.rows) for width in WIDTHS]
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.1 * len(problem.negatives)
    for width in WIDTHS:  # the others have no share
        whole, kept = smoothing.at(width), smoothing.near(scores, width).program.nodes[place].axis.rows
        gradient = whole.placed(whole.down(whole.up(scores)[1]))
        assert not gradient[np.setdiff1d(problem.negatives, kept)].any()
        assert gradient[kept].sum() == pytest.approx(gradient[problem.negatives].sum(), rel=SUMS)


@pytest.mark.parametrize("queries", [1, 2])
def test_a_border_that_is_too_high_is_told(queries, monkeypatch):
    """The planted bug: the certificate takes fewer rows than count, whose sums are the highest all the same."""
    problem = made("hinge", queries=queries)
    scores = problem.scores(np.random.default_rng(2).normal(size=4))
    truth = problem._reference.value(scores)
    assert problem._reference.near(scores) is not problem._reference
    assert problem._reference_value(scores) == pytest.approx(truth, rel=SUMS)
    entry_at = reference.entry_at
    monkeypatch.setattr(reference, "entry_at", lambda x, rank: entry_at(x, rank // 2))
    # too few weigh too little: then all sums are taken
    assert problem._reference.near(scores) is problem._reference


def test_without_any_of_the_highest_rows_the_risk_is_lower():
    """The planted bug: the highest row is left out. What the others prove is below the risk all the same."""
    problem = made("hinge")
    scores = problem.scores(np.random.default_rng(2).normal(size=4))
    lower = scores[problem.negatives]
    kept = np.sort(np.argsort(lower)[-400:-1])
    some = reference.Reference(merging.without_others(problem.program, kept))
    value, slopes, offset, *_ = some.below(scores)
    assert value < problem._reference.value(scores) * (1.0 - SUMS)
    for scale in (0.0, 0.5, 2.0):
        other = scale * scores
        assert offset + slopes @ other <= problem._reference.value(other) * (1.0 + SUMS)


@pytest.mark.parametrize("kind", ["two-way", "short queries", "all rows", "few rows", "grades"])
def test_other_forms_keep_all_rows(kind):
    X, y, _ = drawn()
    problem = {
        "two-way": lambda: P.PartialAUC(X, y, 0.05, "hinge", min_tpr=0.5, l2=0.1),
        "short queries": lambda: P.PartialAUC(X, y, 0.05, "hinge", qid=np.arange(len(y)) % 2, l2=0.1),
        "all rows": lambda: P.PartialAUC(X, y, 1.0, "hinge", l2=0.1),
        "few rows": lambda: P.PartialAUC(X[:300], y[:300], 0.05, "hinge", l2=0.1),
        "grades": lambda: P.ConvexRisk(X, X[:, 0], "hinge", l2=0.1),
    }[kind]()
    scores = problem.scores(np.ones(4))
    assert merging.narrowed(problem.program, scores) is problem.program
    assert problem._reference.near(scores) is problem._reference


@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_some_rows_tell_the_hessian_of_all(loss, queries, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4))
    y = X[:, 0] + rng.normal(size=len(X)) > 0.5
    problem, w = (
        P.PartialAUC(X, y, 0.2, loss, l2=0.01, qid=np.arange(len(X)) % queries),
        0.5 * rng.normal(size=4),
    )
    here = problem._smoothed(w, 100.0)
    monkeypatch.setattr(_smoothed_weights, "_SOME", 10**6)
    truth = problem._smoothed(w, 100.0).matrix()
    step = 1e-4
    for v in np.eye(4):
        ahead, behind = (problem._smoothed(w + side * step * v, 100.0).slope for side in (1, -1))
        assert np.abs((ahead - behind) / (2 * step) - truth @ v).max() <= 0.02 * np.abs(truth).max()
    monkeypatch.setattr(_smoothed_weights, "_SOME", 1_000)
    found = here.matrix()
    assert np.abs(found - truth).max() <= 0.1 * np.abs(truth).max()
    assert np.linalg.eigvalsh(found).min() > 0.0


def test_pairs_that_are_few_are_all_listed():
    """Where few pairs are between, the Hessian is theirs, and not an average."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 4))
    y = X[:, 0] + rng.normal(size=len(X)) > 0.5
    problem, w = P.PartialAUC(X, y, 0.2, "hinge", l2=0.01), 0.5 * rng.normal(size=4)
    here, pairs = problem._smoothed(w, 2.0), None
    scores, state = problem.scores(w), problem._smoothed_risks.smoothing.risk(problem.scores(w), 2.0)
    place = merging.highest_sums(problem.program).sums
    kernel, node = state.state[1][place][0], state.program.nodes[place]
    pairs = kernel.bent(10**6)
    short = 1.0 + scores[node.axis.rows][:, None] - scores[node.upper_axis.rows][None, :]
    between = (short > 0.0) & (short < kernel.width)
    assert len(pairs[0]) == pytest.approx(np.count_nonzero(between), abs=2)
    assert kernel.bent(len(pairs[0]) - 1) is None
    u = state.state[2][place]
    apart = problem.X[node.axis.rows[pairs[1]]] - problem.X[node.upper_axis.rows[pairs[0]]]
    each = u[pairs[1]] * node.weights[pairs[0]] * pairs[2]
    least = np.linalg.eigvalsh(here.matrix() - (apart * each[:, None]).T @ apart).min()
    assert least >= -SUMS * np.abs(here.matrix()).max()  # what is left is that of the mean of the highest


def test_a_solve_of_rows_that_count_alone_ends_where_that_of_all_does(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 4))
    y = X[:, 0] + 0.3 * rng.normal(size=len(X)) > 1.0
    found = P.PartialAUC(X, y, 0.05, "hinge", l2=0.01).solve()
    monkeypatch.setattr(merging, "_MANY", 10**9)
    truth = P.PartialAUC(X, y, 0.05, "hinge", l2=0.01).solve()
    assert found.converged
    assert truth.converged
    assert abs(found.value - truth.value) <= found.gap + truth.gap
    assert found.solver == "continuation"
