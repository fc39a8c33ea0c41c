"""The candidates of a search by themselves, as a store finds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import Candidates, SearchFilters
from engram.model.vectors import QueryVector
from engram.storage.ports import OrganizationStore

EVERYTHING = SearchFilters()


@dataclass(frozen=True, slots=True)
class Kept:
    """Candidates, and what of them is to be read."""

    candidates: Candidates
    messages: Sequence[MessageKey] = ()
    conversations: Sequence[ConversationKey] = ()


async def find_candidates(
    organization: OrganizationStore,
    terms: Sequence[str],
    *,
    vectors: Sequence[QueryVector] = (),
    filters: SearchFilters = EVERYTHING,
    limit: int = 10,
) -> Candidates:
    """Return what a search finds, before anything of it is read."""
    kept, _ = await organization.search(
        terms, vectors=vectors, filters=filters, limit=limit, choose=Kept
    )
    return kept.candidates
