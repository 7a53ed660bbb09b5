"""The formulation that a loss is compared with: its risk as a function of scores, with a scale and a shift between."""

from __future__ import annotations

import dataclasses
import itertools
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from convexrank.core.problem import Problem
from convexrank.data import as_groups, check_real_array, check_vector, shown
from convexrank.data.display import short_text
from convexrank.problems._formulation import Formulation as Declared
from convexrank.problems._linear_scores import LinearScores
from convexrank.problems.bipartite._base import Bipartite
from convexrank.problems.pairs.crucial_pairs import CrucialPairs
from convexrank.solvers.row_faces import ScoreRisk
from convexrank.verification.loss.instance import Caller, Design, Instance, draw

Array = np.ndarray

Oracle = Callable[[Array], tuple[float, Array]]

# Parameters that come from an instance, and parameters that do not affect a risk.
_DATA = {"X", "y", "qid", "pairs", "sample_weight"}
_PENALTIES = {"l2", "l1", "dtype", "l1_ball", "l2_ball"}
# Up to this number of different labels, instances draw from these labels.
_MOST_LEVELS = 8
# Steps of difference quotients of the definition.
STEP = 1e-5


@dataclasses.dataclass(frozen=True)
class Formulation:
    """A problem class and its parameters, as a function of an instance.

    Parameters
    ----------
    kind : type
        The class.
    parameters : dict
        The arguments beside the data.
    """

    kind: type
    parameters: dict[str, Any]

    @property
    def fields(self) -> set[str]:
        """Names of all arguments."""
        return {item.name for item in dataclasses.fields(self.kind)}

    @property
    def by_queries(self) -> bool:
        """Whether the risk is a sum over queries, or over pairs that queries may keep apart."""
        return "qid" in self.fields or issubclass(self.kind, CrucialPairs)

    @property
    def weighted(self) -> bool:
        """Whether rows may have weights."""
        return "sample_weight" in self.fields

    @cached_property
    def labels(self) -> str:
        """The kind of labels that are drawn."""
        if issubclass(self.kind, Bipartite) or self._refuses_grades:
            return "binary"
        return "graded" if self.by_queries else "real"

    @property
    def _refuses_grades(self) -> bool:
        """Whether a declared risk is one of positives and negatives: it takes two different labels, not three."""
        if not issubclass(self.kind, Declared):
            return False
        try:
            self.kind(np.zeros((3, 1)), np.arange(3.0), **self.parameters)
        except ValueError:
            return True
        return False

    def __str__(self) -> str:
        parts = [f"{name}={short_text(value)}" for name, value in self.parameters.items()]
        return f"{self.kind.__name__}({', '.join(parts)})"

    def problem(self, instance: Instance) -> Any:
        """Return the problem whose scores at w = 1 are those of the instance; None where no pair asks for an order."""
        data: dict[str, Any] = {"X": instance.scores[:, None]}
        if issubclass(self.kind, CrucialPairs):
            pairs = pairs_of(instance)
            if not len(pairs):
                return None
            data["pairs"] = pairs
        else:
            data["y"] = instance.y
        if "qid" in self.fields:
            data["qid"] = instance.qid
        if self.weighted and instance.weights is not None:
            data["sample_weight"] = instance.weights
        if not instance.ordered:
            return None
        return self.kind(**data, **self.parameters)

    def oracle(self, instance: Instance) -> Oracle | None:
        """Return the risk and a subgradient as a function of scores; None where the formulation is not defined.

        Pairs and queries without an order contribute nothing, so that the risk of nothing else is 0.
        """
        try:
            found = self.problem(instance)
        except ValueError:  # weights that leave no class, and the like
            return None
        if found is None:
            return None if self.labels == "binary" else lambda scores: (0.0, np.zeros(len(scores)))

        def risk(scores: Array) -> tuple[float, Array]:
            with np.errstate(all="ignore"):
                value, slope = found.face(ScoreRisk).reference(scores)
            return float(value), np.asarray(slope, dtype=np.float64)

        return risk

    def call(self, instance: Instance) -> str:
        """Return lines of Python that reproduce the value."""
        if self.problem(instance) is None:
            return "0: no pair of rows has an order"
        if issubclass(self.kind, CrucialPairs):
            data = f"scores[:, None], {pairs_of(instance).tolist()}"
        else:
            data = "scores[:, None], y"
            data += ", qid=qid" if instance.qid is not None and "qid" in self.fields else ""
            data += ", sample_weight=sample_weight" if instance.weights is not None and self.weighted else ""
        given = "".join(f", {name}={_argument(value)}" for name, value in self.parameters.items())
        place = "cr.problems." if self.kind.__module__.startswith("convexrank.") else ""
        return f"{place}{self.kind.__name__}({data}{given}).objective([1.])"

    def neighbours(self) -> list[Formulation]:
        """The same formulation with one parameter of another choice: of a flag, a list of names, a loss."""
        found = []
        hints = typing.get_type_hints(self.kind)
        for item in dataclasses.fields(self.kind):
            if item.name in _DATA | _PENALTIES or not item.init:
                continue
            if hints[item.name] is bool:
                choices: tuple[Any, ...] = (True, False)
            elif typing.get_origin(hints[item.name]) is typing.Literal:
                choices = typing.get_args(hints[item.name])
            elif item.name in ("loss", "cost"):
                choices = ("hinge", "squared_hinge", "logistic", "exponential")
            else:
                continue
            now = self.parameters.get(item.name, item.default)
            found += [
                Formulation(self.kind, {**self.parameters, item.name: choice})
                for choice in choices
                if choice != now and type(now).__name__.lower() != str(choice).replace("_", "")
            ]
        return found


