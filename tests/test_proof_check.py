"""The checking program does not trust the folder: forged ones are refused, whatever their hashes say."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import time
import warnings
from functools import cache
from itertools import product
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import optimize

import convexrank as cr

pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")

from flint import arb  # needs flint

from convexrank.proof import check  # needs flint
from convexrank.proof.balls import at_precision  # needs flint
from tests.plain_risk import Plain, value_of

ROWS = (
    "PNormPush",
    "TopBottomPush",
    "RmaxPush",
    "SpectralPush",
    "PartialAUC",
    "Push",
    "ConvexRisk",
    "RankSVM",
    "ListNet",
    "PatMat",
    "ListMLE",
)
EVERY = (*ROWS, "PageRank", "LpqRank")


def made(name):
    """A small problem with a penalty and all parameters, and its solution."""
    rng = np.random.default_rng(3)
    X, y, qid = rng.normal(size=(12, 2)), np.arange(12) % 2, np.repeat([0, 1, 2], 4)
    X[:, 0] += 2.0 * y  # the highest negative is not on top of all
    weights = rng.uniform(0.5, 2.0, size=12)
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0], [1.0, 2.0, 1.0, 1.0, 1.0, 0.5])
    problems = cr.problems
    problem = {
        "PNormPush": lambda: problems.PNormPush(X, y, 3.0, l2=0.1, sample_weight=weights),
        "TopBottomPush": lambda: problems.TopBottomPush(X, y, 2.0, bottom_weight=0.5, l2=0.1),
        "RmaxPush": lambda: problems.RmaxPush(X, y, cr.losses.Logistic(2.0), l2=0.1),
        "SpectralPush": lambda: problems.SpectralPush(
            X, y, [0.2, 0.8], "logistic", l2=0.1, sample_weight=weights
        ),
        "PartialAUC": lambda: problems.PartialAUC(X, y, 0.4, "hinge", 0.3, l2=0.1, sample_weight=weights),
        "Push": lambda: problems.Push(X, y, 2.0, "squared_hinge", l2=0.1, sample_weight=weights),
        "ConvexRisk": lambda: problems.ConvexRisk(X, y + X[:, 0].round(), "logistic", l2_ball=0.5, l2=0.1),
        "RankSVM": lambda: problems.RankSVM(X, y, qid, "squared_hinge", l2=0.1),
        "ListNet": lambda: problems.ListNet(X, y * qid, qid, target="exp2", l2=0.1),
        "PatMat": lambda: problems.PatMat(X, y, 0.3, "logistic", l2=0.1, sample_weight=weights),
        "ListMLE": lambda: problems.ListMLE(X, y * qid, qid, l2=0.1),
        "PageRank": lambda: problems.PageRank(graph, personalization=np.array([0.1, 0.2, 0.3, 0.4])),
        "LpqRank": lambda: problems.LpqRank(graph, p=2.0, q=3.0, outdegree_floor=1.5),
    }[name]()
    return problem, problem.solve(tol=1e-10)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Folders that are confirmed, by problem."""
    place = tmp_path_factory.mktemp("honest")
    for name in EVERY:
        made(name)[1].export(place / name)
    return place


@pytest.fixture
def copies(honest, tmp_path):
    """Copies of them that may be spoilt."""
    return shutil.copytree(honest, tmp_path / "copies")


def read_content(folder):
    return json.loads((folder / "certificate.json").read_text())


def read(folder):
    content = read_content(folder)
    return content, {name: np.load(folder / name) for name in content["files"]}


def write(folder, content, arrays):
    """Write a folder whose hashes are right."""
    for name, values in arrays.items():
        np.save(folder / name, values)
    write_text(folder, content)


def write_text(folder, content):
    """Write certificate.json with the hashes of the files that are there."""
    content["files"] = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        if (folder / name).is_file()
        else digest
        for name, digest in content["files"].items()
    }
    (folder / "certificate.json").write_text(json.dumps(content))


def said(folder, capsys, code=1):
    capsys.readouterr()
    assert check.main(folder) == code
    return capsys.readouterr().out


FORMULAS = {
    "PNormPush": "log_mean_exp(-positive, weights=weight(positive)) + "
    "(1 / 3) * log_mean_exp(3 * negative, weights=weight(negative)) + 0.1/2 |w|^2, global, at most ",
    "TopBottomPush": "log_mean_exp(-positive) + (1 / 2) * log_mean_exp(2 * negative) + ",
    "RmaxPush": "mean(logistic(2)(-positive + maximum(negative))) + ",
    "SpectralPush": "mean(softplus(-positive + ((1.6 - 0.4) * 0.5) * mean_of_highest(negative, weights=weight(",
    "PartialAUC": "mean_of_highest(pair_means(hinge, positive, negative, weights=weight(positive), asked=((1 - 0.3) * ",
    "Push": "total(power(2)(pair_sums(squared_hinge, positive, negative, weights=weight(positive))), ",
    "ConvexRisk": "(2 / (sums(1, rows) * (sums(1, rows) - 1))) * total(pair_sums(softplus, rows, rows, grades=label",
    "RankSVM": "(1 / 4) * total(pair_sums(squared_hinge, rows, rows, grades=label(rows))) + 0.1/2 |w|^2, global, ",
    "ListNet": "log_mean_exp(rows) - mean(rows, weights=(expm1((label(rows) * log(2))) / n0)) + take(sums(",
    "PatMat": "mean(softplus(-positive + threshold(squared_hinge, negative, weights=weight(negative), scale=1, ",
    "ListMLE": "total(cumulative_log_sum_exp(rows, grades=label(rows)) - rows, weights=n0) + 0.1/2 |w|^2, global, ",
}


@pytest.mark.parametrize("name", EVERY)
def test_what_is_honest_is_confirmed(name, copies, capsys):
    text = said(copies / name, capsys, 0)
    assert text.startswith(f"proved: {name if name in check.RANKS else FORMULAS[name]}")
    write(copies / name, *read(copies / name))
    assert said(copies / name, capsys, 0) == text


@pytest.mark.parametrize(("steps_outside", "accepted"), [(0.9, True), (1.1, False)])
def test_a_point_lies_outside_its_ball_by_rounding_at_most(steps_outside, accepted, copies, capsys):
    content, arrays = read(copies / "ConvexRisk")
    radius, w = content["radius"] * (1.0 + steps_outside * 2.0**-30), arrays["w.npy"]
    arrays["w.npy"] = w * (radius / np.linalg.norm(w))
    write(copies / "ConvexRisk", content, arrays)
    text = said(copies / "ConvexRisk", capsys)
    assert ("outside its ball" in text) != accepted
    if accepted:  # the value is another one than that of the claim, and a little lower
        content["claim"]["value"] = float(re.findall(r"the value is ([^'\"]+)", text)[0])
        write(copies / "ConvexRisk", content, arrays)
        said(copies / "ConvexRisk", capsys, 0)


# --- forged statements: the hashes are right, the mathematics is that of no formulation -------------------------------


def field(**changes):
    return lambda content, arrays: content.update(changes)


def atom(kind, **changes):
    """Change the first atom of a kind."""
    return lambda content, arrays: next(one for one in content["risk"] if one["atom"] == kind).update(changes)


def function(*form):
    """Another function of pairs."""
    return atom("pair_sums", function=list(form))


def more_atoms(*atoms):
    return lambda content, arrays: content["risk"].extend(atoms)


def of_all(kind, **fields):
    """An atom of the last one."""
    return lambda content, arrays: content["risk"].append(
        {"atom": kind, "of": [len(content["risk"]) - 1], **fields}
    )


