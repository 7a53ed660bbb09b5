"""Prices and losses: two faces of one price, flags that say the truth, custom functions accepted and refused."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convexrank as cr
from convexrank import atoms, losses, prices
from convexrank.backend import compilation
from convexrank.backend.compilation import jit
from convexrank.backend.jax_oracles import with_x64
from convexrank.core.elementwise_checks import OnGrid, follows_disciplined_rules
from convexrank.core.results import Status
from convexrank.modelling import pair_sums, total
from convexrank.problems._linear_scores import LinearScores
from tests.tolerances import tolerance

PRICES = {
    "identity": (prices.Identity(), lambda r: r),
    "power 1": (prices.Power(1.0), lambda r: r),
    "power 2.5": (prices.Power(2.5), lambda r: r**2.5),
    "power 64": (prices.Power(64.0), lambda r: r**64),
    "power 0.5": (prices.Power(0.5), math.sqrt),
    "log": (prices.LogOnePlus(), math.log1p),
    "exp": (prices.ExpPrice(), math.exp),
    "exp 0.1": (prices.ExpPrice(0.1), lambda r: math.exp(0.1 * r)),
    "custom": (prices.Custom(lambda r: r + atoms.square(r)), lambda r: r + r * r),
    "custom log": (prices.Custom(lambda r: atoms.log(1 + r)), math.log1p),
    "custom kink": (prices.Custom(lambda r: atoms.maximum(r, 2.0)), lambda r: max(r, 2.0)),
    "custom 1.1**r": (prices.Custom(lambda r: 1.1**r), lambda r: 1.1**r),
}


def plain_logistic(z):
    return max(-z, 0.0) + math.log1p(math.exp(-abs(z)))


LOSSES = {
    "exponential": (losses.Exponential(), lambda z: math.exp(-z)),
    "logistic": (losses.Logistic(), plain_logistic),
    "logistic 2": (losses.Logistic(base=2), lambda z: plain_logistic(z) / math.log(2)),
    "hinge": (losses.Hinge(), lambda z: max(1 - z, 0.0)),
    "squared hinge": (losses.SquaredHinge(), lambda z: max(1 - z, 0.0) ** 2),
    "custom hinge": (losses.Custom(lambda z: atoms.positive(2 - z)), lambda z: max(2 - z, 0.0)),
    "custom huber": (
        losses.Custom(lambda z: atoms.huber(atoms.positive(1 - z))),
        lambda z: 0.5 * max(1 - z, 0.0) ** 2 if z > 0 else 0.5 - z,
    ),
    "custom logistic": (losses.Custom(lambda z: atoms.softplus(-z)), plain_logistic),
}  # fmt: skip
FEW = settings(max_examples=20)  # of each of many prices and losses
PRICED = pytest.mark.parametrize("name", list(PRICES))
LOST = pytest.mark.parametrize("name", list(LOSSES))


def agree(a, b, name="atoms"):
    return abs(a - b) <= tolerance(name) * max(1.0, abs(a), abs(b))


@pytest.mark.parametrize(("module", "table"), [(prices, PRICES), (losses, LOSSES)], ids=["prices", "losses"])
def test_every_price_and_loss_is_in_the_table(module, table):
    shipped = {name for name in module.__all__ if dataclasses.is_dataclass(getattr(module, name))}
    assert {type(entry).__name__ for entry, _ in table.values()} == shipped


# --- values -------------------------------------------------------------------------------------------------------


@PRICED
@FEW
@given(a=st.floats(-20, 6))
def test_two_faces_of_one_price(name, a):
    price, plain = PRICES[name]
    r = math.exp(a)
    assert agree(float(price.g(r)), plain(r), "summation")
    # h works with the logarithm: of e^64a both have the relative error of 64a
    assert agree(float(price.h(a)), plain(r), "summation")
    assert agree(float(price.h(cp.Constant(a)).value), plain(r), "summation")


@LOST
@FEW
@given(z=st.floats(-30, 30))
def test_losses_are_their_formulas(name, z):
    loss, plain = LOSSES[name]
    assert agree(float(loss(z)), plain(z))
    assert agree(float(loss(cp.Constant(z)).value), plain(z))
    with jax.enable_x64(True):
        assert agree(float(jit(loss, small=True)(z)), plain(z))


def test_far_away_nothing_is_lost():
    assert prices.LogOnePlus().h(1e4) == 1e4
    assert prices.Custom(lambda r: atoms.log(1 + r + r**2)).h(1e4) == 2e4
    assert losses.Logistic()(-1e4) == 1e4
    assert losses.Logistic()(1e4) == 0.0
    assert prices.Power(2.0).h(-1e4) == 0.0


# --- flags, verified numerically ----------------------------------------------------------------------------------

R = np.concatenate([[0.0], np.logspace(-3, 2, 200)])
A = np.linspace(-7, 4.6, 200)
Z = np.linspace(-8, 8, 321)


def bends_up(function, grid):
    """Whether all slopes grow: convexity on a grid."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.array([float(function(x)) for x in grid])
        slopes = np.diff(values) / np.diff(grid)
        slopes = slopes[np.isfinite(slopes)]
        scale = np.maximum(np.abs(slopes[1:]), np.abs(slopes[:-1]))
    return bool((np.diff(slopes) >= -tolerance("finite differences") * np.maximum(scale, 1.0)).all())


