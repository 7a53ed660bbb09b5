"""A risk as data that the checking programs read: its atoms one by one, each of those before it, and arrays as files.

Formulas are written as they are, and not their floats, where numbers remember what they were computed from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.core.results import CertificateError
from convexrank.data.fields import Recorded
from convexrank.modelling import expressions as tree
from convexrank.modelling.expressions import Axis
from convexrank.modelling.functions import Function
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold
from convexrank.modelling.program import Program

__all__ = ["WrittenRisk"]

Array = np.ndarray

_GROUPS = "positive", "negative", "rows"
_OPERATIONS = {
    np.add: "+",
    np.subtract: "-",
    np.multiply: "*",
    np.divide: "/",
    np.log: "log",
    np.exp: "exp",
    np.expm1: "expm1",
}
# What changes nothing as the second number, and of sums and products as the first.
_NEUTRAL = {np.add: 0.0, np.subtract: 0.0, np.multiply: 1.0, np.divide: 1.0}


class _UnknownError(Exception):
    """A computation that the programs do not know: its floats are written."""


@dataclass(frozen=True, eq=False)
class _Number:
    """A number, or one for each row or query, as a formula; computed with as numpy's arrays are."""

    text: Any
    size: int
    risk: WrittenRisk

    def _made(self, text: Any, size: int) -> _Number:
        return _Number(text, size, self.risk)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> _Number:
        if method == "__call__" and ufunc in _OPERATIONS:
            size, texts = max(one.size for one in inputs), [one.text for one in inputs]
            return self._made(_simplified(ufunc, texts), size)
        if ufunc is not np.add or not method.startswith("reduce"):
            raise _UnknownError
        places = inputs[1] if len(inputs) > 1 else [0]
        leaf, axis = self.risk.leaf_with(
            lambda axis: len(axis.rows) == self.size and np.array_equal(axis.starts[:-1], places)
        )
        return self._made(["sums", self.text, leaf], axis.count)

    def __getitem__(self, places: Any) -> _Number:
        places = np.atleast_1d(places)
        if self.size == 1 or type(self.text) is float:  # one number for all
            return self._made(self.text, len(places))
        try:
            leaf, _ = self.risk.leaf_with(
                lambda axis: axis.count == self.size and np.array_equal(axis.query, places)
            )
            return self._made(["spread", self.text, leaf], len(places))
        except _UnknownError:
            return self._made(["take", self.text, self.risk.file(places)], len(places))

    def repeat(self, repeats: Any) -> _Number:
        """Repeat numbers, those of queries for their rows."""
        return self[np.arange(len(repeats)).repeat(repeats)]


def _simplified(ufunc: np.ufunc, texts: list[Any]) -> Any:
    """An operation, or one of its numbers where the other changes nothing; −(−x) is x."""
    first, last = texts[0], texts[-1]
    if last == _NEUTRAL.get(ufunc):
        return first
    if ufunc in (np.add, np.multiply) and first == _NEUTRAL[ufunc]:
        return last
    if ufunc is np.multiply and first == -1.0 and isinstance(last, list) and last[:2] == ["*", -1.0]:
        return last[2]
    return [_OPERATIONS[ufunc], *texts]


