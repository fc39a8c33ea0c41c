"""Keep the word index in step with messages, also while a new one is being built.

Messages are removed from it by the very words they were added with, so these are made again from the
messages wherever they are not at hand. Besides, the words of all windows together are counted here:
their average is part of every score.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from engram.errors import StoreCorruptError
from engram.model.ids import ConversationId
from engram.model.row_keys import message_key, position_of
from engram.storage.content.messages import message_rows, read_message, read_title
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction
from engram.text.analyse import message_words, part_words
from engram.text.windows import window_count, window_gains, windows_holding

_SQL = load_queries("words/words.sql")
_BATCH_MESSAGES = 500


@dataclass(frozen=True, slots=True)
class Stretch:
    """A conversation's messages from the first to `last_sequence`."""

    conversation: int
    conversation_id: ConversationId
    last_sequence: int


def add_rows(
    tx: Transaction, rows: Sequence[MessageWords], *, window_words: int, also_next: bool
) -> None:
    """Add messages to the word index, and to that being built if it has come so far.

    `window_words` is what windows have gained by them.
    """
    tx.tenant.words.add(tx.connection, rows, organization_id=tx.tenant.number)
    if also_next:
        tx.tenant.words.add(tx.connection, rows, organization_id=tx.tenant.number, is_next=True)
    _grow_windows(tx, window_words, also_next=also_next)


def remove_rows(
    tx: Transaction, rows: Sequence[MessageWords], *, window_words: int, also_next: bool
) -> None:
    """Remove messages from the word index, and from that being built if it holds them already.

    `window_words` is what windows have lost by it.
    """
    tx.tenant.words.remove(tx.connection, rows, organization_id=tx.tenant.number)
    if also_next:
        tx.tenant.words.remove(tx.connection, rows, organization_id=tx.tenant.number, is_next=True)
    _grow_windows(tx, -window_words, also_next=also_next)


def add_next_rows(tx: Transaction, rows: Sequence[MessageWords], *, window_words: int) -> None:
    """Add messages to the word index that is being built."""
    tx.tenant.words.add(tx.connection, rows, organization_id=tx.tenant.number, is_next=True)
    tx.execute(_SQL["grow_windows"], words=0, next_words=window_words)


def append_rows(
    tx: Transaction, stretch: Stretch, words: Sequence[tuple[str, str]], *, also_next: bool
) -> int:
    """Index messages that follow a stretch, given their words; return how many windows came new."""
    first = message_key(stretch.conversation, stretch.last_sequence + 1)
    rows = [MessageWords(key, *parts) for key, parts in enumerate(words, first)]
    last = stretch.last_sequence + len(rows)
    gained = words_gained(tx, stretch, rows, last_sequence=last)
    add_rows(tx, rows, window_words=gained, also_next=also_next)
    return window_count(last) - window_count(stretch.last_sequence)


def words_gained(
    tx: Transaction, stretch: Stretch, rows: Iterable[MessageWords], *, last_sequence: int
) -> int:
    """Return how many words more all windows have once a stretch ends at `last_sequence`.

    `rows` are the messages that come or go. A few before them may share windows with them: what these
    have is asked of the index.
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

    Raises:
        StoreCorruptError: a message cannot be read, and is not to be taken for an empty one.
    """
    rows = message_rows(
        tx,
        first=message_key(stretch.conversation, after + 1),
        last=message_key(stretch.conversation, stretch.last_sequence),
    )
    title = read_title(tx, stretch.conversation)
    for row in rows:
        try:
            message = read_message(tx, row, conversation_id=stretch.conversation_id)
        except StoreCorruptError:
            if not skip_damaged:
                raise
            yield MessageWords(row.key, "", "")
        else:
            yield MessageWords(row.key, *part_words(message_words(message, title=title)))


def known_words(words: Iterable[MessageWords], *, characters_max: int) -> list[MessageWords]:
    """Return the first of `words`, as many as memory may hold at once."""
    known: list[MessageWords] = []
    for item in words:
        known.append(item)
        characters_max -= item.characters
        if characters_max < 0:
            break
    return known


def batches_of_rows(
    tx: Transaction, stretch: Stretch, *, known: Sequence[MessageWords], skip_damaged: bool
) -> Iterator[list[MessageWords]]:
    """Yield all messages of a conversation, from the words known already and then from the texts.

    It may have become shorter since its words were read.
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


def _grow_windows(tx: Transaction, words: int, *, also_next: bool) -> None:
    next_words = words if also_next else 0
    tx.execute(_SQL["grow_windows"], words=words, next_words=next_words)
