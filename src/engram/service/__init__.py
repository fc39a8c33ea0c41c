"""The use cases of Engram, each one method: authorise, bound, transact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engram.service.access.admission import Turns
    from engram.service.account import Account
    from engram.service.consolidation import Consolidation
    from engram.service.conversations import Conversations
    from engram.service.documents import Documents
    from engram.service.memories import Memories
    from engram.service.memory_transfer import MemoryTransfer
    from engram.service.operator import Doctor, Operator
    from engram.service.organization_files import OrganizationFiles
    from engram.service.projects import Episodes, Projects
    from engram.service.search import Search
    from engram.service.summaries import Summaries
    from engram.service.use_case import Tools
    from engram.service.work.reembedding import Reembedding

__all__ = ["Service"]


class Service:
    """Everything a transport may call.

    Use cases are imported and built on first access: most sessions of a client need few of them, and
    each would lengthen its start.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self.access = tools.access
        self.activity = tools.activity
        self.background = tools.background
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
        """Store when keys were last used, and the usage counters of organisations."""
        await self.access.record_use()
        await self._tools.meter.record()

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
            await self.record_use()

    @cached_property
    def files(self) -> OrganizationFiles:
        from engram.service.organization_files import OrganizationFiles
        from engram.transfer.data_directory import DataDirectory

        return OrganizationFiles(DataDirectory(self._tools.data_directory), self._tools.store)

    @cached_property
    def account(self) -> Account:
        from engram.service.account import Account

        return Account(self._tools, self.files)

    @cached_property
    def consolidation(self) -> Consolidation:
        from engram.service.consolidation import Consolidation

        return Consolidation(self._tools)

    @cached_property
    def conversations(self) -> Conversations:
        from engram.service.conversations import Conversations

        return Conversations(self._tools)

    @cached_property
    def doctor(self) -> Doctor:
        from engram.service.operator import Doctor

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
    def memories(self) -> Memories:
        from engram.service.memories import Memories

        return Memories(self._tools)

    @cached_property
    def memory_transfer(self) -> MemoryTransfer:
        from engram.service.memory_transfer import MemoryTransfer

        return MemoryTransfer(self._tools, self.files, self.memories)

    @cached_property
    def operator(self) -> Operator:
        from engram.service.operator import Operator

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
    def search(self) -> Search:
        from engram.service.search import Search

        return Search(self._tools)

    @cached_property
    def summaries(self) -> Summaries:
        from engram.service.summaries import Summaries

        return Summaries(self._tools)
