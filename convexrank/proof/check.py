"""Check an exported certificate: ``python check.py FOLDER [FOLDER OF LARGE FILES]``. It runs alone.

It imports numpy and python-flint, and nothing of convexrank. Numbers in the folder are floats, hence rational; all is
evaluated in balls, which enclose the truth. Whoever wrote the folder is not trusted: ``ATOMS`` and ``RANKS``
list all that it may hold, with ranges and sizes; everything else is refused.

Kind "global": F(w) = R(Xw) + l2/2·|w|² + l1·|w|₁, for w in a ball if there is one, has F(w) − min F ≤ gap. The risk R
is written in the folder atom by atom, and printed as a formula. Tangents of R at points, with weights that sum to 1,
add up to R(Xv) ≥ C + <s, v> for all v, so min F ≥ C − Ω*(−s), Ω = F − R. That R is convex follows from how it is put
together (``add``, ``through``), whatever the folder says.

Kind "distance": the map of a rank contracts by a factor c and moves x by d, so x is at most d/(1 − c) from its rank.
"""

# fmt: off
import hashlib
import io
import json
import math
import os
import re
import stat
import sys
import time
from functools import cache, reduce
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx

NIL, ONE = arb(0), arb(1)
OUTSIDE = 1 + arb(2) ** -30  # how far outside its ball w may be by rounding, as a factor
# More is refused: bytes of certificate.json, entries of a file, pairs of rows (or thrice as many rows of all atoms
# together) or edges, seconds.
TEXT, ENTRIES, TERMS, SECONDS = 1_000_000, 20_000_000, 2_000_000, 1800  # it fits into 4 GB

def need(true, message):
    if not true:
        raise ValueError(message)
def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), NIL)
def total(numbers):
    return sum(map(arb, numbers), NIL)
def power(x, p):  # of a number that is not negative
    need(x > 0 or p >= 0, "a power of 0 is not finite")
    return x**p if x > 0 else ONE if p == 0 else NIL if x <= 0 else NIL.union(x.upper() ** p)  # NaN stays NaN
def length(x):
    return power(dot(x, x), arb(1) / 2)

# --- what a folder may hold, with ranges ------------------------------------------------------------------------------
def real(x):
    return type(x) in (int, float) and abs(x) <= sys.float_info.max
def positive(x):
    return real(x) and 1e-300 <= x <= 1e300
def not_negative(x):
    return (real(x) and x == 0) or positive(x)
def one_of(*words):
    return lambda x: type(x) is str and x in words
def anything(x):  # is looked at where it is used
    return True
def listed(x):
    return type(x) is list
def has(d, fields, where):  # these fields and no others, each in its range
    need(type(d) is dict and d.keys() == fields.keys(), f"{where} does not have the fields {', '.join(fields)}")
    for name, allowed in fields.items():
        need(allowed(d[name]), f"{name} is out of range")
    return True

# --- convex functions of the scores -----------------------------------------------------------------------------------
class Convex:
    """A convex function of the scores: its value at a point, and a minorant Σ factor · part, ``slack`` below there."""
    def __init__(self, value, slack=NIL, parts=(), affine=True, least=None):
        self.value, self.slack, self.parts, self.affine = value, slack, parts, affine
        self.height, self.least = 1 + max((part.height for _, part in parts), default=-1), least  # never below that

    def slopes(self):  # of the scores, which have no parts
        levels = [{} for _ in range(self.height)] + [{self: ONE}]
        while len(levels) > 1:
            for node, weight in levels.pop().items():
                for factor, part in node.parts:
                    levels[part.height][part] = levels[part.height].get(part, NIL) + weight * factor
        return levels[0]

def least_of(made, parts):
    return made([part.least for part in parts]) if all(part.least is not None for part in parts) else None
def add(*terms, least=None):  # pairs (factor, part)
    need(all(part.affine or factor >= 0 for factor, part in terms), "a convex part has a negative factor")
    slack = sum((factor * f.slack for factor, f in terms if not f.affine), NIL)
    if least is None and all(factor >= 0 for factor, _ in terms):
        least = least_of(lambda found: dot([factor for factor, _ in terms], found), [f for _, f in terms])
    return Convex(sum((a * f.value for a, f in terms), NIL), slack, terms, all(f.affine for _, f in terms), least)
