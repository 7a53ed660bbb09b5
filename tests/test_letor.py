"""Query groups and LETOR files: round trips, a plain parser, scikit-learn's, and what is refused with its line."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import convexrank as cr
from convexrank.data import QueryGroups, as_groups, letor, read_query_sizes, write_query_sizes

DATA = Path(__file__).resolve().parents[1].parent / "shared" / "data"

IDS = st.one_of(
    st.lists(st.integers(-2, 4), min_size=1, max_size=20),
    st.lists(st.sampled_from(["q1", "q10", "q2", ""]), min_size=1, max_size=20),
    st.lists(st.sampled_from([0.5, 1.0, -3.0]), min_size=1, max_size=20),
)

# --- groups -------------------------------------------------------------------------------------------------------


@given(qid=IDS)
def test_groups_by_hand(qid):
    groups = QueryGroups.from_qid(qid)
    names = list(dict.fromkeys(qid))
    rows = [[row for row, name in enumerate(qid) if name == query] for query in names]
    assert groups.ids.tolist() == names
    assert groups.order.tolist() == [row for query in rows for row in query]
    assert groups.sizes.tolist() == [len(query) for query in rows]
    assert groups.offsets.tolist() == np.cumsum([0, *groups.sizes]).tolist()
    assert groups.query.tolist() == [number for number, query in enumerate(rows) for _ in query]
    assert groups.rows == len(qid)
    assert len(groups) == len(names)
    assert groups.in_place == (groups.order.tolist() == list(range(len(qid))))


@given(qid=IDS)
def test_gathering_and_spreading_are_inverse(qid):
    groups, values = QueryGroups.from_qid(qid), np.arange(len(qid)) * 1.5
    assert np.array_equal(groups.spread(groups.gather(values)), values)
    assert np.array_equal(groups.gather(groups.spread(values)), values)
    assert np.array_equal(groups.order[groups.back], np.arange(len(qid)))
    matrix = sparse.csr_array(values[:, None])
    assert np.array_equal(groups.gather(matrix).toarray().ravel(), groups.gather(values))
    assert np.array_equal(np.asarray(qid)[groups.order], groups.ids[groups.query])


@given(qid=IDS, seed=st.integers(0, 99))
def test_repeated_rows_and_numbered_values_by_hand(qid, seed):
    groups, rng = QueryGroups.from_qid(qid), np.random.default_rng(seed)
    times, values = rng.integers(0, 3, len(qid)), rng.integers(0, 3, len(qid)).astype(float)
    times[0] = 1
    rows, kept = groups.repeated(groups.gather(times))
    assert rows.tolist() == [row for row in groups.order for _ in range(times[row])]
    assert kept.ids[kept.query].tolist() == np.asarray(qid)[rows].tolist()
    assert kept.in_place
    assert (kept.sizes > 0).all()
    pairs = [*zip(groups.query.tolist(), groups.gather(values).tolist(), strict=True)]
    assert groups.numbered(groups.gather(values)).tolist() == [
        sorted(set(pairs)).index(pair) for pair in pairs
    ]


@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=8), seed=st.integers(0, 99))
def test_reductions_with_empty_queries(sizes, seed):
    groups = QueryGroups.from_sizes(sizes)
    values = np.random.default_rng(seed).normal(size=sum(sizes))
    parts = np.split(values, np.cumsum(sizes)[:-1])
    assert np.allclose(groups.sums(values), [part.sum() for part in parts])
    assert groups.maxima(values).tolist() == [max(part, default=-math.inf) for part in parts]
    assert groups.minima(values, 7.0).tolist() == [min(part, default=7.0) for part in parts]
    assert np.array_equal(groups.sums(np.ones(sum(sizes), dtype=int)), sizes)
    columns = np.stack([values, -values], axis=1)
    assert np.allclose(groups.sums(columns)[:, 1], [-part.sum() for part in parts])


def test_sizes_of_lightgbm_there_and_back(tmp_path):
    groups = QueryGroups.from_qid([3, 3, 1, 2, 2, 2])
    path = tmp_path / "train.query"
    write_query_sizes(path, groups.sizes)
    assert path.read_text() == "2\n1\n3\n"
    again = QueryGroups.from_sizes(read_query_sizes(path), 6)
    assert np.array_equal(again.offsets, groups.offsets)
    path.write_text("\n4\n 0 \n\n")
    assert read_query_sizes(path).tolist() == [4, 0]


@pytest.mark.parametrize(
    ("text", "words"), [("3\n-1\n", "line 2: '-1'"), ("2.0\n", "line 1"), ("\n", "no sizes"), ("x", "'x'")]
)
def test_bad_query_files_are_refused(tmp_path, text, words):
    path = tmp_path / "train.query"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_query_sizes(path)
    with pytest.raises((ValueError, TypeError), match="sizes is"):
        write_query_sizes(path, [2.5])


BAD_IDS = {
    "not given": (None, "qid is not given, expected one query id for each row"),
    "short": ([1, 2], "qid has 2 entries, expected 3"),
    "NaN": ([1.0, math.nan, 2.0], "1 NaN"),
    "None": (np.array([1, None, None], dtype=object), r"qid\[1\] is None.*drop the 2 row"),
    "NaN among words": (np.array(["a", math.nan, "b"], dtype=object), r"qid\[1\] is nan"),
    "mixed": (np.array(["a", 1, "b"], dtype=object), "mixes kinds"),
    "a mixed list": ([1, "1", 2], "mixes kinds"),
    "NaN in a list of words": (["a", math.nan, "b"], r"qid\[1\] is nan"),
    "None in a tuple of words": (("a", "b", None), r"qid\[2\] is None"),
    "column": ([[1], [2], [3]], r"qid has shape \(3, 1\)"),
    "a number": (3, r"qid has shape \(\)"),
    "complex": ([1j, 2, 3], "complex"),
}


@pytest.mark.parametrize("name", BAD_IDS)
def test_bad_ids_are_refused(name):
    value, words = BAD_IDS[name]
    with pytest.raises((ValueError, TypeError), match=words):
        as_groups(value, 3, required=True)
    with pytest.raises((ValueError, TypeError), match=words.replace("qid", "group")):
        QueryGroups.from_qid(value, 3, required=True, name="group")


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([2, -1, 2], r"sizes\[1\] is -1"),
        ([2, 2], "adds up to 4 rows, expected 3"),
        ([1.0, 2.0], "float64 values, expected integers"),
        ([], r"shape \(0,\)"),
        ([[3]], r"shape \(1, 1\)"),
    ],
)
def test_bad_sizes_are_refused(sizes, words):
    with pytest.raises((ValueError, TypeError), match=words):
        QueryGroups.from_sizes(sizes, 3)


def test_what_stands_for_groups():
    assert len(as_groups(None, 4)) == 1
    groups = QueryGroups.from_qid([1, 2, 1])
    assert as_groups(groups, 3) is groups
    with pytest.raises(ValueError, match="groups 3 rows, expected 4"):
        as_groups(groups, 4)
    with pytest.raises(ValueError, match="empty"):
        QueryGroups.from_qid([])
    assert QueryGroups.from_qid(np.array([5, 5, 2], dtype=object)).ids.tolist() == [5, 2]
    assert groups.subset([1, 0]).tolist() == [1, 0, 2]
    assert groups.subset(np.array([False, False])).tolist() == []


# --- files --------------------------------------------------------------------------------------------------------


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


GOOD = """# a header
2 qid:10 1:0.5 3:-1e2 #docid = GX-1 inc = 1
0 qid:10 2:.25 3:7 # nothing

