"""Stores of both backends, as the storage tests have them."""

from __future__ import annotations

from tests.storage.conftest import build_store, clock, organization, store

__all__ = ["build_store", "clock", "organization", "store"]
"""Fixtures of other modules."""
