"""One small problem per capability, written from its definition alone, each with its answer in closed form.

A class has the members of one protocol, or makes one face, and those that :class:`convexrank.Problem` asks for, and
nothing else, so that a solver that calls more than is declared fails on it.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from functools import partial

import numpy as np

import convexrank as cr
from convexrank.core import capabilities as can
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.score_model import ScoreModel, ScoreProducts, without_products
from convexrank.graphs.lpq_map import NormMap
from convexrank.regularizers import Penalty
from convexrank.solvers import graph_faces
from convexrank.solvers import row_faces as faces
from convexrank.solvers.row_faces import Columns

A = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]])
B = np.array([1.0, -2.0, 0.5])
L2 = 0.5
CURVATURE = A.T @ A + L2 * np.eye(2)
RIDGE = np.linalg.solve(CURVATURE, A.T @ B)


def ridge(w):
    """½‖Aw − b‖² + l2/2·‖w‖² and its gradient."""
    rest = A @ w - B
    return 0.5 * float(rest @ rest) + 0.5 * L2 * float(w @ w), A.T @ rest + L2 * w


def gap(gradient):
    """What a strongly convex function can still fall."""
    return float(gradient @ gradient) / (2.0 * L2)


class Small(cr.Problem):
    """Two unknowns."""

    answer = RIDGE
    dimension = 2

    @property
    def capabilities(self):
        return frozenset({type(self).__name__})

    def _distance(self, x):
        return np.abs(x - self.answer).max()


class Ridge(Small):
    """The objective that most protocols state in their own way."""

    def objective(self, w):
        return ridge(np.asarray(w))[0]


class Smooth(Ridge):
    default_solver = "lbfgs"

    def value_and_gradient(self, w):
        return ridge(w)

    def gap_estimate(self, w, value, gradient):
        return gap(gradient)


class TwiceDifferentiable(Ridge):
    default_solver = "newton"

    def value_and_gradient(self, w):
        return ridge(w)

    def gap_estimate(self, w, value, gradient):
        return gap(gradient)

    def second_order(self, w):
        return *ridge(w), CURVATURE


class HessianProducts(Ridge):
    """The risk ½‖θ − b‖² of the scores θ = Aw, whose Hessian is the identity."""

    default_solver = "newton-cg"

    def _hessian_products(self):
        def risk(scores):
            return 0.5 * float((scores - B) @ (scores - B)), scores - B

        def gentler(most):
            raise AssertionError("squares have no factors")

        return faces.HessianProducts(
            A,
            L2,
            np.ones(A.shape[1]),
            np.linalg.norm(A, axis=1),
            lambda w: A @ w,
            risk,
            lambda scores: ScoreProducts(*risk(scores), np.ones(len(scores)), np.copy),
            gentler,
            lambda w, value, gradient: gap(gradient),
        )


class JaxObjective(Ridge):
    default_solver = "lbfgs"
    capabilities = frozenset({"Smooth", "JaxObjective"})

    def value_and_gradient(self, w):
        return ridge(w)

    def gap_estimate(self, w, value, gradient):
        return gap(gradient)

    def _compiled(self):
        return faces.Compiled(
            self._objective, self._objective, lambda: faces.prox_on_device(Penalty()), "float64"
        )

    def _objective(self):
        import jax.numpy as jnp

        return lambda w: 0.5 * jnp.sum((A @ w - B) ** 2) + 0.5 * L2 * jnp.sum(w**2)


class JaxCurved(JaxObjective):
    """The same as a pytree, whose leaves are the data."""

    capabilities = frozenset({"Smooth", "JaxObjective", "JaxCurved"})

    def _objective(self):
        from jax.tree_util import Partial

        return Partial(jax_ridge, A, B)


def jax_ridge(a, b, w):
    return 0.5 * ((a @ w - b) ** 2).sum() + 0.5 * L2 * (w**2).sum()


class Blocks(Ridge):
    """The least over z of ‖Aw − z‖² + ‖z − b‖² is ½‖Aw − b‖²; one block is z, the other w."""

    default_solver = "lbfgs"
    capabilities = frozenset({"Smooth", "Blocks"})

    def value_and_gradient(self, w):
        return ridge(w)

    def gap_estimate(self, w, value, gradient):
        return gap(gradient)

    def _blocks(self):
        return faces.Blocks(2, 5, self._minimized)

    def _minimized(self, block, x):
        w, z = x[:2], x[2:]
        if block == 0:
            return np.r_[w, 0.5 * (A @ w + B)]
        return np.r_[np.linalg.solve(2.0 * A.T @ A + L2 * np.eye(2), 2.0 * A.T @ z), z]


class Exact(Ridge):
    default_solver = "exact"

    def to_cvxpy(self):
        import cvxpy as cp

        w = cp.Variable(2)
        cost = 0.5 * cp.sum_squares(A @ w - B) + 0.5 * L2 * cp.sum_squares(w)
        return CvxpyModel(cp.Problem(cp.Minimize(cost)), {"w": w})


class Convex(Small):
    """|w₁ − 1| + |w₂| + l2/2·‖w‖² with l2 = ½: the first weight is 1, the second 0."""

    default_solver = "bundle"
    answer = np.array([1.0, 0.0])
    penalty = Penalty(l2=L2)

    def _shape(self):
        return can.Shape(np.ones(2), risk_infimum=0.0)

    def objective(self, w):
        return self.risk_and_subgradient(np.asarray(w))[0] + self.penalty.value(w)

    def risk_and_subgradient(self, w):
        rest = w - self.answer
        return float(np.abs(rest).sum()), np.sign(rest)

    def prox(self, v, step):
        return self.penalty.prox(v, step)

    def gap_estimate(self, w, value, gradient):
        return np.inf  # one subgradient proves nothing here


class Smoothable(Convex):
    """The same; Huber's function of a width is ½t²/width near 0 and |t| − width/2 beyond it."""

    default_solver = "continuation"
    capabilities = frozenset({"Convex", "Smoothable"})

    def _smoothable(self):
        return faces.Smoothable(lambda: 1.0, 1.0, self._smoothed)

    def _smoothed(self, w, width):
        def huber(rest):
            part = np.clip(rest / width, -1.0, 1.0)
            return float(part @ rest - 0.5 * width * part @ part), part

        def along(direction):
            def at(length):
                value, part = huber(w + length * direction - self.answer)
                return value, float(part @ direction)

            return at

        value, part = huber(w - self.answer)
        inside = np.abs(part) < 1.0
        return types.SimpleNamespace(
            risk=float(np.abs(w - self.answer).sum()),
            value=value,
            offset=-float(part @ self.answer),
            slope=part,
            drift=lambda: np.where(inside, -part / width, 0.0),
            product=lambda: lambda v: inside / width * v,
            diagonal=lambda: inside / width,
            matrix=lambda: np.diag(inside / width),
            along=along,
        )


