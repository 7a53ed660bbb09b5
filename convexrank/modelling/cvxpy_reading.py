"""An expression as one of cvxpy, and its conjugate with the constraints on the multipliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.modelling.expressions import Axis, Highest, LogSumExp, Node, PairSums
from convexrank.modelling.language import Language, read

__all__ = ["Cvxpy", "cvxpy_model"]

Array = np.ndarray


def cvxpy_model(root: Node, scores: Any) -> tuple[Any, list[Any]]:
    """Return the risk as a cvxpy expression of the scores of all rows, and constraints that go with it."""
    language = Cvxpy()
    return language.total(read(root, language, scores)), language.limits


class Cvxpy(Language):
    """Expressions; ``limits`` collects constraints."""

    def __init__(self) -> None:
        import cvxpy as cp

        self.cp = cp
        self.limits: list[Any] = []
        # functions of one number, of another signature than numpy's
        members = {"times": cp.multiply, "total": cp.sum, "exp": cp.exp, "softplus": cp.logistic}
        self.__dict__.update(members, positive=cp.pos, rel_entr=cp.rel_entr)

    def power(self, x: Any, p: float) -> Any:
        """Return a power."""
        return self.cp.square(x) if p == 2.0 else self.cp.power(x, p)

    def huber(self, x: Any, width: float) -> Any:
        """Return x²/(2w) up to the width, |x| − w/2 beyond."""
        return self.cp.huber(x / width, 1) * (0.5 * width)

    @staticmethod
    def scatter(places: Array, x: Any, length: int) -> Any:
        """Add entries at places."""
        n = len(places)
        return sparse.csr_array((np.ones(n), (places, np.arange(n))), shape=(length, n)) @ x

    def _by_query(self, function: Callable[[Any], Any], x: Any, axis: Axis) -> Any:
        pairs = zip(axis.starts[:-1].tolist(), axis.starts[1:].tolist(), strict=True)
        return self.cp.hstack([function(x[start:end]) for start, end in pairs])

    def log_sum_exp(self, x: Any, node: LogSumExp) -> Any:
        """Return log Σ c eˣ of each query."""
        return self._by_query(self.cp.log_sum_exp, x + np.log(node.shares), node.over)

    def highest(self, x: Any, node: Highest) -> Any:
        """Return the mean of the highest entries of each query."""
        if node.most == 1:
            return self._by_query(self.cp.max, x, node.over)
        counts = iter(node.counts.tolist())
        return self._by_query(
            lambda part: (lambda k: self.cp.sum_largest(part, k) / k)(next(counts)), x, node.over
        )

    def pair_sums(self, node: PairSums, upper: Any, lower: Any) -> Any:
        """Return the sums over upper rows: one term for each pair."""
        up, low = node.pairs
        costs = self.cp.multiply(node.weights[up], node.function.read(self, lower[low] - upper[up]))
        return self.scatter(low, costs, len(node.axis.rows))

    def at_least_zero(self, x: Any, size: Any = 0.0) -> None:
        """Ask for entries of at least 0."""
        self.limits.append(x >= 0)

    def zero(self, x: Any, size: Any = 0.0) -> None:
        """Ask for entries of 0."""
        self.limits.append(x == 0)

    def power_over(self, v: Any, u: Any, q: float) -> Any:
        """Return \\|v\\|^q u^(1−q), a power cone."""
        if not isinstance(u, self.cp.Expression) or u.is_constant():
            sizes = np.asarray(getattr(u, "value", u), dtype=np.float64)
            none = np.broadcast_to(sizes == 0.0, v.shape)
            if none.any():  # the conjugate is finite at 0 only
                self.zero(self.cp.multiply(none * 1.0, v))
            factors = np.where(none, 0.0, np.where(none, 1.0, sizes) ** (1.0 - q))
            return self.cp.multiply(factors, self.power(self.cp.abs(v), q))
        t = self.cp.Variable(v.shape)
        from cvxpy.constraints.power import PowCone3D

        self.limits.append(PowCone3D(t, u, v, np.full(v.shape, 1.0 / q)))
        return t
