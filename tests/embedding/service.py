"""A small embedding service on a local port that behaves as each test configures it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any

from tests.embedding.serving import served

DIMENSIONS = 3


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the service."""

    status: int = 200
    body: bytes = b""
    retry_after: str | None = None


Behaviour = Callable[[list[str]], Reply]


def vectors(texts: list[str], *, dimensions: int = DIMENSIONS) -> Reply:
    """Respond as OpenAI does, in the wrong order; the first component is the length of the text."""
    rows = [
        {"index": index, "embedding": [float(len(text)), 1.0] + [0.5] * (dimensions - 2)}
        for index, text in enumerate(texts)
    ]
    return Reply(body=json.dumps({"data": rows[::-1]}).encode())


def failing(status: int, *, retry_after: str | None = None) -> Behaviour:
    """Return the behaviour of a service that answers with `status`."""
    return lambda _: Reply(status, b"{}", retry_after)


def saying(text: str) -> Behaviour:
    """Return the behaviour of a service that answers any request with `text`."""
    return lambda _: Reply(body=text.encode())


@dataclass(slots=True)
class Service:
    """A running service: the requests it received, and how it will respond."""

    url: str = ""
    behaviours: list[Behaviour] = field(default_factory=list[Behaviour])
    """A queue, one for each request; when it is empty, requests succeed."""
    usual: Behaviour = vectors
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str | None] = field(default_factory=list["str | None"])
    asked: Event = field(default_factory=Event)
    """Set by each request."""
    awake: Event = field(default_factory=Event)
    """Responses wait for this event; while it is cleared, the service hangs."""

    @property
    def texts(self) -> list[list[str]]:
        """The texts of each request."""
        return [request["input"] for request in self.requests]


class _Handler(BaseHTTPRequestHandler):
    service: Service

    def do_POST(self) -> None:
        """Respond with the next behaviour."""
        service = self.service
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        service.requests.append(request)
        service.keys.append(self.headers.get("authorization"))
        service.asked.set()
        service.awake.wait(timeout=5)
        behaviour = service.behaviours.pop(0) if service.behaviours else service.usual
        with suppress(ConnectionError):
            self._send(behaviour(request["input"]))

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        self.send_header("content-length", str(len(reply.body)))
        if reply.retry_after is not None:
            self.send_header("retry-after", reply.retry_after)
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the library's name
        """Suppress the access log."""


@contextmanager
def running_service(*, port: int = 0) -> Generator[Service]:
    """Run a service until the block ends."""
    service = Service()
    service.awake.set()
    with served(type("Handler", (_Handler,), {"service": service}), port=port) as service.url:
        try:
            yield service
        finally:
            service.awake.set()
