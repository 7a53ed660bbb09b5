"""The least and the greatest score of every node over all recommendations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from convexrank.backend.progress import progress_bar
from convexrank.consensus.candidates import Absorbed, absorb
from convexrank.data import check_flag, check_nodes
from convexrank.data.display import counted
from convexrank.data.messages import progress_as_verbose
from convexrank.data.nodes import as_frame, called, names_of, numbers_of

if TYPE_CHECKING:
    from convexrank.consensus.extreme_scores import Choices

Array = np.ndarray

# The tolerances of HiGHS; flows are fractions of 1.
_FEASIBLE = 1e-10


@dataclass(frozen=True, eq=False)
class ScoreIntervals:
    """Lower and upper bounds of the scores of nodes.

    Parameters
    ----------
    nodes : ndarray, shape (m,)
        The nodes, by name if they have names.
    lower, upper : ndarray, shape (m,)
        The least and the greatest score of each node.

    Examples
    --------
    >>> import convexrank as cr
    >>> sets = cr.consensus.CandidateSets([[[0, 1], [1, 0]], [[1, 0]]], names=["ann", "bob"])
    >>> bounds = cr.consensus.score_intervals(sets, 0.5, [0.6, 0.4])
    >>> bounds
    ScoreIntervals(2 nodes, widths 0.27 to 0.27)
    >>> bounds.to_frame().round(3).to_dict("index")
    {'ann': {'lower': 0.533, 'upper': 0.8}, 'bob': {'lower': 0.2, 'upper': 0.467}}
    >>> bounds.above("ann", "bob")
    True
    """

    nodes: Array
    lower: Array
    upper: Array

    def __repr__(self) -> str:
        widths = self.upper - self.lower
        told = f", widths {widths.min():.2g} to {widths.max():.2g}" if len(widths) else ""
        return f"ScoreIntervals({counted(len(widths), 'nodes')}{told})"

    def above(self, first: Any, second: Any) -> bool:
        """Return whether the intervals alone prove that one node never scores below another; nodes as in ``nodes``."""
        places = numbers_of(self.nodes.tolist(), (first, second), "the pair")
        return bool(self.lower[places[0]] >= self.upper[places[1]])

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row for each node: the columns ``lower`` and ``upper``."""
        return as_frame({"lower": self.lower, "upper": self.upper}, self.nodes.tolist())


@progress_as_verbose
def score_intervals(
    sets: Any,
    alpha: float = 0.85,
    personalization: Any = None,
    nodes: Any = None,
    *,
    verbose: bool = False,
) -> ScoreIntervals:
    r"""Return the least and the greatest score of each node over all recommendations in the sets.

    For any choice :math:`t_i \in T_i` the scores are the PageRank w of those recommendations. With x the expected
    visits to j on walks that stop with probability 1 − α, one entry for each starting node,

    .. math:: w_j = (1-\alpha)\,\langle v, x\rangle, \qquad
              x_i = [i = j] + \alpha\,\max_{t\in T_i}\ \langle t, x\rangle ,

    or min for the other end: the best choice of every node for j does not depend on the choices of the others. Sweeps
    over this equation, each with the bounds of MacQueen, end when the bounds meet. If a set has too many vertices to
    list, each end is a linear program in flows :math:`z_i = w_i t_i`:

    .. math:: \min \text{ or } \max\; w_j \quad\text{subject to}\quad
              \alpha\sum_i z_i + (1-\alpha)v = w,\quad z_i \in w_i T_i,\quad \textstyle\sum_i w_i = 1 .

    Parameters
    ----------
    sets : RecommendationSets, LabelledGraph or list
        The sets T_i; a list has the candidates of each node.
    alpha : float
        Probability of following a recommendation, in [0, 1).
    personalization : array-like, shape (n,), optional
        The distribution v, scaled to sum to 1; uniform by default. A dictionary, or a Series with its own index, is
        matched by the names of the nodes.
    nodes : sequence, optional
        The nodes whose intervals are computed, by number or name; all by default.
    verbose : bool
        Whether to show a progress bar.

    Returns
    -------
    ScoreIntervals
        The intervals. Both ends are attained and are outer bounds, up to 1e-12, or up to about 1e-9, the accuracy of
        the linear programs, if these are needed.

    Raises
    ------
    ValueError, TypeError
        When sets or numbers are out of range.
    RuntimeError
        When a linear program fails.

    Notes
    -----
    A sweep costs one product with all candidates, and reduces the distance of the bounds by the factor α times the
    second eigenvalue of the walks. Each end of each node usually takes some tens of sweeps. All cores are used. Bounds
    on scores do not determine the order completely: two intervals may overlap although one node always has the higher
    score.

    References
    ----------
    Dissertation on learning to rank, section 5.4, for the sets. J. MacQueen, A modified dynamic programming method for
    Markovian decision problems, Journal of Mathematical Analysis and Applications 14, 1966, for the bounds.

    Examples
    --------
    >>> import convexrank as cr
    >>> bounds = cr.consensus.score_intervals([[[0, 1, 0], [0, 0, 1]], [[1, 0, 0]], [[1, 0, 0]]])
    >>> bounds.lower.round(4).tolist(), bounds.upper.round(4).tolist()
    ([0.4865, 0.05, 0.05], [0.4865, 0.4635, 0.4635])
    """
    from convexrank.consensus.extreme_scores import choices_of  # compiled: loading takes time

    absorbed = absorb(sets, alpha, personalization)
    names, shown = absorbed.sets.names, check_flag(verbose, "verbose")
    chosen = np.arange(absorbed.n) if nodes is None else check_nodes(nodes, absorbed.n, "nodes", names)
    choices = choices_of(absorbed, shown)
    if choices is None:
        ends = _by_programs(absorbed, chosen, shown)
    else:
        ends = _by_sweeps(absorbed, choices, chosen, shown)
    return ScoreIntervals(names_of(names, chosen), *np.clip(ends.T, 0.0, 1.0))


