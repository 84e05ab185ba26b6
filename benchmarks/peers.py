"""What others need to build the next request, each used as its documentation says.

Runs inside the peers' own environment, so nothing of Everthread is imported here, and each peer's packages only
where it is measured:

    python peers.py <peer> <history> <budget> <folder>

`history` is a JSON file of messages as Chat Completions has them, made up by `made_up_history`; `folder` is where a
peer that has a store keeps it. The history is stored first, untimed, and a line of JSON says that it is. Then each
line that is read asks for the messages of the next request, and a line of JSON says how many seconds they took.
Nothing is fetched: the token vocabularies come with LiteLLM. Where the documentation leaves a choice, the quicker
one is taken.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any, NamedTuple

History = list[dict[str, Any]]
Ask = Callable[[], Awaitable[list[Any]]]

SQLITE = "sqlite+aiosqlite:///"
TURNS = 8  # messages of the three turns that a made-up history repeats


async def langchain_approximate(history: History, budget: int, folder: Path) -> Ask:
    return _langchain(history, budget, "approximate")


async def langchain_exact(history: History, budget: int, folder: Path) -> Ask:
    import tiktoken
    from langchain_core.messages import BaseMessage

    encoding = tiktoken.get_encoding("o200k_base")

    def count(messages: list[BaseMessage]) -> int:
        return sum(len(encoding.encode(message.text)) for message in messages)

    return _langchain(history, budget, count)


def _langchain(history: History, budget: int, counter: Any) -> Ask:
    """It has no store of its own any more: the messages are in memory."""
    from langchain_core.messages import convert_to_messages, trim_messages

    messages = convert_to_messages(history)
    how: dict[str, Any] = {"strategy": "last", "start_on": "human", "include_system": True}

    async def ask() -> list[Any]:
        trimmed: list[Any] = trim_messages(messages, max_tokens=budget, token_counter=counter, **how)
        return trimmed

    return ask


async def litellm(history: History, budget: int, folder: Path) -> Ask:
    from litellm.utils import trim_messages

    # Its trimming fails at a message without content, says so in a log and returns the whole history.
    messages = [{**message, "content": message["content"] or ""} for message in history]

    async def ask() -> list[Any]:
        # With a model's name it counts with that model's encoding, which takes longer.
        trimmed: list[Any] = trim_messages(messages, max_tokens=budget)
        return trimmed

    return ask


async def llamaindex_memory(history: History, budget: int, folder: Path) -> Ask:
    """Puts old messages aside while it stores; `aget` reads those that are left."""
    from llama_index.core.memory import Memory

    memory = Memory.from_defaults(
        session_id="ana", token_limit=budget, async_database_uri=f"{SQLITE}{folder / 'memory.db'}"
    )
    messages = _chat_messages(history)
    for first in range(0, len(messages), 100):
        await memory.aput_messages(messages[first : first + 100])

    async def ask() -> list[Any]:
        found: list[Any] = await memory.aget()
        return found

    return ask


async def llamaindex_buffer(history: History, budget: int, folder: Path) -> Ask:
    from llama_index.core.memory import ChatMemoryBuffer

    memory = ChatMemoryBuffer.from_defaults(chat_history=_chat_messages(history), token_limit=budget)

    async def ask() -> list[Any]:
        found: list[Any] = memory.get()
        return found

    return ask


def _chat_messages(history: History) -> list[Any]:
    """Tool calls and the ids of results lie beside the text, where LlamaIndex's own providers look for them."""
    from llama_index.core.llms import ChatMessage

    beside = ("tool_calls", "tool_call_id")
    return [
        ChatMessage(
            role=message["role"],
            content=message["content"],
            additional_kwargs={key: message[key] for key in beside if key in message},
        )
        for message in history
    ]


async def agents_all(history: History, budget: int, folder: Path) -> Ask:
    return await _agents(history, folder, None)


async def agents_fifty(history: History, budget: int, folder: Path) -> Ask:
    return await _agents(history, folder, 50)


async def _agents(history: History, folder: Path, limit: int | None) -> Ask:
    """It knows no budget: all items, or the newest `limit`."""
    from agents import SQLiteSession

    session = SQLiteSession("ana", folder / "session.db")
    items = [item for message in history for item in _items(message)]
    for first in range(0, len(items), 1_000):
        await session.add_items(items[first : first + 1_000])

    async def ask() -> list[Any]:
        found: list[Any] = await session.get_items(limit=limit)
        return found

    return ask


