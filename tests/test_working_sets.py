"""Working sets: kernels against enumeration, certificates without a ball, wide and awkward columns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import convexrank as cr
from convexrank.core.score_model import Curvature
from convexrank.features import Thresholds
from convexrank.problems import REGISTRY
from convexrank.solvers import WorkingSets, quadratics
from convexrank.solvers.row_faces import Columnwise
from convexrank.solvers.working_sets import working_sets
from convexrank.solvers.working_sets._dual_newton import minimum_of_dual
from convexrank.solvers.working_sets._part import ColumnModel
from tests.tolerances import tolerance

# Of the largest l1 that leaves a weight: strong enough that the data below do not drive the logarithm down.
L1 = 0.4


def data(seed=0, rows=120, columns=20, density=0.3):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((rows, columns), density=density, rng=rng, format="csr")
    noisy = X @ rng.normal(size=columns) + 2.0 * rng.normal(size=rows)
    return X, (noisy > np.median(noisy)).astype(int)


def first(name, wanted):
    return next(filter(wanted, map(REGISTRY[name].random, range(60))), None)


MODELS = [
    name
    for name in REGISTRY
    if hasattr(REGISTRY[name], "_score_model")
    and first(name, lambda one: one._differentiable and one._convex)
]


def model(seed, rows=12, columns=4):
    """Columns, a curvature that is positive semidefinite, slopes and a point."""
    rng = np.random.default_rng(seed)
    matrix = np.round(rng.normal(size=(rows, columns)), 1) * (rng.random((rows, columns)) < 0.7)
    shares = np.zeros((rows, 2))
    shares[:5, 0], shares[5:, 1] = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(rows - 5))
    rates = rng.random(2) + 0.1
    curvature = Curvature(shares @ rates, sparse.csc_array(shares), rates)
    bends = np.diag(curvature.diagonal) - (shares * rates) @ shares.T
    point = np.where(rng.random(columns) < 0.5, 0.0, rng.normal(size=columns))
    return matrix, curvature, bends, rng.normal(size=columns), point


@given(seed=st.integers(0, 10**6), by_products=st.booleans(), signed=st.booleans())
def test_steps_minimise_their_models(seed, by_products, signed):
    """Subgradients of the model at the step, written densely: 0 is among them."""
    matrix, curvature, bends, slopes, point = model(seed)
    columns, l2, l1 = sparse.csc_array(matrix), 0.1, 0.3
    lowest = np.full(len(point), 0.0 if signed else -np.inf)
    point = np.abs(point) if signed else point
    products = (lambda c: (matrix.T * c) @ matrix) if by_products else None
    made = ColumnModel(columns, l2, l1, lowest, products)
    if not by_products:
        made._products = None
    step, moved = made.minimum(curvature, slopes, point, 20_000, 1e-12)
    np.testing.assert_allclose(moved, matrix @ step, atol=1e-10)
    found = slopes + (matrix.T @ bends @ matrix + l2 * np.eye(len(point))) @ step
    there = point + step
    used = there != 0
    np.testing.assert_allclose(found[used], -l1 * np.sign(there[used]), atol=1e-8)
    assert (found[~used] >= -l1 - 1e-8).all()
    assert signed or (found[~used] <= l1 + 1e-8).all()
    assert (there >= lowest).all()


@pytest.mark.parametrize("name", MODELS)
def test_score_models_are_second_order(name):
    """Gradient and curvature by differences of the value and of the gradient."""
    problem = first(name, lambda one: one._differentiable and one._convex)
    rng = np.random.default_rng(0)
    scores = problem.scores(0.3 * rng.normal(size=problem.dimension))
    found, direction, width = problem._score_model(scores), rng.normal(size=len(scores)), 1e-5
    above, below = (problem._score_model(scores + sign * width * direction) for sign in (1.0, -1.0))
    slope = (above.value - below.value) / (2 * width)
    assert found.gradient @ direction == pytest.approx(slope, rel=1e-5, abs=1e-7)
    if found.curvature is not None and found.curvature.exact:
        bent, shares = found.curvature.diagonal * direction, found.curvature.shares
        bent = bent - shares @ (found.curvature.rates * (shares.T @ direction))
        seen = (above.gradient - below.gradient) / (2 * width)
        np.testing.assert_allclose(bent, seen, atol=1e-5 * max(1.0, np.abs(seen).max()))


def in_weights(problem, w):
    """The curvature in the scores as one in the weights, from dense matrices."""
    found, X = problem._score_model(problem.scores(w)).curvature, np.asarray(problem.X)
    shares = found.shares.toarray()
    bends = np.diag(found.diagonal) - (shares * found.rates) @ shares.T
    return X.T @ bends @ X + problem.l2 * np.eye(problem.dimension)


@pytest.mark.parametrize("name", ["IRPush", "MarginRetargeting"])
def test_curvatures_in_the_scores_are_those_in_the_weights(name):
    """Two pieces of code: pools and offsets as columns, and their sums over rows; every divergence and bound comes."""
    for seed in range(16):
        problem = REGISTRY[name].random(seed)
        w = 0.5 * np.random.default_rng(seed).normal(size=problem.dimension)
        expected = problem.second_order(w)[2]
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(in_weights(problem, w), expected, atol=tolerance("pieces") * scale)


def test_pairs_that_are_counted_are_exact_for_two_grades_at_the_start():
    X, y = data(7, rows=40, columns=5)
    problem = cr.problems.RankSVM(X.toarray(), y, np.arange(40) // 10, "squared_hinge", l1=1.0)
    zero = np.zeros(5)
    np.testing.assert_allclose(
        in_weights(problem, zero), problem.second_order(zero)[2], atol=tolerance("pieces") * 40
    )
    # away from it they keep the degrees, and the model stays convex
    away = in_weights(problem, np.random.default_rng(0).normal(size=5))
    assert np.linalg.eigvalsh(away).min() >= -1e-9


RISKS = {
    "IRPush": lambda X, y, g, q: cr.problems.IRPush(X, y, l1=1.0),
    "MarginRetargeting": lambda X, y, g, q: cr.problems.MarginRetargeting(X, g, q, l1=1.0),
    "MarginRetargeting, KL": lambda X, y, g, q: cr.problems.MarginRetargeting(X, g, q, "kl", 0.02, l1=1.0),
    "RankSVM": lambda X, y, g, q: cr.problems.RankSVM(X, g, q, "squared_hinge", l1=1.0),
    "LearnedDivergence": lambda X, y, g, q: cr.problems.LearnedDivergence(X, g, strong=1.0, l1=1.0),
}


@pytest.mark.parametrize("name", RISKS)
def test_many_thresholds_take_few_steps(name):
    """Without their curvature the first four take twenty steps or more, or none is enough; the last states none."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    noisy = np.abs(X[:, 0]) - X[:, 1] + rng.normal(size=200)
    grades = np.digitize(noisy, np.quantile(noisy, [0.5, 0.8]))
    problem = RISKS[name](Thresholds(X, bins=32), grades == 2, grades, np.arange(200) // 20)
    problem = problem.changed(l1=0.03 * problem.l1_max())
    solution = problem.solve("working-sets", max_iter=60 if name == "LearnedDivergence" else 15)
    assert solution.converged
    assert solution.certificate.kind == "global"


def test_a_learned_divergence_over_a_design_has_no_constant_and_is_solved_without():
    X = np.random.default_rng(0).normal(size=(40, 2))
    problem = cr.problems.LearnedDivergence(Thresholds(X, bins=4), X[:, 0] > 0, strong=1.0, l1=0.01)
    one, other = problem.solve("accelerated"), problem.solve("working-sets")
    assert abs(one.value - other.value) <= one.gap + other.gap


@pytest.mark.parametrize("p", [0.5, 1.0, 4.0, 64.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_needs_no_ball(p, seed):
    X, y = data(seed)
    problem = cr.problems.PNormPush(X, y, p=p, l1=L1 * cr.problems.PNormPush(X, y, p=p, l1=1.0).l1_max())
    solution = problem.solve(tol=1e-7)
    assert (solution.solver, solution.certificate.kind) == ("working-sets", "global")
    best = problem.solve("accelerated", tol=1e-12, max_iter=200_000)
    assert solution.gap >= solution.value - best.value
    assert solution.gap <= 1e-7 * max(1.0, abs(solution.value))
    # the point alone has a bound over a ball only, and the solution carries its evidence
    assert problem.certificate(solution.x).kind == "ball"
    assert problem.certificate(solution.x, solution.witness).kind == "global"


def test_evidence_never_widens_a_bound_that_is_global():
    """A mixture inside the l1 box is worth something only where a ball would bound the minimiser."""
    X, y = data()
    problem = cr.problems.RankSVM(X.toarray(), y, np.arange(120) // 12, "squared_hinge", l1=1.0)
    inner = problem.changed(l1=0.5).solve()
    best = problem.solve(tol=1e-10)
    alone = problem.certificate(best.x)
    assert alone.kind == "global"
    for share in 10.0 ** np.arange(-12.0, 0.0):
        mixture = cr.Witness(np.array([best.x, inner.x]), [1.0 - share, share])
        assert problem.certificate(best.x, mixture).gap <= alone.gap


def test_evidence_that_is_too_steep_proves_no_global_bound():
    X, y = data()
    problem = cr.problems.PNormPush(X, y, p=4, l1=0.05)
    solution = problem.solve()
    point, inside = solution.witness.points
    for steep in (
        cr.Witness(solution.witness.points, [1.0, 0.0]),
        cr.Witness([point, 0.0 * inside], [0.5, 0.5]),
    ):
        assert problem.certificate(solution.x, steep).kind == "ball"


@pytest.mark.parametrize("name", ["PNormPush", "ListNet", "NDCGRegression", "ConvexRisk"])
def test_l1_max_is_where_the_first_weight_appears(name):
    problem = first(name, lambda one: "Columnwise" in one.capabilities)
    from dataclasses import replace

    least = problem.l1_max()
    assert not replace(problem, l1=1.001 * least).solve("working-sets").x.any()
    assert replace(problem, l1=0.98 * least).solve("working-sets", tol=1e-12).x.any()


@pytest.mark.parametrize("solver", [None, "accelerated"])
def test_an_l1_that_leaves_no_weight_says_so(solver):
    problem = cr.problems.PNormPush.random(3)
    top = problem.changed(l1=1.0, l2=0.1).l1_max()
    for factor, said in ((1.01, True), (0.9, False)):
        solution = problem.changed(l1=factor * top, l2=0.1).solve(solver)
        assert solution.x.any() != said
        assert ("l1 is so large that every weight is 0" in solution.message) is said


def kinked(name):
    """Instances whose risk has kinks, of both forms of X."""
    X, y = data(5, rows=40, columns=6)
    dense, problems = X.toarray(), cr.problems
    pairs = np.argwhere(y[:, None] > y[None, :])[::7]
    return {
        "TopPush": lambda: problems.TopPush(dense, y, l1=1.0),
        "TopPush, sparse, weighted": lambda: problems.TopPush(X, y, l1=1.0, sample_weight=np.arange(40) % 4),
        "TopPush, monotone": lambda: problems.TopPush(
            Thresholds(dense, bins=3, monotone={0: 1, 1: -1}), y, l1=1.0
        ),
        "RmaxPush": lambda: problems.RmaxPush(dense, y, "hinge", l1=1.0),
        "RmaxPush, logistic": lambda: problems.RmaxPush(X, y, "logistic", l1=1.0),
        "RankSVM": lambda: problems.RankSVM(dense, y, np.arange(40) // 10, "hinge", l1=1.0),
        "ConvexRisk": lambda: problems.ConvexRisk(dense, y, "hinge", l1=1.0),
        "Push": lambda: problems.Push(dense, y, 2, "hinge", l1=1.0),
        "CrucialPairs": lambda: problems.CrucialPairs(dense, pairs, 2, "hinge", l1=1.0),
    }[name]()


@pytest.mark.parametrize(
    "name",
    ["TopPush", "TopPush, sparse, weighted", "TopPush, monotone", "RmaxPush", "RmaxPush, logistic", "RankSVM"]
    + ["ConvexRisk", "Push", "CrucialPairs"],
)
def test_l1_max_of_a_risk_with_kinks(name):
    """The conic solver finds nothing below the value at 0 just above it, and something just below it."""
    problem = kinked(name)
    assert not problem._differentiable
    most, at_zero = problem.l1_max(), problem.objective(np.zeros(problem.dimension))
    assert most > 0
    lower = []
    for factor in (1.001, 0.97):
        model = problem.changed(l1=factor * most).to_cvxpy()
        lower.append(at_zero - model.problem.solve(solver="CLARABEL"))
    close = tolerance("conic") * max(1.0, abs(at_zero))
    assert abs(lower[0]) <= close < lower[1]


def test_l1_max_is_0_where_no_direction_clears_the_top():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0], [-1.0, 2.0], [-3.0, -3.0]])
    problem = cr.problems.TopPush(X, [1, 1, 0, 0, 0], l1=1.0)
    assert problem.l1_max() == 0.0
    with pytest.raises(ValueError, match="no path"):
        problem.path(l1="auto")


@pytest.mark.parametrize("loss", ["price", "loss", "order"])
def test_l1_max_says_where_it_is_not_known(loss):
    from convexrank import atoms, losses, prices

    X, y = data(5, rows=30, columns=3)
    problem = {
        "price": lambda: cr.problems.Push(
            X, y, prices.Custom(lambda r: atoms.maximum(r, r**2 / 2.0)), l1=1.0
        ),
        "loss": lambda: cr.problems.RmaxPush(X, y, losses.Custom(lambda z: atoms.positive(-z)), l1=1.0),
        "order": lambda: cr.problems.LearnedDivergence(X.toarray(), y, l1=1.0),
    }[loss]()
    with pytest.raises(ValueError, match=r"l1_max is not known for .* several l1 instead"):
        problem.l1_max()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_awkward_columns(form):
    """Constant, repeated and empty columns, and scales of 1e-12 and 1e6."""
    X = data(3, columns=6)[0].toarray()
    y, one = data(3, columns=6)[1], np.ones((120, 1))
    wide = np.hstack([X, one, X[:, :1], 0.0 * one, 1e-12 * X[:, 1:2], 1e6 * X[:, 2:3]])
    solution = cr.problems.PNormPush(form(wide), y, p=2, l1=1e-3, l2=1e-3).solve("working-sets")
    assert solution.converged
    assert solution.x[6] == solution.x[8] == 0.0
    # where a gradient cannot be computed to the tolerance, nothing else is claimed
    wide[:, -1] *= 1e6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        far = cr.problems.PNormPush(form(wide), y, p=2, l1=1e-3, l2=1e-3).solve("working-sets")
    assert far.value - far.gap <= solution.value
    assert far.gap < 0.1


def test_repeated_columns_change_nothing():
    X, y = data(3, columns=6)
    plain = cr.problems.PNormPush(X, y, p=2, l1=L1)
    repeated = cr.problems.PNormPush(sparse.hstack([X, X], format="csr"), y, p=2, l1=L1)
    assert repeated.solve().value == pytest.approx(plain.solve("accelerated").value, abs=1e-7)


def test_an_l1_too_weak_for_separable_data_is_unbounded():
    X = sparse.csr_array([[3.0], [4.0], [0.0], [0.5]])
    problem = cr.problems.PNormPush(X, [1, 1, 0, 0], p=4, l1=0.01)
    with pytest.warns(cr.ConvergenceWarning):
        assert problem.solve().status is cr.Status.UNBOUNDED


def test_sparse_columns_are_never_made_dense():
    rng = np.random.default_rng(0)
    rows = sparse.random_array((400, 150_000), density=2e-4, rng=rng, format="csr")
    y = (rows[:, :50].sum(axis=1) + rows[:, :2000].sum(axis=1) > 0.2).astype(int)
    import tracemalloc

    problem = cr.problems.PNormPush(rows, y, p=4, l1=1e-3, l2=1e-3)
    problem.solve()
    tracemalloc.start()
    solution = problem.solve()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert solution.converged
    assert solution.solver == "working-sets"
    assert peak < 400 * 150_000  # a dense copy has eight times that


def wide(form=np.asarray, share=0.2, **options):
    """Rows that are separable, in more columns than rows."""
    X = np.random.default_rng(0).normal(size=(30, 120))
    problem = cr.problems.PNormPush(form(X), np.arange(30) % 2, p=2, l1=1.0, **options)
    return problem.changed(l1=share * problem.l1_max())


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("share", [0.2, 0.01])
def test_wide_separable_rows_with_a_small_l2_take_few_steps(form, share):
    """By coordinate descent alone the first takes nineteen working sets."""
    problem = wide(form, share, l2=1e-3)
    solution = problem.solve("working-sets", max_iter=3)
    assert (solution.status.name, solution.certificate.kind) == ("CONVERGED", "global")
    assert solution.value == pytest.approx(problem.solve("exact").value, rel=tolerance("conic"))


def test_without_newton_in_the_dual_they_take_more(monkeypatch):
    """Many weights and large scores: what the limit above stands for."""
    monkeypatch.setattr(working_sets, "has_dual_newton", lambda *arguments: False)
    with pytest.warns(cr.ConvergenceWarning):
        assert not wide(l2=1e-3).solve("working-sets", max_iter=3).converged


def test_wide_separable_rows_without_l2():
    """Near the l1 below which nothing bounds the minimiser the second point comes from the dual, too."""
    problem = wide(share=0.45)
    solution = problem.solve("working-sets", max_iter=12)
    assert (solution.status.name, solution.certificate.kind) == ("CONVERGED", "global")
    assert solution.value == pytest.approx(problem.solve("exact").value, abs=tolerance("conic"))
    with pytest.warns(cr.ConvergenceWarning):
        assert wide(share=0.2).solve("working-sets", max_iter=12).status is cr.Status.UNBOUNDED


DUAL = ["PNormPush", "IRPush", "ListNet", "NDCGRegression", "MarginRetargeting"]


@pytest.mark.parametrize("name", DUAL)
@pytest.mark.parametrize("l1", [0.01, 0.3])
def test_the_minimum_of_the_dual_belongs_to_that_of_the_objective(name, l1):
    """Squares, log-sum-exps, best targets: few weights and many, some of which must be at least 0, or none."""
    rng = np.random.default_rng(0)
    X = Thresholds(rng.normal(size=(24, 3)), bins=6, monotone={0: 1})
    grades, queries = np.arange(24) % 3, np.arange(24) // 8
    arguments = (
        (grades, queries)
        if name in DUAL[2:]
        else (grades == 2, 4.0)
        if name == "PNormPush"
        else (grades == 2,)
    )
    problem = getattr(cr.problems, name)(X, *arguments, l1=1.0, l2=1e-3)
    problem = problem.changed(l1=l1 * problem.l1_max())
    found = minimum_of_dual(problem.face(Columnwise), problem.penalty)
    assert problem.certificate(found.w).gap <= tolerance("certificate found anew") * max(
        1.0, abs(found.bound)
    )


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_a_wrong_curvature_costs_steps_and_no_truth(factor, monkeypatch):
    X, y = data()
    problem = cr.problems.PNormPush(X, y, p=2, l1=0.05)
    right = problem.solve(tol=1e-9)
    true_model = type(problem)._score_model

    def wrong(self, scores):
        found = true_model(self, scores)
        bend = found.curvature
        return type(found)(
            found.value, found.gradient, Curvature(factor * bend.diagonal, bend.shares, factor * bend.rates)
        )

    monkeypatch.setattr(type(problem), "_score_model", wrong)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = problem.solve(tol=1e-9, max_iter=50)
    assert found.gap >= found.value - right.value
    assert not found.converged or found.value - right.value <= 1e-8


@pytest.mark.parametrize("name", ["first", "models", "sweeps"])
def test_bad_parameters(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        WorkingSets(**{name: 0})


def test_it_stays_within_its_iterations_and_carries_on():
    X, y = data(1)
    problem = cr.problems.PNormPush(X, y, p=4, l1=0.05)
    with pytest.warns(cr.ConvergenceWarning):
        short = problem.solve(WorkingSets(first=2), max_iter=1)
    assert short.status is cr.Status.MAX_ITER
    long = problem.solve(WorkingSets(first=2), x0=short.x)
    best = problem.solve()
    assert abs(long.value - best.value) <= long.gap + best.gap


def test_models_far_from_the_minimum_are_not_solved_to_its_precision(monkeypatch):
    """Each turn costs the cube of the number of columns; hundreds of them took an unbounded problem no further."""
    turned, turns = quadratics._to_the_minimum_of_the_face, []

    def counted(*arguments):
        turns.append(len(arguments[0]))
        turned(*arguments)

    monkeypatch.setattr(quadratics, "_to_the_minimum_of_the_face", counted)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 10))
    y = (X @ rng.normal(size=10) / np.sqrt(10) + rng.normal(size=400) > 0.8).astype(int)
    problem = cr.problems.PNormPush(Thresholds(X, bins=50), y, p=4, l1=1e-3)
    with pytest.warns(cr.ConvergenceWarning):
        solution = problem.solve()
    assert solution.status is cr.Status.UNBOUNDED
    assert problem.margin(solution.x) > problem.l1 * np.abs(solution.x).sum()  # the proof, computed again
    assert 0 < len(turns) <= 60  # 428 where every model is solved precisely


def test_a_face_is_left_by_many_weights_at_a_time():
    """Weights that the step to a face's minimum takes past 0 stop there, and the model falls."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 12))
    bends, slopes, point = root.T @ root, rng.normal(size=12), np.zeros(12)
    slopes *= 10.0
    step = -1e-3 * np.sign(slopes)
    bent = bends @ step

    def promise(delta):
        return slopes @ delta + 0.5 * delta @ bends @ delta + 0.1 * np.abs(delta).sum()

    before, signs = promise(step), np.sign(step)
    quadratics._to_the_minimum_of_the_face(bends, slopes, point, 0.1, step, bent)
    assert promise(step) < before
    assert (step * signs >= 0.0).all()
    np.testing.assert_allclose(bent, bends @ step)
    assert np.count_nonzero(step == 0.0) > 1
