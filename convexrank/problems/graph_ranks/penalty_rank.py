"""The limit of the penalty method: the distribution that disagrees least with its own recommendations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import check_time
from convexrank.core.results import Certificate, Witness
from convexrank.data import check_real
from convexrank.data.nodes import called
from convexrank.divergences.on_simplex import restricted
from convexrank.graphs import Graph
from convexrank.graphs.transition import stationary
from convexrank.problems.graph_ranks._base import WalkRank, random_graph
from convexrank.solvers.graph_faces import Multimodal

Array = np.ndarray

# Steps of the quasi-Newton method in one improvement, then steps that polish its answer.
_STEPS, _POLISH = 300, 60
# The method's first step has length 1 whatever the slope; in these units it stays near.
_CAUTION = 30.0
# A residual of this size is rounding.
_SETTLED = 1e-13
# Starts near corners.
_CORNERS = 16
# Starts of the reference.
_REFERENCE_STARTS = 16
# No share is taken to be smaller than e to this.
_LEAST = -600.0
# How far from 1 the sum of a distribution may be.
_SUM = 1e-9


@dataclass(frozen=True, eq=False)
class PenaltyRank(WalkRank):
    r"""A consensus ρ that weighs the recommendations of the nodes by itself. It is not PageRank.

    .. math:: \min_{\rho\in\Delta}\ G(\rho) = \sum_i \rho_i\,\mathrm{KL}(t_i\|\rho)

    The t_i are the columns of PageRank's matrix P, including the teleport; a sum, not a mean; natural logarithms.
    The unknown is a distribution, shape (n,). The penalty method of the dissertation alternates over w and ρ with an
    increasing penalty on their distance, and tends to a stationary point of G, at which

    .. math:: P\rho - \rho = \rho\circ\bigl(D - \langle\rho, D\rangle\bigr), \qquad D_i = \mathrm{KL}(t_i\|\rho) .

    For PageRank the left side is 0, so it is such a point only when all D_i are equal. G is smooth and **not convex**:
    two communities give two local minima. The solver ``multi-start`` descends from PageRank, from points near the
    vertices of the nodes that keep most of their own rank, and from random distributions with a seed, and returns the
    best minimum. There is no proof that this minimum is global. The certificate is the L1 norm of the difference of the
    two sides, of kind ``"residual"``, which does not bound the error. So CONVERGED means only that the point is
    approximately stationary.

    A value costs two products with P, O(n + m). If ranks tie in the limit, their order is not meaningful.

    Parameters
    ----------
    graph, alpha : as for :class:`PageRank`
        The graph, and the probability of following a link.
    personalization : array-like, optional
        The teleport: n positive weights, scaled to sum to 1; uniform by default.
    dangling : {"teleport", "uniform"}
        How dangling nodes distribute rank.

    Raises
    ------
    ValueError, TypeError
        When α is outside [0, 1), or the personalization of a node is 0: then its share may tend to 0, where G has no
        derivative.

    References
    ----------
    Dissertation on learning to rank, chapter 5, (5.9) to (5.14), which claims that the answer is PageRank.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PenaltyRank(cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0]))
    >>> solution = problem.solve()
    >>> solution.x.round(6).tolist(), round(solution.value, 6)
    ([0.394534, 0.181237, 0.363002, 0.061228], 0.495618)
    >>> solution.certificate.kind
    'residual'
    """

    graph: Graph
    alpha: float = 0.85
    personalization: Any = None
    dangling: str = "teleport"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.operator.teleport.min() <= 0.0:
            place = int(self.operator.teleport.argmin())
            raise ValueError(
                f"the personalization of node {called(self.graph.names, place)} is 0, expected positive "
                "weights for all nodes: G has no derivative where a share vanishes. Mix in a little of the uniform "
                "distribution."
            )

    @cached_property
    def recommendations(self) -> Array:
        """The negative entropies of the columns of P."""
        return restricted("kl", self.graph.n).of_columns(self.operator)

    default_solver = "multi-start"
    capabilities = frozenset({"Multimodal", "Referenced", "Certified"})

    def start(self) -> Array:
        """Return PageRank."""
        return stationary(self.operator)

    def _multimodal(self) -> Multimodal:
        return Multimodal(0.0, self.improve, self._random_start, self._fixed_starts, self.stationarity)

    def _random_start(self, rng: np.random.Generator) -> Array:
        """Draw a distribution with a few large shares, some of it spread as the teleport is."""
        return 0.9 * rng.dirichlet(np.full(self.dimension, 0.3)) + 0.1 * self.operator.teleport

    def _fixed_starts(self) -> list[Array]:
        """Return distributions near corners of the simplex: nine tenths on a node that recommends itself most.

        Near a corner G is about what its node disagrees with having all the rank, which is little where the node keeps
        most of it, by a loop or by the teleport. The regions of attraction of such minima are small, and no random
        start may be in one.
        """
        nodes = np.argsort(-self.operator.diagonal(), kind="stable")[:_CORNERS]
        return [0.9 * (np.arange(self.dimension) == node) + 0.1 * self.operator.teleport for node in nodes]

    def project_feasible(self, x: Array) -> Array:
        """Return a nearby distribution with positive shares."""
        w = np.maximum(x, 1e-300)
        return w / w.sum()

    # --- the objective ------------------------------------------------------------------------------------------------

    def disagreements(self, rho: Any) -> Array:
        """Return the KL(t_i‖ρ) of all nodes."""
        return self._parts(np.log(self._inside(rho)))[0]

    def objective(self, w: Any) -> float:
        """Evaluate G; infinity for what is no distribution, or has a share of 0."""
        rho = self.check_point(w)
        if rho.min() <= 0.0 or abs(float(rho.sum()) - 1.0) > _SUM:
            return math.inf
        return float(rho @ self._parts(np.log(rho))[0])

    def _parts(self, logarithms: Array) -> tuple[Array, Array]:
        """The disagreements with exp(logarithms), and what P sends."""
        costs = self.recommendations - self.operator.T @ logarithms
        return costs, self.operator @ np.exp(logarithms)

    def _inside(self, rho: Any) -> Array:
        rho = self.check_point(rho)
        if rho.min() <= 0.0:
            raise ValueError(f"entry {int(rho.argmin())} is {rho.min():.3g}, expected positive shares.")
        return rho

    def residual(self, rho: Any) -> Array:
        """Return Pρ − ρ − ρ∘(D − ⟨ρ, D⟩), which is 0 at a stationary point; minus the slopes of G in logarithms."""
        rho = self._inside(rho)
        costs, sent = self._parts(np.log(rho))
        return sent - rho - rho * (costs - float(rho @ costs))

    def stationarity(self, x: Array) -> float:
        """Return the L1 norm of the residual."""
        return float(np.abs(self.residual(x)).sum())

    def improve(self, x: Array) -> Array:
        """Descend in the logarithms of the shares, by scipy's quasi-Newton method; never to a larger value."""
        from scipy.optimize import minimize

        if self.stationarity(x) <= _SETTLED:
            return x
        scale = _CAUTION * np.sqrt(x)

        def slopes(v: Array) -> tuple[float, Array]:
            check_time()
            logarithms = _normalized(v / scale)
            rho = np.exp(logarithms)
            costs, sent = self._parts(logarithms)
            value = float(rho @ costs)
            return value, (rho * (costs - value) + rho - sent) / scale

        options = {"maxiter": _STEPS, "maxcor": 20, "ftol": 0.0, "gtol": 1e-15}
        found = minimize(slopes, np.log(x) * scale, jac=True, method="L-BFGS-B", options=options)
        better = self._polish(np.exp(_normalized(found.x / scale)))
        return better if self.objective(better) <= self.objective(x) else x

    def _polish(self, rho: Array) -> Array:
        """Steps along half a natural gradient, as long as the residual falls: values have no digits left to tell."""
        least, step = self.stationarity(rho), 0.5
        for _ in range(_POLISH):
            nearer = np.exp(_normalized(np.log(rho) + step * self.residual(rho) / rho))
            size = self.stationarity(nearer)
            if size < least:
                rho, least = nearer, size
            else:
                step *= 0.5
            if least <= _SETTLED or step < 0.01:
                break
        return rho

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Return the residual ‖Pρ − ρ − ρ∘(D − ⟨ρ, D⟩)‖₁; infinite where a share is 0."""
        x = self.check_point(x)
        value = self.objective(x)
        size = self.stationarity(x) if math.isfinite(value) else math.inf
        return Certificate(size, value, -math.inf, kind="residual")

    def distance(self, a: Array, b: Array) -> float:
        """Return how far apart the values G(a) and G(b) are: several minima may tie."""
        return abs(self.objective(a) - self.objective(b))

    def reference(self) -> Array:
        """Return the best of many local minima, by dense products and without derivatives of ours; small graphs."""
        from scipy.optimize import minimize

        P, rng = self.operator.dense(), np.random.default_rng(0)
        entropies = np.sum(P * np.log(P), axis=0)

        def value(v: Array) -> float:
            logarithms = _normalized(v)
            return float(np.exp(logarithms) @ (entropies - P.T @ logarithms))

        starts = [*np.log(0.9 * np.eye(self.dimension) + 0.1 / self.dimension)]
        starts += [rng.normal(size=self.dimension) for _ in range(_REFERENCE_STARTS - len(starts))]
        answers = (minimize(value, start, method="BFGS") for start in starts)
        return np.exp(_normalized(min(answers, key=lambda answer: float(answer.fun)).x))

    # --- the published method ---------------------------------------------------------------------------------------

    def alternate(self, w: Any, beta: float) -> Array:
        r"""Take one round of the penalty method, (5.13) and (5.14), with the factor α of the latter put right.

        .. math:: \rho = \beta Pw + (1-\beta)w, \qquad
                  w_i \propto \rho_i \exp\bigl(-\tfrac{\beta}{1-\beta}\mathrm{KL}(t_i\|\rho)\bigr)

        Parameters
        ----------
        w : array, shape (n,)
            The weights.
        beta : float
            The penalty's weight is (1 − β)/β; in (0, 1). A schedule that tends to 0 has to have an infinite sum.

        Returns
        -------
        ndarray, shape (n,)
            The weights after the round.
        """
        w, beta = self._inside(w), check_real(beta, "beta")
        if not 0.0 < beta < 1.0:
            raise ValueError(f"beta is {beta:g}, expected a number between 0 and 1.")
        logarithms = np.log(beta * (self.operator @ w) + (1.0 - beta) * w)
        return np.exp(_normalized(logarithms - beta / (1.0 - beta) * self._parts(logarithms)[0]))

    def definition(self, x: Array) -> float:
        """Return G(ρ) once more, from its formula by loops over a dense matrix; infinity off the simplex."""
        from convexrank.problems._plain import walk_matrix

        rho, value = [float(share) for share in x], 0.0
        if min(rho) <= 0.0 or abs(math.fsum(rho) - 1.0) > _SUM:
            return math.inf
        P = walk_matrix(self.graph, self.alpha, self.personalization, self.dangling)
        for i in range(len(rho)):
            for j in range(len(rho)):
                value += rho[i] * P[j][i] * math.log(P[j][i] / rho[j])
        return value

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        graph = random_graph(rng)
        v = rng.random(graph.n) + 0.05 if rng.integers(2) else None
        return cls(graph, float(rng.choice([0.3, 0.5, 0.85])), v, str(rng.choice(["teleport", "uniform"])))


def _normalized(v: Array) -> Array:
    """Logarithms of the distribution proportional to exp(v)."""
    v = np.maximum(v - v.max(), _LEAST)
    return v - np.log(np.exp(v).sum())