def _by_sweeps(absorbed: Absorbed, choices: Choices, chosen: Array, verbose: bool) -> Array:
    from convexrank.consensus.extreme_scores import extremes

    ends = np.empty((len(chosen), 2))
    with progress_bar(verbose, 2 * len(chosen), "ends") as bar:
        for side, sign in enumerate((-1.0, 1.0)):
            for places, low, high in extremes(choices, absorbed.alpha, absorbed.teleport, chosen, sign):
                ends[places, side] = high if side else low
                bar.update(len(low))
    return ends


def _by_programs(absorbed: Absorbed, chosen: Array, verbose: bool) -> Array:
    program, ends = _program(absorbed), np.empty((len(chosen), 2))
    with progress_bar(verbose, len(chosen), "linear programs") as bar:
        for place, node in enumerate(chosen):
            name = called(absorbed.sets.names, node)
            ends[place] = [_end(program, int(node), sign, name) for sign in (1.0, -1.0)]
            bar.update(1)
    return ends


def _program(absorbed: Absorbed) -> dict[str, Any]:
    """Constraints on the variables (w, flows), as :func:`scipy.optimize.linprog` names them."""
    n, alpha = absorbed.n, absorbed.alpha
    inflow, totals, bounds, size = [], [], [], n
    for node in range(n):
        system = absorbed.sets.system(node)
        if system is None:
            candidates = absorbed.sets.vertices(node)
            inflow.append(candidates.T)
            own = np.zeros((0, 1 + len(candidates)))
        else:
            A, b, lower, upper = system
            free = upper > 0.0
            inflow.append(np.eye(n)[:, free])
            eye = np.eye(int(free.sum()))
            # of the columns the first is w_i: At ≤ b becomes Az − bw ≤ 0
            own = np.vstack(
                [
                    np.column_stack([-b, A[:, free]]),
                    np.column_stack([-upper[free], eye]),
                    np.column_stack([lower[free], -eye]),
                ]
            )
        bounds.append(own)
        totals.append(np.ones((1, inflow[-1].shape[1])))
        size += inflow[-1].shape[1]
    balance = sparse.hstack([-sparse.eye_array(n), alpha * sparse.csr_array(np.hstack(inflow))])
    mass = sparse.hstack([-sparse.eye_array(n), sparse.block_diag(totals)])
    places = np.cumsum([n, *(part.shape[1] for part in inflow)])
    rows = [_placed(own, node, int(places[node]), size) for node, own in enumerate(bounds) if len(own)]
    return {
        "A_ub": sparse.csr_array(sparse.vstack(rows)) if rows else None,
        "b_ub": np.zeros(sum(part.shape[0] for part in rows)) if rows else None,
        "A_eq": sparse.csr_array(sparse.vstack([balance, mass])),
        "b_eq": np.concatenate([-(1.0 - alpha) * absorbed.teleport, np.zeros(n)]),
    }


def _placed(own: Array, node: int, place: int, size: int) -> Any:
    """Rows on w_i and the flows of node i, among all variables."""
    block = sparse.coo_array(own)
    row, column = block.coords
    at = np.where(column == 0, node, place + column - 1)
    return sparse.coo_array((block.data, (row, at)), shape=(len(own), size))


def _end(program: dict[str, Any], node: int, sign: float, name: str) -> float:
    from scipy.optimize import linprog

    cost = np.zeros(program["A_eq"].shape[1])
    cost[node] = sign
    options = {"primal_feasibility_tolerance": _FEASIBLE, "dual_feasibility_tolerance": _FEASIBLE}
    answer = linprog(cost, **program, bounds=(0.0, None), method="highs", options=options)
    if answer.status != 0:
        raise RuntimeError(f"the linear program of node {name} failed: {answer.message}")
    return sign * float(answer.fun)
