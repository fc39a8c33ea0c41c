"""Embeds messages: instant vectors on their way in, deep ones from a queue shared by all processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

from engram import limits
from engram.embedding.passages import (
    EmbeddedText,
    PassageEmbedder,
    Splitting,
    deep_splitting,
    embed_texts,
    instant_splitting,
)
from engram.embedding.port import EMBEDDING_FAILURES
from engram.embedding.retry import Sleep
from engram.embedding.tiers import Tiers, WatchedEmbedder
from engram.errors import (
    EmbedderMismatchError,
    EmbedderUnavailableError,
    EngramError,
    NotFoundError,
    StorageError,
)
from engram.model.conversation import MessageDraft, called
from engram.model.ids import MessageKey, OrganizationId
from engram.model.row_keys import RecordKind
from engram.model.value import replace
from engram.model.vectors import (
    Embedded,
    Indexing,
    NewVectors,
    PassageVector,
    Unembedded,
    Unmoved,
    units_of,
)
from engram.service.access.usage import UsageMeter
from engram.service.work.schedule import (
    OrganizationQueue,
    Pace,
    PacedEmbedder,
    open_if_exists,
    settle,
)
from engram.storage.organization import OrganizationStore
from engram.storage.queue import retry_delay
from engram.storage.store import Store

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
"""After it another process takes over from a dead one; a living one renews it in time."""

RENEWALS_PER_LEASE = 3
STORED_TOGETHER = 16
"""Messages whose vectors are stored in one transaction; a crash loses at most these."""

STORED_TOGETHER_BUSY = 4
"""The same while callers wait, so that they are not held up for long."""

UNUSABLE = (EmbedderUnavailableError, EmbedderMismatchError)
"""Failures of the embedder and not of a message: the messages stay pending."""

EMBEDDER_DELAY_S = 5.0
"""The pause after a failure of the embedder; doubled with every failure."""

EMBEDDER_DELAY_MAX_S = 60.0
LEASED_LOOK_S = 0.01
"""How often a search checks whether others have finished the messages they have leased."""


class Indexer:
    """Embeds new messages with the quick model, and queued ones with the deep model."""

    def __init__(
        self,
        store: Store,
        tiers: Tiers,
        *,
        owner: str,
        meter: UsageMeter | None = None,
        pace: Pace | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._store = store
        self._tiers = tiers
        self._owner = owner
        self._meter = meter
        self._pace = pace
        self._sleep = sleep
        self.queue = OrganizationQueue()
        self._is_mismatch_logged = False

    @property
    def is_deep(self) -> bool:
        """Return True if this process can make deep vectors."""
        return self._tiers.deep is not None

    @property
    def has_lag(self) -> bool:
        """Return True if new messages have no vector until the background has embedded them."""
        return self._tiers.deep is not None and self._tiers.quick is None

    async def index_new(
        self,
        drafts: Sequence[MessageDraft],
        *,
        kind: RecordKind = "memory",
        title: str | None = None,
        organization_id: OrganizationId | None = None,
    ) -> Indexing:
        """Return the instant vectors of new messages; this never waits for a slow model.

        `title` is that of their conversation, if a document is among them. Deep vectors count
        towards the usage of `organization_id`.
        """
        return await self.index_texts(
            [embedded_text(each, kind=kind, name=called(each, title=title)) for each in drafts],
            organization_id=organization_id,
        )

    async def index_texts(
        self, texts: Sequence[EmbeddedText], *, organization_id: OrganizationId | None = None
    ) -> Indexing:
        """Return the instant vectors of new texts, in their order."""
        quick = self._tiers.quick
        if quick is None:
            return Indexing(is_queued=self._tiers.deep is not None)
        splitting = replace(instant_splitting(), is_deep=quick is self._tiers.deep)
        try:
            identity = await quick.identify()
            messages: Sequence[Sequence[PassageVector]] = await embed_texts(
                texts, quick, splitting=splitting
            )
        except EMBEDDING_FAILURES:
            logger.debug("messages are stored without quick vectors", exc_info=True)
            return Indexing(is_queued=True)
        if quick is self._tiers.deep:
            messages = _whole(texts, messages)
            self._count(organization_id, sum(map(bool, messages)))
        vectors = NewVectors(tier=quick.tier, identity=identity.as_text(), messages=messages)
        return Indexing(vectors=vectors, is_queued=quick is not self._tiers.deep)

    def enqueue(self, organization_id: OrganizationId) -> None:
        """Queue an organisation that may have pending messages."""
        if self.is_deep:
            self.queue.add(organization_id)

    async def run(self) -> None:
        """Index until cancelled; a failure is logged and never ends the loop."""
        if self._tiers.deep is None:
            return
        delay_s = EMBEDDER_DELAY_S
        while True:
            try:
                await self._probe()
                while True:
                    await self.queue.wait()
                    await self.work_queued()
                    delay_s = EMBEDDER_DELAY_S
            except UNUSABLE:
                # The embedder has logged it; what was queued still is.
                await self._sleep(delay_s)
                delay_s = min(delay_s * 2, EMBEDDER_DELAY_MAX_S)
            except Exception:
                logger.exception("indexing failed; it will be tried again")
                await self._sleep(delay_s)

    async def work(self, organization_id: OrganizationId, *, pace: Pace | None = None) -> int:
        """Embed a batch of pending messages; return how many got vectors, 0 if none are left.

        Args:
            pace: throttles the work; without it a caller waits for it.

        Raises:
            EmbedderUnavailableError, EmbedderMismatchError: the embedder does not answer, or
                another one does; nothing is lost.
        """
        if self._tiers.deep is None:
            return 0
        try:
            store = await self._store.organization(organization_id)
            while True:
                taken, done = await self._index_batch(store, self._tiers.deep, pace)
                if done or not taken:
                    return done
        except NotFoundError:
            return 0  # deleted meanwhile, and its messages with it

    async def drain(self, organization_id: OrganizationId, *, limit_s: float) -> None:
        """Embed an organisation's pending messages, until a timeout or a failure.

        Who searches a full store waits for nothing: what is there is found, and the lag is named.
        """
        store = await self._store.organization(organization_id)
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    while await self.work(organization_id):
                        pass
                    if not await store.has_leased():
                        return
                    await asyncio.sleep(LEASED_LOOK_S)
        except (TimeoutError, *EMBEDDING_FAILURES):
            # The background may have skipped what was leased here and is given back now.
            self.enqueue(organization_id)
        except StorageError:
            logger.warning("vectors of %s cannot be stored now", organization_id, exc_info=True)

    async def _probe(self) -> None:
        """Probe the embedders early: operators see their state."""
        for embedder in self._tiers.all:
            try:
                await embedder.probe()
            except UNUSABLE:
                if embedder is self._tiers.deep:
                    raise

    async def work_queued(self) -> None:
        """Embed one batch of each queued organisation."""
        for organization_id in self.queue.take():
            try:
                work = partial(self.work, organization_id, pace=self._pace)
                if await work() or await self._settle(organization_id, work):
                    self.enqueue(organization_id)
            except UNUSABLE:
                self.enqueue(organization_id)
                raise
            except EngramError:
                logger.exception("organisation %s cannot be indexed now", organization_id)

    async def _settle(
        self, organization_id: OrganizationId, work: Callable[[], Awaitable[int]]
    ) -> int | None:
        store = await open_if_exists(self._store, organization_id)
        if store is None:
            return None
        await store.tend_vectors()
        return await settle(store, "vectors", work)

    async def _index_batch(
        self, store: OrganizationStore, embedder: WatchedEmbedder, pace: Pace | None
    ) -> tuple[int, int]:
        """Return how many messages were leased, and how many of them got vectors."""
        identity = await embedder.identify()
        if not await store.adopt_embedder(identity.as_text()):
            self._log_mismatch(identity.name)
            return 0, 0
        claimed = await self._claim(store)
        splitting = deep_splitting(embedder, identity, has_tokens=embedder.has_tokens)
        batch = Batch(store, embedder, splitting, identity.as_text(), owner=self._owner, pace=pace)
        done = await batch.index(claimed)
        self._count(store.organization_id, done)
        return len(claimed), done

    def _count(self, organization_id: OrganizationId | None, embedded_texts: int) -> None:
        if self._meter is not None and organization_id is not None and embedded_texts:
            self._meter.count(organization_id, embedded_texts=embedded_texts)

    async def _claim(self, store: OrganizationStore) -> tuple[Unembedded, ...]:
        """Lease messages; if the caller is cancelled meanwhile, give them back."""
        claim = store.claim_unembedded(
            owner=self._owner,
            lease=LEASE,
            limit=limits.INDEX_BATCH_MESSAGES,
            characters_max=limits.INDEX_BATCH_CHARACTERS,
        )
        claiming = asyncio.ensure_future(claim)
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            await asyncio.wait([claiming])
            if claiming.exception() is None:
                keys = [message.key for message in claiming.result()]
                await store.postpone_unembedded(keys, owner=self._owner, delay=timedelta())
            raise

    def _log_mismatch(self, name: str) -> None:
        if not self._is_mismatch_logged:
            logger.warning(
                "stored vectors are not of the embedder %s: run `engram reembed` to use it", name
            )
        self._is_mismatch_logged = True


def embedded_text(draft: MessageDraft, *, kind: RecordKind, name: str | None) -> EmbeddedText:
    """Return what is embedded of a new message, given the name that is indexed with it."""
    return EmbeddedText(name, draft.content, units_of(kind, draft.role))


def _whole(
    texts: Sequence[EmbeddedText], messages: Sequence[Sequence[PassageVector]]
) -> list[Sequence[PassageVector]]:
    """Return the vectors that cover their texts; the deep ones of longer texts are made later."""
    return [
        passages if passages[-1].end == len(text.content) else ()
        for text, passages in zip(texts, messages, strict=True)
    ]


async def embed_messages(
    messages: Sequence[Unmoved], embedder: PassageEmbedder, *, splitting: Splitting
) -> list[Embedded]:
    """Return the vectors of messages, in their order."""
    texts = [EmbeddedText(each.name, each.content, each.units) for each in messages]
    vectors = await embed_texts(texts, embedder, splitting=splitting)
    return [
        Embedded(key=message.key, passages=passages)
        for message, passages in zip(messages, vectors, strict=True)
    ]


class Batch:
    """Pending messages of one organisation, leased to this process."""

    def __init__(
        self,
        store: OrganizationStore,
        embedder: WatchedEmbedder,
        splitting: Splitting,
        identity: str,
        *,
        owner: str,
        pace: Pace | None = None,
    ) -> None:
        self._store = store
        self._paced = embedder if pace is None else PacedEmbedder(embedder, pace)
        self._splitting = splitting
        self._identity = identity
        self._owner = owner
        self._pace = pace
        self._held: dict[MessageKey, Unembedded] = {}

    async def index(self, claimed: Sequence[Unembedded]) -> int:
        """Embed and store messages; return how many got vectors, and give back the others."""
        self._held = {message.key: message for message in claimed}
        # Texts of one length go together: services pad a request's texts to its longest.
        by_length = sorted(claimed, key=lambda message: len(message.content))
        done = 0
        try:
            async with self._renewing():
                while by_length:
                    count = self._count()
                    some, by_length = by_length[:count], by_length[count:]
                    done += await self._index_some(some)
        except (asyncio.CancelledError, *UNUSABLE):
            await self._give_back(self._held.values(), delay=timedelta())
            raise
        return done

    def _count(self) -> int:
        """Return how many messages are embedded at once."""
        is_busy = self._pace is not None and self._pace.has_callers()
        return STORED_TOGETHER_BUSY if is_busy else STORED_TOGETHER

    async def _index_some(self, messages: Sequence[Unembedded]) -> int:
        try:
            embedded = await embed_messages(messages, self._paced, splitting=self._splitting)
        except UNUSABLE:
            raise
        except EMBEDDING_FAILURES as exc:
            if len(messages) > 1:
                return sum([await self._index_some([message]) for message in messages])
            logger.warning("a message gets no vector now: %s", exc.message)
            await self._give_back(messages, delay=retry_delay(messages[0].attempts))
            return 0
        done = await self._store.store_vectors(self._identity, embedded, owner=self._owner)
        self._release(messages)
        return done

    async def _give_back(self, messages: Iterable[Unembedded], *, delay: timedelta) -> None:
        given = list(messages)
        keys = [message.key for message in given]
        await self._store.postpone_unembedded(keys, owner=self._owner, delay=delay)
        self._release(given)

    def _release(self, messages: Iterable[Unembedded]) -> None:
        for message in messages:
            self._held.pop(message.key, None)

    @asynccontextmanager
    async def _renewing(self) -> AsyncGenerator[None]:
        """Renew the leases while the block runs: a long message takes longer than a lease."""
        renewal = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            renewal.cancel()
            # Awaiting it would raise the same error as a cancellation of the caller.
            await asyncio.wait([renewal])

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / RENEWALS_PER_LEASE)
            try:
                await self._store.renew_unembedded(list(self._held), owner=self._owner, lease=LEASE)
            except EngramError:
                logger.exception("leases could not be renewed; others may do the work again")
