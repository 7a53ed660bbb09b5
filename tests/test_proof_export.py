"""Exported certificates: honest ones are confirmed by the program that runs alone, false ones are refused."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import convexrank as cr
from convexrank.cli import main as command
from convexrank.problems import REGISTRY

pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")

from convexrank import atoms, modelling  # needs flint
from convexrank.modelling import functions
from convexrank.proof import check, check_fractions  # needs flint
from convexrank.proof.export import _linear, export
from tests.plain_risk import Plain

PROGRAM = Path(check.__file__)


def rewrite(folder, change):
    """Change the content and the arrays of a certificate, and set the hashes right again."""
    content = json.loads((folder / "certificate.json").read_text())
    arrays = {name: np.load(folder / name) for name in content["files"]}
    change(content, arrays)
    for name, values in arrays.items():
        np.save(folder / name, values)
        content["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "certificate.json").write_text(json.dumps(content))


def refusal(folder, capsys):
    """What the program says; empty where it confirms."""
    capsys.readouterr()
    refused, said = check.main(folder), capsys.readouterr().out
    assert said.startswith("refused: " if refused else "proved: ")
    return said if refused else ""


def made(kind):
    """Small problems solved to the last digit, so that whatever is changed makes the claim false."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(14, 3))
    y = (X[:, 0] + rng.normal(size=14) > 0).astype(int)
    if kind == "push":
        problem = cr.problems.PNormPush(X, y, 3.0, l2=0.1, sample_weight=rng.uniform(0.5, 2.0, size=14))
        x = problem.solve("newton").x
        for _ in range(3):
            _, gradient, curvature = problem.second_order(x)
            x = x - np.linalg.solve(curvature, gradient)
        return problem, x, None
    if kind == "top":
        problem = cr.problems.TopPush(X, y, l2=0.1)
        # its evidence is tangents, which the program reads
        solution = problem.solve(cr.solvers.Bundle(newton=False))
        return problem, solution.x, solution.witness
    if kind == "lists":
        grades, qid = rng.integers(0, 3, size=14), np.repeat([3, 4, 5], [6, 6, 2])
        grades[-2:] = 1  # a query that is idle
        problem = cr.problems.ListNet(X, grades, qid, target="softmax", l2=0.1)
        solution = problem.solve(tol=1e-15, max_iter=200)
        return problem, solution.x, None
    if kind in ("L1 ball", "L2 ball"):
        # with l2 the minimiser is no corner, at which the gap would be 0
        ball = {"l1_ball": 0.4, "l2": 0.5} if kind == "L1 ball" else {"l2_ball": 0.3}
        problem = cr.problems.ConvexRisk(X, y, "logistic", **ball)
        return problem, problem.solve(tol=1e-13).x, None
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    problem = cr.problems.PageRank(graph)
    return problem, problem.reference(), None


KINDS = ("push", "top", "lists", "L1 ball", "L2 ball", "walk")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """An honest certificate of each kind."""
    place = tmp_path_factory.mktemp("honest")
    for kind in KINDS:
        problem, x, witness = made(kind)
        problem.export(x, place / kind, witness)
    return place


@pytest.fixture
def copied(kept, tmp_path):
    """Copies of them that may be spoilt."""
    return Path(shutil.copytree(kept, tmp_path / "copies"))


def edit(name, change):
    def planted(content, arrays):
        arrays[f"{name}.npy"] = change(arrays[f"{name}.npy"])

    return planted


def put(entry, value):
    def changed(values):
        values = values.copy()
        values.flat[entry] = value
        return values

    return changed


def state(**changes):
    def planted(content, arrays):
        content.update(changes)

    return planted


def atom(kind, **changes):
    """Change the first atom of a kind."""

    def planted(content, arrays):
        next(one for one in content["risk"] if one["atom"] == kind).update(changes)

    return planted


def last(**changes):
    def planted(content, arrays):
        content["risk"][-1].update(changes)

    return planted


def claim(**changes):
    def planted(content, arrays):
        content["claim"].update(changes)

    return planted


def drop(*names):
    def planted(content, arrays):
        for name in names:
            arrays[f"{name}.npy"] = arrays[f"{name}.npy"][1:]

    return planted


def rescale(factor):
    def planted(content, arrays):
        content["claim"]["gap"] *= factor

    return planted


