"""The server's log: one line each on stderr, for people or for programs, without keys or content."""

from __future__ import annotations

import logging.config
from typing import Any

from engram.settings import Settings
from engram.transport.log_lines import JsonLines, PlainLines

QUIET = ("asyncio", "psycopg", "uvicorn")
"""Libraries whose progress only those who debug care about."""

INDISCREET = ("mcp", "sse_starlette")
"""Libraries that at level debug log what clients send, word for word."""


def configure_logging(settings: Settings) -> None:
    """Let this process log as `settings` say."""
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
