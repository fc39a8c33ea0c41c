"""A store that is damaged, newer, read-only or full: a stable code, and nothing stored in part."""

from __future__ import annotations

import os
import resource
import sqlite3
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

import httpx
import pytest

from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.settings import Settings
from tests.permissions import give_away, unprivileged
from tests.promises import promise
from tests.rest.calls import (
    ADMIN_TOKEN,
    append,
    connect,
    new_conversation,
    new_key,
    refusal,
    stored,
)

pytestmark = promise("failures")


@asynccontextmanager
async def client_of(settings: Settings, key: str) -> AsyncGenerator[httpx.AsyncClient]:
    app = create_app(settings)
    async with app.lifespan(), connect(app, key) as client:
        yield client


async def filled_store(settings: Settings) -> tuple[str, str, Path]:
    """Return a key, a conversation with one message, and the organisation's file, all closed."""
    async with client_of(settings, ADMIN_TOKEN) as operator:
        key = await new_key(operator)
    async with client_of(settings, key) as client:
        conversation_id = await new_conversation(client)
        await append(client, conversation_id, "before")
    return key, conversation_id, organization_file(settings.home)


def organization_file(home: Path) -> Path:
    (path,) = (home / "orgs").glob("*.db")
    return path


def damage(path: Path) -> None:
    path.write_bytes(b"\x00" * path.stat().st_size)


def make_newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9999")


@pytest.mark.parametrize(
    ("change", "code"), [(damage, "store_corrupt"), (make_newer, "store_newer")]
)
async def test_an_organisations_file_that_cannot_be_used_fails_its_requests_and_no_others(
    settings: Settings, change: Callable[[Path], None], code: str
) -> None:
    key, conversation_id, path = await filled_store(settings)
    change(path)

    async with client_of(settings, key) as client:
        answers = [
            await append(client, conversation_id, "after"),
            await client.get(f"/api/v1/conversations/{conversation_id}"),
            await client.post("/api/v1/search", json={"query": "before"}),
        ]
        ready = await client.get("/readyz")
        client.headers["Authorization"] = f"Bearer {ADMIN_TOKEN}"
        client.headers["Authorization"] = f"Bearer {await new_key(client)}"
        unharmed = await append(client, await new_conversation(client), "elsewhere")

    assert [refusal(answer) for answer in answers] == [(500, code, None)] * 3
    assert (ready.status_code, unharmed.status_code) == (200, 200)


@promise("durable")
async def test_a_full_disk_stores_nothing_of_a_call(settings: Settings) -> None:
    key, conversation_id, _ = await filled_store(settings)

    async with client_of(settings, key) as client:
        assert await stored(client) == (1, 1)
        with no_file_above(500_000):
            full = await append(client, conversation_id, "small", os.urandom(1_000_000).hex())
        after = await stored(client)

    assert refusal(full) == (507, "store_full", None)
    assert after == (1, 1)


async def test_a_read_only_file_is_read_and_not_written() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            home=Path(folder) / "store",
            embedder=NoEmbedder(),
            admin_token=ADMIN_TOKEN,
            rate_limit=0,
        )
        key, conversation_id, path = await filled_store(settings)
        allow_all_but(path)

        with unprivileged():
            async with client_of(settings, key) as client:
                refused = await append(client, conversation_id, "after")
        path.parent.chmod(0o755)

    assert refusal(refused) == (500, "store_read_only", None)


def allow_all_but(organization: Path) -> None:
    """Let whoever is unprivileged write the control file, and not the organisation's."""
    home = organization.parent.parent
    home.parent.chmod(0o755)
    give_away(home, *home.iterdir())
    organization.chmod(0o444)
    organization.parent.chmod(0o555)


@contextmanager
def no_file_above(size: int) -> Generator[None]:
    """Let no file of this process grow beyond `size` bytes for a while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
