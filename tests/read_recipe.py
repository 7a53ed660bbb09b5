"""Read and render the conda recipe by rattler-build; with a folder as argument, build it there, from conda-forge."""

from __future__ import annotations

import sys
from pathlib import Path

from rattler_build import Stage0Recipe  # in an environment of its own: pip install py-rattler-build

RECIPE = Path(__file__).resolve().parent.parent / "conda" / "recipe.yaml"


def main() -> None:
    """Print what rattler-build understands."""
    recipe = Stage0Recipe.from_file(RECIPE)
    (variant,) = recipe.render()
    made = variant.recipe
    print(f"recipe: {made.package.name} {made.package.version}, requires {', '.join(made.requirements.run)}")
    if len(sys.argv) > 1:
        print(*(result.packages for result in recipe.run_build(output_dir=sys.argv[1])))


if __name__ == "__main__":
    main()
