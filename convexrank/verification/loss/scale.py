"""Scale and shift between a loss and a formulation: fitted on good instances, named, and held fixed afterwards."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from convexrank.verification.loss.caller import Caller
from convexrank.verification.loss.formulation import Formulation
from convexrank.verification.loss.instance import Design, Instance, draw

Array = np.ndarray

# Good instances, and the vectors of scores of each: two fix scale and shift, the third must agree.
_GOOD, _VECTORS = 16, 3
# A scale that so few instances share is an accident.
_FEWEST = 4
# The share of instances that a scale with no count, one count, or two has to fit.
_SHARES = (0.0, 0.35, 0.5)
# Relative agreement asked of single precision.
SINGLE = 2e-4


@dataclass(frozen=True)
class Scale:
    """The expected form of a loss: scale · a / b · formulation + shift, with counts a and b of the instance.

    Parameters
    ----------
    factor : float
        The number in front.
    times, over : str
        Names of counts; empty for 1.
    shift : float
        The shift.
    share : float
        The share of good instances that the scale fits.
    """

    factor: float = 1.0
    times: str = ""
    over: str = ""
    shift: float = 0.0
    share: float = 0.0

    def at(self, instance: Instance) -> float:
        """Return the factor on an instance; NaN where it divides by 0."""
        counts = instance.counts() if self.times or self.over else {}
        above, below = counts.get(self.times, 1.0), counts.get(self.over, 1.0)
        return self.factor * above / below if below else math.nan

    def expected(self, instance: Instance, risk: float) -> float:
        """Return the value that the loss should have."""
        return self.shift if risk == 0.0 else self.at(instance) * risk + self.shift

    @property
    def formula(self) -> str:
        """The factor in words."""
        text = f"{self.factor:.6g}"
        text += f" × {self.times}" if self.times else ""
        return text + (f" / {self.over}" if self.over else "")


def tolerance_of(tol: float, single: bool) -> float:
    """Return the relative agreement asked for."""
    return max(tol, SINGLE) if single else tol


def close(a: float, b: float, tol: float, unit: float = 1.0) -> bool:
    """Return whether two values agree, relative to the larger of them and of a unit."""
    return abs(a - b) <= tol * max(abs(unit), abs(a), abs(b))


def good_instances(
    formulation: Formulation, design: Design, caller: Caller, seed: int
) -> list[list[Instance]]:
    """Return plain instances of different sizes, each with several vectors of scores."""
    rng = np.random.default_rng([seed, 1])
    found: list[list[Instance]] = []
    for _ in range(4 * _GOOD):
        drawn = draw(rng, design, "plain", caller.takes_queries)
        vectors = 0.8 * rng.normal(size=(_VECTORS, len(drawn)))
        vectors[0] = 0.0
        found.append([drawn.changed(scores=scores) for scores in vectors])
        if len(found) == _GOOD:
            break
    return found


@dataclass(frozen=True)
class Line:
    """Line of a loss against the formulation at fixed labels: loss = slope · risk + shift."""

    instance: Instance
    slope: float
    shift: float


def lines_of(formulation: Formulation, caller: Caller, goods: list[list[Instance]], tol: float) -> list[Line]:
    """Return the line of each good instance on which there is one."""
    found = []
    for vectors in goods:
        oracle = formulation.oracle(vectors[0])
        answers = [caller(item) for item in vectors]
        if oracle is None or any(answer.wrong for answer in answers):
            continue
        risks, values = (
            np.array([oracle(item.scores)[0] for item in vectors]),
            np.array([a.value for a in answers]),
        )
        one, other = int(np.argmin(risks)), int(np.argmax(risks))
        if not np.isfinite(risks).all() or risks[other] - risks[one] < 1e-3 * max(1.0, abs(risks[other])):
            continue
        near = tolerance_of(tol, any(answer.single for answer in answers))
        slope = (values[other] - values[one]) / (risks[other] - risks[one])
        shift = values[one] - slope * risks[one]
        # differences of values magnify what is left of their digits
        unit = 10.0 * max(1.0, float(np.abs(values).max()))
        if all(close(v, slope * r + shift, near, unit) for v, r in zip(values, risks, strict=True)):
            found.append(Line(vectors[0], float(slope), float(shift)))
    return found


def fit_scale(
    lines: list[Line], total: int, tol: float, factor: float | None = None, shift: float | None = None
) -> Scale | None:
    """Return the simplest scale and shift that most lines share; None where no few do.

    Parameters
    ----------
    lines : list of Line
        How the loss depends on the formulation on good instances.
    total : int
        Number of good instances.
    tol : float
        Relative agreement.
    factor, shift : float or None
        What the caller gives; None is fitted.
    """
    if not lines:
        return None
    near = 100.0 * tol  # slopes are quotients of differences
    counts = [line.instance.counts() for line in lines]
    slopes, shifts = np.array([line.slope for line in lines]), np.array([line.shift for line in lines])
    names = ["", *counts[0]]
    sizes = np.array([[c.get(name, 1.0) for name in names] for c in counts])
    best: Scale | None = None
    order = sorted(
        itertools.product(range(len(names)), repeat=2), key=lambda pair: (sum(map(bool, pair)), sum(pair))
    )
    for above, below in order:
        if above == below and above:
            continue
        with np.errstate(all="ignore"):
            factors = slopes * sizes[:, below] / sizes[:, above]
        held = factors[np.isfinite(factors) & (factors != 0.0)] if factor is None else np.array([factor])
        if not len(held):
            continue
        agreeing = np.abs(factors - held[:, None]) <= near * np.abs(held[:, None])
        agrees = agreeing[int(np.argmax(agreeing.sum(axis=1)))]
        share = float(agrees.sum() / total)
        # counts fit a few instances by accident
        if share <= (best.share if best else 0.0) or share < _SHARES[bool(above) + bool(below)]:
            continue
        exact = float(np.median(factors[agrees])) if factor is None else factor
        moved = _common(shifts[agrees], near) if shift is None else shift
        best = Scale(_rounded(exact), names[above], names[below], moved, share)
        if share == 1.0:
            break
    return best if best is not None and best.share * total >= min(_FEWEST, total) else None


def _common(shifts: Array, near: float) -> float:
    """The shift that at least half have in common, else 0."""
    middle = float(np.median(shifts))
    steady = np.abs(shifts - middle) <= near * max(1.0, abs(middle))
    return middle if abs(middle) > near and 2 * steady.sum() >= len(shifts) else 0.0


def _rounded(value: float) -> float:
    """A factor such as 0.5 without the rounding of its fit."""
    near = float(f"{value:.4g}")
    return near if abs(near - value) <= 1e-5 * abs(value) else value
