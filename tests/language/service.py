"""A small language model service on a local port that speaks both wire formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any

from tests.embedding.serving import served


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the service."""

    status: int = 200
    body: bytes = b"{}"
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """One received request."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Behaviour = Callable[[Received], Reply]


def saying(words: str) -> Behaviour:
    """Return the behaviour of a service that gives one answer to every prompt, in its wire format."""

    def answer(asked: Received) -> Reply:
        if asked.path.endswith("/messages"):
            content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": words}]
            return Reply(body=json.dumps({"content": content}).encode())
        message = {"role": "assistant", "content": words}
        return Reply(body=json.dumps({"choices": [{"message": message}]}).encode())

    return answer


def failing(status: int, *, retry_after: str | None = None, body: bytes = b"{}") -> Behaviour:
    """Return the behaviour of a service that answers with `status`."""
    return lambda _: Reply(status, body, retry_after)


@dataclass(slots=True)
class Service:
    """A running service: the requests it received, and how it will respond."""

    url: str = ""
    behaviours: list[Behaviour] = field(default_factory=list[Behaviour])
    """A queue, one for each request; when it is empty, requests succeed."""
    usual: Behaviour = field(default_factory=lambda: saying("The gist."))
    asked: list[Received] = field(default_factory=list[Received])
    awake: Event = field(default_factory=Event)
    """Responses wait for this event; while it is cleared, the service hangs."""


class _Handler(BaseHTTPRequestHandler):
    service: Service

    def do_POST(self) -> None:
        """Respond with the next behaviour."""
        service = self.service
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Received(self.path, headers, body)
        service.asked.append(asked)
        service.awake.wait(timeout=5)
        behaviour = service.behaviours.pop(0) if service.behaviours else service.usual
        with suppress(ConnectionError):
            self._send(behaviour(asked))

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
def running_language_service() -> Generator[Service]:
    """Run a service until the block ends."""
    service = Service()
    service.awake.set()
    with served(type("Handler", (_Handler,), {"service": service})) as service.url:
        try:
            yield service
        finally:
            service.awake.set()
