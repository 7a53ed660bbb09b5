"""A formulation of one's own, as a user declares it."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank import losses
from convexrank.modelling import (
    apply,
    functions,
    hinge,
    huber,
    log_mean_exp,
    log_sum_exp,
    mean,
    mean_of_highest,
    pair_sums,
    softplus,
    square,
    total,
)
from convexrank.modelling.certificates import reference, rounding
from convexrank.modelling.expressions import PairSums
from convexrank.modelling.log_sum_exps import sums
from convexrank.problems import _linear_scores
from tests.test_ways_of_data import calls_of
from tests.tolerances import tolerance


class TopTen(cr.Formulation):
    """The mean of the highest negatives in the place of the maximum."""

    count: int = 10

    def risk(self, f):
        return log_mean_exp(-f.positive) + mean_of_highest(f.negative, self.count)


class Push(cr.Formulation):
    p: float = 4.0

    def risk(self, f):
        return log_mean_exp(-f.positive) + log_mean_exp(self.p * f.negative) / self.p

    def definition(self, scores):
        """The paper's formula, over pairs, for weights of 1 and one query."""
        labels = np.asarray(self.y) == max(self.y)
        errors = [np.mean([np.exp(f - s) for s in scores[labels]]) for f in scores[~labels]]
        return float(np.log(np.mean(np.power(errors, self.p))) / self.p)


class WrongPush(Push):
    def risk(self, f):
        return log_mean_exp(f.positive) + log_mean_exp(self.p * f.negative) / self.p


class Pairs(cr.Formulation):
    """Huber's function of pairs within queries, and the highest rows."""

    def risk(self, f):
        sums = pair_sums(losses.SquaredHinge(), f.rows, f.rows, f.grades)
        return mean(sums) + 0.1 * mean(huber(f.rows - mean(f.rows), 0.5))


def margins(z):
    from convexrank import atoms

    return atoms.maximum(atoms.softplus(-2.0 * z), 1e-9 * atoms.exp(-z))  # no sum of known functions


class Custom(cr.Formulation):
    def risk(self, f):
        return mean(pair_sums(losses.Custom(margins), f.positive, f.negative))


