"""Formulations as losses of PyTorch: values and gradients of the risk, a network, and a loss of LibAUC."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import convexrank as cr
from convexrank import objectives
from tests.tolerances import tolerance

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.7).astype(int)


LOSSES = {
    "push": (cr.problems.PNormPush, {"p": 4}),
    "top": (cr.problems.TopPush, {}),
    "partial AUC": (cr.problems.PartialAUC, {"max_fpr": 0.3, "loss": "logistic"}),
}


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_are_those_of_the_problem(name):
    formulation, options = LOSSES[name]
    X, y = rows()
    problem = formulation(X, y, l2=1.0, **options)
    w = torch.tensor([0.5, -1.0, 0.25], dtype=torch.float64, requires_grad=True)
    loss = objectives.torch(formulation, **options)(torch.tensor(X) @ w, torch.tensor(y))
    (2.0 * loss).backward()
    value, gradient = problem._risk_and_score_gradient(X @ w.detach().numpy())
    assert loss.item() == pytest.approx(value, rel=tolerance("summation"))
    np.testing.assert_allclose(w.grad, 2.0 * X.T @ gradient, rtol=tolerance("summation"), atol=1e-12)
    assert problem.definition(X @ w.detach().numpy()) == pytest.approx(loss.item(), rel=1e-9)


def test_differences_weights_and_sizes_of_queries():
    loss = objectives.torch(cr.problems.PNormPush, p=2)
    scores = torch.randn(
        8, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True
    )
    y, weights, group = [1, 0, 0, 1, 0, 1, 1, 0], torch.ones(8) * 2, [5, 3]
    assert torch.autograd.gradcheck(lambda s: loss(s, y, weights, group), (scores,))
    once = loss(scores, y)
    assert loss(scores, y, weights).item() == pytest.approx(once.item())
    by_query = loss(scores, y, None, torch.tensor(group)).item()
    alone = [loss(scores[:5], y[:5]).item(), loss(scores[5:], y[5:]).item()]
    assert by_query == pytest.approx(sum(alone))


def test_types_and_shapes_are_those_of_the_scores():
    _, y = rows(20)
    loss = objectives.torch(cr.problems.PNormPush, p=1)
    scores = torch.zeros(20, 1, requires_grad=True)
    found = loss(scores, torch.tensor(y)[:, None])
    found.backward()
    assert (found.dtype, found.shape, scores.grad.dtype, scores.grad.shape) == (
        *(torch.float32, torch.Size([])),
        *(torch.float32, torch.Size([20, 1])),
    )
    with pytest.raises(ValueError, match="expected exactly two"):
        loss(scores, np.zeros(20))
    with pytest.raises(TypeError, match="declares its risk"):
        objectives.torch("push")


def test_a_network_learns_what_a_line_cannot():
    X, y = rows(400)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    loss, data = objectives.torch(cr.problems.PNormPush, p=4), torch.tensor(X, dtype=torch.float32)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(150):
        optimizer.zero_grad()
        loss(network(data), y).backward()
        optimizer.step()
    line = cr.PushRanker(p=4).fit(X, y)
    with torch.no_grad():
        scores = network(data)[:, 0].numpy()
    assert cr.metrics.precision_at(y, scores, 40) > cr.metrics.precision_at(y, line.predict(X), 40) + 0.2


def test_the_pairwise_loss_of_libauc_is_the_convex_risk():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LibAUC's own
        losses = pytest.importorskip(
            "libauc.losses.auc", reason="LibAUC is not installed", exc_type=ImportError
        )
    _, y = rows(60)
    made = np.random.default_rng(1).normal(size=60)
    values, gradients = [], []
    ours = objectives.torch(cr.problems.ConvexRisk, cost="squared_hinge")
    theirs = losses.PairwiseAUCLoss(surr_loss="squared_hinge")
    for function in (lambda s: ours(s, y), lambda s: theirs(s[:, None], torch.tensor(y)[:, None])):
        scores = torch.tensor(made, requires_grad=True)
        value = function(scores)
        value.backward()
        values.append(value.item())
        gradients.append(scores.grad.numpy())
    # ours is the mean over all pairs of rows, with 2/(n(n-1)); theirs the mean over positives and negatives
    ratio = 60 * 59 / 2 / (y.sum() * (60 - y.sum()))
    assert values[1] == pytest.approx(ratio * values[0], rel=1e-9)
    np.testing.assert_allclose(gradients[1], ratio * gradients[0], rtol=1e-9, atol=1e-12)
