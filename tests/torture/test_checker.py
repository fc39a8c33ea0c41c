"""The checker finds a violation of each rule, and none in histories that one order explains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.promises import promise
from tests.torture.checker import RULES, Rule, check
from tests.torture.history import Call, Seen, digest, load, save


def call(kind: Any, start: float, end: float, **fields: Any) -> Call:
    """Return a call of one tenant on one conversation, unless it says otherwise."""
    common: dict[str, Any] = {
        "client": "c",
        "process": "serve-1",
        "tenant": "acme",
        "outcome": "ok",
        "conversation": "conv",
    }
    return Call(kind=kind, start=start, end=end, **{**common, **fields})


def append(start: float, end: float, *texts: str, first: int = 0, **fields: Any) -> Call:
    """Return an append of texts, each of which is its own word."""
    last = first + len(texts) - 1 if first else 0
    sent = tuple(map(digest, texts))
    return call(
        "append", start, end, sent=sent, words=texts, **{"first": first, "last": last} | fields
    )


def read(start: float, end: float, *texts: str, **fields: Any) -> Call:
    """Return a read of the whole conversation."""
    seen = shown(1, *texts)
    return call("read", start, end, **{"seen": seen, "total": len(texts)} | fields)


def search(start: float, end: float, word: str, *seen: Seen, **fields: Any) -> Call:
    """Return a search for a word in everything a tenant has."""
    return call("search", start, end, words=(word,), seen=seen, **{"conversation": None} | fields)


def shown(sequence: int, *texts: str) -> tuple[Seen, ...]:
    """Return messages of the conversation from a sequence on."""
    return tuple(Seen("conv", sequence + at, digest(text)) for at, text in enumerate(texts))


def unknown(*, code: str | None = None) -> dict[str, Any]:
    """Return the outcome of a call that was not answered."""
    return {"outcome": "unknown", "code": code}


def refused(code: str = "store_full") -> dict[str, Any]:
    """Return the outcome of a call that certainly did nothing."""
    return {"outcome": "failed", "code": code}


CREATED = call("create", 0, 1)
FIRST = append(1, 2, "a", first=1)

GOOD: Sequence[Sequence[Call]] = (
    # One after the other, in every way.
    (
        FIRST,
        append(3, 4, "b", "c", first=2),
        read(5, 6, "a", "b", "c"),
        search(5, 6, "a", *shown(1, "a")),
    ),
    # Two at once may come in either order, and a read beside them may see none, one or both.
    (append(1, 9, "a", first=2), append(1, 9, "b", first=1), read(2, 3, "b"), read(4, 5, "b", "a")),
    # What was not answered may be there, and from then on stays.
    (append(1, 2, "a", "b", **unknown()), read(3, 4), read(5, 6, "a", "b"), read(7, 8, "a", "b")),
    # Or it is never there.
    (append(1, 2, "a", **unknown()), append(3, 4, "b", first=1), read(5, 6, "b")),
    # A second attempt with the same key is answered as the first would have been.
    (append(1, 2, "a", **unknown()), append(3, 4, "a", first=1), read(5, 6, "a")),
    # What was refused is not there.
    (append(1, 2, "a", **refused()), read(3, 4)),
    # Deleted by a call that was not answered, as a later read shows.
    (FIRST, call("delete", 3, 4, **unknown()), read(5, 6, "a"), read(7, 8, **refused("not_found"))),
    # A search beside a deletion may show what it deletes.
    (FIRST, call("delete", 3, 6), search(4, 5, "a", *shown(1, "a")), search(7, 8, "a")),
    # Another tenant is told that there is nothing, which says nothing of the conversation.
    (FIRST, read(3, 4, tenant="other", **refused("not_found")), read(5, 6, "a")),
    # A page from the middle that a budget cut.
    (
        append(1, 2, "a", "b", "c", first=1),
        read(3, 4, offset=1, total=3, is_whole=False, seen=shown(2, "b")),
    ),
)

BAD: Sequence[tuple[Rule, Sequence[Call]]] = (
    # An acknowledged message is not read by another client that begins later.
    ("visible", (FIRST, read(3, 4, client="d"))),
    # What one client was shown, another is not shown later, acknowledged or not.
    ("visible", (append(1, 2, "a", **unknown()), read(3, 4, "a"), read(5, 6, client="d"))),
    # What a search has shown is not read later.
    ("visible", (append(1, 2, "a", **unknown()), search(3, 4, "a", *shown(1, "a")), read(5, 6, client="d"))),
    # One client sees less than it saw before.
    ("monotonic", (append(1, 2, "a", **unknown()), read(3, 4, "a"), read(5, 6))),
    # An append that begins after another was acknowledged comes before it.
    ("in order", (append(1, 2, "a", first=2), append(3, 4, "b", first=1))),
    # So does one that was not answered but is there.
    ("in order", (append(1, 2, "a", first=2), append(3, 4, "b", **unknown()), read(5, 6, "b", "a"))),
    # An append comes before what had been read when it began.
    ("in order", (append(1, 9, "a", "b", first=1), read(2, 3, "a", "b"), append(4, 5, "c", first=2))),
    # Two messages got three sequences.
    ("consecutive", (append(1, 2, "a", "b", first=1, last=3),)),
    # A page has a gap.
    ("consecutive", (append(1, 2, "a", "b", "c", first=1), read(3, 4, total=3, seen=shown(1, "a") + shown(3, "c")))),
    # A page says that more is there than it has, and that nothing follows.
    ("consecutive", (append(1, 2, "a", "b", first=1), read(3, 4, total=2, seen=shown(1, "a")))),
    # Two texts were acknowledged under one sequence.
    ("one place", (FIRST, append(1, 2, "b", first=1))),
    # One text is stored twice.
    ("one place", (FIRST, read(3, 4, "a", "a"))),
    # A second attempt stored it again.
    ("one place", (append(1, 2, "a", **unknown()), append(3, 4, "a", first=2), read(5, 6, "a", "a"))),
    # A text lies in a conversation that it was not sent to.
    ("one place", (FIRST, search(3, 4, "a", Seen("elsewhere", 1, digest("a"))))),
    # Of two messages one is there, and then another.
    ("all or nothing", (append(1, 2, "a", "b", **unknown()), append(1, 4, "c", first=2), read(5, 6, "a", "c"))),
    # A read shows one of two.
    ("all or nothing", (append(1, 9, "a", "b", first=1), read(2, 3, "a"))),
    # What was refused is there.
    ("refused is absent", (append(1, 2, "a", **refused()), read(3, 4, "a"))),
    # A byte was changed.
    ("verbatim", (FIRST, read(3, 4, "á"))),
    # A message is read before it was sent.
    ("not before it was sent", (read(1, 2, "a"), append(3, 4, "a", first=1))),
    # A deleted conversation is read.
    ("gone", (FIRST, call("delete", 3, 4), read(5, 6, "a"))),
    # It is found.
    ("gone", (FIRST, call("delete", 3, 4), search(5, 6, "a", *shown(1, "a")))),
    # It takes messages.
    ("gone", (FIRST, call("delete", 3, 4), append(5, 6, "b", first=2))),
    # It comes back after it was not there.
    ("gone", (FIRST, call("delete", 3, 9, **unknown()), read(4, 5, **refused("not_found")), read(6, 7, "a"))),
    # It is gone, and nobody deleted it.
    ("kept", (FIRST, read(3, 4, **refused("not_found")))),
    # It is gone before anybody deleted it.
    ("kept", (FIRST, read(3, 4, **refused("not_found")), call("delete", 5, 6))),
    # It is gone although deleting it was refused.
    ("kept", (FIRST, call("delete", 3, 4, **refused()), read(5, 6, **refused("not_found")))),
    # Another tenant reads it.
    ("apart", (FIRST, read(3, 4, tenant="other"))),
    # Another tenant finds it.
    ("apart", (FIRST, search(3, 4, "a", *shown(1, "a"), tenant="other"))),
    # An acknowledged message is not found.
    ("findable", (FIRST, search(3, 4, "a"))),
    # Found is another message of the conversation.
    ("findable", (FIRST, append(1, 3, "b", first=2), search(4, 5, "a", *shown(2, "b")))),
    # A failure that the server did not expect.
    ("clear failure", (read(1, 2, **unknown(code="internal_error")),)),
)  # fmt: skip


@promise("processes")
@pytest.mark.parametrize("calls", GOOD)
def test_nothing_is_found_in_a_history_that_one_order_explains(calls: Sequence[Call]) -> None:
    assert [] == check((CREATED, *calls))


@promise("processes")
@pytest.mark.parametrize(("rule", "calls"), BAD)
def test_a_history_that_breaks_a_rule_is_found_by_it(rule: Rule, calls: Sequence[Call]) -> None:
    assert rule in {violation.rule for violation in check((CREATED, *calls))}


def test_every_rule_is_broken_by_a_history() -> None:
    assert set(RULES) == {rule for rule, _ in BAD}


def test_a_saved_history_is_read_as_it_was(tmp_path: Path) -> None:
    calls = [CREATED, FIRST, search(3, 4, "a", *shown(1, "a"))]

    save(calls, tmp_path / "below" / "history.jsonl")

    assert calls == load(tmp_path / "below" / "history.jsonl")
