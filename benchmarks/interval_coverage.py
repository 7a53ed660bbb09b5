"""How often intervals hold the truth: 10⁴ samples (a quick look: 10³) of populations whose measures are known."""

from __future__ import annotations

import math
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from measure import fresh, kept
from report import Section, Table, Target, at_most, seconds_text

__all__ = ["SETTINGS", "Setting", "coverage", "judged", "simulate"]

_LEVEL, _BAND = 0.95, 0.01
# What exact intervals may be wider than the asymptotic ones.
_WIDER = 1.5
_PEER = "scikit-learn: roc_auc_score"
_QUICK, _FULL = 1000, 10_000


@dataclass(frozen=True)
class Setting:
    """A population, a sample from it, and a measure; ``applies``: whether the guide promises the asymptotic level."""

    title: str
    metric: str
    kind: str
    sample: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    applies: bool = True
    exact: bool = True
    asymptotic: bool = True
    compared: bool = False  # the widths of both


def _lists(a: float, positives: int, negatives: int, levels: int = 0) -> dict[str, Any]:
    return {"a": a, "positives": positives, "negatives": negatives} | ({"levels": levels} if levels else {})


_ROWS = {"a": 0.3, "n": 2000, "share": 0.2}
_WEIGHTED = {"a": 0.2, "share": 0.3, "most": 18.0}
_UNEVEN = {"a": 0.3, "m": 200, "size": 2, "share": 0.3, "tail": 1.5}
_EVEN = _lists(0.3, 200, 200)
_MANY = _WEIGHTED | {"n": 2000}
SETTINGS = (
    Setting("AUC .67, 1:1", "auc", "classes", _lists(0.5, 100, 100)),
    Setting("AUC .83, 1:10", "auc", "classes", _lists(0.2, 50, 500)),
    Setting("AUC .83, 1:100", "auc", "classes", _lists(0.2, 50, 5000)),
    Setting("AUC .83, 1:1000", "auc", "classes", _lists(0.2, 50, 50_000)),
    Setting("AUC, ties: 5 scores", "auc", "classes", _lists(0.3, 100, 400, 5)),
    Setting("AUC .83, 5 positives", "auc", "classes", _lists(0.2, 5, 500), applies=False),
    Setting("AUC .95, 30 positives", "auc", "classes", _lists(0.05, 30, 300), applies=False),
    Setting("push risk, p = 1, 1:1", "push_risk", "classes", _lists(0.3, 100, 100), {"p": 1}),
    Setting("push risk, p = 4, 1:10", "push_risk", "classes", _lists(0.3, 100, 1000), {"p": 4}),
    Setting("push risk, p = 4, ties", "push_risk", "classes", _lists(0.3, 100, 400, 5), {"p": 4}),
    Setting("push risk, p = 16, 1:20", "push_risk", "classes", _lists(0.3, 160, 3200), {"p": 16}),
    Setting(
        "push risk, p = 16, 20 positives",
        "push_risk",
        "classes",
        _lists(0.3, 20, 200),
        {"p": 16},
        applies=False,
    ),
    Setting(
        "partial AUC, FPR ≤ .1, 1:10", "partial_auc", "classes", _lists(0.3, 200, 2000), {"max_fpr": 0.1}
    ),
    Setting("precision at 10 %", "precision_at", "rows", _ROWS, {"k": 0.1}),
    Setting("recall at 10 %", "recall_at", "rows", _ROWS, {"k": 0.1}),
    Setting("ranking risk, 200 rows", "ranking_risk", "normal", {"n": 200, "rho": 0.7}),
    Setting("MAP, 100 queries of 10", "map", "queries", {"a": 0.3, "m": 100, "size": 10}),
    Setting("NDCG, 100 queries of 10", "ndcg", "queries", {"a": 0.3, "m": 100, "size": 10}),
    Setting(
        "AUC, 60 groups of 5", "auc", "groups", {"a": 0.3, "m": 60, "size": 5, "share": 0.4}, exact=False
    ),
    Setting("AUC, 600 rows, weights to 18:1", "auc", "weighted", _WEIGHTED | {"n": 600}, exact=False),
    Setting(
        "AUC, 150 rows, weights to 18:1",
        "auc",
        "weighted",
        _WEIGHTED | {"n": 150},
        exact=False,
        applies=False,
    ),
    Setting(
        "push risk, p = 4, 600 rows, weights to 18:1",
        "push_risk",
        "weighted",
        _WEIGHTED | {"n": 600},
        {"p": 4},
        exact=False,
    ),
    Setting("AUC, 200 uneven groups", "auc", "groups", _UNEVEN, exact=False, applies=False),
    Setting(
        "push risk, p = 4, 200 uneven groups",
        "push_risk",
        "groups",
        _UNEVEN,
        {"p": 4},
        exact=False,
        applies=False,
    ),
    Setting(
        "precision near 1 at 2 %",
        "precision_at",
        "rows",
        {"a": 0.3, "n": 1000, "share": 0.2},
        {"k": 0.02},
        applies=False,
    ),
    Setting("difference of two AUCs", "difference", "classes", _lists(0.4, 100, 300) | {"other": 0.3}),
    Setting("ROC band, 1:10", "roc", "classes", _lists(0.3, 60, 600), asymptotic=False),
    Setting("AUC, 200 + 200", "auc", "classes", _EVEN, compared=True),
    Setting(
        "partial AUC, FPR ≤ .1, 200 + 200", "partial_auc", "classes", _EVEN, {"max_fpr": 0.1}, compared=True
    ),
    Setting(
        "partial AUC, FPR ≤ .25, ties: 8 scores",
        "partial_auc",
        "classes",
        _lists(0.3, 100, 400, 8),
        {"max_fpr": 0.25},
    ),
    *(
        Setting(
            f"push risk, p = {p}, 200 + 200",
            "push_risk",
            "classes",
            _EVEN,
            {"p": p},
            applies=p < 16,
            compared=True,
        )
        for p in (2, 4, 16)
    ),
    Setting(
        "difference of two AUCs, 200 + 200", "difference", "classes", _EVEN | {"other": 0.3}, compared=True
    ),
    Setting("ranking risk, 400 rows", "ranking_risk", "normal", {"n": 400, "rho": 0.7}, compared=True),
    Setting("precision at 30 %, weights to 18:1", "precision_at", "weighted", _MANY, {"k": 0.3}, exact=False),
    Setting("partial AUC, weights to 18:1", "partial_auc", "weighted", _MANY, {"max_fpr": 0.1}, exact=False),
    Setting("AUC, looked at on 5 days", "monitor", "classes", _lists(0.3, 100, 200), asymptotic=False),
)


