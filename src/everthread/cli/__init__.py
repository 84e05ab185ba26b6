"""The command line: `everthread COMMAND`.

Each command lives in a module of its own that is imported when it is asked for, so that `--help` is quick.
What they share (which store, whose conversations, errors, tables, JSON) is in `shared`.
"""

from __future__ import annotations

import io
import logging
import sys
from importlib import import_module

import click

COMMANDS = {
    "serve": ("serve", "Serve conversations over HTTP, with a page to talk on."),
    "chat": ("chat", "Chat with an agent, line by line."),
    "ask": ("ask", "Say one thing and stream the reply."),
    "conversations": ("list", "List conversations, last active first."),
    "show": ("show", "Show what was said in a conversation."),
    "canvas": ("canvas", "Draw what is on the canvas of a conversation."),
    "stop": ("stop", "End the turn that runs in a conversation."),
    "recall": ("recall", "Find what was said about something."),
    "memory": ("memory", "Show, correct and delete what is remembered."),
    "context": ("context", "Show what a model would be told next, and why."),
    "children": ("children", "List children of a conversation, show or stop one."),
    "agents": ("agents", "List agents, or show one with its versions."),
    "schedules": ("schedules", "List and change what is said at a time."),
    "usage": ("usage", "Show what model calls took: tokens, cache, price."),
    "work": ("work", "Say what is scheduled, and do what memory has to do."),
    "link": ("link", "Print a one-time link to sign in to the service, or to invite."),
    "users": ("users", "List, invite and change who may use the service."),
    "keys": ("keys", "List, make and revoke API keys of the service."),
    "vault": ("vault", "Keep a tenant's keys for providers, encrypted."),
    "import": ("transfer", "Import conversations from a file or folder."),
    "export": ("transfer", "Export conversations: JSON Lines, HTML, Markdown and others."),
    "archive": ("archive", "Move conversations into files, list and verify them."),
    "restore": ("archive", "Bring an archived conversation back."),
    "mirror": ("mirror", "Keep a folder of JSON Lines equal to the store; rebuild from it."),
    "retention": ("retention", "Erase conversations that have long been idle."),
    "doctor": ("doctor", "Check a store against its own laws."),
    "bench": ("bench", "Measure Everthread, in a clone: speed, price, validity."),
    "tour": ("tour", "A guided tour on a fresh store."),
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"everthread.cli.{COMMANDS[name][0]}")
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="everthread", message="everthread %(version)s")
def main() -> None:
    """LLM conversations that never end: kept for ever, in SQLite or PostgreSQL, with any model.

    The store is --store, or EVERTHREAD_STORE, or a file in your data folder. All but the tour and the benchmarks take
    --json.
    """
    # What the terminal's encoding does not have is shown as a question mark, not as a traceback.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    # What goes wrong with a turn is told by the command; a logger without a handler would tell it once more.
    logging.getLogger("everthread.agent").addHandler(logging.NullHandler())
