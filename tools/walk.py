"""Print which rooms, modules and functions a request passes, and which SQL statements it runs.

    python -m tools.walk                          a summary by room of all four walks
    python -m tools.walk search --functions       every function of one, in the order of the first call

An append, a search, a correction of a memory and an upload of a document are sent over REST to an
application in this process, on a temporary SQLite store. Each is sent once unobserved first, so that
late imports and cold caches do not count. Background work is not started: a walk ends with its answer.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx
from starlette.types import Receive, Scope, Send

import engram
from engram.bodies.receiving import Bodies
from engram.embedding.choice import Hashed
from engram.http.asgi import build_app
from engram.mcp.http import build_mcp_http
from engram.settings import Settings
from engram.wiring import open_service

PACKAGE = Path(engram.__file__).parent
SPLIT_ROOMS = frozenset({"storage"})
"""Rooms that are shown by their subfolders."""

_ADMIN_TOKEN = "the-operators-token"  # noqa: S105 of a store that lives as long as this process
_EXECUTING = frozenset({"execute", "executemany"})
_STATEMENT_NAME = re.compile(r"^-- (\w+) --$", re.MULTILINE)
_HOLE = re.compile(r":[a-z]\w*|\?\d*|/\*\w+\*/|\{\w+\}")
"""What differs between a statement in its file and the same statement when it runs."""


@dataclass(slots=True)
class Walk:
    """The functions and statements of one request; dictionaries keep the order of the first call."""

    functions: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    """Path of the module below the package, and qualified name."""
    statements: Counter[str] = field(default_factory=Counter[str])

    def rooms(self) -> Mapping[str, list[tuple[str, str]]]:
        """Return the functions by room, the room entered first before the others."""
        rooms: dict[str, list[tuple[str, str]]] = {}
        for path, name in self.functions:
            rooms.setdefault(room_of(path), []).append((path, name))
        return rooms


class Observer:
    """Records calls into the package on every thread, and the statements of every SQLite connection.

    It must be installed before the threads it observes start; Python 3.11 cannot profile others.
    """

    def __init__(self) -> None:
        self._walk: Walk | None = None

    @contextmanager
    def installed(self) -> Generator[None]:
        """Profile this thread and those started while the block runs."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    async def observe(self, call: Callable[[], Awaitable[object]]) -> Walk:
        """Return the walk of `call`."""
        self._walk = walk = Walk()
        try:
            await call()
        finally:
            self._walk = None
        return walk

    def _profile(self, frame: FrameType, event: str, function: Any) -> None:
        if self._walk is None:
            return
        if event == "call":
            self._note_function(self._walk, frame.f_code)
        elif event == "c_call" and function.__name__ in _EXECUTING:
            self._follow(function)

    def _follow(self, execute: Any) -> None:
        """Trace the statements of a call of SQLite that is about to begin."""
        connection = _connection_of(execute.__self__)
        if connection is not None:
            is_one = execute.__name__ == "execute"
            connection.set_trace_callback(_first_only(self._trace) if is_one else self._trace)

    def _note_function(self, walk: Walk, code: CodeType) -> None:
        path = module_path(code.co_filename)
        # Comprehensions and lambdas belong to the function they are written in.
        if path is not None and not code.co_name.startswith("<"):
            walk.functions.setdefault((path, code.co_qualname))

    def _trace(self, statement: str) -> None:
        # What SQLite runs itself to maintain an index is traced as a comment of one line.
        is_nested = statement.startswith("--") and "\n" not in statement
        if self._walk is not None and not is_nested:
            self._walk.statements[statement_name(statement)] += 1


def _first_only(trace: Callable[[str], None]) -> Callable[[str], None]:
    """Return a callback for one statement: each cascading deletion traces its text once more."""
    is_traced = False

    def trace_first(statement: str) -> None:
        nonlocal is_traced
        if not is_traced:
            is_traced = True
            trace(statement)

    return trace_first


def _connection_of(executing: object) -> sqlite3.Connection | None:
    if isinstance(executing, sqlite3.Cursor):
        return executing.connection
    return executing if isinstance(executing, sqlite3.Connection) else None


@cache
def module_path(filename: str) -> str | None:
    """Return the path of a module below the package, None for modules of others."""
    path = Path(filename)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def room_of(path: str) -> str:
    """Return the folder that a module counts as; "." for modules beside the rooms."""
    folders = path.split("/")[:-1]
    depth = 2 if folders[:1] and folders[0] in SPLIT_ROOMS else 1
    return "/".join(folders[:depth]) or "."


def statement_name(statement: str) -> str:
    """Return `file.name` of a statement that ran, or its first words if no file has it."""
    matching = (
        (sum(map(len, literals)), name)
        for name, literals in _known_statements()
        if _contains_in_order(statement, literals)
    )
    _, name = max(matching, default=(0, " ".join(statement.split()[:2])))
    return name


