r"""Prediction with a learned divergence: the link as a curve, its interval, and φ itself.

The data determine the link g = (φ*)' of a :class:`~convexrank.problems.LearnedDivergence` only at knots. Between them
every monotone curve with slopes in [1/l, 1/s] through all knots fits equally well. So a prediction is an interval, and
one curve has to be chosen: here the piecewise linear curve through the knots.

For the marginal oracle, let u and v be the minimisers in the formula for m (:mod:`~convexrank.links.marginal_cost`) and
k = l − s. A φ of the class is optimal exactly when its link passes through the n points

.. math:: (\tau_i, \sigma_i), \qquad \sigma_i = u_i + v_i/k, \quad \tau_i = v_i + s\,\sigma_i,

which is :math:`(\theta^\uparrow_i, y^\uparrow_i)` for all convex φ, :math:`(v_i + s\,y^\uparrow_i, y^\uparrow_i)` for
strongly convex φ, and :math:`(\theta^\uparrow_i, u_i + \theta^\uparrow_i/l)` for smooth φ. The fitted values
:math:`(\theta_j, s_j)` lie on the straight pieces between these points. A link through the fitted values alone has the
right slope of the objective, but with ``strong`` in general a larger value of it.
"""

from __future__ import annotations

from convexrank.links.fitting import fit_link, project_link
from convexrank.links.link import Link

__all__ = ["Link", "fit_link", "project_link"]
