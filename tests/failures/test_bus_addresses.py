"""Choosing a bus: a wrong one is told in a sentence, one that is away is waited for, and passwords stay secret."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest
from redis import Redis

from everthread import Everthread, Talk, user
from everthread.core.logged import Logged
from everthread.errors import BadValue, MissingExtra
from everthread.store.bus import address as bus_address
from everthread.store.bus.base import NoBus
from everthread.store.bus.postgres import PostgresBus
from everthread.store.bus.redis import RedisBus
from everthread.store.open import open_log
from tests.contract.buses import Ear, until
from tests.redis_server import RedisServer

SECRET = "s3cret"
PATIENCE = 60  # seconds, only so that what is broken fails instead of hanging


@pytest.fixture
def postgres_address(_shared_database: str) -> str:
    return _shared_database


@pytest.mark.parametrize(
    "address",
    [
        "redis",
        "redis://",
        "redis:///0",
        "localhost:6379",
        f"user:{SECRET}@localhost",
        "http://localhost",
        "postgresql://localhost/db",
        f"redis://:{SECRET}@localhost:port",
        f"redis://:{SECRET}@localhost:70000",
        f"redis://:{SECRET}/with/slashes@localhost",
        f"redis://:{SECRET}@localhost/name",
        f"redis://localhost?password={SECRET}",
        "redis://localhost?channel=",
        "redis://localhost?channel=a%00b",
        "redis://localhost?channel",
        "redis://localhost?database=1",
        "redis://localhost#fragment",
        "redis://[::1",
    ],
)
async def test_a_wrong_address_is_told_in_a_sentence_without_the_password(address: str, postgres_address: str) -> None:
    with pytest.raises(BadValue, match="redis://host:6379/0") as refused:
        await Everthread.open(postgres_address, bus=address)
    assert refused.value.name == "bus"
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("value", [7, b"redis://:s3cret@localhost", ["redis://localhost"]])
def test_an_address_is_text(value: object, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="redis://host") as refused:
        Everthread.open(f"sqlite:///{tmp_path}/talk.db", bus=value)  # type: ignore[arg-type]
    assert SECRET not in str(refused.value)


async def test_a_file_needs_no_bus(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/talk.db"
    with pytest.raises(BadValue, match="whose processes need none") as refused:
        await Everthread.open(address, bus=f"redis://:{SECRET}@localhost")
    assert SECRET not in str(refused.value)
    assert not (tmp_path / "talk.db").exists()


async def test_the_environment_names_the_bus_of_the_stores_that_can_have_one(
    postgres_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVERTHREAD_BUS", "redis://localhost:1")
    async with Everthread.open(postgres_address) as et:
        assert isinstance(et.log.bus, RedisBus)
    async with Everthread.open(postgres_address, bus="") as et:
        assert isinstance(et.log.bus, PostgresBus)
    async with Everthread.open(f"sqlite:///{tmp_path}/talk.db") as et:
        assert isinstance(et.log.bus, NoBus)


async def test_without_the_package_the_error_says_what_to_install(
    postgres_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "everthread.store.bus.redis")
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(MissingExtra, match=r"pip install 'everthread\[redis\]'"):
        await open_log(postgres_address, bus="redis://localhost")


def test_an_address_is_taken_apart() -> None:
    found = bus_address.read("rediss://ana:a%40b%2Fc@host.example:7000/3?channel=live%20one")
    assert list(found) == [True, "host.example", 7000, "ana", "a@b/c", "live one", "rediss://host.example:7000/3"]
    assert bus_address.read("redis://h")[:6] == (False, "h", 6379, None, None, "everthread")
    assert "a@b" not in repr(found) + repr(RedisBus(found)) + str(found)


async def test_a_password_reaches_the_server_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with RedisServer(password=SECRET) as server:
        right, wrong = (RedisBus(bus_address.read(url)) for url in (server.url, server.url.replace(SECRET, "s3cret!")))
        heard = asyncio.Event()
        right.hear(lambda *_: heard.set(), lambda: None)
        await right.watch()
        await wrong.watch()
        wrong.send("topic")
        await wrong.close()
        other = RedisBus(bus_address.read(server.url))
        other.send("topic")
        async with asyncio.timeout(PATIENCE):
            await heard.wait()
        await other.close()
        await right.close()
    assert "Listening to redis://127.0.0.1" in caplog.text
    assert SECRET not in caplog.text


async def test_a_server_that_refuses_is_tried_until_it_does_not(caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer() as server, Redis.from_url(server.url) as operator:
        operator.acl_setuser("bus", enabled=True, nopass=True, reset_channels=True, commands=["+subscribe"])
        operator.acl_setuser("bus", enabled=True, channels=["everthread"])
        url = server.url.replace("://", "://bus:any@")
        listener, sender = RedisBus(bus_address.read(url)), RedisBus(bus_address.read(url))
        ear = Ear(listener)
        await listener.watch()
        for number in range(1_000):
            sender.send("topic", f"refused {number}")
        await until(lambda: "Sending to redis://127.0.0.1" in caplog.text)
        operator.acl_setuser("bus", enabled=True, commands=["+publish"])
        await until(lambda: ear.losses == 2)
        sender.send("topic", "allowed")
        assert await ear.has(1) == [("topic", "allowed")]
        await sender.close()
        await listener.close()


async def _texts(talk: Talk) -> AsyncGenerator[str, None]:
    async for event in talk.listen():
        assert isinstance(event, Logged)
        yield event.text


async def test_a_conversation_goes_on_while_redis_is_away(
    postgres_address: str, someone: str, caplog: pytest.LogCaptureFixture
) -> None:
    with RedisServer() as server:
        server.kill()
        async with Everthread.open(postgres_address, bus=server.url) as one:
            talk = await one.begin(user=someone)
            async with asyncio.timeout(PATIENCE), aclosing(_texts(talk)) as events:
                await talk.append(user("Redis is away"))
                assert await anext(events) == "Redis is away"
                async with Everthread.open(postgres_address, bus=server.url) as two:
                    other = await two.conversation(user=someone, id=talk.id)
                    await other.append(user("still away"))
                    assert await anext(events) == "still away"
                    await asyncio.to_thread(server.start)
                    await other.append(user("back"))
                    assert await anext(events) == "back"
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings
    assert all("tried again" in record.message for record in warnings)
