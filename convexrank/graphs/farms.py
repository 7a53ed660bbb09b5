"""Link farms: pages with artificial links that are added to a graph, to measure their effect on a rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np

from convexrank.backend.progress import progress_bar
from convexrank.data import check_choice, check_flag, check_integer, check_list, check_vector, shown
from convexrank.data.messages import progress_as_verbose
from convexrank.data.nodes import as_frame
from convexrank.graphs.graph import Graph

# More pages than these are a mistake.
_MOST_HELPERS = 10_000_000

Array = np.ndarray

# Ranks closer than this share are the same: solves end at such a tolerance.
_ALIKE = 1e-7


def _star(pages: Array) -> list[tuple[Array, Array]]:
    target, helpers = np.repeat(pages[:1], len(pages) - 1), pages[1:]
    return [(helpers, target), (target, helpers)]


def _clique(pages: Array) -> list[tuple[Array, Array]]:
    source, target = np.repeat(pages, len(pages)), np.tile(pages, len(pages))
    return [(source[source != target], target[source != target])]


def _pairs(pages: Array) -> list[tuple[Array, Array]]:
    even = pages[: len(pages) // 2 * 2]
    return [(even[::2], even[1::2]), (even[1::2], even[::2])]


def _alliance(pages: Array) -> list[tuple[Array, Array]]:
    """The two targets are the first two pages; helpers take turns."""
    if len(pages) < 2:
        return []
    helpers = pages[2:]
    fed = pages[np.arange(len(helpers)) % 2]
    return [(pages[:1], pages[1:2]), (pages[1:2], pages[:1]), (helpers, fed)]


#: What each kind of farm links; the target is the first page.
FARMS: dict[str, Callable[[Array], list[tuple[Array, Array]]]] = {
    "star": _star,
    "funnel": lambda pages: [(pages[1:], np.repeat(pages[:1], len(pages) - 1))],
    "clique": _clique,
    "ring": lambda pages: [(pages, np.roll(pages, -1))] if len(pages) > 1 else [],
    "pairs": _pairs,
    "alliance": _alliance,
}


@dataclass(frozen=True, eq=False)
class Farm:
    """A graph that contains a link farm.

    Parameters
    ----------
    graph : Graph
        The graph; the new pages of the farm are the last nodes.
    spam : ndarray of bool, shape (n,)
        Whether each page belongs to the farm, including the target.
    target : int
        The number of the target, the page that the farm lifts.

    Examples
    --------
    >>> import convexrank as cr
    >>> web = cr.graphs.equal_inflows()
    >>> farm = cr.graphs.inject_farm(web, "star", helpers=20)
    >>> farm.graph.n, farm.target, int(farm.spam.sum())
    (28, 7, 21)
    >>> int(cr.pagerank(farm.graph).argmax()), farm.target
    (7, 7)
    """

    graph: Graph
    spam: Array
    target: int


def inject_farm(
    graph: Graph, kind: str = "star", helpers: int = 10, *, target: Any = None, hijacked: int = 0, seed: int = 0
) -> Farm:  # fmt: skip
    """Add a link farm to a graph: a target page, and helpers with artificial links.

    ============ ==================================================================================================
    kind         links
    ============ ==================================================================================================
    "star"       every helper to the target, and the target back to every helper
    "funnel"     every helper to the target, which links to nobody
    "clique"     all pages of the farm to each other
    "ring"       each page to the next
    "pairs"      two and two to each other, the target and the first helper among them: with one helper the
                 two-page farm
    "alliance"   two targets to each other and nowhere else; the other helpers to one of them in turn
    ============ ==================================================================================================

    No farm links out to others. All new links have weight 1.

    Parameters
    ----------
    graph : Graph
        The graph without the farm; it is not changed.
    kind : str
        One of the kinds in the table.
    helpers : int
        Number of new pages beside the target; 0 adds the target alone.
    target : int or name, optional
        A page of the graph as the target, which keeps its links; by default a new page.
    hijacked : int
        Number of pages of the graph, drawn at random, that receive a link to the target, for example through comments
        that anyone may write.
    seed : int
        Seed of the random draws.

    Returns
    -------
    Farm
        The new graph, indicators of spam, and the target.

    Raises
    ------
    ValueError, TypeError
        When the kind is unknown, or a number is out of range.

    References
    ----------
    Stars, alliances: Z. Gyöngyi, H. Garcia-Molina, Link spam alliances, VLDB (2005). The star with three helpers:
    dissertation on learning to rank, figure 6.3.

    Examples
    --------
    >>> import convexrank as cr
    >>> web = cr.graphs.equal_inflows()
    >>> pair = cr.graphs.inject_farm(web, "pairs", helpers=1)
    >>> source, target, _ = pair.graph.edges()
    >>> [(int(s), int(t)) for s, t in zip(source, target) if s >= web.n]
    [(8, 7), (7, 8)]
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"graph is a {type(graph).__name__}, expected a convexrank.Graph.")
    links = check_choice(kind, FARMS, "kind")
    helpers, seed = check_integer(helpers, "helpers", 0), check_integer(seed, "seed", 0)
    check_integer(hijacked, "hijacked", 0)
    if helpers > _MOST_HELPERS:
        raise ValueError(f"helpers is {helpers}, expected at most {_MOST_HELPERS}.")
    n = graph.n
    if target is not None and graph.names is not None:
        target = int(graph.numbers([target], "target")[0])
    elif target is not None and check_integer(target, "target", 0) >= n:
        raise ValueError(f"target is {target}, expected a page in 0..{n - 1}, or None for a new one.")
    if hijacked > n - (target is not None):
        raise ValueError(f"hijacked is {hijacked}, expected at most the other pages of the graph, of {n}.")
    new = n + np.arange(helpers + (target is None))
    pages = new if target is None else np.append(target, new)
    others = np.arange(n) if target is None else np.delete(np.arange(n), target)
    drawn = np.random.default_rng(seed).choice(others, hijacked, replace=False)
    made = [*links(pages), (drawn, np.full(hijacked, pages[0]))]
    source, aim, weight = graph.edges()
    sources, aims = (
        np.concatenate([old, *ends]) for old, ends in zip((source, aim), zip(*made, strict=True), strict=True)
    )
    weights = None if graph.weights is None else np.append(weight, np.ones(len(sources) - graph.m))
    names = None if graph.names is None else (*graph.names, *_new_names(graph.names, len(new)))
    spam = np.zeros(n + len(new), dtype=bool)
    spam[pages] = True
    return Farm(Graph.from_edges(sources, aims, weights, len(spam), names=names), spam, int(pages[0]))


