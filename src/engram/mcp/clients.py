"""Logs each client once: its name and version, when it is first heard of."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from engram import limits
from engram.bodies.lines import as_object
from engram.model.fields import shortened

INFO_KEY = "io.modelcontextprotocol/clientInfo"
"""Where a message of the later era has what `initialize` says in the other one."""

logger = logging.getLogger(__name__)


class ClientLog:
    """The clients that were heard of since the process started."""

    def __init__(self) -> None:
        self._known = dict[tuple[str, str], None]()

    def note(self, params: Mapping[str, Any] | None) -> None:
        """Log the client that sent a message with these parameters, unless it is known."""
        given = params or {}
        info = given.get("clientInfo") or as_object(given.get("_meta")).get(INFO_KEY)
        name, version = (as_object(info).get(part) for part in ("name", "version"))
        if not isinstance(name, str):
            return
        client = shortened(name), shortened(version) if isinstance(version, str) else ""
        if client in self._known:
            return
        self._known[client] = None
        if len(self._known) > limits.CLIENTS_NOTED_MAX:
            del self._known[next(iter(self._known))]
        logger.info("client %s connected", " ".join(part for part in client if part))
