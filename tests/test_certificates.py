"""Certificates against an enemy: forged witnesses, careless minorants, and the last digits in extended precision."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import convexrank as cr
from convexrank.core import certificates, minorants
from convexrank.core.capabilities import has_objective
from convexrank.core.certificates import certificate_radius, certify
from convexrank.core.minorants import EPS, Bundle, Minorant
from convexrank.problems import REGISTRY, _formulation
from convexrank.regularizers.norms import FEASIBLE
from convexrank.solvers.row_faces import Constrained
from tests.tolerances import tolerance

DRAWN = {name: formulation.random(0) for name, formulation in REGISTRY.items()}
CERTIFIED = [name for name, problem in DRAWN.items() if "Certified" in problem.capabilities]
BOUNDED = [name for name in CERTIFIED if has_objective(DRAWN[name])]
_WEIGHTS = (
    np.ones(3), np.array([1.0, -1.0, 1.0]), np.array([1.0, np.nan, 1.0]), np.array([1e300, 1e300, 1.0]),
    np.zeros(3), np.array([np.inf, 1.0, 1.0]),
)  # fmt: skip


def bounded_instance(name: str) -> cr.problems.Problem | None:
    """The first instance with an objective and a bound on it that does not depend on a ball."""
    for seed in range(8):
        problem = REGISTRY[name].random(seed)
        if has_objective(problem) and "Certified" in problem.capabilities:
            certificate = problem.certificate(problem.start())
            if certificate.kind == "global":
                return problem
    return None


@pytest.mark.parametrize("name", BOUNDED)
def test_forged_witnesses_prove_nothing_false(name):
    problem = bounded_instance(name)
    if problem is None:
        pytest.skip("its certificate is a residual, which bounds nothing and says so")
    best = problem.solve().value
    rng = np.random.default_rng(0)
    point = problem.project_feasible(problem.start() + 0.3 * rng.normal(size=problem.dimension))
    if "Constrained" in problem.capabilities:  # elsewhere the gap is infinite
        point = problem.face(Constrained).interior()
    error = problem.objective(point) - best
    assert math.isfinite(error)
    costly = name in ("MarginRetargeting", "RateConstrained")
    scales = (1.0, 1e300) if costly else (1.0, 1e3, 1e8, 1e20, 1e100, 1e300)
    for scale in scales:
        points = scale * rng.normal(size=(3, problem.dimension))
        forged = [cr.Witness(points, weights) for weights in _WEIGHTS]
        forged += [
            cr.Witness(points[:1], np.ones(1)),
            cr.Witness(points, np.ones(2)),
            cr.Witness(points.T, np.ones(3)),
        ]
        for witness in forged[:2] if costly else forged:
            certificate = problem.certificate(point, witness)
            assert certificate.gap >= error - 1e-12 * max(1.0, abs(best)), (scale, witness.weights)
            assert certificate.lower_bound <= certificate.value


@pytest.mark.parametrize("name", ["TopPush", "RankSVM", "ConvexRisk", "PNormPush", "LearnedDivergence"])
def test_the_forgery_that_once_proved_a_gap_of_zero(name):
    rng = np.random.default_rng(4)
    X, labels = rng.normal(size=(12, 2)), np.array([1, 0] * 6)
    arguments = {
        "RankSVM": (X, labels, np.zeros(12, dtype=int)), "LearnedDivergence": (X, X[:, 0], 0.5),
        "PNormPush": (X, labels, 4),
    }  # fmt: skip
    problem = getattr(cr.problems, name)(*arguments.get(name, (X, labels)), l2=0.1)
    point, best = np.array([3.0, -4.0]), problem.solve().value
    for _ in range(200):
        witness = cr.Witness(rng.normal(size=(1, 2)) * 1e20, np.ones(1))
        assert problem.certificate(point, witness).gap >= problem.objective(point) - best


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_an_honest_witness_closes_the_gap_and_a_negative_weight_in_it_does_not():
    rng = np.random.default_rng(1)
    problem = cr.problems.RmaxPush(rng.normal(size=(30, 3)), [1, 0] * 15, "hinge", l2=0.1)
    solution = problem.solve()
    witness = solution.witness
    assert problem.certificate(solution.x, witness).gap <= 1e-8
    # weights that are scaled, huge ones included, say the same
    assert problem.certificate(solution.x, replace(witness, weights=1e300 * witness.weights)).gap <= 1e-8
    negative = np.append(witness.weights, -0.5)
    more = cr.Witness(np.vstack([witness.points, 5.0 * rng.normal(size=3)]), negative)
    alone = problem.certificate(solution.x, cr.Witness(solution.x[None, :], np.ones(1))).gap
    assert problem.certificate(solution.x, more).gap >= min(alone, 1e-6)


def test_a_bound_above_the_value_refutes_itself():
    class Careless:
        """Says that its risk is 5 more than it is, wherever it is looked at but at w = 1."""

        penalty, dimension, differentiable, risk_infimum = (
            cr.regularizers.Penalty(l2=1.0),
            1,
            False,
            -math.inf,
        )

        def minorant(self, w, width):
            honest = cr.problems.PNormPush([[1.0], [0.0]], [1, 0], p=1, l2=1.0)._reference_minorant(w)
            lie = 0.0 if w[0] == 1.0 else 5.0
            return replace(honest, risk=honest.risk + lie, offset=honest.offset + lie)

    problem, w = Careless(), np.array([1.0])
    witness = cr.Witness(np.array([[0.5]]), np.ones(1))
    bundle = Bundle(problem)
    bundle.add(witness.points[0])
    assert bundle.bound(np.ones(1), math.inf) > problem.minorant(w, 0.0).risk + 0.5  # above the value: a lie
    honest = certify(problem, w, witness)
    assert honest.gap == certify(problem, w, cr.Witness(w[None, :], np.zeros(1))).gap > 0.0


def test_a_bound_that_is_above_the_value_refutes_itself_however_little():
    above = certificates._Above(value=2.0, rounding=1e-12)
    assert above.bound(1.5) == 0.5 + 1e-12
    assert 0.0 <= above.bound(2.0 + 5e-13) <= 1e-12
    for lower in (2.0 + 2e-12, 2.5, math.inf, -math.inf, math.nan):
        assert above.bound(lower) == math.inf


def test_a_tangent_whose_slope_overflows_proves_nothing():
    """Not even that a risk which is never negative is at least 0: its other numbers may be wrong as well."""

    made = cr.regularizers.Penalty(l2=1.0)
    plane = Minorant(1.0, 1.0, np.array([1.0]), 0.0, 0.0, 0.0)

    def certificate(tangent, w):
        problem = SimpleNamespace(
            penalty=made, dimension=1, differentiable=True, risk_infimum=0.0, length_scale=lambda: 1.0,
            minorant=lambda w, width: tangent,
        )  # fmt: skip
        found = certify(problem, np.array([w]))
        return found.gap, found.lower_bound

    assert certificate(plane, 0.0)[0] == pytest.approx(0.5, abs=tolerance("summation"))
    for broken, w in (
        (replace(plane, slope=np.array([1e200])), 0.0),
        (replace(plane, slope_error=1e308), 10.0),  # only times w it overflows
        (replace(plane, offset=math.nan), 0.0),
    ):
        assert certificate(broken, w) == (math.inf, -math.inf)


@pytest.mark.parametrize("differentiable", [True, False])
@pytest.mark.parametrize("penalty", [cr.regularizers.Penalty(l2=1.0), cr.regularizers.Penalty(l1=1.5)])
def test_what_a_tangent_lies_below_its_risk_is_added_to_the_gap(penalty, differentiable):
    problem = SimpleNamespace(penalty=penalty, differentiable=differentiable)
    plane, w = Minorant(1.0, 2.0, np.array([1.0, -0.5]), 1e-12, 1e-12, 1e-12), np.array([-0.9, 0.2])
    touching, below = (certificates.own_gap(problem, replace(plane, lag=lag), w, 3.0) for lag in (0.0, 0.25))
    assert below - touching == pytest.approx(0.25, abs=tolerance("summation"))


def test_the_tangent_of_a_risk_with_kinks_is_enough_where_none_is_near():
    """The margin of the one pair is 0.01 at the minimiser, far from the kink at 1."""
    problem, best = cr.problems.ConvexRisk([[0.1], [0.0]], [1, 0], "hinge", l2=1.0), np.array([0.1])
    assert problem.objective(best) < min(problem.objective(best * share) for share in (0.99, 1.01))
    assert not problem._differentiable
    found = certificates.own_gap(problem._linear_risk(), problem._reference_minorant(best), best, math.inf)
    assert 0.0 <= found <= tolerance("summation")


@pytest.mark.parametrize("seed", range(3))
def test_evidence_holds_for_a_point_that_is_outside_its_ball_by_rounding(seed):
    """There the objective may be below the optimum, which is no contradiction."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(scale=3.0, size=(12, 3)), np.arange(12) % 2
    problem = cr.problems.ConvexRisk(X, y, "hinge", l2_ball=0.5)
    solution = problem.solve(tol=1e-12)
    w = solution.x * (1.0 + 0.5 * FEASIBLE)
    found = problem.certificate(w, solution.witness)
    assert found.value < solution.value - solution.gap
    assert found.lower_bound <= solution.value
    # the tangent at the point alone, of a risk with kinks, says far less
    assert found.gap <= 1e-10 < 1e-4 < problem.certificate(w, cr.Witness(w[None], np.ones(1))).gap


