"""Possible explanations of a disagreement, and notes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from convexrank.verification.loss.caller import Caller
from convexrank.verification.loss.formulation import Formulation
from convexrank.verification.loss.instance import Instance
from convexrank.verification.loss.report import Counterexample
from convexrank.verification.loss.scale import Line, Scale, fit_scale, lines_of

_UNDEFINED = "no formulation of two classes is defined"


def notes(caller: Caller) -> tuple[str, ...]:
    """Return notes on the value of a loss of two classes for labels of one class."""
    for label in (0.0, 1.0):
        weights = np.ones(2) if caller.weights else None
        answer = caller(Instance(np.zeros(2), np.full(2, label), None, weights))
        if answer.wrong:
            return (f"note: f gives {answer.wrong} for y = [{label:.0f}, {label:.0f}], where {_UNDEFINED}",)
    return ()


def hint_of_ties(first: Counterexample) -> tuple[str, ...]:
    """Return the convention that may differ."""
    if first.check == "value: queries without an order" and not isinstance(first.found, str):
        return ("hint: unordered='finite' leaves open what queries without an order contribute",)
    return ()


def hints_of(
    formulation: Formulation,
    caller: Caller,
    goods: list[list[Instance]],
    lines: list[Line],
    fitted: Scale | None,
    tol: float,
    by_labels: bool,
) -> tuple[str, ...]:
    """Return possible explanations of a disagreement: another parameter, or a shift or scale that depends on labels."""
    found = []
    share = fitted.share if fitted is not None else 0.0
    for other in formulation.neighbours():
        try:
            lines_there = lines_of(other, caller, goods, tol)
        except (ValueError, TypeError):  # a choice that does not go with the others
            continue
        scale = fit_scale(lines_there, len(goods), tol, shift=0.0 if by_labels else None)
        if scale is not None and scale.share > max(share, 0.9):
            found.append(
                f"hint: f fits {other}: f = {scale.formula} × {other.kind.__name__} + {scale.shift:.6g}"
            )
    slopes = fit_scale([replace(line, shift=0.0) for line in lines], len(goods), tol)
    shifts = [line.shift for line in lines]
    if not found and len(lines) >= 0.9 * len(goods) and not by_labels:
        steady = slopes is not None and slopes.share >= 0.9
        if steady and max(shifts) - min(shifts) > 1e-3 * max(1.0, abs(max(shifts))):
            found.append("hint: at fixed labels f differs by a constant only; shift='labels' allows for it")
        elif not steady:
            found.append(
                "hint: at fixed labels f is the formulation times a number, plus a constant, but no count gives "
                "the number"
            )
    return tuple(found)
