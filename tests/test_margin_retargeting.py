"""What is particular to margin-equipped retargeting: targets, margins, rewards, bounds, the joint model by pairs."""

from __future__ import annotations

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import convexrank as cr
from convexrank.problems._linear_scores import LinearScores
from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting
from convexrank.problems.queries._base import random_queries
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
KINDS = {
    "margin": {"margin": 1.0},
    "margins by rank, not normalised": {"margin": lambda rank: 1.0 / np.log2(1.0 + rank), "normalize": False},
    "bounds": {"margin": 0.4, "bound": (-1.0, 0.5)},
    "bounds without offsets": {"margin": 0.4, "bound": (0.5, 2.5), "offsets": False},
    "upper bound without offsets": {"margin": 0.4, "bound": 0.1, "offsets": False},
    "rewards": {"margin": None, "reward": 0.2},
    "rewards within bounds": {"margin": 0.1, "reward": lambda rank: 1.0 / rank, "bound": (-2.0, 2.0)},
    "regularised": {"margin": 0.7, "target_reg": 0.4, "score_reg": 0.3},
    "regularised, bounds": {"margin": 0.7, "target_reg": 0.4, "bound": (-1.0, 1.5), "reward": 0.05},
    "without offsets": {"margin": 0.7, "target_reg": 1.0, "offsets": False},
}
EVERY = pytest.mark.parametrize("name", KINDS)


def draw(name, seed, **more):
    """A random instance of a kind, with a centre where the targets are regularised, and a point."""
    rng = np.random.default_rng(seed)
    X, y, qid = random_queries(rng)
    options = {"l2": 0.1, **KINDS[name], **more}
    if options.get("target_reg") and seed % 2:
        options["center"] = rng.normal(size=len(y))
    return MarginRetargeting(X, y, qid, "squared", **options), 2.0 * rng.normal(size=X.shape[1])


def close(a, b, name="summation"):
    return np.allclose(a, b, rtol=tolerance(name), atol=tolerance(name))


def joint(problem, scores=None):
    """The joint problem by pairs of documents: constraints on every pair of neighbouring grades."""
    w, r = cp.Variable(problem.dimension), cp.Variable(len(problem.y))
    cost, limits, levels = 0.5 * problem.l2 * cp.sum_squares(w), [], sorted(set(problem.y.tolist()))
    predicted = problem.X @ w if scores is None else scores
    low, high = problem.bound or (-math.inf, math.inf)
    for name in np.unique(problem.qid):
        rows = np.flatnonzero(problem.qid == name)
        grades = sorted(set(problem.y[rows].tolist()))
        if len(grades) == 1:
            limits.append(r[rows] == 0)
            continue
        s = predicted[rows] + (cp.Variable() if problem.offsets else 0.0)
        c = 1.0 / len(rows) if problem.normalize else 1.0
        center = 0.0 if problem.center is None else problem.center[rows]
        cost += 0.5 * c * cp.sum_squares(r[rows] - s)
        cost += 0.5 * c * problem.target_reg * cp.sum_squares(r[rows] - center)
        cost += 0.5 * c * problem.score_reg * cp.sum_squares(s)
        limits += [bound for bound in (r[rows] >= low, r[rows] <= high) if np.isfinite([low, high]).any()]
        for lower, upper in itertools.pairwise(grades):
            gap = cp.Variable()
            above, below = (rows[problem.y[rows] == g] for g in (upper, lower))
            size, reward = (
                given(np.array([(problem.y[rows] >= upper).sum()]))[0]
                if callable(given)
                else (given[levels.index(upper) - 1] if isinstance(given, tuple) else given or 0.0)
                for given in (problem.margin, problem.reward)
            )
            limits += [gap >= size, r[np.repeat(above, len(below))] - r[np.tile(below, len(above))] >= gap]
            cost -= reward * gap
    return cp.Problem(cp.Minimize(cost), [limit for limit in limits if limit is not True]), w, r


