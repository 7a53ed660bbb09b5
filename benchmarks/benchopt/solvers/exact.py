"""The model in cvxpy, by a conic solver: one point, for reference."""

import numpy as np
from benchopt import BaseSolver
from scipy import sparse


class Solver(BaseSolver):
    """Two log-sum-exps, a norm, and Clarabel."""

    name = "cvxpy-clarabel"
    requirements = ["pip::cvxpy", "pip::clarabel"]  # noqa: RUF012
    sampling_strategy = "run_once"
    most = 1_000_000

    def skip(self, X, y, p, l1):
        """Leave out what takes a conic solver too long."""
        size = X.nnz if sparse.issparse(X) else X.size
        return (
            (size > self.most, f"{size} entries, more than {self.most}")
            if size > self.most
            else (False, None)
        )

    def set_objective(self, X, y, p, l1):
        """State the model."""
        import cvxpy as cp

        positive, self.w = np.asarray(y) == 1, cp.Variable(X.shape[1])
        up, down = -(X[positive] @ self.w), p * (X[~positive] @ self.w)
        value = cp.log_sum_exp(up) - np.log(up.size) + (cp.log_sum_exp(down) - np.log(down.size)) / p
        self.model = cp.Problem(cp.Minimize(value + l1 * cp.norm1(self.w)))

    def run(self, _):
        """Solve."""
        self.model.solve(solver="CLARABEL")

    def get_result(self):
        """Return the weights."""
        return {"w": self.w.value}
