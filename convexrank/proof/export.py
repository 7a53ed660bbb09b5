"""A certificate as a folder of plain files, which an independent program of at most 200 lines checks.

:mod:`convexrank.proof.check` is for rankings by linear scores, :mod:`convexrank.proof.check_ranks` for ranks of graphs.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import Design
from convexrank.core.results import Certificate, CertificateError, Witness
from convexrank.proof import check, check_ranks
from convexrank.regularizers import L1Ball

__all__ = ["checked", "export"]

Array = np.ndarray

# The formulations that convexrank.proof.check evaluates, and the parameters that it reads.
_GLOBAL = {
    "PNormPush": ("p",),
    "BottomPush": ("p",),
    "TopBottomPush": ("p", "bottom_weight"),
    "TopPush": (),
    "IRPush": (),
    "RmaxPush": ("loss",),
    "Push": ("price", "loss"),
    "ConvexRisk": ("cost",),
    "RankSVM": ("loss", "normalize"),
    "ListNet": ("target", "normalize"),
}
_DISTANCE = {
    "PageRank": ("alpha", "dangling"),
    "LpqRank": ("alpha", "p", "q", "weak_links", "outdegree_floor"),
}
# Files of more bytes than this are left out, their SHA-256 is written all the same.
_LARGE = 100_000_000


def export(
    problem: Any, x: Array, proof: Certificate, path: Any, witness: Witness | None = None, large: int = _LARGE
) -> Path:
    """Write a folder with the problem's data, the point, the evidence and the claim, and check it.

    Parameters
    ----------
    problem : Problem
        The problem.
    x : ndarray
        The point.
    proof : Certificate
        The claimed bound.
    path : path
        The folder; it must not contain a certificate yet.
    witness : Witness, optional
        The evidence for a risk with kinks.
    large : int
        Largest size of data files in bytes. Of larger files only the SHA-256 is written; the checker needs these files.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    CertificateError
        For formulations that the checking program does not support, or if it does not confirm the claim.
    """
    name, folder = type(problem).__name__, Path(path)
    if (folder / "certificate.json").exists():
        raise CertificateError(f"path is {folder}, which holds a certificate already; give another folder.")
    known = _GLOBAL.get(name) if proof.kind == "global" else _DISTANCE.get(name)
    if known is None:
        raise CertificateError(
            f"{name} is not among the formulations that the checking program knows: "
            f"{', '.join([*_GLOBAL, *_DISTANCE])}."
        )
    arrays, numbers = (_linear if proof.kind == "global" else _graph)(problem, x)
    if witness is not None and proof.kind == "global":
        arrays |= {"witness_points": witness.points, "witness_weights": witness.weights}
    value = 0.0 if math.isnan(proof.value) else proof.value
    content = {
        "problem": name,
        **{_KEYS.get(key, key): _plain(getattr(problem, key)) for key in known},
        **numbers,
        "claim": {"kind": proof.kind, "gap": proof.gap, "value": value},
    }
    folder.mkdir(parents=True, exist_ok=True)
    content["files"], missing = _write(folder, arrays, large)
    text = json.dumps(content, indent=1, allow_nan=False)
    (folder / "certificate.json").write_text(text + "\n", encoding="utf-8")
    if not missing:
        _confirm(folder)
    return folder


_FUNCTIONS = check.LOSSES | check.PRICES
# A loss goes by one name.
_KEYS = {"cost": "loss"}


def _plain(value: Any) -> Any:
    """A parameter as JSON: numbers, words, and losses and prices by their type."""
    if isinstance(value, float) and not math.isfinite(value):
        raise CertificateError("p = inf is not among what the checking program knows; take a finite p.")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value).__name__ not in _FUNCTIONS or type(value).__module__.split(".")[0] != "convexrank":
        raise CertificateError(
            f"{value!r} is not among the losses and prices that the checking program knows: "
            f"{', '.join(_FUNCTIONS)}."
        )
    return {"type": type(value).__name__, **asdict(value)}


def _linear(problem: Any, x: Array) -> tuple[dict[str, Array], dict[str, Any]]:
    penalty = problem.penalty
    if isinstance(problem.X, Design):
        raise CertificateError(
            "designs are not exported; state the problem with design.tocsr(), and export that."
        )
    features = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    rows, names = len(features), {field.name for field in fields(problem)}
    weights = problem.sample_weight if "sample_weight" in names else None
    labels = np.asarray(problem.y, dtype=np.float64)
    if hasattr(problem, "positives"):  # labels may be called anything
        labels = np.zeros(rows)
        labels[problem.positives] = 1.0
    query = np.zeros(rows, dtype=np.int64)
    if hasattr(problem, "groups"):
        query = np.full(rows, -1, dtype=np.int64)  # rows of idle queries ask for no pair
        for number, (places, _) in enumerate(problem._queries()):
            query[places] = number
        labels = np.where(query < 0, 0.0, labels)
    arrays = {
        "X": features,
        "y": labels,
        "weight": np.ones(rows) if weights is None else weights,
        "query": query,
        "w": x,
    }
    numbers: dict[str, Any] = {"l2": penalty.l2, "l1": penalty.l1}
    if penalty.ball is not None:
        kind = "L1" if isinstance(penalty.ball, L1Ball) else "L2"
        numbers |= {"ball": kind, "radius": penalty.ball.radius}
    return arrays, numbers


def _graph(problem: Any, x: Array) -> tuple[dict[str, Array], dict[str, Any]]:
    graph = problem.graph
    if x.ndim != 1:
        raise CertificateError(
            "a batch of ranks is not among what the checking program knows; export one by one."
        )
    weights = np.ones(graph.m) if graph.weights is None else graph.weights
    arrays = {"offsets": graph.offsets, "sources": graph.sources, "weights": weights, "x": x}
    if type(problem).__name__ == "PageRank":
        v = problem.personalization
        arrays["teleport"] = np.ones(graph.n) if v is None else v
    return arrays, {}


def _write(folder: Path, arrays: dict[str, Array], large: int) -> tuple[dict[str, str], list[str]]:
    """Write the arrays that are not too large; return the SHA-256 of all, and the names of those left out."""
    digests, missing = {}, []
    for name, values in arrays.items():
        stored = io.BytesIO()
        np.save(stored, np.ascontiguousarray(values), allow_pickle=False)
        digests[f"{name}.npy"] = hashlib.sha256(stored.getbuffer()).hexdigest()
        if stored.getbuffer().nbytes > large:
            missing.append(f"{name}.npy")
        else:
            (folder / f"{name}.npy").write_bytes(stored.getbuffer())
    return digests, missing


def _confirm(folder: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as words:
        refused = checked(folder)
    if refused:
        raise CertificateError(f"the checking program does not confirm the claim: {words.getvalue().strip()}")


def checked(folder: Any, large: Any = ".") -> int:
    """Run the program that knows this kind of certificate, which prints its verdict; 0 is confirmed.

    Parameters
    ----------
    folder : path
        The folder.
    large : path
        The folder of the files that were too large to be included.
    """
    try:
        kind = json.loads((Path(folder) / "certificate.json").read_text(encoding="utf-8"))["claim"]["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        kind = "global"  # what cannot be read is refused by either
    return (check_ranks if kind == "distance" else check).main(folder, large)
