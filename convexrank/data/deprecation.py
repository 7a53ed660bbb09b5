"""Names that go: the old name works for a while, and says what to write instead."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from convexrank.backend.progress import level_of_caller

Given = ParamSpec("Given")
Result = TypeVar("Result")


def renamed(new: Callable[Given, Result], old: str, removed_in: str) -> Callable[Given, Result]:
    """Return a function under its old name: the same, with a warning.

    Parameters
    ----------
    new : callable
        The function or method under its new name.
    old : str
        The old name.
    removed_in : str
        The version in which the old name goes, such as "0.3".

    Returns
    -------
    callable
        What the old name shall be bound to, at the top of a module or in the body of a class.

    Examples
    --------
    >>> import warnings
    >>> def width(x):
    ...     return 2.0 * x
    >>> breadth = renamed(width, "breadth", "0.3")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     print(breadth(1.5), caught[0].message)
    3.0 breadth is now width, and goes in version 0.3; write width.
    """
    name: Any = getattr(new, "__name__", repr(new))

    @functools.wraps(new)
    def call(*args: Given.args, **options: Given.kwargs) -> Result:
        # FutureWarning is shown to users; DeprecationWarning only to those who test
        warnings.warn(
            f"{old} is now {name}, and goes in version {removed_in}; write {name}.",
            FutureWarning,
            stacklevel=2,
        )
        return new(*args, **options)

    call.__name__ = old
    call.__qualname__ = f"{getattr(new, '__qualname__', name).rpartition('.')[0]}.{old}".lstrip(".")
    call.__doc__ = f"Old name of ``{name}``, which goes in version {removed_in}."
    return call


def renamed_option(
    old: str, new: str, removed_in: str
) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Return a decorator that takes a keyword under its old name as well, with a warning.

    Parameters
    ----------
    old, new : str
        The old name of the keyword, and its name.
    removed_in : str
        The version in which the old name goes, such as "0.3".

    Returns
    -------
    callable
        The decorator of the function or method.

    Raises
    ------
    TypeError
        By the function: when both names are given.

    Examples
    --------
    >>> import warnings
    >>> @renamed_option("size", "width", "0.3")
    ... def twice(width=1.0):
    ...     return 2.0 * width
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     print(twice(size=1.5), caught[0].message)
    3.0 size is now width, and goes in version 0.3; write width.
    """

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        called: Any = function

        @functools.wraps(function)
        def call(*args: Given.args, **options: Given.kwargs) -> Result:
            given: Any = options
            if old in options:
                if new in options:
                    raise TypeError(f"{old} is the old name of {new}, and both are given; write {new} alone.")
                warnings.warn(
                    f"{old} is now {new}, and goes in version {removed_in}; write {new}.",
                    FutureWarning,
                    stacklevel=level_of_caller(),
                )
                given = {new if name == old else name: value for name, value in options.items()}
            return called(*args, **given)

        return call

    return decorate


def progress_as_verbose(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Return a function that takes ``progress`` for ``verbose``, the word of scikit-learn and cvxpy, until 0.3.

    Parameters
    ----------
    function : callable
        A function or method with a keyword ``verbose``.

    Returns
    -------
    callable
        The same function.
    """
    return renamed_option("progress", "verbose", "0.3")(function)
