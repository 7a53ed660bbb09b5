"""Check a certificate of kind "global": ``python check.py FOLDER [FOLDER OF LARGE FILES]``. It runs alone.

It imports numpy and python-flint, and nothing of convexrank; check_ranks.py does the same for ranks of graphs. Numbers
in the folder are floats, hence rational; all is evaluated in balls, which enclose the truth. Claimed is that F(w) =
R(Xw) + l2/2·|w|² + l1·|w|₁, for w in a ball if there is one, has F(w) − min F ≤ gap. Tangents of the convex risk R at
points, with weights that sum to 1, add up to R(Xv) ≥ C + <s, v> for all v, so min F ≥ C − Ω*(−s), Ω = F − R.
"""

# fmt: off
import hashlib
import json
import math
import sys
from functools import reduce
from pathlib import Path

import numpy as np
from flint import arb, arb_mat, ctx

NIL, ONE = arb(0), arb(1)
NEVER_NEGATIVE = ("RmaxPush", "IRPush", "Push", "ConvexRisk", "RankSVM", "ListNet")
OUTSIDE = 1 + arb(2) ** -30  # how far outside its ball w may be by rounding, as a factor

def need(true, message):
    if not true:
        raise ValueError(message)
def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), NIL)
def total(numbers):
    return sum(map(arb, numbers), NIL)
def power(x, p):  # of a number that is not negative
    return x**p if x > 0 else ONE if p == 0 else NIL.union(x.upper() ** p) if x.upper() > 0 else NIL
def length(x):
    return power(dot(x, x), arb(1) / 2)

class Convex:
    """A convex function of the scores: its value at a point, and a minorant Σ factor · part, ``slack`` below there."""
    def __init__(self, value, slack=NIL, parts=()):
        self.value, self.slack, self.parts = value, slack, parts
        self.height = 1 + max((part.height for _, part in parts), default=-1)

    def slopes(self):  # of the scores, which have no parts
        levels = [{} for _ in range(self.height)] + [{self: ONE}]
        while len(levels) > 1:
            for node, weight in levels.pop().items():
                for factor, part in node.parts:
                    levels[part.height][part] = levels[part.height].get(part, NIL) + weight * factor
        return levels[0]

def add(*terms):  # pairs (factor, part); a factor is negative only where the part is affine, whose slack is 0
    slack = sum((a * f.slack for a, f in terms if f.parts), NIL)
    return Convex(sum((a * f.value for a, f in terms), NIL), slack, terms)
def through(line, f):  # line: value, slope and slack of a convex function of x, not decreasing unless f is affine
    value, slope, slack = line(f.value)
    return Convex(value, slack + slope * f.slack, ((slope, f),))
def log_sum_exp(side, t, rate=1.0, mean=True):  # log(Σ a e^(rate·t) / Σ a) / |rate|; without Σ a if it is no mean
    masses = [(t[r], (rate * t[r].value).exp() * a) for r, a in side]
    whole, size = total(mass for _, mass in masses), total(a for _, a in side) if mean else ONE
    shares = [(math.copysign(1.0, rate) * mass / whole, score) for score, mass in masses]
    return Convex((whole / size).log() / abs(arb(rate)), NIL, shares)
def highest(scores):  # any of them is a minorant, and so is the mean of some
    value, most = reduce(arb.max, [f.value for f in scores]), max(float(f.value) for f in scores)
    tied = [f for f in scores if float(f.value) == most]
    return Convex(value, value - total(f.value for f in tied) / len(tied), [(ONE / len(tied), f) for f in tied])

def softplus(x):  # value, slope of a minorant, and its slack
    return x.exp().log1p(), 1 / (1 + (-x).exp()), NIL
LOSSES = {  # ℓ(−x), which do not decrease in x
    "Exponential": lambda x: (x.exp(), x.exp(), NIL),
    "Logistic": lambda x, base: [v / (ONE if base == math.e else arb(base).log()) for v in softplus(x)],
    "Hinge": lambda x: ((1 + x).max(NIL), *((ONE, (-1 - x).max(NIL)) if float(x) > -1 else (NIL, (1 + x).max(NIL)))),
    "SquaredHinge": lambda x: ((1 + x).max(NIL) * (1 + x).max(NIL), 2 * (1 + x).max(NIL), NIL),
}
PRICES = {
    "Identity": lambda r: (r, ONE, NIL),
    "Power": lambda r, p: (power(r, p), p * power(r, p - 1), NIL),
    "LogOnePlus": lambda r: (r.log1p(), 1 / (1 + r), NIL),
    "ExpPrice": lambda r, scale: ((scale * r).exp(), scale * (scale * r).exp(), NIL),
}

WORTH = {"softmax": lambda y: arb(y).exp(), "exp2": lambda y: arb(2) ** arb(y) - 1, "linear": arb}

def lists(d, t):  # Σ c (Σ p log p + log Σ eˢ − <p, s>) over queries, p the distribution that the grades ask for
    terms = []
    for rows in d["queries"]:
        worth = [WORTH[d["target"]](y) for y in d["y"][rows].tolist()]
        need(all(x >= 0 for x in worth) and total(worth) > 0, "a query asks for no distribution")
        shares, scale = [x / total(worth) for x in worth], ONE / (len(rows) if d["normalize"] else 1)
        constant = Convex(total(p * p.log() for p in shares if not p.is_zero()))
        terms += [(scale, constant), (scale, log_sum_exp([(r, 1.0) for r in rows], t, mean=False))]
        terms += [(-scale * p, t[r]) for p, r in zip(shares, rows, strict=True)]
    return add(*terms)

