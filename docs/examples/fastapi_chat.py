"""A chat service in FastAPI: whoever loses the connection comes back and misses nothing.

uvicorn fastapi_chat:app          # serves; EVERTHREAD_MODEL names the model that replies
python fastapi_chat.py            # shows it at work, with a model that needs no key
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse, StreamingResponse

from everthread import (
    Conversation,
    Everthread,
    EverthreadError,
    Hit,
    ListedConversation,
    Logged,
    NotFound,
    Talk,
    wire,
)

MODEL = os.environ.get("EVERTHREAD_MODEL", "scripted:echo")  # which repeats what it is told


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Everthread.open(os.environ.get("EVERTHREAD_STORE", "sqlite:///chat.db")) as et:
        app.state.et = et
        yield


app = FastAPI(lifespan=lifespan)


def store(request: Request) -> Everthread:
    et: Everthread = request.app.state.et
    return et


Store = Annotated[Everthread, Depends(store)]
User = Annotated[str, Header(alias="X-User")]  # in a service of your own: whoever is signed in


async def talk_of(et: Store, user: User, conversation: str) -> Talk:
    """The user's conversation with this id; somebody else's is not found."""
    return await et.conversation(user=user, id=conversation)


Conversing = Annotated[Talk, Depends(talk_of)]


@app.exception_handler(EverthreadError)
async def refused(request: Request, problem: EverthreadError) -> JSONResponse:
    return JSONResponse({"error": str(problem)}, 404 if isinstance(problem, NotFound) else 422)


@app.post("/conversations")
async def begin(et: Store, user: User) -> Conversation:
    return (await et.begin(user=user)).conversation


@app.get("/conversations")
async def conversations(et: Store, user: User, before: str = "~") -> list[ListedConversation]:
    return await et.conversations(user=user, before=before)


@app.get("/conversations/{conversation}/messages")
async def messages(talk: Conversing, before: int = 2**31 - 1) -> list[Logged]:
    """A page of what was said. The page above it ends before the seq of its first message."""
    return await talk.before(before, limit=50, messages=True)


@app.post("/conversations/{conversation}/messages")
async def say(talk: Conversing, text: Annotated[str, Body(embed=True)], key: str = "") -> Logged:
    """Accepted once the message is on disk. The reply goes on without the caller: `events` tells it."""
    return await talk.say(text, model=MODEL, detached=True, key=key).accepted()


@app.get("/conversations/{conversation}/recall")
async def recall(talk: Conversing, query: str) -> list[Hit]:
    return await talk.recall(query)


@app.get("/conversations/{conversation}/events")
async def events(talk: Conversing, last_event_id: Annotated[int, Header()] = 0) -> StreamingResponse:
    """Server-sent events: those of the log, with their seq as the id, and the deltas of the reply that runs, without.

    A browser that reconnects sends the last id that it saw, and goes on from there.
    """
    return StreamingResponse(_sse(talk, after=last_event_id), media_type="text/event-stream")


async def _sse(talk: Talk, *, after: int) -> AsyncIterator[bytes]:
    async for heard in talk.listen(after=after):
        about = f"event: event\nid: {heard.seq}" if isinstance(heard, Logged) else "event: delta"
        yield about.encode() + b"\ndata: " + wire.dumps(heard) + b"\n\n"


# -- at work -----------------------------------------------------------------------------------------------


def demonstrate() -> None:
    """Say something, lose the connection, come back."""
    import socket
    import tempfile
    import threading

    import httpx
    import uvicorn

    os.environ["EVERTHREAD_STORE"] = f"sqlite:///{tempfile.mkdtemp()}/chat.db"
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    running.start()
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with httpx.Client(base_url=address, headers={"X-User": "ana"}, timeout=60) as client:
        chat = "/conversations/{}".format(client.post("/conversations").json()["id"])
        said = client.post(f"{chat}/messages", json={"text": "My son is allergic to walnuts."}).json()
        print("accepted as event", said["seq"], "at", said["time"])
        seen = 0
        for event in _heard(client, chat, after=0):
            seen = event["seq"]
            break
        print("the connection is lost after event", seen)
        for event in _heard(client, chat, after=seen):
            print("event", event["seq"], event["kind"], event["text"])
            if event["kind"] == "assistant":
                break
        print("said so far:", [message["text"] for message in client.get(f"{chat}/messages").json()])
    server.should_exit = True
    running.join()


def _heard(client: Any, chat: str, *, after: int) -> Any:
    """The events of the log that a listener hears."""
    with client.stream("GET", f"{chat}/events", headers={"Last-Event-ID": str(after)}) as lines:
        name = ""
        for line in lines.iter_lines():
            field, _, value = line.partition(": ")
            name = value if field == "event" else name
            if field == "data" and name == "event":
                yield wire.plain(wire.loads(Logged, value))


if __name__ == "__main__":
    demonstrate()