class JaxSmoothable(Smoothable):
    """The same in JAX: a pytree with the width as a leaf."""

    capabilities = frozenset({"Convex", "Smoothable", "JaxSmoothable"})

    def _compiled(self):
        from jax.tree_util import Partial

        def below(width):
            return Partial(jax_huber, self.answer, L2, np.float64(width))

        def narrowed(function, width):
            return Partial(function.func, *function.args[:2], np.float64(width))

        return faces.Compiled(
            partial(below, 1e-9),
            partial(below, 1e-9),
            lambda: faces.prox_on_device(self.penalty),
            "float64",
            below=below,
            narrowed=narrowed,
        )


def jax_huber(answer, l2, width, w):
    import jax.numpy as jnp

    part = jnp.clip((w - answer) / width, -1.0, 1.0)
    return part @ (w - answer) - 0.5 * width * part @ part + 0.5 * l2 * w @ w


class Proximal(Small):
    """½‖w − (3, ½)‖² + ‖w‖₁: each entry is moved by 1 towards 0."""

    default_solver = "accelerated"
    answer = np.array([2.0, 0.0])
    penalty = Penalty(l1=1.0)

    def objective(self, w):
        return self.smooth_value_and_gradient(np.asarray(w))[0] + self.nonsmooth_value(w)

    def smooth_value_and_gradient(self, w):
        rest = w - np.array([3.0, 0.5])
        return 0.5 * float(rest @ rest), rest

    def nonsmooth_value(self, w):
        return self.penalty.value(w)

    def prox(self, v, step):
        return self.penalty.prox(v, step)

    def gap_estimate(self, w, value, gradient):
        # the distance that one step of length 1 moves, which is how far the minimiser is
        moved = w - self.prox(w - gradient, 1.0)
        return float(moved @ moved)


class JaxProximal(Proximal):
    """The same in JAX: two pytrees, whose leaves are the data."""

    capabilities = frozenset({"Proximal", "JaxProximal"})

    def _compiled(self):
        return faces.Compiled(
            self._smooth, self._smooth, lambda: faces.prox_on_device(self.penalty), "float64"
        )

    def _smooth(self):
        from jax.tree_util import Partial

        return Partial(jax_square, np.array([3.0, 0.5]))


