"""Embedding queries with every available tier, and reporting the others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from engram.embedding.hashed import HashedEmbedder
from engram.embedding.port import EMBEDDING_FAILURES, Embedder
from engram.embedding.registry import calibration_of
from engram.embedding.tiers import Tiers
from engram.errors import EngramError
from engram.model.ids import OrganizationId
from engram.search.query import QueryEmbedder, missing_tiers
from tests.search.embedders import FailingEmbedder, OtherEmbedder

ACME = OrganizationId("org_acme")
GLOBEX = OrganizationId("org_globex")
DOWN = FailingEmbedder


@pytest.mark.parametrize(
    ("deep", "instant", "tiers", "degraded"),
    [
        (HashedEmbedder(), OtherEmbedder(), ["deep", "instant"], ()),
        (HashedEmbedder(), None, ["deep"], ()),
        (None, OtherEmbedder(), ["deep"], ()),
        (DOWN(), OtherEmbedder(), ["instant"], ("embedder_unavailable",)),
        (HashedEmbedder(), DOWN(), ["deep"], ("instant_unavailable",)),
        (DOWN(), None, [], ("words_only", "embedder_unavailable")),
        (DOWN(), DOWN(), [], ("words_only", "embedder_unavailable", "instant_unavailable")),
        (None, None, [], ("words_only",)),
    ],
)
async def test_a_question_has_a_vector_of_every_tier_that_works_and_says_what_is_missing(
    deep: Embedder | None, instant: Embedder | None, tiers: list[str], degraded: tuple[str, ...]
) -> None:
    embedder = QueryEmbedder(Tiers.of(deep=deep, instant=instant))

    question = await embedder.embed("harbour", organization_id=ACME)

    assert [vector.tier for vector in question.vectors] == tiers
    assert list(question.calibrations) == tiers
    assert question.degraded == degraded


async def test_a_vector_carries_the_identity_of_its_embedder_and_the_scale_of_its_cosines() -> None:
    deep = OtherEmbedder()

    question = await QueryEmbedder(Tiers.of(deep=deep)).embed("harbour", organization_id=ACME)

    (vector,) = question.vectors
    assert vector.identity == deep.identity.as_text()
    assert vector.vector is not None
    assert np.array_equal(vector.vector, await deep.embed_query("harbour"))
    assert question.calibrations == {"deep": calibration_of(deep.identity)}


@pytest.mark.parametrize("failure", EMBEDDING_FAILURES)
async def test_no_failure_of_an_embedder_fails_the_question(failure: type[EngramError]) -> None:
    embedder = QueryEmbedder(Tiers.of(deep=FailingEmbedder(failure("no"))))

    question = await embedder.embed("harbour", organization_id=ACME)

    assert question.vectors == ()
    assert "words_only" in question.degraded


async def test_an_embedder_is_asked_again_after_it_failed() -> None:
    deep = FailingEmbedder()
    embedder = QueryEmbedder(Tiers.of(deep=deep))
    await embedder.embed("harbour", organization_id=ACME)

    deep.is_failing = False
    question = await embedder.embed("harbour", organization_id=ACME)

    assert (len(question.vectors), question.degraded) == (1, ())


async def test_a_repeated_question_is_not_embedded_again_but_for_each_organisation() -> None:
    deep = FailingEmbedder()
    deep.is_failing = False
    embedder = QueryEmbedder(Tiers.of(deep=deep))

    for organization_id in (ACME, ACME, GLOBEX, ACME, GLOBEX):
        await embedder.embed("harbour", organization_id=organization_id)

    assert deep.asked == 2


async def test_the_instant_tier_has_only_its_identity_until_it_is_needed() -> None:
    instant = FailingEmbedder()
    instant.is_failing = False
    embedder = QueryEmbedder(Tiers.of(deep=OtherEmbedder(), instant=instant))

    early = await embedder.embed("harbour", organization_id=ACME, is_instant_needed=False)

    assert [vector.vector is None for vector in early.vectors] == [False, True]
    assert (early.degraded, instant.asked) == ((), 0)

    await embedder.embed("harbour", organization_id=GLOBEX, is_instant_needed=True)
    later = await embedder.embed("harbour", organization_id=ACME, is_instant_needed=False)

    assert [vector.vector is None for vector in later.vectors] == [False, False]
    assert early.calibrations == later.calibrations
    assert instant.asked == 2


async def test_an_instant_tier_that_is_not_there_is_missed_also_where_it_is_not_needed() -> None:
    instant = FailingEmbedder()
    embedder = QueryEmbedder(Tiers.of(deep=OtherEmbedder(), instant=instant))

    missing = await embedder.embed("harbour", organization_id=ACME, is_instant_needed=False)
    instant.is_failing = False
    there = await embedder.embed("harbour", organization_id=ACME, is_instant_needed=False)

    assert [vector.tier for vector in missing.vectors] == ["deep"]
    assert missing.degraded == ("instant_unavailable",)
    assert [vector.tier for vector in there.vectors] == ["deep", "instant"]
    assert (there.degraded, instant.asked) == ((), 0)


def test_what_is_missing_is_told_for_any_tiers() -> None:
    tiers = Tiers.of(deep=HashedEmbedder(), instant=OtherEmbedder())

    for working in itertools.chain.from_iterable(
        itertools.combinations(("deep", "instant"), count) for count in range(3)
    ):
        missing = missing_tiers(tiers, working)
        assert ("words_only" in missing) == (not working)
        assert ("embedder_unavailable" in missing) == ("deep" not in working)
        assert ("instant_unavailable" in missing) == ("instant" not in working)
