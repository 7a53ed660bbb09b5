"""Large powers and large scores: are all values finite, and all problems solved?"""

from __future__ import annotations

from typing import Any

from instances import data_name
from measure import fresh
from report import Section, Table, Target, seconds_text

_SCORES = 5_000.0
_PROBLEMS: dict[str, dict[str, Any]] = {
    "PNormPush": {"p": 256},
    "BottomPush": {"p": 256},
    "TopBottomPush": {"p": 256, "bottom_weight": 1.0},
    "IRPush": {},
    "TopPush": {},
}


def extremes(effort: int) -> Section:
    """Evaluate at scores in the thousands, and solve from there."""
    del effort
    rows, finite = [], True
    for name, arguments in _PROBLEMS.items():
        found = fresh("extremes:evaluate", name=name, arguments=arguments).result
        finite = finite and found["finite"]
        title = f"{name}, p = {arguments['p']}" if "p" in arguments else name
        cells = (
            title,
            f"{found['largest']:.0f}",
            f"{found['value']:.6g}",
            "yes" if found["finite"] else "NO",
        )
        rows.append((*cells, found["status"], f"{found['gap']:.0e}", seconds_text(found["seconds"])))
    note = (
        f"Data: {data_name()}, l2 = 1e-4. Value and gradient are taken at a point whose largest score is the one "
        "given; the solve starts from that point."
    )
    columns = ("problem", "largest score", "value there", "finite", "solve from there", "gap", "seconds")
    target = Target(
        "p = 256, scores in the thousands", "finite", "finite" if finite else "not finite", finite
    )
    return Section((Table("No overflow", columns, tuple(rows), note),), (target,))


def evaluate(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Value, gradient and Hessian far out; then solve from there."""
    import warnings

    import numpy as np
    from instances import magic

    import convexrank as cr

    X, y = magic()
    problem = getattr(cr.problems, name)(X, y, l2=1e-4, **arguments)
    w = np.random.default_rng(0).normal(size=X.shape[1])
    w *= _SCORES / float(np.abs(X @ w).max())
    value, gradient = problem.risk_and_subgradient(w)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # the status is in the table
        solution = problem.solve(x0=w)
    return {
        "largest": float(np.abs(X @ w).max()),
        "value": value,
        "finite": bool(np.isfinite(value) and np.isfinite(gradient).all() and np.isfinite(solution.value)),
        "status": solution.status.name,
        "gap": solution.gap,
        "seconds": solution.seconds,
    }