def test_rounding_is_taken_off_the_bound_of_a_far_point():
    """What cancels between risk and slope at a far point is what the bound gives up, at least."""
    problem = cr.problems.PNormPush(np.array([[1.0], [0.3], [0.0]]), [1, 0, 0], p=2, l2=1.0)
    for scale in (1e3, 1e6, 1e9, 1e12, 1e15):
        far = problem._reference_minorant(np.array([-scale]))
        # the slope is -1 to the last digit there; R(w) + w is what two negatives of weight a half leave of it
        exact = -0.5 * math.log(2.0)
        assert abs(far.offset - exact) <= far.offset_error
        assert far.offset_error < 1e-13 * scale


# --- in extended precision --------------------------------------------------------------------------------------------

Long = np.longdouble
LONG = np.finfo(np.longdouble).eps < 1e-18
needs_long_double = pytest.mark.skipif(not LONG, reason="long double has no more digits than double here")


def push_value(X, labels, w, p, l2, l1):
    """The log-sum-exp form of the P-Norm Push as published, in long double."""
    scores = X.astype(Long) @ w
    above, below = -scores[labels == 1], Long(p) * scores[labels == 0]
    first = above.max() + np.log(np.exp(above - above.max()).mean())
    second = (below.max() + np.log(np.exp(below - below.max()).mean())) / Long(p)
    return first + second + Long(l2) / 2 * (w @ w) + Long(l1) * np.abs(w).sum()


