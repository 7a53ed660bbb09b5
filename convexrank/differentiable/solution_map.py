r"""The minimiser as a function of JAX, and the linear system of its derivatives.

The minimiser of a problem to rounding, and linear systems of the second derivatives there, in numpy.

At a minimiser w the slope of the objective along the weights that are not 0 is 0. By the implicit function theorem
these weights move by :math:`-H^{-1}` times what the slope moves by, H the second derivatives along them; a weight that
l1 holds at 0 stays there.

The minimiser as a function of JAX: derivatives by the implicit function theorem, in one rule.

At the minimiser :math:`w(\theta)` of :math:`R(Xw; a, p) + \tfrac{\lambda_2}{2}\|w\|^2 + \lambda_1\|w\|_1` the slope
:math:`g(w, \theta)` along the weights that are not 0 vanishes, so that

.. math:: H\,\mathrm{d}w = -\partial_\theta g\,\mathrm{d}\theta, \qquad H = \partial_w g.

The right-hand side is a derivative of the JAX reading of the declared risk, whatever θ is: the features, the weights of
the rows, the strengths of the penalties, parameters such as p. Solve and linear system run in numpy, in float64. JAX
transposes the system, and differentiates it again.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from convexrank.backend.cached import cached_property, preset
from convexrank.backend.design import held_as
from convexrank.backend.interruption import as_a_whole
from convexrank.backend.jax_oracles import jax_matrix, with_x64
from convexrank.core.capabilities import SolverLike
from convexrank.core.results import ConvergenceWarning, Status
from convexrank.core.solving import resolve
from convexrank.data import check_positive, check_real_array, keep_checked, shown
from convexrank.data.fields import Recorded, recorded
from convexrank.modelling.expressions import Node
from convexrank.modelling.jax_reading import JaxRisk, padded, traced
from convexrank.problems._declared import Declared

if TYPE_CHECKING:
    from jax.typing import ArrayLike

__all__ = ["AtMinimiser", "SolutionMap"]

Array = np.ndarray

# Columns up to which second derivatives are a matrix; beyond, products with them are taken.
_DENSE = 2_000
# A weight this near to its edge, relative to l1, may leave 0 or reach it.
_EDGE = 1e-6
# Newton's steps after a solve, each of which about doubles the digits, and a step that is rounding.
_STEPS, _EXACT = 4, 1e-15
# Eigenvalues are known to so many units of rounding, for each column.
_UNITS = 16.0
# Residual of the products, relative, how many may be taken, and what may remain.
_RESIDUAL, _MOST_PRODUCTS, _REMAINS = 1e-13, 20_000, 1e-8


@dataclass(frozen=True, eq=False)
class AtMinimiser:
    """A problem at its minimiser.

    Parameters
    ----------
    problem : problem that declares its risk
        A smooth risk with l2 and l1.
    w : ndarray, shape (d,)
        The minimiser.
    """

    problem: Declared
    w: Array

    @classmethod
    @as_a_whole
    def of(cls, problem: Declared, solver: SolverLike, tol: float) -> Self:
        """Solve, and take Newton's steps until they are rounding.

        Raises
        ------
        ValueError
            When the solve does not converge.
        """
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # an error follows
            solution = problem.solve(solver, tol=tol)
        if solution.status is not Status.CONVERGED:
            raise ValueError(
                f"the solve ended with the status {solution.status.name}, so that there is no minimiser to "
                f"differentiate: {solution.status.message}"
            )
        found = cls(problem, solution.x)
        for _ in range(_STEPS):
            step = found._newton_step
            w = found.w - step
            if (np.sign(w) != np.sign(found.w))[found.free].any():
                break
            after = cls(problem, w)
            if not np.linalg.norm(after.slope[found.free]) < np.linalg.norm(found.slope[found.free]):
                break
            found = after
            if np.linalg.norm(step) <= _EXACT * np.linalg.norm(w):
                break
        return found

    @property
    def _newton_step(self) -> Array:
        try:
            return self.solve(self.slope)
        except ValueError:  # where second derivatives are degenerate the solver's answer stays
            return np.zeros_like(self.w)

    @cached_property
    def free(self) -> Array:
        """Mask of the weights that move: all, or with l1 those that are not 0."""
        return np.ones(len(self.w), dtype=bool) if self.problem.l1 == 0.0 else self.w != 0.0

    @cached_property
    def _pull(self) -> Array:
        """The slope of risk and l2."""
        return self.problem.smooth_value_and_gradient(self.w)[1]

    @cached_property
    def slope(self) -> Array:
        """The slope of the objective along the weights that move, 0 elsewhere."""
        return np.where(self.free, self._pull + self.problem.l1 * np.sign(self.w), 0.0)

    def check(self) -> None:
        """Refuse a minimiser at which the weights have no derivative.

        Raises
        ------
        ValueError
            When second derivatives are degenerate, or l1 holds a weight at 0 only just.
        """
        if (l1 := self.problem.l1) > 0.0:
            bends = self._dense.diagonal() if self._is_dense else np.ones(len(self.w))
            # a weight of 0 whose slope is almost l1, and a weight that is almost 0
            edge = np.where(self.free, np.abs(self.w) * bends, l1 - np.abs(self._pull)) <= _EDGE * l1
            if edge.any():
                raise ValueError(
                    f"weight {int(np.argmax(edge))} is at the edge between 0 and not 0 for l1={l1:g}: derivatives to "
                    "the two sides differ; take another l1, or l2 alone."
                )
        if self.free.any():  # products show a degenerate H by a vector of no symmetry alone
            self.solve(np.random.default_rng(0).normal(size=len(self.w)))

    def checked_solve(self, b: Array) -> Array:
        """Return :meth:`solve` where :meth:`check` finds nothing."""
        _ = self._checked
        return self.solve(b)

    @cached_property
    def _checked(self) -> bool:
        self.check()
        return True

    def solve(self, b: Array) -> Array:
        """Return u with Hu = b along the weights that move, 0 elsewhere.

        Raises
        ------
        ValueError
            When H is degenerate.
        """
        b, found = np.where(self.free, b, 0.0), np.zeros(len(self.w))
        if not b.any():
            return found
        if self._is_dense:
            units, values, vectors = self._eigen
            if not values[0] > _UNITS * len(values) * np.finfo(np.float64).eps * values[-1]:
                raise self._degenerate()
            found[self.free] = units * (vectors @ ((vectors.T @ (units * b[self.free])) / values))
            return found
        size = len(self.w)
        hessian: Any = LinearOperator((size, size), matvec=self._product, dtype=np.float64)  # type: ignore[call-arg]
        with np.errstate(all="ignore"):
            u, _ = cg(hessian, b, rtol=_RESIDUAL, maxiter=_MOST_PRODUCTS)
        if not np.linalg.norm(self._product(u) - b) <= _REMAINS * np.linalg.norm(b):
            raise self._degenerate()
        return u

    @property
    def _is_dense(self) -> bool:
        return self.problem._has_curvature and len(self.w) <= _DENSE

    @cached_property
    def _dense(self) -> Array:
        return self.problem.second_order(self.w)[2]

    @cached_property
    def _eigen(self) -> tuple[Array, Array, Array]:
        """Units in which the diagonal of H is 1, and eigenvalues and -vectors there."""
        hessian = self._dense[np.ix_(self.free, self.free)]
        diagonal = hessian.diagonal()
        units = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
        values, vectors = np.linalg.eigh(units[:, None] * hessian * units)
        return units, values, vectors

    def _product(self, v: Array) -> Array:
        v = np.ravel(v)
        if not np.isfinite(v).all():  # along a direction without curvature steps are infinite
            raise self._degenerate()
        bent = self.problem.hessian_product(self.w, np.where(self.free, v, 0.0))
        return np.where(self.free, bent, v)

    def _degenerate(self) -> ValueError:
        return ValueError(
            f"second derivatives at the minimiser are degenerate (l2={self.problem.l2:g}): other weights are as good, "
            "so that it has no derivative; give l2 > 0."
        )


# What the reading is compared at with the problem: other values, and relative rounding of sums.
_OTHER, _ROUNDING = 0.03125, 1e-9


@dataclass(frozen=True, eq=False)
class SolutionMap:
    r"""The weights of a solution as a JAX function of data and parameters, which ``jax.grad`` differentiates.

    :math:`w(\theta) = \arg\min_w R(Xw) + \tfrac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1`, where θ is any of ``X``,
    ``sample_weight``, ``l2``, ``l1`` and the other real parameters of the formulation, such as ``p``. Derivatives
    follow from the implicit function theorem; nothing is unrolled. ``jax.grad``, ``jax.jvp``, ``jax.jacrev``,
    ``jax.jit``, ``jax.vmap`` and derivatives of derivatives work. A call costs one solve, a derivative one linear
    system beside it: O(nd² + d³), for more than 2 000 columns some products with the second derivatives. Solve and
    system run on the host in float64; the rest runs where JAX computes, in the precision of the caller.

    With l1 the weights that are 0 stay 0, and the others move: derivatives are those of the set of weights that are not
    0, which near the minimiser does not change. Where it is about to change there is no derivative, and an error.
    A risk with squared hinges has second derivatives but for margins at the kink; there they are those of one side.

    Parameters
    ----------
    problem : problem that declares its risk
        Such as `convexrank.problems.PNormPush`, or one of your own class; it has the values of all that is not passed.
        Labels and queries are its own.
    solver : str or solver, optional
        How to solve; by default as the problem itself. Newton's steps follow until they are rounding.
    tol : float
        Tolerance of the solve.

    Raises
    ------
    TypeError
        When the problem declares no risk.
    ValueError
        When the risk has kinks, is not convex, or has a ball in the place of a penalty, or rows are out of memory.

    References
    ----------
    M. Blondel et al., Efficient and modular implicit differentiation, NeurIPS (2022); C. Bertrand et al., Implicit
    differentiation for fast hyperparameter selection in non-smooth convex learning, JMLR 23 (2022), with l1.

    Examples
    --------
    The slope of a loss of other rows in l2:

    >>> import jax, numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 3))
    >>> y = X[:, 0] + rng.normal(size=80) > 0.5
    >>> weights_of = cr.SolutionMap(cr.problems.PNormPush(X[:60], y[:60], p=4, l2=0.1))
    >>> other = cr.problems.PNormPush(X[60:], y[60:], p=1).jax_objective()
    >>> slope = jax.grad(lambda l2: other(weights_of(l2=l2)))(0.1)
    >>> print(f"{slope:.3f}")
    0.375
    """

    problem: Declared
    solver: SolverLike = None
    tol: float = 1e-10

    def __post_init__(self) -> None:
        problem = self.problem
        if not isinstance(problem, Declared):
            raise TypeError(
                f"problem is {shown(problem)}, expected one that declares its risk as an expression, such as "
                "convexrank.problems.PNormPush or a class derived from convexrank.Formulation."
            )
        keep_checked(self, check_positive, "tol")
        resolve(problem, self.solver)
        name = type(problem).__name__
        if not held_as(problem.X).built:
            raise ValueError(f"X is {shown(problem.X)}, expected an array or a sparse array in memory.")
        if "Convex" not in problem.capabilities or problem.penalty.ball is not None:
            raise ValueError(
                f"{name} with these arguments is not convex or has a ball; what holds here is known for convex risks "
                "with l2 and l1."
            )
        if "Proximal" not in problem.capabilities:
            raise ValueError(
                f"the risk of {name} with these arguments has kinks, and minimisers stay at kinks, so that they have "
                "no second derivatives; take a smooth loss, such as the squared hinge or the logistic loss, or a push "
                "with p < infinity."
            )
        if not problem._form.bends:
            raise ValueError(f"second derivatives of the risk of {name} with these arguments are not known.")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arguments."""
        problem, always = self.problem, ("X", "sample_weight", "l1", "l2")
        own = [field.name for field in fields(problem)]
        return tuple(name for name in own if name in always or type(getattr(problem, name)) is float)

    def __call__(self, **values: ArrayLike) -> Any:
        """Return the weights at other values of data and parameters.

        Parameters
        ----------
        **values : array
            By name: ``X`` of shape (n, d), ``sample_weight`` of shape (n,), all greater than 0, and numbers. Traced
            arrays are welcome. What is not passed is as in the problem.

        Returns
        -------
        JAX array, shape (d,)
            The weights, in float64 if the caller has enabled that, else in float32.

        Raises
        ------
        TypeError, ValueError
            For a name that is none of ``names``, a wrong shape, values that the formulation refuses, a solve that does
            not converge, and, where derivatives are taken, a minimiser without one. Inside ``jax.jit`` these arrive
            as errors of JAX that quote the message.
        """
        import jax.numpy as jnp

        unknown = sorted(set(values) - set(self.names))
        if unknown:
            raise TypeError(
                f"{unknown[0]} is no argument of the solution map, expected {', '.join(self.names)}."
            )
        kind, rows = jnp.result_type(float), self.problem.rows
        given = {name: _numbers(value, name, kind) for name, value in sorted(values.items())}
        for name, value in given.items():
            wanted = {"X": (rows, *value.shape[1:2]), "sample_weight": (rows,)}.get(name, ())
            if value.shape != wanted or (name == "X" and value.ndim != 2):
                shape = f"({rows}, d)" if name == "X" else wanted
                raise ValueError(f"{name} has shape {value.shape}, expected {shape}.")
        self._check_reading(frozenset(given) - {"X", "l1", "l2"})
        return self._rule(given)

    # --- numpy ----------------------------------------------------------------------------------------------------

    @cached_property
    def _last(self) -> list[tuple[dict[str, Array], AtMinimiser]]:
        """The last values and the minimiser there, which a solve and the systems after it ask for in turn."""
        return []

    def _at(self, values: Mapping[str, Any]) -> AtMinimiser:
        """The minimiser at values by name."""
        given = {name: np.array(value, dtype=np.float64) for name, value in values.items()}
        for held, found in self._last:
            same = held.keys() == given.keys()
            if same and all(np.array_equal(held[name], value) for name, value in given.items()):
                return found
        found = self._solved(given)
        self._last[:] = [(given, found)]
        return found

    def _solved(self, given: dict[str, Array]) -> AtMinimiser:
        weights = given.get("sample_weight")
        if weights is not None and (weights <= 0.0).any():  # the problem refuses NaN
            raise ValueError(
                f"sample_weight has {np.count_nonzero(weights <= 0.0)} entries that are not greater than 0; leave rows "
                "of weight 0 out of the problem, or give the problem these weights and pass none."
            )
        problem = self.problem.changed(
            **{name: value if value.ndim else float(value) for name, value in given.items()}
        )
        return AtMinimiser.of(problem, self.solver, self.tol)

    # --- JAX ------------------------------------------------------------------------------------------------------

    @cached_property
    def _rule(self) -> Any:
        """The minimiser as a function of values by name, with its derivative."""
        import jax

        rule = jax.custom_jvp(self._minimiser)
        rule.defjvp(self._moved)
        return rule

    def _minimiser(self, values: dict[str, Any]) -> Any:
        import jax
        import jax.numpy as jnp

        kind = jnp.result_type(float)
        if not _is_traced(values):
            return jnp.asarray(self._at(values).w, kind)
        size = values["X"].shape[1] if "X" in values else self.problem.dimension
        result = jax.ShapeDtypeStruct((size,), kind)
        return self._on_host(lambda found: found.w, result, values)

    def _on_host(self, function: Any, result: Any, values: dict[str, Any], *operands: Any) -> Any:
        """Compute something of the minimiser on the host."""
        from convexrank.backend.host_callback import call_on_host

        names = list(values)

        def run(*arrays: Array) -> tuple[Array]:
            given = dict(zip(names, arrays[: len(names)], strict=True))
            return (np.asarray(function(self._at(given), *arrays[len(names) :])),)

        return call_on_host(run, (result,), *values.values(), *operands, vmap_method="sequential")[0]

    def _moved(self, primals: Any, tangents: Any) -> tuple[Any, Any]:
        """The minimiser, and how it moves."""
        (values,), (changes,) = primals, tangents
        w = self._rule(values)
        if not _is_traced(values):
            self._at(values).check()
        return w, self._compiled_move(w, values, changes, self._held(values))

    @cached_property
    def _compiled_move(self) -> Any:
        """How the minimiser moves: one program, where an eager one would be compiled operation by operation."""
        import jax

        return jax.jit(self._move)

    def _move(self, w: Any, values: dict[str, Any], changes: dict[str, Any], held: dict[str, Any]) -> Any:
        """The weights that are free move so that the slope stays as it is; the others stay."""
        import jax
        import jax.numpy as jnp

        free = (w != 0.0) | (jnp.asarray(values["l1"] if "l1" in values else held["l1"]) <= 0.0)
        pull = jax.jvp(lambda given: self._slope(w, given, held), (values,), (changes,))[1]

        def hessian(u: Any) -> Any:
            moved = jnp.where(free, u, 0.0)
            bent = jax.jvp(lambda x: self._slope(x, values, held), (w,), (moved,))[1]
            return jnp.where(free, bent, u)

        def solve(_: Any, b: Any) -> Any:
            result = jax.ShapeDtypeStruct(b.shape, b.dtype)
            return self._on_host(lambda found, b: found.checked_solve(b), result, values, b)

        return jax.lax.custom_linear_solve(hessian, jnp.where(free, -pull, 0.0), solve, symmetric=True)

    def _slope(self, w: Any, values: dict[str, Any], held: dict[str, Any]) -> Any:
        """The slope of the objective in w at other values; ``held`` has the rest, as arguments and not as constants."""
        import jax
        import jax.numpy as jnp

        tree = held["tree"] if "tree" in held else self._tree_at(values)
        X, l2, l1 = (values[name] if name in values else held[name] for name in ("X", "l2", "l1"))
        risk = JaxRisk()
        pull = jax.grad(lambda w: risk(tree, X @ w))(w)
        return pull + l2 * w + l1 * jnp.sign(w)

    def _held(self, values: dict[str, Any]) -> dict[str, Any]:
        problem = self.problem
        found: dict[str, Any] = {name: getattr(problem, name) for name in ("l1", "l2") if name not in values}
        if "X" not in values:
            found["X"] = jax_matrix(problem.X)
        if set(values) <= {"X", "l1", "l2"}:
            found["tree"] = JaxRisk.prepare(problem.program.root)
        return found

    # --- weights of rows and parameters in the expression ---------------------------------------------------------

    def _tree_at(self, values: Mapping[str, Any]) -> Node:
        """The expression for JAX at other weights of rows and parameters."""
        names = frozenset(values) - {"X", "l1", "l2"}
        root, sources = self._recorded(names)
        JaxRisk.prepare(root)  # its nodes are known to JAX from now on
        return padded(root, traced([(sources[name], values[name]) for name in names]))

    def _recorded(self, names: frozenset[str]) -> tuple[Node, dict[str, Recorded]]:
        """The expression made of numbers that remember where they come from, and these."""
        base = self._based(names)
        sources = {name: recorded(getattr(base, name)) for name in names}
        twin = copy(base)
        vars(twin).clear()
        preset(twin, **{field.name: getattr(base, field.name) for field in fields(base)} | sources)
        return twin.risk(twin._groups), sources

    def _based(self, names: frozenset[str], by: float = 0.0) -> Any:
        """The problem whose weights of rows count all, with values that are larger by some factors."""
        values: dict[str, Any] = {
            name: getattr(self.problem, name) * (1.0 + by) for name in names - {"sample_weight"}
        }
        if "sample_weight" in names:
            values["sample_weight"] = 1.0 + by * (np.arange(self.problem.rows) % 7)
        return self.problem.changed(**values) if values else self.problem

    @cached_property
    def _read(self) -> set[frozenset[str]]:
        return set()

    def _check_reading(self, names: frozenset[str]) -> None:
        """Refuse names that enter the risk otherwise than by numbers that are recorded: their slope would be wrong.

        The expression that is read at other values is compared with the one that is made there.
        """
        if names in self._read or not names:
            return
        import jax

        other = self._based(names, _OTHER)
        with with_x64(), jax.ensure_compile_time_eval():
            wanted = jax.tree_util.tree_flatten(JaxRisk.prepare(other.program.root))
            found = jax.tree_util.tree_flatten(
                self._tree_at({name: np.asarray(getattr(other, name)) for name in names})
            )
            same = found[1] == wanted[1] and all(map(_are_close, found[0], wanted[0]))
        zero = [name for name in names - {"sample_weight"} if getattr(self.problem, name) == 0.0]
        if not same or zero:
            raise ValueError(
                f"the risk of {type(self.problem).__name__} has no derivative that is known in "
                f"{' and '.join(zero or sorted(names))}: it is not made of {'0' if zero else 'these numbers'} by sums, "
                "products and logarithms alone; leave it out, or compare solves at two values."
            )
        self._read.add(names)


def _are_close(one: Any, other: Any) -> bool:
    return np.shape(one) == np.shape(other) and np.allclose(
        one, other, rtol=_ROUNDING, atol=0.0, equal_nan=True
    )


def _numbers(value: ArrayLike, name: str, kind: Any) -> Any:
    """An array of JAX; what nothing of JAX is in yet is checked before JAX would drop or misname a part of it."""
    import jax

    known = any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value))
    return jax.numpy.asarray(value if known else check_real_array(value, name), kind)


def _is_traced(values: Mapping[str, Any]) -> bool:
    from jax.core import Tracer

    return any(isinstance(value, Tracer) for value in values.values())
