"""Section 4.4: exactly realizable links, against enumeration, exact models and closed forms."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import convexrank as cr
from convexrank.core.results import Status
from convexrank.problems.single_index.realizable_link import ImageOfBall, RealizableLink, RealizableScores
from convexrank.solvers.single_index import ADMM, ParallelProjections, SequentialProjections
from tests.tolerances import tolerance

SOLVERS = pytest.mark.parametrize(
    "solver", [SequentialProjections(), ParallelProjections(), ADMM()], ids=lambda s: s.name
)
MODULI = st.sampled_from([(0.0, math.inf), (0.5, math.inf), (0.5, 2.0), (0.0, 1.0)])
NUMBERS = st.floats(-3, 3).map(lambda x: round(x, 2))
TARGETS = st.lists(st.integers(-2, 2).map(float), min_size=1, max_size=6)


def broken(problem, scores):
    """By how much the worst pair of rows breaks the definition."""
    strong, smooth = problem.strong or 0.0, math.inf if problem.smooth is None else problem.smooth
    worst = 0.0
    for i, j in itertools.permutations(range(len(scores)), 2):
        gap, step = problem.y[j] - problem.y[i], scores[j] - scores[i]
        if gap > 0:
            worst = max(worst, strong * gap - step, step - smooth * gap)
        elif gap == 0 and smooth < math.inf:
            worst = max(worst, abs(step))
    return worst


def nearest_by_enumeration(scores, y, strong, smooth):
    """The projection: of all ways to tie each step to a bound or to none, the nearest that satisfies everything."""
    tied = math.isfinite(smooth)
    if tied:
        levels = sorted(set(y))
        rows = [[i for i in range(len(y)) if y[i] == level] for level in levels]
    else:  # rows of one target keep the order of their scores
        rows = [[i] for i in sorted(range(len(y)), key=lambda i: (y[i], scores[i]))]
    values = [y[group[0]] for group in rows]
    means = [math.fsum(scores[i] for i in group) / len(group) for group in rows]
    low = [strong * (b - a) for a, b in itertools.pairwise(values)]
    high = [smooth * (b - a) if b > a else math.inf for a, b in itertools.pairwise(values)]
    best, answer = math.inf, None
    for ties in itertools.product((None, 0, 1) if tied else (None, 0), repeat=len(low)):
        steps = [None if tie is None else (low, high)[tie][k] for k, tie in enumerate(ties)]
        fitted, start = [], 0
        for end in range(len(values)):
            if end + 1 < len(values) and steps[end] is not None:
                continue
            shifts = list(itertools.accumulate([0.0, *steps[start:end]]))
            sizes = [len(group) for group in rows[start : end + 1]]
            level = math.fsum(
                n * (m - t) for n, m, t in zip(sizes, means[start : end + 1], shifts, strict=True)
            )
            fitted += [level / sum(sizes) + t for t in shifts]
            start = end + 1
        increments = [b - a for a, b in itertools.pairwise(fitted)]
        if all(a - 1e-9 <= step <= b + 1e-9 for a, step, b in zip(low, increments, high, strict=True)):
            candidate = np.empty(len(y))
            for group, value in zip(rows, fitted, strict=True):
                candidate[group] = value
            far = float(np.sum((candidate - scores) ** 2))
            if far < best:
                best, answer = far, candidate
    return answer


# --- the two sets ---------------------------------------------------------------------------------------------------


@given(TARGETS, MODULI, st.data())
def test_projection_on_realizable_scores_is_the_nearest_of_all(y, moduli, data):
    scores = np.array(data.draw(st.lists(NUMBERS, min_size=len(y), max_size=len(y))))
    found = RealizableScores(np.array(y), *moduli).nearest(scores)
    assert np.allclose(found, nearest_by_enumeration(scores, y, *moduli), rtol=0, atol=tolerance("summation"))


@given(TARGETS, MODULI, st.data())
def test_what_is_moved_inside_is_inside_and_members_stay(y, moduli, data):
    scores = np.array(data.draw(st.lists(NUMBERS, min_size=len(y), max_size=len(y))))
    strong, smooth = moduli[0] or None, None if moduli[1] == math.inf else moduli[1]
    problem = RealizableLink(np.eye(len(y)), y, 100.0, strong, smooth)
    members = RealizableScores(np.array(y), *moduli)
    inside = members.inside(scores)
    assert broken(problem, inside) <= tolerance("summation")
    assert np.allclose(members.inside(inside), inside, rtol=0, atol=tolerance("summation"))
    nearest = members.nearest(scores)
    rms = np.linalg.norm(scores - nearest) / math.sqrt(len(y))
    assert problem.violation(scores) == pytest.approx(rms, abs=tolerance("summation"))


@given(TARGETS, MODULI, st.data())
def test_support_is_below_every_member_and_met_at_the_projection(y, moduli, data):
    draw = st.lists(NUMBERS, min_size=len(y), max_size=len(y))
    scores, direction = np.array(data.draw(draw)), np.array(data.draw(draw))
    members = RealizableScores(np.array(y), *moduli)
    theta = members.inside(scores)
    for u in (direction, members.nearest(direction) - direction):
        u, bound, rounding = members.support(u, reach=2.0 * float(np.abs(theta).max()))
        assert bound <= float(u @ theta) + rounding + tolerance("fixed point")
    nearest = members.nearest(direction)
    assert bound == pytest.approx(float(u @ nearest), abs=tolerance("summation"))


@pytest.mark.parametrize("shape", [(6, 2), (2, 5), (5, 5), (4, 1), (1, 1)])
@pytest.mark.parametrize("kind", ["full", "repeated", "zero"])
@pytest.mark.parametrize("radius", [0.1, 3.0, 1e3])
def test_projection_on_the_image_of_a_ball(shape, kind, radius):
    """Optimal exactly when no v in the ball does better to first order: r‖Xᵀρ‖ ≤ ⟨ρ, Xw⟩, ρ what is left."""
    rng = np.random.default_rng(shape[0])
    X = np.zeros(shape) if kind == "zero" else rng.normal(size=shape)
    if kind == "repeated":
        X[:, -1] = X[:, 0]
    z = 3.0 * rng.normal(size=shape[0])
    w, same = (ImageOfBall(made, radius).nearest_weights(z) for made in (X, sparse.csr_array(X)))
    left = z - X @ w
    assert np.linalg.norm(w) <= radius * (1 + tolerance("fixed point"))
    assert radius * np.linalg.norm(X.T @ left) <= left @ (X @ w) + tolerance("projection") * radius
    assert np.allclose(X @ w, X @ same, rtol=0, atol=tolerance("projection"))
    if kind == "repeated" and shape[1] > 1:
        assert w[0] == pytest.approx(w[-1], abs=tolerance("projection"))  # the shortest of all


# --- solvers --------------------------------------------------------------------------------------------------------


@SOLVERS
@pytest.mark.parametrize("seed", [0, 2, 4, 6])
def test_satisfiable_data_are_satisfied(solver, seed):
    problem = RealizableLink.random(seed)
    solution = problem.solve(solver)
    assert solution.status is Status.CONVERGED
    assert np.linalg.norm(solution.x) <= problem.radius * (1 + tolerance("fixed point"))
    # each score is within √n times the root mean square, so an increment within twice that
    assert broken(problem, problem.X @ solution.x) <= 2.0 * math.sqrt(
        problem.rows
    ) * solution.gap + tolerance("fixed point")
    assert solution.certificate.kind == "violation"
    assert solution.certificate.lower_bound == 0.0
    assert math.isnan(solution.value)


@SOLVERS
@pytest.mark.parametrize("seed", [3, 7, 11])
def test_unsatisfiable_data_are_proved_so(solver, seed):
    """The proof is a hyperplane; a linear program and Cauchy-Schwarz confirm it from the definition."""
    problem = RealizableLink.random(seed)
    with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE: no point .* by every point, at least"):
        solution = problem.solve(solver)
    assert solution.status is Status.INFEASIBLE
    u, least = problem.separation(solution.x)
    assert (
        0.0
        < least
        == solution.certificate.lower_bound
        <= least_violation(problem) * (1 + tolerance("conic point"))
    )
    theta = cp.Variable(problem.rows)
    below = cp.Problem(cp.Minimize(u @ theta), pairwise(problem, theta)).solve(solver=cp.CLARABEL)
    assert below > problem.radius * np.linalg.norm(problem.X.T @ u)
    with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE"):
        assert problem.solve("exact").status is Status.INFEASIBLE


def pairwise(problem, theta):
    """The definition, pair by pair."""
    limits = []
    for i, j in itertools.permutations(range(problem.rows), 2):
        gap = problem.y[j] - problem.y[i]
        if gap > 0:
            limits.append(theta[j] - theta[i] >= (problem.strong or 0.0) * gap)
        if gap >= 0 and problem.smooth is not None:
            limits.append(theta[j] - theta[i] <= problem.smooth * gap)
    return limits


def least_violation(problem):
    w, theta = cp.Variable(problem.dimension), cp.Variable(problem.rows)
    far = cp.norm2(problem.X @ w - theta) / math.sqrt(problem.rows)
    return cp.Problem(cp.Minimize(far), [cp.norm2(w) <= problem.radius, *pairwise(problem, theta)]).solve(
        solver=cp.CLARABEL
    )


def run(problem, solver, steps):
    """States without the loop, which would stop at the proof."""
    state = solver.init(problem, np.zeros(problem.dimension))
    for _ in range(steps):
        state = solver.step(problem, state)
    return state


@SOLVERS
@pytest.mark.parametrize("seed", [3, 7, 11])
def test_without_a_common_point_the_limit_is_a_nearest_pair(solver, seed):
    problem = RealizableLink.random(seed)
    state = run(problem, solver, 400)
    expected = least_violation(problem)
    assert problem.violation(state.x) == pytest.approx(expected, rel=tolerance("conic point"))
    assert problem.separation(state.x)[1] == pytest.approx(expected, rel=tolerance("conic point"))
    if isinstance(solver, ParallelProjections):  # between the two, in the ratio of the shares
        share = np.linalg.norm(problem.project(state.memory) - state.memory) / math.sqrt(problem.rows)
        assert share == pytest.approx((1 - solver.share) * expected, rel=tolerance("conic point"))


def test_no_linear_rate_where_the_sets_only_touch():
    """Disc and tangent line: a point t from the contact moves to t/√(1 + t²/r²), so t ~ r/√k."""
    radius = 1.0 / math.sqrt(2.0)
    problem = RealizableLink(np.eye(2), [0.0, 1.0], radius, strong=1.0)
    contact, along = np.array([-0.5, 0.5]), np.array([1.0, 1.0]) / math.sqrt(2.0)
    solver, t = SequentialProjections(), 0.4
    state = solver.init(problem, contact + t * along)
    for _ in range(300):
        t /= math.hypot(1.0, t / radius)
        assert problem.project(state.x) @ along == pytest.approx(t, abs=tolerance("summation"))
        state = solver.step(problem, state)
    assert t > 0.5 * radius / math.sqrt(300)


@pytest.mark.parametrize("share", [0.0, 1.0, 1.5, -1.0])
def test_shares_outside_the_unit_interval_are_refused(share):
    with pytest.raises(ValueError, match="share is"):
        ParallelProjections(share)


# --- what can be realized -------------------------------------------------------------------------------------------


@SOLVERS
def test_the_radius_decides(solver):
    """One feature, one unit of target: the weight must be at least the modulus."""
    enough = RealizableLink([[0.0], [1.0]], [0.0, 1.0], 1.001, strong=1.0).solve(solver)
    assert 1.0 - tolerance("boundary") <= enough.x[0] <= 1.001
    with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE"):
        RealizableLink([[0.0], [1.0]], [0.0, 1.0], 0.999, strong=1.0).solve(solver)


@SOLVERS
def test_equal_targets(solver):
    """A flat link allows two scores for one target, a link with a least slope does not."""
    X, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 1.0]
    flat = RealizableLink(X, y, 9.0, strong=1.0).solve(solver)
    assert flat.x[0] >= 1.0 - tolerance("boundary")
    with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE"):
        RealizableLink(X, y, 9.0, strong=1.0, smooth=5.0).solve(solver)


@SOLVERS
@pytest.mark.parametrize(
    ("X", "y", "strong", "smooth"),
    [
        ([[1.0], [2.0]], [2.0, 1.0], None, None),  # a link that may jump explains everything by w = 0
        ([[1.0], [2.0]], [2.0, 1.0], None, 3.0),
        ([[1.0], [2.0]], [1.0, 1.0], 2.0, 3.0),  # constant targets
        ([[4.0]], [1.0], 1.0, 2.0),  # one row
    ],
)
def test_what_zero_weights_satisfy(solver, X, y, strong, smooth):
    solution = RealizableLink(X, y, 1.0, strong, smooth).solve(solver)
    assert solution.converged
    assert solution.iterations == 0
    assert np.array_equal(solution.x, [0.0])


def test_features_of_zero():
    flat = RealizableLink(np.zeros((3, 2)), [1.0, 1.0, 1.0], 1.0, strong=1.0).solve()
    assert flat.converged
    with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE"):
        RealizableLink(np.zeros((2, 2)), [0.0, 1.0], 1.0, strong=1.0).solve()


def test_sparse_features_and_offsets_change_nothing():
    problem = RealizableLink.random(2)
    w = np.random.default_rng(0).normal(size=problem.dimension)
    for X in (sparse.csr_matrix(problem.X), problem.X + 3.0):
        twin = replace(problem, X=X)
        assert twin.violation(w) == pytest.approx(problem.violation(w), abs=tolerance("summation"))
        assert twin.solve().converged


def test_outside_the_ball_the_excess_counts():
    problem = RealizableLink.random(0)
    w = np.zeros(problem.dimension)
    w[0] = problem.radius + 50.0
    assert problem.violation(w) >= 50.0
    assert np.linalg.norm(problem.project_feasible(w)) == pytest.approx(problem.radius)


# --- the certificate ------------------------------------------------------------------------------------------------


def noisy(rows, offset):
    """Targets far from every link of the scores, of features with an offset."""
    rng = np.random.default_rng(rows)
    X = rng.normal(size=(rows, 3))
    y = np.tanh(X @ [1.0, -0.5, 0.2]) + 0.5 * rng.normal(size=rows)
    return RealizableLink(X + offset, y, radius=2.0, strong=0.8, smooth=6.0)


def nearest_far(problem, scores, limits):
    """The root mean square between scores and realizable ones, by increments between neighbouring targets."""
    theta = cp.Variable(problem.rows)
    order = np.argsort(problem.y)
    gaps, rises = np.diff(problem.y[order]), cp.diff(theta[order])
    limits = [*limits, rises >= problem.strong * gaps, rises <= problem.smooth * gaps]
    far = cp.norm2(scores - theta) / math.sqrt(problem.rows)
    return cp.Problem(cp.Minimize(far), limits).solve(solver=cp.CLARABEL)


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("rows", [6, 80])
def test_a_certified_violation_is_a_bound_on_both_sides(rows, offset):
    """The gap is no less than the violation at the point, the lower bound no more than that of any point."""
    problem, rng, exact = noisy(rows, offset), np.random.default_rng(1), tolerance("conic point")
    w = cp.Variable(problem.dimension)
    least = nearest_far(problem, problem.X @ w, [cp.norm2(w) <= problem.radius])
    solution = problem.solve()
    for point in (solution.x, np.zeros(3), *(problem.project_feasible(5.0 * rng.normal(size=(2, 3))))):
        certificate = problem.certificate(point)
        assert certificate.kind == "violation"
        assert certificate.gap >= nearest_far(problem, problem.X @ point, []) * (1.0 - exact)
        assert 0.0 <= certificate.lower_bound <= least * (1.0 + exact)
        assert certificate.lower_bound <= certificate.gap
    # neither bound says nothing
    assert solution.certificate.lower_bound > 0.0
    assert solution.certificate.gap <= 1.5 * least


# --- the checkers themselves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(0, 40, 4))
def test_satisfiable_data_are_never_separated(seed):
    problem = RealizableLink.random(seed)
    rng = np.random.default_rng(seed)
    for scale in (0.0, 1e-9, 1e-3, 1.0):
        assert (
            problem.separation(problem.project_feasible(scale * rng.normal(size=problem.dimension)))[1] == 0.0
        )
    assert problem.separation(problem.solve().x)[1] == 0.0


def test_a_wrong_projection_does_no_harm(monkeypatch):
    """Planted bug: the kernel returns nonsense. A violation is then too large, a separation not proved; never less."""
    good, bad = RealizableLink.random(0), RealizableLink.random(3)
    w = np.full(bad.dimension, 0.3)
    true = least_violation(bad)
    monkeypatch.setattr(
        RealizableScores, "nearest", lambda self, scores: scores + np.arange(len(scores)) ** 2
    )
    assert bad.violation(w) >= true - tolerance("conic")
    for problem in (good, bad):
        for x in (np.zeros(problem.dimension), np.ones(problem.dimension) * 0.1):
            least = problem.separation(x)[1]
            assert least <= (0.0 if problem is good else true + tolerance("conic"))


def test_the_verifier_accepts_it_and_finds_a_planted_bug(monkeypatch):
    assert cr.verify(RealizableLink, instances=8, seed=0).ok
    # solves for another modulus than the model states
    monkeypatch.setattr(
        RealizableLink,
        "_realizable",
        property(lambda self: RealizableScores(self.y, 0.5 * self.strong, math.inf)),
    )
    report = cr.verify(RealizableLink, instances=12, seed=0)
    assert not report.ok


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"radius": 0.0}, ValueError, "radius is 0.0"),
        ({"radius": float("inf")}, ValueError, "radius is inf"),
        ({"strong": -1.0}, ValueError, "strong is -1.0"),
        ({"strong": 4.0, "smooth": 4.0}, ValueError, "strong < smooth"),
        ({"y": [1.0]}, ValueError, "y has 1 entries"),
        ({"y": [float("nan")] * 3}, ValueError, "NaN"),
        ({"X": [[float("inf")]] * 3}, ValueError, "infinit"),
        ({"X": [1.0, 2.0, 3.0]}, ValueError, "2D"),
        ({"radius": "large"}, TypeError, "radius is 'large'"),
    ],
)
def test_bad_input_is_refused(changes, error, words):
    arguments = {"X": [[0.0], [1.0], [2.0]], "y": [0.0, 1.0, 2.0], "radius": 3.0, "strong": 0.5, **changes}
    with pytest.raises(error, match=words):
        RealizableLink(**arguments)


def test_other_solvers_do_not_fit():
    with pytest.raises(ValueError, match="lacks Smooth"):
        RealizableLink.random(0).solve("lbfgs")
    with pytest.raises(ValueError, match="lacks Feasibility, SplitFeasibility"):
        cr.problems.LearnedDivergence([[1.0], [2.0]], [1.0, 2.0], strong=1.0).solve(ADMM())
