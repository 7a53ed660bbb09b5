"""Shared set-up: reproducible property tests, no display."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, settings

from convexrank.backend.compilation import UNOPTIMISED

os.environ["MPLBACKEND"] = "Agg"
# Nearly all programs of JAX here run a few times on a few rows: optimising them would take most of the time of their
# tests. The documentation is built with optimisation. What the caller sets comes last, and counts.
FLAGS = [f"--{name}={value}".lower() for name, value in UNOPTIMISED.items()]
os.environ["XLA_FLAGS"] = " ".join((*FLAGS, os.environ.get("XLA_FLAGS", "")))
# Whoever asks only whether a test fails, as for a mutant, does not wait for the smallest example.
PHASES = [phase for phase in Phase if phase is not Phase.shrink or "CONVEXRANK_MUTANT" not in os.environ]
settings.register_profile(
    "convexrank", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], phases=PHASES
)
settings.load_profile("convexrank")


def pytest_configure(config: pytest.Config) -> None:
    """Share compiled programs among the processes of this run, and nothing with the user's own."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="convexrank-tests-")
        os.environ["CONVEXRANK_CACHE_DIR"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while tests are collected: nearly all that is made then stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of garbage collections: they stay, and there are a million objects.

    And collect less often: a model or a trace makes many times the 700 objects after which Python looks for garbage.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture
def heeded():
    """A process that a shell started in the background ignores Ctrl-C, and Python leaves it at that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
