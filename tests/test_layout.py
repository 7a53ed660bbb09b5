"""The layout of the package: imports point down, without circles, and files are where their names say."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

import convexrank as cr
import convexrank_annex

pytestmark = pytest.mark.quick

ROOT = Path(cr.__file__).parent
ANNEX = Path(convexrank_annex.__file__).parent
PROJECT = ROOT.parent
# Floors, top first: a module may import from its own floor and from those below. CONTRIBUTING.md says the same.
FLOORS = (
    ("annex",),
    ("__main__", "cli", "networkx_backend"),
    ("commands",),
    ("bounds", "differentiable", "estimators", "plotting", "jax_losses", "objectives", "verification"),
    ("problems",),
    ("consensus", "solvers", "links", "divergences", "losses", "population", "prices"),
    (
        "core",
        "proof",
        "projections",
        "graphs",
        "regularizers",
        "metrics",
        "inference",
        "calibration",
        "features",
        "claims",
        "modelling",
    ),
    ("backend", "data", "atoms"),
)
# The one name that a module may import from the front door: it imports nothing itself until a name is used.
FRONT = "convexrank"
MOST_FILES = 16


@cache
def modules():
    """Every module of the package and of its annex by its dotted name, and its file."""
    found = {}
    for root in (ROOT, ANNEX):
        for file in sorted(root.rglob("*.py")):
            parts = file.relative_to(root.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports_of(tree):
    """Names of modules that a syntax tree imports, anywhere: in functions and under TYPE_CHECKING as well."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, "imports are absolute"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.add(full if full in modules() else node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            names |= {part.value for part in node.args if isinstance(part, ast.Constant)}
    return {name for name in names if name in modules()}


@cache
def edges():
    """What each module imports of the package."""
    return {name: imports_of(ast.parse(file.read_text())) - {name} for name, file in modules().items()}


def room(name):
    """The folder or file directly under the package that a module belongs to; the annex is one room."""
    if name.startswith(ANNEX.name):
        return "annex"
    return name.split(".")[1] if "." in name else ""


def floor(name):
    """How far from the ground a module is."""
    return len(FLOORS) - next(i for i, rooms in enumerate(FLOORS) if room(name) in rooms)


def circle(graph):
    """Some circle among the edges, or None."""
    state = {}

    def visit(name, path):
        state[name] = "open"
        for other in sorted(graph[name]):
            if state.get(other) == "open":
                return [*path[path.index(other) :], other] if other in path else [name, other]
            if other not in state and (found := visit(other, [*path, other])):
                return found
        state[name] = "done"
        return None

    for name in graph:
        if name not in state and (found := visit(name, [name])):
            return found
    return None


def upward(graph):
    """Imports that go from a lower floor to a higher one."""
    return [
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in sorted(others)
        if FRONT not in (name, other) and floor(other) > floor(name)
    ]


def test_every_room_has_a_floor():
    rooms = {room(name) for name in modules()} - {""}
    assert rooms == {entry for floor in FLOORS for entry in floor}


def test_imports_point_down():
    assert upward(edges()) == []


def test_no_module_imports_the_front_door():
    """``import convexrank`` inside the package would hide where a name comes from; the command is a user."""
    assert [name for name, others in edges().items() if FRONT in others and room(name) not in FLOORS[1]] == []


def naming_the_annex(texts):
    """Modules of the package that name the annex anywhere, imports by strings and docstrings included."""
    return [name for name, text in texts.items() if room(name) != "annex" and ANNEX.name in text]


def test_the_package_reaches_the_annex_by_one_door():
    texts = {name: file.read_text() for name, file in modules().items()}
    assert naming_the_annex(texts) == ["convexrank.data.annex"]
    planted = {"convexrank.bounds": f'import_module("{ANNEX.name}" + ".bounds")'}
    assert naming_the_annex(texts | planted) == ["convexrank.bounds", "convexrank.data.annex"]


def asking_for_the_class_of_rows(texts):
    """Modules that ask whether rows are a design or pieces, and not what they can do."""
    kinds = re.compile(r"isinstance\([^()]*,\s*\(?[^()]*\b(?:Design|Chunks|Shards)\b")
    return [name for name, text in texts.items() if kinds.search(text)]


def test_nobody_asks_for_the_class_of_rows():
    texts = {name: file.read_text() for name, file in modules().items()}
    assert asking_for_the_class_of_rows(texts) == []
    planted = {"convexrank.bounds": "if isinstance(X, (np.ndarray, Chunks)):"}
    assert asking_for_the_class_of_rows(texts | planted) == ["convexrank.bounds"]


