r"""Learned divergences over balls: risks with an inner minimum over links.

With both moduli, s < l and k = l − s, or an output range [a, b], for scores in order and targets in order:

.. math:: m(\theta) + \langle y, \theta\rangle = \max_{p, b}\; \langle p, \theta\rangle
          - \tfrac s2\|p\|^2 - \tfrac k2\|b\|^2 + \tfrac l2\|y\|^2

over non-decreasing p within the range, and b, all with the sum of y, such that no sum of the last entries of b is
below that of p or of y. For a given p the best b is one isotonic regression, of the increments of the greater sums. So
any p, such as the link in floats, gives a minorant whose constant is rational; it is exchanged for all orders of
scores at once, as p rises. From above m is bounded by any of the two vectors that it is a minimum over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from flint import fmpq

from convexrank.proof.balls import ZERO, Balls, Tangent, arb, dot, placed, total
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
