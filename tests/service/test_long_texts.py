"""Texts longer than a write has time to embed."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram import limits
from engram.clock import RandomIds
from engram.embedding.tiers import Tiers
from engram.model.access import OrganizationDraft, Quota
from engram.model.conversation import AppendRequest, MessageDraft
from engram.service.work.indexing import Indexer
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.service.embedders import NamedEmbedder

pytestmark = promise("findable")


async def test_a_text_too_long_for_the_write_waits_until_all_of_it_is_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INSTANT_PASSAGES_MAX", 2)
    store = SqliteStore(tmp_path, clock=FakeClock(), ids=RandomIds())
    await store.open()
    made = await store.control.create_organization(OrganizationDraft(name="Acme"), actor="test")
    organization = await store.organization(made.id)
    embedder = NamedEmbedder("quick and only", max_tokens=10_000)
    indexer = Indexer(store, Tiers.of(instant=embedder), owner="test")
    drafts = [MessageDraft(role="user", content=text) for text in ("short", "long " * 2_000)]

    await organization.append_messages(
        AppendRequest(messages=tuple(drafts)),
        actor="test",
        quota=Quota(),
        indexing=await indexer.index_new(drafts),
    )

    coverage = await organization.coverage()
    assert (coverage.messages_deep, coverage.messages_without_vector) == (1, 1)
    assert [finding async for finding in organization.verify()] == []
    assert await indexer.work(made.id) == 1
    assert (await organization.coverage()).messages_deep == 2
    assert [finding async for finding in organization.verify()] == []
    await store.close()
