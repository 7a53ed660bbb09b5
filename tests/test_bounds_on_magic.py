"""The table of bounds on MAGIC: what is shipped is what the script computes, and says what the page says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.example_modules import load
from tests.tolerances import tolerance

script = load("bounds_on_magic")


def test_the_shipped_table_says_what_the_page_says():
    rows = script.shipped()
    pushes = [row for row in rows if row.risk != "L"]
    assert {row.risk for row in pushes} == {f"R_{p}" for p in script.POWERS}
    for row in pushes:
        published = "Theorem" in row.statement
        assert row.vacuous == (published and row.risk != "R_1"), row
        assert row.empirical < row.bound
    for p in script.POWERS:
        own = [row.bound for row in pushes if row.risk == f"R_{p}"]
        assert own[-1] == min(own)
        assert own[0] == max(own)


def test_the_shipped_table_is_what_is_computed():
    try:
        found = script.computed(*load("real_data").magic())
    except FileNotFoundError as reason:
        pytest.skip(str(reason))
    shipped = script.shipped()
    assert [(row.risk, row.statement, row.rows) for row in found] == [
        (row.risk, row.statement, row.rows) for row in shipped
    ]
    for one, other in zip(found, shipped, strict=True):
        assert one.bound == pytest.approx(other.bound, abs=tolerance("printed bounds"))
        assert one.empirical == pytest.approx(other.empirical, abs=tolerance("printed bounds"))


def test_rows_that_are_far_out_are_drawn_in():
    X, y = np.random.default_rng(0).normal(size=(5000, 3)), np.arange(5000) % 2 == 0
    X[:3] = 1e6
    train, _, held_out, _, count = script.halves(X, y)
    assert max(np.linalg.norm(rows, axis=1).max() for rows in (train, held_out)) <= script.REACH * (1 + 1e-12)
    assert count <= 3
