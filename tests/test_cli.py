"""The command line, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import convexrank as cr
from convexrank import cli


def test_verify_prints_a_table_and_exits_with_zero(capsys):
    assert cli.main(["verify", "PNormPush", "IRPush", "--instances", "1"]) == 0
    out = capsys.readouterr().out
    assert "PNormPush" in out
    assert "IRPush" in out
    assert "ok" in out


def test_verify_exits_with_one_when_anything_disagrees(monkeypatch, capsys):
    original = cr.problems.IRPush._risk_model

    def wrong(self, scores):
        risk, constraints = original(self, scores)
        return 1.01 * risk, constraints

    monkeypatch.setattr(cr.problems.IRPush, "_risk_model", wrong)
    assert cli.main(["verify", "IRPush", "--instances", "1", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is False
    assert report["failures"]


def test_verify_compares_compiled_solvers_where_there_are_any(monkeypatch, capsys):
    monkeypatch.setattr(
        cr.problems, "REGISTRY", {name: cr.problems.REGISTRY[name] for name in ("IRPush", "PageRank")}
    )
    assert cli.main(["verify", "--instances", "1", "--device", "cpu", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [item["problem"] for item in found["comparisons"]] == ["IRPush"]
    assert cli.main(["verify", "IRPush", "--device", "abacus"]) == 2


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


def test_one_formulation_imports_no_other():
    """Naming one of the formulations imports that and what it stands on, and their list imports none."""
    code = (
        "import sys, convexrank as cr\n"
        "def own(): return {name for name in sys.modules if name.startswith('convexrank.')}\n"
        "names = list(cr.problems.REGISTRY); print(any('bipartite' in name for name in own()))\n"
        "cr.problems.PNormPush; found = own(); print(len(found))\n"
        "print(sorted(name for name in found if '.queries' in name or '.graph_ranks' in name or '.top_push' in name))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    listed, count, others = done.stdout.split("\n")[:3]
    assert (listed, others) == ("False", "[]")
    assert int(count) <= 150  # 246 where each formulation was imported


@pytest.mark.parametrize("name", ["problems.PNormPush", "losses.Hinge", "metrics.auc", "solvers.Newton"])
def test_a_name_of_a_module_is_pointed_to(name):
    with pytest.raises(AttributeError, match=rf"it is convexrank\.{name}$"):
        getattr(cr, name.split(".")[1])
    with pytest.raises(AttributeError, match=r"no attribute '__wrapped__'$"):
        cr.__wrapped__  # noqa: B018


def test_every_public_name_exists():
    for name in cr.__all__:
        assert getattr(cr, name) is not None
    assert set(cr.__all__) <= set(dir(cr))
    with pytest.raises(AttributeError, match="nonsense"):
        cr.nonsense  # noqa: B018
