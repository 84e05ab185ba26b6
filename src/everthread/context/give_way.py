"""Making a context fit: what gives way to the budget, and in which order.

Older turns leave, then pins; then the newest turn has its results shortened, from the largest; then what memory adds
shrinks, and its own tools leave. The instructions, the application's tools and what was said in the newest turn stay
whole. Where the newest turns are of results that came late, the turn of the user's newest message (the question) stays
like the newest: first it is that message alone, and last of all the message is shortened.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import msgspec

from everthread.context.items import stub
from everthread.context.pack import Packing
from everthread.context.plan import pins_left, without_lookups
from everthread.core.events import User, encode, media_of
from everthread.core.logged import Logged
from everthread.core.parts import Text
from everthread.core.request import Item, MessageItem
from everthread.core.sections import spans, untold
from everthread.core.strategies import fewer
from everthread.core.tokens import sizes
from everthread.core.window import rung

SHORT = ((1_000, 400), (200, 100), (0, 0))  # head and tail of a shortened result, tried in this order
LESS = tuple((8_000 >> n, 3_200 >> n) for n in range(3))  # the same of the question, before these
SHORTEN_FROM = 80  # tokens of a result below which shortening gains nothing
BESIDE = 148  # messages that a request may have beside those of its turns
UNSHOWN = "[A picture or file that does not fit is not shown.]"
NAMES = {"uncovered": "extract"}  # of sections, for those who read what was left out


def fit(packing: Packing) -> int:
    """The estimate, under the budget if that can be."""
    _messages_leave(packing)
    turns = (_older_leave, _turns_leave, _pins_leave, _shorten, _question_alone)
    for give_way in (*turns, _memory_leaves, _lookups_leave, _shorten_question, _question_leaves):
        if (estimate := packing.estimate()) <= packing.plan.budget:
            return estimate
        packing.gave_way = True
        give_way(packing)
    return packing.estimate()


def can_give_way(packing: Packing) -> bool:
    """Whether it is over the budget, and something is left that can leave."""
    if packing.over <= 0:
        return False
    results = [event for turn in packing.turns[-1:] for event in turn.events if event.kind == "tool_result"]
    remembered = packing.before or packing.sections.keys() - packing.plan.sections.keys() - {"fence"}
    return bool(packing.turns[1:] or packing.older or results or remembered or _has_lookups(packing))


def _messages_leave(packing: Packing) -> None:
    """Where a provider limits the number of messages, turns leave: half of the limit at once, so that the cutoff seldom
    steps."""
    most = packing.plan.model.limits.messages - BESIDE
    if most <= 0 or not packing.turns:
        return
    if (question := packing.question) and 3 * len(question.events) > most // 2:
        _question_alone(packing)
    newest, older = packing.turns[-1], sum([len(turn.events) for turn in packing.older])
    end = newest.start.messages + len(newest.events)
    if 3 * len(newest.events) > most - older:  # a call may come to three: itself, its result's stand-in, a picture
        _cut_newest(packing, most - older)
    if newest is not packing.turns[0] and end - packing.turns[0].start.messages + older > most:
        half = max(1, (most - older) // 2)
        line = -(-(end - 2 * half) // half) * half
        packing.turns = [turn for turn in packing.turns if turn.start.messages >= line] or [newest]
        packing.gave_way = True
        packing.fold()
        packing.degraded.append(_messages_taken(packing))


def _messages_taken(packing: Packing) -> str:
    return f"the provider takes no more than {packing.plan.model.limits.messages:,} messages"


def _cut_newest(packing: Packing, most: int) -> None:
    """The beginning of a turn that alone has more than `most` messages leaves, likewise by half; but neither the first
    nor the last message of the user's in it."""
    newest = packing.turns[-1]
    begins = list(accumulate(map(_messages_of, newest.items), initial=0))
    if begins[-1] <= most:
        return
    half = max(1, most // 2)
    line = -(-(begins[-1] - most) // half) * half
    first = newest.items[min(bisect_left(begins, line), len(newest.items) - 1)].seq
    left = [event for event in newest.events if event.seq < first]
    said = [event for event in left if event.kind == "user"]
    spared = {event.seq for event in (*said[:1], *said[-1:])}
    gone = _spans([event.seq for event in left if event.seq not in spared])
    newest.events = [event for event in newest.events if event.seq >= first or event.seq in spared]
    packing.turns = [newest]
    packing.gave_way = True
    _leave_untold(packing, gone)
    packing.fold()
    packing.degraded.append(f"{_messages_taken(packing)}: {spans(gone)} are not sent")


def _leave_untold(packing: Packing, gone: list[tuple[int, int]]) -> None:
    """Tell the model which events of a turn are not sent."""
    told = [packing.sections.get("untold"), untold(gone, recall=packing.plan.recalls)]
    if lines := "\n".join(filter(None, told)):
        packing.sections["untold"] = lines


def _older_leave(packing: Packing) -> None:
    while (loose := [turn for turn in packing.older if not turn.stays]) and packing.over > 0:
        packing.older.remove(min(loose, key=lambda turn: (turn.score, turn.start.first)))
    packing.fold()


def _turns_leave(packing: Packing) -> None:
    """Turns leave up to one grid line after another, so that the cutoff comes to stand where it will stay."""
    while len(packing.turns) > 1 and (over := packing.over) > 0:
        left = 0
        while over > 0 and left < len(packing.turns) - 1:
            until = _next_line(packing, left)
            over -= sum(map(packing.with_asides, packing.turns[left:until]))
            left = until
        packing.turns = packing.turns[left:]
        packing.fold()  # the first turn that is left now tells the time
    choice = packing.seen.choice
    if choice and packing.begins_later and not packing.plan.by_size:
        packing.degraded.append(fewer(choice.begin, packing.turns[0].start))


def _next_line(packing: Packing, index: int) -> int:
    """The index of the last turn up to the next grid line after turn `index`; the newest only where it comes next."""
    starts, step = [turn.start for turn in packing.turns], packing.plan.room.step
    line = (starts[index].before // step + 1) * step if step else starts[index].before
    upto = [n for n in range(index + 1, len(starts) - 1) if starts[n].before <= line]
    return max(index + 1, *upto[-1:]) if upto else index + 1


def _pins_leave(packing: Packing) -> None:
    count = len(packing.older)
    while (pins := [turn for turn in packing.older if turn is not packing.question]) and packing.over > 0:
        packing.older.remove(pins[0])
    if left := count - len(packing.older):
        packing.degraded.append(pins_left(left))
        packing.fold()


def _shorten(packing: Packing) -> None:
    """Shorten the newest turn's results, from the largest.

    Sizes and what must go are taken coarsely, so that as the turn goes on the same results stay shortened,
    and its beginning stays in the provider's cache.
    """
    events = packing.turns[-1].events if packing.turns else []
    results = [event for event in events if event.kind == "tool_result" and event.tokens > SHORTEN_FROM]
    results.sort(key=lambda event: (-rung(event.tokens), event.seq))
    measure, full = packing.plan.measure, bool(packing.turns) and packing.turns[-1].full
    coarse = max(1, measure.tokens(packing.plan.room.room // 8))
    for head, tail in SHORT:
        over = -(-packing.over // coarse) * coarse
        for event in results:
            if over <= 0:
                break
            short = stub(event, head, tail)
            if len(short) >= len(event.text):
                continue
            was = packing.size_of([event], full)
            packing.shortened[event.seq] = short
            over -= measure.tokens(was - packing.size_of([event], full))
        packing.fold()
    if packing.shortened:
        packing.degraded.append(f"results of the newest turn, shortened to fit: {len(packing.shortened)}")


def _question_alone(packing: Packing) -> None:
    """Of the question's turn, what was said after the user's message leaves."""
    question = packing.question
    if question is None or len(question.events) == 1:
        return
    message, *rest = question.events
    gone = [(rest[0].seq, rest[-1].seq)]
    question.events, question.settled, question.left = [message], message.settled, len(rest)
    _leave_untold(packing, gone)
    packing.degraded.append(f"of its turn only the user's newest message is sent: {spans(gone)} are not")
    packing.fold()


def _shorten_question(packing: Packing) -> None:
    """Shorten the user's newest message to as much as fits."""
    question = packing.question
    if question is None:
        return
    if media_of(question.events[0].event):
        told = _in_words(question.events[0])
        question.events, question.settled = [told], told.settled
        packing.fold()
        packing.degraded.append("pictures and files of the user's newest message do not fit, and are told in words")
    message = question.events[0]
    for head, tail in (*LESS, *SHORT):
        if packing.over > 0 and len(short := stub(message, head, tail)) < len(message.text):
            packing.shortened[message.seq] = short
            packing.fold()
    if message.seq in packing.shortened and packing.over <= 0:
        packing.degraded.append("the user's newest message was shortened to fit")


def _in_words(message: Logged) -> Logged:
    """A message with words in place of its pictures and files."""
    event = message.event
    assert isinstance(event, User)
    parts = tuple(part if isinstance(part, Text) else Text(text=UNSHOWN) for part in event.parts)
    told = msgspec.structs.replace(event, parts=parts)
    full, settled = sizes(told)
    return msgspec.structs.replace(message, body=encode(told), tokens=full, settled=settled)


def _question_leaves(packing: Packing) -> None:
    question = packing.question
    if question is not None:
        packing.older.remove(question)
        packing.shortened.pop(question.events[0].seq, None)
        packing.degraded.append("the user's newest message is not sent: results that arrived after it take the room")
        packing.fold()


def _memory_leaves(packing: Packing) -> None:
    """What memory adds leaves, from what changes most to what changes least; then the canvas, and then the time."""
    for name in ("canvas", "uncovered", "untold", "recap", "facts", "brief"):
        if packing.over > 0 and packing.sections.pop(name, "") and name != "untold":
            packing.degraded.append(f"the {NAMES.get(name, name)} was left out to fit")
    if packing.over > 0 and packing.before:
        packing.before = ()
        packing.degraded.append("what is remembered was left out to fit")
    if packing.over > 0 and "canvas" in packing.section_tokens():
        packing.canvas = "off"
        packing.degraded.append("the canvas was left out to fit")
        packing.fold()
    if packing.over > 0:
        packing.clock = "off"
        packing.degraded.append("the time was left out to fit")
        packing.fold()


def _lookups_leave(packing: Packing) -> None:
    """Memory's own tools leave: they say nothing by themselves."""
    if _has_lookups(packing):
        packing.plan = without_lookups(packing.plan)
        packing.degraded.append("memory's own tools were left out to fit")


def _has_lookups(packing: Packing) -> bool:
    return any(tool.name in packing.plan.lookups for tool in packing.plan.tools)


def _messages_of(item: Item) -> int:
    """The most messages that a provider's form makes of an item."""
    if isinstance(item, MessageItem):
        return 1
    shows = any(not isinstance(part, Text) for answer in item.answers for part in answer.parts)
    return len(item.parts) + len(item.answers) + shows


def _spans(seqs: list[int]) -> list[tuple[int, int]]:
    """Runs of neighbours among these."""
    found: list[tuple[int, int]] = []
    for seq in seqs:
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return found
