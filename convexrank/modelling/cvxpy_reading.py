"""An expression as one of cvxpy, and its conjugate with the constraints on the multipliers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.design import picks
from convexrank.core.elementwise_checks import Limits, model_form, stated
from convexrank.modelling import expressions as tree
from convexrank.modelling.kernels.highest import border_of
from convexrank.modelling.language import Language, read
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold, values_and_shares
from convexrank.modelling.levels import values_and_parts as threshold_at
from convexrank.modelling.program import Program
from convexrank.modelling.rules import is_nonnegative

Array = np.ndarray

# One log-sum-exp atom for each query: cvxpy takes long to compile more of them than this.
_ATOMS = 200
# Derivatives that a nonlinear model may hold, of 70 bytes each.
_MOST_DERIVATIVES = 50_000_000


def cvxpy_model(root: tree.Node, scores: Any, sums_apart: bool = False) -> tuple[Any, Limits]:
    """Return the risk as a cvxpy expression of the scores of all rows, and constraints that go with it.

    With ``sums_apart`` a sum that a function is taken of is a variable, which is at least the sum.
    """
    language = Cvxpy(sums_apart)
    return language.total(read(root, language, scores)), language.limits


def is_nonlinear(program: Program) -> bool:
    """Return whether cvxpy's rules do not show that some function of one's own is convex."""
    return any(
        _form_of(node) == "nonlinear"
        for node in program.nodes
        if isinstance(node, tree.Elementwise) and node.function.own is not None
    )


def _form_of(node: tree.Elementwise) -> str:
    """Return the form of cvxpy for a function of its argument, as :func:`model_form` names it."""
    own = node.function.own
    if own is None or not node.function.increasing or tree.is_affine(node.x):
        return "composed"
    return model_form(own, not is_nonnegative(node.x))


def _terms_of(node: tree.Node) -> int:
    """Count the losses of which an expression is made."""
    if isinstance(node, tree.PairSums):
        return node.pair_count
    return len(node.axis.rows) if isinstance(node, tree.Scores) else sum(map(_terms_of, node.args))


@dataclass(frozen=True)
class _PowerOver:
    """The number \\|v\\|^q u^(1−q) of values of expressions, which cvxpy has as a cone alone; 0 where v is 0."""

    v: Any
    u: Any
    q: float

    @property
    def value(self) -> Array:
        """The numbers, infinite where u alone is 0."""
        v, u = np.abs(self.v.value), np.maximum(self.u.value, 0.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(v == 0.0, 0.0, v * (v / u) ** (self.q - 1.0))


class Cvxpy(Language):
    """Expressions; ``limits`` collects constraints."""

    def __init__(self, sums_apart: bool = False) -> None:
        import cvxpy as cp

        self.cp, self.sums_apart = cp, sums_apart
        self.limits = Limits()
        # functions of one number, of another signature than numpy's
        members = {"times": cp.multiply, "total": cp.sum, "exp": cp.exp, "softplus": cp.logistic}
        self.__dict__.update(members, positive=cp.pos, rel_entr=cp.rel_entr)

    def apply(self, node: tree.Elementwise, x: Any) -> Any:
        """Return the function of each entry; a variable in the place of the argument where rules need one."""
        form, terms = _form_of(node), _terms_of(node.x)
        if self.sums_apart and form == "composed" and not tree.is_affine(node.x) and x.is_nonneg():
            form = "epigraph"
        if form == "nonlinear" and x.size * terms > _MOST_DERIVATIVES:
            raise ValueError(
                f"the exact model has {x.size} prices of {terms} losses in all, and a nonlinear solver holds a "
                f"derivative for each price and loss, expected at most {_MOST_DERIVATIVES}; take fewer rows, a fast "
                "solver, or atoms that cvxpy knows to be convex, such as atoms.square(r) for r * r."
            )
        start = 0.0 if form in ("composed", "") else self._at_zero(x)
        return stated(lambda t: node.function.read(self, t), x, form, start, self.limits)

    @staticmethod
    def _at_zero(x: Any) -> Any:
        """The value of an expression at scores of 0, where a nonlinear solver may begin."""
        for variable in x.variables():
            if variable.value is None:
                variable.value = np.zeros(variable.shape)
        return x.value

    def power(self, x: Any, p: float) -> Any:
        """Return a power."""
        return self.cp.square(x) if p == 2.0 else self.cp.power(x, p)

    def huber(self, x: Any, width: float) -> Any:
        """Return x²/(2w) up to the width, |x| − w/2 beyond."""
        return self.cp.huber(x / width, 1) * (0.5 * width)

    @staticmethod
    def scatter(places: Array, x: Any, length: int) -> Any:
        """Add entries at places."""
        return picks(places, length).T @ x

    def _by_query(self, function: Callable[[Any], Any], x: Any, axis: tree.Axis) -> Any:
        pairs = zip(axis.starts[:-1].tolist(), axis.starts[1:].tolist(), strict=True)
        return self.cp.hstack([function(x[start:end]) for start, end in pairs])

    def log_sum_exp(self, x: Any, node: tree.LogSumExp) -> Any:
        """Return log Σ c eˣ of each query; of many queries a variable t with Σ c e^(x − t) of at most 1."""
        axis = node.over
        if axis.count > _ATOMS:
            t = self.cp.Variable(axis.count)
            masses = self.times(node.shares, self.exp(x - self.spread(t, axis)))
            self.limits.append(self.sums(masses, axis) <= 1.0)
            t.value = np.log(axis.sums(node.shares))
            return t
        return self._by_query(self.cp.log_sum_exp, x + np.log(node.shares), node.over)

    def cumulative(self, x: Any, node: CumulativeLogSumExp) -> Any:
        """Return log Σ c eˣ up to each level; of many levels t with Σ c e^(x − t) + e^(t′ − t) ≤ 1, t′ that below."""
        (order, ends), passing = node.runs, node.passing
        if node.count > _ATOMS:
            t = self.cp.Variable(node.count)
            masses = self.times(node.weights, self.exp(x - t[node.level]))
            below = self.scatter(passing, self.exp(t[passing - 1] - t[passing]), node.count)
            self.limits.append(self.scatter(node.level, masses, node.count) + below <= 1.0)
            start = np.zeros(len(order)) if x.value is None else x.value
            t.value = values_and_shares(node, start)[0][order[ends[:-1]]]
            return t[node.level]
        starts = ends[:-1][node.firsts].repeat(np.diff(np.append(np.flatnonzero(node.firsts), node.count)))
        exponents = (x + node.logs)[order]
        pairs = zip(starts.tolist(), ends[1:].tolist(), strict=True)
        levels = self.cp.hstack([self.cp.log_sum_exp(exponents[start:end]) for start, end in pairs])
        return levels[node.level]

    def threshold(self, x: Any, node: Threshold) -> Any:
        """Return the least t for which the mean of ψ(b(x − t)) is at most τ: a variable, which nothing falls with."""
        axis = node.over
        t = self.cp.Variable(axis.count)
        above = node.function.read(self, node.scale * (x - self.spread(t, axis)))
        # in units of the target: how far solvers violate it moves t by that over the slope
        self.limits.append(self.sums(self.times(node.shares / node.target, above), axis) <= 1.0)
        t.value = threshold_at(node, np.zeros(len(axis.rows)) if x.value is None else x.value)[0]
        return t

    def highest(self, x: Any, node: tree.Highest) -> Any:
        """Return the mean of the highest entries of each query: with weights the least t + Σ a (x − t)₊ / m."""
        if isinstance(node, tree.Maximum):
            return self._by_query(self.cp.max, x, node.over)
        if node.is_even:
            masses = iter(node.masses.tolist())
            return self._by_query(
                lambda part: (lambda k: self.cp.sum_largest(part, k) / k)(next(masses)), x, node.over
            )
        t = self.cp.Variable(node.over.count)
        if x.value is not None:
            t.value = border_of(node, x.value)
        return t + self.sums(self.times(node.caps, self.positive(x - self.spread(t, node.over))), node.over)

    def pair_sums(self, node: tree.PairSums, upper: Any, lower: Any) -> Any:
        """Return the sums over upper rows, or means of the highest terms: one term for each pair."""
        (up, low), count = node.pairs, len(node.axis.rows)
        costs = node.function.read(self, lower[low] - upper[up])
        if not isinstance(node, tree.PairMeans):
            return self.scatter(low, self.cp.multiply(node.weights[up], costs), count)
        # an atom has the value itself, where a variable is solved for
        if node.lowest.is_even and count <= _ATOMS:
            masses = enumerate(node.lowest.masses[node.axis.query].tolist())
            return self.cp.hstack(
                [self.cp.sum_largest(costs[np.flatnonzero(low == k)], m) / m for k, m in masses]
            )
        t = self.cp.Variable(count)  # as in a mean of the highest of each lower row
        if costs.value is not None:
            t.value = self._borders(node, upper.value, lower.value)
        parts = self.cp.multiply(node.lowest.caps[up], self.positive(costs - t[low]))
        return t + self.scatter(low, parts, count)

    @staticmethod
    def _borders(node: tree.PairMeans, upper: Array, lower: Array) -> Array:
        """The least costs that count, those of the upper rows at the border."""
        border = -border_of(node.lowest, -upper)
        return node.function.slopes(lower - node.axis.spread(border))[0]

    def at_least_zero(self, x: Any, size: Any = 0.0) -> None:
        """Constrain entries to at least 0."""
        self.limits.append(x >= 0)

    def zero(self, x: Any, size: Any = 0.0) -> None:
        """Constrain entries to 0."""
        self.limits.append(x == 0)

    def power_over(self, v: Any, u: Any, q: float) -> Any:
        """Return \\|v\\|^q u^(1−q), a power cone."""
        if not isinstance(u, self.cp.Expression) or u.is_constant():
            sizes = np.asarray(getattr(u, "value", u), dtype=np.float64)
            none = np.broadcast_to(sizes == 0.0, v.shape)
            if none.any():  # the conjugate is finite at 0 only
                self.zero(self.cp.multiply(none * 1.0, v))
            factors = np.where(none, 0.0, np.where(none, 1.0, sizes) ** (1.0 - q))
            return self.cp.multiply(factors, self.power(self.cp.abs(v), q))
        t = self.cp.Variable(v.shape)
        from cvxpy.constraints.power import PowCone3D

        self.limits.append(PowCone3D(t, u, v, np.full(v.shape, 1.0 / q)))
        self.limits.lifted.append((t, _PowerOver(v, u, q)))
        return t
