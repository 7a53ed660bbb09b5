"""A first solve that is interrupted at a call, and a second one; prints what became of both as JSON."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import warnings
from typing import Any


def press_at(place: str, presses: int) -> list[str]:
    """Press Ctrl-C as a module runs its first function; for a number, at that call; for gc:module, in a collection.

    What a callback of the collector raises is dropped by Python. (A profile in a collection ends the process now and
    then, while the libraries of JAX are imported.) Return a list that is empty until then.
    """
    kind, _, module = place.rpartition(":")
    left, pressed = int(place) if place.isdecimal() else 0, list[str]()

    def press() -> None:
        pressed.append(place)
        for _ in range(presses):
            os.kill(os.getpid(), signal.SIGINT)

    def collected(phase: str, _: Any) -> None:
        if not pressed and module in sys.modules:
            press()

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal left
        if event != "call":
            return
        left -= 1
        if frame.f_globals.get("__name__") == module or left == 0:
            sys.setprofile(None)
            press()

    if kind == "gc":
        gc.callbacks.append(collected)
    else:
        sys.setprofile(watch)
    return pressed


def instance(name: str) -> tuple[Any, str]:
    """A problem whose first solve imports a package, and the method that does."""
    import numpy as np

    import convexrank as cr

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    if name == "jax":
        return cr.problems.PNormPush(X, y, p=4, l2=0.1), "jaxopt-lbfgs"
    if name == "numba":
        return cr.problems.PNormPush(X, y, p=4, l1=0.05), "working-sets"
    return cr.problems.PNormPush(X, y, p=4, l2=0.1), "exact"


def main(name: str, place: str, presses: int) -> None:
    """Solve twice."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    problem, solver = instance(name)
    pressed = press_at(place, presses)
    said: dict[str, Any] = {}
    try:
        said["first"] = problem.solve(solver, tol=1e-7, callback=lambda _: gc.collect()).status.name
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is reported
        said["first"] = type(error).__name__
    said["pressed"] = bool(pressed)
    sys.setprofile(None)
    said["restored"] = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    second = problem.solve(solver, tol=1e-7)
    print(json.dumps({**said, "second": second.status.name, "x": second.x.tolist()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
