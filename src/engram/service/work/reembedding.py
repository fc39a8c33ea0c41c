"""Replaces the vectors of an organisation by those of another embedder, while it is served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol

from engram import limits
from engram.embedding.passages import deep_splitting
from engram.embedding.port import EMBEDDING_FAILURES, EmbedderIdentity
from engram.embedding.tiers import Tiers, WatchedEmbedder
from engram.errors import (
    ConfigurationError,
    EngramError,
    InvalidRequestError,
    StoreCorruptError,
)
from engram.model.access import Organization, Principal
from engram.model.ids import MessageKey, OrganizationId
from engram.model.maintenance import ReembeddingProgress, ReembeddingStatus
from engram.model.value import Value, replace
from engram.model.vectors import Embedded, StoredIdentities, Unmoved, UnmovedBatch, UnmovedCount
from engram.service.work.indexing import STORED_TOGETHER, UNUSABLE, Indexer, embed_messages
from engram.service.work.schedule import open_each
from engram.storage.organization import OrganizationStore
from engram.storage.store import Store
from engram.text.passages import message_sentences

logger = logging.getLogger(__name__)

CHARACTERS_PER_TOKEN = 4
"""Of English; for estimates only."""

CONFIRM_FROM = 1_000
"""The number of texts from which a switch to another embedder has to be confirmed."""

Advance = Callable[[int], None]

_BEFORE_ALL = MessageKey(0)


class ReembeddingPlan(Value):
    """The work of re-embedding one organisation."""

    organization: Organization
    stored: StoredIdentities
    target: EmbedderIdentity
    work: UnmovedCount


class Reembedded(Value):
    """The result of re-embedding one organisation."""

    organization_id: OrganizationId
    embedded: int
    """Messages that this process has embedded."""
    refused: int
    """Messages that the embedder refused; they stay pending."""
    dropped: str | None
    """The embedder of an unfinished re-embedding whose vectors were dropped."""
    vectors_removed: int
    pending: int
    """Messages without vectors afterwards."""


class Reembedding:
    """Embeds every message with this process's embedder, then switches to the new vectors."""

    def __init__(
        self, store: Store, tiers: Tiers, *, indexer: Indexer, switch_s: float = limits.REEMBED_S
    ) -> None:
        """Work on a store; one call of `switch_embedder` takes at most `switch_s` seconds."""
        self._store = store
        self._tiers = tiers
        self._indexer = indexer
        self._switch_s = switch_s

    async def switch_embedder(
        self, principal: Principal, new_model: str, *, dry_run: bool, confirm: bool
    ) -> ReembeddingProgress:
        """Re-embed the caller's organisation for a bounded time; the next call resumes.

        Nothing changes for searches until every text has its new vectors.

        Raises:
            InvalidRequestError: the operator chose another model, or it is not confirmed.
            EmbedderUnavailableError: the model does not answer.
        """
        principal.require("admin")
        (plan,) = await self.plan(principal.organization_id)
        _check_model(new_model, plan.target)
        name, left = plan.target.name, plan.work.unmoved
        is_done = not left and plan.stored.deep == plan.target.as_text()
        if dry_run or is_done:
            status: ReembeddingStatus = "done" if is_done else "planned"
            return ReembeddingProgress(new_model=name, status=status, remaining=left)
        if left >= CONFIRM_FROM and not confirm:
            message = f"must be true: {left:,} texts would be embedded again"
            raise InvalidRequestError(message, field="confirm")
        try:
            async with asyncio.timeout(self._switch_s):
                await self.reembed(principal.organization_id)
        except TimeoutError:
            (plan,) = await self.plan(principal.organization_id)
            return ReembeddingProgress(
                new_model=name, status="running", remaining=plan.work.unmoved
            )
        return ReembeddingProgress(new_model=name, status="done", remaining=0)

    async def plan(self, organization_id: OrganizationId | None = None) -> list[ReembeddingPlan]:
        """Return what there is to do in one organisation, or in all; nothing is changed.

        Raises:
            ConfigurationError: the settings choose no embedder.
            EmbedderUnavailableError: the embedder does not answer.
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
        """Re-embed an organisation; after a crash it resumes where it was.

        Any number of processes may do so at once. Nothing changes for searches and appends until
        every message has its new vectors; then these take over, and the old ones are removed. With
        the present embedder, only the vectors that are missing are computed.

        Raises:
            ConfigurationError: the settings choose no embedder.
            EmbedderUnavailableError: the embedder does not answer; finished vectors are kept.
            ConflictError: another process is re-embedding with another embedder.
            NotFoundError: there is no such organisation.
        """
        embedder = self._embedder
        identity = await embedder.identify()
        store = await self._store.organization(organization_id)
        begun = await store.begin_reembedding(identity.as_text())
        indexed = await self._index(organization_id, advance) if begun.is_current else 0
        work = (_Division if begun.is_current else _Move)(store, embedder, identity, advance)
        await work.run()
        return Reembedded(
            organization_id=organization_id,
            embedded=indexed + work.embedded,
            refused=len(work.refused),
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
        """Embed the pending messages; return how many."""
        done = 0
        while some := await self._indexer.work(organization_id):
            advance(some)
            done += some
        return done

    async def _chosen(
        self, organization_id: OrganizationId | None
    ) -> AsyncIterator[tuple[Organization, OrganizationStore]]:
        if organization_id is not None:
            organization = await self._store.control.get_organization(organization_id)
            yield organization, await self._store.organization(organization_id)
            return
        async for each in open_each(self._store):
            yield each


class _Work:
    """One process's share of the work in an organisation."""

    def __init__(
        self,
        store: OrganizationStore,
        embedder: WatchedEmbedder,
        identity: EmbedderIdentity,
        advance: Advance,
    ) -> None:
        self.embedded = 0
        self.refused: set[MessageKey] = set()
        """Messages that the embedder refuses."""
        self._store = store
        self._embedder = embedder
        self._splitting = deep_splitting(embedder, identity, has_tokens=embedder.has_tokens)
        self._identity = identity.as_text()
        self._advance = advance

    def _count(self, stored: int) -> None:
        self.embedded += stored
        self._advance(stored)

    async def _embed(self, messages: Sequence[Unmoved]) -> list[Embedded]:
        """Return the vectors of the messages that the embedder does not refuse."""
        try:
            return await embed_messages(messages, self._embedder, splitting=self._splitting)
        except UNUSABLE:
            raise
        except EMBEDDING_FAILURES as exc:
            if len(messages) > 1:
                return [one for message in messages for one in await self._embed([message])]
            logger.warning("a message gets no vector: %s", exc.message)
            self._refuse(messages[0].key, exc)
            return []

    def _refuse(self, key: MessageKey, reason: EngramError) -> None:
        if len(self.refused) >= limits.REEMBED_REFUSALS_MAX:
            raise reason
        self.refused.add(key)


