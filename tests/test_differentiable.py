"""Derivatives of minimisers: against differences of solves, closed forms, and refits; what has none is refused."""

from __future__ import annotations

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, sparse

import convexrank as cr
from convexrank.data import Chunks
from convexrank.differentiable import solution_map
from convexrank.modelling import log_mean_exp, mean, power, softplus, square, total
from convexrank.modelling.levels import Threshold
from convexrank.problems import REGISTRY
from convexrank.problems._declared import Declared
from tests.tolerances import tolerance

DECLARED = [name for name, cls in REGISTRY.items() if issubclass(cls, Declared)]
# Classes whose instances all have kinks, a ball, or no second derivatives.
NEVER = {"RmaxPush", "TopPush"}


def rows(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + rng.normal(size=n) > 0.5


def push(n=60, **options):
    X, y = rows(n)
    return cr.problems.PNormPush(X, y, **{"p": 4.0, "l2": 0.1, **options})


def differences(function, step):
    """The derivative at 0 of a function of a number, by values at four places."""
    near, far = function(step) - function(-step), function(2.0 * step) - function(-2.0 * step)
    return (8.0 * near - far) / (12.0 * step)


def solved(problem):
    return problem.solve(tol=1e-13).x


def refusal(problem):
    try:
        cr.SolutionMap(problem)
    except ValueError as error:
        return str(error)
    return ""


def instance(name):
    """A random instance that is solved and has derivatives; None where there is none."""
    for seed in range(40):
        problem = REGISTRY[name].random(seed)
        if "l2" in vars(problem) and not refusal(problem):
            problem = problem.changed(l2=max(problem.l2, 0.05), l1=0.0, dtype="float64")
            if problem.solve().converged:
                return problem
    return None


def slopes_of(weights_of, values, c):
    """The derivatives of one combination of the weights, in all values."""
    with jax.enable_x64(True):
        found = jax.grad(lambda given: weights_of(**given) @ c)(values)
        return {key: np.asarray(slope) for key, slope in found.items()}


@pytest.mark.parametrize("name", DECLARED)
def test_derivatives_are_differences_of_solves(name):
    problem = instance(name)
    if problem is None:
        assert name in NEVER, "no instance has a derivative"
        pytest.skip("all instances have kinks or a ball")
    weights_of, rng = cr.SolutionMap(problem), np.random.default_rng(0)
    values = {name: np.asarray(getattr(problem, name)) for name in ("X", "l2")}
    if "sample_weight" in weights_of.names:
        values["sample_weight"] = rng.uniform(0.5, 2.0, size=problem.rows)
    if any(isinstance(node, Threshold) for node in problem.program.nodes):
        # how far a threshold may be below the maximum is found by bisection
        with pytest.raises(ValueError, match="no derivative that is known in sample_weight"):
            weights_of(sample_weight=values.pop("sample_weight"))
    if "p" in weights_of.names:
        values["p"] = problem.p
    c = rng.normal(size=problem.dimension)
    slopes = slopes_of(weights_of, values, c)
    base = problem.changed(**{key: values[key] for key in slopes})
    for key, slope in slopes.items():
        # relative to each entry, and so near that few margins pass the kinks of squared hinges
        value, along = values[key], rng.normal(size=np.shape(values[key])) * values[key]

        def moved(t, key=key, value=value, along=along):
            return solved(base.changed(**{key: value + t * along})) @ c

        wanted = differences(moved, 1e-5)
        within = tolerance("derivative of a solve") * max(abs(wanted), np.linalg.norm(c))
        assert float(np.sum(slope * along)) == pytest.approx(wanted, abs=within), key


class SquaredErrors(cr.Formulation):
    """Least squares, whose minimiser is known in closed form."""

    def risk(self, f):
        return 0.5 * total(square(f.rows - f.grades), np.ones(len(f.grades)))


def test_least_squares_in_closed_form():
    X, _ = rows()
    y, c = X @ [1.0, -2.0, 0.5] + np.sin(np.arange(60)), np.array([1.0, 2.0, -1.0])
    with jax.enable_x64(True):

        def closed(X, l2):
            return jnp.linalg.solve(X.T @ X + l2 * jnp.eye(3), X.T @ y) @ c

        weights_of = cr.SolutionMap(SquaredErrors(X, y, l2=0.3))
        found = jax.grad(lambda X, l2: weights_of(X=X, l2=l2) @ c, argnums=(0, 1))(X, 0.3)
        wanted = jax.grad(closed, argnums=(0, 1))(jnp.asarray(X), 0.3)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=tolerance("summation"))


