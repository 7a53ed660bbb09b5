"""Check an exported certificate: ``python check.py FOLDER [FOLDER OF LARGE FILES]``. It runs alone.

It imports numpy and python-flint, and nothing of convexrank. Numbers in the folder are floats, hence rational; all is
evaluated in balls, which enclose the truth. Whoever wrote the folder is not trusted: ``PROBLEMS`` and ``shapes`` list
all that it may hold, with ranges and sizes; everything else is refused.

Kind "global": F(w) = R(Xw) + l2/2·|w|² + l1·|w|₁, for w in a ball if there is one, has F(w) − min F ≤ gap. Tangents of
the risk R at points, with weights that sum to 1, add up to R(Xv) ≥ C + <s, v> for all v, so min F ≥ C − Ω*(−s),
Ω = F − R. That R is convex follows from how it is put together (``add``, ``through``), whatever the folder says.

Kind "distance": the map of a rank contracts by a factor c and moves x by d, so x is at most d/(1 − c) from its rank.
"""

# fmt: off
import hashlib
import io
import json
import math
import os
import stat
import sys
import time
from functools import reduce
from itertools import accumulate, groupby, pairwise
from pathlib import Path

import numpy as np
from flint import arb, arb_mat, ctx

NIL, ONE = arb(0), arb(1)
OUTSIDE = 1 + arb(2) ** -30  # how far outside its ball w may be by rounding, as a factor
# More is refused: bytes of certificate.json, entries of a file, terms of a risk or edges, seconds, steps of a spectrum.
TEXT, ENTRIES, TERMS, SECONDS, STEPS = 1_000_000, 20_000_000, 2_000_000, 1800, 200  # it fits into 4 GB

def need(true, message):
    if not true:
        raise ValueError(message)
def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), NIL)
def total(numbers):
    return sum(map(arb, numbers), NIL)
def power(x, p):  # of a number that is not negative
    need(x > 0 or p >= 0, "a power of 0 is not finite")
    return x**p if x > 0 else ONE if p == 0 else NIL.union(x.upper() ** p) if x.upper() > 0 else NIL
def length(x):
    return power(dot(x, x), arb(1) / 2)

# --- convex functions of the scores -----------------------------------------------------------------------------------
class Convex:
    """A convex function of the scores: its value at a point, and a minorant Σ factor · part, ``slack`` below there."""
    def __init__(self, value, slack=NIL, parts=(), affine=True):
        self.value, self.slack, self.parts, self.affine = value, slack, parts, affine
        self.height = 1 + max((part.height for _, part in parts), default=-1)

    def slopes(self):  # of the scores, which have no parts
        levels = [{} for _ in range(self.height)] + [{self: ONE}]
        while len(levels) > 1:
            for node, weight in levels.pop().items():
                for factor, part in node.parts:
                    levels[part.height][part] = levels[part.height].get(part, NIL) + weight * factor
        return levels[0]

def add(*terms):  # pairs (factor, part)
    need(all(part.affine or factor >= 0 for factor, part in terms), "a convex part has a negative factor")
    slack = sum((factor * f.slack for factor, f in terms if not f.affine), NIL)
    return Convex(sum((a * f.value for a, f in terms), NIL), slack, terms, all(f.affine for _, f in terms))
def through(line, f):  # line: value, slope and slack at x of a convex function of x
    value, slope, slack = line(f.value)
    need(f.affine or not slope < 0, "a function that decreases is taken of a convex part")
    return Convex(value, slack + slope * f.slack, ((slope, f),), affine=False)
def log_sum_exp(side, t, rate=1.0, mean=True):  # log(Σ a e^(rate·t) / Σ a) / |rate|; without Σ a if it is no mean
    masses = [(t[r], (rate * t[r].value).exp() * a) for r, a in side]
    whole, size = total(mass for _, mass in masses), total(a for _, a in side) if mean else ONE
    shares = [(math.copysign(1.0, rate) * mass / whole, score) for score, mass in masses]
    return Convex((whole / size).log() / abs(arb(rate)), NIL, shares, affine=False)
