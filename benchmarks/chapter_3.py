"""What the dissertation prints in its chapter 3: Tables 3.3 to 3.6, means over five folds. Table 3.2 is on MQ2007."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PRINTED", "Printed"]


@dataclass(frozen=True)
class Printed:
    """One entry of the printed tables, as text, digits as printed; empty where nothing is printed."""

    table: str
    map: str = ""
    ndcg: str = ""
    err: str = ""


def _mr(table: str, kind: str, entries: dict[str, tuple[str, str, str]]) -> dict[tuple[str, str], Printed]:
    return {(kind, name): Printed(table, *entry) for name, entry in entries.items()}


# (kind of method, divergence) → entry. MEMR is printed once for each divergence, by NDCG only; (3.17) is normalised.
PRINTED: dict[str, dict[tuple[str, str], Printed]] = {
    "MQ2008": {
        **_mr(
            "3.3",
            "MR",
            {
                "I": (".6439", ".7339", ".4137"),
                "squared": (".6532", ".7398", ".41559"),
                "KL": (".6571", ".7451", ".4238"),
            },
        ),
        **_mr(
            "3.3",
            "MR, normalised",
            {
                "I": (".6449", ".7346", ".4144"),
                "squared": (".6549", ".7396", ".41392"),
                "KL": (".6461", ".7330", ".4085"),
            },
        ),
        **_mr(
            "3.3",
            "baseline",
            {
                "I": (".4513", ".5892", ".2724"),
                "squared": (".6428", ".7344", ".40978"),
                "KL": (".6530", ".7399", ".4132"),
            },
        ),
        **_mr(
            "3.5",
            "MEMR, normalised",
            {"I": ("", ".7418", ""), "squared": ("", ".7619", ""), "KL": ("", ".7553", "")},
        ),
    },
    "OHSUMED": {
        **_mr(
            "3.4",
            "MR",
            {
                "I": (".4537", ".7000", ".5657"),
                "squared": (".4417", ".6878", ".5410"),
                "KL": (".4531", ".6997", ".5410"),
            },
        ),
        **_mr(
            "3.4",
            "MR, normalised",
            {
                "I": (".4463", ".6935", ".5796"),
                "squared": (".4394", ".6798", ".5093"),
                "KL": (".4506", ".6916", ".5093"),
            },
        ),
        **_mr(
            "3.4",
            "baseline",
            {
                "I": (".3421", ".5805", ".2255"),
                "squared": (".4465", ".6892", ".5450"),
                "KL": (".4524", ".6947", ".5467"),
            },
        ),
        **_mr(
            "3.6",
            "MEMR, normalised",
            {"I": ("", ".6983", ""), "squared": ("", ".7250", ""), "KL": ("", ".6944", "")},
        ),
    },
}
