"""HTTP/1.1 on one connection, with bounds on what an unknown client can make the server hold.

uvicorn's protocol parses and answers; this one counts header bytes and fields, closes connections
whose clients send or read too slowly, and queues few pipelined requests. It relies on how that class
is made, so the dependency on uvicorn is pinned to one minor release.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from functools import partial
from math import inf
from typing import Any, cast

import httptools
import orjson
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from engram import limits
from engram.http.connections import ConnectionTable, EdgeBounds, Unread, address_group
from engram.http.problems import (
    MEDIA_TYPE,
    RETRY_AFTER_S,
    Problem,
    phrase_of,
)
from engram.model.value import plain
from engram.page import ON_SHUTDOWN

logger = logging.getLogger(__name__)

Send = Callable[[Any], Awaitable[None]]

_FIELD_FRAMING_BYTES = 4
"""Colon, space and line break of a header field."""


class EdgeConfig(uvicorn.Config):
    """uvicorn's configuration with what all connections share; each worker process gets a copy."""

    def __init__(self, app: Any, *, bounds: EdgeBounds, **options: Any) -> None:
        super().__init__(
            app, http=BoundedProtocol, timeout_keep_alive=math.ceil(bounds.keep_alive_s), **options
        )
        self.connections = ConnectionTable(bounds)
        self.refusals = Refusals(bounds)


