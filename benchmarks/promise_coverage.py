"""How often promises about new rows are kept: samples of populations in which each promise can be looked up.

A promise about a mean, as conformal risk control makes, is kept where the mean over the samples is.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from measure import kept
from report import Section, Table, Target

__all__ = ["SETTINGS", "Setting", "judged", "promises", "simulate"]

_CONFIDENCE = 0.9
_QUICK, _FULL = 1000, 10_000


@dataclass(frozen=True)
class Setting:
    """A population of rows, a sample from it, and a promise; ``levels``: scores are cut to so many, for ties."""

    title: str
    promise: dict[str, float]
    n: int = 1000
    share: float = 0.2
    a: float = 0.3
    levels: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    kind: str = "threshold"

    @property
    def limit(self) -> float:
        """The rate that is promised."""
        return next(iter(self.promise.values()))


_CANDIDATES = {"candidates": [-0.02 * 1.3**step for step in range(12)]}
SETTINGS = (
    Setting("FPR ≤ .05", {"max_fpr": 0.05}),
    Setting("FPR ≤ .01", {"max_fpr": 0.01}),
    Setting("FPR ≤ .05, 100 rows", {"max_fpr": 0.05}, n=100),
    Setting("FPR ≤ .25, ties: 8 scores", {"max_fpr": 0.25}, levels=8),
    Setting("recall ≥ .9", {"min_recall": 0.9}),
    Setting("recall ≥ .8, 100 rows", {"min_recall": 0.8}, n=100),
    Setting("recall ≥ .7, ties: 8 scores", {"min_recall": 0.7}, levels=8),
    Setting("precision ≥ .7", {"min_precision": 0.7}, a=0.15),
    Setting("precision ≥ .4, 100 rows", {"min_precision": 0.4}, n=100, a=0.15),
    Setting("precision ≥ .5, ties: 8 scores", {"min_precision": 0.5}, levels=8, a=0.15),
    Setting("precision ≥ .2, which all rows have", {"min_precision": 0.2}),
    Setting("precision ≥ .6, fixed sequence", {"min_precision": 0.6}, a=0.15, options=_CANDIDATES),
    Setting("positives of the first 50 of 500 new", {}, options={"k": 50}, kind="first"),
    Setting("positives of the first 5, 20, 80, together", {}, options={"k": [5, 20, 80]}, kind="first"),
    Setting("positives of the first 250, ties: 8 scores", {}, levels=8, options={"k": 250}, kind="first"),
    Setting("missed ≤ .2 on average, 40 queries", {"max_missed": 0.2}, n=40, kind="length"),
    Setting("missed ≤ .05 on average, 200 queries", {"max_missed": 0.05}, n=200, kind="length"),
    Setting("calibration band, whole curve", {}, kind="band"),
    Setting("calibration band, 100 rows", {}, n=100, kind="band"),
    Setting("calibration band, 2 % positives", {}, share=0.02, kind="band"),
    Setting("calibration band, ties: 8 scores", {}, levels=8, kind="band"),
    Setting("calibration band, ties: 2 scores", {}, levels=2, kind="band"),
    Setting("calibration band, a fifth of the negatives, weighted", {}, kind="band", options={"kept": 0.2}),
    Setting("calibration band, groups of 5 equal rows", {}, kind="band", options={"copies": 5}),
)


def promises(effort: int) -> Section:
    """Count in each setting how often the promise holds on new rows."""
    simulations = _FULL * effort or _QUICK
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:  # each in a process of its own
        jobs = [
            pool.submit(kept, "promise_coverage:run", setting, number=number, simulations=simulations)
            for number, setting in enumerate(SETTINGS)
        ]
        found = [job.result() for job in jobs]
    rows = [_row(setting, one) for setting, one in zip(SETTINGS, found, strict=True)]
    note = (
        f"{simulations} samples of each population, confidence {_CONFIDENCE:g}. Kept is the share of samples whose "
        "promise holds for new rows, or that make none; it must be at least the confidence. Refused is the share of "
        "samples without a threshold. Where a mean is promised, kept is that mean. Of a band, positives above is the "
        "mean lower end at the score that a twentieth of the rows is above. A quick look of fewer than 10 000 samples "
        "allows two standard errors."
    )
    columns = ("promise", "rows", "kept", "refused", "positives above", "as promised")
    targets = [
        target for setting, one in zip(SETTINGS, found, strict=True) for target in judged(setting, one)
    ]
    return Section((Table("Promises on new rows", columns, tuple(rows), note),), tuple(targets))


def judged(setting: Setting, found: dict[str, Any]) -> list[Target]:
    """Return whether a promise holds as often as promised."""
    samples, kept = found["simulations"], found["kept"]
    if setting.kind == "length":  # a mean, known up to two standard errors
        met = kept <= setting.limit + 2.0 * found["error"]
        return [Target(f"promise, {setting.title}", f"≤ {setting.limit:g}", f"{kept:.4f}", met)]
    more = 0.0 if samples >= _FULL else 2.0 * math.sqrt(_CONFIDENCE * (1.0 - _CONFIDENCE) / samples)
    wanted = _CONFIDENCE - more
    return [Target(f"promise, {setting.title}", f"≥ {_CONFIDENCE:g}", f"{kept:.4f}", kept >= wanted)]


def _row(setting: Setting, found: dict[str, Any]) -> tuple[str, ...]:
    met = all(target.met for target in judged(setting, found))
    cells = (f"{found['kept']:.4f}", f"{found['refused']:.4f}", f"{found['recall']:.3f}")
    return (setting.title, str(setting.n), *cells, "yes" if met else "NO")


# --- in a process of its own ----------------------------------------------------------------------------------------


def run(number: int, simulations: int) -> dict[str, Any]:
    """Simulate one setting."""
    return simulate(SETTINGS[number], simulations, seed=number)


def simulate(setting: Setting, simulations: int, seed: int) -> dict[str, Any]:
    """Draw samples; count how often the promise holds, or average what it limits."""
    return {"threshold": _thresholds, "first": _first, "length": _lengths, "band": _bands}[setting.kind](
        setting, simulations, seed
    )


def _bands(setting: Setting, simulations: int, seed: int) -> dict[str, Any]:
    """Draw samples; count how often the band contains the probability at every score that was drawn."""
    import numpy as np
    from populations import draw

    from convexrank import calibration

    rng, inside, certain = np.random.default_rng(seed), 0, []
    for _ in range(simulations):
        sample = draw("rows", rng, a=setting.a, n=setting.n, share=setting.share, levels=setting.levels)
        y, s = sample["y"], sample["s"]
        options = {}
        if "kept" in setting.options:
            stays = (y == 1) | (rng.random(len(y)) < setting.options["kept"])
            y, s = y[stays], s[stays]
            options["sample_weight"] = np.where(y == 1, 1.0, 1.0 / setting.options["kept"])
        if "copies" in setting.options:
            options["groups"] = np.repeat(np.arange(len(y)), setting.options["copies"])
            y, s = (np.repeat(part, setting.options["copies"]) for part in (y, s))
        found = calibration.calibrate(y, s, level=_CONFIDENCE, **options)
        low, high = -found.scores, -found.scores
        if setting.levels:  # the cell of a score, whose probability is that of the mean density
            low, high = (high - 1.0) / setting.levels, high / setting.levels
            density = (high**setting.a - low**setting.a) / (high - low)
        else:
            density = setting.a * high ** (setting.a - 1.0)
        true = setting.share * density / (setting.share * density + 1.0 - setting.share)
        inside += bool(((found.lower <= true) & (true <= found.upper)).all())
        certain.append(float(np.interp(np.quantile(s, 0.95), found.scores, found.lower)))
    return {
        "simulations": simulations,
        "kept": inside / simulations,
        "refused": 0.0,
        "recall": float(np.mean(certain)),
    }


def _first(setting: Setting, simulations: int, seed: int) -> dict[str, Any]:
    """Draw held-out and new rows; count how often the new list has as many positives as promised, tied ones last."""
    import numpy as np
    from populations import draw

    from convexrank import inference

    rng, kept, shares = np.random.default_rng(seed), 0, []
    for _ in range(simulations):
        held, new = (
            draw("rows", rng, a=setting.a, n=n, share=setting.share, levels=setting.levels)
            for n in (setting.n, 500)
        )
        found = inference.top_hits(
            held["y"], held["s"], new["s"], setting.options["k"], confidence=_CONFIDENCE
        )
        hits = new["y"][np.lexsort((new["y"], -new["s"]))].cumsum()
        kept += all(hits[k - 1] >= least for k, least in zip(found.k, found.hits, strict=True))
        shares.append(found.hits[-1] / new["y"].sum())
    return {
        "simulations": simulations,
        "kept": kept / simulations,
        "refused": 0.0,
        "recall": float(np.mean(shares)),
    }


def _lengths(setting: Setting, simulations: int, seed: int) -> dict[str, Any]:
    """Draw queries with one relevant row of ten; average the chance that a new one's is not in its list."""
    import numpy as np
    from populations import draw, truth

    from convexrank import inference

    rng = np.random.default_rng(seed)
    missed = [truth("missed", a=setting.a, size=10, length=length) for length in range(11)]
    found = []
    for _ in range(simulations):
        sample = draw("queries", rng, a=setting.a, m=setting.n, size=10)
        length = inference.list_length(sample["y"], sample["s"], sample["qid"], **setting.promise).length
        found.append(missed[length])
    mean, error = float(np.mean(found)), float(np.std(found)) / math.sqrt(simulations)
    return {"simulations": simulations, "kept": mean, "error": error, "refused": 0.0, "recall": 1.0 - mean}


