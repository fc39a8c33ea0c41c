"""Update the word index with the messages, also while a new one is being built.

Messages are removed by the same words they were added with, which are derived from the texts again.
The total of the words of all windows is counted here too: their average is part of every score.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

from engram.errors import StoreCorruptError
from engram.model.ids import ConversationId
from engram.model.row_keys import conversation_of, kind_of, message_key, position_of
from engram.storage import queue
from engram.storage.bookkeeping.state import State
from engram.storage.content.messages import MessageRow, message_rows, read_message, read_title
from engram.storage.postings.caches import REVISIONS_OF_LENGTHS
from engram.storage.postings.index import MessageWords
from engram.storage.rows.database import RemoteConnection
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction, WordAppend
from engram.text.analyse import message_words, part_words
from engram.text.windows import window_count, window_gains, windows_holding

_SQL = load_queries("words/words.sql")
_BATCH_MESSAGES = 500

JOB_KIND = "merge_words"
JOB_SUBJECT = "tail"

_TAILS_MAX = 8
"""A tail so many times as long as one to merge has nobody who merges it in the background."""


class Stretch(NamedTuple):
    """A conversation's messages from the first to `last_sequence`."""

    conversation: int
    conversation_id: ConversationId
    last_sequence: int


def add_rows(
    tx: Transaction, rows: Sequence[MessageWords], *, window_words: int, also_next: bool
) -> None:
    """Add messages to the word index, and to the one being built if it has got that far.

    `window_words` is how many words the windows gain.
    """
    tx.tenant.words.add(tx.connection, rows, organization_id=tx.tenant.number)
    if also_next:
        tx.tenant.words.add(tx.connection, rows, organization_id=tx.tenant.number, is_next=True)
    revision = _grow_windows(tx, window_words, window_words if also_next else 0)
    if revision is not None:
        tx.appends.append(WordAppend(revision, {conversation_of(row.key) for row in rows}))


def remove_rows(
    tx: Transaction,
    rows: Sequence[MessageWords],
    *,
    window_words: int,
    also_next: bool,
    may_return: bool,
) -> None:
    """Remove messages from the word index, and from the one being built if it has them already.

    Args:
        window_words: how many words the windows lose.
        may_return: whether messages with the same keys may be added later.
    """
    tx.tenant.words.remove(tx.connection, rows, organization_id=tx.tenant.number)
    if also_next:
        tx.tenant.words.remove(tx.connection, rows, organization_id=tx.tenant.number, is_next=True)
    lost = -window_words
    revisions = REVISIONS_OF_LENGTHS if may_return else 1
    _grow_windows(tx, lost, lost if also_next else 0, revisions=revisions)


def add_next_rows(tx: Transaction, rows: Sequence[MessageWords], *, window_words: int) -> None:
    """Add messages to the word index that is being built."""
    tx.tenant.words.add(tx.connection, rows, organization_id=tx.tenant.number, is_next=True)
    _grow_windows(tx, 0, window_words)


def _grow_windows(
    tx: Transaction, words: int, next_words: int, *, revisions: int = 1
) -> int | None:
    """Count the words of windows; return the new revision, or None where it would have to be waited for."""
    values = {"words": words, "next_words": next_words, "revisions": revisions}
    cursor = tx.execute(_SQL["grow_windows"], **values)
    return None if isinstance(tx.connection, RemoteConnection) else cursor.fetchone()[0]


def append_rows(
    tx: Transaction, stretch: Stretch, words: Sequence[tuple[str, str]], *, also_next: bool
) -> int:
    """Index messages that follow a stretch, given their words; return how many windows are new."""
    first = message_key(stretch.conversation, stretch.last_sequence + 1)
    rows = [MessageWords(key, *parts) for key, parts in enumerate(words, first)]
    last = stretch.last_sequence + len(rows)
    gained = words_gained(tx, stretch, rows, last_sequence=last)
    add_rows(tx, rows, window_words=gained, also_next=also_next)
    return window_count(last) - window_count(stretch.last_sequence)


def merge_when_due(tx: Transaction, state: State, *, now: int) -> None:
    """Have the tail of the word index merged in the background, if it is long enough."""
    size, due = state.tail_size or 0, tx.tenant.words.merge_due(state.index_size or 0)
    if size >= _TAILS_MAX * due:
        merge_tail(tx)
    elif size >= due:
        queue.enqueue(tx, kind=JOB_KIND, subject=JOB_SUBJECT, now=now)


