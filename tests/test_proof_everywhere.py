"""Whatever has a certificate of kind "global" can be proved, and what is proved is true, also of other options."""

from __future__ import annotations

import dataclasses
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import convexrank as cr
from convexrank.problems import REGISTRY
from tests.tolerances import tolerance

pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")

from convexrank.proof import balls, learned  # needs flint


def solved(problem, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        return problem.solve(**options)


#: Formulations without a bound on value − optimum, and the kinds that they have.
OTHER_KINDS = {
    "RealizableLink": {"violation"},
    "PageRank": {"distance"},
    "LpqRank": {"distance"},
    "TrustPropagation": {"distance"},
    "PenaltyRank": {"residual"},
}


@pytest.mark.parametrize("name", [name for name in REGISTRY if name not in OTHER_KINDS])
@pytest.mark.parametrize("seed", range(30, 33))
def test_whatever_is_global_can_be_proved(name, seed):
    problem = REGISTRY[name].random(seed)
    solution = solved(problem)
    if solution.certificate.kind != "global":
        assert name == "ConsensusRank"
        assert problem.view == "projection"
        return
    proof = solution.prove()
    assert proof.proved
    assert proof.kind == "global"
    assert proof.least <= proof.gap
    assert proof.gap <= 10.0 * solution.gap + tolerance("certificate found anew") * max(1.0, abs(proof.value))
    assert math.isclose(proof.value, solution.value, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_formulations_left_out_have_no_such_bound(name):
    problem = REGISTRY[name].random(0)
    assert {problem.certificate(problem.start()).kind} == OTHER_KINDS[name]


# --- margin-equipped retargeting --------------------------------------------------------------------------------------

OPTIONS = {
    "a reward": {"margin": 0.5, "reward": 0.3},
    "bounds": {"margin": 0.5, "bound": (-1.0, 1.5)},
    "a floor": {"margin": 0.5, "bound": (0.0, None)},
    "constants": {"margin": 0.3, "reward": 0.1, "target_reg": 0.5, "score_reg": 0.2},
    "all, no offsets": {
        "reward": 0.2,
        "bound": (-2.0, 2.0),
        "target_reg": 0.5,
        "score_reg": 0.1,
        "offsets": False,
    },
    "a centre": {"target_reg": 1.0, "center": np.linspace(-1.0, 1.0, 9), "normalize": False},
    "l1 alone": {"reward": 0.2, "bound": (-2.0, 2.0), "l2": 0.0, "l1": 0.05},
    "generalized I": {"divergence": "generalized_i", "bound": 8.0},
    "generalized I, a reward": {
        "divergence": "generalized_i",
        "bound": 8.0,
        "reward": 0.1,
        "target_reg": 0.5,
    },
    "shifted": {"divergence": "shifted_generalized_i", "bound": (1.1, 8.0), "margin": 0.5},
    "bits": {"divergence": "bit_entropy", "margin": 0.2, "reward": 0.05},
    "bits, no offsets": {"divergence": "bit_entropy", "margin": 0.2, "offsets": False, "target_reg": 0.5},
    "KL": {"divergence": "kl", "margin": 0.01, "reward": 0.02},
    "KL with a centre": {
        "divergence": "kl",
        "margin": 0.0,
        "target_reg": 0.5,
        "center": np.linspace(0.0, 1.0, 9),
    },
}


def retargeting(options):
    rng = np.random.default_rng(3)
    X, y, qid = rng.normal(size=(9, 2)), [2, 0, 1, 1, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 1, 1, 1, 1]
    return cr.problems.MarginRetargeting(X, y, qid, **{"l2": 0.05, **options})


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("move", [0.0, 1e-3, 0.7])
def test_the_true_gap_of_margins_is_in_the_interval(case, move):
    """The optimum is known to 1e-9 or better by a solve whose own bound is as small."""
    problem = retargeting(OPTIONS[case])
    best = solved(problem, tol=1e-11)
    w = best.x + move
    proof = problem.prove(w, best.witness)
    true = problem.objective(w) - best.value
    noise = tolerance("certificate found anew") * 1e-3
    assert proof.least - noise <= true <= proof.gap + noise
    assert proof.lower_bound <= best.value + tolerance("summation")
    if move == 0.0:
        assert proof.gap <= noise


@pytest.mark.parametrize("case", OPTIONS)
def test_a_tangent_of_margins_is_a_minorant(case):
    """Over balls of both sides, at exact scores that are near and far; and the value is the reference's."""
    problem = retargeting(OPTIONS[case])
    rng = np.random.default_rng(0)
    at = rng.normal(size=9)
    tangent = problem._ball_tangent(balls.exact(at))
    value, slope = problem._reference_scores(at)
    assert math.isclose(float(tangent.value), value, rel_tol=1e-9, abs_tol=1e-9)
    np.testing.assert_allclose(balls.midpoints(tangent.slope), slope, atol=1e-8)
    assert not tangent.slack < 0
    for scale in (1e-4, 0.1, 1.0, 10.0):
        other = at + scale * rng.normal(size=9)
        steps = [balls.arb(b) - a for a, b in zip(at.tolist(), other.tolist(), strict=True)]
        least = tangent.value - tangent.slack + balls.dot(tangent.slope, steps)
        assert not problem._ball_tangent(balls.exact(other)).value < least


class WrongReward(cr.problems.MarginRetargeting):
    """A planted bug: the reward is half."""

    def _ball_tangent(self, scores):
        return cr.problems.MarginRetargeting(
            self.X, self.y, self.qid, self.divergence, self.margin, 0.5 * self.reward, self.bound, l2=self.l2
        )._ball_tangent(scores)


@pytest.mark.parametrize("divergence", ["squared", "bit_entropy"])
def test_a_planted_reward_is_seen(divergence):
    options = {"divergence": divergence, "margin": 0.2, "reward": 0.3, "bound": (0.1, 0.9)}
    right = retargeting(options)
    wrong = WrongReward(right.X, right.y, right.qid, l2=0.05, **options)
    at = np.random.default_rng(0).normal(size=9)
    assert math.isclose(
        float(right._ball_tangent(balls.exact(at)).value), right._reference_scores(at)[0], rel_tol=1e-9
    )
    assert abs(float(wrong._ball_tangent(balls.exact(at)).value) - right._reference_scores(at)[0]) > 1e-3


def test_evidence_for_targets_may_be_anything():
    """Targets off by one are moved into the constraints: what is proved is looser, and true."""
    problem = retargeting(OPTIONS["KL"])
    best = solved(problem, tol=1e-11)
    right = problem.fit

    class Spoilt(cr.problems.MarginRetargeting):
        def fit(self, scores):
            found = super().fit(scores)
            rng = np.random.default_rng(1)
            moved = found.targets + rng.normal(size=len(found.targets))
            return dataclasses.replace(found, targets=moved, offsets=found.offsets + 1.0)

    spoilt = Spoilt(problem.X, problem.y, problem.qid, l2=0.05, **OPTIONS["KL"])
    assert right(np.zeros(9)) is not None
    proof = spoilt.prove(best.x)
    assert proof.gap >= problem.objective(best.x) - best.value
    assert proof.lower_bound <= best.value


@pytest.mark.parametrize("high", [3.1, 4.7, 5.3, 7.7])
@pytest.mark.parametrize("target_reg", [0.0, 0.3, 0.7])
def test_the_least_constant_is_rounded_up(high, target_reg):
    """So Lemma 8 holds of the numbers as they are: s (1 + C_r) C_w is at least 1, over fractions."""
    options = {"divergence": "generalized_i", "bound": high, "margin": 0.2, "target_reg": target_reg}
    constant = retargeting(options).score_reg
    assert (1 + Fraction(target_reg)) * Fraction(constant) / Fraction(high) >= 1
    assert retargeting(options).prove([0.0, 0.0]).proved


def test_constants_that_meet_lemma_8_up_to_rounding_only_prove_nothing():
    options = {"divergence": "bit_entropy", "margin": 0.1, "bound": (0.1, 0.4)}
    least = retargeting(options).score_reg
    assert retargeting(options).prove([0.0, 0.0]).proved
    with pytest.raises(cr.CertificateError, match="Lemma 8"):
        retargeting({**options, "score_reg": least * (1.0 - 1e-13)}).prove([0.0, 0.0])


def test_divergences_of_your_own_are_not_proved():
    mine = cr.divergences.FromGenerator(lambda x: x * x, conjugate_function=lambda t: t * t / 4.0)
    problem = retargeting({"divergence": mine, "bound": (-2.0, 2.0)})
    with pytest.raises(cr.CertificateError, match="no form in balls"):
        problem.prove([0.0, 0.0])


# --- learned links ----------------------------------------------------------------------------------------------------

LINKS = [
    (0.3, 2.0, None),
    (0.3, 0.3001, None),
    (0.3, 2.0, (-1.0, 1.0)),
    (0.3, 2.0, (None, 0.9)),
    (None, 2.0, (-1.0, 1.0)),
    (None, 0.5, (-0.85, None)),
]


def links(strong, smooth, bounds, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 2))
    y = np.round(np.tanh(X[:, 0]), 1) * 0.8
    return cr.problems.LearnedDivergence(X, y, strong, smooth, l2=0.01, output_range=bounds)


@pytest.mark.parametrize(("strong", "smooth", "bounds"), LINKS)
@pytest.mark.parametrize("move", [0.0, 1e-3, 2.0])
def test_the_true_gap_of_a_link_with_both_moduli_or_a_range(strong, smooth, bounds, move):
    problem = links(strong, smooth, bounds)
    best = solved(problem, tol=1e-12)
    w = best.x + move
    proof = problem.prove(w)
    noise = tolerance("certificate found anew") * 1e-3
    assert proof.least - noise <= problem.objective(w) - best.value <= proof.gap + noise
    assert math.isclose(proof.gap, problem.certificate(w).gap, rel_tol=1e-6, abs_tol=noise)


@pytest.mark.parametrize(("strong", "smooth", "bounds"), LINKS)
def test_a_tangent_of_a_bounded_link_is_a_minorant(strong, smooth, bounds):
    """Also in another order of the scores, with ties, and against the exact model of cvxpy."""
    problem = links(strong, smooth, bounds)
    rng = np.random.default_rng(1)
    at = np.round(rng.normal(size=8), 1)
    tangent = problem._ball_tangent(balls.exact(at))
    assert float(tangent.value.rad()) <= tolerance("summation")
    assert not tangent.slack < 0
    for scale in (0.1, 1.0, 5.0):
        other = at + scale * rng.normal(size=8)
        steps = [balls.arb(b) - a for a, b in zip(at.tolist(), other.tolist(), strict=True)]
        least = tangent.value - tangent.slack + balls.dot(tangent.slope, steps)
        assert not problem._ball_tangent(balls.exact(other)).value < least
        assert float(least) <= problem._reference_scores(other)[0] + tolerance("summation")
    assert math.isclose(float(tangent.value), problem._reference_scores(at)[0], rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize(("strong", "smooth", "bounds"), LINKS)
def test_evidence_for_a_link_may_be_anything(strong, smooth, bounds):
    """A link of noise gives a minorant all the same, and the slack says how loose it is."""
    from convexrank.proof.learned import LinkClass, tangent_of_bounded_links

    problem = links(strong, smooth, bounds)
    rng = np.random.default_rng(2)
    at = rng.normal(size=8)
    low, high = (-math.inf if end is None else end for end in (bounds or (None, None)))
    high = math.inf if high == -math.inf else high
    kind = LinkClass(strong, smooth, low, high)
    tangent = tangent_of_bounded_links(balls.exact(at), problem.y, kind, rng.normal(size=8), at)
    truth = problem._ball_tangent(balls.exact(at))
    assert tangent.value.contains(truth.value.mid())
    assert float(tangent.slack) > float(truth.slack) + 1e-6
    for _ in range(5):
        other = at + rng.normal(size=8)
        steps = [balls.arb(b) - a for a, b in zip(at.tolist(), other.tolist(), strict=True)]
        least = truth.value - tangent.slack.upper() + balls.dot(tangent.slope, steps)
        assert not problem._ball_tangent(balls.exact(other)).value < least


# --- kernels ----------------------------------------------------------------------------------------------------------


def test_a_singular_kernel_is_proved_over_fractions():
    y = [0.0, 1.0, 1.0, 0.0]
    problem = cr.problems.KernelLearnedDivergence(np.ones((4, 4)), y, strong=1.0, l2=0.01)
    proof = problem.solve().prove()
    assert proof.remark == ""
    assert proof.gap <= tolerance("certificate found anew")


def rational_least_pivot(K):
    """The least pivot of Gaussian elimination over fractions."""
    rows = [[Fraction(entry) for entry in row] for row in K.tolist()]
    pivots = []
    for i, row in enumerate(rows):
        pivots.append(row[i])
        if row[i] == 0:
            break
        for other in rows[i + 1 :]:
            factor = other[i] / row[i]
            other[i:] = [b - factor * a for a, b in zip(row[i:], other[i:], strict=True)]
    return min(pivots)


def test_a_kernel_with_a_negative_eigenvalue_is_shifted_and_says_so():
    """What rounding leaves of a kernel of rank two is not positive semidefinite; a shift of rounding is."""
    rng = np.random.default_rng(0)
    shifted = 0
    for _ in range(12):
        X = rng.normal(size=(7, 2))
        K = X @ X.T
        K = 0.5 * (K + K.T)
        problem = cr.problems.KernelLearnedDivergence(K, rng.normal(size=7), strong=1.0, l2=0.01)
        solution = problem.solve()
        proof, shift = solution.prove(), learned.shift_for(K)
        assert (shift > 0.0) == (rational_least_pivot(K) < 0)
        assert rational_least_pivot(K + 0.0) >= 0 or "added to the diagonal" in str(proof)
        assert proof.gap <= 2.0 * solution.gap + tolerance("certificate found anew")
        if shift:
            shifted += 1
            exact = [
                [Fraction(entry) + Fraction(shift) * (i == j) for j, entry in enumerate(row)]
                for i, row in enumerate(K.tolist())
            ]
            rows = np.array(exact, dtype=object)
            assert rational_least_pivot(rows) > 0
            other = cr.problems.KernelLearnedDivergence(K + shift * np.eye(7), problem.y, strong=1.0, l2=0.01)
            assert math.isclose(other.certificate(solution).gap, proof.gap, rel_tol=1e-3, abs_tol=1e-9)
    assert shifted


def test_a_kernel_that_is_far_from_one_is_refused():
    with pytest.raises(cr.CertificateError, match="no rounding"):
        learned.shift_for(np.array([[0.0, 1.0], [1.0, 0.0]]) * 1e-300 + np.diag([1.0, -1.0]))


# --- the game and consensus -------------------------------------------------------------------------------------------

GRAPH = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])


