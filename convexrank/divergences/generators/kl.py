"""The Kullback–Leibler divergence on the probability simplex, weighted or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank import atoms
from convexrank.divergences.base import Divergence, _library, relative_entropy, softmax
from convexrank.divergences.domains import Interval

if TYPE_CHECKING:
    from convexrank.proof.generators import Generator

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
        from convexrank.proof.generators import distribution_entropy

        return distribution_entropy()
