"""The data directory has a part for each organisation, and nobody sees another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint

from engram import limits
from engram.clock import RandomIds
from engram.embedding.choice import NoEmbedder
from engram.errors import ConflictError, EngramError
from engram.model.access import OrganizationDraft, Principal
from engram.model.memory import MemoryDraft
from engram.model.value import replace
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.promises import promise

TRIES = 25
"""Before each organisation had a directory, ten of twenty-five failed."""


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Return settings of a store, and of a data directory that is empty."""
    url = None if request.param == "sqlite" else request.getfixturevalue("database_url")
    (tmp_path / "data").mkdir()
    return Settings(
        home=tmp_path / "store",
        database_url=url,
        embedder=NoEmbedder(),
        data_dir=tmp_path / "data",
    )


@pytest.fixture
async def service(settings: Settings) -> AsyncIterator[Service]:
    async with open_service(settings) as opened:
        yield opened


@pytest.fixture
def data(settings: Settings) -> Path:
    assert settings.data_dir is not None
    return settings.data_dir


async def new_organization(service: Service, name: str, *, memories: int = 1) -> Principal:
    """Return an organisation with memories, each of which says its name."""
    made, _ = await service.operator.create_organization(OrganizationDraft(name=name))
    principal = await service.operator.act_for(made.id)
    drafts = [MemoryDraft(content=f"{name}: secret {number}") for number in range(memories)]
    await service.memories.store_batch(principal, drafts)
    return principal


async def export(service: Service, principal: Principal, path: str) -> None:
    await service.memory_transfer.export_all(principal, path)


async def seen_at(service: Service, principal: Principal, path: str) -> set[str]:
    """Return whose secrets an organisation knows once it has taken in what is at a path."""
    with suppress(EngramError):
        await service.memory_transfer.ingest(principal, path, project="default")
    page = await service.projects.dump(principal, project="default", offset=0, token_budget=100_000)
    return {memory.content.partition(":")[0] for memory in page.memories}


@promise("files")
async def test_organisations_that_export_to_one_path_at_once_read_only_their_own(
    service: Service,
) -> None:
    ours = await new_organization(service, "ours", memories=3)
    theirs = await new_organization(service, "theirs", memories=3)

    for number in range(TRIES):
        path = f"out-{number}"
        await asyncio.gather(
            export(service, ours, path), export(service, theirs, path), return_exceptions=True
        )

        assert await seen_at(service, ours, path) == {"ours"}
        assert await seen_at(service, theirs, path) == {"theirs"}


@promise("files")
async def test_the_exports_of_a_deleted_organisation_are_nobodys(service: Service) -> None:
    gone, other = [await new_organization(service, name) for name in ("gone", "other")]
    await export(service, gone, "out")

    await service.operator.delete_organization(gone.organization_id)

    for path in ("out", "out/memories", f"{gone.organization_id}/out", "."):
        assert await seen_at(service, other, path) == {"other"}


async def test_an_organisation_that_exports_to_its_whole_directory_is_in_nobodys_way(
    service: Service,
) -> None:
    names = ("first", "second", "third")
    first, second, third = [await new_organization(service, name) for name in names]
    await export(service, first, ".")

    await export(service, second, ".")
    await export(service, third, "out")

    for principal, name in zip((first, second, third), names, strict=True):
        assert await seen_at(service, principal, ".") == {name}


@promise("files")
@pytest.mark.parametrize("by", ["operator", "itself"])
async def test_the_files_of_an_organisation_go_with_it(
    service: Service, data: Path, tmp_path: Path, by: str
) -> None:
    gone, other = [await new_organization(service, name) for name in ("gone", "other")]
    for principal in (gone, other):
        await export(service, principal, "deep/out")
    (tmp_path / "kept.md").write_text("of the operator")
    (data / gone.organization_id / "link").symlink_to(tmp_path)

    if by == "operator":
        await service.operator.delete_organization(gone.organization_id)
    else:
        await service.account.delete_account(gone, organization="gone")

    assert {path.name for path in data.glob("*org_*")} == {other.organization_id}
    assert (tmp_path / "kept.md").exists()
    assert await seen_at(service, other, "deep/out") == {"other"}


