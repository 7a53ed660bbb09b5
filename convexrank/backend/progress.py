"""The one progress bar of the package: silent unless asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def progress_bar(
    show: bool, total: int | None = None, what: str | None = None, over: Iterable[Any] | None = None, unit: str = "it"
) -> Any:  # fmt: skip
    """Return a bar with ``update(count)``, to be used in a ``with``, or around an iterable; it goes when it is full.

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
    from tqdm.auto import tqdm

    return tqdm(
        over, total=total, desc=what, leave=False, disable=not show, unit=unit, unit_scale=unit == "B"
    )