def merge_tail(tx: Transaction) -> bool:
    """Merge the tail of the word index, or a part of it; return True if there is more. No score changes."""
    return tx.tenant.words.merge(tx.connection, organization_id=tx.tenant.number)


async def merge_and_pack(tenant: Tenant) -> None:
    """Merge the tail of the word index, and pack posting lists that have become long, in short transactions."""
    while await tenant.write(merge_tail):
        pass
    words = await tenant.read(_unpacked)
    if words is None:
        return
    # Also if there are none: that is noted.
    while words := await tenant.write(partial(_pack_some, words=words)):
        pass


def _unpacked(tx: Transaction) -> Sequence[str] | None:
    return tx.tenant.words.unpacked(tx.connection, organization_id=tx.tenant.number)


def _pack_some(tx: Transaction, *, words: Sequence[str]) -> Sequence[str]:
    return tx.tenant.words.pack(tx.connection, words, organization_id=tx.tenant.number)


def words_gained(
    tx: Transaction, stretch: Stretch, rows: Iterable[MessageWords], *, last_sequence: int
) -> int:
    """Return how many words all windows gain when a stretch comes to end at `last_sequence`.

    `rows` are the messages added or removed. A few before them may share windows with them: their
    lengths are read from the index.
    """
    gains = window_gains(stretch.last_sequence, last_sequence)
    lengths = {position_of(row.key): row.telling_words for row in rows}
    earlier = [message_key(stretch.conversation, place) for place in gains if place not in lengths]
    if earlier:
        found = tx.tenant.words.lengths(tx.connection, earlier, organization_id=tx.tenant.number)
        lengths |= {position_of(each.key): each.telling for each in found}
    return sum(gain * lengths.get(place, 0) for place, gain in gains.items())


def words_in_windows(rows: Iterable[MessageWords], *, last_sequence: int) -> int:
    """Return how many words messages contribute to the windows of their conversation."""
    return sum(
        row.telling_words * windows_holding(position_of(row.key), last_sequence=last_sequence)
        for row in rows
    )


def words_of(
    tx: Transaction, stretch: Stretch, *, after: int = 0, skip_damaged: bool
) -> Iterator[MessageWords]:
    """Yield the words of the messages of a stretch whose sequence is past `after`.

    With `skip_damaged` a message that cannot be read counts as empty.

    Raises:
        StoreCorruptError: a message cannot be read.
    """
    if after >= stretch.last_sequence:
        return
    rows = message_rows(
        tx,
        first=message_key(stretch.conversation, after + 1),
        last=message_key(stretch.conversation, stretch.last_sequence),
    )
    is_conversation = kind_of(stretch.conversation) == "conversation"
    title = read_title(tx, stretch.conversation) if is_conversation else None
    yield from words_of_rows(
        tx,
        rows,
        conversation_id=stretch.conversation_id,
        title=title,
        skip_damaged=skip_damaged,
    )


def words_of_rows(
    tx: Transaction,
    rows: Iterable[MessageRow],
    *,
    conversation_id: ConversationId,
    title: str | None,
    skip_damaged: bool,
) -> Iterator[MessageWords]:
    """Yield the words of the messages of rows, as `words_of` does."""
    for row in rows:
        try:
            message = read_message(tx, row, conversation_id=conversation_id)
        except StoreCorruptError:
            if not skip_damaged:
                raise
            yield MessageWords(row.key, "", "")
        else:
            yield MessageWords(row.key, *part_words(message_words(message, title=title)))


def first_words(words: Iterable[MessageWords], *, characters_max: int) -> list[MessageWords]:
    """Return the first of `words`, as many as may be in memory at once."""
    found: list[MessageWords] = []
    for item in words:
        found.append(item)
        characters_max -= item.characters
        if characters_max < 0:
            break
    return found


def batches_of_rows(
    tx: Transaction, stretch: Stretch, *, known: Sequence[MessageWords], skip_damaged: bool
) -> Iterator[list[MessageWords]]:
    """Yield the words of a conversation in batches: those `known`, then those of the other messages.

    It may have become shorter since `known` was read.
    """
    known = [item for item in known if position_of(item.key) <= stretch.last_sequence]
    after = position_of(known[-1].key) if known else 0
    rest = words_of(tx, stretch, after=after, skip_damaged=skip_damaged)
    batch: list[MessageWords] = []
    for item in chain(known, rest):
        batch.append(item)
        if len(batch) >= _BATCH_MESSAGES:
            yield batch
            batch = []
    yield batch
