"""Whole conversations as text: JSON Lines out and in, and the histories of other programs in.

The format is one JSON object a line, in any number of conversations:

    {"everthread": 1, "conversation": {id, user, agent, name, goal, settings, current, began}, "events": at least}
    {"branch": {number, name, parent, at, time}}       all but main, which is number 1
    {"blob": {hash, data}}                             base64, before the first event that shows it
    {"seq", "branch", "id", "time", "session", "tokens", "settled", "event": {"kind": …}}
    {"conversation": {name, goal, settings, current}}  what it says of itself from here on
    {"everthread": 1, "document": {user, name, version, body, time}}  a version of a user's document, such as MEMORY.md

Text that no UTF-8 file can hold stands as base64 of its stored form in `body` in place of `event`. What a
hand-made file leaves out (ids, times, sizes, branch) is set as for a new event.
"""

from everthread.transfer.read import read_all, read_file
from everthread.transfer.write import document_lines, export_lines, mirror

__all__ = ["document_lines", "export_lines", "mirror", "read_all", "read_file"]
