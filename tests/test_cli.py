"""The command line, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import convexrank as cr
from convexrank import cli, demo


def test_verify_prints_a_table_and_exits_with_zero(capsys):
    assert cli.main(["verify", "PNormPush", "IRPush", "--instances", "1"]) == 0
    out = capsys.readouterr().out
    assert "PNormPush" in out
    assert "IRPush" in out
    assert "ok" in out


def test_verify_exits_with_one_when_anything_disagrees(monkeypatch, capsys):
    original = cr.problems.IRPush.risk_model

    def wrong(self, scores):
        risk, constraints = original(self, scores)
        return 1.01 * risk, constraints

    monkeypatch.setattr(cr.problems.IRPush, "risk_model", wrong)
    assert cli.main(["verify", "IRPush", "--instances", "1", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["failures"]


def test_unusable_arguments_exit_with_two(capsys):
    assert cli.main(["verify", "Nothing"]) == 2
    assert "PNormPush" in capsys.readouterr().err
    assert cli.main(["verify", "--instances", "0"]) == 2
    with pytest.raises(SystemExit):
        cli.main(["dance"])


def test_verify_says_why_a_problem_is_not_verified(capsys):
    outside = set(cr.problems.__all__) - set(cr.problems.REGISTRY) - {"REGISTRY"}
    assert outside == {"RankCosine"}, "the message says of all of them that they are not convex"
    assert {"Exact", "Referenced"}.isdisjoint(cr.problems.RankCosine.random(0).capabilities)
    assert cli.main(["verify", "IRPush", "RankCosine"]) == 2
    message = capsys.readouterr().err
    assert "'RankCosine', which can be solved, but not verified: it is not convex" in message
    assert "BottomPush" in message
    assert cli.main(["verify", "REGISTRY"]) == 2
    assert "not verified" not in capsys.readouterr().err


def test_python_dash_m_works():
    done = subprocess.run(
        [sys.executable, "-m", "convexrank", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"convexrank {cr.__version__}"


def test_import_is_light():
    heavy = "{'jax', 'cvxpy', 'sklearn', 'matplotlib', 'numba'}"
    code = f"import sys, convexrank; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists():
    for name in cr.__all__:
        assert getattr(cr, name) is not None
    assert set(cr.__all__) <= set(dir(cr))
    with pytest.raises(AttributeError, match="nonsense"):
        cr.nonsense  # noqa: B018


def test_demo_solves_everything_twice_and_draws(tmp_path, capsys):
    target = tmp_path / "figure.png"
    assert cli.main(["demo", "--output", str(target)]) == 0
    out = capsys.readouterr().out
    assert target.stat().st_size > 10_000
    rows = [line for line in out.splitlines() if line.lstrip().startswith(("p =", "IR Push"))]
    assert len(rows) == 7


def test_demo_shows_the_effect_of_the_push():
    """What the method promises on its own training list: a larger p cleans the top."""
    result = demo.run(seed=1)
    tops = [
        cr.metrics.positives_at_top(result.y_train, fit.train)
        for fit in result.fits
        if fit.label != "IR Push"
    ]
    assert tops == sorted(tops)
    assert tops[-1] > tops[0]
    assert all(fit.fast.converged and fit.exact.converged for fit in result.fits)
    assert max(abs(fit.fast.value - fit.exact.value) for fit in result.fits) < 1e-6
    X_train, y_train, X_test, y_test = demo.breast_cancer(1)
    assert X_train.shape == (369, 6)
    assert X_test.shape == (200, 6)
    assert np.allclose([X_train.min(), X_train.max()], [-1.0, 1.0])
    assert {*y_train, *y_test} == {0, 1}
