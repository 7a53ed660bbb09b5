"""Parts of messages: what a caller passed, names that may have been meant, what is advised; and names that go."""

from __future__ import annotations

import csv
import functools
import io
import shlex
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ParamSpec, Self, TypeVar

from convexrank.backend.interruption import import_module
from convexrank.backend.progress import warn_caller

# Longer texts are not compared: the time grows with the square of their length.
_LONGEST = 80


def shown(value: Any, most: int = 80) -> str:
    """Return what a caller passed, for a message: in full where it is short, else its beginning, or its type.

    Examples
    --------
    >>> shown([1, 2]), shown(10**5000), len(shown("a" * 1000))
    ('[1, 2]', 'of type int, of 16610 bits', 81)
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - whatever fails, of an integer with too many digits or of a caller's own class
        size = f", of {value.bit_length()} bits" if isinstance(value, int) else ""
        return f"of type {type(value).__name__}{size}"
    return text if len(text) <= most else f"{text[:most]}…"


def did_you_mean(value: Any, names: Iterable[Any]) -> str:
    """Return " (did you mean ...?)" with the names that are spelled nearly so, or nothing.

    Examples
    --------
    >>> did_you_mean("pnormpush", ["PNormPush", "TopPush"])
    " (did you mean 'PNormPush'?)"
    >>> did_you_mean("zebra", ["PNormPush", "TopPush"])
    ''
    """
    if not isinstance(value, str) or len(value) > _LONGEST:
        return ""
    spelled = {name.lower(): name for name in reversed([name for name in names if isinstance(name, str)])}
    found = get_close_matches(value.lower(), spelled, 3, 0.7)
    return f" (did you mean {' or '.join(repr(spelled[name]) for name in found)}?)" if found else ""


def as_option(names: Iterable[str]) -> str:
    """Return names as one word of a command line, with commas between them; :func:`names_in` reads it.

    Examples
    --------
    >>> print(as_option(["day", "paid, in €"]))
    'day,"paid, in €"'
    """
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(names)
    return shlex.quote(file.getvalue())


def names_in(text: str) -> list[str]:
    """Return names with commas between them; one that has a comma stands in quotes.

    Examples
    --------
    >>> names_in('day, "paid, in €"')
    ['day', 'paid, in €']
    """
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip()]


def optional(name: str, words: str) -> Any:
    """Import a module that comes with an extra, or say how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(words) from error


def not_installed(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error that says what to install where a library of a light install is missing; else the same error."""
    if error.name not in ("cvxpy", "clarabel", "jax", "jaxopt"):
        return error
    return ModuleNotFoundError(
        f"{error.name} is not installed, and this call needs it: pip install {error.name}, or install convexrank with "
        "all that it depends on.",
        name=error.name,
    )


@dataclass(frozen=True)
class Advised:
    """An argument that a message advises, with a value where one value is meant."""

    name: str
    value: Any = None

    def __str__(self) -> str:
        return f"{self.name}={'' if self.value is None else self.value}"


class Message(str):
    """A text that advises arguments of a function; the command line spells them as its options.

    Parameters
    ----------
    *parts : str or Advised
        The text, in order.

    Examples
    --------
    >>> message = Message("the first line has texts; pass ", Advised("skip_rows", 1), ".")
    >>> message
    'the first line has texts; pass skip_rows=1.'
    >>> message.spelled(lambda advised: f"--skip-rows {advised.value}")
    'the first line has texts; pass --skip-rows 1.'
    """

    parts: tuple[str | Advised, ...]

    def __new__(cls, *parts: str | Advised) -> Self:
        """Join the parts, and keep them."""
        text = super().__new__(cls, "".join(map(str, parts)))
        text.parts = parts
        return text

    def spelled(self, spell: Callable[[Advised], str]) -> str:
        """Return the text with each argument spelled by a function."""
        return "".join(spell(part) if isinstance(part, Advised) else part for part in self.parts)


def refusal(*parts: str | Advised) -> ValueError:
    """Return an error with a message of these parts."""
    return ValueError(Message(*parts))


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

    Raises
    ------
    TypeError
        By the function: when both names are given.

    Examples
    --------
    >>> import warnings
    >>> @progress_as_verbose
    ... def told(verbose=False):
    ...     return verbose
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     print(told(progress=True), caught[0].message)
    True progress is now verbose, and goes in version 0.3; write verbose.
    """
    called: Any = function

    @functools.wraps(function)
    def call(*args: Given.args, **options: Given.kwargs) -> Result:
        given: Any = options
        if "progress" in options:
            if "verbose" in options:
                raise TypeError(
                    "progress is the old name of verbose, and both are given; write verbose alone."
                )
            warn_caller("progress is now verbose, and goes in version 0.3; write verbose.", FutureWarning)
            given = {"verbose" if name == "progress" else name: value for name, value in options.items()}
        return called(*args, **given)

    return call
