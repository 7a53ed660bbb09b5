"""Prove the bound at the fast answer, and check whether the bound in floats is below the proved one."""

from __future__ import annotations

from dataclasses import replace

from convexrank.core.results import CertificateError, Solution
from convexrank.verification.comparison import Case, Comparison

# The allowed difference of the two bounds: the bound in floats is rounded.
_ROUNDING = 1e-9


def with_proof(case: Case, found: Comparison) -> Comparison:
    """Return what was found with the outcome of a proof.

    Parameters
    ----------
    case : Case
        The instance.
    found : Comparison
        What the comparison found.
    """
    solution: Solution = case.solve_fast()
    try:
        proof = case.problem.prove(solution)
    except CertificateError as error:
        return replace(found, proved=False, unproved=str(error))
    failures = list(found.failures)
    claimed = solution.certificate
    if claimed.kind == proof.kind and claimed.gap < proof.least * (1.0 - _ROUNDING):
        failures.append(f"the certificate says {claimed.gap:.6g}, and at least {proof.least:.6g} is proved")
    if claimed.kind == proof.kind == "global" and claimed.lower_bound > proof.value + _ROUNDING * max(
        1.0, abs(proof.value)
    ):
        failures.append(
            f"the certificate's lower bound {claimed.lower_bound:.10g} is above the value {proof.value:.10g}"
        )
    return replace(found, proved=True, failures=tuple(failures))
