"""Formulations as losses of LightGBM, XGBoost, CatBoost and PyTorch: gradient and curvature in the scores.

Each function takes a formulation whose risk is declared, such as :class:`convexrank.problems.PNormPush` or a class of
your own, with its parameters other than data. Labels, weights and groups come from the trainer. Gradient and curvature
are those of n times the risk, n the number of rows, so that a row counts about 1 as in the trainer's own objectives.
The curvature is an upper bound on the Hessian, its diagonal part; where the risk has kinks it is the size of the
gradient, so that a leaf moves by at most 1. For PyTorch it is the risk itself, with its gradient. Trees and
networks are no convex models: nothing is certified here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from convexrank.backend.interruption import import_module
from convexrank.data import check_vector
from convexrank.problems._formulation import Formulation
from convexrank.solvers.row_faces import HessianProducts, ScoreRisk

__all__ = ["Objective", "catboost", "lightgbm", "torch", "xgboost"]

Array = np.ndarray

# Trainers divide by sums of curvatures.
_LEAST = 1e-16


@dataclass(frozen=True)
class Objective:
    """A declared formulation as gradient and curvature in the scores of any model.

    Parameters
    ----------
    formulation : type
        A subclass of :class:`convexrank.Formulation`.
    parameters : dict
        Its parameters other than X, y, qid and sample_weight.

    Raises
    ------
    TypeError
        When it is no such class.

    Examples
    --------
    >>> import convexrank as cr
    >>> objective = cr.objectives.Objective(cr.problems.PNormPush, {"p": 1})
    >>> gradient, curvature = objective([0.0, 0.0, 0.0], [1, 0, 0])
    >>> gradient.tolist(), curvature.tolist()
    ([-3.0, 1.5, 1.5], [3.0, 1.5, 1.5])
    """

    formulation: type[Formulation]
    parameters: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.formulation, type) or not issubclass(self.formulation, Formulation):
            raise TypeError(
                f"formulation is {self.formulation!r}, expected a class that declares its risk, such as "
                "convexrank.problems.PNormPush, or a subclass of convexrank.Formulation."
            )

    def __call__(
        self, scores: Any, y: Any, sample_weight: Any = None, group: Any = None
    ) -> tuple[Array, Array]:
        """Return gradient and curvature, each of shape (n,).

        Parameters
        ----------
        scores, y : array-like, shape (n,)
            Scores of the model, and labels or grades.
        sample_weight : array-like, shape (n,), optional
            Weights of the rows.
        group : array-like of int, optional
            Sizes of the queries, one after the other.

        Raises
        ------
        ValueError, TypeError
            When the formulation refuses labels, weights or queries, or sizes do not add up to n.
        """
        scores = check_vector(scores)
        n, made = len(scores), self._problem(len(scores), y, sample_weight, group)
        _, gradient = made.face(ScoreRisk).value_and_gradient(scores)
        has_curvature = "TwiceDifferentiable" in made.capabilities
        curvature = (
            made.face(HessianProducts).products(scores).diagonal if has_curvature else np.abs(gradient)
        )
        return n * gradient, np.maximum(n * curvature, _LEAST)

    def risk(self, scores: Any, y: Any, sample_weight: Any = None, group: Any = None) -> tuple[float, Array]:
        """Return the risk and its gradient, shape (n,); arguments and errors are those of a call."""
        scores = check_vector(scores)
        made = self._problem(len(scores), y, sample_weight, group)
        value, gradient = made.face(ScoreRisk).value_and_gradient(scores)
        return float(value), gradient

    def _problem(self, n: int, y: Any, sample_weight: Any, group: Any) -> Any:
        """Return the formulation on rows without features."""
        data = {}
        if group is not None:
            sizes = np.asarray(group, dtype=np.int64)
            if sizes.sum() != n:
                raise ValueError(f"group adds up to {sizes.sum()}, expected the number of rows, {n}.")
            data["qid"] = np.repeat(np.arange(len(sizes)), sizes)
        if sample_weight is not None:
            data["sample_weight"] = sample_weight
        # features are not looked at; the penalty makes every risk have a minimiser
        return self.formulation(np.zeros((n, 1)), y, **{**self.parameters, **data, "l2": 1.0})


def lightgbm(formulation: type[Formulation], **parameters: Any) -> Callable[[Any, Any], tuple[Array, Array]]:
    """Return an objective for ``lightgbm.train({"objective": ...}, dataset)``.

    Parameters
    ----------
    formulation : type
        The formulation.
    **parameters : object
        Its parameters other than data.

    Returns
    -------
    function of predictions and Dataset
        Labels, weights and groups are those of the dataset. LightGBM's scikit-learn interface has another order of
        arguments: ``lambda y, scores, weight, group: objective(scores, y, weight, group)`` with an `Objective`.

    Raises
    ------
    TypeError
        When the formulation does not declare its risk.

    Examples
    --------
    >>> import convexrank as cr
    >>> push = cr.objectives.lightgbm(cr.problems.PNormPush, p=4)
    >>> # lightgbm.train({"objective": push, "num_leaves": 15}, lightgbm.Dataset(X, y))
    """
    objective = Objective(formulation, parameters)

    def of(predictions: Array, dataset: Any) -> tuple[Array, Array]:
        return objective(predictions, dataset.get_label(), dataset.get_weight(), dataset.get_group())

    return of


def xgboost(formulation: type[Formulation], **parameters: Any) -> Callable[[Any, Any], tuple[Array, Array]]:
    """Return an objective for ``xgboost.train(parameters, matrix, obj=...)``.

    Parameters
    ----------
    formulation : type
        The formulation.
    **parameters : object
        Its parameters other than data.

    Returns
    -------
    function of predictions and DMatrix
        Labels, weights and groups are those of the matrix. XGBoost has one weight per group where there are groups.

    Raises
    ------
    TypeError
        When the formulation does not declare its risk.

    Examples
    --------
    >>> import convexrank as cr
    >>> push = cr.objectives.xgboost(cr.problems.PNormPush, p=4)
    >>> # xgboost.train({"base_score": 0.0}, xgboost.DMatrix(X, y), 50, obj=push)
    """
    objective = Objective(formulation, parameters)

    def of(predictions: Array, matrix: Any) -> tuple[Array, Array]:
        ends = matrix.get_uint_info("group_ptr")
        group = np.diff(ends.astype(np.int64)) if len(ends) else None
        weight = matrix.get_weight()
        if group is not None and len(weight) == len(group):
            weight = np.repeat(weight, group)
        return objective(predictions, matrix.get_label(), weight if len(weight) else None, group)

    return of


@dataclass  # CatBoost writes into it
class _OfCatBoost:
    """An objective as CatBoost asks for it."""

    objective: Objective

    def calc_ders_range(self, approxes: Any, targets: Any, weights: Any) -> list[tuple[float, float]]:
        """Return, for each row, first and second derivative of what is maximised."""
        gradient, curvature = self.objective(np.array(approxes), np.array(targets), weights)
        return list(zip((-gradient).tolist(), (-curvature).tolist(), strict=True))


def catboost(formulation: type[Formulation], **parameters: Any) -> Any:
    """Return an objective for ``catboost.CatBoost({"loss_function": ..., "eval_metric": ...})``; rows are one list.

    Parameters
    ----------
    formulation : type
        The formulation.
    **parameters : object
        Its parameters other than data.

    Returns
    -------
    object with ``calc_ders_range``
        CatBoost tells its own objectives nothing of groups, and cuts rows into blocks unless ``thread_count`` is 1.

    Raises
    ------
    TypeError
        When the formulation does not declare its risk.

    Examples
    --------
    >>> import convexrank as cr
    >>> push = cr.objectives.catboost(cr.problems.PNormPush, p=1)
    >>> push.calc_ders_range([0.0, 0.0], [1.0, 0.0], None)
    [(2.0, -2.0), (-2.0, -2.0)]
    """
    return _OfCatBoost(Objective(formulation, parameters))


def torch(formulation: type[Formulation], **parameters: Any) -> Callable[..., Any]:
    """Return a loss for networks in PyTorch: the risk of the scores, differentiable once.

    Value and gradient are computed in float64 on the CPU, and have the type and the device of the scores. Where the
    risk has kinks the gradient is one subgradient. A risk of pairs or of the top of a list is that of the rows of the
    call: pass large batches with rows of both classes, or the whole list.

    Parameters
    ----------
    formulation : type
        The formulation.
    **parameters : object
        Its parameters other than data.

    Returns
    -------
    function of scores, y, sample_weight and group
        Scores are a tensor of shape (n,) or (n, 1); the others are tensors or arrays, of which the last two are
        optional: weights of rows, and sizes of queries, one after the other. The loss is a tensor without dimensions.

    Raises
    ------
    TypeError
        When the formulation does not declare its risk.

    Examples
    --------
    >>> import convexrank as cr
    >>> push = cr.objectives.torch(cr.problems.PNormPush, p=4)
    >>> # loss = push(network(X), y); loss.backward()
    """
    objective = Objective(formulation, parameters)

    def loss(scores: Any, y: Any, sample_weight: Any = None, group: Any = None) -> Any:
        return _loss_of_torch().apply(scores, objective, y, sample_weight, group)

    return loss


@cache
def _loss_of_torch() -> Any:
    """The class of functions with a gradient of their own, made where PyTorch is."""
    pytorch: Any = import_module("torch")
    once_differentiable = import_module("torch.autograd.function").once_differentiable

    def array(given: Any) -> Any:
        return given.detach().cpu().numpy() if isinstance(given, pytorch.Tensor) else given

    class Risk(pytorch.autograd.Function):
        """The risk of scores, with its gradient."""

        @staticmethod
        def forward(ctx: Any, scores: Any, objective: Objective, *data: Any) -> Any:
            labels, *others = (array(one) for one in data)
            flat = array(scores).reshape(-1).astype(np.float64)
            value, gradient = objective.risk(flat, np.reshape(labels, -1), *others)
            ctx.save_for_backward(pytorch.as_tensor(gradient).reshape(scores.shape).to(scores))
            return scores.new_tensor(value)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *upstream: Any) -> Any:
            (gradient,) = ctx.saved_tensors
            return upstream[0] * gradient, None, None, None, None

    return Risk
