"""Graphs in flat arrays: from edges, scipy, networkx and files; their transition matrices as operators."""

from __future__ import annotations

from convexrank.graphs.graph import Graph
from convexrank.graphs.labelled import LabelledGraph
from convexrank.graphs.transition import Transition

__all__ = ["Graph", "LabelledGraph", "Transition"]
