"""Options of a problem on the command line, and results of commands within 80 columns."""

from __future__ import annotations

import argparse
import inspect
import json
import math
import warnings
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any, NoReturn

from convexrank.core.capabilities import Advice
from convexrank.core.results import ConvergenceWarning, Solution
from convexrank.data import check_choice, did_you_mean
from convexrank.data.messages import Advised, Message

#: Exit statuses; 2 is that of arguments that cannot be used.
FINE, DISAGREES = 0, 1
WIDTH = 80
#: Rows of a list, where no length is given.
LENGTH = 100


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
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
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
    note = solution.instance.face(Advice).remark(solution) if solution.converged else solution.message
    if note:
        lines.append(paragraph(f"note       {note}"))
    return lines


def refuse_lost(*paths: str | None) -> None:
    """Refuse files in folders that do not exist, before the time of a fit is spent.

    Raises
    ------
    ValueError
        When there is such a file.
    """
    for path in filter(None, paths):
        if not Path(path).resolve().parent.is_dir():
            raise ValueError(f"{path} is in no folder that exists; make the folder, or write another path.")


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


# The data of a problem, which come from a table and not from an option.
_DATA = ("X", "y", "qid", "sample_weight")
_WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None}


class Parser(argparse.ArgumentParser):
    """A parser whose errors suggest choices with a similar spelling."""

    def error(self, message: str) -> NoReturn:
        """End with status 2, usage and message."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and "invalid choice: '" in message:
                message += did_you_mean(message.split("invalid choice: '")[1].split("'")[0], action.choices)
        super().error(message)


def formulation(name: str) -> Any:
    """Return the class of problems that has this name."""
    from convexrank import problems

    known = {key: getattr(problems, key) for key in problems.__all__ if key != "REGISTRY"}
    return check_choice(name, known, "problem")


def tabular(cls: Any) -> bool:
    """Return whether a class of problems takes a table: features and a label."""
    return list(inspect.signature(cls).parameters)[:2] == ["X", "y"]


def knows_queries(cls: Any) -> bool:
    """Return whether a class of problems takes the query of each row."""
    return "qid" in inspect.signature(cls).parameters


def options_of(cls: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class of problems that are options: all but the data."""
    parameters = inspect.signature(cls).parameters
    return {name: item for name, item in parameters.items() if name not in _DATA}


def given_options(cls: Any, words: list[str], others: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Read words such as ``--p 8 --l2=0.1`` as arguments of the constructor; leave out those of others alone.

    Raises
    ------
    ValueError
        When an option is unknown, has no value, or is repeated, or a required option is missing.
    """
    known, found, rest = options_of(cls), {}, list(words)
    theirs = {name for other in others for name in options_of(other)} - set(known)
    while rest:
        word, _, value = rest.pop(0).partition("=")
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--") or name not in {*known, *theirs}:
            raise ValueError(
                f"{word} is no option of {cls.__name__}{did_you_mean(word, map(_option, known))}, expected one of: "
                f"{_listed(known)}."
            )
        if name in found:
            raise ValueError(f"{word} is given twice, expected it once.")
        if not value and not rest:
            raise ValueError(f"{word} has no value; write {word} VALUE.")
        found[name] = _value(value or rest.pop(0))
    found = {name: value for name, value in found.items() if name in known}
    missing = [name for name, item in known.items() if item.default is item.empty and name not in found]
    if missing:
        raise ValueError(f"{cls.__name__} needs {_listed(missing)}; write {_option(missing[0])} VALUE.")
    return found


def spelled(error: Exception, known: Container[str]) -> str:
    """Return the message of an error; arguments that it advises are options where the command has them."""

    def option(advised: Advised) -> str:
        if advised.name not in known:
            return str(advised)
        value = "" if advised.value is None or advised.value is True else f" {advised.value}"
        return _option(advised.name) + value

    message = error.args[0] if error.args else None
    return message.spelled(option) if isinstance(message, Message) else str(error)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _listed(names: Any) -> str:
    return ", ".join(map(_option, names))


def _value(text: str) -> Any:
    """A word, a number, several numbers with commas between them, or text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if "," in text:
        return tuple(_value(part) for part in text.split(","))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
