"""Whole conversations as text: JSON Lines out and in, and the histories of other programs in.

The format is one JSON object a line, in any number of conversations:

    {"everthread": 1, "conversation": {id, user, agent, name, goal, settings, current, began}, "events": at least}
    {"branch": {number, name, parent, at, time}}       all but main, which is number 1
    {"blob": {hash, data}}                             base64, before the first event that shows it
    {"seq", "branch", "id", "time", "session", "tokens", "settled", "event": {"kind": …}}
    {"conversation": {name, goal, settings, current}}  what it says of itself from here on
    {"everthread": 1, "document": {user, name, version, body, time}}  a version of a user's document, such as MEMORY.md

In the lines of a mirror or a whole store, those with `everthread` also have a `tenant`, and there are records beside
conversations (`whole_store`).

Text that no UTF-8 file can hold stands as base64 of its stored form in `body` in place of `event`. What a
hand-made file leaves out (ids, times, sizes, branch) is set as for a new event.

Readers of other systems' histories are tolerant of what real traces hold (null content, repeated or missing ids,
arguments that are no JSON) and exact about what they do not understand: `BadFormat` names the place and what was
found there, and nothing is guessed. Writers are faithful: they give back what was read, but for the normalisations
that each module's first paragraph lists. They do not repair a history; making a request that a provider accepts is
the work of whoever builds requests.
"""

from everthread.providers.anthropic.messages import from_anthropic, to_anthropic
from everthread.providers.openai.messages import from_openai, to_openai
from everthread.transfer.chatgpt import from_chatgpt
from everthread.transfer.claude import from_claude
from everthread.transfer.detect import detect
from everthread.transfer.importing import Imported, import_path
from everthread.transfer.lines import Keeps
from everthread.transfer.message_lists import listed
from everthread.transfer.pages import shown
from everthread.transfer.read import read_all, read_file
from everthread.transfer.strands import Exported, Strand
from everthread.transfer.whole_store import store_lines
from everthread.transfer.write import all_lines, document_lines, export_lines, mirror

__all__ = [
    "Exported",
    "Imported",
    "Keeps",
    "Strand",
    "all_lines",
    "detect",
    "document_lines",
    "export_lines",
    "from_anthropic",
    "from_chatgpt",
    "from_claude",
    "from_openai",
    "import_path",
    "listed",
    "mirror",
    "read_all",
    "read_file",
    "shown",
    "store_lines",
    "to_anthropic",
    "to_openai",
]
