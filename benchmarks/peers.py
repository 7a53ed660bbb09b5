"""PartialAUC and PatMat beside the methods of the papers that they are from: cutting planes, and Adam's steps."""

from __future__ import annotations

import math
import time
from statistics import mean, stdev
from typing import Any

from gradient_steps import PENALTY, STEPS, by_steps, value_and_gradient
from measure import fresh, median
from report import Section, Table, Target, at_most, seconds_text
from top_data import DATA, UNSCALED, WHOLE, missing

# Cutting planes: rates up to 10 % and the tolerance of the authors' program.
_SHARE, _L2, _STOP = 0.1, 1e-2, 1e-4
_ROWS = ("Pima", "concrete", "cancer", "digits", "ionosphere", "Spambase, whole", "MAGIC, whole")
# Steps: of the authors' scripts both shares, both sets of rows, and of their six scales the largest three.
_TAUS, _OVER, _SCALES = (0.05, 0.01), ("negatives", "all"), (10.0, 1.0, 0.1)
_TOL = 1e-6


def peers(effort: int) -> Section:
    """Compare minima, times, and what is found of the positives."""
    found, targets = {}, []
    for name in _ROWS:
        if not missing(name):
            found[name] = fresh("peers:planes", name=name, repeats=1 + effort).result
            apart = abs(found[name]["tight"]["value"] - found[name]["least"])
            targets.append(_within(f"{name}: minimum of SVMpAUC-tight less ours", apart, _STOP))
            targets.append(at_most(f"{name}: time over SVMpAUC-tight's", _ratio(found[name]), 1.0))
    tables = [_planes(found)] if found else []
    steps = {
        name: fresh("peers:steps", name=name, splits=1 + 2 * effort).result
        for name in UNSCALED
        if not missing(name)
    }
    every = [one for entry in steps.values() for case in entry for split in case["splits"] for one in split]
    if every:
        targets += [
            _within(
                "PatMat, worst gap (relative)",
                max(one["gap"] / max(1.0, one["least"]) for one in every),
                _TOL,
            ),
            _within("PatMat, minimum above a value of steps", max(_below(one) for one in every), _TOL),
            at_most("PatMat: longest time over that of steps", max(map(_quotient, every)), 1.0),
        ]
        tables.append(_steps(steps))
    if left_out := [(name, missing(name)) for name in (*_ROWS, *UNSCALED) if missing(name)]:
        tables.append(Table("Left out", ("data", "reason"), tuple(left_out)))
    return Section(tuple(tables), tuple(targets))


def _within(what: str, found: float, limit: float) -> Target:
    return Target(what, f"≤ {limit:g}", f"{found:.0e}", found <= limit)


def _ratio(one: dict[str, Any]) -> float:
    return one["seconds"] / one["tight"]["seconds"]


def _below(one: dict[str, float]) -> float:
    return max(one["least"] - one["reached"], 0.0) / max(1.0, one["least"])


def _quotient(one: dict[str, float]) -> float:
    return one["ours"] / one["theirs"]


def _planes(found: dict[str, Any]) -> Table:
    rows = tuple(
        (
            name,
            f"{one['least']:.6f}",
            seconds_text(one["seconds"]),
            *(f"{one['tight']['value'] - one['least']:+.0e}", str(one["tight"]["cuts"])),
            f"{1.0 / _ratio(one):.1f}",
            *(f"{one['loose']['value']:.6f}", str(one["loose"]["cuts"])),
            f"{one['loose']['ours'] - one['least']:+.0e}",
        )
        for name, one in found.items()
    )
    note = (
        f"PartialAUC with the hinge, rates up to {100 * _SHARE:g} %, l2 = {_L2:g}, features in units of their "
        f"deviation; both to {_STOP:g}, the tolerance of the authors' program, and our minimum to 1e-8. Processor "
        "time, ours the least of some solves. SVMpAUC-tight has the objective of PartialAUC; that of SVMpAUC adds the "
        "negatives that do not count, as far as they are above positives. The cutting planes are written anew from "
        "the papers, with Clarabel for their quadratic programs. A minimum of 1 is w = 0."
    )
    columns = ("data", "minimum", "time", "tight less ours", "its cuts", "its time over ours")
    return Table(
        "PartialAUC beside SVMpAUC",
        (*columns, "minimum of SVMpAUC", "its cuts", "ours at its point, less ours"),
        rows,
        note,
    )


