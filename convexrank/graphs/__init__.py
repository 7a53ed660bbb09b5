"""Graphs in flat arrays: from edges, scipy, networkx and files; their transition matrices as operators; link farms."""

from __future__ import annotations

from convexrank.graphs.farms import Farm, FarmGain, farm_gain, inject_farm
from convexrank.graphs.graph import Graph
from convexrank.graphs.labelled import LabelledGraph, equal_inflows, small_farm
from convexrank.graphs.pieces import WebGraph
from convexrank.graphs.transition import Transition

__all__ = [
    "Farm",
    "FarmGain",
    "Graph",
    "LabelledGraph",
    "Transition",
    "WebGraph",
    "equal_inflows",
    "farm_gain",
    "inject_farm",
    "small_farm",
]
