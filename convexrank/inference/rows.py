"""Rows as a caller passes them: labels, weights and groups read once, and the standard error of a sum over rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from convexrank.data import check_binary_labels, check_same_index, check_vector, check_weights
from convexrank.data.groups import as_groups

Array = np.ndarray
# What a sample has, and what it should have for an asymptotic interval, by the words for it.
Guide = dict[str, tuple[float, float]]

# Values of rows that differ by less are equal, but for rounding.
_EQUAL = 1e-12


@dataclass(frozen=True, eq=False)
class Rows:
    """Independent rows, or clusters of rows, of one or two strata.

    Parameters
    ----------
    stratum : ndarray of int, shape (n,)
        The part of the sample that a row was drawn in: its class, 1 or 0; or 0 for all.
    names : tuple of str
        Name of the rows of each stratum.
    mass : ndarray, shape (n,)
        The weight of each row; the weights of a class, or of all rows, sum to 1.
    cluster : ndarray of int, shape (n,), or None
        The cluster of each row; None when rows are independent.
    weighted : bool
        Whether the caller gave weights.
    kept : ndarray of bool
        Which of the caller's rows have a weight above 0.
    """

    stratum: Array
    names: tuple[str, ...]
    mass: Array
    cluster: Array | None
    weighted: bool
    kept: Array

    @property
    def counts(self) -> Array:
        """Rows in each stratum."""
        return np.bincount(self.stratum, minlength=len(self.names))

    @property
    def sizes(self) -> dict[str, int]:
        """The counts by name, largest label first, and the number of groups."""
        counted = {name: int(n) for name, n in zip(self.names, self.counts, strict=True)}
        counted = dict(reversed(counted.items()))
        return counted if self.cluster is None else {**counted, "groups": int(self.cluster.max()) + 1}

    def require_plain(self) -> Self:
        """Refuse what the exact methods cannot use: weighted or clustered rows."""
        if self.weighted:
            raise ValueError(
                "sample_weight: exact intervals count independent rows, which weights are not; leave sample_weight "
                "out, or pass method='asymptotic'."
            )
        if self.cluster is not None:
            raise ValueError(
                "groups: exact intervals need independent rows, and rows of a group are not; pass method='asymptotic'."
            )
        return self

    def spread(self, influence: Array, name: str = "s") -> tuple[float, float]:
        """Standard error of a sum of independent contributions with mean 0 in each stratum, and its degrees of freedom.

        Each stratum has the factor n/(n − 1) of an unbiased variance, with clusters in place of rows where there are
        any; with weights it is the jackknife's. Degrees of freedom are Welch's and Satterthwaite's, with the number of
        rows that vary as much as weighted ones; or the number of clusters minus 1.

        Raises
        ------
        ValueError
            When a stratum has a single row or cluster, or no row differs from another.
        """
        rows = self.counts
        if self.cluster is None:
            if (rows < 2).any():
                which = self.names[int(np.argmin(rows))].replace("ies", "ys").removesuffix("s")
                raise ValueError(
                    f"y has {int(rows.min())} {which}, expected at least 2: nothing else tells how much they vary; "
                    "pass method='exact'."
                )
            self._refuse_constant(influence, name)
            if self.mass.max() >= 1.0 - _EQUAL:
                which = self.names[int(self.stratum[np.argmax(self.mass)])]
                raise ValueError(
                    f"sample_weight: one row has all the weight of the {which} but for rounding, expected at least 2 "
                    "that count: nothing else tells how much they vary; give weights of similar size."
                )
            # the jackknife: what a weighted mean changes by when one row is left out
            moved = influence / (1.0 - self.mass)
            parts = np.bincount(self.stratum, moved**2, minlength=len(rows)) * (rows - 1) / rows
            total = float(parts.sum())
            freedom = self._alike() - 1.0
            return math.sqrt(total), total**2 / float((parts**2 / freedom).sum())
        number = int(self.cluster.max()) + 1
        cells = self.stratum * number + self.cluster
        sums = np.bincount(cells, influence, minlength=len(rows) * number).reshape(len(rows), number)
        filled = np.bincount(cells, minlength=len(rows) * number).reshape(len(rows), number) > 0
        held = filled.sum(axis=1)
        if (held < 2).any():
            which = self.names[int(np.argmin(held))]
            raise ValueError(
                f"groups: {int(held.min())} group holds all the {which}, expected at least 2 groups with {which}; "
                "variances are taken between groups."
            )
        by_cluster = (np.sqrt(held / (held - 1))[:, None] * sums).sum(axis=0)
        self._refuse_constant(by_cluster, name)  # rows of a cluster may cancel
        return math.sqrt(float(by_cluster @ by_cluster)), float(number - 1)

    def _alike(self) -> Array:
        """Return for each stratum as many rows of equal mass as give a variance that is known as well; at least 2."""
        squares, fourth = (np.bincount(self.stratum, self.mass**power) for power in (2, 4))
        return np.maximum(squares**2 / fourth, 2.0) if self.weighted else self.counts.astype(np.float64)

    def effective(self, mass: Array) -> float:
        """Return the number of independent rows, or clusters, of equal mass that say as much as these (Kish)."""
        sums = mass if self.cluster is None else np.bincount(self.cluster, mass)
        return float(sums.sum() ** 2 / (sums @ sums))

    @property
    def effective_counts(self) -> list[float]:
        """The effective number of rows of each stratum, whatever their clusters."""
        parts = (self.mass[self.stratum == part] for part in range(len(self.names)))
        return [float(part.sum() ** 2 / (part @ part)) for part in parts]

    def guide(self) -> Guide:
        """Return what the asymptotic variance of clusters needs."""
        if self.cluster is None:
            return {}
        number = int(self.cluster.max()) + 1
        held = [len(np.unique(self.cluster[self.stratum == part])) for part in range(len(self.names))]
        return {
            "groups, or of them with rows of each class,": (float(min(held)), 50.0),
            "effective groups": (self.effective(np.ones(len(self.cluster))), number / 2.0),
        }

    def _refuse_constant(self, influence: Array, name: str) -> None:
        if np.abs(influence).max() * len(influence) <= _EQUAL:
            raise ValueError(
                f"{name}: the rows do not differ in what they contribute (a perfect, constant or equal ranking), so "
                "that the estimated variance is 0 and says nothing; pass method='exact'."
            )


@dataclass(frozen=True, eq=False)
class Ranked:
    """Rows of two classes and their order.

    Parameters
    ----------
    rows : Rows
        Labels, weights and groups.
    positive : ndarray of bool, shape (n,)
        The rows with the positive label.
    level : ndarray of int, shape (n,)
        The place of each row's score among the m distinct scores; 0 is the highest.
    positives, negatives : ndarray, shape (m,)
        Mass of each class at each distinct score.
    hits, totals : ndarray of int, shape (m,)
        Number of positive rows, and of all rows, at each distinct score.
    """

    rows: Rows
    positive: Array
    level: Array
    positives: Array
    negatives: Array
    hits: Array
    totals: Array

    @property
    def number_positive(self) -> int:
        """Number of positive rows."""
        return int(self.hits.sum())

    @property
    def number_negative(self) -> int:
        """Number of negative rows."""
        return len(self.level) - self.number_positive

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """What bounds of several levels are made of, by name."""
        return {}

    def by_row(self, at_positives: Array, at_negatives: Array) -> Array:
        """Return for each row what its class has at its score."""
        return np.where(self.positive, at_positives[self.level], at_negatives[self.level])


@dataclass(frozen=True, eq=False)
class Labelled:
    """Rows of two classes, before they are ranked."""

    rows: Rows
    positive: Array

    def ranked(self, s: Any, name: str = "s") -> Ranked:
        """Sort by scores, in O(n log n)."""
        scores = check_vector(s, len(self.rows.kept), name)[self.rows.kept]
        distinct, ascending = np.unique(scores, return_inverse=True)
        level, m = len(distinct) - 1 - ascending, len(distinct)
        up, rows = self.positive, self.rows
        hits, totals = np.bincount(level[up], minlength=m), np.bincount(level, minlength=m)
        if rows.weighted:
            masses = [np.bincount(level[side], rows.mass[side], minlength=m) for side in (up, ~up)]
        else:  # counts, without rounding
            parts = (hits, totals - hits)
            masses = [part / (part.sum() if len(rows.names) == 2 else len(level)) for part in parts]
        return Ranked(rows, up, level, masses[0], masses[1], hits, totals)


def read_rows(y: Any, s: Any, sample_weight: Any, groups: Any, *, by_class: bool) -> Labelled:
    """Read labels, weights and groups; masses sum to 1 within each class, or over all rows.

    Raises
    ------
    ValueError, TypeError
        When they are of different lengths or not usable, or a class has no weight.
    """
    check_same_index(y=y, s=s, sample_weight=sample_weight, groups=groups)
    up = check_binary_labels(y)
    weights = check_weights(sample_weight, len(up))
    kept = np.ones(len(up), dtype=bool) if weights is None else weights > 0
    cluster = None if groups is None else cluster_numbers(groups, len(up), kept)
    up, stratum = up[kept], up[kept].astype(np.int64)
    mass = np.ones(len(up)) if weights is None else weights[kept]
    for side, which in ((up, "positive"), (~up, "negative")):
        if not side.any():
            raise ValueError(f"sample_weight leaves no {which} example; give at least one a weight above 0.")
    if not by_class:
        stratum = np.zeros_like(stratum)
    if weights is not None:  # first the largest of each stratum: sums of huge weights are infinite
        mass = mass / np.array([mass[stratum == part].max() for part in range(stratum.max() + 1)])[stratum]
    mass = mass / np.bincount(stratum, mass)[stratum]
    names = ("negatives", "positives") if by_class else ("rows",)
    return Labelled(Rows(stratum, names, mass, cluster, weights is not None, kept), up)


def cluster_numbers(groups: Any, length: int, kept: Array | None = None) -> Array:
    """Return the number 0, 1, … of the group of each row that counts."""
    layout = as_groups(groups, length, name="groups")
    numbers = layout.spread(layout.query)
    return np.unique(numbers if kept is None else numbers[kept], return_inverse=True)[1]
