"""Formulas in the table of claims: symbols become LaTeX, words stay words."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from convexrank import claims

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def symbols():
    spec = importlib.util.spec_from_file_location("claims_math", DOCS / "claims_math.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "The mean minimises it over y.",
            [(False, "The"), (False, "mean"), (False, "minimises"), (False, "it")],
        ),
        (
            "x = 2y, and a point",
            [(True, "x = 2y"), (None, ","), (False, "and"), (False, "a"), (False, "point")],
        ),
        ("a ← (1 + a)/2 has", [(True, "a ← (1 + a)/2"), (False, "has")]),
        ("the cost (3.7).", [(False, "the"), (False, "cost"), (False, "(3.7).")]),
        ("c a bound", [(True, "c"), (False, "a"), (False, "bound")]),
        ("a φ of", [(False, "a"), (True, "φ"), (False, "of")]),
        ("s-strongly convex φ;", [(False, "s-strongly"), (False, "convex"), (True, "φ"), (None, ";")]),
        ("from p = 3 on", [(False, "from"), (True, "p = 3"), (False, "on")]),
        ("M(s, θ), the", [(True, "M(s, θ)"), (None, ","), (False, "the")]),
    ],
)
def test_formulas_are_found(symbols, words, expected):
    assert symbols.runs(words)[: len(expected)] == expected


@pytest.mark.parametrize(
    ("plain", "expected"),
    [
        ("x² − H₁⁻¹", "x^{2} - H_{1}^{-1}"),
        ("√(4a² + 1)/2", r"\sqrt{4a^{2} + 1}/2"),
        ("√n·EU", r"\sqrt{n}\cdot EU"),
        ("√(a(b + c)) + 1", r"\sqrt{a(b + c)} + 1"),
        ("d_ik^{p−1}", "d_{ik}^{p-1}"),
        ("φ*(x)", "φ^{*}(x)"),
        ("k·x^(1/k)", r"k\cdot x^{1/k}"),
        ("R_max", r"R_{\max }"),
        ("R^true", r"R^{\mathrm{true}}"),
        ("2 exp(−½t)", r"2 \exp (-\tfrac12 t)"),
        ("KL(p‖q)", r"\operatorname{KL}(p\|q)"),
    ],
)
def test_formulas_become_latex(symbols, plain, expected):
    assert symbols.latex(plain) == expected


def test_every_statement_keeps_its_words_and_has_balanced_braces(symbols):
    formulas = 0
    for judged in claims.REGISTRY.values():
        for words in (judged.statement, judged.contrast_statement):
            pieces = symbols.runs(words)
            again = "".join(("" if kind is None else " ") + piece for kind, piece in pieces).strip()
            assert again == " ".join(words.split())
            for kind, piece in pieces:
                if kind:
                    text = symbols.latex(piece)
                    assert text.count("{") == text.count("}")
                    assert not set("√₀₁₂⁻²‖⟨½−·`") & set(text)
                    formulas += 1
                else:
                    assert not set("√‖⟨⟩∇φθ^") & set(piece), piece
    assert formulas > len(claims.REGISTRY)
