"""Monotone retargeting from its formula, in plain loops: the second statement that the verifier compares."""

from __future__ import annotations

from typing import Any

from convexrank.divergences import KL, GeneralizedI, SquaredEuclidean, resolve
from convexrank.problems._plain import generator_of, queries_of, rising_means, root


def plain_risk(problem: Any, scores: Any) -> float:
    """Return the risk of a Retargeting at the scores of all rows, minimised over targets and offsets.

    Entries of the best targets are the link of z + λ for the isotonic regression z of the scores: every constraint of
    order is between entries of one function. λ = 0 without the simplex; on it targets add up to 1.
    """
    f, y, risk = [float(score) for score in scores], problem.y.tolist(), 0.0
    divergence, simplex, offsets = resolve(problem.divergence), bool(problem.simplex), problem.offsets
    if isinstance(divergence, KL):  # of distributions: the I-divergence with the best offset
        divergence, simplex, offsets = GeneralizedI(), True, True
    squared = isinstance(divergence, SquaredEuclidean)
    offsets = simplex if offsets is None else offsets  # for squares without the simplex they have no effect
    g = generator_of(divergence)
    for rows in queries_of(problem.qid, len(f)):
        if max(y[j] for j in rows) == min(y[j] for j in rows):
            continue
        chain = sorted(rows, key=lambda j: (y[j], f[j]))
        s = [f[j] for j in chain]
        z = list(s)
        if problem.order == "block":  # rows of one grade have one target
            for grade in {y[j] for j in rows}:
                own = [place for place, j in enumerate(chain) if y[j] == grade]
                mean = sum(s[place] for place in own) / len(own)
                for place in own:
                    z[place] = mean
        z = rising_means(z)
        shift = beta = 0.0
        if simplex:
            shift = root(
                lambda level, z=z: sum(max(g.link(value + level), 0.0) for value in z) - 1.0, -max(z)
            )
            if offsets:
                beta = root(lambda level, s=s: sum(g.link(value + level) for value in s) - 1.0, -max(s))
        r = [g.link(value + shift) for value in z]
        r = [max(target, 0.0) for target in r] if simplex else r
        cost = 0.0
        for target, score in zip(r, s, strict=True):
            if squared:
                cost += 0.5 * (target - score - beta) ** 2
            else:
                cost += g.phi(target) + g.conjugate(score + beta) - target * (score + beta)
        risk += cost / len(rows) if problem.normalize else cost
    return risk
