"""Files become memories whole, once, or not at all; exports are the exact inverse."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.embedding.choice import NoEmbedder
from engram.errors import (
    ConflictError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    QuotaExceededError,
)
from engram.model.access import OrganizationDraft, Principal, Quota
from engram.model.ids import EpisodeId
from engram.model.maintenance import Imported
from engram.model.memory import MemoryDraft
from engram.model.value import replace
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service
from tests.promises import promise
from tests.storage.memory_drafts import memory_drafts


class House:
    """A service, whom it serves, and the directory for its files."""

    def __init__(self, service: Service, principal: Principal, data: Path) -> None:
        self.service = service
        self.principal = principal
        self.data = data

    async def ingest(self, path: str, *, project: str = "default") -> Imported:
        importing = self.service.memory_transfer
        return await importing.ingest(self.principal, path, project=project)

    async def claudemd(self, path: str) -> Imported:
        importing = self.service.memory_transfer
        return await importing.import_claudemd(self.principal, path, project="default")

    async def contents(self, project: str = "default") -> list[str]:
        """Return what the memories of a project say, the first stored first."""
        page = await self.service.projects.dump(
            self.principal, project=project, offset=0, token_budget=100_000
        )
        return [memory.content for memory in reversed(page.memories)]

    async def of(self, name: str) -> House:
        """Return the same house as another organisation sees it."""
        made, _ = await self.service.operator.create_organization(OrganizationDraft(name=name))
        data = self.data.parent / made.id
        data.mkdir()
        return House(self.service, await self.service.operator.act_for(made.id), data)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """A house with an empty data directory."""
    data = tmp_path / "data"
    data.mkdir()
    settings = Settings(home=tmp_path / "store", embedder=NoEmbedder(), data_dir=data)
    async with open_service(settings) as service:
        principal = await service.access.local_principal()
        (data / principal.organization_id).mkdir()
        yield House(service, principal, data / principal.organization_id)


async def test_one_file_that_cannot_be_stored_stops_all_and_is_named(house: House) -> None:
    (house.data / "a.md").write_text("fine")
    (house.data / "z.md").write_bytes(b"x" * (limits.MEMORY_BYTES_MAX + 1))

    with pytest.raises(LimitExceededError, match=r"z\.md"):
        await house.ingest(".")
    (house.data / "z.md").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidRequestError, match=r"z\.md.*UTF-8"):
        await house.ingest(".")

    assert await house.contents() == []


async def test_too_many_files_are_refused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMPORT_FILES_MAX", 2)
    for number in range(3):
        (house.data / f"{number}.md").write_text(f"note {number}")

    with pytest.raises(LimitExceededError):
        await house.ingest(".")
    assert await house.contents() == []


async def test_more_files_than_a_batch_holds_are_all_stored(house: House) -> None:
    for number in range(limits.MEMORIES_PER_CALL_MAX + 5):
        (house.data / f"{number:03}.txt").write_text(f"note {number}")

    imported = await house.ingest(".")

    assert len(imported.stored) == imported.files == limits.MEMORIES_PER_CALL_MAX + 5
    assert (await house.contents())[0] == "note 0"


@promise("verbatim")
async def test_a_file_is_stored_byte_for_byte(house: House) -> None:
    text = "\ufeff---\ntitle: mine\n---\r\n\0 a\rb\x1b[0m\n\n"
    (house.data / "a.md").write_bytes(text.encode())

    await house.ingest("a.md")

    assert await house.contents() == [text]


async def test_files_of_other_kinds_and_links_are_not_taken(house: House, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    (house.data / "link.md").symlink_to(tmp_path / "secret.md")
    (house.data / "picture.png").write_bytes(b"\x89PNG")

    imported = await house.ingest(".")

    assert imported.files == 0
    with pytest.raises(InvalidRequestError):
        await house.ingest("picture.png")
    with pytest.raises(InvalidRequestError):
        await house.ingest("link.md")


async def test_a_section_that_is_too_long_is_named(house: House) -> None:
    long = "x" * (limits.MEMORY_BYTES_MAX + 1)
    (house.data / "CLAUDE.md").write_text(f"# Short\n\nfine\n\n# Long\n\n{long}\n")

    with pytest.raises(LimitExceededError, match=r"CLAUDE\.md#Long"):
        await house.claudemd("CLAUDE.md")
    assert await house.contents() == []


async def test_a_changed_section_becomes_a_memory_of_its_own(house: House) -> None:
    file = house.data / "CLAUDE.md"
    file.write_text("intro\n# A\none\n# B\ntwo\n")
    await house.claudemd("CLAUDE.md")
    file.write_text("intro\n# A\none\n# B\nthree\n")

    again = await house.claudemd("CLAUDE.md")

    assert (len(again.stored), again.duplicates) == (1, 2)
    assert await house.contents() == ["intro", "# A\none", "# B\ntwo", "# B\nthree"]


@given(drafts=st.lists(memory_drafts, min_size=1, max_size=4))
async def test_an_export_is_undone_by_taking_it_back(
    house: House, drafts: list[MemoryDraft]
) -> None:
    here, there = await house.of("here"), await house.of("there")
    await here.service.memories.store_batch(here.principal, drafts)
    await here.service.memory_transfer.export_all(here.principal, "out")
    shutil.copytree(here.data / "out", there.data / "in")

    await there.ingest("in")
    await there.service.memory_transfer.export_all(there.principal, "out")

    files = [
        {path.name: path.read_bytes() for path in (each.data / "out" / "memories").iterdir()}
        for each in (here, there)
    ]
    assert files[0] == files[1]
    assert len(files[0]) == len(drafts)


async def test_a_second_export_replaces_the_first(house: House) -> None:
    exporting = house.service.memory_transfer
    (house.data / "a.md").write_text("to be purged")
    (house.data / "b.md").write_text("to stay")
    imported = await house.ingest(".")
    await exporting.export_all(house.principal, "out")
    await house.service.memories.purge(house.principal, imported.stored[0])

    exported = await exporting.export_all(house.principal, "out")

    (file,) = (house.data / "out" / "memories").iterdir()
    assert exported.memories == 1
    assert file.read_bytes().endswith(b"to stay")


@promise("files")
async def test_an_export_never_overwrites_what_is_not_an_export(house: House) -> None:
    (house.data / "mine").mkdir()
    (house.data / "mine" / "thesis.md").write_text("years of work")
    (house.data / "file").write_text("a file")

    for path in ("mine", "file", "."):
        with pytest.raises(ConflictError):
            await house.service.memory_transfer.export_all(house.principal, path)
    assert [path.name for path in (house.data / "mine").iterdir()] == ["thesis.md"]


async def test_a_changed_file_of_an_export_is_named(house: House) -> None:
    await house.service.memories.store(house.principal, MemoryDraft(content="as it was"))
    await house.service.memory_transfer.export_all(house.principal, "out")
    (file,) = (house.data / "out" / "memories").iterdir()
    file.write_bytes(file.read_bytes() + b"!")

    with pytest.raises(InvalidRequestError) as caught:
        await house.ingest("out")
    assert file.name in (caught.value.field or "")


@promise("files")
async def test_without_a_data_directory_nothing_is_read_or_written(
    service: Service, principal: Principal
) -> None:
    with pytest.raises(InvalidRequestError, match="ENGRAM_DATA_DIR"):
        await service.memory_transfer.export_all(principal, "out")
    with pytest.raises(InvalidRequestError, match="ENGRAM_DATA_DIR"):
        await service.memory_transfer.ingest(principal, "in", project="p")


async def test_an_episode_of_another_project_is_unknown(
    service: Service, principal: Principal
) -> None:
    episodes = service.episodes
    begun = await episodes.start(principal, "mine", "work")

    for project, episode_id in (("theirs", begun.id), ("mine", EpisodeId("ep_absent"))):
        with pytest.raises(NotFoundError):
            await episodes.recall(principal, episode_id, project=project, limit=5, offset=0)
        with pytest.raises(NotFoundError):
            await episodes.end(principal, episode_id, project=project, summary=None)


async def test_an_export_counts_towards_the_quota_and_one_that_does_not_fit_leaves_no_page(
    house: House,
) -> None:
    drafts = [MemoryDraft(content=f"{number} " + "x" * 1_000) for number in range(3)]
    await house.service.memories.store_batch(house.principal, drafts)
    before = (await house.service.account.usage(house.principal)).stored_bytes
    exporting = house.service.memory_transfer
    bounded = replace(house.principal, quota=Quota(bytes_max=before + 6_000))

    await exporting.export_all(bounded, "first")
    await exporting.export_all(bounded, "first")
    with pytest.raises(QuotaExceededError) as refused:
        await exporting.export_all(bounded, "second")
    with pytest.raises(QuotaExceededError):
        await house.service.memories.store(bounded, drafts[0])

    files = [path for path in house.data.rglob("*") if path.is_file()]
    pages = [path for path in files if path.suffix == ".md"]
    assert refused.value.resource == "bytes"
    assert {path.relative_to(house.data).parts[0] for path in pages} == {"first"}
    used = (await house.service.account.usage(house.principal)).stored_bytes
    assert used - before == sum(limits.STORED_ROW_BYTES + path.stat().st_size for path in files)


async def test_files_of_other_organisations_and_those_removed_by_hand_do_not_count(
    house: House,
) -> None:
    other = await house.of("other")
    for each in (house, other):
        draft = MemoryDraft(content="y" * 1_000)
        await each.service.memories.store(each.principal, draft)
        before = (await each.service.account.usage(each.principal)).stored_bytes
        exporting = each.service.memory_transfer
        await exporting.export_all(each.principal, f"of-{each.principal.organization_id}")
        shutil.rmtree(each.data / f"of-{each.principal.organization_id}" / "memories")

        await exporting.export_all(each.principal, "again" if each is house else "once-more")

        mine = [path for path in each.data.rglob("*") if path.is_file()]
        used = (await each.service.account.usage(each.principal)).stored_bytes
        assert used - before == sum(limits.STORED_ROW_BYTES + path.stat().st_size for path in mine)
