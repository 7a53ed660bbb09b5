"""Compare any loss with a formulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from convexrank.backend.interruption import as_a_whole
from convexrank.core.problem import Problem
from convexrank.data import check_choice, check_integer, check_probability, check_real
from convexrank.verification.loss.checks import NAMES, Checker, Found
from convexrank.verification.loss.formulation import (
    Formulation,
    Scale,
    fit_scale,
    formulation_of,
    good_instances,
    lines_of,
)
from convexrank.verification.loss.instance import Caller, Design, Instance, draw, shrink, size_of
from convexrank.verification.loss.report import (
    Counterexample,
    LossReport,
    caller_of,
    hint_of_ties,
    hints_of,
    notes,
)

__all__ = ["verify_loss"]

# Random instances at most; beyond them nothing new is drawn.
_MOST = 100_000
# Failing instances that are made small; the smallest result is shown.
_SHRUNK = 3
# Scales that are tried where none fits.
_SIMPLE = (Scale(), Scale(over="pairs"), Scale(over="queries"))


@as_a_whole
def verify_loss(
    f: Callable[..., Any],
    problem: Problem | type[Problem],
    *,
    y: Any = None,
    qid: Any = None,
    sample_weight: Any = None,
    scale: Any = "fit",
    shift: Any = "fit",
    unordered: Literal["zero", "finite"] = "zero",
    instances: int = 200,
    seed: int = 0,
    tol: float = 1e-6,
    backend: str | None = None,
    **parameters: Any,
) -> LossReport:
    """Compare a loss with a formulation: value, gradient, invariances, ties, queries without an order, large scores.

    The values of the formulation come from its reference code in numpy, without penalties. Scale and shift are fitted
    on instances without ties, then held fixed; the scale may be divided or multiplied by a count, such as the number
    of pairs. The first disagreement is shown on the smallest instance found.

    Parameters
    ----------
    f : callable
        A function ``f(scores, y)`` or ``f(scores, y, qid)`` of arrays of shape (n,), with integers 0, 1, … as qid. It
        returns a number, or a number and its gradient. A keyword ``sample_weight`` or ``weights`` receives the weights
        of rows. The function is written with numpy, JAX or torch; JAX and torch differentiate it.
    problem : Problem class or Problem
        The formulation. Random instances draw their labels from those of an instance.
    y, qid, sample_weight : array, shape (n,), optional
        For a class, the data of the first instance; random instances draw their labels from y.
    scale : "fit" or float
        The factor between f and the formulation; by default fitted, above 0. One below 0 is for an f to be maximised.
    shift : "fit", "labels" or float
        The difference between f and the scaled formulation. With "labels" any function of labels, queries and weights
        is allowed: then only differences between scores are compared, as for a cross-entropy in place of a divergence.
    unordered : {"zero", "finite"}
        Treatment of queries whose rows all have the same label, which contribute nothing to the formulations. With
        "finite" they may contribute to f, as in softmax losses, and f need only be finite.
    instances : int
        Number of random instances.
    seed : int
        Seed of the random instances.
    tol : float
        Relative tolerance of the comparison; in single precision it is at least 2e-4.
    backend : {"numpy", "jax", "torch"} or None
        The kind of arrays with which f is called; by default determined from the arrays that f accepts and returns.
    **parameters : object
        Arguments of the problem class beside its data, such as ``loss="hinge"``.

    Returns
    -------
    LossReport
        ``report.agrees``, ``report.formula``, ``report.first``.

    Raises
    ------
    ValueError, TypeError
        When f is not a function of scores and labels, the problem has no labels, or an argument is out of range. Errors
        that f raises are part of the report.
    KeyboardInterrupt
        When Ctrl-C is pressed, at the next step of a solve.

    Notes
    -----
    An instance of n ≤ 15 rows takes about 5 + 2n calls of f. Bipartite formulations are not defined for labels of one
    class; such instances are not compared.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> def hinge(scores, y):
    ...     margins = scores[y == 1][:, None] - scores[y == 0]
    ...     return 2.0 * np.maximum(0.0, 1.0 - margins).sum() / len(scores)
    >>> cr.verify_loss(hinge, cr.problems.Push, price="identity", loss="hinge", instances=20)
    LossReport: agrees with Push(price='identity', loss='hinge') on 20 instances, in numpy
    f = 2 / rows × Push + 0
    """
    instances, seed = check_integer(instances, "instances", 1), check_integer(seed, "seed", 0)
    tol = check_probability(tol, "tol")
    factor, constant = _number(scale, "scale", ("fit",)), _number(shift, "shift", ("fit", "labels"))
    _refuse(instances, factor, backend, unordered)
    formulation, caller, design, first = _read(f, problem, parameters, y, qid, sample_weight, backend)
    by_labels = shift == "labels"
    constant = 0.0 if by_labels else constant

    goods = good_instances(formulation, design, caller, seed)
    lines = lines_of(formulation, caller, goods, tol)
    fitted = fit_scale(lines, len(goods), tol, factor, constant)
    found = fitted or _nearest(formulation, caller, goods, factor, constant)

    shifts = _shifts(formulation, goods)
    checker = Checker(formulation, caller, found, by_labels, tol, shifts, unordered == "zero")
    tried = _instances(first, design, caller, instances, seed)
    checks, failing = _run(checker, tried)
    smallest = _smallest(checker, failing)

    hints = notes(caller) if design.labels == "binary" else ()
    if smallest is not None:
        hints += hints_of(formulation, caller, goods, lines, fitted, tol, by_labels)
        hints += hint_of_ties(smallest)
    moved, fits = "labels" if by_labels else found.shift, fitted is not None
    return LossReport(
        str(formulation), caller.backend, found, moved, fits, len(tried), checks, smallest, hints
    )


def _refuse(instances: int, factor: float | None, backend: str | None, unordered: str) -> None:
    """Refuse arguments out of range."""
    if instances > _MOST:
        raise ValueError(f"instances is {instances}, expected at most {_MOST}.")
    if factor == 0.0:
        raise ValueError("scale is 0, expected a number other than 0, or 'fit'.")
    if backend is not None:
        check_choice(backend, {name: name for name in ("numpy", "jax", "torch")}, "backend")
    check_choice(unordered, {"zero": 0, "finite": 1}, "unordered")


def _read(
    f: Callable[..., Any],
    problem: Problem | type[Problem],
    parameters: dict[str, Any],
    y: Any,
    qid: Any,
    sample_weight: Any,
    backend: str | None,
) -> tuple[Formulation, Caller, Design, Instance | None]:
    """Return formulation, loss, the kind of random instances, and the caller's own instance if there is one."""
    formulation, design, first = formulation_of(problem, dict(parameters), y, qid, sample_weight)
    trial = draw(np.random.default_rng(0), replace(design, weights=False), "plain", False)
    caller = caller_of(f, formulation.by_queries, formulation.weighted, backend, trial)
    if sample_weight is not None and not caller.weights:
        raise TypeError(
            "sample_weight is given, but f has no argument sample_weight or weights; drop it or add one."
        )
    queries = caller.takes_queries and formulation.by_queries
    if first is not None and not queries:
        first = first.changed(qid=None) if first.qid is None or len(first.groups) < 2 else None
    return formulation, caller, replace(design, queries=queries, weights=bool(caller.weights)), first


