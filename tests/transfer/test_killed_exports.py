"""Exports and imports that are killed: nothing is lost, and nothing is doubled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from engram.clock import SystemClock
from engram.errors import InvalidRequestError
from engram.model.access import OrganizationDraft
from engram.model.ids import OrganizationId
from engram.storage.store import Store
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.drafts import begin, findings
from tests.storage.places import store_at
from tests.storage.processes import PROJECT
from tests.transfer.exports import body_of, bring, export, fill

KILLS = 3
"""Of exports, and again of imports, unless `--kills` says otherwise."""

NEVER = 0
"""The step at which nothing is killed."""


def run(place: str, of: OrganizationId, action: str, path: Path, *, killed_at: int) -> int | None:
    """Run the program; return how many steps it had, None if it was killed at one of them."""
    program = [sys.executable, "-m", "tests.transfer.programs.killed_import"]
    command = [*program, place, of, action, str(path), str(killed_at)]
    done = subprocess.run(command, check=False, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert done.returncode in (0, -9)
    return int(done.stdout) if done.returncode == 0 else None


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """Return how often to kill."""
    return KILLS if (given := request.config.getoption("kills")) is None else int(given)


@promise("durable", kills=2 * KILLS)
async def test_an_export_that_is_killed_is_a_beginning_that_no_import_takes_for_the_whole(
    place: str,
    tmp_path: Path,
    clock: FakeClock,
    kills: int,
    record_property: Callable[[str, object], None],
) -> None:
    source, expected = await filled(place, clock)
    path = tmp_path / "export.ndjson"
    steps = run(place, source, "export", path, killed_at=NEVER)
    assert steps is not None
    whole = body_of(path.read_bytes())
    random = Random(8)  # noqa: S311 the same kills in every run

    for _ in range(kills):
        assert run(place, source, "export", path, killed_at=random.randrange(1, steps)) is None
        written = path.read_bytes()
        assert body_of(expected).startswith(body_of(written))
        await refuse(place, written)
    assert run(place, source, "export", path, killed_at=NEVER) == steps

    assert body_of(path.read_bytes()) == whole == body_of(expected)
    record_property("told", f"{kills} exports killed at steps 1 to {steps - 1}")


@promise("durable", kills=2 * KILLS)
async def test_imports_that_are_killed_and_repeated_lose_and_double_nothing(
    place: str,
    tmp_path: Path,
    clock: FakeClock,
    kills: int,
    record_property: Callable[[str, object], None],
) -> None:
    _, expected = await filled(place, clock)
    path = tmp_path / "export.ndjson"
    path.write_bytes(expected)
    steps = run(place, await new_organization(place), "import", path, killed_at=NEVER)
    assert steps is not None
    random = Random(8)  # noqa: S311 the same kills in every run

    killed = targets = 0
    while killed < kills:
        target, targets = await new_organization(place), targets + 1
        # What is resumed has fewer steps: sooner or later it comes to its end before it is killed.
        while run(place, target, "import", path, killed_at=random.randrange(1, steps)) is None:
            killed += 1
        await check_imported(place, target, expected)

    record_property(
        "told", f"{killed} imports into {targets} organisations killed at steps 1 to {steps - 1}"
    )


async def filled(place: str, clock: FakeClock) -> tuple[OrganizationId, bytes]:
    """Return an organisation with all kinds of data, and its export."""
    async with opened(store_at(place, clock=clock)) as store:
        full = await store.organization(await create(store))
        await fill(full, clock)
        for number in range(12):
            await begin(full, *[f"said {number} {n} " + "x" * 500 for n in range(150)])
        return full.organization_id, await export(full)


async def new_organization(place: str) -> OrganizationId:
    async with opened(store_at(place, clock=SystemClock())) as store:
        return await create(store)


async def refuse(place: str, written: bytes) -> None:
    """Check that what a killed export has written is not taken for all of it."""
    async with opened(store_at(place, clock=SystemClock())) as store:
        refusing = await store.organization(await create(store))
        with pytest.raises(InvalidRequestError):
            await bring(refusing, written)


async def check_imported(place: str, target: OrganizationId, expected: bytes) -> None:
    """Check that an organisation has what the export has, once, and nothing is wrong with it."""
    async with opened(store_at(place, clock=SystemClock())) as store:
        imported = await store.organization(target)
        assert body_of(await export(imported)) == body_of(expected)
        assert await findings(imported) == []


async def create(store: Store) -> OrganizationId:
    draft = OrganizationDraft(name="Acme")
    return (await store.control.create_organization(draft, actor="test")).id


@asynccontextmanager
async def opened(store: Store) -> AsyncGenerator[Store]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()