def polished(X, labels, start, p, l2, l1):
    """The minimiser on the support of the start by Newton's method in long double, from softmax moments."""
    w, kept = start.astype(Long), np.flatnonzero(np.abs(start) > 1e-7)
    signs, columns = np.sign(w[kept]), X[:, kept].astype(Long)
    w = np.where(np.abs(start) > 1e-7, w, Long(0))
    for _ in range(60):
        scores = columns @ w[kept]
        slope, hessian = Long(l2) * w[kept] + Long(l1) * signs, Long(l2) * np.eye(len(kept), dtype=Long)
        for rows, side, power in ((labels == 1, Long(-1), Long(1)), (labels == 0, Long(1), Long(p))):
            logits = side * power * scores[rows]
            shares = np.exp(logits - logits.max())
            shares /= shares.sum()
            mean = shares @ columns[rows]
            centred = columns[rows] - mean
            slope = slope + side * mean
            hessian = hessian + power * (centred * shares[:, None]).T @ centred
        w[kept] -= eliminated(hessian, slope)
    return w


def eliminated(matrix, right):
    """Solve a positive definite system by elimination, which numpy does not offer in long double."""
    matrix, right = matrix.copy(), right.copy()
    for k in range(len(right)):
        factors = matrix[k + 1 :, k] / matrix[k, k]
        matrix[k + 1 :] -= factors[:, None] * matrix[k]
        right[k + 1 :] -= factors * right[k]
    for k in reversed(range(len(right))):
        right[k] = (right[k] - matrix[k, k + 1 :] @ right[k + 1 :]) / matrix[k, k]
    return right


@needs_long_double
@pytest.mark.parametrize(("l2", "l1"), [(1e-3, 0.0), (0.1, 0.0), (0.0, 0.02), (0.05, 0.01), (0.0, 0.0)])
@pytest.mark.parametrize("p", [0.5, 1.0, 4.0, 64.0])
def test_a_gap_is_never_below_the_true_error(p, l2, l1):
    rng = np.random.default_rng(7)
    for scale in (1.0, 1e-3, 1e3) if l1 == 0 else (1.0,):
        X, labels = rng.normal(size=(60, 3)) * [scale, 1.0, 1.0], np.arange(60) % 3 == 0
        problem = cr.problems.PNormPush(X, labels, p=p, l2=l2, l1=l1)
        solution = problem.solve(tol=1e-8, max_iter=20000)
        best = polished(X, labels, solution.x, p, l2, l1)
        least = push_value(X, labels, best, p, l2, l1)
        digits = 16 * np.finfo(Long).eps * max(1.0, abs(X @ solution.x).max())  # of the values compared
        for step in (0.0, 1e-16, 1e-12, 1e-8, 1e-6, 1e-3):
            w = np.asarray(best, dtype=np.float64) * (1.0 + step * rng.normal(size=3))
            certificate = problem.certificate(w)
            if certificate.kind == "ball" and np.linalg.norm(best.astype(float)) > certificate.radius:
                continue
            error = push_value(X, labels, w.astype(Long), p, l2, l1) - least
            assert Long(certificate.gap) >= error - digits, (scale, step)
            # and it is still worth something: a gap of rounding is not far above rounding
            assert step > 1e-12 or l1 > 0 or certificate.kind == "ball" or certificate.gap <= 1e-13