def test_there_is_no_circle():
    graph = {name: {other for other in others if other != FRONT} for name, others in edges().items()}
    assert circle(graph) is None


def test_planted_imports_are_found():
    """Late imports, imports for the type checker, imports by a call, circles of two and of three."""
    late = "def f():\n    from convexrank.solvers import State\n"
    checking = "if TYPE_CHECKING:\n    from convexrank.problems.bipartite.push import Push\n"
    called = "def f():\n    return importlib.import_module('convexrank.problems')\n"
    plants = {
        late: "convexrank.solvers",
        checking: "convexrank.problems.bipartite.push",
        called: "convexrank.problems",
    }
    for text, other in plants.items():
        planted = {"convexrank.core.loop": imports_of(ast.parse(text))}
        assert upward(planted) == [f"convexrank.core.loop imports {other}"]
    assert circle({"a": {"b"}, "b": {"a"}}) == ["a", "b", "a"]
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_a_formulation_is_in_the_file_of_its_name():
    """Files without an underscore are the formulations, each with its class; helpers have an underscore."""
    named = {
        name.rsplit(".", 1)[1]: name
        for name in modules()
        if name.count(".") == 3 and room(name) == "problems" and not name.rsplit(".", 1)[1].startswith("_")
    }
    found = [getattr(cr.problems, name) for name in cr.problems.__all__]
    classes = {cls.__name__.lower(): cls for cls in found if isinstance(cls, type)}
    formulations = {cls.__module__ for cls in classes.values()} - {cr.Problem.__module__}
    assert formulations <= set(named.values())
    for file, name in named.items():
        assert classes[file.replace("_", "")].__module__ == name


@pytest.mark.parametrize("folder", sorted({file.parent for file in modules().values()}), ids=lambda p: p.name)
def test_folders_are_small(folder):
    files = [file for file in folder.glob("*.py") if file.name != "__init__.py"]
    assert len(files) <= MOST_FILES


def texts():
    """Every text of the project that may name a module."""
    folders = ("convexrank", "annex", "docs", "tests", "examples", "benchmarks")
    found = [
        file
        for folder in folders
        for ending in ("py", "rst")
        for file in (PROJECT / folder).rglob(f"*.{ending}")
    ]
    written = ("docs/_build", "docs/generated", "docs/gallery")
    found = [file for file in found if not str(file.relative_to(PROJECT)).startswith(written)]
    names = ("README.md", "CONTRIBUTING.md")
    return [*found, *(folder / name for folder in (PROJECT, ANNEX.parent) for name in names)]


def test_texts_name_modules_that_exist():
    """Dotted names and paths in pages, docstrings and comments lead to a module, or to a name in one."""
    known, wrong = modules(), []
    files = {str(file.relative_to(PROJECT)) for file in known.values()}
    for file in texts():
        text = file.read_text()
        for match in re.finditer(r"(?<![\w./-])convexrank(?:_annex)?(?:\.[a-z_][a-z_0-9]*)+(?![\w/-])", text):
            parts = match.group(0).split(".")
            # the longest module, and then at most names in it
            while ".".join(parts) not in known:
                parts.pop()
            if "planted" in match.group(0):  # a module that a test makes
                continue
            rest = match.group(0).split(".")[len(parts) :]
            if rest and not hasattr(__import__(".".join(parts), fromlist=[rest[0]]), rest[0]):
                wrong.append(f"{file.relative_to(PROJECT)}: {match.group(0)}")
        for match in re.finditer(r"(?<![\w/.])(?:convexrank|annex)/[\w/]+\.py", text):
            if match.group(0) not in files:
                wrong.append(f"{file.relative_to(PROJECT)}: {match.group(0)}")
    assert wrong == []


def test_mutants_are_of_modules_that_exist_and_ask_tests_that_exist():
    mutants = ast.parse((PROJECT / "tests/mutants.py").read_text())
    (listed,) = (
        node.value
        for node in mutants.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES"
    )
    named = [ast.literal_eval(key) for key in listed.keys]
    assert [name for name in named if not (ROOT / f"{name}.py").is_file()] == []
    asked = re.findall(r"tests/test_\w+\.py", (PROJECT / "tests/mutants.py").read_text())
    assert len(asked) > len(named)
    assert [name for name in asked if not (PROJECT / name).is_file()] == []


def test_constants_of_the_design_are_those_of_the_code():
    text = (ROOT.parent / "DESIGN.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)\.(\w+)` \| ([\d.e]+) \|", text, re.MULTILINE)
    assert len(rows) > 10
    for module, name, value in rows:
        assert getattr(importlib.import_module(module), name) == float(value), name
