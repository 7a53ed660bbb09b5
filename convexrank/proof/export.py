"""A certificate as a folder of plain files, which an independent program checks: :mod:`convexrank.proof.check`."""

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

from convexrank.backend.design import held_as
from convexrank.core.results import Certificate, CertificateError, Witness
from convexrank.data import as_groups
from convexrank.proof import check
from convexrank.regularizers import L1Ball

__all__ = ["export"]

Array = np.ndarray

# Fields of certificate.json that do not bear the name of the parameter.
_KEYS = {"cost": "loss"}
# A gap of exactly 0 is not seen in balls; less than this is claimed as this.
_LEAST = 1e-60
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
    if name not in check.PROBLEMS:
        raise CertificateError(
            f"{name} is not among the formulations that the checking program knows: {', '.join(check.PROBLEMS)}."
        )
    if proof.kind != (expected := "distance" if name in check.RANKS else "global"):
        raise CertificateError(
            f"the bound is of kind {proof.kind!r}; of {name} only {expected!r} is checked."
        )
    arrays, numbers = (_linear if proof.kind == "global" else _graph)(problem, x)
    if witness is not None and proof.kind == "global":
        arrays |= {"witness_points": witness.points, "witness_weights": witness.weights}
    value = 0.0 if math.isnan(proof.value) else proof.value
    content = {
        "problem": name,
        **{_KEYS.get(key, key): _plain(getattr(problem, key)) for key in _parameters(problem)},
        **numbers,
        "claim": {"kind": proof.kind, "gap": max(proof.gap, _LEAST), "value": value},
    }
    folder.mkdir(parents=True, exist_ok=True)
    content["files"], missing = _write(folder, arrays, large)
    text = json.dumps(content, indent=1, allow_nan=False)
    (folder / "certificate.json").write_text(text + "\n", encoding="utf-8")
    if not missing:
        _confirm(folder)
    return folder


_FUNCTIONS = check.LOSSES | check.PRICES | check.SPECTRA


def _parameters(problem: Any) -> list[str]:
    """The parameters that the checking program reads; it has the penalties and the data from elsewhere."""
    asked = check.PROBLEMS[type(problem).__name__].keys() - check.LINEAR.keys()
    return [field.name for field in fields(problem) if _KEYS.get(field.name, field.name) in asked]


def _plain(value: Any) -> Any:
    """A parameter as JSON: numbers, words, and losses and prices by their type."""
    if isinstance(value, float) and not math.isfinite(value):
        raise CertificateError("p = inf is not among what the checking program knows; take a finite p.")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        raise CertificateError(
            "a distribution for dangling nodes is not among what the checking program knows; give each dangling node "
            "links of these weights, and export that."
        )
    if type(value).__name__ not in _FUNCTIONS or type(value).__module__.split(".")[0] != "convexrank":
        raise CertificateError(
            f"{value!r} is not among the losses and prices that the checking program knows: "
            f"{', '.join(_FUNCTIONS)}."
        )
    return {"type": type(value).__name__, **asdict(value)}


def _linear(problem: Any, x: Array) -> tuple[dict[str, Array], dict[str, Any]]:
    penalty = problem.penalty
    if not held_as(problem.X).built:
        raise CertificateError(
            "designs are not exported; state the problem with design.tocsr(), and export that."
        )
    features = problem.X.toarray() if sparse.issparse(problem.X) else problem.X
    rows, names = len(features), {field.name for field in fields(problem)}
    weights = problem.sample_weight if "sample_weight" in names else None
    if hasattr(problem, "positives"):  # labels may be called anything
        labels = np.zeros(rows)
        labels[problem.positives] = 1.0
    else:
        labels = np.asarray(problem.y, dtype=np.float64)
    qid = getattr(problem, "qid", None)
    if qid is not None and type(problem).__name__ not in check.QUERIES:
        raise CertificateError(
            f"{type(problem).__name__} by query is not among what the checking program knows; export each query alone."
        )
    groups = as_groups(qid, rows)
    arrays = {
        "X": features,
        "y": labels,
        "weight": np.ones(rows) if weights is None else weights,
        "query": groups.spread(groups.query),
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
    if hasattr(problem, "personalization"):
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
        refused = check.main(folder)
    if refused:
        raise CertificateError(f"the checking program does not confirm the claim: {words.getvalue().strip()}")