def through(function, f):  # function: value, slope and slack at x of a convex function of x, and its infimum
    value, slope, slack = function[0](f.value)
    need(f.affine or (function[1] and not slope < 0), "a function that decreases is taken of a convex part")
    return Convex(value, slack + slope * f.slack, ((slope, f),), affine=False, least=NIL)
def log_sum_exp(side):  # log Σ a eᵗ of pairs (a, t)
    masses = [f.value.exp() * a for a, f in side]
    whole = total(masses)
    need(whole > 0 and all(a > 0 for a, _ in side), "a logarithm of what is not above 0")
    shares = [(mass / whole, f) for mass, (_, f) in zip(masses, side, strict=True)]
    least = least_of(lambda found: total(a * x.exp() for x, (a, _) in zip(found, side, strict=True)).log(),
                     [f for _, f in side])
    return Convex(whole.log(), sum((a * f.slack for a, f in shares), NIL), shares, False, least)
def highest(side, mass):  # the mean of the highest, so much weight of them; shares that fit are a minorant, ties share
    need(mass > 0 and all(a > 0 for a, _ in side), "a mean of the highest with weights that are not above 0")
    falling, shares, above, left = sorted(side, key=lambda one: -float(one[1].value)), [], NIL, mass
    tops = list(accumulate((f.value for _, f in falling[::-1]), arb.max))[::-1]
    steps = groupby(zip(falling, tops, strict=True), key=lambda one: float(one[0][1].value))
    for tied in (list(step) for _, step in steps):
        part = (whole := total(a for (a, _), _ in tied)).min(left)
        shares += [(a * part / whole / mass, f) for (a, f), _ in tied]
        above, left = above + part / mass * tied[0][1], left - part
    value = above if all(mass <= a for a, _ in side) else above.union(total(a * f.value for a, f in shares))
    least = least_of(lambda found: reduce(arb.min, found), [f for _, f in side])
    return Convex(value, value - total(a * (f.value - f.slack) for a, f in shares), shares, False, least)
def threshold(side, function, b, target, until=math.inf):  # least t, Σ c ψ(b(x − t)) ≤ τ, of pairs (c, x), Σ c = 1
    need(function[1] and b > 0 and target > 0 and all(c > 0 for c, _ in side), "this threshold is not known")
    def excess(t):  # the least that it may be, the most, and slopes
        need(time.monotonic() < until, f"it takes more than {SECONDS} seconds")
        lines = [(c, *function[0](b * (f.value - t))) for c, f in side]
        most = total(c * value for c, value, *_ in lines) - target
        return most - total(c * slack for c, *_, slack in lines), most, [c * slope for c, _, slope, _ in lines]
    t, step = reduce(arb.max, (f.value for _, f in side)).mid(), ONE
    while not excess(t)[0] > 0:
        t, step = t - step, 2 * step
        need(step < 2**200, "no threshold was found")
    for _ in range(200):  # Newton's method, from below
        found, _, pulls = excess(t)
        if not found > 0 or (step := found / (b * total(pulls))) <= abs(t) * arb(2) ** (8 - ctx.prec):
            break
        t = (t + step).mid()
    found, _, pulls = excess(t)
    whole, reach = total(pulls), (1 + abs(t)) * arb(2) ** (20 - ctx.prec)
    while not excess(t + reach)[1] <= 0:
        reach = 2 * reach
        need(reach < 2**200, "no threshold was found")
    shares, low = [(pull / whole, f) for pull, (_, f) in zip(pulls, side, strict=True)], t + found / (b * whole)
    value = low.union(t + reach)
    return Convex(value, value - low + total(a * f.slack for a, f in shares), shares, affine=False)

# --- functions of one number: value, slope and slack of a minorant; whether it never decreases; all are at least 0 ----
def softplus(x):
    return x.exp().log1p(), 1 / (1 + (-x).exp()), NIL
def positive_part(x):  # of 1 + x
    return (1 + x).max(NIL), *((ONE, (-1 - x).max(NIL)) if float(x) > -1 else (NIL, (1 + x).max(NIL)))
def squared(x):
    return x * x, 2 * x, NIL
