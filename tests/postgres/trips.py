"""A wire to a server that counts the round trips over it and keeps the statements.

The end of a transaction that only reads is no round trip: its answer is held back until the client says
more, so a client that waited for it would wait for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.postgres.servers import Server, url_of
from tests.relays import connected, relayed

_QUERY, _PARSE, _BIND = b"Q", b"P", b"B"
_AWAITED = b"QSH"
"""What a client waits for an answer to: a query, the end of a pipeline, and a part of one.

After the end of a pipeline a part of it adds nothing.
"""


class CountedWire:
    """Connections to a server, of which all that the client sends is read."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.port = 0
        self.trips = 0
        """How often a client has waited for the server."""
        self.statements: list[str] = []
        """What was run, in order."""

    def url(self, database: str) -> str:
        """Return the address of a database at the other end."""
        return url_of((self,), database, sslmode="disable", gssencmode="disable")

    async def carry(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Carry what the two sides of one connection say, until one of them leaves."""
        gate = asyncio.Event()
        async with connected(self._server.port) as (answers, server), asyncio.TaskGroup() as tasks:
            tasks.create_task(_carry_all(answers, back, gate))
            tasks.create_task(self._carry_questions(client, server, gate))

    async def _carry_questions(
        self, client: asyncio.StreamReader, server: asyncio.StreamWriter, gate: asyncio.Event
    ) -> None:
        # The first message has a length and no kind.
        unread, is_begun, session = b"", False, _Session()
        while said := await client.read(65_536):
            gate.set()
            unread += said
            if not is_begun and len(unread) >= 4:
                unread, is_begun = unread[int.from_bytes(unread[:4]) :], True
            for kind, body in _messages(unread) if is_begun else ():
                unread = unread[5 + len(body) :]
                self._note(kind, body, session)
            if session.ends_reading():
                gate.clear()
            server.write(said)
        gate.set()
        server.close()

    def _note(self, kind: bytes, body: bytes, session: _Session) -> None:
        is_awaited = kind in _AWAITED and (session.last, kind) != (b"S", b"H")
        self.trips += is_awaited and not session.ends_reading()
        session.last = kind
        if kind == _PARSE:
            name, text, *_ = body.split(b"\0")
            session.prepared[name] = text.decode()
        elif kind in (_QUERY, _BIND):
            ran = body[:-1].decode() if kind == _QUERY else session.prepared[body.split(b"\0")[1]]
            session.statements.append(ran)
            self.statements.append(ran)


@dataclass
class _Session:
    """What a client has said on one connection; names of prepared statements belong to it."""

    last: bytes = b""
    """The kind of the last message."""
    prepared: dict[bytes, str] = field(default_factory=dict[bytes, str])
    statements: list[str] = field(default_factory=list[str])

    def ends_reading(self) -> bool:
        """Return True if the last statement ends a transaction that only reads."""
        begun = (each for each in reversed(self.statements) if each.startswith("BEGIN"))
        return self.statements[-1:] == ["COMMIT"] and next(begun, "").endswith("READ ONLY")


def _messages(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield kind and body of each message that is there as a whole."""
    while len(data) >= 5 and len(data) > int.from_bytes(data[1:5]):
        end = 1 + int.from_bytes(data[1:5])
        yield data[:1], data[5:end]
        data = data[end:]


async def _carry_all(
    answers: asyncio.StreamReader, back: asyncio.StreamWriter, gate: asyncio.Event
) -> None:
    while said := await answers.read(65_536):
        await gate.wait()
        back.write(said)
    back.close()


@asynccontextmanager
async def counted_wire(server: Server) -> AsyncGenerator[CountedWire]:
    """Yield a wire to a server, which has a port of its own."""
    wire = CountedWire(server)
    async with relayed(wire.carry) as wire.port:
        yield wire
