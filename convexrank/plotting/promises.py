"""Figures of what a promise costs, and of reliability with a band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from convexrank.calibration import calibrate
from convexrank.data import check_choice, check_list, check_probability, shown
from convexrank.inference.promises.kinds import read_held_out
from convexrank.inference.promises.thresholds import promise_of, threshold_on
from convexrank.plotting.style import axes, sequence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
Array = np.ndarray

# For each promise the words for its rate, the rate of the held-out rows that it is drawn against, and words for that.
_DRAWN = {
    "max_fpr": (
        "promised largest false positive rate",
        "recall",
        "share of the positives above the threshold",
    ),
    "min_precision": ("promised precision", "recall", "share of the positives above the threshold"),
    "min_recall": ("promised recall", "share", "share of the rows above the threshold"),
}
_POINTS, _LARGEST = 200, 0.5


def promises(
    y: Any,
    scores: Any,
    promise: Literal["max_fpr", "min_precision", "min_recall"] = "max_fpr",
    *,
    confidence: Sequence[float] = (0.9, 0.95, 0.99),
    ax: Any = None,
) -> Axes:
    """Draw what each promise yields on held-out rows: the share of the positives, or of the rows, above its threshold.

    There is one curve for each confidence. It ends where the rows are too few, or the ranker is too weak, for a
    promise; the dashed line has the rates of these rows, without a promise. Each point is a promise of its own: whoever
    chooses one from the figure needs other rows for the threshold.

    Parameters
    ----------
    y, scores : array-like, shape (n,)
        Labels and scores, as for :func:`convexrank.inference.threshold`.
    promise : {"max_fpr", "min_precision", "min_recall"}
        The rate that is promised.
    confidence : sequence of float
        Probabilities that a promise holds, each in (0, 1).
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The panel.

    Raises
    ------
    ValueError, TypeError
        When labels, scores or probabilities are not usable, or the promise is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import plotting
    >>> y = np.repeat([0, 1], [300, 100])
    >>> panel = plotting.promises(y, y + np.random.default_rng(0).normal(size=400))
    >>> [line.get_label() for line in panel.lines]
    ['confidence 90 %', 'confidence 95 %', 'confidence 99 %', 'these rows']
    """
    across, rate, up = check_choice(promise, _DRAWN, "promise")
    sure = [check_probability(one, "confidence") for one in check_list(confidence, "confidence", "levels")]
    if not sure:
        raise ValueError(f"confidence is {shown(confidence)}, expected at least one level such as 0.95.")
    rows = read_held_out(y, scores)
    (panel,) = axes(ax, 1, (5.6, 4.2))
    falling = promise == "max_fpr"
    least = 1.0 / len(rows.scores)
    limits = np.geomspace(least, _LARGEST, _POINTS)
    if promise == "min_precision":  # from that of all rows on
        limits = np.linspace(len(rows.negatives) * least, least, _POINTS)
    limits = limits if falling else 1.0 - limits
    for style, level in zip(sequence(len(sure)), sure, strict=True):
        found = [threshold_on(rows, promise_of(**{promise: limit}), 1.0 - level) for limit in limits]
        heights = [np.nan if one is None else one.rates[rate] for one in found]
        panel.plot(limits, heights, label=f"confidence {100 * level:.4g} %", **style)
    at = np.quantile(rows.scores, np.linspace(0.0, 1.0, _POINTS + 1)[:-1], method="lower")
    own = {"max_fpr": "fpr", "min_precision": "precision", "min_recall": "recall"}[promise]
    points = [(one[own], one[rate]) for one in map(rows.rates, np.unique(at).tolist())]
    panel.plot(
        *zip(*points, strict=True),
        label="these rows",
        color="0.6",
        linestyle="--",
        linewidth=1.0,
    )
    if falling:
        panel.set_xscale("log")
    panel.set(xlabel=across, ylabel=up, xlim=(limits.min(), limits.max()), ylim=(0, 1.02))
    panel.grid(alpha=0.25)
    panel.legend(loc="best")
    return panel


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
