"""Messages leased to this process, on their way to deep vectors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from engram.embedding.port import EMBEDDING_FAILURES
from engram.embedding.tiers import WatchedEmbedder
from engram.errors import EmbedderMismatchError, EmbedderUnavailableError, EngramError
from engram.ingest.embed import EmbeddedText, Splitting, embed_texts
from engram.model.ids import MessageKey
from engram.model.vectors import Embedded, Unembedded
from engram.service.pace import Pace, PacedEmbedder
from engram.storage.organization import OrganizationStore

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
"""After it another process takes up what a dead one held; a living one renews it in time."""

RENEWALS_PER_LEASE = 3
STORED_TOGETHER = 16
"""Messages whose vectors are stored in one transaction; what a crash loses is done again."""

STORED_TOGETHER_ASKED = 4
"""The same while callers wait: a stretch of work that is over before many have noticed."""

RETRY_DELAY = timedelta(seconds=30)
"""For a message the embedder gives no vector; doubled with every attempt."""

RETRY_DELAY_MAX = timedelta(hours=6)

UNUSABLE = (EmbedderUnavailableError, EmbedderMismatchError)
"""The embedder is to blame and no message: whatever waits goes on waiting."""


class Batch:
    """Waiting messages of one organisation, leased to this process."""

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
        """Embed and store some messages at a time; give back what cannot be done now."""
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
        """Return how many messages are done at once."""
        is_asked = self._pace is not None and self._pace.is_asked()
        return STORED_TOGETHER_ASKED if is_asked else STORED_TOGETHER

    async def _index_some(self, messages: Sequence[Unembedded]) -> int:
        try:
            embedded = await self._embed(messages)
        except UNUSABLE:
            raise
        except EMBEDDING_FAILURES as exc:
            if len(messages) > 1:
                return sum([await self._index_some([message]) for message in messages])
            logger.warning("a message gets no vector now: %s", exc.message)
            await self._give_back(messages, delay=_retry_delay(messages[0].attempts))
            return 0
        done = await self._store.store_vectors(self._identity, embedded, owner=self._owner)
        self._release(messages)
        return done

    async def _embed(self, messages: Sequence[Unembedded]) -> list[Embedded]:
        texts = [
            EmbeddedText(each.name, each.content, is_by_sentence=each.is_of_document)
            for each in messages
        ]
        vectors = await embed_texts(texts, self._paced, splitting=self._splitting)
        return [
            Embedded(key=message.key, passages=passages)
            for message, passages in zip(messages, vectors, strict=True)
        ]

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
            # Not awaited itself: its end would look the same as a cancellation of the caller.
            await asyncio.wait([renewal])

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE.total_seconds() / RENEWALS_PER_LEASE)
            try:
                await self._store.renew_unembedded(list(self._held), owner=self._owner, lease=LEASE)
            except EngramError:
                logger.exception("leases could not be renewed; others may do the work again")


def _retry_delay(attempts: int) -> timedelta:
    return min(RETRY_DELAY * 2 ** min(attempts, 20), RETRY_DELAY_MAX)
