"""Every tolerance of the test suite, each with its reason. No test holds a tolerance of its own."""

from __future__ import annotations

TOLERANCES: dict[str, float] = {
    # Sums of at most a few thousand terms in float64, computed in another order.
    "summation": 1e-10,
    # Mean squared standard error of the ranking risk against its variance over 1500 samples of 150 rows: the
    # variance is known to 4 %, the neglected second-order term adds a few per cent.
    "monte_carlo_variance": 0.15,
    # Coverage of 95 % intervals over 1500 samples has standard deviation 0.6 %; three and a half of them.
    "monte_carlo_coverage": 0.02,
    # The README example: fast and exact both stop near 1e-8; the conic solver's value is looser than its stop.
    "readme": 1e-6,
}


def tolerance(name: str) -> float:
    """Look a tolerance up; an unknown name is an error, not a default."""
    return TOLERANCES[name]
