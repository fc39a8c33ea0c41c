"""Constraints of request fields: the checks, and the field types that requests share.

Descriptions are part of tool schemas: they are short because every session pays for them.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Mapping, Sequence, Sized
from datetime import UTC, datetime
from typing import Annotated, Any, cast

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError
from engram.model.shape import Kind, TakesDays

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


VISIBLE = (
    r"^[^\u0000-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+$"
)
"""`check_visible` as a pattern, as far as every regex dialect can express it."""

DEFAULT_PROJECT = "default"


class Between:
    """A number from `lowest` to `highest`, inclusive."""

    def __init__(self, lowest: int, highest: int) -> None:
        self.lowest, self.highest = lowest, highest

    def check(self, field: str, value: float) -> None:
        check_range(field, value, minimum=self.lowest, maximum=self.highest)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {"minimum": self.lowest, "maximum": self.highest}


class Length:
    """The length of a text in characters, or of a list in items."""

    def __init__(self, least: int, most: int | None = None, *, unit: str | None = None) -> None:
        self.least, self.most, self.unit = least, most, unit

    def check(self, field: str, value: Sized) -> None:
        length, unit = len(value), self.unit
        unit = unit or ("characters" if isinstance(value, str) else "items")
        if length < self.least:
            few = f"must have at least {self.least:,} {unit}, got {length:,}"
            raise InvalidRequestError(few if length else "must not be empty", field=field)
        if self.most is not None and length > self.most:
            raise LimitExceededError(field, limit=self.most, actual=length, unit=unit)

    def keywords(self, kind: Kind) -> Mapping[str, Any]:
        noun = "Items" if kind == "list" else "Length"
        given = {f"min{noun}": self.least or None, f"max{noun}": self.most}
        return {name: bound for name, bound in given.items() if bound is not None}


class Bytes:
    """The maximum length of a text in bytes of UTF-8."""

    def __init__(self, most: int) -> None:
        self.most = most

    def check(self, field: str, value: str) -> None:
        check_text(field, value, bytes_max=self.most)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {}


class Visible:
    """A text without invisible characters."""

    def check(self, field: str, value: str) -> None:
        check_visible(field, value)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {"pattern": VISIBLE}


class NotBlank:
    """A text that is more than whitespace."""

    def check(self, field: str, value: str) -> None:
        if not value or value.isspace():
            raise InvalidRequestError("must not be empty", field=field)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {"minLength": 1, "pattern": r"\S"}


class Unique:
    """A list without duplicates."""

    def check(self, field: str, value: Sequence[object]) -> None:
        if len(set(value)) != len(value):
            raise InvalidRequestError("must not contain duplicates", field=field)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {"uniqueItems": True}


class MetadataBounds:
    """A JSON object of bounded depth and size."""

    def check(self, field: str, value: Mapping[str, Any]) -> None:
        check_metadata(field, value)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {}


VISIBLE_ONLY = Visible()

Tag = Annotated[str, Length(1, limits.TAG_CHARACTERS_MAX), VISIBLE_ONLY]
Tags = Annotated[tuple[Tag, ...], Length(0, limits.TAGS_MAX, unit="tags"), Unique()]
Name = Annotated[str, Length(1, limits.NAME_CHARACTERS_MAX), VISIBLE_ONLY]
HomeName = Annotated[str, Length(1, limits.HOME_NAME_CHARACTERS_MAX), VISIBLE_ONLY]
Project = Annotated[str, Length(1, limits.PROJECT_CHARACTERS_MAX), VISIBLE_ONLY]
Source = Annotated[str, Length(1, limits.SOURCE_CHARACTERS_MAX), VISIBLE_ONLY]
Title = Annotated[str, Bytes(limits.TITLE_BYTES_MAX)]
Metadata = Annotated[Mapping[str, Any], MetadataBounds()]
Offset = Annotated[int, Between(0, limits.WHOLE_NUMBER_MAX)]
Count = Annotated[int, Between(0, limits.WHOLE_NUMBER_MAX)]
Share = Annotated[float, Between(0, 1)]
TokenBudget = Annotated[int, Between(limits.TOKEN_BUDGET_MIN, limits.TOKEN_BUDGET_MAX)]
Query = Annotated[
    str, NotBlank(), Bytes(limits.QUERY_BYTES_MAX), "A question or words, in any language."
]
DayOrMoment = Annotated[datetime, TakesDays()]
AskedAt = Annotated[datetime | None, 'What "yesterday" is counted from.']
