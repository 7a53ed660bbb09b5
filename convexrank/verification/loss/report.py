"""The report on a loss, and the instance on which it first disagrees with the formulation."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from convexrank.data.display import html_table
from convexrank.verification.loss.scale import Scale

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
