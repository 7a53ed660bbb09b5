"""Losses and prices of one's own that are read from their atoms: all that other expressions have follows."""

from __future__ import annotations

import numpy as np
import pytest

import convexrank as cr
from convexrank import atoms, losses, prices
from convexrank.backend.traced import Traced
from convexrank.modelling import functions, mean, pair_sums, rules, tracing
from convexrank.modelling.expressions import Elementwise
from tests.tolerances import tolerance

RNG = np.random.default_rng(3)
X = RNG.normal(size=(30, 3))
Y = (X[:, 0] + RNG.normal(size=30) > 0.3).astype(int)
QID = np.repeat([4, 2, 9], 10)
LIGHT = np.full(30, 0.1)

READ = {
    "steeper": lambda z: atoms.softplus(2.0 * (1.0 - z)),
    "wider": lambda z: atoms.square(atoms.positive(2.0 - z)),
    "cube": lambda z: atoms.positive(1.0 - z) ** 3,
    "a sum": lambda z: atoms.exp(-z) + atoms.softplus(-z) / 3.0,
    "two corners": lambda z: atoms.positive(0.3 - z) + 0.5 * atoms.positive(-z),
    "a maximum": lambda z: 2.0 * atoms.maximum(1.0 - z, 0.0),
    "a power of an exponential": lambda z: atoms.exp(-z) ** 1.5,
    "a logarithm of one": lambda z: atoms.log1p(atoms.exp(1.0 - z)),
}
UNREAD = {
    "the larger of two": lambda z: atoms.maximum(atoms.softplus(-z), atoms.positive(-2.0 * z)),
    "an offset": lambda z: atoms.softplus(-z) + 1.0,
    "huber of a corner": lambda z: atoms.huber(atoms.positive(1.0 - z)),
}
PRICES = {
    "square": lambda r: r + atoms.square(r),
    "power": lambda r: r + r**8,
    "excess": lambda r: atoms.positive(r - 0.5) + 0.1 * r,
    "squared excess": lambda r: atoms.square(atoms.positive(r - 1.0)),
    "shifted": lambda r: (1.0 + r) ** 3,
    "exp": lambda r: atoms.exp(0.5 * r) - 1.0,
}


def problems(loss):
    """Formulations that take a loss of pairs, of margins, of listed pairs, and by queries and grades."""
    grades = np.clip(np.round(X[:, 1] + 1.0), 0, 3)
    return [
        cr.problems.Push(X, Y, "identity", loss, l2=0.1, sample_weight=0.5 + Y),
        cr.problems.ConvexRisk(X, grades, loss, qid=QID, l2=0.1),
        cr.problems.RmaxPush(X, Y, loss, l2=0.1, qid=QID),
        cr.problems.SpectralPush(X, Y, ("top", 0.3), loss, l2=0.1),
        cr.problems.PartialAUC(X, Y, 0.4, loss, 0.3, l2=0.1),
        cr.problems.CrucialPairs(X, [[0, 1], [0, 2], [3, 1]], loss=loss, l2=0.1),
        cr.problems.PairRule(X[:6], np.arange(3.0), None, loss, l2=0.1),
    ]


def careful(z):
    """A loss that looks at what it is given, and raises an error of its own."""
    if isinstance(z, Traced):
        raise RuntimeError("no number")
    return atoms.softplus(1.0 - z)


def test_a_function_that_raises_its_own_error_is_not_read():
    problem = cr.problems.Push(X, Y, "identity", losses.Custom(careful), l2=0.1)
    assert own_functions(problem)
    w = np.array([0.3, -0.2, 0.1])
    expected = problem.definition(X @ w) + 0.05 * w @ w
    assert problem.objective(w) == pytest.approx(expected, rel=tolerance("summation"))


def own_functions(problem):
    """Functions of the expression that are known by their call alone."""
    nodes = [node for node in problem.program.nodes if hasattr(node, "function")]
    return [node for node in nodes if node.function.own is not None]


@pytest.mark.parametrize("name", READ)
def test_a_loss_that_is_read_has_all_that_known_ones_have(name, tmp_path):
    """What is read has known functions alone, which every formulation is solved and proved with elsewhere.

    So each loss is solved in one of the formulations, and each of those with a loss; all pairs have their value.
    """
    place, found = list(READ).index(name), problems(losses.Custom(READ[name]))
    for problem in found:
        assert not own_functions(problem)
        for w in RNG.normal(size=(3, 3)):
            expected = problem.definition(problem.X @ w) + 0.05 * w @ w
            assert problem.objective(w) == pytest.approx(expected, rel=tolerance("summation"))
    problem = found[place % len(found)]
    solution, exact = problem.solve(), problem.solve("exact")
    assert abs(solution.value - exact.value) <= solution.gap + exact.gap + tolerance("two solvers")
    assert problem.dual().solve(tol=1e-5).converged
    proof = problem.prove(solution)
    assert proof.kind == "global"
    assert proof.gap <= 2.0 * solution.gap + tolerance("summation")
    assert problem.export(solution, tmp_path / "proof").exists()


