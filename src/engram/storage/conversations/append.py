"""Store messages, with all that is derived from them, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from engram import limits
from engram.errors import LimitExceededError, NotFoundError
from engram.model.access import Quota
from engram.model.conversation import (
    DEFAULT_CONVERSATION_TITLE,
    AppendReceipt,
    AppendRequest,
    ConversationDraft,
    is_called_by_title,
)
from engram.model.ids import ConversationId
from engram.model.row_keys import message_key
from engram.model.vectors import Indexing
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.state import State
from engram.storage.content import training
from engram.storage.content.dictionaries import learn_awaited
from engram.storage.content.preparation import PreparedMessages, prepare_messages
from engram.storage.conversations import idempotency
from engram.storage.conversations.creation import create_conversation
from engram.storage.conversations.idempotency import hash_request, receipt_of
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors.rows import index_appended
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch, append_rows

_CONVERSATIONS = load_queries("conversations/conversations.sql")
_MESSAGES = load_queries("conversations/messages.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """One append, ready for its transaction."""

    request: AppendRequest
    prepared: PreparedMessages
    actor: str
    quota: Quota
    indexing: Indexing
    request_sha256: bytes
    """Empty without an idempotency key."""


class Outcome(NamedTuple):
    """What to answer, and what to remember once it is durable."""

    receipt: AppendReceipt
    dictionary: int | None = None


async def append_messages(
    tenant: Tenant, request: AppendRequest, *, actor: str, quota: Quota, indexing: Indexing
) -> AppendReceipt:
    """Store the messages and all that is derived from them, or nothing."""
    await learn_awaited(tenant)
    title = None
    if any(map(is_called_by_title, request.messages)):
        title = await find_title(tenant, request.conversation_id)
    prepared = await prepare_messages(request.messages, tenant.codec, title=title)
    append = Append(
        request=request,
        prepared=prepared,
        actor=actor,
        quota=quota,
        indexing=indexing,
        request_sha256=await _hash_request(request, prepared),
    )
    outcome = await tenant.write(partial(_transact, append=append))
    if outcome.dictionary is not None:
        tenant.codec.announce_dictionary(outcome.dictionary)
    return outcome.receipt


async def _hash_request(request: AppendRequest, prepared: PreparedMessages) -> bytes:
    if request.idempotency_key is None:
        return b""
    if any(message.metadata for message in request.messages):
        # Metadata of a full call is megabytes of JSON.
        return await asyncio.to_thread(hash_request, request, prepared)
    return hash_request(request, prepared)


async def find_title(tenant: Tenant, conversation_id: ConversationId | None) -> str | None:
    """Return the title of a conversation, if it is here; without an id, of the default one."""
    if conversation_id is None:
        return DEFAULT_CONVERSATION_TITLE

    def read(tx: Transaction) -> str | None:
        row = tx.execute(_CONVERSATIONS["find_title"], id=conversation_id).fetchone()
        return None if row is None else row[0]

    return await tenant.read(read)


def _transact(tx: Transaction, *, append: Append) -> Outcome:
    request, prepared = append.request, append.prepared
    now = tx.tenant.now()
    if repeated := _find_repeated(tx, append, now):
        return Outcome(repeated)
    state = clear_state(tx, now=now)
    stretch = _find_stretch(tx, append)
    _check_room(append, state, stretch)
    _add_messages(tx, append, stretch, now)
    chunks = append_rows(
        tx,
        stretch,
        [message.words for message in prepared.messages],
        also_next=state.is_in_next(stretch.conversation),
    )
    index_appended(tx, _new_keys(append, stretch), append.indexing)
    receipt = receipt_of(
        stretch.conversation_id,
        stretch.last_sequence + 1,
        stretch.last_sequence + len(request.messages),
    )
    key_bytes = _remember(tx, append, stretch, receipt, now)
    _count(tx, append, stretch, chunks=chunks, key_bytes=key_bytes, now=now)
    training.enqueue_when_due(
        tx, state, messages=len(request.messages), content_bytes=prepared.content_bytes, now=now
    )
    return Outcome(receipt, state.dictionary)


def _find_stretch(tx: Transaction, append: Append) -> Stretch:
    """Return the conversation to append to; without an id, the default one, made if missing."""
    conversation_id = append.request.conversation_id
    if conversation_id is not None:
        row = tx.execute(_CONVERSATIONS["find_conversation"], id=conversation_id).fetchone()
        if row is None:
            raise NotFoundError("conversation", conversation_id)
        return Stretch(*row[:3])
    find_default = _CONVERSATIONS["find_default_conversation"]
    row = tx.execute(find_default).fetchone()
    if row is None:
        draft = ConversationDraft(title=DEFAULT_CONVERSATION_TITLE)
        create_conversation(tx, draft, actor=append.actor, quota=append.quota, is_default=True)
        row = tx.execute(find_default).fetchone()
    return Stretch(*row[:3])


def _check_room(append: Append, state: State, stretch: Stretch) -> None:
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


def _add_messages(tx: Transaction, append: Append, stretch: Stretch, now: int) -> None:
    tx.execute_many(
        _MESSAGES["add_message"],
        [
            {"key": key, "created_at": now, **message.values}
            for key, message in zip(
                _new_keys(append, stretch), append.prepared.messages, strict=True
            )
        ],
    )


def _new_keys(append: Append, stretch: Stretch) -> Sequence[int]:
    first = message_key(stretch.conversation, stretch.last_sequence + 1)
    return range(first, first + len(append.request.messages))


def _count(
    tx: Transaction, append: Append, stretch: Stretch, *, chunks: int, key_bytes: int, now: int
) -> None:
    """Count what was appended, if it fits the quota together with what was added beside it."""
    added = {
        "messages": len(append.request.messages),
        "content_bytes": append.prepared.content_bytes,
    }
    tx.execute(
        _CONVERSATIONS["grow_conversation"], conversation=stretch.conversation, now=now, **added
    )
    grow_counters(
        tx,
        quota=append.quota,
        chunks=chunks,
        stored_bytes=append.prepared.stored_bytes + key_bytes,
        **added,
    )


def _find_repeated(tx: Transaction, append: Append, now: int) -> AppendReceipt | None:
    key = append.request.idempotency_key
    if key is None:
        return None
    return idempotency.find(tx, key, request_sha256=append.request_sha256, now=now)


def _remember(
    tx: Transaction, append: Append, stretch: Stretch, receipt: AppendReceipt, now: int
) -> int:
    """Write down the idempotency key and the audit row; return the bytes that the key adds."""
    key = append.request.idempotency_key
    key_bytes = 0
    if key is not None:
        key_bytes = idempotency.remember(
            tx, key, stretch.conversation, receipt, request_sha256=append.request_sha256, now=now
        )
    audit.record(
        tx,
        now=now,
        actor=append.actor,
        action="append_messages",
        subject=receipt.conversation_id,
        details={"sequences": [receipt.first_sequence, receipt.last_sequence]},
    )
    return key_bytes
