"""The embedders of an installation: their roles and their availability."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from engram.embedding.hashed import IDENTITY, HashedEmbedder
from engram.embedding.port import EmbedderIdentity
from engram.embedding.tiers import Tiers, WatchedEmbedder
from engram.errors import (
    EmbedderMismatchError,
    EmbedderUnavailableError,
    EngramError,
    InvalidRequestError,
)

if TYPE_CHECKING:
    from engram.embedding.port import Vectors


class MoodyEmbedder(HashedEmbedder):
    """Always knows its identity, and embeds unless it is set to fail."""

    def __init__(self) -> None:
        self.wrong: EngramError | None = None
        self.is_closed = False

    async def probe(self) -> None:
        if self.wrong is not None:
            raise self.wrong

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        if self.wrong is not None:
            raise self.wrong
        return await super().embed_passages(passages)

    async def close(self) -> None:
        self.is_closed = True


class NamelessEmbedder(HashedEmbedder):
    """Fails to identify itself."""

    async def identify(self) -> EmbedderIdentity:
        raise EmbedderUnavailableError("nobody answers")


async def fail(watched: WatchedEmbedder) -> None:
    with pytest.raises(EngramError):
        await watched.embed_passages(["text"])


@pytest.mark.parametrize(
    "wrong", [EmbedderUnavailableError("down"), EmbedderMismatchError("another answers")]
)
async def test_a_failure_is_recorded_until_the_next_success(wrong: EngramError) -> None:
    embedder = MoodyEmbedder()
    watched = WatchedEmbedder(embedder, tier="deep")
    assert watched.failure is None

    embedder.wrong = wrong
    await fail(watched)
    assert watched.failure == wrong.message

    embedder.wrong = None
    await watched.embed_passages(["text"])
    assert watched.failure is None


async def test_identifying_itself_does_not_count_as_a_success(
    caplog: pytest.LogCaptureFixture,
) -> None:
    embedder = MoodyEmbedder()
    watched = WatchedEmbedder(embedder, tier="deep")
    embedder.wrong = EmbedderUnavailableError("down")

    with caplog.at_level(logging.INFO):
        for _ in range(5):
            await fail(watched)
            assert await watched.identify() == IDENTITY

    assert watched.failure is not None
    assert watched.known == IDENTITY
    assert len(caplog.records) == 1


async def test_a_refused_text_does_not_count_as_a_failure() -> None:
    embedder = MoodyEmbedder()
    watched = WatchedEmbedder(embedder, tier="deep")
    embedder.wrong = InvalidRequestError("not this text")

    await fail(watched)

    assert watched.failure is None


async def test_a_probe_updates_the_availability() -> None:
    embedder = MoodyEmbedder()
    watched = WatchedEmbedder(embedder, tier="instant")
    embedder.wrong = EmbedderUnavailableError("missing")
    with pytest.raises(EmbedderUnavailableError):
        await watched.probe()
    assert watched.failure == "missing"

    embedder.wrong = None
    await watched.probe()

    assert watched.failure is None


async def test_failing_to_identify_itself_counts_as_a_failure() -> None:
    watched = WatchedEmbedder(NamelessEmbedder(), tier="deep")

    with pytest.raises(EmbedderUnavailableError):
        await watched.identify()

    assert (watched.failure, watched.known) == ("nobody answers", None)


async def test_only_changes_of_availability_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    embedder = MoodyEmbedder()
    watched = WatchedEmbedder(embedder, tier="deep")

    with caplog.at_level(logging.INFO):
        for wrong in (None, EmbedderUnavailableError("down"), None):
            embedder.wrong = wrong
            for _ in range(3):
                if wrong is None:
                    await watched.embed_query("text")
                    await watched.embed_passages(["text"])
                else:
                    await fail(watched)

    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_an_instant_embedder_alone_is_the_deep_one() -> None:
    alone = Tiers.of(instant=MoodyEmbedder())

    assert alone.instant is None
    assert alone.deep is not None
    assert alone.deep.tier == "deep"
    assert alone.quick is alone.deep


async def test_of_two_embedders_the_instant_one_serves_writes() -> None:
    both = Tiers.of(deep=MoodyEmbedder(), instant=MoodyEmbedder())

    assert both.quick is both.instant
    assert [each.tier for each in both.all] == ["deep", "instant"]


async def test_no_embedder_is_a_choice_too() -> None:
    none = Tiers.of()

    assert (none.deep, none.instant, none.quick, none.all) == (None, None, None, ())


async def test_closing_closes_all() -> None:
    deep, instant = MoodyEmbedder(), MoodyEmbedder()

    await Tiers.of(deep=deep, instant=instant).close()

    assert deep.is_closed
    assert instant.is_closed
