r"""
A neural scorer trained with retargeting
========================================

The losses by query are plain JAX functions of scores, grades and groups. So they train any model that JAX can
differentiate: here a small network, written out, with gradient descent and momentum.
"""

# %%
# Queries that no linear scorer ranks
# -----------------------------------
# Ninety queries of twelve documents with four features. A document is good when its first two features lie near a ring,
# whatever the third and fourth features are. A third of the queries is held out.
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank.jax_losses import list_net, margin_retargeting, numbered, retargeting

rng = np.random.default_rng(0)
X, qid = rng.normal(size=(1080, 4)), np.repeat(np.arange(90), 12)
worth = -np.abs(np.hypot(X[:, 0], X[:, 1]) - 1.2) + 0.1 * rng.normal(size=1080)
y = np.digitize(worth, [-0.6, -0.25]).astype(float)
learn = qid < 60
query, queries = numbered(qid[learn])


def ndcg(scores, rows):
    """NDCG at 5 of the chosen rows."""
    return cr.metrics.ndcg(y[rows], np.asarray(scores, dtype=float)[rows], qid[rows], k=5)


# %%
# The model and its training
# --------------------------
# One hidden layer. The loss takes all documents of a query together; each step takes all queries. ``jax.grad``
# differentiates sorting and pooling exactly.
def scores_of(parts, rows):
    """Score rows by the network."""
    return jnp.tanh(rows @ parts["in"] + parts["shift"]) @ parts["out"]


def trained(loss, rate, steps=400):
    """Train from the same start; return scores of all rows at every tenth step."""
    draw = np.random.default_rng(1)
    sizes = {"in": (4, 24), "shift": (24,), "out": (24,)}
    parts = {name: jnp.asarray(0.5 * draw.normal(size=size)) for name, size in sizes.items()}
    moving = jax.tree.map(jnp.zeros_like, parts)

    @jax.jit
    def step(parts, moving):
        slopes = jax.grad(
            lambda p: (
                loss(scores_of(p, jnp.asarray(X[learn])), jnp.asarray(y[learn]), query, queries) / queries
            )
        )(parts)
        moving = jax.tree.map(lambda m, s: 0.9 * m - rate * s, moving, slopes)
        return jax.tree.map(jnp.add, parts, moving), moving

    kept = []
    for number in range(steps + 1):
        if number % 10 == 0:
            kept.append(np.asarray(scores_of(parts, jnp.asarray(X))))
        parts, moving = step(parts, moving)
    return kept


losses = {
    "retargeting with margins": (margin_retargeting, 0.1),
    "retargeting, KL, no margins": (retargeting, 1.0),
    "ListNet": (lambda *data: list_net(*data, normalize=True), 1.0),
}
ways = {name: trained(*choice) for name, choice in losses.items()}

# %%
# For comparison, the linear scorer that minimises the same loss with margins, with a certificate.
linear = cr.problems.MarginRetargeting(X[learn], y[learn], qid[learn], margin=1.0, l2=1e-3).solve()
found = {"linear, with margins": X @ linear.x, **{name: way[-1] for name, way in ways.items()}}
print(f"{'NDCG at 5':30} {'trained on':>10} {'held out':>9}")
for name, scores in found.items():
    print(f"{name:30} {ndcg(scores, learn):10.3f} {ndcg(scores, ~learn):9.3f}")

# %%
# What happens on the way
# -----------------------
# Without margins the scores shrink: equal scores are that loss's global minimum, and nothing is gained on the way.
# With margins the scores grow again to the size of the margins. (This is not a comparison of methods: neither rates
# nor margins were tuned.)
steps = np.arange(0, 401, 10)
figure, panels = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
for (name, way), color in zip(ways.items(), ("#009e73", "#0072b2", "#e69f00"), strict=True):
    panels[0].plot(steps, [ndcg(scores, ~learn) for scores in way], label=name, color=color)
    panels[1].plot(
        steps, [np.mean([scores[qid == q].std() for q in range(90)]) for scores in way], color=color
    )
panels[0].axhline(ndcg(X @ linear.x, ~learn), color="0.5", linestyle="--", label="linear, with margins")
panels[0].set(xlabel="step", ylabel="NDCG at 5, held out")
panels[0].legend()
panels[1].set(xlabel="step", ylabel="spread of the scores of a query", yscale="log")
plt.show()
