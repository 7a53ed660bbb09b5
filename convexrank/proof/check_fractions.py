"""Check a certificate that solution.export wrote a second time: in exact fractions, by Python's standard library alone.

Usage: python check_fractions.py FOLDER. It prints "proved: ..." and exits with 0, or "refused: ..." and exits with 1.

The claim is "value - minimum <= gap" for F(w) = R(Xw) + l2/2 |w|^2 + l1 |w|_1, perhaps in a ball. Multipliers that are
feasible in the conjugate of a convex risk R give a slope s and a number c with R(t) >= <s, t> + c for all scores t. So
F >= c - max over v of (<u, v> - penalty(v)), with u = -X's. *Any* feasible multipliers will do: they are fractions,
close to the best ones. There are no derivatives. Numbers are fractions; intervals enclose exponentials and logarithms.
For ranks of a graph the claim is "distance to the solution <= gap", and the map is a contraction.
"""

import ast
import hashlib
import json
import math
import os
import stat
import struct
import sys
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, groupby, pairwise
from pathlib import Path

BITS = 256  # exponentials, logarithms and multipliers are multiples of about 2^-BITS
LARGEST = 2**11  # largest argument of an exponential; floats end at e^709
MOST_STEPS = 200  # of a spectrum
MOST_BYTES, MOST_TERMS = 2**20, 100_000  # of a file; of all evaluations: rows, or pairs of rows, times points
FEASIBLE = 1 + Fraction(1e-9)  # a point may lie outside its ball by this factor: rounding, as in the package
UNIT = Fraction(1, 2**BITS)
ERRORS = (
    ArithmeticError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


def need(condition, reason):
    if not condition:
        raise ValueError(reason)


# --- intervals with rational ends -------------------------------------------------------------------------------------


def down(x):
    """The largest integer n with n UNIT <= x."""
    return (x.numerator << BITS) // x.denominator


def up(x):
    return -down(-x)


@dataclass(frozen=True)
class Interval:
    """The numbers from lo to hi. Sums and products are exact; only exp and log round, outward."""

    lo: Fraction
    hi: Fraction

    def __add__(self, other):
        other = between(other)
        return Interval(self.lo + other.lo, self.hi + other.hi)

    def __neg__(self):
        return Interval(-self.hi, -self.lo)

    def __sub__(self, other):
        return self + (-other)

    def __mul__(self, other):
        other = between(other)
        ends = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        return Interval(min(ends), max(ends))

    __radd__, __rmul__ = __add__, __mul__


def between(x):
    return x if isinstance(x, Interval) else Interval(Fraction(x), Fraction(x))


def sum_of(intervals):
    return sum(intervals, start=between(0))


def increasing(function, x):
    """The image of an interval under an increasing function that encloses its value at fractions."""
    x = between(x)
    first = function(x.lo)
    return Interval(first.lo, first.hi if x.lo == x.hi else function(x.hi).hi)


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
    need(x <= LARGEST, "an exponential is out of range")
    if x < -BITS:
        return Interval(Fraction(0), UNIT)  # e > 2
    n = math.floor(x / LOG2.lo)
    n -= (LOG2 * n).hi > x
    rest = between(x) - LOG2 * n
    need(0 <= rest.lo <= rest.hi <= 1, "reduction of an exponential")
    return Interval(exp_series(down(rest.lo))[0] * UNIT, exp_series(up(rest.hi))[1] * UNIT) * Fraction(2) ** n


def log_of(x):
    """Enclose log x of a positive fraction: x = 2^n y with 1 <= y < 2, and y = (1+q)/(1-q)."""
    need(x > 0, "the logarithm of a number that may be 0")
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


# --- convex functions of one number: value, and u and c of a line u t + c below the function everywhere ---------------


def multiplier(x):
    """A multiple of UNIT, at least 0, close to an interval."""
    return max(down(x.lo), 0) * UNIT


def line_of_exp(t, p):
    """u t + m - m log m <= e^(p t) for every u >= 0, with m = u/p."""
    u = multiplier(exp(t * p) * p)
    return u, (between(u / p) - entropy(between(u / p))).lo


def line_of_softplus(t):
    """u t - u log u - (1-u) log(1-u) <= log(1 + e^t) for 0 <= u <= 1."""
    small = exp_of(-abs(t)).lo
    u = multiplier(between((1 if t > 0 else small) / (1 + small)))
    return u, (-entropy(between(u)) - entropy(between(1 - u))).lo


def price_of_exp(price, a):
    """h(a) = g(e^a) at an interval a; h is convex and does not fall."""
    if price["type"] == "LogOnePlus":
        return softplus(a), *line_of_softplus(a.lo)
    if price["type"] != "ExpPrice":
        p = price.get("p", Fraction(1))
        return exp(a * p), *line_of_exp(a.lo, p)
    inner, offset = line_of_exp(a.lo, Fraction(1))  # below e^a, so that a line in e^a is above a line in a
    u, c = line_of_exp(inner * a.lo + offset, price["scale"])
    return exp(exp(a) * price["scale"]), u * inner, u * offset + c


def price_of(price, r):
    """g(r) at an interval r >= 0; g is convex and does not fall."""
    t, p = max(r.lo, Fraction(0)), price.get("p", Fraction(1))
    if price["type"] == "ExpPrice":
        return exp(r * price["scale"]), *line_of_exp(t, price["scale"])
    if p == 1:
        return r, p, Fraction(0)
    u = multiplier(power(t, p - 1) * p)  # r^p >= u r - (p-1) (u/p)^(p/(p-1))
    return power(r, p), u, (power(u / p, p / (p - 1)) * (1 - p)).lo


def loss_of(loss, z):
    """The loss at a fraction z; it does not rise, so that the line is c - m z with m >= 0."""
    short = max(1 - z, Fraction(0))
    if loss["type"] == "Hinge":
        return between(short), Fraction(short > 0), Fraction(short > 0)
    if loss["type"] == "SquaredHinge":
        return between(short * short), 2 * short, 2 * short - short * short
    if loss["type"] == "Exponential":
        return exp(-z), *line_of_exp(-z, Fraction(1))
    unit = Fraction(1)  # log_b(1 + e^-z); the number next to e stands for e
    if loss["base"] != Fraction(math.e):
        logarithm = log(loss["base"])
        unit = Interval(1 / logarithm.hi, 1 / logarithm.lo)
    m, c = line_of_softplus(-z)
    below = multiplier(between(unit))  # softplus is never negative, so that its factor may be rounded down
    return softplus(-z) * unit, below * m, below * c


# --- risks: value at scores t (a list), slope s (from rows to numbers), and constant c with R >= <s, .> + c -----------


def added(parts):
    """The sum of multiples: parts are pairs of a factor >= 0 and a triple of value, slope and constant."""
    value, slope, constant = between(0), {}, Fraction(0)
    for factor, (one, s, c) in parts:
        value, constant = value + factor * one, constant + factor * c
        for i, x in s.items():
            slope[i] = slope.get(i, 0) + factor * x
    return value, slope, constant


def distribution(masses):
    """Fractions >= 0 that sum to 1 exactly, close to proportional: the largest takes what rounding leaves."""
    largest, size = max(masses, key=masses.__getitem__), sum(masses.values())
    v = {i: down(mass / size) * UNIT for i, mass in masses.items()}
    return v | {largest: v[largest] + 1 - sum(v.values())}


def log_sum(z, a):
    """log(sum of a_i e^(z_i)): the maximum of <v, z> - sum of v_i log(v_i/a_i) over distributions v."""
    top = max(z.values())
    terms = {i: a[i] * exp(z[i] - top) for i in z}
    v = distribution({i: term.lo for i, term in terms.items()})
    return log(sum_of(terms.values())) + top, v, -sum_of(a[i] * entropy(between(v[i] / a[i])) for i in z).hi


def log_mean(t, rows, q):
    """1/|q| log(mean of e^(q t_i)), weighted."""
    total = sum(rows.values())
    value, v, c = log_sum({i: q * t[i] for i in rows}, {i: weight / total for i, weight in rows.items()})
    return value * (1 / abs(q)), {i: m * q / abs(q) for i, m in v.items()}, c / abs(q)


def highest(t, rows):
    """The maximum: <v, t> for the distribution over the rows that attain it."""
    top = max(t[i] for i in rows)
    tied = [i for i in rows if t[i] == top]
    return top, {i: Fraction(1, len(tied)) for i in tied}, Fraction(0)


def mean_of_highest(parts, mass):
    """The largest sum of v_i z_i with 0 <= v_i <= b_i/mass and sum 1; parts are pairs of b > 0 and a triple of z.

    The value is at least that of the v chosen, and at most c + sum of b_i/mass max(z_i - c, 0), for any number c. Any v
    will do; that of the evidence shares what is left among all that tie in floats.
    """
    falling, left, last, chosen = sorted(parts, key=height, reverse=True), mass, Fraction(0), []
    for _, group in groupby(falling, key=height):
        tied = list(group)
        if left > 0:
            whole, last = sum(b for b, _ in tied), min(z[0].lo for _, z in tied)
            chosen += [(b / whole * min(whole, left) / mass, z) for b, z in tied]
            left -= whole
    need(left <= 0, "there are not so many rows")
    value, slope, constant = added(chosen)
    above = last + sum(b / mass * max(z[0].hi - last, 0) for b, z in parts)
    return Interval(value.lo, max(above, value.lo)), slope, constant


def height(part):
    return float(part[1][0].lo)


def score(t, i):
    return between(t[i]), {i: Fraction(1)}, Fraction(0)


def spectral_push(content, rows, t):
    """The mean of l(t_i - level), with sum of sigma_[k] t_[k] of the negatives for the level."""
    positives, negatives, spectrum = rows["positives"], rows["negatives"], content["spectrum"]
    parts, whole = [(b, score(t, k)) for k, b in negatives.items()], sum(negatives.values())
    size, heights = 1 if spectrum["counted"] else whole, [*spectrum["heights"], Fraction(0)]
    steps = [
        ((a - b) * end, min(end * size, whole))
        for end, (a, b) in zip(spectrum["ends"], pairwise(heights), strict=True)
    ]
    need(abs(sum(factor for factor, _ in steps) - 1) <= Fraction(1e-9), "the spectrum does not add up to 1")
    level, v, _ = added([(factor, mean_of_highest(parts, mass)) for factor, mass in steps])
    return mean_above(content["loss"], positives, t, level, v)


def partial_auc(content, rows, t):
    """The mean of the highest over negatives of the mean of the highest over positives of l(t_i - t_k)."""
    positives, negatives = rows["positives"], rows["negatives"]
    low = (1 - (content["min_tpr"] or 0)) * sum(positives.values())
    lost = []
    for k, b in negatives.items():
        pairs = [(a, sum_over_pairs(content["loss"], [(i, k, 1)], t)) for i, a in positives.items()]
        lost.append((b, mean_of_highest(pairs, low)))
    return mean_of_highest(lost, content["max_fpr"] * sum(negatives.values()))


def log_push(content, rows, t):
    """PNormPush, BottomPush, TopBottomPush, TopPush."""
    name, p, (up_, down_) = content["problem"], content.get("p"), (rows["positives"], rows["negatives"])
    if name == "TopPush":
        return added([(1, log_mean(t, up_, -1)), (1, highest(t, down_))])
    top = [] if name == "BottomPush" else [log_mean(t, up_, Fraction(-1)), log_mean(t, down_, p)]
    bottom = [] if name == "PNormPush" else [log_mean(t, up_, -p), log_mean(t, down_, Fraction(1))]
    return added([(1, part) for part in top] + [(content.get("bottom_weight", 1), part) for part in bottom])


def sum_over_level(t, outer, level, sign, price):
    """The sum of b_j h(L + sign t_j), with L = log(sum of a_i e^(-sign t_i)), for b = outer and a = level."""
    value, v, c = log_sum({i: -sign * t[i] for i in level}, level)
    parts, below = [], {i: -sign * m for i, m in v.items()}
    for j, b in outer.items():
        one, u, offset = price_of_exp(price, value + sign * t[j])
        parts.append((b, (one, {j: sign * u}, offset)))  # u >= 0, and L is above its own line
        parts.append((b * u, (0, below, c)))
    return added(parts)


def ir_push(_, rows, t):
    total = sum(rows["positives"].values())
    outer = {i: weight / total for i, weight in rows["positives"].items()}
    return sum_over_level(t, outer, rows["negatives"], -1, {"type": "LogOnePlus"})


def rmax_push(content, rows, t):
    top, v, _ = highest(t, rows["negatives"])
    return mean_above(content["loss"], rows["positives"], t, between(top), v)


def mean_above(loss, positives, t, level, v):
    """The mean of l(t_i - level): a line has slope m >= 0 in the level, which is at least <v, t>."""
    total, parts = sum(positives.values()), []
    for i, weight in positives.items():
        one, m, c = loss_of(loss, t[i] - level.lo)  # the loss rises with the level
        one = Interval(one.lo, one.hi if level.lo == level.hi else loss_of(loss, t[i] - level.hi)[0].hi)
        parts += [(weight / total, (one, {i: -m}, c)), (weight / total * m, (0, v, 0))]
    return added(parts)


def sum_over_pairs(loss, pairs, t):
    """The sum of c l(t_i - t_j) over (i, j, c)."""
    lines = [(weight, i, j, *loss_of(loss, t[i] - t[j])) for i, j, weight in pairs]
    return added([(weight, (one, {i: -m, j: m}, c)) for weight, i, j, one, m, c in lines])


def push(content, rows, t):
    positives, negatives, parts = rows["positives"], rows["negatives"], []
    if content["loss"]["type"] == "Exponential":
        return sum_over_level(t, negatives, positives, 1, content["price"])
    for k, weight in negatives.items():
        r, slope, constant = sum_over_pairs(content["loss"], [(i, k, a) for i, a in positives.items()], t)
        one, u, c = price_of(content["price"], r)
        parts += [(weight, (one, {}, c)), (weight * u, (0, slope, constant))]
    return added(parts)


def pair_risk(content, rows, t):
    """ConvexRisk and RankSVM."""
    return sum_over_pairs(content["loss"], rows["pairs"], t)


def list_net(_, rows, t):
    """The sum of factors times KL(q | softmax). Log-sum-exp >= <v, t> - sum of v log v for v = q + s, s of sum 0."""
    parts = []
    for q, factor in rows["queries"]:
        level, v, _ = log_sum({i: t[i] for i in q}, dict.fromkeys(q, Fraction(1)))
        s = {i: v[i] - q[i].lo for i in q}  # so that q + s is never negative
        s[max(v, key=v.__getitem__)] -= sum(s.values())
        own = sum_of(entropy(x) for x in q.values())
        value = level + own - sum_of(q[i] * t[i] for i in q)
        parts.append((factor, (value, s, (own - sum_of(entropy(q[i] + s[i]) for i in q)).lo)))
    return added(parts)


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
    """The value at w, an interval, and an upper bound on value - minimum."""
    X, w, risk = arrays["X"], arrays["w"], FORMULATIONS[content["problem"]][1]
    points, weights = arrays.get("witness_points", []), arrays.get("witness_weights", [])
    pairs = content["problem"] in ("ConvexRisk", "RankSVM", "Push", "PartialAUC")
    steps = len(content.get("spectrum", {"ends": [1]})["ends"])
    size = len(X) * max(len(X) if pairs else steps, len(w) // 4)
    need((1 + len(points)) * size <= MOST_TERMS, "too many terms for fractions")
    need(not points or (min(weights) >= 0 and sum(weights) > 0), "witness_weights are not weights")
    norm, squares = sum(map(abs, w)), sum(x * x for x in w)
    if "ball" in content:
        limit = content["radius"] * FEASIBLE
        need(norm <= limit if content["ball"] == "L1" else squares <= limit * limit, "w is outside the ball")
    rows = rows_of(content, arrays)

    def line(point):
        return risk(content, rows, [sum(a * b for a, b in zip(row, point, strict=True)) for row in X])

    lines = [line(w)]
    value = lines[0][0] + content["l2"] * squares / 2 + content["l1"] * norm
    if points:
        shares = [weight / sum(weights) for weight in weights]
        lines.append(added([(c, line(point)) for c, point in zip(shares, points, strict=True) if c]))
    # a risk that is never negative: the minimum is at least 0, and l1 |v|_1 is at most the value at the minimiser
    above_zero = risk is not log_push
    reach = value.hi / content["l1"] if above_zero and content["l1"] else None
    least = [Fraction(0)] if above_zero else []
    for _, slope, constant in lines:
        u = [-sum(s * X[i][j] for i, s in slope.items()) for j in range(len(w))]
        found = conjugate(u, content, reach)
        least += [] if found is None else [constant - found]
    need(least, "nothing bounds the minimiser")
    return value, value.hi - max(least)


def rows_of(content, arrays):
    """The rows of the problem: positives and negatives with their weights, or pairs, or queries."""
    name, y, query = content["problem"], arrays["y"], arrays["query"]
    kept = {i: weight for i, weight in enumerate(arrays["weight"]) if weight}
    need(all(weight > 0 for weight in kept.values()), "weights of rows are negative")
    if name in ("RankSVM", "ListNet"):
        need(all(weight == 1 for weight in arrays["weight"]), "weights of rows have no meaning here")
        need(min(query) >= 0, "queries are numbered from 0")
        found = {number: [] for number in query}
        for i in range(len(y)):
            found[query[i]].append(i)
        groups = [group for group in found.values() if len({y[i] for i in group}) > 1]  # others have no order
        need(groups, "no query has an order")
        if name == "ListNet":
            return {"queries": [list_of(content, {i: y[i] for i in group}) for group in groups]}
        pairs = [[(i, j) for i in group for j in group if y[i] > y[j]] for group in groups]
        units = [Fraction(1, len(own) if content["normalize"] else 1) for own in pairs]
        return {"pairs": [(*ij, unit) for own, unit in zip(pairs, units, strict=True) for ij in own]}
    need({*query} == {0}, "queries have no meaning here")
    if name == "ConvexRisk":
        total = sum(kept.values())
        need(total > 1, "weights of rows sum to at most 1")
        need(len({y[i] for i in kept}) > 1, "all labels are equal")
        unit = 2 / (total * (total - 1))
        pairs = [(i, j) for i in kept for j in kept if y[i] > y[j]]
        return {"pairs": [(i, j, kept[i] * kept[j] * unit) for i, j in pairs]}
    need({*y} <= {0, 1}, "labels are not 0 and 1")
    need({y[i] for i in kept} == {0, 1}, "a class has no rows")
    sides = {"positives": 1, "negatives": 0}
    return {side: {i: weight for i, weight in kept.items() if y[i] == label} for side, label in sides.items()}


def list_of(content, grades):
    """A query of ListNet: its distribution, by rows, as intervals; and its factor."""
    top, kind = max(grades.values()), content["target"]
    need(kind == "softmax" or min(grades.values()) >= 0, "grades are negative")
    if kind == "softmax":
        worth = {i: exp(grade - top) for i, grade in grades.items()}
    elif kind == "exp2":  # 2^y - 1, which is never negative
        worth = {i: exp(LOG2 * grade) - 1 for i, grade in grades.items()}
        worth = {i: Interval(max(x.lo, Fraction(0)), x.hi) for i, x in worth.items()}
    else:
        worth = {i: between(grade) for i, grade in grades.items()}
    size = sum_of(worth.values())
    need(size.lo > 0, "a query without worth")
    scale = Interval(1 / size.hi, 1 / size.lo)
    return {i: x * scale for i, x in worth.items()}, Fraction(1, len(grades) if content["normalize"] else 1)


# --- ranks of graphs --------------------------------------------------------------------------------------------------


def links_of(arrays):
    """For each node the links into it, from sources to weights, and the weight of the links out of each node."""
    offsets, sources, weights, n = arrays["offsets"], arrays["sources"], arrays["weights"], len(arrays["x"])
    need(n * n <= MOST_TERMS, "too many nodes for fractions")
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


def rising(x):
    need(type(x) is list and 0 < len(x) <= MOST_STEPS, f"no list of 1 to {MOST_STEPS} numbers")
    numbers = [number(lambda one: one > 0)(one) for one in x]
    need(all(a < b for a, b in pairwise(numbers)), "numbers do not rise")
    return numbers


def falling(x):
    need(type(x) is list, f"{x!r} is no list")
    return rising(x[::-1])[::-1]


def function_of(known):
    def read(x):
        need(type(x) is dict and x.get("type") in [*known], f"{x!r} is none of {[*known]}")
        fields = known[x["type"]]
        need(x.keys() == {"type", *fields}, f"{x!r} has other fields than {[*fields]}")
        return {"type": x["type"], **{key: check(x[key]) for key, check in fields.items()}}

    return read


POSITIVE, NOT_NEGATIVE = number(lambda x: x > 0), number(lambda x: x >= 0)
ALPHA, NORM, FLAG = number(lambda x: 0 <= x < 1), number(lambda x: x >= 1), one_of(True, False)
HINGES = {"Hinge": {}, "SquaredHinge": {}}
LOSSES = function_of({**HINGES, "Exponential": {}, "Logistic": {"base": number(lambda x: x > 1)}})
SPECTRA = function_of({"Spectrum": {"ends": rising, "heights": falling, "counted": FLAG}})
RATE = number(lambda x: 0 < x <= 1)
SCALED = {"Power": {"p": POSITIVE}, "ExpPrice": {"scale": POSITIVE}}
PRICES = function_of({"Identity": {}, "LogOnePlus": {}, **SCALED})
TARGETS, DANGLING = one_of("softmax", "exp2", "linear"), one_of("teleport", "uniform", "drop")
WEAK, FLOOR = one_of("inside", "entry", "outside"), lambda x: None if x is None else POSITIVE(x)
LPQ = {"alpha": ALPHA, "p": NORM, "q": NORM, "weak_links": WEAK, "outdegree_floor": FLOOR}
FORMULATIONS = {
    "PNormPush": ("global", log_push, {"p": POSITIVE}),
    "BottomPush": ("global", log_push, {"p": POSITIVE}),
    "TopBottomPush": ("global", log_push, {"p": POSITIVE, "bottom_weight": NOT_NEGATIVE}),
    "TopPush": ("global", log_push, {}),
    "IRPush": ("global", ir_push, {}),
    "RmaxPush": ("global", rmax_push, {"loss": LOSSES}),
    "SpectralPush": ("global", spectral_push, {"spectrum": SPECTRA, "loss": LOSSES}),
    "PartialAUC": (
        "global",
        partial_auc,
        {
            "max_fpr": RATE,
            "min_tpr": lambda x: None if x is None else number(lambda y: 0 < y < 1)(x),
            "loss": LOSSES,
        },
    ),
    "Push": ("global", push, {"price": PRICES, "loss": LOSSES}),
    "ConvexRisk": ("global", pair_risk, {"loss": LOSSES}),
    "RankSVM": ("global", pair_risk, {"loss": function_of(HINGES), "normalize": FLAG}),
    "ListNet": ("global", list_net, {"target": TARGETS, "normalize": FLAG}),
    "PageRank": ("distance", page_rank, {"alpha": ALPHA, "dangling": DANGLING}),
    "LpqRank": ("distance", lpq_rank, LPQ),
}
# Shapes by letters; a letter stands for the same number everywhere.
LINEAR_FILES = {"X": "nd", "y": "n", "weight": "n", "query": "n", "w": "d"}
WITNESS_FILES = {"witness_points": "md", "witness_weights": "m"}
GRAPH_FILES = {"offsets": "o", "sources": "e", "weights": "e", "x": "n"}
INTEGERS = ("query", "offsets", "sources")
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
    need(name not in INTEGERS or kind[1] == "i", f"{name} does not hold integers")
    count = math.prod(shape)
    need(len(stored) - end == count * int(kind[2]), f"{name} does not hold {shape} entries")
    values = struct.unpack(f"<{count}{TYPES[kind]}", stored[end:])
    need(all(map(math.isfinite, values)), f"{name} is not finite")
    return shape, [*values] if name in INTEGERS else [Fraction(x) for x in values]


def read_arrays(folder, digests, expected):
    """The arrays of the folder, vectors as lists and matrices as lists of rows; sizes agree."""
    arrays, sizes = {}, {}
    for name, letters in expected.items():
        stored = read_bytes(folder / f"{name}.npy")
        need(hashlib.sha256(stored).hexdigest() == digests[f"{name}.npy"], f"{name}.npy has another SHA-256")
        shape, values = read_array(stored, name)
        need(len(shape) == len(letters), f"{name} has shape {shape}")
        for letter, size in zip(letters, shape, strict=True):
            need(
                sizes.setdefault(letter, size) == size, f"{name} has shape {shape}, other arrays do not match"
            )
            need(size or letter == "e", f"{name} is empty")
        starts = range(0, len(values), shape[-1] or 1)
        arrays[name] = values if len(shape) == 1 else [values[i : i + shape[-1]] for i in starts]
    return arrays


def without_repetition(pairs):
    need(len(dict(pairs)) == len(pairs), "a field is given twice")
    return dict(pairs)


def read(folder):
    """The content of the certificate, every field checked, the claim as it stands, and the arrays."""
    text = read_bytes(folder / "certificate.json").decode("utf-8")
    raw = json.loads(text, object_pairs_hook=without_repetition)
    need(type(raw) is dict, "certificate.json holds no object")
    claim, files, name = raw.get("claim"), raw.get("files"), raw.get("problem")
    need(type(claim) is dict and type(files) is dict, "there is no claim, or there are no files")
    need(type(name) is str and name in FORMULATIONS, f"{name!r} is none of {[*FORMULATIONS]}")
    kind, _, fields = FORMULATIONS[name]
    need(claim.keys() == {"kind", "gap", "value"} and claim["kind"] == kind, f"the claim is no {kind} bound")
    expected, fields = LINEAR_FILES if kind == "global" else GRAPH_FILES, dict(fields)
    if kind == "global":
        fields |= {"l2": NOT_NEGATIVE, "l1": NOT_NEGATIVE}
        expected = expected | (WITNESS_FILES if "witness_points.npy" in files else {})
    if name == "ConvexRisk" and "ball" in raw:
        fields |= {"ball": one_of("L1", "L2"), "radius": POSITIVE}
    if name == "PageRank":
        expected = {**expected, "teleport": "n"}
    need(raw.keys() == {"problem", "claim", "files", *fields}, f"fields are {[*raw]}, expected {[*fields]}")
    need(files.keys() == {f"{key}.npy" for key in expected}, f"files are {[*files]}")
    content = {"problem": name, **{key: check(raw[key]) for key, check in fields.items()}}
    content |= {"gap": NOT_NEGATIVE(claim["gap"])}
    content |= {"value": number(lambda x: kind == "global" or x == 0)(claim["value"])}
    if name == "SpectralPush":
        ends, heights, counted = (content["spectrum"][key] for key in ("ends", "heights", "counted"))
        need(len(ends) == len(heights) and (counted or ends[-1] <= 1), "the ends do not fit")
    if name == "Push" and content["loss"]["type"] != "Exponential":
        concave = content["price"]["type"] == "LogOnePlus" or content["price"].get("p", 1) < 1
        need(not concave, "the price is not convex, which this loss needs")
    return content, claim, read_arrays(folder, files, expected)


def main(folder):
    """Print the verdict; 0 is proved."""
    try:
        content, claim, arrays = read(Path(folder))
        name, stated = content["problem"], content["value"]
        if claim["kind"] == "global":
            value, gap = global_claim(content, arrays)
            error = max(value.hi - stated, stated - value.lo)
            need(error <= (1 + abs(stated)) * Fraction(1, 2**52), f"the value is {float(value.hi)!r}")
        else:
            gap = FORMULATIONS[name][1](content, arrays)
        need(gap <= content["gap"], f"the gap is at most {float(gap)!r}, the claim {claim['gap']!r}")
    except ERRORS as no:
        print(f"refused: {no or type(no).__name__}")
        return 1
    print(f"proved: {name}, {claim['kind']}, at most {claim['gap']}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
