r"""Many weightings of the same rows at once, by Newton's and secant steps: bootstraps, folds and strengths of l2.

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

import numpy as np

from convexrank.backend.threads import in_threads, threads_available
from convexrank.modelling.log_sum_exps.weighted_rows import WeightedRows
from convexrank.solvers._weighted_blocks import Block, Group, times

Array = np.ndarray

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
