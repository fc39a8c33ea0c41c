"""Erasures of one organisation, in steps that any process can take up where another died.

First everything is made invisible: conversations are hidden, memories removed, messages blanked. Then hidden
conversations are removed row by row, dictionaries that may quote them are replaced, and the database is
written anew, so that nothing is left in free space. Each step is a transaction that looks at what is there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from engram.errors import NotFoundError
from engram.model.capture import session_conversation
from engram.model.erasure import ErasureReceipt, ErasureRequest, ErasureScope
from engram.model.ids import ConversationId, ErasureId, message_id
from engram.model.reminder import REMINDERS
from engram.model.row_keys import conversation_of
from engram.storage import queue
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.holds import has_holds
from engram.storage.content.compression import JOB_KIND as TRAINING
from engram.storage.content.compression import JOB_SUBJECT
from engram.storage.content.dictionaries import replace_dictionaries
from engram.storage.conversations.leaving import Removed, hide_conversation, remove_some
from engram.storage.conversations.records import FoundConversation, find_conversation
from engram.storage.erasing import rows
from engram.storage.erasing.holds import (
    refuse_held_conversations,
    refuse_held_memories,
    refuse_held_messages,
    refuse_held_trash,
)
from engram.storage.erasing.messages import blank_messages
from engram.storage.erasing.selecting import (
    FoundMemory,
    Page,
    Target,
    Trashed,
    find_conversations,
    find_memories,
    find_messages,
    find_trashed,
)
from engram.storage.memories.removal import delete_episodes
from engram.storage.projects import forget_erased
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, TenantStore, Transaction

if TYPE_CHECKING:
    from engram.storage.memories.store import MemoryStore
    from engram.storage.trash.store import TrashStore

_SQL = load_queries("erasing/erasing.sql")

JOB_KIND = "erase"
"""Of the job that finishes an erasure; its subject is the erasure's id."""

Find = Callable[..., Page]

_HELD: tuple[tuple[Find, Callable[..., None]], ...] = (
    (find_conversations, refuse_held_conversations),
    (find_memories, refuse_held_memories),
    (find_messages, refuse_held_messages),
)
"""What an erasure is about, and what refuses it."""


