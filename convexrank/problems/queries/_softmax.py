r"""The risk :math:`\sum_i c_i\,\mathrm{KL}`: what ListNet and the I-divergence with offsets have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.gram import weighted_gram
from convexrank.backend.jax_oracles import pad
from convexrank.core.score_model import Curvature, ScoreModel
from convexrank.problems._linear_scores import RiskData
from convexrank.problems._second_order import SecondOrder
from convexrank.problems._streams import refuse_chunks
from convexrank.problems.duals._blocks import Conjugate, Shares
from convexrank.problems.queries._base import QueryScores, query_sums

__all__ = ["SoftmaxQueries"]

Array = np.ndarray


def _risk(data: Any, scores: Any) -> Any:
    import jax
    import jax.numpy as jnp

    query, targets, weights, constant = data
    count = weights.shape[0]
    # padded rows belong to no query: their number is out of range, and such rows are left out of the reductions
    tops = jax.lax.stop_gradient(jax.ops.segment_max(scores, query, count))
    tops = jnp.where(weights > 0, tops, 0.0)
    # entry count + 1 of the shifts is for padded rows
    shifts = jnp.append(tops, jnp.inf)[query]
    sums = jax.ops.segment_sum(jnp.exp(scores - shifts), query, count)
    logs = tops + jnp.log(jnp.where(weights > 0, sums, 1.0))
    return constant + weights @ logs - targets @ scores


@dataclass(frozen=True, eq=False)
class SoftmaxQueries(SecondOrder, QueryScores):
    r"""Base of the risks :math:`\sum_i c_i\,\mathrm{KL}(q_i \,\|\, \mathrm{softmax}(s_i))` over queries i.

    A subclass gives the distributions :math:`q_i` and the weights :math:`c_i`.
    """

    takes_chunks = True

    depends_on_differences = True

    #: Softmax and squares have their curvature in closed form.
    states_curvature = True

    @property
    def distributions(self) -> Array:
        """The target distributions, query by query; each sums to 1."""
        raise NotImplementedError

    @property
    def query_weights(self) -> Array:
        """The weight of each query."""
        raise NotImplementedError

    @cached_property
    def _weighted_targets(self) -> Array:
        return np.repeat(self.query_weights, self.groups.sizes) * self.distributions

    @cached_property
    def _constant(self) -> float:
        """The part of the risk that does not depend on the scores."""
        q = self.distributions
        return float(self._weighted_targets @ np.log(np.where(q > 0, q, 1.0)))

    @cached_property
    def conjugate(self) -> Conjugate | None:
        """A distribution over the rows of each query, beside its target."""
        parts = [self._rows[self.stretch(query)] for query in range(len(self.groups))]
        blocks = tuple(
            Shares(rows, 1.0, weight, np.zeros(len(rows)), self.distributions[self.stretch(query)])
            for query, (rows, weight) in enumerate(zip(parts, self.query_weights.tolist(), strict=True))
        )
        return Conjugate(blocks, self.rows, -self.join((self._weighted_targets,)), -self._constant)

    @cached_property
    def jax_risk(self) -> RiskData:
        """The risk as a JAX function of the scores, query by query."""
        (rows, queries), kind = self.padded_sizes, self.X.dtype
        data = (
            pad(self.groups.query, rows, queries),
            pad(self._weighted_targets.astype(kind), rows),
            pad(self.query_weights.astype(kind), queries),
            np.asarray(self._constant, kind),
        )
        return RiskData(_risk, data, (rows,))

    def _softmax(self, scores: Array) -> tuple[Array, Array]:
        """Softmax of each query, and the log-sum-exp of each."""
        groups = self.groups
        tops = groups.maxima(scores)
        terms = np.exp(scores - tops[groups.query])
        sums = groups.sums(terms)
        return terms / sums[groups.query], tops + np.log(sums)

    def query_oracle(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, all queries at once."""
        with np.errstate(invalid="ignore", over="ignore"):
            shares, logs = self._softmax(scores)
            value = self._constant + float(self.query_weights @ logs - self._weighted_targets @ scores)
            return value, self.query_weights[self.groups.query] * shares - self._weighted_targets

    def score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores; the softmax of each query takes one product away."""
        value, gradient = self.risk_and_score_gradient(scores)
        shares, _ = self._softmax(self.split(np.asarray(scores, dtype=np.float64))[0])
        diagonal = self.join((self.query_weights[self.groups.query] * shares,))
        columns = self._by_query(shares)
        return ScoreModel(value, gradient, Curvature(diagonal, columns, self.query_weights, steepness=1.0))

    def _by_query(self, values: Array) -> sparse.csc_array:
        """One column per query, with values at the rows that count, given query by query."""
        shape = (self.rows, len(self.groups))
        return sparse.csc_array((values, self._rows, self.groups.offsets), shape=shape)

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of risk + l2/2·‖w‖². O(n d²)."""
        refuse_chunks(self.X, "second derivatives")
        w = self.check_point(w)
        value, gradient = self.smooth_value_and_gradient(w)
        shares = self._softmax(self._ordered(w))[0]
        rows, groups = self.rows_of_queries, self.groups
        weighted = self.query_weights[groups.query] * shares
        means = query_sums(groups, shares, rows)
        curvature = weighted_gram(rows, weighted) - weighted_gram(means, self.query_weights)
        return value, gradient, curvature + self.l2 * np.eye(self.dimension)

    def risk_model(self, scores: Any) -> tuple[Any, list[Any]]:
        """Return the risk as a cvxpy expression, one log-sum-exp for each query."""
        import cvxpy as cp

        ordered = scores[self._rows]
        logs = [cp.log_sum_exp(ordered[self.stretch(query)]) for query in range(len(self.groups))]
        return self._constant + self.query_weights @ cp.hstack(logs) - self._weighted_targets @ ordered, []

    def reference_query(self, query: int, scores: Array) -> tuple[float, Array]:
        """Return the weighted divergence of one query, and its gradient."""
        target, weight = self.distributions[self.stretch(query)], self.query_weights[query]
        log_shares = scores - np.logaddexp.reduce(scores)
        named = target > 0
        divergence = float(target[named] @ (np.log(target[named]) - log_shares[named]))
        return weight * divergence, weight * (np.exp(log_shares) - target)

    @cached_property
    def attained(self) -> bool:
        """Whether the risk reaches its infimum: it does when no target is zero."""
        return bool((self.distributions > 0).all())

    def is_separating(self, w: Array) -> bool:
        """Whether each query has one row with a target, and it is strictly on top."""
        if self.attained:
            return False
        scores, groups, named = self.split(self.scores(w))[0], self.groups, self.distributions > 0
        lowest = groups.minima(np.where(named, scores, np.inf))
        highest = groups.maxima(np.where(named, -np.inf, scores))
        return bool((groups.sums(named.astype(int)) == 1).all() and (lowest > highest).all())

    def ordering(self) -> tuple[Any, Any]:
        """Return the directions that never raise the risk: rows with a target tie on top of their query."""
        named = np.flatnonzero(self.distributions > 0)
        rows, groups = self.rows_of_queries, self.groups
        signs = np.r_[np.ones(len(named)), -np.ones(groups.rows)]
        picked = rows[np.r_[named, np.arange(groups.rows)]]
        columns = np.r_[groups.query[named], groups.query]
        thresholds = sparse.csr_array(
            (-signs, (np.arange(len(signs)), columns)), shape=(len(signs), len(groups))
        )
        return sparse.diags_array(signs) @ picked, thresholds
