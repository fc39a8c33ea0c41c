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
from typing import Any, NamedTuple

from msgspec import UNSET, UnsetType

from engram import limits
from engram.clock import to_microseconds
from engram.errors import ConflictError, IdempotencyConflictError, LimitExceededError
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
from engram.model.ids import CONVERSATION_PREFIX, ConversationId, message_id
from engram.model.value import Value
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters, measure_conversation, row_bytes
from engram.storage.bookkeeping.row_hashes import CONVERSATION
from engram.storage.bookkeeping.state import State, expect_state, read_state, take_numbers
from engram.storage.content import compression
from engram.storage.content.dictionaries import expect_dictionaries
from engram.storage.content.messages import (
    PreparedMessages,
    prepare_messages,
    read_title,
    to_json,
)
from engram.storage.conversations.captured import forget_session
from engram.storage.conversations.leaving import delete_in_steps
from engram.storage.conversations.records import (
    FoundConversation,
    add_tags,
    despite_damage,
    expect_conversation,
    extend_record,
    find_conversation,
    found_of,
    read_words,
    refuse_held_conversation,
    remove_record,
)
from engram.storage.postings.index import MessageWords
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction
from engram.storage.vectors.embedders import expect_embedders
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch
from engram.text.windows import window_count

_SQL = load_queries("conversations/conversations.sql")
_KEY_LIFE = timedelta(hours=limits.IDEMPOTENCY_HOURS) // timedelta(microseconds=1)
_PURGED_AT_ONCE = 20


class _RenamedError(Exception):
    """A conversation has another title than documents were prepared with."""