def jumps(function, places):
    """Whether the slope differs on the two sides of one of the places."""
    step = 1e-6
    for x in places:
        left, middle, right = (float(function(x + s * step)) for s in (-1, 0, 1))
        if abs((right - middle) - (middle - left)) / step > tolerance("kink"):
            return True
    return False


def false_flags(price, plain):
    """Names of the flags of a price that its plain function contradicts."""
    found = {
        "convex": bends_up(plain, R),
        "log_convex": bends_up(lambda a: plain(math.exp(a)), A),
        "smooth": not jumps(plain, [0.5, 1.0, 2.0, 3.0]),
    }
    return [flag for flag, truth in found.items() if getattr(price, flag) is not truth]


@PRICED
def test_declared_flags_of_prices_are_true(name):
    price, plain = PRICES[name]
    if name != "power 64":  # whose second differences leave the range of the table
        assert false_flags(price, plain) == []
    assert all(plain(x) <= plain(y) for x, y in itertools.pairwise(R))
    assert plain(0.0) >= 0


@pytest.mark.parametrize("flag", ["convex", "log_convex", "smooth"])
def test_a_planted_wrong_flag_of_a_price_is_caught(flag):
    for price, plain in (PRICES["power 0.5"], PRICES["custom kink"], PRICES["identity"]):
        wrong = type(
            "Wrong",
            (),
            {"g": price.g, "convex": price.convex, "log_convex": price.log_convex, "smooth": price.smooth},
        )
        setattr(wrong, flag, not getattr(price, flag))
        assert false_flags(wrong, plain) == [flag]


def false_loss_flags(loss, plain):
    """Names of the flags of a loss that its plain function contradicts."""
    wrong = []
    if loss.smooth is not (not jumps(plain, [0.0, 1.0, 2.0])):
        wrong.append("smooth")
    if loss.attained is not (plain(50.0) == 0.0):
        wrong.append("attained")
    products = all(
        agree(plain(x - y), plain(x) * plain(-y), "summation") for x, y in ((0.3, 1.0), (-1.0, 2.0))
    )
    if loss.factorises and not (products and agree(plain(0.7), math.exp(-0.7))):
        wrong.append("factorises")
    if loss.polynomial is not None:
        total = [sum(c * max(1 - z, 0.0) ** m for m, c in enumerate(loss.polynomial)) for z in Z]
        if not all(agree(v, plain(z)) for v, z in zip(total, Z, strict=True)):
            wrong.append("polynomial")
    if not bends_up(plain, Z) or any(plain(x) < plain(y) for x, y in itertools.pairwise(Z)):
        wrong.append("convex, non-increasing")
    return wrong


@LOST
def test_declared_flags_of_losses_are_true(name):
    assert false_loss_flags(*LOSSES[name]) == []


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("smooth", True),
        ("attained", False),
        ("polynomial", (0.0, 1.0, 0.1)),
        ("polynomial", (0.5, 1.0)),
        ("factorises", True),
    ],
)
def test_a_planted_wrong_flag_of_a_loss_is_caught(flag, value):
    hinge, plain = LOSSES["hinge"]
    wrong = type(
        "Wrong", (), {k: getattr(hinge, k) for k in ("smooth", "attained", "polynomial", "factorises")}
    )
    setattr(wrong, flag, value)
    assert false_loss_flags(wrong, plain) == [flag]


def test_a_planted_increasing_loss_is_caught():
    assert "convex, non-increasing" in false_loss_flags(losses.Hinge(), lambda z: max(1 + z, 0.0))


# --- custom prices ------------------------------------------------------------------------------------------------