class _ReadNext(Protocol):
    """Reads the next messages that may lack vectors."""

    async def __call__(
        self, identity: str, *, after: MessageKey, limit: int, characters_max: int
    ) -> UnmovedBatch: ...


class _Division(_Work):
    """Adds the vectors of sentences and tokens to messages that were embedded without them."""

    async def run(self) -> None:
        """Embed and store what is missing, in the order of the messages."""
        await self._add_to(self._store.read_undivided, _has_sentences)
        if self._splitting.has_tokens:
            # Their sentences have vectors by now.
            self._splitting = replace(self._splitting, is_deep=False)
            await self._add_to(self._store.read_without_tokens, _has_tokens)

    async def _add_to(self, read: _ReadNext, is_wanted: Callable[[Unmoved], bool]) -> None:
        after = _BEFORE_ALL
        while True:
            batch = await read(
                self._identity,
                after=after,
                limit=limits.INDEX_BATCH_MESSAGES,
                characters_max=limits.INDEX_BATCH_CHARACTERS,
            )
            if batch.last is None:
                return
            wanted = [message for message in batch.messages if is_wanted(message)]
            for start in range(0, len(wanted), STORED_TOGETHER):
                embedded = await self._embed(wanted[start : start + STORED_TOGETHER])
                self._count(await self._store.add_missing_vectors(self._identity, embedded))
            after = batch.last


class _Move(_Work):
    """Gives every message vectors of the next embedder."""

    async def run(self) -> None:
        """Embed messages from a random one on and around, until the new vectors take over."""
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
        """Store the vectors of a batch; return where to resume, None for a random place."""
        for key in batch.unreadable:
            self._refuse(key, StoreCorruptError("many messages cannot be read"))
        # Texts of one length go together: services pad a request's texts to its longest.
        messages = sorted(batch.messages, key=lambda message: len(message.content))
        for start in range(0, len(messages), STORED_TOGETHER):
            embedded = await self._embed(messages[start : start + STORED_TOGETHER])
            stored = await self._store.store_next_vectors(self._identity, embedded)
            self._count(stored)
            if stored < len(embedded):
                return None  # Another process works here too; both would embed the same messages.
        return batch.last


def _has_sentences(message: Unmoved) -> bool:
    return message.units == "both" and bool(message_sentences(message.content))


def _has_tokens(message: Unmoved) -> bool:
    return message.units == "both"


def _check_model(new_model: str, target: EmbedderIdentity) -> None:
    if new_model not in (target.name, target.name.rpartition("/")[2]):
        message = (
            f"the operator chose {target.name!r}: another model is chosen with ENGRAM_EMBEDDER"
            " and a restart"
        )
        raise InvalidRequestError(message, field="new_model")
