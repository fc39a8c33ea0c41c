"""Every tool and every route, used by another organisation: nothing is read, changed or revealed.

The tables are complete: what is not in them fails a test.
"""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from engram.api.encoding import to_json
from engram.api.table import OPERATIONS
from engram.errors import InvalidRequestError, NotFoundError
from engram.http.openapi import openapi_document
from engram.mcp.resources import TEMPLATES, read_resource
from engram.mcp.tools import TOOLS
from engram.model.ids import DocumentId
from tests.promises import promise
from tests.rest.calls import connect
from tests.tenants.house import MARKER, PROJECT, House, filled

IN = {"project": PROJECT}
MESSAGE = {"role": "user", "content": "trespass"}

NAMING: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": MARKER, "conversation_id": "{conversation}"}),
    ("append_messages", {"conversation_id": "{conversation}", "messages": [MESSAGE]}),
    ("get_conversation", {"conversation_id": "{conversation}"}),
    ("edit_conversation", {"conversation_id": "{conversation}", "title": "trespass"}),
    ("delete_conversation", {"conversation_id": "{conversation}"}),
    ("get_conversation", {"conversation_id": "{memory}"}),
    ("delete_conversation", {"conversation_id": "{memory}"}),
    ("remove_entry", {"entry_id": "{memory}"}),
    ("remove_entry", {"entry_id": "{memory}", "undo": True}),
    ("delete_conversation", {"conversation_id": "{trashed}"}),
    ("trash_restore", {"id": "{trashed}"}),
    ("trash_restore", {"id": "{memory}"}),
    ("memory_store", {"content": "trespass", "episode_id": "{episode}", **IN}),
    ("memory_store_batch", {"memories": [{"content": "x", "episode_id": "{episode}"}], **IN}),
    ("memory_fetch", {"id": "{memory}", "detail": "full", **IN}),
    ("memory_fetch", {"id": "{memory}"}),
    ("memory_history", {"memory_id": "{memory}", **IN}),
    ("memory_connect", {"source_id": "{memory}", "target_id": "{own}", **IN}),
    ("memory_connect", {"source_id": "{own}", "target_id": "{memory}"}),
    ("memory_correct", {"memory_id": "{memory}", "content": "trespass", **IN}),
    ("memory_forget", {"memory_id": "{memory}", **IN}),
    ("memory_restore", {"memory_id": "{memory}", **IN}),
    ("memory_feedback", {"memory_ids": ["{own}", "{memory}"]}),
    ("memory_store_document", {"content": "trespass", "episode_id": "{episode}", **IN}),
    ("memory_query_document", {"memory_id": "{document_memory}", "question": MARKER, **IN}),
    ("memory_query_document", {"memory_ids": ["{own}", "{document}"], "question": MARKER}),
    ("memory_query_document", {"memory_id": "{upload}", "question": MARKER, **IN}),
    ("memory_ingest_document_stream", {"action": "start", "episode_id": "{episode}", **IN}),
    (
        "memory_ingest_document_stream",
        {"action": "append", "upload_id": "{upload}", "part": 1, "text": "trespass"},
    ),
    ("memory_ingest_document_stream", {"action": "finish", "upload_id": "{upload}"}),
    ("memory_ingest_document_stream", {"action": "finish", "upload_id": "{document}"}),
    ("memory_summarize", {"memory_id": "{memory}", **IN}),
    ("memory_consolidate", {"undo": ["{memory}"], **IN}),
    ("memory_episode_end", {"episode_id": "{episode}", "summary": "trespass", **IN}),
    ("memory_episode_recall", {"episode_id": "{episode}", **IN}),
    ("undo_change", {"change_id": "{change}"}),
    ("memory_ingest", {"path": "{export}"}),
    ("memory_ingest", {"path": "{export}/memories"}),
    ("memory_import_claudemd", {"path": "{export}/engram-export.json"}),
]
"""Calls that name what is the owner's: to a stranger it does not exist."""

