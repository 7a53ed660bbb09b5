"""A plain proximal gradient method in numpy: what the others should beat."""

import numpy as np
from benchopt import BaseSolver
from scipy.special import softmax


class Solver(BaseSolver):
    """Steps of one over a bound on the curvature; the bound is doubled where a step shows that it is too small."""

    name = "proximal-gradient"
    requirements = ["scipy"]  # noqa: RUF012
    sampling_strategy = "callback"

    def set_objective(self, X, y, p, l1):
        """Keep the data."""
        self.X, self.positive, self.p, self.l1 = X, np.asarray(y) == 1, p, l1
        self.w = np.zeros(X.shape[1])

    def run(self, callback):
        """Step from zero until the callback has seen enough."""
        self.w, curvature = np.zeros(self.X.shape[1]), 1.0
        value, gradient = self._smooth_part(self.w)
        while callback():
            while True:
                moved = self.w - gradient / curvature
                w = np.sign(moved) * np.maximum(np.abs(moved) - self.l1 / curvature, 0.0)
                step = w - self.w
                new, slope = self._smooth_part(w)
                rounding = 1e-14 * max(abs(value), 1.0)
                if new <= value + gradient @ step + 0.5 * curvature * step @ step + rounding:
                    break
                curvature *= 2.0
            self.w, value, gradient = w, new, slope
            curvature *= 0.9  # a bound that was needed once need not stay

    def _smooth_part(self, w):
        scores = self.X @ w
        up, down = -scores[self.positive], self.p * scores[~self.positive]
        weights, value = np.empty(len(scores)), 0.0
        for rows, exponents, factor in ((self.positive, up, -1.0), (~self.positive, down, 1.0)):
            top = exponents.max()
            value += (top + np.log(np.mean(np.exp(exponents - top)))) / (1.0 if factor < 0 else self.p)
            weights[rows] = factor * softmax(exponents)
        return value, self.X.T @ weights

    def get_result(self):
        """Return the weights."""
        return {"w": self.w}
