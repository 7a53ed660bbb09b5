"""Figures 6.5 to 6.9 and 6.11 of the dissertation on learning to rank, on the graphs with labels that are at hand.

Section 6.4 has the web graph of the web spam challenge 2007, track II, which is not at hand. Here are three graphs with
labelled nodes; ``examples/results/graph_figures.json`` has what came out:

    python examples/graph_figures.py
"""

from __future__ import annotations

import csv
import gzip
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import real_data
import shipped_results
import spam_laboratory

import convexrank as cr
from convexrank import metrics

Array = np.ndarray
Labelled = tuple[cr.Graph, Array]

FILE = "graph_figures"
ALPHA = 0.85
RATIO = 1.2  # q/p, the dissertation's choice
POWERS = (1, 2, 4, 8, 16)
RATIOS = (1.0, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0, 3.0)
HELD = 4  # p where q/p changes; the dissertation does not say which
SHARES = (0.00625, 0.0125, 0.025, 0.05, 0.1)
ERROR = 1e-6
LIMIT = 2000
DRAWS = 10
# Iterations at which the change is recorded.
TIMES = np.unique(np.round(np.geomspace(1, 400, 40)).astype(int))

# Printed beside Figure 6.11, per cent.
PRINTED = {
    "L_pq TrustRank": (7.548, 5.646, 4.067, 3.167, 2.712),
    "TrustRank": (65.103, 64.141, 63.466, 15.576, 14.57),
}


def stanford() -> Labelled:
    """Return cs.stanford.edu with twelve farms, and which pages are theirs."""
    return spam_laboratory.spammed(spam_laboratory.stanford())


def pokec(seed: int = 0) -> Labelled:
    """Return the Pokec graph twice, the copy standing for Sybils, with the attack edges that its note describes.

    1000 links both ways, 1000 from Sybils to benign nodes and 100 the other way, drawn uniformly.
    """
    with gzip.open(real_data.find("graphs", "pokec_sybil", "graph.txt.gz"), "rt", encoding="utf-8") as lines:
        edges = np.loadtxt(lines, dtype=np.int64)
    n, rng = 1 + int(edges.max()), np.random.default_rng(seed)
    attacks = np.column_stack([rng.integers(0, n, 2100), n + rng.integers(0, n, 2100)])
    out, back = attacks[np.r_[0:1000, 2000:2100]], attacks[:2000, ::-1]
    every = np.unique(np.concatenate([edges, edges + n, out, back]), axis=0)
    return cr.Graph.from_edges(every[:, 0], every[:, 1], n=2 * n), np.arange(2 * n) >= n


