"""Symbols of a claim as formulas: the registry has statements as plain text, for a terminal."""

from __future__ import annotations

import re

_SYMBOLS = "‖⟨⟩∇∫Σ√^_=≤≥<>∞∈→↦∘·⌊⌋|½¼∪∩ℓ" + "".join(map(chr, range(0x391, 0x3D7)))
_OPERATORS = {*"=≤≥<>+−→↦∘·∈/∉", "less"} - {"less"}
_NAMES = {"exp", "log", "min", "max", "sup", "inf", "tanh", "cosh"}
_WORD_LETTERS = {"a", "A", "I"}
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_PAIRS = {"(": ")", "[": "]", "⟨": "⟩", "⌊": "⌋"}


def _is_symbol(word):
    bare = word.strip("(),.;:")
    if not bare:
        return False
    if re.fullmatch(r"[A-Za-z]'?", bare):
        return bare not in _WORD_LETTERS
    return bool(set(bare) & set(_SYMBOLS)) or bool(re.match(r"\w{1,2}[(₀-₉⁻¹²³]|[A-Za-z]\*?$", bare)) or (
        bare in _OPERATORS
    )


def _open(text):
    return sum(text.count(left) for left in _PAIRS) > sum(text.count(right) for right in _PAIRS.values())


def runs(text):
    """Return the text in pieces: whether a piece is a formula, and the piece."""
    words, found, place = text.split(" "), [], 0
    while place < len(words):
        first = place
        while place < len(words) and _continues(words, first, place):
            place += 1
        formula = " ".join(words[first:place])
        if not formula or formula in _OPERATORS:
            place = max(place, first + 1)
            found.append((False, " ".join(words[first:place])))
        else:
            found.append((True, formula))
    return found


def _continues(words, first, place):
    word, before = words[place], " ".join(words[first:place])
    if place > first and _open(before):
        return True
    ends = place > first and before[-1] in ",.;:"
    if _is_symbol(word):
        return not ends
    number = bool(re.fullmatch(r"[\d½¼]+[.,;:)]?", word))
    joins = place > first and words[place - 1] in _OPERATORS
    leads = place + 1 < len(words) and words[place + 1] in _OPERATORS and (number or word in _NAMES)
    return not ends and (joins and (number or word in _NAMES) or leads or (word in _NAMES and _next_is_symbol(words, place)))


def _next_is_symbol(words, place):
    return place + 1 < len(words) and _is_symbol(words[place + 1])
