"""The PageRank game in JAX: products with P over the edges, φ and its best replies, as pytrees of their data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from convexrank.backend.jax_oracles import by_value
from convexrank.divergences import PolytopeEntropy
from convexrank.problems.page_rank_game._payoff import PageRankPayoff
from convexrank.regularizers import L1Ball, L2Ball, Penalty
from convexrank.regularizers.on_device import proximal_map
from convexrank.solvers.jitted.programs.game import Game

# Halvings of the interval in which the level of the entries is looked for.
_HALVINGS = 80


def game_on_device(game: PageRankPayoff) -> Game:
    """Return the functions of a game for JAX.

    Parameters
    ----------
    game : PageRankGame
        The game; its divergence is separable, or the entropy of a polytope.

    Returns
    -------
    Game
        Pytrees; a program that takes them serves graphs of the same numbers of nodes and edges.
    """
    walk = _walk(game)
    ways = {"1": (_corner, _largest), "2": (_unit, jnp.linalg.norm), "inf": (jnp.sign, _taxicab)}
    duality_map, dual = map(Partial, ways[game.norm])
    values = np.asarray(game.recommendations)
    return Game(
        Partial(_heights, walk, values),
        _reply(game),
        Partial(_best_response, duality_map, walk, game.radius),
        Partial(_loss, dual, walk, values, game.radius),
    )


def dual_on_device(game: PageRankPayoff) -> Callable[[Any], Any]:
    """Return φ*(a + (I − Pᵀ)s) as a JAX function of s, whose gradient is w − Pw for the best reply w."""
    made = game_on_device(game)
    return Partial(_conjugate, made.heights, made.reply)


def projection_on_device(game: PageRankPayoff, radius: float | None) -> Callable[[Any, Any], Any]:
    """Return the projection of s on the ball of a radius as a JAX function of (s, step); s itself without one."""
    if radius is None:
        return proximal_map(Penalty())
    if game.norm == "inf":
        return Partial(_clipped, radius)
    return proximal_map(Penalty(ball=L1Ball(radius) if game.norm == "1" else L2Ball(radius)))


def _walk(game: PageRankPayoff) -> tuple[Any, ...]:
    """Edges with their chances, and where dangling nodes and the teleport go."""
    operator, n = game.operator, game.dimension
    sources, targets, linked = game.graph.edges()
    dangling = np.zeros(n)
    dangling[game.graph.dangling] = operator.alpha
    chances = operator.alpha * linked * operator.share[sources]
    escape = np.broadcast_to(np.asarray(operator.escape, dtype=np.float64), n)
    teleport = (1.0 - operator.alpha) * operator.teleport
    return np.asarray(sources), np.asarray(targets), chances, dangling, np.array(escape), np.array(teleport)


def _difference(walk: Any, w: Any) -> Any:
    sources, targets, chances, dangling, escape, teleport = walk
    moved = jax.ops.segment_sum(chances * w[sources], targets, w.shape[0])
    return w - (moved + (dangling @ w) * escape + jnp.sum(w) * teleport)


def _heights(walk: Any, values: Any, s: Any) -> Any:
    sources, targets, chances, dangling, escape, teleport = walk
    pulled = jax.ops.segment_sum(chances * s[targets], sources, s.shape[0])
    return values + s - (pulled + dangling * (escape @ s) + teleport @ s)


def _best_response(duality_map: Any, walk: Any, radius: Any, w: Any) -> Any:
    return -radius * duality_map(_difference(walk, w))


def _loss(dual: Any, walk: Any, values: Any, radius: Any, w: Any) -> Any:
    return radius * dual(_difference(walk, w)) - w @ values


def _conjugate(heights: Any, reply: Any, s: Any) -> Any:
    z = heights(s)
    w, potential = jax.lax.stop_gradient(reply(z))
    return z @ w - potential


def _clipped(radius: Any, s: Any, step: Any) -> Any:
    return jnp.clip(s, -radius, radius)


def _corner(r: Any) -> Any:
    place = jnp.argmax(jnp.abs(r))
    return jnp.zeros_like(r).at[place].set(jnp.sign(r[place]))


def _unit(r: Any) -> Any:
    length = jnp.linalg.norm(r)
    return jnp.where(length > 0.0, r / jnp.where(length > 0.0, length, 1.0), 0.0)


def _largest(r: Any) -> Any:
    return jnp.max(jnp.abs(r))


def _taxicab(r: Any) -> Any:
    return jnp.sum(jnp.abs(r))


def _reply(game: PageRankPayoff) -> Callable[[Any], tuple[Any, Any]]:
    """The best replies: a mixture of vertices, softmax, or entries at a level found by halving."""
    generator, n = game.generator, game.dimension
    if isinstance(generator, PolytopeEntropy):
        return Partial(_mixture, np.asarray(generator.vertices, dtype=np.float64))
    weights = np.array(np.broadcast_to(generator._weights, n), dtype=np.float64)
    between = Partial(by_value(generator.divergence._between))
    potential = Partial(_separable, between, weights, np.array(generator._reference))
    if generator.divergence.total is not None and generator.divergence.weights is None:
        return Partial(_with_potential, Partial(jax.nn.softmax), potential)
    middle = weights * float(generator.divergence._slope(np.array([1.0 / n]))[0])
    point = Partial(by_value(generator.divergence._point))
    return Partial(
        _with_potential, Partial(_at_level, point, weights, middle, np.array(generator._ends)), potential
    )


def _mixture(vertices: Any, z: Any) -> tuple[Any, Any]:
    heights = vertices @ z
    w = jax.nn.softmax(heights) @ vertices
    return w, z @ w - jax.scipy.special.logsumexp(heights)


def _with_potential(points: Any, potential: Any, z: Any) -> tuple[Any, Any]:
    w = points(z)
    return w, potential(w)


def _at_level(point: Any, weights: Any, middle: Any, ends: Any, z: Any) -> Any:
    def entries(level: Any) -> Any:
        return jnp.clip(point(jnp.clip((z - level) / weights, ends[0], ends[1])), 0.0, 1.0)

    def halved(_: Any, pair: Any) -> Any:
        level = 0.5 * (pair[0] + pair[1])
        much = jnp.sum(entries(level)) > 1.0
        return jnp.where(much, level, pair[0]), jnp.where(much, pair[1], level)

    # at the least of these levels every entry is 1/n or more, at the greatest every entry is 1/n or less
    even = z - middle
    found = entries(jax.lax.fori_loop(0, _HALVINGS, halved, (jnp.min(even), jnp.max(even)))[0])
    return found / jnp.sum(found)


def _separable(between: Any, weights: Any, reference: Any, w: Any) -> Any:
    point, value, slope = reference
    return jnp.sum(weights * (value + slope * (w - point) + between(w, jnp.full_like(w, point))))
