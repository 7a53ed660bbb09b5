"""The dual of the PageRank game: a smooth convex problem in the multipliers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np

from convexrank.core.certificates import lower_bound
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, Witness
from convexrank.data import check_flags
from convexrank.problems.page_rank_game._payoff import PageRankPayoff
from convexrank.solvers.row_faces import Compiled

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class PageRankDual(Problem):
    r"""PageRank's eigenvector as the gradient of a convex function, (5.34): the multipliers of the PageRank game.

    .. math:: \min_s\ \phi^*\bigl(a + (I - P^\top)s\bigr), \qquad w = \nabla\phi^*\bigl(a + (I - P^\top)s\bigr)

    with the notation of :class:`PageRankGame`. Convex and smooth, with gradient :math:`w - Pw`: it is 0 where w is
    PageRank. The value at the optimum is that of the game, :math:`\langle\pi, D\rangle`. A constant added to s has no
    effect, so s is unique at most up to a constant. ``bounded`` requires :math:`\|s\| \le 1/\varepsilon`, as in the
    game; without it the norm of the optimum is at least R*, for every ε.

    The certificate bounds the value by that of the game: with w as above, value − optimum is at most
    :math:`\langle s, w - Pw\rangle + R\,\|Pw - w\|_*`, where R is the bound, or R* without a bound. It is also at most
    the value less the payoff of PageRank, which does not depend on s. A gradient costs two products with P.

    Parameters
    ----------
    game : PageRankGame
        The game.
    bounded : bool
        Whether s is restricted to the ball of the game.

    Raises
    ------
    TypeError
        When ``game`` is not a PageRankGame.
    ValueError
        When s is free and the threshold R* is infinite: then there is no optimum.

    References
    ----------
    Dissertation on learning to rank, chapter 5, (5.34) to (5.36).

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> dual = cr.problems.PageRankGame(graph, "kl").dual(bounded=False)
    >>> dual.ranks(dual.solve("accelerated").x).round(4).tolist()
    [0.3797, 0.1989, 0.3839, 0.0375]
    """

    game: PageRankPayoff
    bounded: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.game, PageRankPayoff):
            raise TypeError(f"game is a {type(self.game).__name__}, expected a PageRankGame.")
        check_flags(self)
        if not self.bounded and math.isinf(self.game.threshold):
            raise ValueError(
                "some nodes have rank 0 and the slope of phi is infinite there, so no finite s is optimal; pass "
                "bounded=True, or a personalization that is positive on all nodes."
            )

    @property
    def default_solver(self) -> str:
        """Name of the solver used by default."""
        return "accelerated" if self.bounded else "lbfgs"

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the capabilities; a free s makes it smooth."""
        offered = {"Proximal", "JaxProximal", "Certified"}
        if self.game.generator.has_conjugate_model:
            offered.add("Exact")
        return frozenset(offered if self.bounded else offered | {"Smooth"})

    @property
    def dimension(self) -> int:
        """Number of nodes n."""
        return self.game.dimension

    @property
    def radius(self) -> float:
        """The radius that the certificate uses."""
        return self.game.radius if self.bounded else self.game.threshold

    def ranks(self, s: Any) -> Array:
        """Return the w of multipliers s."""
        return self.game.maximizer(self.check_point(s, "s"))

    def objective(self, w: Any) -> float:
        """Evaluate φ*(a + (I − Pᵀ)s) at s, the argument; infinity outside the ball."""
        s = self.check_point(w)
        if self.bounded and self.game.ball.of(s) > self.radius * (1.0 + 1e-9):
            return math.inf
        return self.game.generator.conjugate(self.game.recommendations + self.game.pull_back(s))

    def value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return the value at s and w − Pw."""
        game = self.game
        z = game.recommendations + game.pull_back(w)
        ranks = game.generator.points(z)
        return float(z @ ranks) - game.generator.phi(ranks), game.difference(ranks)

    def smooth_value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return the same: the ball is all that is not smooth."""
        return self.value_and_gradient(w)

    def prox(self, v: Array, step: float) -> Array:
        """Project on the ball."""
        return self.game.ball.project(v, self.radius) if self.bounded else v

    def project_feasible(self, x: Array) -> Array:
        """Project on the ball; conic solvers leave it by their tolerance."""
        return self.prox(x, 0.0)

    def nonsmooth_value(self, w: Array) -> float:
        """Return what is not smooth: nothing in the ball, which steps never leave."""
        return 0.0

    def _compiled(self) -> Compiled:
        def smooth() -> Any:
            from convexrank.problems.page_rank_game._on_device import dual_on_device

            return dual_on_device(self.game)

        def prox() -> Any:
            from convexrank.problems.page_rank_game._on_device import projection_on_device

            return projection_on_device(self.game, self.radius if self.bounded else None)

        return Compiled(smooth, smooth, prox, "float64")

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Return the certificate's bound from the gradient at s."""
        return float(w @ gradient) + self.radius * self.game.ball.dual(gradient)

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum by the payoff of the w that belongs to s, or of PageRank."""
        s = self.check_point(x)
        value = self.objective(s)
        if math.isinf(value):
            return Certificate(math.inf, value, -math.inf)
        game = self.game
        lower = max(self._least_payoff(w) for w in (self.ranks(s), game.stationary))
        error = game.rounding(value, max(self.radius, float(np.abs(s).max())))
        gap = max(value - lower, 0.0) + error
        return Certificate(gap, value, lower_bound(value, gap, error))

    def _least_payoff(self, w: Array) -> float:
        """The payoff of w against the best multipliers of the ball."""
        game = self.game
        payoff = float(w @ game.recommendations) - game.generator.phi(w)
        return payoff - self.radius * game.ball.dual(game.difference(w))

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove a bound in ball arithmetic; see :mod:`convexrank.proof.games`. O(n + m) balls."""
        from convexrank.proof.games import prove_dual

        return prove_dual(type(self).__name__, self.game._in_proofs(), self.check_point(x), self.bounded)

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model in s, with P dense."""
        import cvxpy as cp

        s = cp.Variable(self.dimension, name="s")
        matrix = np.eye(self.dimension) - self.game.operator.dense().T
        value = self.game.generator.conjugate_model(self.game.recommendations + matrix @ s)
        constraints: list[Any] = (
            [cp.norm(s, cast(Any, self.game.ball.order)) <= self.radius] if self.bounded else []
        )
        return CvxpyModel(cp.Problem(cp.Minimize(value), constraints), {"s": s})

    def definition(self, x: Array) -> float:
        """Return the objective at s once more, from its formula with a dense matrix and another inner maximum."""
        from convexrank.problems.page_rank_game._definition import plain_conjugate

        return plain_conjugate(self.game, [float(entry) for entry in x], self.bounded)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        game = PageRankPayoff.random(seed)
        if not game.generator.has_conjugate_model:  # the verifier needs an exact model
            game = replace(game, divergence="kl")
        return cls(game, bool(seed % 2))
