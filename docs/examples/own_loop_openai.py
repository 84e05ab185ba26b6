"""A loop of your own on the OpenAI SDK, with a tool and structured output.

Everthread keeps the conversation and makes the request; you call the model, run the tools, append what the SDK gives as
it is, and record what it took. So that it runs with no key, a stand-in for OpenAI is started in the process; with a
key, leave `base_url` out.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from openai import AsyncOpenAI

from everthread import Everthread, Talk, ToolCall, tool_result, user

MODEL = "openai:gpt-5-mini"
WEATHER = {
    "name": "weather",
    "description": "The weather of a city today.",
    "schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ADVICE = {
    "type": "object",
    "properties": {"umbrella": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["umbrella", "why"],
    "additionalProperties": False,
}


async def turn(talk: Talk, client: AsyncOpenAI, question: str) -> dict[str, Any]:
    """From a question to advice that fits the schema."""
    await talk.append(user(question))
    while True:
        context = await talk.context(model=MODEL, tools=[WEATHER], lookups=True, output=ADVICE)
        began = time.monotonic()
        reply = await client.chat.completions.create(**context.request)
        logged = await talk.append(reply)  # the SDK's own object: what it says, and its tool calls
        await talk.record(context, reply, seconds=time.monotonic() - began)
        calls = [one.event for one in logged if isinstance(one.event, ToolCall)]
        if not calls:
            advice: dict[str, Any] = context.parse(logged[-1].text)  # checked against the schema
            return advice
        for call in calls:
            await answer(talk, call)


async def answer(talk: Talk, call: ToolCall) -> None:
    """Run a tool: your own, or one of memory's, which `lookups=True` has put into the request."""
    if call.name == "weather":
        city = json.loads(call.arguments)["city"]
        await talk.append(tool_result(f"Rain in {city} from noon on.", id=call.id, name=call.name))
    else:
        await talk.append(await talk.look_up(call))


async def main() -> None:
    with stand_in() as address:
        client = AsyncOpenAI(api_key="none-needed", base_url=address)
        async with client, Everthread.open("sqlite:///own-loop.db", settings={}) as et:
            talk = await et.conversation(user="ana")
            advice = await turn(talk, client, "Do I need an umbrella in Rome today?")
            print(f"umbrella: {advice['umbrella']}, because: {advice['why']}")
            (used,) = await et.usage(user="ana", by="model")
            print(f"{used.calls} model calls, {used.input} tokens in, {used.output} out")


# -- a stand-in for OpenAI, which asks for the weather and then gives advice -----------------------------------


class StandIn(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        told = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if told:
            message["content"] = json.dumps({"umbrella": "Rain" in told[0], "why": told[0]})
        else:
            function = {"name": "weather", "arguments": '{"city": "Rome"}'}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": "stop" if told else "tool_calls"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        reply = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked["model"]}
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps({**reply, "choices": [choice], "usage": usage}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def stand_in() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), StandIn)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


asyncio.run(main())
