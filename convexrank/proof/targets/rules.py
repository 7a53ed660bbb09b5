"""The constraints on targets in margin-equipped retargeting, in all and per query: read, not computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from flint import fmpq

from convexrank.core.results import CertificateError
from convexrank.proof.balls import Balls, arb, dot, greatest
from convexrank.proof.generators import Generator
from convexrank.proof.targets.orders import Rationals, rational

Array = np.ndarray


@dataclass(frozen=True)
class JointRule:
    """The rules that all queries share.

    Parameters
    ----------
    generator : Generator
        The function φ of one number.
    low, high : float
        Bounds of all targets; infinities for none.
    target_reg, score_reg : float
        The constants C_r and C_w.
    offsets : bool
        Whether each query has an offset.
    simplex : bool
        Whether the targets of a query add up to 1.
    """

    generator: Generator
    low: float
    high: float
    target_reg: float
    score_reg: float
    offsets: bool
    simplex: bool

    def check_convex(self) -> None:
        """Refuse constants for which Lemma 8 is not shown over balls, as they leave the cost convex up to rounding."""
        modulus = self.generator.modulus(arb(self.low), arb(self.high))
        if self.simplex:  # Σ v²/r ≥ 2‖v‖² for r that add up to 1 and v that add up to 0
            modulus = modulus.max(arb(2))
        shown = modulus * (1 + arb(self.target_reg)) * (self.score_reg + self.generator.flat) >= 1
        if not shown:
            raise CertificateError(
                "target_reg and score_reg make the cost jointly convex up to rounding only (Lemma 8), so that nothing "
                "is proved about it; pass a score_reg a little larger, or None."
            )


@dataclass(frozen=True)
class Query:
    """One query.

    Parameters
    ----------
    rows : ndarray of int
        Row numbers.
    grades : ndarray
        Their grades.
    divisor : int
        Divisor of the cost of the query; rewards are not.
    margins, rewards : sequence of float
        Of the steps up to each grade but the lowest, ascending.
    center : ndarray
        The natural parameters q.
    targets : ndarray or None
        About the best targets: evidence off the quadratic.
    offset : float
        About the best offset.
    """

    rows: Array
    grades: Array
    divisor: int
    margins: Sequence[float]
    rewards: Sequence[float]
    center: Array
    targets: Array | None = None
    offset: float = 0.0

    @property
    def ranks(self) -> list[int]:
        """The grades as numbers from 0 on."""
        return np.unique(self.grades, return_inverse=True)[1].ravel().tolist()

    @property
    def lifts(self) -> Rationals:
        """Cumulated margins of each grade."""
        return list(accumulate(rational(self.margins), initial=fmpq(0)))

    def earned(self, targets: Balls) -> arb:
        """Enclose what the gaps of targets earn."""
        grades: list[Balls] = [[] for _ in self.lifts]
        for rank, target in zip(self.ranks, targets, strict=True):
            grades[rank].append(target)
        gaps = [-greatest([-r for r in above]) - greatest(below) for below, above in pairwise(grades)]
        return dot(gaps, self.rewards)
