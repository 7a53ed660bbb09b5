r"""Blocks of problems that differ in weights of rows: values, gradients and Hessians of all of them by few products.

Many weightings of the same rows at once, by Newton's and secant steps: bootstraps, folds and strengths of l2.

For a sum of log-sum-exps of groups G_m, weights c of problem b and scores θ, the shares are
:math:`s_{br} = c_{br} e^{t\theta_r} / \sum_{r'} c_{br'} e^{t\theta_{r'}}`. Gradient and Hessian in w are means and
covariances of the rows under these shares: for a block of problems they are products of the shares, shape (B, g), with
the rows, and with the products of all pairs of columns, shape (g, d(d + 1)/2). Such a Hessian costs several gradients.
So problems begin with the Hessian of the mean of their shares, have one of their own where steps are slow, and correct
inverses by what each step changes the gradient by (BFGS). Where weights differ by chance, rows with large shares make
Hessians differ: the others enter by their mean. Problems that this does not solve take Newton's steps with all rows.
Products are in single precision as far as that tells gradients of the length that the tolerance asks for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from convexrank.backend.threads import in_threads, threads_available
from convexrank.modelling.log_sum_exps.weighted_rows import WeightedRows
from convexrank.modelling.log_sum_exps.weighted_terms import WeightedTerm

Array = np.ndarray

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Group:
    """A log-sum-exp: its rows about their mean, products by pairs of columns, and its numbers."""

    mean: Array
    exponents: Array  # (d + 2, g): factors of a point, of what is taken from all exponents, and of 1
    sums: Array  # (g, d + 1): the rows, and 1
    heavy: Array  # places of the rows that make Hessians differ
    products: (
        Array  # (heavy rows + 1, d(d + 1)/2): the products of heavy rows, and the mean of those of the others
    )
    power: float
    factor: float

    @classmethod
    def of(cls, term: WeightedTerm, kind: Any, heavy: Array, bend: Array) -> Self:
        """Return the group of a term in a type of numbers, from what its rows bend at a point."""
        # about the mean, so that an offset of the features costs no digits; shares do not notice
        mean = term.X.mean(axis=0)
        X, one = term.X - mean, np.ones(len(bend))
        light, shares = np.delete(X, heavy, axis=0), np.delete(bend, heavy)
        second = light.T @ (light * (shares / max(shares.sum(), _TINY))[:, None])
        sums = np.column_stack([X, one]).astype(kind)
        some, d = sums[heavy, :-1], X.shape[1]
        products, end = np.empty((len(some) + 1, d * (d + 1) // 2), dtype=kind), 0
        for column in range(d):
            start, end = end, end + d - column
            np.multiply(some[:, column:], some[:, column, None], out=products[:-1, start:end])
            products[-1, start:end] = second[column, column:]
        return cls(
            mean,
            np.vstack([term.power * X.T, -one, term.logs * one]).astype(kind),
            sums,
            heavy,
            products,
            term.power,
            term.factor,
        )

    @property
    def rate(self) -> float:
        """The factor of the slope: of the exponents, and before the logarithm."""
        return self.power * self.factor

    def exponents_at(self, w: Array, taken: Array, out: Array | None = None) -> Array:
        """Return the exponents at points, less a number for each point, shape (B, g)."""
        points = np.column_stack([w, taken, np.ones(len(w))]).astype(self.exponents.dtype)
        return np.matmul(points, self.exponents, out=out)

    def largest(self, w: Array) -> Array:
        """Return the largest exponent at each point."""
        return self.exponents_at(w, np.zeros(len(w))).max(axis=1).astype(np.float64)

    def masses(self, w: Array, taken: Array, counts: Array, memory: Array) -> tuple[Array, Array]:
        """Return the masses of the rows, at one point or one for each problem, and the sums under them."""
        found = self.exponents_at(w, taken, memory[: len(w)])
        found = np.multiply(counts, np.exp(found, out=found), out=memory)
        return found, (found @ self.sums).astype(np.float64)

    @property
    def bend(self) -> float:
        """The factor of the second derivatives."""
        return self.power * self.rate

    def squares(self, part: Part) -> Array:
        """Return the mean products of pairs of columns, times what Hessians take of it, shape (B, d(d + 1)/2)."""
        totals = part.totals.astype(part.masses.dtype)[:, None]
        if len(self.heavy) == part.masses.shape[1]:
            return (part.masses @ self.products[:-1]) * (self.bend / totals)
        heavy = part.masses.take(self.heavy, axis=1)
        light = (totals - heavy.sum(axis=1, keepdims=True)) * self.products[-1]
        return (heavy @ self.products[:-1] + light) * (self.bend / totals)


class Part(NamedTuple):
    """A log-sum-exp of some problems: masses of the rows, their totals and the means of rows under them."""

    masses: Array
    totals: Array
    mean: Array


@dataclass(frozen=True)
class Here:
    """Points of problems, with values, gradients and estimates of gaps, and the log-sum-exps."""

    w: Array
    value: Array
    gradient: Array
    gap: Array
    taken: Array
    parts: list[Part]

    def part(self, chosen: Array) -> Self:
        """Return some of the points, without the log-sum-exps."""
        w, value, gradient, gap = (each[chosen] for each in (self.w, self.value, self.gradient, self.gap))
        return type(self)(w, value, gradient, gap, self.taken[:, chosen], [])


@dataclass(frozen=True)
class Block:
    """Some problems: weights of the rows of each log-sum-exp and their totals, strengths, and constants."""

    groups: list[Group]
    counts: list[Array]
    memory: list[Array]  # for the masses
    counted: Array
    l2: Array
    constant: Array

    @classmethod
    def of(cls, groups: list[Group], problems: WeightedRows, block: slice) -> Self:
        """Return the block of some of the problems."""
        l2, totals = problems.l2[block], problems.totals[block].T
        counts, constant = [], np.zeros(len(l2))
        for place, (group, term) in enumerate(zip(groups, problems.terms, strict=True)):
            one, total = np.broadcast_to(1.0, (len(l2), len(term.rows))), totals[place]
            own = one if problems.weights is None else problems.weights[place][block]
            counts.append(own.astype(group.sums.dtype))
            constant += term.factor * (np.log(total) + term.of_all(total))
        return cls(groups, counts, [np.empty_like(own) for own in counts], totals, l2, constant)

    def part(self, chosen: Array) -> Self:
        """Return some of the problems."""
        counts = [own[chosen] for own in self.counts]
        memory = [own[: len(part)] for own, part in zip(self.memory, counts, strict=True)]
        l2, constant, counted = self.l2[chosen], self.constant[chosen], self.counted[:, chosen]
        return replace(self, counts=counts, memory=memory, counted=counted, l2=l2, constant=constant)

    def at(self, w: Array, taken: Array) -> Here:
        """Evaluate at one point for all or one for each; ``taken`` is about what the largest exponents are there."""
        value, gradient = self.constant + 0.5 * self.l2 * np.vecdot(w, w), self.l2[:, None] * w
        means, parts = [], []
        columns = self.groups, self.counts, self.counted, self.memory, taken
        for group, counts, counted, memory, less in zip(*columns, strict=True):
            masses, sums = group.masses(w, less, counts, memory)
            if not ((sums[:, -1] > 0.0) & (sums[:, -1] < math.inf)).all():  # a step was long
                less = group.largest(w)
                masses, sums = group.masses(w, less, counts, memory)
            totals, mean = sums[:, -1], sums[:, :-1] / sums[:, -1:]
            means.append(less + np.log(totals / counted))
            value = value + group.factor * means[-1] + group.rate * (w @ group.mean)
            gradient = gradient + group.rate * (mean + group.mean)
            parts.append(Part(masses, totals, mean))
        gap = np.vecdot(gradient, gradient) / (2.0 * self.l2)
        return Here(np.broadcast_to(w, gradient.shape), value, gradient, gap, np.array(means), parts)

    def first_inverses(self, here: Here) -> Array:
        """Return the inverse of the Hessian under the mean of all shares, for each l2, shape (B, d, d)."""
        parts = []
        for masses, totals, mean in here.parts:
            shares = (1.0 / (totals * len(totals))).astype(masses.dtype) @ masses
            parts.append(Part(shares[None], np.ones(1), mean.mean(axis=0, keepdims=True)))
        values, vectors = np.linalg.eigh(self._curvatures(parts)[0])
        l2 = self.l2 if np.ptp(self.l2) else self.l2[:1]
        found = (vectors / (np.maximum(values, 0.0) + l2[:, None])[:, None, :]) @ vectors.T
        return np.broadcast_to(found.astype(self.counts[0].dtype), (len(self.l2), *found.shape[1:]))

    def hessians(self, here: Here) -> Array:
        """Return the Hessian of each problem, shape (B, d, d)."""
        found = self._curvatures(here.parts)
        diagonal = np.arange(found.shape[1])
        found[:, diagonal, diagonal] += self.l2[:, None].astype(found.dtype)
        return found

    def _curvatures(self, parts: list[Part]) -> Array:
        pairs = list(zip(self.groups, parts, strict=True))
        squares = np.add.reduce([group.squares(part) for group, part in pairs])
        means = np.stack([part.mean * group.bend**0.5 for group, part in pairs], axis=2).astype(squares.dtype)
        places = _places(means.shape[1])
        found = squares.take(places.ravel(), axis=1).reshape(-1, *places.shape)
        found -= means @ means.swapaxes(1, 2)
        return found


def times(matrices: Array, vectors: Array) -> Array:
    """Return the product of each matrix with its vector, in the precision of the matrices."""
    return (matrices @ vectors.astype(matrices.dtype)[:, :, None])[:, :, 0].astype(np.float64)


@lru_cache(maxsize=8)
def _places(d: int) -> Array:
    """Return where the entries of a symmetric matrix are among those on and above its diagonal."""
    above, below = np.triu_indices(d)
    places = np.empty((d, d), dtype=np.intp)
    places[above, below] = places[below, above] = np.arange(len(above))
    return places


# Numbers of a block of problems, one for each row, at most, and of one that is not worth several threads.
_BLOCK, _FEW = 1 << 20, 1 << 16
# Numbers that the products of pairs of columns may take.
_MOST = 1 << 26
# Steps, and how far below the tolerance the estimate of the gap has to be: the certificate adds rounding.
_STEPS, _BELOW = 12, 0.5
# Gradients this short, as a share of the longest possible one, are not told by single precision.
_SINGLE = 5e-7
# Steps are slow where half of the gaps keep more than this share.
_SLOW = 0.03
# A step is cut where the standard deviation of its changes of exponents is larger: risks are no quadratic there.
_REACH = 2.0
# Secant steps are taken without a look at their end where the success of the last one would leave this share of what is
# allowed; errors of Newton's are squared.
_SURE = 0.1
# How far an inverse times its matrix may be from the identity, which costs digits of a step and not of the answer.
_INEXACT = 0.5
# Rows that have this share of the squares of all rows' weights in Hessians enter these by their mean: it is their share
# of the variance where weights of rows differ by chance.
_LIGHT = 0.003


def points_by_grams(problems: WeightedRows, first: Array, tol: float) -> Array:
    """Solve problems together.

    Parameters
    ----------
    problems : WeightedRows
        The problems.
    first : ndarray, shape (d,) or (B, d)
        Where all of them begin, or each.
    tol : float
        The tolerance of each.

    Returns
    -------
    ndarray, shape (B, d)
        The points, NaN for problems that more steps would be needed for, or more memory.
    """
    found = np.full((len(problems), first.shape[-1]), np.nan)
    # that few rows make Hessians differ is so where weights differ by chance
    for each in (False, True) if problems.weights is not None else (True,):
        open_ = np.any(np.isnan(found), axis=1)
        if open_.any():
            start = first if first.ndim == 1 else first[open_]
            found[open_] = _points(problems if open_.all() else problems.part(open_), start, tol, each)
    return found


def _points(problems: WeightedRows, first: Array, tol: float, each: bool) -> Array:
    """Solve problems together, with Hessians of their own for each step and of all rows, or as few as will do."""
    d, count = first.shape[-1], len(problems)
    heavy = _heavy(problems, first if first.ndim == 1 else first.mean(axis=0), 0.0 if each else _LIGHT)
    if sum([len(rows) for rows, _ in heavy]) * d * (d + 1) // 2 > _MOST:
        return np.full((count, d), np.nan)
    longest = sum([abs(term.rate) * float(term.lengths.max()) for term in problems.terms])
    single = float(np.sqrt(2.0 * problems.l2.min() * _BELOW * tol)) >= _SINGLE * longest
    kind = np.float32 if single else np.float64
    groups = [Group.of(term, kind, *rows) for term, rows in zip(problems.terms, heavy, strict=True)]
    numbers, threads = count * sum([len(term.rows) for term in problems.terms]), threads_available()
    size = count if numbers < _FEW else -(-count // (threads * -(-numbers // (threads * _BLOCK))))
    blocks = [slice(start, start + size) for start in range(0, count, size)]

    def solved(block: slice) -> Array:
        start = first[None] if first.ndim == 1 else first[block]
        with np.errstate(all="ignore"):  # problems whose numbers overflow stay open
            return _solved(Block.of(groups, problems, block), start, tol, each)

    return np.concatenate(list(in_threads(solved, blocks)))


def _solved(block: Block, w: Array, tol: float, each: bool) -> Array:
    """Take steps from one point or one for each; points of problems that stay open are NaN."""
    places, last, own = np.arange(len(block.l2)), None, False
    found, inverse = np.full((len(places), w.shape[1]), np.nan), np.zeros(0)
    taken = np.array([group.largest(w) for group in block.groups])
    least = min(group.factor for group in block.groups)
    for _ in range(_STEPS):
        here = block.at(w, taken)
        enough = _BELOW * tol * np.maximum(1.0, np.abs(here.value))
        done, sure = here.gap <= enough, np.zeros(len(places), dtype=bool)
        if last is None:
            inverse = block.first_inverses(here)
        elif not each:
            inverse = _corrected(inverse, here.w - last.w, here.gradient - last.gradient)
            if np.mean(here.gap <= _SLOW * last.gap) < 0.5:
                if own:
                    break
                inverse, own = _inverses(block.hessians(here), inverse), True
        if each and last is not None:
            step = -np.linalg.solve(block.hessians(here), here.gradient[:, :, None])[:, :, 0]
        else:
            step = -times(inverse, here.gradient)
        moved = np.sqrt(-np.vecdot(step, here.gradient) / least)
        w = here.w + step * (_REACH / np.fmax(moved, _REACH))[:, None]
        if last is not None:  # where one more step like the last one is enough there is no look at its end
            success = here.gap / last.gap
            sure = ~done & (here.gap * (success * success if each else success / _SURE) <= enough)
        found[places[done]], found[places[sure]] = here.w[done], w[sure]
        taken, last = here.taken, here
        if not (open_ := ~(done | sure)).all():
            block, last, places = block.part(open_), here.part(open_), places[open_]
            w, taken = w[open_], taken[:, open_]
            inverse = inverse[open_]
        if not len(places):
            break
    return found


def _heavy(problems: WeightedRows, w: Array, light: float) -> list[tuple[Array, Array]]:
    """Return, for each log-sum-exp, places of rows that make Hessians differ, and all rows' weights in that at w."""
    bends = []
    for term in problems.terms:
        exponents = term.power * (term.X @ w) + term.logs
        masses = np.exp(exponents - exponents.max())
        bends.append(masses * (term.power * term.rate / masses.sum()))
    squares = np.sort(np.concatenate(bends) ** 2)
    sums = np.cumsum(squares)
    least = squares[np.searchsorted(sums, light * sums[-1], side="right")] ** 0.5 if light else 0.0
    return [(np.flatnonzero(bend >= least), bend) for bend in bends]


def _corrected(inverse: Array, step: Array, change: Array) -> Array:
    """Return inverse Hessians after the secant condition of BFGS, step = inverse · change of the gradient."""
    along = np.vecdot(step, change)
    rate = np.where(along > 0.0, 1.0 / along, 0.0)
    pulled = times(inverse, change)
    half = 0.5 * rate * (1.0 + rate * np.vecdot(change, pulled))
    side = rate[:, None] * pulled - half[:, None] * step
    left, right = np.stack([step, side], axis=2), np.stack([side, step], axis=1)
    return inverse - left.astype(inverse.dtype) @ right.astype(inverse.dtype)


def _inverses(matrices: Array, near: Array) -> Array:
    """Return inverses from matrices near them, by Newton and Schulz; those that are not near are computed anew."""
    one = np.eye(matrices.shape[1], dtype=matrices.dtype)
    for _ in range(2):
        rest = one - matrices @ near
        near = near + near @ rest
    # the rest of the result is the square of the last one
    anew = ~(np.square(rest).sum(axis=(1, 2)) < _INEXACT) & np.isfinite(matrices).all(axis=(1, 2))
    near[anew] = np.linalg.inv(matrices[anew].astype(np.float64))
    return near