1.5 qid:7 #docid=GX 2
-1 qid:-3 1:1. 2:2 3:3
"""


def check_good(data):
    assert data.X.tolist() == [[0.5, 0.0, -100.0], [0.0, 0.25, 7.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]
    assert data.y.tolist() == [2.0, 0.0, 1.5, -1.0]
    assert data.qid.tolist() == [10, 10, 7, -3]
    assert data.qid.dtype == np.int64
    assert data.comments.tolist() == ["docid = GX-1 inc = 1", "nothing", "docid=GX 2", ""]
    assert data.doc_ids.tolist() == ["GX-1", "", "GX", ""]
    assert len(data.groups) == 3


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_good_file(tmp_path, monkeypatch, end, packed):
    content = GOOD.replace("\n", end).encode()
    path = write(tmp_path / "rows", gzip.compress(content) if packed else content)
    check_good(cr.data.read_letor(path))
    check_good(cr.data.read_letor(str(path)))
    monkeypatch.setattr(letor, "_parse_fast", lambda *arguments: None)
    check_good(cr.data.read_letor(path))


def test_unusual_but_right_lines_are_read(tmp_path):
    path = write(tmp_path / "rows", "1 qid:+5 3:1 1:2\n0 qid:5\t2:0x\n".replace("0x", "+0.5e-1"))
    data = cr.data.read_letor([path])
    assert data.X.tolist() == [[2.0, 0.0, 1.0], [0.0, 0.05, 0.0]]
    assert data.qid.tolist() == [5, 5]


def test_the_number_of_features(tmp_path):
    one, two = write(tmp_path / "one", "1 qid:1 1:1\n"), write(tmp_path / "two", "1 qid:2 4:1\n")
    assert cr.data.read_letor(one).X.shape == (1, 1)
    assert cr.data.read_letor(one, n_features=4).X.shape == (1, 4)
    both = cr.data.read_letor([one, two])
    assert both.X.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
    assert both.qid.tolist() == [1, 2]
    assert cr.data.read_letor(write(tmp_path / "zero", "1 qid:1 0:3 2:4\n"), zero_based=True).X.tolist() == [
        [3, 0, 4]
    ]
    packed = cr.data.read_letor([two, one], sparse=True)
    assert sparse.issparse(packed.X)
    assert np.array_equal(packed.X.toarray(), both.X[::-1])
    assert "2 rows, 4 features, 2 queries, grades 1" in repr(packed)
    assert packed.select([1]).qid.tolist() == [1]


BAD_LINES = {
    "no query": ("1 1:0.5", "line 2: the second word is '1:0.5', expected the query id"),
    "nothing but a grade": ("1", "line 2: the second word is ''"),
    "empty query": ("1 qid: 1:0.5", "line 2: the query id is ''"),
    "a query in words": ("1 qid:red 1:0.5", "line 2: the query id is 'red'"),
    "a fraction as query": ("1 qid:1.5 1:0.5", "line 2: the query id is '1.5'"),
    "two numbers as query": ("1 qid:1-2 1:0.5", "line 2: the query id is '1-2'"),
    "a huge query": ("1 qid:12345678901234567890 1:0.5", "line 2: the query id"),
    "a grade in words": ("good qid:1 1:0.5", "line 2: the grade is 'good'"),
    "a grade that is no number": ("nan qid:1 1:0.5", "line 2: the grade is 'nan'"),
    "an infinite grade": ("1e999 qid:1 1:0.5", "line 2: the grade"),
    "a value in words": ("1 qid:1 1:x", "line 2: feature 1 is 'x'"),
    "NaN": ("1 qid:1 1:nan", "line 2: feature 1 is 'nan'"),
    "infinity": ("1 qid:1 2:inf", "line 2: feature 2 is 'inf'"),
    "two values": ("1 qid:1 1:0.5-3", "line 2: feature 1 is '0.5-3'"),
    "two points": ("1 qid:1 1:1.2.3", "line 2: feature 1 is '1.2.3'"),
    "an underscore": ("1 qid:1 1:1_0", "line 2: feature 1 is '1_0'"),
    "hexadecimal": ("1 qid:1 1:0x10", "line 2: feature 1 is '0x10'"),
    "no value": ("1 qid:1 1:", "line 2: feature 1 is ''"),
    "no number": ("1 qid:1 :0.5", "line 2: ':0.5' is not a feature"),
    "no colon": ("1 qid:1 0.5", "line 2: '0.5' is not a feature"),
    "blank behind the colon": ("1 qid:1 1: 0.5 2:1", "line 2: feature 1 is ''"),
    "blank before the colon": ("1 qid:1 1 :0.5", "line 2: '1' is not a feature"),
    "two colons": ("1 qid:1 1:2:3 4", "line 2: feature 1 is '2:3'"),
    "a fraction as feature": ("1 qid:1 1.0:2", "line 2: '1.0:2' is not a feature"),
    "a negative feature": ("1 qid:1 -1:2", "line 2: '-1:2' is not a feature"),
    "feature 0": ("1 qid:1 0:2", "line 2: feature 0, but feature numbers start at 1"),
    "a huge feature": ("1 qid:1 99999999999:2", "line 2: '99999999999:2' is not a feature"),
    "twice": ("1 qid:1 1:2 1:3", "line 2: feature 1 is named twice"),
    "twice, apart": ("1 qid:1 1:2 2:5 1:3", "line 2: feature 1 is named twice"),
    "beyond": ("1 qid:1 4:2", "line 2: feature 4 is beyond n_features=3"),
    "a strange letter": ("1 qid:1 1:½", "line 2: feature 1 is '½'"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_wrong_lines_are_refused_with_file_and_line(tmp_path, name):
    line, words = BAD_LINES[name]
    path = write(tmp_path / "fold.txt", f"1 qid:1 1:0.5 2:1\n{line}\n0 qid:1 3:1\n")
    with pytest.raises(ValueError, match="fold.txt, " + words.replace(".", r"\.").replace("(", r"\(")):
        cr.data.read_letor(path, n_features=3)


def test_null_is_a_number_or_refused(tmp_path):
    path = write(tmp_path / "large_null.txt", "2 qid:1 1:NULL 2:0.5 #NULL:NULL\n0 qid:1 1:3 2:NULL\n")
    with pytest.raises(ValueError, match=r"large_null\.txt, line 1: feature 1 is NULL; pass null=0"):
        cr.data.read_letor(path)
    for null in (0.0, -1.5, 1e-30, 2):
        data = cr.data.read_letor(path, null=null)
        assert data.X.tolist() == [[null, 0.5], [3.0, null]]
    assert data.comments[0] == "NULL:NULL"
    with pytest.raises(ValueError, match=r"line 1: feature 1 is '0\.0X'"):
        cr.data.read_letor(write(tmp_path / "bad", "2 qid:1 1:NULLX\n"), null=0.0)
    for null in (math.nan, math.inf):
        with pytest.raises(ValueError, match="null is"):
            cr.data.read_letor(path, null=null)
    for k in range(1, 6):
        write(tmp_path / f"S{k}.txt", f"2 qid:{k} 1:NULL\n")
    assert cr.data.letor_folds(tmp_path, null=7.0)[0].test.X.tolist() == [[7.0]]


def test_files_of_other_systems(tmp_path):
    """A byte order mark is no grade, and a comment ends with its line, whatever ends lines."""
    rows = GOOD.replace("\r", "").encode()
    expected = cr.data.read_letor(write(tmp_path / "good", rows))
    for k, content in enumerate(
        (b"\xef\xbb\xbf" + rows, rows.replace(b"\n", b"\r"), rows.replace(b"\n", b"\r\n"))
    ):
        found = cr.data.read_letor(write(tmp_path / f"other{k}", content))
        assert np.array_equal(found.X, expected.X)
        assert found.comments.tolist() == expected.comments.tolist()


def test_one_wrong_feature_number_does_not_fill_the_memory(tmp_path):
    path = write(tmp_path / "wide", "1 qid:1 1:0.5\n0 qid:1 2000000000:0.5\n")
    with pytest.raises(ValueError, match=r"go up to 2000000000, but a line names 1 features .* 30 GiB"):
        cr.data.read_letor(path)
    with pytest.raises(ValueError, match="line 2: feature 2000000000 is beyond n_features=46"):
        cr.data.read_letor(path, n_features=46)
    assert cr.data.read_letor(path, sparse=True).X.shape == (2, 2_000_000_000)


def test_files_are_parsed_in_parts(tmp_path, monkeypatch):
    """Parts join as the whole, lines keep their numbers, and what is unusual slows its own part only."""
    rows = "".join(f"{k % 3} qid:{k // 4} {1 + k % 5}:{k}.5 7:1 # {k}\n" for k in range(20))
    path = write(tmp_path / "rows", f"# header\n\n\n{rows}")
    whole = cr.data.read_letor(path)
    monkeypatch.setattr(letor, "_AT_ONCE", 3)
    apart = cr.data.read_letor(path)
    for name in ("X", "y", "qid", "comments"):
        assert np.array_equal(getattr(whole, name), getattr(apart, name))
    assert np.array_equal(cr.data.read_letor(path, sparse=True).X.toarray(), whole.X)
    slow = []
    once = letor._parse_slowly
    monkeypatch.setattr(letor, "_parse_slowly", lambda *parts: slow.append(parts[2]) or once(*parts))
    assert cr.data.read_letor(write(tmp_path / "mixed", f"{rows}1 qid:9 4:1 2:3\n")).X[-1, 1] == 3.0
    assert slow == [[19, 20, 21]]
    with pytest.raises(ValueError, match="bad, line 21: feature 1 is 'x'"):
        cr.data.read_letor(write(tmp_path / "bad", f"{rows}1 qid:9 1:x\n"))
    monkeypatch.setattr(letor, "_AT_ONCE", 1)
    with pytest.raises(ValueError, match="holds no rows"):
        cr.data.read_letor(write(tmp_path / "none", "# one\n\n# two\n"))


def test_what_is_no_path_is_refused():
    for paths in (None, 3, [3], ["a", None]):
        with pytest.raises(TypeError, match="expected the path of a file"):
            cr.data.read_letor(paths)


def test_files_without_rows_are_refused(tmp_path):
    for content in ("", "\n\n", "# only a comment\n"):
        with pytest.raises(ValueError, match="holds no rows"):
            cr.data.read_letor(write(tmp_path / "rows", content))
    with pytest.raises(ValueError, match="names no feature"):
        cr.data.read_letor(write(tmp_path / "rows", "1 qid:1\n"))
    with pytest.raises(ValueError, match="paths is empty"):
        cr.data.read_letor([])
    with pytest.raises(ValueError, match="cannot be unpacked"):
        cr.data.read_letor(write(tmp_path / "rows", gzip.compress(GOOD.encode())[:-9]))
    with pytest.raises(FileNotFoundError):
        cr.data.read_letor(tmp_path / "missing")
    with pytest.raises(ValueError, match="n_features is 0"):
        cr.data.read_letor(tmp_path / "rows", n_features=0)


@given(seed=st.integers(0, 9999))
def test_both_parsers_agree_with_scikit_learn(seed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    rows, features = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    X = np.round(rng.normal(size=(rows, features)) * 10.0 ** rng.integers(-8, 8), int(rng.integers(0, 9)))
    X[rng.random(X.shape) < 0.3] = 0.0
    X[0, -1] = 1.0
    y, qid = rng.integers(0, 3, rows).astype(float), np.sort(rng.integers(1, 4, rows))
    path = tmp_path_factory.mktemp("letor") / "rows.txt"
    dump_svmlight_file(X, y, str(path), zero_based=False, query_id=qid)
    expected_X, expected_y, expected_qid = load_svmlight_file(str(path), query_id=True, zero_based=False)
    data = cr.data.read_letor(path)
    assert np.array_equal(data.X, expected_X.toarray())
    assert np.array_equal(data.y, expected_y)
    assert np.array_equal(data.qid, expected_qid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(letor, "_parse_fast", lambda *arguments: None)
        slowly = cr.data.read_letor(path)
    assert np.array_equal(slowly.X, data.X)
    assert np.array_equal(slowly.qid, data.qid)


def test_the_usual_form_takes_the_fast_way(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("read line by line")

    monkeypatch.setattr(letor, "_parse_slowly", refuse)
    check_good(cr.data.read_letor(write(tmp_path / "rows", GOOD)))
    with pytest.raises(AssertionError, match="line by line"):
        cr.data.read_letor(write(tmp_path / "rows", "1 qid:1 2:1 1:1\n"))


# --- folds --------------------------------------------------------------------------------------------------------


def named(parts):
    """The queries of the parts of a fold, one query a file in these tests."""
    return [np.unique(part.qid).tolist() for part in (parts.train, parts.validation, parts.test)]


def test_folds_of_letor_4(tmp_path):
    for k in range(1, 6):
        write(tmp_path / f"S{k}.txt", f"1 qid:{k} {k}:1\n0 qid:{k} 1:2\n")
    folds = cr.data.letor_folds(tmp_path)
    assert [fold.number for fold in folds] == [1, 2, 3, 4, 5]
    assert [named(fold) for fold in folds] == [
        [[1, 2, 3], [4], [5]],
        [[2, 3, 4], [5], [1]],
        [[3, 4, 5], [1], [2]],
        [[1, 4, 5], [2], [3]],
        [[1, 2, 5], [3], [4]],
    ]
    assert {part.X.shape[1] for fold in folds for part in (fold.train, fold.validation, fold.test)} == {5}


def test_folds_of_the_older_ohsumed(tmp_path):
    for k in range(1, 6):
        (tmp_path / f"Fold{k}").mkdir()
        write(tmp_path / f"Fold{k}" / "testset.txt", f"1 qid:{k} 1:1\n")
    folds = cr.data.letor_folds(tmp_path)
    assert named(folds[0]) == [[2, 3, 4], [5], [1]]
    assert named(folds[1]) == [[3, 4, 5], [1], [2]]
    assert named(folds[4]) == [[1, 2, 3], [4], [5]]


@pytest.mark.parametrize(
    "names",
    [("train.txt", "vali.txt", "test.txt.gz"), ("trainingset.txt", "validationset.txt", "testset.txt")],
)
def test_folds_as_files(tmp_path, names):
    for k in (1, 2, 10):
        (tmp_path / f"Fold{k}").mkdir()
        for place, name in enumerate(names):
            content = f"1 qid:{10 * k + place} 1:1\n".encode()
            write(tmp_path / f"Fold{k}" / name, gzip.compress(content) if name.endswith("gz") else content)
    folds = cr.data.letor_folds(str(tmp_path))
    assert [(fold.number, named(fold)) for fold in folds] == [
        (k, [[10 * k], [10 * k + 1], [10 * k + 2]]) for k in (1, 2, 10)
    ]


def test_a_fold_that_lacks_a_file_is_named(tmp_path):
    for k in (1, 2):
        (tmp_path / f"Fold{k}").mkdir()
        for name in ("train", "vali", "test"):
            write(tmp_path / f"Fold{k}" / f"{name}.txt", "1 qid:1 1:0.5\n")
    (tmp_path / "Fold2" / "vali.txt").unlink()
    with pytest.raises(ValueError, match=r"lacks Fold2/vali\.txt; every fold needs"):
        cr.data.letor_folds(tmp_path)


def test_an_unknown_layout_is_refused(tmp_path):
    (tmp_path / "Fold1").mkdir()
    write(tmp_path / "Fold1" / "train.txt", "1 qid:1 1:1\n")
    write(tmp_path / "S1.txt", "1 qid:1 1:1\n")
    with pytest.raises(ValueError, match="no known layout of folds"):
        cr.data.letor_folds(tmp_path)


@pytest.mark.skipif(
    not (DATA / "mq2008").is_dir(), reason="MQ2008 must not be redistributed; it is not in the project"
)
def test_mq2008():
    """Counts as its publisher states them."""
    data = cr.data.read_letor([DATA / "mq2008" / f"S{k}.txt" for k in range(1, 6)])
    assert data.X.shape == (15_211, 46)
    assert np.bincount(data.y.astype(int)).tolist() == [12_279, 2_001, 931]
    assert len(data.groups) == 784
    assert (data.groups.maxima(data.groups.gather(data.y)) == 0).sum() == 220
    assert data.doc_ids[0] == "GX008-86-4444840"
    folds = cr.data.letor_folds(DATA / "mq2008")
    assert all(len(set(fold.train.qid) & set(fold.test.qid)) == 0 for fold in folds)
    assert sum(len(fold.test.y) for fold in folds) == 15_211


@pytest.mark.skipif(
    not (DATA / "ohsumed_letor2").is_dir(),
    reason="OHSUMED must not be redistributed; it is not in the project",
)
def test_ohsumed():
    folds = cr.data.letor_folds(DATA / "ohsumed_letor2")
    rows = [len(fold.test.y) for fold in folds]
    assert sum(rows) == 16_140
    assert folds[0].train.X.shape == (sum(rows[1:4]), 25)
    assert sum(len(fold.test.groups) for fold in folds) == 106
