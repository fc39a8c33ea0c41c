"""Replacing the vectors of an organisation by those of another embedder, while it is served."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from engram import limits
from engram.embedding.port import EMBEDDING_FAILURES, EmbedderIdentity
from engram.embedding.tiers import Tiers, WatchedEmbedder
from engram.errors import (
    ConfigurationError,
    EmbedderMismatchError,
    EmbedderUnavailableError,
    EngramError,
    NotFoundError,
    StoreCorruptError,
)
from engram.ingest.embed import EmbeddedText, deep_splitting, embed_texts
from engram.model.access import Organization
from engram.model.ids import MessageKey, OrganizationId
from engram.model.vectors import (
    Embedded,
    StoredIdentities,
    Unmoved,
    UnmovedBatch,
    UnmovedCount,
)
from engram.service.batch import STORED_TOGETHER
from engram.service.indexing import Indexer
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store

logger = logging.getLogger(__name__)

CHARACTERS_PER_TOKEN = 4
"""Of English; for estimates alone."""

Advance = Callable[[int], None]

_BEFORE_ALL = MessageKey(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReembeddingPlan:
    """What re-embedding one organisation would do."""

    organization: Organization
    stored: StoredIdentities
    target: EmbedderIdentity
    work: UnmovedCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Reembedded:
    """What re-embedding one organisation did."""

    organization_id: OrganizationId
    embedded: int
    """Messages that this process has made vectors for."""
    refused: int
    """Messages that got none, and wait for them."""
    dropped: str | None
    """Whose half-built vectors were given up."""
    vectors_removed: int
    pending: int
    """Messages that wait for vectors afterwards."""


class Reembedding:
    """Gives every message vectors of this process's embedder, and lets them take over."""

    def __init__(self, store: Store, tiers: Tiers, *, indexer: Indexer) -> None:
        self._store = store
        self._tiers = tiers
        self._indexer = indexer

    async def plan(self, organization_id: OrganizationId | None = None) -> list[ReembeddingPlan]:
        """Return what there is to do in one organisation, or in every one; nothing is changed.

        Raises:
            ConfigurationError: the settings choose no embedder.
            EmbedderUnavailableError: it cannot say whose vectors it makes.
            NotFoundError: there is no such organisation.
        """
        target = await self._embedder.identify()
        tokens_max = min(target.max_tokens, limits.PASSAGE_TOKENS_MAX)
        return [
            ReembeddingPlan(
                organization=organization,
                stored=await store.identities(),
                target=target,
                work=await store.measure_unmoved(
                    target.as_text(), passage_characters=tokens_max * CHARACTERS_PER_TOKEN
                ),
            )
            async for organization, store in self._chosen(organization_id)
        ]

    async def reembed(
        self, organization_id: OrganizationId, *, advance: Advance = lambda _: None
    ) -> Reembedded:
        """Re-embed an organisation; begun again after a crash it goes on where that was.

        Any number of processes may do so at once. Nothing changes for searches and appends until
        every message has its new vectors; then these take over, and the old ones are removed.

        Raises:
            ConfigurationError: the settings choose no embedder.
            EmbedderUnavailableError: it cannot be asked; what was made so far is kept.
            ConflictError: another process has begun to re-embed with another embedder.
            NotFoundError: there is no such organisation.
        """
        embedder = self._embedder
        identity = await embedder.identify()
        store = await self._store.organization(organization_id)
        begun = await store.begin_reembedding(identity.as_text())
        if begun.is_current:
            embedded, refused = await self._index(organization_id, advance), 0
        else:
            move = _Move(store, embedder, identity, advance)
            await move.run()
            embedded, refused = move.embedded, len(move.refused)
        return Reembedded(
            organization_id=organization_id,
            embedded=embedded,
            refused=refused,
            dropped=begun.dropped,
            vectors_removed=await store.drop_old_vectors(),
            pending=(await store.counters()).pending,
        )

    @property
    def _embedder(self) -> WatchedEmbedder:
        if self._tiers.deep is None:
            raise ConfigurationError("ENGRAM_EMBEDDER", "an embedder is needed to make vectors")
        return self._tiers.deep

    async def _index(self, organization_id: OrganizationId, advance: Advance) -> int:
        """Make what messages wait for; return for how many."""
        done = 0
        while some := await self._indexer.work(organization_id):
            advance(some)
            done += some
        return done

    async def _chosen(
        self, organization_id: OrganizationId | None
    ) -> AsyncIterator[tuple[Organization, OrganizationStore]]:
        control = self._store.control
        if organization_id is not None:
            organization = await control.get_organization(organization_id)
            yield organization, await self._store.organization(organization_id)
            return
        for organization in await control.list_organizations():
            try:
                store = await self._store.organization(organization.id)
            except NotFoundError:
                continue  # deleted meanwhile
            yield organization, store


class _Move:
    """One process's part in giving the messages of an organisation their new vectors."""

    def __init__(
        self,
        store: OrganizationStore,
        embedder: WatchedEmbedder,
        identity: EmbedderIdentity,
        advance: Advance,
    ) -> None:
        self.embedded = 0
        self.refused: set[MessageKey] = set()
        """Messages that get no vector."""
        self._store = store
        self._embedder = embedder
        self._splitting = deep_splitting(embedder, identity)
        self._identity = identity.as_text()
        self._advance = advance

    async def run(self) -> None:
        """Embed what has no vectors, from somewhere on and around, until these have taken over."""
        after: MessageKey | None = None
        while True:
            batch = await self._store.read_unmoved(
                self._identity,
                after=after,
                limit=limits.INDEX_BATCH_MESSAGES,
                characters_max=limits.INDEX_BATCH_CHARACTERS,
                without=self.refused,
            )
            if batch.last is not None:
                after = await self._move(batch)
            elif after != _BEFORE_ALL:
                after = _BEFORE_ALL
            elif await self._store.finish_reembedding(self._identity, without=self.refused):
                return

    async def _move(self, batch: UnmovedBatch) -> MessageKey | None:
        """Store the vectors of a batch; return where to go on, which is anywhere for None."""
        for key in batch.unreadable:
            self._refuse(key, StoreCorruptError("many messages cannot be read"))
        # Texts of one length go together: services pad a request's texts to its longest.
        messages = sorted(batch.messages, key=lambda message: len(message.content))
        for start in range(0, len(messages), STORED_TOGETHER):
            embedded = await self._embed(messages[start : start + STORED_TOGETHER])
            stored = await self._store.store_next_vectors(self._identity, embedded)
            self.embedded += stored
            self._advance(stored)
            if stored < len(embedded):
                return None  # Another process is at work here; together both would do all twice.
        return batch.last

    async def _embed(self, messages: Sequence[Unmoved]) -> list[Embedded]:
        """Return the vectors of the messages that get any."""
        texts = [
            EmbeddedText(each.name, each.content, is_by_sentence=each.is_of_document)
            for each in messages
        ]
        try:
            vectors = await embed_texts(texts, self._embedder, splitting=self._splitting)
        except (EmbedderUnavailableError, EmbedderMismatchError):
            raise
        except EMBEDDING_FAILURES as exc:
            if len(messages) > 1:
                return [one for message in messages for one in await self._embed([message])]
            logger.warning("a message gets no vector: %s", exc.message)
            self._refuse(messages[0].key, exc)
            return []
        return [
            Embedded(key=message.key, passages=passages)
            for message, passages in zip(messages, vectors, strict=True)
        ]

    def _refuse(self, key: MessageKey, reason: EngramError) -> None:
        if len(self.refused) >= limits.REEMBED_REFUSALS_MAX:
            raise reason
        self.refused.add(key)
