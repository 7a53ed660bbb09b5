"""Second derivatives in the weights, and the diagonal beside products, against products with unit vectors and loops."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

import convexrank as cr
from convexrank.modelling import curvature, functions, mean, pair_sums, rules
from convexrank.modelling.curvature import constant, has_columns, products
from convexrank.modelling.groups import Groups
from convexrank.modelling.hessian_products import has_pair_hessian, hessian_product, pair_hessian
from convexrank.modelling.program import Program
from convexrank.modelling.smoothing.programs import smooth_atom
from convexrank.problems import _smoothed_weights
from tests.random_expressions import random_instance, scores_apart
from tests.tolerances import tolerance

CLOSE = tolerance("summation")


def in_scores(program, scores):
    """The Hessian, by a product with each unit vector."""
    product = hessian_product(program, scores)
    return np.array([product(one) for one in np.eye(program.rows)])


def near(found, wanted):
    return np.abs(found - wanted).max(initial=0.0) <= CLOSE * max(1.0, np.abs(wanted).max(initial=0.0))


def way_of(program):
    """Which of the ways to second derivatives in the weights a risk takes."""
    if has_columns(program):
        if constant(program) is not None:
            return "the same everywhere"
        return "columns of one query" if program.count == 1 else "columns of queries"
    return "pairs alone" if has_pair_hessian(program) else "a product for each column"


def test_hessians_in_the_weights_are_those_in_the_scores_between_the_features():
    seen = {}
    for seed in range(160):
        draw, rng = Random(seed), np.random.default_rng(seed)
        program = random_instance(draw).program
        if not program.bends:
            continue
        X, scores = rng.normal(size=(program.rows, 3)), np.array(scores_apart(draw, program.rows))
        hessian = in_scores(program, scores)
        # a common shift of all scores may be known to change nothing: then an offset of the features costs no digits
        still = np.abs(hessian.sum(axis=0)).max() <= 1e-13 * max(1.0, np.abs(hessian).max())
        for centres in (False, True)[: 1 + still]:
            reader = curvature.InWeights(program, X + 100.0 * centres, centres)
            value, slope = program.value_and_gradient(scores)
            for _ in range(2):  # what is kept is not the caller's to change
                found = reader.second_order(scores)
                assert near(found[0], value)
                assert near(found[1], (X + 100.0 * centres).T @ slope)
                wide = np.abs(X).T @ np.abs(hessian) @ np.abs(X)
                assert np.abs(found[2] - X.T @ hessian @ X).max() <= CLOSE * max(1.0, wide.max()), seed
                found[2][:] = np.nan
            seen[way_of(program), centres] = seen.get((way_of(program), centres), 0) + 1
    assert len({way for way, _ in seen}) == 5, seen
    assert min(seen.values()) >= 2, seen


def test_the_diagonal_beside_products_of_sums_over_pairs_is_that_of_the_hessian():
    rng = np.random.default_rng(0)
    problem = cr.problems.ConvexRisk(rng.normal(size=(12, 2)), rng.integers(0, 4, 12), "logistic", l2=0.1)
    scores = rng.normal(size=problem.program.rows)
    found = products(problem.program, scores)
    hessian = in_scores(problem.program, scores)
    assert near(found.diagonal, np.diag(hessian))
    assert near(found.product(scores), hessian @ scores)


@pytest.mark.parametrize(("upper", "lower"), [(0.5, 3.0), (1.0, -0.25)])
def test_second_derivatives_of_pairs_of_multiples_are_those_of_a_double_loop(upper, lower):
    """By products, by the diagonal beside them, and in the weights."""
    rng = np.random.default_rng(0)
    X, y, scores = rng.normal(size=(7, 2)), np.arange(7) % 3 == 0, rng.normal(size=7)
    groups = Groups(y * 1.0, None)
    sums = pair_sums(functions.softplus, upper * groups.positive, lower * groups.negative)
    wanted = np.zeros((7, 7))
    for i in np.flatnonzero(y):
        for k in np.flatnonzero(~y):
            move = lower * np.eye(7)[k] - upper * np.eye(7)[i]
            half = 1.0 / (2.0 * math.cosh(0.5 * (move @ scores)))
            wanted += half**2 * np.outer(move, move) / np.sum(~y)
    smooth = Program(mean(sums), 7)
    assert near(in_scores(smooth, scores), wanted)
    assert near(products(smooth, scores).diagonal, np.diag(wanted))
    assert near(pair_hessian(smooth, scores, X)[2], X.T @ wanted @ X)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_second_derivatives_in_weights_of_pairs_without_kinks_are_those_of_all_pairs(loss, monkeypatch):
    """Of very many pairs, some of which tell it roughly: the planted bug."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(600, 3)), np.arange(600) % 2
    problem = cr.problems.ConvexRisk(X, y, loss, l1=0.1)
    w = rng.normal(size=3)
    scores = X @ w
    turn = hessian_product(problem.program, scores)
    wanted = np.stack([X.T @ turn(column) for column in X.T])
    found = problem._smoothed(w, 1.0).matrix()
    size = np.abs(wanted).max()
    assert np.abs(found - wanted).max() <= CLOSE * size
    monkeypatch.setattr(_smoothed_weights, "_SUMMED", -1)
    rough = problem.changed(l1=0.2)._smoothed(w, 1.0).matrix()
    assert 1e-6 * size < np.abs(rough - wanted).max() < 0.1 * size


