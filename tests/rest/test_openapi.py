"""The OpenAPI document: as it was reviewed, and true of the running server.

`pytest tests/rest/test_openapi.py -k golden --inline-snapshot=fix` writes the golden file anew.
"""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
import schemathesis
import uvicorn
from inline_snapshot import external_file
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi import checks

from engram import limits
from engram.api.table import OPERATIONS
from engram.embedding.choice import NoEmbedder
from engram.http.asgi import create_app
from engram.http.openapi import openapi_document
from engram.http.server import listen
from engram.mcp.tools import tools_of
from engram.settings import Settings
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN

# The library's own types are partly unknown.
configure: Any = SchemathesisConfig
load: Any = schemathesis.openapi.from_dict
built_in: Any = checks

GENERATION = {"deterministic": True, "max-examples": 10, "no-shrink": True}


def configured(**generation: str) -> Any:
    """Return how cases are made: the same ones in every run."""
    return configure.from_dict(
        {
            "seed": 1,
            # A machine that others use may keep an answer back for a while.
            "request-timeout": 120,
            "generation": GENERATION | generation,
            # What one run's answers hold must not decide what the next run asks.
            "phases": {"fuzzing": {"extra-data-sources": {"responses": False}}},
        }
    )


DOCUMENT = openapi_document(OPERATIONS)
schema = load(DOCUMENT, config=configured())
valid = load(DOCUMENT, config=configured(mode="positive")).include(path_regex=r"\{\w+_id\}")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a thread, because the tests of each operation are synchronous."""
    home = tmp_path_factory.mktemp("store")
    settings = Settings(
        home=home, embedder=NoEmbedder(), admin_token=ADMIN_TOKEN, rate_limit=0, port=0
    )
    with pytest.MonkeyPatch.context() as patched, listen(settings) as listener:
        # Every operation is tried with wrong credentials, all from one address.
        patched.setattr(limits, "FAILED_LOGINS_PER_ADDRESS_MAX", 1_000_000)
        patched.setattr(limits, "FAILED_LOGINS_MAX", 1_000_000)
        server = uvicorn.Server(uvicorn.Config(create_app(settings), log_config=None, ws="none"))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def key(url: str) -> str:
    return new_key(url)


def new_key(url: str) -> str:
    operator = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    made = httpx.post(f"{url}/admin/organizations", json={"name": "acme"}, headers=operator)
    return made.json()["api_key"]


CONFLICTS = (
    {"since", "before"},
    {"around_sequence", "message_offset"},
    {"valid_from", "valid_to"},
    {"top_k", "limit"},
)
"""Arguments that exclude each other's values, which no schema can say."""

NEEDED = {
    "edit_conversation": {"title", "tags", "metadata", "project"},
    "memory_correct": {"content", "tags", "importance", "memory_type", "category"},
    "memory_feedback": {"memory_ids", "event_id"},
    "change_organization": {"name", "messages_max", "bytes_max"},
}
"""Operations that need one of these, which may all be left out or null as far as a schema says."""


def names(fields: object) -> set[str]:
    """Return the fields that are given, those of a list's items too."""
    if isinstance(fields, list):
        return {name for item in cast("list[object]", fields) for name in names(item)}
    if not isinstance(fields, dict):
        return set()
    given = {name: value for name, value in cast("dict[str, object]", fields).items() if value}
    return set(given).union(*map(names, given.values()))


def is_invisible(character: str) -> bool:
    """Say whether labels refuse a character that no pattern of the document can name."""
    return character > "\uffff" and unicodedata.category(character) == "Cf"


PARTICULAR = {
    "memory_store_document",  # its body may be no text
    "memory_query_document",  # its regex may be none
    "delete_account",  # it wants the name of the organisation
    "erase",  # it wants exactly one field, and a subject that is one
    "count_erasure",  # as above
    "import",  # its body is an export
    "retention_set",  # it wants a span such as 90d
    "project_alias",  # it wants two projects
    "project_merge",  # as above
    "memory_change",  # it wants an importance with one of its changes alone
}
"""Operations that refuse what the document cannot describe."""


