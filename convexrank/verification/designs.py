"""Which problems are verified, and random instances over designs, whose columns are built for the exact model alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.core.solving import compiled_for
from convexrank.features import Products, Stacked, Thresholds

# Random instances of a class that are asked whether a compiled solver fits.
_TRIED = 5
# l1 over the least for which all weights are 0, or l1 itself where that is not known.
_SHARES, _STRENGTH = (0.1, 0.8), 0.05


def takes_designs(problem: Any) -> bool:
    """Return whether instances of a class have linear scores of a matrix X that may be a design."""
    return getattr(problem, "takes_designs", False)


def classes(designs: bool, device: Any = None, seed: int = 0) -> list[Any]:
    """Return every registered problem; only those that take designs, or with a compiled solver, if that is asked for.

    Of some classes a compiled solver fits only instances without kinks: a few from ``seed`` on are tried.
    """
    from convexrank.problems import REGISTRY

    found: list[Any] = [problem for problem in REGISTRY.values() if not designs or takes_designs(problem)]
    if device is None:
        return found
    return [one for one in found if any(compiled_for(one.random(seed + j)) for j in range(_TRIED))]


def with_design(problem: Any, seed: int) -> Any:
    """Return the problem over a design made of its X: thresholds, monotone ones, or products beside X; with l1.

    Parameters
    ----------
    problem : LinearScores
        The instance; few rows and columns, as the exact model builds all columns.
    seed : int
        Decides on the design and on l1.
    """
    rng, X = np.random.default_rng(seed), problem.X
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    pairs = [Products(X, bins=2)] if np.count_nonzero(np.ptp(X, axis=0)) > 1 else []
    # signs and a ball do not go together
    kind = 0 if problem.penalty.ball is not None else seed % 3
    design: Any = (
        lambda: Thresholds(X, bins=6),
        lambda: Thresholds(X, bins=6, monotone={0: int(rng.choice([-1, 1]))}),
        lambda: Stacked([X, Thresholds(X, bins=3), *pairs]),
    )[kind]()
    made = problem.changed(X=design, l1=_STRENGTH, l2=float(rng.choice([0.0, 0.1])))
    if "Columnwise" in made.capabilities:
        made = made.changed(l1=float(rng.uniform(*_SHARES)) * made.l1_max())
    return made
