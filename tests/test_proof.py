"""Proofs in ball arithmetic: they hold, they are tight, and a wrong form in balls is noticed."""

from __future__ import annotations

import dataclasses
import math
import pickle
import subprocess
import sys
import time
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.cli import main
from convexrank.core.certificates import evidence_at
from convexrank.core.minorants import InBalls
from convexrank.modelling import softplus, squared_hinge, total
from convexrank.problems import REGISTRY
from convexrank.problems._linear_scores import LinearScores
from tests.tolerances import tolerance

pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")

from convexrank.proof import balls, products  # needs flint

IN_BALLS = [
    name
    for name, cls in REGISTRY.items()
    if issubclass(cls, LinearScores) and cls._ball_tangent is not LinearScores._ball_tangent
]
EVERY = pytest.mark.parametrize("name", IN_BALLS)


def instances(name, count):
    """The first random instances that have a form in balls, and their seeds; some options have none."""
    found, seed = [], 0
    while len(found) < count:
        problem = REGISTRY[name].random(seed)
        try:
            problem._ball_tangent(balls.exact(np.zeros(problem.rows)))
            found.append((seed, problem))
        except cr.CertificateError as error:
            assert "Nothing is proved" in str(error) or "nothing is proved" in str(error)  # noqa: PT017
        seed += 1
    return found


X = np.array([[1.0], [0.25], [0.75], [-0.5], [0.1]])
Y = np.array([1, 1, 0, 0, 1])


def at_random(problem, seed):
    """Scores at a random point, and the risk and slope there: by the reference, and over balls."""
    w = np.random.default_rng(seed).normal(size=problem.dimension)
    scores = np.asarray(problem.X @ w, dtype=np.float64)
    return scores, problem._reference_scores(scores)


def disagreement(problem, seed):
    """How far the form in balls is from the reference, relative to their size."""
    scores, (value, slope) = at_random(problem, seed)
    tangent = problem._ball_tangent(balls.exact(scores))
    ours, theirs = np.append(balls.midpoints(tangent.slope), float(tangent.value)), np.append(slope, value)
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


# --- the forms in balls -----------------------------------------------------------------------------------------------


@EVERY
def test_a_form_in_balls_is_the_risk(name):
    for seed, problem in instances(name, 4):
        assert disagreement(problem, seed) <= tolerance("summation")


@EVERY
@pytest.mark.parametrize("place", range(2))
def test_a_tangent_is_a_minorant(name, place):
    """At other scores the risk is above what the tangent says, over balls of both."""
    seed, problem = instances(name, 2)[place]
    scores, _ = at_random(problem, seed)
    point = balls.exact(scores)
    tangent = problem._ball_tangent(point)
    rng = np.random.default_rng(seed)
    for scale in (1e-3, 1.0, 3.0):
        other = balls.exact(scores + scale * rng.normal(size=len(scores)))
        steps = [a - b for a, b in zip(other, point, strict=True)]
        least = tangent.value - tangent.slack + balls.dot(tangent.slope, steps)
        assert not problem._ball_tangent(other).value < least
    assert not tangent.slack < 0


@EVERY
def test_balls_enclose_what_is_at_the_points_within(name):
    """Value, and slope where there is one only, at points within balls of a radius that is not small."""
    seed, problem = instances(name, 1)[0]
    scores, _ = at_random(problem, seed)
    scores = np.round(scores, 2)  # ties
    wide = problem._ball_tangent([balls.arb(score, 1e-3) for score in scores.tolist()])
    rng = np.random.default_rng(seed)
    for _ in range(5):
        at = balls.exact(scores + 1e-3 * rng.uniform(-1.0, 1.0, size=len(scores)))
        inside = problem._ball_tangent(at)
        assert wide.value.overlaps(inside.value)
        assert wide.value.contains(inside.value.mid())
        if problem._differentiable and wide.slack == 0:
            assert all(a.contains(b.mid()) for a, b in zip(wide.slope, inside.slope, strict=True))
        # one slope for the whole ball: it is that of a minorant, with the slack
        other = balls.exact(scores + 1e-2 * rng.normal(size=len(scores)))
        steps = [a - b for a, b in zip(other, at, strict=True)]
        least = inside.value - wide.slack + balls.dot(wide.slope, steps)
        assert not problem._ball_tangent(other).value < least


