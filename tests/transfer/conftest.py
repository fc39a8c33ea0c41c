"""Stores of both backends, as the storage tests have them."""

from __future__ import annotations

from tests.storage.conftest import build_store, clock, organization, place, store

__all__ = ["build_store", "clock", "organization", "place", "store"]
"""Fixtures of other modules."""