def drop_row(content, arrays):
    """Leave out the first positive, consistently."""
    first = int(np.flatnonzero(arrays["y.npy"] == 1.0)[0])
    for name in ("X", "y", "weight", "query"):
        arrays[f"{name}.npy"] = np.delete(arrays[f"{name}.npy"], first, axis=0)


ANY = ("push", "top")
BALLS = ("L1 ball", "L2 ball")
EVERY = KINDS


def other_side(content, arrays):
    """The bottom in place of the top: factors of the exponents changed."""
    first, second = (one for one in content["risk"] if one["atom"] == "sum" and len(one["of"]) == 1)
    first["factors"], second["factors"] = [-3.0], [1.0]
    content["risk"][-1]["factors"] = content["risk"][-1]["factors"][::-1]


def swap_balls(content, arrays):
    content["ball"] = "L2" if content["ball"] == "L1" else "L1"


PLANTED = {
    "wrong data": (ANY, edit("X", lambda X: X + 1e-9 * np.eye(*X.shape))),
    "a column twice as large": (ANY, edit("X", lambda X: X * [2.0, 1.0, 1.0])),
    "edited point": (ANY, edit("w", lambda w: w + 1e-6)),
    "dual point off by 1e-12": (("push",), edit("w", lambda w: w + [1e-12, 0.0, 0.0])),
    "evidence off": (("top",), edit("witness_points", lambda W: W + 1e-2)),
    "evidence off by 1e-12": (("top",), edit("witness_weights", lambda c: c + 1e-12 * np.arange(len(c)))),
    "a gap of half": (EVERY, rescale(0.5)),
    "a gap of nothing": (EVERY, claim(gap=0.0)),
    "a negative gap": (EVERY, claim(gap=-1.0)),
    "a gap that is no number": (EVERY, claim(gap=float("nan"))),
    "an infinite gap": (EVERY, claim(gap=float("inf"))),
    "another value": (ANY, claim(value=0.5)),
    "another p": (("push",), last(factors=[1.0, 1 / 3.0001])),
    "a negative p": (("push",), last(factors=[1.0, -1 / 3])),
    "a rounded p": (("push",), last(factors=[1.0, 0.333333333333])),
    "another l2": (ANY, state(l2=0.1 + 1e-9)),
    "no l2": (ANY, state(l2=0.0)),
    "another l1": (ANY, state(l1=1e-6)),
    "a negative l1": (ANY, state(l1=-1e-6)),
    "swapped labels": (ANY, edit("y", lambda y: 1.0 - y)),
    "one label": (ANY, edit("y", np.ones_like)),
    "negative weights of rows": (("push",), edit("weight", put(0, -1.0))),
    "another weight of a row": (("push",), edit("weight", put(0, 5.0))),
    "negative weights of evidence": (("top",), edit("witness_weights", lambda c: -c)),
    "one negative weight of evidence": (("top",), edit("witness_weights", put(0, -1e-3))),
    "NaN in the data": (ANY, edit("X", put(0, np.nan))),
    "NaN in the point": (ANY, edit("w", put(0, np.nan))),
    "an infinite point": (ANY, edit("w", put(0, np.inf))),
    "NaN in the evidence": (("top",), edit("witness_points", put(0, np.nan))),
    "a row dropped from the data": (ANY, drop("X")),
    "a row dropped everywhere": (ANY, drop_row),
    "another kind": (EVERY, claim(kind="violation")),
    "the other kind": (ANY, claim(kind="distance")),
    "global for a distance": (("walk",), claim(kind="global")),
    "another formulation": (("push",), other_side),
    "another group": (("push",), atom("scores", group="negative")),
    "an unknown formulation": (("walk",), state(problem="Mystery")),
    "a formulation by its name": (ANY, state(problem="TopPush")),
    "an unknown atom": (ANY, last(atom="mystery")),
    "another target": (("lists",), atom("mean", weights=["label", 0])),
    "no target": (("lists",), atom("mean", weights="ranks")),
    "another grade": (("lists",), edit("y", put(0, 7.0))),
    "a negative worth": (("lists",), atom("mean", weights=["-", ["label", 0], 1.0])),
    "another divisor": (("lists",), last(factors=[0.5, -0.5])),
    "no constant": (("lists",), last(constant=0.0)),
    "other queries": (("lists",), edit("query", lambda q: np.where(q == 1, 0, q))),
    "a point of lists off by 1e-6": (("lists",), edit("w", lambda w: w + 1e-6)),
    "a larger ball": (BALLS, state(radius=0.5)),
    "a smaller ball": (BALLS, state(radius=0.2)),
    "no ball": (BALLS, state(ball=None)),
    "the other ball": (BALLS, swap_balls),
    "an unknown ball": (BALLS, state(ball="L3")),
    "a point outside the ball": (BALLS, edit("w", lambda w: w * 1.001)),
    "a point inside the ball": (BALLS, edit("w", lambda w: w * 0.999)),
    "another alpha": (("walk",), state(alpha=0.85 + 1e-9)),
    "alpha of one": (("walk",), state(alpha=1.0)),
    "another graph": (("walk",), edit("weights", put(1, 1.0 + 1e-9))),
    "a negative edge": (("walk",), edit("weights", put(0, -1.0))),
    "another teleport": (("walk",), edit("teleport", put(0, 1.0 + 1e-9))),
    "a point of the walk off by 1e-12": (("walk",), edit("x", lambda x: x + [1e-12, 0, 0, 0])),
}


