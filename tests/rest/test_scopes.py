"""What each operation asks of a key, and that a key which may only write learns nothing.

The table names every documented operation: a new one cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from engram.api.table import OPERATIONS
from engram.embedding.choice import NoEmbedder
from engram.http.asgi import Application, create_app
from engram.http.openapi import openapi_document
from engram.model.access import KEY_SCOPES, KeyScope
from engram.settings import Settings
from tests.fakes import FakeClock
from tests.filling import filled
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, connect, new_key, scoped_key
from tests.transfer.exports import rewritten

pytestmark = promise("scopes")

SECRET = "zanzibar"
PROJECT = "harbour"
"""Whose name the caller sends, so that it is no secret to them."""

LATER = "2030-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Case:
    """A request that a key with these scopes, and no fewer, may send."""

    method: str
    path: str
    scopes: tuple[KeyScope, ...]
    json: Any = None
    content: bytes | None = None


EMPTY_EXPORT = rewritten(
    [
        {
            "type": "header",
            "format": "engram-export",
            "version": 1,
            "exported_at": LATER,
            "engram": "0",
            "organization": {"id": "org_1", "name": "A"},
        }
    ]
)

MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}
MEMORY = "/api/v1/memories/{memory}"
DOCUMENT = "/api/v1/documents/{document}"
UPLOAD = "/api/v1/documents/uploads/{upload}"

CASES: dict[str, Case] = {
    "append_messages": Case(
        "POST", "/api/v1/conversations/{conversation}/messages", ("write",), MESSAGES
    ),
    "append_messages_to_default": Case("POST", "/api/v1/messages", ("write",), MESSAGES),
    "capture_session": Case(
        "POST",
        "/api/v1/capture",
        ("write",),
        {
            "source": "claude",
            "session": "s1",
            "messages": [{"role": "user", "content": "hello", "original_id": "m1"}],
        },
    ),
    "create_conversation": Case("POST", "/api/v1/conversations", ("write",), {}),
    "search": Case("POST", "/api/v1/search", ("search",), {"query": SECRET}),
    "search_by_address": Case("GET", f"/api/v1/search?q={SECRET}", ("search",)),
    "list_conversations": Case("GET", "/api/v1/conversations", ("read",)),
    "get_conversation": Case("GET", "/api/v1/conversations/{conversation}", ("read",)),
    "delete_conversation": Case("DELETE", "/api/v1/conversations/{conversation}", ("delete",)),
    "edit_conversation": Case(
        "PATCH", "/api/v1/conversations/{conversation}", ("write",), {"tags": ["new"]}
    ),
    "count_erasure": Case(
        "POST", "/api/v1/erasures/count", ("admin", "delete"), {"project": PROJECT}
    ),
    "erase": Case("POST", "/api/v1/erasures", ("admin", "delete"), {"project": PROJECT}),
    "get_erasure": Case("GET", "/api/v1/erasures/{erasure}", ("admin",)),
    "list_erasures": Case("GET", "/api/v1/erasures", ("admin",)),
    "fetch_context": Case("POST", "/api/v1/context", ("search",), {"query": SECRET}),
    "store_note": Case("POST", "/api/v1/notes", ("write",), {"content": "The gate is blue."}),
    "store_notes": Case(
        "POST", "/api/v1/notes/batch", ("write",), {"notes": [{"content": "The gate is blue."}]}
    ),
    "list_entries": Case("GET", "/api/v1/notes", ("read",)),
    "remove_entry": Case("DELETE", "/api/v1/notes/{memory}", ("delete",)),
    "memory_store": Case("POST", "/api/v1/memories", ("write",), {"content": "blue"}),
    "memory_store_batch": Case(
        "POST", "/api/v1/memories/batch", ("write",), {"memories": [{"content": "blue"}]}
    ),
    "memory_recall": Case("POST", "/api/v1/memories/recall", ("search",), {"query": SECRET}),
    "memory_feedback": Case(
        "POST",
        "/api/v1/memories/feedback",
        ("write",),
        {"memory_ids": ["{memory}"], "project": PROJECT},
    ),
    "memory_list": Case("GET", f"/api/v1/memories?project={PROJECT}", ("read",)),
    "memory_timeline": Case(
        "GET", f"/api/v1/memories/timeline?as_of=2020-01-01T00:00:00Z&project={PROJECT}", ("read",)
    ),
    "memory_status": Case("GET", "/api/v1/memories/status", ("read",)),
    "memory_browse": Case("GET", f"/api/v1/memories/browse?project={PROJECT}", ("read",)),
    "count_projects": Case("GET", "/api/v1/projects/counts", ("read",)),
    "count_feedback": Case("GET", MEMORY + "/feedback", ("read",)),
    "memory_fetch": Case("GET", MEMORY, ("read",)),
    "memory_correct": Case("PATCH", MEMORY, ("write",), {"importance": 1}),
    "memory_correct, ending it": Case("PATCH", MEMORY, ("write", "delete"), {"valid_to": LATER}),
    "memory_correct, expiring it": Case(
        "PATCH", MEMORY, ("write", "delete"), {"expires_at": LATER}
    ),
    "memory_correct, hiding it": Case("PATCH", MEMORY, ("write", "delete"), {"valid_from": LATER}),
    "memory_correct, hiding it by a tag": Case(
        "PATCH", MEMORY, ("write", "delete"), {"tags": ["date:2030-01-01"]}
    ),
    "memory_purge": Case("DELETE", MEMORY, ("delete",)),
    "memory_forget": Case("POST", MEMORY + "/forget", ("delete",), {}),
    "memory_history": Case("GET", MEMORY + "/history", ("read",)),
    "memory_relations": Case("GET", MEMORY + "/relations", ("read",)),
    "memory_connect": Case("POST", MEMORY + "/relations", ("write",), {"target_id": "{other}"}),
    "memory_projects": Case("GET", "/api/v1/projects", ("read",)),
    "memory_store_document": Case("POST", "/api/v1/documents", ("write",), content=b"blue"),
    "list_documents": Case("GET", f"/api/v1/documents?project={PROJECT}", ("read",)),
    "get_document": Case("GET", DOCUMENT, ("read",)),
    "remove_document": Case("DELETE", DOCUMENT, ("delete",)),
    "document_status": Case("GET", DOCUMENT + "/status", ("read",)),
    "memory_query_document": Case("POST", DOCUMENT + "/query", ("search",), {"question": SECRET}),
    "begin_upload": Case("POST", "/api/v1/documents/uploads", ("write",), {}),
    "get_upload": Case("GET", UPLOAD, ("write",)),
    "abort_upload": Case("DELETE", UPLOAD, ("write",)),
    "add_part": Case("PUT", UPLOAD + "/parts/1", ("write",), content=b"blue"),
    "finish_upload": Case("POST", UPLOAD + "/finish", ("write",)),
    "memory_episode_start": Case("POST", "/api/v1/episodes", ("write",), {"description": "blue"}),
    "memory_episode_list": Case("GET", f"/api/v1/episodes?project={PROJECT}", ("read",)),
    "memory_episode_recall": Case(
        "GET", f"/api/v1/episodes/{{episode}}?project={PROJECT}", ("read",)
    ),
    "memory_episode_end": Case(
        "POST", "/api/v1/episodes/{episode}/end", ("write",), {"project": PROJECT}
    ),
    "project_rules": Case("GET", "/api/v1/projects/rules", ("read",)),
    "project_alias": Case(
        "POST", "/api/v1/projects/alias", ("admin",), {"project": "before", "same_as": PROJECT}
    ),
    "project_exclude": Case("POST", "/api/v1/projects/exclude", ("admin",), {"project": "other"}),
    "project_reset": Case("POST", "/api/v1/projects/reset", ("admin",), {"project": "other"}),
    "project_merge": Case(
        "POST", "/api/v1/projects/merge", ("write", "admin"), {"project": PROJECT, "into": "quay"}
    ),
    "memory_change": Case(
        "POST",
        "/api/v1/memories/change",
        ("read", "write"),
        {"change": "importance", "importance": 1, "project": PROJECT},
    ),
    "memory_change, to the trash": Case(
        "POST",
        "/api/v1/memories/change",
        ("read", "delete"),
        {"change": "trash", "project": PROJECT},
    ),
    "undo_change": Case("POST", "/api/v1/changes/{change}/undo", ("write",)),
    "memory_restore": Case("POST", MEMORY + "/restore", ("write", "delete"), {}),
    "trash_list": Case("GET", "/api/v1/trash", ("read",)),
    "trash_restore": Case("POST", "/api/v1/trash/{conversation}/restore", ("write", "delete")),
    "trash_empty": Case("DELETE", "/api/v1/trash", ("delete",)),
    "trash_remove": Case("DELETE", "/api/v1/trash/{conversation}", ("delete",)),
    "retention_list": Case("GET", "/api/v1/retention", ("admin",)),
    "retention_set": Case("POST", "/api/v1/retention", ("admin",), {"keep": "90d"}),
    "retention_remove": Case("DELETE", "/api/v1/retention/ret_unknown", ("admin",)),
    "retention_run": Case("POST", "/api/v1/retention/run", ("admin", "delete"), {"dry_run": True}),
    "hold_list": Case("GET", "/api/v1/holds", ("admin",)),
    "hold_add": Case("POST", "/api/v1/holds", ("admin",), {"reason": "trial"}),
    "hold_lift": Case("DELETE", "/api/v1/holds/hold_unknown", ("admin",)),
    "list_keys": Case("GET", "/api/v1/keys", ("admin",)),
    "key_usage": Case("GET", "/api/v1/keys/usage", ("admin",)),
    "create_key": Case("POST", "/api/v1/keys", ("admin",), {"name": "k"}),
    "revoke_key": Case("DELETE", "/api/v1/keys/{key}", ("admin",)),
    "status": Case("GET", "/api/v1/status", ("read",)),
    "usage": Case("GET", "/api/v1/usage", ("read",)),
    "audit": Case("GET", "/api/v1/audit", ("admin",)),
    "list_deliveries": Case("GET", "/api/v1/deliveries", ("read",)),
    "health": Case("GET", "/api/v1/health", ("read",)),
    "examine": Case("POST", "/api/v1/examination", ("admin",)),
    "activity": Case("GET", "/api/v1/activity", ("read",)),
    "preview_reminder": Case(
        "POST", "/api/v1/reminders/preview", ("search",), {"prompt": "what is in the harbour?"}
    ),
    "export": Case("GET", "/api/v1/export", ("read",)),
    "import": Case("POST", "/api/v1/import", ("write",), content=EMPTY_EXPORT),
    "restore_key": Case("POST", "/api/v1/keys/{key}/restore", ("admin",)),
    "rotate_key": Case("POST", "/api/v1/keys/{key}/rotate", ("admin",), {}),
    "delete_account": Case(
        "DELETE", "/api/v1/account", ("admin", "delete"), {"organization": "acme"}
    ),
}
"""By operation; after a comma stands what is special about a request."""

WRITES = [name for name, case in CASES.items() if case.scopes == ("write",)]
"""What a key may do that may only write."""


class House:
    """An organisation that holds the secret wherever text can be, and keys for it."""

    def __init__(self, app: Application, api: httpx.AsyncClient, ids: dict[str, str]) -> None:
        self._app = app
        self._api = api
        self._ids = ids
        self._keys: dict[tuple[str, ...], str] = {}

    async def send(self, case: Case, *scopes: str) -> httpx.Response:
        """Return the answer to a key of these scopes."""
        if scopes not in self._keys:
            self._keys[scopes] = await scoped_key(self._api, *scopes)
        async with connect(self._app, self._keys[scopes]) as client:
            return await client.request(
                case.method,
                case.path.format(**self._ids),
                json=filled(case.json, self._ids),
                content=case.content,
            )


@pytest.fixture
async def house(app: Application, api: httpx.AsyncClient) -> House:
    return await _furnish(app, api)


@pytest.fixture(scope="module")
async def closed_house(
    anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[House]:
    """Yield one house for all requests that are refused, which change nothing."""
    settings = Settings(
        home=tmp_path_factory.mktemp("closed") / "store",
        embedder=NoEmbedder(),
        admin_token=ADMIN_TOKEN,
        rate_limit=0,
    )
    app = create_app(settings, clock=FakeClock())
    async with (
        app.lifespan(),
        connect(app, ADMIN_TOKEN) as operator,
        connect(app, await new_key(operator)) as api,
    ):
        yield await _furnish(app, api)


async def _furnish(app: Application, api: httpx.AsyncClient) -> House:
    ids = {"key": (await api.post("/api/v1/keys", json={"name": SECRET})).json()["id"]}
    titled = {"title": SECRET, "agent_id": SECRET, "metadata": {SECRET: SECRET}}
    ids["conversation"] = await _made(
        api, "/api/v1/conversations", {**titled, "tags": [SECRET], "project": PROJECT}
    )
    said = {"role": "user", "content": SECRET, "name": SECRET, "metadata": {"note": SECRET}}
    path = f"/api/v1/conversations/{ids['conversation']}/messages"
    await api.post(path, json={"messages": [said]})
    episode = {"description": SECRET, "project": PROJECT}
    ids["episode"] = await _made(api, "/api/v1/episodes", episode)
    memory = {"tags": [SECRET], "project": PROJECT, "episode_id": ids["episode"]}
    for name in ("memory", "other"):
        content = f"{SECRET} of the {name}"
        ids[name] = await _made(api, "/api/v1/memories", {"content": content, **memory})
    upload = {"name": SECRET, "tags": [SECRET], "project": PROJECT}
    ids["upload"] = await _made(api, "/api/v1/documents/uploads", upload)
    await api.put(f"/api/v1/documents/uploads/{ids['upload']}/parts/0", content=SECRET.encode())
    stored = await api.post(f"/api/v1/documents?name={SECRET}&project={PROJECT}", content=SECRET)
    ids["document"] = stored.json()["document_id"]
    ids["erasure"] = await _made(api, "/api/v1/erasures", {"subject": "name=nobody"})
    ranking = {"change": "importance", "importance": 4, "project": PROJECT}
    changed = await api.post("/api/v1/memories/change", json=ranking)
    ids["change"] = changed.json()["change_id"]
    return House(app, api, ids)


def tells_secret(answer: httpx.Response) -> bool:
    """Say whether an answer or its headers hold the secret."""
    return any(SECRET in text for text in (answer.text, *answer.headers.values()))


async def _made(api: httpx.AsyncClient, path: str, body: dict[str, Any]) -> str:
    answer = (await api.post(path, json=body)).json()
    names = ("conversation_id", "episode_id", "upload_id", "id")
    return next(answer[name] for name in names if name in answer)


def test_every_documented_operation_is_in_the_table() -> None:
    paths = openapi_document(OPERATIONS)["paths"]
    documented = {
        operation["operationId"]
        for path, operations in paths.items()
        if path.startswith("/api/")
        for operation in operations.values()
    }

    assert {name.partition(",")[0] for name in CASES} == documented


@pytest.mark.parametrize("name", WRITES)
async def test_a_key_that_may_only_write_learns_nothing_from(house: House, name: str) -> None:
    answer = await house.send(CASES[name], "write")

    assert answer.is_success, answer.text
    assert not tells_secret(answer)


@pytest.mark.parametrize("name", [name for name in CASES if name not in WRITES])
async def test_a_key_that_may_only_write_learns_nothing_from_being_refused(
    closed_house: House, name: str
) -> None:
    answer = await closed_house.send(CASES[name], "write")

    assert not answer.is_success, answer.text
    assert not tells_secret(answer)


@pytest.mark.parametrize("name", CASES)
async def test_an_operation_needs_each_of_its_scopes(closed_house: House, name: str) -> None:
    case = CASES[name]
    for missing in case.scopes:
        refused = await closed_house.send(
            case, *(scope for scope in KEY_SCOPES if scope != missing)
        )

        assert refused.status_code == 403
        assert (refused.json()["code"], refused.json()["required"]) == (
            "insufficient_scope",
            missing,
        )


async def test_a_key_that_may_read_too_sees_what_it_has_changed(house: House) -> None:
    corrected = await house.send(CASES["memory_correct"], "read", "write")
    ended = await house.send(CASES["memory_episode_end"], "read", "write")

    assert corrected.json()["content"] == f"{SECRET} of the memory"
    assert ended.json()["description"] == SECRET


async def test_only_a_key_that_may_read_is_told_of_a_duplicate(house: House) -> None:
    note = Case("POST", "/api/v1/notes", ("write",), {"content": "The gate is green."})
    document = Case("POST", "/api/v1/documents", ("write",), content=b"green")
    await house.send(note, "write")
    await house.send(document, "write")

    untold = [(await house.send(case, "write")).json() for case in (note, document)]
    told = [(await house.send(case, "write", "read")).json() for case in (note, document)]

    assert not any("duplicate_of" in answer for answer in untold)
    assert [answer["duplicate_of"] for answer in told] == [answer["id"] for answer in untold]
