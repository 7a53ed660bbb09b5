"""The second statement of every problem, its definition: it agrees everywhere, and the verifier notices where not."""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
import pytest

import convexrank as cr
from convexrank import divergences, losses, prices
from convexrank.core.capabilities import has_objective
from convexrank.data import QueryGroups, as_groups
from convexrank.modelling import log_sum_exp, mean, softplus, total
from convexrank.modelling.groups import Groups
from convexrank.problems import REGISTRY, LearnedDivergence, MarginRetargeting, PageRankGame, Retargeting
from convexrank.problems._linear_scores import LinearScores
from tests.tolerances import tolerance

pytestmark = pytest.mark.filterwarnings("ignore:.*trivial minimum:convexrank.ConvergenceWarning")

STATED = [name for name, cls in REGISTRY.items() if cls.definition is not None]
EVERY = pytest.mark.parametrize("name", STATED)
INSTANCES = 90


def close(a, b):
    return a == b or abs(a - b) <= tolerance("summation") * max(1.0, abs(a), abs(b))


def changed(problem, **arguments):
    given = {f.name: getattr(problem, f.name) for f in dataclasses.fields(problem) if f.init}
    return type(problem)(**{**given, **arguments})


def varied(name, seed):
    """A random instance; every other one with row weights, some of them 0, or with queries as groups."""
    problem, rng = REGISTRY[name].random(seed), np.random.default_rng(seed)
    fields = {field.name for field in dataclasses.fields(problem)}
    if seed % 2 and "sample_weight" in fields:
        weight = rng.choice([0.0, 0.5, 1.0, 3.0], size=problem.rows)
        for label in (np.min(problem.y), np.max(problem.y)):  # one row of each class that is left
            weight[np.flatnonzero(problem.y == label)[0]] = 2.0
        return changed(problem, sample_weight=weight)
    if seed % 2 and "qid" in fields:
        return changed(problem, qid=QueryGroups.from_qid(problem.qid))
    return problem


def points(problem, rng):
    """The start, and a point around it, ties of scores among them."""
    start = np.zeros(problem.dimension) if isinstance(problem, LinearScores) else problem.start()
    drawn = rng.normal(size=start.shape)
    moved = (
        start * np.exp(drawn) if start.any() and (start >= 0.0).all() else start + np.round(2.0 * drawn) / 2.0
    )
    return [problem.project_feasible(start), problem.project_feasible(moved)]


def evaluated(problem, x):
    """What solvers and certificates make of a point."""
    if isinstance(problem, LinearScores):
        return [
            problem._risk_and_score_gradient(problem.scores(x))[0],
            problem._reference_scores(problem.scores(x))[0],
        ]
    if has_objective(problem):
        return [problem.objective(x)]
    if "Feasibility" in problem.capabilities:
        return [problem.violation(x)]
    return [problem.distance(problem.apply_map(x), x)]


def assert_agrees(problem, x):
    stated = problem.definition(problem.scores(x) if isinstance(problem, LinearScores) else x)
    assert type(stated) is float
    for value in evaluated(problem, x):
        assert close(stated, float(value)), (stated, value)


def test_every_problem_has_a_definition_or_says_why_not():
    for name, cls in REGISTRY.items():
        assert cls.definition is not None or "_without_definition" in vars(cls), name


@EVERY
def test_definitions_agree_on_random_instances(name):
    for seed in range(INSTANCES):
        problem = varied(name, seed)
        for x in points(problem, np.random.default_rng(seed)):
            assert_agrees(problem, x)


@EVERY
def test_definitions_use_nothing_that_solvers_run(name):
    """They read the arguments of the constructor and nothing else of the problem."""
    problem = varied(name, 3)
    fields = {field.name for field in dataclasses.fields(problem)}
    seen = set()

    class Watched(type(problem)):
        def __getattribute__(self, member):
            seen.add(member)
            return super().__getattribute__(member)

    x = points(problem, np.random.default_rng(0))[1]
    of = problem.scores(x) if isinstance(problem, LinearScores) else x
    expected = problem.definition(of)
    watched = object.__new__(Watched)
    watched.__dict__.update({field: getattr(problem, field) for field in fields})
    assert watched.definition(of) == expected
    assert seen <= fields | {"definition", "__dict__", "__class__"}


