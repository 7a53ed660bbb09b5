"""Time to a given true accuracy: the same objectives solved by this package and by others, at several tolerances."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from instances import CRAWL, data_name, magic
from letor_collections import folds_of, missing
from measure import fresh, interleaved
from report import Section, Table, at_most, seconds_text

_SEED = 17
_L2 = 1e-4
# What a reference is solved to within so many seconds, and the least error that can be told from rounding.
_TIGHT, _SECONDS, _ROUNDING = 1e-13, 60.0, 1e-16
# A reference with a wider gap is no reference.
_PROVED = 1e-10
# Targets compare the times to this error.
_GOAL = 1e-6
OURS, _COLLECTION = "convexrank", "MQ2008"


@dataclass(frozen=True)
class _Contest:
    """One objective, and all who minimise it.

    Parameters
    ----------
    contenders : dict
        By name: what solves to a tolerance and returns its answer, and the tolerances.
    error : callable
        Bounds the true error of an answer; it includes what is not known about the optimum.
    """

    contenders: dict[str, tuple[Callable[[float], Any], Sequence[float]]]
    error: Callable[[Any], float]


def accuracy(effort: int) -> Section:
    """Solve each objective by each contender at each tolerance, a process for each objective."""
    rows, targets = [], []
    for name in CONTESTS:
        found = fresh("accuracy:measured", name=name, repeats=1 + 2 * effort).result
        others = {who for who, *_ in found} - {OURS}
        against = time_to(_GOAL, found, {OURS}) / time_to(_GOAL, found, others)
        targets.append(at_most(f"{name}: time to {_GOAL:g}, over the fastest other's", against, 1.0, " ×"))
        for who, tol, seconds, error in found:
            against = "" if who == OURS else f"{time_to(error, found, {OURS}) / seconds:.2f}"
            cells = (name, who, f"{tol:g}" if tol else "none", seconds_text(seconds), f"{error:.0e}")
            rows.append((*cells, "not reached" if against == "inf" else against))
    ranked = "as many rows as MQ2008 has, drawn" if missing(_COLLECTION) else _COLLECTION
    note = (
        f"P-Norm Push: {data_name()}, l2 = {_L2:g}. RankSVM, all queries: {ranked}. PageRank: {_graph_name()}. "
        "Seconds: the least of several, in turns, "
        "in a process that has solved each before. Ours / theirs: the least time in which convexrank came to the true "
        "error of this row or below, over its time. For convexrank seconds include declaring the problem and the "
        "certificate; for others they leave out forming differences of rows and reading a graph. Asked: the "
        "tolerance, in each solver's own sense. True error: value − proved lower bound of the optimum, over "
        "max(1, |value|), or the L1 distance to the rank; bound and rank are those of a solve to "
        f"{_TIGHT:g}, whose own gap is included. One thread, but for convexrank's PageRank, which has one per core."
    )
    columns = ("objective", "solver", "asked", "seconds", "true error", "ours / theirs")
    return Section((Table("Time to a true accuracy", columns, tuple(rows), note),), tuple(targets))


def time_to(error: float, found: Sequence[tuple[str, float, float, float]], who: set[str]) -> float:
    """Return the least seconds in which one of some solvers came to an error; infinity where none did."""
    return min((seconds for name, _, seconds, had in found if name in who and had <= error), default=math.inf)


def measured(name: str, repeats: int) -> list[tuple[str, float, float, float]]:
    """Return solver, tolerance, least seconds and true error of each run."""
    warnings.simplefilter("ignore")  # a peer that stops at its limit of steps says so; its error is measured
    contest = CONTESTS[name]()
    answers: dict[str, Any] = {}

    def solve(key: str, run: Callable[[float], Any], tol: float) -> None:
        answers[key] = run(tol)

    runs = {
        f"{who} {tol}": (who, tol, run) for who, (run, tols) in contest.contenders.items() for tol in tols
    }
    jobs = {
        key: lambda key=key, run=run, tol=tol: solve(key, run, tol) for key, (_, tol, run) in runs.items()
    }
    times = interleaved(jobs, repeats)
    return [
        (who, tol, min(times[key]), max(contest.error(answers[key]), _ROUNDING))
        for key, (who, tol, _) in runs.items()
    ]


def _above_the_bound(problem: Any) -> Callable[[Any], float]:
    """The objective at a point less a proved lower bound of the optimum, relative."""
    reference = problem.solve(tol=_TIGHT, time_limit=_SECONDS)
    lower, scale = reference.certificate.lower_bound, max(1.0, abs(reference.value))
    if not reference.value - lower <= _PROVED * scale:
        raise ValueError(
            f"the reference has a gap of {reference.value - lower:g}, expected {_PROVED:g} at most"
        )
    return lambda w: (float(problem.objective(w)) - lower) / scale


# --- the P-Norm Push ------------------------------------------------------------------------------------------------


def _push(data: Callable[[], tuple[Any, Any]], p: float, l2: float, conic: bool) -> _Contest:
    """The log of the sum over pairs factorises: what anyone would write down for a general minimiser."""
    import numpy as np
    from scipy.optimize import minimize
    from scipy.special import logsumexp, softmax

    import convexrank as cr

    X, y = data()
    upper, lower = X[y == 1], X[y == 0]
    declared = lambda: cr.problems.PNormPush(X, y, p=p, l2=l2)  # noqa: E731

    def value_and_gradient(w: Any) -> tuple[float, Any]:
        up, down = -(upper @ w), p * (lower @ w)
        value = logsumexp(up) + logsumexp(down) / p + 0.5 * l2 * w @ w
        return value, lower.T @ softmax(down) - upper.T @ softmax(up) + l2 * w

    def lbfgs(tol: float) -> Any:
        options = {"ftol": 1e-3 * tol, "gtol": tol, "maxiter": 100_000, "maxfun": 200_000}
        start = np.zeros(X.shape[1])
        return minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options).x

    contenders: dict[str, Any] = {
        OURS: (lambda tol: declared().solve(tol=tol).x, (1e-2, 1e-4, 1e-8, 1e-12)),
        "SciPy, L-BFGS-B": (lbfgs, (1e-2, 1e-4, 1e-6, 1e-8)),
    }
    if conic:
        contenders["cvxpy, Clarabel"] = (lambda tol: _conic(upper, lower, tol), (1e-3, 1e-8))
    return _Contest(contenders, _above_the_bound(declared()))


def _conic(upper: Any, lower: Any, tol: float) -> Any:
    import cvxpy as cp

    w = cp.Variable(upper.shape[1])
    risk = cp.log_sum_exp(-(upper @ w)) + cp.log_sum_exp(lower @ w) + 0.5 * _L2 * cp.sum_squares(w)
    model = cp.Problem(cp.Minimize(risk))
    model.solve(solver="CLARABEL", tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
    return w.value


# --- pairs of rows of a query ---------------------------------------------------------------------------------------


def collection() -> tuple[Any, Any, Any]:
    """The rows of a collection, once each; where it is not there, as many as MQ2008 has, few of them relevant."""
    import numpy as np

    if not missing(_COLLECTION):
        tests = [test for _, _, test in folds_of(_COLLECTION)]
        X = np.concatenate([part.groups.gather(part.X) for part in tests])
        y = np.concatenate([part.groups.gather(part.y) for part in tests])
        sizes = np.concatenate([np.bincount(part.groups.query) for part in tests])
        return X, y, np.repeat(np.arange(len(sizes)), sizes)
    rng, d = np.random.default_rng(_SEED), 46
    query = np.repeat(np.arange(784), 19)
    X = rng.normal(size=(len(query), d)) + rng.normal(size=(784, d))[query]
    scores = X @ rng.normal(size=d) / np.sqrt(d) + 1.5 * rng.normal(size=len(query))
    return X, np.digitize(scores, np.quantile(scores, [0.8, 0.94])), query


def _differences(X: Any, y: Any, query: Any) -> tuple[Any, Any]:
    """Differences of the rows of all pairs, every second one reversed, and their signs: a classification."""
    import numpy as np

    upper, lower = [], []
    for q in np.unique(query):
        rows = np.flatnonzero(query == q)
        i, k = np.nonzero(y[rows][:, None] > y[rows][None, :])
        upper.append(rows[i])
        lower.append(rows[k])
    differences = X[np.concatenate(upper)] - X[np.concatenate(lower)]
    signs = np.where(np.arange(len(differences)) % 2, 1, -1)
    return differences * signs[:, None], signs


def _rank_svm(penalty: str) -> _Contest:
    """RankSVM is a support vector machine on differences of rows; its strength is 1/C."""
    from sklearn.svm import LinearSVC

    import convexrank as cr

    X, y, query = collection()
    D, signs = _differences(X, y, query)
    strength = {"l2": 1e-3, "l1": 0.08}[penalty] * len(D)
    arguments = {"loss": "squared_hinge", "normalize": False, penalty: strength}
    declared = lambda: cr.problems.RankSVM(X, y, query, **arguments)  # noqa: E731

    def liblinear(dual: bool, tol: float) -> Any:
        model = LinearSVC(
            penalty=penalty, C=1.0 / strength, dual=dual, tol=tol, fit_intercept=False, max_iter=10_000
        )
        return model.fit(D, signs).coef_[0]

    contenders: dict[str, Any] = {
        OURS: (lambda tol: declared().solve(tol=tol).x, (1e-2, 1e-4, 1e-8)),
        "liblinear": (lambda tol: liblinear(False, tol), (1.0, 1e-1, 1e-2, 1e-4, 1e-6)),
    }
    if penalty == "l2":
        contenders["liblinear, dual"] = (lambda tol: liblinear(True, tol), (1.0, 0.1))
    return _Contest(contenders, _above_the_bound(declared()))


# --- a graph --------------------------------------------------------------------------------------------------------


def _graph_name() -> str:
    if CRAWL.is_file():
        return "web-NotreDame, 325 729 pages, 1.5 million links"
    return "100 000 pages, 3 million links (benchmarks/web_graph.py)"


def _page_rank() -> _Contest:
    import numpy as np
    from graph_peers import peers
    from web_graph import web_graph

    import convexrank as cr

    if CRAWL.is_file():
        graph = cr.Graph.read(CRAWL)
    else:
        graph = cr.Graph.from_edges(*web_graph(100_000, 3_000_000), n=100_000)
    reference = cr.problems.PageRank(graph).solve(tol=_TIGHT)
    contenders: dict[str, Any] = {
        OURS: (lambda tol: cr.problems.PageRank(graph).solve(tol=tol).x, (1e-2, 1e-4, 1e-8, 1e-12)),
    }
    for name, run in peers(graph, 0.85, slow=False).items():
        contenders[name] = run, (1e-3, 1e-6, 1e-9, 1e-12)
    if "igraph (PRPACK)" in contenders:  # takes no tolerance
        contenders["igraph (PRPACK)"] = contenders["igraph (PRPACK)"][0], (0.0,)
    return _Contest(contenders, lambda x: float(np.abs(x - reference.x).sum()) + reference.gap)


CONTESTS: dict[str, Callable[[], _Contest]] = {
    "P-Norm Push, p = 1": lambda: _push(magic, 1, _L2, conic=True),
    "RankSVM, squared hinge, l2": lambda: _rank_svm("l2"),
    "RankSVM, squared hinge, l1": lambda: _rank_svm("l1"),
    "PageRank": _page_rank,
}
