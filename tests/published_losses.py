"""Mistakes of published losses, each written anew as a small function, with the place where it was reported.

The functions take (scores, y) or (scores, y, qid), as `convexrank.verify_loss` calls them; ``right`` of a mistake is
the same function without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import convexrank as cr
from convexrank.modelling import mean, square
from convexrank.problems.bipartite._base import Bipartite


@dataclass(frozen=True)
class Mistake:
    """A loss with a published mistake, what it is comparable to, and how a disagreement shows."""

    source: str
    wrong: Any
    right: Any
    problem: Any
    parameters: dict[str, Any]
    check: str
    rows: int
    options: dict[str, Any] = field(default_factory=dict)


def groups(qid):
    return [np.flatnonzero(qid == query) for query in np.unique(qid)]


def margins(scores, y):
    """Differences of scores of all pairs with larger label first."""
    return (scores[:, None] - scores[None, :])[y[:, None] > y[None, :]]


def within(scores, y, qid):
    """The same for the pairs of one query."""
    return np.concatenate([margins(scores[rows], y[rows]) for rows in groups(qid)])


@dataclass(frozen=True, eq=False)
class SquareAUC(Bipartite):
    """The mean of (1 - z)² over all pairs: what the AUC margin loss is where its three variables are optimal."""

    def risk(self, f):
        # variances, and the square of a difference of means
        apart = [mean(square(group - mean(group))) for group in (f.positive, f.negative)]
        return apart[0] + apart[1] + square(1.0 - mean(f.positive) + mean(f.negative))

    def _reference_scores(self, scores):
        gaps = 1.0 - (scores[self.positives][:, None] - scores[self.negatives])
        slope = np.zeros(len(scores))
        slope[self.positives] = -2.0 * gaps.sum(axis=1) / gaps.size
        slope[self.negatives] = 2.0 * gaps.sum(axis=0) / gaps.size
        return float((gaps**2).mean()), slope


# --- area under the curve, two classes ------------------------------------------------------------------------------


def auc_margin(scores, y, cross=None):
    """The same by means and variances of the classes."""
    up, down = scores[y == 1], scores[y == 0]
    spread = ((up - up.mean()) ** 2).mean() + ((down - down.mean()) ** 2).mean()
    return spread + (1.0 + (down.mean() - up.mean() if cross is None else cross(scores, y))) ** 2


def cross_in_one_mean(scores, y):
    """The mean of a difference whose second part is already a mean: all rows divide, not the negatives."""
    return np.mean(scores * (y == 0) - scores[y == 1].mean())


def auc_of_one_mean(scores, y):
    return auc_margin(scores, y, cross_in_one_mean)


def mean_of_nonzero(values):
    return values.sum() / np.count_nonzero(values)


def auc_by_nonzero(scores, y):
    """Class sizes counted by entries that are not zero after a mask."""
    up, down = scores[y == 1].mean(), scores[y == 0].mean()
    spread = mean_of_nonzero((scores - up) ** 2 * (y == 1)) + mean_of_nonzero((scores - down) ** 2 * (y == 0))
    return spread + (1.0 + down - up) ** 2


def auc_of_share(share):
    """The form with the share of positives, a setting; the multiplier is that of the true means."""

    def loss(scores, y):
        p = (y == 1).mean() if share is None else share
        up, down = scores[y == 1].mean(), scores[y == 0].mean()
        alpha = 1.0 + down - up
        own = (1 - p) * np.mean((scores - up) ** 2 * (y == 1)) + p * np.mean((scores - down) ** 2 * (y == 0))
        cross = np.mean(p * scores * (y == 0) - (1 - p) * scores * (y == 1))
        return own + 2 * alpha * (p * (1 - p) + cross) - p * (1 - p) * alpha**2

    return loss


def hinge(scores, y):
    return np.maximum(0.0, 1.0 - margins(scores, y)).mean()


def hinge_of_mean(scores, y):
    """The negatives are averaged before the hinge."""
    return np.maximum(0.0, 1.0 - (scores[y == 1] - scores[y == 0].mean())).mean()


def hinge_reversed(scores, y):
    return np.maximum(0.0, 1.0 + margins(scores, y)).mean()


def hinge_of_places(scores, y):
    """Labels are never looked at: the first row is taken to be the positive one."""
    return np.maximum(0.0, 1.0 - (scores[0] - scores[1:])).mean()


def weighted_hinge(scores, y, sample_weight):
    pairs = np.outer(sample_weight, sample_weight)[y[:, None] > y[None, :]]
    return pairs @ np.maximum(0.0, 1.0 - margins(scores, y))


def weightless_hinge(scores, y, sample_weight):
    return weighted_hinge(scores, y, np.ones(len(y)))


# --- pairs within queries -------------------------------------------------------------------------------------------


def pair_hinge(scores, y, qid):
    return np.maximum(0.0, 1.0 - within(scores, y, qid)).sum()


def pair_hinge_by_labels(scores, y, qid):
    """Each pair counts by the difference of its labels."""
    return np.maximum(0.0, 1.0 - within(scores, y, qid)) @ within(y, y, qid)


def pair_hinge_of_padding(scores, y, qid):
    """A mean over lists that are padded to the longest."""
    lists = groups(qid)
    return pair_hinge(scores, y, qid) / (len(lists) * max(map(len, lists)))


def pair_logistic(scores, y, qid):
    return np.logaddexp(0.0, -within(scores, y, qid)).sum() / max(len(within(scores, y, qid)), 1)


def pair_logistic_of_nothing(scores, y, qid):
    """The mean over no pairs."""
    return np.logaddexp(0.0, -within(scores, y, qid)).mean()


def pair_logistic_overflows(scores, y, qid):
    return np.log(1.0 + np.exp(-within(scores, y, qid))).sum()


# --- lists ----------------------------------------------------------------------------------------------------------


def log_softmax(values):
    moved = values - values.max()
    return moved - np.log(np.exp(moved).sum())


def cross_entropy(scores, y, qid):
    return -sum(np.exp(log_softmax(y[rows])) @ log_softmax(scores[rows]) for rows in groups(qid))


def cross_entropy_of_batch(scores, y, qid):
    """The softmax runs over all rows, not over those of a query."""
    return -sum(np.exp(log_softmax(y[rows])) @ log_softmax(scores)[rows] for rows in groups(qid))


def cross_entropy_underflows(scores, y, qid):
    """The logarithm of a softmax that has become 0."""
    return -sum(np.exp(log_softmax(y[r])) @ np.log(np.exp(log_softmax(scores[r]))) for r in groups(qid))


def best_dcg(gains):
    return (np.sort(gains)[::-1] / np.log2(2.0 + np.arange(len(gains)))).sum()


def gain_regression(scores, y):
    worth = 2.0**y - 1.0
    return 0.5 * ((scores - worth / best_dcg(worth)) ** 2).sum() if np.ptp(y) else 0.0


def gain_regression_of_int32(scores, y):
    """Gains in 32-bit integers."""
    worth = (np.left_shift(np.int32(1), y.astype(np.int32)) - np.int32(1)).astype(float)
    return 0.5 * ((scores - worth / best_dcg(worth)) ** 2).sum() if np.ptp(y) else 0.0


def mean_of_pairs(least):
    """The mean over the pairs of a list and its gradient; the value is masked, the gradient is 0 times infinity."""

    def loss(scores, y):
        pairs = y[:, None] > y[None, :]
        gaps = np.maximum(0.0, 1.0 - scores[:, None] + scores[None, :])
        share = np.float64(1.0) / max(pairs.sum(), least)
        pulls = pairs * (gaps > 0) * share
        return np.where(pairs, gaps * share, 0.0).sum(), pulls.sum(axis=0) - pulls.sum(axis=1)

    return loss


P = cr.problems
_HINGE = {"price": "identity", "loss": "hinge"}
_GAINS = {"offsets": False, "normalize": False}
_SOFTMAX = {"shift": "labels", "unordered": "finite"}
MISTAKES = (
    Mistake("Optimization-AI/LibAUC#74", auc_of_one_mean, auc_margin, SquareAUC, {}, "shift of scores", 2),
    Mistake("Optimization-AI/LibAUC#75", auc_by_nonzero, auc_margin, SquareAUC, {}, "value", 2),
    Mistake("Optimization-AI/LibAUC#10", auc_of_share(0.1), auc_of_share(None), SquareAUC, {}, "shift of scores", 2),
    Mistake("NTMC-Community/MatchZoo-py#159", hinge_of_mean, hinge, P.Push, _HINGE, "value", 3),
    Mistake("NTMC-Community/MatchZoo#228", hinge_of_places, hinge, P.Push, _HINGE, "order of rows", 2),
    Mistake("clab/dynet#963", hinge_reversed, hinge, P.Push, _HINGE, "value", 2),
    Mistake("dmlc/xgboost#2460", weightless_hinge, weighted_hinge, P.Push, _HINGE, "value: weights", 2),
    Mistake("tensorflow/ranking#73", pair_hinge_by_labels, pair_hinge, P.RankSVM, {"normalize": False}, "value", 2),
    Mistake("tensorflow/ranking#359", pair_hinge_of_padding, pair_hinge, P.RankSVM, {"normalize": False}, "value", 3),
    Mistake(
        "huggingface/sentence-transformers#4032", pair_logistic_of_nothing, pair_logistic, P.CrucialPairs,
        {"loss": "logistic"}, "value: queries without an order", 1,
    ),
    Mistake(
        "pytorch/pytorch#1835", pair_logistic_overflows, pair_logistic, P.CrucialPairs, {"loss": "logistic"},
        "value: large scores", 2,
    ),
    Mistake(
        "fxia22/pointnet.pytorch#27", cross_entropy_of_batch, cross_entropy, P.ListNet, {}, "shift of scores", 2,
        _SOFTMAX,
    ),
    Mistake(
        "NTMC-Community/MatchZoo#772", cross_entropy_underflows, cross_entropy, P.ListNet, {}, "value: large scores", 2,
        _SOFTMAX,
    ),
    Mistake(
        "dmlc/xgboost#6352", gain_regression_of_int32, gain_regression, P.NDCGRegression, _GAINS,
        "value: large labels", 2,
    ),
    Mistake(
        "pytorch/pytorch#121416", mean_of_pairs(0), mean_of_pairs(1), P.RankSVM, {},
        "gradient: queries without an order", 1,
    ),
)  # fmt: skip
