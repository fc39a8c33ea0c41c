"""What went wrong when engram-go looked after memories, shown not to happen here.

The numbers are those of the reference: its section on consolidation, and its list of lessons.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engram.clock import RandomIds
from engram.embedding.choice import NoEmbedder
from engram.errors import InvalidRequestError, NotFoundError
from engram.mcp.tools import TOOLS_BY_NAME
from engram.model.access import Principal
from engram.service import Service
from engram.settings import Settings
from engram.text.near_duplicates import BANDS, PERMUTATIONS, find_candidates
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.promises import promise
from tests.tool_calls import call_tool

FACT = "The nightly backup of the billing database runs at two and is kept for thirty days."
NEAR = "The nightly backup of the billing database runs at two, and is kept for thirty days!"


class House:
    """One organisation, reached through its tools."""

    def __init__(
        self, service: Service, principal: Principal, clock: FakeClock, home: Path
    ) -> None:
        self.service = service
        self.principal = principal
        self.clock = clock
        self.data = home / "data" / principal.organization_id
        self._file = home / "store" / "orgs" / f"{principal.organization_id}.db"

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await call_tool(self.service, self.principal, tool, **arguments)

    async def store(self, content: str, **fields: Any) -> str:
        self.clock.advance(timedelta(minutes=1))
        return (await self.call("memory_store", content=content, **fields))["id"]

    def rows(self) -> dict[str, list[Any]]:
        """Return every row of the organisation's file, but for the count of its commits."""
        with closing(sqlite3.connect(self._file)) as connection:
            tables = connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table'"
                " AND sql LIKE '%organization_id%' AND name <> 'meta'"
            ).fetchall()
            return {
                name: connection.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 our own
                for (name,) in tables
            }


