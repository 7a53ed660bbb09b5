"""Instances of a ranking loss: a few rows; random ones of every kind; and smaller ones that show the same.

Calls of a loss with arrays of numpy, JAX or torch, and its gradient by the differentiation of that library.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from convexrank.data import shown

Array = np.ndarray

# Scores and labels beyond these are called large: losses overflow there first.
_LARGE_SCORE, _LARGE_LABEL = 30.0, 30.0
# Few different sizes, because JAX compiles for each; one beyond 10, where many losses are cut off.
_ROWS, _MOST_QUERIES = (2, 3, 5, 8, 13), 3

#: What an instance may be special in, from the first that is named.
KINDS = ("weights", "large labels", "large scores", "queries without an order", "tied scores", "tied labels")


@dataclass(frozen=True, eq=False)
class Instance:
    """The arguments of a loss.

    Parameters
    ----------
    scores, y : ndarray, shape (n,)
        Scores and labels.
    qid : ndarray of int or None, shape (n,)
        Numbers of queries, 0, 1, …; None if all rows are one list.
    weights : ndarray or None, shape (n,)
        Weights of rows.
    """

    scores: Array
    y: Array
    qid: Array | None = None
    weights: Array | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @cached_property
    def key(self) -> bytes:
        """The contents, to look an instance up by."""
        parts = (self.scores, self.y.astype(float), self.qid, self.weights)
        return b"|".join(b"" if part is None else part.tobytes() for part in parts)

    def changed(self, **values: Any) -> Self:
        """Return the same instance with some arrays replaced."""
        return replace(self, **values)

    def rows(self, places: Array) -> Self:
        """Return the instance of these rows, in this order; queries are numbered from 0 again."""
        qid = None if self.qid is None else np.unique(self.qid[places], return_inverse=True)[1].ravel()
        weights = None if self.weights is None else self.weights[places]
        return replace(self, scores=self.scores[places], y=self.y[places], qid=qid, weights=weights)

    @cached_property
    def groups(self) -> list[Array]:
        """The rows of each query."""
        if self.qid is None:
            return [np.arange(len(self))]
        return [np.flatnonzero(self.qid == query) for query in np.unique(self.qid)]

    @cached_property
    def ordered(self) -> list[Array]:
        """The rows of each query that has two different labels."""
        return [rows for rows in self.groups if np.ptp(self.y[rows]) > 0]

    @cached_property
    def kind(self) -> str:
        """The kind of the instance, such as "plain" or "tied scores"."""
        weights = self.weights
        special = (
            weights is not None and bool((weights != 1.0).any()),
            float(np.abs(self.y).max()) > _LARGE_LABEL,
            float(np.abs(self.scores).max()) > _LARGE_SCORE,
            len(self.ordered) < len(self.groups),
            any(len(np.unique(self.scores[rows])) < len(rows) for rows in self.groups),
            len(np.unique(self.y)) > 2
            and any(len(np.unique(self.y[rows])) < len(rows) for rows in self.groups),
        )
        return next((name for name, holds in zip(KINDS, special, strict=True) if holds), "plain")

    def counts(self) -> dict[str, float]:
        """Return sizes that a loss may be divided by; pairs are those of one query with different labels."""
        n, ordered = len(self), self.ordered
        pairs = sum(int((self.y[rows][:, None] > self.y[rows][None, :]).sum()) for rows in ordered)
        top = self.y > (0.0 if len(np.unique(self.y)) > 2 else float(self.y.min()))
        found = {
            "pairs": pairs,
            "rows": n,
            "queries": len(self.groups),
            "queries with an order": len(ordered),
            "positives": int(top.sum()),
            "negatives": int((~top).sum()),
            "rows of queries with an order": sum(map(len, ordered)),
            "pairs of rows": n * (n - 1) // 2,
            "rows²": n * n,
            "sum of y": float(self.y.sum()),
        }
        if self.weights is not None:
            found["sum of weights"] = float(self.weights.sum())
        return {name: float(value) for name, value in found.items()}

    def text(self) -> list[str]:
        """The arrays as lines of Python."""
        given = {"scores": self.scores, "y": self.y, "qid": self.qid, "sample_weight": self.weights}
        return [
            f"{name} = np.array([{', '.join(_number(value) for value in array.tolist())}])"
            for name, array in given.items()
            if array is not None
        ]


def _number(value: Any) -> str:
    return repr(int(value)) + "." if isinstance(value, float) and value.is_integer() else repr(value)


@dataclass(frozen=True)
class Design:
    """The distribution of random instances.

    Parameters
    ----------
    labels : {"binary", "graded", "real"}
        The kind of labels, if there are no levels.
    levels : ndarray or None
        The labels to choose from.
    queries : bool
        Whether there may be several queries; a loss of one list has none.
    weights : bool
        Whether rows may have weights.
    """

    labels: str
    levels: Array | None = None
    queries: bool = False
    weights: bool = False

    @property
    def alternation(self) -> tuple[str, ...]:
        """The kinds that are drawn in turn."""
        kinds = ["plain", "tied scores", "tied labels", "one positive", "large scores"]
        kinds += ["queries without an order"] if self.labels != "binary" else []
        kinds += ["large labels"] if self.levels is None and self.labels == "graded" else []
        return (*kinds, "plain")


def draw(rng: np.random.Generator, design: Design, kind: str, numbered: bool) -> Instance:
    """Draw an instance; every query has an order unless the kind says otherwise.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of the random numbers.
    design : Design
        The kinds of labels, queries and weights.
    kind : str
        One of ``design.alternation``.
    numbered : bool
        Whether the loss takes numbers of queries.
    """
    n, idle = int(rng.choice(_ROWS)), kind == "queries without an order"
    least = 1 if idle else 2
    count = int(rng.integers(1, min(_MOST_QUERIES, n // least) + 1)) if design.queries else 1
    sizes = least + rng.multinomial(n - least * count, np.full(count, 1.0 / count))
    parts = [
        _labels(rng, design, int(size), kind, idle and (count == 1 or rng.random() < 0.6)) for size in sizes
    ]
    scores = rng.normal(size=n).round(3)
    if kind == "tied scores":
        scores = rng.integers(-1, 3, size=n).astype(float)
    elif kind == "large scores":
        scores = (scores * rng.choice([50.0, 1000.0])).round()
    weights = rng.choice([0.5, 1.0, 2.0, 3.0], size=n) if design.weights and rng.random() < 0.5 else None
    if design.weights and weights is None:
        weights = np.ones(n)
    qid = np.repeat(np.arange(count), sizes) if numbered else None
    found = Instance(scores, np.concatenate(parts), qid, weights)
    return found.rows(rng.permutation(n))


def _labels(rng: np.random.Generator, design: Design, size: int, kind: str, tied: bool) -> Array:
    """Labels of one query: all the same if ``tied``, else with an order where there are two rows."""
    if design.levels is not None:
        levels = design.levels
    elif kind == "large labels":
        levels = np.array([0.0, 1.0, 40.0])
    else:
        levels = {"binary": np.arange(2.0), "graded": np.arange(4.0), "real": np.arange(-2.0, 3.0)}[
            design.labels
        ]
    if kind == "tied labels" or tied:
        levels = np.sort(rng.choice(levels, 2, replace=False))
    if tied:
        return np.repeat(rng.choice(levels), size)
    if kind == "one positive":
        y = np.repeat(levels[0], size)
        y[0] = levels[-1]
        return y
    y = rng.choice(levels, size)
    if design.labels == "real" and design.levels is None and kind == "plain":
        y = rng.normal(size=size).round(2)
    if size > 1 and np.ptp(y) == 0:
        y[0] = rng.choice(levels[levels != y[0]])
    return y


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
    point = 0.0 if float(value).is_integer() else 1e6 + len(repr(value))
    return abs(value) + (0.5 if value < 0 else 0.0) + point


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


@dataclass(frozen=True, eq=False)
class Answer:
    """The result of one call.

    Parameters
    ----------
    value : float
        The loss; NaN if the call returned no number.
    gradient : ndarray or None
        The gradient in the scores; None if the loss returns none.
    wrong : str
        Description of a result that is not a finite number; otherwise empty.
    wrong_gradient : str
        Description of a result that is not a gradient; otherwise empty.
    single : bool
        Whether the value has single precision.
    """

    value: float = math.nan
    gradient: Array | None = None
    wrong: str = ""
    wrong_gradient: str = ""
    single: bool = False


@dataclass(frozen=True)
class Caller:
    """A loss, and the form of its arguments.

    Parameters
    ----------
    function : callable
        The loss.
    takes_queries : bool
        Whether the third argument has numbers of queries.
    weights : str
        The keyword for weights of rows; empty if there is none.
    backend : {"numpy", "jax", "torch"}
        The kind of arrays of the arguments.
    """

    function: Callable[..., Any]
    takes_queries: bool
    weights: str
    backend: str
    _programs: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def arguments(self, instance: Instance, make: Callable[[Array], Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments after the scores; copies, so that nothing of ours can be changed."""
        args = [make(instance.y.copy())]
        if self.takes_queries:
            qid = np.zeros(len(instance), np.int64) if instance.qid is None else instance.qid.astype(np.int64)
            args.append(make(qid))
        weights: dict[str, Any] = {}
        if instance.weights is not None and self.weights:
            weights[self.weights] = make(instance.weights.copy())
        return args, weights

    def __call__(self, instance: Instance) -> Answer:
        """Call the loss; errors are part of the answer."""
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            try:
                return {"numpy": self._numpy, "jax": self._jax, "torch": self._torch}[self.backend](instance)
            except Exception as error:  # noqa: BLE001 - of a function that is not ours
                return Answer(wrong=_said(error))

    def changes(self, instance: Instance) -> str:
        """Return the names of arguments that a call changes; may be empty."""
        if self.backend == "jax":  # its arrays cannot be changed
            return ""
        make: Any = np.copy
        if self.backend == "torch":
            make = sys.modules["torch"].tensor
        scores = make(instance.scores.copy())
        args, weights = self.arguments(instance, make)
        held: dict[str, tuple[Any, Any]] = {"scores": (scores, instance.scores), "y": (args[0], instance.y)}
        if self.takes_queries and instance.qid is not None:
            held["qid"] = (args[1], instance.qid)
        if weights:
            held["sample_weight"] = (weights[self.weights], instance.weights)
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            try:
                self.function(scores, *args, **weights)
            except Exception:  # noqa: BLE001 - a call that fails is found elsewhere
                return ""
        return ", ".join(
            name for name, (now, before) in held.items() if not np.array_equal(np.asarray(now), before)
        )

    def _numpy(self, instance: Instance) -> Answer:
        args, weights = self.arguments(instance, np.copy)
        found = self.function(instance.scores.copy(), *args, **weights)
        if isinstance(found, tuple) and len(found) == 2:
            return _with_gradient(found[0], found[1], len(instance))
        return _answer_of(found)

    def plain(self, instance: Instance) -> Answer:
        """Call the loss as it is, without a gradient: what is compiled would give the same value each time."""
        if self.backend != "jax":
            return self(instance)
        import jax
        import jax.numpy as jnp

        with jax.enable_x64(True), warnings.catch_warnings(action="ignore"):
            args, weights = self.arguments(instance, jnp.asarray)
            try:
                found = self.function(jnp.asarray(instance.scores), *args, **weights)
                return _answer_of(found[0] if isinstance(found, tuple) else found)
            except Exception as error:  # noqa: BLE001 - of a function that is not ours
                return Answer(wrong=_said(error))

    def _jax(self, instance: Instance) -> Answer:
        import jax
        import jax.numpy as jnp

        with jax.enable_x64(True):
            args, weights = self.arguments(instance, jnp.asarray)
            scores = jnp.asarray(instance.scores)
            if "compiled" not in self._programs:
                self._programs["compiled"] = jax.jit(self._traced)
            if self._programs["compiled"] is not None:
                try:
                    found, slope = self._programs["compiled"](scores, args, weights)
                    return _with_gradient(found, slope, len(instance))
                except Exception:  # noqa: BLE001 - labels may have to be numbers; then nothing is compiled
                    self._programs["compiled"] = None
            try:
                found, slope = self._traced(scores, args, weights)
                return _with_gradient(found, slope, len(instance))
            except Exception as error:  # noqa: BLE001 - of a function that is not ours
                answer = _answer_of(self.function(scores, *args, **weights))
                text = answer.wrong or f"{type(error).__name__} when JAX differentiates"
                return Answer(answer.value, None, answer.wrong, text, answer.single)

    def _traced(self, scores: Any, args: Any, weights: Any) -> tuple[Any, Any]:
        """Return value and gradient; raise where there is none."""
        import jax
        import jax.numpy as jnp

        found, pull = jax.vjp(lambda s: self.function(s, *args, **weights), scores)
        if isinstance(found, tuple) and len(found) == 2:
            return found[0], found[1]
        found = jnp.asarray(found)
        if found.shape != () or jnp.iscomplexobj(found):
            raise TypeError("f gives no real number.")
        if not jnp.issubdtype(found.dtype, jnp.floating):  # of integers there is no slope
            return found, jnp.zeros_like(scores)
        return found, pull(jnp.ones_like(found))[0]

    def _torch(self, instance: Instance) -> Answer:
        torch = sys.modules["torch"]
        args, weights = self.arguments(instance, torch.tensor)
        scores = torch.tensor(instance.scores.copy(), requires_grad=True)
        found = self.function(scores, *args, **weights)
        if isinstance(found, tuple) and len(found) == 2:
            return _with_gradient(_detached(found[0]), _detached(found[1]), len(instance))
        answer = _answer_of(_detached(found))
        if answer.wrong:
            return answer
        if not getattr(found, "requires_grad", False):
            return _with_gradient(answer.value, np.zeros(len(instance)), len(instance), answer.single)
        try:
            (slope,) = torch.autograd.grad(found, scores, allow_unused=True)
        except RuntimeError as error:
            return Answer(
                answer.value,
                None,
                "",
                f"RuntimeError when torch differentiates: {error}"[:160],
                answer.single,
            )
        slope = np.zeros(len(instance)) if slope is None else slope.numpy()
        return _with_gradient(answer.value, slope, len(instance), answer.single)


