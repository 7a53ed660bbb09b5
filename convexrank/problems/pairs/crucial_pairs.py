"""The push for any list of pairs, not only for pairs of a positive and a negative."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from convexrank import losses, prices
from convexrank.backend.cached import cached_property
from convexrank.data import check_pairs, keep
from convexrank.modelling import total_loss
from convexrank.modelling.expressions import Node
from convexrank.modelling.groups import ListedPairs
from convexrank.problems._declared import Declared
from convexrank.problems.bipartite._base import random_features
from convexrank.problems.bipartite.push import check_price_fits, random_price_and_loss

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class CrucialPairs(Declared):
    r"""The push objective for a given list of pairs; in each pair one row should rank above the other.

    .. math::
        \min_w \; \sum_{k} g\Bigl(\sum_{i:\,(i,k)\in\text{pairs}} \ell(f_i - f_k)\Bigr)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw

    The outer sum is over rows k that are the lower row of some pair. A repeated pair counts repeatedly. Convex under
    the same conditions as :class:`Push`, which is the case of all positive–negative pairs. A value costs O(m) for m
    pairs.

    Parameters
    ----------
    X, l2, l1, dtype : as for :class:`PNormPush`
        The data, the strengths and the precision.
    pairs : array of int, shape (m, 2)
        Row numbers; the first of each pair should rank above the second.
    price, loss : as for :class:`Push`
        The price and the loss, as objects or by name.

    Raises
    ------
    ValueError, TypeError
        When X is not a finite real matrix, a pair is out of range or ranks a row above itself, a number is out of
        range, or price and loss do not make a convex objective.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 7, "Crucial Pairs Formulation".

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    >>> problem = cr.problems.CrucialPairs(X, [[0, 1], [2, 1]], price=2, loss="logistic", l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    pairs: Any
    price: Any = field(default="identity")
    loss: Any = field(default="exponential")

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, pairs=check_pairs(self.pairs, self.X.shape[0]))
        keep(self, price=prices.resolve(self.price), loss=losses.resolve(self.loss))
        check_price_fits(self.price, self.loss)
        # an expression that is not convex is refused here, not at the first solve
        _ = self._log_sum_exps

    @cached_property
    def _groups(self) -> ListedPairs:  # type: ignore[override]
        return ListedPairs(self.pairs)

    def risk(self, f: ListedPairs) -> Node:
        """The price of the losses of each lower row, summed over the lower rows."""
        return prices.priced(self.price, total_loss(self.loss, f.differences))

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over the pairs."""
        from math import exp, log

        from convexrank.problems._plain import loss_of, price_of, price_of_exp

        f, pairs = [float(score) for score in scores], self.pairs.tolist()
        loss, price, price_of_power = loss_of(self.loss), price_of(self.price), price_of_exp(self.price)
        above: dict[int, list[int]] = {}
        for i, k in pairs:
            above.setdefault(k, []).append(i)
        risk = 0.0
        for k, rows in above.items():
            if isinstance(self.loss, losses.Exponential):
                # the logarithm of the sum of e^-(f_i - f_k): the price may be finite where the sum is not
                top = max(f[k] - f[i] for i in rows)
                risk += price_of_power(top + log(sum(exp(f[k] - f[i] - top) for i in rows)))
            else:
                risk += price(sum(loss(f[i] - f[k]) for i in rows))
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng = np.random.default_rng(seed)
        rows = int(rng.integers(5, 25))
        X = random_features(rng, rows, int(rng.integers(1, 5)), bounded=True)
        first = rng.integers(rows, size=int(rng.integers(3, 60)))
        pairs = np.column_stack([first, (first + rng.integers(1, rows, size=len(first))) % rows])
        price, loss = random_price_and_loss(rng, [])
        l1 = float(rng.choice([0.0, 0.0, 0.3]))
        return cls(X, pairs, price, loss, l2=float(rng.choice([0.1, 3.0])), l1=l1)