class Append(Value):
    """One append, ready for its transaction."""

    request: AppendRequest
    prepared: PreparedMessages
    actor: str
    quota: Quota
    indexing: Indexing
    request_sha256: bytes = b""
    """Empty without an idempotency key."""
    title: str | UnsetType | None = UNSET
    """That documents were prepared with; unset if none is found by it."""


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
        needs_title = any(map(is_called_by_title, request.messages))
        for _ in range(limits.EDIT_ATTEMPTS_MAX):
            if title is UNSET:
                title = await self.find_title(request.conversation_id) if needs_title else None
            prepared = await prepare_messages(request.messages, tenant.codec, title=title)
            append = Append(
                request=request,
                prepared=prepared,
                actor=actor,
                quota=quota,
                indexing=indexing,
                request_sha256=await _hash_request(request, prepared),
                title=title if needs_title else UNSET,
            )
            try:
                return await tenant.write(partial(append_prepared, append=append))
            except _RenamedError:
                title = UNSET
        raise ConflictError("the conversation is renamed again and again; try again")

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

        A long one is unknown to every process when this returns, and a job removes it in steps.

        Raises:
            NotFoundError: there is no such conversation here.
        """

        async def delete(*, skip_damaged: bool) -> DeletionReceipt:
            def read(tx: Transaction) -> list[MessageWords] | None:
                stretch = find_conversation(tx, conversation_id).stretch
                if stretch.last_sequence > limits.MESSAGES_REMOVED_AT_ONCE:
                    return None
                return read_words(tx, stretch, skip_damaged=skip_damaged)

            known = await self._tenant.read(read)
            if known is None:
                return await self._tenant.write(
                    lambda tx: delete_in_steps(
                        tx, find_conversation(tx, conversation_id), actor=actor
                    )
                )
            work = partial(_delete, known=known, actor=actor, skip_damaged=skip_damaged)
            return await self._tenant.write(lambda tx: work(tx, conversation_id))

        return await despite_damage(self._tenant, delete)


def append_prepared(tx: Transaction, append: Append) -> AppendReceipt:
    """Store the messages of an append with all that is derived from them, and its audit row."""
    request, prepared = append.request, append.prepared
    now = tx.tenant.now()
    _expect(tx, append)
    key = None if request.idempotency_key is None else _find_key(tx, request.idempotency_key)
    if key is not None and key.row is not None:
        return _repeated(key.row, append)
    state = clear_state(tx, now=now)
    (stretch, _, updated_at), is_new = _find_target(tx, append)
    if append.title is not UNSET and read_title(tx, stretch.conversation) != append.title:
        raise _RenamedError
    stored_bytes = prepared.stored_bytes + (0 if key is None else key.added_bytes)
    _check_room(append, state, stretch, stored_bytes=stored_bytes)
    chunks = extend_record(
        tx,
        stretch,
        prepared.messages,
        indexing=append.indexing,
        state=state,
        # Never before the messages that are there: the clock may have been set back.
        created_at=max(now, updated_at),
        now=now,
    )
    added, last = len(request.messages), stretch.last_sequence
    receipt = _receipt(stretch.conversation_id, last + 1, last + added)
    if key is not None:
        _store_receipt(tx, append, stretch, receipt, key)
    audit.add(
        tx,
        now=now,
        actor=append.actor,
        action="append_messages",
        subject=receipt.conversation_id,
        details={"sequences": [receipt.first_sequence, receipt.last_sequence]},
    )
    size = {"messages": added, "content_bytes": prepared.content_bytes}
    # The state, by which the quota was checked, does not count a conversation that was made since.
    quota = append.quota if is_new else None
    grow_counters(tx, quota=quota, chunks=chunks, stored_bytes=stored_bytes, **size)
    compression.enqueue_when_due(tx, state, **size, now=now)
    return receipt


def _expect(tx: Transaction, append: Append) -> None:
    """Prepare for what an append reads, so that a server answers it in one round trip."""
    request = append.request
    if request.idempotency_key is not None:
        tx.ask_ahead(_SQL["find_idempotency"], key=request.idempotency_key)
        tx.ask_ahead(_SQL["oldest_idempotency"], limit=_PURGED_AT_ONCE)
    expect_state(tx)
    if request.conversation_id is None:
        tx.ask_ahead(_SQL["find_default_conversation"])
    else:
        expect_conversation(tx, request.conversation_id)
        audit.expect(
            tx, actor=append.actor, action="append_messages", subject=request.conversation_id
        )
    expect_dictionaries(tx, (each.values["content_encoding"] for each in append.prepared.messages))
    expect_embedders(tx)


def _find_target(tx: Transaction, append: Append) -> tuple[FoundConversation, bool]:
    """Return the conversation to append to, and whether it was made for that.

    Without an id it is the default one, which is created if it is missing.
    """
    conversation_id = append.request.conversation_id
    if conversation_id is not None:
        return find_conversation(tx, conversation_id), False
    row = tx.execute(_SQL["find_default_conversation"]).fetchone()
    if row is not None:
        return found_of(row), False
    draft = ConversationDraft(title=DEFAULT_CONVERSATION_TITLE)
    conversation_id = add_conversation(
        tx, draft, actor=append.actor, quota=append.quota, is_default=True
    )
    return find_conversation(tx, conversation_id), True


def add_conversation(
    tx: Transaction,
    draft: ConversationDraft,
    *,
    actor: str,
    quota: Quota,
    is_default: bool = False,
    conversation_id: ConversationId | None = None,
) -> ConversationId:
    """Store an empty conversation with its tags, counter and audit row, by default under a new id.

    Raises:
        QuotaExceededError: it exceeds the quota.
    """
    if conversation_id is None:
        conversation_id = ConversationId(tx.tenant.ids.new(CONVERSATION_PREFIX))
    now = tx.tenant.now()
    number = take_numbers(tx, "conversation", 1).start
    metadata = to_json(draft.metadata)
    values = {
        "number": number,
        "id": conversation_id,
        "title": draft.title,
        "agent_id": draft.agent_id,
        "project": draft.project,
        "metadata": metadata,
        "is_default": is_default,
        "created_at": now,
    }
    row_hash = CONVERSATION.hash(tx.tenant.id, {**values, "conversation_tags": draft.tags})
    tx.execute(_SQL["create_conversation"], **values, row_hash=row_hash)
    add_tags(tx, number, draft.tags)
    stored_bytes = row_bytes(draft.title, draft.agent_id, draft.project, metadata)
    stored_bytes += sum(map(row_bytes, draft.tags))
    grow_counters(tx, quota=quota, conversations=1, stored_bytes=stored_bytes)
    audit.record(tx, now=now, actor=actor, action="create_conversation", subject=conversation_id)
    return conversation_id


def _check_room(append: Append, state: State, stretch: Stretch, *, stored_bytes: int) -> None:
    added = len(append.request.messages)
    state.check_quota(append.quota, messages=added, stored_bytes=stored_bytes)
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


class _Key(NamedTuple):
    """An idempotency key, as an append finds it."""

    name: str
    row: Sequence[Any] | None
    """What was stored under it, unless that has expired."""
    expired: Sequence[str]
    """Keys to purge; every new one purges more than one."""
    now: int

    @property
    def added_bytes(self) -> int:
        """By how many bytes the organisation's storage grows with it; it may shrink."""
        return row_bytes(self.name) - sum(map(row_bytes, self.expired))


