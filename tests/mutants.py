"""How many small changes of the code do the tests notice? ``make mutants`` counts, with cosmic-ray; not part of CI.

Each mutant is one change of an operator, a number or a branch in a copy of the repository; it is killed when a test of
its module fails. All mutants of the modules below are some thousands, so that a seeded sample of each is taken:
``make mutants ARGS="--sample 0"`` runs all, ``ARGS="metrics/push --sample 40"`` those of one module.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Each module with the tests that are asked: the narrow ones, fastest first.
MODULES = {
    "metrics/push": "tests/test_metrics.py tests/test_metrics_input.py",
    "projections/monotone": "tests/test_projections_isotonic.py tests/test_projections_input.py",
    "core/certificates": "tests/test_certificates.py tests/test_solvers.py",
    "core/minorants": "tests/test_certificates.py tests/test_solvers.py",
    "core/loop": "tests/test_descent.py tests/test_solvers.py tests/test_ways_of_data.py",
    "solvers/descent/newton": "tests/test_descent.py tests/test_solvers.py",
    "solvers/descent/lbfgs": "tests/test_descent.py tests/test_solvers.py tests/test_learned_divergence.py",
    "verification/convex": "tests/test_verifier.py tests/test_verifier_kinds.py",
    "verification/comparison": "tests/test_verifier.py tests/test_verifier_kinds.py",
    "verification/report": "tests/test_verifier.py tests/test_verifier_kinds.py",
}  # fmt: skip

# Annotations are not evaluated, decorators of protocols and dataclasses are checked by the type checker.
_IDLE = ("core/ReplaceBinaryOperator_BitOr", "core/RemoveDecorator")
_CONFIGURATION = """
[cosmic-ray]
module-path = "convexrank/{module}.py"
timeout = {timeout}
excluded-modules = []
test-command = "{command}"
[cosmic-ray.distributor]
name = "local"
"""


def sampled(session: Path, sample: int, seed: int) -> int:
    """Mark all mutants but a sample as skipped; return how many are left."""
    from cosmic_ray.work_db import use_db
    from cosmic_ray.work_item import WorkerOutcome, WorkResult

    with use_db(session) as work:
        place = lambda item: (  # noqa: E731 - identifiers of jobs are random, places are not
            item.mutations[0].start_pos, item.mutations[0].operator_name, item.mutations[0].occurrence,
        )  # fmt: skip
        items = sorted(work.pending_work_items, key=place)
        useful = [item for item in items if not item.mutations[0].operator_name.startswith(_IDLE)]
        chosen = random.Random(seed).sample(useful, min(sample, len(useful))) if sample else useful
        kept = {item.job_id for item in chosen}
        for item in items:
            if item.job_id not in kept:
                work.set_result(item.job_id, WorkResult(WorkerOutcome.SKIPPED))
        return len(kept)


def outcomes(session: Path) -> tuple[int, list[str]]:
    """Return how many mutants were killed, and the changes that no test noticed."""
    from cosmic_ray.work_db import use_db
    from cosmic_ray.work_item import TestOutcome, WorkerOutcome

    with use_db(session) as work:
        results = [result for _, result in work.results if result.worker_outcome != WorkerOutcome.SKIPPED]
    survived = [result.diff or "" for result in results if result.test_outcome == TestOutcome.SURVIVED]
    return len(results) - len(survived), survived


def examine(copy: Path, module: str, sample: int, seed: int, timeout: float) -> tuple[int, list[str]]:
    """Run the tests of a module against its mutants, in a copy of the repository."""
    tests = f"{sys.executable} -m pytest -q -x -p no:cacheprovider {MODULES[module]}"
    subprocess.run(tests.split(), cwd=copy, check=True, stdout=subprocess.DEVNULL)  # unchanged they must pass
    configuration, session = copy / "mutants.toml", copy / "mutants.sqlite"
    session.unlink(missing_ok=True)
    configuration.write_text(_CONFIGURATION.format(module=module, command=tests, timeout=timeout))
    tool = [sys.executable, "-m", "cosmic_ray.cli"]
    subprocess.run([*tool, "init", configuration, session], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    sampled(session, sample, seed)
    subprocess.run([*tool, "exec", configuration, session], cwd=copy, check=True, stdout=subprocess.DEVNULL)
    return outcomes(session)


def main() -> int:
    """Print the score of each module and all survivors; 1 if fewer than nine in ten were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=[], metavar="module", help="by default all")
    parser.add_argument("--sample", type=int, default=30, help="mutants per module; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--timeout", type=float, default=120.0, help="seconds per mutant; a slower one is killed"
    )
    options = parser.parse_args()
    killed, total = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "convexrank"
        ignored = shutil.ignore_patterns(
            ".git", ".venv", "_build", "__pycache__", ".hypothesis", "gallery", "generated"
        )
        shutil.copytree(ROOT, copy, ignore=ignored)
        for module in options.modules or MODULES:
            noticed, survived = examine(copy, module, options.sample, options.seed, options.timeout)
            killed, total = killed + noticed, total + noticed + len(survived)
            print(f"{module:26} {noticed:4} of {noticed + len(survived):4} killed", flush=True)
            print("".join(f"\n{change}\n" for change in survived), end="", flush=True)
    print(f"{'all':26} {killed:4} of {total:4} killed, {100.0 * killed / max(total, 1):.0f} %")
    return int(killed < 0.9 * total)


if __name__ == "__main__":
    sys.exit(main())