def without(name):
    return lambda content, arrays: content.pop(name)


def claim(**changes):
    return lambda content, arrays: content["claim"].update(changes)


def file(name, change):
    return lambda content, arrays: arrays.update({f"{name}.npy": change(arrays[f"{name}.npy"].copy())})


def entry(place, value):
    def changed(values):
        values[place] = value
        return values

    return changed


def more(content, arrays):
    content["files"]["rows.npy"] = "0" * 64


def fewer(content, arrays):
    del content["files"]["query.npy"], arrays["query.npy"]


def half_of_the_evidence(content, arrays):
    arrays["witness_points.npy"] = arrays["w.npy"][None, :]
    content["files"]["witness_points.npy"] = ""


FORGED = {
    "another atom": ("PNormPush", atom("log_mean_exp", atom="log_mean"), "no atom has this name"),
    "no atom": ("PNormPush", atom("log_mean_exp", atom=None), "no atom has this name"),
    "an atom that is none": ("PNormPush", more_atoms("scores"), "no atom has this name"),
    "a misspelt field": ("PNormPush", atom("log_mean_exp", weight=1.0), "log_mean_exp does not have the fields"),
    "a group that is none": ("PNormPush", atom("scores", group="all"), "group is out of range"),
    "a list for a group": ("PNormPush", atom("scores", group=["positive"]), "group is out of range"),
    "no atoms": ("PNormPush", field(risk=[]), "risk is out of range"),
    "too many atoms": ("PNormPush", field(risk=[{"atom": "scores", "of": [], "group": "rows"}] * 1001), "risk is out"),
    "atoms that are no list": ("PNormPush", field(risk={"atom": "scores"}), "risk is out of range"),
    "an atom of itself": ("PNormPush", atom("sum", of=[1]), "made of a later one"),
    "an atom of a later one": ("PNormPush", atom("sum", of=[4]), "made of a later one"),
    "an atom from behind": ("PNormPush", atom("sum", of=[-1]), "made of a later one"),
    "an atom of yes": ("PNormPush", atom("sum", of=[False]), "made of a later one"),
    "an atom of nothing": ("PNormPush", atom("log_mean_exp", of=[]), "another number of parts"),
    "an atom of two": ("PNormPush", atom("log_mean_exp", of=[1, 1]), "another number of parts"),
    "scores of an atom": ("PNormPush", of_all("scores", group="rows"), "another number of parts"),
    "entries of different rows": ("PNormPush", more_atoms(
        {"atom": "sum", "of": [1, 4], "factors": [1.0, 1.0], "constant": 0.0}), "different rows are added"),
    "a risk of rows": ("PNormPush", of_all("sum", of=[1], factors=[1.0], constant=0.0), "no number for each query"),
    "a mean of queries": ("PNormPush", of_all("mean", weights=1.0), "one number for each row is reduced"),
    "pairs of queries": ("PNormPush", more_atoms({"atom": "pair_sums", "of": [1, 2], "function": ["exp"],
        "weights": 1.0, "grades": None}), "one number for each row is compared"),
    "a concave sum": ("PNormPush", of_all("sum", factors=[-1.0], constant=0.0), "a negative factor"),
    "weights of less than one row": ("ConvexRisk", lambda c, a: c["risk"][-1].update(
        factors=[["/", 2.0, ["*", 0.6, ["-", 0.6, 1.0]]]]), "a negative factor"),
    "a concave mean": ("PNormPush", lambda c, a: c["risk"][-1].update(factors=[1.0, -0.25]), "a negative factor"),
    "a factor that is no number": ("PNormPush", atom("sum", factors=["half"]), "are no numbers"),
    "a factor of yes": ("PNormPush", atom("sum", factors=[True]), "are no numbers"),
    "NaN for a factor": ("PNormPush", atom("sum", factors=[float("nan")]), "are no numbers"),
    "a factor too few": ("PNormPush", atom("sum", factors=[]), "refused: ValueError"),
    "a factor too many": ("PNormPush", atom("sum", factors=[1.0, 1.0]), "refused: ValueError"),
    "factors that are no list": ("PNormPush", atom("sum", factors="1"), "factors is out of range"),
    "a formula without an end": ("PNormPush", atom("sum", factors=[["*", 1.0]]), "are no numbers"),
    "a logarithm of two": ("PNormPush", atom("sum", factors=[["log", 1.0, 2.0]]), "are no numbers"),
    "a logarithm of less than 0": ("PNormPush", atom("sum", factors=[["log", -1.0]]), "refused: "),
    "a division by 0": ("PNormPush", lambda c, a: c["risk"][-1].update(factors=[1.0, ["/", 1.0, 0.0]]), "factor"),
    "an operation that is none": ("PNormPush", atom("sum", factors=[["sqrt", 1.0]]), "are no numbers"),
    "operations at once": ("PNormPush", atom("sum", factors=[["+-", 1.0, 2.0]]), "are no numbers"),
    "a formula of nothing": ("PNormPush", atom("sum", factors=[[]]), "are no numbers"),
    "sums of a later atom": ("PNormPush", atom("sum", factors=[["sums", 1.0, 9]]), "are no numbers"),
    "sums of a word": ("PNormPush", atom("sum", factors=[["sums", 1.0, "rows"]]), "are no numbers"),
    "weights of an atom from behind": ("PNormPush", atom("log_mean_exp", weights=["weight", -1]), "are no numbers"),
    "weights of a word": ("PNormPush", atom("log_mean_exp", weights=["weight", "rows) + exp(rows", 0]), "no numbers"),
    "sums of nothing": ("PNormPush", atom("sum", constant=["sums", 0]), "are no numbers"),
    "places of nothing": ("RankSVM", atom("pair_sums", weights=["take", "i0"]), "are no numbers"),
    "weights of yes": ("PNormPush", atom("log_mean_exp", weights=["weight", True]), "are no numbers"),
    "numbers of other rows": ("PNormPush", atom("sum", factors=[["weight", 0], ["weight", 3]]), "refused: "),
    "a place beyond the last": ("RankSVM", lambda c, a: a.update({"i7.npy": np.array([99])})
        or c["files"].update({"i7.npy": ""}) or atom("pair_sums", weights=["take", "n0", "i7"])(c, a), "no numbers"),
    "a place from behind": ("RankSVM", lambda c, a: a.update({"i7.npy": np.array([-1])})
        or c["files"].update({"i7.npy": ""}) or atom("pair_sums", weights=["take", "n0", "i7"])(c, a), "no numbers"),
    "places that are no integers": ("RankSVM", atom("pair_sums", weights=["take", 1.0, "n0"]), "no integers"),
    "a file that is not there": ("RankSVM", atom("pair_sums", weights="n9"), "'n9' are no numbers"),
    "data for numbers": ("PNormPush", atom("log_mean_exp", weights="y"), "'y' are no numbers"),
    "weights of 0 in a logarithm": ("PNormPush", atom("log_mean_exp", weights=0.0), "weights of a mean"),
    "negative weights in a logarithm": ("PNormPush", atom("log_mean_exp", weights=-1.0), "weights of a mean"),
    "a mean of nothing": ("ListNet", atom("mean", weights=0.0), "weights of a mean"),
    "weights of highest of 0": ("SpectralPush", atom("mean_of_highest", weights=0.0), "not above 0"),
    "a mean of the highest none": ("SpectralPush", atom("mean_of_highest", asked=0.0), "not above 0"),
    "a mean of less than none": ("SpectralPush", atom("mean_of_highest", asked=-1.0), "not above 0"),
    "another mean of the highest": ("SpectralPush", atom("mean_of_highest", asked=4.0), "the value is"),
    "a function that is none": ("Push", function("identity"), "is no function"),
    "a price that is concave": ("Push", function("log1p"), "is no function"),
    "a function by its name": ("Push", atom("pair_sums", function="hinge"), "function is out of range"),
    "no function": ("Push", function(), "is no function"),
    "a hinge with a parameter": ("Push", function("hinge", 2.0), "is no function"),
    "a power without one": ("Push", atom("function", function=["power"]), "is no function"),
    "a concave power": ("Push", atom("function", function=["power", 0.3]), "is out of range"),
    "a power of 1": ("Push", atom("function", function=["power", 1.0]), "is out of range"),
    "a base below 1": ("RmaxPush", atom("function", function=["logistic", 0.5]), "out of range"),
    "a base of 1": ("RmaxPush", atom("function", function=["logistic", 1.0]), "out of range"),
    "a power of yes": ("Push", atom("function", function=["power", True]), "is out of range"),
    "a power without end": ("Push", atom("function", function=["power", 10**400]), "is out of range"),
    "a negative multiple": ("RmaxPush", atom("function", function=["scaled", -1.0, ["softplus"]]), "out of range"),
    "a multiple of nothing": ("RmaxPush", atom("function", function=["scaled", 1.0, []]), "is no function"),
    "a negative width": ("Push", function("huber", -1.0), "is out of range"),
    "a square of what is convex": ("RmaxPush", atom("function", function=["square"]), "that decreases is taken"),
    "a multiple of a square": ("RmaxPush", atom("function", function=["scaled", 2.0, ["square"]]), "that decreases"),
    "huber of what is convex": ("Push", atom("function", function=["huber", 1.0]), "that decreases is taken"),
    "pairs the other way round": ("Push", lambda c, a: c["risk"][2].update(of=[1, 0]), "the value is"),
    "pairs of what is convex": ("RmaxPush", more_atoms({"atom": "sum", "of": [0, 2], "factors": [1.0, 1.0],
        "constant": 0.0}, {"atom": "pair_sums", "of": [6, 0], "function": ["hinge"], "weights": 1.0, "grades": None},
        {"atom": "total", "of": [7], "weights": 1.0}), "a negative factor"),
    "negative weights of pairs": ("Push", atom("pair_sums", weights=-1.0), "a negative factor"),
    "grades of other rows": ("Push", atom("pair_sums", grades=1.0), "grades of different rows are compared"),
    "grades that are no floats": ("RankSVM", atom("pair_sums", grades=["/", ["label", 0], 3.0]), "no floats"),
    "other grades": ("RankSVM", atom("pair_sums", grades=["*", ["label", 0], -1.0]), "the value is"),
    "levels of other grades": (
        "ListMLE", atom("cumulative_log_sum_exp", grades=["*", ["label", 0], -1.0]), "the value is"
    ),
    "levels of weight 0": ("ListMLE", atom("cumulative_log_sum_exp", weights=0.0), "not above 0"),
    "a threshold of 0": ("PatMat", atom("threshold", target=0.0), "target is out of range"),
    "another threshold": ("PatMat", atom("threshold", target=0.4), "the value is"),
    "a threshold of a square": ("PatMat", atom("threshold", function=["square"]), "this threshold is not known"),
    "a threshold the other way": ("PatMat", atom("threshold", scale=-1.0), "scale is out of range"),
    "a divergence of other sums": ("ListNet", lambda c, a: c.update(l2=0.0, l1=1e-3)
        or c["risk"][-1].update(factors=[1.0, -0.5]), "nothing bounds the minimiser"),
    "a rate above 1": ("PartialAUC", atom("pair_means", asked=0.0), "not above 0"),
    "another rate": ("PartialAUC", atom("pair_means", asked=1.0), "the value is"),
    "a negative q": ("LpqRank", field(q=-3.0), "q is out of range"),
    "a small p and q": ("LpqRank", field(p=0.2, q=0.3), "p is out of range"),
    "an expansive map": ("LpqRank", field(p=3.0, q=2.0), "no contraction"),
    "a map that does not contract": ("LpqRank", field(p=2.0, q=2.0), "no contraction"),
    "an unknown place of weak links": ("LpqRank", field(weak_links="nowhere"), "weak_links is out of range"),
    "a negative floor": ("LpqRank", field(outdegree_floor=-2.0), "outdegree_floor is out of range"),
    "a rank of 0": ("LpqRank", file("x", entry(0, 0.0)), "no contraction"),
    "edges that are used twice": (
        "PageRank", file("offsets", lambda a: np.array([0, 4, 0, 4, len_of_edges(a)])), "offsets do not rise"
    ),
    "edges that nobody has": ("PageRank", file("offsets", entry(0, 1)), "offsets do not rise"),
    "edges beyond the last": ("PageRank", file("offsets", entry(-1, 99)), "offsets do not rise"),
    "offsets as floats": ("PageRank", file("offsets", lambda a: a + 0.5), "no integers"),
    "a source that is no node": ("PageRank", file("sources", entry(0, 4)), "sources are out of range"),
    "a source from behind": ("PageRank", file("sources", entry(0, -1)), "sources are out of range"),
    "an edge that is there twice": ("LpqRank", file("sources", lambda a: a[[0, 0, *range(2, len(a))]]), "rise"),
    "a negative edge": ("LpqRank", file("weights", entry(0, -1.0)), "a weight is negative"),
    "edges too heavy for floats": ("PageRank", file("weights", lambda a: a * 8e307), "leave the range"),
    "a negative teleport": ("PageRank", file("teleport", entry(0, -0.1)), "no distribution"),
    "no teleport": ("PageRank", file("teleport", np.zeros_like), "no distribution"),
    "an unknown way out": ("PageRank", field(dangling="stay"), "dangling is out of range"),
    "no damping": ("PageRank", field(alpha=1.0), "alpha is out of range"),
    "negative damping": ("PageRank", field(alpha=-0.5), "alpha is out of range"),
    "a floor that PageRank has not": ("PageRank", field(outdegree_floor=2.0), "have the fields"),
    "a rank that is worth something": ("PageRank", claim(value=1.0), "no value"),
    "a rank that is worth less than nothing": ("PageRank", claim(value=-1.0), "no value"),
    "a global rank": ("PageRank", claim(kind="global"), "kind is out of range"),
    "the distance of a push": ("PNormPush", claim(kind="distance"), "kind is out of range"),
    "no l2": ("PNormPush", without("l2"), "have the fields"),
    "NaN for l2": ("PNormPush", field(l2=float("nan")), "l2 is out of range"),
    "a negative l2": ("PNormPush", field(l2=-0.1), "l2 is out of range"),
    "a negative l1": ("Push", field(l1=-0.1), "l1 is out of range"),
    "a ball that is too small": ("PNormPush", field(ball="L2", radius=1e-3), "outside its ball"),
    "a ball without a radius": ("ConvexRisk", without("radius"), "have the fields"),
    "a radius without a ball": ("ConvexRisk", without("ball"), "have the fields"),
    "an unknown ball": ("ConvexRisk", field(ball="L3"), "ball is out of range"),
    "an empty ball": ("ConvexRisk", field(ball=""), "ball is out of range"),
    "a negative radius": ("ConvexRisk", field(radius=-0.5), "radius is out of range"),
    "a negative gain": ("ListNet", lambda c, a: a.update({"y.npy": a["y.npy"] - 3.0}), "weights of a mean"),
    "a gain beyond floats": ("ListNet", file("y", entry(5, 1000.0)), "the value is"),
    "a claim with more": ("PNormPush", claim(sure=True), "the claim does not have the fields"),
    "no claim": ("PNormPush", field(claim=None), "claim is out of range"),
    "a gap of yes": ("PNormPush", claim(gap=True), "gap is out of range"),
    "a negative row": ("PNormPush", file("weight", entry(0, -1.0)), "weights are out of range"),
    "rows without weight": ("PNormPush", file("weight", np.zeros_like), "weights are out of range"),
    "queries of a push": ("PNormPush", file("query", lambda a: a + np.arange(12) // 6), "the value is"),
    "pairs left out by queries": ("ConvexRisk", file("query", entry(0, 1)), "the value is"),
    "rows of no query": ("RankSVM", file("query", entry(0, -1)), "no numbers of queries"),
    "half a query": ("RankSVM", file("query", lambda a: a + 0.5), "no numbers of queries"),
    "a third class": ("PNormPush", file("y", entry(0, 2.0)), "the classes 0 and 1"),
    "one class": ("PNormPush", file("y", np.ones_like), "nothing to rank"),
    "one class that counts": (
        "PNormPush", lambda c, a: a.update({"weight.npy": a["y.npy"].copy()}), "nothing to rank"
    ),
    "one grade": ("ListNet", file("y", np.ones_like), "nothing to rank"),
    "entries too large for products": ("PNormPush", file("X", entry((0, 0), 1e200)), "beyond 1e150"),
    "a row too many": ("PNormPush", file("y", lambda a: np.append(a, 1.0)), "another length"),
    "a column too many": ("PNormPush", file("w", lambda a: np.append(a, 1.0)), "another length"),
    "a matrix of labels": ("PNormPush", file("y", lambda a: a[:, None]), "number of axes"),
    "no columns": ("PNormPush", lambda c, a: a.update({"X.npy": a["X.npy"][:, :0], "w.npy": a["w.npy"][:0]}), "empty"),
    "no nodes": (
        "LpqRank", lambda c, a: a.update({"x.npy": a["x.npy"][:0], "offsets.npy": a["offsets.npy"][:1]}), "empty"
    ),
    "a file too many": ("PNormPush", more, "the files are not"),
    "a file too few": ("PNormPush", fewer, "the files are not"),
    "half of the evidence": ("PNormPush", half_of_the_evidence, "the files are not"),
    "complex data": ("PNormPush", file("X", lambda a: a + 0j), "and not numbers"),
    "flags for labels": ("PNormPush", file("y", lambda a: a > 0), "and not numbers"),
    "text for labels": ("PNormPush", file("y", lambda a: a.astype(str)), "and not numbers"),
    "bytes in another order": ("PNormPush", file("X", lambda a: a.astype(">f8")), "and not numbers"),
    "fields": ("PNormPush", file("y", lambda a: a.view([("y", "<f8")])), "and not numbers"),
    "columns first": ("PNormPush", file("X", np.asfortranarray), "another size"),
    "NaN": ("PNormPush", file("X", entry((0, 0), np.nan)), "no finite numbers"),
    "a logarithm that nothing bounds": ("PNormPush", field(l2=0.0), "nothing bounds the minimiser"),
    "infinite weights": ("PNormPush", file("weight", entry(0, np.inf)), "no finite numbers"),
}  # fmt: skip


def len_of_edges(offsets):
    return int(offsets[-1])


@pytest.mark.parametrize("case", FORGED)
def test_forged_statements_are_refused(case, copies, capsys):
    """Each is refused for its own reason, before anything is computed where that is possible."""
    name, change, reason = FORGED[case]
    content, arrays = read(copies / name)
    change(content, arrays)
    write(copies / name, content, arrays)
    assert reason in said(copies / name, capsys)


@pytest.mark.parametrize("place", ["inside", "entry", "outside"])
def test_ranks_are_those_of_each_place_of_weak_links(place, tmp_path, capsys):
    graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0], [1.0, 2.0, 1.0, 1.0, 1.0, 0.5], n=5)
    folder = (
        cr.problems.LpqRank(graph, 2.0, 3.0, 0.8, weak_links=place).solve(tol=1e-12).export(tmp_path / place)
    )
    assert said(folder, capsys, 0)
    content, arrays = read(folder)
    for other in {"inside", "entry", "outside"} - {place}:
        write(folder, content | {"weak_links": other}, arrays)
        assert "the gap is at most" in said(folder, capsys)