def solved(model):
    model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return model.value


# --- against the joint problem ------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("seed", range(2))
def test_the_marginal_is_the_joint_problem(name, seed):
    problem, point = draw(name, seed)
    model, w, r = joint(problem)
    best, fast, exact = solved(model), problem.solve(), problem.solve(solver="exact")
    for value in (fast.value, exact.value):
        assert close(value, best, "conic")
    assert close(fast.x, w.value, "conic point")
    counted = ~np.isnan(problem.targets(fast))
    assert counted.sum() == problem.groups.rows
    if problem.bound is None and not problem.target_reg and not problem.score_reg:
        # an offset that costs nothing is free
        means = np.array([np.mean(r.value[problem.qid == q]) for q in problem.qid])
        mine = np.array([np.mean(problem.targets(fast)[problem.qid == q]) for q in problem.qid])
        assert close((problem.targets(fast) - mine)[counted], (r.value - means)[counted], "conic point")
    fixed, _, _ = joint(problem, problem.scores(point))
    value = problem.objective(point) - problem.penalty.value(point)
    assert close(value, solved(fixed), "conic")


@EVERY
def test_targets_satisfy_what_is_asked(name):
    problem, w = draw(name, 4)
    r, (low, high) = problem.targets(w), problem.bound or (-math.inf, math.inf)
    assert np.nanmin(r) >= low - SUMMATION
    assert np.nanmax(r) <= high + SUMMATION
    for block in np.flatnonzero(problem.blocks.above):
        below, above = (
            problem.blocks.order[problem.blocks.offsets[b] : problem.blocks.offsets[b + 1]]
            for b in (block - 1, block)
        )
        along = r[problem._rows]
        assert along[above].min() - along[below].max() >= problem.margins[block] - SUMMATION


# --- three statements, and the curvature --------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("seed", range(3))
def test_fast_oracle_compiled_oracle_and_reference_agree(name, seed):
    problem, w = draw(name, seed)
    scores = problem.scores(w)
    value, slope = problem._risk_and_score_gradient(scores)
    others = [problem._reference_scores(scores)]
    if seed == 0:
        others.append(LinearScores._risk_and_score_gradient(problem, scores))
    for other, other_slope in others:
        assert close(value, other)
        assert close(slope, other_slope)


@EVERY
def test_curvature_by_differences(name):
    problem, w = draw(name, 1)
    value, gradient, hessian = problem.second_order(w)
    assert close(value, problem.objective(w))
    assert close(gradient, problem.gradient(w))
    for j, e in enumerate(1e-5 * np.eye(len(w))):
        difference = (problem.gradient(w + e) - problem.gradient(w - e)) / 2e-5
        assert close(hessian[j], difference, "central difference")
    X = sparse.csr_array(problem.X)
    twin = MarginRetargeting(X, problem.y, problem.qid, "squared", **{"l2": 0.1, **KINDS[name]})
    if problem.center is None:
        assert close(twin.hessian(w), hessian)


@EVERY
def test_the_gradient_in_the_scores_is_lipschitz(name):
    problem, w = draw(name, 2)
    constant = (1.0 + problem.score_reg) * problem.query_weights.max()
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 10.0):
        one, step = problem.scores(w), scale * rng.normal(size=len(problem.y))
        change = problem._risk_and_score_gradient(one + step)[1] - problem._risk_and_score_gradient(one)[1]
        assert 0.0 <= change @ step + SUMMATION
        assert np.linalg.norm(change) <= constant * np.linalg.norm(step) * (1.0 + SUMMATION)


def test_newton_needs_few_steps():
    X, y, qid = random_queries(np.random.default_rng(8))
    solution = MarginRetargeting(X, y, qid, "squared", 1.0, l2=0.01).solve()
    assert solution.solver == "newton"
    assert solution.iterations <= 10
    assert solution.gap <= SUMMATION


