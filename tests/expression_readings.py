"""What all readings of an expression have to agree on."""

from __future__ import annotations

import math
from random import Random

import numpy as np
from hypothesis import assume

from convexrank.modelling import (
    conjugate,
    jax_reading,
    language,
    recession,
)
from convexrank.modelling.certificates import balls as balls_reading
from convexrank.modelling.certificates.below import below, below_in_balls
from convexrank.modelling.certificates.reference import Reference
from convexrank.modelling.certificates.rounding import sizes_of_terms
from convexrank.modelling.curvature import curvature, has_columns
from convexrank.modelling.cvxpy_reading import cvxpy_model
from convexrank.modelling.expressions import PairMeans
from convexrank.modelling.hessian_products import hessian_product
from convexrank.modelling.language import latex
from convexrank.modelling.levels import CumulativeLogSumExp
from convexrank.modelling.smoothing.programs import Smoothing, can_be_smooth
from convexrank.problems._smoothed_weights import SmoothedRisks
from convexrank.proof.balls import at_precision
from tests.expression_loops import plain_risk
from tests.random_expressions import LARGEST, random_instance, scores_apart, tied_scores
from tests.tolerances import tolerance

SUMS, DIFFERENCES = tolerance("summation"), tolerance("central difference")


def off(found, expected, size=0.0):
    """How far numbers are apart, relative to the largest, or to a size."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    return float(np.abs(found - expected).max(initial=0.0)) / max(
        1.0, size, float(np.abs(expected).max(initial=0.0))
    )


def evaluated(instance, scores):
    """Value and gradient, or None where they are too large to compare."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        value, gradient = instance.program.value_and_gradient(scores)
    usable = np.isfinite(value) and max(abs(value), float(np.abs(gradient).max())) < LARGEST
    return (value, gradient) if usable else None


def drawn(random, scores_of=tied_scores):
    """Draw an instance, scores, and value and gradient there."""
    instance = random_instance(random)
    scores = scores_of(random, instance.rows)
    found = evaluated(instance, scores)
    assume(found is not None)
    return instance, scores, *found


# --- comparisons ------------------------------------------------------------------------------------------------------


def compare_values(instance, scores, value):
    root = instance.root
    assert off(plain_risk(root, scores.tolist()), value) < SUMS, "loops"
    assert off(Reference(instance.program).value(scores), value) < SUMS, "numpy"


def compare_cvxpy(instance, scores, value):
    import cvxpy as cp

    unknown = cp.Variable(instance.rows)
    unknown.value = scores
    expression, limits = cvxpy_model(instance.root, unknown)
    assert expression.is_dcp()
    assert all(limit.violation().max() <= SUMS for limit in limits)
    assert off(expression.value, value) < SUMS, "cvxpy"


def compare_jax(instance, scores, value, gradient):
    """One program for both: primitive by primitive, the loops in them would take seconds."""
    import jax

    def both(tree, theta):  # made anew each time, so that nothing is taken from before a bug is planted
        risk = jax_reading.JaxRisk()
        return (
            jax.value_and_grad(risk, argnums=1)(tree, theta)
            if instance.program.smooth
            else (risk(tree, theta),)
        )

    with jax.enable_x64(True):
        found = jax.jit(both)(jax_reading.JaxRisk.prepare(instance.root), jax.numpy.asarray(scores))
    assert off(found[0], value) < SUMS, "jax"
    if instance.program.smooth:
        assert off(found[1], gradient) < SUMS, "slope in jax"


