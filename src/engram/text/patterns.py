"""What people look for in texts: regular expressions that take linear time, and plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from engram.errors import InvalidRequestError, LimitExceededError
from engram.limits import REGEX_CHARACTERS_MAX, REGEX_STEPS_MAX, SUBSTRING_CHARACTERS_MAX
from engram.model.checks import check_text

if TYPE_CHECKING:
    import re2

SLICE_BYTES_MAX = 262_144
"""Of text looked through at once, unless a pattern is so large that this could take seconds."""

SLICE_BYTES_MIN = 16_384
REACH_BYTES = 8_192
"""A match of a regular expression is seen whole up to here; what is longer may be seen as several."""

_STEPS_PER_SLICE = 64_000_000
"""The most a slice may take: each byte may have to be compared at every step of a pattern."""

_MEMORY_BYTES = 8 * 1024 * 1024
_FOUR_BYTES = 4


class Pattern(Protocol):
    """Something to look for in UTF-8."""

    @property
    def slice_bytes(self) -> int:
        """How much text is looked through at once; more than `reach_bytes`."""
        ...

    @property
    def reach_bytes(self) -> int:
        """How much text after the start of a match decides about it."""
        ...

    def find(self, data: bytearray, start: int, end: int) -> tuple[int, int] | None:
        """Return where the first match between two places is; text around them is looked at too."""
        ...


@dataclass(frozen=True, slots=True)
class Substring:
    """A text that is found as it is written."""

    needle: bytes
    slice_bytes: int = SLICE_BYTES_MAX

    @property
    def reach_bytes(self) -> int:
        return len(self.needle)

    def find(self, data: bytearray, start: int, end: int) -> tuple[int, int] | None:
        found = data.find(self.needle, start, end)
        return None if found < 0 else (found, found + len(self.needle))


@dataclass(frozen=True, slots=True)
class Regex:
    """A regular expression in the syntax of RE2."""

    compiled: re2._Regexp  # pyright: ignore[reportPrivateUsage]: the library names no other
    slice_bytes: int
    reach_bytes: int = REACH_BYTES

    def find(self, data: bytearray, start: int, end: int) -> tuple[int, int] | None:
        found = self.compiled.search(data, start, end)
        return None if found is None else found.span()


def substring(text: str, *, field: str) -> Substring:
    """Return what finds a text, letter by letter.

    Raises:
        InvalidRequestError: it is empty, too long, or cannot stand in UTF-8.
    """
    if not text:
        raise InvalidRequestError("must not be empty", field=field)
    _check_length(text, SUBSTRING_CHARACTERS_MAX, field=field)
    return Substring(text.encode())


def regex(pattern: str, *, field: str) -> Regex:
    """Return what finds a regular expression in linear time.

    Raises:
        InvalidRequestError: it is empty, too long, too complex, or no regular expression.
    """
    import re2  # noqa: PLC0415 most processes never need it

    if not pattern:
        raise InvalidRequestError("must not be empty", field=field)
    _check_length(pattern, REGEX_CHARACTERS_MAX, field=field)
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as exc:
        raise InvalidRequestError(f"is not valid: {_reason(exc)}", field=field) from exc
    finally:
        # The library would keep every pattern, with megabytes of states.
        re2.purge()
    steps = compiled.programsize
    if steps > REGEX_STEPS_MAX:
        message = f"is too complex: it has {steps:,} steps, at most {REGEX_STEPS_MAX:,} are allowed"
        raise InvalidRequestError(message, field=field)
    slice_bytes = min(max(_STEPS_PER_SLICE // steps, SLICE_BYTES_MIN), SLICE_BYTES_MAX)
    return Regex(compiled, slice_bytes)


def _check_length(text: str, characters_max: int, *, field: str) -> None:
    if len(text) > characters_max:
        raise LimitExceededError(field, limit=characters_max, actual=len(text), unit="characters")
    check_text(field, text, bytes_max=characters_max * _FOUR_BYTES)


def _reason(error: Exception) -> str:
    """Return what the library says, which it says in bytes."""
    (reason,) = error.args
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
