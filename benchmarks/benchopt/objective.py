"""The l1 P-Norm Push as a benchopt objective, in plain numpy: it judges all solvers and calls none of them."""

import numpy as np
from benchopt import BaseObjective
from scipy.special import logsumexp


class Objective(BaseObjective):
    """Minimise log(mean_i exp(-x_i'w)) + log(mean_k exp(p x_k'w)) / p + l1 ||w||_1 over positives i, negatives k."""

    name = "l1 P-Norm Push"
    url = "https://jmlr.org/papers/v10/rudin09b.html"
    requirements = ["scipy"]  # noqa: RUF012
    min_benchopt_version = "1.6"
    parameters = {"p": [1, 4, 16], "reg": [0.1, 0.03]}  # noqa: RUF012

    def set_data(self, X, y):
        """Keep the rows; the strength is a share of the smallest at which all weights are 0."""
        self.X, self.y, self.positive = X, y, np.asarray(y) == 1
        self.l1 = self.reg * float(np.abs(self.gradient(np.zeros(X.shape[1]))).max())

    def smooth_part(self, w):
        """Return the objective without its penalty."""
        scores = self.X @ w
        up, down = -scores[self.positive], self.p * scores[~self.positive]
        return logsumexp(up) - np.log(len(up)) + (logsumexp(down) - np.log(len(down))) / self.p

    def gradient(self, w):
        """Return its gradient: the difference of two weighted means of rows."""
        scores, weights = self.X @ w, np.empty(len(self.positive))
        for rows, factor in ((self.positive, -1.0), (~self.positive, self.p)):
            exponents = factor * scores[rows]
            weights[rows] = np.sign(factor) * np.exp(exponents - logsumexp(exponents))
        return self.X.T @ weights

    def evaluate_result(self, w):
        """Return the value, which benchopt compares, and how many weights are in use."""
        value = self.smooth_part(w) + self.l1 * np.abs(w).sum()
        return {"value": float(value), "weights in use": int(np.count_nonzero(w))}

    def get_one_result(self):
        """Return a point of the right shape."""
        return {"w": np.zeros(self.X.shape[1])}

    def get_objective(self):
        """Return what solvers are told."""
        return {"X": self.X, "y": self.y, "p": self.p, "l1": self.l1}
