r"""Conjugates of risks, in parts: :math:`R(\theta) = \max_v \langle \theta, Av + b\rangle - G(v)`, G a sum in blocks.

The dual variable v is what the risk chooses: shares of a log-sum-exp, multipliers of pairs, residuals. A block states
its part of G and of the constraints on v in numpy, in cvxpy and in balls, and the v that belongs to scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.modelling.log_sum_exps.terms import log_sum_exp_gradient

__all__ = ["Block", "Conjugate", "Shares", "scaled_to", "shares_of_terms"]

Array = np.ndarray


class Block(Protocol):
    """A part of v, and what the conjugate says of it."""

    @property
    def size(self) -> int:
        """Number of entries of v."""
        ...

    @property
    def modulus(self) -> float:
        """A modulus of strong convexity of G in the Euclidean norm; 0 when none is known."""
        ...

    @property
    def entries(self) -> tuple[Array, Array, Array]:
        """Rows, places of v and factors: the entries of A."""
        ...

    @property
    def rest(self) -> Array | None:
        """The v with Av + b = 0; None if there is none, as for distributions."""
        ...

    def value(self, v: Array) -> float:
        """Return G(v)."""
        ...

    def violation(self, v: Array) -> float:
        """Return how far v is from its constraints."""
        ...

    def near(self, x: Array) -> Array:
        """Return a v near x that satisfies the constraints."""
        ...

    def at(self, scores: Array, width: float) -> Array:
        """Return the v that belongs to the scores; for a risk with kinks, to the risk smoothed by the width."""
        ...

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return G and the constraints in cvxpy."""
        ...

    def exactly(self, v: Array) -> list[Any]:
        """Return balls near v that satisfy the constraints."""
        ...

    def ball_value(self, parts: list[Any]) -> Any:
        """Return G over balls."""
        ...


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
    rest : ndarray, shape (g,), optional
        The distribution that a shift of the conjugate takes away.
    """

    rows: Array
    rate: float
    coefficient: float
    log_weights: Array | None
    rest: Array | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.rows)

    @property
    def modulus(self) -> float:
        """Pinsker's inequality: the entropy is 1-strongly convex in the sum of absolute values."""
        return 0.0 if self.log_weights is None else self.coefficient

    @property
    def entries(self) -> tuple[Array, Array, Array]:
        """One entry for each row."""
        return self.rows, np.arange(self.size), np.full(self.size, self.coefficient * self.rate)

    def value(self, v: Array) -> float:
        """Return the divergence from the weights."""
        if self.log_weights is None:
            return 0.0
        return self.coefficient * float((entropies(v) - v * self.log_weights).sum())

    def violation(self, v: Array) -> float:
        """Return how far v is from the simplex."""
        return max(-float(v.min()), abs(float(v.sum()) - 1.0), 0.0)

    def near(self, x: Array) -> Array:
        """Return x without negative entries and scaled to sum to 1."""
        return scaled_to(np.maximum(x, 0.0), 1.0)

    def at(self, scores: Array, width: float) -> Array:
        """Return the softmax, or for a maximum the shares of scores near the highest one."""
        some = self.rate * scores[self.rows]
        if self.log_weights is not None:
            return log_sum_exp_gradient(some + self.log_weights)[1]
        return reference_highest(some, width) if width > 0.0 else scaled_to((some == some.max()) * 1.0, 1.0)

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return the divergence, and the simplex."""
        import cvxpy as cp

        limits = [cp.sum(v) == 1, v >= 0]
        if self.log_weights is None:
            return 0.0, limits
        return self.coefficient * (-cp.sum(cp.entr(v)) - self.log_weights @ v), limits

    def exactly(self, v: Array) -> list[Any]:
        """Return v scaled to sum to 1."""
        from convexrank.proof.balls import exact, total

        parts = exact(np.maximum(v, 0.0))
        whole = total(parts)
        return [part / whole for part in parts]

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
    r"""A risk as :math:`R(\theta) = \max_v \langle\theta, Av+b\rangle - G(v)`, over the v of its blocks.

    Parameters
    ----------
    blocks : tuple of Block
        The parts of v, in order.
    rows : int
        Number of rows n.
    shift : ndarray, shape (n,), optional
        The vector b; 0 by default.
    constant : float
        The part of G that belongs to no block.
    """

    blocks: tuple[Block, ...]
    rows: int
    shift: Array | None = None
    constant: float = field(default=0.0)

    @cached_property
    def ends(self) -> Array:
        """Where the blocks begin and end in v."""
        return np.cumsum([0, *(block.size for block in self.blocks)])

    @cached_property
    def matrix(self) -> sparse.csr_array:
        """A, shape (n, m)."""
        parts = [block.entries for block in self.blocks]
        columns = np.concatenate([part[1] + end for part, end in zip(parts, self.ends, strict=False)])
        rows, factors = (np.concatenate([part[place] for part in parts]) for place in (0, 2))
        return sparse.csr_array((factors, (rows, columns)), shape=(self.rows, int(self.ends[-1])))

    @property
    def sums(self) -> sparse.csr_array:
        """The matrix of the sums of each block."""
        owner = np.repeat(np.arange(len(self.blocks)), np.diff(self.ends))
        count = len(owner)
        return sparse.csr_array((np.ones(count), (owner, np.arange(count))), shape=(len(self.blocks), count))

    @property
    def modulus(self) -> float:
        """The smallest modulus of the blocks."""
        return min(block.modulus for block in self.blocks)

    @property
    def rest(self) -> Array | None:
        """The v at which the dual weights of all rows are 0; None where there is none."""
        parts = [block.rest for block in self.blocks]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None

    def parts(self, v: Array) -> list[Array]:
        """Cut v into blocks."""
        return np.split(v, self.ends[1:-1])

    def slopes(self, v: Array) -> Array:
        """Return Av + b: the derivative of the risk in each row's score."""
        slopes = self.matrix @ v
        return slopes if self.shift is None else slopes + self.shift

    def value(self, v: Array) -> float:
        """Return G(v)."""
        pairs = zip(self.blocks, self.parts(v), strict=True)
        return self.constant + sum(block.value(part) for block, part in pairs)

    def violation(self, v: Array) -> float:
        """Return how far v is from the constraints of the blocks."""
        pairs = zip(self.blocks, self.parts(v), strict=True)
        return max((block.violation(part) for block, part in pairs), default=math.inf)

    def near(self, x: Array) -> Array:
        """Return a v near x that satisfies the constraints of the blocks."""
        return np.concatenate(
            [block.near(part) for block, part in zip(self.blocks, self.parts(x), strict=True)]
        )

    def at(self, scores: Array, width: float = 0.0) -> Array:
        """Return the v of scores."""
        return np.concatenate([block.at(scores, width) for block in self.blocks])

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return G and the constraints in cvxpy."""
        value, limits = self.constant, []
        for block, start, end in zip(self.blocks, self.ends, self.ends[1:], strict=False):
            part, some = block.model(v[start:end])
            value, limits = value + part, [*limits, *some]
        return value, limits

    def exactly(self, v: Array) -> list[Any]:
        """Return balls near v that satisfy the constraints of the blocks."""
        return [
            ball
            for block, part in zip(self.blocks, self.parts(v), strict=True)
            for ball in block.exactly(part)
        ]

    def ball_value(self, parts: list[Any]) -> Any:
        """Return G over balls."""
        from convexrank.proof.balls import around

        value = around(self.constant, self.rows)
        for block, start, end in zip(self.blocks, self.ends, self.ends[1:], strict=False):
            value = value + block.ball_value(parts[start:end])
        return value

    def ball_slopes(self, parts: list[Any]) -> list[Any]:
        """Enclose Av + b."""
        from convexrank.proof.balls import ZERO, around

        shift = np.zeros(self.rows) if self.shift is None else self.shift
        slopes = [around(entry, self.rows) if entry else ZERO for entry in shift.tolist()]
        matrix = self.matrix.tocoo()
        places = matrix.coords[0].tolist(), matrix.coords[1].tolist(), matrix.data.tolist()
        for row, column, factor in zip(*places, strict=True):
            slopes[row] = slopes[row] + around(factor, 0) * parts[column]
        return slopes
