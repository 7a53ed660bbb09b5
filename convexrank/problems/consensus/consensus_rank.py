"""Ranks of a graph whose nodes have sets of recommendations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.consensus.candidates import Absorbed, CandidateSets, RecommendationSets, absorb, as_sets
from convexrank.consensus.polytopes import PartialOrders, Polytopes
from convexrank.core.capabilities import has_objective
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, CertificateError, Solution, Witness
from convexrank.data import check_choice, check_vector, keep, read_array
from convexrank.problems.consensus._views import Optimistic, Pessimistic, Projection
from convexrank.solvers.graph_faces import Flows, Multimodal

Array = np.ndarray

_VIEWS: dict[str, Any] = {"optimistic": Optimistic, "pessimistic": Pessimistic, "projection": Projection}


@dataclass(frozen=True, eq=False)
class ConsensusRank(Problem):
    r"""Consensus of nodes that recommend any distribution of a set, with the KL divergence.

    Node i recommends a distribution :math:`t_i` of the set :math:`C_i = \alpha T_i + (1-\alpha)v`. The scores w are the
    PageRank of these recommendations, :math:`w = \sum_i w_i t_i`, and :math:`\sum_i w_i\,\mathrm{KL}(t_i\|w)` is the
    distance of the nodes from consensus. φ is the negative entropy. There are three views:

    * ``"optimistic"``, (5.4) for w stationary: the smallest distance that the sets allow,

      .. math:: \min_{t_i \in C_i} \sum_i w_i\,\phi(t_i) - \phi(w), \qquad w = \textstyle\sum_i w_i t_i .

      Not convex: a local method from several starts, with a residual and no claim that the minimum is global.
    * ``"pessimistic"``, (5.5) for nodes that may mix: the largest distance. A node plays candidate :math:`c_{ik}` with
      probability :math:`\lambda_{ik}`. In the flows :math:`y_{ik} = w_i\lambda_{ik}` this problem is convex,

      .. math:: \min_{y\ge 0}\; \phi(w) - \sum_{ik} y_{ik}\,\phi(c_{ik}), \qquad
                w_i = \sum_k y_{ik},\quad \sum_{ik} y_{ik} c_{ik} = w,\quad \sum_{ik} y_{ik} = 1,

      solved with a true gap from its dual,
      :math:`\min_s \log\sum_i \exp\max_k[\phi(c_{ik}) + s_i - \langle c_{ik}, s\rangle]`. The value is minus the
      distance. If a node mixes, the distance contains the mean of φ over its candidates, not φ of their mean: it
      is an upper bound on the distance with single recommendations.
    * ``"projection"``, the literal fixed point (5.3), with KL projections of w onto the sets:

      .. math:: w = \textstyle\sum_i w_i t_i, \qquad t_i = \arg\min_{t \in C_i} \mathrm{KL}(t \| w) .

      No objective, and many fixed points if sets overlap; the certificate is the residual ‖Tw − w‖₁.

    Parameters
    ----------
    sets : CandidateSets, Polytopes, PartialOrders, LabelledGraph or list
        The sets T_i. A list has the candidates of each node; a labelled graph gives one candidate for each type of
        edge.
    alpha : float
        Probability of following a recommendation, in [0, 1).
    view : {"optimistic", "pessimistic", "projection"}
        The view.
    personalization : array-like, shape (n,), optional
        The distribution v > 0, scaled to sum to 1; uniform by default.

    Raises
    ------
    ValueError, TypeError
        When α is outside [0, 1), v has a zero, a set is empty or a candidate is not a distribution (the message names
        the node), or a polytope has too many vertices for the pessimistic view.

    Notes
    -----
    The solution x is: optimistic, the recommendations, shape (n, n), one per row; pessimistic, the flows, one per
    candidate in the order of ``owners``; projection, the scores. :meth:`ranks` returns the scores in every view. An
    iteration costs O(n²K) for K candidates in all (pessimistic), or O(n³) and n projections.

    References
    ----------
    Dissertation on learning to rank, (5.2) to (5.5), (5.39). The flows and their dual are ours.

    Examples
    --------
    >>> import convexrank as cr
    >>> sets = [[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [[0.5, 0.5, 0]]]
    >>> for view in ("optimistic", "pessimistic", "projection"):
    ...     problem = cr.problems.ConsensusRank(sets, view=view)
    ...     print(problem.ranks(problem.solve()).round(3).tolist())
    [0.435, 0.342, 0.223]
    [0.435, 0.339, 0.226]
    [0.456, 0.411, 0.133]
    """

    sets: Any
    alpha: float = 0.85
    view: str = "optimistic"
    personalization: Any = None

    def __post_init__(self) -> None:
        check_choice(self.view, _VIEWS, "view")
        keep(self, sets=as_sets(self.sets))
        absorbed = absorb(self.sets, self.alpha, self.personalization)
        keep(self, alpha=absorbed.alpha, _absorbed=absorbed)
        if self.personalization is not None:
            keep(self, personalization=absorbed.teleport)
        if self.view == "pessimistic":
            _ = absorbed.owners  # too many corners are refused here, not in the middle of a solve

    @cached_property
    def absorbed(self) -> Absorbed:
        """The sets, including the teleport."""
        return self.__dict__["_absorbed"]

    @cached_property
    def _form(self) -> Any:
        return _VIEWS[self.view](self.absorbed)

    # --- what the instance is ---------------------------------------------------------------------------------------

    @property
    def _formula_number(self) -> int:
        return list(_VIEWS).index(self.view)

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the capabilities, which depend on the view."""
        return self._form.capabilities

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.absorbed.n

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the solution."""
        return self._form.shape

    @property
    def dimension(self) -> int:
        """Number of unknowns."""
        return math.prod(self.shape)

    @property
    def default_solver(self) -> str:
        """Name of the solver used by default."""
        return self._form.default_solver

    def start(self) -> Array:
        """Return where solvers start."""
        return self._form.start()

    def check_point(self, x: Any, name: str = "x") -> Array:
        """Return x as an array of the solution's shape; for a Solution its point."""
        values = read_array(x.x if isinstance(x, Solution) else x, name)
        if len(self.shape) == 2 and values.shape != self.shape:
            raise ValueError(
                f"{name} has shape {values.shape}, expected {self.shape}, a recommendation in each row."
            )
        return check_vector(values.ravel() if values.ndim == 2 else values, self.dimension, name).reshape(
            self.shape
        )

    def project_feasible(self, x: Array) -> Array:
        """Return a feasible point near x: flows in balance, recommendations or scores that are distributions."""
        return self._form.project_feasible(x)

    def ranks(self, x: Any) -> Array:
        """Return the scores w of a solution or point, shape (n,), which sum to 1."""
        return self._form.ranks(self.check_point(x))

    def recommendations(self, x: Any) -> Array:
        """Return the recommendations at a solution or point, shape (n, n), one per row, teleport absorbed."""
        return self._form.recommendations(self.check_point(x))

    # --- what is said of a point ------------------------------------------------------------------------------------

    def objective(self, w: Any) -> float:
        """Evaluate the objective at a point: the distance from consensus, pessimistic: minus the distance."""
        return self._form.objective(self.check_point(w)) if has_objective(self) else super().objective(w)

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Pessimistic: a true gap from the dual. Optimistic: what a step still gains. Projection: ‖Tw − w‖₁."""
        return self._form.certificate(self.check_point(x))

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove the gap of the pessimistic view in ball arithmetic; see :mod:`convexrank.proof.games`."""
        if self.view != "pessimistic":
            raise CertificateError(
                f'view is "{self.view}", which has no bound on an error but a residual: nothing is proved about it; '
                '"pessimistic" is convex.'
            )
        return self._form.prove(type(self).__name__, self.check_point(x))

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model of the pessimistic view, with the flows as variables."""
        if self.view != "pessimistic":
            raise ValueError(
                f'view is "{self.view}", and only the pessimistic view is convex and has an exact model.'
            )
        return self._form.to_cvxpy()

    # --- pessimistic: a program in flows ----------------------------------------------------------------------------

    @property
    def owners(self) -> Array:
        """The node of each candidate, shape (K,)."""
        return self.absorbed.owners

    @property
    def candidates(self) -> Array:
        """All candidates with the teleport absorbed, shape (K, n)."""
        return self.absorbed.candidates

    @property
    def gains(self) -> Array:
        """The negative entropy φ of each candidate, shape (K,)."""
        return np.sum(self.candidates * np.log(self.candidates), axis=1)

    def dual(self, s: Any) -> float:
        """Evaluate the dual at multipliers s of the balance, shape (n,): no mixture is farther from consensus."""
        return Pessimistic(self.absorbed).dual(check_vector(s, self.n, "s", each="node"))

    # --- optimistic: a local method ---------------------------------------------------------------------------------

    def _multimodal(self) -> Multimodal:
        # divergences are at least 0, and no start is likelier than another
        return Multimodal(0.0, self.improve, self.absorbed.random, tuple, self.stationarity)

    def _flows(self) -> Flows:
        return Flows(self.n, self.candidates, self.owners, self.gains, self.dual)

    def improve(self, x: Array) -> Array:
        """Return better recommendations: one step of the alternation."""
        return Optimistic(self.absorbed).improve(x)

    def stationarity(self, x: Array) -> float:
        """Return how much the recommendations still gain to first order; 0 at a local minimum."""
        return Optimistic(self.absorbed).stationarity(x)

    # --- projection: a fixed point ----------------------------------------------------------------------------------

    modulus = 1.0  # nothing better is known of the map

    def apply_map(self, x: Array) -> Array:
        """Project w on every set and return the PageRank of the projections."""
        return Projection(self.absorbed).apply_map(x)

    def distance(self, a: Array, b: Array) -> float:
        """Return ‖a − b‖₁."""
        return float(np.abs(a - b).sum())

    def reference(self) -> Array:
        """Return the fixed point by the same steps with other methods: least squares over corners, and eigenvectors."""
        return Projection(self.absorbed).reference()

    def definition(self, x: Array) -> float:
        """Return the objective at x once more, from the formula of the view; of the projections ‖x − Tx‖₁."""
        from convexrank.problems.consensus._reference import plain_value

        return plain_value(self, x)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance, pessimistic or projection; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        view = "pessimistic" if seed % 2 == 0 else "projection"
        # a projection has one fixed point only where the sets do not overlap: not few nodes, and narrow sets
        narrow = view == "projection"
        sets = random_sets(rng, narrow)
        personalization = rng.random(sets.n) + 0.1 if rng.random() < 0.3 else None
        alpha = float(rng.choice([0.7, 0.85, 0.95] if narrow else [0.3, 0.85, 0.95]))
        return cls(sets, alpha, view, personalization)


def random_sets(rng: np.random.Generator, narrow: bool) -> RecommendationSets:
    """Draw candidates, boxes, or chains, single recommendations among them, for at most 6 nodes.

    Narrow sets of different nodes hardly overlap.
    """
    n, kind = int(rng.integers(4 if narrow else 2, 7)), int(rng.integers(3))
    if kind == 0:
        counts = rng.integers(1, 3 if narrow else 5, size=n)
        return CandidateSets(tuple(rng.dirichlet(np.full(n, 0.5), size=int(count)) for count in counts))
    if kind == 1:
        centre, factor = rng.dirichlet(np.ones(n), size=n), 0.2 if narrow else float(rng.uniform(0.2, 0.9))
        return Polytopes(centre * (1.0 - factor), np.minimum(1.0, centre * (1.0 + factor)))
    lengths = [2 if narrow else int(rng.integers(1, n + 1)) for _ in range(n)]
    return PartialOrders([[rng.permutation(n)[:length].tolist()] for length in lengths])