class _Reading(Enum):
    """What the client sends now."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()
    WASTE = auto()
    """Whatever comes after a refusal; it is discarded."""


class _RefusedError(Exception):
    """Stops the parser; `_refusal` holds the answer."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection; see the module."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.address = ""
        self.organization_id: str | None = None
        shared = cast("EdgeConfig", config)
        self._table = shared.connections
        self._bounds = self._table.bounds
        # Read for every header.
        self._header_bytes_max = self._bounds.header_bytes_max
        self._headers_max = self._bounds.headers_max
        self._refusals = shared.refusals
        self._refusal = self._refusals.bad_http
        self._working: RequestResponseCycle | None = None
        self._reading = _Reading.HEAD
        self._head_by = inf
        self._close_by = inf
        self._head_raw = self._head_parsed = self._fields = 0
        self._framing = self._without_content = self._body = self._body_before = 0
        self._ended_message = self._lingers = self._is_last = False
        self._received = Window(self._bounds)
        self._sent = Window(self._bounds)
        self._unsent = 0

    # --- the connection -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self.address = address_group(self.client[0] if self.client else "")
        self._head_by = self.loop.time() + self._bounds.header_s
        if self._table.admit(self):
            self._table.start_sweeping(self.loop)
        else:
            self._reading = _Reading.WASTE
            transport.write(self._refusals.too_many_connections)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        self._abandon_requests()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection after what is at work; a stream, which has no end, ends at once."""
        super().shutdown()
        if self._working is not None:
            end = self._working.scope.get("state", {}).get(ON_SHUTDOWN)
            if end is not None:
                end()

    def evict(self) -> None:
        """Make room for another client."""
        self.transport.abort()

    def postpone(self, seconds: float) -> None:
        """Move every deadline by a time in which the server itself did nothing."""
        self._head_by += seconds
        self._close_by += seconds
        self._received.since += seconds
        self._sent.since += seconds

    def check(self, now: float) -> None:
        """Close the connection if its client has been too slow."""
        if now >= self._close_by or self._reads_too_slowly(now):
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self._reading is _Reading.HEAD and self._is_head_late(now):
            self._refuse(self._refusals.slow_head if self._head_raw else b"")
        elif self._reading is _Reading.BODY and self._sends_too_slowly(now):
            self._refuse(self._refusals.slow_body)

    # --- what arrives ---------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._reading is _Reading.WASTE:
            self._waste(len(data))
            return
        self._unset_keepalive_if_required()
        if self._reading is _Reading.NOTHING:
            self._begin_head()
        was_in_body, self._ended_message, self._body_before = (
            self._reading is _Reading.BODY,
            False,
            self._body,
        )
        # It is None only after the connection was lost, when nothing comes any more.
        parser = cast("httptools.HttpRequestParser", self.parser)
        try:
            parser.feed_data(data)
            self._count_raw(len(data), was_in_body=was_in_body)
        except httptools.HttpParserUpgrade:
            self._unsupported_upgrade_warning()
        except (httptools.HttpParserError, _RefusedError):
            self._refuse(self._refusal)
        else:
            if self._reading is _Reading.BODY and self.cycle.response_complete:
                self._waste(len(data))

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= self._bounds.pipelined_max:
            # Responses go out in order, so this request cannot be answered before the earlier ones.
            self._stop(b"")
        self._begin_head()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields += 1
        self._count_head(len(name) + len(value) + _FIELD_FRAMING_BYTES)
        # Trailers come after the headers were judged, so no part of the server may see them.
        if self._reading is _Reading.HEAD:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._reading = _Reading.BODY
        self._received.restart(self.loop.time())
        self._body = self._body_before = self._framing = self._without_content = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        self._received.moved += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._reading = _Reading.NOTHING
        self._ended_message = True
        if self.cycle.response_complete:
            self._close_by = self.loop.time() + self._bounds.keep_alive_s
        super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Answer the request and close: what follows would be in the upgraded protocol."""
        self.cycle.keep_alive = False
        self._reading = _Reading.WASTE

    # --- what is answered -----------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._working = cycle
        self._table.stop_waiting(self)
        cycle.send = partial(self._send, cycle, cycle.send)
        super()._start_asgi_task(cycle, app)

    async def _send(self, cycle: RequestResponseCycle, send: Send, message: Any) -> None:
        """Send a part of an answer, a long one in pieces: each waits until the last is mostly read."""
        body = message.get("body", b"")
        if len(body) <= limits.ANSWER_PIECE_BYTES:
            await self._send_piece(cycle, send, message)
            return
        principal = cycle.scope.get("state", {}).get("principal")
        organization_id = None if principal is None else principal.organization_id
        unread = Unread(len(body), organization_id, self.loop.time())
        self._table.answers.add(self, unread)
        try:
            for start in range(0, len(body), limits.ANSWER_PIECE_BYTES):
                piece = body[start : start + limits.ANSWER_PIECE_BYTES]
                is_last = start + len(piece) == len(body)
                more_body = message.get("more_body", False) or not is_last
                part = {**message, "body": piece, "more_body": more_body}
                await self._send_piece(cycle, send, part)
                unread.sent = start
        finally:
            self._table.answers.remove(self)

    async def _send_piece(self, cycle: RequestResponseCycle, send: Send, message: Any) -> None:
        """Send a part of an answer; a client that still sends its body gets to read all of it.

        A connection that is closed while its client sends is reset, and with it the client loses the
        answer. So what is left of a body is discarded: before the next request, or before the end.
        """
        if not cycle.response_started:
            cycle.keep_alive = cycle.keep_alive and not _is_unskippable(cycle)
            self._lingers = not cycle.waiting_for_100_continue
        elif not cycle.keep_alive and self._lingers and cycle.more_body:
            # The headers announced the end of the connection; uvicorn would close it at once.
            cycle.keep_alive = not message.get("more_body", False)
            self._is_last = cycle.keep_alive
        await send(message)

    def on_response_complete(self) -> None:
        if self._working is not None:
            principal = self._working.scope.get("state", {}).get("principal")
            if principal is not None:
                self.organization_id = principal.organization_id
            self._working = None
        if self._reading is _Reading.BODY and not self.pipeline:
            self._close_by = self.loop.time() + self._bounds.linger_s
        super().on_response_complete()
        if self._is_last:
            self._unset_keepalive_if_required()
            self._linger()
        elif self._working is None:
            self._table.wait(self)

    def resume_writing(self) -> None:
        self._sent.restart(self.loop.time())
        super().resume_writing()

    # --- bounds ---------------------------------------------------------------------------------

    def _begin_head(self) -> None:
        if self._reading is not _Reading.HEAD:
            self._reading = _Reading.HEAD
            self._head_by = self.loop.time() + self._bounds.header_s
            self._close_by = inf
        self._head_raw = self._head_parsed = self._fields = 0

    def _count_head(self, size: int) -> None:
        self._head_parsed += size
        if self._head_parsed > self._header_bytes_max or self._fields > self._headers_max:
            self._stop(self._refusals.head_too_large)

    def _count_raw(self, size: int, *, was_in_body: bool) -> None:
        """Count what the parser has taken in: an unfinished field is not shown to us."""
        if self._ended_message:
            return
        if self._reading is _Reading.HEAD:
            self._head_raw += size
            if self._head_raw > self._header_bytes_max:
                self._stop(self._refusals.head_too_large)
        elif was_in_body:
            content = self._body - self._body_before
            self._framing += size - content
            # A trailer is held until it ends, however much content came before it.
            self._without_content = 0 if content else self._without_content + size
            if (
                self._without_content > self._header_bytes_max
                or self._framing > self._header_bytes_max + limits.FRAMING_PER_BYTE_MAX * self._body
            ):
                self._stop(self._refusals.too_much_framing)

    def _is_head_late(self, now: float) -> bool:
        if self.flow.read_paused:
            self._head_by = now + self._bounds.header_s
        return now >= self._head_by

    def _sends_too_slowly(self, now: float) -> bool:
        cycle = self.cycle
        if cycle.response_complete:
            return False
        # As long as the server does not read on, the client cannot be blamed.
        if self.flow.read_paused or self.pipeline or cycle.waiting_for_100_continue:
            self._received.restart(now)
        return self._received.is_too_slow(now)

    def _reads_too_slowly(self, now: float) -> bool:
        before, self._unsent = self._unsent, self.transport.get_write_buffer_size()
        if not self._unsent or not before:
            self._sent.restart(now)
        else:
            self._sent.moved += max(0, before - self._unsent)
        return self._sent.is_too_slow(now)

    # --- refusing -------------------------------------------------------------------------------

    def _stop(self, refusal: bytes) -> None:
        self._refusal = refusal
        raise _RefusedError

    def _refuse(self, answer: bytes) -> None:
        """Answer unless an answer has begun, and close once the client has had time to read it."""
        logger.debug("closing a connection from %s: %s", self.address, answer[9:12] or "no request")
        self._reading = _Reading.WASTE
        has_begun = self._working is not None and self._working.response_started
        self._abandon_requests()
        if has_begun or not answer:
            self.transport.close()
            self._close_by = self.loop.time() + self._bounds.linger_s
            return
        self.transport.write(answer)
        self._linger()

    def _linger(self) -> None:
        """End the answer, and discard what the client sends until it closes the connection."""
        self._reading = _Reading.WASTE
        self.transport.write_eof()
        self._close_by = self.loop.time() + self._bounds.linger_s
        self.flow.resume_reading()
        self._table.wait(self)

    def _waste(self, size: int) -> None:
        """Throttle reading: whatever a refused client sends is discarded."""
        self.flow.pause_reading()
        self.loop.call_later(size / self._bounds.waste_bytes_per_s, self.flow.resume_reading)

    def _abandon_requests(self) -> None:
        """Signal to every request of this connection that its client has disconnected."""
        for cycle in (self._working, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        self._working = None


def _is_unskippable(cycle: RequestResponseCycle) -> bool:
    """Return True if the unread rest of a body is too large to discard, or of unknown length."""
    if not cycle.more_body and not cycle.body:
        return False
    length = dict(cycle.scope["headers"]).get(b"content-length", b"")
    # The number of digits is bounded before they are parsed.
    is_number = length.isdigit() and len(length) <= len(str(limits.UNREAD_BYTES_MAX))
    return cycle.waiting_for_100_continue or not is_number or int(length) > limits.UNREAD_BYTES_MAX


class Window:
    """Bytes moved since the window began."""

    __slots__ = ("_bytes_min", "_seconds", "moved", "since")

    def __init__(self, bounds: EdgeBounds) -> None:
        self._seconds = bounds.transfer_window_s
        self._bytes_min = bounds.window_bytes_min
        self.since = 0.0
        self.moved = 0

    def restart(self, now: float) -> None:
        """Begin another window."""
        self.since = now
        self.moved = 0

    def is_too_slow(self, now: float) -> bool:
        """Return True if a whole window has passed without enough bytes; if with, begin another."""
        if now - self.since < self._seconds:
            return False
        if self.moved < self._bytes_min:
            return True
        self.restart(now)
        return False


class Refusals:
    """The refusals of one server; each names its bound."""

    def __init__(self, bounds: EdgeBounds) -> None:
        self.bad_http = _answer(400, "invalid_http", "this is not a valid HTTP/1.1 request")
        self.too_much_framing = _answer(
            400, "invalid_http", "the chunks of the body carry more framing than content"
        )
        self.head_too_large = _answer(
            431,
            "headers_too_large",
            f"request line and headers may have at most {bounds.header_bytes_max:,} bytes "
            f"and {bounds.headers_max} fields",
        )
        self.slow_head = _answer(
            408, "request_timeout", f"the headers did not arrive within {bounds.header_s:g} seconds"
        )
        self.slow_body = _answer(
            408,
            "request_timeout",
            f"the body arrived with less than {bounds.transfer_bytes_per_s_min:,} bytes a second "
            f"for {bounds.transfer_window_s:g} seconds",
        )
        self.too_many_connections = _answer(
            503,
            "too_many_connections",
            f"the server has {bounds.connections_max:,} connections at work, "
            f"or {bounds.connections_per_address_max:,} from this address",
            {"Retry-After": str(RETRY_AFTER_S)},
        )


def _answer(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> bytes:
    problem = Problem(status=status, code=code, title=phrase_of(status), detail=detail)
    body = orjson.dumps(plain(problem))
    fields = {
        "content-type": MEDIA_TYPE,
        "content-length": str(len(body)),
        "connection": "close",
        **(headers or {}),
    }
    lines = [f"HTTP/1.1 {status} {problem.title}", *(f"{k}: {v}" for k, v in fields.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
