"""Store the conversations of an export: what is missing is appended, what differs is listed.

A conversation that is here already is compared with the lines of the export, message by message. If it is the
beginning of what was exported, as after an import that was killed, the rest is appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple

from engram import limits
from engram.clock import to_microseconds
from engram.errors import ConflictError, InvalidRequestError, LimitExceededError
from engram.model.conversation import ConversationDraft, MessageDraft, is_called_by_title
from engram.model.fields import check_label
from engram.model.ids import ConversationId, ConversationKey
from engram.model.value import replace
from engram.model.vectors import Indexing
from engram.storage.bookkeeping.counters import grow_counters, message_bytes, row_bytes
from engram.storage.bookkeeping.row_hashes import CAPTURED_MESSAGE, CONVERSATION
from engram.storage.bookkeeping.state import State, take_numbers
from engram.storage.content import compression, messages
from engram.storage.content.messages import PreparedMessage, prepare_messages, to_json
from engram.storage.conversations.captured import is_forgotten
from engram.storage.conversations.records import add_tags, extend_record
from engram.storage.memories.storing import indexing_of
from engram.storage.tenant import Transaction
from engram.storage.words.rebuild import clear_state
from engram.storage.words.rows import Stretch
from engram.transfer.export_format import ConversationLine, MessageLine
from engram.transfer.export_lines import (
    check_id,
    conversation_line,
    draft_of,
    message_draft,
    message_line,
    parse_time,
)
from engram.transfer.exporting import read_captured, read_messages
from engram.transfer.import_target import SQL, Target, record_import

_IDENTITY_CHARACTERS_MAX = 64
"""More than `message_identity` makes."""


@dataclass
class Part:
    """Some messages of a conversation, in their order."""

    head: ConversationLine
    messages: list[MessageLine] = field(default_factory=list[MessageLine])
    is_first: bool = True
    """Whether these are the first of the export."""


class _Found(NamedTuple):
    """The columns of `find_conversations`."""

    number: int
    is_default: int
    messages: int


class _Plan(NamedTuple):
    """What is to be stored of a part."""

    part: Part
    draft: ConversationDraft
    found: _Found | None
    new: Sequence[MessageLine]

    @property
    def is_empty(self) -> bool:
        return self.found is not None and not self.new


class _Prepared(NamedTuple):
    plan: _Plan
    messages: Sequence[PreparedMessage]


class _StaleError(Exception):
    """Somebody else has written to a conversation since it was compared."""


class ConversationImport:
    """Collects messages and stores them in batches."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._parts = list[Part]()
        self._items = self._characters = 0
        self._skipped: str | None = None
        """The conversation of which nothing more is stored."""

    async def begin(self, head: ConversationLine) -> None:
        """Take the head of the next conversation."""
        if any(part.head.id == head.id for part in self._parts):
            await self.flush()  # Planned together, each would be found missing.
        self._parts.append(Part(head))
        await self._count(1, 0)

    async def add(self, line: MessageLine) -> None:
        """Take the next message of the conversation.

        Raises:
            InvalidRequestError: there is none.
        """
        if not self._parts:
            raise InvalidRequestError("a message comes before its conversation", field="export")
        self._parts[-1].messages.append(line)
        await self._count(1, len(line.content))

    async def flush(self) -> None:
        """Store what was collected."""
        parts, self._parts = self._parts, []
        self._items = self._characters = 0
        waiting = [each for each in parts if each.is_first or each.head.id != self._skipped]
        if waiting:
            await self._target.each(waiting, self._store, named=_named)

    async def _count(self, items: int, characters: int) -> None:
        self._items += items
        self._characters += characters
        is_full = self._items >= limits.IMPORT_BATCH_ITEMS
        if is_full or self._characters >= limits.IMPORT_BATCH_BYTES:
            head = self._parts[-1].head
            await self.flush()
            self._parts = [Part(head, is_first=False)]

    async def _store(self, parts: Sequence[Part]) -> None:
        try:
            await self._try_to_store(parts)
        except InvalidRequestError:
            self._skipped = parts[-1].head.id
            raise

    async def _try_to_store(self, parts: Sequence[Part]) -> None:
        tenant = self._target.store.tenant
        for _ in range(limits.IMPORT_ATTEMPTS_MAX):
            plans = await tenant.read(lambda tx: [plan_part(tx, part) for part in parts])
            work = [plan for plan in plans if isinstance(plan, _Plan) and not plan.is_empty]
            try:
                if work:
                    await self._write(work)
            except _StaleError:
                continue
            for plan in plans:
                self._report(plan)
            return
        raise ConflictError("others keep writing to the conversations that are imported; try again")

    async def _write(self, plans: Sequence[_Plan]) -> None:
        target, tenant = self._target, self._target.store.tenant
        await compression.learn_awaited(tenant)
        drafts = [[message_draft(line) for line in plan.new] for plan in plans]
        titled = [
            (draft, plan.draft.title if is_called_by_title(draft) else None)
            for plan, some in zip(plans, drafts, strict=True)
            for draft in some
        ]
        indexing = await target.index(titled, "conversation")
        prepared = [
            await self._prepare(plan, some) for plan, some in zip(plans, drafts, strict=True)
        ]
        work = partial(_store_all, target=target, prepared=prepared, indexing=indexing)
        await tenant.write(work)

    async def _prepare(self, plan: _Plan, drafts: Sequence[MessageDraft]) -> _Prepared:
        codec = self._target.store.tenant.codec
        prepared = await prepare_messages(drafts, codec, title=plan.draft.title)
        times = [parse_time(line.created_at, field="created_at") for line in plan.new]
        return _Prepared(
            plan,
            [
                replace(message, values={**message.values, "created_at": to_microseconds(time)})
                for message, time in zip(prepared.messages, times, strict=True)
            ],
        )

    def _report(self, plan: _Plan | Skipped) -> None:
        outcome = self._target.outcome
        if isinstance(plan, Skipped):
            self._skipped = plan.part.head.id
            outcome.present["message"] += plan.same
            if plan.is_erased:
                outcome.erased += plan.part.is_first
            else:
                outcome.conflict(*plan.named, plan.reason)
            return
        if plan.part.is_first:
            counted = outcome.stored if plan.found is None else outcome.present
            counted["conversation"] += 1
        outcome.stored["message"] += len(plan.new)
        outcome.present["message"] += len(plan.part.messages) - len(plan.new)


