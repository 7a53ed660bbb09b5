"""An expression in JAX, and its weights and coefficients as functions of what they were computed from.

Weights and coefficients of an expression as functions of what they were computed from, in JAX.

An expression that is made of recorded numbers (:mod:`convexrank.data.fields`) keeps how its shares and factors follow
from the weights of the rows and from parameters. Computed again with traced arrays they can be differentiated.

An expression in JAX: a function of the scores with the tree as an argument, compiled once for each structure.

Axes are padded here and nowhere else: to the shape classes of their lengths, by their first row with weight 0, so that
padding has finite values and never counts. One program serves all data of the same structure and classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

from convexrank.backend.jax_oracles import running_sums, shape_class
from convexrank.data.fields import Recorded
from convexrank.modelling import expressions as tree
from convexrank.modelling import functions
from convexrank.modelling.language import Language, read
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold


class _Traced:
    """An array of JAX in computations of numpy: its ufuncs are those of JAX of the same name."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> _Traced:
        import jax.numpy as jnp

        given = [one.values if isinstance(one, _Traced) else one for one in inputs]
        return _Traced(getattr(getattr(jnp, ufunc.__name__), method)(*given, **options))

    def __getitem__(self, places: Any) -> _Traced:
        return _Traced(self.values[places])

    def repeat(self, repeats: Any) -> _Traced:
        """Repeat entries, each as often as numpy says."""
        return self[np.arange(len(repeats)).repeat(repeats)]


def traced(sources: Iterable[tuple[Recorded, Any]]) -> Callable[[Any], Any]:
    """Return a function that computes recorded numbers again, from other arrays in the place of their sources.

    Parameters
    ----------
    sources : iterable of pairs
        Recorded arrays, and the arrays of JAX, traced or not, that stand in their places.

    Returns
    -------
    callable
        Takes numbers, recorded or not, to an array of JAX where they depend on a source, else to one of floats.
    """
    kept: list[Any] = []
    known: dict[int, Any] = {}
    for source, values in sources:
        kept.append(source)
        known[id(source)] = _Traced(values)

    def numbers(values: Any) -> Any:
        kept.append(values)  # what is known is known by where it is in memory
        found = values.replayed(lambda array: array, known) if isinstance(values, Recorded) else values
        return found.values if isinstance(found, _Traced) else np.asarray(found, dtype=np.float64)

    return numbers


Array = np.ndarray

# Pairs that are listed, and pairs held at once where they are not.
_LISTED, _BLOCK = 1 << 18, 1 << 18
# Halvings of the width within which a threshold is looked for.
_HALVINGS = 90
_STATIC = {"name", "count", "mean", "function", "place", "is_maximum"}


@dataclass(frozen=True, eq=False, repr=False)
class _Sums(tree.Node):
    """A pair sum in some form; of means over the lowest upper rows with weights of 1, and what gives their shares."""

    function: Any
    upper: tree.Node
    lower: tree.Node
    lowest: tree.Highest | None = field(default=None, kw_only=True)

    @property
    def args(self) -> tuple[tree.Node, ...]:  # type: ignore[override]
        """Upper and lower scores."""
        return (self.upper, self.lower)

    @property
    def axis(self) -> tree.Axis | None:  # type: ignore[override]
        """The lower rows."""
        return self.lower.axis


@dataclass(frozen=True, eq=False, repr=False)
class _Pairs(_Sums):
    """A pair sum as a list of padded pairs."""

    up: Array
    low: Array
    weights: Array


@dataclass(frozen=True, eq=False, repr=False)
class _Blocks(_Sums):
    """All pairs in blocks of lower rows; those of one query count, whose upper rows have the higher level."""

    query: tuple[Array, Array]
    level: tuple[Array, Array]
    weights: Array


@dataclass(frozen=True, eq=False, repr=False)
class _Running(_Sums):
    """The exponential between the grades of one query: rows by falling grade, and how many have a higher one."""

    order: Array
    above: Array
    logs: Array


