"""Newton's method with conjugate gradients: products, preconditioners, the search, and when others hand over to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer

import convexrank as cr
from convexrank.core.score_model import ScoreProducts
from convexrank.problems._declared import Declared
from convexrank.solvers import LBFGS, NewtonCG
from convexrank.solvers.descent import newton_cg
from convexrank.solvers.descent.newton_cg import System, solved
from tests.tolerances import tolerance


def text(rows=400, columns=700, seed=0):
    """Sparse rows of length 1, some columns in most of them, and two columns in none."""
    rng = np.random.default_rng(seed)
    popular = 1.0 / np.arange(1, columns + 1)
    places = rng.choice(columns, size=(rows, 12), p=popular / popular.sum())
    X = sparse.csr_array(
        (rng.random(rows * 12) + 0.1, (np.repeat(np.arange(rows), 12), places.ravel())),
        shape=(rows, columns + 2),
    )
    X = sparse.csr_array(sparse.diags_array(1.0 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)
    scores = X @ rng.normal(size=columns + 2)
    return X, (scores + rng.normal(size=rows) > np.quantile(scores, 0.7)).astype(int)


X, Y = text()
QUERIES = np.arange(len(Y)) // 8
MADE = {
    "PNormPush": lambda X, **more: cr.problems.PNormPush(X, Y, p=8, **more),
    "IRPush": lambda X, **more: cr.problems.IRPush(X, Y, **more),
    "ListNet": lambda X, **more: cr.problems.ListNet(X, Y, QUERIES, **more),
    "RankSVM": lambda X, **more: cr.problems.RankSVM(X, Y, QUERIES, "squared_hinge", **more),
    "ConvexRisk": lambda X, **more: cr.problems.ConvexRisk(X, Y, "logistic", **more),
    "Push": lambda X, **more: cr.problems.Push(X, Y, 2, "logistic", **more),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for place, name in enumerate(MADE) for kind in ("sparse", ("dense", "float32")[place % 2])],
)
def test_the_answer_is_that_of_lbfgs_within_both_gaps(name, kind):
    rows = X.toarray() if kind == "dense" else X
    problem = MADE[name](rows, l2=1e-2, dtype="float32" if kind == "float32" else "float64")
    found, other = problem.solve("newton-cg"), problem.solve(LBFGS(hand_over=False))
    assert found.converged
    assert abs(found.value - other.value) <= found.gap + other.gap + tolerance("summation")


def test_the_answer_is_that_of_the_exact_model():
    problem = cr.problems.PNormPush(X[:40, :25], Y[:40], p=2, l2=0.05)
    found, exact = problem.solve(), problem.solve("exact")
    assert found.solver == "newton-cg"
    assert abs(found.value - exact.value) <= found.gap + exact.gap


@pytest.mark.parametrize("name", MADE)
def test_products_are_those_of_differences_of_the_gradient(name):
    problem = MADE[name](X, l2=1e-2)
    rng = np.random.default_rng(3)
    scores, v, step = rng.normal(size=len(Y)), rng.normal(size=len(Y)), 1e-5
    found = problem._score_products(scores)
    ends = [problem._risk_and_score_gradient(scores + s * v)[1] for s in (step, -step)]
    assert np.allclose(
        found.on(None)(v), (ends[0] - ends[1]) / (2 * step), atol=tolerance("finite differences")
    )
    value, gradient = problem._risk_and_score_gradient(scores)
    assert found.value == pytest.approx(value, rel=tolerance("pieces"))
    assert np.allclose(found.gradient, gradient, atol=tolerance("pieces"))
    # sums of log-sum-exps have products that leave rows out
    assert found.exact == (name in ("PNormPush", "IRPush", "ListNet"))
    if found.exact:
        some = np.arange(0, len(Y), 3)
        alone = np.zeros(len(Y))
        alone[some] = v[some]
        assert np.allclose(found.on(some)(v[some]), found.product(alone)[some], atol=tolerance("pieces"))


def system(l2):
    problem = cr.problems.PNormPush(X, Y, p=8, l2=l2)
    found = problem._score_products(problem.scores(np.random.default_rng(1).normal(size=X.shape[1])))
    return System(X, found.diagonal * problem._row_lengths**2, None, l2, found)


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("count", [0, 7, 10_000])
def test_a_preconditioner_is_the_inverse_of_heavy_rows_and_the_rest(count, diagonal):
    here, rows = system(1e-3), X.toarray()
    h, heavy = here.found.diagonal, np.zeros(len(Y), dtype=bool)
    heavy[np.argsort(-here.weights)[:count]] = True
    rest = here.l2 + (
        (h * ~heavy) @ rows**2 if diagonal else np.full(X.shape[1], here.weights[~heavy].max(initial=0.0))
    )
    wanted = np.diag(rest) + (rows[heavy].T * h[heavy]) @ rows[heavy]
    v = np.random.default_rng(2).normal(size=X.shape[1])
    assert np.allclose(here.preconditioner(count, diagonal)(wanted @ v), v, atol=tolerance("projection"))


def test_rows_that_are_left_out_move_products_by_less_than_a_share_of_l2():
    here = system(1e-2)
    kept = here.active()
    assert kept is not None
    assert len(kept) < 0.9 * len(Y)
    v = np.random.default_rng(2).normal(size=X.shape[1])
    apart = here.product(cut=True)(v) - here.product(cut=False)(v)
    assert np.linalg.norm(apart) <= 0.2 * here.l2 * np.linalg.norm(v)


def test_directions_without_curvature_end_a_system_and_descend():
    matrix, right = np.diag([2.0, 0.0, -1.0]), np.array([1.0, 1.0, 1.0])
    found = solved(lambda v: matrix @ v, lambda r: r, right, 1e-8, 50)
    assert not found.finished
    assert found.direction @ right > 0.0
    flat = solved(lambda v: 0.0 * v, lambda r: r, right, 1e-8, 50)
    assert np.array_equal(flat.direction, right)


def test_a_wrong_product_makes_more_steps_and_no_wrong_answer(monkeypatch):
    """A planted bug: curvature of the negatives is lost. The gradient and the certificate decide all the same."""
    problem = MADE["PNormPush"](X, l2=1e-2)
    right, plain = Declared._score_products, problem.solve("newton-cg")

    def wrong(self, scores) -> ScoreProducts:
        found = right(self, scores)
        return replace(found, product=lambda v: np.where(Y == 1, found.product(v), 0.0), curvature=None)

    monkeypatch.setattr(Declared, "_score_products", wrong)
    found = problem.solve("newton-cg")
    assert found.iterations > 2 * plain.iterations
    assert abs(found.value - plain.value) <= found.gap + plain.gap


@pytest.mark.parametrize("l2", [1e-4, 0.0])
def test_columns_of_all_sizes_duplicates_and_few_positives_are_right(l2):
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(600, 8))
    y = np.zeros(600, dtype=int)
    y[:5] = 1
    sizes = np.geomspace(1e-3, 1e3, 8) if l2 else np.geomspace(1e-6, 1e6, 8)
    rows, y = np.concatenate([rows, rows]), np.concatenate([y, y])
    y[600:605] = 0  # ties of both classes, so that nothing is separable
    problem = cr.problems.PNormPush(sparse.csr_array(rows * sizes), y, p=4, l2=l2)
    found, newton = problem.solve("newton-cg"), problem.solve("newton")
    assert found.converged
    assert abs(found.value - newton.value) <= found.gap + newton.gap + tolerance("summation")


def test_what_has_no_products_is_refused_by_name():
    for problem in (
        cr.problems.PNormPush(X, Y, p=2, l1=0.1),
        cr.problems.TopPush(X, Y, l2=0.1),
        cr.problems.PNormPush(X, Y, p=2, l1=0.2, l2=0.1),
    ):
        with pytest.raises(ValueError, match="HessianProducts"):
            problem.solve("newton-cg")
    with pytest.raises(ValueError, match="forcing is 1"):
        NewtonCG(forcing=1.0)


def test_a_design_is_solved_by_products_alone():
    design = cr.features.Thresholds(X[:, :3].toarray(), bins=8)
    problem = cr.problems.PNormPush(design, Y, p=2, l2=0.1)
    found, other = problem.solve("newton-cg"), problem.solve(LBFGS(hand_over=False))
    assert found.converged
    assert abs(found.value - other.value) <= found.gap + other.gap


def test_lbfgs_that_is_slow_hands_over_and_says_so():
    problem = cr.problems.PNormPush(X, Y, p=16, l2=1e-4)
    found, plain = problem.solve("lbfgs"), problem.solve(LBFGS(hand_over=False))
    assert "handed over to newton-cg after 50 steps" in found.message
    assert found.converged
    assert "handed over" not in plain.message
    assert found.iterations < plain.iterations
    assert abs(found.value - plain.value) <= found.gap + plain.gap
    assert "handed over" not in problem.changed(l2=0.1).solve("lbfgs").message


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # 300 steps are few
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_slow_steps_on_pairs_are_followed_by_newtons_method_too(loss):
    """On real rows that are nearly separable: alone, the steps do not end."""
    rows, y = load_breast_cancer(return_X_y=True)
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    problem = cr.problems.Push(rows, 1 - y, cr.prices.Power(1), loss, l2=1e-3)
    found, newton = problem.solve(), problem.solve("newton-cg")
    assert "handed over to newton-cg" in found.message
    assert found.converged
    assert found.iterations < 300
    assert not problem.solve(LBFGS(hand_over=False), max_iter=300).converged
    assert abs(found.value - newton.value) <= found.gap + newton.gap


def test_a_gentler_risk_has_smaller_powers_and_the_same_slope_at_0():
    problem = cr.problems.PNormPush(X, Y, p=64, l2=1e-3)
    gentle, p16 = problem._gentler(16.0), problem.changed(p=16)
    scores = np.random.default_rng(1).normal(size=len(Y))
    value, slope = gentle.value_and_gradient(scores)
    wanted, wanted_slope = p16._risk_and_score_gradient(scores)
    assert value == pytest.approx(wanted, abs=tolerance("summation"))
    assert np.allclose(slope, wanted_slope, atol=tolerance("summation"))
    with pytest.raises(TypeError, match="no sum of log-sum-exps"):
        MADE["ConvexRisk"](X, l2=1e-2)._gentler(16.0)


def test_a_steep_risk_is_approached_by_a_gentler_one_of_whatever_shape(monkeypatch):
    """A stage with wrong powers, a planted bug, moves the start and nothing else."""
    problem = cr.problems.PNormPush(X, Y, p=256, l2=1e-4)
    staged = problem.solve("newton-cg")
    with monkeypatch.context() as patched:
        patched.setattr(newton_cg, "_STEEP", 1e9)
        plain = problem.solve("newton-cg")
    assert staged.converged
    assert staged.iterations < plain.iterations
    right = Declared._gentler
    monkeypatch.setattr(Declared, "_gentler", lambda self, most: right(self, 0.1 * most))
    wrong = problem.solve("newton-cg")
    assert wrong.converged
    for found in (plain, wrong):
        assert abs(found.value - staged.value) <= found.gap + staged.gap
    # from a start of the caller's there is no stage, and the objective falls from the first step on
    seen = []
    problem.solve("newton-cg", x0=0.5 * staged.x, callback=lambda state: seen.append(state.value))
    assert (np.diff(seen) <= tolerance("summation")).all()


@pytest.mark.parametrize("name", MADE)
def test_along_a_path_answers_are_those_of_single_solves(name):
    problem, strengths = MADE[name](X, l2=1.0), [1e-1, 1e-2]
    found = cr.path(problem, l2=strengths, solver="newton-cg", tol=1e-8)
    for one, l2 in zip(found, strengths, strict=True):
        alone = problem.changed(l2=l2).solve("newton-cg")
        assert one.converged
        assert abs(one.value - alone.value) <= one.gap + alone.gap + tolerance("summation")
    assert found.columns_left is None


def test_a_path_over_p_and_one_with_another_start_end_at_the_same_answers():
    problem = cr.problems.PNormPush(X, Y, p=1, l2=1e-3)
    for one, p in zip(cr.path(problem, p=[1, 8, 64], tol=1e-8), (1, 8, 64), strict=True):
        alone = problem.changed(p=p).solve()
        assert one.solver == "newton-cg"
        assert abs(one.value - alone.value) <= one.gap + alone.gap + tolerance("summation")


def test_along_a_path_the_preconditioner_and_the_direction_are_those_of_the_last_answers():
    problem = cr.problems.PNormPush(X, Y, p=16, l2=1.0)
    along = NewtonCG().along_path("l2")
    answers = []
    for l2 in (1e-3, 1e-4, 1e-5):
        answers.append(problem.changed(l2=l2).solve(along, x0=answers[-1].x if answers else None, tol=1e-8))
    (_, before), (last, now) = along._ended
    assert last == 1e-5
    assert np.array_equal(now.x, answers[-1].x)
    assert np.array_equal(before.x, answers[-2].x)
    assert np.allclose(along._ahead(1e-6), 2.0 * now.x - before.x)
    assert along._ahead(1e-4) is None
    assert now.scaling.heavy
    assert along.init(problem.changed(l2=1e-6), now.x).memory.scaling is now.scaling


def test_limits_callbacks_and_starts_are_those_of_the_loop():
    problem = cr.problems.PNormPush(X, Y, p=16, l2=1e-4)
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        some = problem.solve("newton-cg", max_iter=3)
    seen = []
    rest = problem.solve("newton-cg", x0=some, callback=lambda state: seen.append(state.value))
    assert seen[0] == some.value
    assert rest.converged
    assert problem.solve("newton-cg", x0=rest).iterations == 0
    with pytest.warns(cr.ConvergenceWarning, match="TIME_LIMIT"):
        assert problem.solve("newton-cg", time_limit=1e-6).status is cr.Status.TIME_LIMIT
