"""Valid calls of everything public: taken from the examples in docstrings, by running them."""

from __future__ import annotations

import ast
import copy
import dataclasses
import doctest
import enum
import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from convexrank.core.problem import Problem

#: What users import from.
MODULES = (
    "convexrank",
    "convexrank.atoms",
    "convexrank.bounds",
    "convexrank.consensus",
    "convexrank.data",
    "convexrank.divergences",
    "convexrank.estimators",
    "convexrank.estimators.graph_ranks",
    "convexrank.features",
    "convexrank.graphs",
    "convexrank.calibration",
    "convexrank.inference",
    "convexrank.jax_losses",
    "convexrank.links",
    "convexrank.losses",
    "convexrank.metrics",
    "convexrank.metrics.conventions",
    "convexrank.plotting",
    "convexrank.prices",
    "convexrank.problems",
    "convexrank.projections",
    "convexrank.regularizers",
    "convexrank.solvers",
    "convexrank.verification.report",
    "convexrank.verification.loss.verify",
    "convexrank_annex.bounds",
    "convexrank_annex.claims",
    "convexrank_annex.population",
)
# What users get, and do not make.
RESULTS = {
    "Band", "Bound", "BregmanResult", "Calibration", "ClaimsReport", "Claim", "Comparison", "Counterexample",
    "Difference", "Explanation", "Farm", "FarmGain", "Finding", "Interval", "LetorData", "LetorFold", "ListLength",
    "Lists", "LossReport", "PerturbationBound", "PublishedRank", "RademacherAverage", "RankingRisk", "Report",
    "SampleSize", "ScoreCard", "Shapes", "Solution", "State", "TableData", "Threshold", "TopHits",
}  # fmt: skip
# Helpers of the package that stand in a public list for its own modules, and what contributors write claims with.
INTERNAL = {
    "at_least", "at_most", "claim", "codes_of", "did_you_mean", "equal", "holm", "in_node_order", "index_of",
    "is_missing", "judge", "read_array", "shown",
}  # fmt: skip
# Calls about a folder of an example, which is gone when the example ends; tests/test_stored_graphs.py has them.
IN_FOLDERS = {"Graph.build", "Graph.open", "Graph.save"}
_RECORD = "__record__"
# Said of an error of what follows a call.
LATER = "the call itself was accepted"


@dataclasses.dataclass(frozen=True, eq=False)
class Call:
    """A valid call, and what is asked of its result afterwards."""

    function: Callable[..., Any]
    bound: inspect.BoundArguments
    then: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = dataclasses.field(default_factory=list)

    @property
    def parameters(self) -> list[str]:
        kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
        return [name for name, item in self.bound.signature.parameters.items() if item.kind not in kinds]

    def run(self, **replaced: Any) -> list[Any]:
        """Make the call, with other values for some arguments; return its result and those of what follows."""
        function, bound = copy_of(self.function), copy.copy(self.bound)
        bound.arguments = {name: copy_of(value) for name, value in self.bound.arguments.items()} | replaced
        results = [function(*bound.args, **bound.kwargs)]
        try:
            for method, args, kwargs in self.then:
                results.append(getattr(results[0], method)(*map(copy_of, args), **kwargs))
        except Exception as error:
            error.add_note(LATER)
            raise
        return results


def copy_of(value: Any) -> Any:
    """A copy of what a call may change: estimators, and random numbers."""
    owner = getattr(value, "__self__", None)
    if inspect.ismethod(value) and hasattr(owner, "fit"):
        return getattr(copy.deepcopy(owner), value.__name__)
    changes = hasattr(value, "fit") or type(value).__name__ == "Generator"
    return copy.deepcopy(value) if changes and not inspect.isgenerator(value) else value


def public() -> dict[str, Any]:
    """Functions and classes that users call, by the name they were defined under."""
    found = {}
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if is_called(thing) and not thing.__name__.startswith(("check_", "refuse_")) | (name in INTERNAL):
                found[f"{thing.__module__}.{thing.__qualname__}"] = thing
    return dict(sorted(found.items()))


def is_called(thing: Any) -> bool:
    if inspect.isfunction(thing):
        return thing.__module__.startswith("convexrank")
    if not inspect.isclass(thing) or not thing.__module__.startswith("convexrank"):
        return False
    if getattr(thing, "_is_protocol", False) or issubclass(thing, enum.Enum | Warning):
        return False
    return thing.__name__ not in RESULTS


