"""What went wrong with Engram on Cloudflare: none of it happens here.

The numbers are those of the notes on the seeds: the contradictions of section 1, and the incidents
of section 4.1.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from engram.embedding.choice import NoEmbedder
from engram.http.asgi import Application, create_app
from engram.model.search import SearchRequest
from engram.search.pack import HANDLES_MAX
from engram.settings import Settings
from engram.wiring import open_service
from tests.fakes import FakeClock
from tests.mcp.connecting import call, in_process_client
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, append, connect, new_conversation, new_key, refusal
from tests.seeds.house import opened_house
from tests.service.embedders import NamedEmbedder

HARBOUR = "The harbour opens at six."


def settings_of(home: Path) -> Settings:
    return Settings(home=home, embedder=NoEmbedder(), admin_token=ADMIN_TOKEN, rate_limit=0)


@asynccontextmanager
async def served(home: Path) -> AsyncGenerator[Application]:
    app = create_app(settings_of(home), clock=FakeClock())
    async with app.lifespan():
        yield app


@pytest.fixture
async def app(tmp_path: Path) -> AsyncGenerator[Application]:
    async with served(tmp_path / "store") as application:
        yield application


@pytest.fixture
async def operator(app: Application) -> AsyncGenerator[httpx.AsyncClient]:
    async with connect(app, ADMIN_TOKEN) as client:
        yield client


@pytest.fixture
async def api(app: Application, operator: httpx.AsyncClient) -> AsyncGenerator[httpx.AsyncClient]:
    async with connect(app, await new_key(operator)) as client:
        yield client


async def search(api: httpx.AsyncClient, query: str, **fields: Any) -> dict[str, Any]:
    answer = await api.post("/api/v1/search", json={"query": query, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def contents(answer: dict[str, Any]) -> list[str]:
    return [message["content"] for result in answer["results"] for message in result["messages"]]


async def test_a_list_of_conversations_has_its_true_total(api: httpx.AsyncClient) -> None:
    """1.2: the total was the length of the page."""
    for number in range(5):
        await new_conversation(api, title=f"number {number}")

    listed = (await api.get("/api/v1/conversations", params={"limit": 2})).json()

    assert (len(listed["conversations"]), listed["total"], listed["next_offset"]) == (2, 5, 2)


@promise("processes")
async def test_appends_at_once_share_no_sequence(api: httpx.AsyncClient) -> None:
    """1.3: the highest sequence was read before the messages were written."""
    conversation_id = await new_conversation(api)

    answers = await asyncio.gather(*[append(api, conversation_id, "a", "b") for _ in range(12)])

    firsts = sorted(answer.json()["first_sequence"] for answer in answers)
    assert firsts == list(range(1, 24, 2))


@promise("chunks")
async def test_a_window_spans_messages_that_came_one_at_a_time(api: httpx.AsyncClient) -> None:
    """1.8: chunks were built of each append alone."""
    conversation_id = await new_conversation(api)
    for text in ("When?", "I asked.", HARBOUR, "Thank you.", "Good."):
        await append(api, conversation_id, text)

    (window,) = (await search(api, "harbour", detail="window"))["results"]

    assert (window["start_sequence"], window["end_sequence"]) == (1, 5)
    assert len(window["messages"]) == 5


@promise("chunks")
@pytest.mark.parametrize("count", [1, 2, 5, 6, 8, 10, 11])
async def test_no_window_is_a_part_of_another(api: httpx.AsyncClient, count: int) -> None:
    """1.8: the printed loop made a last window of one message, which the one before it held."""
    await append(api, await new_conversation(api), *["text"] * count)

    status = (await api.get("/api/v1/status")).json()

    # Windows of 5 with stride 3, and no more once one of them reaches the end.
    expected = 1 + max(0, -(-(count - 5) // 3))
    assert status["chunks"] == expected


@pytest.mark.parametrize(
    "query",
    ["harbour's", "(harbour", 'the "harbour', "harbour:", "-harbour AND", "harbour NEAR quartz*"],
)
async def test_signs_of_a_query_do_not_silence_its_words(
    api: httpx.AsyncClient, query: str
) -> None:
    """1.9: an apostrophe or a colon was a syntax error, which left the words unsearched.

    Further words do not hide what only some of them match.
    """
    await append(api, await new_conversation(api), HARBOUR)

    answer = await search(api, query, profile="words", min_score=0)

    assert contents(answer) == [HARBOUR]


@promise("quotas")
async def test_a_full_quota_stops_new_messages_and_nothing_else(
    app: Application, operator: httpx.AsyncClient, api: httpx.AsyncClient
) -> None:
    """4.1.1: the cap of one database stopped every write of everybody."""
    async with connect(app, await new_key(operator, messages_max=2)) as full:
        conversation_id = await new_conversation(full)
        await append(full, conversation_id, HARBOUR, "And closes at nine.")

        refused = await append(full, conversation_id, "one more")
        key = await full.post("/api/v1/keys", json={"name": "another"})
        found = await search(full, "harbour")
        others = await append(api, await new_conversation(api), HARBOUR)
        deleted = await full.delete(f"/api/v1/conversations/{conversation_id}")
        room_again = await append(full, await new_conversation(full), "one more")

    assert refusal(refused) == (403, "quota_exceeded", None)
    assert key.is_success
    assert others.is_success
    assert contents(found)[0] == HARBOUR
    assert deleted.is_success
    assert room_again.is_success


@promise("findable")
async def test_a_message_whose_vectors_fail_is_found_and_counted_as_waiting(tmp_path: Path) -> None:
    """4.1.2 and 4.1.4: indexing failed unseen, or took the request down with it."""
    embedder = NamedEmbedder("down")
    embedder.patience = 0
    async with opened_house(tmp_path, deep=embedder) as house:
        await house.append(HARBOUR)
        while_down = await house.search("harbour")
        waiting = await house.pending()

        embedder.patience = None
        await house.service.indexer.drain(house.principal.organization_id, limit_s=10)

        assert [while_down.results[0].messages[0].message.content] == [HARBOUR]
        assert (waiting, await house.pending()) == (1, 0)


@promise("one-truth", "chunks")
async def test_a_repeated_call_and_a_reindex_make_no_second_chunk(
    api: httpx.AsyncClient, operator: httpx.AsyncClient
) -> None:
    """4.1.3 and 1.4: every retry made chunks with new ids."""
    path = f"/api/v1/conversations/{await new_conversation(api)}/messages"
    body = {"messages": [{"role": "user", "content": HARBOUR}], "idempotency_key": "once"}
    await api.post(path, json=body)
    before = await search(api, "harbour", detail="window")

    await api.post(path, json=body)
    await operator.post("/admin/reindex")

    again = await search(api, "harbour", detail="window")
    assert again == before
    assert len(again["results"]) == 1


@promise("bounded")
async def test_an_answer_holds_each_text_once_and_stays_within_its_budget(
    api: httpx.AsyncClient,
) -> None:
    """4.1.5: content was sent twice, and an answer of ten results cost 20,000 tokens."""
    texts = [f"harbour {number} " + "and so on " * 100 for number in range(30)]
    for text in texts:
        await append(api, await new_conversation(api), text)

    answer = await search(api, "harbour", limit=20)

    sent = json.dumps(answer)
    assert answer["tokens"] <= 1_500
    assert answer["truncated"]
    assert contents(answer)
    assert len(answer["results"]) == len(contents(answer)) + HANDLES_MAX
    assert all(sent.count(text) == 1 for text in contents(answer))
    assert len(contents(await search(api, "harbour", limit=3))) == 3


async def test_tags_hold_before_the_best_are_chosen(api: httpx.AsyncClient) -> None:
    """4.1.6 and 1.9: tags were ignored, and later asked of the best few only."""
    wanted = await new_conversation(api, tags=["sea", "work"])
    await append(
        api, wanted, "Somewhere in this long remark a harbour is named, among other things."
    )
    for _ in range(60):
        await append(api, await new_conversation(api, tags=["sea"]), "harbour harbour")

    answer = await search(api, "harbour", tags=["work", "sea"], limit=1)
    nothing = await search(api, "harbour", tags=["air"])

    assert [result["conversation_id"] for result in answer["results"]] == [wanted]
    assert nothing["results"] == []


async def test_a_project_holds_before_the_best_are_chosen(api: httpx.AsyncClient) -> None:
    """4.1.6: a project was the beginning of a title, asked of the best few only."""
    wanted = await new_conversation(api, project="pier", title="Cranes")
    await append(
        api, wanted, "Somewhere in this long remark a harbour is named, among other things."
    )
    for _ in range(60):
        await append(api, await new_conversation(api, title="pier"), "harbour harbour")

    answer = await search(api, "harbour", project="pier", limit=1)

    assert [result["conversation_id"] for result in answer["results"]] == [wanted]


async def test_a_search_within_a_conversation_gives_all_that_it_finds(
    api: httpx.AsyncClient,
) -> None:
    """4.1.6: the best chunk of each conversation was kept, so a scoped search gave one."""
    conversation_id = await new_conversation(api)
    texts = [f"harbour number {number}" for number in range(12)]
    await append(api, conversation_id, *texts)

    answer = await search(api, "harbour", conversation_id=conversation_id, limit=20)

    assert sorted(contents(answer)) == sorted(texts)


@promise("findable")
async def test_the_end_of_a_long_message_is_found_by_its_meaning(tmp_path: Path) -> None:
    """4.1.7 and 1.8: what was longer than the model's window was cut without a word."""
    long = "We talked about this and that. " * 400 + HARBOUR
    async with opened_house(tmp_path, deep=NamedEmbedder("deep", max_tokens=64)) as house:
        await house.append(long)
        await house.append("We talked about something else.")
        await house.service.indexer.drain(house.principal.organization_id, limit_s=10)

        request = SearchRequest(query=HARBOUR, profile="vectors", token_budget=20_000, min_score=0)
        answer = await house.service.search.search(house.principal, request)

    assert answer.results[0].messages[0].message.content == long


