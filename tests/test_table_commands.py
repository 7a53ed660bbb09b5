"""``convexrank fit``, ``predict``, ``evaluate`` and ``explain``: as an analyst with a table runs them."""

from __future__ import annotations

import base64
import csv
import html
import re
import shlex
import sys

import joblib
import numpy as np
import pytest
from scipy.stats import binomtest

from convexrank import PushRanker, cli
from convexrank.commands import table_model, table_runs
from convexrank.data import read_columns
from convexrank.metrics import auc, precision_at
from tests.tolerances import tolerance

NOTES = ["paid by card in the shop", "wire transfer to a new account", "gift cards, bought online"]


def rows(n, seed):
    """Payments: numbers with gaps, categories, texts with commas, a number of its own for each row, and days."""
    rng = np.random.default_rng(seed)
    amount, country, note = (
        rng.lognormal(3.0, 1.0, n),
        rng.choice(["DE", "FR", "RO"], n),
        rng.choice(NOTES, n),
    )
    risk = np.log(amount) + (country == "RO") + 1.5 * (note == NOTES[2]) + rng.logistic(size=n)
    lines = [["id", "day", "amount", "country", "note", "fraud"]]
    for i in range(n):
        gap = rng.random() < 0.1
        lines.append([
            f"c{i}", f"2024-01-{1 + i % 28:02d}", "" if gap else f"{amount[i]:.2f}", country[i], note[i],
            "yes" if risk[i] > 5.0 else "no",
        ])  # fmt: skip
    return lines


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, n, seed in (("table", 600, 0), ("later", 400, 1)):
        with open(folder / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows(rows(n, seed))
    return folder


FIT = ["--label", "fraud", "--drop", "day", "--top", "40"]


@pytest.fixture(scope="module")
def model(files):
    arguments = ["fit", files / "table.csv", *FIT, "--test", files / "later.csv", "--save", files / "model"]
    assert cli.main([str(word) for word in arguments]) == 0
    return files / "model"


def run(capsys, *words):
    status = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_fit_prints_what_the_metrics_say_of_other_rows(files, model, capsys):
    status, out, _ = run(capsys, "fit", files / "table.csv", *FIT, "--test", files / "later.csv")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "600 rows, 3 columns (1 of numbers, 1 of categories, 1 of texts)" in out
    assert "left out: id, no value is in 5 rows or more" in out
    later, kept = read_columns(files / "later.csv"), table_model.load(model)
    y, scores, others = later["fraud"] == "yes", kept.scores(later), kept.scores_of_baseline(later)
    assert f"{y.sum()} of them" in out
    assert f"precision at 40    {precision_at(y, scores, 40):.3f}" in out
    assert f"AUC                {auc(y, scores):.3f}" in out
    assert f"logistic regression has {precision_at(y, others, 40):.3f} at 40" in out
    lists = [set(np.argsort(-values, kind="stable")[:40].tolist()) for values in (scores, others)]
    here, there = (sum(bool(y[i]) for i in one - other) for one, other in (lists, lists[::-1]))
    p = binomtest(here, here + there).pvalue if here + there else 1.0
    assert f"list only: {here}, in that only: {there} (p = {p:.2g}" in " ".join(out.split())
    assert "solved: CONVERGED" in out


def test_the_model_is_a_ranker_on_encoded_columns(files, model):
    kept, table = table_model.load(model), read_columns(files / "table.csv")
    features = {name: column for name, column in table.items() if name != "fraud"}
    alone = PushRanker().fit(kept.encoder.transform(features), table["fraud"] == "yes")
    assert np.allclose(kept.ranker.coef_, alone.coef_, rtol=tolerance("summation"))


def test_lists_have_the_best_rows_as_they_stand_in_the_table(files, model, capsys):
    status, out, _ = run(capsys, "predict", model, files / "later.csv", "--top", 5)
    assert status == 0
    found = list(csv.DictReader(out.splitlines()))
    assert [float(row["score"]) for row in found] == sorted(
        (float(row["score"]) for row in found), reverse=True
    )
    lines = rows(400, 1)
    for row in found:
        assert [row[name] for name in lines[0]] == lines[int(row["row"])]
    scores = table_model.load(model).scores(read_columns(files / "later.csv"))
    assert sum(scores > float(found[-1]["score"]) + 1e-4) == 4
    target = files / "list.csv"
    assert run(capsys, "predict", model, files / "later.csv", "--top", 5, "--list", target)[0] == 0
    assert target.read_text() == out


def test_rows_without_labels_are_ranked_and_not_measured(files, model, capsys):
    unlabelled = files / "new.csv"
    unlabelled.write_text(
        "\n".join(line.rsplit(",", 1)[0] for line in (files / "later.csv").read_text().splitlines())
    )
    assert run(capsys, "predict", model, unlabelled, "--top", 2)[0] == 0
    status, _, error = run(capsys, "evaluate", model, unlabelled)
    assert status == 2
    assert f"label is 'fraud', which is no column of {unlabelled}" in error


def test_an_evaluation_is_that_of_the_fit(files, model, capsys):
    _, fit, _ = run(capsys, "fit", files / "table.csv", *FIT, "--test", files / "later.csv")
    status, out, _ = run(capsys, "evaluate", model, files / "later.csv", "--top", 40)
    assert status == 0
    assert out.strip() in fit


def test_an_explanation_adds_up_to_the_score(files, model, capsys):
    status, out, _ = run(capsys, "explain", model, files / "later.csv", "--row", 7)
    assert status == 0
    terms = [float(value) for value in re.findall(r"^  \w+ +([+-][\d.]+)", out, re.MULTILINE)]
    kept, later = table_model.load(model), read_columns(files / "later.csv")
    scores, fitted = kept.scores(later), kept.scores(read_columns(files / "table.csv"))
    assert len(terms) == 3
    assert sum(terms) == pytest.approx(scores[6] - fitted.mean(), abs=tolerance("shipped digits"))
    assert f"number {sum(scores > scores[6]) + 1} of 400" in out
    status, _, error = run(capsys, "explain", model, files / "later.csv", "--row", 401)
    assert status == 2
    assert "expected at most 400" in error


def test_without_a_test_a_quarter_of_each_label_is_held_out(files, capsys):
    status, out, _ = run(capsys, "fit", files / "table.csv", *FIT, "--seed", 3)
    assert status == 0
    y = read_columns(files / "table.csv")["fraud"] == "yes"
    counts = [int(part.sum()) // 4 for part in (y, ~y)]
    assert f"measured on {sum(counts)} rows that were held out" in out
    assert f"yes in {counts[0]} of them" in " ".join(out.split())
    held = table_runs._held_out(np.where(y, "yes", "no"), 3)
    assert [int((held & part).sum()) for part in (y, ~y)] == counts


def test_a_search_chooses_by_the_precision_of_lists(files, capsys):
    status, out, _ = run(capsys, "fit", files / "table.csv", *FIT, "--search", "--p", 2)
    assert status == 0
    assert re.search(r"chosen by cross-validation: l2 = (0.0001|0.001|0.01|0.1)\n", out)
    status, out, _ = run(capsys, "fit", files / "table.csv", *FIT, "--search")
    assert re.search(r"chosen by cross-validation: l2 = [\d.]+, p = (1|4|16)\n", out)
    partial = ["--objective", "partial_auc", "--max-fpr", "0.2"]
    status, out, _ = run(capsys, "fit", files / "table.csv", *FIT, *partial, "--search")
    assert status == 0
    assert re.search(r"chosen by cross-validation: l2 = [\d.]+\n", out)


def test_a_report_is_one_file_with_what_was_printed_and_figures(files, capsys):
    target = files / "report.html"
    _, out, _ = run(
        capsys, "fit", files / "table.csv", *FIT, "--test", files / "later.csv", "--report", target
    )
    page = target.read_text()
    printed = html.unescape(page.split("<pre>")[1].split("</pre>")[0])
    assert printed in out
    pictures = re.findall(r"base64,([\w+/=]+)'", page)
    assert len(pictures) == 3
    assert all(base64.b64decode(picture).startswith(b"\x89PNG") for picture in pictures)
    assert "http" not in page


def test_a_small_table_has_a_list_of_as_many_rows_as_are_wanted(files, model, tmp_path, capsys):
    small = tmp_path / "small.csv"
    lines = (files / "later.csv").read_text().splitlines()[:61]
    small.write_text("\n".join(lines))
    wanted = sum(line.endswith("yes") for line in lines)
    assert 0 < wanted < 60
    assert f"precision at {wanted} " in run(capsys, "evaluate", model, small)[1]
    assert "precision at 100 " in run(capsys, "evaluate", model, files / "later.csv")[1]
    status, out, _ = run(
        capsys, "fit", small, "--label", "fraud", "--drop", "day", "--list", tmp_path / "best"
    )
    assert status == 0
    held = int(re.search(r"fraud = yes in (\d+) of them", out)[1])
    assert f"precision at {held} " in out
    assert len((tmp_path / "best").read_text().splitlines()) == 1 + held


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label", "fraud"], r"columns \['day'\] hold dates"),
        (["--label", "fruad", "--drop", "day"], "did you mean 'fraud'"),
        (["--label", "country", "--drop", "day"], "say which is to come first"),
        (["--label", "country", "--positive", "IT", "--drop", "day"], "positive is 'IT'"),
        (["--label", "fraud", "--drop", "days"], "drop has"),
        (["--label", "fraud", "--drop", "day", "--top", "0"], "top is 0"),
        (["--label", "fraud", "--drop", "day", "--top", "1000"], "expected at most the number of rows"),
        (["--label", "fraud", "--drop", "day", "--save", "none/model"], "no folder that exists"),
        (["--label", "fraud", "--drop", "day", "--features", "thresholds"], "--features is no option here"),
        (["--label", "fraud", "--drop", "day", "--decimal", ";"], "decimal is ';'"),
        (["--label", "fraud", "--drop", "day", "--q", "3"], "--q is no option"),
    ],
)
def test_what_cannot_be_used_is_refused(files, words, message, capsys):
    status, _, error = run(capsys, "fit", files / "table.csv", *words)
    assert status == 2
    assert re.search(message, error)


