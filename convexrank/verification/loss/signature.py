"""The arguments that a loss accepts, and possible explanations of a disagreement."""

from __future__ import annotations

import inspect
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from convexrank.data import shown
from convexrank.verification.loss.caller import Caller
from convexrank.verification.loss.formulation import Formulation
from convexrank.verification.loss.instance import Instance
from convexrank.verification.loss.report import Counterexample
from convexrank.verification.loss.scale import Line, Scale, fit_scale, lines_of

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
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
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
