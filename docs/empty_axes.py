"""A figure with an empty panel is no figure: the gallery warns of it, and the build takes warnings as errors.

The gallery closes all figures after each block of a script, so a panel that a later block draws stays empty.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
from sphinx.util import logging
from sphinx_gallery import scrapers

DPI = 160  # sharp on a dense screen, where the column of text is 800 points wide


def empty_axes(figure):
    """The titles, or else the numbers, of the axes of a figure that show nothing."""
    found = []
    for number, axes in enumerate(figure.axes):
        shows = axes.has_data() or axes.texts or axes.tables
        if axes.get_visible() and axes.axison and not shows:
            found.append(axes.get_title() or f"number {number}")
    return found


def scrape(block, block_vars, gallery_conf, **options):
    """Save figures as the gallery does, after a look at their axes."""
    for number in plt.get_fignums():
        for axes in empty_axes(plt.figure(number)):
            logging.getLogger(__name__).warning(
                "%s, block of line %s: the axes %r are empty", block_vars["src_file"], block[2], axes
            )
    return scrapers.matplotlib_scraper(block, block_vars, gallery_conf, **({"dpi": DPI} | options))


def _get_sg_image_scraper():
    """What the gallery asks a module named in ``image_scrapers`` for."""
    return scrape
