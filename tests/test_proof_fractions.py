"""The second checking program, in exact fractions: agreement with the first, its enclosures, forged folders."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import convexrank as cr
from convexrank.cli import main as command
from convexrank.modelling import (
    exp,
    huber,
    log_sum_exp,
    mean,
    mean_of_highest,
    pair_sums,
    power,
    square,
    total,
)
from convexrank.modelling import functions as phi
from convexrank.problems import REGISTRY
from convexrank.proof import check_fractions as fractions_
from convexrank.regularizers import L1Ball, L2Ball, Penalty

flint = pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")

PROGRAM = Path(fractions_.__file__)
P = cr.problems


def rewrite(folder, change):
    """Change the content and the arrays of a certificate, and set the hashes right again."""
    content = json.loads((folder / "certificate.json").read_text())
    arrays = {name.removesuffix(".npy"): np.load(folder / name) for name in content["files"]}
    content["files"] = {}
    change(content, arrays)
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    renew(folder, content, arrays)


def renew(folder, content, names):
    for name in names:
        digest = hashlib.sha256((folder / f"{name}.npy").read_bytes()).hexdigest()
        content["files"][f"{name}.npy"] = digest
    (folder / "certificate.json").write_text(json.dumps(content))


def copy_of(folder, place, change):
    shutil.copytree(folder, place, dirs_exist_ok=True)
    rewrite(place, change)
    return place


def verdicts(folder, capsys):
    """What both programs print: the line where they agree on a proof, None where both refuse."""
    from convexrank.proof import check  # needs flint

    said = []
    for program in (check.main, fractions_.main):
        capsys.readouterr()
        code, line = program(folder), capsys.readouterr().out.strip()
        assert line.startswith("refused: " if code else "proved: ")
        said.append(None if code else line)
    assert said[0] == said[1], f"the programs disagree: {line}"
    return said[0]


class OwnPairs(cr.Formulation):
    """Pairs within queries by a hinge with a round corner, the top of each list, and a power of a sum."""

    width: float = 0.5
    count: int = 2

    def risk(self, f):
        within = mean(pair_sums(phi.scaled(phi.smooth_hinge(self.width), 0.5), f.positive, f.negative))
        last = power(total(exp(-f.positive)), 1.5)
        return within + mean_of_highest(f.negative, self.count) + 0.1 * last


class OwnSums(cr.Formulation):
    """Functions of scores themselves: a square and Huber's function, and an exponential of a logarithm."""

    def risk(self, f):
        return (
            total(square(f.rows))
            + 2 * mean(huber(f.positive - 1.0, 0.3))
            + 0.3 * exp(log_sum_exp(f.negative))
        )


def atom(k, **fields):
    """Change fields of an atom."""
    return lambda content, arrays: content["risk"][k].update(fields)


# --- both programs agree ----------------------------------------------------------------------------------------------