def test_twenty_and_more_are_planted():
    assert len(PLANTED) >= 20


@pytest.mark.parametrize("kind", KINDS)
def test_honest_certificates_are_confirmed(kind, copied, capsys):
    assert refusal(copied / kind, capsys) == ""
    rewrite(copied / kind, lambda content, arrays: None)
    assert refusal(copied / kind, capsys) == ""


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in PLANTED for kind in PLANTED[name][0]])
def test_a_false_certificate_is_refused(name, kind, copied, capsys):
    """Its hashes are right: it is the statement that is false."""
    rewrite(copied / kind, PLANTED[name][1])
    assert refusal(copied / kind, capsys)


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_bound_by_their_hashes(kind, copied, capsys):
    folder = copied / kind
    content = json.loads((folder / "certificate.json").read_text())
    for name in content["files"]:
        values = np.load(folder / name)
        np.save(
            folder / name, np.where(np.arange(values.size).reshape(values.shape) == 0, values + 1, values)
        )
        assert "SHA-256" in refusal(folder, capsys)
        np.save(folder / name, values)
    other = dict(content, files={**content["files"], name: "0" * 64})
    (folder / "certificate.json").write_text(json.dumps(other))
    assert "SHA-256" in refusal(folder, capsys)


def test_broken_folders_are_refused(copied, capsys, tmp_path):
    folder = copied / "push"
    content = json.loads((folder / "certificate.json").read_text())
    name = next(iter(content["files"]))
    np.save(folder / name, np.array([{}], dtype=object), allow_pickle=True)
    content["files"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "certificate.json").write_text(json.dumps(content))
    assert "and not numbers" in refusal(folder, capsys)
    (folder / name).unlink()
    assert "FileNotFoundError" in refusal(folder, capsys)
    (folder / "certificate.json").write_text("{")
    assert refusal(folder, capsys)
    assert refusal(tmp_path / "nowhere", capsys)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (["log1p"], "is no function"),
        (["power", 0.5], "out of range"),
        (["scaled", -1.0, ["softplus"]], "out of range"),
        (["square"], "a function that decreases is taken of a convex part"),
    ],
)
def test_functions_that_are_not_convex_are_refused(function, reason, tmp_path, capsys):
    """A concave function in place of a loss or of a price would prove anything."""
    problem = cr.problems.RmaxPush([[1.0], [0.0], [0.5]], [1, 0, 0], "logistic", l2=0.1)
    problem.solve().export(tmp_path / "folder")
    rewrite(tmp_path / "folder", atom("function", function=function))
    assert reason in refusal(tmp_path / "folder", capsys)


RISKS = [name for name in REGISTRY if hasattr(REGISTRY[name], "program")]


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
@pytest.mark.parametrize("name", [*RISKS, *check.RANKS])
def test_random_instances_are_exported(name, tmp_path, capsys):
    exported = 0
    for seed in range(3):
        problem = REGISTRY[name].random(seed)
        try:
            folder = problem.solve().export(tmp_path / str(seed))
        except cr.CertificateError:
            continue
        exported += 1
        assert refusal(folder, capsys) == ""
        if exported == 1:
            rewrite(folder, rescale(0.5))
            assert refusal(folder, capsys)
    assert exported


