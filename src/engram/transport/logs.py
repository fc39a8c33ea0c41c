"""The server's log: one line each on stderr, for people or for programs, without keys or content."""

from __future__ import annotations

import json
import logging
import logging.config
from datetime import UTC, datetime
from typing import Any

from engram.clock import format_time
from engram.settings import Settings

QUIET = ("asyncio", "psycopg", "uvicorn")
"""Libraries whose progress only those who debug care about."""

INDISCREET = ("mcp", "sse_starlette")
"""Libraries that at level debug log what clients send, word for word."""

PLAIN_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """A record as one JSON object on one line."""

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
        return json.dumps(line, ensure_ascii=False)


def configure_logging(settings: Settings) -> None:
    """Let this process log as `settings` say."""
    logging.config.dictConfig(log_config(settings))


def log_config(settings: Settings) -> dict[str, Any]:
    """Return what `logging.config.dictConfig` takes, in this process and in every worker."""
    is_json = settings.log_format == "json"
    formatter = {"()": JsonLines} if is_json else {"format": PLAIN_FORMAT}
    level = settings.log.upper()
    # The server's own chatter about processes and connections is for those who debug; its access
    # log stays off for good, because it would hold queries. Ours is at level debug without them.
    third_party = level if settings.log in {"debug", "error"} else "WARNING"
    quiet = {name: {"level": third_party} for name in QUIET}
    discreet = {name: {"level": third_party.replace("DEBUG", "INFO")} for name in INDISCREET}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"level": level, "handlers": ["stderr"]},
        "loggers": {**quiet, **discreet},
    }
