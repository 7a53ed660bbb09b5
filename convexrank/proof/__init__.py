"""Proofs in the strict sense: values and lower bounds in ball arithmetic, from the data as exact rational numbers.

Every number of the data, and every entry of a point, is a float, hence a rational number. A ball (``flint.arb``) is an
interval with a midpoint of the requested number of bits, and every operation on balls encloses the true result. The
computed bounds are therefore theorems about the given numbers, not estimates.

A formulation supports proofs by one method, ``_ball_tangent(scores)``: its risk and a tangent in ball arithmetic,
written from the definition (:class:`convexrank.proof.balls.Tangent`). Proofs need python-flint, the extra ``proof``.
"""