class ErasureStore(TenantStore):
    """Erases what an organisation has stored."""

    def __init__(self, tenant: Tenant, *, memories: MemoryStore, trash: TrashStore) -> None:
        super().__init__(tenant)
        self._memories = memories
        self._trash = trash
        self._newest: ErasureId | None = None
        """The newest erasure that this process has dropped its caches for."""

    async def count(self, request: ErasureRequest) -> dict[str, int]:
        """Return how many of each kind an erasure would remove; nothing is changed.

        Raises:
            NotFoundError: there is no such conversation.
        """
        target = await self._tenant.read(
            lambda tx: Target(request.scope, request.value, **rows.find_last(tx))
        )
        counts = Counter[str]()
        trashed = await self._in_trash(target)
        counts["trashed"] += len(trashed)
        if target.scope == "conversation" and not trashed:
            found = await self._tenant.read(
                lambda tx: find_conversation(tx, ConversationId(target.value))
            )
            counts.update(_counts_of([found]))
        async for conversations in self._pages(find_conversations, target):
            counts.update(_counts_of(conversations))
        async for memories in self._pages(find_memories, target):
            counts.update(_counts_of_memories(memories))
        hidden = await self._numbers(target)
        async for keys in self._pages(find_messages, target):
            counts["messages"] += sum(conversation_of(key) not in hidden for key in keys)
        return {kind: number for kind, number in counts.items() if number}

    async def begin(self, request: ErasureRequest, *, actor: str) -> ErasureReceipt:
        """Store an erasure, its job and its audit row; a conversation is hidden at once.

        Raises:
            NotFoundError: there is no such conversation.
            HeldError: something of it is under a legal hold; nothing is erased.
        """

        scope, value = request.scope, request.value
        await self._refuse_held(scope, value)
        trashed = (
            await self._in_trash(Target(scope, value, 0, 0)) if scope == "conversation" else ()
        )

        def work(tx: Transaction) -> ErasureReceipt:
            row = rows.add_erasure(tx, scope=scope, value=value, actor=actor)
            queue.enqueue(tx, kind=JOB_KIND, subject=row.id, now=tx.shared_now())
            audit.record(
                tx,
                now=row.requested_at,
                actor=actor,
                action="erase",
                subject=value if scope == "conversation" else None,
                details={"erasure": row.id, "scope": scope},
            )
            if scope == "conversation" and not trashed:
                _hide(tx, row.id, [find_conversation(tx, ConversationId(value))], actor=actor)
            return rows.find_erasure(tx, row.id).receipt

        return await self._tenant.write(work)

    async def get(self, erasure_id: ErasureId) -> ErasureReceipt:
        """Return the receipt of an erasure.

        Raises:
            NotFoundError: there is none with this id.
        """
        return await self._tenant.read(lambda tx: rows.find_erasure(tx, erasure_id).receipt)

    async def list(self, *, limit: int) -> tuple[ErasureReceipt, ...]:
        """Return the newest erasures, the newest first."""
        found = await self._tenant.read(partial(rows.list_erasures, limit=limit))
        return tuple(row.receipt for row in found)

    async def list_erased(self, erasure_id: ErasureId) -> tuple[str, ...]:
        """Return the ids of what an erasure has removed, until it is finished."""
        return tuple(await self._tenant.read(partial(rows.list_erased, erasure_id=erasure_id)))

    async def drop_cached(self) -> None:
        """Drop the texts that this process has cached, if anything was erased since the last time."""
        found = await self.list(limit=1)
        if found and found[0].id != self._newest and found[0].state != "hiding":
            self._tenant.drop_texts()
            self._newest = found[0].id

    async def hide(self, erasure_id: ErasureId) -> None:
        """Make everything that an erasure is about invisible, if it is not yet."""
        row = await self._row(erasure_id)
        if row.state != "hiding" or row.value is None:
            return
        target = Target(row.scope, row.value, row.last_conversation, row.last_memory)
        async for found in self._pages(find_conversations, target):
            await self._tenant.write(
                partial(_hide_present, erasure_id=row.id, found=found, actor=row.actor)
            )
        async for memories in self._pages(find_memories, target):
            await self._remove_memories(row, memories)
        async for keys in self._pages(find_messages, target):
            await blank_messages(self._tenant, row.id, keys)
        for entry in await self._in_trash(target):
            await self._purge(row, entry)
        await self._tenant.write(partial(_end_hiding, erasure_id=row.id))

    async def remove_some(self, erasure_id: ErasureId) -> bool:
        """Remove some rows of hidden conversations; return False when none of this erasure are left."""
        if not await self._tenant.read(partial(_is_leaving, erasure_id=erasure_id)):
            return False
        await remove_some(self._tenant, note=_count_removed)
        return True

    async def replace_dictionaries(self) -> None:
        """Compress every text without the dictionaries trained so far, which may quote what is gone."""
        await replace_dictionaries(self._tenant)

    async def begin_rewriting(self, erasure_id: ErasureId, *, files: int) -> None:
        """Forget what was erased, which nothing needs any more, before the database is written anew."""

        def work(tx: Transaction) -> None:
            if rows.find_erasure(tx, erasure_id).state != "removing":
                return
            rows.count_removed(tx, erasure_id, {"files": files})
            rows.change_erasure(tx, erasure_id, state="rewriting", value=None)
            tx.execute(_SQL["forget_erased"], erasure=erasure_id)

        await self._tenant.write(work)

    async def rewrite(self, erasure_id: ErasureId) -> None:
        """Write the database anew where that can be done, and finish the erasure."""
        written = await self._tenant.database.rewrite()

        def work(tx: Transaction) -> None:
            if rows.find_erasure(tx, erasure_id).state == "finished":
                return
            rows.change_erasure(
                tx,
                erasure_id,
                state="finished",
                finished_at=tx.tenant.now(),
                files=json.dumps(written),
            )
            # None could be trained meanwhile; this one does without what is gone.
            queue.enqueue(tx, kind=TRAINING, subject=JOB_SUBJECT, now=tx.shared_now())

        await self._tenant.write(work)

    async def _refuse_held(self, scope: ErasureScope, value: str) -> None:
        """Refuse an erasure of something that is held.

        A hold that is placed later makes the erasure wait until it is lifted.
        """
        if not await self._tenant.read(has_holds):
            return
        target = await self._tenant.read(lambda tx: Target(scope, value, **rows.find_last(tx)))
        for find, refuse in _HELD:
            async for found in self._pages(find, target):
                await self._tenant.read(partial(refuse, found=found))
        trashed = await self._in_trash(target)
        await self._tenant.read(partial(refuse_held_trash, found=trashed))

    async def _row(self, erasure_id: ErasureId) -> rows.ErasureRow:
        return await self._tenant.read(partial(rows.find_erasure, erasure_id=erasure_id))

    async def _numbers(self, target: Target) -> set[int]:
        """Return the conversations that an erasure would hide."""
        numbers = set[int]()
        async for found in self._pages(find_conversations, target):
            numbers.update(each.stretch.conversation for each in found)
        return numbers

    async def _pages(self, find: Find, target: Target) -> AsyncIterator[list[Any]]:
        """Yield what an erasure is about, a bounded number at a time, until all rows were looked at."""
        after: int | None = 0
        while after is not None:
            page = await self._tenant.read(partial(find, target=target, after=after))
            if page.found:
                yield page.found
            after = page.after

    async def _in_trash(self, target: Target) -> list[Trashed]:
        """Return what was deleted before and is still in the trash."""
        found: list[Trashed] = []
        after: str | None = ""
        while after is not None:
            some, after = await self._tenant.read(partial(find_trashed, target=target, after=after))
            found += some
        return found

    async def _purge(self, row: rows.ErasureRow, entry: Trashed) -> None:
        """Remove an entry of the trash for good, and count it."""

        def note(tx: Transaction) -> None:
            if rows.add_erased(tx, row.id, entry.id):
                rows.count_removed(tx, row.id, {"trashed": 1})

        await self._tenant.write(note)
        try:
            await self._trash.purge(entry.id, actor=row.actor)
        except NotFoundError:
            return  # Another process was faster, or it has expired.

    async def _remove_memories(self, row: rows.ErasureRow, memories: Sequence[FoundMemory]) -> None:
        await self._tenant.write(partial(_note_memories, erasure_id=row.id, memories=memories))
        for memory in memories:
            try:
                await self._memories.purge(memory.id, actor=row.actor, force=True)
            except NotFoundError:
                continue  # Another process was faster.


