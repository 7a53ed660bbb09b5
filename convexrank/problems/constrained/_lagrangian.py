"""The Lagrangian of a constraint on rates at a fixed multiplier: hinges of both classes, in any proportion."""

from __future__ import annotations

from convexrank import losses
from convexrank.modelling import Groups, Node, apply, mean
from convexrank.problems.bipartite._base import Bipartite

_HINGE = losses.Hinge().phi


class WeightedHinges(Bipartite):
    r"""The risk :math:`u\,\tfrac1I\sum_i(1-f_i)_+ + v\,\tfrac1K\sum_k(1+f_k)_+`, u and v not both 0.

    Parameters
    ----------
    X, y, l2, l1, qid, sample_weight, dtype : as for :class:`PNormPush`
        As for :class:`PNormPush`.
    u, v : float
        The weights of the two means, at least 0.
    """

    u: float = 1.0
    v: float = 1.0

    def risk(self, f: Groups) -> Node:
        """The means of both classes with their weights; one of weight 0 is left out."""
        parts = (self.u, -f.positive), (self.v, f.negative)
        first, *more = [mean(apply(_HINGE, scores)) * weight for weight, scores in parts if weight > 0.0]
        return first + more[0] if more else first
