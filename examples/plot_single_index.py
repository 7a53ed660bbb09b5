r"""
Regression with a learned link
==============================

Targets that rise with one combination of the features, in an unknown way:
:class:`convexrank.SingleIndexRegressor` finds the combination and the link together.
"""

# %%
# Three links
# -----------
# A sigmoid, a cube and a step, with noise of a third of the link's spread. The links are learned from 400 rows; the
# error is taken against the noiseless targets of 2000 others.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, LogisticRegression

from convexrank import SingleIndexRegressor, plotting

LINKS = {
    "sigmoid": lambda z: 1.0 / (1.0 + np.exp(-4.0 * z)),
    "cube": lambda z: z**3,
    "step": lambda z: np.where(z > 0.3, 1.0, 0.0),
}


def draw(link, rows=2400, columns=8, noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    X, direction = rng.normal(size=(rows, columns)), rng.normal(size=columns)
    clean = LINKS[link](X @ direction / np.linalg.norm(direction))
    return X, clean + noise * clean.std() * rng.normal(size=rows), clean


def logistic_then_isotonic(X, y, X_new):
    index = LogisticRegression().fit(X, y > np.median(y)).coef_[0]
    return IsotonicRegression(out_of_bounds="clip").fit(X @ index, y).predict(X_new @ index)


train, test = slice(400), slice(400, None)
figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.6), layout="constrained")
print("share of the variance not explained")
print("link      single index   linear   logistic, then isotonic")
for panel, name in zip(panels, LINKS, strict=True):
    X, y, clean = draw(name)
    model = SingleIndexRegressor().fit(X[train], y[train])
    predictions = (
        model.predict(X[test]),
        LinearRegression().fit(X[train], y[train]).predict(X[test]),
        logistic_then_isotonic(X[train], y[train], X[test]),
    )
    errors = [np.mean((predicted - clean[test]) ** 2) / clean.var() for predicted in predictions]
    print(f"{name:10}{errors[0]:12.4f}{errors[1]:9.4f}{errors[2]:12.4f}")
    plotting.link(model, X[train], y[train], ax=panel)
    panel.set_title(name)
plt.show()

# %%
# What the data leave open
# ------------------------
# With few rows the band is wide: all links inside it that pass through the knots fit as well as the drawn link. The
# band is not a confidence interval; it shows where more data would help. Strong convexity bounds the slope, and with
# it the band; outside the data only the class and the output range bound it.
X, y, _ = draw("sigmoid", rows=2400, columns=2, noise=0.0, seed=1)
figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.6), layout="constrained", sharey=True)
for panel, rows in zip(panels, (8, 20, 80), strict=True):
    model = SingleIndexRegressor("marginal", output_range=(0, 1)).fit(X[:rows], y[:rows])
    plotting.link(model, X[:rows], y[:rows], ax=panel)
    panel.set_title(f"{rows} rows")
    widths = np.diff(model.link_interval(X[test]))
    print(f"{rows:3} rows: mean width of the interval at new rows {widths.mean():.4f}")
plt.show()


# %%
# Intervals for new responses
# ---------------------------
# ``conformal_interval`` widens the prediction by a quantile of the errors on rows that fit did not see. It holds a new
# response with the probability asked for whatever the noise is: here Student's with three degrees of freedom, whose
# tails are heavy. On the right the share of new responses inside: the mean of 60 draws with fit on 80 rows, and the
# range of nine in ten of them. Few calibration rows make single draws uncertain, not the mean. ``link_interval`` holds
# few responses: it is about the link.
def heavy(seed, rows=1100):
    """Rows whose targets have heavy tails about a sigmoid."""
    X, _, clean = draw("sigmoid", rows=rows, columns=4, noise=0.0, seed=seed)
    return X, clean + 0.1 * np.random.default_rng(1000 + seed).standard_t(3, size=rows)


