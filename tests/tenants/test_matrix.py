"""Every operation with every id it takes: another's id is answered like one that does not exist.

The matrix is made from the tools and the OpenAPI document. An argument that looks like an id and is
not in the tables below fails, and so does an operation that does not come as far as its id.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from engram.api.table import OPERATIONS
from engram.http.openapi import openapi_document
from engram.mcp.tools import TOOLS
from tests.fuzz.mutants import sample
from tests.promises import promise
from tests.rest.calls import connect
from tests.tenants.house import PROJECT, House

pytestmark = promise("apart")

Schema = Mapping[str, Any]
Path = tuple[str, ...]

KINDS = {
    "conversation_id": "conversation",
    "id": "memory",
    "memory_id": "memory",
    "memory_ids": "memory",
    "entry_id": "memory",
    "source_id": "memory",
    "target_id": "memory",
    "episode_id": "episode",
    "document_id": "document",
    "upload_id": "upload",
    "key_id": "key",
    "chunk_ids": "chunk",
    "erasure_id": "erasure",
    "hold_id": "hold",
    "rule_id": "rule",
    "change_id": "change",
}
"""What each argument names."""

LABELS = {"agent_id", "tool_call_id", "event_id", "original_id"}
"""Arguments that look like ids, and hold what callers make up."""

NEEDED: dict[str, dict[str, Any]] = {
    "edit_conversation": {"title": "trespass"},
    "memory_connect": {"source_id": "{own}", "target_id": "{own}"},
    "memory_correct": {"content": "trespass"},
    "memory_fetch": {"id": "{own}", "detail": "chunk"},
    "memory_ingest_document_stream": {"action": "append", "part": 1, "text": "trespass"},
    "memory_store_batch": {"memories": [{"content": "trespass"}]},
}
"""What a tool needs beside an id, and no schema says."""

STARTS_AN_UPLOAD = ("memory_ingest_document_stream", ("episode_id",))
OF_A_PROJECT = {"memory_episode_recall", "memory_episode_end"}
"""Operations that look for an id in one project alone."""


@dataclass(frozen=True, slots=True)
class Route:
    """How an operation of the document is asked."""

    method: str
    address: str
    query: dict[str, Any]
    body: dict[str, Any] | None
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One id that an operation takes."""

    operation: str
    path: Path
    route: Route | None = None

    @property
    def kind(self) -> str:
        return KINDS[self.path[-1]]


def id_paths(schema: Schema, above: Path = ()) -> Iterator[Path]:
    """Yield where in what a schema describes there are ids."""
    for name, field in schema.get("properties", {}).items():
        if re.fullmatch(r"id|.+_ids?", name) and name not in LABELS:
            yield (*above, name)
        yield from id_paths(field, (*above, name))
        yield from id_paths(field.get("items", {}), (*above, name))


def with_id(value: Any, path: Path, own: str) -> Any:
    """Return arguments with an id at a path; a list on the way has one item."""
    name, *rest = path
    if isinstance(value, list):
        return [with_id(cast("list[Any]", value)[0], path, own)]
    if not rest:
        return {**value, name: [own] if name.endswith("_ids") else own}
    return {**value, name: with_id(value.get(name, {}), tuple(rest), own)}


def required(schema: Schema) -> dict[str, Any]:
    """Return the arguments without which an operation is refused."""
    fields = {name: schema["properties"][name] for name in schema.get("required", ())}
    return {name: sample(Random(0), dict(field), ["{own}"]) for name, field in fields.items()}  # noqa: S311 no secret


def tool_cells() -> list[tuple[Cell, dict[str, Any]]]:
    """Return every id of every tool, and what to call the tool with."""
    cells = list[tuple[Cell, dict[str, Any]]]()
    for tool in TOOLS:
        for path in id_paths(tool.input_schema):
            base = {**required(tool.input_schema), **NEEDED.get(tool.name, {})}
            if (tool.name, path) == STARTS_AN_UPLOAD:
                base = {"action": "start"}
            project = {"project": PROJECT} if tool.name in OF_A_PROJECT else {}
            cells.append((Cell(tool.name, path), {**base, **project}))
    return cells


async def test_every_tool_says_of_anothers_id_what_it_says_of_none(house: House) -> None:
    ids = await owned_ids(house)
    unknown = {cell.path[-1] for cell, _ in tool_cells()} - KINDS.keys()
    assert not unknown, f"say in KINDS or LABELS what these name: {unknown}"

    async with connect(house.app, house.stranger.secret) as client:
        for cell, base in tool_cells():
            texts = list[str]()
            for own in (ids[cell.kind], absent(ids[cell.kind])):
                arguments = with_id(filled(base, house), cell.path, own)
                params = {"name": cell.operation, "arguments": arguments}
                call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                answer = await client.post("/mcp", json=call)
                result = answer.json()["result"]
                assert result["_meta"]["engram/error"]["code"] == "not_found", (cell, result)
                texts.append(answer.text.replace(own, "…"))
            assert texts[0] == texts[1], cell


