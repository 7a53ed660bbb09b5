"""A divergence from one expression of atoms: slopes by differentiation, their inverses by root finding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from convexrank.atoms import is_cvxpy
from convexrank.backend.compilation import jit
from convexrank.core.elementwise_checks import OnGrid, apply
from convexrank.data import check_real, keep
from convexrank.divergences.base import Divergence, Interval, _library

Array = np.ndarray

# How near an end, or how far out, the slope is asked for to see whether it has a limit there.
_FAR = (1e60, 1e30, 1e15, 1e6, 300.0, 30.0)
_NEAR = (1e-60, 1e-30, 1e-15, 1e-12)
_STEPS = 200


@dataclass(frozen=True)
class FromGenerator(Divergence):
    r"""The divergence of a function φ of your own, :math:`\phi(x) = \sum_i w_i\,\varphi(x_i)`.

    Only one expression is required: the cvxpy form is the expression itself, slopes and curvature come from JAX's
    derivatives, the inverse of the slope from bracketing and Newton's method, and the conjugate from
    :math:`\varphi^*(\theta) = \theta x - \varphi(x)` at :math:`x = (\varphi')^{-1}(\theta)`. The range of the slopes
    is found from their limits at the ends of the domain; θ outside that range is an error.

    Convexity is tested at 401 points of the domain. Moduli (``strong_convexity``, ``smoothness``) are the extremes
    of the curvature over 2001 points between the bounds and at the bounds. They are estimates; the divergences of this
    package have exact moduli.

    Parameters
    ----------
    function : callable
        The function φ of one number, written with :mod:`convexrank.atoms` and arithmetic; strictly convex and twice
        differentiable inside the domain.
    lower, upper : float
        The ends of the domain, which do not belong to it.
    weights : array of float, shape (n,), optional
        Weights greater than 0; all 1 by default.
    conjugate_function : callable, optional
        The conjugate of ``function`` in closed form, also written with atoms. It is required only for cvxpy models that
        contain the conjugate; numerical values always come from root finding.

    Raises
    ------
    ValueError, TypeError
        When the function is not elementwise, not finite inside the domain, or its curvature is not positive
        somewhere; the message names the place. When the ends are out of order. When ``conjugate_function`` is not the
        conjugate.

    Examples
    --------
    >>> from convexrank import atoms, divergences
    >>> mine = divergences.FromGenerator(lambda x: x * x - atoms.log(x), lower=0.0)
    >>> mine.inverse_gradient(mine.gradient([0.5, 2.0])).round(12).tolist()
    [0.5, 2.0]
    """

    function: Callable[[Any], Any] = None  # type: ignore[assignment]  # required, checked when made
    lower: float = -math.inf
    upper: float = math.inf
    conjugate_function: Callable[[Any], Any] | None = None
    _slopes: Interval = field(init=False, repr=False, compare=False, default=Interval())

    def __init__(
        self,
        function: Callable[[Any], Any],
        lower: float = -math.inf,
        upper: float = math.inf,
        weights: Any = None,
        conjugate_function: Callable[[Any], Any] | None = None,
    ) -> None:
        for name, given in (("function", function), ("conjugate_function", conjugate_function)):
            if not callable(given) and not (given is None and name == "conjugate_function"):
                raise TypeError(f"{name} is {given!r}, expected a function of x made of atoms.")
        ends = check_real(lower, "lower"), check_real(upper, "upper")
        if not ends[0] < ends[1]:
            raise ValueError(f"the domain ({lower}, {upper}) is empty; pass lower < upper.")
        keep(self, function=function, lower=ends[0], upper=ends[1], conjugate_function=conjugate_function)
        object.__setattr__(self, "weights", weights)
        Divergence.__post_init__(self)
        self._check_convex()
        low, high = self._limit(0), self._limit(1)
        object.__setattr__(self, "_slopes", Interval(low, high))
        self._check_conjugate()

    @property
    def has_model(self) -> bool:
        """Whether the conjugate has a form in cvxpy."""
        return self.conjugate_function is not None

    @property
    def domain(self) -> Interval:
        """Entries between the ends."""
        return Interval(self.lower, self.upper)

    @property
    def dual_domain(self) -> Interval:
        """Slopes between their limits at the ends of the domain."""
        return self._slopes

    def _phi(self, x: Any) -> Any:
        return apply(self.function, x)

    def _conjugate(self, theta: Any) -> Any:
        if is_cvxpy(theta):
            if self.conjugate_function is None:
                raise ValueError(
                    "the conjugate of this FromGenerator has no form in cvxpy: it comes from root finding; pass "
                    "conjugate_function, its closed form made of atoms."
                )
            return apply(self.conjugate_function, theta)
        x = self._point(theta)
        return theta * x - self._phi(x)

    def _between(self, x: Any, y: Any) -> Any:
        return self._phi(x) - self._phi(y) - self._slope(y) * (x - y)

    def _slope(self, x: Any) -> Any:
        return _derivatives(self.function, x)[0]

    def _curvature(self, x: Any) -> Any:
        return _derivatives(self.function, x)[1]

    def _curvature_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        ends = [_squeeze(bound, self.lower, self.upper) for bound in (lower, upper)]
        grid = np.linspace(_to_line(ends[0], self.domain), _to_line(ends[1], self.domain), 2001)
        values = self._curvature(np.concatenate([_from_line(grid, self.domain), ends]))
        return np.nanmin(values, axis=0), np.nanmax(values, axis=0)

    def _point(self, theta: Any) -> Any:
        """Bracket each root, then Newton's method, halving the bracket where it leaves it."""
        if _library(theta) is not np:
            raise TypeError(
                "FromGenerator inverts its slopes by root finding, in numpy; pass numpy arrays, or a divergence "
                "with a closed form inside JAX."
            )
        theta = np.asarray(theta, dtype=np.float64)
        # on the real line that the domain is mapped to, every end is an infinity
        low, high = np.full(theta.shape, -1.0), np.full(theta.shape, 1.0)
        for _ in range(11):  # doublings up to the largest numbers there are
            at_low, at_high = self._slope(_from_line(np.stack([low, high]), self.domain))
            above, below = at_low > theta, at_high < theta
            if not (above | below).any():
                break
            low = np.clip(np.where(above, 2.0 * low, low), -690.0, 690.0)
            high = np.clip(np.where(below, 2.0 * high, high), -690.0, 690.0)
        x, before = _from_line(0.5 * (low + high), self.domain), np.full(theta.shape, np.nan)
        below, above = _from_line(low, self.domain), _from_line(high, self.domain)
        for _ in range(_STEPS):
            slope, curvature = _derivatives(self.function, x)
            above, below = np.where(slope >= theta, x, above), np.where(slope <= theta, x, below)
            with np.errstate(all="ignore"):
                newton = _moved(x, (theta - slope) / curvature, self.domain)
            middle = _from_line(
                0.5 * (_to_line(below, self.domain) + _to_line(above, self.domain)), self.domain
            )
            following = np.where((newton >= below) & (newton <= above), newton, middle)
            # back and forth between two ends; or what rounding of the slope, or of x, leaves open
            settled = following == before
            settled |= np.abs(slope - theta) <= 4e-16 * np.maximum(np.abs(theta), np.abs(curvature * x))
            settled |= np.abs(following - x) <= 4e-16 * np.abs(x)
            if settled.all():
                break
            before, x = x, np.where(settled, x, following)
        return x

    def _check_convex(self) -> None:
        grid = _from_line(np.linspace(-30.0, 30.0, 401), self.domain)
        values = OnGrid(self.function, grid, "function").values
        usable = np.isfinite(values)
        if usable[180:221].sum() < 41:
            place = 180 + int(np.argmin(usable[180:221]))
            raise ValueError(
                f"the function phi is {values[place]} at {grid[place]:.4g}, inside the domain {self.domain}; pass the "
                "ends lower and upper between which it is finite."
            )
        curvature = self._curvature(grid[usable])
        # far out the curvature may underflow or drown in rounding; negative beyond that it never is
        size = np.abs(values[usable]) / np.maximum(grid[usable] ** 2, 1e-300)
        bad = (curvature < -1e-12 * (1.0 + size)) | ((curvature <= 0) & (np.abs(grid[usable]) < 1.0))
        if bad.any():
            place = int(np.argmax(bad))
            raise ValueError(
                f"the function phi has curvature {curvature[place]:.4g} at {grid[usable][place]:.4g}; a divergence "
                f"needs a strictly convex function on {self.domain}."
            )

    def _check_conjugate(self) -> None:
        if self.conjugate_function is None:
            return
        x = _from_line(np.linspace(-3.0, 3.0, 61), self.domain)
        theta = self._slope(x)
        found = OnGrid(self.conjugate_function, theta, "conjugate_function").values
        expected = theta * x - self._phi(x)
        off = ~(np.abs(found - expected) <= 1e-9 * (1.0 + np.abs(theta * x) + np.abs(expected)))
        if off.any():
            place = int(np.argmax(off))
            raise ValueError(
                f"conjugate_function is {found[place]:.8g} at {theta[place]:.4g}, the conjugate of the function phi is "
                f"{expected[place]:.8g} there; pass sup over x of theta x - phi(x)."
            )

    def _limit(self, side: int) -> float:
        """The limit of the slope at one end: infinite when it still moves where the end cannot be told from x."""
        end, sign = ((self.lower, 1.0), (self.upper, -1.0))[side]
        if math.isfinite(end):
            # nearer than the spacing of floating-point numbers at the end is the end itself
            steps = [sign * step * max(1.0, abs(end)) for step in _NEAR]
            near = [end + step for step in steps if end + step != end]
        else:
            near = [-sign * step for step in _FAR]
        with np.errstate(all="ignore"):
            slopes = self._slope(np.array([*near, *_from_line(np.array([-sign * 3.0]), self.domain)]))
        if np.isinf(slopes[0]):
            return -sign * math.inf
        slopes = slopes[np.isfinite(slopes)]
        moved = abs(slopes[0] - slopes[1]) > 1e-6 * (1.0 + abs(slopes[1]))
        return -sign * math.inf if moved else float(slopes[0])


