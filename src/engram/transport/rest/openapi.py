"""The OpenAPI 3.1 document of the REST routes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from engram import __version__
from engram.transport.answers import to_json
from engram.transport.rest import (
    account,
    admin,
    conversations,
    documents,
    episodes,
    memories,
    notes,
)
from engram.transport.rest.problems import MEDIA_TYPE, ProblemView, phrase_of

PATH = "/api/v1/openapi.json"

DESCRIPTION = """\
Memory for AI agents: conversations kept verbatim and found again. Every failure is a problem \
(RFC 9457) with a stable `code`. Unknown fields and parameters are refused."""

SECURITY_SCHEMES: Mapping[str, Any] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "An organisation's API key.",
    },
    "operator": {
        "type": "http",
        "scheme": "bearer",
        "description": "The operator's token (ENGRAM_ADMIN_TOKEN).",
    },
}

EVERYWHERE = (400, 401, 403, 421, 429, 500, 503)
"""Statuses with which any operation may refuse."""

FOR_ONE_THING = (404, 409)
FOR_BODIES = (413, 415, 507)
PROBLEMS = sorted({*EVERYWHERE, *FOR_ONE_THING, *FOR_BODIES})


def rest_routes() -> list[BaseRoute]:
    """Return the documented routes, the busiest first, because they are tried in order."""
    routers = (conversations, notes, memories, documents, episodes, account, admin)
    return [route for module in routers for route in module.router.routes]


def document_route() -> BaseRoute:
    """Return the route of the document itself."""
    return Route(PATH, openapi)


async def openapi(_: Request) -> Response:
    """Return the document."""
    return Response(_rendered(), media_type="application/json")


def openapi_document(routes: Sequence[BaseRoute]) -> dict[str, Any]:
    """Return the document that describes `routes`."""
    document = get_openapi(
        title="Engram",
        version=__version__,
        description=DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        routes=routes,
    )
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _complete(operation, path)
    components = document["components"]
    components["securitySchemes"] = SECURITY_SCHEMES
    components["responses"] = {_name(status): _problem_response(status) for status in PROBLEMS}
    components["schemas"]["Problem"] = TypeAdapter(ProblemView).json_schema()
    # FastAPI describes its own validation, which these routes do not use.
    del components["schemas"]["HTTPValidationError"], components["schemas"]["ValidationError"]
    return document


@cache
def _rendered() -> bytes:
    return to_json(openapi_document(rest_routes()))


def _complete(operation: dict[str, Any], path: str) -> None:
    """Add what FastAPI cannot know: the credential, the problems, and what an address can say."""
    has_key = not path.startswith("/admin")
    operation["security"] = [{"key" if has_key else "operator": []}]
    for parameter in operation.get("parameters", ()):
        parameter["schema"] = _without_null(parameter["schema"])
    statuses = [*EVERYWHERE]
    if has_key or "{" in path:
        # An append or a search names a conversation too.
        statuses += FOR_ONE_THING
    if "requestBody" in operation:
        statuses += FOR_BODIES
    operation["responses"].pop("422", None)
    operation["responses"] |= {
        str(status): {"$ref": f"#/components/responses/{_name(status)}"}
        for status in sorted(statuses)
    }


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without the null that no address can spell."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) != 1:
        return schema
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**options[0], **rest}


def _name(status: int) -> str:
    return phrase_of(status).replace(" ", "")


def _problem_response(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        "description": phrase_of(status),
        "content": {MEDIA_TYPE: {"schema": schema}},
    }
