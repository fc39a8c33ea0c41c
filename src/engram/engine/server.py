"""The engine: holds store, models and caches for all local clients, and ends when they are gone."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import struct
import sys
import threading
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar, cast

import anyio
import msgspec

from engram import __version__, limits
from engram.api.operation import AnyOperation, Command
from engram.api.table import OPERATIONS
from engram.bodies.lines import LineTooLongError, parsed_object
from engram.engine import FAREWELL
from engram.engine.address import Address, address_of, has_engine
from engram.engine.commands import WRITES, CommandCall, Outcome, encode_outcome
from engram.engine.hooks import Hooks, answer_nothing
from engram.engine.launch import PROTOCOL, ask_engine, introduce, locked
from engram.errors import ConfigurationError, EngramError, pack_error
from engram.hooks.calling import RECEIVED
from engram.mcp.clients import ClientLog
from engram.mcp.stdio import Wire, serve_wire
from engram.model.access import OPERATOR, Toolset, parse_toolsets
from engram.model.request import parse
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service

logger = logging.getLogger(__name__)

COMMANDS: Mapping[str, AnyOperation] = {
    operation.name: operation for operation in OPERATIONS if operation.command is not None
}
_PRIVATE = 0o600
_HELLO_BYTES_MAX = 10_000
_LOOK_S = 0.1
_PEER_OPTIONS: Mapping[str, tuple[int, int, int]] = {
    "linux": (1, 17, 12),  # SOL_SOCKET, SO_PEERCRED, struct ucred
    "darwin": (0, 1, 76),  # SOL_LOCAL, LOCAL_PEERCRED, struct xucred
}
"""Level, name and size of the option that names a peer's user, which is its second number."""

T = TypeVar("T")


class Host:
    """What a command uses that the engine runs in a thread for one client."""

    def __init__(
        self,
        settings: Settings,
        service: Service,
        announce: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self.settings = settings
        self._service = service
        self._announce = announce
        self._loop = asyncio.get_running_loop()

    def run(self, work: Callable[[Service], Awaitable[T]]) -> T:
        """Run `work` with the engine's service, and wait for what it returns."""
        return self._wait(self._work(work))

    def announce_write(self) -> None:
        """Notify the client that this command is about to write: it must not retry."""
        self._wait(self._announce())

    async def _work(self, work: Callable[[Service], Awaitable[T]]) -> T:
        return await work(self._service)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


RunCommand = Callable[[CommandCall, Host], Outcome | None]
"""Runs a command in a thread; returns None if the client has to run it itself."""


def run_engine(settings: Settings, run_command: RunCommand | None = None) -> None:
    """Serve local clients until the last one has been gone for the idle time.

    Raises:
        TimeoutError: another engine serves them.
    """
    address = address_of(settings)
    with ExitStack() as lock:
        _wait_for_lock(address, lock)
        asyncio.run(_serve(settings, address, run_command))


def _wait_for_lock(address: Address, lock: ExitStack) -> None:
    """Take the lock of the engine, from one that is ending if need be.

    One that answers is not waited for: this one would take its place when it is told to stop.
    """
    deadline = time.monotonic() + limits.ENGINE_START_S
    while True:
        try:
            lock.enter_context(locked(address.lock, min(deadline, time.monotonic() + _LOOK_S)))
        except TimeoutError:
            if time.monotonic() >= deadline or ask_engine(address) is not None:
                raise
        else:
            return


async def _serve(settings: Settings, address: Address, run_command: RunCommand | None) -> None:
    async with open_service(settings) as service:
        hooks = Hooks(service, settings)
        clients = Clients(settings, service, run_command, hooks=hooks)
        with anyio.CancelScope() as scope:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, scope.cancel)
            async with service.background_work(), listening(address, clients), draining(hooks):
                logger.info("serving the store in %s", settings.store_place)
                await clients.wait_until_idle(settings.engine_idle)
        await clients.close()


@asynccontextmanager
async def serving_local_clients(
    settings: Settings, service: Service, run_command: RunCommand | None
) -> AsyncGenerator[None]:
    """Let a server be the engine of its store, unless one serves the local clients already."""
    with ExitStack() as lock:
        address = _claim(settings, lock)
        if address is None:
            yield
            return
        hooks = Hooks(service, settings)
        clients = Clients(settings, service, run_command, hooks=hooks)
        async with listening(address, clients), draining(hooks):
            clients.is_server = True
            yield
        await clients.close()


def _claim(settings: Settings, lock: ExitStack) -> Address | None:
    if not has_engine(settings):
        return None
    try:
        address = address_of(settings)
        # Clients that look whether it is locked hold it for a moment.
        lock.enter_context(locked(address.lock, time.monotonic() + _LOOK_S))
    except (ConfigurationError, OSError) as exc:
        logger.info("local clients use another process: %s", exc)
        return None
    return address


