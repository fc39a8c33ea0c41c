"""What this process did since it began, counted where every transport passes."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Activity:
    """Plain numbers; whoever publishes them reads them."""

    messages_appended: int = 0
    memories_stored: int = 0
    searches: int = 0
    audit_lost: int = 0
    """Audit events that could not be kept or sent on; each is told of in the log."""
    begun: int = 0
    """Appends and searches, whatever became of them."""
    in_flight: int = 0
    """Those of them that have not ended."""

    @contextmanager
    def answering(self) -> Generator[None]:
        """Count a caller who waits until the block ends."""
        self.begun += 1
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
