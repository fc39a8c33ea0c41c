"""Reads what a request carries into a model, once, and refuses what nobody asked for."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias, TypeVar, cast, get_origin
from urllib.parse import parse_qsl

from pydantic import ValidationError
from starlette.types import Scope

from engram.errors import InvalidRequestError
from engram.transport.bodies.texts import NotJsonError, Texts, prepare, restore
from engram.transport.requests import Request, invalid_request
from engram.transport.rest.problems import HttpError

_SURROGATE = re.compile("[\ud800-\udfff]")

R = TypeVar("R", bound=Request)
JsonList: TypeAlias = list[object]
JsonObject: TypeAlias = dict[str, object]


def check_content_type(scope: Scope) -> None:
    """Refuse a body that is not declared to be JSON in UTF-8.

    Raises:
        HttpError: it is declared to be something else, or nothing.
    """
    values = [value for name, value in scope["headers"] if name == b"content-type"]
    if len(values) == 1 and _is_json(values[0]):
        return
    raise HttpError(415, "unsupported_media_type", "the body must be application/json in UTF-8")


def parse_body(model: type[R], body: bytes | bytearray) -> R:
    """Return `body` as a `model`: JSON with the very types of its fields. A large one is used up.

    Raises:
        HttpError: it is not JSON.
        InvalidRequestError: it is not what the model asks for.
        LimitExceededError: it nests too deep or holds too many values.
    """
    try:
        text = prepare(body)
    except NotJsonError as exc:
        raise HttpError(400, "malformed_json", str(exc)) from exc
    try:
        parsed = model.model_validate_json(text.data, strict=True)
    except ValidationError as exc:
        message = _json_problem(exc)
        if message is not None:
            raise _not_json(text.data, message) from exc
        raise invalid_request(exc) from exc
    return _restored(parsed, text.texts) if text.texts else parsed


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


def _json_problem(exc: ValidationError) -> str | None:
    """Return what is wrong with the JSON; None when it could be read."""
    if exc.error_count() > 1:  # there may be thousands, and listing them takes its time
        return None
    error = exc.errors(include_url=False, include_input=False)[0]
    return error["msg"] if error["type"] == "json_invalid" else None


def _restored(model: R, texts: Texts) -> R:
    """Return a model with its long texts in their places; their bounds are proved by `engram.model`."""
    # Copying marks what it sets as given, so what was left out is left alone.
    given = {name: getattr(model, name) for name in model.model_fields_set}
    return model.model_copy(update={name: _put(value, texts) for name, value in given.items()})


def _put(value: object, texts: Texts) -> object:
    if isinstance(value, Request):
        return _restored(value, texts)
    if isinstance(value, list):
        return [_put(item, texts) for item in cast("JsonList", value)]
    return restore(value, texts)


def _not_json(body: bytes | bytearray, message: str) -> HttpError | InvalidRequestError:
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
        return path.lstrip(".") if _SURROGATE.search(value) else None
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
