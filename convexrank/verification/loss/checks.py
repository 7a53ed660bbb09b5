"""The checks of a loss on one instance; each check returns a disagreement, or None."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.data.display import number_text
from convexrank.verification.loss.formulation import (
    STEP,
    Formulation,
    Oracle,
    Scale,
    close,
    tolerance_of,
)
from convexrank.verification.loss.instance import KINDS, Answer, Caller, Instance

Array = np.ndarray

# Beyond this a risk has lost what instances are compared by.
_LARGEST_RISK = 1e100
# A slope between two difference quotients, up to so much of its size.
_SLOPE = 1e-4
# The step of differences of a loss without a gradient; it and the definition take the same step.
_WIDE_STEP = 1e-3
_SHIFT = 0.5

_INVARIANCES = (
    "arguments stay unchanged",
    "same value twice",
    "order of rows",
    "numbers of queries",
    "shift of scores",
)
_ORDER = ("plain", *reversed(KINDS))
#: All checks, in the order in which they are reported.
NAMES = (*_INVARIANCES, *(f"value: {kind}" for kind in _ORDER), *(f"gradient: {kind}" for kind in _ORDER))


@dataclass(frozen=True, eq=False)
class Found:
    """A disagreement on an instance: lines of Python that show it, the value found and the value expected."""

    lines: tuple[str, ...]
    found: Any
    expected: Any


@dataclass(frozen=True, eq=False)
class Checker:
    """All checks of a loss against a formulation.

    Parameters
    ----------
    formulation : Formulation
        The formulation for the comparison.
    caller : Caller
        The loss.
    scale : Scale
        The fitted scale, which determines the expected value.
    by_labels : bool
        Whether the shift may depend on the labels; then differences of values at fixed labels are compared.
    tol : float
        Relative agreement.
    shifts : {"queries", "all", ""}
        Shifts of scores that do not change the formulation.
    unordered : bool
        Whether queries without an order are compared; if not, the loss need only be finite there.
    """

    formulation: Formulation
    caller: Caller
    scale: Scale
    by_labels: bool
    tol: float
    shifts: str
    unordered: bool = True
    _kept: dict[bytes, Answer] = field(default_factory=dict, repr=False)
    _oracles: dict[bytes, Oracle | None] = field(default_factory=dict, repr=False)

    def answer(self, instance: Instance) -> Answer:
        """Call the loss, once for each instance."""
        if instance.key not in self._kept:
            self._kept[instance.key] = self.caller(instance)
        return self._kept[instance.key]

    def oracle(self, instance: Instance) -> Oracle | None:
        """Return the formulation as a function of scores, made once for each instance."""
        if instance.key not in self._oracles:
            self._oracles[instance.key] = self.formulation.oracle(instance)
        return self._oracles[instance.key]

    def check(self, name: str, instance: Instance) -> Found | bool | None:
        """Return the result of one check: None without a disagreement, False if it does not apply to the instance."""
        if name.startswith(("value", "gradient")):
            if name.partition(": ")[2] != instance.kind:
                return False
            return (self._value if name.startswith("value") else self._gradient)(instance)
        if self.formulation.labels == "binary" and not instance.ordered:  # the formulation is not defined
            return False
        if instance.kind.startswith("large") or (name == "numbers of queries" and len(instance.groups) < 2):
            return False
        if name == "shift of scores" and not self.shifts:
            return False
        methods: dict[str, Callable[[Instance], Found | bool | None]] = {
            "arguments stay unchanged": self._unchanged,
            "same value twice": self._twice,
            "order of rows": self._order,
            "numbers of queries": self._numbers,
            "shift of scores": self._shift,
        }
        return methods[name](instance)

    # --- what does not need the formulation -------------------------------------------------------------------------

    def _unchanged(self, instance: Instance) -> Found | None:
        changed = self.caller.changes(instance)
        return Found((f"{self._call}  # changes {changed}",), changed, "") if changed else None

    def _twice(self, instance: Instance) -> Found | None:
        one, two = self.caller.plain(instance), self.caller.plain(instance)
        if one.wrong or two.wrong or one.value == two.value:
            return None
        return Found((f"{self._call}, {self._call}  # {one.value!r}, {two.value!r}",), two.value, one.value)

    def _order(self, instance: Instance) -> Found | None:
        places = np.arange(len(instance))
        for order in (places[::-1], np.roll(places, 1)):
            line = f"order = np.array({order.tolist()})"
            arguments = ["scores[order]", "y[order]"] + ["qid[order]"] * self.caller.takes_queries
            found = self._same(instance, _reordered(instance, order), arguments, line)
            if found is not None:
                return found
        return None

    def _numbers(self, instance: Instance) -> Found | None:
        numbers = np.asarray(instance.qid)
        moved = instance.changed(qid=numbers.max() - numbers)
        return self._same(instance, moved, ["scores", "y", "qid.max() - qid"])

    def _shift(self, instance: Instance) -> Found | None:
        shift = np.full(len(instance), _SHIFT)
        text = f"scores + {_SHIFT}"
        if self.shifts == "queries" and instance.qid is not None:
            shift, text = _SHIFT * (1.0 + instance.qid), f"scores + {_SHIFT} * (1 + qid)"
        moved = instance.changed(scores=instance.scores + shift)
        return self._same(instance, moved, [text, "y"] + ["qid"] * self.caller.takes_queries)

    def _same(
        self, instance: Instance, moved: Instance, arguments: list[str], line: str = ""
    ) -> Found | None:
        """Compare the values of two instances that the formulation does not tell apart."""
        one, two = self.answer(instance), self.answer(moved)
        near = tolerance_of(self.tol, one.single or two.single)
        if one.wrong or (not two.wrong and close(one.value, two.value, near)):
            return None
        if "sample_weight" in self._call:
            arguments = [*arguments, f"{self.caller.weights}=sample_weight{'[order]' if line else ''}"]
        other = f"f({', '.join(arguments)})  # {two.wrong or number_text(two.value, 6)}, expected the same"
        lines = (f"{self._call}  # {number_text(one.value, 6)}", *([line] if line else []), other)
        return Found(lines, two.wrong or two.value, one.value)

    # --- what does --------------------------------------------------------------------------------------------------

    @property
    def _call(self) -> str:
        extra = ", qid" if self.caller.takes_queries else ""
        weights = f", {self.caller.weights}=sample_weight" if self.caller.weights else ""
        return f"f(scores, y{extra}{weights})"

    def _value(self, instance: Instance) -> Found | bool | None:
        oracle = self.oracle(instance)
        if oracle is None:
            return False
        risk, answer = oracle(instance.scores)[0], self.answer(instance)
        base, found = 0.0, answer.value
        if not self._compared(instance):
            lines = f"{self._call}  # {answer.wrong}, expected a finite number"
            return Found((lines,), answer.wrong, "a finite number") if answer.wrong else None
        call, zeros = self._call, instance.changed(scores=np.zeros(len(instance)))
        if self.by_labels:
            base, start = oracle(zeros.scores)[0], self.answer(zeros)
            found, answer = found - start.value, start if start.wrong else answer
            call = f"{call} - {call.replace('scores', '0 * scores')}"
        factor = self.scale.at(instance)
        expected = factor * (risk - base) if self.by_labels else self.scale.expected(instance, risk)
        if not math.isfinite(expected) or abs(risk) > _LARGEST_RISK:
            return False
        unit = self._unit(instance) * max(1.0, abs(risk), abs(base))
        if not answer.wrong and close(found, expected, tolerance_of(self.tol, answer.single), unit):
            return None
        ours = self.formulation.call(instance)
        defined = "objective" in ours
        if self.by_labels and defined:
            ours = f"{ours} - {ours.replace('[1.]', '[0.]')}"
        ours = f"({ours})" if self.by_labels and factor != 1.0 else ours
        ours = f"{factor:.6g} * {ours}" if factor != 1.0 and defined else ours
        if self.scale.shift and not self.by_labels and defined:
            ours += f" + {self.scale.shift:.6g}"
        ours = f"{ours}  # {number_text(expected, 6)}" if defined else f"# expected {expected:.6g}; {ours}"
        lines = (f"{call}  # {answer.wrong or number_text(found, 6)}", ours)
        return Found(lines, answer.wrong or found, expected)

    def _compared(self, instance: Instance) -> bool:
        """Return whether value and gradient are compared; queries without an order may be left open."""
        return self.unordered or len(instance.ordered) == len(instance.groups)

    def _unit(self, instance: Instance) -> float:
        at = self.scale.at(instance)
        return abs(at) if math.isfinite(at) else abs(self.scale.factor)

    def _gradient(self, instance: Instance) -> Found | bool | None:
        answer, oracle = self.answer(instance), self.oracle(instance)
        factor = self.scale.at(instance)
        if oracle is None or answer.wrong:
            return False
        if answer.gradient is None and not answer.wrong_gradient:  # numpy: differences of both, with one step
            silent = answer.single or not self._compared(instance)
            return False if silent else self._difference(instance, oracle, factor)
        centre, slope = oracle(instance.scores)
        if not self._compared(instance) and not answer.wrong_gradient:
            return None
        if not abs(centre) <= _LARGEST_RISK or not (math.isfinite(factor) or not slope.any()):
            return False
        factor = factor if math.isfinite(factor) else 0.0
        low = high = factor * slope
        if answer.gradient is not None and not answer.wrong_gradient:
            size = abs(slope * factor) + self._unit(instance)
            near = 10.0 * tolerance_of(self.tol, answer.single) * size
            if (np.abs(answer.gradient - low) <= near).all():
                return None
            # where the formulation has a kink, any slope between the two sides will do
            sides = np.array([self._sides(oracle, instance.scores, place) for place in range(len(instance))])
            low, high = np.sort(factor * sides, axis=1).T
            slack = np.maximum(near, _SLOPE * size) + 1e-15 * abs(factor * centre) / STEP
            kink = high - low > slack
            low, high = (np.where(kink, side, factor * slope) for side in (low, high))
            slack = np.where(kink, slack, near)
            if ((answer.gradient >= low - slack) & (answer.gradient <= high + slack)).all():
                return None
        shown = answer.wrong_gradient or _vector(answer.gradient)
        expected = _vector(low) if (high - low < 1e-3).all() else f"from {_vector(low)} to {_vector(high)}"
        line = f"gradient of {self._call} in scores"
        return Found((f"# {line}: {shown}", f"# expected: {expected}"), answer.gradient, 0.5 * (low + high))

    def _difference(self, instance: Instance, oracle: Oracle, factor: float) -> Found | bool | None:
        """Compare difference quotients of a loss without a gradient, in one direction with all rows in it."""
        along = np.array([(-1.0) ** place / (1.0 + place) for place in range(len(instance))])
        ends = [instance.changed(scores=instance.scores + step * along) for step in (_WIDE_STEP, -_WIDE_STEP)]
        values, width = [self.answer(end) for end in ends], 2.0 * _WIDE_STEP
        if any(value.wrong for value in values):
            return False
        rise = oracle(ends[0].scores)[0] - oracle(ends[1].scores)[0]
        found = (values[0].value - values[1].value) / width
        expected = factor * rise / width if rise else 0.0
        unit = max(self._unit(instance), abs(self.answer(instance).value))
        slack = 10.0 * max(self.tol * unit / width, _SLOPE * unit)
        if not math.isfinite(expected) or abs(found - expected) <= slack:
            return None
        lines = (
            f"# slope of {self._call} along {_vector(along)}: {number_text(found, 5)}",
            f"# expected: {number_text(expected, 5)}",
        )
        return Found(lines, found, expected)

    @staticmethod
    def _sides(oracle: Oracle, scores: Array, place: int) -> tuple[float, float]:
        """Slopes of the formulation on both sides of a score."""
        step = np.zeros(len(scores))
        step[place] = STEP
        behind, centre, ahead = (oracle(scores + sign * step)[0] for sign in (-1.0, 0.0, 1.0))
        return (ahead - centre) / STEP, (centre - behind) / STEP


def _reordered(instance: Instance, order: Array) -> Instance:
    """The same rows in another order; queries keep their numbers."""
    qid, weights = (None if part is None else part[order] for part in (instance.qid, instance.weights))
    return Instance(instance.scores[order], instance.y[order], qid, weights)


def _vector(values: Any) -> str:
    return f"[{', '.join(number_text(float(value), 5) for value in np.asarray(values))}]"
