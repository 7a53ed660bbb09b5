"""Arrays that cannot be written to by accident."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse


def read_only(value: Any) -> Any:
    """Return an array, a CSR array or a tuple of them with the same numbers in the same memory, not to be written to.

    The flags of what is given stay as they are; anything else is returned as it is.
    """
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value = value.view()
            value.flags.writeable = False
        return value
    if type(value) is sparse.csr_array:  # isinstance asks abstract bases, which takes longer than all of this
        held = copy(value)
        for part in ("data", "indices", "indptr"):
            setattr(held, part, read_only(getattr(held, part)))
        return held
    return tuple(map(read_only, value)) if type(value) is tuple else value


def repeated(value: float, count: int) -> np.ndarray:
    """Return so many entries of one number, which take the memory of one."""
    found = np.ndarray(count, np.float64, np.array([value]), strides=(0,))
    found.flags.writeable = False
    return found