def compare_balls(instance, scores, value, others):
    """The enclosure is thin; the tangent less its slack is below the risk elsewhere."""
    with at_precision(128):
        balls = balls_reading.in_balls(scores)
        enclosed, slope, slack = balls_reading.tangent_in_balls(instance.program, balls)
        assert float(enclosed.rad()) < tolerance("128 bits") * LARGEST
        assert off(float(enclosed), value) < SUMS, "balls"
        # what is no number would pass all comparisons
        assert -SUMS < float(slack) < SUMS * max(1.0, abs(value)), "slack in balls"
        assert not slack < 0, "slack"
        for other in others:
            there, *_ = balls_reading.tangent_in_balls(instance.program, balls_reading.in_balls(other))
            below = enclosed - slack + (slope * (balls_reading.in_balls(other) - balls)).sum()
            assert not below > there, "minorant in balls"
        # Fenchel's inequality for multipliers made in floats, as proofs of duals take them; nearly an equality
        chosen = conjugate.multipliers(instance.program, scores)
        found = conjugate.feasible(instance.program, balls_reading.Balls(), chosen)
        cost, slopes = conjugate.conjugate(instance.program, balls_reading.Balls(), found)
        if instance.program.smooth or len(np.unique(scores)) == len(scores):  # at a kink there are several
            assert off(slope.astype(float), slopes.astype(float)) < SUMS, "slope in balls"
        below = (slopes * balls).sum() - cost
        assert not below > enclosed, "conjugate in balls"
        assert float(enclosed - below) < SUMS * max(1.0, abs(value), float(abs(cost))), "conjugate in balls"


def compare_subgradients(instance, scores, value, gradient, others):
    size = max(1.0, abs(value), float(np.abs(gradient).sum()))
    for other in others:
        there = evaluated(instance, other)
        if there is not None:
            below = value + gradient @ (other - scores)
            assert below <= there[0] + SUMS * max(size, abs(there[0])), "subgradient"


def compare_slopes(instance, scores, value, gradient, direction):
    """Differences of values and of gradients, away from kinks."""
    made, h = instance.program, tolerance("difference_step")
    if not made.smooth:
        return
    ends = [evaluated(instance, scores + side * h * direction) for side in (1.0, -1.0)]
    if None in ends:
        return
    size = max(abs(value), float(np.abs(gradient).max()))
    assert off((ends[0][0] - ends[1][0]) / (2.0 * h), gradient @ direction, size) < DIFFERENCES, "gradient"
    if not made.bends:
        return
    product = hessian_product(made, scores)(direction)
    # the third derivative of a value of this size
    assert off((ends[0][1] - ends[1][1]) / (2.0 * h), product, size) < 10.0 * DIFFERENCES, "second derivative"
    if has_columns(made):
        again, slope, found = curvature(made, scores)
        columns = found.shares.toarray()
        assert off(again, value) < SUMS
        assert off(slope, gradient) < SUMS
        form = found.diagonal * direction - columns @ (found.rates * (columns.T @ direction))
        assert off(form, product, size) < SUMS, "diagonal and columns"


def compare_conjugate(instance, scores, value, gradient):
    """Fenchel's equality at the best multipliers, which satisfy their constraints."""
    made, numbers = instance.program, language.Numpy()
    cost, slopes = conjugate.conjugate(made, numbers, conjugate.multipliers(made, scores))
    assert numbers.violation < tolerance("same numbers in conjugates"), "multipliers"
    assert off(slopes @ scores - cost, value, abs(cost)) < SUMS, "Fenchel's equality"
    if made.smooth:  # at a kink rounding may choose another subgradient
        assert off(slopes, gradient) < SUMS, "slopes"


def compare_reference(instance, scores, value, gradient, others):
    """What certificates rest on: the value, a function below the risk, and a bound on the sizes of all terms."""
    made = instance.program
    reference = Reference(made)
    found = reference.below(scores)
    size = max(1.0, float(np.abs(found.slopes).sum()))
    assert found.value == reference.value(scores)
    assert off(found.value, value) < SUMS, "reference"
    cost, _ = conjugate.conjugate(made, language.Numpy(), conjugate.multipliers(made, scores))
    assert off(found.offset, -cost, abs(value) + size) < SUMS, "offset"
    assert off(found.slopes @ scores + found.offset, value, abs(cost)) < SUMS, "Fenchel's equality"
    for other in others:
        there = evaluated(instance, other)
        if there is not None:
            below = found.offset + found.slopes @ other
            assert below <= there[0] + SUMS * max(size, abs(there[0])), "below"
    whole, pulls = sizes_of_terms(made, found.values, found.parts)
    assert whole >= (1.0 - SUMS) * abs(value), "size"
    assert (pulls >= (1.0 - SUMS) * np.abs(found.slopes)).all(), "sizes of slopes"
    most = reference.sizes.most(float(np.abs(scores).max()), found.values, found.multipliers, found.parts)
    assert whole <= (1.0 + SUMS) * most, "most"


