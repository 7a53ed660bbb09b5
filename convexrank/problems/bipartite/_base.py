"""Base class of the bipartite problems: positives, negatives, their weights, and random instances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.results import Status
from convexrank.modelling.groups import Groups
from convexrank.modelling.recession import recession
from convexrank.problems._formulation import Formulation

Array = np.ndarray

# Identical rows may get scores that differ in the last bits.
_ROUNDING = 1e-14
# Rows of each class whose scores tell that a margin is too small.
_SOME = 50


class Bipartite(Formulation):
    """Base of the problems that rank positives above negatives.

    Weights act as repeated rows: a row of weight 2 counts as two rows, a row of weight 0 is left out. With queries the
    risk is the sum of those of the queries, each with its own positives and negatives.
    """

    def _checked_labels(self, rows: int) -> Array:
        counted = self._positives if self.sample_weight is None else self._positives[self.sample_weight > 0]
        for name, some in {"positive": counted.any(), "negative": not counted.all()}.items():
            if not some:
                raise ValueError(
                    f"sample_weight leaves no {name} example; give at least one a weight above 0."
                )
        return np.asarray(self.y)

    @cached_property
    def _groups(self) -> Groups:
        return Groups(self.y, self._queries, self.sample_weight, self._positives)

    def _data_notes(self) -> list[str]:
        """Return the numbers of both classes, and whether rows have weights."""
        made = "y" in self.__dict__ and isinstance(self.y, np.ndarray)
        counts = [f"{len(self.positives)} positive / {len(self.negatives)} negative"] if made else []
        return [*counts, *super()._data_notes()]

    @cached_property
    def positives(self) -> Array:
        """Row numbers of the positives, I of them."""
        return self._rows_of(True)

    @cached_property
    def negatives(self) -> Array:
        """Row numbers of the negatives, K of them."""
        return self._rows_of(False)

    def _rows_of(self, positive: bool) -> Array:
        asked = self._positives == positive
        return np.flatnonzero(asked if self.sample_weight is None else asked & (self.sample_weight > 0))

    def _weights_of(self, rows: Array) -> Array:
        return np.ones(len(rows)) if self.sample_weight is None else self.sample_weight[rows]

    @cached_property
    def _positive_weights(self) -> Array:
        """Weights of the positives, ones by default."""
        return self._weights_of(self.positives)

    @cached_property
    def _negative_weights(self) -> Array:
        """Weights of the negatives, ones by default."""
        return self._weights_of(self.negatives)

    @cached_property
    def _positive_shares(self) -> Array:
        """Shares of the positives of their total weight: 1/I each by default."""
        return self._positive_weights / self._positive_weights.sum()

    def margin(self, w: Array) -> float:
        """Return the lowest positive score less the highest negative score, the least of all queries."""
        scores, upper, lower = self.scores(w), self._groups.positive.axis, self._groups.negative.axis
        return float((-upper.highest(-scores[upper.rows]) - lower.highest(scores[lower.rows])).min())

    def _is_separating(self, w: Array) -> bool:
        """Whether every positive scores strictly above every negative, by more than the rounding of the scores."""
        return self.margin(w) > _ROUNDING * float(np.abs(self.scores(w)).max())

    @cached_property
    def _some_of_each(self) -> tuple[Any, Any] | None:
        """A few rows of each class; None where taking them is not cheap."""
        if not self._held.built:
            return None
        return self.X[self.positives[:_SOME]], self.X[self.negatives[:_SOME]]

    def _margin_of_some(self, w: Array) -> float:
        """Return what the margin is at most, from a few rows; infinity where taking them is not cheap."""
        if self._some_of_each is None:
            return math.inf
        positive, negative = self._some_of_each
        return float((positive @ w).min() - (negative @ w).max())

    @cached_property
    def _fall(self) -> float:
        """Return the fall of the risk per unit of margin along a separating direction."""
        in_memory = self._stream is None
        return -recession(self._form, self._positives[slice(None) if in_memory else self._two_rows()] * 1.0)

    def _terminal_status(self, w: Array) -> Status | None:
        """Recognise separable data, and l1 too weak to bound a logarithm along a separating direction."""
        if self.penalty.bounded:
            return None
        if math.isfinite(self._risk_infimum):
            return super()._terminal_status(w)
        # the margin of a few rows is at least that of all, and nearly always too low already
        if self.qid is None and self._centred is None and self.l1 > 0:
            if self._fall * self._margin_of_some(w) <= self.l1 * float(np.abs(w).sum()):
                return None
        found = super()._terminal_status(w)
        return Status.SEPARABLE if found is Status.UNBOUNDED and not self.l1 else found


# --- random instances: what the verifier draws from ---------------------------------------------------------------


def random_features(rng: np.random.Generator, rows: int, columns: int, bounded: bool = False) -> Array:
    """Draw features with difficult cases: ties, duplicated rows, scales that differ widely.

    With ``bounded`` they are divided by the largest entry if it is above 1, so that steep losses stay finite.
    """
    X = rng.normal(size=(rows, columns))
    if rng.random() < 0.3:
        X = np.round(X * 2) / 2  # ties
    if rng.random() < 0.3:
        X[rng.integers(rows, size=rows // 4)] = X[0]  # duplicated rows, possibly with both labels
    if rng.random() < 0.3:
        X = X * 10.0 ** rng.uniform(-1.5, 1.5, size=columns)  # wide scales
    if rng.random() < 0.2:
        X = X + rng.normal(size=columns)  # an offset, which no pairwise loss may notice
    return X / max(float(np.abs(X).max()), 1.0) if bounded else X


def drawn_rows(seed: int, most: int, bounded: bool = False) -> tuple[np.random.Generator, Array]:
    """Return a generator, and the features of six to so many rows that it drew first; bounded ones are fewer."""
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(6, most)), int(rng.integers(1, 5 if bounded else 6))
    return rng, random_features(rng, rows, columns, bounded)


def random_labels(rng: np.random.Generator, X: Array) -> Array:
    """Draw labels that the features explain in part: balanced, imbalanced, or with a single positive."""
    rows = X.shape[0]
    signal = X @ rng.normal(size=X.shape[1])
    signal = signal / max(float(signal.std()), 1e-12) + rng.normal(scale=rng.uniform(0.5, 2.0), size=rows)
    kind = rng.random()
    count = 1 if kind < 0.15 else max(1, int(rows * (rng.uniform(0.05, 0.3) if kind < 0.5 else 0.5)))
    labels = np.zeros(rows, dtype=int)
    labels[np.argsort(-signal)[:count]] = 1
    return labels