async def test_files_that_a_dead_process_left_are_removed_at_the_next_start(
    settings: Settings, data: Path
) -> None:
    without_files = replace(settings, data_dir=None)
    async with open_service(settings) as service:
        gone, half, other = [await new_organization(service, n) for n in ("gone", "half", "other")]
        for principal in (gone, half, other):
            await export(service, principal, "out")
    (data / half.organization_id).rename(data / f".removed-{half.organization_id}")
    async with open_service(without_files) as service:
        for principal in (gone, half):
            await service.operator.delete_organization(principal.organization_id)
    assert len([*data.glob("*org_*")]) == 3

    async with open_service(settings) as service, service.background_work():
        with anyio.fail_after(60):
            while len([*data.glob("*org_*")]) > 1:
                await checkpoint()

    assert (data / other.organization_id / "out").is_dir()


async def test_files_of_organisations_of_another_store_are_left_alone(
    service: Service, data: Path
) -> None:
    (data / "org_of_another_store" / "out").mkdir(parents=True)

    await service.files.tidy()

    assert (data / "org_of_another_store" / "out").is_dir()


class SameOrganization(RandomIds):
    """Gives every organisation one id, as restoring one does."""

    def new(self, prefix: str) -> str:
        return "org_restored" if prefix == "org_" else super().new(prefix)


async def test_an_organisation_that_was_deleted_and_restored_keeps_its_new_files(
    settings: Settings, data: Path
) -> None:
    async with open_service(settings, ids=SameOrganization()) as service:
        gone = await new_organization(service, "gone")
        await service.operator.delete_organization(gone.organization_id)
    async with open_service(settings, ids=SameOrganization()) as service:
        restored = await new_organization(service, "restored")
        await export(service, restored, "out")

        with pytest.raises(ConflictError):
            await export(service, restored, ".")
        await service.files.tidy()

    assert (data / restored.organization_id / "out").is_dir()


async def test_an_export_beside_the_deletion_of_its_organisation_leaves_nothing(
    service: Service, data: Path
) -> None:
    for number in range(10):
        gone = await new_organization(service, f"gone {number}")
        await asyncio.gather(
            export(service, gone, "out"),
            service.operator.delete_organization(gone.organization_id),
            return_exceptions=True,
        )

    assert [*data.glob("*org_*")] == []


async def test_exports_of_an_earlier_version_are_found_under_their_paths(
    service: Service, settings: Settings, data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = [await new_organization(service, name) for name in ("ours", "theirs")]
    for principal in (ours, theirs):
        await export(service, principal, "out")
    (data / ".engram-layout").unlink()
    (data / ours.organization_id / "out").rename(data / "our-out")
    (data / theirs.organization_id / "out").rename(data / "their-out")
    await service.operator.delete_organization(theirs.organization_id)

    async with open_service(settings) as another:
        assert await seen_at(another, ours, "our-out") == {"ours"}
        assert await seen_at(another, ours, "their-out") == {"ours"}

    assert (data / "unclaimed" / "their-out").is_dir()
    assert "their-out" in caplog.text


async def test_the_bytes_of_a_directory_are_those_of_its_files(
    service: Service, data: Path, tmp_path: Path
) -> None:
    ours = await new_organization(service, "ours")
    assert await service.files.counted_bytes(ours.organization_id) == 0
    (data / ours.organization_id / "deep" / "down").mkdir(parents=True)
    (data / ours.organization_id / "deep" / "down" / "a.md").write_bytes(b"12345")
    (data / ours.organization_id / "b.md").write_bytes(b"123")
    (tmp_path / "big").write_bytes(b"x" * 1_000)
    (data / ours.organization_id / "link").symlink_to(tmp_path)

    assert (
        await service.files.counted_bytes(ours.organization_id) == 8 + 2 * limits.STORED_ROW_BYTES
    )
