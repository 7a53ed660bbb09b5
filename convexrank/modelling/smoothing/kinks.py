"""Kinks of a risk where all scores are 0: what the least l1 with a minimiser w = 0 depends on."""

from __future__ import annotations

import numpy as np

from convexrank.modelling.expressions import Elementwise, Highest, Node, PairMeans, PairSums, Scores, affine
from convexrank.modelling.program import Program
from convexrank.modelling.steps import highest_rows

Array = np.ndarray


def shared_at_zero(program: Program) -> tuple[Array, Array] | None:
    """Return the rows that share the slope of the highest at scores of 0, and the largest share of each.

    They share it in any way that adds up. None where other kinks are there. Without a kink there these are no rows.
    That of a hinge is elsewhere.
    """
    kinks = _kinks_at_zero(program)
    if not kinks:
        return np.zeros(0, dtype=np.intp), np.zeros(0)
    node = kinks[0]
    if program.differences or len(kinks) > 1 or program.count > 1:
        return None
    if not isinstance(node, Highest) or not _is_row_by_row(node.x):
        return None
    values, _ = program.up(np.zeros(program.rows))
    _, tied, left = highest_rows(node, values[program.nodes.index(node.x)])
    return node.over.rows[tied > 0.0], tied[tied > 0.0] / left


def _is_row_by_row(x: Node) -> bool:
    """Return whether equal entries depend on their own rows alike, and on other rows all in the same way.

    Of a function that may fall, equal values need not have equal slopes: the constants of all rows are one number then.
    """
    if not (inner := _only_part(x)):
        return False
    match inner:
        case Scores():
            return True
        case PairSums():
            alike = inner.function.increasing or all(np.ndim(affine(end).constant) == 0 for end in inner.args)
            return (
                alike
                and inner.grades is None
                and all(isinstance(_only_part(end), Scores) for end in inner.args)
            )
        case Elementwise():
            whole = affine(inner.x)
            own = [(c, part) for c, part in whole.terms if not whole.is_level(part)]
            alike = inner.function.increasing or np.ndim(whole.constant) == 0
            return alike and len(own) == 1 and np.ndim(own[0][0]) == 0 and isinstance(own[0][1], Scores)
        case _:
            return False


def _only_part(x: Node) -> Node | None:
    """Return the part of which an expression is a multiple, up to constants."""
    terms = affine(x).terms
    return terms[0][1] if len(terms) == 1 and np.ndim(terms[0][0]) == 0 else None


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
            case PairMeans():
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
