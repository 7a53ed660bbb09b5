"""Timing that withstands a noisy machine, and fresh processes for cold starts and peak memory."""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = [
    "THREADS",
    "JobFailed",
    "Outcome",
    "fresh",
    "fresh_together",
    "interleaved",
    "interleaved_fresh",
    "kept",
    "median",
    "peak_megabytes",
    "ratio",
    "seconds_of",
]

# What is installed is measured; the checkout beside this folder where nothing is.
sys.path.append(str(Path(__file__).resolve().parents[1]))

median = statistics.median

# One thread for the numerical libraries, unless the caller says otherwise. On a busy machine their threads wait for one
# another, and a competitor that uses them looks many times slower than it is.
THREADS = os.environ.get("OMP_NUM_THREADS", "1")

_MARK = "benchmark result: "
# No job of any effort takes as long on two cores; one that does is ended, and its benchmark says so.
_LIMIT = 3600.0


class JobFailed(RuntimeError):
    """A job ended without a result; the message is the end of what it wrote."""


@dataclass(frozen=True)
class Outcome:
    """What a job in a process of its own returned, and the most memory that the process held."""

    result: Any
    peak_megabytes: float


def seconds_of(run: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def interleaved(contenders: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Time the contenders in turns, so that a slow spell of the machine hits them all alike.

    Every contender runs once before the clock starts, and each round begins with another one.

    Returns
    -------
    dict of str to list of float
        Seconds; entry t of every list belongs to round t.
    """
    names = list(contenders)
    for name in names:
        contenders[name]()
    times: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(repeats):
        gc.collect()
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(seconds_of(contenders[name]))
    return times


def interleaved_fresh(jobs: Mapping[str, tuple[str, dict[str, Any]]], repeats: int) -> dict[str, list[Any]]:
    """Run jobs in fresh processes, in turns; return the results of each."""
    results: dict[str, list[Any]] = {name: [] for name in jobs}
    for _ in range(repeats):
        for name, (job, arguments) in jobs.items():
            results[name].append(fresh(job, **arguments).result)
    return results


def ratio(times: Sequence[float], base: Sequence[float]) -> float:
    """Return the median over rounds of the ratio within a round."""
    return median(a / b for a, b in zip(times, base, strict=True))


def fresh(job: str, **arguments: Any) -> Outcome:
    """Run ``module:function`` of this folder in a new interpreter and return its (JSON) result.

    The caller must be a small process itself: on Linux a child's peak memory starts at its parent's.
    """
    return fresh_together(job, [arguments])[0]


def kept(job: str, what: object, **arguments: Any) -> Any:
    """Return the result of a job in a new interpreter, from the folder ``BENCHMARKS_KEPT`` where it is there already.

    A long simulation that was cut off goes on where it was. Without this variable every job is run. ``what`` describes
    the job beside its arguments; who changes the package empties the folder.
    """
    if (folder := os.environ.get("BENCHMARKS_KEPT")) is None:
        return fresh(job, **arguments).result
    named = hashlib.sha256(f"{job} {what!r} {sorted(arguments.items())}".encode()).hexdigest()[:16]
    file = Path(folder) / f"{named}.json"
    if not file.exists():
        found = fresh(job, **arguments).result
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def fresh_together(job: str, arguments: Sequence[dict[str, Any]], limit: float = _LIMIT) -> list[Outcome]:
    """Run a job in as many new interpreters as there are arguments, all at once; say on stderr which, and how long.

    Raises
    ------
    JobFailed
        When a job fails, or takes more than ``limit`` seconds; all are ended then.
    """
    begun, what = time.perf_counter(), f"{job} {', '.join(map(str, arguments))}"
    print(f"  {what} …", file=sys.stderr, flush=True)
    surroundings = {**os.environ, "OMP_NUM_THREADS": THREADS}
    started = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), job, json.dumps(given)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=surroundings,
        )
        for given in arguments
    ]
    found = []
    for process, given in zip(started, arguments, strict=True):
        try:
            said, errors = process.communicate(timeout=max(begun + limit - time.perf_counter(), 0.01))
        except subprocess.TimeoutExpired:
            _end(started)
            raise JobFailed(f"{job} {given}: not done after {limit:g} s") from None
        lines = [line for line in said.splitlines() if line.startswith(_MARK)]
        if process.returncode or not lines:
            _end(started)
            raise JobFailed(f"{job} {given}: " + "\n".join(errors.splitlines()[-8:]))
        answer = json.loads(lines[-1].removeprefix(_MARK))
        found.append(Outcome(answer["result"], answer["peak"]))
    print(f"  … {time.perf_counter() - begun:.0f} s", file=sys.stderr, flush=True)
    return found


def _end(started: Sequence[subprocess.Popen[str]]) -> None:
    for process in started:
        process.kill()
    for process in started:
        process.communicate()


def peak_megabytes() -> float:
    """Return the most memory that this process has held."""
    try:
        import resource
    except ImportError:  # not offered on Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def _work(job: str, arguments: dict[str, Any]) -> None:
    module, function = job.split(":")
    result = getattr(importlib.import_module(module), function)(**arguments)
    print(_MARK + json.dumps({"result": result, "peak": peak_megabytes()}))


if __name__ == "__main__":
    _work(sys.argv[1], json.loads(sys.argv[2]))
