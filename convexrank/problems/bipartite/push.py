"""The general objective of the push papers: any price, any loss."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from convexrank import losses, prices
from convexrank.core.results import Solution
from convexrank.data import keep
from convexrank.modelling import Groups, Node, pair_sums, total
from convexrank.prices import priced
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels

Array = np.ndarray

# Objectives beyond this have no digits left for a gap.
_TOO_STEEP = 1e12


def check_price_fits(price: prices.Price, loss: losses.Loss) -> None:
    """Refuse a price whose objective would not be convex with this loss."""
    if loss.factorises and not price.log_convex:
        raise ValueError(
            f"{price!r} does not make a convex objective: with the exponential loss h(a) = g(exp a) must be convex."
        )
    if not loss.factorises and not price.convex:
        raise ValueError(
            f"{price!r} does not make a convex objective with {loss!r}: g itself must be convex there. "
            "Use the exponential loss (only h(a) = g(exp a) must be convex) or a convex price."
        )


def remark_on_steepness(price: prices.Price, total: float, rows: tuple[str, str], solution: Solution) -> str:
    """Return that a price of a sum over rows exceeds the precision of floats, and what to pass; or nothing.

    Parameters
    ----------
    price : Price
        The price.
    total : float
        The weight of the rows.
    rows : tuple of str
        The symbol of their number, and what they are.
    solution : Solution
        What a solve found.
    """
    count, kind = rows
    # the value is NaN where the sums overflow at the start
    if not isinstance(price, prices.ExpPrice) or solution.value <= _TOO_STEEP:
        return ""
    return (
        f"the price exp({price.scale:g} r) of a sum over {total:g} {kind} is too steep for floating point numbers; "
        f"pass prices.ExpPrice(1/{count}) = prices.ExpPrice({1.0 / total:.3g})"
    )


def random_price_and_loss(
    rng: np.random.Generator, convex_prices: list[prices.Price]
) -> tuple[prices.Price, losses.Loss]:
    """Draw a loss and a price that fits it; some prices are only for losses that do not factorise."""
    kinds: tuple[type[losses.Loss], ...] = (
        losses.Exponential, losses.Logistic, losses.Hinge, losses.SquaredHinge,
    )  # fmt: skip
    loss = kinds[int(rng.integers(4))]()
    choices = [prices.Identity(), prices.Power(2.0), prices.Power(3.0)]
    choices += [prices.LogOnePlus()] if loss.factorises else convex_prices
    return choices[int(rng.integers(len(choices)))], loss


class Push(Bipartite):
    r"""The push papers' general objective, for any price g and loss ℓ.

    .. math::
        \min_w \; \sum_{k=1}^K g\Bigl(\sum_{i=1}^I \ell(f_i - f_k)\Bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    Sums, not means, as in the paper: the value grows with I and K, and l2 must be chosen on that scale. Convex when ℓ
    is convex and g convex and non-decreasing; with the exponential loss it is enough that :math:`h(a) = g(e^a)` is
    convex.

    Cost of a value: O(I + K) with the exponential loss; O((I+K) log(I+K)) with hinge and squared hinge, any price,
    and with the logistic loss from 4 million pairs on; O(I·K) time with bounded memory otherwise. With steep prices and
    the exponential loss the sums leave the range of floating point; :class:`PNormPush` is the same objective for
    powers, in a form that cannot overflow.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; weights are like repeated rows: both sums become weighted sums.
    price : Price, float or str
        A price object, a number p for ``prices.Power(p)``, or a name: identity, log_one_plus, exp.
    loss : Loss or str
        A loss object or a name: exponential, logistic, hinge, squared_hinge.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`; also when price and loss do not make a convex objective.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 2.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0]
    >>> problem = cr.problems.Push(X, y, price=2, loss="squared_hinge", l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    price: Any
    loss: Any = "exponential"

    def __post_init__(self) -> None:
        keep(self, price=prices.resolve(self.price), loss=losses.resolve(self.loss))
        check_price_fits(self.price, self.loss)
        super().__post_init__()

    @property
    def p(self) -> float:
        """The power of the price :math:`r^p`, which a path may follow; other prices have none."""
        if not isinstance(self.price, prices.Power):
            raise AttributeError(f"{self.price!r} is no power; pass price=prices.Power(p).")
        return self.price.p

    def changed(self, **values: Any) -> Self:
        """Return the same problem with other parameters; ``p`` is the power of the price."""
        if "p" in values:
            _ = self.p  # another price has none to change
            values["price"] = prices.Power(values.pop("p"))
        return super().changed(**values)

    def risk(self, f: Groups) -> Node:
        """Return the risk; with the exponential loss the pairs factorise."""
        return total(priced(self.price, pair_sums(self.loss, f.positive, f.negative)))

    def _remark(self, solution: Solution) -> str:
        """Return a remark if the sums of a steep price exceed the precision of floats."""
        total = float(self._positive_weights.sum())
        found = remark_on_steepness(self.price, total, ("I", "positives"), solution)
        return found and f"{found}, or row weights of 1/I"

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and pairs."""
        from math import exp, log

        from convexrank.problems._plain import loss_of, price_of, price_of_exp, sides_of

        f, risk = [float(score) for score in scores], 0.0
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            loss, price, price_of_power = loss_of(self.loss), price_of(self.price), price_of_exp(self.price)
            for k in negatives:
                if isinstance(self.loss, losses.Exponential):
                    # the logarithm of the sum of e^-(f_i - f_k): the price may be finite where the sum is not
                    top = max(f[k] - f[i] for i in positives)
                    total = sum(weight[i] * exp(f[k] - f[i] - top) for i in positives)
                    risk += weight[k] * price_of_power(top + log(total))
                else:
                    risk += weight[k] * price(sum(weight[i] * loss(f[i] - f[k]) for i in positives))
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 24, bounded=True)
        price, loss = random_price_and_loss(rng, [prices.ExpPrice(0.1)])
        l1 = float(rng.choice([0.0, 0.0, 0.3]))
        return cls(X, random_labels(rng, X), price, loss, l2=float(rng.choice([0.1, 3.0])), l1=l1)
