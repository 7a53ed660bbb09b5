"""Bars and the logger: silent unless asked for, and the same words wherever they are asked for."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import convexrank as cr
from convexrank.backend import progress
from convexrank.backend.progress import progress_bar

PUSH = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=2, l2=0.1)


def test_a_program_without_logging_hears_nothing(capfd):
    logger = logging.getLogger("convexrank")
    assert any(isinstance(handler, logging.NullHandler) for handler in logger.handlers)
    PUSH.solve()
    assert capfd.readouterr() == ("", "")


def test_solves_are_said_at_info_and_steps_at_debug(caplog):
    with caplog.at_level(logging.INFO, "convexrank"):
        solution = PUSH.solve()
    said = [record for record in caplog.records if record.name == "convexrank"]
    assert [record.levelname for record in said] == ["INFO"]
    assert f"PNormPush with newton: CONVERGED after {solution.iterations} steps" in said[0].getMessage()
    assert said[0].getMessage().endswith(solution.message)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "convexrank"):
        PUSH.solve()
    steps = [record.args for record in caplog.records if record.levelname == "DEBUG"]
    assert [step[2] for step in steps] == list(range(solution.iterations + 1))
    np.testing.assert_array_equal([step[3] for step in steps], solution.trace["objective"])


def test_what_would_be_a_bar_is_lines_of_the_log(caplog, monkeypatch, capfd):
    monkeypatch.setattr(progress, "_PAUSE", 0.0)
    with caplog.at_level(logging.INFO, "convexrank"):
        assert list(progress_bar(False, what="rows", over=range(3))) == [0, 1, 2]
        cr.path(PUSH, l2=[0.1, 0.2])
    lines = [record.getMessage().rpartition(" in ")[0] for record in caplog.records]
    assert {"rows: 0 of 3", "rows: 3 of 3", "l2: 2 of 2"} <= set(lines)
    assert capfd.readouterr() == ("", "")


def test_the_word_of_before_still_works():
    with pytest.warns(FutureWarning, match=r"progress is now verbose, and goes in version 0\.3") as caught:
        found = PUSH.solve(progress=False)
    assert caught[0].filename == __file__
    assert found == PUSH.solve(verbose=False)
    with pytest.raises(TypeError, match="verbose alone"):
        PUSH.solve(progress=True, verbose=True)
    with pytest.raises(TypeError, match="verbose is 'yes'"):
        PUSH.solve(verbose="yes")
