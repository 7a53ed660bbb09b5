"""Empirical convex risk over all pairs of rows with different real labels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank import losses
from convexrank.data import check_positive, keep, keep_checked
from convexrank.data.fields import recorded
from convexrank.modelling import pair_sums, total
from convexrank.modelling.expressions import Node
from convexrank.modelling.groups import Groups
from convexrank.problems._formulation import Formulation
from convexrank.problems.bipartite._base import random_features
from convexrank.regularizers import L1Ball, L2Ball


def ball_of(l1_ball: float | None, l2_ball: float | None) -> L1Ball | L2Ball | None:
    """Return the ball of one of two radii; None without any.

    Raises
    ------
    ValueError, TypeError
        When both are given, or a radius is no positive number.
    """
    if l1_ball is not None and l2_ball is not None:
        raise ValueError("l1_ball and l2_ball are both given; give at most one constraint.")
    if l1_ball is not None:
        return L1Ball(check_positive(l1_ball, "l1_ball"))
    return None if l2_ball is None else L2Ball(check_positive(l2_ball, "l2_ball"))


Array = np.ndarray


class ConvexRisk(Formulation):
    r"""The empirical convex ranking risk A_n: a U-statistic over all pairs of rows with real-valued labels.

    .. math::
        \min_w \; \frac{1}{n(n-1)} \sum_{i \ne j,\; y_i \ne y_j} \phi\bigl(-\operatorname{sgn}(y_i-y_j)(f_i-f_j)\bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    over all ordered pairs, so that each unordered pair counts twice; φ(x) = ℓ(−x) is the cost that belongs to the loss
    ℓ. The paper's sum also runs over pairs with equal labels, which add the constant φ(0) each: :meth:`paper_value`.
    ``l1_ball`` and ``l2_ball`` constrain w as in the paper's classes for boosting and for kernel machines.

    Cost of a value: O(n log n) with the exponential, hinge and squared hinge costs, whatever the number of different
    labels, and with the logistic cost for a few labels; O(n²) time with bounded memory otherwise. A pair with tied
    scores has the cost φ(0).

    Parameters
    ----------
    X, l2, l1, dtype : as for :class:`PNormPush`
        The data, the strengths and the precision.
    y : array, shape (n,)
        Real labels, at least two different values; rows with larger labels should rank higher.
    cost : Loss or str
        A loss object or a name: exponential, logistic, hinge, squared_hinge. ``losses.Logistic(base=2)`` is the
        paper's logit cost, with φ(0) = 1.
    qid : array of int or str, shape (n,), QueryGroups, or None
        The query of each row; the risk is the sum over queries of A_n of their rows. One query by default.
    l1_ball, l2_ball : float, optional
        Radius B of the constraint :math:`\|w\|_1 \le B` or :math:`\|w\|_2 \le B`; at most one of the two constraints.
    sample_weight : array, shape (n,), optional
        Weights of rows, like repeated rows: a pair has the weight :math:`w_i w_j`, and n is the total weight of a
        query (above 1).

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, all labels are equal, or a number is out of range.

    References
    ----------
    S. Clémençon, G. Lugosi, N. Vayatis, Ranking and empirical minimization of U-statistics (2006), section 7.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[1.0], [2.0], [1.5], [0.0]], [0.1, 2.5, 3.0, -1.0]
    >>> problem = cr.problems.ConvexRisk(X, y, "hinge", l2_ball=2.0)
    >>> solution = problem.solve()
    >>> solution.status.name, round(solution.value, 4)
    ('CONVERGED', 0.3333)
    """

    cost: Any = "exponential"
    l1_ball: float | None = None
    l2_ball: float | None = None

    def __post_init__(self) -> None:
        keep(self, cost=losses.resolve(self.cost, "cost"))
        _ = self._ball  # a bad radius is refused here, not at the first solve
        keep_checked(self, check_positive, "l1_ball", "l2_ball")
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """The mean cost of a pair; each unordered pair counts twice, and n is the weight of the rows of a query."""
        n = f.rows.axis.sums(recorded(f.rows.axis.weights))
        if not (n > 1.0).all():
            raise ValueError(f"sample_weight sums to {n.min()}, expected more than 1: it stands for n.")
        return total(pair_sums(self.cost, f.rows, f.rows, f.grades)) * (2.0 / (n * (n - 1.0)))

    @property
    def _takes_chunks(self) -> bool:  # type: ignore[override]
        """Whether X may be rows out of memory: where the cost factorises, in two passes, with all scores held."""
        return losses.resolve(self.cost, "cost").factorises

    @property
    def _ball(self) -> L1Ball | L2Ball | None:  # type: ignore[override]
        """The constraint on w."""
        return ball_of(self.l1_ball, self.l2_ball)

    def paper_value(self, w: Any) -> float:
        r"""Return A_n as printed: pairs with equal labels included, which add the constant φ(0) each."""
        axis, grades = self._groups.rows.axis, self._groups.grades
        kinds, number = np.unique(np.stack([axis.query, grades]), axis=1, return_inverse=True)
        mass, total_mass = np.bincount(number.ravel(), axis.weights), axis.sums(axis.weights)
        ties = np.bincount(kinds[0].astype(int), mass * (mass - 1.0)) / (total_mass * (total_mass - 1.0))
        with np.errstate(all="ignore"):
            return self._reference_value(self.scores(self.check_point(w))) + float(
                ties.sum() * self.cost(0.0)
            )

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over ordered pairs."""
        from convexrank.problems._plain import loss_of, queries_of

        f, y = [float(score) for score in scores], self.y.tolist()
        weight = [1.0] * len(f) if self.sample_weight is None else self.sample_weight.tolist()
        cost, whole = loss_of(self.cost), 0.0
        for query in queries_of(self.qid, len(f)):
            rows, risk = [i for i in query if weight[i] > 0.0], 0.0
            for i in rows:
                for j in rows:
                    if y[i] != y[j]:
                        sign = 1.0 if y[i] > y[j] else -1.0
                        risk += weight[i] * weight[j] * cost(sign * (f[i] - f[j]))
            n = sum(weight[i] for i in rows)
            whole += risk / (n * (n - 1.0)) if risk else 0.0
        return whole

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        X = random_features(rng, int(rng.integers(5, 24)), int(rng.integers(1, 5)), bounded=True)
        y = X @ rng.normal(size=X.shape[1]) + rng.normal(size=len(X))
        if rng.random() < 0.5:
            y = np.round(y)  # graded labels, many of them equal
            y[0], y[-1] = y.min() - 1.0, y.max() + 1.0
        cost = ["exponential", "logistic", "hinge", "squared_hinge"][int(rng.integers(4))]
        kind = int(rng.integers(3))
        balls: dict[str, Any] = {"l1_ball": 2.0} if kind == 1 else {"l2_ball": 1.0} if kind == 2 else {}
        return cls(X, y, cost, l2=float(rng.choice([1e-2, 0.3])), l1=float(rng.choice([0.0, 0.01])), **balls)
