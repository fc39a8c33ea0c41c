"""Exports and imports over REST: who may, what is sent, and that it can be found afterwards."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from engram.http.asgi import Application
from tests.promises import promise
from tests.rest.calls import append, connect, new_conversation, new_key, refusal, scoped_key, stored


async def export(api: httpx.AsyncClient, **parameters: Any) -> bytes:
    response = await api.get("/api/v1/export", params=parameters)
    assert response.status_code == 200, response.text
    return response.content


def header_of(data: bytes) -> dict[str, Any]:
    return json.loads(data.partition(b"\n")[0])


@pytest.fixture
async def filled(api: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return the client of an organisation that has stored something."""
    await append(
        api, await new_conversation(api, title="Zoo"), "the quokka sleeps", "so does the cat"
    )
    await api.post("/api/v1/notes", json={"content": "an axolotl is no fish at all"})
    document = {"content-type": "text/plain"}
    await api.post("/api/v1/documents", content=b"the wombat digs", headers=document)
    return api


@promise("findable")
async def test_an_export_is_imported_by_another_organisation_and_found_there(
    filled: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    exported = await export(filled)

    imported = await stranger.post("/api/v1/import", content=exported)

    assert imported.status_code == 200, imported.text
    assert imported.json()["stored"] == {
        "conversation": 1,
        "document": 1,
        "memory": 2,
        "message": 2,
    }
    for word in ("quokka", "axolotl", "wombat"):
        found = await stranger.post("/api/v1/search", json={"query": word, "min_score": 0})
        assert word in found.text
    again = await export(stranger)
    assert again.partition(b"\n")[2] == exported.partition(b"\n")[2]


async def test_an_export_names_its_origin_and_what_was_chosen(filled: httpx.AsyncClient) -> None:
    response = await filled.get("/api/v1/export", params={"kinds": "note", "project": "default"})

    header = header_of(response.content)
    assert response.headers["content-type"] == "application/x-ndjson"
    assert "content-length" not in response.headers
    assert (header["format"], header["version"]) == ("engram-export", 1)
    assert header["filters"] == {"project": "default", "kinds": ["note"]}
    assert header["organization"]["name"] == "acme"
    assert b"axolotl" in response.content
    assert b"quokka" not in response.content


@promise("scopes")
async def test_an_export_needs_read_and_names_keys_to_admins_alone(
    app: Application, filled: httpx.AsyncClient
) -> None:
    async with connect(app, await scoped_key(filled, "read")) as reader:
        shown = await export(reader)
    async with connect(app, await scoped_key(filled, "write", "search")) as writer:
        refused = await writer.get("/api/v1/export")

    assert "keys" not in header_of(shown)
    keys = header_of(await export(filled))["keys"]
    assert {"id", "name", "prefix", "scopes", "created_at"} == set(keys[0])
    assert refusal(refused) == (403, "insufficient_scope", None)


@promise("scopes")
async def test_an_import_needs_write(app: Application, filled: httpx.AsyncClient) -> None:
    exported = await export(filled)

    async with connect(app, await scoped_key(filled, "read", "admin")) as reader:
        refused = await reader.post("/api/v1/import", content=exported)

    assert refusal(refused) == (403, "insufficient_scope", None)


@promise("scopes")
async def test_who_may_write_alone_does_not_learn_from_an_import_what_is_here(
    app: Application, filled: httpx.AsyncClient
) -> None:
    exported = await export(filled)

    async with connect(app, await scoped_key(filled, "write")) as writer:
        imported = await writer.post("/api/v1/import", content=exported)

    assert imported.json() == {"stored": {}, "present": {}}


@promise("scopes")
async def test_a_key_for_notes_alone_exports_and_imports_nothing(
    app: Application, filled: httpx.AsyncClient
) -> None:
    exported = await export(filled)
    made = await filled.post("/api/v1/keys", json={"name": "narrow", "toolsets": ["notes"]})

    async with connect(app, made.json()["key"]) as narrow:
        answers = [
            await narrow.get("/api/v1/export"),
            await narrow.post("/api/v1/import", content=exported),
        ]

    assert [answer.status_code for answer in answers] == [403, 403]


@promise("secrets")
async def test_no_secret_of_a_key_is_exported(
    app: Application, operator: httpx.AsyncClient
) -> None:
    secret = await new_key(operator)

    async with connect(app, secret) as api:
        exported = await export(api)

    assert secret.encode() not in exported


@promise("audit")
async def test_exports_and_imports_are_audited(
    filled: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    await stranger.post("/api/v1/import", content=await export(filled, project="default"))

    theirs = (await stranger.get("/api/v1/audit")).json()["entries"]
    mine = (await filled.get("/api/v1/audit")).json()["entries"]
    assert "import" in {entry["action"] for entry in theirs}
    (exported,) = [entry for entry in mine if entry["action"] == "export"]
    assert exported["details"] == {"project": "default"}
    assert "quokka" not in json.dumps(theirs)


@promise("clear")
@pytest.mark.parametrize(
    "body", [b"", b"hello", b'{"type":"header"}\n', b"\x28\xb5\x2f\xfd rubbish"]
)
async def test_a_body_that_is_no_export_is_refused(api: httpx.AsyncClient, body: bytes) -> None:
    answer = await api.post("/api/v1/import", content=body)

    assert refusal(answer) == (400, "invalid_request", "export")
    assert await stored(api) == (0, 0)


@promise("clear")
@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"kinds": "letters"}, "kinds[0]"),
        ({"since": "2026-01-02", "before": "2026-01-01"}, "since"),
        ({"compression": "gzip"}, "compression"),
        ({"sinse": "2026-01-02"}, "sinse"),
    ],
)
async def test_a_wrong_condition_is_refused_by_name(
    api: httpx.AsyncClient, parameters: dict[str, str], field: str
) -> None:
    answer = await api.get("/api/v1/export", params=parameters)

    assert refusal(answer) == (400, "invalid_request", field)
