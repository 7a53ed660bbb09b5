"""The formulations, one a file, and their registry.

To add one: write its file, and add one line here. Generic tests, the verifier and the command line read ``REGISTRY``.
"""

from __future__ import annotations

from convexrank.problem import Problem
from convexrank.problems.p_norm_push import PNormPush

REGISTRY: dict[str, type[Problem]] = {
    "PNormPush": PNormPush,
}

__all__ = ["REGISTRY", *REGISTRY]  