def data(rows=60, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, (X @ [1.0, -1.0, 0.5] + noise * rng.normal(size=rows) > 0).astype(int)


def grades(rows=60, seed=0):
    X, _ = data(rows, seed)
    signal = X[:, 0] + np.random.default_rng(seed + 1).normal(size=rows)
    return X, np.clip(np.round(signal + 1.0), 0, 3), np.arange(rows) % 7


@pytest.mark.parametrize(
    "problem",
    [
        TopTen(*data(), count=5, l2=0.1),
        TopTen(*data(), qid=np.arange(60) % 4, l2=0.1),
        TopTen(*data(), l1=0.05, l2=0.01),
        Push(*data(), p=2.0, l2=0.1),
        Push(*data(), l1=0.02),
        Pairs(*grades()[:2], qid=grades()[2], l2=0.1),
        Custom(*data(30), l2=0.1),
    ],
    ids=lambda problem: str(problem)[:40],
)
def test_fast_exact_and_every_reading_agree(problem):
    report = cr.verify(problem)
    assert report.ok, str(report)


def test_it_needs_no_name_in_the_package():
    """As in a notebook: a class in a function, with the formula and a repr."""

    class Local(cr.Formulation):
        width: float = 1.0

        def risk(self, f):
            return total(softplus(mean(f.negative) - f.positive)) + self.width * mean(square(f.negative))

    problem = Local(*data(), width=0.5, l2=0.1)
    solution = problem.solve()
    assert solution.status is cr.Status.CONVERGED
    assert abs(solution.value - problem.solve("exact").value) < tolerance("two solvers")
    assert "width=0.5" in repr(problem)
    assert r"\lambda_2" in problem.formula()
    assert float(solution.prove().gap) < 1e-6


def test_labels_may_be_words():
    X, y = data()
    words = np.where(y == 1, "yes", "no")
    assert np.array_equal(TopTen(X, words, l2=0.1).solve().x, TopTen(X, y, l2=0.1).solve().x)


def test_words_are_no_grades():
    X, y = data()
    with pytest.raises((TypeError, ValueError), match="grades"):
        Pairs(X, np.where(y == 1, "yes", "no"), l2=0.1)


def test_queries_are_named_in_any_order():
    X, y, qid = grades()
    order = np.random.default_rng(0).permutation(len(y))
    named = np.array([f"query {q}" for q in qid])
    w = np.ones(3)
    expected = Pairs(X, y, qid=qid, l2=0.1).objective(w)
    assert Pairs(X[order], y[order], qid=named[order], l2=0.1).objective(w) == pytest.approx(
        expected, rel=1e-12
    )


def test_a_query_without_an_order_changes_nothing():
    X, y, qid = grades()
    more = np.r_[X, np.ones((3, 3))], np.r_[y, 2.0, 2.0, 1.0]
    w = np.array([1.0, 0.5, -1.0])
    expected = Pairs(X, y, qid=qid, l2=0.1).objective(w)
    assert Pairs(*more, qid=np.r_[qid, 50, 50, 51], l2=0.1).objective(w) == expected


def test_weights_repeat_rows():
    X, y = data(40)
    counts = np.random.default_rng(0).integers(0, 4, size=40)
    w = np.array([1.0, 0.5, -1.0])
    weighted = Push(X, y, sample_weight=counts, l2=0.1).objective(w)
    repeated = Push(np.repeat(X, counts, axis=0), np.repeat(y, counts), l2=0.1).objective(w)
    assert weighted == pytest.approx(repeated, rel=1e-12)


def test_sparse_features_and_single_precision():
    X, y = data()
    expected = Push(X, y, l2=0.1).solve()
    found = Push(sparse.csr_array(X), y, l2=0.1).solve()
    assert sparse.issparse(Push(sparse.csr_array(X), y, l2=0.1).X)
    assert abs(found.value - expected.value) < tolerance("two solvers")
    single = Push(X, y, l2=0.1, dtype="float32").solve()
    assert abs(single.value - expected.value) < tolerance("single precision")
    grouped = Pairs(sparse.csr_array(X), *grades()[1:2], qid=grades()[2], l2=0.1).solve()
    dense = Pairs(X, *grades()[1:2], qid=grades()[2], l2=0.1).solve()
    assert abs(grouped.value - dense.value) < tolerance("two solvers")


def test_l1_leaves_features_out():
    X, y = data()
    solution = Push(np.c_[X, np.random.default_rng(3).normal(size=(60, 4))], y, l1=0.3).solve()
    assert solution.status is cr.Status.CONVERGED
    assert 0 < np.count_nonzero(solution.x) < 7


def test_a_problem_can_be_pickled():
    problem = Push(*data(), p=3.0, l2=0.1)
    problem.solve()
    again = pickle.loads(pickle.dumps(problem))
    assert again.p == 3.0
    assert np.array_equal(again.solve().x, problem.solve().x)


def test_a_right_definition_is_confirmed_and_a_wrong_one_reported():
    assert cr.verify(Push(*data(), l2=0.1)).ok
    report = cr.verify(WrongPush(*data(), l2=0.1))
    assert not report.ok
    assert "the definition" in str(report)


def test_a_path():
    found = (
        cr.path(Push(*data(), l2=0.1), l2=[1.0, 0.1, 0.01])
        if hasattr(cr, "path")
        else Push(*data(), l2=0.1).path()
    )
    assert all(solution.status is cr.Status.CONVERGED for solution in found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"y": np.ones(60)}, "nothing to rank"),
        ({"y": np.arange(60) % 3}, "two"),
        ({"y": np.ones(59)}, "y has"),
        ({"y": np.full(60, np.nan)}, "y "),
        ({"qid": np.ones(3)}, "qid"),
        ({"sample_weight": -np.ones(60)}, "sample_weight"),
        ({"sample_weight": np.zeros(60)}, "weight"),
        ({"l2": -1.0}, "l2"),
        ({"X": np.full((60, 2), np.inf)}, "X"),
        ({"count": 0}, "count is 0"),
    ],
)
def test_bad_input_is_refused(options, message):
    X, y = data()
    with pytest.raises((ValueError, TypeError), match=message):
        TopTen(**{"X": X, "y": y, "l2": 0.1, **options})


def test_a_risk_is_asked_for_and_has_to_be_an_expression():
    class Empty(cr.Formulation):
        pass

    class Number(cr.Formulation):
        def risk(self, f):
            return 3.0

    with pytest.raises(NotImplementedError, match="risk"):
        Empty(*data())
    with pytest.raises(TypeError, match="returned float"):
        Number(*data())


# --- no minimiser -----------------------------------------------------------------------------------------------------