GENERAL: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": MARKER, "limit": 50, "explain": True}),
    ("search", {"query": MARKER, "tags": [MARKER], "project": PROJECT}),
    ("append_messages", {"messages": [MESSAGE]}),
    ("create_conversation", {"title": "trespass", "project": PROJECT}),
    ("list_conversations", {"limit": 100}),
    ("trash_list", {"limit": 100}),
    ("store_note", {"content": "a note of the stranger", "project": PROJECT}),
    ("fetch_context", {"query": MARKER, "min_score": 0, "kinds": ["note", "conversation"]}),
    ("list_entries", {"limit": 50}),
    ("memory_store_document", {"content": "a document of the stranger", **IN}),
    ("memory_ingest_document_stream", {"action": "start", **IN}),
    ("memory_recall", {"query": MARKER, "projects": ["*"], "mode": "full", "top_k": 500}),
    ("memory_recall", {"query": MARKER, "include_conflicts": True, **IN}),
    ("memory_quick_store", {"content": "a memory of the stranger", **IN}),
    ("memory_query", {"query": MARKER, "limit": 500, **IN}),
    ("memory_status_ping", {}),
    ("memory_list", IN),
    ("memory_timeline", {"as_of": "2026-01-01T00:00:00Z", **IN}),
    ("memory_projects", {}),
    ("memory_status", IN),
    ("memory_consolidate", IN),
    ("memory_verify", {}),
    ("memory_migrate_embedder", {"new_model": "hash", "dry_run": True}),
    ("memory_export_all", {"output_path": "strangers-export"}),
    ("memory_dump", IN),
    ("memory_delete_project", {"confirm": PROJECT, **IN}),
    ("memory_episode_start", {"description": "trespass", **IN}),
    ("memory_episode_list", IN),
    ("project_merge", {"into": "merged", **IN}),
]
"""Calls that name nothing of the owner's, but for words and names anybody may use."""


def test_the_tables_hold_every_tool() -> None:
    assert {tool for tool, _ in (*NAMING, *GENERAL)} == {tool.name for tool in TOOLS}


@promise("apart")
async def test_a_tool_says_of_anothers_thing_what_it_says_of_nothing(house: House) -> None:
    before = await everything(house)

    for tool, arguments in NAMING:
        foreign = await refusal_of(house, tool, filled(arguments, house.ids))
        absent = await refusal_of(house, tool, filled(arguments, house.absent_ids))
        assert foreign == absent, tool

    assert await everything(house) == before


@promise("apart")
async def test_a_tool_answers_a_stranger_from_the_strangers_own_things(house: House) -> None:
    before = await everything(house)

    for tool, arguments in GENERAL:
        answer = to_json(await house.call(house.stranger, tool, **arguments)).decode()
        assert is_of_nobody_else(answer, house), tool

    assert await everything(house) == before


@promise("clear")
@pytest.mark.parametrize("name", ["a\u202eb", "a\u200bb", "a\x07b", ""])
async def test_no_tool_takes_a_project_whose_name_deceives(house: House, name: str) -> None:
    takers = {tool.name for tool in TOOLS if "project" in tool.input_schema["properties"]}

    for tool, arguments in (*NAMING, *GENERAL):
        if tool in takers:
            given = {**filled(arguments, house.ids), "project": name}
            with pytest.raises(InvalidRequestError) as refused:
                await house.call(house.owner, tool, **given)
            assert (refused.value.field or "").endswith("project"), tool


@promise("apart")
@pytest.mark.parametrize("template", TEMPLATES, ids=lambda template: template.name)
async def test_a_resource_of_another_organisation_does_not_exist(
    house: House, template: Any
) -> None:
    uri = template.uri_template.format(id=house.ids[template.name])

    owned = await read_resource(house.service, house.owner.principal, uri=uri)
    with pytest.raises(NotFoundError):
        await read_resource(house.service, house.stranger.principal, uri=uri)

    assert MARKER in owned


