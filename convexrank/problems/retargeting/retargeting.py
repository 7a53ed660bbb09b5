"""Monotone retargeting: regression on the targets, in the order of the grades, that are easiest to fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.results import Solution
from convexrank.data import check_choice
from convexrank.divergences import Divergence, resolve
from convexrank.problems.queries._base import QueryScores, drawn_queries
from convexrank.problems.retargeting._grade_blocks import GradeBlocks, TargetRegression
from convexrank.problems.retargeting._link import TargetLink, target_link
from convexrank.problems.retargeting._reference import joint_model, reference_cost
from convexrank.solvers.row_faces import Blocks

Array = np.ndarray

# Targets of rows of one grade are in any order, or equal.
ORDERS = {name: name for name in ("hidden", "block")}
# Targets (scores) that differ by less than this share of their size (by less than this) have learned nothing.
_EVEN = 0.01


@dataclass(frozen=True, eq=False)
class Retargeting(QueryScores):
    r"""Monotone retargeting: fit scores to targets of any size, as long as they have the order of the grades.

    .. math::
        \min_w \; \sum_{i=1}^{m} c_i \min_{\beta_i,\; r_i \in \mathcal{R}_i \cap \mathcal{S}_i}
        D_\phi\bigl(r_i \,\big\|\, (\nabla\phi)^{-1}(X_i w + \beta_i \mathbf{1})\bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2

    A sum over the m queries that have two rows of different grades; the others contribute nothing. :math:`c_i` is one
    over the number of rows with ``normalize``, else 1. :math:`\mathcal{R}_i` is the set of vectors in the order of the
    grades: with ``order="hidden"`` rows of one grade may be in any order, with ``order="block"`` they have
    equal targets. :math:`\mathcal{S}_i` is the simplex, or with ``simplex=False`` the domain of φ. Rows of one
    grade with tied scores get equal targets.

    Targets and offsets are minimised over in closed form: with z the isotonic regression of the scores along the
    order, the cost of a query is :math:`D_\psi(\theta\|z)`, ψ the conjugate of φ on the plane where r adds up to 1
    (without the simplex, of φ), with gradient :math:`\nabla\psi(\theta)-\nabla\psi(z)`, prediction less target:
    O(n log n) for all queries. For the squared distance the targets are also at least 0.

    **Convex only for the squared distance**; for other divergences there is no exact model, an answer may be a local
    minimum that depends on the start, and the certificate is of kind "residual", the length of the gradient. **The
    global minimum is trivial:** with offsets, and without the simplex, w = 0 has cost 0 for all data: all scores are
    equal and so are all targets. A solve that ends there reports this in its message and by a warning. Useful answers
    are local minima, and iterates before the trivial minimum; margins avoid the trivial minimum.

    Parameters
    ----------
    X, qid, l2, dtype : as for :class:`RankSVM`
        The data, the strength and the precision; offsets are not penalised.
    y : array, shape (n,)
        Grades; rows with larger grades should rank higher. Only their order has an effect.
    divergence : Divergence or str
        A separable divergence without weights, or KL, or a name: "squared", "kl", "generalized_i", "bit_entropy",
        "itakura_saito", ….
    order : {"hidden", "block"}
        Rows of equal grade share only their place among the other grades, or also their target.
    simplex : bool
        Whether targets are distributions; those of KL always are.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.
    offsets : bool, optional
        Whether each query has an offset; by default only with the simplex. An offset has no effect for the squared
        distance without the simplex. The I-divergence on the simplex with offsets is KL.
    l1 : float
        Strength of the l1 penalty; must be 0 except for the squared distance.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, a number is out of
        range, the divergence has weights or a domain that the targets leave, or offsets make the problem trivial.

    References
    ----------
    S. Acharyya, dissertation (2013), chapter 3: (3.4), (3.7), and the algorithms of Figures 3.1 and 3.2, which the
    solver ``alternating`` runs.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 0.2], [0.5, 0.1], [0.2, 0.9]]
    >>> problem = cr.problems.Retargeting(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], offsets=False, l2=0.01)
    >>> solution = problem.solve()
    >>> solution.status.name, solution.certificate.kind, problem.targets(solution.x).round(3).tolist()
    ('CONVERGED', 'global', [0.63, 0.037, 0.333, nan])
    """

    divergence: Any = "squared"
    order: Literal["hidden", "block"] = field(default="hidden", kw_only=True)
    simplex: bool = field(default=True, kw_only=True)
    normalize: bool = field(default=True, kw_only=True)
    offsets: bool | None = field(default=None, kw_only=True)

    # weights are fitted to targets by least squares, from all products of two columns
    _takes_designs = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.order, ORDERS, "order")
        self.link.check_sizes(self.groups)
        if self.l1 != 0 and not self._convex:
            raise ValueError(
                f"l1 is {self.l1}, expected 0: no method here treats l1 with a risk that is not convex; "
                "divergence='squared' is."
            )

    # --- properties -----------------------------------------------------------------------------------------------

    @cached_property
    def link(self) -> TargetLink:
        """Map from scores to predictions and targets."""
        divergence: Divergence = resolve(self.divergence)
        return target_link(divergence, bool(self.simplex), self.offsets)

    @property
    def _convex(self) -> bool:
        """Whether the objective is convex: for the squared distance, to a convex set of targets."""
        return self.link.quadratic

    @property
    def zero_is_optimal(self) -> bool:
        """Whether w = 0 has cost 0 for all data."""
        return self.link.offsets or not self.link.simplex

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """Smooth, in blocks, certified; exact where it is convex."""
        return super().capabilities | {"Blocks"}

    @property
    def default_solver(self) -> str:
        """The quasi-Newton method, on the marginal."""
        return "accelerated" if self.l1 > 0 else "lbfgs"

    _attained = True  # no question of separable data here

    # --- the marginal ---------------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> GradeBlocks:
        """The blocks of equal grade of each query."""
        return GradeBlocks(self.groups, self.grades)

    @cached_property
    def row_weights(self) -> Array:
        """The weight of its query, for each row that counts."""
        sizes = self.groups.sizes
        return np.repeat(1.0 / sizes if self.normalize else np.ones(len(sizes)), sizes)

    def pooled(self, scores: Array) -> Array:
        """Return the isotonic regression of scores along the order, laid out query by query."""
        if self.order == "block":
            return self.blocks.pooled_means(scores)
        chain = self.blocks.chain(scores)
        return chain.scatter(chain.pooled(chain.gather(scores))[0])

    def query_oracle(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, all queries at once."""
        link, weights = self.link, self.row_weights
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            natural = link.natural(scores, self.groups)
            targets = link.targets(self.pooled(scores), self.groups)
            value = float(weights @ link.mismatch(targets, natural))
            slopes = weights * (link.predictions(natural) - targets)
        return (value if np.isfinite(value) else np.inf), slopes

    def _best_targets(self, w: Array) -> Array:
        return self.link.targets(self.pooled(self._ordered(w)), self.groups)

    def targets(self, w: Any) -> Array:
        """Return the best targets for the scores Xw, shape (n,); NaN for rows of idle queries, which have none."""
        found = np.full(self.X.shape[0], np.nan)
        found[self._rows] = self._best_targets(self.check_point(w))
        return found

    def reference_query(self, query: int, scores: Array) -> tuple[float, Array]:
        """Return the cost of one query and its gradient, by other code: one query, one equation at a time."""
        stretch = self.groups.slices[query]
        value, slopes = reference_cost(self.link, scores, self.grades[stretch], self.order == "block")
        weight = float(self.row_weights[stretch.start])
        return weight * value, weight * slopes

    def _ball_tangent(self, scores: Any) -> Any:
        """Return the risk and a tangent in ball arithmetic, from the definition, for proofs; shape (n,) in and out."""
        from convexrank.proof.orders import Blocks, tangent_of_distances

        queries = [
            Blocks(
                rows,
                grades,
                len(rows) if self.normalize else 1,
                tied=self.order == "block",
                simplex=self.link.simplex,
                centred=self.link.adds_up,
            )
            for rows, grades in self._queries()
        ]
        return tangent_of_distances(scores, queries)

    # --- the joint form -------------------------------------------------------------------------------------------

    def _risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the squared distance to targets in the order of the grades, and the constraints on the targets."""
        return joint_model(
            self.blocks, self.groups, self.link, self.order, self.row_weights, scores[self._rows]
        )

    @cached_property
    def regression(self) -> TargetRegression:
        """The regression on given targets, the second half of the alternation."""
        return TargetRegression(self.rows_of_queries, self.groups, self.link, self.row_weights, self.l2)

    def _blocks(self) -> Blocks:
        return Blocks(2, self.dimension + self.groups.rows, self._minimized)

    def _minimized(self, block: int, x: Array) -> Array:
        """Return the joint point (w, targets) with the targets at their best (block 0), or w (block 1)."""
        w, targets = x[: self.dimension], x[self.dimension :]
        if block == 0:
            return np.concatenate((w, self._best_targets(w)))
        return np.concatenate((self.regression.fit(targets, w), targets))

    def start(self) -> Array:
        """Return about the fit of the targets that the grades 0, 1, 2, … of each query, as scores, are nearest to.

        Not w = 0, which is the trivial minimum, where every method would stay.
        """
        blocks = self.blocks
        grades = np.empty(self.groups.rows)
        grades[blocks.order] = blocks.of_blocks(blocks.lifted(np.ones(len(blocks.sizes))))
        return self.regression.near(self.link.targets(grades, self.groups))

    # --- what is proved of an answer ------------------------------------------------------------------------------

    def is_collapsed(self, w: Any) -> bool:
        """Return whether nothing was learned: targets within 1 % of even ones in every query.

        Parameters
        ----------
        w : array, shape (d,), or Solution
            The point.

        Returns
        -------
        bool
            Whether the targets are even, on the simplex; without it, whether the pooled scores are: within 0.01, and
            for squares, which have no scale of their own, up to rounding.
        """
        groups, link, size = self.groups, self.link, 1.0
        values = self.pooled(self._ordered(self.check_point(w)))
        if link.simplex:
            values, size = link.targets(values, groups), 1.0 / groups.sizes
        allowed = 1e-12 if link.quadratic and not link.simplex else _EVEN * size
        return bool((groups.maxima(values) - groups.minima(values) <= allowed).all())

    def _remark(self, solution: Solution) -> str:
        """Return a remark if an answer is the trivial minimum."""
        if self.zero_is_optimal and self._convex and self.l2 > 0:
            return (
                "the only minimiser of this formulation is w = 0, whatever the data: the answer is where the solver "
                "stopped on the way there; use margins (MarginRetargeting)"
            )
        if self.zero_is_optimal and self.is_collapsed(solution.x):
            return (
                "this is the trivial minimum: scores and targets of each query are even, nothing is learned; start "
                "elsewhere (x0), lower l2, or use margins (MarginRetargeting)"
            )
        return ""

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, by another minimisation over targets and offsets."""
        from convexrank.problems.retargeting._reference import plain_risk

        return plain_risk(self, scores)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small convex instance without offsets, so that the minimum is not w = 0; seeds repeat."""
        rng, X, y, qid = drawn_queries(seed)
        order: Any = ["hidden", "block"][int(rng.integers(2))]
        l2 = float(rng.choice([1e-2, 0.1]))
        return cls(X, y, qid, order=order, normalize=bool(rng.random() < 0.5), offsets=False, l2=l2)
