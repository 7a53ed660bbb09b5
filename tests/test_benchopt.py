"""The benchopt definition runs: its solvers find one value, which is that of the formulation.

benchopt itself is not needed: a stand-in for its base classes does what the command does with one solver.
"""

from __future__ import annotations

import itertools
import runpy
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks" / "benchopt"
SOLVERS = sorted(file.stem for file in (FOLDER / "solvers").glob("*.py"))
SMALL = {"simulated": {"n_samples": 60, "n_features": 8}, "rcv1_like": {"n_samples": 80, "n_features": 50}}


class Base:
    """Parameters become attributes, each with the first of its values where none is named."""

    parameters: dict = {}  # noqa: RUF012

    def __init__(self, **named):
        for names, (first, *_) in self.parameters.items():
            keys = names.split(", ")
            self.__dict__.update(zip(keys, first if len(keys) > 1 else (first,), strict=True))
        self.__dict__.update(named)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    module = types.ModuleType("benchopt")
    module.BaseObjective = module.BaseDataset = module.BaseSolver = Base  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchopt", module)


def load(place, kind):
    return runpy.run_path(str(FOLDER / f"{place}.py"))[kind]


def declared(dataset, p=4, reg=0.1):
    data = load(f"datasets/{dataset}", "Dataset")(**SMALL[dataset], n_words=6).get_data()
    objective = load("objective", "Objective")(p=p, reg=reg)
    objective.set_data(**data)
    return objective


def run(name, told):
    """Run a solver as its strategy asks for."""
    solver = load(f"solvers/{name}", "Solver")()
    solver.set_objective(**told)
    if hasattr(solver, "warm_up"):
        solver.warm_up()
    if solver.sampling_strategy == "tolerance":
        tolerances = [3e38]  # what benchopt begins with
        while tolerances[-1] > 1e-9:
            tolerances.append(solver.get_next(tolerances[-1]))
        solver.run(tolerances[0])
        assert np.isfinite(solver.get_result()["w"]).all()
        solver.run(tolerances[-1])
    elif solver.sampling_strategy == "callback":
        counter = itertools.count()
        solver.run(lambda: next(counter) < 1_500)
    else:
        solver.run({"iteration": 400, "run_once": 1}[solver.sampling_strategy])
    return solver.get_result()


@pytest.mark.parametrize("dataset", SMALL)
@pytest.mark.parametrize("p", [1, 16])
def test_the_objective_is_that_of_the_formulation(dataset, p):
    objective = declared(dataset, p)
    told = objective.get_objective()
    problem = cr.problems.PNormPush(told["X"], told["y"], p=p, l1=told["l1"])
    assert told["l1"] == pytest.approx(0.1 * problem.l1_max(), rel=1e-9)
    rng = np.random.default_rng(0)
    for w in (objective.get_one_result()["w"], rng.normal(size=told["X"].shape[1])):
        found = objective.evaluate_result(w)
        assert found["value"] == pytest.approx(problem.objective(w), rel=1e-9, abs=1e-12)
        assert found["weights in use"] == np.count_nonzero(w)
        f, positive = np.asarray(told["X"] @ w), told["y"] == 1
        gaps = f[positive][:, None] - f[~positive][None, :]
        loops = np.log(np.mean(np.mean(np.exp(-gaps), axis=0) ** p)) / p + told["l1"] * np.abs(w).sum()
        assert found["value"] == pytest.approx(loops, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("dataset", SMALL)
def test_all_solvers_find_one_value(dataset):
    objective = declared(dataset)
    told = objective.get_objective()
    best = cr.problems.PNormPush(told["X"], told["y"], p=told["p"], l1=told["l1"]).solve(tol=1e-10)
    assert np.count_nonzero(best.x) > 0
    for name in SOLVERS:
        value = objective.evaluate_result(**run(name, told))["value"]
        assert abs(value - best.value) <= 1e-6, name


def test_large_rows_are_left_out_of_the_exact_model():
    solver = load("solvers/exact", "Solver")()
    assert solver.skip(np.zeros((2, 2)), None, 1, 0.1) == (False, None)
    large = sparse.coo_array((np.ones(1_000_001), (np.arange(1_000_001), np.zeros(1_000_001, int)))).tocsr()
    skipped, reason = solver.skip(large, None, 1, 0.1)
    assert skipped
    assert "1000001 entries" in reason


def test_every_file_is_named_in_the_readme():
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    files = [
        file.relative_to(FOLDER).as_posix() for file in FOLDER.rglob("*.py") if "outputs" not in file.parts
    ]
    assert all(f"`{file}`" in text for file in files)
