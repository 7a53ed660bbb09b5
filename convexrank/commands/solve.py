"""``convexrank solve``: solve any problem with features and a label, from a table."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from convexrank.commands.outcome import (
    Outcome,
    answered,
    as_json,
    formulation,
    given_options,
    quiet,
    refuse_lost,
    solution_lines,
    tabular,
)
from convexrank.core.results import Solution
from convexrank.data import TableData, read_table
from convexrank.data.messages import names_in

_EPILOG = """Other options, such as --p 8 --l2 0.01 --loss hinge, are those of the problem:
`convexrank problems NAME` lists them. Columns that are no features are left out
by --drop. The exit status is 0 if the answer is certified to the tolerance, 1 if
not, 2 if the arguments or the data cannot be used."""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "solve",
        help="fit a problem to a table, and certify the answer",
        description="Solve a problem on the rows of a table with a heading.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("path", help="the table: comma separated values, a name for each column first")
    parser.add_argument("--label", required=True, help="the column of labels, grades or targets")
    parser.add_argument("--problem", default="PNormPush", help="name of the problem (default: %(default)s)")
    parser.add_argument("--qid", help="the column with the query of each row")
    parser.add_argument(
        "--drop", type=names_in, nargs="+", default=[], help="columns that are not features", metavar="A,B"
    )
    parser.add_argument(
        "--standardize", action="store_true", help="divide each feature by its standard deviation"
    )
    parser.add_argument("--solver", help="name of the solver (default: chosen for the problem)")
    parser.add_argument("--tol", type=float, default=1e-8, help="tolerance (default: %(default)s)")
    parser.add_argument("--time-limit", type=float, help="largest number of seconds")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the ranking, or the trace of the solver, to this file"
    )
    parser.set_defaults(run=run, takes_options=True)


def run(arguments: argparse.Namespace) -> Outcome:
    """Read the table, solve, and return what is printed."""
    cls = formulation(arguments.problem)
    if not tabular(cls):
        raise ValueError(
            f"problem is {arguments.problem!r}, which takes no table of features and a label, expected one that does: "
            "`convexrank problems` lists them; for a graph see `convexrank pagerank`."
        )
    options = given_options(cls, arguments.options)
    refuse_lost(arguments.plot)
    drop = [name for names in arguments.drop for name in names]
    table = read_table(arguments.path, arguments.label, qid=arguments.qid, drop=drop)
    scales = table.X.std(axis=0) if arguments.standardize else np.ones(table.X.shape[1])
    scales[np.ptp(table.X, axis=0) == 0.0] = 1.0  # rounding may give a constant a deviation
    data: dict[str, Any] = {"y": table.y} if table.qid is None else {"y": table.y, "qid": table.qid}
    problem = cls(table.X / scales, **data, **options)
    with quiet():
        solution = problem.solve(arguments.solver, tol=arguments.tol, time_limit=arguments.time_limit)
    count = len(table.names)
    # beside weights some problems have a threshold
    weights, others = solution.x[:count] / scales, solution.x[count:]
    if arguments.plot:
        _draw(table, table.X @ weights, solution).savefig(arguments.plot, dpi=150)
    if arguments.json:
        found = {
            "problem": arguments.problem,
            "options": options,
            "rows": len(table.y),
            "status": solution.status.name,
            "message": solution.message,
            "solver": solution.solver,
            "iterations": solution.iterations,
            "seconds": solution.seconds,
            "value": solution.value,
            "gap": solution.gap,
            "certificate": solution.certificate.kind,
            "weights": dict(zip(table.names, weights.tolist(), strict=True)),
            **({"threshold": float(others[0])} if len(others) else {}),
        }
        return Outcome(as_json(found), answered(solution))
    lines = [f"{cls.__name__} on {arguments.path}: {_rows(table)}", *solution_lines(solution)]
    lines += [f"threshold  {threshold:.6g}" for threshold in others]
    lines += ["weights", *_weights(table.names, weights)]
    if arguments.plot:
        lines.append(f"figure: {arguments.plot}")
    return Outcome("\n".join(lines), answered(solution))


def _is_binary(table: TableData) -> bool:
    return len(np.unique(table.y)) == 2


def _rows(table: TableData) -> str:
    counts = f"{len(table.y)} rows, {len(table.names)} features"
    if not _is_binary(table):
        return counts
    positive = np.unique(table.y)[1]
    shown = f"{positive:g}" if table.y.dtype.kind == "f" else repr(str(positive))
    return f"{counts}, {int((table.y == positive).sum())} positive (label {shown})"


def _weights(names: tuple[str, ...], weights: np.ndarray, most: int = 20) -> list[str]:
    """The largest weights first."""
    order = np.argsort(-np.abs(weights), kind="stable")
    width = min(40, max(map(len, names)))
    lines = [f"  {names[j][:width]:<{width}}  {weights[j]: .6g}" for j in order[:most]]
    return lines + ([f"  and {len(names) - most} smaller ones"] if len(names) > most else [])


def _draw(table: TableData, scores: np.ndarray, solution: Solution) -> Any:
    """ROC curves of two classes; the trace of the solver otherwise."""
    from convexrank import plotting

    if _is_binary(table) and table.qid is None:
        panels: Any = plotting.roc({solution.problem: (table.y, scores)})
        return panels[0].figure
    return plotting.trace(solution)[0].figure