# --- margins and rewards ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argument", ["margin", "reward"])
def test_the_forms_of_a_step_agree(argument):
    X, y, qid = random_queries(np.random.default_rng(3))
    steps = len(np.unique(y)) - 1
    values = [
        MarginRetargeting(X, y, qid, **{"margin": None, argument: given}, l2=0.1).solve().value
        for given in (0.3, [0.3] * steps, lambda rank: 0.3, lambda rank: np.full(len(rank), 0.3))
    ]
    assert close(values, values[0])


def test_a_step_is_named_by_its_upper_grade():
    """A query without the middle grade uses the margin of the step up to its highest."""
    X, y, qid = [[1.0], [0.5], [0.0], [1.0], [0.0]], [2, 1, 0, 2, 0], [0, 0, 0, 1, 1]
    problem = MarginRetargeting(X, y, qid, margin=(0.25, 2.0), l2=0.1)
    assert problem.margins.tolist() == [0.0, 0.25, 2.0, 0.0, 2.0]
    assert np.allclose(problem.targets([0.0]), [17 / 12, -7 / 12, -10 / 12, 1.0, -1.0])


def test_the_rank_counts_the_documents_above():
    seen = []

    def margin(rank):
        seen.extend(rank.tolist())
        return 1.0 / rank

    y = [3, 3, 1, 1, 1, 0]
    problem = MarginRetargeting(np.arange(6.0)[:, None], y, None, "squared", margin, l2=0.1)
    assert sorted(seen) == [2, 5]
    assert problem.margins.tolist() == [0.0, 0.2, 0.5]


def test_margins_only_set_the_scale():
    """Squared, without bounds and constants: twice the margins, twice the weights, four times the cost."""
    X, y, qid = random_queries(np.random.default_rng(5))
    one, two = (MarginRetargeting(X, y, qid, "squared", m, l2=0.1).solve() for m in (1.0, 2.0))
    assert close(two.x, 2.0 * one.x, "fitted values")
    assert close(two.value, 4.0 * one.value, "fitted values")


