"""What works where only numpy, scipy, scikit-learn, numba and tqdm are installed, as docs/install.rst says.

CI runs it as a script, in an environment with these and the package without its dependencies.
"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec

import numpy as np

import convexrank as cr


def main() -> None:
    """Fit, certify, rank and infer; what needs cvxpy or JAX says so."""
    present = [
        name
        for name in ("jax", "cvxpy", "clarabel", "jaxopt", "matplotlib", "pandas")
        if find_spec(name) is not None
    ]
    if present:
        sys.exit(f"{present} are installed, expected the light install.")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    y, qid = (X[:, 0] + rng.normal(size=300) > 1.0).astype(int), np.repeat(np.arange(30), 10)

    push = cr.PushRanker(4).fit(X, y)
    print(f"PushRanker: gap {push.gap_:.1e}, {push.solution_.certificate.kind}")
    for problem in (
        cr.problems.PNormPush(X, y, p=8, l1=0.01),
        cr.problems.IRPush(X, y, l2=0.1),
        cr.problems.PartialAUC(X, y, 0.2, loss="hinge", l2=0.1),
        cr.problems.ListNet(X, y, qid, l2=0.1),
    ):
        solution = problem.solve()
        assert solution.converged, solution.message
        print(f"{solution.problem}: {solution}")
    # this one would ask a conic solver, or hand over to a method that does
    hard = cr.problems.RankSVM(1e9 * rng.normal(size=(60, 100)), np.arange(60) % 3, l2=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        print(f"RankSVM: {hard.solve(max_iter=150)}")
    ranker = cr.RetargetingRanker().fit(X, rng.integers(0, 3, 300), qid)
    print(f"RetargetingRanker: gap {ranker.gap_:.1e}")

    graph = cr.Graph.from_edges(rng.integers(0, 50, 300), rng.integers(0, 50, 300), n=50)
    print(f"pagerank: {cr.pagerank(graph).sum():.6f}")
    print(cr.inference.auc_interval(y, push.predict(X)))
    print(cr.inference.threshold(y, push.predict(X), max_fpr=0.1))
    table = {"amount": X[:, 0], "city": rng.choice(["Rome", "Oslo"], 300)}
    print(f"TableEncoder: {cr.TableEncoder().fit(table).kinds_}")

    for words, call in (
        ("cvxpy", lambda: cr.problems.PNormPush(X, y, p=8, l2=0.1).solve("exact")),
        ("clarabel", lambda: cr.PushRanker(objective="top_push", l1=0.01).fit(X, y)),
        ("jax", lambda: cr.problems.PNormPush(X, y, p=8, l2=0.1).solve("jaxopt-lbfgs")),
        ("jax", lambda: cr.jax_losses.list_net),
    ):
        try:
            call()
        except ImportError as error:
            print(f"{words}: {error}")
            if f"{words} is not installed, and this call needs it" not in str(error):
                sys.exit("the message does not say what is missing.")
        else:
            sys.exit(f"a call that needs {words} did not say so.")


if __name__ == "__main__":
    main()
