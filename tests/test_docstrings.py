"""Docstrings are checked like code: numpydoc's rules over every public object, more of them for what users call."""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
from functools import cached_property

import pytest
from numpydoc import validate
from numpydoc.docscrape import get_doc_object

import convexrank
import convexrank_annex

# Not asked of anything. The one-line docstring of a method says what it does; a formulation says more in a page.
NOT_ASKED = {
    "ES01": "no extended summary is needed where one line says it all",
    "EX01": "examples are asked of what users call, below",
    "GL01": "the summary stands on the line of the opening quotes",
    "PR01": "parameters are asked of what users call, below",
    "PR03": "keyword-only fields of a dataclass have no order of their own",
    "RT01": "results are asked of what users call, below",
    "SA01": "'See Also' only where it helps",
}
# Asked of the functions and classes that users call.
ASKED_OF_USERS = {"EX01", "PR01", "RT01"}
# Where one of these would only repeat what stands elsewhere.
SAID_ELSEWHERE = {
    "convexrank.atoms": ({"PR01", "RT01"}, "all atoms take and return the same things, as the module says"),
    "convexrank.core.solving.solve": (
        ASKED_OF_USERS,
        "it carries out Problem.solve, and is documented there",
    ),
}
USERS_CALL = (
    "convexrank.atoms",
    "convexrank.bounds",
    "convexrank.calibration",
    "convexrank.consensus",
    "convexrank.divergences",
    "convexrank.estimators",
    "convexrank.features",
    "convexrank.graphs",
    "convexrank.inference",
    "convexrank.links",
    "convexrank.losses",
    "convexrank.metrics",
    "convexrank.plotting",
    "convexrank.prices",
    "convexrank.core.problem",
    "convexrank.core.results",
    "convexrank.core.cvxpy_model",
    "convexrank.problems",
    "convexrank.projections",
    "convexrank.estimators.graph_ranks",
    "convexrank.regularizers",
    "convexrank.solvers",
    "convexrank.verification.loss.report",
    "convexrank.verification.loss.verify",
    "convexrank.verification.report",
    "convexrank_annex.bounds",
    "convexrank_annex.population",
)


STAND_ALONE = ("convexrank.proof.check", "convexrank.proof.check_fractions")


def modules():
    found = [
        item.name
        for package in (convexrank, convexrank_annex)
        for item in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return ["convexrank", "convexrank_annex", *(name for name in found if not name.endswith("__main__"))]


def public_names(module_name):
    """Names that a module makes public and defines itself, with the public members of its classes.

    Modules with a page, and those that users import from, list them; in any other those without an underscore are for
    other modules. The programs that check proofs stand alone.
    """
    module = importlib.import_module(module_name)
    own = [] if module_name in STAND_ALONE else [name for name in vars(module) if not name.startswith("_")]
    for name in getattr(module, "__all__", own):
        thing = getattr(module, name)
        if not callable(thing) or getattr(thing, "__module__", None) != module_name:
            continue
        yield f"{module_name}.{name}"
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                kinds = property | classmethod | staticmethod | cached_property
                if not member.startswith("_") and (isinstance(value, kinds) or inspect.isfunction(value)):
                    yield f"{module_name}.{name}.{member}"


def users_call():
    """What stands in the ``__all__`` of the modules that users import from, by the name it was defined under."""
    for module_name in USERS_CALL:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            thing = getattr(module, name)
            if (inspect.isfunction(thing) or inspect.isclass(thing)) and not is_exempt(thing):
                yield f"{thing.__module__}.{thing.__qualname__}"


def is_exempt(thing):
    """Protocols are not called, and an enumeration or a warning takes no arguments of its own."""
    return inspect.isclass(thing) and (
        getattr(thing, "_is_protocol", False) or issubclass(thing, enum.Enum | Warning)
    )


class Docstring(validate.Validator):
    """Without its place in a file, which is asked for comments that silence a rule: none does, so no file is parsed."""

    source_file_name = source_file_def_line = None

    def __init__(self, obj_name):
        super().__init__(get_doc_object(self._load_obj(obj_name)))


def complaints(name, asked):
    found = validate.validate(name, validator_cls=Docstring)["errors"]
    return [f"{name}: {code} {text}" for code, text in found if code in asked]


ALWAYS = set(validate.ERROR_MSGS) - set(NOT_ASKED)


@pytest.mark.parametrize("module_name", modules())
def test_docstrings_of_a_module(module_name):
    assert importlib.import_module(module_name).__doc__, f"{module_name} has no docstring"
    found = [complaint for name in public_names(module_name) for complaint in complaints(name, ALWAYS)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", sorted(set(users_call())))
def test_what_users_call_has_parameters_results_and_an_example(name):
    excused = [codes for prefix, (codes, _) in SAID_ELSEWHERE.items() if name.startswith(prefix)]
    assert not complaints(name, ASKED_OF_USERS.difference(*excused))


def test_a_bad_docstring_is_caught(monkeypatch):
    monkeypatch.setattr(convexrank.problems.PNormPush, "__doc__", "lower case, and no parameters")
    name = "convexrank.problems.bipartite.p_norm_push.PNormPush"
    codes = {complaint.split()[1] for complaint in complaints(name, ALWAYS | ASKED_OF_USERS)}
    assert {"SS02", "SS03", "PR01", "EX01"} <= codes
