"""Log records as single lines: nothing in a message or an exception can begin a line of its own.

Callers choose paths, names and the text of exceptions. The formatters escape all of it here, so that
no logger call has to.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from engram.clock import format_time

SERVER_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
COMMAND_FORMAT = "%(levelname)s %(name)s: %(message)s"

_CONTINUED = "\n  | "
"""Begins each line of a traceback, and never a record."""


class PlainLines(logging.Formatter):
    """A record on one line; the lines of a traceback follow, each behind a bar."""

    def __init__(self, fmt: str = SERVER_FORMAT) -> None:
        super().__init__(fmt)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 logging's own name
        return escape(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 logging's own name
        return _continued(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 logging's own name
        return _continued(super().formatStack(stack_info))


class JsonLines(logging.Formatter):
    """A record as one JSON object on one line of ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": format_time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        # JSON itself leaves line separators and marks of direction as they are.
        return json.dumps(line, ensure_ascii=True)


def escape(text: str) -> str:
    """Return `text` with every character escaped that ends a line, is obeyed, or cannot be seen."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    # A lone surrogate has no other spelling in ASCII either.
    return character.encode("unicode_escape").decode()


def _continued(text: str) -> str:
    lines = (escape(line) for line in text.split("\n"))
    return _CONTINUED.removeprefix("\n") + _CONTINUED.join(lines)
