"""What Engram asks of a store when memories leave it or come back with all that belongs to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from engram.model.access import UNBOUNDED, Quota
from engram.model.ids import EpisodeId, MemoryId
from engram.model.memory import Episode, Relation
from engram.model.transfer import MemoryProof, MemoryRecord, RecordsStored
from engram.model.vectors import WORDS_ALONE, Indexing


class MemoryTransfer(Protocol):
    """The memories of one organisation, as they are carried to another store."""

    async def read_records(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> tuple[MemoryRecord, ...]:
        """Return memories with their histories and relations, in the order they were first stored.

        Forgotten ones are included. Begins after the memory `after`; None begins with the first.

        Raises:
            StoreCorruptError: the bytes of one do not match its hash.
        """
        ...

    async def read_episodes(
        self, project: str | None, *, after: EpisodeId | None, limit: int
    ) -> tuple[Episode, ...]:
        """Return episodes by id: those of a project and those that its memories name, or all."""
        ...

    async def store_records(
        self,
        records: Sequence[MemoryRecord],
        *,
        actor: str,
        quota: Quota,
        indexing: Indexing = WORDS_ALONE,
    ) -> RecordsStored:
        """Store memories as they were, with ids, moments and histories, or none; not their relations.

        A memory whose id is here already stays as it is, and one that was purged stays purged. One
        that owns a document is not stored: a body is uploaded, not carried with its memory.
        `indexing` speaks of the records in their order.

        Raises:
            NotFoundError: one names an episode that is not here.
            QuotaExceededError: they do not fit the quota any more.
        """
        ...

    async def store_episode(
        self, episode: Episode, *, actor: str, quota: Quota = UNBOUNDED
    ) -> bool:
        """Store an episode as it was; False when it is here already.

        Raises:
            QuotaExceededError: it does not fit the quota any more.
        """
        ...

    async def store_relations(
        self, relations: Sequence[Relation], *, actor: str, quota: Quota = UNBOUNDED
    ) -> int:
        """Store relations as they were; return how many are new.

        One whose memories are not both here is passed over, as is one that is here already.

        Raises:
            InvalidRequestError: `supersedes` would close a circle; none is stored then.
            QuotaExceededError: they do not fit the quota any more; none is stored then.
        """
        ...

    async def verify(
        self, project: str | None, *, after: MemoryId | None, limit: int
    ) -> MemoryProof:
        """Prove memories and their former versions by their hashes, in the order of `read_records`.

        `after` may be the id of a memory whose text cannot be read.
        """
        ...
