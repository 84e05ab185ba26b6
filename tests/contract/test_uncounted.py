"""A tokenizer that fails costs exactness, never a message: four bytes are taken for a token, and that is said.

And where not even that can be had, the window is a number of messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from everthread import Talk, assistant, system, tool_call, tool_result, user
from everthread.core import estimates, tokens
from tests.saying import turns
from tests.transcripts import CHAT, CLAUDE, FORMS, transcript

OLDER = "openai:gpt-4"


class PanicException(BaseException):
    """What a fault in Rust is told by: none of Python's usual exceptions."""


class Panics:
    def encode_ordinary(self, text: str) -> NoReturn:
        raise PanicException("index out of bounds")


def missing(_encoding: str) -> NoReturn:
    raise ModuleNotFoundError("No module named 'splintr'")


BROKEN: dict[str, Any] = {"is missing": missing, "panics": lambda _encoding: Panics()}


@pytest.fixture(autouse=True)
def _afresh() -> Iterator[None]:
    """What is known of tokenizers and counted by them is this test's own."""
    estimates.counted.cache_clear()
    tokens._tools_size.cache_clear()
    yield
    estimates.counted.cache_clear()
    tokens._tools_size.cache_clear()
    tokens._broken.cache_clear()
    tokens.BROKEN.clear()


@pytest.fixture(params=list(BROKEN.values()), ids=list(BROKEN))
def _broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_tokenizer", request.param)


@pytest.mark.usefixtures("_broken")
async def test_the_message_is_kept_and_counted_at_four_bytes_a_token(
    talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="everthread.tokens"):
        await talk.append(user("x" * 400), assistant("Yes."), user("And é?"))
    first, _, last = await talk.after()
    assert (first.text, last.text) == ("x" * 400, "And é?")
    assert first.tokens == 100 + tokens.WRAPPING
    assert len(caplog.records) == 1
    assert "four bytes are taken for a token" in caplog.records[0].message


@pytest.mark.usefixtures("_broken")
@pytest.mark.parametrize("model", [*FORMS, OLDER])
async def test_the_context_says_that_it_is_estimated(talk: Talk, model: str) -> None:
    await talk.append(*turns(20), user("Look."), tool_call("look", id="1"), tool_result("seen", id="1"))
    context = await talk.context(model=model, budget=600, tools=[{"name": "look"}])
    assert "Look." in "\n".join(transcript(context))
    assert any("four bytes" in given_up for given_up in context.degraded)
    assert not context.explain().exact
    assert context.estimate <= 600


async def test_a_tokenizer_that_works_is_no_matter(talk: Talk) -> None:
    await talk.append(*turns(3))
    assert (await talk.context(model=CHAT)).degraded == ()


async def test_what_stops_the_program_is_not_taken_for_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_encoding: str) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(tokens, "_tokenizer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tokens.count("text")


# -- and where nothing can be counted ----------------------------------------------------------------------


def fails(_text: str) -> NoReturn:
    raise MemoryError("no room to count")


@pytest.fixture
def _uncountable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_tokenizer", missing)
    monkeypatch.setattr(tokens, "four_bytes", fails)


@pytest.mark.usefixtures("_uncountable")
@pytest.mark.parametrize("model", [CHAT, CLAUDE, OLDER])
async def test_the_window_is_so_many_messages_and_that_is_said(talk: Talk, model: str) -> None:
    await talk.append(*turns(40), user("Now."))
    told: dict[str, Any] = {"instructions": "Be kind.", "tools": [{"name": "look"}], "settings": {"messages": 5}}
    context = await talk.context(model=model, budget=100_000, **told)
    assert "user: Now." in transcript(context)
    assert context.sent == 5
    assert any(given_up.startswith("tokens could not be counted") for given_up in context.degraded)


@pytest.mark.usefixtures("_uncountable")
async def test_what_is_said_is_kept_all_the_same(talk: Talk) -> None:
    await talk.append(user("x" * 4_000))
    [event] = await talk.after()
    assert event.text == "x" * 4_000
    assert event.tokens >= 1_000


async def test_what_was_built_without_counting_is_not_remembered_for_the_next_time(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the application says in the middle stands between tags, and they have a size."""
    await talk.append(
        user("Hello."), assistant("Hi."), user("Buy."), system("Be brief."), assistant("Yes."), user("So?")
    )
    before = (await talk.context(model=CLAUDE)).estimate
    talk._runtime.contexts.forget()
    estimates.counted.cache_clear()
    with monkeypatch.context() as broken:
        broken.setattr(tokens, "_tokenizer", missing)
        broken.setattr(tokens, "four_bytes", fails)
        context = await talk.context(model=CLAUDE)
        assert any(given_up.startswith("tokens could not be counted") for given_up in context.degraded)
        assert await talk.steps(model=CLAUDE) == []
    tokens._broken.cache_clear()
    tokens.BROKEN.clear()
    assert (await talk.context(model=CLAUDE)).estimate == before
