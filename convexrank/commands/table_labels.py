"""Which rows of a table are wanted: the column of labels, and the value of it that is put first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.data import check_choice, did_you_mean, shown
from convexrank.estimators.tables.columns import is_gap

Array = np.ndarray
Columns = dict[str, Array]

# The words for yes that say by themselves which rows are wanted, each with its no.
_YES = {"yes": "no", "y": "n", "true": "false", "t": "f"}


@dataclass(frozen=True)
class Labels:
    """A column of labels, the value of wanted rows, and all values that it had in the fit."""

    column: str
    positive: str
    known: tuple[str, ...]

    @classmethod
    def of(cls, columns: Columns, column: str, positive: str | None) -> Self:
        """Read the labels of the rows of a fit.

        Raises
        ------
        ValueError
            When there is no such column, a row has no label, all have the same, two are the same but for spelling, or
            it has to be said which is wanted.
        """
        known = np.unique(labels_of(columns, column)).tolist()
        _refuse_twins(column, known)
        if len(known) < 2:
            raise ValueError(
                f"{column} is {known[0]!r} in all of the {len(columns[column])} rows, expected two values or more; "
                "there is nothing to learn from one."
            )
        if positive is not None:
            return cls(column, check_choice(positive, {k: k for k in known}, "positive"), tuple(known))
        wanted = _says_yes(known)
        if wanted is None:
            raise ValueError(
                f"{column} has {len(known)} values, {shown(known[:5])}, expected two numbers, or yes and no; say which "
                "is to come first, above all others: positive=VALUE (--positive VALUE)."
            )
        return cls(column, wanted, tuple(known))

    def wanted(self, columns: Columns) -> Array:
        """Return which rows have the value that is put first.

        Raises
        ------
        ValueError
            When a row has no label, or, of two values in the fit, another.
        """
        found = labels_of(columns, self.column)
        strange = sorted(set(found.tolist()) - set(self.known))
        if strange and len(self.known) == 2:
            raise ValueError(
                f"{self.column} has {shown(strange[:5])} in {int(np.isin(found, strange).sum())} of {len(found)} rows, "
                f"expected {shown(list(self.known))} as in the fit; write the labels alike."
            )
        return found == self.positive

    def to_measure(self, columns: Columns, top: int, where: str) -> Array:
        """Return which rows are wanted, where a list of a length can be measured on them.

        Raises
        ------
        ValueError
            When there are no labels, fewer rows than the list is to have, or one class.
        """
        if self.column not in columns:
            raise ValueError(
                f"label is {self.column!r}{did_you_mean(self.column, columns)}, which is no column of {where}; "
                "expected the labels there, to measure a list (`convexrank predict` ranks rows without)."
            )
        y = self.wanted(columns)
        if not 0 < y.sum() < len(y):
            raise ValueError(
                f"{self.column} is {self.positive!r} in {int(y.sum())} of {len(y)} rows ({where}), expected some, and "
                "not all, to measure a list; take a table with rows of both kinds (of a fit: --test TABLE)."
            )
        if top > len(y):
            raise ValueError(
                f"top is {top}, expected at most the number of rows, {len(y)} ({where}): --top {len(y)}."
            )
        return y


def _says_yes(known: list[str]) -> str | None:
    """Return the larger of two numbers, or yes of yes and no; None where labels do not say it."""
    if len(known) != 2:
        return None
    try:
        return max(known, key=float)
    except ValueError:
        pairs = (known, known[::-1])
        return next((yes for yes, no in pairs if _YES.get(yes.lower()) == no.lower()), None)


def _refuse_twins(column: str, known: list[str]) -> None:
    """Refuse labels such as Yes and yes, or 1 and 1.0."""
    first: dict[Any, str] = {}
    for label in known:
        twin = first.setdefault(_meant(label), label)
        if twin != label:
            raise ValueError(
                f"{column} has {twin!r} and {label!r}, expected one spelling of each label; write them alike."
            )


def _meant(label: str) -> float | str:
    try:
        return float(label)
    except ValueError:
        return label.casefold()


def labels_of(columns: Columns, label: str) -> Array:
    """Return the column of labels as strings; a gap is refused, but "none" may be a label."""
    check_choice(label, dict.fromkeys(columns), "label")
    missing = [
        place for place, entry in enumerate(columns[label]) if is_gap(entry) and str(entry).lower() != "none"
    ]
    if missing:
        raise ValueError(
            f"{label} has no value in {len(missing)} rows, the first is row {missing[0] + 1}, with "
            f"{columns[label][missing[0]]!r}; expected a label in each: leave out the rows without."
        )
    return columns[label].astype(str)
