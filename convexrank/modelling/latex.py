r"""An expression as LaTeX, with one letter per group: i for positives, k for negatives, r for rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.modelling import expressions as tree
from convexrank.modelling.kernels.levels import CumulativeLogSumExp, Threshold

_LETTERS = {"positive": ("i", "I"), "negative": ("k", "K"), "rows": ("r", "n"), "pairs": ("i", "I")}


def latex(root: tree.Node) -> str:
    """Return the formula of a risk; a sum over queries where there are several."""
    text = _formula(root).replace("+ -", "- ")
    if isinstance(root.leaf, tree.Differences):  # a query for each lower row
        return rf"\sum_k {text}"
    return rf"\sum_q \Bigl[{text}\Bigr]" if root.leaf.axis.count > 1 else text


def _letters(axis: tree.Axis) -> tuple[str, str]:
    return _LETTERS.get(axis.name, (axis.name[0], axis.name[0].upper()))


def _formula(node: tree.Node) -> str:
    match node:
        case tree.Differences():
            return r"\bigl(f_{i} - f_{k}\bigr)"
        case tree.Scores():
            return f"f_{{{_letters(node.axis)[0]}}}"
        case tree.Affine():
            return _sum(node)
        case tree.Dot():
            return f"{_over(node)} {_inner(node.x)}"
        case tree.LogSumExp():
            return rf"\log {_over(node)} e^{{{_formula(node.x)}}}"
        case tree.Highest():
            letter, _ = _letters(node.over)
            if isinstance(node, tree.Maximum):
                return rf"\max_{{{letter}}} {_inner(node.x)}"
            same = (node.asked == node.asked[0]).all()
            most = f"{node.asked[0]:g}" if same else "m"
            weight = "" if node.is_even else f" c_{{{letter}}}"
            return rf"\tfrac1{{{most}}}\sum_{{{letter}\in\text{{top }}{most}}}{weight} {_inner(node.x)}"
        case tree.Elementwise():
            return node.function.latex(_formula(node.x))
        case CumulativeLogSumExp():
            letter, inner = _letters(node.axis)[0], _formula(node.x)
            weight = "" if (node.weights == node.weights.flat[0]).all() else "c_{j}\\,"
            inner = inner.replace(f"f_{{{letter}}}", "f_{j}")
            return rf"\log \sum_{{j:\,y_j\le y_{letter}}} {weight}e^{{{inner}}}"
        case Threshold():
            (letter, count), inner = _letters(node.over), _inner(node.x)
            scale = "" if node.scale == 1.0 else rf"{node.scale:g}\,"
            even = (node.shares == node.shares.flat[0]).all()
            mean = rf"\tfrac1{{{count}}}\sum_{{{letter}}}" if even else rf"\sum_{{{letter}}} c_{{{letter}}}\,"
            above = node.function.latex(rf"{scale}({inner} - t)")
            return rf"\min\bigl\{{t : {mean} {above} \le {node.target:g}\bigr\}}"
        case tree.PairSums():
            return _pair_sum(node)
        case _:
            raise TypeError(f"{type(node).__name__} has no formula.")


def _inner(node: tree.Node) -> str:
    several = isinstance(node, tree.Affine) and len(node.terms) + bool(np.any(node.constant)) > 1
    return rf"\bigl({_formula(node)}\bigr)" if several else _formula(node)


def _over(node: tree.Dot | tree.LogSumExp) -> str:
    """The sum of a reduction, with weights where they are not all equal."""
    letter, count = _letters(node.over)
    weight = "" if (node.weights == node.weights.flat[0]).all() else f" c_{{{letter}}}"
    if node.mean:
        return rf"\tfrac1{{{count}}}\sum_{{{letter}}}{weight}"
    plain = node.weights.flat[0]
    scale = "" if weight or plain == 1.0 else f"{plain:g}"
    return rf"{scale}\sum_{{{letter}}}{weight}"


def _number(c: Any) -> str:
    if np.ndim(c):
        return "c"
    inverse = 1.0 / abs(c) if c else 0.0
    if abs(c) < 1.0 and abs(inverse - round(inverse)) < 1e-9 * inverse:
        return rf"\tfrac1{{{round(inverse)}}}"
    return f"{abs(c):g}"


def _sum(node: tree.Affine) -> str:
    text = ""
    for c, part in node.terms:
        minus = not np.ndim(c) and c < 0
        size = "" if not np.ndim(c) and abs(c) == 1.0 else _number(c) + r"\,"
        several = isinstance(part, tree.Affine) or (size and isinstance(part, tree.Dot))
        inner = (
            rf"\bigl({_formula(part)}\bigr)" if isinstance(part, tree.Affine) or several else _formula(part)
        )
        text += (" - " if minus else " + ") + size + inner
    if np.ndim(node.constant) or node.constant:
        minus = not np.ndim(node.constant) and node.constant < 0
        text += (" - " if minus else " + ") + _number(node.constant)
    return text[3:] if text.startswith(" + ") else "-" + text[3:]


def _pair_sum(node: tree.PairSums) -> str:
    up, low = _formula(node.upper), _formula(node.lower)
    letter = _letters(node.upper_axis)[0]
    if isinstance(node, tree.PairMeans):
        asked = node.lowest.asked
        most = f"{asked[0]:g}" if (asked == asked[0]).all() else "m"
        weight = "" if node.lowest.is_even else f" c_{{{letter}}}"
        over = rf"\tfrac1{{{most}}}\sum_{{{letter}\in\text{{bottom }}{most}}}{weight}"
        return f"{over} {node.function.latex(f'{low} - {up}')}"
    if node.grades is None:
        return rf"\sum_{{{letter}}} {node.function.latex(f'{low} - {up}')}"
    j = "j"
    up = up.replace(f"f_{{{letter}}}", f"f_{{{j}}}")
    return rf"\sum_{{{j}:\,y_{j}>y_{letter}}} {node.function.latex(f'{low} - {up}')}"
