"""The store of one organisation, put together from the rooms.

Each method is one transaction, or a few short ones where the work is long.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from engram.clock import to_microseconds
from engram.model.access import AuditEntry, Quota
from engram.model.ids import (
    MemoryId,
    MessageKey,
    OrganizationId,
)
from engram.model.reminder import Delivery, DeliveryDay
from engram.model.search import KINDS, Candidates, Choice, Kind, Loaded, SearchFilters
from engram.model.status import BackfillReport, Counters, Coverage, Finding, WorkKind
from engram.model.vectors import (
    Embedded,
    QueryVector,
    ReembeddingBegun,
    StoredIdentities,
    Unembedded,
    UnmovedBatch,
    UnmovedCount,
)
from engram.storage.bookkeeping import audit, deliveries
from engram.storage.bookkeeping import counters as counting
from engram.storage.content import compression
from engram.storage.conversations.capturing import SessionCapture
from engram.storage.conversations.editing import ConversationEditor
from engram.storage.conversations.leaving import ConversationRemover
from engram.storage.conversations.reading import ConversationReader
from engram.storage.conversations.writing import ConversationWriter
from engram.storage.due import settle_due
from engram.storage.queue import JobQueue
from engram.storage.rows.database import Connection
from engram.storage.search.found import (
    count_times_passed,
    expect_search_state,
    load_found,
    read_search_state,
)
from engram.storage.tenant import Tenant, Transaction
from engram.storage.vectors import reembedding, sentences, unembedded
from engram.storage.vectors.index import VectorIndex
from engram.storage.words import rebuild
from engram.storage.words import rows as word_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engram.model.maintenance import MemoriesChecked
    from engram.storage.checks.scrubbing import Scrubbing
    from engram.storage.documents.store import DocumentStore
    from engram.storage.erasing.store import ErasureStore
    from engram.storage.memories.store import MemoryStore
    from engram.storage.projects import ProjectStore
    from engram.storage.retention import RetentionStore
    from engram.storage.search.overview import OverviewCandidate, OverviewQuery
    from engram.storage.trash.store import TrashStore

ChoiceT = TypeVar("ChoiceT", bound=Choice)


class OrganizationStore(
    ConversationReader,
    ConversationWriter,
    ConversationEditor,
    ConversationRemover,
    SessionCapture,
    JobQueue,
):
    """Everything of one organisation."""

    def __init__(
        self, tenant: Tenant, *, vectors: VectorIndex, revision_of: Callable[[Connection], Hashable]
    ) -> None:
        super().__init__(tenant)
        self._vectors = vectors
        self._revision_of = revision_of

    @property
    def organization_id(self) -> OrganizationId:
        """The organisation this store was opened for."""
        return self._tenant.id

    @property
    def tenant(self) -> Tenant:
        """The organisation's database, for transfers of whole rows."""
        return self._tenant

    @cached_property
    def memories(self) -> MemoryStore:
        """Its memories."""
        from engram.storage.memories.store import MemoryStore

        return MemoryStore(self._tenant)

    @cached_property
    def documents(self) -> DocumentStore:
        """Its documents: the bodies that some of its memories own."""
        from engram.storage.documents.store import DocumentStore

        return DocumentStore(self._tenant)

    @cached_property
    def trash(self) -> TrashStore:
        """What was deleted and can be restored."""
        from engram.storage.trash.store import TrashStore

        return TrashStore(self._tenant)

    @cached_property
    def erasing(self) -> ErasureStore:
        """The erasures of what it has stored."""
        from engram.storage.erasing.store import ErasureStore

        return ErasureStore(self._tenant, memories=self.memories, trash=self.trash)

    @cached_property
    def retention(self) -> RetentionStore:
        """Its rules of retention and legal holds."""
        from engram.storage.retention import RetentionStore

        return RetentionStore(self._tenant)

    @cached_property
    def projects(self) -> ProjectStore:
        """What is said of its projects, and acts that can be taken back."""
        from engram.storage.projects import ProjectStore

        return ProjectStore(self._tenant)

    @cached_property
    def scrubbing(self) -> Scrubbing:
        """The passes over everything it has stored."""
        from engram.storage.checks.scrubbing import Scrubbing

        return Scrubbing(self._tenant)

    async def prepare(self) -> None:
        """Prepare a new store, and rebuild the word index of an older analyser."""
        await rebuild.prepare_upkeep(self._tenant)

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
        best: Callable[[Candidates], NDArray[np.int64]] | None = None,
    ) -> tuple[ChoiceT, Loaded]:
        """Return what `choose` makes of the candidates, and what it wants to be read.

        The candidates are the best `limit` messages of each leg, united, each with every leg's raw
        value. `choose` is called once, in a thread of the store, and asks the store for nothing;
        what it wants is read in the same snapshot, as far as it exists.

        The text of a memory is the only message of a conversation of its own. Memories that have
        expired, or are not valid yet or any more at `now` (microseconds since 1970) are not found.

        `terms` are analysed query terms (`engram.text.analyse`), repeats counted. Filters hold
        before ranking. Statistics are those of the whole organisation. An unknown
        conversation in the filters is an error, not an empty answer. Every vector committed
        before the call is seen, whichever process stored it. A message counts with its deep
        vectors if it has any, else with its instant ones. Vectors of another identity than the
        query's are not compared: their tier is named in `mismatched`. Vectors of a query that
        has only its identity are not compared either: if there are any, their tier is named in
        `unasked`. If the query has tokens, they are compared with those of the candidates in the rows
        that `best` returns.

        Raises:
            NotFoundError: the filters name a conversation that is not here.
            InvalidVectorError: a query vector has other dimensions than its identity's vectors.
            StoreCorruptError: the bytes of a message do not match its hash.
        """
        from engram.storage.search.candidates import expect_candidates, find_candidates
        from engram.storage.search.token_match import compare_tokens

        def find_and_load(tx: Transaction) -> tuple[ChoiceT, Loaded]:
            expect_search_state(tx)
            expect_candidates(
                tx,
                terms,
                index=self._vectors,
                vectors=vectors,
                filters=filters,
                kinds=kinds,
                now=now,
            )
            state = read_search_state(tx)
            candidates = find_candidates(
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
            if best is not None:
                candidates = compare_tokens(tx, candidates, vectors=vectors, best=best)
            choice = choose(candidates)
            return choice, load_found(tx, choice, state=state, vectors=vectors)

        return await self._tenant.read(find_and_load)

    async def overview(
        self, query: OverviewQuery, *, choose: Callable[[Sequence[OverviewCandidate]], ChoiceT]
    ) -> tuple[ChoiceT, Loaded]:
        """Return what `choose` makes of the candidates of an overview, and what it wants to be read.

        Reads a bounded number of rows by indexes, whatever is stored; all in one snapshot.

        Raises:
            StoreCorruptError: the bytes of a text do not match its hash.
        """
        from engram.storage.search.overview import read_overview

        def find_and_load(tx: Transaction) -> tuple[ChoiceT, Loaded]:
            choice = choose(read_overview(tx, query))
            state = read_search_state(tx)
            return choice, load_found(tx, choice, state=state)

        return await self._tenant.read(find_and_load)

    async def revision(self, *, now: datetime) -> Hashable:
        """Return a token for everything that a search at `now` can see.

        It changes with every committed change of any process, and when the validity of a memory
        begins or ends; rarely, it changes without either. Compare tokens of one process, with `==`.
        """
        moment = to_microseconds(now)
        return await self._tenant.read(
            lambda tx: (self._revision_of(tx.connection), count_times_passed(tx, now=moment))
        )

    async def counters(self) -> Counters:
        """Return the maintained counters."""
        return await self._tenant.read(counting.read_counters)

    async def add_file_bytes(self, added: int, *, quota: Quota) -> None:
        """Count bytes about to be written to the organisation's files, or removed from them.

        Raises:
            QuotaExceededError: they exceed the quota; nothing is counted.
        """
        await self._tenant.write(
            lambda tx: counting.grow_counters(tx, quota=quota, file_bytes=added)
        )

    async def put_file_bytes(self, total: int) -> None:
        """Set the counted bytes of the organisation's files to what was measured."""
        await self._tenant.write(lambda tx: counting.put_file_bytes(tx, total))

    async def coverage(self) -> Coverage:
        """Count the messages, and those that the word and vector indexes contain."""
        return await self._tenant.read(counting.count_coverage)

    async def list_audit(self, *, limit: int, before: datetime | None) -> tuple[AuditEntry, ...]:
        """Return this organisation's newest audit rows, newest first, older than `before`."""
        return await audit.list_audit(self._tenant, limit=limit, before=before)

    async def record_deliveries(self, *delivered: Delivery) -> None:
        """Note what agents were given; the oldest notes beyond a bound are dropped."""
        await deliveries.record_deliveries(self._tenant, delivered)

    async def list_deliveries(
        self,
        *,
        limit: int,
        before: datetime | None = None,
        client: str | None = None,
        events: Iterable[str] | None = None,
    ) -> tuple[Delivery, ...]:
        """Return what agents were given last, newest first: older than `before`, to a client, after events."""
        return await deliveries.list_deliveries(
            self._tenant, limit=limit, before=before, client=client, events=events
        )

    async def delivered_by_day(self, *, since: date) -> tuple[DeliveryDay, ...]:
        """Return how much agents were given on each day since then, as far as the log goes."""
        return await deliveries.delivered_by_day(self._tenant, since=since)

    async def compress_backfill(self, *, batch_size: int) -> BackfillReport:
        """Re-encode up to `batch_size` rows of legacy encoding; 0 only counts them."""
        from engram.storage.content import compression

        return await compression.compress_backfill(self._tenant, batch_size=batch_size)

    async def reindex(self) -> int:
        """Drop and rebuild windows and word indexes from the messages; return the messages read."""
        return await rebuild.rebuild_words(self._tenant)

    def verify(self) -> AsyncIterator[Finding]:
        """Check the file and all in it: hashes, counters, memories, documents, indexes and jobs.

        A check that finds nothing yields nothing. Memory stays bounded for any size of store.
        """
        from engram.storage.checks import verification

        return verification.verify(self._tenant)

    async def verify_memories(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> MemoriesChecked:
        """Check memories and their former versions by their hashes, in the order of storing.

        `after` may be the id of a memory whose text cannot be read.
        """
        from engram.storage.checks.memories import verify_texts

        return await self._tenant.read(
            lambda tx: verify_texts(tx, project, after=after, limit=limit)
        )

    async def repair(self) -> int:
        """Rebuild what can be derived (indexes, windows, counters); return what was rebuilt.

        Vectors that are wrong are removed, and their messages wait for new ones.
        """
        from engram.storage.checks import repair

        return await repair.repair(self._tenant)

    async def identities(self) -> StoredIdentities:
        """Return the embedders whose vectors the organisation has."""
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
        `characters_max`. It reads before it writes. A message that cannot be read is left waiting.
        """
        return await unembedded.claim_unembedded(
            self._tenant, owner=owner, lease=lease, limit=limit, characters_max=characters_max
        )

    async def has_leased(self) -> bool:
        """Return True if any process has leased messages that wait for deep vectors."""
        return await unembedded.has_leased(self._tenant)

    async def oldest_unembedded(self) -> datetime | None:
        """Return when the oldest message that waits for deep vectors was stored; None if none waits.

        Of a long queue only the ends are read, which have the oldest unless a backlog, chunks of
        documents and messages wait together: then it is at least as old as this.
        """
        return await unembedded.oldest_unembedded(self._tenant)

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
        """Extend the leases of messages that `owner` still holds."""
        await unembedded.renew_unembedded(self._tenant, keys, owner=owner, lease=lease)

    async def postpone_unembedded(
        self, keys: Sequence[MessageKey], *, owner: str, delay: timedelta
    ) -> None:
        """Release messages still leased to `owner`, to be claimed after `delay`."""
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

    async def read_undivided(
        self, identity: str, *, after: MessageKey, limit: int, characters_max: int
    ) -> UnmovedBatch:
        """Return messages of conversations that have one vector of the deep embedder, after a key.

        Only those of a length at which sentences may have vectors too. At least one if any is left, at
        most `limit`, and not much more text than `characters_max`; none if the embedder is another.
        """
        return await sentences.read_undivided(
            self._tenant, identity, after=after, limit=limit, characters_max=characters_max
        )

    async def read_without_tokens(
        self, identity: str, *, after: MessageKey, limit: int, characters_max: int
    ) -> UnmovedBatch:
        """Return messages of conversations with a deep vector and none of their tokens, after a key.

        Bounded like `read_undivided`; none if the deep embedder is another.
        """
        return await sentences.read_without_tokens(
            self._tenant, identity, after=after, limit=limit, characters_max=characters_max
        )

    async def add_missing_vectors(self, identity: str, embedded: Sequence[Embedded]) -> int:
        """Store deep vectors of passages and tokens that have none yet; return of how many messages.

        Messages that were deleted, or have no deep vector at all, are passed over, and all are if
        the deep embedder is another.

        Raises:
            InvalidVectorError: a vector has other dimensions than the identity says.
        """
        return await sentences.add_missing_vectors(self._tenant, identity, embedded)

    async def drop_old_vectors(self) -> int:
        """Remove vectors that were replaced or given up; return how many."""
        return await reembedding.drop_old_vectors(self._tenant)

    async def tend_vectors(self) -> int:
        """Bring an index that the database keeps of a big organisation's vectors up to date.

        Returns how many vectors came to it. It looks before it writes, and is safe beside other
        processes that do the same.
        """
        return await self._vectors.tend(self._tenant)

    async def merge_words(self) -> None:
        """Merge what was added to the word index last, where searches find it fastest."""
        await word_rows.merge_and_pack(self._tenant)

    async def settle_due(self, kind: WorkKind, *, is_stuck: bool = False) -> bool:
        """Compute when there is work of a kind next, after what was due has been done.

        Returns False if some can be claimed now; with `is_stuck` it is left alone for a while.
        """
        return await settle_due(self._tenant, kind, is_stuck=is_stuck)

    async def train_dictionary(self) -> bool:
        """Train a compression dictionary for new messages; False when there is too little text."""
        return await compression.train(self._tenant)
