"""Turn values of foreign records into fields of ours: texts, times, labels."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from engram import limits
from engram.sources.lines import parse_value

_SECONDS_MAX = 100_000_000_000
"""A greater number of a timestamp counts milliseconds: as seconds it would be the year 5138."""

_MILLISECONDS_MAX = _SECONDS_MAX * 1_000
"""A greater one counts microseconds."""


def as_text(value: object) -> str | None:
    """Return a non-empty text, None for anything else."""
    return value if isinstance(value, str) and value else None


def as_list(value: object) -> list[Any]:
    """Return a list, an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_record(value: object) -> dict[str, Any]:
    """Return an object, an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def encodable(text: str) -> str:
    """Return a text with halves of surrogate pairs replaced, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def label_of(value: object, *, characters_max: int = limits.NAME_CHARACTERS_MAX) -> str | None:
    """Return a name that our fields accept, None if it is none of these."""
    text = as_text(value)
    if text is None or len(text) > characters_max or not text.isprintable():
        return None
    return text


def labels_of(values: object) -> tuple[str, ...]:
    """Return the tags in a list, or in a text that is a JSON list or separated by commas."""
    if isinstance(values, str):
        values = parse_value(values) if values.startswith("[") else values.split(",")
    found = (label_of(each.strip()) for each in as_list(values) if isinstance(each, str))
    return tuple(dict.fromkeys(each for each in found if each))


def digest_of(*parts: str) -> str:
    """Return an id for something that consists of these parts and has none."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def first_line(text: str, *, characters_max: int = limits.SESSION_TITLE_CHARACTERS) -> str | None:
    """Return the beginning of a text's first line with words, as a title."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    words = " ".join(line.split())
    return (words if len(words) <= characters_max else words[: characters_max - 1] + "…") or None


def moment_of(value: object) -> datetime | None:
    """Return a time given in ISO 8601, or as a number since 1970; None if it is no time.

    A time without a zone counts as UTC.
    """
    try:
        if isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            return _moment_of_number(value)
        if isinstance(value, str):
            return _moment_of_text(value)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _moment_of_number(value: float) -> datetime | None:
    if not value > 0:
        return None
    scale = 1 if value < _SECONDS_MAX else 1_000 if value < _MILLISECONDS_MAX else 1_000_000
    return datetime.fromtimestamp(value / scale, UTC)


def _moment_of_text(value: str) -> datetime | None:
    text = value.strip()
    if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdecimal():
        return _moment_of_number(float(text))
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def to_json(value: object) -> str:
    """Serialize the arguments of a tool call."""
    return json.dumps(value, ensure_ascii=False)


def joined_texts(value: object, *keys: str) -> str:
    """Return a text, or the texts in a list of parts, each a string or under one of the keys."""
    if isinstance(value, str):
        return value
    return "\n".join(_texts(as_list(value), keys or ("text",)))


def _texts(parts: Sequence[Any], keys: Sequence[str]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        else:
            found = (as_text(as_record(part).get(key)) for key in keys)
            yield from (text for text in found if text is not None)
