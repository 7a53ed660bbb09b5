"""The loops as pure JAX functions of pytrees: one compiled program serves all problems of a shape class, or a batch."""