def compare_bounds(instance, scores, value, seed):
    """Fenchel and Young at multipliers that are far off and then made feasible."""
    made, rng, numbers = instance.program, np.random.default_rng(seed), language.Numpy()
    given_ones = {
        k: rng.uniform(0.0, 2.0, np.shape(v)) * v + rng.choice([0.0, 1.0]) * rng.normal(size=np.shape(v))
        for k, v in conjugate.multipliers(made, scores).items()
    }
    near = conjugate.feasible(made, language.Numpy(), given_ones)
    assert {k: len(v) for k, v in near.items()} == conjugate.sizes(made)
    with np.errstate(over="ignore"):
        cost, slopes = conjugate.conjugate(made, numbers, near)
    assert numbers.violation < tolerance("same numbers in conjugates"), "nearby"
    assert not math.isnan(cost)
    size = max([1.0, abs(value), *(float(np.abs(v).max()) for v in near.values())])
    for other in (scores, np.zeros(instance.rows), rng.normal(size=instance.rows)):
        there = evaluated(instance, other)
        if there is not None:
            assert slopes @ other - cost <= there[0] + SUMS * max(size, abs(there[0])), "lower bound"


def wide_for(instance):
    """Return the least width from which on log-sum-exps are smoother."""
    return Smoothing(instance.program).first_width


def compare_smoothing(instance, scores, value, direction, width):
    """A smooth function below the risk: differences, both forms of its Hessian, and what its multipliers prove."""
    made, h = instance.program, tolerance("difference_step")
    if not can_be_smooth(made):
        return
    smoothing = Smoothing(made)
    here = smoothing.risk(scores, width)
    size = max(abs(here.value), float(np.abs(here.gradient).sum()))
    if not size < LARGEST:
        return
    assert off(here.risk, value, size) < SUMS, "risk beside a smooth one"
    assert here.value <= here.risk + SUMS * max(1.0, size), "a smooth function above the risk"
    ahead, behind = (smoothing.risk(scores + side * h * direction, width) for side in (1.0, -1.0))
    slope = here.gradient @ direction
    assert off((ahead.value - behind.value) / (2.0 * h), slope, size) < DIFFERENCES, "smooth gradient"
    risks = SmoothedRisks(np.eye(instance.rows), smoothing)
    found = risks.at(scores, width)
    product = found.product()(direction)
    bend = max(size, float(np.abs(found.product()(np.abs(direction))).max()), size / width)
    difference = (ahead.gradient - behind.gradient) / (2.0 * h)
    assert off(difference, product, bend) < 10.0 * DIFFERENCES, "second derivative of a smooth function"
    apart = any(isinstance(node, PairMeans) for node in made.nodes)
    assert off(found.matrix() @ direction, product, bend) < (tolerance("shares apart") if apart else SUMS), (
        "matrix"
    )
    whole = hessian_product(here.program, scores)(direction)
    assert off(product, whole, bend) < SUMS, "product"
    if risks.lists_pairs:
        assert (np.diag(found.matrix()) <= 2.0 * found.diagonal() + SUMS * max(1.0, bend)).all(), "diagonal"
    wider, narrower = (smoothing.risk(scores, width * (1.0 + side * h)) for side in (1.0, -1.0))
    drift = (wider.gradient - narrower.gradient) / (2.0 * h * width)
    assert off(drift, here.drift(), bend) < 10.0 * DIFFERENCES, "drift"
    assert off(found.along(direction)(0.0), (here.value, slope), size) < SUMS, "line"
    there = smoothing.risk(scores + 0.3 * direction, width)
    assert off(found.along(direction)(0.3)[0], there.value, size) < SUMS, "line"
    offset, slopes = below(made, here.program, scores)
    assert off(offset, here.offset, size) < SUMS, "offset"
    assert off(slopes, here.gradient, size) < SUMS, "slopes below"
    with at_precision(128):
        enclosed, balls = below_in_balls(made, here.program, balls_reading.in_balls(scores))
        assert off(float(enclosed), offset, size) < SUMS, "below in balls"
        assert off(balls.astype(float), slopes, size) < SUMS, "below in balls"
        for other in (np.zeros(instance.rows), direction, scores):
            at_other = balls_reading.in_balls(other)
            there, *_ = balls_reading.tangent_in_balls(made, at_other)
            assert not enclosed + (balls * at_other).sum() > there, "below in balls"