def _counts_of(found: Sequence[FoundConversation]) -> Mapping[str, int]:
    messages = sum(each.stretch.last_sequence for each in found)
    return {"conversations": len(found), "messages": messages}


def _counts_of_memories(found: Sequence[FoundMemory]) -> Mapping[str, int]:
    documents = sum(each.document_id is not None for each in found)
    return {"memories": len(found), "documents": documents}


def _hide_present(
    tx: Transaction, *, erasure_id: ErasureId, found: Sequence[FoundConversation], actor: str
) -> None:
    """Hide those conversations that nobody has hidden or removed meanwhile, as they are now."""
    present: list[FoundConversation] = []
    for each in found:
        try:
            present.append(find_conversation(tx, each.stretch.conversation_id))
        except NotFoundError:
            continue
    _hide(tx, erasure_id, present, actor=actor)


def _hide(
    tx: Transaction, erasure_id: ErasureId, found: Sequence[FoundConversation], *, actor: str
) -> None:
    shown = _shown_messages(tx)
    named = set[str]()
    for each in found:
        conversation_id, last = each.stretch.conversation_id, each.stretch.last_sequence
        hide_conversation(tx, each, actor=actor, erasure=erasure_id)
        rows.add_erased(tx, erasure_id, conversation_id)
        named.add(conversation_id)
        if shown:
            ids = (message_id(conversation_id, sequence) for sequence in range(1, last + 1))
            named.update(shown.intersection(ids))
    deliveries = _forget_deliveries(tx, named)
    rows.count_removed(tx, erasure_id, {**_counts_of(found), "deliveries": deliveries})


def _note_memories(
    tx: Transaction, *, erasure_id: ErasureId, memories: Sequence[FoundMemory]
) -> None:
    """Count memories that are about to be removed; one that was noted before is not counted again."""
    new = [each for each in memories if rows.add_erased(tx, erasure_id, each.id)]
    deliveries = _forget_deliveries(tx, {each.id for each in memories})
    rows.count_removed(tx, erasure_id, {**_counts_of_memories(new), "deliveries": deliveries})


def _shown_messages(tx: Transaction) -> set[str]:
    """Return the ids of everything that the log of deliveries names."""
    shown = (json.loads(each) for *_, each in tx.execute(_SQL["deliveries"]).fetchall())
    return set(chain.from_iterable(shown))


def _forget_deliveries(tx: Transaction, ids: set[str]) -> int:
    """Remove deliveries that showed any of these, or were made to sessions that are among them.

    Those that a tool was asked for go too: no id tells whom the words of a question name.
    """
    if not ids:
        return 0
    times = [
        at
        for at, client, session, event, shown in tx.execute(_SQL["deliveries"]).fetchall()
        if event not in REMINDERS
        or not ids.isdisjoint(place.partition("#")[0] for place in json.loads(shown))
        or session_conversation(tx.tenant.id, source=client, session=session) in ids
    ]
    if times:
        tx.execute(_SQL["delete_deliveries"], times=json.dumps(times))
    return len(times)


def _end_hiding(tx: Transaction, *, erasure_id: ErasureId) -> None:
    row = rows.find_erasure(tx, erasure_id)
    if row.state != "hiding" or row.value is None:
        return
    if row.scope == "project":
        for (episode_id,) in tx.execute(_SQL["episodes_of_project"], value=row.value).fetchall():
            rows.add_erased(tx, erasure_id, episode_id)
        rows.count_removed(tx, erasure_id, {"episodes": delete_episodes(tx, row.value)})
        tx.execute(_SQL["rename_subject"], value=row.value, name=f"erased by {erasure_id}")
    project = row.value if row.scope == "project" else None
    forget_erased(tx, rows.list_erased(tx, erasure_id), project=project)
    rows.change_erasure(tx, erasure_id, state="removing")


def _is_leaving(tx: Transaction, *, erasure_id: ErasureId) -> bool:
    return tx.execute(_SQL["is_leaving"], erasure=erasure_id).fetchone() is not None


def _count_removed(tx: Transaction, removed: Removed) -> None:
    if removed.erasure is not None:
        rows.count_removed(tx, ErasureId(removed.erasure), {"vectors": removed.vectors})
