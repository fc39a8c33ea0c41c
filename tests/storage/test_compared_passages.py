"""The contract of comparing the passages of messages with a query, on every backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from engram import limits
from engram.clock import to_microseconds
from engram.model.ids import MessageKey
from engram.model.search import KINDS, Candidates, ComparedPassage
from engram.model.vectors import QueryVector, Tier
from engram.storage.organization import OrganizationStore
from tests.fakes import SOME_DAY
from tests.promises import promise
from tests.storage.embedded import (
    DEEP,
    OTHER,
    PASSAGE_CHARACTERS,
    QUICK,
    append_meant,
    embed_waiting,
    vector_of,
)
from tests.storage.finding import EVERYTHING, Kept

LONG = "red apple tree here. green pear is there. blue plum at end."
"""Three passages, the last of them shorter."""

Compared = Mapping[MessageKey, Sequence[ComparedPassage]]


def query_of(text: str, *, tier: Tier = "instant", identity: str = QUICK) -> QueryVector:
    return QueryVector(tier=tier, identity=identity, vector=vector_of(text, identity))


async def compare(
    organization: OrganizationStore, *vectors: QueryVector, wanted: Sequence[int] | None = None
) -> Compared:
    """Compare the passages of all messages that are found, or of those with some sequences."""

    def choose(candidates: Candidates) -> Kept:
        chosen = [
            MessageKey(key)
            for key, sequence in zip(
                candidates.keys.tolist(), candidates.sequences.tolist(), strict=True
            )
            if wanted is None or sequence in wanted
        ]
        return Kept(candidates, messages=chosen, whole_tokens_max=0)

    _, loaded = await organization.search(
        ["apple", "pear", "plum"],
        vectors=vectors,
        filters=EVERYTHING,
        kinds=KINDS,
        now=to_microseconds(SOME_DAY),
        limit=100,
        choose=choose,
    )
    return loaded.passages


def cosines_of(text: str, query: str, identity: str) -> list[float]:
    """Return the cosine of each passage of a text, from its definition."""
    asked = vector_of(query, identity)
    passages = [
        vector_of(text[start : start + PASSAGE_CHARACTERS], identity)
        for start in range(0, len(text), PASSAGE_CHARACTERS)
    ]
    return [float(each @ asked / np.linalg.norm(each) / np.linalg.norm(asked)) for each in passages]


async def test_every_passage_comes_in_order_with_its_range_and_its_cosine(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await append_meant(organization, LONG, "one plum")

    for store in (organization, elsewhere):
        compared = await compare(store, query_of("green pear is there."))

        long, short = compared.values()
        assert [(each.start, each.end) for each in long] == [(0, 20), (20, 40), (40, len(LONG))]
        assert [each.cosine for each in long] == pytest.approx(
            cosines_of(LONG, "green pear is there.", QUICK), abs=0.02
        )
        assert {each.tier for each in (*long, *short)} == {"instant"}
        assert [(each.start, each.end) for each in short] == [(0, len("one plum"))]


async def test_deep_vectors_are_compared_before_instant_ones(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, "red apple", "green pear")
    both = query_of("red apple"), query_of("red apple", tier="deep", identity=DEEP)
    assert await embed_waiting(organization, limit=1) == 1

    for vectors in (both, both[::-1]):
        compared = await compare(organization, *vectors)
        tiers = [each.tier for passages in compared.values() for each in passages]
        assert sorted(tiers) == ["deep", "instant"]


async def test_only_messages_that_are_asked_about_are_compared(
    organization: OrganizationStore,
) -> None:
    await append_meant(organization, "red apple", "green pear", "blue plum")

    compared = await compare(organization, query_of("red apple"), wanted=[2])

    ((passage,),) = compared.values()
    assert (passage.start, passage.end) == (0, len("green pear"))
    assert not await compare(organization, query_of("red apple"), wanted=[])


@pytest.mark.parametrize(
    "vectors",
    [
        (),
        (QueryVector(tier="instant", identity=QUICK, vector=None),),
        (query_of("red apple", identity=OTHER),),
        (query_of("red apple", tier="deep", identity=DEEP),),
    ],
    ids=["no vectors", "no vector of the query", "another embedder", "no deep vectors yet"],
)
async def test_without_vectors_to_compare_there_are_no_passages(
    organization: OrganizationStore, vectors: tuple[QueryVector, ...]
) -> None:
    await append_meant(organization, "red apple", "green pear")

    assert not await compare(organization, *vectors)


@promise("apart")
async def test_no_passage_is_of_another_organization(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    await append_meant(organization, "red apple")
    await append_meant(other, LONG)

    ((passage,),) = (await compare(organization, query_of("red apple"))).values()

    assert (passage.start, passage.end) == (0, len("red apple"))


async def test_of_very_many_passages_the_last_are_missing(
    organization: OrganizationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append_meant(organization, LONG)
    monkeypatch.setattr(limits, "EXCERPT_PASSAGES_MAX", 2)

    (passages,) = (await compare(organization, query_of("red apple"))).values()

    assert [(each.start, each.end) for each in passages] == [(0, 20), (20, 40)]