class Skipped(NamedTuple):
    """A part of which no more is stored, and why."""

    part: Part
    reason: str = ""
    sequence: int | None = None
    """Of the message that differs."""
    same: int = 0
    """Messages before it that are here."""
    is_erased: bool = False

    @property
    def named(self) -> tuple[Literal["conversation", "message"], str]:
        head = self.part.head.id
        return (
            ("conversation", head)
            if self.sequence is None
            else ("message", f"{head}#{self.sequence}")
        )


def _named(part: Part) -> tuple[Literal["conversation"], str]:
    return "conversation", part.head.id


def plan_part(tx: Transaction, part: Part) -> _Plan | Skipped:
    """Return what is to be stored of a part, or why nothing is.

    Raises:
        InvalidRequestError: it cannot be stored here.
    """
    conversation_id = ConversationId(check_id(part.head.id, prefix="conv_"))
    draft = draft_of(part.head)
    _check_sequences(part.messages)
    if is_forgotten(tx, conversation_id):
        return Skipped(part, is_erased=True)
    row = tx.execute(SQL["find_conversations"], id=conversation_id).fetchone()
    found = None if row is None else _Found._make(row)
    known = 0 if found is None else found.messages
    if found is not None:
        difference = _find_difference(tx, part, found)
        if difference is not None:
            return difference
    new = [line for line in part.messages if line.sequence > known]
    if new and new[0].sequence != known + 1:
        raise InvalidRequestError(
            f"message {new[0].sequence} follows message {known}: those between are not in the export"
        )
    last = known + len(new)
    if last > limits.CONVERSATION_MESSAGES_MAX:
        raise LimitExceededError(
            "messages", limit=limits.CONVERSATION_MESSAGES_MAX, actual=last, unit="messages"
        )
    return _Plan(part, draft, found, new)


def _check_sequences(lines: Sequence[MessageLine]) -> None:
    for place, line in enumerate(lines):
        check_label("captured_as", line.captured_as, characters_max=_IDENTITY_CHARACTERS_MAX)
        if line.sequence != lines[0].sequence + place or line.sequence < 1:
            raise InvalidRequestError(
                f"message {line.sequence} is out of order: the export has some of its messages only"
            )


def _find_difference(tx: Transaction, part: Part, found: _Found) -> Skipped | None:
    """Compare a part with what is stored; return the first difference."""
    key = ConversationKey(found.number)
    conversation = messages.read_conversations(tx, [found.number])[key]
    if _described(conversation_line(conversation, is_default=False)) != _described(part.head):
        return Skipped(part, "is here with another title, agent, project, tags, metadata or time")
    common = [line for line in part.messages if line.sequence <= found.messages]
    if not common:
        return None
    bounds = {"first": common[0].sequence, "last": common[-1].sequence}
    captured = read_captured(tx, [found.number], **bounds)
    stored = read_messages(tx, found.number, conversation, **bounds)
    for place, (line, message) in enumerate(zip(common, stored, strict=True)):
        identity = captured.get((found.number, message.sequence))
        if message_line(message, captured_as=identity) != line:
            return Skipped(part, "is here with other content", line.sequence, place)
    return None


