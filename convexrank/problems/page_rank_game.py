"""PageRank as a game: a convex problem whose answer is PageRank once its penalty is large enough."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from convexrank.callers import level_of_caller
from convexrank.data import check_choice, check_flags, check_positive
from convexrank.divergences import PolytopeEntropy, resolve
from convexrank.graphs import Graph
from convexrank.problem import Certificate, CvxpyModel, Witness
from convexrank.problems.norm_balls import norm_of
from convexrank.problems.page_rank_payoff import NO_THRESHOLD, PageRankPayoff
from convexrank.problems.random_graphs import random_graph

if TYPE_CHECKING:
    from convexrank.problems.page_rank_dual import PageRankDual

__all__ = ["PageRankGame"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class PageRankGame(PageRankPayoff):
    r"""The PageRank game: weights against multipliers that punish every departure from a stationary distribution.

    .. math:: \max_{w\in\Delta}\ \min_{\|s\|\le R}\ M(s, w) =
              \langle w, a\rangle - \phi(w) + \langle s, w - Pw\rangle, \qquad
              a_i = \phi(t_i), \quad R = 1/\varepsilon

    P is PageRank's matrix with the teleport in its columns t_i, φ generates a Bregman divergence, and w is a
    distribution. Least over s, the payoff is :math:`\langle w, a\rangle - \phi(w) - R\,\|Pw - w\|_*` with the dual norm
    (2 for 2, "inf" for "1", "1" for "inf"). ``objective`` is minus that, which is minimised: it is convex, and
    strongly convex where φ is, so the answer w is unique. Sums, not means.

    **It is an exact penalty.** The answer is PageRank π if and only if :math:`R \ge R^*` (``threshold``),

    .. math:: R^* = \min_c \|s^* + c1\|, \qquad s^* = \nabla\phi(\pi) + v, \qquad
              (I - P^\top)v = \langle\pi, D\rangle 1 - D, \quad D_i = D_\phi(t_i\|\pi),

    and the value of the game is then :math:`\langle\pi, D\rangle`. Below R* the answer is a relaxed optimum, and a
    warning says so unless ``relaxed`` does. (Where π has zeros and φ a finite slope there, R* is large enough but not
    always the least that is.) For PageRank alone, :class:`PageRank` is much faster.

    The certificate needs w alone: Poisson's equation at w gives multipliers s, and any s in the ball proves the lower
    bound :math:`-\phi^*(a + (I-P^\top)s)`; the s of a solver comes as a witness and is evaluated again. A product with
    P costs O(n + m), a certificate about log(precision)/log α of them; P is never formed.

    Parameters
    ----------
    graph : Graph
        The graph.
    divergence : Divergence or str
        A separable divergence on [0, 1] (:class:`~convexrank.divergences.KL`, "squared", "bit_entropy", …), restricted
        to the simplex, or a :class:`~convexrank.divergences.PolytopeEntropy`.
    alpha : float
        Probability of following a link, in [0, 1).
    epsilon : float, optional
        The bound 1/ε on the multipliers; by default R = 2R*, or 1 where R* is 0.
    norm : {"2", "1", "inf"}
        The norm of the multipliers.
    personalization : array-like, optional
        The teleport v: node ids, names, or n weights, scaled to sum to 1.
    dangling : {"teleport", "uniform"}
        Where the surfer goes from a node without links.
    relaxed : bool
        Whether a radius below the threshold is meant.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of range, φ does not fit the columns, or (without ε) no radius is enough because a node
        has rank 0 and φ is steep there, as KL is.

    Warns
    -----
    UserWarning
        When ε asks for a radius below the threshold.

    References
    ----------
    Dissertation on learning to rank, chapter 5, (5.21) to (5.33), where the threshold is missing.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> game = cr.problems.PageRankGame(graph, "kl")
    >>> game.solve().x.round(6).tolist()
    [0.379734, 0.198887, 0.383879, 0.0375]
    >>> round(game.threshold, 6), round(game.radius / game.threshold, 12)
    (1.575584, 2.0)
    """

    graph: Graph
    divergence: Any = "kl"
    alpha: float = 0.85
    epsilon: float | None = None
    norm: str = "2"
    personalization: Any = None
    dangling: str = "teleport"
    relaxed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Graph):
            raise TypeError(
                f"graph is a {type(self.graph).__name__}, expected a convexrank.Graph; make one with Graph.from_edges, "
                "from_scipy or from_networkx."
            )
        check_flags(self)
        check_choice(self.dangling, {"teleport": 0, "uniform": 1}, "dangling")
        if not hasattr(self.divergence, "restrict"):
            object.__setattr__(self, "divergence", resolve(self.divergence))
        object.__setattr__(self, "norm", norm_of(self.norm).name)
        object.__setattr__(self, "alpha", self.operator.alpha)
        object.__setattr__(self, "personalization", self.operator.personalization)
        _ = self.recommendations  # refuses columns at which φ is infinite
        if self.epsilon is None:
            if math.isinf(self.threshold):
                raise ValueError(
                    f"{int((self.stationary <= 0.0).sum())} nodes have rank 0, where the slope of "
                    f"{self.divergence._label} is infinite: no finite penalty is exact. Take a personalization that is "
                    "positive on all nodes, divergence='squared', or an epsilon of your own with relaxed=True."
                )
        else:
            object.__setattr__(self, "epsilon", check_positive(self.epsilon, "epsilon"))
            if not self.relaxed and not self.is_exact:
                warnings.warn(
                    f"epsilon = {self.epsilon:.6g} bounds the multipliers by {self.radius:.6g}, below the threshold "
                    f"{self.threshold:.6g}: the answer is the optimum of a relaxation, not PageRank. Leave epsilon "
                    "out, or pass relaxed=True if that is meant.",
                    UserWarning,
                    stacklevel=level_of_caller(),
                )

    # --- the problem --------------------------------------------------------------------------------------------------

    @property
    def default_solver(self) -> str:
        """Name of the solver used when none is asked for."""
        return "dual-gradient"

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the capabilities."""
        return frozenset({"Exact", "Saddle", "Certified"})

    @property
    def dimension(self) -> int:
        """Number of nodes n."""
        return self.graph.n

    @property
    def strong_convexity(self) -> float:
        """The modulus of φ, in the Euclidean norm."""
        return self.generator.modulus

    def start(self) -> Array:
        """Return PageRank, which is the answer where the penalty is exact."""
        return self.stationary.copy()

    def repair(self, x: Array) -> Array:
        """Return the nearest point of φ's domain."""
        return self.generator.repair(x)

    def dual(self, bounded: bool = True) -> PageRankDual:
        """Return the problem of the other player, min over s of φ*(a + (I − Pᵀ)s): (5.34), in the ball or not."""
        from convexrank.problems.page_rank_dual import PageRankDual

        return PageRankDual(self, bounded)

    def objective(self, w: Any) -> float:
        r"""Evaluate :math:`\phi(w) - \langle w, a\rangle + R\,\|Pw - w\|_*`; infinity outside the domain."""
        w = self.check_point(w)
        value = self.generator.phi(w)
        if math.isinf(value):
            return value
        return value - float(w @ self.recommendations) + self.radius * self.ball.dual(self.difference(w))

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model in w; P stays sparse but for the teleport."""
        import cvxpy as cp

        graph, operator, n = self.graph, self.operator, self.dimension
        w = cp.Variable(n, name="w")
        generator, constraints = self.generator.model(w)
        follow = graph.to_scipy().T.tocsr() * operator.share[None, :]
        moved = self.alpha * (follow @ w) + (1.0 - self.alpha) * operator.teleport * cp.sum(w)
        if graph.dangling.size:
            moved = moved + self.alpha * np.broadcast_to(operator.escape, n) * cp.sum(w[graph.dangling])
        penalty = self.radius * cp.norm(moved - w, self.ball.dual_order)
        objective = cp.Minimize(generator - self.recommendations @ w + penalty)
        return CvxpyModel(cp.Problem(objective, constraints), {"w": w})

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound objective − optimum: multipliers of the witness, from Poisson's equation at x, and the best response.

        Parameters
        ----------
        x : array, shape (n,)
            The point w.
        witness : Witness, optional
            Multipliers, one a row, to be averaged; moved into the ball and evaluated here.

        Returns
        -------
        Certificate
            The duality gap. Infinite outside φ's domain.
        """
        w = self.check_point(x)
        value = self.objective(w)
        if math.isinf(value):
            return Certificate(math.inf, value, -math.inf)
        moves = [self.supporting_move(w), self.best_response(w)]
        if witness is not None:
            moves.append(self._from_witness(witness))
        lower = max(-self.generator.conjugate(self.recommendations + self.pull_back(s)) for s in moves)
        return Certificate(max(value - lower, 0.0), value, lower)

    def _from_witness(self, witness: Witness) -> Array:
        points = np.atleast_2d(np.asarray(witness.points, dtype=np.float64))
        weights = np.asarray(witness.weights, dtype=np.float64)
        s = points.T @ (weights / weights.sum())
        size = self.ball.of(s)
        return s if size <= self.radius else s * (self.radius / size)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance, exact or relaxed; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        graph = random_graph(rng)
        alpha = float(rng.choice([0.3, 0.5, 0.85, 0.95]))
        divergence: Any = str(rng.choice(["kl", "squared", "bit_entropy", "polytope"]))
        if divergence == "polytope":
            divergence = PolytopeEntropy(
                (1.0 + rng.random((graph.n, 1))) * (np.eye(graph.n) - 1 / graph.n) + 1 / graph.n
            )
        norm = str(rng.choice(["1", "2", "inf"]))
        v = rng.random(graph.n) + 0.05 if rng.integers(2) else None
        mode = str(rng.choice(["teleport", "uniform"]))
        exact = cls(graph, divergence, alpha, None, norm, v, mode)
        factor = float(rng.choice([0.4, 0.8, 1.3, 2.0]))
        if factor == 2.0 or exact.threshold <= NO_THRESHOLD:
            return exact
        return cls(graph, divergence, alpha, 1.0 / (factor * exact.threshold), norm, v, mode, relaxed=True)
