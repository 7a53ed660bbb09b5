"""Figures of paths: weights, certified gaps and a metric against the parameter."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.core.paths import Path
from convexrank.data import check_integer
from convexrank.plotting.style import axes

Array = np.ndarray


def weights_and_gaps(path: Path, *, ax: Any = None, most: int = 20) -> Array:
    """Draw a path; see :meth:`convexrank.Path.plot`."""
    count, most = 2 + (path.metric is not None), check_integer(most, "most", 1)
    panels = axes(ax, count, (6.0, 2.0 + 1.6 * count), 1)
    for panel in panels[:-1] if ax is None else ():
        panel.sharex(panels[-1])
        panel.tick_params(labelbottom=False)
    weights = path.coefficients.reshape(len(path), -1)
    for place in np.argsort(-np.abs(weights).max(axis=0))[:most]:
        panels[0].plot(path.values, weights[:, place], linewidth=1.2)
    panels[0].set_ylabel("rank" if path.parameter == "alpha" else "weight")
    panels[1].plot(path.values, np.maximum(path.gaps, np.finfo(float).tiny), "k.-", linewidth=1.0)
    panels[1].set(ylabel="certified gap", yscale="log")
    if path.metric is not None:
        panels[2].plot(path.values, path.metric, "k.-", linewidth=1.0)
        panels[2].set_ylabel("metric")
    if path.values.min() > 0 and path.parameter != "alpha":
        for panel in panels:
            panel.set_xscale("log")
    panels[-1].set_xlabel(path.parameter)
    if path.parameter in ("l1", "l2"):
        panels[0].invert_xaxis()
    return panels