@given(st.integers(0, 200))
@settings(max_examples=20)
def test_pairs_are_the_squared_hinge(seed):
    """Queries of two documents: the distance to the targets a margin apart is a squared hinge."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(12, 3)), rng.normal(size=3)
    y, qid = np.tile([1.0, 0.0], 6), np.repeat(np.arange(6), 2)
    hinge = cr.problems.RankSVM(X, y, qid, "squared_hinge")
    assert close(MarginRetargeting(X, y, qid, "squared", 1.0).objective(w), hinge.objective(w) / 8.0)


def test_a_reward_is_the_margin_that_it_earns():
    """With the gaps of the best targets as margins, and no reward, the same targets are best."""
    problem, w = draw("rewards", 2)
    scores = problem.scores(w)[problem._rows]
    r, chain = problem.fit(scores).targets, problem.blocks.chain(scores)
    gaps = chain.gaps(r)
    assert gaps.max() > 0
    lift = problem.blocks.of_blocks(problem.blocks.lifted(gaps))
    pooled, _ = chain.pooled(chain.gather(scores) - lift)
    assert close(chain.scatter(pooled + lift), r)


def test_targets_spread_with_the_reward():
    X, y = np.arange(6.0)[:, None] / 5, [2, 0, 1, 1, 0, 2]
    spreads = [
        float(np.ptp(MarginRetargeting(X, y, None, "squared", 0.1, reward, l2=0.1).targets([0.3])))
        for reward in (0.0, 0.2, 1.0)
    ]
    assert spreads[0] < spreads[1] < spreads[2]


# --- what contributes nothing ---------------------------------------------------------------------------------------


def test_idle_queries_rows_in_any_order_and_names():
    problem, w = draw("bounds", 6)
    X, y = np.vstack([problem.X, 7.0 * np.ones((3, problem.dimension))]), np.r_[problem.y, 2.0, 1.0, 1.0]
    qid = np.concatenate([problem.qid.astype(str), ["alone", "same", "same"]])
    order = np.random.default_rng(0).permutation(len(y))
    twin = MarginRetargeting(X[order], y[order], qid[order], "squared", l2=0.1, **KINDS["bounds"])
    assert twin.idle_queries == problem.idle_queries + 2
    assert close(twin.objective(w), problem.objective(w))
    assert close(twin.solve().x, problem.solve().x, "fixed points")
    assert np.isnan(twin.targets(w)).sum() >= 3


def test_a_column_of_zeros_gets_no_weight():
    problem, _ = draw("margin", 2)
    X = np.column_stack([problem.X, np.zeros(len(problem.y))])
    for l2 in (0.0, 0.1):
        solution = MarginRetargeting(X, problem.y, problem.qid, "squared", 1.0, l2=l2).solve()
        assert solution.converged
        assert solution.x[-1] == 0.0


def test_without_margins_the_minimum_is_trivial_and_reported():
    problem, _ = draw("margin", 2, margin=None)
    assert problem.trivial_minimum
    with pytest.warns(cr.ConvergenceWarning, match="trivial"):
        solution = problem.solve()
    assert "trivial" in solution.message
    assert np.linalg.norm(solution.x) <= math.sqrt(SUMMATION)
    assert not draw("margin", 2)[0].trivial_minimum
    assert "trivial" not in draw("margin", 2)[0].solve().message


@pytest.mark.parametrize(("margin", "trivial"), [(1e-14, True), (1e-10, False), (1e-6, False)])
def test_a_small_margin_is_a_margin(margin, trivial):
    problem = MarginRetargeting([[0.0], [1.0]], [0, 1], None, "squared", margin, l2=1.0)
    assert problem.trivial_minimum == trivial


# --- bad input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"margin": -1.0}, ValueError, "margin is -1.0"),
        ({"margin": [0.1, -0.5]}, ValueError, r"margin\[1\] is -0.5"),
        ({"margin": [0.1]}, ValueError, "margin has 1 entries, expected 2"),
        ({"margin": float("nan")}, ValueError, "margin is nan"),
        ({"margin": [0.1, float("inf")]}, ValueError, "infinit"),
        ({"margin": "large"}, TypeError, "margin is 'large'"),
        ({"margin": lambda rank: -rank}, ValueError, r"margin\(\d\) is -\d"),
        ({"margin": lambda rank: [1.0, 2.0, 3.0, 4.0]}, ValueError, "one number for each rank"),
        ({"reward": -0.1, "margin": 1.0}, ValueError, "reward is -0.1"),
        ({"margin": 1.0, "bound": (0.0, 1.5)}, ValueError, "infeasible: the margins of query 7 add up to 2"),
        ({"margin": 1.0, "bound": (3.0, 1.0)}, ValueError, "bound"),
        ({"margin": 1.0, "bound": (0.0, 1.0, 2.0)}, TypeError, "expected a pair"),
        ({"margin": 1.0, "target_reg": -1.0}, ValueError, "target_reg is -1.0"),
        ({"margin": 1.0, "center": [1.0]}, ValueError, "center has 1 entries"),
        ({"reward": 1.0, "l2": 0.0}, ValueError, "reward has no minimiser on these data"),
        ({"margin": 1.0, "y": [2, 1, float("nan"), 0, 0]}, ValueError, "NaN"),
        ({"margin": 1.0, "y": [1, 1, 1, 0, 0]}, ValueError, "nothing to rank"),
        ({"margin": 1.0, "qid": [1, 1]}, ValueError, "qid has 2 entries"),
        ({"margin": 1.0, "divergence": "cosine"}, ValueError, "divergence"),
    ],
)
def test_bad_input_is_refused(options, error, words):
    arguments = {"X": np.eye(5), "y": [2, 1, 0, 0, 0], "qid": [7, 7, 7, 9, 9], "l2": 0.1, **options}
    with pytest.raises(error, match=words):
        MarginRetargeting(**arguments)


def test_margins_that_just_fit():
    problem = MarginRetargeting(np.eye(3), [2, 1, 0], None, "squared", 0.1, bound=(0.1, 0.1 + 0.2), l2=0.1)
    assert close(problem.targets([5.0, -1.0, 3.0]), [0.3, 0.2, 0.1])
    assert problem.solve().converged


# --- rewards without l2 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "held", [{"target_reg": 0.5, "score_reg": 0.2}, {"target_reg": 0.5}, {"score_reg": 0.2}]
)
@pytest.mark.parametrize("seed", [0, 1])
def test_regularised_rewards_need_no_penalty(seed, held):
    """Squares of targets or scores hold the gaps: the joint program by pairs has a minimum, and so has ours."""
    X, y, qid = random_queries(np.random.default_rng(seed))
    problem = MarginRetargeting(X, y, qid, "squared", None, 0.1, **held)
    solution = problem.solve()
    program = joint(problem)[0]
    program.solve(solver=cp.CLARABEL)
    assert program.status == "optimal"
    assert solution.converged
    assert solution.value == pytest.approx(program.value, abs=tolerance("conic"))


def unbounded_by_pairs(X, y, qid, l1, low, high, offsets):
    """Whether some direction with |w| <= 1 keeps all grades apart and earns, by a linear program over pairs."""
    v, levels, earned, limits = cp.Variable(X.shape[1]), sorted(set(y.tolist())), 0.0, []
    moved = X @ v
    for query in set(qid.tolist()):
        rows, grades = np.flatnonzero(qid == query), sorted(set(y[qid == query].tolist()))
        for grade, below in zip(grades[1:], grades[:-1], strict=True):
            gap = cp.min(moved[rows[y[rows] == grade]]) - cp.max(moved[rows[y[rows] == below]])
            limits.append(gap >= 0)
            earned += gap
        if len(grades) > 1 and not offsets:
            limits += [moved[rows] >= 0] if low > -math.inf else []
            limits += [moved[rows] <= 0] if high < math.inf else []
    assert len(levels) > 1
    program = cp.Problem(cp.Maximize(earned - l1 * cp.norm1(v)), [*limits, cp.norm_inf(v) <= 1])
    return program.solve(solver=cp.CLARABEL) > 1e-4


@pytest.mark.parametrize("seed", range(24))
def test_a_reward_is_refused_if_and_only_if_gaps_can_grow(seed):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(3, 9))
    X, y = rng.normal(size=(rows, int(rng.integers(1, 4)))).round(1), rng.integers(0, 3, rows)
    qid = rng.integers(0, 2, rows)
    y[:2], qid[:2] = [0, 1], 0
    bound, offsets = (
        [(-math.inf, math.inf), (-0.5, math.inf), (-math.inf, 9.0)][seed % 3],
        bool(rng.integers(2)),
    )
    l1 = float(rng.choice([0.0, 0.5]))
    options = {"reward": 1.0, "bound": bound, "offsets": offsets, "l1": l1, "margin": None}
    if unbounded_by_pairs(X, y, qid, l1, *bound, offsets):
        with pytest.raises(ValueError, match="reward has no minimiser on these data"):
            MarginRetargeting(X, y, qid, "squared", **options)
    else:
        program = joint(MarginRetargeting(X, y, qid, "squared", **options))[0]
        program.solve(solver=cp.CLARABEL)
        assert program.status in ("optimal", "optimal_inaccurate")


def test_the_margin_is_one_unless_it_is_given():
    X, y, qid = random_queries(np.random.default_rng(5))
    assert MarginRetargeting(X, y, qid).margin == 1.0
    assert MarginRetargeting(X, y, qid, l2=0.1).solve().x.any()
    assert MarginRetargeting(X, y, qid, margin=None).trivial_minimum
