"""Why a target is missed: the least that a solve must read or compute, and how far it is from that.

Each row that says NO has a paragraph here; ``run.py`` prints it, and writes it into the pages. The benchmark ``limits``
measures the rates and ratios that are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from report import Target, escaped

__all__ = ["REASONS", "UNKNOWN", "explained", "reasons"]

# More rows of one reason are not named one by one.
_NAMED = 3

# A pattern of the names of rows, and the paragraph.
REASONS: dict[str, str] = {
    r"against LogisticRegression$": (
        "LogisticRegression stops at 1e-4 and has no certificate. Both read X twice in an evaluation, so that with as "
        "many evaluations the ratio is 1. The Hessian of a sample saves evaluations of the push. The bytes and "
        "operations of its steps on 100 000 × 50 take half of its time at the rates of limits, those of "
        "LogisticRegression a quarter: at best the push is at .5."
    ),
    r"300 directions: time over LogisticRegression's$": (
        "Both take some 80 evaluations of L-BFGS, each of which reads X twice; the certificate asks for more digits "
        "than 1e-6. Newton's six Hessians of 300 × 300 take 1.5·10^9 operations each, about as long."
    ),
    r"^PNormPush p = .*LogisticRegression's$": (
        "At p = 64 the Hessian is p times as steep in some directions. Steps by conjugate gradients read X twice for "
        "each product with the Hessian: 24 bytes for each entry of a sparse X."
    ),
    r"values of l2.*, docstrings": (
        "Each value takes three to five steps from where the last two answers lead, the first one more: ten values "
        "take at least twice the steps of one."
    ),
    r"^PageRank, ": (
        "A sweep and scipy's product read the same edges, 4 bytes each, 12 with weights, and wait for a number from a "
        "random place for each. At the rates of limits that is .36 s for the 13 sweeps of Kronecker 20 with weights, "
        "a third of the solve: the certificate is one pass more, and mixing reads and writes some vectors. Where the "
        "nodes are in random order, graph.reordered() shortens the waits."
    ),
    r"^PageRank to a true |^PageRank: time to": (
        "So few passes are needed that the certificate, one pass more, and the mixing of sweeps show. From files each "
        "sweep reads 4 bytes for each edge once more."
    ),
    r"^L_\{4,4.8\}": (
        "Its 16 sweeps over Kronecker 20 read 12 bytes and one place for each edge, .45 s at the rates of limits, a "
        "tenth of the solve. Beside them it takes powers of all entries, two copies of the edges and their order, the "
        "map once, and a certificate that evaluates a logarithm and an exponential for every edge, 3·10^7 in all. On "
        "the crawl cycles of strongest links are left, which take more sweeps."
    ),
    r"ranks at once": (
        "One rank takes 8 bytes for a link, mostly from a cache; 64 ranks take a row of some lines of the cache from "
        "a random place. By limits a row takes as long as 28 single places, so that 64 ranks take some 28 solves "
        "where a solve is places alone; a solve of 64 takes 1.5 times what its rows do."
    ),
    r"bytes an edge$": (
        "4 bytes for an edge are its source, kept beside the caller's arrays. The rest are vectors of the nodes: "
        "ranks, what is sent, and three steps of mixing; some 90 bytes for a node, of which each has 32 edges."
    ),
    r"beside LightGBM$|, (partial AUC|positives above all): ": (
        "Quality, not time. Sums over thresholds cannot say how two features act together; products of two can, and "
        "come near LightGBM's partial AUC, but not to the top of its list, which trees of more features order."
    ),
    r", Spambase$": (
        "Words make columns of zeros with a few large entries, so that a step crosses many kinks. The minimisers of "
        "smooth functions are followed by some hundred Newton steps. A step with sums over pairs looks at each pair "
        "of a positive and of a negative that counts, or may count, and at its part of the Hessian, 57 numbers."
    ),
    r"^PartialAUC, 30 %.*, (MQ2008|WDBC)$": (
        "Each of 48 086 pairs of MQ2008, and of 75 684 of WDBC, has a kink. The minimisers of smooth functions of "
        "narrower and narrower widths are followed by some hundred Newton steps, each with sums over these pairs for "
        "its second derivatives."
    ),
    r"^PartialAUC, 5 %, half of the positives, .*, tic-tac-toe$": (
        "At each point of the path the shares of the lowest positives and of the highest negatives are found by turns, "
        "which takes some twelve sums of logarithms over pairs."
    ),
    r"weak l1": (
        "Of products more than 4 000 columns are in use, with 1 700 entries in a row: one Hessian takes some 10^11 "
        "operations, 3 s, and a way from 0 some dozens of them: two minutes, four times what is wanted. Rows are too "
        "many for the dual Newton method. Thresholds look at all columns once in each round."
    ),
    r"^(TopPush|RmaxPush hinge), docstrings": (
        "Words separate these rows, and many negatives share the top: smooth functions of narrower and narrower widths "
        "take up to fifty quasi-Newton steps in each step of the table, and each of these reads X two or three times."
    ),
    r"l1 = .*, docstrings: time over liblinear's$": (
        "liblinear stops at 1e-4 of its violation and has no gap. Here the steps end at a certified gap of 1e-6 over "
        "all 20 809 columns; looks at all of them take 7 % of the time, the steps over some hundred columns the rest."
    ),
    r"^2 processes against 1": (
        "Each process solves the sample by itself: about a quarter of what a process does in a solve of 2 s. Each "
        "evaluation waits for the slower one, and where other work fills the cores the clock shows that work."
    ),
    r"first search of a process$": (
        "Processes of joblib start Python and import scikit-learn and this package before the first fit: 1.3 s, where "
        "the sixty fits take .23 s. Threads share what is imported."
    ),
    r"^the same in threads": (
        "A fit of 4 ms is mostly calls from Python, which hold its lock: threads take turns there."
    ),
    r"^cr.verify": (
        "Each pair of rows has an exponential cone of its own in the exact model: 39 000 at 400 rows, .16 s of the "
        "processor for each of some 40 steps of Clarabel, which takes nearly all of the time. The fast solver and its "
        "certificate take less than a tenth of a second."
    ),
    r"time over PNormPush's$": (
        "Objectives of the highest negatives are not smooth: a smooth function of decreasing width stands for each. "
        "Where w = 0 is the minimum, that is told before the first step, and the certificate takes the time. Else "
        "samples of growing size come first, then all rows with those that do not count merged; pairs with the "
        "highest are sums over sorted scores. The steps of the table are looks at all rows alone; the certificate is "
        "two more."
    ),
    r"time over SVMpAUC-tight's$": (
        "The minimum is w = 0, where the cutting planes start: some dozen cuts of eight columns show it. Ours is told "
        "before the first step, and the certificate takes the time."
    ),
    r"^partial_auc.*time over that of one list$": (
        "PartialAUC takes a sum over pairs for each negative. Of one list those that are too low to count are left "
        "out, which is nearly all, and of its other rows many are merged. Of lists of some ten rows neither pays: all "
        "pairs are taken in each evaluation, and ten times for a Hessian of ten columns; the certificate, which sorts "
        "each list, is a quarter of the time."
    ),
    r"^the same, the hardest inputs we found$": (
        "Every entry inserts a piece into a tree, at a random place in memory, and the cut walks over others to the "
        "next zero; SciPy's PAV goes through one array. On this machine random places cost more of late: 44 to 46 in "
        "three runs, 37 before, by the same code."
    ),
    r"^push risk, p = 16, .*width of the exact": (
        "It holds for every law. Of 200 negatives none may be seen of a kind that is 1.8 % of all, as .982^200 is "
        ".025, and each of these may be above all positives: (.63^16 + .018)^(1/16) is .78, so that the upper end is "
        ".15 above the risk at least, where the asymptotic interval reaches .06. No interval with equal errors at both "
        "ends is below 1.56 (the table of least widths). The rest is the bets' own."
    ),
    r"1000 bootstraps": (
        "Each resample has its own weights, steps and certificate. All rows are read some five times in single "
        "precision and once in double, 2·10^6 exponentials and 1.8·10^8 operations each time, and resamples cannot "
        "share these reads; Hessians, secants, sums and 16 MB of weights come on top."
    ),
    r"time over the earlier sums'$": (
        "Of some hundred rows most of the time are calls from Python, which the earlier sums alone do without. Of a "
        "million, sorts take half of the time, and each number of a sorted row is read from a random place."
    ),
    r"^ConvexRisk logistic, 9 500": (
        "Each evaluation, of a step and of the certificate, is a sum over 45 million pairs."
    ),
    r"RankSVM, squared hinge, l1": (
        "liblinear has the differences of rows, which are formed for it and not counted; the push never forms them, "
        "and sorts the scores in each step."
    ),
}
UNKNOWN = "NO REASON IS KNOWN: profile it, and write one into benchmarks/reasons.py."
_NO_DEVICE = "This machine has no device: nothing was measured."


def reasons(targets: Iterable[Target]) -> list[tuple[str, str]]:
    """Return the names of rows that say NO, those of one reason together, and the reason."""
    found: dict[str, list[str]] = {}
    for target in targets:
        if not target.met:
            found.setdefault(_reason(target), []).append(target.what)
    return [(_named(names), reason) for reason, names in found.items()]


def _named(names: list[str]) -> str:
    few = names if len(names) <= _NAMED else [names[0], f"and {len(names) - 1} rows like it"]
    return "; ".join(few)


def _reason(target: Target) -> str:
    if target.measured == "NO DEVICE":
        return _NO_DEVICE
    return next((text for pattern, text in REASONS.items() if re.search(pattern, target.what)), UNKNOWN)


# On a page: a row that says NO, and a paragraph.
_ROW = re.compile(r"^   \* - (.+)\n     - (.+)\n     - (.+)\n     - NO$", re.MULTILINE)
_PARAGRAPH = re.compile(r"^\* NO: .+\n\n", re.MULTILINE)


def explained(page: str) -> str:
    """Return a page that a benchmark wrote with the paragraphs of today; nothing is measured."""
    if not (first := _PARAGRAPH.search(page)):
        return page
    cells = ([re.sub(r"\\(.)", r"\1", cell) for cell in row] for row in _ROW.findall(page))
    found = reasons(Target(*row, met=False) for row in cells)
    paragraphs = "".join(f"* NO: {escaped(names)}. {escaped(why)}\n\n" for names, why in found)
    return page[: first.start()] + paragraphs + _PARAGRAPH.sub("", page[first.start() :])