def test_shares_of_small_weights_move_as_differences_say():
    """The shares that move weigh less than 1 in all."""
    groups, x = Groups(np.arange(6) % 2 * 1.0, None), np.array([0.1, 0.9, -0.3, 0.8, 0.5, 1.1])
    node = rules.mean_of_highest(
        groups.rows, share=0.4, weights=np.array([0.05, 0.1, 0.02, 0.04, 0.03, 0.05])
    )
    program, v, h = Program(smooth_atom(node, 0.5), 6), np.arange(6) - 2.5, tolerance("difference_step")
    ahead, behind = (program.value_and_gradient(x + side * h * v)[1] for side in (1.0, -1.0))
    found = hessian_product(program, x)(v)
    assert np.abs(found).max() > 0.01
    assert np.abs((ahead - behind) / (2.0 * h) - found).max() < 10.0 * tolerance("central difference")


def test_the_diagonal_beside_products_of_a_chain_of_levels_is_the_sum_of_its_shares():
    """Each document above the lowest grade has a softmax over its own grade and those below."""
    rng = np.random.default_rng(1)
    grades, qid, scores = rng.integers(0, 3, 10), np.repeat([0, 1], 5), rng.normal(size=10)
    program = cr.problems.ListMLE(rng.normal(size=(10, 2)), grades, qid, l2=0.1, normalize=False).program
    wanted = np.zeros(10)
    lowest = [min(grades[qid == query]) for query in qid]
    for first in np.flatnonzero(grades > lowest):
        below = [j for j in range(10) if qid[j] == qid[first] and grades[j] <= grades[first]]
        total = math.fsum(math.exp(scores[j]) for j in below)
        for j in below:
            wanted[j] += math.exp(scores[j]) / total
    found = products(program, scores)
    assert near(found.diagonal, wanted)
    assert near(found.product(scores), in_scores(program, scores) @ scores)


@pytest.mark.parametrize(
    ("name", "limit", "columns"),
    [
        ("ConvexRisk", "_PAIRS", 1), ("ConvexRisk", "_PRODUCTS", 7),
        ("RankDiscount", "_BLOCKED", 1), ("RankDiscount", "_COLUMNS", 7), ("RankDiscount", "_PRODUCTS", 61),
    ],
)  # fmt: skip
def test_second_derivatives_of_pairs_are_affordable_up_to_so_many(name, limit, columns, monkeypatch):
    """Where sums over pairs are within other functions they are taken for each column, or listed if there are few."""
    monkeypatch.setattr(curvature, "has_few_pairs", lambda program: limit == "_PRODUCTS")
    made = getattr(cr.problems, name)
    alone = made is cr.problems.ConvexRisk
    options = {"cost": "logistic"} if alone else {"loss": "squared_hinge", "price": cr.prices.Power(2.0)}
    program = made(np.eye(6), [0, 0, 1, 1, 1, 0], l2=0.1, **options).program
    assert has_pair_hessian(program) == alone
    pairs = program.curved_pairs
    size = {"_PRODUCTS": pairs * columns, "_COLUMNS": columns}.get(limit, pairs)
    for most in (size, size - 1):
        monkeypatch.setattr(curvature, limit, most)
        assert curvature.is_affordable(program, columns) == (most == size)