class Hinges(cr.Formulation):
    def risk(self, f):
        return total(pair_sums(losses.Hinge(), f.positive, f.negative))


class Falls(cr.Formulation):
    """Hinges beside what falls for ever."""

    def risk(self, f):
        return mean(hinge(f.negative)) - 2.0 * mean(f.positive)


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize("kind", [Push, TopTen, Falls])
def test_separable_data_without_a_penalty_have_no_minimiser(kind):
    solution = kind(*data(noise=0.0)).solve()
    assert solution.status in (cr.Status.SEPARABLE, cr.Status.UNBOUNDED)


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize("options", [{}, {"l1": 1e-6}])
def test_what_falls_for_ever_is_recognised_by_a_point_or_by_a_linear_program(options, monkeypatch):
    """The program is not asked where a point has shown it, and is asked where l1 is too weak and a method fails."""
    asked, find = [], _linear_scores.find_separation
    monkeypatch.setattr(
        _linear_scores, "find_separation", lambda *system: asked.append(system) or find(*system)
    )
    X, y = data(noise=0.0)
    push = Push(X, y, **options)
    assert push.solve().status is cr.Status.UNBOUNDED
    assert not asked
    status, direction, _ = push._prove_nonexistence()
    assert status is cr.Status.UNBOUNDED
    assert push._terminal_status(direction) is status
    assert len(asked) == 1
    assert Push(X, y, l1=1e3)._prove_nonexistence() is None


def test_hinges_have_a_minimiser_on_separable_data():
    problem = Hinges(*data(noise=0.0))
    assert problem._attained
    assert not problem._is_separating(np.array([1.0, -1.0, 0.5]))
    solution = problem.solve()
    assert solution.status is cr.Status.CONVERGED
    assert solution.value < 1e-6


def test_what_is_bounded_below_only_by_chance_is_not_said_to_be_attained():
    problem = Falls(*data())
    assert not problem._attained
    assert problem._risk_infimum == -np.inf


def test_a_part_that_is_reached_does_not_fall_for_ever():
    """The hinge is reached; the exponential stays where it is along w. What falls from w to 2w is the hinge alone."""

    class Mixed(cr.Formulation):
        def risk(self, f):
            return mean(hinge(-f.positive)) + mean(softplus(0.0 * f.negative))

    X = np.array([[1.0], [2.0], [0.5], [0.25]])
    problem = Mixed(X, [1, 1, 0, 0])
    assert not problem._is_separating(np.array([0.1]))
    assert Push(X, [1, 1, 0, 0])._is_separating(np.array([0.1]))


# --- a loss without conjugate and form in balls -----------------------------------------------------------------------


def test_a_custom_loss_is_solved_and_certified_but_not_proved():
    problem = Custom(*data(30), l2=0.1)
    solution = problem.solve()
    assert solution.status is cr.Status.CONVERGED
    assert solution.gap < 1e-6
    assert abs(solution.value - problem.solve("exact").value) < tolerance("two solvers")
    with pytest.raises(cr.CertificateError, match="margins has no form in balls"):
        solution.prove()


# --- certificates do not rest on gradients ----------------------------------------------------------------------------


class Logistic(cr.Formulation):
    def risk(self, f):
        return mean(softplus(mean(f.negative) - f.positive))


def gaps_at(declared, optimum):
    """Gaps at some points; lower bounds have to be below the optimum."""
    problem, w = declared(*data(), l2=0.1), np.array([0.3, -0.2, 0.1])
    found = [problem.certificate(point) for point in (w, 0.0 * w, optimum.x)]
    assert all(one.lower_bound <= optimum.value + 1e-12 for one in found)
    assert all(one.value - one.gap <= optimum.value + 1e-12 for one in found)
    return np.array([one.gap for one in found])


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_wrong_slopes_make_gaps_larger_but_not_false(factor):
    """The lower bound is that of the conjugate at feasible multipliers."""
    right, optimum = functions.softplus.slope, Logistic(*data(), l2=0.1).solve()
    expected = gaps_at(Logistic, optimum)
    try:
        object.__setattr__(functions.softplus, "slope", lambda x, value: factor * right(x, value))
        gaps = gaps_at(Logistic, optimum)
    finally:
        object.__setattr__(functions.softplus, "slope", right)
    assert gaps[2] > expected[2] + 1e-3  # elsewhere other slopes may prove more


class Discounted(cr.Formulation):
    def risk(self, f):
        return mean(softplus(log_sum_exp(f.negative) - f.positive))