def _steps(found: dict[str, Any]) -> Table:
    rows = []
    for name, entry in found.items():
        for case in entry:
            quotients = [one["reached"] / one["least"] for split in case["splits"] for one in split]
            chosen = [
                [
                    max(split, key=lambda one: one[f"{who} to choose"])[f"{who} found"]
                    for who in ("ours", "theirs")
                ]
                for split in case["splits"]
            ]
            ours, theirs = (mean(column) for column in zip(*chosen, strict=True))
            apart = [a - b for a, b in chosen]
            error = stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
            seconds = [
                mean(sum(one[who] for one in split) for split in case["splits"]) for who in ("ours", "theirs")
            ]
            rows.append(
                (
                    *(name, case["over"], f"{case['tau']:g}"),
                    *(f"{median(quotients):.4f}", f"{max(quotients):.4f}"),
                    *(f"{ours:.3f}", f"{theirs:.3f}", f"{mean(apart):+.3f} ± {error:.3f}"),
                    *map(seconds_text, seconds),
                )
            )
    note = (
        f"Pat&Mat and Pat&Mat-NP as in AccuracyAtTopPrimal.jl, written anew: {STEPS} full gradients by Adam from a "
        f"random start, {PENALTY:g} |w|² beside the loss. Data, shares of the split (a half to fit, a quarter to "
        "choose, a quarter to judge), features as they are, τ, and the measure are those of the scripts beside the "
        "paper. Both surrogates are squared hinges, where the scripts take hinges; β is chosen among "
        f"{', '.join(f'{scale:g}' for scale in _SCALES)} for each. Steps over the minimum: quotients of the objective, "
        "for all β and splits. "
        "Found: the share of the positives at a false positive rate of τ, on the rows to judge, in the mean over "
        "splits; difference: ours less theirs ± its standard error. Times are of the processor, for all β."
    )
    columns = (
        "data",
        "threshold over",
        "τ",
        "steps over the minimum, median",
        "largest",
        "found",
        "by steps",
    )
    return Table(
        "PatMat beside AccuracyAtTopPrimal.jl's steps",
        (*columns, "difference", "time", "of steps"),
        tuple(rows),
        note,
    )


# --- in processes of their own --------------------------------------------------------------------------------------


def planes(name: str, repeats: int) -> dict[str, Any]:
    """Return our minimum and time, and for both forms of SVMpAUC value, cuts, time, and our objective there."""
    import warnings

    import numpy as np
    from cutting_planes import cutting_planes

    import convexrank as cr

    X, y = {**DATA, **WHOLE}[name][0]()
    deviations = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    problem = cr.problems.PartialAUC(X, y, _SHARE, "hinge", l2=_L2)
    warnings.simplefilter("ignore", cr.ConvergenceWarning)  # of some w = 0 is the minimum
    found: dict[str, Any] = {"least": problem.solve(tol=1e-8).value, "seconds": math.inf}
    for _ in range(repeats):
        start = time.process_time()
        problem.changed().solve(tol=_STOP)
        found["seconds"] = min(found["seconds"], time.process_time() - start)
    for kind in ("tight", "loose"):
        start = time.process_time()
        reached = cutting_planes(X, y, _SHARE, _L2, _STOP, tight=kind == "tight")
        found[kind] = {
            "seconds": time.process_time() - start,
            "value": reached.value,
            "cuts": reached.cuts,
            "ours": problem.objective(reached.weights),
        }
    return found


def steps(name: str, splits: int) -> list[dict[str, Any]]:
    """Return for each share and set of rows, split by split, what is reached and found with each scale."""
    X, y = UNSCALED[name][0]()
    return [
        {
            "over": over,
            "tau": tau,
            "splits": [
                [_at_scale(_parts(X, y, seed), tau, scale, over, seed) for scale in _SCALES]
                for seed in range(splits)
            ],
        }
        for over in _OVER
        for tau in _TAUS
    ]


def _at_scale(
    parts: list[tuple[Any, Any]], tau: float, scale: float, over: Any, seed: int
) -> dict[str, float]:
    import convexrank as cr

    (X, y), *others = parts
    start = time.process_time()
    problem = cr.problems.PatMat(X, y, tau, beta=scale, over=over, l2=2.0 * PENALTY)
    solution = problem.solve(tol=_TOL)
    ours = time.process_time() - start
    start = time.process_time()
    weights = by_steps(X, y, tau, scale, over, seed, STEPS)
    theirs = time.process_time() - start
    reached, _ = value_and_gradient(weights, X, y, tau, scale, over)
    found = {
        f"{who} {what}": _found(rows @ w, labels, tau)
        for who, w in (("ours", solution.x), ("theirs", weights))
        for what, (rows, labels) in zip(("to choose", "found"), others, strict=True)
    }
    return {
        "least": solution.value,
        "gap": solution.gap,
        "reached": reached,
        "ours": ours,
        "theirs": theirs,
        **found,
    }


def _parts(X: Any, y: Any, seed: int) -> list[tuple[Any, Any]]:
    """Return a half and two quarters of the rows of each class, drawn at random."""
    import numpy as np

    rng, parts = np.random.default_rng(seed), []
    for label in (0, 1):
        order = rng.permutation(np.flatnonzero(y == label))
        parts.append(np.split(order, [len(order) // 2, 3 * len(order) // 4]))
    return [(X[rows], y[rows]) for rows in map(np.concatenate, zip(*parts, strict=True))]


def _found(scores: Any, y: Any, rate: float) -> float:
    """Return the share of the positives above a threshold that at most this share of the negatives is above."""
    import numpy as np

    negative = np.sort(scores[y == 0])[::-1]
    return float((scores[y == 1] > negative[int(rate * len(negative))]).mean())
