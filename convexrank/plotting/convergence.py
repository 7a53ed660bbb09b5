"""Figures of the convergence of solvers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from convexrank.core.results import Solution
from convexrank.data import check_choice
from convexrank.plotting.style import axes, check_mapping, label_text, styles

Array = np.ndarray


def trace(
    solutions: Solution | Mapping[Any, Solution], *, against: str = "iteration", ax: Any = None
) -> Array:
    """Draw objective and gap (logarithmic) against iteration or time.

    The gap is the solver's own estimate; its last entry is the gap of the certificate. If the certificate
    bounds a residual or a distance instead, the label of the axis names it. A problem without objective has only
    the second panel.

    Entries that are zero or not finite cannot be drawn on a logarithmic axis and are left out.

    Parameters
    ----------
    solutions : Solution, or mapping of label to Solution
        The solutions. A number as label is a value of p.
    against : {"iteration", "seconds"}
        The horizontal axis.
    ax : two Axes, optional
        Axes for the objective and for the gap; by default a new figure.

    Returns
    -------
    ndarray of two Axes
        Axes of the objective, and of the gap.

    Raises
    ------
    ValueError, TypeError
        When there is no solution, ``against`` is unknown, or ax does not hold two Axes.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> objective, gap = cr.plotting.trace(problem.solve())
    >>> gap.get_yscale()
    'log'
    """
    named = {solutions.solver: solutions} if isinstance(solutions, Solution) else solutions
    check_mapping(named, "solutions", "a Solution or {label: Solution}", Solution)
    label = check_choice(against, {"iteration": "iteration", "seconds": "seconds"}, "against")
    panels = axes(ax, 2, (9.6, 3.8))
    for key, style in styles(named).items():
        solution = named[key]
        objective, gap = solution.trace["objective"], solution.trace["gap"]
        x = np.arange(len(objective)) if against == "iteration" else solution.trace["seconds"]
        drawn = np.isfinite(gap) & (gap > 0)
        style = style | {"marker": ".", "markersize": 5 if len(objective) <= 60 else 0}
        if len(objective) == 1:  # the exact solver keeps one entry, which a line would not show
            style["markersize"] = 9
        if np.isfinite(objective).any():
            panels[0].plot(x, objective, label=label_text(key), **style)
        panels[1].plot(x[drawn], gap[drawn], label=label_text(key), **style)
    panels[1].set_yscale("log")
    if not panels[0].lines:
        panels[0].text(0.5, 0.5, "no objective", ha="center", va="center", transform=panels[0].transAxes)
    kinds = sorted({_measures(solution.certificate.kind) for solution in named.values()})
    for panel, title in zip(panels, ("objective", " or ".join(kinds)), strict=True):
        panel.set_xlabel(label)
        panel.set_ylabel(title)
        panel.grid(alpha=0.25)
    panels[0].xaxis.get_major_locator().set_params(integer=against == "iteration")
    panels[1].xaxis.get_major_locator().set_params(integer=against == "iteration")
    panels[1].legend(loc="best")
    return panels


def _measures(kind: str) -> str:
    """The quantity that certificates of a kind bound, in a word."""
    return "gap" if kind in ("global", "ball") else kind
