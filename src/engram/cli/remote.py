"""Operations on the server that ENGRAM_URL names, over REST: the same answers, and the same errors."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Any, cast

import httpx
import msgspec

from engram import limits
from engram.api.calls import Fields, find_route, rest_call
from engram.api.operation import QUOTA_WARNING, AnyOperation, Route
from engram.bodies.lines import parsed_object
from engram.errors import ConfigurationError, EngramError, UnavailableError, error_named
from engram.model.request import NOTHING

TIMEOUT = httpx.Timeout(
    limits.RELAY_CONNECT_S, read=limits.RELAY_READ_S, write=limits.RELAY_WRITE_S, pool=None
)
PATIENT = httpx.Timeout(limits.RELAY_CONNECT_S, read=None, write=limits.RELAY_WRITE_S, pool=None)
"""Of a call whose answer comes when all of a long stream is stored."""

_ABSENT = re.compile(r"no (\w+) '")
"""How the message of a NotFoundError names its kind."""


class Answered(msgspec.Struct):
    """The answer of a server, and its warning about the quota."""

    answer: Any
    warning: str | None


def call_server(
    url: str, *, api_key: str | None, operation: AnyOperation, given: Fields, is_read: bool
) -> Answered:
    """Run an operation on a server.

    Raises:
        EngramError: the server refused, or did not answer.
    """
    fields = {**given, **(operation.command.fixed if operation.command else NOTHING)}
    route = find_route(operation, fields)
    if route is None:
        raise TypeError(f"{operation.name} has no route")
    with _connected(url, api_key=api_key, is_read=is_read) as client:
        response = client.send(_request(client, route, fields))
    if not response.is_success:
        raise _error_of(response)
    answer = _completed(msgspec.json.decode(response.content))
    read = msgspec.convert(answer, route.answer or operation.answer)
    return Answered(read, response.headers.get(QUOTA_WARNING))


@contextmanager
def download(
    url: str, *, api_key: str | None, operation: AnyOperation, given: Fields
) -> Generator[Iterator[bytes]]:
    """Yield the bytes that an operation of a server sends, as they arrive.

    Raises:
        EngramError: the server refused, or did not answer to the end.
    """
    with _connected(url, api_key=api_key, is_read=True) as client:
        request = _request(client, operation.routes[0], given)
        response = client.send(request, stream=True)
        with closing(response):
            if not response.is_success:
                response.read()
                raise _error_of(response)
            yield response.iter_bytes()


def upload(
    url: str, *, api_key: str | None, operation: AnyOperation, body: Iterable[bytes]
) -> Answered:
    """Send a stream to an operation of a server, and return its answer, however long that takes.

    Raises:
        EngramError: the server refused, or did not answer.
    """
    route = operation.routes[0]
    with _connected(url, api_key=api_key, is_read=False) as client:
        request = client.build_request(route.method, route.path, content=body, timeout=PATIENT)
        response = client.send(request)
    if not response.is_success:
        raise _error_of(response)
    read = msgspec.convert(msgspec.json.decode(response.content), operation.answer)
    return Answered(read, response.headers.get(QUOTA_WARNING))


@contextmanager
def _connected(url: str, *, api_key: str | None, is_read: bool) -> Generator[httpx.Client]:
    """Yield a client of a server.

    Raises:
        EngramError: the server cannot be reached, or did not answer.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT) as client:
            yield client
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
        raise ConfigurationError("ENGRAM_URL", f"{url!r} is not a URL of a server: {exc}") from exc
    except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
        raise UnavailableError(f"{url} cannot be reached: {exc}; check ENGRAM_URL") from exc
    except httpx.HTTPError as exc:
        raise UnavailableError(_lost(url, exc, is_read=is_read)) from exc


def _completed(value: Any) -> Any:
    """Return JSON of an answer with the fields of memories that are sent in another form."""
    if isinstance(value, list):
        return [_completed(each) for each in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    given = cast("dict[str, Any]", value)
    read = {name: each if name == "metadata" else _completed(each) for name, each in given.items()}
    if "memory_type" in read:
        read.setdefault("is_searched", "forgotten" not in read)
        read.setdefault("reason", read.get("invalidation_reason"))
    return read


def _lost(url: str, cause: httpx.HTTPError, *, is_read: bool) -> str:
    reason = f"no valid answer of {url}: {str(cause) or type(cause).__name__}"
    if is_read:
        return reason
    return f"{reason}; the call may or may not have been carried out: check before you repeat it"


def _request(client: httpx.Client, route: Route, fields: Fields) -> httpx.Request:
    call = rest_call(route, fields)
    if call.body is None:
        return client.build_request(
            call.method, call.path, params=httpx.QueryParams(list(call.parameters))
        )
    headers = {"Content-Type": "application/json"}
    body = msgspec.json.encode(call.body)
    return client.build_request(call.method, call.path, content=body, headers=headers)


def _error_of(response: httpx.Response) -> EngramError:
    """Return the error that a server reported as a problem (RFC 9457)."""
    problem = dict(parsed_object(response.content))
    code, message = problem.pop("code", None), problem.pop("detail", None)
    if not isinstance(code, str) or not isinstance(message, str):
        place, status = response.url.copy_with(query=None), response.status_code
        return UnavailableError(f"{place} answered {status} {response.reason_phrase}")
    for name in ("type", "title", "status"):
        problem.pop(name, None)
    if absent := _ABSENT.match(message):
        problem["kind"] = absent[1]
    if toolset := problem.pop("toolset", None):
        problem["required"] = toolset
    return error_named(code, {"field": None, **problem, "message": message})
