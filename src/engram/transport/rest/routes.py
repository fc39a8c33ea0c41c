"""A route that FastAPI documents and that runs without FastAPI's machinery.

The signature of an endpoint says everything: `body` and `query` are models, other parameters come
from the path, and what it returns is the answer. FastAPI reads it for the OpenAPI document; here it
is read once, so that a request costs one parse, one call and one serialisation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, cast, get_type_hints

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engram.model.access import Principal
from engram.service import Service
from engram.transport import requests
from engram.transport.answers import encode_answer
from engram.transport.bodies.reading import bodies_of
from engram.transport.operations import TOOLSET_OF
from engram.transport.rest.headers import add_header
from engram.transport.rest.inputs import check_content_type, parse_body, parse_query
from engram.transport.rest.needs import needs_of

NO_CONTENT = 204
QUOTA_WARNING = "Engram-Quota-Warning"


class Call(Request):
    """One request, as an endpoint sees it."""

    @property
    def service(self) -> Service:
        return self.scope["state"]["service"]

    @property
    def principal(self) -> Principal:
        return self.scope["state"]["principal"]

    @property
    def operator(self) -> str:
        """The actor whose token the request carries."""
        return self.scope["state"]["operator"]

    def receive_body(self, *, field: str) -> AbstractAsyncContextManager[bytes | bytearray]:
        """Yield the body as it is, within the bound that the route declares."""
        route: JsonRoute = self.scope["route"]
        return bodies_of(self.scope).receive(
            self.scope, self.receive, bytes_max=route.needs.body_bytes_max, field=field
        )

    def warn_of_quota(self, warning: str | None) -> None:
        """Let the answer say that most of the quota is used, if it is."""
        if warning:
            add_header(self.scope, QUOTA_WARNING, warning)


class JsonRoute(APIRoute):
    """Parses, calls the endpoint and serialises; failures are raised to the top."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.needs = needs_of(endpoint)
        models = get_type_hints(endpoint)
        self._body: type[requests.Request] | None = models.get("body")
        self._query: type[requests.Request] | None = models.get("query")
        self._is_body_optional = self._body is not None and all(
            not info.is_required() for info in self._body.model_fields.values()
        )
        self._answer_status = self.status_code or 200
        self._call = cast("Callable[..., Awaitable[object]]", endpoint)
        self._toolset = TOOLSET_OF[endpoint.__name__]
        self.app = self._run

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._toolset is not None:
            scope["state"]["principal"].require_toolset(self._toolset)
        self.needs.check(scope["state"].get("principal"))
        arguments = dict[str, Any](scope["path_params"])
        query = parse_query(self._query, scope["query_string"])
        if query is not None:
            arguments["query"] = query
        if self._body is None:
            await self._respond(arguments, scope, receive, send)
            return
        bodies = bodies_of(scope)
        async with bodies.receive(scope, receive, bytes_max=self.needs.body_bytes_max) as body:
            arguments["body"] = await bodies.parse(
                body, partial(self._parse, self._body, scope, body)
            )
            await self._respond(arguments, scope, receive, send)

    def _parse(
        self, model: type[requests.Request], scope: Scope, body: bytes | bytearray
    ) -> requests.Request:
        if self._is_body_optional and not body:
            return model()
        check_content_type(scope)
        return parse_body(model, body)

    async def _respond(
        self, arguments: dict[str, Any], scope: Scope, receive: Receive, send: Send
    ) -> None:
        answer = await self._call(Call(scope, receive, send), **arguments)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
        else:
            await self._send(answer, send)

    async def _send(self, answer: object, send: Send) -> None:
        status = self._answer_status
        body = b"" if status == NO_CONTENT else await encode_answer(answer)
        headers = [] if status == NO_CONTENT else _json_headers(len(body))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _json_headers(length: int) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", b"application/json"), (b"content-length", b"%d" % length)]
