"""The checks from which the constructors of `engram.model` are made."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError

_DIGITS_MAX = len(str(limits.WHOLE_NUMBER_MAX))


def check_text(field: str, value: str, *, bytes_max: int) -> None:
    """Refuse text that UTF-8 cannot carry or that is longer than `bytes_max`."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError as exc:
        message = f"character {exc.start} is a lone surrogate, which no UTF-8 text can hold"
        raise InvalidRequestError(message, field=field) from exc
    if size > bytes_max:
        raise LimitExceededError(field, limit=bytes_max, actual=size, unit="bytes")


def check_label(field: str, value: str | None, *, characters_max: int) -> None:
    """Refuse a label that is empty, too long, or holds characters nobody can see."""
    if value is None:
        return
    if not value:
        raise InvalidRequestError("must not be empty", field=field)
    if len(value) > characters_max:
        raise LimitExceededError(field, limit=characters_max, actual=len(value), unit="characters")
    if value.isprintable():
        return
    for character in value:
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
            message = f"must not contain the invisible character U+{ord(character):04X}"
            raise InvalidRequestError(message, field=field)


def check_tags(tags: Sequence[str]) -> None:
    """Refuse too many tags, repeated tags and tags that are not labels."""
    if len(tags) > limits.TAGS_MAX:
        raise LimitExceededError("tags", limit=limits.TAGS_MAX, actual=len(tags), unit="tags")
    for index, tag in enumerate(tags):
        check_label(f"tags[{index}]", tag, characters_max=limits.TAG_CHARACTERS_MAX)
    if len(set(tags)) != len(tags):
        raise InvalidRequestError("must not repeat a tag", field="tags")


def check_metadata(metadata: Mapping[str, Any] | None) -> None:
    """Refuse metadata that is too deep, too large, or not JSON."""
    if metadata is None:
        return
    depth = _depth(metadata)
    if depth > limits.METADATA_DEPTH_MAX:
        raise LimitExceededError(
            "metadata", limit=limits.METADATA_DEPTH_MAX, actual=depth, unit="levels"
        )
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InvalidRequestError("must be a JSON object", field="metadata") from exc
    check_text("metadata", text, bytes_max=limits.METADATA_BYTES_MAX)


def check_range(field: str, value: int, *, minimum: int, maximum: int) -> None:
    """Refuse a number outside `minimum` to `maximum`."""
    if not minimum <= value <= maximum:
        message = f"must be between {minimum:,} and {maximum:,}, got {value:,}"
        raise InvalidRequestError(message, field=field)


def parse_whole_number(field: str, text: str) -> int:
    """Return the number that `text` spells in decimal digits.

    Python refuses to convert more than 4,300 digits, so their count is checked before they are.

    Raises:
        InvalidRequestError: it is no number, or above `limits.WHOLE_NUMBER_MAX`.
    """
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    if not is_number or int(text) > limits.WHOLE_NUMBER_MAX:
        message = f"must be a whole number between 0 and {limits.WHOLE_NUMBER_MAX:,}"
        raise InvalidRequestError(message, field=field)
    return int(text)


def check_share(field: str, value: float | None) -> None:
    """Refuse a share outside 0 to 1."""
    if value is not None and not 0.0 <= value <= 1.0:
        raise InvalidRequestError(f"must be between 0 and 1, got {value}", field=field)


def check_choice(field: str, value: str, choices: Sequence[str]) -> None:
    """Refuse what is not among the choices."""
    if value not in choices:
        raise InvalidRequestError(f"must be one of {', '.join(choices)}", field=field)


def check_moment(field: str, value: datetime | None) -> None:
    """Refuse a moment that is not the same everywhere, or that has no date in UTC."""
    if value is None:
        return
    if value.tzinfo is None:
        raise InvalidRequestError("must have a time zone, such as a final Z", field=field)
    try:
        value.astimezone(UTC)
    except OverflowError as exc:
        raise InvalidRequestError("must lie in the years 1 to 9999, UTC", field=field) from exc


def _depth(value: object) -> int:
    """Return how deep `value` nests, without recursion: depth is the caller's."""
    deepest, stack = 0, [(value, 1)]
    while stack:
        item, level = stack.pop()
        deepest = max(deepest, level)
        if level > limits.METADATA_DEPTH_MAX:
            break
        if isinstance(item, Mapping):
            children = cast("Mapping[str, object]", item).values()
        elif isinstance(item, list):
            children = cast("list[object]", item)
        else:
            continue
        stack.extend((child, level + 1) for child in children)
    return deepest
