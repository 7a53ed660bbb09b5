"""Build the conda recipe by rattler-build: from conda-forge in the folder that is named, else on stand-ins.

The stand-ins are packages of conda made here: this interpreter, pip, and hatchling. They show that the recipe is
understood, that its script installs the package from the checkout, and what the package holds; what needs its
dependencies is not run.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path

# in an environment of its own: pip install py-rattler-build hatchling
from rattler_build import Stage0Recipe, ToolConfiguration

RECIPE = Path(__file__).resolve().parent.parent / "conda" / "recipe.yaml"
_STAND_IN = "package: {{name: {name}, version: '{version}'}}\nbuild:\n  noarch: generic\n  script:\n{script}"
# hatchling, and what it imports
_HATCHLING = ("hatchling", "packaging", "pathspec", "pluggy", "trove_classifiers")


def made(recipe: Stage0Recipe, channel: Path) -> Path:
    """Build a recipe from what the channel has, into it; return the package."""
    links = ToolConfiguration(allow_symlinks_on_windows=True)
    (result,) = recipe.run_build(
        output_dir=channel, channels=[channel.as_uri()], package_format="tar.bz2", tool_config=links
    )
    return Path(result.packages[0])


def stand_ins(channel: Path) -> None:
    """Put packages into the channel that make an environment of this interpreter and its site-packages."""
    held = Path(sys.executable).resolve()
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    mine = next(Path(place) for place in sys.path if place.endswith("site-packages"))
    python = [
        "mkdir -p $PREFIX/bin $PREFIX/lib",
        *(f"ln -s {held} $PREFIX/bin/{link}" for link in ("python", name)),
        f"echo 'home = {held.parent}' > $PREFIX/pyvenv.cfg",
    ]
    packages = f"$PREFIX/lib/{name}/site-packages"
    copy = f"mkdir -p {packages} && cd {mine} && cp -r {{}} {packages}/"
    for package, script in (
        ("python", python),
        ("pip", [copy.format("pip*")]),
        ("hatchling", [copy.format(" ".join(f"{part}*" for part in _HATCHLING))]),
    ):
        version = ".".join(map(str, sys.version_info[:3])) if package == "python" else "99"
        lines = "".join(f"    - {line}\n" for line in script)
        made(
            Stage0Recipe.from_yaml(_STAND_IN.format(name=package, version=version, script=lines)),
            channel,
        )


def check(package: Path) -> None:
    """Refuse a package without the files of the package, its command, or its licence."""
    wanted = ["site-packages/convexrank/py.typed", "info/licenses/LICENSE", "info/link.json"]
    with tarfile.open(package) as files:
        if lost := [name for name in wanted if name not in files.getnames()]:
            sys.exit(f"{package.name} has no {', '.join(lost)}")
        link = json.load(files.extractfile("info/link.json"))
    if link["noarch"]["entry_points"] != ["convexrank = convexrank.cli:main"]:
        sys.exit(f"{package.name} has the commands {link['noarch']}")


def main() -> None:
    """Print what rattler-build understands, and what it builds."""
    recipe = Stage0Recipe.from_file(RECIPE)
    (variant,) = recipe.render()
    read = variant.recipe
    print(f"recipe: {read.package.name} {read.package.version}, requires {', '.join(read.requirements.run)}")
    if len(sys.argv) > 1:
        print(*(result.packages for result in recipe.run_build(output_dir=sys.argv[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        stand_ins(Path(folder))
        package = made(recipe, Path(folder))
        check(package)
        print(f"built on stand-ins: {package.name}")


if __name__ == "__main__":
    main()