def scaled(c, form):
    line, rises = function(form)
    return lambda x: tuple(c * number for number in line(x)), rises
def power_line(x, p):
    return power(x.max(NIL), p), p * power(x.max(NIL), arb(p) - 1), NIL
def huber(x, w):
    near = x.max(-w).min(w)
    return near * near / 2 + w * (abs(x) - w).max(NIL), near, NIL
FUNCTIONS: dict[Any, Any] = {  # by name: how many numbers they take, and the function
    "exp": (0, lambda: (lambda x: (x.exp(), x.exp(), NIL), True)),
    "softplus": (0, lambda: (softplus, True)),
    "logistic": (1, lambda b: (lambda x: tuple(part / arb(b).log() for part in softplus(x)), True)),
    "hinge": (0, lambda: (positive_part, True)),
    "smooth_hinge": (1, lambda w: (lambda x: tuple(part / w for part in huber((1 + x).max(NIL), arb(w))), True)),
    "squared_hinge": (0, lambda: (lambda x: squared((1 + x).max(NIL)), True)),
    "square": (0, lambda: (squared, False)),
    "huber": (1, lambda w: (lambda x: huber(x, arb(w)), False)),
    "power": (1, lambda p: (lambda x: power_line(x, p), True)),
    "scaled": (2, scaled),
}
def function(form):
    need(type(form) is list and form and form[0] in FUNCTIONS and len(form) == 1 + FUNCTIONS[form[0]][0],
         f"{form!r} is no function")
    need(len(form) == 1 or (positive(form[1]) and (form[0] not in ("power", "logistic") or form[1] > 1)),
         f"{form!r} is out of range")
    return FUNCTIONS[form[0]][1](*form[1:])

# --- the risk: atoms over rows of a group, query by query -------------------------------------------------------------
class Rows:
    """Rows of a group, query by query: their numbers, weights, labels, and the places of the rows of each query."""
    def __init__(self, numbers, query, weights, labels):
        self.numbers, self.query, self.weights, self.labels = numbers, query, weights, labels
        need(query[:1] == [0] and all(b - a in (0, 1) for a, b in pairwise(query)), "queries are not numbered in order")
        self.queries = [list(places) for _, places in groupby(range(len(query)), key=query.__getitem__)]

def several(values, length):
    need(len(values) in (1, length), "numbers do not fit the rows")
    return values * length if len(values) != length else values
def integers(d, name):
    need(type(name) is str and name in d["given"] and d["given"][name].dtype.kind == "i", f"{name!r} are no integers")
    return d["given"][name].tolist()
OPERATIONS: dict[Any, Any] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "log": lambda a: a.log(), "exp": lambda a: a.exp(), "expm1": lambda a: a.expm1()}
OF_ATOM = {"weight": 2, "label": 2, "sums": 3, "spread": 3}  # the last word is the number of an atom
WORDS = {**{name: 2 + (name in "+-*/") for name in OPERATIONS}, "take": 3, **OF_ATOM}  # how many there are
def numbers(d, x: Any, depth=1):  # one number, or one for each row or query of an atom
    need(time.monotonic() < d["until"], f"it takes more than {SECONDS} seconds")
    if real(x):
        return [arb(x)]
    if type(x) is str:
        need(x in d["given"], f"{x!r} are no numbers")
        need(len(d["given"][x]) * depth <= 10 * TERMS, f"formulas of more than {10 * TERMS} numbers")
        return list(map(arb, d["given"][x].tolist()))
    need(type(x) is list and x and type(x[0]) is str and WORDS.get(x[0]) == len(x), f"{x!r} are no numbers")
    kind, first, last = x[0], x[1], x[-1]
    need(kind not in OF_ATOM or (type(last) is int and 0 <= last < len(d["found"])), f"{x!r} are no numbers")
    rows: Any = d["found"][last].rows if kind in OF_ATOM else None
    found = [numbers(d, part, depth + 1) for part in (x[1:] if kind in OPERATIONS else [first])]
    places = integers(d, last) if kind == "take" else rows.query if kind in OF_ATOM else []
    length = max(map(len, [*found, places]))
    need(length * depth <= 10 * TERMS, f"formulas of more than {10 * TERMS} numbers")
    if kind in ("weight", "label"):
        return list(map(arb, (rows.weights if kind == "weight" else rows.labels).tolist()))
    if kind == "sums":
        values = several(found[0], len(rows.query))
        return [total(values[place] for place in places) for places in rows.queries]
    if kind == "spread":
        values = several(found[0], len(rows.queries))
        return [values[q] for q in rows.query]
    if kind == "take":
        need(all(0 <= place < len(found[0]) for place in places), f"{x!r} are no numbers")
        return [found[0][place] for place in places]
    return [OPERATIONS[kind](*one) for one in zip(*(several(one, length) for one in found), strict=True)]

