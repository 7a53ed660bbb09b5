"""Nodes by name: nodes are identified by their names if they have names, and by their numbers otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Any

import numpy as np

from convexrank.data.checks.arrays import read_array
from convexrank.data.checks.values import check_list
from convexrank.data.messages import did_you_mean, optional, shown

Array = np.ndarray


def called(names: Sequence[Any] | None, node: Any) -> str:
    """Return the name of a node in messages.

    Examples
    --------
    >>> called(("ann", "bob"), 1), called(None, 1)
    ("'bob'", '1')
    """
    return str(int(node)) if names is None else shown(names[int(node)])


def names_of(names: Sequence[Any] | None, nodes: Array) -> Array:
    """Return the names of nodes as an array of objects; the numbers where nodes have no names.

    Examples
    --------
    >>> import numpy as np
    >>> names_of(("ann", "bob"), np.array([1, 0])).tolist(), names_of(None, np.array([1, 0])).tolist()
    (['bob', 'ann'], [1, 0])
    """
    if names is None:
        return nodes
    return np.fromiter((names[node] for node in nodes.tolist()), dtype=object, count=len(nodes))


def numbers_of(names: Sequence[Any], nodes: Any, name: str) -> Array:
    """Return the numbers of nodes given by name; ``name`` is what messages call the argument.

    Examples
    --------
    >>> numbers_of(("ann", "bob"), ["bob", "ann"], "nodes").tolist()
    [1, 0]
    """
    number, found = {known: i for i, known in enumerate(names)}, []
    for node in nodes:
        try:
            found.append(number[node])
        except (KeyError, TypeError):
            meant = did_you_mean(node, names) or f"; expected names such as {shown(next(iter(names)))}"
            raise ValueError(f"{name} has {shown(node)}, which is not a node of the graph{meant}.") from None
    return np.array(found, dtype=np.int64)


def check_nodes(nodes: Any, n: int, name: str = "nodes", names: Sequence[Any] | None = None) -> Array:
    """Return node ids as int64, each in 0..n−1 and none twice, from ids or names.

    Integers are names where nodes are called by integers, and ids otherwise.

    Raises
    ------
    ValueError, TypeError
        When they are not one-dimensional, neither integers nor names of nodes, out of range, or repeated.
    """
    given = list(nodes) if isinstance(nodes, Set | Iterator) else nodes
    if names is not None and isinstance(given, str):
        raise TypeError(f"{name} is {shown(given)}, expected a list of nodes; pass [{shown(given)}].")
    if names is not None and not _are_ids(given, names, name):
        array = numbers_of(names, given.tolist() if isinstance(given, np.ndarray) else given, name)
    else:
        array = _ids(given, n, name)
    ids, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{name} has the node {called(names, ids[counts > 1][0])} twice; list it once.")
    return array.astype(np.int64)


def _are_ids(nodes: Any, names: Sequence[Any], name: str) -> bool:
    """Return whether nodes that have names are given by their numbers."""
    if isinstance(nodes, list | tuple) and any(isinstance(node, tuple) for node in nodes):
        return False  # names that are pairs
    array = read_array(nodes, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}, expected a list of nodes.")
    integers = array.dtype.kind in "iu" and not any(isinstance(known, int | np.integer) for known in names)
    return integers or array.size == 0 or array.dtype.kind not in "iuSUO"


def _ids(nodes: Any, n: int, name: str) -> Array:
    array = read_array(nodes, name)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}, expected a list of node ids.")
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {array.dtype} values, expected integer node ids.")
    if array.min() < 0 or array.max() >= n:
        wrong = array[(array < 0) | (array >= n)][0]
        raise ValueError(f"{name} has the node {wrong}, expected ids in 0..{n - 1}.")
    return array


def check_names(names: Any, n: int) -> tuple[Any, ...] | None:
    """Return names of n nodes as a tuple, all different and fit to be looked up by; None stays None."""
    if names is None:
        return None
    given = tuple(check_list(names, "names", "names"))
    if any(isinstance(name, float) and name != name for name in given):
        raise ValueError(
            "names has NaN among its entries, which no node can be looked up by; pass texts or numbers."
        )
    if len(given) != n:
        raise ValueError(f"names has {len(given)} entries, expected {n}, one for each node.")
    try:
        distinct = len(set(given))
    except TypeError as error:
        raise TypeError(
            f"names has an entry that cannot be looked up ({error}); pass texts or numbers."
        ) from error
    if distinct < n:
        twice = next(name for name, count in Counter(given).items() if count > 1)
        raise ValueError(f"names has {twice!r} twice, expected a name of its own for each node.")
    return given


def as_series(values: Array, labels: Sequence[Any], name: str, order: bool = False) -> Any:
    """Return values as a pandas Series with the names of the nodes as index; if sorted, the highest first."""
    series = pandas().Series(values, index=_index(labels), name=name)
    return series.sort_values(ascending=False, kind="stable") if order else series


def as_frame(columns: dict[str, Any], labels: Sequence[Any], called: str = "node") -> Any:
    """Return columns as a pandas DataFrame whose index has the names of the nodes, or of other rows."""
    return pandas().DataFrame(columns, index=_index(labels, called))


def _index(labels: Sequence[Any], called: str = "node") -> Any:
    index = pandas().Index(list(labels))
    if index.nlevels == 1:  # names that are tuples make several levels
        index.name = called
    return index


def pandas() -> Any:
    """Import pandas, or say how to get it."""
    return optional("pandas", "data frames need pandas; install it with: pip install pandas")