class Far(cr.Formulation):
    """Log-sum-exps whose large constants cancel."""

    far: float = 1e9

    def risk(self, f):
        return log_sum_exp(self.far - f.positive) + log_sum_exp(f.negative - self.far)


@pytest.mark.parametrize("far", [0.0, 30.0, 1e9])
def test_log_sum_exps_with_constants_that_cancel_have_their_rounding_in_the_gap(far):
    truth, problem = Far(*data(), far=0.0, l2=1.0).solve(tol=1e-12), Far(*data(), far=far, l2=1.0)
    for point in (truth.x, truth.x + 1e-3):
        found = problem.certificate(point)
        assert found.lower_bound <= truth.value
        # what constants of this size may round is in the gap, and hardly more
        error = abs(found.value - Far(*data(), far=0.0, l2=1.0).objective(point))
        assert found.gap >= error - tolerance("summation")
    assert problem.certificate(truth.x).gap <= max(
        1e-12, 2.0 * len(truth.instance.y) * np.finfo(float).eps * far
    )


def off_by(wrong):
    """Log-sum-exps with another softmax."""
    right = reference._of_log_sum_exp

    def step(node):
        up, down = right(node)

        def other(x):
            value, shares = up(x)
            return value, wrong(shares)

        return other, down

    return step


@pytest.mark.parametrize(
    ("wrong", "feasible"),
    [
        (lambda shares: np.sqrt(shares) / np.sqrt(shares).sum(), True),
        (lambda shares: shares[::-1], True),
        (lambda shares: 0.9 * shares, False),
        (lambda shares: 1.1 * shares, False),
        (lambda shares: 2.0 * shares - shares[::-1], False),
    ],
)
@pytest.mark.parametrize("kind", [Push, Discounted])
def test_a_wrong_softmax_makes_gaps_larger_but_not_false(kind, wrong, feasible, monkeypatch):
    """Of log-sum-exps alone, and of one within other functions."""
    optimum = kind(*data(), l2=0.1).solve()
    expected, right = gaps_at(kind, optimum), sums.reference_log_sum_exp

    def planted(exponents):
        value, shares = right(exponents)
        return value, wrong(shares)

    monkeypatch.setattr(reference, "_of_log_sum_exp", off_by(wrong))
    monkeypatch.setattr(sums, "reference_log_sum_exp", planted)
    gaps = gaps_at(kind, optimum)
    assert np.isfinite(gaps).all() if feasible else np.isinf(gaps[0])
    assert gaps[2] > expected[2] + 1e-3


# --- time -------------------------------------------------------------------------------------------------------------


