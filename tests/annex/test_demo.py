"""The demonstration: what it claims on the page of results is so, and the command prints it in three forms."""

from __future__ import annotations

import csv
import io
import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from convexrank import cli, metrics
from convexrank_annex import demo


@pytest.fixture(scope="module")
def result():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "_ROWS", 2500)
        patch.setattr(demo, "_TEST_ROWS", 5000)
        patch.setattr(demo, "_BINS", 16)
        patch.setattr(demo, "_LASSOS", (2e-2,))
        yield demo.run(splits=2)
    plt.close("all")


@pytest.fixture
def quick(result, monkeypatch):
    """The command, with what was computed already."""
    seeds = []

    def run(seed, progress):
        seeds.append(seed)
        return result

    monkeypatch.setattr(demo, "run", run)
    return seeds


def test_the_push_helps_where_the_text_says_so(result):
    rows = {row["model"]: row for row in demo.summary(result)}
    assert rows["push, p = 64"]["top 1 %"] > rows["push, p = 1"]["top 1 %"] + 0.1
    assert rows["push, p = 64"]["top 1 %"] > rows["logistic regression"]["top 1 %"]
    assert rows["push, p = 64"]["AUC"] < rows["push, p = 1"]["AUC"]
    plain = {row["model"]: row for row in demo.summary(demo.Demonstration(result.plain, [], 0.0))}
    gain = plain["push, p = 64"]["top 1 %"] - plain["logistic regression"]["top 1 %"]
    assert abs(gain) < 0.1, "without look-alikes there is nothing to gain"
    assert result.exact_difference < 1e-8


def test_the_measures_are_those_of_the_scores(result):
    row = demo.summary(result)[1]
    y, fits = zip(*((y, fits[1]) for y, fits in result.splits), strict=True)
    tops = [
        np.mean(labels[np.argsort(-fit.scores)[: len(labels) // 100]])
        for labels, fit in zip(y, fits, strict=True)
    ]
    assert row["top 1 %"] == pytest.approx(np.mean(tops))
    assert row["top 1 % sd"] == pytest.approx(np.std(tops, ddof=1))
    assert row["AUC"] == pytest.approx(
        np.mean([metrics.auc(*pair) for pair in zip(y, (f.scores for f in fits), strict=True)])
    )


def test_the_strength_is_chosen_on_validation_rows():
    rows, labels = np.arange(200.0), np.arange(200) >= 150
    fits = {0.1: (lambda given: -given, 0.5), 0.2: (lambda given: given, 0.25)}
    chosen = demo._chosen("name", fits.get, (0.1, 0.2), ((rows, labels), (2 * rows, labels)))
    assert (chosen.strength, chosen.gap) == (0.2, 0.25)
    assert np.array_equal(chosen.scores, 2 * rows)


def test_the_data_are_as_described():
    X, y = demo.draw(np.random.default_rng(0), 40_000)
    plain, same = demo.draw(np.random.default_rng(0), 40_000, 0.0)
    assert np.array_equal(y, same)
    moved = (X != plain).any(axis=1)
    assert not moved[y == 1].any()
    assert moved[y == 0].mean() == pytest.approx(0.03, abs=0.005)
    assert y.mean() == pytest.approx(0.05, abs=0.005)


@pytest.mark.usefixtures("quick")
def test_the_table_fits_into_80_characters(tmp_path, capsys):
    target = tmp_path / "figure.png"
    assert cli.main(["demo", "--output", str(target)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.replace(str(target), "").splitlines())) <= 80
    assert out.splitlines()[0].split() == ["AUC", "top", "1", "%", "top", "5", "%", "gap", "seconds"]
    assert target.stat().st_size > 10_000
    assert cli.main(["demo", "--output", str(target), "--wide"]) == 0
    assert "AveR" in capsys.readouterr().out


def test_numbers_for_programs(quick, tmp_path, capsys, result):
    target = str(tmp_path / "figure.png")
    assert cli.main(["demo", "--output", target, "--seed", "3", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert quick == [3]
    assert rows[0]["gap"] is None
    assert [row["model"] for row in rows] == [row["model"] for row in demo.summary(result)]
    assert cli.main(["demo", "--output", target, "--csv"]) == 0
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(row["AUC"]) for row in read] == [row["AUC"] for row in rows]


@pytest.mark.parametrize("path", ["nowhere/figure.png", "."])
def test_the_output_is_checked_first(path, tmp_path, quick, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["demo", "--output", path]) == 2
    assert "output is" in capsys.readouterr().err
    assert not quick, "nothing was computed"


@pytest.mark.parametrize(("options", "name"), [({"splits": 1}, "splits"), ({"seed": -1}, "seed")])
def test_arguments_are_named(options, name):
    with pytest.raises(ValueError, match=name):
        demo.run(**options)
