"""Formulations of the package, declared in a few lines as expressions, agree with its own members."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import convexrank as cr
from convexrank import losses, prices
from convexrank.modelling import (
    apply,
    functions,
    log,
    log_mean_exp,
    log_one_plus,
    log_sum_exp,
    maximum,
    mean,
    pair_sums,
    power,
    softplus,
    square,
    total,
)
from tests.expression_readings import off
from tests.tolerances import tolerance


class PNorm(cr.Formulation):
    p: float = 4.0

    def risk(self, f):
        return log_mean_exp(-f.positive) + log_mean_exp(self.p * f.negative) / self.p


class PNormAsPrinted(cr.Formulation):
    p: float = 4.0

    def risk(self, f):
        sums = pair_sums(losses.Exponential(), f.positive, f.negative) / f.positive.axis.weights.sum()
        return log(mean(power(sums, self.p))) / self.p


class Bottom(cr.Formulation):
    p: float = 4.0

    def risk(self, f):
        return log_mean_exp(-self.p * f.positive) / self.p + log_mean_exp(f.negative)


class Top(cr.Formulation):
    def risk(self, f):
        return log_mean_exp(-f.positive) + maximum(f.negative)


class Reciprocal(cr.Formulation):
    def risk(self, f):
        return mean(softplus(log_sum_exp(f.negative) - f.positive))


class Rmax(cr.Formulation):
    loss: object = losses.Hinge()

    def risk(self, f):
        return mean(apply(self.loss.phi, maximum(f.negative) - f.positive))


class Priced(cr.Formulation):
    loss: object = losses.Hinge()
    price: object = None

    def risk(self, f):
        return total(self.price(pair_sums(self.loss, f.positive, f.negative)))


class Ranking(cr.Formulation):
    cost: object = losses.Hinge()

    def risk(self, f):
        n = f.rows.axis.weights.sum()
        return total(pair_sums(self.cost, f.rows, f.rows, f.grades)) * (2.0 / (n * (n - 1.0)))


class VectorMachine(cr.Formulation):
    loss: object = losses.Hinge()

    def risk(self, f):
        axis = f.rows.axis
        sums = pair_sums(self.loss, f.rows, f.rows, f.grades)
        partners = np.bincount(sums.pairs[1], minlength=len(axis.rows))
        return total(sums, 1.0 / axis.spread(axis.sums(partners)))


class Listwise(cr.Formulation):
    def risk(self, f):
        axis, worth = f.rows.axis, np.exp(f.grades - f.grades.max())
        target = worth / axis.spread(axis.sums(worth))
        return log_sum_exp(f.rows) - total(f.rows, target) + axis.sums(special.xlogy(target, target))


class Gains(cr.Formulation):
    def risk(self, f):
        axis, gains = f.rows.axis, 2.0**f.grades - 1.0
        falling = gains[np.lexsort((-gains, axis.query))]
        discounts = np.log2(2.0 + np.arange(len(gains)) - axis.starts[axis.query])
        rest = f.rows - gains / axis.spread(axis.sums(falling / discounts))
        return mean(apply(functions.scaled(functions.square, 0.5), rest - mean(rest)))


LOSSES = {
    "hinge": losses.Hinge(),
    "squared_hinge": losses.SquaredHinge(),
    "logistic": losses.Logistic(),
    "exponential": losses.Exponential(),
}
PRICES = {
    "plain": (1.0, lambda r: r),
    "power": (3.0, lambda r: power(r, 3.0)),
    "square": (2.0, square),
}


def data(seed, weighted):
    """Rows with ties, weights with zeros, grades, queries of one row and without an order."""
    rng = np.random.default_rng(seed)
    X, qid = np.round(rng.normal(size=(28, 3)) * 2.0) / 2.0, np.r_[np.repeat([7, 3, 5, 1], [9, 8, 8, 2]), 4]
    X[5:9] = X[4]
    signal = X @ [1.0, -0.5, 0.3] + 0.3 * rng.normal(size=28)
    y, grades = (signal > 0.4) * 1.0, np.clip(np.round(signal + 1.0), 0, 3)
    grades[[0, 9, 17]], grades[[1, 10, 18]], grades[25:27] = 0.0, 1.0, 2.0
    y[[2, 3]] = 0.0, 1.0
    weights = rng.integers(0, 4, size=28) * 1.0
    weights[[0, 1, 2, 3]] = 2.0
    order = rng.permutation(28)
    options = {"sample_weight": weights[order]} if weighted else {}
    return X[order], y[order], grades[order], qid[order], options


def couples(seed, weighted):
    """Declared and own problems."""
    X, y, grades, qid, options = data(seed, weighted)
    p, l2 = cr.problems, {"l2": 0.1}
    both = l2 | options
    yield "PNormPush", PNorm(X, y, p=3.0, **both), p.PNormPush(X, y, 3.0, **both)
    yield "PNormPush as printed", PNormAsPrinted(X, y, p=3.0, **both), p.PNormPush(X, y, 3.0, **both)
    yield "BottomPush", Bottom(X, y, p=3.0, **both), p.BottomPush(X, y, 3.0, **both)
    yield "TopPush", Top(X, y, **both), p.TopPush(X, y, **both)
    yield "IRPush", Reciprocal(X, y, **both), p.IRPush(X, y, **both)
    for name, loss in LOSSES.items():
        yield f"RmaxPush {name}", Rmax(X, y, loss=loss, **both), p.RmaxPush(X, y, name, **both)
        for price, (exponent, function) in PRICES.items():
            pushed = {**options, "l2": 3.0}
            own = p.Push(X, y, exponent, name, **pushed)
            yield f"Push {name} {price}", Priced(X, y, loss=loss, price=function, **pushed), own
        if name != "exponential":
            yield (
                f"ConvexRisk {name}",
                Ranking(X, grades, cost=loss, **both),
                p.ConvexRisk(X, grades, name, **both),
            )
        if "hinge" in name and not weighted:
            own = p.RankSVM(X, grades, qid, name, normalize=True, **l2)
            yield f"RankSVM {name}", VectorMachine(X, grades, qid=qid, loss=loss, **l2), own
    logarithm = Priced(X, y, loss=losses.Exponential(), price=log_one_plus, **both)
    yield "Push log(1 + r)", logarithm, p.Push(X, y, prices.LogOnePlus(), **both)
    if not weighted:
        yield "ListNet", Listwise(X, grades, qid=qid, **l2), p.ListNet(X, grades, qid, **l2)
        yield "NDCGRegression", Gains(X, grades, qid=qid, **l2), p.NDCGRegression(X, grades, qid, **l2)


NAMES = [name for name, *_ in couples(0, False)]


@pytest.mark.parametrize("name", NAMES)
def test_declared_formulations_agree_with_the_packages(name):
    for seed in range(2):
        for found, declared, own in couples(seed, seed % 2 == 1):
            if found != name:
                continue
            w = np.random.default_rng(seed).normal(size=3)
            scores = declared.X @ w
            (value, slope), expected = (
                declared._risk_and_score_gradient(scores),
                own._risk_and_score_gradient(scores),
            )
            assert off(value, expected[0]) < tolerance("declared twice")
            assert off(declared.X.T @ slope, own.X.T @ expected[1]) < tolerance("declared twice")
            assert off(declared._reference_value(scores), expected[0]) < tolerance("declared twice")
            if declared._has_curvature and own._has_curvature:
                theirs = own.second_order(w)
                assert off(declared.second_order(w)[2], theirs[2]) < tolerance("declared twice")


@pytest.mark.parametrize("name", NAMES)
def test_declared_formulations_are_solved_and_proved(name):
    _, declared, own = next(case for case in couples(0, False) if case[0] == name)
    solution, expected = declared.solve(), own.solve()
    assert solution.status is cr.Status.CONVERGED
    assert off(solution.value, expected.value) < tolerance("two solvers")
    assert solution.certificate.kind == expected.certificate.kind
    at_own, gap = declared.certificate(expected.x), own.certificate(expected.x).gap
    if declared._differentiable:
        assert at_own.gap <= 2.0 * gap + tolerance("declared twice")
    # each with its own evidence: the package's may come from a smoothed risk
    proof, same = solution.prove(), own.prove(solution.x)
    assert float(proof.value) == pytest.approx(float(same.value), rel=tolerance("declared twice"))
    assert float(proof.gap) <= max(2.0 * solution.gap, 1e-12)
    assert float(proof.lower_bound) <= expected.value