@dataclass(frozen=True)
class WrittenRisk:
    """Atoms and arrays of a risk.

    Parameters
    ----------
    program : Program
        The risk.
    groups : object
        The groups that it is an expression of; what it has by the name of a group is written by that name.
    y : ndarray
        The labels that the folder has.
    """

    program: Program
    groups: Any
    y: Array
    arrays: dict[str, Array] = field(default_factory=dict)
    #: Leaves that are written already, by the numbers of their atoms.
    leaves: dict[int, Axis] = field(default_factory=dict)

    def atoms(self) -> list[dict[str, Any]]:
        """Return the atoms, the risk of each query as the last; arrays are added to ``arrays``."""
        found = []
        for number, (node, args) in enumerate(zip(self.program.nodes, self.program.args, strict=True)):
            if isinstance(node, tree.Scores):
                self.leaves[number] = node.axis
            found.append({"of": list(args), **self._atom(node)})
        return found

    def _atom(self, node: tree.Node) -> dict[str, Any]:
        match node:
            case tree.Scores():
                return self._leaf(node)
            case tree.Affine():
                factors = [self._numbers(c) for c, _ in node.exact_terms]
                return {"atom": "sum", "factors": factors, "constant": self._numbers(node.exact_constant)}
            case tree.Reduction():
                return {"atom": node.word, "weights": self._numbers(node.exact_weights)}
            case CumulativeLogSumExp():
                return self._made("cumulative_log_sum_exp", weights=node.exact_weights, grades=node.grades)
            case tree.Maximum():
                return {"atom": "maximum"}
            case tree.Highest():
                return self._made("mean_of_highest", weights=node.weights, asked=node.exact_asked)
            case Threshold():
                found = {"scale": float(node.scale), "target": float(node.target)}
                return found | self._made("threshold", node.function, weights=node.exact_weights)
            case tree.Elementwise():
                return self._made("function", node.function)
            case tree.PairMeans():
                low = node.lowest
                return self._made("pair_means", node.function, weights=low.weights, asked=low.exact_asked)
            case tree.PairSums():
                return self._made("pair_sums", node.function, weights=node.weights, grades=node.grades)
            case _:
                raise CertificateError(f"{node} is not among the atoms that the checking programs know.")

    def _made(self, atom: str, function: Function | None = None, **numbers: Any) -> dict[str, Any]:
        found: dict[str, Any] = {"atom": atom}
        if function is not None:
            if function.form is None:
                raise CertificateError(
                    f"{function.name} is not among the functions that the checking programs know: exp, softplus, "
                    "square, hinge, squared_hinge, huber, powers of what is positive, and multiples of these. Write "
                    "the risk with them."
                )
            found["function"] = function.form
        return found | {
            name: None if values is None else self._numbers(values) for name, values in numbers.items()
        }

    def _leaf(self, node: tree.Scores) -> dict[str, Any]:
        name = node.axis.name
        if name in _GROUPS and getattr(self.groups, name, None) is node:
            return {"atom": "scores", "group": name}
        lower = None if not isinstance(node, tree.Differences) else self.file(node.lower)
        rows, queries = self.file(node.axis.rows), self.file(node.axis.query)
        return {"atom": "listed", "rows": rows, "lower": lower, "queries": queries}

    def leaf_with(self, fits: Callable[[Axis], bool]) -> tuple[int, Axis]:
        """Return a leaf that is written and its rows, the last one that fits."""
        for number, axis in reversed(self.leaves.items()):
            if fits(axis):
                return number, axis
        raise _UnknownError

    def _numbers(self, values: Any) -> Any:
        """A number, the name of a file, or an operation and what it is done with: see the checking programs."""
        if isinstance(values, Recorded):
            try:
                return values.replayed(lambda one: _Number(self._floats(one), one.size, self)).text
            except _UnknownError:
                pass
        return self._floats(np.asarray(values, dtype=np.float64).view(np.ndarray))

    def _floats(self, values: Array) -> Any:
        if values.ndim == 0 or (values == values.flat[0]).all():
            return float(values.flat[0])
        for number, axis in self.leaves.items():
            if np.array_equal(values, axis.weights):
                return ["weight", number]
            if np.array_equal(values, self.y[axis.rows]):
                return ["label", number]
            if np.array_equal(values, axis.sizes):
                return ["sums", 1.0, number]
            if np.array_equal(values, axis.sizes[axis.query]):
                return ["spread", ["sums", 1.0, number], number]
        return self.file(values)

    def file(self, values: Array) -> str:
        """Return the name of the file of an array."""
        kind, dtype = ("i", np.int64) if values.dtype.kind in "iu" else ("n", np.float64)
        for name, known in self.arrays.items():
            if name[0] == kind and np.array_equal(known, values):
                return name
        name = f"{kind}{len(self.arrays)}"
        self.arrays[name] = np.ascontiguousarray(values, dtype=dtype)
        return name