def coverage(effort: int) -> Section:
    """Count in each setting how often the intervals of both methods hold the truth."""
    simulations = _FULL * effort or _QUICK
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # each in a process of its own
        jobs = {
            number: pool.submit(one, number, simulations)
            for number in sorted(range(len(SETTINGS)), key=lambda n: -_work(SETTINGS[n]))
        }
        found = {number: job.result() for number, job in jobs.items()}
    rows = [_row(SETTINGS[number], found[number]) for number in range(len(SETTINGS))]
    note = (
        f"{simulations} samples of each population, level {_LEVEL:g}. The exact intervals must hold the truth at least "
        f"so often, the asymptotic ones so often within {_BAND:g}, where the guide says that they apply; – is not "
        "promised. A quick look of fewer than 10 000 samples allows two standard errors more. Width is the mean width; "
        "refused is the share of samples without an asymptotic interval, as of a perfect ranking."
    )
    columns = ("setting", "truth", "exact", "width", "asymptotic", "width", "refused", "as promised")
    targets = [
        target for number in range(len(SETTINGS)) for target in judged(SETTINGS[number], found[number])
    ]
    speed, within = _speed()
    tables = Table("Coverage of intervals", columns, tuple(rows), note), _floors(found), speed
    return Section(tables, (*targets, *within))


def _floors(found: dict[int, dict[str, Any]]) -> Table:
    """Return the widths over the asymptotic ones, beside the least that intervals for every law can have."""
    rows = []
    for number, setting in enumerate(SETTINGS):
        if setting.compared and setting.metric in ("auc", "push_risk", "partial_auc"):
            asymptotic = found[number]["asymptotic"]["width"]
            given = {"metric": setting.metric, **setting.sample, **setting.options}
            least = [
                kept("least_widths:least_width", setting, **given, alpha=alpha)
                for alpha in (1.0 - _LEVEL, (1.0 - _LEVEL) / 2)
            ]
            widths = (found[number]["exact"]["width"], *least)
            rows.append((setting.title, *(f"{width / asymptotic:.2f}" for width in widths)))
    note = (
        "Mean widths over that of the asymptotic interval. No interval that holds for every law can be narrower than "
        "the third column says, and none whose ends both fail with at most half of the error, than the last: wherever "
        "it left out a law that these samples cannot tell from theirs, it would leave it out too often there."
    )
    columns = ("setting", "exact", "least of any", "least with equal errors")
    return Table("The least width", columns, tuple(rows), note)


