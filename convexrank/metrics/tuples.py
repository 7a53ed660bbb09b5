"""The m-ary ranking risk: the loss of the order of m rows, a U-statistic of order m."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice, permutations
from typing import Any, Literal

import numpy as np

from convexrank.data import check_choice, check_integer, check_vector, read_array
from convexrank.data.messages import shown
from convexrank.metrics.risk import TIE_COSTS, RankingRisk

__all__ = ["m_ary_risk"]

Array = np.ndarray

# So many tuples are visited before one has to ask for rounds, and so many are in memory at once.
_MOST, _AT_ONCE = 2_000_000, 50_000


def m_ary_risk(
    y: Any,
    s: Any,
    m: int = 3,
    *,
    loss: Any = "different",
    ties: Literal["half", "strict", "misrank"] = "half",
    rounds: int | None = None,
    seed: int = 0,
) -> RankingRisk:
    r"""Mean loss of the order in which a rule puts m rows, with its standard error.

    .. math:: L_n(r) = \frac{(n-m)!}{n!} \sum_{i_1, \dots, i_m \text{ different}}
              \ell\bigl(r(x_{i_1}, \dots, x_{i_m}), \bar\pi(y_{i_1}, \dots, y_{i_m})\bigr)

    with the order :math:`\bar\pi` of the labels: remark 2 of the paper. For m = 2 it is
    :func:`~convexrank.metrics.ranking_risk`, and so it is for every m with ``loss="kendall"`` and scores. Rows of equal
    labels have no order that they should be in. The standard error comes from the leading term of Hoeffding's
    decomposition, as for :func:`~convexrank.metrics.ranking_risk`.

    Parameters
    ----------
    y : array-like, shape (n,)
        Real labels, n >= m.
    s : array-like, shape (n,), or callable
        Scores of the rows; or a rule ``s(rows)``, which takes row numbers of shape (t, m) and returns scores of the
        same shape, whose order is the permutation. It may depend on the order of the rows: all are visited.
    m : int
        How many rows are put into order, at least 2.
    loss : {"different", "kendall"} or callable
        1 where the order is wrong in any place; the share of the m(m-1)/2 pairs in the wrong order; or a function of
        labels and scores, both of shape (t, m), which returns t numbers in [0, 1].
    ties : {"half", "strict", "misrank"}
        What equal scores of rows with different labels cost: the mean over random orders of them, nothing, or all.
    rounds : int, optional
        Cut the rows, in so many random orders, into ⌊n/m⌋ tuples each, instead of visiting all tuples.
    seed : int
        Seed of these orders.

    Returns
    -------
    RankingRisk
        The value and its standard error, which is NaN for n = m, and somewhat too large with few rounds.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, a rule or loss returns something else, an option is out
        of range, or there are too many tuples to visit.

    References
    ----------
    Clémençon, Lugosi and Vayatis, Ranking and empirical minimization of U-statistics (2006), remark 2.

    Examples
    --------
    >>> y, s = [3.0, 1.0, 2.0, 0.5], [0.9, 0.4, 0.3, 0.1]
    >>> round(m_ary_risk(y, s, 3).value, 4), round(m_ary_risk(y, s, 3, loss="kendall").value, 4)
    (0.5, 0.1667)
    """
    values = Tuples(m, loss, ties, rounds, seed).row_losses(check_vector(y, name="y"), s)
    n = len(values)
    error = math.nan if n == m else m * float(values.std(ddof=1)) / math.sqrt(n)
    return RankingRisk(float(values.mean()), error)


@dataclass(frozen=True)
class Tuples:
    """Tuples that are visited, and their costs."""

    m: int
    loss: Any
    ties: str
    rounds: int | None
    seed: int

    def __post_init__(self) -> None:
        check_integer(self.m, "m", 2)
        check_choice(self.ties, TIE_COSTS, "ties")
        check_integer(self.seed, "seed", 0)
        if self.rounds is not None:
            check_integer(self.rounds, "rounds", 1)
        if not callable(self.loss):
            check_choice(self.loss, _LOSSES, "loss")

    def row_losses(self, y: Array, s: Any, name: str = "s") -> Array:
        """Return for each row the mean loss of the tuples with it, in a unit in which their mean is the risk."""
        n = len(y)
        if n < self.m:
            raise ValueError(f"y has {n} rows, expected at least m = {self.m}; lower m.")
        s = s if callable(s) else check_vector(s, n, name)
        sums, visited = np.zeros(n), 0
        for rows in self._visited(n, ordered=callable(s)):
            cost = self.losses(y, s, rows, name)
            sums += np.bincount(rows.ravel(), np.repeat(cost, self.m), n)
            visited += len(rows)
        return sums * (n / (self.m * visited))

    def losses(self, y: Array, s: Any, rows: Array, name: str = "s") -> Array:
        """Return the losses of tuples of row numbers, shape (t, m)."""
        return self._cost(y[rows], self._scored(s, rows, name) if callable(s) else np.asarray(s)[rows])

    def _visited(self, n: int, ordered: bool) -> Iterator[Array]:
        if self.rounds is not None:
            rng, used = np.random.default_rng(self.seed), n // self.m * self.m
            for _ in range(self.rounds):
                yield rng.permutation(n)[:used].reshape(-1, self.m)
            return
        count = math.perm(n, self.m) if ordered else math.comb(n, self.m)
        if count > _MOST:
            raise ValueError(
                f"y has {n} rows and so {count} tuples of {self.m}, more than the {_MOST} that are visited one by one; "
                "pass rounds=100, or more for less variance."
            )
        every = (permutations if ordered else combinations)(range(n), self.m)
        while some := list(islice(every, _AT_ONCE)):
            yield np.array(some)

    def _scored(self, s: Any, rows: Array, name: str) -> Array:
        found = read_array(s(rows.copy()), name)
        if found.shape != rows.shape or found.dtype.kind not in "iufb" or not np.isfinite(found).all():
            raise ValueError(
                f"{name} returned {shown(found)} for rows of shape {rows.shape}, expected finite scores of that shape."
            )
        return found.astype(np.float64)

    def _cost(self, labels: Array, scores: Array) -> Array:
        if not callable(self.loss):
            return _LOSSES[self.loss](labels, scores, self.ties)
        found = read_array(self.loss(labels, scores.copy()), "loss")
        if (
            found.shape != (len(labels),)
            or found.dtype.kind not in "iufb"
            or not ((found >= 0) & (found <= 1)).all()
        ):
            raise ValueError(
                f"loss returned {shown(found)} for {len(labels)} tuples, expected a number in [0, 1] for each."
            )
        return found.astype(np.float64)


def _compared(labels: Array, scores: Array) -> tuple[Array, Array]:
    """The order of labels and of scores of each pair in each tuple, as signs of shape (t, m, m)."""
    return np.sign(labels[:, :, None] - labels[:, None]), np.sign(scores[:, :, None] - scores[:, None])


def _different(labels: Array, scores: Array, ties: str) -> Array:
    """1 where the order is wrong; of tied scores the share of their orders that are."""
    asked, got = _compared(labels, scores)
    wrong, tied = (asked * got < 0.0).any(axis=(1, 2)), got == 0.0
    if ties == "strict":
        return np.asarray(wrong, dtype=np.float64)
    if ties == "misrank":
        return (wrong | (tied & (asked != 0.0)).any(axis=(1, 2))).astype(np.float64)
    # of the k! orders of k tied rows those are right that only exchange rows of equal labels; k! by counting to k
    up_to = np.tril(np.ones(labels.shape[1:] * 2, dtype=bool))
    alike, all_tied = ((which & up_to).sum(axis=2) for which in (tied & (asked == 0.0), tied))
    return np.asarray(np.where(wrong, 1.0, 1.0 - (alike / all_tied).prod(axis=1)))


def _kendall(labels: Array, scores: Array, ties: str) -> Array:
    """The share of the pairs in the wrong order."""
    asked, got = _compared(labels, scores)
    m = labels.shape[1]
    wrong = (asked * got < 0.0) + TIE_COSTS[ties] * ((asked != 0.0) & (got == 0.0))
    return np.asarray(wrong.sum(axis=(1, 2)), dtype=np.float64) / (m * (m - 1))


_LOSSES = {"different": _different, "kendall": _kendall}
