"""A fault in an organisation's store: how it is reported, and how it is repaired."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engram.model.status import CheckName
from engram.storage.tenant import Transaction


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong with the stored data."""

    check: CheckName
    """The check that it is reported under."""
    message: str
    is_repairable: bool = False
    """Whether the right value can be derived from other data."""
    repair: Callable[[Transaction], None] | None = None
    """Repairs this fault alone; without it, all faults of the check are repaired together."""
