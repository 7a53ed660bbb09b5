"""Data sets: small ones, generated with fixed seeds, and folds of LETOR collections as they are published.

The small ones are the same numbers on each call, without any file. They are artificial. Each set shows the use of one
kind of method; ``DESCR`` describes how it is generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from convexrank.data.checks.values import check_flag, check_path
from convexrank.data.display import counted
from convexrank.data.letor import LetorData, read_letor

__all__ = [
    "LetorFold",
    "Sample",
    "WebSample",
    "letor_folds",
    "load_dose_response",
    "load_queries",
    "load_screening",
    "load_web",
]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows with a label.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        Features.
    y : ndarray, shape (n,)
        Labels 0 and 1, grades, or numbers.
    feature_names : tuple of str
        Names of the columns of X.
    DESCR : str
        Description of the data: how they are generated, and their purpose.
    qid : ndarray of int, shape (n,), or None
        The query of each row.

    Examples
    --------
    >>> import convexrank as cr
    >>> sample = cr.data.load_screening()
    >>> sample
    Sample(4000 rows, 6 features)
    """

    X: Array
    y: Array
    feature_names: tuple[str, ...]
    DESCR: str
    qid: Array | None = None

    def __repr__(self) -> str:
        queries = "" if self.qid is None else f", {counted(len(np.unique(self.qid)), 'queries')}"
        return f"Sample({counted(len(self.y), 'rows')}, {counted(self.X.shape[1], 'features')}{queries})"


@dataclass(frozen=True, eq=False)
class WebSample:
    """Links between hosts, some of which are spam.

    Parameters
    ----------
    source, target : ndarray of int, shape (m,)
        The links; ``cr.Graph.from_edges(web.source, web.target, names=web.names)`` makes a graph of them.
    names : tuple of str
        Names of the hosts.
    spam : ndarray of bool, shape (n,)
        Whether each host is spam.
    trusted : ndarray of int
        Numbers of hosts that are known to be good, as seeds of trust.
    DESCR : str
        Description of the data: how they are generated, and their purpose.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.data.load_web()
    WebSample(400 hosts, 50 of them spam, 2439 links)
    """

    source: Array
    target: Array
    names: tuple[str, ...]
    spam: Array
    trusted: Array
    DESCR: str

    def __repr__(self) -> str:
        return f"WebSample({len(self.names)} hosts, {int(self.spam.sum())} of them spam, {len(self.source)} links)"


@overload
def load_screening(*, return_X_y: Literal[False] = False) -> Sample: ...
@overload
def load_screening(*, return_X_y: Literal[True]) -> tuple[Array, Array]: ...
def load_screening(*, return_X_y: bool = False) -> Any:
    """Load a list of which only the top is inspected: 4 000 rows, 200 positives.

    There are two kinds of positives. One third has a high value of ``marker`` only. The others have a high ``load``,
    and so have as many negatives. A score that orders all pairs well uses both features, which brings those negatives
    to the top; a score for the top gives ``load`` less weight. A push with a large p finds such a score.

    Parameters
    ----------
    return_X_y : bool
        Return ``(X, y)`` instead of a :class:`Sample`.

    Returns
    -------
    Sample, or tuple of two ndarrays
        Features of about unit scale, and labels 0 and 1.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = cr.data.load_screening(return_X_y=True)
    >>> X.shape, int(y.sum())
    ((4000, 6), 200)
    """
    rng = np.random.default_rng(20090)
    n, marked, loaded, decoys = 4000, 70, 130, 130
    X = rng.normal(size=(n, 6))
    y = np.zeros(n, dtype=np.int64)
    y[: marked + loaded] = 1
    X[:marked, 0] += 4.0
    X[marked : marked + loaded + decoys, 1] += 4.0
    X[:, 2] += 0.2 * y
    X[:, 3] = 0.7 * X[:, 1] + 0.7 * X[:, 3]
    order = rng.permutation(n)
    names = ("marker", "load", "age", "dose", "region", "season")
    return _given(Sample(X[order], y[order], names, _doc(load_screening)), return_X_y)


@overload
def load_queries(*, return_X_y: Literal[False] = False) -> Sample: ...
@overload
def load_queries(*, return_X_y: Literal[True]) -> tuple[Array, Array, Array]: ...
def load_queries(*, return_X_y: bool = False) -> Any:
    """Load queries with graded documents: 80 queries with 8 to 30 documents, 8 features, grades 0 to 4.

    Level and scale of the features differ between queries, as for counts of words in short and long queries;
    :class:`~convexrank.QueryScaler` removes both. Few documents have high grades.

    Parameters
    ----------
    return_X_y : bool
        Return ``(X, y, qid)`` instead of a :class:`Sample`.

    Returns
    -------
    Sample, or tuple of three ndarrays
        Features, grades, and the query of each row.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.data.load_queries()
    Sample(1494 rows, 8 features, 80 queries)
    """
    rng = np.random.default_rng(20130)
    sizes = rng.integers(8, 31, 80)
    qid = np.repeat(np.arange(1, 81), sizes)
    Z = rng.normal(size=(len(qid), 8))
    worth = Z @ [1.0, 0.7, 0.5, 0.3, 0.0, 0.0, -0.3, -0.5] + 0.8 * rng.normal(size=len(qid))
    y = np.digitize(worth, [0.6, 1.5, 2.4, 3.3]).astype(np.int64)
    level = rng.normal(size=(81, 8))[qid]
    scale = np.exp(2.0 * rng.normal(size=81))[qid, None]
    names = ("title", "body", "anchor", "links", "length", "age", "depth", "ads")
    return _given(Sample(scale * (Z + level), y, names, _doc(load_queries), qid), return_X_y)


