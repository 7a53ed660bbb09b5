"""The formulations straight from their definitions, as plain loops over rows and pairs: the tests' first truth."""

from __future__ import annotations

import math

import numpy as np

PLAIN_LOSSES = {
    "Exponential": lambda z: math.exp(-z),
    "Logistic": lambda z: math.log1p(math.exp(-z)),
    "Hinge": lambda z: max(0.0, 1.0 - z),
    "SquaredHinge": lambda z: max(0.0, 1.0 - z) ** 2,
}


def plain_price(price):
    """The price as a plain function of a number."""
    name = type(price).__name__
    if name == "Power":
        return lambda r: r**price.p
    if name == "ExpPrice":
        return lambda r: math.exp(price.scale * r)
    return {"Identity": lambda r: r, "LogOnePlus": math.log1p}[name]


def plain_loss(loss):
    """The loss as a plain function of a number."""
    return PLAIN_LOSSES[type(loss).__name__]


def _groups(problem, w):
    f = np.asarray(problem.X) @ w
    larger = max(problem.y.tolist())
    positive = [float(f[i]) for i in range(len(f)) if problem.y[i] == larger]
    negative = [float(f[i]) for i in range(len(f)) if problem.y[i] != larger]
    return positive, negative


def p_norm_push(problem, w):
    positive, negative = _groups(problem, w)
    total = 0.0
    for k in negative:
        inner = 0.0
        for i in positive:
            inner += math.exp(-(i - k))
        total += (inner / len(positive)) ** problem.p
    return math.log(total / len(negative)) / problem.p


def bottom_push(problem, w):
    positive, negative = _groups(problem, w)
    total = 0.0
    for i in positive:
        inner = 0.0
        for k in negative:
            inner += math.exp(-(i - k))
        total += (inner / len(negative)) ** problem.p
    return math.log(total / len(positive)) / problem.p


def top_push(problem, w):
    positive, negative = _groups(problem, w)
    return max(math.log(sum(math.exp(-(i - k)) for i in positive) / len(positive)) for k in negative)


def top_bottom_push(problem, w):
    return p_norm_push(problem, w) + problem.bottom_weight * bottom_push(problem, w)


def ir_push(problem, w):
    positive, negative = _groups(problem, w)
    return sum(math.log(1.0 + sum(math.exp(k - i) for k in negative)) for i in positive) / len(positive)


def push(problem, w):
    positive, negative = _groups(problem, w)
    g, loss = plain_price(problem.price), plain_loss(problem.loss)
    return sum(g(sum(loss(i - k) for i in positive)) for k in negative)


def rmax_push(problem, w):
    positive, negative = _groups(problem, w)
    loss = plain_loss(problem.loss)
    return max(sum(loss(i - k) for i in positive) / len(positive) for k in negative)


def crucial_pairs(problem, w):
    f = np.asarray(problem.X) @ w
    g, loss = plain_price(problem.price), plain_loss(problem.loss)
    total = 0.0
    for k in sorted(set(problem.pairs[:, 1].tolist())):
        total += g(sum(loss(float(f[i] - f[j])) for i, j in problem.pairs.tolist() if j == k))
    return total


def convex_risk(problem, w):
    f = np.asarray(problem.X) @ w
    loss, n = plain_loss(problem.cost), len(f)
    total = 0.0
    for i in range(n):
        for j in range(n):
            sign = np.sign(problem.y[i] - problem.y[j])
            if i != j and sign != 0:
                total += loss(float(sign * (f[i] - f[j])))
    return total / (n * (n - 1))


def isotonic(values):
    """The nearest non-decreasing list, by the max-min formula."""
    n = len(values)
    mean = lambda j, k: math.fsum(values[j : k + 1]) / (k + 1 - j)  # noqa: E731
    return [max(min(mean(j, k) for k in range(i, n)) for j in range(i + 1)) for i in range(n)]


