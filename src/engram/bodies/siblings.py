"""Server processes that share a port: each can answer a request that another was given.

The system gives a connection to any of them. But an SSE session lives in the process that opened it, and each process counts
its own requests. So each listens on a Unix socket in a directory of the server's own, and takes whole requests there.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import tempfile
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engram import limits
from engram.errors import UnavailableError
from engram.model.value import Value

logger = logging.getLogger(__name__)

_SUFFIX = ".socket"
_LENGTH_BYTES = 8
_STATE = "is_handed_on"

T = TypeVar("T")
Headers = list[tuple[bytes, bytes]]


class HandedRequest(Value):
    """A request as it is handed on."""

    method: str
    path: str
    query: bytes
    http_version: str
    headers: Headers
    client: tuple[str, int] | None
    body: bytes

    @staticmethod
    def of(scope: Scope, body: bytes) -> HandedRequest:
        """Return what a process was given."""
        client = scope.get("client")
        return HandedRequest(
            method=scope["method"],
            path=scope["path"],
            query=scope["query_string"],
            http_version=scope["http_version"],
            headers=list(scope["headers"]),
            client=None if client is None else (client[0], client[1]),
            body=body,
        )

    def scope(self) -> Scope:
        """Return it as the application takes it."""
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": self.http_version,
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query,
            "root_path": "",
            "headers": self.headers,
            "client": self.client,
            "server": None,
            "state": {_STATE: True},
        }


class HandedAnswer(Value):
    """The whole answer to a request that was handed on."""

    status: int
    headers: Headers
    body: bytes

    async def send(self, send: Send) -> None:
        """Give it to the client."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


def is_handed_on(scope: Scope) -> bool:
    """Return True for a request that another process was given: it must not be handed on again."""
    return _STATE in scope["state"]


@contextmanager
def siblings_directory() -> Generator[Path | None]:
    """Yield a directory for the sockets of processes, None where there are no such sockets."""
    if not hasattr(socket, "AF_UNIX"):
        yield None
        return
    # Only this user may open it.
    with tempfile.TemporaryDirectory(prefix="engram-") as directory:
        yield Path(directory)


class Siblings:
    """This process among those of its server; alone it has no name."""

    def __init__(self, directory: Path | None, *, name: str = "") -> None:
        self._directory = directory
        self.name = name if directory is not None else ""

    def others(self) -> list[str]:
        """Return the names of all others that listen."""
        if self._directory is None:
            return []
        found = (path.stem for path in self._directory.glob(f"*{_SUFFIX}"))
        return sorted(name for name in found if name != self.name)

    async def ask(self, name: str, request: HandedRequest) -> HandedAnswer | None:
        """Return the answer of another process, None if there is no such process any more.

        Raises:
            UnavailableError: it did not answer in time.
        """
        if self._directory is None or name not in self.others():
            return None
        path = self._path(self._directory, name)
        try:
            reader, writer = await asyncio.open_unix_connection(str(path))
            with closing(writer):
                await _write(writer, request)
                return await _read(reader, HandedAnswer)
        except TimeoutError as exc:
            raise UnavailableError("another process of this server does not answer") from exc
        except (OSError, asyncio.IncompleteReadError):
            return None

    @asynccontextmanager
    async def listening(self, app: ASGIApp) -> AsyncGenerator[None]:
        """Answer what others hand on."""
        if self._directory is None:
            yield
            return
        path = self._path(self._directory, self.name)
        server = await asyncio.start_unix_server(_server_of(app), path)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
            server.close()

    @staticmethod
    def _path(directory: Path, name: str) -> Path:
        return directory / f"{name}{_SUFFIX}"


NO_SIBLINGS = Siblings(None)


def _server_of(app: ASGIApp) -> Callable[[StreamReader, StreamWriter], Awaitable[None]]:
    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            request = await _read(reader, HandedRequest)
            await app(request.scope(), _receive_of(request.body), _send_to(writer))
        except (OSError, asyncio.IncompleteReadError):
            logger.debug("a request that was handed on was given up")
        finally:
            writer.close()

    return serve


def _receive_of(body: bytes) -> Receive:
    is_taken = False

    async def receive() -> Message:
        nonlocal is_taken
        if is_taken:
            await (
                asyncio.Event().wait()
            )  # Its client is the other process, which waits for the answer.
        is_taken = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _send_to(writer: StreamWriter) -> Send:
    status, headers, parts = 500, Headers(), list[bytes]()

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message.get("headers", ()))
            return
        parts.append(bytes(message.get("body", b"")))
        if not message.get("more_body", False):
            # Not when the application returns: it may go on after its answer.
            await _write(writer, HandedAnswer(status=status, headers=headers, body=b"".join(parts)))

    return send


async def _write(writer: StreamWriter, value: Value) -> None:
    packed = msgspec.msgpack.encode(value)
    writer.write(len(packed).to_bytes(_LENGTH_BYTES))
    writer.write(packed)
    await writer.drain()


async def _read(reader: StreamReader, kind: type[T]) -> T:
    async with asyncio.timeout(limits.SSE_CALL_S):
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
        return msgspec.msgpack.decode(await reader.readexactly(length), type=kind)