def iron_dealers() -> Labelled:
    """Return who sold to whom, weighted by value, and the 20 dealers known as bad."""
    path = real_data.find("graphs", "iron_dealers", "Iron_dealers_data.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))[1:]
    sellers, buyers = (np.array([int(row[k]) for row in rows]) for k in (0, 1))
    values = np.array([float(row[2]) for row in rows])
    names = np.unique(np.concatenate([sellers, buyers]))
    bad = np.loadtxt(real_data.find("graphs", "iron_dealers", "bad.csv"), skiprows=1, dtype=int)
    keep = (sellers != buyers) & (values > 0)
    ends = (np.searchsorted(names, x[keep]) for x in (sellers, buyers))
    return cr.Graph.from_edges(*ends, values[keep], n=len(names)), np.isin(names, bad)


GRAPHS: dict[str, Callable[[], Labelled]] = {
    "Stanford with farms": stanford,
    "Pokec with Sybils": pokec,
    "iron dealers": iron_dealers,
}


def problem(graph: cr.Graph, p: float, ratio: float) -> cr.problems.LpqRank:
    """Return the L_{p,q} rank with q = ratio·p; without the warning that p = q is not covered by the theorem."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return cr.problems.LpqRank(graph, p, ratio * p, alpha=ALPHA)


def changes(graph: cr.Graph, p: float, ratio: float, damping: float = 0.0, limit: int = LIMIT) -> Array:
    """Return ‖r_{k+1} − r_k‖₁ from the uniform start, until it is below ``ERROR`` and 400 iterations are over.

    With damping the next iterate is (1 − damping)·F(r) + damping·r, the "constant linear damping" of section 6.4.
    """
    rank, r, found = problem(graph, p, ratio), np.full(graph.n, 1.0 / graph.n), []
    while len(found) < TIMES[-1] or (found[-1] > ERROR and len(found) < limit):
        following = (1.0 - damping) * rank.apply_map(r) + damping * r
        found.append(float(np.abs(following - r).sum()))
        r = following
    return np.array(found)


def iterations(found: Array) -> int | None:
    """Return the number of iterations to a change below ``ERROR``; None where it is not reached."""
    below = np.flatnonzero(found < ERROR)
    return int(below[0]) + 1 if len(below) else None


def norm_rank(graph: cr.Graph, p: float, ratio: float = RATIO) -> Array:
    """Return the L_{p,q} rank, by so many iterations as the dissertation's error asks for; PageRank for p = q = 1."""
    if p == 1 and ratio == 1:
        return cr.pagerank(graph, ALPHA)
    rank, r = problem(graph, p, ratio), np.full(graph.n, 1.0 / graph.n)
    for _ in range(LIMIT):
        before, r = r, rank.apply_map(r)
        if np.abs(r - before).sum() < 1e-10:
            break
    return r


def seeds(spam: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Draw a share of the honest and of the spam nodes, one of each at least."""
    rng = np.random.default_rng([seed, 2])
    kinds = (np.flatnonzero(~spam), np.flatnonzero(spam))
    good, bad = (rng.choice(nodes, max(1, round(share * len(nodes))), replace=False) for nodes in kinds)
    return good, bad


def trusts(graph: cr.Graph, good: Array, bad: Array, p: float = 1.0) -> dict[str, tuple[Array, Array]]:
    """Return trust and distrust, the latter along the links ("same") and against them ("opposite")."""
    q = 1.0 if p == 1 else RATIO * p

    def flow(on: cr.Graph, nodes: Array) -> Array:
        return cr.problems.TrustPropagation(on, nodes, gamma=ALPHA, p=p, q=q).solve(tol=1e-8).x

    trust = flow(graph, good)
    return {"same": (trust, flow(graph, bad)), "opposite": (trust, flow(graph.reversed(), bad))}


def mass(graph: cr.Graph, spam: Array) -> dict[str, Any]:
    """Return the spam masses of Figures 6.7 and 6.9, in % of the whole, and the distances between the ranks."""
    good, bad = seeds(spam, 0.1, 0)
    linear = trusts(graph, good, bad)
    base = {p: norm_rank(graph, p, RATIO if p > 1 else 1.0) for p in POWERS}
    found: dict[str, Any] = {
        name: [] for name in ("L_pq", "same", "opposite", "linear, same", "linear, opposite")
    }
    for p, r in base.items():
        found["L_pq"].append(metrics.spam_mass(r, spam))
        for way, (trust, distrust) in trusts(graph, good, bad, p).items():
            found[way].append(metrics.spam_mass(cr.combined_rank(r, trust, distrust), spam))
            found[f"linear, {way}"].append(metrics.spam_mass(cr.combined_rank(r, *linear[way]), spam))
    degree = np.bincount(graph.edges()[1], minlength=graph.n).astype(float)
    found["in-degree"] = metrics.spam_mass(degree, spam)
    found["TrustRank"] = metrics.spam_mass(linear["same"][0], spam)
    found = {name: np.round(100 * np.array(value), 3).tolist() for name, value in found.items()}
    ranks = [*base.values(), degree]
    found["distance"] = [
        [round(metrics.order_distance(a, b, ~spam, scale="square"), 4) for b in ranks] for a in ranks
    ]
    return found


def least_error(feature: Array, spam: Array) -> float:
    """Return the share of nodes misclassified by the best threshold, low values being spam."""
    order = np.argsort(feature, kind="stable")
    bad, levels = np.cumsum(spam[order]), feature[order]
    ends = np.append(np.flatnonzero(levels[1:] > levels[:-1]), len(levels) - 1)  # equal values stay together
    wrong = (ends + 1 - bad[ends]) + (spam.sum() - bad[ends])
    return float(min(wrong.min(), spam.sum()) / len(spam))


def classifiers(graph: cr.Graph, spam: Array, draws: int = DRAWS) -> dict[str, Any]:
    """Return errors of threshold classifiers in %, for every share of labels (columns) and draw (rows)."""
    base = norm_rank(graph, 4)
    found: dict[str, Any] = {"L_pq TrustRank": [], "TrustRank": [], "trust over both": []}
    for seed in range(draws):
        rows: dict[str, list[float]] = {name: [] for name in found}
        for share in SHARES:
            good, bad = seeds(spam, share, seed)
            trust, distrust = trusts(graph, good, bad)["opposite"]
            rest = np.ones(graph.n, dtype=bool)
            rest[np.r_[good, bad]] = False
            features = {
                "L_pq TrustRank": cr.combined_rank(base, trust, distrust),
                "TrustRank": trust,
                "trust over both": cr.combined_rank(np.full(graph.n, 1.0), trust, distrust),
            }
            for name, feature in features.items():
                rows[name].append(round(100 * least_error(feature[rest], spam[rest]), 3))
        for name, row in rows.items():
            found[name].append(row)
    return found


def run(name: str) -> dict[str, Any]:
    """Return all results of one graph."""
    graph, spam = GRAPHS[name]()
    results: dict[str, Any] = {"nodes": graph.n, "links": graph.m, "spam": int(spam.sum())}
    degree = np.bincount(graph.edges()[0], minlength=graph.n)
    results["median out-degree"] = {
        "spam": float(np.median(degree[spam])),
        "honest": float(np.median(degree[~spam])),
    }
    paths = {}
    for p in POWERS:
        for label, ratio, damping in (("p=q", 1.0, 0.0), ("p=q, damped", 1.0, 0.5), ("q/p=1.2", RATIO, 0.0)):
            paths[f"{label}, p={p}"] = changes(graph, p, ratio, damping)
    results["changes"] = {
        key: [float(f"{value:.2e}") for value in found[TIMES - 1]] for key, found in paths.items()
    }
    results["iterations"] = {key: iterations(found) for key, found in paths.items()}
    results["ratios"] = {
        "iterations": [iterations(changes(graph, HELD, ratio)) for ratio in RATIOS],
        "mass": [round(100 * metrics.spam_mass(norm_rank(graph, HELD, ratio), spam), 3) for ratio in RATIOS],
    }
    results["mass"] = mass(graph, spam)
    results["errors"] = classifiers(graph, spam)
    return results


def main() -> None:
    """Run all graphs and write what came out."""
    results = {}
    for name in GRAPHS:
        results[name] = run(name)
        print(
            name, *(f"{key}: {value}" for key, value in results[name].items() if key != "changes"), sep="\n  "
        )
        shipped_results.write(FILE, results)


if __name__ == "__main__":
    main()
