"""The command at a terminal of its own: keys are pressed, and what is shown is read."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType
from typing import Self

from tests.waiting import PATIENCE

UP, LEFT, BEGINNING, CTRL_C, CTRL_D, ENTER = "\x1b[A", "\x1b[D", "\x01", "\x03", "\x04", "\r"

_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_RUN = "from everthread.testing.scripted import *; {before}; from everthread.cli import main; main()"


class Terminal:
    """`before`: Python that is run first, in the same process: `script("slow", "…", pace=0.1)`."""

    def __init__(self, *arguments: str, before: str = "pass", columns: int = 80, **environ: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        env = {**os.environ, "TERM": "xterm", "LANG": "C.UTF-8", **environ}
        env.pop("COLUMNS", None)

        def take() -> None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        command = [sys.executable, "-c", _RUN.format(before=before), *arguments]
        self._process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True, preexec_fn=take
        )
        os.close(slave)
        self.raw = ""
        self._data = b""
        self._seen = 0

    @property
    def shown(self) -> str:
        """All that was shown, without what only moves or colours."""
        return _STEERING.sub("", self.raw)

    def expect(self, text: str) -> str:
        """Wait until a text is shown that was not waited for before; all that came up to its end."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.shown.find(text, self._seen)) < 0:
            assert time.monotonic() < deadline, f"{text!r} was not shown, but: {self.shown!r}"
            if not self._read():
                raise AssertionError(f"It ended without showing {text!r}: {self.shown!r}")
        before, self._seen = self._seen, found + len(text)
        return self.shown[before : self._seen]

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def press_until(self, key: str, text: str) -> None:
        """Press a key, again after a while if need be, until a text is shown."""
        deadline = time.monotonic() + PATIENCE
        while self.shown.find(text, self._seen) < 0:
            assert time.monotonic() < deadline, f"{text!r} was not shown, but: {self.shown!r}"
            self.press(key)
            for _ in range(10):
                self._read()
        self.expect(text)

    def say(self, line: str) -> None:
        """At the next prompt, write a line."""
        self.expect("you ›")
        self.press(line + ENTER)

    def end(self) -> int:
        """Wait for the end; the exit code."""
        while self._read():
            pass
        return self._process.wait(timeout=PATIENCE)

    def _read(self) -> bool:
        """Whether there may be more."""
        if not select.select([self._master], [], [], 0.1)[0]:
            return True
        try:
            self._data += os.read(self._master, 65_536)
        except OSError:  # Linux's way to say that the other end is closed
            return False
        self.raw = self._data.decode(errors="ignore")
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)
