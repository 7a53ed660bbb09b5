"""The three views of consensus over sets, each with its own unknowns."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexrank.consensus.candidates import Absorbed
from convexrank.core.certificates import lower_bound
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.results import Certificate, CertificateError
from convexrank.graphs.elimination import Elimination
from convexrank.problems.consensus._reference import fixed_point

Array = np.ndarray

# Masses at the edge of the simplex are kept above this, whose logarithm is harmless.
_TINY = 1e-300
# Flows out of balance by more than this are refused.
_BALANCE = 1e-6
# So are recommendations that are farther than this from the sets.
_OUTSIDE = 1e-6
# Rounding of an objective, in units of float64's precision.
_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


def _negative_entropy(p: Array) -> Array:
    """Σ p log p over the last axis."""
    return np.sum(p * np.log(np.maximum(p, _TINY)), axis=-1)


def _distribution(x: Array) -> Array:
    """Positive, and summing to 1 along the last axis."""
    masses = np.maximum(x, 0.0)
    total = masses.sum(axis=-1, keepdims=True)
    masses = np.where(total > 0.0, masses / np.maximum(total, _TINY), 1.0 / masses.shape[-1])
    return np.maximum(masses, _TINY)


@dataclass(frozen=True, eq=False)
class Pessimistic:
    """The flows y: minimise φ(w) − Σ y φ(c) in balance."""

    absorbed: Absorbed

    default_solver = "interior-point"
    capabilities = frozenset({"Exact", "Flows", "Certified"})

    @property
    def shape(self) -> tuple[int, ...]:
        """One flow per candidate."""
        return (len(self.absorbed.owners),)

    def start(self) -> Array:
        """Equal shares for all candidates of a node."""
        return self.project_feasible(np.ones(self.shape))

    def project_feasible(self, x: Array) -> Array:
        """Keep the shares of each node's candidates, and take the flows that these bring about."""
        owners = self.absorbed.owners
        flows = np.maximum(x, 0.0)
        totals = np.bincount(owners, flows, minlength=self.absorbed.n)
        counts = np.bincount(owners, minlength=self.absorbed.n)
        shares = np.where(
            totals[owners] > 0.0, flows / np.maximum(totals, _TINY)[owners], 1.0 / counts[owners]
        )
        return shares * Elimination.of(self.absorbed.mixtures(shares)).stationary()[owners]

    def ranks(self, x: Array) -> Array:
        """Sum the flows of each node."""
        return np.bincount(self.absorbed.owners, x, minlength=self.absorbed.n)

    def recommendations(self, x: Array) -> Array:
        """Mix the candidates by their shares."""
        return self.absorbed.mixtures(x / np.maximum(self.ranks(x), _TINY)[self.absorbed.owners])

    def objective(self, x: Array) -> float:
        """Return minus the distance from consensus; infinity off the constraints."""
        w, candidates = self.ranks(x), self.absorbed.candidates
        unbalanced = np.abs(x @ candidates - w).max() > _BALANCE
        if unbalanced or x.min() < -_BALANCE or abs(w.sum() - 1.0) > _BALANCE:
            return math.inf
        return float(_negative_entropy(np.maximum(w, 0.0)) - x @ _negative_entropy(candidates))

    def dual(self, s: Array) -> float:
        """The largest candidate of every node against s, by log-sum-exp."""
        owners, candidates = self.absorbed.owners, self.absorbed.candidates
        heights = np.full(self.absorbed.n, -np.inf)
        # products of differences: with nodes that hardly lead to others s has large ones
        np.maximum.at(heights, owners, _negative_entropy(candidates) + self._rises(s))
        top = float(heights.max())
        return top + math.log(float(np.exp(heights - top).sum()))

    def _rises(self, s: Array) -> Array:
        """How much higher s is at each candidate's node than it is on average where that leads."""
        steps = s[self.absorbed.owners][:, None] - s
        return np.sum(self.absorbed.candidates * steps, axis=1)

    def certificate(self, x: Array) -> Certificate:
        """Bound by the dual."""
        value = self.objective(x)
        if not math.isfinite(value):
            return Certificate(math.inf, value, -math.inf)
        s = self.multipliers(x)
        lower = -self.dual(s)
        error = _ROUNDING * max(1.0, abs(value), float(np.abs(self._rises(s)).max()))
        gap = max(value - lower, 0.0) + error
        return Certificate(gap, value, lower_bound(value, gap, error))

    def multipliers(self, x: Array) -> Array:
        """Return multipliers of the balance that may prove a good bound: Poisson's equation of the mixture played."""
        w = np.maximum(self.ranks(x), _TINY)
        gains = _negative_entropy(self.absorbed.candidates)
        mean = np.bincount(self.absorbed.owners, x * gains, self.absorbed.n)
        found = -Elimination.of(self.recommendations(x)).poisson(mean / w - np.log(w))
        # zeros prove that no distance is above log n, where the others are all rounding
        return min((np.zeros_like(w), found), key=self.dual) if np.isfinite(found).all() else np.zeros_like(w)

    def prove(self, name: str, x: Array) -> Certificate:
        """The same bound in ball arithmetic."""
        from convexrank.proof.games import prove_flows

        if not math.isfinite(self.objective(x)):
            raise CertificateError("the flows are out of balance; project them first.")
        return prove_flows(name, self.absorbed, x, self.multipliers(x))

    def to_cvxpy(self) -> CvxpyModel:
        """The same program, by cvxpy."""
        import cvxpy as cp

        owners, candidates, n = self.absorbed.owners, self.absorbed.candidates, self.absorbed.n
        flows = cp.Variable(len(owners), name="flows", nonneg=True)
        belongs = np.zeros((n, len(owners)))
        belongs[owners, np.arange(len(owners))] = 1.0
        w = belongs @ flows
        objective = -cp.sum(cp.entr(w)) - _negative_entropy(candidates) @ flows
        balance = [candidates.T @ flows == w, cp.sum(flows) == 1, flows >= 0]
        return CvxpyModel(cp.Problem(cp.Minimize(objective), balance), {"flows": flows})