@needs_long_double
@pytest.mark.parametrize("pieces", [False, True], ids=["some rows", "pieces"])
@pytest.mark.parametrize("p", [0.5, 1.0, 4.0, 64.0])
def test_a_gap_for_very_many_rows_is_never_below_the_true_error(p, pieces, monkeypatch):
    """As above: with the curvature that some rows tell, or out of memory in pieces."""
    monkeypatch.setattr(_formulation, "TALL", 1_000)
    rng, curved = np.random.default_rng(8), 0
    for l2, scale in ((1e-6, 1.0), (1e-3, 30.0), (0.1, 1e-2)):
        X, labels = rng.normal(size=(750, 3)) * [scale, 1.0, 1.0] + 1.0, np.arange(750) % 3 == 0
        problem = cr.problems.PNormPush(X, labels, p=p, l2=l2)
        best = polished(X, labels, problem.solve("newton").x, p, l2, 0.0)
        if pieces:
            parts = [(X[rows], labels[rows]) for rows in (slice(0, 300), slice(300, 310), slice(310, 750))]
            problem = cr.problems.PNormPush(cr.data.Chunks(parts), labels, p=p, l2=l2)
        least = push_value(X, labels, best, p, l2, 0.0)
        for step in (0.0, 1e-12, 1e-8, 1e-4, 1e-2, 0.1, 0.5, 2.0):
            w = best.astype(float) + step / scale * rng.normal(size=3)
            certificate, tangent = problem.certificate(w), problem._reference_minorant(w)
            error = push_value(X, labels, w.astype(Long), p, l2, 0.0) - least
            digits = 16 * np.finfo(Long).eps * max(1.0, abs(X @ w).max())
            assert certificate.kind == "global"
            assert Long(certificate.gap) >= error - digits, (l2, scale, step)
            curved += (
                certificates.strength_near(
                    0.0, tangent.curvature, tangent.fall, np.linalg.norm(problem.gradient(w))
                )
                > 0.0
            )
    assert curved == 0 if pieces else curved >= 8


@pytest.mark.parametrize("positives", [[1.0], [1.0, 2.0], [1.0, 30.0]])
def test_a_bound_over_a_ball_holds_for_data_without_a_minimiser(positives):
    """The risk log mean e^(−xw) falls for ever: its minimum over the ball is at the end, ten lengths away."""
    problem = cr.problems.PNormPush(np.array([*positives, 0.0])[:, None], [1] * len(positives) + [0], p=2)

    def risk(w):
        return -w + math.log(sum(math.exp(-(x - 1.0) * w) for x in positives) / len(positives))

    for w in (0.0, 0.1, 1.0, 20.0, 400.0):
        found = problem.certificate([w])
        assert found.kind == "ball"
        assert found.radius == pytest.approx(10.0 * max(problem._length_scale, w), rel=tolerance("atoms"))
        error = risk(w) - risk(found.radius)
        assert found.gap >= error * (1.0 - tolerance("atoms"))
        assert found.lower_bound <= risk(found.radius) * (1.0 - tolerance("atoms"))
    assert found.gap == pytest.approx(error, rel=tolerance("summation"))


