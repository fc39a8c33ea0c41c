"""Deep vectors for messages that wait for them, in the background and shared by all processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from engram import limits
from engram.embedding.port import EMBEDDING_FAILURES
from engram.embedding.retry import Sleep
from engram.embedding.tiers import Tiers, WatchedEmbedder
from engram.errors import EngramError, NotFoundError
from engram.ingest.embed import (
    EmbeddedText,
    deep_splitting,
    embed_texts,
    instant_splitting,
)
from engram.model.conversation import MessageDraft, called
from engram.model.ids import OrganizationId
from engram.model.vectors import Indexing, NewVectors, PassageVector, Unembedded
from engram.service.batch import LEASE, UNUSABLE, Batch
from engram.service.noticed import Noticed
from engram.service.pace import Pace
from engram.service.usage import UsageMeter
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

logger = logging.getLogger(__name__)

EMBEDDER_DELAY_S = 5.0
"""How long an embedder that cannot be asked is left alone; doubled with every failure."""

EMBEDDER_DELAY_MAX_S = 60.0
LEASED_LOOK_S = 0.01
"""How often a search looks whether others have finished the messages they hold."""


class Indexer:
    """Embeds messages: new ones quickly on their way in, waiting ones thoroughly afterwards."""

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
        self._noticed = Noticed()
        self._is_mismatch_told = False

    @property
    def has_lag(self) -> bool:
        """Return True if new messages are without any vector until the background got to them."""
        return self._tiers.deep is not None and self._tiers.quick is None

    async def index_new(
        self,
        drafts: Sequence[MessageDraft],
        *,
        title: str | None = None,
        organization_id: OrganizationId | None = None,
    ) -> Indexing:
        """Return what an append stores of the messages' meaning; it never waits for a slow model.

        `title` is that of their conversation, if a document is among them. Deep vectors count
        towards the usage of `organization_id`.
        """
        return await self.index_texts(
            [EmbeddedText(called(each, title=title), each.content) for each in drafts],
            organization_id=organization_id,
        )

    async def index_texts(
        self, texts: Sequence[EmbeddedText], *, organization_id: OrganizationId | None = None
    ) -> Indexing:
        """Return what is stored of the meaning of texts on their way in, in their order."""
        quick = self._tiers.quick
        if quick is None:
            return Indexing(is_queued=self._tiers.deep is not None)
        try:
            identity = await quick.identify()
            messages: Sequence[Sequence[PassageVector]] = await embed_texts(
                texts, quick, splitting=instant_splitting()
            )
        except EMBEDDING_FAILURES:
            logger.debug("messages are stored without quick vectors", exc_info=True)
            return Indexing(is_queued=True)
        if quick is self._tiers.deep:
            messages = _whole(texts, messages)
            self._count(organization_id, sum(map(bool, messages)))
        vectors = NewVectors(tier=quick.tier, identity=identity.as_text(), messages=messages)
        return Indexing(vectors=vectors, is_queued=quick is not self._tiers.deep)

    def notice(self, organization_id: OrganizationId) -> None:
        """Look at this organisation's waiting messages soon."""
        if self._tiers.deep is not None:
            self._noticed.add(organization_id)

    def look_again(self) -> None:
        """Notice the organisations whose messages could not be had: leased, or waiting for a retry."""
        self._noticed.look_again()

    async def run(self) -> None:
        """Index until cancelled; a failure is logged and never ends the loop."""
        if self._tiers.deep is None:
            return
        delay_s = EMBEDDER_DELAY_S
        while True:
            try:
                await self._probe()
                await self.sweep()
                while True:
                    await self._work_noticed()
                    delay_s = EMBEDDER_DELAY_S
            except UNUSABLE:
                # Logged by the embedder when it began; what waits is found again by the sweep.
                await self._sleep(delay_s)
                delay_s = min(delay_s * 2, EMBEDDER_DELAY_MAX_S)
            except Exception:
                logger.exception("indexing failed; it will be tried again")
                await self._sleep(delay_s)

    async def sweep(self) -> None:
        """Notice every organisation that has messages waiting, or has never had an embedder."""
        for organization in await self._store.control.list_organizations():
            try:
                if await self._is_waiting(organization.id) or await self._is_new(organization.id):
                    self.notice(organization.id)
            except EngramError:
                logger.exception("organisation %s cannot be indexed now", organization.id)

    async def work(self, organization_id: OrganizationId, *, pace: Pace | None = None) -> int:
        """Index a batch of an organisation; return how many messages got vectors, 0 at the end.

        Args:
            pace: makes room for callers; without it the work is what one of them waits for.

        Raises:
            EmbedderUnavailableError, EmbedderMismatchError: the embedder cannot be asked, or
                another answers; nothing is lost.
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
        """Return when an organisation's messages have vectors, or none can be had, or time is up."""
        store = await self._store.organization(organization_id)
        with suppress(TimeoutError, *EMBEDDING_FAILURES):
            async with asyncio.timeout(limit_s):
                while True:
                    while await self.work(organization_id):
                        pass
                    if not await store.has_leased():
                        return
                    await asyncio.sleep(LEASED_LOOK_S)
        # What was given back, the background may have passed over while it was held here.
        self.notice(organization_id)

    async def _probe(self) -> None:
        """Find out early whether the embedders can be asked; the state is shown to operators."""
        for embedder in self._tiers.all:
            try:
                await embedder.probe()
            except UNUSABLE:
                if embedder is self._tiers.deep:
                    raise

    async def _work_noticed(self) -> None:
        """Index one batch of each noticed organisation, or wait until one is noticed."""
        await self._noticed.wait()
        for organization_id in self._noticed.turns():
            try:
                if await self.work(organization_id, pace=self._pace):
                    self.notice(organization_id)
                elif await self._is_waiting(organization_id):
                    self._noticed.leave(organization_id)
            except UNUSABLE:
                self.notice(organization_id)
                raise
            except EngramError:
                logger.exception("organisation %s cannot be indexed now", organization_id)

    async def _is_waiting(self, organization_id: OrganizationId) -> bool:
        try:
            store = await self._store.organization(organization_id)
            return (await store.counters()).pending > 0
        except NotFoundError:
            return False  # deleted meanwhile

    async def _is_new(self, organization_id: OrganizationId) -> bool:
        """Return True if an organisation was filled while there was no embedder."""
        try:
            store = await self._store.organization(organization_id)
            return (await store.identities()).deep is None and (await store.counters()).messages > 0
        except NotFoundError:
            return False  # deleted meanwhile

    async def _index_batch(
        self, store: OrganizationStore, embedder: WatchedEmbedder, pace: Pace | None
    ) -> tuple[int, int]:
        """Return how many messages were taken up, and how many of them got vectors."""
        identity = await embedder.identify()
        if not await store.adopt_embedder(identity.as_text()):
            self._tell_mismatch(identity.name)
            return 0, 0
        claimed = await self._claim(store)
        splitting = deep_splitting(embedder, identity)
        batch = Batch(store, embedder, splitting, identity.as_text(), owner=self._owner, pace=pace)
        done = await batch.index(claimed)
        self._count(store.organization_id, done)
        return len(claimed), done

    def _count(self, organization_id: OrganizationId | None, embedded_texts: int) -> None:
        if self._meter is not None and organization_id is not None and embedded_texts:
            self._meter.count(organization_id, embedded_texts=embedded_texts)

    async def _claim(self, store: OrganizationStore) -> tuple[Unembedded, ...]:
        """Lease messages; what is leased while the caller is being cancelled is given back."""
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

    def _tell_mismatch(self, name: str) -> None:
        if not self._is_mismatch_told:
            logger.warning(
                "stored vectors are not of the embedder %s: run `engram reembed` to use it", name
            )
        self._is_mismatch_told = True


def _whole(
    texts: Sequence[EmbeddedText], messages: Sequence[Sequence[PassageVector]]
) -> list[Sequence[PassageVector]]:
    """Return the vectors of texts that they cover; deep ones of a longer text are made later."""
    return [
        passages if passages[-1].end == len(text.content) else ()
        for text, passages in zip(texts, messages, strict=True)
    ]