def test_the_exact_solver_has_the_same_derivative():
    problem, c = push(), np.array([1.0, 2.0, -1.0])
    with jax.enable_x64(True):
        weights_of = cr.SolutionMap(problem)
        found = float(jax.grad(lambda l2: weights_of(l2=l2) @ c)(0.1))
    wanted = differences(lambda t: problem.changed(l2=0.1 + t).solve("exact").x @ c, 0.02)
    assert found == pytest.approx(wanted, rel=tolerance("derivative of exact solves"))


def test_all_transformations_agree():
    weights_of, c = cr.SolutionMap(push()), np.array([1.0, 2.0, -1.0])
    with jax.enable_x64(True):

        def value(l2):
            return weights_of(l2=l2) @ c

        slope = jax.grad(value)(0.1)
        others = [
            jax.jit(jax.grad(value))(0.1),
            jax.jvp(value, (0.1,), (1.0,))[1],
            jax.vmap(jax.grad(value))(jnp.array([0.1, 0.2]))[0],
            jax.jacrev(value)(0.1),
        ]
        np.testing.assert_allclose(np.array(others), float(slope), rtol=tolerance("summation"))
        bend = float(jax.grad(jax.grad(value))(0.1))
        wanted = differences(lambda t: float(jax.grad(value)(0.1 + t)), 1e-3)
    assert bend == pytest.approx(wanted, rel=tolerance("derivative of a solve"))


def test_single_precision_of_the_caller():
    """Without 64 bits the answers are float32, and the caller's setting stays."""
    weights_of = cr.SolutionMap(push())
    assert weights_of().dtype == jnp.float32
    slope = jax.grad(lambda l2: weights_of(l2=l2).sum())(0.1)
    with jax.enable_x64(True):
        wanted = jax.grad(lambda l2: weights_of(l2=l2).sum())(0.1)
    assert slope.dtype == jnp.float32
    assert float(slope) == pytest.approx(float(wanted), rel=tolerance("single precision"))
    assert not jax.config.jax_enable_x64


def test_a_second_gradient_compiles_nothing(caplog):
    weights_of = cr.SolutionMap(push())
    slope, compiled = jax.grad(lambda l2: weights_of(l2=l2).sum()), []
    with jax.log_compiles(True):
        for l2 in (0.1, 0.2):
            caplog.clear()
            slope(l2)
            compiled.append(sum("Finished XLA compilation" in each.getMessage() for each in caplog.records))
    assert compiled[0] > 0
    assert compiled[1] == 0


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_products_in_the_place_of_a_matrix(make, monkeypatch):
    """Systems by conjugate gradients have the solutions of those by the matrix; X may be sparse."""
    X, y = rows(40, 5)
    values, found = {"l2": 0.1, "sample_weight": np.ones(40)}, []
    for columns in (2_000, 1):
        monkeypatch.setattr(solution_map, "_DENSE", columns)
        slopes = slopes_of(cr.SolutionMap(cr.problems.IRPush(make(X), y, l2=0.1)), values, np.ones(5))
        found.append(np.append(slopes["sample_weight"], slopes["l2"]))
    np.testing.assert_allclose(*found, atol=tolerance("summation"))


def test_with_l1_the_weights_that_are_not_zero_move():
    X, y = rows(80, 8)
    problem, c = cr.problems.PNormPush(X, y, p=2.0, l2=0.05, l1=0.06), np.arange(8.0)
    assert 0 < (problem.solve().x == 0.0).sum() < 8
    weights_of = cr.SolutionMap(problem)
    with jax.enable_x64(True):
        found = jax.grad(lambda l1, l2: weights_of(l1=l1, l2=l2) @ c, argnums=(0, 1))(0.06, 0.05)
    for name, slope in zip(("l1", "l2"), found, strict=True):
        at = getattr(problem, name)
        wanted = differences(lambda t, name=name, at=at: solved(problem.changed(**{name: at + t})) @ c, 1e-4)
        assert float(slope) == pytest.approx(wanted, rel=tolerance("derivative of a solve"))


# --- what it is for ---------------------------------------------------------------------------------------------------


