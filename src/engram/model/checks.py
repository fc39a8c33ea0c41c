"""Validators of single values, and suggestions for misspelled names."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError

_DIGITS_MAX = len(str(limits.WHOLE_NUMBER_MAX))


def check_text(field: str, value: str, *, bytes_max: int) -> None:
    """Reject text that is not encodable as UTF-8 or is longer than `bytes_max`."""
    try:
        size = len(value.encode())
    except UnicodeEncodeError as exc:
        message = f"character {exc.start} is a lone surrogate, which UTF-8 cannot encode"
        raise InvalidRequestError(message, field=field) from exc
    if size > bytes_max:
        raise LimitExceededError(field, limit=bytes_max, actual=size, unit="bytes")


def check_label(field: str, value: str | None, *, characters_max: int) -> None:
    """Reject a label that is empty, too long, or contains invisible characters."""
    if value is None:
        return
    if not value:
        raise InvalidRequestError("must not be empty", field=field)
    if len(value) > characters_max:
        raise LimitExceededError(field, limit=characters_max, actual=len(value), unit="characters")
    check_visible(field, value)


def check_visible(field: str, value: str) -> None:
    """Reject text with invisible characters: controls, formats, surrogates, separators."""
    if value.isprintable():
        return
    for character in value:
        if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
            message = f"must not contain the invisible character U+{ord(character):04X}"
            raise InvalidRequestError(message, field=field)


def check_metadata(field: str, metadata: Mapping[str, Any]) -> None:
    """Reject metadata that is nested too deep, too large, or not JSON."""
    depth = _depth(metadata)
    if depth > limits.METADATA_DEPTH_MAX:
        raise LimitExceededError(
            field, limit=limits.METADATA_DEPTH_MAX, actual=depth, unit="levels"
        )
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InvalidRequestError("must be a JSON object", field=field) from exc
    check_text(field, text, bytes_max=limits.METADATA_BYTES_MAX)


def check_range(field: str, value: float, *, minimum: int, maximum: int) -> None:
    """Reject a number outside `minimum` to `maximum`."""
    if not minimum <= value <= maximum:
        message = f"must be between {minimum:,} and {maximum:,}, got {value:,}"
        raise InvalidRequestError(message, field=field)


def parse_whole_number(field: str, text: str) -> int:
    """Parse a non-negative decimal integer.

    The length is checked first: `int` raises ValueError above 4,300 digits.

    Raises:
        InvalidRequestError: it is not a number, or above `limits.WHOLE_NUMBER_MAX`.
    """
    is_number = text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
    if not is_number or int(text) > limits.WHOLE_NUMBER_MAX:
        message = f"must be a whole number between 0 and {limits.WHOLE_NUMBER_MAX:,}"
        raise InvalidRequestError(message, field=field)
    return int(text)


def check_choice(field: str, value: object, choices: Sequence[str]) -> None:
    """Reject a value that is not one of `choices`."""
    if value not in choices:
        raise InvalidRequestError(f"must be one of {', '.join(choices)}", field=field)


def check_moment(field: str, value: datetime | None) -> None:
    """Reject a naive timestamp, or one that falls outside the years 1 to 9999 in UTC."""
    if value is None:
        return
    if value.tzinfo is None:
        raise InvalidRequestError("must have a time zone, such as a final Z", field=field)
    try:
        value.astimezone(UTC)
    except OverflowError as exc:
        raise InvalidRequestError("must lie in the years 1 to 9999, UTC", field=field) from exc


def _depth(value: object) -> int:
    """Return the nesting depth of `value`, with a stack: the caller controls the depth."""
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


SHOWN_CHARACTERS_MAX = 100
"""Longest name from a request that is repeated in an error message."""


def nearest(name: str, known: Collection[str]) -> str:
    """Return a hint with the closest known name, or with all of them if none is close."""
    from difflib import get_close_matches  # noqa: PLC0415 few sessions mistake a name

    if close := get_close_matches(shortened(name), known, n=1):
        return f"did you mean {close[0]}?"
    return f"there are {', '.join(known)}" if known else "there are none"


def is_near(name: str, known: str) -> bool:
    """Return True if `name` may be a misspelling of a known name."""
    from difflib import get_close_matches  # noqa: PLC0415 few sessions mistake a name

    return bool(get_close_matches(shortened(name), [known], n=1))


def shortened(name: str) -> str:
    """Return `name`, truncated if it is too long for an error message."""
    if len(name) <= SHOWN_CHARACTERS_MAX:
        return name
    return name[:SHOWN_CHARACTERS_MAX] + "…"
