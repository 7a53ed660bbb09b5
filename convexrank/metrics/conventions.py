"""Conventions of ranking measures in other packages: NDCG, MAP and precision have several definitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from convexrank.metrics.gain import expected_reciprocal_rank, ndcg
from convexrank.metrics.queries import Empty, Ties
from convexrank.metrics.top import mean_average_precision, mean_reciprocal_rank, query_precision

__all__ = ["CONVEXRANK", "LETOR3", "LETOR4", "SKLEARN", "Convention"]

_GAINS = {"exp2": "gain 2^y - 1", "linear": "gain y"}
_DISCOUNTS = {"log2": "discount 1/log2(1 + rank)", "letor": "discount 1, 1, 1/log2(rank)"}
_TIES = {
    "average": "ties averaged",
    "stable": "ties in file order",
    "worst": "ties at their worst",
    "best": "ties at their best",
    "threshold": "ties at the end of their run",
}
_SHORT = {
    "pad": "short lists padded",
    "zero": "lists shorter than k count 0",
    "length": "short lists by their length",
}


@dataclass(frozen=True)
class Convention:
    """A convention for ranking measures; its methods are the measures, and `str` describes the convention.

    Parameters
    ----------
    name : str
        Name of the convention.
    gain, discount : str
        As in `ndcg`.
    ties : str
        As in `ndcg`; for all measures but average precision.
    map_ties : str
        As in `mean_average_precision`.
    empty : {"skip", 0, 1}
        The value of a query without relevant rows; "skip" leaves it out.
    short : {"pad", "zero"}
        Treatment of a list shorter than k in NDCG.
    precision_short : {"pad", "zero", "length"}
        Treatment of a list shorter than k in precision.

    Examples
    --------
    >>> from convexrank.metrics import conventions
    >>> y, s, qid = [1, 0, 0, 2, 0], [0.3, 0.2, 0.1, 0.4, 0.5], [1, 1, 1, 2, 2]
    >>> round(conventions.SKLEARN.ndcg(y, s, qid), 4), round(conventions.LETOR4.ndcg(y, s, qid, k=3), 4)
    (0.8155, 0.5)
    >>> print(conventions.SKLEARN)
    scikit-learn: gain y, discount 1/log2(1 + rank), ties averaged, queries without relevant rows count 0, ...
    """

    name: str
    gain: Literal["exp2", "linear"] = "exp2"
    discount: Literal["log2", "letor"] = "log2"
    ties: Ties = "average"
    map_ties: Ties | Literal["threshold"] = "average"
    empty: Empty = "skip"
    short: Literal["pad", "zero"] = "pad"
    precision_short: Literal["pad", "zero", "length"] = "pad"

    def __str__(self) -> str:
        empty = "are skipped" if self.empty == "skip" else f"count {self.empty}"
        return (
            f"{self.name}: {_GAINS[self.gain]}, {_DISCOUNTS[self.discount]}, {_TIES[self.ties]}, "
            f"queries without relevant rows {empty}, {_SHORT[self.short]}"
        )

    def ndcg(self, y: Any, s: Any, qid: Any = None, k: int | None = None, *, per_query: bool = False) -> Any:
        """Return NDCG at k in this convention; see `convexrank.metrics.ndcg`."""
        return ndcg(
            y,
            s,
            qid,
            k,
            gain=self.gain,
            discount=self.discount,
            ties=self.ties,
            empty=self.empty,
            short=self.short,
            per_query=per_query,
        )

    def mean_average_precision(
        self, y: Any, s: Any, qid: Any = None, *, threshold: float = 0.0, per_query: bool = False
    ) -> Any:
        """Return MAP in this convention; see `convexrank.metrics.mean_average_precision`."""
        return mean_average_precision(
            y, s, qid, threshold=threshold, ties=self.map_ties, empty=self.empty, per_query=per_query
        )

    def precision_at(
        self, y: Any, s: Any, k: int, qid: Any = None, *, threshold: float = 0.0, per_query: bool = False
    ) -> Any:
        """Return precision at k in this convention, as a mean over queries; see `convexrank.metrics.precision_at`."""
        return query_precision(
            y, s, k, qid, self.ties, self.empty, self.precision_short, threshold, per_query
        )

    def mean_reciprocal_rank(
        self, y: Any, s: Any, qid: Any = None, *, threshold: float = 0.0, per_query: bool = False
    ) -> Any:
        """Return MRR in this convention; see `convexrank.metrics.mean_reciprocal_rank`."""
        return mean_reciprocal_rank(
            y, s, qid, threshold=threshold, ties=self.ties, empty=self.empty, per_query=per_query
        )

    def expected_reciprocal_rank(
        self,
        y: Any,
        s: Any,
        qid: Any = None,
        k: int | None = None,
        *,
        max_grade: float | None = None,
        per_query: bool = False,
    ) -> Any:
        """Return ERR at k in this convention; see `convexrank.metrics.expected_reciprocal_rank`."""
        return expected_reciprocal_rank(
            y, s, qid, k, max_grade=max_grade, ties=self.ties, empty=self.empty, per_query=per_query
        )


#: What the measures do when nothing else is asked for.
CONVEXRANK = Convention("convexrank")

#: ``sklearn.metrics.ndcg_score`` on each query, and ``average_precision_score``.
SKLEARN = Convention("scikit-learn", gain="linear", map_ties="threshold", empty=0)

#: The evaluation script of LETOR 3.0: a list shorter than k counts 0 at k.
LETOR3 = Convention(
    "LETOR 3.0",
    discount="letor",
    ties="stable",
    map_ties="stable",
    empty=0,
    short="zero",
    precision_short="zero",
)

#: The evaluation script of LETOR 4.0: as before, but precision continues short lists by irrelevant rows.
LETOR4 = replace(LETOR3, name="LETOR 4.0", precision_short="pad")
