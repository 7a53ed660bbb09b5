"""A solve that several processes run together: they ask, stop and certify at the same step."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from convexrank.core.capabilities import CertifiedInParts, Solvable
from convexrank.core.loop import Monitor, Options, Solver, State, certificate_of, iterate
from convexrank.core.results import Certificate, Solution, Witness
from convexrank.data.shards.agreement import arguments_of, asked_of, check_alike, check_arguments, sheet
from convexrank.data.shards.ranks import Ranks

__all__ = ["iterate_together"]

Array = np.ndarray


class _TogetherMonitor(Monitor):
    """A monitor whose decisions are those of all ranks, whatever their callbacks and clocks say."""

    def __init__(
        self, ranks: Ranks, problem: Solvable, solver: Any, options: Options, x0: Array | None = None
    ) -> None:
        super().__init__(
            problem, solver, replace(options, callback=self._wants_to_stop, time_limit=math.inf), x0
        )
        self._ranks, self._callback = ranks, options.callback

    def _wants_to_stop(self, state: State) -> bool:
        """Ask the callback of each rank; raise on all where one fails, is interrupted, or is out of time."""

        def asked() -> Array:
            stop = self._callback is not None and self._callback(state) is True
            return np.array([float(stop)])

        return bool(self._ranks.gather(asked, 1, np.ascontiguousarray(state.x)).any())

    def prove(self, problem: Solvable, x: Array, witness: Witness | None, residual: float) -> Certificate:
        """Put the certificate together from a part by each rank."""
        if "CertifiedInParts" not in problem.capabilities:
            return certificate_of(problem, x, witness, residual)
        ranks, certified = self._ranks, cast(CertifiedInParts, problem)
        part = ranks.each(lambda: certified.certificate_part(x, ranks.index, ranks.count))
        return certified.certificate_of_parts(
            x, ranks.gather(lambda: part, len(part), np.ascontiguousarray(x))
        )


def iterate_together(
    ranks: Ranks, problem: Solvable, solver: Solver[Any], x0: Array, options: Options
) -> Solution:
    """Run the loop on every rank; what differs between them is refused before.

    Parameters
    ----------
    ranks : Ranks
        The processes.
    problem, solver, x0, options : as for :func:`~convexrank.core.loop.iterate`
        What to solve, from where, and when to stop.

    Returns
    -------
    Solution
        The same on every rank, to the last bit.

    Raises
    ------
    ValueError
        When versions, or the problem or what was asked for, differ between ranks.
    RankError
        When another rank fails, is silent, or has another starting point.
    """
    heard = ranks.exchange(
        [
            sheet(None, ranks.timeout, None),
            [type(problem).__name__, arguments_of(problem) | asked_of(solver, options)],
        ]
    )
    check_alike([said for said, _ in heard])
    check_arguments([words for _, words in heard])
    with ranks.running(options.time_limit):
        return iterate(problem, solver, x0, options, partial(_TogetherMonitor, ranks))
