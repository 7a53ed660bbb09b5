"""The processes of one JAX program: what each gives is gathered from all, in their order, under a watch."""

from __future__ import annotations

import json
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, TypeVar

import numpy as np

from convexrank.backend.interruption import OutOfTimeError, handled_by
from convexrank.backend.jax_oracles import shape_class
from convexrank.data.shards.watch import RankError, Watch

Array = np.ndarray
T = TypeVar("T")

# The word of a rank before its numbers: all is well, out of time, Ctrl-C, an error. All ranks end by the worst.
_WELL, _LATE, _STOPPED, _FAILED = range(4)
# Words: vectors of more are gathered in blocks, the last one filled up, so that one program serves all lengths. To
# compile another one takes longer than to gather a block.
_LONG, _BLOCK = 1 << 15, 1 << 18


class Ranks:
    """The ranks of a program, one for each process; one alone where JAX's processes are not connected.

    Parameters
    ----------
    timeout : float
        Seconds that a rank may be silent while others wait for it.
    processes : sequence of int, optional
        JAX's numbers of the processes that take part, this one among them; by default all of them.

    Attributes
    ----------
    index, count : int
        The number of this rank, from 0, and how many there are.
    """

    def __init__(self, timeout: float, processes: Sequence[int] | None = None) -> None:
        self.index, self.count, self.timeout = 0, 1, timeout
        self.end = np.inf
        self._step, self._interrupted = 0, False
        self._gather: Callable[[Array], Array] | None = None
        jax = sys.modules.get("jax")
        if jax is None or not jax.distributed.is_initialized():
            return
        self._members = sorted(range(jax.process_count()) if processes is None else processes)
        self.index, self.count = self._members.index(jax.process_index()), len(self._members)
        if self.count > 1:
            self._connect(_coordinator())

    def _connect(self, store: Any) -> None:
        self._store = store
        # counted by the store, so that ranks agree on the name of the first, the second, ...
        company = "-".join(map(str, self._members))
        made = store.key_value_increment(f"convexrank/made/{company}/{self.index}", 1)
        self._name = f"convexrank/{company}/{made}"
        self._watch = Watch(store, self._name, self.index, self.count, self.timeout)
        self._inbox: SimpleQueue[Any] = SimpleQueue()
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(
            target=_serve, args=(self._inbox, self._outbox), name="convexrank-ranks", daemon=True
        ).start()
        weakref.finalize(self, _close, self._watch, self._inbox).atexit = False

    def heartbeat(self) -> None:
        """Note that this rank has got further."""
        if self.count > 1:
            self._watch.heartbeat()

    @contextmanager
    def running(self, seconds: float) -> Iterator[None]:
        """End what runs inside after so many seconds, or by Ctrl-C in one process, on all ranks at the same step.

        Yields
        ------
        None
            Ctrl-C waits for the next step; a second one does not.
        """

        def note(*_: Any) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True

        self.end = time.perf_counter() + seconds
        try:
            with handled_by(note) if self.count > 1 else nullcontext():
                yield
        finally:
            self.end = np.inf
        if self._interrupted:  # after the last step: nobody else knows of it
            self._interrupted = False
            raise KeyboardInterrupt

    # --- words ------------------------------------------------------------------------------------------------------

    def exchange(self, said: Any) -> list[Any]:
        """Return what all ranks say, in their order: anything that JSON takes.

        Raises
        ------
        RankError
            When a rank is silent.
        """
        if self.count == 1:
            return [said]
        step = self._begin(0)
        self._store.key_value_set(f"{self._name}/said/{step}/{self.index}", json.dumps(said))
        since, found = time.monotonic(), []
        for rank in range(self.count):
            while (text := self._read(f"{self._name}/said/{step}/{rank}")) is None:
                if reason := self._watch.verdict(since):
                    self._break(reason)
            found.append(json.loads(text))
        # who is here has read what was said before
        self._store.key_value_delete(f"{self._name}/said/{step - 1}/{self.index}")
        self._watch.depart()
        return found

    def _read(self, key: str) -> str | None:
        try:
            return self._store.blocking_key_value_get(key, int(500 * self._watch.interval))
        except RuntimeError:  # not there yet, or no answer
            time.sleep(0.1 * self._watch.interval)
            return None

    # --- numbers ----------------------------------------------------------------------------------------------------

    def gather(self, compute: Callable[[], Array], length: int, same: Any = b"") -> Array:
        """Return what all ranks compute, one row for each; what goes wrong on one is raised on all.

        Parameters
        ----------
        compute : callable
            Gives a vector in float64.
        length : int
            Its length, the same on all ranks.
        same : bytes or array
            What it is computed from, which has to be the same on all ranks.

        Raises
        ------
        RankError
            When another rank raises an error, is silent, or computes from something else.
        OutOfTimeError, KeyboardInterrupt
            When another rank does.
        """
        vector, error = np.zeros(length), None
        try:
            if self._interrupted:
                self._interrupted = False
                raise KeyboardInterrupt
            if time.perf_counter() > self.end:
                raise OutOfTimeError
            vector = compute()
        except BaseException as caught:  # noqa: BLE001 - raised again once the others know
            error = caught
        if self.count == 1:
            if error is not None:
                self.end = np.inf
                raise error
            return vector[None]
        state = _state_of(error)
        if state == _FAILED:
            self._store.key_value_set(f"{self._name}/failed/{self._step + 1}/{self.index}", _words(error))
        found = self._collective(np.concatenate(([state, zlib.crc32(same), length], vector)))
        self._judge(found[:, 0], error)
        for column, what in ((1, "point"), (2, "size")):
            if (found[:, column] != found[0, column]).any():
                self._differ(int(np.argmax(found[:, column] != found[0, column])), what)
        return found[:, 3:]

    def each(self, compute: Callable[[], T]) -> T:
        """Return what this rank computes, once that has gone well on all ranks; raises as :meth:`gather` does."""
        found: list[T] = []

        def noted() -> Array:
            found.append(compute())
            return np.zeros(0)

        self.gather(noted, 0)
        return found[0]

    def run(self, call: Callable[[], T]) -> T:
        """Return what a call returns in which all ranks wait for one another, as in a program over a mesh.

        Raises
        ------
        RankError
            When another rank is silent, or the call fails.
        """
        return call() if self.count == 1 else self._watched(call, -1)

    def _judge(self, states: Array, error: BaseException | None) -> None:
        """Raise the worst of what went wrong anywhere."""
        worst = states.max()
        if worst == _WELL:
            return
        self.end = (
            np.inf
        )  # time was up for all at once; what can be said of the point so far has its own limit
        culprit = int(np.argmax(states == worst))
        if error is not None and states[self.index] == worst:
            raise error
        if worst == _LATE:
            raise OutOfTimeError
        if worst == _STOPPED:
            raise KeyboardInterrupt
        text = self._read(f"{self._name}/failed/{self._step}/{culprit}")
        raise RankError(f"rank {culprit} of {self.count}: {text}") from error

    def _differ(self, rank: int, what: str) -> NoReturn:
        raise RankError(
            f"rank {rank} of {self.count} computes something else than rank 0 (another {what}); all ranks have to run "
            "the same program: the same starting point, callbacks that decide alike, processors of one kind; after "
            "Ctrl-C on one rank alone, start anew."
        )

    def gather_any(self, values: Array, sizes: Array) -> list[Array]:
        """Return vectors of one type, whatever it is, and of these sizes, of all ranks."""
        if self.count == 1:
            return [values]
        words = -(-int(sizes.max()) * values.itemsize // 8)
        room = np.zeros(words, dtype=np.int64)
        room.view(np.uint8)[: values.nbytes] = np.ascontiguousarray(values).view(np.uint8)
        found = self._collective(room).view(np.uint8)
        return [
            row[: size * values.itemsize].view(values.dtype) for row, size in zip(found, sizes, strict=True)
        ]

    # --- under the watch --------------------------------------------------------------------------------------------

    def _begin(self, size: int) -> int:
        if self._watch.broken:
            raise RankError(self._watch.broken)
        self._step += 1
        self._watch.arrive(self._step, size)
        return self._step

    def _collective(self, vector: Array) -> Array:
        """Gather vectors of one length by JAX."""
        # bits, of few sizes: nothing of a number is touched, and little is compiled
        size = len(vector)
        length = shape_class(size) if size <= _LONG else -(-size // _BLOCK) * _BLOCK
        words = np.zeros(length, dtype=np.int64)
        words[: len(vector)] = vector.view(np.int64)
        found = self._watched(partial(self._gathered, words), len(vector))
        return np.ascontiguousarray(found[:, : len(vector)]).view(vector.dtype)

    def _gathered(self, words: Array) -> Array:
        if self._gather is None:
            self._gather = _gatherer(self._members)
        blocks = [self._gather(words[first : first + _BLOCK]) for first in range(0, len(words), _BLOCK)]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def _watched(self, call: Callable[[], T], size: int) -> T:
        """Make a call that may hang in another thread; this one looks after the other ranks meanwhile."""
        self._begin(size)
        since, failed, said = time.monotonic(), None, ""
        self._inbox.put(call)
        while True:
            try:
                done, found = self._outbox.get(timeout=0.5 * self._watch.interval)
            except Empty:
                pass
            except KeyboardInterrupt:
                if self._interrupted:
                    raise
                self._interrupted = True  # the others count on this step; it stops at the next
                continue
            else:
                if done:
                    self._watch.depart()
                    return found
                failed, said = time.monotonic(), str(found)
            if reason := self._watch.verdict(since, failed, said):
                self._break(reason)

    def _break(self, reason: str) -> NoReturn:
        self._watch.finish(reason)
        raise RankError(reason)


def _coordinator() -> Any:
    """The client of JAX's key-value store. It has no public name; what reads checkpoints of JAX takes it from here."""
    from jax._src import distributed

    return distributed.global_state.client


def _state_of(error: BaseException | None) -> int:
    if error is None:
        return _WELL
    if isinstance(error, OutOfTimeError):
        return _LATE
    return _STOPPED if isinstance(error, KeyboardInterrupt) else _FAILED


def _words(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {error}"


def _close(watch: Watch, inbox: SimpleQueue[Any]) -> None:
    watch.close()
    inbox.put(None)


def _serve(inbox: SimpleQueue[Any], outbox: SimpleQueue[Any]) -> None:
    """Make one call after the other: what may hang, hangs here."""
    while (call := inbox.get()) is not None:
        try:
            outbox.put((True, call()))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller gets it
            outbox.put((False, error))
        del call  # it holds the ranks, whose end ends this thread


def _gatherer(members: Sequence[int]) -> Callable[[Array], Array]:
    """Return what gathers a vector from all ranks to all: one device of each, gloo between CPUs, NCCL between GPUs."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    first: dict[int, Any] = {}
    for device in jax.devices():
        first.setdefault(device.process_index, device)
    mesh = Mesh(np.array([first[process] for process in members]), ("ranks",))
    cut, whole = NamedSharding(mesh, PartitionSpec("ranks")), NamedSharding(mesh, PartitionSpec())
    return partial(_gathered, jax.jit(_same, out_shardings=whole), cut, len(members))


def _same(x: Any) -> Any:
    return x


def _gathered(copied: Any, cut: Any, count: int, vector: Array) -> Array:
    import jax

    # halves of words, so that JAX needs no 64 bits; this way to put them on a device takes half of device_put's time
    own = vector.view(np.int32)[None]
    parts = jax.make_array_from_callback((count, own.shape[1]), cut, lambda _: own)
    return np.asarray(copied(parts).addressable_data(0)).view(np.int64)
