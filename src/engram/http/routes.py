"""Routes made from the table of operations: parse, call, serialise.

The credential's toolset and scopes are checked before anything of a body is read; failures are
raised to the top.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
from starlette.convertors import IntegerConvertor, StringConvertor, register_url_convertor
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from engram.api.deliveries import note_given
from engram.api.encoding import encode_answer
from engram.api.operation import ID_PATTERNS, QUOTA_WARNING, AnyOperation, Route
from engram.bodies.json_text import NotJsonError, prepare, restore
from engram.bodies.receiving import bodies_of
from engram.errors import InvalidRequestError
from engram.http.headers import add_header
from engram.http.problems import HttpError
from engram.model.access import Principal
from engram.model.fields import shortened
from engram.model.request import Mode, Request, parse
from engram.model.shape import fields_of
from engram.model.value import plain
from engram.service import Service

NO_CONTENT = 204
ANY_CLIENT = "rest"
"""In the log, a client that does not say what it is."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class PartConvertor(IntegerConvertor):
    """Matches the number of a part of an upload."""

    regex = "[0-9]{1,9}"


# Paths are compiled where routes are declared, so their types have to be known before.
register_url_convertor("part", PartConvertor())
for kind, pattern in ID_PATTERNS.items():
    register_url_convertor(kind, type(kind, (StringConvertor,), {"regex": pattern})())


class Call(HttpRequest):
    """One request to an operation."""

    @property
    def service(self) -> Service:
        return self.scope["state"]["service"]

    @property
    def principal(self) -> Principal:
        return self.scope["state"]["principal"]

    @property
    def caller(self) -> Principal | str:
        """The principal of a key, or the name of the operator."""
        state = self.scope["state"]
        return state["principal"] if "principal" in state else state["operator"]

    def receive_body(
        self, *, bytes_max: int, field: str
    ) -> AbstractAsyncContextManager[bytes | bytearray]:
        """Yield the raw body, within its bound."""
        bodies = bodies_of(self.scope)
        return bodies.receive(self.scope, self.receive, bytes_max=bytes_max, field=field)


Handler = Callable[[Call, Any], Awaitable[Any]]
"""Answers a call whose request or response body is not JSON, given its parsed parameters."""


def operation_routes(
    operations: Iterable[AnyOperation], handlers: Mapping[str, Handler]
) -> list[BaseRoute]:
    """Return the routes of operations; `handlers` has those that need more than parsed fields."""
    return [
        OperationRoute(operation, route, handlers.get(route.name or operation.name))
        for operation in operations
        for route in operation.routes
    ]


