"""The m-ary ranking risk: the loss of the order of m rows, a U-statistic of order m."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, permutations
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from convexrank.data import (
    check_choice,
    check_integer,
    check_same_index,
    check_vector,
    keep_checked,
    read_array,
)
from convexrank.data.messages import shown
from convexrank.metrics.risk import TIE_COSTS, RankingRisk

__all__ = ["m_ary_risk"]

Array = np.ndarray

# So many tuples are visited before one has to ask for rounds, and so many are in memory at once; of small systems
# several are taken at once.
_MOST, _AT_ONCE, _OF_SYSTEMS = 2_000_000, 50_000, 20_000

# Tuples whose losses are computed at once.
_IN_CACHE = 8192


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
        Put the rows into ⌊n/m⌋ disjoint tuples in so many ways, drawn at random, instead of visiting all tuples.
    seed : int
        Seed of the draw.

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
    check_same_index(y=y, s=s)
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
    rounds: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "m", minimum=2)
        check_choice(self.ties, TIE_COSTS, "ties")
        keep_checked(self, check_integer, "seed", minimum=0)
        keep_checked(self, check_integer, "rounds", minimum=1)
        if not callable(self.loss):
            check_choice(self.loss, _LOSSES, "loss")

    def read_scores(self, y: Array, s: Any, name: str = "s") -> Any:
        """Return scores, or the rule, as they are used."""
        if len(y) < self.m:
            raise ValueError(f"y has {len(y)} rows, expected at least m = {self.m}; lower m.")
        return s if callable(s) else check_vector(s, len(y), name)

    def row_losses(self, y: Array, s: Any, name: str = "s") -> Array:
        """Return for each row the mean loss of the tuples with it, in a unit in which their mean is the risk."""
        n, sums, visited = len(y), np.zeros(len(y)), 0
        for rows, cost in self._visited(y, self.read_scores(y, s, name), name, numbered=True):
            sums += np.bincount(rows.ravel(), np.tile(cost, self.m), n)
            visited += len(cost)
        return sums * (n / (self.m * visited))

    def mean_loss(self, y: Array, s: Any, name: str = "s") -> float:
        """Return the risk alone."""
        parts = [(cost.sum(), len(cost)) for _, cost in self._visited(y, s, name, numbered=False)]
        total, visited = np.sum(parts, axis=0)
        return float(total / visited)

    def losses_of_rule(self, labels: Array, rule: Any, rows: Array, name: str = "s") -> Array:
        """Return the losses of t tuples, from their labels and the numbers of their rows, both of shape (m, t)."""
        return self.losses(labels, self._scored(rule, rows, name))

    def _visited(self, y: Array, s: Any, name: str, *, numbered: bool) -> Iterator[tuple[Array, Array]]:
        """Return the numbers of the rows of tuples, shape (m, t), if they are wanted, and their losses."""
        if callable(s):
            for numbers, labels in self._known_rows([np.arange(len(y)), y], ordered=True):
                rows = numbers.astype(np.intp)
                yield rows, self.losses_of_rule(labels, s, rows, name)
            return
        known = [np.arange(len(y)), y, s] if numbered else [y, s]
        for *numbers, labels, scores in self._known_rows(known, ordered=False):
            rows = numbers[0].astype(np.intp) if numbered else np.empty((self.m, 0), dtype=np.intp)
            yield rows, self.losses(labels, scores)

    def _known_rows(self, known: list[Array], *, ordered: bool) -> Iterator[Array]:
        """Return what is known of the rows of tuples, shape (q, m, t)."""
        sample, n = np.array(known, dtype=np.float64), len(known[0])
        if self.rounds is not None:
            rng = np.random.default_rng(self.seed)
            for places in systems([sample], (self.m,), self.rounds, rng):
                yield np.stack(places, axis=1)
            return
        count = math.perm(n, self.m) if ordered else math.comb(n, self.m)
        if count > _MOST:
            raise ValueError(
                f"y has {n} rows and so {count} tuples of {self.m}, more than the {_MOST} that are visited one by one; "
                "pass rounds=100, or more for less variance."
            )
        every = (permutations if ordered else combinations)(range(n), self.m)
        while some := list(islice(every, _AT_ONCE)):
            yield sample[:, np.array(some).T]

    def _scored(self, s: Any, rows: Array, name: str) -> Array:
        asked = np.array(rows.T, order="C")
        found = read_array(s(asked), name)
        if found.shape != rows.T.shape or found.dtype.kind not in "iufb" or not np.isfinite(found).all():
            raise ValueError(
                f"{name} returned {shown(found)} for rows of shape {rows.T.shape}, expected finite scores of that "
                "shape."
            )
        return found.T.astype(np.float64)

    def losses(self, labels: Array, scores: Array) -> Array:
        """Return the losses of t tuples, from their labels and scores, both of shape (m, t)."""
        if not callable(self.loss):  # in pieces that stay in the processor's memory
            pieces = [slice(start, start + _IN_CACHE) for start in range(0, labels.shape[1], _IN_CACHE)]
            cost = _LOSSES[self.loss]
            return np.concatenate([cost(labels[:, one], scores[:, one], self.ties) for one in pieces])
        found = read_array(self.loss(*(np.array(given.T, order="C") for given in (labels, scores))), "loss")
        if (
            found.shape != labels.shape[1:]
            or found.dtype.kind not in "iufb"
            or not ((found >= 0) & (found <= 1)).all()
        ):
            raise ValueError(
                f"loss returned {shown(found)} for {labels.shape[1]} tuples, expected a number in [0, 1] for each."
            )
        return found.astype(np.float64)


def disjoint_tuples(samples: Sequence[Array], taken: Sequence[int]) -> int:
    """Return how many disjoint tuples there are that have so many rows of each sample."""
    return min(sample.shape[1] // rows for sample, rows in zip(samples, taken, strict=True))


def systems(
    samples: Sequence[Array], taken: Sequence[int], wanted: int, rng: np.random.Generator
) -> Iterator[list[Array]]:
    """Put the rows of samples of shape (q, n) into disjoint tuples, which have so many rows of each, in many ways.

    A system is as many disjoint tuples as there are. Random orders are drawn; then the places of a tuple are turned
    against one another by one row after the other. Returns one array of shape (q, t) for each row of a tuple; the
    tuples of several systems at once, one system after the other.
    """
    some: list[list[Array]] = []
    for block in _blocks_of_systems(samples, taken, wanted, rng):
        some.append(block)
        if 2 * sum(rows[0].shape[1] for rows in some) > _OF_SYSTEMS:
            yield _joined(some)
            some = []
    if some:
        yield _joined(some)


def _joined(blocks: list[list[Array]]) -> list[Array]:
    return (
        blocks[0]
        if len(blocks) == 1
        else [np.concatenate(rows, axis=1) for rows in zip(*blocks, strict=True)]
    )


def _blocks_of_systems(
    samples: Sequence[Array], taken: Sequence[int], wanted: int, rng: np.random.Generator
) -> Iterator[list[Array]]:
    """The systems of one draw after the other, in blocks; of large tuples a draw has few."""
    size, seen = disjoint_tuples(samples, taken), 0
    while seen < wanted:
        places = [
            place
            for sample, rows in zip(samples, taken, strict=True)
            for place in np.array_split(sample.take(rng.permutation(sample.shape[1]), axis=1), rows, axis=1)
        ]
        windows = [  # of one row they are the rows: tuples so large have hundreds of places
            place[:, :, None]
            if size == 1
            else sliding_window_view(np.concatenate([place, place[:, : size - 1]], axis=1), size, axis=1)
            for place in places
        ]
        turns, step = min(size, wanted - seen), max(_OF_SYSTEMS // size, 1)
        for first in range(0, turns, step):
            turn = np.arange(first, min(first + step, turns))
            yield [
                window[:, turn * k % window.shape[1]].reshape(len(window), -1)
                for k, window in enumerate(windows)
            ]
        seen += turns


def _pairs(labels: Array, scores: Array) -> Iterator[tuple[Array, Array, Array]]:
    """For each two places of a tuple: whose labels differ, whose order is wrong, and whose scores are tied."""
    for i, j in combinations(range(len(labels)), 2):
        differ, level = labels[i] != labels[j], scores[i] == scores[j]
        yield differ, ((labels[i] > labels[j]) != (scores[i] > scores[j])) & differ & ~level, level


def _different(labels: Array, scores: Array, ties: str) -> Array:
    """1 where the order is wrong; of tied scores the share of their orders that are."""
    out_of_order, tied = np.zeros((2, labels.shape[1]), dtype=bool)
    for differ, wrong, level in _pairs(labels, scores):
        out_of_order |= wrong | (level & differ) if ties == "misrank" else wrong
        tied |= level
    losses = out_of_order.astype(np.float64)
    if ties == "half" and (open_ones := np.flatnonzero(tied & ~out_of_order)).size:
        losses[open_ones] = 1.0 - _share_of_right_orders(labels[:, open_ones], scores[:, open_ones])
    return losses


def _share_of_right_orders(labels: Array, scores: Array) -> Array:
    """Of the k! orders of k tied rows those are right that only exchange rows of equal labels; k! by counting to k."""
    up_to = np.tri(len(labels), dtype=bool)[:, :, None]
    tied, equal = (values[:, None] == values for values in (scores, labels))
    alike, all_tied = ((which & up_to).sum(axis=1) for which in (tied & equal, tied))
    return np.asarray((alike / all_tied).prod(axis=0))


def _kendall(labels: Array, scores: Array, ties: str) -> Array:
    """The share of the pairs in the wrong order."""
    cost = np.zeros(labels.shape[1])
    for differ, wrong, level in _pairs(labels, scores):
        cost += wrong + TIE_COSTS[ties] * (differ & level)
    return cost / math.comb(len(labels), 2)


_LOSSES = {"different": _different, "kendall": _kendall}