ACCEPTED = {
    # name: function, (convex, log_convex, smooth)
    "square": (atoms.square, (True, True, True)),
    "r r": (lambda r: r * r, (True, True, True)),
    "sqrt": (lambda r: r**0.5, (False, True, True)),
    "log1p": (atoms.log1p, (False, True, True)),
    "log(1 + r)": (lambda r: atoms.log(1 + r), (False, True, True)),
    "cube of 1 + r": (lambda r: (1 + r) ** 3, (True, True, True)),
    "exp": (lambda r: atoms.exp(r) - 1, (True, True, True)),
    "r²/(1 + r)": (lambda r: r**2 / (1 + r), (True, True, True)),
    "1.1**r": (lambda r: 1.1**r, (True, True, True)),
    "huber": (lambda r: atoms.huber(r, 3.0), (True, True, True)),
    "squared excess": (lambda r: atoms.square(atoms.positive(r - 1)), (True, True, True)),
    "softplus": (lambda r: atoms.softplus(100 * (r - 5)), (True, True, True)),
    "cancellation": (lambda r: (r + 1e6) ** 2 - 1e12, (True, True, True)),
    "positive part": (atoms.positive, (True, True, True)),
    "excess": (lambda r: atoms.positive(r - 2), (True, True, False)),
    "at least": (lambda r: atoms.maximum(r, 1.0), (True, True, False)),
    "small kink": (lambda r: r + 1e-5 * atoms.positive(r - 7.3), (True, True, False)),
    "kink in a steep price": (lambda r: r**3 + atoms.positive(r - 333.3), (True, True, False)),
    "pieces": (lambda r: r + atoms.maximum(3 * r - 10, 0.0) + atoms.positive(r - 40), (True, True, False)),
}


@pytest.mark.parametrize("name", list(ACCEPTED))
def test_flags_of_custom_prices(name):
    function, flags = ACCEPTED[name]
    price = prices.Custom(function)
    assert (price.convex, price.log_convex, price.smooth) == flags
    assert f"price=Custom({function.__name__})" in repr(cr.PushRanker(price=price))