def learned_divergence(problem, w):
    """Least Fenchel-Young divergence: sorted lists, and regressions that feed each other until they stand still."""
    scores = [float(t) for t in np.asarray(problem.X) @ w]
    targets = [float(t) for t in problem.y]
    n, s, smooth = len(scores), problem.strong, problem.smooth
    theta, y = sorted(scores), sorted(targets)
    total = -math.fsum(t * z for t, z in zip(scores, targets, strict=True))
    k = math.inf if smooth is None else smooth - (s or 0.0)
    u, v = y, theta
    for _ in range(200):
        u = isotonic([y[i] - v[i] / k for i in range(n)])
        if s is not None:
            # minimise v²/2k + (theta - v)²/2s + u·v over sorted v
            v = [x / (1.0 / k + 1.0 / s) for x in isotonic([theta[i] / s - u[i] for i in range(n)])]
        if s is None or smooth is None:
            break
    total += math.fsum(u[i] * v[i] for i in range(n))
    if smooth is not None:
        total += math.fsum(v[i] ** 2 / (2.0 * k) + 0.5 * k * (y[i] - u[i]) ** 2 for i in range(n))
    if s is not None:
        total += math.fsum((theta[i] - v[i]) ** 2 / (2.0 * s) + 0.5 * s * y[i] ** 2 for i in range(n))
    return total / n


def query_lists(problem, w):
    """Grades and scores of each query that has two different grades."""
    f = (np.asarray(problem.X) @ w).tolist()
    for name in dict.fromkeys(np.asarray(problem.qid).tolist()):
        rows = [i for i, other in enumerate(np.asarray(problem.qid).tolist()) if other == name]
        grades, scores = [float(problem.y[i]) for i in rows], [f[i] for i in rows]
        if len(set(grades)) > 1:
            yield grades, scores


def plain_gains(grades, gain):
    return [2.0**grade - 1.0 if gain == "exp2" else grade for grade in grades]


def list_net(problem, w):
    total = 0.0
    for grades, scores in query_lists(problem, w):
        soft = problem.target == "softmax"
        worth = [math.exp(grade) for grade in grades] if soft else plain_gains(grades, problem.target)
        one = 0.0
        for value, score in zip(worth, scores, strict=True):
            share = math.exp(score) / sum(math.exp(other) for other in scores)
            if value > 0:
                one += value / sum(worth) * math.log(value / sum(worth) / share)
        total += one / len(grades) if problem.normalize else one
    return total


def ndcg_regression(problem, w):
    """With the best offset of each query: the mean residual, or what makes both sides add up to the same."""
    total = 0.0
    for grades, scores in query_lists(problem, w):
        worth, n = plain_gains(grades, problem.gain), len(grades)
        best = sum(value / math.log2(2 + r) for r, value in enumerate(sorted(worth, reverse=True)))
        targets = [value / best for value in worth]
        one = offset = 0.0
        if problem.divergence == "squared":
            if problem.offsets:
                offset = sum(t - s for t, s in zip(targets, scores, strict=True)) / n
            one = 0.5 * sum((s + offset - t) ** 2 for t, s in zip(targets, scores, strict=True))
        else:
            if problem.offsets:
                offset = math.log(sum(targets) / sum(math.exp(s) for s in scores))
            for t, s in zip(targets, scores, strict=True):
                one += (t * math.log(t / math.exp(s + offset)) if t > 0 else 0.0) - t + math.exp(s + offset)
        total += one / n if problem.normalize else one
    return total


def rank_svm(problem, w):
    loss, total = plain_loss(problem.loss), 0.0
    for grades, scores in query_lists(problem, w):
        places = range(len(grades))
        terms = [loss(scores[j] - scores[k]) for j in places for k in places if grades[j] > grades[k]]
        total += sum(terms) / len(terms) if problem.normalize else sum(terms)
    return total


def plain_isotonic(values):
    """The largest of the means that start before, of the least of those that end after."""
    places = range(len(values))
    means = {(a, b): sum(values[a : b + 1]) / (b + 1 - a) for a in places for b in places if a <= b}
    return [max(min(means[a, b] for b in places if b >= i) for a in places if a <= i) for i in places]


def plain_simplex(values):
    """Take one of the numbers of positive entries after the other, until it is right."""
    falling = sorted(values, reverse=True)
    for k in range(len(values), 0, -1):
        level = (1.0 - sum(falling[:k])) / k
        if falling[k - 1] + level > 0:
            return [max(value + level, 0.0) for value in values]
    raise AssertionError


