"""How many small changes of the code do the tests notice? ``make mutants`` counts, with cosmic-ray; not part of CI.

Each mutant is one change of an operator, a number or a branch in a copy of the repository; it is killed when a test of
its module fails, or takes ten times as long as unchanged. All mutants of the modules below are some thousands, so that
a seeded sample of each is taken: ``make mutants ARGS="--sample 0"`` runs all, ``ARGS="metrics/push --sample 40"`` those
of one module. Each runs in a fork of a process that has imported numpy and the like, with the programs of JAX that the
unchanged tests compiled, so that most take a second or two.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

# Each module with the tests that are asked, as arguments of pytest: the narrow ones, fastest first.
_EVIDENCE = (
    "tests/test_many_rows.py tests/test_certificates.py tests/test_working_sets.py tests/test_solvers.py"
)
_LOOP = "tests/test_descent.py tests/test_solvers.py"
_VERIFIER = "tests/test_verifier.py tests/test_verifier_kinds.py"
# The modelling layer: rules and known formulations first, then random expressions in all readings.
_LAYER = "tests/test_modelling_rules.py tests/test_modelling_known.py tests/test_modelling.py"
_READ = f"{_LAYER} tests/test_own_formulations.py -k 'not bug and not solved and not exact_model and not jax'"
_SLOW = "not no_solve and not every_solver and not dense and not memory and not jax"
MODULES = {
    "proof/check": "tests/test_proof_check.py tests/test_proof_export.py -k 'not alone and not without and not fields'",
    "metrics/push": "tests/test_metrics.py tests/test_metrics_input.py -k 'r_p or r_max or heights or table_1 or auc'",
    "projections/increments": "tests/test_projections_isotonic.py tests/test_projections_input.py -k 'not imports'",
    "core/certificates": f"{_EVIDENCE} -k '{_SLOW}'",
    "modelling/log_sum_exps/sums": "tests/test_log_sum_exps.py tests/test_many_rows.py tests/test_boosting.py "
    "tests/test_newton_cg.py::test_a_gentler_risk_has_smaller_powers_and_the_same_slope_at_0",
    "modelling/log_sum_exps/terms": "tests/test_many_rows.py tests/test_log_sum_exps.py",
    "modelling/rules": f"{_READ}",
    "modelling/program": f"tests/test_pair_rule.py {_READ}",
    "modelling/steps": f"tests/test_curvature.py tests/test_pair_rule.py tests/test_smoothing.py {_READ}",
    "modelling/curvature": f"tests/test_curvature.py tests/test_second_order.py {_READ}",
    "modelling/hessian_products": "tests/test_curvature.py tests/test_second_order.py tests/test_smoothing.py"
    f"::test_smooth_functions_of_random_risks_are_those_of_their_differences {_READ}",
    "modelling/conjugate": f"tests/test_infimum.py {_READ}",
    "modelling/recession": f"tests/test_separability.py {_READ}",
    "modelling/certificates/balls": f"{_READ}",
    "modelling/cvxpy_reading": f"{_LAYER} -k 'not bug and not jax'",
    "modelling/jax_reading": f"{_LAYER} -k 'not bug and not exact_model'",
    "modelling/certificates/reference": f"tests/test_certificates.py {_READ}",
    "modelling/certificates/rounding": f"tests/test_certificates.py {_READ}",
    "modelling/kernels/pairs": "tests/test_modelling_kernels.py -k 'not memory and not planted'",
    "modelling/kernels/plain": "tests/test_modelling_kernels.py -k 'not memory and not planted'",
    "modelling/smoothing/programs": "tests/test_smoothing.py tests/test_minimum_at_zero.py tests/test_spectral_push.py "
    "tests/test_short_path.py -k 'not wrong and not planted and not exact_model and not many_kinks'",
    "solvers/working_sets/_dual_newton": "tests/test_screening.py tests/test_working_sets.py",
    "problems/graph_ranks/_base": "tests/test_lpq_rank.py tests/test_page_rank.py",
    "data/shards/local": "tests/test_shards.py",
    "problems/duals/_points": "tests/test_duals.py",
    "consensus/extreme_scores": "tests/test_consensus_sets.py -k 'sweeps or mix'",
    "core/minorants": f"{_EVIDENCE} tests/test_bundle.py -k '{_SLOW}'",
    "core/loop": f"{_LOOP} tests/test_limits.py -k '{_SLOW}'",
    "solvers/descent/newton": f"{_LOOP} tests/test_second_order.py -k '{_SLOW}'",
    "solvers/descent/newton_cg": "tests/test_newton_cg.py",
    "solvers/descent/lbfgs": f"{_LOOP} tests/test_many_rows.py tests/test_solver_choice.py -k '{_SLOW}'",
    "verification/comparison": f"{_VERIFIER} -k 'not planted and not sound or PNorm or TopPush'",
    "verification/report": "tests/test_verifier.py -k 'not planted and not harmless'",
    "verification/definitions": "tests/test_definitions.py -k 'declaration or dual or verdict or rows or point'",
    "problems/_plain": "tests/test_definitions.py -k 'agree or overflow or own or options or saito or centre'",
}  # fmt: skip

# Mutants that change nothing, by module: the line as it was, as it is, and why no test can notice. They do not count.
_COUNTS = "counts of rows are never negative, so that above 0 and other than 0 are the same"
EQUIVALENT = {
    "core/loop": {
        (
            'if self.trace["seconds"][-1] >= self.options.time_limit:',
            'if self.trace["seconds"][-1] > self.options.time_limit:',
        ): "no clock reads exactly the limit",
    },
    "proof/check": {
        (
            "return type(files) is dict and all(type(digest) is str for digest in files.values())",
            "return type(files) == dict and all(type(digest) is str for digest in files.values())",
        ): "a type is equal to itself alone",
        (
            'base = total(power(y, p) for y in common + [weak * total(x)] * (kind == "entry"))',
            'base = total(power(y, p) for y in common + [weak * total(x)] * (kind <= "entry"))',
        ): "of the three words it is the first",
    },
    "modelling/log_sum_exps/terms": {
        ("_BLOCK = 1 << 17", f"_BLOCK = {now}"): "how many rows are read at a time"
        for now in (
            "1 & 17",
            "1 | 17",
            "1 ^ 17",
            "1 + 17",
            "1 * 17",
            "1 ** 17",
            "1 % 17",
            "1 << 18",
            "1 << 16",
            "2 << 17",
            "0 << 17",
            "1 / 17",
            "1 // 17",
            "1 >> 17",
            "1 - 17",
        )
    }
    | {
        (f"{line}copy=False){rest}", f"{line}copy=True){rest}"): "rows that are picked are a copy already"
        for line, rest in (
            ("chosen, total = X[rows].astype(np.float64, ", ", float(weights.sum())"),
            ("chosen = X[rows].astype(np.float64, ", ""),
            ("rows = X[block].astype(np.float64, ", ""),
        )
    },
    "modelling/log_sum_exps/sums": {
        (
            "_MODERATE = 64.0",
            f"_MODERATE = {now}",
        ): "both ways bound the rounding of logarithms of about this size"
        for now in ("63.0", "65.0")
    },
    "modelling/hessian_products": {
        (line.format("0"), line.format(" -1")): "of one argument the first is the last"
        for line in (
            "return node.over.sums(node.shares * dx[{}])",
            "return memory * dx[{}]",
            "return levels.moved(node, memory, np.broadcast_to(dx[{}], node.level.shape))",
            "return node.over.sums(memory[0] * dx[{}])",
            "return node.over.sums(memory * dx[{}])",
            "dx0 = np.broadcast_to(dx[{}], node.level.shape)",
            "return (curved(node, memory, u, dx[{}]),)",
            "d, c, g = bend_of(node, x[{}], memory, u)",
            "found = d * dx[{}]",
            "found = found - g * axis.spread(c * axis.sums(g * dx[{}]))",
        )
    },
    "modelling/curvature": {
        ("_PAIRS, _PRODUCTS = 2_000_000, 100_000_000", f"_PAIRS, _PRODUCTS = {now}"): "up to how many it pays"
        for now in (
            "2000001, 100_000_000",
            "1999999, 100_000_000",
            "2_000_000, 100000001",
            "2_000_000, 99999999",
        )
    }
    | {
        (
            "for k in range(len(program.nodes) - 1, -1, -1):",
            f"for k in range(len(program.nodes) - 1, {now}, -1):",
        ): why
        for now, why in {
            "~1": "the place -1 is that of the root, which is looked at first",
            "- 2": "the same",
            "- 0": "what comes first are the scores, which are functions of nothing",
            "not 1": "the same",
        }.items()
    },
    "modelling/program": {
        (
            "found = up(values[only]) if only >= 0 else up(*map(values.__getitem__, args))",
            f"found = up(values[only]) if only {now} else up(*map(values.__getitem__, args))",
        ): "one argument is also the only one of a list"
        for now in ("> 0", ">= 1", "== 0", "is 0")
    },
    "modelling/recession": {
        (
            "up, down = node.function.recession(np.array([1.0, -1.0])).tolist()",
            "up, down = node.function.recession(np.array([1.0, - 2.0])).tolist()",
        ): "slopes far out are those of a direction times its length, and only 0 is looked for",
        **{
            (
                f"return {line.format('0')}",
                f"return {line.format(' -1')}",
            ): "of one argument the first is the last"
            for line in (
                "_summed(node.over.query, node.over.count, node.shares) @ x[{}]",
                "self._highest(node, x[{}])",
                "self._up_to_levels(node, x[{}])",
                "self._mean_of_highest(node.over, node.caps, x[{}])",
                "self._of(node.function, x[{}])",
            )
        },
        **{
            (
                f"values = np.broadcast_to(x[0], node.{shape})",
                f"values = np.broadcast_to(x[ -1], node.{shape})",
            ): "of one argument the first is the last"
            for shape in ("shares.shape", "logs.shape", "over.rows.shape")
        },
        (
            "following = np.flatnonzero(~last) + 1 if node.upper is not node.lower else following",
            "following = np.flatnonzero(~last) + 1 if node.upper != node.lower else following",
        ): "a node is equal to itself alone",
        **{
            (
                "return all(np.min(c) > 0.0 and _is_definite(part) for c, part in node.terms)",
                f"return all(np.min(c) {now} and _is_definite(part) for c, part in node.terms)",
            ): "a part that bends has no negative factor, and one of 0 may be asked for as one above 0"
            for now in (">= 0.0", "> -1.0", "!= 0.0")
        },
    },
    "modelling/smoothing/programs": {
        (
            "tied = highest_rows(node, x[0])[1]",
            "tied = highest_rows(node, x[ -1])[1]",
        ): "of one argument the first is the last",
    },
    "modelling/certificates/reference": {
        **{
            (
                "if step > 1 and places < len(x[::step]) // 2:",
                f"if step {now} places < len(x[::step]) // 2:",
            ): "whether low entries are left out at first"
            for now in (
                "<= 1 and",
                "< 1 and",
                ">= 1 and",
                "!= 1 and",
                "== 1 and",
                "> 0 and",
                "> 2 and",
                "> 1 or",
            )
        },
        **{
            (
                "places = rank // step + 2 * math.isqrt(rank // step) + 8",
                f"places = {now}",
            ): "how many low entries are left out at first; where these are too many, none are"
            for now in (
                "rank // step + 2 * math.isqrt(rank >> step) + 8",
                "rank // step + 2 * math.isqrt(rank // step) + 9",
                "rank // step + 2 * math.isqrt(rank // step) + 7",
                "rank // step + 3 * math.isqrt(rank // step) + 8",
                "rank // step + 1 * math.isqrt(rank // step) + 8",
            )
        },
        (
            "self.firsts = np.flatnonzero(np.diff(axis.query, prepend=-1))",
            "self.firsts = np.flatnonzero(np.diff(axis.query, prepend=- 2))",
        ): "any number below 0 differs from that of the first query",
        **{
            (
                "if not isinstance(node, Affine) or len(node.terms) != 1 or np.any(node.constant):",
                f"if not isinstance(node, Affine) or len(node.terms) {now} or np.any(node.constant):",
            ): why
            for now, why in {
                "> 1": "a node with arguments has terms",
                ">= 1": "the longer way, which takes more time and gives the same",
                "!= 0": "the longer way, which takes more time and gives the same",
            }.items()
        },
    },
    "modelling/certificates/balls": {
        (
            "return as_objects(a * 0 if a.is_zero() else a * (a / b).log() for a, b in pairs)",
            "return as_objects(a * -1 if a.is_zero() else a * (a / b).log() for a, b in pairs)",
        ): "any multiple of zero is zero",
        **{
            ("if before >= mass:", f"if before {now} mass:"): "parts beyond the mass count for nothing"
            for now in ("==", ">", "is")
        },
        **{
            (
                "if all(one >= 0 for one in below) and all(one <= 0 for one in above):",
                f"if all(one {ends[0]} 0 for one in below) and all(one {ends[1]} 0 for one in above):",
            ): "an end that is exactly the root is one of an enclosure, and within one of twice the size"
            for ends in ((">=", "<"), (">", "<="))
        },
    },
    "consensus/extreme_scores": {
        (
            "while spot > begin and room[spot - 1] < worth:",
            "while spot > begin and room[spot - 1] <= worth:",
        ): "entries of the same worth may stand in either order",
    },
    "data/shards/local": {
        **{
            (
                "_SAMPLES, _SAMPLE = 64, 1 << 14",
                f"_SAMPLES, _SAMPLE = {now}",
            ): "how much of a long array is read"
            for now in ("65, 1 << 14", "63, 1 << 14", "64, 1 << 15", "64, 1 << 13")
        },
        **{
            (
                "if samples and len(flat) > samples * _SAMPLE:",
                f"if samples and len(flat) {now} _SAMPLE:",
            ): "stretches of an array of at most so many entries are all of it"
            for now in (
                "!= samples *",
                "is not samples *",
                ">= samples *",
                "> samples ^",
                "> samples >>",
                "> samples -",
                "> samples +",
                "> samples /",
                "> samples //",
                "> samples %",
                "> samples &",
                "> samples |",
            )
        },
        **{
            (
                'return text if len(text) < 200 else f"{text[:100]}..., checksum {zlib.crc32(text.encode()):08x}"',
                f'return text if len(text) {now}]}}..., checksum {{zlib.crc32(text.encode()):08x}}"',
            ): "how much of a long text is said"
            for now in (
                '<= 200 else f"{text[:100',
                '< 201 else f"{text[:100',
                '< 199 else f"{text[:100',
                '< 200 else f"{text[: 101',
                '< 200 else f"{text[: 99',
                '!= 200 else f"{text[:100',
            )
        },
        (
            "flat = np.ascontiguousarray(values).reshape(-1)",
            "flat = np.ascontiguousarray(values).reshape(~1)",
        ): "numpy takes all negative numbers for what is left",
        (
            'if any(kind.kind == "O" for kind in types) or len({kind.kind == "U" for kind in types}) > 1:',
            'if any(kind.kind == "O" for kind in types) or len({kind.kind == "U" for kind in types}) != 1:',
        ): "there are types",
    },
    "solvers/working_sets/_dual_newton": {
        (
            "return sizes is not None and int(sizes.entries.sum()) >= _ENTRIES * len(sizes.entries)",
            "return sizes is not None and int(sizes.entries.sum()) > _ENTRIES * len(sizes.entries)",
        ): "as many entries as are worth it cost as much",
        **{
            (
                "reach = movement(bends, sizes.ranges, point.steepness, slack * point.gap) * (1.0 + 64.0 * EPS)",
                f"reach = movement(bends, sizes.ranges, point.steepness, slack * point.gap) * (1.0 + {now} * EPS)",
            ): "a margin for rounding that is far wider than needed"
            for now in ("65.0", "63.0")
        },
    },
    "problems/graph_ranks/_base": {
        ("first = np.argpartition(-scores, min(k, n - 1))[: k + 1]", f"first = np.argpartition({now}"): why
        for now, why in {
            "-scores, min(k, n - 2))[: k + 1]": "of k = n - 1 all are taken",
            "-scores, min(k, n - 1))[: k + 2]": "what follows the next one changes nothing",
            "-scores, min(k, n - 1))[: k << 1]": "the same, and 2 k is k + 1 for one",
        }.items()
    },
    "projections/increments": {
        (
            "return np.clip(fitted, floor, ceiling) if floor > -np.inf or ceiling < np.inf else fitted",
            "return np.clip(fitted, floor, ceiling) if floor != -np.inf or ceiling < np.inf else fitted",
        ): "a checked bound is no NaN, and none is below minus infinity",
        (
            "return np.clip(fitted, floor, ceiling) if floor > -np.inf or ceiling < np.inf else fitted",
            "return np.clip(fitted, floor, ceiling) if floor > -np.inf or ceiling <= np.inf else fitted",
        ): "clipping at infinity changes nothing",
    },
    "metrics/push": {
        (
            "here = (counted.negatives > 0) & (counted.positives_at_or_below > 0)",
            "here = (counted.negatives > 0) & (counted.positives_at_or_below != 0)",
        ): _COUNTS,
        (
            "here = (counted.negatives > 0) & (counted.positives_at_or_below > 0)",
            "here = (counted.negatives != 0) & (counted.positives_at_or_below > 0)",
        ): _COUNTS,
        (
            "highest_negative = int(np.argmax(counted.negatives > 0))",
            "highest_negative = int(np.argmax(counted.negatives != 0))",
        ): _COUNTS,
    },
}

# Whether lists are of one length is asked where they always are.
_STRICT = re.compile(r"strict=(True|False)")


def says_the_same(module: str, was: str, now: str) -> bool:
    """Whether no test can notice that a line has changed."""
    return (was, now) in EQUIVALENT.get(module, {}) or _STRICT.sub("", was) == _STRICT.sub("", now)


# Annotations are not evaluated, decorators of protocols and dataclasses are checked by the type checker.
_IDLE = ("core/ReplaceBinaryOperator_BitOr", "core/RemoveDecorator")
# Imported once, before the forks; JAX starts its threads later, in each.
_HEAVY = (
    "numpy", "scipy.optimize", "scipy.sparse", "scipy.special", "scipy.stats", "jax", "jax.numpy", "numba", "cvxpy",
    "sklearn.metrics", "sklearn.isotonic", "sklearn.model_selection", "matplotlib.pyplot", "hypothesis.strategies",
    "pytest", "jaxopt",
)  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: where it is, and what it makes of the line."""

    path: Path
    operator: str
    occurrence: int
    place: tuple[int, int]

    @cached_property
    def text(self) -> str:
        """The file with the change; made when it is asked for, which takes a moment."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        return mutate_code(self.path.read_text(), get_operator(self.operator)(), self.occurrence) or ""

    @cached_property
    def lines(self) -> tuple[str, str]:
        """The first line that differs, as it was and as it is."""
        pairs = zip(self.path.read_text().splitlines(), self.text.splitlines(), strict=False)
        return next(((a.strip(), b.strip()) for a, b in pairs if a != b), ("", ""))

    def __str__(self) -> str:
        return f"line {self.place[0]}: {self.lines[0]}\n      now: {self.lines[1]}"


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of a file that mean anything, in the order of the text."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    tree, found = get_ast(path.read_text()), []
    for name in operator_names():
        if name.startswith(_IDLE) or get_operator(name).arguments():
            continue
        operator = get_operator(name)()
        places = [start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)]
        found += [Mutant(path, name, occurrence, place) for occurrence, place in enumerate(places)]
    return sorted(found, key=lambda mutant: (mutant.place, mutant.operator, mutant.occurrence))


def passes(copy: Path, tests: str, seconds: float, **environment: str) -> bool:
    """Whether the tests pass in time, in a fork of this process that sees the copy only."""
    child = os.fork()
    if not child:
        _run_tests(copy, tests, environment)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def _run_tests(copy: Path, tests: str, environment: dict[str, str]) -> None:
    """Run pytest and end the process."""
    import shlex

    code = 1
    try:
        os.setsid()
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.chdir(copy)
        os.environ.update(
            environment, PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1", CONVEXRANK_MUTANT="1"
        )
        sys.dont_write_bytecode = True
        sys.path[:] = [str(copy), *(place for place in sys.path if Path(place or ".").resolve() != ROOT)]
        for name in [name for name in sys.modules if name.split(".")[0] in ("tests", "convexrank")]:
            del sys.modules[name]
        import pytest

        code = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "--assert=plain", *shlex.split(tests)]))
    finally:
        os._exit(code)


def examine(copy: Path, module: str, sample: int, seed: int) -> tuple[int, int, int]:
    """Return how many mutants were killed, survived, and are equivalent; print the survivors as they are found."""
    path, tests = copy / f"convexrank/{module}.py", MODULES[module]
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(copy.parent / "programs"),
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    # the unchanged tests must pass, and leave their programs; mutants write none, as one that is stopped may leave half
    for _ in range(2):
        begun = time.monotonic()
        if not passes(copy, tests, 900.0, **settings, JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0"):
            raise RuntimeError(f"the tests of {module} fail without any change: {tests}")
    limit = 20.0 + 10.0 * (time.monotonic() - begun)
    settings["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "1e9"
    original, killed, survived, equivalent = path.read_text(), 0, 0, 0
    for mutant in chosen(mutants_of(path), sample, seed):
        text = mutant.text
        if says_the_same(module, *mutant.lines):
            equivalent += 1
            continue
        try:
            path.write_text(text)
            alive = passes(copy, tests, limit, **settings)
        finally:
            path.write_text(original)
        killed += not alive
        if alive:
            survived += 1
            print(f"  survives: {mutant}", flush=True)
    return killed, survived, equivalent


def chosen(mutants: Sequence[Any], sample: int, seed: int) -> list[Any]:
    """A sample in the order of the text; all for 0."""
    if not sample or sample >= len(mutants):
        return list(mutants)
    return [mutants[place] for place in sorted(random.Random(seed).sample(range(len(mutants)), sample))]


def main() -> int:
    """Print the score of each module and all survivors; 1 if fewer than nine in ten were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", default=[], metavar="module", help="by default all")
    parser.add_argument("--sample", type=int, default=30, help="mutants per module; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in _HEAVY:
        importlib.import_module(name)
    killed, total = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "convexrank"
        ignored = shutil.ignore_patterns(
            ".git", ".venv", ".venv-bench", "_build", "__pycache__", ".hypothesis", "gallery", "generated"
        )
        shutil.copytree(ROOT, copy, ignore=ignored)
        compileall.compile_dir(copy / "convexrank", quiet=2)
        for module in options.modules or MODULES:
            begun = time.monotonic()
            noticed, survived, equivalent = examine(copy, module, options.sample, options.seed)
            killed, total = killed + noticed, total + noticed + survived
            print(
                f"{module:26} {noticed:4} of {noticed + survived:4} killed, {equivalent} equivalent, "
                f"{time.monotonic() - begun:.0f} s", flush=True,
            )  # fmt: skip
    print(f"{'all':26} {killed:4} of {total:4} killed, {100.0 * killed / max(total, 1):.1f} %")
    return int(killed < 0.9 * total)


if __name__ == "__main__":
    sys.exit(main())
