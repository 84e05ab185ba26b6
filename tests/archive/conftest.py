"""An S3-compatible store on loopback, and the two kinds of places."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from everthread.sealing import master_keys
from tests.archive.places import new_bucket

MASTER_KEY = master_keys.new_key()


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of moto's server."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def _keys(s3: str) -> Iterator[None]:
    """The environment as an operator sets it up for such a store."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": s3,
            "AWS_ALLOW_HTTP": "true",
            "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
        }.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def bucket(s3: str, _keys: None) -> str:
    return made_bucket(s3)


def made_bucket(s3: str) -> str:
    import httpx2

    name = new_bucket()
    httpx2.put(f"{s3}/{name}").raise_for_status()
    return name


@pytest.fixture(autouse=True)
def _master_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(master_keys.VARIABLE, MASTER_KEY)


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where archives are put, as the setting names it."""
    if request.param == "folder":
        return str(tmp_path / "archives")
    bucket: str = request.getfixturevalue("bucket")
    return f"s3://{bucket}/{tmp_path.name}"