def _items(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message as the Responses API has it."""
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
    if "tool_calls" in message:
        return [{"type": "function_call", "call_id": call["id"], **call["function"]} for call in message["tool_calls"]]
    return [{"role": message["role"], "content": message["content"]}]


class Peer(NamedTuple):
    """`whole`: it goes through the whole history each time, which is what the bar is about."""

    name: str
    package: str
    prepare: Callable[[History, int, Path], Awaitable[Ask]]
    whole: bool = True
    for_information: bool = False


PEERS = {
    "langchain": Peer("LangChain trim_messages, approximate counter", "langchain-core", langchain_approximate),
    "langchain-exact": Peer("LangChain trim_messages, tiktoken", "langchain-core", langchain_exact),
    "litellm": Peer("LiteLLM trim_messages", "litellm", litellm),
    "memory": Peer("LlamaIndex Memory", "llama-index-core", llamaindex_memory, whole=False),
    "buffer": Peer(
        "LlamaIndex ChatMemoryBuffer (deprecated)", "llama-index-core", llamaindex_buffer, for_information=True
    ),
    "agents": Peer("OpenAI Agents SQLiteSession, all items", "openai-agents", agents_all),
    "agents-50": Peer("OpenAI Agents SQLiteSession, limit=50", "openai-agents", agents_fifty, whole=False),
}


def made_up_history(messages: int) -> History:
    """So many messages in whole turns, every third turn with a tool call, and then the user's next question."""
    chance = random.Random(messages)
    history: History = []
    for number in range(messages // TURNS):
        for turn in range(3):
            history.append({"role": "user", "content": _text(chance)})
            if turn == 2:
                call = {"name": "look_up", "arguments": json.dumps({"query": _text(chance, 4), "limit": 5})}
                calls = [{"id": f"call_{number}", "type": "function", "function": call}]
                history.append({"role": "assistant", "content": None, "tool_calls": calls})
                history.append({"role": "tool", "tool_call_id": f"call_{number}", "content": _text(chance)})
            history.append({"role": "assistant", "content": _text(chance)})
    return [*history, {"role": "user", "content": _text(chance)}]


def _text(chance: random.Random, words: int = 40) -> str:
    return " ".join(chance.choices(_VOCABULARY, k=words)).capitalize() + "."


_VOCABULARY = (
    *("the", "of", "and", "to", "in", "is", "that", "it", "for", "on", "are", "as", "with", "they", "at", "be"),
    *("this", "have", "from", "one", "had", "by", "but", "not", "what", "all", "were", "we", "when", "your", "can"),
    *("said", "there", "use", "each", "which", "how", "their", "if", "will", "up", "other", "about", "out", "many"),
    *("then", "them", "these", "some", "would", "make", "into", "time", "has", "look", "two", "more", "write", "go"),
    *("report", "invoice", "delivery", "Tuesday", "customer", "garden", "window", "Berlin", "number", "people"),
)


def main() -> None:
    name, history, budget, folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a peer prints is not an answer
    _stay_offline()
    asyncio.run(_serve(PEERS[name], json.loads(Path(history).read_text("utf-8")), int(budget), Path(folder), answers))
    os._exit(0)  # some of them leave threads behind that would be waited for


async def _serve(peer: Peer, history: History, budget: int, folder: Path, answers: IO[str]) -> None:
    ask = await peer.prepare(history, budget, folder)
    print(json.dumps({"version": version(peer.package)}), file=answers)
    while sys.stdin.readline():
        began = time.perf_counter()
        messages = await ask()
        print(json.dumps({"seconds": time.perf_counter() - began, "messages": len(messages)}), file=answers)


def _stay_offline() -> None:
    found = importlib.util.find_spec("litellm")
    if found and found.submodule_search_locations:
        vocabularies = Path(found.submodule_search_locations[0]) / "litellm_core_utils" / "tokenizers"
        os.environ["TIKTOKEN_CACHE_DIR"] = str(vocabularies)
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LANGSMITH_TRACING"] = "false"
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"


if __name__ == "__main__":
    main()