def highest(side, mass):  # the mean of the highest, so much weight of them; shares that fit are a minorant, ties share
    falling, shares, above, left = sorted(side, key=lambda one: -float(one[1].value)), [], NIL, mass
    tops = list(accumulate((f.value for _, f in falling[::-1]), arb.max))[::-1]
    steps = groupby(zip(falling, tops, strict=True), key=lambda one: float(one[0][1].value))
    for tied in (list(step) for _, step in steps):
        part = (whole := total(a for (a, _), _ in tied)).min(left)
        shares += [(a * part / whole / mass, f) for (a, f), _ in tied]
        above, left = above + part / mass * tied[0][1], left - part
    value = above if all(mass <= a for a, _ in side) else above.union(total(a * f.value for a, f in shares))
    return Convex(value, value - total(a * (f.value - f.slack) for a, f in shares), shares, affine=False)
def spectral(side, ends, heights, counted, **_):  # Σ σ_[k] t_[k], by means of the highest
    whole = total(a for a, _ in side)
    means = [((arb(high) - low) * end, highest(side, (end * (ONE if counted else whole)).min(whole)))
             for end, high, low in zip(ends, heights, [*heights[1:], 0], strict=True)]
    need(abs(total(factor for factor, _ in means) - 1) <= 1e-9, "the spectrum does not add up to 1")
    return add(*means)
def softplus(x):
    return x.exp().log1p(), 1 / (1 + (-x).exp()), NIL

# --- what a folder may hold: parameters and their ranges, those of the constructors of convexrank ---------------------
def real(x):
    return type(x) in (int, float) and abs(x) <= sys.float_info.max
def positive(x):
    return real(x) and 1e-300 <= x <= 1e300
def not_negative(x):
    return (real(x) and x == 0) or positive(x)
def one_of(*words):
    return lambda x: type(x) is str and x in words
def flag(x):
    return type(x) is bool
def has(d, fields, where):  # these fields and no others, each in its range
    need(type(d) is dict and d.keys() == fields.keys(), f"{where} does not have the fields {', '.join(fields)}")
    for name, allowed in fields.items():
        need(allowed(d[name]), f"{name} is out of range")
    return True
def function(table):  # {"type": a name of the table, and the parameters of that function}
    def allowed(x):
        need(type(x) is dict and type(x.get("type")) is str and x["type"] in table, "no function has this type")
        return has(x, {"type": one_of(*table), **table[x["type"]][0]}, x["type"])
    return allowed

LOSSES = {  # parameters, and ℓ(−x), which is convex and does not decrease: value, slope and slack of a minorant
    "Exponential": ({}, lambda x: (x.exp(), x.exp(), NIL)),
    "Logistic": ({"base": lambda b: positive(b) and b > 1},
                 lambda x, base: [v / (ONE if base == math.e else arb(base).log()) for v in softplus(x)]),
    "Hinge": ({}, lambda x: ((1 + x).max(NIL),
                             *((ONE, (-1 - x).max(NIL)) if float(x) > -1 else (NIL, (1 + x).max(NIL))))),
    "SquaredHinge": ({}, lambda x: ((1 + x).max(NIL) * (1 + x).max(NIL), 2 * (1 + x).max(NIL), NIL)),
}
PRICES = {  # parameters, and g(r) for r ≥ 0, which does not decrease; g(eᵃ) is convex in a for each
    "Identity": ({}, lambda r: (r, ONE, NIL)),
    "Power": ({"p": positive}, lambda r, p: (power(r, p), p * power(r, arb(p) - 1), NIL)),
    "LogOnePlus": ({}, lambda r: (r.log1p(), 1 / (1 + r), NIL)),
    "ExpPrice": ({"scale": positive}, lambda r, scale: ((scale * r).exp(), scale * (scale * r).exp(), NIL)),
}
MARGINS = {name: LOSSES[name] for name in ("Hinge", "SquaredHinge")}
WORTH = {"softmax": lambda y: arb(y).exp(), "exp2": lambda y: arb(2) ** arb(y) - 1, "linear": arb}
LINEAR, FLOOR = {"l2": not_negative, "l1": not_negative}, lambda x: x is None or positive(x)
DAMPING, LONG = {"alpha": lambda x: real(x) and 0 <= x < 1}, lambda x: real(x) and x >= 1
RATES = {"max_fpr": lambda x: positive(x) and x <= 1, "min_tpr": lambda x: x is None or (positive(x) and x < 1)}
def rising(x):
    return type(x) is list and 0 < len(x) <= STEPS and all(map(positive, x)) and all(a < b for a, b in pairwise(x))
