r"""Convex risk minimization for ranking: Proposition 12, refuted and corrected, and the ranking risk.

For the empirical minimiser f_n and the best f* of a class, :math:`A(f_n)-A(f^*) \le \sup_f(A-A_n)(f) + (A_n-A)(f^*)`.
The second term has mean 0. The mean of the supremum is at most :math:`2φ'(B)R_n`, by symmetrization of
:math:`m=\lfloor n/2\rfloor` pairs and contraction: φ has slope at most φ'(B) on [−B, B]. Another row changes each term
by at most 2D/n, :math:`D = φ(B)-φ(-B)`, so that bounded differences add :math:`2D\sqrt{2\ln(1/δ)/n}`.
"""

from __future__ import annotations

import math

import numpy as np

from convexrank.bounds.push_sample import Bound
from convexrank.data import (
    check_flag,
    check_integer,
    check_nonnegative,
    check_positive,
    check_probability,
    shown,
)
from convexrank.losses import Loss, resolve
from convexrank_annex.bounds.rademacher import RademacherAverage, expected_average, rademacher_vc

__all__ = ["combination_excess", "convex_excess", "transfer"]

# The inverse of a transform is sought in so many rounds at most, each in one of so many cells of the last.
_ROUNDS, _CELLS = 34, 64

_PAPER = "Ranking and empirical minimization of U-statistics (2006)"


def convex_excess(
    n: int,
    delta: float,
    loss: Loss | str,
    radius: float,
    complexity: float | RademacherAverage,
    *,
    published: bool = False,
) -> Bound:
    r"""Bound the excess risk of the minimiser of an empirical convex risk over the best of its class: Proposition 12.

    For functions :math:`|f(x,x')| \le B`, the cost φ(z) = ℓ(−z) and the convex risk
    :math:`A(f)=\mathrm Eφ(-\mathrm{sgn}(Z)f(X,X'))`

    .. math:: A(f_n) - \inf_f A(f) &\le 8Bφ'(B)R_n + \sqrt{\tfrac{2B^2\ln(1/δ)}n} \quad\text{(published)}, \\
              &\le 2φ'(B)R_n + 2D\sqrt{\tfrac{2\ln(1/δ)}n},\ D = φ(B)-φ(-B) .

    The published statement is refuted: its deviation lacks the range D of the cost, and a factor 2. Its first term
    has an additional factor 4B, which makes it too small for B below 1/4. :ref:`findings-bounds` has an example.

    Parameters
    ----------
    n : int
        Number of rows, at least 2.
    delta : float
        The probability of failure, between 0 and 1.
    loss : Loss or str
        The loss ℓ.
    radius : float
        The bound B on the functions.
    complexity : float or RademacherAverage
        The expected Rademacher average R_n of the functions, or a bound on it. An average that was computed from the
        rows takes half of δ for its deviation from the expectation, which is added.
    published : bool
        Whether to return the statement of the paper, marked as refuted.

    Returns
    -------
    Bound
        Bound on the excess convex risk, with D as the trivial bound. ``pieces``: the complexity and the deviation.

    Raises
    ------
    ValueError, TypeError
        When an argument is out of its range, or the cost of B is above the largest float.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), Proposition 12; derived in :mod:`convexrank_annex.bounds.convex`.

    Examples
    --------
    >>> from convexrank import bounds
    >>> bounds.convex_excess(400, 0.001, "exponential", 0.1, 0.0056, published=True).refuted
    True
    >>> round(bounds.convex_excess(400, 0.001, "exponential", 0.1, 0.0056).value, 4)
    0.0868
    """
    rows, failure = check_integer(n, "n", 2), check_probability(delta, "delta")
    cost, size = resolve(loss), check_positive(radius, "radius")
    average, left = expected_average(complexity, failure, size)
    span, slope = _range_and_slope(cost, size)
    root = math.sqrt(-2.0 * math.log(left) / rows)
    if check_flag(published, "published"):
        pieces = {"complexity": 8.0 * size * slope * average, "deviation": size * root}
        note = "The deviation lacks the range of the cost; the excess exceeds this more often than delta."
        source = f"{_PAPER}, Proposition 12"
        return Bound(sum(pieces.values()), pieces, source, limit=span, refuted=True, note=note)
    pieces = {"complexity": 2.0 * slope * average, "deviation": 2.0 * span * root}
    source = "convexrank_annex.bounds.convex, Proposition 12 corrected"
    return Bound(sum(pieces.values()), pieces, source, limit=span)


