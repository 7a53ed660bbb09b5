"""Base class of the bipartite problems: positives, negatives, their weights, and random instances."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import Design
from convexrank.backend.gram import entries
from convexrank.backend.jax_oracles import pad, shape_class
from convexrank.core.results import Status
from convexrank.data import Chunks, check_binary_labels, check_weights, keep
from convexrank.problems._second_order import SecondOrder

__all__ = ["TALL", "Bipartite", "random_features", "random_labels"]

Array = np.ndarray

# Data with this number of entries are tall. A sample has this number of rows per column, or one row out of this number,
# and at most a quarter of the rows.
TALL, _ROWS_PER_COLUMN, _SHARE = 4_000_000, 120, 20

# The same of rows in memory: rows per column, and rows per row and column of X.
_IN_MEMORY, _WORTH = 90, 5

# Entries of a sample of rows out of memory: 32 MB, unless the columns ask for more.
_SAMPLED = 1 << 22

# Rows of each class whose scores tell that a margin is too small.
_SOME = 50

# Identical rows may get scores that differ in the last bits.
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Bipartite(SecondOrder):
    """Base of the problems that rank positives above negatives.

    Weights act as repeated rows: a row of weight 2 counts as two rows, a row of weight 0 is left out.
    """

    depends_on_differences = True

    y: Any
    sample_weight: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.X.shape[0]
        _ = self._labels  # refused before it is kept
        keep(self, y=np.asarray(self.y), sample_weight=check_weights(self.sample_weight, rows))
        if isinstance(self.X, Chunks):  # their places would take as much room as all scores
            found = {"positive": self._counted(True).any(), "negative": self._counted(False).any()}
        else:
            found = {"positive": len(self.positives), "negative": len(self.negatives)}
        for name, some in found.items():
            if not some:
                raise ValueError(
                    f"sample_weight leaves no {name} example; give at least one a weight above 0."
                )

    def _data_notes(self) -> list[str]:
        """How many of each class, and whether rows have weights."""
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

    @cached_property
    def _labels(self) -> Array:
        """Which rows are positive."""
        return check_binary_labels(self.y, self.X.shape[0])

    def _rows_of(self, positive: bool) -> Array:
        return np.flatnonzero(self._counted(positive))

    def _counted(self, positive: bool) -> Array:
        """Which rows are of a class, and have a weight."""
        asked = self._labels == positive
        return asked if self.sample_weight is None else asked & (self.sample_weight > 0)

    def _weights_of(self, rows: Array) -> Array:
        return np.ones(len(rows)) if self.sample_weight is None else self.sample_weight[rows]

    @property
    def row_counts(self) -> Array | None:
        """The weights of the rows."""
        return self.sample_weight

    @cached_property
    def positive_weights(self) -> Array:
        """Weights of the positives, ones by default."""
        return self._weights_of(self.positives)

    @cached_property
    def negative_weights(self) -> Array:
        """Weights of the negatives, ones by default."""
        return self._weights_of(self.negatives)

    @cached_property
    def positive_shares(self) -> Array:
        """Shares of the positives of their total weight: 1/I each by default."""
        return self.positive_weights / self.positive_weights.sum()

    @cached_property
    def log_positive_shares(self) -> Array:
        """Logarithms of the positives' shares."""
        return self._log_shares_of(self.positives)

    @cached_property
    def log_negative_shares(self) -> Array:
        """Logarithms of the negatives' shares of their total weight: log(1/K) each by default."""
        return self._log_shares_of(self.negatives)

    def _log_shares_of(self, rows: Array) -> Array:
        if self.sample_weight is None:
            return np.full(len(rows), np.log(1.0 / len(rows)))
        weights = self._weights_of(rows)
        return np.log(weights / weights.sum())

    @cached_property
    def part_sizes(self) -> tuple[int, int]:
        """Padded lengths of the positives' and the negatives' scores."""
        return shape_class(len(self.positives)), shape_class(len(self.negatives))

    def padded_log_weights(self, positive: Array, negative: Array) -> tuple[Array, Array]:
        """Extend log weights to the padded sizes; padding has weight 0, so it never counts."""
        sizes, kind = self.part_sizes, self.X.dtype
        return (
            pad(positive.astype(kind), sizes[0], -np.inf),
            pad(negative.astype(kind), sizes[1], -np.inf),
        )

    def split(self, scores: Array) -> tuple[Array, ...]:
        """Return the scores of the positives and of the negatives."""
        return scores[self.positives], scores[self.negatives]

    def join(self, parts: tuple[Array, ...]) -> Array:
        """Return the gradient in all scores; rows of weight 0 get 0."""
        gradient = np.zeros(self.X.shape[0], dtype=parts[0].dtype)
        gradient[self.positives] = parts[0][: len(self.positives)]
        gradient[self.negatives] = parts[1][: len(self.negatives)]
        return gradient

    @property
    def sample_rows(self) -> int:  # type: ignore[override]
        """Number of rows of a sample that approximates the objective, for dense data with many rows; else 0."""
        rows, columns = self.X.shape
        chunks = isinstance(self.X, Chunks) and not self.X.sparse
        if chunks:
            per_column, share = _ROWS_PER_COLUMN, min(rows // _SHARE, _SAMPLED // columns)
        else:  # a pass for the Hessian of these rows is to cost about one over all
            per_column, share = _IN_MEMORY, min(2 * rows // _SHARE, _WORTH * rows // columns)
        enough = rows * columns >= TALL and 2 * _ROWS_PER_COLUMN * columns <= rows
        tall = enough and (chunks or isinstance(self.X, np.ndarray))
        wanted = max(min(per_column * columns, rows // 4), share)
        return wanted if tall and self.has_curvature and not self.pairwise_curvature else 0

    @property
    def _start_rows(self) -> int:
        """Rows of the sample that gives the start; in memory those that give the Hessian are drawn again."""
        return self.sample_rows

    def sample(self) -> Self | None:
        """Return the problem of a sample, at most half of each class; its rows are weighted accordingly."""
        if not (wanted := self._start_rows):
            return None
        rng, rows, weights = np.random.default_rng(0), [], []
        for positive in (True, False):
            part = self._rows_of(positive)
            count = min(wanted // 2, len(part))
            # one row from each of ``count`` stretches
            places = ((np.arange(count) + rng.random(count)) * (len(part) / count)).astype(np.intp)
            places = np.minimum(places, len(part) - 1)
            rows.append(part[places])
            weights.append(self._weights_of(rows[-1]) * (len(part) / len(places)))
        some, counts = np.concatenate(rows), np.concatenate(weights)
        return self.changed(X=self.X[some], y=self._labels[some], sample_weight=counts)

    def margin(self, w: Array) -> float:
        """Return the lowest positive score less the highest negative score."""
        positive, negative = self.split(self.scores(w))
        return float(positive.min() - negative.max())

    @cached_property
    def _some_of_each(self) -> tuple[Any, Any] | None:
        """A few rows of each class; None where taking them is not cheap."""
        if isinstance(self.X, Design | Chunks):
            return None
        return self.X[self.positives[:_SOME]], self.X[self.negatives[:_SOME]]

    def _margin_of_some(self, w: Array) -> float:
        """Return what the margin is at most, from a few rows; infinity where taking them is not cheap."""
        if self._some_of_each is None:
            return math.inf
        positive, negative = self._some_of_each
        return float((positive @ w).min() - (negative @ w).max())

    def is_separating(self, w: Array) -> bool:
        """Whether every positive scores strictly above every negative, by more than the rounding of the scores."""
        scores = self.scores(w)
        positive, negative = self.split(scores)
        return float(positive.min() - negative.max()) > _ROUNDING * float(np.abs(scores).max())

    def ordering(self) -> tuple[Any, Any]:
        """Return the constraints f_i ≥ t, f_k ≤ t for one threshold t."""
        signs = np.r_[np.ones(len(self.positives)), -np.ones(len(self.negatives))]
        rows = entries(self.X[np.r_[self.positives, self.negatives]])
        return sparse.diags_array(signs) @ rows, -signs[:, None]

    #: How fast a risk that is a logarithm falls per unit of margin along a separating direction; 0 for others.
    logarithmic_slope = 0.0

    @cached_property
    def risk_infimum(self) -> float:
        """Zero, or minus infinity for a logarithm, which is unbounded on separable data."""
        return -np.inf if self.logarithmic_slope else 0.0

    def terminal_status(self, w: Array) -> Status | None:
        """Recognise separable data, and l1 too weak to bound a logarithm along a separating direction."""
        if self.penalty.bounded:
            return None
        if self._centred is None and self.l1 > 0 and self.logarithmic_slope:
            cost = self.l1 * float(np.abs(w).sum())
            # the margin of a few rows is at least that of all, and nearly always too low already
            if self.logarithmic_slope * self._margin_of_some(w) <= cost:
                return None
            return Status.UNBOUNDED if self.logarithmic_slope * self.margin(w) > cost else None
        return super().terminal_status(w)


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
