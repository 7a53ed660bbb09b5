"""ListNet: the divergence between top-one probabilities of grades and of scores."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, Literal, Self

import numpy as np

from convexrank.data import check_choice
from convexrank.data.fields import plain, recorded
from convexrank.modelling.groups import Groups
from convexrank.problems.queries._base import TopProbabilities, drawn_queries, exact_gains

Array = np.ndarray

# What of the labels the probabilities are proportional to.
TARGETS = {name: name for name in ("softmax", "exp2", "linear")}


class ListNet(TopProbabilities):
    r"""ListNet: fit the probabilities that each document is at the top.

    .. math::
        \min_w \; \sum_{i=1}^{m} c_i \,\mathrm{KL}\bigl(q_i \,\big\|\, \mathrm{softmax}(X_i w)\bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1

    A sum over the m queries that have two rows of different grades; the others contribute nothing. The target
    distribution :math:`q_i` of a query is softmax(y), as published (``target="softmax"``), or proportional to the gains
    :math:`2^y-1` (``"exp2"``) or y (``"linear"``), on which the normalisation of NDCG has no effect. The weight
    :math:`c_i` is 1, or one over the number of rows with ``normalize=True``. The value is a divergence, at least 0: the
    cross-entropy of the paper less the entropy of the target, which is constant. Convex. A value costs O(n).

    Parameters
    ----------
    X, qid, l2, l1, dtype : as for :class:`RankSVM`
        The data, the strengths and the precision.
    y : array, shape (n,)
        Grades; rows with larger grades should rank higher. At least 0 for targets from gains.
    target : {"softmax", "exp2", "linear"}
        The map from grades to a distribution.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, grades are negative
        where gains are used, or a number is out of range.

    References
    ----------
    Z. Cao, T. Qin, T.-Y. Liu, M.-F. Tsai, H. Li, Learning to rank: from pairwise approach to listwise approach, ICML
    (2007), section 5; S. Acharyya, dissertation (2013), section 3.4, where it is the baseline for the KL divergence.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.ListNet(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], l2=0.1)
    >>> problem.idle_queries, problem.solve().status.name
    (1, 'CONVERGED')
    """

    target: Literal["softmax", "exp2", "linear"] = field(default="softmax", kw_only=True)

    def __post_init__(self) -> None:
        check_choice(self.target, TARGETS, "target")
        super().__post_init__()

    def _worth(self, f: Groups) -> Any:
        axis, grades = f.rows.axis, recorded(f.grades)
        if self.target == "softmax":
            return np.exp(grades - axis.spread(axis.highest(f.grades)))
        worth = exact_gains(grades, self.target)
        return worth / axis.spread(axis.highest(plain(worth)))

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and rows."""
        from convexrank.problems._plain import softmax_divergence

        def worth(grades: list[float]) -> list[float]:
            if self.target == "softmax":  # over e^highest, which may be no float
                return [math.exp(grade - max(grades)) for grade in grades]
            return [2.0**grade - 1.0 if self.target == "exp2" else grade for grade in grades]

        return softmax_divergence(self, scores, worth)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X, y, qid = drawn_queries(seed)
        target: Any = ["softmax", "exp2", "linear"][int(rng.integers(3))]
        l2, l1 = float(rng.choice([1e-2, 0.3])), float(rng.choice([0.0, 0.0, 0.05]))
        return cls(X, y, qid, target=target, normalize=bool(rng.random() < 0.5), l2=l2, l1=l1)