def compare_far_out(instance, scores, value):
    """The recession function by a slope far out, the infimum by values, the shift by a difference."""
    made = instance.program
    for other in (scores, scores + 3.0, scores - 3.0, -3.0 * scores):
        there = evaluated(instance, other)
        assert there is None or recession.infimum(made) <= there[0] + SUMS * max(1.0, abs(there[0])), (
            "infimum"
        )
    rate, moved = recession.shift(made), evaluated(instance, scores + 3.0)
    if rate is not None and moved is not None:
        assert off(moved[0] - value, 3.0 * rate, abs(value)) < SUMS, "shift"
    slope = recession.recession(made, scores)
    ends = [evaluated(instance, t * scores) for t in (0.5, 1.0, 2.0, 2.5e3, 5e3)]
    if math.isfinite(slope) and None not in ends:
        values = [one[0] for one in ends]
        # log-sum-exps come near their asymptote like log n / t
        assert off((values[4] - values[3]) / 2.5e3, slope, abs(value)) < tolerance("recession"), "recession"
        if recession.falls(made, scores, 1e-13):
            heights = [one - t * slope for t, one in zip((0.5, 1.0, 2.0), values, strict=False)]
            assert heights[0] >= heights[1] - SUMS * abs(value) >= heights[2] - 2.0 * SUMS * abs(value), (
                "falls"
            )


def compare_formula(instance):
    text = latex(instance.root)
    depth = 0
    for sign in text:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    assert text.count(r"\bigl") == text.count(r"\bigr")
    names = {node.axis.name for _, node in instance.program.leaves}
    letters = {"positive": "f_{i}", "negative": "f_{k}", "rows": "f_{r}"}
    # rows up to a grade are called j
    of_levels = any(isinstance(node, CumulativeLogSumExp) for node in instance.program.nodes)
    assert all(letters[name] in text or (of_levels and "f_{j}" in text) for name in names)


def compare_all(seed):
    """Compare all readings of one instance but JAX's, which takes long."""
    random = Random(seed)
    instance = random_instance(random)
    compare_formula(instance)
    for scores_of in (tied_scores, scores_apart):
        scores = scores_of(random, instance.rows)
        others = [scores_apart(random, instance.rows) for _ in range(2)]
        found = evaluated(instance, scores)
        if found is None:
            continue
        compare_values(instance, scores, found[0])
        compare_cvxpy(instance, scores, found[0])
        compare_balls(instance, scores, found[0], others[:1])
        compare_subgradients(instance, scores, *found, others)
        compare_conjugate(instance, scores, *found)
        compare_reference(instance, scores, *found, others)
        compare_bounds(instance, scores, found[0], seed)
        compare_far_out(instance, scores, found[0])
        if scores_of is scores_apart:
            compare_slopes(instance, scores, *found, others[0])
            # of the last two widths log-sum-exps have one, too
            for width in ((0.05, 1.0, 20.0)[seed % 3], *(f * wide_for(instance) for f in (1.5, 1e3))):
                compare_smoothing(instance, scores, found[0], others[0], width)
