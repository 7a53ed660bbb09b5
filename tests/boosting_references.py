"""Figure 2 of the 2009 paper pair by pair, and the data and the driver that the tests of boosting share."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy import optimize

from convexrank.solvers import Boosting
from tests.tolerances import tolerance

ROUNDS = tolerance("boosting_rounds")


def run(problem, rounds, solver=None, x0=None):
    """Do a number of rounds, fewer if they stall; return the rankers, the steps and the states."""
    solver = solver or Boosting()
    states = [solver.init(problem, np.zeros(problem.dimension) if x0 is None else x0)]
    while len(states) <= rounds:
        state = solver.step(problem, states[-1])
        if state.stalled:
            break
        states.append(state)
    done = states[-1].memory.rounds
    return SimpleNamespace(rankers=done.rankers, alphas=done.alphas, states=states)


def agree(found, expected) -> bool:
    rankers, alphas = expected
    same = len(found.rankers) == len(rankers) and found.rankers.tolist() == list(rankers)
    return same and np.allclose(found.alphas, alphas, rtol=ROUNDS, atol=ROUNDS)


def example(kind, seed=3):
    """Draw noisy data; at the default seed they are not even quasi-separable."""
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(28, 5))
    y = H[:, 0] - H[:, 1] + 1.5 * rng.normal(size=28) > 0
    if kind != "real":
        H = (H > 0).astype(float)
    if kind == "ties":  # copies and complements: equal sizes of edges
        H = np.column_stack([H, H[:, ::-1], 1.0 - H])
    return H, y


def figure_2(H, y, p, rounds, last_of_ties=False):
    """Figure 2 of the 2009 paper as printed, with arrays over all pairs."""
    M = H[y][:, None, :] - H[~y][None, :, :]
    d = np.full(M.shape[:2], 1.0 / M[..., 0].size)
    rankers, alphas = [], []
    for _ in range(rounds):
        weights = d * d.sum(axis=0) ** (p - 1)
        sizes = np.abs(np.einsum("ik,ikj->j", weights, M))
        ties = np.flatnonzero(sizes >= sizes.max() * (1 - ROUNDS))
        j = int(ties[-1] if last_of_ties else ties[0])

        def equation_1(alpha, m, d=d):
            moved = d * np.exp(-alpha * m)
            return float((moved.sum(axis=0) ** (p - 1)) @ (m * moved).sum(axis=0))

        ends = -1.0, 1.0
        while equation_1(ends[0], M[..., j]) < 0 or equation_1(ends[1], M[..., j]) > 0:
            ends = 2 * ends[0], 2 * ends[1]
            if ends[1] > 64:
                raise ValueError("the step is infinite; this reference needs data that are not separable")
        alpha = optimize.brentq(equation_1, *ends, args=(M[..., j],), xtol=1e-14, rtol=1e-14)
        d = d * np.exp(-alpha * M[..., j])
        d /= d.sum()
        rankers.append(j)
        alphas.append(alpha)
    return rankers, alphas
