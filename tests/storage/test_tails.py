"""What is remembered of conversations' last messages."""

from __future__ import annotations

import pytest

from engram import limits
from engram.storage.tables.tails import Tail, TailCache, tail_after


def test_a_tail_is_remembered_while_its_conversation_ends_there() -> None:
    cache = TailCache()
    tail = Tail(1, 7, ("d", "e", "f", "g"))

    cache.put(tail)

    assert cache.get(1, last_sequence=7) is tail
    assert cache.get(1, last_sequence=8) is None
    assert cache.get(2, last_sequence=7) is None


def test_a_tail_that_comes_late_does_not_replace_a_longer_one() -> None:
    cache = TailCache()
    longer = Tail(1, 8, ("h",))

    cache.put(longer)
    cache.put(Tail(1, 7, ("g",)))

    assert cache.get(1, last_sequence=8) is longer


def test_the_conversations_used_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAIL_CHARACTERS_KEPT", 10)
    cache = TailCache()

    for conversation, words in ((1, "aaaa"), (2, "bbbb"), (1, "aaaa"), (3, "cccc")):
        known = cache.get(conversation, last_sequence=1)
        cache.put(Tail(conversation, 2 if known else 1, (words,)))

    assert cache.get(1, last_sequence=2)
    assert cache.get(2, last_sequence=1) is None
    assert cache.get(3, last_sequence=1)


def test_a_tail_larger_than_all_room_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAIL_CHARACTERS_KEPT", 10)
    cache = TailCache()

    cache.put(Tail(1, 1, ("a" * 11,)))
    cache.put(Tail(2, 1, ("b" * 9,)))

    assert cache.get(1, last_sequence=1) is None
    assert cache.get(2, last_sequence=1)


@pytest.mark.parametrize(
    ("added", "parts"),
    [(["c"], ("a", "b", "c")), (list("cdefg"), tuple("defg")), ([], ("a", "b"))],
)
def test_a_tail_moves_on(added: list[str], parts: tuple[str, ...]) -> None:
    assert tail_after(Tail(1, 2, ("a", "b")), added) == Tail(1, 2 + len(added), parts)
