"""Symbols in the statements of claims as LaTeX. The registry has the statements as plain text, for a terminal."""

from __future__ import annotations

import re

_SYMBOLS = frozenset("‖⟨⟩∇Σ√^_|½¼ℓℝ∞∪∩⌊⌋₀₁₂₃₊₋⁰⁴⁺⁻ᵀ²³¹") | {chr(code) for code in range(0x391, 0x3D7)}
_OPERATORS = frozenset("= ≤ ≥ < > + − → ← ↦ ∘ · ∈ ∉ /".split())
_NAMES = frozenset("exp log min max sup inf tanh cosh".split())
_LETTERS = frozenset("a A I".split())  # words of one letter, and of two
_WORDS = frozenset("an as at be by do if in is it no of on or so to up we i".split())
_OPEN, _CLOSE = "([⟨⌊{", ")]⟩⌋}"
_DIGITS = str.maketrans("₀₁₂₃₊₋⁰¹²³⁴⁺⁻", "0123+-01234+-")
_COMMAND_NAMES = frozenset("sqrt tfrac text mathrm".split())
_COMMANDS = {
    "‖": r"\|",
    "⟨": r"\langle ",
    "⟩": r"\rangle ",
    "−": "-",
    "·": r"\cdot ",
    "½": r"\tfrac12 ",
    "¼": r"\tfrac14 ",
    "∞": r"\infty ",
    "ᵀ": r"^{\top}",
}


def _kind(word):
    """Of a word: "symbol", "operator", "neutral" (a part of a formula beside an operator or a symbol), or "word"."""
    bare = re.sub(r"^−?\d*(?=[A-Za-z])", "", word.strip("(),.;:"))
    if word in _OPERATORS:
        return "operator"
    if (re.fullmatch(r"-?\d+(\.\d+)?", bare) and not word.startswith("(")) or bare in _NAMES | _LETTERS | {
        "Var"
    }:
        return "neutral"
    if re.fullmatch(r"[a-z]{2}", bare):
        return "word" if bare in _WORDS else "neutral"
    if re.search(r"[a-z]{2,}-|-[a-z]{2,}", word) or re.fullmatch(r"\([A-Z]?\.?[\d.]+\)", word.strip(",.;:")):
        return "word"
    call = re.search(
        r"^−?\d*([A-Z]{1,2}|[A-Za-z]|exp|log|min|max)[*']?\(|[\w)][/*=−·∘][\w(]|\d[a-z]\b|^\(\d", word
    )
    short = re.fullmatch(r"[A-Za-z][*']?|[A-Z][a-z]|[a-z]1", bare) and bare.lower() not in _WORDS
    return "symbol" if call or short or set(bare) & _SYMBOLS else "word"


def runs(text):
    """Return the pieces of a text: whether it is a formula, and the piece.

    A formula is a longest row of symbols, operators and what belongs to them. Brackets that it opens belong to it;
    punctuation behind it does not.
    """
    found, row = [], []
    for word in text.split():
        depth = sum((letter in _OPEN) - (letter in _CLOSE) for _, part in row for letter in part)
        kind = "symbol" if depth > 0 else _kind(word)
        if kind == "word":
            found += [*_closed(row), (False, word)]
            row = []
            continue
        row.append((kind, word))
        depth += sum((letter in _OPEN) - (letter in _CLOSE) for letter in word)
        if depth <= 0 and word[-1] in ",.;:":
            found += _closed(row)
            row = []
    return found + _closed(row)


def _closed(row):
    """Return the pieces of a row: what cannot begin or end a formula is text."""
    before, after = [], []
    while row and (
        row[0][0] == "operator" or (row[0][1] in _LETTERS and row[1:2] and row[1][0] != "operator")
    ):
        before.append((False, row[0][1]))
        row = row[1:]
    while row and (
        row[-1][0] == "operator" or (row[-1][0] == "neutral" and row[-2:-1] and row[-2][0] != "operator")
    ):
        after.insert(0, (False, row[-1][1]))
        row = row[:-1]
    if not any(kind in ("symbol", "operator") for kind, _ in row):
        return [*before, *((False, word) for _, word in row), *after]
    formula = " ".join(word for _, word in row)
    bare = formula.rstrip(",.;:")
    return [*before, (True, bare), *([(None, formula[len(bare) :])] if bare != formula else []), *after]


def latex(formula):
    """Return a formula in plain text as LaTeX."""
    text = re.sub(r"[₀₁₂₃₊₋]+", lambda found: "_{" + found[0].translate(_DIGITS) + "}", formula)
    text = re.sub(r"[⁰¹²³⁴⁺⁻]+", lambda found: "^{" + found[0].translate(_DIGITS) + "}", text)
    text = re.sub(r"\^\(([^()]*)\)", r"^{\1}", text)
    text = re.sub(r"_(?!\{)([\w']+\*?)", r"_{\1}", text)
    text = re.sub(r"\^(?!\{)([A-Za-z]+|\w)", r"^{\1}", text)
    text = re.sub(r"(?<=\w)\*|(?<=\})\*", "^{*}", text)
    text = _roots(text)
    text = re.sub(r"(?<![\\A-Za-z])(?:U-)?([A-Za-z]{3,}|KL|of)(?![A-Za-z])", _name, text)
    # A role must not end with a blank.
    return "".join(_COMMANDS.get(letter, letter) for letter in text).strip()


def _name(found):
    """A function, a name with an index, or a word inside a bracket."""
    if found[1] in _NAMES:
        return f"\\{found[1]} "
    if found[1] in ("KL", "Lip", "Var"):
        return rf"\operatorname{{{found[1]}}}"
    if found[1] in _COMMAND_NAMES or (found.string[: found.start()].endswith("_{") and len(found[1]) == 3):
        return found[0]
    return (
        rf"\text{{ {found[0]} }}"
        if found.string[: found.start()].endswith((" ", "("))
        else rf"\mathrm{{{found[0]}}}"
    )


def _roots(text):
    """Put what a root covers, a bracket or one symbol, between braces."""
    while "√" in text:
        start = text.index("√")
        end, depth = start + 1, 0
        while end < len(text):
            depth += (text[end] in _OPEN) - (text[end] in _CLOSE)
            end += 1
            if depth == 0 and text[end - 1] != "Σ" and text[end - 1] != " ":
                break
        inside = text[start + 1 : end]
        if inside.startswith("(") and inside.endswith(")"):
            inside = inside[1:-1]
        text = text[:start] + r"\sqrt{" + inside + "}" + text[end:]
    return text
