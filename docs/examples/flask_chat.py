"""A chat with Flask: the reply streams, goes on when the tab is closed, and is joined in the middle by one that opens.

python docs/examples/flask_chat.py            # http://127.0.0.1:5000; a scripted model, no key
MODEL=openai:gpt-5 python docs/examples/flask_chat.py

GET  /                    the page
POST /messages            {"text": "…"} says it; the answer is the message's seq
GET  /events?after=SEQ    server-sent events: the messages after SEQ, then the running reply, then whatever comes
POST /stop                ends the running turn
"""

# run by tests/sync/test_examples.py
from __future__ import annotations

import json
import os
import secrets
from typing import Any

from flask import Flask, Response, jsonify, request, session

from everthread import BadValue, Delta, Done, Logged, TextDelta, TurnBusy
from everthread.sync import Everthread, Talk
from everthread.testing.scripted import script

PULSE = 15.0  # seconds after which a silent connection is tried: whose tab is closed is let go


def create_app(et: Everthread) -> Flask:
    app = Flask(__name__)
    app.secret_key = os.environ.get("SECRET_KEY") or secrets.token_hex(32)

    def talk() -> Talk:
        """The visitor's own conversation. In your application, take the user from your login."""
        user = session.setdefault("user", secrets.token_hex(16))
        return et.conversation(user=user)

    @app.get("/")
    def page() -> str:
        talk()
        return PAGE

    @app.post("/messages")
    def say() -> tuple[Response, int]:
        try:
            text = str((request.get_json() or {}).get("text", ""))
            reply = talk().say(text, detached=True, when_busy="refuse")
            return jsonify(seq=reply.accepted().seq), 202  # on disk; the turn goes on by itself
        except BadValue as problem:
            return jsonify(error=str(problem)), 400
        except TurnBusy as problem:
            return jsonify(error=str(problem)), 409

    @app.get("/events")
    def events() -> Response:
        after = request.args.get("after", 0, type=int)
        after = request.headers.get("Last-Event-ID", after, type=int)
        heard = talk().listen(after=after).pulse(PULSE)
        told = (sse(one) for one in heard)  # closed with the connection: whoever listens no more is let go
        return Response(told, mimetype="text/event-stream", headers={"Cache-Control": "no-store"})

    @app.post("/stop")
    def stop() -> Response:
        return jsonify(stopped=talk().stop())

    return app


def sse(heard: Logged | Delta | None) -> str:
    """What was heard as a server-sent event. Its id is where the browser goes on when the connection was lost."""
    match heard:
        case Logged(kind="user" | "assistant"):
            return written("message", {"role": heard.kind, "text": heard.text}, f"id: {heard.seq}\n")
        case TextDelta():
            return written("delta", {"text": heard.text})
        case Done():
            return written("done", {"state": heard.state})
    return ":\n\n"  # a comment, which nobody hears: a sign of life


def written(event: str, data: dict[str, Any], id: str = "") -> str:
    return f"{id}event: {event}\ndata: {json.dumps(data)}\n\n"


PAGE = """<!doctype html><meta charset="utf-8"><title>Chat</title>
<ol id="said"></ol><p id="now"></p>
<form><input name="text" autofocus> <button>Say</button> <button type="button" id="stop">Stop</button></form>
<script>
const said = document.getElementById("said"), now = document.getElementById("now"), form = document.forms[0]
const events = new EventSource("/events")
events.addEventListener("delta", heard => now.textContent += JSON.parse(heard.data).text)
events.addEventListener("done", () => now.textContent = "")
events.addEventListener("message", heard => {
  const { role, text } = JSON.parse(heard.data)
  said.appendChild(document.createElement("li")).textContent = role + ": " + text
  now.textContent = ""
})
form.onsubmit = submitted => {
  submitted.preventDefault()
  fetch("/messages", { method: "POST", headers: { "Content-Type": "application/json" },
                       body: JSON.stringify({ text: form.text.value }) })
  form.reset()
}
document.getElementById("stop").onclick = () => fetch("/stop", { method: "POST" })
</script>
"""


if __name__ == "__main__":
    script("guide", *["Porto is lovely in May, and so is the valley of the Douro."] * 100, pace=0.05)
    model = os.environ.get("MODEL", "scripted:guide")
    with Everthread.open("sqlite:///chat.db", settings={"model": model}) as store:
        create_app(store).run(threaded=True)
