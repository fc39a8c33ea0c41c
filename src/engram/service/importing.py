"""Import of what other programs keep: their sessions as conversations, their memories as memories."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engram import limits
from engram.model.access import Principal
from engram.model.capture import CaptureReceipt, CaptureRequest
from engram.model.fields import DEFAULT_PROJECT
from engram.model.ids import MemoryId, derived_id
from engram.model.memory import (
    IMPORTANCE_DEFAULT,
    MEMORY_TYPES,
    UNFILED,
    Memory,
    MemoryDraft,
    MemoryType,
)
from engram.model.project import ProjectNames
from engram.service import Tools, UseCases
from engram.service.conversations import Conversations
from engram.sources.batches import Choices
from engram.sources.importing import Advance, Remembered, Report, import_files
from engram.sources.ledger import Ledger
from engram.sources.texts import label_of
from engram.sources.values import Source, SourceMemory
from engram.transfer.memories import MemoryRecord, store_records

MEMORY_PREFIX = "mem_"


class Importing(UseCases):
    """Imports files of other programs."""

    def __init__(self, tools: Tools, conversations: Conversations) -> None:
        super().__init__(tools)
        self._conversations = conversations

    async def import_files(
        self,
        principal: Principal,
        source: Source,
        paths: Sequence[Path],
        *,
        ledger: Ledger | None,
        choices: Choices,
        advance: Advance = lambda _: None,
    ) -> Report:
        """Store what was written to files of a source since the last time.

        A message or memory that is here already, by whatever way it came, is not stored again, and
        nothing of a conversation or memory that was deleted. A file that cannot be read is reported.

        The aliases and exclusions of the store hold beside the policy of the choices.

        Raises:
            AccessDeniedError: the scope `write` is missing.
            QuotaExceededError: the quota is used up; what was stored before stays.
        """
        store = await self._open(principal, "write")
        names = ProjectNames(await store.projects.list_rules())
        choices = replace(choices, policy=choices.policy.with_names(names))
        sink = _Store(self._tools, self._conversations, principal, choices)
        return await import_files(
            source,
            paths,
            sink=sink,
            ledger=ledger,
            choices=choices,
            clock=self._tools.clock,
            advance=advance,
        )


class _Store:
    """The store as the sink of an import."""

    def __init__(
        self, tools: Tools, conversations: Conversations, principal: Principal, choices: Choices
    ) -> None:
        self._tools = tools
        self._conversations = conversations
        self._principal = principal
        self._choices = choices

    async def capture(self, request: CaptureRequest) -> CaptureReceipt:
        return await self._conversations.capture_session(self._principal, request)

    async def remember(self, source: str, memories: Sequence[SourceMemory]) -> Remembered:
        owner, tools = self._principal.organization_id, self._tools
        store = await tools.store.organization(owner)
        records = [self._record(source, memory) for memory in memories]
        outcome = await store_records(
            store,
            records,
            actor=self._principal.actor,
            quota=self._principal.quota,
            indexing=await tools.indexer.index_new(
                [MemoryDraft(content=each.memory.content).as_message() for each in records],
                organization_id=owner,
            ),
        )
        tools.background.announce_work(owner)
        return Remembered(len(outcome.stored), outcome.present, outcome.purged)

    def _record(self, source: str, memory: SourceMemory) -> MemoryRecord:
        now = self._tools.clock.now()
        owner = self._principal.organization_id
        created_at = memory.created_at or now
        return MemoryRecord(
            memory=Memory(
                id=MemoryId(derived_id(MEMORY_PREFIX, f"{owner}\0{source}\0{memory.id}")),
                content=memory.content,
                memory_type=_type_of(memory.kind),
                category=UNFILED,
                source=label_of(f"{source}:{memory.id}") or source,
                importance=IMPORTANCE_DEFAULT,
                tags=tuple(dict.fromkeys((source, *memory.tags)))[: limits.TAGS_MAX],
                project=self._choices.project_of(memory.project) or DEFAULT_PROJECT,
                immutable=False,
                valid_to=memory.valid_to,
                storage_mode="focused",
                content_hash=hashlib.sha256(memory.content.encode()).hexdigest(),
                version=1,
                created_at=created_at,
                updated_at=created_at,
                is_searched=True,
            )
        )


def _type_of(kind: str | None) -> MemoryType:
    found: list[MemoryType] = [known for known in MEMORY_TYPES if known == kind]
    return found[0] if found else "context"
