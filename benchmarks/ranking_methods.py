"""The methods of the dissertation's chapter 3 and its baselines, each as a function of the data and of l2."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

__all__ = ["METHODS", "REFERENCE", "STOPS", "STRENGTHS", "Method"]

# The chapter tries 1e-20, 1e-10, 1e-5, 1 and 10. The first three have no effect; here five that differ.
STRENGTHS = (1e-5, 1e-2, 1.0, 10.0, 100.0)
# Where the alternation of MR may stop; its passes run on to the trivial minimum.
STOPS = (1, 3, 10, 30)

_NAMES = {"squared": "squared", "KL": "kl", "I": "generalized_i"}


@dataclass(frozen=True)
class Method:
    """One line of the tables."""

    kind: str
    divergence: str
    build: Callable[..., Any]
    label: str = ""
    solver: str | None = None
    stops: tuple[int, ...] = ()  # passes after which the point is a candidate too
    same_as: str = ""  # the method that this one is, by mathematics: not run again
    tol: float = 1e-8
    beside: bool = True  # whether the printed entry of that kind and divergence is the same method

    @property
    def name(self) -> str:
        """What the tables say."""
        return self.label or f"{self.kind}, {self.divergence}"


def _problem(cls: str, *positional: Any, **options: Any) -> Callable[..., Any]:
    def build(X: Any, y: Any, groups: Any, l2: float) -> Any:
        import convexrank as cr

        return getattr(cr.problems, cls)(X, y, groups, *positional, l2=l2, **options)

    return build


def _with_constant(X: Any, y: Any, groups: Any, l2: float) -> Any:
    """The I-divergence without offsets, and one feature that is always 1."""
    import numpy as np

    import convexrank as cr

    wider = np.column_stack([X, np.ones(len(X))])
    return cr.problems.NDCGRegression(wider, y, groups, "generalized_i", offsets=False, l2=l2)


def _baselines() -> list[Method]:
    cases = [
        ("squared", _problem("NDCGRegression", "squared"), "NDCG regression, squared", True),
        ("I", _problem("NDCGRegression", "generalized_i", offsets=False), "NDCG regression, I", True),
        ("I", _with_constant, "NDCG regression, I, a constant feature", False),
        ("I", _problem("NDCGRegression", "generalized_i"), "NDCG regression, I, offsets", False),
        ("KL", _problem("ListNet", target="exp2"), "ListNet on gains (KL)", True),
        ("KL", _problem("ListNet"), "ListNet on softmax(y) (KL)", False),
        ("KL", _problem("XENDCG"), "XE-NDCG, γ = 1/2 (KL)", False),
        ("likelihood", _problem("ListMLE", normalize=True), "ListMLE", False),
    ]
    return [
        *(Method("baseline", name, build, label, beside=beside) for name, build, label, beside in cases),
        Method("RankSVM", "hinge", _problem("RankSVM", "hinge"), tol=1e-3),
        Method("RankSVM", "squared hinge", _problem("RankSVM", "squared_hinge")),
        Method("RankCosine", "not convex", _problem("RankCosine"), tol=1e-6),
    ]


def _margin_kl(X: Any, y: Any, groups: Any, l2: float, normalize: bool) -> Any:
    """KL targets add up to 1: a margin for which the largest query uses half of that; C_w as for the least φ'', 1."""
    import numpy as np

    import convexrank as cr

    largest = float(groups.sums(np.minimum(groups.gather(y), 2.0)).max())
    options = {"score_reg": 1.0, "l2": l2, "normalize": normalize}
    return cr.problems.MarginRetargeting(X, y, groups, "kl", 0.5 / largest, **options)


def _margins() -> list[Method]:
    """MEMR: margins of 1, but for KL. The constants of (3.17) are the least that Lemma 8 allows for the least φ''.

    For squares the margin only sets the scale of w, and changes no ranking without l2.
    """
    found = []
    for prefix, normalize in (("MEMR, normalised", True), ("MEMR", False)):
        squared = _problem("MarginRetargeting", "squared", 1.0, normalize=normalize)
        divergence = _problem(
            "MarginRetargeting", "generalized_i", 1.0, bound=(0.1, 4.0), normalize=normalize
        )
        found += [
            Method(prefix, "squared", squared),
            Method(prefix, "KL", partial(_margin_kl, normalize=normalize), tol=1e-6),
            Method(prefix, "I", divergence, tol=1e-6),
        ]
    return found


def _published() -> list[Method]:
    """MR as published: hidden order, simplex, offsets, by alternation from the grades."""
    found = []
    for prefix, normalize in (("MR, normalised", True), ("MR", False)):
        for name in ("squared", "KL"):
            build = _problem("Retargeting", _NAMES[name], normalize=normalize)
            found.append(Method(prefix, name, build, solver="alternating", stops=STOPS))
        found.append(replace(found[-1], divergence="I", same_as=found[-1].name))
    return found


METHODS: dict[str, Method] = {method.name: method for method in (*_margins(), *_published(), *_baselines())}
REFERENCE = next(iter(METHODS))
