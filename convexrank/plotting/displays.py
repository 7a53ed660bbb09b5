"""Displays of intervals and bands, like those of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from convexrank.data import check_choice, check_label, check_list, check_vector, shown
from convexrank.data.rankers import scores_of
from convexrank.inference import Band, Interval, precision_recall_band, push_risk_interval, roc_band
from convexrank.inference.arguments import How, measure_named, measured
from convexrank.plotting.style import axes, check_mapping, plain

_CURVES = {"roc": roc_band, "precision_recall": precision_recall_band}


class _OneRanker:
    """Displays of one ranker, for which a fitted estimator and rows can stand."""

    from_predictions: Callable[..., Self]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, name: str | None = None, **options: Any
    ) -> Self:
        """Compute the display of a fitted estimator's scores on new rows, and draw it.

        Parameters
        ----------
        estimator : object
            A fitted ranker, or a classifier of two classes.
        X, y : array-like, shapes (n, d) and (n,)
            Rows that were not in the fit, and their labels.
        name : str, optional
            Name of the ranker in the legend; by default that of its class.
        **options : object
            Other arguments of ``from_predictions``.
        """
        shown_as = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, scores_of(estimator, X), name=shown_as, **options)


@dataclass(frozen=True, eq=False)
class BandDisplay(_OneRanker):
    """A ROC or precision–recall curve with a simultaneous band for the whole true curve.

    Create it with :meth:`from_estimator` or :meth:`from_predictions`. Displays are immutable: `plot` returns a display
    with the drawn artists.

    Parameters
    ----------
    band : Band
        The result of `convexrank.inference.roc_band` or `precision_recall_band`.
    name : str, optional
        The ranker's name, for the legend.
    ax_, figure_, line_, area_ : object
        Axes, figure, curve and band after drawing; None before.

    Examples
    --------
    >>> from convexrank import plotting
    >>> display = plotting.BandDisplay.from_predictions([1, 0, 1, 0, 1, 0], [6, 5, 4, 3, 2, 1], name="mine")
    >>> display.ax_.get_ylabel()
    'true positive rate'
    """

    band: Band
    name: str | None = None
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    line_: Any = field(default=None, repr=False)
    area_: Any = field(default=None, repr=False)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        s: Any,
        *,
        curve: Literal["roc", "precision_recall"] = "roc",
        level: float = 0.95,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Compute the band of a ranker's scores, and draw it.

        Parameters
        ----------
        y, s : array-like, shape (n,)
            Labels of two classes, and scores.
        curve : {"roc", "precision_recall"}
            The curve.
        level : float
            Probability that the band contains the true curve.
        name : str, optional
            Name of the ranker in the legend.
        ax : Axes, optional
            Axes to draw in; by default a new figure.
        """
        make = check_choice(curve, _CURVES, "curve")
        return cls(make(y, s, level=level), check_label(name)).plot(ax)

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw on the Axes given, or on a new figure; other keywords go to the curve."""
        band = self.band
        (panel,) = axes(ax, 1, (5.2, 4.4))
        (line,) = panel.plot(
            band.x, band.estimate, **{"linewidth": 1.6, "label": self.name and plain(self.name)} | style
        )
        label = f"{100 * band.level:.4g} % band"
        # between two places the band is between its ends at both: lines would be narrower in the middle
        x, lower, upper = (np.repeat(part, 2) for part in (band.x, band.lower, band.upper))
        lower, upper = np.minimum(lower[:-2], lower[2:]), np.maximum(upper[:-2], upper[2:])
        area = panel.fill_between(
            x[1:-1], lower, upper, color=line.get_color(), alpha=0.18, linewidth=0, label=label
        )
        panel.set(xlabel=band.axes[0], ylabel=band.axes[1], xlim=(0, 1), ylim=(0, 1.02))
        panel.grid(alpha=0.25)
        panel.legend(loc="lower right" if band.axes[0] != "recall" else "upper right")
        return replace(self, ax_=panel, figure_=panel.figure, line_=line, area_=area)


@dataclass(frozen=True, eq=False)
class ForestDisplay:
    """Intervals of several rankers below one another: a forest plot.

    Parameters
    ----------
    intervals : dict of str to Interval
        The interval of each ranker, from top to bottom, such as ``intervals`` of a `convexrank.inference.Comparison`.
    ax_, figure_, bars_ : object
        Axes, figure and error bars after drawing; None before.

    Examples
    --------
    >>> from convexrank import plotting
    >>> rankers = {"a": [6, 5, 4, 3, 2, 1], "b": [1, 5, 4, 6, 2, 3]}
    >>> display = plotting.ForestDisplay.from_predictions([1, 0, 1, 0, 1, 0], rankers, method="exact")
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['a', 'b']
    """

    intervals: dict[Any, Interval]
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    bars_: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_mapping(self.intervals, "intervals", "{name: Interval}", Interval)

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        rankers: Any,
        metric: str = "auc",
        *,
        method: How = "auto",
        level: float = 0.95,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Compute the interval of each ranker, and draw all intervals.

        Parameters
        ----------
        y : array-like, shape (n,)
            Labels, as the measure takes them.
        rankers : mapping of str to array-like
            Scores of each ranker by its name.
        metric : str
            The measure, as in `convexrank.inference.compare`.
        method, level : str, float
            As in `convexrank.inference.auc_interval`.
        ax : Axes, optional
            Axes to draw in; by default a new figure.
        **options : object
            The options ``p``, ``k``, ``max_fpr``, ``qid`` or ``convention`` of the measure.
        """
        check_mapping(rankers, "rankers", "{name: scores}")
        measure = measure_named(metric, **options)
        rows = len(check_list(y, "y", "labels"))
        given = {name: check_vector(scores, rows, f"rankers[{name!r}]") for name, scores in rankers.items()}
        found = {name: measured(measure, y, scores, method, level) for name, scores in given.items()}
        return cls(found).plot(ax)

    @classmethod
    def from_estimators(cls, estimators: Any, X: Any, y: Any, metric: str = "auc", **options: Any) -> Self:
        """Compute the interval of each fitted estimator on new rows, and draw all intervals.

        Parameters
        ----------
        estimators : mapping of str to object
            Fitted rankers, or classifiers of two classes, by their names.
        X, y : array-like, shapes (n, d) and (n,)
            Rows that were not in the fits, and their labels.
        metric : str
            The measure, as in `convexrank.inference.compare`.
        **options : object
            Other arguments of :meth:`from_predictions`.
        """
        check_mapping(estimators, "estimators", "{name: fitted estimator}")
        rankers = {name: scores_of(estimator, X) for name, estimator in estimators.items()}
        return cls.from_predictions(y, rankers, metric, **options)

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw on the Axes given, or on a new figure; other keywords go to the error bars."""
        (panel,) = axes(ax, 1, (5.6, 1.2 + 0.4 * len(self.intervals)))
        found = list(self.intervals.values())
        middle = np.array([one.estimate for one in found])
        ends = np.array(
            [[one.estimate - one.lower for one in found], [one.upper - one.estimate for one in found]]
        )
        places = np.arange(len(found))
        look = {"fmt": "o", "color": "#0072b2", "capsize": 3, "markersize": 5} | style
        bars = panel.errorbar(middle, places, xerr=ends, **look)
        panel.set_yticks(places, [plain(name) for name in self.intervals])
        label = f"{found[0].metric}, {100 * found[0].level:.4g} % intervals"
        panel.set(xlabel=label, ylim=(len(found) - 0.5, -0.5))
        panel.grid(alpha=0.25)
        return replace(self, ax_=panel, figure_=panel.figure, bars_=bars)


@dataclass(frozen=True, eq=False)
class PushIntervalDisplay(_OneRanker):
    """The interval of the push risk against p.

    Parameters
    ----------
    p : tuple of float
        The norms, in increasing order.
    intervals : tuple of Interval
        The interval for each p.
    name : str, optional
        The ranker's name, for the legend.
    ax_, figure_, line_, area_ : object
        Axes, figure, estimates and intervals after drawing; None before.

    Examples
    --------
    >>> from convexrank import plotting
    >>> y, scores = [1, 0, 1, 0, 1, 0], [6, 5, 4, 3, 2, 1]
    >>> display = plotting.PushIntervalDisplay.from_predictions(y, scores, (1, 4))
    >>> display.p, display.ax_.get_xlabel()
    ((1, 4), 'p')
    """

    p: tuple[float, ...]
    intervals: tuple[Interval, ...]
    name: str | None = None
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    line_: Any = field(default=None, repr=False)
    area_: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.p) != len(self.intervals) or not len(self.p):
            raise ValueError(
                f"p has {len(self.p)} entries and intervals {len(self.intervals)}, expected as many, and at least one."
            )

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        s: Any,
        p: Sequence[float] = (1, 2, 4, 8, 16, 32, 64),
        *,
        method: How = "auto",
        level: float = 0.95,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Compute the interval for each p, and draw all intervals.

        Parameters
        ----------
        y, s : array-like, shape (n,)
            Labels of two classes, and scores.
        p : sequence of float
            The norms, each at least 1.
        method, level : str, float
            As in `convexrank.inference.push_risk_interval`; each interval has the level separately.
        name : str, optional
            Name of the ranker in the legend.
        ax : Axes, optional
            Axes to draw in; by default a new figure.
        """
        norms = check_list(p, "p", "norms of at least 1")
        if not norms:
            raise ValueError(f"p is {shown(p)}, expected at least one norm such as 4.")
        found = {norm: push_risk_interval(y, s, norm, method=method, level=level) for norm in norms}
        return cls(
            tuple(sorted(found)), tuple(found[norm] for norm in sorted(found)), check_label(name)
        ).plot(ax)

    def plot(self, ax: Any = None, **style: Any) -> Self:
        """Draw on the Axes given, or on a new figure; other keywords go to the line of the estimates."""
        (panel,) = axes(ax, 1, (5.2, 4.0))
        middle, low, high = (
            [getattr(one, end) for one in self.intervals] for end in ("estimate", "lower", "upper")
        )
        first = self.intervals[0]
        look = {
            "linewidth": 1.6,
            "marker": "o",
            "markersize": 4,
            "label": self.name and plain(self.name),
        } | style
        (line,) = panel.plot(self.p, middle, **look)
        label = f"{100 * first.level:.4g} %, {first.method}"
        area = panel.fill_between(
            self.p, low, high, color=line.get_color(), alpha=0.18, linewidth=0, label=label
        )
        panel.set_xscale("log", base=2)
        panel.set_xticks(self.p, [f"{norm:g}" for norm in self.p])
        panel.set(xlabel="p", ylabel="push risk", ylim=(0, 1))
        panel.grid(alpha=0.25)
        panel.legend(loc="best")
        return replace(self, ax_=panel, figure_=panel.figure, line_=line, area_=area)
