"""A watch over the ranks: it distinguishes ranks that work, ranks that wait and ranks that are silent.

Collectives of JAX wait for ever for a process that does not join them (jax#38503). So each rank reports its state every
few seconds in the key-value store of JAX's coordinator, and reads the states of the others. A rank that waits too long
for a silent rank ends with an error that names the silent rank; the other ranks end with the same message.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

# Looks at the store in the time of the timeout, and the seconds between them, at least and at most.
_LOOKS, _SHORTEST, _LONGEST = 15, 0.1, 2.0
# Looks without a sign of life, and seconds, after which a rank that broke a connection counts as gone.
_MISSED, _SECONDS = 4, 2.0
# Timeouts that an exchange may take once all ranks are there.
_EXCHANGE = 4


class RankError(RuntimeError):
    """Another rank has failed, is silent, or computes something else: the message names it, on every rank.

    Examples
    --------
    >>> from convexrank.data import RankError
    >>> issubclass(RankError, RuntimeError)
    True
    """


@dataclass(frozen=True)
class _State:
    """The heartbeat of a rank: messages sent, step and size, whether it waits, what it did, how it ended."""

    spoken: int = 0
    step: int = 0
    size: int = 0
    waits: bool = False
    beats: int = 0
    end: str = ""

    def text(self) -> str:
        return f"{self.spoken} {self.step} {self.size} {self.waits:d} {self.beats} {self.end}"

    @classmethod
    def read(cls, text: str) -> _State:
        *numbers, end = text.split(" ", 5)
        spoken, step, size, waits, beats = map(int, numbers)
        return cls(spoken, step, size, bool(waits), beats, end)

    def is_at(self, step: int) -> bool:
        """Return whether the rank has come to a step, or is beyond it."""
        return (self.step, self.waits) >= (step, True)


@dataclass
class _Heard:
    """The last words of a rank, when it spoke last, and when it came forward last."""

    state: _State
    spoke: float
    moved: float


class Watch:
    """Speaks for this rank, and listens to the others, in a thread of its own.

    Parameters
    ----------
    store : object
        The client of JAX's coordinator.
    name : str
        Prefix of the keys; the same on all ranks.
    index, count : int
        The number of this rank, and how many there are.
    timeout : float
        Seconds without any progress after which a rank that others wait for is silent.
    """

    def __init__(self, store: Any, name: str, index: int, count: int, timeout: float) -> None:
        self.index, self.count, self.timeout = index, count, timeout
        self.interval = min(max(timeout / _LOOKS, _SHORTEST), _LONGEST)
        self.broken = ""
        self._store, self._folder = store, f"{name}/state"
        self._state, self._heard = _State(), dict[int, _Heard]()
        self._answered = time.monotonic()
        self._stop, self._wake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="convexrank-watch", daemon=True)
        self._thread.start()
        # after JAX's own, so that it runs before: the store is still there
        atexit.register(self.leave)

    def arrive(self, step: int, size: int) -> None:
        """Record that this rank waits at a step, of so many numbers, for the others."""
        self._state = replace(self._state, step=step, size=size, waits=True)

    def depart(self) -> None:
        """Record that this rank goes on."""
        self._state = replace(self._state, waits=False)

    def heartbeat(self) -> None:
        """Record progress of this rank."""
        self._state = replace(self._state, beats=self._state.beats + 1)

    def finish(self, reason: str) -> None:
        """Record the reason for the end of this rank."""
        self.broken = reason
        self._say_end(reason)

    def _say_end(self, reason: str) -> None:
        self._state = replace(self._state, end=" ".join(reason.split()))
        self._wake.set()

    # --- the thread -------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            last = self._stop.is_set()
            with suppress(
                Exception
            ):  # a store that does not answer is noticed by the time of its last answer
                self._talk()
            if last:
                return
            self._wake.wait(self.interval)
            self._wake.clear()

    def _talk(self) -> None:
        self._state = replace(self._state, spoken=self._state.spoken + 1)
        self._store.key_value_set(f"{self._folder}/{self.index}", self._state.text(), allow_overwrite=True)
        found = self._store.key_value_dir_get(self._folder)
        now = time.monotonic()
        for key, text in found:
            rank, state = int(key.rsplit("/", 1)[1]), _State.read(text)
            before = self._heard.get(rank)
            if before is None or before.state.spoken != state.spoken:
                moved = before is None or replace(before.state, spoken=state.spoken) != state
                self._heard[rank] = _Heard(state, now, now if moved or before is None else before.moved)
        self._answered = now

    # --- what is heard ----------------------------------------------------------------------------------------------

    def verdict(self, since: float, failed: float | None = None, error: str = "") -> str:
        """Return why the collective step cannot complete, or an empty string.

        Parameters
        ----------
        since : float
            Since when this rank waits.
        failed : float, optional
            When the collective broke down, if it did.
        error : str
            What it said.
        """
        now, patience, own = time.monotonic(), self.timeout, self._state
        if failed is not None:  # a connection is closed: whoever is alive says so soon
            since, patience = failed, min(self.timeout, max(_MISSED * self.interval, _SECONDS))
        others = [(rank, self._heard.get(rank)) for rank in range(self.count) if rank != self.index]
        for rank, heard in others:
            if heard is not None and heard.state.end:
                return heard.state.end
            if heard is not None and heard.state.is_at(own.step) and heard.state.size != own.size:
                return (
                    f"{self._named([rank])} and rank {self.index} do not compute the same at step {own.step}; all "
                    "ranks have to run the same program."
                )
        if now - max(self._answered, since) >= patience:
            return f"{self._named([0])} is silent: the coordinator of JAX, which runs there, does not answer."
        spoke = {rank: max(since, heard.spoke) if heard else since for rank, heard in others}
        moved = {rank: max(since, heard.moved) if heard else since for rank, heard in others}
        there = {rank for rank, heard in others if heard is not None and heard.state.is_at(own.step)}
        dead = [rank for rank, last in spoke.items() if now - last >= patience]
        stuck = [rank for rank, last in moved.items() if now - last >= self.timeout and rank not in there]
        if dead:
            return f"{self._named(dead)} is silent: no sign of life for {patience:g} s; its process is gone or stands."
        if stuck:
            return (
                f"{self._named(stuck)} is silent: its process lives, but has done nothing for {self.timeout:g} s while "
                "others wait for it; all ranks have to run the same program, and timeout= says how long one may take."
            )
        if failed is not None and now - failed >= self.timeout:
            return f"the ranks could not exchange their results, and all of them are there: {error}"
        if len(there) == len(others) and now - max(moved.values()) >= _EXCHANGE * self.timeout:
            return (
                f"all ranks are there, but their exchange takes longer than {_EXCHANGE * self.timeout:g} s; look at "
                "the network, or raise timeout=."
            )
        return ""

    def _named(self, ranks: list[int]) -> str:
        names = ", ".join(map(str, ranks))
        return (
            f"rank {names} of {self.count}" if len(ranks) == 1 else f"each of ranks {names} of {self.count}"
        )

    # --- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop listening, unless something is to be said at the end of the program."""
        if not self.broken:
            atexit.unregister(self.leave)
            self._end_thread()

    def _end_thread(self) -> None:
        self._stop.set()
        self._wake.set()
        self._thread.join(2.0)

    def leave(self) -> None:
        """Record the end of the program, and keep JAX from waiting for ranks that do not come."""
        error = getattr(sys, "last_value", None)  # what nobody has caught
        if not self.broken:
            why = f" with {type(error).__name__}: {error}" if error is not None else ""
            self._say_end(f"rank {self.index} of {self.count} has ended its program{why}.")
        if error is None and not self.broken:
            self._end_thread()
            return
        if self.index == 0:  # the store is here, and JAX ends the others when it is gone
            start = time.monotonic()
            while (waited := time.monotonic() - start) < self.timeout and self._are_there(waited):
                time.sleep(_SHORTEST)
        _end_without_jax(self.timeout)

    def _are_there(self, waited: float) -> bool:
        """Return whether another rank has still to read why this one ends, or has read it and is about to end."""
        now, patience = time.monotonic(), max(_MISSED * self.interval, _SECONDS)
        others = [heard for rank, heard in list(self._heard.items()) if rank != self.index]
        return any(
            now - heard.spoke < patience and (heard.state.end or waited < patience) for heard in others
        )


def _end_without_jax(seconds: float) -> None:
    """End the program, at the latest after so many seconds, once its other functions for the end have run.

    JAX's own function would wait minutes for the other ranks, so it is taken out. And what Python does after the last
    of these functions may crash or hang where threads are in a collective: the process ends before.
    """
    if clean_up := getattr(sys.modules.get("jax._src.api"), "clean_up", None):
        atexit.unregister(clean_up)
    with suppress(Exception):  # for what waits too, MPI's end for example: a thread that needs no interpreter
        faulthandler.dump_traceback_later(seconds, exit=True)
    sys.stderr = _LastStream(sys.stderr)


class _LastStream:
    """Standard error; Python flushes it when all functions for the end have run, and then the process ends."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def flush(self) -> None:
        with suppress(Exception):
            self._stream.flush()
        if sys.is_finalizing():
            os._exit(1)
