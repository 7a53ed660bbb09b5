"""Figures. They need matplotlib (without it they raise an ImportError): ``pip install 'convexrank[plot]'``.

Every function draws on given Axes, or on a new figure, and returns the Axes (``ax.figure.savefig(...)``
saves the figure). No function shows a figure or changes a setting of matplotlib.

Displays are like those of scikit-learn: ``from_estimator`` and ``from_predictions`` compute and draw a
display, ``plot`` draws it again, and ``ax_`` and ``figure_`` belong to the display that these methods return.
"""

from __future__ import annotations

from convexrank.plotting.convergence import rates, selection_frequencies, trace, weight_intervals
from convexrank.plotting.displays import BandDisplay, ForestDisplay, PushIntervalDisplay
from convexrank.plotting.graphs import graph, influence, intervals, ranks
from convexrank.plotting.pairs import pair_contributions, pair_shares
from convexrank.plotting.ranking import precision_at_top, promises, reliability, roc
from convexrank.plotting.shapes import explanation, link, shapes

__all__ = [
    "BandDisplay",
    "ForestDisplay",
    "PushIntervalDisplay",
    "explanation",
    "graph",
    "influence",
    "intervals",
    "link",
    "pair_contributions",
    "pair_shares",
    "precision_at_top",
    "promises",
    "ranks",
    "rates",
    "reliability",
    "roc",
    "selection_frequencies",
    "shapes",
    "trace",
    "weight_intervals",
]
