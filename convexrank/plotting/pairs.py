"""Contribution of every positive–negative pair to the objective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.core.problem import Problem
from convexrank.data import check_binary_labels, check_choice, check_positive, check_vector, check_weights
from convexrank.divergences.base import softmax
from convexrank.plotting.style import axes, label_text
from convexrank.problems import IRPush, PNormPush

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = np.ndarray

# A panel has at most this many cells a side; more pairs than that are summed into cells.
MOST_CELLS = 400
_MOST_DECADES = 300
_FAR = -40.0


def pair_shares(
    y: Any, scores: Any, *, p: float = 1.0, kind: str = "p_norm", sample_weight: Any = None
) -> tuple[Array, Array]:
    r"""Return each pair's share of the objective, as two factors.

    With positives i and negatives k, each sorted by score, highest first, the shares are

    .. math::
        \text{P-Norm Push:}\quad
        s_{ik} = \frac1{R_{p,\exp}} \Bigl(\sum_{\bar\imath} e^{-(f_{\bar\imath}-f_k)}\Bigr)^{p}
        \frac{e^{-(f_i-f_k)}}{\sum_{\bar\imath} e^{-(f_{\bar\imath}-f_k)}}, \qquad
        R_{p,\exp} = \sum_k \Bigl(\sum_i e^{-(f_i-f_k)}\Bigr)^{p}

    .. math::
        \text{IR Push:}\quad
        s_{ik} = \frac1{R_{IR,\exp}} \ln\Bigl(1+\sum_{\bar k} e^{-(f_i-f_{\bar k})}\Bigr)
        \frac{e^{-(f_i-f_k)}}{\sum_{\bar k} e^{-(f_i-f_{\bar k})}}, \qquad
        R_{IR,\exp} = \sum_i \ln\Bigl(1+\sum_k e^{-(f_i-f_k)}\Bigr)

    They sum to 1 over all pairs. Because the exponential loss factorises, both are products
    :math:`s_{ik} = a_i b_k` of two vectors that sum to 1 each; these are returned, and ``np.outer(a, b)`` is the
    matrix. O(n log n), and safe from overflow.

    Parameters
    ----------
    y, scores : array, shape (n,)
        Labels of two classes, of which the larger is the positive one, and finite scores.
    p : float
        The power p of the push, greater than 0; not used by the IR Push.
    kind : {"p_norm", "ir"}
        The objective: that of the P-Norm Push or of the IR Push.
    sample_weight : array, shape (n,), optional
        Weights of rows, as numbers of copies: the share of a row is that of all its copies.

    Returns
    -------
    a : ndarray, shape (I,)
        Factor of the positives, highest score first.
    b : ndarray, shape (K,)
        Factor of the negatives, highest score first.

    Raises
    ------
    ValueError, TypeError
        When the labels or scores are not usable, p is not positive and finite, or a class has no weight.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 3.3 and figures 1 and 4.

    Examples
    --------
    >>> from convexrank import plotting
    >>> a, b = plotting.pair_shares([1, 0, 1, 0], [0.0, 0.0, 0.0, 0.0], p=8)
    >>> a.tolist(), b.tolist()
    ([0.5, 0.5], [0.5, 0.5])
    """
    kind = check_choice(kind, {"p_norm": "p_norm", "ir": "ir"}, "kind")
    positive = check_binary_labels(y)
    values = check_vector(scores, len(positive), "scores")
    log_weights = _log_weights(sample_weight, positive)
    order = np.argsort(-values, kind="stable")
    rows, columns = order[positive[order]], order[~positive[order]]
    if kind == "p_norm":
        push = check_positive(p, "p")
        a = softmax(log_weights[rows] - values[rows])
        return a, softmax(log_weights[columns] + push * values[columns])
    weighted = log_weights[columns] + values[columns]
    excess = np.logaddexp.reduce(weighted) - values[rows]
    # ln(1 + e^x) is e^x far below 0, where it vanishes
    log_loss = np.where(excess < _FAR, excess, np.log(np.logaddexp(0.0, np.maximum(excess, _FAR))))
    return softmax(log_weights[rows] + log_loss), softmax(weighted)


def _log_weights(sample_weight: Any, positive: Array) -> Array:
    """Return logarithms of row weights, minus infinity for rows that are dropped."""
    weights = check_weights(sample_weight, len(positive))
    if weights is None:
        return np.zeros(len(positive))
    for group, which in ((positive, "positive"), (~positive, "negative")):
        if not weights[group].any():
            raise ValueError(f"sample_weight leaves no {which} example; give at least one a weight above 0.")
    return np.log(weights, out=np.full(len(weights), -np.inf), where=weights > 0)


def pair_contributions(
    y: Any,
    scores: Any,
    *,
    p: float | Sequence[float] | None = None,
    kind: str = "p_norm",
    sample_weight: Any = None,
    decades: float | None = None,
    ax: Any = None,
) -> Axes | Array:
    r"""Draw the contribution of every positive–negative pair to the objective.

    Each cell is a pair: negatives from the highest score (left) to the lowest, positives from the highest (bottom) to
    the lowest (top). Lighter is larger, on a scale of each panel's own. A cell is the pair's share of the objective as
    defined in :func:`pair_shares`. With more than 400 positives or negatives, a cell is the mean over neighbours, so
    that no positives × negatives array is formed.

    Parameters
    ----------
    y : array, shape (n,), or Problem
        Labels of two classes; or a PNormPush or IRPush, from which labels, weights, kind and p are taken.
    scores : array, shape (n,), or Solution, or weights, shape (d,)
        The scores; for a problem, its solution or a vector of weights.
    p : float or sequence of float, optional
        The power p of the push; several powers give one panel each, as in the paper. Default 1, or that of the problem.
    kind : {"p_norm", "ir"}
        The objective: that of the P-Norm Push or of the IR Push (which has no p).
    sample_weight : array, shape (n,), optional
        As for :func:`pair_shares`.
    decades : float, optional
        Use a logarithmic grey scale, with black at this number of powers of ten below the largest share. By default the
        scale is linear from zero, as in the paper; on real data only a few pairs are then visible.
    ax : Axes, or as many as p has entries, optional
        Axes to draw in; by default a new figure.

    Returns
    -------
    Axes, or ndarray of Axes
        An array when p is a sequence.

    Raises
    ------
    ValueError, TypeError
        When the labels or scores are not usable, p is not positive, or the problem is of another kind.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 3.3 and figures 1 and 4.

    Examples
    --------
    >>> from convexrank import plotting
    >>> panels = plotting.pair_contributions([1, 0, 1, 0], [1.0, 0.8, 0.6, 0.2], p=[1, 8])
    >>> [panel.get_title() for panel in panels]
    ['p = 1', 'p = 8']
    """
    if isinstance(y, Problem):
        y, scores, kind, p, sample_weight = _of_problem(y, scores, p, sample_weight)
    check_choice(kind, {"p_norm": 0, "ir": 0}, "kind")
    if kind == "ir" and p is not None:
        raise ValueError(f"p is {p!r}, but the IR Push has no p; leave it out, or pass kind='p_norm'.")
    if isinstance(p, np.ndarray):
        p = p.tolist()
    several = isinstance(p, Sequence)
    pushes = list(p) if several else [1.0 if p is None else p]
    if not pushes:
        raise ValueError("p is an empty sequence; pass at least one push.")
    panels = axes(ax, len(pushes), (0.6 + 2.9 * len(pushes), 3.2))
    for panel, push in zip(panels, pushes, strict=True):
        rows, columns = pair_shares(y, scores, p=push, kind=kind, sample_weight=sample_weight)
        shares = np.outer(_binned(rows), _binned(columns))
        extent = (0.5, len(columns) + 0.5, 0.5, len(rows) + 0.5)
        look = {"cmap": "gray", "norm": _grey_scale(shares, decades), "interpolation": "nearest"}
        panel.imshow(shares, origin="lower", extent=extent, aspect="auto", **look)
        panel.set_title("IR Push" if kind == "ir" else label_text(push))
        panel.set_xlabel("negative, by rank")
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.yaxis.get_major_locator().set_params(integer=True)
    panels[0].set_ylabel("positive, by rank")
    return panels if several else panels[0]


def _of_problem(problem: Problem, at: Any, p: Any, sample_weight: Any) -> tuple[Any, Array, str, Any, Any]:
    """Take labels, scores, kind, p and weights from a problem and its solution."""
    if sample_weight is not None:
        raise ValueError("sample_weight comes with the problem; leave it out.")
    if isinstance(problem, IRPush):
        kind = "ir"
    elif isinstance(problem, PNormPush):
        kind, p = "p_norm", problem.p if p is None else p
    else:
        raise TypeError(
            f"{type(problem).__name__} is neither a PNormPush nor an IRPush; pass labels and scores, with p or kind."
        )
    return problem.y, problem.scores(problem.check_point(at)), kind, p, problem.sample_weight


def _binned(factor: Array) -> Array:
    """Average neighbours until at most MOST_CELLS cells are left."""
    if len(factor) <= MOST_CELLS:
        return factor
    edges = np.arange(MOST_CELLS + 1) * len(factor) // MOST_CELLS
    return np.add.reduceat(factor, edges[:-1]) / np.diff(edges)


def _grey_scale(shares: Array, decades: float | None) -> Any:
    from matplotlib.colors import LogNorm, Normalize

    largest = float(shares.max())
    if decades is None:
        return Normalize(0.0, largest)
    shown = check_positive(decades, "decades")
    if not shown <= _MOST_DECADES:
        raise ValueError(
            f"decades is {decades}, expected at most {_MOST_DECADES}, which is all that floats hold."
        )
    return LogNorm(largest / 10.0**shown, largest, clip=True)
