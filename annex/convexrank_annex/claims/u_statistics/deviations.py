"""Clémençon, Lugosi and Vayatis 2006: empirical risk minimization and U-statistics (sections 3, 6, appendix 1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import permutations

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_most, claim, defined_in, equal
from convexrank_annex.claims.p_norm_push.two_points import binomial
from convexrank_annex.claims.u_statistics.laws import blocks, pair_mean, pairs_of_ones, samples, signs

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="u-statistics")

# Cells (x, y) = (0, −1), (0, 1), (1, −1), (1, 1); laws in which x says little of y, and much.
_X, _Y = np.array([0, 0, 1, 1]), np.array([-1, 1, -1, 1])
_LAWS = (np.array([0.3, 0.2, 0.22, 0.28]), np.array([0.4, 0.1, 0.1, 0.4]))


@lru_cache(maxsize=2)
def _outcomes(number: int) -> tuple[Array, Array, Array, Array]:
    """Samples of four: their chances, excess risk of the minimiser, sup|L_n − L|, and R_n for every sign.

    Two rules on {0, 1}: x above x' if it is smaller, if it is larger; a tie of the two is resolved for the first.
    """
    law, epsilon = _LAWS[number], signs(2)
    wins = _Y[:, None] - _Y[None, :]
    kernels = [
        (np.where(sign * _X[:, None] >= sign * _X[None, :], 1, -1) * wins < 0) * 1.0 for sign in (-1, 1)
    ]
    true = np.array([float(law @ kernel @ law) for kernel in kernels])
    rows = []
    for chance, sample in samples(law, 4):
        found = np.array([pair_mean(kernel, sample) for kernel in kernels])
        chaos = np.abs(np.array([blocks(kernel, sample) for kernel in kernels]) @ epsilon.T / 2.0).max(axis=0)
        rows.append((chance, true[found.argmin()] - true.min(), np.abs(found - true).max(), chaos))
    chances, excess, deviation, chaos = zip(*rows, strict=True)
    return np.array(chances), np.array(excess), np.array(deviation), np.array(chaos)


@_claim(
    3,
    "excess-by-deviation",
    "(1)",
    "The excess risk of the empirical minimiser is at most twice the largest |L_n(r) − L(r)|.",
    2.0,
    otherwise=("It is at most that largest deviation.", 1.0),
)
def excess_by_deviation(factor: float) -> list[Comparison]:
    """All 256 samples of four, two rules, two laws."""
    beyond = []
    for number in range(2):
        _, excess, deviation, _ = _outcomes(number)
        beyond.append(float((excess - factor * deviation).max()))
    return [at_most("excess beyond the bound", max(beyond), 0.0, 1e-9)]


@_claim(
    3,
    "excess-by-rademacher",
    "Proposition 2",
    "Eψ(L(r_n) − inf L) ≤ Eψ(4R_n) for convex non-decreasing ψ, R_n the Rademacher average over ⌊n/2⌋ pairs.",
    (lambda x: x, lambda x: np.exp(2.0 * x), lambda x: np.maximum(x - 0.02, 0.0)),
    otherwise=("So it is for ψ that fall, such as −x.", (lambda x: -x,)),
)
def excess_by_rademacher(functions: tuple[Callable[[Array], Array], ...]) -> list[Comparison]:
    """All samples of four and all signs, two rules, two laws."""
    worst = -np.inf
    for number in range(2):
        chances, excess, _, chaos = _outcomes(number)
        for psi in functions:
            worst = max(worst, float(chances @ psi(excess) - chances @ psi(4.0 * chaos).mean(axis=1)))
    return [at_most("largest Eψ(excess) − Eψ(4R_n)", worst, 0.0, 1e-9)]


@_claim(
    3,
    "rademacher-exponential",
    "display before Corollary 3",
    "E exp(4λR_n) ≤ exp(4λER_n + 4λ²/(n − 1)).",
    4.0,
    corrected=("It is at most exp(4λER_n + 16λ²/(n − 1)).", 16.0),
)
def rademacher_exponential(constant: float) -> list[Comparison]:
    """One rule that errs with a chance of 1 or ½: exact sums over signs and errors, n from 4 to 41."""
    worst = -np.inf
    for n in (4, 10, 41):
        half = n // 2
        for share in (1.0, 0.5):
            law = np.zeros(2 * half + 1)  # of the sum of half independent values −1, 0, 1
            law[half] = 1.0
            for _ in range(half):
                law = (1 - share) * law + 0.5 * share * (np.roll(law, 1) + np.roll(law, -1))
            chaos = np.abs(np.arange(-half, half + 1.0)) / half
            for rate in (0.5, 2.0, 6.0, 20.0):
                excess = np.log(law @ np.exp(4.0 * rate * chaos)) - 4.0 * rate * float(law @ chaos)
                worst = max(worst, float(excess) - constant * rate**2 / (n - 1.0))
    return [at_most("logarithm beyond the bound", worst, 0.0, 1e-9)]


def _two_rules(n: int, shift: float) -> tuple[float, float, float]:
    """Rules by x and by −x, P(Y = 1 | x) = ½ ± shift: gap of the risks, chance of the wrong one, ER_n."""
    low, high = 0.5 - shift, 0.5 + shift
    wrong = 0.0
    ways = binomial(n, 0.5)
    for ones in range(n + 1):  # rows with x = 1, then their positives and those of the others
        up, down = binomial(ones, high), binomial(n - ones, low)
        a, b = np.arange(ones + 1.0)[:, None], np.arange(n - ones + 1.0)[None, :]
        wrong += ways[ones] * float(up @ ((ones - a) * b > a * (n - ones - b)) @ down)
    half = n // 2
    law = np.zeros((2 * half + 1, 2 * half + 1))
    law[half, half] = 1.0
    first, second = 0.5 * low * (1 - high), 0.5 * high * (1 - low)  # only one rule errs: pairs of different x
    both = 0.25 * (low * (1 - low) + high * (1 - high))
    for _ in range(half):
        moved = (1 - first - second - both) * law
        for sign in (1, -1):
            moved += 0.5 * first * np.roll(law, sign, axis=0) + 0.5 * second * np.roll(law, sign, axis=1)
            moved += 0.5 * both * np.roll(law, (sign, sign), axis=(0, 1))
        law = moved
    places = np.abs(np.arange(-half, half + 1.0))
    chaos = float(np.sum(law * np.maximum(places[:, None], places[None, :]))) / half
    return second - first, wrong, chaos


@_claim(
    3,
    "excess-with-confidence",
    "Corollary 3",
    "With chance 1 − δ the excess risk is at most 4ER_n + 4√(log(1/δ)/(n − 1)).",
    (4.0, 4.0),
    otherwise=("It is at most ¼√(log(1/δ)/(n − 1)).", (0.0, 0.25)),
)
def excess_with_confidence(constants: tuple[float, float]) -> list[Comparison]:
    """Two rules, sums over all samples of 40 by their counts: the chance that the excess is beyond the bound."""
    compared = []
    for shift in (0.05, 0.3):
        gap, wrong, chaos = _two_rules(40, shift)
        for delta in (0.3, 0.01, 1e-9):
            bound = constants[0] * chaos + constants[1] * float(np.sqrt(np.log(1.0 / delta) / 39.0))
            chance = wrong if gap > bound else 0.0
            compared.append(at_most(f"chance, δ = {delta:g}", chance, delta, 1e-12, clearly=1e-6))
    return compared


# --- U-statistics of pairs (appendix 1) -----------------------------------------------------------------------------


def _tail(n: int, p: float, t: float) -> float:
    """P(|U_n − EU_n| > t) for the kernel "both are ones", ones with chance p."""
    return float(binomial(n, p)[np.abs(pairs_of_ones(n) - p * p) > t].sum())


def _worst_tail(bound: Callable[[int, float, float], float]) -> float:
    cases = [(n, p, t) for n in (7, 40, 101, 2000) for p in (0.3, 0.75) for t in np.linspace(0.02, 0.5, 25)]
    return max(_tail(n, p, t) / (bound(n, p, t) + 1e-300) for n, p, t in cases)


@_claim(
    3,
    "hoeffding-for-pairs",
    "appendix 1",
    "P(|U_n − EU_n| > t) ≤ 2exp(−2⌊n/2⌋t²) ≤ 2exp(−(n − 1)t²), for a kernel between 0 and 1.",
    lambda n: 2.0 * (n // 2),
    otherwise=("The exponent may be −2nt², as for a mean of n variables.", lambda n: 2.0 * n),
)
def hoeffding_for_pairs(rate: Callable[[int], float]) -> list[Comparison]:
    """The kernel "both are ones": exact tails over the bound."""
    worst = _worst_tail(lambda n, p, t: 2.0 * float(np.exp(-rate(n) * t * t)))
    return [at_most("tail over the bound", worst, 1.0, 1e-9, clearly=0.05)]


@_claim(
    3,
    "bernstein-for-pairs",
    "appendix 1, (5) and after it",
    "P(|U_n − EU_n| > t) ≤ 2exp(−⌊n/2⌋t²/(2σ² + 2t/3)) with σ² the variance of the kernel, which may be loose.",
    lambda p: p * p * (1 - p * p),
    otherwise=(
        "With σ² the variance of its conditional expectation, nothing else changed.",
        lambda p: p**3 * (1 - p),
    ),
)
def bernstein_for_pairs(variance: Callable[[float], float]) -> list[Comparison]:
    """The kernel "both are ones": exact tails over the bound."""

    def bound(n: int, p: float, t: float) -> float:
        return 2.0 * float(np.exp(-(n // 2) * t * t / (2.0 * variance(p) + 2.0 * t / 3.0)))

    return [at_most("tail over the bound", _worst_tail(bound), 1.0, 1e-9, clearly=0.05)]


@_claim(
    3,
    "average-of-blocks",
    "appendix 1, average of sums-of-i.i.d. blocks",
    "U_n is the mean over all permutations of the rows of the mean over ⌊n/2⌋ pairs.",
    lambda n: np.array(list(permutations(range(n)))),
    otherwise=("The cyclic shifts suffice.", lambda n: (np.arange(n)[:, None] + np.arange(n)[None, :]) % n),
)
def average_of_blocks(orders: Callable[[int], Array]) -> list[Comparison]:
    """A kernel of random values at four, five and six rows."""
    kernel, compared = np.random.default_rng(83).normal(size=(6, 6)), []
    for n in (4, 5, 6):
        sample = np.arange(n)
        mean = float(np.mean([blocks(kernel, sample[order]).mean() for order in orders(n)]))
        compared.append(equal(f"mean over orders, n = {n}", mean, pair_mean(kernel, sample), 1e-9))
    return compared


@_claim(
    3,
    "blocks-bound-pairs",
    "Lemma 14, appendix 1",
    "Eψ(sup of U-statistics) ≤ Eψ(sup of means over ⌊n/2⌋ pairs) for convex non-decreasing ψ.",
    (lambda x: x, lambda x: np.exp(3.0 * x), lambda x: np.maximum(x - 0.2, 0.0)),
    otherwise=("So it is for concave ψ, such as −exp(−x).", (lambda x: -np.exp(-x),)),
)
def blocks_bound_pairs(functions: tuple[Callable[[float], float], ...]) -> list[Comparison]:
    """All samples of four and five from three values; one kernel of random values, and three."""
    rng, worst = np.random.default_rng(84), -np.inf
    law, kernels = np.array([0.5, 0.3, 0.2]), rng.normal(size=(3, 3, 3))
    for n in (4, 5):
        for class_ in (kernels[:1], kernels):
            rows = [
                (c, max(pair_mean(q, s) for q in class_), max(float(blocks(q, s).mean()) for q in class_))
                for c, s in samples(law, n)
            ]
            for psi in functions:
                worst = max(worst, sum(c * float(psi(u) - psi(b)) for c, u, b in rows))
    return [at_most("largest Eψ(sup U) − Eψ(sup of blocks)", worst, 0.0, 1e-9)]


@_claim(
    3,
    "leading-term",
    "appendix 1, Hoeffding's decomposition",
    "n·Var U_n tends to 4 Var E(q(X₁, X) | X₁), and n²·Var W_n stays bounded: 2T_n is the leading term.",
    4.0,
    otherwise=("It tends to that variance itself.", 1.0),
)
def leading_term(factor: float) -> list[Comparison]:
    """The kernel "both are ones": exact variances from binomial sums, n = 100 and 4000."""
    p, compared, rest = 0.6, [], []
    for n in (100, 4000):
        chances, ones = binomial(n, p), np.arange(n + 1.0)
        U = pairs_of_ones(n)
        mean, slope = float(chances @ U), factor**0.5 * p * (ones / n - p)  # E(q | X) is p for a one, 0 else
        variance = float(chances @ (U - mean) ** 2)
        rest.append(n * n * float(chances @ (U - mean - slope) ** 2))
        compared.append(
            equal(f"n·Var U_n, n = {n}", n * variance, factor * p**3 * (1 - p), 0.6 / n, clearly=0.05)
        )
    return [*compared, at_most("n²·Var W_n at 4000 over that at 100", rest[1] / rest[0], 1.1, 1e-3)]


# --- the moment inequality ------------------------------------------------------------------------------------------


@_claim(
    6,
    "moments-of-chaos",
    "Theorem 11",
    "(EZ^q)^{1/q} ≤ C(EZ_ε + √q·EU_ε + q(EM + Fn) + q^{3/2}F√n + q²F) with one C for all n and q.",
    1.0,
    otherwise=("The first two terms suffice.", 0.0),
)
def moments_of_chaos(rest: float) -> list[Comparison]:
    """The kernel f(x, y) = xy on signs, 0 on the diagonal, F = 1: exact sums, C = 2, n to 2560 and q to n."""
    worst = 0.0
    for n in (10, 160, 2560):
        chances, S = binomial(n, 0.5), 2.0 * np.arange(n + 1.0) - n
        Z = np.abs(S**2 - n)
        U = float(chances @ np.sqrt((n - 2.0) * S**2 + n))
        M = float(chances @ np.where(np.abs(S) == n, n - 1.0, np.abs(S) + 1.0))
        for q in (2.0, n**0.5, float(n)):
            top = Z.max()
            moment = top * float(chances @ (Z / top) ** q) ** (1.0 / q)
            terms = float(chances @ Z) + q**0.5 * U
            terms += rest * (q * (M + n) + q**1.5 * n**0.5 + q * q)
            worst = max(worst, moment / (2.0 * terms))
    return [at_most("moment over the bound", worst, 1.0, 1e-9, clearly=0.2)]


CLAIMS = defined_in(globals())
