"""NDCG-consistent regression: fit the gains of each query, divided by the query's best DCG."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, Self

import numpy as np

from convexrank.data import keep
from convexrank.data.fields import Recorded, plain, recorded
from convexrank.divergences.separable import name_of
from convexrank.modelling import exp, log_mean_exp, mean, square, total
from convexrank.modelling.expressions import Node
from convexrank.modelling.groups import Groups
from convexrank.problems.queries._base import GradedQueries, drawn_queries, exact_gains

Array = np.ndarray

_DIVERGENCES = ("squared", "generalized_i")


class NDCGRegression(GradedQueries):
    r"""Regression on normalised gains, which is consistent with NDCG.

    .. math::
        \min_{w,\beta} \; \sum_{i=1}^{m} c_i\, D_\varphi\bigl(t_i \big\| (\nabla\varphi)^{-1}(X_i w + \beta_i)\bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad
        t_{ij} = \frac{g(y_{ij})}{\sum_r g(y_{i[r]})/\log_2(1+r)}

    A sum over the m queries that have two rows of different grades; the others contribute nothing. The target of a
    document is its gain over the best DCG of its query, so that the sum of targets over discounts is NDCG.

    * ``divergence="squared"``: :math:`\tfrac12\sum_j (s_j - t_j)^2`;
    * ``divergence="generalized_i"``: :math:`\sum_j t_j \log(t_j/e^{s_j}) - t_j + e^{s_j}`.

    With ``offsets`` each query has its own offset :math:`\beta_i`, whose best value has a closed form: residuals of
    the square are centred, and the I-divergence becomes :math:`T_i\,\mathrm{KL}(t_i/T_i \| \mathrm{softmax}(s_i))`
    with :math:`T_i = \sum_j t_{ij}`, a weighted ListNet. Otherwise the offsets are 0. :math:`c_i` is one
    over the number of rows with ``normalize``, else 1. Convex. A value costs O(n).

    Parameters
    ----------
    X, qid, l2, l1, dtype : as for :class:`RankSVM`
        The data, the strengths and the precision; offsets are not penalised.
    y : array, shape (n,)
        Grades of at least 0; rows with larger grades should rank higher.
    divergence : {"squared", "generalized_i"} or Divergence
        Which Bregman divergence: a name, or a divergence object; kept as the name.
    gain : {"exp2", "linear"}
        The gain g(y) = 2^y − 1 or g(y) = y.
    offsets : bool
        Whether each query has an offset.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two different grades, grades are negative,
        or a number is out of range.

    References
    ----------
    P. Ravikumar, A. Tewari, E. Yang, On NDCG consistency of listwise ranking methods, AISTATS (2011); S. Acharyya,
    dissertation (2013), section 3.4, where it is the baseline for the squared loss and the I-divergence.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.NDCGRegression(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], l2=0.1)
    >>> problem.targets.round(4).tolist(), problem.solve().status.name
    ([0.8262, 0.0, 0.2754], 'CONVERGED')
    """

    divergence: Any = "squared"
    gain: Literal["exp2", "linear"] = field(default="exp2", kw_only=True)
    offsets: bool = field(default=True, kw_only=True)
    normalize: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        keep(self, divergence=name_of(self.divergence, _DIVERGENCES))
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """The divergence of each query; with offsets the best one is put in."""
        axis, t = f.rows.axis, self._targets(f)
        if self.divergence == "squared":
            rest = f.rows - t
            found = 0.5 * total(square(rest - mean(rest) if self.offsets else rest))
        elif self.offsets:
            whole = axis.sums(t)
            q = t / axis.spread(whole)
            # terms beside the uniform distribution are small
            entropy = axis.sums(q * np.log((q + (q == 0.0)) * axis.spread(axis.sizes)))
            found = whole * (log_mean_exp(f.rows) - mean(f.rows, t) + entropy)
        else:
            entropy = axis.sums(t * np.log(t + (t == 0.0)) - t)
            found = total(exp(f.rows)) - total(f.rows, t) + entropy
        return found / recorded(axis.sizes) if self.normalize else found

    _risk_infimum = 0.0  # type: ignore[assignment]  # divergences are never negative

    def _targets(self, f: Groups) -> Recorded:
        axis, worth = f.rows.axis, exact_gains(recorded(f.grades), self.gain)
        falling = worth[np.lexsort((-plain(worth), axis.query))]
        place = np.arange(len(falling)) - axis.starts[axis.query]
        discounts = np.log(recorded(2.0 + place)) / np.log(recorded(2.0))
        return worth / axis.spread(axis.sums(falling / discounts))

    @property
    def targets(self) -> Array:
        """The normalised gains of the rows that count, query by query."""
        return plain(self._targets(self._groups))

    @property
    def distributions(self) -> Array:
        """The targets scaled to sum to 1 in each query."""
        targets, axis = self.targets, self._groups.rows.axis
        return targets / axis.spread(axis.sums(targets))

    @property
    def query_weights(self) -> Array:
        """The weight of each query's divergence between distributions."""
        return self._groups.rows.axis.sums(self.targets) / (self.groups.sizes if self.normalize else 1.0)

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and rows."""
        from math import log, log2

        from convexrank.problems._plain import exp, sum_over_queries

        def divergence(f: list[float], y: list[float]) -> float:
            worth, beta = [2.0**grade - 1.0 if self.gain == "exp2" else grade for grade in y], 0.0
            falling = sorted(worth, reverse=True)
            best = sum(gain / log2(2.0 + place) for place, gain in enumerate(falling))
            t = [gain / best for gain in worth]
            if self.divergence == "squared":
                if self.offsets:  # the best one: residuals add up to 0
                    beta = (sum(t) - sum(f)) / len(f)
                return 0.5 * sum((score + beta - target) ** 2 for score, target in zip(f, t, strict=True))
            if self.offsets:  # the best one: predictions add up to the sum of the targets
                beta = log(sum(t) / sum(exp(score - max(f)) for score in f)) - max(f)
            found = 0.0
            for target, s in zip(t, [score + beta for score in f], strict=True):
                found += (target * (log(target) - s) if target > 0.0 else 0.0) - target + exp(s)
            return found

        return sum_over_queries(self, scores, divergence)

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X, y, qid = drawn_queries(seed)
        divergence: Any = ["squared", "generalized_i"][int(rng.integers(2))]
        gain: Any = ["exp2", "linear"][int(rng.integers(2))]
        l2, l1 = float(rng.choice([1e-2, 0.3])), float(rng.choice([0.0, 0.0, 0.01]))
        return cls(X, y, qid, divergence, gain=gain, normalize=bool(rng.random() < 0.5), l2=l2, l1=l1)
