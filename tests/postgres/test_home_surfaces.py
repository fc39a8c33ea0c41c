"""What operators and clients see of homes: commands, REST, readiness and the doctor."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import httpx
import pytest

from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.settings import Settings
from engram.wiring import open_service, plan_upgrade
from tests.cli.commands import Engram
from tests.postgres.homes import Installation, installation, new_database
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, append, connect, new_conversation, new_key, refusal

__all__ = ["installation"]
"""The fixture."""


@pytest.fixture
def settings(installation: Installation, tmp_path: Path) -> Settings:
    return Settings(
        home=tmp_path,
        database_url=installation.url,
        embedder=NoEmbedder(),
        admin_token=ADMIN_TOKEN,
        rate_limit=0,
    )


@pytest.fixture
async def clients(settings: Settings) -> AsyncIterator[dict[str, httpx.AsyncClient]]:
    """Yield clients of organisations at two homes, by the names of these."""
    app = create_app(settings)
    async with app.lifespan(), connect(app, ADMIN_TOKEN) as operator:
        keys = {name: await new_key(operator, home=name) for name in ("one", "two")}
        async with connect(app, keys["one"]) as one, connect(app, keys["two"]) as two:
            yield {"one": one, "two": two, "operator": operator}


@promise("failures")
async def test_a_home_that_is_away_refuses_its_own_clients_alone_and_readyz_names_it(
    installation: Installation, clients: dict[str, httpx.AsyncClient]
) -> None:
    conversations = {name: await new_conversation(clients[name]) for name in ("one", "two")}
    dead = installation.homes["one"]

    await asyncio.to_thread(dead.kill)
    try:
        refused = await append(clients["one"], conversations["one"], "meanwhile")
        served = await append(clients["two"], conversations["two"], "meanwhile")
        readiness = await clients["two"].get("/readyz")
    finally:
        await asyncio.to_thread(dead.start)
    again = await append(clients["one"], conversations["one"], "after")

    assert refusal(refused)[:2] == (503, "store_unavailable")
    assert int(refused.headers["retry-after"]) >= 1
    assert served.status_code == again.status_code == 200
    assert readiness.status_code == 200
    assert readiness.json()["status"] == "ready"
    assert readiness.json()["homes_away"] == ["one"]


async def test_operators_choose_and_see_homes(clients: dict[str, httpx.AsyncClient]) -> None:
    listed = (await clients["operator"].get("/admin/organizations")).json()["organizations"]
    refused = await clients["operator"].post(
        "/admin/organizations", json={"name": "acme", "home": "three"}
    )
    too_long = await clients["operator"].post(
        "/admin/organizations", json={"name": "acme", "home": "x" * 64}
    )

    assert {each["home"] for each in listed} >= {"one", "two"}
    assert refusal(refused)[:2] == (404, "not_found")
    assert too_long.status_code // 100 == 4
    assert too_long.json()["field"] == "home"


async def test_a_directory_has_no_homes(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, embedder=NoEmbedder(), admin_token=ADMIN_TOKEN)
    app = create_app(settings)
    async with app.lifespan(), connect(app, ADMIN_TOKEN) as operator:
        refused = await operator.post("/admin/organizations", json={"name": "a", "home": "one"})

    assert refusal(refused)[:2] == (404, "not_found")


async def test_doctor_tells_a_home_that_is_away_from_damage(
    installation: Installation, settings: Settings, tmp_path: Path
) -> None:
    command = Engram(tmp_path)
    process = partial(command.process, database_url=installation.url, embedder="none")
    made = {
        name: process("orgs", "create", "acme", "--at", name).stdout.split()[0]
        for name in ("one", "two")
    }
    dead = installation.homes["one"]

    await asyncio.to_thread(dead.kill)
    try:
        found = await asyncio.to_thread(process, "doctor")
        listed = await asyncio.to_thread(process, "homes", "list", "--json")
    finally:
        await asyncio.to_thread(dead.start)

    assert found.status == 1
    assert f"{made['one']}  availability  unavailable" in found.stdout
    assert "home 'one'" in found.stdout
    assert made["two"] not in found.stdout
    assert "damaged" not in found.stdout
    states = {each["name"]: each["is_away"] for each in json.loads(listed.stdout)["homes"]}
    assert states == {"one": True, "two": False}


def test_commands_add_fill_empty_and_remove_a_home_and_show_no_secret(
    installation: Installation, tmp_path: Path
) -> None:
    command = Engram(tmp_path)
    url = new_database(installation.homes["two"], "engram_spare") + "&password=hush"
    at = ("--database-url", installation.url)

    def run(*words: str) -> str:
        done = command.process(*words, database_url=installation.url, embedder="none")
        assert done.status == 0, done.stderr
        assert "hush" not in done.stdout + done.stderr
        return done.stdout

    run("homes", "add", "spare", url)
    organization_id = run("orgs", "create", "acme", "--at", "spare").split()[0]
    assert "spare" in run("homes", "list")
    refused = command("homes", "remove", "spare", *at)
    assert refused.status != 0
    assert "hush" not in refused.stderr
    assert "all rows match" in run("orgs", "move", organization_id, "--to", "one")
    answer = json.loads(run("orgs", "move", organization_id, "--to", "one", "--json"))
    assert answer["outcome"] == "there_already"
    run("homes", "remove", "spare")
    assert "spare" not in run("homes", "list")


def test_an_upgrade_looks_at_every_home(settings: Settings) -> None:
    plan = plan_upgrade(settings)

    assert [part.name for part in plan.parts][1:] == ["home one", "home two"]
    assert not plan.is_due
    assert plan.problems == []


async def test_background_work_of_other_homes_goes_on_while_one_is_away(
    installation: Installation, settings: Settings
) -> None:
    async with open_service(settings) as service:
        dead = installation.homes["one"]
        await asyncio.to_thread(dead.kill)
        try:
            # Nothing is raised: each home is asked by itself.
            await service.background.take_due()
            assert await service.background.visit_queued() == 0
        finally:
            await asyncio.to_thread(dead.start)