def transfer(excess: float, loss: Loss | str) -> Bound:
    r"""Bound the excess ranking risk by an excess convex risk: :math:`L(f)-L^* \le ψ^{-1}(A(f)-A^*)`.

    Parameters
    ----------
    excess : float
        The excess convex risk over all functions, at least 0.
    loss : Loss or str
        The loss; it must have the transform ``psi``.

    Returns
    -------
    Bound
        Bound on the excess ranking risk; 1 if the excess is ψ(1) or more.

    Raises
    ------
    ValueError, TypeError
        When the excess is negative, or the loss has no ``psi``.

    Notes
    -----
    The transform in the paper's notation, with H⁻ twice, is 0 everywhere; see ``psi`` of the losses.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), section 7; Bartlett, Jordan and McAuliffe (2006), Theorem 3.

    Examples
    --------
    >>> from convexrank import bounds
    >>> [round(bounds.transfer(0.02, loss).value, 3) for loss in ("hinge", "exponential", "squared_hinge")]
    [0.02, 0.199, 0.141]
    """
    gap, cost = check_nonnegative(excess, "excess"), resolve(loss)
    psi = getattr(cost, "psi", None)
    if psi is None:
        raise TypeError(f"loss is {shown(loss)}, which has no psi; expected one with the method psi(x).")
    # the largest x with ψ(x) at most the excess: ψ may be 0 beyond 0, where the loss has a kink at 0
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS if psi(1.0) > gap else 0):
        grid = np.linspace(low, high, _CELLS + 1)
        above = 1 + int(np.argmax(np.asarray(psi(grid[1:])) > gap))
        low, high = float(grid[above - 1]), float(grid[above])
        if high - low <= 4e-16 * high:
            break
    value = high if high > 1e-50 else 0.0
    return Bound(value, {"excess": gap}, f"{_PAPER}, section 7, with the transform corrected")


def combination_excess(
    n: int,
    delta: float,
    loss: Loss | str,
    radius: float,
    dimension: int,
    *,
    approximation: float = 0.0,
) -> Bound:
    r"""Bound the excess ranking risk of combinations of rules that minimise a convex risk: the display of Corollary 13.

    For :math:`f_n` of least empirical convex risk among :math:`\sum_j w_j g_j`, :math:`\sum_j |w_j| = B`, with rules
    :math:`g_j` from a class of VC dimension V

    .. math:: L(f_n) - L^* \le ψ^{-1}\Bigl(2φ'(B)\,B R_n + 2D\sqrt{\tfrac{2\ln(1/δ)}n}
              + \inf_f A(f) - A^*\Bigr), \quad R_n \text{ by } \texttt{rademacher\_vc} .

    Corollary 13 lets B grow with n, slowly enough that :math:`B^2φ'(B)/\sqrt n \to 0`; then the bound tends to
    :math:`ψ^{-1}` of the approximation error, and that to 0 for rich classes. The paper leaves the constant of its
    first term open, and its second is that of the refuted Proposition 12; see :func:`convex_excess`.

    Parameters
    ----------
    n : int
        Number of rows, at least 2.
    delta : float
        The probability of failure, between 0 and 1.
    loss : Loss or str
        The loss ℓ; it must have the transform ``psi``.
    radius : float
        The bound B.
    dimension : int
        The VC dimension V of the rules, at least 1.
    approximation : float
        The difference between the least convex risk of the class and the least of all functions. It is not known, and
        the bound is one for the estimation alone where it is left at 0.

    Returns
    -------
    Bound
        Bound on the excess ranking risk. ``pieces``: the parts of the convex excess, before the transform.

    Raises
    ------
    ValueError, TypeError
        As :func:`convex_excess` and :func:`transfer`.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), section 7, before Corollary 13, and Corollary 13.

    Examples
    --------
    >>> from convexrank import bounds
    >>> for n in (10**4, 10**6, 10**8):
    ...     print(f"{bounds.combination_excess(n, 0.05, 'hinge', 0.5 * n**0.1, 5).value:.3f}")
    0.422
    0.077
    0.014
    """
    size = check_positive(radius, "radius")
    rules = rademacher_vc(n, dimension)
    estimation = convex_excess(n, delta, loss, size, size * rules.value)
    pieces = estimation.pieces | {"approximation": check_nonnegative(approximation, "approximation")}
    note = "A bound only with the approximation error, which is not known."
    return Bound(
        transfer(sum(pieces.values()), loss).value,
        pieces,
        f"{_PAPER}, before Corollary 13, with Proposition 12 corrected",
        note=note,
    )


def _range_and_slope(loss: Loss, radius: float) -> tuple[float, float]:
    """Return φ(B) − φ(−B), and a slope that is at least φ'(B): a difference quotient beyond B, as φ is convex."""
    step = 1e-6 * max(radius, 1.0)
    values = [float(loss(-radius)), float(loss(radius)), float(loss(-radius - step))]
    if not all(math.isfinite(value) and value < 1e300 for value in values):
        raise ValueError(f"radius is {radius:g}, whose cost is above the largest float; pass a smaller one.")
    return values[0] - values[1], (values[2] - values[0]) / step