def test_a_ranker_as_a_layer():
    """Features are a function of parameters, and the loss one of the minimiser: gradients by the chain rule."""
    X, y = rows(40, 3)
    rng = np.random.default_rng(1)
    A, c = rng.normal(size=(3, 2)), rng.normal(size=40)
    weights_of = cr.SolutionMap(cr.problems.PNormPush(np.tanh(X @ A), y, p=2.0, l2=0.1))

    def loss(A):
        features = jnp.tanh(X @ A)
        return jnp.tanh(features @ weights_of(X=features)) @ c

    with jax.enable_x64(True):
        slope, along = np.asarray(jax.grad(loss)(A)), rng.normal(size=A.shape)

    def moved(t):
        features = np.tanh(X @ (A + t * along))
        w = solved(cr.problems.PNormPush(features, y, p=2.0, l2=0.1))
        return np.tanh(features @ w) @ c

    assert np.sum(slope * along) == pytest.approx(
        differences(moved, 1e-4), rel=tolerance("derivative of a solve")
    )


def test_a_held_out_loss_is_minimised_by_its_slope():
    X, y = rows(120, 6)
    parts = [(np.arange(120) % 2 != k, np.arange(120) % 2 == k) for k in range(2)]
    folds = [
        (
            cr.SolutionMap(cr.problems.PNormPush(X[a], y[a], p=1.0, l2=0.1)),
            cr.problems.PNormPush(X[b], y[b], p=1.0),
        )
        for a, b in parts
    ]
    with jax.enable_x64(True):
        losses = [(weights_of, jax.jit(held.jax_objective())) for weights_of, held in folds]

        def loss(log_l2):
            return sum(held(weights_of(l2=jnp.exp(log_l2))) for weights_of, held in losses) / 2.0

        both = jax.value_and_grad(loss)
        found = optimize.minimize(
            lambda t: [np.asarray(part, dtype=float) for part in both(t[0])], [-1.0], jac=True
        )

    def by_values(t):
        return np.mean([held.objective(solved(of.problem.changed(l2=np.exp(t)))) for of, held in folds])

    best = optimize.minimize_scalar(by_values, bounds=(-8.0, 4.0), method="bounded", options={"xatol": 1e-8})
    assert found.fun == pytest.approx(best.fun, abs=tolerance("least held-out loss"))
    assert abs(found.x[0] - best.x) < tolerance("where a loss is least")


def test_influence_of_rows_beside_refits_and_the_bound():
    """What a weight of a row changes is what leaving it out does, to first order; the bound holds for the latter."""
    problem = push(60, l2=1.0, p=1.0)
    solution = problem.solve(tol=1e-13)
    bounds = cr.leave_one_out(solution).distances
    weights_of = cr.SolutionMap(problem)
    with jax.enable_x64(True):
        influence = np.asarray(jax.jacrev(lambda a: weights_of(sample_weight=a))(np.ones(60)))

    def without(row, part):
        weights = np.ones(60)
        weights[row] -= part
        return (solved(problem.changed(sample_weight=weights)) - solution.x) / part

    lengths = np.linalg.norm([without(row, 1.0) for row in range(60)], axis=1)
    assert (lengths <= bounds).all()
    assert np.corrcoef(np.linalg.norm(influence, axis=0), lengths)[0, 1] > 0.99
    slightly = np.array([without(row, 1e-3) for row in range(0, 60, 3)])
    assert np.linalg.norm(influence.T[::3] + slightly, axis=1).max() < 1e-3 * lengths.max()


# --- what has no derivative -------------------------------------------------------------------------------------------


class Weighed(cr.Formulation):
    """A risk whose weights of rows, and one parameter, enter by numbers whose computation is lost."""

    q: float = 2.0

    def risk(self, f):
        weights = np.array(f.positive.axis.weights)
        return mean(softplus(-f.positive), weights) + mean(power(softplus(f.negative), self.q))


class Shared(Weighed):
    """The same, as it should be."""

    def risk(self, f):
        return self.q * mean(softplus(-f.positive)) + log_mean_exp(f.negative)


