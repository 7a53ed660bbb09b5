r"""Learned divergences over balls: with an inner minimum over links, and with scores from a kernel.

With both moduli, s < l and k = l − s, or an output range [a, b], for scores in order and targets in order:

.. math:: m(\theta) + \langle y, \theta\rangle = \max_{p, b}\; \langle p, \theta\rangle
          - \tfrac s2\|p\|^2 - \tfrac k2\|b\|^2 + \tfrac l2\|y\|^2

over non-decreasing p within the range, and b, all with the sum of y, such that no sum of the last entries of b is
below that of p or of y. For a given p the best b is one isotonic regression, of the increments of the greater sums. So
any p, such as the link in floats, gives a minorant whose constant is rational; it is exchanged for all orders of
scores at once, as p rises. From above m is bounded by any of the two vectors that it is a minimum over.

*Scores from a kernel.* With u a slope of the risk at :math:`K\alpha`, the value less the dual value is
:math:`(\lambda_2\alpha+u)^\top K(\lambda_2\alpha+u)/(2\lambda_2)`, where K has no negative eigenvalue: shown by its
factorisation over balls, or over fractions where it may be singular.

A kernel matrix in floats often has a negative eigenvalue −ε by rounding. Along its eigenvector the penalty falls by
:math:`\varepsilon\lambda_2t^2/2`, and the risk rises by no more than :math:`\varepsilon^2t^2/(2sn)`: the objective
falls without bound, and there is no optimum to be near to. What is proved is the bound for :math:`K + cI`, with a c as
small as rounding, and the certificate reports it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from convexrank.core.minorants import InBalls
from convexrank.core.results import Certificate, CertificateError
from convexrank.proof.balls import (
    ZERO,
    Balls,
    Bounds,
    Tangent,
    above,
    arb,
    arb_mat,
    at_precision,
    dot,
    exact,
    fmpq,
    placed,
    refined,
    total,
)
from convexrank.proof.orders import Rationals, crossing, middles, pooled, rational, spread

Array = np.ndarray


def tangent_of_links(scores: Balls, y: Array, strong: float | None, smooth: float | None) -> Tangent:
    r"""Return the tangent of m(θ)/n, the least Fenchel-Young divergence over all φ, s-strongly convex or l-smooth ones.

    With a strong φ it is :math:`\max_p \langle p-y,\theta\rangle + \frac s2(\|y\|^2-\|p\|^2)` over the p of the
    permutahedron of y. With a smooth one, and θ in order, it is the least over non-decreasing u of
    :math:`\frac l2\|u-y_\uparrow\|^2 + \langle u,\theta\rangle + \frac1{2l}\|\theta\|^2 - \langle y,\theta\rangle`.

    Parameters
    ----------
    scores : list of arb
        Scores θ.
    y : ndarray
        The targets.
    strong, smooth : float or None
        The modulus s, or l; both None for all φ.
    """
    n = len(scores)
    centre, radius = middles(scores)
    targets = rational(y.tolist())
    order = sorted(range(n), key=lambda place: (centre[place], targets[place]))
    ranked, along = sorted(targets), [centre[place] for place in order]
    moved = [scores[place] for place in order]
    gains = -dot((arb(target) for target in targets), scores)
    if strong is not None:
        s = arb(strong).fmpq()
        levels = pooled([t - s * target for t, target in zip(along, ranked, strict=True)])
        near = [(t - level) / s for t, level in zip(along, levels, strict=True)]
        # a projection does not spread in the Euclidean norm
        points = spread(near, radius * arb(n).sqrt() / strong)
        squares = sum((target * target for target in targets), fmpq(0))
        value = dot(points, moved) + gains + (arb(squares) - dot(points, points)) * strong / 2
        return _of_means(value, points, order, targets, ZERO)
    if smooth is None:
        levels, bend = ranked, ZERO
        free = ranked
    else:
        k = arb(smooth).fmpq()
        free = pooled([target - t / k for t, target in zip(along, ranked, strict=True)])
        levels = [u + t / k for t, u in zip(along, free, strict=True)]
        # the minorant has constant part ⟨q, y↑⟩ − ‖q‖²/(2l), q = l(y↑ − levels)
        pulls = [k * (target - level) for target, level in zip(ranked, levels, strict=True)]
        bend = arb(
            sum((q * target - q * q / (2 * k) for q, target in zip(pulls, ranked, strict=True)), fmpq(0))
        )
    line = bend + dot(map(arb, levels), moved) + gains
    # the value at the scores themselves, whose order may be another within the radius: the slopes are bounded
    size = arb(sum((abs(entry) for entry in free), fmpq(0)))
    steps = 2 * radius * size + (ZERO if smooth is None else n * radius * radius / smooth)
    value = line + arb(0, 1) * steps
    return _of_means(value, [arb(level) for level in levels], order, targets, steps)


def _of_means(value: arb, levels: Balls, order: list[int], targets: Rationals, slack: arb) -> Tangent:
    n = len(levels)
    slope = placed(n, (np.array(order), levels))
    return Tangent(
        value / n, [(entry - arb(y)) / n for entry, y in zip(slope, targets, strict=True)], slack / n
    )


# --- both moduli, or a range ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinkClass:
    """The convex functions of a class.

    Parameters
    ----------
    strong : float or None
        The modulus s; None is 0.
    smooth : float
        The modulus l.
    low, high : float
        The range of the slopes of their conjugates; infinities for none.
    """

    strong: float | None
    smooth: float
    low: float = -math.inf
    high: float = math.inf


def tangent_of_bounded_links(scores: Balls, y: Array, kind: LinkClass, link: Array, kept: Array) -> Tangent:
    """Return the tangent of m(θ)/n for a class with an upper modulus, and a lower one or a range.

    Parameters
    ----------
    scores : list of arb
        Scores θ.
    y : ndarray
        The targets.
    kind : LinkClass
        The class.
    link : ndarray
        About the values of the best link at the scores: evidence.
    kept : ndarray
        About the scores cut off where the link meets the range: evidence.
    """
    n = len(scores)
    centre, radius = middles(scores)
    targets = rational(y.tolist())
    order = sorted(range(n), key=lambda place: (centre[place], targets[place]))
    ranked = sorted(targets)
    p = _in_range(rational(link.tolist()), order, sum(targets, fmpq(0)), kind)
    slope = placed(n, (np.array(order), [arb(entry) for entry in p]))
    slope = [entry - arb(target) for entry, target in zip(slope, targets, strict=True)]
    low = dot(slope, scores) + arb(_constant(p, ranked, kind))
    high = _from_above(scores, (centre, radius), targets, order, p, (kind, rational(kept.tolist())))
    return Tangent(low.union(high) / n, [entry / n for entry in slope], (high - low) / n)


def _in_range(link: Rationals, order: list[int], whole: fmpq, kind: LinkClass) -> Rationals:
    """The link in the order of scores, made non-decreasing, within the range, and moved to the sum of the targets."""
    low, high = (None if math.isinf(end) else rational([end])[0] for end in (kind.low, kind.high))
    risen = list(accumulate((link[place] for place in order), max))

    def cut(shift: fmpq) -> Rationals:
        moved = [entry + shift for entry in risen]
        moved = moved if low is None else [max(entry, low) for entry in moved]
        return moved if high is None else [min(entry, high) for entry in moved]

    turns = [] if low is None else [(low - entry, fmpq(1)) for entry in risen]
    turns += [] if high is None else [(high - entry, fmpq(-1)) for entry in risen]
    slope = fmpq(len(risen)) if low is None else fmpq(0)
    return cut(crossing(lambda shift: sum(cut(shift), fmpq(0)) - whole, slope, turns))


def _constant(p: Rationals, ranked: Rationals, kind: LinkClass) -> fmpq:
    """The constant of the minorant with slopes p."""
    s = fmpq(0) if kind.strong is None else rational([kind.strong])[0]
    smooth = rational([kind.smooth])[0]
    tails = [list(accumulate(reversed(part))) for part in (p, ranked)]
    most = [max(pair) for pair in zip(*tails, strict=True)]
    rises = [after - before for before, after in zip([fmpq(0), *most], most, strict=False)]
    b = pooled(rises[::-1])
    return (smooth * _square(ranked) - s * _square(p) - (smooth - s) * _square(b)) / 2


def _square(values: Rationals) -> fmpq:
    return sum((value * value for value in values), fmpq(0))


def _from_above(
    scores: Balls,
    middle: tuple[Rationals, arb],
    targets: Rationals,
    order: list[int],
    p: Rationals,
    cut: tuple[LinkClass, Rationals],
) -> arb:
    """Enclose a bound on m(θ) from above, by vectors u and v that rise, and scores moved to where the link is kept."""
    (centre, radius), (kind, kept) = middle, cut
    ranked, smooth = sorted(targets), rational([kind.smooth])[0]
    moved = [score - near for score, near in zip(centre, kept, strict=True)]
    moved = [fmpq(0) if math.isinf(kind.high if t > 0 else kind.low) else t for t in moved]
    ends = [arb(kind.high if t > 0 else kind.low) if t != 0 else ZERO for t in moved]
    paid = total((end - arb(y)) * arb(t) for end, y, t in zip(ends, targets, moved, strict=True))
    held = [score - arb(t) for score, t in zip(scores, moved, strict=True)]
    along = [centre[place] - moved[place] for place in order]
    sides = [held[place] for place in order]
    if kind.strong is None:
        u = list(map(arb, pooled([y - t / smooth for y, t in zip(ranked, along, strict=True)])))
        rest = spread(along, radius)  # sorting does not spread in the largest entry
        value = dot(u, rest) + dot(sides, sides) / (2 * arb(kind.smooth))
        gaps = [arb(y) - a for y, a in zip(ranked, u, strict=True)]
        value += dot(gaps, gaps) * kind.smooth / 2
    else:
        value = _of_both(sides, along, ranked, p, kind) + arb(_square(ranked)) * kind.strong / 2
    return value + paid - dot(map(arb, targets), held)


def _of_both(sides: Balls, along: Rationals, ranked: Rationals, p: Rationals, kind: LinkClass) -> arb:
    """The cost of the best u and v that rise for each other, one step from those of p."""
    s, smooth = rational([kind.strong or 0.0])[0], rational([kind.smooth])[0]
    k = smooth - s
    v = pooled([t - s * entry for t, entry in zip(along, p, strict=True)])
    u = pooled([y - entry / k for y, entry in zip(ranked, v, strict=True)])
    both = sum(
        (a * b + b * b / (2 * k) + k * (y - a) ** 2 / 2 for a, b, y in zip(u, v, ranked, strict=True)),
        fmpq(0),
    )
    gaps = [t - arb(entry) for t, entry in zip(sides, v, strict=True)]
    return arb(both) + dot(gaps, gaps) / (2 * arb(s))


_BITS = 256
# Fractions grow with every pivot: above this number of rows only balls are used.
_FRACTIONS = 48
# The smallest shift tried, as a share of the largest diagonal entry, and the largest, as a share of the trace: what is
# taken for rounding where kernel matrices are read, with some room.
_LEAST, _MOST = 2.0**-52, 1e-9


def prove_kernel(name: str, K: Array, l2: float, risk: InBalls, alpha: Array) -> Certificate:
    """Return a proved certificate of kind "global", for the kernel matrix or for one with a little on its diagonal.

    Parameters
    ----------
    name : str
        Name of the problem, for messages.
    K : ndarray, shape (n, n)
        The kernel matrix.
    l2 : float
        Strength of the penalty.
    risk : InBalls
        The risk of scores.
    alpha : ndarray, shape (n,)
        The coefficients.

    Raises
    ------
    CertificateError
        When the kernel matrix has a negative eigenvalue that is no rounding.
    """
    shift = shift_for(K)
    remark = f"with {shift:.3g} added to the diagonal of K" if shift else ""
    n, entries, ridge = len(alpha), K.ravel().tolist(), arb(shift)

    def evaluate() -> Bounds:
        strength, point, matrix = arb(l2), exact(alpha), arb_mat(n, n, entries)

        def times(vector: Balls) -> Balls:
            products = (matrix * arb_mat(n, 1, vector)).entries()
            return [entry + ridge * own for entry, own in zip(products, vector, strict=True)]

        scores = times(point)
        tangent = risk.tangent(scores)
        rest = [strength * a + u for a, u in zip(point, tangent.slope, strict=True)]
        value = tangent.value + dot(point, scores) * strength / 2
        gap = tangent.slack + dot(rest, times(rest)) / (2 * strength)
        # the objective is never negative, and every α is feasible
        return Bounds(value, min((gap, value), key=above))

    return refined(name, evaluate, remark)


def shift_for(K: Array) -> float:
    """Return what is added to the diagonal so that no eigenvalue is negative: 0 where that is shown of K itself.

    Raises
    ------
    CertificateError
        When a shift as small as rounding is not enough.
    """
    with at_precision(_BITS):
        if _is_positive_definite(K, 0.0) or is_positive_semidefinite(K):
            return 0.0
        diagonal = np.abs(np.diag(K))
        shift = max(_LEAST * float(diagonal.max()), -2.0 * float(np.linalg.eigvalsh(K)[0]))
        while shift <= _MOST * float(diagonal.sum()):
            if _is_positive_definite(K, shift):
                return shift
            shift *= 8.0
    raise CertificateError(
        "K, as the floats that it holds, has a negative eigenvalue that is no rounding, and then there is no minimum; "
        "add to its diagonal."
    )


def _is_positive_definite(K: Array, shift: float) -> bool:
    """Return whether all pivots of Gaussian elimination of K + shift · I are certainly above 0. O(n³) balls."""
    rows = [exact(row) for row in K]
    for place, row in enumerate(rows):
        row[place] = row[place] + shift
    return _eliminated(rows, lambda row, place: bool(row[place] > 0))


def is_positive_semidefinite(K: Array) -> bool:
    """Whether K has no negative eigenvalue, over fractions: a pivot of 0 needs a row of zeros. False for large K."""
    if len(K) > _FRACTIONS:
        return False
    rows = [[arb(entry).fmpq() for entry in row] for row in K.tolist()]
    return _eliminated(rows, _pivot_or_nothing)


def _pivot_or_nothing(row: list[fmpq], place: int) -> bool:
    return row[place] > 0 or all(entry == 0 for entry in row[place:])


def _eliminated(rows: list[Any], accepts: Any) -> bool:
    """Return whether every pivot is accepted; rows of a symmetric matrix, which are changed."""
    for place, row in enumerate(rows):
        if not accepts(row, place):
            return False
        for other in rows[place + 1 :] if row[place] != 0 else []:
            factor = other[place] / row[place]
            if factor != 0:
                other[place:] = [b - factor * a for a, b in zip(row[place:], other[place:], strict=True)]
    return True