def named(table, c):
    function, numbers = table[c["type"]], [number for name, number in c.items() if name != "type"]
    need(min(numbers, default=1.0) > 0 and c.get("base", math.e) > 1, "a parameter is out of range")
    return lambda x: function(x, *numbers)

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
        return add((ONE, log_sum_exp(pos, t, -1.0)), (ONE, highest([t[k] for k, _ in neg])))
    if name in ("RmaxPush", "IRPush"):
        worst, share = name == "RmaxPush", 1 / total(a for _, a in pos)
        level = highest([t[k] for k, _ in neg]) if worst else log_sum_exp(neg, t, mean=False)
        line = named(LOSSES, d["loss"]) if worst else softplus
        return add(*((a * share, through(line, add((ONE, level), (-ONE, t[i])))) for i, a in pos))
    line, price = named(LOSSES, d["loss"]), named(PRICES, d.get("price", {"type": "Identity"}))
    if name == "Push" and d["loss"]["type"] == "Exponential":  # g(eᵃ) of a, a log-sum-exp
        level = log_sum_exp(pos, t, -1.0, mean=False)
        both = lambda a: (price(a.exp())[0], price(a.exp())[1] * a.exp(), NIL)  # noqa: E731
        return add(*((b, through(both, add((ONE, level), (ONE, t[k])))) for k, b in neg))
    if name == "Push":
        need(d["price"].get("p", 1.0) >= 1 and d["price"]["type"] != "LogOnePlus", "the risk is not convex")
        sums = [(b, add(*((a, through(line, add((ONE, t[k]), (-ONE, t[i])))) for i, a in pos))) for k, b in neg]
        return add(*((b, through(price, whole)) for b, whole in sums))
    need(name in ("ConvexRisk", "RankSVM"), f"no risk is known by the name {name}")
    a, y, terms = d["weight"].tolist(), d["y"].tolist(), []
    all_pairs = 2 / (total(a) * (total(a) - 1))
    for rows in d["queries"]:
        pairs = [(i, j) for i in rows for j in rows if y[i] > y[j]]
        scale = all_pairs if name == "ConvexRisk" else ONE / (len(pairs) or 1 if d["normalize"] else 1)
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

def check(d):  # returns F(w) and a bound on F(w) − min F
    X, w, l2, l1 = arb_mat(d["X"].tolist()), d["w"].tolist(), arb(d["l2"]), arb(d["l1"])
    def tangent(point):  # R, C and s
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
    if d.get("ball"):
        need(d["radius"] > 0 and sizes[d["ball"]] <= d["radius"] * OUTSIDE, "the point lies outside its ball")
    else:  # a risk that is never negative bounds l1·|w|₁ of the minimiser by the value
        need(d["l2"] or (d["l1"] and d["problem"] in NEVER_NEGATIVE), "nothing bounds the minimiser")
    reach = arb(d["radius"]) if d.get("ball") else value / l1 if d["l1"] else NIL
    return value, min((value - c + conjugate(d, s, reach) for c, s in minorants), key=lambda gap: float(gap.upper()))

def load(folder, large):
    d = json.loads((folder / "certificate.json").read_text())
    for name, digest in d["files"].items():
        path = folder / name if (folder / name).is_file() else large / name
        need(hashlib.sha256(path.read_bytes()).hexdigest() == digest, f"{name} is another file: its SHA-256 differs")
        d[name.removesuffix(".npy")] = values = np.load(path, allow_pickle=False)
        need(values.dtype.kind in "fi" and np.isfinite(values).all(), f"{name} has entries that are no finite numbers")
    names = "weight", "witness_weights", "l2", "l1", "bottom_weight"
    need(min(np.min(d.get(x, 0.0), initial=0.0) for x in names) >= 0 and d.get("p", 1) > 0, "a number is out of range")
    need(len(d["X"]) == len(d["y"]) == len(d["weight"]) == len(d["query"]), "rows are missing")
    numbers = np.unique(d["query"][d["query"] >= 0])  # rows of no query ask for nothing
    d["queries"] = [np.flatnonzero((d["query"] == q) & (d["weight"] > 0)).tolist() for q in numbers]
    rows = list(enumerate(zip(d["y"].tolist(), d["weight"].tolist(), strict=True)))
    d["pos"], d["neg"] = ([(r, a) for r, (y, a) in rows if a > 0 and y == label] for label in (1, 0))
    return d

def main(folder, large="."):
    """Print what was checked, or why it is refused; return 0 or 1."""
    try:
        d = load(Path(folder), Path(large))
        claim = d["claim"]
        need(claim["kind"] == "global" and 0 <= claim["gap"] < math.inf, "this claim is not of the kind global")
        for bits in (128, 256, 512, 1024):
            with ctx.workprec(bits):
                value, gap = check(d)
                if gap <= claim["gap"] and abs(value - claim["value"]) <= (1 + abs(value)) * 2.0**-52:
                    print(f"proved: {d['problem']}, global, at most {claim['gap']}")
                    return 0
        raise ValueError(f"the gap is at most {float(gap.upper())}, the value is {float(value)}")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OSError) as error:
        print(f"refused: {error!r}")
        return 1

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