ROUTES: dict[str, tuple[str, str, Any]] = {
    "append_messages": ("POST", "/conversations/{conversation}/messages", {"messages": [MESSAGE]}),
    "append_messages_to_default": (
        "POST",
        "/messages",
        {"conversation_id": "{conversation}", "messages": [MESSAGE]},
    ),
    "search": ("POST", "/search", {"query": MARKER, "conversation_id": "{conversation}"}),
    "search_by_address": ("GET", f"/search?q={MARKER}&conversation_id={{conversation}}", None),
    "get_conversation": ("GET", "/conversations/{conversation}", None),
    "edit_conversation": ("PATCH", "/conversations/{conversation}", {"title": "trespass"}),
    "delete_conversation": ("DELETE", "/conversations/{conversation}", None),
    "remove_entry": ("DELETE", "/notes/{memory}", None),
    "memory_store": ("POST", "/memories", {"content": "x", "episode_id": "{episode}", **IN}),
    "memory_store_batch": (
        "POST",
        "/memories/batch",
        {"memories": [{"content": "x", "episode_id": "{episode}"}], **IN},
    ),
    "memory_fetch": ("GET", "/memories/{memory}", None),
    "memory_correct": ("PATCH", "/memories/{memory}", {"content": "trespass"}),
    "memory_purge": ("DELETE", "/memories/{memory}?force=true", None),
    "memory_forget": ("POST", "/memories/{memory}/forget", {}),
    "memory_history": ("GET", "/memories/{memory}/history", None),
    "memory_relations": ("GET", "/memories/{memory}/relations?hops=2", None),
    "count_feedback": ("GET", "/memories/{memory}/feedback", None),
    "memory_connect": ("POST", "/memories/{own}/relations", {"target_id": "{memory}"}),
    "memory_feedback": ("POST", "/memories/feedback", {"memory_ids": ["{memory}"], **IN}),
    "get_document": ("GET", "/documents/{document}", None),
    "document_status": ("GET", "/documents/{document_memory}/status", None),
    "memory_query_document": ("POST", "/documents/{document}/query", {"question": MARKER}),
    "remove_document": ("DELETE", "/documents/{document}?force=true", None),
    "get_upload": ("GET", "/documents/uploads/{upload}", None),
    "add_part": ("PUT", "/documents/uploads/{upload}/parts/1", "trespass"),
    "finish_upload": ("POST", "/documents/uploads/{upload}/finish", None),
    "abort_upload": ("DELETE", "/documents/uploads/{upload}", None),
    "memory_episode_recall": ("GET", f"/episodes/{{episode}}?project={PROJECT}", None),
    "memory_episode_end": ("POST", "/episodes/{episode}/end", IN),
    "trash_restore": ("POST", "/trash/{trashed}/restore", None),
    "trash_remove": ("DELETE", "/trash/{trashed}", None),
    "retention_remove": ("DELETE", "/retention/{rule}", None),
    "hold_lift": ("DELETE", "/holds/{hold}", None),
    "hold_add": ("POST", "/holds", {"reason": "trespass", "id": "{conversation}"}),
    "count_erasure": ("POST", "/erasures/count", {"conversation_id": "{conversation}"}),
    "erase": ("POST", "/erasures", {"conversation_id": "{conversation}"}),
    "get_erasure": ("GET", "/erasures/{erasure}", None),
    "memory_restore": ("POST", "/memories/{memory}/restore", {}),
    "undo_change": ("POST", "/changes/{change}/undo", None),
    "restore_key": ("POST", "/keys/{key}/restore", None),
    "rotate_key": ("POST", "/keys/{key}/rotate", {}),
    "revoke_key": ("DELETE", "/keys/{key}", None),
}
"""Requests that name what is the owner's."""

GENERAL_ROUTES: dict[str, tuple[str, str, Any]] = {
    "create_conversation": ("POST", "/conversations", {"project": PROJECT}),
    "capture_session": (
        "POST",
        "/capture",
        {"source": "claude", "session": MARKER, "messages": [{**MESSAGE, "original_id": MARKER}]},
    ),
    "list_conversations": ("GET", "/conversations?limit=100", None),
    "store_note": ("POST", "/notes", {"content": "a note of the stranger", **IN}),
    "store_notes": ("POST", "/notes/batch", {"notes": [{"content": "a note of the stranger"}]}),
    "list_entries": ("GET", "/notes?limit=50", None),
    "fetch_context": ("POST", "/context", {"query": MARKER, "min_score": 0}),
    "memory_store_document": ("POST", f"/documents?project={PROJECT}", "trespass"),
    "list_documents": ("GET", f"/documents?project={PROJECT}", None),
    "begin_upload": ("POST", "/documents/uploads", IN),
    "memory_recall": ("POST", "/memories/recall", {"query": MARKER, "projects": ["*"]}),
    "memory_list": ("GET", f"/memories?project={PROJECT}", None),
    "count_projects": ("GET", "/projects/counts", None),
    "memory_browse": ("GET", "/memories/browse?validity=any", None),
    "memory_timeline": (
        "GET",
        f"/memories/timeline?as_of=2026-01-01T00:00:00Z&project={PROJECT}",
        None,
    ),
    "memory_status": ("GET", f"/memories/status?project={PROJECT}", None),
    "memory_projects": ("GET", "/projects", None),
    "project_rules": ("GET", "/projects/rules", None),
    "project_alias": ("POST", "/projects/alias", {"project": "before", "same_as": PROJECT}),
    "project_exclude": ("POST", "/projects/exclude", IN),
    "project_reset": ("POST", "/projects/reset", IN),
    "project_merge": ("POST", "/projects/merge", {**IN, "into": "merged"}),
    "memory_change": ("POST", "/memories/change", {"change": "importance", "importance": 1, **IN}),
    "key_usage": ("GET", "/keys/usage", None),
    "memory_episode_start": ("POST", "/episodes", IN),
    "memory_episode_list": ("GET", f"/episodes?project={PROJECT}", None),
    "trash_list": ("GET", "/trash?limit=100", None),
    "trash_empty": ("DELETE", "/trash", None),
    "retention_list": ("GET", "/retention", None),
    "retention_set": ("POST", "/retention", {"keep": "90d", **IN}),
    "retention_run": ("POST", "/retention/run", {"dry_run": True}),
    "hold_list": ("GET", "/holds", None),
    "export": ("GET", "/export", None),
    "list_erasures": ("GET", "/erasures", None),
    "create_key": ("POST", "/keys", {"name": "extra"}),
    "list_keys": ("GET", "/keys", None),
    "status": ("GET", "/status", None),
    "usage": ("GET", "/usage", None),
    "audit": ("GET", "/audit?limit=500", None),
    "list_deliveries": ("GET", "/deliveries", None),
    "health": ("GET", "/health", None),
    "examine": ("POST", "/examination", None),
    "activity": ("GET", "/activity", None),
    "preview_reminder": ("POST", "/reminders/preview", {"prompt": "what did the owner say?"}),
    "delete_account": ("DELETE", "/account", {"organization": "stranger"}),
}
"""Requests that name nothing of the owner's; the last ends the stranger."""