def jax_square(target, w):
    return 0.5 * ((w - target) ** 2).sum()


class Columnwise(Small):
    """½‖Xw − b‖² + ‖w‖₁ with a diagonal X: each column is a problem of its own."""

    default_solver = "working-sets"
    X = np.diag([2.0, 1.0])
    right = np.array([3.0, 0.5])
    penalty = Penalty(l1=1.0)
    # slopes of ½(2w − 3)² and ½(w − ½)² are ∓1 at the answer, or within
    answer = np.array([(2.0 * 3.0 - 1.0) / 4.0, 0.0])

    def objective(self, w):
        return self._score_model(self.X @ w).value + self.penalty.value(w)

    def _columnwise(self):
        return faces.Columnwise(
            self.X,
            np.array([2.0, 1.0]),
            self._score_model,
            self.penalty,
            Columns(self.X),
            0.0,
            self._gap,
            lambda w: None,
        )

    def _score_model(self, scores):
        rest = scores - self.right
        return ScoreModel(0.5 * float(rest @ rest), rest, without_products(np.ones(2)))

    def _gap(self, w, value, gradient):
        # no minimiser is longer than the value at 0 allows
        return self.penalty.gap(w, -gradient, 0.5 * float(self.right @ self.right))


class FiniteSum(Ridge):
    """One term per row."""

    default_solver = "accelerated"
    capabilities = frozenset({"Proximal", "FiniteSum"})

    def smooth_value_and_gradient(self, w):
        return ridge(w)

    def nonsmooth_value(self, w):
        return 0.0

    def gap_estimate(self, w, value, gradient):
        return gap(gradient)

    def _finite_sum(self):
        return faces.FiniteSum(
            L2,
            lambda: (A**2).sum(axis=1),
            lambda term, w: A[term] * (A[term] @ w - B[term]),
            lambda w: A * (A @ w - B)[:, None],
        )


@dataclass(frozen=True)
class QuadraticLine:
    """½‖θ + αh − b‖² + l2/2·(weight + α)²."""

    rest: np.ndarray
    column: np.ndarray
    weight: float
    l2: float = L2
    reach: float = 1.0

    @property
    def spread(self):
        return float(np.ptp(self.column))

    def slope(self, step):
        return float((self.rest + step * self.column) @ self.column) + L2 * (self.weight + step)

    def curvature(self, step):
        return float(self.column @ self.column) + L2

    def slope_at_infinity(self, sign):
        return np.inf

    def closed_form(self):
        return None


class QuadraticOracle:
    """Coordinates of the ridge problem."""

    l2 = L2
    precision = 2.0**-52

    def scores(self, w):
        return A @ w

    def column(self, j):
        return A[:, j]

    def risk_and_score_gradient(self, scores):
        return 0.5 * float((scores - B) @ (scores - B)), scores - B

    def edges(self, w, score_gradient):
        return -A.T @ score_gradient - L2 * w

    def line(self, scores, column, weight):
        return QuadraticLine(scores - B, column, weight)


class Coordinates(Ridge):
    default_solver = "boosting"

    def _coordinates(self):
        return faces.Coordinates(QuadraticOracle, lambda w, value, gradient: gap(gradient))


class Field(Small):
    """The direction Mx − c of a monotone map that is no gradient."""

    default_solver = "gradient"
    capabilities = frozenset({"Field"})
    matrix = np.array([[1.0, 0.3], [-0.3, 1.0]])
    right = np.array([1.0, 3.0])
    answer = np.linalg.solve(matrix, right)

    def _field(self):
        return can.Field(lambda x: self.matrix @ x - self.right)


class LipschitzField(Field):
    default_solver = "accelerated"
    capabilities = frozenset({"Field", "Lipschitz"})

    def _lipschitz(self):
        return faces.Lipschitz(float(np.linalg.norm(Field.matrix, 2)) * 1.5)


class LipschitzProximal(Proximal):
    capabilities = frozenset({"Proximal", "Lipschitz"})

    def _lipschitz(self):
        return faces.Lipschitz(1.0)


