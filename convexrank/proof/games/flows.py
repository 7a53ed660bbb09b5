r"""Pessimistic consensus over balls.

The flows y of candidates minimise :math:`F(y) = \phi(w) - \sum_k y_k\phi(c_k)` in balance, w the sums of each node.
Any s proves :math:`F \ge -\log\sum_i\exp\max_k[\phi(c_{ik}) + s_i - \langle c_{ik}, s\rangle]`. Flows are in balance up
to rounding; they are compared with those that the same shares of each node's candidates bring about, which are enclosed
by a linear system. A candidate is a distribution up to rounding, too, and is taken over its sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb_mat

from convexrank.core.results import Certificate, CertificateError
from convexrank.proof.balls import ONE, ZERO, Balls, arb, dot, exact, greatest, log_sum_exp, positive, total
from convexrank.proof.games.distributions import over_sum
from convexrank.proof.generators import x_log_x
from convexrank.proof.precision import Bounds, refined

Array = np.ndarray


class _Nodes:
    """The candidates of each node with the teleport absorbed, and φ of each."""

    def __init__(self, sets: Any, alpha: float, teleport: Array) -> None:
        back, share = over_sum(exact(teleport)), arb(alpha)
        self.n = sets.n
        self.owners: list[int] = []
        self.candidates: list[Balls] = []
        for node in range(self.n):
            for listed in sets.vertices(node):
                row = over_sum(exact(listed))
                self.owners.append(node)
                self.candidates.append([share * a + (1 - share) * b for a, b in zip(row, back, strict=True)])
        self.gains = [total(map(x_log_x, row)) for row in self.candidates]

    def sums(self, flows: Balls) -> Balls:
        """Enclose the sum of flows of each node."""
        found = [ZERO] * self.n
        for node, flow in zip(self.owners, flows, strict=True):
            found[node] = found[node] + flow
        return found

    def value(self, flows: Balls) -> arb:
        """Enclose F."""
        w = [positive(entry) for entry in self.sums(flows)]
        return total(map(x_log_x, w)) - dot(flows, self.gains)

    def dual(self, s: Balls) -> arb:
        """Enclose the bound on −F at multipliers s."""
        heights: list[Balls] = [[] for _ in range(self.n)]
        for node, row, gain in zip(self.owners, self.candidates, self.gains, strict=True):
            heights[node].append(gain + s[node] - dot(row, s))
        return log_sum_exp([greatest(own) for own in heights])[0]

    def in_balance(self, flows: Array) -> Balls:
        """Enclose the flows that the shares of these bring about."""
        kept = [positive(flow) for flow in exact(flows)]
        sums, counts = self.sums(kept), self.sums([ONE] * len(kept))
        shares = [
            flow / sums[node] if sums[node] > 0 else 1 / counts[node]
            for flow, node in zip(kept, self.owners, strict=True)
        ]
        rows = [[ZERO] * self.n for _ in range(self.n)]
        for node, share, row in zip(self.owners, shares, self.candidates, strict=True):
            rows[node] = [a + share * b for a, b in zip(rows[node], row, strict=True)]
        even = ONE / self.n
        # the columns of I − Pᵀ + 11ᵀ/n: its solution for 1/n is the stationary distribution
        system = [int(i == j) - rows[j][i] + even for i in range(self.n) for j in range(self.n)]
        try:
            w = arb_mat(self.n, self.n, system).solve(arb_mat(self.n, 1, [even] * self.n)).entries()
        except ZeroDivisionError as error:
            raise CertificateError(
                "the ranks of these flows are not enclosed; alpha is too near to 1."
            ) from error
        return [share * w[node] for share, node in zip(shares, self.owners, strict=True)]


def prove_flows(name: str, absorbed: Any, flows: Array, multipliers: Array) -> Certificate:
    """Return a proved certificate of kind "global".

    Parameters
    ----------
    name : str
        The formulation, for messages.
    absorbed : Absorbed
        The sets, α and the teleport.
    flows : ndarray, shape (K,)
        The point.
    multipliers : ndarray, shape (n,)
        Evidence: multipliers of the balance.

    Raises
    ------
    CertificateError
        When the flows are far from balance.
    """

    def evaluate() -> Bounds:
        nodes = _Nodes(absorbed.sets, absorbed.alpha, absorbed.teleport)
        value = nodes.value(exact(flows))
        least = value - nodes.value(nodes.in_balance(flows))
        return Bounds(value, value + nodes.dual(exact(multipliers)), least)

    return refined(name, evaluate)
