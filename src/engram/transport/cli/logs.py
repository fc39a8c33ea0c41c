"""Where a command's log goes: stderr, so that stdout holds the answer alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from engram.transport.log_lines import COMMAND_FORMAT, PlainLines

if TYPE_CHECKING:
    from engram.settings import LogLevel


def log_to_stderr(level: LogLevel) -> None:
    """Log `level` and what is more severe, one line each; the first call decides."""
    stderr = logging.StreamHandler()
    stderr.setFormatter(PlainLines(COMMAND_FORMAT))
    logging.basicConfig(level=level.upper(), handlers=[stderr])
