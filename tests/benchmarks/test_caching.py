"""The simulated prompt caches do what the providers say theirs do, on requests small enough to check by hand."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from benchmarks.caching import (
    MEDIA_TOKENS,
    Asked,
    AutomaticCache,
    MarkedCache,
    Refused,
    Request,
    Spent,
    blocks_of,
    cache_of,
    simulate,
)

CLAUDE = "anthropic:claude-sonnet-4-6"


def block(words: int, name: str = "word", *, mark: str = "") -> dict[str, Any]:
    """A text of that many words, which are about as many tokens."""
    marked = {"cache_control": {"type": "ephemeral", "ttl": mark}} if mark else {}
    return {"type": "text", "text": f" {name}" * words, **marked}


def claude(*said: dict[str, Any], system: list[dict[str, Any]] | None = None, **more: Any) -> Request:
    """A request of one user message with these blocks."""
    return {"model": "claude", "system": system or [], "messages": [{"role": "user", "content": list(said)}], **more}


def gpt(*said: str, **more: Any) -> Request:
    return {"model": "gpt", "messages": [{"role": "user", "content": text} for text in said], **more}


def shape(spent: Spent) -> str:
    """Which of its parts a request has, by their first letters."""
    return "".join(part[0] for part in ("read", "written", "plain") if getattr(spent, part))


# -- Anthropic -----------------------------------------------------------------------------------------------


def test_a_marked_prefix_is_written_first_and_read_afterwards() -> None:
    cache, request = MarkedCache(), claude(block(2_000, mark="5m"))
    first, second = cache.ask(0, request), cache.ask(1, request)
    assert (shape(first), shape(second), first.written) == ("w", "r", second.read)


def test_writing_costs_a_quarter_more_and_reading_a_tenth() -> None:
    cache, request = MarkedCache(), claude(block(2_000, mark="5m"), block(100))
    first, second = cache.ask(0, request), cache.ask(1, request)
    assert first.price == pytest.approx(first.written * 1.25 + first.plain)
    assert second.price == pytest.approx(second.read * 0.1 + second.plain)


def test_a_prefix_kept_for_an_hour_costs_twice_its_tokens() -> None:
    spent = MarkedCache().ask(0, claude(block(2_000, mark="1h")))
    assert spent.price == spent.written * 2


def test_each_part_is_written_at_the_price_of_the_mark_after_it() -> None:
    request = claude(block(2_000, mark="1h"), block(1_000, mark="5m"), block(100))
    hour, minutes, rest = (block.tokens for block in blocks_of(request))
    assert MarkedCache().ask(0, request).price == hour * 2 + minutes * 1.25 + rest


def test_without_marks_nothing_is_read_or_written() -> None:
    cache, request = MarkedCache(), claude(block(5_000))
    assert [shape(cache.ask(second, request)) for second in range(2)] == ["p", "p"]


def test_what_is_added_after_a_kept_prefix_is_all_that_is_written() -> None:
    cache, start, more = MarkedCache(), block(2_000), block(50, "more", mark="5m")
    first = cache.ask(0, claude({**start, "cache_control": {"type": "ephemeral"}}))
    second = cache.ask(1, claude(start, more))
    assert (second.read, second.plain) == (first.written, 0)
    assert 0 < second.written < 60


def test_a_change_at_the_start_loses_everything() -> None:
    cache = MarkedCache()
    cache.ask(0, claude(block(1_500), block(1_500, mark="5m")))
    assert cache.ask(1, claude(block(1_500, "other"), block(1_500, mark="5m"))).read == 0


def test_a_change_after_the_instructions_loses_only_what_follows_them() -> None:
    cache, told = MarkedCache(), [block(1_500, mark="5m")]
    cache.ask(0, claude(block(1_500, mark="5m"), system=told))
    spent = cache.ask(1, claude(block(1_500, "other", mark="5m"), system=told))
    assert (spent.read, shape(spent)) == (blocks_of(claude(system=told))[0].tokens, "rw")


def test_a_change_of_tools_loses_the_instructions_too() -> None:
    cache, told = MarkedCache(), [block(1_500, mark="5m")]
    cache.ask(0, claude(block(10), system=told, tools=[{"name": "find"}]))
    assert cache.ask(1, claude(block(10), system=told, tools=[{"name": "look"}])).read == 0


def test_the_same_text_from_another_speaker_is_another_prefix() -> None:
    cache, request = MarkedCache(), claude(block(2_000, mark="5m"))
    other = copy.deepcopy(request)
    other["messages"][0]["role"] = "assistant"
    cache.ask(0, request)
    assert cache.ask(1, other).read == 0


def test_another_order_of_keys_is_another_prefix() -> None:
    cache, used = MarkedCache(), {"type": "tool_use", "id": "a", "name": "find"}
    cache.ask(0, claude({**used, "input": {"a": 1, "b": 2}}, block(2_000, mark="5m")))
    assert cache.ask(1, claude({**used, "input": {"b": 2, "a": 1}}, block(2_000, mark="5m"))).read == 0


def test_a_mark_that_moves_does_not_change_the_prefix() -> None:
    cache = MarkedCache()
    cache.ask(0, claude(block(2_000), block(50, mark="5m"), block(10)))
    assert shape(cache.ask(1, claude(block(2_000, mark="5m"), block(50), block(10, mark="5m")))) == "rw"


@pytest.mark.parametrize(("added", "found"), [(19, True), (20, False)], ids=["the 20th block back", "the 21st"])
def test_a_mark_looks_back_over_twenty_blocks_itself_the_first(added: int, found: bool) -> None:
    cache, start = MarkedCache(), block(2_000)
    cache.ask(0, claude({**start, "cache_control": {"type": "ephemeral"}}))
    more = [block(5, str(number)) for number in range(added - 1)]
    assert bool(cache.ask(1, claude(start, *more, block(5, mark="5m"))).read) is found


def test_a_second_mark_bridges_more_than_twenty_blocks() -> None:
    cache, start = MarkedCache(), block(2_000)
    cache.ask(0, claude({**start, "cache_control": {"type": "ephemeral"}}))
    more = [block(5, str(number), mark="5m" if number == 15 else "") for number in range(30)]
    assert cache.ask(1, claude(start, *more, block(5, mark="5m"))).read > 2_000


def test_looking_back_finds_only_what_was_marked() -> None:
    cache = MarkedCache()
    cache.ask(0, claude(block(2_000), block(2_000), block(50, mark="5m")))
    assert cache.ask(1, claude(block(2_000), block(2_000), block(50, "other", mark="5m"))).read == 0


def test_four_marks_are_taken_and_a_fifth_is_refused() -> None:
    marked = [block(2_000, str(number), mark="5m") for number in range(5)]
    assert shape(MarkedCache().ask(0, claude(*marked[:4]))) == "w"
    with pytest.raises(Refused, match="5 blocks"):
        MarkedCache().ask(0, claude(*marked))


def test_marks_count_wherever_they_stand() -> None:
    tool = {"name": "find", "cache_control": {"type": "ephemeral"}}
    inner = {"type": "tool_result", "tool_use_id": "a", "content": [block(10, mark="5m")]}
    said = [inner, block(10, mark="5m"), block(10, mark="5m")]
    with pytest.raises(Refused, match="5 blocks"):
        MarkedCache().ask(0, claude(*said, system=[block(10, mark="5m")], tools=[tool]))


def test_an_hour_after_five_minutes_is_refused() -> None:
    with pytest.raises(Refused, match="1h"):
        MarkedCache().ask(0, claude(block(2_000, mark="5m"), block(2_000, mark="1h")))


@pytest.mark.parametrize(("mark", "seconds"), [("5m", 300), ("1h", 3_600)])
def test_a_prefix_is_forgotten_when_its_lifetime_is_over(mark: str, seconds: float) -> None:
    request = claude(block(2_000, mark=mark))
    for later, read in ((seconds - 1, True), (seconds, False)):
        cache = MarkedCache()
        cache.ask(0, request)
        assert bool(cache.ask(later, request).read) is read


def test_reading_a_prefix_begins_its_lifetime_anew() -> None:
    cache, request = MarkedCache(), claude(block(2_000, mark="5m"))
    assert [shape(cache.ask(seconds, request)) for seconds in (0, 200, 400, 600, 900)] == ["w", "r", "r", "r", "w"]


def test_a_prefix_that_nobody_asks_for_is_forgotten_while_another_is_read() -> None:
    cache, told = MarkedCache(), [block(1_500, mark="5m")]
    long, short = claude(block(1_500, mark="5m"), system=told), claude(block(1), system=told)
    spent = [cache.ask(seconds, request) for seconds, request in ((0, long), (200, short), (400, long))]
    assert [shape(each) for each in spent] == ["w", "rp", "rw"]


@pytest.mark.parametrize(("words", "kept"), [(1_000, False), (1_100, True)])
def test_less_than_the_least_size_is_not_kept(words: int, kept: bool) -> None:
    cache, request = MarkedCache(), claude(block(words, mark="5m"))
    cache.ask(0, request)
    assert bool(cache.ask(1, request).read) is kept


def test_the_least_size_can_be_set() -> None:
    assert MarkedCache(minimum=4_096).ask(0, claude(block(2_000, mark="5m"))).written == 0


# -- OpenAI and Google ---------------------------------------------------------------------------------------


def test_the_longest_common_prefix_is_read_in_steps_of_128_tokens() -> None:
    cache = AutomaticCache()
    first = cache.ask(0, gpt(" word" * 1_500))
    again = cache.ask(1, gpt(" word" * 1_500, " more" * 500))
    assert (first.read, again.read) == (0, first.total // 128 * 128)


def test_a_common_prefix_may_end_within_a_message() -> None:
    cache = AutomaticCache()
    cache.ask(0, gpt(" word" * 2_000 + " one" * 500))
    spent = cache.ask(1, gpt(" word" * 2_000 + " two" * 500))
    assert 2_000 - 128 < spent.read <= 2_000 + 10


def test_nothing_is_written_and_reading_costs_a_tenth() -> None:
    cache = AutomaticCache()
    spent = [cache.ask(seconds, gpt(" word" * 1_500)) for seconds in (0, 1)]
    assert spent[0].price == spent[0].plain == spent[0].total
    assert spent[1].price == pytest.approx(spent[1].read * 0.1 + spent[1].plain)
    assert [each.written for each in spent] == [0, 0]


@pytest.mark.parametrize(
    ("model", "reading"), [("openai:gpt-5", 0.1), ("openai-responses:gpt-5", 0.1), ("openai:gpt-4o", 0.5)]
)
def test_older_models_charge_more_for_reading(model: str, reading: float) -> None:
    cache = cache_of(model)
    cache.ask(0, gpt(" word" * 1_500))
    spent = cache.ask(1, gpt(" word" * 1_500))
    assert spent.price - spent.plain == pytest.approx(spent.read * reading)


@pytest.mark.parametrize(("words", "kept"), [(1_000, False), (1_030, True)])
def test_from_1024_tokens_on_a_prefix_is_read(words: int, kept: bool) -> None:
    cache = AutomaticCache()
    cache.ask(0, gpt(" word" * words))
    assert bool(cache.ask(1, gpt(" word" * words)).read) is kept


@pytest.mark.parametrize(("model", "kept"), [("google:gemini-2.5-flash", True), ("google:gemini-2.5-pro", False)])
def test_google_keeps_shorter_prefixes_for_its_smaller_models(model: str, kept: bool) -> None:
    cache = cache_of(model)
    request = {
        "model": "gemini",
        "contents": [{"role": "user", "parts": [{"text": " word" * 2_000}]}],
        "config": {"systemInstruction": "Be kind.", "tools": [{"functionDeclarations": [{"name": "find"}]}]},
    }
    cache.ask(0, request)
    assert bool(cache.ask(1, request).read) is kept


def test_an_automatic_cache_forgets_after_five_minutes_without_use() -> None:
    cache = AutomaticCache()
    assert [bool(cache.ask(seconds, gpt(" word" * 1_500)).read) for seconds in (0, 299, 598, 898)] == [
        False,
        True,
        True,
        False,
    ]


def test_another_routing_key_finds_nothing() -> None:
    cache = AutomaticCache()
    cache.ask(0, gpt(" word" * 1_500, prompt_cache_key="a"))
    assert cache.ask(1, gpt(" word" * 1_500, prompt_cache_key="b")).read == 0


# -- from a request to its blocks ----------------------------------------------------------------------------


def test_tools_come_before_instructions_and_instructions_before_messages() -> None:
    requests: list[Request] = [
        {"messages": [{"role": "user", "content": "three"}], "system": "two", "tools": [{"name": "one"}]},
        {"input": [{"role": "user", "content": "three"}], "instructions": "two", "tools": [{"name": "one"}]},
        {
            "contents": [{"role": "user", "parts": [{"text": "three"}]}],
            "config": {"systemInstruction": {"parts": [{"text": "two"}]}, "tools": [{"functionDeclarations": ["one"]}]},
        },
    ]
    for request in requests:
        texts = [block.text for block in blocks_of(request)]
        assert [word for text in texts for word in ("one", "two", "three") if word in text] == ["one", "two", "three"]


def test_every_tool_call_and_every_result_is_a_block() -> None:
    calls = [{"id": str(number), "function": {"name": "find", "arguments": "{}"}} for number in range(3)]
    results = [{"role": "tool", "tool_call_id": str(number), "content": "found"} for number in range(3)]
    assert len(blocks_of({"messages": [{"role": "assistant", "content": None, "tool_calls": calls}, *results]})) == 6


@pytest.mark.parametrize(
    "picture",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 9_000}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBOR" * 9_000}},
        {"type": "input_image", "image_url": "data:image/png;base64," + "iVBOR" * 9_000},
        {"inlineData": {"mimeType": "image/png", "data": "iVBOR" * 9_000}},
        {"type": "tool_result", "content": [{"source": {"media_type": "image/png", "data": "iVBOR" * 9_000}}]},
    ],
    ids=["anthropic", "openai", "openai-responses", "google", "within a tool result"],
)
def test_a_picture_counts_as_a_flat_figure(picture: dict[str, Any]) -> None:
    (only,) = blocks_of(claude(picture))
    assert MEDIA_TOKENS < only.tokens < MEDIA_TOKENS + 60


def test_another_picture_is_another_prefix() -> None:
    cache = MarkedCache(minimum=1)
    for seconds, data in enumerate("ab"):
        source = {"type": "base64", "media_type": "image/png", "data": data}
        spent = cache.ask(seconds, claude({"type": "image", "source": source, "cache_control": {"type": "ephemeral"}}))
        assert spent.read == 0


def test_a_request_has_as_many_tokens_whether_read_written_or_plain() -> None:
    request = claude(block(2_000, mark="5m"), block(300))
    spent = list(simulate([Asked(0, request, CLAUDE), Asked(1, request, CLAUDE)]))
    assert {each.total for each in spent} == {sum(block.tokens for block in blocks_of(request))}


def test_every_model_has_a_cache_of_its_own() -> None:
    request = claude(block(2_000, mark="5m"))
    asked = [Asked(0, request, CLAUDE), Asked(1, request, "anthropic:claude-haiku-4-5"), Asked(2, request, CLAUDE)]
    assert [bool(spent.read) for spent in simulate(asked)] == [False, False, True]


def test_an_unknown_provider_has_no_cache() -> None:
    with pytest.raises(ValueError, match="parrot"):
        cache_of("parrot:grey")
