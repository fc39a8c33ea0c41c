"""A wire to a server that is cut where a test wants it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

from tests.postgres.servers import Server
from tests.relays import connected, relayed

_COMMIT = b"COMMIT\x00"

Cut: TypeAlias = Literal["before the server commits", "before the client hears"]


class Wire:
    """Connections to a server that can be lost while a transaction is committed."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cut: Cut | None = None
        self.port = 0

    def lose_next_commit(self, cut: Cut) -> None:
        """Cut the connection of the next transaction that is committed."""
        self._cut = cut

    async def carry(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Carry what the two sides of one connection say, until one of them leaves."""
        async with connected(self._server.port) as (answers, server), asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(_carry_all(answers, back))
            await self._carry_questions(client, server, answering, answers)
            answering.cancel()

    async def _carry_questions(
        self,
        client: asyncio.StreamReader,
        server: asyncio.StreamWriter,
        answering: asyncio.Task[None],
        answers: asyncio.StreamReader,
    ) -> None:
        while said := await client.read(65_536):
            cut, self._cut = (self._cut, None) if _COMMIT in said else (None, self._cut)
            if cut == "before the server commits":
                return
            if cut == "before the client hears":
                answering.cancel()
                await asyncio.wait([answering])
                server.write(said)
                await _carry_commit(client, server, answers)
                return
            server.write(said)


async def _carry_commit(
    client: asyncio.StreamReader, server: asyncio.StreamWriter, answers: asyncio.StreamReader
) -> None:
    """Carry the rest of what is said with a commit, until the server has committed."""
    heard = b""
    asking = asyncio.ensure_future(_carry_all(client, server))
    while _COMMIT not in heard:
        heard += await answers.read(65_536)
    asking.cancel()
    await asyncio.wait([asking])


async def _carry_all(answers: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
    while said := await answers.read(65_536):
        back.write(said)
    back.close()


@asynccontextmanager
async def wire_to(server: Server) -> AsyncGenerator[Wire]:
    """Yield a wire to a server, which has a port of its own."""
    wire = Wire(server)
    async with relayed(wire.carry) as wire.port:
        yield wire
