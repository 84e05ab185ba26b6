"""`everthread ask`: one message and its reply, streamed; at home in a pipe."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from everthread.app import Everthread
from everthread.cli.lines import text_from
from everthread.cli.shared import agents_folder, anywhere, guarded, run, say_json, somebody_types, tell, where_of
from everthread.cli.speaking import loading, partner_of, speaking, talk_of, warn
from everthread.cli.telling import ReplyPrinter, price_line
from everthread.core.deltas import Done
from everthread.core.parts import Part, file, image
from everthread.core.values import plain
from everthread.errors import BadValue, ModelError, TurnInterrupted
from everthread.talk import Talk

PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


@click.command("ask")
@click.argument("message", nargs=-1)
@anywhere
@speaking
@click.option("--attach", "paths", multiple=True, metavar="FILE", help="A picture or file to show; may be repeated.")
@click.option("--reasoning", is_flag=True, help="Show what the model thinks, where its provider does.")
@click.option("--usage", "with_usage", is_flag=True, help="Say afterwards what it took.")
@click.option("--key", default="", metavar="NAME", help="Names this message: asked again with it, it is said once.")
def ask_command(
    message: tuple[str, ...], paths: tuple[str, ...], reasoning: bool, with_usage: bool, key: str, **given: Any
) -> None:
    """Say MESSAGE to an agent and stream its reply. What comes through a pipe is added to the message, or is the
    message where none is given: `git diff | everthread ask "Any mistakes in this?"`"""
    partner = partner_of(given)
    where = where_of(**given)
    text = guarded(where.json, lambda: _message(message))

    async def work(et: Everthread) -> None:
        asked, shown = partner.asked(), [_attached(path) for path in paths]
        talk = await talk_of(et, where, partner)
        model = (await talk.context(**asked)).model
        warn(model)
        teller = ReplyPrinter(form="silent" if where.json else "words", reasoning=reasoning, words=loading(model))
        await teller.listen(talk.say(text, *shown, key=key, **asked))
        assert teller.done
        if where.json:
            say_json(_as_json(talk, teller))
        else:
            _afterwards(talk, teller, teller.done, with_usage=with_usage)
        if teller.failed:
            sys.exit(1)

    run(where, work, makes_store=True, agents=agents_folder(partner.folder))


def _message(words: tuple[str, ...]) -> str:
    said = " ".join(words)
    piped = "" if sys.stdin is None or somebody_types() else text_from(sys.stdin.buffer.read(), "What was piped in")
    text = "\n\n".join(piece for piece in (said, piped.strip("\r\n")) if piece.strip())
    if not text:
        raise click.UsageError('There is nothing to say: everthread ask "…", or pipe something in.')
    return text


def _afterwards(talk: Talk, teller: ReplyPrinter, done: Done, *, with_usage: bool) -> None:
    if isinstance(teller.failed, ModelError | TurnInterrupted) and teller.failed.again and teller.failed.kept:
        tell(f"The message is kept: everthread chat --conversation {talk.id}, then /retry.", colour="yellow")
    if done.state == "waiting":
        todo = f"everthread chat --conversation {talk.id}, then /approve or /refuse"
        tell(f"The agent waits for approval: {todo}.", colour="yellow")
    if with_usage:
        tell(price_line(done))


def _attached(path: str) -> Part:
    try:
        data = Path(path).read_bytes()
    except OSError as problem:
        raise BadValue("--attach", path, f"a file that can be read ({problem.strerror})") from None
    name = Path(path).name
    if name.lower().endswith(PICTURES):
        return image(data)
    if name.lower().endswith(".pdf"):
        return file(data, name=name, media_type="application/pdf")
    try:
        data.decode()
    except UnicodeDecodeError:
        raise BadValue("--attach", path, "a picture, a PDF, or text in UTF-8") from None
    return file(data, name=name, media_type="text/plain")


def _as_json(talk: Talk, teller: ReplyPrinter) -> dict[str, Any]:
    done: dict[str, Any] = plain(teller.done)
    del done["kind"]
    said = {"conversation": talk.id, "text": teller.text, **done}
    if teller.failed:
        said["error"] = {"type": type(teller.failed).__name__, "message": teller.failed.sentence}
    return said