@pytest.mark.parametrize("divergence", ["kl", "squared", "bit_entropy", "itakura_saito"])
@pytest.mark.parametrize("norm", ["1", "2", "inf"])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_the_true_gap_of_the_game_is_in_the_interval(divergence, norm, factor):
    exact = cr.problems.PageRankGame(GRAPH, divergence, norm=norm)
    game = cr.problems.PageRankGame(
        GRAPH, divergence, epsilon=1.0 / (factor * exact.threshold), norm=norm, relaxed=True
    )
    solution = solved(game, tol=1e-10)
    best = game.stationary if factor > 1.0 else solution.x
    optimum = game.objective(best)
    noise = tolerance("certificate found anew") * 1e-2
    for w in (solution.x, np.full(4, 0.25), np.array([0.4, 0.3, 0.2, 0.1])):
        proof = game.prove(w, solution.witness)
        assert proof.least - noise <= game.objective(w) - optimum <= proof.gap + noise
    assert game.prove(solution).gap <= solution.gap + noise
    dual = game.dual()
    s = -game.best_response(solution.x)
    proof = dual.prove(s)
    assert proof.least - noise <= dual.objective(s) + optimum <= proof.gap + noise


def test_the_free_dual_is_as_high_as_the_payoff_of_page_rank():
    dual = cr.problems.PageRankGame(GRAPH, "kl").dual(bounded=False)
    game = dual.game
    pi = game.stationary
    truth = float(pi @ game.recommendations) - game.generator.phi(pi)
    proof = dual.prove(np.zeros(4))
    assert math.isclose(proof.lower_bound, truth, rel_tol=1e-12)
    assert math.isclose(proof.gap, dual.objective(np.zeros(4)) - truth, rel_tol=1e-9)
    assert solved(dual).prove().gap <= tolerance("certificate found anew")


