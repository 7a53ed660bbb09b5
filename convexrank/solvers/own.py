r"""What a caller brings: an algorithm, whose answer is accepted by certificate, and constraints on the weights.

Constraints of the caller's own on the weights of a convex problem, and a lower bound on the minimum under them.

Let the constraints be :math:`g(w) \le 0` and :math:`Aw = b`. For multipliers :math:`\lambda \ge 0` and any ν,

.. math:: f(w) \;\ge\; f(w) + \lambda^\top g(w) + \nu^\top(Aw - b) \quad\text{at every feasible } w.

The right side is again a convex risk and a penalty. The certificate of :mod:`convexrank.core.certificates` bounds its
minimum over all w from below, by tangents of the risk and of g; where g has kinks it looks for as many points as it
needs. The multipliers come from the conic solver and are not trusted: whatever they are, the bound holds; poor ones
only make the gap large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.core.capabilities import Exact, Existence, Modelled, Solvable, has_face, value_at
from convexrank.core.certificates import certify, value_of
from convexrank.core.cvxpy_model import CvxpyModel, nonlinear_problem
from convexrank.core.loop import Monitor, Options, State, certificate_of, scale_of
from convexrank.core.minorants import LinearRisk, Minorant, rounding
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, CertificateError, Solution, Status, Witness
from convexrank.data import check_function, shown

Array = np.ndarray


@dataclass(frozen=True)
class OwnAlgorithm:
    """Solver of ``problem.solve(function)``: one call of the function, then the certificate of its point.

    Parameters
    ----------
    function : callable
        Takes the problem and returns a point: an array, scipy's OptimizeResult or a Solution.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> def descent(problem):
    ...     w = problem.start()
    ...     for _ in range(200):
    ...         w = w - 0.5 * problem.value_and_gradient(w)[1]
    ...     return w
    >>> solution = problem.solve(descent)
    >>> solution.status.name, solution.solver
    ('CONVERGED', 'descent')
    """

    function: Callable[[Any], Any]

    requires = frozenset()
    default_max_iter = 0

    @property
    def name(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def solve(self, problem: Solvable, options: Options) -> Solution:
        """Call the function, and certify its answer; its word for it counts nothing."""
        monitor, given = Monitor(problem, self, options), self.function(problem)
        x = point_of(given, problem, "solver", gave=True)
        witness = given.witness if isinstance(given, Solution) else None
        state = State(x, value_at(problem, x), math.inf, witness=witness)
        found = certificate_of(problem, x, witness, math.inf)
        state = replace(state, residual=found.gap)
        monitor.record(state)
        monitor.best = state  # outside of the constraints, too: there is no better one
        if (ended := problem.face(Existence).terminal_status(x)) is not None:
            return monitor.finish(ended)
        enough = options.tol * scale_of(state.value)
        if not math.isfinite(enough):
            return monitor.finish(Status.FAILED, f"the point of {self.name} violates the constraints")
        if found.gap <= enough:
            return monitor.finish(Status.CONVERGED)
        return monitor.finish(Status.FAILED, f"expected a gap of at most {enough:.3g} from {self.name}")


def point_of(given: Any, problem: Solvable, name: str, gave: bool) -> Array:
    """Return the point in an answer: an array, scipy's OptimizeResult or a Solution.

    Parameters
    ----------
    given : object
        The answer.
    problem : Problem
        The problem.
    name : str
        Name of the argument in messages.
    gave : bool
        Whether the argument is a function, which gave the answer.

    Raises
    ------
    ValueError, TypeError
        When it is no point with finite entries, or has another shape.
    """
    given = getattr(given, "x", given)
    try:
        x = np.asarray(given, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        x, cause = np.empty(()), error
    else:
        cause = None
    if x.ndim == 0:
        raise TypeError(
            f"{name} {'gave' if gave else 'is'} {shown(given, 200)}, expected None, a name, a solver object, or a "
            "point: an array, scipy's OptimizeResult or a Solution, itself or from a function of the problem."
        ) from cause
    if wrong := int(np.count_nonzero(~np.isfinite(x))):
        raise ValueError(
            f"{name} gave a point with {wrong} of {x.size} entries NaN or infinite, expected finite numbers: it failed "
            f"on this {type(problem).__name__}."
        )
    return problem.check_point(x, f"the point of {name}")


_UNUSABLE = Minorant(math.inf, math.nan, np.zeros(1), math.inf, math.inf, math.inf)
_EXAMPLE = "such as lambda w: [w[0] >= 0]"


class Multipliers(Witness):
    """The multipliers of the constraints, one array each: evidence beside that for the risk, which is searched for.

    Parameters
    ----------
    values : list of ndarray
        The multipliers, in the order of the constraints and of their entries by column.
    dimension : int
        Number of weights.
    """

    def __init__(self, values: list[Array], dimension: int) -> None:
        super().__init__(np.zeros((0, dimension)), np.zeros(0))
        self.__dict__["values"] = values


@dataclass(frozen=True, eq=False, repr=False)
class UnderConstraints(Problem):
    """A convex problem with linear scores, with more constraints on its weights; for the exact solver alone.

    Parameters
    ----------
    problem : Problem
        The problem.
    function : callable
        Takes the cvxpy variable of the weights, shape (d,), and returns a list of constraints of cvxpy.

    Raises
    ------
    TypeError
        When the function is none, or returns anything else than a list of constraints made by ``<=``, ``>=`` or ``==``.
    ValueError
        When the problem has no linear scores, or a constraint is not convex by cvxpy's rules, does not depend on the
        weights, or has other variables or parameters without a value.
    """

    problem: Exact
    function: Callable[[Any], Any]

    capabilities = frozenset({"Exact", "Certified"})
    default_solver = "exact"

    def __post_init__(self) -> None:
        check_function(
            self.function,
            "constraints",
            f"that takes the cvxpy variable of the weights and returns a list of constraints, {_EXAMPLE}",
        )
        if not has_face(self.problem, LinearRisk):
            raise ValueError(
                f"constraints given, but {type(self.problem).__name__} is not a convex problem with linear scores Xw, "
                "the only kind that takes more constraints; add them to to_cvxpy().problem and solve that with cvxpy."
            )
        _ = self._stated  # a bad constraint is refused here

    def __repr__(self) -> str:
        return f"{self.problem!r} under {len(self._stated[1])} constraints of your own"

    @property
    def dimension(self) -> int:
        """Number of weights d."""
        return self.problem.dimension

    @property
    def rows(self) -> int:
        """Number of examples n."""
        return self.problem.rows

    def _modelled(self) -> Modelled:
        known = self.problem.face(Modelled)
        given = known.other
        other = None if given is None else lambda: self._added(given())
        return Modelled(other, known.is_nonlinear)

    def objective(self, w: Any) -> float:
        """Evaluate the objective, which has no part for the constraints."""
        return self.problem.objective(w)

    def project_feasible(self, x: Array) -> Array:
        """Return the nearest point of the problem's own ball; the caller's constraints have no projection."""
        return self.problem.project_feasible(x)

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Refuse: multipliers and constraints are read in floating-point arithmetic."""
        raise CertificateError(
            "a minimum under constraints of your own is bounded in floating-point arithmetic, so that nothing is "
            "proved about it; problem.prove(solution.x) proves how far x is above the minimum without them."
        )

    def _dual_solution(self, solution: Solution) -> Solution:
        """Refuse: the dual is that of the problem without the constraints."""
        raise ValueError(
            "under constraints of your own no dual is known here; problem.dual() is that of the problem without them."
        )

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model with the constraints."""
        return self._added(self.problem.to_cvxpy())

    def _added(self, model: CvxpyModel) -> CvxpyModel:
        import cvxpy as cp

        w = next(iter(model.variables.values()))
        added = checked(self.function, w)
        make = nonlinear_problem if model.nonlinear else cp.Problem
        return replace(
            model,
            problem=make(model.problem.objective, [*model.problem.constraints, *added]),
            evidence=lambda: Multipliers([_multipliers(part) for part in added], self.dimension),
        )

    @cached_property
    def _stated(self) -> tuple[Any, list[Any]]:
        """A variable and the constraints on it, in which points are looked at."""
        import cvxpy as cp

        w = cp.Variable(self.dimension, name="w")
        return w, checked(self.function, w)

    def violation(self, x: Array) -> float:
        """Return the largest violation of a constraint at x, in the units of the constraint; infinity if it is NaN."""
        w, constraints = self._stated
        w.value = x
        with np.errstate(all="ignore"):  # of a logarithm, say
            found = max((float(np.max(part.violation())) for part in constraints), default=0.0)
        return math.inf if math.isnan(found) else found

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − minimum under the constraints at x, and their violation.

        Parameters
        ----------
        x : array
            The point.
        witness : Multipliers, optional
            Multipliers of the constraints; 0 by default.
        """
        w, risk = self.check_point(x), self.problem.face(LinearRisk)
        value, error = value_of(risk.penalty, risk.minorant(w, 0.0), w)
        violation = self.violation(w)
        remark = f"they are violated by at most {violation:.2g}"
        nothing = Certificate(math.inf, value, -math.inf, "constrained", remark=remark)
        given = witness.__dict__["values"] if isinstance(witness, Multipliers) else None
        if not math.isfinite(value + violation):
            return nothing
        found = certify(self._lagrangian(given), w)
        gap = max(value + error - found.lower_bound, violation)
        if not math.isfinite(gap):
            return nothing
        radius = found.radius if found.kind == "ball" else math.inf
        return Certificate(gap, value, found.lower_bound, "constrained", radius, remark=remark)

    def _lagrangian(self, multipliers: list[Array] | None) -> LinearRisk:
        """Return the problem with multipliers times the constraints in its risk."""
        known = self.problem.face(LinearRisk)

        def minorant(w: Array, width: float) -> Minorant:
            return known.minorant(w, width).plus(self.tangent(w, multipliers))

        # where there are kinks a certificate looks for more points than one; a linear function has no lower bound
        smooth = known.differentiable and self.are_affine
        return replace(known, differentiable=smooth, risk_infimum=-math.inf, minorant=minorant)

    @property
    def are_affine(self) -> bool:
        """Whether the constraints are linear, without kinks."""
        return all(part.expr.is_affine() for part in self._stated[1])

    def tangent(self, x: Array, given: list[Array] | None) -> Minorant:
        """Return the linear function of multipliers and tangents at x: at most 0 wherever the constraints hold."""
        from cvxpy.constraints.nonpos import Inequality

        w, constraints = self._stated
        w.value = x
        slope, offset, lengths, heights = np.zeros(len(x)), 0.0, np.zeros(len(x)), 0.0
        for place, part in enumerate(constraints):
            size = part.expr.size
            multipliers = np.zeros(size) if given is None or place >= len(given) else given[place]
            if multipliers.shape != (size,) or not multipliers.any():
                continue
            if isinstance(part, Inequality):
                multipliers = np.maximum(multipliers, 0.0)
            with np.errstate(all="ignore"):
                found, values = part.expr.grad[w], np.ravel(part.expr.value, order="F")
            if found is None:  # outside of where the constraint is defined
                return _UNUSABLE
            columns = found if sparse.issparse(found) else np.reshape(found, (len(x), size))
            pull, sizes = columns @ multipliers, abs(columns) @ np.abs(multipliers)
            slope, lengths = slope + pull, lengths + sizes
            offset += float(values @ multipliers - pull @ x)
            heights += float(np.abs(values) @ np.abs(multipliers) + sizes @ np.abs(x))
        relative = rounding(len(x) + sum(part.expr.size for part in constraints))
        height = offset + float(slope @ x)
        return Minorant(
            height,
            offset,
            slope,
            relative * heights,
            relative * heights,
            relative * float(np.linalg.norm(lengths)),
        )


