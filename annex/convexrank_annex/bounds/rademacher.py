r"""Rademacher averages of ranking: the largest agreement of the rules of a class with random signs on pairs of rows.

The U-statistic is compared with a mean over :math:`m = \lfloor n/2\rfloor` pairs of rows, each row in one pair, and

.. math:: R_n(\mathcal F) = \mathrm E\,\sup_{f\in\mathcal F} \frac1m \sum_{i=1}^{m} σ_i f(X_i, X_{m+i}) .

For odd n one row is left over and the number of pairs is m; the 2/n of the paper's section 7 is then too small. The
rows are paired in a random order, from ``seed``, because rows in the order of their labels would not be random pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.bounds.push_sample import log_binomials
from convexrank.data import (
    check_integer,
    check_nonnegative,
    check_positive,
    check_probability,
)

__all__ = ["RademacherAverage", "drawn", "expected_average", "pairs", "rademacher_vc"]

Array = np.ndarray

# Signs in memory at a time.
_BLOCK = 1 << 22
MOST_DRAWS = 1_000_000


@dataclass(frozen=True)
class RademacherAverage:
    """A Rademacher average given the sample: an upper bound in closed form, or a mean over random signs.

    Parameters
    ----------
    value : float
        The average, or the upper bound on it.
    standard_error : float
        Standard error of the mean over draws; 0 for a closed form.
    pairs : int
        Number of pairs m.
    draws : int
        Number of draws of signs; 0 for a closed form.
    source : str
        Name of the computed average or bound.
    of_sample : bool
        Whether it is of one sample; False for a bound that holds for every sample, and so for the expectation.

    Examples
    --------
    >>> from convexrank import bounds
    >>> average = bounds.rademacher_linear([[0.0], [3.0], [1.0], [1.0]], 1.0)
    >>> average.pairs, average.upper(0.05, reach=3.0) > average.value
    (2, True)
    """

    value: float
    standard_error: float
    pairs: int
    draws: int
    source: str
    of_sample: bool = True

    def upper(self, delta: float, reach: float = 1.0) -> float:
        r"""Bound the expectation of the average, over samples and signs, from the average of this sample.

        With probability at least 1 − δ, by bounded differences: another pair, or another sign, changes the supremum by
        at most 2·reach/m, where no :math:`|f(x,x')|` of the population is above ``reach`` (1 for the losses of rules).
        """
        failure, largest = check_probability(delta, "delta"), check_positive(reach, "reach")
        if not self.of_sample:
            return self.value
        parts = 2.0 if self.draws else 1.0
        spread = 2.0 * largest * math.sqrt(math.log(parts / failure) / (2.0 * self.pairs))
        return self.value + spread * (1.0 + (1.0 / math.sqrt(self.draws) if self.draws else 0.0))


def rademacher_vc(n: int, dimension: int) -> RademacherAverage:
    r"""Bound the Rademacher average of the losses of rules with a finite VC dimension, with all constants.

    By Massart's lemma and Sauer's: :math:`\sqrt{2\ln\bigl(2\sum_{j\le V}\binom mj\bigr)/m}`, with
    :math:`m=\lfloor n/2\rfloor`. Linear rules, the sign of ⟨w, x − x′⟩, have dimension d.

    Parameters
    ----------
    n : int
        Number of rows, at least 2.
    dimension : int
        The VC dimension V, at least 1.

    Returns
    -------
    RademacherAverage
        The bound; it holds for every sample.

    Raises
    ------
    ValueError, TypeError
        When n is below 2 or the dimension below 1.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), after Corollary 3, where the constant is not given.

    Examples
    --------
    >>> from convexrank import bounds
    >>> round(bounds.rademacher_vc(19_020, 10).value, 3)
    0.127
    """
    m, most = check_integer(n, "n", 2) // 2, check_integer(dimension, "dimension", 1)
    value = math.sqrt(2.0 * (math.log(2.0) + log_binomials(float(m), most)) / m)
    return RademacherAverage(value, 0.0, m, 0, "VC class, Massart's lemma", of_sample=False)


def pairs(n: int, seed: Any, name: str) -> tuple[np.random.Generator, Array, Array]:
    """Return a random pairing: the rows of either side."""
    if n < 2:
        raise ValueError(f"{name} has {n} row, expected at least two: the average is over pairs.")
    rng = np.random.default_rng(check_integer(seed, "seed", 0))
    order, m = rng.permutation(n), n // 2
    return rng, order[:m], order[m : 2 * m]


def drawn(
    suprema: Callable[[Array], Array], m: int, draws: Any, rng: np.random.Generator, source: str
) -> RademacherAverage:
    """Return the mean of suprema over random signs, drawn in blocks."""
    count = check_integer(draws, "draws", 1)
    if count > MOST_DRAWS:
        raise ValueError(f"draws is {count}, expected at most {MOST_DRAWS}: the error is small long before.")
    values = np.concatenate([suprema(signs) for signs in _signs(count, m, rng)])
    error = float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return RademacherAverage(float(values.mean()), error, m, count, source)


def _signs(count: int, m: int, rng: np.random.Generator) -> Iterator[Array]:
    each = max(1, _BLOCK // m)
    for start in range(0, count, each):
        yield rng.choice([-1.0, 1.0], size=(min(each, count - start), m))


def expected_average(complexity: Any, failure: float, reach: float = 1.0) -> tuple[float, float]:
    """Return a bound on the expected average, and the probability of failure that is left for the rest.

    An average of one sample takes half of it for its deviation from the expectation; a number is taken as expected.
    """
    if not isinstance(complexity, RademacherAverage):
        return check_nonnegative(complexity, "complexity"), failure
    if not complexity.of_sample:
        return complexity.value, failure
    return complexity.upper(failure / 2.0, reach), failure / 2.0
