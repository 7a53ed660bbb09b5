"""Results of commands, and the format of numbers within 80 columns."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from convexrank.core.results import ConvergenceWarning, Solution

#: Exit statuses; 2 is that of arguments that cannot be used.
FINE, DISAGREES = 0, 1
WIDTH = 80


@dataclass(frozen=True)
class Outcome:
    """The output of a command, and its exit status.

    Parameters
    ----------
    text : str
        For standard output.
    status : int
        0 success; 1 no success: not converged, or a disagreement.
    """

    text: str
    status: int = FINE


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out the warnings of a solve, whose message is in the output.

    Yields
    ------
    None
        While warnings are left out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def answered(solution: Solution) -> int:
    """Return the exit status of a solve."""
    return FINE if solution.converged else DISAGREES


def paragraph(text: str, indent: str = "") -> str:
    """Return text in lines of at most 80 columns; names that are longer stay whole."""
    return "\n".join(
        wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent or "  ", break_long_words=False)
    )


def solution_lines(solution: Solution) -> list[str]:
    """Return what is printed of any solution: how it ended, value, bound, and what to know about it."""
    steps = f"{solution.iterations} steps, " if solution.iterations else ""
    lines = [f"{solution.status.name} by {solution.solver}, {steps}{solution.seconds:.2f} s"]
    if not math.isnan(solution.value):
        lines.append(f"value      {solution.value:.10g}")
    if not solution.status.lacks_minimum:
        word = "bound    " if solution.certificate.says_nothing else "certified"
        lines.append(paragraph(f"{word}  {solution.certificate}"))
    note = solution.instance.remark(solution.x) if solution.converged else solution.message
    if note:
        lines.append(paragraph(f"note       {note}"))
    return lines


def as_json(found: dict[str, Any]) -> str:
    """Return JSON without NaN and infinity, which it has no words for: they become null."""
    return json.dumps(_plain(found), indent=2, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