class OperationRoute(StarletteRoute):
    """One operation at one address."""

    def __init__(self, operation: AnyOperation, route: Route, handler: Handler | None) -> None:
        super().__init__(
            route.path, self._run, methods=[route.method], name=route.name or operation.name
        )
        self.methods = {route.method}
        self.operation = operation
        self.route = route
        self._handler = handler or self._call
        self._request: type[Request] = operation.request
        self._is_body_optional = all(
            not field.is_required
            for name, field in fields_of(self._request).items()
            if name not in {*route.fixed, *map(route.field, route.parameters)}
        )
        self._lists = {
            route.aliases.get(name, name)
            for name, field in fields_of(self._request).items()
            if field.shape.kind == "list"
        }
        self.app = self._run

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        self._check_access(scope["state"].get("principal"))
        if not self.route.reads_json:
            request = self._read(self._gather(scope["query_string"]), scope, "lenient")
            await self._respond(request, scope, receive, send)
            return
        _refuse_query(scope["query_string"])
        bodies = bodies_of(scope)
        bytes_max = self.operation.body_bytes_max
        async with bodies.receive(scope, receive, bytes_max=bytes_max) as body:
            request = await bodies.parse(body, partial(self._read_body, scope, body))
            await self._respond(request, scope, receive, send)

    def _check_access(self, principal: Principal | None) -> None:
        if principal is None:
            return
        if self.operation.toolset is not None:
            principal.require_toolset(self.operation.toolset)
        for scope in self.operation.scopes:
            principal.require(scope)

    def _read_body(self, scope: Scope, body: bytes | bytearray) -> Request:
        if self._is_body_optional and not body:
            return self._read({}, scope, "exact")
        check_content_type(scope)
        return self._read(read_json(body), scope, "exact")

    def _read(self, given: object, scope: Scope, mode: Mode) -> Request:
        named = {self.route.field(name): value for name, value in scope["path_params"].items()}
        fixed = {**self.route.fixed, **named}
        kind = "parameter" if mode == "lenient" else "field"
        return parse(
            self._request, given, mode=mode, fixed=fixed, aliases=self.route.aliases, kind=kind
        )

    def _gather(self, query_string: bytes) -> dict[str, Any]:
        """Return the query parameters; those of lists may be repeated."""
        gathered = dict[str, Any]()
        for name, value in _pairs(query_string):
            if name in self._lists:
                gathered.setdefault(name, []).append(value)
            elif name in gathered:
                raise InvalidRequestError("must be given once", field=name)
            else:
                gathered[name] = value
        return gathered

    async def _call(self, call: Call, request: Request) -> Any:
        run = self.route.run or self.operation.run
        return await run(call.service, call.caller, request)

    async def _respond(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._handler(Call(scope, receive, send), request)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
            return
        status = self.route.status
        body = b"" if status == NO_CONTENT else await encode_answer(_sent(answer, scope))
        headers = [] if status == NO_CONTENT else _json_headers(len(body))
        self._note(request, answer, scope, body)
        del answer  # or its texts would stay in memory until the client has read them
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _note(self, request: Request, answer: Any, scope: Scope, body: bytes) -> None:
        """Log what an agent was given, if the answer has stored texts."""
        tool, principal = self.operation.tool, scope["state"].get("principal")
        if tool is None or tool.places is None or principal is None:
            return
        note_given(
            scope["state"]["service"],
            principal,
            self.operation,
            request,
            answer,
            text=body.decode(),
            client=client_of(scope),
        )


def client_of(scope: Scope) -> str:
    """Return the name that a client gives itself, without its version."""
    said = next((value for name, value in scope["headers"] if name == b"user-agent"), b"")
    name = said.decode("latin-1").partition("/")[0].strip()
    return shortened(name) if name.isprintable() and name else ANY_CLIENT


def _sent(answer: Any, scope: Scope) -> Any:
    """Return an answer's JSON; a warning about the quota becomes a header."""
    sent = plain(answer)
    if warning := sent.pop("quota_warning", None):
        add_header(scope, QUOTA_WARNING, warning)
    return sent


def _json_headers(length: int) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", b"%d" % length)]


def check_content_type(scope: Scope) -> None:
    """Refuse a body that is not declared to be JSON in UTF-8.

    Raises:
        HttpError: it is declared to be something else, or nothing.
    """
    values = [value for name, value in scope["headers"] if name == b"content-type"]
    if len(values) == 1 and _is_json(values[0]):
        return
    raise HttpError(415, "unsupported_media_type", "the body must be application/json in UTF-8")


def _is_json(content_type: bytes) -> bool:
    media_type, *parameters = content_type.decode("latin-1").lower().split(";")
    charset = [part.strip() for part in parameters if "charset" in part]
    return media_type.strip() == "application/json" and all(
        part.replace('"', "") == "charset=utf-8" for part in charset
    )


def read_json(body: bytes | bytearray) -> Any:
    """Parse a JSON body. A large body is consumed.

    Raises:
        HttpError: it is not JSON.
        InvalidRequestError: a text in it has a lone surrogate; names the field.
        LimitExceededError: it nests too deep or holds too many values.
    """
    try:
        text = prepare(body)
    except NotJsonError as exc:
        raise HttpError(400, "malformed_json", str(exc)) from exc
    try:
        value = msgspec.json.decode(text.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        value = _read_leniently(text.data, str(exc))
    return restore(value, text.texts) if text.texts else value


def _read_leniently(body: bytes | bytearray, message: str) -> Any:
    """Parse a body with numbers beyond float64, so that validation can name the field.

    JSON can also escape a lone surrogate, which is not valid text. The strict parser stops at either
    without the position; a more lenient one gets past them.

    Raises:
        HttpError: it is not JSON.
        InvalidRequestError: a text has a lone surrogate.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise HttpError(400, "malformed_json", message) from exc
    faults = dict(_faults(value, ""))
    if field := faults.get("surrogate"):
        raise InvalidRequestError("holds a lone surrogate, which no UTF-8 text can", field=field)
    if "number" not in faults:
        raise HttpError(400, "malformed_json", message)
    return value


def _faults(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the path of each value that is not valid, in reverse order."""
    if isinstance(value, str) and _SURROGATE.search(value):
        yield "surrogate", path.lstrip(".")
    if isinstance(value, float) and not math.isfinite(value):
        yield "number", path.lstrip(".")
    items = list[tuple[str, object]]()
    if isinstance(value, list):
        each = enumerate(cast("list[object]", value))
        items = [(f"{path}[{index}]", item) for index, item in each]
    elif isinstance(value, dict):
        items = [
            (f"{path}.{name}", item) for name, item in cast("dict[str, object]", value).items()
        ]
    for inner, item in reversed(items):
        yield from _faults(item, inner)


def _refuse_query(query_string: bytes) -> None:
    """Refuse a query string where none is allowed."""
    if query_string and (pairs := _pairs(query_string)):
        raise InvalidRequestError("is not a known parameter", field=pairs[0][0])


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query_string.decode(), keep_blank_values=True, errors="strict")
    except ValueError as exc:
        raise InvalidRequestError("must be UTF-8, percent-encoded", field="query string") from exc
