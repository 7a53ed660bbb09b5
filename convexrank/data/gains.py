"""Gains of grades, for measures and for targets."""

from __future__ import annotations

import numpy as np

from convexrank.data.checks.values import check_choice

# The sum of so many rows of such a grade that fit in memory is still finite.
_LARGEST_EXPONENT = 980.0
_GAINS = {"exp2": "exp2", "linear": "linear"}


def gains(grades: np.ndarray, gain: str) -> np.ndarray:
    """Return what each grade is worth: 2^y − 1 for "exp2", y itself for "linear"; at least 0.

    Raises
    ------
    ValueError
        For an unknown name, negative grades, or grades for which sums of 2^y are not finite.
    """
    check_choice(gain, _GAINS, "gain")
    if grades.min() < 0:
        raise ValueError(
            f"y has the negative grade {grades.min():g}, expected grades of at least 0: shift them, or pass y > 0."
        )
    if gain == "linear":
        return grades
    if grades.max() > _LARGEST_EXPONENT:
        raise ValueError(
            f"y has the grade {grades.max():g}, for which sums of 2**y are not finite; pass gain='linear'."
        )
    return np.expm1(grades * np.log(2.0))