def _number(value: Any, name: str, words: tuple[str, ...]) -> float | None:
    """A number, or None for one of the words."""
    if isinstance(value, str):
        check_choice(value, {word: word for word in words}, name)
        return None
    number = check_real(value, name)
    if not np.isfinite(number):
        raise ValueError(f"{name} is {value}, expected a finite number or one of: {', '.join(words)}.")
    return number


def _instances(
    first: Instance | None, design: Design, caller: Caller, count: int, seed: int
) -> list[Instance]:
    """The caller's instance with scores of three kinds, then random ones of every kind in turn."""
    rng = np.random.default_rng([seed, 0])
    kinds = design.alternation
    found = [draw(rng, design, kinds[number % len(kinds)], caller.takes_queries) for number in range(count)]
    if first is not None:
        if caller.takes_queries and first.qid is None:
            first = first.changed(qid=np.zeros(len(first), np.int64))
        if caller.weights and first.weights is None:
            first = first.changed(weights=np.ones(len(first)))
        n = len(first)
        own = [rng.normal(size=n).round(3), rng.integers(-1, 3, size=n).astype(float), np.zeros(n)]
        found[: min(3, count)] = [first.changed(scores=scores) for scores in own][:count]
    return found


def _shifts(formulation: Formulation, goods: list[list[Instance]]) -> str:
    """Return the shifts of scores that leave the formulation as it is."""
    rng, by_queries, everywhere = np.random.default_rng(0), True, True
    for vectors in goods[:8]:
        one = vectors[1]
        risk = formulation.oracle(one)
        if risk is None:
            continue
        moves = rng.normal(size=len(one.groups))
        numbers = np.zeros(len(one), int) if one.qid is None else one.qid
        centre = risk(one.scores)[0]
        allowed = 1e-9 * max(1.0, abs(centre))
        by_queries &= abs(risk(one.scores + moves[numbers])[0] - centre) <= allowed
        everywhere &= abs(risk(one.scores + 1.5)[0] - centre) <= allowed
    return "queries" if by_queries else "all" if everywhere else ""


