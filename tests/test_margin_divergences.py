"""Margin-equipped retargeting off the quadratic: joint convexity, targets against conic programs, the joint minimum."""

from __future__ import annotations

import dataclasses
import itertools

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from convexrank.problems.margin_retargeting import _definition as _cvxpy
from convexrank.problems.margin_retargeting._reference import evidence
from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting
from convexrank.problems.queries._base import random_queries
from tests.tolerances import tolerance

KINDS = {
    "I-divergence": ("generalized_i", {"margin": 0.5, "bound": 5.0, "target_reg": 1.0}),
    "I-divergence, no offsets": ("generalized_i", {"margin": 0.5, "bound": (0.1, 5.0), "offsets": False}),
    "I-divergence, reward": (
        "generalized_i",
        {"margin": 0.1, "reward": 0.1, "bound": 5.0, "target_reg": 1.0, "normalize": False},
    ),
    "shifted": (
        "shifted_generalized_i",
        {"margin": lambda rank: 1.0 / rank, "bound": 5.0, "target_reg": 3.0},
    ),
    "bit entropy": ("bit_entropy", {"margin": 0.2, "target_reg": 0.5}),
    "KL": ("kl", {"margin": 0.01, "target_reg": 0.5}),
    "KL, reward, no offsets": ("kl", {"margin": lambda rank: 0.05 / rank, "reward": 0.05, "offsets": False}),
    "squared": ("squared", {"margin": 0.5, "bound": (-1.0, 1.0), "target_reg": 0.5}),
}
EVERY = pytest.mark.parametrize("name", KINDS)
DRAWN = pytest.mark.parametrize("seed", range(2))
BREGMAN = pytest.mark.parametrize("name", [name for name in KINDS if name != "squared"])


def draw(name, seed, **more):
    """A random instance of a kind, with a centre for one seed, and a point."""
    rng = np.random.default_rng(seed)
    X, y, qid = random_queries(rng)
    divergence, options = KINDS[name]
    options = {"l2": 0.1, **options, **more}
    if options.get("target_reg") and seed == 1:
        options["center"] = rng.normal(size=len(y))
    return MarginRetargeting(X, y, qid, divergence, **options), 2.0 * rng.normal(size=X.shape[1])


def close(a, b, name="summation"):
    return np.allclose(a, b, rtol=tolerance(name), atol=tolerance(name))


def of_query(problem, w, query):
    """Scores, targets, offset, center and grades of one query."""
    part, scores = problem.groups.slices[query], problem.scores(w)[problem._rows]
    fit = problem.fit(scores)
    center = np.zeros(len(scores)) if problem.center is None else problem.center[problem._rows]
    return scores[part], fit.targets[part], fit.offsets[query], center[part], problem.grades[part]


# --- against other solvers ----------------------------------------------------------------------------------------


@EVERY
@DRAWN
def test_targets_are_those_of_the_conic_program(name, seed):
    """For fixed scores and offsets the problem in the targets is one that cvxpy can read: constraints by pairs."""
    problem, w = draw(name, seed)
    low, high = problem.rules.low, problem.rules.high
    for query in range(len(problem.groups)):
        scores, targets, offset, center, grades = of_query(problem, w, query)
        c, cr_ = float(problem.query_weights[query]), problem.target_reg
        r = cp.Variable(len(scores))
        phi, limits = problem.divergence.cvxpy(r)
        cost = c * ((1.0 + cr_) * phi - (scores + offset + cr_ * center) @ r)
        limits += [r >= max(low, -1e3), r <= min(high, 1e3)]
        blocks = np.flatnonzero((problem.blocks.queries == query) & problem.blocks.above)
        for block, (lower, upper) in zip(blocks, itertools.pairwise(np.unique(grades)), strict=True):
            gap = cp.Variable()
            limits.append(gap >= problem.margins[block])
            above, below = np.flatnonzero(grades == upper), np.flatnonzero(grades == lower)
            limits.append(r[np.repeat(above, len(below))] - r[np.tile(below, len(above))] >= gap)
            cost -= problem.rewards[block] * gap
        cp.Problem(cp.Minimize(cost), limits).solve(solver=cp.CLARABEL)
        assert close(targets, r.value, "conic point")