def one(number: int, simulations: int) -> dict[str, Any]:
    """Simulate one setting in a process of its own, or read what is kept of it."""
    return kept("interval_coverage:run", SETTINGS[number], number=number, simulations=simulations)


def _work(setting: Setting) -> int:
    sizes = setting.sample
    return sizes.get("negatives", 0) + sizes.get("n", 0) + sizes.get("m", 0) * sizes.get("size", 0)


def judged(setting: Setting, found: dict[str, Any]) -> list[Target]:
    """Return what is promised of a setting, and whether it is kept; a quick look allows two standard errors more."""
    samples = found["simulations"]
    more = 0.0 if samples >= _FULL else 2.0 * math.sqrt(_LEVEL * (1.0 - _LEVEL) / samples)
    targets = []
    if (covered := found["exact"]["covered"]) is not None:
        targets.append(
            Target(f"{setting.title}, exact", f"≥ {_LEVEL:g}", f"{covered:.4f}", covered >= _LEVEL - more)
        )
    if (covered := found["asymptotic"]["covered"]) is not None and setting.applies:
        wanted = f"{_LEVEL:g} ± {_BAND + more:.3g}"
        met = abs(covered - _LEVEL) <= _BAND + more
        targets.append(Target(f"{setting.title}, asymptotic", wanted, f"{covered:.4f}", met))
    if setting.compared:
        what = f"{setting.title}: width of the exact interval over the asymptotic one's"
        targets.append(at_most(what, found["exact"]["width"] / found["asymptotic"]["width"], _WIDER))
    return targets


def _row(setting: Setting, found: dict[str, Any]) -> tuple[str, ...]:
    cells = [setting.title, "" if found["truth"] != found["truth"] else f"{found['truth']:.4f}"]
    for method in ("exact", "asymptotic"):
        covered = found[method]["covered"]
        cells += ["", ""] if covered is None else [f"{covered:.4f}", f"{found[method]['width']:.3f}"]
    cells.append(
        f"{found['asymptotic']['refused']:.4f}" if found["asymptotic"]["covered"] is not None else ""
    )
    promised = judged(replace(setting, compared=False), found)
    kept = "yes" if all(target.met for target in promised) else "NO"
    return (*cells, kept if setting.applies else f"{kept}, –")


# --- in a process of its own ----------------------------------------------------------------------------------------


def run(number: int, simulations: int) -> dict[str, Any]:
    """Simulate one setting."""
    return simulate(SETTINGS[number], simulations, seed=number)


def simulate(setting: Setting, simulations: int, seed: int) -> dict[str, Any]:
    """Draw samples; count for each method how many of its intervals hold the truth, and how wide they are."""
    warnings.simplefilter("ignore", UserWarning)  # settings outside the guide are among them
    import numpy as np
    from populations import draw, truth

    wanted = truth(setting.metric, **setting.sample, **setting.options)
    rng = np.random.default_rng(seed)
    methods = [name for name in ("exact", "asymptotic") if getattr(setting, name)]
    counts: dict[str, list[Any]] = {name: [] for name in methods}
    for _ in range(simulations):
        sample = draw(setting.kind, rng, **setting.sample)
        for name in methods:
            try:
                counts[name].append(_interval(setting, sample, name, wanted))
            except ValueError:
                if name == "exact":  # these have an answer to every sample of both classes
                    raise
    found: dict[str, Any] = {"truth": wanted, "simulations": simulations}
    for name in ("exact", "asymptotic"):
        pairs = counts.get(name)
        found[name] = {
            "covered": float(np.mean([held for held, _ in pairs])) if pairs else None,
            "width": float(np.mean([width for _, width in pairs])) if pairs else None,
            "refused": 1.0 - len(pairs) / simulations if pairs else 0.0,
        }
    return found


