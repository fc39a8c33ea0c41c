"""Constraints of request fields, and the field types that requests share.

Descriptions are part of tool schemas: they are short because every session pays for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from datetime import datetime
from typing import Annotated, Any

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError
from engram.model import checks
from engram.model.shape import Kind, TakesDays

VISIBLE = (
    r"^[^\u0000-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+$"
)
"""`checks.check_visible` as a pattern, as far as every regex dialect can express it."""

DEFAULT_PROJECT = "default"


class Between:
    """A number from `lowest` to `highest`, inclusive."""

    def __init__(self, lowest: int, highest: int) -> None:
        self.lowest, self.highest = lowest, highest

    def check(self, field: str, value: float) -> None:
        checks.check_range(field, value, minimum=self.lowest, maximum=self.highest)

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
        checks.check_text(field, value, bytes_max=self.most)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {}


class Visible:
    """A text without invisible characters."""

    def check(self, field: str, value: str) -> None:
        checks.check_visible(field, value)

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
        checks.check_metadata(field, value)

    def keywords(self, _kind: Kind) -> Mapping[str, Any]:
        return {}


VISIBLE_ONLY = Visible()

Tag = Annotated[str, Length(1, limits.TAG_CHARACTERS_MAX), VISIBLE_ONLY]
Tags = Annotated[tuple[Tag, ...], Length(0, limits.TAGS_MAX, unit="tags"), Unique()]
Name = Annotated[str, Length(1, limits.NAME_CHARACTERS_MAX), VISIBLE_ONLY]
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
