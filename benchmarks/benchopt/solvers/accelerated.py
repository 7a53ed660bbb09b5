"""convexrank's accelerated proximal gradient method."""

import warnings

from benchopt import BaseSolver


class Solver(BaseSolver):
    """Each point of the curve is a solve with so many iterations."""

    name = "convexrank-accelerated"
    requirements = ["pip::convexrank"]  # noqa: RUF012
    sampling_strategy = "iteration"

    def set_objective(self, X, y, p, l1):
        """Declare the problem."""
        import convexrank as cr

        self.problem = cr.problems.PNormPush(X, y, p=p, l1=l1)

    def warm_up(self):
        """Import what the first solve imports; benchopt does not time this."""
        self.run(1)

    def run(self, n_iter):
        """Solve from zero."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few iterations do not reach the tolerance
            self.w = self.problem.solve("accelerated", tol=1e-15, max_iter=n_iter).x

    def get_result(self):
        """Return the weights."""
        return {"w": self.w}
