"""No-regret play as a loop on the device: the learner that follows the leader, with a line search.

A game is four functions as pytrees: ``heights(s)``, affine in s, with payoff ⟨heights(s), w⟩ − φ(w); ``reply(z)``, the
w that maximises ⟨z, w⟩ − φ(w), and φ(w); ``best_response(w)``; and ``loss(w)``, minus the least of the payoffs of w
beside φ(w).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from convexrank.solvers.jitted.programs.accelerated import repeated

# Halvings of the segment in which the share of the newest move is looked for.
_HALVINGS = 56


class Game(NamedTuple):
    """Functions that a round calls, each a pytree that JAX can call."""

    heights: Callable[[Any], Any]
    reply: Callable[[Any], tuple[Any, Any]]
    best_response: Callable[[Any], Any]
    loss: Callable[[Any], Any]


class Play(NamedTuple):
    """The average of the moves s, the best reply w to it, the objective at w, and the gap between the two."""

    s: Any
    x: Any
    value: Any
    gap: Any
    stalled: Any


def start(game: Game, s: Any) -> Play:
    """Return the state at a first s, which counts for nothing."""
    return _at(game, s, game.heights(s), jnp.zeros((), bool))


def advance(game: Game, play: Play, count: Any) -> Play:
    """Take so many rounds: the best response, the share of it that lowers the greatest payoff most, the reply."""

    def step(play: Play) -> Play:
        move = game.best_response(play.x)
        begin, end = game.heights(play.s), game.heights(move)
        change = end - begin

        def slope(share: Any) -> Any:
            return change @ game.reply(begin + share * change)[0]

        def halved(_: Any, ends: Any) -> Any:
            middle = 0.5 * (ends[0] + ends[1])
            rises = slope(middle) > 0.0
            return jnp.where(rises, ends[0], middle), jnp.where(rises, middle, ends[1])

        zero, one = jnp.zeros((), play.s.dtype), jnp.ones((), play.s.dtype)
        low, high = jax.lax.fori_loop(0, _HALVINGS, halved, (zero, one))
        share = jnp.where(slope(one) <= 0.0, one, jnp.where(slope(zero) >= 0.0, zero, 0.5 * (low + high)))
        s = play.s + share * (move - play.s)
        return _at(game, s, begin + share * change, share == 0.0)

    return repeated(step, play, count)


def _at(game: Game, s: Any, z: Any, stalled: Any) -> Play:
    w, potential = game.reply(z)
    value = potential + game.loss(w)
    return Play(s, w, value, z @ w - potential + value, stalled)
