"""What this process did since it began, counted where every transport passes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Activity:
    """Plain numbers; whoever publishes them reads them."""

    messages_appended: int = 0
    memories_stored: int = 0
    searches: int = 0
