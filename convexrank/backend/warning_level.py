"""Stack level for warnings, which should name the caller's line."""

from __future__ import annotations

import sys

# Packages whose frames may stand between ours and the caller's.
_INNER = frozenset(
    {"convexrank", "sklearn", "functools", "dataclasses", "contextlib", "joblib", "concurrent", "threading"}
)


def level_of_caller() -> int:
    """Return the ``stacklevel`` with which ``warnings.warn``, called next, names the line that called the package.

    A method may be called by a user, by a one-line function or by an estimator, so no fixed number is right.

    Returns
    -------
    int
        1 is the function that asks.
    """
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _INNER:
            return level
        frame, level = frame.f_back, level + 1
    return level
