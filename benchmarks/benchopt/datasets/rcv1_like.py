"""Sparse rows with the shape of rcv1: words by Zipf's law, rows of length 1, a fifth positive."""

import numpy as np
from benchopt import BaseDataset
from scipy import sparse


class Dataset(BaseDataset):
    """The default has as many rows, columns and words a row as the training rows of rcv1."""

    name = "rcv1-like"
    requirements = ["scipy"]  # noqa: RUF012
    parameters = {"n_samples, n_features, n_words": [(20_000, 47_000, 75)], "seed": [0]}  # noqa: RUF012

    def get_data(self):
        """Return a sparse X of shape (n_samples, n_features) and labels 0 and 1."""
        rng, n, d = np.random.default_rng(self.seed), self.n_samples, self.n_features
        shares = 1.0 / np.arange(1, d + 1) ** 0.9
        columns = rng.choice(d, size=(n, self.n_words), p=shares / shares.sum())
        entries = np.repeat(np.arange(n), self.n_words), columns.ravel()
        X = sparse.csr_array((rng.random(columns.size) + 0.1, entries), shape=(n, d))
        X.sum_duplicates()
        X = sparse.csr_array(sparse.diags_array(1.0 / np.sqrt(X.multiply(X).sum(axis=1))) @ X)
        common = max(d // 16, 1)  # among the commonest words, some make the score
        weights = np.zeros(d)
        weights[rng.choice(common, max(common // 15, 1), replace=False)] = 5.0
        weights *= rng.normal(size=d)
        scores = X @ weights
        noisy = scores + 0.5 * scores.std() * rng.normal(size=n)
        return {"X": X, "y": (noisy > np.quantile(noisy, 0.8)).astype(int)}
