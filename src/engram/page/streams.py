"""Live views: a stream of server-sent events, each the changed part of a view as HTML.

A stream takes a turn for each look at the store and ends with its session.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from starlette.types import Receive, Send

from engram import limits
from engram.errors import EngramError, TooManySessionsError
from engram.page import ON_SHUTDOWN
from engram.page.rendering import render
from engram.page.view import View
from engram.page.visit import Visit
from engram.yielding import serving

logger = logging.getLogger(__name__)

HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    # nginx would hold events back until it has a buffer of them.
    (b"x-accel-buffering", b"no"),
]


class Streams:
    """The open streams of one process."""

    def __init__(self) -> None:
        self._open = Counter[str]()

    async def serve(
        self, view: View, visit: Visit, receive: Receive, send: Send, *, state: dict[str, Any]
    ) -> None:
        """Send the changing part of a view until its reader leaves, is signed out or the server stops.

        Raises:
            TooManySessionsError: the same caller has too many open.
        """
        actor = visit.principal.actor
        owner = f"{visit.principal.organization_id} {actor}"
        if self._open[owner] >= limits.PAGE_STREAMS_PER_CALLER_MAX:
            raise TooManySessionsError(owner="key", limit=limits.PAGE_STREAMS_PER_CALLER_MAX)
        self._open[owner] += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await _until_gone(receive, lambda: _send_until_failure(view, visit, send), state=state)
        finally:
            self._open -= Counter((owner,))
        await send({"type": "http.response.body", "body": b""})


async def _until_gone(
    receive: Receive, work: Callable[[], Awaitable[None]], *, state: dict[str, Any]
) -> None:
    """Run work until it ends, the client is gone or the server begins to stop."""
    async with anyio.create_task_group() as tasks:
        state[ON_SHUTDOWN] = tasks.cancel_scope.cancel

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        await work()
        tasks.cancel_scope.cancel()


async def _send_until_failure(view: View, visit: Visit, send: Send) -> None:
    try:
        await _send_changes(view, visit, send)
    except EngramError as exc:
        # The browser connects again by itself, and is told then if that cannot be.
        logger.info("a live view of %s ended: %s", view.path, exc.code)


async def _send_changes(view: View, visit: Visit, send: Send) -> None:
    pulse: object = None
    shown = b""
    while await _is_signed_in(visit):
        async with visit.service.turns.turn(visit.principal.organization_id):
            with serving(visit.principal.organization_id):
                found = await _changed_part(view, visit, pulse)
        if found is not None:
            pulse, html = found
            digest = hashlib.sha256(html.encode(errors="replace")).digest()
            if digest != shown:
                shown = digest
                await _send_event(send, html)
        else:
            await _send_comment(send)
        await anyio.sleep(limits.PAGE_PULSE_S)


async def _changed_part(view: View, visit: Visit, before: object) -> tuple[object, str] | None:
    """Return the pulse and the part of a view if the pulse is another one than before."""
    if view.pulse is None or view.live is None:
        return None
    pulse = await view.pulse(visit)
    if pulse == before:
        return None
    page = await view.load(visit)
    context = {"page": page, "now": visit.service.clock.now(), "visit": visit}
    return pulse, render(view.live, context)


async def _is_signed_in(visit: Visit) -> bool:
    """Return True while the session that opened the stream goes on, or a key was presented."""
    if visit.secret is None:
        return True
    visitor = await visit.service.sessions.find_visitor(visit.secret)
    return visitor is not None and visitor.principal is not None


async def _send_event(send: Send, html: str) -> None:
    data = "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"
    await _send(send, data.encode(errors="replace"))


async def _send_comment(send: Send) -> None:
    # Keeps proxies from closing a connection that seems idle.
    await _send(send, b":\n\n")


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
