"""Organisations without work cost nothing: what goes over the wire does not depend on how many there are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from engram.clock import RandomIds, SystemClock
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.tiers import Tiers
from engram.model.access import OrganizationDraft
from engram.model.conversation import AppendRequest
from engram.model.ids import OrganizationId
from engram.model.search import SearchRequest
from engram.settings import Settings
from engram.storage.postgres.store import PostgresStore
from engram.wiring import build_service
from tests.postgres.servers import Server
from tests.postgres.stores import opened
from tests.postgres.trips import CountedWire, counted_wire
from tests.storage.drafts import ACTOR, drafts

_SETTLE = """
DELETE FROM engram.due WHERE kind <> 'scrub';
UPDATE engram.due SET due_at = 1000000 * extract(epoch FROM now() + interval '7 days')
"""
"""As it is after every organisation was looked at."""

_WHOSE = re.compile(r"(?<=^SET LOCAL engram\.).*")


async def add_organizations(url: str, server: Server, *, count: int) -> OrganizationId:
    """Add organisations that have been used, and need nothing now; return the last."""
    async with opened(url) as store:
        made: list[OrganizationId] = []
        for number in range(count):
            draft = OrganizationDraft(name=f"idle {number}")
            made.append((await store.control.create_organization(draft, actor=ACTOR)).id)
            await store.organization(made[-1])
        server.execute(_SETTLE, database="engram_test")
        return made[-1]


async def statements_of_a_process(
    wire: CountedWire, organization_id: OrganizationId, home: Path
) -> Counter[str]:
    """Return what a process sends that starts, looks for work, serves one organisation, and stops."""
    wire.statements.clear()
    url = wire.url("engram_test").replace("postgres@", "engram_server@")
    clock, ids = SystemClock(), RandomIds()
    store = PostgresStore(url, clock=clock, ids=ids)
    await store.open()
    tiers = Tiers.of(deep=HashedEmbedder())
    service = build_service(store, tiers, Settings(home=home), clock=clock, ids=ids)
    for _ in range(3):
        await service.background.take_due()
    principal = await service.operator.act_for(organization_id)
    request = AppendRequest(messages=drafts("tanuki are tricksters"))
    await service.conversations.append_messages(principal, request)
    await service.indexer.work_queued()
    await service.background.take_due()
    await service.search.search(principal, SearchRequest(query="tricksters"))
    await tiers.close()
    await store.close()
    return Counter(_WHOSE.sub("whose", each) for each in wire.statements)


async def test_a_process_sends_the_same_however_many_organisations_are_idle(
    database_url: str, postgres_server: Server, tmp_path: Path
) -> None:
    async with counted_wire(postgres_server) as wire:
        one_of_few = await add_organizations(database_url, postgres_server, count=5)
        few = await statements_of_a_process(wire, one_of_few, tmp_path)
        one_of_many = await add_organizations(database_url, postgres_server, count=45)
        many = await statements_of_a_process(wire, one_of_many, tmp_path)

    assert few.total() > 50
    assert many == few
