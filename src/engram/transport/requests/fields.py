"""The fields that requests are made of: their shapes, bounds and descriptions.

Field descriptions are read by models at work; they are short because every client pays for them.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, Field, GetJsonSchemaHandler, Strict
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from engram import limits

VISIBLE = (
    r"^[^\u0000-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f"
    r"\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+$"
)
"""What `engram.model.checks.check_label` lets pass, as far as every dialect of patterns can say it."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class Documented:
    """Adds to the schema of a type what `engram.model` refuses without pydantic's help."""

    def __init__(self, **keywords: Any) -> None:
        self._keywords = keywords

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), **self._keywords}


def _moment(value: object) -> object:
    """Read a time of RFC 3339; pydantic's own reading takes numbers for seconds since 1970."""
    try:
        return datetime.fromisoformat(value.upper()) if isinstance(value, str) else value
    except ValueError as exc:
        message = "must be a time such as 2026-01-02T03:04:05Z"
        raise PydanticCustomError("moment", message) from exc


def _day_or_moment(value: object) -> object:
    """Read a date as the beginning of that day in UTC, else a time of RFC 3339."""
    is_day = isinstance(value, str) and _DAY.fullmatch(value) is not None
    return _moment(f"{value}T00:00:00Z" if is_day else value)


def _whole(value: object) -> object:
    """Read 5.0 as 5, which are one number in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


LABEL = Documented(pattern=VISIBLE)
WHOLE = BeforeValidator(_whole)

Tag = Annotated[str, Field(min_length=1, max_length=limits.TAG_CHARACTERS_MAX), LABEL]
Tags = Annotated[list[Tag], Field(max_length=limits.TAGS_MAX), Documented(uniqueItems=True)]
Name = Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARACTERS_MAX), LABEL]
Project = Annotated[str, Field(min_length=1, max_length=limits.PROJECT_CHARACTERS_MAX), LABEL]
Source = Annotated[str, Field(min_length=1, max_length=limits.SOURCE_CHARACTERS_MAX), LABEL]
Offset = Annotated[int, Field(ge=0, le=limits.WHOLE_NUMBER_MAX), WHOLE]
Share = Annotated[float, Field(ge=0, le=1)]
TokenBudget = Annotated[int, Field(ge=limits.TOKEN_BUDGET_MIN, le=limits.TOKEN_BUDGET_MAX), WHOLE]
Query = Annotated[
    str,
    Field(min_length=1, description="A question or words, in any language."),
    Documented(pattern=r"\S"),
]
Moment = Annotated[AwareDatetime, Strict(), BeforeValidator(_moment)]
DayOrMoment = Annotated[AwareDatetime, Strict(), BeforeValidator(_day_or_moment)]