@dataclass(frozen=True, eq=False, repr=False)
class _Chain(tree.OfOne):
    """Log-sum-exps up to levels: the rows by query and level, the first of each query, the last row of each level."""

    order: Array
    firsts: Array
    lasts: Array
    logs: Array


@dataclass(frozen=True, eq=False, repr=False)
class _Root(tree.OfOne):
    """A threshold, and how far it is below the largest entry, at most and at least."""

    function: Any
    weights: Array
    over: tree.Axis
    scale: Array
    target: Array
    ends: tuple[Array, Array]
    axis: ClassVar[tree.Axis | None] = None


@dataclass(frozen=True, eq=False, repr=False)
class _SmoothHighest(tree.Highest):
    """The smooth function below the mean of the highest, whose width is at a place among those of the risk."""

    place: int = 0
    is_maximum: bool = False


@dataclass(frozen=True)
class _SmoothFunction:
    """The smooth function below one with a kink, whose width is at a place among those of the risk."""

    function: functions.Function
    place: int

    def read(self, m: Any, x: Any) -> Any:
        """Return its values."""
        smoothed: Any = self.function.smoothed
        return smoothed(m.widths[self.place]).read(m, x)


def _smooth(found: tree.Node, place: int) -> tree.Node:
    """Return the padded atom with a width."""
    if isinstance(found, tree.Highest):
        is_maximum = isinstance(found, tree.Maximum)
        return _SmoothHighest(found.x, found.weights, found.exact_asked, place=place, is_maximum=is_maximum)
    return replace(found, function=_SmoothFunction(found.function, place))  # type: ignore[attr-defined, call-arg]


def _floats(values: Any) -> Array:
    return np.asarray(values, dtype=np.float64)


def _shares(node: Any) -> Any:
    """The weights of a reduction, or the shares of the rows, computed from the weights as they are given."""
    weights = node.exact_weights
    return weights / node.over.spread(node.over.sums(weights)) if node.mean else weights


def _chain(node: CumulativeLogSumExp, x: tree.Node, numbers: Callable[[Any], Any]) -> _Chain:
    (order, ends), size = node.runs, shape_class(len(node.level))
    firsts = np.zeros(len(order), dtype=bool)
    firsts[node.axis.starts[:-1]] = True
    # padding is a query of its own, each row of it
    return _Chain(
        x,
        _pad(order, size, 0),
        _pad(firsts, size, True),
        _pad(ends[1:][node.level] - 1, size, 0),
        _pad(numbers(np.log(node.exact_weights)[order]), size, 0.0),
    )


def _sums(node: tree.PairSums, upper: tree.Node, lower: tree.Node, numbers: Callable[[Any], Any]) -> _Sums:
    """The form that fits: running sums, a list of few pairs, or blocks."""
    function, up, low = node.function, node.upper_axis, node.axis
    weights = np.ones(len(up.rows)) if isinstance(node, tree.PairMeans) else numbers(up.weights)
    if function is functions.exp and node.grades is not None and low.count == 1:
        order = np.argsort(-node.grades, kind="stable")
        above = np.searchsorted(-node.grades[order], -node.grades)
        size = shape_class(len(order))
        # rows of padding have the logarithm of 0, and come last
        logs = _pad(numbers(np.log(up.weights)[order]), size, -np.inf)
        return _Running(function, upper, lower, _pad(order, size, 0), _pad(above, size, 0), logs)
    if node.pair_count > _LISTED:
        sizes = shape_class(len(up.rows)), shape_class(len(low.rows))
        levels = (
            (np.ones(len(up.rows)), np.zeros(len(low.rows))) if node.grades is None else (node.grades,) * 2
        )
        query = _pad(up.query, sizes[0], up.query[0]), _pad(low.query, sizes[1], low.query[0])
        level = _pad(levels[0], sizes[0], 0.0), _pad(levels[1], sizes[1], 0.0)
        return _Blocks(function, upper, lower, query, level, _pad(weights, sizes[0], 0.0))
    up_places, low_places = node.pairs
    size = shape_class(len(up_places))
    first = int(up_places[0]), int(low_places[0])
    return _Pairs(
        function,
        upper,
        lower,
        _pad(up_places, size, first[0]),
        _pad(low_places, size, first[1]),
        _pad(weights[up_places], size, 0.0),
    )


