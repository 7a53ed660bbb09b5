"""PatMat: positives against a threshold that a small share of the negatives, or of all rows, is above."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from convexrank import losses
from convexrank.data import check_choice, check_positive, check_probability, keep
from convexrank.modelling import Groups, Node, loss_of, mean, threshold
from convexrank.modelling.program import Program
from convexrank.problems._declared import Declared
from convexrank.problems.bipartite._base import Bipartite, drawn_rows, random_labels
from convexrank.problems.bipartite._trivial_top import remark_on_few

Array = np.ndarray

_OVER = {"negatives": "negatives", "all": "all"}


class PatMat(Bipartite):
    r"""The mean loss of the positives against a smooth quantile of the negatives, or of all rows.

    .. math::
        \min_w \; \frac1I \sum_{i=1}^I \ell(f_i - t)
        + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1, \qquad f = Xw, \qquad
        t = \min\Bigl\{t : \frac1K\sum_{k=1}^K \psi\bigl(\beta (f_k - t)\bigr) \le \tau\Bigr\}

    Mean over positives. The surrogate loss ψ is taken of negative margins: with ψ of at least 1 from 0 on, at most the
    share τ of the negatives scores t or more, so that the rule "above t" has a false positive rate of at most τ on
    these rows. Over ``"all"`` rows the mean in the threshold is over positives and negatives, and at most the share τ
    of all rows is above t: Pat&Mat; over the negatives it is Pat&Mat-NP, of Neyman and Pearson.

    Convex: the set of (f, t) that satisfies the constraint is convex, so t is convex in f, and the loss does not
    increase. A value costs O(n) times some steps of Newton's method for t; its gradient follows by the implicit
    function theorem.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`; a row of weight 2 is like two rows. With queries each has a threshold of its own.
    tau : float
        The share τ of the rows that may be above the threshold, between 0 and 1.
    loss : Loss or str
        The loss ℓ of the positives, an object or a name: squared_hinge, hinge, logistic, exponential.
    surrogate : Loss or str
        The smooth loss ψ of the rows below the threshold: squared_hinge, exponential, logistic.
    beta : float
        The scale β > 0 of margins in the threshold. There is a best one: for small β t is far above the quantile, and
        as β grows it goes to the highest score.
    over : {"negatives", "all"}
        What the threshold is a quantile of.

    Raises
    ------
    ValueError, TypeError
        As for :class:`PNormPush`; when the surrogate has kinks, or a number is out of range.

    References
    ----------
    L. Adam, V. Mácha, V. Šmídl and T. Pevný, General framework for binary classification on top samples, arXiv (2020),
    Pat&Mat and Pat&Mat-NP.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[1.5], [2.0], [1.0], [0.0], [0.5]], [1, 1, 0, 0, 0]
    >>> problem = cr.problems.PatMat(X, y, 0.3, l2=0.1)
    >>> print(round(problem.solve().value, 6), round(problem.solve("exact").value, 6))
    0.162021 0.162021
    """

    tau: float = 0.01
    loss: Any = "squared_hinge"
    surrogate: Any = "squared_hinge"
    beta: float = 1.0
    over: Literal["negatives", "all"] = "negatives"

    def __post_init__(self) -> None:
        keep(self, tau=check_probability(self.tau, "tau"), beta=check_positive(self.beta, "beta"))
        keep(self, loss=losses.resolve(self.loss), surrogate=losses.resolve(self.surrogate, "surrogate"))
        check_choice(self.over, _OVER, "over")
        super().__post_init__()

    def _threshold(self, f: Groups) -> Node:
        rows = f.negative if self.over == "negatives" else f.rows
        return threshold(rows, self.surrogate, self.tau, self.beta)

    def risk(self, f: Groups) -> Node:
        """Return the risk."""
        return mean(loss_of(self.loss, f.positive - self._threshold(f)))

    # positives above negatives are not enough where the threshold is one of all rows
    _is_separating = Declared._is_separating

    def threshold(self, w: Any) -> Array:
        """Return t of each query that counts, one number without queries."""
        made = Program(self._threshold(self._groups), self.rows)
        return made.up(self._float_scores(self.check_point(w)))[0][-1]

    _remark = remark_on_few  # type: ignore[assignment]

    def definition(self, scores: Array) -> float:
        """Return the risk at the scores of all rows once more, from its formula by loops over queries and rows."""
        from convexrank.problems._plain import loss_of, root, sides_of

        f, risk = [float(score) for score in scores], 0.0
        loss, psi = loss_of(self.loss), loss_of(self.surrogate)
        for positives, negatives, weight in sides_of(self.y, self.qid, self.sample_weight):
            rows = negatives if self.over == "negatives" else [*positives, *negatives]
            whole = sum(weight[k] for k in rows)
            shares = [(weight[k] / whole, f[k]) for k in rows]

            def missing(t: float, shares: list[tuple[float, float]] = shares) -> float:
                return self.tau - sum(share * psi(self.beta * (t - score)) for share, score in shares)

            t, counted = root(missing, max(f[k] for k in rows)), sum(weight[i] for i in positives)
            risk += sum(weight[i] * loss(f[i] - t) for i in positives) / counted
        return risk

    @classmethod
    def random(cls, seed: int) -> Self:
        """Draw a small instance; the same seed gives the same instance."""
        rng, X = drawn_rows(seed, 40, bounded=True)
        loss = ["exponential", "logistic", "hinge", "squared_hinge"][int(rng.integers(4))]
        surrogate = ["exponential", "logistic", "squared_hinge"][int(rng.integers(3))]
        tau, beta, l1 = (
            float(rng.choice(of)) for of in ([0.05, 0.2, 0.5], [0.5, 1.0, 3.0], [0.0, 0.0, 0.02])
        )
        over: Any = ["negatives", "all"][int(rng.integers(2))]
        l2 = float(rng.choice([1e-2, 1e-1]))
        return cls(X, random_labels(rng, X), tau, loss, surrogate, beta, over, l2=l2, l1=l1)
