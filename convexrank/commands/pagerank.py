"""``convexrank pagerank``: the ranks of a list of edges, with the order that is certain."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from convexrank.commands.outcome import Outcome, answered, as_json, quiet, refuse_lost, solution_lines
from convexrank.data import check_integer


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "pagerank",
        help="rank the nodes of a list of edges, with a bound on the error",
        description="PageRank of a list of edges: source, target and perhaps a weight on each line.",
        epilog="The exit status is 0 if the error is certified to be at most the tolerance.",
        allow_abbrev=False,  # --p is an option of other commands, and would be taken for --plot
    )
    parser.add_argument("path", help="the list of edges, or a Matrix Market file (.mtx)")
    parser.add_argument(
        "--alpha", type=float, default=0.85, help="probability of following a link (default: %(default)s)"
    )
    parser.add_argument(
        "--dangling", choices=["teleport", "uniform", "drop"], default="teleport",
        help="where the rank of nodes without links goes (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--tol", type=float, default=1e-9, help="largest L1 error (default: %(default)s)")
    parser.add_argument("--top", type=int, default=20, help="nodes to print (default: %(default)s)")
    parser.add_argument(
        "--delimiter",
        help="what separates columns (default: a comma in .csv, a tabulator in .tsv, else white space)",
    )
    parser.add_argument(
        "--skip-rows", type=int, default=0, help="lines of heading to skip (default: %(default)s)"
    )
    parser.add_argument(
        "--named", action="store_true", help="read whole numbers as names; only those that occur are nodes"
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the ranks with their errors and ties to this file"
    )
    parser.add_argument("--verbose", "--progress", action="store_true", help="show progress bars")
    parser.add_argument("--json", action="store_true", help="print the ranks as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> Outcome:
    """Read the edges, solve, and return the first nodes."""
    from convexrank.graphs import Graph
    from convexrank.problems import PageRank

    refuse_lost(arguments.plot)
    top = check_integer(arguments.top, "--top", 1)
    graph = Graph.read(
        arguments.path, delimiter=arguments.delimiter, skip_rows=arguments.skip_rows,
        named=True if arguments.named else None, verbose=arguments.verbose,
    )  # fmt: skip
    problem = PageRank(graph, arguments.alpha, dangling=arguments.dangling)
    with quiet():
        solution = problem.solve(tol=arguments.tol, verbose=arguments.verbose)
    order = np.argsort(-solution.x, kind="stable")[:top]
    bounds, certain = problem.score_intervals(solution), len(problem.certified_top(solution, top))
    names = [str(name) for name in bounds.nodes[order].tolist()]
    if arguments.plot:
        from convexrank import plotting

        drawn: Any = plotting.ranks(solution, top=top).figure
        drawn.savefig(arguments.plot, dpi=150)
    if arguments.json:
        ranks = [
            {
                "node": name,
                "rank": float(solution.x[i]),
                "lower": float(bounds.lower[i]),
                "upper": float(bounds.upper[i]),
            }
            for name, i in zip(names, order, strict=True)
        ]
        found = {
            "nodes": graph.n, "edges": graph.m, "status": solution.status.name, "error": solution.gap,
            "certified_order": certain, "ranks": ranks,
        }  # fmt: skip
        return Outcome(as_json(found), answered(solution))
    lines = [f"PageRank of {arguments.path}: {graph.n} nodes, {graph.m} edges", *solution_lines(solution)]
    width = min(50, max(map(len, names)))
    lines += [
        f"{place:>5}  {name[:width]:<{width}}  {solution.x[i]:.6g}"
        for place, (name, i) in enumerate(zip(names, order, strict=True), 1)
    ]
    tied = "" if certain == len(order) else "; the next are tied, or closer than the bound"
    lines.append(f"the order of the first {certain} is certain{tied}")
    if arguments.plot:
        lines.append(f"figure: {arguments.plot}")
    return Outcome("\n".join(lines), answered(solution))
