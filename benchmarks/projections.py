"""The compiled projections beside SciPy's isotonic regression: ratios, growth on hard input, groups, cold start."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from measure import fresh, interleaved, interleaved_fresh, median, ratio
from report import Section, Table, Target, at_most, seconds_text

SIZES = (10_000, 100_000, 1_000_000)
GROUPS, ROWS_OF_A_GROUP = 10_000, 100
# "Close to linear": time grows as n to at most this power. n log n is 1.09 over these sizes, and caches add to it.
CLOSE_TO_LINEAR = 1.3
_PEER = "SciPy"
# The inputs that the target names; the others of the table are harder still.
_ADVERSARIAL = ("alternating ±10⁶", "descending", "constant")


def projections(effort: int) -> Section:
    """Plain isotonic regression, bounds on both sides, many groups, and the first call of a process."""
    plain, ratios = _plain(effort)
    bounded, over_scipy, growth = _bounded(effort)
    grouped, faster = _grouped(effort)
    cold = _cold(effort)
    targets = (
        at_most("isotonic regression, 10⁶ random values, over SciPy's", ratios["random"], 3.0, "×", aim=1.0),
        at_most("bounds on both sides, 10⁶ random values, over SciPy's PAV", over_scipy["random"], 40.0, "×"),
        at_most(
            "the same, alternating ±10⁶, descending, or constant",
            max(over_scipy[name] for name in _ADVERSARIAL),
            40.0,
            "×",
        ),
        at_most("the same, the hardest inputs we found", max(over_scipy.values()), 40.0, "×"),
        at_most("growth 10⁴ → 10⁶, power of n, worst input", max(growth.values()), CLOSE_TO_LINEAR),
        Target(
            f"{GROUPS:,} groups of {ROWS_OF_A_GROUP}, over a loop over SciPy",
            "faster",
            f"{faster:.1f}× faster",
            faster > 1.0,
        ),
    )
    return Section((plain, bounded, grouped, cold), targets)


def _plain(effort: int) -> tuple[Table, dict[str, float]]:
    found = fresh("projections:plain", repeats=3 + 4 * effort).result
    rows, ratios = [], {}
    for name, times in found.items():
        ratios[name] = ratio(times["convexrank"], times[_PEER])
        cells = (seconds_text(median(times[_PEER])), seconds_text(median(times["convexrank"])))
        rows.append((name, *cells, f"{ratios[name]:.2f}"))
    note = (
        "SciPy's isotonic_regression. Along an order, the competitor is numpy's argsort, SciPy on the sorted values, "
        "and the way back."
    )
    columns = (f"n = {SIZES[-1]:,}", "SciPy", "convexrank", "ratio")
    return Table("Isotonic regression", columns, tuple(rows), note), ratios


def plain(repeats: int) -> dict[str, dict[str, list[float]]]:
    """Time both on every input."""
    import numpy as np
    from scipy.optimize import isotonic_regression

    from convexrank.projections import isotonic

    rng = np.random.default_rng(0)
    z, order, weights = (rng.standard_normal(SIZES[-1]) for _ in range(3))
    weights = 0.1 + np.abs(weights)

    def along_order() -> Any:
        rows = np.argsort(order)
        fitted = np.empty_like(z)
        fitted[rows] = isotonic_regression(z[rows]).x
        return fitted

    inputs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "random": (lambda: isotonic_regression(z), lambda: isotonic(z)),
        "random, weights": (
            lambda: isotonic_regression(z, weights=weights),
            lambda: isotonic(z, weights=weights),
        ),
        "random, along an order": (along_order, lambda: isotonic(z, order)),
    }
    for name, values in {
        "ascending": np.sort(z),
        "descending": -np.sort(z),
        "constant": np.ones(len(z)),
    }.items():
        inputs[name] = (
            lambda values=values: isotonic_regression(values),
            lambda values=values: isotonic(values),
        )
    return {
        name: interleaved({_PEER: peer, "convexrank": own}, repeats) for name, (peer, own) in inputs.items()
    }


def _bounded(effort: int) -> tuple[Table, dict[str, float], dict[str, float]]:
    found = fresh("projections:bounded", repeats=2 + 2 * effort).result
    peer = found.pop(_PEER)
    rows, over, growth = [], {}, {}
    for name, times in found.items():
        medians = [median(times[str(size)]) for size in SIZES]
        growth[name] = math.log(medians[-1] / medians[0]) / math.log(SIZES[-1] / SIZES[0])
        over[name] = ratio(times[str(SIZES[-1])], peer)
        cells = (f"{value / size * 1e9:.0f} ns" for value, size in zip(medians, SIZES, strict=True))
        rows.append((name, *cells, f"{growth[name]:.2f}", f"{over[name]:.1f}"))
    note = (
        "Time a value. The growth is the power of n between the first and the last size. The last column compares with "
        f"SciPy's isotonic regression of {SIZES[-1]:,} random values in the same rounds."
    )
    columns = ("input", *(f"n = {size:,}" for size in SIZES), "growth", "over SciPy's PAV")
    return Table("Bounds on both sides of the increments", columns, tuple(rows), note), over, growth


def _inputs(n: int) -> dict[str, tuple[Any, float, float]]:
    """Values and bounds: easy inputs, and inputs on which the cut of the dynamic programme moves far."""
    import numpy as np

    noise = np.random.default_rng(0).standard_normal(n)
    sign, block = np.where(np.arange(n) % 2, 1.0, -1.0), math.isqrt(n)
    return {
        "random": (noise, -0.1, 0.1),
        "rising, with noise": (np.sort(noise) + 0.1 * noise, 0.0, 10.0 / n),
        "random walk": (np.cumsum(noise), -0.3, 0.3),
        "alternating ±10⁶": (1e6 * sign, -1.0, 1.0),
        "alternating, growing": (sign * np.arange(n) ** 2.0, -1.0, 1.0),
        "alternating, random": (1e12 * sign * np.abs(noise), -1.0, 1.0),
        "alternating blocks of 100": (1e9 * np.repeat(sign[: n // 100], 100), -1.0, 1.0),
        "alternating blocks of √n": (1e9 * np.repeat(sign[: -(-n // block)], block)[:n], -1.0, 1.0),
        "descending": (np.arange(n)[::-1] * 1.0, 0.0, 0.5),
        "constant": (np.ones(n), -1.0, 1.0),
    }


def bounded(repeats: int) -> dict[str, Any]:
    """Time every input at every size, and SciPy on the first input at the largest."""
    import numpy as np
    from scipy.optimize import isotonic_regression

    from convexrank.projections import bounded_increments

    contenders: dict[str, Callable[[], Any]] = {}
    for size in SIZES:
        for name, (z, lower, upper) in _inputs(size).items():
            contenders[f"{name}|{size}"] = lambda z=z, lower=lower, upper=upper: bounded_increments(
                z, lower, upper
            )
    plain_values = np.random.default_rng(0).standard_normal(SIZES[-1])
    contenders[_PEER] = lambda: isotonic_regression(plain_values)
    times = interleaved(contenders, repeats)
    found: dict[str, Any] = {_PEER: times.pop(_PEER)}
    for key, seconds in times.items():
        name, size = key.split("|")
        found.setdefault(name, {})[size] = seconds
    return found


def _grouped(effort: int) -> tuple[Table, float]:
    found = fresh("projections:grouped", repeats=2 + 2 * effort).result
    loop = found["a loop over SciPy"]
    rows = tuple(
        (name, seconds_text(median(times)), f"{ratio(loop, times):.1f}×") for name, times in found.items()
    )
    title = f"{GROUPS:,} groups of {ROWS_OF_A_GROUP}, one call"
    return Table(title, ("what", "seconds", "as fast as the loop"), rows), ratio(loop, found["isotonic"])


def grouped(repeats: int) -> dict[str, list[float]]:
    """Time one call over many groups, and a loop."""
    import numpy as np
    from scipy.optimize import isotonic_regression

    from convexrank.projections import bounded_increments, isotonic, permutahedron

    rng = np.random.default_rng(0)
    n = GROUPS * ROWS_OF_A_GROUP
    z, order, groups = (
        rng.standard_normal(n),
        rng.standard_normal(n),
        np.repeat(np.arange(GROUPS), ROWS_OF_A_GROUP),
    )
    anywhere = rng.permutation(groups)
    return interleaved(
        {
            "a loop over SciPy": lambda: [
                isotonic_regression(z[start : start + ROWS_OF_A_GROUP]).x
                for start in range(0, n, ROWS_OF_A_GROUP)
            ],
            "isotonic": lambda: isotonic(z, groups=groups),
            "isotonic along an order": lambda: isotonic(z, order, groups=groups),
            "isotonic along an order, groups anywhere": lambda: isotonic(z, order, groups=anywhere),
            "permutahedron": lambda: permutahedron(z, order, groups=groups),
            "bounded increments": lambda: bounded_increments(z, -0.1, 0.1, groups=groups),
        },
        repeats,
    )


def _cold(effort: int) -> Table:
    jobs = {
        name: ("projections:first_call", {"name": name})
        for name in ("isotonic", "bounded_increments", "in jit")
    }
    for job, arguments in jobs.values():
        fresh(job, **arguments)  # compiles, and keeps the result on disk
    found = interleaved_fresh(jobs, 1 + effort)
    rows = []
    for name, runs in found.items():
        parts = [median([run[part] for run in runs]) for part in ("import", "first", "second")]
        rows.append((name, *(seconds_text(part) for part in parts)))
    note = (
        "In a new process, numpy loaded, n = 1000. The machine code is loaded from disk: the very first call after an "
        "installation compiles it, isotonic regression in under a second, bounded increments in several."
    )
    columns = ("function", "import convexrank.projections", "first call", "second call")
    return Table("Cold start", columns, tuple(rows), note)


def first_call(name: str) -> dict[str, float]:
    """Time the import and two calls."""
    import numpy as np

    z = np.random.default_rng(0).standard_normal(1000)
    marks = [time.perf_counter()]
    from convexrank.projections import bounded_increments, isotonic

    marks.append(time.perf_counter())
    for _ in range(2):
        if name == "isotonic":
            isotonic(z)
        elif name == "bounded_increments":
            bounded_increments(z, -0.1, 0.1)
        else:
            import jax

            jax.jit(isotonic)(z).block_until_ready()
        marks.append(time.perf_counter())
    return dict(zip(("import", "first", "second"), np.diff(marks).tolist(), strict=True))
