"""Looking after a project's memories as a whole: proving, dumping and deleting them."""

from __future__ import annotations

from engram.clock import Clock
from engram.errors import InvalidRequestError
from engram.model.access import Principal
from engram.model.care import Verified
from engram.model.ids import MemoryId
from engram.model.memory import MemoryFilters, MemoryPage, MemoryQuery, check_project
from engram.service.audit_trail import AuditTrail
from engram.storage.store import Store
from engram.text.excerpts import tokens_of

CHECKED_TOGETHER = 200
DUMPED_TOGETHER = 500


class Care:
    """The use cases of the `maintenance` toolset that speak of all memories of a project."""

    def __init__(self, store: Store, *, trail: AuditTrail, clock: Clock) -> None:
        self._store = store
        self._trail = trail
        self._clock = clock

    async def verify(self, principal: Principal, project: str | None = None) -> Verified:
        """Prove by their hashes that memories and their former versions are what was stored."""
        principal.require("read")
        if project is not None:
            check_project(project)
        store = await self._store.organization(principal.organization_id)
        total, corrupt = 0, list[MemoryId]()
        after: MemoryId | None = None
        while True:
            proof = await store.memories.verify(project, after=after, limit=CHECKED_TOGETHER)
            total += proof.checked
            corrupt.extend(proof.corrupt)
            if proof.last is None:
                break
            after = proof.last
        return Verified(total=total, hashed=total - len(corrupt), corrupt=tuple(corrupt))

    async def dump(
        self, principal: Principal, *, project: str, offset: int, token_budget: int
    ) -> MemoryPage:
        """Return a project's memories, newest first, as many as fit the budget: at least one.

        `next_offset` is where to go on.
        """
        principal.require("read")
        store = await self._store.organization(principal.organization_id)
        query = MemoryQuery(
            limit=DUMPED_TOGETHER, offset=offset, filters=MemoryFilters(projects=(project,))
        )
        page = await store.memories.list(query, now=self._clock.now())
        left, shown = token_budget, 0
        for memory in page.memories:
            left -= tokens_of(len(memory.content))
            if left < 0 and shown:
                break
            shown += 1
        self._trail.count(
            principal.organization_id, actor=principal.actor, action="memory_dump", project=project
        )
        seen = offset + shown
        return MemoryPage(
            memories=page.memories[:shown],
            total=page.total,
            next_offset=seen if shown and seen < page.total else None,
        )

    async def delete_project(self, principal: Principal, project: str, *, confirm: str) -> int:
        """Remove every memory and episode of a project for good; return how many memories.

        Raises:
            InvalidRequestError: `confirm` does not repeat the project's name.
        """
        principal.require("delete")
        check_project(project)
        if confirm != project:
            raise InvalidRequestError("must repeat the project's name", field="confirm")
        store = await self._store.organization(principal.organization_id)
        return await store.memories.delete_project(project, actor=principal.actor)
