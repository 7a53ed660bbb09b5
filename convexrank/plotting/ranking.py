"""Figures of the quality of rankings: ROC curves, precision at the top, costs of a promise, reliability with a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from convexrank.calibration import calibrate
from convexrank.data import (
    check_binary_labels,
    check_choice,
    check_flag,
    check_integer,
    check_list,
    check_positive,
    check_probability,
    check_vector,
    read_array,
    shown,
)
from convexrank.data.checks.values import is_integer
from convexrank.data.rankers import scores_of
from convexrank.inference.promises import promise_of, read_held_out, threshold_on
from convexrank.metrics import precision_at
from convexrank.metrics.queries import tally
from convexrank.plotting.style import axes, check_mapping, label_text, sequence, styles

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


def roc(
    curves: Any, scores: Any = None, *, zoom: float | None = 0.1, rate: bool = False, ax: Any = None
) -> Axes | Array:
    r"""Draw ROC curves, and their enlarged left ends, which show the top of each list.

    The axes are those of the 2009 paper: true positives against false positives, as counts. The curve of a ranking is
    the polygon through one point for each distinct score, so a tie is a slanted piece.

    Parameters
    ----------
    curves : array-like of shape (n,), or mapping of label to (y, scores) or (estimator, X, y)
        The labels of one ranking, or the curves by label: labels and scores, or a fitted estimator and the rows and
        labels on which to judge it. A number as label is a value of p, and determines the colour.
    scores : array-like of shape (n,), optional
        The scores of one ranking, or a mapping of scores of the same rows by label; curves are then the labels.
    zoom : float or None
        Share of the negatives in the enlarged panel, in (0, 1]; None leaves that panel out.
    rate : bool
        Whether to use rates from 0 to 1 instead of counts. Required when the data sets of the curves differ in size.
    ax : Axes, or two Axes, optional
        Axes for the full and the enlarged panel, or one if zoom is None; by default a new figure.

    Returns
    -------
    Axes, or ndarray of two Axes
        One when zoom is None.

    Raises
    ------
    ValueError, TypeError
        When curves is empty, zoom is out of range, ax is not of the right number, or labels and scores do not fit.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), figures 5 to 7.

    Examples
    --------
    >>> from convexrank import plotting
    >>> full, top = plotting.roc([1, 0, 1, 0], [4, 3, 2, 1])
    >>> full.get_xlabel()
    'false positives'
    >>> import convexrank as cr
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> full, top = plotting.roc({"push": (cr.PushRanker(l2=0.1).fit(X, y), X, y)})
    >>> full.lines[0].get_ydata().tolist()
    [0, 1, 2, 2, 2]
    """
    if scores is not None:
        if isinstance(curves, Mapping):
            raise TypeError(
                "curves is a mapping, which has the scores; leave scores out, or pass labels first."
            )
        named = scores if isinstance(scores, Mapping) else {"": scores}
        positive = check_binary_labels(curves, name="curves")
        for found in named.values():
            length = len(check_vector(found, name="scores"))
            if len(positive) != length:
                raise ValueError(
                    f"scores has {length} entries and curves has {len(positive)} labels, expected as many; pass both "
                    "of the same rows."
                )
        curves = {label: (positive, found) for label, found in named.items()}
    check_mapping(curves, "curves", "{label: (y, scores)}, or labels and scores")
    curves = {label: _scored(curve) for label, curve in curves.items()}
    _check_rankings(curves, "curves")
    rate = check_flag(rate, "rate")
    if zoom is not None and check_positive(zoom, "zoom") > 1:
        raise ValueError(
            f"zoom is {zoom}, expected a share of the negatives in (0, 1], or None for no second panel."
        )
    zoom = None if zoom is None else float(zoom)
    panels = axes(ax, 1 if zoom is None else 2, (5.2, 4.4) if zoom is None else (9.6, 4.4))
    points = {label: roc_points(y, scores, rate) for label, (y, scores) in curves.items()}
    for label, style in styles(curves).items():
        for panel in panels:
            panel.plot(*points[label], label=label_text(label), **style)
    unit = " rate" if rate else "s"
    for panel in panels:
        panel.set(xlabel=f"false positive{unit}", ylabel=f"true positive{unit}")
        panel.grid(alpha=0.25)
        for axis in (panel.xaxis, panel.yaxis):
            axis.get_major_locator().set_params(integer=not rate)
    widest = max(float(x[-1]) for x, _ in points.values())
    panels[0].set_title("ROC")
    if list(curves) != [""]:
        panels[0].legend(loc="lower right")
    if zoom is None:
        return panels[0]
    edge = zoom * widest
    # from where the lowest curve leaves the axis to where the highest one leaves the panel
    low = min(float(y[x == 0].max()) for x, y in points.values())
    high = max(float(np.interp(edge, x, y)) for x, y in points.values())
    panels[1].set(xlim=(0, edge), title=f"the first {100 * zoom:g} % of the negatives")
    if high > low:
        margin = 0.06 * (high - low)
        panels[1].set_ylim(low - margin, high + margin)
    return panels


def _scored(curve: Any) -> Any:
    """Labels and scores, where an estimator is given with rows and labels."""
    if not isinstance(curve, tuple | list) or len(curve) != 3:
        return curve
    estimator, X, y = curve
    return y, scores_of(estimator, X)


def _check_rankings(rankings: Mapping[Any, Any], name: str) -> None:
    for key, pair in rankings.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(f"{name}[{shown(key)}] is {shown(pair)}, expected a pair (y, scores).")


def roc_points(y: Any, scores: Any, rate: bool = False) -> tuple[Array, Array]:
    """Return false and true positives at every distinct score from the highest down, starting from (0, 0)."""
    counted = tally(y, scores)
    false, true = (np.concatenate([[0], c.cumsum()]) for c in (counted.negatives, counted.positives))
    return (false / false[-1], true / true[-1]) if rate else (false, true)


def precision_at_top(
    rankings: Mapping[Any, tuple[Any, Any]], fractions: Sequence[float] = (0.01, 0.05, 0.1), *, ax: Any = None
) -> Axes:
    """Draw the precision at the top of the list against p, one curve for each fraction of the list.

    The values of p are at equal distances, in the order given, so that ∞ and other methods fit on the axis.

    Parameters
    ----------
    rankings : mapping of p to (y, scores)
        Keys are numbers (∞ included) or names.
    fractions : sequence of float or int
        Shares of the list in (0, 1], or integer numbers of rows, as in :func:`convexrank.metrics.precision_at`.
    ax : Axes, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes
        The Axes with one line for each fraction.

    Raises
    ------
    ValueError, TypeError
        When rankings or fractions are empty or out of range, or labels and scores do not fit.

    Examples
    --------
    >>> from convexrank import plotting
    >>> y = [1, 0, 1, 0]
    >>> ax = plotting.precision_at_top({1: (y, [3, 4, 2, 1]), 8: (y, [4, 3, 2, 1])}, fractions=[1, 0.5])
    >>> ax.lines[0].get_ydata().tolist()
    [0.0, 1.0]
    """
    check_mapping(rankings, "rankings", "{p: (y, scores)}")
    _check_rankings(rankings, "rankings")
    fractions = check_list(fractions, "fractions", "counts or shares")
    for place, fraction in enumerate(fractions):
        if is_integer(fraction):
            most = min(len(read_array(y, "y")) for y, _ in rankings.values())
            if check_integer(fraction, f"fractions[{place}]", 1) > most:
                raise ValueError(
                    f"fractions[{place}] is {fraction}, expected at most {most}, the number of rows."
                )
        else:
            # a float of less precision stays one: its own digits are read
            if check_positive(fraction, f"fractions[{place}]") > 1.0:
                raise ValueError(
                    f"fractions[{place}] is {fraction}, expected a share of at most 1, or an integer count of rows."
                )
    if not fractions:
        raise ValueError("fractions is empty; pass shares such as [0.01, 0.1].")
    (panel,) = axes(ax, 1, (5.6, 4.2))
    x = np.arange(len(rankings))
    # curves often coincide at precision 1: markers shrink, so that each leaves a rim of those below it
    sizes = np.linspace(9, 4, len(fractions))
    for style, size, fraction in zip(sequence(len(fractions)), sizes, fractions, strict=True):
        heights = [precision_at(y, scores, fraction) for y, scores in rankings.values()]
        count = is_integer(fraction)
        name = f"first {fraction}" if count else f"top {100 * fraction:g} %"
        panel.plot(x, heights, marker="o", markersize=size, label=name, **style)
    panel.set_xticks(x, [label_text(key, bare=True) for key in rankings])
    panel.set(xlabel="p", ylabel="precision")
    panel.grid(alpha=0.25)
    panel.legend(loc="best")
    return panel
