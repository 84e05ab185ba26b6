"""What is set for all users of a service is looked at when it starts."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import NoReturn

import pytest

from everthread.server import serve
from tests.cli.conftest import Do


def test_a_wrong_setting_ends_serve_before_anybody_meets_it(
    do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[settings]\nbugdet = 3\n")
    monkeypatch.setenv("EVERTHREAD_CONFIG", str(file))
    done = do("serve", "--port", "0", "--store", f"sqlite:///{tmp_path}/talk.db")
    assert done.exit_code == 1
    assert "the nearest is budget" in done.stderr


@pytest.mark.parametrize("way", ["--set", "the environment"])
def test_a_model_whose_file_is_not_there_ends_serve_before_anybody_meets_it(
    do: Do, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    gone = f"local:{tmp_path}/gone.gguf"
    if way == "the environment":
        monkeypatch.setenv("EVERTHREAD_MODEL", gone)
    more = ["--set", f"model={gone}"] if way == "--set" else []
    done = do("serve", "--port", "0", *more)
    assert done.exit_code == 1
    assert f"there is no file {tmp_path}/gone.gguf; check the path" in done.stderr


@pytest.mark.parametrize(
    ("where", "told"),
    [
        (("--host", "nohost.invalid"), "'nohost.invalid' is no address of this machine"),
        (("--host", "192.0.2.7"), "'192.0.2.7' is no address of this machine"),
    ],
)
def test_an_address_that_is_not_the_machines_says_so_and_what_to_write_instead(
    do: Do, where: tuple[str, ...], told: str
) -> None:
    done = do("serve", "--port", "0", *where)
    assert done.exit_code == 1
    assert told in done.stderr
    assert "such as 127.0.0.1, or 0.0.0.0 for all of them" in done.stderr
    assert "--port" not in done.stderr


def test_a_port_that_is_not_for_everybody_says_so(do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(options: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(serve, "listening_socket", refused)
    done = do("serve", "--port", "80")
    assert done.exit_code == 1
    assert "take a --port from 1024 on" in done.stderr


def test_an_address_that_is_taken_says_so(do: Do) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = do("serve", "--port", str(taken.getsockname()[1]))
    assert done.exit_code == 1
    assert "end what is there, or take another --port" in done.stderr
