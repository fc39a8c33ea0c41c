"""Where the stores are whose processes are killed."""

from __future__ import annotations

from tests.storage.places import place

__all__ = ["place"]