def retargeting(problem, w):
    """The squared distance to the simplex in order, without offsets: rows sorted by grade, equal grades by score."""
    total = 0.0
    for grades, scores in query_lists(problem, w):
        rows = sorted(zip(grades, scores, strict=True))
        if problem.order == "block":
            equal = {grade: [s for g, s in rows if g == grade] for grade in grades}
            rows = [(grade, sum(equal[grade]) / len(equal[grade])) for grade, _ in rows]
        nearest = plain_simplex(plain_isotonic([score for _, score in rows]))
        chain = [score for _, score in sorted(zip(grades, scores, strict=True))]
        offset = (1.0 - sum(scores)) / len(scores) if problem.offsets else 0.0
        one = 0.5 * sum((r - s - offset) ** 2 for r, s in zip(nearest, chain, strict=True))
        total += one / len(scores) if problem.normalize else one
    return total


def plain_steps(given, grades, levels):
    """The size of each step between neighbouring grades of a query, lowest first."""
    if callable(given):
        return [
            float(given(np.array([sum(g >= upper for g in grades)]))[0]) for upper in sorted(set(grades))[1:]
        ]
    if isinstance(given, tuple):
        return [given[levels.index(upper) - 1] for upper in sorted(set(grades))[1:]]
    return [given or 0.0] * (len(set(grades)) - 1)


# φ, its slope, the inverse of that, the conjugate, and the open domain, of one number each.
GENERATORS = {
    "GeneralizedI": lambda a: (
        lambda x: (x - a) * math.log(x - a) - (x - a),
        lambda x: math.log(x - a),
        lambda t: a + math.exp(t),
        lambda t: math.exp(t) + a * t,
        (a, math.inf),
    ),
    "BitEntropy": lambda a: (
        lambda x: x * math.log(x) + (1 - x) * math.log1p(-x),
        lambda x: math.log(x) - math.log1p(-x),
        lambda t: 1 / (1 + math.exp(-t)),
        lambda t: max(t, 0.0) + math.log1p(math.exp(-abs(t))),
        (0.0, 1.0),
    ),
    "KL": lambda a: (lambda x: x * math.log(x), math.log, math.exp, None, (0.0, math.inf)),
}


