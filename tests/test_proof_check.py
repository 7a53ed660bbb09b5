"""The checking program does not trust the folder: forged ones are refused, whatever their hashes say."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import warnings
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import convexrank as cr
from convexrank.data import Spectrum

pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")

from flint import arb  # needs flint

from convexrank.proof import check  # needs flint
from convexrank.proof.balls import at_precision  # needs flint

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


@pytest.mark.parametrize("name", EVERY)
def test_what_is_honest_is_confirmed(name, copies, capsys):
    assert said(copies / name, capsys, 0).startswith(f"proved: {name}, ")
    write(copies / name, *read(copies / name))
    assert said(copies / name, capsys, 0).startswith(f"proved: {name}, ")


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


def steps(ends, heights):
    return field(spectrum={"type": "Spectrum", "ends": ends, "heights": heights, "counted": False})


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


def unpenalised_square(content, arrays):
    """A concave price, which falls without bound far from the point."""
    content["price"] = {"type": "Power", "q": 0.3}


def more(content, arrays):
    content["files"]["rows.npy"] = "0" * 64


def fewer(content, arrays):
    del content["files"]["query.npy"], arrays["query.npy"]


def half_of_the_evidence(content, arrays):
    arrays["witness_points.npy"] = arrays["w.npy"][None, :]
    content["files"]["witness_points.npy"] = ""


FORGED = {
    "weights of less than one row": (
        "ConvexRisk", file("weight", lambda a: np.full_like(a, 0.05)), "do not sum to more than 1"
    ),
    "a misspelt base": ("RmaxPush", field(loss={"type": "Logistic", "bas": 0.5}), "have the fields type, base"),
    "a base and another field": (
        "RmaxPush", field(loss={"type": "Logistic", "base": 2.0, "scale": 2.0}), "have the fields type, base"
    ),
    "a spectrum that rises": (
        "SpectralPush", steps([0.5, 1.0], [0.5, 1.5]), "heights is out of range"
    ),
    "a spectrum above 1": ("SpectralPush", steps([0.5], [3.0]), "does not add up to 1"),
    "steps without a height": ("SpectralPush", steps([0.5, 1.0], [2.0]), "the ends do not fit"),
    "ends that fall": ("SpectralPush", steps([1.0, 0.5], [1.1, 0.2]), "ends is out of range"),
    "an end that is there twice": ("SpectralPush", steps([1.0, 1.0], [1.0, 0.5]), "ends is out of range"),
    "a share above 1": ("SpectralPush", steps([2.0], [0.5]), "the ends do not fit"),
    "no steps": ("SpectralPush", steps([], []), "ends is out of range"),
    "more steps than a class takes": (
        "SpectralPush", steps([k / 201 for k in range(1, 202)], [2 - k / 201 for k in range(201)]), "out of range"
    ),
    "a spectrum by its name": ("SpectralPush", field(spectrum="uniform"), "no function has this type"),
    "a rate above 1": ("PartialAUC", field(max_fpr=1.5), "max_fpr is out of range"),
    "no positive that counts": ("PartialAUC", field(min_tpr=1.0), "min_tpr is out of range"),
    "a negative rate": ("PartialAUC", field(min_tpr=-0.5), "min_tpr is out of range"),
    "a rate of yes": ("PartialAUC", field(min_tpr=True), "min_tpr is out of range"),
    "another rate": ("PartialAUC", field(min_tpr=0.2), "the value is"),
    "a base below 1": ("RmaxPush", field(loss={"type": "Logistic", "base": 0.5}), "base is out of range"),
    "a base of 1": ("RmaxPush", field(loss={"type": "Logistic", "base": 1.0}), "base is out of range"),
    "a hinge with a parameter": ("Push", field(loss={"type": "Hinge", "base": 2.0}), "have the fields type"),
    "a loss without a type": ("RmaxPush", field(loss={"base": 2.0}), "no function has this type"),
    "a loss by its name": ("RmaxPush", field(loss="Logistic"), "no function has this type"),
    "a list for a loss": ("RmaxPush", field(loss=["Logistic"]), "no function has this type"),
    "a price as a loss": ("RmaxPush", field(loss={"type": "Identity"}), "no function has this type"),
    "a misspelt power": ("Push", unpenalised_square, "have the fields type, p"),
    "a concave power": ("Push", field(price={"type": "Power", "p": 0.3}), "the risk is not convex"),
    "a concave logarithm": ("Push", field(price={"type": "LogOnePlus"}), "the risk is not convex"),
    "a falling price": ("Push", field(price={"type": "ExpPrice", "scale": -1.0}), "scale is out of range"),
    "a loss that RankSVM has not": ("RankSVM", field(loss={"type": "Exponential"}), "no function has this type"),
    "a word for yes": ("RankSVM", field(normalize="no"), "normalize is out of range"),
    "a number for yes": ("RankSVM", field(normalize=1), "normalize is out of range"),
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
    "yes for p": ("PNormPush", field(p=True), "p is out of range"),
    "a word for p": ("PNormPush", field(p="3.0"), "p is out of range"),
    "nothing for p": ("PNormPush", field(p=None), "p is out of range"),
    "p = 0": ("PNormPush", field(p=0.0), "p is out of range"),
    "a tiny p": ("PNormPush", field(p=1e-310), "p is out of range"),
    "p = infinity": ("PNormPush", field(p=float("inf")), "p is out of range"),
    "p without end": ("PNormPush", field(p=10**400), "p is out of range"),
    "a misspelt p": ("PNormPush", lambda c, a: c.update({"P": c.pop("p")}), "have the fields"),
    "no p": ("PNormPush", without("p"), "have the fields"),
    "no l2": ("PNormPush", without("l2"), "have the fields"),
    "NaN for l2": ("PNormPush", field(l2=float("nan")), "l2 is out of range"),
    "a negative l2": ("PNormPush", field(l2=-0.1), "l2 is out of range"),
    "a negative l1": ("Push", field(l1=-0.1), "l1 is out of range"),
    "a negative bottom": ("TopBottomPush", field(bottom_weight=-0.5), "bottom_weight is out of range"),
    "a ball that pushes have not": ("PNormPush", field(ball="L2", radius=1.0), "have the fields"),
    "a ball without a radius": ("ConvexRisk", without("radius"), "have the fields"),
    "a radius without a ball": ("ConvexRisk", without("ball"), "have the fields"),
    "an unknown ball": ("ConvexRisk", field(ball="L3"), "ball is out of range"),
    "an empty ball": ("ConvexRisk", field(ball=""), "ball is out of range"),
    "a negative radius": ("ConvexRisk", field(radius=-0.5), "radius is out of range"),
    "an unknown target": ("ListNet", field(target="softmin"), "target is out of range"),
    "a negative gain": ("ListNet", lambda c, a: a.update({"y.npy": a["y.npy"] - 3.0}), "grade is out of range"),
    "a gain beyond floats": ("ListNet", file("y", entry(0, 1000.0)), "grade is out of range"),
    "a claim with more": ("PNormPush", claim(sure=True), "the claim does not have the fields"),
    "no claim": ("PNormPush", field(claim=None), "claim is out of range"),
    "a gap of yes": ("PNormPush", claim(gap=True), "gap is out of range"),
    "a negative row": ("PNormPush", file("weight", entry(0, -1.0)), "weights are out of range"),
    "rows without weight": ("PNormPush", file("weight", np.zeros_like), "weights are out of range"),
    "weights of rows that have none": ("ListNet", file("weight", entry(0, 2.0)), "weight and query do not fit"),
    "queries of a push": ("PNormPush", file("query", entry(0, 1)), "weight and query do not fit"),
    "pairs left out by queries": ("ConvexRisk", file("query", entry(0, 1)), "weight and query do not fit"),
    "rows of no query": ("RankSVM", file("query", entry(0, -1)), "no numbers of queries"),
    "half a query": ("RankSVM", file("query", lambda a: a + 0.5), "no numbers of queries"),
    "a third class": ("PNormPush", file("y", entry(0, 2.0)), "the classes 0 and 1"),
    "one class": ("PNormPush", file("y", np.ones_like), "the classes 0 and 1"),
    "one class that counts": (
        "PNormPush", lambda c, a: a.update({"weight.npy": a["y.npy"].copy()}), "the classes 0 and 1"
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
        '{"problem": "PNormPush", "problem": "PNormPush"}',
    ],
)
def test_text_that_is_no_certificate_is_refused(text, copies, capsys):
    (copies / "PNormPush" / "certificate.json").write_text(text)
    assert said(copies / "PNormPush", capsys).startswith("refused: ")


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "true", "1" * 400, '2.0, "base": 2.0'])
def test_numbers_of_a_loss_are_numbers_and_are_there_once(number, copies, capsys):
    path = copies / "RmaxPush" / "certificate.json"
    text = path.read_text().replace('"base": 2.0', f'"base": {number}')
    assert text != path.read_text()
    path.write_text(text)
    assert said(path.parent, capsys).startswith(
        ("refused: ValueError('base is out", "refused: ValueError('a field is")
    )


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


def test_pairs_of_classes_are_counted(monkeypatch, copies, capsys):
    """Pairs of positives and negatives count where they are taken one by one."""
    monkeypatch.setattr(check, "TERMS", 12 + 6 * 6)  # rows and pairs
    assert said(copies / "Push", capsys, 0)
    monkeypatch.setattr(check, "TERMS", 47)
    assert "more than 47 terms" in said(copies / "Push", capsys)
    assert said(copies / "PNormPush", capsys, 0)
    monkeypatch.setattr(check, "TERMS", 2 * 12)  # rows, on each of two steps
    assert said(copies / "SpectralPush", capsys, 0)
    monkeypatch.setattr(check, "TERMS", 2 * 12 - 1)
    assert "more than 23 terms" in said(copies / "SpectralPush", capsys)
    monkeypatch.setattr(check, "TERMS", 9)
    assert "nodes and edges" in said(copies / "PageRank", capsys)
    assert "more than 9 rows" in said(copies / "PNormPush", capsys)


# --- the ranges are those of the constructors -------------------------------------------------------------------------


def of_type(content):
    """A loss or a price from its fields, by its constructor."""
    module = cr.losses if hasattr(cr.losses, content["type"]) else cr.prices
    return getattr(module, content["type"])(**{key: value for key, value in content.items() if key != "type"})


def rebuilt(content, arrays):
    """The problem that a folder states, by the constructors of the package; an error where they refuse it."""
    data = {name.removesuffix(".npy"): values for name, values in arrays.items()}
    stated = {key: value for key, value in content.items() if key not in ("problem", "claim", "files")}
    stated |= {key: of_type(stated[key]) for key in ("loss", "price") if key in stated}
    if isinstance(steps := stated.get("spectrum"), dict):
        stated["spectrum"] = Spectrum(tuple(steps["ends"]), tuple(steps["heights"]), steps["counted"])
    kind = getattr(cr.problems, content["problem"])
    if content["problem"] in check.RANKS:
        graph = cr.Graph(data["offsets"], data["sources"], data["weights"])
        if content["problem"] == "PageRank":
            stated["personalization"] = data["teleport"]
        return kind(graph, **stated)
    if "ball" in stated:
        stated[f"{str(stated.pop('ball')).lower()}_ball"] = stated.pop("radius")
    if content["problem"] in check.QUERIES:
        return kind(data["X"], data["y"], data["query"], **stated)
    if content["problem"] == "ConvexRisk":
        stated["cost"] = stated.pop("loss")
    return kind(data["X"], data["y"], sample_weight=data["weight"], **stated)


NUMBERS = [-1.0, 0.0, 0.05, 0.3, 1.0, 1, 2.0, 7.0, 1e-310, 1e-305, 1e305, 1e308]
VALUES = [
    *NUMBERS,
    True,
    False,
    None,
    "",
    "hinge",
    "inside",
    "entry",
    "outside",
    "uniform",
    "drop",
    "linear",
    [],
    {},
]
FUNCTIONS = [
    {"type": name, **parameters}
    for name in (*check.LOSSES, *check.PRICES, "Custom", "__class__")
    for parameters in ({}, {"base": 2.0}, {"base": 0.5}, {"p": 2.0}, {"p": 0.5}, {"p": -1.0}, {"scale": 0.1},
                       {"scale": -0.1}, {"base": 2.0, "p": 2.0})
]  # fmt: skip


SPECTRA = [
    {"type": "Spectrum", "ends": ends, "heights": heights, "counted": counted}
    for ends in ([1.0], [0.5, 1.0], [1.0, 0.5], [0.5, 2.0], [0.5, 0.5], [-0.5, 1.0], [])
    for heights in ([1.0], [1.5, 0.5], [0.5, 1.5], [0.75, 0.25], [1.5, 0.0], [2.5, -0.5], [])
    for counted in (False, True)
]  # fmt: skip
POOLS = {"loss": FUNCTIONS, "price": FUNCTIONS, "spectrum": SPECTRA}


@st.composite
def spoilt(draw):
    """A problem, and changes of its fields, of entries of its files, and of their lengths."""
    name = draw(st.sampled_from(EVERY))
    return name, draw(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 99), st.integers(0, 999)), max_size=3)
    )


def spoil(content, arrays, changes):
    for how, what, value in changes:
        keys = [key for key in content if key not in ("problem", "claim", "files")] or ["l2"]
        key, name = keys[what % len(keys)], list(arrays)[what % len(arrays)]
        if how == 0:
            pool = POOLS.get(key, VALUES)
            content[key] = pool[value % len(pool)]
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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(spoilt())
def test_what_the_class_refuses_the_program_refuses(honest, tmp_path_factory, capsys, case):
    """And what it confirms is true: the optimum of the problem that the class makes is not below the bound."""
    name, changes = case
    folder = tmp_path_factory.mktemp("spoilt") / name
    shutil.copytree(honest / name, folder)
    content, arrays = read(folder)
    spoil(content, arrays, changes)
    accepted = confirmed(folder, content, arrays, capsys)
    shutil.rmtree(folder)
    try:
        problem = rebuilt(content, arrays)
    except (TypeError, ValueError, KeyError, UserWarning):
        assert not accepted
        return
    if accepted and name in check.RANKS:
        assert problem.distance(arrays["x.npy"], problem.reference()) <= content["claim"]["gap"] + 1e-12
    elif accepted:
        value = problem.objective(arrays["w.npy"])
        assert value == pytest.approx(content["claim"]["value"], rel=1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cr.ConvergenceWarning)
            best = problem.solve(tol=1e-10).value
        assert best >= value - content["claim"]["gap"] - 1e-12 * (1.0 + abs(value))


@pytest.mark.parametrize("name", [*check.LOSSES, *check.PRICES])
def test_functions_have_the_fields_of_their_class(name):
    table = check.LOSSES if name in check.LOSSES else check.PRICES
    kind = getattr(cr.losses if name in check.LOSSES else cr.prices, name)
    assert {one.name for one in fields(kind)} == set(table[name][0])


@pytest.mark.parametrize("parameter", [0.7, 1.0, 2.5])
@pytest.mark.parametrize("name", [*check.LOSSES, *check.PRICES])
def test_functions_are_those_of_their_class(name, parameter):
    """Values and slopes at some points; a loss is taken of the negative score."""
    of_loss = name in check.LOSSES
    table = check.LOSSES if of_loss else check.PRICES
    parameters = {key: parameter + (key == "base") for key in table[name][0]}
    known = getattr(cr.losses if of_loss else cr.prices, name)(**parameters)

    def at(x):
        return float(known(-x) if of_loss else known.g(x))

    with at_precision(128):
        for x in (0.3, 0.9, 1.7, *((-0.4, -1.3) if of_loss else ())):
            value, slope, slack = table[name][1](arb(x), **parameters)
            assert float(value) == pytest.approx(at(x), rel=1e-12)
            assert float(slope) == pytest.approx((at(x + 1e-6) - at(x - 1e-6)) / 2e-6, rel=1e-6)
            assert slack == 0


@pytest.mark.parametrize("name", check.PROBLEMS)
def test_problems_have_the_parameters_of_their_class(name):
    """But for those of data, which are files, and those that say how to compute or what to allow."""
    kind = getattr(cr.problems, name)
    files = {
        "X",
        "y",
        "sample_weight",
        "qid",
        "dtype",
        "graph",
        "personalization",
        "theta",
        "allow_expansive",
    }
    asked = {"loss" if one.name == "cost" else one.name for one in fields(kind)} - files
    assert asked - {"l1_ball", "l2_ball"} == set(check.PROBLEMS[name])


# --- convexity is seen from the expression ----------------------------------------------------------------------------


def test_a_negative_factor_of_a_convex_part_is_refused():
    score, other = check.Convex(arb(1)), check.Convex(arb(2))
    risk = check.log_sum_exp([(0, 1.0), (1, 1.0)], [score, other])
    assert check.add((arb(-1), score), (arb(2), other)).affine
    with pytest.raises(ValueError, match="negative factor"):
        check.add((arb(-1), risk), (arb(2), score))
    with pytest.raises(ValueError, match="negative factor"):
        check.add((arb(float("nan")), risk))
    with pytest.raises(ValueError, match="decreases"):
        check.through(lambda x: (-x, arb(-1), arb(0)), risk)


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.floats(-3, 3), min_size=6, max_size=6),
    st.lists(st.floats(-3, 3), min_size=6, max_size=6),
    st.integers(0, 4),
    st.sampled_from([0.0, 1e-20, -1e-18, 1e-3]),
)
def test_tangents_are_below_the_risk(there, here, kind, near):  # fmt: skip
    """At scores that nearly tie, too: the slack of a maximum is what the mean of the tied is below it."""
    here = [arb(here[0]), arb(here[0]) + near, *map(arb, here[2:])]

    def risk(values):
        t = [check.Convex(arb(value)) for value in values]
        rows = [(r, 1.0 + r) for r in range(4)]
        level = [
            lambda: check.highest([(a, t[r]) for r, a in rows], arb(4.5)),
            lambda: check.log_sum_exp(rows, t, 2.0),
            lambda: check.log_sum_exp(rows, t, -1.0, mean=False),
            lambda: check.add((arb(2), t[0]), (arb(-3), t[1])),
            lambda: check.add(
                (arb(2), check.highest([(1.0, one) for one in t[:3]], arb(1))), (arb(-3), t[4])
            ),
        ][kind]()
        losses = [line for _, line in check.LOSSES.values() if line.__code__.co_argcount == 1]
        outer = [check.through(line, check.add((arb(1), level), (arb(-1), t[5]))) for line in losses]
        return t, check.add(*((arb(1 + place), one) for place, one in enumerate(outer)))

    nodes, found = risk(here)
    slopes = found.slopes()
    bound = found.value - found.slack
    for node, value in zip(nodes, there, strict=True):
        bound += slopes.get(node, arb(0)) * (arb(value) - node.value)
    assert not bound > risk(there)[1].value


@pytest.mark.parametrize("name", ROWS)
def test_a_value_is_a_bound_only_of_a_risk_that_is_never_negative(name):
    kind = getattr(cr.problems, name)
    never = all(kind.random(seed)._risk_infimum >= 0.0 for seed in range(5))
    assert (name in check.NEVER_NEGATIVE) == never


def test_the_mean_of_the_highest_is_no_more_than_their_mean():
    """Entries whose floats are equal differ beyond them: what is said of the highest is lowered by that."""
    with at_precision(128):
        lower, upper = check.Convex(arb(1)), check.Convex(arb(1) + arb(2) ** -60)
        found = check.highest([(1.0, one) for one in (lower, upper, check.Convex(arb(0)))], arb(1))
        assert found.value == upper.value
        assert found.value - found.slack == (lower.value + upper.value) / 2


def test_what_parts_lose_below_their_value_the_whole_loses_too():
    kinds = ((3, 0.5), (2, 0.25), (0, 8))
    first, second, low = (check.Convex(arb(height), arb(slack), affine=False) for height, slack in kinds)
    assert check.highest([(1.0, one) for one in (low, second, first)], arb(2)).slack == arb(0.75) / 2
    assert check.add((arb(2), first), (arb(3), second), (arb(-1), check.Convex(arb(1)))).slack == arb(1.75)
    assert check.through(lambda x: (x * x, 2 * x, arb(0.125)), first).slack == arb(0.125) + 6 * arb(0.5)
    with at_precision(128):  # a float says that this is where the hinge begins
        value, slope, slack = check.LOSSES["Hinge"][1](arb(2) ** -60 - 1)
        assert (value, slope, slack) == (arb(2) ** -60, arb(0), arb(2) ** -60)


def test_what_a_tangent_loses_is_part_of_the_gap(copies, monkeypatch):
    data = check.load(copies / "PNormPush", copies)
    gap, risk = check.gap_of(data, math.inf)[1], check.risk
    monkeypatch.setattr(
        check, "risk", lambda d, t: check.through(lambda x: (x, arb(1), arb(0.25)), risk(d, t))
    )
    assert abs(check.gap_of(data, math.inf)[1] - gap - 0.25) < 1e-12