class WrongSign(cr.problems.TopPush):
    """A planted bug: positives are pulled down."""

    def _ball_tangent(self, scores):
        tangent = super()._ball_tangent(scores)
        return dataclasses.replace(tangent, slope=[-entry for entry in tangent.slope])


class WrongPower(cr.problems.PNormPush):
    """A planted bug: another p."""

    def _ball_tangent(self, scores):
        other = cr.problems.PNormPush(self.X, self.y, self.p + 0.01, l2=self.l2)
        return other._ball_tangent(scores)


class WrongWeights(cr.problems.IRPush):
    """A planted bug: weights of rows are left out."""

    def _ball_tangent(self, scores):
        return cr.problems.IRPush(self.X, self.y, l2=self.l2)._ball_tangent(scores)


@pytest.mark.parametrize(
    "problem",
    [
        WrongSign(X, Y, l2=0.1),
        WrongPower(X, Y, 4.0, l2=0.1),
        WrongWeights(X, Y, l2=0.1, sample_weight=[1.0, 2.0, 1.0, 1.0, 1.0]),
    ],
)
def test_planted_bugs_in_balls_are_seen(problem):
    assert disagreement(problem, 0) > 1e3 * tolerance("summation")


# --- what is proved ---------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_random_instances_are_proved(name):
    solution = instances(name, 2)[1][1].solve()
    proof = solution.prove()
    assert proof.proved
    assert proof.kind == "global"
    assert str(proof).endswith(", proved")
    low, high = proof.interval
    assert low <= high == proof.gap
    assert proof.gap <= 10.0 * solution.gap + tolerance("certificate found anew") * max(1.0, abs(proof.value))
    assert math.isclose(proof.value, solution.value, rel_tol=1e-9, abs_tol=1e-9)
    exact = solution.instance.solve("exact")
    # the conic point is a point: the optimum is not above its value
    assert proof.lower_bound <= exact.instance.prove(exact).value + tolerance("summation")


def least(objective):
    """Return the minimum of a convex function of one variable to some 50 digits, by ternary search."""
    with localcontext() as context:
        context.prec = 110
        low, high = Decimal(-50), Decimal(50)
        for _ in range(330):  # (2/3)^330 is 1e-58
            third = (high - low) / 3
            if objective(low + third) < objective(high - third):
                high -= third
            else:
                low += third
        return objective(low)


def push(w, p, l2, l1):
    positive, negative = ([Decimal(x) * w for x in X[label == Y, 0].tolist()] for label in (1, 0))
    low = sum((-f).exp() for f in positive) / len(positive)
    high = sum((p * f).exp() for f in negative) / len(negative)
    return low.ln() + high.ln() / p + l2 * w * w / 2 + l1 * abs(w)


def margins(w, l2, l1):
    rows = [Decimal(x) * w for x in X[:, 0].tolist()]
    pairs = [(i, k) for i in range(5) for k in range(5) if Y[i] > Y[k]]
    hinges = [max(Decimal(0), 1 - rows[i] + rows[k]) for i, k in pairs]
    return sum(hinges) / len(pairs) + l2 * w * w / 2 + l1 * abs(w)


CASES = {
    "push": (
        lambda **s: cr.problems.PNormPush(X, Y, 4.0, **s),
        lambda w, l2, l1: push(w, Decimal(4), l2, l1),
    ),
    "hinge": (lambda **s: cr.problems.RankSVM(X, Y, **s), margins),
}


@pytest.mark.parametrize(("l2", "l1"), [(0.125, 0.0), (0.03, 0.01), (0.0, 0.05)])
@pytest.mark.parametrize("case", CASES)
def test_the_interval_contains_the_true_gap(case, l2, l1):
    """At the minimiser, near it and away from it, against a minimum to 50 digits by other code, in decimals."""
    make, formula = CASES[case]
    problem = make(l2=l2, l1=l1)
    strengths = Decimal(l2), Decimal(l1)
    solution = problem.solve()
    with localcontext() as context:
        context.prec = 110
        minimum = least(lambda w: formula(w, *strengths))
        for move in (0.0, 1e-7, 0.3):
            proof = problem.prove(solution.x + move, solution.witness)
            true = formula(Decimal(float(solution.x[0] + move)), *strengths) - minimum
            assert Decimal(proof.least) <= true <= Decimal(proof.gap)
            assert Decimal(proof.lower_bound) <= minimum
            if move == 0.0:
                assert Decimal(proof.gap) <= true + Decimal("1e-8")