def built():
    """Instances by hand: weights, ties, penalties, balls, queries; every atom and every function."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 3))
    y, weight = (X[:, 0] + rng.normal(size=12) > 0).astype(int), rng.uniform(0.5, 2.0, 12)
    weight[2] = 0.0
    ties, grades, qid = np.round(X), rng.integers(0, 3, 12), np.repeat([3, 4, 5], [5, 5, 2])
    grades[-2:] = 1  # a query that is idle
    base2 = cr.losses.Logistic(2.0)
    light = weight / 10
    web = cr.Graph.from_edges(rng.integers(0, 9, 30), rng.integers(0, 9, 30), rng.uniform(0.5, 2.0, 30), n=10)
    return {
        "weights": P.PNormPush(X, y, 3.0, l2=0.1, sample_weight=weight),
        "single precision": P.PNormPush(X, y, 0.7, l2=0.1, dtype="float32"),
        "scores of a million": P.PNormPush(1000 * X, y, 256, l2=0.1),
        "zero": P.PNormPush(X, y, 4, l1=5.0, l2=0.1),
        "bottom": P.BottomPush(ties, y, 2.5, l2=0.1, l1=0.01, sample_weight=weight),
        "both ends": P.TopBottomPush(ties, y, 2.5, 0.3, l2=0.1, sample_weight=weight),
        "top": P.TopPush(X, y, l2=0.1, sample_weight=weight),
        "top with ties": P.TopPush(ties, y, l2=0.1),
        "discounts": P.IRPush(X, y, l1=0.05, sample_weight=weight),
        "largest exponential": P.RmaxPush(X, y, "exponential", l2=0.01, sample_weight=weight),
        "largest logistic": P.RmaxPush(X, y, base2, l2=0.01),
        "largest hinge": P.RmaxPush(ties, y, "hinge", l1=0.01),
        "uniform spectrum": P.SpectralPush(X, y, "uniform", "logistic", l2=0.1, sample_weight=weight),
        "steps": P.SpectralPush(ties, y, [0.1, 0.2, 0.7], "hinge", l2=0.1, sample_weight=weight),
        "steps of a smooth loss": P.SpectralPush(ties, y, [0.3, 0.7], "squared_hinge", l2=0.1),
        "top two": P.SpectralPush(X, y, ("top", 2), "exponential", l2=0.1, l1=0.01),
        "some negatives": P.PartialAUC(X, y, 0.4, "hinge", l2=0.1, sample_weight=weight),
        "both rates": P.PartialAUC(ties, y, 0.5, "squared_hinge", 0.3, l2=0.1),
        "both rates, logistic": P.PartialAUC(
            X[5:], y[5:], 0.7, base2, 0.6, l1=0.001, sample_weight=weight[5:]
        ),
        "power below 1": P.Push(X, y, 0.5, "exponential", l2=0.5, sample_weight=weight),
        "power 2": P.Push(X, y, 2, "exponential", l1=0.5),
        "log price": P.Push(X, y, "log_one_plus", "exponential", l2=0.5),
        "exp price, exponential": P.Push(X, y, "exp", "exponential", l2=0.5, sample_weight=light),
        "exp price, hinge": P.Push(X, y, "exp", "hinge", l2=0.5, sample_weight=light),
        "power 1.5, logistic": P.Push(X, y, 1.5, "logistic", l2=0.5, sample_weight=weight),
        "power 3, squared hinge": P.Push(X, y, 3, "squared_hinge", l2=0.5),
        "l1 ball": P.ConvexRisk(X, y, base2, l1_ball=0.4, l2=0.5, sample_weight=weight),
        "l1 ball alone": P.ConvexRisk(X, X[:, 1], "exponential", l1_ball=0.4),
        "l2 ball": P.ConvexRisk(X, y, "squared_hinge", l2_ball=0.3, l1=0.01),
        "l2 ball and l2": P.ConvexRisk(ties, y, "hinge", l2_ball=0.3, l2=0.1),
        "no penalty": P.RankSVM(X, grades, qid, l1=0.001, normalize=False),
        "svm": P.RankSVM(ties, grades, qid, "squared_hinge", l2=0.1),
        "softmax": P.ListNet(X, grades / 2.0, qid, target="softmax", l1=0.1),
        "exp2": P.ListNet(X, grades / 2.0, qid, target="exp2", l2=0.1, normalize=True),
        "linear": P.ListNet(X, grades, qid, target="linear", l2=0.1),
        "push by query": P.PNormPush(X, y, 3.0, l2=0.1, qid=qid, sample_weight=weight),
        "top by query": P.TopPush(X, y, l2=0.1, qid=qid, sample_weight=weight),
        "some negatives by query": P.PartialAUC(X, y, 0.6, "hinge", 0.5, l2=0.1, qid=qid),
        "quantile": P.PatMat(X, y, 0.3, l2=0.1, sample_weight=weight),
        "quantile of all": P.PatMat(X, y, 0.05, "hinge", "exponential", over="all", l2=0.1, l1=0.01),
        "logistic quantile": P.PatMat(X, y, 0.2, "exponential", "logistic", 2.0, l2=0.1, qid=qid),
        "ranks of positives": P.RankDiscount(X, y, 2.0, "hinge", l2=0.1, sample_weight=weight),
        "ranks of positives, l1": P.RankDiscount(X, y, l1=0.1, qid=qid),
        "cross entropy": P.XENDCG(X, grades, qid, l1=0.1),
        "cross entropy, normalized": P.XENDCG(X, grades, qid, 0.2, l2=0.1, normalize=True),
        "likelihood": P.ListMLE(X, grades, qid, l2=0.1),
        "regression": P.NDCGRegression(X, grades, qid, l2=0.1),
        "regression by a divergence": P.NDCGRegression(X, grades, qid, "generalized_i", l2=0.1),
        "crucial": P.CrucialPairs(X, [(0, 1), (2, 3), (2, 4)], "log_one_plus", l2=0.1),
        "rule of pairs": P.PairRule(X, grades[:4], cost="hinge", l2=0.1, l1_ball=2.0),
        "own": OwnPairs(X, y, qid=qid, l2=0.1),
        "own sums": OwnSums(X, y, qid=qid, l1=0.1, sample_weight=weight),
        "walk": P.PageRank(web, 0.9, rng.uniform(size=10), "uniform"),
        "walk without links": P.PageRank(web, 0.0, None, "drop"),
        "inside": P.LpqRank(web, 3.0, 4.0, outdegree_floor=1.5),
        "outside": P.LpqRank(web, 1.0, 1.7, weak_links="outside"),
        "entry": P.LpqRank(web, 2.5, 3.0, weak_links="entry", alpha=0.5),
    }


def drawn():
    """One of each formulation that is an expression of scores, and of the ranks."""
    found = {f"a random {name}": kind.random(2) for name, kind in REGISTRY.items()}
    return {
        name: problem
        for name, problem in found.items()
        if hasattr(problem, "program") or type(problem).__name__ in fractions_.RANKS
    }


BUILT = built()
INSTANCES = BUILT | drawn()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """An exported certificate of each instance; made when it is first asked for."""
    place, made = tmp_path_factory.mktemp("honest"), {}

    def folder(name):
        if name not in made:
            try:
                made[name] = INSTANCES[name].solve().export(place / name.replace(" ", "_"))
            except cr.CertificateError as error:
                made[name] = str(error)
        if isinstance(made[name], str):
            assert name not in BUILT
            pytest.skip(f"not exported: {made[name]}")
        return made[name]

    return folder


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize("name", INSTANCES)
def test_both_programs_agree(name, kept, tmp_path, capsys):
    """On the claim; on a smaller gap, another value and other data, which both refuse."""
    folder = kept(name)
    content = json.loads((folder / "certificate.json").read_text())
    claim = content["claim"]
    said = verdicts(folder, capsys)
    assert said is not None
    assert said.endswith(f", {claim['kind']}, at most {claim['gap']}")

    def planted(change):
        return verdicts(copy_of(folder, tmp_path / "copy", change), capsys)

    if claim["gap"] > 1e-30:  # below, it is the rounding of 128 bits, and the bound in fractions is smaller
        assert planted(lambda content, arrays: content["claim"].update(gap=0.9 * claim["gap"])) is None
    if claim["kind"] == "global":
        off = claim["value"] + 1e-12 * max(1.0, abs(claim["value"]))
        assert planted(lambda content, arrays: content["claim"].update(value=off)) is None
        if np.load(folder / "w.npy").any():
            assert planted(lambda content, arrays: arrays.update(X=arrays["X"] * 1.001)) is None
    elif len(np.load(folder / "x.npy")) > 1:
        first = np.arange(len(np.load(folder / "x.npy"))) == 0
        assert planted(lambda content, arrays: arrays.update(x=arrays["x"] * (1.0 + 1e-3 * first))) is None


def test_another_value_is_refused_without_more_bits_and_without_the_evidence(
    kept, tmp_path, capsys, monkeypatch
):
    from convexrank.proof import check  # needs flint

    def planted(content, arrays):
        assert len(arrays["witness_points"]) > 1
        content["claim"]["value"] += 1e-12

    folder = copy_of(kept("top"), tmp_path / "copy", planted)
    found, gap_of, at = [], check.gap_of, fractions_.Risk.at
    monkeypatch.setattr(check, "gap_of", lambda *given: (found.append("balls"), gap_of(*given))[1])
    monkeypatch.setattr(fractions_.Risk, "at", lambda *given: (found.append("fractions"), at(*given))[1])
    assert verdicts(folder, capsys) is None
    assert found == ["balls", "fractions"]


FORMULAS = {
    "weights": "log_mean_exp(-positive, weights=weight(positive)) + "
    "(1 / 3) * log_mean_exp(3 * negative, weights=weight(negative)) + 0.1/2 |w|^2",
    "l2 ball and l2": "(2 / (sums(1, rows) * (sums(1, rows) - 1))) * "
    "total(pair_sums(hinge, rows, rows, grades=label(rows))) + 0.1/2 |w|^2, |w|_2 <= 0.3",
    "crucial": "softplus(log_sum_exp(-score[i1 - i0, queries=i2])) + 0.1/2 |w|^2",
    "walk": "PageRank",
}


@pytest.mark.parametrize("name", FORMULAS)
def test_the_verdict_states_the_objective(name, kept, capsys):
    assert fractions_.main(kept(name)) == 0
    assert capsys.readouterr().out.startswith(f"proved: {FORMULAS[name]}, ")


def test_all_atoms_and_functions_are_tested(kept):
    """And all that formulas of numbers are made of."""
    atoms, words = set(), set()

    def listed(x):
        if type(x) is list:
            words.update(one for one in x if type(one) is str)
            [listed(one) for one in x]

    for name in BUILT:
        for node in json.loads((kept(name) / "certificate.json").read_text()).get("risk", ()):
            atoms.add(node["atom"])
            [listed(one) for key, one in node.items() if key != "of"]
    assert atoms == {*fractions_.ATOMS}
    assert words >= {*fractions_.FUNCTIONS, "scaled", "take", *fractions_.OF_ROWS, *fractions_.OPERATIONS}


def test_the_better_bound_counts(kept, tmp_path, capsys):
    """That of the witness or that of the point alone: a poor witness does no harm, a good one is needed at a kink."""
    folder = kept("top")
    gap = json.loads((folder / "certificate.json").read_text())["claim"]["gap"]

    def poor(content, arrays):
        arrays["witness_points"] = arrays["witness_points"] + 1.0

    assert verdicts(copy_of(folder, tmp_path / "top", poor), capsys) is None
    assert gap < 1e-6
    smooth = P.PNormPush(np.eye(4), [0, 1, 0, 1], 2.0, l2=0.1).solve().export(tmp_path / "smooth")

    def given_one(content, arrays):
        arrays["witness_points"], arrays["witness_weights"] = np.ones((1, 4)), np.ones(1)

    rewrite(smooth, given_one)
    assert fractions_.main(smooth) == 0


# --- lines below risks ------------------------------------------------------------------------------------------------


TOUCHES = Fraction(1, 2**180)  # of 256 bits, less the size of scores and values


def parsed(folder):
    content, _, arrays = fractions_.read(folder)
    return fractions_.Risk(content["risk"], arrays), arrays


def scores_at(arrays, w):
    return [sum(a * b for a, b in zip(row, w, strict=True)) for row in arrays["X"]]


def defect(folder, seed):
    """How far a line is above the risk elsewhere (at most 0), and below it where it was made (about 0)."""
    risk, arrays = parsed(folder)
    rng = np.random.default_rng(seed)
    here = scores_at(arrays, [Fraction(x) for x in rng.normal(size=len(arrays["w"]))])
    value, slope, constant = risk.at(here)

    def line(t):
        return constant.lo + sum((x * t[i]).lo for i, x in slope.items())

    above, least = Fraction(-1), risk.least()
    assert least is None or least <= value.hi
    for scale in (0.0, 1e-12, 1e-3, 1.0, 5.0):
        there = [t + Fraction(x) for t, x in zip(here, scale * rng.normal(size=len(here)), strict=True)]
        above = max(above, line(there) - risk.at(there)[0].hi)
    return above, value.hi - line(here)


LINEAR = [name for name, problem in BUILT.items() if hasattr(problem, "penalty")]


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize("name", LINEAR)
def test_lines_touch_the_risk_from_below(name, kept):
    above, below = defect(kept(name), 3)
    assert above <= 0
    assert below <= TOUCHES


PLANTED_IN_SORTS = {
    "the lowest": ("height", lambda own: lambda part: -own(part)),
    "one row too heavy": (
        "mean_of_highest",
        lambda own: lambda parts, mass: own([(2 * b, z) for b, z in parts], mass),
    ),
}


@pytest.mark.parametrize("name", ["steps", "both rates, logistic"])
@pytest.mark.parametrize("planted", PLANTED_IN_SORTS)
def test_planted_bugs_in_means_of_the_highest_are_noticed(planted, name, kept, monkeypatch):
    folder = kept(name)
    known = fractions_.mean_of_highest
    rows = [(fractions_.between(b), fractions_.score([z], 0)) for b, z in ((1, 3), (2, 1), (1, 1), (1, 0))]
    assert known(rows, Fraction(2))[0] == fractions_.between(2)
    assert fractions_.main(folder) == 0
    helper, wrong = PLANTED_IN_SORTS[planted]
    monkeypatch.setattr(fractions_, helper, wrong(getattr(fractions_, helper)))
    assert fractions_.main(folder) == 1


def with_function(name, change):
    """Another value, slope or constant of a function; all others are as they are."""

    def planted(own):
        line, *rest = own[name]
        return own | {name: (lambda z, *numbers: change(*line(z, *numbers)), *rest)}

    return "FUNCTIONS", planted


PLANTED_IN_LINES = {
    "no entropy": ("weights", "log_sum", lambda own: lambda parts: (*own(parts)[:2], fractions_.ZERO)),
    "a third of the entropy": ("weights", "entropy", lambda own: lambda x: own(x) * Fraction(1, 3)),
    "shares that sum to more than 1": (
        "weights",
        "distribution",
        lambda own: lambda masses: {i: x * Fraction(101, 100) for i, x in own(masses).items()},
    ),
    "half a slope of a factor": (
        "own sums",
        "added",
        lambda own: lambda parts: own([(c / 2, x) for c, x in parts]),
    ),
    "a square without its constant": ("own sums", *with_function("square", lambda v, u, c: (v, u, c * 0))),
    "a steeper line of Huber's": ("own sums", *with_function("huber", lambda v, u, c: (v, 2 * u, c))),
    "a power with half its constant": ("own", *with_function("power", lambda v, u, c: (v, u, c / 2))),
    "a steeper exponential": ("own", *with_function("exp", lambda v, u, c: (v, u * 2, c))),
    "a hinge with a constant": ("steps", *with_function("hinge", lambda v, u, c: (v, u, c + 1))),
    "a squared hinge of half the slope": (
        "quantile",
        *with_function("squared_hinge", lambda v, u, c: (v, u / 2, c)),
    ),
    "a softplus without its constant": (
        "discounts",
        *with_function("softplus", lambda v, u, c: (v, u, c * 0)),
    ),
    "a line that stays where it is": (
        "quantile",
        "moved",
        lambda own: lambda part, number: (own(part, number)[0], *part[1:]),
    ),
}


@pytest.mark.parametrize("planted", PLANTED_IN_LINES)
def test_planted_bugs_in_lines_are_noticed(planted, kept, monkeypatch):
    kind, name, wrong = PLANTED_IN_LINES[planted]
    folder = kept(kind)
    assert fractions_.main(folder) == 0
    monkeypatch.setattr(fractions_, name, wrong(getattr(fractions_, name)))
    above, below = defect(folder, 3)
    assert above > 0 or below > TOUCHES


def test_a_bound_of_what_is_no_divergence_is_noticed(kept, tmp_path, monkeypatch):
    """If the mean were thought to have the factor of the logarithm, a risk without a minimum would have a bound."""
    risk, _ = parsed(copy_of(kept("softmax"), tmp_path / "copy", atom(3, factors=[1.0, -2.0])))
    assert risk.least() is None
    monkeypatch.setattr(fractions_, "opposite", lambda x, y: True)
    assert risk.least() > risk.at([100] * 12)[0].hi


def test_divergences_with_factors_are_bounded(kept):
    """A product of products is the opposite of another one, too."""
    for name in ("cross entropy, normalized", "regression by a divergence"):
        risk, arrays = parsed(kept(name))
        least, here = risk.least(), risk.at(scores_at(arrays, arrays["w"]))[0]
        assert abs(least) < Fraction(1e-9)
        assert least <= here.hi
    assert fractions_.opposite(["*", "n0", ["*", 2.0, 3.0]], ["*", "n0", ["*", ["*", 2.0, 3.0], -1.0]])
    assert not fractions_.opposite(["*", "n0", 2.0], ["*", "n1", ["*", 2.0, -1.0]])


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_conjugate_of_the_penalty_is_an_upper_bound(data):
    """And agrees with that of the package, to its rounding."""
    size = st.floats(0.0, 3.0).map(lambda x: round(x, 3))
    u = data.draw(st.lists(st.floats(-5.0, 5.0).map(lambda x: round(x, 3)), min_size=1, max_size=4))
    l2, l1, radius, ball = (
        data.draw(s) for s in (size, size, size.map(lambda x: x + 0.1), st.sampled_from(["L1", "L2"]))
    )
    content = {"l2": Fraction(l2), "l1": Fraction(l1), "radius": Fraction(radius), "ball": ball}
    found = fractions_.conjugate([Fraction(x) for x in u], content, None)
    penalty = Penalty(l2, l1, (L1Ball if ball == "L1" else L2Ball)(radius))
    best, at = penalty.conjugate(np.array(u))
    assert float(found) == pytest.approx(best, rel=1e-9, abs=1e-9)
    # Exactly, at the maximiser of the package, pulled inside.
    v = [Fraction(x) * Fraction(1 - 1e-12) for x in at]
    inside = sum(Fraction(x) * y for x, y in zip(u, v, strict=True))
    inside -= content["l2"] * sum(y * y for y in v) / 2 + content["l1"] * sum(map(abs, v))
    assert inside <= found


# --- enclosures -------------------------------------------------------------------------------------------------------


def encloses(interval, function, x, size=1):
    """Whether an interval contains the value of a function in balls of 1 200 bits; it has to be narrow, too."""

    def ball(number):
        return flint.arb(flint.fmpq(number.numerator, number.denominator))

    before, flint.ctx.prec = flint.ctx.prec, 1200
    try:
        exact = function(ball(x))
        inside = bool(ball(interval.lo) <= exact) and bool(exact <= ball(interval.hi))
    finally:
        flint.ctx.prec = before
    return inside and interval.hi - interval.lo <= size * Fraction(1, 2**230)


ARGUMENTS = st.fractions(-170, 300, max_denominator=10**9)
POSITIVE = st.fractions(Fraction(1, 10**9), 10**9, max_denominator=10**9) | st.sampled_from(
    [
        Fraction(1, 10**300),
        Fraction(10**300),
        Fraction(2),
        Fraction(1),
        1 + Fraction(1, 2**200),
        Fraction(2**53 - 1, 2**53),
    ]
)


def exp_holds(x):
    size = max(1, Fraction(2) ** math.ceil(x * Fraction(3, 2)))
    return encloses(fractions_.exp(x), lambda b: b.exp(), x, size)


def log_holds(x):
    return encloses(fractions_.log(x), lambda b: b.log(), x, 2**12)


@given(ARGUMENTS)
@settings(max_examples=100, deadline=None)
def test_exponentials(x):
    assert exp_holds(x)
    assert encloses(fractions_.softplus(x), lambda b: b.exp().log1p(), x, 16)


@given(POSITIVE)
@settings(max_examples=100, deadline=None)
def test_logarithms(x):
    assert log_holds(x)
    entropy = fractions_.entropy(fractions_.between(x))
    assert encloses(entropy, lambda b: b * b.log(), x, 2**12 * max(x, 1))


@given(st.fractions(0, 50, max_denominator=10**6), st.fractions(Fraction(1, 100), 20, max_denominator=10**3))
@settings(max_examples=100, deadline=None)
def test_powers(x, p):
    exponent = flint.fmpq(p.numerator, p.denominator)
    assert encloses(fractions_.power(x, p), lambda b: b**exponent if x else b, x, Fraction(2) ** 140)


@given(ARGUMENTS, ARGUMENTS, st.fractions(0, 1, max_denominator=1000))
@settings(max_examples=100, deadline=None)
def test_images_of_intervals(x, y, part):
    low, high = min(x, y), max(x, y)
    wide = fractions_.Interval(low, high)
    inner = fractions_.exp(low + part * (high - low))
    outer = fractions_.exp(wide)
    assert outer.lo <= inner.lo
    assert inner.hi <= outer.hi
    third = fractions_.Interval(Fraction(-1, 3), Fraction(2))
    for a in (low, low + part * (high - low), high):
        for b in (third.lo, Fraction(0), third.hi):
            for found, exact in ((wide * third, a * b), (wide + third, a + b), (wide - third, a - b)):
                assert found.lo <= exact <= found.hi


MANY_BITS = st.fractions(-(10**400), 10**400, max_denominator=10**400).filter(bool)


def operations_hold(a, b):
    """Whether all operations enclose the exact number closely, by ends that have few bits."""
    x, y = fractions_.between(a), fractions_.between(b)
    cases = (
        (x + y, a + b, abs(a) + abs(b)),
        (x - y, a - b, abs(a) + abs(b)),
        (x * y, a * b, a * b),
        (x / y, a / b, a / b),
    )
    return all(
        found.lo <= exact <= found.hi
        and found.hi - found.lo <= abs(size) * Fraction(1, 2**250)
        and all(end.numerator.bit_length() < 4000 for end in (found.lo, found.hi))
        for found, exact, size in cases
    )


@given(MANY_BITS, MANY_BITS)
@settings(max_examples=50, deadline=None)
def test_operations_on_long_fractions(a, b):
    assert operations_hold(a, b)


def test_rounding_the_wrong_way_is_noticed(monkeypatch):
    a, b = Fraction(10**300 + 1, 3**500), Fraction(-(7**300), 11**250)
    assert operations_hold(a, b)
    own = fractions_.short
    monkeypatch.setattr(fractions_, "short", lambda x: -own(-x))
    assert not operations_hold(a, b)


def test_exponentials_far_away():
    assert fractions_.exp(Fraction(-(10**9))) == fractions_.Interval(Fraction(0), fractions_.UNIT)
    with pytest.raises(ValueError, match="out of range"):
        fractions_.exp(Fraction(10**6))
    with pytest.raises(ValueError, match="may be 0"):
        fractions_.log(fractions_.Interval(Fraction(0), Fraction(1)))


PLANTED_IN_SERIES = {
    "exponential without a remainder": ("exp_series", lambda own: lambda r: (own(r)[0], own(r)[0])),
    "logarithm without a remainder": ("log_series", lambda own: lambda t: (own(t)[0], own(t)[0])),
    "lower end one too high": ("exp_series", lambda own: lambda r: (own(r)[1], own(r)[1])),
    "rounding the wrong way": ("up", lambda own: lambda x: own(x) - 2**20),
    "log 2 in floats": ("LOG2", lambda own: fractions_.between(Fraction(math.log(2.0)))),
}


@pytest.mark.parametrize("planted", PLANTED_IN_SERIES)
def test_planted_bugs_in_series_are_noticed(planted, monkeypatch):
    name, wrong = PLANTED_IN_SERIES[planted]
    monkeypatch.setattr(fractions_, name, wrong(getattr(fractions_, name)))
    some = [Fraction(k, 7) for k in range(1, 30)]
    assert not all(exp_holds(x) and log_holds(x) for x in some)


# --- forged folders ---------------------------------------------------------------------------------------------------


def state(**changes):
    return lambda content, arrays: content.update(changes)


def drop(*names):
    return lambda content, arrays: [content.pop(name) for name in names]


def claim(**changes):
    return lambda content, arrays: content["claim"].update(changes)


def array(**changes):
    """New arrays, as functions of the old ones."""
    return lambda content, arrays: arrays.update(
        {name: change(arrays[name]) for name, change in changes.items()}
    )


def put(entry, value):
    def changed(values):
        values = values.copy()
        values.flat[entry] = value
        return values

    return changed


def add(**new):
    return lambda content, arrays: arrays.update(new)


def leave(name):
    return lambda content, arrays: arrays.pop(name)


FORGED = {
    "no l1": ("weights", drop("l1")),
    "another field": ("weights", state(note="")),
    "a negative l2": ("weights", state(l2=-0.1)),
    "l1 is NaN": ("weights", state(l1=math.nan)),
    "l2 is infinite": ("weights", state(l2=math.inf)),
    "no penalty of a logarithm": ("weights", state(l2=0.0)),
    "a ball without a radius": ("l2 ball", drop("radius")),
    "an unknown ball": ("l2 ball", state(ball="L3")),
    "a ball that is none": ("l2 ball", state(ball=None)),
    "a negative radius": ("l2 ball", state(radius=-0.3)),
    "outside the ball": ("l2 ball", array(w=lambda w: w * (1 + 1e-8))),
    "a query below 0": ("svm", array(query=put(0, -1))),
    "no queries": ("svm", array(query=lambda q: -np.ones_like(q))),
    "queries of floats": ("svm", array(query=lambda q: q.astype(np.float64))),
    "labels of three kinds": ("weights", array(y=put(0, 2.0))),
    "one class": ("weights", array(y=np.ones_like)),
    "one class with a weight": ("weights", lambda c, a: a.update(weight=a["weight"] * a["y"])),
    "equal labels": ("l2 ball", array(y=np.ones_like)),
    "a negative weight": ("weights", array(weight=put(0, -1.0))),
    "a weight of NaN": ("weights", array(weight=put(0, math.nan))),
    "an infinite entry": ("weights", array(X=put(0, math.inf))),
    "a row less": ("weights", array(y=lambda y: y[1:])),
    "a column less": ("weights", array(w=lambda w: w[1:])),
    "a point in rows": ("weights", array(w=lambda w: w[None, :])),
    "no rows": (
        "weights",
        array(X=lambda X: X[:0], y=lambda v: v[:0], weight=lambda v: v[:0], query=lambda v: v[:0]),
    ),
    "no columns": ("weights", array(X=lambda X: X[:, :0], w=lambda w: w[:0])),
    "another file": ("weights", add(z=np.ones(2))),
    "no weights of rows": ("weights", leave("weight")),
    "half a witness": ("top", leave("witness_weights")),
    "a negative weight of evidence": ("top", array(witness_weights=put(0, -1e-3))),
    "no weight of evidence": ("top", array(witness_weights=np.zeros_like)),
    "evidence of another dimension": ("top", array(witness_points=lambda W: W[:, 1:])),
    "more weights than evidence": ("top", array(witness_weights=lambda c: np.append(c, 1.0))),
    "columns first": ("weights", array(X=np.asfortranarray)),
    "big-endian": ("weights", array(X=lambda X: X.astype(">f8"))),
    "complex": ("weights", array(X=lambda X: X.astype(complex))),
    "truth values": ("weights", array(y=lambda y: y.astype(bool))),
    "a negative gap": ("weights", claim(gap=-1.0)),
    "a gap of NaN": ("weights", claim(gap=math.nan)),
    "an infinite gap": ("weights", claim(gap=math.inf)),
    "a gap in words": ("weights", claim(gap="1")),
    "a gap too large for a float": ("weights", claim(gap=10**400)),
    "no value": ("weights", lambda c, a: c["claim"].pop("value")),
    "a claim too much": ("weights", claim(optimal=True)),
    "another kind": ("weights", claim(kind="distance")),
    "the kind of another": ("walk", claim(kind="global")),
    "an unknown kind": ("walk", claim(kind="residual")),
    "a value of a distance": ("walk", claim(value=1.0)),
    "no claim": ("weights", drop("claim")),
    "q below 0": ("inside", state(q=-4.0)),
    "q below p": ("inside", state(q=2.0)),
    "p below 1": ("inside", state(p=0.5)),
    "alpha of 1": ("inside", state(alpha=1.0)),
    "a negative alpha": ("walk", state(alpha=-0.1)),
    "an unknown word": ("inside", state(weak_links="outsid")),
    "an unknown end": ("walk", state(dangling="stay")),
    "a floor of 0": ("inside", state(outdegree_floor=0.0)),
    "a floor that is false": ("inside", state(outdegree_floor=False)),
    "edges that count twice": (
        "walk",
        add(offsets=np.r_[0, 9, 0, np.full(8, 9)], sources=np.arange(9, dtype=np.int32), weights=np.ones(9)),
    ),
    "offsets that end early": ("walk", array(offsets=put(-1, 3))),
    "offsets that begin late": ("walk", array(offsets=put(0, 1))),
    "an offset less": ("walk", array(offsets=lambda o: o[1:])),
    "a negative source": ("walk", array(sources=lambda s: s - 1)),
    "a source that is no node": ("walk", array(sources=lambda s: s + 9)),
    "an edge twice": ("walk", array(sources=lambda s: np.zeros_like(s))),
    "sources of floats": ("walk", array(sources=lambda s: s.astype(np.float64))),
    "an edge of weight 0": ("walk", array(weights=put(0, 0.0))),
    "a negative edge": ("inside", array(weights=put(0, -1.0))),
    "a negative teleport": ("walk", array(teleport=put(0, -0.1))),
    "no teleport": ("walk", array(teleport=np.zeros_like)),
    "a rank of 0": ("inside", array(x=put(0, 0.0))),
    "l2 is true": ("weights", state(l2=True)),
    "l2 in words": ("weights", state(l2="0.1")),
    "l2 beyond floats": ("weights", state(l2=10**400)),
    "l2 between floats": ("weights", state(l2=2**53 + 1)),
    "no risk": ("weights", drop("risk")),
    "a risk that is none": ("weights", state(risk=None)),
    "no atoms": ("weights", state(risk=[])),
    "more atoms than a thousand": ("weights", state(risk=[{}] * 1001)),
    "a risk with a name": ("weights", state(problem="PNormPush")),
    "an unknown rank": ("walk", state(problem="HITS")),
    "a rank of a list": ("walk", state(problem=["PageRank"])),
    "integers as floats": ("crucial", array(i0=lambda rows: rows.astype(np.float64))),
    "a long name of a file": ("crucial", add(n12345=np.ones(2))),
    "an empty file": ("regression", array(n1=lambda x: x[:0])),
}


def risk(*nodes):
    return state(risk=[{"of": [k - 1] if k else [], **node} for k, node in enumerate(nodes)])


def of_rows(function, last=None):
    """A risk of one function; honest ones are refused for their value alone."""
    return risk(ROWS, {"atom": "function", "function": function}, last or {"atom": "total", "weights": 1.0})


def both(*changes):
    return lambda content, arrays: [change(content, arrays) for change in changes]


def nested(x, times, *words):
    for _ in range(times):
        x = [*words, x]
    return x


ROWS, POSITIVES = ({"atom": "scores", "of": [], "group": group} for group in ("rows", "positive"))
LISTED = {"atom": "listed", "of": [], "rows": "i8", "lower": None, "queries": "i9"}
EXP, TOTAL = {"atom": "function", "function": ["exp"]}, {"atom": "total", "weights": 1.0}
PAIRS = {"atom": "pair_sums", "function": ["exp"], "weights": 1.0, "grades": None}
TWO = add(i8=np.array([3, 1]), i9=np.array([0, 1]))  # two rows, each of its own query
DECREASES, NEGATIVE = (
    "a function that may decrease is taken of a convex part",
    "a convex part has a negative factor",
)
FACTOR = {"atom": "sum", "of": [2], "factors": [-1.0], "constant": 0.0}
UNBOUNDED = "nothing bounds the minimiser"
FORGED_RISKS = {
    "a negative factor of a convex part": ("weights", atom(6, factors=[1.0, -0.5]), NEGATIVE),
    "a formula that is negative": ("weights", atom(6, factors=[1.0, ["-", 1.0, 3.0]]), NEGATIVE),
    "a concave sum": ("weights", risk(ROWS, EXP, TOTAL, FACTOR), NEGATIVE),
    "a factor that is negative by weights": ("l1 ball", array(weight=lambda v: v * 0.05), NEGATIVE),
    "a concave sum by weights": ("svm", atom(2, weights=-1.0), "weights that are too small"),
    "a square of a convex part": ("quantile", atom(4, function=["square"]), DECREASES),
    "a square within": ("quantile", atom(4, function=["scaled", 2.0, ["huber", 0.5]]), DECREASES),
    "a square of what convex rows are less": (
        "weights",
        risk(ROWS, EXP, {**PAIRS, "of": [0, 1], "function": ["square"]}),
        DECREASES,
    ),
    "pairs with convex upper rows": ("weights", risk(ROWS, EXP, {**PAIRS, "of": [1, 0]}), NEGATIVE),
    "a threshold of a square": (
        "quantile",
        atom(2, function=["square"]),
        DECREASES,
    ),
    "a threshold of scale 0": ("quantile", atom(2, scale=0.0), "0.0 is out of range"),
    "a threshold never reached": ("quantile", atom(2, target=-1.0), "-1.0 is out of range"),
    "a weight of 0 in a logarithm": ("weights", atom(2, weights=0.0), "weights that are too small"),
    "a negative weight in a logarithm": (
        "weights",
        atom(2, weights=["-", ["weight", 0], 1.0]),
        "weights that are too small",
    ),
    "a mean without weights": ("steps", atom(4, weights=0.0), "a division by what may be 0"),
    "a quotient by 0": ("weights", atom(6, constant=["/", 1.0, 0.0]), "a division by what may be 0"),
    "a logarithm of 0": (
        "weights",
        atom(6, constant=["log", 0.0]),
        "the logarithm of a number that may be 0",
    ),
    "a mean of the highest 0": ("steps", atom(2, asked=0.0), "a mean of the highest 0 rows"),
    "an atom of a later one": ("weights", atom(1, of=[6]), "an atom of one not before it"),
    "an atom of itself": ("weights", atom(1, of=[1]), "an atom of one not before it"),
    "an atom of the last one": ("weights", atom(1, of=[-1]), "an atom of one not before it"),
    "an atom of true": ("weights", atom(6, of=[2, True]), "an atom of one not before it"),
    "an atom of too many": ("weights", atom(2, of=[1, 1]), "log_mean_exp of another number of parts"),
    "a sum of nothing": ("weights", atom(6, of=[], factors=[]), "sum of another number of parts"),
    "a sum of too many": (
        "weights",
        atom(6, of=[2] * 1001, factors=[1.0] * 1001),
        "sum of another number of parts",
    ),
    "a formula of its own atom": (
        "weights",
        atom(2, weights=["weight", 2]),
        "a formula of an atom that is not before it",
    ),
    "formulas in a circle": (
        "weights",
        lambda c, a: [atom(j, weights=["spread", ["sums", 1.0, k], k])(c, a) for j, k in ((2, 5), (5, 2))],
        "a formula of an atom that is not before it",
    ),
    "a formula of the last atom": (
        "weights",
        atom(2, weights=["weight", -1]),
        "a formula of an atom that is not before it",
    ),
    "a formula of true": (
        "weights",
        atom(2, weights=["weight", True]),
        "a formula of an atom that is not before it",
    ),
    "a power of 1": ("weights", of_rows(["power", 1.0]), "a power, or a base, of 1 or less"),
    "a power below 1": ("weights", of_rows(["power", 0.5]), "a power, or a base, of 1 or less"),
    "a negative power": ("weights", of_rows(["power", -2.0]), "-2.0 is out of range"),
    "a huge power": ("weights", of_rows(["power", 1e300]), "an exponential is out of range"),
    "a power of powers": (
        "weights",
        risk(ROWS, *[{"atom": "function", "function": ["power", 9.0]}] * 99, TOTAL),
        "an exponential is out of range",
    ),
    "a tower of exponentials": ("weights", risk(ROWS, *[EXP] * 99, TOTAL), "an exponential is out of range"),
    "a scale of 0": ("weights", of_rows(["scaled", 0.0, ["exp"]]), "0.0 is out of range"),
    "a negative scale": ("weights", of_rows(["scaled", -1.0, ["exp"]]), "-1.0 is out of range"),
    "a width of 0": ("weights", of_rows(["huber", 0.0]), "0.0 is out of range"),
    "an unknown function": ("weights", of_rows(["log"]), "an unknown function"),
    "a function by its name": ("weights", of_rows("exp"), "a function that is no list"),
    "a function of a list": ("weights", of_rows([["exp"]]), "a function that is no list"),
    "a function of too many": ("weights", of_rows(["exp", 2.0]), "a function of other parameters"),
    "a function of too few": ("weights", of_rows(["huber"]), "a function of other parameters"),
    "a function in functions": (
        "weights",
        of_rows(nested(["exp"], 41, "scaled", 1.0)),
        "functions are nested too deeply",
    ),
    "a formula in formulas": (
        "weights",
        atom(6, constant=nested(0.0, 41, "exp")),
        "formulas are nested too deeply",
    ),
    "a large number": (
        "weights",
        atom(6, constant=nested(1e300, 40, "*", 1e300)),
        "a number is out of range",
    ),
    "an unknown operation": ("weights", atom(6, constant=["sqrt", 2.0]), "an unknown formula"),
    "an operation of too many": ("weights", atom(6, constant=["-", 2.0, 1.0, 1.0]), "an unknown formula"),
    "an empty formula": ("weights", atom(6, constant=[]), "a formula without an operation"),
    "a formula of a list": ("weights", atom(6, constant=[["log"], 2.0]), "a formula without an operation"),
    "a number of true": ("weights", atom(6, constant=True), "True is not a number"),
    "numbers of the data": ("weights", atom(6, constant="y"), "numbers of no such file"),
    "numbers of no file": ("weights", atom(6, constant="n7"), "numbers of no such file"),
    "numbers of a path": ("weights", atom(6, constant="../n0"), "numbers of no such file"),
    "numbers of other rows": ("weights", atom(6, constant=["weight", 0]), "numbers do not fit the rows"),
    "places of no numbers": (
        "regression",
        array(i0=lambda places: places + 99),
        "a place that does not exist",
    ),
    "grades that are not exact": (
        "likelihood",
        atom(1, grades=["exp", ["label", 0]]),
        "grades are not known exactly",
    ),
    "no grades": ("likelihood", atom(1, grades=None), "None is not a number"),
    "grades of other rows": (
        "both rates",
        risk(ROWS, POSITIVES, {**PAIRS, "of": [0, 1], "grades": 1.0}),
        "grades of different rows are compared",
    ),
    "a sum of different rows": ("weights", atom(6, of=[0, 3]), "different rows are added"),
    "a sum of different queries": (
        "weights",
        both(
            TWO,
            risk(
                ROWS,
                TOTAL,
                LISTED,
                TOTAL,
                {"atom": "sum", "constant": 0.0, "of": [1, 3], "factors": [1.0, 1.0]},
            ),
        ),
        "different queries are added",
    ),
    "pairs of different queries": (
        "weights",
        both(TWO, risk(ROWS, LISTED, {**PAIRS, "of": [0, 1]})),
        "different queries are compared",
    ),
    "factors too few": ("weights", atom(6, factors=[1.0]), "not one factor for each part"),
    "factors that are no list": ("weights", atom(6, factors="n0"), "not one factor for each part"),
    "numbers of queries are reduced": (
        "weights",
        risk(ROWS, TOTAL, TOTAL),
        "total of what is no number for each row",
    ),
    "a risk of each row": ("weights", risk(ROWS, EXP), "the last atom is no number for each query"),
    "an unknown atom": ("weights", atom(2, atom="log_min_exp"), "an unknown atom"),
    "an atom of a list": ("weights", atom(2, atom=["mean"]), "an unknown atom"),
    "an atom that is none": ("weights", state(risk=[None]), "an unknown atom"),
    "a field too much": ("weights", atom(2, asked=1.0), "log_mean_exp has other fields than ['weights']"),
    "a field too few": (
        "weights",
        lambda c, a: c["risk"][2].pop("weights"),
        "log_mean_exp has other fields than ['weights']",
    ),
    "an unknown group": (
        "weights",
        atom(0, group="positives"),
        "'positives' is none of ('positive', 'negative', 'rows')",
    ),
    "a group of a list": (
        "weights",
        atom(0, group=["rows"]),
        "['rows'] is none of ('positive', 'negative', 'rows')",
    ),
    "queries that skip a number": (
        "crucial",
        array(i2=lambda q: 2 * np.arange(len(q))),
        "queries of listed rows are not 0, 1, 2, ...",
    ),
    "queries from 1 on": (
        "crucial",
        array(i2=lambda q: q + 1),
        "queries of listed rows are not 0, 1, 2, ...",
    ),
    "queries that fall": (
        "crucial",
        array(i2=lambda q: -np.arange(len(q))),
        "queries of listed rows are not 0, 1, 2, ...",
    ),
    "queries of too few rows": (
        "crucial",
        array(i2=lambda q: q[1:]),
        "listed rows are not as many as their queries",
    ),
    "listed rows out of range": ("crucial", array(i0=put(0, 12)), "listed rows are out of range"),
    "listed rows below 0": ("crucial", array(i1=put(0, -1)), "listed rows are out of range"),
    "listed rows in a list": ("crucial", atom(0, rows=[0, 1]), "numbers of no such file"),
    "listed rows of floats": (
        "regression",
        risk({"atom": "listed", "rows": "n1", "lower": None, "queries": "i0"}, TOTAL),
        "numbers of no such file",
    ),
    "half of a mean": ("softmax", atom(3, factors=[1.0, -0.5]), UNBOUNDED),
    "more than the mean": ("softmax", atom(3, factors=[["/", 1.0, 2.0], -1.0]), UNBOUNDED),
    "a mean of others": (
        "softmax",
        lambda c, a: (
            c["risk"].insert(1, {"atom": "sum", "of": [0], "factors": [1.0], "constant": 0.0}),
            atom(3, of=[1])(c, a),
            atom(4, of=[2, 3])(c, a),
        ),
        UNBOUNDED,
    ),
}


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize("name", FORGED_RISKS)
def test_forged_risks_are_refused(name, kept, tmp_path, capsys):
    """Each for its own reason, and by the other program, too."""
    kind, change, reason = FORGED_RISKS[name]
    folder = copy_of(kept(kind), tmp_path / "forged", change)
    assert fractions_.main(folder) == 1
    assert capsys.readouterr().out == f"refused: {reason}\n"
    assert verdicts(folder, capsys) is None


def test_large_folders_are_refused(kept, capsys, monkeypatch):
    """By terms that are counted, of all evaluations together."""
    assert fractions_.main(kept("both rates")) == 0
    monkeypatch.setattr(fractions_, "MOST_TERMS", fractions_.SPENT[0])
    assert fractions_.main(kept("both rates")) == 0
    capsys.readouterr()
    monkeypatch.setattr(fractions_, "MOST_TERMS", fractions_.SPENT[0] - 1)
    assert fractions_.main(kept("both rates")) == 1
    assert capsys.readouterr().out == "refused: too many terms for fractions\n"


@pytest.mark.parametrize("form", [["exp"], ["power", 1.5], ["huber", 0.5], ["scaled", 2.0, ["square"]]])
def test_other_risks_are_evaluated(form, kept, tmp_path, capsys):
    """What forged risks are made of has a value, which is another one."""
    assert fractions_.main(copy_of(kept("weights"), tmp_path / "other", of_rows(form))) == 1
    assert capsys.readouterr().out.startswith("refused: the value is")


JUNK = [
    None,
    True,
    -1,
    0,
    2,
    10**400,
    0.5,
    -1.0,
    1e308,
    5e-324,
    math.nan,
    "",
    "rows",
    "n0",
    "i0",
    "X",
    "\ud800",
]
JUNK += [
    [],
    {},
    [1.0],
    ["exp"],
    ["hinge"],
    ["weight", 0],
    ["sums", 1.0, 0],
    ["spread", 1.0, 1],
    ["*", 2.0, "n0"],
]


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize(
    "kind", ["both ends", "quantile", "crucial", "cross entropy", "regression", "own", "likelihood"]
)
def test_nothing_else_is_proved_of_changed_risks(kind, kept, tmp_path, capsys):
    """One entry of the risk is something else: the program ends with a verdict, and proves what the other one does."""
    rng = np.random.default_rng(5)
    for number in range(60):

        def change(content, arrays):
            inner, key = content, "risk"
            while (
                isinstance(inner[key], list | dict) and inner[key] and (key == "risk" or rng.random() < 0.7)
            ):
                inner = inner[key]
                key = (
                    list(inner)[rng.integers(len(inner))]
                    if isinstance(inner, dict)
                    else int(rng.integers(len(inner)))
                )
            inner[key] = JUNK[rng.integers(len(JUNK))]

        folder = copy_of(kept(kind), tmp_path / str(number), change)
        if fractions_.main(folder) == 0:
            assert verdicts(folder, capsys)
        capsys.readouterr()


def test_long_formulas_are_refused():
    """They would be printed."""
    node = {"atom": "sum", "of": [0], "factors": [nested(1.0, 30, "*", 2.0)], "constant": 0.0}
    nodes = [{**ROWS, "of": []}, *({**node, "of": [k]} for k in range(160))]
    with pytest.raises(ValueError, match="the formula is too long"):
        fractions_.formula({"risk": nodes, "l2": 1.0, "l1": 0.0})


def test_many_files_are_refused(kept, tmp_path, capsys):
    large = {f"n{k}": np.zeros(2**17 - 64) for k in range(5)}
    assert fractions_.main(copy_of(kept("weights"), tmp_path / "large", add(**large))) == 1
    assert capsys.readouterr().out == "refused: files that are too large for fractions\n"


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize("name", FORGED)
def test_forged_folders_are_refused(name, kept, tmp_path, capsys):
    kind, change = FORGED[name]
    folder = copy_of(kept(kind), tmp_path / "forged", change)
    assert fractions_.main(folder) == 1
    said = capsys.readouterr().out
    assert said.startswith("refused: ")
    # by a rule, and not because the edited numbers do not fit the claim any more
    assert not said.startswith(("refused: the gap is", "refused: the value is"))


def test_every_forgery_starts_from_an_honest_folder(kept, tmp_path):
    """So that it is the change that is refused."""
    for kind in {kind for kind, *_ in [*FORGED.values(), *FORGED_RISKS.values()]}:
        assert fractions_.main(copy_of(kept(kind), tmp_path / kind, lambda content, arrays: None)) == 0


def raw(folder, edit):
    """Edit the text of the certificate."""
    path = folder / "certificate.json"
    path.write_text(edit(path.read_text()))


def replace_file(name, make):
    """Replace a file by what ``make`` makes at its path."""

    def planted(folder):
        path = folder / name
        kept_aside = path.rename(folder.parent / "aside")
        make(path, kept_aside)
        if path.is_file() and name != "certificate.json":
            content = json.loads((folder / "certificate.json").read_text())
            renew(folder, content, [name.removesuffix(".npy")])

    return planted


def bytes_changed(change):
    return replace_file("w.npy", lambda path, aside: path.write_bytes(change(aside.read_bytes())))


def header(text):
    """A file of version 1.0 with this header."""
    stored = text.encode("latin-1")
    return bytes_changed(
        lambda old: b"\x93NUMPY\x01\x00" + len(stored).to_bytes(2, "little") + stored + old[-24:]
    )


RIGHT = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}"
BROKEN = {
    "a path outside": lambda folder: raw(folder, lambda text: text.replace('"w.npy"', '"../w.npy"')),
    "an absolute path": lambda folder: raw(folder, lambda text: text.replace('"w.npy"', '"/dev/zero"')),
    "another hash": lambda folder: raw(folder, lambda text: text.replace('"w.npy": "', '"w.npy": "0')),
    "a hash that is a number": lambda folder: raw(
        folder, lambda text: text.replace('"w.npy": "', '"w.npy": 1, "v": "')
    ),
    "a field twice": lambda folder: raw(folder, lambda text: text.replace('"l2"', '"l2": 5.0, "l2"', 1)),
    "half a certificate": lambda folder: raw(folder, lambda text: text[:-5]),
    "a certificate of numbers": lambda folder: raw(folder, lambda text: "[1, 2]"),
    "a deep certificate": lambda folder: raw(folder, lambda text: "[" * 100_000),
    "a certificate in no text": lambda folder: (folder / "certificate.json").write_bytes(b"\xff\xfe{}"),
    "a large certificate": lambda folder: raw(folder, lambda text: text + " " * 2**20),
    "a link": replace_file("w.npy", lambda path, aside: path.symlink_to(aside)),
    "a pipe": replace_file("w.npy", lambda path, aside: os.mkfifo(path)),
    "a folder": replace_file("w.npy", lambda path, aside: path.mkdir()),
    "no file": replace_file("w.npy", lambda path, aside: None),
    "a large file": bytes_changed(lambda old: old + bytes(2**20)),
    "a byte too much": bytes_changed(lambda old: old + b"\x00"),
    "a byte too few": bytes_changed(lambda old: old[:-1]),
    "no bytes": bytes_changed(lambda old: b""),
    "no magic": bytes_changed(lambda old: b"\x93NUMPX" + old[6:]),
    "version 3": bytes_changed(lambda old: old[:6] + b"\x03\x00" + old[8:]),
    "a header that does not end": bytes_changed(lambda old: old[:8] + b"\xff\xff" + old[10:]),
    "a header that calls": header("__import__('os').abort()"),
    "a header of another order": header(RIGHT.replace("False", "True")),
    "a header of objects": header(RIGHT.replace("<f8", "|O")),
    "a negative shape": header(RIGHT.replace("(3,)", "(-3,)")),
    "a shape of truth values": header(RIGHT.replace("(3,)", "(3, True)")),
    "a shape that is a list": header(RIGHT.replace("(3,)", "[3]")),
    "a huge shape": header(RIGHT.replace("(3,)", "(2**70,)")),
    "a long shape": header(RIGHT.replace("(3,)", "(99999999999999999999,)")),
    "another field of the header": header(RIGHT.replace("{", "{'x': 1, ")),
    "a deep header": header("(" * 3000),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders_are_refused(name, kept, tmp_path, capsys):
    folder = copy_of(kept("weights"), tmp_path / "broken", lambda content, arrays: None)
    BROKEN[name](folder)
    assert fractions_.main(folder) == 1
    assert capsys.readouterr().out.startswith("refused: ")


def test_both_versions_of_files_are_read(kept, tmp_path):
    folder = copy_of(kept("weights"), tmp_path / "broken", lambda content, arrays: None)
    header(RIGHT)(folder)
    assert fractions_.main(folder) == 0
    stored = (folder / "w.npy").read_bytes()
    (folder / "w.npy").write_bytes(stored[:6] + b"\x02\x00" + stored[8:10] + b"\x00\x00" + stored[10:])
    renew(folder, json.loads((folder / "certificate.json").read_text()), ["w"])
    assert np.array_equal(np.load(folder / "w.npy"), np.load(kept("weights") / "w.npy"))
    assert fractions_.main(folder) == 0


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    assert fractions_.main(tmp_path / "nowhere") == 1


# --- the program ------------------------------------------------------------------------------------------------------


def test_the_program_needs_the_standard_library_alone():
    imported = set()
    for node in ast.walk(ast.parse(PROGRAM.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").split(".")[0])
    assert imported <= set(sys.stdlib_module_names)


def test_the_program_runs_without_the_package(kept, tmp_path):
    program = shutil.copy(PROGRAM, tmp_path / "program.py")
    forged = copy_of(kept("walk"), tmp_path / "forged", claim(gap=0.0))
    for folder, code in ((kept("walk"), 0), (forged, 1)):
        arguments = [sys.executable, "-I", "-S", program, folder]
        found = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert found.returncode == code, found.stderr
        assert found.stdout.startswith("refused" if code else "proved")


def test_the_command(kept, tmp_path, capsys):
    assert command(["check", "--fractions", str(kept("walk"))]) == 0
    assert capsys.readouterr().out.startswith("proved: PageRank, distance, at most ")
    assert command(["check", "--fractions", str(tmp_path / "nowhere")]) == 1
