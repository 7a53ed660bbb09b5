"""Numbers that a risk is never below: by multipliers without any slope, for random expressions and by hand."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import convexrank as cr
from convexrank.modelling import conjugate
from convexrank.modelling.expressions import Highest, LogSumExp, Maximum
from convexrank.modelling.language import Numpy
from tests.expression_readings import evaluated, off
from tests.random_expressions import random_instance, scores_apart
from tests.tolerances import tolerance


def test_multipliers_without_any_slope_bound_the_risk_everywhere():
    """Where they are known they satisfy the constraints; some risks have none at first, others need the scores' own."""
    close, held = tolerance("summation"), {"none at first": 0, "balanced": 0, "not known": 0}
    programs = [random_instance(Random(seed)).program for seed in range(100)]
    lists = (cr.problems.ListNet, cr.problems.XENDCG, cr.problems.ListMLE)
    programs += [made.random(seed).program for made in lists for seed in range(4)]
    for seed, program in enumerate(programs):
        draw = Random(seed)
        if not conjugate.has_conjugate(program):
            continue
        nothing = {k: np.zeros(size) for k, size in conjugate.sizes(program).items()}
        size = float(np.abs(conjugate.conjugate(program, Numpy(), nothing)[1]).max(initial=0.0))
        rest = conjugate.resting(program)
        held["not known" if rest is None else "balanced" if size else "none at first"] += 1
        if rest is None:
            continue
        language = Numpy()
        cost, slopes = conjugate.conjugate(program, language, rest[0])
        assert cost == rest[1]
        assert max(language.violation, float(np.abs(slopes).max(initial=0.0))) <= close * max(1.0, size)
        for far in (0.0, 1.0, 30.0):
            value = program.value_and_gradient(far * np.array(scores_apart(draw, program.rows)))[0]
            assert value >= -cost - close * max(1.0, abs(cost), abs(value))
            assert conjugate.infimum(program) <= value + close * max(1.0, abs(value))
    assert min(held.values()) >= 5, held


def test_multipliers_that_satisfy_the_constraints_are_kept():
    """Those of the scores do; there Fenchel's inequality is an equality, which others would loosen."""
    close, seen = tolerance("summation"), set()
    for seed in range(40):
        draw = Random(seed)
        instance = random_instance(draw)
        program, scores = instance.program, np.array(scores_apart(draw, instance.rows))
        if not conjugate.has_conjugate(program) or evaluated(instance, scores) is None:
            continue
        given = conjugate.multipliers(program, scores)
        found = conjugate.feasible(program, Numpy(), given)
        for k, v in given.items():
            assert off(found[k], v) < close, seed
            seen.add(type(program.nodes[k]).__name__)
    assert len(seen) >= 8, seen


def test_parts_of_any_size_are_brought_onto_the_simplex():
    """Those of a query without any are equal; none is above its part of a mean of the highest."""
    close, seen = tolerance("summation"), set()
    for seed in range(100):
        rng = np.random.default_rng(seed)
        for node in random_instance(Random(seed)).program.nodes:
            if not isinstance(node, LogSumExp | Highest):
                continue
            limited = isinstance(node, Highest) and not isinstance(node, Maximum)
            size = len(node.over.rows)
            for v in (np.zeros(size), rng.random(size), 10.0 ** rng.uniform(-9.0, 9.0, size)):
                found = conjugate._on_simplex(node, v.copy())
                assert (found >= 0.0).all()
                # of the highest the sum is put right by who asks, after the parts are limited
                whole = node.over.spread(node.over.sums(found))
                assert limited or np.abs(whole - 1.0).max() <= close
                assert not limited or (found / whole <= node.caps * (1.0 + close)).all()
                if (
                    v.all() and not limited
                ):  # beside a query without any parts those of others keep their shares
                    some = node.over.query > 0
                    apart = conjugate._on_simplex(node, v * some)
                    assert (
                        np.abs(apart - np.where(some, found, node.over.spread(1.0 / node.over.sizes))).max()
                        <= close
                    )
                if not v.any() and not limited:
                    assert np.abs(found * node.over.spread(node.over.sizes) - 1.0).max() <= close
            seen.add((type(node).__name__, limited))
    assert len(seen) >= 3, seen


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_a_risk_that_is_never_negative_rests_at_zero(loss):
    program = cr.problems.RmaxPush([[1.0], [0.5], [0.0]], [1, 0, 0], loss, l2=0.1).program
    rest = conjugate.resting(program)
    assert rest is not None
    assert rest[1] == pytest.approx(0.0, abs=tolerance("summation"))