def test_a_strictly_feasible_dual_point_needs_no_ball():
    """With l1 alone a logarithm has no lower bound of its own: a certificate in floats is over a ball, a proof not."""
    problem = cr.problems.PNormPush(X, Y, 4.0, l1=0.05)
    solution = problem.solve("accelerated")
    assert solution.certificate.kind == "ball"
    assert solution.prove().gap <= tolerance("certificate found anew")


def test_a_point_a_little_outside_its_ball():
    """Value − optimum may be negative there, and the interval says how much."""
    problem = cr.problems.ConvexRisk(X, Y, "logistic", l2_ball=0.5)
    inside, outside = problem.prove([0.5]), problem.prove([0.5 * (1.0 + 1e-10)])
    assert inside.least == 0.0
    assert -1e-9 < outside.least < -1e-13
    with pytest.raises(cr.CertificateError, match="outside the ball"):
        problem.prove([0.6])


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_sparse_features(kind):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 6)) * (rng.random((30, 6)) < 0.4)
    y = rng.random(30) < 0.4
    dense_proof, sparse_proof = (
        cr.problems.PNormPush(data, y, 2.0, l2=0.1).prove(np.full(6, 0.1)) for data in (dense, kind(dense))
    )
    assert math.isclose(dense_proof.gap, sparse_proof.gap, rel_tol=1e-12)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array])
def test_sparse_features_without_a_penalty(kind):
    rng = np.random.default_rng(1)
    rows, y = rng.normal(size=(40, 2)), rng.random(40) < 0.5
    first, second = (cr.problems.PNormPush(data, y, 2.0) for data in (rows, kind(rows)))
    w = first.solve().x + 0.1
    assert math.isclose(first.prove(w).gap, second.prove(w).gap, rel_tol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_products_in_floats_enclose_exact_ones(kind):
    """Above ten million entries: the radius covers what floats lose, and is not much more."""
    rng = np.random.default_rng(1)
    features = kind(rng.normal(size=(5000, 7)) * 10.0 ** rng.integers(-8, 8, size=(5000, 7)))
    w, slope = rng.normal(size=7), [balls.arb(value, 1e-20) for value in rng.normal(size=5000).tolist()]
    exact, rounded = products.products(features), products.products(features, entries=0)
    assert type(exact) is not type(rounded)
    for ours, theirs in ((rounded.scores(w), exact.scores(w)), (rounded.pull(slope), exact.pull(slope))):
        assert all(a.contains(b.mid()) for a, b in zip(ours, theirs, strict=True))
        sizes = [abs(float(b)) + 1.0 for b in theirs]
        assert not any(a.is_exact() for a in ours)
        assert max(float(a.rad()) / size for a, size in zip(ours, sizes, strict=True)) < 1.0


def test_a_radius_of_floats_is_needed():
    """The bound on rounding is not idle: without it the balls miss the truth."""
    rng = np.random.default_rng(2)
    features, w = rng.normal(size=(2000, 9)), rng.normal(size=9)
    exact, rounded = products.products(features).scores(w), products.products(features, entries=0).scores(w)
    assert any(not balls.arb(float(a)).contains(b.mid()) for a, b in zip(rounded, exact, strict=True))


def test_a_proof_on_19_020_rows_is_fast():
    """Within five attempts: other processes only make it slower."""
    rng = np.random.default_rng(3)
    features = rng.normal(size=(19_020, 10))
    y = (features[:, 0] + rng.normal(size=19_020) > 0).astype(int)
    problem = cr.problems.PNormPush(features, y, 4.0, l2=1e-3)

    def seconds():
        start = time.perf_counter()
        problem.prove(np.full(10, 0.1))
        return time.perf_counter() - start

    assert any(seconds() <= tolerance("seconds of a proof") for _ in range(5))


# --- what is not proved -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (cr.problems.IRPush(X, Y), "nothing bounds its minimiser.*pass l2 or l1"),
        (
            cr.problems.PNormPush([[1.0], [2.0], [0.0]], [1, 1, 0], 4.0),
            "the data can be separated, or nearly",
        ),
        (cr.problems.RankCosine(X, Y, l2=0.1), "not convex"),
        (cr.problems.ConsensusRank.random(1), "no bound on an error but a residual"),
        (cr.problems.RealizableLink.random(0), "has no form in balls"),
        (
            cr.problems.Push(X, Y, cr.prices.Custom(lambda r: r * cr.atoms.log1p(r)), l2=0.1),
            "has no form in balls",
        ),
        (cr.problems.PNormPush([[1.0], [0.0]], [1, 0], 4.0, l1=1e-9), "pass l2, or more l1"),
    ],
)
def test_what_cannot_be_proved_says_why(problem, reason):
    with pytest.raises(cr.CertificateError, match=reason):
        problem.prove(np.zeros(1))