REFUSED = {
    # name: function, what the message must say
    "negative": (lambda r: atoms.square(r) - 1, r"g\(r\) is negative: -1 at 0;"),
    "negative, steep": (lambda r: atoms.exp(r) - 2, r"negative: -1 at 0;"),
    "decreasing": (lambda r: atoms.exp(-r), r"decreasing: from 1 at 0 to"),
    "decreasing first": (lambda r: atoms.square(r - 5), r"decreasing: from 25 at 0"),
    "decreasing in log": (lambda r: atoms.square(atoms.log(r)), r"decreasing: from .* at 0.0001"),
    "neither convex": (
        lambda r: r / (1 + r),
        r"g\(r\) is not convex: .* around .* h\(a\) .* is not convex: .* around",
    ),
    "NaN": (lambda r: atoms.log(r - 1), r"NaN at 0;"),
    "minus infinity": (atoms.log, r"negative: -inf at 0;"),
    "one number": (lambda r: 1.0, r"shape \(\) for input shape"),
    "sum": (atoms.sum, r"not elementwise|elementwise"),
    "log_sum_exp": (atoms.log_sum_exp, "elementwise"),
    "normalised": (lambda r: r / (1 + atoms.sum(r)), "not elementwise: at"),
    "slice": (lambda r: r[:3], "atoms"),
    "numpy": (lambda r: np.exp(1e-3 * r), r"could not be evaluated.*convexrank\.atoms"),
    "numpy maximum": (lambda r: np.maximum(r, 1), r"could not be evaluated.*atoms\.maximum"),
    "math": (lambda r: math.exp(1e-3 * r), r"could not be evaluated.*convexrank\.atoms"),
    "branch": (lambda r: r if r > 1 else 0 * r, r"could not be evaluated.*Python's if"),
    "max": (lambda r: max(r, 1), r"could not be evaluated.*atoms\.maximum"),
    "cvxpy": (cp.square, r"could not be evaluated.*convexrank\.atoms"),
    "None": (lambda r: None, "could not be evaluated"),
    "text": (lambda r: "r", "could not be evaluated"),
    "complex": (lambda r: 1j * r, "complex"),
    "steps": (lambda r: 2 * (r > 3), r"g\(r\) is not convex: .* h\(a\) .* is not convex"),
    "raises": (lambda r: 1 / 0, "ZeroDivisionError: division by zero"),
    "two arguments": (lambda r, s: r, "missing 1 required positional argument"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_bad_custom_prices_are_refused(name):
    function, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        prices.Custom(function)


@pytest.mark.parametrize(
    ("function", "most"),
    [
        (atoms.exp, 1),
        (lambda r: atoms.log1p(atoms.exp(r)), 1),
        (atoms.log1p, 1),
        (lambda r: r**2 / (1 + r), 1),
    ]
    + [(lambda r: (r**3 + r) ** 0.5, 2)],
)
def test_a_face_of_a_custom_price_is_compiled_once_at_most(monkeypatch, function, most):
    monkeypatch.setenv("CONVEXRANK_CACHE_DIR", "off")
    compiled = []
    compile_ = jax.stages.Lowered.compile
    monkeypatch.setattr(
        jax.stages.Lowered, "compile", lambda self, *args: compiled.append(self) or compile_(self, *args)
    )
    prices.Custom(function)
    assert 1 <= len(compiled) <= most


def test_options_that_xla_does_not_know_change_nothing(monkeypatch):
    monkeypatch.setattr(compilation, "UNOPTIMISED", {"xla_no_such_option": 1})
    compilation._unoptimised.cache_clear()
    assert prices.Custom(lambda r: r**2 / (1 + r)).convex
    assert compilation._unoptimised() is None
    monkeypatch.undo()
    compilation._unoptimised.cache_clear()
    assert compilation._unoptimised() == compilation.UNOPTIMISED


def test_a_price_that_is_no_function_is_refused():
    for made in (prices.Custom, losses.Custom):
        with pytest.raises(TypeError, match="is 3, expected a function"):
            made(3)


def test_a_custom_price_is_immutable_and_hashable():
    price = prices.Custom(atoms.square)
    assert price == prices.Custom(atoms.square)
    assert hash(price) == hash(prices.Custom(atoms.square))
    with pytest.raises(dataclasses.FrozenInstanceError):
        price.convex = False


# --- custom losses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "smooth", "attained"),
    [
        (lambda z: atoms.positive(1 - z), False, True),
        (lambda z: atoms.square(atoms.positive(1.3 - z)), True, True),
        (lambda z: atoms.exp(-z), True, False),
        (lambda z: atoms.exp(-25 * z), True, False),  # underflows to 0 without ever being 0
        (lambda z: atoms.softplus(-z), True, False),
        (lambda z: atoms.log(1 + atoms.exp(-z)), True, False),
        (lambda z: atoms.huber(atoms.positive(1.3 - z)), True, True),
        (lambda z: atoms.exp(-z) + 1e-3 * atoms.positive(0.1 - z), False, False),
        (lambda z: atoms.maximum(-z, 0.0), False, True),
        (lambda z: 1 + atoms.exp(-z), True, False),
    ],
)
def test_flags_of_custom_losses_are_found(function, smooth, attained):
    loss = losses.Custom(function)
    assert (loss.smooth, loss.attained) == (smooth, attained)


def test_flags_of_custom_losses_may_be_given():
    loss = losses.Custom(lambda z: atoms.exp(-z), smooth=False, attained=True)
    assert (loss.smooth, loss.attained) == (False, True)
    assert repr(loss) == "Custom(<lambda>, smooth=False, attained=True)"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda z: atoms.softplus(z),
            r"is increasing: .* non-increasing in z = .* pass lambda z: function\(-z\)",
        ),
        (
            lambda z: (1 - z) ** 2,
            r"is increasing: from 0 at 1 to .* cut it off: atoms.positive\(1 - z\)\*\*2",
        ),
        (lambda z: -z, "negative: -0.25 at 0.25"),
        (lambda z: 1 / (1 + atoms.exp(z)), "not convex: .* around"),
        (lambda z: atoms.log(1 - z), "NaN"),
        (lambda z: np.maximum(1 - z, 0), "could not be evaluated"),
        (lambda z: 1 - z if z < 1 else 0 * z, "Python's if"),
        (lambda z: atoms.sum(atoms.exp(-z)), "elementwise"),
        (lambda z: 1.0, "shape"),
    ],
)
def test_bad_custom_losses_are_refused(function, words):
    with pytest.raises(ValueError, match=words):
        losses.Custom(function)


def test_a_custom_loss_is_shown_by_its_name_and_of_the_margin():
    def two_wide(z):
        return atoms.positive(2.0 - z)

    for function, word in ((two_wide, r"two\_wide"), (lambda z: atoms.positive(2.0 - z), "loss")):
        phi = losses.Custom(function).phi
        assert phi.latex("f_k - f_i") == rf"\operatorname{{{word}}}\bigl(-(f_k - f_i)\bigr)"
        assert phi.name == word.replace("\\", "")


def test_a_kinked_loss_said_to_be_smooth_is_refused():
    with pytest.raises(ValueError, match=r"slope jumps at z = 1;"):
        losses.Custom(lambda z: atoms.positive(1 - z), smooth=True)


# --- names and objects --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [2, 2.0, np.int64(2), np.float32(2), np.float64(2)])
def test_a_number_is_a_power(number):
    assert prices.resolve(number) == prices.Power(2.0)


