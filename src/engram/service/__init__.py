"""The use cases of Engram, each one method: authorise, bound, transact."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from engram.errors import EngramError
from engram.model.value import Value

if TYPE_CHECKING:
    from pathlib import Path

    from engram.clock import Clock
    from engram.embedding.tiers import Tiers
    from engram.language import LanguageModel
    from engram.model.access import KeyScope, Principal
    from engram.service.access.admission import Turns
    from engram.service.access.alternation import Alternation
    from engram.service.access.audit import AuditTrail
    from engram.service.access.credentials import Access
    from engram.service.access.usage import Activity, UsageMeter
    from engram.service.changes import Changes
    from engram.service.conversations import Conversations
    from engram.service.deliveries import DeliveryLog
    from engram.service.documents import Documents
    from engram.service.erasure import Erasure
    from engram.service.exports import Exports
    from engram.service.health import Health
    from engram.service.importing import Importing
    from engram.service.maintenance import Consolidation, Summaries
    from engram.service.memories import Memories
    from engram.service.memory_transfer import MemoryTransfer
    from engram.service.organization_files import OrganizationFiles
    from engram.service.organizations import Account, Doctor, Operator
    from engram.service.projects import Episodes, Projects
    from engram.service.retention import Retention
    from engram.service.search import Search
    from engram.service.sessions import Sessions
    from engram.service.trash import Trash
    from engram.service.work.background import Background
    from engram.service.work.document_indexing import DocumentIndexing
    from engram.service.work.indexing import Indexer
    from engram.service.work.reembedding import Reembedding
    from engram.storage.organization import OrganizationStore
    from engram.storage.store import Store


class Tools(Value):
    """The parts of a running installation, built once by `engram.wiring`."""

    store: Store
    tiers: Tiers
    language: LanguageModel | None
    clock: Clock
    access: Access
    activity: Activity
    alternation: Alternation
    trail: AuditTrail
    meter: UsageMeter
    deliveries: DeliveryLog
    background: Background
    document_indexing: DocumentIndexing
    indexer: Indexer
    home: Path
    data_directory: Path | None
    document_bytes_max: int
    raw_document_bytes_max: int
    trash_stay: timedelta
    """How long what is deleted with `undo` can be restored."""


class UseCases:
    """Base of the classes whose methods are the use cases of one subject."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def _open(self, principal: Principal, *scopes: KeyScope) -> OrganizationStore:
        """Return the store of the principal's organisation if its key has all the scopes.

        Raises:
            AccessDeniedError: a scope is missing.
        """
        principal.require(*scopes)
        return await self._tools.store.organization(principal.organization_id)


__all__ = ["Service"]


logger = logging.getLogger(__name__)


class Service:
    """Everything a transport may call.

    Use cases are imported and built on first access: most sessions of a client need few of them, and
    each would lengthen its start.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.access = tools.access
        self.clock = tools.clock
        self.activity = tools.activity
        self.background = tools.background
        self.deliveries = tools.deliveries
        self.document_indexing = tools.document_indexing
        self.indexer = tools.indexer

    async def close(self) -> None:
        """Flush the audit trail; the store is still open."""
        await self._tools.trail.flush()

    @cached_property
    def turns(self) -> Turns:
        from engram.service.access.admission import Turns

        return Turns()

    async def record_use(self) -> None:
        """Store when keys were last used, the usage counters of organisations, and what agents were given."""
        await self.access.record_use()
        await self._tools.meter.record()
        await self.deliveries.record()

    async def _record_last_use(self) -> None:
        try:
            await self.record_use()
        except EngramError:
            # A store that failed must not keep its process from ending in order.
            logger.exception("the use of keys and organisations since the last minute is lost")

    @asynccontextmanager
    async def background_work(self) -> AsyncGenerator[None]:
        """Run the background loops while the block runs; at its end record what was used."""
        worker = asyncio.create_task(self.background.run(self.record_use))
        try:
            yield
        finally:
            worker.cancel()
            with suppress(asyncio.CancelledError):
                await worker
            await self._record_last_use()

    @cached_property
    def files(self) -> OrganizationFiles:
        from engram.service.organization_files import OrganizationFiles
        from engram.transfer.data_directory import DataDirectory

        return OrganizationFiles(DataDirectory(self._tools.data_directory), self._tools.store)

    @cached_property
    def account(self) -> Account:
        from engram.service.organizations import Account

        return Account(self._tools, self.files)

    @cached_property
    def changes(self) -> Changes:
        from engram.service.changes import Changes

        return Changes(
            self._tools, memories=self.memories, projects=self.projects, trash=self.trash
        )

    @cached_property
    def consolidation(self) -> Consolidation:
        from engram.service.maintenance import Consolidation

        return Consolidation(self._tools)

    @cached_property
    def conversations(self) -> Conversations:
        from engram.service.conversations import Conversations

        return Conversations(self._tools)

    @cached_property
    def doctor(self) -> Doctor:
        from engram.service.organizations import Doctor

        return Doctor(self._tools)

    @cached_property
    def documents(self) -> Documents:
        from engram.service.documents import Documents

        return Documents(self._tools)

    @cached_property
    def episodes(self) -> Episodes:
        from engram.service.projects import Episodes

        return Episodes(self._tools)

    @cached_property
    def erasure(self) -> Erasure:
        from engram.service.erasure import Erasure

        return Erasure(self._tools, self.files)

    @cached_property
    def exports(self) -> Exports:
        from engram.service.exports import Exports

        return Exports(self._tools)

    @cached_property
    def health(self) -> Health:
        from engram.service.health import Health

        return Health(self._tools, self.account, self.doctor)

    @cached_property
    def importing(self) -> Importing:
        from engram.service.importing import Importing

        return Importing(self._tools, self.conversations)

    @cached_property
    def memories(self) -> Memories:
        from engram.service.memories import Memories

        return Memories(self._tools)

    @cached_property
    def memory_transfer(self) -> MemoryTransfer:
        from engram.service.memory_transfer import MemoryTransfer

        return MemoryTransfer(self._tools, self.files, self.memories)

    @cached_property
    def operator(self) -> Operator:
        from engram.service.organizations import Operator

        return Operator(self._tools, self.files)

    @cached_property
    def projects(self) -> Projects:
        from engram.service.projects import Projects

        return Projects(self._tools)

    @cached_property
    def reembedding(self) -> Reembedding:
        from engram.service.work.reembedding import Reembedding

        return Reembedding(self._tools.store, self._tools.tiers, indexer=self.indexer)

    @cached_property
    def retention(self) -> Retention:
        from engram.service.retention import Retention

        return Retention(self._tools)

    @cached_property
    def search(self) -> Search:
        from engram.service.search import Search

        return Search(self._tools)

    @cached_property
    def sessions(self) -> Sessions:
        from engram.service.sessions import Sessions

        return Sessions(self._tools, self.operator)

    @cached_property
    def trash(self) -> Trash:
        from engram.service.trash import Trash

        return Trash(self._tools)

    @cached_property
    def summaries(self) -> Summaries:
        from engram.service.maintenance import Summaries

        return Summaries(self._tools)
