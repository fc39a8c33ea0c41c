"""Notifications that processes on the same store send each other."""

from __future__ import annotations

from typing import TypeAlias

from engram.model.ids import OrganizationId
from engram.model.value import Value


class WorkAdded(Value, kw_only=False):
    """An organisation has new background work."""

    organization_id: OrganizationId


class KeysChanged(Value, kw_only=False):
    """Cached keys of an organisation are stale; None means those of all organisations."""

    organization_id: OrganizationId | None


Change: TypeAlias = WorkAdded | KeysChanged