def test_names_are_resolved():
    assert prices.resolve("identity") == prices.Identity()
    assert prices.resolve("log_one_plus") == prices.LogOnePlus()
    assert prices.resolve("exp") == prices.ExpPrice()
    assert [losses.resolve(name) for name in ("exponential", "hinge", "logistic", "squared_hinge")] == [
        losses.Exponential(), losses.Hinge(), losses.Logistic(), losses.SquaredHinge()
    ]  # fmt: skip
    for thing in (prices.Power(3.0), losses.Hinge()):
        resolve = prices.resolve if isinstance(thing, prices.Power) else losses.resolve
        assert resolve(thing) is thing


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ("cubic", ValueError, "'cubic', expected one of: exp, identity, log_one_plus"),
        (True, TypeError, "True"),
        (None, TypeError, "log_one_plus"),
        (prices.Power, TypeError, r"such as prices\.Power\(4\)"),
        (lambda r: r, TypeError, "identity"),
        (losses.Hinge(), TypeError, "identity"),
        (0, ValueError, "greater than 0"),
        (-1.0, ValueError, "-1.0"),
        (math.nan, ValueError, "nan"),
        (math.inf, ValueError, "TopPush"),
        (np.float32("inf"), ValueError, "TopPush"),
    ],
)
def test_other_prices_are_refused(value, error, words):
    with pytest.raises(error, match=words):
        prices.resolve(value)


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        (
            "hing",
            ValueError,
            "'hing' .*'hinge'.*, expected one of: exponential, hinge, logistic, squared_hinge",
        ),
        (True, TypeError, "exponential, hinge, logistic, squared_hinge"),
        (None, TypeError, "None"),
        (2.0, TypeError, "2.0"),
        (losses.Hinge, TypeError, r"such as losses\.Hinge\(\)"),
        (lambda z: z, TypeError, "squared_hinge"),
        (prices.Power(2), TypeError, "squared_hinge"),
    ],
)
def test_other_losses_are_refused(value, error, words):
    with pytest.raises(error, match=words):
        losses.resolve(value)


@pytest.mark.parametrize("base", [1, 0.5, -2, math.nan, math.inf])
def test_bad_bases_are_refused(base):
    with pytest.raises(ValueError, match=f"base is {base}"):
        losses.Logistic(base)


@pytest.mark.parametrize("value", ["a", None, True, [2.0], 2j])
def test_numbers_are_asked_for(value):
    for made in (prices.Power, prices.ExpPrice, losses.Logistic):
        with pytest.raises(TypeError, match="expected a real number"):
            made(value)


@dataclasses.dataclass
class _Unhashable:
    convex = log_convex = True

    def g(self, r):
        return r

    def h(self, a):
        return atoms.exp(a)


def test_a_price_that_cannot_be_hashed_is_refused_with_the_way_out():
    with pytest.raises(TypeError, match=r"frozen=True"):
        prices.resolve(_Unhashable())


# --- in a problem -------------------------------------------------------------------------------------------------


def data(seed=0, rows=24):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, (X[:, 0] + rng.normal(size=rows) > 0).astype(int)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("log(1 + r)", "exponential"),
        ("pieces", "exponential"),
        ("squared excess", "hinge"),
        ("pieces", "logistic"),
        ("at least", "squared_hinge"),
    ],
)
def test_a_price_in_three_lines_end_to_end(name, loss):
    price = prices.Custom(ACCEPTED[name][0])
    problem = cr.problems.Push(*data(), price, loss, l2=1.0)
    fast, exact = problem.solve(), problem.solve("exact")
    assert fast.status is Status.CONVERGED
    assert exact.status is Status.CONVERGED
    assert abs(fast.value - exact.value) <= tolerance("two solvers") * max(1.0, abs(fast.value))
    assert problem._differentiable is (price.smooth and problem.loss.smooth)
    assert ("Smooth" in problem.capabilities) is problem._differentiable


def test_a_kinked_price_written_smooth_would_not_converge():
    """Why kinks are looked for: the planted flag sends Newton to a corner."""
    X, y = data()
    # no sum of known functions
    function = lambda r: atoms.maximum(ACCEPTED["pieces"][0](r), 1e-9 * atoms.square(r))  # noqa: E731
    price = prices.Custom(function)
    honest = cr.problems.Push(X, y, price, "logistic", l2=1.0)
    assert honest.default_solver == "bundle"
    planted = prices.Custom(function)
    object.__setattr__(planted, "smooth", True)
    lying = cr.problems.Push(X, y, planted, "logistic", l2=1.0)
    with pytest.warns(cr.ConvergenceWarning):
        assert lying.solve(max_iter=60).status is not Status.CONVERGED