@pytest.mark.parametrize("rows", [1_000, 10_000, 100_000, 1_000_000])
def test_a_column_of_equal_entries_costs_no_more_than_the_rounding_that_is_allowed(rows):
    """The slope along it is 1 − (1 + δ); a sum of equal terms one by one is off by more than their root."""
    labels, column = np.arange(rows) >= rows // 3, np.ones(rows)
    for delta in (0.0, 2.0**-43, -(2.0**-38)):
        column[labels] = 1.0 + delta
        problem = cr.problems.PNormPush(np.c_[np.zeros(rows), column], labels, p=1)
        tangent = problem._reference_minorant(np.zeros(2))
        assert abs(tangent.slope[1] + delta) <= tangent.slope_error
        certificate = problem.certificate(np.zeros(2))
        assert (certificate.kind, certificate.gap >= abs(delta) * certificate.radius) == ("ball", True)


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")  # any point will do
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
@pytest.mark.parametrize(
    "name", ["PNormPush", "IRPush", "BottomPush", "TopPush", "ConvexRisk", "ListNet", "NDCGRegression"]
)
def test_a_lower_bound_is_not_above_the_exact_value(name, offset):
    """Scores of features far from 0 are rounded; the value at a point is then off by more than the gap."""
    pytest.importorskip("flint", reason="the exact value comes from ball arithmetic")
    options = {"PNormPush": {"p": 3}, "BottomPush": {"p": 3}}.get(name, {})
    if name in ("ListNet", "NDCGRegression"):
        options = {"qid": np.repeat([0, 1], 6)}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(12, 3))
        labels = (X[:, 0] + rng.normal(size=12) > 0).astype(int)
        labels[:2] = labels[6:8] = 1, 0
        problem = getattr(cr.problems, name)(X + offset, labels, l2=1e-2, **options)
        solution = problem.solve(tol=1e-6)
        certificate, proof = solution.certificate, problem.prove(solution)
        assert certificate.lower_bound <= proof.value


@pytest.mark.parametrize("name", ["PNormPush", "BottomPush", "TopBottomPush"])
@pytest.mark.parametrize("p", [1e-6, 1e-9])
def test_a_lower_bound_of_a_tiny_power_is_not_above_the_exact_value(name, p):
    """The logarithm of a number next to 1 is divided by p, with its rounding."""
    pytest.importorskip("flint", reason="the exact value comes from ball arithmetic")
    for seed in range(4):
        X, y = np.random.default_rng(seed).normal(size=(12, 2)), np.arange(12) % 2
        problem = getattr(cr.problems, name)(X, y, p, l2=0.1)
        w = np.random.default_rng(seed).normal(size=2)
        assert problem.certificate(w).lower_bound <= problem.prove(w).value
        with warnings.catch_warnings():  # the rounding of 1e-9 is above the tolerance
            warnings.simplefilter("ignore", cr.ConvergenceWarning)
            solution = problem.solve(max_iter=30)
        assert solution.certificate.lower_bound <= problem.prove(solution).value


@pytest.mark.parametrize("p", [1e-5, 1e-9, 1e-15, 1e-200])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("queries", [0, 1, 2])
def test_values_of_tiny_powers_have_all_digits(p, weighted, queries):
    """The logarithm of a mean of e^(pf) over p, against the first cumulants of f."""
    rng = np.random.default_rng(3)
    X, y, w = rng.normal(size=(24, 2)), np.arange(24) % 2, rng.normal(size=2)
    weights = rng.integers(1, 4, size=24).astype(float) if weighted else None
    qid = np.arange(24) // 4 % queries if queries else None
    problem = cr.problems.PNormPush(X, y, p, l2=0.1, sample_weight=weights, qid=qid)
    expected = 0.05 * w @ w
    for query in range(max(queries, 1)):
        there = np.full(24, True) if qid is None else qid == query
        f = [X[there & (y == label)] @ w for label in (1, 0)]
        c = np.ones(24) if weights is None else weights
        shares = [c[there & (y == label)] / c[there & (y == label)].sum() for label in (1, 0)]
        apart = f[1] - shares[1] @ f[1]
        expected += np.log(shares[0] @ np.exp(-f[0])) + shares[1] @ f[1]
        expected += p * (shares[1] @ apart**2) / 2 + p * p * (shares[1] @ apart**3) / 6
    close = pytest.approx(expected, rel=tolerance("summation"))
    assert problem.objective(w) == close
    assert problem.certificate(w).value == close
    assert problem.second_order(w)[0] == close
    assert problem.certificate(w).lower_bound <= expected


def ring_with_chords(n):
    """A weighted graph in which every node is reached and links on."""
    rng, nodes = np.random.default_rng(3), np.arange(n)
    heads = np.concatenate((np.roll(nodes, -1), rng.integers(0, n, 2 * n)))
    return cr.Graph.from_edges(np.tile(nodes, 3), heads, rng.random(3 * n) + 0.1)


