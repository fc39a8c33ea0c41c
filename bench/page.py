"""Time of each view of the page beside the use cases that it shows, as REST answers them."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import Figure
from bench.filling import append_chat, fill_messages
from bench.texts import chat
from engram.embedding.choice import NoEmbedder
from engram.http.asgi import Application, create_app
from engram.model.access import OrganizationDraft, Principal
from engram.model.conversation import ConversationQuery
from engram.model.document import DocumentDraft
from engram.model.memory import MemoryChange, MemoryDraft, MemoryQuery, NoteDraft
from engram.model.reminder import Delivery
from engram.page.cookies import SESSION
from engram.service import Service
from engram.settings import Settings
from engram.wiring import open_service

MESSAGES = 100_000
LONG = 20_000
"""Messages of the conversation that is read in its middle."""

NOTES = 200
DOCUMENTS = 30
PAIRS = 20
HARBOUR = "harbour"
"""A project with pairs of memories that say nearly the same, and an episode."""

ORGANIZATIONS = 20
OPERATORS_TOKEN = "token of the operator, long enough"  # noqa: S105 of a store that lives for minutes
TRASHED = 60
DELIVERED = 100
ROUNDS = 40
BOUND = 2.0
QUESTION = "what+did+we+decide+about+the+old+house+by+the+sea"


class Call(NamedTuple):
    """A call of a tool that REST does not have."""

    tool: str
    arguments: Mapping[str, Any]


class Shown(NamedTuple):
    """A view, and the operations that it shows: addresses of REST, and calls over MCP."""

    address: str
    operations: Sequence[str | Call]
    is_operators: bool = False


class Visitor(NamedTuple):
    """Headers with which somebody asks for views, and for operations."""

    page: tuple[bytes, bytes]
    rest: tuple[bytes, bytes]


def measure(*, quick: bool) -> Sequence[Figure]:
    """Return the figures of every view."""
    messages, long = (4_000, 1_000) if quick else (MESSAGES, LONG)
    with tempfile.TemporaryDirectory(prefix="engram-bench-") as directory:
        return asyncio.run(_measure(Path(directory), messages=messages, long=long))


async def _measure(home: Path, *, messages: int, long: int) -> list[Figure]:
    settings = Settings(home=home, embedder=NoEmbedder(), rate_limit=0, admin_token=OPERATORS_TOKEN)
    async with open_service(settings) as service:
        principal = await service.access.local_principal()
        await _fill(service, principal, messages=messages, long=long)
        first_key = await service.access.first_key()
        assert first_key is not None
        owner = await _visitor(service, first_key.secret)
        operator = await _visitor(service, OPERATORS_TOKEN)
        app = create_app(settings)
        async with app.lifespan():
            return [
                await _beside_use_case(
                    app, shown, operator if shown.is_operators else owner, messages=messages
                )
                for shown in await _shown(service, principal, long=long)
            ]


async def _visitor(service: Service, credential: str) -> Visitor:
    secret = await service.sessions.sign_in(credential, address=None)
    return Visitor(
        page=(b"cookie", f"{SESSION}={secret}".encode()),
        rest=(b"authorization", f"Bearer {credential}".encode()),
    )


async def _fill(service: Service, principal: Principal, *, messages: int, long: int) -> None:
    await fill_messages(service, principal, messages=messages - long)
    await append_chat(service, principal, chat(long))
    for number in range(NOTES + TRASHED):
        draft = NoteDraft(content=f"Note {number} says that the demo is on day {number}.")
        stored = await service.memories.store_note(principal, draft)
        if number < TRASHED:
            await service.memories.purge(principal, stored.memories[0].id, undo=True)
    for number in range(DOCUMENTS):
        body = f"# Manual {number}\n\n" + "The demo is on day one. " * 500
        draft = DocumentDraft(name=f"manual {number}.md")
        await service.documents.store_stream(principal, draft, _pieces(body))
    for number in range(ORGANIZATIONS):
        await service.operator.create_organization(OrganizationDraft(name=f"company {number}"))
    await _fill_harbour(service, principal)
    for number in range(DELIVERED):
        delivery = Delivery(
            at=service.clock.now(),
            client="claude",
            session="key_1",
            event="search",
            query=f"on which day is the demo {number}?",
            shown=tuple(f"conv_{'x' * 20}{place}#{place}" for place in range(5)),
            bytes=900,
            tokens=210,
        )
        await service.search.record_delivery(principal, delivery)


async def _fill_harbour(service: Service, principal: Principal) -> None:
    """Store pairs of memories that say nearly the same, in an episode."""
    episode = await service.episodes.start(principal, HARBOUR, "a night")
    pairs = [
        MemoryDraft(
            content=f"{text}{ending}",
            project=HARBOUR,
            episode_id=episode.id,
        )
        for text in chat(PAIRS)
        for ending in ("", "!")
    ]
    await service.memories.store_batch(principal, pairs)


async def _pieces(body: str) -> AsyncIterator[bytes]:
    yield body.encode()


async def _shown(service: Service, principal: Principal, *, long: int) -> list[Shown]:
    query = ConversationQuery(sort="message_count", limit=1)
    talk = (await service.conversations.list_conversations(principal, query)).conversations[0]
    latest = await service.conversations.list_conversations(principal, ConversationQuery(limit=30))
    last = [
        f"/conversations/{each.id}?message_limit=1&message_offset={each.message_count - 1}"
        for each in latest.conversations
    ]
    return [
        Shown("/", ["/status", "/conversations?limit=6", "/notes?limit=6"]),
        Shown(
            f"/search?q={QUESTION}",
            [f"/search?q={QUESTION}&limit=20&token_budget=6000&explain=true"],
        ),
        Shown("/feed", ["/conversations?limit=50", "/notes?limit=50", *last]),
        Shown("/conversations", ["/conversations?limit=50"]),
        Shown(
            f"/conversations/{talk.id}?at={long // 2}",
            [f"/conversations/{talk.id}?message_limit=50&around_sequence={long // 2}"],
        ),
        *await _shown_of_memories(service, principal),
        Shown("/seen", ["/deliveries?limit=25"]),
        Shown("/keys", ["/keys", "/keys/usage?days=30", "/deliveries?limit=100"]),
        Shown("/usage", ["/usage?days=30", "/status", "/activity?days=30"]),
        Shown("/health", ["/health"]),
        Shown(
            f"/tools/search?run=1&query={QUESTION}",
            [f"/search?q={QUESTION}"],
        ),
        Shown("/organizations", ["/admin/organizations", "/admin/stats"], is_operators=True),
    ]


async def _shown_of_memories(service: Service, principal: Principal) -> list[Shown]:
    page = await service.memories.list(principal, MemoryQuery(limit=1))
    memory = page.memories[0].id
    await service.memories.correct(principal, memory, MemoryChange(importance=1))
    documents = await service.documents.list(principal, MemoryQuery(limit=1))
    document = documents.documents[0].document.id
    (episode,) = await service.episodes.list(principal, HARBOUR, limit=1)
    read = [
        f"/memories/{memory}",
        f"/memories/{memory}/history?limit=50",
        f"/memories/{memory}/relations",
        f"/memories/{memory}/feedback",
        "/audit?limit=20",
        "/keys",
    ]
    step = [f"/memories/browse?limit=100&offset={offset}" for offset in range(0, NOTES, 100)]
    return [
        Shown("/memories", ["/memories/browse?limit=50"]),
        Shown(f"/memories/{memory}", read),
        Shown("/memories/change", ["/memories/browse?limit=1", *step]),
        Shown("/documents", ["/documents?limit=50"]),
        Shown(f"/documents/{document}", [f"/documents/{document}/status"]),
        Shown("/projects", ["/projects/counts", "/projects/rules"]),
        Shown("/projects/merge?project=default", ["/projects/counts"]),
        Shown("/episodes", ["/episodes?limit=50", "/projects"]),
        Shown(
            f"/episodes/{episode.id}?project={HARBOUR}",
            [f"/episodes/{episode.id}?project={HARBOUR}&limit=50&token_budget=6000"],
        ),
        Shown(
            f"/duplicates?project={HARBOUR}",
            [
                Call("memory_consolidate", {"project": HARBOUR, "dry_run": True, "limit": 40}),
                "/projects",
                f"/memories/browse?project={HARBOUR}&limit={2 * PAIRS}&token_budget=50000",
            ],
        ),
        Shown("/trash", ["/trash?limit=50", "/keys"]),
    ]


async def _beside_use_case(
    app: Application, shown: Shown, visitor: Visitor, *, messages: int
) -> Figure:
    async def ask() -> None:
        for operation in shown.operations:
            if isinstance(operation, Call):
                await _call(app, operation, visitor.rest)
            else:
                start = "" if shown.is_operators else "/api/v1"
                await _get(app, start + operation, visitor.rest)

    pairs = [
        (await _seconds(lambda: _get(app, shown.address, visitor.page)), await _seconds(ask))
        for _ in range(ROUNDS)
    ]
    return Figure(
        name=f"{shown.address.partition('?')[0][:15]} of a store with {messages:,} messages",
        # Whatever else the machine does only ever adds to a time.
        value=1000 * min(own for own, _ in pairs),
        unit="CPU ms",
        floor=1000 * min(floor for _, floor in pairs),
        floor_name="the same over REST or MCP",
        direction="at most",
        bound=BOUND if messages == MESSAGES else None,
    )


async def _get(app: Application, address: str, credential: tuple[bytes, bytes]) -> None:
    await _request(app, "GET", address, credential)


async def _call(app: Application, call: Call, credential: tuple[bytes, bytes]) -> None:
    params = {"name": call.tool, "arguments": call.arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    await _request(app, "POST", "/mcp", credential, body=json.dumps(message).encode())


async def _request(
    app: Application,
    method: str,
    address: str,
    credential: tuple[bytes, bytes],
    *,
    body: bytes = b"",
) -> None:
    """Send a request without the time of a socket."""
    path, _, query = address.partition("?")
    statuses = list[int]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [
            (b"host", b"127.0.0.1:8788"),
            (b"accept", b"*/*"),
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            credential,
        ],
        "client": ("127.0.0.1", 1),
        "scheme": "http",
    }
    await app(scope, receive, send)
    assert statuses == [200], statuses


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    started = time.process_time()
    await work()
    return time.process_time() - started