def test_too_many_pairs_are_refused_before_they_are_made():
    rng = np.random.default_rng(0)
    features, y = rng.normal(size=(20_000, 1)), np.arange(20_000) % 2
    for problem in (
        cr.problems.Push(features, y, 2.0, "logistic", l2=1.0),
        cr.problems.ConvexRisk(features, y, "logistic", l2=1.0),
    ):
        with pytest.raises(cr.CertificateError, match="pairs of rows"):
            problem.prove([0.0], cr.Witness(np.zeros((1, 1)), np.ones(1)))


def test_too_many_pairs_at_the_margin_are_refused():
    """At scores of integers every other pair is at the margin exactly: these are taken one by one."""
    features, y = np.repeat([[1.0], [0.0]], 2_000, axis=0), np.repeat([1, 0], 2_000)
    problem = cr.problems.RankSVM(features, y, loss="squared_hinge", l2=1.0)
    with pytest.raises(cr.CertificateError, match="rounding of the margin"):
        problem.prove([1.0])
    assert problem.prove([0.5]).proved


def test_a_kernel_is_proved_where_it_is_positive_definite():
    x, y = np.array([0.0, 1.0, 2.0, 3.0]), [0.0, 1.0, 1.0, 0.0]
    kernel = np.exp(-((x[:, None] - x) ** 2))
    problem = cr.problems.KernelLearnedDivergence(kernel, y, strong=1.0, l2=0.01)
    linear = cr.problems.LearnedDivergence(np.linalg.cholesky(kernel), y, strong=1.0, l2=0.01)
    for alpha in (problem.solve().x, np.array([0.3, -0.1, 0.2, 0.5])):
        proof = problem.prove(alpha)
        assert math.isclose(proof.gap, problem.certificate(alpha).gap, rel_tol=1e-6, abs_tol=1e-12)
        assert proof.lower_bound <= linear.solve().prove().value


def test_a_risk_at_its_infimum_is_proved_without_a_penalty():
    problem = cr.problems.RankSVM([[2.0], [0.0]], [1, 0])
    proof = problem.solve().prove()
    assert proof.gap == proof.value == 0.0


# Rows on a grid: hinges meet at the points that a bundle method takes its tangents at.
AT_KINKS = pytest.mark.parametrize(
    ("name", "seed", "l2", "l1"),
    [("RankDiscount", 633159, 0.1, 1e-3), ("RankSVM", 648828, 1e-8, 0.1), ("RankSVM", 403708, 1e-3, 1e-3)],
)


@AT_KINKS
def test_at_kinks_what_floats_certify_is_proved(name, seed, l2, l1):
    """Rounding decides on the side of a kink; exact scores are on another, and their tangents prove nothing."""
    problem = REGISTRY[name].random(seed).changed(l2=l2, l1=l1)
    solution = problem.solve("bundle")
    assert solution.witness is not None
    assert problem.prove(solution).gap < 1e-8


@AT_KINKS
def test_at_kinks_evidence_is_exported_for_a_point_alone(name, seed, l2, l1, tmp_path):
    """The checking program confirms what it is given; without the evidence of the proof it refused the claim."""
    problem = REGISTRY[name].random(seed).changed(l2=l2, l1=l1)
    folder = problem.export(problem.solve().x, tmp_path / "certificate")
    assert (folder / "witness_points.npy").exists()


def test_evidence_that_a_certificate_finds_itself_is_proved():
    problem = REGISTRY["RankSVM"].random(403708).changed(l2=1e-3, l1=1e-3)
    w = problem.solve().x
    found = evidence_at(problem.face(InBalls).risk, w)
    assert problem.prove(w, found).gap < 1e-8


def test_a_bound_that_more_digits_lose_is_kept():
    """At a kink other digits are another tangent; every bound holds."""

    def evaluate():
        few = balls.ctx.prec == balls._BITS[0]
        return balls.Bounds(balls.arb(1, 1e-9 if few else 0.0), balls.arb(1e-9 if few else 0.5))

    assert balls.refined("a risk", evaluate).gap < 1e-8


