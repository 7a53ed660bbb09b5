"""Solutions along a parameter: warm starts, a certificate at each value, and the choice of one by a metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.backend.design import held_as
from convexrank.backend.interruption import as_a_whole
from convexrank.backend.progress import progress_bar
from convexrank.core.capabilities import Method, Solvable, SolverLike
from convexrank.core.display import draw
from convexrank.core.results import ConvergenceWarning, Solution, Status
from convexrank.core.solving import resolve
from convexrank.data import check_flag, check_integer, check_nonnegative, check_positive, check_vector, shown
from convexrank.data.display import html_table, number_text, sparkline
from convexrank.data.messages import progress_as_verbose
from convexrank.data.nodes import pandas

Array = np.ndarray

# Parameters that a path may follow; strengths and shares of the rows fall along it.
_STRENGTHS = ("l1", "l2")
_SHARES = ("max_fpr", "tau", "spectrum")
_PARAMETERS = (*_STRENGTHS, "p", "alpha", *_SHARES)
# Where the figure is, which is imported when it is drawn.
_FIGURE = "plotting.convergence:weights_and_gaps"
# No minimiser exists from here on.
_MOST_VALUES = 1_000_000
_ENDS = frozenset({Status.SEPARABLE, Status.UNBOUNDED})


class SolutionSequence:
    """A sequence of solutions of related problems."""

    solutions: Sequence[Solution]

    def __len__(self) -> int:
        return len(self.solutions)

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)

    def __getitem__(self, place: int) -> Solution:
        return self.solutions[place]

    @property
    def coefficients(self) -> Array:
        """The weights, or the ranks of a graph, shape (m, d)."""
        return np.array([solution.x for solution in self.solutions])

    @property
    def gaps(self) -> Array:
        """The certified gaps, shape (m,)."""
        return np.array([solution.gap for solution in self.solutions])


@dataclass(frozen=True, eq=False)
class Path(SolutionSequence):
    """Solutions of one problem along one parameter.

    Parameters
    ----------
    parameter : str
        ``"l1"``, ``"l2"``, ``"p"``, ``"alpha"``, ``"max_fpr"``, ``"tau"`` or ``"spectrum"``.
    values : ndarray, shape (m,)
        The values of the parameter, in the order in which they were solved.
    solutions : tuple of Solution
        The solution for each value.
    metric : ndarray, shape (m,), or None
        The validation metric for each value; None without a metric.
    stopped : str
        The reason for which the path ends before the last requested value; empty if it is complete.
    columns_left : ndarray of int, shape (m,), or None
        Number of columns at which ``working-sets`` looked in the end: those that the gap had not proved to be 0.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(80, 30)), np.arange(80) % 2
    >>> X[:, 0] += y
    >>> path = cr.path(cr.problems.PNormPush(X, y, p=2, l1=1.0), l1="auto", n=5, ratio=0.5)
    >>> [int(count) for count in path.counts]
    [0, 1, 1, 1, 1]
    >>> path
    Path: l1 from 1.443 to 0.7213, 5 solutions, gaps up to 1e-10
    """

    parameter: str
    values: Array
    solutions: tuple[Solution, ...] = field(repr=False)
    metric: Array | None = field(default=None, repr=False)
    stopped: str = ""
    columns_left: Array | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        ends = f"{number_text(self.values[0])} to {number_text(self.values[-1])}"
        stopped = f", stopped at {self.stopped}" if self.stopped else ""
        return f"Path: {self.parameter} from {ends}, {len(self)} solutions, gaps up to {self.gaps.max():.1g}{stopped}"

    def _repr_html_(self) -> str:
        shown_at = np.unique(np.linspace(0, len(self) - 1, min(len(self), 12)).astype(int))
        head = [
            self.parameter,
            "value",
            "gap",
            "status",
            "weights",
            *(["metric"] * (self.metric is not None)),
        ]
        rows = [
            [
                number_text(self.values[place]),
                number_text(self[place].value, 6),
                f"{self[place].gap:.1g}",
                self[place].status.name,
                self.counts[place],
                *([] if self.metric is None else [number_text(self.metric[place])]),
            ]
            for place in shown_at
        ]
        watched, label = (self.gaps, "gap") if self.metric is None else (self.metric, "metric")
        drawn = sparkline(watched, f"{label} along the path", logarithmic=self.metric is None)
        return html_table(repr(self), rows, head, drawn)

    @property
    def counts(self) -> Array:
        """Number of weights that are not 0, shape (m,)."""
        return np.array([np.count_nonzero(solution.x) for solution in self.solutions])

    def scores(self, X: Any) -> Array:
        """Return the scores of rows by every solution, shape (m, n).

        Parameters
        ----------
        X : matrix, design or table, shape (n, ...)
            The rows; if X of the problem is a design, also a table that its ``transform`` takes.
        """
        own = self.solutions[0].instance
        if own is not None and not held_as(getattr(own, "X", None)).built and held_as(X).built:
            X = own.X.transform(X)  # type: ignore[attr-defined]  # all of ours have it
        return np.array([np.asarray(X @ solution.x) for solution in self.solutions])

    def best(
        self, metric: Callable[..., float] | None = None, X: Any = None, y: Any = None, qid: Any = None
    ) -> Solution:
        """Return the solution with the largest metric; among equal ones the first, which has the strongest penalty.

        Parameters
        ----------
        metric : callable, optional
            A function ``metric(y, scores)``, or ``metric(y, scores, qid)`` with queries; larger is better. By
            default the metric that was computed along the path.
        X, y, qid : optional
            Validation rows, which should not be rows of the fit.

        Raises
        ------
        ValueError
            When there is no metric, neither as an argument nor along the path, or rows are missing.
        """
        if metric is None:
            if self.metric is None:
                raise ValueError("no metric was watched along this path; give metric, X and y.")
            return self.solutions[int(np.nanargmax(self.metric))]
        if X is None or y is None:
            raise ValueError("metric needs rows to judge by: give X and y.")
        found = [_measured(metric, y, scores, qid) for scores in self.scores(X)]
        return self.solutions[int(np.nanargmax(found))]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per value: objective, gap, kind of bound, weights, columns left."""
        columns: dict[str, Any] = {
            self.parameter: self.values,
            "value": [solution.value for solution in self.solutions],
            "gap": self.gaps,
            "kind": [solution.certificate.kind for solution in self.solutions],
            "status": [solution.status.name for solution in self.solutions],
            "weights": self.counts,
            "seconds": [solution.seconds for solution in self.solutions],
        }
        if self.columns_left is not None:
            columns["columns left"] = self.columns_left
        if self.metric is not None:
            columns["metric"] = self.metric
        return pandas().DataFrame(columns)

    def plot(self, ax: Any = None, most: int = 20) -> Any:
        """Draw the largest weights, the certified gap and the metric against the parameter.

        Parameters
        ----------
        ax : sequence of Axes, optional
            Two Axes, or three with a metric; by default a new figure.
        most : int
            Largest number of weights to draw: those with the largest absolute values along the path.

        Returns
        -------
        ndarray of Axes
            The Axes with the figure.
        """
        return draw(_FIGURE, self, ax=ax, most=most)


