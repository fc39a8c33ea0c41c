"""`engram mcp` as a bridge: the lines of one client's stdin and stdout to the engine and back.

What an agent asks first has the same answer in every store, so it is answered from a file at once
while the engine starts. Only the standard library is imported here, because agents start this for
every session and some wait no longer than a second.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from engram import limits
from engram.bodies.lines import (
    LineTooLongError,
    as_object,
    parsed_object,
    split_lines,
    usable_id,
    write_all,
)
from engram.engine import FAREWELL, LOST
from engram.engine.greeting import HANDSHAKE, Greeting, is_repeatable, with_key

STDIN, STDOUT = 0, 1
INVALID_REQUEST, INTERNAL_ERROR = -32600, -32603
Message = Mapping[str, Any]
Connect = Callable[[], socket.socket]
"""Returns a connection to an engine that was told what this client wants.

Raises:
    EngramError, OSError: there is none, nor can the store be opened in this process.
"""


class _Call:
    """A request that waits for the engine."""

    def __init__(self, line: bytes, *, is_repeatable: bool) -> None:
        self.line = line
        self.is_repeatable = is_repeatable
        self.was_sent = False
        """Whether the engine may have read all of it."""
        self.engines = 0
        """How many engines ended with it unanswered."""

    def is_lost(self) -> bool:
        """Count one more engine that ended; return True if the next one must not get this call."""
        self.engines += self.was_sent
        is_fatal = self.engines == limits.ENGINE_ATTEMPTS_MAX
        return self.was_sent and (is_fatal or not self.is_repeatable)


class Bridge:
    """Passes the messages of one client on, and answers each request exactly once."""

    def __init__(self, connect: Connect, toolsets: Iterable[str], *, output: int = STDOUT) -> None:
        self._connect = connect
        self._greeting = Greeting(toolsets)
        self._output = output
        self._output_lock = threading.Lock()
        self._state = threading.Condition()
        """Guards everything below."""
        self._link: socket.socket | None = None
        self._handshake: list[bytes] = []
        """What every engine must be told first: the handshake of this client."""
        self._unwanted: set[str | int] = set()
        """Requests that were answered here: the engine's own answer to them is dropped."""
        self._calls: dict[str | int, _Call] = {}
        """Requests that wait for the engine, in their order."""
        self._unsent: list[bytes] = []
        """Other lines, until there is an engine."""
        self._has_ended = False
        """Whether the client has closed its end."""
        self._is_over = False
        self._failure: Exception | None = None
        self._sending = threading.Lock()
        """Held while a line is sent, so that the end of a link knows which lines were; taken after
        the condition, never before it."""

    def run(self, lines: Iterable[bytes | LineTooLongError]) -> None:
        """Pass lines on until they end and every request is answered.

        Raises:
            EngramError, OSError: there is no engine, nor can the store be opened.
            Exception: a mistake of ours, with which no later request could be answered.
        """
        # Threads, since both wait for what may never come; the process does not wait for them.
        for work in (self._receive, partial(self._read, lines)):
            threading.Thread(target=self._guard, args=[work], daemon=True).start()
        self._finish()
        if self._failure is not None:
            raise self._failure

    def _guard(self, work: Callable[[], None]) -> None:
        """Let what would end a thread unseen end the bridge."""
        try:
            work()
        except Exception as exc:  # noqa: BLE001 - raised again by `run`
            self._give_up(exc)

    def _read(self, lines: Iterable[bytes | LineTooLongError]) -> None:
        for line in lines:
            self._take(line)
        with self._state:
            self._has_ended = True
            self._state.notify_all()

    def _take(self, line: bytes | LineTooLongError) -> None:
        if isinstance(line, LineTooLongError):
            self._write(_error(None, INVALID_REQUEST, str(line)))
            return
        message = parsed_object(line)
        request_id = usable_id(message.get("id")) if "method" in message else None
        if request_id is not None and (answer := self._greeting.answer(message)):
            self._write(answer)
            if message["method"] != HANDSHAKE:
                return
        self._pass_on(line, message, request_id)

    def _pass_on(self, line: bytes, message: Message, request_id: str | int | None) -> None:
        named = with_key(message) if request_id is not None else None
        line, is_safe = named or line, named is not None or is_repeatable(message)
        with self._state:
            self._state.wait_for(lambda: self._is_over or self._has_room())
            is_handshake = self._note(line, message, request_id, is_safe=is_safe)
            call = self._calls.get(request_id) if request_id is not None else None
            link = self._link
            if link is None and request_id is None and not is_handshake:
                self._unsent.append(line)
            self._state.notify_all()
        if link is not None:
            self._deliver(link, line, call)

    def _deliver(self, link: socket.socket, line: bytes, call: _Call | None) -> None:
        """Send a line, unless the engine has ended meanwhile: then the next one gets the call."""
        with self._sending:
            if self._link is link and _send(link, line) and call is not None:
                call.was_sent = True

    def _has_room(self) -> bool:
        return len(self._calls) + len(self._unsent) < limits.STDIO_REQUESTS_MAX

    def _note(
        self, line: bytes, message: Message, request_id: str | int | None, *, is_safe: bool
    ) -> bool:
        """Update the pending calls for a message; return True if it belongs to the handshake."""
        match message.get("method"):
            case "initialize" if self._greeting.agreed is not None and request_id is not None:
                self._unwanted.add(request_id)
            case "notifications/initialized" if self._handshake:
                pass
            case "notifications/cancelled":
                # A cancelled request gets no answer.
                cancelled = usable_id(as_object(message.get("params")).get("requestId"))
                if cancelled is not None:
                    self._calls.pop(cancelled, None)
                return False
            case _:
                if request_id is not None:
                    self._calls[request_id] = _Call(line, is_repeatable=is_safe)
                return False
        self._handshake.append(line)
        return True

    def _receive(self) -> None:
        """Connect whenever there is something to ask, and write what the engine answers."""
        while not self._is_over:
            link = self._connect()
            self._open(link)
            is_settled = False
            for line in _lines_of(link):
                if line == FAREWELL:
                    is_settled = True
                else:
                    self._answer(line)
            self._close(link, is_settled=is_settled)
            with self._state:
                self._state.wait_for(lambda: self._is_over or not self._is_done())

    def _open(self, link: socket.socket) -> None:
        """Send a new engine the handshake and everything that waits."""
        with self._state:
            self._unwanted.update(_ids_of(self._handshake))
            for line in self._handshake:
                _send(link, line)
            for call in self._calls.values():
                call.was_sent = _send(link, call.line)
            for line in self._unsent:
                _send(link, line)
            self._unsent.clear()
            self._link = link
            self._state.notify_all()

    def _close(self, link: socket.socket, *, is_settled: bool) -> None:
        """Answer the calls that an engine which ended may have carried out; keep the others.

        If it `is_settled`, it had read none of those that it has not answered.
        """
        _end(link, socket.SHUT_RDWR)  # so that no sender waits for an engine that reads no more
        with self._state, self._sending:
            self._link = None
            unanswered = {} if is_settled else self._calls
            lost = [key for key, call in unanswered.items() if call.is_lost()]
            for request_id in lost:
                del self._calls[request_id]
        link.close()
        for request_id in lost:
            self._write(_error(request_id, INTERNAL_ERROR, LOST))
        with self._state:
            self._state.notify_all()

    def _answer(self, line: bytes) -> None:
        message = parsed_object(line)
        request_id = None if "method" in message else usable_id(message.get("id"))
        with self._state:
            if request_id in self._unwanted:
                self._unwanted.discard(request_id)
                return
        self._write(line)
        if request_id is not None:
            # Only now: the end of the input waits for the last answer.
            with self._state:
                self._calls.pop(request_id, None)
                self._state.notify_all()

    def _is_done(self) -> bool:
        return not self._calls and not self._unsent

    def _finish(self) -> None:
        """Wait for the end of the input and for every answer, and let the engine end its side."""
        with self._state:
            self._state.wait_for(lambda: self._is_over or self._has_ended)
            starting_s = limits.ENGINE_START_S if self._link is None else 0
            self._state.wait_for(
                lambda: self._is_over or self._is_done(), starting_s + limits.STDIO_DRAIN_S
            )
            if self._link is not None and self._failure is None:
                _end(self._link, socket.SHUT_WR)
                # What is no message is answered too, without an id to wait for.
                self._state.wait_for(lambda: self._link is None, limits.STDIO_DRAIN_S)
            self._is_over = True
            self._state.notify_all()

    def _give_up(self, reason: Exception) -> None:
        with self._state:
            self._is_over, self._failure = True, reason
            lost, self._calls = self._calls, {}
            self._state.notify_all()
        for request_id in lost:
            self._write(_error(request_id, INTERNAL_ERROR, str(reason)))

    def _write(self, line: bytes) -> None:
        with self._output_lock:
            try:
                write_all(self._output, line + b"\n")
            except BrokenPipeError:
                return  # The client is gone, and its input ends too.


def _lines_of(link: socket.socket) -> Iterator[bytes]:
    """Yield the lines of the engine until it ends or fails."""
    try:
        for line in split_lines(link.fileno(), bytes_max=sys.maxsize):
            if isinstance(line, bytes):
                yield line
    except OSError:
        return  # A connection that was reset has ended.


def _send(link: socket.socket, line: bytes) -> bool:
    """Send a line; return False if the engine cannot have read all of it."""
    try:
        link.sendall(line + b"\n")
    except OSError:
        # The receiver sees the same end, and sends what waits to the next engine.
        return False
    return True


def _end(link: socket.socket, directions: int) -> None:
    try:
        link.shutdown(directions)
    except OSError:
        return  # It has ended already.


def _ids_of(handshake: Iterable[bytes]) -> Iterator[str | int]:
    """Yield the ids of requests of the handshake, which were answered once already."""
    for line in handshake:
        if (request_id := usable_id(parsed_object(line).get("id"))) is not None:
            yield request_id


def _error(request_id: str | int | None, code: int, text: str) -> bytes:
    error = {"code": code, "message": text}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode()
