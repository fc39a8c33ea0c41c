"""The candidates of a search by themselves, as a store finds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from engram.clock import to_microseconds
from engram.model.ids import ConversationKey, MessageKey
from engram.model.search import KINDS, Candidates, Kind, Loaded, SearchFilters
from engram.model.vectors import QueryVector
from engram.storage.organization import OrganizationStore
from tests.fakes import SOME_DAY

EVERYTHING = SearchFilters()


@dataclass(frozen=True, slots=True)
class Kept:
    """Candidates, and what of them is to be read."""

    candidates: Candidates
    messages: Sequence[MessageKey] = ()
    conversations: Sequence[ConversationKey] = ()
    whole_tokens_max: int | None = None


class Asked(TypedDict, total=False):
    """What a search may be given beside its terms."""

    vectors: Sequence[QueryVector]
    filters: SearchFilters
    kinds: Sequence[Kind]
    now: datetime
    limit: int
    best: Callable[[Candidates], NDArray[np.int64]] | None


async def find_candidates(
    organization: OrganizationStore, terms: Sequence[str], **asked: Unpack[Asked]
) -> Candidates:
    """Return what a search finds, before anything of it is read."""
    kept, _ = await search(organization, terms, choose=Kept, **asked)
    return kept.candidates


async def search(
    organization: OrganizationStore,
    terms: Sequence[str],
    *,
    choose: Callable[[Candidates], Kept],
    vectors: Sequence[QueryVector] = (),
    filters: SearchFilters = EVERYTHING,
    kinds: Sequence[Kind] = KINDS,
    now: datetime = SOME_DAY,
    limit: int = 10,
    best: Callable[[Candidates], NDArray[np.int64]] | None = None,
) -> tuple[Kept, Loaded]:
    """Return what is chosen among the candidates, and what was read of it."""
    return await organization.search(
        terms,
        vectors=vectors,
        filters=filters,
        kinds=kinds,
        now=to_microseconds(now),
        limit=limit,
        choose=choose,
        best=best,
    )