SPECTRA = {"Spectrum": ({"ends": rising, "heights": lambda x: type(x) is list and rising(x[::-1]), "counted": flag}, 0)}
PROBLEMS = {
    "PNormPush": {"p": positive, **LINEAR},
    "BottomPush": {"p": positive, **LINEAR},
    "TopBottomPush": {"p": positive, "bottom_weight": not_negative, **LINEAR},
    "TopPush": LINEAR,
    "IRPush": LINEAR,
    "RmaxPush": {"loss": function(LOSSES), **LINEAR},
    "SpectralPush": {"spectrum": function(SPECTRA), "loss": function(LOSSES), **LINEAR},
    "PartialAUC": {**RATES, "loss": function(LOSSES), **LINEAR},
    "Push": {"price": function(PRICES), "loss": function(LOSSES), **LINEAR},
    "ConvexRisk": {"loss": function(LOSSES), **LINEAR},
    "RankSVM": {"loss": function(MARGINS), "normalize": flag, **LINEAR},
    "ListNet": {"target": one_of(*WORTH), "normalize": flag, **LINEAR},
    "PageRank": {"dangling": one_of("teleport", "uniform", "drop"), **DAMPING},
    "LpqRank": {"p": LONG, "q": LONG, "weak_links": one_of("inside", "entry", "outside"),
                "outdegree_floor": FLOOR, **DAMPING},
}
RANKS, QUERIES = ("PageRank", "LpqRank"), ("RankSVM", "ListNet")
NEVER_NEGATIVE = ("RmaxPush", "SpectralPush", "PartialAUC", "IRPush", "Push", "ConvexRisk", "RankSVM", "ListNet")

def contents(text) -> dict:  # certificate.json
    def once(pairs):
        need(len(dict(pairs)) == len(pairs), "a field is there twice")
        return dict(pairs)
    d: dict = json.loads(text, object_pairs_hook=once)
    need(type(d) is dict and type(d.get("problem")) is str and d["problem"] in PROBLEMS, "no problem has this name")
    fields = {"problem": str, **PROBLEMS[d["problem"]], "claim": lambda x: type(x) is dict, "files": has_files}
    if d["problem"] == "ConvexRisk" and "ball" in d:
        fields |= {"ball": one_of("L1", "L2"), "radius": positive}
    has(d, fields, "certificate.json")
    kind = "distance" if d["problem"] in RANKS else "global"
    has(d["claim"], {"kind": one_of(kind), "gap": lambda x: real(x) and x >= 0, "value": real}, "the claim")
    need(kind == "global" or d["claim"]["value"] == 0, "a rank has no value")
    steps = d.get("spectrum")
    fits = not steps or (len(steps["ends"]) == len(steps["heights"]) and (steps["counted"] or steps["ends"][-1] <= 1))
    need(fits, "the ends do not fit")
    price = d.get("price", {})
    need((price.get("type") != "LogOnePlus" and price.get("p", 1) >= 1) or d["loss"]["type"] == "Exponential",
         "the risk is not convex")
    return d
def has_files(files):
    return type(files) is dict and all(type(digest) is str for digest in files.values())

