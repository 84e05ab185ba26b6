"""Exports and imports over a connection: bit by bit, whole or an error. What they hold is told in tests/contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from everthread import user
from everthread.client import Everthread, Talk, moving
from everthread.errors import BadValue, ServiceUnreachable, TooMany
from tests.client.serving import Served

LARGE = "walnut " * 200_000


async def test_an_export_that_breaks_off_is_an_error_and_never_a_shorter_one(
    served: Served, conversation: Talk
) -> None:
    for _ in range(12):
        await conversation.append(user(LARGE))
    came: list[bytes] = []

    async def take() -> None:
        async for line in conversation.export():
            came.append(line)
            if len(came) == 2:
                served.drop()

    with pytest.raises(ServiceUnreachable):
        await take()
    assert 2 <= len(came) < 13


async def test_a_file_is_sent_in_pieces_and_its_bytes_are_counted(
    theirs: Everthread, someone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "PIECE", 1_000)
    path, told = tmp_path / "history.jsonl", list[tuple[str, int, int]]()
    line = json.dumps({"messages": [{"role": "user", "content": "Hello. " * 10}]})
    path.write_text(f"{line}\n" * 50)
    size = path.stat().st_size
    gone = await theirs.import_file(path, user=someone, progress=lambda *one: told.append(one))
    assert len(gone.conversations) == 50
    assert (told[-1], len(told)) == (("sending", size, size), -(-size // 1_000))


async def test_an_import_that_is_refused_for_now_is_sent_again_from_its_beginning(
    served: Served, theirs: Everthread, someone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.json"
    path.write_text('[{"role": "user", "content": "Hello."}]')
    enter, refused = served.service.enter, list[object]()

    async def once(request: Any, scope: Any) -> Any:
        if not refused:
            refused.append(request)
            raise TooMany("requests a minute", limit=1, seconds=1)
        return await enter(request, scope)

    monkeypatch.setattr(served.service, "enter", once)
    assert (await theirs.import_file(path, user=someone)).events == 1
    assert refused


async def test_whose_it_is_is_the_keys_to_say(theirs: Everthread, someone: str, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="becomes the user's"):
        await theirs.import_file(tmp_path / "any", user=someone, keep_users=True)
