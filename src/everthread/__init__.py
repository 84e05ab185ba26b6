"""LLM conversations that never end. See `Everthread`, and CONTEXT.md for the words.

Everything that a program meets can be imported from here: the verbs' values, what they take, and all errors.
Importing this imports nothing yet: each name is fetched from its module when it is first used, so that a program or
command that needs little starts at once. A name stands here twice, for type checkers and for Python; a test compares.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Combined, or each `Name as Name` would be a statement of its own.
    # isort: off
    from everthread.agent.child import Child as Child
    from everthread.agent.children import ListedChild as ListedChild
    from everthread.agent.personas import Agent as Agent, Agents as Agents, Server as Server, Versioned as Versioned
    from everthread.agent.prepare import Rebuilt as Rebuilt
    from everthread.agent.reply import Reply as Reply, TurnResult as TurnResult
    from everthread.app import Everthread as Everthread
    from everthread.archive.catalogue import (
        ArchiveProblem as ArchiveProblem,
        ArchiveProgress as ArchiveProgress,
        ListedArchive as ListedArchive,
    )
    from everthread.arguments import ForContext as ForContext, ForTurn as ForTurn
    from everthread.config import Resolved as Resolved, Settings as Settings
    from everthread.context.build import Context as Context
    from everthread.context.explain import Explanation as Explanation, StepLine as StepLine, TurnLine as TurnLine
    from everthread.core.accounts import (
        Account as Account,
        ApiKey as ApiKey,
        AuditEntry as AuditEntry,
        Caller as Caller,
        ProviderKey as ProviderKey,
    )
    from everthread.core.branches import Branch as Branch, Line as Line
    from everthread.core.canvas import Canvas as Canvas
    from everthread.core.deltas import (
        CallDelta as CallDelta,
        CanvasDelta as CanvasDelta,
        Delta as Delta,
        Done as Done,
        Notice as Notice,
        ReasoningDelta as ReasoningDelta,
        ResultDelta as ResultDelta,
        TextDelta as TextDelta,
        Usage as Usage,
    )
    from everthread.core.events import (
        AgentKilled as AgentKilled,
        Assistant as Assistant,
        BriefUpdated as BriefUpdated,
        Clear as Clear,
        Command as Command,
        Event as Event,
        Fork as Fork,
        Mark as Mark,
        Marker as Marker,
        Message as Message,
        ModelCall as ModelCall,
        Other as Other,
        Pin as Pin,
        Redacted as Redacted,
        Rewind as Rewind,
        ScheduleFailed as ScheduleFailed,
        SessionEnded as SessionEnded,
        SessionStarted as SessionStarted,
        SettingsChanged as SettingsChanged,
        Summary as Summary,
        System as System,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
        Upload as Upload,
        User as User,
        assistant as assistant,
        marker as marker,
        system as system,
        text_of as text_of,
        tool_call as tool_call,
        tool_result as tool_result,
        user as user,
    )
    from everthread.core.happenings import (
        ArtifactCreated as ArtifactCreated,
        CanvasChanged as CanvasChanged,
        FlowCompleted as FlowCompleted,
        FlowStarted as FlowStarted,
        Happening as Happening,
        UserEdit as UserEdit,
        artifact_created as artifact_created,
        canvas_changed as canvas_changed,
        flow_completed as flow_completed,
        flow_started as flow_started,
        user_edit as user_edit,
    )
    from everthread.core.importance import Worth as Worth
    from everthread.core.logged import Logged as Logged
    from everthread.core.parts import (
        File as File,
        Image as Image,
        Part as Part,
        Reasoning as Reasoning,
        Text as Text,
        file as file,
        image as image,
        text as text,
    )
    from everthread.core.quotes import Quote as Quote
    from everthread.core.request import Tool as Tool
    from everthread.core.schedules import Schedule as Schedule
    from everthread.core.settings import GivenSettings as GivenSettings
    from everthread.core.strategies import Choice as Choice, Older as Older, Strategy as Strategy, View as View
    from everthread.core.told import Told as Told
    from everthread.core.turns import Session as Session, State as State, Turn as Turn
    from everthread.core.window import Room as Room, Start as Start
    from everthread.errors import (
        AccountDisabled as AccountDisabled,
        AccountExists as AccountExists,
        AlreadyApproved as AlreadyApproved,
        AlreadyExists as AlreadyExists,
        AnotherLoop as AnotherLoop,
        ArchiveError as ArchiveError,
        Archived as Archived,
        BadAddress as BadAddress,
        BadAgent as BadAgent,
        BadFormat as BadFormat,
        BadOutput as BadOutput,
        BadPassword as BadPassword,
        BadRequest as BadRequest,
        BadSeal as BadSeal,
        BadSetting as BadSetting,
        BadSettingsFile as BadSettingsFile,
        BadTool as BadTool,
        BadValue as BadValue,
        BeyondModel as BeyondModel,
        BrokenOff as BrokenOff,
        Busy as Busy,
        CannotStart as CannotStart,
        Changed as Changed,
        Closed as Closed,
        Conflict as Conflict,
        Corrupt as Corrupt,
        DamagedArchive as DamagedArchive,
        EventTooLarge as EventTooLarge,
        EverthreadError as EverthreadError,
        Forbidden as Forbidden,
        ForeignArchive as ForeignArchive,
        Forked as Forked,
        Full as Full,
        GoingAway as GoingAway,
        InputError as InputError,
        KeyRefused as KeyRefused,
        KeyReused as KeyReused,
        LastAdministrator as LastAdministrator,
        LimitReached as LimitReached,
        LinkUsed as LinkUsed,
        MigrationFailed as MigrationFailed,
        MissingArchive as MissingArchive,
        MissingExtra as MissingExtra,
        ModelError as ModelError,
        Moved as Moved,
        NewerArchive as NewerArchive,
        NewerSchema as NewerSchema,
        NoArchiveKey as NoArchiveKey,
        NoCredit as NoCredit,
        NoKey as NoKey,
        NoModel as NoModel,
        NoModelFile as NoModelFile,
        NoPlace as NoPlace,
        NoSuchMethod as NoSuchMethod,
        NoSuchRoute as NoSuchRoute,
        NoUser as NoUser,
        NoVaultKey as NoVaultKey,
        NotADatabase as NotADatabase,
        NotArchivable as NotArchivable,
        NotFound as NotFound,
        NotReached as NotReached,
        NotRemote as NotRemote,
        NotSignedIn as NotSignedIn,
        NotWaiting as NotWaiting,
        NotYetGone as NotYetGone,
        NothingToResume as NothingToResume,
        OneProcessOnly as OneProcessOnly,
        Outdated as Outdated,
        Outrun as Outrun,
        Overloaded as Overloaded,
        PlaceUnavailable as PlaceUnavailable,
        ReadOnly as ReadOnly,
        RequestRefused as RequestRefused,
        ServiceUnreachable as ServiceUnreachable,
        StillVersioned as StillVersioned,
        StoreError as StoreError,
        TakenOver as TakenOver,
        TooDeep as TooDeep,
        TooLarge as TooLarge,
        TooLong as TooLong,
        TooMany as TooMany,
        TooManyChildren as TooManyChildren,
        TooManyTries as TooManyTries,
        TooSlow as TooSlow,
        TurnBusy as TurnBusy,
        TurnCancelled as TurnCancelled,
        TurnInterrupted as TurnInterrupted,
        Unavailable as Unavailable,
        UnknownAccount as UnknownAccount,
        UnknownAgent as UnknownAgent,
        UnknownArchive as UnknownArchive,
        UnknownBlob as UnknownBlob,
        UnknownBranch as UnknownBranch,
        UnknownChild as UnknownChild,
        UnknownConversation as UnknownConversation,
        UnknownKey as UnknownKey,
        UnknownMark as UnknownMark,
        UnknownModel as UnknownModel,
        UnknownSchedule as UnknownSchedule,
        UnknownSeq as UnknownSeq,
        Unreachable as Unreachable,
        WouldHang as WouldHang,
        WrongKey as WrongKey,
        WrongPassword as WrongPassword,
    )
    from everthread.jobs.worker import Did as Did
    from everthread.language.facts import Fact as Fact
    from everthread.memory.correct import Remembered as Remembered
    from everthread.memory.status import Status as Status
    from everthread.opening import Opening as Opening
    from everthread.providers.choose import Chosen as Chosen
    from everthread.providers.models import Limits as Limits, Model as Model
    from everthread.store.beside.usage import By as By, UsageTotal as UsageTotal
    from everthread.store.conversations import (
        BranchTotals as BranchTotals,
        Conversation as Conversation,
        Owner as Owner,
        Totals as Totals,
    )
    from everthread.store.engine import Engine as Engine
    from everthread.store.listing import ListedConversation as ListedConversation
    from everthread.store.log import Log as Log
    from everthread.store.recall.hits import Branches as Branches, Hit as Hit, Neighbour as Neighbour, Scope as Scope
    from everthread.store.reach import within as within
    from everthread.talk import Talk as Talk
    from everthread.talk.delegating import ForChild as ForChild, delegate_tool as delegate_tool
    from everthread.tools import (
        FunctionTool as FunctionTool,
        McpServer as McpServer,
        ToolContext as ToolContext,
        Toolbox as Toolbox,
        tool as tool,
    )
    from everthread.tools.canvas import canvas_tools as canvas_tools
    from everthread.tools.functions import Approval as Approval
    from everthread.tools.results import Drawing as Drawing
    from everthread.tools.schedules import schedule_tool as schedule_tool
    from everthread.tools.toolbox import ToolOutcome as ToolOutcome
    from everthread.transfer.importing import Imported as Imported
    # isort: on

__version__ = "0.1.0"

_NAMES = {
    "everthread.agent.child": "Child",
    "everthread.agent.children": "ListedChild",
    "everthread.agent.personas": "Agent Agents Server Versioned",
    "everthread.agent.prepare": "Rebuilt",
    "everthread.agent.reply": "Reply TurnResult",
    "everthread.app": "Everthread",
    "everthread.archive.catalogue": "ArchiveProblem ArchiveProgress ListedArchive",
    "everthread.arguments": "ForContext ForTurn",
    "everthread.config": "Resolved Settings",
    "everthread.context.build": "Context",
    "everthread.context.explain": "Explanation StepLine TurnLine",
    "everthread.core.accounts": "Account ApiKey AuditEntry Caller ProviderKey",
    "everthread.core.branches": "Branch Line",
    "everthread.core.canvas": "Canvas",
    "everthread.core.deltas": "CallDelta CanvasDelta Delta Done Notice ReasoningDelta ResultDelta TextDelta Usage",
    "everthread.core.events": (
        "AgentKilled Assistant BriefUpdated Clear Command Event Fork Mark Marker Message ModelCall Other Pin Redacted "
        "Rewind ScheduleFailed SessionEnded SessionStarted SettingsChanged Summary System ToolCall ToolResult Upload "
        "User assistant marker system text_of tool_call tool_result user"
    ),
    "everthread.core.happenings": (
        "ArtifactCreated CanvasChanged FlowCompleted FlowStarted Happening UserEdit artifact_created canvas_changed "
        "flow_completed flow_started user_edit"
    ),
    "everthread.core.importance": "Worth",
    "everthread.core.logged": "Logged",
    "everthread.core.parts": "File Image Part Reasoning Text file image text",
    "everthread.core.quotes": "Quote",
    "everthread.core.request": "Tool",
    "everthread.core.schedules": "Schedule",
    "everthread.core.settings": "GivenSettings",
    "everthread.core.strategies": "Choice Older Strategy View",
    "everthread.core.told": "Told",
    "everthread.core.turns": "Session State Turn",
    "everthread.core.window": "Room Start",
    "everthread.errors": (
        "AccountDisabled AccountExists AlreadyApproved AlreadyExists AnotherLoop ArchiveError Archived BadAddress "
        "BadAgent BadFormat BadOutput BadPassword BadRequest BadSeal BadSetting BadSettingsFile BadTool BadValue "
        "BeyondModel BrokenOff Busy CannotStart Changed Closed Conflict Corrupt DamagedArchive EventTooLarge "
        "EverthreadError Forbidden ForeignArchive Forked Full GoingAway InputError KeyRefused KeyReused "
        "LastAdministrator LimitReached LinkUsed MigrationFailed MissingArchive MissingExtra ModelError Moved "
        "NewerArchive NewerSchema NoArchiveKey NoCredit NoKey NoModel NoModelFile NoPlace NoSuchMethod NoSuchRoute "
        "NoUser NoVaultKey NotADatabase NotArchivable NotFound NotReached NotRemote NotSignedIn NotWaiting "
        "NotYetGone NothingToResume OneProcessOnly Outdated Outrun Overloaded PlaceUnavailable ReadOnly "
        "RequestRefused ServiceUnreachable StillVersioned StoreError TakenOver TooDeep TooLarge TooLong TooMany "
        "TooManyChildren TooManyTries TooSlow TurnBusy TurnCancelled TurnInterrupted Unavailable UnknownAccount "
        "UnknownAgent UnknownArchive UnknownBlob UnknownBranch UnknownChild UnknownConversation UnknownKey "
        "UnknownMark UnknownModel "
        "UnknownSchedule UnknownSeq Unreachable WouldHang WrongKey WrongPassword"
    ),
    "everthread.jobs.worker": "Did",
    "everthread.language.facts": "Fact",
    "everthread.memory.correct": "Remembered",
    "everthread.memory.status": "Status",
    "everthread.opening": "Opening",
    "everthread.providers.choose": "Chosen",
    "everthread.providers.models": "Limits Model",
    "everthread.store.beside.usage": "By UsageTotal",
    "everthread.store.conversations": "BranchTotals Conversation Owner Totals",
    "everthread.store.engine": "Engine",
    "everthread.store.listing": "ListedConversation",
    "everthread.store.log": "Log",
    "everthread.store.recall.hits": "Branches Hit Neighbour Scope",
    "everthread.store.reach": "within",
    "everthread.talk": "Talk",
    "everthread.talk.delegating": "ForChild delegate_tool",
    "everthread.tools": "FunctionTool McpServer ToolContext Toolbox tool",
    "everthread.tools.canvas": "canvas_tools",
    "everthread.tools.functions": "Approval",
    "everthread.tools.results": "Drawing",
    "everthread.tools.schedules": "schedule_tool",
    "everthread.tools.toolbox": "ToolOutcome",
    "everthread.transfer.importing": "Imported",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
