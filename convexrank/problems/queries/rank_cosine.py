"""RankCosine: the angle between scores and grades. Not convex."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import check_positive, keep_checked
from convexrank.data.groups import gains
from convexrank.problems.queries._base import QueryScores, drawn_queries

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RankCosine(QueryScores):
    r"""RankCosine: turn the scores of each query into the direction of its grades.

    .. math::
        \min_w \; \sum_{i=1}^{m} \frac12 \Bigl( 1 - \frac{\langle g_i, s_i \rangle}
        {\|g_i\| \sqrt{\|s_i\|^2 + n_i \varepsilon^2}} \Bigr) + \frac{\lambda_2}{2}\|w\|_2^2, \qquad s_i = X_i w

    A sum over the m queries that have two rows of different grades; the others contribute nothing. :math:`g_i` are the
    gains of the :math:`n_i` documents; each query adds between 0 and 1. The published loss is the case ε = 0. It does
    not depend on the scale of w and is undefined at w = 0, so with a penalty it would have no minimiser; therefore
    ``smoothing`` is positive. With ``center`` gains and scores are centred in each query; then the cosine is a
    correlation and does not depend on an offset of the scores. A value costs O(n).

    **Not convex.** There is no exact model and no bound on value − optimum, and an answer may be a local minimum that
    depends on the start ``x0``. The certificate is of kind "residual", the length of the gradient. The verifier skips
    the problem with a reason; it is not a registered problem.

    Parameters
    ----------
    X, qid, l2, dtype : as for :class:`RankSVM`
        The data, the strength and the precision.
    y : array, shape (n,)
        Grades of at least 0; rows with larger grades should rank higher.
    gain : {"exp2", "linear"}
        The gain g = 2^y − 1 or g = y.
    center : bool
        Whether to subtract the means of gains and scores in each query.
    smoothing : float
        The ε of the formula, above 0; scores with a root mean square far below ε have a cosine near 0.
    l1 : float
        Must be 0.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, grades are negative,
        l1 is given, or a number is out of range.

    References
    ----------
    T. Qin, X.-D. Zhang, M.-F. Tsai, D.-S. Wang, T.-Y. Liu, H. Li, Query-level loss functions for information retrieval,
    Information Processing and Management 44 (2008), section 4.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.RankCosine(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], l2=0.1)
    >>> solution = problem.solve()
    >>> solution.status.name, solution.certificate.kind, "Exact" in problem.capabilities
    ('CONVERGED', 'residual', False)
    """

    gain: Literal["exp2", "linear"] = field(default="exp2", kw_only=True)
    center: bool = field(default=False, kw_only=True)
    smoothing: float = field(default=0.01, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_checked(self, check_positive, "smoothing")
        if self.l1 != 0:
            raise ValueError(
                f"l1 is {self.l1}, expected 0: no method here treats l1 with a risk that is not convex."
            )
        _ = self.directions  # bad grades are refused here, not at the first solve

    @property
    def default_solver(self) -> str:
        """The quasi-Newton method, which needs no convexity to descend."""
        return "lbfgs"

    _convex = False
    _attained = True  # not asked of a risk that is not convex

    @cached_property
    def directions(self) -> Array:
        """The gains of each query, optionally centred, as a vector of length 1; query by query."""
        groups, worth = self.groups, gains(self.grades, self.gain)
        worth = worth / groups.maxima(worth)[groups.query]
        if self.center:
            worth = worth - (groups.sums(worth) / groups.sizes)[groups.query]
        return worth / np.sqrt(groups.sums(worth**2))[groups.query]

    @cached_property
    def _floors(self) -> Array:
        return self.groups.sizes * self.smoothing**2

    def query_oracle(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, all queries at once."""
        groups, aim = self.groups, self.directions
        moved = scores - (groups.sums(scores) / groups.sizes)[groups.query] if self.center else scores
        lengths = np.sqrt(groups.sums(moved**2) + self._floors)
        cosines = groups.sums(aim * moved) / lengths
        slopes = -0.5 * (aim - (cosines / lengths)[groups.query] * moved) / lengths[groups.query]
        return 0.5 * float((1.0 - cosines).sum()), slopes

    def reference_query(self, query: int, scores: Array) -> tuple[float, Array]:
        """Return the loss of one query from its definition, and its gradient."""
        worth, n = gains(self.grades[self.groups.slices[query]], self.gain), len(scores)
        worth = worth / worth.max()  # the cosine does not change, and squares stay finite
        aim, moved = (part - self.center * part.sum() / n for part in (worth, scores))
        length = float(np.sqrt(moved @ moved + n * self.smoothing**2))
        cosine = float(aim @ moved) / (float(np.linalg.norm(aim)) * length)
        slope = (aim / np.linalg.norm(aim) - cosine * moved / length) / length
        return 0.5 * (1.0 - cosine), -0.5 * (slope - self.center * slope.sum() / n)

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and rows."""
        from math import hypot

        from convexrank.problems._plain import sum_over_queries

        def loss(f: list[float], y: list[float]) -> float:
            # over the largest gain: a cosine does not change, and squares of gains may be no floats
            scale = 2.0 ** max(y) - 1.0 if self.gain == "exp2" else max(y)
            g = [(2.0**grade - 1.0 if self.gain == "exp2" else grade) / scale for grade in y]
            if self.center:
                g, f = ([entry - sum(part) / len(part) for entry in part] for part in (g, f))
            length = hypot(*f, len(f) ** 0.5 * self.smoothing)
            cosine = sum(gain * (score / length) for gain, score in zip(g, f, strict=True)) / hypot(*g)
            return 0.5 * (1.0 - cosine)

        return sum_over_queries(self, scores, loss)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X, y, qid = drawn_queries(seed)
        gain: Any = ["exp2", "linear"][int(rng.integers(2))]
        return cls(X, y, qid, gain=gain, center=bool(rng.random() < 0.5), l2=float(rng.choice([1e-2, 0.3])))
