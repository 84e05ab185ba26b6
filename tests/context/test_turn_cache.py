"""Folded turns are remembered, and used only where folding again would give the same."""

from __future__ import annotations

import msgspec

from everthread.context.items import Items
from everthread.context.turn_cache import TurnCache
from everthread.core.events import Event, Redacted, assistant, encode, tool_call, tool_result, user
from everthread.core.fence import Fence
from everthread.core.logged import Logged
from everthread.core.request import Ways


def _logged(*events: Event, first: int = 1) -> list[Logged]:
    return [
        Logged(1, first + n, f"id{first + n}", event.kind, 0, 1, 1, 10, 10, encode(event))
        for n, event in enumerate(events)
    ]


TURN = (user("Find it."), tool_call("find", {"n": 1}, id="a"), tool_result("here", id="a"), assistant("Found."))


def _items() -> Items:
    return Items(len, fence=Fence("123456789" * 2), ways=Ways())


def test_what_is_remembered_is_what_folding_gives() -> None:
    turn_cache, events = TurnCache(), _logged(*TURN)
    first = turn_cache.fold(_items(), events)
    again = turn_cache.fold(_items(), _logged(*TURN))
    assert first == again == _items().of(events, full=False)


def test_it_is_not_folded_again_while_the_log_gives_the_same_bytes() -> None:
    turn_cache = TurnCache()
    first = turn_cache.fold(_items(), _logged(*TURN))
    assert turn_cache.fold(_items(), _logged(*TURN))[1] is first[1]


def test_a_redaction_shows_at_once() -> None:
    turn_cache = TurnCache()
    turn_cache.fold(_items(), _logged(*TURN))
    redacted = _logged(*TURN)
    redacted[0] = msgspec.structs.replace(redacted[0], body=encode(Redacted(was="user")))
    assert "Find it." not in repr(turn_cache.fold(_items(), redacted))


def test_a_turn_whose_ids_are_taken_by_now_is_folded_again() -> None:
    turn_cache, items = TurnCache(), _items()
    turn_cache.fold(_items(), _logged(*TURN, first=5))
    items.of(_logged(*TURN), full=False)
    told = turn_cache.fold(items, _logged(*TURN, first=5))
    assert told == _both().of(_logged(*TURN, first=5), full=False)
    assert items.repaired == {"tool calls with an id that was used before": 1}


def _both() -> Items:
    items = _items()
    items.of(_logged(*TURN), full=False)
    return items


def test_what_it_gives_may_be_changed_without_harm() -> None:
    turn_cache = TurnCache()
    turn_cache.fold(_items(), _logged(*TURN)).clear()
    assert len(turn_cache.fold(_items(), _logged(*TURN))) == 3


def test_the_names_of_remembered_calls_are_known_to_late_results() -> None:
    """Whether or not a turn was remembered must not show in a request."""
    turn_cache, late = TurnCache(), _logged(tool_result("late", id="a"), first=9)
    told = []
    for _ in range(2):
        items = _items()
        turn_cache.fold(items, _logged(*TURN))
        told.append(items.of(late, full=False))
    assert told[0] == told[1]
    assert ' of="find">' in repr(told[0])


def test_turns_that_needed_a_repair_are_not_remembered() -> None:
    turn_cache, broken = TurnCache(), (user("Go."), tool_call("find", "{", id="b"))
    first, again = (turn_cache.fold(_items(), _logged(*broken)) for _ in range(2))
    assert first == again
    assert first[1] is not again[1]


def test_the_oldest_leave_when_it_is_full_and_all_when_something_was_to_be_gone() -> None:
    size = sum(len(event.body) for event in _logged(*TURN))
    turn_cache = TurnCache(most=2 * size)
    turns = [_logged(*TURN, first=n) for n in (1, 5, 9)]
    kept = [turn_cache.fold(_items(), turn) for turn in turns]
    assert turn_cache.fold(_items(), turns[2])[0] is kept[2][0]
    assert turn_cache.fold(_items(), turns[0])[0] is not kept[0][0]
    turn_cache.forget()
    assert turn_cache.fold(_items(), turns[2])[0] is not kept[2][0]
    assert turn_cache.forgotten == 1


def test_nothing_said_folds_to_nothing() -> None:
    assert TurnCache().fold(_items(), []) == []


def test_a_text_of_memory_is_told_once_and_forgotten_with_the_rest() -> None:
    turn_cache, asked = TurnCache(), []

    def tell(text: str) -> str:
        asked.append(text)
        return f"<{text}>"

    assert [turn_cache.told(tell, "Walnuts."), turn_cache.told(tell, "Walnuts.")] == ["<Walnuts.>"] * 2
    turn_cache.forget()
    turn_cache.told(tell, "Walnuts.")
    assert asked == ["Walnuts."] * 2


def test_only_the_texts_of_memory_that_were_told_last_are_kept() -> None:
    turn_cache = TurnCache()
    for number in range(200):
        turn_cache.told(str, number)
    assert len(turn_cache._told) == 64
