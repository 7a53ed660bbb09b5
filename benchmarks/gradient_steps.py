"""AccuracyAtTopPrimal.jl, a peer of PatMat: its objective by full gradients and Adam's steps, in plain code.

The settings are those of the scripts beside Adam, Mácha, Šmídl and Pevný (2020): Glorot's random start, no intercept,
Adam with steps of 0.01, and 0.001 |w|² beside the loss, which is l2 = 0.002. Both surrogates are the squared hinge: the
scripts take the hinge, the package's default is the square.
"""

from __future__ import annotations

from typing import Any

Array = Any

STEPS, PENALTY = 10_000, 1e-3
_RATE, _FIRST, _SECOND, _SMALL = 0.01, 0.9, 0.999, 1e-8


def threshold(scores: Array, tau: float, beta: float) -> tuple[float, Array]:
    """Return t with the mean of (1 + β(s − t))₊² equal to τ, and its gradient: Newton's method, from below."""
    import numpy as np

    t = float(np.quantile(scores, 1.0 - tau))
    for _ in range(100):
        active = np.maximum(1.0 + beta * (scores - t), 0.0)
        excess, slope = float((active**2).mean()) - tau, 2.0 * beta * float(active.mean())
        step = excess / slope
        t += step
        if abs(step) <= 1e-12 * max(1.0, abs(t)):
            break
    active = np.maximum(1.0 + beta * (scores - t), 0.0)
    return t, active / active.sum()


def value_and_gradient(
    w: Array, X: Array, y: Array, tau: float, beta: float, over: str
) -> tuple[float, Array]:
    """Return the objective of PatMat and its gradient, that of the threshold by the implicit function theorem."""
    import numpy as np

    rows = X if over == "all" else X[y <= 0]
    t, weights = threshold(rows @ w, tau, beta)
    positive = X[y > 0]
    missed = np.maximum(1.0 + t - positive @ w, 0.0)
    slopes = 2.0 * missed / len(positive)
    value = float((missed**2).mean()) + PENALTY * float(w @ w)
    return value, slopes.sum() * (weights @ rows) - slopes @ positive + 2.0 * PENALTY * w


def by_steps(X: Array, y: Array, tau: float, beta: float, over: str, seed: int, steps: int = STEPS) -> Array:
    """Return the weights after Adam's steps."""
    import numpy as np

    columns = X.shape[1]
    width = np.sqrt(6.0 / (columns + 1))
    w = np.random.default_rng(seed).uniform(-width, width, columns)
    mean, square = np.zeros(columns), np.zeros(columns)
    for step in range(1, steps + 1):
        _, gradient = value_and_gradient(w, X, y, tau, beta, over)
        mean = _FIRST * mean + (1.0 - _FIRST) * gradient
        square = _SECOND * square + (1.0 - _SECOND) * gradient**2
        size = np.sqrt(square / (1.0 - _SECOND**step)) + _SMALL
        w = w - _RATE * mean / (1.0 - _FIRST**step) / size
    return w
