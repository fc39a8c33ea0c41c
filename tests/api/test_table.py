"""An operation is declared once, and every surface has it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import httpx
import orjson
import pytest
from starlette.routing import Router
from starlette.types import Receive, Scope, Send
from typer.testing import CliRunner

from engram.api.operation import Command, KeyOperation, Operation, Route, Tool
from engram.api.table import OPERATIONS
from engram.cli.app import COMMANDS, GROUPS, PRINTERS, build_app
from engram.errors import InvalidRequestError
from engram.http.openapi import openapi_document
from engram.http.routes import operation_routes
from engram.mcp.tools import Tool as McpTool
from engram.model.access import KEY_SCOPES, Principal
from engram.model.fields import Between, Name
from engram.model.ids import OrganizationId
from engram.model.request import Request
from engram.model.value import Value
from engram.service import Service
from tools.docs import routes_table, tools_text


class Chorus(Request):
    """What to sing, and how often."""

    line: Annotated[Name, "What is sung."]
    times: Annotated[int, Between(1, 9), "How often."] = 2


class Sung(Value):
    """What was sung."""

    lines: tuple[str, ...]


async def sing(_: Service, __: Principal, request: Chorus) -> Sung:
    return Sung(lines=(request.line,) * request.times)


SING: KeyOperation = Operation(
    name="sing",
    description="Sing a line.",
    request=Chorus,
    answer=Sung,
    run=sing,
    scopes=("read",),
    toolset="notes",
    tool=Tool(title="Sing"),
    routes=(Route(method="GET", path="/api/v1/songs"),),
    command=Command(words=("sing",), arguments=("line",)),
)
TABLE = (*OPERATIONS, SING)

ME = Principal(organization_id=OrganizationId("org_x"), actor="key_x", scopes=frozenset(KEY_SCOPES))
NO_SERVICE = cast("Service", None)


async def test_a_new_operation_is_a_tool() -> None:
    tool = McpTool(SING)

    content, text = await tool.call(NO_SERVICE, ME, {"line": "la", "times": 3})

    assert content == {"lines": ["la"] * 3} == orjson.loads(text)
    assert tool.input_schema["properties"] == {
        "line": {"type": "string", "description": "What is sung."},
        "times": {
            "type": "integer",
            "minimum": 1,
            "maximum": 9,
            "default": 2,
            "description": "How often.",
        },
    }
    with pytest.raises(InvalidRequestError, match="between 1 and 9"):
        await tool.call(NO_SERVICE, ME, {"line": "la", "times": 10})


async def test_a_new_operation_is_a_route() -> None:
    router = Router(operation_routes((SING,), {}))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = {"service": NO_SERVICE, "principal": ME}
        await router(scope, receive, send)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        sung = await client.get("/api/v1/songs", params={"line": "la"})

        assert sung.json() == {"lines": ["la", "la"]}
        with pytest.raises(InvalidRequestError, match="between 1 and 9"):
            await client.get("/api/v1/songs", params={"line": "la", "times": 0})


def test_a_new_operation_is_in_the_openapi_document() -> None:
    entry: dict[str, Any] = openapi_document(TABLE)["paths"]["/api/v1/songs"]["get"]

    assert entry["operationId"] == "sing"
    assert [each["name"] for each in entry["parameters"]] == ["line", "times"]


def test_a_new_operation_is_a_command(tmp_path: Path) -> None:
    environment = {"ENGRAM_HOME": str(tmp_path), "ENGRAM_EMBEDDER": "none"}
    app = build_app(TABLE)

    sung = CliRunner().invoke(app, ["sing", "la", "--times", "3", "--json"], env=environment)
    refused = CliRunner().invoke(app, ["sing", "la", "--times", "10"], env=environment)
    shown = CliRunner().invoke(app, ["sing", "--help"])

    assert orjson.loads(sung.stdout) == {"lines": ["la"] * 3}
    assert refused.exit_code == 2
    assert "How often." in shown.stdout


def test_a_new_operation_is_in_the_reference() -> None:
    assert "## `sing`" in tools_text([McpTool(SING)])
    assert "| `GET` | `/api/v1/songs` | Sing a line. |" in routes_table(TABLE)


def test_every_command_of_the_table_is_printed_for_people() -> None:
    commands = {each.name: each.command for each in OPERATIONS if each.command is not None}

    assert commands.keys() == PRINTERS.keys()
    assert {command.words for command in commands.values()}.isdisjoint(COMMANDS)
    assert {words[0] for words in COMMANDS if len(words) > 1} <= GROUPS.keys()


def test_names_and_addresses_of_operations_are_unique() -> None:
    names = [operation.name for operation in OPERATIONS]
    routes = [(route.method, route.path) for each in OPERATIONS for route in each.routes]

    assert len(set(names)) == len(names)
    assert len(set(routes)) == len(routes)
