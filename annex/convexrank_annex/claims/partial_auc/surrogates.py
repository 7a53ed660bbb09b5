"""SVMpAUC-tight (2013, KDD): the risk as a maximum over negatives, and the hinge that follows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, claim, defined_in, equal
from convexrank_annex.claims.partial_auc.enumeration import (
    Surrogate,
    drawn,
    hinges,
    loose,
    partial_auc_error,
    tight,
)

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="partial-auc")
_ABSTRACT = "abstract, KDD 2013"


@_claim(
    2,
    "partial-auc-error-as-maximum",
    _ABSTRACT,
    "The empirical risk of the partial AUC is a maximum over subsets of the negatives.",
    max,
    otherwise=("It is a minimum over them.", min),
)
def partial_auc_error_as_maximum(choice: Callable[[list[float]], float]) -> list[Comparison]:
    """The share of wrong pairs with the highest negatives, against all subsets of as many."""
    apart = max(
        abs(
            partial_auc_error(positive, negative, count)
            - choice(
                [partial_auc_error(positive, np.array(few), count) for few in combinations(negative, count)]
            )
        )
        for positive, negative in drawn(74)
        for count in (1, 2, 3)
    )
    return [equal("error against the choice of subsets", apart, 0.0, 1e-12)]


@_claim(
    2,
    "tighter-convex-upper-bound",
    _ABSTRACT,
    "SVMpAUC-tight has a tighter convex upper bound of the risk of the partial AUC than the method before.",
    (tight, loose),
    otherwise=("The method before has the tighter one.", (loose, tight)),
)
def tighter_convex_upper_bound(surrogates: tuple[Surrogate, Surrogate]) -> list[Comparison]:
    """Both by enumeration of orders: the error, the lower one, the upper one; middles of pairs of scores."""
    lower, upper = surrogates
    cases = [(positive, negative, count) for positive, negative in drawn(75) for count in (1, 2)]
    values = np.array([(partial_auc_error(*case), lower(*case), upper(*case)) for case in cases])
    gaps = [
        0.5 * (lower(*a[:2], 2) + lower(*b[:2], 2)) - lower(0.5 * (a[0] + b[0]), 0.5 * (a[1] + b[1]), 2)
        for a, b in zip(drawn(76), drawn(77), strict=True)
    ]
    return [
        at_least("least of the bound less the error", np.min(values[:, 1] - values[:, 0]), 0.0, 1e-12),
        at_least("least of the other less it", np.min(values[:, 2] - values[:, 1]), 0.0, 1e-12),
        at_least("largest of the other less it", np.max(values[:, 2] - values[:, 1]), 0.1, 1e-12),
        at_least("least gap at a midpoint", np.min(gaps), 0.0, 1e-12),
    ]


@_claim(
    2,
    "tight-bound-is-hinge-of-highest",
    _ABSTRACT,
    "Evaluated on each subset of the negatives the earlier objective leads to a hinge of the partial AUC: the mean "
    "hinge of the pairs with the highest negatives.",
    lambda negative, count: np.sort(negative)[len(negative) - count :],
    otherwise=("It leads to the mean hinge of all pairs.", lambda negative, count: negative),
)
def tight_bound_is_hinge_of_highest(chosen: Callable[[Array, int], Array]) -> list[Comparison]:
    """Subsets and orders by enumeration, against a sum over pairs."""
    apart = max(
        abs(tight(positive, negative, count) - hinges(positive, chosen(negative, count)))
        for positive, negative in drawn(78)
        for count in (1, 2, 3)
    )
    return [equal("hinge of orders less that of pairs", apart, 0.0, 1e-12)]


CLAIMS = defined_in(globals())