def test_single_precision_is_read(tmp_path, capsys):
    X = np.array([[1.0], [0.0], [0.5]], dtype=np.float32)
    problem = cr.problems.PNormPush(X, [1, 0, 0], 2.0, l2=0.1, dtype="float32")
    assert said(problem.solve().export(tmp_path / "folder"), capsys, 0)


def test_forty_and_more_are_forged():
    assert len(FORGED) >= 40


# --- forged files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["/etc/hostname", "/dev/zero", "../RankSVM/y.npy", "y", "./y.npy", "Y.npy", "sub/y.npy", ""]
)
def test_only_the_files_of_the_folder_are_opened(name, copies, capsys):
    folder = copies / "PNormPush"
    content, _ = read(folder)
    content["files"][name] = content["files"].pop("y.npy")
    (folder / "certificate.json").write_text(json.dumps(content))
    assert "the files are not" in said(folder, capsys)


@pytest.mark.parametrize("digit", "0f")
def test_a_file_has_the_hash_that_is_stated(digit, copies, capsys):
    """Neither a lower one nor a higher one."""
    content = read_content(copies / "PNormPush")
    content["files"]["X.npy"] = digit * 64
    (copies / "PNormPush" / "certificate.json").write_text(json.dumps(content))
    assert "X.npy is another file: its SHA-256 differs" in said(copies / "PNormPush", capsys)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "device"])
