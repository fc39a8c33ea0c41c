"""What a command stores beside a running server gets its deep vectors from the server, within seconds."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import anyio
import httpx

from tests.cli.commands import Engram, Outcome
from tests.meaning.servers import serve, status
from tests.storage.places import is_database, place

__all__ = ["place"]
"""A fixture: where an empty store of each backend is."""

SECONDS = 60
"""Far less than the ten minutes between two sweeps, also on a machine that runs other tests."""


async def test_a_message_of_a_command_is_indexed_by_a_running_server(
    tmp_path: Path, place: str
) -> None:
    home = tmp_path / "home"
    settings = {"database_url": place} if is_database(place) else {}
    with serve(home, embedder="hash", **settings) as server:
        async with server.client() as client:
            variables = {"embedder": "hash", **settings}
            stored = await asyncio.to_thread(partial(append_by_command, home, variables))
            assert stored.status == 0, stored.stderr
            assert (await status(client))["messages"] == 1

            with anyio.fail_after(SECONDS):
                await wait_for_vectors(client)

            assert (await status(client))["vectors"] == 1


def append_by_command(home: Path, variables: dict[str, str]) -> Outcome:
    """Append a message in a process that ends at once."""
    return Engram(home).process(
        "conversations", "append", "The letter came by post", stdin=b"", **variables
    )


async def wait_for_vectors(client: httpx.AsyncClient) -> None:
    """Return when no message waits; a search would give it its vector itself."""
    while (await status(client))["pending"]:
        await anyio.lowlevel.checkpoint()
