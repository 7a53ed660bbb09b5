"""Proofs in the strict sense: values and lower bounds in ball arithmetic, from the data as exact rational numbers.

Every number of the data, and every entry of a point, is a float, hence a rational number. A ball (``flint.arb``) is an
interval with a midpoint of the requested number of bits, and every operation on balls encloses the true result. What
is computed here is therefore a theorem about the numbers given, not an estimate.

A formulation takes part by one method, ``ball_tangent(scores)``: its risk and a tangent, over balls, written from the
definition (:class:`convexrank.proof.balls.Tangent`). All else follows from it. python-flint is needed, the extra
``proof``.
"""
