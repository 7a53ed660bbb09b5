"""Margin-equipped monotone retargeting online: one query per round, with a step after each round."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from convexrank.backend.interruption import as_a_whole
from convexrank.data import QueryGroups, as_groups, check_integer, check_positive, check_vector
from convexrank.estimators._linear_ranker import LinearRanker
from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting

Array = np.ndarray


@dataclass(eq=False, repr=False)
class OnlineMEMR(LinearRanker):
    r"""Online ranking of queries by margin-equipped retargeting: in each round scores, then grades, then a step.

    In round t the features of a query are shown, the current weights :math:`w_t` score them, its grades are revealed,
    and the loss of the learner is

    .. math:: G_t(w) = c_t \min_{r,\beta} F_t(r, \beta, w) + \frac{\sigma}{2}\|w\|^2,

    the term of the query in :class:`~convexrank.problems.MarginRetargeting` plus a penalty. Then

    .. math:: w_{t+1} = \Pi\Bigl(w_t - \frac{1}{\sigma t}\nabla G_t(w_t)\Bigr),

    where Π projects onto a ball. G is σ-strongly convex, so for any fixed w in the ball, including the best one,

    .. math:: \sum_{t=1}^{T} G_t(w_t) - G_t(w) \;\le\; \frac{g^2}{2\sigma}(1 + \log T),
              \qquad g = \max_t \|\nabla G_t(w_t)\|:

    the regret grows with the logarithm of the number of rounds, whatever the order of the queries.
    :meth:`regret` measures the regret, ``regret_bound_`` is the bound.

    The source has no projection and uses the Lipschitz constant of the gradient for g. Without the ball the first
    steps, :math:`1/(\sigma t)`, are far too long for a small σ, and the weights become very large at first.

    Parameters
    ----------
    sigma : float
        Strength σ of the penalty of each round. T rounds have the penalty :math:`T\sigma/2`.
    divergence : str or Divergence
        The divergence; this and the next four parameters are as in :class:`~convexrank.problems.MarginRetargeting`.
    margin, reward : float, callable, or None
        Margins and rewards: numbers, or functions of the rank.
    bound : float, pair of float or None, or None
        Bounds of the targets.
    target_reg, score_reg : float or None
        The constants :math:`C_r` and :math:`C_w` of (3.17).
    normalize : bool
        Whether to divide the loss of each query by its number of rows.
    radius : float, optional
        Radius of the ball. By default the smaller of :math:`\max_s\|\nabla G_s(0)\|/\sigma` and, without rewards,
        :math:`\sqrt{2\max_s G_s(0)/\sigma}` over the rounds s so far: this ball contains the best fixed weights for
        these rounds. The ball then grows with the rounds, and the bound holds from the round on after which it grows no
        more.

    Attributes
    ----------
    coef_ : ndarray, shape (d,)
        The weights :math:`w_{T+1}` for the next round.
    losses_ : ndarray, shape (T,)
        The loss of each round.
    rounds_ : int
        The number T of rounds.
    steepest_ : float
        The norm g of the largest gradient so far.
    regret_bound_ : float
        The bound on the regret.
    n_features_in_ : int
        Number of features.

    References
    ----------
    S. Acharyya, dissertation (2013), section 3.4.6, theorem 3; E. Hazan, A. Agarwal, S. Kale, Logarithmic regret
    algorithms for online convex optimization, Machine Learning 69 (2007), theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import OnlineMEMR
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(400, 3)), np.repeat(np.arange(40), 10)
    >>> y = np.clip(np.round(X @ [1.0, -1.0, 0.0] + 0.5 * rng.normal(size=400)), 0, 2)
    >>> learner = OnlineMEMR(sigma=0.1)
    >>> for query in range(40):
    ...     _ = learner.partial_fit(X[qid == query], y[qid == query])
    >>> learner.rounds_, round(learner.regret(X, y, qid), 2), round(learner.regret_bound_, 2)
    (40, 1.94, 10.38)
    """

    sigma: float = 0.1
    divergence: Any = "squared"
    margin: Any = 1.0
    _: KW_ONLY
    reward: Any = None
    bound: Any = None
    target_reg: float = 0.0
    score_reg: float | None = None
    normalize: bool = True
    radius: float | None = None

    @as_a_whole
    def fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Reset the estimator, and play one round for each query; see :meth:`partial_fit`."""
        for name in ("coef_", "losses_"):
            self.__dict__.pop(name, None)
        return self.partial_fit(X, y, qid)

    @as_a_whole
    def partial_fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Play one round for each query, in the order in which queries first appear.

        A query with one row, or one grade, is skipped. A round costs a sort and O(nd) for the n rows
        of the query.

        Parameters
        ----------
        X : array or sparse matrix, shape (n, d)
            One row for each document.
        y : array, shape (n,)
            Grades.
        qid : array of int or str, shape (n,), QueryGroups, or None
            The query of each row; None is one query.

        Raises
        ------
        ValueError, TypeError
            When the data are not finite and real, lengths differ, or a parameter is out of range.
        """
        first = not hasattr(self, "coef_")
        X, y = self._validated(X, y, y_numeric=True, reset=first)
        sigma = check_positive(self.sigma, "sigma")
        if self.radius is not None:
            check_positive(self.radius, "radius")
        if first:
            self.coef_, self.losses_ = np.zeros(X.shape[1]), np.zeros(0)
            self.steepest_, self._costliest, self._steepest_at_zero = 0.0, 0.0, 0.0
        losses = []
        for problem in self._rounds(X, np.asarray(y, dtype=np.float64), as_groups(qid, X.shape[0])):
            loss, gradient = problem.value_and_gradient(self.coef_)
            losses.append(loss)
            self.steepest_ = max(self.steepest_, float(np.linalg.norm(gradient)))
            moved = self.coef_ - gradient / (sigma * (len(self.losses_) + len(losses)))
            self.coef_ = self._within(moved, problem)
        self.losses_ = np.concatenate((self.losses_, losses))
        return self

    def _rounds(self, X: Any, y: Array, groups: QueryGroups) -> Any:
        """One problem for each query with rows to order."""
        for query in range(len(groups)):
            rows = groups.subset([query])
            if len(rows) and y[rows].max() > y[rows].min():
                yield self._problem(X[rows], y[rows], None, self.sigma)

    def _problem(self, X: Any, y: Array, qid: Any, l2: float) -> MarginRetargeting:
        for name in ("margin", "reward"):
            if isinstance(getattr(self, name), tuple | list | np.ndarray):
                raise TypeError(
                    f"{name} is {getattr(self, name)!r}, expected a number or a function of the rank: the grades of "
                    "rounds to come are not known."
                )
        options = {name: getattr(self, name) for name in ("bound", "target_reg", "score_reg", "normalize")}
        return MarginRetargeting(X, y, qid, self.divergence, self.margin, self.reward, l2=l2, **options)

    def _within(self, w: Array, problem: MarginRetargeting) -> Array:
        if self.radius is None:
            cost, gradient = problem.value_and_gradient(np.zeros(len(w)))
            # with rewards the cost may be negative elsewhere, and bounds nothing
            self._costliest = max(self._costliest, math.inf if problem.rules.rewarded else cost)
            self._steepest_at_zero = max(self._steepest_at_zero, float(np.linalg.norm(gradient)))
        length = float(np.linalg.norm(w))
        return w * (self._reach / length) if length > self._reach else w

    @property
    def _reach(self) -> float:
        """The radius of the ball."""
        if self.radius is not None:
            return float(self.radius)
        sigma = float(self.sigma)
        return min(self._steepest_at_zero / sigma, math.sqrt(2.0 * self._costliest / sigma))

    @property
    def rounds_(self) -> int:
        """The number of rounds."""
        check_is_fitted(self, "losses_")
        return len(self.losses_)

    @property
    def regret_bound_(self) -> float:
        """The bound on the regret after the rounds played."""
        return (1.0 + math.log(max(self.rounds_, 1))) * self.steepest_**2 / (2.0 * float(self.sigma))

    @as_a_whole
    def regret(self, X: Any, y: Any, qid: Any = None, rounds: int | None = None) -> float:
        """Return the sum of the losses minus that of the best fixed weights, which are fitted to all rounds together.

        Parameters
        ----------
        X, y, qid : arrays
            The data of the rounds, in the order in which they were played.
        rounds : int, optional
            Number of rounds from the first on; all by default.

        Raises
        ------
        ValueError
            When the data have fewer rounds, or fewer rounds or no rounds were played.
        KeyboardInterrupt
            When Ctrl-C is pressed, at the next step of the solve.
        """
        check_is_fitted(self, "losses_")
        count = self.rounds_ if rounds is None else check_integer(rounds, "rounds", 1)
        X = self._validated(X, reset=False)
        y, groups = check_vector(y, X.shape[0], "y"), as_groups(qid, X.shape[0])
        asked = [
            rows for rows in map(groups.subset, ([q] for q in range(len(groups)))) if len(set(y[rows])) > 1
        ]
        if count == 0:
            raise ValueError("no round was played: no query so far had two rows of different grades.")
        if count > min(len(asked), self.rounds_):
            raise ValueError(
                f"{count} rounds are asked for, {self.rounds_} were played and X with this qid has {len(asked)}; pass "
                "the data of all rounds, in their order."
            )
        rows = np.concatenate(asked[:count])
        names = np.repeat(np.arange(count), [len(part) for part in asked[:count]])
        best = self._problem(X[rows], y[rows], names, count * float(self.sigma)).solve()
        return float(self.losses_[:count].sum() - best.value)
