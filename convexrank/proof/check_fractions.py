"""Check a certificate that solution.export wrote a second time: in exact fractions, by Python's standard library alone.

Usage: python check_fractions.py FOLDER. It prints "proved: ..." and exits with 0, or "refused: ..." and exits with 1.

The claim is "value - minimum <= gap" for F(w) = R(Xw) + l2/2 |w|^2 + l1 |w|_1, perhaps in a ball. The folder states the
risk R as a list of atoms, each of atoms before it; they are put together only in ways that keep R convex. Multipliers
that are feasible in the conjugate of each atom give a slope s and a number c with R(t) >= <s, t> + c for all scores t.
So F >= c - max over v of (<u, v> - penalty(v)), with u = -X's. *Any* feasible multipliers will do: they are close
to the best ones. There are no derivatives. Numbers are fractions, or intervals with ends that are fractions.
For ranks of a graph the claim is "distance to the solution <= gap", and the map is a contraction.
"""

# fmt: off
import ast
import hashlib
import json
import math
import operator
import os
import re
import stat
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any

BITS = 256  # exponentials, logarithms and multipliers are multiples of about 2^-BITS
LARGEST = 2**11  # largest argument of an exponential; floats end at e^709
MOST_ATOMS, MOST_NESTED, MOST_LETTERS = 1000, 40, 20_000  # of a risk; formulas in formulas; letters of a formula
MOST_BYTES, MOST_NODES = 2**20, 316  # of a file, and a quarter of those of all; of a graph
MOST_TERMS, DEAR = 1_000_000, 4  # factors of slopes, entries of formulas; what an exponential or a logarithm counts
FEASIBLE = 1 + Fraction(1e-9)  # a point may lie outside its ball by this factor: rounding, as in the package
UNIT = Fraction(1, 2**BITS)
SPENT = [0]  # terms since a folder was read

def need(condition, reason):
    if not condition:
        raise ValueError(reason)
def spend(terms):
    SPENT[0] += terms
    need(SPENT[0] <= MOST_TERMS, "too many terms for fractions")

# --- intervals with rational ends -------------------------------------------------------------------------------------
def down(x):
    """The largest integer n with n UNIT <= x."""
    return (x.numerator << BITS) // x.denominator
def up(x):
    return -down(-x)