def test_definitions_do_not_overflow_where_the_problem_does_not():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), np.arange(12) % 3 == 0
    far = 400.0 * rng.normal(size=2)
    for problem in (
        cr.problems.PNormPush(X, y, p=64.0),
        cr.problems.BottomPush(X, y, p=64.0),
        cr.problems.TopBottomPush(X, y, p=64.0),
        cr.problems.TopPush(X, y),
        cr.problems.IRPush(X, y),
        cr.problems.Push(X, y, "log_one_plus"),
        cr.problems.Push(X, y, prices.Power(0.01)),
        cr.problems.CrucialPairs(X, [[0, 1], [2, 1]], "log_one_plus"),
        cr.problems.ConvexRisk(X, X[:, 0], "logistic"),
        cr.problems.ListNet(X, 900.0 * y),
        cr.problems.NDCGRegression(X, 900.0 * y, divergence="generalized_i"),
    ):
        assert_agrees(problem, far)
        assert math.isfinite(problem.definition(problem.scores(far)))
    assert (
        cr.problems.Push(X, y, 4).definition(1e3 * X[:, 0]) == math.inf
    )  # and no error, where the problem does


def test_losses_and_prices_of_your_own_are_called():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9, 2)), np.arange(9) % 3 == 0
    loss = losses.Custom(lambda z: cr.atoms.square(cr.atoms.positive(2.0 - z)))
    price = prices.Custom(lambda r: r + cr.atoms.square(r))
    for problem in (
        cr.problems.Push(X, y, price, loss),
        cr.problems.Push(X, y, price),
        cr.problems.RmaxPush(X, y, loss),
        cr.problems.ConvexRisk(X, X[:, 0], losses.Logistic(base=2)),
        cr.problems.ConvexRisk(X, X[:, 0], loss),
    ):
        assert_agrees(problem, rng.normal(size=2))


def queries(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(14, 2)), rng.integers(0, 3, size=14).astype(float)
    y[:2] = 0.0, 1.0
    return rng, X, y, np.arange(14) // 5


@pytest.mark.parametrize("name", ["squared", "generalized_i", "bit_entropy", "kl"])
@pytest.mark.parametrize("order", ["hidden", "block"])
def test_retargeting_with_other_options(name, order):
    rng, X, y, qid = queries(0)
    for simplex in (True, False):
        for offsets in (None, False, True):
            try:
                problem = Retargeting(X, y, qid, name, order=order, simplex=simplex, offsets=offsets, l2=0.1)
            except ValueError:
                continue  # offsets that make the problem void
            assert_agrees(problem, rng.normal(size=2))


def test_retargeting_to_the_itakura_saito_distance():
    rng, X, y, qid = queries(1)
    assert_agrees(Retargeting(X, y, qid, "itakura_saito", l2=0.1), rng.normal(size=2))


@pytest.mark.parametrize("cost", ["exponential", "logistic", "hinge", "squared_hinge"])
def test_the_convex_risk_is_a_sum_over_queries(cost):
    """Also with weights, of which some are 0, and with a query without an order."""
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(24, 2)), rng.integers(0, 3, size=24), np.repeat([4, 2, 7, 9], 6)
    y[18:], w = 1, rng.normal(size=2)
    weights = rng.choice([0.0, 1.0, 2.0], size=24, p=[0.2, 0.5, 0.3])
    for counts in (None, weights):
        given = lambda rows: None if counts is None else counts[rows]  # noqa: B023, E731
        problem = cr.problems.ConvexRisk(X, y, cost, qid=qid, sample_weight=given(slice(None)), l2=0.1)
        assert_agrees(problem, w)
        parts = [
            cr.problems.ConvexRisk(X[rows], y[rows], cost, sample_weight=given(rows))
            for rows in (qid == query for query in (2, 4, 7))
        ]
        assert close(problem.objective(w) - 0.05 * w @ w, sum(part.objective(w) for part in parts))


def test_a_divergence_of_your_own_is_called():
    rng, X, y, qid = queries(4)
    atoms = cr.atoms
    own = divergences.FromGenerator(
        lambda x: atoms.x_log_x(x) - x, lower=0.0, conjugate_function=lambda theta: atoms.exp(theta)
    )
    w = rng.normal(size=2)
    found = [Retargeting(X, y, qid, phi, simplex=False, l2=0.1) for phi in (own, "generalized_i")]
    assert close(*(problem.definition(problem.scores(w)) for problem in found))
    assert_agrees(MarginRetargeting(X, y, qid, own, bound=8.0, l2=0.1), w)