def shapes(d):  # of the files, by names of sizes
    if d["problem"] in RANKS:
        files = {"offsets": ("n + 1",), "sources": ("m",), "weights": ("m",), "x": ("n",)}
        return files | ({"teleport": ("n",)} if d["problem"] == "PageRank" else {})
    files = {"X": ("n", "d"), "y": ("n",), "weight": ("n",), "query": ("n",), "w": ("d",)}
    evidence = {"witness_points": ("k", "d"), "witness_weights": ("k",)}
    return files | (evidence if "witness_points.npy" in d["files"] else {})

def opened(path, most):  # the bytes of a file that is a file, and not too large
    plain = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, plain), "rb") as file:
        info = os.fstat(file.fileno())
        need(stat.S_ISREG(info.st_mode) and info.st_size <= most, f"{path.name} is no file of at most {most} bytes")
        return file.read(most)
def array(name, folder, large, digest):
    path = (folder if os.path.lexists(folder / name) else large) / name
    raw = opened(path, 8 * ENTRIES + 4096)
    need(hashlib.sha256(raw).hexdigest() == digest, f"{name} is another file: its SHA-256 differs")
    stream = io.BytesIO(raw)
    need(np.lib.format.read_magic(stream) == (1, 0), f"{name} is in another format")
    shape, by_columns, kind = np.lib.format.read_array_header_1_0(stream)
    need(kind.str in ("<f8", "<f4", "<i8", "<i4"), f"{name} holds {kind} and not numbers")
    need(all(type(size) is int and size >= 0 for size in shape) and not by_columns
         and math.prod(shape) * kind.itemsize == len(raw) - stream.tell(), f"{name} has another size than it says")
    values = np.frombuffer(raw, kind, offset=stream.tell()).reshape(shape)
    need(np.isfinite(values).all(), f"{name} has entries that are no finite numbers")
    return values

def load(folder, large):
    d = contents(opened(folder / "certificate.json", TEXT).decode())
    expected, sizes = shapes(d), {}
    need(d["files"].keys() == {f"{name}.npy" for name in expected}, f"the files are not {', '.join(expected)}")
    for name, axes in expected.items():
        d[name] = array(f"{name}.npy", folder, large, d["files"][f"{name}.npy"])
        need(d[name].ndim == len(axes), f"{name} has another number of axes")
        for axis, size in zip(axes, d[name].shape, strict=True):
            count = size - 1 if axis == "n + 1" else size
            need(sizes.setdefault(axis.removesuffix(" + 1"), count) == count, f"{name} has another length")
    need(min(sizes[axis] for axis in sizes if axis != "m") > 0, "a file is empty")
    (check_graph if d["problem"] in RANKS else check_rows)(d)
    return d
def in_range(values):  # weights, some of which are above 0
    above = values[values > 0].tolist()
    need(values.min() >= 0 and above and min(above) >= 1e-300 and max(above) <= 1e300 / len(above),
         "weights are out of range")

def check_rows(d):
    n, bipartite = len(d["y"]), d["problem"] not in ("ConvexRisk", *QUERIES)
    need(n <= TERMS, f"there are more than {TERMS} rows")
    in_range(d["weight"])
    in_range(d.get("witness_weights", d["weight"]))
    need(float(np.abs(d["X"]).max()) <= 1e150, "X has entries beyond 1e150")
    need(np.all(d["weight"] == 1) if d["problem"] in QUERIES else not d["query"].any(), "weight and query do not fit")
    need(d["query"].dtype.kind == "i" and d["query"].min() >= 0, "query holds no numbers of queries")
    y, weight = d["y"].tolist(), d["weight"].tolist()
    rows = [(r, a) for r, a in enumerate(weight) if a > 0]
    d["pos"], d["neg"] = ([(r, a) for r, a in rows if y[r] == label] for label in (1, 0))
    need(not bipartite or (d["pos"] and d["neg"] and set(y) == {0, 1}), "y has not the classes 0 and 1")
    queries, pairs = {}, 0
    for r, _ in rows:
        queries.setdefault(int(d["query"][r]), {}).setdefault(y[r], []).append(r)
    d["levels"] = [levels for levels in queries.values() if len(levels) > 1]  # others have no order
    need(d["levels"], "there is nothing to rank")
    for levels in d["levels"]:
        sizes = [len(level) for level in levels.values()]
        pairs += (sum(sizes) ** 2 - sum(size * size for size in sizes)) // 2
    name = d["problem"]
    listed = name in ("ConvexRisk", "RankSVM", "PartialAUC") or (name == "Push" and d["loss"]["type"] != "Exponential")
    n *= len(d.get("spectrum", {"ends": [1]})["ends"])  # rows count once on each step
    need(n + listed * pairs <= TERMS, f"the risk has more than {TERMS} terms")