def is_refused_for_good_reason(case: Any) -> bool:
    given = names(case.query) | names(case.body)
    operation = case.operation.definition.raw["operationId"]
    needed = NEEDED.get(operation)
    told = [case.query, case.body]
    return (
        any(map(given.issuperset, CONFLICTS))
        or any(map(is_invisible, json.dumps(told, ensure_ascii=False, default=str)))
        or (needed is not None and not needed & given)
        or ("failure_class" in given and "event_id" not in given)
        or "as_of" in given  # it may lie in the future
        or "expires_at" in given  # it may lie in the past
        or operation in PARTICULAR
    )


@promise("clear")
@schema.parametrize()
def test_every_operation_does_what_the_document_says(case: Any, url: str, key: str) -> None:
    if case.path == "/api/v1/account":
        # It ends the organisation whose key it was called with.
        key = new_key(url)
    token = ADMIN_TOKEN if case.path.startswith("/admin") else key
    excluded = [built_in.positive_data_acceptance] if is_refused_for_good_reason(case) else []

    case.call_and_validate(
        base_url=url,
        headers={"Authorization": f"Bearer {token}"},
        excluded_checks=excluded,
    )


MAKERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "conversation_id": ("/conversations", {"json": {}}, "conversation_id"),
    "entry_id": ("/notes", {"json": {"content": "The harbour opens at six."}}, "id"),
    "memory_id": ("/memories", {"json": {"content": "The harbour is deep."}}, "id"),
    "episode_id": ("/episodes", {"json": {}}, "episode_id"),
    "document_id": ("/documents", {"content": b"# Harbours"}, "document_id"),
    "upload_id": ("/documents/uploads", {"json": {}}, "upload_id"),
    "erasure_id": ("/erasures", {"json": {"subject": "name=nobody"}}, "id"),
    "hold_id": ("/holds", {"json": {"reason": "case 12", "project": "held"}}, "id"),
    "rule_id": ("/retention", {"json": {"keep": "90d", "project": "short"}}, "id"),
    "key_id": ("/keys", {"json": {"name": "extra"}}, "id"),
    "change_id": ("/projects/merge", {"json": {"project": "old", "into": "new"}}, "change_id"),
    "organization_id": ("/admin/organizations", {"json": {"name": "extra"}}, "organization_id"),
}
"""How to make what each id in an address names, and where the answer tells its id."""


@promise("clear")
@valid.parametrize()
def test_every_operation_on_what_exists_does_what_the_document_says(
    case: Any, url: str, key: str
) -> None:
    token = ADMIN_TOKEN if case.path.startswith("/admin") else key
    headers = {"Authorization": f"Bearer {token}"}
    for name in case.path_parameters.keys() & MAKERS:
        address, body, told_as = MAKERS[name]
        base = url if address.startswith("/admin") else f"{url}/api/v1"
        made = httpx.post(f"{base}{address}", headers=headers, **body)
        case.path_parameters[name] = made.json()[told_as]
    assert case.path_parameters.keys() - {"part"} <= MAKERS.keys()

    # What there is may forbid what the document allows, such as a place after the last message.
    excluded = [built_in.positive_data_acceptance]
    case.call_and_validate(base_url=url, headers=headers, excluded_checks=excluded)


def test_the_document_is_the_golden_one() -> None:
    assert external_file("golden/openapi.json") == DOCUMENT


def test_operations_are_named_like_the_tools() -> None:
    operations = {
        operation["operationId"]
        for operations in DOCUMENT["paths"].values()
        for operation in operations.values()
    }

    # What maintains memories works on files and whole projects, and has no address.
    listed = tools_of(("conversations", "notes", "memories"))
    assert operations >= {tool.name for tool in listed}