@pytest.mark.parametrize("name", ["squared", "generalized_i", "bit_entropy", "kl"])
def test_margin_retargeting_with_a_centre(name):
    rng, X, y, qid = queries(2)
    options = {"generalized_i": {"bound": 8.0}, "bit_entropy": {"margin": 0.2}, "kl": {"margin": 0.01}}
    for offsets in (True, False):
        problem = MarginRetargeting(
            X, y, qid, name, target_reg=0.5, center=rng.normal(size=14), offsets=offsets, l2=0.1,
            **options.get(name, {}),
        )  # fmt: skip
        assert_agrees(problem, rng.normal(size=2))


def test_margin_retargeting_with_one_bound():
    """With a free offset one bound is none: the offset has no best value, and values are those far away."""
    rng, X, y, qid = queries(3)
    for bound in ((-1.0, None), (None, 0.5)):
        assert_agrees(MarginRetargeting(X, y, qid, bound=bound, l2=0.1), rng.normal(size=2))


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (None, 1.0), (-0.2, None)])
@pytest.mark.parametrize("moduli", [(None, None), (0.5, None), (None, 0.8), (0.5, 1.5)])
def test_learned_divergences_in_a_range(moduli, bounds):
    rng = np.random.default_rng(0)
    y, theta = rng.uniform(size=6), 2.5 * rng.normal(size=6)
    assert_agrees(LearnedDivergence(np.eye(6), y, *moduli, output_range=bounds), theta)


def test_games_with_weights_and_with_points_that_are_no_vertices():
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    more = np.vstack([1.5 * np.eye(4) - 0.125, np.full(4, 0.25), np.eye(4)])
    squares = divergences.SquaredEuclidean((1.0, 2.0, 0.5, 3.0))
    for phi in (squares, divergences.PolytopeEntropy(more), divergences.ItakuraSaito()):
        game = PageRankGame(graph, phi)
        for x in points(game, np.random.default_rng(1)):
            assert_agrees(game, x)
        dual = game.dual()
        assert_agrees(dual, np.random.default_rng(2).normal(size=4))


def test_the_optimistic_view():
    problem = cr.problems.ConsensusRank([[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [[0.5, 0.5, 0]]])
    assert_agrees(problem, problem.start())
    assert_agrees(problem, problem.absorbed.random(np.random.default_rng(0)))


# --- planted bugs: the verifier notices -------------------------------------------------------------------------------


class Signed(cr.Formulation):
    """The IR Push with the sign of all scores exchanged, in every reading alike."""

    def risk(self, f):
        return mean(softplus(log_sum_exp(-f.negative) + f.positive))

    definition = cr.problems.IRPush.definition


class Summed(cr.Formulation):
    """The sum over positives in place of the mean."""

    def risk(self, f):
        return total(softplus(log_sum_exp(f.negative) - f.positive))

    definition = cr.problems.IRPush.definition


class Unweighted(cr.Formulation):
    """All rows weigh the same."""

    def risk(self, f):
        f = Groups(self.y, as_groups(None, self.rows), None)
        return mean(softplus(log_sum_exp(f.negative) - f.positive))

    definition = cr.problems.IRPush.definition


class Right(cr.Formulation):
    """The IR Push."""

    def risk(self, f):
        return mean(softplus(log_sum_exp(f.negative) - f.positive))

    definition = cr.problems.IRPush.definition


@pytest.mark.parametrize("wrong", [Signed, Summed, Unweighted])
def test_a_wrong_declaration_is_found_by_the_definition_alone(wrong):
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(20, 2)), np.arange(20) % 3 == 0, rng.choice([0.5, 2.0], size=20)
    assert cr.verify(Right(X, y, sample_weight=weight, l2=0.1)).ok
    report = cr.verify(wrong(X, y, sample_weight=weight, l2=0.1))
    assert report.failures
    assert all(f"the definition of {wrong.__name__} gives" in text for text in report.failures), (
        report.failures
    )


def test_the_definition_is_asked_at_the_start_at_random_points_and_at_both_answers():
    """Each of the five points alone is enough for a disagreement, which names it."""
    seen = []

    def recorded(wrong):
        def definition(self, scores):
            seen.append(scores)
            return cr.problems.IRPush.definition(self, scores) + 1e-3 * (len(seen) == wrong)

        kind = type("IRPush", (cr.problems.IRPush,), {"definition": definition})
        rng = np.random.default_rng(0)
        return dataclasses.dataclass(frozen=True, eq=False)(kind)(
            rng.normal(size=(20, 2)), np.arange(20) % 3 == 0, l2=0.1, l1=0.01
        )

    problem = recorded(0)
    assert cr.verify(problem).ok
    zero, one, other, fast, exact = seen
    assert not zero.any()
    assert one.any()
    assert np.abs(one - other).max() > 0.01
    assert np.array_equal(fast, problem.scores(problem.solve().x))
    assert np.array_equal(exact, problem.scores(problem.solve("exact").x))
    names = ("the start", "a random point", "a random point", "the fast point", "the exact point")
    for place, name in enumerate(names, start=1):
        seen.clear()
        failures = cr.verify(recorded(place)).failures
        assert len(failures) == 2  # the objective, and the certificate's value
        assert all(f"at {name}, the " in text for text in failures), failures
        assert len(seen) == place