def _nearest(
    formulation: Formulation,
    caller: Caller,
    goods: list[list[Instance]],
    factor: float | None,
    shift: float | None,
) -> Scale:
    """The simple scale whose values come nearest, for a loss that none fits."""
    pairs = []
    for vectors in goods:
        risk, answer = formulation.oracle(vectors[1]), caller(vectors[1])
        if risk is not None and not answer.wrong:
            pairs.append((vectors[1], risk(vectors[1].scores)[0], answer.value))
    best, least = _SIMPLE[0], np.inf
    for scale in _SIMPLE:
        errors = [
            abs(scale.expected(one, risk) - value) / (abs(value) + abs(scale.expected(one, risk)) + 1e-9)
            for one, risk, value in pairs
        ]
        if errors and float(np.median(errors)) < least - 1e-6:
            best, least = scale, float(np.median(errors))
    best = best if factor is None else Scale(factor)
    return best if shift is None else replace(best, shift=shift)


def _run(
    checker: Checker, tried: list[Instance]
) -> tuple[tuple[tuple[str, int, int], ...], tuple[str, list[Instance]] | None]:
    """Make every check on every instance; return the counts, and the instances on which the first one fails."""
    counts: list[tuple[str, int, int]] = []
    failing: tuple[str, list[Instance]] | None = None
    for name in NAMES:
        # without a compiled program JAX compiles each operation for each size
        few = name == "same value twice" and checker.caller.backend == "jax"
        results = [(instance, checker.check(name, instance)) for instance in (tried[:2] if few else tried)]
        made = [(instance, result) for instance, result in results if result is not False]
        bad = [instance for instance, result in made if isinstance(result, Found)]
        if made:
            counts.append((name, len(made), len(bad)))
        if bad and failing is None:
            failing = name, bad
    return tuple(counts), failing


def _smallest(checker: Checker, failing: tuple[str, list[Instance]] | None) -> Counterexample | None:
    """Make failing instances small, and write down the smallest."""
    if failing is None:
        return None
    name, bad = failing
    family = name.partition(":")[0]

    def found(instance: Instance) -> tuple[str, Found] | None:
        """Return the finding of the same kind of check; an instance may become plainer while it is made small."""
        check = f"{family}: {instance.kind}" if ":" in name else name
        result = checker.check(check, instance)
        return (check, result) if isinstance(result, Found) else None

    starts = sorted(bad, key=size_of)[:_SHRUNK]
    shrunk = [shrink(instance, lambda candidate: found(candidate) is not None) for instance in starts]
    smallest = min(shrunk, key=size_of)
    result = found(smallest)
    if result is None:  # a loss that answers differently each time
        smallest, result = next((one, seen) for one in bad if (seen := found(one)) is not None)
    check, what = result
    instance = smallest if checker.caller.takes_queries else smallest.changed(qid=None)
    if not checker.caller.weights:
        instance = instance.changed(weights=None)
    text = "\n".join((*instance.text(), *what.lines))
    return Counterexample(
        check, instance.scores, instance.y, instance.qid, instance.weights, what.found, what.expected, text
    )