@progress_as_verbose
@as_a_whole
def path(
    problem: Solvable,
    *,
    l1: Any = None,
    l2: Any = None,
    p: Any = None,
    alpha: Any = None,
    max_fpr: Any = None,
    tau: Any = None,
    spectrum: Any = None,
    n: int = 100,
    ratio: float = 1e-2,
    solver: SolverLike = None,
    tol: float = 1e-6,
    max_iter: int | None = None,
    metric: Callable[..., float] | None = None,
    validation: tuple[Any, ...] | None = None,
    patience: int = 10,
    verbose: bool = False,
) -> Path:
    r"""Solve a problem for several values of a parameter, each value from the previous solution.

    Along the path strengths and shares decrease, and p and α increase, so that each problem is a little harder than
    the previous one. Every solution has its own certificate. The path ends at the first value without a minimiser,
    with a reason.

    Parameters
    ----------
    problem : Problem
        The problem; its own value of the parameter is not used.
    l1, l2, p, alpha, max_fpr, tau, spectrum : sequence of float or "auto"
        The values of exactly one parameter. Ranks of a graph have the parameter alpha, the probability of following a
        link; max_fpr, tau and spectrum are shares of the rows that count, of spectra also numbers of rows. For l1,
        ``"auto"`` means n values in geometric progression from :math:`\lambda_{\max}` (``problem.l1_max()``), for which
        all weights are 0, down to ratio times that value.
    n : int
        Number of values with ``"auto"``.
    ratio : float
        The smallest strength divided by the largest with ``"auto"``, below 1.
    solver, tol, max_iter : optional
        As for :meth:`convexrank.Problem.solve`.
    metric : callable, optional
        A function ``metric(y, scores)``, or ``metric(y, scores, qid)``, evaluated along the path; larger is better.
    validation : tuple, optional
        The validation rows for the metric, (X, y) or (X, y, qid).
    patience : int
        The path ends after this number of values without a better metric.
    verbose : bool
        Whether to show a progress bar.

    Returns
    -------
    Path
        Values, solutions, the metric, and the reason if the path ended early.

    Raises
    ------
    ValueError, TypeError
        When not exactly one parameter is given, the problem has no such parameter, values are out of range, or metric
        and validation do not come together.
    KeyboardInterrupt
        When Ctrl-C is pressed, at the next step of a solve.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> path = cr.path(problem, p=[1, 4, 16])
    >>> path.values.tolist(), [round(float(w[0]), 3) for w in path.coefficients]
    ([1.0, 4.0, 16.0], [0.912, 0.386, 0.141])
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> sweep = cr.path(cr.problems.PageRank(graph), alpha=[0.1, 0.5, 0.9])
    >>> sweep.coefficients[:, 3].round(3).tolist()
    [0.225, 0.125, 0.025]
    """
    given = {"l1": l1, "l2": l2, "p": p, "alpha": alpha, "max_fpr": max_fpr, "tau": tau, "spectrum": spectrum}
    name, values = _values_of(problem, given, n, ratio)
    check_positive(tol, "tol")
    check_integer(patience, "patience", 1)
    if (metric is None) != (validation is None):
        raise ValueError("metric and validation belong together: give both, or neither.")
    if metric is not None and not hasattr(problem, "X"):
        raise ValueError(
            f"metric judges scores of rows, and {type(problem).__name__} has none; leave it out."
        )
    solutions: list[Solution] = []
    watched: list[float] = []
    stopped, start, carried = "", None, _Carried()
    # what the last value is refused for, such as no penalty over a design, is refused before anything is solved
    problem.changed(**{name: values[-1].item()})
    for value in progress_bar(check_flag(verbose, "verbose"), what=name, over=values):
        problem = problem.changed(
            **{name: value.item()}
        )  # from the last one, which knows what follows from X
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            # the status of each point is in the path
            method = carried.along(problem, solver, name)
            solution = problem.solve(method, tol=tol, max_iter=max_iter, x0=start)
        carried.count(problem, method)
        if solution.status in _ENDS:
            stopped = f"{name} = {value:g}: {solution.message}"
            break
        solutions.append(solution)
        start = carried.next_start(solution)
        if metric is not None and validation is not None:
            scores = Path(name, values[:1], (solution,)).scores(validation[0])[0]
            watched.append(_measured(metric, validation[1], scores, *validation[2:]))
            if len(watched) - 1 - int(np.nanargmax(watched)) >= patience:
                stopped = f"{name} = {value:g}: no better metric for {patience} values"
                break
    if not solutions:
        raise ValueError(f"the path has no point: already at {stopped}.")
    found = np.array(watched) if metric is not None else None
    left = np.array(carried.left[: len(solutions)]) if carried.screens else None
    return Path(name, values[: len(solutions)], tuple(solutions), found, stopped, left)