class Vector:
    """Convex functions, one for each row of a group, or one for each query."""
    def __init__(self, entries, rows, by_row=True):
        self.entries, self.rows, self.by_row = entries, rows, by_row

    def numbers(self, d, x):  # for each row
        need(self.by_row, "one number for each row is reduced")
        return several(numbers(d, x), len(self.entries))
    def sides(self, weights):  # of each query, pairs (weight, entry)
        need(self.by_row, "one number for each row is reduced")
        return [[(weights[place], self.entries[place]) for place in places] for places in self.rows.queries]

def scores(d, _, atom):
    rows = d["groups"](atom["group"])
    return Vector([d["t"][r] for r in rows.numbers], rows)
def listed_scores(d, _, atom):
    places = [integers(d, atom[name]) for name in ("rows", "queries", "lower") if atom[name] is not None]
    need(len({*map(len, places)}) == 1 and all(0 <= r < len(d["t"]) for side in places[::2] for r in side),
         "listed rows are out of range")
    entries = [d["t"][r] for r in places[0]]
    rows = Rows(places[0], places[1], np.ones(len(entries)), d["y"][places[0]])
    if atom["lower"] is not None:
        entries = [add((ONE, upper), (-ONE, d["t"][k])) for upper, k in zip(entries, places[2], strict=True)]
    return Vector(entries, rows)
def affine(d, parts, node):
    over = next((part for part in parts if part.by_row), parts[0])
    need(all(len(part.rows.queries) == len(over.rows.queries) for part in parts), "groups have other queries")
    need(all(part.rows is over.rows for part in parts if part.by_row), "entries of different rows are added")
    length = len(over.entries)
    spread = [[part.entries[q] for q in over.rows.query] if over.by_row and not part.by_row else part.entries
              for part in parts]
    factors = [several(numbers(d, c), length) for c in node["factors"]]
    constants, least = several(numbers(d, node["constant"]), length), divergences(d, node)
    need(len(factors) == len(parts), "a sum has as many factors as parts")
    return Vector([add(*((factor[j], part[j]) for factor, part in zip(factors, spread, strict=True)),
                       (ONE, Convex(constants[j], least=constants[j])),
                       least=None if least is None else factors[0][j] * least[j] + constants[j])
                   for j in range(length)], over.rows, over.by_row)
def opposite(x, y):  # whether y is the formula of −x
    if (y == -x if real(x) else y == ["*", x, -1.0]):
        return True
    products = all(type(one) is list and len(one) == 3 and one[0] == "*" for one in (x, y))
    return products and x[1] == y[1] and opposite(x[2], y[2])
def divergences(d, node):  # log Σ a eˣ − Σ p x ≥ −Σ p log(p/a) if Σ p = 1: a bound of each query, or None
    of, factors = node["of"], node["factors"]
    if len(of) != 2 or not opposite(*factors):
        return None
    level, mean = (d["risk"][k] for k in of)
    if (level["atom"], mean["atom"]) != ("log_mean_exp", "mean") or level["of"] != mean["of"]:
        return None
    x, found = d["found"][level["of"][0]], []
    for sides in zip(*(x.sides(x.numbers(d, one["weights"])) for one in (level, mean)), strict=True):
        a, p = ([weight / total(every for every, _ in side) for weight, _ in side] for side in sides)
        found.append(-total(c * (c / b).log() for b, c in zip(a, p, strict=True) if not c.is_zero()))
    return found
