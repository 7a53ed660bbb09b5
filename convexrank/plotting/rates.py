"""Figure of the decrease of a gap, compared with theoretical rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from convexrank.core.results import Solution
from convexrank.data import check_choice, check_list
from convexrank.plotting.style import axes, check_mapping, label_text, styles

Array = np.ndarray

_GUIDES: dict[str, Callable[[Array], Array]] = {
    "1/t": lambda t: 1.0 / t,
    "log t/t": lambda t: np.log(t) / t,
    "1/sqrt t": lambda t: 1.0 / np.sqrt(t),
}
# Guides pass through the middle of the gaps of this round, and begin there.
_ANCHOR = 10


def rates(
    solutions: Solution | Mapping[Any, Solution],
    *,
    guides: Sequence[str] = ("1/t", "log t/t"),
    ax: Any = None,
) -> Any:
    """Draw gaps against rounds, both logarithmic, with rates as lines: the rate 1/t has slope −1.

    Guides start at round 10, at the geometric mean of the gaps there; only their slopes are meaningful. The last entry
    of a trace is the gap of the certificate, which may be smaller than that of the method. This entry is left out, and
    so are entries that are not positive.

    Parameters
    ----------
    solutions : Solution, or mapping of label to Solution
        The solutions, with more than 10 rounds.
    guides : sequence of {"1/t", "log t/t", "1/sqrt t"}
        Rates to draw for comparison.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The panel.

    Raises
    ------
    ValueError, TypeError
        When there is no solution, none has more than 10 rounds, or a guide is unknown.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> solution = cr.problems.PageRankGame(graph, "kl").solve("no-regret-play")
    >>> panel = cr.plotting.rates(solution)
    >>> panel.get_xscale(), len(panel.lines)
    ('log', 3)
    """
    named = {solutions.solver: solutions} if isinstance(solutions, Solution) else solutions
    check_mapping(named, "solutions", "a Solution or {label: Solution}", Solution)
    shapes = {
        guide: check_choice(guide, _GUIDES, "guides") for guide in check_list(guides, "guides", "names")
    }
    traces = {key: np.asarray(solution.trace["gap"][:-1]) for key, solution in named.items()}
    anchors = [gap[_ANCHOR] for gap in traces.values() if len(gap) > _ANCHOR and gap[_ANCHOR] > 0]
    if not anchors:
        raise ValueError(
            f"no solution has more than {_ANCHOR} rounds; pass a smaller tol or a larger max_iter."
        )
    panel = axes(ax, 1, (6.4, 4.2))[0]
    for key, style in styles(named).items():
        gap = traces[key]
        t = np.arange(len(gap))
        drawn = (t > 0) & np.isfinite(gap) & (gap > 0)
        panel.plot(t[drawn], gap[drawn], label=label_text(key), **style)
    last = max(map(len, traces.values())) - 1
    t = np.geomspace(_ANCHOR, max(last, _ANCHOR + 1), 100)
    level = float(np.exp(np.mean(np.log(anchors))))
    for (guide, shape), dashes in zip(shapes.items(), ("--", ":", "-."), strict=False):
        panel.plot(
            t, level * shape(t) / shape(t[:1]), label=guide, color="0.6", linestyle=dashes, linewidth=1.2
        )
    panel.set(xscale="log", yscale="log", xlabel="round", ylabel="gap")
    panel.grid(alpha=0.25)
    panel.legend(loc="best")
    return panel
