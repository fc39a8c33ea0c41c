"""What an operator and a client are told about the search by meaning."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engram.clock import RandomIds
from engram.embedding.port import EmbedderIdentity
from engram.embedding.tiers import Tiers
from engram.errors import EmbedderUnavailableError
from engram.model.access import OrganizationDraft
from engram.search.query import EmbedderStatus
from engram.storage.organization import OrganizationStore
from engram.storage.sqlite.store import SqliteStore
from tests.fakes import FakeClock
from tests.service.embedders import NamedEmbedder


class MissingEmbedder(NamedEmbedder):
    """Knows its name, and cannot be asked."""

    async def probe(self) -> None:
        raise EmbedderUnavailableError("its files are missing")


class SilentEmbedder(MissingEmbedder):
    """Does not even know its name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked = 0

    async def identify(self) -> EmbedderIdentity:
        self.asked += 1
        raise EmbedderUnavailableError("nobody answers")


@pytest.fixture
async def organization(tmp_path: Path) -> AsyncIterator[OrganizationStore]:
    """Yield the empty store of an organisation."""
    store = SqliteStore(tmp_path, clock=FakeClock(), ids=RandomIds())
    await store.open()
    made = await store.control.create_organization(OrganizationDraft(name="Acme"), actor="test")
    yield await store.organization(made.id)
    await store.close()


DEEP = NamedEmbedder("deep")
INSTANT = NamedEmbedder("instant")


@pytest.mark.parametrize(
    ("tiers", "degraded"),
    [
        (Tiers(), ("words_only",)),
        (Tiers.of(deep=DEEP), ()),
        (Tiers.of(deep=DEEP, instant=INSTANT), ()),
        (Tiers.of(deep=MissingEmbedder("deep"), instant=INSTANT), ("embedder_unavailable",)),
        (Tiers.of(deep=DEEP, instant=MissingEmbedder("instant")), ("instant_unavailable",)),
        (Tiers.of(instant=MissingEmbedder("only")), ("words_only", "embedder_unavailable")),
        (
            Tiers.of(deep=MissingEmbedder("deep"), instant=MissingEmbedder("instant")),
            ("words_only", "embedder_unavailable", "instant_unavailable"),
        ),
    ],
)
async def test_what_searches_do_without_is_known_after_a_probe(
    tiers: Tiers, degraded: tuple[str, ...]
) -> None:
    meaning = EmbedderStatus(tiers)

    await meaning.probe()

    assert meaning.degraded == degraded


async def test_the_embedder_is_named_even_while_it_cannot_be_asked() -> None:
    meaning = EmbedderStatus(Tiers.of(deep=MissingEmbedder("deep"), instant=INSTANT))
    assert await meaning.embedder_name() == "deep"

    await meaning.probe()

    assert await meaning.embedder_name() == "deep"


async def test_an_embedder_that_nobody_knows_is_asked_no_more_than_once() -> None:
    silent = SilentEmbedder("silent")
    meaning = EmbedderStatus(Tiers.of(deep=silent))

    names = [await meaning.embedder_name() for _ in range(3)]

    assert names == [None] * 3
    assert silent.asked == 1


async def test_without_an_embedder_there_is_no_name_and_no_change(
    organization: OrganizationStore,
) -> None:
    await organization.adopt_embedder(DEEP.identity.as_text())
    meaning = EmbedderStatus(Tiers())

    assert await meaning.embedder_name() is None
    assert await meaning.find_mismatch(organization) == ()


async def test_a_change_of_the_embedder_is_told(organization: OrganizationStore) -> None:
    old, new = (
        EmbedderStatus(Tiers.of(deep=DEEP)),
        EmbedderStatus(Tiers.of(deep=NamedEmbedder("new"))),
    )
    assert await new.find_mismatch(organization) == ()

    await organization.adopt_embedder(DEEP.identity.as_text())

    assert await old.find_mismatch(organization) == ()
    assert await new.find_mismatch(organization) == ("embedder_changed",)


async def test_whether_it_has_changed_is_not_told_while_nobody_knows(
    organization: OrganizationStore,
) -> None:
    await organization.adopt_embedder(DEEP.identity.as_text())

    assert (
        await EmbedderStatus(Tiers.of(deep=SilentEmbedder("silent"))).find_mismatch(organization)
        == ()
    )