@dataclass(frozen=True, eq=False)
class Optimistic:
    """The recommendations t_i: minimise Σ w_i φ(t_i) − φ(w)."""

    absorbed: Absorbed

    default_solver = "multi-start"
    capabilities = frozenset({"Multimodal", "Certified"})

    @property
    def shape(self) -> tuple[int, ...]:
        """A recommendation in each row."""
        return self.absorbed.n, self.absorbed.n

    def start(self) -> Array:
        """The recommendations of greatest entropy."""
        return self.absorbed.nearest(np.zeros(self.absorbed.n))

    def project_feasible(self, x: Array) -> Array:
        """The nearest recommendations, row by row."""
        return self.absorbed.nearest(np.log(_distribution(x)))

    def ranks(self, x: Array) -> Array:
        """PageRank of the recommendations."""
        return Elimination.of(_distribution(x)).stationary()

    def recommendations(self, x: Array) -> Array:
        """The point itself."""
        return x.copy()

    def objective(self, x: Array) -> float:
        """The distance from consensus."""
        w = self.ranks(x)
        return float(w @ _negative_entropy(x) - _negative_entropy(w))

    def _pull(self, x: Array) -> tuple[Array, Array]:
        """The scores w, and ∇φ(w) + v: what the cost of a recommendation is linear in."""
        w = self.ranks(x)
        logarithms = np.log(np.maximum(w, _TINY))
        costs = _negative_entropy(x) - x @ logarithms
        return w, logarithms + Elimination.of(x).poisson(-costs)

    def improve(self, x: Array) -> Array:
        """One step: a policy improvement on the cost linearised in w, which never raises the objective."""
        return self.absorbed.nearest(self._pull(x)[1])

    def stationarity(self, x: Array) -> float:
        """The gain of the step at the present scores, Σ w_i times the gain of node i."""
        w, pull = self._pull(x)
        best = self.absorbed.nearest(pull)
        gains = (_negative_entropy(x) - x @ pull) - (_negative_entropy(best) - best @ pull)
        return float(w @ np.maximum(gains, 0.0))

    def certificate(self, x: Array) -> Certificate:
        """The gain that is left: a residual, no bound; infinity outside the sets."""
        outside = np.abs(self.absorbed.nearest(np.log(_distribution(x))) - x).max() > _OUTSIDE
        residual = math.inf if outside else self.stationarity(x)
        return Certificate(residual, self.objective(x), -math.inf, kind="residual")


@dataclass(frozen=True, eq=False)
class Projection:
    """The scores w: a fixed point of projections and their mean."""

    absorbed: Absorbed

    default_solver = "power"
    capabilities = frozenset({"FixedPoint", "Referenced", "Certified"})

    @property
    def shape(self) -> tuple[int, ...]:
        """One score per node."""
        return (self.absorbed.n,)

    def start(self) -> Array:
        """The distribution v."""
        return self.absorbed.teleport.copy()

    def project_feasible(self, x: Array) -> Array:
        """Divide by the sum."""
        return _distribution(x)

    def ranks(self, x: Array) -> Array:
        """The point itself."""
        return x.copy()

    def recommendations(self, x: Array) -> Array:
        """The projections of w."""
        return self.absorbed.nearest(np.log(_distribution(x)))

    def apply_map(self, x: Array) -> Array:
        """Return the PageRank of the projections of w."""
        return Elimination.of(self.recommendations(x)).stationary()

    def certificate(self, x: Array) -> Certificate:
        """The residual ‖Tw − w‖₁ with T the projections of w, by that name."""
        w = _distribution(x)
        residual = float(np.abs(self.recommendations(w).T @ w - w).sum() + np.abs(x - w).sum())
        return Certificate(residual, math.nan, -math.inf, kind="residual")

    def reference(self) -> Array:
        """A fixed point, found slowly."""
        return fixed_point(self.absorbed)
