"""Code too wide, dead links, and too many words, in pages, docstrings and Markdown: python docs/check_pages.py.

The build finds most dead links too, minutes later; a role whose name does not exist it leaves as plain text.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What a window of 1280 points shows without scrolling, under _static/custom.css; a docstring is set farther in.
PAGE_COLUMNS, DOCSTRING_COLUMNS, PROSE_COLUMNS = 120, 116, 130
# What the landing page and the first three of its doors may have together: a word more has to replace another.
DOORS, WORDS = 3, 36_500

_ROLE = re.compile(r":(doc|ref|mod|class|func|meth|attr|data):`(?:[^`<]*<)?([^`>]+)>?`")
_OPENS_A_LITERAL_BLOCK = re.compile(r"(?!\.\. ).*::$|\.\. (code-block|parsed-literal)::")
_DOOR = re.compile(r"^\.\. toctree::\n((?: +.*\n|\n)+)", re.MULTILINE)
_LABEL = re.compile(r"^\.\. _([^:`]+):", re.MULTILINE)
_MARKDOWN_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
_NAMED_FILE = re.compile(r"`((?:convexrank|annex|tests|docs|examples|benchmarks)/[\w./-]+\.\w+)`")
_WRITTEN_BY_THE_BUILD = ("docs/_build/", "docs/gallery/", "docs/generated/")


@dataclass(frozen=True)
class Text:
    """A page, a docstring, or a file of Markdown, with where it begins and what its short names refer to."""

    file: Path
    line: int
    words: str
    module: str = ""

    def at(self, position):
        """File and line of a position in the words."""
        return f"{self.file}:{self.line + self.words.count(chr(10), 0, position)}"


def pages(root):
    """Return the pages below docs/."""
    return [
        Text(file, 1, file.read_text("utf-8"))
        for file in sorted((root / "docs").rglob("*.rst"))
        if not file.relative_to(root).as_posix().startswith(_WRITTEN_BY_THE_BUILD)
    ]


def docstrings(root):
    """Return the docstrings of the package and of its annex."""
    found = []
    for package in (root / "convexrank", root / "annex" / "convexrank_annex"):
        for file in sorted(package.rglob("*.py")):
            module = ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(
                ".__init__"
            )
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
                    found.append(Text(file, node.body[0].lineno, ast.get_docstring(node), module))
    return found


def markdown(root):
    """Return the Markdown files at the root, in the annex and in .github."""
    below = [file for folder in ("annex", ".github") for file in sorted((root / folder).rglob("*.md"))]
    files = [*sorted(root.glob("*.md")), *below]
    return [Text(file, 1, file.read_text("utf-8")) for file in files]


def wide_code(text, columns):
    """Lines of examples, of their outputs and of literal blocks with more columns than are shown."""
    found, example, literal = [], False, None
    for number, line in enumerate(text.words.splitlines(), text.line):
        bare, indent = line.strip(), len(line) - len(line.lstrip())
        if literal is not None and bare and indent <= literal:
            literal = None
        example = bool(bare) and (example or bare.startswith(">>> "))
        if (example or literal is not None) and len(line) > columns:
            found.append(f"{text.file}:{number}: code of {len(line)} columns, {columns} are shown")
        if literal is None and not example and _OPENS_A_LITERAL_BLOCK.match(bare):
            literal = indent
    return found


def too_many_words(on_pages, docs):
    """What the landing page and its first doors have beyond their budget; an index of a folder stands for its pages."""
    index = next((page for page in on_pages if page.file == docs / "index.rst"), None)
    if index is None:
        return []
    doors = [door.split() for door in _DOOR.findall(index.words)[:DOORS]]
    listed = {docs / name for door in doors for name in door}
    read = [
        page
        for page in on_pages
        if page is index or page.file.with_suffix("") in listed or page.file.parent / "index" in listed
    ]
    words = sum(len(page.words.split()) for page in read)
    return [f"{index.file}: the first {DOORS} doors have {words} words, at most {WORDS}"] * (words > WORDS)


def wide_prose(text, columns):
    """Lines of Markdown with more columns than an editor shows; tables, addresses and code cannot be broken."""
    words = re.sub(
        r"^```.*?^```", lambda code: "\n" * code[0].count("\n"), text.words, flags=re.DOTALL | re.MULTILINE
    )
    words = re.sub(r"\]\(https://[^)\s]*\)", "]()", words)
    return [
        f"{text.file}:{number}: prose of {len(line)} columns, at most {columns}"
        for number, line in enumerate(words.splitlines(), text.line)
        if len(line) > columns and not line.startswith(("|", "    ", "![", "*Drawn"))
    ]


def dead_roles(text, docs, labels):
    """Roles in a page or a docstring whose page, label or name does not exist."""
    found = []
    for match in _ROLE.finditer(text.words):
        role, target = match[1], match[2].strip().lstrip("~!")
        if role == "doc":
            place = (
                docs / target.lstrip("/")
                if target.startswith("/") or text.module
                else text.file.parent / target
            )
            alive = place.with_suffix(".rst").is_file() or _script(place, docs).is_file()
        elif role == "ref":
            alive = (
                target in labels
                or target.startswith("sphx_glr_")
                or target in {"genindex", "modindex", "search"}
            )
        else:
            alive = exists(target) or _is_short_name(target, text.module)
        if not alive:
            found.append(f"{text.at(match.start())}: {role} of {target!r}, which does not exist")
    return found


def _script(place, docs):
    """Return the script from which the build makes a page of the gallery."""
    examples = docs.parent / "examples"
    if not place.is_relative_to(docs / "gallery"):
        return place
    name = place.relative_to(docs / "gallery")
    return (
        examples / name.with_name("README.rst")
        if name.name == "index"
        else examples / name.with_suffix(".py")
    )


@cache
def exists(dotted):
    """Whether a dotted name is a module, or can be had from one by attributes or fields of a dataclass."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        return _has(found, parts[cut:])
    return False


