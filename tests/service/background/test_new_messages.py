"""What an append stores of the meaning of its messages, whatever embedders there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.clock import RandomIds
from engram.embedding.port import EMBEDDING_FAILURES, Embedder
from engram.embedding.tiers import Tiers
from engram.errors import EngramError
from engram.model.conversation import MessageDraft, Role
from engram.model.row_keys import RecordKind
from engram.model.vectors import WORDS_ALONE, Indexing
from engram.service.work.indexing import Indexer
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.service.embedders import NamedEmbedder

DRAFTS = [
    MessageDraft(role="user", content="When does the harbour open?", name="Ann"),
    MessageDraft(role="assistant", content="At six."),
]


def indexer_of(folder: Path, *, deep: Embedder | None, instant: Embedder | None) -> Indexer:
    store = SqliteStore(folder, clock=FakeClock(), ids=RandomIds())
    return Indexer(store, Tiers.of(deep=deep, instant=instant), owner="test")


async def test_without_an_embedder_words_are_all(tmp_path: Path) -> None:
    indexer = indexer_of(tmp_path, deep=None, instant=None)

    assert await indexer.index_new(DRAFTS) == WORDS_ALONE


async def test_a_deep_embedder_is_not_asked_while_somebody_waits(tmp_path: Path) -> None:
    deep = NamedEmbedder("deep")
    indexer = indexer_of(tmp_path, deep=deep, instant=None)

    assert await indexer.index_new(DRAFTS) == Indexing(is_queued=True)
    assert deep.embedded == 0
    assert indexer.has_lag


@promise("findable")
async def test_instant_vectors_come_with_the_messages_which_wait_for_deep_ones(
    tmp_path: Path,
) -> None:
    deep, instant = NamedEmbedder("deep"), NamedEmbedder("instant")
    indexer = indexer_of(tmp_path, deep=deep, instant=instant)

    indexing = await indexer.index_new(DRAFTS)

    assert indexing.is_queued
    assert indexing.vectors is not None
    assert (indexing.vectors.tier, deep.embedded) == ("instant", 0)
    assert indexing.vectors.identity == instant.identity.as_text()
    assert [len(passages) for passages in indexing.vectors.messages] == [1, 1]
    assert not indexer.has_lag


async def test_the_vectors_of_an_only_embedder_that_is_quick_are_deep(tmp_path: Path) -> None:
    indexer = indexer_of(tmp_path, deep=None, instant=NamedEmbedder("quick and only"))

    indexing = await indexer.index_new(DRAFTS)

    assert indexing.vectors is not None
    assert (indexing.vectors.tier, indexing.is_queued) == ("deep", False)
    assert not indexer.has_lag


@pytest.mark.parametrize("role", ["user", "document"])
@pytest.mark.parametrize("kind", ["conversation", "memory"])
async def test_only_messages_of_conversations_have_vectors_of_sentences(
    tmp_path: Path, role: Role, kind: RecordKind
) -> None:
    indexer = indexer_of(tmp_path, deep=None, instant=NamedEmbedder("quick and only"))
    content = "The harbour opens at six, and the first boat leaves ten minutes later. " * 5

    indexing = await indexer.index_new([MessageDraft(role=role, content=content)], kind=kind)

    assert indexing.vectors is not None
    is_divided = (role, kind) == ("user", "conversation")
    assert [len(passages) for passages in indexing.vectors.messages] == [6 if is_divided else 1]


@pytest.mark.parametrize("failure", EMBEDDING_FAILURES)
@pytest.mark.parametrize("is_alone", [True, False])
async def test_a_quick_embedder_that_fails_leaves_the_messages_waiting(
    tmp_path: Path, failure: type[EngramError], *, is_alone: bool
) -> None:
    quick = NamedEmbedder("quick")

    async def fail() -> None:
        raise failure("no")

    quick.meanwhile = fail
    deep = None if is_alone else NamedEmbedder("deep")
    indexer = indexer_of(tmp_path, deep=deep, instant=quick)

    assert await indexer.index_new(DRAFTS) == Indexing(is_queued=True)
    assert (await indexer.index_new(DRAFTS)).vectors is not None
