"""Chapter 6: small graphs with spam."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in
from convexrank_annex.claims.trust.updates import inside, links_of, outside, pagerank, rank_of

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 6)


# --- spam -----------------------------------------------------------------------------------------------------------


@_claim(
    "few-good-links-ranked-first",
    "Figure 6.2",
    "Of two pages with equal inflow, the one with fewer and better links is ranked above: p = 2.",
    2.0,
    otherwise=("It is with p = 1, PageRank.", 1.0),
)
def few_good_links_ranked_first(p: float) -> list[Comparison]:
    """The seven pages of the figure."""
    arrows = [(i, j) for i in (0, 1, 2) for j in (3, 4, 5, 6)]
    links = links_of(7, [*arrows, (3, 0), (4, 0), (4, 1), (5, 1), (5, 2), (6, 1), (6, 2)])
    rank = rank_of(lambda r: inside(links, r, p, 1.0), np.ones(7), 3000)
    return [at_least("rank of page 1 less that of page 2", rank[0] - rank[1], 0.01, 1e-6)]


def _farm(pages: int) -> Array:
    """The graph of Figure 6.3 with a farm of so many pages; the sixth page is the farm's target."""
    arrows = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (4, 1), (4, 0)]
    farm = range(6, 6 + pages)
    return links_of(6 + pages, [*arrows, *((i, 5) for i in farm), *((5, i) for i in farm)])


@_claim(
    "farm-below-all",
    "Figure 6.3",
    "The spam page of a farm of three comes below every legitimate page: p = q = ∞, weak links outside the norm.",
    np.inf,
    otherwise=("It does with p = 1, PageRank.", 1.0),
)
def farm_below_all(p: float) -> list[Comparison]:
    """The nine pages of the figure, the farm's target the sixth."""
    rank = rank_of(lambda r: outside(_farm(3), r, p, 1.0), np.ones(9), 3000)
    return [at_most("rank of the spam page less the least legitimate", rank[5] - rank[:5].min(), 0.0, 1e-6)]


@_claim(
    "norms-resist-farms",
    "section 6.4.1, on Figure 6.3",
    "To spam page 6 of Figure 6.3 takes orders of magnitude more pages with L_p rank than with PageRank.",
    range(1, 21),
    corrected=("Of farms of two pages and more; a farm of one is enough.", range(2, 21)),
)
def norms_resist_farms(sizes: Sequence[int]) -> list[Comparison]:
    """The smallest farm with which page 6 leads all legitimate pages, in those for PageRank: p = 4, q = 4 and 4.8."""

    def needed(score: Callable[[Array], Array]) -> float:
        ranks = ((size, score(_farm(size))) for size in sizes)
        return next((float(size) for size, rank in ranks if rank[5] > rank[:5].max()), np.inf)

    compared, plain = [], needed(pagerank)
    for q in (4.0, 4.8):
        found = needed(
            lambda links, q=q: rank_of(lambda r: inside(links, r, 4.0, 4.0 / q), np.ones(len(links)), 200)
        )
        compared.append(at_least(f"smallest farm over PageRank's, q = {q:g}", found / plain, 10.0, 1e-3))
    return compared


CLAIMS = defined_in(globals())
