"""Ten data sets with two classes for rankers of the top: generated, shipped, and files beside the project."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from instances import data_file

__all__ = ["DATA", "UNSCALED", "WHOLE", "missing"]

_SEED = 6031


def _linear() -> tuple[Any, Any]:
    """2 % positives, by a logistic model of twenty features."""
    import numpy as np

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(6000, 20))
    score = X @ (rng.normal(size=20) * (np.arange(20) < 8)) * 0.7
    y = score + rng.logistic(size=6000)
    return X, (y > np.quantile(y, 0.98)).astype(int)


def _two_kinds() -> tuple[Any, Any]:
    """2 % positives: half stand out along one feature, half along another, along which some negatives do as well."""
    import numpy as np

    rng = np.random.default_rng(_SEED + 1)
    X = rng.normal(size=(6000, 10))
    y = np.arange(6000) < 120
    X[:60, 0] += 2.5
    X[60:120, 1] += 2.5
    X[120:600, 1] += 3.0
    return X, y.astype(int)


def _screening() -> tuple[Any, Any]:
    import convexrank as cr

    return cr.data.load_screening(return_X_y=True)


def _cancer() -> tuple[Any, Any]:
    from sklearn.datasets import load_breast_cancer

    X, benign = load_breast_cancer(return_X_y=True)
    return X, 1 - benign


def _digits() -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    return X, (digit == 8).astype(int)


def _columns(path: str, positive: Any, delimiter: str | None = ",", skip: int = 0) -> tuple[Any, Any]:
    """Read a file whose last column is the label."""
    import numpy as np

    table = np.genfromtxt(
        data_file(path), delimiter=delimiter, dtype=str, skip_header=skip, encoding="utf-8-sig"
    )
    return table[:, :-1].astype(float), np.array([positive(label) for label in table[:, -1]], dtype=int)


def _thinned(found: tuple[Any, Any], share: float) -> tuple[Any, Any]:
    """Leave out positives at random until they have a share of the rows."""
    import numpy as np

    X, y = found
    rng, negatives = np.random.default_rng(_SEED), np.flatnonzero(y == 0)
    count = round(len(negatives) * share / (1.0 - share))
    rows = np.sort(np.r_[rng.permutation(np.flatnonzero(y == 1))[:count], negatives])
    return X[rows], y[rows]


def _magic() -> tuple[Any, Any]:
    return _columns("magic04/magic04.data", lambda label: label == "g")


def _mail() -> tuple[Any, Any]:
    return _columns("spambase/spambase.data", lambda label: float(label) > 0)


def _spambase() -> tuple[Any, Any]:
    import numpy as np

    X, y = _mail()
    return np.log1p(X), y


def _concrete() -> tuple[Any, Any]:
    import numpy as np

    X, strength = _columns("concrete/Concrete_data.csv", lambda value: round(100 * float(value)), skip=1)
    return X, (strength > np.quantile(strength, 0.9)).astype(int)


# For each its rows, the file where it is not generated or shipped, and what it is.
DATA: dict[str, tuple[Callable[[], tuple[Any, Any]], str, str]] = {
    "linear": (_linear, "", "generated, logistic model"),
    "two kinds": (_two_kinds, "", "generated, half of the positives hidden"),
    "screening": (_screening, "", "shipped with the package"),
    "cancer": (_cancer, "", "breast cancer of scikit-learn, malignant"),
    "digits": (_digits, "", "digits of scikit-learn, 8 against the others"),
    "MAGIC": (lambda: _thinned(_magic(), 0.02), "magic04/magic04.data", "2 % gamma, thinned"),
    "Spambase": (
        lambda: _thinned(_spambase(), 0.05),
        "spambase/spambase.data",
        "5 % spam, thinned, logarithms",
    ),
    "Pima": (
        lambda: _columns("pima/pima-indians-diabetes.data.csv", lambda label: float(label) > 0),
        "pima/pima-indians-diabetes.data.csv",
        "diabetes",
    ),
    "ionosphere": (
        lambda: _columns("ionosphere/ionosphere.csv", lambda label: label == "b"),
        "ionosphere/ionosphere.csv",
        "bad returns",
    ),
    "concrete": (_concrete, "concrete/Concrete_data.csv", "the strongest tenth"),
}
# Tables that are thinned above, as they are published.
WHOLE: dict[str, tuple[Callable[[], tuple[Any, Any]], str, str]] = {
    "MAGIC, whole": (_magic, "magic04/magic04.data", "gamma"),
    "Spambase, whole": (_spambase, "spambase/spambase.data", "spam, logarithms"),
}
# As the scripts beside Adam et al. (2020) read them.
UNSCALED: dict[str, tuple[Callable[[], tuple[Any, Any]], str, str]] = {
    "Ionosphere": (
        lambda: _columns("ionosphere/ionosphere.csv", lambda label: label == "g"),
        "ionosphere/ionosphere.csv",
        "good returns",
    ),
    "Spambase, no logarithms": (
        _mail,
        "spambase/spambase.data",
        "spam",
    ),
}


def missing(name: str) -> str:
    """Say why a data set is left out; empty where it is there."""
    path = {**DATA, **WHOLE, **UNSCALED}[name][1]
    if not path or data_file(path).is_file():
        return ""
    return f"skipped: no {path} in ../shared/data, nor in $CONVEXRANK_DATA"
