r"""Base class of divergences, with weights, identities and the cvxpy form, and the intervals that are their domains.

A separable function :math:`\phi(x) = \sum_i w_i\,\varphi(x_i)` is declared by functions of one number. φ and its
conjugate are written with :mod:`convexrank.atoms`, so that one line lowers to cvxpy, to JAX and to numpy; slopes and
their inverses have no cvxpy form and are written once for numpy and JAX.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import entr

from convexrank import atoms
from convexrank.backend.cached import cached_property
from convexrank.core.results import CertificateError
from convexrank.data import check_positive_weights, check_real, check_real_array, check_vector, shown

if TYPE_CHECKING:
    from convexrank.proof.orders import Generator

Array = np.ndarray


@dataclass(frozen=True)
class Interval:
    """An interval of numbers, each end in it or not.

    Parameters
    ----------
    lower, upper : float
        The ends; infinite for no bound.
    closed : pair of bool
        Whether each end belongs to the interval.

    Examples
    --------
    >>> from convexrank.divergences import Interval
    >>> str(Interval(0.0, closed=(True, False)))
    '[0, inf)'
    >>> Interval(0.0, 1.0).contains([0.0, 0.5]).tolist()
    [False, True]
    """

    lower: float = -math.inf
    upper: float = math.inf
    closed: tuple[bool, bool] = (False, False)

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            if math.isnan(check_real(getattr(self, name), name)):
                raise ValueError(f"{name} is NaN, expected a number, or an infinity for no end.")
        ends = self.closed if isinstance(self.closed, tuple) else ()
        if len(ends) != 2 or not all(isinstance(end, bool | np.bool_) for end in ends):
            raise TypeError(f"closed is {shown(self.closed)}, expected a pair of True or False.")

    @property
    def interior(self) -> Interval:
        """The same interval without its ends."""
        return Interval(self.lower, self.upper)

    def contains(self, x: Array) -> Array:
        """Return for each entry whether it is in the interval."""
        x = check_real_array(x, "x")
        above = x >= self.lower if self.closed[0] else x > self.lower
        below = x <= self.upper if self.closed[1] else x < self.upper
        return above & below

    def check(self, x: Array, name: str, what: str) -> None:
        """Raise a ValueError that names the first entry outside, if there is one.

        Parameters
        ----------
        x : ndarray
            The entries.
        name : str
            Name of the vector in the message.
        what : str
            Description of the interval in the message.
        """
        outside = ~self.contains(x)
        if outside.any():
            place = int(np.argmax(outside))
            count = int(outside.sum())
            others = "" if count == 1 else f" ({count} entries are)"
            raise ValueError(
                f"{name}[{place}] is {x[place]:.6g}, outside {what}, {self}{others}; expected entries in it. Shift or "
                "rescale the values, or take a divergence with another domain."
            )

    def __str__(self) -> str:
        left, right = "[" if self.closed[0] else "(", "]" if self.closed[1] else ")"
        return f"{left}{self.lower:g}, {self.upper:g}{right}"


#: All numbers.
EVERYWHERE = Interval()


def read_bound(values: Any, name: str) -> Array:
    """Return a bound, or one for each entry, as an array; infinities stand for none.

    Raises
    ------
    ValueError, TypeError
        For NaN, and for anything but numbers.
    """
    if isinstance(values, str | bytes):
        raise TypeError(f"{name} is {shown(values)}, expected a number, or an infinity for no bound.")
    with np.errstate(over="ignore"):  # what does not fit is infinite: no bound
        array = np.asarray(check_real_array(values, name), dtype=np.float64)
    if np.isnan(array).any():
        raise ValueError(f"{name} has NaN entries, expected numbers; pass an infinity for no bound.")
    return array


def _library(x: Any) -> ModuleType:
    """The numpy-like module that x belongs to."""
    jax = sys.modules.get("jax")
    return jax.numpy if jax is not None and isinstance(x, jax.Array) else np


def relative_entropy(x: Any, y: Any) -> Any:
    """Return x log(x/y) − x + y for each entry, 0 where x = y; numpy or JAX."""
    ratio = x / y
    # scipy's function costs a hundredth of a call of JAX on a short vector
    product = atoms.x_log_x(ratio) if _library(ratio) is not np else -entr(ratio)
    return y * (product - ratio + 1.0)


def softmax(theta: Any) -> Any:
    """Distribution proportional to e^θ, without overflow; numpy or JAX."""
    masses = _library(theta).exp(theta - theta.max())
    return masses / masses.sum()


@dataclass(frozen=True)
class Divergence:
    r"""A Bregman divergence :math:`D_\phi(x\|y) = \phi(x) - \phi(y) - \langle\nabla\phi(y), x - y\rangle`.

    Base class. A separable one overrides the functions of one number whose names start with an underscore.

    Parameters
    ----------
    weights : array of float, shape (n,), optional
        Weights :math:`w_i > 0` of the entries, not normalised; all 1 by default. Kept as a tuple.

    Raises
    ------
    ValueError, TypeError
        For weights, or other parameters, that are not finite, or weights that are not positive.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.resolve("kl")
    KL(weights=None)
    """

    weights: Any = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            length = len(check_vector(self.weights, name="weights"))
            checked = check_positive_weights(self.weights, length)
            object.__setattr__(self, "weights", None if checked is None else tuple(checked.tolist()))

    # --- what a divergence declares -----------------------------------------------------------------------------

    @property
    def domain(self) -> Interval:
        """The interval of each entry of x."""
        return EVERYWHERE

    @property
    def dual_domain(self) -> Interval:
        """The interval of each entry of θ/w: the slopes of φ inside its domain."""
        return EVERYWHERE

    @property
    def total(self) -> float | None:
        """The required sum of the entries of x, or None if the sum is free."""
        return None

    def _phi(self, x: Any) -> Any:
        raise NotImplementedError

    def _conjugate(self, theta: Any) -> Any:
        raise NotImplementedError

    def _between(self, x: Any, y: Any) -> Any:
        raise NotImplementedError

    def _slope(self, x: Any) -> Any:
        raise NotImplementedError

    def _point(self, theta: Any) -> Any:
        raise NotImplementedError

    def _curvature(self, x: Any) -> Any:
        raise NotImplementedError

    @cached_property
    def _least_at(self) -> Array:
        """Where φ is least, shape (1,), for those whose slopes include 0."""
        return self._point(np.zeros(1))

    def _curvature_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """Least and largest curvature on [lower, upper]; this one is right where the curvature falls."""
        with np.errstate(divide="ignore"):
            return self._curvature(upper), self._curvature(lower)

    @property
    def has_model(self) -> bool:
        """Whether the conjugate has a form in cvxpy; φ always has one."""
        return True

    def in_balls(self) -> Generator:
        """Return the function of one number in ball arithmetic, without weights, for proofs.

        Raises
        ------
        CertificateError
            When there is no code in ball arithmetic.
        """
        raise CertificateError(
            f"{self._label} has no form in balls (a method in_balls, as BitEntropy has), so that nothing is proved "
            "about it."
        )

    # --- values ---------------------------------------------------------------------------------------------------

    def phi(self, x: Any) -> Any:
        r"""Evaluate :math:`\phi(x) = \sum_i w_i\,\varphi(x_i)`, also on a cvxpy expression."""
        x = self._read(x, "x", self.domain)
        return self._sum(self._phi(x), x)

    def gradient(self, x: Any) -> Any:
        r"""Evaluate :math:`\nabla\phi(x)` inside the domain."""
        return self.slopes(self._read(x, "x", self.domain.interior, interior=True))

    def inverse_gradient(self, theta: Any) -> Any:
        r"""Evaluate :math:`(\nabla\phi)^{-1}(\theta) = \nabla\phi^*(\theta)`, the mean or link function."""
        return self.points(self._read_dual(theta, "theta"))

    def curvature(self, x: Any) -> Any:
        r"""Evaluate the diagonal of :math:`\nabla^2\phi(x)`, :math:`w_i\,\varphi''(x_i)`, inside the domain."""
        x = self._read(x, "x", self.domain.interior, interior=True)
        return self._spread(x) * self._curvature(x)

    def conjugate(self, theta: Any) -> Any:
        r"""Evaluate :math:`\phi^*(\theta) = \sup_x \langle\theta, x\rangle - \phi(x)`, also in cvxpy."""
        theta = self._read_dual(theta, "theta")
        return self._sum(self._conjugate(self._divided(theta)), theta)

    def divergence(self, x: Any, y: Any) -> Any:
        r"""Evaluate :math:`D_\phi(x\|y)` for x in the domain and y inside it; x may be a cvxpy expression."""
        x = self._read(x, "x", self.domain)
        y = self._read(y, "y", self.domain.interior, interior=True)
        if atoms.is_cvxpy(x):
            slopes = self.slopes(y)
            return self.phi(x) - slopes @ x + float(slopes @ y - self.phi(y))
        self._same_length(x, y, "x", "y")
        return self._sum(self._between(x, y), x)

    def conjugate_divergence(self, theta: Any, eta: Any) -> Any:
        r"""Evaluate :math:`D_{\phi^*}(\theta\|\eta)`; of slopes it is the divergence, exchanged (2.4)."""
        theta, eta = self._read_dual(theta, "theta"), self._read_dual(eta, "eta")
        self._same_length(theta, eta, "theta", "eta")
        return self.conjugate(theta) - self.conjugate(eta) - (theta - eta) @ self.points(eta)

    def gap(self, x: Any, theta: Any) -> Any:
        r"""Evaluate the Fenchel–Young gap :math:`\phi(x) + \phi^*(\theta) - \langle x, \theta\rangle \ge 0`."""
        x, theta = self._read(x, "x", self.domain), self._read_dual(theta, "theta")
        self._same_length(x, theta, "x", "theta")
        return self.phi(x) + self.conjugate(theta) - x @ theta

    # --- constants and models -------------------------------------------------------------------------------------

    def strong_convexity(self, lower: Any = -math.inf, upper: Any = math.inf) -> float:
        """Return the modulus of strong convexity of φ, in the Euclidean norm, for x between the bounds.

        Parameters
        ----------
        lower, upper : float or array
            Bounds of the entries; clipped to the domain.

        Returns
        -------
        float
            The largest s for which φ − s/2·‖x‖² is convex there; may be 0.
        """
        return float(np.min(self._constants(lower, upper)[0]))

    def smoothness(self, lower: Any = -math.inf, upper: Any = math.inf) -> float:
        """Return the Lipschitz constant of the gradient, in the Euclidean norm, for x between the bounds.

        The bounds are as in :meth:`strong_convexity`; the constant may be infinite.
        """
        return float(np.max(self._constants(lower, upper)[1]))

    def cvxpy(self, x: Any, y: Any = None) -> tuple[Any, list[Any]]:
        """Return φ(x), or the divergence from y when one is given, and the constraints that keep x in the domain.

        x is a cvxpy expression of shape (n,), y a fixed point inside the domain.
        """
        import cvxpy as cp

        constraints: list[Any] = []
        if self.domain.lower > -math.inf:
            constraints.append(x >= self.domain.lower)
        if self.domain.upper < math.inf and self.total is None:
            constraints.append(x <= self.domain.upper)
        if self.total is not None:
            constraints.append(cp.sum(x) == self.total)
        return (self.phi(x) if y is None else self.divergence(x, y)), constraints

    def check_inside(self, x: Any, name: str = "x") -> None:
        """Raise a ValueError that names the first entry that is not inside the domain, if there is one."""
        self._read(x, name, self.domain.interior, interior=True)

    # --- without checks, for algorithms that stay in the domain -------------------------------------------------

    def slopes(self, x: Any) -> Any:
        """Return :math:`w_i φ'(x_i)` for each entry, unchecked."""
        return self._spread(x) * self._slope(x)

    def points(self, theta: Any) -> Any:
        """Return the x where the gradient is θ, unchecked."""
        return self._point(self._divided(theta))

    # --- plumbing -------------------------------------------------------------------------------------------------

    def _constants(self, lower: Any, upper: Any) -> tuple[Array, Array]:
        low, high = np.atleast_1d(read_bound(lower, "lower")), np.atleast_1d(read_bound(upper, "upper"))
        weights = np.ones(1) if self.weights is None else np.asarray(self.weights)
        if len({low.size, high.size, weights.size} - {1}) > 1 or max(low.ndim, high.ndim) > 1:
            raise ValueError(
                f"lower has shape {low.shape} and upper {high.shape}, expected numbers, or one number for each entry."
            )
        low, high = np.maximum(low, self.domain.lower), np.minimum(high, self.domain.upper)
        low, high = np.broadcast_arrays(low, high)
        if not (low <= high).all():
            place = int(np.argmax(~(low <= high)))
            raise ValueError(
                f"no entry {place} of the domain {self.domain} lies between lower and upper; pass lower <= upper that "
                "meet the domain."
            )
        least, largest = self._curvature_range(low, high)
        return weights * least, weights * largest

    def _read(self, x: Any, name: str, domain: Interval, interior: bool = False) -> Any:
        if atoms.is_cvxpy(x) or _library(x) is not np:
            return x
        x = check_vector(x, name=name)
        self._check_weights(x, name)
        domain.check(x, name, f"the {'interior of the ' if interior else ''}domain of {self._label}")
        return x

    def _read_dual(self, theta: Any, name: str) -> Any:
        if atoms.is_cvxpy(theta) or _library(theta) is not np:
            return theta
        theta = check_vector(theta, name=name)
        self._check_weights(theta, name)
        scaled = "" if self.weights is None else ", after division by the weights"
        self.dual_domain.check(self._divided(theta), name, f"the slopes of {self._label}{scaled}")
        return theta

    def _check_weights(self, x: Array, name: str) -> None:
        if self.weights is not None and len(self.weights) != len(x):
            raise ValueError(
                f"{name} has {len(x)} entries, expected {len(self.weights)}, one for each weight of {self._label}."
            )

    def _same_length(self, x: Any, y: Any, first: str, second: str) -> None:
        if x.shape != y.shape:
            raise ValueError(f"{first} has shape {x.shape} and {second} {y.shape}, expected the same shape.")

    @property
    def _label(self) -> str:
        return type(self).__name__

    def _spread(self, like: Any) -> Any:
        """The weights as an array of x's own library, or 1."""
        return 1.0 if self.weights is None else _library(like).asarray(self.weights)

    def _divided(self, theta: Any) -> Any:
        if self.weights is None:
            return theta
        return theta / (np.asarray(self.weights) if atoms.is_cvxpy(theta) else self._spread(theta))

    def _sum(self, terms: Any, like: Any) -> Any:
        if atoms.is_cvxpy(terms):
            import cvxpy as cp

            return cp.sum(terms if self.weights is None else cp.multiply(np.asarray(self.weights), terms))
        library = _library(like)
        total = library.sum(self._spread(like) * terms)
        return float(total) if library is np else total
