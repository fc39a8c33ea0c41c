"""Create conversations, append to them and delete them, with all that is derived from messages.

An append with an idempotency key that is repeated within a day gets the receipt of the first.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from msgspec import UNSET, UnsetType

from engram import limits
from engram.clock import to_microseconds
from engram.errors import IdempotencyConflictError, LimitExceededError
from engram.model.access import UNBOUNDED, Quota
from engram.model.conversation import (
    DEFAULT_CONVERSATION_TITLE,
    AppendReceipt,
    AppendRequest,
    ConversationDraft,
    DeletionReceipt,
    MessageDraft,
    is_called_by_title,
)
from engram.model.ids import ConversationId, message_id
from engram.model.value import Value
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters, measure_conversation, row_bytes
from engram.storage.bookkeeping.state import State, read_state, take_numbers
from engram.storage.content import compression
from engram.storage.content.messages import PreparedMessages, prepare_messages, to_json
from engram.storage.conversations.records import (
    add_tags,
    despite_damage,
    extend_record,
    find_conversation,
    read_words,
    remove_record,
)
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch
from engram.text.windows import window_count

_SQL = load_queries("conversations/conversations.sql")
_KEY_LIFE = timedelta(hours=limits.IDEMPOTENCY_HOURS) // timedelta(microseconds=1)
_PURGED_AT_ONCE = 20


class _Append(Value):
    """One append, ready for its transaction."""

    request: AppendRequest
    prepared: PreparedMessages
    actor: str
    quota: Quota
    indexing: Indexing
    request_sha256: bytes
    """Empty without an idempotency key."""


class ConversationWriter(TenantStore):
    """Creates conversations, appends to them and deletes them."""

    async def create_conversation(
        self, draft: ConversationDraft, *, actor: str, quota: Quota = UNBOUNDED
    ) -> ConversationId:
        """Store an empty conversation and its audit row.

        Raises:
            QuotaExceededError: it exceeds the quota.
        """
        return await self._tenant.write(
            lambda tx: add_conversation(tx, draft, actor=actor, quota=quota)
        )

    async def append_messages(
        self,
        request: AppendRequest,
        *,
        actor: str,
        quota: Quota,
        indexing: Indexing = WORDS_ALONE,
        title: str | UnsetType | None = UNSET,
    ) -> AppendReceipt:
        """Store the messages with all that is derived from them and an audit row, or nothing.

        That is windows, word rows, the given vectors, and a place in the queue for deep vectors
        if `indexing` asks for it or the organisation has a deep embedder already. Vectors of
        another identity than the organisation's are not stored; the messages then wait.
        Sequences continue the conversation's without gap or duplicate, also between processes.
        Without a conversation id the organisation's default conversation takes them and is created
        if it is missing. The same request under an idempotency key of the last 24 hours returns
        the first receipt, marked `repeated`, and stores nothing. `title` is the answer of
        `find_title`, if the caller has it; else it is read where a message needs it.

        Raises:
            IdempotencyConflictError: the key came with another request.
            NotFoundError: there is no such conversation here.
            QuotaExceededError: the messages exceed the quota.
            LimitExceededError: the conversation would pass `CONVERSATION_MESSAGES_MAX`.
            InvalidVectorError: a vector has other dimensions than its identity says.
        """
        tenant = self._tenant
        await compression.learn_awaited(tenant)
        if title is UNSET:
            needs_title = any(map(is_called_by_title, request.messages))
            title = await self.find_title(request.conversation_id) if needs_title else None
        prepared = await prepare_messages(request.messages, tenant.codec, title=title)
        append = _Append(
            request=request,
            prepared=prepared,
            actor=actor,
            quota=quota,
            indexing=indexing,
            request_sha256=await _hash_request(request, prepared),
        )
        return await tenant.write(lambda tx: _append(tx, append))

    async def find_title(self, conversation_id: ConversationId | None) -> str | None:
        """Return the title of a conversation; None if it has none or the id is unknown.

        Without an id it is that of the default conversation.
        """
        if conversation_id is None:
            return DEFAULT_CONVERSATION_TITLE
        row = await self._tenant.read(
            lambda tx: tx.execute(_SQL["find_title"], id=conversation_id).fetchone()
        )
        return None if row is None else row[0]

    async def delete_conversation(
        self, conversation_id: ConversationId, *, actor: str
    ) -> DeletionReceipt:
        """Remove a conversation from every table and index, and write its audit row.

        Raises:
            NotFoundError: there is no such conversation here.
        """

        async def delete(*, skip_damaged: bool) -> DeletionReceipt:
            def read(tx: Transaction) -> list[MessageWords]:
                stretch, _ = find_conversation(tx, conversation_id)
                return read_words(tx, stretch, skip_damaged=skip_damaged)

            known = await self._tenant.read(read)
            work = partial(_delete, known=known, actor=actor, skip_damaged=skip_damaged)
            return await self._tenant.write(lambda tx: work(tx, conversation_id))

        return await despite_damage(self._tenant, delete)


def _append(tx: Transaction, append: _Append) -> AppendReceipt:
    request, prepared = append.request, append.prepared
    now = tx.tenant.now()
    if repeated := _find_receipt(tx, append, now):
        return repeated
    state = clear_state(tx, now=now)
    stretch = _find_stretch(tx, append)
    _check_room(append, state, stretch)
    chunks = extend_record(
        tx,
        stretch,
        prepared.messages,
        indexing=append.indexing,
        state=state,
        created_at=now,
        now=now,
    )
    added, last = len(request.messages), stretch.last_sequence
    receipt = _receipt(stretch.conversation_id, last + 1, last + added)
    key_bytes = _store_receipt(tx, append, stretch, receipt, now)
    audit.record(
        tx,
        now=now,
        actor=append.actor,
        action="append_messages",
        subject=receipt.conversation_id,
        details={"sequences": [receipt.first_sequence, receipt.last_sequence]},
    )
    size = {"messages": added, "content_bytes": prepared.content_bytes}
    stored_bytes = prepared.stored_bytes + key_bytes
    grow_counters(tx, quota=append.quota, chunks=chunks, stored_bytes=stored_bytes, **size)
    compression.enqueue_when_due(tx, state, **size, now=now)
    return receipt


def _find_stretch(tx: Transaction, append: _Append) -> Stretch:
    """Return the conversation to append to; without an id, the default one, created if missing."""
    conversation_id = append.request.conversation_id
    if conversation_id is None:
        row = tx.execute(_SQL["find_default_conversation"]).fetchone()
        if row is not None:
            return Stretch(*row)
        draft = ConversationDraft(title=DEFAULT_CONVERSATION_TITLE)
        conversation_id = add_conversation(
            tx, draft, actor=append.actor, quota=append.quota, is_default=True
        )
    return find_conversation(tx, conversation_id)[0]


def add_conversation(
    tx: Transaction, draft: ConversationDraft, *, actor: str, quota: Quota, is_default: bool = False
) -> ConversationId:
    """Store an empty conversation with its tags, counter and audit row.

    Raises:
        QuotaExceededError: it exceeds the quota.
    """
    conversation_id = ConversationId(tx.tenant.ids.new("conv_"))
    now = tx.tenant.now()
    number = take_numbers(tx, "conversation", 1).start
    metadata = to_json(draft.metadata)
    tx.execute(
        _SQL["create_conversation"],
        number=number,
        id=conversation_id,
        title=draft.title,
        agent_id=draft.agent_id,
        project=draft.project,
        metadata=metadata,
        is_default=is_default,
        now=now,
    )
    add_tags(tx, number, draft.tags)
    stored_bytes = row_bytes(draft.title, draft.agent_id, draft.project, metadata)
    stored_bytes += sum(map(row_bytes, draft.tags))
    grow_counters(tx, quota=quota, conversations=1, stored_bytes=stored_bytes)
    audit.record(tx, now=now, actor=actor, action="create_conversation", subject=conversation_id)
    return conversation_id


def _check_room(append: _Append, state: State, stretch: Stretch) -> None:
    added = len(append.request.messages)
    state.check_quota(append.quota, messages=added, stored_bytes=append.prepared.stored_bytes)
    last = stretch.last_sequence + added
    if last > limits.CONVERSATION_MESSAGES_MAX:
        raise LimitExceededError(
            "messages",
            limit=limits.CONVERSATION_MESSAGES_MAX,
            actual=last,
            unit="messages in a conversation",
        )


async def _hash_request(request: AppendRequest, prepared: PreparedMessages) -> bytes:
    """Return the SHA-256 of everything in an append; its contents are hashed already."""
    if request.idempotency_key is None:
        return b""

    def compute() -> bytes:
        described = [
            [_described(draft), message.values["sha256"].hex()]
            for draft, message in zip(request.messages, prepared.messages, strict=True)
        ]
        text = json.dumps([request.conversation_id, described], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()

    # Metadata of a full call is megabytes of JSON.
    has_metadata = any(message.metadata for message in request.messages)
    return await asyncio.to_thread(compute) if has_metadata else compute()


def _described(draft: MessageDraft) -> list[object]:
    return [
        draft.role,
        draft.name,
        draft.tool_call_id,
        draft.tool_name,
        None if draft.occurred_at is None else to_microseconds(draft.occurred_at),
        draft.metadata,
    ]


def _find_receipt(tx: Transaction, append: _Append, now: int) -> AppendReceipt | None:
    """Return the receipt of the same append with this idempotency key, unless it has expired.

    Raises:
        IdempotencyConflictError: the key was sent with another append.
    """
    key = append.request.idempotency_key
    if key is None:
        return None
    row = tx.execute(_SQL["find_idempotency"], key=key, since=now - _KEY_LIFE).fetchone()
    if row is None:
        return None
    conversation_id, first, last, sha256 = row
    if sha256 not in (None, append.request_sha256):
        raise IdempotencyConflictError
    return _receipt(conversation_id, first, last, repeated=True)


def _store_receipt(
    tx: Transaction, append: _Append, stretch: Stretch, receipt: AppendReceipt, now: int
) -> int:
    """Store the receipt under its idempotency key, and purge some keys that have expired.

    Returns by how many bytes the organisation's storage grows; it may shrink.
    """
    key = append.request.idempotency_key
    if key is None:
        return 0
    purged = tx.execute(
        _SQL["purge_idempotency"], key=key, since=now - _KEY_LIFE, limit=_PURGED_AT_ONCE
    ).fetchall()
    tx.execute(
        _SQL["add_idempotency"],
        key=key,
        conversation=stretch.conversation,
        first_sequence=receipt.first_sequence,
        last_sequence=receipt.last_sequence,
        request_sha256=append.request_sha256,
        now=now,
    )
    return row_bytes(key) - sum(row_bytes(each) for (each,) in purged)


def _receipt(
    conversation_id: ConversationId, first: int, last: int, *, repeated: bool = False
) -> AppendReceipt:
    """Return the receipt of the messages `first` to `last`, whose ids follow from their sequences."""
    return AppendReceipt(
        conversation_id=conversation_id,
        message_ids=tuple(
            message_id(conversation_id, sequence) for sequence in range(first, last + 1)
        ),
        first_sequence=first,
        last_sequence=last,
        repeated=repeated,
    )


def _delete(
    tx: Transaction,
    conversation_id: ConversationId,
    *,
    known: Sequence[MessageWords],
    actor: str,
    skip_damaged: bool,
) -> DeletionReceipt:
    stretch, content_bytes = find_conversation(tx, conversation_id)
    stored_bytes = measure_conversation(tx, stretch.conversation)
    vectors = remove_record(
        tx, stretch, known=known, state=read_state(tx), skip_damaged=skip_damaged
    )
    messages, chunks = stretch.last_sequence, window_count(stretch.last_sequence)
    grow_counters(
        tx,
        conversations=-1,
        messages=-messages,
        content_bytes=-content_bytes,
        chunks=-chunks,
        stored_bytes=-stored_bytes,
    )
    receipt = audit.record(
        tx,
        now=tx.tenant.now(),
        actor=actor,
        action="delete_conversation",
        subject=conversation_id,
        details={"messages": messages, "chunks": chunks, "vectors": vectors},
    )
    return DeletionReceipt(messages=messages, chunks=chunks, vectors=vectors, receipt=receipt)
