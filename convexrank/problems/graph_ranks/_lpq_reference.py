"""The map of the L_{p,q} rank from its definition: what the certificate and the reference rest on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.graphs.edge_blocks import EdgeBlock
from convexrank.graphs.lpq_map import log_sums

Array = np.ndarray

# Edges looked at in one piece, so that copies stay small.
_PIECE = 1 << 18
# The reference stops when the rank no longer changes, after this number of rounds with changes by rounding only, or
# after this number of rounds in all.
_IDLE, _ROUNDING = 10, 1e-12
_ROUNDS = 3_000


def log_image(problem: Any, r: Array, begin: int, end: int) -> Array:
    """Return log U(r) at positive ranks r for a range of nodes, in plain numpy and nothing but logarithms."""
    n, p, theta = problem.graph.n, problem.p, problem.modulus
    weak, log_r, out = (1.0 - problem.alpha) / n, np.log(r), np.empty(end - begin)
    power = 1.0 if math.isinf(p) else p
    dangling = problem.degrees == 0.0
    with np.errstate(divide="ignore"):
        if problem.weak_links == "inside":
            common = log_r + np.log(np.where(dangling, problem.alpha / n, 0.0) + weak)
        elif problem.weak_links == "entry":
            common = np.append(log_r[dangling] + np.log(problem.alpha / n), np.log(weak * r.sum()))
        else:
            common = log_r[dangling] - np.log(n)
        step = max(1, _PIECE * n // max(problem.graph.m, 1))
        shared = common.max(initial=-np.inf)
        if math.isfinite(p):
            shared = log_sums(np.sort(power * common), np.array([0, len(common)]))[0]
        for block in problem.graph.blocks(begin, end):
            for first in range(block.first, block.last, step):
                part = block.part(first, min(first + step, block.last))
                out[part.first - begin : part.last - begin] = _log_norms(problem, log_r, shared, part)
        norm = out / power
        if problem.weak_links != "outside":
            return theta * norm
        return np.logaddexp(np.log(problem.alpha) + theta * norm, np.log(weak) + theta * np.log(r.sum()))


def _log_norms(problem: Any, log_r: Array, shared: float, block: EdgeBlock) -> Array:
    """Logarithm of the p-th power of the norm (for p = ∞ of the norm) at some nodes; ``shared`` is part of each."""
    inside, ends, sources = problem.weak_links == "inside", block.starts, block.sources
    weight: Any = 1.0 if block.weights is None else block.weights
    link: Any = (
        weight / problem.degrees[sources] * (1.0 if problem.weak_links == "outside" else problem.alpha)
    )
    weak = (1.0 - problem.alpha) / problem.graph.n if inside else 0.0
    terms = np.log(link + weak) + log_r[sources]
    if math.isinf(problem.p):
        norms = np.full(len(ends) - 1, -np.inf)
        np.maximum.at(norms, np.repeat(np.arange(len(norms)), np.diff(ends)), terms)
        return np.maximum(norms, shared)
    if weak:  # the weak link under a link is among the common ones already
        # numpy takes several logarithms and exponentials at a time, and powers one by one
        terms += np.log1p(-np.exp(problem.p * np.log(weak / (link + weak)))) / problem.p
    return np.logaddexp(log_sums(problem.p * terms, ends), shared)


def dense_rank(problem: Any) -> Array:
    """Return the rank by iteration with a dense matrix of entries, O(n²) per round."""
    n, p, weak = problem.graph.n, problem.p, (1.0 - problem.alpha) / problem.graph.n
    linking = problem.degrees > 0.0
    matrix = problem.graph.to_scipy().toarray().T
    follow = np.where(linking, matrix / np.where(linking, problem.degrees, 1.0), 1.0 / n)
    entries = {"inside": problem.alpha * follow + weak, "entry": problem.alpha * follow, "outside": follow}
    with np.errstate(divide="ignore"):
        logs, r = np.log(entries[problem.weak_links]), problem.start()
        least, idle = math.inf, 0
        for _ in range(_ROUNDS):
            terms = logs + np.log(r)
            if problem.weak_links == "entry":
                terms = np.column_stack([terms, np.full(n, np.log(weak * r.sum()))])
            norm = terms.max(axis=1) if math.isinf(p) else np.logaddexp.reduce(p * terms, axis=1) / p
            new = np.exp(problem.modulus * norm)
            if problem.weak_links == "outside":
                new = problem.alpha * new + weak * r.sum() ** problem.modulus
            new /= new.sum()
            change, r = float(np.abs(np.log(new / r)).max()), new
            idle = 0 if change < least or change > _ROUNDING else idle + 1
            least = min(least, change)
            if change <= 1e-15 or idle == _IDLE:
                break
    return r
