"""Calls of a loss with arrays of numpy, JAX or torch, and its gradient by the differentiation of that library."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.data import shown
from convexrank.verification.loss.instance import Instance

Array = np.ndarray


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
        weights = (
            {self.weights: make(instance.weights.copy())}
            if instance.weights is not None and self.weights
            else {}
        )
        return args, weights

    def __call__(self, instance: Instance) -> Answer:
        """Call the loss; errors are part of the answer."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
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
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
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
        return _number(found)

    def plain(self, instance: Instance) -> Answer:
        """Call the loss as it is, without a gradient: what is compiled would give the same value each time."""
        if self.backend != "jax":
            return self(instance)
        import jax
        import jax.numpy as jnp

        with jax.enable_x64(True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            args, weights = self.arguments(instance, jnp.asarray)
            try:
                found = self.function(jnp.asarray(instance.scores), *args, **weights)
                return _number(found[0] if isinstance(found, tuple) else found)
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
                answer = _number(self.function(scores, *args, **weights))
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
        answer = _number(_detached(found))
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


def _number(found: Any) -> Answer:
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
    answer = _number(value)
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