levels, sizes, fitted, new = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95]), (20, 200), slice(80), slice(300, None)
inside = {size: [] for size in sizes}
of_the_link = []
for seed in range(60):
    X, y = heavy(seed)
    model = SingleIndexRegressor().fit(X[fitted], y[fitted])
    for size in sizes:
        kept = slice(80, 80 + size)
        ends = [model.conformal_interval(X[new], X[kept], y[kept], level).T for level in levels]
        inside[size].append([np.mean((low <= y[new]) & (y[new] <= high)) for low, high in ends])
    low, high = model.link_interval(X[new]).T
    of_the_link.append(np.mean((low <= y[new]) & (y[new] <= high)))

figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
index = model.index(X[new])
order = np.argsort(index)
low, high = model.conformal_interval(X[new], X[80:280], y[80:280], 0.9).T
held = (low <= y[new]) & (y[new] <= high)
left.fill_between(
    index[order], low[order], high[order], color="#0072b2", alpha=0.2, linewidth=0, label="90 % interval"
)
left.plot(index[order], model.predict(X[new])[order], color="#0072b2", label="prediction")
for mask, colour, label in ((held, "0.45", "new rows inside"), (~held, "#d55e00", "new rows outside")):
    left.plot(index[mask], y[new][mask], ".", color=colour, markersize=3, label=label)
left.set(xlabel="index", ylabel="response", ylim=np.quantile(y[new], [0.002, 0.998]) + [-0.1, 0.3])
left.legend(loc="upper left", ncols=2, markerscale=3, fontsize="small")
right.plot([0, 1], [0, 1], color="0.7", linewidth=1)
for (size, shares), colour, shift in zip(
    inside.items(), ("#e69f00", "#0072b2"), (-0.006, 0.006), strict=True
):
    mean, ends = np.mean(shares, axis=0), np.quantile(shares, [0.05, 0.95], axis=0)
    right.errorbar(
        levels + shift,
        mean,
        np.abs(ends - mean),
        marker="o",
        capsize=3,
        color=colour,
        label=f"{size} calibration rows",
    )
    print(
        f"{size:3} calibration rows: inside",
        ", ".join(f"{share:.3f} at {level:g}" for level, share in zip(levels, mean, strict=True)),
    )
print(f"link_interval: inside {np.mean(of_the_link):.3f}")
right.axhline(np.mean(of_the_link), color="#d55e00", linestyle="--", label="link_interval")
right.set(xlabel="level asked for", ylabel="new responses inside", xlim=(0.47, 0.98), ylim=(0, 1.02))
right.legend(loc="center right")
for panel in (left, right):
    panel.grid(alpha=0.25)
plt.show()

# %%
# Concrete
# --------
# Compressive strength of 1030 mixtures (UCI; read from a file that is not part of the package). With the raw
# features the index is too crude for the link to help much, and the median split of the logistic regression does
# better, because outliers affect it less. With the logarithm of the age, as engineers plot it, the order changes.
import real_data  # examples/real_data.py
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler


def errors_of(X, y):
    """Root mean squared errors over five folds."""
    squares = {"single index": 0.0, "linear": 0.0, "logistic, then isotonic": 0.0}
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        scaler = StandardScaler().fit(X[train])
        A, B = scaler.transform(X[train]), scaler.transform(X[test])
        predictions = (
            SingleIndexRegressor().fit(A, y[train]).predict(B),
            LinearRegression().fit(A, y[train]).predict(B),
            logistic_then_isotonic(A, y[train], B),
        )
        for name, predicted in zip(squares, predictions, strict=True):
            squares[name] += float(np.sum((predicted - y[test]) ** 2)) / len(y)
    return {name: np.sqrt(square) for name, square in squares.items()}


try:
    X, y = real_data.concrete()
except FileNotFoundError as reason:
    print(f"not shown: {reason}")
else:
    logged = X.copy()
    logged[:, -1] = np.log(logged[:, -1])
    for title, features in (("age in days", X), ("logarithm of the age", logged)):
        print(title)
        for name, error in errors_of(features, y).items():
            print(f"   {name:26}{error:6.2f} MPa")
    scaled = StandardScaler().fit_transform(logged)
    model = SingleIndexRegressor(output_range=(0, None)).fit(scaled, y)
    panel = plotting.link(model, scaled, y)
    panel.set_ylabel("compressive strength, MPa")
    plt.show()