@pytest.fixture
async def house(tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    """A house with a data directory and no language model."""
    settings = Settings(home=tmp_path / "store", embedder=NoEmbedder(), data_dir=tmp_path / "data")
    async with open_service(settings, clock=clock, ids=RandomIds()) as service:
        made = House(service, await service.access.local_principal(), clock, tmp_path)
        made.data.mkdir(parents=True)
        yield made


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@promise("maintenance")
async def test_3_9_consolidation_deletes_nothing_however_old_trivial_or_expired(
    house: House,
) -> None:
    soon = house.clock.now() + timedelta(hours=1)
    trivial = await house.store("Nobody ever asked for this remark again.", importance=4)
    expired = await house.store("This was true for an hour.", expires_at=soon.isoformat())
    weak = await house.store("Loosely related to something else.")
    await house.call("memory_connect", source_id=weak, target_id=trivial, strength=0.05)
    house.clock.advance(timedelta(days=400))
    before = house.rows()

    for _ in range(3):
        await house.call("memory_consolidate")

    assert house.rows() == before
    for memory_id in (trivial, expired, weak):
        assert (await house.call("memory_fetch", id=memory_id, detail="full"))["content"]


@promise("maintenance")
async def test_3_9_near_duplicates_are_merged_without_a_language_model(house: House) -> None:
    older, newer = await house.store(FACT), await house.store(NEAR)

    done = await house.call("memory_consolidate")

    assert [(merge["merged_id"], merge["kept_id"]) for merge in done["merges"]] == [(older, newer)]


@promise("maintenance")
async def test_3_9_and_4_2_14_the_text_that_gives_way_is_kept_and_can_come_back(
    house: House,
) -> None:
    older, newer = await house.store(FACT, tags=["a"]), await house.store(NEAR, tags=["a"])

    await house.call("memory_consolidate")

    kept = await house.call("memory_fetch", id=newer, detail="full")
    assert kept["content"] == NEAR
    (version,) = (await house.call("memory_history", memory_id=older))["versions"]
    assert (version["content"], version["tags"], version["change_type"]) == (FACT, ["a"], "merge")
    await house.call("memory_consolidate", undo=[older])
    listed = await house.call("memory_list")
    assert {memory["content"] for memory in listed["memories"]} == {FACT, NEAR}


async def test_3_9_the_501st_memory_and_short_and_long_ones_are_compared_too(
    house: House,
) -> None:
    some = [{"content": f"{number} is the square of {number}?"} for number in range(520)]
    for start in range(0, len(some), 100):
        await house.call("memory_store_batch", memories=some[start : start + 100])
    long = " ".join(f"{FACT} Case {number}." for number in range(200))
    pairs = [("Use tabs.", "use tabs."), (FACT, NEAR), (long, f"{long} ")]
    older = [await house.store(first) for first, _ in pairs]
    for _, second in pairs:
        await house.store(second)

    done = await house.call("memory_consolidate")

    assert {merge["merged_id"] for merge in done["merges"]} == set(older)
    assert done["examined"] == 526


@promise("maintenance")
def test_3_9_candidates_are_found_as_often_as_the_formula_says() -> None:
    rows = PERMUTATIONS // BANDS
    chance = 1 - (1 - 0.85**rows) ** BANDS

    assert (PERMUTATIONS, BANDS, rows) == (128, 16, 8)
    assert chance == pytest.approx(0.994, abs=0.0005)


@promise("maintenance")
def test_3_9_the_seed_is_fixed() -> None:
    texts = [f"fact number {'x' * number} of a long list of facts" for number in range(60)]

    assert find_candidates(texts) == find_candidates(texts)
    assert find_candidates(texts)


async def test_3_9_nothing_is_called_a_contradiction_by_guesswork(house: House) -> None:
    await house.store("The cache of the gateway is enabled in production since March.")
    await house.store("The gateway's cache was never enabled, said somebody about production.")

    await house.call("memory_consolidate")

    assert (await house.call("memory_status"))["total_relationships"] == 0


async def test_4_2_3_every_field_survives_an_export_and_its_way_back(
    house: House, tmp_path: Path, clock: FakeClock
) -> None:
    episode = await house.call("memory_episode_start", description="work")
    memory_id = await house.store(
        FACT,
        memory_type="decision",
        category="technical",
        source="review",
        importance=0,
        tags=["a", "b"],
        project="p",
        immutable=True,
        episode_id=episode["episode_id"],
        pattern_confidence=0.75,
        valid_from="2026-01-02T03:04:05Z",
        valid_to="2099-01-02T03:04:05Z",
        expires_at="2098-01-02T03:04:05Z",
    )
    await house.call("memory_summarize", memory_id=memory_id, project="p")
    (before,) = (await house.call("memory_dump", project="p"))["memories"]
    await house.call("memory_export_all")
    settings = Settings(home=tmp_path / "other", embedder=NoEmbedder(), data_dir=tmp_path / "data")

    async with open_service(settings, clock=clock) as service:
        other = House(service, await service.access.local_principal(), clock, tmp_path)
        shutil.copytree(house.data, other.data)
        await other.call("memory_ingest", path="memory-export")
        (after,) = (await other.call("memory_dump", project="p"))["memories"]

    assert after == before


@promise("reproducible")
async def test_4_2_5_reading_writes_nothing(house: House) -> None:
    episode = await house.call("memory_episode_start", description="work")
    await house.store(FACT, episode_id=episode["episode_id"])
    await house.store(NEAR)
    # The bytes of its files count towards the quota; an export of the same again adds none.
    await house.call("memory_export_all")
    before = house.rows()

    await house.call("memory_verify")
    await house.call("memory_dump")
    await house.call("memory_export_all")
    await house.call("memory_episode_list")
    await house.call("memory_episode_recall", episode_id=episode["episode_id"])
    await house.call("memory_consolidate", dry_run=True)

    assert house.rows() == before


async def test_4_2_10_an_episode_of_another_project_is_not_recalled(house: House) -> None:
    episode = await house.call("memory_episode_start", description="secret", project="mine")
    await house.store(FACT, project="mine", episode_id=episode["episode_id"])

    with pytest.raises(NotFoundError):
        await house.call("memory_episode_recall", episode_id=episode["episode_id"])


@promise("files")
@pytest.mark.parametrize("tool", ["memory_ingest", "memory_import_claudemd"])
@pytest.mark.parametrize("path", ["../secret.md", "link.md", "up/secret.md", "SECRET"])
async def test_4_2_10_no_path_leads_out_of_the_data_directory(
    house: House, tmp_path: Path, tool: str, path: str
) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("# secret\n\nof the operator")
    (house.data / "link.md").symlink_to(secret)
    (house.data / "up").symlink_to(tmp_path)

    with pytest.raises(InvalidRequestError):
        await house.call(tool, path=path.replace("SECRET", str(secret)))
    assert (await house.call("memory_list"))["total"] == 0


async def test_4_2_10_a_project_is_deleted_only_with_its_name_repeated(house: House) -> None:
    await house.store(FACT, project="p")

    for confirm in ("", "P", "yes", "p "):
        with pytest.raises(InvalidRequestError):
            await house.call("memory_delete_project", project="p", confirm=confirm)
    assert (await house.call("memory_list", project="p"))["total"] == 1


@pytest.mark.parametrize(
    ("tool", "argument", "former"),
    [
        ("memory_export_all", "output_path", "output_dir"),
        ("memory_connect", "strength", "weight"),
        ("memory_import_claudemd", "path", "content"),
        ("memory_correct", "content", "new_content"),
        ("memory_correct", "memory_id", "old_memory_id"),
    ],
)
def test_4_2_13_arguments_are_called_what_the_schema_and_the_docs_call_them(
    tool: str, argument: str, former: str
) -> None:
    properties = TOOLS_BY_NAME[tool].input_schema["properties"]
    page = Path(__file__).parents[2] / "docs" / "reference" / "mcp.md"
    section = page.read_text().split(f"## `{tool}`")[1].split("\n## ")[0]

    assert argument in properties
    assert former not in properties
    assert f"`{argument}`" in section
