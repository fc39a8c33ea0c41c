"""The `OrganizationStore` of one organisation's tables: each method one transaction, or a few
short ones where the work is long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from engram.clock import to_microseconds
from engram.model.access import UNBOUNDED, AuditEntry, Quota
from engram.model.conversation import (
    AppendReceipt,
    AppendRequest,
    ConversationDraft,
    ConversationPage,
    ConversationQuery,
    DeletionReceipt,
    Message,
    MessagePage,
    MessageQuery,
)
from engram.model.ids import ConversationId, ConversationKey, MessageKey, OrganizationId
from engram.model.search import KINDS, Candidates, Kind, Loaded, SearchFilters
from engram.model.status import BackfillReport, Counters, Coverage, Finding, Job
from engram.model.vectors import (
    WORDS_ALONE,
    Embedded,
    Indexing,
    QueryVector,
    ReembeddingBegun,
    StoredIdentities,
    Unembedded,
    UnmovedBatch,
    UnmovedCount,
)
from engram.storage.bookkeeping import audit, jobs
from engram.storage.bookkeeping import counters as counting
from engram.storage.content import training
from engram.storage.conversations import reading
from engram.storage.ports import ChoiceT
from engram.storage.rows.database import Connection
from engram.storage.search.found import load_found
from engram.storage.search.found_memories import count_moments_passed
from engram.storage.search.state import read_search_state
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors import reembedding, unembedded
from engram.storage.vectors.index import VectorIndex
from engram.storage.words import rebuild

if TYPE_CHECKING:
    from engram.storage.documents.store import TableDocumentStore
    from engram.storage.memories.store import TableMemoryStore


class TableOrganizationStore:
    """Everything of one organisation."""

    def __init__(
        self, tenant: Tenant, *, vectors: VectorIndex, revision_of: Callable[[Connection], Hashable]
    ) -> None:
        self._tenant = tenant
        self._vectors = vectors
        self._database = tenant.database
        self._revision_of = revision_of

    @property
    def organization_id(self) -> OrganizationId:
        return self._tenant.id

    @property
    def memories(self) -> TableMemoryStore:
        return self._memories

    @cached_property
    def _memories(self) -> TableMemoryStore:
        from engram.storage.memories.store import TableMemoryStore

        return TableMemoryStore(self._tenant)

    @property
    def documents(self) -> TableDocumentStore:
        return self._documents

    @cached_property
    def _documents(self) -> TableDocumentStore:
        from engram.storage.documents.store import TableDocumentStore

        return TableDocumentStore(self._tenant)

    async def prepare(self) -> None:
        """Make a new file ready, and bring an old one's words to this program's analyser."""
        await rebuild.prepare_upkeep(self._tenant)

    async def create_conversation(
        self, draft: ConversationDraft, *, actor: str, quota: Quota = UNBOUNDED
    ) -> ConversationId:
        from engram.storage.conversations import creation

        return await self._tenant.write(
            lambda tx: creation.create_conversation(tx, draft, actor=actor, quota=quota)
        )

    async def append_messages(
        self, request: AppendRequest, *, actor: str, quota: Quota, indexing: Indexing = WORDS_ALONE
    ) -> AppendReceipt:
        from engram.storage.conversations import append

        return await append.append_messages(
            self._tenant, request, actor=actor, quota=quota, indexing=indexing
        )

    async def find_title(self, conversation_id: ConversationId | None) -> str | None:
        from engram.storage.conversations import append

        return await append.find_title(self._tenant, conversation_id)

    async def get_conversation(self, query: MessageQuery) -> MessagePage:
        return await self._tenant.read(lambda tx: reading.get_conversation(tx, query))

    async def list_conversations(self, query: ConversationQuery) -> ConversationPage:
        from engram.storage.conversations import listing

        return await self._tenant.read(lambda tx: listing.list_conversations(tx, query))

    async def delete_conversation(
        self, conversation_id: ConversationId, *, actor: str
    ) -> DeletionReceipt:
        from engram.storage.conversations import deletion

        return await deletion.delete_conversation(self._tenant, conversation_id, actor=actor)

    async def search(
        self,
        terms: Sequence[str],
        *,
        vectors: Sequence[QueryVector],
        filters: SearchFilters,
        kinds: Sequence[Kind] = KINDS,
        now: int,
        limit: int,
        choose: Callable[[Candidates], ChoiceT],
    ) -> tuple[ChoiceT, Loaded]:
        from engram.storage.search.candidates import find_candidates

        def find_and_load(tx: Transaction) -> tuple[ChoiceT, Loaded]:
            state = read_search_state(tx.connection, organization_id=self._tenant.number)
            choice = choose(
                find_candidates(
                    tx,
                    terms,
                    state=state,
                    index=self._vectors,
                    vectors=vectors,
                    filters=filters,
                    kinds=kinds,
                    now=now,
                    limit=limit,
                )
            )
            return choice, load_found(tx, choice.messages, choice.conversations, state=state)

        return await self._tenant.read(find_and_load)

    async def revision(self, *, now: datetime) -> Hashable:
        moment = to_microseconds(now)
        return await self._tenant.read(
            lambda tx: (self._revision_of(tx.connection), count_moments_passed(tx, now=moment))
        )

    async def load_range(
        self, conversation: ConversationKey, *, start: int, end: int
    ) -> tuple[Message, ...]:
        return await self._tenant.read(
            lambda tx: reading.load_range(tx, conversation, start=start, end=end)
        )

    async def counters(self) -> Counters:
        return await self._tenant.read(counting.read_counters)

    async def add_file_bytes(self, added: int, *, quota: Quota) -> None:
        await self._tenant.write(
            lambda tx: counting.grow_counters(tx, quota=quota, file_bytes=added)
        )

    async def put_file_bytes(self, total: int) -> None:
        await self._tenant.write(lambda tx: counting.put_file_bytes(tx, total))

    async def coverage(self) -> Coverage:
        return await self._tenant.read(counting.count_coverage)

    async def list_audit(self, *, limit: int, before: datetime | None) -> tuple[AuditEntry, ...]:
        return await audit.list_audit(self._tenant, limit=limit, before=before)

    async def compress_backfill(self, *, batch_size: int) -> BackfillReport:
        from engram.storage.content import backfill

        return await backfill.compress_backfill(self._tenant, batch_size=batch_size)

    async def reindex(self) -> int:
        return await rebuild.rebuild_words(self._tenant)

    def verify(self) -> AsyncIterator[Finding]:
        from engram.storage.checks import verification

        return verification.verify(self._tenant)

    async def repair(self) -> int:
        from engram.storage.checks import repair

        return await repair.repair(self._tenant)

    async def enqueue_job(self, kind: str, subject: str) -> None:
        await jobs.enqueue_job(self._tenant, kind, subject)

    async def claim_jobs(
        self, kinds: Sequence[str], *, owner: str, lease: timedelta, limit: int
    ) -> tuple[Job, ...]:
        return await jobs.claim_jobs(self._tenant, kinds, owner=owner, lease=lease, limit=limit)

    async def finish_job(self, job: Job, *, owner: str) -> bool:
        return await jobs.finish_job(self._tenant, job, owner=owner)

    async def postpone_job(self, job: Job, *, owner: str, delay: timedelta) -> bool:
        return await jobs.postpone_job(self._tenant, job, owner=owner, delay=delay)

    async def identities(self) -> StoredIdentities:
        return await unembedded.identities(self._tenant)

    async def adopt_embedder(self, identity: str) -> bool:
        return await unembedded.adopt_embedder(self._tenant, identity)

    async def claim_unembedded(
        self, *, owner: str, lease: timedelta, limit: int, characters_max: int
    ) -> tuple[Unembedded, ...]:
        return await unembedded.claim_unembedded(
            self._tenant, owner=owner, lease=lease, limit=limit, characters_max=characters_max
        )

    async def has_leased(self) -> bool:
        return await unembedded.has_leased(self._tenant)

    async def store_vectors(
        self, identity: str, embedded: Sequence[Embedded], *, owner: str
    ) -> int:
        return await unembedded.store_vectors(self._tenant, identity, embedded, owner=owner)

    async def renew_unembedded(
        self, keys: Sequence[MessageKey], *, owner: str, lease: timedelta
    ) -> None:
        await unembedded.renew_unembedded(self._tenant, keys, owner=owner, lease=lease)

    async def postpone_unembedded(
        self, keys: Sequence[MessageKey], *, owner: str, delay: timedelta
    ) -> None:
        await unembedded.postpone_unembedded(self._tenant, keys, owner=owner, delay=delay)

    async def measure_unmoved(self, identity: str, *, passage_characters: int) -> UnmovedCount:
        return await reembedding.measure_unmoved(
            self._tenant, identity, passage_characters=passage_characters
        )

    async def begin_reembedding(self, identity: str) -> ReembeddingBegun:
        return await reembedding.begin_reembedding(self._tenant, identity)

    async def read_unmoved(
        self,
        identity: str,
        *,
        after: MessageKey | None,
        limit: int,
        characters_max: int,
        without: Collection[MessageKey] = (),
    ) -> UnmovedBatch:
        return await reembedding.read_unmoved(
            self._tenant,
            identity,
            after=after,
            limit=limit,
            characters_max=characters_max,
            without=without,
        )

    async def store_next_vectors(self, identity: str, embedded: Sequence[Embedded]) -> int:
        return await reembedding.store_next_vectors(self._tenant, identity, embedded)

    async def finish_reembedding(
        self, identity: str, *, without: Collection[MessageKey] = ()
    ) -> bool:
        return await reembedding.finish_reembedding(self._tenant, identity, without=without)

    async def drop_old_vectors(self) -> int:
        from engram.storage.vectors import old_vectors

        return await old_vectors.drop_old_vectors(self._tenant)

    async def tend_vectors(self) -> int:
        return await self._vectors.tend(self._tenant)

    async def train_dictionary(self) -> bool:
        return await training.train(self._tenant)
