"""Time and identifiers, behind ports so that tests can hold them still."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Protocol

NANOID_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
NANOID_LENGTH = 21


class Clock(Protocol):
    """A source of the present moment."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        ...


class IdSource(Protocol):
    """A source of identifiers that never repeats."""

    def new(self, prefix: str) -> str:
        """Return `prefix` followed by a 21-character URL-safe nanoid."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class RandomIds:
    """Identifiers from the operating system's randomness."""

    def new(self, prefix: str) -> str:
        return prefix + random_text(NANOID_LENGTH)


def random_text(length: int) -> str:
    """Return `length` unguessable URL-safe characters."""
    return "".join(NANOID_ALPHABET[byte & 63] for byte in secrets.token_bytes(length))


def to_microseconds(moment: datetime) -> int:
    """Return `moment` as microseconds since 1970, the form stores keep."""
    delta = moment - _EPOCH
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def from_microseconds(value: int) -> datetime:
    """Return the moment that `to_microseconds` turned into `value`."""
    return _EPOCH + timedelta(0, 0, value)


def format_time(moment: datetime) -> str:
    """Return RFC 3339 in UTC with `Z` and microseconds."""
    # Unlike strftime this writes the year 33 as 0033, and takes half the time.
    return moment.astimezone(UTC).isoformat("T", "microseconds")[: -len("+00:00")] + "Z"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
