"""Reliability diagram with a band."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.calibration import calibrate
from convexrank.plotting.style import axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reliability(y: Any, scores: Any, *, level: float = 0.95, groups: Any = None, ax: Any = None) -> Axes:
    """Draw the probability of the positive class against the score, with a band for all scores at once.

    Where the scores are probabilities, from 0 to 1, the diagonal is drawn as well: they are calibrated where it is in
    the band, and where it leaves the band they are not, with an error of at most 1 − level for the whole diagram. Marks
    at the lower edge are quantiles of the scores, each a hundredth of the rows.

    Parameters
    ----------
    y, scores, level, groups : array-like, array-like, float, array-like
        As for :func:`convexrank.calibration.calibrate`; rows that were in no fit.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The panel.

    Raises
    ------
    ValueError, TypeError
        As :func:`convexrank.calibration.calibrate`.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import plotting
    >>> random = np.random.default_rng(0)
    >>> p = random.random(2000)
    >>> panel = plotting.reliability(random.random(2000) < p, p)
    >>> [line.get_label() for line in panel.lines][:2]
    ['isotonic regression', 'calibrated']
    """
    found = calibrate(y, scores, level=level, groups=groups)
    (panel,) = axes(ax, 1, (5.2, 4.4))
    # ends jump at the known scores: the lower one is that of the score before, the upper one of the score after
    panel.fill_between(
        np.repeat(found.scores, 2)[1:-1],
        np.repeat(found.lower, 2)[:-2],
        np.repeat(found.upper, 2)[2:],
        color="#0072b2",
        alpha=0.2,
        linewidth=0,
        label=f"{100 * found.level:.4g} % band",
    )
    panel.plot(found.scores, found.estimate, color="#0072b2", linewidth=1.6, label="isotonic regression")
    if found.scores[0] >= 0.0 and found.scores[-1] <= 1.0:
        panel.plot([0, 1], [0, 1], color="0.5", linestyle="--", linewidth=1.0, label="calibrated")
    at = np.quantile(np.asarray(scores, dtype=np.float64), np.linspace(0.0, 1.0, 101))
    panel.plot(at, np.full(101, -0.02), "|", color="0.3", markersize=5, label="_rows")
    panel.set(xlabel="score", ylabel="probability of the positive class", ylim=(-0.04, 1.04))
    panel.grid(alpha=0.25)
    panel.legend(loc="upper left")
    return panel