def test_without_a_penalty_an_infimum_of_floats_is_no_proof():
    class Softest(cr.Formulation):
        def risk(self, f):
            return total(squared_hinge(softplus(f.negative)))

    solution = Softest([[0.0], [1.0], [2.0]], [1, 0, 0]).solve()
    assert solution.certificate.kind == "global"
    with pytest.raises(cr.CertificateError, match="without a penalty"):
        solution.prove()


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_forged_witnesses_prove_nothing_wrong():
    problem = cr.problems.TopPush(X, Y, l2=0.1)
    optimum = problem.solve().value
    at_zero = problem.objective([0.0])
    for size in (1.0, 1e20, 1e300):
        for weights in ([1.0], [-1.0], [np.nan], [1e300]):
            witness = cr.Witness(np.array([[size]]), np.array(weights))
            assert problem.prove([0.0], witness).gap >= at_zero - optimum - 1e-9


def test_a_solution_from_a_file_does_not_know_its_problem(tmp_path):
    problem = cr.problems.PNormPush(X, Y, 4.0, l2=0.1)
    solution = problem.solve()
    solution.save(tmp_path / "solution.npz")
    for other in (cr.Solution.load(tmp_path / "solution.npz"), pickle.loads(pickle.dumps(solution))):
        with pytest.raises(cr.CertificateError, match=r"call problem\.prove\(solution\)"):
            other.prove()
        assert problem.prove(other).proved


def test_without_flint_a_proof_says_what_to_install():
    code = (
        "import sys; sys.modules['flint'] = None\n"
        "import convexrank as cr\n"
        "problem = cr.problems.PNormPush([[1.0], [0.0]], [1, 0], 4.0, l2=0.1)\n"
        "problem.solve()\n"
        "try:\n    problem.prove([0.0])\n"
        "except ImportError as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'convexrank[proof]'" in found.stdout


# --- the verifier -----------------------------------------------------------------------------------------------------


def test_the_verifier_proves_and_counts(capsys):
    report = cr.verify([cr.problems.PNormPush.random(0), cr.problems.PenaltyRank.random(0)], prove=True)
    assert report.ok
    assert report.proved == 1
    assert list(report.unproved.values()) == [1]
    assert "1 of 1" in str(report)
    assert "not proved, 1 times: PenaltyRank" in str(report)
    assert report.to_dict()["unproved"] == report.unproved
    assert "proved" not in str(cr.verify(cr.problems.PNormPush.random(0)))
    assert main(["verify", "LpqRank", "--instances", "3", "--prove"]) == 0
    assert "3 of 3" in capsys.readouterr().out


def test_a_certificate_below_what_is_proved_is_a_failure(monkeypatch):
    problem = cr.problems.LpqRank(cr.Graph.from_edges([0, 0, 1, 2, 4], [1, 2, 2, 0, 2]), 3.0, 6.0)
    planted = cr.Certificate(1e-300, math.nan, -math.inf, kind="distance")
    monkeypatch.setattr(cr.problems.LpqRank, "certificate", lambda self, x, witness=None: planted)
    report = cr.verify(problem, prove=True)
    assert not report.ok
    assert "is proved" in report.failures[-1]


@pytest.mark.parametrize("p", [1e-20, 1e-200, 1e-290])
def test_a_value_is_enclosed_whatever_a_tiny_power_magnifies(p):
    """As p falls to 0 the push tends to log mean e^-f of positives + mean f of negatives; 1/p magnifies 1e290 times."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 3 == 0
    problem, w = cr.problems.PNormPush(X, y, p=p, l2=0.1), np.array([0.3, -0.2])
    found, f = problem.prove(w), X @ w
    limit = math.log(np.exp(-f[y]).mean()) + f[~y].mean() + 0.05 * float(w @ w)
    assert math.isclose(found.value, limit, rel_tol=tolerance("summation"))
    assert found.value - found.gap == pytest.approx(found.lower_bound, rel=tolerance("summation"))


def test_a_lower_bound_above_the_value_is_a_failure(monkeypatch):
    problem = cr.problems.PNormPush.random(0)
    original = cr.problems.PNormPush.certificate

    def planted(self, x, witness=None):
        found = original(self, x, witness)
        return dataclasses.replace(found, lower_bound=found.value + 1e-3)

    monkeypatch.setattr(cr.problems.PNormPush, "certificate", planted)
    assert any("above the value" in text for text in cr.verify(problem, prove=True).failures)
