"""Risks with cvxpy: atoms as functions of its expressions, and a formulation from an expression alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, dataclass_transform

import numpy as np

from convexrank.atoms import is_cvxpy
from convexrank.backend.cached import cached_property
from convexrank.backend.design import dense
from convexrank.core.results import CertificateError
from convexrank.data import check_real_array, keep, read_array, shown
from convexrank.modelling import loss_rules, rules
from convexrank.modelling.cvxpy_reading import Cvxpy
from convexrank.modelling.expressions import Axis, Node, Scores
from convexrank.modelling.language import read
from convexrank.problems._linear_scores import LinearScores


def _vector(x: Any, name: str) -> Any:
    """Return a vector of cvxpy: an expression as it is, an array as a constant."""
    import cvxpy as cp

    if not is_cvxpy(x):
        array = check_real_array(x, name)
        if wrong := int(np.count_nonzero(~np.isfinite(array))):
            raise ValueError(
                f"{name} has {wrong} of {array.size} entries NaN or infinite, expected finite numbers."
            )
        x = cp.Constant(array)
    if x.ndim != 1 or not x.size:
        raise ValueError(
            f"{name} is {shown(x)} with shape {x.shape}, expected a vector with at least one entry; "
            "cp.vec(x, order='F') makes one of a matrix."
        )
    return x


def _read(state: Callable[..., Node], **vectors: Any) -> Any:
    """State an expression of groups that have these vectors as scores, and return its exact reading."""
    known, leaves = {}, []
    for name, given in vectors.items():
        vector = _vector(given, name)
        n = vector.size
        leaves.append(Scores(Axis(name, np.arange(n), np.ones(n), np.zeros(n, dtype=np.int64), 1)))
        known[id(leaves[-1])] = vector
    root = state(*leaves)
    found = read(root, Cvxpy(), None, known)
    return found if root.axis is not None else found[0]


def pair_sums(loss: Any, upper: Any, lower: Any) -> Any:
    r"""Return :math:`\sum_i \ell(u_i - v_k)` for each entry k of v, as an expression of cvxpy.

    Convex by cvxpy's rules where u is concave and v is convex, such as where both are affine. One term for each pair;
    two for each entry with the exponential loss.

    Parameters
    ----------
    loss : Loss or Function
        A loss ℓ of :mod:`convexrank.losses`, convex and not increasing, such as ``losses.Hinge()``; or a function φ of
        :mod:`convexrank.modelling` with ℓ(z) = φ(−z).
    upper : cvxpy.Expression or array, shape (m,)
        The scores u that are to be high.
    lower : cvxpy.Expression or array, shape (n,)
        The scores v that are to be low.

    Returns
    -------
    cvxpy.Expression
        Shape (n,).

    Raises
    ------
    TypeError, ValueError
        When the loss is none, or an argument is no vector of finite real numbers.

    Examples
    --------
    A push of the highest negative, with weights of one's own cvxpy problem:

    >>> import cvxpy as cp
    >>> import numpy as np
    >>> import convexrank as cr
    >>> positive, negative = np.array([[1.0, 0.2], [2.0, -0.1]]), np.array([[1.5, 0.3], [0.0, 0.4]])
    >>> w = cp.Variable(2, nonneg=True)
    >>> pushed = cp.max(cr.atoms.pair_sums(cr.losses.Hinge(), positive @ w, negative @ w))
    >>> problem = cp.Problem(cp.Minimize(pushed), [cp.sum(w) <= 1])
    >>> problem.is_dcp(), round(float(problem.solve(solver=cp.CLARABEL)), 6)
    (True, 2.0)
    """
    return _read(lambda u, v: loss_rules.pair_sums(loss, u, v), upper=upper, lower=lower)


def log_mean_exp(x: Any) -> Any:
    r"""Return :math:`\log\tfrac1n\sum_j e^{x_j}`, a smooth maximum, as a scalar of cvxpy; convex, increasing.

    Parameters
    ----------
    x : cvxpy.Expression or array, shape (n,)
        The entries.

    Returns
    -------
    cvxpy.Expression
        A scalar.

    Raises
    ------
    TypeError, ValueError
        When x is no vector of finite real numbers.

    Examples
    --------
    >>> import convexrank as cr
    >>> print(cr.atoms.log_mean_exp([1.0, 1.0, 1.0]).value.round(6))
    1.0
    """
    return _read(rules.log_mean_exp, x=x)


def mean_of_highest(x: Any, count: float | None = None, *, share: float | None = None) -> Any:
    """Return the mean of the highest entries, so many or a share of all, as a scalar expression of cvxpy.

    Convex and not decreasing in any entry. The last entry that counts may count in part.

    Parameters
    ----------
    x : cvxpy.Expression or array, shape (n,)
        The entries.
    count : int, optional
        How many count; all where there are less.
    share : float, optional
        The share of the entries that count, above 0 and at most 1, instead of ``count``.

    Returns
    -------
    cvxpy.Expression
        A scalar.

    Raises
    ------
    TypeError, ValueError
        When x is no vector of finite real numbers, or count and share are out of range, or not one of the two.

    Examples
    --------
    >>> import convexrank as cr
    >>> print(cr.atoms.mean_of_highest([3.0, 1.0, 2.0, 0.0], 2).value.round(6))
    2.5
    """
    return _read(lambda leaf: rules.mean_of_highest(leaf, count, share=share), x=x)


def spectral_sum(x: Any, spectrum: Any) -> Any:
    r"""Return :math:`\sum_k \sigma_k x_{[k]}` over the sorted entries, lowest first, as a scalar expression of cvxpy.

    Convex and not decreasing in any entry: the weights σ do not decrease.

    Parameters
    ----------
    x : cvxpy.Expression or array, shape (n,)
        The entries.
    spectrum : array, str or tuple
        The weights σ, as for :func:`convexrank.modelling.spectral_sum`.

    Returns
    -------
    cvxpy.Expression
        A scalar.

    Raises
    ------
    TypeError, ValueError
        When x is no vector of finite real numbers, or the spectrum decreases or does not add up to 1.

    Examples
    --------
    >>> import convexrank as cr
    >>> print(cr.atoms.spectral_sum([3.0, 1.0], [0.25, 0.75]).value.round(6))  # 0.25 of 1 and 0.75 of 3
    2.5
    """
    return _read(lambda leaf: rules.spectral_sum(leaf, spectrum), x=x)


Array = np.ndarray


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True, eq=False)
class CvxpyFormulation(LinearScores):
    r"""A ranking risk of your own, stated in cvxpy alone.

    .. math:: \min_w \; R(Xw) + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1

    Derive a class and state :meth:`risk_model`. It is for risks that the atoms of :mod:`convexrank.modelling` do not
    have; for those, :class:`convexrank.Formulation` gives fast solvers, second derivatives and proofs as well. Here are
    the exact solve, the bundle method, and a certificate. The latter takes the value of the expression and its gradient
    as cvxpy computes them: by the rules of disciplined convex programming the expression is convex, so that its tangent
    is nowhere above it, up to rounding, which is allowed for as a sum over rows and columns. A proof in ball arithmetic
    does not exist.

    Parameters
    ----------
    X : array or sparse array, shape (n, d)
        One row per example.
    y : array, shape (n,)
        What the risk takes of each row, as it is.
    l2, l1 : float
        Strengths :math:`\lambda_2, \lambda_1` of the penalties.
    dtype : {"float64", "float32"}
        Precision of the data.

    Raises
    ------
    TypeError
        When ``risk_model`` returns no scalar expression of the scores that is convex by cvxpy's rules, or constraints.
    ValueError, TypeError
        When the data are not finite and real, lengths differ, or a number is out of range.

    Examples
    --------
    The largest loss and the mean of the losses, for the pairs of neighbours in the order of y:

    >>> import cvxpy as cp
    >>> import numpy as np
    >>> import convexrank as cr
    >>> class Neighbours(cr.CvxpyFormulation):
    ...     share: float = 0.5
    ...     def risk_model(self, scores):
    ...         order = np.argsort(self.y)
    ...         losses = cp.logistic(scores[order[:-1]] - scores[order[1:]])
    ...         return self.share * cp.max(losses) + (1 - self.share) * cp.sum(losses) / (len(order) - 1), []
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(30, 3))
    >>> problem = Neighbours(X, X[:, 0] + rng.normal(size=30), l2=0.1)
    >>> exact, bundle = problem.solve("exact"), problem.solve("bundle")
    >>> exact.status.name, bundle.status.name, bool(abs(exact.value - bundle.value) < 1e-5)
    ('CONVERGED', 'CONVERGED', True)
    """

    y: Any

    #: The risk at scores by plain loops, ``definition(scores) -> float``: a second statement that verify compares.
    definition: ClassVar[Callable[..., float] | None] = None

    #: Whether X may be a design that is never built.
    _takes_designs = False
    _differentiable = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(frozen=True, eq=False)(cls)

    def __post_init__(self) -> None:
        super().__post_init__()
        labels = read_array(self.y, "y")
        if labels.shape[:1] != (self.rows,):
            raise ValueError(
                f"y has shape {labels.shape}, expected ({self.rows},), one label for each row of X."
            )
        keep(self, y=labels)
        _ = self._model  # what is not convex is refused here, not at the first solve

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression of the scores, and an empty list."""
        raise self._unstated("risk_model(scores)", "a cvxpy expression and a list of constraints")

    def _risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        return self.risk_model(scores)

    @property
    def default_solver(self) -> str:
        """The exact solver: each subgradient is a pass of cvxpy over the expression."""
        return "exact"

    @cached_property
    def _model(self) -> tuple[Any, Any]:
        """A variable for the scores, and the risk of it."""
        import cvxpy as cp

        scores = cp.Variable(self.rows, name="scores")
        found, name = self.risk_model(scores), f"risk_model(scores) of {type(self).__name__}"
        if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], cp.Expression)):
            raise TypeError(
                f"{name} returned {type(found).__name__}, expected an expression of cvxpy and a list, []."
            )
        risk, constraints = found
        if constraints or [variable.id for variable in risk.variables()] != [scores.id]:
            raise TypeError(
                f"{name} has constraints or variables besides the scores, so that it has no value at given scores; "
                "write what is minimised over them as an atom of cvxpy, such as cp.max or cp.sum_largest."
            )
        if not (risk.is_scalar() and risk.is_convex()):
            what = "convex by cvxpy's rules" if risk.is_scalar() else "one number"
            raise TypeError(f"{name} is not {what}: {risk}; expected a convex scalar.")
        return scores, risk

    @property
    def _risk_infimum(self) -> float:  # type: ignore[override]
        """0 where the expression is non-negative by cvxpy's rules, else minus infinity."""
        return 0.0 if self._model[1].is_nonneg() else -math.inf

    def _reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return value and a subgradient in the scores, as cvxpy computes them.

        Raises
        ------
        CertificateError
            When cvxpy has no gradient there, as on the border of a domain.
        """
        variable, risk = self._model
        variable.value = np.asarray(scores, dtype=np.float64)
        with np.errstate(all="ignore"):  # beyond a domain
            value, slope = risk.value, risk.grad[variable]
        if value is None or slope is None or not np.isfinite(value).all():
            raise CertificateError(
                f"cvxpy has no gradient of {type(self).__name__}'s risk at these scores: they are on the border of its "
                "domain or beyond it; change the risk there."
            )
        return float(np.asarray(value).reshape(())), dense(slope).reshape(-1)

    def _risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return value and a subgradient in the scores."""
        return self._reference_scores(scores)
