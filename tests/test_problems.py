"""One set of tests for every registered formulation with linear scores, ordered by difficulty: the first red one
names the cause. What holds for formulations of every kind is tested in test_every_problem.py."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.problems import REGISTRY
from convexrank.problems._linear_scores import LinearScores
from convexrank.problems.bipartite._base import Bipartite
from tests.formulas import objective
from tests.tolerances import tolerance

# Random data often have no clean top; TopPush and RmaxPush then warn that their minimum is w = 0.
pytestmark = pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")

SEEDS = range(6)
SCORERS = {name: cls for name, cls in REGISTRY.items() if issubclass(cls, LinearScores)}
EVERY = pytest.mark.parametrize("name", list(SCORERS))
DRAWN = pytest.mark.parametrize("seed", SEEDS)
SOME = pytest.mark.parametrize("seed", SEEDS[:3])  # for tests that solve
BIPARTITE = [
    name
    for name, cls in SCORERS.items()
    if "sample_weight" in {field.name for field in dataclasses.fields(cls)} and name != "ConvexRisk"
]


def draw(name, seed):
    """One random instance and a feasible point whose scores are small enough for plain powers not to overflow."""
    problem = REGISTRY[name].random(seed)
    w = np.random.default_rng(1000 + seed).normal(size=problem.dimension)
    w = w / max(1.0, float(np.ptp(problem.X @ w)) / 4.0)
    return problem, problem.project_feasible(w)


def rebuilt(problem, **changes):
    """The same problem with some constructor arguments changed."""
    arguments = {f.name: getattr(problem, f.name) for f in dataclasses.fields(problem)}
    return type(problem)(**{**arguments, **changes})


def close(a, b, name):
    return abs(a - b) <= tolerance(name) * max(1.0, abs(a), abs(b))


@EVERY
@DRAWN
def test_objective_is_the_definition(name, seed):
    problem, w = draw(name, seed)
    assert close(problem.objective(w), objective(problem, w), "summation")


@EVERY
@DRAWN
def test_model_and_reference_are_the_definition(name, seed):
    problem, w = draw(name, seed)
    model = problem.to_cvxpy()
    assert model.problem.is_dnlp() if model.nonlinear else model.problem.is_dcp()
    expected = objective(problem, w)
    found = model.value_at(w)
    assert close(found, expected, "conic value" if model.auxiliary else "summation")
    assert close(problem._reference_minorant(w).risk + problem.penalty.value(w), expected, "summation")


@EVERY
@DRAWN
def test_subgradients_lie_below(name, seed):
    """The defining inequality of a subgradient, for the oracle and the reference, between many pairs of points."""
    problem, w = draw(name, seed)
    rng = np.random.default_rng(seed)
    risk = lambda v: objective(problem, v) - problem.penalty.value(v)  # noqa: E731
    for oracle in (problem.risk_and_subgradient, problem._reference_risk):
        value, slope = oracle(w)
        assert slope.shape == (problem.dimension,)
        for scale in (1e-3, 0.1, 1.0):
            step = rng.normal(size=len(w))
            step *= scale / max(1.0, float(np.ptp(problem.X @ step)))
            step = problem.project_feasible(w + step) - w
            assert risk(w + step) >= value + slope @ step - tolerance("summation") * max(1.0, abs(value))


@EVERY
@DRAWN
def test_gradient_by_finite_differences(name, seed):
    problem, w = draw(name, seed)
    if "Smooth" not in problem.capabilities:
        with pytest.raises(ValueError, match="not differentiable"):
            problem.gradient(w)
        return
    step, gradient = 1e-5 / max(1.0, float(np.abs(problem.X).max())), problem.gradient(w)
    for j in range(len(w)):
        e = step * np.eye(len(w))[j]
        difference = (problem.objective(w + e) - problem.objective(w - e)) / (2 * step)
        assert close(gradient[j], difference, "central difference")


@EVERY
@DRAWN
def test_hessian_by_finite_differences(name, seed):
    problem, w = draw(name, seed)
    if "TwiceDifferentiable" not in problem.capabilities:
        assert problem.default_solver != "newton"
        return
    step, hessian = 1e-5 / max(1.0, float(np.abs(problem.X).max())), problem.hessian(w)
    assert np.allclose(
        hessian, hessian.T, rtol=0, atol=tolerance("summation") * max(1.0, np.abs(hessian).max())
    )
    if getattr(problem, "loss", getattr(problem, "cost", None)) == cr.losses.SquaredHinge():
        return  # second derivatives jump at the kinks, which a difference quotient may straddle
    for j in range(len(w)):
        e = step * np.eye(len(w))[j]
        difference = (problem.gradient(w + e) - problem.gradient(w - e)) / (2 * step)
        scale = max(1.0, float(np.abs(hessian).max()))
        assert np.abs(hessian[:, j] - difference).max() <= tolerance("central difference") * scale


@EVERY
@SOME
def test_certificate_bounds_the_true_error(name, seed):
    """At any point whatever, value − optimum is at most the gap; at the solution the gap is small."""
    problem, w = draw(name, seed)
    best = problem.solve(tol=1e-10) if problem._differentiable else problem.solve()
    for point in (
        w,
        problem.project_feasible(best.x + 1e-3 * w),
        problem.project_feasible(best.x + 1e-6 * w),
        best.x,
    ):
        certificate = problem.certificate(point)
        error = problem.objective(point) - (best.value - best.gap)
        assert certificate.kind == "global"
        assert certificate.gap >= problem.objective(point) - best.value - tolerance("summation") * max(
            1, abs(best.value)
        )
        assert certificate.lower_bound <= best.value + tolerance("summation") * max(1.0, abs(best.value))
        assert error >= -tolerance("summation") * max(1.0, abs(best.value))
    assert problem.certificate(best.x).gap <= tolerance("certificate found anew") * max(1.0, abs(best.value))


@EVERY
@SOME
def test_sparse_features_give_the_same(name, seed):
    problem, w = draw(name, seed)
    twin = rebuilt(problem, X=sparse.csr_matrix(problem.X))
    assert sparse.issparse(twin.X)
    assert close(twin.objective(w), problem.objective(w), "summation")
    assert np.allclose(
        twin._reference_minorant(w).slope, problem._reference_minorant(w).slope, rtol=1e-9, atol=1e-9
    )
    fast, dense = twin.solve(), problem.solve()
    assert close(fast.value, dense.value, "two solvers")


@EVERY
def test_jax_arrays_are_accepted(name):
    import jax.numpy as jnp

    problem, w = draw(name, 0)
    single = rebuilt(problem, X=jnp.asarray(problem.X))
    rounded = rebuilt(problem, X=np.asarray(problem.X, dtype=single.X.dtype))
    assert single.X.dtype == np.float64
    assert close(
        single.objective(w), rebuilt(problem, X=np.asarray(jnp.asarray(problem.X))).objective(w), "summation"
    )
    assert rounded.dimension == problem.dimension


@EVERY
def test_single_precision_is_kept(name):
    problem, w = draw(name, 1)
    single = rebuilt(problem, dtype="float32")
    assert single.X.dtype == np.float32
    assert close(single.objective(w), problem.objective(w), "single precision")
    with pytest.raises(ValueError, match="float32"):
        rebuilt(problem, dtype="float16")


@pytest.mark.parametrize(
    "name", [name for name in SCORERS if name != "PairRule"]
)  # whose rows are pairs already
@DRAWN
def test_an_offset_of_the_features_changes_nothing(name, seed):
    """Every objective depends on score differences alone, those with offsets that can be left out when they are in."""
    problem, w = draw(name, seed)
    if getattr(problem, "offsets", True) is False:
        problem = rebuilt(problem, offsets=True)
    moved = rebuilt(problem, X=problem.X + np.random.default_rng(seed).normal(size=problem.dimension))
    assert close(moved.objective(w), problem.objective(w), "offset")


@EVERY
def test_nothing_of_the_callers_is_edited(name):
    problem, _ = draw(name, 2)
    X, before = np.array(problem.X), np.array(problem.X)
    twin = rebuilt(problem, X=X)
    twin.solve()
    twin.certificate(np.zeros(problem.dimension))
    assert np.array_equal(X, before)
    with pytest.raises(dataclasses.FrozenInstanceError):
        twin.l2 = 3.0


@EVERY
@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"l2": -1.0}, ValueError, "l2 is -1.0"),
        ({"l1": float("nan")}, ValueError, "l1 is nan"),
        ({"l2": "large"}, TypeError, "l2 is 'large'"),
        ({"X": [[float("nan")], [1.0]]}, ValueError, "NaN"),
        ({"X": [[float("inf")], [1.0]]}, ValueError, "infinit"),
        ({"X": [1.0, 2.0]}, ValueError, "2D"),
        ({"X": np.zeros((0, 2))}, ValueError, "0 sample"),
        ({"X": [[1j], [2.0]]}, ValueError, "omplex"),
        ({"X": [["a"], ["b"]]}, (TypeError, ValueError), "number"),
    ],
)
def test_bad_input_is_refused(name, changes, error, words):
    problem, _ = draw(name, 0)
    with pytest.raises(error, match=words):
        rebuilt(problem, **changes)


@pytest.mark.parametrize("name", BIPARTITE)
def test_labels_of_any_two_kinds(name):
    problem, w = draw(name, 0)
    expected = problem.objective(w)
    truth = problem.y == problem.y.max()
    for labels in (np.where(truth, 1, -1), truth, np.where(truth, "yes", "no"), truth.astype(float).tolist()):
        assert rebuilt(problem, y=labels).objective(w) == expected


@pytest.mark.parametrize("name", BIPARTITE)
@pytest.mark.parametrize(
    ("labels", "words"),
    [(lambda y: y * 0, "1 class"), (lambda y: np.arange(len(y)), "class"), (lambda y: y[:-1], "entries")],
)
def test_bad_labels_are_refused(name, labels, words):
    problem, _ = draw(name, 0)
    with pytest.raises(ValueError, match=words):
        rebuilt(problem, y=labels(problem.y))


@pytest.mark.parametrize("name", [*BIPARTITE, "ConvexRisk"])
@DRAWN
def test_weights_are_repeated_rows(name, seed):
    problem, w = draw(name, seed)
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, size=len(problem.y))
    counts[[np.argmax(problem.y), np.argmin(problem.y)]] = 2
    weighted = rebuilt(problem, sample_weight=counts)
    rows = np.repeat(np.arange(len(counts)), counts)
    repeated = rebuilt(problem, X=problem.X[rows], y=problem.y[rows])
    assert close(weighted.objective(w), repeated.objective(w), "summation")
    assert np.allclose(
        weighted._reference_minorant(w).slope, repeated._reference_minorant(w).slope, rtol=1e-9, atol=1e-9
    )
    assert np.allclose(
        weighted.risk_and_subgradient(w)[1], repeated.risk_and_subgradient(w)[1], rtol=1e-9, atol=1e-9
    )
    assert close(weighted._reference_minorant(w).risk, repeated._reference_minorant(w).risk, "summation")


@pytest.mark.parametrize("name", BIPARTITE)
@DRAWN
def test_attained_says_whether_separable_data_reach_the_infimum(name, seed):
    """Pairs that lie 3 apart cost a hinge as little as those 6 apart, and a loss without a flat part more."""
    problem, _ = draw(name, seed)
    if type(problem)._is_separating is not Bipartite._is_separating:
        pytest.skip(
            "the risk compares positives with one another, or with a quantile: no margin reaches its infimum"
        )
    apart = rebuilt(problem, X=np.where(problem.y == problem.y.max(), 3.0, 0.0)[:, None])
    assert apart._is_separating(np.ones(1))
    near, far = (apart._reference_minorant(np.array([length])).risk for length in (1.0, 2.0))
    assert apart._attained is (near == far)


@DRAWN
def test_bottom_push_is_the_push_with_roles_exchanged(seed):
    problem, w = draw("BottomPush", seed)
    twin = cr.problems.PNormPush(-problem.X, 1 - problem.y, problem.p, l2=problem.l2, l1=problem.l1)
    assert close(problem.objective(w), twin.objective(w), "summation")


@DRAWN
def test_the_general_push_contains_the_special_ones(seed):
    problem, w = draw("PNormPush", seed)
    power = cr.prices.Power(problem.p)
    general = cr.problems.Push(problem.X, problem.y, power)
    assert np.isclose(general.objective(w), problem.paper_value(w), rtol=1e-9)
    ir, w = draw("IRPush", seed)
    # the IR Push charges positives for the negatives above them: the roles are exchanged
    exchanged = cr.problems.Push(-ir.X, 1 - ir.y, "log_one_plus")
    assert np.isclose(exchanged.objective(w), ir.paper_value(w), rtol=1e-9)


@DRAWN
def test_crucial_pairs_of_all_positives_and_negatives_is_the_push(seed):
    problem, w = draw("Push", seed)
    pairs = [(i, k) for i in problem.positives for k in problem.negatives]
    twin = cr.problems.CrucialPairs(
        problem.X, pairs, problem.price, problem.loss, l2=problem.l2, l1=problem.l1
    )
    assert close(problem.objective(w), twin.objective(w), "summation")


@DRAWN
def test_large_p_tends_to_the_top_push(seed):
    top, w = draw("TopPush", seed)
    for p in (1e2, 1e4, 1e6):
        push = cr.problems.PNormPush(top.X, top.y, p, l2=top.l2, l1=top.l1)
        # max ≥ (1/p) log mean exp(p·) ≥ max − log(K)/p
        assert 0 <= top.objective(w) - push.objective(w) + 1e-12 <= np.log(len(top.negatives)) / p + 1e-9


@DRAWN
def test_rmax_with_the_exponential_loss_is_the_exponential_of_the_top_push(seed):
    top, w = draw("TopPush", seed)
    rmax = cr.problems.RmaxPush(top.X, top.y, "exponential")
    assert np.isclose(
        np.log(rmax.objective(w)), cr.problems.TopPush(top.X, top.y).objective(w), rtol=1e-9, atol=1e-9
    )


@DRAWN
def test_printed_convex_risk_counts_tied_labels(seed):
    problem, w = draw("ConvexRisk", seed)
    f, n = problem.X @ w, len(problem.y)
    cost = lambda x: float(problem.cost(-x))  # noqa: E731
    total = sum(
        cost(-np.sign(problem.y[i] - problem.y[j]) * (f[i] - f[j]))
        for i in range(n)
        for j in range(n)
        if i != j
    )
    assert close(problem.paper_value(w), total / (n * (n - 1)), "single precision")