class _Carried:
    """The solver of a path, where it is one that remembers the value before, and how many columns it looked at."""

    def __init__(self) -> None:
        self.solver: Any = None
        self.left: list[int] = []

    def along(self, problem: Solvable, solver: SolverLike, parameter: str) -> Any:
        """Return what solves the next value."""
        made = resolve(problem, solver)
        # a method that remembers the problem before, where problems differ in one parameter alone: its solver for such
        # problems says by next_start(solution) where the next solve starts, and has in columns_left the least number of
        # columns that were looked at, for each problem; None for a method that always looks at all
        along_path = getattr(made, "along_path", None)
        if along_path is None:
            return solver
        self.solver = self.solver or along_path(parameter)
        return solver if self.solver is None or self.solver.name != made.name else self.solver

    @property
    def screens(self) -> bool:
        """Whether the solver of the path does not look at all columns."""
        return self.solver is not None and self.solver.columns_left is not None

    def next_start(self, solution: Solution) -> Array:
        """Return where the next solve starts."""
        return solution.x if self.solver is None else self.solver.next_start(solution)

    def count(self, problem: Solvable, method: Method) -> None:
        """Note how many columns screening left at the value that was just solved."""
        screened = method is self.solver and self.screens
        self.left.append(self.solver.columns_left[-1] if screened else problem.dimension)