@cache
def _known_statements() -> Sequence[tuple[str, Sequence[str]]]:
    """Return the statements of the `.sql` files, as the texts between their parameters."""
    known: list[tuple[str, Sequence[str]]] = []
    for path in sorted(PACKAGE.rglob("*.sql")):
        _, *parts = _STATEMENT_NAME.split(path.read_text(encoding="utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            known.append((f"{path.stem}.{name}", _HOLE.split(text.strip())))
    return known


def _contains_in_order(statement: str, literals: Sequence[str]) -> bool:
    end = 0
    for literal in literals:
        start = statement.find(literal, end)
        if start < 0 or (end == 0 and start > 0):
            return False
        end = start + len(literal)
    return True


@asynccontextmanager
async def connected_client() -> AsyncGenerator[httpx.AsyncClient]:
    """Yield a client of a new organisation in an application on a temporary store."""
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(
            home=Path(home), embedder=Hashed(), admin_token=_ADMIN_TOKEN, rate_limit=0
        )
        async with open_service(settings) as service:
            service.access.load_operators()
            mcp = build_mcp_http(service, toolsets=settings.shown_toolsets)
            app, state = build_app(service, mcp, settings), {"service": service, "bodies": Bodies()}

            async def serve(scope: Scope, receive: Receive, send: Send) -> None:
                scope["state"] = dict(state)
                await app(scope, receive, send)

            url = f"http://{settings.host}:{settings.port}"
            transport = httpx.ASGITransport(serve)
            async with httpx.AsyncClient(transport=transport, base_url=url) as client:
                await _sign_in(client)
                yield client


async def _sign_in(client: httpx.AsyncClient) -> None:
    operator = {"Authorization": f"Bearer {_ADMIN_TOKEN}"}
    made = await client.post("/admin/organizations", json={"name": "walk"}, headers=operator)
    client.headers["Authorization"] = f"Bearer {made.raise_for_status().json()['api_key']}"


async def _append(
    client: httpx.AsyncClient, number: int, *, conversation_id: str
) -> httpx.Response:
    messages = [{"role": "user", "content": f"The crane at berth {number} is out of order."}]
    path = f"/api/v1/conversations/{conversation_id}/messages"
    return await client.post(path, json={"messages": messages})


async def _search(client: httpx.AsyncClient, number: int) -> httpx.Response:
    return await client.post("/api/v1/search", json={"query": f"crane at berth {number}"})


async def _correct(client: httpx.AsyncClient, number: int, *, memory_id: str) -> httpx.Response:
    content = f"The crane at berth {number} works again."
    return await client.patch(f"/api/v1/memories/{memory_id}", json={"content": content})


async def _upload(client: httpx.AsyncClient, number: int) -> httpx.Response:
    return await client.post(
        "/api/v1/documents",
        content=f"# Berth {number}\n\nThe crane is out of order.\n".encode(),
        headers={"Content-Type": "text/markdown"},
        params={"name": f"berth-{number}.md"},
    )


WALKS = ("append_messages", "search", "memory_correct", "upload_document")
"""Names of the operations that can be walked."""


async def walk_all(names: Sequence[str] = WALKS) -> Mapping[str, Walk]:
    """Return the walks of the operations."""
    observer = Observer()
    with observer.installed():
        async with connected_client() as client:
            calls = await _calls(client)
            return {name: await _walk(observer, calls[name]) for name in names}


async def _calls(client: httpx.AsyncClient) -> Mapping[str, Callable[[int], Awaitable[Any]]]:
    """Return a call for each operation, on a store that has something to find and to correct."""
    begun = await client.post("/api/v1/conversations", json={"title": "Berths"})
    conversation_id = begun.raise_for_status().json()["conversation_id"]
    stored = await client.post("/api/v1/notes", json={"content": "The crane needs a new cable."})
    memory_id = stored.raise_for_status().json()["id"]
    append = partial(_append, client, conversation_id=conversation_id)
    await append(0)
    return {
        "append_messages": append,
        "search": partial(_search, client),
        "memory_correct": partial(_correct, client, memory_id=memory_id),
        "upload_document": partial(_upload, client),
    }


async def _walk(observer: Observer, call: Callable[[int], Awaitable[httpx.Response]]) -> Walk:
    async def checked(number: int) -> None:
        (await call(number)).raise_for_status()

    await checked(1)
    return await observer.observe(lambda: checked(2))


def summary(name: str, walk: Walk) -> str:
    """Return the size of a walk, a row for each room, and its statements."""
    modules = {path for path, _ in walk.functions}
    rooms = walk.rooms()
    size = f"{len(walk.functions)} functions in {len(modules)} modules of {len(rooms)} rooms"
    lines = [
        f"{name}: {size}, {walk.statements.total()} SQL statements",
        "",
        f"  {'room':<24}{'modules':>8}{'functions':>11}",
    ]
    lines += (
        f"  {room:<24}{len({path for path, _ in passed}):>8}{len(passed):>11}"
        for room, passed in rooms.items()
    )
    lines += ("", *(f"  {count:>4}  {each}" for each, count in walk.statements.items()))
    return "\n".join(lines)


def listing(name: str, walk: Walk) -> str:
    """Return the summary of a walk, then its functions in the order of their first call."""
    return "\n".join(
        (summary(name, walk), "", *(f"  {path}:{each}" for path, each in walk.functions))
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the walks that are asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.walk", description="Print what four requests pass."
    )
    parser.add_argument(
        "walks", nargs="*", metavar="WALK", help=f"of {', '.join(WALKS)}; all of them"
    )
    parser.add_argument("--functions", action="store_true", help="list every function too")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.walks if name not in WALKS]:
        parser.error(f"no walk {unknown[0]!r}; there are {', '.join(WALKS)}")
    shown = listing if options.functions else summary
    walks = asyncio.run(walk_all(options.walks or WALKS))
    print("\n\n".join(shown(name, walk) for name, walk in walks.items()))


if __name__ == "__main__":
    main()
