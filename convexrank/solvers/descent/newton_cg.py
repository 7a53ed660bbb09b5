"""Newton's method with conjugate gradients: smooth risks of linear scores, sparse or wide features."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from convexrank.backend.design import row_lengths
from convexrank.core.capabilities import Solvable
from convexrank.core.loop import State
from convexrank.core.results import Solution
from convexrank.data import check_integer, check_positive, keep_checked
from convexrank.solvers.descent._scored_points import (
    Here,
    Scaling,
    at,
    reported,
    searched,
    staged,
)
from convexrank.solvers.descent._scored_systems import Solved, System, solved
from convexrank.solvers.row_faces import HessianProducts

Array = np.ndarray

# After a system that took more products the heaviest rows are in the preconditioner; at the next the other is tried.
_LONG = 15
# Of a log-sum-exp with larger factors one with this factor is solved first, then one with so many times the factor:
# near 0 the quadratic model of a steep one holds for short steps only.
_STEEP, _STEEPER = 16.0, 4.0
# Rows are left out after a system that took more products: taking them out costs a few.
_MANY = 4
# Products that one system may take.
_MOST = 2_000
# Columns whose units differ by a larger factor are scaled by the diagonal from the beginning.
_ALIKE = 64.0


@dataclass(frozen=True)
class NewtonCG:
    r"""Newton's method whose systems are solved by conjugate gradients, roughly: truncated Newton.

    .. math:: w \leftarrow w - t s, \qquad \|(X^\top H X + \lambda_2 I)\,s - \nabla\| \le \eta\,\|\nabla\|

    H is the Hessian of the risk in the scores, a product of which costs O(n) for log-sum-exps, and
    O(n log n) for most sums over pairs. An iteration of conjugate gradients takes one product with X and one with its
    transpose. Rows whose curvature is negligible beside :math:`\lambda_2` are left out of both; with a steep risk most
    are. The step length t is searched in the scores, without further products with X.

    Where a system takes many products, the rows with most curvature become a preconditioner, by the identity of
    Woodbury, beside a multiple of the identity or the diagonal of the other rows; the better of the two is found by
    trial.

    From 0, a sum of log-sum-exps with factors of scores above 32 is approached by one with factors of 16, solved
    roughly. Along a path each solve begins with the preconditioner of the last one, and in l2 where the last two
    answers lead.

    Parameters
    ----------
    forcing : float
        The share η of the gradient that a system leaves.
    heavy : int
        Largest number of rows of the preconditioner, k: O(k² d + k³) once a step, and O(k²) for a product.

    References
    ----------
    R. Dembo and T. Steihaug, Truncated-Newton algorithms for large-scale unconstrained optimization, Mathematical
    Programming 26, 1983.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> problem.solve(cr.solvers.NewtonCG()).status.name
    'CONVERGED'
    """

    forcing: float = 0.1
    heavy: int = 256

    name = "newton-cg"
    requires = frozenset({"HessianProducts"})
    default_max_iter = 1_000

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "forcing")
        keep_checked(self, check_integer, "heavy", minimum=0)
        if not self.forcing < 1.0:
            raise ValueError(f"forcing is {self.forcing}, expected a share below 1.")

    def init(self, problem: Solvable, x0: Array) -> State:
        """Evaluate at the start."""
        return self._begun(problem.face(HessianProducts), x0)

    def _begun(self, problem: HessianProducts, x0: Array) -> State:
        units = problem.column_scales
        if units.max(initial=0.0) > _ALIKE * units.min(initial=math.inf):
            scaling = Scaling(units, row_lengths(problem.X, units), diagonal=True)
        else:
            scaling = Scaling(None, problem.row_lengths)
        here = at(problem, np.array(x0, dtype=np.float64), scaling)
        return reported(problem, here if x0.any() else staged(problem, here, _STEEP))

    def along_path(self, parameter: str) -> _AlongPath:
        """Return a solver for problems that differ in one parameter, one after the other, which remembers the last."""
        return _AlongPath(self.forcing, self.heavy)

    def step(self, problem: Solvable, state: State) -> State:
        """Solve a system roughly, and search along its direction."""
        return self._stepped(problem.face(HessianProducts), state)

    def _stepped(self, problem: HessianProducts, state: State) -> State:
        here: Here = state.memory
        if here.stage is not None and here.is_rough(problem.l2):
            here = staged(problem, here, _STEEPER * here.stage.most)
        weights = here.found.diagonal * here.scaling.lengths**2
        system = System(problem.X, weights, here.scaling.units, problem.l2, here.found)
        found, scaling = self._solved(system, here)
        for direction in (found.direction, -here.gradient * problem.column_scales**2):
            there = searched(problem, here, direction, scaling)
            if there is not None:
                return reported(problem, there)
        if here.stage is not None:
            return reported(problem, staged(problem, here, _STEEPER * here.stage.most))
        return replace(state, stalled=True)

    def _solved(self, system: System, here: Here) -> tuple[Solved, Scaling]:
        """Solve a system; a long one twice, which shows which preconditioner is better."""
        scaling, right = here.scaling, -here.gradient
        product = system.product(scaling.last > _MANY)

        def attempt(diagonal: bool, most: int) -> Solved:
            inverse = system.preconditioner(self.heavy if scaling.heavy else 0, diagonal)
            return solved(product, inverse, right, forcing, most, scaling.units)

        forcing = self.forcing if scaling.last > _LONG else min(2.0 * self.forcing, 0.5)
        found = attempt(scaling.diagonal, _MOST)
        after = scaling._replace(last=found.products)
        if found.products <= _LONG or scaling.settled or not system.has_rows:
            return found, after
        if self.heavy and not scaling.heavy:
            return found, after._replace(heavy=True)
        other = attempt(not scaling.diagonal, found.products - 1)
        if other.finished:
            return other, after._replace(diagonal=not scaling.diagonal, settled=True)
        return found, after._replace(settled=True)


@dataclass(frozen=True)
class _AlongPath(NewtonCG):
    """Newton's method that begins with the preconditioner of the problem before, where the last two problems lead."""

    columns_left = None  # it looks at all columns
    _ended: list[tuple[float, Here]] = field(default_factory=list, repr=False, compare=False)

    def _begun(self, problem: HessianProducts, x0: Array) -> State:
        """Evaluate at the start, and at the point that the answers before promise; the lower one is taken."""
        if not self._ended or len(self._ended[-1][1].scores) != problem.X.shape[0]:
            return self._noted(problem, super()._begun(problem, x0))
        scaling = self._ended[-1][1].scaling
        here = at(problem, np.array(x0, dtype=np.float64), scaling)
        ahead = self._ahead(problem.l2)
        there = here if ahead is None else at(problem, ahead, scaling)
        return self._noted(problem, reported(problem, there if there.value < here.value else here))

    def _stepped(self, problem: HessianProducts, state: State) -> State:
        """Take a step, and remember where it led."""
        found = super()._stepped(problem, state)
        self._ended[-1] = problem.l2, found.memory
        return found

    def next_start(self, solution: Solution) -> Array:
        """Return the last answer."""
        return solution.x

    def _noted(self, problem: HessianProducts, state: State) -> State:
        self._ended[:] = [*self._ended[-1:], (problem.l2, state.memory)]
        return state

    def _ahead(self, l2: float) -> Array | None:
        """Extrapolate as far as between the last two answers, in the logarithm of l2."""
        if len(self._ended) < 2:
            return None
        (before, start), (now, end) = self._ended
        if not before > now > l2 > 0.0:
            return None
        return end.x + math.log(l2 / now) / math.log(now / before) * (end.x - start.x)
