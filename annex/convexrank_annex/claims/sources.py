"""The sources whose statements are checked."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SOURCES", "Source"]


@dataclass(frozen=True)
class Source:
    """A source of statements.

    Parameters
    ----------
    title : str
        Author and year, as on the page of references.
    part : str
        The name of its numbered parts: chapter or section; for our own statements, the chapter that they concern.
    """

    title: str
    part: str


# By the name that the command line takes; the first is the default.
SOURCES = {
    "dissertation": Source("Acharyya 2013, the dissertation", "chapter"),
    "push-2009": Source("Rudin 2009, the P-Norm Push", "section"),
    "push-2005": Source("Rudin 2005, the report on the P-Norm Push", "section"),
    "u-statistics": Source("Clémençon, Lugosi and Vayatis 2006, ranking and U-statistics", "section"),
    "partial-auc": Source("Narasimhan and Agarwal 2013 and 2017, the partial AUC", "paper"),
    "ours": Source("ours, beside the dissertation", "chapter"),
}
