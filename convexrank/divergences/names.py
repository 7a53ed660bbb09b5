"""Table of the accepted names of divergences."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from convexrank.data import check_choice, check_hashable
from convexrank.divergences.base import Divergence
from convexrank.divergences.generators.kl import KL
from convexrank.divergences.generators.separable import (
    BitEntropy,
    GeneralizedI,
    ItakuraSaito,
    SquaredEuclidean,
)

NAMES: dict[str, Callable[[], Divergence]] = {
    "bit_entropy": BitEntropy,
    "generalized_i": GeneralizedI,
    "itakura_saito": ItakuraSaito,
    "kl": KL,
    "shifted_generalized_i": partial(GeneralizedI, shift=1.0),
    "squared": SquaredEuclidean,
}


def resolve(divergence: Divergence | str) -> Divergence:
    """Accept a divergence object or its name.

    Parameters
    ----------
    divergence : Divergence or str
        An object, or one of: bit_entropy, generalized_i, itakura_saito, kl, shifted_generalized_i, squared.

    Returns
    -------
    Divergence
        The object.

    Raises
    ------
    ValueError, TypeError
        For an unknown name, a class in place of an object, or anything else.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.resolve("squared")
    SquaredEuclidean(weights=None)
    """
    if isinstance(divergence, str):
        return check_choice(divergence, dict(NAMES), "divergence")()
    if not isinstance(divergence, Divergence):
        raise TypeError(
            f"divergence is {divergence!r}, expected a name ({', '.join(sorted(NAMES))}) or an object such as "
            "divergences.SquaredEuclidean()."
        )
    check_hashable(divergence, "divergence")
    return divergence


def name_of(divergence: Any, allowed: Iterable[str]) -> str:
    """Return the name of a divergence where only some will do, and they are told apart by name.

    Parameters
    ----------
    divergence : Divergence or str
        A name, or an object of the named kind.
    allowed : iterable of str
        The names that will do.

    Raises
    ------
    ValueError
        For anything else; the message lists the names.

    Examples
    --------
    >>> from convexrank import divergences
    >>> name_of(divergences.GeneralizedI(), ["squared", "generalized_i"])
    'generalized_i'
    """
    names = {name: name for name in allowed}
    if isinstance(divergence, Divergence):
        divergence = next((name for name in names if divergence == NAMES[name]()), divergence)
    return check_choice(divergence, names, "divergence")