def reduced(d, parts, node):
    part, kind = parts[0], node["atom"]
    weights = [ONE] * len(part.entries) if kind == "maximum" else part.numbers(d, node["weights"])
    sides, found = part.sides(weights), []
    asked = several(numbers(d, node["asked"]), len(sides)) if "asked" in node else [ONE] * len(sides)
    for side, mass in zip(sides, asked, strict=True):
        whole = total(a for a, _ in side)
        if kind in ("mean", "log_mean_exp", "threshold"):
            need(whole > 0 and all(a >= 0 for a, _ in side), "weights of a mean are not above 0")
            side = [(a / whole, f) for a, f in side]
        found.append(add(*side) if kind in ("mean", "total") else log_sum_exp(side) if kind.startswith("log") else
                     threshold(side, function(node["function"]), arb(node["scale"]), arb(node["target"]), d["until"])
                     if kind == "threshold" else highest(side, mass if kind == "maximum" else mass.min(whole)))
    return Vector(found, part.rows, False)
def cumulative(d, parts, node):  # log Σ c eˣ over the rows of a query whose grade is at most that of each
    part, found = parts[0], {}
    weights, grades = part.numbers(d, node["weights"]), graded(part, d, node["grades"])
    for places in part.rows.queries:
        below = []
        for _, tied in groupby(sorted(places, key=grades.__getitem__), key=grades.__getitem__):
            tied = list(tied)
            below = [(ONE, log_sum_exp(below + [(weights[j], part.entries[j]) for j in tied]))]
            for j in tied:
                found[j] = below[0][1]
    return Vector([found[j] for j in range(len(part.entries))], part.rows)
def graded(part, d, grades):
    found = part.numbers(d, grades)
    need(all(grade == arb(float(grade)) for grade in found), "grades are no floats")
    return list(map(float, found))
def pairs(d, parts, node):  # for each lower row k Σ a φ(x_k − x_i), or the mean over the lowest i
    upper, lower = parts
    need(len(upper.rows.queries) == len(lower.rows.queries), "groups have other queries")
    line, weights, found = function(node["function"]), upper.numbers(d, node["weights"]), []
    grades = node.get("grades")
    need(grades is None or upper.rows is lower.rows, "grades of different rows are compared")
    grades = None if grades is None else graded(lower, d, grades)
    asked = several(numbers(d, node["asked"]), len(upper.rows.queries)) if "asked" in node else None
    need(lower.by_row, "one number for each row is compared")
    for k, q in enumerate(lower.rows.query):
        above = [i for i in upper.rows.queries[q] if grades is None or grades[k] < grades[i]]
        side = [(weights[i], through(line, add((ONE, lower.entries[k]), (-ONE, upper.entries[i])))) for i in above]
        found.append(add(*side) if asked is None else highest(side, asked[q].min(total(a for a, _ in side))))
    return Vector(found, lower.rows)
def each(_, parts, node):
    made = function(node["function"])
    return Vector([through(made, f) for f in parts[0].entries], parts[0].rows, parts[0].by_row)
def risk(d, t):  # d holds the data, t the scores
    d["found"], d["t"], terms = [], t, 0
    for node in d["risk"]:
        parts = [d["found"][k] for k in node["of"]]
        sizes = [[len(places) for places in part.rows.queries] for part in parts]
        terms += (3 * sum(a * b for a, b in zip(*sizes, strict=True)) // (2 if node.get("grades") else 1)
                  if node["atom"].startswith("pair") else sum(map(sum, sizes)) if parts else
                  len(d["given"].get(node.get("rows"), t)))
        need(terms <= 3 * TERMS, f"the risk has more than {TERMS} terms")
        d["found"].append(ATOMS[node["atom"]][0](d, parts, node))
    need(not d["found"][-1].by_row, "the risk is no number for each query")
    return add(*((ONE, f) for f in d["found"][-1].entries))