@lru_cache(maxsize=32)
def _compiled(function: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, Any]]:
    """First and second derivative of an elementwise function."""
    import jax
    import jax.numpy as jnp

    def slope(t: Any) -> Any:
        return jax.grad(lambda u: jnp.sum(jnp.broadcast_to(function(u), u.shape)))(t)

    return jit(lambda x: jax.jvp(slope, (x,), (jnp.ones_like(x),)), small=False)


def _derivatives(function: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    import jax

    if _library(x) is not np:
        return _compiled(function)(x)
    # one compiled function serves many lengths: pad to a power of two
    x = np.asarray(x, dtype=np.float64)
    length = 1 << max(x.size - 1, 1).bit_length()
    padded = np.full(length, x.flat[0])
    padded[: x.size] = x.ravel()
    with jax.enable_x64(True):
        both = _compiled(function)(padded)
    slope, curvature = (np.asarray(values)[: x.size].reshape(x.shape) for values in both)
    return slope, curvature


def _squeeze(x: Array, lower: float, upper: float) -> Array:
    """Move what lies on an end of the domain, or at infinity, a little inside."""
    x = np.clip(x, -1e30, 1e30)
    low = lower + max(1e-30, 1e-15 * abs(lower)) if math.isfinite(lower) else -math.inf
    high = upper - max(1e-30, 1e-15 * abs(upper)) if math.isfinite(upper) else math.inf
    return np.clip(x, low, high)


def _from_line(t: Array, domain: Interval) -> Array:
    """Map the real line onto the open interval, increasing, with exponential tails."""
    low, high = math.isfinite(domain.lower), math.isfinite(domain.upper)
    if low and high:
        width = domain.upper - domain.lower
        share = np.exp(-np.logaddexp(0.0, -np.abs(t)))  # at least a half
        return np.where(t < 0, domain.lower + width * _tail(t), domain.upper - width * (1.0 - share))
    if low:
        return domain.lower + np.exp(t)
    return domain.upper - np.exp(-t) if high else np.sinh(t)


def _moved(x: Array, step: Array, domain: Interval) -> Array:
    """Move by a step; beside one end by that of the logarithm of the distance, in which slopes are nearly linear."""
    low, high = math.isfinite(domain.lower), math.isfinite(domain.upper)
    if low == high:
        return x + step
    if low:
        return domain.lower + (x - domain.lower) * np.exp(step / (x - domain.lower))
    return domain.upper - (domain.upper - x) * np.exp(-step / (domain.upper - x))


def _tail(t: Array) -> Array:
    return np.exp(-np.logaddexp(0.0, -t))


def _to_line(x: Array, domain: Interval) -> Array:
    """Undo the map."""
    low, high = math.isfinite(domain.lower), math.isfinite(domain.upper)
    with np.errstate(divide="ignore"):
        if low and high:
            return np.clip(np.log(x - domain.lower) - np.log(domain.upper - x), -690.0, 690.0)
        if low:
            return np.clip(np.log(x - domain.lower), -690.0, 690.0)
        return np.clip(-np.log(domain.upper - x), -690.0, 690.0) if high else np.arcsinh(x)
