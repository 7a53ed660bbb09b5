"""``convexrank rank``: problems with queries, fitted on one LETOR file and measured on another."""

from __future__ import annotations

import argparse
from typing import Any

from convexrank.backend.interruption import as_a_whole
from convexrank.commands.outcome import (
    DISAGREES,
    FINE,
    Outcome,
    as_json,
    formulation,
    given_options,
    knows_queries,
    paragraph,
    quiet,
)
from convexrank.data import read_letor

_EPILOG = """Other options, such as --l2 0.1, go to each problem that has them. The exit
status is 0 if all answers are certified to the tolerance, 1 if not, 2 if the
arguments or the files cannot be used."""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "rank",
        help="fit rankers to queries of a LETOR file, and measure them on another",
        description="Fit linear rankers to queries, and measure them on other queries.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("train", help="LETOR file to fit")
    parser.add_argument("test", help="LETOR file to measure on")
    parser.add_argument(
        "--problem", nargs="+", default=["MarginRetargeting", "RankSVM", "ListNet"], metavar="NAME",
        help="problems with queries (default: MarginRetargeting RankSVM ListNet)",
    )  # fmt: skip
    parser.add_argument(
        "--scale", choices=["query", "none"], default="query",
        help="standardize features within each query (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--tol", type=float, default=1e-6, help="tolerance (default: %(default)s)")
    parser.add_argument("--time-limit", type=float, help="largest number of seconds for each problem")
    parser.add_argument("--json", action="store_true", help="print the table as JSON")
    parser.set_defaults(run=run, takes_options=True)


@as_a_whole
def run(arguments: argparse.Namespace) -> Outcome:
    """Fit every problem, and return the table of measures on the other file."""
    from convexrank.estimators import QueryScaler
    from convexrank.metrics import table

    classes = {name: formulation(name) for name in arguments.problem}
    for name, cls in classes.items():
        if not knows_queries(cls):
            raise ValueError(
                f"problem is {name!r}, which knows no queries, expected one that does, such as ListNet."
            )
    words = arguments.options or ["--l2=0.01"]
    options = {name: given_options(cls, words, tuple(classes.values())) for name, cls in classes.items()}
    train = read_letor(arguments.train)
    test = read_letor(arguments.test, n_features=train.X.shape[1])
    scaler = QueryScaler()
    by_query = arguments.scale == "query"
    X = scaler.fit_transform(train.X, qid=train.qid) if by_query else train.X
    rows = scaler.transform(test.X, qid=test.qid) if by_query else test.X
    scores, endings, status = {}, {}, FINE
    for name, cls in classes.items():
        problem = cls(X, train.y, train.qid, **options[name])
        with quiet():
            solution = problem.solve(tol=arguments.tol, time_limit=arguments.time_limit)
        status = status if solution.converged else DISAGREES
        scores[name] = rows @ solution.x
        endings[name] = solution
    found = table(scores, test.y, test.qid)
    if arguments.json:
        fits = {
            name: {"status": s.status.name, "value": s.value, "gap": s.gap} for name, s in endings.items()
        }
        return Outcome(as_json({"fits": fits, "measures": found.to_dict()}), status)
    lines = [f"fitted on {arguments.train}: {train!r}"]
    for name, solution in endings.items():
        lines.append(
            paragraph(f"{name}: {solution.status.name}, {solution.seconds:.1f} s, {solution.certificate}")
        )
    return Outcome("\n".join([*lines, "", f"measured on {arguments.test}", str(found)]), status)