def _pad(values: Any, size: int, fill: Any) -> Any:
    library = values.__array_namespace__()  # traced numbers are not numpy's
    return library.concatenate([values, library.full(size - len(values), fill, dtype=values.dtype)])


def padded(
    root: tree.Node,
    numbers: Callable[[Any], Any] = _floats,
    places: dict[int, int] | None = None,
) -> tree.Node:
    """Return the expression with padded axes.

    Parameters
    ----------
    root : Node
        The expression.
    numbers : callable
        What becomes of weights and coefficients: floats, or what recorded ones are at other data, see
        :func:`traced`.
    places : dict, optional
        Of atoms with kinks, by their ``id``: where their widths are among those of :class:`JaxSmoothRisk`.
    """
    axes: dict[int, tree.Axis] = {}
    known: dict[int, tree.Node] = {}

    def axis_of(axis: tree.Axis) -> tree.Axis:
        if id(axis) not in axes:
            size = shape_class(len(axis.rows))
            rows, query = _pad(axis.rows, size, axis.rows[0]), _pad(axis.query, size, axis.query[0])
            axes[id(axis)] = tree.Axis(
                axis.name, rows, _pad(numbers(axis.weights), size, 0.0), query, axis.count
            )
        return axes[id(axis)]

    def rows_of(values: Any, axis: tree.Axis | None, fill: Any = None) -> Any:
        values = numbers(values)
        if axis is None or not values.ndim:
            return values
        return _pad(values, shape_class(len(axis.rows)), values[0] if fill is None else fill)

    def visit(node: tree.Node) -> tree.Node:
        if id(node) in known:
            return known[id(node)]
        parts = [visit(part) for part in node.args]
        match node:
            case tree.Differences():
                axis = axis_of(node.axis)
                found: tree.Node = tree.Differences(axis, _pad(node.lower, len(axis.rows), node.lower[0]))
            case tree.Scores():
                found = tree.Scores(axis_of(node.axis))
            case tree.Affine():
                axis = None if node.axis is None else axis_of(node.axis)
                terms = tuple(
                    (rows_of(c, node.axis), part)
                    for (c, _), part in zip(node.exact_terms, parts, strict=True)
                )
                found = tree.Affine(axis, terms, rows_of(node.exact_constant, node.axis))
            case tree.Dot() | tree.LogSumExp():
                # shares are taken before padding
                found = type(node)(parts[0], rows_of(_shares(node), node.over, 0.0), False)
            case tree.Highest():
                found = type(node)(parts[0], rows_of(node.weights, node.over, 0.0), node.masses)
            case Threshold():
                ends = node.widest, np.full(node.over.count, node.least)
                constants = np.asarray(node.scale), np.asarray(node.target)
                weights = rows_of(_shares(node), node.over, 0.0)
                found = _Root(parts[0], node.function, weights, axis_of(node.over), *constants, ends)
            case CumulativeLogSumExp():
                found = _chain(node, parts[0], numbers)
            case tree.Elementwise():
                found = replace(node, x=parts[0])
            case tree.PairMeans():
                lowest = tree.Highest(
                    parts[0], rows_of(node.lowest.weights, node.upper_axis, 0.0), node.lowest.masses
                )
                found = replace(_sums(node, parts[0], parts[1], numbers), lowest=lowest)
            case tree.PairSums():
                found = _sums(node, parts[0], parts[1], numbers)
            case _:
                raise TypeError(f"{type(node).__name__} is not read by JAX.")
        if places is not None and id(node) in places:
            found = _smooth(found, places[id(node)])
        known[id(node)] = found
        return found

    return visit(root)


