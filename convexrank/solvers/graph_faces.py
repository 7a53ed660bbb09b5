"""What families of methods ask of a problem on a graph, or of a game: the faces of such problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.core.capabilities import Face, Proximal
from convexrank.graphs import Graph, Transition
from convexrank.graphs.lpq_map import NormMap, NormPart

Array = np.ndarray


@dataclass(frozen=True)
class AffineFixedPoint(Face):
    """A fixed point x = αTx + (1−α)v on a graph, one for each operator: what a sweep over the nodes needs.

    Parameters
    ----------
    graph : Graph
        The graph.
    alpha : float
        The damping factor, below 1.
    operators : sequence of Transition
        The operators, one for each column of x.
    teleport : ndarray, shape (n,) or (n, k)
        The distributions v.
    """

    graph: Graph
    alpha: float
    operators: Sequence[Transition]
    teleport: Array


@dataclass(frozen=True)
class NormFixedPoint(Face):
    """A fixed point whose parts, one after the other in x, are maps of norms over the edges of a graph.

    Parameters
    ----------
    graph : Graph
        The graph.
    parts : tuple of NormPart
        The parts.
    """

    graph: Graph
    parts: tuple[NormPart, ...]


@dataclass(frozen=True)
class NormSweeps(Face):
    """A rank r proportional to its image by one map of finite norms over the edges of a graph in memory.

    Parameters
    ----------
    image : NormMap
        The map, not normalised.
    """

    image: NormMap


@dataclass(frozen=True)
class Multimodal(Face):
    """Local minima: a step that never raises the objective, points to start from, and what is left to gain.

    Parameters
    ----------
    floor : float
        A value that the objective is never below.
    improve : callable
        Takes a point to one whose objective is not larger.
    random_start : callable
        Draws a point from a generator of random numbers.
    fixed_starts : callable
        Returns points to start from whatever the seed; none where no place is likelier than another.
    stationarity : callable
        Takes a point to what a step gains to first order; 0 at a local minimum.
    """

    floor: float
    improve: Callable[[Array], Array]
    random_start: Callable[[np.random.Generator], Array]
    fixed_starts: Callable[[], Sequence[Array]]
    stationarity: Callable[[Array], float]


@dataclass(frozen=True)
class Flows(Face):
    """Flows through candidates, in balance between their owners, with a gain each: ranks of a mixture of chains.

    Parameters
    ----------
    n : int
        Number of owners.
    candidates : ndarray, shape (K, n)
        The distributions over owners, one per row.
    owners : ndarray, shape (K,)
        The owner of each candidate, in order.
    gains : ndarray, shape (K,)
        The gain per unit of each flow.
    dual : callable
        The dual function at multipliers of the balance, an upper bound on what all flows gain.
    """

    n: int
    candidates: Array
    owners: Array
    gains: Array
    dual: Callable[[Array], float]


@dataclass(frozen=True)
class Saddle(Face):
    """A payoff M(s, w), affine in s and concave in w, with best responses; w, which maximises, is the unknown.

    Parameters
    ----------
    is_simplex : bool
        Whether w may be any distribution, and nothing else.
    payoff : callable
        The payoff, of s and w.
    payoff_gradient : callable
        Its gradient with respect to w, of s and w.
    best_response : callable
        Takes w to the s with the least payoff against it.
    maximizer : callable
        Takes s to the w with the greatest payoff against it.
    replies : callable
        Takes s and a move to a function of γ: the best w against s + γ(move − s), and the slope of its payoff in γ.
    supporting_move : callable
        Takes w to an s against which w is about the best reply.
    dual : callable
        Returns the problem of s alone: the least of the greatest payoffs.
    """

    is_simplex: bool
    payoff: Callable[[Array, Array], float]
    payoff_gradient: Callable[[Array, Array], Array]
    best_response: Callable[[Array], Array]
    maximizer: Callable[[Array], Array]
    replies: Callable[[Array, Array], Callable[[float], tuple[Array, float]]]
    supporting_move: Callable[[Array], Array]
    dual: Callable[[], Proximal]


@dataclass(frozen=True)
class JaxSaddle(Face):
    """A game that JAX can trace.

    Parameters
    ----------
    game : callable
        Returns the functions of a :class:`~convexrank.solvers.jitted.programs.game.Game`, as pytrees.
    """

    game: Callable[[], Any]