def short(x):
    """At most x, and x itself if it has few bits; otherwise of BITS significant bits, where it is not tiny."""
    n, m = x.numerator, x.denominator
    if n.bit_length() + m.bit_length() <= 4 * BITS:
        return x
    size = n.bit_length() - m.bit_length()
    need(size <= 8 * LARGEST, "a number is out of range")
    places = min(BITS - size, 8 * LARGEST)
    return Fraction((n << places) // m, 1 << places) if places > 0 else Fraction(n // (m << -places) << -places)
def outward(lo, hi):
    low = short(lo)
    return Interval(low, low if lo is hi and low == lo else -short(-hi))
@dataclass(frozen=True, slots=True)
class Interval:
    """The numbers from lo to hi. Sums and products round outward where they have many bits; exp and log always do."""
    lo: Fraction
    hi: Fraction
    def __add__(self, other):
        other = between(other)
        lo = self.lo + other.lo
        return outward(lo, lo if self.lo is self.hi and other.lo is other.hi else self.hi + other.hi)
    def __neg__(self):
        lo = -self.hi
        return Interval(lo, lo if self.lo is self.hi else -self.lo)
    def __sub__(self, other):
        return self + (-other)
    def __mul__(self, other):
        other = between(other)
        if self.lo is self.hi or other.lo is other.hi:  # most products have an exact factor: two of the four ends do
            factor, x = (self.lo, other) if self.lo is self.hi else (other.lo, self)
            ends = [first := factor * x.lo, first if x.lo is x.hi or not factor else factor * x.hi]
            return outward(*(ends if factor.numerator >= 0 else ends[::-1]))
        ends = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return outward(min(ends), max(ends))
    def __truediv__(self, other):
        other = between(other)
        need(other.lo > 0 or other.hi < 0, "a division by what may be 0")
        lo = 1 / other.hi
        return self * outward(lo, lo if other.lo is other.hi else 1 / other.lo)
    __radd__, __rmul__ = __add__, __mul__
def between(x):
    if isinstance(x, Interval):
        return x
    x = Fraction(x)
    return Interval(x, x)
ZERO, ONE = between(0), between(1)
def sum_of(intervals):
    return sum(intervals, start=ZERO)
def lesser(x, y):
    x, y = between(x), between(y)
    return Interval(min(x.lo, y.lo), min(x.hi, y.hi))
def positive_part(x):
    return x if x.lo >= 0 else Interval(Fraction(0), max(x.hi, Fraction(0)))
def size_of(x):
    """The absolute value."""
    return Interval(max(x.lo, -x.hi, Fraction(0)), max(-x.lo, x.hi))
def increasing(function, x):
    """The image of an interval under an increasing function that encloses its value at fractions."""
    x = between(x)
    first = function(x.lo)
    return first if x.lo == x.hi else Interval(first.lo, function(x.hi).hi)
def exp_series(r):
    """Integers a, b with a <= 2^BITS e^(r UNIT) <= b, for an integer r with 0 <= r UNIT <= 1.

    In units, the exact term is t_j = t_(j-1) r UNIT / j. Rounded down, it is too small by e_j <= e_(j-1)/j + 1 <= 2. At
    the end the rounded term is 0, so t_N <= 2, and all later terms add up to at most t_N / N <= 2.
    """
    term = total = 2**BITS
    steps = 0
    while term:
        steps += 1
        term = term * r // (steps << BITS)
        total += term
    return total, total + 2 * steps + 2
def log_series(t):
    """Integers a, b with a <= 2^BITS log((1+q)/(1-q)) <= b, for q = t UNIT, t an integer with 0 <= q <= 1/3 + UNIT.

    The sum of 2 q^(2j+1)/(2j+1). In units, the square is too small by at most 1, and the power by
    e_j <= (1/9 + UNIT) e_(j-1) + 1/3 + UNIT + 1 <= 2; so the term is too small by at most e_j/3 + 1 <= 2. At the end
    the rounded power is 0, so the exact one is at most 2, and all later terms add up to at most 1.
    """
    square, power, total, steps = t * t >> BITS, t, t, 0
    while power:
        steps += 1
        power = power * square >> BITS
        total += power // (2 * steps + 1)
    return 2 * total, 2 * (total + 2 * steps + 1)
THIRD = Fraction(1, 3)
LOG2 = Interval(log_series(down(THIRD))[0] * UNIT, log_series(up(THIRD))[1] * UNIT)
def exp_of(x):
    """Enclose e^x of a fraction: x = n log 2 + r, with 0 <= r <= 1."""
    spend(DEAR)
    need(x <= LARGEST, "an exponential is out of range")
    if x == 0:
        return between(1)
    if x < -BITS:
        return Interval(Fraction(0), UNIT)  # e > 2
    n = math.floor(x / LOG2.lo)
    n -= (LOG2 * n).hi > x
    rest = between(x) - LOG2 * n
    need(0 <= rest.lo <= rest.hi <= 1, "reduction of an exponential")
    return Interval(exp_series(down(rest.lo))[0] * UNIT, exp_series(up(rest.hi))[1] * UNIT) * Fraction(2) ** n
def log_of(x):
    """Enclose log x of a positive fraction: x = 2^n y with 1 <= y < 2, and y = (1+q)/(1-q)."""
    spend(DEAR)
    need(x > 0, "the logarithm of a number that may be 0")
    if x == 1:
        return between(0)
    n = x.numerator.bit_length() - x.denominator.bit_length()
    n -= Fraction(2) ** n > x
    y = x / Fraction(2) ** n
    q = (y - 1) / (y + 1)
    return Interval(log_series(down(q))[0] * UNIT, log_series(up(q))[1] * UNIT) + LOG2 * n
def exp(x):
    return increasing(exp_of, x)
def log(x):
    return increasing(log_of, x)
def power(x, p):
    """x^p for x >= 0 and p > 0."""
    x = between(x)
    high = exp(log_of(x.hi) * p).hi if x.hi > 0 else Fraction(0)
    return Interval(exp(log_of(x.lo) * p).lo if x.lo > 0 else Fraction(0), high)
def softplus(x):
    """log(1 + e^x)."""
    return increasing(lambda t: log(exp_of(-abs(t)) + 1) + max(t, 0), x)
def entropy(x):
    """x log x for x >= 0."""
    need(x.lo >= 0, "a multiplier may be negative")
    if x.lo > 0:
        return x * log(x)
    need(x.hi < Fraction(1, 4), "a multiplier that may be 0 is too uncertain")  # x log x falls for x < 1/e
    return Interval((x.hi * log(x.hi)).lo if x.hi > 0 else Fraction(0), Fraction(0))

# --- convex functions: value on an interval, and u and c of a line u x + c that is below everywhere -------------------
def multiplier(x):
    """A multiple of UNIT, at least 0, close to an interval."""
    return max(down(x.lo), 0) * UNIT
def line_of_exp(z):
    """u x + u - u log u <= e^x for every u >= 0."""
    u = multiplier(exp_of(z.lo))
    return exp(z), u, (between(u) - entropy(between(u))).lo
def line_of_softplus(z):
    """u x - u log u - (1-u) log(1-u) <= log(1 + e^x) for 0 <= u <= 1."""
    small = exp_of(-abs(z.lo)).lo
    u = multiplier(between((1 if z.lo > 0 else small) / (1 + small)))
    return softplus(z), u, (-entropy(between(u)) - entropy(between(1 - u))).lo
def line_of_hinge(z):
    u = Fraction(z.lo > -1)
    return positive_part(z + 1), u, u
def line_of_logistic(z, base):
    """softplus is never negative, so that its factor 1/log(base) may be rounded down."""
    (value, u, c), logarithm = line_of_softplus(z), log(base)
    below = multiplier(between(1 / logarithm.hi))
    return value * Interval(1 / logarithm.hi, 1 / logarithm.lo), below * u, below * c
def line_of_smooth_hinge(z, w):
    """u (1 + x) - w u^2/2 is at most (1 + x)+ with a round corner of width w, for 0 <= u <= 1."""
    above = positive_part(z + 1)
    u = min(above.lo / w, Fraction(1))
    value = increasing(lambda a: between(a * a / (2 * w) if a <= w else a - w / 2), above)
    return value, u, u - w * u * u / 2
def line_of_square(z):
    """u x - u^2/4 <= x^2 for every u."""
    u = 2 * z.lo
    return size_of(z) * size_of(z), u, -u * u / 4
def line_of_squared_hinge(z):
    """u (1 + x) - u^2/4 <= (1 + x)+^2 for every u >= 0."""
    value, u, c = line_of_square(positive_part(z + 1))
    return value, u, u + c
def line_of_huber(z, w):
    """u x - u^2/2 is at most half the square up to w, then a line, for -w <= u <= w."""
    u = min(max(z.lo, -w), w)
    value = increasing(lambda a: between(a * a / 2 if a <= w else w * (a - w / 2)), size_of(z))
    return value, u, -u * u / 2
def line_of_power(z, p):
    """u x - (p-1) (u/p)^(p/(p-1)) <= (x+)^p for every u >= 0, p > 1."""
    above = positive_part(z)
    u = multiplier(power(above.lo, p - 1) * p)
    return power(above, p), u, (power(u / p, p / (p - 1)) * (1 - p)).lo
# Names, how many numbers they take, and whether they never decrease; all are at least 0.
FUNCTIONS: dict[Any, Any] = {"exp": (line_of_exp, 0, True), "softplus": (line_of_softplus, 0, True)}
FUNCTIONS |= {"hinge": (line_of_hinge, 0, True)}
FUNCTIONS |= {"squared_hinge": (line_of_squared_hinge, 0, True), "power": (line_of_power, 1, True)}
FUNCTIONS |= {"square": (line_of_square, 0, False), "huber": (line_of_huber, 1, False)}
FUNCTIONS |= {"logistic": (line_of_logistic, 1, True), "smooth_hinge": (line_of_smooth_hinge, 1, True)}
def function_of(form: Any, nested=0):
    """A function of an interval, and whether it never decreases."""
    need(nested <= MOST_NESTED, "functions are nested too deeply")
    need(type(form) is list and form and type(form[0]) is str, "a function that is no list")
    name, *numbers = form
    if name == "scaled":
        need(len(numbers) == 2, "a scaled function of other parameters")
        factor, (line, rises) = POSITIVE(numbers[0]), function_of(numbers[1], nested + 1)
        return lambda z: tuple(factor * x for x in line(z)), rises
    need(name in FUNCTIONS, "an unknown function")
    line, count, rises = FUNCTIONS[name]
    need(len(numbers) == count, "a function of other parameters")
    numbers = [POSITIVE(x) for x in numbers]
    need(name not in ("power", "logistic") or numbers[0] > 1, "a power, or a base, of 1 or less")
    return lambda z: line(z, *numbers), rises

# --- convex functions of scores: triples of a value, a slope s (from rows to numbers) and a constant c ----------------
# There are numbers s and c in the intervals with f(t) >= <s, t> + c for all scores t; with equality, if f is affine.
def added(parts):
    """The sum of multiples: parts are pairs of a factor, which is >= 0 if its triple is not affine, and a triple."""
    value, slope, constant = ZERO, {}, ZERO
    for factor, (one, s, c) in parts:
        spend(1 + len(s))
        factor = between(factor)
        value, constant = value + factor * one, constant + factor * c
        for i, x in s.items():
            slope[i] = slope[i] + factor * x if i in slope else factor * x
    return value, slope, constant
def moved(part, number):
    return part[0] + number, part[1], part[2] + number
def score(t, i):
    return between(t[i]), {i: ONE}, ZERO
def through(line, part):
    """A function of a triple. Its slope is not negative, or the triple is affine."""
    value, u, c = line(part[0])
    _, slope, constant = added([(u, part)])
    return value, slope, constant + c
def distribution(masses):
    """Fractions that sum to 1 exactly, close to proportional to intervals: the largest takes what rounding leaves."""
    largest, size = max(masses, key=lambda i: masses[i].lo), sum_of(masses.values()).lo
    v = {i: down(mass.lo / size) * UNIT for i, mass in masses.items()}
    return v | {largest: v[largest] + 1 - sum(v.values())}
def log_sum(parts):
    """log(sum of a_i e^(z_i)) of pairs of a > 0 and z: the most of <v, z> - sum of v_i log(v_i/a_i), v of sum 1."""
    top = max(z[0].lo for _, z in parts)
    terms = {i: a * exp(z[0] - top) for i, (a, z) in enumerate(parts)}
    v = distribution(terms)
    _, slope, constant = added([(v[i], z) for i, (_, z) in enumerate(parts)])
    loss = sum_of(a * entropy(between(v[i]) / a) for i, (a, _) in enumerate(parts))
    return log(sum_of(terms.values())) + top, slope, constant - loss
def mean_of_highest(parts, mass):
    """The largest sum of v_i z_i with 0 <= v_i <= b_i/mass and sum 1; parts are pairs of b > 0 and a triple of z.

    The mass is at most the sum of b. The value is at least that of the v chosen, and at most last + sum of
    b_i/mass max(z_i - last, 0), for any number last. Any v will do; that of the evidence shares what is left among all
    that tie in floats.
    """
    mass = lesser(mass, sum_of(b for b, _ in parts))
    falling, left, last, chosen = sorted(parts, key=height, reverse=True), mass, Fraction(0), []
    for _, group in groupby(falling, key=height):
        tied = list(group)
        if left.hi > 0:
            whole, last = sum_of(b for b, _ in tied), min(z[0].lo for _, z in tied)
            share = lesser(left, whole) / whole / mass
            chosen += [(b * share, z) for b, z in tied]
            left = positive_part(left - whole)
    value, slope, constant = added(chosen)
    above = last + sum_of(b / mass * positive_part(z[0] - last) for b, z in parts)
    return Interval(value.lo, max(above.hi, value.lo)), slope, constant
def height(part):
    return float(part[1][0].lo)
def threshold(parts, line, scale, target):
    """The least t with sum of b_i f(scale (z_i - t)) <= target, for b of sum 1.

    If u_i x + c_i <= f(x), that t is at least (sum of b_i (u_i scale z_i + c_i) - target) / (scale sum of b_i u_i).
    Lines that touch at t make this the next t of Newton's method, which rises to the solution once it is below.
    """
    def excess(t):
        spend(len(parts))
        lines = [(b, *line((z[0] - t) * scale), z) for b, z in parts]
        return sum_of(b * one for b, one, *_ in lines) - target, lines
    t, step = max(z[0].lo for _, z in parts), 1 / scale
    while (found := excess(t))[0].lo <= 0:
        t, step = t - step, 2 * step
    while True:
        pull = sum_of(b * u for b, _, u, _, _ in found[1])
        rest = (sum_of(b * c for b, _, _, c, _ in found[1]) - target) / (pull * scale)
        low, slope, constant = moved(added([(b * u / pull, z) for b, _, u, _, z in found[1]]), rest)
        reach = (1 + abs(t)) * 2**20 * UNIT
        if low.lo <= t + reach:
            break
        t = down(low.lo) * UNIT
        found = excess(t)
    while excess(t + reach)[0].hi > 0:
        reach *= 2
    return Interval(low.lo, max(t + reach, low.lo)), slope, constant

# --- the risk: rows, formulas of numbers, and atoms; all that the folder says of them is checked before it is used ----
@dataclass(frozen=True)
class Rows:
    """Rows of a leaf: numbers, weights and labels; and for each query, in turn, the range of its places."""
    numbers: list
    weights: list
    labels: list
    queries: list
    def spread(self, values):
        """Numbers of queries, for rows."""
        return [x for x, places in zip(values, self.queries, strict=True) for _ in places]
@dataclass(frozen=True)
class Atom:
    """Convex functions of scores, one for each row or one for each query, made of those of earlier atoms."""
    rows: Rows
    by_row: bool
    entries: Callable  # from triples of its parts to triples; a leaf takes the scores
    affine: bool = False
    given: Any = ()  # weights; of a sum the factors of the first part, and the constant
    least: Any = None  # a number that no entry is ever below, whatever the parts are
    rises: bool = True  # with its parts
    @property
    def size(self):
        return len(self.rows.numbers if self.by_row else self.rows.queries)
def group_of(name, arrays):
    """The rows of a group that have a weight, of queries in which such rows have different labels."""
    y, query, own = arrays["y"], arrays["query"], {"positive": 1, "negative": 0}.get(name)
    found, labels = {}, {}
    for i in (i for i, weight in enumerate(arrays["weight"]) if weight):
        labels.setdefault(query[i], set()).add(y[i])
        if own in (None, y[i]):
            found.setdefault(query[i], []).append(i)
    asked = sorted(number for number, those in labels.items() if len(those) > 1)
    need(asked, "no query has an order")
    need(own is None or all(those <= {0, 1} for those in labels.values()), "labels are not 0 and 1")
    rows = [i for number in asked for i in found[number]]
    ends = [0, *accumulate(len(found[number]) for number in asked)]
    weights, labels = ([arrays[key][i] for i in rows] for key in ("weight", "y"))
    return Rows(rows, weights, labels, [range(*pair) for pair in pairwise(ends)])
def scores(node, _, data):
    name = one_of("positive", "negative", "rows")(node["group"])
    if name not in data.groups:  # so that two leaves of a group have the same rows
        data.groups[name] = group_of(name, data.arrays)
    rows = data.groups[name]
    return Atom(rows, True, lambda t: [score(t, i) for i in rows.numbers], affine=True)
def listed(node, _, data):
    rows, queries, y = data.integers(node["rows"]), data.integers(node["queries"]), data.arrays["y"]
    lower = rows if node["lower"] is None else data.integers(node["lower"])
    need(len(rows) == len(queries) == len(lower), "listed rows are not as many as their queries")
    need(all(0 <= i < len(y) for i in (*rows, *lower)), "listed rows are out of range")
    steps = [b - a for a, b in pairwise([-1, *queries])]
    need(steps[0] == 1 and {*steps} <= {0, 1}, "queries of listed rows are not 0, 1, 2, ...")
    ends = [*(place for place, step in enumerate(steps) if step), len(rows)]
    found = Rows(rows, [1] * len(rows), [y[i] for i in rows], [range(*pair) for pair in pairwise(ends)])
    def entries(t):
        parts = [[(1, score(t, i)), (-1, score(t, k))] for i, k in zip(rows, lower, strict=True)]
        return [added(pair[: 1 if node["lower"] is None else 2]) for pair in parts]
    return Atom(found, True, entries, affine=True)
def sums(node, parts, data):
    over = next((part for part in parts if part.by_row), parts[0])
    need(all(part.rows is over.rows or not part.by_row for part in parts), "different rows are added")
    need(len({len(part.rows.queries) for part in parts}) == 1, "different queries are added")
    need(type(node["factors"]) is list and len(node["factors"]) == len(parts), "not one factor for each part")
    factors = [data.numbers(x, over.size) for x in node["factors"]]
    rises = [all(c.lo >= 0 for c in own) for own in factors]
    signs = all(part.affine or rising for part, rising in zip(parts, rises, strict=True))
    need(signs, "a convex part has a negative factor")
    constant = data.numbers(node["constant"], over.size)
    def entries(*columns):
        wide = [over.by_row and not part.by_row for part in parts]
        columns = [over.rows.spread(x) if w else x for x, w in zip(columns, wide, strict=True)]
        terms = [*zip(factors, columns, strict=True)]
        return [moved(added([(c[j], x[j]) for c, x in terms]), constant[j]) for j in range(over.size)]
    affine = all(part.affine for part in parts)
    return Atom(over.rows, over.by_row, entries, affine, (factors[0], constant), rises=all(rises))
def elementwise(node, parts, _):
    line, part = function_for(node, parts), parts[0]
    return Atom(part.rows, part.by_row, lambda x: [through(line, z) for z in x], least=Fraction(0))
def function_for(node, parts):
    line, rises = function_of(node["function"])
    affine = node["atom"] != "threshold" and all(part.affine for part in parts)
    need(rises or affine, "a function that may decrease is taken of a convex part")
    return line
def weights_for(node, part, data):
    """Weights of the rows of a part: above 0, or at least 0 where that has a meaning."""
    need(part.by_row, f"{node['atom']} of what is no number for each row")
    zero, signed = node["atom"] in ("total", "mean", "pair_sums"), node["atom"] == "total" and part.affine
    found = data.numbers(node.get("weights", 1), part.size)
    need(signed or all(x.lo > 0 or (zero and x.lo == 0) for x in found), "weights that are too small")
    return found
def asked_for(node, part, data):
    found = data.numbers(node.get("asked", 1), len(part.rows.queries))
    need(all(x.lo > 0 for x in found), "a mean of the highest 0 rows")
    return found
def grades_for(node, part, data):
    found = data.numbers(node["grades"], part.size)
    need(all(x.lo == x.hi for x in found), "grades are not known exactly")
    return [x.lo for x in found]
def reduction(node, parts, data):
    kind, part = node["atom"], parts[0]
    weights, asked = weights_for(node, part, data), asked_for(node, part, data)
    if kind == "threshold":
        line, scale, target = function_for(node, parts), POSITIVE(node["scale"]), POSITIVE(node["target"])
    def reduced(side, mass):
        if kind in ("mean", "log_mean_exp", "threshold"):
            whole = sum_of(weight for weight, _ in side)
            side = [(weight / whole, x) for weight, x in side]
        if kind in ("total", "mean"):
            return added(side)
        if kind == "threshold":
            return threshold(side, line, scale, target)
        return log_sum(side) if kind.startswith("log") else mean_of_highest(side, mass)
    def entries(x):
        sides = [[(weights[j], x[j]) for j in places] for places in part.rows.queries]
        return [reduced(side, mass) for side, mass in zip(sides, asked, strict=True)]
    return Atom(part.rows, False, entries, part.affine and kind in ("total", "mean"), weights)
def cumulated(node, parts, data):
    """For each row log(sum of c e^x) over those of its query whose grades are at most its own."""
    part = parts[0]
    weights, grades = weights_for(node, part, data), grades_for(node, part, data)
    def entries(x):
        found = {}
        for places in part.rows.queries:
            level = []
            for _, tied in groupby(sorted(places, key=grades.__getitem__), key=grades.__getitem__):
                tied = [*tied]
                level = [(ONE, log_sum(level + [(weights[j], x[j]) for j in tied]))]
                found |= dict.fromkeys(tied, level[0][1])
        return [found[j] for j in range(part.size)]
    return Atom(part.rows, True, entries)
def pairs(node, parts, data):
    """For each lower x_k the sum of a_i f(x_k - x_i) over the upper i of its query, or the mean of the highest."""
    upper, lower = parts
    line, weights = function_for(node, [lower]), weights_for(node, upper, data)
    need(lower.by_row, "pairs of what is no number for each row")
    need(upper.affine, "a convex part has a negative factor")
    need(len(upper.rows.queries) == len(lower.rows.queries), "different queries are compared")
    graded, asked = node.get("grades") is not None, asked_for(node, upper, data)
    need(not graded or upper.rows is lower.rows, "grades of different rows are compared")
    grades: Any = grades_for(node, lower, data) if graded else None
    def entries(above, below):
        found, query = [], lower.rows.spread(range(len(asked)))
        for k, q in enumerate(query):
            places = upper.rows.queries[q]
            spend(len(places))
            chosen = [i for i in places if not graded or grades[k] < grades[i]]
            gaps = [added([(1, below[k]), (-1, above[i])]) for i in chosen]
            side = [(weights[i], through(line, gap)) for i, gap in zip(chosen, gaps, strict=True)]
            found.append(added(side) if node["atom"] == "pair_sums" else mean_of_highest(side, asked[q]))
        return found
    return Atom(lower.rows, True, entries, least=Fraction(0))
# Atoms: what makes them, how many parts they are of, and their other fields.
NONE, SINGLE, TWO, WEIGHTS = range(1), range(1, 2), range(2, 3), {"weights"}
ATOMS: dict[Any, Any] = {
    "scores": (scores, NONE, {"group"}),
    "listed": (listed, NONE, {"rows", "lower", "queries"}),
    "sum": (sums, range(1, MOST_ATOMS + 1), {"factors", "constant"}),
    **dict.fromkeys(("total", "mean", "log_sum_exp", "log_mean_exp"), (reduction, SINGLE, WEIGHTS)),
    "maximum": (reduction, SINGLE, set()),
    "mean_of_highest": (reduction, SINGLE, WEIGHTS | {"asked"}),
    "threshold": (reduction, SINGLE, WEIGHTS | {"function", "scale", "target"}),
    "cumulative_log_sum_exp": (cumulated, SINGLE, WEIGHTS | {"grades"}),
    "function": (elementwise, SINGLE, {"function"}),
    "pair_sums": (pairs, TWO, WEIGHTS | {"function", "grades"}),
    "pair_means": (pairs, TWO, WEIGHTS | {"function", "asked"}),
}
OPERATIONS: dict[Any, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
OPERATIONS |= {"log": log, "exp": exp, "expm1": lambda x: exp(x) - 1}
OF_ROWS = {"weight": 1, "label": 1, "sums": 2, "spread": 2}  # how many words follow; the last one is an atom
class Risk:
    """The atoms of a folder; ``arrays`` are its files."""
    def __init__(self, nodes: Any, arrays):
        need(type(nodes) is list and 0 < len(nodes) <= MOST_ATOMS, f"no list of 1 to {MOST_ATOMS} atoms")
        self.nodes, self.arrays, self.atoms, self.groups = nodes, arrays, [], {}
        node: Any
        for node in nodes:
            need(type(node) is dict and type(node.get("atom")) is str and node["atom"] in ATOMS, "an unknown atom")
            make, counts, fields = ATOMS[node["atom"]]
            of = node.get("of")
            parts: Any = of
            need(node.keys() == {"atom", "of", *fields}, f"{node['atom']} has other fields than {sorted(fields)}")
            need(type(of) is list and len(of) in counts, f"{node['atom']} of another number of parts")
            need(all(type(k) is int and 0 <= k < len(self.atoms) for k in parts), "an atom of one not before it")
            self.atoms.append(make(node, [self.atoms[k] for k in parts], self))
        need(not self.atoms[-1].by_row, "the last atom is no number for each query")
    def file(self, name, pattern):
        need(type(name) is str and re.fullmatch(pattern, name) and name in self.arrays, "numbers of no such file")
        spend(len(self.arrays[name]))
        return self.arrays[name]
    def integers(self, name):
        return self.file(name, "i[0-9]{1,4}")
    def numbers(self, x, size):
        """Intervals, one for each row or query."""
        return several(self.formula(x, 0), size)
    def formula(self, x: Any, nested):
        """Intervals, of any number; a single one stands for all."""
        need(nested <= MOST_NESTED, "formulas are nested too deeply")
        if type(x) is not list:
            found = self.file(x, EXTRA) if type(x) is str else [REAL(x)]
            return [between(one) for one in found]
        need(x and type(x[0]) is str, "a formula without an operation")
        kind, *rest = x
        count: Any = 1 + (kind in "+-*/") if kind in OPERATIONS else OF_ROWS.get(kind, 2 * (kind == "take"))
        need(len(rest) == count > 0, "an unknown formula")
        last: Any = self.integers(rest.pop()) if kind == "take" else rest.pop() if kind in OF_ROWS else None
        parts = [self.formula(part, nested + 1) for part in rest]
        if kind == "take":
            need(all(0 <= place < len(parts[0]) for place in last), "a place that does not exist")
            return [parts[0][place] for place in last]
        if kind in OPERATIONS:
            size = max(map(len, parts))
            parts = [several(part, size) for part in parts]
            return [OPERATIONS[kind](*one) for one in zip(*parts, strict=True)]
        need(type(last) is int and 0 <= last < len(self.atoms), "a formula of an atom that is not before it")
        rows = self.atoms[last].rows
        spend(len(rows.numbers))
        if kind == "sums":
            values = several(parts[0], len(rows.numbers))
            return [sum_of(values[place] for place in places) for places in rows.queries]
        if kind == "spread":
            return rows.spread(several(parts[0], len(rows.queries)))
        return [between(one) for one in (rows.weights if kind == "weight" else rows.labels)]
    def at(self, t):
        """The triple of the risk at scores t."""
        found = []
        for node, atom in zip(self.nodes, self.atoms, strict=True):
            spend(atom.size)
            found.append(atom.entries(*([found[k] for k in node["of"]] or [t])))
        return added((1, x) for x in found[-1])
    def least(self):
        """A number that the risk is never below, or None: it rises with what is not affine."""
        found = []
        for k, (node, atom) in enumerate(zip(self.nodes, self.atoms, strict=True)):
            parts = [found[k] for k in node["of"]]
            known = self.divergence(k) if atom.least is None else [atom.least] * atom.size
            if known is None and atom.rises and parts and None not in parts:
                columns = [[(between(x), {}, between(x)) for x in part] for part in parts]
                known = [value.lo for value, *_ in atom.entries(*columns)]
            found.append(known)
        return None if found[-1] is None else sum_of(found[-1]).lo
    def divergence(self, k):
        """log(sum of a e^x) - sum of p x >= -sum of p log(p/a) if a and p sum to 1: so much for each query, or None."""
        node, of = self.nodes[k], [self.nodes[j] for j in self.nodes[k]["of"]]
        if [x["atom"] for x in (node, *of)] != ["sum", "log_mean_exp", "mean"] or of[0]["of"] != of[1]["of"]:
            return None
        if not opposite(*node["factors"]):
            return None
        (factors, constants), found = self.atoms[k].given, []
        for c, constant, places in zip(factors, constants, self.atoms[k].rows.queries, strict=True):
            sides = [[self.atoms[j].given[place] for place in places] for j in node["of"]]
            a, p = ([one / sum_of(side) for one in side] for side in sides)
            rest = sum_of(b * entropy(v / b) for b, v in zip(a, p, strict=True))
            found.append((constant - c * rest).lo)
        return found
def opposite(x, y):
    """Whether y is the formula of -x."""
    if [x, y] == [1.0, -1.0] or y == ["*", x, -1.0]:
        return True
    products = all(type(one) is list and len(one) == 3 and one[0] == "*" for one in (x, y))
    return products and x[1] == y[1] and opposite(x[2], y[2])
def several(values, size):
    need(len(values) in (1, size), "numbers do not fit the rows")
    spend(size)
    return values * size if len(values) < size else values

# --- the minimum of risk and penalty ----------------------------------------------------------------------------------
def conjugate(u, content, reach):
    """At least the maximum over v of <u, v> - penalty(v); None where nothing bounds it.

    A ball is replaced by m times its constraint, |v|_1 - B or (|v|^2 - B^2)/2: any m >= 0 gives an upper bound. Without
    l2 and a ball v is restricted to |v|_1 <= reach.
    """
    l2, radius = content["l2"], content.get("radius")
    over = sorted((max(abs(x) - content["l1"], Fraction(0)) for x in u), reverse=True)
    squares = sum(x * x for x in over)
    if content.get("ball") == "L1":
        m = max(Fraction(0), *((total - l2 * radius) / (k + 1) for k, total in enumerate(accumulate(over))))
        rest = sum(max(x - m, Fraction(0)) ** 2 for x in over)
        return (rest / (2 * l2) if rest else rest) + m * radius
    if content.get("ball") == "L2":
        m = max(Fraction(0), (math.isqrt(down(squares) << BITS) + 1) * UNIT / radius - l2)
        return squares / (2 * (l2 + m)) + m * radius * radius / 2
    if l2:
        return squares / (2 * l2)
    return None if over[0] and reach is None else over[0] * (reach or 0)
def global_claim(content, arrays):
    """An upper bound on value - minimum, once the value at w is that of the claim."""
    X, w, weight = arrays["X"], arrays["w"], arrays["weight"]
    points, weights = arrays.get("witness_points", []), arrays.get("witness_weights", [])
    need(min(weight) >= 0, "weights of rows are negative")
    need(min(arrays["query"]) >= 0, "queries are numbered from 0")
    need(not points or (min(weights) >= 0 and sum(weights) > 0), "witness_weights are not weights")
    norm, squares = sum(map(abs, w)), sum(x * x for x in w)
    if "ball" in content:
        limit = content["radius"] * FEASIBLE
        need(norm <= limit if content["ball"] == "L1" else squares <= limit * limit, "w is outside the ball")
    risk = Risk(content["risk"], arrays)
    def line(point):
        spend(len(X) * len(w))
        return risk.at([sum(a * b for a, b in zip(row, point, strict=True)) for row in X])
    lines = [line(w)]
    value = lines[0][0] + content["l2"] * squares / 2 + content["l1"] * norm
    stated = content["value"]
    fits = max(value.hi - stated, stated - value.lo) <= (1 + abs(stated)) * Fraction(1, 2**52)
    if points and fits:
        shares = [weight / sum(weights) for weight in weights]
        lines.append(added([(c, line(point)) for c, point in zip(shares, points, strict=True) if c]))
    floor = risk.least()  # the minimum is at least that, and l1 |v|_1 is at most the rest at the minimiser
    least, reach = [] if floor is None else [floor], None
    if least and content["l1"]:
        reach = (value.hi - floor) / content["l1"]
    for _, slope, constant in lines:
        spend(len(slope) * len(w))
        u = [size_of(sum_of(s * X[i][j] for i, s in slope.items())).hi for j in range(len(w))]
        found = conjugate([up(x) * UNIT for x in u], content, reach)
        least += [] if found is None else [constant.lo - found]
    need(least, "nothing bounds the minimiser")
    need(fits, f"the value is {float(value.hi)!r}")
    return value.hi - max(least)

# --- ranks of graphs --------------------------------------------------------------------------------------------------
def links_of(arrays):
    """For each node the links into it, from sources to weights, and the weight of the links out of each node."""
    offsets, sources, weights, n = arrays["offsets"], arrays["sources"], arrays["weights"], len(arrays["x"])
    need(n <= MOST_NODES, "too many nodes for fractions")
    need(len(offsets) == n + 1 and offsets[0] == 0 and offsets[-1] == len(sources), "offsets do not match")
    need(offsets == sorted(offsets), "offsets fall")
    need(all(weight > 0 for weight in weights), "weights of links are not positive")
    parts = [slice(*ends) for ends in pairwise(offsets)]
    need(all(sources[part] == sorted({*sources[part]}) for part in parts), "sources of a node do not rise")
    need({*sources} <= {*range(n)}, "sources are not nodes")
    out = [Fraction(0)] * n
    for j, weight in zip(sources, weights, strict=True):
        out[j] += weight
    return [dict(zip(sources[part], weights[part], strict=True)) for part in parts], out
def page_rank(content, arrays):
    """|alpha T x + (1 - alpha) v - x|_1 / (1 - alpha), exact: the map is a contraction in this norm."""
    alpha, x, teleport, n = content["alpha"], arrays["x"], arrays["teleport"], len(arrays["x"])
    links, out = links_of(arrays)
    need(min(teleport) >= 0 and sum(teleport) > 0, "teleport is no distribution")
    v = [weight / sum(teleport) for weight in teleport]
    to = {"teleport": v, "uniform": [Fraction(1, n)] * n, "drop": [Fraction(0)] * n}[content["dangling"]]
    rest = sum(x[j] for j in range(n) if not out[j])
    flow = [sum(weight / out[j] * x[j] for j, weight in links[i].items()) + rest * to[i] for i in range(n)]
    return sum(abs(alpha * flow[i] + (1 - alpha) * v[i] - x[i]) for i in range(n)) / (1 - alpha)
def log_norm(numbers, p):
    """log |z|_p of positive numbers."""
    top = max(numbers)
    return log(top) + log(sum_of(exp(log(z / top) * p) for z in numbers)) * (1 / p)
def lpq_rank(content, arrays):
    """The distance from x to U(x) over 1 - p/q, in Hilbert's metric, in which U is a contraction by p/q."""
    alpha, p, theta, x = content["alpha"], content["p"], content["p"] / content["q"], arrays["x"]
    (links, out), n, moved = links_of(arrays), len(x), []
    need(theta < 1, "p/q is at least 1: the map is no contraction")
    need(min(x) > 0, "ranks are not positive")
    weak, least = (1 - alpha) / n, content["outdegree_floor"] or 0
    for i in range(n):
        a = {j: Fraction(1, n) for j in range(n) if not out[j]}
        a |= {j: weight / max(out[j], least) for j, weight in links[i].items()}
        if content["weak_links"] == "inside":
            image = log_norm([(alpha * a.get(j, 0) + weak) * x[j] for j in range(n)], p) * theta
        elif content["weak_links"] == "entry":
            image = log_norm([alpha * b * x[j] for j, b in a.items() if alpha] + [weak * sum(x)], p) * theta
        else:
            strong = exp(log_norm([b * x[j] for j, b in a.items()], p) * theta) * alpha if a else between(0)
            image = log(strong + exp(log(sum(x)) * theta) * weak)
        moved.append(log(x[i]) - image)
    return (max(m.hi for m in moved) - min(m.lo for m in moved)) / (1 - theta)

# --- reading: what is unknown, missing, additional or out of range is refused -----------------------------------------
def number(holds):
    def read(x):
        need(type(x) in (int, float) and math.isfinite(x) and float(x) == x, f"{x!r} is not a number")
        need(holds(x), f"{x!r} is out of range")
        return Fraction(x)
    return read
def one_of(*words):
    def read(x):
        need(any(type(x) is type(word) and x == word for word in words), f"{x!r} is none of {words}")
        return x
    return read
REAL, POSITIVE, NOT_NEGATIVE = number(lambda x: True), number(lambda x: x > 0), number(lambda x: x >= 0)
ALPHA, NORM = number(lambda x: 0 <= x < 1), number(lambda x: x >= 1)
DANGLING, WEAK = one_of("teleport", "uniform", "drop"), one_of("inside", "entry", "outside")
LPQ = {"alpha": ALPHA, "p": NORM, "q": NORM, "weak_links": WEAK}
LPQ |= {"outdegree_floor": lambda x: None if x is None else POSITIVE(x)}
RANKS: dict[Any, Any] = {"PageRank": (page_rank, {"alpha": ALPHA, "dangling": DANGLING}), "LpqRank": (lpq_rank, LPQ)}
# Shapes by letters; a letter stands for the same number everywhere.
LINEAR_FILES = {"X": "nd", "y": "n", "weight": "n", "query": "n", "w": "d"}
WITNESS_FILES = {"witness_points": "md", "witness_weights": "m"}
GRAPH_FILES = {"offsets": "o", "sources": "e", "weights": "e", "x": "n"}
EXTRA = "[ni][0-9]{1,4}"  # files of numbers and of integers that a risk names
INTEGERS = re.compile("query|offsets|sources|i[0-9]{1,4}")
TYPES = {"<f8": "d", "<f4": "f", "<i8": "q", "<i4": "i", "<i2": "h", "|i1": "b"}
def read_bytes(path):
    """The bytes of a regular file, no link, of at most MOST_BYTES."""
    flags = sum(getattr(os, name, 0) for name in ("O_RDONLY", "O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
    need(stat.S_ISREG(os.lstat(path).st_mode), f"{path.name} is not a regular file")
    with os.fdopen(os.open(path, flags), "rb") as file:
        need(stat.S_ISREG(os.fstat(file.fileno()).st_mode), f"{path.name} is not a regular file")
        found = file.read(MOST_BYTES + 1)
    need(len(found) <= MOST_BYTES, f"{path.name} has more than {MOST_BYTES} bytes, too large for fractions")
    return found
def read_array(stored, name):
    """Shape and entries of a .npy file of version 1.0 or 2.0."""
    version, size = stored[6:8], {b"\x01\x00": 2, b"\x02\x00": 4}.get(stored[6:8], 0)
    need(stored[:6] == b"\x93NUMPY" and size, f"{name} is not .npy of version 1.0 or 2.0, but {version!r}")
    begin = 8 + size
    end = begin + int.from_bytes(stored[8:begin], "little")
    need(end <= min(len(stored), 4096), f"{name} has a header that does not end")
    header = ast.literal_eval(stored[begin:end].decode("ascii"))
    need(isinstance(header, dict) and header.keys() == {"descr", "fortran_order", "shape"}, f"{name}: header")
    kind, shape = header["descr"], header["shape"]
    need(isinstance(kind, str) and kind in TYPES, f"{name} has entries of type {kind!r}")
    need(header["fortran_order"] is False, f"{name} is not in C order")
    need(isinstance(shape, tuple) and all(type(k) is int and k >= 0 for k in shape), f"{name} has no shape")
    need(not INTEGERS.fullmatch(name) or kind[1] == "i", f"{name} does not hold integers")
    count = math.prod(shape)
    need(len(stored) - end == count * int(kind[2]), f"{name} does not hold {shape} entries")
    values = struct.unpack(f"<{count}{TYPES[kind]}", stored[end:])
    need(all(map(math.isfinite, values)), f"{name} is not finite")
    return shape, [*values] if INTEGERS.fullmatch(name) else [Fraction(x) for x in values]
def read_arrays(folder, digests, expected):
    """The arrays of the folder, vectors as lists and matrices as lists of rows; sizes agree."""
    arrays, sizes, total = {}, {}, 0
    for name, letters in expected.items():
        stored = read_bytes(folder / f"{name}.npy")
        total += len(stored)
        need(total <= 4 * MOST_BYTES, "files that are too large for fractions")
        need(hashlib.sha256(stored).hexdigest() == digests[f"{name}.npy"], f"{name}.npy has another SHA-256")
        shape, values = read_array(stored, name)
        need(len(shape) == len(letters), f"{name} has shape {shape}")
        for letter, size in zip(letters, shape, strict=True):
            need(sizes.setdefault(letter, size) == size, f"{name} has shape {shape}, other arrays do not match")
            need(size or letter == "e", f"{name} is empty")
        starts = range(0, len(values), shape[-1] or 1)
        arrays[name] = values if len(shape) == 1 else [values[i : i + shape[-1]] for i in starts]
    return arrays
def without_repetition(pairs):
    need(len(dict(pairs)) == len(pairs), "a field is given twice")
    return dict(pairs)
def read(folder):
    """The content of the certificate, every field checked but those of atoms; as it stands; and the arrays."""
    SPENT[0] = 0
    text = read_bytes(folder / "certificate.json").decode("utf-8")
    raw = json.loads(text, object_pairs_hook=without_repetition)
    need(type(raw) is dict, "certificate.json holds no object")
    claim, files, name = raw.get("claim"), raw.get("files"), raw.get("problem")
    need(type(claim) is dict and type(files) is dict, "there is no claim, or there are no files")
    kind = "distance" if "problem" in raw else "global"
    need(claim.keys() == {"kind", "gap", "value"} and claim["kind"] == kind, f"the claim is no {kind} bound")
    if kind == "global":
        fields = {"risk": lambda x: x, "l2": NOT_NEGATIVE, "l1": NOT_NEGATIVE}
        fields |= {"ball": one_of("L1", "L2"), "radius": POSITIVE} if "ball" in raw else {}
        stems = [str(key).removesuffix(".npy") for key in files]
        expected = LINEAR_FILES | {stem: (stem,) for stem in stems if re.fullmatch(EXTRA, stem)}
        expected |= WITNESS_FILES if "witness_points.npy" in files else {}
    else:
        fields, expected = {"problem": one_of(*RANKS)}, GRAPH_FILES | ({"teleport": "n"} if name == "PageRank" else {})
        fields |= RANKS[fields["problem"](name)][1]
    need(raw.keys() == {"claim", "files", *fields}, f"fields are {[*raw]}, expected {[*fields]}")
    need(files.keys() == {f"{key}.npy" for key in expected}, f"files are {[*files]}")
    content = {key: check(raw[key]) for key, check in fields.items()} | {"gap": NOT_NEGATIVE(claim["gap"])}
    content |= {"value": number(lambda x: kind == "global" or x == 0)(claim["value"])}
    return content, raw, read_arrays(folder, files, expected)

# --- the verdict ------------------------------------------------------------------------------------------------------
def said_of(x, said):
    """Words for a number, a formula or a function; ``said`` are those of atoms."""
    if type(x) is not list:
        text = f"{x:g}" if type(x) in (int, float) and float(f"{x:g}") == x else str(x)
    else:
        kind, *rest = x
        words = [said_of(part, said) for part in rest]
        if kind in OF_ROWS:
            words[-1] = said[rest[-1]]
        inner = f"({', '.join(words)})" * bool(words)
        text = f"({words[0]} {kind} {words[1]})" if kind in [*"+-*/"] else kind + inner
    need(len(text) <= MOST_LETTERS, "the formula is too long")
    return text
def formula(raw):
    """The objective in words, with the scores of positives, negatives and rows."""
    said = []
    for node in raw["risk"]:
        kind, parts = node["atom"], [said[k] for k in node["of"]]
        if kind == "scores":
            text = node["group"]
        elif kind == "listed":
            rows = " - ".join(node[key] for key in ("rows", "lower") if node[key] is not None)
            text = f"score[{rows}, queries={node['queries']}]"
        elif kind == "sum":
            signs = ["" if c == 1 else "-" if c == -1 else f"{said_of(c, said)} * " for c in node["factors"]]
            inner = [f"({said[k]})" if raw["risk"][k]["atom"] == "sum" else said[k] for k in node["of"]]
            terms = [sign + part for sign, part in zip(signs, inner, strict=True)]
            terms += [] if node["constant"] == 0 else [said_of(node["constant"], said)]
            text = " + ".join(terms).replace(" + -", " - ")
        elif kind == "function":
            text = f"{said_of(node['function'], said)}({parts[0]})"
        else:
            parts = [said_of(node["function"], said), *parts] if "function" in node else parts
            keys = [key for key in ("weights", "grades", "asked", "scale", "target") if node.get(key) is not None]
            others = [f"{key}={said_of(node[key], said)}" for key in keys if (key, node[key]) != ("weights", 1)]
            text = f"{kind}({', '.join(parts + others)})"
        need(len(text) <= MOST_LETTERS, "the formula is too long")
        said.append(text)
    l2, l1, radius = (said_of(raw.get(key, 0), said) for key in ("l2", "l1", "radius"))
    text = said[-1] + (f" + {l2}/2 |w|^2" if raw["l2"] else "") + (f" + {l1} |w|_1" if raw["l1"] else "")
    return text + (f", |w|_{raw['ball'][1]} <= {radius}" if "ball" in raw else "")
def main(folder):
    """Print the verdict; 0 is proved."""
    try:
        content, raw, arrays = read(Path(folder))
        claim = raw["claim"]
        if claim["kind"] == "global":
            gap = global_claim(content, arrays)
            name = formula(raw)
        else:
            name = raw["problem"]
            gap = RANKS[name][0](content, arrays)
        need(gap <= content["gap"], f"the gap is at most {float(gap)!r}, the claim {claim['gap']!r}")
    except Exception as no:  # noqa: BLE001 - whatever a folder does to this program, it is not confirmed
        reason = (str(no) or type(no).__name__)[:500]
        print(f"refused: {reason.encode('ascii', 'backslashreplace').decode()}")
        return 1
    print(f"proved: {name}, {claim['kind']}, at most {claim['gap']}")
    return 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
