"""What Engram asks of a store.

Two backends and one contract suite depend on these words. Every method is one round trip: a write
is one durable transaction, a read sees one consistent snapshot. All errors are of `engram.errors`;
a driver's exception never leaves its backend.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol, TypeVar

from engram.model.access import (
    UNBOUNDED,
    ApiKey,
    AuditEntry,
    AuditNote,
    KeyDraft,
    KeyOwner,
    NewKey,
    Organization,
    OrganizationChange,
    OrganizationDraft,
    Quota,
    RotatedKey,
)
from engram.model.changes import Change
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
from engram.model.ids import (
    ConversationId,
    ConversationKey,
    KeyId,
    MessageKey,
    OrganizationId,
)
from engram.model.search import KINDS, Candidates, Kind, Loaded, SearchFilters
from engram.model.status import BackfillReport, Counters, Coverage, Finding, Job, UsageDay
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

if TYPE_CHECKING:
    # Loaded by those who use them: not every process has to do with memories and documents.
    from engram.storage.document_ports import DocumentStore
    from engram.storage.memory_ports import MemoryStore


class Choice(Protocol):
    """What of a search's candidates is to be read."""

    @property
    def messages(self) -> Sequence[MessageKey]:
        """The messages to be read with their texts."""
        ...

    @property
    def conversations(self) -> Sequence[ConversationKey]:
        """The conversations to be read, without their messages."""
        ...


ChoiceT = TypeVar("ChoiceT", bound=Choice)