def route_cells() -> list[Cell]:
    """Return every id of every operation of the document that is not the operator's."""
    document = openapi_document(OPERATIONS)
    cells = list[Cell]()
    for address, operations in document["paths"].items():
        if not address.startswith("/admin"):
            for method, operation in operations.items():
                cells += operation_cells(document, address, method, operation)
    return cells


def operation_cells(document: Schema, address: str, method: str, operation: Schema) -> list[Cell]:
    """Return the ids of an operation: in its address, its parameters and its body."""
    own = operation["operationId"]
    parameters = {each["name"]: each for each in operation.get("parameters", ())}
    schema = resolved(document, body_schema(operation))
    needed = {**required(schema), **NEEDED.get(own, {})} if schema else {}
    fields = schema.get("properties", {})
    body = {name: value for name, value in needed.items() if name in fields} if schema else None
    content = b"trespass" if "requestBody" in operation and body is None else None
    route = Route(method, address, required_query(parameters), body, content)
    outside = id_paths({"properties": parameters})
    return [Cell(own, path, route) for path in (*outside, *id_paths(schema))]


def required_query(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters without which an operation is refused, but for those in its address."""
    return {
        name: sample(Random(0), each["schema"], ["x"])  # noqa: S311 no secret
        for name, each in parameters.items()
        if each["in"] == "query" and each["required"]
    }


def body_schema(operation: Schema) -> Schema:
    contents = operation.get("requestBody", {}).get("content", {})
    return contents.get("application/json", {}).get("schema", {})


def resolved(document: Schema, schema: Any) -> Any:
    """Return a schema with what it refers to in its place."""
    if isinstance(schema, list):
        return [resolved(document, each) for each in schema]  # pyright: ignore[reportUnknownVariableType] of any depth
    if not isinstance(schema, dict):
        return schema
    given: dict[str, Any] = dict(schema)  # pyright: ignore[reportUnknownArgumentType] of any depth
    if "$ref" in given:
        name = given.pop("$ref").rpartition("/")[2]
        given = {**document["components"]["schemas"][name], **given}
    if "anyOf" in given:
        (given, *_) = [each for each in given["anyOf"] if each != {"type": "null"}]
    return {name: resolved(document, each) for name, each in given.items()}


async def test_every_route_says_of_anothers_id_what_it_says_of_none(house: House) -> None:
    ids = await owned_ids(house)
    unknown = {cell.path[-1] for cell in route_cells()} - KINDS.keys()
    assert not unknown, f"say in KINDS or LABELS what these name: {unknown}"

    async with connect(house.app, house.stranger.secret) as client:
        for cell in route_cells():
            texts = list[str]()
            for own in (ids[cell.kind], absent(ids[cell.kind])):
                answer = await client.request(**request_of(cell, own, house))
                assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), cell
                texts.append(re.sub(r"req_\w+", "…", answer.text.replace(own, "…")))
            assert texts[0] == texts[1], cell


def request_of(cell: Cell, own: str, house: House) -> dict[str, Any]:
    """Return a request that names an id where a cell says."""
    assert cell.route is not None
    (name, *_) = cell.path
    project = {"project": PROJECT} if cell.operation in OF_A_PROJECT else {}
    query, body = cell.route.query, cell.route.body
    address = cell.route.address.replace(f"{{{name}}}", own)
    if body is not None:
        body = filled({**body, **project}, house)
    else:
        query = {**query, **project}
    if address == cell.route.address and body is not None:
        body = with_id(body, cell.path, own)
    elif address == cell.route.address:
        query = {**query, name: own}
    address = re.sub(r"\{\w+_id\}", house.ids["own"], address).replace("{part}", "1")
    sent = {"content": cell.route.content} if body is None else {"json": body}
    return {"method": cell.route.method, "url": address, "params": query, **sent}


async def owned_ids(house: House) -> dict[str, str]:
    """Return an id of everything that the owner has."""
    arguments = {"id": house.ids["memory"], "detail": "chunk", "project": PROJECT}
    fetched = await house.call(house.owner, "memory_fetch", **arguments)
    return {**house.ids, "chunk": fetched["chunks"][0]["id"]}


def absent(own: str) -> str:
    """Return an id that looks like another, and is nobody's."""
    prefix, _, rest = own.partition("_")
    return f"{prefix}_{'x' * len(rest)}"


def filled(value: Any, house: House) -> Any:
    """Return arguments with the stranger's own memory where one is asked for."""
    return json.loads(json.dumps(value).replace("{own}", house.ids["own"]))