@pytest.mark.parametrize("name", ["X.npy", "certificate.json"])
def test_what_is_no_plain_file_is_not_read(kind, name, copies, tmp_path, capsys):
    """A pipe blocks, and a device never ends."""
    path = copies / "PNormPush" / name
    kept = path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(kept)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    assert said(copies / "PNormPush", capsys).startswith("refused: ")


def test_files_are_not_larger_than_stated(copies, capsys):
    """Neither a file of zeros that takes no room on the disk, nor a header that asks for more than there is."""
    folder = copies / "PNormPush"
    content, arrays = read(folder)
    with (folder / "X.npy").open("r+b") as stream:
        stream.truncate(1 << 40)
    assert "is no file of at most" in said(folder, capsys)
    raw = (copies / "RankSVM" / "X.npy").read_bytes()
    (folder / "X.npy").write_bytes(raw.replace(b"(12, 2)", b"(9**9,)"))
    write_text(folder, content)
    assert said(folder, capsys).startswith("refused: ")
    (folder / "X.npy").write_bytes(raw.replace(b"(12, 2)", b"(99, 2)"))
    write_text(folder, content)
    assert "another size than it says" in said(folder, capsys)
    (folder / "X.npy").write_bytes(raw.replace(b"(12, 2)", b"(-1,-24)"))
    write_text(folder, content)
    assert said(folder, capsys).startswith("refused: ")
    with (folder / "X.npy").open("wb") as stream:
        np.lib.format.write_array(stream, arrays["X.npy"], version=(2, 0))
    write_text(folder, content)
    assert "another format" in said(folder, capsys)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        '"PNormPush"',
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5_000,
        '{"problem": ["PNormPush"]}',
        '{"problem": "check"}',
        '{"problem": "PageRank", "problem": "PageRank"}',
        '{"risk": [[]], "l2": 0.1, "l1": 0, "files": {}, "claim": {"kind": "global", "gap": 1, "value": 1}}',
    ],
)
def test_text_that_is_no_certificate_is_refused(text, copies, capsys):
    (copies / "PNormPush" / "certificate.json").write_text(text)
    assert said(copies / "PNormPush", capsys).startswith("refused: ")


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "true", "1" * 400, '0.3, "target": 0.3'])
def test_numbers_of_an_atom_are_numbers_and_are_there_once(number, copies, capsys):
    path = copies / "PatMat" / "certificate.json"
    text = path.read_text().replace('"target": 0.3', f'"target": {number}')
    assert text != path.read_text()
    path.write_text(text)
    assert said(path.parent, capsys).startswith(
        ("refused: ValueError('target is out", "refused: ValueError('a field is")
    )


