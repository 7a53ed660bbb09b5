"""Tables 1 and 2 of the 2009 paper: the printed numbers, and the same numbers from the package.

C. Rudin, The P-Norm Push, JMLR 10 (2009), sections 3.1 and 3.2. Both tables hold values of
R = sum over negatives of (sum over positives of loss)^p for given scores; nothing is fitted. The paper prints the
scores, but its exponential and logistic columns belong to scores divided by 2: ``SCALE``.

A printed number that ends in ``e?`` had a power of ten that cannot be read in the text extraction from which it was
taken: only its significant digits are compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

import numpy as np

from convexrank import metrics, prices, problems

SCALE = 2.0
LOSSES = ("0-1", "exponential", "logistic")
POWERS = {p: prices.Power(p) for p in range(1, 11)}

# Section 3.1: labels in the order of their scores 1, ..., 8, and the printed R for p = 4, one per loss.
TABLE_1 = {
    "original": ((-1, 1, -1, 1, -1, -1, 1, 1), ("33", "17160.17", "430.79")),
    "swap on the bottom": ((1, -1, -1, 1, -1, -1, 1, 1), ("34", "72289.39", "670.20")),
    "swap on the top": ((-1, 1, -1, 1, -1, 1, -1, 1), ("98", "130515.09", "1212.23")),
}

# Section 3.2: f1 = (14, 13, ..., 1)/14 and f2 = -f1.
TABLE_2_LABELS = (1, 1, -1, -1, -1, -1, -1, 1, 1, 1, 1, 1, -1, -1)
TABLE_2_SCORES = {"f1": np.arange(14, 0, -1) / 14, "f2": -np.arange(14, 0, -1) / 14}

# The printed R for p = 1, ..., 10.
TABLE_2 = {
    ("0-1", "f1"): "25 125 625 3.13e? 1.56e? 7.81e? 3.91e? 1.95e? 9.77e? 4.88e?",
    ("0-1", "f2"): "24 118 726 4.88e? 3.38e? 23.56e? 16.48e? 11.53e? 80.71e? 56.50e?",
    ("exponential", "f1"): "50.25 367.39 2.73e? 2.056e? 1.56e? 1.20e? 9.34e? 7.29e? 5.72e? 4.50e?",
    ("exponential", "f2"): "49.80 362.35 2.70e? 2.057e? 1.60e? 1.28e? 10.36e? 8.53e? 7.13e? 6.02e?",
    ("logistic", "f1"): "34.34 170.18 851.09 4.29e? 2.18e? 1.114e? 5.72e? 2.96e? 1.53e? 7.98e?",
    ("logistic", "f2"): "34.09 167.90 836.46 4.22e? 2.15e? 1.110e? 5.79e? 3.05e? 1.63e? 8.74e?",
}

# The printed columns "argmin", for p = 1, ..., 10.
TABLE_2_PREFERRED = {
    "0-1": "f2 f2 f1 f1 f1 f1 f1 f1 f1 f1",
    "exponential": "f2 f2 f2 f1 f1 f1 f1 f1 f1 f1",
    "logistic": "f2 f2 f2 f2 f2 f2 f1 f1 f1 f1",
}


@dataclass(frozen=True)
class Cell:
    """One printed number and its counterpart.

    Parameters
    ----------
    row, column : str
        Where it stands.
    printed : str
        As printed; ``e?`` stands for a power of ten that could not be read.
    computed : float
        The value from the package, in full precision.
    """

    row: str
    column: str
    printed: str
    computed: float

    @property
    def rounded(self) -> str:
        """The computed value, rounded half up to the digits that are printed."""
        if not self.printed.endswith("e?"):
            return f"{_round(self.computed, Decimal(self.printed).as_tuple().exponent):f}"
        mantissa = self.printed.removesuffix("e?")
        power = math.floor(math.log10(self.computed)) - mantissa.find(".") + 1
        digits = _round(self.computed / 10.0**power, Decimal(mantissa).as_tuple().exponent)
        return f"{digits:f}e{power}"

    @property
    def matches(self) -> bool:
        """Whether every printed digit matches."""
        return self.rounded.partition("e")[0] == self.printed.partition("e")[0]


def _round(value: float, exponent: int) -> Decimal:
    return Decimal(repr(float(value))).quantize(Decimal(1).scaleb(exponent), rounding=ROUND_HALF_UP)


def push_value(labels, scores, p, loss, scale=SCALE, base=math.e) -> float:
    """Return the sum over negatives of (sum over positives of loss)^p, loss by its name in the tables.

    Parameters
    ----------
    labels, scores : array-like, shape (n,)
        Labels -1 and +1, and scores as printed.
    p : int
        Power of the price, 1 to 10.
    loss : {"0-1", "exponential", "logistic"}
        The 0-1 loss counts a tie as a misrank.
    scale : float
        What the scores are divided by; it means nothing to the 0-1 loss.
    base : float
        Base of the logarithm in the logistic loss.
    """
    if loss == "0-1":
        return metrics.r_p(labels, scores, p)
    feature = np.reshape(scores, (-1, 1)) / scale
    if loss == "exponential":
        return problems.PNormPush(feature, labels, p).paper_value([1.0])
    return problems.Push(feature, labels, POWERS[p], loss).objective([1.0]) / math.log(base) ** p


def table_1(scale=SCALE, base=math.e) -> list[Cell]:
    """Return the nine cells of Table 1 (p = 4)."""
    return [
        Cell(name, loss, number, push_value(labels, np.arange(1, 9), 4, loss, scale, base))
        for name, (labels, numbers) in TABLE_1.items()
        for loss, number in zip(LOSSES, numbers, strict=True)
    ]


def table_2(scale=SCALE, base=math.e) -> list[Cell]:
    """Return the sixty numbers of Table 2, row by row (p = 1 to 10)."""
    columns = {column: numbers.split() for column, numbers in TABLE_2.items()}
    return [
        Cell(
            f"p = {p}",
            f"{loss} {name}",
            numbers[p - 1],
            push_value(TABLE_2_LABELS, TABLE_2_SCORES[name], p, loss, scale, base),
        )
        for p in POWERS
        for (loss, name), numbers in columns.items()
    ]


def preferences(cells) -> dict[str, list[str]]:
    """Return which of f1 and f2 has the smaller computed value, for p = 1 to 10, one list per loss."""
    value = {(cell.row, cell.column): cell.computed for cell in cells}

    def preferred(loss: str, p: int) -> str:
        first, second = (value[f"p = {p}", f"{loss} {name}"] for name in ("f1", "f2"))
        return "f1" if first < second else "f2"

    return {loss: [preferred(loss, p) for p in POWERS] for loss in LOSSES}


def show(cells) -> str:
    """Write cells as a table: printed, computed, and a mark where a printed digit differs."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = {
        name: [cell for cell in cells if cell.row == name] for name in dict.fromkeys(c.row for c in cells)
    }
    left = max(map(len, rows)) + 2
    lines = [" " * left + "".join(f"{name:>26}" for name in columns)]
    for name, entries in rows.items():
        texts = (f"{c.printed} | {c.rounded}{' ' if c.matches else '*'}" for c in entries)
        lines.append(name.ljust(left) + "".join(f"{text:>26}" for text in texts))
    return "\n".join(lines)