# --- the program ------------------------------------------------------------------------------------------------------


def test_the_program_is_short_and_alone():
    text = PROGRAM.read_text()
    assert len(text.splitlines()) <= 590
    assert max(map(len, text.splitlines())) <= 120
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"numpy", "flint"}


@pytest.mark.parametrize("kind", ["push", "walk"])
def test_the_program_runs_without_the_package(kind, kept, tmp_path):
    program = shutil.copy(PROGRAM, tmp_path / "program.py")
    for change, code in ((lambda content, arrays: None, 0), (claim(gap=0.0), 1)):
        folder = tmp_path / f"copy{code}"
        shutil.copytree(kept / kind, folder)
        rewrite(folder, change)
        found = subprocess.run(
            [sys.executable, "-I", program, folder], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert found.returncode == code, found.stderr
        assert found.stdout.startswith("refused" if code else "proved")


def test_the_command(kept, capsys):
    assert command(["check", str(kept / "walk")]) == 0
    assert capsys.readouterr().out.startswith("proved: ")
    assert command(["check", str(kept / "nowhere")]) == 1


def test_large_files_are_named_by_their_hash(tmp_path, capsys):
    problem, x, _ = made("push")
    folder = export(problem, x, problem.prove(x), tmp_path / "folder", large=300)
    assert not (folder / "X.npy").exists()
    assert "FileNotFoundError" in refusal(folder, capsys)
    data = tmp_path / "data"
    data.mkdir()
    np.save(data / "X.npy", problem.X)
    assert check.main(folder, data) == 0
    np.save(data / "X.npy", problem.X + 1.0)
    assert check.main(folder, data) == 1


# --- risks of one's own -----------------------------------------------------------------------------------------------


class HuberTop(cr.Formulation):
    """Pairs of each query by Huber's function, and the two highest negatives of each."""

    width: float = 1.0

    def risk(self, f):
        pairs = modelling.pair_sums(functions.huber(self.width), f.positive, f.negative)
        return modelling.mean(pairs) + modelling.mean_of_highest(f.negative, 2) / 3.0


def by_query(kind, **options):
    rng = np.random.default_rng(2)
    X, y, qid = rng.normal(size=(24, 3)), np.arange(24) % 2, np.repeat([7, 3, 9, 9], 6)
    y[:6] = 0  # a query that is idle
    return kind(
        X + y[:, None],
        np.where(y, "good", "bad"),
        qid=qid,
        l2=0.1,
        sample_weight=1.0 + np.arange(24) % 3,
        **options,
    )


@pytest.mark.parametrize(
    "problem",
    [
        by_query(HuberTop, width=0.5),
        by_query(cr.problems.PNormPush, p=3.0),
        by_query(cr.problems.TopPush),
        by_query(cr.problems.PartialAUC, max_fpr=0.5, min_tpr=0.2),
        by_query(cr.problems.PatMat, tau=0.4),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_risks_of_ones_own_and_by_query_are_exported(problem, tmp_path, capsys):
    """Each statement is that of the folder: loops over its atoms give the value of the problem."""
    solution = problem.solve(tol=1e-9)
    folder = solution.export(tmp_path / "folder")
    assert refusal(folder, capsys) == ""
    content = json.loads((folder / "certificate.json").read_text())
    arrays = {name: np.load(folder / name) for name in content["files"]}
    stated, rng = Plain(content, arrays), np.random.default_rng(0)
    for w in (solution.x, *rng.normal(size=(3, 3))):
        assert stated.objective(w) == pytest.approx(problem.objective(w), rel=1e-12)
    rewrite(folder, edit("query", lambda q: np.zeros_like(q)))
    assert refusal(folder, capsys)


@pytest.mark.parametrize("name", RISKS)
def test_what_is_written_is_the_objective(name):
    """At any point, by loops over the atoms."""
    for seed in range(6):
        problem = REGISTRY[name].random(seed)
        content, arrays = _linear(problem, problem.start())
        stated = Plain(json.loads(json.dumps(content)), arrays)
        for w in np.random.default_rng(seed).normal(size=(3, len(arrays["w"]))):
            w *= 0.1 if problem.penalty.ball else 1.0
            assert stated.objective(w) == pytest.approx(problem.objective(w), rel=1e-12, abs=1e-13)


class Own(cr.Formulation):
    """A function of one's own with a form in balls, which the programs do not know."""

    def risk(self, f):
        return modelling.total(modelling.pair_sums(CUBE, f.positive, f.negative))


CUBE = functions.custom(  # a function, which is not read from its atoms
    lambda x: atoms.positive(x) ** 3,
    "cube",
    increasing=True,
    smooth=True,
    least=0.0,
    line=lambda x: (x.max(0) ** 3, 3 * x.max(0) ** 2, 0),
)


# --- what is not exported ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - set(RISKS) - set(check.RANKS)))
def test_what_the_program_does_not_know_is_not_exported(name, tmp_path):
    problem = REGISTRY[name].random(1)
    x = problem.interior() if name == "RateConstrained" else problem.start()
    with pytest.raises(
        cr.CertificateError, match=f"{name} is no expression of scores|nothing is proved about it"
    ):
        problem.export(x, tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_what_cannot_be_exported_says_why(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 2)), np.arange(8) % 2
    cases = {
        "has no form in balls": cr.problems.Push(
            X, y, cr.prices.Custom(lambda r: r * atoms.log1p(r)), l2=0.1
        ),
        "is not among the functions that the checking programs know": Own(X, y, l2=0.1),
    }
    for reason, problem in cases.items():
        with pytest.raises(cr.CertificateError, match=reason):
            problem.solve().export(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
    problem, x, _ = made("push")
    problem.export(x, tmp_path / "folder")
    with pytest.raises(cr.CertificateError, match="holds a certificate already"):
        problem.export(x, tmp_path / "folder")


def test_values_are_right_to_the_last_bit(tmp_path, capsys):
    """Of scores with an offset 64 bits leave too few digits, which a large gap does not notice."""
    rng = np.random.default_rng(0)
    problem = cr.problems.PNormPush(rng.normal(size=(20, 2)) + 1e6, np.arange(20) % 2, p=2.0, l2=0.1)
    assert refusal(problem.export([1.0, -0.7], tmp_path / "folder"), capsys) == ""


@pytest.mark.filterwarnings("ignore:.*:convexrank.ConvergenceWarning")
def test_gaps_of_nothing_are_confirmed(tmp_path, capsys):
    """At w = 0 a gap is 0 exactly, and so it is where a risk that is never negative reaches 0."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2))
    y = (X[:, 0] > 0).astype(int)
    problems = [
        cr.problems.RankSVM(X, y, l1=100.0),
        cr.problems.IRPush(X, y, l1=100.0),
        cr.problems.Push(X, y, 1.0, "hinge"),
    ]
    for place, problem in enumerate(problems):
        folder = problem.solve().export(tmp_path / str(place))
        assert refusal(folder, capsys) == ""
        rewrite(folder, edit("w", lambda w: w + 0.5 - w.sum()))
        assert refusal(folder, capsys)


def test_a_claim_that_is_not_confirmed_is_an_error(tmp_path):
    import dataclasses

    problem, x, _ = made("push")
    proof = dataclasses.replace(problem.prove(x), gap=0.0)
    with pytest.raises(cr.CertificateError, match="does not confirm"):
        export(problem, x, proof, tmp_path / "folder")


class Likelihood(cr.Formulation):
    """Nothing is known that it is never below, so that l1 alone bounds the minimiser by strictly feasible evidence."""

    def risk(self, f):
        return modelling.log_sum_exp(f.negative) - modelling.mean(f.positive)


def test_evidence_within_l1_is_written(tmp_path, capsys):
    """It needs no bound of the minimiser; without it, or where it leaves l1, nothing is proved."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(12, 3)), np.arange(12) % 2
    problem = Likelihood(X, y, l1=0.3)
    solution = problem.solve(tol=1e-10)
    folder = problem.export(solution, tmp_path / "folder")
    assert refusal(folder, capsys) == ""
    assert check_fractions.main(folder) == 0
    claimed = json.loads((folder / "certificate.json").read_text())["claim"]["gap"]
    assert claimed <= 2.0 * problem.prove(solution).gap
    rewrite(folder, lambda content, arrays: content.update(l1=0.3 * (1.0 - 1e-6)))
    assert "nothing bounds the minimiser" in refusal(folder, capsys)
