"""PageRank as a game: a convex problem whose answer is PageRank if its penalty is large enough."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from convexrank.core.capabilities import Modelled, Shape
from convexrank.core.certificates import lower_bound
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.results import Certificate, CertificateError, Witness
from convexrank.problems.page_rank_game._payoff import PageRankPayoff
from convexrank.problems.page_rank_game.page_rank_dual import PageRankDual
from convexrank.solvers.graph_faces import JaxSaddle, Saddle

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class PageRankGame(PageRankPayoff):
    r"""The PageRank game: weights against multipliers that penalise deviations from a stationary distribution.

    .. math:: \max_{w\in\Delta}\ \min_{\|s\|\le R}\ M(s, w) =
              \langle w, a\rangle - \phi(w) + \langle s, w - Pw\rangle, \qquad
              a_i = \phi(t_i), \quad R = 1/\varepsilon

    P is PageRank's matrix with the teleport in its columns t_i, φ generates a Bregman divergence, and w is a
    distribution. The minimum of the payoff over s is :math:`\langle w, a\rangle - \phi(w) - R\,\|Pw - w\|_*` with the
    dual norm (2 for 2, "inf" for "1", "1" for "inf"). ``objective`` is its negative, which is minimised. It is convex,
    and strongly convex if φ is, so the answer w is unique. Sums, not means.

    **It is an exact penalty.** The answer is PageRank π if and only if :math:`R \ge R^*` (``threshold``),

    .. math:: R^* = \min_c \|s^* + c1\|, \qquad s^* = \nabla\phi(\pi) + v, \qquad
              (I - P^\top)v = \langle\pi, D\rangle 1 - D, \quad D_i = D_\phi(t_i\|\pi),

    and the value of the game is then :math:`\langle\pi, D\rangle`. Below R* the answer is a relaxed optimum, and there
    is a warning unless ``relaxed`` is true. (If π has zeros and φ has a finite slope there, R* is large enough but not
    always the least such radius.) To compute only PageRank, :class:`PageRank` is much faster.

    The certificate needs only w: Poisson's equation at w gives multipliers s, and any s in the ball proves the lower
    bound :math:`-\phi^*(a + (I-P^\top)s)`; the s of a solver is a witness and is evaluated again. A product with
    P costs O(n + m), a certificate about log(precision)/log α of them; P is never formed.

    Parameters
    ----------
    graph, alpha : as for :class:`PageRank`
        The graph, and the probability of following a link.
    divergence : Divergence or str
        A separable divergence on [0, 1] (:class:`~convexrank.divergences.KL`, "squared", "bit_entropy", …), restricted
        to the simplex, or a :class:`~convexrank.divergences.PolytopeEntropy`.
    epsilon : float, optional
        The ε of the bound R = 1/ε on the multipliers; by default R = 2R*, or 1 if R* is 0.
    norm : {"2", "1", "inf"}
        The norm of the multipliers.
    personalization : array-like, optional
        The teleport v: node ids, names, or n weights, scaled to sum to 1.
    dangling : {"teleport", "uniform"}
        How dangling nodes distribute rank.
    relaxed : bool
        Whether a radius below the threshold is intended; then there is no warning.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of range, φ does not fit the columns, or (without ε) no radius is large enough because a
        node has rank 0 and the slope of φ is infinite there, as for KL.

    Warns
    -----
    UserWarning
        When 1/ε is below the threshold.

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

    # --- the problem --------------------------------------------------------------------------------------------------

    default_solver = "dual-gradient"
    capabilities = frozenset({"Exact", "Saddle", "JaxSaddle", "Certified"})

    def _shape(self) -> Shape:
        # of φ, in the Euclidean norm
        return replace(super()._shape(), strong_convexity=self.generator.modulus)

    def start(self) -> Array:
        """Return PageRank, which is the answer where the penalty is exact."""
        return self.stationary.copy()

    def project_feasible(self, x: Array) -> Array:
        """Return the nearest point of φ's domain."""
        return self.generator.project_feasible(x)

    def dual(self, bounded: bool = True) -> PageRankDual:
        """Return the problem of the other player, min over s of φ*(a + (I − Pᵀ)s): (5.34), in the ball or not."""
        return PageRankDual(self, bounded)

    def _saddle(self) -> Saddle:
        return Saddle(
            self.is_simplex,
            self.payoff,
            self.payoff_gradient,
            self.best_response,
            self.maximizer,
            self.replies,
            self.supporting_move,
            self.dual,
        )

    def objective(self, w: Any) -> float:
        r"""Evaluate :math:`\phi(w) - \langle w, a\rangle + R\,\|Pw - w\|_*`; infinity outside the domain."""
        w = self.check_point(w)
        value = self.generator.phi(w)
        if math.isinf(value):
            return value
        return value - float(w @ self.recommendations) + self.radius * self.ball.dual(self.difference(w))

    def _jax_saddle(self) -> JaxSaddle:
        def game() -> Any:
            from convexrank.problems.page_rank_game._on_device import game_on_device

            return game_on_device(self)

        return JaxSaddle(game)

    def _modelled(self) -> Modelled:
        return Modelled(self._other_model)

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model in w; P stays sparse but for the teleport."""
        return self._model()

    def _other_model(self) -> CvxpyModel:
        """Return the model with a variable for Pw − w, whose multipliers are the other player's move."""
        return self._model(moved_apart=True)

    def _model(self, moved_apart: bool = False) -> CvxpyModel:
        import cvxpy as cp

        graph, operator, n = self.graph, self.operator, self.dimension
        w = cp.Variable(n, name="w")
        generator, constraints = self.generator.model(w)
        follow = graph.to_scipy().T.tocsr() * operator.share[None, :]
        moved = self.alpha * (follow @ w) + (1.0 - self.alpha) * operator.teleport * cp.sum(w)
        if graph.dangling.size:
            moved = moved + self.alpha * np.broadcast_to(operator.escape, n) * cp.sum(w[graph.dangling])
        difference = cp.Variable(n, name="difference") if moved_apart else moved - w
        penalty = self.radius * cp.norm(difference, cast(Any, self.ball.dual_order))
        objective = cp.Minimize(generator - self.recommendations @ w + penalty)
        if not moved_apart:
            return CvxpyModel(cp.Problem(objective, constraints), {"w": w})
        balance = moved - w == difference
        model = cp.Problem(objective, [*constraints, balance])
        return CvxpyModel(model, {"w": w}, evidence=lambda: Witness(balance.dual_value[None, :], np.ones(1)))

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound objective − optimum: multipliers of the witness, from Poisson's equation at x, and the best response.

        Parameters
        ----------
        x : array, shape (n,)
            The point w.
        witness : Witness, optional
            Multipliers, one per row, to be averaged; moved into the ball and evaluated here.

        Returns
        -------
        Certificate
            The duality gap. Infinite outside φ's domain.
        """
        w = self.check_point(x)
        value = self.objective(w)
        if math.isinf(value):
            return Certificate(math.inf, value, -math.inf)
        moves = self._evidence(w, witness)
        lower = max(-self.generator.conjugate(self.recommendations + self.pull_back(s)) for s in moves)
        error = self.rounding(value, self.radius)
        gap = max(value - lower, 0.0) + error
        return Certificate(gap, value, lower_bound(value, gap, error))

    def _evidence(self, w: Array, witness: Witness | None) -> list[Array]:
        """Multipliers in the ball that may prove a good bound at w."""
        return [self.supporting_move(w), self.best_response(w), self._from_witness(witness)]

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove the same bound in ball arithmetic; see :mod:`convexrank.proof.games`. O(n + m) balls."""
        from convexrank.proof.games import prove_game

        given = Witness.of(x, witness)
        w = self.check_point(x)
        if not self.generator.contains(w):
            raise CertificateError("the point is no distribution of the game; project it first.")
        return prove_game(type(self).__name__, self._in_proofs(), w, self._evidence(w, given))

    def _from_witness(self, witness: Witness | None) -> Array:
        """Return the multipliers of a witness, moved into the ball; 0, of the ball too, for one that is none."""
        none = np.zeros(self.dimension)
        shares = None if witness is None else witness.shares()
        if witness is None or shares is None:
            return none
        points = np.atleast_2d(np.asarray(witness.points, dtype=np.float64))
        if points.shape != (len(shares), self.dimension) or not np.isfinite(points).all():
            return none
        with np.errstate(over="ignore", invalid="ignore"):
            s = points.T @ shares
            size = self.ball.of(s)
            s = s if size <= self.radius else s * (self.radius / size)
        return s if np.isfinite(s).all() else none

    def definition(self, x: Array) -> float:
        """Return the objective at w once more, from its formula with a dense matrix."""
        from convexrank.problems.page_rank_game._definition import plain_loss

        return plain_loss(self, [float(entry) for entry in x])
