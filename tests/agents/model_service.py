"""A stand-in for the services of models: it makes the calls that a test has planned, and no others."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import urlsplit

from tests.agents.wires import WIRES, Json, Shown, ToolCall, Wire


class ModelService:
    """Answers the agents of one test, a turn at a time."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._lock = threading.Lock()
        self._plan: Sequence[ToolCall] = ()
        self._says = "ok"
        self._meanwhile: Callable[[], None] | None = None
        self._shown = list[Shown]()

    def begin_turn(
        self, plan: Sequence[ToolCall], *, says: str, meanwhile: Callable[[], None] | None
    ) -> None:
        """Make these calls in the next turn, and then say what the last one gave, or else this.

        Something may happen between the first question and its answer.
        """
        with self._lock:
            self._plan, self._shown = plan, []
            self._says, self._meanwhile = says, meanwhile

    def end_turn(self) -> list[Shown]:
        """Return what the model was shown, a request at a time."""
        with self._lock:
            return self._shown

    def answer(self, wire: Wire, body: Json) -> Sequence[Json]:
        """Return the events of the answer to one request."""
        shown = wire.shown(body)
        if not shown.others:
            return wire.say("ok")  # a side task of the agent, such as a title for the session
        with self._lock:
            self._shown.append(shown)
            step, plan, says = len(shown.results), self._plan, self._says
            meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        for call in plan:
            if call.says is not None and call.starts(shown):
                return wire.say(call.says)
        if step == len(plan):
            return wire.say("\n".join(shown.results[-1:]) or says)
        if plan[step].tool not in {*shown.tools, *shown.others}:
            return wire.say(f"there is no tool {plan[step].tool} among {shown.tools}")
        return wire.call(plan[step], number=step)


@contextmanager
def model_service() -> Generator[ModelService]:
    """Yield a service on a free loopback port."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = ModelService(self.server_port)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request for text, or for the number of tokens of one."""
        body: Json = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        wire = _wire_of(urlsplit(self.path).path)
        if wire is None:
            self._send("application/json", b'{"input_tokens": 1, "totalTokens": 1}')
            return
        events = cast("_Server", self.server).model.answer(wire, body)
        self._send("text/event-stream", b"".join(_encoded(events)))

    def do_GET(self) -> None:
        """List no models."""
        self._send("application/json", b'{"data": [], "models": []}')

    def do_HEAD(self) -> None:
        """Answer that there is a service."""
        self._send("application/json", b"")

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - named by http.server
        """Log nothing."""

    def _send(self, media_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _wire_of(path: str) -> Wire | None:
    return next((wire for end, wire in WIRES.items() if path.endswith(end)), None)


def _encoded(events: Sequence[Json]) -> Iterator[bytes]:
    """Yield server-sent events; those with a type are named by it."""
    for event in events:
        if "type" in event:
            yield f"event: {event['type']}\n".encode()
        yield f"data: {json.dumps(event)}\n\n".encode()