@pytest.mark.parametrize("depth", [50, 500, 5_000])
def test_formulas_have_an_end(depth, copies, capsys):
    """Also those that are deeper than a reader of JSON goes."""
    path = copies / "PNormPush" / "certificate.json"
    text = path.read_text()
    formula = '["log", ' * depth + "2.0" + "]" * depth
    path.write_text(text.replace('"constant": 0.0', f'"constant": {formula}', 1))
    assert path.read_text() != text
    assert said(path.parent, capsys).startswith("refused: ")


def test_letters_are_printed_that_every_terminal_has(copies, capsys):
    content = read_content(copies / "PNormPush")
    content["risk"][1]["factors"] = ["\u4e2d"]
    write_text(copies / "PNormPush", content)
    assert said(copies / "PNormPush", capsys) == "refused: ValueError(\"'\\u4e2d' are no numbers\")\n"


def test_numbers_of_atoms_are_not_shown_as_atoms(copies, capsys):
    """The sums of the number 1 over the rows of the atom 1."""
    content, arrays = read(copies / "TopBottomPush")
    content["risk"][-1]["factors"][1] = ["/", ["sums", 1, 1], 12]
    write(copies / "TopBottomPush", content, arrays)
    assert "+ (sums(1, -positive) / 12) * log_mean_exp(" in said(copies / "TopBottomPush", capsys, 0)


def test_a_formula_that_repeats_itself_is_too_long():
    """A long atom in a formula, many times over, is no text of gigabytes."""
    rows = {"atom": "scores", "of": [], "group": "rows"}
    factor = ["/", 1.0, ["sums", 1.0, 0]]
    for _ in range(12):
        factor = ["*", factor, factor]
    risk = [rows, {"atom": "sum", "of": [0], "factors": [factor], "constant": 0.0}]
    with pytest.raises(ValueError, match="the formula is too long"):
        check.words({"risk": risk, "l2": 1.0, "l1": 0.0})


def test_a_number_is_not_shown_as_an_atom(copies, capsys):
    """Whole numbers, too: the formula that is printed is the statement."""
    content, arrays = read(copies / "TopBottomPush")
    content["risk"][-1]["factors"][1] = ["*", 2, ["/", 1, 4]]
    write(copies / "TopBottomPush", content, arrays)
    assert "+ (2 * (1 / 4)) * log_mean_exp(2 * negative) + " in said(copies / "TopBottomPush", capsys, 0)


@pytest.mark.parametrize(
    "text", ["(" * 3_900, "{1:" * 900, "-" * 9_900 + "1", "1" + "+1" * 1_900, "lambda:" * 500 + "1"]
)
def test_headers_that_are_no_header_are_refused(text, copies, capsys):
    """Also those that end the reader of numpy by an error of its own, such as that of the tokenizer."""
    folder = copies / "PNormPush"
    header = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    (folder / "w.npy").write_bytes(header + np.ones(2).tobytes())
    write_text(folder, read_content(folder))
    assert said(folder, capsys).startswith("refused: ")


def test_text_is_read_once_and_not_at_length(copies, capsys):
    path = copies / "PNormPush" / "certificate.json"
    text = path.read_text()
    path.write_text(text.replace('"l1":', '"l1": -1.0, "l1":', 1))
    assert "twice" in said(path.parent, capsys)
    path.write_text(text + " " * 2_000_000)
    assert "no file of at most" in said(path.parent, capsys)
    path.write_bytes(text.encode("utf-16"))
    assert said(path.parent, capsys).startswith("refused: ")


# --- bounds on memory and time ----------------------------------------------------------------------------------------


def grown(content, arrays, rows):
    """The same problem with so many rows, all of which have labels of their own."""
    arrays["X.npy"] = np.linspace(0.0, 1.0, 2 * rows).reshape(rows, 2)
    arrays["y.npy"] = np.arange(float(rows))
    arrays["weight.npy"], arrays["query.npy"] = np.ones(rows), np.zeros(rows, dtype=np.int64)


@pytest.mark.parametrize("name", ["ConvexRisk", "RankSVM"])
def test_pairs_are_counted_before_they_are_made(name, copies, capsys):
    content, arrays = read(copies / name)
    grown(content, arrays, 30_000)
    write(copies / name, content, arrays)
    assert "more than 2000000 terms" in said(copies / name, capsys)


def test_time_has_an_end(copies, capsys, monkeypatch):
    monkeypatch.setattr(check, "SECONDS", -1.0)
    for name in ("PNormPush", "PageRank"):
        assert "takes more than" in said(copies / name, capsys)


def test_terms_are_counted(monkeypatch, copies, capsys):
    """Pairs where they are taken one by one, and rows of each atom, of which three count once."""
    for name, most in (("Push", 8 + 6 * 6 + 4), ("SpectralPush", 8 + 4 + 6 + 4), ("PageRank", 10)):
        monkeypatch.setattr(check, "TERMS", most)
        assert "terms" not in said(copies / name, capsys, 0)
        monkeypatch.setattr(check, "TERMS", most - 1)
        assert re.search(f"more than {most - 1} (terms|nodes and edges)", said(copies / name, capsys))
    monkeypatch.setattr(check, "TERMS", 9)
    assert "more than 9 rows" in said(copies / "PNormPush", capsys)


def test_numbers_of_formulas_are_counted(monkeypatch, copies, capsys):
    """A formula of formulas holds as many lists of numbers as it is deep."""
    content, arrays = read(copies / "ListNet")
    formula = ["label", 0]
    for _ in range(30):
        formula = ["+", 0.0, formula]
    content["risk"][-1]["constant"] = ["sums", formula, 0]
    write(copies / "ListNet", content, arrays)
    monkeypatch.setattr(check, "TERMS", 30)
    assert "the value is" in said(copies / "ListNet", capsys)
    monkeypatch.setattr(check, "TERMS", 20)
    assert "formulas of more than 200 numbers" in said(copies / "ListNet", capsys)


@pytest.mark.parametrize("part", ["n0", ["label", 0], ["take", 0.0, "i0"], ["spread", 0.0, 0]], ids=str)
def test_numbers_are_counted_before_deeper_formulas_are_evaluated(part, monkeypatch):
    """The whole formula would hold 100 lists of 40 numbers; no more than 80 are made."""
    forty = np.zeros(40, dtype=np.int64)
    rows = check.Rows(forty.tolist(), forty.tolist(), forty, forty)
    d = {"given": {"n0": forty, "i0": forty}, "found": [check.Vector([], rows)], "until": math.inf}
    formula = part
    for _ in range(100):
        formula = ["+", part, formula]
    monkeypatch.setattr(check, "TERMS", 8)
    made, evaluate = [], check.numbers
    monkeypatch.setattr(check, "numbers", lambda *args: made.append(evaluate(*args)) or made[-1])
    with pytest.raises(ValueError, match="formulas of more than 80 numbers"):
        check.numbers(d, formula)
    assert sum(len(one) == 40 for one in made) <= 2


