r"""Conjugates of sums of log-sum-exps: :math:`R(\theta) = \max_v \langle \theta, Av\rangle - G(v)`, G a sum in blocks.

The dual variable v is what the risk chooses: the shares of each log-sum-exp or maximum, a distribution. A block states
its part of G and of the constraints on v in numpy, in cvxpy and in balls, and the v that belongs to scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import picks
from convexrank.modelling.log_sum_exps.terms import log_sum_exp_gradient

Array = np.ndarray


def entropies(p: Array) -> Array:
    """Return p log p for each p of at least 0, and 0 at 0."""
    return p * np.log(np.where(p > 0.0, p, 1.0))


def reference_highest(scores: Array, width: float) -> Array:
    """Return weights on the simplex that favour scores within a width of the highest: the projection of scores / width.

    For any weights on the simplex the mean is at most the maximum. The weights are at least 0, and their sum is 1.
    """
    with np.errstate(over="ignore"):  # for width 0 only the highest scores have weight
        short = (scores.max() - scores) / width
    order = np.argsort(short)
    rising = short[order[: int(np.searchsorted(short[order], 1.0)) + 1]]
    rising = rising[np.isfinite(rising)]
    # the level at which the first m weights sum to 1; the lowest of these levels is that of the projection
    levels = (1.0 + np.cumsum(rising)) / np.arange(1.0, len(rising) + 1.0)
    shares = np.maximum(levels.min() - short, 0.0)
    return shares / shares.sum()


def scaled_to(v: Array, total: float) -> Array:
    """Return numbers of at least 0 scaled to a sum, all equal where they are all 0."""
    whole = float(v.sum())
    return v * (total / whole) if whole > 0.0 else np.full(len(v), total / len(v))


@dataclass(frozen=True, eq=False)
class Shares:
    r"""A term :math:`c\log\sum_r e^{t\theta_r+v_r}`, or :math:`c\max_r t\theta_r`: v is a distribution over the rows.

    Its part of A has the factor c·t; G is :math:`c\sum_r v_r(\log v_r - \log a_r)`, or 0 for a maximum.

    Parameters
    ----------
    rows : ndarray of int, shape (g,)
        The rows.
    rate : float
        The number t.
    coefficient : float
        The number c.
    log_weights : ndarray, shape (g,), or None
        The logarithms of a; None for a maximum.
    """

    rows: Array
    rate: float
    coefficient: float
    log_weights: Array | None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def modulus(self) -> float:
        """Pinsker's inequality: the entropy is 1-strongly convex in the sum of absolute values."""
        return 0.0 if self.log_weights is None else self.coefficient

    def value(self, v: Array) -> float:
        """Return the divergence from the weights."""
        if self.log_weights is None:
            return 0.0
        return self.coefficient * float((entropies(v) - v * self.log_weights).sum())

    def violation(self, v: Array) -> float:
        """Return how far v is from the simplex."""
        return max(-float(v.min()), abs(float(v.sum()) - 1.0), 0.0)

    def at(self, scores: Array, width: float, heat: float) -> Array:
        """Return the softmax, of scores over 1 + heat, or for a maximum the shares of scores near the highest one."""
        some = self.rate * scores[self.rows]
        if self.log_weights is not None:
            return log_sum_exp_gradient(some / (1.0 + heat) + self.log_weights)[1]
        return reference_highest(some, width) if width > 0.0 else scaled_to((some == some.max()) * 1.0, 1.0)

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return the divergence, and the simplex."""
        import cvxpy as cp

        limits = [cp.sum(v) == 1, v >= 0]
        if self.log_weights is None:
            return 0.0, limits
        return self.coefficient * (-cp.sum(cp.entr(v)) - self.log_weights @ v), limits

    def ball_value(self, parts: list[Any]) -> Any:
        """Return the divergence."""
        from convexrank.proof.balls import ZERO, around, dot, total

        if self.log_weights is None:
            return ZERO
        logs = [around(log, self.size) for log in self.log_weights.tolist()]
        entropy = total(part * part.log() for part in parts if not part.is_zero())
        return around(self.coefficient, 0) * (entropy - dot(parts, logs))


def shares_of_terms(terms: Any) -> tuple[Shares, ...]:
    """Return a block for each of the log-sum-exps that make up a risk."""
    return tuple(
        Shares(term.rows, term.sign_times_power, term.outer_coefficient, term.log_weights) for term in terms
    )


@dataclass(frozen=True, eq=False)
class Conjugate:
    r"""A risk as :math:`R(\theta) = \max_v \langle\theta, Av\rangle - G(v)`, over the v of its blocks.

    Parameters
    ----------
    blocks : tuple of Shares
        The parts of v, in order.
    rows : int
        Number of rows n.
    heat : callable
        How much smoother a log-sum-exp is where maxima have a width.
    """

    blocks: tuple[Shares, ...]
    rows: int
    heat: Callable[[float], float]

    #: Slopes are a linear map of v: nothing is added.
    shift = None
    #: No v has slopes of 0 by its form: distributions add up to 1.
    rest = None

    @cached_property
    def ends(self) -> Array:
        """Ends of the blocks in v."""
        return np.cumsum([0, *(block.size for block in self.blocks)])

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """A, shape (n, m): an entry c·t for each row of a block."""
        factors = np.repeat([block.coefficient * block.rate for block in self.blocks], np.diff(self.ends))
        places = np.concatenate([block.rows for block in self.blocks]), np.arange(int(self.ends[-1]))
        return sparse.csr_array((factors, places), shape=(self.rows, int(self.ends[-1])))

    @property
    def sums(self) -> sparse.csr_array:
        """The matrix of the sums of each block."""
        owner = np.repeat(np.arange(len(self.blocks)), np.diff(self.ends))
        return picks(owner, len(self.blocks)).T.tocsr()

    @property
    def modulus(self) -> float:
        """The smallest modulus of the blocks."""
        return min(block.modulus for block in self.blocks)

    def parts(self, v: Any) -> list[Any]:
        """Cut v into blocks."""
        return [v[start:end] for start, end in pairwise(self.ends)]

    def slopes(self, v: Array) -> Array:
        """Return Av: the derivative of the risk in each row's score."""
        return self.matrix @ v

    def value(self, v: Array) -> float:
        """Return G(v)."""
        return sum(block.value(part) for block, part in zip(self.blocks, self.parts(v), strict=True))

    def violation(self, v: Array) -> float:
        """Return how far v is from the constraints of the blocks."""
        pairs = zip(self.blocks, self.parts(v), strict=True)
        return max(block.violation(part) for block, part in pairs)

    def near(self, x: Array) -> Array:
        """Return a v near x that satisfies the constraints of the blocks."""
        return np.concatenate([scaled_to(np.maximum(part, 0.0), 1.0) for part in self.parts(x)])

    def at(self, scores: Array, width: float = 0.0) -> Array:
        """Return the v of scores."""
        heat = self.heat(width)
        return np.concatenate([block.at(scores, width, heat) for block in self.blocks])

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return G and the constraints in cvxpy."""
        made = [block.model(part) for block, part in zip(self.blocks, self.parts(v), strict=True)]
        return sum(value for value, _ in made), [limit for _, limits in made for limit in limits]

    def exactly(self, v: Array) -> list[Any]:
        """Return balls near v that satisfy the constraints: scaled to sum to 1 in each block."""
        from convexrank.proof.balls import exact, total

        found = []
        for part in self.parts(v):
            balls = exact(np.maximum(part, 0.0))
            whole = total(balls)
            found += [ball / whole for ball in balls]
        return found

    def ball_value(self, parts: list[Any]) -> Any:
        """Return G over balls."""
        from convexrank.proof.balls import total

        return total(
            block.ball_value(part) for block, part in zip(self.blocks, self.parts(parts), strict=True)
        )

    def ball_slopes(self, parts: list[Any]) -> list[Any]:
        """Enclose Av."""
        from convexrank.proof.balls import ZERO, around

        slopes, matrix = [ZERO] * self.rows, self.matrix.tocoo()
        places = matrix.coords[0].tolist(), matrix.coords[1].tolist(), matrix.data.tolist()
        for row, column, factor in zip(*places, strict=True):
            slopes[row] = slopes[row] + around(factor, 0) * parts[column]
        return slopes


# Pairs with a multiplier each, or a term of an exact model.
_MOST_PAIRS = 5_000_000

# What has something for each pair, and what may be taken in its place.
_DUAL, MODEL = ("the dual has a multiplier", ""), ("the exact model has a term", "a fast solver, ")


def refuse_many_pairs(count: int, asked: tuple[str, str] = _DUAL) -> None:
    """Refuse a dual or an exact model that would not fit into memory."""
    if count > _MOST_PAIRS:
        what, other = asked
        raise ValueError(
            f"{what} for each of {count} pairs, expected at most {_MOST_PAIRS}; take fewer rows, {other}or a risk that "
            "is no sum over pairs, such as a PNormPush."
        )
