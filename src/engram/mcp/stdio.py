"""MCP over standard input and output, for a client that starts Engram as its own process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from engram import limits
from engram.bodies.json_text import is_light
from engram.mcp.lines import (
    STDIN,
    LineTooLongError,
    LineWriter,
    claim_stdout,
    read_lines,
)
from engram.mcp.messages import UnreadableMessageError, encode_message, read_message
from engram.mcp.server import Caller, build_server
from engram.model.toolsets import Toolset
from engram.service import Service

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


async def serve_stdio(service: Service, *, toolsets: tuple[Toolset, ...]) -> None:
    """Serve the local organisation until the input ends or the process is terminated."""
    caller = Caller(await service.access.local_principal(), toolsets)
    server = build_server(service, lambda _request: caller)
    wire = Wire(LineWriter(claim_stdout()))
    with closing(wire), anyio.CancelScope() as scope, _on_terminate(scope.cancel):
        async with anyio.create_task_group() as tasks, wire.streams() as streams:
            tasks.start_soon(service.background.run, service.record_use)
            await server.run(*streams, server.create_initialization_options())
            tasks.cancel_scope.cancel()
    await service.record_use()


class Wire:
    """The two ends of the connection, and the requests that are not answered yet."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._waiting = set[types.RequestId]()
        self._answered = asyncio.Event()

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Streams]:
        """Yield the messages that come in, and where to send the ones that go out."""
        into_server, incoming = anyio.create_memory_object_stream[Incoming]()
        outgoing, from_server = anyio.create_memory_object_stream[SessionMessage]()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, into_server)
            tasks.start_soon(self._write, from_server)
            yield incoming, outgoing
            tasks.cancel_scope.cancel()

    def close(self) -> None:
        """Wait until everything is written."""
        self._writer.close()

    async def _read(self, into_server: MemoryObjectSendStream[Incoming]) -> None:
        async with into_server:
            async for line in read_lines(STDIN, bytes_max=limits.BODY_BYTES_MAX):
                message = await self._parse(line)
                if message is not None:
                    self._note(message)
                    await into_server.send(SessionMessage(message))
                    await self._until_waiting(limits.STDIO_REQUESTS_MAX)
            # The server cancels what is in work when the stream ends; let it finish first.
            with anyio.move_on_after(limits.STDIO_DRAIN_S):
                await self._until_waiting(0)

    async def _parse(self, line: bytes | LineTooLongError) -> types.JSONRPCMessage | None:
        if isinstance(line, LineTooLongError):
            self._send(UnreadableMessageError(types.INVALID_REQUEST, str(line)).answer)
            return None
        try:
            if line.isspace() or not line:
                return None
            if is_light(line):
                return read_message(line)
            return await anyio.to_thread.run_sync(read_message, line)
        except UnreadableMessageError as exc:
            self._send(exc.answer)
            return None

    async def _write(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with from_server:
            async for item in from_server:
                self._send(item.message)

    def _note(self, message: types.JSONRPCMessage) -> None:
        match message:
            case types.JSONRPCRequest():
                self._waiting.add(message.id)
            case types.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": str() | int() as cancelled}
            ):
                # A cancelled request gets no answer.
                self._settle(cancelled)
            case _:
                pass

    def _send(self, message: types.JSONRPCMessage) -> None:
        self._writer.write(encode_message(message))
        match message:
            case (
                types.JSONRPCResponse(id=answered)
                | types.JSONRPCError(id=str() | int() as answered)
            ):
                self._settle(answered)
            case _:
                pass

    def _settle(self, request_id: types.RequestId) -> None:
        self._waiting.discard(request_id)
        self._answered.set()

    async def _until_waiting(self, count: int) -> None:
        while len(self._waiting) > count:
            self._answered.clear()
            await self._answered.wait()


@contextmanager
def _on_terminate(callback: Callable[[], object]) -> Generator[None]:
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGTERM, callback)
    except NotImplementedError:  # Windows ends the process itself
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
