"""Every block of Python on the pages and in the docstrings is run, and its output compared."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

import convexrank
import convexrank_annex
from convexrank.problems import REGISTRY
from tests.fuzzer.calls import keep_calls

ROOT = Path(__file__).resolve().parent.parent
DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"
NO_PAGES = {"_build", "_templates", "gallery", "generated"}
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def pages():
    found = (page.relative_to(DOCS) for page in DOCS.rglob("*.rst"))
    return sorted(page.as_posix() for page in found if page.parts[0] not in NO_PAGES)


def modules():
    packages = (convexrank, convexrank_annex)
    found = [
        item.name for one in packages for item in pkgutil.walk_packages(one.__path__, f"{one.__name__}.")
    ]
    return [name for name in found if not name.endswith("__main__")]


def read(page):
    return (DOCS / page).read_text(encoding="utf-8")


# What differs between machines: seconds, steps, and numbers so small that they are rounding or below a tolerance.
VARIES = (
    (re.compile(r"[-+]?\d(?:\.\d+)?e-(?:0[5-9]|[1-9]\d)"), "~0"),
    (re.compile(r"\b(gap|distance|violation|residual|error|bound|most) [-+]?0(?:e\+00)?(?![\d.])"), r"\1 ~0"),
    (re.compile(r"(\(\S+, )(?:\d+ steps?, )?\S+ s\)"), r"\1seconds)"),
)


class Checker(doctest.OutputChecker):
    """Compares outputs after what differs between machines is taken out."""

    def check_output(self, want, got, flags):
        for pattern, replacement in VARIES:
            want, got = pattern.sub(replacement, want), pattern.sub(replacement, got)
        return super().check_output(want, got, flags)


def run(test):
    """Run one doctest; return how many examples it has, and the report of those that failed."""
    # the runner makes a debugger for each test, which looks up the dates of all files read so far
    if not test.examples:
        return 0, ""
    report = []
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=OPTIONS)
    outcome = runner.run(test, out=report.append, clear_globs=False)
    return outcome.attempted, "".join(report) if outcome.failed else ""


def page_test(text, name, globs=None):
    return doctest.DocTestParser().get_doctest(text, dict(globs or {}), name, name, 0)


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


# --- pages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages())
def test_blocks_of_a_page(page):
    text = read(page)
    attempted, report = run(page_test(text, page))
    assert not report, report
    assert attempted == len(re.findall(r"^ *>>> ", text, flags=re.MULTILINE))
    assert "+SKIP" not in text, "a block that is skipped is not run"


PYTHON_THAT_NOBODY_RUNS = re.compile(
    r"^ *\.\. (code-block|code|sourcecode|testcode):: *(python|py|pycon|ipython)?$"
)


@pytest.mark.parametrize("page", pages())
def test_no_python_on_a_page_goes_unrun(page):
    lines = read(page).splitlines()
    assert not [line for line in lines if PYTHON_THAT_NOBODY_RUNS.match(line)]
    included = [line.split("::")[1].strip() for line in lines if ".. literalinclude::" in line]
    run_elsewhere = {"../README.md": "test_readme", "processes_example.py": "test_shards"}
    assert set(included) <= run_elsewhere.keys(), "what is included is run by a test of its own"
    literal = re.findall(r"::\n\n((?:    .*\n|\n)+)", "\n".join(lines) + "\n")
    assert not [
        block for block in literal if re.search(r"^ *(import|from) \w+|^ *\w+ = ", block, re.MULTILINE)
    ]


def paragraphs_of_cells(text):
    """Paragraphs that are indented into a cell of a list-table, behind its first."""
    tables = re.findall(r"^\.\. list-table::.*\n((?: .*\n|\n)+)", text, flags=re.MULTILINE)
    return [line for table in tables for line in re.findall(r"\n\n {5,}([^\s:*-].*)", table)]


def test_a_paragraph_in_a_cell_is_found():
    table = ".. list-table::\n   :header-rows: 1\n\n   * - a\n     - b\n   * - c\n     - d\n       e\n\n"
    assert not paragraphs_of_cells(table + "Text.\n")
    assert paragraphs_of_cells(table + "       Text.\n") == ["Text."]


@pytest.mark.parametrize("page", pages())
def test_no_paragraph_is_indented_into_a_cell(page):
    assert not paragraphs_of_cells(read(page))


def test_titles_on_a_phone_are_larger_than_those_of_sections():
    style = read("_static/custom.css")
    phone = style[style.index("@media (max-width") :]
    sizes = [float(size) for size in re.findall(r"article h[123] \{ font-size: ([\d.]+)rem", phone)]
    assert len(sizes) == 3
    assert sizes == sorted(sizes, reverse=True)


def test_figures_are_dimmed_where_the_system_is_dark():
    style = read("_static/custom.css")
    chosen = re.findall(r'^body\[data-theme="dark"\] (.*)$', style, flags=re.MULTILINE)
    automatic = re.findall(
        r'^@media \(prefers-color-scheme: dark\) \{\n  body:not\(\[data-theme="light"\]\) (.*)\n\}',
        style,
        flags=re.MULTILINE,
    )
    assert chosen == automatic != []


def test_the_pages_that_teach_have_blocks():
    without = {page for page in pages() if ">>> " not in read(page)}
    assert without <= {
        "api.rst",
        "benchmarks.rst",
        "changelog.rst",
        "examples.rst",
        "papers.rst",
        "formulations/index.rst",
        "references.rst",
        "reproductions.rst",
        "stability.rst",
    }


def test_pages_that_moved_are_found():
    moved = runpy.run_path(str(DOCS / "moved_pages.py"))["MOVED"]
    assert not {f"{old}.rst" for old in moved} & set(pages())
    assert {f"{new}.rst" for new in moved.values()} <= set(pages())


def method_pages():
    return [page for page in pages() if page.startswith("formulations/") and not page.endswith("index.rst")]


BEGINS = re.compile(
    r"\A.+\n=+\n\n\| \*\*Use it when\*\* .+\n\| \*\*Avoid it when\*\* .+\n\| \*\*Typical parameters:\*\* .+\n\n"
)


@pytest.mark.parametrize("page", method_pages())
def test_a_method_page_is_complete(page):
    text = read(page)
    assert BEGINS.match(text), "it begins with three lines: Use it when, Avoid it when, Typical parameters"
    assert text.index(".. figure::") < text.index(".. math::"), "the figure comes before the formula"
    typical = re.search(r"Typical parameters:\*\* (.*)", text).group(1)
    named = set(re.findall(r"``(\w+)(?:=|``| =)", typical))
    fields = {name for cls in REGISTRY.values() for name in getattr(cls, "__dataclass_fields__", {})}
    assert named & fields, "typical parameters are parameters"
    headings = set(re.findall(r"^(.+)\n-{3,}$", text, flags=re.MULTILINE))
    for wanted in ("objective", "computed", "certificate", "minimiser|answer"):
        assert any(re.search(wanted, heading) for heading in headings), f"no section on: {wanted}"
    assert ".. math::" in text
    assert f":ref:`findings-{Path(page).stem}`" in text, "what we found in the paper is on a page of its own"
    figure = ".. figure:: /gallery/formulations/images/"
    assert figure in text, "no figure made by a script in examples/formulations/"
    assert re.search(r"^Sources?: ", text, flags=re.MULTILINE), "no line that begins with Source: or Sources:"


@pytest.mark.parametrize("name", REGISTRY)
def test_every_formulation_has_a_page_that_is_listed(name):
    index = (DOCS / "formulations" / "index.rst").read_text(encoding="utf-8")
    listed = {page for page in method_pages() if re.search(rf"^   {Path(page).stem}$", index, re.MULTILINE)}
    taught = {page for page in method_pages() if f"convexrank.problems.{name}`" in read(page)}
    assert taught & listed, f"docs/formulations/index.rst lists no page on {name}"


@pytest.mark.parametrize("page", pages())
def test_figures_come_from_scripts_of_the_gallery(page):
    text = read(page)
    for folder, script in re.findall(r":: /gallery/((?:\w+/)?)images/sphx_glr_(\w+)_\d{3}\.png", text):
        assert (EXAMPLES / folder / f"{script}.py").is_file()
    for picture in re.findall(r"^ *\.\. (?:figure|image):: (\S+)", text, flags=re.MULTILINE):
        assert picture.startswith(("/gallery/", "/_static/"))


# --- docstrings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module_name", modules())
def test_examples_in_docstrings(module_name):
    module = importlib.import_module(module_name)
    reports = []
    # the finder takes properties and methods too; names imported from elsewhere are tested where they are defined
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, module_name):
        keep_calls(test, module_name)  # for the fuzzer
        reports.append(run(test)[1])
    assert not any(reports), "".join(reports)


def test_docstrings_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    names = {
        test.name
        for module_name in modules()
        for test in finder.find(importlib.import_module(module_name), module_name)
        if test.examples
    }
    for formulation in REGISTRY.values():
        assert f"{formulation.__module__}.{formulation.__name__}" in names
        assert inspect.getdoc(formulation)


# --- the checker itself ---------------------------------------------------------------------------------------------


def test_a_wrong_output_is_caught():
    attempted, report = run(page_test("Text.\n\n>>> 1 + 1\n3\n", "planted"))
    assert attempted == 1
    assert "Expected" in report


def test_what_varies_is_taken_out_and_nothing_else():
    line = "Solution: CONVERGED (newton, 9 steps, 1.4 s), value -0.58322, gap 4e-15 certified (global)\n"
    alike = (
        line.replace("9 steps, 1.4 s", "11 steps, 0.003 s"),
        line.replace("4e-15", "3.1e-09"),
        line.replace("4e-15", "0"),
    )
    others = (
        line.replace("4e-15", "4e-03"),
        line.replace("4e-15", "0.5"),
        line.replace("newton", "lbfgs"),
        line.replace("-0.58322", "-0.58323"),
        line.replace("certified", "proved"),
        line.replace("CONVERGED", "FAILED"),
    )
    check = Checker().check_output
    assert all(check(line, other, OPTIONS) for other in alike)
    assert not any(check(line, other, OPTIONS) for other in others)


BARE = re.compile(r"[\s()\[\],]*(?:(?:True|False)[\s()\[\],]*)+")


def texts_with_examples():
    packages = (convexrank, convexrank_annex)
    docstrings = [file for one in packages for file in sorted(Path(one.__file__).parent.rglob("*.py"))]
    return [
        *(DOCS / page for page in pages()),
        *(file for file in docstrings if ">>> " in file.read_text("utf-8")),
    ]


@pytest.mark.parametrize("file", texts_with_examples(), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_outputs_are_results(file):
    """A reader learns nothing from True: an example shows the two numbers that agree."""
    for text in (
        re.findall(r'"""(.*?)"""', file.read_text("utf-8"), re.DOTALL)
        if file.suffix == ".py"
        else [file.read_text("utf-8")]
    ):
        if ">>> " not in text:
            continue
        for example in doctest.DocTestParser().get_examples(text):
            shown = example.want.strip()
            assert not BARE.fullmatch(shown) or not COMPARES.search(example.source), example.source


COMPARES = re.compile(r"bool\(|isclose|allclose| (?:<|>|<=|>=|==) ")


def test_a_bare_verdict_is_caught():
    assert BARE.fullmatch("(True, False)")
    assert not BARE.fullmatch("('newton', True)")
    assert COMPARES.search("bool(np.isclose(a, b))")
    assert COMPARES.search("a < b")
    assert not COMPARES.search("learner.fitted")


def test_a_warning_is_caught():
    attempted, report = run(page_test(">>> import warnings\n>>> warnings.warn('planted')\n", "planted"))
    assert attempted == 2
    assert "UserWarning: planted" in report


def test_unrun_python_is_caught():
    assert PYTHON_THAT_NOBODY_RUNS.match(".. code-block:: python")
    assert PYTHON_THAT_NOBODY_RUNS.match("   .. code::")
    assert not PYTHON_THAT_NOBODY_RUNS.match(".. code-block:: bibtex")


def test_the_table_of_dependencies_is_of_all_of_them():
    """And of no others; the packages of a light install are those that the page installs."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        wanted = {re.match(r"[\w-]+", line)[0] for line in tomllib.load(file)["project"]["dependencies"]}
    table = (DOCS / "dependency_sizes.inc").read_text(encoding="utf-8")
    row = re.compile(r"^   \* - ([\w-]+)\n     - .+\n     - [\d.]+ MB.*\n     - (yes|no)$", re.MULTILINE)
    assert {name for name, _ in row.findall(table)} == wanted
    light = re.search(r"\$ pip install (numpy .+)", read("install.rst"))[1].split()
    assert {name for name, answer in row.findall(table) if answer == "yes"} == set(light)
