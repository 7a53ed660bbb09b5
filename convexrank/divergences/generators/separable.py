r"""The separable divergences of Table 3.1 and two more, each declared by functions of one number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank import atoms
from convexrank.data import check_real, keep_checked
from convexrank.divergences.base import Divergence, _library, relative_entropy
from convexrank.divergences.domains import Interval

if TYPE_CHECKING:
    from convexrank.proof.generators import Generator

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
        from convexrank.proof.generators import squared

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
        from convexrank.proof.generators import entropy

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
        from convexrank.proof.generators import bit_entropy

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
        from convexrank.proof.generators import itakura_saito

        return itakura_saito()