def rising_root(f, low, high):
    """The root of a rising function by bisection; values are infinite or undefined at and beyond the ends."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (low, middle) if f(middle) > 0 else (middle, high)
    return 0.5 * (low + high)


def levels_in_order(eta, lifts, slope, domain):
    """Minimise the sum of φ(z + lift) - η z over rising z: pool neighbours that are out of order."""
    pools = []
    for place in range(len(eta)):
        first = place
        while True:
            part = range(first, place + 1)
            low = max(domain[0] - min(lifts[k] for k in part), -50.0)
            high = min(domain[1] - max(lifts[k] for k in part), 50.0)
            level = rising_root(
                lambda z, part=part: sum(slope(z + lifts[k]) - eta[k] for k in part), low, high
            )
            if not pools or pools[-1][1] <= level:
                break
            first = pools.pop()[0]
        pools.append((first, level))
    ends = [first for first, _ in pools[1:]] + [len(eta)]
    return [level for (first, level), end in zip(pools, ends, strict=True) for _ in range(first, end)]


def bregman_retargeting(problem, w):
    """The same as below for other divergences: levels by bisection, the offset or the sum by another."""
    total, levels = 0.0, sorted(set(problem.y.tolist()))
    share, kind = 1.0 / (1.0 + problem.target_reg), type(problem.divergence).__name__
    phi, slope, link, conjugate, domain = GENERATORS[kind](getattr(problem.divergence, "shift", 0.0))
    low, high = problem.rules.low, problem.rules.high
    for grades, scores in query_lists(problem, w):
        margins, rewards = (plain_steps(given, grades, levels) for given in (problem.margin, problem.reward))
        c = 1.0 / len(grades) if problem.normalize else 1.0
        rows = sorted(range(len(grades)), key=lambda row: (grades[row], scores[row]))
        rank = [sorted(set(grades)).index(grades[row]) for row in rows]
        pulled, lifts = [share * scores[row] for row in rows], [sum(margins[:g]) for g in rank]
        for g, reward in enumerate(rewards):
            pulled[rank.index(g + 1)] += share * reward / c
            pulled[rank.index(g + 1) - 1] -= share * reward / c

        def targets(shift, pulled=pulled, lifts=lifts):
            pooled = levels_in_order([eta + shift for eta in pulled], lifts, slope, domain)
            return [min(max(z, low), high - lifts[-1]) + lift for z, lift in zip(pooled, lifts, strict=True)]

        if kind == "KL":
            offset = -sum(scores) / len(scores) if problem.offsets else 0.0
            r = targets(rising_root(lambda shift, targets=targets: sum(targets(shift)) - 1.0, -20.0, 20.0))
        else:

            def excess(beta, targets=targets, scores=scores):
                gained = sum(link(s + beta) + problem.score_reg * (s + beta) for s in scores)
                return gained - math.fsum(targets(share * beta))

            offset = rising_root(excess, -20.0, 20.0) if problem.offsets else 0.0
            r = targets(share * offset)
        s = [scores[row] + offset for row in rows]

        def distance(s, r=r):
            pairing = math.fsum(phi(x) - x * t for x, t in zip(r, s, strict=True))
            if conjugate is None:
                return pairing + math.log(sum(math.exp(t) for t in s))
            return pairing + math.fsum(conjugate(t) for t in s)

        total += c * (distance(s) + problem.target_reg * distance([0.0] * len(s)))
        total += 0.5 * c * problem.score_reg * math.fsum(t * t for t in s)
        for g, reward in enumerate(rewards):
            total -= reward * (r[rank.index(g + 1)] - r[rank.index(g + 1) - 1])
    return total


def margin_retargeting(problem, w):
    """Targets of each query by one regression, its offset by bisection: predictors add up to the targets."""
    if type(problem.divergence).__name__ != "SquaredEuclidean":
        return bregman_retargeting(problem, w)
    total, levels = 0.0, sorted(set(problem.y.tolist()))
    low, high = problem.bound or (-math.inf, math.inf)
    share, weight = 1.0 / (1.0 + problem.target_reg), 1.0 + problem.score_reg
    for grades, scores in query_lists(problem, w):
        margins, rewards = (plain_steps(given, grades, levels) for given in (problem.margin, problem.reward))
        c = 1.0 / len(grades) if problem.normalize else 1.0
        rows = sorted(range(len(grades)), key=lambda row: (grades[row], scores[row]))
        rank = [sorted(set(grades)).index(grades[row]) for row in rows]
        pulled = [share * scores[row] - sum(margins[:g]) for row, g in zip(rows, rank, strict=True)]
        for g, reward in enumerate(rewards):
            pulled[rank.index(g + 1)] += share * reward / c
            pulled[rank.index(g + 1) - 1] -= share * reward / c
        pooled, lifts = isotonic(pulled), [sum(margins[:g]) for g in rank]
        left, right = (-1e3, 1e3) if problem.offsets else (0.0, 0.0)
        for _ in range(200):
            offset = 0.5 * (left + right)
            r = [
                min(max(z + share * offset, low), high - sum(margins)) + lift
                for z, lift in zip(pooled, lifts, strict=True)
            ]
            excess = weight * sum(scores[row] + offset for row in rows) - math.fsum(r)
            left, right = (left, offset) if excess > 0 else (offset, right)
        for target, row in zip(r, rows, strict=True):
            s = scores[row] + offset
            one = (target - s) ** 2 + problem.target_reg * target**2 + problem.score_reg * s**2
            total += 0.5 * c * one
        for g, reward in enumerate(rewards):
            total -= reward * (r[rank.index(g + 1)] - r[rank.index(g + 1) - 1])
    return total


FORMULAS = {
    "PNormPush": p_norm_push,
    "TopPush": top_push,
    "BottomPush": bottom_push,
    "TopBottomPush": top_bottom_push,
    "IRPush": ir_push,
    "Push": push,
    "RmaxPush": rmax_push,
    "CrucialPairs": crucial_pairs,
    "ConvexRisk": convex_risk,
    "LearnedDivergence": learned_divergence,
    "ListNet": list_net,
    "NDCGRegression": ndcg_regression,
    "RankSVM": rank_svm,
    "MarginRetargeting": margin_retargeting,
    "Retargeting": retargeting,
}


def penalty(problem, w):
    """The penalty, by plain arithmetic; infinity outside a ball."""
    if getattr(problem, "l1_ball", None) is not None and sum(abs(v) for v in w) > problem.l1_ball * (
        1 + 1e-9
    ):
        return math.inf
    if getattr(problem, "l2_ball", None) is not None and math.hypot(*w) > problem.l2_ball * (1 + 1e-9):
        return math.inf
    return 0.5 * problem.l2 * sum(v * v for v in w) + problem.l1 * sum(abs(v) for v in w)


def objective(problem, w):
    """The whole objective from its definition."""
    return FORMULAS[type(problem).__name__](problem, w) + penalty(problem, w)
