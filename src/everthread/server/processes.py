"""Several processes that serve on one socket: the first starts the others, and replaces one that dies.

One that dies soon after its start is replaced after a pause that doubles. Where none has ever begun to serve, there is
no sense in that, and the service ends with an error (a store that cannot be opened, say). A signal to the first is
passed on; should the first be killed, the others notice, and end in good order.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from everthread.errors import CannotStart
from everthread.server.metrics import SHARED, forget_process

SETTLED = 10.0  # seconds after which a process that dies had started well
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
PATIENCE = 30.0  # seconds that processes have to end once they were told to; then they are killed

_log = logging.getLogger("everthread.processes")

Target = Callable[..., None]


class Process:
    """One of several processes. It writes to a pipe once it serves."""

    def __init__(self, target: Target, args: tuple[object, ...]) -> None:
        context = multiprocessing.get_context("spawn")
        self.heard, tells = context.Pipe(duplex=False)
        self.process: SpawnProcess = context.Process(target=target, args=(*args, tells), daemon=False)
        self.process.start()
        tells.close()
        self.since = time.monotonic()
        self.serves = False

    @property
    def died_soon(self) -> bool:
        return not self.serves or time.monotonic() - self.since < SETTLED

    def tell(self, number: int) -> None:
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, number)

    def close(self) -> None:
        self.heard.close()
        if self.process.pid is not None:
            forget_process(self.process.pid)
        self.process.close()


class Processes:
    """`target` is run in each process, with the args and a connection that it writes to once it serves."""

    def __init__(
        self, target: Target, args: tuple[object, ...], count: int, began: Callable[[], None] = lambda: None
    ) -> None:
        self._target, self._args, self._count, self._began = target, args, count, began
        self._all: list[Process] = []
        self._due: list[float] = []  # when those that died are replaced
        self._failures = 0
        self._served = False  # whether any ever did

    def serve(self) -> None:
        """Until told to end. CannotStart."""
        with _figures_together(), _signals() as signals:
            self._due = [0.0] * self._count
            try:
                while not signals.got:
                    self._begin_due()
                    self._wait(signals.woken)
                    self._look()
            finally:
                self._end(signals.got)

    def _begin_due(self) -> None:
        now = time.monotonic()
        due = [at for at in self._due if at <= now]
        self._due = [at for at in self._due if at > now]
        self._all += [Process(self._target, self._args) for _ in due]

    def _wait(self, woken: socket.socket) -> None:
        """Until a process has something to say, has died or is to be begun, or a signal came."""
        heard = [one.heard for one in self._all if not one.serves]
        seconds = max(0.0, min(self._due) - time.monotonic()) if self._due else None
        wait([woken, *heard, *(one.process.sentinel for one in self._all)], seconds)

    def _look(self) -> None:
        for one in self._all:
            one.serves = one.serves or _says(one.heard)
            if one.serves and not self._served:
                self._served = True
                self._began()
        for one in [one for one in self._all if not one.process.is_alive()]:
            self._all.remove(one)
            status = one.process.exitcode
            self._failures = self._failures + 1 if one.died_soon else 0
            one.close()
            if not self._served:
                raise CannotStart(status)
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self._failures) if self._failures > 1 else 0.0
            _log.error("A process of the service ended with status %s: another begins in %.1f s", status, pause)
            self._due.append(time.monotonic() + pause)

    def _end(self, got: list[int]) -> None:
        """Tell all to end, and pass on what signals still come; kill those that do not end."""
        told, deadline = 0, time.monotonic() + PATIENCE
        for one in self._all:
            one.tell(signal.SIGTERM)
        while living := [one for one in self._all if one.process.is_alive()]:
            left = deadline - time.monotonic()
            for number in got[1 + told :]:
                told += 1
                for one in living:
                    one.tell(number)
            if left <= 0:
                for one in living:
                    one.tell(signal.SIGKILL)
            wait([one.process.sentinel for one in living], min(0.2, max(0.05, left)))
        for one in self._all:
            one.close()


class _Signals:
    def __init__(self, woken: socket.socket) -> None:
        self.got: list[int] = []
        self.woken = woken


@contextmanager
def _signals() -> Iterator[_Signals]:
    """The signals that ask for the end, as they come; `woken` can be read from then on."""
    woken, wakes = socket.socketpair()
    with woken, wakes:
        wakes.setblocking(False)
        signals = _Signals(woken)
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        for number in before:
            signal.signal(number, lambda got, _: signals.got.append(got))
        wake = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
        try:
            yield signals
        finally:
            signal.set_wakeup_fd(wake)
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def _figures_together() -> Iterator[None]:
    """A folder in which the processes write their figures, unless the environment names one."""
    if os.environ.get(SHARED):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="everthread-metrics-") as folder:
        os.environ[SHARED] = folder
        try:
            yield
        finally:
            del os.environ[SHARED]


def _says(heard: Connection) -> bool:
    """Whether a process has said that it serves. One that died has closed its end, and says no more."""
    with suppress(EOFError, OSError):
        return heard.poll() and heard.recv() == "serves"
    return False


def ended(problem: BaseException) -> None:
    """End a process that could not start, or could not go on."""
    _log.error("The service cannot go on: %s", problem)
    sys.exit(1)
