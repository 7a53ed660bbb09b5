"""Files that are broken, in another encoding or hostile: refused with path, line and reason, the memory left free."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from scipy.io import mmwrite
from scipy.sparse import coo_array

import convexrank as cr
from convexrank.data import read_letor, read_query_sizes, read_table

EDGES = "".join(f"{k} {k + 1}\n" for k in range(5000))
NAMED = "".join(f"a{k} a{k + 1}\n" for k in range(5000))
LETOR = "".join(f"{k % 3} qid:{k // 9} 1:{k / 7:.6f} 2:{k % 5}\n" for k in range(2000))
SIZES = "".join(f"{k % 7}\n" for k in range(5000))


def matrix_market():
    text = io.BytesIO()
    mmwrite(text, coo_array(np.random.default_rng(0).random((40, 40))))
    return text.getvalue().decode()


READERS = {
    "edges.txt": (cr.Graph.read, EDGES),
    "named.txt": (cr.Graph.read, NAMED),
    "matrix.mtx": (cr.Graph.read, matrix_market()),
    "letor.txt": (read_letor, LETOR),
    "sizes.query": (read_query_sizes, SIZES),
}
EVERY = pytest.mark.parametrize("name", list(READERS))


def refused(reader, path, *words):
    """The message of a refusal, which has the path."""
    with pytest.raises(ValueError) as found:  # noqa: PT012
        reader(path)
        pytest.fail("nothing was refused")
    assert type(found.value) is ValueError
    message = str(found.value)
    assert str(path) in message
    assert all(word in message for word in words), message
    return message


def packed(path, content):
    """Write a compressed file; its name says so, as numpy goes by it."""
    path = path.with_name(path.name + ".gz")
    path.write_bytes(content)
    return path


@EVERY
def test_compressed_files_are_read(name, tmp_path):
    reader, text = READERS[name]
    (tmp_path / name).write_text(text)
    found = [reader(tmp_path / name), reader(packed(tmp_path / name, gzip.compress(text.encode())))]
    if name == "sizes.query":
        assert np.array_equal(*found)
    elif name == "letor.txt":
        assert np.array_equal(found[0].X, found[1].X)
    else:
        assert (found[0].to_scipy() != found[1].to_scipy()).nnz == 0


@EVERY
def test_broken_compressed_files_are_refused(name, tmp_path):
    """Cut off at any place, or one byte changed: a wrong one in the middle, the check sum at the end, the header."""
    reader, text = READERS[name]
    whole = gzip.compress(text.encode())
    rng = np.random.default_rng(0)
    broken = [whole[:end] for end in (len(whole) - 1, len(whole) - 8, len(whole) // 2, 20, 11, 3)]
    for place in (*rng.integers(10, len(whole), 5).tolist(), len(whole) - 6, 2, 3):
        one = bytearray(whole)
        one[place] ^= 0xFF
        broken.append(bytes(one))
    for content in broken:
        refused(reader, packed(tmp_path / name, content))


def test_a_compressed_file_says_how_far_it_could_be_read(tmp_path):
    rng = np.random.default_rng(0)
    text = "".join(f"{a} {b}\n" for a, b in rng.integers(0, 9999, (20_000, 2)))
    whole = gzip.compress(text.encode())
    message = refused(
        cr.Graph.read, packed(tmp_path / "edges.txt", whole[: len(whole) // 2]), "cannot be unpacked"
    )
    assert 5_000 < int(message.split("line ")[1].split(":")[0]) < 15_000


@EVERY
def test_other_encodings_are_refused(name, tmp_path):
    reader, text = READERS[name]
    path = tmp_path / name
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        path.write_bytes(text.encode(encoding))
        refused(
            reader, path, *(["UTF-16"] if encoding in ("utf-16", "utf-32") and name != "matrix.mtx" else [])
        )


@pytest.mark.parametrize("name", ["edges.txt", "named.txt", "sizes.query"])
def test_bytes_that_are_no_utf_8_are_named_with_their_line(name, tmp_path):
    reader, text = READERS[name]
    lines = text.splitlines()
    lines[2716] += " ä"
    (tmp_path / name).write_bytes("\n".join(lines).encode("latin-1"))
    refused(reader, tmp_path / name, "line 2717", "no UTF-8")


@EVERY
def test_what_is_no_file_is_an_error_of_the_system(name, tmp_path):
    reader, _ = READERS[name]
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(OSError, match=str(path)):
            reader(path)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_texts_that_python_alone_reads_as_numbers_stay_texts(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("x,y,q\n1,1_2,1_10\n2,12,11_0\n")
    table = read_table(path, "y", qid="q")
    assert table.y.tolist() == ["1_2", "12"]
    assert table.qid.tolist() == ["1_10", "11_0"]
    path.write_text("x,y\n1_2,1\n2,0\n")
    refused(lambda path: read_table(path, "y"), path, "line 2: column 'x' is '1_2'")


@pytest.mark.parametrize("label", ["0", "no"])
def test_long_ids_of_queries_stay_apart(label, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(f"x,y,q\n1,1,12345678901234567\n2,{label},12345678901234568\n")
    assert read_table(path, "y", qid="q").qid.tolist() == ["12345678901234567", "12345678901234568"]


# --- edge lists -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1\n0 2000000000\n", ("line 2", "2000000000", "named=True", "n=")),
        ("# c\n\n0 1\n1 -5\n", ("line 4", "-5", "at least 0")),
        ("0 1\n1 2 3\n", ("line 2 has 3 columns, the first edge has 2", "weighted=False")),
        ("a b\nb c 3\n", ("line 2 has 3 columns, the first edge has 2", "weighted=False")),
        ("0 1 2\n1 2\n", ("line 2 has 2 column",)),
        ("0 1\n1\n", ("line 2 has 1 column",)),
        ("0 1 2\n1 2 x\n", ("line 2", "the weight is 'x'")),
        ("0 1 2\n1 2 -1\n", ("line 2", "the weight is -1.0", "at least 0")),
        ("a b 2\nb c nan\n", ("line 2", "the weight is nan")),
        ("0 1 2\n% c\n1 2 inf\n", ("line 3", "the weight is inf")),
        ("0 1\n0 1.5\n", ("line 2", "'1.5' is no node number")),
        ("0 1\n0 99999999999999999999\n", ("line 2", "is no node number")),
        ("0 1\n0 9999999999999999999\n", ("line 2", "is no node number")),
        ("0 1\n0 " + "9" * 10_000 + "\n", ("line 2", "is no node number")),
        ("0 1\n1 2\n2 x\n", ("line 3", "'x' is no node number")),
    ],
)
def test_wrong_lines_are_named(text, words, tmp_path):
    (tmp_path / "edges.txt").write_text(text)
    refused(cr.Graph.read, tmp_path / "edges.txt", *words)
    refused(cr.Graph.read, packed(tmp_path / "edges.txt", gzip.compress(text.encode())), *words)


def test_the_number_of_nodes_that_is_given_is_a_bound(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n7 2\n")
    assert cr.Graph.read(path, n=8).n == 8
    with pytest.raises(ValueError, match=r"line 2: the node is 7, expected node ids below 3 = n; raise n"):
        cr.Graph.read(path, n=3)


def test_further_columns_may_be_left_out_on_purpose(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 1\n1 2 3 # with a remark\n")
    assert cr.Graph.read(path, weighted=False).weights is None
    path.write_text("0 1 5 2001\n1 2 6 2002\n")
    assert cr.Graph.read(path).weights.tolist() == [5.0, 6.0]


def test_one_long_name_takes_no_more_room_than_its_own(tmp_path):
    """As an array of texts the file would take 40 GiB."""
    long = "x" * 100_000
    path = tmp_path / "edges.txt"
    path.write_text(NAMED * 10 + f"a0 {long}\n")
    graph = cr.Graph.read(path)
    assert (graph.n, graph.m, graph.names[-1]) == (5002, 5001, long)
    assert list(graph.names) == sorted(graph.names)


def test_files_of_other_systems_and_without_the_right_ending(tmp_path):
    path = tmp_path / "edges.txt"
    for end in ("\n", "\r\n", "\r"):
        path.write_bytes(end.join(["0 1", "# c", "1 2", ""]).encode())
        assert cr.Graph.read(path).m == 2
    path.write_bytes(gzip.compress(b"0 1\n1 2\n"))
    assert cr.Graph.read(path).m == 2
    assert cr.Graph.read(packed(path, b"0 1\n1 2\n")).m == 2


@pytest.mark.parametrize(
    "text",
    [
        "%%MatrixMarket matrix coordinate real general\n2000000000 2000000000 1\n1 1 1\n",
        "%%MatrixMarket matrix coordinate real general\n3 3 1000000000000\n1 1 1\n",
        "%%MatrixMarket matrix array real general\n1000000 1000000\n1\n",
        "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 9 1\n",
        "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 x 1\n",
        "%%MatrixMarket matrix coordinate real general\n3 3 1\n1 1 -1\n",
        "%%MatrixMarket matrix coordinate real general\n3 4 1\n1 1 1\n",
        "%%MatrixMarket matrix coordinate real general\n99999999999999999999 3 1\n1 1 1\n",
        "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 1\n",
        "%%MatrixMarket",
        "0 1\n1 2\n",
        "",
    ],
)
def test_matrix_market_files_are_refused_with_their_path(text, tmp_path):
    (tmp_path / "matrix.mtx").write_text(text)
    refused(cr.Graph.read, tmp_path / "matrix.mtx")


# --- query files ------------------------------------------------------------------------------------------------------


def test_numbers_beyond_64_bits_are_refused(tmp_path):
    path = tmp_path / "sizes.query"
    path.write_text("3\n" + "9" * 5000 + "\n")
    refused(read_query_sizes, path, "line 2", "is not a number of rows")
    path.write_text("1 qid:1 99999999999:0.5\n")
    refused(read_letor, path, "line 1", "99999999999")
    path.write_text("1 qid:1 9999999999:0.5\n")
    refused(read_letor, path, "line 1", "feature 9999999999")


# --- solutions --------------------------------------------------------------------------------------------------------


def solution():
    return cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1).solve()


class Bomb:
    """An object that leaves a mark when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return open, (self.mark, "w")


