"""Check a certificate of kind "distance": ``python check_ranks.py FOLDER [FOLDER OF LARGE FILES]``. It runs alone.

It imports numpy and python-flint, and nothing of convexrank; check.py does the same for rankings by linear scores.
Numbers in the folder are floats, hence rational; all is evaluated in balls, which enclose the truth. The map of a rank
contracts by a factor c and moves x by d, so x is at most d/(1 − c) from the solution.
"""

# fmt: off
import hashlib
import json
import math
import sys
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
from flint import arb, ctx

NIL, ONE = arb(0), arb(1)

def need(true, message):
    if not true:
        raise ValueError(message)
def total(numbers):
    return sum(map(arb, numbers), NIL)
def power(x, p):  # of a number that is not negative
    return x**p if x > 0 else ONE if p == 0 else NIL.union(x.upper() ** p) if x.upper() > 0 else NIL

def check_distance(d):  # returns d/(1 − c)
    n, alpha, x, ends = len(d["offsets"]) - 1, arb(d["alpha"]), list(map(arb, d["x"].tolist())), d["offsets"].tolist()
    edges = list(zip(d["sources"].tolist(), d["weights"].tolist(), strict=True))
    floor, weak, out = arb(d.get("outdegree_floor") or 0), (1 - alpha) / n, [NIL] * n
    for j, weight in edges:
        out[j] += weight
    lost = [a.is_zero() for a in out]
    into = [[(j, a / out[j].max(floor)) for j, a in edges[begin:end]] for begin, end in pairwise(ends)]
    if d["problem"] == "PageRank":
        v = [a / total(d["teleport"].tolist()) for a in d["teleport"].tolist()]
        escape = {"teleport": v, "uniform": [ONE / n] * n, "drop": [NIL] * n}[d["dangling"]]
        adrift = total(r for r, gone in zip(x, lost, strict=True) if gone)
        flows = [total(a * x[j] for j, a in into[i]) + adrift * escape[i] for i in range(n)]
        return total(abs(alpha * flows[i] + (1 - alpha) * v[i] - x[i]) for i in range(n)) / (1 - alpha)
    p, theta, kind, logs = d["p"], arb(d["p"]) / d["q"], d["weak_links"], []
    need(d["problem"] == "LpqRank" and p >= 1 and theta < 1 and min(d["x"]) > 0, "the map is no contraction")
    beneath, link = weak if kind == "inside" else NIL, ONE if kind == "outside" else alpha
    common = [(link * int(gone) / n + beneath) * r for r, gone in zip(x, lost, strict=True)]
    base = total(power(y, p) for y in common + [weak * total(x)] * (kind == "entry"))
    for i in range(n):
        flow = total((power(link * a + beneath, p) - power(beneath, p)) * x[j] ** p for j, a in into[i])
        image, rest = power(base + flow, theta / p), weak * total(x) ** theta
        logs.append(((alpha * image + rest if kind == "outside" else image) / x[i]).log())
    return (reduce(arb.max, logs) - reduce(arb.min, logs)) / (1 - theta)

def load(folder, large):
    d = json.loads((folder / "certificate.json").read_text())
    for name, digest in d["files"].items():
        path = folder / name if (folder / name).is_file() else large / name
        need(hashlib.sha256(path.read_bytes()).hexdigest() == digest, f"{name} is another file: its SHA-256 differs")
        d[name.removesuffix(".npy")] = values = np.load(path, allow_pickle=False)
        need(values.dtype.kind in "fi" and np.isfinite(values).all(), f"{name} has entries that are no finite numbers")
    least = min(np.min(d.get(name, 0.0), initial=0.0) for name in ("weights", "teleport", "alpha"))
    need(least >= 0 and d["alpha"] < 1 and d.get("p", 1) > 0, "a number is out of range")
    return d

def main(folder, large="."):
    """Print what was checked, or why it is refused; return 0 or 1."""
    try:
        d = load(Path(folder), Path(large))
        claim = d["claim"]
        need(claim["kind"] == "distance" and 0 <= claim["gap"] < math.inf, "this claim is not of the kind distance")
        for bits in (128, 256, 512, 1024):
            with ctx.workprec(bits):
                gap = check_distance(d)
                if gap <= claim["gap"]:
                    print(f"proved: {d['problem']}, distance, at most {claim['gap']}")
                    return 0
        raise ValueError(f"the distance is at most {float(gap.upper())}")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OSError) as error:
        print(f"refused: {error!r}")
        return 1

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
