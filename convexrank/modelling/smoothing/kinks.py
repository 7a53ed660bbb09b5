"""Kinks of a risk where all scores are 0: what the least l1 with a minimiser w = 0 depends on."""

from __future__ import annotations

import numpy as np

from convexrank.modelling.expressions import Elementwise, Highest, Maximum, Node, PairSums, Scores, affine
from convexrank.modelling.program import Program, highest_rows

__all__ = ["shared_at_zero"]

Array = np.ndarray


def shared_at_zero(program: Program) -> Array | None:
    """Return the rows that share the slope of a maximum in any way at scores of 0; None where other kinks are there.

    Without a kink there these are no rows. That of a hinge is elsewhere.
    """
    kinks = _kinks_at_zero(program)
    if not kinks:
        return np.zeros(0, dtype=np.intp)
    node = kinks[0]
    if len(kinks) > 1 or program.count > 1 or not isinstance(node, Maximum):
        return None
    terms = affine(node.x).terms
    return node.over.rows if len(terms) == 1 and isinstance(terms[0][1], Scores) else None


def _kinks_at_zero(program: Program) -> list[Node]:
    values, _ = program.up(np.zeros(program.rows))
    found: list[Node] = []
    for node, args in zip(program.nodes, program.args, strict=True):
        x = [values[a] for a in args]
        match node:
            case Highest():
                tied = highest_rows(node, x[0])[1]
                if (node.over.sums(1.0 * (tied > 0.0)) > 1.0).any():
                    found.append(node)
            case Elementwise() | PairSums() if not node.function.smooth:
                kink = node.function.kink
                # differences of all pairs are those of the extremes at least
                low, high = (
                    (x[0].min(), x[0].max())
                    if len(x) == 1
                    else (x[1].min() - x[0].max(), x[1].max() - x[0].min())
                )
                if kink is None or low <= kink <= high:
                    found.append(node)
            case _:
                pass
    return found
