"""Keeping memories: the one way in for notes, typed memories and whatever is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError, RequestTooLargeError
from engram.model.access import Principal
from engram.model.memory import MemoryDraft, StoredMemory
from engram.model.vectors import Indexing
from engram.service.activity import Activity
from engram.service.background import Background
from engram.service.indexing import Indexer
from engram.service.quota import find_quota_warning
from engram.storage.store import Store

VectorGap = Literal["no_embedder", "embed_pending"]
"""Why memories are found by their words alone: for good, or until the background got to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Where memories went. They are durable and findable when this is returned."""

    memories: tuple[StoredMemory, ...]
    """In the order of the drafts."""
    vector_gap: VectorGap | None = None
    quota_warning: str | None = None
    """Says so when the organisation has used most of its quota."""


class Keeping:
    """Stores memories with what is derived from them; every entry point calls this."""

    def __init__(
        self, store: Store, *, indexer: Indexer, background: Background, activity: Activity
    ) -> None:
        self._store = store
        self._indexer = indexer
        self._background = background
        self._activity = activity

    async def keep(
        self, principal: Principal, drafts: Sequence[MemoryDraft], *, once: bool = False
    ) -> Kept:
        """Store all the memories or none; with `once`, a note that is there already is not repeated.

        Raises:
            NotFoundError: a draft names an episode that is not here.
            LimitExceededError: there are too many of them, or they are too large together.
            QuotaExceededError: they do not fit the quota any more.
        """
        principal.require("write")
        check_batch(drafts)
        store = await self._store.organization(principal.organization_id)
        indexing = await self._indexer.index_new(
            [draft.as_message() for draft in drafts], organization_id=principal.organization_id
        )
        stored = await store.memories.store(
            drafts, actor=principal.actor, quota=principal.quota, indexing=indexing, once=once
        )
        self._background.notice(principal.organization_id)
        self._activity.memories_stored += sum(not each.is_duplicate for each in stored)
        return Kept(
            memories=stored,
            vector_gap=_vector_gap(indexing),
            quota_warning=await find_quota_warning(principal, store),
        )


def check_batch(drafts: Sequence[MemoryDraft]) -> None:
    """Refuse what is no batch, or is too large to be one short transaction."""
    if not drafts:
        raise InvalidRequestError("must hold at least one memory", field="memories")
    count, most = len(drafts), limits.MEMORIES_PER_CALL_MAX
    if count > most:
        raise LimitExceededError("memories", limit=most, actual=count, unit="memories")
    size = sum(len(draft.content.encode()) for draft in drafts)
    if size > limits.CALL_BYTES_MAX:
        raise RequestTooLargeError(
            "memories", limit=limits.CALL_BYTES_MAX, actual=size, unit="bytes"
        )


def _vector_gap(indexing: Indexing) -> VectorGap | None:
    if indexing.vectors is not None:
        return None
    return "embed_pending" if indexing.is_queued else "no_embedder"