class SingleIndex(Small):
    """Targets on a line: any w whose scores rise with the targets is fitted by an isotonic function."""

    default_solver = "isotron"
    capabilities = frozenset({"Field", "SingleIndex"})
    features = np.array([[1.0, 0.0], [0.0, 0.5], [0.5, 0.5]])
    answer = np.array([0.5, 0.25])
    targets = features @ answer

    def _distance(self, x):
        return float((np.argsort(self.features @ x) != np.argsort(self.targets)).sum())

    def _single_index(self):
        return faces.SingleIndex(
            self.targets,
            lambda w: self.features @ w,
            lambda fitted, w: self.features.T @ (fitted - self.targets),
        )

    def _field(self):
        return can.Field(lambda x: self.features.T @ (self.features @ x - self.targets))


class FixedPoint(Small):
    """x = Mx + c with ‖M‖ = ½."""

    default_solver = "power"
    modulus = 0.5
    matrix = np.array([[0.0, 0.5], [-0.5, 0.0]])
    answer = np.linalg.solve(np.eye(2) - matrix, np.ones(2))

    def distance(self, a, b):
        return float(np.linalg.norm(a - b))

    def apply_map(self, x):
        return self.matrix @ x + 1.0

    capabilities = frozenset({"FixedPoint"})


class AffineFixedPoint(Small):
    """PageRank of a small graph, with the map written densely."""

    default_solver = "gauss-seidel"
    capabilities = frozenset({"FixedPoint", "AffineFixedPoint"})
    dimension = 4
    modulus = 0.5
    teleport = np.full(4, 0.25)
    # node 3 has no links: it goes anywhere
    walk = np.array([[0, 0, 1, 0.25], [0.5, 0, 0, 0.25], [0.5, 1, 0, 0.25], [0, 0, 0, 0.25]])
    answer = np.linalg.solve(np.eye(4) - 0.5 * walk, 0.5 * teleport)

    def _affine_fixed_point(self):
        graph = cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0], n=4)
        return graph_faces.AffineFixedPoint(graph, 0.5, (graph.transition(0.5),), self.teleport)

    def start(self):
        return self.teleport.copy()

    def distance(self, a, b):
        return float(np.abs(a - b).sum())

    def apply_map(self, x):
        return 0.5 * self.walk @ x + 0.5 * self.teleport


def _ratio():
    """Of the ranks below: t = ½·(t² + ¼)^¼/c + 1 with c = ⅙·(2t + 1)^½, whose right-hand side contracts."""
    t = 1.0
    for _ in range(200):
        t = 3.0 * (t * t + 0.25) ** 0.25 / np.sqrt(2.0 * t + 1.0) + 1.0
    return t


class NormSweeps(Small):
    """Two pages that link to each other, and a third that links to both: p = 2, θ = ½, α = ½, weak links outside.

    The first two are alike, and nobody links to the third: the ranks are t, t and 1 up to their sum.
    """

    default_solver = "ordered-sweeps"
    capabilities = frozenset({"FixedPoint", "NormSweeps"})
    dimension = 3
    modulus = 0.5
    answer = np.array([_ratio(), _ratio(), 1.0]) / (2.0 * _ratio() + 1.0)

    def _norm_sweeps(self):
        graph = cr.Graph.from_edges([0, 1, 2, 2], [1, 0, 0, 1])
        degrees = np.array([1.0, 1.0, 2.0])
        return graph_faces.NormSweeps(NormMap(graph, 2.0, 0.5, 0.5, "outside", degrees))

    def start(self):
        return np.full(3, 1.0 / 3.0)

    def distance(self, a, b):
        return float(np.ptp(np.log(a) - np.log(b)))

    def apply_map(self, x):
        constant = np.sqrt(x.sum()) / 6.0
        linked = 0.5 * (x[[1, 0]] ** 2 + (0.5 * x[2]) ** 2) ** 0.25
        image = np.append(linked, 0.0) + constant
        return image / image.sum()


class SplitFeasibility(Small):
    """x in the square [0, 1]², 2x with a sum of 4: only x = (1, 1)."""

    default_solver = "admm"
    capabilities = frozenset({"Feasibility", "SplitFeasibility"})
    answer = np.ones(2)

    def _feasibility(self):
        def violation(x):
            return max(abs(2.0 * float(x.sum()) - 4.0), float(np.maximum(np.maximum(x - 1.0, -x), 0.0).max()))

        return can.Feasibility(violation)

    def _split_feasibility(self):
        return faces.SplitFeasibility(
            lambda x: 2.0 * x,
            lambda point: np.clip(0.5 * point, 0.0, 1.0),
            lambda point: point + 0.5 * (4.0 - point.sum()),
        )