def _find_key(tx: Transaction, name: str) -> _Key:
    # Measured by a clock that all processes share: one that is ahead would forget the others' keys.
    now = tx.shared_now()
    row = tx.execute(_SQL["find_idempotency"], key=name).fetchone()
    oldest = tx.execute(_SQL["oldest_idempotency"], limit=_PURGED_AT_ONCE).fetchall()
    since = now - _KEY_LIFE
    expired = {key for key, created_at in oldest if created_at <= since}
    if row is not None and row[-1] <= since:
        expired.add(name)
        row = None
    return _Key(name, row, sorted(expired), now)


def _repeated(row: Sequence[Any], append: Append) -> AppendReceipt:
    """Return the receipt of the same append with this idempotency key.

    Raises:
        IdempotencyConflictError: the key was sent with another append.
    """
    conversation_id, first, last, sha256, _ = row
    if sha256 not in (None, append.request_sha256):
        raise IdempotencyConflictError
    return _receipt(conversation_id, first, last, repeated=True)


def _store_receipt(
    tx: Transaction, append: Append, stretch: Stretch, receipt: AppendReceipt, key: _Key
) -> None:
    """Store the receipt under its idempotency key, and purge some keys that have expired."""
    if key.expired:
        tx.execute(_SQL["delete_idempotency"], keys=json.dumps(key.expired))
    tx.execute(
        _SQL["add_idempotency"],
        key=key.name,
        conversation=stretch.conversation,
        first_sequence=receipt.first_sequence,
        last_sequence=receipt.last_sequence,
        request_sha256=append.request_sha256,
        now=key.now,
    )


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


class TakenOut(NamedTuple):
    """What went when a conversation was removed."""

    messages: int
    chunks: int
    vectors: int
    stored_bytes: int


def take_out(
    tx: Transaction,
    found: FoundConversation,
    *,
    known: Sequence[MessageWords],
    actor: str,
    skip_damaged: bool,
) -> TakenOut:
    """Remove a conversation from every table, index and counter, and note that it was there."""
    stretch, content_bytes, _ = found
    refuse_held_conversation(tx, stretch.conversation)
    forget_session(tx, stretch.conversation_id, actor=actor, now=tx.tenant.now())
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
    return TakenOut(messages, chunks, vectors, stored_bytes)


def _delete(
    tx: Transaction,
    conversation_id: ConversationId,
    *,
    known: Sequence[MessageWords],
    actor: str,
    skip_damaged: bool,
) -> DeletionReceipt:
    found = find_conversation(tx, conversation_id)
    gone = take_out(tx, found, known=known, actor=actor, skip_damaged=skip_damaged)
    receipt = audit.record(
        tx,
        now=tx.tenant.now(),
        actor=actor,
        action="delete_conversation",
        subject=conversation_id,
        details={"messages": gone.messages, "chunks": gone.chunks, "vectors": gone.vectors},
    )
    return DeletionReceipt(
        messages=gone.messages, chunks=gone.chunks, vectors=gone.vectors, receipt=receipt
    )