def _described(line: ConversationLine) -> ConversationLine:
    """Return a line without what an append changes, and which conversation is the default."""
    return replace(line, messages=0, updated_at="", is_default=False)


def _store_all(
    tx: Transaction, *, target: Target, prepared: Sequence[_Prepared], indexing: Indexing
) -> None:
    now = tx.tenant.now()
    state = clear_state(tx, now=now)
    size = {
        "messages": sum(len(each.messages) for each in prepared),
        "content_bytes": sum(_content_bytes(each.messages) for each in prepared),
    }
    stored_bytes = size["content_bytes"] + sum(_rows_bytes(each.messages) for each in prepared)
    state.check_quota(target.quota, messages=size["messages"], stored_bytes=stored_bytes)
    chunks, first = 0, 0
    for each in prepared:
        last = first + len(each.messages)
        part = indexing_of(indexing, range(first, last))
        chunks += _store_one(tx, each, target=target, indexing=part, state=state)
        first = last
    grow_counters(tx, quota=target.quota, chunks=chunks, stored_bytes=stored_bytes, **size)
    compression.enqueue_when_due(tx, state, **size, now=now)
    created = sum(each.plan.found is None for each in prepared)
    record_import(tx, target.actor, conversations=created, messages=size["messages"])


def _content_bytes(some: Iterable[PreparedMessage]) -> int:
    return sum(message.content_bytes for message in some)


def _rows_bytes(some: Iterable[PreparedMessage]) -> int:
    return sum(message_bytes(message.values) for message in some)


def _store_one(
    tx: Transaction, each: _Prepared, *, target: Target, indexing: Indexing, state: State
) -> int:
    """Store what is missing of a conversation; return how many windows that adds.

    Raises:
        _StaleError: it is not as it was when it was compared.
    """
    plan, head = each.plan, each.plan.part.head
    row = tx.execute(SQL["find_conversations"], id=head.id).fetchone()
    found = None if row is None else _Found._make(row)
    if found != plan.found or is_forgotten(tx, ConversationId(head.id)):
        raise _StaleError
    number = _add_conversation(tx, plan, target=target) if found is None else found.number
    if not each.messages:
        return 0
    stretch = Stretch(number, ConversationId(head.id), 0 if found is None else found.messages)
    updated_at = to_microseconds(parse_time(head.updated_at, field="updated_at"))
    windows = extend_record(
        tx,
        stretch,
        each.messages,
        indexing=indexing,
        state=state,
        created_at=updated_at,  # Unused: every message has its own.
        now=updated_at,
    )
    _add_captured(tx, number, plan.new)
    return windows


def _add_conversation(tx: Transaction, plan: _Plan, *, target: Target) -> int:
    head, draft = plan.part.head, plan.draft
    number = take_numbers(tx, "conversation", 1).start
    has_default = tx.execute(SQL["has_default"]).fetchone() is not None
    metadata = to_json(draft.metadata)
    values = {
        "number": number,
        "id": head.id,
        "title": draft.title,
        "agent_id": draft.agent_id,
        "project": draft.project,
        "metadata": metadata,
        "is_default": head.is_default and not has_default,
        "created_at": to_microseconds(parse_time(head.created_at, field="created_at")),
    }
    updated_at = to_microseconds(parse_time(head.updated_at, field="updated_at"))
    row_hash = CONVERSATION.hash(tx.tenant.id, {**values, "conversation_tags": draft.tags})
    tx.execute(SQL["import_conversation"], **values, updated_at=updated_at, row_hash=row_hash)
    add_tags(tx, number, draft.tags)
    stored_bytes = row_bytes(draft.title, draft.agent_id, draft.project, metadata)
    stored_bytes += sum(map(row_bytes, draft.tags))
    grow_counters(tx, quota=target.quota, conversations=1, stored_bytes=stored_bytes)
    return number


def _add_captured(tx: Transaction, number: int, lines: Sequence[MessageLine]) -> None:
    rows = [
        {"conversation": number, "identity": line.captured_as, "sequence": line.sequence}
        for line in lines
        if line.captured_as is not None
    ]
    owner = tx.tenant.id
    tx.execute_many(
        SQL["import_captured"],
        [{**row, "row_hash": CAPTURED_MESSAGE.hash(owner, row)} for row in rows],
    )