@pytest.mark.parametrize("loss", ["exponential", "squared_hinge", "hinge"])
@pytest.mark.parametrize("name", PRICES)
def test_a_price_that_is_read_has_all_that_known_ones_have(name, loss, tmp_path):
    problem = cr.problems.Push(X, Y, prices.Custom(PRICES[name]), loss, l2=0.1, sample_weight=LIGHT)
    assert not own_functions(problem)
    for w in RNG.normal(size=(3, 3)):
        expected = problem.definition(X @ w) + 0.05 * w @ w
        assert problem.objective(w) == pytest.approx(expected, rel=tolerance("summation"))
    solution = problem.solve()
    assert solution.converged
    proof = problem.prove(solution)
    assert proof.gap <= 2.0 * solution.gap + tolerance("summation")
    assert problem.export(solution, tmp_path / "proof").exists()


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_no_sum_of_known_functions_stays_a_function(name):
    problem = cr.problems.Push(X, Y, "identity", losses.Custom(UNREAD[name]), l2=0.1)
    assert len(own_functions(problem)) == 1
    w = np.array([0.3, -0.2, 0.5])
    assert problem.objective(w) == pytest.approx(problem.definition(X @ w) + 0.05 * w @ w)
    assert problem.solve().converged


def test_losses_of_known_form_become_known_ones():
    """Half a hinge is no slower than a hinge: its pairs are sorted, and the exponential has none."""

    def functions_of(function):
        root = cr.problems.Push(X, Y, "identity", losses.Custom(function), l2=0.1).program
        return {node.function.name for node in root.nodes if hasattr(node, "function")}

    assert functions_of(lambda z: 0.5 * atoms.positive(1.0 - z)) == {"hinge"}
    assert functions_of(lambda z: atoms.square(atoms.positive(1.0 - z))) == {"squared_hinge"}
    assert functions_of(lambda z: atoms.exp(-2.0 * z)) == {"exp"}


class Own(cr.Formulation):
    loss: object = None
    price: object = None

    def risk(self, f):
        return mean(prices.priced(self.price, pair_sums(self.loss, f.positive, f.negative)))


def test_a_name_that_is_given_is_what_formulas_print():
    loss = losses.Custom(READ["two corners"], name="corners", latex=r"\ell_m")
    price = prices.Custom(PRICES["power"], name="steep", latex="g_8")
    known = losses.Hinge(), prices.Power(2)
    for used, signs in (
        ((loss, price), (r"\ell_m", "g_8")),
        ((loss, known[1]), (r"\ell_m",)),
        ((known[0], price), ("g_8",)),
    ):
        problem = Own(X, Y, loss=used[0], price=used[1], l2=0.1)
        assert not own_functions(problem)
        assert all(sign in problem.formula() for sign in signs)
        plain = Own(X, Y, l2=0.1, loss=losses.Custom(READ["two corners"]) if used[0] is loss else known[0],
                    price=prices.Custom(PRICES["power"]) if used[1] is price else known[1])  # fmt: skip
        assert not any(sign in plain.formula() for sign in signs)
        assert problem.objective(np.ones(3)) == plain.objective(np.ones(3))
        assert problem.prove(problem.solve()).kind == "global"
    assert "steep(pair_sums(corners, positive, negative))" in str(
        Own(X, Y, loss=loss, price=price).program.printed
    )


def by_type(z):
    """Another function for expressions than for numbers."""
    return atoms.softplus(-z) if isinstance(z, float | np.ndarray) else 2.0 * atoms.softplus(-z)


@pytest.mark.parametrize(
    "function", [by_type, lambda z: 1e20 * atoms.positive(-1e-20 * z)], ids=["type", "digits"]
)
def test_a_function_that_has_other_values_at_numbers_is_not_read(function):
    assert tracing.pieces(function) is None
    leaf = cr.problems.PNormPush(X, Y, 2.0, l2=0.1).program.nodes[0]
    assert tracing.traced(function, leaf) is None
    assert tracing.traced(READ["steeper"], leaf) is not None


@pytest.mark.parametrize(
    ("atom", "wrong"),
    [
        ("positive", rules.hinge),
        ("power", lambda x, p: rules.power(x, p + 1e-6)),
        ("softplus", lambda x: rules.softplus(2.0 * x)),
    ],
)
def test_an_atom_that_is_read_wrongly_is_noticed(atom, wrong, monkeypatch):
    """A planted bug: numbers differ when it is read; without that the second statement, which calls the function."""
    function = {"positive": READ["two corners"], "power": READ["cube"], "softplus": READ["steeper"]}[atom]
    loss = losses.Custom(lambda z: function(z))  # one that was not read before
    monkeypatch.setitem(tracing._ATOMS, atom, wrong)
    assert tracing.pieces(loss) is None
    tracing.pieces.cache_clear()
    monkeypatch.setattr(tracing, "_agrees", lambda *_: True)
    assert not cr.verify(cr.problems.Push(X, Y, "identity", loss, l2=0.1)).ok
    tracing.pieces.cache_clear()


def test_a_power_of_a_positive_part_is_one_function():
    leaf = cr.problems.PNormPush(X, Y, 2.0, l2=0.1).program.nodes[0]
    found = rules.power(rules.hinge(leaf), 2.0)
    assert isinstance(found, Elementwise)
    assert found.function is functions.squared_hinge
    assert rules.power(rules.hinge(leaf), 3.0).function.name == "power(3)"
    x = np.linspace(-3.0, 3.0, 31)
    cubes = rules.power(rules.hinge(leaf), 3.0)
    values = cubes.function.slopes(x + 1.0)[0]
    assert np.allclose(values, np.maximum(1.0 + x, 0.0) ** 3)
