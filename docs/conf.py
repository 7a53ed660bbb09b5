"""Sphinx configuration. The build needs no network, and neither does reading the pages."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path

import convexrank

sys.path.insert(0, str(Path(__file__).parent))  # for the extensions beside this file

import fast_build

# a style of the code blocks sends the records of all loggers to the terminal: a line per solve
logging.getLogger("convexrank").setLevel(logging.WARNING)

project = "convexrank"
author = "the convexrank developers"
project_copyright = f"2026, {author}"
version = release = convexrank.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # copies MathJax into the pages and points sphinx.ext.mathjax at the copy
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "changelog_page",  # beside this file, as the next
    "claims_table",
    "moved_pages",
    "fast_build",
]
# Links to the pages of other projects need their inventories, which come by network: only where they are asked for.
if os.environ.get("CONVEXRANK_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }
exclude_patterns = ["_build", "gallery/*.ipynb"]
templates_path = ["_templates"]
nitpicky = False

html_theme = "furo"
html_title = f"convexrank {version}"
html_logo = html_favicon = "_static/logo.svg"  # drawn by draw_logo.py, beside this file
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False

# The type of a parameter stands in its numpydoc line; in the signature as well it would only make that long.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
add_module_names = False
autosummary_generate = True
autosummary_ignore_module_all = False
autosummary_imported_members = True
numpydoc_show_class_members = False  # the templates list members
toc_object_entries = False

sphinx_gallery_conf = {
    "plot_gallery": not fast_build.ASKED,
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"^(?!.*plot_).*\.py$",  # a script of another name would be shown but never executed
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("convexrank",),
    "only_warn_on_example_error": False,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # that page loads scripts from the network
    "thumbnail_size": (480, 336),  # twice the size that is shown
    "image_scrapers": ("empty_axes",),  # beside this file
    "capture_repr": (),  # an example prints what it means to show; a bare last line would show object addresses
}
# Notebooks open in Binder where the builder says which public repository has them: owner/name.
if repository := os.environ.get("CONVEXRANK_BINDER"):
    owner, _, name = repository.partition("/")
    sphinx_gallery_conf["binder"] = {
        "org": owner,
        "repo": name,
        "branch": "main",
        "binderhub_url": "https://mybinder.org",
        "dependencies": "binder/requirements.txt",
        "use_jupyter_lab": True,
    }

# "C. Rudin, ..." at the start of a line would be item C of a list.
_INITIAL = re.compile(r"^(\s*(?:\.\. \[\S+\] )?)([A-Z]\. )")


def _escape_initials(app, what, name, obj, options, lines):
    lines[:] = [_INITIAL.sub(r"\1\\\2", line) for line in lines]


# scikit-learn adds set_fit_request and its kin; their docstrings refer to pages that are only in its documentation.
_ROUTING = re.compile(r"set_\w+_request$")


def _skip_routing(app, what, name, obj, skip, options):
    return True if _ROUTING.match(name) else None


def setup(app):
    app.connect("autodoc-skip-member", _skip_routing)
    app.connect("autodoc-process-docstring", _escape_initials)