@cache
def _language() -> Any:
    """Register the nodes as pytrees, and return the language; JAX is imported here."""
    import jax
    import jax.numpy as jnp

    from convexrank.modelling.kernels.highest_on_device import smooth_mean_of_highest

    for kind in (
        tree.Axis,
        tree.Scores,
        tree.Differences,
        tree.Affine,
        tree.Dot,
        tree.LogSumExp,
        tree.Highest,
        tree.Maximum,
        _SmoothHighest,
        tree.Elementwise,
        _Pairs,
        _Blocks,
        _Running,
        _Chain,
        _Root,
    ):
        names = [one.name for one in fields(kind)]
        static = [name for name in names if name in _STATIC]
        jax.tree_util.register_dataclass(kind, [name for name in names if name not in static], static)

    class Jax(Language):
        """Traced arrays."""

        widths: Any = None

        times, total = staticmethod(jnp.multiply), staticmethod(jnp.sum)
        exp, softplus = staticmethod(jnp.exp), staticmethod(jax.nn.softplus)
        positive, power = staticmethod(jax.nn.relu), staticmethod(jnp.power)

        @staticmethod
        def shares(node: Any) -> Any:
            return node.weights

        @staticmethod
        def huber(x: Any, width: float) -> Any:
            size = jnp.abs(x)
            return jnp.where(size <= width, 0.5 * x * x / width, size - 0.5 * width)

        @staticmethod
        def scatter(places: Any, x: Any, length: int) -> Any:
            if length == 1:
                return jnp.sum(x, keepdims=True)
            return jax.ops.segment_sum(x, places, length)

        @staticmethod
        def log_sum_exp(x: Any, node: Any) -> Any:
            axis, counts = node.over, node.weights > 0.0
            exponents = jnp.where(counts, x, -jnp.inf)
            tops = jax.lax.stop_gradient(jax.ops.segment_max(exponents, axis.query, axis.count))
            masses = jnp.where(
                counts, node.weights * jnp.exp(jnp.where(counts, x - tops[axis.query], 0.0)), 0.0
            )
            return tops + jnp.log(Jax.scatter(axis.query, masses, axis.count))

        def highest(self, x: Any, node: Any) -> Any:
            axis = node.over
            if isinstance(node, _SmoothHighest):
                caps = jnp.where(node.is_maximum, jnp.inf, 1.0 / node.asked)
                return smooth_mean_of_highest(x, axis, node.weights, caps, self.widths[node.place])
            if isinstance(node, tree.Maximum):
                counted = jnp.where(node.weights > 0.0, x, -jnp.inf)
                return jax.ops.segment_max(counted, axis.query, axis.count)
            order, parts = Jax.counted(x, node)
            values = jnp.where(parts > 0.0, parts * jnp.where(parts > 0.0, x[order], 0.0), 0.0)
            return jax.ops.segment_sum(values, axis.query[order], axis.count) / node.asked

        @staticmethod
        def counted(x: Any, node: Any) -> tuple[Any, Any]:
            """Falling within each query; a row counts by the weight that is left for it."""
            axis = node.over
            order = jnp.lexsort((-jnp.where(node.weights > 0.0, x, -jnp.inf), axis.query))
            query, weights = axis.query[order], node.weights[order]
            before = jnp.cumsum(weights) - weights
            before = before - before[jnp.searchsorted(query, query)]
            return order, jnp.clip(node.asked[query] - before, 0.0, weights)

        def threshold(self, x: Any, node: Any) -> Any:
            axis = node.over

            def excess(t: Any, x: Any) -> Any:
                value = node.function.read(self, node.scale * (x - t[axis.query]))
                return Jax.scatter(
                    axis.query, jnp.where(node.weights > 0.0, node.weights * value, 0.0), axis.count
                ) - (node.target)

            def halved(_: Any, ends: Any) -> Any:
                middle = 0.5 * (ends[0] + ends[1])
                above = excess(middle, held) > 0.0
                return jnp.where(above, middle, ends[0]), jnp.where(above, ends[1], middle)

            held = jax.lax.stop_gradient(x)
            top = jax.ops.segment_max(jnp.where(node.weights > 0.0, held, -jnp.inf), axis.query, axis.count)
            t = jax.lax.fori_loop(0, _HALVINGS, halved, (top - node.ends[0], top - node.ends[1]))[1]
            # the threshold of a query depends on its own entries only
            return jax.lax.custom_root(
                lambda t: excess(t, x), t, lambda _, t: t, lambda move, v: v / move(jnp.ones_like(v))
            )

        @staticmethod
        def cumulative(x: Any, node: Any) -> Any:
            return _running_log_sums(x[node.order] + node.logs, node.firsts)[node.lasts]

        def pair_sums(self, node: Any, upper: Any, lower: Any) -> Any:
            if node.lowest is not None:
                # which rows count does not change near the scores
                order, parts = Jax.counted(jax.lax.stop_gradient(-upper), node.lowest)
                query = node.lowest.over.query
                shares = jnp.zeros(parts.shape[0]).at[order].set(parts) / node.lowest.asked[query]
                shares = shares[node.up] if isinstance(node, _Pairs) else shares
                node = replace(node, weights=node.weights * shares)
            if isinstance(node, _Running):
                # minus infinity has no derivative, a hugely negative number has derivative 0
                logs = jnp.maximum(node.logs, 0.1 * jnp.finfo(upper.dtype).min)
                levels = _running_log_sums(logs - upper[node.order], jnp.zeros(len(logs), bool))
                counts = node.above > 0
                level = jnp.where(counts, levels[jnp.maximum(node.above - 1, 0)], 0.0)
                return jnp.where(counts, jnp.exp(jnp.where(counts, lower + level, 0.0)), 0.0)
            if isinstance(node, _Blocks):
                return self.in_blocks(node, upper, lower)
            costs = node.function.read(self, lower[node.low] - upper[node.up])
            return jax.ops.segment_sum(node.weights * costs, node.low, lower.shape[0])

        def in_blocks(self, node: Any, upper: Any, lower: Any) -> Any:
            n, weights = lower.shape[0], node.weights
            length = max(1, min(n, _BLOCK // upper.shape[0]))
            blocks = -(-n // length)
            rows = [lower, node.query[1], node.level[1]]
            rows = [jnp.pad(x, (0, blocks * length - n), mode="edge").reshape(blocks, length) for x in rows]

            # checkpoint: the backward pass computes each block again instead of keeping all pairs
            @jax.checkpoint
            def block(item: Any) -> Any:
                x, query, level = item
                counts = (
                    (query[:, None] == node.query[0]) & (level[:, None] < node.level[0]) & (weights > 0.0)
                )
                differences = jnp.where(counts, x[:, None] - upper, 0.0)
                return jnp.where(counts, node.function.read(self, differences), 0.0) @ weights

            return jax.lax.map(block, tuple(rows)).ravel()[:n]

    return Jax()


def _running_log_sums(exponents: Any, firsts: Any) -> Any:
    """Return the logarithms of running sums of exponentials, which begin anew at each first entry."""
    import jax.numpy as jnp

    # minus infinity has no derivative
    return running_sums(jnp.logaddexp, exponents, firsts, 0.1 * float(jnp.finfo(exponents.dtype).min))


@dataclass(frozen=True)
class JaxRisk:
    """The risk as a function ``risk(root, scores)`` for ``RiskData``; all of them are equal."""

    def __call__(self, root: Any, scores: Any) -> Any:
        import jax.numpy as jnp

        return jnp.sum(read(root, _language(), scores))

    @staticmethod
    def prepare(root: tree.Node) -> tree.Node:
        """Return the tree to pass: padded, and registered with JAX."""
        _language()
        return padded(root)


@dataclass(frozen=True)
class JaxSmoothRisk:
    """The smooth function below a risk with kinks, ``risk((root, widths), scores)``; all of them are equal."""

    def __call__(self, data: Any, scores: Any) -> Any:
        import jax.numpy as jnp

        root, widths = data
        language = type(_language())()
        language.widths = widths
        return jnp.sum(read(root, language, scores))

    @staticmethod
    def prepare(root: tree.Node, atoms: Sequence[tree.Node]) -> tree.Node:
        """Return the tree to pass, with widths for the atoms in their order."""
        _language()
        return padded(root, places={id(node): place for place, node in enumerate(atoms)})