def test_points_of_distributions_stay_distributions():
    """Around a start that is positive, points are too."""
    seen = []

    def definition(self, x):
        seen.append(x)
        return cr.problems.PageRank.definition(self, x)

    kind = type("PageRank", (cr.problems.PageRank,), {"definition": definition})
    problem = dataclasses.dataclass(frozen=True, eq=False)(kind)(cr.Graph.from_edges([0, 0, 1], [1, 2, 2]))
    assert cr.verify(problem).ok
    assert len(seen) == 4  # no conic solver takes part
    assert min(x.min() for x in seen) > 0.0
    assert np.array_equal(seen[0], problem.start())
    assert all(np.abs(x - seen[0]).max() > 1e-3 for x in seen[1:])


@EVERY
def test_a_wrong_definition_is_found_in_every_problem(name):
    base = REGISTRY[name]

    def definition(self, x):
        return 1.01 * base.definition(self, x) + 1e-3

    wrong = dataclasses.dataclass(frozen=True, eq=False)(type(name, (base,), {"definition": definition}))
    report = cr.verify(wrong, instances=1, seed=1)
    assert any(f"the definition of {name} gives" in text for text in report.failures), str(report)


@pytest.mark.parametrize(
    ("shift", "words"),
    [
        (0.0, ""),
        (-1e-3, "is above .*by the primal's definition"),
        (1e-3, "leaves 0.001 to the primal's definition"),
    ],
)
@pytest.mark.parametrize(("name", "options"), [("PNormPush", {"p": 2.0}), ("RankSVM", {"normalize": False})])
def test_a_dual_is_held_against_the_definition_of_its_primal(shift, words, name, options):
    """Values near 0, and near 85."""
    base = REGISTRY[name]

    def definition(self, scores):
        return base.definition(self, scores) + shift

    kind = dataclasses.dataclass(frozen=True, eq=False)(type(name, (base,), {"definition": definition}))
    X = np.random.default_rng(0).normal(size=(20, 2))
    failures = cr.verify(kind(X, np.arange(20) % 3 == 0, l2=0.1, **options).dual()).failures
    assert bool(failures) == bool(words), failures
    assert all(re.search(words, text) for text in failures), failures


def test_the_verdict_says_what_was_not_compared():
    class Own(cr.Formulation):
        def risk(self, f):
            return mean(softplus(-f.positive)) + mean(softplus(f.negative))

    rng = np.random.default_rng(0)
    report = cr.verify(Own(rng.normal(size=(20, 2)), np.arange(20) % 3 == 0, l2=0.1))
    assert report.ok
    assert [*report.not_compared.values()] == [1]
    assert "not compared, 1 times: Own has no definition" in str(report)
    assert report.to_dict()["not_compared"] == report.not_compared
    dual = cr.verify(REGISTRY["RankingDual"], instances=1)
    assert "held against the primal's definition" in next(iter(dual.not_compared))
    assert not cr.verify(REGISTRY["IRPush"], instances=1).not_compared
    field = cr.problems.LearnedDivergence(np.eye(3), [1.0, 2.0, 3.0], 1.0, oracle="projection", l2=0.1)
    assert "a field has no objective" in next(iter(cr.verify(field).not_compared))


def test_many_rows_are_not_compared_and_the_verdict_says_so(monkeypatch):
    monkeypatch.setattr("convexrank.verification.definitions._MOST_ROWS", 10)
    problem = next(p for p in map(cr.problems.IRPush.random, range(9)) if p.rows > 10)
    assert f"loops over pairs of {problem.rows} rows" in str(cr.verify(problem))


def test_definitions_are_independent_of_kernels():
    """The module of plain functions imports the objects it takes apart, and nothing that evaluates."""
    text = Path(cr.problems.__file__).with_name("_plain.py").read_text()
    assert "pair_sums" not in text
    assert "modelling" not in text
