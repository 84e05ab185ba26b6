"""The service's log: what it says of requests and turns, and that it never says what users did, nor any secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from benchmarks.loopback.http import Answer, Fault
from benchmarks.loopback.openai import OpenAIServer
from everthread.errors import BadValue, Unavailable
from everthread.server.app import application
from everthread.server.logs import Json, Text, to_stderr
from everthread.server.serve import opened
from tests.server.processes import begun, here, key_for, options

SECRETS = ("KESTREL-SAID", "KESTREL-REPLIED", "KESTREL-BROKE", "evk_", "test-key")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What is logged meanwhile, as JSON."""
    root, own = logging.getLogger(), logging.getLogger("everthread")
    before = root.handlers[:], root.level, own.level
    stream = io.StringIO()
    to_stderr("json", stream)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    own.setLevel(before[2])


async def test_a_line_for_each_request_turn_and_model_call_and_no_word_of_what_was_said(
    fresh_address: str, lines: io.StringIO, provider: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await key_for(fresh_address)
    provider.script.add(["KESTREL-REPLIED to you."])
    made = options(fresh_address, settings={"address": provider.address})
    async with opened(made) as service, here(application(service), key) as client:
        id = await begun(client)
        say = f"/api/conversations/{id}/say"
        assert (await client.post(say, json={"pieces": ["KESTREL-SAID"]})).status_code == 202
        await service.et.idle()
        refusal = b'{"error": {"message": "I do not like KESTREL-SAID", "type": "invalid_request_error"}}'
        provider.faults.append(Fault(answer=Answer(400, refusal)))
        await client.post(say, json={"pieces": ["KESTREL-SAID again"]})
        await service.et.idle()
        await client.post(say, json={"pieces": ["x"], "model": "KESTREL-SAID"})
        await client.get("/api/conversations/KESTREL-SAID")

        async def broken(*_: object, **__: object) -> None:
            raise RuntimeError("KESTREL-BROKE with test-key")

        monkeypatch.setattr(type(service.et.log.conversations), "listed", broken)
        with pytest.raises(RuntimeError):
            await client.get("/api/conversations")
    text = lines.getvalue()
    assert not [secret for secret in SECRETS if secret in text]
    told = [json.loads(line) for line in text.splitlines()]
    [first, second, *_] = [one for one in told if one["type"] == "turn"]
    assert (first["outcome"], first["user"], first["conversation"]) == ("finished", "ana", id)
    assert (second["outcome"], second["error"]) == ("failed", "RequestRefused")
    [call, *_] = [one for one in told if one["type"] == "model_call"]
    assert call["model"] == "openai:gpt-4o"
    assert call["output"] > 0
    requests = [one for one in told if one["type"] == "request"]
    assert {"route": "/api/conversations/{conversation}/say", "status": 202, "user": "ana"}.items() <= requests[
        1
    ].items()
    assert all(isinstance(one["ms"], float) for one in requests)
    [failed] = [one for one in told if "trace" in one]
    assert failed["error"] == "RuntimeError"
    assert failed["trace"][-1] == "RuntimeError"
    assert any("in broken" in place for place in failed["trace"])


@pytest.mark.parametrize("form", [Json(), Text()], ids=["json", "text"])
def test_an_error_is_named_and_only_what_is_nobodys_is_quoted(form: logging.Formatter) -> None:
    def line(problem: Exception) -> str:
        return form.format(logging.LogRecord("everthread.agent", 30, "", 0, "It failed: %s", (problem,), None))

    assert "KESTREL" not in line(BadValue("text", "KESTREL", "another"))
    assert "BadValue" in line(BadValue("text", "KESTREL", "another"))
    assert "postgresql://db/talk" in line(Unavailable("postgresql://db/talk", "away"))


def test_text_is_one_line_whatever_stands_in_it() -> None:
    record = logging.LogRecord("everthread.agent", 30, "", 0, "It failed: %s", ("a\nFORGED line",), None)
    assert len(Text().format(record).splitlines()) == 1
    assert isinstance(json.loads(Json().format(record)), dict)
