r"""
Monotone rankers
================

Sometimes a score must rise, or fall, with a feature. A constraint enforces this: the weights of the feature's
thresholds are kept at least 0, and the problem stays convex.
"""

# %%
# The data
# --------
# Flats are clicked or not: larger ones more often, expensive ones less often, and on some floors more often than on
# others, in no order. The 150 rows are few and noisy.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import convexrank as cr
from convexrank import metrics, plotting


def flats(rows, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "area": rng.gamma(6.0, 12.0, rows),
            "price": rng.gamma(4.0, 0.3, rows),
            "floor": rng.integers(6, size=rows),
        }
    )
    taste = np.log(X["area"] / 70) * 2 - 1.5 * X["price"] + np.where(X["floor"] == 1, -1.0, 0.3)
    return X, (taste + rng.logistic(size=rows) > -0.5).to_numpy()


X, y = flats(150, 0)
X_test, y_test = flats(5000, 1)

# %%
# Free and monotone
# -----------------
# The same l1 for both. The certificate of each is over its own class: with directions, all rising or falling functions.
l1 = 0.04
found = {}
for name, monotone in (("free", None), ("monotone", {"area": 1, "price": -1})):
    design = cr.features.Thresholds(X, monotone=monotone, categories=["floor"])
    solution = cr.problems.PNormPush(design, y, p=1, l1=l1).solve()
    found[name] = cr.shapes(solution)
    auc = [metrics.auc(*rows) for rows in ((y, design @ solution.x), (y_test, found[name].predict(X_test)))]
    print(f"{name:9s} AUC {auc[0]:.3f} on training rows, {auc[1]:.3f} on test rows; {solution.certificate}")
rises = {function.name: np.diff(function.values) for function in found["monotone"].functions[:2]}
print(
    "area never falls:",
    bool((rises["area"] >= 0).all()),
    "- price never rises:",
    bool((rises["price"] <= 0).all()),
)

# %%
# The functions
# -------------
# Above free, below monotone. The free functions follow the noise up and down.
figure, panels = plt.subplots(2, 3, figsize=(8.6, 4.8), layout="constrained")
for line, (name, shapes) in zip(panels, found.items(), strict=True):
    places = dict(zip(X.columns, line, strict=True))
    plotting.shapes(shapes, ax=[places[term.name] for term in shapes.terms])
    line[0].set_ylabel(name)
plt.show()

# %%
# A direction that the data contradict
# ------------------------------------
# A feature that may only rise where it should fall gets no weight: a constant is the best of all rising functions.
wrong = cr.features.Thresholds(X, monotone={"price": 1}, categories=["floor"])
shape = cr.shapes(cr.problems.PNormPush(wrong, y, p=1, l1=l1).solve())
print({name: round(variation, 2) for name, variation in shape.importance.items()})