@EVERY
@DRAWN
def test_the_marginal_is_the_joint_minimum(name, seed):
    """By the exact model, and off the quadratic by sequential quadratic programming with constraints by pairs, too."""
    problem, w = draw(name, seed)
    solution, exact = problem.solve(), problem.solve("exact")
    assert solution.solver == "newton"
    assert solution.certificate.kind == "global"
    truths = [exact.x] if name == "squared" else [exact.x, problem.reference()]
    for truth in truths:
        assert abs(problem.objective(truth) - solution.value) <= tolerance("two solvers")
        assert problem.objective(truth) >= solution.value - solution.gap - tolerance("summation")
        assert problem.distance(truth, solution.x) <= tolerance("joint programs")
    assert close(problem.to_cvxpy().value_at(w), problem.objective(w), "conic value")


# One for each divergence: offsets and rewards in the model are compared above.
@pytest.mark.parametrize("name", ["I-divergence", "shifted", "bit entropy", "KL"])
def test_the_verifier_compares_with_the_exact_model_and_catches_a_wrong_one(name, monkeypatch):
    problem, _ = draw(name, 2)
    report = cr.verify(problem)
    assert (report.compared, report.ok) == (1, True), str(report)
    right = _cvxpy._conjugates
    monkeypatch.setattr(_cvxpy, "_conjugates", lambda *arguments: 1.01 * right(*arguments))
    assert not cr.verify(problem).ok


@BREGMAN
def test_the_exact_model_is_nonlinear(name):
    problem, _ = draw(name, 2)
    model = problem.to_cvxpy()
    assert (model.convex, model.problem.is_dcp(), model.problem.is_dnlp()) == (True, False, True)
    best = model.problem.solve()  # as of any model, without arguments
    assert close(best, problem.solve(tol=tolerance("conic value")).value, "conic value")
    assert close(problem.objective(model.variables["w"].value), best, "conic value")
    with pytest.warns(cr.ConvergenceWarning, match="CLARABEL: failed"):
        assert problem.solve(cr.solvers.ExactSolver("CLARABEL")).status is cr.Status.FAILED


def test_the_verifier_notices_a_point_that_is_off():
    """A wrong model of each kind is above."""
    problem, _ = draw("KL", 2)
    assert not cr.verify(problem, solver=lambda problem: problem.solve().x + 0.1).ok


@BREGMAN
def test_a_wrong_start_does_no_harm(name, monkeypatch):
    problem, w = draw(name, 2)
    right = _cvxpy._start
    monkeypatch.setattr(_cvxpy, "_start", lambda *arguments: 1.01 * right(*arguments))
    exact = problem.solve("exact")
    assert exact.converged
    assert abs(exact.value - problem.solve().value) <= tolerance("two solvers")
    assert close(problem.to_cvxpy().value_at(w), problem.objective(w), "conic value")


def test_a_large_model_is_solved_from_the_same_start_each_time():
    rng = np.random.default_rng(5)
    X, y, qid = rng.normal(size=(150, 3)), rng.integers(0, 3, 150), rng.integers(0, 12, 150)
    problem = MarginRetargeting(X, y, qid, "generalized_i", 0.3, bound=5.0, l1=1e-3, l2=1e-2)
    model, exact = problem.to_cvxpy(), problem.solve("exact")
    assert exact.converged
    assert exact.gap <= tolerance("two solvers")
    assert abs(exact.value - problem.solve().value) <= tolerance("two solvers")
    found = [model.value_at(w) for w in (exact.x, exact.x + 1.0, exact.x)]
    assert found[0] == found[2]
    assert close(found[0], exact.value, "conic value")


@BREGMAN
def test_other_solvers_agree(name):
    problem, _ = draw(name, 0)
    best = problem.solve().value
    for solver in ("lbfgs", "accelerated", "bundle"):
        other = problem.solve(solver)
        assert other.converged
        assert abs(other.value - best) <= tolerance("two solvers")


@EVERY
@DRAWN
def test_block_coordinate_descent_falls_to_the_minimum(name, seed):
    problem, _ = draw(name, seed)
    best, found = problem.solve(), problem.solve("alternating")
    assert found.converged
    assert abs(found.value - best.value) <= tolerance("two solvers")
    assert (np.diff(found.trace["objective"]) <= tolerance("summation")).all()