def test_a_custom_loss_end_to_end():
    X, y = data()
    own = cr.problems.Push(X, y, 2, losses.Custom(lambda z: atoms.positive(1 - z)), l2=1.0)
    known = cr.problems.Push(X, y, 2, "hinge", l2=1.0)
    assert agree(own.solve().value, known.solve().value, "two solvers")
    assert agree(own.solve("exact").value, known.solve("exact").value, "two solvers")


@pytest.mark.parametrize("price", ["log_one_plus", 0.5, prices.Custom(lambda r: atoms.log(1 + r))])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge"])
def test_a_price_convex_only_in_log_needs_the_exponential_loss(price, loss):
    X, y = data()
    with pytest.raises(ValueError, match="g itself must be convex"):
        cr.problems.Push(X, y, price, loss)
    with pytest.raises(ValueError, match="g itself must be convex"):
        cr.problems.CrucialPairs(X, [[0, 1]], price, loss)
    assert cr.problems.Push(X, y, price, "exponential").capabilities


@dataclasses.dataclass(frozen=True)
class _ConvexOnlyInR:
    """Decreasing, so that h is not convex: what only a class of one's own can claim."""

    convex = True
    log_convex = False

    def g(self, r):
        return atoms.exp(-r)

    def h(self, a):
        return atoms.exp(-atoms.exp(a))


def test_a_price_not_convex_in_log_is_refused_with_the_exponential_loss():
    with pytest.raises(ValueError, match=r"h\(a\) = g\(exp a\) must be convex"):
        cr.problems.Push(*data(), _ConvexOnlyInR(), "exponential")


def test_a_price_without_a_model_says_so_when_it_is_made_and_the_fast_solver_works():
    with pytest.warns(UserWarning, match="no exact model.* cvxpy cannot read its function"):
        price = prices.Custom(abs)
    assert not price.has_model
    assert (price.convex, price.log_convex, price.smooth) == (True, True, True)
    problem = cr.problems.Push(*data(), price, "hinge", l2=1.0)
    assert problem.solve().status is Status.CONVERGED
    with pytest.raises(ValueError, match="cvxpy cannot read this function") as caught:
        problem.solve("exact")
    assert "atoms" in str(caught.value)
    assert "fast solver" in str(caught.value)
    report = cr.verify(problem)
    assert not report.ok
    assert "no exact model" in report.skipped[0]


