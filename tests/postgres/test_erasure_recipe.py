"""The recipe of the guide that takes what was erased out of the files of PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import anyio
import psycopg

from engram.embedding.choice import NoEmbedder
from engram.model.erasure import ErasureRequest
from engram.model.memory import MemoryDraft
from engram.settings import Settings
from engram.wiring import open_service
from tests.postgres.databases import as_owner
from tests.postgres.recipes import blocks, run
from tests.promises import promise
from tests.storage.erasures import places_of, unique_word

WORD = unique_word(2)


@promise("erasure")
async def test_the_recipe_leaves_nothing_of_what_was_erased_in_the_files_of_the_database(
    database_url: str, tmp_path: Path
) -> None:
    owner = as_owner(database_url)
    (recipe,) = blocks("erasure.md", "sh")
    settings = Settings(home=tmp_path, database_url=database_url, embedder=NoEmbedder())
    async with open_service(settings) as service:
        me = await service.access.local_principal()
        for project, text in (("a", f"note {WORD}"), ("b", "another note")):
            await service.memories.store(me, MemoryDraft(content=text, project=project))
        files = await anyio.to_thread.run_sync(files_of, owner)
        assert places_of(files, WORD.encode())

        receipt = await service.erasure.erase(me, ErasureRequest(project="a"))
    await anyio.to_thread.run_sync(lambda: run(recipe, tmp_path, OWNER_URL=owner))

    assert (receipt.state, any("VACUUM" in line for line in receipt.still_held)) == (
        "finished",
        True,
    )
    assert places_of(files, WORD.encode()) == []
    assert places_of(files, b"another note")


def files_of(url: str) -> Path:
    """Return the directory of a database, with everything written that is in memory."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        row = connection.execute(
            "SELECT current_setting('data_directory'), oid FROM pg_database WHERE datname = current_database()"
        ).fetchone()
    assert row is not None
    return Path(row[0], "base", str(row[1]))