WORD, ONE_PART = (lambda x: type(x) is str), (1, 1)
WEIGHTS, GRADES, ASKED = ({name: anything} for name in ("weights", "grades", "asked"))
FUNCTION = {"function": listed}
ATOMS: dict[Any, Any] = {  # what makes them, the least and the largest number of their parts, and their other fields
    "scores": (scores, (0, 0), {"group": one_of("positive", "negative", "rows")}),
    "listed": (listed_scores, (0, 0), {"rows": WORD, "lower": lambda x: x is None or WORD(x), "queries": WORD}),
    "sum": (affine, (1, 1000), {"factors": listed, "constant": anything}),
    **dict.fromkeys(("total", "mean", "log_sum_exp", "log_mean_exp"), (reduced, ONE_PART, WEIGHTS)),
    "maximum": (reduced, ONE_PART, {}),
    "mean_of_highest": (reduced, ONE_PART, WEIGHTS | ASKED),
    "threshold": (reduced, ONE_PART, {**WEIGHTS, **FUNCTION, "scale": positive, "target": positive}),
    "cumulative_log_sum_exp": (cumulative, ONE_PART, WEIGHTS | GRADES),
    "function": (each, ONE_PART, FUNCTION),
    "pair_sums": (pairs, (2, 2), FUNCTION | WEIGHTS | GRADES),
    "pair_means": (pairs, (2, 2), FUNCTION | WEIGHTS | ASKED),
}
DAMPING, LONG = {"alpha": lambda x: real(x) and 0 <= x < 1}, lambda x: real(x) and x >= 1
RANKS: dict[Any, Any] = {
    "PageRank": {"dangling": one_of("teleport", "uniform", "drop"), **DAMPING},
    "LpqRank": {"p": LONG, "q": LONG, "weak_links": one_of("inside", "entry", "outside"),
                "outdegree_floor": lambda x: x is None or positive(x), **DAMPING},
}

def contents(text) -> dict:  # certificate.json
    def once(pairs):
        need(len(dict(pairs)) == len(pairs), "a field is there twice")
        return dict(pairs)
    d: Any = json.loads(text, object_pairs_hook=once)
    need(type(d) is dict, "certificate.json holds no object")
    ranks = "problem" in d
    need(not ranks or (type(d["problem"]) is str and d["problem"] in RANKS), "no problem has this name")
    fields = {"problem": WORD, **RANKS[d["problem"]]} if ranks else {
        "risk": lambda x: listed(x) and 0 < len(x) <= 1000, "l2": not_negative, "l1": not_negative}
    if not ranks and "ball" in d:
        fields |= {"ball": one_of("L1", "L2"), "radius": positive}
    has(d, {"claim": lambda x: type(x) is dict, "files": lambda x: type(x) is dict, **fields}, "certificate.json")
    has(d["claim"], {"kind": one_of("distance" if ranks else "global"), "gap": lambda x: real(x) and x >= 0,
                     "value": real}, "the claim")
    need(not ranks or d["claim"]["value"] == 0, "a rank has no value")
    atoms: Any = d.get("risk", ())
    for k, atom in enumerate(atoms):
        need(type(atom) is dict and type(atom.get("atom")) is str and atom["atom"] in ATOMS, "no atom has this name")
        _, (least, most), others = ATOMS[atom["atom"]]
        has(atom, {"atom": WORD, "of": listed, **others}, atom["atom"])
        of: Any = atom["of"]
        need(least <= len(of) <= most, f"{atom['atom']} has another number of parts")
        need(all(type(part) is int and 0 <= part < k for part in of), "an atom is made of a later one")
    return d

def shapes(d):  # of the files, by names of sizes
    if "problem" in d:
        files = {"offsets": ("n + 1",), "sources": ("m",), "weights": ("m",), "x": ("n",)}
        return files | ({"teleport": ("n",)} if d["problem"] == "PageRank" else {})
    files = {"X": ("n", "d"), "y": ("n",), "weight": ("n",), "query": ("n",), "w": ("d",)}
    files |= {name[:-4]: (name,) for name in d["files"] if re.fullmatch(r"[ni][0-9]{1,4}\.npy", name)}
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
    expected, sizes, given = shapes(d), {}, {}
    need(d["files"].keys() == {f"{name}.npy" for name in expected}, f"the files are not {', '.join(expected)}")
    for name in expected:
        given[name] = array(f"{name}.npy", folder, large, d["files"][f"{name}.npy"])
        need(sum(one.size for one in given.values()) <= 3 * ENTRIES, f"files of more than {3 * ENTRIES} entries")
    for name, axes in expected.items():
        need(given[name].ndim == len(axes), f"{name} has another number of axes")
        for axis, size in zip(axes, given[name].shape, strict=True):
            count = size - 1 if axis == "n + 1" else size
            need(sizes.setdefault(axis.removesuffix(" + 1"), count) == count, f"{name} has another length")
    need(min(sizes[axis] for axis in sizes if axis != "m") > 0, "a file is empty")
    d |= {name: given.pop(name) for name in expected if name[0] not in "ni"}
    (check_graph if "problem" in d else check_rows)(d)
    return d | {"given": given}
