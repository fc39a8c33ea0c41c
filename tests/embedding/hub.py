"""A small hub on a local port: it serves ranges, and drops connections on demand."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler

from tests.embedding.serving import served


@dataclass(slots=True)
class Hub:
    """The files of a running hub, and the requests it received."""

    contents: dict[str, bytes]
    url: str = ""
    gives_ranges: bool = True
    break_after: list[int] = field(default_factory=list[int])
    """For each of the next responses, the number of bytes after which the connection drops."""
    ranges: list[str] = field(default_factory=list[str])
    paths: list[str] = field(default_factory=list[str])


class _Handler(BaseHTTPRequestHandler):
    hub: Hub

    def do_GET(self) -> None:
        """Respond with the file, or the requested range of it."""
        hub = self.hub
        asked = self.headers.get("range", "bytes=0-")
        hub.ranges.append(asked)
        hub.paths.append(self.path)
        content = hub.contents.get(self.path)
        if content is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if hub.gives_ranges else 0
        self.send_response(HTTPStatus.PARTIAL_CONTENT if hub.gives_ranges else HTTPStatus.OK)
        if hub.gives_ranges:
            self.send_header("content-range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("content-length", str(len(content) - start))
        self.end_headers()
        until = hub.break_after.pop(0) if hub.break_after else len(content)
        self.wfile.write(content[start : start + until])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the library's name
        """Suppress the access log."""


@contextmanager
def running_hub(contents: dict[str, bytes]) -> Generator[Hub]:
    """Run a hub until the block ends."""
    hub = Hub(contents)
    with served(type("Handler", (_Handler,), {"hub": hub})) as hub.url:
        yield hub
