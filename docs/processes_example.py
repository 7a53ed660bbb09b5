"""A push whose rows lie on several processes; each runs this file."""

import sys

import jax
import numpy as np

import convexrank as cr


def fit():
    """Fit the rows of all ranks; every rank returns the same solution."""
    rng = np.random.default_rng(jax.process_index())  # in earnest: the files of this rank
    X = rng.normal(size=(5000, 5)).astype(np.float32)
    y = X[:, 0] - X[:, 1] + rng.normal(size=len(X)) > 2

    shards = cr.data.Shards(X, y)
    return cr.problems.PNormPush(shards, shards.y, p=8, l2=1e-4).solve()


if __name__ == "__main__":
    if len(sys.argv) == 3:  # on one machine: number of this process, number of all
        rank, ranks = map(int, sys.argv[1:])
        jax.distributed.initialize("localhost:7800", ranks, rank, cluster_detection_method="deactivate")
    else:
        jax.distributed.initialize()
    solution = fit()
    if jax.process_index() == 0:
        print(solution)