def _thresholds(setting: Setting, simulations: int, seed: int) -> dict[str, Any]:
    """Draw samples; count how often the promise of the threshold holds in the population."""
    import numpy as np
    from populations import draw

    from convexrank import inference

    rng, kept, refused, recalls = np.random.default_rng(seed), 0, 0, []
    for _ in range(simulations):
        sample = draw("rows", rng, a=setting.a, n=setting.n, share=setting.share, levels=setting.levels)
        try:
            found = inference.threshold(
                sample["y"], sample["s"], **setting.promise, confidence=_CONFIDENCE, **setting.options
            )
        except ValueError:
            refused += 1
            continue
        kept += _holds(setting, found.threshold)
        recalls.append(found.rates["recall"])
    return {
        "simulations": simulations,
        "kept": (kept + refused) / simulations,
        "refused": refused / simulations,
        "recall": float(np.mean(recalls)) if recalls else math.nan,
    }


def _holds(setting: Setting, threshold: float) -> bool:
    """Return whether the population keeps the promise: a negative is above with probability u, a positive with u^a."""
    if setting.levels:  # scores are −1, …, −levels
        above = min(max(math.ceil(-threshold) - 1, 0), setting.levels)
        u = above / setting.levels
    else:
        u = min(max(-threshold, 0.0), 1.0)
    recall = u**setting.a
    ((promise, limit),) = setting.promise.items()
    if promise == "max_fpr":
        return u <= limit + 1e-12
    if promise == "min_recall":
        return recall >= limit - 1e-12
    mass = setting.share * recall + (1.0 - setting.share) * u
    return mass == 0.0 or setting.share * recall / mass >= limit - 1e-12
