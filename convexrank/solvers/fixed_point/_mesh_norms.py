"""Maps of norms over a mesh of JAX's devices, in logarithms: L_{p,q} ranks and trust."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from convexrank.backend.compilation import jit
from convexrank.backend.jax_oracles import with_x64
from convexrank.core.capabilities import FixedPoint
from convexrank.solvers.fixed_point._mesh import AXIS, OnMesh, everywhere, on_host, rounds_over
from convexrank.solvers.graph_faces import NormFixedPoint

Array = np.ndarray


@dataclass(frozen=True)
class NormsOnMesh:
    """Arrays of a run, for each part."""

    problem: FixedPoint
    parts: tuple[OnMesh, ...]
    constants: tuple[tuple[float, ...], ...]
    seeded: bool

    @classmethod
    def prepare(cls, problem: FixedPoint, mesh: Any, beat: Callable[[], None]) -> NormsOnMesh:
        """Put the edges on the devices, with what belongs to nodes."""
        parts, constants = [], []
        given = problem.face(NormFixedPoint).parts
        for part in given:
            image, power = part.image, _power(part.image.p)
            made = OnMesh.empty(image.graph, mesh, beat)
            factor = None if image.graph.weights is None else image.log_factors
            edges = made.put_edges(image.graph, factor, 0.0)
            vectors = [made.pad(power * entries, -math.inf) for entries in image.log_entries]
            # without seeds the same place says which nodes are no padding
            vectors.append(made.pad(np.ones(image.graph.n) if part.seeds is None else part.seeds))
            parts.append(replace(made, edges=edges, nodes=tuple(vectors)))
            constants.append((image.p, image.theta, *image.log_constants, part.gamma))
        seeded = given[0].seeds is not None
        return cls(problem, tuple(parts), tuple(constants), seeded)

    def pad(self, x: Array) -> tuple[Any, ...]:
        """Put the parts of x on the devices."""
        pieces = np.asarray(x, dtype=np.float64).reshape(len(self.parts), -1)
        return tuple(part.pad(piece) for part, piece in zip(self.parts, pieces, strict=True))

    def advance(self, x: tuple[Any, ...], rounds: int) -> tuple[Any, Array, float]:
        """Apply the maps; return x on the devices and on the host, and the length of the last step."""
        moved, last, before = [], [], []
        infinite = self.constants[0][0] == math.inf
        with with_x64():
            for part, mine, numbers in zip(self.parts, x, self.constants, strict=True):
                function = _jitted_norms(part.mesh, infinite, self.seeded, part.is_small)
                given = np.array([_power(numbers[0]), *numbers[1:]])
                there, *found = function(part.edges, part.nodes, given, mine, rounds)
                moved.append(there)
                for kept, values in zip((last, before), found, strict=True):
                    kept.append(part.by_node(on_host(values)))
        point = np.concatenate(last)
        return tuple(moved), point, self.problem.distance(point, np.concatenate(before))


def _power(p: float) -> float:
    return 1.0 if math.isinf(p) else p


@lru_cache(maxsize=16)
def _jitted_norms(mesh: Any, infinite: bool, seeded: bool, small: bool) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    together = jnp.maximum if infinite else jnp.logaddexp

    def over_rows(edges: Any, sent: Any, size: int) -> Any:
        """Logarithm of the sum, or the largest, of what is sent along the edges into each row."""
        planes, factors, rows = edges
        logs = sent[planes] if factors is None else sent[planes] + factors
        top = jax.ops.segment_max(jnp.max(logs, axis=0), rows, size, indices_are_sorted=True)
        if infinite:
            return top
        shift = jnp.where(jnp.isfinite(top), top, 0.0)
        terms = jnp.sum(jnp.exp(logs - shift[rows]), axis=0)
        return shift + jnp.log(jax.ops.segment_sum(terms, rows, size, indices_are_sorted=True))

    def over_all(logs: Any, largest: bool = False) -> Any:
        top = jax.lax.pmax(jnp.max(logs), AXIS)
        if largest:
            return top
        shift = jnp.where(jnp.isfinite(top), top, 0.0)
        return shift + jnp.log(jax.lax.psum(jnp.sum(jnp.exp(logs - shift)), AXIS))

    def map_of(edges: Any, nodes: Any, numbers: Any) -> Any:
        entries, common, seeds = nodes
        power, theta, with_sum, log_scale, beside, gamma = numbers

        def image(r: Any) -> Any:
            logs, total = power * jnp.log(r), jnp.log(jax.lax.psum(jnp.sum(r), AXIS))
            inflow = over_rows(edges, everywhere(logs + entries), r.shape[0])
            shared = together(over_all(logs + common, infinite), power * (with_sum + total))
            norm = theta / power * together(inflow, shared)
            found = jnp.logaddexp(log_scale + norm, beside + theta * total)
            if seeded:
                return gamma * jnp.exp(found) + seeds
            found = jnp.where(seeds > 0.0, found, -jnp.inf)
            return jnp.exp(found - over_all(found))

        return image

    return jit(rounds_over(mesh, map_of, lambda _, before: everywhere(before)), small)