def _multipliers(constraint: Any) -> Array:
    """The multipliers that a solver left at a constraint, by column; 0 where it left none."""
    found = constraint.dual_value
    values = (
        np.zeros(constraint.expr.size)
        if found is None
        else np.ravel(np.asarray(found, dtype=np.float64), order="F")
    )
    return np.where(np.isfinite(values), values, 0.0)


def checked(function: Callable[[Any], Any], w: Any) -> list[Any]:
    """Return the caller's constraints on a variable; refuse what is none, or cannot be certified."""
    from cvxpy.constraints.nonpos import Inequality
    from cvxpy.constraints.zero import Equality

    found = function(w)
    if not isinstance(found, list | tuple):
        raise TypeError(
            f"constraints(w) returned {shown(found)}, expected a list of constraints of cvxpy, {_EXAMPLE}."
        )
    for place, part in enumerate(found):
        name = f"constraints(w)[{place}]"
        if not isinstance(part, Inequality | Equality):
            raise TypeError(
                f"{name} is {shown(part)}, of type {type(part).__name__}, expected a constraint of cvxpy made by <=, "
                ">= or ==, such as w[0] >= 0, or cp.norm(w) <= 1 for a cone."
            )
        others = [variable.name() for variable in part.variables() if variable.id != w.id]
        if others:
            raise ValueError(
                f"{name}, {part}, has other variables than the weights: {', '.join(others)}; write what is minimised "
                "over them as an atom of cvxpy, such as cp.norm1 or cp.sum_largest."
            )
        if not part.variables():
            raise ValueError(
                f"{name}, {part}, does not depend on the weights; use the variable that the function is given, "
                f"{_EXAMPLE}."
            )
        if missing := [parameter.name() for parameter in part.parameters() if parameter.value is None]:
            raise ValueError(
                f"{name}, {part}, has parameters without a value: {', '.join(missing)}; set them first."
            )
        if not part.is_dcp():
            raise ValueError(
                f"{name}, {part}, is not convex by cvxpy's rules (convex <= concave, affine == affine); write it in "
                "that form, or leave it out."
            )
    return list(found)
