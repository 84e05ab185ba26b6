"""`everthread bench`: runs a benchmark from the folder `benchmarks/`.

A command of a clone: the benchmarks, and the PostgreSQL that they start, are in the repository and not in the package.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import click

NAMES = {
    "log": "Append, read, fork and bytes against the bare engine; and writers killed at random moments.",
    "window": "Building a context at any length, against the bare engine and against other libraries.",
    "cache": "What a window costs under the providers' prompt caches: whole history, sliding, stepped.",
    "agent": "What a turn adds to a model call, against the bare SDKs; and how long a process takes to start.",
    "recall": "Whether recall finds what answers a question, and how long it takes among very many messages.",
    "memory": "Which facts are still known when a conversation has gone on, and how long a turn waits for memory.",
    "service": "Requests, turns, streams and memory of the service, beside the bare framework.",
    "transfer": "Importing very many messages: the speed beside bare inserts, and the memory that it takes.",
    "archive": "Moving conversations out and back, beside reading and inserting the same rows; size; the list.",
    "validity": "Requests from histories as bad as real ones, none of which a provider may refuse.",
}

FOLDER = Path(__file__).parents[3] / "benchmarks"


class _CommandOfAClone(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not (FOLDER / "log.py").exists():
            raise click.ClickException("`everthread bench` works only in a clone of Everthread's repository.")
        return super().parse_args(ctx, args)


@click.command(
    "bench",
    cls=_CommandOfAClone,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("name", type=click.Choice(list(NAMES)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def bench_command(name: str, arguments: tuple[str, ...]) -> None:
    """Measure Everthread in one run: log and window against the bare engine, cache against a sliding window, agent
    against the bare SDKs, service against the bare framework; recall asks for what is known to be there, memory for
    what was said long ago, validity counts what a provider would refuse. Works only in a clone. What follows NAME is
    the benchmark's own: `bench cache --help`.
    """
    sys.argv = [f"everthread bench {name}", *arguments]
    sys.path.insert(0, str(FOLDER.parent))
    runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
