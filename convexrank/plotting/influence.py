"""Figure of the rows that determine a ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.core.results import Solution, check_solution
from convexrank.data import check_integer, check_list
from convexrank.plotting.style import axes
from convexrank.problems import RankingDual

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UP, _DOWN = "#0072b2", "#d55e00"


def influence(
    solution: Solution, *, top: int = 15, names: Sequence[Any] | None = None, ax: Any = None
) -> Axes:
    """Draw the rows with the largest dual weights: bars to the right pull a row up, bars to the left push it down.

    A weight is the force of the row on the scores (:attr:`convexrank.Solution.weights`). Rows of weight 0 are not
    drawn: without them the solution is the same.

    Parameters
    ----------
    solution : Solution
        A solution of a problem with a dual, or of the dual itself.
    top : int
        Largest number of rows.
    names : sequence, optional
        A name for each row of X; by default the number of the row.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with the figure.

    Raises
    ------
    TypeError, ValueError
        When ``solution`` is not a Solution, its problem has no dual, or ``names`` has another length.

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank import plotting
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> axes = plotting.influence(problem.solve(), top=3)
    >>> [label.get_text() for label in axes.get_yticklabels()]
    ['2', '0', '1']
    """
    check_solution(solution)
    limit = check_integer(top, "top", 1)
    instance = solution.instance
    weights = instance.weights(solution) if isinstance(instance, RankingDual) else solution.weights
    given = None if names is None else check_list(names, "names", "names of rows")
    if given is not None and len(given) != len(weights):
        raise ValueError(f"names has {len(given)} entries, expected {len(weights)}: one for each row of X.")
    order = np.argsort(-np.abs(weights), kind="stable")[:limit]
    order = order[weights[order] != 0.0]
    panel = axes(ax, 1, (5.2, 0.28 * len(order) + 1.2))[0]
    places = np.arange(len(order))
    panel.barh(places, weights[order], color=np.where(weights[order] > 0.0, _UP, _DOWN))
    labels = [str(row if given is None else given[row]) for row in order.tolist()]
    panel.set_yticks(places, labels)
    panel.invert_yaxis()
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.set(xlabel="dual weight (right: pulled up)", ylabel="row")
    panel.grid(axis="x", alpha=0.25)
    return panel
