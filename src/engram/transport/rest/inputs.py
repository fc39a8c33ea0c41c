"""Reads what a request carries into a model, once, and refuses what nobody asked for."""

from __future__ import annotations

import json
from typing import Any, TypeAlias, TypeVar, cast, get_origin
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from engram.errors import InvalidRequestError
from engram.transport.requests import Request, invalid_request
from engram.transport.rest.problems import HttpError

R = TypeVar("R", bound=Request)
JsonList: TypeAlias = list[object]
JsonObject: TypeAlias = dict[str, object]


async def read_body(receive: Receive) -> bytes:
    """Return the whole body of a request.

    Raises:
        ClientDisconnect: the client left before its body was complete.
    """
    pieces = list[bytes]()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def check_content_type(scope: Scope) -> None:
    """Refuse a body that is not declared to be JSON in UTF-8.

    Raises:
        HttpError: it is declared to be something else, or nothing.
    """
    values = [value for name, value in scope["headers"] if name == b"content-type"]
    if len(values) == 1 and _is_json(values[0]):
        return
    raise HttpError(415, "unsupported_media_type", "the body must be application/json in UTF-8")


def parse_body(model: type[R], body: bytes) -> R:
    """Return `body` as a `model`: JSON with the very types of its fields.

    Raises:
        HttpError: it is not JSON.
        InvalidRequestError: it is not what the model asks for.
    """
    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as exc:
        error = exc.errors(include_url=False, include_input=False)[0]
        if error["type"] == "json_invalid":
            raise _not_json(body, error["msg"]) from exc
        raise invalid_request(exc) from exc


def parse_query(model: type[R] | None, query_string: bytes) -> R | None:
    """Return the parameters of an address as a `model`; without one there must be none.

    Raises:
        InvalidRequestError: a parameter is unknown, repeated or wrong.
    """
    if model is None and not query_string:
        return None
    pairs = _pairs(query_string)
    if model is None:
        if not pairs:
            return None
        raise InvalidRequestError("is not a known parameter", field=pairs[0][0])
    try:
        return model.model_validate(_gathered(pairs, lists=_list_fields(model)))
    except ValidationError as exc:
        raise invalid_request(exc) from exc


def _is_json(content_type: bytes) -> bool:
    media_type, *parameters = content_type.decode("latin-1").lower().split(";")
    charset = [part.strip() for part in parameters if "charset" in part]
    return media_type.strip() == "application/json" and all(
        part.replace('"', "") == "charset=utf-8" for part in charset
    )


def _not_json(body: bytes, message: str) -> HttpError | InvalidRequestError:
    """Return why `body` was refused, naming the field when only the text in it was at fault.

    JSON can spell a lone surrogate, which no text holds. The parser stops at it without saying
    where; a more lenient one gets past it.
    """
    try:
        field = _unencodable_field(json.loads(body), "")
    except (ValueError, RecursionError):
        field = None
    if field is None:
        return HttpError(400, "malformed_json", message)
    return InvalidRequestError("holds a lone surrogate, which no UTF-8 text can", field=field)


def _unencodable_field(value: object, path: str) -> str | None:
    """Return the path of the first text in a JSON value that UTF-8 cannot carry."""
    if isinstance(value, str):
        return path.lstrip(".") if any("\ud800" <= char <= "\udfff" for char in value) else None
    if isinstance(value, list):
        items = [(f"{path}[{index}]", item) for index, item in enumerate(cast("JsonList", value))]
    elif isinstance(value, dict):
        items = [(f"{path}.{name}", item) for name, item in cast("JsonObject", value).items()]
    else:
        return None
    found = (_unencodable_field(item, inner) for inner, item in items)
    return next((field for field in found if field is not None), None)


def _pairs(query_string: bytes) -> list[tuple[str, str]]:
    try:
        text = query_string.decode()
        return parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError as exc:
        raise InvalidRequestError("must be UTF-8, percent-encoded", field="query string") from exc


def _gathered(pairs: list[tuple[str, str]], *, lists: frozenset[str]) -> dict[str, Any]:
    gathered = dict[str, Any]()
    for name, value in pairs:
        if name in lists:
            gathered.setdefault(name, []).append(value)
        elif name in gathered:
            raise InvalidRequestError("must be given once", field=name)
        else:
            gathered[name] = value
    return gathered


def _list_fields(model: type[Request]) -> frozenset[str]:
    """Return the parameters that may be repeated."""
    return frozenset(
        info.alias or name
        for name, info in model.model_fields.items()
        if get_origin(info.annotation) is list
    )
