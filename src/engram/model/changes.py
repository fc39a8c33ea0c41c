"""What other processes on the same store have done, as far as they say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from engram.model.ids import OrganizationId


@dataclass(frozen=True, slots=True)
class WorkAdded:
    """An organisation has something new to be worked on in the background."""

    organization_id: OrganizationId


@dataclass(frozen=True, slots=True)
class KeysChanged:
    """What is remembered of an organisation's keys holds no more; None is all organisations."""

    organization_id: OrganizationId | None


Change: TypeAlias = WorkAdded | KeysChanged
