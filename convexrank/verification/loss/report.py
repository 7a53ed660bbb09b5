"""The report on a loss: the arguments that it accepts, the first disagreement, and possible explanations."""

from __future__ import annotations

import inspect
import sys
import warnings
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from convexrank.data import shown
from convexrank.data.display import html_table
from convexrank.verification.loss.formulation import Formulation, Line, Scale, fit_scale, lines_of
from convexrank.verification.loss.instance import Caller, Instance

__all__ = ["Counterexample", "LossReport"]


@dataclass(frozen=True, eq=False)
class Counterexample:
    """The smallest instance found on which a loss disagrees.

    Parameters
    ----------
    check : str
        Name of the check that failed.
    scores, y : ndarray, shape (n,)
        The instance.
    qid, sample_weight : ndarray or None, shape (n,)
        Its queries and weights.
    found, expected : float, str or ndarray
        The value of the loss, and the expected value.
    text : str
        The same as lines of Python, to be copied.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> def hinge(scores, y):
    ...     margins = scores[y == 1][:, None] - scores[y == 0]
    ...     return np.maximum(0.0, -margins).sum()
    >>> cr.verify_loss(hinge, cr.problems.Push, price="identity", loss="hinge").first.scores.tolist()
    [0.0, 0.0]
    """

    check: str
    scores: np.ndarray
    y: np.ndarray
    qid: np.ndarray | None
    sample_weight: np.ndarray | None
    found: Any
    expected: Any
    text: str

    def __repr__(self) -> str:
        return f"{self.check}\n{self.text}"


@dataclass(frozen=True, eq=False)
class LossReport:
    """Agreement of a loss with a formulation, up to scale and shift, and the first disagreement.

    Parameters
    ----------
    formulation : str
        The formulation with which the loss was compared.
    backend : {"numpy", "jax", "torch"}
        The kind of arrays with which the loss was called.
    scale : Scale
        The scale that was fitted, or given, as a number and in words.
    shift : float or "labels"
        The constant that is added; "labels" if any function of the labels may be added.
    fitted : bool
        Whether some scale fits at least a few instances; if not, the nearest simple scale is used.
    instances : int
        Number of instances.
    checks : tuple of (str, int, int)
        Name of each check, and the numbers of its runs and failures.
    first : Counterexample or None
        The first check that failed, on the smallest instance found.
    hints : tuple of str
        Possible explanations of the failure.

    Attributes
    ----------
    agrees : bool
        True when something was compared and nothing failed.

    Examples
    --------
    >>> import convexrank as cr
    >>> def square(scores, y):
    ...     return 0.5 * ((scores - y - (scores - y).mean()) ** 2).sum()
    >>> report = cr.verify_loss(square, cr.problems.NDCGRegression, gain="linear", instances=8)
    >>> report.agrees, report.first.check
    (False, 'value: queries without an order')
    """

    formulation: str
    backend: str
    scale: Scale
    shift: float | str
    fitted: bool
    instances: int
    checks: tuple[tuple[str, int, int], ...]
    first: Counterexample | None
    hints: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether at least one check ran and none failed."""
        return self.first is None and any(made for name, made, _ in self.checks if name.startswith("value"))

    @property
    def formula(self) -> str:
        """The loss as a multiple of the formulation plus a shift."""
        shift = "any function of y" if self.shift == "labels" else f"{self.shift:.6g}"
        return f"f = {self.scale.formula} × {self.formulation.partition('(')[0]} + {shift}"

    def __repr__(self) -> str:
        verdict = (
            "agrees" if self.agrees else "DISAGREES" if self.first is not None else "NOTHING COMPARED: agrees"
        )
        lines = [
            f"LossReport: {verdict} with {self.formulation} on {self.instances} instances, in {self.backend}"
        ]
        unsure = "" if self.fitted else " (assumed: no scale fits)"
        lines.append(f"{self.formula}{unsure}")
        if self.first is not None:
            lines.append(f"first disagreement: {self.first.check}")
            lines += [f"    {line}" for line in self.first.text.splitlines()]
        return "\n".join([*lines, *self.hints])

    def __str__(self) -> str:
        rows = [
            ("check", "made", "failed"),
            *((name, str(made), str(bad)) for name, made, bad in self.checks),
        ]
        width = max(len(name) for name, _, _ in rows)
        table = [f"{name.ljust(width)}  {made.rjust(5)}  {bad.rjust(6)}" for name, made, bad in rows]
        return "\n".join([repr(self), *table])

    def _repr_html_(self) -> str:
        head, *lines = repr(self).splitlines()
        below = f"<pre>{escape(chr(10).join(lines))}</pre>"
        return html_table(head, self.checks, ("check", "made", "failed"), below)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, for JSON."""
        first = self.first
        return {
            "agrees": self.agrees,
            "formulation": self.formulation,
            "backend": self.backend,
            "formula": self.formula,
            "fitted": self.fitted,
            "instances": self.instances,
            "checks": [list(row) for row in self.checks],
            "first": None if first is None else {"check": first.check, "text": first.text},
            "hints": list(self.hints),
        }