def test_numbers_whose_computation_is_lost_are_refused():
    X, y = rows()
    lost, kept = cr.SolutionMap(Weighed(X, y, l2=0.1)), cr.SolutionMap(Shared(X, y, l2=0.1))
    for values in ({"sample_weight": np.ones(60)}, {"q": 2.0}):
        with pytest.raises(ValueError, match=f"no derivative that is known in {next(iter(values))}"):
            lost(**values)
        assert kept(**values).shape == (3,)
    with pytest.raises(ValueError, match=r"known in q.*0"):
        cr.SolutionMap(Shared(X, y, q=0.0, l2=0.1))(q=0.0)


def test_what_has_kinks_or_no_expression_is_refused():
    X, y = rows()
    chunks = Chunks.from_arrays(X, y)
    for problem, words in (
        (cr.problems.TopPush(X, y, l2=0.1), "has kinks"),
        (cr.problems.ConvexRisk(X, y, cost="hinge", l2=0.1), "has kinks"),
        (cr.problems.PNormPush(chunks, chunks.y, p=1, l2=1), "in memory"),
    ):
        assert words in refusal(problem)
    with pytest.raises(TypeError, match="declares its risk"):
        cr.SolutionMap(cr.problems.LearnedDivergence(X, X[:, 0]))
    with pytest.raises(ValueError, match="tol"):
        cr.SolutionMap(push(), tol=0.0)


def test_wrong_arguments_are_refused():
    weights_of = cr.SolutionMap(push(), tol=Fraction(1, 10**10))
    assert type(weights_of.tol) is float
    with pytest.raises(TypeError, match=r"y is no argument .*expected X, l2, l1, sample_weight, p"):
        weights_of(y=np.ones(60))
    for name, value in (
        ("X", np.ones((3, 60))),
        ("X", np.ones(60)),
        ("sample_weight", np.ones(3)),
        ("l2", [1.0]),
    ):
        with pytest.raises(ValueError, match=f"{name} has shape"):
            weights_of(**{name: value})
    for name, value, words in (
        ("X", 1j * rows()[0], "X is complex; pass its real part"),
        ("X", sparse.csr_array(rows()[0]), "X is a sparse csr array, expected a dense one"),
        ("l2", "0.1", "l2 holds <U3 values, expected numbers"),
        ("sample_weight", np.arange(60.0), "sample_weight has 1 entries that are not greater than 0"),
        ("sample_weight", np.full(60, np.nan), "sample_weight contains NaN"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            weights_of(**{name: value})
    few = cr.SolutionMap(cr.problems.PNormPush([[0.0], [1.0]], [0, 1], p=1, l2=1.0))
    slope = jax.grad(lambda x: few(X=[[0.0], [x]])[0])  # of w = x, by a list with an array in it
    assert slope(1.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="l2 is -1"):
        weights_of(l2=-1.0)


def test_minimisers_without_a_derivative_are_refused():
    X, y = rows()
    double = np.column_stack([X, X[:, 0]])
    degenerate = cr.SolutionMap(cr.problems.PNormPush(double, y, p=1.0, l2=1e-12))
    apart = cr.SolutionMap(cr.problems.PNormPush(X, X[:, 0] > 0.0, p=1.0))
    largest = push(p=1.0, l2=0.0).l1_max()
    edge = cr.SolutionMap(push(p=1.0, l1=largest))
    for weights_of, values, words in (
        (degenerate, {"l2": 0.0}, "degenerate"),
        (apart, {"X": X}, "SEPARABLE"),
        (edge, {"l1": largest}, "at the edge"),
    ):

        def value(given, weights_of=weights_of):
            return weights_of(**given).sum()

        with jax.enable_x64(True):
            with pytest.raises(ValueError, match=words):
                jax.grad(value)(values)
            with pytest.raises(jax.errors.JaxRuntimeError, match=words):
                jax.block_until_ready(jax.jit(jax.grad(value))(values))


def test_products_show_that_two_columns_are_alike(monkeypatch):
    """What the derivative is asked along, and a vector of ones, see nothing of the difference of the columns."""
    X, y = rows()
    monkeypatch.setattr(solution_map, "_DENSE", 0)
    monkeypatch.setattr(solution_map, "_MOST_PRODUCTS", 100)
    weights_of = cr.SolutionMap(cr.problems.PNormPush(np.column_stack([X, X[:, 0]]), y, p=1.0), "newton")
    with jax.enable_x64(True), pytest.raises(ValueError, match="degenerate"):
        jax.grad(lambda a: weights_of(sample_weight=a).sum())(np.ones(60))
