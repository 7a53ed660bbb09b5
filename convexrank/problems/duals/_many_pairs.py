"""Limit on the pairs that have a multiplier each, or a term of an exact model."""

from __future__ import annotations

# Pairs with a multiplier each, or a term of an exact model.
_MOST_PAIRS = 5_000_000
# What has something for each pair, and what may be taken in its place.
_DUAL, MODEL = ("the dual has a multiplier", ""), ("the exact model has a term", "a fast solver, ")


def refuse_many_pairs(count: int, asked: tuple[str, str] = _DUAL) -> None:
    """Refuse a dual or an exact model that would not fit into memory."""
    if count > _MOST_PAIRS:
        what, other = asked
        raise ValueError(
            f"{what} for each of {count} pairs, expected at most {_MOST_PAIRS}; take fewer rows, {other}or a risk that "
            "is no sum over pairs, such as a PNormPush."
        )