def pairs_of(instance: Instance) -> Array:
    """Return the pairs of rows of one query, the one with the larger label first."""
    same = np.ones((len(instance),) * 2, bool)
    if instance.qid is not None:
        same = instance.qid[:, None] == instance.qid[None, :]
    return np.argwhere(same & (instance.y[:, None] > instance.y[None, :]))


def _argument(value: Any) -> str:
    module = type(value).__module__
    if dataclasses.is_dataclass(value) and module.startswith("convexrank."):
        place = module.split(".")[1]
        return f"cr.{place}.{short_text(value)}"
    return short_text(value) if isinstance(value, types.FunctionType) else repr(value)


def formulation_of(
    problem: Problem | type[Problem], parameters: dict[str, Any], y: Any, qid: Any, weights: Any
) -> tuple[Formulation, Design, Instance | None]:
    """Return the formulation, the design of random instances, and the first instance if data are given.

    Raises
    ------
    ValueError, TypeError
        When the problem has no scores and labels, or the data do not fit.
    """
    made = not isinstance(problem, type)
    kind: Any = type(problem) if made else problem
    names = set(getattr(kind, "__dataclass_fields__", ()))
    fits = issubclass(kind, LinearScores) and ("y" in names or issubclass(kind, CrucialPairs))
    if not issubclass(kind, Problem) or not fits:
        raise TypeError(
            f"problem is {shown(problem)}, expected a problem with scores and labels, such as problems.RankSVM, or its "
            "class."
        )
    unknown = set(parameters) - names | set(parameters) & _DATA
    if unknown:
        known = sorted(name for name in names - _DATA - _PENALTIES if not name.startswith("_"))
        raise TypeError(
            f"parameters has {', '.join(sorted(map(str, unknown)))}, which {kind.__name__} does not take beside its "
            f"data; expected some of: {', '.join(known) or 'none'}."
        )
    if made:
        if parameters or y is not None or qid is not None or weights is not None:
            raise TypeError(
                "problem is an instance, which has parameters and data of its own; drop y, qid, sample_weight and "
                "parameters, or pass its class."
            )
        if issubclass(kind, CrucialPairs):
            raise TypeError(
                "problem is a CrucialPairs, whose pairs have no labels; pass the class, and y and qid."
            )
        y, qid, weights = (getattr(problem, name, None) for name in ("y", "qid", "sample_weight"))
        of_class: Any = kind
        parameters = {
            item.name: getattr(problem, item.name)
            for item in dataclasses.fields(of_class)
            if item.init and item.name not in _DATA | _PENALTIES
        }
    parameters = {name: value for name, value in parameters.items() if name not in _PENALTIES}
    found = Formulation(kind, parameters)
    first = None if y is None else _first(found, y, qid, weights)
    if first is None and (qid is not None or weights is not None):
        raise ValueError("y is None, but qid or sample_weight is given; pass the labels of the same rows.")
    levels = None if first is None else np.unique(first.y)
    if levels is not None and (len(levels) > _MOST_LEVELS or len(levels) < 2):
        levels = None
    trial = Instance(np.array([0.5, 0.0]), np.array([1.0, 0.0]))
    found.problem(trial)  # bad parameters are refused here
    return found, Design(found.labels, levels), first


def _first(found: Formulation, y: Any, qid: Any, weights: Any) -> Instance:
    """The instance of the caller's labels and queries, with scores 0; binary labels become 0 and 1."""
    if found.labels == "binary":
        from convexrank.data import check_binary_labels

        labels = check_binary_labels(y).astype(float)
    else:
        labels = check_vector(y, name="y")
    given = np.asarray(y)
    if given.dtype.kind in "iu" and found.labels != "real":
        labels = labels.astype(np.int64)
    if qid is not None and not found.by_queries:
        raise ValueError(f"qid is given, but {found.kind.__name__} ranks one list; drop it.")
    groups = None if qid is None else as_groups(qid, len(labels))
    numbers = None if groups is None else groups.spread(groups.query)
    if weights is not None:
        if not found.weighted:
            raise ValueError(f"sample_weight is given, but {found.kind.__name__} takes none; drop it.")
        weights = check_vector(check_real_array(weights, "sample_weight"), len(labels), "sample_weight")
    return Instance(np.zeros(len(labels)), labels, numbers, weights)


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
    for _ in range(_GOOD):
        drawn = draw(rng, design, "plain", caller.takes_queries)
        vectors = 0.8 * rng.normal(size=(_VECTORS, len(drawn)))
        vectors[0] = 0.0
        found.append([drawn.changed(scores=scores) for scores in vectors])
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
        risks = np.array([oracle(item.scores)[0] for item in vectors])
        values = np.array([a.value for a in answers])
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
        What the caller gives; None is fitted, a factor above 0.
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
        # a loss that falls where the formulation rises has another minimum: -1 is a factor to be given, not found
        held = factors[np.isfinite(factors) & (factors > 0.0)] if factor is None else np.array([factor])
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
