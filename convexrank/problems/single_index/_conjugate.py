r"""The conjugate of a learned divergence: a link's values are means of permutations of the targets, at a price.

Write φ as ψ and s/γ·|x|^γ, for a convex ψ. With a v for each row the least divergence is

.. math:: m(\theta) = \min_\psi \max_v\; \langle\theta, v - y\rangle - \Phi(v) + \Phi(y) + \sum_i \psi(y_i) - \psi(v_i),
    \qquad \Phi(v) = \tfrac s\gamma\sum_i|v_i|^\gamma.

The least over ψ of the last sum is 0 where v is a mean of permutations of y, and minus infinity elsewhere (Hardy,
Littlewood and Pólya).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.links.marginal_cost import expected_targets

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LinkConjugate:
    """The members of :class:`convexrank.problems.duals._blocks.Conjugate`: v has the values of the link at the rows.

    Parameters
    ----------
    y : ndarray, shape (n,)
        The targets.
    strong, power : float
        The modulus s, 0 for all convex φ, and γ.
    link : callable
        Takes scores to the values of the link.
    """

    y: Array
    strong: float
    power: float
    link: Callable[[Array], Array]

    @property
    def rows(self) -> int:
        """Number of rows n."""
        return len(self.y)

    @property
    def ends(self) -> Array:
        """One block: all of v."""
        return np.array([0, self.rows])

    @property
    def blocks(self) -> tuple[LinkConjugate, ...]:
        """One block: all of v."""
        return (self,)

    def parts(self, v: Array) -> list[Array]:
        """Return v as the part of the only block."""
        return [v]

    @property
    def modulus(self) -> float:
        """The modulus of strong convexity of G: s/n where γ is 2."""
        return self.strong / self.rows if self.power == 2.0 else 0.0

    @property
    def matrix(self) -> sparse.csr_array:
        """The slopes are (v − y)/n."""
        return sparse.csr_array(sparse.eye_array(self.rows) / self.rows)

    @property
    def shift(self) -> Array:
        """The slopes are (v − y)/n."""
        return -self.y / self.rows

    @property
    def sums(self) -> sparse.csr_array:
        """The sum of v is that of y."""
        return sparse.csr_array(np.ones((1, self.rows)))

    @property
    def rest(self) -> Array:
        """The targets themselves have slopes of 0."""
        return self.y

    def slopes(self, v: Array) -> Array:
        """Return (v − y)/n."""
        return (v - self.y) / self.rows

    def value(self, v: Array) -> float:
        """Return (Φ(v) − Φ(y))/n."""
        if self.power == 2.0:  # an offset, which changes nothing, would cost digits
            centre = self.y.mean()
            return 0.5 * self.strong * float((v - self.y) @ ((v - centre) + (self.y - centre))) / self.rows
        rise = np.abs(v) ** self.power - np.abs(self.y) ** self.power
        return self.strong / self.power * float(rise.sum()) / self.rows

    def violation(self, v: Array) -> float:
        """Return by how much the mean of the k highest, or the k lowest, is beyond that of y, for the worst k."""
        k = np.arange(1.0, self.rows + 1.0)
        beyond = np.sort(v) - np.sort(self.y)
        return float(max((-np.cumsum(beyond) / k).max(), (np.cumsum(beyond[::-1]) / k).max(), 0.0))

    def near(self, x: Array) -> Array:
        """Return the nearest mean of permutations of y."""
        order, found = np.argsort(x, kind="stable"), np.empty(self.rows)
        found[order] = expected_targets(x[order], np.sort(self.y), 1.0)
        return found

    def at(self, scores: Array, width: float = 0.0) -> Array:
        """Return the link at the scores; there is no smooth function below the risk, so that no width is given."""
        return self.link(scores)

    def model(self, v: Any) -> tuple[Any, list[Any]]:
        """Return G and the constraints in cvxpy: sums of the k highest, for all k."""
        import cvxpy as cp

        highest, limits = np.cumsum(np.sort(self.y)[::-1]), [cp.sum(v) == float(self.y.sum())]
        limits += [cp.sum_largest(v, k) <= highest[k - 1] for k in range(1, self.rows)]
        own = float((np.abs(self.y) ** self.power).sum())
        rise = cp.sum_squares(v) if self.power == 2.0 else cp.sum(cp.power(cp.abs(v), self.power))
        return self.strong / self.power / self.rows * (rise - own), limits

    def exactly(self, v: Array) -> list[Any]:
        """Return balls around rational numbers near v that are a mean of permutations of y."""
        from convexrank.proof.balls import arb
        from convexrank.proof.orders import mean_of_permutations, rational

        order = np.argsort(v, kind="stable")
        found: list[Any] = [None] * self.rows
        risen = mean_of_permutations(rational(v[order].tolist()), sorted(rational(self.y.tolist())))
        for place, entry in zip(order.tolist(), risen, strict=True):
            found[place] = arb(entry)
        return found

    def ball_value(self, parts: list[Any]) -> Any:
        """Return G over balls."""
        from convexrank.proof.balls import arb, power, total

        given = zip(parts, self.y.tolist(), strict=True)
        exponent = self.power
        rise = total(power(abs(v), exponent) - power(abs(arb(y)), exponent) for v, y in given)
        return arb(self.strong) / arb(exponent) * rise / self.rows

    def ball_slopes(self, parts: list[Any]) -> list[Any]:
        """Enclose (v − y)/n."""
        from convexrank.proof.balls import arb

        return [(v - arb(y)) / self.rows for v, y in zip(parts, self.y.tolist(), strict=True)]