def _said(error: Exception) -> str:
    """The first line of an error."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def _detached(value: Any) -> Any:
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def _answer_of(found: Any) -> Answer:
    """Return the result of a loss as a number, or a description of what else it is."""
    try:
        array = np.asarray(found)
    except Exception:  # noqa: BLE001 - anything may be returned
        return Answer(wrong=f"{type(found).__name__}, expected a real number")
    if array.shape != ():
        return Answer(wrong=f"an array of shape {array.shape}, expected one number")
    if array.dtype.kind not in "iuf":
        kind = "a complex number" if array.dtype.kind == "c" else shown(found, 40)
        return Answer(wrong=f"{kind}, expected a real number")
    single = array.dtype.kind == "f" and array.dtype.itemsize < 8
    value = float(array)
    return Answer(value, None, "" if math.isfinite(value) else str(value), "", single)


def _with_gradient(value: Any, gradient: Any, rows: int, single: bool = False) -> Answer:
    answer = _answer_of(value)
    if answer.wrong:
        return answer
    try:
        slope = np.asarray(gradient, dtype=np.float64)
    except (TypeError, ValueError):
        slope = np.empty(())
    single = single or answer.single
    if slope.shape != (rows,):
        return Answer(
            answer.value, None, "", f"a gradient of shape {slope.shape}, expected ({rows},)", single
        )
    wrong = "" if np.isfinite(slope).all() else f"{np.array2string(slope, precision=6, separator=', ')}"
    return Answer(answer.value, slope, "", wrong, single)
