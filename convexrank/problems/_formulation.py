"""The base of formulations, also of one's own: a ranking risk declared once; and samples that stand for many rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field, replace
from operator import itemgetter
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import dense, held_as, rows_of, stacked
from convexrank.data import (
    QueryGroups,
    as_groups,
    check_binary_labels,
    check_vector,
    check_weights,
    keep,
    read_array,
)
from convexrank.modelling.expressions import Elementwise, Highest, PairMeans
from convexrank.modelling.groups import Groups
from convexrank.modelling.program import Program
from convexrank.modelling.smoothing.merging import (
    ALONE,
    LEFT_OUT,
    alike_by_query,
    groups_at_zero,
    groups_of_low_rows,
    groups_of_rows,
    highest_sums,
    may_merge,
)
from convexrank.modelling.smoothing.shares import means_in
from convexrank.problems._declared import Declared
from convexrank.problems._smoothed_weights import SmoothedRisks
from convexrank.problems.out_of_memory._queries import drawn, sample_of, streamed
from convexrank.problems.out_of_memory._streams import LogStream, Stream, log_streamed
from convexrank.solvers.row_faces import Mergeable, Sample, Smoothable

Array = np.ndarray

# Data with this number of entries are tall. A sample has this number of rows per column, or one row out of this number,
# and at most a quarter of the rows.
TALL, _ROWS_PER_COLUMN, _SHARE = 4_000_000, 120, 20

# The same of rows in memory: rows per column, and rows per row and column of X.
_IN_MEMORY, _WORTH = 90, 5

# Entries of a sample of rows out of memory: 32 MB, unless the columns ask for more.
_SAMPLED = 1 << 22


def rows_of_sample(X: Any) -> int:
    """Return how many rows tell the shape of an objective of dense rows; 0 where there are not enough of them."""
    rows, columns = X.shape
    plain = isinstance(X, np.ndarray)
    chunks = not (plain or held_as(X).in_memory or X.sparse)
    if chunks:
        per_column, share = _ROWS_PER_COLUMN, min(rows // _SHARE, _SAMPLED // columns)
    else:  # a pass for the Hessian of these rows is to cost about one over all
        per_column, share = _IN_MEMORY, min(2 * rows // _SHARE, _WORTH * rows // columns)
    enough = rows * columns >= TALL and 2 * _ROWS_PER_COLUMN * columns <= rows
    tall = enough and (chunks or plain)
    return max(min(per_column * columns, rows // 4), share) if tall else 0


def drawn_rows(classes: list[Array], wanted: int, alike: bool = False) -> list[tuple[Array, float]]:
    """Draw from each class of rows at most its part of those that are wanted, and say how many each row stands for.

    The parts are equal, or shares of the classes that are alike.
    """
    rng, found, rows = np.random.default_rng(0), [], sum(map(len, classes))
    for part in classes:
        most = -(-wanted * len(part) // rows) if alike else wanted // len(classes)
        count = min(most, len(part))
        # one row from each of ``count`` stretches
        places = ((np.arange(count) + rng.random(count)) * (len(part) / count)).astype(np.intp)
        places = np.minimum(places, len(part) - 1)
        found.append((part[places], len(part) / len(places)))
    return found


def merged_rows(X: Any, groups: Array, weights: Array | None) -> tuple[Any, Array, Array]:
    """Return rows with the mean of each group in the place of its rows, one row of each, and the weights.

    Parameters
    ----------
    X : matrix, shape (n, d)
        The rows.
    groups : ndarray of int, shape (n,)
        The number of each row's group, or ALONE, or LEFT_OUT.
    weights : ndarray, shape (n,), or None
        Weights of the rows, 1 by default.
    """
    alone, group = np.flatnonzero(groups == ALONE), groups - min(ALONE, LEFT_OUT)
    counts = np.bincount(group)
    wholes = counts if weights is None else np.bincount(group, weights)
    weights = np.ones(len(groups)) if weights is None else weights
    # the rows that stand alone, and those that are left out, are groups here, of which nothing is used
    kept = np.flatnonzero(counts[-min(ALONE, LEFT_OUT) :]) - min(ALONE, LEFT_OUT)
    first = np.array([np.argmax(group == number) for number in kept], dtype=np.intp)
    sums = sparse.csc_array((weights, group, np.arange(len(group) + 1)), shape=(len(wholes), len(group))) @ X
    means = (dense(sums)[kept] / wholes[kept, None]).astype(X.dtype)
    places = np.concatenate([alone, first])
    if isinstance(X, np.ndarray):  # without a copy
        rows = rows_of(X, places)
        rows[len(alone) :] = means
    else:
        rows = stacked([X[alone], means])
    return rows, places, np.concatenate([weights[alone], wholes[kept]])


# Rows per column of a sample that only has to give a start.
_START_ROWS = 60
# From so many rows on, and so many per column, those of a risk with kinks are merged, where at most this share of them
# stands alone; the first ones are one out of so many, and no fewer than this.
_MANY, _MANY_PER_COLUMN, _MOST_ALONE, _ONE_OUT_OF, _FIRST = 50_000, 50, 0.5, 8, 4_000
# So many lists are not merged each: some of them tell about all.
_MANY_LISTS = 2_000
# So many rows tell second derivatives, where these are a product of the expression for each unknown.
_TELLING = 20_000
# The share that stands alone at first, times the root of the number of rows.
_TOLD = 42.0
# The length of short rows beside the longest one.
_LITTLE = 1e-9


class Formulation(Declared):
    r"""A ranking risk of your own, declared once as an expression of the scores.

    .. math:: \min_w \; R(Xw) + \frac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1

    Derive a class, and state the risk R in :meth:`risk` with the atoms of :mod:`convexrank.modelling`. Everything else
    is a reading of that expression: value, gradient and second derivatives for the fast solvers, the exact model in
    cvxpy, the function in JAX, the certificate, the proof in ball arithmetic, and the formula. An expression that is
    not convex by its form is refused when the problem is made; the message names the place. Fields of the class are
    parameters; it becomes a frozen dataclass by itself.

    A proof is about the expression with its coefficients as they are, floats: of 1/p it takes the nearest float.
    Functions are exact, among them powers and logarithms of any base.

    Where the expression has a conjugate, certificates take their lower bound from it:
    at multipliers that satisfy its constraints, so that a wrong gradient makes the gap larger, but not false. All
    readings share the expression. Only a second statement can check that it is the formula that you mean: give
    ``definition``, the formula as plain loops over the scores, and :func:`convexrank.verify` compares the two.
    Without it the verifier compares the readings, among them the exact model, with one another.

    Parameters
    ----------
    X : array or sparse array, shape (n, d)
        The features, one row per example.
    y : array, shape (n,)
        Labels: two classes of any kind for ``f.positive`` and ``f.negative``; grades for ``f.rows`` and ``f.grades``.
    qid : array of int or str, shape (n,), QueryGroups, or None
        The query of each row; the risk is the sum over queries. One without two different labels contributes nothing.
    sample_weight : array, shape (n,), optional
        Weights of rows, which means and totals take; rows of weight 0 are left out.
    l2, l1 : float
        Strengths :math:`\lambda_2, \lambda_1` of the penalties.
    dtype : {"float64", "float32"}
        Precision of the data.

    Raises
    ------
    TypeError
        When the risk is not convex by its form.
    ValueError, TypeError
        When the data are not finite and real, lengths differ, no query has two labels, or a number is out of range.

    Examples
    --------
    The mean of the ten highest negatives in the place of the maximum:

    >>> import numpy as np
    >>> import convexrank as cr
    >>> from convexrank.modelling import log_mean_exp, mean_of_highest
    >>> class TopTen(cr.Formulation):
    ...     count: int = 10
    ...     def risk(self, f):
    ...         return log_mean_exp(-f.positive) + mean_of_highest(f.negative, self.count)
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(60, 3)), np.arange(60) % 3 == 0
    >>> problem = TopTen(X, y, count=5, l2=0.1)
    >>> solution = problem.solve()
    >>> print(f"{solution.status.name}, {abs(solution.value - problem.solve('exact').value):.0e}")
    CONVERGED, ...
    """

    y: Any
    qid: Any = field(default=None, kw_only=True)
    sample_weight: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = self.X.shape[0]
        keep(self, sample_weight=check_weights(self.sample_weight, rows))
        keep(self, y=self._checked_labels(rows))
        # wrong queries, and an expression that is not convex, are refused here, not at the first solve
        _ = self._queries, self._log_sum_exps

    #: What messages call the labels.
    _labels_are: ClassVar[str] = "labels"

    def _checked_labels(self, rows: int) -> Array:
        labels = read_array(self.y, "y")
        if labels.dtype.kind in "iuf":
            return check_vector(labels, rows, "y")
        if labels.shape != (rows,):
            raise ValueError(f"y has shape {labels.shape}, expected ({rows},), one label for each row of X.")
        return labels

    @cached_property
    def _queries(self) -> QueryGroups | None:
        return None if self.qid is None else as_groups(self.qid, self.rows)

    @cached_property
    def _groups(self) -> Groups:
        return Groups(self.y, self._queries, self.sample_weight, name=self._labels_are)

    @cached_property
    def _form(self) -> Program:
        """The risk, for questions about its form: that of two rows where those of all are not in memory."""
        return self._of_two_rows if isinstance(self._stream, LogStream) else self.program

    @cached_property
    def _of_two_rows(self) -> Program:
        return self._program_of_rows(self._two_rows())

    def _program_of_rows(self, some: Array) -> Program:
        """The risk of some rows, as of one list."""
        weights = None if self.sample_weight is None else self.sample_weight[some]
        return self._program_of(Groups(self.y[some], None, weights), len(some))

    def _two_rows(self) -> Array:
        """Two rows with different labels that count."""
        counts = np.broadcast_to(True, self.rows) if self.sample_weight is None else self.sample_weight > 0.0
        first = int(np.argmax(counts))
        return np.array([first, int(np.argmax(counts & (self.y != self.y[first])))])

    @property
    def _row_counts(self) -> Array | None:
        """The weights of the rows."""
        return self.sample_weight

    # --- rows out of memory ---------------------------------------------------------------------------------------

    _takes_chunks = True

    @property
    def _by_query(self) -> tuple[Array, Array]:
        """The rows that count, query by query, and where each query begins and the last ends."""
        return self._groups.by_query

    @cached_property
    def _stream(self) -> Stream | None:
        """The evaluator of rows out of memory in one pass; None if X or all n scores are in memory."""
        if self._held.in_memory:
            return None
        if self._queries is not None:
            return streamed(self)
        return log_streamed(self)

    @cached_property
    def _positives(self) -> Array:
        return check_binary_labels(self.y, self.rows)

    @cached_property
    def _sample_rows(self) -> int:  # type: ignore[override]
        """Number of rows of a sample that approximates the objective, for dense data with many rows; else 0.

        None is drawn where slopes are not bounded: far from the minimiser sums of powers bend otherwise than near it.
        """
        wanted = rows_of_sample(self.X)
        if not wanted or self._queries is not None or not self._has_curvature or self._pairwise_curvature:
            return 0
        functions = [node.function for node in self._form.nodes if isinstance(node, Elementwise)]
        return 0 if any(math.isinf(function.most) for function in functions) else wanted

    @property
    def _start_rows(self) -> int:
        """Rows of the sample that gives the start; in memory those that give the Hessian are drawn again."""
        wanted = self._sample_rows
        return min(wanted, _START_ROWS * self.dimension) if self._log_sum_exps is not None else wanted

    def _sample(self) -> Sample | None:
        """Return the problem of a sample, at most half of each class; its rows are weighted accordingly."""
        if self._queries is not None:
            return None if self._held.in_memory else sample_of(self)
        wanted = self._start_rows
        # few rows are easily separated from a sample of the others, whose minimiser is far from that of all then
        if wanted and min(map(len, self._classes)) >= 2 * self.dimension:
            return Sample(self._drawn(wanted))
        return None

    @cached_property
    def _classes(self) -> list[Array]:
        """The rows of each class that count, of each query; of other labels than two all rows are a class."""
        rows, starts = self._by_query
        lists = np.split(rows, starts[1:-1])
        try:
            positives = self._positives
        except (ValueError, TypeError):
            return lists
        parted = [(one, positives[one]) for one in lists]
        return [one[side] for one, is_positive in parted for side in (is_positive, ~is_positive)]

    def _drawn(self, wanted: int, alike: bool = False) -> Self:
        """Return the problem of so many rows, the same number of all classes at most, or the same share of each."""
        return self._standing_for_all(*self._some_rows(wanted, alike))

    def _some_rows(self, wanted: int, alike: bool = False) -> tuple[Array, Array]:
        """Draw rows, and say how many each stands for."""
        parts = drawn_rows(self._classes, wanted, alike)
        counts = [np.full(len(rows), each) for rows, each in parts]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate(counts)

    def _standing_for_all(self, some: Array, counts: Array) -> Self:
        weights = counts if self.sample_weight is None else counts * self.sample_weight[some]
        return self._of_rows(rows_of(self.X, some), some, weights)

    @cached_property
    def _smoothed_risks(self) -> SmoothedRisks:  # type: ignore[override]
        known = super()._smoothed_risks
        many = self._held.built and self._queries is None and self.rows >= _ONE_OUT_OF * _TELLING
        return replace(known, some=self._telling) if many and alike_by_query(self.program) else known

    def _telling(self) -> tuple[Callable[[Array], Array], SmoothedRisks]:
        some, counts = self._some_rows(_TELLING)
        return itemgetter(some), self._standing_for_all(some, counts)._smoothed_risks

    # --- rows that stand together ---------------------------------------------------------------------------------

    @cached_property
    def _has_many_rows(self) -> bool:
        """Whether a step with all rows takes longer than one with few, for which it takes a Hessian at least."""
        if not self._held.built:
            return False
        filled = getattr(self.X, "nnz", self.rows * self.dimension) / self.dimension
        return filled >= max(_MANY, _MANY_PER_COLUMN * self.dimension)

    @cached_property
    def _merges_rows(self) -> bool:  # type: ignore[override]
        if not self._has_many_rows:
            return False
        if self._queries is None:
            return may_merge(self._form)
        return self._has_many_lists or (
            self.rows >= _FIRST * self._form.count and all(may_merge(program) for _, program in self._lists)
        )

    @cached_property
    def _has_many_lists(self) -> bool:
        """Whether queries are so many that some of them tell about all, and whether these are such a risk alone."""
        return self._form.count >= _MANY_LISTS and alike_by_query(self._form)

    @property
    def _begins_with_some(self) -> bool:
        """Whether some of very many rows are such a risk, and not to be merged."""
        return self._has_many_rows and self._queries is None and alike_by_query(self._form)

    def _smoothable(self) -> Smoothable:
        return replace(super()._smoothable(), first=self._first_rows)

    def _mergeable(self) -> Mergeable:
        return Mergeable(self.rows, self._first_share, self._merged)

    def _first_rows(self) -> list[Any]:
        """Return the problems of some rows, of few first, which tell about where the minimiser is."""
        if not (self._merges_rows or self._begins_with_some):
            return []
        if self._has_many_lists:
            found = map(self._some_lists, self._sizes_of_first)
            return [one.problem for one in found if one is not None]
        alike = highest_sums(self.program) is not None
        return [self._drawn(size, alike) for size in self._sizes_of_first]

    def _some_lists(self, size: int) -> Sample | None:
        """Draw lists that have about so many rows."""
        return drawn(self, size * self._form.count // self.rows)

    @property
    def _sizes_of_first(self) -> list[int]:
        sizes = [max(self.rows // _ONE_OUT_OF, _FIRST)]
        while sizes[0] > _ONE_OUT_OF * _FIRST:
            sizes.insert(0, sizes[0] // _ONE_OUT_OF)
        return sizes

    @cached_property
    def _lists(self) -> list[tuple[Any, Program]]:
        """The rows of each query with an order, and the risk of these; rows are merged within them."""
        if self.program.count == 1 and self._queries is None:
            return [(slice(None), self.program)]
        rows, starts = self._by_query
        return [(one, self._program_of_rows(one)) for one in np.split(rows, starts[1:-1])]

    def _beside_zero(self, seen: tuple[Array, ...]) -> Self | None:
        """Return the problem that tells whether w = 0 is the minimum: of some rows first, or those highest at points.

        At scores of 0 all rows are alike. Beside those that may be the highest, the others are merged; in short lists
        of several queries none are.
        """
        tops = any(isinstance(node, Highest | PairMeans) for node in self._form.nodes)
        if not tops:
            return None
        if not self._merges_rows:
            if self._queries is not None:
                return None if seen else self
            if seen or not may_merge(self._form):
                return None
            return self._merged_at_zero([]) if self._held.built else self
        if self._has_many_lists:
            some: Any = None if seen else self._some_lists(self._sizes_of_first[0])
            return some.problem if some is not None else self if len(seen) < 2 else None
        if not seen:
            return self._drawn(self._sizes_of_first[0])._merged_at_zero([])
        return self._merged_at_zero([self._float_scores(w) for w in seen])

    def _merged_at_zero(self, scores: list[Array]) -> Self:
        parts = []
        for rows, program in self._lists:
            least = max(program.rows // _ONE_OUT_OF, _FIRST // len(self._lists))
            parts.append((rows, groups_at_zero(program, [one[rows] for one in scores], least)))
        groups = self._numbered(parts)
        return self._of_groups(groups) if (groups >= 0).any() else self

    @property
    def _first_share(self) -> float:
        """The share of rows near kinks that stands alone at first: about what the first rows do not tell."""
        return min(_TOLD / math.sqrt(self.rows), _MOST_ALONE)

    def _merged(self, w: Array, share: float, before: Array | None) -> tuple[Self, Array] | None:
        """Return the problem with rows merged that are far from all kinks at w, and their sides; None where few are.

        It is nowhere above this one, and equal to it where sides are known and near w, up to the share of rows that
        stands alone at each kink. Rows of a query are merged with others of it.
        """
        if self._has_many_lists or means_in(self._form):  # sides of the lowest upper rows are not looked for
            return None
        scores, sides, parts = self._float_scores(w), np.full(self.rows, LEFT_OUT), []
        for rows, program in self._lists:
            of_rows = groups_of_rows if highest_sums(program) is None else groups_of_low_rows
            sides_before = None if before is None else before[rows]
            found = of_rows(program, scores[rows], share, sides_before, self._movements[rows])
            groups, sides[rows] = (ALONE, ALONE) if found is None else found
            parts.append((rows, groups))
        groups = self._numbered(parts)
        if np.count_nonzero(groups == ALONE) > _MOST_ALONE * self.rows:
            return None
        return self._of_groups(groups), sides

    @cached_property
    def _movements(self) -> Array:
        """How far the scores of rows may move with w, at most 1, and no less than a small part of that."""
        return np.maximum(self._row_lengths / (self._row_lengths.max() or 1.0), _LITTLE)

    def _numbered(self, parts: list[tuple[Any, Any]]) -> Array:
        """Return the groups of all rows, given those of each query."""
        if len(parts) == 1 and isinstance(parts[0][0], slice) and np.ndim(parts[0][1]):
            return parts[0][1]
        found, first = np.full(self.rows, LEFT_OUT), 0
        for rows, groups in parts:
            found[rows] = np.where(groups < 0, groups, groups + first)
            first += max(int(np.max(groups)), -1) + 1
        return found

    def _of_groups(self, groups: Array) -> Self:
        # a class that the risk does not look at keeps a row, as both are to be there
        classes = (self.y, ~self.y) if self.y.dtype == bool else ()
        unseen = [np.argmax(side) for side in classes if (groups[side] == LEFT_OUT).all()]
        if unseen:
            groups = groups.copy()
            groups[unseen] = ALONE
        X, first, weights = merged_rows(self.X, groups, self._row_counts)
        return self._of_rows(X, first, weights)

    def _of_rows(self, X: Any, rows: Array, weights: Array) -> Self:
        """Return the problem of rows with the labels and queries of some of these."""
        qid = None if self._queries is None else self._queries.spread(self._queries.query)[rows]
        return self.changed(X=X, y=self.y[rows], qid=qid, sample_weight=weights)
