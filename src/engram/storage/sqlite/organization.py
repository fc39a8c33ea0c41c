"""The `OrganizationStore` of one organisation's SQLite file: each method one transaction, or a few
short ones where the work is long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta

from engram.clock import Clock, IdSource
from engram.model.access import AuditEntry, Quota
from engram.model.conversation import (
    AppendReceipt,
    AppendRequest,
    Conversation,
    ConversationDraft,
    ConversationPage,
    ConversationQuery,
    DeletionReceipt,
    Message,
    MessagePage,
    MessageQuery,
)
from engram.model.ids import ConversationId, ConversationKey, MessageKey, OrganizationId
from engram.model.search import SearchFilters, WordMatches
from engram.model.status import BackfillReport, Counters, Coverage, Finding, Job
from engram.storage.sqlite import (
    append,
    audit,
    backfill,
    counting,
    creation,
    deletion,
    jobs,
    listing,
    reading,
    rebuild,
    repair,
    rows,
    training,
    verification,
    words,
)
from engram.storage.sqlite.file import SqliteFile
from engram.storage.sqlite.owner import FileOwner
from engram.storage.sqlite.tenant import Tenant


class SqliteOrganizationStore:
    """Everything of one organisation, in its own file."""

    def __init__(self, file: SqliteFile, owner: FileOwner, *, clock: Clock, ids: IdSource) -> None:
        self._file = file
        self._tenant = Tenant(number=owner.number, id=owner.id, file=file, clock=clock, ids=ids)

    @property
    def organization_id(self) -> OrganizationId:
        return self._tenant.id

    async def prepare(self) -> None:
        """Make a new file ready, and bring an old one's words to this program's analyser."""
        await rebuild.prepare_upkeep(self._tenant)

    async def create_conversation(self, draft: ConversationDraft, *, actor: str) -> ConversationId:
        return await self._file.write(
            lambda connection: creation.create_conversation(
                connection, self._tenant, draft, actor=actor
            )
        )

    async def append_messages(
        self, request: AppendRequest, *, actor: str, quota: Quota
    ) -> AppendReceipt:
        return await append.append_messages(self._tenant, request, actor=actor, quota=quota)

    async def get_conversation(self, query: MessageQuery) -> MessagePage:
        return await self._file.read(
            lambda connection: reading.get_conversation(connection, self._tenant, query)
        )

    async def list_conversations(self, query: ConversationQuery) -> ConversationPage:
        return await self._file.read(
            lambda connection: listing.list_conversations(connection, self._tenant, query)
        )

    async def delete_conversation(
        self, conversation_id: ConversationId, *, actor: str
    ) -> DeletionReceipt:
        return await deletion.delete_conversation(self._tenant, conversation_id, actor=actor)

    async def search_words(
        self, terms: Sequence[str], *, filters: SearchFilters, limit: int
    ) -> WordMatches:
        return await self._file.read(
            lambda connection: words.search_words(
                connection,
                terms,
                organization_id=self._tenant.number,
                filters=filters,
                limit=limit,
            )
        )

    async def load_messages(self, keys: Sequence[MessageKey]) -> Mapping[MessageKey, Message]:
        return await self._file.read(
            lambda connection: rows.read_messages(connection, self._tenant, keys)
        )

    async def load_conversations(
        self, keys: Sequence[ConversationKey]
    ) -> Mapping[ConversationKey, Conversation]:
        return await self._file.read(
            lambda connection: rows.read_conversations(connection, self._tenant, keys)
        )

    async def load_range(
        self, conversation: ConversationKey, *, start: int, end: int
    ) -> tuple[Message, ...]:
        return await self._file.read(
            lambda connection: reading.load_range(
                connection, self._tenant, conversation, start=start, end=end
            )
        )

    async def counters(self) -> Counters:
        return await self._file.read(
            lambda connection: counting.read_counters(connection, self._tenant)
        )

    async def coverage(self) -> Coverage:
        return await self._file.read(
            lambda connection: counting.count_coverage(connection, self._tenant)
        )

    async def list_audit(self, *, limit: int, before: datetime | None) -> tuple[AuditEntry, ...]:
        return await audit.list_audit(self._tenant, limit=limit, before=before)

    async def compress_backfill(self, *, batch_size: int) -> BackfillReport:
        return await backfill.compress_backfill(self._tenant, batch_size=batch_size)

    async def reindex(self) -> int:
        return await rebuild.rebuild_words(self._tenant)

    def verify(self) -> AsyncIterator[Finding]:
        return verification.verify(self._tenant)

    async def repair(self) -> int:
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

    async def train_dictionary(self) -> bool:
        return await training.train(self._tenant)