def _new_names(taken: tuple[Any, ...], number: int) -> list[str]:
    """Names for the pages of a farm, beside those of farms before it."""
    used = set(taken)
    return list(islice((name for i in count(1) if (name := f"farm {i}") not in used), number))


@dataclass(frozen=True)
class FarmGain:
    """Share, gain and place of a target for farms of several sizes.

    Parameters
    ----------
    helpers : ndarray of int
        Numbers of helpers.
    share : ndarray
        The target's share of the whole rank, for each size.
    gain : ndarray
        The share divided by the share without helpers.
    position : ndarray of int
        The place of the target: one more than the number of pages above it by more than 1e-7 of its rank.
        Closer pages count as alike, however exact ``rank`` is: a solve by default leaves their order open.

    Examples
    --------
    >>> import convexrank as cr
    >>> found = cr.graphs.farm_gain(cr.graphs.small_farm(), cr.pagerank, [5], "clique", target=0)
    >>> found.position.tolist()
    [2]
    """

    helpers: Array
    share: Array
    gain: Array
    position: Array

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row for each size: ``share``, ``gain`` and ``position``."""
        columns = {"share": self.share, "gain": self.gain, "position": self.position}
        return as_frame(columns, self.helpers.tolist(), "helpers")


@progress_as_verbose
def farm_gain(
    graph: Graph,
    rank: Callable[[Graph], Any],
    helpers: Sequence[int],
    kind: str = "star",
    *,
    target: Any = None,
    hijacked: int = 0,
    seed: int = 0,
    verbose: bool = False,
) -> FarmGain:
    """Measure how much a farm lifts its target, as a function of the number of helpers.

    Parameters
    ----------
    graph : Graph
        The graph without the farm.
    rank : callable
        A function that takes a graph and returns n scores of at least 0, such as :func:`convexrank.pagerank`.
    helpers : sequence of int
        The numbers of helpers.
    kind, target, hijacked, seed : str, int or name, int, int
        As for :func:`inject_farm`; hijacked pages are the same for all sizes.
    verbose : bool
        Whether to show a progress bar.

    Returns
    -------
    FarmGain
        Shares, gains and positions, one for each size.

    Raises
    ------
    ValueError, TypeError
        When an argument of :func:`inject_farm` is out of range, or a rank is of another shape, or negative.

    Examples
    --------
    >>> import convexrank as cr
    >>> web = cr.graphs.equal_inflows()
    >>> found = cr.graphs.farm_gain(web, cr.pagerank, [0, 10, 20], "star", target=3)
    >>> found.gain.round(2).tolist(), found.position.tolist()
    ([1.0, 2.74, 3.08], [4, 1, 1])
    """
    sizes = [check_integer(size, "helpers", 0) for size in check_list(helpers, "helpers", "integers")]
    if not callable(rank):
        raise TypeError(f"rank is {shown(rank)}, expected a function of a graph.")

    def of(size: int) -> tuple[float, int]:
        farm = inject_farm(graph, kind, size, target=target, hijacked=hijacked, seed=seed)
        scores = check_vector(rank(farm.graph), farm.graph.n, "rank(graph)")
        if scores.min() < 0.0 or not scores.any():
            raise ValueError(
                "rank(graph) has negative values, or none above 0; expected scores of at least 0."
            )
        mine = scores[farm.target]
        return float(mine / scores.sum()), int((scores > mine * (1.0 + _ALIKE)).sum()) + 1

    shows = check_flag(verbose, "verbose")
    alone, _ = of(0)
    found = [of(size) for size in progress_bar(shows, what="farms", over=sizes)]
    share = np.array([one for one, _ in found])
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = share / alone
    return FarmGain(np.array(sizes), share, gain, np.array([place for _, place in found]))
