"""convexrank's default for l1: working sets."""

import warnings

from benchopt import BaseSolver


class Solver(BaseSolver):
    """Each point of the curve is a solve to a certified gap."""

    name = "convexrank-working-sets"
    requirements = ["pip::convexrank"]  # noqa: RUF012
    sampling_strategy = "tolerance"

    def set_objective(self, X, y, p, l1):
        """Declare the problem."""
        import convexrank as cr

        self.problem = cr.problems.PNormPush(X, y, p=p, l1=l1)

    def warm_up(self):
        """Import what the first solve imports; benchopt does not time this."""
        self.run(1.0)

    @staticmethod
    def get_next(tolerance):
        """Ask for two digits more: tolerances that are close give the same point, which ends the curve."""
        return min(tolerance, 1.0) / 100.0

    def run(self, tolerance):
        """Solve from zero."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # benchopt asks for more digits until nothing changes
            self.w = self.problem.solve("working-sets", tol=min(max(tolerance, 1e-15), 1.0)).x

    def get_result(self):
        """Return the weights."""
        return {"w": self.w}