def test_entries_of_all_files_are_counted(copies, capsys, monkeypatch):
    """Files are not read any more once they are too many."""
    _, arrays = read(copies / "PNormPush")
    first, second, third, *_ = (values.size for values in arrays.values())
    opened, names = check.opened, []
    monkeypatch.setattr(check, "opened", lambda path, _: names.append(path.name) or opened(path, 4096))
    monkeypatch.setattr(check, "ENTRIES", (first + second + third) // 3 - 1)
    assert "files of more than" in said(copies / "PNormPush", capsys)
    assert names == ["certificate.json", *list(arrays)[:3]]


def test_points_are_counted(copies, capsys, monkeypatch):
    content, arrays = read(copies / "RmaxPush")
    arrays["witness_points.npy"], arrays["witness_weights.npy"] = np.zeros((60, 2)), np.ones(60)
    write(copies / "RmaxPush", content, arrays)
    monkeypatch.setattr(check, "TERMS", 59)
    assert "more than 59 rows, or points" in said(copies / "RmaxPush", capsys)


def test_thresholds_have_an_end():
    """Newton's method takes as many steps as it may: a power of so many is nearly a step function."""
    side = [(arb(1), check.Convex(arb(1)))]
    arguments = side, check.function(["power", 1e4]), arb(1), arb(1e-300)
    assert check.threshold(*arguments).value.is_finite()
    with pytest.raises(ValueError, match="it takes more than"):
        check.threshold(*arguments, time.monotonic())


# --- what is confirmed is true ----------------------------------------------------------------------------------------


NUMBERS = [-1.0, 0.0, 0.05, 0.3, 1.0, 1, 2.0, 7.0, 1e-310, 1e-305, 1e305, 1e308]
VALUES = [*NUMBERS, True, None, "", "hinge", "inside", "entry", "uniform", [], {}, "positive", ["label", 0],
          ["weight", 0], ["sums", 1.0, 0], ["-", 0.5, 1.0], ["log", 0.5], ["/", 1.0, ["sums", 1.0, 0]]]  # fmt: skip
FORMS = [["exp"], ["softplus"], ["square"], ["hinge"], ["squared_hinge"], ["huber", 0.5], ["smooth_hinge", 0.7],
         ["logistic", 2.0], ["power", 1.5], ["power", 0.5], ["scaled", 2.0, ["hinge"]], ["scaled", -1.0, ["hinge"]],
         ["scaled", 0.5, ["huber", 1.0]], ["log"], []]  # fmt: skip
POOLS = {
    "atom": sorted(check.ATOMS),
    "group": ["positive", "negative", "rows"],
    "function": FORMS,
    "of": [[0], [1], [0, 1], [1, 0], [0, 0], [2], [2, 3], [1, 2], []],
    "factors": [
        [a, b][:count] for a in (1.0, -1.0, ["/", 1.0, 3.0]) for b in (1.0, -1.0, 0.0) for count in (1, 2)
    ],
}


@st.composite
def spoilt(draw):
    """A problem, and changes of its fields, of entries of its files, and of their lengths."""
    name = draw(st.sampled_from(EVERY))
    return name, draw(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99), st.integers(0, 999)), max_size=3)
    )


