"""Monotone retargeting on query data: the tables of chapter 3 of the dissertation again, with times and gaps."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from chapter_3 import PRINTED, Printed
from letor_collections import COLLECTIONS, folds_of, missing
from measure import fresh, median
from ranking_methods import METHODS, REFERENCE, STOPS, STRENGTHS, Method
from report import Section, Table, Target, at_most, seconds_text

_CUTS = (1, 3, 5, 10)
_ABOUT = 0.005
# The strengths of the target on time.
_THREE = (1e-2, 1.0, 10.0)
_CONVENTION = (
    "Means over five test folds ± their standard error; l2 is chosen in each fold by MAP on its validation part. All "
    "measures skip queries without a relevant document, average over the orders of ties, and take documents of grade 1 "
    "and 2 as relevant; NDCG has gains 2^y − 1 and discounts 1/log2(1 + rank), over the whole list unless @k; ERR has "
    "the largest grade 2. The dissertation does not state its conventions. "
    "MEMR has margins of 1, with the I-divergence targets in (0.1, 4), with KL the margin for which the largest query "
    "takes half of the simplex; C_r = 0 and C_w the least of Lemma 8 for the least φ''. The chapter does not print its "
    "margins."
)


def retargeting(effort: int) -> Section:
    """Fit every method on every fold and strength, choose by validation MAP, and test."""
    tables, targets, skipped = [], [], []
    for name in COLLECTIONS:
        reason = missing(name)
        if reason:
            skipped.append((name, reason))
            continue
        found = fresh("retargeting:experiment", name=name, folds=5 if effort else 1).result
        run = {key: entry for key, entry in found.items() if "reason" not in entry}
        tables += [_quality(name, found), _by_cut(name, run), _cost(name, run)]
        targets += _targets(name, found) if effort else []
    if skipped:
        tables.append(Table("Collections that are not at hand", ("collection", "reason"), tuple(skipped)))
    return Section(tuple(tables), tuple(targets))


# --- the tables ---------------------------------------------------------------------------------------------------


def _quality(name: str, found: dict[str, Any]) -> Table:
    rows = []
    for key, entry in found.items():
        method = METHODS[key]
        printed = PRINTED[name].get((method.kind, method.divergence)) if method.beside else None
        beside = printed or Printed("")
        measured = [
            _mean(entry[measure]) if "reason" not in entry else "–" for measure in ("map", "ndcg", "err")
        ]
        others = (beside.map, beside.ndcg, beside.err)
        pairs = [cell for pair in zip(measured, others, strict=True) for cell in pair]
        rows.append((key, *pairs, beside.table))
    columns = ("method", "MAP", "printed", "NDCG", "printed", "ERR", "printed", "Table")
    reasons: dict[str, list[str]] = {}
    for key, entry in found.items():
        if "reason" in entry:
            reasons.setdefault(entry["reason"], []).append(key)
    left_out = [f"Not computed: {'; '.join(keys)}: {reason}" for reason, keys in reasons.items()]
    note = " ".join((COLLECTIONS[name][1], _CONVENTION, *left_out))
    return Table(f"{name}: test measures beside the dissertation's", columns, tuple(rows), note)


def _by_cut(name: str, found: dict[str, Any]) -> Table:
    rows = []
    for key, entry in found.items():
        less = [ours - other for ours, other in zip(entry["map"], found[REFERENCE]["map"], strict=True)]
        paired = "" if key == REFERENCE else _mean(less, sign="+")
        rows.append((key, *(_mean(entry[f"ndcg@{cut}"]) for cut in _CUTS), paired))
    note = f"The same fits and conventions. Last: the difference of MAP to {REFERENCE}, paired by fold."
    columns = ("method", *(f"NDCG@{cut}" for cut in _CUTS), "MAP, difference")
    return Table(f"{name}: NDCG at the top, and paired differences", columns, tuple(rows), note)


def _cost(name: str, found: dict[str, Any]) -> Table:
    rows = []
    for key, entry in found.items():
        chosen = ", ".join(entry["chosen"])
        gap = f"{max(entry['gaps']):.0e} ({entry['certificate']})"
        spent = (median(entry["seconds"]), median(entry["processor"]), max(entry["seconds"]))
        times = map(seconds_text, spent)
        rows.append((key, *times, gap, _statuses(entry["statuses"]), chosen))
    note = (
        f"{len(STRENGTHS)} strengths a fold: {', '.join(f'{strength:g}' for strength in STRENGTHS)}. A fit declares "
        "the problem and solves it from zero: medians of wall and processor time, and the slowest, which has "
        "compilation in it. Gap: the largest certified bound on value − optimum over all fits, relative to "
        "max(1, value), or the length of the gradient (residual); asked for is 1e-8, but 1e-6 for KL and the "
        "I-divergence of MEMR and for RankCosine, and 1e-3 for the hinge. Chosen: l2 by fold, and for MR in brackets "
        f"after how many passes of {max(STOPS)} it was stopped. MR with the I-divergence, offsets and targets in the "
        "simplex is MR with KL."
    )
    columns = ("method", "a fit", "processor", "slowest", "largest gap", "statuses", "chosen l2")
    return Table(f"{name}: time and certificate of a fit", columns, tuple(rows), note)


def _statuses(statuses: Sequence[str]) -> str:
    return ", ".join(f"{statuses.count(status)} {status}" for status in sorted(set(statuses)))


def _mean(values: Sequence[float], sign: str = "-") -> str:
    """Write a mean and its standard error, where there is more than one value."""
    mean = sum(values) / len(values)
    written = f"{mean:{sign}.4f}"
    if len(values) > 1:
        error = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
        written += f" ± {error:.4f}"
    return written.replace("0.", ".")


def _targets(name: str, found: dict[str, Any]) -> tuple[Target, ...]:
    """What was asked for, on MQ2008."""
    if name != "MQ2008":
        return ()
    wall, busy = fresh("retargeting:race", name=name, key=REFERENCE).result
    what = f"{REFERENCE} on {name}"
    cells = ((f"{what}, MAP", "map", 0.658), (f"{what}, NDCG@10", "ndcg@10", 0.695))
    means = [(text, sum(found[REFERENCE][key]) / len(found[REFERENCE][key]), aim) for text, key, aim in cells]
    return (
        *(
            Target(text, f"about {aim}", f"{mean:.4f}", abs(mean - aim) <= _ABOUT)
            for text, mean, aim in means
        ),
        at_most(f"{what}, five folds, three strengths, compilation included", wall, 30.0, " s", aim=5.0),
        at_most("the same, processor time", busy, 30.0, " s", aim=5.0),
    )


# --- the experiment, in a process of its own ----------------------------------------------------------------------


def experiment(name: str, folds: int) -> dict[str, Any]:
    """Fit all methods; measures of the chosen model by fold, and what every fit cost."""
    parts, found = folds_of(name)[:folds], {}
    for key, method in METHODS.items():
        try:
            found[key] = found[method.same_as] if method.same_as else _run(method, parts)
        except ValueError as error:  # a refusal is a result, and the tables say it
            found[key] = {"reason": str(error)}
    return found


def race(name: str, key: str) -> tuple[float, float]:
    """Wall and processor time of five folds and three strengths, from declaring the problem to the choice."""
    parts, method = folds_of(name), METHODS[key]
    start, busy = time.perf_counter(), time.process_time()
    for train, validation, _ in parts:
        for strength in _THREE:
            for _, w in _fit(method, train, strength)[0]:
                _map(validation, w)
    return time.perf_counter() - start, time.process_time() - busy


def _run(method: Method, parts: Sequence[tuple[Any, Any, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {"chosen": [], "seconds": [], "processor": [], "gaps": [], "statuses": []}
    for train, validation, test in parts:
        candidates = []
        for strength in STRENGTHS:
            found, solution, *times = _fit(method, train, strength)
            candidates += [(_map(validation, w), f"{strength:g}{stop}", w) for stop, w in found]
            for clock, seconds in zip(("seconds", "processor"), times, strict=True):
                entry[clock].append(seconds)
            entry["gaps"].append(solution.gap / max(1.0, abs(solution.value)))
            entry["statuses"].append(solution.status.name)
            entry["certificate"] = solution.certificate.kind
        _, chosen, best = max(candidates, key=lambda candidate: candidate[0])
        entry["chosen"].append(chosen)
        for measure, value in _measures(test, best).items():
            entry.setdefault(measure, []).append(value)
    return entry


def _fit(method: Method, train: Any, strength: float) -> tuple[list[tuple[str, Any]], Any, float, float]:
    """Candidates of one strength, each with the pass it was found at, the solution, wall and processor time."""
    import warnings

    from convexrank import ConvergenceWarning

    passed: list[tuple[str, Any]] = []

    def keep(state: Any) -> None:
        if state.iteration in method.stops:
            passed.append((f" ({state.iteration})", state.x))

    start, busy = time.perf_counter(), time.process_time()
    problem = method.build(train.X, train.y, train.groups, strength)
    limit = max(method.stops, default=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the tables count statuses and show gaps
        solution = problem.solve(method.solver, tol=method.tol, max_iter=limit, callback=keep)
    times = time.perf_counter() - start, time.process_time() - busy
    # a constant feature, where a method adds one, does not change the order within a query
    width = train.X.shape[1]
    return [(stop, w[:width]) for stop, w in passed or [("", solution.x)]], solution, *times


def _map(data: Any, w: Any) -> float:
    from convexrank import metrics

    return float(metrics.mean_average_precision(data.y, data.X @ w, data.groups))


def _measures(data: Any, w: Any) -> dict[str, float]:
    from convexrank import metrics

    scores, groups = data.X @ w, data.groups
    measures = {
        "map": _map(data, w),
        "ndcg": metrics.ndcg(data.y, scores, groups),
        "err": metrics.expected_reciprocal_rank(data.y, scores, groups, max_grade=2.0),
    }
    measures |= {f"ndcg@{cut}": metrics.ndcg(data.y, scores, groups, cut) for cut in _CUTS}
    return {name: float(value) for name, value in measures.items()}
