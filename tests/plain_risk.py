"""The objective that an exported certificate states, once more: by loops, in floats."""

from __future__ import annotations

import math

import numpy as np

PLAIN = {
    "exp": np.exp,
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    "logistic": lambda x, b: value_of(["softplus"], x) / math.log(b),
    "hinge": lambda x: max(1.0 + x, 0.0),
    "smooth_hinge": lambda x, w: value_of(["huber", w], max(1.0 + x, 0.0)) / w,
    "squared_hinge": lambda x: np.square(max(1.0 + x, 0.0)),
    "square": lambda x: x * x,
    "huber": lambda x, w: 0.5 * x * x if abs(x) <= w else w * (abs(x) - 0.5 * w),
    "power": lambda x, p: np.power(max(x, 0.0), p),
    "scaled": lambda x, c, form: c * value_of(form, x),
}
OPERATIONS = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "log": np.log,
    "exp": np.exp,
    "expm1": np.expm1,
}


def value_of(form, x):
    """A function by its name and parameters."""
    return PLAIN[form[0]](x, *form[1:])


def log_sum(pairs):
    top = max(x for _, x in pairs)
    return top + math.log(sum(c * math.exp(x - top) for c, x in pairs))


def mean_of_highest(pairs, mass):
    """The mean of the highest, so much weight of them, or all."""
    left = mass = min(mass, sum(c for c, _ in pairs))
    found = 0.0
    for c, x in sorted(pairs, key=lambda pair: -pair[1]):
        found, left = found + min(c, left) * x, left - min(c, left)
    return found / mass


def threshold(pairs, form, scale, target):
    """The least t at which the mean of the function is at most the target, by bisection."""
    whole = sum(c for c, _ in pairs)

    def excess(t):
        return sum(c * value_of(form, scale * (x - t)) for c, x in pairs) / whole - target

    low = high = 0.0
    step = 1.0
    while excess(low) <= 0.0:
        low, step = low - step, 2.0 * step
    while excess(high) > 0.0:
        high, step = high + step, 2.0 * step
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return high


