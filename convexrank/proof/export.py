"""A certificate as a folder of plain files, which an independent program checks: :mod:`convexrank.proof.check`."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from convexrank.backend.design import held_as, unpacked
from convexrank.core.capabilities import Solvable
from convexrank.core.minorants import InBalls
from convexrank.core.results import Certificate, CertificateError, Witness
from convexrank.data import as_groups
from convexrank.data.fields import parameters_of
from convexrank.modelling.groups import Groups
from convexrank.modelling.program import Program
from convexrank.proof import check
from convexrank.proof.linear import within_l1
from convexrank.proof.written import WrittenRisk
from convexrank.regularizers import L1Ball

__all__ = ["export"]

Array = np.ndarray

# A gap of exactly 0 is not seen in balls; less than this is claimed as this.
_LEAST = 1e-60
# Files of more bytes than this are left out, their SHA-256 is written all the same.
_LARGE = 100_000_000


def export(
    problem: Solvable,
    x: Array,
    proof: Certificate,
    path: Any,
    witness: Witness | None = None,
    large: int = _LARGE,
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
        For risks with functions of one's own, or that are no expression, and if the checking program does not confirm
        the claim.
    """
    folder, expected = Path(path), "distance" if _name(problem) in check.RANKS else "global"
    if (folder / "certificate.json").exists():
        raise CertificateError(f"path is {folder}, which holds a certificate already; give another folder.")
    content, arrays = (_ranks if expected == "distance" else _linear)(problem, x)
    if proof.kind != expected:
        raise CertificateError(
            f"the bound is of kind {proof.kind!r}; of {_name(problem)} only {expected!r} is checked."
        )
    gap = proof.gap
    if expected == "global" and (penalty := problem.face(InBalls).risk.penalty).l1 and not penalty.bounded:
        witness, gap = within_l1(problem, x, witness, gap)
    if witness is not None and expected == "global":
        arrays |= {"witness_points": witness.points, "witness_weights": witness.weights}
    value = 0.0 if math.isnan(proof.value) else proof.value
    content["claim"] = {"kind": proof.kind, "gap": max(gap, _LEAST), "value": value}
    folder.mkdir(parents=True, exist_ok=True)
    content["files"], missing = _write(folder, arrays, large)
    text = json.dumps(content, indent=1, allow_nan=False)
    (folder / "certificate.json").write_text(text + "\n", encoding="utf-8")
    if not missing:
        _confirm(folder)
    return folder


def _name(problem: object) -> str:
    return type(problem).__name__


def _linear(problem: Solvable, x: Array) -> tuple[dict[str, Any], dict[str, Array]]:
    """The risk atom by atom, the penalty, and the data."""
    program = getattr(problem, "program", None)
    if not isinstance(program, Program):
        raise CertificateError(
            f"{_name(problem)} is no expression of scores, which is what the checking programs know, beside "
            f"{' and '.join(check.RANKS)}."
        )
    given = problem.face(InBalls)
    if not held_as(given.X).built:
        raise CertificateError(
            "designs are not exported; state the problem with design.tocsr(), and export that."
        )
    penalty, features, groups = given.risk.penalty, unpacked(given.X), getattr(problem, "_groups", None)
    rows = _rows(groups, getattr(problem, "qid", None), program, len(features))
    arrays = {"X": features, **rows, "w": x}
    risk = WrittenRisk(program, groups, arrays["y"])
    content: dict[str, Any] = {"risk": risk.atoms(), "l2": penalty.l2, "l1": penalty.l1}
    if penalty.ball is not None:
        kind = "L1" if isinstance(penalty.ball, L1Ball) else "L2"
        content |= {"ball": kind, "radius": penalty.ball.radius}
    return content, arrays | risk.arrays


def _rows(groups: Any, qid: Any, program: Program, rows: int) -> dict[str, Array]:
    """Label, weight and query of each row; labels are 1 of positives, or grades. Rows without an order have 0."""
    y, weight, queries = np.zeros(rows), np.ones(rows), np.zeros(rows, dtype=np.int64)
    if isinstance(groups, Groups):
        names = {leaf.axis.name for _, leaf in program.leaves}
        if "rows" in names and groups.y.dtype.kind in "iufb":
            y = np.asarray(groups.y, dtype=np.float64)
        if names & {"positive", "negative"}:  # labels may be called anything
            y = np.zeros(rows)
            y[groups.positive.axis.rows] = 1.0
        weight = weight if groups.all_weights is None else groups.all_weights
        of_queries = as_groups(qid, rows)
        queries = of_queries.spread(of_queries.query)
    return {"y": y, "weight": weight, "query": queries}


def _ranks(problem: Solvable, x: Array) -> tuple[dict[str, Any], dict[str, Array]]:
    """The parameters of a formulation on a graph, and the graph."""
    name, given = _name(problem), {key: getattr(problem, key) for key in parameters_of(problem)}
    content = {"problem": name, **{key: _plain(given[key]) for key in check.RANKS[name]}}
    return content, _graph(given, x)


def _plain(value: Any) -> Any:
    """A parameter as JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        raise CertificateError("p = inf is not among what the checking programs know; take a finite p.")
    if isinstance(value, np.ndarray):
        raise CertificateError(
            "a distribution for dangling nodes is not among what the checking programs know; give each dangling node "
            "links of these weights, and export that."
        )
    return value


def _graph(given: dict[str, Any], x: Array) -> dict[str, Array]:
    graph = given["graph"]
    if x.ndim != 1:
        raise CertificateError(
            "a batch of ranks is not among what the checking programs know; export one by one."
        )
    weights = np.ones(graph.m) if graph.weights is None else graph.weights
    arrays = {"offsets": graph.offsets, "sources": graph.sources, "weights": weights, "x": x}
    if "personalization" in given:
        v = given["personalization"]
        arrays["teleport"] = np.ones(graph.n) if v is None else v
    return arrays


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