class Multimodal(Small):
    """(x₁² − 1)² + x₁/10 + x₂²: two valleys, the left one deeper."""

    default_solver = "multi-start"
    left = np.roots([4.0, 0.0, -4.0, 0.1])
    answer = np.array([float(left.real.min()), 0.0])

    def objective(self, w):
        return float((w[0] ** 2 - 1.0) ** 2 + 0.1 * w[0] + w[1] ** 2)

    def _slope(self, x):
        return np.array([4.0 * x[0] * (x[0] ** 2 - 1.0) + 0.1, 2.0 * x[1]])

    def _multimodal(self):
        return graph_faces.Multimodal(
            -1.0,
            self._improve,
            lambda rng: rng.uniform(-2.0, 2.0, 2),
            tuple,
            lambda x: float(np.abs(self._slope(x)).max()) ** 2,
        )

    def _improve(self, x):
        length = 0.25
        while self.objective(x - length * self._slope(x)) > self.objective(x) and length > 1e-12:
            length *= 0.5
        moved = x - length * self._slope(x)
        return moved if self.objective(moved) <= self.objective(x) else x


class Flows(Small):
    """Node 0 may send to itself or to node 1, node 1 sends half to either: one share is to be found."""

    default_solver = "interior-point"
    dimension = 3
    candidates = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    owners = np.array([0, 0, 1])
    gains = np.array([0.3, 0.1, 0.2])

    def _shared(self, share):
        """The flows when node 0 gives this share to its first candidate: a two-state chain in balance."""
        leaves = share * 0.1 + (1.0 - share) * 0.8
        first = 0.5 / (0.5 + leaves)
        return np.array([first * share, first * (1.0 - share), 1.0 - first])

    @property
    def answer(self):
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(
            lambda t: self.objective(self._shared(t)), bounds=(0, 1), options={"xatol": 1e-12}
        )
        return self._shared(found.x)

    def start(self):
        return self._shared(0.5)

    def project_feasible(self, x):
        return self._shared(max(x[0], 0.0) / (max(x[0], 0.0) + max(x[1], 0.0)))

    def objective(self, w):
        masses = np.array([w[0] + w[1], w[2]])
        return float(masses @ np.log(masses) - self.gains @ w)

    def _flows(self):
        return graph_faces.Flows(2, self.candidates, self.owners, self.gains, self._dual)

    def _dual(self, s):
        heights = self.gains + s[self.owners] - self.candidates @ s
        return float(np.log(np.exp(max(heights[:2])) + np.exp(heights[2])))

    def certificate(self, x, witness=None):
        from scipy.optimize import minimize_scalar

        value = self.objective(x)
        bound = -minimize_scalar(lambda t: self._dual(np.array([0.0, t])), options={"xtol": 1e-12}).fun
        return cr.Certificate(max(value - bound, 0.0), value, bound)

    capabilities = frozenset({"Certified", "Flows"})


class Saddle(Small):
    """M(s, w) = ⟨s, Kw⟩ + ⟨a, w⟩ − ½‖w‖² with ‖s‖ ≤ 1; w minimises ½‖w‖² − ⟨a, w⟩ + ‖Kw‖."""

    default_solver = "dual-gradient"
    K = np.array([[1.0, 0.5], [0.0, 2.0]])
    a = np.array([4.0, 1.0])

    def _shape(self):
        return can.Shape(np.ones(2), strong_convexity=1.0)

    @property
    def answer(self):
        import cvxpy as cp

        w = cp.Variable(2)
        cost = 0.5 * cp.sum_squares(w) - self.a @ w + cp.norm(self.K @ w)
        cp.Problem(cp.Minimize(cost)).solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12)
        return w.value

    def objective(self, w):
        return 0.5 * float(w @ w) - float(self.a @ w) + float(np.linalg.norm(self.K @ w))

    def _payoff(self, s, w):
        return float(s @ self.K @ w + self.a @ w - 0.5 * w @ w)

    def _payoff_gradient(self, s, w):
        return self.K.T @ s + self.a - w

    def _best_response(self, x):
        moved = self.K @ x
        return -moved / max(float(np.linalg.norm(moved)), 1e-300)

    def _maximizer(self, s):
        return self.a + self.K.T @ s

    def _replies(self, s, move):
        def at(share):
            w = self._maximizer(s + share * (move - s))
            return w, float((move - s) @ self.K @ w)

        return at

    def _supporting_move(self, w):
        s = np.linalg.solve(self.K.T, w - self.a)
        return s / max(1.0, float(np.linalg.norm(s)))

    def _saddle(self):
        return graph_faces.Saddle(
            False,
            self._payoff,
            self._payoff_gradient,
            self._best_response,
            self._maximizer,
            self._replies,
            self._supporting_move,
            _SaddleDual,
        )


