"""Fill the file system of a store with an embedder that has no instant tier, then search."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from httpx import AsyncClient, Response

from engram.embedding.choice import Hashed
from engram.embedding.hashed import HashedEmbedder
from engram.errors import EmbedderUnavailableError
from engram.http.asgi import create_app
from engram.settings import Settings
from tests.rest.calls import ADMIN_TOKEN, append, connect, new_conversation, new_key
from tests.small_disk import fill

if TYPE_CHECKING:
    from engram.embedding.port import Vectors


INDEXED_S = 60


class AbsentEmbedder(HashedEmbedder):
    """An embedder that gives vectors of passages once it is there."""

    is_there = False

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        if not self.is_there:
            raise EmbedderUnavailableError
        return await super().embed_passages(passages)


async def search_indexed(client: AsyncClient) -> Response:
    """Return a search's answer as soon as everything is indexed; a busy machine takes a while."""
    async with asyncio.timeout(INDEXED_S):
        while True:
            answer = await client.post("/api/v1/search", json={"query": "letter"})
            if not answer.json()["pending"]:
                return answer


async def main(home: Path) -> None:
    """Print the status of each answer, and the search's, as JSON."""
    settings = Settings(home=home, embedder=Hashed(), admin_token=ADMIN_TOKEN, rate_limit=0)
    app = create_app(settings)
    async with (
        app.lifespan(),
        connect(app, ADMIN_TOKEN) as operator,
        connect(app, await new_key(operator)) as client,
    ):
        conversation_id = await new_conversation(client)
        await append(client, conversation_id, "The letter came by post")
        before = await client.get("/readyz")
        fill(home / "ballast")
        AbsentEmbedder.is_there = True
        search = await client.post("/api/v1/search", json={"query": "letter"})
        refused = await append(client, conversation_id, "x" * 100_000)
        full = await client.get("/readyz")
        (home / "ballast").unlink()
        after = await search_indexed(client)
    shown = {
        "statuses": [each.status_code for each in (before, search, refused, full, after)],
        "search": search.json(),
        "full": full.json(),
        "after": after.json(),
    }
    sys.stdout.buffer.write(orjson.dumps(shown))


if __name__ == "__main__":
    sys.modules["engram.wiring"].HashedEmbedder = AbsentEmbedder  # pyright: ignore[reportAttributeAccessIssue]
    asyncio.run(main(Path(sys.argv[1])))
