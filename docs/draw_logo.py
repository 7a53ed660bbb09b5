"""Draw the logo, docs/_static/logo.svg, a ranked list whose ends lie on a convex curve: python docs/draw_logo.py."""

from __future__ import annotations

from pathlib import Path

TARGET = Path(__file__).parent / "_static" / "logo.svg"
_COLOURS = ("#440154", "#31688e", "#35b779", "#90d743", "#c8e020")
_SIZE, _LEFT, _TOP, _HEIGHT, _STEP = 96, 12, 12, 9, 15


def length(place):
    """How long the bar of a place is: a convex function, so that the first stand out."""
    return 16 + 56 * (1 - place / (len(_COLOURS) - 1)) ** 2


def logo():
    """Return the logo as text."""
    middle = [_TOP + _STEP * place + _HEIGHT / 2 for place in range(len(_COLOURS))]
    bars = [
        f'  <rect x="{_LEFT}" y="{y - _HEIGHT / 2:g}" width="{length(place):g}" height="{_HEIGHT}" '
        f'rx="2" fill="{colour}"/>'
        for place, (colour, y) in enumerate(zip(_COLOURS, middle, strict=True))
    ]
    steps = [place / 8 for place in range(8 * (len(_COLOURS) - 1) + 1)]
    curve = " ".join(f"{_LEFT + length(step) + 8:.1f},{middle[0] + _STEP * step:.1f}" for step in steps)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SIZE} {_SIZE}" role="img" '
            'aria-label="convexrank">',
            *bars,
            f'  <polyline points="{curve}" fill="none" stroke="#d55e00" stroke-width="3" stroke-linecap="round"/>',
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(logo(), encoding="utf-8")
