"""Scores over a design as sums of functions of the features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.backend.design import by_columns, held_as, one_column
from convexrank.core.results import Solution, check_solution, problem_of
from convexrank.data import check_integer, check_matrix, check_vector, shown
from convexrank.data.frames import has_other_columns
from convexrank.features._levels import read_columns
from convexrank.features._shape_terms import Slope, StepFunction, Surface, Tables, terms_of
from convexrank.features.score_cards import frame_of, score_card_of, sql_of

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Shapes:
    r"""A score as a sum of functions, :math:`f(x) = c + \sum_j f_j(x_j) + \sum_{jk} f_{jk}(x_j, x_k)`.

    The mean of each function over the rows of the design is 0; the means that were subtracted are in c.

    Parameters
    ----------
    functions : tuple of StepFunction
        One for each feature of each :class:`Thresholds`, with ``name``, ``breaks``, ``values`` (one more than breaks),
        ``missing`` (the value where the feature is absent), ``categories`` (the value of each), ``constant`` and
        ``variation``.
    surfaces : tuple of Surface
        One for each pair of each :class:`Products`, with ``first.cuts``, ``second.cuts`` and ``values``.
    slopes : tuple of Slope
        One for each raw column in :class:`Stacked`.
    tables : tuple
        For each part of the design, the names of its features and whether it is a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.array([[1.0, 7.0], [2.0, 8.0], [3.0, 9.0], [4.0, 8.0]])
    >>> design = cr.features.Thresholds(X)
    >>> found = cr.shapes([0.0, 3.0, 0.0, 0.0, -1.0], design)
    >>> first, second = found.functions
    >>> first.breaks.tolist(), first.values.tolist(), found.importance
    ([2.0], [-1.5, 1.5], {'x0': 3.0, 'x1': 1.0})
    >>> found([[3.0, 7.0], [0.0, 20.0]]).tolist(), found.constant
    ([1.75, -2.25], 1.25)
    """

    functions: tuple[StepFunction, ...]
    surfaces: tuple[Surface, ...]
    slopes: tuple[Slope, ...]
    tables: Tables = field(repr=False)

    @property
    def terms(self) -> tuple[StepFunction | Surface | Slope, ...]:
        """All functions, surfaces and slopes that are not 0, the largest variation first."""
        found = [term for term in (*self.functions, *self.surfaces, *self.slopes) if not term.flat]
        return tuple(sorted(found, key=lambda term: term.variation, reverse=True))

    @property
    def constant(self) -> float:
        """The sum of the means that were subtracted: the mean score of the rows of the design."""
        return float(sum(term.constant for term in self.terms))

    @property
    def importance(self) -> dict[str, float]:
        """Total variation by feature or pair, largest first: the l1 norm of its weights; for a line its rise."""
        found: dict[str, float] = {}
        for term in self.terms:
            found[term.name] = found.get(term.name, 0.0) + term.variation
        return dict(sorted(found.items(), key=lambda item: item[1], reverse=True))

    def __call__(self, X: Any) -> Array:
        """Return the scores of rows without the constant; :meth:`predict` has the arguments."""
        tables = self._read(X)
        scores = np.zeros(tables[0].shape[0])
        for term in (*self.functions, *self.surfaces):
            if term.flat:
                continue
            columns = term.columns if isinstance(term, Surface) else (term.column,)
            scores += term(*(tables[term.part][:, column] for column in columns))
        for part, (names, raw) in enumerate(self.tables):
            if raw:
                own = [slope for slope in self.slopes if slope.part == part]
                weights, means = np.zeros(len(names)), np.zeros(len(names))
                for slope in own:
                    weights[slope.column], means[slope.column] = slope.value, slope.mean
                scores += tables[part] @ weights - means @ weights
        return scores

    def contributions(self, X: Any) -> dict[str, Array]:
        """Return what each feature or pair adds to the scores of rows beside the constant, largest variation first.

        Parameters
        ----------
        X : array or data frame, shape (k, d)
            The rows, as :meth:`predict` takes them.

        Returns
        -------
        dict of str to ndarray, shape (k,)
            The terms by name; their sum and the constant are the scores.
        """
        tables, found = list(map(by_columns, self._read(X))), {}
        for term in self.terms:
            places = term.columns if isinstance(term, Surface) else (term.column,)
            added = term(*(one_column(tables[term.part], place) for place in places))
            found[term.name] = found.get(term.name, 0.0) + added
        return found

    def predict(self, X: Any) -> Array:
        """Return the scores of rows, shape (k,): the columns of the design for these rows, times the weights.

        Parameters
        ----------
        X : array or data frame, shape (k, d)
            The features, in the same columns as in the design. If the parts of :class:`Stacked` were made of different
            tables, pass a tuple with one table for each part.

        Returns
        -------
        ndarray, shape (k,)
            The scores.

        Raises
        ------
        ValueError, TypeError
            When a table has other columns than the design, or NaN in a feature with weights that had no NaN.
        """
        return self(X) + self.constant

    def _read(self, X: Any) -> list[Any]:
        several = isinstance(X, tuple) and len(self.tables) > 1
        given = X if several else (X,) * len(self.tables)
        if len(given) != len(self.tables):
            raise ValueError(f"X has {len(given)} tables, expected {len(self.tables)}, one for each part.")
        read = []
        for part, ((names, raw), table) in enumerate(zip(self.tables, given, strict=True)):
            if not raw:
                own = [f for f in self.functions if f.part == part]
                words = {f.column: f.levels.read_as for f in own if f.levels.read_as}
                if own and has_other_columns(table):  # a card reads no column that it leaves out
                    words |= dict.fromkeys(set(range(len(names))) - {f.column for f in own}, ())
                read.append(read_columns(table, names, words=words)[0])
                continue
            read.append(check_matrix(table))
            if read[-1].shape[1] != len(names):
                raise ValueError(
                    f"X has {read[-1].shape[1]} columns, expected {len(names)}, one for each slope; where the parts "
                    "were made of different tables, pass a tuple of tables."
                )
        if len({table.shape[0] for table in read}) > 1:
            raise ValueError(
                f"X has tables of {[table.shape[0] for table in read]} rows, expected the same number in each."
            )
        return read

    def to_frame(self) -> Any:
        """Return the functions as a tidy table: one row for each piece of each function that is not 0.

        Returns
        -------
        pandas.DataFrame
            Columns ``term``, ``feature``, ``kind`` ("interval", "category", "other", "missing" or "slope"), ``low``,
            ``high`` (low < value ≤ high), the same for a second feature, ``value`` (for a line its slope), and
            ``rows``, the number of rows in the piece.

        Raises
        ------
        ImportError
            When pandas is not installed.
        """
        return frame_of(self.terms)

    def to_sql(self, table: str | None = None) -> str:
        """Return :meth:`predict` as an SQL expression or query; a missing value is NULL.

        The score is NULL if a feature is NULL that had no missing value in the design.

        Parameters
        ----------
        table : str, optional
            Name of the table whose columns are the features; by default only the expression is returned.

        Returns
        -------
        str
            ``SELECT … AS score FROM table``, or the expression.

        Examples
        --------
        >>> import numpy as np
        >>> import convexrank as cr
        >>> design = cr.features.Thresholds(np.array([[1.0], [2.0]]))
        >>> print(cr.shapes([3.0], design).to_sql())
        1.5
        + CASE WHEN "x0" IS NULL THEN NULL WHEN "x0" <= 1.0 THEN -1.5 ELSE 1.5 END
        """
        return sql_of(self.terms, self.constant, table)

    def score_card(self, points: int = 100) -> ScoreCard:
        """Round the functions to integer points that can be added by hand.

        Parameters
        ----------
        points : int
            The sum of the largest points of all functions, when the smallest points of each function are 0.

        Returns
        -------
        ScoreCard
            ``print(card)`` shows it; ``card.error`` is the largest rounding error of a score.

        Raises
        ------
        ValueError
            When a function is a line, which has no pieces, or when all functions are 0.

        Examples
        --------
        >>> import numpy as np
        >>> import convexrank as cr
        >>> design = cr.features.Thresholds(np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 1.0]]))
        >>> print(cr.shapes([2.0, 1.0, -3.0], design).score_card(points=10))
        feature  value     points
        x0       ≤ 1            0
                 > 1, ≤ 2       3
                 > 2            5
        x1       ≤ 0            5
                 > 0            0
        Scores are rounded by at most 0.33 points of 10.
        """
        return ScoreCard(*score_card_of(self, self.terms, self.constant, check_integer(points, "points", 1)))

    def __repr__(self) -> str:
        return (
            f"Shapes({len(self.functions)} functions, {len(self.surfaces)} surfaces, {len(self.slopes)} slopes, "
            f"{len(self.terms)} of them not 0)"
        )


def shapes(solution: Any, design: Any = None) -> Shapes:
    r"""Return the functions of features that the weights of a solution define, when X of its problem is a design.

    The weights of a feature's thresholds are the jumps of a piecewise constant function, and their l1 norm is its total
    variation. The weights of a pair's products define a surface. The weight of a raw column is a slope.

    Parameters
    ----------
    solution : Solution or array, shape (m,)
        The solution of a solver; or weights, if ``design`` is given.
    design : Thresholds, Products or Stacked, optional
        The design; by default X of the problem that was solved. Required for weights, and for a solution from a file.

    Returns
    -------
    Shapes
        The functions, centred.

    Raises
    ------
    ValueError, TypeError
        When there is no design, or the weights do not fit it.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.abs(X[:, 0]) + 0.5 * rng.normal(size=200) > 1
    >>> problem = cr.problems.PNormPush(cr.features.Thresholds(X, bins=5), y, p=2, l1=0.2)
    >>> found = cr.shapes(problem.solve())
    >>> found
    Shapes(2 functions, 0 surfaces, 0 slopes, 1 of them not 0)
    >>> steps = found.functions[0]
    >>> steps.breaks.round(1).tolist(), steps.values.round(1).tolist()
    ([-1.0, -0.6, 0.9], [0.2, 0.1, -0.1, 0.1])
    """
    weights, design = _weights_and_design(solution, design)
    return Shapes(*terms_of(design, weights))


def _weights_and_design(solution: Any, design: Any) -> tuple[Array, Any]:
    if isinstance(solution, Solution):
        if design is None:
            design = getattr(problem_of(solution, "pass its design, too"), "X", None)
    elif design is None:
        check_solution(solution, "a Solution, or weights together with design")
    if design is None or held_as(design).built:
        raise TypeError(
            f"design is {shown(design)}, expected features.Thresholds, Products or Stacked: with a matrix as X a "
            "problem has weights and no functions; solve it with X=features.Thresholds(X)."
        )
    x = solution.x if isinstance(solution, Solution) else solution
    return check_vector(x, design.shape[1], "solution", each="column of the design"), design


@dataclass(frozen=True, eq=False)
class ScoreCard:
    """Integer points for each piece of each function; the smallest points of each function are 0.

    Parameters
    ----------
    shapes : Shapes
        The functions, with points as values.
    points : int
        The sum of the largest points of all functions, before rounding.
    scale : float
        Points per unit of the score.
    base : float
        The score of a row with 0 points.
    error : float
        A bound on the difference between the points of a row and scale · (score − base), for all possible rows.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> design = cr.features.Thresholds(np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 1.0]]))
    >>> card = cr.shapes([2.0, 1.0, -3.0], design).score_card(points=10)
    >>> card([[1.0, 0.0], [9.0, 0.0]]).tolist(), round(card.scale, 2), round(card.error, 2)
    ([5, 10], 1.67, 0.33)
    """

    shapes: Shapes = field(repr=False)
    points: int
    scale: float
    base: float
    error: float

    def __call__(self, X: Any) -> Array:
        """Return the points of rows, as :meth:`Shapes.predict` takes them."""
        return np.rint(self.shapes(X)).astype(np.int64)

    def __str__(self) -> str:
        lines = [("feature", "value", "points")]
        for term in (*self.shapes.functions, *self.shapes.surfaces):
            for place, (pieces, value, _) in enumerate(term.cells()):
                text = " and ".join(map(str, pieces))
                lines.append(("" if place else term.name, text, f"{value:.0f}"))
        first, second = (max(len(line[column]) for line in lines) for column in (0, 1))
        table = [f"{name:{first}}  {text:{second}}  {points:>6}" for name, text, points in lines]
        return "\n".join([*table, f"Scores are rounded by at most {self.error:.2g} points of {self.points}."])