@needs_long_double
@pytest.mark.parametrize("alpha", [0.5, 0.85, 0.99])
def test_a_distance_on_a_graph_is_never_below_the_true_one(alpha):
    graph, rng = ring_with_chords(40), np.random.default_rng(0)
    problem = cr.problems.PageRank(graph, alpha)
    follow = graph.to_scipy().toarray().T.astype(Long)
    follow /= np.where(follow.sum(axis=0) > 0, follow.sum(axis=0), 1)
    teleport, rank = Long(1) / 40, np.full(40, Long(1) / 40)
    for _ in range(int(60 / -math.log(alpha))):
        moved = Long(alpha) * follow @ rank
        rank = moved + (1 - moved.sum()) * teleport
    for step in (0.0, 1e-16, 1e-14, 1e-10, 1e-3):
        point = np.asarray(rank, dtype=np.float64) * (1.0 + step * rng.normal(size=40))
        assert Long(problem.certificate(point).gap) >= np.abs(point - rank).sum(), step


@needs_long_double
@pytest.mark.parametrize("n", [1 << 10, 1 << 18])
@pytest.mark.parametrize("alpha", [0.5, 0.85, 0.99])
def test_a_distance_is_never_below_the_true_one_where_all_nodes_link_to_one(n, alpha):
    """All link to node 0, which links to node 1: a closed form. A sum one by one has a fixed point far from it."""
    graph = cr.Graph.from_edges(np.arange(n), (np.arange(n) == 0).astype(int))
    a, rank = Long(alpha), np.full(n, (1 - Long(alpha)) / n)
    rank[0] *= (1 + a * (n - 1)) / (1 - a * a)
    rank[1] += a * rank[0]
    one, two = cr.problems.PageRank(graph, alpha), cr.problems.PageRank(graph, alpha, np.ones((n, 2)))
    point, links = rank.astype(float), graph.to_scipy().T.tocsr()
    fixed = point
    for _ in range(int(60 / -math.log(alpha))):
        before, fixed = fixed, alpha * (links @ fixed) + (1.0 - alpha) / n
        if (fixed == before).all():  # to the last bit: no step changes it any more
            break
    for x in (point, fixed):
        error = np.abs(x - rank).sum()
        for certificate in (one.certificate(x), two.certificate(np.stack([x, x], axis=1))):
            assert Long(certificate.gap) >= error
            assert certificate.gap <= (2.0 * float(error) + 100.0 * EPS) / (1.0 - alpha)


@needs_long_double
@pytest.mark.parametrize(("p", "q"), [(1.0, 2.0), (4.0, 4.8), (8.0, 40.0)])
def test_hilberts_distance_on_a_graph_is_never_below_the_true_one(p, q):
    graph, rng = ring_with_chords(30), np.random.default_rng(0)
    problem = cr.problems.LpqRank(graph, p, q, 0.85, "inside")
    follow = graph.to_scipy().toarray().T.astype(Long)
    entries = Long(0.85) * follow / follow.sum(axis=0) + (1 - Long(0.85)) / 30
    rank = np.full(30, Long(1) / 30)
    for _ in range(400):
        rank = ((entries * rank) ** Long(p)).sum(axis=1) ** (1 / Long(q))
        rank /= rank.sum()
    for step in (0.0, 1e-16, 1e-14, 1e-10, 1e-3):
        point = np.asarray(rank, dtype=np.float64) * (1.0 + step * rng.random(30))
        assert Long(problem.certificate(point).gap) >= np.ptp(np.log(point.astype(Long) / rank)), step


@needs_long_double
@pytest.mark.parametrize("everyone", [False, True], ids=["two seeds", "all seeds"])
@pytest.mark.parametrize(("p", "q"), [(1.0, 1.0), (2.0, 2.0), (2.0, 4.0)])
def test_a_distance_between_trusts_is_never_below_the_true_one(p, q, everyone):
    """At points near the solution, and at the fixed point of the map in floating point."""
    n = 1_000
    graph, rng, trusted = ring_with_chords(n), np.random.default_rng(0), np.arange(n) if everyone else [0, 7]
    problem = cr.problems.TrustPropagation(graph, trusted, gamma=0.8, p=p, q=q)
    links, seeds = graph.to_scipy().T.tocsr(), np.zeros(n, dtype=Long)
    weights, out = links.data.astype(Long), np.zeros(n, dtype=Long)
    np.add.at(out, links.indices, weights)
    seeds[trusted] = Long(1) / len(trusted)
    gamma, trust = Long(0.8), np.full(n, Long(1) / n)
    for _ in range(250):
        terms = (weights * (trust / out)[links.indices]) ** Long(p)
        trust = gamma * np.add.reduceat(terms, links.indptr[:-1]) ** (1 / Long(q)) + (1 - gamma) * seeds
    steps = (0.0, 1e-16, 1e-14, 1e-10, 1e-3)
    points = [trust.astype(float) * (1.0 + step * rng.random(n)) for step in steps]
    fixed = points[0]
    for _ in range(200):
        fixed = problem._log_map(fixed, *problem._sides[0], slice(0, n))
    for point in (*points, fixed):
        apart = point.astype(Long)
        error = ((np.abs(apart - trust) ** Long(p)).sum()) ** (1 / Long(p))
        if p != q:
            error = np.abs(np.log(apart / trust)).max()
        assert Long(problem.certificate(point).gap) >= error


