"""How each field of an exported file is read: a value of another type is an error, named."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from engram.clock import NANOID_LENGTH
from engram.errors import InvalidRequestError

T = TypeVar("T")
Reader = Callable[[Any], Any]


def read_value(kind: type[T], values: object) -> T:
    """Return a value of a dataclass whose fields are all given, and no others.

    Raises:
        InvalidRequestError: one is missing, unknown, or of another type.
    """
    given = mapping(values)
    names = {each.name for each in fields(cast("Any", kind))}
    if unknown := sorted(given.keys() - names):
        raise InvalidRequestError("is not known", field=unknown[0])
    if missing := sorted(names - given.keys()):
        raise InvalidRequestError("is missing", field=missing[0])
    return kind(**{name: read_field(name, value) for name, value in given.items()})


def read_field(name: str, value: object) -> Any:
    """Return the value of one field.

    Raises:
        InvalidRequestError: it is of another type.
    """
    try:
        return READERS[name](value)
    except (TypeError, ValueError) as exc:
        raise InvalidRequestError("has a wrong value", field=name) from exc


def mapping(value: object) -> Mapping[str, Any]:
    """Return a value that must be a mapping."""
    if not isinstance(value, dict):
        raise InvalidRequestError("is no mapping")
    return cast("Mapping[str, Any]", value)


def items(value: object) -> list[Any]:
    """Return a value that must be a list."""
    if not isinstance(value, list):
        raise InvalidRequestError("is no list")
    return cast("list[Any]", value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _moment(value: object) -> datetime:
    moment = datetime.fromisoformat(_text(value))
    if moment.tzinfo is None:
        raise ValueError
    return moment.astimezone(UTC)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _tags(value: object) -> tuple[str, ...]:
    return tuple(map(_text, items(value)))


def _id(prefix: str) -> Reader:
    pattern = re.compile(rf"{prefix}[A-Za-z0-9_-]{{{NANOID_LENGTH}}}")

    def read(value: object) -> str:
        if not pattern.fullmatch(_text(value)):
            raise ValueError
        return cast("str", value)

    return read


def _or_none(read: Reader) -> Reader:
    return lambda value: None if value is None else read(value)


def _own_id(value: object) -> str:
    """Return the id of a memory, a relation or an episode: each field of this name has its prefix."""
    for prefix in ("mem_", "rel_", "ep_"):
        if _text(value).startswith(prefix):
            return _id(prefix)(value)
    raise ValueError


READERS: Mapping[str, Reader] = {
    "id": _own_id,
    "content": _text,
    "memory_type": _text,
    "category": _text,
    "source": _text,
    "importance": _whole,
    "tags": _tags,
    "project": _text,
    "immutable": _truth,
    "episode_id": _or_none(_id("ep_")),
    "pattern_confidence": _or_none(_number),
    "valid_from": _or_none(_moment),
    "valid_to": _or_none(_moment),
    "expires_at": _or_none(_moment),
    "storage_mode": _text,
    "document_id": _or_none(_id("doc_")),
    "content_hash": _text,
    "summary": _or_none(_text),
    "version": _whole,
    "created_at": _moment,
    "updated_at": _moment,
    "is_searched": _truth,
    "reason": _or_none(_text),
    "source_id": _id("mem_"),
    "target_id": _id("mem_"),
    "relation_type": _text,
    "strength": _number,
    "description": _text,
    "started_at": _moment,
    "ended_at": _or_none(_moment),
    "memories": _whole,
    "change": _text,
    "actor": _text,
}
