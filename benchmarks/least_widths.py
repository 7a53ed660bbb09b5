r"""How narrow an interval can be on average that holds the truth for every law at its level: a floor.

Let C be any such interval for a measure θ, of level 1 − α, with ends of any kind. Its mean width under a law P is the
integral over t of P(t ∈ C) (Pratt, 1961). Take for each t a law P_t with θ(P_t) = t. There t is missed with
probability at most α, so that "C misses t" is a test of P_t at level α, and by Neyman and Pearson's lemma its power
under P is at most that of the likelihood ratio. Hence

.. math:: E_P |C| \ge \int 1 - \beta(t)\,dt , \qquad \beta(t) = P(\Lambda_t \le c_t), \qquad
          E_P[e^{\Lambda_t} 1\{\Lambda_t \le c_t\}] = \alpha

with the log-likelihood ratio Λ_t of P_t against P on the whole sample. Every choice of P_t gives a floor. Those that
are hardest to tell from P maximise θ less a multiple of the divergence from P, in both classes: densities
n/(c − τ ψ), with the influence ψ of a row at P_t itself. Far out they put a mass ε on rows like which none was seen:
Le Cam's argument, that n rows contain none of these with probability (1 − ε)ⁿ, is in it. For a mean of normal numbers
the floor is .85 of the usual width, as it asks for no symmetry.

The laws are those of `populations`, cut to cells of the false positive rate within which densities are the old ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["least_width"]

# Samples of P, rounds in which an alternative is found; the first is so many deviations' multiple of the divergence
# away, the probability that it is kept falls by at most so much from one to the next, and to so little at the last.
_SAMPLES, _ROUNDS, _FIRST, _DROP, _LEAST = 3000, 30, 20.0, 0.03, 0.01

Value = Callable[[Any, Any], tuple[float, Any, Any]]


def least_width(
    metric: str,
    a: float,
    positives: int,
    negatives: int,
    alpha: float = 0.05,
    seed: int = 0,
    **options: float,
) -> float:
    """Return the floor for the AUC, the push risk or the partial AUC of samples from `populations`."""
    import numpy as np

    edges = np.unique(np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 160), np.linspace(0.0, 1.0, 81)]))
    laws = np.diff(edges), np.diff(edges**a)
    sizes, value = (negatives, positives), _VALUES[metric](**options)
    rng = np.random.default_rng(seed)
    rows = [
        np.searchsorted(edges, rng.random((_SAMPLES, n)) ** power, side="right") - 1
        for n, power in zip(sizes, (1.0, 1.0 / a), strict=True)
    ]
    start, *slopes = value(*laws)
    deviation = math.sqrt(
        sum(
            float(law @ slope**2 - (law @ slope) ** 2) / n
            for law, slope, n in zip(laws, slopes, sizes, strict=True)
        )
    )
    total = 0.0
    for sign in (1.0, -1.0):
        reached, others, kept, multiple, factor = start, laws, 1.0 - alpha, _FIRST * deviation, 0.7
        while kept > _LEAST:
            tried = _hardest(value, sign, laws, others, sizes, factor * multiple)
            ratios = sum(
                np.log(other / law)[row].sum(axis=1)
                for other, law, row in zip(tried, laws, rows, strict=True)
            )
            here, left = float(value(*tried)[0]), 1.0 - _power(np.sort(ratios), alpha)
            if kept - left > _DROP and factor < 0.9999:  # too far: the floor is a sum of steps
                factor = math.sqrt(factor)
                continue
            total += max(sign * (here - reached), 0.0) * min(left, kept)
            reached, kept, others, multiple = here, min(left, kept), tried, factor * multiple
            factor = factor**1.5
    return total


def _hardest(
    value: Value, sign: float, laws: Any, others: Any, sizes: Any, multiple: float
) -> tuple[Any, Any]:
    """Return laws of both classes that maximise sign · θ less a multiple of the divergence of the sample's law."""
    for _ in range(_ROUNDS):
        slopes = value(*others)[1:]
        others = tuple(
            0.5 * other + 0.5 * _tilted(law, sign * slope, n * multiple)
            for law, other, slope, n in zip(laws, others, slopes, sizes, strict=True)
        )
    return others


def _tilted(law: Any, slope: Any, weight: float) -> Any:
    """Return the law that maximises its mean of the slope plus weight · the mean of its logarithm under the law."""
    low, high = float(slope.max()), float(slope.max()) + weight
    for _ in range(60):
        middle = 0.5 * (low + high)
        if middle > slope.max() and float((weight * law / (middle - slope)).sum()) <= 1.0:
            high = middle
        else:
            low = middle
    tilted = weight * law / (high - slope)
    return tilted / tilted.sum()


def _power(ratios: Any, alpha: float) -> float:
    """Return the largest power of a test at level alpha, from sorted log-likelihood ratios of samples of P."""
    import numpy as np

    levels = np.exp(ratios).cumsum() / len(ratios)  # under P_t
    return float(np.searchsorted(levels, alpha, side="right")) / len(ratios)


# --- values, and their slopes in the masses of the cells of negatives and positives -----------------------------------


def _push_risk(p: float) -> Value:
    def value(negatives: Any, positives: Any) -> tuple[float, Any, Any]:
        heights = 1.0 - positives.cumsum() + positives / 2
        mean = float(negatives @ heights**p)
        own = negatives * heights ** (p - 1.0)
        # slopes of the p-th power, over p: up to a factor they are the risk's
        return mean ** (1.0 / p), heights**p / p, own.cumsum() - own / 2

    return value


def _auc() -> Value:
    def value(negatives: Any, positives: Any) -> tuple[float, Any, Any]:
        above = positives.cumsum() - positives / 2
        return float(negatives @ above), above, 1.0 - negatives.cumsum() + negatives / 2

    return value


def _partial_auc(max_fpr: float) -> Value:
    import numpy as np

    def value(negatives: Any, positives: Any) -> tuple[float, Any, Any]:
        gains = np.maximum(max_fpr - (negatives.cumsum() - negatives / 2), 0.0)
        inside = positives * (gains > 0.0)
        below = inside[::-1].cumsum()[::-1] - inside / 2  # a negative moves the positives beyond it
        return float(positives @ gains), -below, gains

    return value


_VALUES: dict[str, Callable[..., Value]] = {"auc": _auc, "push_risk": _push_risk, "partial_auc": _partial_auc}
