"""Pieces of Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convexrank.data.chunks.pieces import Raw
from convexrank.data.chunks.sources import rows_at_once, states_of


def parquet_files(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files, those of folders in the order of their names."""
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            inside = sorted(str(file) for file in Path(path).rglob("*.parquet"))
            if not inside:
                raise ValueError(f"{path} is a folder without files named *.parquet; pass the files.")
            found += inside
        else:
            found.append(path)
    return tuple(found)


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "Parquet files are read by pyarrow, which is not installed; it comes with the extra 'arrow'."
        ) from error
    return parquet


@dataclass(frozen=True, eq=False)
class Parquet:
    """Batches of Parquet files, some columns of which are the features."""

    files: tuple[str, ...]
    y: str
    qid: str | None
    columns: tuple[str, ...] | None
    rows: int | None

    def _features(self, file: Any, name: str) -> tuple[str, ...]:
        held = file.schema_arrow.names
        others = {self.y, self.qid}
        columns = self.columns or tuple(column for column in held if column not in others)
        lacking = [
            column for column in (*columns, self.y, self.qid) if column is not None and column not in held
        ]
        if lacking:
            raise ValueError(
                f"{name} has no column {lacking[0]!r}; it has {', '.join(map(repr, held[:20]))}."
            )
        return columns

    def pieces(self, labels: bool) -> Iterator[Raw]:
        """Read a file after the other, some rows at a time, and no other columns than those that are asked for.

        Yields
        ------
        Raw
            A batch.
        """
        first: tuple[str, ...] | None = None
        for name in self.files:
            with _parquet().ParquetFile(name) as file:
                features = self._features(file, name)
                if first is not None and features != first:
                    odd = sorted(set(features) ^ set(first)) or ["their order"]
                    raise ValueError(
                        f"{name} has other columns than {self.files[0]}: {', '.join(odd[:5])}; name those that are "
                        "features in columns=."
                    )
                _check_numbers(file.schema_arrow, features, name)
                first, start = features, 0
                others = [column for column in (self.y, self.qid) if labels and column is not None]
                step = rows_at_once(len(features), self.rows)
                for batch in file.iter_batches(batch_size=step, columns=[*features, *others]):
                    X = _matrix(batch, features, name)
                    y, qid = (_column(batch, one) if one in others else None for one in (self.y, self.qid))
                    yield Raw(X, y, qid, name, start)
                    start += batch.num_rows

    def state(self) -> tuple[Any, ...]:
        """Look at all files."""
        return states_of(self.files)


def _matrix(batch: Any, features: tuple[str, ...], name: str) -> np.ndarray:
    """The features of a batch; what is absent is NaN, which is refused as that."""
    X = np.empty((batch.num_rows, len(features)))
    for place, column in enumerate(features):
        values = batch.column(column).to_numpy(zero_copy_only=False)
        if values.dtype.kind not in "biuf":
            raise _no_numbers(
                column, name, batch.schema.field(column).type
            )  # truth values, some of them absent
        X[:, place] = values
    return X


def _check_numbers(schema: Any, features: tuple[str, ...], name: str) -> None:
    """Refuse other columns by the schema: a short file may hold a column of texts that fills the memory when read."""
    from pyarrow import types

    for column in features:
        kind = schema.field(column).type
        values = kind.value_type if types.is_dictionary(kind) else kind
        if not (types.is_integer(values) or types.is_floating(values) or types.is_boolean(values)):
            raise _no_numbers(column, name, kind)


def _no_numbers(column: str, name: str, kind: Any) -> ValueError:
    return ValueError(
        f"column {column!r} of {name} holds {kind} values, expected numbers; leave it out with columns=, or encode it."
    )


def _column(batch: Any, name: str) -> np.ndarray:
    return batch.column(name).to_numpy(zero_copy_only=False)