def check_graph(d):
    offsets, sources, n = d["offsets"], d["sources"], len(d["x"])
    need(offsets.dtype.kind == sources.dtype.kind == "i", "offsets and sources are no integers")
    need(offsets[0] == 0 and offsets[-1] == len(sources) and (offsets[1:] >= offsets[:-1]).all(), "offsets do not rise")
    need(n + len(sources) <= TERMS, f"there are more than {TERMS} nodes and edges")
    need(all(0 <= j < n for j in sources.tolist()), "sources are out of range")
    need(all(i < j for begin, end in pairwise(offsets.tolist()) for i, j in pairwise(sources[begin:end].tolist())),
         "sources of a node do not rise")
    need(min(d["weights"].tolist(), default=0) >= 0, "a weight is negative")
    v = d.get("teleport", np.ones(1))
    need(min(v) >= 0 and max(v) > 0, "teleport is no distribution")

# --- kind "global" ----------------------------------------------------------------------------------------------------
def lists(d, t):  # Σ c (Σ p log p + log Σ eˢ − <p, s>) over queries, p the distribution that the grades ask for
    terms = []
    for levels in d["levels"]:
        need(d["target"] == "softmax" or (min(levels) >= 0 and max(levels) <= 980), "a grade is out of range")
        rows = [(r, WORTH[d["target"]](y)) for y, level in levels.items() for r in level]
        whole, scale = total(worth for _, worth in rows), ONE / (len(rows) if d["normalize"] else 1)
        need(whole > 0, "a query asks for no distribution")
        shares = [(r, worth / whole) for r, worth in rows]
        constant = Convex(total(p * p.log() for _, p in shares if not p.is_zero()))
        terms += [(scale, constant), (scale, log_sum_exp([(r, 1.0) for r, _ in rows], t, mean=False))]
        terms += [(-scale * p, t[r]) for r, p in shares]
    return add(*terms)

def named(table, c):
    numbers = {name: number for name, number in c.items() if name != "type"}
    return lambda x: table[c["type"]][1](x, **numbers)