def _measured(metric: Callable[..., float], y: Any, scores: Array, qid: Any = None) -> float:
    return float(metric(y, scores) if qid is None else metric(y, scores, qid))


def _values_of(problem: Any, given: dict[str, Any], n: int, ratio: float) -> tuple[str, Array]:
    """Name the parameter and list its values."""
    if not hasattr(problem, "changed"):
        raise TypeError(f"problem is {shown(problem)}, expected an instance of a problem.")
    named = [name for name, values in given.items() if values is not None]
    if len(named) != 1:
        raise ValueError(
            f"a path follows one parameter; given {named or 'none'}, expected one of {list(_PARAMETERS)}."
        )
    (name,) = named
    if not hasattr(problem, name):
        raise ValueError(f"{type(problem).__name__} has no parameter {name} that a path could follow.")
    values = given[name]
    if isinstance(values, str):
        if values != "auto" or name != "l1":
            raise ValueError(
                f"{name} is {shown(values)}, expected values{', or auto' if name == 'l1' else ''}."
            )
        share = check_positive(ratio, "ratio")
        if not share < 1.0:
            raise ValueError(f"ratio is {ratio}, expected a number below 1.")
        top = problem.l1_max()
        if not top > 0.0:
            raise ValueError(
                "all weights are 0 for every l1: the gradient at 0 is 0, so that there is no path; "
                "X has to tell the labels apart."
            )
        if check_integer(n, "n", 1) > _MOST_VALUES:
            raise ValueError(f"n is {n}, expected at most {_MOST_VALUES} values of a path.")
        return name, np.geomspace(top, share * top, n)
    counts = name == "spectrum" and np.asarray(values).dtype.kind in "iu"  # of rows, in the place of shares
    found = np.asarray(values) if counts else check_vector(values, None, name)
    for value in found.ravel():
        (check_nonnegative if name in (*_STRENGTHS, "alpha") else check_positive)(float(value), name)
    if not len(found):
        raise ValueError(f"{name} is empty, expected at least one value.")
    ordered = np.unique(found)
    return name, ordered[::-1] if name in _STRENGTHS + _SHARES else ordered
