"""A risk that is computed by numpy, as JAX sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["HostRisk"]

Array = np.ndarray


@dataclass(frozen=True)
class HostRisk:
    """A risk as a function that JAX can differentiate, by a callback. Hashable and picklable as its oracle.

    Parameters
    ----------
    oracle : callable
        Takes scores in float64, and returns the risk and its gradient.
    """

    oracle: Callable[[Array], tuple[float, Array]]

    def __call__(self, data: Any, scores: Any) -> Any:
        """Return the risk of scores laid out query by query."""
        from convexrank.backend.host_callback import value_on_host

        return value_on_host(lambda theta: self.oracle(theta.astype(np.float64)), scores)
