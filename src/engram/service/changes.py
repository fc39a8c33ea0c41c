"""Acts on many memories at once, and taking such acts back: exactly what each has changed, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from engram import limits
from engram.errors import ConflictError, NotFoundError
from engram.model.access import KeyScope, Principal
from engram.model.changes import ManyChanged, ManyMemories, Undone
from engram.model.ids import MemoryId
from engram.model.memory import Memory, MemoryChange, MemoryPage, MemoryQuery
from engram.model.project import ChangeId, ChangeKind, ChangeSet
from engram.service import Tools, UseCases
from engram.service.memories import Memories
from engram.service.projects import Projects
from engram.service.trash import Trash
from engram.storage.organization import OrganizationStore

T = TypeVar("T")

NEEDED: Mapping[ChangeKind, tuple[KeyScope, ...]] = {"merge": ("admin",), "trash": ("delete",)}
"""Scopes beside `write` that undoing takes: those that the act has taken."""


class Changes(UseCases):
    """Changes many memories at once, and takes acts on many things back."""

    def __init__(
        self, tools: Tools, *, memories: Memories, projects: Projects, trash: Trash
    ) -> None:
        super().__init__(tools)
        self._memories = memories
        self._projects = projects
        self._trash = trash

    async def change_memories(self, principal: Principal, request: ManyMemories) -> ManyChanged:
        """Change the newest memories that the filters select, up to a bound, or only count them.

        Raises:
            AccessDeniedError: the scope `write` is missing, or `delete` to move them to the trash.
            NotFoundError: they are to be of an episode that does not exist.
        """
        principal.require("read", "delete" if request.importance is None else "write")
        store = await self._open(principal, "read")
        total = (await self._page(principal, request, offset=0, limit=1)).total
        found = [each async for each in self._matching(principal, request)]
        if request.dry_run:
            return ManyChanged(dry_run=True, total=total, changed=len(found))
        if request.importance is None:
            done = await self._to_trash(principal, found)
            items: dict[str, Any] = {"memories": done}
            kind = "trash"
        else:
            done = await self._rank(principal, found, request.importance)
            before = {each.id: each.importance for each in found}
            items = {
                "memories": {memory_id: before[memory_id] for memory_id in done},
                "importance": request.importance,
            }
            kind = "importance"
        change_id = None
        if done:
            change_id = await store.projects.add_change_set(kind, items, actor=principal.actor)
        return ManyChanged(
            dry_run=False,
            total=total,
            changed=len(done),
            refused=len(found) - len(done),
            change_id=change_id,
        )

    async def undo(self, principal: Principal, change_id: ChangeId) -> Undone:
        """Take an act on many things back, once; what was changed otherwise since stays as it is.

        Raises:
            NotFoundError: it is unknown, was taken back before, or is too old.
        """
        store = await self._open(principal, "write")
        change = await store.projects.get_change_set(change_id)
        principal.require(*NEEDED.get(change.kind, ()))
        if not await store.projects.remove_change_set(change_id):
            raise NotFoundError("change that can be undone", change_id)
        match change.kind:
            case "importance":
                restored, total = await self._rank_back(principal, store, change)
            case "trash":
                restored, total = await self._restore(principal, store, change)
            case "merge":
                restored, total = await self._projects.take_apart(principal, change)
        return Undone(kind=change.kind, restored=restored, refused=total - restored)

    async def _matching(
        self, principal: Principal, request: ManyMemories
    ) -> AsyncGenerator[Memory]:
        """Yield the newest memories that would change, up to the bound."""
        offset: int | None = 0
        left = limits.MEMORIES_CHANGED_MAX
        while offset is not None and left:
            page = await self._page(principal, request, offset=offset, limit=limits.MEMORY_PAGE_MAX)
            wanted = [each for each in page.memories if each.importance != request.importance]
            for each in wanted[:left]:
                left -= 1
                yield each
            offset = page.next_offset

    async def _page(
        self, principal: Principal, request: ManyMemories, *, offset: int, limit: int
    ) -> MemoryPage:
        query = MemoryQuery(
            limit=limit, offset=offset, filters=request.filters, validity=request.validity
        )
        return await self._memories.list(principal, query)

    async def _to_trash(self, principal: Principal, found: Iterable[Memory]) -> list[MemoryId]:
        return await _each(
            [each.id for each in found],
            lambda memory_id: self._memories.purge(principal, memory_id, undo=True),
        )

    async def _rank(
        self, principal: Principal, found: Iterable[Memory], importance: int
    ) -> list[MemoryId]:
        change = MemoryChange(importance=importance)
        return await _each(
            [each.id for each in found],
            lambda memory_id: self._memories.correct(principal, memory_id, change),
        )

    async def _rank_back(
        self, principal: Principal, store: OrganizationStore, change: ChangeSet
    ) -> tuple[int, int]:
        """Give memories the importance they had, where it is still the one they were given."""
        before: dict[MemoryId, int] = change.items["memories"]
        now = await store.memories.get(list(before))
        still = [
            memory_id
            for memory_id in before
            if memory_id in now and now[memory_id].importance == change.items["importance"]
        ]
        done = await _each(
            still,
            lambda memory_id: self._memories.correct(
                principal, memory_id, MemoryChange(importance=before[memory_id])
            ),
        )
        return len(done), len(before)

    async def _restore(
        self, principal: Principal, store: OrganizationStore, change: ChangeSet
    ) -> tuple[int, int]:
        """Restore what the act has moved to the trash, but nothing that was deleted again since."""
        ids: list[str] = change.items["memories"]
        there = await store.trash.get(ids)
        still = [each for each in ids if each in there and there[each].deleted_at <= change.at]
        done = await _each(still, lambda entry_id: self._trash.restore(principal, entry_id))
        return len(done), len(ids)


async def _each(ids: Iterable[T], work: Callable[[T], Awaitable[object]]) -> list[T]:
    """Return the ids for which the work was done: others are immutable, held, or gone meanwhile."""
    done = list[T]()
    for each in ids:
        try:
            await work(each)
        except (ConflictError, NotFoundError):
            continue
        done.append(each)
    return done
