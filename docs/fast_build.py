"""The pages without running the gallery or judging claims: ``make docs ARGS=fast``.

Figures of an earlier whole build are kept; where there is none, an empty one stands in its place.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from pathlib import Path

ASKED = bool(os.environ.get("CONVEXRANK_FAST_DOCS"))
_PICTURE = re.compile(r"/(gallery/\S+\.png)")


def _empty_picture():
    """One grey point as a PNG file."""
    parts = (
        (b"IHDR", struct.pack(">2I5B", 1, 1, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"\x00\xc0")),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _fill(app):
    docs = Path(app.srcdir)
    pages = (page for page in docs.rglob("*.rst") if page.relative_to(docs).parts[0] != "generated")
    for name in {name for page in pages for name in _PICTURE.findall(page.read_text("utf-8"))}:
        if not (docs / name).exists():
            (docs / name).parent.mkdir(parents=True, exist_ok=True)
            (docs / name).write_bytes(_empty_picture())


def setup(app):
    """After the pages of the gallery are written, and before they are read."""
    if ASKED:
        app.connect("builder-inited", _fill, priority=900)
    return {"parallel_read_safe": True}
