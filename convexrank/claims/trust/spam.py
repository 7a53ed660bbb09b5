"""Chapter 6: small graphs with spam."""

from __future__ import annotations

from functools import partial

import numpy as np

from convexrank.claims.claim import Comparison, at_least, at_most, claim, defined_in
from convexrank.claims.trust.updates import inside, links_of, outside, pagerank, rank_of

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


@_claim(
    "farm-below-all",
    "Figure 6.3",
    "The spam page of a farm of three comes below every legitimate page: p = q = ∞, weak links outside the norm.",
    np.inf,
    otherwise=("It does with p = 1, PageRank.", 1.0),
)
def farm_below_all(p: float) -> list[Comparison]:
    """The nine pages of the figure, the farm's target the sixth."""
    arrows = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (4, 1), (4, 0)]
    links = links_of(9, [*arrows, *((i, 5) for i in (6, 7, 8)), *((5, i) for i in (6, 7, 8))])
    rank = rank_of(lambda r: outside(links, r, p, 1.0), np.ones(9), 3000)
    return [at_most("rank of the spam page less the least legitimate", rank[5] - rank[:5].min(), 0.0, 1e-6)]


@_claim(
    "norms-resist-farms",
    "section 6.4.1, on Figure 6.3",
    "To spam the L_p ranks takes orders of magnitude more pages than to spam PageRank; two pages gain less.",
    1.0,
    corrected=("A farm of two pages gains less when out-degrees count as at least 8.", 8.0),
)
def norms_resist_farms(floor: float) -> list[Comparison]:
    """Position, from the top, of two pages that link to each other alone, among 60 with 8 links each; p = 4."""
    rng, n = np.random.default_rng(59), 62
    links = np.zeros((n, n))
    for page in range(60):
        links[rng.choice(np.delete(np.arange(60), page), 8, replace=False), page] = 1.0
    links[60, 61] = links[61, 60] = 1.0
    compared, plain = [], pagerank(links)
    for q in (4.0, 4.8):
        rank = rank_of(lambda r, q=q: inside(links, r, 4.0, 4.0 / q, floor), np.ones(n), 400)
        position, before = (int(np.sum(scores > scores[60] * (1 + 1e-9))) + 1 for scores in (rank, plain))
        compared.append(at_least(f"position of the farm, q = {q:g}", position, before, 0.5, clearly=3))
    return compared


CLAIMS = defined_in(globals())
