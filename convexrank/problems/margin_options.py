"""Arguments of margin-equipped retargeting: what they may be, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank import divergences
from convexrank.data import check_interval, check_nonnegative, check_vector

__all__ = ["check_bound", "check_sizes", "heavier_at_the_top", "random_options", "squared_only"]

Array = np.ndarray
Sizes = float | tuple[float, ...] | Callable[[Array], Any] | None


def squared_only(given: Any) -> divergences.Divergence:
    """Return a divergence, or say that there is only one choice."""
    found = divergences.resolve(given)
    if not isinstance(found, divergences.SquaredEuclidean) or found.weights is not None:
        raise ValueError(f"divergence is {given!r}, expected 'squared', without weights.")
    return found


def check_sizes(given: Any, name: str) -> Sizes:
    """Return sizes of steps: None, a number of at least 0, a tuple of them, or a function.

    Raises
    ------
    ValueError, TypeError
        For anything else.
    """
    if given is None or callable(given):
        return given
    if np.ndim(given) == 0:
        return check_nonnegative(given, name)
    found = check_vector(given, name=name, each="step")
    if (found < 0).any():
        place = int(np.argmax(found < 0))
        raise ValueError(f"{name}[{place}] is {found[place]:g}, expected a number of at least 0.")
    return tuple(found.tolist())


def check_bound(given: Any) -> tuple[float, float] | None:
    """Return a pair of bounds; a number is an upper one.

    Raises
    ------
    ValueError, TypeError
        For anything but None, a number, or a pair (lower, upper) that holds a number.
    """
    if given is None:
        return None
    return check_interval((None, given) if np.ndim(given) == 0 else given, "bound")


def heavier_at_the_top(rank: Array) -> Array:
    """Return 1/log₂(1 + rank), the discount of DCG: a margin or reward that is larger where fewer rows are above."""
    return 1.0 / np.log2(1.0 + rank)


def random_options(rng: np.random.Generator, y: Array) -> dict[str, Any]:
    """Draw margins, rewards, bounds and strengths for random instances."""
    levels = rng.uniform(0.0, 1.0, size=len(np.unique(y)) - 1)
    margins: tuple[Any, ...] = (1.0, tuple(levels.tolist()), heavier_at_the_top)
    options: dict[str, Any] = {
        "margin": margins[int(rng.integers(3))],
        "normalize": bool(rng.random() < 0.7),
        "l2": float(rng.choice([1e-2, 0.3])),
        "l1": float(rng.choice([0.0, 0.0, 0.01])),
    }
    if rng.random() < 0.4:
        options["reward"] = float(rng.choice([0.05, 0.3]))
    if rng.random() < 0.5:
        options["bound"] = [(-1.5, 2.0), (None, 0.5), (0.0, 4.0)][int(rng.integers(3))]
    if rng.random() < 0.3:
        options |= {"target_reg": 0.5, "score_reg": float(rng.choice([0.0, 0.2]))}
    return options