def serve_alone(settings: Settings, hello: Mapping[str, Any]) -> socket.socket:
    """Open the store in this process; return a connection that is served like an engine's.

    Raises:
        EngramError: the store cannot be opened.
    """
    ours, theirs = socket.socketpair()
    opened: Future[None] = Future()
    thread = threading.Thread(
        target=lambda: asyncio.run(_serve_one(settings, theirs, opened)), name="alone", daemon=True
    )
    thread.start()
    opened.result()
    introduce(ours, hello)
    return ours


async def _serve_one(settings: Settings, link: socket.socket, opened: Future[None]) -> None:
    try:
        async with open_service(settings) as service, service.background_work():
            opened.set_result(None)
            streams = await asyncio.open_unix_connection(sock=link, limit=limits.BODY_BYTES_MAX)
            await Clients(settings, service).serve(*streams)
    except Exception as exc:
        if opened.done():
            raise
        opened.set_exception(exc)


@asynccontextmanager
async def draining(hooks: Hooks) -> AsyncGenerator[None]:
    """Import what hooks leave in the spool, from now on and for a bounded time at the end.

    What is not imported by then stays in the spool for the next engine.
    """
    task = asyncio.create_task(hooks.run())
    try:
        yield
    finally:
        # Shielded, because an engine that is terminated ends by being cancelled.
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(limits.SPOOL_STOP_S):
                await hooks.finish()
            task.cancel()
            await asyncio.wait([task])


def _point_to(address: Address) -> None:
    """Let hooks, which know no settings, find the engine that began to serve last."""
    address.pointer.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = address.pointer.with_suffix(f".{os.getpid()}")
    written.unlink(missing_ok=True)
    written.symlink_to(address.socket)
    written.replace(address.pointer)


@asynccontextmanager
async def listening(address: Address, clients: Clients) -> AsyncGenerator[None]:
    """Accept clients at the engine's socket; the caller holds its lock."""
    address.socket.unlink(missing_ok=True)  # left by an engine that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(address.socket))
    address.socket.chmod(_PRIVATE)
    _point_to(address)
    server = await asyncio.start_unix_server(
        clients.serve, sock=listener, limit=limits.BODY_BYTES_MAX
    )
    try:
        yield
    finally:
        address.socket.unlink(missing_ok=True)
        server.close()