def in_range(values):  # weights, some of which are above 0
    above = values[values > 0].tolist()
    need(values.min() >= 0 and above and min(above) >= 1e-300 and max(above) <= 1e300 / len(above),
         "weights are out of range")

def check_rows(d):
    need(max(len(d["y"]), len(d.get("witness_points", ()))) <= TERMS, f"there are more than {TERMS} rows, or points")
    in_range(d["weight"])
    in_range(d.get("witness_weights", d["weight"]))
    need(float(np.abs(d["X"]).max()) <= 1e150, "X has entries beyond 1e150")
    need(d["query"].dtype.kind == "i" and d["query"].min() >= 0, "query holds no numbers of queries")
def group_of(d, name):  # positives have the label 1, negatives 0; queries where all labels are equal are left out
    y, query = d["y"].tolist(), d["query"].tolist()
    rows, labels = [r for r, a in enumerate(d["weight"].tolist()) if a > 0], {}
    for r in rows:
        labels.setdefault(query[r], set()).add(y[r])
    asks = {q: place for place, q in enumerate(sorted(q for q in labels if len(labels[q]) > 1))}
    need(asks, "there is nothing to rank")
    need(name == "rows" or all(y[r] in (0, 1) for r in rows), "y has not the classes 0 and 1")
    own = {"positive": (1,), "negative": (0,)}
    chosen = sorted((asks[query[r]], r) for r in rows if query[r] in asks and y[r] in own.get(name, (y[r],)))
    places = [r for _, r in chosen]
    return Rows(places, [q for q, _ in chosen], d["weight"][places], d["y"][places])

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
def conjugate(d, s, reach):  # Ω*(−s), or more; reach is the most that |w|₁ of the minimiser can be
    l2, r, rest = arb(d["l2"]), d.get("radius"), [(abs(x) - d["l1"]).max(NIL) for x in s]
    if d.get("ball") == "L2" and (not d["l2"] or length(rest) >= l2 * r):
        return length(rest) * r - l2 * r * r / 2
    if d.get("ball") == "L1" and d["l2"]:  # any multiplier of the constraint gives a bound, the best one is this
        sizes = np.sort([float(x) for x in rest])[::-1]
        best = arb(max(0.0, np.max((np.cumsum(sizes) - d["l2"] * r) / np.arange(1, len(sizes) + 1))))
        left = [(x - best).max(NIL) for x in rest]
        return dot(left, left) / (2 * l2) + best * r
    most = reduce(arb.max, rest)
    return dot(rest, rest) / (2 * l2) if d["l2"] else most if most <= 0 else most * reach

def gap_of(d, until):  # returns F(w) and a bound on F(w) − min F
    d |= {"until": until, "groups": cache(lambda name: group_of(d, name))}
    X, w, l2, l1 = arb_mat(d["X"].tolist()), d["w"].tolist(), arb(d["l2"]), arb(d["l1"])
    def tangent(point):  # R, C and s
        need(time.monotonic() < until, f"it takes more than {SECONDS} seconds")
        nodes = [Convex(score) for score in (X * arb_mat(len(point), 1, point)).entries()]
        found = risk(d, nodes)
        slopes = found.slopes()
        slope = (arb_mat(1, len(nodes), [slopes.get(node, NIL) for node in nodes]) * X).entries()
        return found.value, found.value - found.slack - dot(slope, point), slope, found.least
    here, sizes = tangent(w), {"L1": total(map(abs, w)), "L2": length(list(map(arb, w)))}
    value, minorants = here[0] + dot(w, map(arb, w)) * l2 / 2 + sizes["L1"] * l1, [here[1:3]]
    if "witness_points" in d:
        tangents, weights = [tangent(point) for point in d["witness_points"].tolist()], d["witness_weights"].tolist()
        shares = [a / total(weights) for a in weights]
        slope = [dot(shares, column) for column in zip(*(s for _, _, s, _ in tangents), strict=True)]
        minorants.append((dot(shares, (c for _, c, *_ in tangents)), slope))
    need("ball" not in d or sizes[d["ball"]] <= d["radius"] * OUTSIDE, "the point lies outside its ball")
    gaps = [] if here[3] is None else [value - here[3]]
    if "ball" in d or d["l2"] or d["l1"]:  # without a ball and l2, a first gap bounds l1·|w|₁ of the minimiser
        reach = arb(d["radius"]) if "ball" in d else gaps[0] / l1 if d["l1"] and gaps else arb("inf")
        gaps += [value - c + conjugate(d, s, reach) for c, s in minorants]
    need(gaps := [gap for gap in gaps if gap.is_finite()], "nothing bounds the minimiser")
    return value, min(gaps, key=lambda gap: float(gap.upper()))