class _Recording(ast.NodeTransformer):
    """Turn f(a) into record(f, a)."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        return ast.Call(ast.Name(_RECORD, ast.Load()), [node.func, *node.args], node.keywords)


class Recorder:
    """Carries out calls and keeps those of the package."""

    def __init__(self, package: str) -> None:
        self._package = package
        self.calls: list[Call] = []
        self._made: dict[int, tuple[Any, Call]] = {}

    def __call__(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        owner = getattr(function, "__self__", None)
        if getattr(function, "__qualname__", "") in IN_FOLDERS:
            return result
        if id(owner) in self._made and type(owner).__module__.startswith(self._package):
            name = getattr(function, "__name__", "")
            self._made[id(owner)][1].then.append((name, args, kwargs))
        if _is_public(function, self._package):
            bound = inspect.signature(function).bind(*args, **kwargs)
            bound.apply_defaults()
            call = Call(function, bound)
            self.calls.append(call)
            if result is not None and result is not owner:
                self._made.setdefault(id(result), (result, call))  # kept, so that no other gets its id
        return result


def _is_public(function: Any, package: str) -> bool:
    if not (inspect.isfunction(function) or inspect.ismethod(function) or inspect.isclass(function)):
        return False
    name = function.__qualname__
    private = "<" in name or any(part.startswith("_") for part in name.split("."))
    return function.__module__.startswith(package) and not private


def _recorded(source: str) -> ast.Module:
    """The same statements, of which a recorder makes the calls."""
    return ast.fix_missing_locations(_Recording().visit(ast.parse(source)))


def record(text: str, names: dict[str, Any], package: str = "convexrank") -> list[Call]:
    """Run the examples in a text, and return the calls of a package that they make."""
    recorder = Recorder(package)
    names = {**names, _RECORD: recorder}
    for example in doctest.DocTestParser().get_examples(text):
        if example.exc_msg is None:
            exec(compile(_recorded(example.source), "<example>", "exec"), names)
    return recorder.calls


#: Calls of docstrings that were run before, by module and text: they take half a minute to run.
_RUN: dict[tuple[str, str], list[Call]] = {}


@lru_cache(maxsize=1)
def _modules() -> set[str]:
    """Where public functions and classes are defined."""
    return {thing.__module__ for thing in public().values()}


def keep_calls(test: doctest.DocTest, module: str) -> None:
    """Let a doctest of a docstring keep the calls that it makes, for whoever asks for them in this process."""
    if module not in _modules():
        return
    test.globs[_RECORD] = recorder = Recorder(module.partition(".")[0])
    for example in test.examples:
        if example.exc_msg is None:
            example.source = ast.unparse(_recorded(example.source)) + "\n"
    _RUN[module, inspect.cleandoc(test.docstring or "")] = recorder.calls


def examples(thing: Any) -> Iterator[str]:
    """The docstrings of a function, or of a class and its methods."""
    yield inspect.getdoc(thing) or ""
    if inspect.isclass(thing):
        for name, member in inspect.getmembers(thing):
            if not name.startswith("_") and (inspect.isfunction(member) or inspect.ismethod(member)):
                yield inspect.getdoc(member) or ""


def calls_of(thing: Any, extra: str = "") -> list[Call]:
    """Valid calls of a public function; of a class, its other constructors, and the methods of estimators and problems.

    At most two of each.
    """
    names = vars(inspect.getmodule(thing))
    found: dict[str, list[Call]] = {}
    for text in dict.fromkeys((*examples(thing), extra)):
        place = thing.__module__, text
        if place not in _RUN:
            _RUN[place] = record(text, names, thing.__module__.partition(".")[0])
        for call in _RUN[place]:
            owner = getattr(call.function, "__self__", None)
            acts = isinstance(owner, Problem) or hasattr(owner, "fit") or hasattr(owner, "partial_fit")
            if call.function is thing or (
                inspect.isclass(thing) and (owner is thing or (acts and type(owner) is thing))
            ):
                found.setdefault(call.function.__qualname__, []).append(call)
    if inspect.isclass(thing) and issubclass(thing, Problem) and hasattr(thing, "random"):
        found.setdefault(thing.__qualname__, []).insert(1, _of_instance(thing.random(0)))
    return [call for calls in found.values() for call in calls[:2]]


def _of_instance(problem: Any) -> Call:
    """The call that makes a random instance: it has options that examples leave alone."""
    given = {item.name: getattr(problem, item.name) for item in dataclasses.fields(problem) if item.init}
    bound = inspect.signature(type(problem)).bind(**given)
    return Call(type(problem), bound, [("certificate", (problem.start(),), {})])