class OrganizationStore(Protocol):
    """Everything of one organisation. It is opened for that organisation, so no method takes one."""

    @property
    def organization_id(self) -> OrganizationId:
        """The organisation this store was opened for."""
        ...

    @property
    def memories(self) -> MemoryStore:
        """Its memories."""
        ...

    @property
    def documents(self) -> DocumentStore:
        """Its documents: the bodies that some of its memories own."""
        ...

    async def create_conversation(
        self, draft: ConversationDraft, *, actor: str, quota: Quota = UNBOUNDED
    ) -> ConversationId:
        """Store an empty conversation and its audit row.

        Raises:
            QuotaExceededError: it does not fit the quota any more.
        """
        ...

    async def append_messages(
        self,
        request: AppendRequest,
        *,
        actor: str,
        quota: Quota,
        indexing: Indexing = WORDS_ALONE,
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
        ...

    async def find_title(self, conversation_id: ConversationId | None) -> str | None:
        """Return the title of a conversation; None without one, or where there is none of that id.

        Without an id it is that of the default conversation.
        """
        ...

    async def get_conversation(self, query: MessageQuery) -> MessagePage:
        """Return a conversation and one page of its messages, in order of sequence.

        Raises:
            NotFoundError: there is no such conversation here.
            StoreCorruptError: a message's bytes do not match its hash.
        """
        ...

    async def list_conversations(self, query: ConversationQuery) -> ConversationPage:
        """Return a page of conversations under all the query's filters.

        Those that are equal come in the order in which they were begun, or its reverse.
        """
        ...

    async def delete_conversation(
        self, conversation_id: ConversationId, *, actor: str
    ) -> DeletionReceipt:
        """Remove a conversation from every table and index, and write its audit row.

        Raises:
            NotFoundError: there is no such conversation here.
        """
        ...

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
        ...

    async def revision(self, *, now: datetime) -> Hashable:
        """Return what stands for all that a search at `now` can see.

        It is never the same after a committed change, whichever process made it, nor after the
        time of a memory has begun or ended. Without any of that it may change as well, but does so
        rarely. Revisions of one process can be compared, and only with `==`.
        """
        ...

    async def load_range(
        self, conversation: ConversationKey, *, start: int, end: int
    ) -> tuple[Message, ...]:
        """Return the messages `start` to `end` of a conversation, in order."""
        ...

    async def counters(self) -> Counters:
        """Return the maintained counters."""
        ...

    async def add_file_bytes(self, added: int, *, quota: Quota) -> None:
        """Count bytes that are about to be written to the organisation's files, or were removed.

        Raises:
            QuotaExceededError: they do not fit the quota any more; nothing is counted.
        """
        ...

    async def put_file_bytes(self, total: int) -> None:
        """Replace the counted bytes of the organisation's files by what was measured."""
        ...

    async def coverage(self) -> Coverage:
        """Count what the indexes of words and vectors hold against what they should hold."""
        ...

    async def list_audit(self, *, limit: int, before: datetime | None) -> tuple[AuditEntry, ...]:
        """Return this organisation's newest audit rows, newest first, older than `before`."""
        ...

    async def compress_backfill(self, *, batch_size: int) -> BackfillReport:
        """Bring up to `batch_size` rows of legacy encoding to the present one; 0 only counts them."""
        ...

    async def reindex(self) -> int:
        """Drop and rebuild windows and word indexes from the messages; return the messages read."""
        ...

    def verify(self) -> AsyncIterator[Finding]:
        """Check the file and all in it: hashes, counters, memories, documents, indexes and jobs.

        A check that finds nothing yields nothing. Memory stays bounded for any size of store.
        """
        ...

    async def repair(self) -> int:
        """Rebuild what can be derived (indexes, windows, counters); return what was rebuilt.

        Vectors that are wrong are removed, and their messages wait for new ones.
        """
        ...

    async def enqueue_job(self, kind: str, subject: str) -> None:
        """Add a job unless one of that kind and subject waits already."""
        ...

    async def claim_jobs(
        self, kinds: Sequence[str], *, owner: str, lease: timedelta, limit: int
    ) -> tuple[Job, ...]:
        """Lease up to `limit` waiting or expired jobs to `owner`, newest first.

        It looks before it writes: asking when there is no work costs a read.
        """
        ...

    async def finish_job(self, job: Job, *, owner: str) -> bool:
        """Remove a job still leased to `owner`; False when the lease was lost."""
        ...

    async def postpone_job(self, job: Job, *, owner: str, delay: timedelta) -> bool:
        """Give a failed job back, to be claimed after `delay`; False when the lease was lost."""
        ...

    async def identities(self) -> StoredIdentities:
        """Return whose vectors the organisation holds."""
        ...

    async def adopt_embedder(self, identity: str) -> bool:
        """Make an embedder the deep one if there is none; say whether it is now.

        With the first one every message stored so far begins to wait for its vectors.
        """
        ...

    async def claim_unembedded(
        self, *, owner: str, lease: timedelta, limit: int, characters_max: int
    ) -> tuple[Unembedded, ...]:
        """Lease messages that wait for deep vectors, the newest first.

        At least one if any can be had, at most `limit`, and not much more text than
        `characters_max`. It looks before it writes. A message that cannot be read is left waiting.
        """
        ...

    async def has_leased(self) -> bool:
        """Say whether any process holds messages that wait for deep vectors."""
        ...

    async def store_vectors(
        self, identity: str, embedded: Sequence[Embedded], *, owner: str
    ) -> int:
        """Store deep vectors in the place of instant ones; return of how many messages.

        Messages whose lease `owner` has lost, that were deleted, or for which another embedder is
        the deep one by now, are passed over.

        Raises:
            InvalidVectorError: a vector has other dimensions than the identity says.
        """
        ...

    async def renew_unembedded(
        self, keys: Sequence[MessageKey], *, owner: str, lease: timedelta
    ) -> None:
        """Hold messages for longer that are still leased to `owner`."""
        ...

    async def postpone_unembedded(
        self, keys: Sequence[MessageKey], *, owner: str, delay: timedelta
    ) -> None:
        """Give messages back that are still leased to `owner`, to be claimed after `delay`."""
        ...

    async def measure_unmoved(self, identity: str, *, passage_characters: int) -> UnmovedCount:
        """Count the messages without vectors of an embedder; nothing is changed.

        Passages are estimated as `passage_characters` long.
        """
        ...

    async def begin_reembedding(self, identity: str) -> ReembeddingBegun:
        """Prepare for vectors of an embedder that shall take the place of the deep ones.

        Begun again for the same embedder it goes on with what is there, also beside another process
        that does. Vectors half built for another embedder are given up. Without a deep embedder
        this becomes the deep one at once, and every message waits for its vectors.
        """
        ...

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
        ...

    async def store_next_vectors(self, identity: str, embedded: Sequence[Embedded]) -> int:
        """Store vectors of the next embedder; return of how many messages.

        They are not searched yet. Messages that were deleted or have such vectors already are
        passed over, and all are once the embedder has taken over.

        Raises:
            ConflictError: another embedder is the next one by now.
            InvalidVectorError: a vector has other dimensions than the identity says.
        """
        ...

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
        ...

    async def drop_old_vectors(self) -> int:
        """Remove vectors that were replaced or given up; return how many."""
        ...

    async def tend_vectors(self) -> int:
        """Bring an index that the database keeps of a big organisation's vectors up to date.

        Returns how many vectors came to it. It looks before it writes, and is safe beside other
        processes that do the same.
        """
        ...

    async def train_dictionary(self) -> bool:
        """Train a compression dictionary for new messages; False when there is too little text."""
        ...


class ControlStore(Protocol):
    """Organisations, their keys, and the audit of both. Look-ups by id always name the organisation."""

    async def create_organization(
        self, draft: OrganizationDraft, *, actor: str, is_local: bool = False
    ) -> Organization:
        """Store a new organisation.

        Raises:
            ConflictError: `is_local`, and there is a local organisation already.
        """
        ...

    async def local_organization(self) -> Organization | None:
        """Return the organisation that processes of this machine's owner use without a key."""
        ...

    async def get_organization(self, organization_id: OrganizationId) -> Organization:
        """Return an organisation.

        Raises:
            NotFoundError: there is none of that id.
        """
        ...

    async def list_organizations(self) -> tuple[Organization, ...]:
        """Return every organisation, oldest first."""
        ...

    async def change_organization(
        self, organization_id: OrganizationId, change: OrganizationChange, *, actor: str
    ) -> Organization:
        """Give an organisation another name or quota; return it.

        The quota of requests follows from their key, so it holds in every process as soon as a
        revocation would.

        Raises:
            NotFoundError: there is none of that id.
            InvalidRequestError: the new name or quota is not one.
        """
        ...

    async def add_usage(self, used: Mapping[OrganizationId, Sequence[UsageDay]]) -> None:
        """Add to what organisations did by day; the bytes stored replace those of before.

        Days older than `USAGE_DAYS_MAX` before the newest given are removed. Organisations that
        are gone are passed over.
        """
        ...

    async def list_usage(
        self, organization_id: OrganizationId, *, limit: int
    ) -> tuple[UsageDay, ...]:
        """Return what an organisation did on the last days that it did anything, newest first."""
        ...

    async def delete_organization(
        self,
        organization_id: OrganizationId,
        *,
        actor: str,
        details: Mapping[str, object] | None = None,
    ) -> AuditEntry:
        """Remove an organisation, its keys and everything it stored, in every process.

        Returns the audit row, with `details`, the organisation's name and the number of its keys.

        Raises:
            NotFoundError: there is none of that id.
        """
        ...

    async def was_deleted(self, organization_id: OrganizationId) -> bool:
        """Return True if an organisation of that id was here and is deleted, by the audit log."""
        ...

    async def create_key(
        self, organization_id: OrganizationId, draft: KeyDraft, *, actor: str
    ) -> NewKey:
        """Store a new key's hash and return the key with its secret.

        Raises:
            NotFoundError: there is no such organisation.
            LimitExceededError: the organisation has `KEYS_PER_ORGANIZATION_MAX` live keys.
        """
        ...

    async def list_keys(self, organization_id: OrganizationId) -> tuple[ApiKey, ...]:
        """Return the organisation's keys, revoked ones included, oldest first.

        Raises:
            NotFoundError: there is no such organisation.
        """
        ...

    async def revoke_key(
        self, organization_id: OrganizationId, key_id: KeyId, *, actor: str
    ) -> ApiKey:
        """Revoke a key; again changes nothing.

        Raises:
            NotFoundError: the organisation has no such key.
        """
        ...

    async def rotate_key(
        self, organization_id: OrganizationId, key_id: KeyId, *, overlap: timedelta, actor: str
    ) -> RotatedKey:
        """Make a key like another one, which ends after `overlap` if it would not end before.

        Raises:
            NotFoundError: the organisation has no such key.
            ConflictError: it is revoked or has expired.
            LimitExceededError: the organisation has `KEYS_PER_ORGANIZATION_MAX` live keys.
        """
        ...

    async def find_key(self, secret_hash: str) -> KeyOwner | None:
        """Return the key whose secret has that SHA-256, revoked and expired ones included."""
        ...

    async def touch_keys(self, used: Mapping[KeyId, datetime]) -> None:
        """Record when keys were last used; never moves a time backwards."""
        ...

    async def note_addresses(self, seen: Mapping[KeyId, Mapping[str, datetime]]) -> None:
        """Record the addresses that keys were used from, and when; audit those that are new.

        Of each key `KEY_ADDRESSES_MAX` addresses are kept, those it was last used from. All that are
        new to a key are one audit row `new_address`. A key that does not exist is passed over.
        """
        ...

    async def record_audit(self, notes: Sequence[AuditNote]) -> None:
        """Write audit rows, all or none."""
        ...

    async def list_audit(
        self, organization_id: OrganizationId | None, *, limit: int, before: datetime | None
    ) -> tuple[AuditEntry, ...]:
        """Return the newest audit rows of keys and organisations, newest first; None is all of them."""
        ...

    async def ping(self) -> None:
        """Really read the store; raise what a request would meet."""
        ...


class Store(Protocol):
    """A whole installation."""

    @property
    def control(self) -> ControlStore:
        """Organisations and keys."""
        ...

    async def open(self) -> None:
        """Create or migrate what is needed. Idempotent, and safe beside other processes.

        Raises:
            StoreNewerError: the store was written by a newer Engram.
            StoreReadOnlyError, StoreCorruptError, StorageError: it cannot be used.
        """
        ...

    async def organization(self, organization_id: OrganizationId) -> OrganizationStore:
        """Return the store of one existing organisation.

        Raises:
            NotFoundError: there is none of that id.
        """
        ...

    def announce(self, organization_id: OrganizationId) -> None:
        """Tell other processes soon that an organisation has new work for the background.

        It returns at once, and what it tells may be lost: work is found without it, only later.
        """
        ...

    def changes(self) -> AsyncIterator[Change]:
        """Yield what other processes tell, from now on; nothing where they cannot.

        That is the work they announce, and the keys that were revoked or removed by any process, this
        one among them. What is told while this process is cut off from the others is missed; all
        keys count as changed then. It raises nothing.
        """
        ...

    async def close(self) -> None:
        """Finish what was accepted and release everything."""
        ...