class Plain:
    """The risk of a folder: content of certificate.json, and arrays by name."""

    def __init__(self, content, arrays):
        self.content, self.arrays = (
            content,
            {name.removesuffix(".npy"): values for name, values in arrays.items()},
        )

    def objective(self, w):
        """The value at w; infinite outside of the ball."""
        content, w = self.content, np.asarray(w, dtype=float)
        norm = {"L1": np.abs(w).sum(), "L2": math.sqrt(w @ w)}
        if "ball" in content and norm[content["ball"]] > content["radius"] * (1.0 + 1e-9):
            return math.inf
        risk = self.risk(self.arrays["X"] @ w)
        return float(risk + 0.5 * content["l2"] * (w @ w) + content["l1"] * norm["L1"])

    def group(self, name):
        """Rows of the group, and their queries."""
        y, weight, query = (self.arrays[key] for key in ("y", "weight", "query"))
        found, number = [], 0
        for q in sorted(set(query.tolist())):
            rows = [r for r in range(len(y)) if query[r] == q and weight[r] > 0.0]
            if len({y[r] for r in rows}) > 1:
                wanted = {"positive": [1.0], "negative": [0.0]}.get(name, y)
                found += [(r, number) for r in rows if y[r] in wanted]
                number += 1
        return found

    def risk(self, f):
        """The risk at the scores f."""
        self.atoms = []  # values, the rows of a leaf as pairs of a row and its query, whether there is one for each row
        for atom in self.content["risk"]:
            self.atoms.append(self.made(atom, [self.atoms[k] for k in atom["of"]], f))
        return sum(self.atoms[-1][0])

    def numbers(self, x, length):
        """One number for each entry."""
        return np.broadcast_to(np.asarray(self._numbers(x), dtype=float), (length,)).tolist()

    def _numbers(self, x):
        if isinstance(x, str):
            return self.arrays[x]
        if not isinstance(x, list):
            return float(x)
        name, *rest = x
        if name in OPERATIONS:
            return OPERATIONS[name](*(self._numbers(one) for one in rest))
        if name == "take":
            return np.atleast_1d(self._numbers(rest[0]))[self.arrays[rest[1]]]
        rows = self.atoms[rest[-1]][1]
        if name in ("weight", "label"):
            return np.array([self.arrays["y" if name == "label" else name][r] for r, _ in rows])
        queries = [q for _, q in rows]
        if name == "spread":
            return np.broadcast_to(self._numbers(rest[0]), (max(queries) + 1,))[queries]
        return np.bincount(queries, np.broadcast_to(self._numbers(rest[0]), (len(rows),)))

    def made(self, atom, parts, f):
        """Values of an atom, from those of its parts."""
        kind = atom["atom"]
        if kind == "scores":
            rows = self.group(atom["group"])
            return [f[r] for r, _ in rows], rows, True
        if kind == "listed":
            upper, lower, queries = (
                self.arrays[atom[key]].tolist() if atom[key] else None for key in ("rows", "lower", "queries")
            )
            values = [f[r] - (f[lower[j]] if lower else 0.0) for j, r in enumerate(upper)]
            return values, list(zip(upper, queries, strict=True)), True
        if kind == "sum":
            return self.sum_of(atom, parts)
        if kind.startswith("pair"):
            return self.pairs(atom, *parts)
        values, rows, by_row = parts[0]
        if kind == "function":
            return [value_of(atom["function"], x) for x in values], rows, by_row
        assert by_row
        weights = self.numbers(atom.get("weights", 1.0), len(rows))
        if kind == "cumulative_log_sum_exp":
            grades = self.numbers(atom["grades"], len(rows))
            return (
                [
                    log_sum(
                        [
                            (weights[i], values[i])
                            for i in range(len(rows))
                            if rows[i][1] == rows[j][1] and grades[i] <= grades[j]
                        ]
                    )
                    for j in range(len(rows))
                ],
                rows,
                True,
            )
        count = max(q for _, q in rows) + 1
        asked, found = self.numbers(atom.get("asked", 1.0), count), []
        for q in range(count):
            side = [(weights[j], values[j]) for j in range(len(rows)) if rows[j][1] == q]
            whole = sum(c for c, _ in side)
            found.append(
                {
                    "total": lambda side, _: sum(c * x for c, x in side),
                    "mean": lambda side, whole: sum(c * x for c, x in side) / whole,
                    "log_sum_exp": lambda side, _: log_sum(side),
                    "log_mean_exp": lambda side, whole: log_sum(side) - math.log(whole),
                    "maximum": lambda side, _: max(x for _, x in side),
                    "mean_of_highest": lambda side, _, m=asked[q]: mean_of_highest(side, m),
                    "threshold": lambda side, _: threshold(
                        side, atom["function"], atom["scale"], atom["target"]
                    ),
                }[kind](side, whole)
            )
        return found, rows, False

    def sum_of(self, atom, parts):
        _, rows, by_row = next((part for part in parts if part[2]), parts[0])
        length = len(rows) if by_row else max(q for _, q in rows) + 1
        found = self.numbers(atom["constant"], length)
        for c, (values, _, each) in zip(atom["factors"], parts, strict=True):
            spread = [values[q] for _, q in rows] if by_row and not each else values
            found = [a + b * x for a, b, x in zip(found, self.numbers(c, length), spread, strict=True)]
        return found, rows, by_row

    def pairs(self, atom, upper, lower):
        (x, above, _), (z, below, _), found = upper, lower, []
        weights = self.numbers(atom["weights"], len(above))
        grades = None if atom.get("grades") is None else self.numbers(atom["grades"], len(below))
        for k, (_, q) in enumerate(below):
            side = [
                (weights[i], value_of(atom["function"], z[k] - x[i]))
                for i in range(len(above))
                if above[i][1] == q and (grades is None or grades[k] < grades[i])
            ]
            if atom["atom"] == "pair_sums":
                found.append(sum(c * value for c, value in side))
            else:
                count = max(q for _, q in above) + 1
                found.append(mean_of_highest(side, self.numbers(atom["asked"], count)[q]))
        return found, below, True
