"""Bad arguments of everything public: a right result, or an error of ours that names the argument; see tests/fuzzer."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from convexrank.data import check_real, check_vector
from tests.fuzzer import judge
from tests.fuzzer.allowed import is_allowed, is_endless
from tests.fuzzer.calls import calls_of, public
from tests.fuzzer.run import cases, everything, fuzz, judged

# Cases of each call, about a minute of them, and the seed that decides which; `make fuzz` tries many more.
CASES = int(os.environ.get("CONVEXRANK_FUZZ_CASES", "6"))
SEED = int(os.environ.get("CONVEXRANK_FUZZ_SEED", "0"))
SHARES = 4


@pytest.mark.parametrize("share", range(SHARES))
def test_bad_arguments_are_refused_by_name(share, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # text as a path is a file
    begun, found = time.perf_counter(), []
    for finding in everything(CASES, SEED, (share, SHARES)):
        found += [] if is_allowed(finding) else [str(finding)]
    assert not found, f"{len(found)} findings in {time.perf_counter() - begun:.0f} s:\n" + "\n".join(
        found[:40]
    )


# --- the fuzzer itself ----------------------------------------------------------------------------------------------


def sound(values, scale=1.0, mean=False):
    """What all arguments of a function should be like.

    >>> sound([1.0, 2.0, 4.0], scale=2.0, mean=True)
    """
    vector = check_vector(values, name="values")
    factor = check_real(scale, "scale")
    if not 1e-3 <= factor <= 1e3:
        raise ValueError(f"scale is {scale}, expected a number from 0.001 to 1000.")
    if not isinstance(mean, bool | np.bool_):
        raise TypeError(f"mean is {mean!r}, expected True or False.")
    if np.abs(vector).max() > 1e100:
        raise ValueError("values has entries beyond 1e100; pass smaller ones.")
    return float(vector.mean() * factor) if mean else vector * factor


def leaks(values, scale=1.0):
    """Lets an exception of numpy through.

    >>> leaks([1.0, 2.0, 4.0], scale=2.0)
    """
    return np.asarray(values, dtype=np.float64) * scale


def nameless(values, scale=1.0):
    """Says what is wrong, but not with what.

    >>> nameless([1.0, 2.0, 4.0], scale=2.0)
    """
    vector = check_vector(values, name="values")
    if not isinstance(scale, float) or not 1e-3 <= scale <= 1e3:
        raise ValueError("expected a number from 0.001 to 1000.")
    return vector[:3] / 1e100 * scale


def curt(values, scale=1.0):
    """Names the argument, but not what was expected.

    >>> curt([1.0, 2.0, 4.0], scale=2.0)
    """
    if not isinstance(scale, float) or not 1e-3 <= scale <= 1e3:
        raise ValueError("scale is wrong.")
    return scale


def not_a_number(values, scale=1.0):
    """Computes with anything.

    >>> not_a_number([1.0, 2.0, 4.0], scale=2.0)
    """
    return scale * 0.0 if isinstance(scale, float) else 0.0


def warns(values, scale=1.0):
    """Lets a warning of numpy through.

    >>> warns([1.0, 2.0, 4.0], scale=2.0)
    """
    return (
        float(np.float64(1.0) / np.float64(scale)) if isinstance(scale, float | int) and scale == 0 else 1.0
    )


def sleeps(values, scale=1.0):
    """Takes as long as the argument says.

    >>> sleeps([1.0, 2.0, 4.0], scale=0.0)
    """
    time.sleep(scale if isinstance(scale, int) and scale == 2**32 else 0.0)


def credulous(values, mean=False):
    """Takes anything for a flag.

    >>> credulous([1.0, 2.0, 4.0], mean=True)
    """
    return 1.0 if mean is True else 2.0


def forgets_strides(values):
    """Reads memory in the wrong order.

    >>> forgets_strides([[1.0, 2.0], [4.0, 3.0]])
    """
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and values.flags.f_contiguous:
        return values.T.copy()
    return np.array([[1.0, 2.0], [4.0, 3.0]])


PLANTED = {
    leaks: "foreign", nameless: "nameless", curt: "unexplained", not_a_number: "nan", warns: "warning", sleeps: "slow",
    credulous: "accepted", forgets_strides: "changed",
}  # fmt: skip


def findings(function, monkeypatch):
    monkeypatch.setattr(judge, "PACKAGES", (str(Path(__file__).resolve().parent.parent),))
    monkeypatch.setattr(judge, "LIMIT", 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(fuzz(function.__name__, function))


def test_nothing_is_found_where_nothing_is_wrong(monkeypatch):
    assert not findings(sound, monkeypatch)


@pytest.mark.parametrize("function", PLANTED, ids=lambda function: function.__name__)
def test_planted_faults_are_found(function, monkeypatch):
    found = findings(function, monkeypatch)
    assert PLANTED[function] in {finding.kind for finding in found}, found[:5]


def test_only_what_never_ends_is_not_waited_for():
    link = "convexrank.problems.single_index.realizable_link.RealizableLink#0:RealizableLink"
    assert is_endless(link, "X", "~an entry 2**63")
    assert not is_endless(link, "X", "~an entry 1.5")
    assert not is_endless(link, "y", "~an entry 2**63")


# What the fuzzer found with every value, each with the parameter: the calls of the suite take a sample.
FOUND = [
    ("convexrank.problems.graph_ranks.lpq_rank.LpqRank", "k"),
    ("convexrank.data.letor.read_letor", "n_features"),
    ("convexrank.jax_losses.lists.margin_retargeting", "offsets"),
    ("convexrank.regularizers.norms.Penalty", "nonnegative"),
    ("convexrank.estimators.cross_validated.RetargetingRankerCV", "bound"),
    ("convexrank.estimators.cross_validated.PushRankerCV", "y"),
    ("convexrank.estimators.cross_validated.PushRankerCV", "X"),
    ("convexrank.links.link.Link", "knots"),
    ("convexrank.problems.graph_ranks.page_rank.PageRank", "x"),
    ("convexrank.estimators.online.OnlineMEMR", "sigma"),
    ("convexrank.divergences.from_expression.FromGenerator", "upper"),
    ("convexrank.prices.priced", "price"),
    ("convexrank.jax_losses.lists.margin_retargeting", "grades"),
    ("convexrank.jax_losses.lists.margin_retargeting", "margin"),
    ("convexrank.inference.promised_lists.top_hits", "k"),
    ("convexrank.plotting.graphs.graph", "marked"),
    ("convexrank.plotting.pairs.pair_contributions", "p"),
    ("convexrank.plotting.shapes.link", "points"),
    ("convexrank.problems.page_rank_game.page_rank_game.PageRankGame", "norm"),
    ("convexrank.problems.bipartite.top_push.TopPush", "l1"),
    ("convexrank.problems.margin_retargeting.margin_retargeting.MarginRetargeting", "bound"),
    ("convexrank.problems.single_index.realizable_link.RealizableLink", "X"),
    ("convexrank.problems.single_index.kernel_learned_divergence.KernelLearnedDivergence", "K"),
    ("convexrank.features.thresholds.Thresholds", "X"),
    ("convexrank.regularizers.norms.soft_threshold", "v"),
    ("convexrank.divergences.projections.project_halfspace", "y"),
    ("convexrank.inference.promises.threshold", "scores"),
    ("convexrank.estimators.cross_validated.RetargetingRankerCV", "qid"),
    ("convexrank.inference.intervals.m_ary_risk_interval", "m"),
    ("convexrank.inference.intervals.m_ary_risk_interval", "y"),
]


@pytest.mark.parametrize(("name", "parameter"), FOUND, ids=lambda text: text.rsplit(".", 1)[-1])
def test_every_value_of_what_was_found(name, parameter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thing, found = public()[name], []
    for number, call in enumerate(calls_of(thing)):
        judge_of = judge.Judge(f"{name}#{number}:{call.function.__qualname__}", call)
        for place, label, value, same in cases(call):
            if place == parameter:
                one = judged(judge_of, place, label, value, same)
                found += [one] if one and not is_allowed(one) else []
    assert not found, "\n".join(map(str, found[:10]))