def test_a_report_takes_any_names_of_columns(files, tmp_path, capsys):
    path = tmp_path / "table.csv"
    names = "id,day,cost $x_$ ^,国,<b>&note</b>,fraud"
    path.write_text((files / "table.csv").read_text().replace("id,day,amount,country,note,fraud", names, 1))
    status, out, error = run(capsys, "fit", path, *FIT, "--report", tmp_path / "report.html")
    assert (status, error) == (0, "")
    page = (tmp_path / "report.html").read_text()
    assert "&lt;b&gt;&amp;note" in page
    assert "<b>" not in page
    assert html.unescape(page.split("<pre>")[1].split("</pre>")[0]) in out


def test_what_cannot_be_written_is_refused_before_the_fit(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    more = ["--save", tmp_path / "model", "--report", tmp_path / "report.html"]
    status, _, error = run(capsys, "fit", files / "table.csv", *FIT, *more)
    assert status == 2
    assert "convexrank[plot]" in error
    assert not list(tmp_path.iterdir())


def test_options_name_columns_that_have_commas(files, tmp_path, capsys):
    path = tmp_path / "table.csv"
    path.write_text((files / "table.csv").read_text().replace("id,day", 'id,"day, paid"', 1))
    status, _, error = run(capsys, "fit", path, "--label", "fraud")
    assert status == 2
    option = re.search(r"--drop (.+)\)\.$", error)[1]
    assert run(capsys, "fit", path, "--label", "fraud", "--top", 40, "--drop", *shlex.split(option))[0] == 0


def relabelled(files, path, other):
    """The table, with other labels in its last column."""
    lines = (files / "table.csv").read_text().splitlines()
    rest = [line.rsplit(",", 1) for line in lines[1:]]
    path.write_text(
        "\n".join([lines[0], *(f"{row},{other(i, label)}" for i, (row, label) in enumerate(rest))])
    )
    return path


@pytest.mark.parametrize(
    ("yes", "no"), [("1", "0"), ("10", "9"), ("1", "-1"), ("TRUE", "FALSE"), ("y", "n"), ("Yes", "no")]
)
def test_numbers_and_yes_say_which_rows_are_wanted(files, tmp_path, capsys, yes, no):
    found = []
    for words in ({"yes": "yes", "no": "no"}, {"yes": yes, "no": no}):
        path = relabelled(files, tmp_path / "table.csv", lambda _, label: words[label])  # noqa: B023 - called at once
        found.append(" ".join(run(capsys, "fit", path, *FIT, "--test", path)[1].split()))
    assert found[0] == found[1].replace(f"fraud = {yes}", "fraud = yes")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            lambda _, label: "bad" if label == "yes" else "good",
            r"2 values, \['bad', 'good'\].*--positive VALUE",
        ),
        (lambda _, label: "no", "'no' in all of the 600 rows"),
        (lambda i, label: label.upper() if i % 2 else label, "'NO' and 'no', expected one spelling"),
        (lambda i, label: ("1", "1.0")[i % 2] if label == "yes" else "0", "'1' and '1.0', expected one"),
        (lambda i, label: label if i else "NA", "no value in 1 row, the first is row 1, with 'NA'"),
        (lambda i, _: "yes" if i < 3 else "no", r"'yes' in 0 of 149 rows .*held out.*--test TABLE"),
    ],
)
def test_labels_that_do_not_say_which_rows_are_wanted_are_refused(files, tmp_path, other, message, capsys):
    path = relabelled(files, tmp_path / "table.csv", other)
    status, _, error = run(capsys, "fit", path, *FIT)
    assert status == 2
    assert re.search(message, error)


