r"""The penalty and its conjugate over balls: what a slope of the risk proves about the optimum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.proof.balls import ZERO, Balls, arb, dot, exact, greatest, positive, root, total
from convexrank.regularizers import L2Ball, Penalty
from convexrank.regularizers.norms import FEASIBLE

Array = np.ndarray


@dataclass(frozen=True)
class ExactPenalty:
    r"""The penalty :math:`\Omega(w) = \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1 + \iota_{\text{ball}}(w)`.

    Parameters
    ----------
    penalty : Penalty
        Strengths and ball, taken as the rational numbers that they are.
    """

    penalty: Penalty

    def value(self, w: Balls) -> arb:
        """Enclose the two norms; the ball is :meth:`shrinking`'s."""
        return dot(w, w) * self.penalty.l2 / 2 + total(map(abs, w)) * self.penalty.l1

    def shrinking(self, w: Array) -> arb | None:
        """Return a factor that brings w into the ball: 1 inside; None where it is outside by more than rounding."""
        ball, point = self.penalty.ball, exact(w)
        if self.penalty.nonnegative is not None and bool((w[self.penalty.nonnegative] < 0.0).any()):
            return None
        if ball is None:
            return arb(1)
        size = dot(point, point).sqrt() if isinstance(ball, L2Ball) else total(map(abs, point))
        if size <= ball.radius:
            return arb(1)
        return None if size > arb(ball.radius) * (1 + arb(FEASIBLE)) else ball.radius / size.upper()

    def gap(self, w: Balls, slope: Balls) -> arb:
        r"""Enclose :math:`\Omega(w) + \Omega^*(v) - \langle v, w\rangle`, or more, for v the negative slope.

        With l2 alone it is :math:`\|\lambda_2 w-v\|^2/(2\lambda_2)`, written so that nothing cancels.

        Parameters
        ----------
        w : list of arb
            A point.
        slope : list of arb
            A slope of the risk.
        """
        l2, l1 = arb(self.penalty.l2), arb(self.penalty.l1)
        v = [-entry for entry in slope]
        if self.penalty.l2 > 0:
            rests = []
            for x, y, signed in zip(w, v, self._signed(len(v)), strict=True):
                # where weights are at least 0, slopes that push them below cost nothing
                clipped = (y if signed else y.max(-l1)).min(l1)
                off = l2 * x - (y - clipped)
                rests.append(off * off / (2 * l2) + (l1 * abs(x) - clipped * x))
            free = total(rests)
            return free if self.penalty.ball is None else free - self._saved(v)
        return self.value(w) - dot(v, w) + self._support(v)

    def _shrunk(self, v: Balls, threshold: arb) -> Balls:
        """The sizes of the entries less a threshold, at least 0."""
        return [positive(abs(entry) - threshold) for entry in v]

    def _saved(self, v: Balls) -> arb:
        """Decrease of the conjugate because of the ball, or less; never below 0."""
        ball, l2 = self.penalty.ball, arb(self.penalty.l2)
        shrunk = self._shrunk(v, arb(self.penalty.l1))
        squares = dot(shrunk, shrunk)
        if isinstance(ball, L2Ball):
            excess = root(squares) - l2 * ball.radius
            return excess * excess / (2 * l2) if excess >= 0 else ZERO
        if ball is None or total(shrunk) <= l2 * ball.radius:
            return ZERO
        # any multiplier of the constraint gives an upper bound of the conjugate; this one is the best, up to rounding
        sizes = np.array([float(entry) for entry in shrunk])
        multiplier = arb(
            max(float(np.max(sizes - ball.prox(sizes / self.penalty.l2, 1.0) * self.penalty.l2)), 0.0)
        )
        rest = self._shrunk(shrunk, multiplier)
        return positive(squares / (2 * l2) - dot(rest, rest) / (2 * l2) - multiplier * ball.radius)

    def _support(self, v: Balls) -> arb:
        """The conjugate without l2: that of the ball, at the entries that l1 leaves."""
        ball, shrunk = self.penalty.ball, self._shrunk(v, arb(self.penalty.l1))
        if ball is None:
            raise ValueError("without l2 and a ball the conjugate is infinite.")
        if isinstance(ball, L2Ball):
            return root(dot(shrunk, shrunk)) * ball.radius
        return greatest(shrunk) * ball.radius

    def excess(self, slope: Balls) -> arb:
        """Enclose by how much the largest entry exceeds l1; below 0 where all are smaller."""
        signed = self._signed(len(slope))
        return greatest(-s if one else abs(s) for s, one in zip(slope, signed, strict=True)) - self.penalty.l1

    def _signed(self, count: int) -> list[bool]:
        """Mask of the weights that must be at least 0."""
        flags = self.penalty.nonnegative
        return [False] * count if flags is None else flags.tolist()