# --- statuses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CERTIFIED)
def test_no_solve_converges_against_its_certificate(name, monkeypatch):
    """Whatever a method thinks of its point: where the certificate refuses it, the status is not CONVERGED."""
    problem = REGISTRY[name].random(0)

    def refuse(self, x, witness=None):
        return cr.Certificate(math.inf, math.nan, -math.inf)

    monkeypatch.setattr(type(problem), "certificate", refuse)
    with pytest.warns(cr.ConvergenceWarning):
        assert not problem.solve(max_iter=30).converged


def test_a_kernel_problem_converges_by_its_own_certificate_only(monkeypatch):
    """Its solver steps in other variables: what that problem certifies does not count."""
    problem = cr.problems.KernelLearnedDivergence.random(0)
    asked = []
    honest = type(problem).certificate

    def certificate(self, x, witness=None):
        asked.append(np.shape(x))
        return honest(self, x, witness)

    monkeypatch.setattr(type(problem), "certificate", certificate)
    assert problem.solve().converged
    assert set(asked) == {(problem.dimension,)}


# --- the search for evidence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("l1", [0.1, 1 / 3, 7.0])
def test_the_radius_of_l1_holds_the_minimiser_after_rounding(l1):
    """In exact arithmetic, for values that may be too small by their own rounding."""
    penalty = cr.regularizers.Penalty(l1=l1)
    for value, infimum in np.random.default_rng(0).normal(size=(200, 2)) * (1.0, 1e-3):
        value = abs(value) + infimum
        kind, radius = certificate_radius(penalty, infimum, np.zeros(2), value)
        rounded = Fraction(value) + 2 * Fraction(EPS) * abs(Fraction(value)) - Fraction(infimum)
        assert kind == "global"
        assert (
            rounded / Fraction(l1)
            <= Fraction(radius)
            <= rounded / Fraction(l1) * (1 + Fraction(1e-14)) + Fraction(1e-13)
        )


class Scripted:
    """A bundle whose suggestions and bounds are written down beforehand, and what is asked of it."""

    def __init__(self, gaps, climbs):
        self.gaps, self.climbs = iter(gaps), iter(climbs)
        self.trusts, self.points = [], [np.ones(2)]
        self.risk = SimpleNamespace(penalty=SimpleNamespace(value=lambda w: 0.0))

    def suggestion(self, radius, centre, trust, gap):
        self.trusts.append(trust)
        return np.ones(1), centre + np.array([3.0, 4.0])

    def bound(self, weights, radius):
        return -next(self.gaps)

    def add(self, w):
        self.points.append(w)
        # only the first of three points of a round is looked at
        return SimpleNamespace(risk=next(self.climbs) if len(self.points) % 3 == 2 else math.nan)


def searched(gaps, climbs, rounds=200, enough=0.0):
    bundle = Scripted(gaps, climbs)
    above = certificates._Above(0.0, 0.0)
    gap, witness = certificates._search(bundle, bundle.points[0], above, 1.0, rounds, enough)
    assert witness.points.tolist() == [[1.0, 1.0]]
    return gap, bundle


def test_a_search_without_progress_ends_after_its_patience():
    gap, bundle = searched([1.0] * 200, [1.0] * 200)
    # the first round is progress, and one more than the patience ends it
    assert len(bundle.trusts) == certificates._PATIENCE + 2
    assert gap == 1.0
    # less than one in a hundred is none, and a smaller gap is kept all the same
    slow = [0.995**k for k in range(200)]
    gap, bundle = searched(slow, [1.0] * 200)
    assert len(bundle.trusts) == certificates._PATIENCE + 2
    assert gap == slow[certificates._PATIENCE + 1]
    quick = [0.98**k for k in range(200)]
    gap, bundle = searched(quick, [1.0] * 200)
    assert len(bundle.trusts) == 200
    assert searched(quick, [1.0] * 200, rounds=7)[0] == quick[6]
    assert len(searched(quick, [1.0] * 200, enough=quick[3])[1].trusts) == 4


