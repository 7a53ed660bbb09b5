"""Distributions over nodes, however they are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.data import check_matrix, check_vector, in_node_order, index_of, read_array
from convexrank.data.nodes import numbers_of

Array = np.ndarray

_ROUNDING = 1e-14
_AT_ONCE = 32


def distribution(n: int, names: tuple[Any, ...] | None, nodes: Any, name: str) -> Array:
    """Return a distribution over n nodes.

    Parameters
    ----------
    n : int
        Number of nodes.
    names : tuple or None
        Their names.
    nodes : array-like
        Ids, or names where the graph has integers as names; other names, n booleans, n weights as floats, or a
        dictionary of weights by name, by id without names. A Series of weights or booleans with an index of its own
        goes by that index.
    name : str
        Name of the argument in messages.

    Returns
    -------
    ndarray, shape (n,)
        Non-negative, summing to 1.
    """
    if isinstance(nodes, Mapping):
        return _from_mapping(n, names, nodes, name)
    if isinstance(nodes, Set | Iterator):
        nodes = list(nodes)
    if names is not None and isinstance(nodes, list) and any(isinstance(node, tuple) for node in nodes):
        return _from_ids(n, numbers_of(names, nodes, name), name)  # nodes that are called by pairs
    array = read_array(nodes, name)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"{name} has shape {array.shape}, expected at least one node, or {n} weights; pass [i] for a single node i."
        )
    if array.dtype.kind in "iu":
        _refuse_counts(names, nodes, name)
        by_name = names is not None and any(isinstance(known, int | np.integer) for known in names)
        return _from_ids(n, numbers_of(names, array.tolist(), name) if by_name and names else array, name)
    if array.dtype.kind in "SUO" and names is not None and not _are_numbers(array):
        return _from_ids(n, numbers_of(names, nodes, name), name)
    ordered = in_node_order(nodes, n, names, name, whole=False)
    return _scaled(check_vector(ordered, n, name, each="node"), name)


def distributions(n: int, names: tuple[Any, ...] | None, nodes: Any, name: str) -> Array:
    """Return one distribution, or for a matrix of weights one in each column, shape (n, k).

    Parameters
    ----------
    n, names, name : int, tuple or None, str
        As in :func:`distribution`.
    nodes : array-like or sparse
        As in :func:`distribution`, or a matrix with one row for each node. A DataFrame with an index of its own goes
        by that index.

    Returns
    -------
    ndarray, shape (n,) or (n, k)
        Non-negative, each column summing to 1.
    """
    if getattr(nodes, "ndim", None) != 2 and not _has_rows(nodes, names):
        return distribution(n, names, nodes, name)
    rows = nodes if index_of(nodes) is None else in_node_order(nodes, n, names, name, whole=False)
    shape = getattr(rows, "shape", (n, 1))  # lists are read before they can be measured
    weights = check_matrix(rows, name) if min(shape) > 0 else rows
    if weights.shape[0] != n or min(shape) == 0:
        raise ValueError(
            f"{name} has shape {weights.shape}, expected ({n}, k) with k >= 1: a column for each rank."
        )
    dense: Any = sparse.csr_array(weights).toarray() if sparse.issparse(weights) else weights
    sums = _sums(dense)
    if dense.min() >= 0.0 and 0.0 < sums.min() and sums.max() < np.inf:
        return dense / np.where(np.abs(sums - 1.0) <= _ROUNDING, 1.0, sums)
    return np.stack([distribution(n, None, column, name) for column in dense.T], axis=1)


def _sums(rows: Array) -> Array:
    """Sums of columns, of a few rows at a time, so that rounding stays small."""
    with np.errstate(over="ignore"):
        while len(rows) > _AT_ONCE:
            rows = np.add.reduceat(rows, np.arange(0, len(rows), _AT_ONCE), axis=0)
        return rows.sum(axis=0)


def by_topic(n: int, names: tuple[Any, ...] | None, nodes: Any, name: str) -> tuple[list[Any], Array] | None:
    """Return the topics of a mapping from topics to nodes, or to weights of nodes, and the distribution of each.

    Parameters
    ----------
    n, names, name : int, tuple or None, str
        As in :func:`distribution`.
    nodes : object
        What may be such a mapping.

    Returns
    -------
    tuple of list and ndarray, shape (n, k), or None
        None for anything but a mapping to collections.
    """
    if not isinstance(nodes, Mapping) or not nodes:
        return None
    if not all(isinstance(part, Mapping | list | tuple | Set | np.ndarray) for part in nodes.values()):
        return None
    parts = [distribution(n, names, part, f"{name}[{topic!r}]") for topic, part in nodes.items()]
    return list(nodes), np.stack(parts).T


def _has_rows(nodes: Any, names: tuple[Any, ...] | None) -> bool:
    """Return whether a list is made of rows, so that it stands for a matrix. Tuples may be names of nodes."""
    kinds = (list, np.ndarray) if names is not None else (list, np.ndarray, tuple)
    return isinstance(nodes, list | tuple) and len(nodes) > 0 and all(isinstance(row, kinds) for row in nodes)


def _refuse_counts(names: tuple[Any, ...] | None, nodes: Any, name: str) -> None:
    """Refuse integers under names of nodes, such as counts: are they weights, or ids?"""
    labels = index_of(nodes)
    if names is not None and labels and isinstance(labels[0], str) and set(labels) <= set(names):
        raise ValueError(
            f"{name} has integers, which are ids, under an index of names; pass {name}.astype(float) for weights, "
            f"{name}.to_numpy() for ids."
        )


def _scaled(weights: Array, name: str) -> Array:
    if weights.min() < 0:
        place = int(np.argmin(weights))
        raise ValueError(f"{name}[{place}] is {weights[place]:g}, expected weights of at least 0.")
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total == 0.0:
        raise ValueError(f"{name} is zero everywhere; give at least one node a positive weight.")
    if total == np.inf:
        return _scaled(weights / weights.max(), name)
    # a distribution stays as it is, to the last bit
    return weights.copy() if abs(total - 1.0) <= _ROUNDING else weights / total


def _from_mapping(n: int, names: tuple[Any, ...] | None, nodes: Mapping[Any, Any], name: str) -> Array:
    if not nodes:
        raise ValueError(f"{name} is empty, expected a weight for at least one node.")
    keys = list(nodes)
    ids = np.asarray(keys) if names is None else numbers_of(names, keys, name)
    if ids.dtype.kind not in "iu":
        raise ValueError(f"{name} has {keys[0]!r}, expected ids in 0..{n - 1}: the graph has no names.")
    _from_ids(n, ids, name)
    weights = np.zeros(n)
    weights[ids] = check_vector(list(nodes.values()), len(keys), name, each="node")
    return _scaled(weights, name)


def _from_ids(n: int, ids: Array, name: str) -> Array:
    if ids.min() < 0 or ids.max() >= n:
        place = int(np.argmax((ids < 0) | (ids >= n)))
        raise ValueError(
            f"{name}[{place}] is {ids[place]}, expected node ids in 0..{n - 1}; pass weights of nodes as floats."
        )
    chosen = np.zeros(n)
    chosen[ids] = 1.0
    return chosen / chosen.sum()


def _are_numbers(array: Array) -> bool:
    return array.dtype.kind == "O" and all(isinstance(entry, int | float) for entry in array)
