"""The commands that read files: tables, LETOR files and lists of edges."""

from __future__ import annotations

import gzip
import inspect
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convexrank as cr
from convexrank import cli
from convexrank.commands.outcome import given_options, options_of, tabular
from convexrank.data import did_you_mean, files, read_table
from tests.tolerances import TOLERANCES

WIDTH = 80


@pytest.fixture
def table(tmp_path):
    """A table with text labels, a column that is no feature, and columns of different sizes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * [1.0, 100.0]
    positive = X[:, 0] + rng.normal(size=60) > 0.5
    lines = ["age,note,size,sick"]
    lines += [
        f"{a!r},n{i},{b!r},{'yes' if s else 'no'}"
        for i, (a, b, s) in enumerate(zip(*X.T.tolist(), positive, strict=True))
    ]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(lines) + "\n")
    return path, X, positive


def run(capsys, *words):
    status = cli.main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_bare_command_prints_help(capsys):
    status, out, _ = run(capsys)
    assert status == 0
    assert all(
        name in out for name in ("solve", "rank", "pagerank", "problems", "verify", "claims", "exit status")
    )


def test_solve_fits_what_python_fits(capsys, table, tmp_path):
    path, X, positive = table
    words = (
        "solve",
        path,
        "--label",
        "sick",
        "--drop",
        "note",
        "--problem",
        "PNormPush",
        "--p",
        "8",
        "--l2=1e-2",
    )
    status, out, _ = run(capsys, *words, "--json")
    found, truth = json.loads(out), cr.problems.PNormPush(X, positive, 8, l2=1e-2).solve()
    assert status == 0
    assert found["value"] == truth.value
    assert found["weights"] == dict(zip(("age", "size"), truth.x.tolist(), strict=True))
    assert found["options"] == {"p": 8, "l2": 1e-2}
    status, out, _ = run(capsys, *words, "--plot", tmp_path / "f.png")
    assert (status, (tmp_path / "f.png").stat().st_size > 5_000) == (0, True)
    assert "positive (label 'yes')" in out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= WIDTH


def test_standardized_weights_are_in_units_of_the_columns(capsys, table):
    path, X, positive = table
    words = (
        "solve",
        path,
        "--label",
        "sick",
        "--drop",
        "note",
        "--p=4",
        "--l2=0.1",
        "--standardize",
        "--json",
    )
    found = json.loads(run(capsys, *words)[1])["weights"]
    truth = cr.problems.PNormPush(X / X.std(axis=0), positive, 4, l2=0.1).solve().x / X.std(axis=0)
    assert np.array_equal(list(found.values()), truth)


def test_the_threshold_of_a_problem_is_printed_and_a_constant_column_is_not_divided_by_rounding(
    capsys, tmp_path
):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(20, 2)), np.full(20, 0.1)])
    y = X[:, 0] + rng.normal(size=20) > 0
    rows = [
        ",".join(map(repr, [*row, int(label)])) for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(["a,b,same,y", *rows]))
    assert X.std(axis=0)[2] > 0.0  # 0.1 is no binary number
    words = ("solve", path, "--label", "y", "--problem", "RateConstrained", "--max-fpr=0.3", "--l2=0.01")
    found = json.loads(run(capsys, *words, "--standardize", "--json")[1])
    scales = np.append(X.std(axis=0)[:2], 1.0)
    truth = cr.problems.RateConstrained(X / scales, y, max_fpr=0.3, l2=0.01).solve().x
    assert np.array_equal([*found["weights"].values(), found["threshold"]], truth / np.append(scales, 1.0))
    assert f"threshold  {truth[-1]:.6g}" in run(capsys, *words, "--standardize")[1]


def test_solve_says_one_when_the_answer_is_not_certified(capsys, table):
    path, *_ = table
    status, out, _ = run(
        capsys, "solve", path, "--label", "sick", "--drop", "note", "--p", "2", "--time-limit", "1e-9"
    )
    assert status == 1
    assert "TIME_LIMIT" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--label", "sik", "--p", "2"], "did you mean 'sick'"),
        (["--label", "sick", "--p", "2"], "line 2: column 'note' is 'n0'"),
        (["--label", "sick", "--p", "2", "--drop", "note,noet"], "drop is 'noet' (did you mean 'note'?)"),
        (["--label", "sick", "--drop", "note"], "needs --p"),
        (["--label", "sick", "--drop", "note", "--p", "2", "--l3", "1"], "did you mean '--l2'"),
        (["--label", "sick", "--drop", "note", "--p", "2", "--p", "3"], "--p is given twice"),
        (["--label", "sick", "--drop", "note", "--p"], "--p has no value"),
        (["--label", "sick", "--problem", "pNormpush"], "did you mean 'PNormPush'"),
        (["--label", "sick", "--problem", "PageRank"], "convexrank pagerank"),
        (["--label", "sick", "--drop", "note", "--p", "2", "--solver", "newtn"], "newton"),
        (["--label", "sick", "--drop", "note", "--p", "2", "--tol", "-1"], "tol"),
    ],
)
def test_what_cannot_be_used_exits_with_two(capsys, table, words, said):
    status, out, err = run(capsys, "solve", table[0], *words)
    assert (status, out) == (2, "")
    assert said in err


def test_unknown_words_elsewhere_are_refused(capsys, tmp_path):
    assert run(capsys, "pagerank", tmp_path / "none.csv")[0] == 2
    with pytest.raises(SystemExit):
        cli.main(["pagerank", "edges.csv", "--p", "8"])
    with pytest.raises(SystemExit):
        cli.main(["sovle"])
    assert "did you mean 'solve'" in capsys.readouterr().err
    assert "close to it: gradmapr-gradient" in run(capsys, "claims", "gradmapr-gradien")[2]


def test_options_come_from_the_constructor():
    for name in cr.problems.REGISTRY:
        cls = getattr(cr.problems, name)
        parameters = set(inspect.signature(cls).parameters)
        assert set(options_of(cls)) == parameters - {"X", "y", "qid", "sample_weight"}
    found = given_options(cr.problems.ConvexRisk, ["--cost", "hinge", "--l2-ball=none", "--dtype", "float32"])
    assert found == {"cost": "hinge", "l2_ball": None, "dtype": "float32"}
    assert given_options(cr.problems.LearnedDivergence, ["--output-range", "0,1.5"]) == {
        "output_range": (0, 1.5)
    }


def test_rank_measures_what_python_measures(capsys, tmp_path):
    rng = np.random.default_rng(1)
    files, data = [], []
    for name in ("train.txt", "test.txt"):
        X, qid = rng.normal(size=(40, 3)).round(3), np.repeat(np.arange(4), 10)
        y = np.clip(np.round(X[:, 0] + 0.5 * rng.normal(size=40)), 0, 2).astype(int)
        lines = [
            f"{g} qid:{q} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row))
            for g, q, row in zip(y, qid, X.tolist(), strict=True)
        ]
        files.append(tmp_path / name)
        files[-1].write_text("\n".join(lines) + "\n")
        data.append((X, y, qid))
    problems = ("--problem", "NDCGRegression", "MarginRetargeting")
    words = ("--l2", "0.1", "--margin", "0.5", "--scale", "none")
    status, out, _ = run(capsys, "rank", *files, *problems, *words, "--json")
    (X, y, qid), (rows, grades, queries) = data
    found = json.loads(out)
    assert status == 0
    fit = cr.problems.MarginRetargeting(X, y, qid, margin=0.5, l2=0.1).solve(tol=1e-6)
    wanted = cr.metrics.ndcg(grades, rows @ fit.x, queries, k=5)
    measured = found["measures"]["MarginRetargeting"]["NDCG@5"]["mean"]
    assert measured == pytest.approx(wanted, rel=TOLERANCES["summation"])
    status, out, _ = run(capsys, "rank", *files, *problems)
    assert "4 queries: mean" in out
    assert max(len(line) for line in out.splitlines() if str(tmp_path) not in line) <= WIDTH
    assert run(capsys, "rank", *files, "--problem", "TopPush")[0] == 2


def test_pagerank_prints_the_ranks(capsys, tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("from,to\nann,bob\nbob,cat\ncat,ann\nann,cat\n")
    status, out, _ = run(capsys, "pagerank", path, "--skip-rows", "1", "--top", "2", "--json")
    truth = cr.pagerank(cr.Graph.from_edges([0, 1, 2, 0], [1, 2, 0, 2]))
    found = json.loads(out)
    assert status == 0
    assert [entry["node"] for entry in found["ranks"]] == ["cat", "ann"]
    assert np.allclose(
        [entry["rank"] for entry in found["ranks"]], truth[[2, 0]], rtol=0, atol=TOLERANCES["boosting_rounds"]
    )
    assert found["certified_order"] == 2
    for entry in found["ranks"]:
        assert (
            entry["lower"] <= entry["rank"] <= entry["upper"] <= entry["lower"] + 1.01e-9
        )  # the tolerance, and rounding
    words = ("pagerank", path, "--skip-rows", "1", "--plot", tmp_path / "ranks.png")
    status, out, _ = run(capsys, *words)
    assert (status, out.splitlines()[-1]) == (0, f"figure: {tmp_path / 'ranks.png'}")
    assert (tmp_path / "ranks.png").stat().st_size > 0
    status, _, err = run(capsys, "pagerank", path)
    assert status == 2
    assert "reads like a header: 'from' and 'to'; pass --skip-rows 1 if" in err
    path.write_text("# a ring\n12,12\n" + "".join(f"{i},{(i + 1) % 12}\n" for i in range(12)))
    assert "pass --skip-rows 2 to skip it, or n= to keep it as an edge." in run(capsys, "pagerank", path)[2]
    path.write_text("7,9\n9,7\n8,7\n7,7\n9,8\n")
    for word in ("--progress", "--verbose"):
        status, out, err = run(capsys, "pagerank", path, "--named", word)
        assert "3 nodes, 5 edges" in out
        assert "reading edges.csv" in err


def test_pagerank_tells_of_ties(capsys, tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("ann cat\nbob cat\ncat cat\n")
    _, out, _ = run(capsys, "pagerank", path)
    assert (
        out.splitlines()[-1]
        == "the order of the first 1 is certain; the next are tied, or closer than the bound"
    )
    assert run(capsys, "pagerank", path, "--top", "0")[0] == 2


def test_lists_fit_in_the_width_and_are_complete(capsys):
    _, out, _ = run(capsys, "problems")
    lines = out.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert {line.split()[0] for line in lines if line[0].isupper()} == set(cr.problems.__all__) - {"REGISTRY"}
    assert {line.split()[0] for line in lines if line[24:25] == "*"} == {
        name for name in cr.problems.__all__ if name != "REGISTRY" and tabular(getattr(cr.problems, name))
    }
    _, out, _ = run(capsys, "problems", "PNormPush")
    assert "required" in out
    _, out, _ = run(capsys, "claims", "--list")
    assert len(out.splitlines()) == len(cr.claims.REGISTRY)
    assert max(map(len, out.splitlines())) <= WIDTH
    _, out, _ = run(capsys, "claims", "gradmapr-gradient")
    assert max(map(len, out.splitlines())) <= WIDTH
    assert run(capsys, "claims", "--list", "--chapter", "99")[0] == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty, expected a line with the names"),
        ("a,a,y\n1,2,3\n", "a name of its own"),
        ("a,y\n", "no rows"),
        ("a,y\n1\n", "line 2 has 1 columns"),
        ("a,y\n1,0\n\nnan,1\n", "line 4: column 'a' is 'nan'"),
        (
            'a,"b, c",d,y\n1,2,3,0\nx,u,3,1\n',
            r"line 3: column 'a' is 'x'.*\['a', 'b, c'\].*--drop 'a,\"b, c\"'",
        ),
        ("y\n1\n", "no column left"),
        (",a,y\n0,1,0\n1,2,1\n", "no name for column 1, such as numbers of rows"),
        ("a,y\n1,\n2,1\n3,0\n4,\n", "y has no value in 2 rows, the first is row 1"),
        ("a,y\n1,0\n1," + "x" * 200_000, "line 3 cannot be split into columns .field larger"),
        ("a,y" + "x" * 200_000, "line 1 cannot be split into columns .field larger"),
        ("a,y\n" + 1500 * "1,0\n" + "1,0,\n", "line 1502 has 3 columns"),
    ],
)
def test_tables_are_refused_with_the_line(tmp_path, text, said):
    path = tmp_path / "data.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_table(path, "y")


def test_rows_without_a_query_are_refused(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,q,y\n1,u,0\n2,u,1\n3,,0\n4,,1\n")
    with pytest.raises(ValueError, match="q has no value in 2 rows, the first is row 3"):
        read_table(path, "y", qid="q")


def test_a_place_that_is_no_folder_is_refused_before_the_fit(tmp_path, capsys):
    table, edges = tmp_path / "data.csv", tmp_path / "edges.csv"
    table.write_text("a,y\n1,0\n2,1\n1.5,1\n3,0\n")
    edges.write_text("1,2\n2,1\n")
    lost = str(tmp_path / "no" / "x.png")
    for words in (
        ["solve", str(table), "--label", "y", "--p", "x"],
        ["pagerank", str(edges), "--alpha", "7"],
    ):
        assert cli.main([*words, "--plot", lost]) == 2
        assert "x.png is in no folder that exists" in capsys.readouterr().err


def test_a_seed_is_refused_by_its_name(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("a,y\n" + "1,0\n2,1\n" * 20)
    assert cli.main(["fit", str(path), "--label", "y", "--seed", "-1"]) == 2
    assert "seed is -1, expected an integer" in capsys.readouterr().err


def test_tables_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text('q;"a;b";y\n7; 1.5;0\n8;2e1;1\n')
    table = read_table(path, "y", qid="q")
    assert (table.names, table.X.tolist(), table.y.tolist()) == (("a;b",), [[1.5], [20.0]], [0.0, 1.0])
    assert table.qid is not None
    assert table.qid.tolist() == [7.0, 8.0]
    for delimiter in ("::", "", '"', "\n"):
        with pytest.raises(ValueError, match=r"delimiter is .*expected one character"):
            read_table(path, "y", delimiter=delimiter)


PARTS = st.sampled_from(
    ["1", " 2.5 ", "1e3", "1_0", "a", "", "nan", "1e999", '"3"', '"b,c"', '"d', 'e"f', '""', "٣"]
)


@given(
    st.lists(st.lists(PARTS, min_size=2, max_size=3), min_size=1, max_size=8), st.sampled_from(["\n", "\r\n"])
)
def test_tables_are_read_at_once_as_line_by_line(tmp_path_factory, rows, end):
    path = tmp_path_factory.mktemp("tables") / "data.csv"
    path.write_bytes(end.join(["a,b,y", *(",".join(row) for row in rows)]).encode())
    found = []
    for numpy_reads, lines in ((True, 1_000), (False, 1_000), (False, 1)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(files, "_AT_ONCE", lines)
            if not numpy_reads:
                patched.setattr(files, "_as_numbers", lambda *_: None)
            try:
                table = read_table(path, "y", drop=["b"])
                found.append(f"{table.X.tolist()} {table.y!r}")
            except ValueError as error:
                found.append(str(error))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("labels", [("0", "1"), ("no", "yes")])
def test_tables_are_not_read_line_by_line(tmp_path, monkeypatch, labels, packed):
    """Numbers are read by numpy at once, words a thousand lines at once; the names of the columns alone are split."""
    path, content = (
        tmp_path / f"data.csv{'.gz' * packed}",
        "a,y\n" + f"1.5,{labels[0]}\n2,{labels[1]}\n" * 1_200,
    )
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    split, parsed = [], []
    for name, calls in (("split_quoted", split), ("_parsed", parsed)):
        asked = getattr(files, name)
        monkeypatch.setattr(
            files, name, lambda *a, asked=asked, calls=calls, **b: calls.append(a) or asked(*a, **b)
        )
    table = read_table(path, "y")
    assert table.X.tolist() == [[1.5], [2.0]] * 1_200
    assert len(split) == 1
    assert len(parsed) == (0 if labels[0] == "0" else 3)


@pytest.mark.parametrize("labels", [["0", "1"], ["no", "yes please"], ["0", "1.0", "no"]])
def test_long_tables_are_read_whole(tmp_path, labels):
    path, n = tmp_path / "data.csv.gz", 2_500
    X = np.random.default_rng(0).normal(size=(n, 2))
    y = [labels[min(i * len(labels) // n, len(labels) - 1)] for i in range(n)]
    lines = (
        f"{a!r},{i},{label},{b!r}\n" for i, ((a, b), label) in enumerate(zip(X.tolist(), y, strict=True))
    )
    path.write_bytes(gzip.compress(("a,q,y,b\n" + "".join(lines)).encode()))
    table = read_table(path, "y", qid="q")
    assert np.array_equal(table.X, X)
    assert table.X.flags.c_contiguous
    assert table.qid is not None
    assert table.qid.tolist() == list(range(n))
    assert table.y.tolist() == (y if "no" in labels else [float(label) for label in y])


def test_close_matches():
    assert did_you_mean("toppush", ["TopPush", "Push"]).startswith(" (did you mean 'TopPush'")
    assert did_you_mean(7, ["TopPush"]) == did_you_mean("x" * 10_000, ["TopPush"]) == ""


def test_a_reader_that_has_seen_enough_is_no_error():
    """As ``convexrank problems | head -0``: it is gone before the first line is written."""
    program = "import sys; from convexrank.cli import main; sys.exit(main(['problems']))"
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    running.stdout.close()
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait() == 0
