"""MCP in lines: over standard input and output of a process of its own, or over a socket."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, closing, contextmanager

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from engram import limits
from engram.bodies.json_text import is_light
from engram.bodies.lines import LineTooLongError
from engram.mcp.clients import ClientLog
from engram.mcp.lines import STDIN, LineWriter, claim_stdout, read_lines
from engram.mcp.messages import UnreadableMessageError, encode_message, read_message
from engram.mcp.server import AnswerHook, Caller, build_server
from engram.model.access import Toolset
from engram.service import Service

Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


async def serve_stdio(service: Service, *, toolsets: tuple[Toolset, ...]) -> None:
    """Serve the local organisation until the input ends or the process is terminated."""
    writer = LineWriter(claim_stdout())
    wire = Wire(read_lines(STDIN, bytes_max=limits.BODY_BYTES_MAX), writer.write)
    with closing(writer), anyio.CancelScope() as scope, _on_terminate(scope.cancel):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.background.run, service.record_use)
            await serve_wire(service, wire, toolsets=toolsets)
            tasks.cancel_scope.cancel()
    await service.record_use()


async def serve_wire(
    service: Service, wire: Wire, *, toolsets: tuple[Toolset, ...], hook: AnswerHook | None = None
) -> None:
    """Serve the local organisation to one client until its lines end."""
    caller = Caller(await service.access.local_principal(), toolsets)
    server = build_server(service, lambda _request: caller, hook=hook)
    async with wire.streams() as streams:
        await server.run(*streams, server.create_initialization_options())


class Wire:
    """The two ends of a connection, and the requests that are not answered yet."""

    def __init__(
        self,
        lines: AsyncIterator[bytes | LineTooLongError],
        write: Callable[[bytes], None],
        *,
        clients: ClientLog | None = None,
    ) -> None:
        self._lines = lines
        self._clients = clients
        self._write_line = write
        self._waiting = set[types.RequestId]()
        self._answered = asyncio.Event()

    @property
    def is_answered(self) -> bool:
        """Return True if every request that came in was answered."""
        return not self._waiting

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

    async def _read(self, into_server: MemoryObjectSendStream[Incoming]) -> None:
        async with into_server:
            async for line in self._lines:
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
                if self._clients is not None:
                    self._clients.note(message.params)
            case types.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": str() | int() as cancelled}
            ):
                # A cancelled request gets no answer.
                self._settle(cancelled)
            case _:
                pass

    def _send(self, message: types.JSONRPCMessage) -> None:
        self._write_line(encode_message(message))
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
