"""Products with the second derivatives of an expression, forward over reverse, and all of them, by Jacobians."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import weighted_gram
from convexrank.backend.interruption import check_time
from convexrank.modelling import expressions as tree
from convexrank.modelling import levels
from convexrank.modelling.kernels.highest import partial_shares
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold, curved
from convexrank.modelling.program import Program

Array = np.ndarray
#: Values, memories and adjoints of all nodes.
State = tuple[list[Any], list[Any], list[Any]]


def bend_of(node: tree.Node, x: Array, memory: Any, u: Array) -> tuple[Any, Array | None, Any]:
    """Return the Hessian of an atom weighed by u, as diag(d) − c ggᵀ: d, c and g."""
    match node:
        case tree.Elementwise():
            bend = node.function.bend
            if bend is None:
                raise TypeError(f"{node.function.name} has no second derivatives.")
            return u * bend(x), None, None
        case tree.LogSumExp():
            rate = u / (1.0 + node.width) if node.width else u
            return memory * (rate if len(u) == 1 else node.over.spread(rate)), rate, memory
        case tree.Highest():
            part, rate = partial_shares(node, memory), u / node.width
            return part * node.over.spread(rate), rate / _or_one(node.over.sums(part)), part
        case _:
            return 0.0, None, None


def _or_one(x: Array) -> Array:
    """Numbers to divide by: 1 in the place of 0."""
    return np.where(x > 0.0, x, 1.0)


def hessian_product(program: Program, scores: Array) -> Callable[[Array], Array]:
    """Return the product of the Hessian in the scores with a vector, forward over reverse."""
    values, memories = program.up(scores)
    state = values, memories, program.down(memories)
    return lambda v: gradient_moved(program, state, v, {})


def has_pair_hessian(program: Program) -> bool:
    """Return whether nothing bends but sums over pairs of rows, and nothing curved depends on these."""
    curved, own = (k for k, node in enumerate(program.nodes) if tree.is_curved(node)), program.own_factors
    return all(k in program.constant_adjoints and own.keys() >= set(program.args[k]) for k in curved)


def pair_hessian(program: Program, scores: Array, X: Array) -> tuple[float, Array, Array]:
    """Return value, gradient in the scores, and XᵀHX of the Hessian H in them, where nothing bends but sums over pairs.

    A pair has u a φ″ (x_k − x_i)(x_k − x_i)ᵀ; the cross terms need the weighed sums of the rows of the partners.
    """
    values, memories = program.up(scores)
    adjoints = program.down(memories)
    hessian = np.zeros((X.shape[1], X.shape[1]))
    for k, u in program.constant_adjoints.items():
        node: Any = program.nodes[k]
        sides = dict(zip(program.args[k], (node.upper_axis, node.axis), strict=True))
        rows = {a: _multiple(program.own_factors[a], X[axis.places]) for a, axis in sides.items()}
        upper, lower = (rows[a] for a in program.args[k])
        kernel, weights = memories[k][0], node.weights
        (to_lower,) = kernel.sums(weights, (2,), to_lower=True)
        (to_upper,) = kernel.sums(u, (2,), to_lower=False)
        cross = _crossed(node, kernel, u, lower, weights, upper)
        of_lower, of_upper = u * to_lower, weights * to_upper
        if upper is lower:
            hessian += (lower * (of_lower + of_upper)[:, None]).T @ lower
        else:
            hessian += (lower * of_lower[:, None]).T @ lower + (upper * of_upper[:, None]).T @ upper
        hessian -= cross + cross.T
    return float(np.add.reduce(values[-1])), program.placed(adjoints), hessian


def _multiple(factor: Any, rows: Array) -> Array:
    return rows if isinstance(factor, float) and factor == 1.0 else np.reshape(factor, (-1, 1)) * rows


def _crossed(node: tree.PairSums, kernel: Any, u: Array, lower: Array, weights: Array, upper: Array) -> Array:
    """The sum over pairs of the rows of both partners, weighed by second derivatives."""
    if node.upper is node.lower and hasattr(kernel, "crossed"):  # graded rows
        return kernel.crossed(u, lower, weights, upper)
    columns = weights[:, None] * upper
    if kernel.takes_columns:
        (partners,) = kernel.sums(columns, (2,), to_lower=True)
    else:
        partners = np.stack([kernel.sums(column, (2,), to_lower=True)[0] for column in columns.T], axis=1)
    partners *= u[:, None]
    return lower.T @ partners


#: How the values of atoms move by themselves, and the adjoints of their arguments, by the places of the atoms.
Own = Mapping[int, tuple[Any, Sequence[Any]]]
# Turns in which moves of shares and of multipliers follow from one another, and what is left of them in the end.
_TURNS, _SETTLED = 60, 1e-13


def gradient_moved(
    program: Program,
    state: State,
    v: Array,
    own: Own,
    of_shares: Mapping[int, tuple[float, Any]] | None = None,
) -> Array:
    """Return how the gradient moves as the scores move by v, and atoms by themselves.

    ``own`` has for the places of these atoms how their values move, and the adjoints of their arguments; ``of_shares``
    for those of means at what rate the width of their shares moves, and what upper rows add by themselves.
    """
    moved, turned = _moves(program, state, v, own)
    means: dict[int, Any] = {k: n for k, n in enumerate(program.nodes) if isinstance(n, tree.SharedMeans)}
    shares = {k: np.zeros(len(node.shares)) for k, node in means.items()}
    change, before, turns = math.inf, math.inf, 0
    while means and (change < before or turns < 2) and turns < _TURNS:
        found = {}
        for k, node in means.items():
            dx = [moved[a] for a in program.args[k]]
            rates = (0.0, 0.0) if of_shares is None else of_shares[k]
            found[k] = _shares_moved(node, state[1][k][0], state[2][k], dx, turned[k], rates)
        size = sum(float(np.abs(part).sum()) for part in found.values())
        change, before = sum(float(np.abs(found[k] - shares[k]).sum()) for k in means), change
        shares, turns = found, turns + 1
        if change <= _SETTLED * size:
            break
        moved, turned = _moves(program, state, v, _with_shares(means, state, shares, own))
    for k, leaf in program.leaves:
        turned[k] = np.broadcast_to(turned[k], leaf.axis.rows.shape)
    return program.placed(turned)


def _shares_moved(
    node: tree.SharedMeans, kernel: Any, u: Array, dx: list[Any], turned: Any, rates: tuple[float, Any]
) -> Array:
    """Return how the shares of means move: the best ones for scores, multipliers and a width that move."""
    axis, width, (upper, lower), (rate, added) = node.lowest.over, node.lowest.width, dx, rates
    turned = np.broadcast_to(turned, u.shape)
    (of_lower,), (back,) = (kernel.sums(w, (1,), to_lower=False) for w in (u * lower, u))
    (gains,), part = kernel.sums(turned, (0,), to_lower=False), partial_shares(node.lowest, node.shares)
    whole, own = node.axis.sums(u), node.shares / node.lowest.weights
    paid = axis.spread(rate * whole + width * node.axis.sums(turned)) * own
    gains = gains + added + of_lower - back * upper - paid
    mean = axis.sums(part * gains) / _or_one(axis.sums(part))
    return part * (gains - axis.spread(mean)) / axis.spread(_or_one(whole) * width)


def _with_shares(means: Mapping[int, Any], state: State, shares: Mapping[int, Array], own: Own) -> Own:
    """Add what shares that move do to the values of means and to the adjoints of their arguments."""
    found = dict(own)
    for k, node in means.items():
        (kernel, *_), u, one = state[1][k], state[2][k], shares[k]
        value, ahead = kernel.sums(one, (0, 1), to_lower=True)
        (back,) = kernel.sums(u, (1,), to_lower=False)
        paid = node.lowest.width * node.lowest.over.sums(one * (node.shares / node.lowest.weights))
        value, pulls = value - node.axis.spread(paid), (-one * back, u * ahead)
        if k in found:
            before = found[k]
            value, pulls = value + before[0], tuple(a + b for a, b in zip(pulls, before[1], strict=True))
        found[k] = value, pulls
    return found


def _moves(program: Program, state: State, v: Array, own: Own) -> tuple[list[Any], list[Any]]:
    """Return how values and adjoints of all nodes move."""
    check_time()  # of many pairs one of these takes longer than a step should
    (values, memories, adjoints), moved = state, []
    moves: list[bool] = []  # where atoms alone move, most of what they are taken of does not
    for k, (node, args) in enumerate(zip(program.nodes, program.args, strict=True)):
        if isinstance(node, tree.Scores):
            moved.append(node.entries(v))
        elif any(moves[a] for a in args):
            moved.append(_push(node, memories[k], [moved[a] for a in args]))
        else:
            moved.append(np.zeros(np.shape(values[k])))
        if k in own:
            moved[k] = moved[k] + own[k][0]
        moves.append(bool(np.any(moved[k])))
    turned: list[Any] = [0.0] * len(program.nodes)
    turned[-1] = np.zeros(program.count)
    for k in range(len(program.nodes) - 1, -1, -1):
        args = program.args[k]
        if not args:
            continue
        bent: tuple[Any, ...] = (0.0,) * len(args)
        if any(moves[a] for a in args):
            x, dx = [values[a] for a in args], [moved[a] for a in args]
            bent = _curve(program, k, memories[k], adjoints[k], x, dx)
        if k in own:
            bent = tuple(one + two for one, two in zip(bent, own[k][1], strict=True))
        back = program.steps[k].down(memories[k], turned[k]) if np.any(turned[k]) else (0.0,) * len(bent)
        for a, one, two in zip(args, back, bent, strict=True):
            turned[a] = turned[a] + one + two
    return moved, turned


def _push(node: tree.Node, memory: Any, dx: list[Any]) -> Any:
    """The Jacobian of an atom times dx."""
    match node:
        case tree.Affine():
            terms = zip(node.terms, dx, strict=True)
            return sum(c * node.spread(part, one) for (c, part), one in terms)
        case tree.Dot():
            return node.over.sums(node.shares * dx[0])
        case tree.Elementwise():
            return memory * dx[0]
        case tree.PairSums():
            kernel, slope, *_ = memory
            (moved,) = kernel.sums(node.weights * dx[0], (1,), to_lower=True)
            return dx[1] * slope - moved
        case CumulativeLogSumExp():
            return levels.moved(node, memory, np.broadcast_to(dx[0], node.level.shape))
        case Threshold():
            return node.over.sums(memory[0] * dx[0])
        case tree.LogSumExp() | tree.Highest():
            return node.over.sums(memory * dx[0])
        case _:
            raise TypeError(f"{node} has no derivative everywhere.")


def _curve(program: Program, k: int, memory: Any, u: Array, x: list[Array], dx: list[Any]) -> tuple[Any, ...]:
    """The Hessian of an atom, weighed by its adjoint, times dx."""
    node = program.nodes[k]
    if isinstance(node, tree.Affine | tree.Dot):
        return (0.0,) * len(dx)
    if isinstance(node, tree.PairSums):
        a, (upper, lower), kernel = node.weights, dx, memory[0]
        of_lower = [kernel.sums(w, (2,), to_lower=True)[0] for w in (a, a * upper)]
        of_upper = [kernel.sums(w, (2,), to_lower=False)[0] for w in (u, u * lower)]
        return a * (upper * of_upper[0] - of_upper[1]), u * (lower * of_lower[0] - of_lower[1])
    if isinstance(node, CumulativeLogSumExp):
        dx0 = np.broadcast_to(dx[0], node.level.shape)
        u = np.broadcast_to(u, node.level.shape)
        moves = levels.moved(node, memory, dx0)
        return (levels.pulls(node, memory, u) * dx0 - levels.pulls(node, memory, u * moves),)
    if isinstance(node, Threshold):
        return (curved(node, memory, u, dx[0]),)
    d, c, g = bend_of(node, x[0], memory, u)
    found = d * dx[0]
    if c is not None:
        axis = node.over  # type: ignore[attr-defined]  # a reduction
        found = found - g * axis.spread(c * axis.sums(g * dx[0]))
    return (found,)


# Pairs for each row, and in all: of more, sums over pairs for each column take less time than matrices of pairs.
_PAIRS_PER_ROW, _PAIRS = 200, 2_000_000
_ATOMS = (
    tree.Scores,
    tree.Affine,
    tree.Dot,
    tree.Elementwise,
    tree.LogSumExp,
    tree.Highest,
    tree.PairSums,
)


def has_few_pairs(program: Program) -> bool:
    """Return whether all atoms have Jacobians here, and pairs are few."""
    known = all(isinstance(node, _ATOMS) for node in program.nodes)
    few = program.pair_count <= min(_PAIRS_PER_ROW * program.rows, _PAIRS)
    return known and few and program.curved_pairs > 0


def hessian_of_few_pairs(program: Program, state: State, X: Array) -> Array:
    """Return XᵀHX of the Hessian H in the scores; shares of upper rows move by themselves, about.

    The second derivatives of each atom, weighed by its adjoint, stand between Jacobians of its arguments in w.
    """
    (values, memories, adjoints), jacobians = state, list[Any]()
    found = np.zeros((X.shape[1], X.shape[1]))
    for k, (node, args) in enumerate(zip(program.nodes, program.args, strict=True)):
        inner = [jacobians[a] for a in args]
        x, u = [values[a] for a in args], adjoints[k]
        match node:
            case tree.Scores():
                jacobians.append(node.entries(X))
            case tree.Affine():
                terms = zip(node.terms, inner, strict=True)
                jacobians.append(sum(_spread(node, part, one) * _column(c) for (c, part), one in terms))
            case tree.PairSums():
                jacobians.append(_of_pairs(node, memories[k], x, u, inner, found))
            case tree.Dot():
                jacobians.append(node.over.sums(node.shares[:, None] * inner[0]))
            case _:
                jacobians.append(_of_one(node, memories[k], x[0], u, inner[0], found))
    return found


def _of_one(node: Any, memory: Any, x: Array, u: Any, inner: Array, found: Array) -> Array:
    """Return the Jacobian of a function of rows, or of those of a query, and add its second derivatives."""
    d, c, g = bend_of(node, x, memory, u)
    found += _gram(inner, np.broadcast_to(d, len(inner)))
    if c is not None:
        together = node.over.sums(np.asarray(g)[:, None] * inner)
        found -= weighted_gram(together, np.broadcast_to(c, len(together)))
    moved = np.broadcast_to(memory, len(inner))[:, None] * inner
    return moved if isinstance(node, tree.Elementwise) else node.over.sums(moved)


def _of_pairs(
    node: tree.PairSums, memory: Any, x: list[Array], u: Any, inner: list[Array], found: Array
) -> Array:
    """Return the Jacobian of sums over pairs, and add their second derivatives."""
    upper, lower = node.pairs
    apart = x[1][lower] - x[0][upper]
    bend: Any = node.function.bend
    slopes, bends = (_between(node, part) for part in (node.function.slopes(apart)[1], bend(apart)))
    a, u, (above, below) = node.weights, np.broadcast_to(u, len(x[1])), inner
    heavy, of_lower = a[:, None] * above, u * (bends @ a)
    some = np.flatnonzero(of_lower)
    across = (u[some, None] * below[some]).T @ (bends[some] @ heavy)
    found += _gram(below, of_lower) + _gram(above, a * (bends.T @ u)) - across - across.T
    if isinstance(node, tree.SharedMeans):
        moving = np.flatnonzero(part := partial_shares(node.lowest, node.shares))
        turned = (slopes.T @ u)[moving, None] * above[moving] - (slopes.T @ (u[:, None] * below))[moving]
        rates = 1.0 / (node.lowest.width * _or_one(node.axis.sums(u)))  # shares of no multiplier turn nothing
        found += _about_means(node.upper_axis, moving, part[moving], turned, rates)
    return (slopes @ a)[:, None] * below - slopes @ heavy


def _gram(rows: Array, weights: Array) -> Array:
    """Return the weighted Gram matrix of the rows that have a weight."""
    some = np.flatnonzero(weights)
    return weighted_gram(rows[some], weights[some])


def _between(node: tree.PairSums, entries: Array) -> sparse.csr_array:
    """Return a matrix of lower by upper rows with entries for the pairs, those that are not 0."""
    (upper, lower), kept = node.pairs, np.flatnonzero(entries)
    count = len(node.axis.rows)
    ends = np.searchsorted(lower[kept], np.arange(count + 1))
    return sparse.csr_array((entries[kept], upper[kept], ends), (count, len(node.upper_axis.rows)))


def _about_means(axis: tree.Axis, rows: Array, shares: Array, moved: Array, rates: Array) -> Array:
    """Return the sum over queries of the Gram matrices of rows about their means."""
    query = axis.query[rows]
    whole = _or_one(np.bincount(query, shares, axis.count))
    by_query = sparse.csr_array((shares, (query, np.arange(len(rows)))), (axis.count, len(rows)))
    apart = moved - ((by_query @ moved) / whole[:, None])[query]
    return weighted_gram(apart, shares * rates[query])


def _spread(node: tree.Affine, part: tree.Node, x: Array) -> Array:
    if not node.is_level(part):
        return x
    return x if node.axis is None or node.axis.count == 1 else x.repeat(node.axis.sizes, axis=0)


def _column(c: Any) -> Any:
    return c[:, None] if np.ndim(c) else c