@overload
def load_dose_response(*, return_X_y: Literal[False] = False) -> Sample: ...
@overload
def load_dose_response(*, return_X_y: Literal[True]) -> tuple[Array, Array]: ...
def load_dose_response(*, return_X_y: bool = False) -> Any:
    """Load a regression whose response increases with one index, and saturates: 600 rows, 5 features.

    The response is :math:`1/(1 + e^{-3(t - 0.3)})` at the index :math:`t = Xw` with w = (1, −0.5, 0.25, 0, 0), plus
    noise of standard deviation 0.05. A straight line does not fit the response at both ends.

    Parameters
    ----------
    return_X_y : bool
        Return ``(X, y)`` instead of a :class:`Sample`.

    Returns
    -------
    Sample, or tuple of two ndarrays
        Features of unit scale, and responses.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = cr.data.load_dose_response(return_X_y=True)
    >>> X.shape
    (600, 5)
    """
    rng = np.random.default_rng(20110)
    X = rng.normal(size=(600, 5))
    index = X @ [1.0, -0.5, 0.25, 0.0, 0.0]
    y = 1.0 / (1.0 + np.exp(-3.0 * (index - 0.3))) + 0.05 * rng.normal(size=600)
    names = ("dose", "weight", "age", "batch", "site")
    return _given(Sample(X, y, names, _doc(load_dose_response)), return_X_y)


