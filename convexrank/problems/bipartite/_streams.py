"""Rows out of memory for risks made of log-sum-exps over positives and over negatives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.problems._streams import LogSums, Stream
from convexrank.problems.bipartite._boosting_oracle import LogSumExpTerm, log_sum_exp_gradient

__all__ = ["LogStream"]

Array = np.ndarray


class LogPortion:
    """A piece: the problem with its rows alone, whose shares are those of all rows."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem

    def contributions(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return factors, values and gradients of the log-sum-exps."""
        terms = self.problem.terms
        values, pulls = np.empty(len(terms)), np.zeros((len(terms), len(scores)))
        for place, term in enumerate(terms):
            values[place], shares = log_sum_exp_gradient(term.exponents(scores))
            shares *= term.sign_times_power
            pulls[place, term.rows] = shares
        return np.array([term.outer_coefficient for term in terms]), values, pulls

    def reference(self, scores: Array) -> tuple[Array, Array, Array]:
        """Return the same from the definition."""
        levels = self.problem.reference_levels(scores)
        pulls = np.zeros((len(levels), len(scores)))
        for place, (_, _, rows, pull) in enumerate(levels):
            pulls[place, rows] = pull
        return np.array([one[0] for one in levels]), np.array([one[1] for one in levels]), pulls


class LogStream(Stream):
    """Evaluates a problem whose risk is a weighted sum of log-sum-exps, piece by piece."""

    kind = LogSums

    def __init__(self, problem: Any) -> None:
        super().__init__(problem)
        weights = problem.sample_weight
        counted = (problem._counted(True), problem._counted(False))
        self._totals = [float(rows.sum() if weights is None else weights[rows].sum()) for rows in counted]

    @property
    def terms(self) -> tuple[LogSumExpTerm, ...]:
        """The log-sum-exps of the first row: their factors and powers are those of all."""
        return self._alone(slice(0, 1)).terms

    def count(self, reference: bool) -> int:
        """Return how many log-sum-exps there are."""
        return self._counts[reference]

    @cached_property
    def _counts(self) -> tuple[int, int]:
        return len(self.terms), len(self._alone(slice(0, 1)).reference_levels(np.zeros(1)))

    def portions(self) -> Iterator[tuple[LogPortion, Any]]:
        """Go through the pieces once.

        Yields
        ------
        tuple of LogPortion and matrix
            A piece.
        """
        for piece in self.problem.X.pieces():
            yield LogPortion(self._alone(piece.rows)), piece.X

    def _alone(self, rows: slice) -> Any:
        """The problem with some rows alone, without their features."""
        whole = self.problem
        made = object.__new__(type(whole))
        made.__dict__.update({name: whole.__dict__[name] for name in type(whole).__dataclass_fields__})
        weights = None if whole.sample_weight is None else whole.sample_weight[rows]
        made.__dict__.update(
            X=np.empty((rows.stop - rows.start, 0)),
            y=None,
            sample_weight=weights,
            _labels=whole._labels[rows],
        )
        for name, counts, total in zip(("positive", "negative"), _weights(made), self._totals, strict=True):
            made.__dict__[f"log_{name}_shares"] = np.log(counts / total)
        return made


def _weights(alone: Any) -> tuple[Any, Any]:
    """The weights of positives and of negatives: one number where all count alike."""
    if alone.sample_weight is None:
        return 1.0, 1.0
    return alone.positive_weights, alone.negative_weights
