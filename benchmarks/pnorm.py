"""The P-Norm Push beside scikit-learn's logistic regression on the same data, cold and warm; and the exact model."""

from __future__ import annotations

import time
from typing import Any

from instances import data_name
from measure import fresh, interleaved_fresh, median, ratio
from report import Section, Table, at_most, bytes_text, seconds_text

POWERS = (1, 2, 4, 8, 16, 64)
L2 = 1e-4
TOL = 1e-8

_PEERS: dict[str, dict[str, Any]] = {
    "LogisticRegression": {},
    "LogisticRegression, tol=1e-8": {"tol": 1e-8, "max_iter": 10_000},
    "LogisticRegression, newton-cholesky, tol=1e-8": {
        "solver": "newton-cholesky",
        "tol": 1e-8,
        "max_iter": 10_000,
    },
}
_BASE, _TIGHT, _NEWTON = _PEERS


def pnorm(effort: int) -> Section:
    """Compare seconds to fit, side by side in one run."""
    warm = fresh("pnorm:warm", repeats=5 + 20 * effort)
    cold_jobs = {f"p = {p}": ("pnorm:cold_push", {"p": p}) for p in POWERS}
    cold_jobs |= {name: ("pnorm:cold_peer", {"peer": name}) for name in _PEERS}
    cold = interleaved_fresh(cold_jobs, 1 + 2 * effort)
    times = warm.result["times"]
    rows = []
    for name in times:
        ratios = [f"{ratio(times[name], times[base]):.2f}" for base in _PEERS]
        quality = warm.result["quality"][name]
        cells = (name, seconds_text(median(times[name])), *ratios)
        rows.append(
            (*cells, seconds_text(median(cold[name])), f"{ratio(cold[name], cold[_BASE]):.2f}", *quality)
        )
    note = (
        f"Data: {data_name()}, unit variance; l2 = {L2:g}, tol = {TOL:g} for the push. Times are medians, ratios "
        "the medians of the ratios within a round. Warm: compiled before; declaring the problem and the certificate "
        "are included. Cold: a fresh process with numpy and the data loaded, from the import on, compilation "
        "included. Gap: certified bound on value − optimum; scikit-learn offers none. Peak memory of the warm process: "
        f"{bytes_text(warm.peak_megabytes)}."
    )
    columns = ("fit", "warm", "to LR", "to LR 1e-8", "to LR newton", "cold", "cold, to LR", "steps", "gap")
    names = [f"p = {p}" for p in POWERS]
    targets = (
        at_most(
            "P-Norm Push, warm, to LogisticRegression, worst p",
            _worst(times, names, _BASE),
            2.0,
            "×",
            aim=1.0,
        ),
        at_most("the same, to tol=1e-8", _worst(times, names, _TIGHT), 2.0, "×", aim=1.0),
        at_most(
            "P-Norm Push, cold, to LogisticRegression, worst p", _worst(cold, names, _BASE), 2.0, "×", aim=1.0
        ),
    )
    return Section((Table("P-Norm Push against logistic regression", columns, tuple(rows), note),), targets)


def _worst(times: dict[str, list[float]], names: list[str], base: str) -> float:
    return max(ratio(times[name], times[base]) for name in names)


def warm(repeats: int) -> dict[str, Any]:
    """Time all contenders in turns in one process."""
    from instances import magic
    from measure import interleaved
    from sklearn.linear_model import LogisticRegression

    import convexrank as cr

    X, y = magic()
    contenders: dict[str, Any] = {
        f"p = {p}": lambda p=p: cr.problems.PNormPush(X, y, p=p, l2=L2).solve(tol=TOL) for p in POWERS
    }
    contenders |= {name: lambda kw=kw: LogisticRegression(**kw).fit(X, y) for name, kw in _PEERS.items()}
    quality = {}
    for name, run in contenders.items():
        fitted = run()
        if name in _PEERS:
            quality[name] = str(int(fitted.n_iter_[0])), "none"
        else:
            quality[name] = str(fitted.iterations), f"{fitted.gap:.0e}"
    return {"times": interleaved(contenders, repeats), "quality": quality}


def cold_push(p: float) -> float:
    """Seconds from the import to the first solution, in a fresh process."""
    from instances import magic

    X, y = magic()
    start = time.perf_counter()
    import convexrank as cr

    cr.problems.PNormPush(X, y, p=p, l2=L2).solve(tol=TOL)
    return time.perf_counter() - start


def cold_peer(peer: str) -> float:
    """The same for scikit-learn."""
    from instances import magic

    X, y = magic()
    start = time.perf_counter()
    from sklearn.linear_model import LogisticRegression

    LogisticRegression(**_PEERS[peer]).fit(X, y)
    return time.perf_counter() - start


# --- the exact model ----------------------------------------------------------------------------------------------


def exact(effort: int) -> Section:
    """Time the exact model at full size."""
    rows, worst = [], 0.0
    for p in POWERS:
        outcome = fresh("pnorm:exact_solve", p=p, repeats=1 + 2 * effort)
        found = outcome.result
        seconds = median(found["seconds"])
        worst = max(worst, seconds)
        rows.append(
            (
                f"p = {p}",
                seconds_text(seconds),
                found["status"],
                f"{found['gap']:.0e}",
                f"{found['difference']:.0e}",
                bytes_text(outcome.peak_megabytes),
            )
        )
    note = (
        f"Data: {data_name()}, l2 = {L2:g}. Building the cvxpy model, the conic solver (Clarabel first; others when a "
        "certificate refuses its answer) and the certificate are included; importing cvxpy is not. Difference: of the "
        "objective, to the fast solver's."
    )
    columns = ("model", "seconds", "status", "gap", "difference", "peak memory")
    table = Table("The exact model at full size", columns, tuple(rows), note)
    return Section((table,), (at_most("exact model, worst p", worst, 5.0, " s"),))


def exact_solve(p: float, repeats: int) -> dict[str, Any]:
    """Solve the exact model and compare with the fast solver."""
    import cvxpy  # noqa: F401  its import is not what is timed
    from instances import magic

    import convexrank as cr

    X, y = magic()
    fast = cr.problems.PNormPush(X, y, p=p, l2=L2).solve(tol=TOL)
    seconds, solution = [], fast
    for _ in range(repeats):
        start = time.perf_counter()
        solution = cr.problems.PNormPush(X, y, p=p, l2=L2).solve("exact", tol=TOL)
        seconds.append(time.perf_counter() - start)
    return {
        "seconds": seconds,
        "status": solution.status.name,
        "gap": solution.gap,
        "difference": abs(solution.value - fast.value),
    }
