"""Where w = 0 is optimal, and where l1 alone leaves no minimum, as the pages of the formulations say."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import optimize

import convexrank as cr
from convexrank.solvers.descent.smoothed.short_path import end_at_zero
from tests.tolerances import tolerance

P = cr.problems
NEGATIVES = 6
# How to make each problem, the largest share that one negative may have, and the size of the loss's slope at 0.
KINDS = {
    "TopPush": (P.TopPush, (), 1.0, 1.0),
    "RmaxPush exponential": (P.RmaxPush, ("exponential",), 1.0, 1.0),
    "RmaxPush logistic": (P.RmaxPush, ("logistic",), 1.0, 0.5),
    "RmaxPush hinge": (P.RmaxPush, ("hinge",), 1.0, 1.0),
    "RmaxPush squared hinge": (P.RmaxPush, ("squared_hinge",), 1.0, 2.0),
    "SpectralPush, highest": (P.SpectralPush, (("top", 1), "logistic"), 1.0, 0.5),
    "SpectralPush, three": (P.SpectralPush, (("top", 3), "logistic"), 1.0 / 3.0, 0.5),
    "SpectralPush, all": (P.SpectralPush, ("uniform", "hinge"), 1.0 / NEGATIVES, 1.0),
    "PartialAUC": (P.PartialAUC, (0.5, "hinge"), 1.0 / 3.0, 1.0),
    **{f"PNormPush, p = {p:g}": (P.PNormPush, (p,), 1.0 / NEGATIVES, 1.0) for p in (1.0, 4.0, 64.0)},
}


def drawn(seed):
    """Rows whose mean positive lies far from the negatives, near them or among them."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(NEGATIVES + 3, 2)), np.arange(NEGATIVES + 3) < 3
    X[y] += rng.uniform(0.0, 1.5) * rng.normal(size=2)
    return X, y


def distance(X, y, most):
    """How far the mean positive is from the nearest mean of negatives with such shares, in the worst coordinate."""
    d = X.shape[1]
    mean, rows = X[y].mean(axis=0), X[~y].T
    sides = np.block([[rows, -np.ones((d, 1))], [-rows, -np.ones((d, 1))]])
    found = optimize.linprog(
        np.append(np.zeros(NEGATIVES), 1.0), sides, np.append(mean, -mean),
        np.append(np.ones(NEGATIVES), 0.0)[None, :], [1.0], [(0.0, most)] * NEGATIVES + [(0.0, None)],
    )  # fmt: skip
    return float(found.fun)


def gained(problem):
    """How far the objective falls from w = 0, and what may be wrong about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        solution = problem.solve()
    return problem.objective(np.zeros(problem.dimension)) - solution.value, solution.gap


@pytest.mark.parametrize("kind", [name for name in KINDS if not name.startswith("PNormPush")])
def test_the_bundle_method_asks_first_whether_zero_is_optimal(kind):
    """With l1: evidence from the path near 0, and none where that leads below."""
    make, options, most, slope = KINDS[kind]
    rng, found = np.random.default_rng(0), []
    for seed in range(4):
        X, y = drawn(seed)
        X = np.c_[X, rng.normal(size=(len(X), 3))]
        least = slope * distance(X, y, most)
        for share in (0.5, 1.5):
            problem = make(X, y, *options, l1=share * least + 1e-3 * (share - 1.0))
            end = end_at_zero(problem, 1e-8) if problem.l1 > 0.0 else None
            if share < 1.0 or end is None:
                assert end is None or least <= tolerance("summation")
                continue
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", cr.ConvergenceWarning
                )  # which says that the minimum is trivial
                solution = problem.solve("bundle")
            assert not end.w.any()
            assert not solution.x.any()
            assert solution.converged
            assert solution.iterations <= 3
            assert solution.certificate.gap <= 1e-8
            found.append(end)
    assert len(found) >= 3


@pytest.mark.parametrize("kind", KINDS)
def test_zero_is_optimal_exactly_where_the_means_may_coincide(kind):
    """Without l1, and with one that is a little larger or smaller than the distance."""
    make, options, most, slope = KINDS[kind]
    apart = []
    for seed in range(4):
        X, y = drawn(seed)
        apart.append(slope * distance(X, y, most))
        assert make(X, y, *options, l1=1.0).l1_max() == pytest.approx(apart[-1], abs=tolerance("summation"))
        for share in (0.0, 0.9, 1.1):
            fall, gap = gained(make(X, y, *options, l1=share * apart[-1], l2=0.1))
            if apart[-1] <= tolerance("summation") or share > 1.0:
                assert fall <= gap + tolerance("summation")
            else:
                assert fall > gap
    # both answers were seen; but with equal shares there is one mean, which is another
    assert (min(apart) <= tolerance("summation")) == (most > 1.0 / NEGATIVES)
    assert max(apart) > 0.1


@pytest.mark.parametrize("p", [1.0, 4.0, 64.0])
def test_a_finite_p_has_its_minimum_at_zero_where_the_means_of_the_classes_coincide(p):
    X, y = drawn(0)
    X[y] += X[~y].mean(axis=0) - X[y].mean(axis=0)
    fall, gap = gained(P.PNormPush(X, y, p))
    assert fall <= gap + tolerance("summation")


@pytest.mark.parametrize(
    ("make", "options", "fall"),
    [
        (P.PNormPush, (4.0,), 1.0), (P.BottomPush, (4.0,), 1.0), (P.TopPush, (), 1.0),
        (P.TopBottomPush, (4.0,), 2.0), (P.TopBottomPush, (2.0, 0.3), 1.3),
    ],
)  # fmt: skip
def test_without_l2_an_l1_below_the_fall_per_unit_of_margin_leaves_no_minimum(make, options, fall):
    """Two weights of at most 1 in all have a margin of at most 2 between these rows."""
    X, y = np.array([[1.0, 2.0], [1.5, 2.0], [0.0, 0.0], [-0.5, 0.0]]), [1, 1, 0, 0]
    for share, status in ((0.95, cr.Status.UNBOUNDED), (1.05, cr.Status.CONVERGED)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cr.ConvergenceWarning)
            assert make(X, y, *options, l1=2.0 * share * fall).solve().status is status


@pytest.mark.parametrize(
    ("options", "lowest"),
    [((0.1, "hinge"), 0.5), ((0.1, "squared_hinge"), 0.5), ((0.05, "logistic"), None)],
    ids=["hinge", "squared hinge", "logistic"],
)
def test_a_tiny_l2_does_not_hide_that_zero_is_the_minimum(options, lowest):
    """A gradient has to be small beside l2: in rows without any order, where rounding is least."""
    for seed in (0, 4):
        X, y = np.random.default_rng(seed).normal(size=(300, 8)), np.arange(300) % 3 == 0
        problem = P.PartialAUC(X, y, *options, min_tpr=lowest, l2=1e-6)
        with pytest.warns(cr.ConvergenceWarning, match="trivial minimum w = 0"):
            solution = problem.solve()
        assert (solution.status, solution.iterations) == (cr.Status.CONVERGED, 0)
