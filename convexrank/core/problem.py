"""Base class of problems: a formulation with its data, its dual, and the dual point of a solution."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np

from convexrank.backend.cached import cached_property, read_only
from convexrank.backend.interruption import import_module
from convexrank.core.capabilities import (
    Advice,
    Batched,
    Existence,
    F,
    Method,
    Modelled,
    Shape,
    Solvable,
    SolverLike,
    has_objective,
)
from convexrank.core.display import Displayed
from convexrank.core.loop import Options
from convexrank.core.paths import Path, path
from convexrank.core.results import Certificate, CertificateError, Solution, Status, Witness, found_at
from convexrank.core.solving import solve, usable
from convexrank.data import check_vector, refuse_edited
from convexrank.data.messages import not_installed, progress_as_verbose

__all__ = ["Problem"]

# Where the class is. As a solver it is imported when it is asked for: it draws random instances of the formulations.
_DUAL = "convexrank.problems.duals.ranking_dual:RankingDual"
# Ends at which the primal has no minimiser.
_NO_MINIMISER = frozenset({Status.SEPARABLE, Status.UNBOUNDED, Status.INFEASIBLE})


def dual_of(problem: Solvable, conjugate: Any) -> Any:
    """Return the dual of a problem.

    Parameters
    ----------
    problem : Problem
        The primal.
    conjugate : Conjugate or None
        The conjugate of its risk, where that is known.

    Raises
    ------
    ValueError
        When no conjugate of its risk is known; the message says which risks have one.
    """
    if conjugate is None:
        bare = "" if getattr(problem, "l2", 1.0) else " without l2"
        raise ValueError(
            f"this {type(problem).__name__} has no dual here: no conjugate of its risk is known{bare}, or that is a "
            "point, as of a linear risk. Duals have risks that are expressions of scores, such as those of PNormPush, "
            "TopPush and RankSVM, with the losses exponential, logistic, hinge and squared_hinge, and the "
            "PageRankGame."
        )
    module, name = _DUAL.split(":")
    return getattr(import_module(module), name)(problem)


def dual_solution(dual: Any, solution: Solution) -> Solution:
    """Return the dual point of a solution as a solution of the dual, with its own gap.

    Parameters
    ----------
    dual : RankingDual
        The dual.
    solution : Solution
        A solution of the primal.

    Raises
    ------
    ValueError
        When the primal has no minimiser.
    """
    if solution.status in _NO_MINIMISER:
        raise ValueError(
            f"the status of this solution is {solution.status.name}, so that no weights of rows belong to it; add "
            "l2 or l1."
        )
    x, witness = dual.at(solution), Witness(solution.x[None, :], np.ones(1))
    certificate = dual.certificate(x, witness)
    message = f"the dual point of a solution of the primal ({certificate})"
    found = found_at(x, certificate, solution.status, message, 0.0, dual, type(dual).__name__)
    return replace(found, trace={}, solver=solution.solver, witness=witness)


Array = np.ndarray

# The members that every class has to state, with their meaning.
_ASKED = {
    "capabilities": "a frozenset of names of protocols, such as {'Smooth', 'Exact'}",
    "default_solver": "the name of a solver that fits, such as 'lbfgs'",
}


class Problem(Displayed):
    """A formulation with its data, immutable. Subclasses are frozen dataclasses that state their capabilities.

    Arrays of a problem are read-only. Vectors are copied; a matrix such as X that has the right type is not copied,
    because it may fill the memory. Do not edit it while the problem is in use: a solve and a certificate compare a few
    thousand of its entries with those at the start, and raise an error if one has changed.

    A capability is offered when the class has its methods *and* names it in ``capabilities``, which may depend on the
    instance: a push with the hinge loss is convex but not smooth.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> sorted(problem.capabilities)
    ['Certified', 'Convex', 'Coordinates', 'Exact', 'HessianProducts', 'JaxCurved', 'JaxObjective',
     'JaxProximal', 'Proximal', 'Sampled', 'Smooth', 'TwiceDifferentiable']
    """

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what follows from the rest: it takes room, and JAX reads arrays back in its own precision.

        So are devices, which another process may not have.
        """
        return {
            name: value
            for name, value in self.__dict__.items()
            if name != "_home" and not isinstance(getattr(type(self), name, None), cached_property)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a copy; copies of arrays can be written to, and those of a problem cannot."""
        self.__dict__.update({name: read_only(value) for name, value in state.items()})

    #: Names of the protocols of :mod:`convexrank.core.capabilities` that this instance fulfils.
    capabilities: frozenset[str]

    @property
    def dimension(self) -> int:
        """Number of unknowns."""
        raise self._unstated("dimension", "the number of unknowns")

    #: Number of examples; 0 where there are none.
    rows = 0

    #: A second statement of the formula by plain loops, which ``verify`` compares: the risk at scores of all rows for
    #: problems with linear scores, else the objective at a point (without one the violation, or the distance to the
    #: image).
    definition: ClassVar[Callable[..., float] | None] = None

    #: Why a class states none; the verifier reports it.
    _without_definition: ClassVar[str] = (
        "what was compared states one formula; write definition(scores), or definition(x), to check that it is yours"
    )

    def _modelled(self) -> Modelled:
        return Modelled()

    def _shape(self) -> Shape:
        return Shape(np.ones(self.dimension))

    def start(self) -> Array:
        """Return the point at which solvers start by default."""
        return np.zeros(self.dimension)

    def check_point(self, x: Any, name: str = "x") -> Array:
        """Return x as an array of the right shape; for a Solution its point."""
        return check_vector(x.x if isinstance(x, Solution) else x, self.dimension, name, each="unknown")

    #: Refuse to go on where a matrix that the caller handed in was edited in place.
    _refuse_edited = refuse_edited

    def project_feasible(self, x: Array) -> Array:
        """Return a feasible point near x; conic solvers violate constraints by their tolerance."""
        return x

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of constraints and of terms that are not smooth: v where there are none."""
        return v

    #: Name of the solver used when none is asked for.
    default_solver: str

    def _advice(self) -> Advice:
        return Advice(self._adapted, self._default_reason, self._remark)

    def _adapted(self, solver: Method, options: Options | None) -> Method:
        """Return the solver to run for a given one; another solver if solvers step in other variables than x.

        With options, of a solve that begins, refuse what processes that solve the problem together are asked
        differently.
        """
        return solver

    def _default_reason(self) -> str:
        """Return why the default solver is the default, for messages."""
        return ""

    def _remark(self, solution: Solution) -> str:
        """Return a remark on an answer that met the tolerance, such as that it is trivial."""
        return ""

    def objective(self, w: Any) -> float:
        """Evaluate the objective; fixed points, fields and feasibility problems have none."""
        if has_objective(self):
            raise self._unstated("objective(w)", "the value at w")
        raise ValueError(
            f"this {type(self).__name__} has no objective; ask certificate(x) how far x is from the answer."
        )

    if not TYPE_CHECKING:  # the type checker takes a class with this method to have every member

        def __getattr__(self, name: str) -> Any:
            if hasattr(
                type(self), name
            ):  # a property that failed, whose own error names the member that lacks
                return object.__getattribute__(self, name)
            if name in _ASKED:
                raise self._unstated(name, _ASKED[name])
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _unstated(self, member: str, meaning: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has to state {member}: {meaning}.")

    def prove(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Prove a bound on the error at x: in ball arithmetic, from the data and x as exact rational numbers.

        Parameters
        ----------
        x : array or Solution
            The point.
        witness : Witness, optional
            Evidence for a risk with kinks; that of a Solution by default.

        Returns
        -------
        Certificate
            A certificate with ``proved=True``; its ``interval`` contains value − optimum, or the distance to the
            solution.

        Raises
        ------
        CertificateError
            When nothing can be proved; the message says why.
        ImportError
            When python-flint is not installed (the extra ``proof``).
        """
        raise CertificateError(f"{type(self).__name__} {self._no_proof}, so that nothing is proved about it.")

    #: Why nothing is proved, where there is no :meth:`prove` of its own.
    _no_proof = "has no form in balls"

    def export(self, x: Any, path: Any, witness: Witness | None = None) -> Any:
        """Write the proof of :meth:`prove` at x as a folder of plain files; see :func:`convexrank.proof.export.export`.

        Parameters
        ----------
        x : array or Solution
            The point.
        path : path
            The folder.
        witness : Witness, optional
            As for :meth:`prove`.

        Returns
        -------
        Path
            The folder, which ``convexrank check PATH`` checks with an independent program.

        Raises
        ------
        CertificateError
            When nothing can be proved, or the checking program does not support the formulation.
        """
        point, given = (
            self.check_point(x),
            Witness.of(x, witness),
        )
        given = self._as_tangents(point, given)
        proof = self.prove(point, given)
        from convexrank.proof.export import export

        return export(self, point, proof, path, given)

    def _as_tangents(self, x: Array, witness: Witness | None) -> Witness | None:
        """Return evidence of subgradients alone, which is what the checking program reads."""
        return witness

    def _existence(self) -> Existence:
        return Existence(self._terminal_status, self._may_lack_minimiser, self._prove_nonexistence)

    def _terminal_status(self, w: Array) -> Status | None:
        """Recognise at w that no minimiser exists (separable data, unbounded objective); None otherwise."""
        return None

    def _may_lack_minimiser(self, w: Array) -> bool:
        """Return whether a converged point is reason to ask ``_prove_nonexistence`` all the same."""
        return False

    def _prove_nonexistence(self) -> tuple[Status, Array, str] | None:
        """Explain, after a solve that did not converge, why no minimiser exists: status, direction, detail."""
        return None

    def face(self, kind: type[F]) -> F:
        """Return what one family of methods asks of this problem; see :class:`convexrank.core.capabilities.Face`."""
        return getattr(self, kind.maker)()

    def changed(self, **values: Any) -> Self:
        """Return the same problem with other parameters, such as ``l1=0.1``.

        Parameters
        ----------
        **values
            Fields of the class, with their new values.
        """
        return replace(cast(Any, self), **values)

    def _batched(self) -> Batched:
        return Batched(lambda sample_weight, l2: None)

    #: The conjugate of the risk, where :meth:`dual` is known.
    _conjugate: Any = None

    def dual(self) -> Any:
        """Return the dual, a problem of its own; see :class:`convexrank.problems.RankingDual`.

        Raises
        ------
        ValueError
            When the formulation, its loss or its price has no conjugate that is known here.
        """
        return dual_of(self, self._conjugate)

    def _dual_solution(self, solution: Solution) -> Solution:
        """Return the dual point of a solution of this problem, with its own gap; see :attr:`Solution.dual`."""
        return dual_solution(dual_of(self, self._conjugate), solution)

    def path(self, **options: Any) -> Path:
        """Solve along l1, l2 or p, with warm starts; see :func:`convexrank.path`, which takes the same options.

        Returns
        -------
        Path
            Values and solutions with their gaps; methods ``plot``, ``best`` and ``to_frame``.
        """
        return path(self, **options)

    @progress_as_verbose
    def solve(
        self,
        solver: SolverLike = None,
        *,
        tol: float = 1e-8,
        max_iter: int | None = None,
        time_limit: float | None = None,
        x0: Any = None,
        callback: Callable[[Any], Any] | None = None,
        verbose: bool = False,
        stop: str | None = None,
        checkpoint: Any = None,
        every: int | None = None,
        device: Any = None,
        constraints: Callable[[Any], Any] | None = None,
    ) -> Solution:
        """Solve, fast by default, exactly with ``solver="exact"``.

        Parameters
        ----------
        solver : None, str, solver object or callable
            None takes the default for the problem; a name is one of ``solvers.available(problem)``, or
            ``"exact:SCS"`` to pick the conic solver. An algorithm of your own is a function that takes the problem and
            returns a point (an array, scipy's OptimizeResult or a Solution); it has converged if the certificate of
            that point meets ``tol``, and takes no other option.
        tol : float
            Tolerance: the solve has converged when certified gap ≤ tol · max(1, \\|value\\|). If the certificate bounds
            a distance to the solution or a violation, tol is absolute: the true error is at most tol.
        max_iter : int, optional
            Largest number of iterations; each solver has its own default.
        time_limit : float, optional
            Largest number of seconds. A certificate may take .15 s or 5 % more, and a step over all rows that has begun
            is not interrupted: some tenths of a second for a million rows. Nor are compilation, and the preparation of
            a model by cvxpy for ``exact``.
        x0 : array or Solution, optional
            Starting point (warm start). Where the objective is not finite there, the solve begins at the default
            start, and the message says so.
        callback : callable, optional
            A function that is called with the state after each iteration (``state.x``, ``state.value``,
            ``state.iteration``); if it returns True, the solve stops with status INTERRUPTED.
        verbose : bool
            Whether to show a progress bar.
        stop : str, optional
            ``"top-10"``, or with another number: the solve also ends when the order of the first ten is proved,
            whatever the gap is. If ties prevent this, the tolerance decides, and the message states it. For
            :class:`~convexrank.problems.PageRank` and :class:`~convexrank.problems.LpqRank`.
        checkpoint : path, optional
            File for the best point so far, which is replaced at each checkpoint; ``x0=Solution.load(path)`` continues
            from it. The memory of a method beside its point, such as curvature, is not kept.
        every : int, optional
            Number of iterations between two checkpoints; 10 by default.
        device : str, jax.Device or jax.sharding.Mesh, optional
            Where a compiled solver runs, with its data: ``"gpu"``, ``"cpu"``, ``"gpu:1"``, a device of JAX, or a mesh
            whose devices share the rows. Without ``solver`` that is the first of ``jax-newton``, ``jax-accelerated``,
            ``jax-continuation`` and ``jax-no-regret-play`` that fits. By default where X lies, if that is a JAX array
            on another device than the CPU, or on several, and one of them fits; elsewhere the default solver runs in
            numpy, which is faster on a CPU.
        constraints : callable, optional
            Constraints of your own on the weights of a convex problem with linear scores, for ``solver="exact"``, which
            is then the default: a function that takes the cvxpy variable of the weights, shape (d,), and returns a list
            of constraints made by ``<=``, ``>=`` or ``==``. The certificate, of kind "constrained", bounds
            value − minimum under the constraints, and their violation.

        Returns
        -------
        Solution
            The point, its certificate, and how it was found.

        Raises
        ------
        ValueError, TypeError
            For an unknown solver, one that does not fit the problem, or options out of range; when a matrix that the
            problem holds was edited in place; when JAX has no such device, or the solver runs on none; for constraints
            that are not convex by cvxpy's rules, are not on the weights alone, or go to another solver than the exact.
        MemoryError
            When the data do not fit the device, with the bytes needed; the problem is as it was.
        KeyboardInterrupt
            When Ctrl-C is pressed twice, or inside another solve, a fit or a search. Pressed once, it ends the solve at
            its next step: the best point so far is returned with status INTERRUPTED, and the program goes on.

        Warns
        -----
        ConvergenceWarning
            When the status is not CONVERGED, or the problem has a remark on the answer (see ``solution.message``).

        Examples
        --------
        Of two features, the second may not have a negative weight, and the weights have at most length 1:

        >>> import cvxpy as cp
        >>> import convexrank as cr
        >>> X = [[1.0, 0.2], [2.0, -0.1], [1.5, 0.3], [0.0, 0.4]]
        >>> problem = cr.problems.PNormPush(X, [1, 1, 0, 0], p=4, l2=0.1)
        >>> print(*problem.solve().x.round(3))
        0.169 -2.073
        >>> solution = problem.solve("exact", constraints=lambda w: [w[1] >= 0, cp.norm(w) <= 1])
        >>> print(*solution.x.round(3) + 0.0)
        0.387 0.0
        """
        self._refuse_edited()
        if self._home is not None and device is None and solver is None and constraints is None:
            device = usable(self, self._home)
        options: dict[str, Any] = {
            "tol": tol,
            "max_iter": max_iter,
            "x0": x0,
            "callback": callback,
            "verbose": verbose,
            "stop": stop,
            "checkpoint": checkpoint,
            "every": every,
            "device": device,
            "constraints": constraints,
        }
        try:
            if time_limit is None and not self._over_processes:
                return solve(self, solver, time_limit=None, **options)
            with self._timed(time_limit) as seconds:
                return solve(self, solver, time_limit=seconds, **options)
        except ModuleNotFoundError as error:
            raise not_installed(error) from error

    # the device or mesh on which the caller's arrays lie, where that is not the first CPU
    _home: Any = None

    # whether Ctrl-C in one process is to end a solve in others
    _over_processes = False

    def _timed(self, seconds: float | None) -> AbstractContextManager[float | None]:
        """Context of a solve that may take so many seconds; gives those that the solver has to look after itself."""
        return nullcontext(seconds)
