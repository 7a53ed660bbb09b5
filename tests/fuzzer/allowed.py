"""What the fuzzer lets pass, each with its reason. To be kept small."""

from __future__ import annotations

import re

from tests.fuzzer.judge import Finding

# The name of the function, the argument, what was found, as patterns of all of it; and why.
ALLOWED: list[tuple[str, str, str, str]] = []


def is_allowed(finding: Finding) -> bool:
    """Whether a finding is expected."""
    return any(
        re.fullmatch(name, finding.name)
        and re.fullmatch(parameter, finding.parameter)
        and re.fullmatch(kind, finding.kind)
        for name, parameter, kind, _ in ALLOWED
    )
