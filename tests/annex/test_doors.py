"""What the package promises of the annex: the same names, and how to get it where it is not installed."""

from __future__ import annotations

import importlib
import pickle
import tomllib
from pathlib import Path

import pytest

import convexrank as cr
import convexrank_annex
from convexrank import cli
from convexrank.data import annex
from convexrank_annex.population import RankingModel

pytestmark = pytest.mark.quick

DOORS = {"bounds": cr.bounds._IN_ANNEX, "claims": cr.claims.__all__, "population": cr.population.__all__}


@pytest.mark.parametrize("module", DOORS)
def test_the_package_promises_what_the_annex_has(module):
    room = importlib.import_module(f"convexrank_annex.{module}")
    door = getattr(cr, module)
    assert sorted(DOORS[module]) == sorted(room.__all__)
    assert set(DOORS[module]) <= set(dir(door))
    for name in room.__all__:
        assert getattr(door, name) is getattr(room, name)


@pytest.mark.parametrize("module", DOORS)
def test_other_names_are_unknown(module):
    """Tools probe modules for names: they must get an AttributeError, and not import the annex."""
    for name in ("__wrapped__", "_repr_html_", "chek"):
        with pytest.raises(AttributeError, match=f"module 'convexrank.{module}' has no attribute '{name}'"):
            getattr(getattr(cr, module), name)


@pytest.fixture
def _absent(monkeypatch):
    monkeypatch.setattr(annex, "_ANNEX", "convexrank_annex_that_is_absent")


@pytest.mark.usefixtures("_absent")
def test_without_the_annex_a_name_says_how_to_get_it():
    for module, names in DOORS.items():
        for name in names:
            with pytest.raises(ImportError) as caught:
                getattr(getattr(cr, module), name)
            assert str(caught.value) == (
                f"convexrank.{module}.{name} needs the separate package convexrank-annex; "
                "install it, in a clone of convexrank, with: pip install ./annex"
            )
    with pytest.raises(ImportError, match=r"pip install \./annex"):
        exec("from convexrank.claims import Verdict", {})


@pytest.mark.usefixtures("_absent")
def test_without_the_annex_the_rest_is_there():
    names: dict[str, object] = {}
    exec("from convexrank import *\nfrom convexrank.bounds import *", names)
    assert names["claims"] is cr.claims
    assert names["push_risk"] is cr.bounds.push_risk


@pytest.mark.usefixtures("_absent")
@pytest.mark.parametrize(
    "words",
    [["claims"], ["claims", "--list"], ["claims", "three-points", "--json"], ["demo"], ["demo", "--csv"]],
)
def test_without_the_annex_the_command_says_how_to_get_it(capsys, words):
    assert cli.main(words) == 2
    said = capsys.readouterr()
    assert not said.out
    assert said.err == (
        f"convexrank: convexrank {words[0]} needs the separate package convexrank-annex; "
        "install it, in a clone of convexrank, with: pip install ./annex\n"
    )


def test_what_the_annex_itself_misses_is_named(tmp_path, monkeypatch):
    package = tmp_path / "broken_annex"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "claims.py").write_text("import a_package_that_is_absent\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(annex, "_ANNEX", "broken_annex")
    with pytest.raises(ModuleNotFoundError, match="No module named 'a_package_that_is_absent'"):
        _ = cr.claims.check


def test_populations_are_unpickled_by_their_public_name():
    """Pickles of versions in which the class was in the package name its module there."""
    model = RankingModel(eta=[0.1, 0.5])
    written = pickle.dumps(model, protocol=0).replace(
        b"convexrank_annex.population", b"convexrank.population"
    )
    assert pickle.loads(written).optimal_risk == model.optimal_risk


def test_both_have_one_version():
    root = Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "annex" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert convexrank_annex.__version__ == cr.__version__
    assert f"convexrank=={cr.__version__}" in project["dependencies"]
    package = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    others = {needed for needed in project["dependencies"] if not needed.startswith("convexrank")}
    assert others <= set(package["dependencies"])
    assert (root / "annex" / "LICENSE").read_bytes() == (root / "LICENSE").read_bytes()