def test_labels_that_the_fit_has_not_seen_are_refused_where_there_are_two(files, model, tmp_path, capsys):
    path = relabelled(files, tmp_path / "later.csv", lambda i, label: label if i > 2 else "Yes")
    status, _, error = run(capsys, "evaluate", model, path, "--top", 40)
    assert status == 2
    assert "fraud has ['Yes'] in 3 of 600 rows, expected ['no', 'yes'] as in the fit" in error
    status, _, _ = run(capsys, "fit", files / "table.csv", *FIT[2:], "--label", "country", "--positive", "RO")
    assert status == 0
    none = relabelled(files, path, lambda _, label: label if label == "yes" else "none")
    assert run(capsys, "fit", none, *FIT, "--positive", "yes")[0] == 0


def test_a_search_needs_a_wanted_row_in_each_fold(files, tmp_path, capsys):
    path = relabelled(files, tmp_path / "few.csv", lambda i, _: "yes" if i < 4 else "no")
    status, _, error = run(capsys, "fit", path, *FIT, "--search", "--test", files / "later.csv")
    assert status == 2
    assert "4 rows of one kind of label, expected 5 or more" in error


def test_a_table_of_labels_alone_is_refused(tmp_path, capsys):
    path = tmp_path / "labels.csv"
    path.write_text("fraud\n" + "yes\nno\n" * 20)
    status, _, error = run(capsys, "fit", path, "--label", "fraud", "--top", 2)
    assert status == 2
    assert "no column beside fraud" in error


