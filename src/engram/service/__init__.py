"""The use cases of Engram, each one method: authorise, bound, transact."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engram.clock import Clock
    from engram.embedding.tiers import Tiers
    from engram.language.port import LanguageModel
    from engram.service.access import Access
    from engram.service.account import Account
    from engram.service.activity import Activity
    from engram.service.audit_trail import AuditTrail
    from engram.service.background import Background
    from engram.service.context import Contexts
    from engram.service.conversations import Conversations
    from engram.service.doctor import Doctor
    from engram.service.document_indexing import DocumentIndexing
    from engram.service.document_query import DocumentQueries
    from engram.service.documents import Documents
    from engram.service.files import Files
    from engram.service.indexing import Indexer
    from engram.service.keeping import Keeping
    from engram.service.maintenance import Maintenance
    from engram.service.meaning import Meaning
    from engram.service.memories import Memories
    from engram.service.memory_recall import MemoryRecall
    from engram.service.notes import Notes
    from engram.service.operator import Operator
    from engram.service.recall import Recall
    from engram.service.reembedding import Reembedding
    from engram.service.searching import Searching
    from engram.service.turns import Turns
    from engram.service.usage import UsageMeter
    from engram.storage.store import Store

__all__ = ["Service"]


class Service:
    """Everything a transport may call.

    A use case is imported and built when it is first asked for: most sessions of a client use few
    of them, and each would lengthen its start.
    """

    def __init__(
        self,
        store: Store,
        tiers: Tiers,
        *,
        language: LanguageModel | None,
        clock: Clock,
        access: Access,
        activity: Activity,
        trail: AuditTrail,
        meter: UsageMeter,
        background: Background,
        document_indexing: DocumentIndexing,
        indexer: Indexer,
        data_directory: Path | None,
        document_bytes_max: int,
        raw_document_bytes_max: int,
    ) -> None:
        self.access = access
        self.activity = activity
        self._data_directory = data_directory
        self._meter = meter
        self.background = background
        self.document_indexing = document_indexing
        self.indexer = indexer
        self._trail = trail
        self._store = store
        self._tiers = tiers
        self._language = language
        self._clock = clock
        self._document_bytes_max = document_bytes_max
        self._raw_document_bytes_max = raw_document_bytes_max

    async def close(self) -> None:
        """Write down what was to be audited; the store is still open."""
        await self._trail.flush()

    @cached_property
    def turns(self) -> Turns:
        from engram.service.turns import Turns

        return Turns()

    async def record_use(self) -> None:
        """Write down when keys were last used, and what organisations did."""
        await self.access.record_use()
        await self._meter.record()

    @cached_property
    def files(self) -> Files:
        from engram.care.data_directory import DataDirectory
        from engram.service.files import Files

        return Files(DataDirectory(self._data_directory), self._store)

    @cached_property
    def account(self) -> Account:
        from engram.service.account import Account

        return Account(self._store, self._meaning, files=self.files)

    @cached_property
    def contexts(self) -> Contexts:
        from engram.service.context import Contexts

        return Contexts(self._searching)

    @cached_property
    def conversations(self) -> Conversations:
        from engram.service.conversations import Conversations

        return Conversations(
            self._store,
            indexer=self.indexer,
            background=self.background,
            activity=self.activity,
        )

    @cached_property
    def doctor(self) -> Doctor:
        from engram.service.doctor import Doctor

        return Doctor(self._store)

    @cached_property
    def document_queries(self) -> DocumentQueries:
        from engram.service.document_query import DocumentQueries

        return DocumentQueries(self._searching, self._language)

    @cached_property
    def documents(self) -> Documents:
        from engram.model.document import DocumentLimits
        from engram.service.documents import Documents

        return Documents(
            self._store,
            indexing=self.document_indexing,
            background=self.background,
            clock=self._clock,
            bounds=DocumentLimits(
                body_bytes_max=self._document_bytes_max,
                raw_bytes_max=self._raw_document_bytes_max,
            ),
        )

    @cached_property
    def maintenance(self) -> Maintenance:
        from engram.service.maintenance import build_maintenance

        return build_maintenance(
            self._store,
            self._tiers,
            files=self.files,
            language=self._language,
            keeping=self._keeping,
            indexer=self.indexer,
            background=self.background,
            reembedding=self.reembedding,
            trail=self._trail,
            clock=self._clock,
        )

    @cached_property
    def memories(self) -> Memories:
        from engram.service.memories import Memories

        return Memories(
            self._store,
            keeping=self._keeping,
            indexer=self.indexer,
            background=self.background,
            clock=self._clock,
        )

    @cached_property
    def memory_recall(self) -> MemoryRecall:
        from engram.service.memory_recall import MemoryRecall

        return MemoryRecall(self._searching)

    @cached_property
    def notes(self) -> Notes:
        from engram.service.notes import Notes

        return Notes(self._store, keeping=self._keeping, clock=self._clock)

    @cached_property
    def operator(self) -> Operator:
        from engram.service.operator import Operator

        return Operator(
            self._store, self._meaning, files=self.files, forget_keys=self.access.forget_keys
        )

    @cached_property
    def recall(self) -> Recall:
        from engram.service.recall import Recall

        return Recall(self._searching)

    @cached_property
    def reembedding(self) -> Reembedding:
        from engram.service.reembedding import Reembedding

        return Reembedding(self._store, self._tiers, indexer=self.indexer)

    @cached_property
    def _keeping(self) -> Keeping:
        from engram.service.keeping import Keeping

        return Keeping(
            self._store,
            indexer=self.indexer,
            background=self.background,
            activity=self.activity,
        )

    @cached_property
    def _meaning(self) -> Meaning:
        from engram.service.meaning import Meaning

        return Meaning(self._tiers)

    @cached_property
    def _searching(self) -> Searching:
        from engram.search.question import Questions
        from engram.service.searching import Searching

        return Searching(
            self._store,
            questions=Questions(self._tiers),
            indexer=self.indexer,
            activity=self.activity,
            meter=self._meter,
            clock=self._clock,
        )