def changed(path, **changes):
    """Write a solution of which some entries are others; None leaves one out."""
    solution().save(path)
    with np.load(path) as stored:
        arrays = dict(stored)
    plain = json.loads(str(arrays["plain"]))
    for name, value in changes.items():
        if name in plain:
            plain[name] = value
        elif value is None:
            del arrays[name]
        else:
            arrays[name] = value
    if "plain" not in changes:
        arrays["plain"] = np.array(json.dumps({k: v for k, v in plain.items() if v is not None}))
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


def written(save, *arrays):
    file = io.BytesIO()
    save(file, *arrays)
    return file.getvalue()


JUNK = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no solution"),
    "another array": lambda path: path.write_bytes(written(np.save, np.ones(3))),
    "other arrays": lambda path: np.savez(path, a=np.ones(3)),
    "a zip file": lambda path: zipfile.ZipFile(path, "w").writestr("a.txt", "a"),
    "a zip file of texts": lambda path: zipfile.ZipFile(path, "w").writestr("plain.npy", "a"),
    "an empty zip file": lambda path: zipfile.ZipFile(path, "w").close(),
    "a pickle": lambda path: path.write_bytes(pickle.dumps(Bomb(f"{path}.mark"))),
    "pickles as arrays": lambda path: np.savez(
        path, x=np.array([Bomb(f"{path}.mark")]), plain=np.array("{}")
    ),
    "no point": lambda path: changed(path, x=None),
    "a point of texts": lambda path: changed(path, x=np.array(["a"])),
    "no JSON": lambda path: changed(path, plain=np.array("{")),
    "a list": lambda path: changed(path, plain=np.array("[]")),
    "lists in lists": lambda path: changed(path, plain=np.array("[" * 100_000)),
    "another status": lambda path: changed(path, status="FINE"),
    "a status that is a list": lambda path: changed(path, status=["CONVERGED"]),
    "a value that is text": lambda path: changed(path, value="1.0"),
    "iterations that are a float": lambda path: changed(path, iterations=1.5),
    "no gap": lambda path: changed(path, gap=None),
    "a certificate of another kind": lambda path: changed(path, certificate={"gap": 1.0, "words": 2}),
    "a certificate of texts": lambda path: changed(
        path, certificate={"gap": "0", "value": 1.0, "lower_bound": 1.0}
    ),
    "half a witness": lambda path: changed(path, witness_points=np.ones((1, 1))),
}


@pytest.mark.parametrize("name", list(JUNK))
def test_junk_is_no_solution(name, tmp_path):
    path = tmp_path / "solution.npz"
    JUNK[name](path)
    refused(cr.Solution.load, path, "no solution written by Solution.save")
    assert not (tmp_path / "solution.npz.mark").exists()


def test_cut_and_changed_solutions_are_refused_or_whole(tmp_path):
    path = tmp_path / "solution.npz"
    solution().save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for end in (1, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        refused(cr.Solution.load, path)
    for place in rng.integers(0, len(whole), 100).tolist():
        content = bytearray(whole)
        content[place] ^= 0x55
        path.write_bytes(bytes(content))
        with contextlib.suppress(ValueError):  # or a byte that nothing hangs on, such as a date
            assert isinstance(cr.Solution.load(path), cr.Solution)


def test_solutions_that_are_no_files(tmp_path):
    for path in (tmp_path, tmp_path / "absent.npz"):
        with pytest.raises(OSError, match=str(path)):
            cr.Solution.load(path)