@EVERY
def test_weights_for_given_targets_are_a_regression(name):
    """Against the conic program of the generalised linear model, for targets that are not the best."""
    problem, point = draw(name, 2)
    r = problem.fit(problem.scores(point)[problem._rows]).targets
    joint = problem._minimized(1, np.concatenate((0.0 * point, r)))
    w, offsets = cp.Variable(problem.dimension), cp.Variable(len(problem.groups))
    rows, query = problem.X[problem._rows], problem.groups.query
    s = rows @ w + (offsets[query] if problem.offsets else 0.0)
    c, reg = problem.query_weights, problem.score_reg
    cost = 0.5 * problem.l2 * cp.sum_squares(w)
    for number in range(len(problem.groups)):
        part = problem.groups.slices[number]
        link = {
            "KL": lambda t: cp.log_sum_exp(t),
            "BitEntropy": lambda t: cp.sum(cp.logistic(t)),
            "SquaredEuclidean": lambda t: 0.5 * cp.sum_squares(t),
            "GeneralizedI": lambda t: cp.sum(cp.exp(t)) + problem.divergence.shift * cp.sum(t),
        }[type(problem.divergence).__name__]
        cost += c[number] * (link(s[part]) - r[part] @ s[part] + 0.5 * reg * cp.sum_squares(s[part]))
    cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
    assert close(joint[: problem.dimension], w.value, "conic point")
    assert np.array_equal(joint[problem.dimension :], r)


# --- the statements of the risk -----------------------------------------------------------------------------------


@EVERY
@DRAWN
def test_oracle_evidence_and_plain_loops_agree(name, seed):
    problem, w = draw(name, seed)
    scores = problem.scores(w)
    value, slope = problem._risk_and_score_gradient(scores)
    other, other_slope = problem._reference_scores(scores)
    assert close(value, other)
    assert close(slope, other_slope)
    assert close(value, problem.definition(scores))
    along = 1e-5 * np.random.default_rng(seed).normal(size=len(scores))
    rise = problem.definition(scores + along) - problem.definition(scores - along)
    assert close(2.0 * float(slope @ along) / 1e-5, rise / 1e-5, "central difference")


@BREGMAN
@DRAWN
def test_gradient_and_curvature_by_differences(name, seed):
    problem, w = draw(name, seed)
    value, gradient, hessian = problem.second_order(w)
    assert close(value, problem.objective(w))
    assert close(gradient, problem.gradient(w))
    for j, e in enumerate(1e-5 * np.eye(len(w))):
        difference = (problem.objective(w + e) - problem.objective(w - e)) / 2e-5
        assert close(gradient[j], difference, "central difference")
        assert close(
            hessian[j], (problem.gradient(w + e) - problem.gradient(w - e)) / 2e-5, "central difference"
        )


@BREGMAN
@DRAWN
def test_the_marginal_is_convex(name, seed):
    problem, w = draw(name, seed)
    assert np.linalg.eigvalsh(problem.hessian(w) - 0.1 * np.eye(len(w))).min() >= -tolerance("summation")
    one, two = problem.objective(w), problem.objective(-w)
    assert problem.objective(0.0 * w) <= 0.5 * (one + two) + tolerance("summation")


def test_below_the_constants_of_lemma_8_it_is_not():
    """Why they are asked for: with less, a chord lies below the curve."""
    problem, _ = draw("I-divergence", 0, bound=2.0)
    object.__setattr__(problem, "score_reg", 0.0)
    problem.__dict__.pop("rules", None)
    problem.__dict__.pop("engine", None)
    rng = np.random.default_rng(0)
    least = min(
        float(np.linalg.eigvalsh(problem.hessian(w) - problem.l2 * np.eye(len(w))).min())
        for w in rng.normal(size=(60, problem.dimension)) * rng.choice([0.3, 1.0, 3.0], size=(60, 1))
    )
    assert least < -1e-3


@BREGMAN
@pytest.mark.parametrize("moved", ["targets", "offsets"])
def test_evidence_notices_what_is_not_the_best(name, moved, monkeypatch):
    """Planted bugs: targets of other scores satisfy the constraints and are not the best; nor are other offsets."""
    problem, w = draw(name, 2)
    if moved == "offsets" and not problem.offsets:
        return
    scores = problem.scores(w)[problem._rows]
    assert evidence(problem.rules, problem.fit(scores), scores)[2] <= tolerance("summation")
    best, right = problem.query_oracle(scores)[0], problem.fit(scores)
    other = problem.fit(scores + np.linspace(0.0, 1.0, len(scores)))
    planted = dataclasses.replace(right, targets=other.targets, chain=other.chain)
    if moved == "offsets":
        planted = dataclasses.replace(right, offsets=right.offsets + 0.5)
    monkeypatch.setattr(type(problem), "fit", lambda self, _: planted)
    cost, _, left = evidence(problem.rules, problem.fit(scores), scores)
    assert cost > best
    assert left >= cost - best - tolerance("summation")
    assert problem.certificate(w).gap >= left


