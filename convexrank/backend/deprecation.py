"""Old names, which warn for a while before they go."""

from __future__ import annotations

import warnings

__all__ = ["warn_renamed"]


def warn_renamed(old: str, new: str) -> None:
    """Warn the caller of the function that calls this: the old name goes with the next minor version but one.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     warn_renamed("Model.old", "new")
    >>> str(caught[0].message)
    'Model.old is called new; the old name will be removed in the next minor version but one.'
    """
    warnings.warn(
        f"{old} is called {new}; the old name will be removed in the next minor version but one.",
        DeprecationWarning,
        stacklevel=3,
    )
