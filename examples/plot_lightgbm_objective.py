r"""
A retargeting loss as LightGBM's objective
==========================================

Gradient boosting needs only a gradient and a curvature per row from an objective. So a loss by query from
:mod:`convexrank.jax_losses` can train LightGBM's trees, with the groups that LightGBM's data sets have.
"""

# %%
# The data
# --------
# One hundred and twenty queries of ten documents; the grade depends on products of features.
import jax
import lightgbm
import matplotlib.pyplot as plt
import numpy as np

import convexrank as cr
from convexrank.data import QueryGroups
from convexrank.jax_losses import margin_retargeting, numbered, retargeting

rng = np.random.default_rng(0)
X, sizes = rng.normal(size=(1200, 5)), np.full(120, 10)
worth = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.normal(size=1200)
y = np.digitize(worth, [0.2, 1.2]).astype(float)
qid = np.repeat(np.arange(120), sizes)
learn = qid < 80


# %%
# The objective
# -------------
# LightGBM passes its scores and the data set; :class:`~convexrank.data.QueryGroups` reads the sizes of the groups. The
# loss with margins is convex, and its gradient in the scores of a query has the Lipschitz constant :math:`c_i`, one
# over the number of rows. With that constant as curvature no step is too long. LightGBM divides by curvatures, so the
# common factor cancels and both may omit it: ``normalize=False`` and ones.
def objective(loss):
    """Return the loss in the form that LightGBM requires."""
    slope = jax.jit(jax.grad(lambda s, g, q, m: loss(s, g, q, m, normalize=False)), static_argnums=3)

    def slopes_and_curvatures(scores, data):
        query, queries = numbered(QueryGroups.from_sizes(np.asarray(data.get_group(), dtype=int)))
        found = slope(np.asarray(scores), data.get_label(), query, queries)
        return np.asarray(found, dtype=float), np.ones(len(scores))

    return slopes_and_curvatures


# %%
# Training
# --------
# All losses train the same trees; LightGBM's own LambdaRank is the comparison. Retargeting without margins does not
# learn at all: boosting starts at scores of zero, the trivial global minimum of that loss, where its gradient is zero.
options = {
    "learning_rate": 0.1,
    "num_leaves": 8,
    "min_data_in_leaf": 20,
    "num_threads": 1,
    "verbosity": -1,
    "seed": 0,
}
objectives = {
    "retargeting with margins": objective(margin_retargeting),
    "retargeting, KL, no margins": objective(retargeting),
    "lambdarank": "lambdarank",
}
rounds, ways = 150, {}
for name, chosen in objectives.items():
    data = lightgbm.Dataset(X[learn], y[learn], group=sizes[:80])
    trees = lightgbm.train({**options, "objective": chosen}, data, num_boost_round=rounds)
    ways[name] = [
        cr.metrics.ndcg(y[~learn], trees.predict(X[~learn], num_iteration=k), qid[~learn], k=5)
        for k in range(1, rounds + 1, 5)
    ]
linear = cr.problems.MarginRetargeting(X[learn], y[learn], qid[learn], margin=1.0, l2=1e-3).solve()
level = cr.metrics.ndcg(y[~learn], X[~learn] @ linear.x, qid[~learn], k=5)
for name, way in {**ways, "linear, with margins": [level]}.items():
    print(f"{name:30} NDCG at 5 on held out queries {way[-1]:.3f}")

# %%
# The figure
# ----------
# Ties count as their average, so equal scores have the NDCG of a random order.
figure, panel = plt.subplots(figsize=(6.6, 4.0), layout="constrained")
for (name, way), color in zip(ways.items(), ("#009e73", "#0072b2", "#e69f00"), strict=True):
    panel.plot(range(1, rounds + 1, 5), way, label=name, color=color)
panel.axhline(level, color="0.5", linestyle="--", label="linear, with margins")
panel.set(xlabel="trees", ylabel="NDCG at 5, held out")
panel.legend()
plt.show()