NAMELESS = {"import"}
"""Stores what is sent: tests of transfer import what another organisation exported."""


def test_the_tables_hold_every_operation() -> None:
    operations = {
        operation["operationId"]
        for path, operations in openapi_document(OPERATIONS)["paths"].items()
        for operation in operations.values()
        if not path.startswith("/admin")
    }

    assert operations == ROUTES.keys() | GENERAL_ROUTES.keys() | NAMELESS


@promise("apart")
async def test_a_route_says_of_anothers_thing_what_it_says_of_nothing(house: House) -> None:
    before = await everything(house)

    for operation, request in ROUTES.items():
        foreign = await ask(house, *filled(list(request), house.ids))
        absent = await ask(house, *filled(list(request), house.absent_ids))
        assert (foreign.status_code, absent.status_code) == (404, 404), operation
        assert anonymous(foreign.text) == anonymous(absent.text), operation

    assert await everything(house) == before


@promise("apart")
async def test_a_route_answers_a_stranger_from_the_strangers_own_things(house: House) -> None:
    before = await everything(house)
    async with connect(house.app, house.owner.secret) as client:
        await client.post("/api/v1/search", json={"query": f"{MARKER}, asked by the owner"})

    for operation, request in GENERAL_ROUTES.items():
        answer = await ask(house, *request)
        assert answer.is_success, operation
        assert is_of_nobody_else(answer.text, house), operation

    assert await everything(house) == before


async def ask(house: House, method: str, path: str, body: Any) -> httpx.Response:
    """Send a request as the stranger."""
    async with connect(house.app, house.stranger.secret) as client:
        return await client.request(method, f"/api/v1{path}", json=body)


async def refusal_of(house: House, tool: str, arguments: dict[str, Any]) -> str:
    """Return how a tool refuses the stranger, which it must."""
    with pytest.raises(NotFoundError) as refused:
        await house.call(house.stranger, tool, **arguments)
    return anonymous(refused.value.message)


def is_of_nobody_else(answer: str, house: House) -> bool:
    """Say whether nothing of the owner's is in an answer.

    The project's name anybody may use, and what the stranger has searched for is the stranger's own.
    """
    names = ("conversation", "memory", "episode", "key", "document", "document_memory", "upload")
    ids = (house.ids[name] for name in names)
    others = answer.replace(PROJECT, "").replace(f'"query":"{MARKER}"', "")
    return MARKER not in others and not any(each in answer for each in ids)


async def everything(house: House) -> dict[str, Any]:
    """Return what the owner has and may see."""
    asked: list[tuple[str, dict[str, Any]]] = [
        ("list_conversations", {}),
        ("get_conversation", {"conversation_id": house.ids["conversation"]}),
        ("memory_list", IN),
        ("memory_dump", IN),
        ("memory_history", {"memory_id": house.ids["memory"], **IN}),
        ("memory_recall", {"query": MARKER, "mode": "full", **IN}),
        ("memory_query_document", {"memory_id": house.ids["document"], "question": MARKER, **IN}),
        ("memory_status", IN),
        ("memory_projects", {}),
        ("memory_episode_list", IN),
    ]
    return {tool: await house.call(house.owner, tool, **arguments) for tool, arguments in asked} | {
        "keys": await house.service.access.list_keys(house.owner.principal),
        "upload": await house.service.documents.find_upload(
            house.owner.principal, DocumentId(house.ids["upload"])
        ),
    }


def anonymous(text: str) -> str:
    """Return a message without what it names."""
    return re.sub(r"(conv|mem|ep|key|doc|ret|hold)_[\w-]{21}|'[^']*'", "…", text)