def test_a_search_looks_nearby_after_a_climb_and_farther_after_a_descent():
    """The model is lowest 5 away; points at a half and a tenth of the way are evaluated, too."""
    gaps = [0.5**k for k in range(5)]
    _, bundle = searched(gaps, [9.0, 9.0, -1.0, 0.25**3, 9.0], rounds=5)
    assert bundle.trusts == pytest.approx([math.inf, 1.5, 1.5, 10.0, 10.0], abs=0.0)
    steps = np.array([point - 1.0 for point in bundle.points[1:4]])
    assert steps == pytest.approx(np.outer([1.0, 0.5, 0.1], [3.0, 4.0]), abs=1e-15)


def test_a_minorant_is_of_use_when_its_numbers_and_the_squares_of_its_slope_are_finite():
    good = Minorant(1e200, 1e200, np.array([1e150, -1.0]), 1e-3, 1e-3, 1e-3)
    assert good.usable
    for name in ("risk", "offset", "risk_error", "offset_error", "slope_error"):
        for value in (math.inf, math.nan):
            assert not replace(good, **{name: value}).usable
    for slope in (1e160, math.inf, math.nan):
        with np.errstate(over="ignore"):
            assert not replace(good, slope=np.array([slope, 1.0])).usable


def test_a_tangent_of_another_region_is_left_out_of_the_model():
    def problem(size):
        plane = Minorant(1.0, 1.0, np.array([size, -1.0]), 0.0, 0.0, 0.0)
        return SimpleNamespace(minorant=lambda w, width: plane)

    first = Minorant(1.0, 1.0, np.array([2.0, -3.0]), 0.0, 0.0, 0.0)
    for size, kept in ((1e3, True), (-2.9e6, True), (3.1e6, False), (-3.1e6, False), (math.inf, False)):
        bundle = Bundle(problem(size))
        bundle.keep(first, np.zeros(2))
        assert abs(bundle.add(np.zeros(2)).slope[0]) == abs(size)
        assert len(bundle.minorants) == 1 + kept
    # what is first is kept, and a flat one sets no scale
    for start, size, kept in ((None, 1e9, True), (replace(first, slope=np.zeros(2)), 1e5, True)):
        bundle = Bundle(problem(size))
        if start is not None:
            bundle.keep(start, np.zeros(2))
        bundle.add(np.zeros(2))
        assert len(bundle.minorants) == (start is not None) + kept


@pytest.mark.parametrize("width", [0.0, 1e-2])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_bounds_on_rounding_hold_for_very_many_lists(loss, width):
    """The slope, from a double loop over the pairs of each list, is no farther away than is said."""
    rng, lists, size = np.random.default_rng(0), 4_000, 6
    X = rng.normal(size=(lists * size, 3))
    y = rng.integers(0, 3, size=(lists, size))
    problem = cr.problems.RankSVM(X, y.ravel() * 1.0, np.repeat(np.arange(lists), size), loss, l2=1.0)
    w = 0.3 * rng.normal(size=3)
    scores = (X @ w).reshape(lists, size)
    pairs = y[:, :, None] > y[:, None, :]
    short = np.maximum(1.0 - scores[:, :, None] + scores[:, None, :], 0.0)
    within = np.minimum(short / width, 1.0) if width else 1.0 * (short > 0.0)
    each = (
        pairs
        * (within if loss == "hinge" else 2.0 * short)
        / np.maximum(pairs.sum(axis=(1, 2), keepdims=True), 1)
    )
    pull = each.sum(axis=1) - each.sum(axis=2)
    truth = np.array([math.fsum(column) for column in (X * pull.reshape(-1, 1)).T])
    found = problem._reference_minorant(w, width if loss == "hinge" else 0.0)
    assert np.linalg.norm(found.slope - truth) <= found.slope_error


def test_rounding_of_very_many_rows_is_bounded_block_by_block(monkeypatch):
    rng = np.random.default_rng(0)
    X, (scores, pull), w = rng.normal(size=(1_000, 3)), rng.normal(size=(2, 1_000)), np.ones(3)
    lengths, relative = np.linalg.norm(X, axis=1), minorants.rounding(1_003)
    moved = np.abs(scores).max() + np.abs(pull) @ (1.0 + np.abs(scores))
    for at_once in (1_000_000, 1_000, 999, 7):
        monkeypatch.setattr(minorants, "_AT_ONCE", at_once)
        found = minorants.tangent_at(X, scores, lengths, lambda _: (2.0, pull), w)
        assert np.isclose(found.risk_error, relative * (2.0 + moved), rtol=1e-13)
        assert np.isclose(found.slope_error, relative * (np.abs(pull) @ lengths), rtol=1e-13)
