r"""The pattern :math:`R(\theta) = \sum_m c_m \log \sum_{r \in G_m} e^{t_m\theta_r + v_{mr}}` in an expression.

Nothing of the size of all pairs is needed for it, and more than convexity is known: edges of boosting, one read of tall
data, curvature from a sample of the rows, radii of screening, and pieces that merge by their weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property, repeated
from convexrank.modelling.expressions import LogSumExp, Maximum, Node, Scores, affine

Array = np.ndarray

# Powers that lose digits of no account where the logarithm of a number next to 1 is divided by them are larger.
_GENTLE = 1e-4


@dataclass(frozen=True, eq=False)
class LogSumExpTerm:
    r"""One term :math:`c \log\sum_{r\in G} e^{t\theta_r + v_r}`.

    Parameters
    ----------
    rows : ndarray of int, shape (g,)
        The rows G; at least one.
    sign_times_power : float
        The factor t: the sign with which scores enter, times the power p.
    outer_coefficient : float
        The factor c, positive.
    log_weights : ndarray, shape (g,)
        The terms v, finite.
    log_total : float, optional
        The logarithm of the sum of all e^v, where it is exact: that of a mean is 0.
    """

    rows: Array
    sign_times_power: float
    outer_coefficient: float
    log_weights: Any
    log_total: float | None = None

    @cached_property
    def largest_log(self) -> float:
        """The largest of the logarithms of weights, without its sign."""
        logs = self.log_weights
        return float(np.abs(logs[:1] if logs.strides == (0,) else logs).max(initial=0.0))

    @property
    def rate(self) -> float:
        """Derivative of the term when all scores rise together: c·t."""
        return self.outer_coefficient * self.sign_times_power

    def level_near_total(self, exponents: Array, log_total: float) -> float | None:
        """Return log Σ e^(x + v) from small x, whose digits are lost beside 1; None where x are not small."""
        top = float(np.maximum.reduce(exponents, initial=-np.inf))
        lost = float(np.exp(self.log_weights - log_total) @ np.expm1(exponents - top))
        return top + log_total + math.log1p(lost) if lost > -0.5 else None

    def exponents(self, scores: Array) -> Array:
        """Return t·θ + v for the rows of the term."""
        found = scores[self.rows]
        found *= self.sign_times_power
        found += self.log_weights
        return found


def log_sum_exps(
    root: Node, totals: Mapping[str, float] | None = None, *, maxima: bool = False
) -> tuple[LogSumExpTerm, ...] | None:
    """Return the log-sum-exps of one query whose weighted sum a risk is; None where it is something else.

    Parameters
    ----------
    root : Node
        The risk.
    totals : mapping of str to float, optional
        The total weight of each group, where the expression is of some of its rows: what means are divided by.
    maxima : bool
        Whether terms may be maxima, their limits: their logarithms of weights are None.
    """
    whole, found = affine(root), []
    if whole.axis is not None or root.leaf.axis.count != 1:
        return None
    for c, part in whole.terms:
        kinds = (LogSumExp, Maximum) if maxima else (LogSumExp,)
        term = _term(_number(c), part, totals) if isinstance(part, kinds) else None
        if term is None:
            return None
        found.append(term)
    if not found:
        return None
    if constant := _number(whole.constant):
        first = found[0]
        if first.log_weights is None:
            return None
        more = constant / first.outer_coefficient
        total = None if first.log_total is None else first.log_total + more
        found[0] = replace(first, log_weights=first.log_weights + more, log_total=total)
    return tuple(found)


def _number(c: Any) -> float:
    """A factor of the only query."""
    return float(np.add.reduce(c)) if isinstance(c, np.ndarray) else float(c)


def _term(c: float, node: Any, totals: Mapping[str, float] | None) -> LogSumExpTerm | None:
    """A log-sum-exp of multiples of scores as a term."""
    inner = affine(node.x)
    if not c > 0.0 or len(inner.terms) != 1 or type(inner.args[0]) is not Scores:
        return None
    t, leaf = inner.terms[0]
    axis: Any = leaf.axis
    if isinstance(t, np.ndarray) or t == 0.0:
        return None
    count = len(axis.rows)
    if isinstance(node, Maximum):
        flat = not np.any(inner.constant)
        return LogSumExpTerm(axis.rows, float(t), c, None) if flat else None
    if totals is not None:
        logs = np.log(node.weights) - (np.log(totals[axis.name]) if node.mean else 0.0)
    elif node.mean and count and _are_even(node.weights):
        logs = float(np.log(1.0 / count))
    else:
        logs = np.log(node.shares)
    logs, added = logs + inner.constant, inner.constant
    total = float(added) if node.mean and totals is None and np.ndim(added) == 0 else None
    return LogSumExpTerm(
        axis.rows, float(t), c, logs if isinstance(logs, np.ndarray) else repeated(logs, count), total
    )


def _are_even(weights: Array) -> bool:
    return weights.strides == (0,) or bool(np.logical_and.reduce(weights == weights[0]))


def log_sum_exp_gradient(exponents: Array) -> tuple[float, Array]:
    """Return log Σ eˣ and its gradient, the softmax, in plain numpy; minus infinity and nothing for no entries."""
    if not len(exponents):
        return -np.inf, exponents
    top = float(np.maximum.reduce(exponents))
    terms = exponents - top
    np.exp(terms, out=terms)
    total = float(np.add.reduce(terms))
    terms /= total
    return top + float(np.log(total)), terms


def risk_and_shares(terms: tuple[LogSumExpTerm, ...], scores: Array) -> tuple[float, list[Array]]:
    """Return the sum of the terms, and for each the shares of its rows, which sum to 1. O(n)."""
    value, parts = 0.0, []
    for term in terms:
        exponents = scores[term.rows]
        exponents *= term.sign_times_power
        near, total = None, term.log_total
        if total is not None and abs(term.sign_times_power) <= _GENTLE:
            near = term.level_near_total(exponents, total)
        exponents += term.log_weights
        part, shares = log_sum_exp_gradient(exponents)
        value += term.outer_coefficient * (part if near is None else near)
        parts.append(shares)
    return value, parts
