"""The separable divergences of Table 3.1 and two more, Kullback–Leibler on the simplex, and the names of all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank import atoms
from convexrank.data import check_choice, check_hashable, check_real, keep_checked
from convexrank.divergences.base import Divergence, Interval, _library, relative_entropy, softmax

if TYPE_CHECKING:
    from convexrank.proof.orders import Generator

# A distribution that came out of a division by its sum adds up to 1 within this.
_SUM = 1e-9
# Newton's method from below on a convex function; its steps are exact to rounding long before.
_STEPS = 60


@dataclass(frozen=True)
class KL(Divergence):
    r"""Kullback–Leibler divergence on the simplex, from :math:`\phi(x) = \sum_i w_i\,x_i\log x_i`.

    .. math:: D(x\|y) = \sum_i w_i\Bigl[x_i\log\frac{x_i}{y_i} - x_i + y_i\Bigr], \qquad
              \nabla\phi^*(\theta) = \frac{e^{\theta}}{\sum_j e^{\theta_j}} \quad\text{for equal weights 1}.

    Natural logarithms; a sum over entries. The domain has no interior, so the gradient is the relative one, (2.7):
    its entries add up to 0, and :math:`\nabla\phi^*` does not change when a constant is added to θ. Source: Table
    3.1, second row, and (2.6) to (2.8).

    With unequal weights the formula and the link of the table are wrong: without :math:`w_i(y_i - x_i)` the sum can be
    negative (w = (2, 1), x = (.4, .6), y = (.5, .5)), and no softmax inverts the gradient. Here the divergence is that
    of the definition, and the link is :math:`x_i = e^{(\theta_i-\lambda)/w_i - 1}` with λ found by Newton's method.

    Parameters
    ----------
    weights : array of float, shape (n,), optional
        As for :class:`Divergence`.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.KL().inverse_gradient([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """

    @property
    def domain(self) -> Interval:
        """Entries from 0 to 1; their sum is 1."""
        return Interval(0.0, 1.0, closed=(True, True))

    @property
    def total(self) -> float:
        """The sum of the entries, 1."""
        return 1.0

    def gradient(self, x: Any) -> Any:
        r"""Evaluate the relative gradient (2.7), whose entries add up to 0, inside the simplex."""
        slopes = super().gradient(x)
        return slopes - slopes.mean()

    def conjugate(self, theta: Any) -> Any:
        r"""Evaluate :math:`\phi^*`: log-sum-exp for equal weights 1."""
        theta = self._read_dual(theta, "theta")
        if self.weights is None:
            return atoms.log_sum_exp(theta)
        if atoms.is_cvxpy(theta):
            import cvxpy as cp

            weights, level = np.asarray(self.weights), cp.Variable()
            return level + weights @ cp.exp(cp.multiply(1.0 / weights, theta - level) - 1.0)
        level = self._level(theta)
        value = level + (self._spread(theta) * self._masses(theta, level)).sum()
        return float(value) if _library(theta) is np else value

    def points(self, theta: Any) -> Any:
        """Return the distribution whose relative gradient is θ less its mean."""
        if self.weights is None:
            return softmax(theta)
        return self._masses(theta, self._level(theta))

    def _masses(self, theta: Any, level: Any) -> Any:
        return self._point((theta - level) / self._spread(theta))

    def _level(self, theta: Any) -> Any:
        """The λ for which the masses add up to 1."""
        library, weights = _library(theta), self._spread(theta)

        def step(_: Any, level: Any) -> Any:
            # the logarithm of the sum is convex and falls in λ: from where it is positive, Newton never overshoots
            exponents = (theta - level) / weights - 1.0
            top = exponents.max()
            masses = library.exp(exponents - top)
            return level + (top + library.log(masses.sum())) * masses.sum() / (masses / weights).sum()

        level = (theta - weights).max()
        if library is np:
            for _ in range(_STEPS):
                previous, level = level, step(None, level)
                if level <= previous:
                    break
            return level
        import jax

        return jax.lax.fori_loop(0, _STEPS, step, level)

    def _read(self, x: Any, name: str, domain: Interval, interior: bool = False) -> Any:
        # a single item has all of the mass
        alone = interior and not atoms.is_cvxpy(x) and np.size(x) == 1
        x = super()._read(x, name, self.domain if alone else domain, interior)
        if not atoms.is_cvxpy(x) and _library(x) is np and abs(x.sum() - 1.0) > _SUM:
            raise ValueError(
                f"{name} adds up to {x.sum():.9g}, expected 1: the domain of KL is the simplex. Divide by the sum, or "
                "use GeneralizedI."
            )
        return x

    def _phi(self, x: Any) -> Any:
        return atoms.x_log_x(x)

    def _between(self, x: Any, y: Any) -> Any:
        return relative_entropy(x, y)

    def _slope(self, x: Any) -> Any:
        return _library(x).log(x) + 1.0

    def _point(self, theta: Any) -> Any:
        return _library(theta).exp(theta - 1.0)

    def _curvature(self, x: Any) -> Any:
        return 1.0 / x

    def in_balls(self) -> Generator:
        """Return φ in ball arithmetic, for proofs."""
        from convexrank.proof.orders import distribution_entropy

        return distribution_entropy()


Array = np.ndarray


@dataclass(frozen=True)
class SquaredEuclidean(Divergence):
    r"""Squared Euclidean distance, :math:`\phi(x) = \tfrac12\sum_i w_i x_i^2`; with weights a Mahalanobis distance.

    .. math:: D(x\|y) = \tfrac12\sum_i w_i (x_i - y_i)^2, \qquad \nabla\phi^*(\theta) = \theta / w .

    The domain is the whole space, on both sides. Sum over entries, not a mean. The only divergence, up to a factor,
    whose Fenchel–Young gap is jointly convex (Theorem 1). Source: Table 3.1, first row.

    Parameters
    ----------
    weights : array of float, shape (n,), optional
        As for :class:`Divergence`.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.SquaredEuclidean().divergence([1.0, 3.0], [0.0, 1.0])
    2.5
    """

    def _phi(self, x: Any) -> Any:
        return 0.5 * atoms.square(x)

    def _conjugate(self, theta: Any) -> Any:
        return 0.5 * atoms.square(theta)

    def _between(self, x: Any, y: Any) -> Any:
        return 0.5 * atoms.square(x - y)

    def _slope(self, x: Any) -> Any:
        return x

    def _point(self, theta: Any) -> Any:
        return theta

    def _curvature(self, x: Any) -> Any:
        return _library(x).ones_like(x)

    def in_balls(self) -> Generator:
        """Return φ in ball arithmetic, for proofs."""
        from convexrank.proof.orders import squared

        return squared()


@dataclass(frozen=True)
class GeneralizedI(Divergence):
    r"""Generalized I-divergence, :math:`\varphi(x) = (x-a)\log(x-a) - (x-a)` for :math:`x \ge a`.

    .. math:: D(x\|y) = \sum_i w_i\Bigl[(x_i-a)\log\frac{x_i-a}{y_i-a} - x_i + y_i\Bigr], \qquad
              \nabla\phi^*(\theta)_i = a + e^{\theta_i/w_i} .

    Sum over entries, not a mean. With a = 0 this is the unnormalised Kullback–Leibler divergence; with a = 1 the
    shifted form of the dissertation, whose targets stay away from 0. Source: Table 3.1, third row. The table combines
    the divergence of the shifted function with the function and the link without the shift; here all three are shifted.

    Parameters
    ----------
    shift : float
        The lower end a of the domain.
    weights : array of float, shape (n,), optional
        As for :class:`Divergence`.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.GeneralizedI(shift=1.0).inverse_gradient([0.0]).tolist()
    [2.0]
    """

    # the weights are a field of the base class, and stand before
    shift: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        keep_checked(self, check_real, "shift")
        if not math.isfinite(self.shift):
            raise ValueError(f"shift is {self.shift}, expected a finite number.")

    @property
    def domain(self) -> Interval:
        """Entries of at least the shift."""
        return Interval(self.shift, closed=(True, False))

    def _phi(self, x: Any) -> Any:
        return atoms.x_log_x(x - self.shift) - (x - self.shift)

    def _conjugate(self, theta: Any) -> Any:
        return atoms.exp(theta) + self.shift * theta

    def _between(self, x: Any, y: Any) -> Any:
        return relative_entropy(x - self.shift, y - self.shift)

    def _slope(self, x: Any) -> Any:
        return _library(x).log(x - self.shift)

    def _point(self, theta: Any) -> Any:
        return self.shift + _library(theta).exp(theta)

    def _curvature(self, x: Any) -> Any:
        return 1.0 / (x - self.shift)

    def in_balls(self) -> Generator:
        """Return φ in ball arithmetic, for proofs."""
        from convexrank.proof.orders import entropy

        return entropy(self.shift)


@dataclass(frozen=True)
class BitEntropy(Divergence):
    r"""Logistic divergence, :math:`\varphi(x) = x\log x + (1-x)\log(1-x)` on [0, 1], the Fermi–Dirac entropy.

    .. math:: D(x\|y) = \sum_i w_i\Bigl[x_i\log\frac{x_i}{y_i} + (1-x_i)\log\frac{1-x_i}{1-y_i}\Bigr], \qquad
              \nabla\phi^*(\theta)_i = \frac{1}{1+e^{-\theta_i/w_i}} .

    Sum over entries, not a mean; natural logarithms. Its conjugate is softplus, so its generalised linear model is
    logistic regression.

    Parameters
    ----------
    weights : array of float, shape (n,), optional
        As for :class:`Divergence`.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.BitEntropy().inverse_gradient([0.0]).tolist()
    [0.5]
    """

    @property
    def domain(self) -> Interval:
        """Entries from 0 to 1."""
        return Interval(0.0, 1.0, closed=(True, True))

    def _phi(self, x: Any) -> Any:
        return atoms.x_log_x(x) + atoms.x_log_x(1.0 - x)

    def _conjugate(self, theta: Any) -> Any:
        return atoms.softplus(theta)

    def _between(self, x: Any, y: Any) -> Any:
        return relative_entropy(x, y) + relative_entropy(1.0 - x, 1.0 - y)

    def _slope(self, x: Any) -> Any:
        library = _library(x)
        return library.log(x) - library.log1p(-x)

    def _point(self, theta: Any) -> Any:
        library = _library(theta)
        # accurate in the lower tail too, where 1 + e^{-θ} would overflow
        return library.exp(-library.logaddexp(0.0, -theta))

    def _curvature(self, x: Any) -> Any:
        return 1.0 / x + 1.0 / (1.0 - x)

    def _curvature_range(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            ends = self._curvature(lower), self._curvature(upper)
        # least at 1/2, or at the end next to it
        return self._curvature(np.clip(0.5, lower, upper)), np.maximum(*ends)

    def in_balls(self) -> Generator:
        """Return φ in ball arithmetic, for proofs."""
        from convexrank.proof.orders import bit_entropy

        return bit_entropy()


@dataclass(frozen=True)
class ItakuraSaito(Divergence):
    r"""Itakura–Saito distance, :math:`\varphi(x) = -\log x` for :math:`x > 0`; it does not change with the scale.

    .. math:: D(x\|y) = \sum_i w_i\Bigl[\frac{x_i}{y_i} - \log\frac{x_i}{y_i} - 1\Bigr], \qquad
              \nabla\phi^*(\theta)_i = -w_i/\theta_i \quad (\theta_i < 0).

    Sum over entries, not a mean. Its slopes are negative, so natural parameters :math:`Xw` must be negative: Corollary
    1 does not cover it.

    Parameters
    ----------
    weights : array of float, shape (n,), optional
        As for :class:`Divergence`.

    Examples
    --------
    >>> from convexrank import divergences
    >>> itakura_saito = divergences.ItakuraSaito()
    >>> [round(itakura_saito.divergence([t], [2 * t]), 6) for t in (1.0, 10.0)]
    [0.193147, 0.193147]
    """

    @property
    def domain(self) -> Interval:
        """Entries greater than 0."""
        return Interval(0.0)

    @property
    def dual_domain(self) -> Interval:
        """Slopes less than 0."""
        return Interval(upper=0.0)

    def _phi(self, x: Any) -> Any:
        return -atoms.log(x)

    def _conjugate(self, theta: Any) -> Any:
        return -1.0 - atoms.log(-theta)

    def _between(self, x: Any, y: Any) -> Any:
        ratio = x / y
        return ratio - _library(ratio).log(ratio) - 1.0

    def _slope(self, x: Any) -> Any:
        return -1.0 / x

    def _point(self, theta: Any) -> Any:
        return -1.0 / theta

    def _curvature(self, x: Any) -> Any:
        return 1.0 / x**2

    def in_balls(self) -> Generator:
        """Return φ in ball arithmetic, for proofs."""
        from convexrank.proof.orders import itakura_saito

        return itakura_saito()


NAMES: dict[str, Callable[[], Divergence]] = {
    "bit_entropy": BitEntropy,
    "generalized_i": GeneralizedI,
    "itakura_saito": ItakuraSaito,
    "kl": KL,
    "shifted_generalized_i": partial(GeneralizedI, shift=1.0),
    "squared": SquaredEuclidean,
}


def resolve(divergence: Divergence | str) -> Divergence:
    """Accept a divergence object or its name.

    Parameters
    ----------
    divergence : Divergence or str
        An object, or one of: bit_entropy, generalized_i, itakura_saito, kl, shifted_generalized_i, squared.

    Returns
    -------
    Divergence
        The object.

    Raises
    ------
    ValueError, TypeError
        For an unknown name, a class in place of an object, or anything else.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.resolve("squared")
    SquaredEuclidean(weights=None)
    """
    if isinstance(divergence, str):
        return check_choice(divergence, dict(NAMES), "divergence")()
    if not isinstance(divergence, Divergence):
        raise TypeError(
            f"divergence is {divergence!r}, expected a name ({', '.join(sorted(NAMES))}) or an object such as "
            "divergences.SquaredEuclidean()."
        )
    check_hashable(divergence, "divergence")
    return divergence


def name_of(divergence: Any, allowed: Iterable[str]) -> str:
    """Return the name of a divergence where only some will do, and they are told apart by name.

    Parameters
    ----------
    divergence : Divergence or str
        A name, or an object of the named kind.
    allowed : iterable of str
        The names that will do.

    Raises
    ------
    ValueError
        For anything else; the message lists the names.

    Examples
    --------
    >>> from convexrank import divergences
    >>> name_of(divergences.GeneralizedI(), ["squared", "generalized_i"])
    'generalized_i'
    """
    names = {name: name for name in allowed}
    if isinstance(divergence, Divergence):
        divergence = next((name for name in names if divergence == NAMES[name]()), divergence)
    return check_choice(divergence, names, "divergence")
