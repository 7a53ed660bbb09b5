"""The arguments that a loss accepts: queries, weights, and arrays of one library."""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import Any

import numpy as np

from convexrank.data import shown
from convexrank.verification.loss.caller import Caller
from convexrank.verification.loss.instance import Instance

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
