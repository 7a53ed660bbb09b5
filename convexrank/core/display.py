"""Text forms of problems, solutions and paths: a short line, a small table, a formula."""

from __future__ import annotations

import inspect
import re
from dataclasses import is_dataclass
from typing import Any

from convexrank.backend.interruption import import_module
from convexrank.data.display import call_text, counted, html_table, number_text, short_fields, sparkline

# A block of LaTeX in a docstring, at any depth: the lines below it that are further in.
_FORMULA = re.compile(r"^(?P<depth> *)\.\. math::(?P<text>.*\n(?:(?:(?P=depth) +.*)?\n)*)", re.MULTILINE)
_STATED_BY_NOTES = ("y", "qid", "sample_weight", "dtype")


class Displayed:
    """Text forms of a problem; the base of :class:`convexrank.Problem`."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep the short line where ``@dataclass`` would write one that prints all the data."""
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:
            type.__setattr__(cls, "__repr__", cls.__repr__)

    def __repr__(self) -> str:
        parts = short_fields(self, _STATED_BY_NOTES) if is_dataclass(self) else []
        made = self.__dict__.get("X", self.__dict__.get("K")) is not None
        first = 1 if made and parts else 0
        return call_text(type(self).__name__, [*parts[:first], *self._data_notes(), *parts[first:]])

    def _data_notes(self) -> list[str]:
        """Return notes on the data besides their shape, in a few words each; families add to it."""
        return ["weighted"] if self.__dict__.get("sample_weight") is not None else []

    @property
    def _formula_number(self) -> int:
        """Number, from 0, of the block of LaTeX in the docstring that states this instance."""
        return 0

    def formula(self) -> str:
        r"""Return what is solved in LaTeX, as the class documents it; empty where the docstring states none.

        Examples
        --------
        >>> import convexrank as cr
        >>> problem = cr.problems.TopPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1)
        >>> print(problem.formula()[:49])
        \min_w \; \log\tfrac1I\sum_{i=1}^I e^{-f_i} + \ma
        """
        found = list(_FORMULA.finditer(f"{inspect.getdoc(type(self)) or ''}\n"))
        return " ".join(found[self._formula_number].group("text").split()) if found else ""

    def _repr_html_(self) -> str:
        rows = [["unknowns", _stated(self, "dimension")], ["default solver", _stated(self, "default_solver")]]
        formula = self.formula().replace("&", "&amp;").replace("<", "&lt;")
        return html_table(repr(self), rows, below=f"<div>$${formula}$$</div>" if formula else "")


def _stated(problem: Displayed, member: str) -> str:
    """The value of a property of a problem; a text if the class does not define the property yet."""
    try:
        return str(getattr(problem, member))
    except NotImplementedError:
        return "not stated"


def _bound(solution: Any) -> str:
    """The bound on the error, in a few words."""
    certificate = solution.certificate
    if solution.status.lacks_minimum:
        return "no minimum"
    if certificate.says_nothing:
        return "no bound on the error"
    if certificate.kind == "residual":
        return f"residual {certificate.gap:.1g} (no bound)"
    how = "proved" if certificate.proved else "certified"
    if certificate.kind in ("distance", "violation"):
        return f"{certificate.kind} {certificate.gap:.1g} {how} ({certificate.metric})"
    return f"gap {certificate.gap:.1g} {how} ({certificate.kind})"


def _run(solution: Any) -> str:
    steps = f"{counted(solution.iterations, 'steps')}, " if solution.iterations else ""
    return f"{solution.solver}, {steps}{solution.seconds:.2g} s"


def solution_line(solution: Any) -> str:
    """Show a solution on one line."""
    value = f", value {number_text(solution.value, 5)}" if solution.value == solution.value else ""
    return f"Solution: {solution.status.name} ({_run(solution)}){value}, {_bound(solution)}"


def _rows(solution: Any) -> list[list[str]]:
    x = solution.x
    rows = [
        ["problem", repr(solution.instance) if solution.instance is not None else solution.problem],
        ["status", solution.status.name],
        ["run", _run(solution)],
        ["value", number_text(solution.value, 6)],
        ["bound", "no minimum" if solution.status.lacks_minimum else str(solution.certificate)],
        ["x", f"{x.size} numbers, {int((x != 0).sum())} not 0"],
    ]
    return rows if solution.value == solution.value else [row for row in rows if row[0] != "value"]


def solution_summary(solution: Any) -> str:
    """Show a solution on a few lines, with the message of the run."""
    rows = [*_rows(solution), ["message", solution.message]]
    return "\n".join(f"{name:<8} {text}" for name, text in rows)


def solution_html(solution: Any) -> str:
    """Show a solution as a small table with the trace of its gap."""
    drawn = sparkline(solution.trace.get("gap", ()), "gap by step, logarithmic", logarithmic=True)
    return html_table(f"Solution of {solution.problem}", _rows(solution), below=drawn)


def draw(figure: str, thing: Any, **options: Any) -> Any:
    """Draw something by a figure's module and name."""
    module, _, name = figure.partition(":")
    return getattr(import_module(f"convexrank.{module}"), name)(thing, **options)
