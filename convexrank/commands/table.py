"""``convexrank fit``, ``predict``, ``evaluate`` and ``explain``: the best rows of a table, from files."""

from __future__ import annotations

import argparse
from typing import Any

from convexrank.backend.interruption import import_module
from convexrank.commands.outcome import LENGTH, Outcome
from convexrank.data.messages import names_in

_EPILOG = """Numbers, categories and texts are encoded, gaps included; columns with dates
have to be left out by --drop. Other options, such as --p 8 --l2 1e-3, are those
of PushRanker. A model is a file of joblib: load those of people you trust."""


def add(commands: Any) -> None:
    """Add the commands to the parser."""
    fit = _command(commands, "fit", "fit a ranker to a table, and say what its best rows are worth")
    fit.add_argument("path", help="the table: comma separated values, a name for each column first")
    fit.add_argument("--label", required=True, help="the column that says which rows are wanted")
    fit.add_argument(
        "--positive", help="the label of the wanted rows (default: the larger of two numbers, or yes)"
    )
    fit.add_argument("--test", metavar="TABLE", help="rows to measure on (default: a quarter of the rows)")
    fit.add_argument("--drop", type=names_in, default=[], metavar="A,B", help="columns that are not features")
    fit.add_argument("--category", type=names_in, default=[], metavar="A,B", help="numbers that are names")
    fit.add_argument(
        "--decimal", default=".", metavar="SIGN", help="sign before decimals (default: %(default)s)"
    )
    fit.add_argument("--search", action="store_true", help="choose p and l2 by the precision of lists")
    fit.add_argument("--save", metavar="FILE", help="write the model")
    fit.add_argument("--report", metavar="FILE", help="write a page with tables and figures (HTML)")
    fit.add_argument("--seed", type=int, default=0, help="which rows are held out (default: %(default)s)")
    fit.set_defaults(takes_options=True)
    predict = _command(commands, "predict", "list the best rows of a table by a model")
    evaluate = _command(commands, "evaluate", "measure a model on a table with labels")
    explain = _command(commands, "explain", "say what makes the score of a row")
    for parser in (predict, evaluate, explain):
        parser.add_argument("model", help="the file that `convexrank fit --save` wrote")
        parser.add_argument("path", help="the table, with the columns of the fit")
    predict.add_argument("--top", type=int, default=LENGTH, help="length of the list (default: %(default)s)")
    for parser in (fit, evaluate):
        default = f"{LENGTH}; with fewer rows to measure, the number of wanted ones"
        parser.add_argument("--top", type=int, help=f"length of the list (default: {default})")
    for parser in (fit, predict):
        parser.add_argument("--list", metavar="FILE", help="write the best rows, with scores")
    explain.add_argument("--row", type=int, required=True, help="number of the row; the first has 1")


def _command(commands: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=_run)
    return parser


def _run(arguments: argparse.Namespace) -> Outcome:
    """Import what the commands need, which takes a second, and run one."""
    commands = import_module("convexrank.commands.table_runs")
    return commands.RUNS[arguments.command](arguments)
