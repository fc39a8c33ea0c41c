"""Moments as people type and read them; without a time zone they are in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from engram.errors import InvalidRequestError

MOMENT_HELP = "a date, RFC 3339, or a span such as 90m, 24h, 7d, 2w"

_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def past_moment(flag: str, text: str | None, *, now: datetime) -> datetime | None:
    """Return the moment that `text` means; a span of time is counted back from now.

    Raises:
        InvalidRequestError: it means none.
    """
    return None if text is None else _moment(flag, text, now=now, direction=-1)


def future_moment(flag: str, text: str | None, *, now: datetime) -> datetime | None:
    """Return the moment that `text` means; a span of time is counted from now on.

    Raises:
        InvalidRequestError: it means none.
    """
    return None if text is None else _moment(flag, text, now=now, direction=1)


def span(flag: str, text: str) -> timedelta:
    """Return the span of time that `text` means.

    Raises:
        InvalidRequestError: it means none.
    """
    if parsed := _SPAN.fullmatch(text):
        return int(parsed[1]) * _UNITS[parsed[2]]
    raise InvalidRequestError("must be a span such as 90m, 24h, 7d, 2w", field=flag)


def _moment(flag: str, text: str, *, now: datetime, direction: int) -> datetime:
    try:
        if _SPAN.fullmatch(text):
            return now + direction * span(flag, text)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as exc:
        raise InvalidRequestError(f"must be {MOMENT_HELP}", field=flag) from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def short_time(moment: str) -> str:
    """Return an RFC 3339 time of ours to the minute, as people read it."""
    return moment[:16].replace("T", " ") + "Z"
