"""Logs on stderr, one line a record, for people or for programs, without keys or content.

Callers choose paths, names and the text of exceptions. The formatters escape all of it, so nothing in
a message or an exception can begin a line of its own.
"""

from __future__ import annotations

import json
import logging.config
from datetime import UTC, datetime
from typing import Any

from engram.clock import format_time
from engram.settings import LogLevel, Settings

SERVER_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
COMMAND_FORMAT = "%(levelname)s %(name)s: %(message)s"

QUIET = ("asyncio", "psycopg", "uvicorn")
"""Libraries whose progress matters only to those who debug."""

INDISCREET = ("mcp", "sse_starlette")
"""Libraries that at level debug log what clients send, word for word."""

_CONTINUED = "\n  | "
"""Begins each line of a traceback, and never a record."""


def configure_logging(settings: Settings) -> None:
    """Configure the logging of this process."""
    logging.config.dictConfig(log_config(settings))


def log_config(settings: Settings) -> dict[str, Any]:
    """Return what `logging.config.dictConfig` takes, in this process and in every worker."""
    formatter = JsonLines if settings.log_format == "json" else PlainLines
    level = settings.log.upper()
    # The server's own chatter about processes and connections is for those who debug; its access
    # log stays off for good, because it would hold queries. Ours is at level debug without them.
    third_party = level if settings.log in {"debug", "error"} else "WARNING"
    quiet = {name: {"level": third_party} for name in QUIET}
    discreet = {name: {"level": third_party.replace("DEBUG", "INFO")} for name in INDISCREET}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": formatter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {**quiet, **discreet},
    }


def log_to_stderr(level: LogLevel) -> None:
    """Log `level` and above, so that stdout holds a command's answer alone; the first call decides."""
    stderr = logging.StreamHandler()
    stderr.setFormatter(PlainLines(COMMAND_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[stderr])


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
