r"""How large the numbers are that a risk and its slopes are computed from: what their rounding is relative to.

An error e in an entry of a node changes the risk by its adjoint times e. Adjoints are added up by their sizes here, so
that terms that cancel count: :math:`(f + 10^8)^2 - 10^{16}` is as uncertain as its terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.modelling.expressions import Affine, Dot, Elementwise, Node, PairSums, Scores
from convexrank.modelling.program import Program, Step

__all__ = ["sizes_of_terms"]

Array = np.ndarray


def sizes_of_terms(program: Program, scores: Array) -> tuple[float, Array]:
    """Return the size of all terms of the risk, and of those of its slope in each score, shape (n,)."""
    values, memories = program.up(scores)
    steps = program.absolute_steps
    pulls: list[Any] = [0.0] * len(program.nodes)
    pulls[-1], whole = np.ones(program.count), 0.0
    for k in range(len(program.nodes) - 1, -1, -1):
        node, arguments = program.nodes[k], [values[a] for a in program.args[k]]
        whole += float(np.add.reduce(pulls[k] * _size(node, steps[k], values[k], memories[k], arguments)))
        for a, part in zip(program.args[k], steps[k].down(memories[k], pulls[k]), strict=True):
            pulls[a] = pulls[a] + np.abs(part)
    return whole, program.placed(pulls)


def _size(node: Node, step: Step, value: Array, memory: Any, x: list[Array]) -> Any:
    """The size of the numbers that an atom's value is computed from."""
    match node:
        case Scores():
            return np.zeros(1)  # the point itself
        case Affine():
            return step.up(*map(np.abs, x))[0]
        case Dot():
            return node.over.sums(np.abs(node.shares * x[0]))
        case Elementwise():
            return np.abs(value) + np.abs(memory) * (1.0 + np.abs(x[0]))
        case PairSums():
            upper, lower = np.abs(x[0]), np.abs(x[1])
            return np.abs(value) + np.abs(memory[1]) * (1.0 + lower + upper.max())
        case _:
            return 1.0 + np.abs(value)
