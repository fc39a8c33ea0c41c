"""The recipes of the guide for PostgreSQL: a dump that is restored, and a return to a moment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from engram.model.conversation import MessageQuery
from engram.model.ids import ConversationId
from engram.storage.organization import OrganizationStore
from tests.postgres.databases import as_owner
from tests.postgres.recipes import blocks, run
from tests.postgres.servers import Server, Servers, running_servers, wait_until
from tests.postgres.stores import new_organization, opened
from tests.storage.drafts import append, begin, findings

PAGE = "backup.md"


@pytest.fixture
def servers() -> Iterator[Servers]:
    with running_servers() as servers:
        yield servers


async def test_a_dump_is_restored_on_another_server(
    database_url: str, servers: Servers, tmp_path: Path
) -> None:
    async with opened(database_url) as store:
        conversation_id = await begin(await new_organization(store), "kept in a dump")
    other = await anyio.to_thread.run_sync(servers.primary)
    dump, restore, *_ = blocks(PAGE, "sh")

    await anyio.to_thread.run_sync(lambda: run(dump, tmp_path, OWNER_URL=as_owner(database_url)))
    checked = await anyio.to_thread.run_sync(
        lambda: run(
            restore,
            tmp_path,
            NEW_SERVER_URL=other.socket_url(),
            NEW_URL=other.socket_url("engram_restored"),
        )
    )

    assert "no problems found" in checked
    async with opened(other.socket_url("engram_restored")) as store:
        (organization,) = await store.control.list_organizations()
        restored = await store.organization(organization.id)
        assert await first_texts(restored, conversation_id) == ["kept in a dump"]


async def test_a_base_backup_and_the_archive_lead_back_to_a_moment(servers: Servers) -> None:
    primary = await anyio.to_thread.run_sync(servers.primary)
    archive = primary.make_directory("archive")
    archiving, recovery = (
        block.replace("/mnt/archive", str(archive)).splitlines() for block in blocks(PAGE, "ini")
    )
    base_backup = next(block for block in blocks(PAGE, "sh") if block.startswith("pg_basebackup"))
    options = [each for each in base_backup.split() if re.match("--(checkpoint|wal)", each)]
    await anyio.to_thread.run_sync(lambda: primary.restart_with(*archiving))
    async with opened(primary.url()) as store:
        organization = await new_organization(store)
        conversation_id = await begin(organization, "in the base backup")
        copied = servers.blank()
        await anyio.to_thread.run_sync(lambda: copied.copy(primary, *options))
        await append(organization, "before the moment", to=conversation_id)
        ((moment,),) = primary.execute("SELECT clock_timestamp()::text")
        await append(organization, "after the moment", to=conversation_id)
        await anyio.to_thread.run_sync(lambda: archive_all(primary, archive))
        organization_id = organization.organization_id

    lines = [re.sub(r"^(recovery_target_time = ).*", rf"\1'{moment}'", line) for line in recovery]
    await anyio.to_thread.run_sync(lambda: copied.recover_with(*lines))

    async with opened(copied.url()) as store:
        recovered = await store.organization(organization_id)
        assert await first_texts(recovered, conversation_id) == [
            "in the base backup",
            "before the moment",
        ]
        assert await findings(recovered) == []


def archive_all(primary: Server, archive: Path) -> None:
    """Return when the log up to now is in the archive."""
    ((name,),) = primary.execute("SELECT pg_walfile_name(pg_switch_wal())")
    wait_until((archive / name).exists, what="the log to be archived")


async def first_texts(
    organization: OrganizationStore, conversation_id: ConversationId
) -> list[str]:
    query = MessageQuery(conversation_id=conversation_id, message_limit=10)
    page = await organization.get_conversation(query)
    return [message.content for message in page.messages]