def test_a_first_solve_imports_neither_jax_nor_cvxpy_nor_numba():
    text = (
        "import sys, convexrank as cr\n"
        "from convexrank.modelling import log_mean_exp\n"
        "class Push(cr.Formulation):\n"
        "    def risk(self, f):\n"
        "        return log_mean_exp(-f.positive) + log_mean_exp(4.0 * f.negative) / 4.0\n"
        "Push([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1).solve()\n"
        "print({'jax', 'numba', 'cvxpy'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert found.stdout == "set()\n"


class Reciprocal(cr.Formulation):
    def risk(self, f):
        return mean(softplus(log_sum_exp(f.negative) - f.positive))


class Vectors(cr.Formulation):
    def risk(self, f):
        return mean(pair_sums(losses.SquaredHinge(), f.rows, f.rows, f.grades))


def warm(declared):
    X, y, _ = grades(200)
    problem = declared(X, y if declared in (Vectors, Pairs) else y > 1, l2=0.1)
    problem.solve()
    return problem


def test_a_warm_solve_makes_few_python_calls():
    assert calls_of(warm(Push).solve) < 300


@pytest.mark.parametrize(
    ("declared", "most"), [(Push, 35), (TopTen, 36), (Reciprocal, 45), (Vectors, 80), (Pairs, 115)]
)
def test_a_function_below_the_risk_takes_few_python_calls(declared, most):
    """That of the P-Norm Push by hand takes 20."""
    problem, w = warm(declared), np.array([0.3, -0.2, 0.5])
    problem._reference_minorant(w)
    assert calls_of(lambda: problem._reference_minorant(w)) < most


# --- rounding ---------------------------------------------------------------------------------------------------------


class Cancels(cr.Formulation):
    """Σ (f − mean f)², with a constant that cancels."""

    c: float = 1.0

    def risk(self, f):
        centred = f.rows - mean(f.rows)
        return total(square(centred + self.c)) - float(len(self.y)) * self.c**2 + mean(softplus(-f.positive))


@pytest.mark.parametrize("c", [0.0, 1.0, 1e4, 1e8])
def test_certificates_know_of_terms_that_cancel(c):
    X, y = data(40)
    exact = Cancels(X, y, c=0.0, l2=0.1)
    best, problem = exact.solve(tol=1e-12), Cancels(X, y, c=c, l2=0.1)
    for w in (best.x, 1.001 * best.x):
        found = problem.certificate(w)
        assert found.lower_bound <= best.value + 1e-14
        assert exact.objective(w) - best.value <= found.gap + 1e-14
        assert abs(found.value - exact.objective(w)) <= found.gap + 1e-14
        assert c > 1e6 or found.gap < 1e-3


# --- many rows, many queries ------------------------------------------------------------------------------------------


class Lists(cr.Formulation):
    def risk(self, f):
        return log_mean_exp(f.rows) - mean(f.rows) + 0.1 * mean(square(f.rows - mean(f.rows)))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
def test_second_derivatives_of_queries(make):
    """One column per query, whatever holds the features; in single precision the features are what they are."""
    X, y, qid = grades(40)
    problem, w, h = (
        Lists(make(X), y, qid=qid, l2=0.1),
        np.array([0.3, -0.2, 0.5]),
        tolerance("difference_step"),
    )
    dense = Lists(
        np.asarray(problem.X.toarray() if sparse.issparse(problem.X) else problem.X, float),
        y,
        qid=qid,
        l2=0.1,
    )
    hessian = problem.second_order(w)[2]
    for column, direction in zip(hessian, np.eye(3), strict=True):
        ends = [dense.second_order(w + side * h * direction)[1] for side in (1.0, -1.0)]
        assert np.abs(column - (ends[0] - ends[1]) / (2.0 * h)).max() < tolerance("central difference")
        assert np.abs(column - problem.hessian_product(w, direction)).max() < tolerance("summation")


@pytest.mark.parametrize("size", [3, 7, 1 << 16])
@pytest.mark.parametrize("graded", [True, False])
def test_certificates_take_pairs_in_blocks(graded, size, monkeypatch):
    X, y, qid = grades()
    problem = Pairs(X, y, qid=qid, l2=0.1) if graded else Hinges(*data(), l2=0.1)
    w = problem.solve().x
    expected = problem.certificate(w)
    monkeypatch.setattr(rounding, "_BLOCK", size)
    for listed in (0, 10**9):
        monkeypatch.setattr(rounding, "_MANY", listed)
        node = next(one for one in problem.program.nodes if isinstance(one, PairSums))
        kinds = {type(block) for block in rounding.blocks(node)}
        assert kinds == {rounding._Listed if listed else rounding._Crossed}
        found = problem.certificate(w)
        assert found.value == pytest.approx(expected.value, rel=1e-14)
        assert found.lower_bound == pytest.approx(expected.lower_bound, rel=1e-12)


@pytest.mark.parametrize("factor", [1e-6, 0.1, 3.0, 1e6])
def test_slopes_at_the_ends_of_their_range_are_multipliers(factor):
    """Where scores are far apart the slope of softplus is 1 up to rounding, and may not be above."""

    class Scaled(cr.Formulation):
        def risk(self, f):
            return factor * mean(apply(functions.scaled(functions.softplus, factor), 1e3 * f.rows))

    problem = Scaled(*data(200), l2=0.1)
    below = problem._reference.below(problem.X @ np.array([3.0, -2.0, 1.0]))
    value, slopes = problem._risk_and_score_gradient(problem.X @ np.array([3.0, -2.0, 1.0]))
    assert below.value == pytest.approx(value, rel=1e-13)
    assert below.slopes == pytest.approx(slopes, rel=1e-9)
    assert below.offset == pytest.approx(0.0, abs=1e-9 * value)


def test_multipliers_of_many_rows_satisfy_their_constraints_up_to_rounding():
    """A total over rows has multipliers as large as their number: what they are off by is relative to that."""

    class Sums(cr.Formulation):
        def risk(self, f):
            return total(softplus(log_mean_exp(f.negative) - f.positive)) * 1e4

    problem = Sums(*data(20_000), l2=1.0)
    assert np.isfinite(problem.certificate(np.array([0.3, -0.2, 0.5])).gap)