def _has(found, parts):
    for part in parts:
        if part in getattr(found, "__dataclass_fields__", {}):
            return True
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def _is_short_name(target, module):
    """Whether the module of a docstring, a class in it, or the package that shows it to users has the target."""
    if not module:
        return False
    own, shown = importlib.import_module(module), importlib.import_module(".".join(module.split(".")[:2]))
    classes = [
        value for value in vars(own).values() if isinstance(value, type) and value.__module__ == module
    ]
    return any(_has(home, target.split(".")) for home in [own, shown, *classes])


def dead_links(text, root):
    """Links of Markdown to files or headings, and names of files in it, that do not exist."""
    found = []
    for match in _MARKDOWN_LINK.finditer(text.words):
        target = match[1] or match[2]
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, heading = target.partition("#")
        file = (text.file.parent / name) if name else text.file
        if not file.exists() or (heading and heading not in _headings(file.read_text("utf-8"))):
            found.append(f"{text.at(match.start())}: link to {target!r}, which does not exist")
    for match in _NAMED_FILE.finditer(text.words):
        if not (root / match[1]).exists():
            found.append(f"{text.at(match.start())}: file {match[1]!r}, which does not exist")
    return found


def _headings(words):
    titles = re.findall(r"^#+ +(.+)$", words, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


def findings(root):
    """Return everything that is wrong below a folder with docs/, convexrank/ and Markdown."""
    on_pages, in_docstrings, in_markdown = pages(root), docstrings(root), markdown(root)
    labels = {label for page in on_pages for label in _LABEL.findall(page.words)}
    found = too_many_words(on_pages, root / "docs")
    found += [finding for page in on_pages for finding in wide_code(page, PAGE_COLUMNS)]
    found += [finding for text in in_docstrings for finding in wide_code(text, DOCSTRING_COLUMNS)]
    # The changelog has one line for each change, so that branches merge.
    written = [text for text in in_markdown if text.file.name != "CHANGELOG.md"]
    found += [finding for text in written for finding in wide_prose(text, PROSE_COLUMNS)]
    for text in [*on_pages, *in_docstrings]:
        found += dead_roles(text, root / "docs", labels)
    return found + [finding for text in in_markdown for finding in dead_links(text, root)]


if __name__ == "__main__":
    wrong = findings(ROOT)
    print(
        "\n".join(wrong)
        or "pages, docstrings and Markdown: no code too wide, no dead link, within the budget of words"
    )
    sys.exit(bool(wrong))
