"""Check a game: no move beats a best response, and both sides compute the same payoff."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from convexrank.verification.comparison import ORACLE, SLOPE, STEP, disagree

__all__ = ["check_players"]

Array = np.ndarray


def check_players(
    problem: Any, expected: float, w: Array, rng: np.random.Generator, precision: float
) -> Iterable[str]:
    """Compare responses of both sides of a game with other moves, and the payoff with the model's value.

    ``expected`` is the value of the exact model at the feasible point w, good to ``precision``; other moves are random.

    Yields
    ------
    str
        The disagreements.
    """
    other = problem.project_feasible(rng.normal(size=problem.dimension))
    s, move = problem.best_response(w), problem.best_response(other)
    if disagree(problem.payoff(s, w), -expected, precision):
        yield f"payoff of the best response {problem.payoff(s, w):.10g}, the model gives {-expected:.10g}"
    for rival in (move, problem.supporting_move(w), problem.supporting_move(other)):
        slack = ORACLE * max(1.0, abs(expected))
        if problem.payoff(rival, w) < problem.payoff(s, w) - slack:
            yield f"payoff {problem.payoff(s, w):.10g} of the best response, another move pays less"
        reply = problem.maximizer(rival)
        best = problem.payoff(rival, reply)
        if best < max(problem.payoff(rival, w), problem.payoff(rival, other)) - slack:
            yield f"payoff {best:.10g} of the best reply, another reply wins more"
        if disagree(problem.dual().objective(rival), best):
            yield f"the other side's objective differs from the payoff of the best reply, {best:.10g}"
    yield from _check_replies(problem, s, move, w)


def _check_replies(problem: Any, s: Array, move: Array, w: Array) -> Iterable[str]:
    """Replies along a segment, and the gradient in w by differences of the payoff."""
    reply, slope = problem.replies(s, move)(0.3)
    if float(np.abs(reply - problem.maximizer(s + 0.3 * (move - s))).max()) > ORACLE:
        yield "a reply on the way to another move is not the best reply there"
    expected = problem.payoff(move, reply) - problem.payoff(s, reply)
    if disagree(slope, expected):
        yield f"slope {slope:.8g} of the best payoff on the way to another move, payoffs give {expected:.8g}"
    centre, direction = 0.5 * (w + reply), reply - w
    ahead, behind = (problem.payoff(s, centre + step * direction) for step in (STEP, -STEP))
    expected, curvature = (
        (ahead - behind) / (2.0 * STEP),
        abs(ahead + behind - 2.0 * problem.payoff(s, centre)),
    )
    found = float(problem.payoff_gradient(s, centre) @ direction)
    if not abs(found - expected) <= SLOPE * max(1.0, abs(expected)) + curvature / STEP:
        yield f"slope of the payoff {found:.8g}, differences of it give {expected:.8g}"