def test_decimal_commas_are_read_where_that_is_said(files, tmp_path, capsys):
    path, lines = tmp_path / "table.csv", list(csv.reader((files / "table.csv").read_text().splitlines()))
    with open(path, "w", newline="") as file:
        rows = [[*row[:2], row[2].replace(".", ","), *row[3:]] for row in lines]
        csv.writer(file, delimiter=";").writerows(rows)
    status, _, error = run(capsys, "fit", path, *FIT)
    assert status == 2
    assert re.search(
        r"columns \['amount'\] hold numbers, and entries such as \['\d+,\d\d'\].*--decimal ,\)", error
    )
    found = [
        run(capsys, "fit", table, *FIT, "--save", tmp_path / "model", *more)[1]
        for table, *more in ((files / "table.csv",), (path, "--decimal", ","))
    ]
    assert found[0] == found[1]
    best = run(capsys, "predict", tmp_path / "model", path, "--top", 1)[1].splitlines()
    assert best[1].split(",", 2)[2] in ",".join(
        f'"{c}"' if "," in c else c for c in rows[int(best[1].split(",")[1])]
    )
    status, _, error = run(capsys, "predict", tmp_path / "model", files / "later.csv")
    assert status == 2
    assert "write them with ',' as in the fit" in error


def test_files_that_are_no_models_and_rows_without_labels_are_refused(files, model, capsys):
    other = files / "other"
    joblib.dump([1], other)
    for path, message in (
        (other, "holds a list"),
        (files / "table.csv", "is no model"),
        (files / "none", "No such file"),
    ):
        status, _, error = run(capsys, "predict", path, files / "later.csv")
        assert status == 2
        assert message in error
    gaps = files / "gaps.csv"
    lines = (files / "later.csv").read_text().splitlines()
    gaps.write_text("\n".join([*lines[:3], lines[3].rsplit(",", 1)[0] + ",", *lines[4:]]))
    status, _, error = run(capsys, "evaluate", model, gaps)
    assert status == 2
    assert "no value in 1 row, the first is row 3" in error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1\n", "line 2 has 1 columns, expected 2 as in line 1"),
        ("a,b\n1,2\n\n1,2,3\n", "has 3 columns"),
        ("a,b\n1,2\n\n1\n", "line 4 has 1 columns"),
        ("a,b\n", "no rows"),
        ("\n", "is empty"),
        ("a,,b,\n1,2,3,4\n", r"'' as the name of the columns \[2, 4\]"),
        ('a,b\n"1,2\n', "line 2"),
        ("a,a\n1,2\n", "a name of its own"),
        ('"a", b \n1,2\na,b\n3,4\n', "line 3 has the names of the columns once more"),
    ],
)
def test_tables_that_cannot_be_read_are_refused(text, message, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_columns(path)


def test_the_delimiter_is_not_looked_for_within_names(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('"cost, in, €";"city, land"\n"1,5";"Rome, IT"\n')
    found = read_columns(path)
    assert {name: column.tolist() for name, column in found.items()} == {
        "cost, in, €": ["1,5"], "city, land": ["Rome, IT"],
    }  # fmt: skip


def test_texts_go_on_over_lines(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('a;b\n"one\ntwo"; 3 \n"x;y";4\n')
    assert {name: column.tolist() for name, column in read_columns(path).items()} == {
        "a": ["one\ntwo", "x;y"], "b": ["3", "4"],
    }  # fmt: skip
