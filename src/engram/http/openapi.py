"""The OpenAPI 3.1 document of the table of operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute

from engram import __version__
from engram.api.encoding import to_json
from engram.api.operation import ID_PATTERNS, AnyOperation, Route
from engram.api.schema import Schema, object_schema, reference, request_field
from engram.api.table import OPERATIONS
from engram.http.problems import MEDIA_TYPE, Problem, phrase_of
from engram.model.shape import Field, fields_of
from engram.model.value import replace

PATH = "/api/v1/openapi.json"

DESCRIPTION = """\
Memory for AI agents: conversations kept verbatim and found again. Every failure is a problem \
(RFC 9457) with a stable `code`. Unknown fields and parameters are refused."""

SECURITY_SCHEMES: Mapping[str, Any] = {
    "key": {"type": "http", "scheme": "bearer", "description": "An organisation's API key."},
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

BINARY: Schema = {"schema": {"type": "string", "format": "binary"}}
DOWNLOAD: Mapping[str, Schema] = {
    "200": {"description": "The bytes as they came.", "content": {"*/*": BINARY}},
    "206": {"description": "The range that was asked for.", "content": {"*/*": BINARY}},
    "304": {"description": "The client has it already."},
    "416": {"description": "The range begins past the end."},
}

_PARAMETER = re.compile(r"\{(\w+)(?::(\w+))?\}")


def document_route() -> BaseRoute:
    """Return the route of the document itself."""
    return StarletteRoute(PATH, openapi)


async def openapi(_: HttpRequest) -> Response:
    """Return the document."""
    return Response(_rendered(), media_type="application/json")


@cache
def _rendered() -> bytes:
    return to_json(openapi_document(OPERATIONS))


def openapi_document(operations: Iterable[AnyOperation]) -> dict[str, Any]:
    """Return the document that describes `operations`."""
    schemas = dict[str, Schema]()
    reference(Problem, schemas)
    paths = dict[str, dict[str, Any]]()
    for operation in operations:
        for route in operation.routes:
            if route.is_documented:
                path = _PARAMETER.sub(r"{\1}", route.path)
                entry = _entry(operation, route, schemas)
                paths.setdefault(path, {})[route.method.lower()] = entry
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Engram",
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "version": __version__,
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": SECURITY_SCHEMES,
            "responses": {_name(status): _problem_response(status) for status in PROBLEMS},
        },
    }


def _entry(operation: AnyOperation, route: Route, schemas: dict[str, Schema]) -> dict[str, Any]:
    """Return the OpenAPI operation of one route."""
    entry: dict[str, Any] = {
        "tags": [operation.group or operation.toolset],
        "description": route.description or operation.description,
        "operationId": route.name or operation.name,
        "security": [{"operator" if operation.is_operators else "key": []}],
    }
    if parameters := [*_path_parameters(operation, route), *_query(operation, route, schemas)]:
        entry["parameters"] = parameters
    if (body := _body(operation, route, schemas)) is not None:
        entry["requestBody"] = body
    problems = {
        str(status): {"$ref": f"#/components/responses/{_name(status)}"}
        for status in _problems(operation, route, has_body=body is not None)
    }
    return {**entry, "responses": {**_answers(operation, route, schemas), **problems}}


def _path_parameters(operation: AnyOperation, route: Route) -> list[Schema]:
    fields = fields_of(operation.request)
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _path_schema(convertor)
            or request_field(_spelled(fields[route.field(name)]), {}),
        }
        for name, convertor in _PARAMETER.findall(route.path)
    ]


def _path_schema(convertor: str) -> Schema | None:
    if not convertor:
        return None
    if convertor == "part":
        return {"type": "integer", "minimum": 0, "maximum": 999_999_999}
    return {"type": "string", "pattern": f"^{ID_PATTERNS[convertor]}$"}


def _query(operation: AnyOperation, route: Route, schemas: dict[str, Schema]) -> list[Schema]:
    if route.reads_json:
        return []
    return [
        _parameter(field, route.aliases.get(field.name, field.name), schemas)
        for field in _free_fields(operation, route)
    ]


def _free_fields(operation: AnyOperation, route: Route) -> list[Field]:
    """Return the fields that come from neither the path nor the route's fixed values."""
    given = {*map(route.field, route.parameters), *route.fixed}
    return [field for name, field in fields_of(operation.request).items() if name not in given]


def _parameter(field: Field, name: str, schemas: dict[str, Schema]) -> Schema:
    schema = request_field(_spelled(field), schemas)
    parameter = {"name": name, "in": "query", "required": field.is_required, "schema": schema}
    if field.shape.description is not None:
        parameter["description"] = field.shape.description
    return parameter


def _spelled(field: Field) -> Field:
    """Return a field as a query string has it, without null."""
    return replace(field, shape=replace(field.shape, is_nullable=False))


def _body(operation: AnyOperation, route: Route, schemas: dict[str, Schema]) -> Schema | None:
    if route.body in ("bytes", "stream"):
        return {"required": True, "content": {"application/octet-stream": BINARY}}
    free = _free_fields(operation, route)
    if not route.reads_json or not free:
        return None
    if len(free) == len(fields_of(operation.request)):
        schema = reference(operation.request, schemas)
    else:
        given = {*map(route.field, route.parameters), *route.fixed}
        schema = object_schema(operation.request, without=given, components=schemas)
    body: Schema = {"content": {"application/json": {"schema": schema}}}
    is_required = operation.request.needs_a_field or any(field.is_required for field in free)
    return {"required": True, **body} if is_required else body


def _answers(
    operation: AnyOperation, route: Route, schemas: dict[str, Schema]
) -> Mapping[str, Schema]:
    if route.sends_bytes:
        return DOWNLOAD
    answer = route.answer or operation.answer
    described: Schema = {"description": "Successful Response"}
    if route.status != 204:
        described["content"] = {"application/json": {"schema": reference(answer, schemas)}}
    return {str(route.status): described}


def _problems(operation: AnyOperation, route: Route, *, has_body: bool) -> list[int]:
    statuses = [*EVERYWHERE]
    names_one = "{" in route.path or "home" in fields_of(operation.request)
    if not operation.is_operators or names_one:
        # An append or a search names a conversation too.
        statuses += FOR_ONE_THING
    if has_body:
        statuses += FOR_BODIES
    return sorted(statuses)


def _name(status: int) -> str:
    return phrase_of(status).replace(" ", "")


def _problem_response(status: int) -> Schema:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": phrase_of(status), "content": {MEDIA_TYPE: {"schema": schema}}}
