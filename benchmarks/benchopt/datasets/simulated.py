"""Normal features and a linear score with noise, a third of the rows positive."""

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Dense rows; the first tenth of the features carries the score."""

    name = "Simulated"
    parameters = {"n_samples, n_features": [(1_000, 100), (5_000, 500)], "seed": [0]}  # noqa: RUF012

    def get_data(self):
        """Return X of shape (n_samples, n_features) and labels 0 and 1."""
        rng = np.random.default_rng(self.seed)
        X = rng.normal(size=(self.n_samples, self.n_features))
        used = max(self.n_features // 10, 1)
        scores = X[:, :used] @ rng.normal(size=used)
        noisy = scores + scores.std() * rng.normal(size=self.n_samples)
        return {"X": X, "y": (noisy > np.quantile(noisy, 2 / 3)).astype(int)}
