"""Change the title, tags, metadata and project of a conversation.

The title is part of the words and vectors of documents without a name of their own, which are indexed
again in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from engram import limits
from engram.errors import LimitExceededError
from engram.model.access import UNBOUNDED, Quota
from engram.model.conversation import Conversation, ConversationChange, Message
from engram.model.ids import ConversationId, ConversationKey, MessageKey
from engram.model.row_keys import message_key
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters, row_bytes
from engram.storage.bookkeeping.row_hashes import CONVERSATION, changing
from engram.storage.bookkeeping.state import State
from engram.storage.content.messages import (
    find_rows,
    read_conversations,
    read_rows,
    to_json,
)
from engram.storage.conversations.records import (
    find_conversation,
    refuse_held_conversation,
    replace_tags,
)
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction
from engram.storage.vectors.rows import index_appended, remove_messages
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch, add_rows, remove_rows, words_in_windows
from engram.text.analyse import message_words, part_words

_SQL = load_queries("conversations/conversations.sql")


class ConversationEditor(TenantStore):
    """Changes conversations."""

    async def find_titled(self, conversation_id: ConversationId) -> tuple[Message, ...]:
        """Return the documents of a conversation that are found by its title.

        Raises:
            NotFoundError: there is no such conversation here.
            LimitExceededError: there are too many of them to index again in one transaction.
        """
        return await self._tenant.read(partial(_find_titled, conversation_id=conversation_id))

    async def edit_conversation(
        self,
        conversation_id: ConversationId,
        change: ConversationChange,
        *,
        actor: str,
        quota: Quota = UNBOUNDED,
        titled: Sequence[Message] = (),
        indexing: Indexing = WORDS_ALONE,
    ) -> Conversation | None:
        """Change a conversation and write its audit row, which names the fields that were given.

        `indexing` covers `titled`, the answer of `find_titled`, if the title changes. Returns None,
        and changes nothing, if there are others by now: ask again.

        Raises:
            NotFoundError: there is no such conversation here.
            HeldError: it would leave its project while it is under a legal hold.
            QuotaExceededError: what it grows by exceeds the quota.
        """

        def work(tx: Transaction) -> Conversation | None:
            return _edit(
                tx,
                conversation_id,
                change,
                actor=actor,
                quota=quota,
                titled=titled,
                indexing=indexing,
            )

        return await self._tenant.write(work)


def _titled_keys(tx: Transaction, stretch: Stretch) -> list[MessageKey]:
    """Return the keys of the documents that are found by the title, if there are not too many."""
    keys = {
        "first": message_key(stretch.conversation, 1),
        "last": message_key(stretch.conversation, limits.CONVERSATION_MESSAGES_MAX),
    }
    rows = tx.execute(_SQL["titled_messages"], **keys, limit=limits.RETITLED_MESSAGES_MAX + 1)
    found = rows.fetchall()
    if len(found) > limits.RETITLED_MESSAGES_MAX:
        raise LimitExceededError(
            "title",
            limit=limits.RETITLED_MESSAGES_MAX,
            actual=stretch.last_sequence,
            unit="documents that are found by the title",
        )
    characters = sum(size for _, size in found)
    if characters > limits.CALL_BYTES_MAX:
        raise LimitExceededError(
            "title",
            limit=limits.CALL_BYTES_MAX,
            actual=characters,
            unit="characters of documents that are found by the title",
        )
    return [MessageKey(key) for key, _ in found]


def _find_titled(tx: Transaction, conversation_id: ConversationId) -> tuple[Message, ...]:
    stretch = find_conversation(tx, conversation_id).stretch
    keys = _titled_keys(tx, stretch)
    found = read_rows(tx, find_rows(tx, keys))
    return tuple(found[key] for key in keys)


def _edit(
    tx: Transaction,
    conversation_id: ConversationId,
    change: ConversationChange,
    *,
    actor: str,
    quota: Quota,
    titled: Sequence[Message],
    indexing: Indexing,
) -> Conversation | None:
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    stretch = find_conversation(tx, conversation_id).stretch
    number = ConversationKey(stretch.conversation)
    before = read_conversations(tx, [number])[number]
    given = change.given
    if given.get("project", before.project) != before.project:
        refuse_held_conversation(tx, number)
    title = given.get("title", before.title)
    if title != before.title:
        keys = [message_key(number, each.sequence) for each in titled]
        if keys != _titled_keys(tx, stretch):
            return None
        if keys:
            titles = before.title, title
            _index_again(tx, stretch, titled, titles=titles, indexing=indexing, state=state)
    values = {
        "title": title,
        "project": given.get("project", before.project),
        "metadata": to_json(given.get("metadata", before.metadata)),
    }
    tags = given.get("tags", before.tags)
    with changing(tx, CONVERSATION, number=number):
        tx.execute(_SQL["change_conversation"], conversation=number, now=now, **values)
        if "tags" in given:
            replace_tags(tx, number, tags)
    grown = row_bytes(*values.values()) + sum(map(row_bytes, tags)) - _size(before)
    grow_counters(tx, quota=quota if grown > 0 else None, stored_bytes=grown)
    details = {"fields": sorted(given)}
    audit.record(
        tx,
        now=now,
        actor=actor,
        action="edit_conversation",
        subject=conversation_id,
        details=details,
    )
    return read_conversations(tx, [number])[number]


def _size(conversation: Conversation) -> int:
    """Return the stored size of what can be changed of a conversation."""
    metadata = to_json(conversation.metadata)
    fields = row_bytes(conversation.title, conversation.project, metadata)
    return fields + sum(map(row_bytes, conversation.tags))


def _index_again(
    tx: Transaction,
    stretch: Stretch,
    titled: Sequence[Message],
    *,
    titles: tuple[str | None, str | None],
    indexing: Indexing,
    state: State,
) -> None:
    """Replace the words and vectors of documents that were found by the title before."""
    number = stretch.conversation
    also_next = state.is_in_next(number)
    old, new = (
        [
            MessageWords(
                message_key(number, each.sequence), *part_words(message_words(each, title=title))
            )
            for each in titled
        ]
        for title in titles
    )
    last = stretch.last_sequence
    remove_rows(
        tx,
        old,
        window_words=words_in_windows(old, last_sequence=last),
        also_next=also_next,
        may_return=True,
    )
    add_rows(tx, new, window_words=words_in_windows(new, last_sequence=last), also_next=also_next)
    keys = [row.key for row in new]
    for key in keys:
        remove_messages(tx, first=key, last=key)
    index_appended(tx, keys, indexing)
