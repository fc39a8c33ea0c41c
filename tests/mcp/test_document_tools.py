"""The tools of documents with engram-go's arguments and answers, over every transport and era."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from mcp import Client

from engram import limits
from engram.mcp.tools import TOOLS_BY_NAME
from tests.mcp.connecting import RunningServer, call, http_client, in_process_client, refusal
from tests.promises import promise

DOCUMENT_TOOLS = ("memory_store_document", "memory_query_document", "memory_ingest_document_stream")
LINES = "".join(f"Day {day}: nothing happened at the lighthouse.\n" for day in range(2_000))
BOOK = f"# Diary\n\n{LINES}\n## Winter\n\nOn day 2000 the whale 🐋 came ashore.\n{LINES}"


async def test_a_document_is_stored_and_asked(client: Client) -> None:
    stored = await call(
        client,
        "memory_store_document",
        content=BOOK,
        memory_type="context",
        importance=1,
        tags=["diary"],
        immutable=False,
        project="sea",
        name="diary.md",
    )
    found = await call(
        client,
        "memory_query_document",
        memory_id=stored["id"],
        question="What came ashore?",
        project="sea",
        filter={"regex": "whale .", "substrings": ["Winter"]},
        window_chars=200,
        semantic=False,
        token_budget=500,
    )
    near = await call(
        client,
        "memory_query_document",
        memory_id=stored["id"],
        question="What came ashore in winter? A whale?",
        project="sea",
    )

    assert (stored["status"], stored["mode"]) == ("stored", "document")
    assert stored["size_bytes"] == len(BOOK.encode())
    assert stored["degraded"].keys() == {"embed", "reason"}
    (span,) = found["spans"]
    assert BOOK[span["start"] : span["end"]] == span["text"]
    assert BOOK.encode()[span["start_byte"] : span["end_byte"]].decode() == span["text"]
    assert ["Winter", "whale 🐋"] == [match["text"] for match in span["matched"]]
    assert (found["truncated"], found["degraded"]) == (False, [])
    best = max(near["spans"], key=lambda each: each["score"])
    assert "whale" in best["text"]
    assert best["headings"] == ["Diary", "Winter"]
    assert near["documents"][0]["indexed"] == 1


async def test_answers_fit_their_published_schemas(tmp_path: Path) -> None:
    async with in_process_client(tmp_path) as client:
        stored = await call(client, "memory_store_document", content=BOOK)
        queried = await call(
            client, "memory_query_document", memory_ids=[stored["id"]], question="whale"
        )
        begun = await call(client, "memory_ingest_document_stream", action="start")

    for name, answer in zip(DOCUMENT_TOOLS, (stored, queried, begun), strict=True):
        jsonschema.validate(answer, TOOLS_BY_NAME[name].structure)


@promise("parts")
async def test_a_document_comes_in_parts_and_its_progress_is_told(tmp_path: Path) -> None:
    body = (BOOK * 4).encode()
    parts = [body[start : start + 200_001] for start in range(0, len(body), 200_001)]
    async with in_process_client(tmp_path) as client:
        begun = await call(
            client, "memory_ingest_document_stream", action="start", name="b.md", tags=["x"]
        )
        upload: dict[str, Any] = {"upload_id": begun["upload_id"]}
        steps = [
            await call(
                client,
                "memory_ingest_document_stream",
                action="append",
                part=number,
                data=b64encode(part).decode(),
                **upload,
            )
            for number, part in enumerate(parts)
            for _ in range(2)
        ]
        stored = await call(client, "memory_ingest_document_stream", action="finish", **upload)
        again = await call(client, "memory_ingest_document_stream", action="finish", **upload)
        fetched = await call(client, "memory_fetch", id=stored["id"])

    assert (begun["status"], begun["parts"]) == ("uploading", 0)
    assert (steps[-1]["parts"], steps[-1]["received_bytes"]) == (len(parts), len(body))
    assert (stored["status"], stored["mode"]) == ("stored", "document_synopsis")
    assert again["id"] == stored["id"]
    progress = fetched["document"]
    assert progress["text_bytes"] == len(body)
    assert progress["state"] in ("indexing", "indexed")
    assert 0 <= progress["progress"] <= 1


async def test_a_part_may_be_text(tmp_path: Path) -> None:
    async with in_process_client(tmp_path) as client:
        begun = await call(client, "memory_ingest_document_stream", action="start")
        upload: dict[str, Any] = {"upload_id": begun["upload_id"]}
        await call(
            client, "memory_ingest_document_stream", action="append", part=0, text="Æ", **upload
        )
        stored = await call(client, "memory_ingest_document_stream", action="finish", **upload)

    assert 2 == stored["size_bytes"]


async def test_the_same_document_again_is_reported(tmp_path: Path) -> None:
    async with in_process_client(tmp_path) as client:
        first = await call(client, "memory_store_document", content=BOOK)
        second = await call(client, "memory_store_document", content=BOOK)

    assert "duplicate_of" not in first
    assert first["id"] == second["id"] == second["duplicate_of"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"memory_id": None}, "memory_id"),
        ({"memory_ids": ["mem_2"]}, "memory_ids"),
        ({"memory_id": None, "memory_ids": ["mem_1"] * 21}, "memory_ids"),
        ({"question": ""}, "question"),
        ({"question": " "}, "question"),
        ({"window_chars": 0}, "window_chars"),
        ({"window_chars": limits.QUERY_WINDOW_CHARACTERS_MAX + 1}, "window_chars"),
        ({"token_budget": 99}, "token_budget"),
        ({"filter": {"regex": "a" * 1_025}}, "filter.regex"),
        ({"filter": {"regex": "(a"}}, "filter.regex"),
        ({"filter": {"regex": ""}}, "filter.regex"),
        ({"filter": {"substrings": [""]}}, "filter.substrings[0]"),
        ({"filter": {"substrings": ["a"] * 101}}, "filter.substrings"),
        ({"filter": {"words": ["a"]}}, "filter.words"),
        ({"project": ""}, "project"),
    ],
)
async def test_a_bad_question_is_refused_by_its_field(
    tmp_path: Path, arguments: dict[str, Any], field: str
) -> None:
    given = {"memory_id": "mem_1", "question": "q", **arguments}
    async with in_process_client(tmp_path) as client:
        facts = await refusal(client, "memory_query_document", **given)

    assert facts["code"] in ("invalid_request", "limit_exceeded")
    assert facts["field"] == field


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"action": "pause"}, "action"),
        ({"action": "append"}, "part"),
        ({"action": "append", "part": 0}, "data"),
        ({"action": "append", "part": 0, "data": "AA==", "text": "a"}, "data"),
        ({"action": "append", "part": 0, "data": "not base64"}, "data"),
        ({"action": "append", "part": -1, "data": "AA=="}, "part"),
        ({"action": "append", "part": 0, "data": "AA=="}, "upload_id"),
        ({"action": "finish"}, "upload_id"),
        ({"action": "finish", "upload_id": "doc_1", "tags": ["late"]}, "tags"),
    ],
)
async def test_a_bad_step_of_an_upload_is_refused_by_its_field(
    tmp_path: Path, arguments: dict[str, Any], field: str
) -> None:
    async with in_process_client(tmp_path) as client:
        facts = await refusal(client, "memory_ingest_document_stream", **arguments)

    assert facts["field"] == field


async def test_what_is_not_due_or_not_there_is_refused(tmp_path: Path) -> None:
    async with in_process_client(tmp_path) as client:
        begun = await call(client, "memory_ingest_document_stream", action="start")
        early = await refusal(
            client,
            "memory_ingest_document_stream",
            action="append",
            upload_id=begun["upload_id"],
            part=1,
            text="b",
        )
        unknown = await refusal(
            client, "memory_ingest_document_stream", action="finish", upload_id="doc_nowhere"
        )

    assert ("conflict", "not_found") == (early["code"], unknown["code"])


async def test_a_document_of_another_organisation_is_not_there(server: RunningServer) -> None:
    other = await server.new_organization("other")
    async with http_client(server.url, server.key) as client:
        stored = await call(client, "memory_store_document", content=BOOK)

    async with http_client(server.url, other) as stranger:
        for identifier in (stored["id"], stored["document_id"]):
            facts = await refusal(
                stranger, "memory_query_document", memory_id=identifier, question="whale"
            )
            assert "not_found" == facts["code"]


async def test_a_key_without_the_scope_asks_nothing(server: RunningServer) -> None:
    reader, writer = await server.new_key("read"), await server.new_key("search")
    async with http_client(server.url, reader) as client:
        asked = await refusal(client, "memory_query_document", memory_id="mem_1", question="q")
    async with http_client(server.url, writer) as client:
        stored = await refusal(client, "memory_store_document", content="a")
        begun = await refusal(client, "memory_ingest_document_stream", action="start")

    assert {"insufficient_scope"} == {asked["code"], stored["code"], begun["code"]}
