"""The ends of all intervals of scores: a Markov decision process for each node, by relative value iteration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.progress import progress_bar
from convexrank.backend.threads import in_threads
from convexrank.consensus.candidates import Absorbed
from convexrank.graphs.compiled_sums import IDS, INT, LONG, NOTHING, REAL, REAL_OUT, compiled

Array = np.ndarray

# Ends are known this closely: scores are shares of 1.
_CLOSE = 1e-13
# Nodes that a thread takes at a time.
_BLOCK = 16


@dataclass(frozen=True, eq=False)
class Choices:
    """The recommendations open to every node: one of some rows, or a row plus shares of the remaining room.

    Parameters
    ----------
    firsts : ndarray of int, shape (n + 1,)
        Where the rows of each node begin.
    rows : csr_array, shape (m, n)
        Candidates; or two rows of a node, what it recommends at least, and the room above.
    left : ndarray, shape (n,)
        For two such rows, the share that is left for the room; −1 for candidates.
    """

    firsts: Array
    rows: Any
    left: Array


def choices_of(absorbed: Absorbed, verbose: bool = False) -> Choices | None:
    """List what the nodes may recommend; None where the corners of a set are too many to be listed."""
    sets, blocks, left = absorbed.sets, [], np.full(absorbed.n, -1.0)
    for node in progress_bar(verbose, what="corners", over=range(absorbed.n)):
        system = sets.system(node)
        if system is not None and not len(system[1]):
            _, _, lower, upper = system
            blocks.append(np.array([lower, upper - lower]))
            left[node] = max(1.0 - float(lower.sum()), 0.0)
        elif (corners := sets.listed(node)) is not None:
            blocks.append(corners)
        else:
            return None
    rows = sparse.csr_array(sparse.vstack([sparse.csr_array(block) for block in blocks]))
    return Choices(np.cumsum([0, *map(len, blocks)]), rows, left)


@compiled(NOTHING, LONG, LONG, IDS, REAL, REAL, REAL, REAL, LONG, REAL_OUT, REAL_OUT, INT)
def _sweeps(
    firsts: Array,
    starts: Array,
    columns: Array,
    shares: Array,
    left: Array,
    teleport: Array,
    numbers: Array,
    targets: Array,
    low: Array,
    high: Array,
    most: int,
) -> None:
    """Write bounds on the end of each target's scores; ``numbers`` are α, the sign, and the width to reach.

    With x the expected visits from each node, T x = e + α·best(x): T x less x bounds how far the fixed point is.
    """
    n, alpha, sign, close = len(left), numbers[0], numbers[1], numbers[2]
    x, y, room, taken = np.empty(n), np.empty(n), np.empty(len(columns)), np.arange(len(columns))
    for place in range(len(targets)):
        x[:] = 0.0
        x[targets[place]] = 1.0
        for _ in range(most):
            least, greatest, mean = np.inf, -np.inf, 0.0
            for node in range(n):
                best = -np.inf
                first, last = firsts[node], firsts[node + 1]
                if left[node] >= 0.0:
                    last = first + 1
                for row in range(first, last):
                    total = 0.0
                    for k in range(starts[row], starts[row + 1]):
                        total += shares[k] * x[columns[k]]
                    best = max(best, sign * total)
                rest = left[node]
                if rest > 0.0:
                    begin, end = starts[last], starts[last + 1]
                    for k in range(begin, end):
                        # by insertion, the best first; nearly in order since the sweep before
                        entry, spot = taken[k], k
                        worth = sign * x[columns[entry]]
                        while spot > begin and room[spot - 1] < worth:
                            room[spot], taken[spot] = room[spot - 1], taken[spot - 1]
                            spot -= 1
                        room[spot], taken[spot] = worth, entry
                    for spot in range(begin, end):
                        share = min(rest, shares[taken[spot]])
                        best += share * room[spot]
                        rest -= share
                        if rest <= 0.0:
                            break
                y[node] = alpha * sign * best
                if node == targets[place]:
                    y[node] += 1.0
                least, greatest = min(least, y[node] - x[node]), max(greatest, y[node] - x[node])
                mean += teleport[node] * y[node]
            low[place] = (1.0 - alpha) * mean + alpha * least
            high[place] = (1.0 - alpha) * mean + alpha * greatest
            if alpha * (greatest - least) <= close:
                break
            x[:] = y


def extremes(
    choices: Choices, alpha: float, teleport: Array, targets: Array, sign: float
) -> Iterator[tuple[slice, Array, Array]]:
    """Bound the greatest (sign 1) or least (sign −1) score of each target, in blocks, which threads share.

    Yields
    ------
    tuple
        Places among the targets, and lower and upper bounds of the requested quantities.
    """
    rows = choices.rows
    places = np.asarray(choices.firsts, dtype=np.int64), np.asarray(rows.indptr, dtype=np.int64)
    entries = np.asarray(rows.indices, dtype=np.int32), np.asarray(rows.data, dtype=np.float64)
    whole = (*places, *entries, choices.left, np.asarray(teleport, dtype=np.float64))
    numbers = np.array([alpha, sign, _CLOSE])
    most = 2 + int(np.ceil(np.log(0.1 * _CLOSE * (1.0 - alpha)) / np.log(alpha))) if alpha > 0.0 else 2

    def run(block: slice) -> tuple[slice, Array, Array]:
        mine = np.ascontiguousarray(targets[block], dtype=np.int64)
        low, high = np.empty(len(mine)), np.empty(len(mine))
        _sweeps(*whole, numbers, mine, low, high, most)
        return block, low, high

    blocks = [slice(start, start + _BLOCK) for start in range(0, len(targets), _BLOCK)]
    yield from in_threads(run, blocks)
