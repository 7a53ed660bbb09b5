"""Progress bar and logger of long work, silent unless asked for, and the stack level of warnings."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterable
from typing import Any

#: Solves that end are said at INFO, as are the states of bars that are not shown; the steps of solvers at DEBUG.
LOGGER = logging.getLogger("convexrank")

# Seconds between two lines of one bar in the log.
_PAUSE = 5.0


class _Lines:
    """Stream for tqdm that makes a line of the log of each state of a bar."""

    def write(self, text: str) -> None:
        if line := text.strip():
            LOGGER.info(line)

    def flush(self) -> None:
        """Do nothing: lines are handed on at once."""


def progress_bar(
    show: bool, total: int | None = None, what: str | None = None, over: Iterable[Any] | None = None, unit: str = "it"
) -> Any:  # fmt: skip
    """Return a bar with ``update(count)``, to be used in a ``with``, or around an iterable; it goes when it is full.

    Where it is not shown and the logger hears INFO, its states are lines of the log.

    Parameters
    ----------
    show : bool
        Whether it is seen at all.
    total : int, optional
        Number of entries in all; by default the length of ``over``.
    what : str, optional
        Description in front of the bar.
    over : iterable, optional
        The entries to iterate over; each counts as one.
    unit : str
        What is counted; of ``"B"`` thousands and millions are abbreviated.
    """
    options: dict[str, Any] = {"total": total, "desc": what, "unit": unit, "unit_scale": unit == "B"}
    if not show and LOGGER.isEnabledFor(logging.INFO):
        from tqdm import tqdm as lines

        form = (
            "{desc}: {n_fmt} of {total_fmt} in {elapsed}" if what else "{n_fmt} of {total_fmt} in {elapsed}"
        )
        return lines(over, file=_Lines(), mininterval=_PAUSE, bar_format=form, **options)
    from tqdm.auto import tqdm

    return tqdm(over, leave=False, disable=not show, **options)


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


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the caller of this package."""
    warnings.warn(message, category, stacklevel=level_of_caller())
