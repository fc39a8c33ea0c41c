"""Remove long conversations in steps: invisible at once, and gone row by row.

To remove the words of a message takes as long as to add them: a long conversation removed at once would
block all other writers for minutes. So one transaction hides it, and each further one takes some of its last
messages, so that what is left is always what it was up to there. Whoever dies in between is followed by the
next process that looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from engram import limits
from engram.model.conversation import DeletionReceipt
from engram.model.ids import ConversationId
from engram.model.row_keys import message_key
from engram.storage import queue
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters, measure, row_bytes
from engram.storage.bookkeeping.row_hashes import CONVERSATION, changing
from engram.storage.conversations.captured import forget_session
from engram.storage.conversations.records import (
    FoundConversation,
    despite_damage,
    refuse_held_conversation,
)
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, TenantStore, Transaction
from engram.storage.vectors.rows import remove_messages
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch, remove_rows, words_gained, words_of
from engram.text.windows import window_count

_SQL = load_queries("conversations/leaving.sql")
_CONVERSATIONS = load_queries("conversations/conversations.sql")

JOB_KIND = "remove_conversations"
JOB_SUBJECT = "conversations"

HIDDEN_PREFIX = "gone_"
"""Of the ids of conversations that are being removed; no caller can name one."""


class Leaving(NamedTuple):
    """A conversation that is being removed."""

    number: int
    id: ConversationId
    messages: int
    erasure: str | None

    @property
    def stretch(self) -> Stretch:
        """Return what is left of it."""
        return Stretch(self.number, self.id, self.messages)


class Removed(NamedTuple):
    """What a step has removed."""

    erasure: str | None
    """That asked for it; None for a deletion."""
    messages: int
    vectors: int
    is_last: bool
    """Whether the conversation is gone."""


Note = Callable[[Transaction, Removed], None]


class ConversationRemover(TenantStore):
    """Removes what is hidden."""

    async def remove_leaving(self) -> bool:
        """Remove some messages of a hidden conversation; return False if there is none."""
        return await remove_some(self._tenant) is not None


def hide_conversation(
    tx: Transaction, found: FoundConversation, *, actor: str, erasure: str | None = None
) -> None:
    """Make a conversation unknown to every process; its messages are to be removed in steps.

    It is neither captured nor imported again.

    Raises:
        HeldError: it is under a legal hold.
    """
    stretch, content_bytes, _ = found
    number = stretch.conversation
    refuse_held_conversation(tx, number)
    forget_session(tx, stretch.conversation_id, actor=actor, now=tx.tenant.now())
    keys = tx.execute(_SQL["forget_keys"], conversation=number).fetchall()
    with changing(tx, CONVERSATION, number=number):
        hidden_id = f"{HIDDEN_PREFIX}{number}"
        tx.execute(_SQL["hide_conversation"], conversation=number, hidden_id=hidden_id)
    tx.execute(_SQL["add_leaving"], conversation=number, erasure=erasure)
    lost = content_bytes + sum(row_bytes(key) for (key,) in keys)
    grow_counters(tx, conversations=-1, content_bytes=-content_bytes, stored_bytes=-lost)


def delete_in_steps(tx: Transaction, found: FoundConversation, *, actor: str) -> DeletionReceipt:
    """Hide a conversation, queue its removal and write the audit row of its deletion."""
    stretch, now = found.stretch, tx.tenant.now()
    messages, chunks = stretch.last_sequence, window_count(stretch.last_sequence)
    keys = {
        "first": message_key(stretch.conversation, 1),
        "last": message_key(stretch.conversation, messages),
    }
    (vectors,) = tx.execute(_SQL["count_vectors_between"], **keys).fetchone()
    hide_conversation(tx, found, actor=actor)
    queue.enqueue(tx, kind=JOB_KIND, subject=JOB_SUBJECT, now=tx.shared_now())
    receipt = audit.record(
        tx,
        now=now,
        actor=actor,
        action="delete_conversation",
        subject=stretch.conversation_id,
        details={"messages": messages, "chunks": chunks, "vectors": vectors},
    )
    return DeletionReceipt(messages=messages, chunks=chunks, vectors=vectors, receipt=receipt)


def _note_nothing(_: Transaction, __: Removed) -> None:
    """Note nothing."""


async def remove_some(tenant: Tenant, *, note: Note = _note_nothing) -> Removed | None:
    """Remove the last messages of a hidden conversation, and with the last ones itself.

    `note` is called in the transaction that removes them. Returns None if none is hidden.
    """
    while await tenant.read(_next) is not None:
        removed = await despite_damage(tenant, partial(_remove_some, tenant, note))
        if removed is not None:
            return removed
    return None


async def _remove_some(tenant: Tenant, note: Note, *, skip_damaged: bool) -> Removed | None:
    """Analyse some messages and remove them; None if another process has done so meanwhile."""
    found = await tenant.read(partial(_read_cut, skip_damaged=skip_damaged))
    if found is None:
        return None
    leaving, words = found

    def cut(tx: Transaction) -> Removed | None:
        removed = _cut(tx, leaving=leaving, words=words)
        if removed is not None:
            note(tx, removed)
        return removed

    return await tenant.write(cut)


def _next(tx: Transaction) -> Leaving | None:
    row = tx.execute(_SQL["next_leaving"]).fetchone()
    return None if row is None else Leaving(*row)


def _read_cut(
    tx: Transaction, *, skip_damaged: bool
) -> tuple[Leaving, Sequence[MessageWords]] | None:
    leaving = _next(tx)
    if leaving is None:
        return None
    kept = max(0, leaving.messages - limits.MESSAGES_REMOVED_AT_ONCE)
    words = words_of(tx, leaving.stretch, after=kept, skip_damaged=skip_damaged)
    return leaving, list(words)


def _cut(tx: Transaction, *, leaving: Leaving, words: Sequence[MessageWords]) -> Removed | None:
    number, last = leaving.number, leaving.messages
    row = tx.execute(_SQL["find_leaving"], conversation=number).fetchone()
    if row is None or Leaving(*row) != leaving:
        return None  # Another process was faster.
    kept = last - len(words)
    state = clear_state(tx, now=tx.tenant.now())
    gained = words_gained(tx, leaving.stretch, words, last_sequence=kept)
    remove_rows(
        tx,
        words,
        window_words=-gained,
        also_next=state.is_in_next(number),
        may_return=False,
    )
    keys = {"first": message_key(number, kept + 1), "last": message_key(number, last)}
    stored_bytes = measure(tx, "messages", **keys)
    tx.execute(_CONVERSATIONS["delete_messages"], **keys)
    tx.execute(_SQL["shorten_conversation"], conversation=number, messages=kept)
    vectors = remove_messages(tx, **keys)
    limit = 2 * limits.MESSAGES_REMOVED_AT_ONCE
    captured = tx.execute(_SQL["forget_captured"], conversation=number, limit=limit).rowcount
    is_last = kept == 0 and captured < limit
    if is_last:
        stored_bytes += measure(tx, "hidden", conversation=number)
        tx.execute(_CONVERSATIONS["delete_conversation"], conversation=number)
    chunks = window_count(kept) - window_count(last)
    grow_counters(tx, messages=-len(words), chunks=chunks, stored_bytes=-stored_bytes)
    return Removed(leaving.erasure, len(words), vectors, is_last)
