"""What convexrank depends on, what for, and how large it is: python docs/dependency_sizes.py.

It writes ``dependency_sizes.inc``, a table of the packages that are installed where it runs. What a package brings
along, and no earlier one did, counts with it.
"""

import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

FOR = {
    "numpy": "arrays",
    "scipy": "sparse matrices, linear programs, L-BFGS",
    "scikit-learn": "the estimators' base, folds, pipelines",
    "numba": "compiled loops: sorts, pools, graphs, pairs",
    "tqdm": "progress bars",
    "jax": "solvers on devices, derivatives of solutions, losses for other models",
    "jaxopt": "one solver, ``jaxopt-lbfgs``",
    "clarabel": "the conic solver of exact models, and of kinks with ``l1``",
    "cvxpy": "exact models",
}
# What works without the others, as tests/light_install.py shows.
LIGHT = ("numpy", "scipy", "scikit-learn", "numba", "tqdm")


def brought(name, seen):
    """Return the distributions that a package brings and that have not been seen, itself first."""
    if name in seen:
        return []
    seen.add(name)
    found = [name]
    for line in metadata.requires(name) or []:
        one = Requirement(line)
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            found += brought(one.name.lower().replace("_", "-"), seen)
    return found


def megabytes(name):
    """Return the size of the files of a distribution."""
    files = metadata.files(name) or []
    return sum(path.stat().st_size for file in files if (path := Path(str(file.locate()))).is_file()) / 1e6


def table():
    """Return the lines of the table."""
    seen, rows, whole = set(), [], {True: 0.0, False: 0.0}
    for name, purpose in FOR.items():
        others = brought(name, seen)
        sizes = {one: megabytes(one) for one in others}
        whole[name in LIGHT] += sum(sizes.values())
        large = [f"{one} {size:.0f}" for one, size in sizes.items() if one != name and size >= 10.0]
        own = sum(sizes.values())
        size = f"{own:.{0 if own >= 10.0 else 1}f} MB" + f" ({', '.join(large)})" * bool(large)
        rows.append((name, purpose, size, "yes" if name in LIGHT else "no"))
    rows.append(("all", "", f"{sum(whole.values()):.0f} MB; light: {whole[True]:.0f} MB", ""))
    place = f"{sys.platform}, Python {sys.version_info.major}.{sys.version_info.minor}"
    lines = [f".. list-table:: Sizes of the files that are installed ({place})", "   :header-rows: 1", ""]
    for row in [("package", "for", "size", "in a light install"), *rows]:
        lines += [f"   {'*' if cell is row[0] else ' '} - {cell}".rstrip() for cell in row]
    return lines


if __name__ == "__main__":
    Path(__file__).with_suffix(".inc").write_text("\n".join(table()) + "\n", encoding="utf-8")