async def test_a_copy_made_by_sqlite_is_a_whole_store(tmp_path: Path) -> None:
    """4.1.9 and 4.2.12: the word index kept the database from being exported."""
    async with served(tmp_path / "store") as app, connect(app, ADMIN_TOKEN) as operator:
        key = await new_key(operator)
        async with connect(app, key) as api:
            await append(api, await new_conversation(api), HARBOUR)
            for path in (tmp_path / "store").rglob("*.db"):
                copy_database(path, tmp_path / "copy" / path.relative_to(tmp_path / "store"))

    # As after a restore, the files are taken deliberately: `engram doctor --accept`.
    async with open_service(settings_of(tmp_path / "copy"), accept=True) as service:
        for organization in await service.doctor.patients():
            assert [fault async for fault in service.doctor.examine(organization)] == []
    async with served(tmp_path / "copy") as app, connect(app, key) as api:
        assert contents(await search(api, "harbour")) == [HARBOUR]


def copy_database(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(source)) as origin, closing(sqlite3.connect(target)) as copy:
        origin.backup(copy)


@promise("quotas")
async def test_calls_at_once_never_pass_a_quota(
    app: Application, operator: httpx.AsyncClient
) -> None:
    """4.1.10: the quota was read before the messages were written."""
    async with connect(app, await new_key(operator, messages_max=7)) as api:
        conversation_id = await new_conversation(api)
        appends = [append(api, conversation_id, "text") for _ in range(8)]
        notes = [
            api.post("/api/v1/notes", json={"content": f"{HARBOUR} {number}"})
            for number in range(8)
        ]

        answers = await asyncio.gather(*appends, *notes)
        status = (await api.get("/api/v1/status")).json()

    assert [answer.is_success for answer in answers].count(True) == 7
    assert status["messages"] + status["memories"] == 7


