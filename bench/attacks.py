"""A tenant that sends the worst of everything it may send, for a bounded time.

    python -m bench.attacks PORT KEY SECONDS

Every attack runs in a thread of its own, over and over, and takes whatever answer it gets: refusals,
resets and silence are what it is for. It prints how often each attack ended.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

LOOPBACK = "127.0.0.1"
SOURCE = ("127.0.0.2", 0)
"""Attackers have addresses of their own, and connections are bounded by address."""

ANSWER_TIMEOUT_S = 20.0
IDLE_SOCKETS = 200
HELD_S = 2.0
"""How long an attack holds sockets before it drops them and begins again."""

THREADS_EACH = {"searches": 8, "appends": 4}
"""Attacks that come from several connections at once; the others come from two."""


@dataclass(slots=True)
class Target:
    """Whom to attack, with which key, and until when."""

    port: int
    key: str
    deadline: float
    ended: Counter[str] = field(default_factory=Counter[str])

    def post(self, path: str, body: bytes, *, media_type: str = "application/json") -> int:
        """Return the status of one request."""
        connection = http.client.HTTPConnection(
            LOOPBACK, self.port, timeout=ANSWER_TIMEOUT_S, source_address=SOURCE
        )
        with contextlib.closing(connection):
            connection.request("POST", path, body, self._headers(media_type))
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def call_tool(self, name: str, arguments: object) -> int:
        """Return the status of one call over MCP."""
        params = {"name": name, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return self.post("/mcp", json.dumps(message).encode())

    def connect(self) -> socket.socket:
        """Return a new connection."""
        address = (LOOPBACK, self.port)
        return socket.create_connection(address, ANSWER_TIMEOUT_S, source_address=SOURCE)

    def hold(self, begun: bytes, *, sockets: int) -> None:
        """Open sockets, begin a request on each, and finish none."""
        with contextlib.ExitStack() as stack:
            for _ in range(sockets):
                held = stack.enter_context(self.connect())
                held.sendall(begun)
            time.sleep(min(HELD_S, max(0.0, self.deadline - time.monotonic())))

    def head(self, path: str, *, length: int) -> bytes:
        """Return the head of a request whose body is to come."""
        return (
            f"POST {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nAuthorization: Bearer {self.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def _headers(self, media_type: str) -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": media_type,
            "Accept": "application/json, text/event-stream",
        }


def comments(target: Target) -> None:
    """Bodies of no declared kind that begin as HTML may, and do not go on so."""
    body = b"<!---->" * 500 + b"x"
    target.post("/api/v1/documents", body, media_type="application/octet-stream")


def appends(target: Target) -> None:
    """Messages as long as they may be, of what is worst to cut, to compress or to index."""
    texts = ("." * 2_000_000, "a" * 2_000_000, " \n" * 1_000_000, "\u202e" * 300_000)
    numbers = " ".join(map(str, range(200_000)))
    for text in (*texts, numbers):
        body = {"messages": [{"role": "user", "content": text}]}
        target.post("/api/v1/messages", json.dumps(body).encode())


def searches(target: Target) -> None:
    """Queries as long as they may be."""
    words = " ".join(f"word{number}" for number in range(9_000))
    target.post("/api/v1/search", json.dumps({"query": words, "limit": 50}).encode())
    target.call_tool("search", {"query": "." * 90_000})


def empty_objects(target: Target) -> None:
    """Small values by the million, in a body that a route might take."""
    body = b"[" + b"{}," * 3_000_000 + b"{}]"
    target.post("/api/v1/search", body)
    target.post("/mcp", body)
    target.post("/api/v1/messages", b'{"messages":' + body + b"}")


def deep_values(target: Target) -> None:
    """Values within values."""
    for opening in (b"[", b'{"a":'):
        target.post("/mcp", opening * 500_000)


def large_bodies(target: Target) -> None:
    """Bodies at the bound of an append, spelled as dearly as JSON allows."""
    content = b"\\u0001" * 5_000_000
    target.post("/api/v1/messages", b'{"messages":[{"role":"user","content":"' + content + b'"}]}')


def documents(target: Target) -> None:
    """Documents that nest, repeat or do not convert."""
    for body, media_type in (
        (b"<div>" * 200_000, "text/html"),
        (b"%PDF-1.7\n" + b"<<" * 500_000, "application/pdf"),
        (b"> " * 300_000, "text/markdown"),
        (b"# a\n" * 300_000, "text/markdown"),
    ):
        target.post("/api/v1/documents", body, media_type=media_type)


def huge_headers(target: Target) -> None:
    """One request whose headers do not end."""
    with target.connect() as held:
        held.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        for number in range(2_000):
            held.sendall(b"x-%d: " % number + b"y" * 16_000 + b"\r\n")


def idle_sockets(target: Target) -> None:
    """Many sockets that say nothing."""
    target.hold(b"", sockets=IDLE_SOCKETS)


def half_headers(target: Target) -> None:
    """Many requests whose head is not finished."""
    target.hold(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nx-", sockets=IDLE_SOCKETS)


def half_bodies(target: Target) -> None:
    """Many requests whose body is not finished."""
    head = target.head("/api/v1/messages", length=30_000_000)
    target.hold(head + b'{"messages": [', sockets=50)


def streams(target: Target) -> None:
    """Many legacy sessions at once."""
    head = f"GET /sse HTTP/1.1\r\nHost: {LOOPBACK}\r\nAuthorization: Bearer {target.key}\r\n\r\n"
    target.hold(head.encode(), sockets=100)


def wrong_keys(target: Target) -> None:
    """Requests with keys that do not exist."""
    for number in range(100):
        guess = f"engram_sk_live_{number:032d}"
        Target(target.port, guess, target.deadline).post("/api/v1/search", b'{"query": "x"}')


ATTACKS: tuple[Callable[[Target], None], ...] = (
    comments,
    appends,
    searches,
    empty_objects,
    deep_values,
    large_bodies,
    documents,
    huge_headers,
    idle_sockets,
    half_headers,
    half_bodies,
    streams,
    wrong_keys,
)


def attack(target: Target) -> None:
    """Run every attack until the target's time is over."""
    threads = [
        threading.Thread(target=_repeat, args=(target, each), daemon=True)
        for each in ATTACKS
        for _ in range(THREADS_EACH.get(each.__name__, 2))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, target.deadline - time.monotonic()) + ANSWER_TIMEOUT_S)


def _repeat(target: Target, each: Callable[[Target], None]) -> None:
    for _ in _until(target.deadline):
        try:
            each(target)
        except (OSError, http.client.HTTPException):
            target.ended[f"{each.__name__} cut off"] += 1
        else:
            target.ended[each.__name__] += 1


def _until(deadline: float) -> Iterator[int]:
    return itertools.takewhile(lambda _: time.monotonic() < deadline, itertools.count())


def main() -> None:
    """Attack the server that the arguments name."""
    port, key, seconds = sys.argv[1:]
    # Attackers have machines of their own: what this process computes is not the server's burden.
    os.nice(19)
    target = Target(int(port), key, time.monotonic() + float(seconds))
    attack(target)
    print(json.dumps(target.ended))


if __name__ == "__main__":
    main()