def spoil(content, arrays, changes):
    for how, what, value in changes:
        keys = [key for key in content if key not in ("problem", "claim", "files", "risk")] or ["l2"]
        key, name = keys[what % len(keys)], list(arrays)[what % len(arrays)]
        if how == 0:
            content[key] = VALUES[value % len(VALUES)]
        elif how == 4 and "risk" in content:
            one = content["risk"][what % len(content["risk"])]
            key = sorted(one)[value % len(one)]
            pool = POOLS.get(key, VALUES)
            one[key] = pool[(value // 7) % len(pool)]
        elif how == 1 and arrays[name].size:
            arrays[name] = arrays[name].copy()
            number = NUMBERS[value % len(NUMBERS)]
            number = number if arrays[name].dtype.kind == "f" else int(np.clip(number, -9, 9))
            arrays[name].flat[value % arrays[name].size] = number
        elif how == 2:
            arrays[name] = arrays[name][: value % (len(arrays[name]) + 1)]
        elif how == 3 and value % 2:
            content.pop(key, None)
        elif how == 3:
            content[["l3", "P", "theta", "ball"][value % 4]] = VALUES[what % len(VALUES)]


def confirmed(folder, content, arrays, capsys):
    """Whether the program confirms any claim at all: a forger states the value and the gap that it finds."""
    write(folder, content, arrays)
    capsys.readouterr()
    if check.main(folder) == 0:
        return True
    found = re.search(r"the gap is at most (\S+), the value is (\S+)'", capsys.readouterr().out)
    if not found or not all(math.isfinite(float(number)) for number in found.groups()):
        return False
    content["claim"] |= {"gap": math.nextafter(float(found[1]), math.inf), "value": float(found[2])}
    write(folder, content, arrays)
    return check.main(folder) == 0


def lowest(stated, w):
    """The lowest value that a search without derivatives finds, from a point, from 0 and from far away."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # overflows on the way
        found = [
            optimize.minimize(
                lambda v: value_at(stated, v),
                start,
                method="Nelder-Mead",
                options={"xatol": 1e-9, "fatol": 1e-13},
            )
            for start in (w, np.zeros_like(w), 10.0 * w)
        ]
    return min(one.fun for one in found)


def value_at(stated, w):
    """The value at w, or where its line from 0 leaves the ball."""
    if "ball" in stated.content:
        norm = np.linalg.norm(w, 1 if stated.content["ball"] == "L1" else 2)
        w = w * min(1.0, stated.content["radius"] / max(norm, 1e-300))
    try:
        return stated.objective(w)
    except OverflowError:
        return math.inf


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
@given(spoilt())
def test_what_is_confirmed_is_true(honest, tmp_path_factory, capsys, case):
    """The value is that of loops over the atoms, and no point is found whose value is below the bound."""
    name, changes = case
    folder = tmp_path_factory.mktemp("spoilt") / name
    shutil.copytree(honest / name, folder)
    content, arrays = read(folder)
    spoil(content, arrays, changes)
    accepted = confirmed(folder, content, arrays, capsys)
    shutil.rmtree(folder)
    if accepted and name in check.RANKS:
        problem = rebuilt(content, arrays)
        assert problem.distance(arrays["x.npy"], problem.reference()) <= content["claim"]["gap"] + 1e-12
    elif accepted:
        stated = Plain(content, arrays)
        value = stated.objective(arrays["w.npy"])
        assert value == pytest.approx(content["claim"]["value"], rel=1e-12, abs=1e-12)
        best = lowest(stated, np.asarray(arrays["w.npy"], dtype=float))
        assert best >= value - content["claim"]["gap"] - 1e-9 * (1.0 + abs(value))


def rebuilt(content, arrays):
    """The ranks that a folder states, by the constructors of the package."""
    data = {name.removesuffix(".npy"): values for name, values in arrays.items()}
    stated = {key: value for key, value in content.items() if key not in ("problem", "claim", "files")}
    if content["problem"] == "PageRank":
        stated["personalization"] = data["teleport"]
    graph = cr.Graph(data["offsets"], data["sources"], data["weights"])
    return getattr(cr.problems, content["problem"])(graph, **stated)


@st.composite
def risks(draw):
    """Atoms at random: one for each row, then one for each query, and a sum of some; convex or not."""
    atoms = [{"atom": "scores", "of": [], "group": group} for group in ("positive", "negative", "rows")]
    by_row = {k: k for k in range(3)}  # atoms with an entry for each row, and the leaf that they are over
    signs = st.sampled_from([1.0, 1.0, -1.0, 0.5, 3.0])
    functions = st.sampled_from([form for form in FORMS if form and form[0] in check.FUNCTIONS])

    def made(kind, of, **fields):
        atoms.append({"atom": kind, "of": of, **fields})
        return len(atoms) - 1

    def entries():
        return draw(st.sampled_from(sorted(by_row)))

    for _ in range(draw(st.integers(1, 4))):
        kind, part = draw(st.sampled_from(["sum", "function", "pairs", "levels"])), entries()
        if kind == "sum":
            others = [k for k in by_row if by_row[k] == by_row[part]]
            of = [part, *draw(st.lists(st.sampled_from(others), max_size=1))]
            new = made("sum", of, factors=[draw(signs) for _ in of], constant=draw(signs))
        elif kind == "function":
            new = made("function", [part], function=draw(functions))
        elif kind == "levels":
            new = made("cumulative_log_sum_exp", [part], weights=1.0, grades=["label", by_row[part]])
        else:
            upper = entries()
            grades = (
                ["label", by_row[part]] if by_row[upper] == by_row[part] and draw(st.booleans()) else None
            )
            fields = {"function": draw(functions), "weights": ["weight", by_row[upper]]}
            of, part = [upper, part], part
            if grades is None and draw(st.booleans()):
                new = made("pair_means", of, **fields, asked=draw(st.sampled_from([1.0, 2.5])))
            else:
                new = made("pair_sums", of, **fields, grades=grades)
        by_row[new] = by_row[part]
    levels = []
    for _ in range(draw(st.integers(1, 2))):
        kind = draw(
            st.sampled_from(["total", "mean", "log_sum_exp", "maximum", "mean_of_highest", "threshold"])
        )
        part = entries()
        weights = {} if kind == "maximum" else {"weights": ["weight", by_row[part]]}
        extra = {
            "mean_of_highest": {"asked": 1.5},
            "threshold": {"function": ["softplus"], "scale": 1.0, "target": 0.4},
        }
        levels.append(made(kind, [part], **weights, **extra.get(kind, {})))
    of = levels + [entries()] * draw(st.booleans())
    rest = made("sum", of, factors=[draw(signs) for _ in of], constant=0.0)
    if len(of) > len(levels):  # a level beside rows
        rest = made("mean", [made("function", [rest], function=draw(functions))], weights=1.0)
    made("sum", [rest], factors=[draw(signs)], constant=0.0)
    return atoms


SCORES = st.lists(st.floats(-3, 3), min_size=8, max_size=8)


@settings(deadline=None, max_examples=500)
@given(risks(), SCORES, SCORES)
def test_a_risk_that_is_not_refused_lies_above_its_tangents(atoms, here, there):
    """Whatever the atoms are; its value is that of loops, and it is never below what is said to be the least."""
    rows = {
        "y": np.array([1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]),
        "weight": np.array([1.0, 0.5, 2.0, 1.0, 0.0, 1.0, 3.0, 1.5]),
        "query": np.array([0, 0, 0, 0, 2, 2, 2, 2]),
    }
    d = rows | {"risk": atoms, "given": {}, "until": math.inf}
    d["groups"] = cache(lambda name: check.group_of(d, name))
    with at_precision(128):
        points = [[check.Convex(arb(x)) for x in scores] for scores in (here, there)]
        try:
            found = check.risk(d, points[0])
        except ValueError:  # it is not seen to be convex
            return
        if not found.value.is_finite():
            return
        bound = found.value - found.slack
        slopes = found.slopes()
        for one, other in zip(*points, strict=True):
            bound += slopes.get(one, arb(0)) * (other.value - one.value)
        value = check.risk(d, points[1]).value
        assert not bound > value
        assert found.least is None or not value < found.least
    with np.errstate(all="ignore"):
        plain = Plain({"risk": atoms}, rows).risk(there)
    assert float(value) == pytest.approx(plain, rel=1e-9, abs=1e-9) or not math.isfinite(plain)


@pytest.mark.parametrize("name", ROWS)
def test_the_search_finds_the_minimum(name, honest):
    """From elsewhere: so that a bound above the minimum is noticed in the test above."""
    content, arrays = read(honest / name)
    stated = Plain(content, arrays)
    value = stated.objective(arrays["w.npy"])
    assert value == pytest.approx(content["claim"]["value"], rel=1e-12)
    best = lowest(stated, arrays["w.npy"] + 0.1)
    assert value - content["claim"]["gap"] - 1e-9 <= best < value + 1e-6


@pytest.mark.parametrize("x", [-2.5, -1.0, -0.3, 0.0, 0.4, 1.7])
@pytest.mark.parametrize("form", [one for one in FORMS if (one and one[0] in check.FUNCTIONS and -1.0 not in one
                                  and one[1:] != [0.5]) or one[:1] == ["huber"]], ids=str)  # fmt: skip
def test_functions_are_those_of_their_names(form, x):
    """Values, and slopes of lines that are nowhere above."""
    line, rises = check.function(form)
    with at_precision(128):
        value, slope, slack = line(arb(x))
        assert float(value) == pytest.approx(value_of(form, x), rel=1e-12, abs=1e-15)
        assert rises == (form[-1] != ["huber", 1.0] and form[0] not in ("square", "huber"))
        for other in np.linspace(-4.0, 4.0, 33):
            assert not value - slack + slope * (other - arb(x)) > line(arb(other))[0]


# --- convexity is seen from the expression ----------------------------------------------------------------------------


def test_a_negative_factor_of_a_convex_part_is_refused():
    score, other = check.Convex(arb(1)), check.Convex(arb(2))
    risk = check.log_sum_exp([(arb(1), score), (arb(1), other)])
    assert check.add((arb(-1), score), (arb(2), other)).affine
    with pytest.raises(ValueError, match="negative factor"):
        check.add((arb(-1), risk), (arb(2), score))
    with pytest.raises(ValueError, match="negative factor"):
        check.add((arb(float("nan")), risk))
    with pytest.raises(ValueError, match="decreases"):
        check.through((lambda x: (-x, arb(-1), arb(0)), True), risk)
    with pytest.raises(ValueError, match="decreases"):  # above 0 it does not, which is not asked
        check.through(check.function(["square"]), risk)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.floats(-3, 3), min_size=6, max_size=6),
    st.lists(st.floats(-3, 3), min_size=6, max_size=6),
    st.integers(0, 5),
    st.sampled_from([0.0, 1e-20, -1e-18, 1e-3]),
)
def test_tangents_are_below_the_risk(there, here, kind, near):  # fmt: skip
    """At scores that nearly tie, too: the slack of a maximum is what the mean of the tied is below it."""
    here = [arb(here[0]), arb(here[0]) + near, *map(arb, here[2:])]

    def risk(values):
        t = [check.Convex(arb(value)) for value in values]
        side = [(arb(1 + r), t[r]) for r in range(4)]
        level = [
            lambda: check.highest(side, arb(4.5)),
            lambda: check.log_sum_exp([(a, check.add((arb(-2), one))) for a, one in side]),
            lambda: check.threshold(
                [(a / 10, one) for a, one in side], check.function(["softplus"]), arb(2), arb(0.3)
            ),
            lambda: check.threshold(
                [(a / 10, one) for a, one in side], check.function(["hinge"]), arb(1), arb(0.5)
            ),
            lambda: check.add((arb(2), t[0]), (arb(-3), t[1])),
            lambda: check.add(
                (arb(2), check.highest([(1.0, one) for one in t[:3]], arb(1))), (arb(-3), t[4])
            ),
        ][kind]()
        losses = [check.function([name]) for name in ("exp", "softplus", "hinge", "squared_hinge")]
        outer = [check.through(one, check.add((arb(1), level), (arb(-1), t[5]))) for one in losses]
        return t, check.add(*((arb(1 + place), one) for place, one in enumerate(outer)))

    nodes, found = risk(here)
    slopes = found.slopes()
    bound = found.value - found.slack
    for node, value in zip(nodes, there, strict=True):
        bound += slopes.get(node, arb(0)) * (arb(value) - node.value)
    assert not bound > risk(there)[1].value


@pytest.mark.parametrize("name", ROWS)
def test_a_number_is_a_bound_only_of_a_risk_that_is_never_below(name, honest):
    """Where the package knows one, and at points far away."""
    data = check.load(honest / name, honest)
    check.gap_of(data, math.inf)
    scores = [check.Convex(arb(score)) for score in (data["X"] @ data["w"]).tolist()]
    least = check.risk(data, scores).least
    never = getattr(cr.problems, name).random(0)._risk_infimum >= 0.0
    assert (least is not None) == never
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 30.0, 1e3):
        there = [check.Convex(arb(x)) for x in scale * rng.normal(size=len(scores))]
        assert least is None or check.risk(data, there).value >= least


def test_the_mean_of_the_highest_is_no_more_than_their_mean():
    """Entries whose floats are equal differ beyond them: what is said of the highest is lowered by that."""
    with at_precision(128):
        lower, upper = check.Convex(arb(1)), check.Convex(arb(1) + arb(2) ** -60)
        found = check.highest([(arb(1), one) for one in (lower, upper, check.Convex(arb(0)))], arb(1))
        assert found.value == upper.value
        assert found.value - found.slack == (lower.value + upper.value) / 2


@pytest.mark.parametrize("number", [["log", -1.0], ["log", ["exp", ["exp", 1e300]]]])
def test_a_power_of_what_is_no_number_is_no_number(number, copies, capsys):
    """Of what is not defined, and of what leaves the range of balls; its value and slope are not 0."""
    name = "PNormPush"
    content, arrays = read(copies / name)
    shifted = {"atom": "sum", "of": [0], "factors": [1.0], "constant": number}
    content["risk"] = [
        content["risk"][0],
        shifted,
        {"atom": "function", "of": [1], "function": ["power", 2.0]},
    ]
    of_all("total", weights=1.0)(content, arrays)
    content["claim"]["value"], arrays["w.npy"] = 0.0, np.zeros(2)
    write(copies / name, content, arrays)
    assert "nothing bounds the minimiser" in said(copies / name, capsys)
    content["risk"][1]["constant"] = 0.0  # which is a number
    write(copies / name, content, arrays)
    said(copies / name, capsys, 0)


def test_what_parts_lose_below_their_value_the_whole_loses_too():
    kinds = ((3, 0.5), (2, 0.25), (0, 8))
    first, second, low = (check.Convex(arb(height), arb(slack), affine=False) for height, slack in kinds)
    assert check.highest([(arb(1), one) for one in (low, second, first)], arb(2)).slack == arb(0.75) / 2
    weighed = check.log_sum_exp([(arb(1), first), (arb(1), first)])
    assert abs(weighed.slack - first.slack) < 1e-12
    assert check.add((arb(2), first), (arb(3), second), (arb(-1), check.Convex(arb(1)))).slack == arb(1.75)
    assert check.through((lambda x: (x * x, 2 * x, arb(0.125)), True), first).slack == arb(0.125) + 6 * arb(
        0.5
    )
    with at_precision(128):  # a float says that this is where the hinge begins
        value, slope, slack = check.function(["hinge"])[0](arb(2) ** -60 - 1)
        assert (value, slope, slack) == (arb(2) ** -60, arb(0), arb(2) ** -60)


def of_scores(rows: int, kinds: list[dict[str, Any]], **stated: Any) -> dict[str, Any]:
    """What is stated of a risk that is one number of all scores, for the program to judge."""
    rng = np.random.default_rng(5)
    atoms = [{"atom": "scores", "of": [], "group": "rows"}]
    atoms += [{"of": [k], **kind} for k, kind in enumerate(kinds)]
    data = {"X": rng.normal(size=(rows, 4)), "y": np.arange(rows) % 2.0, "query": np.zeros(rows, dtype=int)}
    return data | {"weight": np.ones(rows), "risk": atoms, "given": {}, "l1": 0.0, "l2": 0.0} | stated


@pytest.mark.parametrize(("ball", "radius"), [(None, None), *product(("L1", "L2"), (0.05, 0.3, 5.0))])
@pytest.mark.parametrize(
    ("l2", "l1"), [(0.5, 0.0), (0.5, 0.1), (0.0, 0.0), (0.0, 0.1), (0.0, 2.0), (3.0, 2.0)]
)
@pytest.mark.parametrize("scale", [0.0, 0.7])
def test_the_bound_of_a_linear_risk_is_its_minimum(ball, radius, l2, l1, scale):
    """From any point: what is missing to it is the gap, whichever penalty there is."""
    constraint = {} if ball is None else {"ball": ball, "radius": radius}
    d = of_scores(6, [{"atom": "mean", "weights": 1.0}], l2=l2, l1=l1, **constraint)
    slope = d["X"].mean(axis=0)
    d["w"] = -scale * (radius or 1.0) * slope / np.abs(slope).sum()
    v = cp.Variable(4)
    inside = [] if ball is None else [cp.norm(v, int(ball[1])) <= radius]
    penalty = 0.5 * l2 * cp.sum_squares(v) + l1 * cp.norm1(v)
    model = cp.Problem(cp.Minimize(slope @ v + penalty), inside)
    if ball is None and not l2 and l1 < np.abs(slope).max():
        with pytest.raises(ValueError, match="nothing bounds the minimiser"):
            check.gap_of(d, math.inf)
        return
    model.solve(cp.CLARABEL)
    value, gap = check.gap_of(d, math.inf)
    assert float(value - gap) == pytest.approx(model.value, abs=1e-7)


@pytest.mark.parametrize("scale", [0.0, 3.0])
def test_without_a_penalty_the_gap_is_what_is_above_the_least_value(scale):
    kinds = [{"atom": "function", "function": ["exp"]}, {"atom": "mean", "weights": 1.0}]
    d = of_scores(6, kinds, w=np.full(4, scale))
    value, gap = check.gap_of(d, math.inf)
    assert float(gap) == float(value)
    assert float(value) == pytest.approx(np.exp(d["X"] @ d["w"]).mean(), rel=1e-12)


def test_what_a_tangent_loses_is_part_of_the_gap(copies, monkeypatch):
    data = check.load(copies / "PNormPush", copies)
    gap, risk = check.gap_of(data, math.inf)[1], check.risk

    def lower(d, t):
        found = risk(d, t)
        return check.Convex(found.value, found.slack + arb(0.25), ((arb(1), found),), affine=False)

    monkeypatch.setattr(check, "risk", lower)
    assert abs(check.gap_of(data, math.inf)[1] - gap - 0.25) < 1e-12