_QUERY_NAMES = {"qid", "query", "queries", "group", "groups", "segments", "q"}
_WEIGHT_NAMES = ("sample_weight", "weights", "weight")


def caller_of(
    function: Any, by_queries: bool, weighted: bool, backend: str | None, trial: Instance
) -> Caller:
    """Look at the signature of a loss, and find out which arrays it takes.

    Parameters
    ----------
    function : callable
        The loss.
    by_queries, weighted : bool
        Whether the formulation has queries and weights.
    backend : str or None
        Which arrays; None tries them.
    trial : Instance
        What it is tried on.

    Raises
    ------
    TypeError
        When it is no function of scores and labels.
    """
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"f is {shown(function)}, expected a function of (scores, y) or (scores, y, qid).")
    takes_queries, name = _signature(function, by_queries)
    kept = name if weighted else ""
    if backend is not None:
        return Caller(function, takes_queries, kept, backend)
    attempts = [Caller(function, takes_queries, kept, kind) for kind in ("numpy", "torch", "jax")]
    for attempt in attempts:
        if attempt.backend != "numpy" and attempt.backend not in sys.modules:
            continue
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            found = _library(attempt, trial)
        if found:
            return Caller(function, takes_queries, kept, found)
    return attempts[0]


def _library(attempt: Caller, trial: Instance) -> str:
    """The library whose arrays come out where some arrays go in; empty where the call fails."""
    make: Any = np.copy
    if attempt.backend == "torch":
        make = sys.modules["torch"].tensor
    elif attempt.backend == "jax":
        make = sys.modules["jax"].numpy.asarray
    args, weights = attempt.arguments(trial, make)
    try:
        found = attempt.function(make(trial.scores.copy()), *args, **weights)
    except Exception:  # noqa: BLE001 - of a function that is not ours
        return ""
    parts = found if isinstance(found, tuple) else (found,)
    kinds = {type(part).__module__.split(".")[0] for part in parts}
    if kinds & {"jax", "jaxlib"}:
        return "jax"
    return "torch" if "torch" in kinds else attempt.backend


def _signature(function: Any, by_queries: bool) -> tuple[bool, str]:
    """Return whether a loss takes queries, and the name by which it takes weights."""
    try:
        signature = inspect.signature(getattr(function, "forward", function))
    except (TypeError, ValueError):  # of a compiled function
        return by_queries, ""
    given = signature.parameters.values()
    positional = [item for item in given if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)]
    required = [item for item in positional if item.default is item.empty]
    weights = next((item.name for item in given if item.name in _WEIGHT_NAMES), "")
    required = [item for item in required if item.name != weights]
    open_ended = any(item.kind is item.VAR_POSITIONAL for item in given)
    named = [item.name for item in given if item.kind is item.KEYWORD_ONLY and item.default is item.empty]
    if len(required) > 3 or (len(positional) < 2 and not open_ended) or set(named) - {weights}:
        raise TypeError(
            f"f takes ({', '.join(signature.parameters)}), expected a function of (scores, y) or (scores, y, qid); "
            "pass a lambda that gives the other arguments their values."
        )
    third = positional[2] if len(positional) > 2 else None
    if third is None or third.name == weights:
        return by_queries and open_ended, weights
    return third.default is third.empty or third.name in _QUERY_NAMES, weights


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
    falling = [replace(line, slope=-line.slope, shift=-line.shift) for line in lines]
    if fitted is None and (scale := fit_scale(falling, len(goods), tol, shift=0.0 if by_labels else None)):
        opposite = replace(scale, factor=-scale.factor)
        return (
            f"hint: f falls where the formulation rises: f = {opposite.formula} × {formulation.kind.__name__} "
            f"+ {0.0 - scale.shift:.6g}; minimise -f, or pass a scale below 0 if f is to be maximised",
        )
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
