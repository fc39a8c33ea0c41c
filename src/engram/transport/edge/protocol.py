"""HTTP/1.1 on one connection, with bounds on what an unknown client can make the server hold.

uvicorn's protocol parses and answers; this one counts header bytes and fields, closes connections
whose clients send or read too slowly, and queues few pipelined requests. It relies on how that class
is made, so the dependency on uvicorn is pinned to one minor release.
"""

from __future__ import annotations

import asyncio
import logging
import math
from enum import Enum, auto
from math import inf
from typing import Any, cast

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from engram.transport.edge.bounds import EdgeBounds
from engram.transport.edge.connections import ConnectionTable, address_group
from engram.transport.edge.refusals import Refusals

logger = logging.getLogger(__name__)

_FIELD_FRAMING_BYTES = 4
"""Colon, space and line break of a header field."""

_FRAMING_PER_BYTE_MAX = 8
"""A body in chunks of one byte has five bytes of framing for each; beyond that is no client."""


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
    """Whatever comes after a refusal; it is thrown away."""


class _RefusedError(Exception):
    """Stops the parser; `_refusal` says why."""


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
        # Asked for with every header.
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
        self._ended_message = False
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
            # The answers before come in order, so there is no place for one to this.
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
        """Answer the request, and close: what follows would be in the protocol that was asked for."""
        self.cycle.keep_alive = False
        self._reading = _Reading.WASTE

    # --- what is answered -----------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._working = cycle
        self._table.stop_waiting(self)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        if self._working is not None:
            principal = self._working.scope.get("state", {}).get("principal")
            if principal is not None:
                self.organization_id = principal.organization_id
            self._working = None
        if self._reading is _Reading.BODY and not self.pipeline:
            self._close_by = self.loop.time() + self._bounds.linger_s
        super().on_response_complete()
        if self._working is None:
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
                or self._framing > self._header_bytes_max + _FRAMING_PER_BYTE_MAX * self._body
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
        self.transport.write_eof()
        self._close_by = self.loop.time() + self._bounds.linger_s
        self.flow.resume_reading()
        self._table.wait(self)

    def _waste(self, size: int) -> None:
        """Read on only after a while: nobody needs what a refused client sends."""
        self.flow.pause_reading()
        self.loop.call_later(size / self._bounds.waste_bytes_per_s, self.flow.resume_reading)

    def _abandon_requests(self) -> None:
        """Tell every request of this connection that its client is gone."""
        for cycle in (self._working, *(cycle for cycle, _ in self.pipeline)):
            if cycle is not None:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        self._working = None


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