class Clients:
    """The connections of local clients."""

    def __init__(
        self,
        settings: Settings,
        service: Service,
        run_command: RunCommand | None = None,
        *,
        hooks: Hooks | None = None,
    ) -> None:
        self._settings = settings
        self._service = service
        self._run_command = run_command
        self._hooks = hooks
        self._known = ClientLog()
        # Commands wait in these threads for the store, which uses the loop's own ones.
        self._threads = ThreadPoolExecutor(limits.ENGINE_COMMANDS_MAX, "command")
        self._connections = dict[asyncio.Task[Any], tuple[StreamReader, StreamWriter]]()
        self._changed = asyncio.Condition()
        self._began = time.monotonic()
        self._is_closing = False
        self.is_server = False
        """Whether the process is `engram serve`, which does not end when they are gone."""

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one connection until it ends."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - asyncio runs this as a task
        self._connections[task] = reader, writer
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            logger.debug("a client left in the middle of a message")
        except Exception:
            logger.exception("a connection failed")
        finally:
            del self._connections[task]
            writer.close()
            async with self._changed:
                self._changed.notify_all()

    async def wait_until_idle(self, idle_s: float) -> None:
        """Return when nobody has been connected for `idle_s` seconds."""
        # The client that started this process may be slow to connect.
        patience_s = max(idle_s, limits.ENGINE_START_S)
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: not self._connections)
                with suppress(TimeoutError):
                    async with asyncio.timeout(patience_s):
                        await self._changed.wait_for(lambda: bool(self._connections))
                if not self._connections:
                    return
            patience_s = idle_s

    async def close(self) -> None:
        """Take no further calls, and end each connection after those it has in work."""
        self._is_closing = True
        for reader, writer in self._connections.values():
            # A Unix socket's transport reads as well as it writes.
            cast("asyncio.Transport", writer.transport).pause_reading()
            reader.feed_eof()
        if self._connections:
            await asyncio.wait([*self._connections], timeout=limits.ENGINE_STOP_S)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        if not _is_own(writer.get_extra_info("socket")):
            logger.warning("refused a process of another user")
            return
        hello = await _read_hello(reader)
        if hello is None or self._is_closing:
            return
        async with self._changed:
            self._changed.notify_all()
        writer.write(json.dumps(self._introduction()).encode() + b"\n")
        if toolsets := hello.get("toolsets"):
            await self._serve_mcp(
                reader, writer, parse_toolsets(toolsets), has_hooks=hello.get("hooks") != "off"
            )
        elif hello.get("command"):
            await self._serve_command(reader, writer)
        elif operation := COMMANDS.get(hello.get("operation", "")):
            await self._serve_call(reader, writer, operation)
        elif self._hooks is not None and hello.get("hook"):
            await self._serve_hook(reader, writer, self._hooks)

    async def _serve_hook(self, reader: StreamReader, writer: StreamWriter, hooks: Hooks) -> None:
        """Answer an event of a session."""
        given = parsed_object(await reader.readuntil(b"\n"))
        told = await hooks.remind_or_not(given)
        try:
            writer.write(json.dumps({"context": told.context}).encode() + b"\n")
            async with asyncio.timeout(limits.HOOK_RECALL_S):
                is_received = await reader.readline() == RECEIVED
        except OSError:
            is_received = False
        # Who does not wait any longer has not told it to the agent.
        if is_received:
            hooks.confirm(told)
        else:
            await hooks.withdraw(told)

    async def _serve_mcp(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        toolsets: tuple[Toolset, ...],
        *,
        has_hooks: bool,
    ) -> None:
        wire = Wire(
            _lines_read(reader, writer),
            lambda line: writer.write(line + b"\n"),
            clients=self._known,
        )
        hook = self._hooks.answer_tool if self._hooks is not None and has_hooks else answer_nothing
        await serve_wire(self._service, wire, toolsets=toolsets, hook=hook)
        if wire.is_answered:
            writer.write(FAREWELL + b"\n")
        await writer.drain()

    async def _serve_call(
        self, reader: StreamReader, writer: StreamWriter, operation: AnyOperation
    ) -> None:
        given = parsed_object(await reader.readuntil(b"\n"))
        try:
            outcome = {"answer": await self._run(operation, given)}
        except EngramError as error:
            outcome = {"error": pack_error(error)}
        writer.write(await asyncio.to_thread(msgspec.json.encode, outcome) + b"\n")
        await writer.drain()

    async def _serve_command(self, reader: StreamReader, writer: StreamWriter) -> None:
        async def announce() -> None:
            writer.write(json.dumps(WRITES).encode() + b"\n")
            await writer.drain()

        line = await reader.readuntil(b"\n")
        outcome = None
        if self._run_command is not None:
            host = Host(self._settings, self._service, announce)
            call = msgspec.json.decode(line, type=CommandCall)
            loop = asyncio.get_running_loop()
            run = partial(self._run_command, call, host)
            outcome = await loop.run_in_executor(self._threads, run)
        writer.write(encode_outcome(outcome))
        await writer.drain()

    async def _run(self, operation: AnyOperation, given: Mapping[str, Any]) -> Any:
        command = cast("Command", operation.command)
        request = parse(operation.request, given, fixed=command.fixed)
        local = self._service.access.local_principal
        caller = OPERATOR if operation.is_operators else await local()
        return await (command.run or operation.run)(self._service, caller, request)

    def _introduction(self) -> dict[str, Any]:
        return {
            "engine": PROTOCOL,
            "version": __version__,
            "pid": os.getpid(),
            "server": self.is_server,
            "clients": len(self._connections) - 1,
            "seconds": round(time.monotonic() - self._began),
        }


async def _lines_read(
    reader: StreamReader, writer: StreamWriter
) -> AsyncIterator[bytes | LineTooLongError]:
    """Yield the lines of a client as fast as it reads the answers."""
    async for line in stream_lines(reader):
        await writer.drain()
        yield line


async def stream_lines(reader: StreamReader) -> AsyncIterator[bytes | LineTooLongError]:
    """Yield the lines of a stream; one longer than the stream's limit comes as an error.

    A line without its end is dropped: the client was killed, or sends it to the next engine.
    """
    is_too_long = False
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError as exc:
            await reader.readexactly(exc.consumed)
            is_too_long = True
            continue
        if is_too_long:
            is_too_long = False
            yield LineTooLongError(f"a line is longer than {limits.BODY_BYTES_MAX:,} bytes")
        else:
            yield line[:-1]


async def _read_hello(reader: StreamReader) -> Mapping[str, Any] | None:
    """Read the hello message; return None if the peer does not speak this protocol."""
    try:
        async with asyncio.timeout(limits.ENGINE_HELLO_S):
            line = await reader.readuntil(b"\n")
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None
    hello = parsed_object(line[:_HELLO_BYTES_MAX])
    return hello if hello.get("engine") == PROTOCOL else None


def _is_own(connection: socket.socket) -> bool:
    """Return True if the peer is a process of this user; elsewhere the socket's mode protects."""
    option = _PEER_OPTIONS.get(sys.platform)
    if option is None:
        return True
    return struct.unpack_from("2I", connection.getsockopt(*option))[1] == os.geteuid()
