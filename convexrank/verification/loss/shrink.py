"""Make an instance small while it still shows what it shows: fewer queries, fewer rows, simpler numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from convexrank.verification.loss.instance import Instance

# Calls of the predicate.
_BUDGET = 600


def size_of(instance: Instance) -> tuple[float, ...]:
    """Return what instances are compared by: rows, queries, weights, and how simple the numbers are."""
    weights = 0 if instance.weights is None else int((instance.weights != 1.0).sum())
    return (
        len(instance),
        len(instance.groups),
        weights,
        sum(map(_effort, instance.y.tolist())),
        sum(map(_effort, instance.scores.tolist())),
        float((np.diff(instance.y) > 0).sum())
        + (0.0 if instance.qid is None else float((np.diff(instance.qid) < 0).sum())),
    )


def _effort(value: float) -> float:
    """Return how hard a number is to read: 0, 1, −1, 2, …; then those with a point."""
    return (
        abs(value)
        + (0.5 if value < 0 else 0.0)
        + (0.0 if float(value).is_integer() else 1e6 + len(repr(value)))
    )


def shrink(instance: Instance, fails: Callable[[Instance], bool], budget: int = _BUDGET) -> Instance:
    """Return a small instance that fails as well; the first simpler one is taken, until there is none.

    Parameters
    ----------
    instance : Instance
        One that fails.
    fails : callable
        Whether an instance fails.
    budget : int
        How often it may be asked.
    """
    tried: set[bytes] = {instance.key}
    moved = True
    while moved:
        moved = False
        for candidate in _simpler(instance):
            if candidate.key in tried or size_of(candidate) >= size_of(instance):
                continue
            if not budget:
                return instance
            tried.add(candidate.key)
            budget -= 1
            if fails(candidate):
                instance, moved = candidate, True
                break
    return instance


def _simpler(instance: Instance) -> Iterator[Instance]:
    """Instances that may be simpler, the boldest first."""
    places = np.arange(len(instance))
    if len(instance.groups) > 1:
        for rows in instance.groups:
            yield instance.rows(np.setdiff1d(places, rows))
    if len(instance) > 1:
        for place in places:
            yield instance.rows(np.delete(places, place))
    if instance.qid is not None and len(instance.groups) > 1:
        yield instance.changed(qid=np.zeros_like(instance.qid))
    if instance.weights is not None:
        yield instance.changed(weights=np.ones(len(instance)))
        for place, weight in enumerate(instance.weights.tolist()):
            for value in (1.0, 2.0, 0.0):
                if value != weight:
                    yield instance.changed(weights=_with(instance.weights, place, value))
    ranks = np.unique(instance.y, return_inverse=True)[1].ravel().astype(instance.y.dtype)
    yield instance.changed(y=ranks)
    yield instance.changed(scores=np.zeros(len(instance)))
    yield instance.changed(scores=np.round(instance.scores))
    for score in instance.scores.tolist():
        yield instance.changed(scores=instance.scores - score)
    for place, value in enumerate(instance.y.tolist()):
        for simpler in (number for number in _numbers(value) if number >= min(0.0, value)):
            yield instance.changed(y=_with(instance.y, place, simpler))
    for place, value in enumerate(instance.scores.tolist()):
        for simpler in _numbers(value):
            yield instance.changed(scores=_with(instance.scores, place, simpler))
    order = np.lexsort((-instance.y, np.zeros(len(instance)) if instance.qid is None else instance.qid))
    yield instance.rows(order)


def _numbers(value: float) -> Iterator[float]:
    """Simpler numbers than one."""
    sign = -1.0 if value < 0 else 1.0
    candidates = (0.0, 1.0, -1.0, float(np.trunc(value / 2)), float(np.trunc(value)), round(value, 1))
    steps = tuple(value - sign * step for step in (100.0, 10.0, 1.0) if abs(value) > step)
    yield from (simpler for simpler in (*candidates, *steps) if _effort(simpler) < _effort(value))


def _with(array: np.ndarray, place: int, value: float) -> np.ndarray:
    found = array.copy()
    found[place] = value
    return found