def test_points_that_no_distribution_is_near_to_are_refused():
    game = cr.problems.PageRankGame(GRAPH, "kl")
    with pytest.raises(cr.CertificateError, match="no distribution"):
        game.prove([1.0, 1.0, 0.0, 0.0])
    bounded = game.dual()
    with pytest.raises(cr.CertificateError, match="outside the ball"):
        bounded.prove(np.array([1.0, -1.0, 0.0, 0.0]) * 10.0 * game.radius)


def test_a_point_a_little_outside_its_ball_of_multipliers():
    """In a small ball the best multipliers are on its border, and the value falls on the way out."""
    exact = cr.problems.PageRankGame(GRAPH, "kl")
    game = cr.problems.PageRankGame(GRAPH, "kl", epsilon=2.0 / exact.threshold, relaxed=True)
    best = solved(game.dual(), tol=1e-10).x
    best = best * (game.radius / np.linalg.norm(best))
    outside = game.dual().prove(best * (1.0 + 3e-10))
    assert -1e-9 < outside.least < -1e-11
    assert 0.0 <= outside.gap <= tolerance("certificate found anew")
    assert game.dual().prove(best * (1.0 - 1e-12)).least == 0.0


@pytest.mark.parametrize("kind", ["hull", "many vertices"])
def test_mixtures_of_vertices(kind):
    """With the unit vectors as vertices it is the entropy of KL; with more of them only bounds are compared."""
    n = GRAPH.n
    vertices = np.eye(n) if kind == "hull" else np.vstack([1.5 * np.eye(n) - 0.125, np.full((1, n), 0.25)])
    game = cr.problems.PageRankGame(
        GRAPH, cr.divergences.PolytopeEntropy(vertices), epsilon=0.5, relaxed=True
    )
    w = np.array([0.4, 0.3, 0.2, 0.1])
    proof = game.prove(w)
    assert math.isclose(proof.value, game.objective(w), rel_tol=1e-9)
    assert math.isclose(proof.gap, game.certificate(w).gap, rel_tol=1e-6)
    if kind == "hull":
        plain = cr.problems.PageRankGame(GRAPH, "kl", epsilon=0.5, relaxed=True)
        assert math.isclose(proof.value, plain.prove(w).value, rel_tol=1e-12)


