"""Events: what a branch's log is made of.

A closed union by `kind`. Messages are sent to the model: system, user, assistant, tool_call, tool_result.
Markers are not: clear, mark, rewind, fork, command, settings, pin, agent_killed, model_call, session_started,
schedule_failed, those of memory (brief_updated, session_ended, summary), happenings (`core.happenings`), and whatever
kinds applications add (`Other`), which come back as they went in. These are values without identity: where and when an
event stands in the log is `core.logged.Logged`, not here.

`kinds` has the values, `builders` makes them, `content` reads them, `remembering` says which ones memory is told of,
and `stored` is their form in the log.
"""

from __future__ import annotations

from everthread.core.events.builders import (
    assistant,
    marker,
    system,
    tool_call,
    tool_result,
    user,
)
from everthread.core.events.content import (
    attach,
    bare,
    detach,
    media_of,
    redacted,
    stand_in,
    text_of,
)
from everthread.core.events.kinds import (
    KINDS,
    LOOKUPS,
    MEMORY,
    MESSAGES,
    TOMBSTONE,
    UNANSWERED,
    AgentKilled,
    Assistant,
    BriefUpdated,
    Clear,
    Command,
    Event,
    Fork,
    Mark,
    Marker,
    Message,
    ModelCall,
    Other,
    Pin,
    Redacted,
    Rewind,
    ScheduleFailed,
    SessionEnded,
    SessionStarted,
    SettingsChanged,
    Summary,
    System,
    ToolCall,
    ToolResult,
    User,
    is_kind,
)
from everthread.core.events.remembering import (
    is_unremembered,
    looks_up,
    rememberable,
    unremembered,
)
from everthread.core.events.stored import (
    decode,
    decode_all,
    encode,
)

__all__ = [
    "KINDS",
    "LOOKUPS",
    "MEMORY",
    "MESSAGES",
    "TOMBSTONE",
    "UNANSWERED",
    "AgentKilled",
    "Assistant",
    "BriefUpdated",
    "Clear",
    "Command",
    "Event",
    "Fork",
    "Mark",
    "Marker",
    "Message",
    "ModelCall",
    "Other",
    "Pin",
    "Redacted",
    "Rewind",
    "ScheduleFailed",
    "SessionEnded",
    "SessionStarted",
    "SettingsChanged",
    "Summary",
    "System",
    "ToolCall",
    "ToolResult",
    "User",
    "assistant",
    "attach",
    "bare",
    "decode",
    "decode_all",
    "detach",
    "encode",
    "is_kind",
    "is_unremembered",
    "looks_up",
    "marker",
    "media_of",
    "redacted",
    "rememberable",
    "stand_in",
    "system",
    "text_of",
    "tool_call",
    "tool_result",
    "unremembered",
    "user",
]