FORMS = {
    "composed": lambda r: r + atoms.square(r),
    "epigraph": lambda r: atoms.x_log_x(1 + r) - atoms.log1p(r),  # the same as r log(1 + r)
    "nonlinear": lambda r: r * atoms.log1p(r),
    "nonlinear, quotient": lambda r: r**2 / (1 + r),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_price_that_is_beyond_the_rules_has_an_exact_model(form):
    price = prices.Custom(FORMS[form])
    assert price.has_model
    X, y = data()
    pairs = [[i, k] for i in np.flatnonzero(y)[:3] for k in np.flatnonzero(1 - y)[:4]]
    push = cr.problems.Push(X, y, price, "hinge", l2=1.0)
    assert push._model_is_nonlinear == form.startswith("nonlinear")
    if push._model_is_nonlinear:
        many = np.arange(800.0)
        with pytest.raises(ValueError, match=r"400 prices of 160000 losses in all, .*atoms\.square"):
            cr.problems.Push(many[:, None], many >= 400, price, "hinge", l2=1.0).solve("exact")
    for problem in (push, cr.problems.CrucialPairs(X, pairs, price, "exponential", l2=1.0)):
        fast, exact = problem.solve(), problem.solve("exact")
        assert exact.status is Status.CONVERGED
        assert abs(fast.value - exact.value) <= tolerance("two solvers") * max(1.0, abs(fast.value))


def test_a_sum_of_losses_may_be_a_variable():
    """Both forms of a disciplined price have one minimum; the first form of this instance stops at a gap of 0.03."""
    problem = cr.problems.Push.random(7017)
    values = []
    for model in (problem.to_cvxpy(), problem._modelled().other()):
        model.solve("CLARABEL")
        values.append(model.problem.value)
    assert values[1] == pytest.approx(values[0], rel=tolerance("two solvers"))
    assert len(problem._modelled().other().problem.variables()) == 3
    assert problem.solve("exact").status is Status.CONVERGED


# --- the checker itself -------------------------------------------------------------------------------------------

GRID = np.linspace(0, 10, 101)


def test_disciplined_rules_prove_growth_and_convexity_only():
    x, y = cp.Variable(), cp.Variable()
    rules = lambda f: follows_disciplined_rules(f, x, cp.exp(y) - 1)  # noqa: E731
    assert rules(cp.exp)
    assert rules(lambda u: cp.pos(u) + 2 * u)
    assert not rules(cp.square)  # not monotone
    assert not rules(lambda u: -u)
    assert not rules(cp.sqrt)
    assert not rules(lambda u: u.no_such_method())
    assert not rules(lambda u: 1.0)


def kink(function):
    return OnGrid(function, GRID, "f").kink()


@pytest.mark.parametrize("place", [0.05, 3.14159, 9.97])
def test_kinks_are_found_where_they_are(place):
    found = kink(lambda x: x + 0.01 * atoms.positive(x - place))
    assert abs(found - place) <= tolerance("two solvers")
    assert kink(lambda x: x + 0.01 * atoms.square(atoms.positive(x - place))) is None
    assert kink(lambda x: atoms.softplus(200 * (x - place))) is None


def test_overflow_is_left_out_but_not_minus_infinity():
    OnGrid(lambda x: atoms.exp(200 * x), GRID, "f").check()
    with pytest.raises(ValueError, match="finite at 1"):
        OnGrid(lambda x: atoms.exp(1e6 * x), GRID, "f").check()
    with pytest.raises(ValueError, match="negative: -inf"):
        OnGrid(atoms.log, GRID, "f").check()
    bent = OnGrid(lambda x: x**0.9, GRID, "f")
    bent.check(convex=False)
    with pytest.raises(ValueError, match="not convex"):
        bent.check()


# --- prices of expressions -----------------------------------------------------------------------------------------


class Priced(cr.Formulation):
    """The push objective, declared."""

    price: object = None
    loss: object = losses.Hinge()

    def risk(self, f):
        sums = pair_sums(self.loss, f.positive, f.negative)
        return total(prices.priced(self.price, sums), np.ones(len(f.negative.axis.rows)))


@dataclass(frozen=True)
class Rough:
    """A price of the caller's own class, made of functions that are no atoms."""

    convex = log_convex = smooth = True

    def g(self, r):
        return jnp.logaddexp(r, 0.0) + r

    def h(self, a):
        return self.g(atoms.exp(a))


@dataclass(frozen=True)
class Steep:
    """A loss of the caller's own class."""

    smooth = attained = True
    polynomial = None
    factorises = False

    def __call__(self, z):
        return atoms.square(atoms.positive(2.0 - z))


PRICED = {
    "identity": prices.Identity(),
    "power": prices.Power(3.0),
    "half": prices.Power(0.5),
    "log": prices.LogOnePlus(),
    "exp": prices.ExpPrice(0.1),
    "flat": prices.Custom(lambda r: atoms.positive(r - 3.0)),
    "own class": Rough(),
    **{form: prices.Custom(FORMS[form]) for form in FORMS},
}


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        (name, loss)
        for place, name in enumerate(PRICED)
        for loss in (losses.Exponential(), (losses.Logistic(2.0), Steep())[place % 2])
    ],
    ids=str,
)
def test_the_price_of_an_expression(name, loss):
    """By loops over the objects; slopes and second derivatives by differences, and by JAX."""
    price, (X, y) = PRICED[name], data()
    if name in ("half", "log") and not loss.factorises:
        with pytest.raises(TypeError, match="not convex"):
            Priced(X, y, price, loss)
        return
    problem = Priced(X, y, price, loss, l2=1.0)
    scores = X @ np.linspace(-1.0, 1.0, X.shape[1])

    def by_loops(f):
        sums = [sum(float(loss(p - q)) for p in f[y == 1]) for q in f[y == 0]]
        with with_x64():
            return sum(float(price.g(r)) for r in sums)

    value, slope = problem._risk_and_score_gradient(scores)
    assert value == pytest.approx(by_loops(scores), rel=tolerance("summation"))
    assert problem._reference_value(scores) == pytest.approx(value, rel=tolerance("summation"))
    in_jax = LinearScores._risk_and_score_gradient(problem, scores)
    assert in_jax[0] == pytest.approx(value, rel=tolerance("summation"))
    np.testing.assert_allclose(in_jax[1], slope, rtol=1e-9, atol=1e-9 * np.abs(slope).max())
    step, d = 1e-5, np.cos(np.arange(len(scores)))
    rise = (by_loops(scores + step * d) - by_loops(scores - step * d)) / (2.0 * step)
    assert rise == pytest.approx(float(slope @ d), rel=1e-5, abs=1e-6)
    assert problem._differentiable == price.smooth
    if price.smooth:
        w = np.zeros(X.shape[1])
        bend = np.stack(
            [problem.gradient(w + step * e) - problem.gradient(w - step * e) for e in np.eye(len(w))]
        )
        np.testing.assert_allclose(problem.hessian(w), bend / (2.0 * step), rtol=1e-4, atol=1e-4)
    assert problem._attained == (loss.attained or name == "flat")


