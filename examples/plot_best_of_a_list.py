r"""
The best 100 of a list
======================

What each objective for two classes weighs, by the ranks of positives and negatives.
"""

# %%
# What each objective weighs
# --------------------------
# Twelve positives and twenty-four negatives, with scores as a ranker of medium quality gives them. The gradient of a
# risk with respect to the scores says how strongly each positive is pulled up, and each negative pushed down. A cell is
# the product of the two shares: for the exponential loss, which all panels with a choice use, this is the share of the
# pair in the gradient. An objective for the top is dark on the left only. Where it is dark says which positives it
# works for: the lowest of them (top), or all alike.
import inspect

import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank.problems.bipartite._base import Bipartite

rng = np.random.default_rng(3)
y = np.repeat([1, 0], [12, 24])
scores = 1.2 * y + rng.normal(size=36)
options = {
    "p": 8.0,
    "price": 2.0,
    "loss": "exponential",
    "max_fpr": 0.25,
    "spectrum": ("top", 0.25),
    "tau": 0.25,
}
family = {name: kind for name, kind in cr.problems.REGISTRY.items() if issubclass(kind, Bipartite)}


def weights(kind):
    """The shares of positives and of negatives in the gradient, the highest score first."""
    taken = {name: options[name] for name in inspect.signature(kind).parameters if name in options}
    problem = kind(scores[:, None], y, **taken)
    gradient = problem.program.value_and_gradient(scores)[1]
    parts = [gradient[np.flatnonzero(y == label)] for label in (1, 0)]
    ranked = [part[np.argsort(-scores[y == label])] for part, label in zip(parts, (1, 0), strict=True)]
    return [np.abs(part) / np.abs(part).sum() for part in ranked], taken


columns = 4
rows = -(-len(family) // columns)
figure, panels = plt.subplots(
    rows, columns, figsize=(2.9 * columns, 2.1 * rows), layout="constrained", sharex=True, sharey=True
)
for panel in panels.flat[len(family) :]:
    panel.set_visible(False)
for panel, (name, kind) in zip(panels.flat, family.items(), strict=False):
    (up, down), taken = weights(kind)
    cells = np.outer(up, down)
    # the square root, so that small weights are seen beside large ones
    panel.imshow(np.sqrt(cells / cells.max()), cmap="Blues", vmin=0, vmax=1, origin="lower", aspect="auto")
    named = {**taken, "spectrum": "top 25 %"} if "spectrum" in taken else taken
    what = [f"{key} = {value}" for key, value in named.items() if key != "loss"]
    panel.set_title(", ".join([name, *what]), fontsize=9)
    print(f"{name:<14} {down[:6].sum():4.0%} of the push on the first 6 of 24 negatives, "
          f"{up[-3:].sum():4.0%} of the pull on the last 3 of 12 positives")  # fmt: skip
for column in range(columns):
    seen = [panel for panel in panels[:, column] if panel.get_visible()]
    seen[-1].set_xlabel("rank among negatives")
    seen[-1].tick_params(labelbottom=True)
for panel in panels[:, 0]:
    panel.set_ylabel("rank among positives")
panels[0, 0].set(xticks=[0, 11, 23], xticklabels=[1, 12, 24], yticks=[0, 11], yticklabels=[1, 12])
plt.show()