def two_queries():
    """Few rows: the definition inverts the slopes of a generator number by number."""
    return np.random.default_rng(0).normal(size=(7, 2)), [2, 1, 0, 1, 0, 1, 0], [0, 0, 0, 1, 1, 1, 1]


def test_a_generator_of_ones_own():
    """Strongly convex on the whole line, so that no bound is needed."""
    X, y, qid = two_queries()
    own = cr.divergences.FromGenerator(lambda x: 0.5 * cr.atoms.square(x) + cr.atoms.exp(x))
    problem = MarginRetargeting(X, y, qid, own, 0.5, target_reg=0.5, l2=0.1)
    assert close(problem.score_reg, 2.0 / 3.0)
    solution, truth = problem.solve(), problem.reference()
    assert solution.converged
    assert abs(problem.objective(truth) - solution.value) <= tolerance("two solvers")
    with pytest.raises(ValueError, match="pass conjugate_function"):
        problem.to_cvxpy()
    with pytest.raises(ValueError, match="it lacks Exact"):
        problem.solve("exact")
    assert cr.verify(problem).compared == 1


def test_a_generator_with_its_conjugate_has_an_exact_model():
    X, y, qid = two_queries()
    own = cr.divergences.FromGenerator(
        cr.atoms.x_log_x, lower=0.0, conjugate_function=lambda t: cr.atoms.exp(t - 1.0)
    )
    problem = MarginRetargeting(X, y, qid, own, 0.5, bound=5.0, l2=0.1)
    exact, truth = problem.solve("exact"), problem.reference()
    assert exact.converged
    assert abs(problem.objective(truth) - exact.value) <= tolerance("two solvers")
    assert cr.verify(problem).ok


@pytest.mark.parametrize(
    "divergence", ["squared", "generalized_i", "shifted_generalized_i", "bit_entropy", "kl"]
)
def test_nothing_is_left_to_gain_for_any_options(divergence):
    """Random margins, rewards, bounds, constants and centres, scores from small to large: the proof closes."""
    rng = np.random.default_rng(12)
    for _ in range(15):
        X, y, qid = random_queries(rng)
        options = {
            "margin": float(rng.choice([0.0, 0.02])),
            "target_reg": float(rng.choice([0.0, 0.5, 10.0])),
        }
        if divergence.endswith("generalized_i"):
            options["bound"] = float(rng.choice([3.0, 100.0]))
        if rng.random() < 0.4:
            options["reward"] = float(rng.choice([0.01, 0.3]))
        if rng.random() < 0.3:
            options["center"] = rng.normal(size=len(y))
        options |= {"offsets": bool(rng.random() < 0.6), "normalize": bool(rng.random() < 0.5)}
        problem = MarginRetargeting(X, y, qid, divergence, l2=0.1, **options)
        w = float(rng.choice([0.1, 1.0, 5.0])) * rng.normal(size=X.shape[1])
        scores = problem.scores(w)[problem._rows]
        value, _, left = evidence(problem.rules, problem.fit(scores), scores)
        assert close(value, problem.query_oracle(scores)[0])
        assert left <= tolerance("summation") * max(1.0, abs(value))


# --- constants and domains ----------------------------------------------------------------------------------------


def test_the_least_constant_is_found():
    X, y = np.eye(3), [2, 1, 0]
    for divergence, bound, reg, least in (
        ("squared", None, 0.0, 0.0),
        ("generalized_i", 4.0, 1.0, 2.0),
        ("shifted_generalized_i", 4.0, 0.0, 3.0),
        ("bit_entropy", None, 1.0, 0.125),
        ("kl", None, 1.0, 0.25),
        ("kl", 0.5, 0.0, 0.5),
        ("kl", 0.4, 0.0, 0.4),
    ):
        problem = MarginRetargeting(X, y, None, divergence, 0.01, None, bound, reg, l2=0.1)
        assert close(problem.score_reg, least)
        more = MarginRetargeting(
            X, y, None, divergence, 0.01, None, bound, reg, score_reg=least + 0.1, l2=0.1
        )
        assert more.score_reg == least + 0.1