@pytest.mark.parametrize("loss", [losses.Exponential(), losses.Hinge()], ids=repr)
@pytest.mark.parametrize("form", FORMS)
def test_the_price_of_an_expression_has_an_exact_model(form, loss):
    X, y = data()
    problem = Priced(X, y, prices.Custom(FORMS[form]), loss, l2=1.0)
    if isinstance(loss, losses.Hinge):
        assert problem._model_is_nonlinear == form.startswith("nonlinear")
    fast, exact = problem.solve(), problem.solve("exact")
    assert exact.status is Status.CONVERGED
    assert abs(fast.value - exact.value) <= tolerance("two solvers") * max(1.0, abs(fast.value))
    sizes = [len(model.problem.variables()) for model in (problem.to_cvxpy(), problem._modelled().other())]
    if form == "composed" and isinstance(loss, losses.Hinge):
        assert sizes == [1, 3]  # the scores, and the sums


# --- the transform of a loss ----------------------------------------------------------------------------------------

OF_LOSSES = [
    losses.Exponential(), losses.Logistic(), losses.Logistic(2.0), losses.Hinge(), losses.SquaredHinge(),
    losses.Custom(lambda z: atoms.square(atoms.positive(2.0 - z))),
]  # fmt: skip


def defined(loss, x):
    """H⁻ and H at (1 + x)/2 by a fine grid."""
    shares, a = (1 + np.asarray(x)) / 2, np.linspace(-20, 20, 40_001)
    values = shares[:, None] * np.asarray(loss(a)) + (1 - shares)[:, None] * np.asarray(loss(-a))
    wrong = np.where(a * (2 * shares[:, None] - 1) <= 0, values, np.inf)
    return wrong.min(axis=1), values.min(axis=1)


@pytest.mark.parametrize("loss", OF_LOSSES, ids=repr)
def test_psi_from_its_definition(loss):
    x = np.linspace(-0.999, 0.999, 41)
    wrong, right = defined(loss, x)
    found = loss.psi(x)
    assert np.abs(found - (wrong - right)).max() <= tolerance("conic value") * 1e3
    assert (found >= 0).all()
    # the misprint, H⁻ twice, is 0 everywhere
    assert np.abs(wrong - defined(loss, -x)[0]).max() <= tolerance("summation")


@pytest.mark.parametrize("loss", OF_LOSSES[:-1], ids=repr)
def test_closed_forms_agree_with_minimization(loss):
    x = np.array([-1.0, -0.9, -0.3, 0.0, 0.2, 0.5, 0.99, 1.0])
    custom = losses.Custom(loss)
    assert np.abs(custom.psi(x) - loss.psi(x)).max() <= tolerance("conic value")
    assert loss.psi(0.0) == 0.0


def test_psi_keeps_its_digits_near_zero():
    """ψ(x) is x²/2 (exponential) and x²/(2 ln 2) (logistic, base 2) to a relative x²."""
    x = 1e-8
    assert losses.Exponential().psi(x) == pytest.approx(x**2 / 2, rel=tolerance("atoms"))
    assert losses.Logistic(2.0).psi(x) == pytest.approx(x**2 / (2 * math.log(2)), rel=tolerance("atoms"))
    assert losses.Logistic(2.0).psi(1.0) == pytest.approx(1.0, rel=tolerance("atoms"))


@pytest.mark.parametrize("x", [1.5, [0.0, math.nan]])
def test_psi_takes_sizes(x):
    for loss in OF_LOSSES[1:4]:
        with pytest.raises(ValueError, match="x has values"):
            loss.psi(x)


def test_own_prices_and_losses_have_names_and_signs():
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2
    price = prices.Custom(lambda r: r + atoms.square(r), name="a sum", latex="g_2")
    loss = losses.Custom(lambda z: atoms.square(atoms.positive(2.0 - z)), latex=r"\ell_2")
    assert "a sum" in repr(price)
    found = cr.problems.Push(X, y, price, loss, l2=0.1)
    assert found.formula().endswith(r"g = g_2, \qquad \ell = \ell_2")
    assert not cr.problems.Push(X, y, "identity", "hinge", l2=0.1).formula().endswith("g_2")
    for word in ("name", "latex"):
        with pytest.raises(TypeError, match=f"{word} is 3, expected a word"):
            prices.Custom(lambda r: r, **{word: 3})
