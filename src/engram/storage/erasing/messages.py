"""Blank messages of a conversation that stays: their places are kept, and nothing of what they said.

Sequences have no gaps, so a message whose speaker is erased becomes an empty one, which says by which erasure.
The identity of a captured message stays: it is not captured again.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from engram.errors import StoreCorruptError
from engram.model.conversation import Message
from engram.model.ids import ErasureId, MessageKey
from engram.model.row_keys import conversation_of
from engram.model.value import replace
from engram.storage.bookkeeping.counters import grow_counters, measure
from engram.storage.bookkeeping.row_hashes import MESSAGE, seal
from engram.storage.content.messages import (
    find_rows,
    read_conversation_ids,
    read_message,
    read_title,
    to_json,
)
from engram.storage.conversations.records import despite_damage
from engram.storage.erasing.rows import count_removed
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.rows import remove_messages
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import add_rows, remove_rows, words_in_windows
from engram.text.analyse import message_words, part_words

_SQL = load_queries("erasing/erasing.sql")
_CONVERSATIONS = load_queries("conversations/conversations.sql")
_EMPTY_SHA256 = hashlib.sha256(b"").digest()

MARK = "erased"
"""The only key in the metadata of a message that was blanked; its value is the erasure's id."""


class _Blank(NamedTuple):
    """A message to blank, as it was read before the transaction."""

    key: MessageKey
    sha256: bytes
    content_bytes: int
    before: MessageWords
    after: MessageWords


async def blank_messages(tenant: Tenant, erasure_id: ErasureId, keys: Sequence[MessageKey]) -> None:
    """Blank messages, and count them."""
    await despite_damage(tenant, partial(_blank, tenant, erasure_id, keys))


async def _blank(
    tenant: Tenant, erasure_id: ErasureId, keys: Sequence[MessageKey], *, skip_damaged: bool
) -> None:
    blanks = await tenant.read(partial(_read, keys=keys, skip_damaged=skip_damaged))
    await tenant.write(partial(_write, erasure_id=erasure_id, blanks=blanks))


def _read(tx: Transaction, *, keys: Sequence[MessageKey], skip_damaged: bool) -> list[_Blank]:
    """Analyse the messages that exist."""
    rows = find_rows(tx, keys)
    numbers = sorted({conversation_of(row.key) for row in rows})
    ids = read_conversation_ids(tx, numbers)
    titles = {number: read_title(tx, number) for number in numbers}
    found: list[_Blank] = []
    for row in rows:
        number = conversation_of(row.key)
        try:
            message = read_message(tx, row, conversation_id=ids[number])
        except StoreCorruptError:
            if not skip_damaged:
                raise
            # A rebuilt index has none of its words.
            message = None
        before = ("", "") if message is None else _words(message, titles[number])
        empty = None if message is None else replace(message, content="", name=None, tool_name=None)
        after = ("", "") if empty is None else _words(empty, titles[number])
        size = 0 if message is None else len(message.content.encode())
        blank = _Blank(
            MessageKey(row.key),
            row.sha256,
            size,
            MessageWords(row.key, *before),
            MessageWords(row.key, *after),
        )
        found.append(blank)
    return found


def _words(message: Message, title: str | None) -> tuple[str, str]:
    return part_words(message_words(message, title=title))


def _write(tx: Transaction, *, erasure_id: ErasureId, blanks: Sequence[_Blank]) -> None:
    state = clear_state(tx, now=tx.tenant.now())
    present = {row.key: row.sha256 for row in find_rows(tx, [each.key for each in blanks])}
    by_conversation = defaultdict[int, list[_Blank]](list)
    for blank in blanks:
        # Gone or blanked meanwhile, by another process.
        if present.get(blank.key) == blank.sha256:
            by_conversation[conversation_of(blank.key)].append(blank)
    vectors = 0
    for number, chosen in by_conversation.items():
        also_next = state.is_in_next(number)
        last = _last_sequence(tx, number)
        for rows, change in (
            ([each.before for each in chosen], partial(remove_rows, may_return=True)),
            ([each.after for each in chosen], add_rows),
        ):
            words = words_in_windows(rows, last_sequence=last)
            change(tx, rows, window_words=words, also_next=also_next)
        vectors += sum(_blank_row(tx, each.key, erasure_id) for each in chosen)
        lost = sum(each.content_bytes for each in chosen)
        tx.execute(_SQL["shrink_conversation"], conversation=number, content_bytes=lost)
        grow_counters(tx, content_bytes=-lost, stored_bytes=-lost)
    blanked = sum(map(len, by_conversation.values()))
    count_removed(tx, erasure_id, {"messages": blanked, "vectors": vectors})


def _last_sequence(tx: Transaction, number: int) -> int:
    (length,) = tx.execute(_CONVERSATIONS["conversation_length"], conversation=number).fetchone()
    return length


def _blank_row(tx: Transaction, key: MessageKey, erasure_id: ErasureId) -> int:
    """Empty the row of a message and remove its vectors; return how many these were."""
    keys = {"first": key, "last": key}
    before = measure(tx, "messages", **keys)
    tx.execute(
        _SQL["blank_message"],
        key=key,
        sha256=_EMPTY_SHA256,
        content="",
        metadata=to_json({MARK: erasure_id}),
    )
    seal(tx, MESSAGE, key=key)
    grow_counters(tx, stored_bytes=measure(tx, "messages", **keys) - before)
    return remove_messages(tx, **keys)