def load_web() -> WebSample:
    """Load a small web with a link farm: 350 good hosts in seven communities, and 50 that are spam.

    A good host links to other hosts of its community, mostly to the well-known ones, and sometimes to hosts outside.
    The farm has 46 hosts that link to four targets and to each other; a few good hosts also link to a target. PageRank
    puts the targets near the top; little trust from the seven ``trusted`` hosts reaches them.

    Returns
    -------
    WebSample
        Links, names, indicators of spam, and seeds.

    Examples
    --------
    >>> import convexrank as cr
    >>> web = cr.data.load_web()
    >>> graph = cr.Graph.from_edges(web.source, web.target, names=web.names)
    >>> [graph.names[i] for i in cr.pagerank(graph).argsort()[:-4:-1]]
    ['spam000', 'spam001', 'spam003']
    """
    rng = np.random.default_rng(20120)
    good, size, farm, targets = 350, 50, 46, 4
    links: set[tuple[int, int]] = set()
    for host in range(good):
        home = size * (host // size)
        known = home + np.minimum(rng.geometric(0.08, rng.integers(3, 9)) - 1, size - 1)
        away = rng.integers(0, good, rng.integers(0, 3))
        links |= {(host, int(other)) for other in (*known, *away)}
    first = good + targets
    for host in range(first, first + farm):
        links |= {(host, target) for target in range(good, first)}
        links |= {(host, int(other)) for other in rng.integers(first, first + farm, 3)}
    for target in range(good, first):
        links |= {(target, int(other)) for other in rng.integers(first, first + farm, 12)}
    links |= {(int(host), good + int(rng.integers(targets))) for host in rng.integers(0, good, 12)}
    ends = np.array(sorted(link for link in links if link[0] != link[1]))
    names = (*(f"host{i:03d}" for i in range(good)), *(f"spam{i:03d}" for i in range(targets + farm)))
    spam = np.arange(good + targets + farm) >= good
    return WebSample(ends[:, 0], ends[:, 1], names, spam, np.arange(0, good, size), _doc(load_web))


def _doc(loader: Any) -> str:
    """Return the part of the docstring before the parameters."""
    text = (loader.__doc__ or "").split("Parameters\n")[0].split("Returns\n")[0]
    return "\n".join(line.strip() for line in text.splitlines()).strip()


def _given(sample: Sample, return_X_y: bool) -> Any:
    if not check_flag(return_X_y, "return_X_y"):
        return sample
    return (sample.X, sample.y) if sample.qid is None else (sample.X, sample.y, sample.qid)


@dataclass(frozen=True)
class LetorFold:
    """One fold of a LETOR collection.

    Parameters
    ----------
    number : int
        Number of the fold: 1 for Fold1, and so on.
    train, validation, test : LetorData
        The three parts.

    Examples
    --------
    >>> from convexrank.data import LetorData
    >>> part = LetorData(np.ones((2, 1)), np.array([1.0, 0.0]), np.array([4, 4]), np.array(["", ""]))
    >>> LetorFold(1, part, part, part).train
    LetorData(2 rows, 1 feature, 1 query, grades 0 1)
    """

    number: int
    train: LetorData
    validation: LetorData
    test: LetorData


def letor_folds(folder: Any, *, null: float | None = None) -> tuple[LetorFold, ...]:
    """Read the folds of a LETOR collection, each file once.

    Three layouts are supported:

    * ``Fold1`` … each with ``train.txt`` (or ``trainingset.txt``), ``vali.txt`` (``validationset.txt``) and
      ``test.txt`` (``testset.txt``): taken as they are;
    * ``S1.txt`` … ``S5.txt``, the parts of LETOR 4.0: fold k trains on parts k, k+1, k+2, validates on part k+3 and
      tests on part k+4, with numbers modulo 5;
    * ``Fold1/testset.txt`` … alone, as when only the test parts of the older OHSUMED were kept: fold k trains on the
      test sets of the folds k+1, k+2, k+3, validates on that of fold k+4 and tests on its own.

    Each file may be compressed (``.gz``). All folds have the same number of features.

    Parameters
    ----------
    folder : str or path
        The folder of the collection.
    null : float, optional
        The number that replaces the value ``NULL``, see `read_letor`.

    Raises
    ------
    ValueError
        When the folder has none of these layouts, or a file is wrong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for k in range(1, 6):
    ...     _ = (folder / f"S{k}.txt").write_text(f"1 qid:{k} 1:0.5\\n0 qid:{k} 1:0.25\\n")
    >>> [(fold.train.qid[::2].tolist(), fold.test.qid[0].item()) for fold in letor_folds(folder)][0]
    ([1, 2, 3], 5)
    """
    root = Path(check_path(folder, "folder"))
    parts = _found(root / f"S{k}" for k in range(1, 6))
    if len(parts) == 5:
        return _rounds(parts, null, train=(0, 1, 2), validation=3, test=4)
    folders = sorted(path for path in root.glob("Fold*") if path.name[4:].isdigit())
    folders.sort(key=lambda path: int(path.name[4:]))
    kinds = {"train": "trainingset", "vali": "validationset", "test": "testset"}
    files = [[_file(path / short) or _file(path / long) for short, long in kinds.items()] for path in folders]
    if files and all(all(row) for row in files):
        flat = [path for row in files for path in row]
        data = _same_width(flat, null)
        numbers = [int(path.name[4:]) for path in folders]
        return tuple(LetorFold(k, *data[3 * i : 3 * i + 3]) for i, k in enumerate(numbers))
    tests = [row[2] for row in files if row[2]]
    if len(tests) == 5 and not any(row[0] or row[1] for row in files):
        return _rounds(tests, null, train=(1, 2, 3), validation=4, test=0)
    lacking = [
        f"{path.name}/{short}.txt"
        for path, row in zip(folders, files, strict=True)
        for short, file in zip(kinds, row, strict=True)
        if not file
    ]
    if lacking and len(lacking) < 2 * len(folders):
        raise ValueError(
            f"folder {root} lacks {', '.join(lacking)}; every fold needs train.txt, vali.txt and test.txt."
        )
    raise ValueError(
        f"folder {root} holds no known layout of folds; expected Fold1, Fold2, … with train.txt, vali.txt and "
        "test.txt, or S1.txt to S5.txt, or Fold1/testset.txt to Fold5/testset.txt."
    )


def _file(stem: Path) -> Path | None:
    """The file of that name with one of the usual endings, if there is one."""
    candidates = (stem.with_name(stem.name + ending) for ending in (".txt", ".txt.gz"))
    return next((path for path in candidates if path.is_file()), None)


def _found(stems: Iterable[Path]) -> list[Path]:
    return [path for stem in stems if (path := _file(stem))]


def _same_width(paths: Sequence[Any], null: float | None) -> list[LetorData]:
    """Read files apart, with the number of features that they have together."""
    parts = [read_letor(path, null=null) for path in paths]
    width = max(part.X.shape[1] for part in parts)
    widened = []
    for part in parts:
        missing = width - part.X.shape[1]
        X = np.pad(part.X, ((0, 0), (0, missing))) if missing else part.X
        widened.append(LetorData(X, part.y, part.qid, part.comments))
    return widened


def _rounds(
    paths: Sequence[Path], null: float | None, train: tuple[int, ...], validation: int, test: int
) -> tuple[LetorFold, ...]:
    """Rotate five parts."""
    parts = _same_width(paths, null)
    turn = lambda k, step: parts[(k + step) % len(parts)]  # noqa: E731
    return tuple(
        LetorFold(k + 1, _joined([turn(k, step) for step in train]), turn(k, validation), turn(k, test))
        for k in range(len(parts))
    )


def _joined(parts: Sequence[LetorData]) -> LetorData:
    columns = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "qid", "comments")
    )
    return LetorData(*columns)
