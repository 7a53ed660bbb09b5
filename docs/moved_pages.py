"""Old addresses of pages: the build writes a small page at each, which leads to the new place."""

from __future__ import annotations

from pathlib import Path

MOVED = {
    "bounds": "published_bounds",
    "custom_price": "your_own_objective",
    "how_far_it_goes": "large_data",
    "out_of_memory": "large_data",
    "processes": "large_data",
    "testing": "guarantees",
}
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url={new}.html">
<link rel="canonical" href="{new}.html">
<title>This page has moved</title>
</head>
<body><p>This page has moved: <a href="{new}.html">{new}</a>.</p></body>
</html>
"""


def _write(app, failed):
    if failed is None and app.builder.format == "html":
        for old, new in MOVED.items():
            Path(app.outdir, f"{old}.html").write_text(_PAGE.format(new=new), encoding="utf-8")


def setup(app):
    """Write the pages once all others are there."""
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}
