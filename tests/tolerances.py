"""Every tolerance of the test suite, each with its reason. No test holds a tolerance of its own."""

from __future__ import annotations

TOLERANCES: dict[str, float] = {
    # Sums over rows in pieces against sums over all rows: rounding of a few hundred terms of size ten.
    "pieces": 1e-12,
    # A slope at a minimiser whose gap is 1e-12, against l1: the root of that, times a curvature.
    "slope at the minimiser": 1e-5,
    # Minimisers of both, stopped where gaps of 1e-13 are: the root of that over the curvature, in practice far less.
    "minimiser in pieces": 1e-9,
    # Sums over the same pieces in another grouping, and minimisers by the same steps where curvature is 0.3 or more.
    "ranks": 1e-12,
    # A proof of 19 020 rows takes 0.16 to 0.24 s on a busy machine; it was to take 0.3 s.
    "seconds of a proof": 0.6,
    # A proof over nine million pairs takes 0.4 s on a quiet machine, pair by pair it would take a minute.
    "seconds of a sum": 5.0,
    # The value of a degenerate conic model, solved for at a point; the wrong answer is off by 1.2e-7.
    "degenerate model": 5e-8,
    # The radius of a sum of hundreds of terms of size 10 at 128 bits, 39 digits.
    "128 bits": 1e-30,
    # Differences over four places, 1e-3 apart, of minimisers whose gap is 1e-14 or rounding: the root of it, over 1e-3.
    "derivative of a solve": 1e-4,
    # A minimum under constraints against one by hand, where Clarabel does not always reach the 1e-10 asked for.
    "constrained exact": 1e-7,
    # Differences 0.02 apart of exact solves, each right to the root of 1e-8 at best.
    "derivative of exact solves": 1e-2,
    # Two searches for the l2 of least held-out loss, by slopes and by values; and where, as the loss is flat there.
    "least held-out loss": 1e-7,
    "where a loss is least": 1e-2,
    # Second derivatives where shares of upper rows move apart from multipliers: 2 % of the largest in 141 random risks.
    "shares apart": 0.05,
    # A central difference with step 1e-5: truncation 1e-10 times a third derivative, rounding 1e-16 / 1e-5.
    "central difference": 1e-5,
    # Two solvers, each certified to 1e-8 (fast) or about 1e-6 (conic).
    "two solvers": 2e-6,
    # Two unknowns, a residual of 1e-10 in the value and a curvature near 1: the root of it, and a conic solver's.
    "small problems": 3e-5,
    # A certificate that searches its own evidence stops at a gap of 1e-9, or where a conic solver's digits end.
    "certificate found anew": 1e-6,
    # float32 data: 24 bits, times the condition of a sum of exponentials.
    "single precision": 1e-4,
    # An offset of the features is a cancellation of leading digits.
    "offset": 1e-8,
    # A gap is the square of a slope: one of 1e-8, whose rounding is 1e-15, in another order of sums.
    "gap in a block": 1e-6,
    # Products and sums of four numbers that are not negative, relative.
    "rank by elimination": 1e-14,
    # Sums of at most a few thousand terms in float64, computed in another order.
    "summation": 1e-10,
    # Mean squared standard error of the ranking risk against its variance over 1500 samples of 150 rows: the
    # variance is known to 4 %, the neglected second-order term adds a few per cent.
    "monte_carlo_variance": 0.15,
    # Coverage of 95 % intervals over 1500 samples has standard deviation 0.6 %; three and a half of them.
    "monte_carlo_coverage": 0.02,
    # Power of a test from 100 000 draws: its standard deviation is at most .0016; six of them.
    "monte_carlo_power": 0.01,
    # A quotient of differences with step 1e-6 of sums over 40 x 40 cells, whose kinks are between cells.
    "slope of a width": 0.02,
    "small slope of a width": 1e-4,
    # An upper bound of a mean on a grid of its roots that is seven times as coarse as that of the lower bound.
    "coarse grid of means": 0.01,
    # Thirty-two halvings of an interval of length 1, against a loop.
    "halved mean": 1e-6,
    # Bounds from systems of groups that are drawn anew: their spread is about a tenth of the width of .2.
    "drawn groups": 0.03,
    # The README example: fast and exact both stop near 1e-8; the conic solver's value is looser than its stop.
    "readme": 1e-6,
    # Steps of boosting against pairwise sums: both root searches stop at rounding, which curvature magnifies.
    "boosting_rounds": 1e-9,
    # Boosting against Newton: both certified to boosting_rounds, on values of size about 1.
    "boosting_optimum": 3e-9,
    # Step of central differences of a slope, and what they may be off by: rounding 1e-10, truncation p²·1e-10.
    "difference_step": 1e-5,
    # A printed table with relative noise of 1e-4 added, mean of three: four standard deviations.
    "printed_digits": 2.5e-4,
    # Shipped results with four digits, computed anew: half a unit of each, and rounding of the fit.
    "shipped to four digits": 1.5e-4,
    # The same with three digits, in per cent.
    "shipped digits": 1e-3,
    # Rates of a curve over 13 000 rows and its largest change, shipped with four digits: a few rows at a near-tie.
    "shipped curves": 1e-3,
    # One node of 799 on the other side of a threshold, in per cent.
    "one node of 799": 0.13,
    # One elementary function in float64, by two implementations: a few units in the last place, times a small
    # condition number.
    "atoms": 1e-13,
    # Growth of the slopes between neighbours on a grid: rounding of the values over the spacing.
    "finite differences": 1e-8,
    # A jump of the slope over 2e-6: a smooth function of the tables changes its slope by less than a tenth of this.
    "kink": 1e-3,
    # A small cone program asked for 1e-9: its value, and its point (the square root of that, for a curvature of 1).
    "conic": 1e-7,
    "conic point": 5e-5,
    # The value of a small model with auxiliary variables, by Clarabel asked for 1e-12.
    "conic value": 1e-9,
    # Two regressions that feed each other stop at rounding, magnified by 1/(1 - s/l) where s/l is near 1.
    "fixed point": 1e-12,
    # A modulus of 1e±7 in place of none changes values of size 10 by about that much of the squares.
    "limit of a modulus": 1e-4,
    # A learned link at a score against the slope of the risk: rounding of sums, times its slope.
    "fitted values": 1e-9,
    # Two fits that agree in theory, each with a residual of 1e-10, times the condition of 80 rows with l2 = 1e-4.
    "fixed points": 1e-6,
    # The same at the default tolerance of 1e-6, in mean squared errors.
    "cross-validation": 1e-3,
    # A conjugate over nodes 0.1 apart in place of all scores: slope 2.5 · 0.1² / 8.
    "links on a grid": 3e-3,
    # φ by its values on a grid of 150 points of [0, 1]: φ* is off by l/8 of the squared spacing.
    "grid of an interval": 1e-4,
    # A projection in closed form against its optimality condition; membership itself is decided to 1e-9.
    "projection": 1e-8,
    # networkx stops at a change of 1e-15 a node, which leaves alpha / (1 - alpha) times that on every node.
    "networkx": 1e-10,
    # A feasibility problem solved to 1e-8 in the root mean square, against its boundary: times √n and a slope.
    "boundary": 1e-7,
    # Points of two solvers whose gaps are 1e-12: the root of that over l2, times the size of the features.
    "two points": 1e-5,
    # A direction found by linear programming ranks small integers by at least this, or ties them up to it.
    "separation": 1e-9,
    # Exact projections of values of size 10: sums of tens of terms, in another order.
    "projection kernels": 1e-11,
    # Linear equations for at most sixty intervals, with a condition number of some hundreds.
    "overlapping blocks": 1e-11,
    # Optimality conditions of a projection: forces add up over thousands of entries, against the largest entry.
    "optimality conditions": 1e-9,
    # What a bug of size 1e-6 must show at least.
    "planted bug": 1e-8,
    # Compiled kernel against pure JAX.
    "two implementations": 1e-10,
    # A maximiser on the simplex after a shift of 7: one equation solved to rounding, of numbers of size 100.
    "restricted point": 1e-11,
    # Hundreds of rounds of play, or a solve to 1e-10, against the same by another way.
    "play": 1e-9,
    # First-order optimality of a KL projection: sums of logarithms of shares, to rounding times their spread.
    "consensus projection": 1e-10,
    # The point of such a projection: the root of that.
    "consensus point": 1e-5,
    # The last constraint of a cutting plane method, whose programs are solved to 1e-8.
    "cutting planes": 1e-8,
    # An end of an interval by HiGHS, asked for 1e-10.
    "linear program": 1e-8,
    # Step of central differences of a piecewise linear function, and what they may be off by: rounding over the step.
    "projection step": 1e-6,
    "projection slope": 1e-8,
    # The same numbers in another form: sums in another order, iterations that stop at a gap of 1e-8.
    "same numbers": 1e-6,
    # DeLong's variance from rank sums against a double loop over pairs: sums of tens of terms in another order.
    "DeLong": 1e-10,
    # A derivative in a weight by a central difference with step 1e-6: rounding 1e-16 / 1e-6, truncation 1e-12.
    "influence": 1e-8,
    # A root of Chernoff's bound by bisection to the last float, put back into the bound: rounding times the slope.
    "Chernoff": 1e-9,
    # Probabilities of all samples added up.
    "enumeration": 1e-9,
    # The point of a sequential quadratic program that stops at 1e-9 of the value, for a curvature of 0.1.
    "joint programs": 1e-3,
    # Shares of a row and of its query, which add up to one: rounding of a few divisions.
    "same numbers in conjugates": 1e-13,
    # One risk by two declarations: sums of tens of terms in another order.
    "declared twice": 1e-12,
    # A slope at 5000 times some scores: what log-sum-exps are off their asymptote by there falls like 1/t².
    "recession": 1e-5,
    # Four digits of a table, of risks at a minimiser whose scores are known to 1e-4 of their size.
    "printed bounds": 3e-4,
}


def tolerance(name: str) -> float:
    """Look a tolerance up; an unknown name is an error, not a default."""
    return TOLERANCES[name]
