"""Peers of the objectives of the top that are fitted by a function: LightGBM, and a linear model by LibAUC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Part = tuple[Any, Any]

# Steps of LibAUC's optimizer, rows of each class in a batch, and its rate.
STEPS, POSITIVES, NEGATIVES, _RATE = 2_000, 64, 256, 0.02


def boosted(leaves: int, rate: float, fit: Part, choose: Part) -> Any:
    """Fit LightGBM with early stopping on the rows to choose."""
    import lightgbm

    options = {"objective": "binary", "num_leaves": leaves, "learning_rate": rate, "metric": "auc"}
    options |= {"num_threads": 1, "verbose": -1, "seed": 0, "force_col_wise": True}
    rows, held = (lightgbm.Dataset(*part, free_raw_data=False) for part in (fit, choose))
    stopping = lightgbm.early_stopping(30, verbose=False)
    return lightgbm.train(options, rows, 500, valid_sets=[held], callbacks=[stopping])


@dataclass(frozen=True)
class Line:
    """Weights of a linear ranker."""

    weights: Any

    def predict(self, X: Any) -> Any:
        """Return the scores."""
        return X @ self.weights


def libauc(temperature: float, decay: float, fit: Part, _: Part) -> Line:
    """Fit a linear ranker to LibAUC's smooth partial AUC, the worst weights near uniform ones, with its optimizer."""
    from libauc.losses import pAUC_DRO_Loss
    from libauc.optimizers import SOPAs

    loss = pAUC_DRO_Loss(data_len=len(fit[1]), Lambda=temperature)
    return _trained(loss, SOPAs, {"weight_decay": decay}, fit, STEPS)


def libauc_hinges(max_fpr: float, l2: float, fit: Part, steps: int = STEPS) -> Line:
    """Minimise the objective of PartialAUC with the squared hinge by LibAUC's loss and its optimizer."""
    from libauc.losses import pAUC_CVaR_Loss
    from libauc.optimizers import SOPA

    loss = pAUC_CVaR_Loss(len(fit[1]), int((fit[1] > 0).sum()), beta=max_fpr, eta=1.0)
    return _trained(loss, SOPA, {"weight_decay": l2}, fit, steps)


def _trained(loss: Any, method: Any, options: dict[str, float], fit: Part, steps: int) -> Line:
    """Steps on batches of both classes; a tenth of the length for the last quarter."""
    import numpy as np
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    X, y = (np.asarray(part, dtype=np.float32) for part in fit)
    rng, rows, labels = np.random.default_rng(0), torch.from_numpy(X), torch.from_numpy(y)
    classes = (np.flatnonzero(y > 0), POSITIVES), (np.flatnonzero(y <= 0), NEGATIVES)
    line = torch.nn.Linear(X.shape[1], 1, bias=False)
    torch.nn.init.zeros_(line.weight)
    optimizer = method(line.parameters(), lr=_RATE, mode="adam", verbose=False, **options)
    for step in range(steps):
        if step == steps * 3 // 4:
            optimizer.param_groups[0]["lr"] /= 10.0
        some = [rng.choice(places, min(count, len(places)), replace=False) for places, count in classes]
        batch = torch.from_numpy(np.concatenate(some))
        optimizer.zero_grad()
        loss(line(rows[batch]), labels[batch], batch).backward()
        optimizer.step()
    return Line(line.weight.detach().numpy()[0].astype(np.float64))