def least_curvature_of_distributions(target_reg, score_reg):
    """The least eigenvalue, entries scaled, of the Hessian of (3.17) for KL where targets keep their sum."""
    rng, least = np.random.default_rng(0), np.inf
    for trial in range(120):
        n = int(rng.integers(2, 6))
        r, s = rng.dirichlet(np.full(n, 0.3)) + 1e-9, rng.normal(size=n) * rng.choice([1.0, 10.0])
        if trial % 2:  # the extreme: two targets of about a half, predictions of 0 and 1
            r, s = np.r_[0.5, 0.5, np.full(n - 2, 1e-9)], np.r_[60.0, np.zeros(n - 1)]
        r, p = r / r.sum(), np.exp(s - s.max()) / np.exp(s - s.max()).sum()
        lower = np.diag(p) - np.outer(p, p) + score_reg * np.eye(n)
        whole = np.block([[(1.0 + target_reg) * np.diag(1.0 / r), -np.eye(n)], [-np.eye(n), lower]])
        within = np.linalg.svd(np.ones((1, n)))[2][1:].T
        moves = np.block([[within, np.zeros((n, n))], [np.zeros((n, n - 1)), np.eye(n)]])
        hessian = moves.T @ whole @ moves
        scale = 1.0 / np.sqrt(hessian.diagonal())
        least = min(least, float(np.linalg.eigvalsh(hessian * scale[:, None] * scale)[0]))
    return least


@pytest.mark.parametrize("target_reg", [0.0, 0.5, 3.0])
def test_the_least_constant_of_distributions_is_the_least(target_reg):
    options = {"divergence": "kl", "margin": 0.01, "target_reg": target_reg, "l2": 0.1}
    constant = MarginRetargeting(np.eye(3), [2, 1, 0], None, **options).score_reg
    assert least_curvature_of_distributions(target_reg, constant) >= -tolerance("summation")
    assert least_curvature_of_distributions(target_reg, 0.98 * constant) < -tolerance("summation")
    with pytest.raises(ValueError, match="Lemma 8"):
        MarginRetargeting(np.eye(3), [2, 1, 0], None, score_reg=0.98 * constant, **options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"divergence": "generalized_i", "bound": 4.0, "score_reg": 3.0}, ValueError, "Lemma 8 asks for"),
        ({"divergence": "kl", "score_reg": 0.0}, ValueError, "score_reg of at least 0.5"),
        ({"divergence": "generalized_i"}, ValueError, "not strongly convex"),
        ({"divergence": "itakura_saito"}, ValueError, "scores can be any number"),
        ({"divergence": cr.divergences.KL(weights=(1.0, 2.0, 1.0))}, ValueError, "without weights"),
        ({"divergence": "bit_entropy", "margin": 0.5}, ValueError, "query 0 add up to 1"),
        ({"divergence": "bit_entropy", "bound": (1.0, 2.0)}, ValueError, "nothing of the domain"),
        ({"divergence": "kl", "margin": 0.4}, ValueError, "add up to between 1.2"),
        ({"divergence": "kl", "margin": 0.01, "bound": 0.3}, ValueError, "expected 1 in between"),
        ({"divergence": "generalized_i", "bound": (-2.0, -1.0)}, ValueError, "nothing of the domain"),
    ],
)
def test_constants_and_domains_are_checked(options, error, words):
    with pytest.raises(error, match=words):
        MarginRetargeting(np.eye(3), [2, 1, 0], None, **{"margin": 0.1, "l2": 0.1, **options})


@pytest.mark.parametrize("size", [1.0, 30.0, 1000.0])
@BREGMAN
def test_scores_of_any_size(name, size):
    """Predictions that round to an end of the domain: finite, and still the gradient."""
    problem, w = draw(name, 2)
    w = size * w / np.abs(problem.X @ w).max()
    value, gradient = problem.value_and_gradient(w)
    if name.startswith(("I-", "shifted")) and size == 1000.0 and not problem.offsets:
        assert value == np.inf  # a prediction of e^1000
        return
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
    assert close(value, problem._reference_minorant(w).risk + problem.penalty.value(w))


def test_without_margins_the_minimum_is_trivial_off_the_quadratic_too():
    problem, _ = draw("KL", 0, margin=None)
    assert problem.trivial_minimum
    with pytest.warns(cr.ConvergenceWarning, match="trivial"):
        assert np.linalg.norm(problem.solve().x) <= tolerance("fixed points")


@pytest.mark.parametrize("seed", [1307, 1309, 1374])
def test_values_of_models_whose_last_digit_is_out_of_reach(seed):
    """Instances on which a solver asked for 1e-12 gives up, or says less than it can."""
    problem = MarginRetargeting.random(seed)
    model = problem.to_cvxpy()
    for w in (problem.solve().x, np.zeros(problem.dimension)):
        assert close(model.value_at(w), problem.objective(w), "conic value")