@promise("findable")
async def test_what_is_kept_without_naming_a_conversation_is_found_at_once(tmp_path: Path) -> None:
    """4.1.12: a conversation had to be named, and few ever saw what they had kept again."""
    async with in_process_client(tmp_path) as client:
        message = {"role": "user", "content": HARBOUR}
        kept = await call(client, "append_messages", messages=[message])

        answer = await call(client, "search", query="When does the harbour open?")

    assert answer["results"][0]["conversation_id"] == kept["conversation_id"]
    assert contents(answer) == [HARBOUR]


SECRETS = (
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
    "write to mei@example.com or +1 (555) 010-9999",
    "password=hunter2 4111 1111 1111 1111 078-05-1120",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",  # a fake secret
    "\x1b[31mred\x1b[0m \x0c \u202eback\u202c",
)


@promise("verbatim")
async def test_what_looks_like_a_secret_is_kept_byte_for_byte(api: httpx.AsyncClient) -> None:
    """4.1.14 and 1.1: hashes, addresses and numbers were replaced before they were stored."""
    conversation_id = await new_conversation(api)
    await append(api, conversation_id, *SECRETS)

    page = (await api.get(f"/api/v1/conversations/{conversation_id}")).json()

    assert tuple(message["content"] for message in page["messages"]) == SECRETS
    answer = await search(api, "9fceb02d0ae598e95dc970b74767f19372d61af8", limit=1)
    assert contents(answer) == [SECRETS[0]]


@promise("revocation")
async def test_a_revoked_key_opens_no_route(app: Application, api: httpx.AsyncClient) -> None:
    """4.1.14: a revoked key could still be used to link an account."""
    made = (await api.post("/api/v1/keys", json={"name": "gone"})).json()
    await api.delete(f"/api/v1/keys/{made['id']}")
    document = (await api.get("/api/v1/openapi.json")).json()
    calls = [
        (method, path)
        for path, operations in document["paths"].items()
        for method in operations
        if path.startswith("/api/v1/") and path != "/api/v1/openapi.json"
    ]

    statuses = list[int]()
    for number, (method, path) in enumerate(calls):
        # Each from another address, because one address may fail only so often.
        async with connect(app, made["key"], peer=f"10.0.0.{number}") as revoked:
            statuses.append((await revoked.request(method, path)).status_code)

    assert calls
    assert set(statuses) == {401}
