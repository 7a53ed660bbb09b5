"""RankDiscount: a price of the rank of each positive in the whole list."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank import losses, prices
from convexrank.core.results import Solution
from convexrank.data import keep
from convexrank.modelling import Groups, Node, mean, pair_sums
from convexrank.prices import priced
from convexrank.problems._declared import Declared
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels
from convexrank.problems.bipartite.push import check_price_fits, random_price_and_loss, remark_on_steepness

Array = np.ndarray


class RankDiscount(Bipartite):
    r"""A price of the rank of each positive among all rows, the positives included.

    .. math::
        \min_w \; \frac1I \sum_{i=1}^I g\Bigl(\sum_{j=1}^n \ell(f_i - f_j)\Bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    A mean over positives of a price of a sum over all n rows (the paper has the sum over positives:
    :meth:`paper_value`). With a loss of at least 1 at margins up to 0 the inner sum is at least the rank of the
    positive, which counts the row itself and ties. The paper maximises a discount of the rank; the price g is minus
    that. By default it is log(1 + z): :class:`IRPush` with ranks in the place of numbers of negatives.

    Convex when g is convex and non-decreasing; with the exponential loss it is enough that :math:`h(a) = g(e^a)` is
    convex. A value costs O(n) with the exponential loss, O(n log n) with hinge and squared hinge, and O(I·n) otherwise.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; with weights of rows, a weighted mean over positives and weighted sums over rows.
    price : Price, float or str
        A price object, a number p for ``prices.Power(p)``, or a name: log_one_plus, identity, exp.
    loss : Loss or str
        A loss object or a name: exponential, logistic, hinge, squared_hinge.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`; also when price and loss do not make a convex objective.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 7, :math:`R^{\mathrm{Rank}}_g`.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RankDiscount([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1)
    >>> print(round(problem.solve().value, 6), round(problem.solve("exact").value, 6))
    1.528878 1.528878
    """

    price: Any = "log_one_plus"
    loss: Any = "exponential"

    def __post_init__(self) -> None:
        keep(self, price=prices.resolve(self.price), loss=losses.resolve(self.loss))
        check_price_fits(self.price, self.loss)
        super().__post_init__()

    def risk(self, f: Groups) -> Node:
        """Return the risk; a sum over the rows that rank higher is one over lower rows of the scores' negatives."""
        return mean(priced(self.price, pair_sums(self.loss, -f.rows, -f.positive)))

    def _remark(self, solution: Solution) -> str:
        total = float(self.rows if self.sample_weight is None else self.sample_weight.sum())
        return remark_on_steepness(self.price, total, ("n", "rows"), solution)

    # positives above negatives are not enough: they may have to score alike, too
    _is_separating = Declared._is_separating

    def paper_value(self, w: Any) -> float:
        r"""Return the paper's sum over positives, :math:`\sum_i g(\sum_j \ell(f_i - f_j))`."""
        risk = self._reference_value(self.scores(self.check_point(w)))
        return float(risk * self._positive_weights.sum())

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from math import exp, log

        from convexrank.problems._plain import loss_of, price_of, price_of_exp, sides_of

        f, risk = [float(score) for score in scores], 0.0
        loss, price, price_of_power = loss_of(self.loss), price_of(self.price), price_of_exp(self.price)
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            whole, rows = sum(weight[i] for i in positives), [*positives, *negatives]
            for i in positives:
                if isinstance(self.loss, losses.Exponential):
                    # the logarithm of the sum of e^-(f_i - f_j): the price may be finite where the sum is not
                    top = max(f[j] - f[i] for j in rows)
                    total = sum(weight[j] * exp(f[j] - f[i] - top) for j in rows)
                    paid = price_of_power(top + log(total))
                else:
                    paid = price(sum(weight[j] * loss(f[i] - f[j]) for j in rows))
                risk += weight[i] / whole * paid
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 18, bounded=True)
        price, loss = random_price_and_loss(rng, [prices.ExpPrice(0.02)])
        l1 = float(rng.choice([0.0, 0.0, 0.1]))
        return cls(X, random_labels(rng, X), price, loss, l2=float(rng.choice([0.1, 3.0])), l1=l1)