def _interval(setting: Setting, sample: dict[str, Any], method: Any, wanted: float) -> tuple[bool, float]:
    """Ask the package; return whether the truth is held, and the width."""
    from convexrank import inference

    if setting.metric == "monitor":
        import numpy as np

        order = np.random.default_rng(0).permutation(len(sample["y"]))  # days of random rows
        seen = inference.monitor(
            sample["y"][order], sample["s"][order], np.arange(len(order)) * 5 // len(order)
        )
        held = (seen.lower <= wanted) & (wanted <= seen.upper)
        return bool(held.all()), float(seen.upper[-1] - seen.lower[-1])
    if setting.metric == "roc":
        band = inference.roc_band(sample["y"], sample["s"], level=_LEVEL)
        curve = band.x ** setting.sample["a"]
        return bool(((band.lower <= curve) & (curve <= band.upper)).all()), float(
            (band.upper - band.lower).mean()
        )
    if setting.metric == "difference":
        pair = inference.compare(sample["y"], sample["s"], sample["s2"], method=method, level=_LEVEL)
        if not isinstance(pair, inference.Difference):  # of two rankers it is one
            raise TypeError(f"compare returned {pair!r}")
        found = pair.interval
    else:
        function = getattr(inference, f"{setting.metric}_interval")
        found = function(**sample, **setting.options, method=method, level=_LEVEL)
    return wanted in found, found.width


# --- a million rows ---------------------------------------------------------------------------------------------------


def _speed() -> tuple[Table, list[Target]]:
    """Time a million rows beside scikit-learn's AUC, which has no interval."""
    found = fresh("interval_coverage:million").result
    base = found[_PEER]
    rows = tuple((name, seconds_text(took), f"{took / base:.2f}") for name, took in found.items())
    table = Table(
        "A million rows", ("function", "median", "beside roc_auc_score"), rows, "One positive in ten."
    )
    return table, [
        at_most(f"{name}, a million rows: seconds", took, 1.0)
        for name, took in found.items()
        if name != _PEER
    ]


def million() -> dict[str, float]:
    """Return seconds of each function, measured in turns."""
    import numpy as np
    from measure import interleaved, median
    from sklearn.metrics import roc_auc_score

    from convexrank import calibration, inference

    rng = np.random.default_rng(0)
    y = (rng.random(10**6) < 0.1).astype(int)
    s = y + rng.normal(size=10**6)
    other, qid = s + rng.normal(size=10**6), np.repeat(np.arange(10**5), 10)
    days, new = np.arange(10**6) * 30 // 10**6, rng.normal(size=1000)
    contenders = {
        _PEER: lambda: roc_auc_score(y, s),
        "auc_interval, exact": lambda: inference.auc_interval(y, s),
        "auc_interval, DeLong": lambda: inference.auc_interval(y, s, method="asymptotic"),
        "compare, DeLong": lambda: inference.compare(y, s, other),
        "push_risk_interval, p = 16, exact": lambda: inference.push_risk_interval(y, s, 16),
        "push_risk_interval, p = 16, asymptotic": lambda: inference.push_risk_interval(
            y, s, 16, method="asymptotic"
        ),
        "precision_at_interval, exact": lambda: inference.precision_at_interval(y, s, 0.01),
        "ranking_risk_interval, asymptotic": lambda: inference.ranking_risk_interval(
            other, s, method="asymptotic"
        ),
        "ranking_risk_interval, exact": lambda: inference.ranking_risk_interval(other, s),
        "m_ary_risk_interval, 20 rounds": lambda: inference.m_ary_risk_interval(other, s, rounds=20),
        "compare, push_risk, p = 4, exact": lambda: inference.compare(
            y, s, other, metric="push_risk", p=4, method="exact"
        ),
        "monitor, 30 days": lambda: inference.monitor(y, s, days),
        "ndcg_interval, exact": lambda: inference.ndcg_interval(y, s, qid),
        "roc_band": lambda: inference.roc_band(y, s),
        "threshold, max_fpr": lambda: inference.threshold(y, s, max_fpr=0.01),
        "top_hits": lambda: inference.top_hits(y, s, other, [100, 1000]),
        "list_length": lambda: inference.list_length(y, s, qid, max_missed=0.1),
        "calibrate": lambda: calibration.calibrate(y, s),
        "venn_abers, 1 000 scores": lambda: calibration.venn_abers(y, s, new),
        "threshold, min_precision": lambda: inference.threshold(y, s, min_precision=0.3),
    }
    return {name: median(times) for name, times in interleaved(contenders, 3).items()}
