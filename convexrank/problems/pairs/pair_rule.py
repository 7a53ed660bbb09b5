"""Rules on pairs of rows that are no differences of scores: the convex risk of functions of two arguments."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Self

import numpy as np

from convexrank import losses
from convexrank.backend.cached import cached_property
from convexrank.data import (
    check_kernel,
    check_pairs,
    check_positive,
    check_vector,
    keep,
    keep_checked,
)
from convexrank.modelling import loss_of, total
from convexrank.modelling.expressions import Axis, Node, Scores
from convexrank.problems._declared import Declared
from convexrank.problems.bipartite._base import random_features
from convexrank.problems.pairs.convex_risk import ball_of
from convexrank.problems.single_index._kernel_features import FeatureSpace
from convexrank.regularizers import L1Ball, L2Ball

__all__ = ["PairRule"]

Array = np.ndarray


class _Decided:
    """The values of the rule at the pairs whose labels differ, and 1 where the first row should be above, else −1."""

    def __init__(self, signs: Array) -> None:
        rows = np.flatnonzero(signs)
        query = np.zeros(len(rows), dtype=np.intp)
        self.signs, self.rule = signs[rows], Scores(Axis("rule", rows, np.ones(len(rows)), query, 1))


class PairRule(Declared):
    r"""The empirical convex ranking risk A_n of a rule that looks at both rows of a pair.

    .. math::
        \min_w \; \frac{1}{n(n-1)} \sum_{(i,j)\,\text{listed},\; y_i \ne y_j}
        \phi\bigl(-\operatorname{sgn}(y_i-y_j)\, r_{ij}\bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad r_{ij} = \langle w, \varphi(x_i, x_j)\rangle

    over ordered pairs, with the features of the pairs as rows of X; :math:`r_{ij} > 0` ranks row i above row j, and
    φ(x) = ℓ(−x) is the cost of the loss ℓ. The sum is divided by the number of all ordered pairs, listed or not. With
    :math:`\varphi(x, x') = x - x'` and all pairs it is :class:`ConvexRisk`; other rules need not come from scores, so
    that they can prefer a to b, b to c, and c to a. Pairs with equal labels would add the constant φ(0); they are left
    out. A pair with r = 0 has the cost φ(0).

    Convex for every cost. O(md) for m pairs and d features. With a penalty or a ball the minimum is found and
    certified by the same solvers as other risks.

    Parameters
    ----------
    X : array, shape (m, d)
        The features φ(x_i, x_j), a row for each listed pair.
    y : array, shape (n,)
        Real labels of the n rows that are compared, not of the pairs.
    pairs : array of int, shape (m, 2), optional
        The row numbers (i, j) of each pair, in any order. By default all ordered pairs, sorted, or with
        ``antisymmetric`` those with i < j, as ``numpy.triu_indices(n, 1)`` lists them.
    cost : Loss or str
        A loss object or a name: exponential, logistic, hinge, squared_hinge. ``losses.Logistic(base=2)`` is the
        paper's logit cost, with φ(0) = 1.
    antisymmetric : bool
        Whether φ(x', x) = −φ(x, x'): each pair is then listed in one order, and counts for both.
    l1_ball, l2_ball : float, optional
        Radius B of the constraint :math:`\|w\|_1 \le B`, the paper's class for boosting, or :math:`\|w\|_2 \le B`, that
        for kernels; at most one of the two.
    l2, l1, dtype : as for :class:`PNormPush`
        The strengths and the precision.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite and real, lengths differ, a pair is out of range or is listed twice, in any order
        with ``antisymmetric``, no listed pair has different labels, or a number is out of range.

    References
    ----------
    S. Clémençon, G. Lugosi, N. Vayatis, Ranking and empirical minimization of U-statistics (2006), section 7.

    Examples
    --------
    Rock, paper, scissors: no scores order the three, a rule on pairs does.

    >>> import convexrank as cr
    >>> y, pairs = [3.0, 2.0, 1.0], [[0, 1], [1, 2], [2, 0]]
    >>> problem = cr.problems.PairRule([[1.0], [1.0], [-1.0]], y, pairs, "hinge", antisymmetric=True, l2=0.1)
    >>> problem.solve().x.round(4).tolist(), problem.matrix([1.0])[2].tolist()
    ([1.0], [-1.0, -1.0, 0.0])
    """

    y: Any
    pairs: Any = None
    cost: Any = "exponential"
    antisymmetric: bool = field(default=False, kw_only=True)
    l1_ball: float | None = field(default=None, kw_only=True)
    l2_ball: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._held.in_memory:
            raise TypeError("X holds rows out of memory, expected the features of the pairs as a matrix.")
        _ = self._ball  # a bad radius is refused here, not at the first solve
        keep_checked(self, check_positive, "l1_ball", "l2_ball")
        keep(self, cost=losses.resolve(self.cost, "cost"), y=check_vector(self.y, name="y"))
        keep(self, pairs=self._checked_pairs())
        _ = self._log_sum_exps  # an expression that is not convex, too

    def _checked_pairs(self) -> Array:
        n, rows = len(self.y), self.X.shape[0]
        if self.pairs is None:
            pairs = np.argwhere(~np.eye(n, dtype=bool))
            pairs = pairs[pairs[:, 0] < pairs[:, 1]] if self.antisymmetric else pairs
        else:
            pairs = check_pairs(self.pairs, n)
        if len(pairs) != rows:
            which = "all pairs of the rows of y" if self.pairs is None else "pairs"
            raise ValueError(f"X has {rows} rows, expected {len(pairs)}, one for each of {which}.")
        key = np.sort(pairs, axis=1) if self.antisymmetric else pairs
        _, number, times = np.unique(key, axis=0, return_inverse=True, return_counts=True)
        if (times > 1).any():
            first, second = np.flatnonzero(number.ravel() == int(np.argmax(times > 1)))[:2]
            order = ", and antisymmetric means that one order stands for both" if self.antisymmetric else ""
            raise ValueError(
                f"pairs[{first}] = {pairs[first].tolist()} and pairs[{second}] = {pairs[second].tolist()} are the same "
                f"pair{order}; list it once."
            )
        if not (self.y[pairs[:, 0]] != self.y[pairs[:, 1]]).any():
            raise ValueError(
                f"y has equal labels in each of the {rows} pairs, so there is nothing to rank; give pairs of rows with "
                "different labels."
            )
        return pairs

    @classmethod
    def of_kernel(cls, G: Any, y: Any, pairs: Any = None, cost: Any = "hinge", **options: Any) -> Self:
        r"""Return the problem of rules :math:`r = \sum_k \alpha_k k(\cdot, \text{pair } k)` from a kernel on pairs.

        Penalty and ball are in the norm of the kernel, :math:`\|r\|^2 = \alpha^\top G\alpha`: X holds orthonormal
        coordinates of the pairs. :meth:`coefficients` returns α, and k(new, old) @ α are the values of the rule at new
        pairs. O(m³) once.

        Parameters
        ----------
        G : array, shape (m, m)
            Values of the kernel between the listed pairs, such as :func:`convexrank.features.pair_kernel` gives.
        y, pairs, cost : as for the class
            Labels of the rows, listed pairs, and the cost.
        **options : object
            Other arguments of the class.

        Raises
        ------
        ValueError, TypeError
            As the class; and when G is not symmetric or not positive semidefinite.
        """
        _, values, vectors = check_kernel(G, "G")
        return cls(FeatureSpace.of(values, vectors).features, y, pairs, cost, **options)

    def coefficients(self, w: Any) -> Array:
        """Return the shortest α with w = Xᵀα, coefficients of the listed pairs; shape (m,). O(md²)."""
        return np.linalg.pinv(np.asarray(self.X, dtype=np.float64)).T @ self.check_point(w)

    def matrix(self, w: Any) -> Array:
        """Return the rule as a matrix, r[i, j], for :func:`convexrank.metrics.ranking_risk`; 0 where none is listed."""
        found, (first, second) = np.zeros((len(self.y), len(self.y))), self.pairs.T
        values = np.asarray(self.scores(self.check_point(w)), dtype=np.float64)
        found[first, second] = values
        if self.antisymmetric:
            found[second, first] = -values
        return found

    @cached_property
    def _groups(self) -> _Decided:  # type: ignore[override]
        return _Decided(np.sign(self.y[self.pairs[:, 0]] - self.y[self.pairs[:, 1]]))

    def risk(self, f: _Decided) -> Node:
        """The sum of the costs of the pairs that have an order, over the number of all ordered pairs."""
        n, orders = len(self.y), 2.0 if self.antisymmetric else 1.0
        return total(loss_of(self.cost, f.rule * f.signs)) * (orders / (n * (n - 1.0)))

    @property
    def _ball(self) -> L1Ball | L2Ball | None:  # type: ignore[override]
        """The constraint on w."""
        return ball_of(self.l1_ball, self.l2_ball)

    def definition(self, scores: Array) -> float:
        """Return the risk at the values of the rule once more, from its formula by a loop over ordered pairs."""
        from convexrank.problems._plain import loss_of

        rule: dict[tuple[int, int], float] = {}
        for (i, j), value in zip(self.pairs.tolist(), scores, strict=True):
            rule[i, j] = float(value)
            if self.antisymmetric:
                rule[j, i] = -float(value)
        cost, y, risk = loss_of(self.cost), self.y.tolist(), 0.0
        for i in range(len(y)):
            for j in range(len(y)):
                if (i, j) in rule and y[i] != y[j]:
                    risk += cost(rule[i, j]) if y[i] > y[j] else cost(-rule[i, j])
        return risk / (len(y) * (len(y) - 1))

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        n, antisymmetric = int(rng.integers(3, 9)), bool(rng.random() < 0.5)
        y = rng.normal(size=n) if rng.random() < 0.5 else np.array([0.0, 1.0, *rng.integers(3, size=n - 2)])
        options: dict[str, Any] = {
            "cost": str(rng.choice(["exponential", "logistic", "hinge", "squared_hinge"]))
        }
        options |= [{}, {}, {"l1_ball": 2.0}, {"l2_ball": 1.0}, {"l1": 0.02}][int(rng.integers(5))]
        options |= {"antisymmetric": antisymmetric, "l2": float(rng.choice([1e-2, 0.3]))}
        pairs = np.argwhere(np.triu(np.ones((n, n)), 1) if antisymmetric else ~np.eye(n, dtype=bool))
        X = random_features(rng, len(pairs), int(rng.integers(1, 5)), bounded=True)
        if rng.random() < 0.3:
            return cls(X, y, **options)
        if rng.random() < 0.3:
            return cls.of_kernel(X @ X.T, y, **options)
        turned = (
            np.where(rng.random((len(pairs), 1)) < 0.5, pairs, pairs[:, ::-1]) if antisymmetric else pairs
        )
        kept = rng.permutation(len(pairs))[: int(rng.integers(2, len(pairs) + 1))]
        decided = y[turned[:, 0]] != y[turned[:, 1]]
        kept = np.unique(np.append(kept, np.flatnonzero(decided)[0]))[:: int(rng.choice([1, -1]))]
        return cls(X[kept], y, turned[kept], **options)
