"""Losses of others: mistakes that were published are found and made small, right losses raise no alarm."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import convexrank as cr
from convexrank.modelling import log_sum_exp, mean, softplus
from convexrank.verification.loss.instance import Instance, shrink
from tests.published_losses import MISTAKES, cross_entropy, hinge, margins, pair_hinge

P = cr.problems
HINGE = {"price": "identity", "loss": "hinge", "instances": 8}


def hinges(f, **options):
    return cr.verify_loss(f, P.Push, **{**HINGE, **options})


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.source)
def test_published_mistakes_are_found_on_small_instances(mistake):
    options = {"instances": 16, **mistake.parameters, **mistake.options}
    right = cr.verify_loss(mistake.right, mistake.problem, **{**options, "instances": 4})
    assert right.agrees, str(right)
    report = cr.verify_loss(mistake.wrong, mistake.problem, **options)
    assert not report.agrees
    assert report.first.check.startswith(mistake.check), str(report)
    assert len(report.first.scores) == mistake.rows, str(report)
    assert (report.first.scores == np.round(report.first.scores)).all()


def test_the_instance_can_be_copied_and_gives_both_values():
    def without_margin(scores, y):
        return np.maximum(0.0, -margins(scores, y)).sum()

    first = hinges(without_margin, scale=1.0, shift=0.0).first
    names = {"np": np, "cr": cr, "f": without_margin}
    *arrays, found, expected = first.text.splitlines()
    exec("\n".join(arrays), names)
    assert names["scores"].tolist() == [0.0, 0.0]
    assert eval(found, names) == first.found == 0.0
    assert eval(expected, names) == pytest.approx(first.expected) == 1.0


def test_a_counterexample_by_labels_is_given_as_a_difference():
    def doubled(scores, y, qid):
        return cross_entropy(2.0 * scores, y, qid)

    report = cr.verify_loss(doubled, P.ListNet, shift="labels", unordered="finite", instances=16)
    *arrays, found, expected = report.first.text.splitlines()
    names = {"np": np, "cr": cr, "f": doubled}
    exec("\n".join(arrays), names)
    assert eval(found, names) == pytest.approx(report.first.found)
    assert eval(expected, names) == pytest.approx(report.first.expected)


# --- scale and shift ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "formula"),
    [
        (lambda s, y: 1.0, "1 × Push + 0"),
        (lambda s, y: 0.25, "0.25 × Push + 0"),
        (lambda s, y: 3.0 / len(s), "3 / rows × Push + 0"),
        (lambda s, y: 1.0 / (y == 1).sum(), "1 / positives × Push + 0"),
        (lambda s, y: 1.0 / len(margins(s, y)), "1 / pairs × Push + 0"),
        (lambda s, y: len(margins(s, y)) / len(s) ** 2, "1 × pairs / rows² × Push + 0"),
    ],
)
def test_normalisations_are_named(factor, formula):
    report = hinges(lambda s, y: factor(s, y) * np.maximum(0.0, 1.0 - margins(s, y)).sum())
    assert report.agrees, str(report)
    assert report.formula == f"f = {formula}"


def test_scale_and_shift_that_are_given_are_held():
    plus = lambda s, y: hinge(s, y) * len(margins(s, y)) + 2.0  # noqa: E731
    assert hinges(plus).formula == "f = 1 × Push + 2"
    assert hinges(plus, scale=1.0, shift=2.0).agrees
    assert not hinges(plus, scale=2.0).agrees
    assert not hinges(plus, shift=1.0).agrees
    assert hinges(plus, shift="labels").agrees


def test_a_loss_that_falls_where_the_formulation_rises_does_not_agree():
    def minus(scores, y):
        return 3.0 - 2.0 * hinge(scores, y)

    report = hinges(minus)
    assert not report.agrees
    (hint,) = [line for line in report.hints if "falls where" in line]
    assert "f = -2 / pairs × Push + 3" in hint
    assert any("f = -1 / pairs × Push + 0;" in line for line in hinges(lambda s, y: -hinge(s, y)).hints)
    assert hinges(lambda scores, y: -hinge(scores, y) * len(margins(scores, y)), scale=-1.0).agrees


def test_a_constant_of_labels_is_a_disagreement_that_says_so():
    report = cr.verify_loss(cross_entropy, P.ListNet, instances=16)
    assert not report.agrees
    assert "shift='labels'" in repr(report)
    assert "unordered='finite'" in repr(
        cr.verify_loss(cross_entropy, P.ListNet, shift="labels", instances=16)
    )
    assert cr.verify_loss(cross_entropy, P.ListNet, shift="labels", unordered="finite", instances=16).agrees


def test_another_choice_of_a_parameter_is_proposed():
    report = cr.verify_loss(pair_hinge, P.RankSVM, instances=16)
    assert not report.agrees
    assert "hint: f fits RankSVM(normalize=False): f = 1 × RankSVM + 0" in repr(report)


# --- what a loss may do ---------------------------------------------------------------------------------------------


def test_a_loss_that_changes_its_arguments():
    def changing(scores, y):
        value = hinge(scores, y)
        scores -= scores.max()
        return value

    first = hinges(changing).first
    assert (first.check, first.found) == ("arguments stay unchanged", "scores")


def test_a_loss_that_draws_at_random():
    rng = np.random.default_rng(0)
    assert hinges(lambda s, y: hinge(s, y) + rng.normal()).first.check == "same value twice"


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda s, y: np.maximum(0.0, 1.0 - s), r"an array of shape \(\d+,\), expected one number"),
        (lambda s, y: hinge(s, y) + 1j, "a complex number, expected a real number"),
        (lambda s, y: "much", "'much', expected a real number"),
        (lambda s, y: None, "None, expected a real number"),
        (lambda s, y: np.nan, "nan"),
        (lambda s, y: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda s, y: [s, [y, y]], r"list, expected a real number|an array of shape"),
    ],
)
def test_what_is_no_number_is_reported_with_the_instance(f, said):
    report = hinges(f)
    assert not report.agrees
    assert report.first.check.startswith("value")
    assert len(report.first.scores) == 2
    assert re.search(said, report.first.found)


def test_whole_numbers_are_numbers():
    assert not hinges(lambda s, y: int(hinge(s, y))).agrees
    assert hinges(lambda s, y: hinge(s, y) if hinge(s, y) else 0).agrees


def test_a_loss_that_raises_on_a_query_without_an_order():
    def strict(scores, y, qid):
        if any(np.ptp(y[qid == query]) == 0 for query in np.unique(qid)):
            raise ValueError("a query has one label only\nand more")
        return pair_hinge(scores, y, qid)

    first = cr.verify_loss(strict, P.RankSVM, normalize=False, instances=16).first
    assert first.check == "value: queries without an order"
    assert first.found == "ValueError: a query has one label only"
    assert (len(first.scores), first.qid.tolist()) == (1, [0])


def test_one_class_is_noted_and_not_judged():
    report = hinges(hinge)
    assert report.agrees
    assert report.hints == (
        "note: f gives nan for y = [0, 0], where no formulation of two classes is defined",
    )
    assert hinges(lambda s, y: np.maximum(0.0, 1.0 - margins(s, y)).sum()).hints == ()


def test_gradients_of_ones_own_are_compared():
    def with_gradient(sign):
        def loss(scores, y):
            pairs = y[:, None] > y[None, :]
            gaps = 1.0 - scores[:, None] + scores[None, :]
            pulls = np.where(pairs & (gaps > 0), 1.0, 0.0)
            return (pulls * gaps).sum(), sign * (pulls.sum(axis=0) - pulls.sum(axis=1))

        return loss

    assert hinges(with_gradient(1.0)).agrees
    wrong = hinges(with_gradient(-1.0))
    assert wrong.first.check.startswith("gradient")
    assert len(wrong.first.scores) == 2
    assert all(bad == 0 for name, _, bad in wrong.checks if name.startswith("value"))
    assert "a gradient of shape ()" in repr(hinges(lambda s, y: (hinge(s, y), 0.0)))


def test_a_gradient_that_is_a_little_wrong_is_found():
    def scaled(factor):
        def loss(scores, y):
            pairs = y[:, None] > y
            pulls = (pairs & (scores[:, None] - scores < 1.0)) / pairs.sum()
            slope = pulls.sum(axis=0) - pulls.sum(axis=1)
            return hinge(scores, y), np.append(factor * slope[0], slope[1:])

        return hinges(loss, instances=32)

    assert scaled(1.0).agrees
    assert scaled(1.0 + 5e-5).first.check.startswith("gradient")


def test_a_list_that_is_cut_off_at_ten_is_found():
    def cut(scores, y):
        kept = np.sort(np.argsort(-scores, kind="stable")[:10])
        return hinge(scores[kept], y[kept])

    assert hinges(hinge).agrees
    assert len(hinges(cut, instances=32).first.scores) > 10


def test_queries_are_given_where_a_loss_takes_them():
    alone = cr.verify_loss(
        lambda s, y: np.maximum(0.0, 1.0 - margins(s, y)).sum(), P.RankSVM, normalize=False, instances=16
    )
    assert alone.agrees
    assert not any(name == "numbers of queries" for name, _, _ in alone.checks)
    together = cr.verify_loss(pair_hinge, P.RankSVM, normalize=False, instances=16)
    assert any(name == "numbers of queries" and made for name, made, _ in together.checks)


def test_the_instance_of_a_problem_is_the_first():
    seen = []

    def spying(scores, y, qid):
        seen.append((y.tolist(), qid.tolist()))
        return pair_hinge(scores, y, qid)

    X, y, qid = np.ones((5, 1)), [3, 0, 3, 0, 0], ["b", "a", "b", "a", "b"]
    problem = P.RankSVM(X, y, qid, "hinge", normalize=False, l2=0.5)
    assert cr.verify_loss(spying, problem, instances=8).agrees
    assert ([3.0, 0.0, 3.0, 0.0, 0.0], [0, 1, 0, 1, 0]) in seen
    assert {label for labels, _ in seen for label in labels} == {0.0, 3.0}
    seen.clear()
    assert cr.verify_loss(spying, P.RankSVM, y=y, qid=qid, normalize=False, instances=8).agrees
    assert ([3, 0, 3, 0, 0], [0, 1, 0, 1, 0]) in seen


# --- other libraries ------------------------------------------------------------------------------------------------


def jax_hinge(scores, y):
    import jax.numpy as jnp

    gaps = jnp.maximum(0.0, 1.0 - scores[:, None] + scores[None, :])
    return jnp.where(y[:, None] > y[None, :], gaps, 0.0).sum()


def test_losses_in_jax_are_differentiated_by_jax():
    report = hinges(jax_hinge, instances=8)
    assert report.agrees, str(report)
    assert report.backend == "jax"
    assert any(name.startswith("gradient") and made for name, made, _ in report.checks)


def test_losses_in_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def loss(scores, y):
        gaps = scores[y == 1][:, None] - scores[y == 0]
        return torch.nn.functional.softplus(-gaps).mean()

    logistic = {"price": "identity", "loss": "logistic", "instances": 16}
    report = cr.verify_loss(loss, P.Push, **logistic)
    assert report.agrees, str(report)
    assert (report.backend, report.formula) == ("torch", "f = 1 / pairs × Push + 0")
    detached = cr.verify_loss(lambda s, y: loss(s.detach(), y), P.Push, **logistic)
    assert detached.first.check.startswith("gradient")
    single = cr.verify_loss(lambda s, y: loss(s.float(), y), P.Push, **logistic)
    assert single.agrees, str(single)


@pytest.mark.parametrize("name", ["softmax", "hinge", "logistic"])
def test_no_alarm_on_rax(name):
    rax = pytest.importorskip("rax", reason="rax is not installed")
    import jax
    import jax.numpy as jnp

    if name == "softmax":

        def top_one(scores, y):
            return rax.softmax_loss(scores, y, label_fn=lambda labels, where: jax.nn.softmax(labels))

        options = {"shift": "labels", "unordered": "finite"}
        report = cr.verify_loss(top_one, P.ListNet, instances=16, **options)
        assert report.formula == "f = 1 × ListNet + any function of y"
    else:
        loss = {"hinge": rax.pairwise_hinge_loss, "logistic": rax.pairwise_logistic_loss}[name]
        options = {"reduce_fn": jnp.sum}
        report = cr.verify_loss(
            lambda s, y, qid: loss(s, y, segments=qid, **options), P.CrucialPairs, loss=name, instances=16
        )
        assert report.formula == "f = 1 × CrucialPairs + 0"
        mean = cr.verify_loss(
            lambda s, y, qid: loss(s, y, segments=qid), P.CrucialPairs, loss=name, instances=16
        )
        assert mean.agrees, str(mean)
        assert mean.formula == "f = 1 / pairs × CrucialPairs + 0"
    assert report.agrees, str(report)


@pytest.mark.parametrize(
    ("problem", "parameters"),
    [
        (P.PNormPush, {"p": 4.0}),
        (P.ConvexRisk, {"cost": "logistic"}),
        (P.NDCGRegression, {}),
        (P.RankCosine, {}),
    ],
)
def test_the_definition_agrees_with_itself_for_other_formulations(problem, parameters):
    """The compiled oracle of each problem as the loss: another statement than the reference."""

    def oracle(scores, y, qid):
        named = {"qid": qid} if "qid" in problem.__dataclass_fields__ else {}
        if len(np.unique(y)) < 2 or (named and all(np.ptp(y[qid == q]) == 0 for q in np.unique(qid))):
            return 0.0
        made = problem(scores[:, None], y, **named, **parameters)
        return made.objective([1.0])

    one_list = lambda scores, y: oracle(scores, y, None)  # noqa: E731
    loss = oracle if "qid" in problem.__dataclass_fields__ else one_list
    report = cr.verify_loss(loss, problem, instances=8, **parameters)
    assert report.agrees, str(report)


# --- reports and arguments ------------------------------------------------------------------------------------------


class DeclaredPush(cr.Formulation):
    """The IR Push as an expression: a risk of two classes, for which queries are an option."""

    def risk(self, f):
        return mean(softplus(log_sum_exp(f.negative) - f.positive))


def test_a_declared_risk_of_two_classes_gets_labels_of_two_classes():
    def of_one_list(scores, y):
        levels = np.logaddexp.reduce(scores[y == 0]) if (y == 0).any() else np.nan
        return float(np.logaddexp(0.0, levels - scores[y == 1]).mean()) if (y == 1).any() else np.nan

    def mean_of_negatives(scores, y):
        return of_one_list(np.where(y == 0, scores - np.log(max((y == 0).sum(), 1)), scores), y)

    def by_query(scores, y, qid):
        return sum(
            of_one_list(scores[qid == q], y[qid == q]) for q in np.unique(qid) if np.ptp(y[qid == q]) > 0
        )

    assert cr.verify_loss(of_one_list, DeclaredPush, instances=40).agrees
    assert cr.verify_loss(by_query, DeclaredPush, instances=40).agrees
    assert not cr.verify_loss(mean_of_negatives, DeclaredPush, instances=40).agrees


def test_reports_show_the_result():
    report = hinges(hinge)
    assert repr(report).splitlines()[:2] == [
        "LossReport: agrees with Push(price='identity', loss='hinge') on 8 instances, in numpy",
        "f = 1 / pairs × Push + 0",
    ]
    assert re.search(r"order of rows +\d+ +0\n", str(report))
    wrong = hinges(lambda s, y: -hinge(s, y) + hinge(-s, y))
    assert "first disagreement: value" in repr(wrong)
    assert "(assumed: no scale fits)" in repr(wrong)
    assert "<table>" in wrong._repr_html_()
    assert repr(wrong.first).startswith(wrong.first.check)
    assert json.loads(json.dumps(wrong.to_dict()))["first"]["text"] == wrong.first.text
    again = hinges(lambda s, y: -hinge(s, y) + hinge(-s, y))
    assert again.to_dict() == wrong.to_dict()


@pytest.mark.parametrize(
    ("f", "changed", "named"),
    [
        (3, {}, "f is 3"),
        (lambda scores: 0.0, {}, "f takes"),
        (lambda a, b, c, d: 0.0, {}, "f takes"),
        (lambda a, b, *, c: 0.0, {}, "f takes"),
        (hinge, {"problem": 3}, "problem is 3"),
        (hinge, {"problem": P.PageRank}, "problem is"),
        (hinge, {"problem": P.KernelLearnedDivergence}, "problem is"),
        (hinge, {"problem": P.Push.random(0)}, "problem is an instance"),
        (hinge, {"strength": 3}, "parameters has strength"),
        (hinge, {"X": 3}, "parameters has X"),
        (hinge, {"loss": "hing"}, "loss"),
        (hinge, {"y": [1, 1]}, "y has 1 class"),
        (hinge, {"qid": [1, 1]}, "y is None"),
        (hinge, {"y": [1, 0], "sample_weight": [1, 1]}, "sample_weight is given, but f"),
        (hinge, {"scale": 0}, "scale is 0"),
        (hinge, {"scale": "labels"}, "scale is 'labels'"),
        (hinge, {"scale": np.inf}, "scale is inf"),
        (hinge, {"shift": "fits"}, "shift is 'fits'"),
        (hinge, {"unordered": "no"}, "unordered is 'no'"),
        (hinge, {"backend": "cupy"}, "backend is 'cupy'"),
        (hinge, {"instances": 0}, "instances is 0"),
        (hinge, {"instances": 10**6}, "instances is 1000000"),
        (hinge, {"seed": -1}, "seed is -1"),
        (hinge, {"tol": 0.0}, "tol is 0"),
    ],
)
def test_bad_arguments_are_named(f, changed, named):
    options = {**HINGE, "problem": P.Push, **changed}
    with pytest.raises((TypeError, ValueError), match=re.escape(named)):
        cr.verify_loss(f, **options)


def test_a_shrunk_instance_still_fails_and_nothing_simpler_next_to_it_does():
    rng = np.random.default_rng(0)
    start = Instance(rng.normal(size=9) * 20, rng.integers(0, 4, 9).astype(float), np.repeat([0, 1, 2], 3))
    found = shrink(start, lambda one: bool((one.scores > 7.5).any() and (one.y == 2).any()))
    assert sorted(found.scores.tolist()) in ([8.0], [0.0, 8.0])
    assert 2.0 in found.y
    assert len(found) <= 2
    assert len(found.groups) == 1