def risk(d, t):  # d holds data and parameters, t the scores; pos and neg are pairs (row, weight)
    name, pos, neg = d["problem"], d["pos"], d["neg"]
    if name == "ListNet":
        return lists(d, t)
    if name in ("PNormPush", "BottomPush", "TopBottomPush"):
        p, beta = d["p"], arb(d.get("bottom_weight", 1))
        push = [(ONE, log_sum_exp(pos, t, -1.0)), (ONE, log_sum_exp(neg, t, p))]
        pull = [(beta, log_sum_exp(pos, t, -p)), (beta, log_sum_exp(neg, t))]
        return add(*{"PNormPush": push, "BottomPush": pull, "TopBottomPush": push + pull}[name])
    if name == "TopPush":
        return add((ONE, log_sum_exp(pos, t, -1.0)), (ONE, highest([(ONE, t[k]) for k, _ in neg], ONE)))
    if name in ("RmaxPush", "SpectralPush", "IRPush"):
        share, line = 1 / total(a for _, a in pos), softplus if name == "IRPush" else named(LOSSES, d["loss"])
        level = (log_sum_exp(neg, t, mean=False) if name == "IRPush" else
                 spectral([(b, t[k]) for k, b in neg], **d["spectrum"]) if name == "SpectralPush" else
                 highest([(ONE, t[k]) for k, _ in neg], ONE))
        return add(*((a * share, through(line, add((ONE, level), (-ONE, t[i])))) for i, a in pos))
    line, price = named(LOSSES, d["loss"]), named(PRICES, d.get("price", {"type": "Identity"}))
    if name == "Push" and d["loss"]["type"] == "Exponential":  # g(eᵃ) of a, a log-sum-exp
        level = log_sum_exp(pos, t, -1.0, mean=False)
        both = lambda a: (price(a.exp())[0], price(a.exp())[1] * a.exp(), NIL)  # noqa: E731
        return add(*((b, through(both, add((ONE, level), (ONE, t[k])))) for k, b in neg))
    if name in ("Push", "PartialAUC"):
        lost = [(b, [(a, through(line, add((ONE, t[k]), (-ONE, t[i])))) for i, a in pos]) for k, b in neg]
        if name == "Push":
            return add(*((b, through(price, add(*one))) for b, one in lost))
        low, top = (1 - (d["min_tpr"] or 0)) * total(a for _, a in pos), d["max_fpr"] * total(b for _, b in neg)
        return highest([(b, highest(one, low)) for b, one in lost], top)
    need(name in ("ConvexRisk", "RankSVM"), "the risk is not written down")
    a, whole, terms = d["weight"].tolist(), total(d["weight"].tolist()), []
    need(name == "RankSVM" or whole > 1, "the weights do not sum to more than 1")
    for levels in d["levels"]:
        pairs = [(i, j) for up in levels for low in levels if up > low for i in levels[up] for j in levels[low]]
        scale = 2 / (whole * (whole - 1)) if name == "ConvexRisk" else ONE / (len(pairs) if d["normalize"] else 1)
        terms += [(scale * a[i] * a[j], through(line, add((ONE, t[j]), (-ONE, t[i])))) for i, j in pairs]
    return add(*terms)

def conjugate(d, s, reach):  # Ω*(−s), or more; reach is the most that |w|₁ of the minimiser can be
    l2, r, rest = arb(d["l2"]), d.get("radius"), [(abs(x) - d["l1"]).max(NIL) for x in s]
    if d.get("ball") == "L2" and (not d["l2"] or length(rest) >= l2 * r):
        return length(rest) * r - l2 * r * r / 2
    if d.get("ball") == "L1" and d["l2"]:  # any multiplier of the constraint gives a bound, the best one is this
        sizes = np.sort([float(x) for x in rest])[::-1]
        best = arb(max(0.0, np.max((np.cumsum(sizes) - d["l2"] * r) / np.arange(1, len(sizes) + 1))))
        left = [(x - best).max(NIL) for x in rest]
        return dot(left, left) / (2 * l2) + best * r
    return dot(rest, rest) / (2 * l2) if d["l2"] else reduce(arb.max, rest) * reach

def gap_of(d, until):  # returns F(w) and a bound on F(w) − min F
    X, w, l2, l1 = arb_mat(d["X"].tolist()), d["w"].tolist(), arb(d["l2"]), arb(d["l1"])
    def tangent(point):  # R, C and s
        need(time.monotonic() < until, f"it takes more than {SECONDS} seconds")
        nodes = [Convex(score) for score in (X * arb_mat(len(point), 1, point)).entries()]
        found = risk(d, nodes)
        slopes = found.slopes()
        slope = (arb_mat(1, len(nodes), [slopes.get(node, NIL) for node in nodes]) * X).entries()
        return found.value, found.value - found.slack - dot(slope, point), slope
    here, sizes = tangent(w), {"L1": total(map(abs, w)), "L2": length(list(map(arb, w)))}
    value, minorants = here[0] + dot(w, map(arb, w)) * l2 / 2 + sizes["L1"] * l1, [here[1:]]
    if "witness_points" in d:
        tangents, weights = [tangent(point) for point in d["witness_points"].tolist()], d["witness_weights"].tolist()
        shares = [a / total(weights) for a in weights]
        slope = [dot(shares, column) for column in zip(*(s for _, _, s in tangents), strict=True)]
        minorants.append((dot(shares, (c for _, c, _ in tangents)), slope))
    need("ball" not in d or sizes[d["ball"]] <= d["radius"] * OUTSIDE, "the point lies outside its ball")
    gaps = [value] if d["problem"] in NEVER_NEGATIVE else []
    if "ball" in d or d["l2"] or (d["l1"] and gaps):  # without a ball and l2, the value bounds l1·|w|₁ of the minimiser
        reach = arb(d["radius"]) if "ball" in d else value / l1 if d["l1"] else NIL
        gaps += [value - c + conjugate(d, s, reach) for c, s in minorants]
    need(gaps, "nothing bounds the minimiser")
    return value, min(gaps, key=lambda gap: float(gap.upper()))