class JaxSaddle(Saddle):
    """The same in JAX."""

    default_solver = "jax-no-regret-play"

    def _jax_saddle(self):
        return graph_faces.JaxSaddle(self._game)

    def _game(self):
        from jax.tree_util import Partial

        from convexrank.solvers.jitted.programs.game import Game

        K, a = self.K, self.a
        return Game(
            Partial(jax_heights, K, a), Partial(jax_reply), Partial(jax_response, K), Partial(jax_loss, K, a)
        )


def jax_heights(k, a, s):
    return a + k.T @ s


def jax_reply(z):
    return z, 0.5 * (z @ z)


def jax_response(k, w):
    moved = k @ w
    return -moved / ((moved @ moved) ** 0.5 + 1e-300)


def jax_loss(k, a, w):
    moved = k @ w
    return (moved @ moved) ** 0.5 - a @ w


class _SaddleDual(Small):
    capabilities = frozenset({"Proximal"})

    def smooth_value_and_gradient(self, w):
        z = Saddle.a + Saddle.K.T @ w
        return 0.5 * float(z @ z), Saddle.K @ z

    def nonsmooth_value(self, w):
        return 0.0 if np.linalg.norm(w) <= 1.0 + 1e-9 else np.inf

    def prox(self, v, step):
        return v / max(1.0, float(np.linalg.norm(v)))

    def gap_estimate(self, w, value, gradient):
        return float(w @ gradient) + float(np.linalg.norm(gradient))


class HasPrimal(Small):
    """The dual of the ridge in its residuals v: ½‖v‖² + ⟨b, v⟩ + ‖Aᵀv‖²/(2 l2), and v = Aw − b at the answer."""

    default_solver = "through-primal"
    dimension = 3
    answer = A @ RIDGE - B

    def objective(self, w):
        pull = A.T @ np.asarray(w)
        return 0.5 * float(w @ w) + float(B @ w) + gap(pull)

    def _has_primal(self):
        return faces.HasPrimal(Smooth(), lambda w, witness: A @ w - B, lambda w: w, lambda x: -A.T @ x / L2)


class Constrained(Ridge):
    """The ridge with w₀ ≤ −1, a limit that binds; its Lagrangian is a ridge with a slope."""

    default_solver = "multiplier-search"
    normal = np.linalg.solve(CURVATURE, np.array([1.0, 0.0]))
    answer = RIDGE - normal * (RIDGE[0] + 1.0) / normal[0]

    def _constrained(self):
        def between(inside, outside):
            share = min(1.0, (-1.0 - inside[0]) / max(outside[0] - inside[0], 1e-300))
            return outside if outside[0] <= -1.0 else inside + share * (outside - inside)

        return faces.Constrained(
            lambda x: float(x[0]) + 1.0,
            _Tilted,
            lambda: np.array([-3.0, 0.0]),
            lambda multiplier, least: least + multiplier,
            between,
        )


@dataclass(frozen=True)
class _Tilted(Smooth):
    """The Lagrangian of the ridge with a limit."""

    multiplier: float

    capabilities = frozenset({"Smooth", "Certified"})

    def objective(self, w):
        return self.value_and_gradient(w)[0]

    def value_and_gradient(self, w):
        value, gradient = ridge(np.asarray(w))
        return value + self.multiplier * float(w[0]), gradient + self.multiplier * np.array([1.0, 0.0])

    smooth_value_and_gradient = value_and_gradient

    def certificate(self, x, witness=None):
        value, gradient = self.value_and_gradient(x)
        return cr.Certificate(gap(gradient), value, value - gap(gradient))


SMALL = {
    cls.__name__: cls
    for cls in (
        Smooth,
        TwiceDifferentiable,
        HessianProducts,
        JaxObjective,
        JaxCurved,
        JaxProximal,
        Blocks,
        Exact,
        Convex,
        Smoothable,
        JaxSmoothable,
        Proximal,
        Columnwise,
        FiniteSum,
        Coordinates,
        Field,
        LipschitzField,
        LipschitzProximal,
        SingleIndex,
        FixedPoint,
        AffineFixedPoint,
        NormSweeps,
        SplitFeasibility,
        Multimodal,
        Flows,
        Saddle,
        JaxSaddle,
        HasPrimal,
        Constrained,
    )
}