def words(d):  # the objective as a formula of the scores of rows
    said = []
    def text(x):
        if type(x) is not list:
            return f"{x:g}" if real(x) and float(f"{x:g}") == x else str(x)
        parts = [text(part) for part in (x[1:-1] if x[0] in OF_ATOM else x[1:])]
        parts += [said[x[-1]]] if x[0] in OF_ATOM else []
        found = f"({parts[0]} {x[0]} {parts[1]})" if x[0] in "+-*/" else x[0] + f"({', '.join(parts)})" * bool(parts)
        need(len(found) <= 20_000, "the formula is too long")
        return found
    for atom in d["risk"]:
        kind, parts = atom["atom"], [said[k] for k in atom["of"]]
        named = [f"{key}={text(atom[key])}" for key in ("weights", "grades", "asked", "scale", "target")
                 if atom.get(key) is not None and (key, atom[key]) != ("weights", 1.0)]
        if kind == "sum":
            parts = [f"({part})" if d["risk"][k]["atom"] == "sum" else part
                     for k, part in zip(atom["of"], parts, strict=True)]
            terms = [part if c == 1.0 else f"-{part}" if c == -1.0 else f"{text(c)} * {part}"
                     for c, part in zip(atom["factors"], parts, strict=True)]
            terms += [text(atom["constant"])] * (atom["constant"] != 0.0)
            said.append(" + ".join(terms).replace(" + -", " - "))
        elif kind == "listed":
            rows = " - ".join(atom[key] for key in ("rows", "lower") if atom[key] is not None)
            said.append(f"score[{rows}, queries={atom['queries']}]")
        elif kind == "function":
            said.append(f"{text(atom['function'])}({parts[0]})")
        else:
            parts = [text(atom["function"]), *parts] if "function" in atom else parts
            said.append(atom["group"] if kind == "scores" else f"{kind}({', '.join(parts + named)})")
        need(len(said[-1]) <= 20_000, "the formula is too long")
    ends = [f" + {text(d['l2'])}/2 |w|^2"] * (d["l2"] > 0) + [f" + {text(d['l1'])} |w|_1"] * (d["l1"] > 0)
    ends += [f", |w|_{d['ball'][1]} <= {text(d['radius'])}"] if "ball" in d else []
    return said[-1] + "".join(ends)

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
        claim, bound = d["claim"], distance_of if "problem" in d else gap_of
        for bits in (128, 256, 512, 1024, 2048):
            with ctx.workprec(bits):
                value, gap = bound(d, until)
                error, most = abs(value - claim["value"]), (1 + abs(value)) * 2.0**-52
                if error > most:  # of all that the interval may hold: more bits change nothing
                    break
                if gap <= claim["gap"] and error <= most:
                    statement = d["problem"] if "problem" in d else words(d)
                    print(f"proved: {statement}, {claim['kind']}, at most {claim['gap']}")
                    return 0
        raise ValueError(f"the gap is at most {float(gap.upper())}, the value is {float(value)}")
    except Exception as error:  # noqa: BLE001 - whatever a folder does to this program, it is not confirmed
        print(f"refused: {error!a}")
        return 1

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