# --- kind "distance" --------------------------------------------------------------------------------------------------
def distance_of(d, until):  # returns 0, for the value, and d/(1 − c)
    n, alpha, x, ends = len(d["x"]), arb(d["alpha"]), list(map(arb, d["x"].tolist())), d["offsets"].tolist()
    need(time.monotonic() < until, f"it takes more than {SECONDS} seconds")
    edges = list(zip(d["sources"].tolist(), d["weights"].tolist(), strict=True))
    floor, weak, out = arb(d.get("outdegree_floor") or 0), (1 - alpha) / n, [NIL] * n
    for j, weight in edges:
        out[j] += weight
    lost = [a.is_zero() for a in out]
    need(all(zero or 2.0**-1022 <= a < 2.0**1023 for a, zero in zip(out, lost, strict=True)), "weights leave the range")
    into = [[(j, a / out[j].max(floor)) for j, a in edges[begin:end]] for begin, end in pairwise(ends)]
    if d["problem"] == "PageRank":
        v = [a / total(d["teleport"].tolist()) for a in d["teleport"].tolist()]
        escape = {"teleport": v, "uniform": [ONE / n] * n, "drop": [NIL] * n}[d["dangling"]]
        adrift = total(r for r, gone in zip(x, lost, strict=True) if gone)
        flows = [total(a * x[j] for j, a in into[i]) + adrift * escape[i] for i in range(n)]
        return NIL, total(abs(alpha * flows[i] + (1 - alpha) * v[i] - x[i]) for i in range(n)) / (1 - alpha)
    p, theta, kind, logs = arb(d["p"]), arb(d["p"]) / d["q"], d["weak_links"], []
    need(theta < 1 and min(d["x"]) > 0, "the map is no contraction")
    beneath, link = weak if kind == "inside" else NIL, ONE if kind == "outside" else alpha
    common = [(link * int(gone) / n + beneath) * r for r, gone in zip(x, lost, strict=True)]
    base = total(power(y, p) for y in common + [weak * total(x)] * (kind == "entry"))
    for i in range(n):
        flow = total((power(link * a + beneath, p) - power(beneath, p)) * x[j] ** p for j, a in into[i])
        image, rest = power(base + flow, theta / p), weak * total(x) ** theta
        logs.append(((alpha * image + rest if kind == "outside" else image) / x[i]).log())
    return NIL, (reduce(arb.max, logs) - reduce(arb.min, logs)) / (1 - theta)

def main(folder, large="."):
    """Print what was checked, or why it is refused; return 0 or 1."""
    try:
        d, until = load(Path(folder), Path(large)), time.monotonic() + SECONDS
        claim, bound = d["claim"], distance_of if d["problem"] in RANKS else gap_of
        for bits in (128, 256, 512, 1024, 2048):
            with ctx.workprec(bits):
                value, gap = bound(d, until)
                if gap <= claim["gap"] and abs(value - claim["value"]) <= (1 + abs(value)) * 2.0**-52:
                    print(f"proved: {d['problem']}, {claim['kind']}, at most {claim['gap']}")
                    return 0
        raise ValueError(f"the gap is at most {float(gap.upper())}, the value is {float(value)}")
    except Exception as error:  # noqa: BLE001 - whatever a folder does to this program, it is not confirmed
        print(f"refused: {error!r}")
        return 1

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