def test_the_true_gap_of_consensus_is_in_the_interval():
    sets = [[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [[0.5, 0.5, 0], [0.2, 0.3, 0.5]]]
    problem = cr.problems.ConsensusRank(sets, view="pessimistic")
    best = solved(problem, tol=1e-11)
    noise = tolerance("certificate found anew") * 1e-3
    for x in (best.x, problem.start()):
        proof = problem.prove(x)
        assert proof.least - noise <= problem.objective(x) - best.value <= proof.gap + noise
    assert problem.prove(best).gap <= noise
    with pytest.raises(cr.CertificateError, match="out of balance"):
        problem.prove(np.ones(5))


@pytest.mark.parametrize("wrong", ["recommendations", "radius"])
def test_planted_games_are_seen(wrong, monkeypatch):
    """A payoff with other recommendations, or another radius, has another value."""
    from convexrank.proof import games

    game = cr.problems.PageRankGame(GRAPH, "kl", epsilon=0.5, relaxed=True)
    w = np.array([0.4, 0.3, 0.2, 0.1])
    right = game.prove(w)
    if wrong == "radius":
        monkeypatch.setattr(games, "_radius", lambda game: balls.arb(1.9))
    else:
        original = games._Payoff.without_penalty
        monkeypatch.setattr(games._Payoff, "without_penalty", lambda self, w: original(self, w) + w[0] / 100)
    assert math.isclose(right.value, game.objective(w), rel_tol=1e-9)
    assert abs(game.prove(w).value - right.value) > 1e-4
