"""The `OrganizationStore` of one organisation's tables: each method one transaction, or a few
short ones where the work is long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

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
from engram.model.search import KINDS, Candidates, Choice, Kind, Loaded, SearchFilters
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
from engram.storage.rows.database import Connection
from engram.storage.search.found import load_found
from engram.storage.search.found_memories import count_moments_passed
from engram.storage.search.state import read_search_state
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors import reembedding, unembedded
from engram.storage.vectors.index import VectorIndex
from engram.storage.words import rebuild

if TYPE_CHECKING:
    from engram.storage.documents.store import DocumentStore
    from engram.storage.memories.store import MemoryStore

ChoiceT = TypeVar("ChoiceT", bound=Choice)


class OrganizationStore:
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
        """The organisation this store was opened for."""
        return self._tenant.id

    @property
    def memories(self) -> MemoryStore:
        """Its memories."""
        return self._memories

    @cached_property
    def _memories(self) -> MemoryStore:
        from engram.storage.memories.store import MemoryStore

        return MemoryStore(self._tenant)

    @property
    def documents(self) -> DocumentStore:
        """Its documents: the bodies that some of its memories own."""
        return self._documents

    @cached_property
    def _documents(self) -> DocumentStore:
        from engram.storage.documents.store import DocumentStore

        return DocumentStore(self._tenant)

    async def prepare(self) -> None:
        """Make a new file ready, and bring an old one's words to this program's analyser."""
        await rebuild.prepare_upkeep(self._tenant)

    async def create_conversation(
        self, draft: ConversationDraft, *, actor: str, quota: Quota = UNBOUNDED
    ) -> ConversationId:
        """Store an empty conversation and its audit row.

        Raises:
            QuotaExceededError: it does not fit the quota any more.
        """
        from engram.storage.conversations import creation

        return await self._tenant.write(
            lambda tx: creation.create_conversation(tx, draft, actor=actor, quota=quota)
        )

    async def append_messages(
        self, request: AppendRequest, *, actor: str, quota: Quota, indexing: Indexing = WORDS_ALONE
    ) -> AppendReceipt:
        """Store the messages with all that is derived from them and an audit row, or nothing.

        That is windows, word rows, the given vectors, and a place in the queue for deep vectors
        if `indexing` asks for it or the organisation has a deep embedder already. Vectors of
        another identity than the organisation's are not stored; the messages then wait.
        Sequences continue the conversation's without gap or duplicate, also between processes.
        Without a conversation id the organisation's default conversation takes them and is made
        when it is missing. The same request under an idempotency key of the last 24 hours returns
        the first receipt, marked `repeated`, and stores nothing.

        Raises:
            IdempotencyConflictError: the key came with another request.
            NotFoundError: there is no such conversation here.
            QuotaExceededError: the messages do not fit the quota any more.
            LimitExceededError: the conversation would pass `CONVERSATION_MESSAGES_MAX`.
            InvalidVectorError: a vector has other dimensions than its identity says.
        """
        from engram.storage.conversations import append

        return await append.append_messages(
            self._tenant, request, actor=actor, quota=quota, indexing=indexing
        )

    async def find_title(self, conversation_id: ConversationId | None) -> str | None:
        """Return the title of a conversation; None if it has none or the id is unknown.

        Without an id it is that of the default conversation.
        """
        from engram.storage.conversations import append

        return await append.find_title(self._tenant, conversation_id)

    async def get_conversation(self, query: MessageQuery) -> MessagePage:
        """Return a conversation and one page of its messages, in order of sequence.

        Raises:
            NotFoundError: there is no such conversation here.
            StoreCorruptError: a message's bytes do not match its hash.
        """
        return await self._tenant.read(lambda tx: reading.get_conversation(tx, query))

    async def list_conversations(self, query: ConversationQuery) -> ConversationPage:
        """Return a page of conversations under all the query's filters.

        Those that are equal come in the order in which they were begun, or its reverse.
        """
        from engram.storage.conversations import listing

        return await self._tenant.read(lambda tx: listing.list_conversations(tx, query))

    async def delete_conversation(
        self, conversation_id: ConversationId, *, actor: str
    ) -> DeletionReceipt:
        """Remove a conversation from every table and index, and write its audit row.

        Raises:
            NotFoundError: there is no such conversation here.
        """
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
        """Return what `choose` makes of the candidates, and what it wants to be read.

        The candidates are the best `limit` messages of each leg, united, each with every leg's raw
        value. `choose` is called once, in a thread of the store, and asks the store for nothing;
        what it wants is read in the same snapshot, as far as it exists.

        The text of a memory is the only message of a conversation of its own. Memories that have
        expired, do not hold yet or hold no more at `now` (microseconds since 1970) are not found.

        `terms` are analysed query terms (`engram.text.analyse`), repeats counted. Filters hold
        before ranking. Statistics are the whole organisation's and nobody else's. An unknown
        conversation in the filters is an error, not an empty answer. Every vector committed
        before the call is seen, whichever process stored it. A message counts with its deep
        vectors if it has any, else with its instant ones. Vectors of another identity than the
        query's are not compared: their tier is named in `mismatched`. Vectors of a query that
        has only its identity are not compared either: if there are any, their tier is named in
        `unasked`.

        Raises:
            NotFoundError: the filters name a conversation that is not here.
            InvalidVectorError: a query vector has other dimensions than its identity's vectors.
            StoreCorruptError: the bytes of a message do not match its hash.
        """
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
        """Return what stands for all that a search at `now` can see.

        It is never the same after a committed change, whichever process made it, nor after the
        time of a memory has begun or ended. Without any of that it may change as well, but does so
        rarely. Revisions of one process can be compared, and only with `==`.
        """
        moment = to_microseconds(now)
        return await self._tenant.read(
            lambda tx: (self._revision_of(tx.connection), count_moments_passed(tx, now=moment))
        )

    async def load_range(
        self, conversation: ConversationKey, *, start: int, end: int
    ) -> tuple[Message, ...]:
        """Return the messages `start` to `end` of a conversation, in order."""
        return await self._tenant.read(
            lambda tx: reading.load_range(tx, conversation, start=start, end=end)
        )

    async def counters(self) -> Counters:
        """Return the maintained counters."""
        return await self._tenant.read(counting.read_counters)

    async def add_file_bytes(self, added: int, *, quota: Quota) -> None:
        """Count bytes that are about to be written to the organisation's files, or were removed.

        Raises:
            QuotaExceededError: they do not fit the quota any more; nothing is counted.
        """
        await self._tenant.write(
            lambda tx: counting.grow_counters(tx, quota=quota, file_bytes=added)
        )

    async def put_file_bytes(self, total: int) -> None:
        """Replace the counted bytes of the organisation's files by what was measured."""
        await self._tenant.write(lambda tx: counting.put_file_bytes(tx, total))

    async def coverage(self) -> Coverage:
        """Count what the indexes of words and vectors hold against what they should hold."""
        return await self._tenant.read(counting.count_coverage)

    async def list_audit(self, *, limit: int, before: datetime | None) -> tuple[AuditEntry, ...]:
        """Return this organisation's newest audit rows, newest first, older than `before`."""
        return await audit.list_audit(self._tenant, limit=limit, before=before)

    async def compress_backfill(self, *, batch_size: int) -> BackfillReport:
        """Bring up to `batch_size` rows of legacy encoding to the present one; 0 only counts them."""
        from engram.storage.content import backfill

        return await backfill.compress_backfill(self._tenant, batch_size=batch_size)

    async def reindex(self) -> int:
        """Drop and rebuild windows and word indexes from the messages; return the messages read."""
        return await rebuild.rebuild_words(self._tenant)

    def verify(self) -> AsyncIterator[Finding]:
        """Check the file and all in it: hashes, counters, memories, documents, indexes and jobs.

        A check that finds nothing yields nothing. Memory stays bounded for any size of store.
        """
        from engram.storage.checks import verification

        return verification.verify(self._tenant)

    async def repair(self) -> int:
        """Rebuild what can be derived (indexes, windows, counters); return what was rebuilt.

        Vectors that are wrong are removed, and their messages wait for new ones.
        """
        from engram.storage.checks import repair

        return await repair.repair(self._tenant)

    async def enqueue_job(self, kind: str, subject: str) -> None:
        """Add a job unless one of that kind and subject waits already."""
        await jobs.enqueue_job(self._tenant, kind, subject)

    async def claim_jobs(
        self, kinds: Sequence[str], *, owner: str, lease: timedelta, limit: int
    ) -> tuple[Job, ...]:
        """Lease up to `limit` waiting or expired jobs to `owner`, newest first.

        It looks before it writes: asking when there is no work costs a read.
        """
        return await jobs.claim_jobs(self._tenant, kinds, owner=owner, lease=lease, limit=limit)

    async def finish_job(self, job: Job, *, owner: str) -> bool:
        """Remove a job still leased to `owner`; False when the lease was lost."""
        return await jobs.finish_job(self._tenant, job, owner=owner)

    async def postpone_job(self, job: Job, *, owner: str, delay: timedelta) -> bool:
        """Give a failed job back, to be claimed after `delay`; False when the lease was lost."""
        return await jobs.postpone_job(self._tenant, job, owner=owner, delay=delay)

    async def identities(self) -> StoredIdentities:
        """Return whose vectors the organisation holds."""
        return await unembedded.identities(self._tenant)

    async def adopt_embedder(self, identity: str) -> bool:
        """Make an embedder the deep one if there is none; return True if it is now.

        With the first one every message stored so far begins to wait for its vectors.
        """
        return await unembedded.adopt_embedder(self._tenant, identity)

    async def claim_unembedded(
        self, *, owner: str, lease: timedelta, limit: int, characters_max: int
    ) -> tuple[Unembedded, ...]:
        """Lease messages that wait for deep vectors, the newest first.

        At least one if any can be had, at most `limit`, and not much more text than
        `characters_max`. It looks before it writes. A message that cannot be read is left waiting.
        """
        return await unembedded.claim_unembedded(
            self._tenant, owner=owner, lease=lease, limit=limit, characters_max=characters_max
        )

    async def has_leased(self) -> bool:
        """Return True if any process holds messages that wait for deep vectors."""
        return await unembedded.has_leased(self._tenant)

    async def store_vectors(
        self, identity: str, embedded: Sequence[Embedded], *, owner: str
    ) -> int:
        """Store deep vectors in the place of instant ones; return of how many messages.

        Messages whose lease `owner` has lost, that were deleted, or for which another embedder is
        the deep one by now, are passed over.

        Raises:
            InvalidVectorError: a vector has other dimensions than the identity says.
        """
        return await unembedded.store_vectors(self._tenant, identity, embedded, owner=owner)

    async def renew_unembedded(
        self, keys: Sequence[MessageKey], *, owner: str, lease: timedelta
    ) -> None:
        """Hold messages for longer that are still leased to `owner`."""
        await unembedded.renew_unembedded(self._tenant, keys, owner=owner, lease=lease)

    async def postpone_unembedded(
        self, keys: Sequence[MessageKey], *, owner: str, delay: timedelta
    ) -> None:
        """Give messages back that are still leased to `owner`, to be claimed after `delay`."""
        await unembedded.postpone_unembedded(self._tenant, keys, owner=owner, delay=delay)

    async def measure_unmoved(self, identity: str, *, passage_characters: int) -> UnmovedCount:
        """Count the messages without vectors of an embedder; nothing is changed.

        Passages are estimated as `passage_characters` long.
        """
        return await reembedding.measure_unmoved(
            self._tenant, identity, passage_characters=passage_characters
        )

    async def begin_reembedding(self, identity: str) -> ReembeddingBegun:
        """Prepare for vectors of an embedder that shall take the place of the deep ones.

        Begun again for the same embedder it goes on with what is there, also beside another process
        that does. Vectors half built for another embedder are given up. Without a deep embedder
        this becomes the deep one at once, and every message waits for its vectors.
        """
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
        """Return messages without vectors of the next embedder, in order of keys after `after`.

        None for `after` begins somewhere among them, so that processes which work together do not
        do the same. At least one if any is left past there that is not of `without`, at most
        `limit`, and not much more text than `characters_max`. Nothing is left once the embedder
        has taken over.

        Raises:
            ConflictError: another embedder is the next one by now.
        """
        return await reembedding.read_unmoved(
            self._tenant,
            identity,
            after=after,
            limit=limit,
            characters_max=characters_max,
            without=without,
        )

    async def store_next_vectors(self, identity: str, embedded: Sequence[Embedded]) -> int:
        """Store vectors of the next embedder; return of how many messages.

        They are not searched yet. Messages that were deleted or have such vectors already are
        passed over, and all are once the embedder has taken over.

        Raises:
            ConflictError: another embedder is the next one by now.
            InvalidVectorError: a vector has other dimensions than the identity says.
        """
        return await reembedding.store_next_vectors(self._tenant, identity, embedded)

    async def finish_reembedding(
        self, identity: str, *, without: Collection[MessageKey] = ()
    ) -> bool:
        """Make the next embedder the deep one; False when messages without its vectors are left.

        Those of `without` do not count: they wait for their vectors from then on, and no other
        message does. Every process searches the new vectors from its next search on. The old deep
        vectors, and the instant ones of all other messages, are searched no more and are left to
        `drop_old_vectors`. True if the embedder has taken over already.

        Raises:
            ConflictError: another embedder is the next one by now.
        """
        return await reembedding.finish_reembedding(self._tenant, identity, without=without)

    async def drop_old_vectors(self) -> int:
        """Remove vectors that were replaced or given up; return how many."""
        from engram.storage.vectors import old_vectors

        return await old_vectors.drop_old_vectors(self._tenant)

    async def tend_vectors(self) -> int:
        """Bring an index that the database keeps of a big organisation's vectors up to date.

        Returns how many vectors came to it. It looks before it writes, and is safe beside other
        processes that do the same.
        """
        return await self._vectors.tend(self._tenant)

    async def train_dictionary(self) -> bool:
        """Train a compression dictionary for new messages; False when there is too little text."""
        return await training.train(self._tenant)
