"""Smooth functions below kinks in JAX: equal to those in numpy at each width; and the compiled solver of these."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import convexrank as cr
from convexrank.backend.jax_oracles import pad, shape_class
from convexrank.modelling.hessian_products import hessian_product
from convexrank.modelling.jax_reading import JaxSmoothRisk
from convexrank.modelling.kernels import highest_on_device
from convexrank.solvers.jitted._chunks import compiled
from convexrank.solvers.jitted.programs import newton
from tests.tolerances import tolerance

P = cr.problems
ROWS, COLUMNS = 60, 4
_rng = np.random.default_rng(0)
X = _rng.normal(size=(ROWS, COLUMNS))
Y = X @ _rng.normal(size=COLUMNS) + 0.3 * _rng.normal(size=ROWS) > 0.8
QID = np.arange(ROWS) % 3
GRADES = np.clip((X[:, 0] + _rng.normal(size=ROWS)).round(), 0, 3)
WEIGHTS = _rng.uniform(0.2, 3.0, size=ROWS)

PROBLEMS = {
    "maximum": lambda: P.TopPush(X, Y, l2=0.02),
    "maximum by query": lambda: P.TopPush(X, Y, qid=QID, l2=0.002),
    "weighted maximum": lambda: P.RmaxPush(X, Y, loss="logistic", l2=0.02, sample_weight=WEIGHTS),
    "highest": lambda: P.SpectralPush(X, Y, spectrum=("top", 0.3), loss="hinge", l2=0.02),
    "weighted highest": lambda: P.SpectralPush(
        X, Y, spectrum=("top", 0.3), loss="logistic", l2=0.02, sample_weight=WEIGHTS
    ),
    "highest sums over pairs": lambda: P.PartialAUC(X, Y, max_fpr=0.3, l2=0.02),
    "hinges of pairs": lambda: P.RankSVM(X, GRADES, qid=QID, loss="hinge", l2=0.02),
}


def derivatives(data, scores, direction):
    """Value and slopes in JAX, and what they change by along a direction."""
    both = jax.value_and_grad(lambda x: JaxSmoothRisk()(data, x))
    return jax.jvp(both, (scores,), (direction,))


program = jax.jit(derivatives)  # of all widths


def readings(problem, width, scores, direction, program=program):
    """Value, gradient and a product with the Hessian of the smooth function of a width: in JAX and in numpy."""
    smoothing = problem._smoothed_risks.smoothing
    made = smoothing.at(width)
    values, memories = made.up(scores)
    in_numpy = (
        float(np.sum(values[-1])),
        made.placed(made.down(memories)),
        hessian_product(made, scores)(direction),
    )
    widths = smoothing.widths(width)
    size = shape_class(len(scores))

    with jax.enable_x64(True):
        root = JaxSmoothRisk.prepare(problem.program.root, [problem.program.nodes[k] for k in widths])
        data = root, np.array([own for own, _ in widths.values()])
        (value, slopes), (_, product) = program(data, pad(scores, size), pad(direction, size))
        in_jax = float(value), *(np.asarray(each)[: len(scores)] for each in (slopes, product))
    return in_jax, in_numpy


def differ(problem, share, **options):
    """By how much the readings differ, relative to the largest entry, at a share of the first width."""
    rng = np.random.default_rng(1)
    width = share * problem._smoothed_risks.smoothing.first_width
    found = readings(problem, width, rng.normal(size=ROWS), rng.normal(size=ROWS), **options)
    return max(
        float(np.max(np.abs(one - other)) / max(1.0, np.max(np.abs(other))))
        for one, other in zip(*found, strict=True)
    )


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("share", [1.0, 1e-2, 1e-5])
def test_both_languages_read_the_same_smooth_function(name, share):
    assert differ(PROBLEMS[name](), share) <= tolerance("summation")


def test_a_level_that_is_not_found_is_noticed(monkeypatch):
    """One step of the search for the level of the shares is a planted bug."""
    monkeypatch.setattr(highest_on_device, "_STEPS", 1)
    anew = jax.jit(lambda *given: derivatives(*given))
    assert differ(PROBLEMS["weighted highest"](), 1e-2, program=anew) > 1e3 * tolerance("summation")


# The others have the atoms of these: the readings above are compared for all, and a program takes seconds to compile.
@pytest.mark.parametrize(
    "name", ["maximum by query", "weighted highest", "highest sums over pairs", "hinges of pairs"]
)
def test_compiled_steps_agree_with_numpy(name):
    problem = PROBLEMS[name]()
    found, first = problem.solve("jax-continuation"), problem.solve()
    assert found.converged
    assert found.gap == problem.certificate(found.x, found.witness).gap
    assert abs(found.value - first.value) <= found.gap + first.gap + tolerance("summation")


def test_a_device_chooses_it_for_kinks_with_l2_alone():
    problem = PROBLEMS["maximum"]()
    assert problem.solve(device="cpu").solver == "jax-continuation"
    assert problem.solve().solver == "continuation"
    with pytest.raises(ValueError, match="no compiled solver fits this TopPush"):
        problem.changed(l1=0.01).solve(device="cpu")


def test_many_problems_with_kinks_are_solved_one_after_the_other_on_a_device():
    problem = PROBLEMS["maximum"]()
    found = cr.solve_many(problem, device="cpu", l2=[0.02, 0.2])
    assert [solution.solver for solution in found] == ["jax-continuation"] * 2
    for solution, l2 in zip(found, (0.02, 0.2), strict=True):
        truth = problem.changed(l2=l2).solve()
        assert abs(solution.value - truth.value) <= solution.gap + truth.gap + tolerance("summation")


def test_one_program_serves_all_widths_and_strengths():
    PROBLEMS["maximum"]().solve("jax-continuation")
    program = compiled(newton.advance, True)
    before = program.count
    solution = P.TopPush(X[1:], Y[1:], l2=0.3).solve("jax-continuation")
    assert solution.iterations > 3
    assert program.count == before


def test_conjugate_gradients_and_a_far_start_lead_to_the_same_minimum():
    problem = PROBLEMS["maximum"]()
    truth = problem.solve(tol=1e-10)
    for solution in (
        problem.solve(cr.solvers.JaxContinuation(columns=0)),
        problem.solve("jax-continuation", x0=np.full(COLUMNS, 30.0)),
    ):
        assert solution.converged
        assert truth.value - truth.gap <= solution.value <= truth.value + solution.gap


def test_single_precision_ends_with_the_gap_that_it_has():
    problem = P.TopPush(X, Y, l2=0.02, dtype="float32")
    with pytest.warns(cr.ConvergenceWarning, match="are float32, and rounding leaves this gap"):
        solution = problem.solve("jax-continuation", tol=1e-10)
    assert 1e-10 < solution.gap <= tolerance("single precision")
    assert solution.value - solution.gap <= problem.solve().value


def test_limits_end_it():
    problem = PROBLEMS["maximum"]()
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        assert problem.solve("jax-continuation", max_iter=2).iterations == 2
    for bad in (0.0, 1.0, -1.0):
        with pytest.raises(ValueError, match="shrink"):
            cr.solvers.JaxContinuation(shrink=bad)
    with pytest.raises(ValueError, match="chunk"):
        cr.solvers.JaxContinuation(chunk=0)
