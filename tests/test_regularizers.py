"""Regularizers: values by plain sums, proximal maps and conjugates against cvxpy, and Fenchel's inequality."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from convexrank.regularizers import L1, L2, Box, L1Ball, L2Ball, Penalty, Simplex, soft_threshold
from tests.tolerances import tolerance

# name: regularizer, its value by plain arithmetic
PLAIN = {
    "L2": (L2(2.5), lambda w: 1.25 * sum(x * x for x in w)),
    "L1": (L1(0.7), lambda w: 0.7 * sum(abs(x) for x in w)),
    "L1Ball": (L1Ball(1.5), lambda w: 0.0 if sum(abs(x) for x in w) <= 1.5 else math.inf),
    "L2Ball": (L2Ball(1.5), lambda w: 0.0 if math.hypot(*w) <= 1.5 else math.inf),
    "Simplex": (Simplex(2.0), lambda w: 0.0 if min(w) >= 0 and abs(sum(w) - 2.0) <= 1e-9 else math.inf),
    "Box": (Box(-0.5, 1.0), lambda w: 0.0 if all(-0.5 <= x <= 1.0 for x in w) else math.inf),
}
PENALTIES = {
    f"l2={l2} l1={l1} {ball}": Penalty(l2, l1, ball)
    for l2 in (0.0, 0.5, 4.0)
    for l1 in (0.0, 0.8)
    for ball in (None, L1Ball(1.2), L2Ball(1.2))
}
EVERY = pytest.mark.parametrize("name", list(PLAIN))
EACH = pytest.mark.parametrize("name", list(PENALTIES))
VECTORS = arrays(np.float64, st.integers(1, 5), elements=st.floats(-10, 10, width=16))
STEPS = st.floats(0.01, 10)
FEW = settings(max_examples=25)  # of each of many regularizers


def points(seed, count=4, size=4):
    """Ordinary points, sparse ones and one with equal entries."""
    rng = np.random.default_rng(seed)
    drawn = list(rng.normal(scale=rng.choice([0.3, 1.0, 3.0]), size=(count, size)))
    return [*drawn, drawn[0] * (drawn[1] > 0), np.full(size, 0.9), np.zeros(size)]


def close(a, b, name="conic"):
    return a == b or abs(a - b) <= tolerance(name) * max(1.0, abs(a), abs(b))


def solved(objective, constraints):
    problem = cp.Problem(objective, constraints)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert problem.status == "optimal"
    return float(problem.value)


def cvxpy_prox(regularizer, v, step):
    w = cp.Variable(len(v))
    term, constraints = regularizer.cvxpy(w)
    solved(cp.Minimize(step * term + 0.5 * cp.sum_squares(w - v)), constraints)
    return w.value


def cvxpy_conjugate(regularizer, v, radius=math.inf):
    w = cp.Variable(len(v))
    term, constraints = regularizer.cvxpy(w)
    limits = [cp.norm2(w) <= radius] if math.isfinite(radius) else []
    return solved(cp.Maximize(v @ w - term), constraints + limits)


# --- single regularizers ------------------------------------------------------------------------------------------


@EVERY
@FEW
@given(w=VECTORS)
def test_value_is_the_definition(name, w):
    regularizer, plain = PLAIN[name]
    if math.isfinite(plain(w)):
        assert close(regularizer.value(w), plain(w), "summation")
    else:
        # outside by more than rounding is outside
        assert regularizer.value(w) == math.inf


@EVERY
def test_cvxpy_form_is_the_value(name):
    regularizer, plain = PLAIN[name]
    for v in points(1):
        for w in (v, regularizer.prox(v, 1.0)):
            variable = cp.Variable(len(w))
            term, constraints = regularizer.cvxpy(variable)
            variable.value = w
            inside = all(constraint.violation().max() <= tolerance("summation") for constraint in constraints)
            assert inside is math.isfinite(regularizer.value(w))
            if inside:
                assert close(
                    float(term.value) if hasattr(term, "value") else term,
                    plain(w) if term else 0.0,
                    "summation",
                )


@EVERY
@pytest.mark.parametrize("seed", range(3))
def test_prox_is_the_minimiser(name, seed):
    regularizer, _ = PLAIN[name]
    for v, step in zip(points(seed), (1.0, 0.1, 3.0, 1.0, 0.5, 2.0, 1.0), strict=True):
        before = v.copy()
        found = regularizer.prox(v, step)
        assert np.array_equal(v, before)
        assert np.abs(found - cvxpy_prox(regularizer, v, step)).max() <= tolerance("conic point")
        assert math.isfinite(regularizer.value(found))


@EVERY
@FEW
@given(v=VECTORS, step=STEPS, direction=VECTORS)
def test_prox_beats_its_neighbours(name, v, step, direction):
    """The optimality condition: (v − p)/step is a subgradient at p."""
    regularizer, _ = PLAIN[name]
    p = regularizer.prox(v, step)
    slope = (v - p) / step
    assert regularizer.value(p) < math.inf
    for other in (
        regularizer.prox(v + np.resize(direction, len(v)), 1.0),
        regularizer.prox(np.resize(direction, len(v)), step),
    ):
        size = max(1.0, np.abs(slope).max()) * max(1.0, np.abs(other - p).max())
        rise = regularizer.value(other) - regularizer.value(p)
        assert rise >= slope @ (other - p) - tolerance("projection") * size


@EVERY
@FEW
@given(v=VECTORS, step=STEPS)
def test_prox_of_an_indicator_is_idempotent(name, v, step):
    regularizer, _ = PLAIN[name]
    if name in ("L1", "L2"):
        return  # not projections
    p = regularizer.prox(v, step)
    assert np.abs(regularizer.prox(p, 7.0) - p).max() <= tolerance("projection")


@EVERY
@pytest.mark.parametrize("seed", range(2))
def test_conjugate_is_the_supremum(name, seed):
    regularizer, _ = PLAIN[name]
    for v in points(seed):
        if name == "L1":
            # finite, and then 0, exactly inside the dual ball
            assert regularizer.conjugate(v) == (0.0 if np.abs(v).max() <= 0.7 else math.inf)
            assert regularizer.conjugate(0.7 * v / max(np.abs(v).max(), 1e-9)) == 0.0
        else:
            assert close(regularizer.conjugate(v), cvxpy_conjugate(regularizer, v))


@EVERY
@FEW
@given(v=VECTORS, w=VECTORS, step=STEPS)
def test_fenchel_and_moreau(name, v, w, step):
    """Ω(w) + Ω*(v) ≥ ⟨v, w⟩, with equality at w = prox(v'), v = (v' − w)/step."""
    regularizer, _ = PLAIN[name]
    w = regularizer.prox(np.resize(w, len(v)), 1.0)
    size = max(1.0, np.abs(v).max()) * max(1.0, np.abs(w).max()) * len(v)
    assert regularizer.value(w) + regularizer.conjugate(v) - v @ w >= -tolerance("projection") * size
    p = regularizer.prox(v, step)
    u = (v - p) / step
    # the L1 dual ball is entered up to rounding only
    gap = regularizer.value(p) + regularizer.conjugate(u) - u @ p
    assert abs(gap) <= tolerance("projection") * max(1.0, np.abs(u).max()) * max(1.0, np.abs(p).max()) * len(
        v
    )


def test_huge_and_tiny_entries():
    v = np.array([1e17, 3.0, -2.0])
    assert np.array_equal(Simplex(1.0).prox(v, 1.0), [1.0, 0.0, 0.0])
    assert np.array_equal(L1Ball(1.0).prox(v, 1.0), [1.0, 0.0, 0.0])
    assert np.array_equal(Simplex(2.0).prox(np.array([1e17, 1e17]), 1.0), [1.0, 1.0])
    assert close(np.linalg.norm(L2Ball(1.0).prox(v, 1.0)), 1.0, "summation")
    assert np.array_equal(L2(1.0).prox(v, 1e300), v / 1e300)
    assert np.array_equal(soft_threshold(np.array([1e-300, -2.0]), 1e-200), [0.0, -2.0])
    tiny = Simplex(1e-6).prox(np.array([0.3, 0.3, -1.0]), 1.0)
    assert np.allclose(tiny, [5e-7, 5e-7, 0.0], rtol=tolerance("summation"), atol=0)


@pytest.mark.parametrize("name", list(PLAIN))
@pytest.mark.parametrize(
    "w", [np.array([3, 1], np.uint8), np.array([100, 100], np.int8), np.array([True, False])]
)
def test_short_integers_are_numbers(name, w):
    regularizer, value = PLAIN[name]
    assert regularizer.value(w) == pytest.approx(value(w.tolist()))
    numbers = w.astype(np.float64)
    assert np.array_equal(regularizer.prox(w, 0.5), regularizer.prox(numbers, 0.5))
    assert regularizer.conjugate(w) == regularizer.conjugate(numbers)
    assert Penalty(l2=2.0, l1=1.0).value(w) == Penalty(l2=2.0, l1=1.0).value(numbers)


def test_one_entry():
    v = np.array([-3.0])
    assert Simplex(2.0).prox(v, 1.0).tolist() == [2.0]
    assert L1Ball(2.0).prox(v, 1.0).tolist() == [-2.0]
    assert L2Ball(2.0).prox(v, 1.0).tolist() == [-2.0]
    assert Simplex(2.0).conjugate(v) == -6.0


def test_a_box_may_be_unbounded():
    box = Box(0.0, math.inf)
    v = np.array([-2.0, 0.0, 0.0])
    assert box.prox(np.array([5.0, -1.0, 1e9]), 1.0).tolist() == [5.0, 0.0, 1e9]
    assert box.value(np.array([5.0, 1e300])) == 0.0
    assert box.conjugate(v) == 0.0
    assert box.conjugate(-v) == math.inf
    assert Box(-math.inf, math.inf).conjugate(np.zeros(2)) == 0.0
    assert Box(1.0, 1.0).prox(v, 1.0).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: L2(0.0), "strength is 0.0"),
        (lambda: L2(-1.0), "strength is -1.0"),
        (lambda: L1(math.nan), "strength is nan"),
        (lambda: L1Ball(0.0), "radius is 0.0"),
        (lambda: L2Ball(math.inf), "radius is inf"),
        (lambda: Simplex(-1.0), "total is -1.0"),
        (lambda: Box(1.0, 0.0), r"\[1.0, 0.0\] is empty"),
        (lambda: Box(math.nan, 0.0), "is empty"),
        (lambda: Box(math.inf, math.inf), "is empty"),
        (lambda: Penalty(-0.1), "l2 is -0.1"),
        (lambda: Penalty(0.0, math.inf), "l1 is inf"),
    ],
)
def test_bad_numbers_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("make", [L2, L1, L1Ball, L2Ball, Simplex, Penalty, lambda x: Box(x, 1.0)])
@pytest.mark.parametrize("value", [True, "1", None, 1j, [1.0]])
def test_numbers_are_asked_for(make, value):
    with pytest.raises(TypeError, match="expected a real number"):
        make(value)


# --- the penalty of a problem -------------------------------------------------------------------------------------


@EACH
@FEW
@given(w=VECTORS)
def test_penalty_is_the_sum_of_its_parts(name, w):
    penalty = PENALTIES[name]
    plain = 0.5 * penalty.l2 * sum(x * x for x in w) + penalty.l1 * sum(abs(x) for x in w)
    inside = penalty.ball is None or penalty.ball.value(w) == 0.0
    assert close(penalty.value(w), plain if inside else math.inf, "summation")
    assert penalty.smooth is (penalty.l1 == 0 and penalty.ball is None)
    assert penalty.bounded is (penalty.l2 > 0 or penalty.ball is not None)


@EACH
def test_penalty_prox_leaves_l2_to_the_smooth_part(name):
    penalty = PENALTIES[name]
    rest = Penalty(0.0, penalty.l1, penalty.ball)
    for v, step in zip(points(0), (1.0, 0.1, 3.0, 1.0, 0.5, 2.0, 1.0), strict=True):
        found = penalty.prox(v, step)
        assert np.abs(found - cvxpy_prox(rest, v, step)).max() <= tolerance("conic point")


@EACH
@pytest.mark.parametrize("radius", [math.inf, 0.9])
def test_penalty_conjugate_is_the_supremum_and_attained(name, radius):
    penalty = PENALTIES[name]
    for v in points(3):
        value, where = penalty.conjugate(v, radius)
        assert where.shape == v.shape
        if not penalty.bounded and radius == math.inf:
            # unbounded unless every entry of v is held by l1
            held = bool((np.abs(v) <= penalty.l1).all())
            assert value == (0.0 if held else math.inf)
            continue
        # the radius counts only where nothing else bounds
        assert close(value, cvxpy_conjugate(penalty, v, math.inf if penalty.bounded else radius))
        assert close(value, float(v @ where) - penalty.value(where), "projection")
        assert penalty.bounded or np.linalg.norm(where) <= radius * (1 + tolerance("summation"))


@EACH
@FEW
@given(w=VECTORS, v=VECTORS, radius=st.floats(0.1, 100))
def test_penalty_gap_is_never_negative(name, w, v, radius):
    penalty = PENALTIES[name]
    w = penalty.prox(np.resize(w, len(v)), 1.0)
    if not penalty.bounded:
        w = w * min(1.0, radius / max(np.linalg.norm(w), 1e-9))
    assert penalty.gap(w, v, radius) >= 0.0
    # without clipping: the conjugate is a true supremum
    size = max(1.0, abs(penalty.value(w)), np.abs(v).max()) * max(1.0, np.abs(w).max(), radius) * len(v)
    raw = penalty.value(w) + penalty.conjugate(v, radius)[0] - v @ w
    assert raw >= -tolerance("projection") * size
    if not penalty.smooth or not penalty.bounded:
        assert abs(penalty.gap(w, v, radius) - max(raw, 0.0)) <= tolerance("projection") * size


@EACH
@FEW
@given(w=VECTORS, seed=st.integers(0, 99))
def test_penalty_gap_is_zero_at_a_subgradient(name, w, seed):
    """v = l2·w + l1·sign(w) + a normal of the ball at w."""
    penalty = PENALTIES[name]
    rng = np.random.default_rng(seed)
    free = rng.uniform(-1, 1, size=len(w))
    if penalty.ball is not None:
        w = penalty.ball.prox(w, 1.0)
    v = penalty.l2 * w + penalty.l1 * np.where(w != 0, np.sign(w), free)
    if isinstance(penalty.ball, L2Ball) and np.linalg.norm(w) >= penalty.ball.radius * (1 - 1e-12):
        v = v + 0.7 * w
    if isinstance(penalty.ball, L1Ball) and np.abs(w).sum() >= penalty.ball.radius * (1 - 1e-12):
        v = v + 0.7 * np.where(w != 0, np.sign(w), free)
    radius = 1e3 + float(np.linalg.norm(w))
    gap = penalty.gap(w, v, radius)
    assert gap <= tolerance("projection") * max(1.0, np.abs(v).max()) * max(
        1.0, np.abs(w).max(), radius
    ) * len(w)


def test_smooth_penalty_gap_has_no_cancellation():
    penalty, w = Penalty(1e-3), np.array([1e6, -1e6])
    v = penalty.l2 * w + np.array([1e-9, 0.0])
    rest = penalty.l2 * w - v
    assert penalty.gap(w, v) == float(rest @ rest) / 2e-3
    assert penalty.gap(w, penalty.l2 * w) == 0.0


def test_penalty_cvxpy_form_is_the_value():
    for penalty in PENALTIES.values():
        for v in points(5):
            w = penalty.prox(v, 0.5)
            variable = cp.Variable(len(w))
            term, constraints = penalty.cvxpy(variable)
            variable.value = w
            assert close(float(getattr(term, "value", term)), penalty.value(w), "summation")
            assert all(constraint.violation() <= tolerance("summation") for constraint in constraints)
            assert len(constraints) == (penalty.ball is not None)


@pytest.mark.parametrize("size", [1e100, 1e155, 1e200])
@pytest.mark.parametrize("large", ["point", "slope", "both"])
def test_a_gap_that_overflows_is_infinite_and_no_warning(size, large):
    w, v = np.ones(2), np.ones(2)
    w, v = (w * size if large != "slope" else w), (-v * size if large != "point" else v)
    for penalty in (Penalty(l2=0.5), Penalty(l2=0.5, l1=0.1)):
        rest = 0.5 * w - v
        found = penalty.gap(w, v)
        if size == 1e100:  # to this size nothing else counts
            assert found == pytest.approx(float(rest @ rest), rel=tolerance("summation"))
        else:
            assert found == np.inf
